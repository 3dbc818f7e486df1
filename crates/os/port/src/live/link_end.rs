//! The ends of an emulated link in network namespaces of this process's own: a device with which
//! programs there talk to the port that is its other side.
//!
//! The device is a TAP device, or where those cannot be had one end of a veth pair, whose other end
//! is in a namespace where no program is. Both give whole frames: none longer than the MTU, all
//! checksums computed.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;

use lineside_host::{NamespaceError, NetNamespace, Netlink, TunError, open_tun};

use super::{EndOptions, Interface, LiveOptions, ethtool, tap, tpacket_v3};
use crate::{LivePort, Method, PortError};

/// The loopback interface is the first one of each network namespace.
pub(super) const LOOPBACK: u32 = 1;

/// The name of a veth pair's other end.
const OTHER_END: &str = "other-end";

/// One end of a link between two hosts: its addresses, with networks of 24 and 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkEnd {
    /// The Ethernet address.
    pub ethernet: [u8; 6],
    /// The IPv4 address.
    pub v4: Ipv4Addr,
    /// The IPv6 address; left away where the kernel has none.
    pub v6: Ipv6Addr,
}

/// Makes a device in this network namespace, with the addresses `here`, and switches it and the
/// loopback interface on.
///
/// The addresses of the other ends, one or behind a switch more, are entered permanently: they are
/// never asked for, so that no frame passes but what the hosts' own programs send. Without another
/// end the device has no address of IP: a program there has a stack of its own. The device goes
/// when the port is dropped.
pub fn open_end(
    name: &str,
    here: &LinkEnd,
    there: &[LinkEnd],
    options: &EndOptions<'_>,
) -> Result<Box<dyn LivePort>, PortError> {
    let port = open_device(name, options)?;
    let made = Netlink::open().and_then(|netlink| {
        let index = netlink.link_named(name)?.index;
        set_up(&netlink, index, here, there, options.mtu)
    });
    made.map_err(|cause| PortError::Interface {
        name: name.to_owned(),
        action: "set up",
        cause,
    })?;
    Ok(port)
}

/// Makes a TAP device in this network namespace, switched off and without an address.
pub fn open_tap(name: &str, options: &EndOptions<'_>) -> Result<Box<dyn LivePort>, PortError> {
    let file = open_tun().map_err(|cause| PortError::Interface {
        name: name.to_owned(),
        action: "make the TAP device",
        cause: io::Error::other(cause),
    })?;
    tap::open(name, options, file)
}

/// Makes a device that is switched off and has no address.
pub(super) fn open_device(
    name: &str,
    options: &EndOptions<'_>,
) -> Result<Box<dyn LivePort>, PortError> {
    match open_tun() {
        Ok(file) => tap::open(name, options, file),
        Err(tun) => open_veth(name, options, &tun).map_err(|veth| PortError::LinkEnd {
            tun,
            veth: Box::new(veth),
        }),
    }
}

/// Makes a veth pair. `why` there is no TAP device.
fn open_veth(
    name: &str,
    options: &EndOptions<'_>,
    why: &TunError,
) -> Result<Box<dyn LivePort>, PortError> {
    let failed = |action| {
        move |cause: io::Error| PortError::Interface {
            name: name.to_owned(),
            action,
            cause,
        }
    };
    let entered = |error: NamespaceError| failed("find a namespace for")(io::Error::other(error));
    let home = NetNamespace::current().map_err(entered)?;
    // The port's socket keeps it.
    NetNamespace::new().map_err(entered)?;
    make_pair(name, &home, options.mtu).map_err(failed("make the veth pair of"))?;
    let options = LiveOptions {
        method: Some(Method::AfPacket),
        sockets: 1,
        promiscuous: false,
        filter: Vec::new(),
        steering: None,
        flows: None,
        transmit_max: None,
        clock: options.clock,
        budget: options.budget.clone(),
        bytes_max: options.bytes_max,
    };
    let reason = format!("{why}");
    let ports = tpacket_v3::open_each(&Interface::named(OTHER_END)?, &options, &reason)?;
    let port = ports.into_iter().next().expect("one socket, one port");
    home.enter().map_err(entered)?;
    // Frames pass no adapter that would compute checksums or cut segments.
    if !ethtool::leave_nothing_to_the_adapter(name) {
        let cause = io::ErrorKind::Unsupported.into();
        return Err(failed("switch offload off at")(cause));
    }
    Ok(port)
}

/// Makes a veth pair between this network namespace and `home`, where its end has a name.
fn make_pair(name: &str, home: &NetNamespace, mtu: u32) -> io::Result<()> {
    let netlink = Netlink::open()?;
    netlink.add_veth(OTHER_END, name, home.as_fd())?;
    let link = netlink.link_named(OTHER_END)?;
    // It sends no frame of its own.
    let _ = netlink.make_no_v6_address(link.index);
    let address = link.hardware_address.try_into().unwrap_or_default();
    netlink.set_ethernet(link.index, address, mtu)?;
    netlink.switch_on(link.index)
}

fn set_up(
    netlink: &Netlink,
    index: u32,
    here: &LinkEnd,
    there: &[LinkEnd],
    mtu: u32,
) -> io::Result<()> {
    netlink.set_ethernet(index, here.ethernet, mtu)?;
    // Without an address of its own making a device sends no router solicitations.
    let has_v6 = netlink.make_no_v6_address(index).is_ok();
    // Nor does it report that it joined a group for each address.
    netlink.ask_for_no_neighbours(index)?;
    netlink.switch_on(LOOPBACK)?;
    netlink.switch_on(index)?;
    if there.is_empty() {
        return Ok(());
    }
    netlink.add_address(index, IpAddr::V4(here.v4), 24)?;
    if has_v6 {
        netlink.add_address(index, IpAddr::V6(here.v6), 64)?;
    }
    for other in there {
        netlink.add_neighbour(index, IpAddr::V4(other.v4), other.ethernet)?;
        if has_v6 {
            netlink.add_neighbour(index, IpAddr::V6(other.v6), other.ethernet)?;
        }
    }
    Ok(())
}
