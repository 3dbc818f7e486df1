//! Emulated links between nodes: each a network namespace with the programs of one command.
//!
//! ```text
//!  namespace: Node ── TAP ──┐                       ┌── TAP ── Node: namespace
//!                           ├─► ports ─► LiveLoop ─►┤
//!  namespace: Node ── TAP ──┘                       └── TAP ── Node: namespace
//! ```
//!
//! All networks are set up at once. Nodes that can be found ready begin first, all others together
//! once those are ready. The run ends when the nodes have that it waits for.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::BorrowedFd;
use std::path::Path as Folder;
use std::time::Duration;

use lineside_account::Budget;
use lineside_host::{
    Descendants, Ender, NetNamespace, Netlink, Node, NodeCommand, NodeEnd, NodeEvent, NodeLimits,
    ReadyWhen, RunClock, Sandbox, Signals,
};
use lineside_port::live::{EndOptions, LinkEnd, StampClock, open_end};
use lineside_port::{LivePort, PortError};
use lineside_reactor::{TapPort, Tapped, Wait};
use lineside_run::Record;
use lineside_run::control::while_controlled;
use lineside_run::live::{Next, turns};
use lineside_time::Clock;

use super::carrier::Carriers;
use super::commands::{MTU, NO_CARRIER, check_carriers, confine};
use super::tapping::while_tapped;
use super::turns::Emulating;
use super::{Controlled, EmulationError, Event, Outcome, Tapping};
use crate::{LiveLoop, LivePath, Path};

/// A node: its command, and what is wanted of it.
#[derive(Debug)]
pub struct NodePlan<'a> {
    /// The command, for a shell.
    pub command: &'a str,
    /// Variables of its environment.
    pub environment: Vec<(String, String)>,
    /// When others may ask it: it begins before those without.
    pub ready: Option<&'a ReadyWhen>,
    /// Whether the run goes on until it ends.
    pub is_awaited: bool,
    /// What it may use.
    pub limits: &'a NodeLimits,
    /// What a shell on another machine runs, to which `command` connects.
    pub elsewhere: Option<&'a str>,
    /// Whether it is in the network of this machine, rather than in one of its own.
    pub is_outside: bool,
    /// Its standard output and standard error.
    pub outputs: [BorrowedFd<'a>; 2],
}

/// A link between nodes, or a switch of more than two.
#[derive(Debug, Clone)]
pub struct NodeLink<'a> {
    /// The name of its interfaces.
    pub name: &'a str,
    /// The numbers of its nodes.
    pub nodes: Vec<usize>,
}

/// A run between nodes, beside its path.
pub struct Nodes<'a> {
    /// The nodes.
    pub nodes: Vec<NodePlan<'a>>,
    /// The links; their nodes are the ports of the path, one link after the other.
    pub links: Vec<NodeLink<'a>>,
    /// Where the commands begin.
    pub folder: &'a Folder,
    /// How long nodes have until they are ready.
    pub ready_wait: Duration,
    /// How long the nodes that are waited for may take after that.
    pub timeout: Duration,
    /// How the loop waits.
    pub wait: Wait,
    /// The budget of the run.
    pub budget: &'a Budget,
    /// What holds once the programs run.
    pub sandbox: Option<Sandbox>,
    /// The signals that end the run.
    pub signals: &'a Signals,
}

/// What became of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeOutcome {
    /// Whether its shell on another machine answered.
    pub was_connected: bool,
    /// Whether it was found ready.
    pub was_ready: bool,
    /// How it ended by itself.
    pub end: Option<NodeEnd>,
    /// The error of the operating system, if it could not be started.
    pub not_started: Option<i32>,
    /// The processor time of all that it started, if that is known.
    pub cpu_ns: Option<u64>,
}

/// Why a run ended before the nodes that it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The machine of this node did not answer.
    Unreached(usize),
    /// This node was not ready in time.
    NeverReady(usize),
    /// This one ended, or could not be started, although others depend on it.
    EndedEarly(usize),
    /// These nodes took too long: the first of them.
    TimedOut(usize),
}

