//! Marks in a run: texts that a user gave while it went on, and when.

use lineside_account::{Budget, Lease};
use lineside_trace::certificate::link::Mark;

/// Why there is no mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MarkError {
    /// Nothing is to be noted.
    #[error("the text of the mark is empty")]
    Empty,
    /// The text is too long.
    #[error("the text of the mark has {len} bytes, and may have {TEXT_LEN_MAX}")]
    Long {
        /// Its length.
        len: usize,
    },
    /// There are too many already.
    #[error("the run has {MARKS_MAX} marks already, which is as many as it keeps")]
    Many,
    /// The budget has no memory left.
    #[error("no memory is left for the mark: give more with --memory")]
    NoMemory,
}

/// A script that marks each second of a quarter of an hour stays below this; all of them go into
/// the certificate.
const MARKS_MAX: usize = 1_000;

/// A few lines: a mark is a name for an instant, not a log.
const TEXT_LEN_MAX: usize = 1_000;

/// The marks of a run, in order.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    marks: Vec<Mark>,
    leases: Vec<Lease>,
}

impl Marks {
    /// Keeps a mark, whose memory is leased from `budget`; if it cannot, nothing changes.
    pub(crate) fn add(&mut self, mark: Mark, budget: &Budget) -> Result<Mark, MarkError> {
        let len = mark.text.len();
        if mark.text.trim().is_empty() {
            return Err(MarkError::Empty);
        }
        if len > TEXT_LEN_MAX {
            return Err(MarkError::Long { len });
        }
        if self.marks.len() == MARKS_MAX {
            return Err(MarkError::Many);
        }
        let bytes = size_of::<Mark>() + size_of::<Lease>() + len;
        self.leases
            .push(budget.lease(bytes).ok_or(MarkError::NoMemory)?);
        self.marks.push(mark.clone());
        Ok(mark)
    }

    pub(crate) fn all(&self) -> &[Mark] {
        &self.marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(text: &str) -> Mark {
        Mark {
            at_ns: 7,
            after_ns: Some(3),
            text: text.to_owned(),
        }
    }

    #[test]
    fn marks_beyond_the_bound_are_refused() {
        let budget = Budget::new(1 << 20);
        let mut marks = Marks::default();
        assert_eq!(marks.add(mark(" \n"), &budget), Err(MarkError::Empty));
        let long = "m".repeat(TEXT_LEN_MAX + 1);
        let refused = marks.add(mark(&long), &budget);
        assert_eq!(refused, Err(MarkError::Long { len: long.len() }));
        for number in 0..MARKS_MAX {
            let text = number.to_string();
            assert_eq!(marks.add(mark(&text), &budget), Ok(mark(&text)));
        }
        assert_eq!(marks.add(mark("more"), &budget), Err(MarkError::Many));
        assert_eq!(marks.all().len(), MARKS_MAX);
    }

    #[test]
    fn the_memory_of_marks_is_leased() {
        let text = "m".repeat(TEXT_LEN_MAX);
        let budget = Budget::new(2 * (TEXT_LEN_MAX + 100));
        let mut marks = Marks::default();
        let added = (0..3).map(|_| marks.add(mark(&text), &budget).is_ok());
        assert_eq!(added.collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(marks.all().len(), 2);
    }
}
