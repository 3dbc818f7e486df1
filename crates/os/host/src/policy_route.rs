//! A second way from this host's own stack to the hosts that it reaches by an interface: another
//! device with the interface's addresses, and routes that are longer than the interface's.
//!
//! ```text
//!  main table  192.0.2.0/24 dev eth0                    as it was
//!              192.0.2.0/25 dev lineside0               two halves, which win as the longer ones
//!              192.0.2.128/25 dev lineside0
//!  local table local 192.0.2.1 dev eth0                 as it was
//!              local 192.0.2.1 dev lineside0            of the same address
//! ```
//!
//! * Nothing of the interface is changed, so nothing has to be undone: addresses and routes go with
//!   the device, whatever ends the process to which that belongs.
//! * A route that cannot be longer, to one address, gets one that is looked at before it.
//! * Where the host has a route as long as a half, that one wins as it did before.

use std::fs;
use std::io;
use std::net::IpAddr;

use crate::netlink::{DUMP, Netlink, attribute, attributes, find, u32_at};

// Of linux/rtnetlink.h, which libc lacks.
const RTNH_F_ONLINK: u32 = 4;

// Attributes of a route that hold for another device too. What is not here is the kernel's own
// account of it, or is written anew.
const KEPT: [u16; 9] = [
    libc::RTA_SRC,
    libc::RTA_GATEWAY,
    libc::RTA_PREFSRC,
    libc::RTA_METRICS,
    libc::RTA_FLOW,
    libc::RTA_VIA,
    libc::RTA_PREF,
    libc::RTA_ENCAP,
    libc::RTA_ENCAP_TYPE,
];

/// The settings of an interface by which its stack decides what comes from whom and goes to whom
/// (Documentation/networking/ip-sysctl.rst); a new device has the default ones.
const SETTINGS: [(&str, &[&str]); 2] = [
    (
        "ipv4",
        &[
            "accept_local",
            "arp_announce",
            "arp_filter",
            "arp_ignore",
            "forwarding",
            "route_localnet",
            "rp_filter",
            "src_valid_mark",
        ],
    ),
    ("ipv6", &["disable_ipv6", "forwarding", "hop_limit"]),
];

/// Routes that are led another way at most: a router's whole table takes too long.
const ROUTES_MAX: usize = 4096;

/// The addresses of an interface and the routes over it, as they are to be at another device.
#[derive(Debug, Clone)]
pub struct PolicyRoute {
    interface: String,
    addresses: Vec<Address>,
    routes: Vec<Route>,
    remarks: Vec<String>,
}

/// An address of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    address: IpAddr,
    prefix_len: u8,
    scope: u8,
    /// No connection is begun from it any more (RFC 4862, 5.5.4).
    is_deprecated: bool,
    /// Seconds until it is gone unless it is renewed.
    lifetime_s: Option<u32>,
}

/// A route, as far as it has to be known to be written again.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Route {
    is_v6: bool,
    /// With as many bytes as an address has.
    network: Vec<u8>,
    prefix_len: u8,
    source_len: u8,
    service: u8,
    table: u32,
    scope: u8,
    kind: u8,
    metric: u32,
    /// The interfaces by which packets leave: one, but for routes with several next hops.
    out: Vec<u32>,
    /// Attributes of [`KEPT`].
    attributes: Vec<(u16, Vec<u8>)>,
}

