//! `lineside emulate --server CMD -- CMD`: an emulated link between two commands, each in a network
//! namespace of its own.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use lineside_account::Budget;
use lineside_host::{
    Descendants, NetNamespace, Netlink, Program, Signals, Stopwatch, SystemClock, something_listens,
};
use lineside_path::{LiveLoop, LivePath, Path, loop_facts};
use lineside_port::live::{TapEnd, open_tap};
use lineside_reactor::Wait;
use lineside_time::Clock;

use super::between::Ran;
use super::outside::{Outside, Way};
use crate::Exit;
use crate::config::ConfigError;
use crate::link::control::{Changes, Controlled, make_next, while_controlled};

/// The settings of `--server`, beside the path.
pub(crate) struct Commands<'a> {
    pub(crate) server: &'a str,
    /// The client's command and its arguments.
    pub(crate) client: &'a [String],
    /// How long the client waits until a process listens.
    pub(crate) server_wait: &'a str,
    pub(crate) wait: Wait,
    /// Whether both may reach the networks that this process could.
    pub(crate) is_outside_open: bool,
}

/// The two ends of the link: in network namespaces of their own, so no other host has these
/// addresses.
const SERVER: TapEnd = TapEnd {
    ethernet: [2, 0, 0, 0, 0, 1],
    v4: std::net::Ipv4Addr::new(10, 0, 0, 1),
    v6: std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
};

const CLIENT: TapEnd = TapEnd {
    ethernet: [2, 0, 0, 0, 0, 2],
    v4: std::net::Ipv4Addr::new(10, 0, 0, 2),
    v6: std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
};

/// The name of the interface at both ends.
const INTERFACE: &str = "lineside";

/// Ethernet's.
const MTU: u32 = 1500;

/// Interval of reading the kernel's counts.
const TICK: Duration = Duration::from_secs(1);

/// How long programs have to end after TERM.
const PATIENCE: Duration = Duration::from_secs(2);

/// Interval of checking whether a process listens.
const LOOK: Duration = Duration::from_millis(5);

impl Commands<'_> {
    /// Fails if a command is missing, before anything starts.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let missing = if self.server.trim().is_empty() {
            "the server's command is missing: add --server CMD"
        } else if self.client.is_empty() {
            "the client's command is missing: write it after all flags, as -- CMD"
        } else {
            return self.patience().map(|_| ());
        };
        Err(ConfigError::usage(missing))
    }

    fn patience(&self) -> Result<Duration, ConfigError> {
        if self.server_wait == "0" {
            return Ok(Duration::ZERO);
        }
        let patience = lineside_time::parse_duration(self.server_wait);
        let patience =
            patience.map_err(|error| ConfigError::usage(&format!("server-wait: {error}")))?;
        Ok(Duration::from_nanos(patience))
    }

    /// Runs both until the client ends, and then ends the server.
    pub(crate) fn run(
        &self,
        mut path: Path,
        budget: &Budget,
        controlled: Option<Controlled>,
        signals: &Signals,
        quiet: bool,
    ) -> anyhow::Result<(Ran, Exit)> {
        let way = { self.is_outside_open }.then(Way::find).transpose()?;
        let in_own_namespace = lineside_host::enter_user_namespace()?;
        let open = |here, there| {
            open_tap(
                INTERFACE,
                here,
                there,
                MTU,
                budget,
                budget.limit_bytes() / 8,
            )
        };
        let server_net = NetNamespace::new()?;
        let server_port = open(&SERVER, &CLIENT)?;
        let outside = way.map(|way| way.open(&server_net, CLIENT.v4));
        let mut outside = outside.transpose()?;
        let client_net = NetNamespace::new()?;
        let client_port = open(&CLIENT, &SERVER)?;
        if outside.is_some() {
            let added = Netlink::open().and_then(|netlink| netlink.add_default_route(SERVER.v4));
            added.context("cannot add the client's route to the outside")?;
        }
        if in_own_namespace {
            lineside_host::hand_down_network_rights().context("cannot hand down privileges")?;
        }
        let has_ended = signals.watch_children().context("cannot handle signals")?;
        let all = Descendants::adopt().context("cannot adopt processes")?;
        server_net.enter()?;
        let mut server = self.start_server(outside.as_ref())?;
        self.wait_for(&mut server, signals, quiet)?;
        client_net.enter()?;
        let mut client = self.start_client(outside.as_ref())?;
        if in_own_namespace {
            lineside_host::drop_privileges(None, &[])?;
        }

        let clock = SystemClock::default();
        path.begin(clock.now());
        let sides = [vec![client_port], vec![server_port]];
        let mut live = LivePath::between(path, sides, self.wait, false);
        let (signal, mut failure, status) = while_controlled(controlled, |changes| {
            let programs = [&mut client, &mut server];
            turn(
                &mut live,
                &clock,
                signals,
                changes,
                programs,
                outside.as_mut(),
                &has_ended,
            )
        })?;
        // Frames that the server still sends pass the link.
        all.end(PATIENCE, || {
            if failure.is_none()
                && let Err(error) = live.turn(&mut || clock.now())
            {
                failure = Some(error.into());
            }
        });
        live.ports_mut().for_each(|port| port.account());
        let facts: Vec<_> = live.ports().flat_map(lineside_port::Port::facts).collect();
        let mut inputs: Vec<_> = facts.into_iter().map(lineside_run::input_facts).collect();
        for (input, name) in inputs.iter_mut().zip(["client", "server"]) {
            input.name = name.to_owned();
        }
        let ran = Ran {
            certificate: live.engine().path().certificate("wall clock"),
            facts: loop_facts(&live),
            inputs,
            signal,
            failure,
            tapped: None,
        };
        let exit = match (signal, status) {
            (Some(signal), _) => Exit::Signal(signal),
            (None, Some(status)) => exit(status),
            (None, None) => Exit::Failure,
        };
        Ok((ran, exit))
    }

    fn start_server(&self, outside: Option<&Outside>) -> anyhow::Result<Program> {
        let mut command = Command::new("sh");
        command.arg("-c").arg(self.server).stdin(Stdio::null());
        // Standard output is the client's.
        command.stdout(std::io::stderr());
        addresses(&mut command, outside);
        Program::start(&mut command, true).context("cannot start the server's shell")
    }

    fn start_client(&self, outside: Option<&Outside>) -> anyhow::Result<Program> {
        let (program, arguments) = self.client.split_first().context("checked before")?;
        let mut command = Command::new(program);
        command.args(arguments);
        addresses(&mut command, outside);
        Program::start(&mut command, false)
            .with_context(|| format!("cannot start the client '{program}'"))
    }

    /// Waits until a process listens at the server.
    fn wait_for(&self, server: &mut Program, signals: &Signals, quiet: bool) -> anyhow::Result<()> {
        let (patience, since) = (self.patience()?, Stopwatch::start());
        let mut looks = 0;
        while !something_listens() {
            if let Some(status) = server.ended()? {
                anyhow::bail!(
                    "the server ended before the client began: {status}; it must keep running, in \
                    the foreground: '{}'",
                    self.server
                );
            }
            if since.elapsed() >= patience || signals.stop().is_some() {
                if !quiet && !patience.is_zero() {
                    eprintln!(
                        "lineside: warning: nothing listens at the server after {}: the client \
                        starts anyway (--server-wait)",
                        self.server_wait
                    );
                }
                break;
            }
            looks += 1;
            since.wait_until(LOOK * looks);
        }
        Ok(())
    }
}

