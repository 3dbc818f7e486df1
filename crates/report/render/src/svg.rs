//! What all drawings share: their size, their colours and texts that are harmless in HTML.

use std::fmt::{self, Display, Write};

use lineside_words::escape;

use crate::block::Colour;

/// Height of a drawing in its own units.
pub(crate) const HEIGHT: f64 = 100.0;

/// Width of a curve in its own units.
pub(crate) const WIDTH: f64 = 400.0;

/// A text in HTML, harmless whatever was on the wire.
pub(crate) struct Text<'a>(pub(crate) &'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in escape(self.0).chars() {
            match character {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                _ => f.write_char(character)?,
            }
        }
        Ok(())
    }
}

pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// The class of the style that has the colour.
pub(crate) fn class(colour: Colour) -> &'static str {
    match colour {
        Colour::Read => "read",
        Colour::Write => "write",
        Colour::Other => "other",
        Colour::Failed => "failed",
        Colour::Unanswered => "unanswered",
        Colour::Median => "median",
        Colour::Upper => "upper",
    }
}

/// The next round number that can be halved: a digit or two times a power of ten, of a power of
/// `unit`.
pub(crate) fn round_up(value: f64, unit: f64) -> f64 {
    let mut power = 1.0;
    while value >= power * unit {
        power *= unit;
    }
    let mut step = power * 10f64.powf((value / power).log10().floor());
    if !step.is_finite() || step <= 0.0 {
        step = 1.0;
    }
    // A thousand of a unit is the next one.
    let tops = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0].map(|digit| digit * step);
    let top = tops.into_iter().find(|&top| top >= value).unwrap_or(value);
    if top >= 1000.0 * power {
        (power * unit).max(value)
    } else {
        top
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_leave_their_place() {
        let text = Text("</script><img src=x onerror='a'>&\u{1b}").to_string();
        assert_eq!(
            text,
            "&lt;/script&gt;&lt;img src=x onerror=&#39;a&#39;&gt;&amp;\\u{1b}"
        );
    }

    #[test]
    fn scales_end_at_round_numbers() {
        assert_eq!(round_up(7_900.0, 1000.0), 8_000.0);
        assert_eq!(round_up(230.0, 1000.0), 250.0);
        assert_eq!(
            round_up(3.3 * 1024.0 * 1024.0, 1024.0),
            4.0 * 1024.0 * 1024.0
        );
        assert_eq!(round_up(900.0 * 1024.0, 1024.0), 1024.0 * 1024.0);
        assert!(round_up(0.001, 1000.0) >= 0.001);
        assert!(round_up(f64::MAX / 2.0, 1024.0).is_finite());
    }
}
