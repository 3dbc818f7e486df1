//! A load that several hosts make together, directed from here.

use std::io::{self, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use lineside_host::{Ender, RunClock, wait_to_read};
use lineside_time::Clock;
use lineside_words::time;
use serde_json::Value;

use crate::agents::{Agent, AgentError, FromAgent, Teller, ToAgent};
use crate::outcome::{Outcome, RunSecond};
use crate::run::Observer;

/// All begin this long after the last one is ready: more than a message takes.
const START_AFTER_NS: i64 = 300_000_000;
/// Signals are looked for this often.
const LOOK: Duration = Duration::from_millis(50);

/// Why hosts did not make a load.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectorError {
    /// A host's program cannot be started.
    #[error("{host}: cannot start '{command}'")]
    Start {
        /// The host.
        host: String,
        /// What starts programs there.
        command: String,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// There is nothing to talk by.
    #[error("{0}: its program has no standard input and output")]
    Mute(String),
    /// What was started does not answer as this program does.
    #[error("'{0}' is not an agent")]
    NoAgent(String, #[source] AgentError),
    /// A host failed, or its program did.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// Every host has ended.
    #[error("all hosts are gone")]
    Gone,
    /// The operating system refused a thread.
    #[error(transparent)]
    Thread(io::Error),
}

/// A host's program, which ends with this. It is a program of the user, and in no sandbox of ours.
pub struct Remote {
    child: Child,
    ender: Arc<Ender>,
    ends: Option<Ends>,
    /// As it was started.
    command: String,
}

impl Drop for Remote {
    fn drop(&mut self) {
        // It ends by itself when its input ends; this is for one that hangs.
        drop(self.ends.take());
        self.ender.kill(self.child.id());
        let _ = self.child.wait();
    }
}

type Ends = Agent<BufReader<ChildStdout>, ChildStdin>;

/// Has the hosts make the load of these keys, each with `workers` workers. `on_clock` receives a
/// line about the clock of each host.
pub fn run(
    keys: &Value,
    mut remotes: Vec<Remote>,
    workers: u32,
    clock: RunClock,
    observer: &mut dyn Observer,
    mut on_clock: impl FnMut(&str),
) -> Result<Outcome, DirectorError> {
    let count = remotes.len() as u32;
    let mut tellers = Vec::new();
    let (news, reports) = channel();
    for (number, remote) in remotes.iter_mut().enumerate() {
        let mut agent = remote.greet(clock)?;
        on_clock(&clock_line(&agent));
        agent.tell(&ToAgent::Work {
            keys: keys.clone(),
            among: (number as u32 * workers, count * workers),
        })?;
        let (teller, mut hearer) = agent.split();
        tellers.push(teller);
        let news = news.clone();
        thread::Builder::new()
            .name(format!("hear-{number}"))
            .spawn(move || {
                loop {
                    let heard = hearer.hear();
                    let is_last =
                        !matches!(heard, Ok(FromAgent::Ready { .. } | FromAgent::Second(_)));
                    if news.send((number, heard)).is_err() || is_last {
                        return;
                    }
                }
            })
            .map_err(DirectorError::Thread)?;
    }
    drop(news);
    let directed = Directing {
        tellers,
        ready: 0,
        open: 0,
        seconds: vec![Vec::new(); remotes.len()],
        shown: 0,
        has_stopped: false,
    };
    directed.attend(&reports, clock, observer)
}

impl Remote {
    /// Starts `program` on a host by `rsh`, and waits until it answers: one that asks its user for
    /// a password has the terminal for itself. What it answers is not read yet.
    /// `ender` ends it where it hangs.
    pub fn start(
        rsh: &str,
        host: &str,
        program: &Path,
        ender: &Arc<Ender>,
    ) -> Result<Self, DirectorError> {
        let mut words = rsh.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).arg(host).arg(program);
        command.args(["load", "--agent"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.spawn();
        let mut child = child.map_err(|error| DirectorError::Start {
            host: host.to_owned(),
            command: rsh.to_owned(),
            error,
        })?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(DirectorError::Mute(host.to_owned()));
        };
        let agent = Agent::address(host.to_owned(), BufReader::new(output), input);
        // A program that has ended already is found out when it is greeted.
        wait_to_read(agent.reader().get_ref());
        Ok(Self {
            child,
            ender: Arc::clone(ender),
            ends: Some(agent),
            command: format!("{rsh} {host} {} load --agent", program.display()),
        })
    }

    /// Reads how the agent answers, and finds how far its clock is ahead.
    fn greet(&mut self, clock: RunClock) -> Result<Ends, DirectorError> {
        let mut agent = self.ends.take().ok_or(DirectorError::Gone)?;
        let greeted = agent.greet(&mut || clock.now());
        greeted.map_err(|error| DirectorError::NoAgent(self.command.clone(), error))?;
        Ok(agent)
    }
}

fn clock_line(agent: &Ends) -> String {
    let offset = &agent.offset;
    format!(
        "lineside: {}: its clock is {} {} ours, to {}\n",
        agent.host,
        time(offset.ahead_ns.unsigned_abs()),
        if offset.ahead_ns < 0 {
            "behind"
        } else {
            "ahead of"
        },
        time(offset.error_ns.unsigned_abs())
    )
}

/// What is known of a load that hosts make.
struct Directing {
    tellers: Vec<Teller<ChildStdin>>,
    ready: usize,
    open: u32,
    /// By host.
    seconds: Vec<Vec<RunSecond>>,
    shown: usize,
    has_stopped: bool,
}

impl Directing {
    fn attend(
        mut self,
        reports: &Receiver<(usize, Result<FromAgent, AgentError>)>,
        clock: RunClock,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, DirectorError> {
        let mut outcome = Outcome {
            busiest: (0, 1),
            ..Outcome::default()
        };
        let mut over = 0;
        while over < self.tellers.len() {
            if observer.stops() && !self.has_stopped {
                self.has_stopped = true;
                self.tell_all(|_| ToAgent::Stop)?;
            }
            let (number, heard) = match reports.recv_timeout(LOOK) {
                Ok(report) => report,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Err(DirectorError::Gone),
            };
            match heard? {
                FromAgent::Ready { open } => self.on_ready(open, clock, observer)?,
                FromAgent::Second(second) => {
                    self.seconds[number].push(*second);
                    self.show(observer);
                }
                FromAgent::Over(one) => {
                    outcome.add(*one, self.tellers[number].offset.ahead_ns);
                    over += 1;
                }
                FromAgent::Failed { why } => {
                    let host = self.tellers[number].host.clone();
                    return Err(AgentError::Failed { host, why }.into());
                }
                other => {
                    let host = self.tellers[number].host.clone();
                    let text = format!("{other:?}").chars().take(100).collect();
                    return Err(AgentError::OutOfTurn { host, text }.into());
                }
            }
        }
        // A host that was over before the others has reported no such seconds.
        let rest = { self.seconds.iter() }.flat_map(|seconds| &seconds[self.shown..]);
        for times in rest.filter_map(|second| second.times.as_ref()) {
            outcome.rest.add(times);
        }
        Ok(outcome)
    }

    fn tell_all(&mut self, message: impl Fn(i64) -> ToAgent) -> Result<(), AgentError> {
        for teller in &mut self.tellers {
            let message = message(teller.offset.ahead_ns);
            teller.tell(&message)?;
        }
        Ok(())
    }

    fn on_ready(
        &mut self,
        open: u32,
        clock: RunClock,
        observer: &mut dyn Observer,
    ) -> Result<(), DirectorError> {
        (self.ready, self.open) = (self.ready + 1, self.open + open);
        if self.ready < self.tellers.len() {
            return Ok(());
        }
        match observer.start_at(self.open, clock.now() + START_AFTER_NS) {
            Some(at) => self.tell_all(|ahead_ns| ToAgent::Start {
                at_ns: at + ahead_ns,
            })?,
            None => self.tell_all(|_| ToAgent::Stop)?,
        }
        Ok(())
    }

    /// Shows the seconds that all hosts have reported.
    fn show(&mut self, observer: &mut dyn Observer) {
        while self
            .seconds
            .iter()
            .all(|seconds| seconds.len() > self.shown)
        {
            let mut all = RunSecond {
                number: self.shown as u32 + 1,
                ..RunSecond::default()
            };
            for seconds in &mut self.seconds {
                all.add(&std::mem::take(&mut seconds[self.shown]));
            }
            self.shown += 1;
            observer.on_second(&all);
        }
    }
}