/// Turns the loop until the client has ended; returns the signal, the failure that ended it, and
/// the client's status.
fn turn(
    live: &mut LiveLoop,
    clock: &SystemClock,
    signals: &Signals,
    changes: &Changes,
    [client, server]: [&mut Program; 2],
    mut outside: Option<&mut Outside>,
    has_ended: &AtomicBool,
) -> anyhow::Result<(Option<u8>, Option<anyhow::Error>, Option<ExitStatus>)> {
    let mut now = || clock.now();
    let (stopwatch, mut ticked) = (Stopwatch::start(), Duration::ZERO);
    let (mut signal, mut failure, mut status) = (None, None, None);
    let mut server_runs = true;
    while status.is_none() {
        if let Err(error) = live.turn(&mut now) {
            failure = Some(error.into());
            break;
        }
        if has_ended.swap(false, Ordering::SeqCst) {
            if let Some(outside) = &mut outside {
                outside.look();
            }
            status = client.ended()?;
            if server_runs && let Some(status) = server.ended()? {
                server_runs = false;
                eprintln!("lineside: warning: the server ended before the client: {status}");
            }
        }
        if signal.is_none() {
            signal = signals.stop();
            if signal.is_some() {
                // A terminal sends the signal to the client too; other senders do not.
                client.terminate();
            }
        }
        make_next(changes, live, clock);
        let elapsed = stopwatch.elapsed();
        if elapsed - ticked >= TICK {
            ticked = elapsed;
            live.ports_mut().for_each(|port| port.account());
        }
    }
    Ok((signal, failure, status))
}

/// Both ends' addresses, for commands to name.
fn addresses(command: &mut Command, outside: Option<&Outside>) {
    if let Some(outside) = outside {
        command.env("LINESIDE_OUTSIDE", outside.host.to_string());
    }
    command
        .env("LINESIDE_SERVER", SERVER.v4.to_string())
        .env("LINESIDE_CLIENT", CLIENT.v4.to_string())
        .env("LINESIDE_SERVER6", SERVER.v6.to_string())
        .env("LINESIDE_CLIENT6", CLIENT.v6.to_string());
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(0), _) => Exit::Done,
        (Some(code), _) => Exit::Program(code as u8),
        (None, Some(signal)) => Exit::Signal(signal as u8),
        (None, None) => Exit::Failure,
    }
}
