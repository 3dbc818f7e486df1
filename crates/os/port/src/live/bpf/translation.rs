//! Classic BPF as eBPF: what is the same wherever the program runs. A is R0 and X is R7, as in the
//! kernel's own translation (`bpf_convert_filter`).

use super::assembler::{Assembler, Label, Register};
use crate::live::FilterInstruction;
use crate::live::classic::{
    ALU, CLASS, DIVIDE, EQUAL, FROM_X, JA, JMP, LD_IMM, LDX_IMM, MODULO, NEG, OPERATION, TAX, TXA,
};

/// Of eBPF alone: a move of 32 bits.
const MOVE: u8 = 0xb4;

/// Loads `value` into the low half of a register and zeros into the other.
pub(in crate::live) fn load(program: &mut Assembler, to: Register, value: u32) {
    program.classic(MOVE, to, Register::R0, value);
}

/// Appends a classic program. `own` appends instructions that depend on where the program runs,
/// which are loads, stores and returns, and returns whether it did. Division by zero goes on at
/// `reject`.
///
/// `None` for an instruction that is invalid or not known.
pub(in crate::live) fn translate(
    filter: &[FilterInstruction],
    program: &mut Assembler,
    reject: Label,
    mut own: impl FnMut(&mut Assembler, u8, u32) -> bool,
) -> Option<()> {
    use Register::{R0, R7};
    let labels: Vec<_> = filter.iter().map(|_| program.label()).collect();
    for (at, instruction) in filter.iter().enumerate() {
        let FilterInstruction { operand: k, .. } = *instruction;
        let code = u8::try_from(instruction.code).ok()?;
        let target = |distance: u32| {
            let distance = usize::try_from(distance).ok()?;
            labels.get((at + 1).checked_add(distance)?).copied()
        };
        let (right, value) = match code & FROM_X {
            0 => (R0, k),
            _ => (R7, 0),
        };
        program.here(labels[at]);
        if own(program, code, k) {
            continue;
        }
        match code {
            LD_IMM => load(program, R0, k),
            LDX_IMM => load(program, R7, k),
            TAX => {
                program.copy(R7, R0);
            }
            TXA => {
                program.copy(R0, R7);
            }
            NEG => {
                program.classic(code, R0, R0, 0);
            }
            JA => {
                program.jump_always(target(k)?);
            }
            _ if code & CLASS == ALU => {
                let divides = matches!(code & OPERATION, DIVIDE | MODULO);
                if divides && code & FROM_X != 0 {
                    program.classic_jump(EQUAL, R7, R0, 0, reject);
                }
                program.classic(code, R0, right, value);
            }
            _ if code & CLASS == JMP => {
                let holds = target(instruction.jump_true.into())?;
                let holds_not = target(instruction.jump_false.into())?;
                program
                    .classic_jump(code, R0, right, value, holds)
                    .jump_always(holds_not);
            }
            _ => return None,
        }
    }
    Some(())
}
