//! What a user writes and holds: actors, their addresses, and the context they run in.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::cell::{Behaviour, Cell};
use crate::scheduler::Scheduler;

/// What handling a message came to. An error stops the run, and its result names the actor.
pub type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// State of its own, reached by messages of one type and nothing else.
pub trait Actor: Send + Sized + 'static {
    /// What it takes. At most 248 bytes: a batch, or a box, of what is larger. Sending moves it.
    type Message: Send + 'static;

    /// Handles one message, to completion: it must not block, since nothing else runs on this
    /// scheduler meanwhile.
    fn on_message(
        &mut self,
        message: Self::Message,
        context: &mut Context<'_, Self::Message>,
    ) -> Outcome;

    /// Called once at the end of a run, also of one that another actor's failure stopped, so that
    /// what was begun can be completed.
    ///
    /// By then no message is pending. Actors stop one after the other on one thread, those created
    /// last first, and what one sends is handled before the next is stopped. Since an actor is
    /// created after those whose addresses it is given, a pipeline so empties itself from front to
    /// back. Work that several cores should share belongs in a last message instead.
    fn on_stop(&mut self, _context: &mut Context<'_, Self::Message>) -> Outcome {
        Ok(())
    }
}

/// Where messages of type `M` can be sent, from an actor by its [`Context`], from any other thread
/// by a [`crate::Handle`].
pub struct Address<M> {
    pub(crate) cell: Arc<Cell<M>>,
}

impl<M> Clone for Address<M> {
    fn clone(&self) -> Self {
        Self {
            cell: Arc::clone(&self.cell),
        }
    }
}

impl<M> fmt::Debug for Address<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Address({})", self.cell.header.id)
    }
}

/// What an actor can do while it handles a message of type `M`.
pub struct Context<'a, M> {
    pub(crate) scheduler: &'a mut Scheduler,
    pub(crate) cell: &'a Cell<M>,
    pub(crate) handled: u64,
    pub(crate) discarded: u64,
    pub(crate) replacement: Option<Box<dyn Behaviour<M>>>,
}

impl<M: Send + 'static> Context<'_, M> {
    /// Sends `message` to `to`, which may be this actor itself. Never blocks. Messages from one
    /// actor to another arrive in the order in which they were sent; nothing else is promised about
    /// order.
    ///
    /// # Panics
    /// If `to` belongs to another system.
    pub fn send<T: Send + 'static>(&mut self, to: &Address<T>, message: T) {
        self.scheduler.send(&to.cell, message);
    }

    /// Sends `message` not before `delay` has passed. Dropped if the run stops earlier.
    pub fn send_after<T: Send + 'static>(&mut self, delay: Duration, to: &Address<T>, message: T) {
        self.scheduler.send_after(delay, &to.cell, message);
    }

    /// This actor's own address.
    pub fn address(&self) -> Address<M> {
        let cell = self.cell.this.upgrade();
        let cell = cell.expect("the registry holds an actor that runs");
        Address { cell }
    }

    /// Creates an actor. Its home is where the placement puts its name, else this scheduler.
    pub fn spawn<A: Actor>(&mut self, name: impl Into<String>, actor: A) -> Address<A::Message> {
        self.scheduler.spawn(name.into(), actor)
    }

    /// From the next message on, `actor` takes this actor's place, under the same address.
    pub fn replace(&mut self, actor: impl Actor<Message = M>) {
        self.replacement = Some(Box::new(CachePadded::new(actor)));
    }

    /// Time since the run began. Virtual under [`crate::Schedule::Simulated`].
    pub fn now(&self) -> Duration {
        self.scheduler.now()
    }

    /// Begins an orderly stop: no more messages from outside, no timers; what is pending is
    /// handled, every actor stops, and the run ends.
    pub fn stop(&mut self) {
        self.scheduler.shared.stop();
    }

    /// Whether the run is stopping. An actor that keeps itself busy by messages to itself, or
    /// several that keep each other busy, must then cease, or the run does not end.
    pub fn is_stopping(&self) -> bool {
        self.scheduler.shared.is_stopping()
    }

    pub(crate) fn next_message(&mut self) -> Option<M> {
        // SAFETY: a context exists only while its scheduler runs the actor.
        let message = unsafe { self.cell.pop(&mut self.scheduler.pool) };
        self.handled += u64::from(message.is_some());
        message
    }
}
