//! Flows whose frames the driver forwards itself, past user space: a table in the kernel that the
//! XDP programs of all ports of a forwarder share.
//!
//! ```text
//!                   ┌ in the table ─► rewritten, counted ─► out of its interface
//!  port's program ──┤
//!                   └ all else: first frames, SYN, FIN, RST, fragments, … ─► the port, as ever
//! ```
//!
//! * User space decides: it enters a [`FlowRule`] for one direction of a flow once what it forwards
//!   itself of that direction has left, so that frames keep their order, and removes it.
//! * The table is made, and ports are opened with it, while there are privileges; afterwards it
//!   works without any. It goes with the process, as the programs do.
//! * What is [paused](FlowTable::pause) comes up whole: for a monitor or tap that looks.
//! * Not here: frames whose checksum their sender left to its adapter, as hosts on a veth do. Those
//!   come up, each of them; `ethtool -K INTERFACE tx off` at their sender has them complete.

mod key;
mod outcomes;
mod program;
mod slot;

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lineside_account::{Budget, Lease};
use lineside_host::Netlink;
use lineside_wire::{PROTOCOL_TCP, PROTOCOL_UDP, ethernet};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use super::Interface;
use super::bpf::{self, NumberTable};
use super::mapping::Mapping;
use crate::PortError;

use key::KEY_LEN;
use outcomes::Counters;
use slot::{FlowSlots, SLOT_LEN};

pub use key::FlowKey;
pub use outcomes::FlowOutcomes;
pub(super) use program::FlowMaps;
pub use slot::{FlowCounts, FlowRule};

/// Why a flow is not entered; its frames go on coming up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// As many are there as there may be.
    #[error("the driver's table of {flows_max} flows is full")]
    Full {
        /// The most.
        flows_max: u32,
    },
    /// It is there.
    #[error("the flow is in the driver's table already")]
    Exists,
    /// It is neither TCP nor UDP, or its addresses are not all of one family.
    #[error("the driver forwards TCP and UDP between addresses of one family")]
    Family,
    /// No port was opened with this table at that interface.
    #[error("interface {index} is not open with this table of flows")]
    NotOpen {
        /// Its number.
        index: u32,
    },
    /// The interface by which its frames would leave does not take them from a driver.
    #[error("'{name}' takes no frames from another driver: {TAKES_NONE}")]
    TakesNone {
        /// Its name.
        name: String,
    },
    /// The kernel refused.
    #[error("cannot change the driver's table of flows: {0}")]
    Kernel(std::io::Error),
}

/// The flows that the driver forwards. Clones are the same table.
#[derive(Clone)]
pub struct FlowTable {
    shared: Arc<Shared>,
}

struct Shared {
    numbers: NumberTable<KEY_LEN>,
    slots: FlowSlots,
    counters: Counters,
    control: OwnedFd,
    /// That of `control`: a number, whether the table is paused.
    paused: Mapping,
    flows_max: u32,
    state: Mutex<State>,
    _memory: Lease,
}

struct State {
    /// By slot.
    keys: Vec<Option<FlowKey>>,
    /// Slots without a flow; the one that has been without the longest first.
    free: VecDeque<u32>,
    /// Interfaces that are open with this table.
    ways: Vec<Way>,
}

struct Way {
    index: u32,
    name: String,
    /// Of a frame.
    len_max: usize,
    /// Its program runs in the driver, and leads frames to drivers.
    is_native: bool,
    takes_redirected: bool,
}

/// Slots beyond the flows: a slot is used again when this many others were, and this long after its
/// key was removed that no program is still at work on it.
const SLOTS_KEPT: u32 = 64;

/// Flows at most: 256 MiB of slots.
const FLOWS_LIMIT: u32 = 1 << 21;

/// Bytes of a flow in the kernel's hash table, as it is made (kernel/bpf/hashtab.c): the element's
/// header, key and number, and its bucket.
const ENTRY_LEN: usize = 48 + KEY_LEN.next_multiple_of(8) + 8 + 32;

