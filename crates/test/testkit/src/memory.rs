//! Ports in memory, for tests of what stands between ports.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use lineside_frame::{Burst, Frame};

use lineside_port::{Facts, Live, Port, PortError, Receive, Received, Transmit};

/// What a port in memory does. All but its frames has a default: nothing is known, nothing waits,
/// and what is sent is gone.
pub trait Ends: Send {
    /// As [`Receive::receive`].
    fn take(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError>;

    /// As [`Transmit::transmit`].
    fn send(&mut self, burst: &mut Burst) -> Result<usize, PortError> {
        Ok(burst.drain(..).count())
    }

    /// As [`Port::facts`].
    fn known(&self) -> Vec<&Facts> {
        Vec::new()
    }

    /// As [`Receive::leave`].
    fn give_back(&mut self, ahead: &mut Burst) {
        ahead.clear();
    }

    /// As [`Live::wake_on`].
    fn wakers<'a>(&'a self, _descriptors: &mut Vec<BorrowedFd<'a>>) {}

    /// As [`Live::shut`].
    fn end(&mut self) {}
}

/// A live port over such ends.
#[derive(Debug, Clone, Default)]
pub struct Memory<E>(pub E);

impl<E: Ends> Port for Memory<E> {
    fn facts(&self) -> Vec<&Facts> {
        self.0.known()
    }
}

impl<E: Ends> Receive for Memory<E> {
    fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        self.0.take(burst, max)
    }

    fn leave(&mut self, ahead: &mut Burst) {
        self.0.give_back(ahead);
    }
}

impl<E: Ends> Transmit for Memory<E> {
    fn transmit(&mut self, burst: &mut Burst) -> Result<usize, PortError> {
        self.0.send(burst)
    }

    fn reclaim(&mut self) -> usize {
        0
    }

    fn stamp_next(&mut self) -> bool {
        false
    }

    fn handed_over(&mut self) -> Option<Option<i64>> {
        None
    }
}

impl<E: Ends> Live for Memory<E> {
    fn wake_on<'a>(&'a self, descriptors: &mut Vec<BorrowedFd<'a>>) {
        self.0.wakers(descriptors);
    }

    fn backlog(&self) -> f32 {
        0.0
    }

    fn account(&mut self) {}

    fn shut(&mut self) {
        self.0.end();
    }
}

/// An interface of a test: frames that wait to be received, frames that were sent, and its faults.
#[derive(Debug, Default)]
pub struct Wire {
    /// Frames that have arrived.
    pub to_come: VecDeque<Frame>,
    /// Frames that were sent.
    pub sent: Vec<Frame>,
    /// The interface is down: nothing can be sent.
    pub is_down: bool,
    /// No memory is left for frames that arrive.
    pub is_short: bool,
    /// The interface was removed.
    pub is_gone: bool,
}

/// Both ends of a [`Wire`]: the test's and, in a [`Memory`], the port's. It takes
/// [`SENT_MAX`](Self::SENT_MAX) frames at once.
#[derive(Debug, Clone, Default)]
pub struct SharedWire(Arc<Mutex<Wire>>);

impl SharedWire {
    /// Frames that one call sends.
    pub const SENT_MAX: usize = 3;

    /// The wire, to look at and to change.
    pub fn lock(&self) -> MutexGuard<'_, Wire> {
        self.0.lock().expect("no test panics while it holds it")
    }
}

impl Wire {
    fn is_there(&self) -> Result<(), PortError> {
        let (name, frames) = ("memory".to_owned(), 0);
        match self.is_gone {
            true => Err(PortError::InterfaceGone { name, frames }),
            false => Ok(()),
        }
    }
}

impl Ends for SharedWire {
    fn take(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        let mut wire = self.lock();
        wire.is_there()?;
        if wire.is_short {
            return Ok(Received::PoolEmpty);
        }
        let count = max.min(wire.to_come.len());
        burst.extend(wire.to_come.drain(..count));
        Ok(match count {
            0 => Received::Idle { until_ns: 0 },
            count => Received::Frames(count),
        })
    }

    fn send(&mut self, burst: &mut Burst) -> Result<usize, PortError> {
        let mut wire = self.lock();
        wire.is_there()?;
        if wire.is_down {
            let name = "memory".to_owned();
            return Err(PortError::InterfaceDown { name });
        }
        let count = burst.len().min(Self::SENT_MAX);
        wire.sent.extend(burst.drain(..count));
        Ok(count)
    }
}
