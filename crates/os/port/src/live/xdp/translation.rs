//! Classic BPF for an XDP program: that reads the frame where it lies, and proves to the verifier
//! before each load that the bytes are there.
//!
//! R8 and R9 are where the frame begins and ends.

use crate::live::FilterInstruction;
use crate::live::bpf::assembler::{Assembler, Label, Register};
use crate::live::bpf::translation;
use crate::live::classic::{
    LD_ABS_B, LD_ABS_H, LD_ABS_W, LD_IND_B, LD_IND_H, LD_IND_W, LDX_MSH, RET_K,
};

/// Appends a program of ours: frames that it keeps go on at `ours`, others at `pass`; so do those
/// that are too short for a load.
///
/// Panics where the program has an instruction that steering has no use for.
pub(super) fn translate(
    filter: &[FilterInstruction],
    program: &mut Assembler,
    ours: Label,
    pass: Label,
) {
    let own = |program: &mut Assembler, code, k| {
        match code {
            LD_ABS_W | LD_ABS_H | LD_ABS_B | LD_IND_W | LD_IND_H | LD_IND_B | LDX_MSH => {
                load(program, code, k, pass);
            }
            RET_K => {
                program.jump_always(if k == 0 { pass } else { ours });
            }
            _ => return false,
        }
        true
    };
    translation::translate(filter, program, pass, own).expect("steering has no other instruction");
}

fn load(program: &mut Assembler, code: u8, k: u32, pass: Label) {
    use Register::{R0, R1, R2, R7, R8, R9};
    let len = match code {
        LD_ABS_W | LD_IND_W => 4,
        LD_ABS_H | LD_IND_H => 2,
        _ => 1,
    };
    program.copy(R1, R8);
    if matches!(code, LD_IND_W | LD_IND_H | LD_IND_B) {
        program.add_register(R1, R7);
    }
    program
        .copy(R2, R1)
        .add(R2, k as i32 + len)
        .jump_greater(R2, R9, pass);
    match len {
        4 => program
            .load_word(R0, R1, k as i16)
            .swap_from_network(R0, 32),
        2 => program
            .load_half_word(R0, R1, k as i16)
            .swap_from_network(R0, 16),
        _ => program.load_byte(R0, R1, k as i16),
    };
    if code == LDX_MSH {
        // A is not kept: steering loads it anew.
        program.and(R0, 15).shift_left(R0, 2).copy(R7, R0);
    }
}
