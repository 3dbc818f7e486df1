use lineside_frame::Burst;
use lineside_port::{Port, PortError, Receive, Received, Wrapper};
use lineside_run::{Looks, Measuring};
use lineside_store::Removed;
use lineside_trace::Summaries;

/// A port whose frames monitors see, in the order in which they come out.
pub struct Measured<P> {
    port: P,
    measuring: Option<Measuring>,
}

impl<P: Port> Measured<P> {
    /// Shows monitors what comes out of `port`; without any, nothing.
    pub fn new(port: P, measuring: Option<Measuring>) -> Self {
        Self { port, measuring }
    }

    /// Where others ask what monitors have found so far; `None` without any.
    pub fn looks(&mut self) -> Option<Looks> {
        self.measuring.as_mut().map(Measuring::looks)
    }

    /// What the tables of monitors have on the disk, and what of them is not kept.
    pub fn written(&self) -> Option<(Summaries, Removed)> {
        self.measuring.as_ref().map(Measuring::written)
    }

    /// The monitors, which see no further frame.
    pub fn take(&mut self) -> Option<Measuring> {
        self.measuring.take()
    }
}

impl<P: Receive> Wrapper for Measured<P> {
    type Port = P;

    fn port(&self) -> &P {
        &self.port
    }

    fn port_mut(&mut self) -> &mut P {
        &mut self.port
    }

    fn pass(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        let start = burst.len();
        let received = self.port.receive(burst, max);
        if let Some(measuring) = &mut self.measuring {
            for frame in &burst[start..] {
                measuring.on_frame(frame, |input| self.port.facts_of(input));
            }
            measuring.answer();
        }
        received
    }
}