impl PolicyRoute {
    /// Reads addresses and routes of an interface.
    pub fn of(netlink: &Netlink, interface: &str, index: u32) -> io::Result<Self> {
        let mut addresses = Vec::new();
        netlink.send(libc::RTM_GETADDR, DUMP, &[0; 8], &[])?;
        netlink.receive(|kind, payload| {
            if kind == libc::RTM_NEWADDR {
                addresses.extend(Address::read(payload, index));
            }
        })?;
        let mut all = Vec::new();
        for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
            let header = [family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            netlink.send(libc::RTM_GETROUTE, DUMP, &header, &[])?;
            netlink.receive(|kind, payload| {
                if kind == libc::RTM_NEWROUTE {
                    // A kernel without IPv6 lists those of IPv4 again.
                    all.extend(Route::read(payload).filter(|_| payload[0] == family));
                }
            })?;
        }
        let count = all
            .iter()
            .filter(|route| route.out.contains(&index))
            .count();
        if count > ROUTES_MAX {
            return Err(io::Error::other(format!(
                "it has {count} routes, and {ROUTES_MAX} at most are led another way"
            )));
        }
        let (routes, mut remarks) = longer(&all, index);
        for address in &addresses {
            if let Some(lifetime_s) = address.lifetime_s {
                remarks.push(format!(
                    "{} at {interface} is lent for {lifetime_s} s more, and may not be renewed \
                     while this runs",
                    address.address
                ));
            }
        }
        Ok(Self {
            interface: interface.to_owned(),
            addresses,
            routes,
            remarks,
        })
    }

    /// What a user should know: packets that do not take this way, and addresses that are lent.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Switches a device on, gives it the addresses, and has the host send by it. Returns the
    /// routes that the kernel did not take, with its reasons.
    pub fn open(&self, netlink: &Netlink, device: &str, index: u32) -> io::Result<Vec<String>> {
        // A kernel without IPv6 refuses.
        let _ = netlink.make_no_v6_address(index);
        self.copy_settings(device);
        netlink.switch_on(index)?;
        for address in &self.addresses {
            address.add(netlink, index)?;
        }
        let add = |route: &Route| {
            let error = route.add(netlink, index).err()?;
            Some(format!(
                "the route {} cannot be led another way, and its packets go past this: {error}",
                route.words()
            ))
        };
        let refused: Vec<_> = self.routes.iter().filter_map(add).collect();
        match refused.first() {
            Some(why) if refused.len() == self.routes.len() => Err(io::Error::other(why.clone())),
            _ => Ok(refused),
        }
    }

    /// Where the kernel does not let them be written, as in a container, the defaults remain.
    fn copy_settings(&self, device: &str) {
        for (family, names) in SETTINGS {
            let path = |of: &str, name: &str| format!("/proc/sys/net/{family}/conf/{of}/{name}");
            for name in names {
                if let Ok(value) = fs::read(path(&self.interface, name)) {
                    let _ = crate::kernel::set(path(device, name), value);
                }
            }
        }
        // The interface's routes are those of the device too: it asks no router for others.
        let accept_ra = format!("/proc/sys/net/ipv6/conf/{device}/accept_ra");
        let _ = crate::kernel::set(accept_ra, "0");
    }
}

impl Address {
    /// Reads `ifaddrmsg` with its attributes, if it is of this interface and in use.
    fn read(payload: &[u8], index: u32) -> Option<Self> {
        let (header, rest) = payload.split_first_chunk::<8>()?;
        if u32_at(header, 4)? != index {
            return None;
        }
        let flags = find(rest, libc::IFA_FLAGS).and_then(|flags| u32_at(flags, 0));
        let flags = flags.unwrap_or_else(|| u32::from(header[2]));
        if flags & (libc::IFA_F_TENTATIVE | libc::IFA_F_DADFAILED) != 0 {
            return None;
        }
        let octets = find(rest, libc::IFA_LOCAL).or_else(|| find(rest, libc::IFA_ADDRESS))?;
        let address = match i32::from(header[0]) {
            libc::AF_INET => IpAddr::from(<[u8; 4]>::try_from(octets).ok()?),
            libc::AF_INET6 => IpAddr::from(<[u8; 16]>::try_from(octets).ok()?),
            _ => return None,
        };
        let lifetime = |at| find(rest, libc::IFA_CACHEINFO).and_then(|info| u32_at(info, at));
        Some(Self {
            address,
            prefix_len: header[1],
            scope: header[3],
            is_deprecated: flags & libc::IFA_F_DEPRECATED != 0,
            // `ifa_cacheinfo`: how long it is preferred, then how long it is valid.
            lifetime_s: lifetime(4).filter(|&seconds| seconds != u32::MAX),
        })
    }

