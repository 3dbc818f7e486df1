//! The effect of settings on a frame of a given size.

use lineside_link::{Excess, Jitter, Limit, Link, Order, Schedule, Settings};
use lineside_measure::Spread;
use lineside_words::{bit_rate, exact_time, format_duration};

use super::account::{Explained, Part};
use crate::Direction;

/// The effect of the settings on a frame of this size.
pub fn of_settings<T: lineside_link::Item>(
    direction: Direction,
    settings: &Settings,
    link: &Link<T>,
    size: u32,
    load: f64,
) -> Explained {
    let requested = link.asked();
    let cut = |ns: f64| ns.max(0.0);
    let mut parts = vec![Part {
        part: "delay",
        mean_ns: cut(requested.mean_ns),
        least_ns: cut(requested.min_ns as f64),
        most_ns: Some(cut(requested.max_ns as f64)),
        because: delay_because(settings, &requested),
    }];
    if settings.delay.jitter != Jitter::None {
        parts.push(Part {
            part: "order",
            mean_ns: 0.0,
            least_ns: 0.0,
            most_ns: Some(match settings.delay.order {
                Order::Reorder => 0.0,
                _ => (requested.max_ns - requested.min_ns.max(0)) as f64,
            }),
            because: match settings.delay.order {
                Order::Reorder => {
                    "frames may overtake each other: none waits for another".to_owned()
                }
                _ => format!(
                    "order is kept: a frame with a short delay waits for those before it, as soon \
                    as frames come closer than the delays differ (deviation {})",
                    exact_time(requested.deviation_ns)
                ),
            },
        });
    }
    let mean_rate = match (&settings.schedule, settings.rate) {
        (Some(Schedule::Path(path)), _) if path.has_rate() => path.bits_per_second(),
        (Some(Schedule::Deliveries(trace)), _) => Some(trace.bits_per_second()),
        (_, rate) => rate.map(|rate| rate.bits_per_second),
    };
    if let Some(rate) = mean_rate {
        let (part, service_ns) = rate_part(settings, rate, size, load);
        parts.push(part);
        parts.push(queue_part(settings, link, [rate as f64, service_ns], load));
    }
    Explained {
        direction: direction.name(),
        parts,
        remarks: link.warnings(),
    }
}

/// The time that a frame's own bytes take at a rate, which comes second.
fn rate_part(settings: &Settings, rate: u64, size: u32, load: f64) -> (Part, f64) {
    let framed = |overhead: u32| {
        let bytes = u64::from(size) + u64::from(overhead);
        (
            bytes * 8,
            if overhead > 0 {
                format!("({size} + {overhead} bytes of framing)")
            } else {
                format!("{size} bytes")
            },
        )
    };
    let constant = settings.rate.filter(|_| !is_scheduled(settings));
    let (bits, bytes) = framed(constant.map_or(0, |rate| rate.overhead_bytes));
    let service_ns = bits as f64 * 1e9 / rate as f64;
    let burst = constant.map_or(0, |rate| rate.burst_bytes);
    let is_at_once = burst * 8 >= bits && load == 0.0;
    let part = Part {
        part: "rate",
        mean_ns: if is_at_once { 0.0 } else { service_ns },
        least_ns: if burst * 8 >= bits { 0.0 } else { service_ns },
        most_ns: constant.map(|_| service_ns),
        because: match (constant, burst * 8 >= bits) {
            (None, _) => format!(
                "{bytes} at {} in the mean of the time; when it comes decides",
                bit_rate(rate as f64)
            ),
            (Some(_), false) => {
                format!(
                    "8 x {bytes} / {} = {}",
                    bit_rate(rate as f64),
                    exact_time(service_ns)
                )
            }
            (Some(_), true) => format!(
                "8 x {bytes} / {} = {}, but after a pause {burst} bytes leave at once",
                bit_rate(rate as f64),
                exact_time(service_ns)
            ),
        },
    };
    (part, service_ns)
}

/// The time spent after the bytes of other frames, at a rate at which a frame takes `service_ns`.
fn queue_part<T: lineside_link::Item>(
    settings: &Settings,
    link: &Link<T>,
    [rate, service_ns]: [f64; 2],
    load: f64,
) -> Part {
    let constant = settings.rate.filter(|_| !is_scheduled(settings));
    let drops = constant.is_some_and(|rate| rate.excess == Excess::Drop);
    let queue_ns = load / (2.0 * (1.0 - load)) * service_ns;
    let held = match link.limit() {
        Limit::Bytes(bytes) => Some(bytes as f64 * 8e9 / rate),
        Limit::Frames(frames) => Some(frames as f64 * service_ns),
        Limit::Derived => None,
    };
    // Frames under way count towards the limit too.
    let most_ns = held.map(|held_ns| (held_ns - link.asked().min_ns.max(0) as f64).max(0.0));
    Part {
        part: "queue",
        mean_ns: if drops { 0.0 } else { queue_ns },
        least_ns: 0.0,
        most_ns: if drops { Some(0.0) } else { most_ns },
        because: if drops {
            "frames that come too fast are dropped, so none waits".to_owned()
        } else {
            format!(
                "at {:.1} % load {load:.3} / (2 x (1 - {load:.3})) x {} = {} in the mean, if \
                frames come at random (M/D/1); at most what the limit of {} holds",
                load * 100.0,
                exact_time(service_ns),
                exact_time(queue_ns),
                link.limit()
            )
        },
    }
}

pub(super) fn is_scheduled(settings: &Settings) -> bool {
    match &settings.schedule {
        Some(Schedule::Path(path)) => path.has_rate(),
        Some(Schedule::Deliveries(_)) => true,
        None => false,
    }
}

fn delay_because(settings: &Settings, requested: &Spread) -> String {
    if let Some(Schedule::Path(path)) = &settings.schedule {
        return format!("as {} has it at the time when the frame comes", path.name());
    }
    let base = format_duration(settings.delay.base_ns);
    let spread = format!(
        "mean {}, deviation {}",
        exact_time(requested.mean_ns),
        exact_time(requested.deviation_ns)
    );
    match &settings.delay.jitter {
        Jitter::None => format!("{base} for each frame"),
        Jitter::Around {
            jitter_ns,
            distribution,
        } => format!(
            "{base}, and from {distribution} of {} to both sides: {spread}",
            format_duration(*jitter_ns)
        ),
        Jitter::Above {
            jitter_ns,
            distribution,
        } => format!(
            "{base} at least, and from {distribution} up to {} more: {spread}",
            format_duration(*jitter_ns)
        ),
        Jitter::Shifted {
            shift,
            cycle_ns,
            distribution,
        } => format!(
            "{base} at least, and from {distribution} up to 2^{shift} cycles of {cycle_ns} ns \
            more: {spread}"
        ),
        Jitter::Measured { name, times, .. } => {
            format!("{base}, and a time of {name} x {times}: {spread}")
        }
    }
}
