//! memcached: a stream of commands or replies, whole and in pieces; both are heard alike. Commands
//! go to a small store too, whose memory stays within its limit.

use lineside_memcached::{
    Command, CommandError, CommandParser, CommandSink, Connection, Limits, Lines, ParseError,
    Reply, ReplyParser, ReplySink, Store, Value,
};

use super::Bytes;

/// What was heard, with neighbouring pieces of a value joined.
#[derive(Default, Debug, PartialEq)]
struct Log {
    heard: Vec<(u64, String)>,
    value_bytes: u64,
}

impl Log {
    fn note(&mut self, at: u64, what: String) {
        assert!(self.heard.last().is_none_or(|(before, _)| *before <= at));
        self.heard.push((at, what));
    }
}

impl CommandSink for Log {
    fn on_command(&mut self, at: u64, command: Command<'_>) {
        self.note(at, format!("{command:?}"));
    }

    fn on_value(&mut self, bytes: &[u8]) {
        self.value_bytes += bytes.len() as u64;
    }

    fn on_value_end(&mut self, at: u64, is_right: bool) {
        self.note(at, format!("{is_right} after {}", self.value_bytes));
    }

    fn on_refused(&mut self, at: u64, error: CommandError) {
        self.note(at, error.text().to_owned());
    }
}

impl ReplySink for Log {
    fn on_item(&mut self, at: u64, value: Value<'_>) {
        self.note(at, format!("{value:?}"));
    }

    fn on_value(&mut self, bytes: &[u8]) {
        self.value_bytes += bytes.len() as u64;
    }

    fn on_reply(&mut self, at: u64, reply: Reply<'_>) {
        self.note(at, format!("{reply:?} after {}", self.value_bytes));
    }
}

type Outcome = (Log, Result<(), ParseError>);

fn commands(stream: &[u8], step: usize) -> Outcome {
    let (mut parser, mut lines, mut log) = (CommandParser::new(), Lines::new(1), Log::default());
    for (number, piece) in stream.chunks(step).enumerate() {
        let at = number.wrapping_mul(step) as u64;
        match parser.push(at, piece, &mut lines, &mut log) {
            Ok(taken) => assert_eq!(taken, piece.len()),
            Err(_) => break,
        }
    }
    let end = parser.finish(stream.len() as u64, &mut lines);
    assert_eq!(lines.held_count(), 0);
    (log, end)
}

fn replies(stream: &[u8], step: usize) -> Outcome {
    let (mut parser, mut lines, mut log) = (ReplyParser::new(), Lines::new(1), Log::default());
    for (number, piece) in stream.chunks(step).enumerate() {
        let at = number.wrapping_mul(step) as u64;
        if parser.push(at, piece, &mut lines, &mut log).is_err() {
            break;
        }
    }
    let end = parser.finish(stream.len() as u64, &mut lines);
    assert_eq!(lines.held_count(), 0);
    (log, end)
}

fn answers(stream: &[u8], step: usize) -> Vec<u8> {
    let mut store = Store::new(Limits {
        memory_bytes: 1000,
        value_bytes_max: 300,
    });
    let (mut connection, mut lines, mut out) = (Connection::new(), Lines::new(1), Vec::new());
    'pieces: for piece in stream.chunks(step) {
        let mut rest = piece;
        while !rest.is_empty() {
            let mut more = Vec::new();
            let pushed = connection.push(77, 0, rest, &mut lines, &mut store, &mut more);
            out.append(&mut more);
            // A number that grows in place may need a little more than was there.
            assert!(store.used_bytes() <= 1000 + 32 * store.len());
            match pushed {
                Ok(progress) if progress.is_open => rest = &rest[progress.taken..],
                _ => break 'pieces,
            }
        }
    }
    connection.release(&mut lines, &mut store);
    assert_eq!(lines.held_count(), 0);
    out
}

pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let (choice, step) = (bytes.last(), usize::from(bytes.last()) % 64 + 1);
    let stream = bytes.0;
    if choice & 1 == 0 {
        assert_eq!(commands(stream, step), commands(stream, usize::MAX));
        assert_eq!(answers(stream, step), answers(stream, usize::MAX));
    } else {
        assert_eq!(replies(stream, step), replies(stream, usize::MAX));
    }
}
