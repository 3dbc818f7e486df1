//! What a store answers, and that it stays within its limits.

use lineside_time::Random;

use super::*;
use crate::{Connection, Lines};

struct Bench {
    store: Store,
    connection: Connection,
    lines: Lines,
    now_s: i64,
}

impl Bench {
    fn new(limits: Limits) -> Self {
        Self {
            store: Store::new(limits),
            connection: Connection::new(),
            lines: Lines::new(1),
            now_s: 100_000_000,
        }
    }

    fn ask(&mut self, bytes: &str) -> String {
        let mut out = Vec::new();
        let (store, lines) = (&mut self.store, &mut self.lines);
        let bytes = bytes.as_bytes();
        let progress = self
            .connection
            .push(self.now_s, 0, bytes, lines, store, &mut out);
        assert_eq!(progress.map(|progress| progress.taken), Ok(bytes.len()));
        String::from_utf8(out).expect("text")
    }
}

fn small(memory_bytes: usize) -> Limits {
    Limits {
        memory_bytes,
        value_bytes_max: 1000,
    }
}

#[test]
fn items_expire_at_their_second() {
    let mut bench = Bench::new(Limits::default());
    let stored = "set a 0 10 1\r\na\r\nset b 0 100000020 1\r\nb\r\nset c 0 0 1\r\nc\r\nset d 0 -1 1\r\nd\r\n";
    assert_eq!(bench.ask(stored), "STORED\r\n".repeat(4));
    for (now_s, expected) in [
        (100_000_009, "abc"),
        (100_000_010, "bc"),
        (100_000_019, "bc"),
        (100_000_020, "c"),
    ] {
        bench.now_s = now_s;
        let answer = bench.ask("get a b c d\r\n");
        let values: Vec<_> = answer.lines().filter(|line| line.len() == 1).collect();
        assert_eq!(values.concat(), expected, "{now_s}");
    }
    assert_eq!(
        bench.ask("touch c 5\r\nadd a 0 0 1\r\nx\r\n"),
        "TOUCHED\r\nSTORED\r\n"
    );
    bench.now_s += 5;
    assert_eq!(bench.ask("gat 1 c\r\nflush_all 3\r\n"), "END\r\nOK\r\n");
    bench.now_s += 2;
    assert_eq!(bench.ask("get a\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n");
    bench.now_s += 1;
    assert_eq!(bench.ask("get a\r\n"), "END\r\n");
    assert_eq!(bench.store.used_bytes(), 0);
}

#[test]
fn what_was_asked_for_lately_stays_when_memory_is_short() {
    let mut bench = Bench::new(small(20 * (ITEM_COST_BYTES + 30)));
    for number in 0..1000 {
        let value = format!("set key-{number:04} 0 0 20\r\n{number:020}\r\n");
        assert_eq!(bench.ask(&value), "STORED\r\n");
        assert!(bench.store.used_bytes() <= bench.store.limits.memory_bytes);
        // The first one is asked for all the time.
        assert!(
            bench.ask("get key-0000\r\n").starts_with("VALUE"),
            "{number}"
        );
    }
    assert!(bench.store.len() >= 15 && bench.store.items.len() <= 21);
    assert_eq!(
        bench.store.evicted_count() as usize,
        1000 - bench.store.len()
    );
    let (large, huge) = ("x".repeat(1000), "x".repeat(1001));
    assert_eq!(
        bench.ask(&format!("set a 0 0 1000\r\n{large}\r\n")),
        "STORED\r\n"
    );
    let refused = "SERVER_ERROR object too large for cache\r\nEND\r\n";
    assert_eq!(
        bench.ask(&format!("set a 0 0 1001\r\n{huge}\r\nget a\r\n")),
        refused
    );
    let joined = bench.ask(&format!(
        "set b 0 0 1000\r\n{large}\r\nappend b 0 0 1\r\nx\r\n"
    ));
    assert_eq!(
        joined,
        "STORED\r\nSERVER_ERROR out of memory storing object\r\n"
    );
}

#[test]
fn cas_stores_only_what_has_not_changed() {
    let mut bench = Bench::new(Limits::default());
    bench.ask("set a 0 0 1\r\na\r\n");
    assert_eq!(bench.ask("gets a\r\n"), "VALUE a 0 1 1\r\na\r\nEND\r\n");
    assert_eq!(bench.ask("cas a 5 0 1 1\r\nb\r\n"), "STORED\r\n");
    assert_eq!(bench.ask("cas a 0 0 1 1\r\nc\r\n"), "EXISTS\r\n");
    assert_eq!(bench.ask("cas b 0 0 1 1\r\nc\r\n"), "NOT_FOUND\r\n");
    assert_eq!(bench.ask("gets a\r\n"), "VALUE a 5 1 2\r\nb\r\nEND\r\n");
}

#[test]
fn values_that_never_come_are_given_back() {
    let mut bench = Bench::new(small(1000));
    assert_eq!(bench.ask("set a 0 0 700\r\nabc"), "");
    assert!(bench.store.used_bytes() > 700);
    let mut other = Connection::new();
    let mut out = Vec::new();
    let stored = b"set b 0 0 700\r\n";
    let pushed = other.push(1, 0, stored, &mut bench.lines, &mut bench.store, &mut out);
    assert!(pushed.is_ok());
    assert_eq!(out, b"SERVER_ERROR out of memory storing object\r\n");
    bench.connection.release(&mut bench.lines, &mut bench.store);
    assert_eq!(bench.store.used_bytes(), 0);
}

#[test]
fn answers_are_bounded_and_go_on_where_they_stopped() {
    let mut bench = Bench::new(Limits::default());
    let value = "x".repeat(60_000);
    bench.ask(&format!("set a 0 0 60000\r\n{value}\r\n"));
    let asked = "get a\r\n".repeat(10);
    let (mut at, mut answers) = (0, 0);
    while at < asked.len() {
        let mut out = Vec::new();
        let (lines, store) = (&mut bench.lines, &mut bench.store);
        let rest = &asked.as_bytes()[at..];
        let pushed = bench
            .connection
            .push(1, at as u64, rest, lines, store, &mut out);
        let taken = pushed.expect("commands").taken;
        assert!(taken > 0 && out.len() < 130_000);
        answers += out.len() / 60_000;
        at += taken;
    }
    assert_eq!(answers, 10);
    let many = format!("get {}\r\n", "a ".repeat(300));
    let refused = "SERVER_ERROR out of memory writing get response\r\n";
    assert_eq!(bench.ask(&many), refused);
    // Nothing after quit is read.
    let (lines, store, mut out) = (&mut bench.lines, &mut bench.store, Vec::new());
    let pushed = bench
        .connection
        .push(1, 0, b"quit\r\nversion\r\n", lines, store, &mut out);
    let progress = pushed.expect("commands");
    assert!(!progress.is_open && progress.taken == 6 && out.is_empty());
}

#[test]
fn memory_is_accounted_for_whatever_is_done() {
    let mut bench = Bench::new(small(1500));
    let mut random = Random::new(7);
    for _ in 0..20_000 {
        let key = random.below(30);
        let value = "7".repeat(random.below(18) as usize);
        let len = value.len();
        let verb = ["set", "add", "replace", "append", "prepend"][random.below(5) as usize];
        let line = match random.below(6) {
            0 => format!("delete {key}\r\n"),
            1 => format!("incr {key} 99999999\r\n"),
            2 => format!("get {key}\r\n"),
            _ => format!("{verb} {key} 0 {} {len}\r\n{value}\r\n", random.below(5)),
        };
        bench.ask(&line);
        bench.now_s += i64::from(random.below(40) == 0);
        let items = bench.store.items.iter();
        let used = items
            .filter(|item| item.stage != Stage::Free)
            .map(Item::cost);
        assert_eq!(used.sum::<usize>(), bench.store.used_bytes());
        // A number that grows in place may need a little more than was there.
        assert!(bench.store.used_bytes() <= 1500 + 100);
    }
    assert!(bench.store.evicted_count() > 100);
}
