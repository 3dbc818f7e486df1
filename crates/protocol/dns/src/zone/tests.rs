//! What a zone answers, read by the parser.

use super::*;
use crate::{Data, Query, Section};

fn zone() -> Zone {
    Zone {
        origin: NameBuf::parse("test.example").expect("a name"),
        a: Some([192, 0, 2, 7].into()),
        aaaa: Some(Ipv6Addr::LOCALHOST),
        ttl_s: 60,
    }
}

fn query(name: &str, kind: u16, udp_len: Option<u16>) -> Vec<u8> {
    let query = Query {
        id: 0xabcd,
        name: NameBuf::parse(name).expect("a name"),
        kind,
        recursion_desired: true,
        udp_len,
    };
    let mut bytes = Vec::new();
    query.write(&mut bytes);
    bytes
}

fn answer(zone: &Zone, query: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let is_answered = zone.answer(query, &mut out);
    assert_eq!(is_answered, !out.is_empty());
    assert!(out.len() < 512);
    is_answered.then_some(out)
}

#[test]
fn names_at_and_below_the_origin_have_addresses() {
    let label = "x".repeat(63);
    let longest = format!("{label}.{label}.{label}.{}.test.example", &label[..48]);
    for name in [
        "test.example",
        "a.TEST.example",
        "1.b.c.test.example",
        &longest,
    ] {
        for (kind, count) in [(kind::A, 1), (kind::AAAA, 1), (kind::ANY, 2)] {
            let asked = query(name, kind, None);
            let bytes = answer(&zone(), &asked).expect("an answer");
            let message = Message::parse(&bytes).expect("a message");
            let asked = Message::parse(&asked).expect("a message");
            assert!(message.answers(&asked) && message.header().is_authoritative());
            assert_eq!(
                (message.rcode(), message.header().counts),
                (0, [1, count, 0, 0])
            );
            for record in message.records() {
                assert!(record.name.is(asked.questions().next().expect("one").name));
                let is_right = match record.data {
                    Data::A(address) => address.octets() == [192, 0, 2, 7],
                    Data::Aaaa(address) => address.is_loopback(),
                    _ => false,
                };
                assert!(is_right && record.ttl_s == 60);
            }
        }
    }
}

#[test]
fn other_names_and_types_are_answered_without() {
    for name in ["example", "atest.example", "test.example.org", "."] {
        let bytes = answer(&zone(), &query(name, kind::A, None)).expect("an answer");
        let message = Message::parse(&bytes).expect("a message");
        let counts = message.header().counts;
        assert_eq!(
            (message.rcode(), counts),
            (rcode::NAME_ERROR, [1, 0, 0, 0]),
            "{name}"
        );
    }
    let only_ipv6 = Zone { a: None, ..zone() };
    for (zone, kind) in [(zone(), kind::MX), (only_ipv6, kind::A)] {
        let bytes = answer(&zone, &query("a.b.test.example", kind, None)).expect("an answer");
        let message = Message::parse(&bytes).expect("a message");
        assert_eq!(
            (message.rcode(), message.header().counts),
            (0, [1, 0, 1, 0])
        );
        let soa = message.records().next().expect("a record");
        assert_eq!((soa.section, soa.kind), (Section::Authority, kind::SOA));
        assert!(soa.name.is(zone.origin.as_name()));
    }
}

#[test]
fn edns_is_answered_with_edns() {
    let asked = query("test.example", kind::A, Some(4096));
    let bytes = answer(&zone(), &asked).expect("an answer");
    let message = Message::parse(&bytes).expect("a message");
    assert_eq!((message.edns(), message.rcode()), (Some((1232, 0)), 0));
    let mut later = asked.clone();
    let at = later.len() - 5;
    later[at] = 1;
    let bytes = answer(&zone(), &later).expect("an answer");
    let message = Message::parse(&bytes).expect("a message");
    assert_eq!(message.rcode(), rcode::BAD_VERSION);
    assert_eq!(
        (message.edns(), message.count(Section::Answer)),
        (Some((1232, 0)), 0)
    );
    // Two of them.
    let mut twice = asked.clone();
    twice[11] = 2;
    twice.extend_from_slice(&asked[asked.len() - 11..]);
    let bytes = answer(&zone(), &twice).expect("an answer");
    assert_eq!(bytes[3], 1);
}

#[test]
fn queries_that_are_none_are_refused_or_left_alone() {
    let good = query("test.example", kind::A, None);
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let class = good.len() - 1;
    for (bytes, expected) in [
        (good.clone(), Some(rcode::NO_ERROR)),
        (good[..11].to_vec(), None),
        (changed(2, 0x80), None),
        (changed(2, 0x28), Some(rcode::NOT_IMPLEMENTED)),
        (changed(5, 0), Some(rcode::FORMAT_ERROR)),
        (changed(5, 2), Some(rcode::FORMAT_ERROR)),
        (changed(12, 0x80), Some(rcode::FORMAT_ERROR)),
        (changed(12, 0xc0), Some(rcode::FORMAT_ERROR)),
        (changed(class, 3), Some(rcode::REFUSED)),
        (good[..20].to_vec(), Some(rcode::FORMAT_ERROR)),
        // A name that is a pointer into the header.
        (
            b"\0\0\0\0\0\x01\0\0\0\0\0\0\xc0\0\0\x01\0\x01".to_vec(),
            Some(rcode::FORMAT_ERROR),
        ),
    ] {
        let answer = answer(&zone(), &bytes);
        let code = answer.as_ref().map(|bytes| u16::from(bytes[3] & 0xf));
        assert_eq!(code, expected, "{bytes:?}");
        if let Some(answer) = answer {
            assert_eq!(answer[..2], bytes[..2]);
            assert!(answer[2] & 0x80 != 0 && Message::parse(&answer).is_ok());
        }
    }
}
