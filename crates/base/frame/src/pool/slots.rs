//! Slots of memory that a port shares with the kernel.

use std::ptr::NonNull;
use std::sync::Arc;

use super::home::{Home, Place};
use super::{BlockRef, BlockWriter, Descriptor, Frame, FrameRef, Len, Memory, give_back};

/// Slots of equal size in memory that a port maps and shares with the kernel: the blocks of a
/// packet ring, the chunks of a UMEM.
///
/// A slot is the kernel's until the port takes its [`writer`](Self::writer), or [its
/// bytes](Self::bytes_mut) or [its frame](Self::frame), and may be given back to the kernel when it
/// [is free](Self::is_free), or, with [`returning`](Self::returning), once it has [come
/// back](Self::returned).
pub struct Slots {
    slots: Vec<BlockRef>,
    /// Where slots come back to.
    home: Option<Arc<Home>>,
}

impl Slots {
    /// `count` slots of `slot_len` bytes from `start` on.
    ///
    /// # Safety
    /// The memory stays mapped, readable and writable, while `owner` lives. From the call of
    /// [`writer`](Self::writer), [`bytes_mut`](Self::bytes_mut) or [`frame`](Self::frame) for a
    /// slot until [`is_free`](Self::is_free) returns true, no one else reads or writes it.
    pub unsafe fn new(
        start: NonNull<u8>,
        slot_len: usize,
        count: usize,
        owner: &Arc<dyn Send + Sync>,
    ) -> Self {
        // SAFETY: as the caller vouches.
        unsafe { Self::with_home(start, slot_len, count, owner, None) }
    }

    /// The same for one [frame](Self::frame) a slot: [`returned`](Self::returned) gives those that
    /// came back.
    ///
    /// # Safety
    /// As for [`new`](Self::new), but that a slot whose frame was made is left alone until
    /// [`returned`](Self::returned) gives it.
    pub unsafe fn returning(
        start: NonNull<u8>,
        slot_len: usize,
        count: usize,
        owner: &Arc<dyn Send + Sync>,
    ) -> Self {
        // SAFETY: as the caller vouches.
        unsafe { Self::with_home(start, slot_len, count, owner, Some(Arc::default())) }
    }

    /// # Safety
    /// As for [`new`](Self::new), or [`returning`](Self::returning) with a home.
    unsafe fn with_home(
        start: NonNull<u8>,
        slot_len: usize,
        count: usize,
        owner: &Arc<dyn Send + Sync>,
        home: Option<Arc<Home>>,
    ) -> Self {
        let slot = |index: usize| {
            // SAFETY: the caller vouches for `slot_len * count` bytes.
            let start = unsafe { start.add(index * slot_len) };
            let place = { home.as_ref() }.map(|home| Place::new(home, index as u32));
            BlockRef::new(start, slot_len, Memory::Mapped(Arc::clone(owner)), place)
        };
        Self {
            slots: (0..count).map(slot).collect(),
            home,
        }
    }

    /// Gives `each` the slots whose frames were dropped since the last call, each once: takes as
    /// long as there are of them, however many frames live.
    #[inline]
    pub fn returned(&mut self, mut each: impl FnMut(usize)) {
        give_back();
        let Some(home) = &self.home else { return };
        let mut chain = home.take();
        while let Some(index) = chain.next(|index| &*self.slots[index as usize]) {
            each(index as usize);
        }
    }

    /// The writer of a slot that the kernel has filled; `None` while frames of it live.
    #[inline]
    pub fn writer(&mut self, index: usize) -> Option<BlockWriter> {
        self.is_free(index)
            .then(|| BlockWriter::new(self.slots[index].clone()))
    }

    /// The bytes of a slot that the kernel has filled, or is to send; `None` while frames of it
    /// live.
    #[inline]
    pub fn bytes_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        if !self.is_free(index) {
            return None;
        }
        let slot = &self.slots[index];
        // SAFETY: no frame or writer of the slot lives, and none is made while `self` is borrowed.
        Some(unsafe { slot.part_mut(0, slot.len) })
    }

    /// The one frame of a slot that the kernel has filled; `None` while frames of it live.
    #[inline]
    pub fn frame(
        &mut self,
        index: usize,
        bytes: std::ops::Range<usize>,
        descriptor: Descriptor,
    ) -> Option<Frame> {
        if !self.is_free(index) {
            return None;
        }
        let block = self.slots[index].clone();
        assert!(
            bytes.start <= bytes.end && bytes.end <= block.len,
            "a frame lies within its slot"
        );
        Some(Frame::of(FrameRef {
            start: bytes.start as u32,
            len: Len::new(bytes.len()),
            block,
            descriptor,
        }))
    }

    /// Whether no frame of the slot lives, nor its writer.
    #[inline]
    pub fn is_free(&mut self, index: usize) -> bool {
        give_back();
        self.slots[index].is_only()
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            let mut chain = home.close();
            while chain.next(|index| &*self.slots[index as usize]).is_some() {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_comes_back_once_from_whatever_thread() {
        let mut memory = vec![0_u8; 8 * 16].into_boxed_slice();
        let start = NonNull::new(memory.as_mut_ptr()).expect("not null");
        let owner: Arc<dyn Send + Sync> = Arc::new(());
        // SAFETY: `memory` outlives the slots, and is not touched beside them.
        let mut slots = unsafe { Slots::returning(start, 16, 8, &owner) };
        let (sender, receiver) = std::sync::mpsc::sync_channel::<FrameRef>(4);
        let receiver = std::sync::Mutex::new(receiver);
        let (mut free, mut lent) = ((0..8).collect::<Vec<_>>(), 0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    loop {
                        let next = receiver.lock().expect("no panic").recv();
                        let Ok(frame) = next else { break };
                        let other = frame.clone();
                        drop(frame);
                        assert_eq!(other.bytes()[0], other.bytes()[15]);
                        drop(other);
                        give_back();
                    }
                });
            }
            while lent < 20_000 {
                slots.returned(|index| free.push(index));
                assert!(free.len() <= 8, "each once");
                let Some(index) = free.pop() else { continue };
                slots
                    .bytes_mut(index)
                    .expect("it came back")
                    .fill(lent as u8);
                let frame = slots.frame(index, 0..16, Descriptor::default());
                let frame = frame.expect("it came back").share();
                // Two threads, so that the last reference is not always the same one's.
                sender.send(frame.clone()).expect("it listens");
                sender.send(frame).expect("it listens");
                lent += 1;
            }
            drop(sender);
        });
        slots.returned(|index| free.push(index));
        free.sort_unstable();
        assert_eq!(free, (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn a_returning_slot_outlives_its_slots() {
        let memory: Arc<dyn Send + Sync> = Arc::new(());
        let mut bytes = *b"abcdefgh";
        let start = NonNull::from(&mut bytes).cast();
        // SAFETY: `bytes` outlives the slots, and is not touched beside them.
        let mut slots = unsafe { Slots::returning(start, 4, 2, &memory) };
        let one = slots.frame(0, 1..3, Descriptor::default()).expect("free");
        let two = slots.frame(1, 0..4, Descriptor::default()).expect("free");
        let other = one.share();
        let another = other.clone();
        // Has come back, and is not taken.
        drop(two);
        give_back();
        drop(slots);
        give_back();
        assert_eq!(Arc::strong_count(&memory), 2, "one slot is left");
        drop(other);
        assert_eq!(another.bytes(), b"bc");
        drop(another);
        give_back();
        assert_eq!(Arc::strong_count(&memory), 1);
    }
}
