//! What a request says: text with fields that differ from one request to the next. How it is framed
//! is the protocol's.

use std::ops::Range;

use lineside_time::Random;
use lineside_words::{WordError, nearest};

use crate::draw::{self, Purpose, seed_for};
use crate::keys::Keys;

/// The most bytes of one field.
pub const FIELD_MAX: usize = 1 << 20;
/// The most bytes that a template becomes.
const LEN_MAX: usize = 1 << 24;
/// Digits of the largest number.
const DIGITS_MAX: usize = 20;

/// Text with fields, which are a function of a seed and of the request's ordinal.
///
/// | field | what it becomes |
/// |---|---|
/// | `{n}` · `{n:08}` | the ordinal of the request, from 0; with zeros in front to this width |
/// | `{connection}` · `{connection:04}` | the number of the connection, likewise |
/// | `{key}` · `{key:08}` | the key of the request, the same wherever it stands |
/// | `{random:1..1000}` | a random number, both bounds included |
/// | `{hex:16}` | this many random hexadecimal digits |
/// | `{bytes:64}` | this many random bytes of `A-Z a-z 0-9 - _` |
/// | `{{` · `}}` | a brace |
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    text: String,
    parts: Vec<Part>,
    keys: Option<Keys>,
    key_seed: u64,
    len_max: usize,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    /// A range of the text.
    Text(Range<usize>),
    Ordinal {
        width: usize,
    },
    Connection {
        width: usize,
    },
    Key {
        width: usize,
    },
    /// The first one, how many there are less one, and the seed of the field.
    Number {
        low: u64,
        span: u64,
        seed: u64,
    },
    Hex {
        len: usize,
        seed: u64,
    },
    Bytes {
        len: usize,
        seed: u64,
    },
}

const FIELDS: [&str; 6] = ["number", "connection", "key", "random", "hex", "bytes"];

impl Template {
    /// Reads a text; `keys` are those of `{key}`.
    ///
    /// Fields at the same place of two templates with one seed draw alike, and so do keys.
    pub fn parse(text: &str, keys: Option<Keys>, seed: u64) -> Result<Self, WordError> {
        let mut template = Self {
            text: text.to_owned(),
            parts: Vec::new(),
            keys,
            key_seed: seed_for(seed, Purpose::Keys),
            len_max: 0,
        };
        let mut seeds = Random::new(seed_for(seed, Purpose::Contents));
        let mut at = 0;
        while let Some(length) = text[at..].find(['{', '}']) {
            template.push(Part::Text(at..at + length));
            let begin = at + length;
            let rest = &text[begin..];
            if rest.starts_with("{{") || rest.starts_with("}}") {
                template.push(Part::Text(begin..begin + 1));
                at = begin + 2;
                continue;
            }
            let Some(inside) = rest.strip_prefix('{') else {
                return Err(error(text, begin, "a brace of its own is written }}"));
            };
            let Some(length) = inside
                .find(['{', '}'])
                .filter(|&at| inside[at..].starts_with('}'))
            else {
                let problem = "this field has no end: write } after it, or {{ for a brace";
                return Err(error(text, begin, problem));
            };
            // Each field takes a seed, so that another kind leaves those after it as they are.
            let part = template.field(&inside[..length], begin + 1, seeds.bits())?;
            template.push(part);
            if template.len_max > LEN_MAX {
                let problem = format!("the text becomes longer than {LEN_MAX} bytes here");
                return Err(error(text, begin, &problem));
            }
            at = begin + length + 2;
        }
        template.push(Part::Text(at..text.len()));
        Ok(template)
    }

    /// Adds a part; text goes on where it follows text.
    fn push(&mut self, part: Part) {
        self.len_max += match &part {
            Part::Text(range) if range.is_empty() => return,
            Part::Text(range) => range.len(),
            Part::Ordinal { width } | Part::Connection { width } | Part::Key { width } => {
                DIGITS_MAX.max(*width)
            }
            Part::Number { .. } => DIGITS_MAX,
            Part::Hex { len, .. } | Part::Bytes { len, .. } => *len,
        };
        match (self.parts.last_mut(), part) {
            (Some(Part::Text(before)), Part::Text(range)) if before.end == range.start => {
                before.end = range.end;
            }
            (_, part) => self.parts.push(part),
        }
    }

