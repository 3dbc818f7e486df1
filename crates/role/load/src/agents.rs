//! A load of several machines: an agent on each, reached over its standard input and output.
//!
//! ```text
//!  us                                 agent
//!   ├─ hello ───────────────────────►  │
//!   ◄───────────────────────── hello ─┤
//!   ├─ ping ─► … ◄─ pong: its clock ──┤   20 times: the offset of the fastest, and its error
//!   ├─ work: keys, place ───────────►  │   connections open
//!   ◄──────────────────────── ready ──┤
//!   ├─ start: an instant of its clock►  │
//!   ◄─────────────── second … over ───┤
//! ```
//!
//! Messages are lines of JSON. All begin at one instant, as far as the clocks' offsets are known,
//! and what came of them is one [`Outcome`].

use std::io::{BufRead, Write};

use lineside_time::Nanoseconds;
use serde::{Deserialize, Serialize};

use crate::outcome::{Outcome, RunSecond};

/// The version of these messages. Others are refused.
pub const VERSION: u32 = 1;
/// Round trips from which an offset is taken.
const PINGS: u32 = 20;
/// The longest line: an outcome has ten thousand departures and some histograms.
const LINE_MAX: u64 = 64 << 20;

/// A message to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ToAgent {
    /// The version of the messages.
    Hello {
        /// Ours.
        version: u32,
    },
    /// It is to say what its clock shows.
    Ping,
    /// What to do, and the place of its workers among all.
    Work {
        /// The resolved keys of the load, as a run's `trace.json` has them.
        keys: serde_json::Value,
        /// The number of its first worker, and how many workers there are in all.
        among: (u32, u32),
    },
    /// Requests leave from this instant of its clock on.
    Start {
        /// Nanoseconds since the Unix epoch.
        at_ns: Nanoseconds,
    },
    /// No further request leaves.
    Stop,
}

/// What an agent reports.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FromAgent {
    /// The version of the messages.
    Hello {
        /// Its own.
        version: u32,
        /// The tool's.
        tool: String,
    },
    /// What its clock shows.
    Pong {
        /// Nanoseconds since the Unix epoch.
        at_ns: Nanoseconds,
    },
    /// So many connections are open.
    Ready {
        /// How many.
        open: u32,
    },
    /// A second is over.
    Second(Box<RunSecond>),
    /// The load is over.
    Over(Box<Outcome>),
    /// It ended early, or did not begin.
    Failed {
        /// Why.
        why: String,
    },
}

/// Why agents did not make a load.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// It cannot be reached, or is gone.
    #[error("{host}: {error}")]
    Gone {
        /// Which.
        host: String,
        /// What happened.
        error: std::io::Error,
    },
    /// The line that it sent is no message.
    #[error("{host}: '{text}' is not a message of an agent")]
    NoMessage {
        /// Which.
        host: String,
        /// The beginning of the line.
        text: String,
    },
    /// Another version.
    #[error("{host} speaks version {theirs} and this host {VERSION}: install the same lineside")]
    Version {
        /// Which.
        host: String,
        /// Its version.
        theirs: u32,
    },
    /// It sent another message than the expected one.
    #[error("{host} answered out of turn: {text}")]
    OutOfTurn {
        /// Which.
        host: String,
        /// What.
        text: String,
    },
    /// It failed.
    #[error("{host}: {why}")]
    Failed {
        /// Which.
        host: String,
        /// Its reason.
        why: String,
    },
}

/// How far the clock of an agent is ahead of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClockOffset {
    /// Nanoseconds.
    pub ahead_ns: i64,
    /// It is right to this many.
    pub error_ns: i64,
}

/// An agent, by the ends of its standard input and output.
pub struct Agent<R, W> {
    /// Its host.
    pub host: String,
    reader: R,
    writer: W,
    line: String,
    /// How far its clock is ahead.
    pub offset: ClockOffset,
}

impl<R: BufRead, W: Write> Agent<R, W> {
    /// Addresses an agent, whose answer waits for [`greet`](Self::greet).
    pub fn address(host: String, reader: R, mut writer: W) -> Self {
        // One that is gone is found to be by its missing answer.
        let _ = send(&mut writer, &ToAgent::Hello { version: VERSION });
        Self {
            host,
            reader,
            writer,
            line: String::new(),
            offset: ClockOffset {
                ahead_ns: 0,
                error_ns: i64::MAX,
            },
        }
    }

