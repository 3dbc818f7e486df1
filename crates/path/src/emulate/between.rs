//! An emulated link between interfaces, two or as many as a core stands between: ports, privileges,
//! the tap's thread and the end.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use lineside_account::Budget;
use lineside_host::{Capability, Privileges, RunClock, RunFolder, Signals};
use lineside_port::live::{Interface, LiveOptions, StampClock, open_each};
use lineside_port::{LivePort, Method, Port, PortError};
use lineside_reactor::{TapPort, Wait};
use lineside_time::Clock;

use super::control::while_controlled;
use super::tapping::while_tapped;
use super::turns::{Next, turns};
use super::{Controlled, EmulationError, Event, Outcome, Tapping};
use crate::{LiveLoop, LivePath, Path, below_floor};

/// A run between interfaces, beside its path.
pub struct Between<'a> {
    /// One for each port of the path; of two the inside first.
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
    /// The signals that end the run.
    pub signals: &'a Signals,
}

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
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<(Outcome, Option<std::thread::Result<T>>), EmulationError> {
        let clock = RunClock::start();
        let sides = self.interfaces.iter();
        let sides = sides.map(|interface| self.open(interface, clock));
        let sides = sides.collect::<Result<_, PortError>>()?;
        let file = self.file.as_ref().map(AsFd::as_fd);
        lineside_host::drop_privileges(self.folder, file.as_slice())?;
        path.begin(clock.now());
        let mut live = LivePath::between(path, sides, self.wait, self.completes_checksums);
        // Between two ports nothing passes once one of them has failed.
        live.outlive(2);
        let facts: Vec<_> = live.ports().flat_map(Port::facts).collect();
        on_event(Event::Listening(&facts));
        let warnings = self.host_warnings(&live).into_iter();
        warnings.for_each(|warning| on_event(Event::Advice(warning)));
        let addresses = self.interfaces.iter();
        let addresses: Vec<_> = addresses.map(|each| each.hardware_address).collect();
        let (outcome, taken) = while_tapped(&mut live, tapping, self.budget, |live| {
            live.calibrate(&addresses, &mut || clock.now())?;
            report_floor(live, on_event);
            self.turn(live, &clock, controlled, on_event)
        })?;
        Ok((outcome?, taken))
    }

    /// A port for each queue of an interface.
    fn open(
        &self,
        interface: &Interface,
        clock: RunClock,
    ) -> Result<Vec<Box<dyn LivePort>>, PortError> {
        let options = LiveOptions {
            method: self.method,
            sockets: 1,
            promiscuous: true,
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
        for (side, interface) in self.interfaces.iter().enumerate() {
            let name = &interface.name;
            let method = live.method(side);
            let is_packet = method == Some(Method::AfPacket);
            if let Some(address) = interface.addresses.first() {
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
        controlled: Option<Controlled>,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<Outcome, EmulationError> {
        let (mut signal, mut gone) = (None, 0);
        let failure = while_controlled(controlled, |changes| {
            turns(live, clock, changes, |live, elapsed| {
                for side in &live.gone()[gone..] {
                    let name = &self.interfaces[side.side].name;
                    on_event(Event::Warning(format!(
                        "{name} takes no further part, the other ports go on: {}",
                        side.why
                    )));
                }
                gone = live.gone().len();
                signal = self.signals.stop();
                let is_over = self.duration.is_some_and(|duration| elapsed >= duration);
                Ok(match signal.is_some() || is_over {
                    true => Next::Drain,
                    false => Next::Continue,
                })
            })
        })?;
        live.engine_mut().set_tap(None);
        Ok(Outcome::of(live, signal, failure))
    }
}

/// Reports the time that a frame takes at least, and delays that are shorter than that.
fn report_floor(live: &LiveLoop, on_event: &mut dyn FnMut(Event<'_>)) {
    let Some(calibration) = live.facts().calibration else {
        return;
    };
    let us = |ns: i64| ns as f64 / 1e3;
    on_event(Event::Note(format!(
        "a frame takes {:.1} us at least (99 %: {:.1} us) once the loop has seen it, found by {}",
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
