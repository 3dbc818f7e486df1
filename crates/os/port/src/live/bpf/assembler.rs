//! eBPF instructions, as few as our programs take, and jumps to labels.
//!
//! Encoding and names: the kernel's `Documentation/bpf/standardization/instruction-set.rst`.
//! Helpers are named by their numbers in `linux/bpf.h`.

use std::os::fd::{AsRawFd, BorrowedFd};

/// One instruction as the kernel reads it: `struct bpf_insn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(in crate::live) struct Instruction {
    code: u8,
    /// Destination in the low four bits, source in the high ones.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// A register. `R0` is a result, `R1` to `R5` are arguments and lost by a call, `R6` to `R9`
/// survive calls, `R10` points to the end of the stack.
#[derive(Debug, Clone, Copy)]
pub(in crate::live) enum Register {
    R0 = 0,
    R1 = 1,
    R2 = 2,
    R3 = 3,
    R4 = 4,
    R5 = 5,
    R6 = 6,
    R7 = 7,
    R8 = 8,
    R9 = 9,
    R10 = 10,
}

/// A place to jump to: made by [`Assembler::label`], set by [`Assembler::here`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::live) struct Label(usize);

/// A program under construction.
#[derive(Debug, Default)]
pub(in crate::live) struct Assembler {
    instructions: Vec<Instruction>,
    /// Where each label stands.
    labels: Vec<Option<usize>>,
    /// Jumps to be filled in: instruction and label.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// `to = value`
    pub(in crate::live) fn load(&mut self, to: Register, value: i32) -> &mut Self {
        self.push(ALU64 | MOVE, to, Register::R0, 0, value)
    }

    /// `to = from`
    pub(in crate::live) fn copy(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(ALU64 | MOVE | FROM_REGISTER, to, from, 0, 0)
    }

    /// `to += value`
    pub(in crate::live) fn add(&mut self, to: Register, value: i32) -> &mut Self {
        self.push(ALU64 | ADD, to, Register::R0, 0, value)
    }

    /// `to += from`
    pub(in crate::live) fn add_register(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(ALU64 | ADD | FROM_REGISTER, to, from, 0, 0)
    }

    /// `to &= value`
    pub(in crate::live) fn and(&mut self, to: Register, value: i32) -> &mut Self {
        self.push(ALU64 | AND, to, Register::R0, 0, value)
    }

    /// `to ^= value`
    pub(in crate::live) fn xor(&mut self, to: Register, value: i32) -> &mut Self {
        self.push(ALU64 | XOR, to, Register::R0, 0, value)
    }

    /// `to <<= bits`
    pub(in crate::live) fn shift_left(&mut self, to: Register, bits: i32) -> &mut Self {
        self.push(ALU64 | SHIFT_LEFT, to, Register::R0, 0, bits)
    }

    /// `to >>= bits`, filled with zeros
    pub(in crate::live) fn shift_right(&mut self, to: Register, bits: i32) -> &mut Self {
        self.push(ALU64 | SHIFT_RIGHT, to, Register::R0, 0, bits)
    }

    /// `to = the map`: an instruction of two words, whose first names the descriptor.
    pub(in crate::live) fn load_map(&mut self, to: Register, map: BorrowedFd<'_>) -> &mut Self {
        const PSEUDO_MAP_FD: u8 = 1;
        self.instructions.push(Instruction {
            code: LOAD | DOUBLE_WORD,
            registers: to as u8 | PSEUDO_MAP_FD << 4,
            offset: 0,
            immediate: map.as_raw_fd(),
        });
        self.push(0, Register::R0, Register::R0, 0, 0)
    }

    /// R0 = the address of the value in a map whose key lies at `key` on the stack; jumps if there
    /// is none.
    pub(in crate::live) fn look_up(
        &mut self,
        map: BorrowedFd<'_>,
        key: i16,
        missing: Label,
    ) -> &mut Self {
        const MAP_LOOKUP_ELEM: i32 = 1;
        self.load_map(Register::R1, map)
            .copy(Register::R2, Register::R10)
            .add(Register::R2, key.into())
            .call(MAP_LOOKUP_ELEM)
            .jump_equal(Register::R0, 0, missing)
    }

    /// `to =` the address of the value of an array of one entry: an instruction of two words, like
    /// [`load_map`](Self::load_map).
    pub(in crate::live) fn load_map_value(
        &mut self,
        to: Register,
        map: BorrowedFd<'_>,
    ) -> &mut Self {
        const PSEUDO_MAP_VALUE: u8 = 2;
        self.instructions.push(Instruction {
            code: LOAD | DOUBLE_WORD,
            registers: to as u8 | PSEUDO_MAP_VALUE << 4,
            offset: 0,
            immediate: map.as_raw_fd(),
        });
        self.push(0, Register::R0, Register::R0, 0, 0)
    }