    /// Where it is heard.
    pub fn reader(&mut self) -> &mut R {
        &mut self.reader
    }

    /// Where it is written to.
    pub fn writer(&mut self) -> &mut W {
        &mut self.writer
    }

    /// Hears its answer, and finds how far its clock is ahead of `clock`.
    pub fn greet(&mut self, clock: &mut impl FnMut() -> Nanoseconds) -> Result<(), AgentError> {
        match self.hear()? {
            FromAgent::Hello { version, .. } if version == VERSION => {}
            FromAgent::Hello { version, .. } => {
                return Err(AgentError::Version {
                    host: self.host.clone(),
                    theirs: version,
                });
            }
            other => return Err(self.out_of_turn(&other)),
        }
        for _ in 0..PINGS {
            let before_ns = clock();
            self.tell(&ToAgent::Ping)?;
            let FromAgent::Pong { at_ns } = self.hear()? else {
                return Err(self.out_of_turn(&"no pong"));
            };
            let after_ns = clock();
            let error_ns = (after_ns - before_ns) / 2;
            if error_ns < self.offset.error_ns {
                self.offset = ClockOffset {
                    ahead_ns: at_ns.saturating_sub(before_ns + error_ns),
                    error_ns,
                };
            }
        }
        Ok(())
    }

    /// Sends it a message.
    pub fn tell(&mut self, message: &ToAgent) -> Result<(), AgentError> {
        let sent = send(&mut self.writer, message);
        sent.map_err(|error| self.gone(error))
    }

    /// What it says next.
    pub fn hear(&mut self) -> Result<FromAgent, AgentError> {
        let read = receive(&mut self.reader, &mut self.line);
        let read = read.map_err(|error| self.gone(error))?;
        read.ok_or_else(|| AgentError::NoMessage {
            host: self.host.clone(),
            text: self.line.chars().take(200).collect(),
        })
    }

    /// Both ends, for two threads: one that sends, one that receives.
    pub fn split(self) -> (Teller<W>, Hearer<R>) {
        let teller = Teller {
            host: self.host.clone(),
            writer: self.writer,
            offset: self.offset,
        };
        let hearer = Hearer {
            host: self.host,
            reader: self.reader,
            line: self.line,
        };
        (teller, hearer)
    }

    /// It cannot be reached.
    pub fn gone(&self, error: std::io::Error) -> AgentError {
        AgentError::Gone {
            host: self.host.clone(),
            error,
        }
    }

    fn out_of_turn(&self, what: &impl std::fmt::Debug) -> AgentError {
        AgentError::OutOfTurn {
            host: self.host.clone(),
            text: format!("{what:?}").chars().take(200).collect(),
        }
    }
}

/// The end of an agent that takes messages.
pub struct Teller<W> {
    /// Its host.
    pub host: String,
    writer: W,
    /// How far its clock is ahead.
    pub offset: ClockOffset,
}

impl<W: Write> Teller<W> {
    /// Where it is written to.
    pub fn writer(&mut self) -> &mut W {
        &mut self.writer
    }

    /// Sends it a message.
    pub fn tell(&mut self, message: &ToAgent) -> Result<(), AgentError> {
        send(&mut self.writer, message).map_err(|error| AgentError::Gone {
            host: self.host.clone(),
            error,
        })
    }
}

/// The end of an agent that reports.
pub struct Hearer<R> {
    /// Its host.
    pub host: String,
    reader: R,
    line: String,
}

impl<R: BufRead> Hearer<R> {
    /// What it says next.
    pub fn hear(&mut self) -> Result<FromAgent, AgentError> {
        let read = receive(&mut self.reader, &mut self.line);
        let read = read.map_err(|error| AgentError::Gone {
            host: self.host.clone(),
            error,
        })?;
        read.ok_or_else(|| AgentError::NoMessage {
            host: self.host.clone(),
            text: self.line.chars().take(200).collect(),
        })
    }
}

/// Writes a message as a line.
pub fn send(writer: &mut impl Write, message: &impl Serialize) -> std::io::Result<()> {
    let mut text = serde_json::to_string(message)?;
    text.push('\n');
    writer.write_all(text.as_bytes())?;
    writer.flush()
}

