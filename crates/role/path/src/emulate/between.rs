//! An emulated link between interfaces, two or as many as a core stands between, or between this
//! host and one: ports, privileges, the tap's thread and the end.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use lineside_account::Budget;
use lineside_host::{
    Capability, LinkSwitch, Privileges, RunClock, Sandbox, ServiceManager, Signals,
};
use lineside_link::State;
use lineside_port::live::{EndOptions, Interface, LiveOptions, StampClock, open_each};
use lineside_port::{LivePort, Method, Port, PortError};
use lineside_reactor::{TapPort, Tapped, Wait};
use lineside_run::Record;
use lineside_run::control::while_controlled;
use lineside_run::live::{GoneSides, Next, turns};
use lineside_store::RunFolder;
use lineside_time::Clock;
use lineside_words::signed_time;

use super::carrier::Carriers;
use super::tapping::while_tapped;
use super::turns::Emulating;
use super::{Controlled, EmulationError, Event, HostEnd, Outcome, Tapping};
use crate::{LiveLoop, LivePath, Path, below_floor};

/// A run between interfaces, beside its path.
pub struct Between<'a> {
    /// This host's own stack, which is the inside then, in front of the only interface.
    pub host: Option<HostEnd>,
    /// One for each other port of the path; of two the inside first.
    pub interfaces: Vec<Interface>,
    /// `None`: AF_XDP, or AF_PACKET where that is not available.
    pub method: Option<Method>,
    /// How the loop waits.
    pub wait: Wait,
    /// Whether the loop finishes checksums that a sender left to its adapter.
    pub completes_checksums: bool,
    /// Ends the run; without it, a signal does.
    pub duration: Option<Duration>,
    /// The budget of the run.
    pub budget: &'a Budget,
    /// The run's folder: it is given to the user that remains once privileges are dropped.
    pub folder: Option<&'a RunFolder>,
    /// A file that is given to that user too.
    pub file: Option<OwnedFd>,
    /// What holds from then on, before there is a thread or the first frame.
    pub sandbox: Option<Sandbox>,
    /// The signals that end the run.
    pub signals: &'a Signals,
}

type PortsBySide = Vec<Vec<Box<dyn LivePort>>>;

