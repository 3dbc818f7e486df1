//! An emulated link between two commands, each in a network namespace of its own, or between one
//! command and all else.
//!
//! Namespaces, programs and the way outside are those of `lineside-host`, the two ends of the link
//! are devices of `lineside-port`. Here is the order in which they begin and end.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lineside_account::Budget;
use lineside_host::{
    Capability, Descendants, Ender, NetNamespace, Netlink, Program, Readiness, RunClock, Sandbox,
    Signals, Uplink, UplinkError, UplinkPlan,
};
use lineside_link::State;
use lineside_port::live::{EndOptions, LinkEnd, StampClock, open_end, open_loopback};
use lineside_port::{LivePort, PortError};
use lineside_reactor::{TapPort, Tapped, Wait};
use lineside_run::Record;
use lineside_run::control::while_controlled;
use lineside_run::live::{Next, turns};
use lineside_time::Clock;

use super::carrier::Carriers;
use super::tapping::while_tapped;
use super::turns::Emulating;
use super::{Controlled, EmulationError, Event, Outcome, Tapping};
use crate::{LiveLoop, LivePath, Path};

/// A run between two commands, or of the client's alone, beside its path.
pub struct Commands<'a> {
    /// The server's command, for a shell; without one there is only what is outside.
    pub server: Option<&'a str>,
    /// The client's command and its arguments.
    pub client: &'a [String],
    /// How long the client waits until something listens.
    pub server_wait: Duration,
    /// How the loop waits.
    pub wait: Wait,
    /// Whether both may reach what this process could.
    pub outside: Way,
    /// Whether what the client sends to its own loopback addresses passes the link too.
    pub passes_loopback: bool,
    /// Whether the client's interface has no address: its program has a stack of its own.
    pub is_bare: bool,
    /// The budget of the run.
    pub budget: &'a Budget,
    /// What holds once the programs run, before there is a thread or the first frame.
    pub sandbox: Option<Sandbox>,
    /// The signals that end the run.
    pub signals: &'a Signals,
}

/// The outcome of a run, the client's status, and what the thread beside the loop came to.
type Ran<T> = (Outcome, Option<ExitStatus>, Option<std::thread::Result<T>>);

/// The failure that ended the loop, the signal that came, and the client's status.
type Turned = (Option<PortError>, Option<u8>, Option<ExitStatus>);

/// Whether there is a way outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// There is none.
    Closed,
    /// There is one, unless this user cannot have it: then what the client sends to itself passes
    /// the link.
    IfPossible,
    /// There has to be one.
    Open,
}

/// The server's end of the link: in a network of its own, where nothing else has these addresses.
pub const SERVER: LinkEnd = LinkEnd {
    ethernet: [2, 0, 0, 0, 0, 1],
    v4: Ipv4Addr::new(10, 0, 0, 1),
    v6: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
};

/// The client's end.
pub const CLIENT: LinkEnd = LinkEnd {
    ethernet: [2, 0, 0, 0, 0, 2],
    v4: Ipv4Addr::new(10, 0, 0, 2),
    v6: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
};

/// The name of both ends' interface.
pub const INTERFACE: &str = "lineside";

/// Ethernet's.
pub(super) const MTU: u32 = 1500;

/// Why the carrier of an end cannot go.
pub(super) const NO_CARRIER: &str = "the devices are veth pairs: let this user open /dev/net/tun, 'sudo chmod \
                          666 /dev/net/tun'";

/// How long programs have to end after TERM.
const PATIENCE: Duration = Duration::from_secs(2);

/// The two networks, with the ports between which the path is.
struct Networks {
    server: NetNamespace,
    client: NetNamespace,
    /// The client's first; with its loopback interface each has two.
    sides: [Vec<Box<dyn LivePort>>; 2],
    /// A socket in the client's network.
    client_netlink: Option<Netlink>,
    outside: Option<Uplink>,
    /// Whether what the client sends to its own loopback addresses passes the link too.
    passes_loopback: bool,
    /// Whether they are in a user namespace of this process's own.
    is_in_own_namespace: bool,
}

