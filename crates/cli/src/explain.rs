//! `lineside explain`: where a frame's delay comes from.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Arg, Args};
use lineside_analyze::{grouped, time};
use lineside_capture::Filtered;
use lineside_frame::Burst;
use lineside_link::{Drops, Excess, Jitter, Limit, Link, Order, Schedule, Settings};
use lineside_measure::Spread;
use lineside_path::{Departures, Direction, Path, Sides};
use lineside_port::{Receive, Received};
use lineside_time::{Clock, VirtualClock, format_duration};
use serde::Serialize;

use crate::Exit;
use crate::config::ConfigError;
use crate::emulate::{self, Mode, Prepared};

/// Flags of `explain`: those of `emulate` about the link, and what is to be explained.
#[derive(Debug, Args)]
#[group(skip)]
#[command(mut_args(hide_others))]
pub(crate) struct Arguments {
    /// What becomes of this frame of the capture, counted from 1 (of those that match -f)
    #[arg(long, value_name = "N")]
    frame: Option<u64>,
    /// Without a capture: bytes of the frame, without preamble and check sequence [default: 1514]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=262_144))]
    size: Option<u32>,
    /// Without a capture: the share of the rate that other frames of this size take, such as 50% [default: 0%]
    #[arg(long, value_name = "SHARE")]
    load: Option<String>,
    #[command(flatten)]
    emulate: emulate::Arguments,
}

/// A part of a delay.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Part {
    /// Which: delay, order, queue, rate.
    part: &'static str,
    /// In the mean.
    mean_ns: f64,
    least_ns: f64,
    /// `None`: nothing bounds it.
    most_ns: Option<f64>,
    /// How it comes about, with the figures.
    because: String,
}

/// One direction.
#[derive(Debug, Serialize)]
struct Explained {
    direction: &'static str,
    parts: Vec<Part>,
    remarks: Vec<String>,
}

/// Flags of `emulate` by which frames pass a link, and by which a run is noted: here nothing passes.
const OTHERS: [&str; 15] = [
    "between",
    "server",
    "client",
    "server_wait",
    "outside",
    "wait",
    "method",
    "tap",
    "no_checksum_completion",
    "autostop",
    "write_pcap",
    "output",
    "force",
    "frames_max",
    "quiet",
];

fn hide_others(argument: Arg) -> Arg {
    let is_other = OTHERS.contains(&argument.get_id().as_str());
    argument.hide(is_other)
}

/// What Ethernet carries at most, with its header.
const SIZE: u32 = 1514;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    // What a file says of a run that was, or will be, is no matter here: only its settings are.
    arguments.emulate.refuse_flags_of_others(Mode::Explain)?;
    let emulate = arguments.emulate.resolved()?;
    let inputs = match arguments.frame {
        None if !arguments.emulate.names_inputs() => &[],
        _ => emulate.inputs(),
    };
    let of_settings_only = [
        ("--size", arguments.size.is_some()),
        ("--load", arguments.load.is_some()),
    ];
    let given = of_settings_only.iter().find(|(_, is_given)| *is_given);
    if let (Some((flag, _)), [_, ..]) = (given, inputs) {
        return Err(ConfigError::usage(&format!(
            "{flag} is for settings, and the frames of a capture have their own: leave it out"
        ))
        .into());
    }
    let prepared = emulate.prepare()?;
    let explained = match (arguments.frame, inputs) {
        (Some(number), [_, ..]) => vec![of_frame(inputs, prepared, number)?],
        (None, [_, ..]) => {
            return Err(ConfigError::usage("which frame of the capture: add --frame N").into());
        }
        (Some(_), []) => {
            return Err(ConfigError::usage("--frame of which capture: add -r FILE").into());
        }
        (None, []) => {
            let size = arguments.size.unwrap_or(SIZE);
            let load = arguments.load.as_deref().map_or(Ok(0.0), load)?;
            let explain = |direction| {
                let link = prepared.path.link(direction);
                of_settings(direction, link.settings(), link, size, load)
            };
            Direction::BOTH.map(explain).into()
        }
    };
    let text = if emulate.wants_json() {
        serde_json::to_string_pretty(&explained)? + "\n"
    } else {
        explained.iter().map(lines).collect()
    };
    crate::report::print(&text)?;
    Ok(Exit::Done)
}

fn load(text: &str) -> Result<f64, ConfigError> {
    let number = { text.strip_suffix('%') }.and_then(|number| number.parse::<f64>().ok());
    let percent = number.filter(|percent| (0.0..100.0).contains(percent));
    let percent = percent.ok_or_else(|| {
        ConfigError::usage(&format!(
            "load: '{text}' is not a share from 0% to less than 100%, at which the queue grows for ever"
        ))
    })?;
    Ok(percent / 100.0)
}

