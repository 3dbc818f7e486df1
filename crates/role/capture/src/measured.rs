use lineside_account::Counters;
use lineside_frame::Burst;
use lineside_port::{Port, PortError, Receive, Received, Wrapper};
use lineside_run::{Looks, Measuring};
use lineside_store::Removed;
use lineside_trace::{Summaries, Verdict};

use crate::taps::Dropped;

/// A port whose frames monitors see, in the order in which they come out. Behind them those go away
/// that another tap has too.
pub struct Measured<P> {
    port: P,
    measuring: Option<Measuring>,
    dropped: Dropped,
}

impl<P: Port> Measured<P> {
    /// Shows monitors what comes out of `port`; without any, nothing.
    pub fn new(port: P, measuring: Option<Measuring>) -> Self {
        Self {
            port,
            measuring,
            dropped: Dropped::default(),
        }
    }

    /// Lets these frames go away from now on.
    pub(crate) fn leave_out(&mut self, dropped: Dropped) {
        self.dropped = dropped;
    }

    /// What was counted of the frames that went away, whom nobody behind this port sees.
    pub(crate) fn dropped(&self) -> &Counters {
        self.dropped.counters()
    }

    /// Reports in the verdict what the frames showed of two taps.
    pub(crate) fn doubt(&self, verdict: &mut Verdict) {
        self.dropped.doubt(verdict);
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
        if let Some(kept) = self.dropped.take_from(burst, start)
            && let Ok(Received::Frames(_)) = received
        {
            return Ok(Received::Frames(kept));
        }
        received
    }
}
