//! `lineside load --agent`: the part of a load that another host directs, over standard input and
//! output.

use std::io::{BufReader, stdin, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use lineside_host::RunClock;
use lineside_load::agents::{FromAgent, ToAgent, VERSION, receive, send};
use lineside_load::run::{RunSecond, Watch};
use lineside_time::{Clock, Nanoseconds};

use super::flags::Section;
use crate::config::read_keys;
use crate::exit::Exit;

/// Serves one load, and ends with the other host.
pub(super) fn serve() -> anyhow::Result<Exit> {
    let clock = RunClock::start();
    let (tell, told) = channel();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // It ends with the standard input.
        scope.spawn(|| {
            let (mut reader, mut line) = (BufReader::new(stdin()), String::new());
            while let Ok(Some(message)) = receive::<ToAgent>(&mut reader, &mut line) {
                let said = match message {
                    ToAgent::Hello { .. } => say(&FromAgent::Hello {
                        version: VERSION,
                        tool: env!("CARGO_PKG_VERSION").to_owned(),
                    }),
                    ToAgent::Ping => say(&FromAgent::Pong { at_ns: clock.now() }),
                    ToAgent::Stop => {
                        is_over.store(true, Ordering::Relaxed);
                        Ok(())
                    }
                    other => tell.send(other).map_err(std::io::Error::other),
                };
                if said.is_err() {
                    break;
                }
            }
            is_over.store(true, Ordering::Relaxed);
            drop(tell);
        });
        let message = match work(&told, clock, &is_over) {
            Ok(outcome) => outcome,
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

fn work(
    told: &Receiver<ToAgent>,
    clock: RunClock,
    is_over: &AtomicBool,
) -> anyhow::Result<FromAgent> {
    let Ok(ToAgent::Work { keys, among }) = told.recv() else {
        anyhow::bail!("the other host ended before it said what to do");
    };
    let keys: Section = read_keys(&keys, "load").map_err(crate::config::ConfigError::new)?;
    let mut prepared = keys.prepare()?;
    prepared.settings.among = among;
    let mut watch = Directed {
        told,
        is_over,
        reports_times: keys.hdr.is_some(),
    };
    let outcome = prepared.run(None, clock, &mut watch)?;
    Ok(FromAgent::Over(Box::new(outcome)))
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
