//! `emulate --server … --outside`: a way from the server's network to all networks that this
//! process could reach, and through the server's and the link for the client.

use std::io::{PipeWriter, Write};
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use lineside_host::{Masquerade, NetNamespace, Netlink, Program, Stopwatch};

use crate::config::ConfigError;

/// The interface in the server's network.
const NAME: &str = "outside";

/// From the network reserved for tests of devices (RFC 2544), which no host should use: four
/// addresses for each run.
const NETWORK: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);

const NETWORKS: u32 = 1 << 14;

const PREFIX_LEN: u8 = 30;

/// How long pasta may take to make the interface.
const PATIENCE: Duration = Duration::from_secs(5);

/// The means of reaching outside, prepared while this process is still in its original network.
pub(crate) enum Way {
    /// With privileges: a veth pair to this network.
    Veth(NetNamespace),
    /// Without: `pasta`, which waits in this network for a line of input.
    Pasta { waiting: Program, go: PipeWriter },
}

/// The way out; dropping it removes it.
pub(crate) struct Outside {
    /// The address at which this host is reached.
    pub(crate) host: Ipv4Addr,
    pasta: Option<Program>,
    _masquerades: Vec<Masquerade>,
}

/// The address of the host, and the server's own beside it.
fn addresses(network: u32) -> [Ipv4Addr; 2] {
    let first = NETWORK.to_bits() + network % NETWORKS * 4;
    [first + 1, first + 2].map(Ipv4Addr::from_bits)
}

impl Way {
    /// Called before this process enters a namespace.
    pub(crate) fn find() -> anyhow::Result<Self> {
        if lineside_host::may_make_network_namespaces() {
            return Ok(Self::Veth(NetNamespace::current()?));
        }
        let folders = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&folders).any(|folder| folder.join("pasta").is_file()) {
            return Err(ConfigError::usage(
                "--outside needs 'pasta' (package passt), which is not in PATH, or root",
            )
            .into());
        }
        let [host, own] = addresses(0);
        let (reader, go) = std::io::pipe()?;
        let mut command = Command::new("sh");
        // No ports are forwarded, but packets sent to `host` reach this host's loopback.
        let script = format!(
            "read -r go && exec pasta --foreground --quiet --ipv4-only --config-net --ns-ifname {NAME} --address {own} --netmask {PREFIX_LEN} \
             --gateway {host} --tcp-ports none --udp-ports none --tcp-ns none --udp-ns none {}",
            std::process::id()
        );
        command.args(["-c", &script]).stdin(reader);
        let waiting = Program::start(&mut command, true).context("cannot start a shell")?;
        Ok(Self::Pasta { waiting, go })
    }

    /// Opens it; called by a thread in the server's network. `client` may use it too.
    pub(crate) fn open(self, server: &NetNamespace, client: Ipv4Addr) -> anyhow::Result<Outside> {
        let mut masquerades = vec![];
        let (host, pasta) = match self {
            Self::Veth(caller) => {
                let (host, there) = veth(&caller, server).context("cannot make a way outside")?;
                masquerades.extend(there);
                (host, None)
            }
            Self::Pasta {
                mut waiting,
                mut go,
            } => {
                go.write_all(b"go\n").context("cannot start pasta")?;
                wait_for_route(&mut waiting)?;
                (addresses(0)[0], Some(waiting))
            }
        };
        forward("all").context("cannot enable forwarding in the server's network")?;
        let masquerade = Masquerade::new(client);
        masquerades.push(masquerade.context("cannot masquerade the client (nf_tables)")?);
        Ok(Outside {
            host,
            pasta,
            _masquerades: masquerades,
        })
    }
}

impl Outside {
    /// Warns if it has ended.
    pub(crate) fn look(&mut self) {
        if let Some(pasta) = &mut self.pasta
            && let Ok(Some(status)) = pasta.ended()
        {
            eprintln!("lineside: warning: pasta ended, nothing outside is reachable: {status}");
            self.pasta = None;
        }
    }
}

/// A pair of devices between the caller's network and the server's: the host's address, and its
/// masquerading.
fn veth(
    caller: &NetNamespace,
    server: &NetNamespace,
) -> anyhow::Result<(Ipv4Addr, Option<Masquerade>)> {
    use std::os::fd::AsFd;
    // At most 15 bytes, as process ids are below 2^22.
    let name = format!("lineside{}", std::process::id());
    let inside = Netlink::open()?;
    inside.add_veth(NAME, &name, caller.as_fd())?;
    caller.enter()?;
    let netlink = Netlink::open()?;
    let index = netlink.link_named(&name)?.index;
    let [host, own] = addresses(index);
    netlink.add_address(index, host.into(), PREFIX_LEN)?;
    netlink.switch_on(index)?;
    forward(&name)?;
    let forwards = std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward");
    if forwards.is_ok_and(|text| text.trim() == "0") {
        eprintln!(
            "lineside: warning: this host does not forward, so nothing beyond it is reachable: \
            'sysctl net.ipv4.ip_forward=1', and '=0' afterwards"
        );
    }
    let masquerade = match Masquerade::new(own) {
        Ok(masquerade) => Some(masquerade),
        Err(error) => {
            eprintln!(
                "lineside: warning: this host cannot masquerade, so hosts beyond it need a route \
                to {own}: {error}"
            );
            None
        }
    };
    server.enter()?;
    let index = inside.link_named(NAME)?.index;
    inside.add_address(index, own.into(), PREFIX_LEN)?;
    inside.switch_on(index)?;
    inside.add_default_route(host)?;
    Ok((host, masquerade))
}

/// Waits until pasta has made its interface and the route to it.
fn wait_for_route(pasta: &mut Program) -> anyhow::Result<()> {
    let (since, mut looks) = (Stopwatch::start(), 0);
    let has_route = || {
        // Interface, destination: 0 is everywhere (proc(5)).
        let table = std::fs::read_to_string("/proc/thread-self/net/route").unwrap_or_default();
        table
            .lines()
            .any(|line| line.split_whitespace().take(2).eq([NAME, "00000000"]))
    };
    while !has_route() {
        if let Some(status) = pasta.ended()? {
            bail!("pasta ended before there was a way outside: {status}");
        }
        if since.elapsed() > PATIENCE {
            bail!("pasta has made no way outside within {PATIENCE:?}");
        }
        looks += 1;
        since.wait_until(Duration::from_millis(5) * looks);
    }
    Ok(())
}

/// Enables forwarding from an interface, or from all, in the network of this thread.
fn forward(name: &str) -> std::io::Result<()> {
    std::fs::write(format!("/proc/sys/net/ipv4/conf/{name}/forwarding"), "1")
}
