//! Numbers and foreign texts as text for people.

use std::fmt::Write;

/// `1,234,567`: digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1.5 MiB`: bytes in the largest unit that leaves a whole part.
pub fn bytes(number: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = (number.max(1).ilog2() / 10) as usize;
    let unit = units[power];
    let value = number as f64 / (1u64 << (10 * power)) as f64;
    if power == 0 || number.trailing_zeros() >= 10 * power as u32 {
        return format!("{value:.0} {unit}");
    }
    let digits = usize::from(value < 99.95);
    format!("{value:.digits$} {unit}")
}

/// Three digits and a unit: `12.3 ms`.
pub fn time(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        1_000_000_000..120_000_000_000 => (ns as f64 / 1e9, "s"),
        120_000_000_000..7_200_000_000_000 => (ns as f64 / 60e9, "min"),
        _ => (ns as f64 / 3600e9, "h"),
    };
    let digits = if value < 10.0 {
        2
    } else {
        usize::from(value < 100.0)
    };
    format!("{value:.digits$} {unit}")
}

/// A text of others (from the wire, a name, a trace) made harmless: control characters, and those
/// that turn the direction of writing or end a line, are written out, so that it can neither steer
/// a terminal nor look like another line.
pub fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if steers(character) {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    out
}

/// The same for JSON, whose value stays as it is: serde_json itself writes out only the control
/// characters of ASCII.
pub fn harmless_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        // Outside texts JSON has no control characters but the end of a line.
        if steers(character) && character != '\n' {
            let _ = write!(out, "\\u{:04x}", u32::from(character));
        } else {
            out.push(character);
        }
    }
    out
}

/// All of them lie in Unicode's first plane.
fn steers(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(bytes(65_536), "64 KiB");
        assert_eq!(bytes(1_536), "1.5 KiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        assert_eq!(bytes(1_033_000), "1009 KiB");
        assert_eq!(time(999), "999 ns");
        assert_eq!(time(12_340_000), "12.3 ms");
    }

    #[test]
    fn a_name_cannot_steer_the_terminal() {
        assert_eq!(harmless("a\u{1b}[31mb\u{202e}"), "a\\u{1b}[31mb\\u{202e}");
        assert_eq!(harmless("a\nb\u{9b}\u{7f}"), "a\\u{a}b\\u{9b}\\u{7f}");
        assert_eq!(harmless("Ünï/cøde"), "Ünï/cøde");
        assert_eq!(
            harmless_json("{\n\"\u{9b}\u{2066}ä\""),
            "{\n\"\\u009b\\u2066ä\""
        );
    }
}
