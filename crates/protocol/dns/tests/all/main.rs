//! tshark as the oracle: what our queries and answers say, as it dissects them from a capture.

use std::fmt::Write;
use std::process::Command;

use lineside_dns::{Data, Message, NameBuf, Query, Section, Zone, kind};
use lineside_time::Random;
use lineside_wire::build::FrameBuilder;

/// Fields of a message, in the order in which [`ours`] writes them. Values that occur several times
/// are joined with commas.
const FIELDS: [&str; 16] = [
    "dns.id",
    "dns.flags.response",
    "dns.flags.opcode",
    "dns.flags.authoritative",
    "dns.flags.recdesired",
    "dns.flags.rcode",
    "dns.count.queries",
    "dns.count.answers",
    "dns.count.auth_rr",
    "dns.count.add_rr",
    "dns.qry.name",
    "dns.qry.type",
    "dns.a",
    "dns.aaaa",
    "dns.soa.rname",
    "dns.rr.udp_payload_size",
];

/// A name as tshark shows it: without the final dot, the root as `<Root>`.
fn shown(name: &str) -> String {
    match name {
        "." => "<Root>".to_owned(),
        _ => name.trim_end_matches('.').to_owned(),
    }
}

/// The same fields by our parser.
fn ours(bytes: &[u8]) -> String {
    let message = Message::parse(bytes).expect("a message");
    let header = message.header();
    let [questions, answers, authorities, additionals] = header.counts;
    let recursion_desired = u8::from(header.flags & 0x100 != 0);
    let authority = match header.is_response() {
        true => u8::from(header.is_authoritative()).to_string(),
        false => String::new(),
    };
    let rcode = match header.is_response() {
        true => (header.flags & 15).to_string(),
        false => String::new(),
    };
    let mut line = format!(
        "0x{:04x};{};{};{authority};{recursion_desired};{rcode};{questions};{answers};{authorities};{additionals};",
        header.id,
        u8::from(header.is_response()),
        header.opcode(),
    );
    let question = message.questions().next().expect("a question");
    let _ = write!(
        line,
        "{};{};",
        shown(&question.name.to_string()),
        question.kind
    );
    let mut lists = [const { Vec::new() }; 4];
    for record in message.records() {
        match record.data {
            Data::A(address) => lists[0].push(address.to_string()),
            Data::Aaaa(address) => lists[1].push(address.to_string()),
            _ if record.kind == kind::OPT => lists[3].push(record.class.to_string()),
            // Of the data of a SOA the parser reads nothing.
            _ => {
                assert_eq!(
                    (record.section, record.kind),
                    (Section::Authority, kind::SOA)
                );
                let origin = shown(&record.name.to_string());
                lists[2].push(format!("hostmaster.{origin}"));
            }
        }
    }
    line + &lists.map(|list| list.join(",")).join(";")
}

/// A capture file of Ethernet frames (pcap, nanoseconds).
fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4du32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for (second, frame) in (0u32..).zip(frames) {
        for word in [second, 0, frame.len() as u32, frame.len() as u32] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(frame);
    }
    file
}

#[test]
fn queries_and_answers_are_read_as_tshark_reads_them() {
    let [client, server] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
    let (there, back) = (
        FrameBuilder::new(client, server),
        FrameBuilder::new(server, client),
    );
    let (mut frames, mut expected) = (Vec::new(), Vec::new());
    for seed in 0..200u64 {
        let mut random = Random::new(seed);
        let origin = ["example.org", "a.b.c.test", "x"][random.below(3) as usize];
        let zone = Zone {
            origin: NameBuf::parse(origin).expect("a name"),
            a: (random.below(4) > 0).then(|| (random.bits() as u32).to_be_bytes().into()),
            aaaa: (random.below(4) > 0).then(|| [0x20, 1, 0xd, 0xb8, 0, 0, seed as u16, 9].into()),
            ttl_s: random.below(9999) as u32,
        };
        let name = match random.below(5) {
            0 => origin.to_owned(),
            1 => "elsewhere.example".to_owned(),
            _ => format!("host-{seed}.{origin}"),
        };
        let kinds = [kind::A, kind::AAAA, kind::MX, kind::ANY];
        let query = Query {
            id: random.bits() as u16,
            name: NameBuf::parse(&name).expect("a name"),
            kind: kinds[random.below(4) as usize],
            recursion_desired: random.below(2) == 0,
            udp_len: (random.below(2) == 0).then_some(1400),
        };
        let (mut asked, mut answer) = (Vec::new(), Vec::new());
        query.write(&mut asked);
        assert!(zone.answer(&asked, &mut answer));
        expected.extend([ours(&asked), ours(&answer)]);
        let port = 1024 + seed as u16;
        frames.push(there.udp(port, 53, &asked));
        frames.push(back.udp(53, port, &answer));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("dns.pcap");
    std::fs::write(&file, pcap(&frames)).expect("room");
    let mut tshark = Command::new("tshark");
    tshark.args([
        "-n",
        "-T",
        "fields",
        "-E",
        "separator=;",
        "-E",
        "occurrence=a",
        "-r",
    ]);
    tshark
        .arg(&file)
        .args(FIELDS.iter().flat_map(|field| ["-e", field]));
    let Ok(output) = tshark.output() else {
        println!("SKIP: dns against tshark: there is no tshark");
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let theirs: Vec<_> = text.lines().collect();
    assert_eq!(theirs.len(), expected.len());
    for (frame, (ours, theirs)) in expected.iter().zip(theirs).enumerate() {
        assert_eq!(ours, theirs, "frame {}", frame + 1);
    }
}
