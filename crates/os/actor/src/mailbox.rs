//! The queue of one actor: many senders, one receiver, one atomic read-modify-write per message.
//!
//! ```text
//!   tail (receiver)                                   head (senders)
//!     ▼                                                 ▼
//!   [spent] ──next──► [oldest] ──next──► … ──next──► [newest] ──► null
//! ```
//!
//! The queue is Vyukov's: a sender swaps itself into `head`, then links its predecessor to itself.
//! The node that was read last stays as the stub. The lowest bit of `head` says that the actor is
//! *idle* (as in Pony): the sender that swaps it out has to make the actor runnable, so that
//! exactly one scheduler runs it at a time and a sender needs no second atomic to learn whether it
//! must.
//!
//! Access: `head` and a predecessor's `next` anyone who sends; `tail` only the scheduler
//! that runs the actor, from the send that found it idle until [`Mailbox::go_idle`] succeeded.
//! The `*_local` forms do the same by plain loads and stores, where one thread does all of it.

use std::ptr;

use crate::sync::{AtomicPtr, Ordering, UnsafeCell};

const IDLE: usize = 1;

/// The link in front of every message; [`crate::pool::Slot`] is a node with its message.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) next: AtomicPtr<Self>,
}

pub(crate) struct Mailbox {
    head: AtomicPtr<Node>,
    tail: UnsafeCell<*mut Node>,
}

impl Mailbox {
    /// An empty mailbox of an idle actor. `stub` is a node that nothing else refers to.
    pub(crate) fn new(stub: *mut Node) -> Self {
        // SAFETY: the caller owns `stub`.
        unsafe { (*stub).next.store(ptr::null_mut(), Ordering::Relaxed) };
        Self {
            head: AtomicPtr::new(tagged(stub)),
            tail: UnsafeCell::new(stub),
        }
    }

    /// Appends a message, from any thread. True if the actor was idle: the caller makes it
    /// runnable.
    ///
    /// # Safety
    /// `node` is owned by the caller, which gives it away, and stays allocated as long as the
    /// mailbox.
    pub(crate) unsafe fn push_shared(&self, node: *mut Node) -> bool {
        // SAFETY: the node is still ours.
        unsafe { (*node).next.store(ptr::null_mut(), Ordering::Relaxed) };
        // Release: the next sender, which writes our `next`, sees it initialised. Acquire: so do we
        // with our predecessor's; and when we find the actor idle, we see what its last activation
        // wrote, and so will the scheduler that runs it.
        let before = self.head.swap(node, Ordering::AcqRel);
        // SAFETY: the receiver keeps the predecessor until its `next` is set, which only we do.
        // Release: pairs with the receiver's Acquire, and publishes the message.
        unsafe { (*untagged(before)).next.store(node, Ordering::Release) };
        is_tagged(before)
    }

    /// [`Self::push_shared`] without atomic read-modify-write.
    ///
    /// # Safety
    /// As there; besides, the calling thread is the only one that uses this mailbox.
    pub(crate) unsafe fn push_local(&self, node: *mut Node) -> bool {
        // SAFETY: the node is still ours.
        unsafe { (*node).next.store(ptr::null_mut(), Ordering::Relaxed) };
        let before = self.head.load(Ordering::Relaxed);
        self.head.store(node, Ordering::Relaxed);
        // SAFETY: no other thread; the newest node is never freed, since it stays as the stub.
        unsafe { (*untagged(before)).next.store(node, Ordering::Relaxed) };
        is_tagged(before)
    }

    /// The oldest message: its node, which becomes the stub once the message is moved out, and the
    /// old stub, which is the caller's now. `None` too while the oldest sender has not linked yet.
    ///
    /// # Safety
    /// The caller runs the actor.
    pub(crate) unsafe fn pop(&self) -> Option<(*mut Node, *mut Node)> {
        self.tail.with_mut(|tail| {
            // SAFETY: only the scheduler that runs the actor touches `tail`, and the stub is ours.
            // Acquire: pairs with the sender's Release, and makes the message readable.
            unsafe {
                let stub = *tail;
                let next = (*stub).next.load(Ordering::Acquire);
                if next.is_null() {
                    return None;
                }
                *tail = next;
                Some((next, stub))
            }
        })
    }

    /// Whether [`Self::pop`] would return nothing.
    ///
    /// # Safety
    /// The caller runs the actor.
    pub(crate) unsafe fn is_empty(&self) -> bool {
        // SAFETY: as in `pop`.
        self.tail
            .with(|tail| unsafe { (**tail).next.load(Ordering::Relaxed).is_null() })
    }

