//! The outcomes of frames at a port with a table of flows, counted by the driver.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::live::bpf;
use crate::live::mapping::Mapping;

/// What the driver did with a frame, or why it left it to user space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Forwarded,
    NoFlow,
    Paused,
    OtherProtocol,
    OtherAddress,
    Options,
    Fragment,
    Flag,
    TimeToLive,
    Partial,
    TooLong,
    Malformed,
}

impl Outcome {
    pub(super) const ALL: [Self; 12] = [
        Self::Forwarded,
        Self::NoFlow,
        Self::Paused,
        Self::OtherProtocol,
        Self::OtherAddress,
        Self::Options,
        Self::Fragment,
        Self::Flag,
        Self::TimeToLive,
        Self::Partial,
        Self::TooLong,
        Self::Malformed,
    ];

    /// Where a core's counter of it is.
    pub(super) fn offset(self) -> i16 {
        8 * self as i16
    }
}

/// Bytes of a core's counters: two cache lines, which no other core writes.
pub(super) const OUTCOMES_LEN: usize = 128;

/// Frames at all ports with this table, of which steering let none pass to the host: those that the
/// driver forwarded, and those that it left to the port, by the first reason that it found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowOutcomes {
    /// Forwarded.
    pub forwarded: u64,
    /// Their flow is not in the table.
    pub no_flow: u64,
    /// The table was [paused](super::FlowTable::pause).
    pub paused: u64,
    /// Neither TCP nor UDP straight in IPv4 or IPv6, or with a VLAN tag.
    pub other_protocol: u64,
    /// Their Ethernet address is not the one at which the flow comes.
    pub other_address: u64,
    /// Options of IPv4.
    pub options: u64,
    /// Fragments of IPv4; those of IPv6 are of another protocol.
    pub fragment: u64,
    /// SYN, FIN or RST.
    pub flag: u64,
    /// They may not be sent on: their time to live is over.
    pub time_to_live: u64,
    /// The sender left the checksum to its adapter, and the driver cannot finish it. One complete
    /// checksum in 65,536 looks so.
    pub partial: u64,
    /// Longer than the interface carries by which they would leave.
    pub too_long: u64,
    /// Cut off, or of contradictory lengths.
    pub malformed: u64,
}

impl FlowOutcomes {
    /// Frames that the driver left to the ports.
    pub fn up(&self) -> u64 {
        let Self {
            forwarded: _,
            no_flow,
            paused,
            other_protocol,
            other_address,
            options,
            fragment,
            flag,
            time_to_live,
            partial,
            too_long,
            malformed,
        } = self;
        no_flow
            + paused
            + other_protocol
            + other_address
            + options
            + fragment
            + flag
            + time_to_live
            + partial
            + too_long
            + malformed
    }
}

/// The counters of all cores.
pub(super) struct Counters {
    map: OwnedFd,
    memory: Mapping,
    cores: usize,
}

impl Counters {
    pub(super) fn new() -> Result<Self, Errno> {
        let cores = cores_max();
        let (kind, flags) = (bpf::MAP_TYPE_ARRAY, bpf::MAP_FLAG_MMAPABLE);
        let map = bpf::create_map(kind, OUTCOMES_LEN as u32, cores as u32, flags)?;
        let len = cores * OUTCOMES_LEN;
        let memory = Mapping::of(map.as_fd(), 0, len, ProtFlags::READ, MapFlags::SHARED)?;
        Ok(Self { map, memory, cores })
    }

    pub(super) fn map(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    fn of(&self, outcome: Outcome) -> u64 {
        let cores = 0..self.cores;
        let of_core = |core: usize| {
            let at = core * OUTCOMES_LEN + outcome.offset() as usize;
            let counter = self.memory.at(at, size_of::<u64>());
            // SAFETY: mapped (checked by `at`) and aligned, since both the mapping and the counters
            // are; their one writer, the program, writes eight bytes at once.
            unsafe { AtomicU64::from_ptr(counter.cast().as_ptr()) }.load(Ordering::Relaxed)
        };
        cores.map(of_core).sum()
    }

    pub(super) fn all(&self) -> FlowOutcomes {
        FlowOutcomes {
            forwarded: self.of(Outcome::Forwarded),
            no_flow: self.of(Outcome::NoFlow),
            paused: self.of(Outcome::Paused),
            other_protocol: self.of(Outcome::OtherProtocol),
            other_address: self.of(Outcome::OtherAddress),
            options: self.of(Outcome::Options),
            fragment: self.of(Outcome::Fragment),
            flag: self.of(Outcome::Flag),
            time_to_live: self.of(Outcome::TimeToLive),
            partial: self.of(Outcome::Partial),
            too_long: self.of(Outcome::TooLong),
            malformed: self.of(Outcome::Malformed),
        }
    }
}

/// Cores that the machine may have while it runs: a list such as `0-3`, of which the last one
/// counts.
fn cores_max() -> usize {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = list.trim().rsplit([',', '-']).next();
    let last = last.and_then(|last| last.parse::<usize>().ok());
    last.map_or(CORES_MAX, |last| last + 1).min(CORES_MAX)
}

/// Where the kernel does not say; `NR_CPUS` of the largest kernels in use. Frames at cores beyond
/// are not counted.
const CORES_MAX: usize = 8192;