/// Finds interfaces by their names, once it is sure that this process may open them.
pub fn open_interfaces(
    names: &[String],
    method: Option<Method>,
) -> Result<Vec<Interface>, EmulationError> {
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

impl Between<'_> {
    /// Emulates until a signal, the end of the time, or an error; then lets frames under way leave.
    /// `tapping` takes copies of frames, in a thread of its own; its result is the second one.
    pub fn run<T: Send>(
        &self,
        mut path: Path,
        controlled: Option<Controlled>,
        tapping: Option<Tapping<impl FnOnce(TapPort, Vec<u16>) -> T + Send>>,
        record: &mut Record,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<(Outcome, Option<std::thread::Result<T>>), EmulationError> {
        let clock = RunClock::start();
        let manager = ServiceManager::from_environment();
        // First: it must hold nothing that is to go with this process.
        let switch = self.start_switch(&path, controlled.is_some())?;
        let (sides, warnings) = self.open_sides(clock)?;
        let file = self.file.as_ref().map(AsFd::as_fd);
        lineside_host::drop_privileges(self.folder.map(|it| it as _), file.as_slice())?;
        if let Some(sandbox) = self.sandbox.clone() {
            let confined = sandbox.may_ask_about_links().enter()?;
            record.on_confined(&confined);
            on_event(Event::Confined(&confined));
        }
        path.begin(clock.now());
        let mut live = LivePath::between(path, sides, self.wait, self.completes_checksums);
        // Between two ports nothing passes once one of them has failed.
        live.outlive(2);
        let facts: Vec<_> = live.ports().flat_map(Port::facts).collect();
        on_event(Event::Listening(&facts));
        let warnings = warnings.into_iter().chain(self.host_warnings(&live));
        warnings.for_each(|warning| on_event(Event::Advice(warning)));
        // What would be sent into the host itself measures no interface.
        let host = self.host.iter().map(|_| None);
        let others = self.interfaces.iter().map(|each| each.hardware_address);
        let addresses: Vec<_> = host.chain(others).collect();
        let record: &Record = record;
        let start = |live: &mut LiveLoop| {
            live.calibrate(&addresses, &mut || clock.now())?;
            let carriers = self.carriers(live, switch)?;
            record.start()?;
            Ok(carriers)
        };
        let ran = while_tapped(&mut live, tapping, self.budget, start, |live, carriers| {
            let beside = (controlled, carriers, record);
            self.turn(live, &clock, &manager, beside, on_event)
        });
        let (outcome, taken) = ran?;
        Ok((outcome?, taken))
    }

    /// The ports of each side, and what the user should know of them.
    fn open_sides(&self, clock: RunClock) -> Result<(PortsBySide, Vec<String>), PortError> {
        let options = EndOptions {
            mtu: 0,
            clock: StampClock::Steady {
                ahead_ns: clock.ahead_ns(),
            },
            budget: self.budget,
            bytes_max: self.budget.limit_bytes() / 8,
        };
        let host = { &self.host }.as_ref().map(|host| host.open(options));
        let host = host.transpose()?;
        let device = host.as_ref().map(|opened| opened.name.clone());
        let mut sides: Vec<_> = { host.into_iter() }
            .map(|opened| vec![opened.port])
            .collect();
        for interface in &self.interfaces {
            sides.push(self.open(interface, clock)?);
        }
        // Last: what the host sends from now on waits for the loop.
        let led = { self.host.as_ref().zip(device) }.map(|(host, device)| host.lead(&device));
        Ok((sides, led.transpose()?.unwrap_or_default()))
    }

    /// The process that takes carriers away, if one is to go, or may be asked to go.
    fn start_switch(
        &self,
        path: &Path,
        is_controlled: bool,
    ) -> Result<Option<LinkSwitch>, EmulationError> {
        let mut states = path.sides().map(|side| path.link(side).settings().state);
        let mut steps = (1..=path.steps().len()).map(|number| path.step(number));
        let is_wanted = states.any(State::takes_carrier) || steps.any(|step| step.takes_carrier());
        let privileges = Privileges::read()?;
        let may = is_wanted || is_controlled && privileges.holds(Capability::NetAdmin);
        // Nothing of this host's own interface is changed.
        if self.host.is_some() || !may {
            return Ok(None);
        }
        privileges.require(&[Capability::NetAdmin])?;
        let links = self.interfaces.iter().map(|interface| interface.index);
        let links: Vec<_> = links.collect();
        Ok(Some(LinkSwitch::start(&links)?))
    }

    /// The carriers of all sides, if they can follow the settings.
    fn carriers(
        &self,
        live: &mut LiveLoop,
        switch: Option<LinkSwitch>,
    ) -> Result<Carriers, EmulationError> {
        let why = match self.host {
            Some(_) => "nothing of this host's own interface is changed: leave 'carrier' out",
            None => "the run began without CAP_NET_ADMIN: begin it as root",
        };
        let names = (0..live.sides()).map(|side| self.name(side));
        let names: Vec<_> = names.collect();
        let carriers = Carriers::new(live, switch, &names, why);
        match carriers.obstacle(live.engine().path()) {
            Some(why) => Err(EmulationError::Carrier(why)),
            None => Ok(carriers),
        }
    }

    /// The name of a side.
    fn name(&self, side: usize) -> &str {
        match self.interface_of(side) {
            Some(interface) => &interface.name,
            None => HostEnd::NAME,
        }
    }

    /// The interface of a side, unless that is the host itself.
    fn interface_of(&self, side: usize) -> Option<&Interface> {
        let place = side.checked_sub(usize::from(self.host.is_some()))?;
        self.interfaces.get(place)
    }

    /// A port for each queue of an interface.
    fn open(
        &self,
        interface: &Interface,
        clock: RunClock,
    ) -> Result<Vec<Box<dyn LivePort>>, PortError> {
        let options = LiveOptions {
            method: match &self.host {
                // Never by AF_PACKET: the host would receive what it is to receive late.
                Some(_) => Some(self.method.unwrap_or(Method::AfXdpNative)),
                None => self.method,
            },
            sockets: 1,
            steering: None,
            flows: None,
            transmit_max: None,
            // The host has the interface take what is for it.
            promiscuous: self.host.is_none(),
            filter: Vec::new(),
            clock: StampClock::Steady {
                ahead_ns: clock.ahead_ns(),
            },
            budget: self.budget.clone(),
            bytes_max: self.budget.limit_bytes() / 8,
        };
        open_each(interface, &options)
    }

    /// Warnings of what the host does with the frames of the interfaces.
    fn host_warnings(&self, live: &LiveLoop) -> Vec<String> {
        let mut warnings = Vec::new();
        for side in 0..live.sides() {
            let Some(interface) = self.interface_of(side) else {
                continue;
            };
            let name = &interface.name;
            let method = live.method(side);
            let is_packet = method == Some(Method::AfPacket);
            if let Some(address) = interface.addresses.first()
                && self.host.is_none()
            {
                warnings.push(match is_packet {
                    true => format!(
                        "the host has the address {address} at {name}: with AF_PACKET the host \
                         receives the frames too, and answers those addressed to it"
                    ),
                    false => format!(
                        "the host has the address {address} at {name}: the host is unreachable \
                         there while this runs"
                    ),
                });
            }
            if let Some(master) = { &interface.master }.as_ref().filter(|_| is_packet) {
                warnings.push(format!(
                    "{name} belongs to {master}, which passes the frames on as well: 'ip link set \
                     {name} nomaster'"
                ));
            }
            if method != Some(Method::AfXdpNative) && interface.joins_frames() {
                warnings.push(format!(
                    "{name} joins frames of a stream on receive, and the joined ones \
                     are too long for the other side: 'ethtool -K {name} gro off', and 'ethtool -K \
                     {name} gro on' afterwards"
                ));
            }
        }
        warnings
    }

    /// Turns the loop until the end.
    fn turn(
        &self,
        live: &mut LiveLoop,
        clock: &RunClock,
        manager: &ServiceManager,
        (controlled, mut carriers, record): (Option<Controlled>, Carriers, &Record),
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<Outcome, EmulationError> {
        report_floor(live, on_event);
        let (mut signal, mut gone, mut began) = (None, GoneSides::default(), Duration::ZERO);
        manager.ready();
        let failure = while_controlled(controlled, |asked| {
            let mut emulating = Emulating::new(asked, &mut carriers, record, |live, elapsed| {
                let warnings = gone.warnings(live.gone(), |side| self.name(side));
                warnings.for_each(|warning| on_event(Event::Warning(warning)));
                signal = self.signals.stop();
                manager.beat_with_status(elapsed, || status(live.engine().path()));
                if live.engine().path().waits() {
                    began = elapsed;
                }
                let elapsed = elapsed - began;
                let is_over = self.duration.is_some_and(|duration| elapsed >= duration);
                Ok(match signal.is_some() || is_over {
                    true => Next::Drain,
                    false => Next::Continue,
                })
            });
            turns(live, clock, &mut emulating)
        })?;
        manager.stopping();
        let failures = carriers.end(live).into_iter();
        failures.for_each(|why| on_event(Event::Warning(why)));
        live.engine_mut().set_tap(None);
        let mut outcome = Outcome::of(live, signal, failure);
        if let (Some(_), Some(input)) = (&self.host, outcome.inputs.first_mut()) {
            HostEnd::NAME.clone_into(&mut input.name);
        }
        Ok(outcome)
    }
}

/// How it goes, for the service manager.
fn status(path: &Path) -> String {
    let counters = path.sides().map(|side| path.link(side).counters());
    let counters: Vec<_> = counters.collect();
    let came: u64 = counters.iter().map(|link| link.entered).sum();
    let left: u64 = counters.iter().map(|link| link.released).sum();
    format!("{came} frames came, {left} left, {} are held", path.held())
}

/// Reports the time that a frame takes at least, and delays that are shorter than that.
fn report_floor(live: &LiveLoop, on_event: &mut dyn FnMut(Event<'_>)) {
    let Some(calibration) = live.facts().calibration else {
        return;
    };
    let us = |ns: i64| signed_time(ns as f64);
    on_event(Event::Note(format!(
        "a frame takes {} at least (p99 {}) once the loop has seen it, found by {}",
        us(calibration.floor_ns),
        us(calibration.turn.p99_ns + calibration.send.p99_ns),
        calibration.method
    )));
    let path = live.engine().path();
    for side in path.sides() {
        if let Some(warning) = below_floor(live, side) {
            on_event(Event::Advice(format!("{}: {warning}", path.name(side))));
        }
    }
}
