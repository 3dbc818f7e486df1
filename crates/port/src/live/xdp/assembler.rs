//! eBPF instructions, as few as our programs take, and jumps to labels.
//!
//! Encoding and names: the kernel's `Documentation/bpf/standardization/instruction-set.rst`. Helpers
//! are named by their numbers in `linux/bpf.h`.

use std::os::fd::{AsRawFd, BorrowedFd};

/// One instruction as the kernel reads it: `struct bpf_insn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    code: u8,
    /// Destination in the low four bits, source in the high ones.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// A register. `R0` is a result, `R1` to `R5` are arguments and lost by a call, `R6` to `R9` survive
/// calls, `R10` points to the end of the stack.
#[derive(Debug, Clone, Copy)]
pub(super) enum Register {
    R0 = 0,
    R1 = 1,
    R2 = 2,
    R3 = 3,
    R6 = 6,
    R7 = 7,
    R10 = 10,
}

/// A place to jump to: made by [`Assembler::label`], set by [`Assembler::here`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Label(usize);

/// A program under construction.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    instructions: Vec<Instruction>,
    /// Where each label stands.
    labels: Vec<Option<usize>>,
    /// Jumps to be filled in: instruction and label.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// `to = value`
    pub(super) fn load(&mut self, to: Register, value: i32) -> &mut Self {
        self.push(ALU64 | MOVE, to, Register::R0, 0, value)
    }

    /// `to = from`
    pub(super) fn copy(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(ALU64 | MOVE | FROM_REGISTER, to, from, 0, 0)
    }

    /// `to += value`
    pub(super) fn add(&mut self, to: Register, value: i32) -> &mut Self {
        self.push(ALU64 | ADD, to, Register::R0, 0, value)
    }

    /// `to = the map`: an instruction of two words, whose first names the descriptor.
    pub(super) fn load_map(&mut self, to: Register, map: BorrowedFd<'_>) -> &mut Self {
        const PSEUDO_MAP_FD: u8 = 1;
        self.instructions.push(Instruction {
            code: LOAD | DOUBLE_WORD,
            registers: to as u8 | PSEUDO_MAP_FD << 4,
            offset: 0,
            immediate: map.as_raw_fd(),
        });
        self.push(0, Register::R0, Register::R0, 0, 0)
    }

    /// `to = *(u32 *)(from + offset)`
    pub(super) fn load_word(&mut self, to: Register, from: Register, offset: i16) -> &mut Self {
        self.push(LOAD_MEMORY | WORD, to, from, offset, 0)
    }

    /// `*(u32 *)(to + offset) = from`
    pub(super) fn store_word(&mut self, to: Register, offset: i16, from: Register) -> &mut Self {
        self.push(STORE_MEMORY | WORD, to, from, offset, 0)
    }

    /// `*(u64 *)(to + offset) = from`
    pub(super) fn store_double_word(
        &mut self,
        to: Register,
        offset: i16,
        from: Register,
    ) -> &mut Self {
        self.push(STORE_MEMORY | DOUBLE_WORD, to, from, offset, 0)
    }

    /// `*(u64 *)to += from`, atomically, in order with all before and after; `from` becomes the value before.
    pub(super) fn atomic_add(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(STORE_ATOMIC | DOUBLE_WORD, to, from, 0, FETCH)
    }

    /// Calls a helper of the kernel by its number.
    pub(super) fn call(&mut self, helper: i32) -> &mut Self {
        self.push(JUMP | CALL, Register::R0, Register::R0, 0, helper)
    }

    /// Jumps if `left == value`.
    pub(super) fn jump_equal(&mut self, left: Register, value: i32, to: Label) -> &mut Self {
        self.jump(JUMP | EQUAL, left, Register::R0, value, to)
    }

    /// Jumps if `left != value`.
    pub(super) fn jump_not_equal(&mut self, left: Register, value: i32, to: Label) -> &mut Self {
        self.jump(JUMP | NOT_EQUAL, left, Register::R0, value, to)
    }

    /// Jumps if `left > right`, unsigned.
    pub(super) fn jump_greater(&mut self, left: Register, right: Register, to: Label) -> &mut Self {
        self.jump(JUMP | GREATER | FROM_REGISTER, left, right, 0, to)
    }

    /// Ends the program with what `R0` holds.
    pub(super) fn exit(&mut self) -> &mut Self {
        self.push(JUMP | EXIT, Register::R0, Register::R0, 0, 0)
    }

    /// A label, to be set later.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The next instruction is what `label` names.
    pub(super) fn here(&mut self, label: Label) -> &mut Self {
        self.labels[label.0] = Some(self.instructions.len());
        self
    }

    /// The instructions, with each jump's distance filled in.
    pub(super) fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in self.jumps {
            let target = self.labels[label.0].expect("every label that is jumped to is set");
            let distance = target as i64 - at as i64 - 1;
            self.instructions[at].offset =
                i16::try_from(distance).expect("programs are shorter than a jump reaches");
        }
        self.instructions
    }

    fn jump(
        &mut self,
        code: u8,
        left: Register,
        right: Register,
        value: i32,
        to: Label,
    ) -> &mut Self {
        self.jumps.push((self.instructions.len(), to));
        self.push(code, left, right, 0, value)
    }

    fn push(
        &mut self,
        code: u8,
        to: Register,
        from: Register,
        offset: i16,
        immediate: i32,
    ) -> &mut Self {
        self.instructions.push(Instruction {
            code,
            registers: to as u8 | (from as u8) << 4,
            offset,
            immediate,
        });
        self
    }
}

