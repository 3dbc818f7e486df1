//! The slots of NFSv4.1's sessions (RFC 8881 section 2.10.6): a slot that is used again with the
//! same sequence brings the same call again, whatever its xid.

use lineside_account::{Budget, Claim};

/// Slots of a connection that are known: Linux's client has so many. Those beyond are not.
const SLOTS: usize = 64;

/// What slots of a connection's sessions were used for last.
#[derive(Debug, Default)]
pub(super) struct Slots(Option<Box<[Use; SLOTS]>>);

/// Which session has used a slot last, for what, and for which call.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    session: [u8; 16],
    sequence: u32,
    is_used: bool,
    operation_id: i64,
}

impl Slots {
    /// A call uses a slot: returns the first call that had the same sequence.
    pub(super) fn on_call(
        &mut self,
        (session, slot, sequence): ([u8; 16], u32, u32),
        operation_id: i64,
        (budget, claim): (&Budget, Claim),
    ) -> Option<i64> {
        if self.0.is_none() && budget.draw_as(claim, size_of::<[Use; SLOTS]>()) {
            self.0 = Some(Box::new([Use::default(); SLOTS]));
        }
        let known = self.0.as_mut()?.get_mut(slot as usize)?;
        if known.is_used && (known.session, known.sequence) == (session, sequence) {
            return Some(known.operation_id);
        }
        *known = Use {
            session,
            sequence,
            is_used: true,
            operation_id,
        };
        None
    }

    /// Bytes that are drawn on the budget.
    pub(super) fn drawn(&self) -> usize {
        self.0.as_ref().map_or(0, |_| size_of::<[Use; SLOTS]>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_that_comes_again_in_its_slot_is_a_repeat() {
        let budget = Budget::new(1 << 20);
        let mut slots = Slots::default();
        let mut call = |session, slot, sequence, id| {
            let used = ([session; 16], slot, sequence);
            slots.on_call(used, id, (&budget, Claim::Full))
        };
        assert_eq!(call(1, 0, 5, 10), None);
        assert_eq!(call(1, 1, 5, 11), None, "another slot");
        assert_eq!(call(1, 0, 5, 12), Some(10));
        assert_eq!(call(1, 0, 6, 13), None, "the next sequence");
        assert_eq!(call(2, 0, 6, 14), None, "another session");
        assert_eq!(call(1, u32::MAX, 6, 15), None);
        assert_eq!(call(1, u32::MAX, 6, 16), None, "a slot that is not known");
    }
}
