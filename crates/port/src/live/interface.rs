//! What there is to listen at: the kernel's links and addresses (rtnetlink(7)).

use std::collections::BTreeMap;
use std::net::IpAddr;

use lineside_frame::LinkType;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage, LinkXdp, Stats64, XdpAttached,
};

use super::netlink::Netlink;
use crate::PortError;

/// A network interface, as it was when it was looked up.
#[derive(Debug, Clone, Default)]
pub struct Interface {
    /// Such as `eth0`.
    pub name: String,
    /// The kernel's number for it.
    pub index: u32,
    /// What kind of device it is, such as `veth` or `bridge`; `None` for hardware.
    pub kind: Option<String>,
    /// Its own hardware address, if that is one of Ethernet's.
    pub hardware_address: Option<[u8; 6]>,
    /// How its frames begin; `None` if nobody here knows.
    pub link_type: Option<LinkType>,
    /// It leads back to this host.
    pub is_loopback: bool,
    /// It was switched on.
    pub is_up: bool,
    /// Something is at the other end.
    pub is_running: bool,
    /// Times that its link was lost since it was made, also by switching it off.
    pub link_losses: u32,
    /// The longest network packet, in bytes.
    pub mtu: u32,
    /// The bridge or bond that it belongs to.
    pub master: Option<String>,
    /// The host's addresses on it; link-local ones are not among them.
    pub addresses: Vec<IpAddr>,
    /// Receive queues.
    pub receive_queues: u32,
    /// An XDP program is attached.
    pub has_xdp: bool,
    /// Frames received since it was made.
    pub received: u64,
    /// Frames that it or its driver dropped or missed since it was made.
    pub dropped: u64,
}

impl Interface {
    /// All interfaces of this network namespace, in the kernel's order.
    pub fn all() -> Result<Vec<Self>, PortError> {
        let read = || {
            let netlink = Netlink::open()?;
            let mut links = Vec::new();
            let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
            netlink.dump(request, |message| {
                if let RouteNetlinkMessage::NewLink(link) = message {
                    links.push(link);
                }
            })?;
            let mut addresses = Vec::new();
            let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
            netlink.dump(request, |message| {
                if let RouteNetlinkMessage::NewAddress(address) = message {
                    addresses.push(address);
                }
            })?;
            std::io::Result::Ok((links, addresses))
        };
        let (links, addresses) = read().map_err(|cause| PortError::Interfaces { cause })?;
        let mut interfaces: BTreeMap<u32, Self> = BTreeMap::new();
        let mut masters = Vec::new();
        let mut order = Vec::new();
        for link in links {
            let (interface, master) = Self::from_link(link);
            masters.extend(master.map(|master| (interface.index, master)));
            order.push(interface.index);
            interfaces.insert(interface.index, interface);
        }
        for (index, master) in masters {
            let name = match interfaces.get(&master) {
                Some(master) => master.name.clone(),
                None => format!("interface {master} of another namespace"),
            };
            if let Some(interface) = interfaces.get_mut(&index) {
                interface.master = Some(name);
            }
        }
        for message in addresses {
            let Some(interface) = interfaces.get_mut(&message.header.index) else {
                continue;
            };
            for attribute in message.attributes {
                if let AddressAttribute::Address(address) = attribute
                    && !is_link_local(address)
                {
                    interface.addresses.push(address);
                }
            }
        }
        Ok(order
            .into_iter()
            .filter_map(|index| interfaces.remove(&index))
            .collect())
    }

    /// The interface of this name.
    pub fn named(name: &str) -> Result<Self, PortError> {
        let mut all = Self::all()?;
        if let Some(at) = all.iter().position(|interface| interface.name == name) {
            return Ok(all.swap_remove(at));
        }
        let nearest = all
            .iter()
            .map(|each| (strsim::damerau_levenshtein(&each.name, name), &each.name))
            .filter(|(distance, _)| *distance * 2 <= name.len())
            .min();
        let hint = match nearest {
            Some((_, nearest)) => format!("did you mean '{nearest}'?"),
            None => {
                let names: Vec<_> = all.iter().map(|each| each.name.as_str()).collect();
                format!("there are {}", names.join(", "))
            }
        };
        Err(PortError::NoInterface {
            name: name.to_owned(),
            hint,
        })
    }

    /// The interface as it is now; `None` if it is gone.
    pub(crate) fn again(&self) -> Result<Option<Self>, PortError> {
        let all = Self::all()?;
        Ok(all
            .into_iter()
            .find(|each| each.index == self.index && each.name == self.name))
    }

    fn from_link(link: LinkMessage) -> (Self, Option<u32>) {
        let flags = link.header.flags;
        let mut interface = Self {
            index: link.header.index,
            link_type: match link.header.link_layer_type {
                LinkLayerType::Ether | LinkLayerType::Loopback => Some(LinkType::ETHERNET),
                LinkLayerType::None | LinkLayerType::Ppp | LinkLayerType::Rawip => {
                    Some(LinkType::RAW)
                }
                _ => None,
            },
            is_loopback: flags.contains(LinkFlags::Loopback),
            is_up: flags.contains(LinkFlags::Up),
            is_running: flags.contains(LinkFlags::LowerUp),
            ..Self::default()
        };
        let mut master = None;
        for attribute in link.attributes {
            match attribute {
                LinkAttribute::IfName(name) => interface.name = name,
                LinkAttribute::Address(bytes) => interface.hardware_address = bytes.try_into().ok(),
                LinkAttribute::Mtu(mtu) => interface.mtu = mtu,
                LinkAttribute::CarrierDownCount(count) => interface.link_losses = count,
                LinkAttribute::Controller(index) => master = Some(index),
                LinkAttribute::NumRxQueues(count) => interface.receive_queues = count,
                LinkAttribute::Stats64(stats) => interface.note_stats(&stats),
                LinkAttribute::LinkInfo(infos) => {
                    for info in infos {
                        if let LinkInfo::Kind(kind) = info {
                            interface.kind = Some(kind.to_string());
                        }
                    }
                }
                LinkAttribute::Xdp(facts) => {
                    interface.has_xdp = facts.iter().any(|fact| match fact {
                        LinkXdp::Attached(attached) => *attached != XdpAttached::None,
                        _ => false,
                    });
                }
                _ => {}
            }
        }
        (interface, master)
    }

    fn note_stats(&mut self, stats: &Stats64) {
        self.received = stats.rx_packets;
        // What the adapter had no room for, and what the driver threw away.
        self.dropped = stats.rx_missed_errors + stats.rx_fifo_errors + stats.rx_dropped;
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}
