//! Links, addresses, neighbours and routes of a network namespace: the rtnetlink(7) messages that
//! lineside needs.
//!
//! It is not a general netlink library: requests are written and answers read field by field, for
//! few message types.
//!
//! ```text
//!  message:   length u32 │ type u16 │ flags u16 │ sequence u32 │ port u32
//!             │ header of the type │ attributes
//!  attribute: length u16 │ type u16 │ value │ zeros up to a multiple of four
//! ```
//!
//! Numbers are in the byte order of the machine. The value of a nested attribute is a list of
//! attributes.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, recv,
    send, socket_with,
};

/// Bytes of an answer: the kernel's own messages are at most 32 KiB.
pub(crate) const ANSWER_LEN: usize = 64 * 1024;
/// `NLMSG_HDRLEN`.
const HEADER_LEN: usize = 16;
const ATTRIBUTE_HEADER_LEN: usize = 4;

const REQUEST: u16 = libc::NLM_F_REQUEST as u16;
const ACK: u16 = libc::NLM_F_ACK as u16;
const CREATE: u16 = libc::NLM_F_CREATE as u16;
pub(crate) const DUMP: u16 = libc::NLM_F_DUMP as u16;

/// The type bits of an attribute; the others are flags (`NLA_TYPE_MASK`).
const TYPE_MASK: u16 = 0x3fff;
/// The flag of an attribute that holds attributes (`NLA_F_NESTED`).
pub(crate) const NESTED: u16 = 1 << 15;

// Constants of linux/if_link.h that libc lacks.
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const IN6_ADDR_GEN_MODE_NONE: u8 = 1;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_INET_CONF: u16 = 1;

// Of linux/fib_rules.h.
const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_OIFNAME: u16 = 17;

/// Where `rtnl_link_stats64` (linux/if_link.h) has each counter, counted in numbers of 64 bits.
mod stats {
    pub(super) const RX_PACKETS: usize = 0;
    pub(super) const RX_DROPPED: usize = 6;
    pub(super) const TX_DROPPED: usize = 7;
    pub(super) const RX_FIFO_ERRORS: usize = 14;
    pub(super) const RX_MISSED_ERRORS: usize = 15;
}

/// A link of a network namespace, as the kernel described it. What the kernel left out is zero or
/// `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    /// The number of the interface.
    pub index: u32,
    /// Such as `eth0`.
    pub name: String,
    /// The hardware type: `ARPHRD_*` (linux/if_arp.h).
    pub hardware_type: u16,
    /// `IFF_*` (netdevice(7)).
    pub flags: u32,
    /// The hardware address.
    pub hardware_address: Vec<u8>,
    /// The longest network packet, in bytes.
    pub mtu: u32,
    /// What kind of virtual device it is, such as `veth`.
    pub kind: Option<String>,
    /// The bridge or bond that it belongs to.
    pub master: Option<u32>,
    /// The link of this namespace on which it stands, as a VLAN does, or the other end of a veth
    /// pair.
    pub lower: Option<u32>,
    /// How often the link was lost.
    pub carrier_down_count: u32,
    /// Receive queues.
    pub receive_queues: u32,
    /// An XDP program is attached.
    pub has_xdp: bool,
    /// Counts of frames, if the kernel gave them.
    pub stats: Option<LinkStats>,
}

/// Counts of a link's frames since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Received frames.
    pub rx_packets: u64,
    /// Received frames that were dropped: by the driver, for want of room in its queue, or missed
    /// by the adapter.
    pub rx_dropped: u64,
    /// Sent frames that were dropped.
    pub tx_dropped: u64,
}

