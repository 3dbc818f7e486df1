//! What the kernel knows of neighbours, for code beside it that sends frames of its own but leaves
//! ARP and neighbour discovery to it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::netlink::{DUMP, find, u32_at};
use crate::{Datagrams, Netlink, Stopwatch};

/// A neighbour whose Ethernet address the kernel knows, perhaps from some time ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// The number of the interface at which it is.
    pub index: u32,
    /// Its network address.
    pub address: IpAddr,
    /// Its Ethernet address.
    pub hardware_address: [u8; 6],
}

impl Neighbour {
    /// Reads `ndmsg` and its attributes; `None` if its address is not known, or none of Ethernet's.
    fn read(payload: &[u8]) -> Option<Self> {
        // Of linux/neighbour.h, beside 0: nothing was tried yet.
        const UNKNOWN: u16 = libc::NUD_INCOMPLETE | libc::NUD_FAILED;
        let (header, rest) = payload.split_first_chunk::<12>()?;
        let state = u16::from_ne_bytes([header[8], header[9]]);
        if state == 0 || state & UNKNOWN != 0 {
            return None;
        }
        let octets = find(rest, libc::NDA_DST)?;
        let address = match i32::from(header[0]) {
            libc::AF_INET => IpAddr::from(<[u8; 4]>::try_from(octets).ok()?),
            libc::AF_INET6 => IpAddr::from(<[u8; 16]>::try_from(octets).ok()?),
            _ => return None,
        };
        let hardware_address = find(rest, libc::NDA_LLADDR)?.try_into().ok()?;
        Some(Self {
            index: u32_at(header, 4)?,
            address,
            hardware_address,
        })
    }
}

impl Netlink {
    /// The neighbours of all interfaces whose Ethernet addresses are known.
    pub fn neighbours(&self) -> io::Result<Vec<Neighbour>> {
        let mut neighbours = Vec::new();
        self.send(libc::RTM_GETNEIGH, DUMP, &[0; 12], &[])?;
        self.receive(|kind, payload| {
            if kind == libc::RTM_NEWNEIGH {
                neighbours.extend(Neighbour::read(payload));
            }
        })?;
        Ok(neighbours)
    }

    /// The Ethernet address of a neighbour at an interface. Where it is not known, the kernel is
    /// made to ask for it, by an empty datagram to the discard port (RFC 863). `None`: nobody has
    /// answered in time.
    pub fn find_neighbour(
        &self,
        index: u32,
        address: IpAddr,
        patience: Duration,
    ) -> io::Result<Option<[u8; 6]>> {
        const DISCARD: u16 = 9;
        const LOOK_EVERY: Duration = Duration::from_millis(5);
        let watch = Stopwatch::start();
        let mut asked = None;
        loop {
            let known = self.neighbours()?.into_iter();
            let mut known = known.filter(|it| (it.index, it.address) == (index, address));
            if let Some(neighbour) = known.next() {
                return Ok(Some(neighbour.hardware_address));
            }
            if watch.elapsed() > patience {
                return Ok(None);
            }
            if asked.is_none() {
                let to = SocketAddr::new(address, DISCARD);
                let socket = Datagrams::connect(to)?;
                // An error that is about the neighbour shows as one that has not answered.
                let _ = socket.send(&[]);
                asked = Some(socket);
            }
            let wait = LOOK_EVERY.try_into().map_err(io::Error::other)?;
            let _ = rustix::event::poll(&mut [], Some(&wait));
        }
    }
}

#[cfg(test)]
mod wall {
    use std::os::fd::AsFd;

    use super::*;
    use crate::{NetNamespace, may_make_network_namespaces};

    #[test]
    fn the_kernel_is_made_to_ask_for_a_neighbour() {
        if !may_make_network_namespaces() {
            println!("SKIP: neighbours: network namespaces need root");
            return;
        }
        let thread = std::thread::spawn(|| -> io::Result<()> {
            let far = NetNamespace::new().expect("a namespace");
            let near = NetNamespace::new().expect("a namespace");
            let netlink = Netlink::open()?;
            netlink.add_veth("near", "far", far.as_fd())?;
            let [here, there, nobody] = [1, 2, 3].map(|last| IpAddr::from([198, 18, 0, last]));
            let index = netlink.link_named("near")?.index;
            netlink.add_address(index, here, 24)?;
            netlink.switch_on(index)?;
            far.enter().expect("a namespace");
            let other = Netlink::open()?;
            let other_index = other.link_named("far")?.index;
            other.add_address(other_index, there, 24)?;
            other.set_ethernet(other_index, [2, 0, 0, 0, 0, 7], 1500)?;
            other.switch_on(other_index)?;
            near.enter().expect("a namespace");
            let of_v4 = |netlink: &Netlink| -> io::Result<Vec<Neighbour>> {
                let all = netlink.neighbours()?.into_iter();
                Ok(all
                    .filter(|it| it.address.is_ipv4() && it.index == index)
                    .collect())
            };
            assert_eq!(of_v4(&netlink)?, []);
            let silent = netlink.find_neighbour(index, nobody, Duration::from_millis(20))?;
            assert_eq!(silent, None);
            let found = netlink.find_neighbour(index, there, Duration::from_secs(30))?;
            assert_eq!(found, Some([2, 0, 0, 0, 0, 7]));
            let known = Neighbour {
                index,
                address: there,
                hardware_address: [2, 0, 0, 0, 0, 7],
            };
            // One that is silent is none.
            assert_eq!(of_v4(&netlink)?, [known]);
            Ok(())
        });
        thread.join().expect("no panic").expect("no error");
    }
}
