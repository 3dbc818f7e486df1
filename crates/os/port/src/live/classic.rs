//! Classic BPF: its codes, and programs of it with jumps to labels (linux/bpf_common.h,
//! linux/filter.h).

/// An instruction of classic BPF, laid out as the kernel's `struct sock_filter` (linux/filter.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct FilterInstruction {
    /// What it does.
    pub code: u16,
    /// Instructions to skip if a condition holds.
    pub jump_true: u8,
    /// Instructions to skip if it does not.
    pub jump_false: u8,
    /// A constant, offset or distance.
    pub operand: u32,
}

/// Loads at these offsets are extensions of the kernel's (linux/filter.h): the VLAN tag that was
/// taken out of the frame, and whether there is one.
pub(super) const VLAN_TAG: u32 = 0xffff_f000 + 44;
pub(super) const VLAN_TAG_PRESENT: u32 = 0xffff_f000 + 48;

pub(super) const LD_IMM: u8 = 0x00;
pub(super) const LDX_IMM: u8 = 0x01;
pub(super) const LD_ABS_W: u8 = 0x20;
pub(super) const LD_ABS_H: u8 = 0x28;
pub(super) const LD_ABS_B: u8 = 0x30;
pub(super) const LD_IND_W: u8 = 0x40;
pub(super) const LD_IND_H: u8 = 0x48;
pub(super) const LD_IND_B: u8 = 0x50;
pub(super) const LD_MEM: u8 = 0x60;
pub(super) const LDX_MEM: u8 = 0x61;
pub(super) const LD_LEN: u8 = 0x80;
/// X = 4 times the low four bits of a byte: the length of an IPv4 header.
pub(super) const LDX_MSH: u8 = 0xb1;
pub(super) const ST: u8 = 0x02;
pub(super) const STX: u8 = 0x03;
pub(super) const ALU: u8 = 0x04;
pub(super) const ADD: u8 = 0x04;
pub(super) const ADD_X: u8 = 0x0c;
pub(super) const AND: u8 = 0x54;
pub(super) const LEFT: u8 = 0x64;
pub(super) const JMP: u8 = 0x05;
pub(super) const CLASS: u8 = 0x07;
pub(super) const OPERATION: u8 = 0xf0;
pub(super) const FROM_X: u8 = 0x08;
pub(super) const DIVIDE: u8 = 0x30;
pub(super) const MODULO: u8 = 0x90;
pub(super) const NEG: u8 = 0x84;
pub(super) const JA: u8 = 0x05;
pub(super) const EQUAL: u8 = 0x15;
pub(super) const GREATER: u8 = 0x25;
pub(super) const GREATER_OR_EQUAL: u8 = 0x35;
pub(super) const ANY_BIT: u8 = 0x45;
pub(super) const RET_K: u8 = 0x06;
pub(super) const RET_A: u8 = 0x16;
pub(super) const TAX: u8 = 0x07;
pub(super) const TXA: u8 = 0x87;

/// What a filter returns for a frame that passes whole.
pub(super) const WHOLE: u32 = 0x4_0000;

/// The most instructions that the kernel takes (`BPF_MAXINSNS`).
pub(super) const INSTRUCTIONS_MAX: usize = 4096;

/// A place to jump to, always forward: made by [`Classic::label`], set by [`Classic::here`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Label(usize);

/// A program under construction. A conditional jump reaches 255 instructions only: each skips a
/// jump without a condition, which reaches all.
#[derive(Debug, Default)]
pub(super) struct Classic {
    instructions: Vec<FilterInstruction>,
    /// Where each label stands.
    labels: Vec<Option<usize>>,
    /// Jumps to be filled in: instruction and label.
    jumps: Vec<(usize, Label)>,
}

impl Classic {
    /// An instruction that is no jump.
    pub(super) fn push(&mut self, code: u8, operand: u32) -> &mut Self {
        self.instruction(code, [0, 0], operand)
    }

    /// Jumps if the condition holds between A and the operand.
    pub(super) fn when(&mut self, condition: u8, operand: u32, to: Label) -> &mut Self {
        self.instruction(condition, [0, 1], operand).jump(to)
    }

    /// Jumps if it does not.
    pub(super) fn unless(&mut self, condition: u8, operand: u32, to: Label) -> &mut Self {
        self.instruction(condition, [1, 0], operand).jump(to)
    }

    /// Jumps.
    pub(super) fn jump(&mut self, to: Label) -> &mut Self {
        self.jumps.push((self.instructions.len(), to));
        self.instruction(JA, [0, 0], 0)
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
    pub(super) fn finish(mut self) -> Vec<FilterInstruction> {
        for (at, label) in self.jumps {
            let target = self.labels[label.0].expect("every label that is jumped to is set");
            let distance = target.checked_sub(at + 1).expect("jumps go forward");
            self.instructions[at].operand = distance as u32;
        }
        self.instructions
    }

    fn instruction(&mut self, code: u8, jumps: [u8; 2], operand: u32) -> &mut Self {
        self.instructions.push(FilterInstruction {
            code: code.into(),
            jump_true: jumps[0],
            jump_false: jumps[1],
            operand,
        });
        self
    }
}