impl Link {
    /// Reads `ifinfomsg` and its attributes.
    fn read(payload: &[u8]) -> Option<Self> {
        let (header, rest) = payload.split_first_chunk::<16>()?;
        let mut link = Self {
            hardware_type: u16_at(header, 2)?,
            index: u32_at(header, 4)?,
            flags: u32_at(header, 8)?,
            ..Self::default()
        };
        let mut is_lower_elsewhere = false;
        for (kind, value) in attributes(rest) {
            let number = u32_at(value, 0);
            match kind {
                libc::IFLA_LINK => link.lower = number,
                libc::IFLA_LINK_NETNSID => is_lower_elsewhere = true,
                libc::IFLA_IFNAME => link.name = text(value),
                libc::IFLA_ADDRESS => link.hardware_address = value.to_vec(),
                libc::IFLA_MTU => link.mtu = number.unwrap_or(0),
                libc::IFLA_MASTER => link.master = number,
                libc::IFLA_CARRIER_DOWN_COUNT => link.carrier_down_count = number.unwrap_or(0),
                libc::IFLA_NUM_RX_QUEUES => link.receive_queues = number.unwrap_or(0),
                libc::IFLA_STATS64 => link.stats = Some(LinkStats::read(value)),
                libc::IFLA_LINKINFO => link.kind = find(value, libc::IFLA_INFO_KIND).map(text),
                libc::IFLA_XDP => {
                    let attached = find(value, IFLA_XDP_ATTACHED).and_then(<[u8]>::first);
                    link.has_xdp = attached.is_some_and(|&attached| attached != 0);
                }
                _ => {}
            }
        }
        link.lower = link.lower.filter(|_| !is_lower_elsewhere);
        Some(link)
    }
}

impl LinkStats {
    fn read(value: &[u8]) -> Self {
        let numbers = value.as_chunks().0;
        let at = |place: usize| {
            numbers
                .get(place)
                .map_or(0, |&bytes| u64::from_ne_bytes(bytes))
        };
        Self {
            rx_packets: at(stats::RX_PACKETS),
            rx_dropped: at(stats::RX_MISSED_ERRORS)
                + at(stats::RX_FIFO_ERRORS)
                + at(stats::RX_DROPPED),
            tx_dropped: at(stats::TX_DROPPED),
        }
    }
}

/// A rule that chooses a table of routes for the packets that it matches (ip-rule(8)).
#[derive(Debug, Clone, Copy, Default)]
pub struct Rule<'a> {
    /// For IPv6, else for IPv4.
    pub is_v6: bool,
    /// Rules with lesser numbers are looked at first.
    pub priority: u32,
    /// From this network.
    pub from: Option<(IpAddr, u8)>,
    /// To this network.
    pub to: Option<(IpAddr, u8)>,
    /// With this mark.
    pub mark: Option<u32>,
    /// Bound to this interface.
    pub out: Option<&'a str>,
    /// The table of routes; without one, what matches is unreachable.
    pub table: Option<u8>,
}

impl Rule<'_> {
    /// `fib_rule_hdr` and its attributes (linux/fib_rules.h).
    fn message(&self) -> (Vec<u8>, Vec<Vec<u8>>) {
        const TO_TABLE: u8 = 1;
        const UNREACHABLE: u8 = 7;
        let family = match self.is_v6 {
            true => libc::AF_INET6,
            false => libc::AF_INET,
        };
        let len = |network: Option<(IpAddr, u8)>| network.map_or(0, |(_, len)| len);
        let action = self.table.map_or(UNREACHABLE, |_| TO_TABLE);
        let mut header = vec![family as u8, len(self.to), len(self.from), 0];
        header.extend([self.table.unwrap_or(0), 0, 0, action, 0, 0, 0, 0]);
        let number = |kind: u16, value: u32| attribute(kind, &value.to_ne_bytes());
        let mut attributes = vec![number(FRA_PRIORITY, self.priority)];
        for (kind, network) in [(FRA_DST, self.to), (FRA_SRC, self.from)] {
            attributes.extend(network.map(|(address, _)| attribute(kind, &octets(address))));
        }
        attributes.extend(self.mark.map(|mark| number(FRA_FWMARK, mark)));
        let name = |name: &str| attribute(FRA_OIFNAME, &[name.as_bytes(), &[0]].concat());
        attributes.extend(self.out.map(name));
        (header, attributes)
    }
}

/// A netlink socket. It belongs to the network namespace in which it was opened, wherever its
/// thread goes.
#[derive(Debug)]
pub struct Netlink(OwnedFd);

impl Netlink {
    /// A socket for links, addresses and routes.
    pub fn open() -> io::Result<Self> {
        Self::open_protocol(None).map(Self)
    }

    /// A socket for another protocol than links, addresses and routes.
    pub(crate) fn of_protocol(protocol: Protocol) -> io::Result<Self> {
        Self::open_protocol(Some(protocol)).map(Self)
    }