/// What came of a run.
#[derive(Debug)]
pub struct NodesRan {
    /// The links.
    pub outcome: Outcome,
    /// The nodes.
    pub nodes: Vec<NodeOutcome>,
    /// Why it ended early.
    pub trouble: Option<Trouble>,
    /// When the nodes began that wait for others, since the start.
    pub began: Duration,
}

/// The end of a link at one of its nodes: the link's number makes its network, the place of the
/// node there its address.
pub fn node_end(link: usize, place: usize) -> LinkEnd {
    let (link, place) = (link as u8, place as u8 + 1);
    LinkEnd {
        ethernet: [2, 0, 0, 0, link, place],
        v4: Ipv4Addr::new(10, 0, link, place),
        v6: Ipv6Addr::new(0xfd00, 0, 0, u16::from(link), 0, 0, 0, u16::from(place)),
    }
}

/// What a run has opened.
struct Opened {
    namespaces: Vec<NetNamespace>,
    sides: Vec<Vec<Box<dyn LivePort>>>,
}

impl Nodes<'_> {
    /// Runs all. `path` has the links in the order of their ports. `tapping` takes copies of
    /// frames, in a thread of its own; its result is the second one.
    pub fn run<T: Send>(
        &self,
        mut path: Path,
        tapping: Option<Tapping<impl FnOnce(TapPort, Vec<u16>) -> T + Send>>,
        record: &mut Record,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<(NodesRan, Option<std::thread::Result<T>>), EmulationError> {
        self.signals.shield();
        let clock = RunClock::start();
        let is_in_own_namespace = lineside_host::enter_user_namespace()?;
        // What is left of nodes when this process ends early is killed with it.
        let all = Descendants::adopt(Ender::default());
        let all = all.map_err(EmulationError::system("cannot adopt processes"))?;
        // No way leads back to the network of this machine.
        let mut nodes: Vec<Option<Node>> = Vec::new();
        for plan in &self.nodes {
            nodes.push(plan.is_outside.then(|| self.make_node(plan)).transpose()?);
        }
        let mut opened = self.open(clock)?;
        check_carriers(&path, &mut opened.sides)?;
        if is_in_own_namespace {
            lineside_host::hand_down_network_rights()
                .map_err(EmulationError::system("cannot hand down privileges"))?;
        }
        let nodes = self.make_nodes(nodes, &opened.namespaces)?;
        drop(opened.namespaces);
        confine(self.sandbox.as_ref(), is_in_own_namespace, record, on_event)?;
        path.begin(clock.now());
        let mut live = LivePath::between(path, opened.sides, self.wait, false);
        let record: &Record = record;
        let start = |_: &mut LiveLoop| Ok(record.start()?);
        let mut course = Course::new(self, nodes);
        let ran = while_tapped(&mut live, tapping, self.budget, start, |live, ()| {
            let (mut failure, signal) = self.turn(live, &clock, record, &mut course)?;
            course.end(|| {
                // Frames that nodes still send pass.
                if failure.is_none() {
                    failure = live.turn(&mut || clock.now()).err();
                }
            });
            live.engine_mut().set_tap(None);
            Ok::<_, EmulationError>(Outcome::of(live, signal, failure))
        });
        let (outcome, taken) = ran?;
        drop(all);
        let ran = NodesRan {
            outcome: outcome?,
            nodes: course.outcomes,
            trouble: course.trouble,
            began: course.began.unwrap_or_default(),
        };
        Ok((ran, taken))
    }

    /// Makes a network for each node, and the ends of its links in it.
    fn open(&self, clock: RunClock) -> Result<Opened, EmulationError> {
        let options = EndOptions {
            mtu: MTU,
            clock: StampClock::Steady {
                ahead_ns: clock.ahead_ns(),
            },
            budget: self.budget,
            bytes_max: self.budget.limit_bytes() / 8,
        };
        let mut namespaces = Vec::new();
        let mut ports: Vec<(usize, usize, Box<dyn LivePort>)> = Vec::new();
        for node in 0..self.nodes.len() {
            namespaces.push(NetNamespace::new()?);
            for (number, link) in self.links.iter().enumerate() {
                let Some(place) = link.nodes.iter().position(|other| *other == node) else {
                    continue;
                };
                let others = (0..link.nodes.len()).filter(|other| *other != place);
                let others: Vec<_> = others.map(|other| node_end(number, other)).collect();
                let here = node_end(number, place);
                let port = open_end(link.name, &here, &others, &options)?;
                ports.push((number, place, port));
            }
            let switched = Netlink::open().and_then(|netlink| netlink.switch_on(LOOPBACK));
            switched.map_err(EmulationError::system("cannot switch loopback on"))?;
        }
        ports.sort_by_key(|(link, place, _)| (*link, *place));
        Ok(Opened {
            namespaces,
            sides: ports.into_iter().map(|(.., port)| vec![port]).collect(),
        })
    }

    /// Makes the first process of each node that has none yet.
    fn make_nodes(
        &self,
        made: Vec<Option<Node>>,
        namespaces: &[NetNamespace],
    ) -> Result<Vec<Node>, EmulationError> {
        let mut nodes = Vec::new();
        for ((plan, namespace), made) in self.nodes.iter().zip(namespaces).zip(made) {
            nodes.push(match made {
                Some(node) => node,
                None => {
                    namespace.enter()?;
                    self.make_node(plan)?
                }
            });
        }
        Ok(nodes)
    }

    /// Makes the first process of a node in the network of the caller.
    fn make_node(&self, plan: &NodePlan<'_>) -> Result<Node, EmulationError> {
        let made = Node::make(&NodeCommand {
            command: plan.command,
            environment: &plan.environment,
            folder: self.folder,
            ready: plan.ready,
            limits: plan.limits,
            elsewhere: plan.elsewhere,
            outputs: plan.outputs,
        });
        made.map_err(EmulationError::system("cannot make a PID namespace"))
    }

    /// Turns the loop until the nodes have ended that are waited for.
    fn turn(
        &self,
        live: &mut LiveLoop,
        clock: &RunClock,
        record: &Record,
        course: &mut Course<'_>,
    ) -> Result<(Option<PortError>, Option<u8>), EmulationError> {
        let ports = self.links.iter().flat_map(|link| &link.nodes);
        let names: Vec<_> = ports.map(|_| "a node").collect();
        let mut carriers = Carriers::new(live, None, &names, NO_CARRIER);
        let mut signal = None;
        let controlled: Option<Controlled> = None;
        let failure = while_controlled(controlled, |asked| {
            let mut emulating = Emulating::new(asked, &mut carriers, record, |_, elapsed| {
                signal = self.signals.stop();
                Ok(match signal.is_some() || course.look(elapsed) {
                    true => Next::Stop,
                    false => Next::Continue,
                })
            });
            turns(live, clock, &mut emulating)
        })?;
        carriers.end(live);
        Ok((failure, signal))
    }
}

