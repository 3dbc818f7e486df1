//! Takes names, addresses, paths and handles out of texts and JSON.
//!
//! It is a list of what may stand, not of what may not: the words of lineside's own messages
//! (`words.txt`), plain numbers and numbers with a unit. Everything else is replaced, by the same
//! word wherever it occurs, so that what belongs together still does.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::LazyLock;

use lineside_account::Counter;
use lineside_rows::Table;
use serde_json::{Map, Value};

static WORDS: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| include_str!("words.txt").split_whitespace().collect());

/// What stands as it is: names and meanings of counters, names of tables and of their columns.
static TEXTS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let counters = Counter::ALL.iter();
    let counters = counters.flat_map(|counter| [counter.name(), counter.meaning()]);
    let tables = Table::ALL.iter().flat_map(|table| {
        let columns = table.columns().iter().map(|column| column.name);
        columns.chain([table.name()])
    });
    counters.chain(tables).collect()
});

/// Units that numbers have, behind them without a space.
const UNITS: [&str; 24] = [
    "ns", "us", "ms", "s", "m", "h", "d", "B", "KB", "MB", "GB", "KiB", "MiB", "GiB", "TiB", "bit",
    "kbit", "mbit", "gbit", "bps", "mbps", "Hz", "%", "x",
];

/// What was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Address,
    Path,
    Name,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Path => "path",
            Self::Name => "name",
        }
    }
}

/// Replaces, and remembers by what.
#[derive(Debug, Default)]
pub(crate) struct Scrub {
    /// The number of each, by kind and text.
    known: HashMap<(Kind, String), usize>,
    counts: BTreeMap<Kind, usize>,
    /// Words that stand elsewhere in the archive already.
    own: HashSet<String>,
}

impl Scrub {
    /// One that leaves the words of a text, which is in the archive itself.
    pub(crate) fn beside(text: &str) -> Self {
        let is_word = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        let words = text.split(|letter: char| !is_word(letter));
        let parts = words.flat_map(|word| word.split('.').chain([word]));
        Self {
            own: parts.map(str::to_owned).collect(),
            ..Self::default()
        }
    }

    /// How many different ones were replaced, by kind.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, usize> {
        let counts = self.counts.iter();
        counts.map(|(kind, count)| (kind.word(), *count)).collect()
    }

    /// A text with what must not stand replaced.
    pub(crate) fn text(&mut self, text: &str) -> String {
        if TEXTS.contains(text) {
            return text.to_owned();
        }
        let mut out = Vec::new();
        for word in text.split_whitespace() {
            out.push(self.word(word));
        }
        out.join(" ")
    }

    /// JSON, its keys too.
    pub(crate) fn json(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(values) => values.iter().map(|value| self.json(value)).collect(),
            Value::Object(fields) => {
                let mut out = Map::new();
                for (key, value) in fields {
                    out.insert(self.key(key), self.json(value));
                }
                Value::Object(out)
            }
            // Counts, times and sizes.
            other => other.clone(),
        }
    }

    /// A key: words of ours with `_`, `.` or `-` between them, and at most one number.
    fn key(&mut self, key: &str) -> String {
        let mut parts = key.split(['_', '.', '-']);
        let begins = parts
            .next()
            .is_some_and(|part| part.len() > 1 && is_word(part));
        let numbers = parts.clone().filter(|part| is_short_number(part)).count();
        let rest = parts.all(|part| is_word(part) || is_short_number(part));
        match TEXTS.contains(key) || self.own.contains(key) || (begins && rest && numbers <= 1) {
            true => key.to_owned(),
            false => self.replaced(Kind::Name, key),
        }
    }

    fn word(&mut self, whole: &str) -> String {
        // `::1` ends with what a sentence may end with.
        if let Some(address) = self.address(whole) {
            return address;
        }
        let is_mark = |letter: char| r#"()[]{}"'`,.;:!?<>=&|+*"#.contains(letter);
        let core = whole.trim_matches(is_mark);
        if core.is_empty() {
            return whole.to_owned();
        }
        let begin = whole.len() - whole.trim_start_matches(is_mark).len();
        let (before, after) = (&whole[..begin], &whole[begin + core.len()..]);
        let core = match self.address(core) {
            Some(address) => address,
            None if may_stand(core) || self.own.contains(core) => core.to_owned(),
            None if core.contains('/') => self.replaced(Kind::Path, core),
            None => self.replaced(Kind::Name, core),
        };
        format!("{before}{core}{after}")
    }

    /// The word for an address of IP or Ethernet; ports and the lengths of prefixes stay.
    fn address(&mut self, text: &str) -> Option<String> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            let of = self.replaced(Kind::Address, &address.ip().to_string());
            return Some(format!("{of}:{}", address.port()));
        }
        if let Some((address, len)) = text.split_once('/')
            && let Ok(address) = address.parse::<IpAddr>()
            && len.parse::<u8>().is_ok()
        {
            let of = self.replaced(Kind::Address, &address.to_string());
            return Some(format!("{of}/{len}"));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(self.replaced(Kind::Address, &address.to_string()));
        }
        let bytes: Vec<&str> = text.split([':', '-']).collect();
        let is_byte = |byte: &&str| byte.len() == 2 && u8::from_str_radix(byte, 16).is_ok();
        (bytes.len() == 6 && bytes.iter().all(is_byte))
            .then(|| self.replaced(Kind::Address, &text.to_lowercase()))
    }

    fn replaced(&mut self, kind: Kind, text: &str) -> String {
        let next = self.counts.get(&kind).copied().unwrap_or(0) + 1;
        let number = *self.known.entry((kind, text.to_owned())).or_insert(next);
        if number == next {
            self.counts.insert(kind, next);
        }
        format!("{}-{number}", kind.word())
    }
}

