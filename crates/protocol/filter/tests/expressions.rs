//! What is refused, with the place it points at; and filters too long for a short jump, or for the
//! kernel.

use lineside_filter::{Filter, FilterError, Program};
use lineside_wire::build::{FrameBuilder, TcpFields};

fn refused(expression: &str) -> FilterError {
    Filter::parse(expression).expect_err(expression)
}

#[test]
fn refused_words_are_named_with_their_place() {
    let cases = [
        ("tcp and gateway x", "gateway", "'gateway' is not supported"),
        (
            "tcp prot 80",
            "prot",
            "is a qualifier such as 'host' or 'port' missing",
        ),
        ("frobnicate", "frobnicate", "supported: host, net"),
        ("host server1", "server1", "names are not resolved"),
        ("host 10.0.0.256", "10.0.0.256", "no address"),
        ("host 10.0.0.0/8", "/", "only 'net' takes a mask"),
        ("net 10.0.0.1/8", "8", "bits set that its mask leaves out"),
        ("net 10.0.0.0/33", "33", "a number of bits, at most 32"),
        ("net 2001:db8::/129", "129", "at most 128"),
        ("ip6 host 10.0.0.1", "10.0.0.1", "which 'ip6' does not have"),
        ("ip host ::1", "::1", "which 'ip' does not have"),
        (
            "host 02:00:00:00:00:01",
            "02:00:00:00:00:01",
            "write 'ether host'",
        ),
        ("port gopher", "gopher", "give its number"),
        (
            "tcp port 2049 and hst 10.0.0.1",
            "hst",
            "did you mean 'host'?",
        ),
        ("port 65536", "65536", "no port"),
        ("portrange 5-x", "5-x", "no range of ports"),
        ("icmp port 5", "port", "'icmp' has no ports"),
        ("src proto 6", "proto", "no src and no dst"),
        ("ip proto 256", "256", "at most 255"),
        ("vlan 4096", "4096", "at most 4095"),
        ("tcp[0:3] = 1", "3", "1, 2 or 4"),
        ("tcp[300000] = 1", "300000", "less than 262144"),
        ("tcp[0", "", "']' is missing"),
        ("tcp[0] + 1", "", "a comparison"),
        ("len / 0 = 1", "/", "division by 0"),
        ("len << 32 = 1", "<<", "31 bits"),
        ("len = 5-3", "5-3", "blanks around"),
        ("len = 4294967296", "4294967296", "32 bits"),
        ("(tcp or udp", "", "')' is missing"),
        ("tcp)", ")", "'and', 'or' or the end"),
        ("tcp and", "", "ends where something should follow"),
        ("tcp or 80", "80", "'80' is not known"),
        ("tcp # udp", "#", "means nothing"),
        ("host é", "é", "means nothing"),
        ("ether", "", "'ether' needs"),
    ];
    for (expression, word, what) in cases {
        let error = refused(expression);
        assert_eq!(&expression[error.place()], word, "{expression}: {error}");
        assert!(error.to_string().contains(what), "{expression}: {error}");
    }
}

#[test]
fn the_mark_stands_below_the_word() {
    let error = refused("tcp\tport 80 and gateway foo").to_string();
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(lines[1], "    tcp port 80 and gateway foo");
    assert_eq!(lines[2], "                    ^^^^^^^");
    // Of a long one, a part is shown.
    let long = format!("{} gateway foo", "tcp or ".repeat(100));
    let error = refused(&long).to_string();
    let lines: Vec<_> = error.lines().collect();
    let mark = lines[2].find('^').expect("a mark");
    assert!(
        lines[1].len() < 200 && lines[1][mark..].starts_with("gateway"),
        "{error}"
    );
}

#[test]
fn fields_that_a_link_type_lacks_are_refused_when_met() {
    let filter = Filter::parse("tcp and ether host 2:0:0:0:0:1").expect("is right");
    assert!(filter.compile(1).is_ok());
    let error = filter
        .compile(101)
        .expect_err("raw IP has no Ethernet header");
    assert_eq!(error.place(), 19..30);
    assert!(Filter::parse("vlan").expect("is right").compile(0).is_err());
    assert!(!Filter::knows(147));
    assert!(filter.compile(147).is_err());
}

/// A chain of conditions that a frame meets only at its end, or never.
fn chain(of: impl Fn(usize) -> String, with: &str, len: usize) -> String {
    (0..len).map(of).collect::<Vec<_>>().join(with)
}

#[test]
fn chains_beyond_a_short_jump_work() {
    let frames = FrameBuilder::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let fields = TcpFields {
        source_port: 700,
        destination_port: 1999,
        ..TcpFields::default()
    };
    let frame = frames.tcp(&fields, b"");
    let takes = |program: &Program| program.matches(&frame, frame.len() as u32);
    let compiled =
        |expression: &str| Filter::parse(expression).and_then(|filter| filter.compile(1));
    for len in [1, 10, 30, 50, 86, 100, 150] {
        let any = chain(
            |at| format!("tcp dst port {}", 1999 + 1 - len + at),
            " or ",
            len,
        );
        let program = compiled(&any).expect("fits");
        assert!(takes(&program), "{len} ports, the last one is right");
        assert_eq!(program.instructions().len() > 256, len >= 30);
        let none = chain(|at| format!("tcp dst port {}", 2000 + at), " or ", len);
        assert!(!takes(&compiled(&none).expect("fits")));
        assert!(takes(
            &compiled(&format!("not ({none}) and src port 700")).expect("fits")
        ));
        let all = chain(|at| format!("not tcp port {}", 2000 + at), " and ", len);
        assert!(takes(&compiled(&all).expect("fits")));
        assert!(!takes(
            &compiled(&format!("{all} and src port 701")).expect("fits")
        ));
    }
    let error = compiled(&chain(|at| format!("port {at}"), " or ", 1000)).expect_err("is too long");
    assert!(
        error.to_string().contains("more than 4096 instructions"),
        "{error}"
    );
}

#[test]
fn expressions_nested_too_deep_are_refused() {
    let deep = |len: usize| format!("{}tcp{}", "(".repeat(len), ")".repeat(len));
    assert!(Filter::parse(&deep(100)).is_ok());
    assert!(
        refused(&deep(101))
            .to_string()
            .contains("nested more than 100")
    );
    assert!(
        refused(&"not ".repeat(100_000))
            .to_string()
            .contains("nested")
    );
    assert!(refused(&"-".repeat(100_000)).to_string().contains("nested"));
    let chain = "tcp or udp and ".repeat(10_000) + "ip";
    assert!(refused(&chain).to_string().contains("500 changes"));
    // Sixteen numbers are remembered, one for each operand that waits for those before it.
    let sum = |len: usize| format!("{}len = 1", "len + ".repeat(len));
    assert!(
        Filter::parse(&sum(16))
            .and_then(|filter| filter.compile(1))
            .is_ok()
    );
    let error = Filter::parse(&sum(17)).and_then(|filter| filter.compile(1));
    assert!(
        error
            .expect_err("is too deep")
            .to_string()
            .contains("remembers 16")
    );
}
