//! Whether a device takes frames that an XDP program redirects to it: the kernel's list of what
//! devices can do (`Documentation/netlink/specs/netdev.yaml`), by generic netlink.

use std::io;

use rustix::net::netlink::GENERIC;

use crate::netlink::{Netlink, attribute, find};

impl Netlink {
    /// Whether the driver of the interface with this number takes frames that an XDP program
    /// redirects to it. A veth does while something polls its other end: an XDP program, or
    /// generic receive offload. In the network namespace of the calling thread; Linux 6.3.
    pub fn is_redirect_target(index: u32) -> io::Result<bool> {
        /// Of linux/netdev.h: the command, its attributes, and the feature.
        const DEV_GET: u8 = 1;
        const DEV_IFINDEX: u16 = 1;
        const DEV_XDP_FEATURES: u16 = 3;
        const NDO_XMIT: u64 = 1 << 2;
        let netlink = Self::of_protocol(GENERIC)?;
        let family = netlink.family(b"netdev\0")?;
        let wanted = attribute(DEV_IFINDEX, &index.to_ne_bytes());
        let features = netlink.ask(family, DEV_GET, &[wanted], DEV_XDP_FEATURES)?;
        let features = features.and_then(|bytes| bytes.try_into().ok());
        let features = features.ok_or(io::ErrorKind::InvalidData)?;
        Ok(u64::from_ne_bytes(features) & NDO_XMIT != 0)
    }

    /// The number by which messages of a generic family go.
    fn family(&self, name: &[u8]) -> io::Result<u16> {
        const CONTROLLER: u16 = libc::GENL_ID_CTRL as u16;
        const GET_FAMILY: u8 = libc::CTRL_CMD_GETFAMILY as u8;
        const FAMILY_ID: u16 = libc::CTRL_ATTR_FAMILY_ID as u16;
        const FAMILY_NAME: u16 = libc::CTRL_ATTR_FAMILY_NAME as u16;
        let name = attribute(FAMILY_NAME, name);
        let number = self.ask(CONTROLLER, GET_FAMILY, &[name], FAMILY_ID)?;
        let number = number.and_then(|bytes| bytes.try_into().ok());
        Ok(u16::from_ne_bytes(number.ok_or(io::ErrorKind::NotFound)?))
    }

    /// One attribute of the answer to a command of a generic family.
    fn ask(
        &self,
        family: u16,
        command: u8,
        attributes: &[Vec<u8>],
        wanted: u16,
    ) -> io::Result<Option<Vec<u8>>> {
        /// `struct genlmsghdr`: command and version.
        const HEADER_LEN: usize = 4;
        const ACK: u16 = libc::NLM_F_ACK as u16;
        let mut found = None;
        self.send(family, ACK, &[command, 1, 0, 0], attributes)?;
        self.receive(|kind, payload| {
            if kind == family {
                let attributes = payload.get(HEADER_LEN..).unwrap_or_default();
                found = find(attributes, wanted).map(<[u8]>::to_vec);
            }
        })?;
        Ok(found)
    }
}

#[cfg(test)]
mod wall {
    use std::os::fd::AsFd;

    use super::*;
    use crate::{NetNamespace, may_make_network_namespaces};

    #[test]
    fn a_veth_is_no_redirect_target_until_it_is_polled() {
        if !may_make_network_namespaces() {
            println!("SKIP: redirect target: network namespaces need root");
            return;
        }
        let thread = std::thread::spawn(|| {
            let far = NetNamespace::new().expect("a namespace");
            let near = NetNamespace::new().expect("a namespace");
            let netlink = Netlink::open().expect("netlink");
            netlink
                .add_veth("near", "far", far.as_fd())
                .expect("a pair");
            let index = netlink.link_named("near").expect("made").index;
            let is_target = Netlink::is_redirect_target(index);
            assert!(!is_target.expect("the kernel says so"));
            let missing = Netlink::is_redirect_target(4_000_000).expect_err("none");
            assert_eq!(missing.raw_os_error(), Some(libc::ENODEV));
            drop(near);
        });
        thread.join().expect("no panic");
    }
}
