//! What the driver of an interface offers: modes of XDP (the generic netlink family `netdev` of
//! Linux 6.3) and clocks that stamp frames (ethtool). Nothing is attached to find out.

use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

use super::Interface;
use super::ethtool::stamps;

/// What the driver of an interface offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offers {
    /// The driver runs XDP programs itself: AF_XDP is native. `None`: the kernel does not say.
    pub native_xdp: Option<bool>,
    /// Its AF_XDP needs no copies, for programs that ask for it; ours copies.
    pub zero_copy: Option<bool>,
    /// The kernel stamps frames that arrive.
    pub software_stamps: Option<bool>,
    /// The adapter stamps frames that arrive.
    pub hardware_stamps: Option<bool>,
}

impl Offers {
    /// Asks kernel and driver.
    pub fn of(interface: &Interface) -> Self {
        let features = xdp_features(interface.index);
        let stamps = stamps(&interface.name);
        Self {
            native_xdp: features.map(|bits| bits & REDIRECTS == REDIRECTS),
            zero_copy: features.map(|bits| bits & ZERO_COPY != 0),
            software_stamps: stamps.map(|(software, _)| software),
            hardware_stamps: stamps.map(|(_, hardware)| hardware),
        }
    }
}

// Of linux/netdev.h: NETDEV_XDP_ACT_BASIC and _REDIRECT; NETDEV_XDP_ACT_XSK_ZEROCOPY.
const REDIRECTS: u64 = 0b11;
const ZERO_COPY: u64 = 0b1000;

/// Bytes of `nlmsghdr` with `genlmsghdr`.
const HEADERS_LEN: usize = 20;

fn xdp_features(index: u32) -> Option<u64> {
    const FAMILY_ID: u16 = 1;
    const FAMILY_NAME: u16 = 2;
    const GET_FAMILY: u8 = 3;
    const DEV_GET: u8 = 1;
    const DEV_INDEX: u16 = 1;
    const DEV_FEATURES: u16 = 3;
    let family = asked(
        libc::GENL_ID_CTRL as u16,
        GET_FAMILY,
        (FAMILY_NAME, b"netdev\0"),
        FAMILY_ID,
    )?;
    let family = u16::from_ne_bytes(family.get(..2)?.try_into().ok()?);
    let features = asked(
        family,
        DEV_GET,
        (DEV_INDEX, &index.to_ne_bytes()),
        DEV_FEATURES,
    )?;
    Some(u64::from_ne_bytes(features.get(..8)?.try_into().ok()?))
}

/// Asks a family with one attribute; the value of one of the answer.
fn asked(family: u16, command: u8, attribute: (u16, &[u8]), wanted: u16) -> Option<Vec<u8>> {
    let (kind, value) = attribute;
    let mut request = vec![0; HEADERS_LEN];
    request[4..6].copy_from_slice(&family.to_ne_bytes());
    request[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    request[16] = command;
    request[17] = 1;
    request.extend((value.len() as u16 + 4).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend(value);
    request.resize(request.len().next_multiple_of(4), 0);
    let len = request.len() as u32;
    request[..4].copy_from_slice(&len.to_ne_bytes());
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(GENERIC),
    );
    let socket = socket.ok()?;
    bind(&socket, &SocketAddrNetlink::new(0, 0)).ok()?;
    // To a socket that is not connected: the kernel.
    send(&socket, &request, SendFlags::empty()).ok()?;
    let mut answer = vec![0_u8; 32 << 10];
    let (len, _) = recv(&socket, &mut answer, RecvFlags::empty()).ok()?;
    answer.truncate(len);
    value_in(&answer, wanted)
}

/// The value of an attribute of a message, unless it is an error.
fn value_in(message: &[u8], wanted: u16) -> Option<Vec<u8>> {
    let number = |at: usize| {
        Some(u16::from_ne_bytes(
            message.get(at..at + 2)?.try_into().ok()?,
        ))
    };
    if number(4)? == libc::NLMSG_ERROR as u16 {
        return None;
    }
    let mut at = HEADERS_LEN;
    loop {
        let len = usize::from(number(at)?);
        if number(at + 2)? & 0x3fff == wanted {
            return message.get(at + 4..at + len).map(<[u8]>::to_vec);
        }
        at += len.max(4).next_multiple_of(4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_and_damage_ends_the_search() {
        let mut message = vec![0; HEADERS_LEN];
        message.extend([5, 0, 7, 0, 1, 0, 0, 0, 6, 0, 3, 0, 8, 9]);
        assert_eq!(value_in(&message, 3), Some(vec![8, 9]));
        assert_eq!(value_in(&message, 4), None);
        // A length of nothing, and one beyond the end.
        message[20] = 0;
        assert_eq!(value_in(&message, 4), None);
        message[20] = 200;
        assert_eq!(value_in(&message, 7), None);
        message[4] = 2;
        assert_eq!(value_in(&message, 7), None);
    }

    #[test]
    fn loopback_is_asked_without_harm() {
        let Ok(loopback) = Interface::named("lo") else {
            return;
        };
        let offers = Offers::of(&loopback);
        assert_ne!(offers.hardware_stamps, Some(true));
    }
}
