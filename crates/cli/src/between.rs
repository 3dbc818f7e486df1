//! `lineside emulate --between IF1,IF2`: an emulated link between two interfaces.

use std::time::Duration;

use lineside_account::Budget;
use lineside_host::{Capability, Privileges, RunFolder, Signals, Stopwatch, SystemClock};
use lineside_path::{Bump, BumpFacts, Certificate, Path, Wait};
use lineside_port::live::{Interface, LiveOptions};
use lineside_port::{Method, Port};
use lineside_time::Clock;

use crate::config::ConfigError;

/// What `--between` needs beside the path.
pub(crate) struct Between {
    pub(crate) interfaces: [Interface; 2],
    pub(crate) method: Method,
    pub(crate) wait: Wait,
    pub(crate) completes_checksums: bool,
    pub(crate) duration: Option<Duration>,
}

/// What a run between interfaces came to.
pub(crate) struct Ran {
    pub(crate) certificate: Certificate,
    pub(crate) facts: BumpFacts,
    pub(crate) inputs: Vec<lineside_trace::InputFacts>,
    pub(crate) signal: Option<u8>,
    pub(crate) failure: Option<anyhow::Error>,
}

/// Frames under way when the run is told to end leave within this time, or are lost.
const DRAIN: Duration = Duration::from_secs(1);
/// The kernel's counts are read so often.
const TICK: Duration = Duration::from_secs(1);

impl Between {
    /// The two interfaces of `--between`.
    pub(crate) fn interfaces(names: &[String]) -> anyhow::Result<[Interface; 2]> {
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
        Privileges::read()?.require(&[
            Capability::NetRaw,
            Capability::NetAdmin,
            Capability::Bpf,
        ])?;
        Ok([Interface::named(one)?, Interface::named(other)?])
    }

    /// Emulates until a signal, the end of the time, or an error; then lets what is under way leave.
    pub(crate) fn run(
        &self,
        mut path: Path,
        budget: &Budget,
        folder: Option<&RunFolder>,
        signals: &Signals,
        quiet: bool,
    ) -> anyhow::Result<Ran> {
        let open = |interface: &Interface| -> anyhow::Result<Vec<Box<dyn Port>>> {
            let options = LiveOptions {
                method: Some(self.method),
                sockets: 1,
                promiscuous: true,
                filter: Vec::new(),
                budget: budget.clone(),
                bytes_max: budget.limit_bytes() / 8,
            };
            Ok(lineside_port::live::open(interface, &options)?)
        };
        let [inside, outside] = &self.interfaces;
        let sides = [open(inside)?, open(outside)?];
        lineside_host::drop_privileges(folder, &[])?;
        let clock = SystemClock::default();
        path.begin(clock.now());
        let mut bump = Bump::new(path, sides, self.wait, self.completes_checksums);
        if !quiet {
            let facts: Vec<_> = bump.ports().flat_map(Port::facts).collect();
            eprint!("{}", crate::live::listening_lines(&facts));
            for interface in &self.interfaces {
                if let Some(address) = interface.addresses.first() {
                    eprintln!(
                        "lineside: warning: the host has the address {address} at {}: it is cut off while this runs",
                        interface.name
                    );
                }
            }
        }
        let stopwatch = Stopwatch::start();
        let (mut ticked, mut shut) = (Duration::ZERO, None);
        let (mut signal, mut failure) = (None, None);
        let mut now = || clock.now();
        loop {
            if let Err(error) = bump.turn(&mut now) {
                failure = Some(error.into());
                break;
            }
            let elapsed = stopwatch.elapsed();
            if let Some(shut) = shut {
                if bump.held() == 0 || elapsed - shut > DRAIN {
                    break;
                }
                continue;
            }
            signal = signals.stop();
            if signal.is_some() || self.duration.is_some_and(|duration| elapsed >= duration) {
                bump.ports_mut().for_each(|port| port.shut());
                shut = Some(elapsed);
            } else if elapsed - ticked >= TICK {
                ticked = elapsed;
                bump.ports_mut().for_each(|port| port.account());
            }
        }
        bump.ports_mut().for_each(|port| port.account());
        let facts: Vec<_> = bump.ports().flat_map(Port::facts).collect();
        Ok(Ran {
            certificate: bump.path().certificate("wall clock"),
            facts: bump.facts(),
            inputs: facts.into_iter().map(crate::capture::input).collect(),
            signal,
            failure,
        })
    }
}

/// The word of `--method`: AF_PACKET hands frames over in blocks, too late for this.
pub(crate) fn method(word: &str) -> Result<Method, ConfigError> {
    match word {
        "af_xdp" => Ok(Method::AfXdpNative),
        "af_xdp_generic" => Ok(Method::AfXdpGeneric),
        other => Err(ConfigError::usage(&format!(
            "method: '{other}' is none that is quick enough here: write af_xdp or af_xdp_generic"
        ))),
    }
}

/// The word of `--wait`.
pub(crate) fn wait(word: &str) -> Result<Wait, ConfigError> {
    let known = Wait::WORDS.iter().find(|(known, _)| *known == word);
    known.map(|(_, wait)| *wait).ok_or_else(|| {
        let nearest = crate::config::nearest(word, Wait::WORDS.iter().map(|(known, _)| *known));
        ConfigError::usage(&format!(
            "wait: '{word}' is unknown; the nearest known one is {nearest}"
        ))
    })
}

/// What the loop saw of itself, for the terminal.
pub(crate) fn lines(facts: &BumpFacts) -> String {
    let us = |ns: i64| ns as f64 / 1e3;
    let mut out = format!(
        "loop         releases begin {:.1} us early, {} stalls of the machine of more than 100 us, {:.1} us the longest\n",
        us(facts.lead_ns),
        facts.stalls,
        us(facts.stall_max_ns)
    );
    for (count, what) in [
        (facts.refusals, "times a port took no frame that was due"),
        (facts.too_long, "frames were too long for the other side"),
        (
            facts.checksums_completed,
            "checksums were finished that the sender had left to its adapter",
        ),
    ] {
        if count > 0 {
            out += &format!("             {} {what}\n", lineside_analyze::grouped(count));
        }
    }
    out
}