    /// Gives it to a device, without the routes of its network.
    fn add(&self, netlink: &Netlink, index: u32) -> io::Result<()> {
        let (family, prefix_len, octets) = match self.address {
            // With its network, a second address of it would count as the first one's.
            IpAddr::V4(address) => (libc::AF_INET, 32, address.octets().to_vec()),
            IpAddr::V6(address) => (libc::AF_INET6, self.prefix_len, address.octets().to_vec()),
        };
        let is_link_local = match self.address {
            IpAddr::V4(_) => false,
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        let mut flags = libc::IFA_F_NODAD;
        // What is link-local is found by the device, and needs its own route.
        flags |= if is_link_local {
            0
        } else {
            libc::IFA_F_NOPREFIXROUTE
        };
        let mut header = vec![family as u8, prefix_len, 0, self.scope];
        header.extend(index.to_ne_bytes());
        let mut attributes = vec![
            attribute(libc::IFA_LOCAL, &octets),
            attribute(libc::IFA_ADDRESS, &octets),
            attribute(libc::IFA_FLAGS, &flags.to_ne_bytes()),
        ];
        if self.is_deprecated {
            let (preferred_s, valid_s, rest) = ([0; 4], [0xff; 4], [0; 8]);
            let info = [&preferred_s[..], &valid_s, &rest].concat();
            attributes.push(attribute(libc::IFA_CACHEINFO, &info));
        }
        netlink.order(libc::RTM_NEWADDR, &header, &attributes)
    }
}

impl Route {
    /// Reads `rtmsg` with its attributes.
    fn read(payload: &[u8]) -> Option<Self> {
        let (header, rest) = payload.split_first_chunk::<12>()?;
        let &[
            family,
            prefix_len,
            source_len,
            service,
            table,
            _,
            scope,
            kind,
            ..,
        ] = header;
        let is_v6 = match i32::from(family) {
            libc::AF_INET => false,
            libc::AF_INET6 => true,
            _ => return None,
        };
        // What the kernel remembers of a path is no route.
        if u32_at(header, 8)? & libc::RTM_F_CLONED != 0 {
            return None;
        }
        let mut route = Self {
            is_v6,
            network: vec![0; if is_v6 { 16 } else { 4 }],
            prefix_len,
            source_len,
            service,
            table: u32::from(table),
            scope,
            kind,
            metric: 0,
            out: Vec::new(),
            attributes: Vec::new(),
        };
        for (kind, value) in attributes(rest) {
            let number = u32_at(value, 0);
            match kind {
                libc::RTA_DST if value.len() == route.network.len() => {
                    route.network.copy_from_slice(value);
                }
                libc::RTA_TABLE => route.table = number?,
                libc::RTA_PRIORITY => route.metric = number?,
                libc::RTA_OIF => route.out.extend(number),
                libc::RTA_MULTIPATH => route.out.extend(hops(value)),
                kind if KEPT.contains(&kind) => route.attributes.push((kind, value.to_vec())),
                _ => {}
            }
        }
        Some(route)
    }

    /// Whether packets to the same addresses ask for both.
    fn is_for_the_same(&self, other: &Self) -> bool {
        let key = |route: &Self| (route.is_v6, route.prefix_len, route.service, route.table);
        key(self) == key(other)
            && self.network == other.network
            && self.source_len == other.source_len
            && self.source() == other.source()
    }

    fn source(&self) -> Option<&[u8]> {
        let source = { self.attributes.iter() }.find(|(kind, _)| *kind == libc::RTA_SRC);
        source.map(|(_, value)| &value[..])
    }

    /// The two halves of its network; `None` if that is one address.
    fn halves(&self) -> Option<[Self; 2]> {
        let bit = usize::from(self.prefix_len);
        let mut halves = [self.clone(), self.clone()];
        halves.iter_mut().for_each(|half| half.prefix_len += 1);
        *halves[1].network.get_mut(bit / 8)? |= 0x80 >> (bit % 8);
        Some(halves)
    }

