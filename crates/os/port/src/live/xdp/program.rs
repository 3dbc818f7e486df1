//! The XDP program: frames of a queue with a socket go there, stamped and counted; others pass on.
//!
//! ```text
//! ours, where there is steering?  no ─► XDP_PASS, untouched
//!         │ yes
//! of a flow in the table, where there is one?  yes ─► XDP_REDIRECT to its interface, rewritten
//!         │ no
//! socket of this queue?  no ─► XDP_PASS, untouched
//!         │ yes
//! arrived[queue] += 1, then eight bytes of stamp before the frame, then XDP_REDIRECT
//! ```
//!
//! Counting comes before stamping: a reader that has read `arrived` at some instant, and has
//! received or knows lost that many frames, will see no stamp from before that instant. See
//! `Arrivals`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::live::FilterInstruction;
use crate::live::bpf;
use crate::live::bpf::assembler::{Assembler, Instruction, Register};
use crate::live::flows::FlowMaps;
use crate::live::mapping::Mapping;

use super::translation::translate;

/// Bytes before a frame that hold its stamp: nanoseconds of CLOCK_MONOTONIC.
pub(super) const STAMP_LEN: usize = 8;

/// The maps that the program uses: sockets by queue, frames that arrived by queue.
pub(super) struct Maps {
    sockets: OwnedFd,
    counters: OwnedFd,
    queues: u32,
}

impl Maps {
    /// Maps for queues `0..queues`.
    pub(super) fn new(queues: u32) -> Result<Self, Errno> {
        Ok(Self {
            sockets: bpf::create_map(bpf::MAP_TYPE_XSKMAP, 4, queues, 0)?,
            counters: bpf::create_map(
                bpf::MAP_TYPE_ARRAY,
                COUNTER_LEN as u32,
                queues,
                bpf::MAP_FLAG_MMAPABLE,
            )?,
            queues,
        })
    }

    /// From now on frames of `queue` go to `socket`, which is bound.
    pub(super) fn open(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        bpf::set_descriptor(self.sockets.as_fd(), queue, socket)
    }

    /// From now on frames of `queue` pass on.
    pub(super) fn shut(&self, queue: u32) -> Result<(), Errno> {
        bpf::clear(self.sockets.as_fd(), queue)
    }

    /// The counters, to be read without a system call.
    pub(super) fn arrivals(&self) -> Result<Arrivals, Errno> {
        let len = self.queues as usize * COUNTER_LEN;
        Ok(Arrivals {
            counters: Mapping::of(
                self.counters.as_fd(),
                0,
                len,
                ProtFlags::READ,
                MapFlags::SHARED,
            )?,
            queues: self.queues,
        })
    }

    /// Loads the program over these maps, in front of it one that says which frames are ours, since
    /// all are without it, and one that forwards those of some flows. The error has the log of the
    /// verifier.
    pub(super) fn load(
        &self,
        steering: Option<&[FilterInstruction]>,
        flows: Option<&FlowMaps<'_>>,
    ) -> Result<OwnedFd, (Errno, String)> {
        bpf::load(
            bpf::Kind::Xdp,
            c"lineside",
            c"MIT OR Apache-2.0",
            &redirect(self.sockets.as_fd(), self.counters.as_fd(), steering, flows),
        )
    }
}

/// How many frames of each queue the program has sent to a socket.
pub(super) struct Arrivals {
    counters: Mapping,
    queues: u32,
}

impl Arrivals {
    /// Frames of `queue` so far. A reader that then finds as many in its ring or among the losses
    /// has missed none that is stamped before this call.
    pub(super) fn of(&self, queue: u32) -> u64 {
        assert!(queue < self.queues, "a queue of this interface");
        let counter = self
            .counters
            .at(queue as usize * COUNTER_LEN, size_of::<AtomicU64>());
        // SAFETY: the eight bytes lie in the mapping (checked by `at`), aligned since both the
        // mapping and COUNTER_LEN are, and their one writer, the program, writes atomically.
        unsafe { AtomicU64::from_ptr(counter.cast().as_ptr()) }.load(Ordering::Acquire)
    }
}

/// Bytes of a counter: a cache line, so that queues served by different cores do not share one.
const COUNTER_LEN: usize = 64;

fn redirect(
    sockets: BorrowedFd<'_>,
    counters: BorrowedFd<'_>,
    steering: Option<&[FilterInstruction]>,
    flows: Option<&FlowMaps<'_>>,
) -> Vec<Instruction> {
    use Register::{R0, R1, R2, R3, R6, R7, R8, R9, R10};
    // struct xdp_md, enum xdp_action and enum bpf_func_id of linux/bpf.h.
    const DATA: i16 = 0;
    const DATA_END: i16 = 4;
    const DATA_META: i16 = 8;
    const RX_QUEUE_INDEX: i16 = 16;
    const XDP_PASS: i32 = 2;
    const XDP_REDIRECT: i32 = 4;
    const KTIME_GET_NS: i32 = 5;
    const REDIRECT_MAP: i32 = 51;
    const XDP_ADJUST_META: i32 = 54;

    let mut program = Assembler::default();
    let (stamp, redirected, done) = (program.label(), program.label(), program.label());
    program.copy(R6, R1);
    if let Some(steering) = steering {
        let (ours, pass) = (program.label(), program.label());
        program.load_word(R8, R6, DATA).load_word(R9, R6, DATA_END);
        translate(steering, &mut program, ours, pass);
        program
            .here(pass)
            .load(R0, XDP_PASS)
            .jump_always(done)
            .here(ours);
    }
    if let Some(flows) = flows {
        flows.forward(&mut program);
    }
    program
        .load_word(R7, R6, RX_QUEUE_INDEX)
        // A queue without a socket gives the action in R3 back, and the frame passes as it came:
        // metadata would keep the kernel from merging it with its neighbours.
        .load_map(R1, sockets)
        .copy(R2, R7)
        .load(R3, XDP_PASS)
        .call(REDIRECT_MAP)
        .jump_not_equal(R0, XDP_REDIRECT, done)
        .store_word(R10, -4, R7)
        .look_up(counters, -4, stamp)
        // Atomically: in generic mode several cores may serve one queue.
        .load(R1, 1)
        .atomic_add(R0, R1)
        .here(stamp)
        .copy(R1, R6)
        .load(R2, -(STAMP_LEN as i32))
        .call(XDP_ADJUST_META)
        .jump_not_equal(R0, 0, redirected)
        .call(KTIME_GET_NS)
        .copy(R7, R0)
        .load_word(R1, R6, DATA_META)
        .load_word(R2, R6, DATA)
        // The verifier wants to see that the eight bytes are there.
        .copy(R3, R1)
        .add(R3, STAMP_LEN as i32)
        .jump_greater(R3, R2, redirected)
        .store_double_word(R1, 0, R7)
        .here(redirected)
        .load(R0, XDP_REDIRECT)
        .here(done)
        .exit();
    program.finish()
}
