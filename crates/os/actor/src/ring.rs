//! A ring from one core to another: one producer, one consumer, published a pass at a time.

use std::mem::MaybeUninit;
use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicUsize, Ordering, UnsafeCell};

pub(crate) struct Ring<T> {
    /// Slots read so far; written by the consumer.
    read: CachePadded<AtomicUsize>,
    /// Slots published so far; written by the producer.
    written: CachePadded<AtomicUsize>,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: a slot is written by the one producer before it is published, and read by the one
// consumer before it is given back; the two counters order both.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Ring<T> {}

/// The end that writes. What it pushed is seen after [`Producer::publish`].
pub(crate) struct Producer<T>(End<T>);

/// The end that reads. The slots it read are free again after [`Consumer::release`].
pub(crate) struct Consumer<T>(End<T>);

/// One end's own counters.
struct End<T> {
    ring: Arc<Ring<T>>,
    next: usize,
    /// As much of `next` as the other end may know.
    published: usize,
    /// The other end's counter, as of the last look.
    seen: usize,
}

/// A ring of `capacity` slots, a power of two. `T` is `Copy`, so that nothing is left to drop.
pub(crate) fn ring<T: Copy>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    assert!(capacity.is_power_of_two(), "slots are found by a mask");
    let ring = Arc::new(Ring {
        read: CachePadded::new(AtomicUsize::new(0)),
        written: CachePadded::new(AtomicUsize::new(0)),
        slots: (0..capacity)
            .map(|_| UnsafeCell::new(MaybeUninit::uninit()))
            .collect(),
    });
    let end = || End {
        ring: Arc::clone(&ring),
        next: 0,
        published: 0,
        seen: 0,
    };
    (Producer(end()), Consumer(end()))
}

impl<T> Ring<T> {
    /// Whether all that was published has been read and released, as any thread sees it.
    pub(crate) fn is_empty(&self) -> bool {
        // SeqCst: whoever asks has to decide whether to sleep (see `Shared::is_quiescent`).
        self.read.load(Ordering::SeqCst) == self.written.load(Ordering::SeqCst)
    }

    fn slot(&self, at: usize) -> &UnsafeCell<MaybeUninit<T>> {
        &self.slots[at & (self.slots.len() - 1)]
    }
}

impl<T: Copy> Producer<T> {
    pub(crate) fn ring(&self) -> &Arc<Ring<T>> {
        &self.0.ring
    }

    /// Writes `value`, or returns it if the ring is full.
    pub(crate) fn push(&mut self, value: T) -> Result<(), T> {
        let capacity = self.0.ring.slots.len();
        if self.0.next.wrapping_sub(self.0.seen) == capacity {
            // Acquire: pairs with `release`; the consumer has done with the slots we write again.
            self.0.seen = self.0.ring.read.load(Ordering::Acquire);
            if self.0.next.wrapping_sub(self.0.seen) == capacity {
                return Err(value);
            }
        }
        self.0.ring.slot(self.0.next).with_mut(|slot| {
            // SAFETY: the slot is not published, or was read and released: no one else uses it.
            unsafe { (*slot).write(value) };
        });
        self.0.next = self.0.next.wrapping_add(1);
        Ok(())
    }

    /// Lets the consumer see what was pushed. True if there was anything.
    pub(crate) fn publish(&mut self) -> bool {
        let any = self.0.next != self.0.published;
        if any {
            // Release: pairs with the Acquire in `pop`.
            self.0.ring.written.store(self.0.next, Ordering::Release);
            self.0.published = self.0.next;
        }
        any
    }
}

impl<T: Copy> Consumer<T> {
    /// The oldest value that was published.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.0.next == self.0.seen {
            // Acquire: pairs with `publish`.
            self.0.seen = self.0.ring.written.load(Ordering::Acquire);
            if self.0.next == self.0.seen {
                return None;
            }
        }
        let value = self.0.ring.slot(self.0.next).with(|slot| {
            // SAFETY: published, and not yet released.
            unsafe { (*slot).assume_init() }
        });
        self.0.next = self.0.next.wrapping_add(1);
        Some(value)
    }

    /// Whether nothing is left to read, published as it is.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.ring.is_empty()
    }

    /// Gives the slots that were read back to the producer.
    pub(crate) fn release(&mut self) {
        if self.0.next != self.0.published {
            // Release: pairs with the Acquire in `push`.
            self.0.ring.read.store(self.0.next, Ordering::Release);
            self.0.published = self.0.next;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_full_ring_returns_the_value_and_hides_unpublished_ones() {
        let (mut producer, mut consumer) = ring(2);
        assert_eq!(producer.push(1), Ok(()));
        assert_eq!(consumer.pop(), None);
        assert_eq!(producer.push(2), Ok(()));
        assert_eq!(producer.push(3), Err(3));
        assert!(producer.publish());
        assert!(!producer.publish());
        assert_eq!(consumer.pop(), Some(1));
        assert_eq!(producer.push(3), Err(3), "read, but not released");
        consumer.release();
        assert_eq!(producer.push(3), Ok(()));
        assert_eq!((consumer.pop(), consumer.pop()), (Some(2), None));
        assert!(!producer.ring().is_empty());
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;

    #[test]
    fn values_arrive_once_and_in_order() {
        loom::model(|| {
            let (mut producer, mut consumer) = ring(2);
            let sender = loom::thread::spawn(move || {
                let mut value = 0;
                while value < 3 {
                    if producer.push(value).is_ok() {
                        value += 1;
                    } else {
                        loom::thread::yield_now();
                    }
                    producer.publish();
                }
            });
            let mut expected = 0;
            while expected < 3 {
                match consumer.pop() {
                    Some(value) => {
                        assert_eq!(value, expected);
                        expected += 1;
                    }
                    None => loom::thread::yield_now(),
                }
                consumer.release();
            }
            sender.join().unwrap();
        });
    }
}