// Classes.
const LOAD: u8 = 0x00;
const LOAD_MEMORY: u8 = 0x61;
const STORE_MEMORY: u8 = 0x63;
const STORE_ATOMIC: u8 = 0xc3;
const JUMP: u8 = 0x05;
const ALU64: u8 = 0x07;
// Sizes.
const WORD: u8 = 0x00;
const DOUBLE_WORD: u8 = 0x18;
// Operations.
const FROM_REGISTER: u8 = 0x08;
const ADD: u8 = 0x00;
/// Beside `ADD`: with the old value as result, which is what makes it a barrier.
const FETCH: i32 = 0x01;
const MOVE: u8 = 0xb0;
const EQUAL: u8 = 0x10;
const GREATER: u8 = 0x20;
const NOT_EQUAL: u8 = 0x50;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;

#[cfg(test)]
mod tests {
    use super::*;

    /// The encodings that the kernel's own macros give (`linux/filter.h`): code, registers, offset, value.
    #[test]
    fn instructions_are_encoded_as_the_kernel_does() {
        let mut program = Assembler::default();
        let end = program.label();
        program
            .load(Register::R3, 2)
            .copy(Register::R6, Register::R1)
            .load_word(Register::R2, Register::R6, 16)
            .store_word(Register::R10, -4, Register::R7)
            .jump_not_equal(Register::R0, 4, end)
            .store_double_word(Register::R1, 0, Register::R7)
            .atomic_add(Register::R0, Register::R1)
            .call(51)
            .jump_greater(Register::R3, Register::R2, end)
            .add(Register::R2, -4)
            .here(end)
            .exit();
        let bytes: Vec<_> = program
            .finish()
            .iter()
            .map(|i| (i.code, i.registers, i.offset, i.immediate))
            .collect();
        assert_eq!(
            bytes,
            [
                (0xb7, 0x03, 0, 2),
                (0xbf, 0x16, 0, 0),
                (0x61, 0x62, 16, 0),
                (0x63, 0x7a, -4, 0),
                (0x55, 0x00, 5, 4),
                (0x7b, 0x71, 0, 0),
                (0xdb, 0x10, 0, 1),
                (0x85, 0x00, 0, 51),
                (0x2d, 0x23, 1, 0),
                (0x07, 0x02, 0, -4),
                (0x95, 0x00, 0, 0),
            ]
        );
    }
}
