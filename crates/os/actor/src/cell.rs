//! An actor at rest: its mailbox and its behaviour, behind a pointer that schedulers pass around.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use crossbeam_utils::CachePadded;

use crate::actor::{Actor, Context, Outcome};
use crate::mailbox::{Mailbox, Node};
use crate::pool::Pool;
use crate::report::{ActorReport, Cause};
use crate::scheduler::Scheduler;

/// What a scheduler and a sender need to know of an actor without knowing its message type.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) mailbox: Mailbox,
    /// Which system it belongs to: checked on each send, so that no other system's queue gets it.
    pub(crate) system: u32,
    /// The scheduler that runs it, under the pinned schedule.
    pub(crate) home: u32,
    pub(crate) id: u32,
    activate: unsafe fn(CellPtr, &mut Scheduler) -> bool,
    discard: unsafe fn(*mut Node, &mut Pool),
}

/// An actor that takes messages of type `M`. The header comes first, for [`CellPtr`], in a cache
/// line that senders share; the body, which is the receiver's, in the next one.
#[repr(C, align(64))]
pub(crate) struct Cell<M> {
    pub(crate) header: Header,
    body: Line<UnsafeCell<Body<M>>>,
    name: Box<str>,
    pub(crate) this: Weak<Self>,
}

#[repr(align(64))]
struct Line<T>(T);

/// Touched only by the scheduler that runs the actor (see `mailbox`), and through raw places: the
/// activation that runs may send to its own actor.
struct Body<M> {
    /// `None` while it runs.
    behaviour: Option<Box<dyn Behaviour<M>>>,
    messages: u64,
    activations: u64,
    discarded: u64,
    /// Messages since the mailbox was empty last, and the most there were.
    run: u64,
    run_max: u64,
}

// SAFETY: the header is atomics and constants; the body is reached by one scheduler at a time, with
// the order that the mailbox gives, and holds what is `Send`; messages are moved between threads.
unsafe impl<M: Send> Send for Cell<M> {}
// SAFETY: as above.
unsafe impl<M: Send> Sync for Cell<M> {}

impl<M: Send + 'static> Cell<M> {
    pub(crate) fn new(
        (system, home, id): (u32, u32, u32),
        name: String,
        behaviour: Box<dyn Behaviour<M>>,
        pool: &mut Pool,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            header: Header {
                mailbox: Mailbox::new(pool.take::<M>()),
                system,
                home,
                id,
                activate: activate::<M>,
                discard: discard::<M>,
            },
            body: Line(UnsafeCell::new(Body {
                behaviour: Some(behaviour),
                messages: 0,
                activations: 0,
                discarded: 0,
                run: 0,
                run_max: 0,
            })),
            name: name.into(),
        })
    }

    /// The oldest message, for the scheduler that runs the actor.
    ///
    /// # Safety
    /// The caller runs the actor.
    pub(crate) unsafe fn pop(&self, pool: &mut Pool) -> Option<M> {
        // SAFETY: the caller runs the actor; this mailbox holds nodes of `M` from this system's
        // depot, and a node that is popped is read once. The old stub was read, or never held one.
        unsafe {
            let (full, stub) = self.header.mailbox.pop()?;
            pool.free::<M>(stub);
            Some(Pool::message(full))
        }
    }

    /// Runs `part` of the behaviour, and puts the behaviour back, or what replaces it. A failure is
    /// recorded, and what the actor is sent from then on is discarded.
    ///
    /// # Safety
    /// The caller runs the actor.
    unsafe fn enter(
        &self,
        scheduler: &mut Scheduler,
        part: impl FnOnce(&mut dyn Behaviour<M>, &mut Context<'_, M>) -> Outcome,
    ) {
        let body = self.body.0.get();
        // SAFETY: only the scheduler that runs the actor touches the body. The behaviour is moved
        // out, so that no reference into the body exists while user code runs.
        let behaviour = unsafe { (*body).behaviour.take() };
        let mut behaviour = behaviour.expect("an actor runs once at a time");
        let mut context = Context {
            scheduler,
            cell: self,
            handled: 0,
            discarded: 0,
            replacement: None,
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| part(&mut *behaviour, &mut context)));
        let Context {
            scheduler,
            handled,
            discarded,
            replacement,
            ..
        } = context;
        let cause = match outcome {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Cause::Error(error)),
            Err(payload) => Some(Cause::panic(&*payload)),
        };
        let next = match cause {
            None => replacement.unwrap_or(behaviour),
            Some(cause) => {
                scheduler.shared.fail(&self.name, cause);
                drop_quietly((behaviour, replacement));
                Box::new(CachePadded::new(Failed(PhantomData)))
            }
        };
        // SAFETY: as above.
        unsafe {
            (*body).behaviour = Some(next);
            (*body).messages += handled;
            (*body).discarded += discarded;
            (*body).run += handled;
        }
        scheduler.report.messages += handled;
    }
}

/// What the system does with all its actors alike. For the thread that ends a run, when no
/// scheduler runs any more.
pub(crate) trait AnyCell: Send + Sync {
    /// Lets the actor finish.
    ///
    /// # Safety
    /// No scheduler runs, but the one that is given.
    unsafe fn stop(&self, scheduler: &mut Scheduler);

    /// Drops the behaviour and what is left in the mailbox, and with them the addresses that they
    /// hold.
    ///
    /// # Safety
    /// No scheduler runs, and none will.
    unsafe fn clear(&self, pool: &mut Pool);

