//! What there is to listen at: the kernel's links and addresses (rtnetlink(7)).

use std::collections::BTreeMap;
use std::net::IpAddr;

use lineside_frame::LinkType;
use lineside_host::{Link, Netlink};
use lineside_wire::ethernet;

use crate::PortError;

/// Raw IP (linux/if_arp.h), which libc lacks.
const ARPHRD_RAWIP: u16 = 519;
/// The driver reports a link at the other end (linux/if.h), which libc lacks.
const IFF_LOWER_UP: libc::c_int = 1 << 16;

/// Bytes of an Ethernet header with two tags.
pub(super) const HEADER_LEN_MAX: usize = ethernet::HEADER_LEN + 2 * ethernet::TAG_LEN;

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
    /// How its frames begin; `None` if not known here.
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
            std::io::Result::Ok((netlink.links()?, netlink.addresses()?))
        };
        let (links, addresses) = read().map_err(|cause| PortError::Interfaces { cause })?;
        let mut interfaces: BTreeMap<u32, Self> = BTreeMap::new();
        let mut masters = Vec::new();
        let mut order = Vec::new();
        for link in links {
            masters.extend(link.master.map(|master| (link.index, master)));
            let interface = Self::from_link(link);
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
        for (index, address) in addresses {
            if let Some(interface) = interfaces.get_mut(&index)
                && !is_link_local(address)
            {
                interface.addresses.push(address);
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
            .map(|each| (lineside_words::distance(&each.name, name), &each.name))
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

    /// The interface as it is now, without master and addresses; `None` if it is gone.
    pub(crate) fn again(&self) -> Result<Option<Self>, PortError> {
        // One link, not all of them: with `any` each is asked for once a second.
        let link = Netlink::open().and_then(|netlink| netlink.link(self.index));
        match link {
            Ok(link) => Ok(Some(Self::from_link(link)).filter(|now| now.name == self.name)),
            Err(cause) if cause.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            Err(cause) => Err(PortError::Interfaces { cause }),
        }
    }

    fn from_link(link: Link) -> Self {
        let has = |flag: libc::c_int| link.flags & flag as u32 != 0;
        let stats = link.stats.unwrap_or_default();
        Self {
            link_type: match link.hardware_type {
                libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Some(LinkType::ETHERNET),
                libc::ARPHRD_NONE | libc::ARPHRD_PPP | ARPHRD_RAWIP => Some(LinkType::RAW),
                _ => None,
            },
            is_loopback: has(libc::IFF_LOOPBACK),
            is_up: has(libc::IFF_UP),
            is_running: has(IFF_LOWER_UP),
            name: link.name,
            index: link.index,
            kind: link.kind,
            hardware_address: link.hardware_address.try_into().ok(),
            link_losses: link.carrier_down_count,
            mtu: link.mtu,
            master: None,
            addresses: Vec::new(),
            receive_queues: link.receive_queues,
            has_xdp: link.has_xdp,
            received: stats.rx_packets,
            dropped: stats.rx_dropped,
        }
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}
