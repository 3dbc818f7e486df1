//! Nodes for messages: recycled through per-thread free lists, so that nothing is allocated per
//! message after start.
//!
//! A node is taken by the sender's thread and freed by the receiver's. Each thread keeps at most
//! two magazines of [`MAGAZINE`] nodes of a size; full and empty ones are exchanged in the
//! [`Depot`], whose lock is thus taken once for [`MAGAZINE`] messages that leave or enter a thread.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::mailbox::Node;
use crate::sync::Ordering;

/// Sizes of nodes in bytes. The largest leaves 248 bytes for a message: what is larger is better
/// moved by its box or as a batch.
const SIZES: [usize; 4] = [32, 64, 128, 256];
/// Every node begins at a multiple of this, so a message may ask for as much alignment.
const ALIGN: usize = 32;
/// Nodes in a magazine: large enough that the depot's lock (about 20 ns) is nothing per message,
/// small enough that 2 magazines of the smallest node fit in a first-level cache.
const MAGAZINE: usize = 128;

/// A node with its message.
#[repr(C)]
struct Slot<M> {
    node: Node,
    message: MaybeUninit<M>,
}

impl<M> Slot<M> {
    /// Which of [`SIZES`] holds it. Does not compile for a message that is too large.
    const CLASS: usize = {
        assert!(
            align_of::<Self>() <= ALIGN && size_of::<Self>() <= SIZES[SIZES.len() - 1],
            "a message is at most 248 bytes: send what is larger in a box"
        );
        let mut class = 0;
        while SIZES[class] < size_of::<Self>() {
            class += 1;
        }
        class
    };
}

/// A chain of free nodes of one size.
struct Magazine {
    first: *mut Node,
    count: usize,
}

// SAFETY: a magazine owns its nodes, and free nodes hold no message.
unsafe impl Send for Magazine {}

impl Magazine {
    const EMPTY: Self = Self {
        first: ptr::null_mut(),
        count: 0,
    };
}

/// What all threads of a system share. Its memory is freed with the last of them; actors hold no
/// node by then.
#[derive(Default)]
pub(crate) struct Depot {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    magazines: [Vec<Magazine>; SIZES.len()],
    /// Memory of nodes. Never grows, so that it stays where it is.
    chunks: Vec<Vec<MaybeUninit<Grain>>>,
}

/// What the sizes of nodes are multiples of.
#[repr(align(32))]
struct Grain {
    _bytes: [u8; ALIGN],
}

impl Depot {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing between lock and unlock leaves it half done, so poison says nothing.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A filled magazine: one that was returned, or new memory.
    #[cold]
    fn fill(&self, class: usize) -> Magazine {
        let mut inner = self.lock();
        if let Some(magazine) = inner.magazines[class].pop() {
            return magazine;
        }
        let grains = SIZES[class] / size_of::<Grain>();
        let mut chunk = Vec::with_capacity(grains * MAGAZINE);
        let start: *mut MaybeUninit<Grain> = chunk.as_mut_ptr();
        inner.chunks.push(chunk);
        let room = inner.chunks.len();
        // Each chunk's nodes may come back in one magazine more than was taken from each thread.
        inner.magazines[class].reserve(room + 8);
        let mut magazine = Magazine::EMPTY;
        for at in (0..MAGAZINE).rev() {
            // SAFETY: within the chunk's capacity, aligned, and used by no one else.
            unsafe {
                let node = start.add(at * grains).cast::<Node>();
                node.write(Node {
                    next: crate::sync::AtomicPtr::new(magazine.first),
                });
                magazine.first = node;
            }
        }
        magazine.count = MAGAZINE;
        magazine
    }

    #[cold]
    fn give_back(&self, class: usize, magazine: Magazine) {
        if magazine.count > 0 {
            self.lock().magazines[class].push(magazine);
        }
    }

    /// Nodes allocated so far, of all sizes.
    pub(crate) fn nodes(&self) -> usize {
        self.lock().chunks.len() * MAGAZINE
    }
}

/// One thread's free nodes.
pub(crate) struct Pool {
    depot: Arc<Depot>,
    current: [Magazine; SIZES.len()],
    /// Full or empty.
    spare: [Magazine; SIZES.len()],
}

impl Pool {
    pub(crate) fn new(depot: Arc<Depot>) -> Self {
        Self {
            depot,
            current: [Magazine::EMPTY; SIZES.len()],
            spare: [Magazine::EMPTY; SIZES.len()],
        }
    }

    /// A node that holds `message`.
    pub(crate) fn fill<M>(&mut self, message: M) -> *mut Node {
        let node = self.take::<M>();
        // SAFETY: the node is ours, and its class was chosen to hold a `Slot<M>`.
        unsafe { (&raw mut (*node.cast::<Slot<M>>()).message).write(MaybeUninit::new(message)) };
        node
    }

    /// Moves the message out of a node that [`Self::fill`] made.
    ///
    /// # Safety
    /// `node` holds an `M` that was not taken and that no one else takes.
    pub(crate) unsafe fn message<M>(node: *mut Node) -> M {
        // SAFETY: as the caller says.
        unsafe { (*node.cast::<Slot<M>>()).message.assume_init_read() }
    }

    /// Takes an empty node back.
    ///
    /// # Safety
    /// `node` came from [`Self::fill`] or [`Self::take`] of the same `M` and the same depot, its
    /// message has been moved out, and nothing refers to it.
    pub(crate) unsafe fn free<M>(&mut self, node: *mut Node) {
        let class = Slot::<M>::CLASS;
        let magazine = &mut self.current[class];
        if magazine.count == MAGAZINE {
            let full = std::mem::replace(magazine, Magazine::EMPTY);
            let spare = std::mem::replace(&mut self.spare[class], full);
            self.depot.give_back(class, spare);
        }
        let magazine = &mut self.current[class];
        // SAFETY: the node is ours.
        unsafe { (*node).next.store(magazine.first, Ordering::Relaxed) };
        magazine.first = node;
        magazine.count += 1;
    }

    /// A node for an `M`, without a message.
    pub(crate) fn take<M>(&mut self) -> *mut Node {
        let class = Slot::<M>::CLASS;
        if self.current[class].count == 0 {
            let spare = std::mem::replace(&mut self.spare[class], Magazine::EMPTY);
            self.current[class] = if spare.count > 0 {
                spare
            } else {
                self.depot.fill(class)
            };
        }
        let magazine = &mut self.current[class];
        let node = magazine.first;
        // SAFETY: free nodes of our own magazine.
        magazine.first = unsafe { (*node).next.load(Ordering::Relaxed) };
        magazine.count -= 1;
        node
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for class in 0..SIZES.len() {
            for magazines in [&mut self.current, &mut self.spare] {
                let magazine = std::mem::replace(&mut magazines[class], Magazine::EMPTY);
                self.depot.give_back(class, magazine);
            }
        }
    }
}
