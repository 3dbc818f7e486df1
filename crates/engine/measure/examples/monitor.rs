//! A monitor of your own: how many frames each value of the field "time to live" had.
//!
//! `cargo run -p lineside-measure --example monitor`
#![forbid(unsafe_code)]

use lineside_account::Budget;
use lineside_measure::monitor::{
    Bin, FlowFacts, Head, Label, Monitor, MonitorError, Monitors, Packet, Place, Report, Rows,
    Window,
};
use lineside_wire::Dissected;
use lineside_wire::build::FrameBuilder;

/// Frames by their time to live.
#[derive(Debug)]
struct HopCounts([u64; 256]);

impl Monitor for HopCounts {
    fn on_packet(&mut self, packet: &Packet<'_>, _: &mut dyn Rows) {
        if let Dissected::Tcp(ip, _) | Dissected::Udp(ip, _) = packet.headers {
            self.0[usize::from(ip.ttl)] += 1;
        }
    }

    fn report(&self, out: &mut dyn Rows) {
        for (ttl, &count) in (0..).zip(&self.0) {
            if count > 0 {
                out.bin(Bin {
                    metric: "time_to_live",
                    flow_id: None,
                    from: ttl,
                    to: ttl,
                    count,
                });
            }
        }
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// Prints what monitors found.
struct Print;

impl Report for Print {
    fn bin(&mut self, label: Label<'_>, bin: Bin) {
        println!(
            "{} at {}: {} {} times",
            bin.metric,
            label.place.name(),
            bin.from,
            bin.count
        );
    }

    fn window(&mut self, _: Label<'_>, _: Window) {}

    fn flow(&mut self, _: Label<'_>, _: &FlowFacts) {}
}

fn main() -> Result<(), MonitorError> {
    let budget = Budget::new(16 << 20);
    let mut monitors = Monitors::new(&budget);
    monitors.add("hops", || Box::new(HopCounts([0; 256])));
    let place = monitors.place(&Place::named("eth1.came"))?;
    let frame = FrameBuilder::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into()).udp(7, 9, b"data");
    let head = Head {
        time_ns: Some(1_000),
        place,
        link_type: 1,
        wire_len: frame.len() as u32,
        bytes: &frame,
    };
    monitors.on_head(&head, &mut Print)?;
    monitors.report(&mut Print);
    Ok(())
}
