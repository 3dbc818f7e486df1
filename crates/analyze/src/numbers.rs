//! Numbers as people read them.

use serde::{Serialize, Serializer};

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

/// A share as `12.3 %`; what is neither nothing nor everything never reads 0.0 % or 100.0 %.
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    if share > 0.0 && value < 0.05 {
        "<0.1 %".to_owned()
    } else if share < 1.0 && value >= 99.95 {
        ">99.9 %".to_owned()
    } else {
        format!("{value:.1} %")
    }
}

/// `2026-11-21 12:35:02.123 UTC`
pub(crate) fn date(ns: i64) -> String {
    let stamp = jiff::Timestamp::from_nanosecond(ns.into());
    stamp.map_or_else(
        |_| format!("{ns} ns"),
        |stamp| format!("{:.3}", stamp.strftime("%Y-%m-%d %H:%M:%S%.3f UTC")),
    )
}

/// `number` of `whole`, 0 to 1; 0 if there is nothing.
pub(crate) fn share(number: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        number as f64 / whole as f64
    }
}

/// Text from the wire, made harmless: control characters, and those that turn the direction of writing, are written
/// out, so that a file's name cannot steer the terminal.
pub(crate) fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        let steers = matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if character.is_control() || steers {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    out
}

/// Writes an id as a text of decimal digits: readers of JSON often have numbers of 53 bits.
pub(crate) fn digits<S: Serializer>(id: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    id.map(|id| id.to_string()).serialize(serializer)
}

/// A path or, where it is not known, the file's id as the tables have it.
pub(crate) fn file_name(path: &str, file_id: Option<i64>) -> String {
    match (path, file_id) {
        ("", Some(id)) => format!("file {id}"),
        ("", None) => "-".to_owned(),
        (path, _) => path.to_owned(),
    }
}

/// The end of a text that has to fit in `width` characters: of a path, the end tells most.
pub(crate) fn tail(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let kept = text.chars().skip(count - width.saturating_sub(1));
    std::iter::once('…').chain(kept).collect()
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
        assert_eq!(percent(0.0), "0.0 %");
        assert_eq!(percent(0.000_1), "<0.1 %");
        assert_eq!(percent(0.999_9), ">99.9 %");
        assert_eq!(date(1_500_000_000), "1970-01-01 00:00:01.500 UTC");
        assert_eq!(tail("/a/long/path", 6), "…/path");
    }

    #[test]
    fn a_name_cannot_steer_the_terminal() {
        assert_eq!(harmless("a\u{1b}[31mb\u{202e}"), "a\\u{1b}[31mb\\u{202e}");
        assert_eq!(harmless("Ünï/cøde"), "Ünï/cøde");
    }
}
