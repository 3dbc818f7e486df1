//! Ports in front of other ports.

use std::os::fd::BorrowedFd;

use lineside_frame::Burst;

use crate::{Facts, Live, Port, PortError, Receive, Received};

/// A port in front of another one: it looks at what that receives, or changes it. All else is the
/// other port's.
pub trait Wrapper: Send {
    /// The other port.
    type Port: Port + ?Sized;

    /// The port behind this one.
    fn port(&self) -> &Self::Port;

    /// The port behind this one, to change it.
    fn port_mut(&mut self) -> &mut Self::Port;

    /// As [`Receive::receive`].
    fn pass(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError>;

    /// The port's [`facts`](Port::facts) have been brought up to date.
    fn on_account(&mut self) {}
}

impl<W: Wrapper> Port for W {
    fn facts(&self) -> Vec<&Facts> {
        self.port().facts()
    }

    fn facts_of(&self, input: usize) -> Option<&Facts> {
        self.port().facts_of(input)
    }
}

impl<W: Wrapper<Port: Receive>> Receive for W {
    fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        self.pass(burst, max)
    }

    fn leave(&mut self, ahead: &mut Burst) {
        self.port_mut().leave(ahead);
    }
}

impl<W: Wrapper<Port: Live>> Live for W {
    fn wake_on<'a>(&'a self, descriptors: &mut Vec<BorrowedFd<'a>>) {
        self.port().wake_on(descriptors);
    }

    fn backlog(&self) -> f32 {
        self.port().backlog()
    }

    fn account(&mut self) {
        self.port_mut().account();
        self.on_account();
    }

    fn shut(&mut self) {
        self.port_mut().shut();
    }
}