/// Reads a line, which is a message, or `None` and in `line`; its end is an error.
pub fn receive<T: for<'a> Deserialize<'a>>(
    reader: &mut impl BufRead,
    line: &mut String,
) -> std::io::Result<Option<T>> {
    line.clear();
    let mut limited = std::io::Read::take(&mut *reader, LINE_MAX);
    if limited.read_line(line)? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(line).ok())
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use super::*;
    use crate::results::RecentTimes;

    #[test]
    fn the_offset_is_that_of_the_fastest_round_trip() {
        let mut lines = vec![r#"{"kind":"hello","version":1,"tool":"x"}"#.to_owned()];
        // Our clock goes on by 100 a call, but once by 10: its own is 5,000 ahead.
        let mut now = 0;
        let mut script = Vec::new();
        for ping in 0..PINGS {
            let step = if ping == 7 { 10 } else { 100 };
            script.push(now);
            lines.push(format!(
                r#"{{"kind":"pong","at_ns":{}}}"#,
                now + 5_000 + if ping == 7 { 5 } else { 80 }
            ));
            now += step;
            script.push(now);
            now += 1;
        }
        let reader = BufReader::new(Cursor::new(lines.join("\n")));
        let mut script = script.into_iter();
        let mut clock = || script.next().expect("as many as pings");
        let mut agent = Agent::address("a".to_owned(), reader, Vec::new());
        agent.greet(&mut clock).expect("it greets");
        let offset = agent.offset;
        assert_eq!((offset.ahead_ns, offset.error_ns), (5_000, 5));
    }

    #[test]
    fn what_is_no_message_is_an_error_that_shows_it() {
        for (lines, expected) in [
            ("bash: lineside: command not found\n", "command not found"),
            (
                "{\"kind\":\"hello\",\"version\":9,\"tool\":\"x\"}\n",
                "version 9",
            ),
            ("{\"kind\":\"ready\",\"open\":1}\n", "out of turn"),
            ("", "end of file"),
        ] {
            let reader = BufReader::new(Cursor::new(lines));
            let mut agent = Agent::address("host".to_owned(), reader, Vec::new());
            let error = agent.greet(&mut || 0).expect_err("an error").to_string();
            assert!(
                error.starts_with("host") && error.contains(expected),
                "{error}"
            );
        }
    }

    #[test]
    fn an_outcome_passes_whole() {
        let mut outcome = Outcome::default();
        outcome.times.latency.record(123_456);
        outcome.times.latency.record(7_000_000_000);
        outcome.counts.planned = 2;
        outcome.departures.push((1, 2));
        outcome.seconds.push(RunSecond::default());
        outcome.rest.service.record(5_000);
        let mut text = Vec::new();
        send(&mut text, &FromAgent::Over(Box::new(outcome))).expect("memory");
        let mut reader = BufReader::new(Cursor::new(text));
        let message = receive(&mut reader, &mut String::new()).expect("a line");
        let Some(FromAgent::Over(mut again)) = message else {
            panic!("{message:?}");
        };
        let latency = &again.times.latency;
        assert_eq!(
            (latency.count(), latency.max_ns()),
            (2, Some(7_000_000_000))
        );
        assert_eq!(latency.quantile_ns(0.5), Some(123_519));
        let mut two = Outcome::default();
        two.times.latency.record(1_000);
        two.departures.push((500, 600));
        two.rest.service.record(6_000);
        again.add(two, 499);
        assert_eq!(again.times.latency.count(), 3);
        assert_eq!(again.rest.service.count(), 2);
        assert_eq!(again.departures, [(1, 2), (1, 101)]);
    }

    #[test]
    fn seconds_of_hosts_add_up_with_all_their_times() {
        let second = |ns| {
            let mut times = Box::<RecentTimes>::default();
            times.latency.record(ns);
            let second = RunSecond {
                times: Some(times),
                ..RunSecond::default()
            };
            let mut text = Vec::new();
            send(&mut text, &FromAgent::Second(Box::new(second))).expect("memory");
            let mut reader = BufReader::new(Cursor::new(text));
            match receive(&mut reader, &mut String::new()) {
                Ok(Some(FromAgent::Second(second))) => *second,
                other => panic!("{other:?}"),
            }
        };
        let mut all = RunSecond::default();
        [second(1_000), second(3_000)]
            .iter()
            .for_each(|each| all.add(each));
        let times = all.times.expect("those of both");
        assert_eq!(
            (times.latency.count(), times.latency.min_ns()),
            (2, Some(1_000))
        );
    }
}
