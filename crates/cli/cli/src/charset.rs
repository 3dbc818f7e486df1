//! What the locale can show: the one place that decides whether a text has more than ASCII.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::OnceLock;

/// Whether texts for people are ASCII alone: a locale says so that is not UTF-8, such as C or
/// POSIX. Without any, the terminal is taken to show UTF-8, as nearly all do.
pub(crate) fn is_ascii() -> bool {
    static IS_ASCII: OnceLock<bool> = OnceLock::new();
    *IS_ASCII.get_or_init(|| {
        // The first that is set decides, as for setlocale.
        let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| {
            let value = std::env::var_os(name)?;
            (!value.is_empty()).then(|| value.to_string_lossy().into_owned())
        });
        set.is_some_and(|locale| !is_utf8(&locale))
    })
}

fn is_utf8(locale: &str) -> bool {
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Columns of a line that are kept free: what stands for `…` is longer.
pub(crate) fn spare_columns() -> usize {
    if is_ascii() { 4 } else { 0 }
}

/// A text as the locale can show it.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    match is_ascii() && !text.is_ascii() {
        true => Cow::Owned(in_ascii(text)),
        false => Cow::Borrowed(text),
    }
}

/// Bars become digits of their height, and what has no likeness in ASCII is written out, as in
/// names from the wire.
fn in_ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\u{0}'..='\u{7f}' => out.push(character),
            '…' => out.push_str("..."),
            '→' => out.push_str("->"),
            '▪' => out.push('#'),
            bar @ '▁'..='█' => {
                let height = u32::from(bar) - u32::from('▁') + 1;
                out.extend(char::from_digit(height, 10));
            }
            other => {
                let _ = write!(out, "{}", other.escape_unicode());
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_a_form_in_ascii() {
        assert_eq!(in_ascii("a ▁▄█ ▪▪ b, … -> é"), "a 148 ## b, ... -> \\u{e9}");
        assert!(is_utf8("C.UTF-8") && is_utf8("de_DE.utf8"));
        assert!(!is_utf8("C") && !is_utf8("POSIX") && !is_utf8("en_US.ISO-8859-1"));
    }
}
