//! A run of a forwarder: ports, privileges, the loop turn after turn, and the end.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use lineside_account::Budget;
use lineside_balancer::{Nat, Settings};
use lineside_host::{
    Capability, Confined, Netlink, Privileges, RunClock, Sandbox, ServiceManager, Signals,
};
use lineside_port::live::{
    AddressBlock, FlowTable, Interface, LiveOptions, StampClock, Steering, open_all,
};
use lineside_port::{Facts, LivePort, Method, Port, PortError};
use lineside_reactor::{Reactor, TapPoints, TapPort, Wait};
use lineside_run::Record;
use lineside_run::control::while_controlled;
use lineside_run::live::{self, ClockSet, Live, Next, TICK, turns, while_tapped};
use lineside_store::RunFolder;
use lineside_time::{Clock, Nanoseconds};

use crate::driver::Driver;
use crate::outcome::{certificate, judge};
use crate::payloads::Payloads;
use crate::requests::{Asked, Controlled};
use crate::table::TableFile;
use crate::{ForwardError, Forwarder, Outcome, PayloadSettings};

/// A step of the course.
const TICK_NS: Nanoseconds = TICK.as_nanos() as Nanoseconds;

/// What a flow takes in the driver's table.
const FLOW_BYTES: usize = 512;

/// A run between interfaces.
pub struct Forward<'a> {
    /// The ports, in the order in which [`Settings::ports`] has them.
    pub interfaces: Vec<Interface>,
    /// Services, addresses, limits.
    pub settings: Settings,
    /// `None`: AF_XDP, or AF_PACKET where that is not available.
    pub method: Option<Method>,
    /// Whether the driver forwards flows that are decided.
    pub by_driver: ByDriver,
    /// How payloads are kept; then the driver forwards nothing. `None`: every frame leaves at once,
    /// from where it lies.
    pub payloads: Option<PayloadSettings>,
    /// How the loop waits.
    pub wait: Wait,
    /// Ends the run; without it, a signal does.
    pub duration: Option<Duration>,
    /// The table of an earlier run: where it was, and what it is.
    pub resumed: Option<(String, Vec<u8>)>,
    /// Keeps the table in the folder, for a run that resumes this one.
    pub table: Option<TableFile>,
    /// The budget of the run.
    pub budget: &'a Budget,
    /// The run's folder: it is given to the user that remains once privileges are dropped.
    pub folder: Option<&'a RunFolder>,
    /// What holds once everything is open, before there is a thread or the first frame.
    pub sandbox: Option<Sandbox>,
    /// The signals that end the run.
    pub signals: &'a Signals,
}

/// What a run has open before it begins.
pub struct Opened {
    clock: RunClock,
    nat: Nat,
    payloads: Option<Payloads>,
    flows: Option<(FlowTable, u32)>,
    sides: Vec<Vec<Box<dyn LivePort>>>,
}

/// Whether the driver forwards flows that are decided, past the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByDriver {
    /// Where all ports are by native AF_XDP.
    IfPossible,
    /// It is an error if it cannot.
    Always,
    /// All frames pass the loop.
    Never,
}

/// What a user should know while a run goes on.
#[derive(Debug)]
pub enum Event<'a> {
    /// The ports are open, and forwarding begins.
    Listening(&'a [&'a Facts]),
    /// The run is in its sandbox.
    Confined(&'a Confined),
    /// A sentence about settings or the host that may be as intended.
    Advice(String),
    /// Something is wrong.
    Warning(String),
}

/// Takes the frames of a run, in a thread of its own.
pub type Tapping<'t> = Box<dyn FnOnce(TapPort) + Send + 't>;

type Loop = Reactor<Forwarder>;