    /// Adds it before others to the same network with the same metric, by another interface.
    fn add(&self, netlink: &Netlink, index: u32) -> io::Result<()> {
        let family = if self.is_v6 {
            libc::AF_INET6
        } else {
            libc::AF_INET
        };
        // Of greater tables the attribute alone has the number.
        let table = u8::try_from(self.table).unwrap_or(libc::RT_TABLE_UNSPEC);
        let mut header = vec![family as u8, self.prefix_len, self.source_len, self.service];
        header.extend([table, libc::RTPROT_STATIC, self.scope, self.kind]);
        let has_gateway = { self.attributes.iter() }
            .any(|(kind, _)| matches!(*kind, libc::RTA_GATEWAY | libc::RTA_VIA));
        let flags = if has_gateway { RTNH_F_ONLINK } else { 0 };
        header.extend(flags.to_ne_bytes());
        let number = |kind: u16, value: u32| attribute(kind, &value.to_ne_bytes());
        let mut attributes = vec![
            attribute(libc::RTA_DST, &self.network),
            number(libc::RTA_OIF, index),
            number(libc::RTA_TABLE, self.table),
        ];
        if self.metric > 0 {
            attributes.push(number(libc::RTA_PRIORITY, self.metric));
        }
        let kept = { self.attributes.iter() }.map(|(kind, value)| attribute(*kind, value));
        attributes.extend(kept);
        netlink.order(libc::RTM_NEWROUTE, &header, &attributes)
    }

    /// As ip-route(8) has it.
    fn words(&self) -> String {
        let address = match <[u8; 4]>::try_from(&self.network[..]) {
            Ok(octets) => IpAddr::from(octets),
            Err(_) => {
                let octets = <[u8; 16]>::try_from(&self.network[..]);
                IpAddr::from(octets.expect("the network of IPv6 has 16 bytes"))
            }
        };
        let table = match self.table {
            table if table == u32::from(libc::RT_TABLE_MAIN) => String::new(),
            table => format!(" of table {table}"),
        };
        format!("{address}/{}{table}", self.prefix_len)
    }
}

/// The interfaces in a list of `rtnexthop`.
fn hops(mut left: &[u8]) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(*left.first_chunk()?));
        let out = u32_at(left, 4)?;
        left = left
            .get(len.max(8).next_multiple_of(4)..)
            .unwrap_or_default();
        Some(out)
    })
}