/// Whether a text without marks around it reveals nothing about the place where it was written.
fn may_stand(text: &str) -> bool {
    is_number(text) || is_word(text)
}

/// Words with `-` or `_` in them stand in the list as they are: of words alone many names consist.
fn is_word(text: &str) -> bool {
    let is_letter = text.len() == 1 && text.bytes().all(|byte| byte.is_ascii_alphabetic());
    is_letter || WORDS.contains(text.to_ascii_lowercase().as_str())
}

/// Such as the 2 of `v4_2`.
fn is_short_number(text: &str) -> bool {
    matches!(text.len(), 1..=3) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `12`, `1,234`, `-0.5`, `16MiB`, `99.9%`. A longer one may be a handle or an identifier.
fn is_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let begin =
        text.trim_start_matches(|letter: char| letter.is_ascii_digit() || ",.".contains(letter));
    let (number, unit) = text.split_at(text.len() - begin.len());
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    let points = number.bytes().filter(|&byte| byte == b'.').count();
    let groups: Vec<&str> = number.split('.').next().unwrap_or("").split(',').collect();
    let is_grouped = groups.len() == 1 || groups[1..].iter().all(|group| group.len() == 3);
    let bound = if groups.len() > 1 { 18 } else { 6 };
    (1..=bound).contains(&digits)
        && points <= 1
        && is_grouped
        && (unit.is_empty() || UNITS.contains(&unit))
}

/// A version, such as `0.1.0`; anything else becomes `?`. An address has four numbers.
pub(crate) fn version(text: &str) -> String {
    let numbers: Vec<&str> = text.split('.').collect();
    let is_version = numbers.len() <= 3 && numbers.iter().all(|part| is_short_number(part));
    if is_version { text } else { "?" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_replaced_by_the_same() {
        let mut scrub = Scrub::default();
        let text =
            scrub.text("lost 1,234 frames of 192.0.2.1:2049, not of [2001:db8::1]:80 at eth7");
        assert_eq!(
            text,
            "lost 1,234 frames of address-1:2049, not of address-2:80 at name-1"
        );
        assert_eq!(
            scrub.text("(192.0.2.1) 2001:db8::1; eth7: 02:00:5e:00:53:01 10.0.0.0/8 ::1"),
            "(address-1) address-2; name-1: address-3 address-4/8 address-5"
        );
        assert_eq!(
            scrub.text("host 192.0.2.1 and tcp port 2049"),
            "host address-1 and tcp port 2049"
        );
        assert_eq!(scrub.counts()["address"], 5);
    }

    #[test]
    fn whatever_is_not_known_is_replaced() {
        let mut scrub = Scrub::default();
        for text in [
            "/srv/zz9/plan.pcap",
            "zz9.example.com",
            "ZZ9",
            "frames-zz9",
            "10.1.2",
            "0x1f2e3d4c",
            "deadbeefcafe",
            "1234567890123",
            "a=zz9",
            "frames\u{200b}zz9",
            "fe80::1%zz9",
            "192.0.2.1.",
            "user@zz9",
            "[zz9]",
            "zz9\tzz9",
            "TOKEN=abc",
            "nfs-server-zz9",
            "86753099",
        ] {
            let out = scrub.text(text);
            assert!(
                !out.to_lowercase().contains("zz9") && out != text,
                "{text}: {out}"
            );
        }
    }

    #[test]
    fn keys_are_replaced_as_values_are() {
        let mut scrub = Scrub::default();
        let value = serde_json::json!(
            {"late_window": "2ms", "zz9": {"frames": 7, "bytes": ["zz9"], "10.1.2.3": 1}}
        );
        let out = scrub.json(&value);
        let right = serde_json::json!(
            {"late_window": "2ms", "name-1": {"frames": 7, "bytes": ["name-1"], "name-2": 1}}
        );
        assert_eq!(out, right);
    }

    #[test]
    fn versions_are_no_addresses() {
        assert_eq!(version("0.1.0"), "0.1.0");
        assert_eq!(version("192.0.2.1"), "?");
        assert_eq!(version("1.0-zz9"), "?");
    }
}
