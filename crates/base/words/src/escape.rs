//! Texts from the wire, for terminals and JSON.

use std::fmt::Write;

/// A text from the wire, a name or a trace with its control characters written out, and those that
/// turn the direction of writing or end a line: it can neither steer a terminal nor look like
/// another line.
pub fn escape(text: &str) -> String {
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
pub fn escape_json(json: &str) -> String {
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
    fn a_name_cannot_steer_the_terminal() {
        assert_eq!(escape("a\u{1b}[31mb\u{202e}"), "a\\u{1b}[31mb\\u{202e}");
        assert_eq!(escape("a\nb\u{9b}\u{7f}"), "a\\u{a}b\\u{9b}\\u{7f}");
        assert_eq!(escape("Ünï/cøde"), "Ünï/cøde");
        assert_eq!(
            escape_json("{\n\"\u{9b}\u{2066}ä\""),
            "{\n\"\\u009b\\u2066ä\""
        );
    }
}
