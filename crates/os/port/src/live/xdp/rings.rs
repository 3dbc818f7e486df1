//! The rings between a socket and the kernel: one side writes entries, the other reads them.
//!
//! ```text
//!  entries:  . . . r r r r w w . .      size is a power of two, indices run on past it
//!                  ▲       ▲
//!          consumer│       │producer    each written by its own side alone
//! ```
//!
//! Each side keeps its own index and a copy of the other's, which it looks at again only when the
//! copy says that nothing can be done. See `Documentation/networking/af_xdp.rst` of the kernel.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::xdp::XdpRingOffset;

use crate::live::mapping::Mapping;

/// A part of the UMEM that holds a frame or a part of one: `struct xdp_desc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Part {
    /// Offset in the UMEM.
    pub(super) offset: u64,
    /// Bytes.
    pub(super) len: u32,
    /// Of [`CONTINUED`] and [`METADATA`].
    pub(super) options: u32,
}

/// The next part belongs to the same frame (`XDP_PKT_CONTD`).
pub(super) const CONTINUED: u32 = 1;

/// Before the frame to send lies what is asked of the kernel (`XDP_TX_METADATA`).
pub(super) const METADATA: u32 = 2;

/// What a ring may hold.
///
/// # Safety
/// Any bytes are a value.
pub(super) unsafe trait Entry: Copy {}

// SAFETY: a number.
unsafe impl Entry for u64 {}
// SAFETY: three numbers without padding.
unsafe impl Entry for Part {}

/// The side that writes: of the fill ring, of the transmit ring.
pub(super) struct Producer<T> {
    ring: Ring<T>,
    /// Where the next entry goes.
    next: u32,
    /// The other side had read up to here.
    consumed: u32,
}

impl<T: Entry> Producer<T> {
    /// Over a ring of `size` entries, a power of two, that is mapped whole.
    pub(super) fn new(mapping: Arc<Mapping>, offsets: &XdpRingOffset, size: u32) -> Self {
        let ring = Ring::new(mapping, offsets, size);
        let next = ring.producer().load(Ordering::Relaxed);
        let consumed = ring.consumer().load(Ordering::Relaxed);
        Self {
            ring,
            next,
            consumed,
        }
    }

    /// Entries that can be pushed: looks anew if fewer than `wanted` are known.
    pub(super) fn free(&mut self, wanted: u32) -> u32 {
        let size = self.ring.mask + 1;
        if size - self.next.wrapping_sub(self.consumed) < wanted {
            // Acquire, the kernel's release: it has read the entries before it moved on.
            self.consumed = self.ring.consumer().load(Ordering::Acquire);
            let pushed = self.next.wrapping_sub(self.consumed);
            assert!(pushed <= size, "the kernel reads only what was written");
        }
        size - self.next.wrapping_sub(self.consumed)
    }

    /// Entries that the other side has not read yet.
    pub(super) fn pending(&mut self) -> u32 {
        let size = self.ring.mask + 1;
        size - self.free(size)
    }

    /// Writes an entry; there must be room. The other side sees it after [`submit`](Self::submit).
    pub(super) fn push(&mut self, entry: T) {
        assert!(
            self.next.wrapping_sub(self.consumed) <= self.ring.mask,
            "pushed into a full ring"
        );
        // SAFETY: between the consumer's index and the producer's published one plus what is free,
        // the entries are this side's (asserted).
        unsafe { self.ring.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
    }

    /// Shows the other side what was pushed.
    pub(super) fn submit(&mut self) {
        // Release, the kernel's acquire: the entries come before the index.
        self.ring.producer().store(self.next, Ordering::Release);
    }
}

/// The side that reads: of the receive ring, of the completion ring.
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    /// The next entry to be read.
    next: u32,
    /// The other side had written up to here.
    produced: u32,
}

impl<T: Entry> Consumer<T> {
    /// Over a ring of `size` entries, a power of two, that is mapped whole.
    pub(super) fn new(mapping: Arc<Mapping>, offsets: &XdpRingOffset, size: u32) -> Self {
        let ring = Ring::new(mapping, offsets, size);
        let next = ring.consumer().load(Ordering::Relaxed);
        Self {
            ring,
            next,
            produced: next,
        }
    }

    /// Entries that can be read: looks anew if fewer than `wanted` are known.
    pub(super) fn ready(&mut self, wanted: u32) -> u32 {
        if self.produced.wrapping_sub(self.next) < wanted {
            // Acquire, the kernel's release: it has written the entries, and what they speak of,
            // before.
            self.produced = self.ring.producer().load(Ordering::Acquire);
            let ready = self.produced.wrapping_sub(self.next);
            assert!(
                ready <= self.ring.mask + 1,
                "the kernel writes only what is free"
            );
        }
        self.produced.wrapping_sub(self.next)
    }