/// The two programs.
struct Programs {
    /// Until it has ended.
    server: Option<Program>,
    client: Program,
    outside: Option<Uplink>,
    /// Set when a child has ended.
    has_ended: Arc<AtomicBool>,
}

/// Fails if a link of the path takes the carrier away and a port cannot.
pub(super) fn check_carriers(
    path: &Path,
    sides: &mut [Vec<Box<dyn LivePort>>],
) -> Result<(), EmulationError> {
    let mut states = path.sides().map(|side| path.link(side).settings().state);
    let mut sides = sides.iter_mut();
    if states.any(State::takes_carrier)
        && !sides.all(|ports| ports.iter_mut().any(|port| port.set_carrier(true)))
    {
        return Err(EmulationError::Carrier(format!(
            "the carrier cannot go: {NO_CARRIER}"
        )));
    }
    Ok(())
}

impl Commands<'_> {
    /// Runs both. When the client ends, so does the run, and then the server; the client's status
    /// is the second result, `None` if the run ended first. `tapping` takes copies of frames, in a
    /// thread of its own; its result is the third one.
    pub fn run<T: Send>(
        &self,
        mut path: Path,
        controlled: Option<Controlled>,
        tapping: Option<Tapping<impl FnOnce(TapPort, Vec<u16>) -> T + Send>>,
        record: &mut Record,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<Ran<T>, EmulationError> {
        self.signals.shield();
        let clock = RunClock::start();
        let mut networks = self.open_networks(clock, on_event)?;
        // Before a program runs.
        check_carriers(&path, &mut networks.sides)?;
        if networks.is_in_own_namespace {
            lineside_host::hand_down_network_rights()
                .map_err(EmulationError::system("cannot hand down privileges"))?;
        }
        let has_ended = { self.signals.watch_children() }
            .map_err(EmulationError::system("cannot handle signals"))?;
        let all = self.ender().and_then(Descendants::adopt);
        let all = all.map_err(EmulationError::system("cannot adopt processes"))?;
        networks.server.enter()?;
        let server = { self.server }.map(|command| {
            let mut server = start_server(command, networks.outside.as_ref())?;
            self.wait_for(&mut server, command, on_event)?;
            Ok::<_, EmulationError>(server)
        });
        let server = server.transpose()?;
        networks.client.enter()?;
        let client = self.start_client(networks.outside.as_ref())?;
        confine(
            self.sandbox.as_ref(),
            networks.is_in_own_namespace,
            record,
            on_event,
        )?;
        let mut programs = Programs {
            server,
            client,
            outside: networks.outside,
            has_ended,
        };

        path.begin(clock.now());
        let mut live = LivePath::between(path, networks.sides.into(), self.wait, false);
        let record: &Record = record;
        let start = |_: &mut LiveLoop| Ok(record.start()?);
        let ran = while_tapped(&mut live, tapping, self.budget, start, |live, ()| {
            let (programs, beside) = ((&mut programs, all.ender()), (controlled, record));
            let (mut failure, signal, status) =
                self.turn(live, &clock, beside, programs, on_event)?;
            // Frames that the server still sends pass the path.
            all.end(PATIENCE, || {
                if failure.is_none() {
                    failure = live.turn(&mut || clock.now()).err();
                }
            });
            live.engine_mut().set_tap(None);
            Ok::<_, EmulationError>((outcome(live, signal, failure), status))
        });
        let (ran, taken) = ran?;
        let (mut outcome, status) = ran?;
        if !networks.passes_loopback {
            outcome.beside = networks.client_netlink.and_then(loopback_frames);
        }
        Ok((outcome, status, taken))
    }

    /// What ends the programs: in a sandbox, this process sends no signal. To be started before
    /// processes are adopted, so that it is none of those.
    fn ender(&self) -> std::io::Result<Ender> {
        match &self.sandbox {
            Some(_) => Ender::start(),
            None => Ok(Ender::default()),
        }
    }

    /// Turns the loop until the client has ended.
    fn turn(
        &self,
        live: &mut LiveLoop,
        clock: &RunClock,
        (controlled, record): (Option<Controlled>, &Record),
        (programs, ender): (&mut Programs, &Ender),
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<Turned, EmulationError> {
        let (mut signal, mut status) = (None, None);
        let mut carriers = Carriers::new(live, None, &["client", "server"], NO_CARRIER);
        let failure = while_controlled(controlled, |asked| {
            let mut emulating = Emulating::new(asked, &mut carriers, record, |_, _| {
                status = programs.look(on_event)?;
                if signal.is_none() {
                    signal = self.signals.stop();
                    if signal.is_some() {
                        // From a terminal it came to the client too; from elsewhere it did not.
                        programs.client.terminate(ender);
                    }
                }
                Ok(match status {
                    None if !self.signals.is_urgent() => Next::Continue,
                    // All that still runs is ended afterwards.
                    _ => Next::Stop,
                })
            });
            turns(live, clock, &mut emulating)
        })?;
        carriers.end(live);
        Ok((failure, signal, status))
    }

    /// Makes both networks and the link between them. Leaves this thread in the client's.
    fn open_networks(
        &self,
        clock: RunClock,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<Networks, EmulationError> {
        let plan = self.plan_outside(on_event)?;
        let is_in_own_namespace = lineside_host::enter_user_namespace()?;
        let options = EndOptions {
            mtu: MTU,
            clock: StampClock::Steady {
                ahead_ns: clock.ahead_ns(),
            },
            budget: self.budget,
            bytes_max: self.budget.limit_bytes() / 8,
        };
        let server = NetNamespace::new()?;
        let server_port = open_end(INTERFACE, &SERVER, &[CLIENT], &options)?;
        let opened = plan.map(|plan| plan.open(&server, CLIENT.v4));
        let outside = opened.map(|opened| self.unless_needed(opened, on_event));
        let outside = outside.transpose()?.flatten();
        // To whoever asks for loopback, what is beyond this host does not matter.
        let warnings = { outside.iter() }.filter(|_| !self.passes_loopback);
        let warnings = warnings.flat_map(|outside| &outside.warnings);
        warnings.for_each(|warning| on_event(Event::Warning(warning.clone())));
        let client = NetNamespace::new()?;
        let peers: &[_] = if self.is_bare { &[] } else { &[SERVER] };
        let client_port = open_end(INTERFACE, &CLIENT, peers, &options)?;
        if outside.is_some() {
            let added = Netlink::open().and_then(|netlink| netlink.add_default_route(SERVER.v4));
            added.map_err(EmulationError::system(
                "cannot add the client's route to the outside",
            ))?;
        }
        let mut sides = [vec![client_port], vec![server_port]];
        let falls_back = self.outside == Way::IfPossible && outside.is_none();
        let passes_loopback = self.passes_loopback || falls_back;
        if passes_loopback {
            let ports = open_loopback(&options)?;
            { sides.iter_mut().zip(ports) }.for_each(|(side, port)| side.push(port));
        }
        Ok(Networks {
            server,
            client,
            sides,
            client_netlink: Netlink::open().ok(),
            outside,
            passes_loopback,
            is_in_own_namespace,
        })
    }

    /// Finds out which way outside there is, if one is wanted.
    fn plan_outside(
        &self,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<Option<UplinkPlan>, EmulationError> {
        if self.outside == Way::Closed {
            return Ok(None);
        }
        self.unless_needed(UplinkPlan::find(), on_event)
    }

    /// What there is of a way outside; without one the run goes on if that is not needed.
    fn unless_needed<T>(
        &self,
        found: Result<T, UplinkError>,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<Option<T>, EmulationError> {
        match found {
            Err(error) if self.outside == Way::IfPossible => {
                on_event(match self.passes_loopback {
                    true => Event::Advice(format!("nothing outside is reachable: {error}")),
                    false => Event::Warning(format!(
                        "{error}: nothing outside is reachable, and the link is where the command \
                         talks to itself, at 127.0.0.1 and ::1, as with --loopback"
                    )),
                });
                Ok(None)
            }
            found => Ok(Some(found?)),
        }
    }

    fn start_client(&self, outside: Option<&Uplink>) -> Result<Program, EmulationError> {
        let (program, arguments) = self.client.split_first().expect("a command has a name");
        let mut command = Command::new(program);
        command.args(arguments);
        set_addresses(&mut command, outside);
        Program::start(&mut command, false).map_err(|cause| EmulationError::Client {
            program: program.clone(),
            cause,
        })
    }

    /// Waits until something listens at the server.
    fn wait_for(
        &self,
        server: &mut Program,
        command: &str,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), EmulationError> {
        let is_stopped = || self.signals.stop().is_some();
        match server.wait_for_listener(self.server_wait, is_stopped)? {
            Readiness::Ended(status) => Err(EmulationError::ServerEnded {
                status,
                command: command.to_owned(),
            }),
            Readiness::Late => {
                on_event(Event::NothingListens(self.server_wait));
                Ok(())
            }
            Readiness::Listens => Ok(()),
        }
    }
}

impl Programs {
    /// Looks at each once a child has ended; the client's status, if it has.
    fn look(
        &mut self,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<Option<ExitStatus>, EmulationError> {
        if !self.has_ended.swap(false, Ordering::SeqCst) {
            return Ok(None);
        }
        if let Some(status) = self.outside.as_mut().and_then(Uplink::ended) {
            on_event(Event::OutsideEnded(status));
        }
        let status = self.client.ended()?;
        if let Some(server) = &mut self.server
            && let Some(status) = server.ended()?
        {
            self.server = None;
            on_event(Event::ServerEnded(status));
        }
        Ok(status)
    }
}

/// Gives up what the programs that run by now needed, and enters the sandbox.
pub(super) fn confine(
    sandbox: Option<&Sandbox>,
    is_in_own_namespace: bool,
    record: &mut Record,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<(), EmulationError> {
    if is_in_own_namespace {
        lineside_host::drop_privileges(None, &[])?;
    } else {
        // The folder may be another's, and the programs may have become other users.
        let kept = [Capability::DacOverride, Capability::Kill];
        let kept = match sandbox {
            Some(_) => &kept[..1],
            None => &kept[..],
        };
        lineside_host::keep_capabilities(kept)?;
    }
    if let Some(sandbox) = sandbox.cloned() {
        let confined = sandbox.may_ask_about_links().enter()?;
        record.on_confined(&confined);
        on_event(Event::Confined(&confined));
    }
    Ok(())
}

/// The outcome of the run, whose ports are named after the commands.
fn outcome(live: &mut LiveLoop, signal: Option<u8>, failure: Option<PortError>) -> Outcome {
    let mut outcome = Outcome::of(live, signal, failure);
    let loopback = outcome.inputs.len() > 2;
    let names: &[_] = match loopback {
        true => &["client", "loopback", "server"],
        false => &["client", "server"],
    };
    for (input, name) in outcome.inputs.iter_mut().zip(names) {
        input.name = (*name).to_owned();
    }
    outcome
}

/// Frames that passed the loopback interface of the network in which the socket was opened.
fn loopback_frames(netlink: Netlink) -> Option<u64> {
    let link = netlink.link_named("lo").ok()?;
    link.stats.map(|stats| stats.rx_packets)
}

fn start_server(server: &str, outside: Option<&Uplink>) -> Result<Program, EmulationError> {
    let mut command = Command::new("sh");
    command.arg("-c").arg(server).stdin(Stdio::null());
    // Standard output is the client's.
    command.stdout(std::io::stderr());
    set_addresses(&mut command, outside);
    Program::start(&mut command, true)
        .map_err(EmulationError::system("cannot start the server's shell"))
}

/// Gives a command both ends' addresses in its environment.
fn set_addresses(command: &mut Command, outside: Option<&Uplink>) {
    if let Some(outside) = outside {
        command.env("LINESIDE_OUTSIDE", outside.host.to_string());
    }
    command
        .env("LINESIDE_SERVER", SERVER.v4.to_string())
        .env("LINESIDE_CLIENT", CLIENT.v4.to_string())
        .env("LINESIDE_SERVER6", SERVER.v6.to_string())
        .env("LINESIDE_CLIENT6", CLIENT.v6.to_string());
}
