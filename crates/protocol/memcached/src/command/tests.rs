//! Commands are read as they are written, however they are cut.

use proptest::prelude::*;

use super::*;
use crate::LINE_MAX;

#[derive(Debug, Default, PartialEq, Eq, Clone)]
struct Log {
    lines: Vec<(u64, String)>,
    values: Vec<u8>,
}

impl CommandSink for Log {
    fn on_command(&mut self, at: u64, command: Command<'_>) {
        self.lines.push((at, format!("{command:?}")));
    }

    fn on_value(&mut self, bytes: &[u8]) {
        self.values.extend_from_slice(bytes);
    }

    fn on_value_end(&mut self, at: u64, is_right: bool) {
        self.values.push(b'|');
        self.lines.push((at, format!("value {is_right}")));
    }

    fn on_refused(&mut self, at: u64, error: CommandError) {
        self.lines.push((at, format!("{error:?}")));
    }
}

type Outcome = (Log, Result<(), ParseError>);

fn read(bytes: &[u8], mut piece: impl FnMut() -> usize) -> Outcome {
    let (mut parser, mut lines, mut log) = (CommandParser::new(), Lines::new(1), Log::default());
    let mut at = 0;
    let mut outcome = Ok(0);
    while at < bytes.len() && outcome.is_ok() {
        let to = (at + piece().max(1)).min(bytes.len());
        outcome = parser.push(at as u64, &bytes[at..to], &mut lines, &mut log);
        at = to;
    }
    let end = parser.finish(bytes.len() as u64, &mut lines);
    assert_eq!(lines.held_count(), 0);
    assert!(outcome.is_ok() || end == outcome.map(|_| ()));
    (log, end)
}

fn whole(bytes: &[u8]) -> Outcome {
    read(bytes, || usize::MAX)
}

#[test]
fn a_command_parser_is_16_bytes() {
    let sizes = (size_of::<CommandParser>(), size_of::<crate::ReplyParser>());
    println!("CommandParser, ReplyParser: {sizes:?}");
    println!("Connection: {}", size_of::<crate::Connection>());
    assert!(sizes.0 <= 16 && sizes.1 <= 16, "{sizes:?}");
    assert!(size_of::<crate::Connection>() <= 24);
}

#[test]
fn each_command_is_read_as_it_is_written() {
    let key = b"a-key";
    let keys = Keys::new(b"a b");
    let store = |verb, noreply| Command::Store {
        verb,
        key,
        flags: u32::MAX,
        exptime: -1,
        len: 0,
        noreply,
    };
    let mut commands = vec![
        Command::Version,
        Command::Quit,
        store(Verb::Set, true),
        store(Verb::Add, false),
        store(Verb::Replace, false),
        store(Verb::Append, false),
        store(Verb::Prepend, false),
        store(Verb::Cas(u64::MAX), true),
    ];
    for noreply in [false, true] {
        commands.extend([
            Command::Delete { key, noreply },
            Command::Touch {
                key,
                exptime: 7,
                noreply,
            },
            Command::FlushAll { delay: 9, noreply },
            Command::Verbosity { noreply },
            Command::Add {
                key,
                delta: u64::MAX,
                down: noreply,
                noreply,
            },
        ]);
        for touch in [None, Some(0), Some(-1), Some(100)] {
            commands.push(Command::Get {
                keys,
                with_cas: noreply,
                touch,
            });
        }
    }
    for command in commands {
        let mut line = Vec::new();
        command.write(&mut line);
        let text = line.strip_suffix(b"\r\n").expect("a line end");
        let Ok(read) = parse(text) else {
            panic!("{command:?}: {}", String::from_utf8_lossy(text));
        };
        match (read, command) {
            (Command::Get { keys, .. }, Command::Get { keys: written, .. }) => {
                assert!(keys.into_iter().eq(written));
            }
            _ => assert_eq!(read, command),
        }
    }
}

#[test]
fn lines_without_end_are_refused() {
    for len in [LINE_MAX, LINE_MAX + 1] {
        let line = [b"get ".as_slice(), &vec![b' '; len - 6], b"\r\n"].concat();
        let is_refused = whole(&line).1.is_err();
        assert_eq!(is_refused, len > LINE_MAX);
        assert_eq!(read(&line, || 1000), whole(&line));
    }
}

#[test]
fn a_full_pool_of_lines_is_named() {
    let (mut lines, mut log) = (Lines::new(0), Log::default());
    let error = CommandParser::new().push(5, b"get", &mut lines, &mut log);
    let kind = ErrorKind::NoRoom;
    assert_eq!(error, Err(ParseError { kind, at: 5 }));
}

/// Pieces of commands, right and wrong.
const PIECES: [&str; 14] = [
    "get a",
    "gets a b",
    " set  k 1 0 3 ",
    "abc",
    "\r\n",
    "\n",
    "cas k 1 0 1 9 noreply\r\nx\r\n",
    "incr k 1",
    "delete k",
    "touch k 1",
    "bogus",
    "set k 0 0 x",
    "\r",
    "gat 1 k",
];

proptest! {
    #[test]
    fn any_division_of_commands_is_heard_alike(
        choice in prop::collection::vec(0..PIECES.len(), 0..30),
        lens in prop::collection::vec(1usize..9, 1..9),
    ) {
        let stream: String = choice.iter().map(|&at| PIECES[at]).collect();
        let mut lens = lens.iter().copied().cycle();
        let cut = read(stream.as_bytes(), || lens.next().unwrap_or(1));
        prop_assert_eq!(cut, whole(stream.as_bytes()));
    }

    #[test]
    fn any_bytes_are_read_as_commands_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(read(&bytes, || 1), whole(&bytes));
    }
}