    /// Marks the actor idle, if no message has been sent since the last one was read. After `true`
    /// the caller no longer runs the actor. `false`: a message is there, or about to be linked.
    ///
    /// # Safety
    /// The caller runs the actor.
    pub(crate) unsafe fn go_idle_shared(&self) -> bool {
        // SAFETY: as in `pop`.
        let tail = self.tail.with(|tail| unsafe { *tail });
        // Release: pairs with the Acquire of the sender that finds us idle. A failure reads
        // nothing.
        self.head
            .compare_exchange(tail, tagged(tail), Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }

    /// [`Self::go_idle_shared`] without atomic read-modify-write.
    ///
    /// # Safety
    /// As there; besides, the calling thread is the only one that uses this mailbox.
    pub(crate) unsafe fn go_idle_local(&self) -> bool {
        // SAFETY: as in `pop`.
        let tail = self.tail.with(|tail| unsafe { *tail });
        let empty = self.head.load(Ordering::Relaxed) == tail;
        if empty {
            self.head.store(tagged(tail), Ordering::Relaxed);
        }
        empty
    }
}

fn tagged(node: *mut Node) -> *mut Node {
    node.map_addr(|address| address | IDLE)
}

fn untagged(node: *mut Node) -> *mut Node {
    node.map_addr(|address| address & !IDLE)
}

fn is_tagged(node: *mut Node) -> bool {
    node.addr() & IDLE != 0
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::{Arc, Mutex};

    #[repr(C)]
    struct Numbered {
        node: Node,
        value: u32,
    }

    fn numbered(value: u32) -> *mut Node {
        let node = Node {
            next: AtomicPtr::new(ptr::null_mut()),
        };
        Box::into_raw(Box::new(Numbered { node, value })).cast()
    }

    struct Model {
        mailbox: Mailbox,
        seen: UnsafeCell<Vec<u32>>,
        unlinked: Mutex<u32>,
    }

    // SAFETY: what is not atomic is reached only by the scheduler that runs the actor: that is what
    // is tested, and loom's cells report when two do.
    unsafe impl Send for Model {}
    // SAFETY: as above.
    unsafe impl Sync for Model {}

    /// What a scheduler does with a runnable actor, by activations of `limit` messages.
    fn run(model: &Model, limit: usize) {
        loop {
            for _ in 0..limit {
                // SAFETY: we found the actor idle, so we run it.
                let Some((full, stub)) = (unsafe { model.mailbox.pop() }) else {
                    break;
                };
                // SAFETY: the message was published by its sender; the old stub is ours.
                unsafe {
                    let value = (*full.cast::<Numbered>()).value;
                    model.seen.with_mut(|seen| (*seen).push(value));
                    drop(Box::from_raw(stub.cast::<Numbered>()));
                }
            }
            // SAFETY: we run the actor.
            if unsafe { model.mailbox.is_empty() && model.mailbox.go_idle_shared() } {
                return;
            }
            // SAFETY: as above.
            if unsafe { model.mailbox.is_empty() } {
                *model.unlinked.lock().unwrap() += 1;
                loom::thread::yield_now();
            }
        }
    }

    fn check(limit: usize) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let model = Arc::new(Model {
                mailbox: Mailbox::new(numbered(0)),
                seen: UnsafeCell::new(Vec::new()),
                unlinked: Mutex::new(0),
            });
            let senders: Vec<_> = [10, 20]
                .into_iter()
                .map(|base| {
                    let model = Arc::clone(&model);
                    loom::thread::spawn(move || {
                        for value in [base, base + 1] {
                            // SAFETY: the node is new and lives until it is read.
                            if unsafe { model.mailbox.push_shared(numbered(value)) } {
                                run(&model, limit);
                            }
                        }
                    })
                })
                .collect();
            for sender in senders {
                sender.join().unwrap();
            }
            // SAFETY: all threads have ended.
            let seen = model.seen.with(|seen| unsafe { (*seen).clone() });
            assert_eq!(seen.len(), 4, "each message is read once: {seen:?}");
            for base in [10, 20] {
                let of_one: Vec<_> = seen.iter().filter(|&&v| v / 10 == base / 10).collect();
                assert!(of_one.is_sorted(), "in the order of their sender: {seen:?}");
            }
            // SAFETY: nothing else uses the last stub.
            model.mailbox.tail.with(|tail| unsafe {
                drop(Box::from_raw((*tail).cast::<Numbered>()));
            });
        });
    }

    #[test]
    fn every_message_is_read_once_by_one_runner_at_a_time() {
        check(1);
    }

    #[test]
    fn the_same_in_batches() {
        check(8);
    }
}