    /// `None` stands for `NETLINK_ROUTE`, which has the number 0.
    pub(crate) fn open_protocol(protocol: Option<Protocol>) -> io::Result<OwnedFd> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, protocol)?;
        // The kernel chooses the port, and only the kernel may answer.
        bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(socket)
    }

    /// All links, in the kernel's order.
    pub fn links(&self) -> io::Result<Vec<Link>> {
        let mut links = Vec::new();
        self.send(libc::RTM_GETLINK, DUMP, &link_header(0, 0), &[])?;
        self.receive(|kind, payload| {
            if kind == libc::RTM_NEWLINK {
                links.extend(Link::read(payload));
            }
        })?;
        Ok(links)
    }

    /// All addresses, each with the index of its link.
    pub fn addresses(&self) -> io::Result<Vec<(u32, IpAddr)>> {
        let mut addresses = Vec::new();
        self.send(libc::RTM_GETADDR, DUMP, &[0; 8], &[])?;
        self.receive(|kind, payload| {
            if kind == libc::RTM_NEWADDR {
                addresses.extend(read_address(payload));
            }
        })?;
        Ok(addresses)
    }

    /// The link of this name.
    pub fn link_named(&self, name: &str) -> io::Result<Link> {
        self.link_by(0, &[name_attribute(name)])
    }

    /// The link of this index.
    pub fn link(&self, index: u32) -> io::Result<Link> {
        self.link_by(index, &[])
    }

    fn link_by(&self, index: u32, attributes: &[Vec<u8>]) -> io::Result<Link> {
        let mut link = None;
        self.send(libc::RTM_GETLINK, ACK, &link_header(index, 0), attributes)?;
        self.receive(|kind, payload| {
            if kind == libc::RTM_NEWLINK {
                link = Link::read(payload);
            }
        })?;
        link.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Switches a link on.
    pub fn switch_on(&self, index: u32) -> io::Result<()> {
        let header = link_header(index, libc::IFF_UP as u32);
        self.order(libc::RTM_SETLINK, &header, &[])
    }

    /// Switches a link off.
    pub fn switch_off(&self, index: u32) -> io::Result<()> {
        let mut header = link_header(index, libc::IFF_UP as u32);
        header[8..12].copy_from_slice(&0_u32.to_ne_bytes());
        self.order(libc::RTM_SETLINK, &header, &[])
    }

    /// Keeps a link from asking for neighbours, and from joining groups of IPv6 for its addresses:
    /// a frame goes to a neighbour that was entered, or else to the link's own hardware address.
    pub fn ask_for_no_neighbours(&self, index: u32) -> io::Result<()> {
        let header = link_header(index, libc::IFF_NOARP as u32);
        self.order(libc::RTM_SETLINK, &header, &[])
    }

    /// Sets settings of a link's IPv4 to 1, each known by its number in linux/ip.h
    /// (`IPV4_DEVCONF_*`): those of /proc/sys/net/ipv4/conf, which a container may not write.
    pub fn enable_v4(&self, index: u32, settings: &[u16]) -> io::Result<()> {
        let one = 1_u32.to_ne_bytes();
        let settings: Vec<_> = { settings.iter() }
            .map(|&setting| attribute(setting, &one))
            .collect();
        let inet = nested(libc::AF_INET as u16, &[nested(IFLA_INET_CONF, &settings)]);
        let families = nested(libc::IFLA_AF_SPEC, &[inet]);
        self.order(libc::RTM_SETLINK, &link_header(index, 0), &[families])
    }

    /// Sets the hardware address and the MTU of a link.
    pub fn set_ethernet(&self, index: u32, address: [u8; 6], mtu: u32) -> io::Result<()> {
        let attributes = [
            attribute(libc::IFLA_ADDRESS, &address),
            attribute(libc::IFLA_MTU, &mtu.to_ne_bytes()),
        ];
        self.order(libc::RTM_SETLINK, &link_header(index, 0), &attributes)
    }

    /// Keeps a link from making an IPv6 address of its own. A kernel without IPv6 refuses.
    pub fn make_no_v6_address(&self, index: u32) -> io::Result<()> {
        let mode = attribute(IFLA_INET6_ADDR_GEN_MODE, &[IN6_ADDR_GEN_MODE_NONE]);
        let inet6 = nested(libc::AF_INET6 as u16, &[mode]);
        let families = nested(libc::IFLA_AF_SPEC, &[inet6]);
        self.order(libc::RTM_SETLINK, &link_header(index, 0), &[families])
    }

    /// Gives a link an address, which can be used at once: duplicates of it are not looked for.
    pub fn add_address(&self, index: u32, address: IpAddr, prefix_len: u8) -> io::Result<()> {
        let mut header = vec![family(address), prefix_len, libc::IFA_F_NODAD as u8, 0];
        header.extend(index.to_ne_bytes());
        let octets = octets(address);
        let attributes = [
            attribute(libc::IFA_LOCAL, &octets),
            attribute(libc::IFA_ADDRESS, &octets),
        ];
        self.order(libc::RTM_NEWADDR, &header, &attributes)
    }

    /// Enters the hardware address of a neighbour for good, so that no request for it is ever sent.
    pub fn add_neighbour(
        &self,
        index: u32,
        address: IpAddr,
        hardware_address: [u8; 6],
    ) -> io::Result<()> {
        let mut header = vec![family(address), 0, 0, 0];
        header.extend(index.to_ne_bytes());
        header.extend(libc::NUD_PERMANENT.to_ne_bytes());
        header.extend([0; 2]);
        let attributes = [
            attribute(libc::NDA_DST, &octets(address)),
            attribute(libc::NDA_LLADDR, &hardware_address),
        ];
        self.order(libc::RTM_NEWNEIGH, &header, &attributes)
    }

    /// Sends every packet that has no other route by `gateway`.
    pub fn add_default_route(&self, gateway: Ipv4Addr) -> io::Result<()> {
        let mut header = vec![libc::AF_INET as u8, 0, 0, 0, libc::RT_TABLE_MAIN];
        header.extend([
            libc::RTPROT_STATIC,
            libc::RT_SCOPE_UNIVERSE,
            libc::RTN_UNICAST,
        ]);
        header.extend([0; 4]);
        let gateway = attribute(libc::RTA_GATEWAY, &gateway.octets());
        self.order(libc::RTM_NEWROUTE, &header, &[gateway])
    }

    /// Sends what goes to a network to a link, in a table of routes of its own.
    pub fn add_route(
        &self,
        network: IpAddr,
        prefix_len: u8,
        index: u32,
        table: u8,
    ) -> io::Result<()> {
        let mut header = vec![family(network), prefix_len, 0, 0, table];
        header.extend([libc::RTPROT_STATIC, libc::RT_SCOPE_HOST, libc::RTN_UNICAST]);
        header.extend([0; 4]);
        let attributes = [
            attribute(libc::RTA_DST, &octets(network)),
            attribute(libc::RTA_OIF, &index.to_ne_bytes()),
        ];
        self.order(libc::RTM_NEWROUTE, &header, &attributes)
    }

    /// Adds a rule that chooses a table of routes (ip-rule(8)).
    pub fn add_rule(&self, rule: &Rule<'_>) -> io::Result<()> {
        let (header, attributes) = rule.message();
        self.order(libc::RTM_NEWRULE, &header, &attributes)
    }

    /// Removes a rule.
    pub fn remove_rule(&self, rule: &Rule<'_>) -> io::Result<()> {
        let (header, attributes) = rule.message();
        self.order(libc::RTM_DELRULE, &header, &attributes)
    }

    /// Makes a veth pair with one end in this socket's network namespace and the other one in
    /// `other`.
    pub fn add_veth(&self, name: &str, other_name: &str, other: BorrowedFd<'_>) -> io::Result<()> {
        let other = attribute(libc::IFLA_NET_NS_FD, &other.as_raw_fd().to_ne_bytes());
        let mut peer = link_header(0, 0).to_vec();
        peer.extend([name_attribute(other_name), other].concat());
        let info = [
            attribute(libc::IFLA_INFO_KIND, b"veth"),
            nested(IFLA_INFO_DATA, &[attribute(VETH_INFO_PEER, &peer)]),
        ];
        let attributes = [name_attribute(name), nested(libc::IFLA_LINKINFO, &info)];
        self.order(libc::RTM_NEWLINK, &link_header(0, 0), &attributes)
    }

    /// Has the kernel make or change something.
    pub(crate) fn order(&self, kind: u16, header: &[u8], attributes: &[Vec<u8>]) -> io::Result<()> {
        self.send(kind, ACK | CREATE, header, attributes)?;
        self.receive(|_, _| {})
    }

    pub(crate) fn send(
        &self,
        kind: u16,
        flags: u16,
        header: &[u8],
        attributes: &[Vec<u8>],
    ) -> io::Result<()> {
        let message = message(kind, REQUEST | flags, 0, header, attributes);
        send(&self.0, &message, SendFlags::empty())?;
        Ok(())
    }

    /// Gives `take` the type and payload of each message, until the kernel has answered in full or
    /// reports an error.
    pub(crate) fn receive(&self, mut take: impl FnMut(u16, &[u8])) -> io::Result<()> {
        const ERROR: u16 = libc::NLMSG_ERROR as u16;
        const DONE: u16 = libc::NLMSG_DONE as u16;
        let mut answer = vec![0; ANSWER_LEN];
        loop {
            let (len, _) = recv(&self.0, &mut answer[..], RecvFlags::empty())?;
            for message in messages(&answer[..len]) {
                match message? {
                    (DONE, _) => return Ok(()),
                    (ERROR, payload) => return acknowledged(payload),
                    (kind, payload) => take(kind, payload),
                }
            }
        }
    }
}