/// The routes that take the packets which now leave by an interface, and remarks about those that
/// no route takes.
fn longer(all: &[Route], index: u32) -> (Vec<Route>, Vec<String>) {
    let (mut found, mut remarks) = (Vec::new(), Vec::new());
    for route in all.iter().filter(|route| route.out.contains(&index)) {
        let is_local = route.table == u32::from(libc::RT_TABLE_LOCAL);
        // In the local table are the host's own addresses, which stay where they are.
        let is_broadcast = route.kind == libc::RTN_BROADCAST && !route.is_v6;
        let is_sent = route.kind == libc::RTN_UNICAST && !is_local || is_broadcast;
        // Link-local networks of IPv6 are each interface's own.
        let is_link_local = route.is_v6 && route.network.starts_with(&[0xfe, 0x80]);
        let others = all.iter().filter(|other| other.is_for_the_same(route));
        let best = others.min_by_key(|other| other.metric);
        if !is_sent || is_link_local || best != Some(route) {
            continue;
        }
        if route.out.len() > 1 {
            remarks.push(format!(
                "the route {} has several next hops: its packets go past this",
                route.words()
            ));
            continue;
        }
        let exists = |half: &Route| all.iter().any(|other| other.is_for_the_same(half));
        match route.halves() {
            Some(halves) if !is_broadcast => {
                found.extend(halves.into_iter().filter(|half| !exists(half)));
            }
            _ if route.is_v6 && route.metric <= 1 => remarks.push(format!(
                "the route {} has the metric 1, and nothing comes before that: its packets go \
                 past this",
                route.words()
            )),
            _ => found.push(Route {
                // Of IPv6, two routes by gateways with the same metric would share the packets.
                metric: route.metric - u32::from(route.is_v6),
                ..route.clone()
            }),
        }
    }
    (found, remarks)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IF: u32 = 2;
    const OTHER: u32 = 3;

    fn route(words: &str, out: &[u32], metric: u32) -> Route {
        let (network, prefix_len) = words.split_once('/').expect("a prefix");
        let network: IpAddr = network.parse().expect("an address");
        let network = match network {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        Route {
            is_v6: network.len() == 16,
            network,
            prefix_len: prefix_len.parse().expect("a number"),
            source_len: 0,
            service: 0,
            table: u32::from(libc::RT_TABLE_MAIN),
            scope: 0,
            kind: libc::RTN_UNICAST,
            metric,
            out: out.to_vec(),
            attributes: Vec::new(),
        }
    }

    fn found(all: &[Route]) -> Vec<(String, u32)> {
        let found = longer(all, IF).0;
        let words = found.iter().map(|route| (route.words(), route.metric));
        words.collect()
    }

    fn expected(words: &[(&str, u32)]) -> Vec<(String, u32)> {
        let words = words
            .iter()
            .map(|(words, metric)| ((*words).to_owned(), *metric));
        words.collect()
    }

    #[test]
    fn each_route_of_an_interface_is_taken_by_longer_ones() {
        let all = [
            route("0.0.0.0/0", &[IF], 100),
            route("192.0.2.0/24", &[IF], 0),
            route("198.51.100.7/32", &[IF], 0),
            route("::/0", &[IF], 1024),
            route("2001:db8::/63", &[IF], 256),
            route("2001:db8::7/128", &[IF], 256),
            route("10.0.0.0/8", &[OTHER], 0),
        ];
        let wanted = [
            ("0.0.0.0/1", 100),
            ("128.0.0.0/1", 100),
            ("192.0.2.0/25", 0),
            ("192.0.2.128/25", 0),
            ("198.51.100.7/32", 0),
            ("::/1", 1024),
            ("8000::/1", 1024),
            ("2001:db8::/64", 256),
            ("2001:db8:0:1::/64", 256),
            ("2001:db8::7/128", 255),
        ];
        assert_eq!(found(&all), expected(&wanted));
    }

    #[test]
    fn packets_that_leave_elsewhere_are_left_there() {
        // Another interface has the better default route, or one as long as a half.
        let all = [
            route("0.0.0.0/0", &[IF], 600),
            route("0.0.0.0/0", &[OTHER], 100),
        ];
        assert_eq!(found(&all), []);
        let all = [
            route("10.0.0.0/8", &[IF], 0),
            route("10.128.0.0/9", &[OTHER], 50),
        ];
        assert_eq!(found(&all), expected(&[("10.0.0.0/9", 0)]));
        // Another table is another matter.
        let mut other = route("10.128.0.0/9", &[OTHER], 50);
        other.table = 100;
        let all = [route("10.0.0.0/8", &[IF], 0), other];
        assert_eq!(found(&all).len(), 2);
        // What several interfaces share is reported.
        let all = [route("10.0.0.0/8", &[IF, OTHER], 0)];
        let (routes, remarks) = longer(&all, IF);
        assert_eq!(routes, []);
        assert!(remarks[0].contains("10.0.0.0/8 has several"), "{remarks:?}");
    }

    #[test]
    fn own_addresses_and_link_local_networks_have_no_detour() {
        let mut own = route("192.0.2.1/32", &[IF], 0);
        own.table = u32::from(libc::RT_TABLE_LOCAL);
        own.kind = libc::RTN_LOCAL;
        let mut broadcast = route("192.0.2.255/32", &[IF], 0);
        broadcast.table = own.table;
        broadcast.kind = libc::RTN_BROADCAST;
        let all = [own, broadcast, route("fe80::/64", &[IF], 256)];
        assert_eq!(found(&all), expected(&[("192.0.2.255/32 of table 255", 0)]));
    }
}
