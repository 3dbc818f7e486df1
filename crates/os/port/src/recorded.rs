use crate::{CaptureWriter, Facts, Interface, Live, Port, PortError, Received, Wrapper};
use lineside_frame::Burst;

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
            writer.set_figures(input, &facts.interface());
        }
    }
}

impl Facts {
    /// What a capture file says of this input.
    pub fn interface(&self) -> Interface {
        let live = self.live.as_ref();
        Interface {
            name: Some(self.name.clone()),
            link_type: self.link_types.first().copied().unwrap_or_default(),
            speed_bps: live.and_then(|live| live.speed_bps),
            received: live.map(|live| live.arrived),
            dropped: live.map(|live| live.dropped_interface),
            dropped_by_system: live.map(|live| live.dropped_ring + live.dropped_pool),
            ..Interface::default()
        }
    }
}

impl<P: Live> Wrapper for Recorded<P> {
    type Port = P;

    fn port(&self) -> &P {
        &self.port
    }

    fn port_mut(&mut self) -> &mut P {
        &mut self.port
    }

    fn pass(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
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

    fn on_account(&mut self) {
        self.set_figures();
    }
}