/// Reads the payload of an error message: code 0 is an acknowledgement.
pub(crate) fn acknowledged(payload: &[u8]) -> io::Result<()> {
    match u32_at(payload, 0).map(u32::cast_signed) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code.wrapping_neg())),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The messages of an answer, each with its type and what follows its header.
pub(crate) fn messages(mut left: &[u8]) -> impl Iterator<Item = io::Result<(u16, &[u8])>> {
    std::iter::from_fn(move || {
        if left.is_empty() {
            return None;
        }
        let len = u32_at(left, 0).map_or(0, |len| len as usize);
        let Some(payload) = left.get(HEADER_LEN..len) else {
            left = &[];
            return Some(Err(io::ErrorKind::InvalidData.into()));
        };
        let kind = u16_at(left, 4).unwrap_or(0);
        left = left.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(Ok((kind, payload)))
    })
}

/// A whole message.
pub(crate) fn message(
    kind: u16,
    flags: u16,
    sequence: u32,
    header: &[u8],
    attributes: &[Vec<u8>],
) -> Vec<u8> {
    let attributes = attributes.concat();
    let len = HEADER_LEN + header.len() + attributes.len();
    let mut bytes = Vec::with_capacity(len);
    bytes.extend((len as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(header);
    bytes.extend(attributes);
    bytes
}

/// An attribute with what fills it up to a multiple of four bytes.
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = ATTRIBUTE_HEADER_LEN + value.len();
    let mut bytes = Vec::with_capacity(len.next_multiple_of(4));
    bytes.extend((len as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(len.next_multiple_of(4), 0);
    bytes
}

/// An attribute that holds attributes.
pub(crate) fn nested(kind: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
    attribute(kind | NESTED, &attributes.concat())
}

/// The attributes in `left`, each with its type; the first damaged one ends them.
pub(crate) fn attributes(mut left: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(left, 0)?);
        let value = left.get(ATTRIBUTE_HEADER_LEN..len)?;
        let kind = u16_at(left, 2)? & TYPE_MASK;
        left = left.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

pub(crate) fn find(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find_map(|(kind, value)| (kind == wanted).then_some(value))
}

/// `ifinfomsg`: all zeros, but the index and the flags to set.
fn link_header(index: u32, flags: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    // Which of the flags are meant.
    header[12..].copy_from_slice(&flags.to_ne_bytes());
    header
}

fn name_attribute(name: &str) -> Vec<u8> {
    attribute(libc::IFLA_IFNAME, &[name.as_bytes(), &[0]].concat())
}

/// Reads `ifaddrmsg` and its address.
fn read_address(payload: &[u8]) -> Option<(u32, IpAddr)> {
    let (header, rest) = payload.split_first_chunk::<8>()?;
    let octets = find(rest, libc::IFA_ADDRESS)?;
    let address = match i32::from(header[0]) {
        libc::AF_INET => IpAddr::from(<[u8; 4]>::try_from(octets).ok()?),
        libc::AF_INET6 => IpAddr::from(<[u8; 16]>::try_from(octets).ok()?),
        _ => return None,
    };
    Some((u32_at(header, 4)?, address))
}

fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// A text up to its zero.
fn text(value: &[u8]) -> String {
    let text = value.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u16::from_ne_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_read_back() {
        let inner = [attribute(1, b"veth"), attribute(2, &[7])];
        let bytes = [attribute(3, b"abc\0d"), nested(4, &inner)].concat();
        assert_eq!(bytes.len(), 12 + 4 + 8 + 8);
        let read: Vec<_> = attributes(&bytes).collect();
        assert_eq!(read[0], (3, &b"abc\0d"[..]));
        assert_eq!(text(read[0].1), "abc");
        assert_eq!(read[1].0, 4);
        assert_eq!(find(read[1].1, 2), Some(&[7][..]));
        // A length that lies ends the list.
        for len in [0, 3, 200] {
            let mut damaged = bytes.clone();
            damaged[12] = len;
            assert_eq!(attributes(&damaged).count(), 1);
        }
    }

    #[test]
    fn a_message_with_a_false_length_is_an_error() {
        let whole = message(16, REQUEST, 0, &[1, 2, 3, 4], &[attribute(5, &[6])]);
        let both = [whole.clone(), whole.clone()].concat();
        let read: Vec<_> = messages(&both)
            .map(|message| message.expect("whole"))
            .collect();
        assert_eq!(read, [(16, &whole[16..]); 2]);
        for len in [0, 15, 255] {
            let mut damaged = whole.clone();
            damaged[0] = len;
            assert!(messages(&damaged).all(|message| message.is_err()), "{len}");
        }
    }
}

#[cfg(test)]
mod wall {
    use std::net::Ipv6Addr;
    use std::os::fd::AsFd;

    use super::*;
    use crate::{NetNamespace, may_make_network_namespaces};

    /// Everything that is ordered shows when the kernel is asked, as ip(8) shows it.
    #[test]
    fn the_kernel_carries_out_netlink_requests() {
        if !may_make_network_namespaces() {
            println!("SKIP: netlink: network namespaces need root");
            return;
        }
        let thread = std::thread::spawn(|| -> io::Result<()> {
            let far = NetNamespace::new().expect("a namespace");
            let near = NetNamespace::new().expect("a namespace");
            let netlink = Netlink::open()?;
            netlink.add_veth("near", "far", far.as_fd())?;
            let index = netlink.link_named("near")?.index;
            let hardware = [2, 0, 0, 0, 0, 9];
            netlink.set_ethernet(index, hardware, 1400)?;
            let has_v6 = netlink.make_no_v6_address(index).is_ok();
            netlink.switch_on(index)?;
            let v4 = IpAddr::from([198, 18, 0, 2]);
            netlink.add_address(index, v4, 30)?;
            let mut expected = vec![(index, v4)];
            if has_v6 {
                let v6 = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2));
                netlink.add_address(index, v6, 64)?;
                expected.push((index, v6));
            }
            netlink.add_neighbour(index, IpAddr::from([198, 18, 0, 1]), hardware)?;
            assert_eq!(netlink.addresses()?, expected);
            let link = netlink.link(index)?;
            assert_eq!((link.name.as_str(), link.mtu), ("near", 1400));
            assert_eq!(link.kind.as_deref(), Some("veth"));
            assert_eq!(link.hardware_address, hardware);
            assert_eq!(link.hardware_type, libc::ARPHRD_ETHER);
            assert_ne!(link.flags & libc::IFF_UP as u32, 0);
            assert!(link.stats.is_some() && !link.has_xdp && link.receive_queues > 0);
            // Both ends must be up for a route.
            far.enter().expect("a namespace");
            let other = Netlink::open()?;
            let names = other.links()?.into_iter().map(|link| link.name);
            assert_eq!(names.collect::<Vec<_>>(), ["lo", "far"]);
            other.switch_on(other.link_named("far")?.index)?;
            near.enter().expect("a namespace");
            netlink.add_default_route([198, 18, 0, 1].into())?;
            let routes = std::fs::read_to_string("/proc/thread-self/net/route")?;
            // proc(5): destination 0 by the gateway, in hexadecimal.
            assert!(routes.contains("near\t00000000\t010012C6\t"), "{routes}");
            let missing = netlink.link_named("missing").expect_err("there is none");
            assert_eq!(missing.raw_os_error(), Some(libc::ENODEV));
            Ok(())
        });
        thread.join().expect("no panic").expect("no error");
    }
}
