//! `lineside load --agent`: the part of a load that another host directs, over standard input and
//! output.

use std::io::{BufReader, stdin, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use anyhow::Context;
use lineside_host::RunClock;
use lineside_load::agents::{FromAgent, ToAgent, VERSION, receive, send};
use lineside_load::run::{RunSecond, Watch};
use lineside_time::{Clock, Nanoseconds};

use super::flags::Section;
use super::settings::Prepared;
use crate::config::{ConfigError, read_keys};
use crate::exit::Exit;

/// Serves one load, and ends with the other host. What to do has to be known before the sandbox is
/// entered: whoever says it started this program as its user, and may start any other.
pub(super) fn serve() -> anyhow::Result<Exit> {
    let clock = RunClock::start();
    let (mut reader, mut line) = (BufReader::new(stdin()), String::new());
    let mut hear = || receive::<ToAgent>(&mut reader, &mut line);
    let work = loop {
        match hear() {
            Ok(Some(ToAgent::Work { keys, among })) => break Some((keys, among)),
            Ok(Some(message)) if answer(&message, clock).is_ok() => {}
            _ => break None,
        }
    };
    let prepared = work
        .context("the other host ended before it said what to do")
        .and_then(|(keys, among)| prepare(&keys, among, clock));
    let (tell, told) = channel();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // It ends with the standard input.
        scope.spawn(|| {
            while let Ok(Some(message)) = hear() {
                let said = match message {
                    ToAgent::Stop => {
                        is_over.store(true, Ordering::Relaxed);
                        Ok(())
                    }
                    ToAgent::Hello { .. } | ToAgent::Ping => answer(&message, clock),
                    other => tell.send(other).map_err(std::io::Error::other),
                };
                if said.is_err() {
                    break;
                }
            }
            is_over.store(true, Ordering::Relaxed);
            drop(tell);
        });
        let made = prepared.and_then(|(keys, prepared)| {
            let mut watch = Directed {
                told: &told,
                is_over: &is_over,
                reports_times: keys.hdr.is_some(),
            };
            prepared.run(None, clock, &mut watch)
        });
        let message = match made {
            Ok(outcome) => FromAgent::Over(Box::new(outcome)),
            Err(error) => FromAgent::Failed {
                why: format!("{error:#}"),
            },
        };
        say(&message)?;
        // The other thread waits for the end of the input, which comes with that of the other host.
        Ok(Exit::Done)
    })
}

fn say(message: &FromAgent) -> std::io::Result<()> {
    send(&mut stdout().lock(), message)
}

/// Answers what asks for nothing but an answer.
fn answer(message: &ToAgent, clock: RunClock) -> std::io::Result<()> {
    match message {
        ToAgent::Hello { .. } => say(&FromAgent::Hello {
            version: VERSION,
            tool: env!("CARGO_PKG_VERSION").to_owned(),
        }),
        ToAgent::Ping => say(&FromAgent::Pong { at_ns: clock.now() }),
        other => Err(std::io::Error::other(format!("{other:?} comes too early"))),
    }
}

/// Prepares a load, and enters its sandbox.
fn prepare(
    keys: &serde_json::Value,
    among: (u32, u32),
    clock: RunClock,
) -> anyhow::Result<(Section, Prepared)> {
    let keys: Section = read_keys(keys, "load").map_err(ConfigError::new)?;
    let mut prepared = keys.prepare()?;
    prepared.settings.among = among;
    prepared.confine(keys.sandbox.unwrap_or_default(), clock)?;
    Ok((keys, prepared))
}

/// Watches a run for the host that directs it.
struct Directed<'a> {
    told: &'a Receiver<ToAgent>,
    is_over: &'a AtomicBool,
    /// Whether the other host writes a log of histograms.
    reports_times: bool,
}

impl Watch for Directed<'_> {
    fn start_at(&mut self, open: u32, _: Nanoseconds) -> Option<Nanoseconds> {
        say(&FromAgent::Ready { open }).ok()?;
        match self.told.recv() {
            Ok(ToAgent::Start { at_ns }) => Some(at_ns),
            _ => None,
        }
    }

    fn on_second(&mut self, second: &RunSecond) {
        // A host that is gone ends the run by the end of its input.
        let mut second = Box::new(second.clone());
        if !self.reports_times {
            second.times = None;
        }
        let _ = say(&FromAgent::Second(second));
    }

    fn stops(&mut self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}
