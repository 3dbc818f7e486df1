//! TAP devices: the host sends into one, and the frames come out of a file
//! (Documentation/networking/tuntap.rst).
//!
//! Offloads stay off, so frames are at most the MTU long and their checksums whole.

use std::ffi::CString;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use lineside_frame::{BlockWriter, Burst, Descriptor, LinkType, Pool};
use lineside_host::Netlink;
use rustix::io::Errno;

use super::checksum_offload::finish;
use super::clock::{ClockWatch, StampClock};
use super::options::EndOptions;
use crate::{
    Facts, Live, LiveFacts, LivePort, Method, Port, PortError, Receive, Received, Transmit,
};

/// Room for some forty of the longest frames.
const BLOCK_LEN: usize = 64 * 1024;

/// Makes a TAP device of a file, in this network namespace. It goes when the port is dropped. The
/// kernel puts the first free number in place of `%d` in its name.
pub(super) fn open(
    name: &str,
    options: &EndOptions<'_>,
    file: OwnedFd,
) -> Result<Box<dyn LivePort>, PortError> {
    let failed = |action| {
        move |cause: io::Error| PortError::Interface {
            name: name.to_owned(),
            action,
            cause,
        }
    };
    let name = &make_device(name, &file).map_err(failed("make the TAP device"))?;
    let netlink = Netlink::open().map_err(failed("ask the kernel about"))?;
    let found = netlink.link_named(name).map_err(failed("find"))?;
    let blocks_max = (options.bytes_max / BLOCK_LEN).max(2);
    let Some(pool) = Pool::new(BLOCK_LEN, blocks_max, options.budget) else {
        return Err(PortError::Memory {
            name: name.to_owned(),
            needed_bytes: 2 * BLOCK_LEN,
        });
    };
    Ok(Box::new(TapPort {
        file,
        netlink,
        index: found.index,
        frame_len_max: options.mtu as usize + 18,
        pool,
        block: None,
        is_shut: false,
        clock: options.clock,
        watch: ClockWatch::new(),
        facts: Facts {
            name: name.to_owned(),
            format: Method::Tap.to_string(),
            link_types: vec![LinkType::ETHERNET],
            resolution_ns: Some(1),
            live: Some(LiveFacts {
                method: Method::Tap,
                reason: "made for this run".to_owned(),
                mtu: options.mtu,
                ..LiveFacts::default()
            }),
            ..Facts::default()
        },
    }))
}

/// Makes the device whose other side the file is. Returns its name.
fn make_device(name: &str, file: &OwnedFd) -> io::Result<String> {
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
        return Err(io::Error::last_os_error());
    }
    let name = request.ifr_name.iter().take_while(|&&byte| byte != 0);
    let name: Vec<u8> = name.map(|&byte| byte as u8).collect();
    Ok(String::from_utf8_lossy(&name).into_owned())
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
        burst.iter_mut().for_each(finish);
        let mut sent = 0;
        for frame in burst.iter() {
            match rustix::io::writev(&self.file, &frame.parts().map(IoSlice::new)) {
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

    fn set_carrier(&mut self, is_up: bool) -> bool {
        let value = libc::c_int::from(is_up);
        // SAFETY: the kernel (Linux 5.0 and later) reads one number, which lives.
        unsafe { libc::ioctl(self.file.as_raw_fd(), libc::TUNSETCARRIER, &raw const value) == 0 }
    }
}
