//! A way from a network namespace of this process to all that the process could reach, for
//! `emulate --server … --outside`: from the server's network, and through it for the client.
//!
//! With privileges it is a veth pair and masquerading; without, it is `pasta` (package passt).
//! Nothing is printed here: warnings are in [`Uplink::warnings`].

use std::io::{self, PipeWriter, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use crate::clock::Stopwatch;
use crate::masquerade::Masquerade;
use crate::namespaces::{NamespaceError, NetNamespace, may_make_network_namespaces};
use crate::netlink::Netlink;
use crate::programs::Program;
use crate::tun::{TunError, open_tun};

/// The interface in the server's network.
const NAME: &str = "outside";

/// Addresses of the networks for tests of devices (RFC 2544 appendix C.2.2), which no host should
/// have: four for each run.
const NETWORK: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);

const NETWORKS: u32 = 1 << 14;

const PREFIX_LEN: u8 = 30;

/// How long pasta may take to make the interface.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no way outside.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UplinkError {
    /// Neither the privileges nor the program are there.
    #[error("a way outside needs 'pasta' (package passt), which is not in PATH, or root")]
    NoPasta,
    /// `pasta` cannot make its device.
    #[error("pasta, which would make a way outside, makes a TAP device: {0}")]
    NoTap(TunError),
    /// pasta ended too early.
    #[error("pasta ended before there was a way outside: {0}")]
    PastaEnded(ExitStatus),
    /// pasta took too long.
    #[error("pasta has made no way outside within {PATIENCE:?}")]
    PastaSlow,
    /// A network namespace cannot be opened or entered.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The operating system refused something else.
    #[error("{what}: {cause}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        cause: io::Error,
    },
}

impl UplinkError {
    fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::System { what, cause }
    }
}

/// The first half of a way outside, made while this process is still in its first namespaces.
#[derive(Debug)]
pub struct UplinkPlan(Plan);

#[derive(Debug)]
enum Plan {
    /// The process has the privileges: a veth pair to this network.
    Veth(NetNamespace),
    /// A shell in this network that becomes `pasta` when a line is written to `go`.
    Pasta { waiting: Program, go: PipeWriter },
}

/// A way outside. It is gone when this is dropped.
#[derive(Debug)]
pub struct Uplink {
    /// The address at which the host that this runs on is reached.
    pub host: Ipv4Addr,
    /// What a user should know of it.
    pub warnings: Vec<String>,
    pasta: Option<Program>,
    _masquerades: Vec<Masquerade>,
}

/// The address of the host, and the server's own beside it.
fn addresses(network: u32) -> [Ipv4Addr; 2] {
    let first = NETWORK.to_bits() + network % NETWORKS * 4;
    [first + 1, first + 2].map(Ipv4Addr::from_bits)
}

impl UplinkPlan {
    /// Finds out which way there is. Call it before this process enters a namespace.
    pub fn find() -> Result<Self, UplinkError> {
        if may_make_network_namespaces() {
            return Ok(Self(Plan::Veth(NetNamespace::current()?)));
        }
        let folders = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&folders).any(|folder| folder.join("pasta").is_file()) {
            return Err(UplinkError::NoPasta);
        }
        open_tun().map_err(UplinkError::NoTap)?;
        let [host, own] = addresses(0);
        let failed = UplinkError::system("cannot make a pipe");
        let (reader, go) = io::pipe().map_err(failed)?;
        let mut command = Command::new("sh");
        // No ports are forwarded, but what is sent to `host` goes to this host's loopback.
        let script = format!(
            "read -r go && exec pasta --foreground --quiet --ipv4-only --config-net \
             --ns-ifname {NAME} --address {own} --netmask {PREFIX_LEN} --gateway {host} \
             --tcp-ports none --udp-ports none --tcp-ns none --udp-ns none {}",
            std::process::id()
        );
        command.args(["-c", &script]).stdin(reader);
        let waiting = Program::start(&mut command, true);
        let waiting = waiting.map_err(UplinkError::system("cannot start a shell"))?;
        Ok(Self(Plan::Pasta { waiting, go }))
    }

    /// Opens the way in the network namespace `server`, which the calling thread is in; frames
    /// from `client` may take it too.
    pub fn open(self, server: &NetNamespace, client: Ipv4Addr) -> Result<Uplink, UplinkError> {
        let system = UplinkError::system;
        let mut outside = match self.0 {
            Plan::Veth(caller) => veth(&caller, server)?,
            Plan::Pasta {
                mut waiting,
                mut go,
            } => {
                go.write_all(b"go\n")
                    .map_err(system("cannot start pasta"))?;
                wait_for_route(&mut waiting)?;
                Uplink {
                    host: addresses(0)[0],
                    warnings: Vec::new(),
                    pasta: Some(waiting),
                    _masquerades: Vec::new(),
                }
            }
        };
        forward("all").map_err(system("cannot enable forwarding in the server's network"))?;
        let masquerade =
            Masquerade::new(client).map_err(system("cannot masquerade the client (nf_tables)"))?;
        outside._masquerades.push(masquerade);
        Ok(outside)
    }
}