impl FlowTable {
    /// A table with memory for `flows_max` directions of flows, drawn on `budget`: some 300 bytes
    /// each.
    pub fn new(flows_max: u32, budget: &Budget) -> Result<Self, PortError> {
        let flows_max = flows_max.clamp(1, FLOWS_LIMIT);
        let slots = flows_max + SLOTS_KEPT;
        let of_slot = SLOT_LEN + size_of::<Option<FlowKey>>() + size_of::<u32>();
        let needed_bytes = slots as usize * of_slot + flows_max as usize * ENTRY_LEN;
        let memory = budget
            .lease(needed_bytes)
            .ok_or_else(|| PortError::Memory {
                name: "the driver's table of flows".to_owned(),
                needed_bytes,
            })?;
        Self::of(flows_max, slots, memory).map_err(|errno| match errno {
            Errno::PERM | Errno::ACCESS => PortError::Privilege {
                what: "make the driver's table of flows".to_owned(),
                capabilities: &["cap_net_admin", "cap_bpf"],
            },
            _ => PortError::FlowTable {
                cause: errno.into(),
            },
        })
    }

    fn of(flows_max: u32, slots: u32, memory: Lease) -> Result<Self, Errno> {
        let (kind, flags) = (bpf::MAP_TYPE_ARRAY, bpf::MAP_FLAG_MMAPABLE);
        let control = bpf::create_map(kind, CONTROL_LEN, 1, flags)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let len = CONTROL_LEN as usize;
        let paused = Mapping::of(control.as_fd(), 0, len, access, MapFlags::SHARED)?;
        Ok(Self {
            shared: Arc::new(Shared {
                numbers: NumberTable::new(flows_max)?,
                slots: FlowSlots::new(slots)?,
                counters: Counters::new()?,
                control,
                paused,
                flows_max,
                state: Mutex::new(State {
                    keys: vec![None; slots as usize],
                    free: (0..slots).collect(),
                    ways: Vec::new(),
                }),
                _memory: memory,
            }),
        })
    }

    /// Has the driver forward the frames of a flow's direction from now on.
    pub fn insert(&self, rule: &FlowRule) -> Result<(), FlowError> {
        let FlowRule { key, out, .. } = rule;
        let all = [
            key.source,
            key.destination,
            rule.new_source,
            rule.new_destination,
        ];
        let is_v4 = key.source.is_ipv4();
        if !matches!(key.protocol, PROTOCOL_TCP | PROTOCOL_UDP)
            || all.iter().any(|end| end.is_ipv4() != is_v4)
        {
            return Err(FlowError::Family);
        }
        let mut state = self.state();
        let is_native = state.way(key.interface)?.is_native;
        let way = state.way(*out)?;
        // By generic XDP, frames leave as the kernel's own do.
        if is_native && !way.takes_redirected {
            let name = way.name.clone();
            return Err(FlowError::TakesNone { name });
        }
        let len_max = way.len_max;
        let full = FlowError::Full {
            flows_max: self.shared.flows_max,
        };
        if state.free.len() <= SLOTS_KEPT as usize {
            return Err(full);
        }
        let Some(number) = state.free.pop_front() else {
            return Err(full);
        };
        self.shared.slots.write(number, rule, len_max);
        match self.shared.numbers.insert(&key::bytes(key), number) {
            Ok(()) => {
                state.keys[number as usize] = Some(*key);
                Ok(())
            }
            Err(errno) => {
                state.free.push_front(number);
                Err(match errno {
                    Errno::EXIST => FlowError::Exists,
                    Errno::TOOBIG => full,
                    _ => FlowError::Kernel(errno.into()),
                })
            }
        }
    }

