//! The part of a load that another host directs, over standard input and output.

use std::error::Error;
use std::io::{self, BufReader, stdin, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use lineside_host::RunClock;
use lineside_time::{Clock, Nanoseconds};
use serde_json::Value;

use crate::agents::{FromAgent, ToAgent, VERSION, receive, send};
use crate::error::LoadError;
use crate::outcome::{Observer, RunSecond};
use crate::prepared::Prepared;

/// Serves one load, and ends with the other host. What to do has to be known before the sandbox is
/// entered: whoever says it started this program as its user, and may start any other.
///
/// `prepare` reads a load's keys and its place among all workers, and enters the sandbox; of an
/// error it has the text.
///
/// # Errors
///
/// If standard output is closed.
pub fn serve(
    prepare: impl FnOnce(&Value, (u32, u32), RunClock) -> Result<Prepared, String>,
) -> io::Result<()> {
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
        .ok_or_else(|| "the other host ended before it sent the work".to_owned())
        .and_then(|(keys, among)| prepare(&keys, among, clock));
    let (tell, orders) = channel();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // It ends with the standard input.
        scope.spawn(|| {
            while let Ok(Some(message)) = hear() {
                let sent = match message {
                    ToAgent::Stop => {
                        is_over.store(true, Ordering::Relaxed);
                        Ok(())
                    }
                    ToAgent::Hello { .. } | ToAgent::Ping => answer(&message, clock),
                    other => tell.send(other).map_err(io::Error::other),
                };
                if sent.is_err() {
                    break;
                }
            }
            is_over.store(true, Ordering::Relaxed);
            drop(tell);
        });
        let made = prepared.and_then(|prepared| {
            let mut observer = Orders {
                orders: &orders,
                is_over: &is_over,
            };
            let run = prepared.run(None, clock, &mut observer);
            run.map_err(|error| text_of(&error))
        });
        let message = match made {
            Ok(outcome) => FromAgent::Over(Box::new(outcome)),
            Err(why) => FromAgent::Failed { why },
        };
        // The other thread waits for the end of the input, which comes with that of the other host.
        say(&message)
    })
}

fn say(message: &FromAgent) -> io::Result<()> {
    send(&mut stdout().lock(), message)
}

/// Answers what asks for nothing but an answer.
fn answer(message: &ToAgent, clock: RunClock) -> io::Result<()> {
    match message {
        ToAgent::Hello { .. } => say(&FromAgent::Hello {
            version: VERSION,
            tool: env!("CARGO_PKG_VERSION").to_owned(),
        }),
        ToAgent::Ping => say(&FromAgent::Pong { at_ns: clock.now() }),
        other => Err(io::Error::other(format!("{other:?} comes too early"))),
    }
}

/// An error with its causes.
fn text_of(error: &LoadError) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

/// Watches a run for the host that directs it.
struct Orders<'a> {
    orders: &'a Receiver<ToAgent>,
    is_over: &'a AtomicBool,
}

impl Observer for Orders<'_> {
    fn start_at(&mut self, open: u32, _: Nanoseconds) -> Option<Nanoseconds> {
        say(&FromAgent::Ready { open }).ok()?;
        match self.orders.recv() {
            Ok(ToAgent::Start { at_ns }) => Some(at_ns),
            _ => None,
        }
    }

    fn on_second(&mut self, second: &RunSecond) {
        // A host that is gone ends the run by the end of its input.
        let _ = say(&FromAgent::Second(Box::new(second.clone())));
    }

    fn stops(&mut self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}