/// The loopback interface is the first one of each network namespace.
const LOOPBACK: u32 = 1;

/// So often nodes are asked what became of them.
const LOOK: Duration = Duration::from_micros(500);

/// How a run between nodes goes on.
struct Course<'a> {
    plan: &'a Nodes<'a>,
    nodes: Vec<Node>,
    outcomes: Vec<NodeOutcome>,
    looked: Duration,
    /// When all other machines were there, and nodes began that others wait for.
    joined: Option<Duration>,
    /// When the nodes began that wait for others.
    began: Option<Duration>,
    trouble: Option<Trouble>,
}

impl<'a> Course<'a> {
    /// Begins with the nodes that others wait for.
    fn new(plan: &'a Nodes<'a>, nodes: Vec<Node>) -> Self {
        Self {
            plan,
            outcomes: vec![NodeOutcome::default(); nodes.len()],
            nodes,
            looked: Duration::ZERO,
            joined: None,
            began: None,
            trouble: None,
        }
        .joining(Duration::ZERO)
    }

    /// Begins once all other machines are there.
    fn joining(mut self, elapsed: Duration) -> Self {
        self.join(elapsed);
        self
    }

    /// The same. A machine that is not there, if one has no more time to come.
    fn join(&mut self, elapsed: Duration) -> Option<Trouble> {
        let is_there = |node: &usize| {
            self.plan.nodes[*node].elsewhere.is_none() || self.outcomes[*node].was_connected
        };
        let Some(missing) = (0..self.nodes.len()).find(|node| !is_there(node)) else {
            let early = self.plan.nodes.iter().zip(&self.nodes);
            let early = early.filter(|(plan, _)| plan.ready.is_some());
            early.for_each(|(_, node)| node.begin());
            self.joined = Some(elapsed);
            return None;
        };
        let outcome = &self.outcomes[missing];
        let has_ended = outcome.end.is_some() || outcome.not_started.is_some();
        let is_late = elapsed > self.plan.ready_wait;
        (has_ended || is_late).then_some(Trouble::Unreached(missing))
    }

