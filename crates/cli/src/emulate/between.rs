//! `lineside emulate --between IF1,IF2`: an emulated link between two interfaces.

use std::time::Duration;

use anyhow::Context;
use lineside_account::Budget;
use lineside_analyze::grouped;
use lineside_capture::Seen;
use lineside_host::{Capability, Privileges, RunFolder, Signals, Stopwatch, SystemClock};
use lineside_path::{
    Certificate, Direction, LiveLoop, LivePath, Path, below_floor, live_certificate, loop_facts,
};
use lineside_port::live::{Interface, LiveOptions};
use lineside_port::{LivePort, Method, Port};
use lineside_reactor::{LoopFacts, Wait};
use lineside_run::{Evidence, TapEvidence};
use lineside_time::Clock;

use super::tap;
use crate::config::{ConfigError, nearest};
use crate::inputs::{METHODS, listening_lines};
use crate::link::control::{Changes, Controlled, make_next, while_controlled};

/// The settings of `--between`, beside the path.
pub(crate) struct Between {
    pub(crate) interfaces: [Interface; 2],
    /// `None`: AF_XDP, or AF_PACKET where that is not available.
    pub(crate) method: Option<Method>,
    pub(crate) wait: Wait,
    pub(crate) completes_checksums: bool,
    /// Whether departing frames are captured into the run's folder.
    pub(crate) is_tapped: bool,
    pub(crate) duration: Option<Duration>,
    /// Whether only errors are printed.
    pub(crate) is_quiet: bool,
}

/// The outcome of a run between interfaces.
pub(crate) struct Ran {
    pub(crate) certificate: Certificate,
    pub(crate) facts: LoopFacts,
    /// The outcome of the tap's capture.
    pub(crate) tapped: Option<anyhow::Result<Seen>>,
    pub(crate) inputs: Vec<lineside_trace::InputFacts>,
    pub(crate) signal: Option<u8>,
    pub(crate) failure: Option<anyhow::Error>,
}

/// Frames under way at the end of the run leave within this time, or are lost.
const DRAIN: Duration = Duration::from_secs(1);

/// Interval of reading the kernel's counts, which takes tens of microseconds: if possible while
/// nothing is due.
const TICK: Duration = Duration::from_secs(1);

const TICK_MAX: Duration = Duration::from_secs(10);

impl Between {
    /// The two interfaces of `--between`.
    pub(crate) fn interfaces(
        names: &[String],
        method: Option<Method>,
    ) -> anyhow::Result<[Interface; 2]> {
        let [one, other] = names else {
            return Err(ConfigError::usage(
                "--between names two interfaces: --between IF1,IF2, the first one is the inside",
            )
            .into());
        };
        if one == other {
            return Err(ConfigError::usage(&format!(
                "--between {one},{other}: a link has two different ends"
            ))
            .into());
        }
        // Without the others, AF_XDP is refused, and AF_PACKET is taken if that is allowed.
        let needed: &[Capability] = match method {
            Some(Method::AfXdpNative | Method::AfXdpGeneric) => {
                &[Capability::NetRaw, Capability::NetAdmin, Capability::Bpf]
            }
            _ => &[Capability::NetRaw],
        };
        Privileges::read()?.require(needed)?;
        Ok([Interface::named(one)?, Interface::named(other)?])
    }