/// Finds interfaces by their names, once it is sure that this process may open them.
pub fn interfaces(
    names: &[String],
    method: Option<Method>,
) -> Result<Vec<Interface>, ForwardError> {
    // Without the others, AF_XDP is refused, and AF_PACKET is taken if that is allowed.
    let needed: &[Capability] = match method {
        Some(Method::AfXdpNative | Method::AfXdpGeneric) => {
            &[Capability::NetRaw, Capability::NetAdmin, Capability::Bpf]
        }
        _ => &[Capability::NetRaw],
    };
    Privileges::read()?.require(needed)?;
    let named = names.iter().map(|name| Interface::named(name));
    Ok(named.collect::<Result<_, PortError>>()?)
}

impl Forward<'_> {
    /// Opens the ports. A run that cannot do that writes nothing into its folder: the table that it
    /// was to take over may be there.
    pub fn open(&self) -> Result<Opened, ForwardError> {
        self.check_host()?;
        let clock = RunClock::start();
        let nat = Nat::new(self.settings.clone(), self.budget)?;
        let payloads = self.payloads()?;
        let flows = self.flows()?;
        let options = self.options(clock, flows.as_ref().map(|(flows, _)| flows.clone()));
        let wanted: Vec<_> = { self.interfaces.iter() }
            .map(|interface| (interface, &options))
            .collect();
        let sides = open_all(&wanted)?;
        self.check_methods(&sides)?;
        Ok(Opened {
            clock,
            nat,
            payloads,
            flows,
            sides,
        })
    }

    /// Forwards until a signal, the end of the time, or an error: an interface that goes is one.
    /// Whoever manages the service begins the next run, once the interface is back. `tapping` takes
    /// copies of the frames that come and leave.
    pub fn run(
        mut self,
        opened: Opened,
        controlled: Option<Controlled>,
        tapping: Option<Tapping<'_>>,
        record: &mut Record,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<Outcome, ForwardError> {
        let Opened {
            clock,
            mut nat,
            payloads,
            flows,
            sides,
        } = opened;
        let manager = ServiceManager::from_environment();
        self.confine(flows.is_some(), record, on_event)?;
        if let Some((path, bytes)) = self.resumed.take() {
            let restored = nat.restore(clock.now(), &bytes);
            let count = restored.map_err(|why| ForwardError::Restore { path, why })?;
            on_event(Event::Advice(format!("{count} connections taken over")));
        }
        let names = self.interfaces.iter().map(|each| each.name.clone());
        let by_driver = |ports: &Vec<Box<dyn LivePort>>| {
            let facts = ports.iter().flat_map(|port| port.facts());
            let mut methods = facts.filter_map(|facts| Some(facts.live.as_ref()?.method));
            methods.all(|method| method == Method::AfXdpNative)
        };
        let indexes = self.interfaces.iter().map(|each| each.index).collect();
        let flows = flows.filter(|_| sides.iter().all(by_driver));
        let ports = &self.settings.ports;
        let driver = flows.and_then(|flows| Driver::new(flows, indexes, ports, self.budget));
        let forwarder = Forwarder::new(nat, names.collect(), driver, payloads);
        let mut live = Reactor::new(forwarder, sides, self.wait, false);
        let facts: Vec<_> = live.ports().flat_map(Port::facts).collect();
        on_event(Event::Listening(&facts));
        for warning in self.warnings(&live) {
            on_event(Event::Advice(warning));
        }
        let tapping = tapping.map(|take| live::Tapping {
            points: TapPoints {
                came: Some(usize::MAX),
                left: Some(usize::MAX),
                dropped: None,
            },
            take,
        });
        let record: &Record = record;
        let start = |_: &mut Loop| record.start().map_err(ForwardError::from);
        let ran = while_tapped(&mut live, tapping, self.budget, start, |live, ()| {
            while_controlled(controlled, |asked| {
                self.turns(live, (&clock, &manager), (asked, record), on_event)
            })
        });
        let (outcome, taken) = ran?;
        if let Some(Err(panic)) = taken {
            std::panic::resume_unwind(panic);
        }
        Ok(outcome)
    }

    /// Drops what the open ports needed, and enters the sandbox.
    fn confine(
        &mut self,
        has_flows: bool,
        record: &mut Record,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), ForwardError> {
        let files = self.table.as_ref().map(TableFile::descriptors);
        let files = files.as_ref().map_or(&[][..], |files| &files[..]);
        lineside_host::drop_privileges(self.folder.map(|it| it as _), files)?;
        let Some(sandbox) = self.sandbox.take() else {
            return Ok(());
        };
        let sandbox = sandbox.may_ask_about_links();
        // The flows that the driver forwards are in such maps.
        let sandbox = match has_flows {
            true => sandbox.may_use_open_maps(),
            false => sandbox,
        };
        let confined = sandbox.enter()?;
        record.on_confined(&confined);
        on_event(Event::Confined(&confined));
        Ok(())
    }

    /// The addresses that are the forwarder's own.
    fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let services = self.settings.services.iter();
        let virtual_ones = services.map(|service| service.address.ip());
        virtual_ones.chain(self.settings.nat.iter().copied())
    }

    fn keeps_clients(&self) -> bool {
        let mut services = self.settings.services.iter();
        services.any(|service| service.keeps_client)
    }

    /// Fails if the host itself would answer for an address, or would get none of its own frames.
    fn check_host(&self) -> Result<(), ForwardError> {
        let read = Netlink::open().and_then(|netlink| netlink.addresses());
        let of_host = read.map_err(|cause| ForwardError::System {
            what: "read this host's addresses".to_owned(),
            cause,
        })?;
        for address in self.addresses() {
            if of_host.iter().any(|&(_, of_host)| of_host == address) {
                return Err(ForwardError::Host(format!(
                    "this host has the address {address} and would answer for it: choose one that \
                     no host has, or take it away with 'ip address del'"
                )));
            }
        }
        let addressed = { self.interfaces.iter() }.find(|each| !each.addresses.is_empty());
        match addressed.filter(|_| self.keeps_clients()) {
            None => Ok(()),
            Some(interface) => Err(ForwardError::Host(format!(
                "a service keeps its clients' addresses, so that every frame at {} is the \
                 forwarder's, and the host has {} there: take an interface without an address, or \
                 leave keep-client out",
                interface.name, interface.addresses[0]
            ))),
        }
    }

    /// Fails if the host's kernel sees the same frames and forwards them too.
    fn check_methods(&self, sides: &[Vec<Box<dyn LivePort>>]) -> Result<(), ForwardError> {
        let forwards = |file: &str| {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            text.trim() == "1"
        };
        let keys = [
            ("net.ipv4.ip_forward", "/proc/sys/net/ipv4/ip_forward"),
            (
                "net.ipv6.conf.all.forwarding",
                "/proc/sys/net/ipv6/conf/all/forwarding",
            ),
        ];
        for (interface, ports) in self.interfaces.iter().zip(sides) {
            let facts = ports.iter().flat_map(|port| port.facts());
            let mut methods = facts.filter_map(|facts| Some(facts.live.as_ref()?.method));
            if !methods.any(|method| method == Method::AfPacket) {
                continue;
            }
            if let Some((key, _)) = keys.iter().find(|(_, file)| forwards(file)) {
                return Err(ForwardError::Host(format!(
                    "{key} is 1 and {} is read by AF_PACKET: this host would forward the same \
                     frames as well; 'sysctl {key}=0', or take AF_XDP",
                    interface.name
                )));
            }
        }
        Ok(())
    }

    /// The driver's table of flows and how many it is for, if it is wanted and can be had.
    fn flows(&self) -> Result<Option<(FlowTable, u32)>, PortError> {
        let never = self.by_driver == ByDriver::Never || self.payloads.is_some();
        if never || self.method == Some(Method::AfPacket) {
            return Ok(None);
        }
        // Both directions of each connection, in a quarter of the memory.
        let most = (self.budget.limit_bytes() / 4 / FLOW_BYTES) as u32;
        let wanted = self.settings.connections_max.saturating_mul(2).min(most);
        match FlowTable::new(wanted, self.budget) {
            Ok(flows) => Ok(Some((flows, wanted))),
            Err(_) if self.by_driver == ByDriver::IfPossible => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// How each interface is opened.
    fn options(&self, clock: RunClock, flows: Option<FlowTable>) -> LiveOptions {
        let blocks: std::collections::BTreeSet<IpAddr> = self.addresses().collect();
        let blocks = blocks.into_iter().map(AddressBlock::from).collect();
        LiveOptions {
            method: self.method,
            sockets: 1,
            steering: (!self.keeps_clients()).then_some(Steering::Addresses(blocks)),
            transmit_max: None,
            promiscuous: false,
            filter: Vec::new(),
            flows,
            clock: StampClock::Steady {
                ahead_ns: clock.ahead_ns(),
            },
            budget: self.budget.clone(),
            bytes_max: self.port_bytes(),
        }
    }

    /// What each port has of the budget.
    fn port_bytes(&self) -> usize {
        self.budget.limit_bytes() / 4 / self.interfaces.len()
    }

    /// The queue in which payloads are kept, if it is wanted.
    fn payloads(&self) -> Result<Option<Payloads>, ForwardError> {
        const HEADERS_LEN: usize = 18;
        let Some(settings) = self.payloads else {
            return Ok(None);
        };
        let (wanted, most) = (settings.cache_bytes, self.port_bytes());
        if wanted > most as u64 {
            return Err(ForwardError::Host(format!(
                "a cache of {wanted} bytes does not fit the memory of a port, which has {most} \
                 bytes of the budget: raise --memory, or lower --cache"
            )));
        }
        let mtus = self.settings.ports.iter().map(|port| port.mtu as usize);
        let longest = mtus.max().unwrap_or_default() + HEADERS_LEN;
        Payloads::new(settings, longest, self.budget).map(Some)
    }

    /// Warnings of what the host does with the frames of the interfaces.
    fn warnings(&self, live: &Loop) -> Vec<String> {
        let mut warnings = Vec::new();
        for (side, interface) in self.interfaces.iter().enumerate() {
            let name = &interface.name;
            if live.method(side) != Some(Method::AfXdpNative) && interface.joins_frames() {
                warnings.push(format!(
                    "{name} joins frames of a stream on receive, and the joined ones are too long \
                     for the other side: 'ethtool -K {name} gro off'"
                ));
            }
            if !interface.is_running {
                warnings.push(format!(
                    "{name} has no carrier: nothing is at its other end"
                ));
            }
        }
        warnings
    }

    /// Turns the loop until the end.
    fn turns(
        &self,
        live: &mut Loop,
        (clock, manager): (&RunClock, &ServiceManager),
        (asked, record): (Receiver<Asked>, &Record),
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Outcome {
        let began = clock.now();
        if self.by_driver == ByDriver::Always && live.engine().driver().is_none() {
            let why = "the driver forwards nothing: not every port is by native AF_XDP";
            on_event(Event::Warning(why.to_owned()));
        }
        live.engine_mut()
            .with_nat(|nat, effects| nat.begin(began, effects));
        live.engine_mut().begin_course(began, TICK_NS);
        manager.ready();
        let mut forwarding = Forwarding {
            forward: self,
            clock,
            manager,
            asked,
            record,
            began,
            signal: None,
        };
        let Ok(failure) = turns(live, clock, &mut forwarding);
        manager.stopping();
        let signal = forwarding.signal;
        self.outcome(live, clock, began, (signal, failure))
    }

    /// Reads the kernel's counts a last time, keeps the table, and reports.
    fn outcome(
        &self,
        live: &mut Loop,
        clock: &RunClock,
        began: Nanoseconds,
        (signal, failure): (Option<u8>, Option<PortError>),
    ) -> Outcome {
        live.ports_mut().for_each(|port| port.account());
        let ended = clock.now();
        live.engine_mut().on_course(ended);
        let mut certificate = certificate(live, began, ended);
        let unkept = { self.table.as_ref() }.and_then(|it| it.end(live.engine().nat(), ended));
        let failures = { failure.iter().map(ToString::to_string) }.chain(unkept);
        judge(&mut certificate, live, failures);
        let facts = live.ports().flat_map(Port::facts);
        Outcome {
            certificate,
            inputs: facts.map(lineside_run::input_facts).collect(),
            signal,
            failure,
        }
    }
}

/// A forwarder in its loop.
struct Forwarding<'a> {
    forward: &'a Forward<'a>,
    clock: &'a RunClock,
    manager: &'a ServiceManager,
    asked: Receiver<Asked>,
    record: &'a Record,
    began: Nanoseconds,
    signal: Option<u8>,
}

impl Live for Forwarding<'_> {
    type Engine = Forwarder;
    type Error = Infallible;

    const DRAIN: Duration = Duration::from_millis(100);

    fn answer(&mut self, live: &mut Loop, clock: &impl Clock) {
        if let Ok(asked) = self.asked.try_recv() {
            answer(asked, live, (self.began, clock.now()));
        }
    }

    fn watch(&mut self, live: &mut Loop, _now: Nanoseconds, set: Option<ClockSet>) {
        if let Some(set) = set {
            live.engine_mut().set_wall_ahead(set.ahead_ns);
        }
        if let Some(table) = &self.forward.table {
            table.keep(live.engine().nat(), || self.clock.now());
        }
    }

    fn is_tick(&self, _live: &Loop, _now: Nanoseconds, since: Duration) -> bool {
        since >= TICK
    }

    fn on_tick(&mut self, live: &mut Loop, now: Nanoseconds) {
        live.engine_mut().on_course(now);
        let elapsed = Duration::from_nanos((now - self.began).max(0).cast_unsigned());
        self.record.keep(now, elapsed, |verdict| {
            let mut certificate = certificate(live, self.began, now);
            certificate.verdict = verdict;
            certificate
        });
    }

    fn next(&mut self, live: &mut Loop, elapsed: Duration) -> Result<Next, Infallible> {
        self.signal = self.forward.signals.stop();
        self.manager
            .beat_with_status(elapsed, || status(live.engine()));
        let is_over = { self.forward.duration }.is_some_and(|duration| elapsed >= duration);
        Ok(match self.signal.is_some() || is_over {
            true => Next::Drain,
            false => Next::Continue,
        })
    }
}

/// How it goes, for the service manager.
fn status(forwarder: &Forwarder) -> String {
    let came: u64 = forwarder.passed().iter().map(|port| port.came).sum();
    let left: u64 = forwarder.passed().iter().map(|port| port.left).sum();
    format!("{came} frames came to the loop, {left} left")
}

/// Does what is asked, between two turns. Whoever asked may have gone meanwhile.
fn answer(asked: Asked, live: &mut Loop, (began, now): (Nanoseconds, Nanoseconds)) {
    match asked {
        Asked::Change { change, answer } => {
            let forwarder = live.engine_mut();
            let done = forwarder.with_nat(|nat, effects| nat.apply(now, &change, effects));
            let _ = answer.send(done.map_err(|error| error.to_string()));
        }
        Asked::Stats { answer } => {
            let stats = serde_json::to_value(certificate(live, began, now));
            let _ = answer.send(stats.map_err(|error| error.to_string()));
        }
        Asked::Explain {
            client,
            service,
            answer,
        } => {
            let explained = live.engine().nat().explain(client, service);
            let _ = answer.send(explained.map_err(|error| error.to_string()));
        }
    }
}