    /// Looks after the nodes; whether the run is over.
    fn look(&mut self, elapsed: Duration) -> bool {
        if elapsed - self.looked < LOOK && self.began.is_some() {
            return false;
        }
        self.looked = elapsed;
        (0..self.nodes.len()).for_each(|node| self.take_events(node));
        let Some(joined) = self.joined else {
            self.trouble = self.join(elapsed);
            return self.trouble.is_some();
        };
        let all = 0..self.nodes.len();
        let is_early = |node: &usize| self.plan.nodes[*node].ready.is_some();
        let has_ended = |node: &usize| {
            let outcome = &self.outcomes[*node];
            outcome.end.is_some() || outcome.not_started.is_some()
        };
        let is_awaited = |node: &usize| self.plan.nodes[*node].is_awaited;
        let mut trouble = { all.clone() }
            .find(|node| {
                let outcome = &self.outcomes[*node];
                // A server of one client ends as soon as it has served.
                let is_done = outcome.end.is_some_and(|end| end.status == Some(0));
                let may_end = outcome.was_ready && (is_awaited(node) || is_done);
                let is_needed = is_early(node) && !may_end;
                outcome.not_started.is_some() || is_needed && has_ended(node)
            })
            .map(Trouble::EndedEarly);
        let Some(began) = self.began else {
            let mut waits = all.clone().filter(is_early);
            let late = waits.find(|node| !self.outcomes[*node].was_ready);
            if late.is_none() && trouble.is_none() {
                all.filter(|node| !is_early(node))
                    .for_each(|node| self.nodes[node].begin());
                self.began = Some(elapsed);
                return false;
            }
            let late = late.filter(|_| elapsed - joined > self.plan.ready_wait);
            trouble = trouble.or_else(|| late.map(Trouble::NeverReady));
            self.trouble = trouble;
            return trouble.is_some();
        };
        let left = all.filter(is_awaited).find(|node| !has_ended(node));
        let late = left.filter(|_| elapsed - began > self.plan.timeout);
        // What ends with the last of them has not ended early.
        let trouble = left.and_then(|_| trouble.or_else(|| late.map(Trouble::TimedOut)));
        self.trouble = trouble;
        trouble.is_some() || left.is_none()
    }

    fn take_events(&mut self, node: usize) {
        let outcome = &mut self.outcomes[node];
        while let Some(event) = self.nodes[node].event() {
            match event {
                NodeEvent::Connected => outcome.was_connected = true,
                NodeEvent::Ready => outcome.was_ready = true,
                NodeEvent::Ended(end) => outcome.end = Some(end),
                NodeEvent::NotStarted(error) => outcome.not_started = Some(error),
                NodeEvent::Gone { cpu_ns } => outcome.cpu_ns = Some(cpu_ns),
                NodeEvent::Lost => {
                    outcome.not_started.get_or_insert(0);
                    return;
                }
            }
        }
    }

    /// Ends all, and waits until they have; meanwhile `turn` is called again and again.
    fn end(&mut self, mut turn: impl FnMut()) {
        /// TERM and KILL have three seconds in a node.
        const PATIENCE: Duration = Duration::from_secs(4);
        self.nodes.iter().for_each(Node::end);
        let since = lineside_host::Stopwatch::start();
        let mut left: Vec<usize> = (0..self.nodes.len()).collect();
        while !left.is_empty() && since.elapsed() < PATIENCE {
            turn();
            left.retain(|&node| match self.nodes[node].event() {
                Some(NodeEvent::Gone { cpu_ns }) => {
                    self.outcomes[node].cpu_ns = Some(cpu_ns);
                    false
                }
                Some(NodeEvent::Lost) => false,
                _ => true,
            });
        }
        self.nodes.clear();
    }
}