    /// # Safety
    /// No scheduler runs.
    unsafe fn report(&self) -> ActorReport;
}

impl<M: Send + 'static> AnyCell for Cell<M> {
    unsafe fn stop(&self, scheduler: &mut Scheduler) {
        // SAFETY: no other scheduler runs the actor.
        unsafe { self.enter(scheduler, |behaviour, context| behaviour.stop(context)) }
    }

    unsafe fn clear(&self, pool: &mut Pool) {
        // SAFETY: no other scheduler runs the actor.
        unsafe {
            drop_quietly((*self.body.0.get()).behaviour.take());
            while let Some(message) = self.pop(pool) {
                drop_quietly(message);
            }
        }
    }

    unsafe fn report(&self) -> ActorReport {
        let body = self.body.0.get();
        // SAFETY: no scheduler runs the actor.
        unsafe {
            ActorReport {
                name: self.name.to_string(),
                home: self.header.home as usize,
                messages: (*body).messages,
                activations: (*body).activations,
                run_max: (*body).run_max.max((*body).run),
                discarded: (*body).discarded,
            }
        }
    }
}

/// A pointer to a cell of any message type, as run queues hold it. Valid as long as the system
/// runs, since its registry holds every cell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CellPtr(NonNull<Header>);

// SAFETY: a cell is `Sync`, and the registry keeps it.
unsafe impl Send for CellPtr {}

impl CellPtr {
    pub(crate) fn new<M>(cell: &Cell<M>) -> Self {
        // From the whole cell, not from its header: the scheduler that runs the actor goes on to
        // the body.
        Self(NonNull::from(cell).cast())
    }

    /// # Safety
    /// The system still runs.
    pub(crate) unsafe fn header<'a>(self) -> &'a Header {
        // SAFETY: as the caller says.
        unsafe { self.0.as_ref() }
    }

    /// Runs the actor for a bounded number of messages. True if it is to run again; after `false`
    /// another scheduler may run it.
    ///
    /// # Safety
    /// The system still runs, and the caller took this from a run queue.
    pub(crate) unsafe fn activate(self, scheduler: &mut Scheduler) -> bool {
        // SAFETY: as the caller says.
        unsafe { (self.header().activate)(self, scheduler) }
    }

    /// Drops a message that was not delivered.
    ///
    /// # Safety
    /// The system still runs; `node` holds a message for this actor, in no mailbox.
    pub(crate) unsafe fn discard(self, node: *mut Node, pool: &mut Pool) {
        // SAFETY: as the caller says.
        unsafe { (self.header().discard)(node, pool) }
    }
}

unsafe fn activate<M: Send + 'static>(this: CellPtr, scheduler: &mut Scheduler) -> bool {
    // SAFETY: this function stands only in the header of a `Cell<M>`.
    let cell = unsafe { this.0.cast::<Cell<M>>().as_ref() };
    let body = cell.body.0.get();
    let limit = scheduler.limit();
    scheduler.current = cell.header.id;
    // SAFETY: the caller runs the actor, until `go_idle` says otherwise.
    unsafe {
        cell.enter(scheduler, |behaviour, context| {
            behaviour.handle(context, limit)
        });
        (*body).activations += 1;
        let mailbox = &cell.header.mailbox;
        if !mailbox.is_empty() {
            return true;
        }
        let run = std::mem::replace(&mut (*body).run, 0);
        (*body).run_max = (*body).run_max.max(run);
        let idle = if scheduler.is_shared() {
            mailbox.go_idle_shared()
        } else {
            mailbox.go_idle_local()
        };
        !idle
    }
}

unsafe fn discard<M>(node: *mut Node, pool: &mut Pool) {
    // SAFETY: this function stands only in the header of a `Cell<M>`, and the caller owns the node.
    unsafe {
        drop_quietly(Pool::message::<M>(node));
        pool.free::<M>(node);
    }
}

/// Drops what belongs to the user. A panic in a destructor of something that is thrown away anyway
/// must not take a scheduler with it.
fn drop_quietly<T>(value: T) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
}

/// An [`Actor`] whose type is forgotten, but for its messages: what an actor can be replaced by.
pub(crate) trait Behaviour<M>: Send {
    fn handle(&mut self, context: &mut Context<'_, M>, limit: usize) -> Outcome;
    fn stop(&mut self, context: &mut Context<'_, M>) -> Outcome;
}

impl<A: Actor> Behaviour<A::Message> for CachePadded<A> {
    fn handle(&mut self, context: &mut Context<'_, A::Message>, limit: usize) -> Outcome {
        for _ in 0..limit {
            let Some(message) = context.next_message() else {
                break;
            };
            self.on_message(message, context)?;
            if context.replacement.is_some() {
                break;
            }
        }
        Ok(())
    }

    fn stop(&mut self, context: &mut Context<'_, A::Message>) -> Outcome {
        self.on_stop(context)
    }
}

/// What is left of an actor that failed.
struct Failed<M>(PhantomData<fn(M)>);

impl<M: Send + 'static> Actor for Failed<M> {
    type Message = M;

    fn on_message(&mut self, message: M, context: &mut Context<'_, M>) -> Outcome {
        context.handled -= 1;
        context.discarded += 1;
        drop_quietly(message);
        Ok(())
    }
}