    /// `to = *(u8 *)(from + offset)`
    pub(in crate::live) fn load_byte(
        &mut self,
        to: Register,
        from: Register,
        offset: i16,
    ) -> &mut Self {
        self.push(LOAD_MEMORY | BYTE, to, from, offset, 0)
    }

    /// The lowest 16 or 32 bits of `to`, as they lie in memory, become a number that was written in
    /// network byte order.
    pub(in crate::live) fn swap_from_network(&mut self, to: Register, bits: i32) -> &mut Self {
        self.push(TO_BIG_ENDIAN, to, Register::R0, 0, bits)
    }

    /// `to = *(u32 *)(from + offset)`
    pub(in crate::live) fn load_word(
        &mut self,
        to: Register,
        from: Register,
        offset: i16,
    ) -> &mut Self {
        self.push(LOAD_MEMORY | WORD, to, from, offset, 0)
    }

    /// `to = *(u16 *)(from + offset)`
    pub(in crate::live) fn load_half_word(
        &mut self,
        to: Register,
        from: Register,
        offset: i16,
    ) -> &mut Self {
        self.push(LOAD_MEMORY | HALF_WORD, to, from, offset, 0)
    }

    /// `to = *(u64 *)(from + offset)`
    pub(in crate::live) fn load_double_word(
        &mut self,
        to: Register,
        from: Register,
        offset: i16,
    ) -> &mut Self {
        self.push(LOAD_MEMORY | DOUBLE_WORD, to, from, offset, 0)
    }

    /// `*(u8 *)(to + offset) = from`
    pub(in crate::live) fn store_byte(
        &mut self,
        to: Register,
        offset: i16,
        from: Register,
    ) -> &mut Self {
        self.push(STORE_MEMORY | BYTE, to, from, offset, 0)
    }

    /// `*(u16 *)(to + offset) = from`
    pub(in crate::live) fn store_half_word(
        &mut self,
        to: Register,
        offset: i16,
        from: Register,
    ) -> &mut Self {
        self.push(STORE_MEMORY | HALF_WORD, to, from, offset, 0)
    }

    /// `*(u32 *)(to + offset) = from`
    pub(in crate::live) fn store_word(
        &mut self,
        to: Register,
        offset: i16,
        from: Register,
    ) -> &mut Self {
        self.push(STORE_MEMORY | WORD, to, from, offset, 0)
    }

    /// `*(u64 *)(to + offset) = from`
    pub(in crate::live) fn store_double_word(
        &mut self,
        to: Register,
        offset: i16,
        from: Register,
    ) -> &mut Self {
        self.push(STORE_MEMORY | DOUBLE_WORD, to, from, offset, 0)
    }

    /// `*(u64 *)to += from`, atomically, in order with all before and after; `from` becomes the
    /// value before.
    pub(in crate::live) fn atomic_add(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(STORE_ATOMIC | DOUBLE_WORD, to, from, 0, FETCH)
    }

    /// Calls a helper of the kernel by its number.
    pub(in crate::live) fn call(&mut self, helper: i32) -> &mut Self {
        self.push(JUMP | CALL, Register::R0, Register::R0, 0, helper)
    }

    /// Jumps if `left == value`.
    pub(in crate::live) fn jump_equal(
        &mut self,
        left: Register,
        value: i32,
        to: Label,
    ) -> &mut Self {
        self.jump(JUMP | EQUAL, left, Register::R0, value, to)
    }

    /// Jumps if `left != value`.
    pub(in crate::live) fn jump_not_equal(
        &mut self,
        left: Register,
        value: i32,
        to: Label,
    ) -> &mut Self {
        self.jump(JUMP | NOT_EQUAL, left, Register::R0, value, to)
    }

    /// Jumps if `left == right`.
    pub(in crate::live) fn jump_same(
        &mut self,
        left: Register,
        right: Register,
        to: Label,
    ) -> &mut Self {
        self.jump(JUMP | EQUAL | FROM_REGISTER, left, right, 0, to)
    }

    /// Jumps if `left != right`.
    pub(in crate::live) fn jump_different(
        &mut self,
        left: Register,
        right: Register,
        to: Label,
    ) -> &mut Self {
        self.jump(JUMP | NOT_EQUAL | FROM_REGISTER, left, right, 0, to)
    }

    /// Jumps if `left > right`, unsigned.
    pub(in crate::live) fn jump_greater(
        &mut self,
        left: Register,
        right: Register,
        to: Label,
    ) -> &mut Self {
        self.jump(JUMP | GREATER | FROM_REGISTER, left, right, 0, to)
    }

    /// Jumps if `left > value`, unsigned.
    pub(in crate::live) fn jump_greater_than(
        &mut self,
        left: Register,
        value: i32,
        to: Label,
    ) -> &mut Self {
        self.jump(JUMP | GREATER, left, Register::R0, value, to)
    }

