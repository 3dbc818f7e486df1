use std::os::fd::BorrowedFd;

use lineside_frame::Burst;
use lineside_port::{CaptureWriter, Facts, Interface, Live, Port, PortError, Receive, Received};

/// A port whose frames are also written into capture files.
///
/// If they cannot be written any more, that is the port's error, no further frame is let in, and it
/// ends.
pub struct Recorded<P> {
    port: P,
    writer: Option<CaptureWriter>,
    has_failed: bool,
}

impl<P: Port> Recorded<P> {
    /// Writes what comes out of `port`; without a writer, nothing.
    pub fn new(port: P, writer: Option<CaptureWriter>) -> Self {
        Self {
            port,
            writer,
            has_failed: false,
        }
    }

    /// The port whose frames are written.
    pub fn port(&self) -> &P {
        &self.port
    }

    /// Ends the files, with the ports' last figures.
    pub fn finish(&mut self) -> Result<(), PortError> {
        self.set_figures();
        self.writer.take().map_or(Ok(()), CaptureWriter::finish)
    }

    fn set_figures(&mut self) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        for (input, facts) in self.port.facts().into_iter().enumerate() {
            writer.set_figures(input, &interface(facts));
        }
    }
}

/// What a capture file says of an input.
pub fn interface(facts: &Facts) -> Interface {
    let link_type = facts.link_types.first().copied().unwrap_or_default();
    let name = Some(facts.name.clone());
    let live = facts.live.as_ref();
    Interface {
        name,
        link_type,
        speed_bps: live.and_then(|live| live.speed_bps),
        received: live.map(|live| live.arrived),
        dropped: live.map(|live| live.dropped_interface),
        dropped_by_system: live.map(|live| live.dropped_ring + live.dropped_pool),
        ..Interface::default()
    }
}

impl<P: Port> Port for Recorded<P> {
    fn facts(&self) -> Vec<&Facts> {
        self.port.facts()
    }

    fn facts_of(&self, input: usize) -> Option<&Facts> {
        self.port.facts_of(input)
    }
}

impl<P: Live> Receive for Recorded<P> {
    fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        if self.has_failed {
            return Ok(Received::End);
        }
        let start = burst.len();
        let received = self.port.receive(burst, max);
        let Some(writer) = &mut self.writer else {
            return received;
        };
        let written = match received {
            Ok(Received::Idle { until_ns }) => writer.on_timer(until_ns),
            _ => writer.write(&burst[start..]),
        };
        if written.is_err() {
            self.has_failed = true;
            self.port.shut();
        }
        written.and(received)
    }

    fn leave(&mut self, ahead: &mut Burst) {
        self.port.leave(ahead);
    }
}

impl<P: Live> Live for Recorded<P> {
    fn wake_on<'a>(&'a self, descriptors: &mut Vec<BorrowedFd<'a>>) {
        self.port.wake_on(descriptors);
    }

    fn backlog(&self) -> f32 {
        self.port.backlog()
    }

    fn account(&mut self) {
        self.port.account();
        self.set_figures();
    }

    fn shut(&mut self) {
        self.port.shut();
    }
}