    /// Emulates until a signal, the end of the time, or an error; then lets frames under way leave.
    pub(crate) fn run(
        &self,
        mut path: Path,
        budget: &Budget,
        controlled: Option<Controlled>,
        folder: Option<&RunFolder>,
        trace_id: &str,
        signals: &Signals,
    ) -> anyhow::Result<Ran> {
        let open = |interface: &Interface| -> anyhow::Result<Vec<Box<dyn LivePort>>> {
            let options = LiveOptions {
                method: self.method,
                sockets: 1,
                promiscuous: true,
                filter: Vec::new(),
                budget: budget.clone(),
                bytes_max: budget.limit_bytes() / 8,
            };
            Ok(lineside_port::live::open_each(interface, &options)?)
        };
        let [inside, outside] = &self.interfaces;
        let sides = [open(inside)?, open(outside)?];
        lineside_host::drop_privileges(folder, &[])?;
        let clock = SystemClock::default();
        path.begin(clock.now());
        let mut live = LivePath::between(path, sides, self.wait, self.completes_checksums);
        let tapped = match folder.filter(|_| self.is_tapped) {
            Some(folder) => {
                let first_outside = live.queues(0) as u16;
                let bytes_max = budget.limit_bytes() / 8;
                let ends = lineside_reactor::tap(&[0, first_outside], bytes_max, budget);
                let (tap, port) = ends.context("the budget bears an eighth for the tap")?;
                live.engine_mut().set_tap(Some(tap));
                Some((port, folder))
            }
            None => None,
        };
        if !self.is_quiet {
            let facts: Vec<_> = live.ports().flat_map(Port::facts).collect();
            eprint!("{}", listening_lines(&facts));
            for warning in self.host_warnings(&live) {
                eprintln!("lineside: warning: {warning}");
            }
        }
        let addresses = { &self.interfaces }.each_ref();
        let addresses = addresses.map(|interface| interface.hardware_address);
        live.calibrate(&addresses, &mut || clock.now())?;
        for line in floor_lines(&live).into_iter().filter(|_| !self.is_quiet) {
            eprintln!("lineside: {line}");
        }
        let mut ran = std::thread::scope(|scope| {
            let capture = tapped.map(|(port, folder)| {
                scope.spawn(move || tap::run(port, folder, trace_id, budget))
            });
            let mut ran = while_controlled(controlled, |changes| {
                self.turn(&mut live, &clock, signals, changes)
            });
            ran.facts = loop_facts(&live);
            // The capture ends when it has taken what is in the queue.
            live.engine_mut().set_tap(None);
            ran.tapped = capture.map(|capture| {
                let ended = capture.join();
                ended.unwrap_or_else(|_| Err(anyhow::anyhow!("the tap's capture has panicked")))
            });
            ran
        });
        note_tap(&mut ran);
        Ok(ran)
    }

    /// Warnings about the interfaces, before any frame passes.
    fn host_warnings(&self, live: &LiveLoop) -> Vec<String> {
        let mut warnings = Vec::new();
        for (interface, direction) in self.interfaces.iter().zip(Direction::BOTH) {
            let name = &interface.name;
            let method = live.method(direction as usize);
            let is_packet = method == Some(Method::AfPacket);
            if let Some(address) = interface.addresses.first() {
                warnings.push(match is_packet {
                    true => format!(
                        "the host has the address {address} at {name}: with AF_PACKET the host \
                        receives the frames too, and answers those addressed to it"
                    ),
                    false => format!(
                        "the host has the address {address} at {name}: the host is unreachable \
                        there while this runs"
                    ),
                });
            }
            if let Some(master) = { &interface.master }.as_ref().filter(|_| is_packet) {
                warnings.push(format!(
                    "{name} belongs to {master}, which passes the frames on as well: 'ip link set \
                    {name} nomaster'"
                ));
            }
            if method != Some(Method::AfXdpNative) && interface.joins_frames() {
                warnings.push(format!(
                    "{name} joins frames of a stream on receive, and the joined ones are too long \
                    for the other side: 'ethtool -K {name} gro off', and 'ethtool -K {name} gro on' afterwards"
                ));
            }
        }
        warnings
    }

    /// Turns the loop until the end.
    fn turn(
        &self,
        live: &mut LiveLoop,
        clock: &SystemClock,
        signals: &Signals,
        changes: &Changes,
    ) -> Ran {
        let stopwatch = Stopwatch::start();
        let (mut ticked, mut shut) = (Duration::ZERO, None);
        let (mut signal, mut failure) = (None, None);
        let mut now = || clock.now();
        loop {
            if let Err(error) = live.turn(&mut now) {
                failure = Some(error.into());
                break;
            }
            make_next(changes, live, clock);
            let elapsed = stopwatch.elapsed();
            if let Some(shut) = shut {
                if live.held() == 0 || elapsed - shut > DRAIN {
                    break;
                }
                continue;
            }
            signal = signals.stop();
            if signal.is_some() || self.duration.is_some_and(|duration| elapsed >= duration) {
                live.ports_mut().for_each(|port| port.shut());
                shut = Some(elapsed);
            } else if elapsed - ticked >= TICK
                && (live.is_calm(clock.now()) || elapsed - ticked >= TICK_MAX)
            {
                ticked = elapsed;
                live.ports_mut().for_each(|port| port.account());
            }
        }
        live.ports_mut().for_each(|port| port.account());
        let facts: Vec<_> = live.ports().flat_map(Port::facts).collect();
        Ran {
            certificate: live_certificate(live, "wall clock"),
            facts: LoopFacts::default(),
            tapped: None,
            inputs: facts.into_iter().map(lineside_run::input_facts).collect(),
            signal,
            failure,
        }
    }
}

