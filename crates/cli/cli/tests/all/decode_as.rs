//! `--decode-as`: the example, its program numbered as a user would.

use std::path::Path;

use lineside_testkit::capture::{self, Frame};
use lineside_testkit::wrap::{Wrap, wrap_all};

use crate::support::{Trace, example, lineside, talk};

/// A number of the range that is left to users (RFC 5531 section 8.4).
const USER: &str = "0x20000003";

/// Gives NFSv3 another program number in all calls, and returns how many those are.
fn renumbered(frames: &mut [Frame], number: u32) -> usize {
    // CALL, RPC version 2, program, version 3.
    let head = |program: u32| [0, 2, program, 3].map(u32::to_be_bytes).concat();
    let (from, to) = (head(100_003), head(number));
    let mut count = 0;
    for frame in frames {
        for at in 0..frame.bytes.len().saturating_sub(from.len()) {
            let words = &mut frame.bytes[at..at + from.len()];
            if words == from {
                words.copy_from_slice(&to);
                count += 1;
                // The checksum of UDP in IPv4, where that is: none.
                if frame.bytes[12..14] == [8, 0] && frame.bytes[23] == 17 {
                    frame.bytes[40..42].fill(0);
                }
            }
        }
    }
    count
}

fn rows(trace: &Trace) -> Vec<String> {
    let rows = trace.operations.iter();
    let mut rows: Vec<_> = rows
        .map(|row| row.text_without(|column| column == "program_number"))
        .collect();
    rows.sort();
    rows
}

fn write(path: &Path, frames: &[Frame]) {
    std::fs::write(path, capture::write(frames)).expect("written");
}

/// Each frame in a tunnel whose datagrams go to this port.
fn in_tunnel(how: Wrap, port: u16) -> Vec<Frame> {
    let mut frames = wrap_all(&capture::read(&example()).expect("the example"), how);
    for frame in &mut frames {
        // Behind Ethernet and IPv4 or IPv6.
        let udp = if frame.bytes[12] == 8 { 34 } else { 54 };
        frame.bytes[udp + 2..udp + 4].copy_from_slice(&port.to_be_bytes());
    }
    frames
}

#[test]
fn tunnels_at_ports_that_are_not_theirs_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tunnel");
    for (how, word) in [(Wrap::Vxlan, "vxlan"), (Wrap::Geneve, "geneve")] {
        write(
            &path,
            &wrap_all(&capture::read(&example()).expect("the example"), how),
        );
        let expected = rows(&Trace::of(&path, &[]));
        assert!(expected.len() > 100);
        write(&path, &in_tunnel(how, 10_800));
        assert!(rows(&Trace::of(&path, &[])).is_empty());
        let rule = format!("udp.port==10800,{word}");
        for cores in ["1", "2"] {
            let options = ["--decode-as", &rule, "--cores", cores];
            assert_eq!(
                rows(&Trace::of(&path, &options)),
                expected,
                "{word} {cores}"
            );
        }
    }
}

#[test]
fn a_program_with_another_number_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let mut frames = capture::read(&example()).expect("the example");
    // The second half begins in the middle of its connections.
    let half = frames.len() / 2;
    write(&at("plain"), &frames);
    write(&at("plain-half"), &frames[half..]);
    assert!(renumbered(&mut frames, 0x2000_0003) > 100);
    write(&at("other"), &frames);
    write(&at("other-half"), &frames[half..]);
    let rule = format!("rpc.program=={USER},nfs");
    for (plain, other) in [("plain", "other"), ("plain-half", "other-half")] {
        let expected = rows(&Trace::of(&at(plain), &[]));
        assert_ne!(rows(&Trace::of(&at(other), &[])), expected);
        for cores in ["1", "2"] {
            let options = ["--decode-as", &rule, "--cores", cores];
            assert_eq!(rows(&Trace::of(&at(other), &options)), expected, "{other}");
        }
    }
}

#[test]
fn a_wrong_rule_is_reported_and_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |rules: &[&str]| {
        let rules = rules.iter().flat_map(|rule| ["-d", rule]);
        let output = lineside()
            .arg("capture")
            .arg(example())
            .args(["--force", "-o"])
            .arg(folder.path().join("trace"))
            .args(rules)
            .output()
            .expect("lineside runs");
        (output.status.code(), talk(&output))
    };
    let (status, messages) = run(&["tcp.prot==2049,rpc"]);
    assert_eq!(status, Some(2), "{messages}");
    assert!(
        messages.contains("'tcp.prot==2049,rpc'") && messages.contains("tcp.port"),
        "{messages}"
    );

    let expected = rows(&Trace::of(&example(), &[]));
    let unfit = "rpc.program==0x20000003,mount";
    let elsewhere = "tcp.port==9,none";
    let trace = Trace::of(&example(), &["-d", unfit, "-d", elsewhere]);
    assert_eq!(rows(&trace), expected);
    let (status, messages) = run(&[unfit, elsewhere]);
    assert_eq!(status, Some(0), "{messages}");
    assert!(
        messages.contains("no call has a program number that was named")
            && messages.contains("no connection has a port that should be left alone"),
        "{messages}"
    );
    let (_, messages) = run(&["tcp.port==1-65535,none"]);
    assert!(
        messages.contains("that were left alone began like RPC"),
        "{messages}"
    );
}
