use std::fmt;
use std::ops::Range;

/// What is wrong with a filter, with a line that points at the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError {
    what: String,
    expression: String,
    /// Bytes of the expression.
    place: Range<usize>,
}

impl std::error::Error for FilterError {}

impl FilterError {
    pub(crate) fn new(expression: &str, place: Range<usize>, what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            expression: expression.to_owned(),
            place,
        }
    }

    /// The bytes of the expression that it is about; empty at the end.
    pub fn place(&self) -> Range<usize> {
        self.place.clone()
    }
}

/// The longest expression that is shown whole. Of a longer one, so much is shown from a little
/// before the place.
const SHOWN_CHARS: usize = 160;

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chars_to = |end: usize| {
            let before = self.expression.get(..end).unwrap_or(&self.expression);
            before.chars().count()
        };
        let (start, end) = (chars_to(self.place.start), chars_to(self.place.end));
        let hidden = if self.expression.chars().count() <= SHOWN_CHARS {
            0
        } else {
            start.saturating_sub(SHOWN_CHARS / 4)
        };
        // A line feed or an escape would put the mark below another word.
        let shown: String = self
            .expression
            .chars()
            .skip(hidden)
            .take(SHOWN_CHARS)
            .map(|each| if each.is_control() { ' ' } else { each })
            .collect();
        let width = end.saturating_sub(start).clamp(1, SHOWN_CHARS);
        write!(
            f,
            "{}\n    {shown}\n    {:indent$}{:^<width$}",
            self.what,
            "",
            "",
            indent = start - hidden
        )
    }
}
