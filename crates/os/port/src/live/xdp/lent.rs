//! Frames that are being sent from where they lie, until the kernel is done with them.
//!
//! A port sends parts of the memory that belong to any port with the same memory, and one part
//! several times if several frames have its bytes. So it counts for each chunk how often it is on
//! its way, and holds one reference to it meanwhile: when that is dropped, the chunk goes home.

use lineside_frame::FrameRef;

/// By chunk of the memory.
pub(super) struct Lent {
    /// For each chunk the place of its reference, or [`NOWHERE`].
    places: Vec<u32>,
    references: Vec<Option<FrameRef>>,
    /// How often each of them is being sent.
    counts: Vec<u32>,
    free: Vec<u32>,
}

const NOWHERE: u32 = u32::MAX;

impl Lent {
    /// For a memory of this many chunks, of which at most `parts_max` are on their way at once.
    pub(super) fn new(chunks: usize, parts_max: usize) -> Self {
        Self {
            places: vec![NOWHERE; chunks],
            references: vec![None; parts_max],
            counts: vec![0; parts_max],
            free: (0..parts_max as u32).rev().collect(),
        }
    }

    /// A part of a chunk is being sent, by a reference to any of the chunk's bytes.
    pub(super) fn lend(&mut self, chunk: usize, reference: FrameRef) {
        let known = self.places[chunk];
        if known != NOWHERE {
            self.counts[known as usize] += 1;
            return;
        }
        let place = self
            .free
            .pop()
            .expect("no more parts are on their way than the rings hold");
        self.places[chunk] = place;
        self.references[place as usize] = Some(reference);
        self.counts[place as usize] = 1;
    }

    /// A part of a chunk was sent; `false` if none was lent.
    pub(super) fn give_back(&mut self, chunk: usize) -> bool {
        let Some(&place) = self.places.get(chunk).filter(|&&place| place != NOWHERE) else {
            return false;
        };
        let count = &mut self.counts[place as usize];
        *count -= 1;
        if *count == 0 {
            self.places[chunk] = NOWHERE;
            self.references[place as usize] = None;
            self.free.push(place);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use lineside_frame::{Descriptor, Frame};

    use super::*;

    #[test]
    fn a_chunk_is_held_until_its_last_part_was_sent() {
        let mut lent = Lent::new(4, 2);
        let mut frame = Frame::copied(b"frame", Descriptor::default());
        lent.lend(3, frame.another().share());
        lent.lend(3, frame.share());
        lent.lend(1, Frame::copied(b"other", Descriptor::default()).share());
        assert!(lent.free.is_empty());
        assert!(!lent.give_back(0) && !lent.give_back(4));
        assert!(lent.give_back(3));
        assert!(lent.free.is_empty());
        assert!(lent.give_back(3) && !lent.give_back(3));
        assert_eq!(lent.free.len(), 1);
        assert!(lent.give_back(1));
        assert!(lent.references.iter().all(Option::is_none));
        assert_eq!(lent.free.len(), 2);
    }
}
