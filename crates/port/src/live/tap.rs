//! TAP devices: the host sends into one, and the frames come out of a file
//! (Documentation/networking/tuntap.rst).
//!
//! Offloads stay off, so frames are at most the MTU long and their checksums whole.

use std::ffi::CString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use lineside_account::Budget;
use lineside_frame::{BlockWriter, Burst, Descriptor, LinkType, Pool};
use lineside_host::Netlink;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::StampClock;
use super::clock::ClockWatch;
use crate::{
    Facts, Live, LiveFacts, LivePort, Method, Port, PortError, Receive, Received, Transmit,
};

/// Room for some forty of the longest frames.
const BLOCK_LEN: usize = 64 * 1024;
/// The loopback interface is the first one of each network namespace.
const LOOPBACK: u32 = 1;

/// One end of a link between two hosts: its addresses, with networks of 24 and 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapEnd {
    /// The Ethernet address.
    pub ethernet: [u8; 6],
    /// The IPv4 address.
    pub v4: Ipv4Addr,
    /// The IPv6 address; left away where the kernel has none.
    pub v6: Ipv6Addr,
}

/// Makes a TAP device in this network namespace, with these addresses, and switches it and the
/// loopback interface on.
///
/// The other end's addresses are entered permanently: they are never asked for, so that no frame
/// passes but what the hosts' own programs send. The device goes when the port is dropped.
pub fn open_tap(
    name: &str,
    here: &TapEnd,
    there: &TapEnd,
    mtu: u32,
    clock: StampClock,
    budget: &Budget,
    bytes_max: usize,
) -> Result<Box<dyn LivePort>, PortError> {
    let failed = |action| {
        move |cause: io::Error| PortError::Interface {
            name: name.to_owned(),
            action,
            cause,
        }
    };
    let file = open_device(name)?;
    let netlink = Netlink::open().map_err(failed("ask the kernel about"))?;
    let found = netlink.link_named(name).map_err(failed("find"))?;
    let index = found.index;
    set_up(&netlink, index, here, there, mtu).map_err(failed("set up"))?;
    let blocks_max = (bytes_max / BLOCK_LEN).max(2);
    let Some(pool) = Pool::new(BLOCK_LEN, blocks_max, budget) else {
        return Err(PortError::Memory {
            name: name.to_owned(),
            needed_bytes: 2 * BLOCK_LEN,
        });
    };
    Ok(Box::new(TapPort {
        file,
        netlink,
        index,
        frame_len_max: mtu as usize + 18,
        pool,
        block: None,
        is_shut: false,
        clock,
        watch: ClockWatch::new(),
        facts: Facts {
            name: name.to_owned(),
            format: Method::Tap.to_string(),
            link_types: vec![LinkType::ETHERNET],
            resolution_ns: Some(1),
            live: Some(LiveFacts {
                method: Method::Tap,
                reason: "made for this run".to_owned(),
                mtu,
                ..LiveFacts::default()
            }),
            ..Facts::default()
        },
    }))
}

/// The file whose other side is a new device of this name.
fn open_device(name: &str) -> Result<OwnedFd, PortError> {
    const PATH: &str = "/dev/net/tun";
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(PATH, flags, Mode::empty());
    let file = file.map_err(|error| PortError::Tap {
        cause: error.into(),
    })?;
    // SAFETY: all zeros are a value of this structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let c_name = CString::new(name).unwrap_or_default();
    let bytes = c_name.as_bytes_with_nul();
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the request is whole, its name ends with a zero, and the kernel only reads and writes
    // it.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if result < 0 {
        return Err(PortError::Interface {
            name: name.to_owned(),
            action: "make the TAP device",
            cause: io::Error::last_os_error(),
        });
    }
    Ok(file)
}

fn set_up(
    netlink: &Netlink,
    index: u32,
    here: &TapEnd,
    there: &TapEnd,
    mtu: u32,
) -> io::Result<()> {
    netlink.set_ethernet(index, here.ethernet, mtu)?;
    // Without an address of its own making a device sends no router solicitations.
    let has_v6 = netlink.make_no_v6_address(index).is_ok();
    netlink.switch_on(LOOPBACK)?;
    netlink.switch_on(index)?;
    let mut ends = vec![(IpAddr::V4(here.v4), IpAddr::V4(there.v4), 24)];
    if has_v6 {
        ends.push((IpAddr::V6(here.v6), IpAddr::V6(there.v6), 64));
    }
    for (own, other, prefix_len) in ends {
        netlink.add_address(index, own, prefix_len)?;
        netlink.add_neighbour(index, other, there.ethernet)?;
    }
    Ok(())
}

