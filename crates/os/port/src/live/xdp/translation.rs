//! Classic BPF for an XDP program: that reads the frame where it lies, and proves to the verifier
//! before each load that the bytes are there.
//!
//! A is R0, X is R7; R8 and R9 are where the frame begins and ends.

use crate::live::FilterInstruction;
use crate::live::bpf::assembler::{Assembler, Label, Register};
use crate::live::classic::{
    ALU, CLASS, FROM_X, JA, JMP, LD_ABS_B, LD_ABS_H, LD_ABS_W, LD_IND_B, LD_IND_H, LD_IND_W,
    LDX_IMM, LDX_MSH, RET_K, TAX, TXA,
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
    use Register::{R0, R1, R2, R7, R8, R9};
    let labels: Vec<_> = filter.iter().map(|_| program.label()).collect();
    for (at, instruction) in filter.iter().enumerate() {
        let FilterInstruction { operand: k, .. } = *instruction;
        let code = instruction.code as u8;
        let target = |distance: u32| labels[at + 1 + distance as usize];
        program.here(labels[at]);
        match code {
            LD_ABS_W | LD_ABS_H | LD_ABS_B | LD_IND_W | LD_IND_H | LD_IND_B | LDX_MSH => {
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
            LDX_IMM => {
                program.load(R7, k as i32);
            }
            TAX => {
                program.copy(R7, R0);
            }
            TXA => {
                program.copy(R0, R7);
            }
            RET_K => {
                program.jump_always(if k == 0 { pass } else { ours });
            }
            JA => {
                program.jump_always(target(k));
            }
            _ if code & CLASS == ALU => {
                let (right, value) = if code & FROM_X == 0 { (R0, k) } else { (R7, 0) };
                program.classic(code, R0, right, value);
            }
            _ if code & CLASS == JMP => {
                program
                    .classic_jump(code, R0, R0, k, target(instruction.jump_true.into()))
                    .jump_always(target(instruction.jump_false.into()));
            }
            _ => unreachable!("steering has no instruction {code:#x}"),
        }
    }
}
