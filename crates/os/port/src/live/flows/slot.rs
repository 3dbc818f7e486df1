//! What the driver does with frames of a flow, and what it counts of them: two cache lines of
//! memory that user space and the program share.
//!
//! ```text
//!   0 new source │ 16 new destination │ 32 new ports │ 36 interface │ 40 new Ethernet addresses
//!  52 Ethernet address here │ 58 difference of the IPv4 header │ 60 that of TCP or UDP
//!  62 longest frame
//!  64 frames │ 72 bytes │ 80 time of the latest
//! ```
//!
//! Addresses, ports and differences stand as in a frame; IPv4 addresses take the first four bytes
//! of their fields.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use lineside_wire::checksum;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::live::bpf;
use crate::live::mapping::Mapping;

use super::key::FlowKey;

/// What to do with the frames of a flow's direction. Their time to live falls by one, and all
/// checksums follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowRule {
    /// Which frames.
    pub key: FlowKey,
    /// Where they seem to come from afterwards, of the same family.
    pub new_source: SocketAddr,
    /// Where they go afterwards.
    pub new_destination: SocketAddr,
    /// The [number](crate::live::Interface::index) of the interface by which they leave,
    /// which may be the one at which they come.
    pub out: u32,
    /// The Ethernet address to which they come: a frame to another one is not forwarded.
    pub ethernet_here: [u8; 6],
    /// The Ethernet address from which they leave.
    pub ethernet_source: [u8; 6],
    /// The Ethernet address to which they leave.
    pub ethernet_destination: [u8; 6],
}

/// What the driver forwarded of a flow's direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Frames.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the latest of them came, by CLOCK_MONOTONIC and to a few milliseconds.
    pub latest_ns: Option<i64>,
}

pub(super) const NEW_SOURCE: i16 = 0;
pub(super) const NEW_DESTINATION: i16 = 16;
pub(super) const NEW_PORTS: i16 = 32;
pub(super) const OUT: i16 = 36;
pub(super) const ETHERNET: i16 = 40;
pub(super) const HERE: i16 = 52;
pub(super) const HEADER_DIFFERENCE: i16 = 58;
pub(super) const DIFFERENCE: i16 = 60;
pub(super) const LEN_MAX: i16 = 62;
pub(super) const FRAMES: i16 = 64;
pub(super) const BYTES: i16 = 72;
pub(super) const LATEST_NS: i16 = 80;

pub(super) const SLOT_LEN: usize = 128;
const RULE_LEN: usize = FRAMES as usize;
const COUNTS_LEN: usize = LATEST_NS as usize + 8 - RULE_LEN;

/// The slots of a table.
pub(super) struct FlowSlots {
    map: OwnedFd,
    memory: Mapping,
}

impl FlowSlots {
    pub(super) fn new(count: u32) -> Result<Self, Errno> {
        let (kind, flags) = (bpf::MAP_TYPE_ARRAY, bpf::MAP_FLAG_MMAPABLE);
        let map = bpf::create_map(kind, SLOT_LEN as u32, count, flags)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let len = count as usize * SLOT_LEN;
        let memory = Mapping::of(map.as_fd(), 0, len, access, MapFlags::SHARED)?;
        Ok(Self { map, memory })
    }

    pub(super) fn map(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// Writes the rule of a slot that no key leads to, and zeros its counts. `len_max`: the longest
    /// frame that the interface carries by which they leave.
    pub(super) fn write(&self, number: u32, rule: &FlowRule, len_max: usize) {
        let bytes = rule_bytes(rule, len_max);
        let to = self.memory.at(number as usize * SLOT_LEN, RULE_LEN);
        // SAFETY: mapped (checked by `at`). The slots are this process's and the program's, which
        // has let go of a slot long before it is used again (see `super::SLOTS_KEPT`).
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), RULE_LEN) };
        for field in [FRAMES, BYTES, LATEST_NS] {
            self.counter(number, field).store(0, Ordering::Relaxed);
        }
    }

    /// What was counted so far. Frames and bytes may be a frame apart while some pass.
    pub(super) fn counts(&self, number: u32) -> FlowCounts {
        let read = |field| self.counter(number, field).load(Ordering::Relaxed);
        FlowCounts {
            frames: read(FRAMES),
            bytes: read(BYTES),
            latest_ns: match read(LATEST_NS) {
                0 => None,
                latest_ns => Some(latest_ns as i64),
            },
        }
    }

    fn counter(&self, number: u32, field: i16) -> &AtomicU64 {
        debug_assert!((field as usize) < RULE_LEN + COUNTS_LEN);
        let at = number as usize * SLOT_LEN + field as usize;
        let counter = self.memory.at(at, size_of::<u64>());
        // SAFETY: mapped (checked by `at`) and aligned, since the mapping and the fields are; both
        // sides write eight bytes at once.
        unsafe { AtomicU64::from_ptr(counter.cast().as_ptr()) }
    }
}

fn rule_bytes(rule: &FlowRule, len_max: usize) -> [u8; RULE_LEN] {
    let mut bytes = [0; RULE_LEN];
    let mut put = |at: i16, value: &[u8]| {
        bytes[at as usize..][..value.len()].copy_from_slice(value);
    };
    let key = &rule.key;
    let ends = [rule.new_source, rule.new_destination];
    for (at, end) in [NEW_SOURCE, NEW_DESTINATION].into_iter().zip(ends) {
        put(at, &super::key::address_bytes(end.ip()));
    }
    let ports = ends.map(|end| end.port().to_be_bytes());
    put(NEW_PORTS, ports.as_flattened());
    put(OUT, &rule.out.to_ne_bytes());
    put(ETHERNET, &rule.ethernet_destination);
    put(ETHERNET + 6, &rule.ethernet_source);
    put(HERE, &rule.ethernet_here);
    let sum_of = |address: IpAddr| checksum::sum(&super::key::address_bytes(address));
    let addresses = |ends: [IpAddr; 2]| checksum::add(sum_of(ends[0]), sum_of(ends[1]));
    let old = addresses([key.source.ip(), key.destination.ip()]);
    let new = addresses(ends.map(|end| end.ip()));
    // RFC 1624: what is gone is added complemented. The time to live falls by one.
    let addresses = checksum::add(!old, new);
    let header = checksum::add(addresses, !0x0100);
    put(HEADER_DIFFERENCE, &header.to_be_bytes());
    let ports = |source: u16, destination: u16| checksum::add(source, destination);
    let old = ports(key.source.port(), key.destination.port());
    let new = ports(ends[0].port(), ends[1].port());
    let all = checksum::add(addresses, checksum::add(!old, new));
    put(DIFFERENCE, &all.to_be_bytes());
    let len_max = u16::try_from(len_max).unwrap_or(u16::MAX);
    put(LEN_MAX, &len_max.to_ne_bytes());
    bytes
}
