//! `lineside load --hosts`: a load that several hosts make together, directed from here.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use lineside_host::{RunClock, wait_to_read};
use lineside_load::agents::{Agent, AgentError, FromAgent, Teller, ToAgent};
use lineside_load::outcome::{Outcome, RunSecond};
use lineside_load::run::Watch;
use lineside_time::Clock;
use lineside_words::time;

use super::flags::Section;
use crate::config::{self, ConfigError};
use crate::print::talk;

/// All begin so long after the last one is ready: more than a message takes.
const START_AFTER_NS: i64 = 300_000_000;
/// Signals are looked for this often.
const LOOK: Duration = Duration::from_millis(50);

/// A host's program, which ends with this. It is a program of the user, and in no sandbox of ours.
pub(super) struct Remote {
    child: Child,
    ends: Option<Ends>,
}

impl Drop for Remote {
    fn drop(&mut self) {
        // It ends by itself when its input ends; this is for one that hangs.
        drop(self.ends.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

type Ends = Agent<BufReader<ChildStdout>, ChildStdin>;

/// Starts the programs of all hosts: what they say is not looked into.
pub(super) fn begin(keys: &Section, hosts: &[String]) -> anyhow::Result<Vec<Remote>> {
    let rsh = keys.rsh.as_deref().unwrap_or_default();
    let program = program(keys)?;
    let begun = hosts.iter().map(|host| start(rsh, host, &program));
    begun.collect()
}

/// The program that hosts run.
fn program(keys: &Section) -> anyhow::Result<PathBuf> {
    match &keys.agent {
        Some(program) => Ok(program.clone()),
        None => std::env::current_exe().context("this program has no path"),
    }
}

/// Has the hosts make the load of these keys, each with `workers` workers.
pub(super) fn run(
    keys: &Section,
    mut remotes: Vec<Remote>,
    workers: u32,
    clock: RunClock,
    watch: &mut impl Watch,
) -> anyhow::Result<Outcome> {
    let count = remotes.len() as u32;
    let mut tellers = Vec::new();
    let (news, reports) = channel();
    for (number, remote) in remotes.iter_mut().enumerate() {
        let mut agent = greet(keys, remote, clock)?;
        let section = config::to_json("load", keys);
        agent.tell(&ToAgent::Work {
            keys: section.get("load").cloned().unwrap_or_default(),
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
            })?;
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
    directed.attend(&reports, clock, watch)
}

/// Starts the program of a host, and waits until it answers: one that asks its user for a password
/// has the terminal for itself.
fn start(rsh: &str, host: &str, program: &Path) -> anyhow::Result<Remote> {
    let mut words = rsh.split_whitespace();
    let Some(first) = words.next() else {
        return Err(ConfigError::usage("--rsh is empty: write 'ssh'").into());
    };
    let mut command = Command::new(first);
    command.args(words).arg(host).arg(program);
    command.args(["load", "--agent"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let child = command.spawn();
    let mut child = child.with_context(|| format!("{host}: cannot start '{rsh}'"))?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        bail!("{host}: its program has no standard input and output");
    };
    let agent = Agent::address(host.to_owned(), BufReader::new(output), input);
    // A program that has ended already is found out when it is greeted.
    wait_to_read(agent.reader().get_ref());
    let ends = Some(agent);
    Ok(Remote { child, ends })
}

/// Hears how an agent answers, and finds how far its clock is ahead.
fn greet(keys: &Section, remote: &mut Remote, clock: RunClock) -> anyhow::Result<Ends> {
    let mut agent = remote.ends.take().context("it was greeted before")?;
    let greeted = agent.greet(&mut || clock.now());
    let host = &agent.host;
    greeted.with_context(|| {
        let rsh = keys.rsh.as_deref().unwrap_or_default();
        let program = program(keys).unwrap_or_default();
        format!(
            "'{rsh} {host} {} load --agent' is not an agent",
            program.display()
        )
    })?;
    talk(&format!(
        "lineside: {host}: its clock is {} {} ours, to {}\n",
        time(agent.offset.ahead_ns.unsigned_abs()),
        if agent.offset.ahead_ns < 0 {
            "behind"
        } else {
            "ahead of"
        },
        time(agent.offset.error_ns.unsigned_abs())
    ));
    Ok(agent)
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
        watch: &mut impl Watch,
    ) -> anyhow::Result<Outcome> {
        let mut outcome = Outcome {
            busiest: (0, 1),
            ..Outcome::default()
        };
        let mut over = 0;
        while over < self.tellers.len() {
            if watch.stops() && !self.has_stopped {
                self.has_stopped = true;
                self.tell_all(|_| ToAgent::Stop)?;
            }
            let (number, heard) = match reports.recv_timeout(LOOK) {
                Ok(report) => report,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => bail!("all hosts are gone"),
            };
            match heard? {
                FromAgent::Ready { open } => self.on_ready(open, clock, watch)?,
                FromAgent::Second(second) => {
                    self.seconds[number].push(*second);
                    self.show(watch);
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
        watch: &mut impl Watch,
    ) -> anyhow::Result<()> {
        (self.ready, self.open) = (self.ready + 1, self.open + open);
        if self.ready < self.tellers.len() {
            return Ok(());
        }
        match watch.start_at(self.open, clock.now() + START_AFTER_NS) {
            Some(at) => self.tell_all(|ahead_ns| ToAgent::Start {
                at_ns: at + ahead_ns,
            })?,
            None => self.tell_all(|_| ToAgent::Stop)?,
        }
        Ok(())
    }

    /// Shows the seconds that all hosts have reported.
    fn show(&mut self, watch: &mut impl Watch) {
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
            watch.on_second(&all);
        }
    }
}