/// What the settings do to a frame of this size.
fn of_settings<T: lineside_link::Item>(
    direction: Direction,
    settings: &Settings,
    link: &Link<T>,
    size: u32,
    load: f64,
) -> Explained {
    let asked = link.asked();
    let cut = |ns: f64| ns.max(0.0);
    let mut parts = vec![Part {
        part: "delay",
        mean_ns: cut(asked.mean_ns),
        least_ns: cut(asked.min_ns as f64),
        most_ns: Some(cut(asked.max_ns as f64)),
        because: delay_because(settings, &asked),
    }];
    if settings.delay.jitter != Jitter::None {
        parts.push(Part {
            part: "order",
            mean_ns: 0.0,
            least_ns: 0.0,
            most_ns: Some(match settings.delay.order {
                Order::Reorder => 0.0,
                _ => (asked.max_ns - asked.min_ns.max(0)) as f64,
            }),
            because: match settings.delay.order {
                Order::Reorder => "frames may overtake each other: none waits for another".to_owned(),
                _ => format!(
                    "order is kept: who was drawn a short delay waits for those before it, as soon as frames come closer than the delays differ (deviation {})",
                    us(asked.deviation_ns)
                ),
            },
        });
    }
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
    let mean_rate = match (&settings.schedule, settings.rate) {
        (Some(Schedule::Path(path)), _) if path.has_rate() => path.bits_per_second(),
        (Some(Schedule::Deliveries(trace)), _) => Some(trace.bits_per_second()),
        (_, rate) => rate.map(|rate| rate.bits_per_second),
    };
    if let Some(rate) = mean_rate {
        let constant = settings.rate.filter(|_| !is_scheduled(settings));
        let (bits, bytes) = framed(constant.map_or(0, |rate| rate.overhead_bytes));
        let service_ns = bits as f64 * 1e9 / rate as f64;
        let burst = constant.map_or(0, |rate| rate.burst_bytes);
        let is_at_once = burst * 8 >= bits && load == 0.0;
        parts.push(Part {
            part: "rate",
            mean_ns: if is_at_once { 0.0 } else { service_ns },
            least_ns: if burst * 8 >= bits { 0.0 } else { service_ns },
            most_ns: constant.map(|_| service_ns),
            because: match (constant, burst * 8 >= bits) {
                (None, _) => format!(
                    "{bytes} at {} in the mean of the time; when it comes decides",
                    bit_rate(rate)
                ),
                (Some(_), false) => {
                    format!("8 x {bytes} / {} = {}", bit_rate(rate), us(service_ns))
                }
                (Some(_), true) => format!(
                    "8 x {bytes} / {} = {}, but after a pause {burst} bytes leave at once",
                    bit_rate(rate),
                    us(service_ns)
                ),
            },
        });
        let drops = constant.is_some_and(|rate| rate.excess == Excess::Drop);
        let queue_ns = load / (2.0 * (1.0 - load)) * service_ns;
        let held = match link.limit() {
            Limit::Bytes(bytes) => Some(bytes as f64 * 8e9 / rate as f64),
            Limit::Frames(frames) => Some(frames as f64 * service_ns),
            Limit::Derived => None,
        };
        // What is under way counts to the limit too.
        let most_ns = held.map(|held_ns| (held_ns - cut(asked.min_ns as f64)).max(0.0));
        parts.push(Part {
            part: "queue",
            mean_ns: if drops { 0.0 } else { queue_ns },
            least_ns: 0.0,
            most_ns: if drops { Some(0.0) } else { most_ns },
            because: if drops {
                "what comes too fast is dropped, so nothing waits".to_owned()
            } else {
                format!(
                    "at {:.1} % load {load:.3} / (2 x (1 - {load:.3})) x {} = {} in the mean, if frames come at random (M/D/1); at most what the limit of {} holds",
                    load * 100.0, us(service_ns), us(queue_ns), link.limit()
                )
            },
        });
    }
    Explained {
        direction: direction.name(),
        parts,
        remarks: link.warnings(),
    }
}

fn is_scheduled(settings: &Settings) -> bool {
    match &settings.schedule {
        Some(Schedule::Path(path)) => path.has_rate(),
        Some(Schedule::Deliveries(_)) => true,
        None => false,
    }
}

fn delay_because(settings: &Settings, asked: &Spread) -> String {
    if let Some(Schedule::Path(path)) = &settings.schedule {
        return format!("as {} has it at the time when the frame comes", path.name());
    }
    let base = format_duration(settings.delay.base_ns);
    let spread = format!(
        "mean {}, deviation {}",
        us(asked.mean_ns),
        us(asked.deviation_ns)
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
            "{base} at least, and from {distribution} up to 2^{shift} cycles of {cycle_ns} ns more: {spread}"
        ),
        Jitter::Measured { name, times, .. } => {
            format!("{base}, and a time of {name} x {times}: {spread}")
        }
    }
}

/// What became of a frame of a capture.
fn of_frame(inputs: &[PathBuf], prepared: Prepared, number: u64) -> anyhow::Result<Explained> {
    let Prepared {
        mut path,
        budget,
        filter,
        inside,
        ..
    } = prepared;
    let files = crate::capture::open(inputs, &budget)?;
    let mut port = Filtered::new(files, filter);
    let (mut sides, mut clock) = (Sides::new(inside), VirtualClock::new());
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
            let direction = sides.direction(&frame);
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
        (
            "dropped: more than memory bears",
            now.memory - before.memory,
        ),
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

fn us(ns: f64) -> String {
    format!("{:.3} us", ns / 1e3)
}

fn bit_rate(bits_per_second: u64) -> String {
    format!("{} bit/s", grouped(bits_per_second))
}

fn lines(explained: &Explained) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", explained.direction);
    for part in &explained.parts {
        let range = match part.most_ns {
            Some(most_ns) if most_ns == part.least_ns => String::new(),
            Some(most_ns) => format!(", from {} to {}", us(part.least_ns), us(most_ns)),
            None => format!(", from {}, without a bound", us(part.least_ns)),
        };
        let _ = writeln!(out, "  {:<10} {}{range}", part.part, us(part.mean_ns));
        let _ = writeln!(out, "             {}", part.because);
    }
    if !explained.parts.is_empty() {
        let sum: f64 = explained.parts.iter().map(|part| part.mean_ns).sum();
        let _ = writeln!(out, "  in all     {}", us(sum));
    }
    for remark in &explained.remarks {
        let _ = writeln!(out, "             {remark}");
    }
    out
}