    /// Has the frames of a flow's direction come up from now on; returns what was forwarded. `None`
    /// if it was not there. A frame that another core is forwarding at this moment may be missing.
    pub fn remove(&self, key: &FlowKey) -> Result<Option<FlowCounts>, FlowError> {
        let mut state = self.state();
        let bytes = key::bytes(key);
        let find = |errno: Errno| FlowError::Kernel(errno.into());
        let Some(number) = self.shared.numbers.find(&bytes).map_err(find)? else {
            return Ok(None);
        };
        self.shared.numbers.remove(&bytes).map_err(find)?;
        state.keys[number as usize] = None;
        state.free.push_back(number);
        Ok(Some(self.shared.slots.counts(number)))
    }

    /// What was forwarded of a flow's direction so far; `None` if it is not there.
    pub fn counts(&self, key: &FlowKey) -> Option<FlowCounts> {
        let _state = self.state();
        let number = self.shared.numbers.find(&key::bytes(key)).ok()??;
        Some(self.shared.slots.counts(number))
    }

    /// Gives `each` all flows with what was forwarded of them so far: without asking the kernel. It
    /// must not change the table.
    pub fn for_each(&self, mut each: impl FnMut(&FlowKey, FlowCounts)) {
        let state = self.state();
        for (key, number) in state.keys.iter().zip(0..) {
            if let Some(key) = key {
                each(key, self.shared.slots.counts(number));
            }
        }
    }

    /// Flows in the table.
    pub fn len(&self) -> usize {
        let state = self.state();
        state.keys.len() - state.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Has all frames come up, whether their flow is in the table or not, or no longer.
    pub fn pause(&self, is_paused: bool) {
        self.paused().store(is_paused.into(), Ordering::Relaxed);
    }

    /// The outcomes of all frames.
    pub fn outcomes(&self) -> FlowOutcomes {
        self.shared.counters.all()
    }

    /// The maps for a program at an interface.
    pub(super) fn maps(&self) -> FlowMaps<'_> {
        FlowMaps {
            control: self.shared.control.as_fd(),
            keys: self.shared.numbers.as_fd(),
            slots: self.shared.slots.map(),
            outcomes: self.shared.counters.map(),
        }
    }

    /// The interface is open with this table; returns what a user should know.
    pub(super) fn admit(&self, interface: &Interface, is_native: bool) -> Option<String> {
        let takes_redirected = takes_redirected(interface);
        let way = Way {
            index: interface.index,
            name: interface.name.clone(),
            len_max: interface.mtu as usize + ethernet::HEADER_LEN,
            is_native,
            takes_redirected,
        };
        let mut state = self.state();
        state.ways.retain(|other| other.index != way.index);
        state.ways.push(way);
        (is_native && !takes_redirected).then(|| {
            format!(
                "the driver forwards nothing out of '{0}', since '{0}' takes no frames from \
                 another driver: {TAKES_NONE}",
                interface.name
            )
        })
    }

    fn paused(&self) -> &AtomicU32 {
        let at = self.shared.paused.at(0, size_of::<AtomicU32>());
        // SAFETY: mapped (checked by `at`) and aligned, as the mapping is; the program only reads
        // it.
        unsafe { AtomicU32::from_ptr(at.cast().as_ptr()) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for FlowTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowTable")
            .field("flows_max", &self.shared.flows_max)
            .finish_non_exhaustive()
    }
}

impl State {
    fn way(&self, index: u32) -> Result<&Way, FlowError> {
        let mut ways = self.ways.iter();
        ways.find(|way| way.index == index)
            .ok_or(FlowError::NotOpen { index })
    }
}

const CONTROL_LEN: u32 = 64;

/// Why an interface may take none, and the way out.
const TAKES_NONE: &str = "at a veth, 'ethtool -K PEER gro on' at its other end lets it, or any \
                          XDP program there";

/// Where the kernel does not say (before Linux 6.3), only a veth is known for taking none: then
/// frames are lost that a warning would not have prevented.
fn takes_redirected(interface: &Interface) -> bool {
    Netlink::is_redirect_target(interface.index).unwrap_or(true)
}
