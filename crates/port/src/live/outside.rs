//! A way out of a network namespace: a veth pair, a route, and masquerading (NAT) for who is behind.
//!
//! Nothing of this has to be undone: a pair goes with the namespace of either end, and the kernel takes a table of rules away
//! when the socket closes that made it (`NFT_TABLE_F_OWNER`, Linux 5.12).

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};

use super::netlink::Netlink;

/// Makes a veth pair with one end in this network namespace and the other one in `other`.
pub fn make_veth(name: &str, other_name: &str, other: BorrowedFd<'_>) -> io::Result<()> {
    let mut peer = LinkMessage::default();
    peer.attributes = vec![
        LinkAttribute::IfName(other_name.to_owned()),
        LinkAttribute::NetNsFd(other.as_raw_fd()),
    ];
    let mut pair = LinkMessage::default();
    pair.attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]),
    ];
    Netlink::open()?.order(RouteNetlinkMessage::NewLink(pair))
}

/// The number of an interface in this network namespace.
pub fn interface_index(name: &str) -> io::Result<u32> {
    let mut wanted = LinkMessage::default();
    wanted.attributes = vec![LinkAttribute::IfName(name.to_owned())];
    let mut index = 0;
    Netlink::open()?.ask(RouteNetlinkMessage::GetLink(wanted), |message| {
        if let RouteNetlinkMessage::NewLink(link) = message {
            index = link.header.index;
        }
    })?;
    Ok(index)
}

/// Gives an interface of this network namespace an address, and switches it on.
pub fn set_up(index: u32, address: Ipv4Addr, prefix_len: u8) -> io::Result<()> {
    let netlink = Netlink::open()?;
    let own = IpAddr::V4(address);
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.prefix_len = prefix_len;
    message.header.index = index;
    message.attributes = vec![AddressAttribute::Local(own), AddressAttribute::Address(own)];
    netlink.order(RouteNetlinkMessage::NewAddress(message))?;
    let mut link = LinkMessage::default();
    link.header.index = index;
    link.header.flags = LinkFlags::Up;
    link.header.change_mask = LinkFlags::Up;
    netlink.order(RouteNetlinkMessage::SetLink(link))
}

/// Sends everything that has no other route in this network namespace by `gateway`.
pub fn route_all_by(gateway: Ipv4Addr) -> io::Result<()> {
    let mut route = RouteMessage::default();
    route.header.address_family = AddressFamily::Inet;
    route.header.table = RouteHeader::RT_TABLE_MAIN;
    route.header.protocol = RouteProtocol::Static;
    route.header.scope = RouteScope::Universe;
    route.header.kind = RouteType::Unicast;
    route.attributes = vec![RouteAttribute::Gateway(RouteAddress::Inet(gateway))];
    Netlink::open()?.order(RouteNetlinkMessage::NewRoute(route))
}

/// Has a network namespace send on what comes from one address as if it were its own (nft(8): `ip saddr SOURCE masquerade`),
/// until this is dropped or the process ends.
pub struct Masquerade {
    _owner: Socket,
}

impl Masquerade {
    /// In this network namespace.
    pub fn new(source: Ipv4Addr) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.set_non_blocking(true)?;
        socket.send(&rules(source), 0)?;
        let mut answer = vec![0; 64 * 1024];
        // The kernel has answered when send returns: an error or an acknowledgement for each of the three.
        for _ in 0..3 {
            let len = socket.recv(&mut &mut answer[..], 0)?;
            let code = answer.get(16..20).filter(|_| len >= 20);
            let code = code.and_then(|code| code.try_into().ok());
            match code.map(i32::from_ne_bytes) {
                Some(0) => {}
                Some(error) => return Err(io::Error::from_raw_os_error(-error)),
                None => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        Ok(Self { _owner: socket })
    }
}

/// The batch of orders that makes table, chain and rule (linux/netfilter/nf_tables.h).
fn rules(source: Ipv4Addr) -> Vec<u8> {
    const TABLE: &[u8] = b"lineside\0";
    const CHAIN: &[u8] = b"masquerade\0";
    const NESTED: u16 = 1 << 15;
    /// The subsystem of nf_tables (linux/netfilter/nfnetlink.h).
    const NFTABLES: u16 = 10;
    let attribute = |kind: u16, value: &[u8]| {
        let mut bytes = Vec::with_capacity(4 + value.len());
        bytes.extend((4 + value.len() as u16).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    let number = |kind: u16, value: u32| attribute(kind, &value.to_be_bytes());
    let message = |kind: u16, sequence: u32, subsystem: u16, attributes: &[Vec<u8>]| {
        const REQUEST_CREATE_ACK: u16 = 0x405;
        const REQUEST: u16 = 1;
        const IPV4: u8 = 2;
        let attributes = attributes.concat();
        let is_order = kind >> 8 == NFTABLES;
        let (flags, family) = if is_order {
            (REQUEST_CREATE_ACK, IPV4)
        } else {
            (REQUEST, 0)
        };
        let mut bytes = Vec::new();
        bytes.extend((20 + attributes.len() as u32).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend([family, 0]);
        bytes.extend(subsystem.to_be_bytes());
        bytes.extend(attributes);
        bytes
    };
    let expression = |name: &[u8], parts: &[Vec<u8>]| {
        let parts = [attribute(1, name), attribute(2 | NESTED, &parts.concat())];
        attribute(1 | NESTED, &parts.concat())
    };
    // Owned by the socket: NFT_TABLE_F_OWNER.
    let table = [attribute(1, TABLE), number(2, 2)];
    // NF_INET_POST_ROUTING, where sources are changed: priority 100.
    let hook = [number(1, 4), number(2, 100)].concat();
    let chain = [
        attribute(1, TABLE),
        attribute(3, CHAIN),
        attribute(4 | NESTED, &hook),
        attribute(7, b"nat\0"),
    ];
    // The source, at byte 12 of the network header, into register 1, which must equal this one.
    let value = attribute(1, &source.octets());
    let expressions = [
        expression(
            b"payload\0",
            &[number(1, 1), number(2, 1), number(3, 12), number(4, 4)],
        ),
        expression(
            b"cmp\0",
            &[number(1, 1), number(2, 0), attribute(3 | NESTED, &value)],
        ),
        expression(b"masq\0", &[]),
    ];
    let rule = [
        attribute(1, TABLE),
        attribute(2, CHAIN),
        attribute(4 | NESTED, &expressions.concat()),
    ];
    // Begin, NFT_MSG_NEWTABLE, NFT_MSG_NEWCHAIN, NFT_MSG_NEWRULE, end.
    [
        message(0x10, 0, NFTABLES, &[]),
        message(NFTABLES << 8, 1, 0, &table),
        message(NFTABLES << 8 | 3, 2, 0, &chain),
        message(NFTABLES << 8 | 6, 3, 0, &rule),
        message(0x11, 4, NFTABLES, &[]),
    ]
    .concat()
}
