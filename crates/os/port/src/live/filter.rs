//! A classic BPF filter as an eBPF program that also counts: the kernel does not count what a
//! packet socket's filter rejects.
//!
//! M lies on the stack, as in the kernel's own translation (`bpf_convert_filter`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

use super::bpf;
use super::bpf::assembler::{Assembler, Instruction, Register};
use super::bpf::translation;
use super::classic::{
    FilterInstruction, LD_ABS_B, LD_ABS_H, LD_ABS_W, LD_IND_B, LD_IND_H, LD_IND_W, LD_LEN, LD_MEM,
    LDX_MEM, LDX_MSH, LEFT, RET_A, RET_K, ST, STX, VLAN_TAG, VLAN_TAG_PRESENT,
};
use super::mapping::Mapping;

/// A filter in the kernel, and the number of frames that it has looked at.
pub(super) struct CountingFilter {
    program: OwnedFd,
    seen: Mapping,
}

impl CountingFilter {
    /// The program, loaded. `None` where that is not allowed (it takes CAP_BPF), or where the
    /// program does something that ours never do.
    pub(super) fn new(program: &[FilterInstruction]) -> Option<Self> {
        let kind = bpf::MAP_TYPE_ARRAY;
        let map = bpf::create_map(kind, 8, 1, bpf::MAP_FLAG_MMAPABLE).ok()?;
        let seen = Mapping::of(map.as_fd(), 0, 8, ProtFlags::READ, MapFlags::SHARED).ok()?;
        let instructions = translate(program, map.as_fd())?;
        let (kind, license) = (bpf::Kind::SocketFilter, c"MIT OR Apache-2.0");
        let program = bpf::load(kind, c"lineside_filter", license, &instructions).ok()?;
        Some(Self { program, seen })
    }

    /// Frames looked at so far, let in or not.
    pub(super) fn seen(&self) -> u64 {
        let counter = self.seen.at(0, 8);
        // SAFETY: the eight bytes lie in the mapping (checked by `at`), aligned as a page is, and
        // the program, which alone writes them, does so atomically.
        unsafe { AtomicU64::from_ptr(counter.cast().as_ptr()) }.load(Ordering::Relaxed)
    }
}

impl AsFd for CountingFilter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

/// `None` for an instruction that is invalid or not known here.
fn translate(filter: &[FilterInstruction], seen: BorrowedFd<'_>) -> Option<Vec<Instruction>> {
    use Register::{R0, R1, R6, R7, R10};
    let mut program = Assembler::default();
    let (uncounted, reject) = (program.label(), program.label());
    program
        .copy(R6, R1)
        .load(R1, 0)
        .store_word(R10, -4, R1)
        .look_up(seen, -4, uncounted)
        .load(R1, 1)
        .atomic_add(R0, R1)
        .here(uncounted)
        .load(R0, 0)
        .load(R7, 0);
    translation::translate(filter, &mut program, reject, load_or_return)?;
    // The verifier takes no instruction that is never reached.
    if program.is_wanted(reject) {
        program.here(reject).load(R0, 0).exit();
    }
    Some(program.finish())
}

/// Appends loads, stores and returns, as a packet socket has them; whether it was one of these.
/// Loads of the packet that reach behind its end reject it.
fn load_or_return(program: &mut Assembler, code: u8, k: u32) -> bool {
    use Register::{R0, R6, R7, R9, R10};
    // struct __sk_buff of linux/bpf.h; a load of this offset means that field (linux/filter.h).
    const LEN: i16 = 0;
    const VLAN_PRESENT: i16 = 20;
    const VLAN_TCI: i16 = 24;
    /// M[0] on the stack; the counter's key is behind M[15].
    const MEMORY: i16 = -68;
    const MEMORY_WORDS: u32 = 16;
    let memory = MEMORY + 4 * k.min(MEMORY_WORDS) as i16;
    match code {
        LD_ABS_W if k == VLAN_TAG_PRESENT => program.load_word(R0, R6, VLAN_PRESENT),
        LD_ABS_W if k == VLAN_TAG => program.load_word(R0, R6, VLAN_TCI),
        LD_ABS_W | LD_ABS_H | LD_ABS_B if k < i32::MAX as u32 => program.classic(code, R0, R0, k),
        LD_IND_W | LD_IND_H | LD_IND_B => program.classic(code, R0, R7, k),
        LDX_MSH if k < i32::MAX as u32 => program
            .copy(R9, R0)
            .classic(LD_ABS_B, R0, R0, k)
            .and(R0, 15)
            .classic(LEFT, R0, R0, 2)
            .copy(R7, R0)
            .copy(R0, R9),
        LD_LEN => program.load_word(R0, R6, LEN),
        LD_MEM | LDX_MEM | ST | STX if k >= MEMORY_WORDS => return false,
        LD_MEM => program.load_word(R0, R10, memory),
        LDX_MEM => program.load_word(R7, R10, memory),
        ST => program.store_word(R10, memory, R0),
        STX => program.store_word(R10, memory, R7),
        RET_K => {
            translation::load(program, R0, k);
            program.exit()
        }
        RET_A => program.exit(),
        _ => return false,
    };
    true
}
