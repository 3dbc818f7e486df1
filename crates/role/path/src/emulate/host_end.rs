//! This host's own stack as one end of an emulated link, in front of an interface of its own.
//!
//! ```text
//!  the host's sockets ─► longer routes ─► TAP device ─► path ─► AF_XDP socket ─► interface ─►
//!                     ◄────────────────── TAP device ◄─ path ◄─ XDP program ◄─── interface ◄─
//! ```
//!
//! Device, addresses and routes belong to this process: they go with it, and what the host was
//! configured to do remains.

use std::io;

use lineside_frame::LinkType;
use lineside_host::{Capability, Netlink, PolicyRoute, PrivilegeError, Privileges};
use lineside_port::live::{EndOptions, Interface, open_tap};
use lineside_port::{LivePort, Method, PortError};

use super::EmulationError;

/// The host's end of a link, before it is opened.
#[derive(Debug)]
pub struct HostEnd {
    interface: Interface,
    hardware_address: [u8; 6],
    detour: PolicyRoute,
}

/// The names of the devices; the kernel counts them.
const DEVICE: &str = "lineside%d";

/// How the names of the devices begin.
const DEVICE_PREFIX: &str = "lineside";

impl HostEnd {
    /// The name of this end, beside that of the interface.
    pub const NAME: &'static str = "host";

    /// Finds the interface of this name, and what the host does by it. The error says why nothing
    /// can stand in front of it.
    pub fn find(name: &str, method: Option<Method>) -> Result<(Self, Interface), EmulationError> {
        let refused = |why: String| EmulationError::HostEnd {
            interface: name.to_owned(),
            why,
        };
        if method == Some(Method::AfPacket) {
            return Err(refused(
                "with af_packet the host receives each frame directly as well as late: leave \
                 --method out, or name af_xdp or af_xdp_generic"
                    .to_owned(),
            ));
        }
        let interface = Interface::named(name)?;
        let netlink = Netlink::open().map_err(EmulationError::system("cannot ask the kernel"))?;
        if let Some(why) = obstacle(&netlink, &interface)? {
            return Err(refused(why));
        }
        let needed = [Capability::NetRaw, Capability::NetAdmin, Capability::Bpf];
        match Privileges::read()?.require(&needed) {
            Err(PrivilegeError::Namespace { .. }) => {
                return Err(refused(
                    "in a user namespace no XDP program can be attached, also by its root: run it \
                     as root of the machine, or a command alone through a link: 'emulate -- CMD'"
                        .to_owned(),
                ));
            }
            held => held?,
        }
        let hardware_address = interface.hardware_address.ok_or_else(no_ethernet);
        let hardware_address = hardware_address.map_err(refused)?;
        let detour = PolicyRoute::of(&netlink, name, interface.index);
        let detour = detour.map_err(|error| refused(error.to_string()))?;
        let end = Self {
            interface: interface.clone(),
            hardware_address,
            detour,
        };
        Ok((end, interface))
    }

    /// Makes the device, which the host does not use yet.
    pub(super) fn open(&self, mut options: EndOptions<'_>) -> Result<Opened, PortError> {
        options.mtu = self.interface.mtu;
        let port = open_tap(DEVICE, &options)?;
        let name = port.facts().first().map(|facts| facts.name.clone());
        Ok(Opened {
            port,
            name: name.unwrap_or_default(),
        })
    }

    /// From now on the host sends by the device. Returns what the user should know.
    pub(super) fn lead(&self, device: &str) -> Result<Vec<String>, PortError> {
        let lead = || -> io::Result<Vec<String>> {
            let netlink = Netlink::open()?;
            let index = netlink.link_named(device)?.index;
            netlink.set_ethernet(index, self.hardware_address, self.interface.mtu)?;
            self.detour.open(&netlink, device, index)
        };
        let refused = lead().map_err(|cause| PortError::Interface {
            name: device.to_owned(),
            action: "lead what the host sends into",
            cause,
        })?;
        Ok([self.detour.remarks(), &refused].concat())
    }
}

/// The host's end, opened.
pub(super) struct Opened {
    pub(super) port: Box<dyn LivePort>,
    /// The device's name.
    pub(super) name: String,
}

/// Why nothing can stand between this host and an interface, and what helps.
fn obstacle(netlink: &Netlink, interface: &Interface) -> Result<Option<String>, EmulationError> {
    let name = &interface.name;
    if interface.is_loopback {
        return Ok(Some(
            "what the host sends there is for itself: 'emulate --loopback -- CMD' has what a \
             command sends to itself pass a link"
                .to_owned(),
        ));
    }
    if interface.kind.as_deref() == Some("tun") && name.starts_with(DEVICE_PREFIX) {
        return Ok(Some(
            "it is the device of another run: name the interface before which that stands, or end \
             that run"
                .to_owned(),
        ));
    }
    if let Some(master) = &interface.master {
        return Ok(Some(format!(
            "it belongs to {master}, by which the host sends and receives: '--on {master}'"
        )));
    }
    if interface.link_type != Some(LinkType::ETHERNET) {
        return Ok(Some(no_ethernet()));
    }
    if interface.has_xdp {
        return Ok(Some(format!(
            "an XDP program is attached to it, of another run or another program: 'ip link show \
             {name}' has its number; end what attached it"
        )));
    }
    let links = { netlink.links() }.map_err(EmulationError::system("cannot ask the kernel"))?;
    let on_it = links.iter().find(|link| {
        // The two ends of a veth pair name each other.
        link.lower == Some(interface.index) && link.kind.as_deref() != Some("veth")
    });
    if let Some(link) = on_it {
        return Ok(Some(format!(
            "{0} is built on this interface and would receive nothing: use '--on {0}' for its traffic",
            link.name
        )));
    }
    if interface.addresses.is_empty() {
        return Ok(Some(
            "the host has no address there, so nothing of its own passes it: '--between IF1,IF2' \
             bridges two interfaces"
                .to_owned(),
        ));
    }
    Ok(None)
}

fn no_ethernet() -> String {
    "it is no Ethernet: name the interface by which its packets leave, or put a command alone \
     behind a link: 'emulate -- CMD'"
        .to_owned()
}