struct TapPort {
    file: OwnedFd,
    netlink: Netlink,
    index: u32,
    /// With an Ethernet header and a tag.
    frame_len_max: usize,
    pool: Pool,
    /// The block into which frames are read.
    block: Option<BlockWriter>,
    is_shut: bool,
    clock: StampClock,
    watch: ClockWatch,
    facts: Facts,
}

impl TapPort {
    fn failure(&self, action: &'static str, error: Errno) -> PortError {
        if matches!(error, Errno::BADFD | Errno::NODEV) {
            return PortError::InterfaceGone {
                name: self.facts.name.clone(),
                frames: self.facts.frames,
            };
        }
        PortError::Interface {
            name: self.facts.name.clone(),
            action,
            cause: error.into(),
        }
    }

    /// Takes another block if the present one has no room for a frame; false if there is none.
    fn has_room(&mut self) -> bool {
        let len = self.frame_len_max;
        if { self.block.as_mut() }.is_some_and(|block| block.unfilled().len() >= len) {
            return true;
        }
        self.block = None;
        self.block = self.pool.take();
        self.block.is_some()
    }
}

impl Port for TapPort {
    fn facts(&self) -> Vec<&Facts> {
        vec![&self.facts]
    }
}

impl Receive for TapPort {
    fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        if self.is_shut {
            return Ok(Received::End);
        }
        let before = burst.len();
        while burst.len() - before < max {
            if !self.has_room() {
                if burst.len() == before {
                    return Ok(Received::PoolEmpty);
                }
                break;
            }
            let Some(block) = &mut self.block else { break };
            let len = match rustix::io::read(&self.file, block.unfilled()) {
                Ok(len) => len,
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(error) => return Err(self.failure("receive from", error)),
            };
            block.advance(len);
            self.facts.frames += 1;
            self.facts.bytes += len as u64;
            let descriptor = Descriptor {
                stamp_ns: Some(self.clock.now()),
                wire_len: len as u32,
                link_type: LinkType::ETHERNET,
                number: self.facts.frames,
                ..Descriptor::default()
            };
            burst.push(block.take(len, descriptor));
        }
        Ok(match burst.len() - before {
            0 => Received::Idle {
                until_ns: self.clock.now(),
            },
            count => Received::Frames(count),
        })
    }

    fn leave(&mut self, ahead: &mut Burst) {
        ahead.clear();
    }
}

impl Transmit for TapPort {
    fn transmit(&mut self, burst: &mut Burst) -> Result<usize, PortError> {
        let mut sent = 0;
        for frame in burst.iter() {
            match rustix::io::write(&self.file, frame.bytes()) {
                Ok(_) => sent += 1,
                // Too short for an Ethernet header: no device of the host would have sent it on
                // either.
                Err(Errno::INVAL) => sent += 1,
                Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => break,
                // The device was switched off: a cable that was pulled out.
                Err(Errno::IO) => sent += 1,
                Err(error) => return Err(self.failure("send to", error)),
            }
        }
        burst.drain(..sent);
        Ok(sent)
    }

    fn reclaim(&mut self) -> usize {
        0
    }

    /// No: there is no driver.
    fn stamp_next(&mut self) -> bool {
        false
    }

    fn handed_over(&mut self) -> Option<Option<i64>> {
        None
    }
}

impl Live for TapPort {
    fn wake_on<'a>(&'a self, descriptors: &mut Vec<BorrowedFd<'a>>) {
        descriptors.push(self.file.as_fd());
    }

    /// 0: the device does not show how many frames wait.
    fn backlog(&self) -> f32 {
        0.0
    }

    fn account(&mut self) {
        // Counts that cannot be had stay as they were. What the host transmits is received here.
        let link = self.netlink.link(self.index).ok();
        let dropped = link
            .and_then(|link| link.stats)
            .map(|stats| stats.tx_dropped);
        let was_set = self.watch.was_set();
        let frames = self.facts.frames;
        let live = self.facts.live.get_or_insert_default();
        live.clock_steps += u64::from(was_set);
        live.dropped_ring = dropped.unwrap_or(live.dropped_ring);
        live.arrived = frames + live.dropped_ring;
    }

    fn shut(&mut self) {
        self.is_shut = true;
    }
}
