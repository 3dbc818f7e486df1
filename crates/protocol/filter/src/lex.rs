use std::ops::Range;

use crate::error::FilterError;

#[derive(Debug, Clone)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) kind: Kind,
    pub(crate) place: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A keyword, a name, an IPv4 address, a range of ports.
    Word,
    Number(u32),
    /// At least two colons: an IPv6 or Ethernet address.
    Colons,
    Symbol,
}

/// Longest first, since `<` begins `<<`.
const SYMBOLS: [&str; 25] = [
    "&&", "||", "!=", "==", "<=", ">=", "<<", ">>", "!", "=", "<", ">", "&", "|", "(", ")", "[",
    "]", ":", "/", "+", "-", "*", "%", "^",
];

pub(crate) fn tokens(expression: &str) -> Result<Vec<Token<'_>>, FilterError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = expression[at..].chars().next() {
        let rest = &expression[at..];
        let mut push = |kind, start: usize, end: usize| {
            tokens.push(Token {
                text: &expression[at + start..at + end],
                kind,
                place: at..at + end,
            });
            end
        };
        if first.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        let colons_end = run(rest, |byte| {
            byte.is_ascii_hexdigit() || b":.".contains(&byte)
        });
        let colons = &rest[..colons_end];
        at += if colons.matches(':').count() >= 2 {
            push(Kind::Colons, 0, colons_end)
        } else if first.is_ascii_alphanumeric() || first == '_' {
            let end = word_end(rest);
            let kind = match number(&rest[..end]) {
                Some(Some(number)) => Kind::Number(number),
                Some(None) => {
                    let what = format!("{} does not fit into 32 bits", &rest[..end]);
                    return Err(FilterError::new(expression, at..at + end, what));
                }
                None => Kind::Word,
            };
            push(kind, 0, end)
        } else if first == '\\' && rest[1..].starts_with(|next: char| next.is_ascii_alphanumeric())
        {
            // pcap-filter escapes names that are keywords too; here they need none, but may have
            // it.
            push(Kind::Word, 1, 1 + word_end(&rest[1..]))
        } else if let Some(symbol) = SYMBOLS.iter().find(|&&each| rest.starts_with(each)) {
            push(Kind::Symbol, 0, symbol.len())
        } else {
            let place = at..at + first.len_utf8();
            let what = format!("{first:?} means nothing in a filter");
            return Err(FilterError::new(expression, place, what));
        };
    }
    Ok(tokens)
}

fn run(text: &str, belongs: impl Fn(u8) -> bool) -> usize {
    text.bytes()
        .position(|byte| !belongs(byte))
        .unwrap_or(text.len())
}

/// A minus belongs to a word within it (`tcp-syn`, `80-90`), as in pcap-filter.
fn word_end(text: &str) -> usize {
    let mut end = 0;
    loop {
        end += run(&text[end..], |byte| {
            byte.is_ascii_alphanumeric() || b"_.".contains(&byte)
        });
        match text.as_bytes()[end..] {
            [b'-', next, ..] if next.is_ascii_alphanumeric() => end += 1,
            _ => return end,
        }
    }
}

/// C's numbers: decimal, `0x` hexadecimal, `0` octal. `Some(None)` if it is one, but too large.
fn number(word: &str) -> Option<Option<u32>> {
    let (digits, radix) =
        if let Some(digits) = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
            (digits, 16)
        } else if word.len() > 1 && word.starts_with('0') {
            (&word[1..], 8)
        } else {
            (word, 10)
        };
    let is_number = !digits.is_empty() && digits.chars().all(|each| each.is_digit(radix));
    is_number.then(|| u32::from_str_radix(digits, radix).ok())
}