    /// The field between two braces, which begins at `at`.
    fn field(&self, field: &str, at: usize, seed: u64) -> Result<Part, WordError> {
        let (name, argument) = match field.split_once(':') {
            Some((name, argument)) => (name, Some(argument)),
            None => (field, None),
        };
        let refused = |problem: String| error(&self.text, at, &problem);
        let wrong = |argument: Option<&str>, example: &str| match argument {
            Some(_) => refused(format!(
                "'{{{field}}}' is not understood: write {{{example}}}"
            )),
            None => refused(format!("'{{{field}}}' needs more: write {{{example}}}")),
        };
        let width = |example: &str| match argument {
            None => Ok(0),
            Some(argument) => width(argument).ok_or_else(|| wrong(Some(argument), example)),
        };
        let len = |example: &str| {
            let len = argument.and_then(|argument| argument.parse::<usize>().ok());
            let len = len.filter(|len| (1..=FIELD_MAX).contains(len));
            let most = || format!("a length from 1 to {FIELD_MAX}, such as {{{example}}}");
            len.ok_or_else(|| refused(format!("'{{{field}}}' needs {}", most())))
        };
        Ok(match name {
            "n" | "number" => Part::Ordinal {
                width: width("number:08")?,
            },
            "connection" => Part::Connection {
                width: width("connection:04")?,
            },
            "key" if self.keys.is_none() => {
                let problem = "{key} needs keys: give a model, such as 'zipf 0.99 over 1000000'";
                return Err(refused(problem.to_owned()));
            }
            "key" => Part::Key {
                width: width("key:08")?,
            },
            "random" => {
                let (low, span) = argument
                    .and_then(range)
                    .ok_or_else(|| wrong(argument, "random:1..1000"))?;
                Part::Number { low, span, seed }
            }
            "hex" => Part::Hex {
                len: len("hex:16")?,
                seed,
            },
            "bytes" => Part::Bytes {
                len: len("bytes:64")?,
                seed,
            },
            _ => {
                let nearest = nearest(name, FIELDS);
                return Err(refused(format!(
                    "'{name}' is no field; the nearest known one is {nearest} ({{{{ is a brace)"
                )));
            }
        })
    }

    /// The text that it was read from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The most bytes that it becomes: with this capacity, writing allocates nothing.
    pub fn len_max(&self) -> usize {
        self.len_max
    }

    /// Appends what it becomes for a request.
    pub fn write(&self, ordinal: u64, connection: u64, out: &mut Vec<u8>) {
        for part in &self.parts {
            match *part {
                Part::Text(ref range) => {
                    out.extend_from_slice(&self.text.as_bytes()[range.clone()]);
                }
                Part::Ordinal { width } => write_number(ordinal, width, out),
                Part::Connection { width } => write_number(connection, width, out),
                Part::Key { width } => {
                    let key = { self.keys }.map_or(0, |keys| keys.draw(self.key_seed, ordinal));
                    write_number(key, width, out);
                }
                Part::Number { low, span, seed } => {
                    let mut random = draw::at(seed, ordinal);
                    let above = match span.checked_add(1) {
                        Some(count) => random.below(count),
                        None => random.bits(),
                    };
                    write_number(low + above, 0, out);
                }
                Part::Hex { len, seed } => {
                    write_symbols::<4, 16>(b"0123456789abcdef", len, draw::at(seed, ordinal), out);
                }
                Part::Bytes { len, seed } => {
                    write_symbols::<6, 10>(SYMBOLS, len, draw::at(seed, ordinal), out);
                }
            }
        }
    }
}

/// Bytes that paths, headers, JSON strings and memcached keys take as they are.
const SYMBOLS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Random symbols, one for each `BITS` bits, of which `N` fit in a draw.
fn write_symbols<const BITS: u32, const N: usize>(
    symbols: &[u8],
    len: usize,
    mut random: Random,
    out: &mut Vec<u8>,
) {
    let mut left = len;
    while left > 0 {
        let bits = random.bits();
        let symbol = |at: usize| bits >> (BITS as usize * at) & ((1 << BITS) - 1);
        let drawn: [u8; N] = std::array::from_fn(|at| symbols[symbol(at) as usize]);
        let taken = left.min(N);
        out.extend_from_slice(&drawn[..taken]);
        left -= taken;
    }
}

fn write_number(mut number: u64, width: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; DIGITS_MAX];
    let mut begin = DIGITS_MAX;
    loop {
        begin -= 1;
        digits[begin] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[begin.min(DIGITS_MAX - width)..]);
}

/// The width of `08`: with a zero in front.
fn width(argument: &str) -> Option<usize> {
    let width = argument.strip_prefix('0')?.parse::<usize>().ok()?;
    (1..=DIGITS_MAX).contains(&width).then_some(width)
}

/// The first number of `1..1000`, and how far it is to the last one.
fn range(argument: &str) -> Option<(u64, u64)> {
    let (low, high) = argument.split_once("..")?;
    let (low, high) = (low.parse::<u64>().ok()?, high.parse::<u64>().ok()?);
    Some((low, high.checked_sub(low)?))
}