    /// How full the ring is, from 0 to 1.
    pub(super) fn fill_level(&self) -> f32 {
        // Relaxed: nothing is read of the entries.
        let produced = self.ring.producer().load(Ordering::Relaxed);
        produced.wrapping_sub(self.next) as f32 / (self.ring.mask + 1) as f32
    }

    /// The entry `ahead` of the next one: among those known to be ready.
    pub(super) fn peek(&self, ahead: u32) -> T {
        assert!(
            ahead < self.produced.wrapping_sub(self.next),
            "read past what is ready"
        );
        // SAFETY: the other side has written the entry and leaves it alone until it is released
        // (asserted); any bytes are a value.
        unsafe { self.ring.entry(self.next.wrapping_add(ahead)).read() }
    }

    /// Goes on behind `count` entries, which the other side may then overwrite.
    pub(super) fn release(&mut self, count: u32) {
        assert!(
            count <= self.produced.wrapping_sub(self.next),
            "released more than is ready"
        );
        self.next = self.next.wrapping_add(count);
        // Release, the kernel's acquire: the entries were read before.
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}

struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    entries: NonNull<T>,
    mask: u32,
    /// Keeps the addresses mapped.
    _mapping: Arc<Mapping>,
    of: PhantomData<T>,
}

// SAFETY: the addresses are of a mapping, which belongs to no thread; each side is one value, which
// one thread uses at a time.
unsafe impl<T: Entry> Send for Ring<T> {}

impl<T: Entry> Ring<T> {
    fn new(mapping: Arc<Mapping>, offsets: &XdpRingOffset, size: u32) -> Self {
        assert!(size.is_power_of_two(), "the kernel makes no other rings");
        let index = |offset: u64| {
            let at = mapping.at(offset as usize, size_of::<AtomicU32>());
            let at = at.cast::<AtomicU32>();
            assert!(at.is_aligned(), "the kernel aligns its indices");
            at
        };
        let entries = mapping
            .at(offsets.desc as usize, size as usize * size_of::<T>())
            .cast::<T>();
        assert!(entries.is_aligned(), "the kernel aligns its entries");
        Self {
            producer: index(offsets.producer),
            consumer: index(offsets.consumer),
            entries,
            mask: size - 1,
            _mapping: mapping,
            of: PhantomData,
        }
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: mapped and aligned (`new`), zero or written atomically by both sides.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.consumer.as_ref() }
    }

    fn entry(&self, index: u32) -> NonNull<T> {
        // SAFETY: the masked index is below the size, for which `new` has checked the mapping.
        unsafe { self.entries.add((index & self.mask) as usize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(size: u32) -> (Producer<u64>, Consumer<u64>) {
        let offsets = XdpRingOffset {
            producer: 0,
            consumer: 64,
            desc: 128,
            flags: None,
        };
        let mapping = Arc::new(Mapping::anonymous(4096).expect("memory"));
        // The indices wrap around within the test.
        for offset in [0, 64] {
            // SAFETY: within the mapping, aligned, and not used elsewhere yet.
            unsafe {
                mapping
                    .at(offset, 4)
                    .cast::<u32>()
                    .write(u32::MAX - 2 * size);
            }
        }
        let producer = Producer::new(Arc::clone(&mapping), &offsets, size);
        (producer, Consumer::new(mapping, &offsets, size))
    }

    #[test]
    fn ring_entries_come_in_order_and_once_when_indices_wrap() {
        let (mut producer, mut consumer) = pair(8);
        let (mut written, mut read) = (0, 0);
        for round in 0..100 {
            for _ in 0..(round % 5).min(producer.free(8)) {
                producer.push(written);
                written += 1;
            }
            assert_eq!(
                consumer.ready(u32::MAX),
                (written - read) as u32 - round % 5
            );
            producer.submit();
            let ready = consumer.ready(u32::MAX);
            assert_eq!(u64::from(ready), written - read);
            for ahead in 0..ready {
                assert_eq!(consumer.peek(ahead), read);
                read += 1;
            }
            consumer.release(ready);
        }
        assert_eq!(read, 200);
    }

    #[test]
    fn a_full_ring_has_room_again_when_entries_are_released() {
        let (mut producer, mut consumer) = pair(4);
        assert_eq!(producer.free(1), 4);
        (0..4).for_each(|entry| producer.push(entry));
        producer.submit();
        assert_eq!((producer.free(1), producer.pending()), (0, 4));
        assert_eq!((consumer.ready(1), consumer.fill_level()), (4, 1.0));
        consumer.release(3);
        assert_eq!(consumer.fill_level(), 0.25);
        assert_eq!((producer.free(4), producer.pending()), (3, 1));
    }

    #[test]
    #[should_panic(expected = "full ring")]
    fn nothing_is_overwritten() {
        let (mut producer, _consumer) = pair(2);
        (0..3).for_each(|entry| producer.push(entry));
    }
}
