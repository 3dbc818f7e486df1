use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_measure::Times;
use lineside_port::{LivePort, PortError};
use lineside_time::Nanoseconds;
use lineside_trace::certificate::run::Calibration;
use lineside_wire::ethernet::{self, ether_type};

/// Frames sent by each side to measure how long that takes.
pub(crate) const PROBES: usize = 128;
/// Those before them, which find caches cold.
pub(crate) const PROBES_COLD: usize = 16;
/// Between two of them.
const GAP_NS: i64 = 100_000;

/// How long calls that send took, with and without a stamp of the kernel.
#[derive(Debug, Default)]
pub(crate) struct Sends {
    stamped: Times,
    unstamped: Times,
}

impl Sends {
    /// Sends frames by a port, from `address`.
    pub(crate) fn probe(
        &mut self,
        port: &mut dyn LivePort,
        address: [u8; 6],
        clock: &mut impl FnMut() -> Nanoseconds,
    ) -> Result<(), PortError> {
        let link_types = port.facts().first().map(|facts| facts.link_types.clone());
        if link_types.is_none_or(|types| types != [LinkType::ETHERNET]) {
            return Ok(());
        }
        let mut nothing = Burst::new();
        for number in 0..PROBES_COLD + PROBES {
            let mut burst = vec![probe(address)];
            // As between two frames of real traffic: not from the processor's first cache.
            let paused_ns = clock();
            while clock() - paused_ns < GAP_NS {
                port.receive(&mut nothing, 0)?;
            }
            port.stamp_next();
            let began_ns = clock();
            let sent = port.transmit(&mut burst)?;
            port.reclaim();
            let sent_ns = clock();
            let stamp_ns = port.handed_over().flatten();
            if sent == 0 || number < PROBES_COLD {
                continue;
            }
            match stamp_ns {
                Some(stamp_ns) => self.stamped.record(stamp_ns - began_ns),
                None => self.unstamped.record(sent_ns - began_ns),
            }
        }
        Ok(())
    }

    /// The calibration, if frames were sent. `lead_max_ns` bounds the floor.
    pub(crate) fn calibration(&self, turn: &Times, lead_max_ns: i64) -> Option<Calibration> {
        let stamped = self.stamped.spread();
        let method = match stamped {
            Some(_) => {
                "the kernel's stamps of frames sent at the start, as they were handed to the driver"
            }
            None => {
                "the time that sending frames took at the start: the kernel does not say when it \
                hands them to the driver"
            }
        };
        let send = stamped.or_else(|| self.unstamped.spread())?;
        let turn = turn.spread()?;
        Some(Calibration {
            method: method.to_owned(),
            floor_ns: (send.p50_ns + turn.p50_ns / 2).min(lead_max_ns),
            turn,
            send,
        })
    }
}

/// A frame of the EtherType for local experiments (IEEE 802) to the address that no bridge passes
/// on (IEEE 802.1Q, table 8-1: nearest bridge).
fn probe(source: [u8; 6]) -> Frame {
    let mut bytes = [0; 60];
    let mut header = ethernet::Frame::new_unchecked(&mut bytes[..]);
    header.set_destination([0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e]);
    header.set_source(source);
    header.set_ether_type(ether_type::LOCAL_EXPERIMENT);
    let descriptor = Descriptor {
        wire_len: bytes.len() as u32,
        link_type: LinkType::ETHERNET,
        ..Descriptor::default()
    };
    Frame::copied(&bytes, descriptor)
}