fn error(text: &str, at: usize, problem: &str) -> WordError {
    WordError {
        setting: "template",
        text: text.to_owned(),
        column: at + 1,
        problem: problem.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn template(text: &str) -> Template {
        let keys = "zipf 0.99 over 1000".parse().expect("keys");
        Template::parse(text, Some(keys), 7).expect(text)
    }

    fn written(text: &str, ordinal: u64) -> String {
        let mut out = Vec::new();
        template(text).write(ordinal, 3, &mut out);
        String::from_utf8(out).expect("printable")
    }

    #[test]
    fn fields_become_what_they_say() {
        for (text, expected) in [
            ("/index.html", "/index.html"),
            ("", ""),
            ("/a/{n}/{n:08}x", "/a/42/00000042x"),
            ("{connection:04}-{connection}", "0003-3"),
            ("{{\"id\": {n}}}", "{\"id\": 42}"),
            ("{{{n}}}", "{42}"),
            ("é{n}é", "é42é"),
            ("{random:5..5}", "5"),
        ] {
            assert_eq!(written(text, 42), expected, "{text}");
        }
        assert_eq!(written("{n:020}", u64::MAX), "18446744073709551615");
    }

    #[test]
    fn random_fields_differ_and_keep_to_their_kind() {
        let hex = written("{hex:40}", 1);
        assert!(
            hex.len() == 40 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{hex}"
        );
        let bytes = written("{bytes:1000}", 1);
        assert!(bytes.bytes().all(|byte| SYMBOLS.contains(&byte)) && bytes.len() == 1000);
        let twice = written("{hex:16} {hex:16}", 1);
        assert_ne!(
            twice[..16],
            twice[17..],
            "fields of one kind have draws of their own"
        );
        let numbers: Vec<u64> = (0..10_000)
            .map(|ordinal| {
                written("{random:1..10}", ordinal)
                    .parse()
                    .expect("a number")
            })
            .collect();
        for wanted in 1..=10 {
            let count = numbers.iter().filter(|&&number| number == wanted).count();
            assert!((850..1150).contains(&count), "{wanted} came {count} times");
        }
        let any = written("{random:0..18446744073709551615}", 3).parse::<u64>();
        assert!(any.expect("a number") > 1000);
        // The key is one for the request, wherever it stands, and whatever else is drawn.
        let keys = written("{key} {hex:2} {key:05}", 9);
        let (first, last) = (keys.split(' ').next(), keys.split(' ').next_back());
        assert_eq!(first.map(str::parse::<u64>), last.map(str::parse::<u64>));
    }

    #[test]
    fn a_request_is_written_without_allocating() {
        let template = template("GET /{key:08}/{n} {connection} {random:0..9} {hex:7}{bytes:99}");
        let mut out = Vec::with_capacity(template.len_max());
        let capacity = out.capacity();
        for ordinal in [0, 1, u64::MAX] {
            out.clear();
            template.write(ordinal, u64::MAX, &mut out);
            assert!(out.len() <= template.len_max());
        }
        assert_eq!(out.capacity(), capacity);
    }

    #[test]
    fn refused_templates_name_the_column_and_the_way_out() {
        for (text, column, advice) in [
            ("a{", 2, "write } after it, or {{"),
            ("a{n{b}", 2, "write } after it, or {{"),
            ("a}b", 2, "written }}"),
            ("/{numbr}", 3, "nearest known one is number"),
            ("/{}", 3, "nearest known one is"),
            ("/{byte:5}", 3, "nearest known one is bytes"),
            ("{n:8}", 2, "write {number:08}"),
            ("{n:021}", 2, "write {number:08}"),
            (
                "{random}",
                2,
                "'{random}' needs more: write {random:1..1000}",
            ),
            (
                "{random:5..1}",
                2,
                "is not understood: write {random:1..1000}",
            ),
            ("{hex:0}", 2, "such as {hex:16}"),
            (
                "{bytes:9999999}",
                2,
                "from 1 to 1048576, such as {bytes:64}",
            ),
        ] {
            let keys = "uniform over 5".parse().expect("keys");
            let error = Template::parse(text, Some(keys), 1).expect_err(text);
            assert_eq!(error.column, column, "{error}");
            assert!(error.to_string().contains(advice), "{error}");
        }
        let long = Template::parse(&"{bytes:1048576}".repeat(17), None, 1).expect_err("long");
        assert_eq!(long.column, 1 + 16 * "{bytes:1048576}".len(), "{long}");
        let error = Template::parse("{key}", None, 1).expect_err("no keys");
        assert!(error.to_string().contains("give a model"), "{error}");
    }

    proptest! {
        #[test]
        fn text_with_its_braces_doubled_is_itself(text in "[a-c{}é \n]{0,40}") {
            let doubled = text.replace('{', "{{").replace('}', "}}");
            prop_assert_eq!(written(&doubled, 1), text);
        }

        #[test]
        fn any_text_is_read_or_refused_in_place(text in "[an{}:0.1-9hexbytskrdom é]{0,30}") {
            match Template::parse(&text, None, 1) {
                Ok(template) => template.write(5, 6, &mut Vec::new()),
                Err(error) => prop_assert!(error.column <= text.len() + 1),
            }
        }
    }
}