impl Uplink {
    /// How `pasta` ended, once, if it did: nothing outside is reachable any more.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.pasta.as_mut()?.ended().ok()??;
        self.pasta = None;
        Some(status)
    }
}

/// Connects the caller's network and the server's by a pair of devices.
fn veth(caller: &NetNamespace, server: &NetNamespace) -> Result<Uplink, UplinkError> {
    let system = || UplinkError::system("cannot make a way outside");
    // At most 15 bytes, as process ids are below 2^22.
    let name = format!("lineside{}", std::process::id());
    let inside = Netlink::open().map_err(system())?;
    let added = inside.add_veth(NAME, &name, caller.as_fd());
    added.map_err(system())?;
    caller.enter()?;
    let (host, own) = open_outer_end(&name).map_err(system())?;
    let mut warnings = Vec::new();
    let forwards = std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward");
    if forwards.is_ok_and(|text| text.trim() == "0") {
        warnings.push(
            "this host does not forward, so nothing beyond it is reachable: \
             'sysctl net.ipv4.ip_forward=1', and '=0' afterwards"
                .to_owned(),
        );
    }
    let masquerade = Masquerade::new(own);
    if let Err(error) = &masquerade {
        warnings.push(format!(
            "this host cannot masquerade, so hosts beyond it need a route to {own}: {error}"
        ));
    }
    server.enter()?;
    open_inner_end(&inside, own, host).map_err(system())?;
    Ok(Uplink {
        host,
        warnings,
        pasta: None,
        _masquerades: masquerade.into_iter().collect(),
    })
}

/// Sets up the end in the caller's network: its address, and that of the other end.
fn open_outer_end(name: &str) -> io::Result<(Ipv4Addr, Ipv4Addr)> {
    let netlink = Netlink::open()?;
    let index = netlink.link_named(name)?.index;
    let [host, own] = addresses(index);
    netlink.add_address(index, host.into(), PREFIX_LEN)?;
    netlink.switch_on(index)?;
    forward(name)?;
    Ok((host, own))
}

/// Sets up the end in the server's network, with the route to everything.
fn open_inner_end(inside: &Netlink, own: Ipv4Addr, gateway: Ipv4Addr) -> io::Result<()> {
    let index = inside.link_named(NAME)?.index;
    inside.add_address(index, own.into(), PREFIX_LEN)?;
    inside.switch_on(index)?;
    inside.add_default_route(gateway)
}

/// Waits until pasta has made its interface and the route to it.
fn wait_for_route(pasta: &mut Program) -> Result<(), UplinkError> {
    let (since, mut looks) = (Stopwatch::start(), 0);
    let has_route = || {
        // Interface, destination: 0 is everywhere (proc(5)).
        let table = std::fs::read_to_string("/proc/thread-self/net/route").unwrap_or_default();
        table
            .lines()
            .any(|line| line.split_whitespace().take(2).eq([NAME, "00000000"]))
    };
    while !has_route() {
        let ended = pasta.ended();
        if let Some(status) = ended.map_err(UplinkError::system("cannot wait for pasta"))? {
            return Err(UplinkError::PastaEnded(status));
        }
        if since.elapsed() > PATIENCE {
            return Err(UplinkError::PastaSlow);
        }
        looks += 1;
        since.wait_until(Duration::from_millis(5) * looks);
    }
    Ok(())
}

/// Turns on forwarding from an interface, or from all, in the network of this thread.
fn forward(name: &str) -> io::Result<()> {
    crate::kernel::set(format!("/proc/sys/net/ipv4/conf/{name}/forwarding"), "1")
}
