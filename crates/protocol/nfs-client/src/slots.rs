//! The slots of a session (RFC 8881 section 2.10.6.1): each carries one call at a time.

use std::collections::BTreeSet;

use lineside_nfs::v4::SessionId;

#[derive(Debug)]
pub(crate) struct Slots {
    pub(crate) session: SessionId,
    /// The number of the last call in each.
    sequences: Vec<u32>,
    free: BTreeSet<u32>,
    /// The highest slot that the server wants to see used.
    target: u32,
    lost: usize,
}

impl Slots {
    pub(crate) fn new(session: SessionId, count: u32) -> Self {
        Self {
            session,
            sequences: vec![0; count as usize],
            free: (0..count).collect(),
            target: count.saturating_sub(1),
            lost: 0,
        }
    }

    pub(crate) fn has_free(&self) -> bool {
        self.free.first().is_some_and(|&slot| slot <= self.target)
    }

    /// A slot, and the number of the call that it is for.
    pub(crate) fn take(&mut self) -> Option<(u32, u32)> {
        let slot = *self.free.first().filter(|&&slot| slot <= self.target)?;
        self.free.remove(&slot);
        let sequence = &mut self.sequences[slot as usize];
        *sequence = sequence.wrapping_add(1);
        Some((slot, *sequence))
    }

    /// The highest slot with a call in it.
    pub(crate) fn highest(&self) -> u32 {
        let busy = |slot: &u32| !self.free.contains(slot);
        (0..self.sequences.len() as u32)
            .rev()
            .find(busy)
            .unwrap_or(0)
    }

    pub(crate) fn sequence(&self, slot: u32) -> u32 {
        self.sequences[slot as usize]
    }

    /// The call in a slot was answered. One that the server did not execute had no number.
    pub(crate) fn give_back(&mut self, slot: u32, was_executed: bool) {
        if !was_executed {
            let sequence = &mut self.sequences[slot as usize];
            *sequence = sequence.wrapping_sub(1);
        }
        self.free.insert(slot);
    }

    /// How the call in a slot was answered will not be known, nor whether it has its number: the
    /// slot is not used again. True: it was the last one.
    pub(crate) fn lose(&mut self) -> bool {
        self.lost += 1;
        self.lost == self.sequences.len()
    }

    /// The server wants no slots above this one used; at least one always is.
    pub(crate) fn set_target(&mut self, highest: u32) {
        self.target = highest.min((self.sequences.len() as u32).saturating_sub(1));
    }
}
