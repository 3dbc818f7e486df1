//! Lines of text for a terminal: how wide, how high, and what is cut.

use lineside_analyze::{Zone, tail};
use lineside_words::escape;

/// Columns of a line where nothing says how many there are.
pub const WIDTH: usize = 80;

/// Lines of the first screen.
pub(crate) const SCREEN: usize = 24;

/// Columns of a label.
pub(crate) const LABEL: usize = 14;

/// A label in its column; a longer one has a blank behind it, too.
pub(crate) fn lead(label: &str) -> String {
    let label = format!("{label} ");
    format!("{label:<LABEL$}")
}

/// How to write.
#[derive(Debug, Clone)]
pub struct Style {
    /// Headings in bold, warnings in colour.
    pub colour: bool,
    /// Columns of a line, at most.
    pub width: usize,
    /// In which times are written.
    pub zone: Zone,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            colour: false,
            width: WIDTH,
            zone: Zone::default(),
        }
    }
}

impl Style {
    pub(crate) fn heading(&self, text: &str) -> String {
        let text = tail(&escape(text), self.width);
        if self.colour {
            format!("\u{1b}[1m{text}\u{1b}[0m")
        } else {
            text
        }
    }

    pub(crate) fn alarm(&self, text: &str) -> String {
        if self.colour {
            format!("\u{1b}[33m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Begin, middle and end of a chart of this many columns; the middle where there is room.
pub(crate) fn axis([from, middle, to]: &[String; 3], columns: usize) -> String {
    let [start, half, end] = [from, middle, to].map(|text| text.chars().count());
    let gap = |used: usize| columns.saturating_sub(used).max(1);
    if columns < start + half + end + 4 {
        return format!("{from}{}{to}", " ".repeat(gap(start + end)));
    }
    // The middle one begins where its column is.
    let before = columns / 2 - start;
    let after = gap(start + before + half + end);
    format!(
        "{from}{}{middle}{}{to}",
        " ".repeat(before),
        " ".repeat(after)
    )
}

/// A line of bars, from nothing to the greatest value.
pub(crate) fn bars(values: &[u64]) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let greatest = values.iter().copied().max().unwrap_or(0).max(1);
    let bar = |&value: &u64| match value {
        0 => ' ',
        // Something is never nothing.
        value => HEIGHTS[((value as f64 / greatest as f64 * 8.0).ceil() as usize).clamp(1, 8) - 1],
    };
    values.iter().map(bar).collect()
}

/// The lines of a text after `lead`, the further ones below the first, none longer than `width`.
pub(crate) fn lines_of(lead: &str, text: &str, width: usize) -> Vec<String> {
    let text = escape(text);
    let indent = lead.chars().count();
    let mut lines = Vec::new();
    let mut line = lead.to_owned();
    let mut used = indent;
    for word in text.split(' ') {
        let mut word = word;
        let mut length = word.chars().count();
        if used > indent && used + 1 + length > width {
            lines.push(line.trim_end().to_owned());
            line = " ".repeat(indent);
            used = indent;
        }
        if used > indent {
            line.push(' ');
            used += 1;
        }
        // A word longer than a line, such as a path, is cut into lines.
        while used + length > width {
            let at = word
                .char_indices()
                .nth(width - used)
                .map_or(word.len(), |(at, _)| at);
            lines.push(format!("{line}{}", &word[..at]));
            word = &word[at..];
            length = word.chars().count();
            line = " ".repeat(indent);
            used = indent;
        }
        line.push_str(word);
        used += length;
    }
    lines.push(line.trim_end().to_owned());
    lines
}

/// The begin of a text that has to fit in `width` characters.
pub(crate) fn front(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain(['…']).collect()
}

/// A text in this many lines at most: one that needs more is cut.
pub(crate) fn within(lead: &str, text: &str, width: usize, lines_max: usize) -> Vec<String> {
    let mut lines = lines_of(lead, text, width);
    if lines.len() > lines_max {
        lines.truncate(lines_max);
        if let Some(last) = lines.last_mut() {
            *last = front(last, width - 2) + " …";
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_label_does_not_touch_what_follows() {
        assert_eq!(lead("verdict"), "verdict       ");
        assert_eq!(lead("server to client"), "server to client ");
    }

    #[test]
    fn no_line_is_longer_than_the_width() {
        let text = format!(
            "{} {} {}",
            "word ".repeat(40),
            "x".repeat(300),
            "ä".repeat(79)
        );
        for width in [60, 80, 200] {
            let lines = lines_of("lead         ", &text, width);
            assert!(
                lines.iter().all(|line| line.chars().count() <= width),
                "{lines:#?}"
            );
            let letters = |text: &str| text.chars().filter(|one| !one.is_whitespace()).count();
            let shown: usize = lines.iter().map(|line| letters(line)).sum();
            assert_eq!(shown, letters(&text) + 4);
        }
    }

    #[test]
    fn bars_show_something_as_more_than_nothing() {
        assert_eq!(bars(&[0, 1, 500, 1_000]), " ▁▄█");
    }
    #[test]
    fn an_axis_has_both_ends_and_the_middle_where_it_fits() {
        let clocks = ["10:00", "10:30", "11:00"].map(str::to_owned);
        assert_eq!(axis(&clocks, 20), "10:00     10:30 11:00");
        assert_eq!(axis(&clocks, 12), "10:00  11:00");
        assert_eq!(axis(&clocks, 1), "10:00 11:00");
    }
}
