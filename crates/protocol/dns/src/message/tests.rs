//! Messages as RFCs draw them, and hostile ones.

use proptest::prelude::*;

use super::*;
use crate::{NameBuf, Query, rcode, set_id};

/// A response of a name server for `example.org`, put together by hand after RFC 1035 section 4.
pub(crate) const RESPONSE: &[u8] = b"\x12\x34\x85\x80\0\x01\0\x03\0\x01\0\x01\
    \x03www\x07example\x03org\0\0\x01\0\x01\
    \xc0\x0c\0\x05\0\x01\0\0\x0e\x10\0\x06\x03web\xc0\x10\
    \xc0\x2d\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01\
    \xc0\x2d\0\x1c\0\x01\0\0\0\x3c\0\x10\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\
    \xc0\x10\0\x02\0\x01\0\0\x0e\x10\0\x05\x02ns\xc0\x10\
    \0\0\x29\x04\xd0\x01\0\0\0\0\0";

#[test]
fn a_response_has_its_records() {
    let message = Message::parse(RESPONSE).expect("a message");
    let header = message.header();
    assert_eq!((header.id, header.counts), (0x1234, [1, 3, 1, 1]));
    assert!(header.is_response() && header.is_authoritative() && !header.is_truncated());
    assert_eq!(message.bytes(), RESPONSE);
    assert_eq!((message.edns(), message.opt_count()), (Some((1232, 0)), 1));
    // The high bits of the code stand in the OPT record.
    assert_eq!(message.rcode(), 16);
    let question = message.questions().next().expect("a question");
    assert_eq!((question.kind, question.class), (kind::A, 1));
    assert_eq!(question.name.to_string(), "www.example.org.");
    let shown: Vec<String> = message
        .records()
        .map(|record| {
            let data = match record.data {
                Data::A(address) => address.to_string(),
                Data::Aaaa(address) => address.to_string(),
                Data::Name(name) => name.to_string(),
                Data::Other(bytes) => format!("{bytes:?}"),
            };
            format!(
                "{:?} {} {} {data}",
                record.section, record.name, record.ttl_s
            )
        })
        .collect();
    let expected = [
        "Answer www.example.org. 3600 web.example.org.",
        "Answer web.example.org. 60 192.0.2.1",
        "Answer web.example.org. 60 2001:db8::1",
        "Authority example.org. 3600 ns.example.org.",
        "Additional . 16777216 []",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_query_is_read_as_it_is_written() {
    let query = Query {
        id: 7,
        name: NameBuf::parse("WWW.example.ORG").expect("a name"),
        kind: kind::A,
        recursion_desired: true,
        udp_len: Some(1400),
    };
    let mut bytes = Vec::new();
    query.write(&mut bytes);
    let expected = b"\0\x07\x01\0\0\x01\0\0\0\0\0\x01\x03WWW\x07example\x03ORG\0\0\x01\0\x01\
        \0\0\x29\x05\x78\0\0\0\0\0\0";
    assert_eq!(bytes, expected);
    set_id(&mut bytes, 0x1234);
    let asked = Message::parse(&bytes).expect("a message");
    let response = Message::parse(RESPONSE).expect("a message");
    assert!(response.answers(&asked) && !asked.answers(&asked));
    for (at, byte) in [(1, 0), (13, b'x'), (30, 2), (32, 3)] {
        let mut other = bytes.clone();
        other[at] = byte;
        let other = Message::parse(&other).expect("a message");
        assert!(!response.answers(&other), "byte {at}");
    }
    assert_eq!(asked.rcode(), rcode::NO_ERROR);
}

#[test]
fn a_message_that_is_cut_anywhere_is_an_error() {
    for len in 0..RESPONSE.len() {
        let cut = Message::parse(&RESPONSE[..len]);
        assert_eq!(cut.err(), Some(ParseError::Truncated), "{len}");
    }
    let longer = [RESPONSE, b"more"].concat();
    let message = Message::parse(&longer).expect("a message");
    assert_eq!(message.bytes().len(), RESPONSE.len());
}

#[test]
fn data_that_is_not_of_its_type_is_an_error() {
    let record = |kind: u8, data: &[u8]| {
        let head = b"\0\0\x80\0\0\0\0\x01\0\0\0\0\0\0";
        [
            head,
            &[kind][..],
            b"\0\x01\0\0\0\0\0",
            &[data.len() as u8],
            data,
        ]
        .concat()
    };
    for (kind, data, is_right) in [
        (1, &[1, 2, 3, 4][..], true),
        (1, &[1, 2, 3], false),
        (1, &[1, 2, 3, 4, 5], false),
        (28, &[0; 16], true),
        (28, &[0; 4], false),
        (5, b"\x01a\0", true),
        (5, b"\x01a\0\0", false),
        (12, b"\xc0\x0c", true),
        (16, b"\x05ab", true),
    ] {
        let bytes = record(kind, data);
        let error = Message::parse(&bytes).err();
        let expected = (!is_right).then_some(ParseError::BadData);
        assert_eq!(error, expected, "type {kind}: {data:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..100),
        changes in prop::collection::vec((0..RESPONSE.len(), any::<u8>()), 0..4),
    ) {
        let mut harmed = RESPONSE.to_vec();
        for (at, byte) in changes {
            harmed[at] = byte;
        }
        if bytes.len() > 11 {
            // Few entries, so that some are reached.
            [4, 6, 8, 10].iter().for_each(|&at| bytes[at] = 0);
        }
        for bytes in [&bytes, &harmed] {
            if let Ok(message) = Message::parse(bytes) {
                let count = message.questions().count() + message.records().count();
                let counts = message.header().counts.map(usize::from);
                prop_assert_eq!(count, counts.iter().sum::<usize>());
                prop_assert!(message.records().all(|record| record.name.to_string().len() <= 1020));
            }
        }
    }
}
