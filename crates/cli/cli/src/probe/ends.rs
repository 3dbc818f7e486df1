//! The sockets and clocks of a probe by UDP: the end that asks, and the one that answers.

use std::collections::hash_map::RandomState;
use std::io::ErrorKind;
use std::net::SocketAddr;

use anyhow::{Context, bail};
use lineside_host::{Datagrams, Peer, Sandbox, Signals, monotonic_ns};
use lineside_probe::{Client, Findings, LEN_MAX, Limits, ProbeError, Server, Settings};

use super::flags::Arguments;
use crate::confine;
use crate::exit::Exit;
use crate::print::say;

/// Datagrams that are sent before those that came are looked at: so long that this takes little of
/// the time, and so short that no socket's memory fills meanwhile.
const SEND_MAX: usize = 16;
/// How often a signal is looked for at least.
const LOOK_NS: i64 = 100_000_000;

/// The outcome of a probe.
pub(super) enum Outcome {
    Found(Box<Findings>),
    Failed(ProbeError),
    /// A signal ended it.
    Signal(u8),
}

/// Opens the socket of a probe.
pub(super) fn connect(to: SocketAddr) -> anyhow::Result<Datagrams> {
    Datagrams::connect(to).with_context(|| format!("cannot reach {to}"))
}

/// Probes the path to a server.
pub(super) fn probe(
    (mut socket, to): (Datagrams, SocketAddr),
    settings: Settings,
) -> anyhow::Result<Outcome> {
    let signals = Signals::register().context("cannot handle signals")?;
    let cannot = |what: &str| format!("cannot {what} {to}");
    let mut client = Client::new(settings, monotonic_ns());
    let (mut out, mut buffer) = (Vec::new(), vec![0; LEN_MAX]);
    loop {
        loop {
            match socket.receive(&mut buffer) {
                Ok(Some(datagram)) => client.on_datagram(datagram.at_ns, &buffer[..datagram.len]),
                Ok(None) => break,
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => client.on_closed(),
                Err(error) => return Err(error).with_context(|| cannot("hear from")),
            }
        }
        if let Some(outcome) = client.outcome() {
            return Ok(match outcome {
                Ok(mut found) => {
                    remark_lost(&socket, &mut found);
                    Outcome::Found(Box::new(found))
                }
                Err(error) => Outcome::Failed(error),
            });
        }
        if let Some(signal) = signals.stop() {
            return Ok(Outcome::Signal(signal));
        }
        let mut sent = 0;
        while sent < SEND_MAX && client.transmit(monotonic_ns(), &mut out) {
            sent += 1;
            let Err(error) = socket.send(&out) else {
                continue;
            };
            match error.kind() {
                ErrorKind::ConnectionRefused => client.on_closed(),
                _ if error.raw_os_error() == Some(MESSAGE_TOO_LONG) => {
                    client.on_too_long(monotonic_ns());
                }
                // As a full queue on the way does.
                _ if error.raw_os_error() == Some(NO_BUFFERS) => {}
                _ => return Err(error).with_context(|| cannot("send to")),
            }
        }
        if sent < SEND_MAX
            && let Some(due_ns) = client.next_deadline()
        {
            socket.wait(due_ns.min(monotonic_ns() + LOOK_NS))?;
        }
    }
}

/// EMSGSIZE and ENOBUFS of Linux.
const MESSAGE_TOO_LONG: i32 = 90;
const NO_BUFFERS: i32 = 105;

fn remark_lost(socket: &Datagrams, found: &mut Findings) {
    if socket.lost() > 0 {
        found.remarks.push(format!(
            "{} packets came and found no room at this host's socket, and count as lost: the \
            machine is busy, or net.core.rmem_max too small",
            socket.lost()
        ));
    }
}

/// Answers probes until a signal.
pub(super) fn serve(arguments: &Arguments) -> anyhow::Result<Exit> {
    let address = arguments.serve.flatten();
    let bound = Datagrams::bind(address, arguments.port);
    let mut socket = match bound {
        Ok(socket) => socket,
        Err(error) if error.kind() == ErrorKind::AddrInUse => bail!(
            "UDP port {} is in use: stop what has it, or choose another by --port at both ends",
            arguments.port
        ),
        Err(error) => return Err(error).context("cannot listen for probes"),
    };
    // Whatever comes, it meets no privilege.
    lineside_host::drop_privileges(None, &[])?;
    if let Some(sandbox) = arguments.confining.applied(Sandbox::new()) {
        confine::note(&sandbox.enter()?);
    }
    let signals = Signals::register().context("cannot handle signals")?;
    let default = Limits::default();
    let limits = Limits {
        sessions_max: arguments.sessions.into(),
        download_bytes_max: { arguments.budget }
            .map_or(default.download_bytes_max, |bytes| bytes as u64),
    };
    let mut server: Server<Peer> = Server::new(limits, RandomState::new());
    say(&format!(
        "answering probes at UDP {}; Ctrl-C ends it",
        socket.address()?
    ));
    let (mut out, mut buffer) = (Vec::new(), vec![0; LEN_MAX]);
    while signals.stop().is_none() {
        let mut came = 0;
        // Errors are those of what was sent to others before.
        while let Ok(Some(datagram)) = socket.receive(&mut buffer) {
            server.on_datagram(datagram.at_ns, datagram.peer, &buffer[..datagram.len]);
            came += 1;
            if came == SEND_MAX {
                break;
            }
        }
        let mut sent = 0;
        while sent < SEND_MAX
            && let Some(peer) = server.transmit(monotonic_ns(), &mut out)
        {
            sent += 1;
            // One that cannot be sent is lost, as on the way.
            let _ = socket.answer(&out, &peer);
        }
        if came < SEND_MAX && sent < SEND_MAX {
            let due_ns = server.next_deadline().unwrap_or(i64::MAX);
            socket.wait(due_ns.min(monotonic_ns() + LOOK_NS))?;
        }
    }
    let counters = server.counters();
    say(&format!(
        "{} probes answered, {} refused; {} datagrams of others",
        counters.sessions, counters.refused, counters.foreign
    ));
    if socket.lost() > 0 {
        say(&format!(
            "{} datagrams came and found no room here",
            socket.lost()
        ));
    }
    Ok(Exit::Done)
}
