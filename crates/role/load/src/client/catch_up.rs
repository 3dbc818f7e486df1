//! What to do with requests of an open loop that are overdue, by the plan's choice.

use lineside_time::Nanoseconds;

use super::CatchUp;
use crate::results::Counts;

/// A request is overdue if it is looked at this long after its instant.
const OVERDUE_NS: i64 = 1_000_000;
const MILLISECOND_NS: i64 = 1_000_000;

/// In which millisecond overdue requests left last, and how many.
#[derive(Debug, Clone, Copy)]
pub(super) struct Overdue {
    catch_up: CatchUp,
    millisecond: i64,
    left: u32,
}

/// When a request is to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaves {
    /// At its instant, or at once if that has passed.
    AsPlanned,
    /// Enough have left for now: it is looked at again at this instant.
    LookAgain(Nanoseconds),
    /// Now: the schedule moves by so much.
    Moved(i64),
}

impl Overdue {
    pub(super) fn new(catch_up: CatchUp) -> Self {
        Self {
            catch_up,
            millisecond: 0,
            left: 0,
        }
    }

    pub(super) fn look(
        &mut self,
        due: Nanoseconds,
        now: Nanoseconds,
        counts: &mut Counts,
    ) -> Leaves {
        let overdue_ns = now - due;
        if overdue_ns <= OVERDUE_NS {
            return Leaves::AsPlanned;
        }
        match self.catch_up {
            CatchUp::Keep => {}
            CatchUp::Cap(most) => {
                let millisecond = now / MILLISECOND_NS;
                if self.millisecond != millisecond {
                    (self.millisecond, self.left) = (millisecond, 0);
                }
                if self.left >= most {
                    return Leaves::LookAgain((millisecond + 1) * MILLISECOND_NS);
                }
                self.left += 1;
            }
            CatchUp::Reanchor => {
                counts.moved += 1;
                counts.moved_ns += overdue_ns.unsigned_abs();
                return Leaves::Moved(overdue_ns);
            }
        }
        counts.overdue += 1;
        Leaves::AsPlanned
    }
}
