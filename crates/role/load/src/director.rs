//! A load that several hosts make together, directed from here.

use std::io::{self, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use lineside_host::{Ender, RunClock, Stopwatch};
use lineside_time::Clock;
use lineside_words::time;
use serde_json::Value;

use crate::agents::{Agent, AgentError, FromAgent, Teller, ToAgent};
use crate::gathering::{Gathering, News};
use crate::outcome::{Observer, Outcome};
use crate::patient::{Patience, Patient};

/// All begin this long after the last one is ready: more than a message takes.
const START_AFTER_NS: i64 = 300_000_000;
/// Signals are looked for this often.
const LOOK: Duration = Duration::from_millis(50);
/// An agent that has been silent for this long is asked whether it is there, also while it opens
/// connections or waits for late answers.
const ASK_AFTER: Duration = Duration::from_secs(1);

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
    /// What was started does not answer at all.
    #[error(
        "{host}: no answer for {}, and --timeout waits no longer: see what '{command}' waits for, \
         such as a password or the network", time(*silent_ns)
    )]
    Silent {
        /// The host.
        host: String,
        /// As its program was started.
        command: String,
        /// For how long, nanoseconds.
        silent_ns: u64,
    },
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
    patience: Patience,
}

impl Drop for Remote {
    fn drop(&mut self) {
        // It ends by itself when its input ends; this is for one that hangs.
        drop(self.ends.take());
        self.ender.kill(self.child.id());
        let _ = self.child.wait();
    }
}

type Ends = Agent<BufReader<Patient<ChildStdout>>, Patient<ChildStdin>>;

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
    let mut directing = Directing::default();
    let (news, reports) = channel();
    for (number, remote) in remotes.iter_mut().enumerate() {
        let mut agent = remote.greet(clock)?;
        on_clock(&clock_line(&agent));
        let work = ToAgent::Work {
            keys: keys.clone(),
            among: (number as u32 * workers, count * workers),
        };
        agent.tell(&work).map_err(|error| remote.failed(error))?;
        agent.reader().get_mut().take_any_time();
        let (teller, mut hearer) = agent.split();
        directing.add(teller, remote);
        let news = news.clone();
        thread::Builder::new()
            .name(format!("hear-{number}"))
            .spawn(move || {
                loop {
                    let heard = hearer.hear();
                    let is_last = matches!(
                        heard,
                        Err(_) | Ok(FromAgent::Over(_) | FromAgent::Failed { .. })
                    );
                    if news.send((number, heard)).is_err() || is_last {
                        return;
                    }
                }
            })
            .map_err(DirectorError::Thread)?;
    }
    drop(news);
    directing.attend(&reports, clock, observer)
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
        patience: Patience,
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
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut remote = Self {
            child,
            ender: Arc::clone(ender),
            ends: None,
            command: format!("{rsh} {host} {} load --agent", program.display()),
            patience,
        };
        let (Some(input), Some(output)) = (input, output) else {
            return Err(DirectorError::Mute(host.to_owned()));
        };
        let output = Patient::new(output, host, patience);
        let input = Patient::new(input, host, patience);
        let mut agent = Agent::address(host.to_owned(), BufReader::new(output), input);
        // A program that has ended already is found out when it is greeted.
        let answers = agent.reader().get_mut().wait_to_read();
        answers.map_err(|error| remote.failed(agent.gone(error)))?;
        remote.ends = Some(agent);
        Ok(remote)
    }

    /// Reads how the agent answers, and finds how far its clock is ahead.
    fn greet(&mut self, clock: RunClock) -> Result<Ends, DirectorError> {
        let mut agent = self.ends.take().ok_or(DirectorError::Gone)?;
        agent.reader().get_mut().restart();
        agent.writer().restart();
        let greeted = agent.greet(&mut || clock.now());
        greeted.map_err(|error| match self.failed(error) {
            DirectorError::Agent(error) => DirectorError::NoAgent(self.command.clone(), error),
            silent => silent,
        })?;
        Ok(agent)
    }

    /// Why its agent did not do what it was asked.
    fn failed(&self, error: AgentError) -> DirectorError {
        failed(error, &self.command, self.patience)
    }
}

/// Why the agent of `command` did not do what it was asked: `Gone` by time is silence.
fn failed(error: AgentError, command: &str, patience: Patience) -> DirectorError {
    match error {
        AgentError::Gone { host, error } if error.kind() == io::ErrorKind::TimedOut => {
            silent(host, command, patience)
        }
        error => error.into(),
    }
}