/// Counts the frames that the tap dropped for the verdict.
fn note_tap(ran: &mut Ran) {
    let tap = ran.facts.tap.map(|tap| TapEvidence {
        captured: tap.tapped,
        dropped_queue: tap.dropped_queue,
        dropped_memory: tap.dropped_memory,
    });
    ran.certificate.judge(Evidence {
        tap,
        ..Evidence::default()
    });
}

/// The least delay of a frame, and warnings about requested delays below it.
fn floor_lines(live: &LiveLoop) -> Vec<String> {
    let Some(calibration) = live.facts().calibration else {
        return Vec::new();
    };
    let mut lines = vec![format!(
        "a frame takes {:.1} us at least (99 %: {:.1} us) once the loop has seen it, found by {}",
        us(calibration.floor_ns),
        us(calibration.turn.p99_ns + calibration.send.p99_ns),
        calibration.method
    )];
    for direction in Direction::BOTH {
        let warning = below_floor(live, direction);
        lines.extend(warning.map(|warning| format!("warning: {}: {warning}", direction.name())));
    }
    lines
}

fn us(ns: i64) -> f64 {
    ns as f64 / 1e3
}

/// The word of `--method`.
pub(crate) fn method(word: &str) -> Result<Option<Method>, ConfigError> {
    let known = METHODS.iter().find(|(known, _)| *known == word);
    known.map(|(_, method)| *method).ok_or_else(|| {
        let words = METHODS.iter().map(|(known, _)| *known);
        let nearest = nearest(word, words);
        ConfigError::usage(&format!(
            "method: '{word}' is unknown; the nearest known one is {nearest}"
        ))
    })
}

/// The word of `--wait`.
pub(crate) fn wait(word: &str) -> Result<Wait, ConfigError> {
    let known = Wait::WORDS.iter().find(|(known, _)| *known == word);
    known.map(|(_, wait)| *wait).ok_or_else(|| {
        let nearest = nearest(word, Wait::WORDS.iter().map(|(known, _)| *known));
        ConfigError::usage(&format!(
            "wait: '{word}' is unknown; the nearest known one is {nearest}"
        ))
    })
}

/// The loop's own measurements, for the terminal.
pub(crate) fn lines(facts: &LoopFacts) -> String {
    let mut out = format!(
        "loop         releases begin {:.1} us early, {} stalls of the machine of more than 100 us, \
        {:.1} us the longest\n",
        us(facts.lead_ns),
        facts.stalls,
        us(facts.stall_max_ns)
    );
    if let Some(floor_ns) = facts.floor_ns {
        out += &format!(
            "             {:.1} us is the delay of a frame that no setting delays\n",
            us(floor_ns)
        );
    }
    for (count, what) in [
        (
            facts.refusals,
            "times a port did not accept a frame that was due",
        ),
        (
            facts.dropped_at_start,
            "frames came during the start, and were dropped",
        ),
        (
            facts.too_long,
            "frames were too long for the other side: offload joins them; 'ethtool -K IF tso off \
            gso off' at the senders, 'gro off' here",
        ),
        (
            facts.dropped_down,
            "frames were due while their outgoing interface was down",
        ),
        (
            facts.checksums_completed,
            "checksums that the sender had left to its adapter were computed",
        ),
    ] {
        if count > 0 {
            out += &format!("             {} {what}\n", grouped(count));
        }
    }
    out
}
