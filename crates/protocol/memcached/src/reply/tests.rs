//! Replies, in a table and however they are cut.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Default, PartialEq, Eq)]
struct Log {
    heard: Vec<(u64, String)>,
    values: Vec<u8>,
}

impl ReplySink for Log {
    fn on_item(&mut self, at: u64, value: Value<'_>) {
        self.heard.push((at, format!("{value:?}")));
        self.values.push(b'|');
    }

    fn on_value(&mut self, bytes: &[u8]) {
        self.values.extend_from_slice(bytes);
    }

    fn on_reply(&mut self, at: u64, reply: Reply<'_>) {
        self.heard.push((at, format!("{reply:?}")));
    }
}

fn read(bytes: &[u8], len: usize) -> (Log, Result<(), ParseError>) {
    let (mut parser, mut lines, mut log) = (ReplyParser::new(), Lines::new(1), Log::default());
    for (number, piece) in bytes.chunks(len).enumerate() {
        let pushed = parser.push((number * len) as u64, piece, &mut lines, &mut log);
        if pushed.is_err() {
            break;
        }
    }
    let end = parser.finish(bytes.len() as u64, &mut lines);
    assert_eq!(lines.held_count(), 0);
    (log, end)
}

#[test]
fn replies_are_read_with_their_values() {
    let bytes = b"STORED\r\nVALUE k 7 3\r\n\r\n1\r\nVALUE l 0 0 18446744073709551615\r\n\r\nEND\r\n42\r\n\
        CLIENT_ERROR bad data chunk\r\nERROR\r\nSERVER_ERROR out of memory\r\nVERSION 1.6\r\nEXISTS\r\n";
    let (log, end) = read(bytes, usize::MAX);
    assert_eq!(end, Ok(()));
    assert_eq!(log.values, b"|\r\n1|");
    let heard: Vec<_> = log
        .heard
        .iter()
        .map(|(at, text)| (*at, text.as_str()))
        .collect();
    let keys = [("k", 7, 3, None), ("l", 0, 0, Some(u64::MAX))];
    let values = keys.map(|(key, flags, len, cas)| {
        let key = key.as_bytes();
        format!(
            "{:?}",
            Value {
                key,
                flags,
                len,
                cas
            }
        )
    });
    assert_eq!(
        heard[..4],
        [
            (8, "Stored"),
            (8, &values[0]),
            (26, &values[1]),
            (67, "End")
        ]
    );
    assert_eq!(
        (heard[4], heard[6].1, heard[9]),
        ((71, "Number(42)"), "Error", (156, "Exists"))
    );
    assert_eq!(heard.len(), 10);
}

#[test]
fn lines_that_are_no_replies_are_errors() {
    let long = format!("VALUE {} 0 1\r\n", "k".repeat(KEY_MAX + 1));
    for (bytes, kind, at) in [
        ("HTTP/1.1 200 OK\r\n", ErrorKind::BadReply, 0),
        ("END\r\n\r\n", ErrorKind::BadReply, 5),
        ("VALUE k 0\r\n", ErrorKind::BadReply, 0),
        ("VALUE k 0 x\r\n", ErrorKind::BadReply, 0),
        ("VALUE k 0 -1\r\n", ErrorKind::BadReply, 0),
        ("VALUE k 4294967296 1\r\n", ErrorKind::BadReply, 0),
        ("VALUE k 0 2147483647\r\n", ErrorKind::BadReply, 0),
        ("VALUE k 0 1 2 3\r\n", ErrorKind::BadReply, 0),
        (&long, ErrorKind::BadReply, 0),
        ("1a\r\n", ErrorKind::BadReply, 0),
        ("18446744073709551616\r\n", ErrorKind::BadReply, 0),
        ("VALUE k 0 1\r\nxy\r\n", ErrorKind::BadValueEnd, 14),
        ("VALUE k 0 1\r\nx\ry", ErrorKind::BadValueEnd, 15),
        ("VALUE k 0 1\r\n", ErrorKind::Truncated, 13),
        ("STORED", ErrorKind::Truncated, 6),
    ] {
        for len in [1, 1000] {
            let (_, end) = read(bytes.as_bytes(), len);
            assert_eq!(end, Err(ParseError { kind, at }), "{bytes:?} by {len}");
        }
    }
}

/// Pieces of replies, right and wrong.
const PIECES: [&str; 10] = [
    "STORED\r\n",
    "VALUE k 1 3\r\n",
    "abc",
    "\r\n",
    "END\r\n",
    "12\r\n",
    "VALUE ",
    "l 0 1 9\r\nx\r\n",
    "SERVER_ERROR a b\r\n",
    "x",
];

proptest! {
    #[test]
    fn any_division_of_replies_is_heard_alike(
        choice in prop::collection::vec(0..PIECES.len(), 0..30),
        len in 1usize..20,
    ) {
        let stream: String = choice.iter().map(|&at| PIECES[at]).collect();
        prop_assert_eq!(read(stream.as_bytes(), len), read(stream.as_bytes(), usize::MAX));
    }
}