    /// An instruction that classic BPF has too, by its code; `to` is the accumulator of a packet
    /// load, R0.
    pub(in crate::live) fn classic(
        &mut self,
        code: u8,
        to: Register,
        from: Register,
        immediate: u32,
    ) -> &mut Self {
        self.push(code, to, from, 0, immediate as i32)
    }

    /// A jump that classic BPF has too, by its code: it compares 32 bits.
    pub(in crate::live) fn classic_jump(
        &mut self,
        code: u8,
        left: Register,
        right: Register,
        value: u32,
        to: Label,
    ) -> &mut Self {
        self.jump(code & !CLASS | JUMP32, left, right, value as i32, to)
    }

    /// Jumps.
    pub(in crate::live) fn jump_always(&mut self, to: Label) -> &mut Self {
        self.jump(JUMP, Register::R0, Register::R0, 0, to)
    }

    /// Ends the program with what `R0` holds.
    pub(in crate::live) fn exit(&mut self) -> &mut Self {
        self.push(JUMP | EXIT, Register::R0, Register::R0, 0, 0)
    }

    /// A label, to be set later.
    pub(in crate::live) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The next instruction is what `label` names.
    pub(in crate::live) fn here(&mut self, label: Label) -> &mut Self {
        self.labels[label.0] = Some(self.instructions.len());
        self
    }

    /// Whether some jump goes there.
    pub(in crate::live) fn is_wanted(&self, label: Label) -> bool {
        self.jumps.iter().any(|(_, to)| *to == label)
    }

    /// The instructions, with each jump's distance filled in.
    pub(in crate::live) fn finish(mut self) -> Vec<Instruction> {
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
const JUMP32: u8 = 0x06;
const CLASS: u8 = 0x07;
const ALU64: u8 = 0x07;
const TO_BIG_ENDIAN: u8 = 0xdc;
// Sizes.
const BYTE: u8 = 0x10;
const WORD: u8 = 0x00;
const HALF_WORD: u8 = 0x08;
const DOUBLE_WORD: u8 = 0x18;
// Operations.
const FROM_REGISTER: u8 = 0x08;
const ADD: u8 = 0x00;
const AND: u8 = 0x50;
const SHIFT_LEFT: u8 = 0x60;
const SHIFT_RIGHT: u8 = 0x70;
const XOR: u8 = 0xa0;
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

    /// The encodings that the kernel's own macros give (`linux/filter.h`): code, registers, offset,
    /// value.
    #[test]
    fn instructions_are_encoded_as_the_kernel_does() {
        let mut program = Assembler::default();
        let (end, last) = (program.label(), program.label());
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
            .add_register(Register::R4, Register::R5)
            .copy(Register::R8, Register::R9)
            .and(Register::R1, 0xffff)
            .xor(Register::R1, 0xffff)
            .shift_right(Register::R1, 16)
            .load_half_word(Register::R1, Register::R2, 26)
            .load_double_word(Register::R1, Register::R2, 8)
            .store_half_word(Register::R2, 24, Register::R1)
            .jump_greater_than(Register::R1, 2, end)
            .classic(0x48, Register::R0, Register::R7, 14)
            .classic_jump(0x45, Register::R0, Register::R0, 0x1fff, end)
            .jump_always(end)
            .here(end)
            .load_byte(Register::R0, Register::R2, 14)
            .swap_from_network(Register::R0, 16)
            .shift_left(Register::R0, 2)
            .store_byte(Register::R8, 22, Register::R1)
            .jump_same(Register::R1, Register::R2, last)
            .jump_different(Register::R1, Register::R2, last)
            .here(last)
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
                (0x55, 0x00, 17, 4),
                (0x7b, 0x71, 0, 0),
                (0xdb, 0x10, 0, 1),
                (0x85, 0x00, 0, 51),
                (0x2d, 0x23, 13, 0),
                (0x07, 0x02, 0, -4),
                (0x0f, 0x54, 0, 0),
                (0xbf, 0x98, 0, 0),
                (0x57, 0x01, 0, 0xffff),
                (0xa7, 0x01, 0, 0xffff),
                (0x77, 0x01, 0, 16),
                (0x69, 0x21, 26, 0),
                (0x79, 0x21, 8, 0),
                (0x6b, 0x12, 24, 0),
                (0x25, 0x01, 3, 2),
                (0x48, 0x70, 0, 14),
                (0x46, 0x00, 1, 0x1fff),
                (0x05, 0x00, 0, 0),
                (0x71, 0x20, 14, 0),
                (0xdc, 0x00, 0, 16),
                (0x67, 0x00, 0, 2),
                (0x73, 0x18, 22, 0),
                (0x1d, 0x21, 1, 0),
                (0x5d, 0x21, 0, 0),
                (0x95, 0x00, 0, 0),
            ]
        );
    }
}