fn silent(host: String, command: &str, patience: Patience) -> DirectorError {
    DirectorError::Silent {
        host,
        command: command.to_owned(),
        silent_ns: patience.end_after.as_nanos() as u64,
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

/// A load that hosts make.
#[derive(Default)]
struct Directing {
    hosts: Vec<Directed>,
    /// Requests leave: a host that dies from now on ends nothing but its own part.
    has_started: bool,
    has_stopped: bool,
}

/// A host that makes a part of a load.
struct Directed {
    teller: Teller<Patient<ChildStdin>>,
    /// As its program was started.
    command: String,
    patience: Patience,
    /// How long nothing has come from it.
    silent: Duration,
    /// Whether it was asked since whether it is there.
    is_asked: bool,
    is_named: bool,
    is_gone: bool,
}

impl Directing {
    fn add(&mut self, teller: Teller<Patient<ChildStdin>>, remote: &Remote) {
        self.hosts.push(Directed {
            teller,
            command: remote.command.clone(),
            patience: remote.patience,
            silent: Duration::ZERO,
            is_asked: false,
            is_named: false,
            is_gone: false,
        });
    }

    fn attend(
        mut self,
        reports: &Receiver<(usize, Result<FromAgent, AgentError>)>,
        clock: RunClock,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, DirectorError> {
        let hosts = self.hosts.iter().map(|host| &host.teller);
        let mut gathering =
            Gathering::new(hosts.map(|teller| (teller.host.clone(), teller.offset.ahead_ns)));
        let mut looked = Stopwatch::start();
        while !gathering.all_over() {
            if observer.stops() && !self.has_stopped {
                self.has_stopped = true;
                self.tell_all(&mut gathering, observer, |_| ToAgent::Stop)?;
            }
            // Also while others report: what one of them sends hides no silence of another.
            if looked.elapsed() >= LOOK {
                // A process that was stopped itself has not listened meanwhile.
                let passed = looked.elapsed().min(ASK_AFTER);
                looked = Stopwatch::start();
                self.look_after(&mut gathering, observer, passed)?;
            }
            let (number, heard) = match reports.recv_timeout(LOOK) {
                Ok(report) => report,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Err(DirectorError::Gone),
            };
            if self.hosts[number].is_gone {
                continue;
            }
            self.hosts[number].on_sign();
            let mut show = |second: &_| observer.on_second(second);
            let news = heard.and_then(|message| gathering.on_message(number, message, &mut show));
            match news {
                Ok(News::None) => {}
                Ok(News::AllReady(open)) => self.start(open, &mut gathering, clock, observer)?,
                Err(error) => self.lose(number, error.into(), &mut gathering, observer)?,
            }
        }
        Ok(gathering.into_outcome())
    }

    /// A host is gone: before requests leave, that ends the run. What was measured is kept.
    fn lose(
        &mut self,
        number: usize,
        error: DirectorError,
        gathering: &mut Gathering,
        observer: &mut dyn Observer,
    ) -> Result<(), DirectorError> {
        // One whose part is over has reported all.
        if !self.has_started {
            return Err(error);
        }
        self.hosts[number].is_gone = true;
        if !gathering.is_over(number) {
            let mut show = |second: &_| observer.on_second(second);
            gathering.on_gone(number, &error.to_string(), &mut show);
        }
        Ok(())
    }

    /// Asks hosts that are silent, names them, and goes on without one that stays silent.
    fn look_after(
        &mut self,
        gathering: &mut Gathering,
        observer: &mut dyn Observer,
        passed: Duration,
    ) -> Result<(), DirectorError> {
        for number in 0..self.hosts.len() {
            if gathering.is_over(number) {
                continue;
            }
            let looked = self.hosts[number].look_after(passed);
            looked.or_else(|error| self.lose(number, error, gathering, observer))?;
        }
        Ok(())
    }

    fn tell_all(
        &mut self,
        gathering: &mut Gathering,
        observer: &mut dyn Observer,
        message: impl Fn(i64) -> ToAgent,
    ) -> Result<(), DirectorError> {
        for number in 0..self.hosts.len() {
            let host = &mut self.hosts[number];
            if host.is_gone {
                continue;
            }
            let message = message(host.teller.offset.ahead_ns);
            let told = host.tell(&message);
            told.or_else(|error| self.lose(number, error, gathering, observer))?;
        }
        Ok(())
    }

    /// All are ready: they begin at one instant.
    fn start(
        &mut self,
        open: u32,
        gathering: &mut Gathering,
        clock: RunClock,
        observer: &mut dyn Observer,
    ) -> Result<(), DirectorError> {
        let at = observer.start_at(open, clock.now() + START_AFTER_NS);
        self.has_started = true;
        self.tell_all(gathering, observer, |ahead_ns| match at {
            Some(at) => ToAgent::Start {
                at_ns: at.saturating_add(ahead_ns),
            },
            None => ToAgent::Stop,
        })
    }
}

impl Directed {
    /// Nothing came from it for so long again; the error is that it is silent.
    fn look_after(&mut self, passed: Duration) -> Result<(), DirectorError> {
        self.silent += passed;
        if self.silent >= ASK_AFTER && !self.is_asked {
            self.is_asked = true;
            self.tell(&ToAgent::Ping)?;
        }
        if self.silent >= self.patience.name_after && !self.is_named {
            self.is_named = true;
            self.patience.name(&self.teller.host);
        }
        if self.silent >= self.patience.end_after {
            let name = self.teller.host.clone();
            return Err(silent(name, &self.command, self.patience));
        }
        Ok(())
    }

    /// It is there.
    fn on_sign(&mut self) {
        self.silent = Duration::ZERO;
        (self.is_asked, self.is_named) = (false, false);
    }

    fn tell(&mut self, message: &ToAgent) -> Result<(), DirectorError> {
        self.teller.writer().restart();
        let sent = self.teller.tell(message);
        sent.map_err(|error| failed(error, &self.command, self.patience))
    }
}

#[cfg(test)]
mod wall {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use lineside_time::Nanoseconds;
    use serde_json::json;

    use super::*;
    use crate::outcome::RunSecond;

    /// Times an agent was named.
    static NAMED: AtomicUsize = AtomicUsize::new(0);

    struct Watcher;

    impl Observer for Watcher {
        fn start_at(&mut self, _: u32, soon: Nanoseconds) -> Option<Nanoseconds> {
            Some(soon)
        }

        fn on_second(&mut self, _: &RunSecond) {}

        fn stops(&mut self) -> bool {
            false
        }
    }

    /// The shell plays an agent.
    fn direct(script: &str) -> Result<Outcome, DirectorError> {
        let folder = tempfile::tempdir().expect("a folder");
        let agent = folder.path().join("agent");
        std::fs::write(&agent, script).expect("written");
        let patience = Patience {
            name_after: Duration::from_millis(20),
            end_after: Duration::from_secs(2),
            note: |line| {
                assert!(line.starts_with("lineside: alpha: no answer for"), "{line}");
                NAMED.fetch_add(1, Ordering::Relaxed);
            },
        };
        let rsh = format!("sh {}", agent.display());
        let remote = Remote::start(
            &rsh,
            "alpha",
            Path::new("lineside"),
            &Arc::default(),
            patience,
        );
        // More than a pipe holds.
        let keys = json!({ "body": "x".repeat(1 << 20) });
        remote.and_then(|remote| {
            run(
                &keys,
                vec![remote],
                1,
                RunClock::start(),
                &mut Watcher,
                |_| {},
            )
        })
    }

    #[test]
    fn an_agent_that_is_silent_is_named_and_dropped() {
        let greets = r#"echo '{"kind":"hello","version":1,"tool":"x"}'; read line
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    read line; echo '{"kind":"pong","at_ns":1}'
done"#;
        let hello = greets.lines().next().expect("a line");
        let ready = r#"read line; echo '{"kind":"ready","open":1}'"#;
        let silent = [
            // Not a byte, bytes that are no line, no answer to pings, to the work, or after it.
            "exec sleep 1000".to_owned(),
            "while printf x; do sleep 0.1; done".to_owned(),
            format!("{hello}\nexec sleep 1000"),
            format!("{greets}\nexec sleep 1000"),
            format!("{greets}\n{ready}\nexec sleep 1000"),
        ];
        for script in silent {
            let before = NAMED.load(Ordering::Relaxed);
            let text = match direct(&script) {
                // Requests had left: what came of the load is kept.
                Ok(outcome) => outcome.failure.expect("it names the host"),
                Err(error) => {
                    assert!(
                        matches!(&error, DirectorError::Silent { host, .. } if host == "alpha"),
                        "{script}: {error}"
                    );
                    error.to_string()
                }
            };
            let has_left = script.contains("ready") && text.contains("the first 0 s are known");
            assert_eq!(has_left, script.contains("ready"), "{script}: {text}");
            assert!(
                text.contains("--timeout") && text.contains("load --agent"),
                "{text}"
            );
            assert!(NAMED.load(Ordering::Relaxed) > before, "{script}");
        }
        // What answers is not waited for.
        let nonsense = direct("echo nonsense");
        assert!(matches!(nonsense, Err(DirectorError::NoAgent(..))));
    }
}
