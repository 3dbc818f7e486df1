//! What became of one frame of a capture.

use std::path::PathBuf;

use anyhow::Context;
use lineside_analyze::{grouped, time};
use lineside_capture::Filtered;
use lineside_frame::Burst;
use lineside_link::Drops;
use lineside_path::{Departures, Direction, DirectionFinder, Path};
use lineside_port::{Receive, Received};
use lineside_time::{Clock, VirtualClock};

use super::account::{Explained, Part};
use super::settings::is_scheduled;
use crate::inputs::open;
use crate::link::section::Prepared;

/// What became of a frame of a capture.
pub(super) fn of_frame(
    inputs: &[PathBuf],
    prepared: Prepared,
    number: u64,
) -> anyhow::Result<Explained> {
    let Prepared {
        mut path,
        budget,
        filter,
        inside,
        ..
    } = prepared;
    let files = open(inputs, &budget)?;
    let mut port = Filtered::new(files, filter);
    let (mut finder, mut clock) = (DirectionFinder::new(inside), VirtualClock::new());
    let (mut burst, mut next, mut out) = (Burst::new(), Burst::new(), Departures::default());
    let (mut count, mut begun_ns, mut wanted) = (0, 0, None);
    loop {
        let received = port.receive(&mut burst, 256);
        for mut frame in burst.drain(..) {
            count += 1;
            // As the path in virtual time has it: until there is a stamp, time stands at the epoch.
            let unstamped_ns = if count == 1 { 0 } else { clock.now() };
            let at_ns = clock.observe(frame.descriptor().stamp_ns.unwrap_or(unstamped_ns));
            if count == 1 {
                begun_ns = at_ns;
                path.begin(at_ns);
            }
            frame.descriptor_mut().stamp_ns = Some(at_ns);
            let direction = finder.direction(&frame);
            let ordinal = frame.descriptor().ordinal;
            let len = frame.descriptor().wire_len;
            // What is due by then leaves before it comes.
            path.on_timer(at_ns, &mut out);
            if wanted.is_none() {
                out = Departures::default();
            }
            let before = path.link(direction).counters().dropped;
            let held = (
                path.link(direction).held(),
                path.link(direction).held_bytes(),
            );
            next.push(frame);
            path.on_burst(at_ns, direction, &mut next, &mut out);
            if count == number {
                wanted = Some(Found {
                    direction,
                    ordinal,
                    since_ns: at_ns.saturating_sub(begun_ns),
                    len,
                    // Now: what is dropped later is another frame.
                    dropped: dropped(before, path.link(direction).counters().dropped),
                    held,
                });
            }
            if let Some(found) = &wanted
                && let Some(explained) = left(&path, found, &out)
            {
                return Ok(explained);
            }
        }
        match received? {
            Received::End => break,
            Received::PoolEmpty => path.spill(),
            _ => {}
        }
    }
    let Some(found) = wanted else {
        anyhow::bail!(
            "there is no frame {number}: the capture has {}",
            grouped(count)
        );
    };
    while let Some(deadline) = path.next_deadline() {
        path.on_timer(deadline, &mut out);
        if let Some(explained) = left(&path, &found, &out) {
            return Ok(explained);
        }
    }
    left(&path, &found, &out).context("what comes leaves, or is dropped")
}

/// A frame that was looked for, as it came.
struct Found {
    direction: Direction,
    ordinal: u64,
    /// From the link's beginning.
    since_ns: i64,
    len: u32,
    /// Why it was dropped, if it was.
    dropped: Option<&'static str>,
    /// Frames and bytes that were under way.
    held: (usize, u64),
}

/// Why a frame was dropped that came between two counts.
fn dropped(before: Drops, now: Drops) -> Option<&'static str> {
    let reasons = [
        ("lost by the loss model", now.loss - before.loss),
        ("dropped: the link was down", now.down - before.down),
        ("dropped: more than the limit", now.limit - before.limit),
        ("dropped: no memory was left", now.memory - before.memory),
    ];
    let reason = reasons.iter().find(|(_, count)| *count > 0);
    reason.map(|(reason, _)| *reason)
}

/// The account of the frame, once it is known.
fn left(path: &Path, found: &Found, out: &Departures) -> Option<Explained> {
    let &Found {
        direction,
        ordinal,
        since_ns,
        len,
        dropped,
        held,
    } = found;
    let link = path.link(direction);
    let mut remarks = vec![format!(
        "it has {} bytes and came {} after the first frame; {} frames, {} bytes were under way",
        grouped(len.into()),
        time(since_ns.max(0) as u64),
        grouped(held.0 as u64),
        grouped(held.1)
    )];
    let mut departures = out[direction as usize].iter();
    let departure = departures.find(|departure| departure.item.descriptor().ordinal == ordinal);
    let Some(departure) = departure else {
        remarks.push(dropped?.to_owned());
        return Some(Explained {
            direction: direction.name(),
            parts: Vec::new(),
            remarks,
        });
    };
    let settings = link.classes()[usize::from(departure.class)].settings();
    let exact = |part, ns: i64, because| Part {
        part,
        mean_ns: ns as f64,
        least_ns: ns as f64,
        most_ns: Some(ns as f64),
        because,
    };
    let order_ns = departure.due_ns - departure.entered_ns - departure.delay_ns;
    let rate_ns = departure.at_ns - departure.due_ns;
    let mut parts = vec![
        exact(
            "delay",
            departure.delay_ns,
            format!("drawn from {}", settings.delay),
        ),
        exact(
            "order",
            order_ns,
            "behind a frame that came earlier".to_owned(),
        ),
    ];
    match link
        .settings()
        .rate
        .filter(|_| !is_scheduled(link.settings()))
    {
        Some(rate) => {
            let bits = (u64::from(len) + u64::from(rate.overhead_bytes)) * 8;
            let service_ns =
                ((bits as f64 * 1e9 / rate.bits_per_second as f64).ceil() as i64).min(rate_ns);
            parts.push(exact(
                "queue",
                rate_ns - service_ns,
                "behind the bytes of those before it".to_owned(),
            ));
            parts.push(exact(
                "rate",
                service_ns,
                format!("its own {bits} bits at {rate}"),
            ));
        }
        None => parts.push(exact(
            "rate",
            rate_ns,
            "until its bytes were brought, behind those of others".to_owned(),
        )),
    }
    remarks.push(format!(
        "it left {} later",
        time((departure.at_ns - departure.entered_ns) as u64)
    ));
    Some(Explained {
        direction: direction.name(),
        parts,
        remarks,
    })
}
