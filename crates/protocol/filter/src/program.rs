//! Classic BPF: the instructions, what the kernel checks before it takes a program, and the
//! machine.

/// An instruction, laid out as the kernel's `struct sock_filter` (linux/filter.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// Class, size, mode and operation.
    pub code: u16,
    /// Instructions to skip if the comparison holds.
    pub jump_true: u8,
    /// Instructions to skip if it does not.
    pub jump_false: u8,
    /// Offset, constant, index or distance.
    pub k: u32,
}

pub(crate) fn instruction(code: u16, k: u32) -> Instruction {
    Instruction {
        code,
        jump_true: 0,
        jump_false: 0,
        k,
    }
}

/// The codes that this crate writes and runs: linux/bpf_common.h.
pub(crate) mod code {
    pub(crate) const LD: u16 = 0x00;
    pub(crate) const LDX: u16 = 0x01;
    pub(crate) const JMP: u16 = 0x05;
    const W: u16 = 0x00;
    pub(crate) const H: u16 = 0x08;
    pub(crate) const B: u16 = 0x10;
    pub(crate) const ABS: u16 = 0x20;
    pub(crate) const IND: u16 = 0x40;

    pub(crate) const LD_IMM: u16 = LD;
    pub(crate) const LD_ABS_W: u16 = LD | ABS | W;
    pub(crate) const LD_ABS_H: u16 = LD | ABS | H;
    pub(crate) const LD_ABS_B: u16 = LD | ABS | B;
    pub(crate) const LD_IND_W: u16 = LD | IND | W;
    pub(crate) const LD_IND_H: u16 = LD | IND | H;
    pub(crate) const LD_IND_B: u16 = LD | IND | B;
    pub(crate) const LD_MEM: u16 = LD | 0x60;
    pub(crate) const LD_LEN: u16 = LD | 0x80;
    pub(crate) const LDX_IMM: u16 = LDX;
    pub(crate) const LDX_MEM: u16 = LDX | 0x60;
    pub(crate) const LDX_LEN: u16 = LDX | 0x80;
    /// X = 4 * (the low half of the byte at k): the length of an IPv4 header.
    pub(crate) const LDX_MSH: u16 = LDX | 0xa0 | B;
    pub(crate) const ST: u16 = 0x02;
    pub(crate) const STX: u16 = 0x03;

    pub(crate) const ALU: u16 = 0x04;
    pub(crate) const X: u16 = 0x08;
    pub(crate) const ADD: u16 = 0x00;
    pub(crate) const SUB: u16 = 0x10;
    pub(crate) const MUL: u16 = 0x20;
    pub(crate) const DIV: u16 = 0x30;
    pub(crate) const OR: u16 = 0x40;
    pub(crate) const AND: u16 = 0x50;
    pub(crate) const LSH: u16 = 0x60;
    pub(crate) const RSH: u16 = 0x70;
    pub(crate) const NEG: u16 = ALU | 0x80;
    pub(crate) const MOD: u16 = 0x90;
    pub(crate) const XOR: u16 = 0xa0;

    pub(crate) const JA: u16 = JMP;
    pub(crate) const JEQ: u16 = JMP | 0x10;
    pub(crate) const JGT: u16 = JMP | 0x20;
    pub(crate) const JGE: u16 = JMP | 0x30;
    pub(crate) const JSET: u16 = JMP | 0x40;

    pub(crate) const RET_K: u16 = 0x06;
    pub(crate) const RET_A: u16 = 0x16;
    pub(crate) const TAX: u16 = 0x07;
    pub(crate) const TXA: u16 = 0x87;
}

/// Loads at these offsets are extensions of the kernel's (linux/filter.h): the VLAN tag that was
/// taken out of the frame, and whether there is one.
pub(crate) const VLAN_TAG: u32 = 0xffff_f000 + 44;
pub(crate) const VLAN_TAG_PRESENT: u32 = 0xffff_f000 + 48;

/// Words of scratch memory: `BPF_MEMWORDS`.
pub(crate) const MEMORY_WORDS: usize = 16;
/// The longest program that the kernel takes: `BPF_MAXINSNS`.
pub(crate) const PROGRAM_LEN_MAX: usize = 4096;

/// Why a program is refused. Instructions are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// It has no instruction, or more than 4,096.
    #[error("a program has 1 to 4096 instructions, this one has {0}")]
    Length(usize),
    /// The code is none of classic BPF's.
    #[error("instruction {0}: code {1:#x} is not known")]
    Code(usize, u16),
    /// The jump ends outside the program.
    #[error("instruction {0} jumps out of the program")]
    Jump(usize),
    /// The load, store, division or shift can never work.
    #[error("instruction {0}: operand {1} is out of range")]
    Operand(usize, u32),
    /// A word of scratch memory is read that was not written on every way there.
    #[error("instruction {0} reads scratch memory that may not have been written")]
    Unwritten(usize),
    /// The last instruction returns nothing.
    #[error("the program does not end with a return")]
    End,
}

/// A program that was checked: it ends after at most as many steps as it has instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    instructions: Vec<Instruction>,
}

/// Checks one instruction, and returns how far on the next ones are. `written` has a bit for each
/// word of scratch memory that was written before.
fn check(
    at: usize,
    each: &Instruction,
    written: &mut u16,
) -> Result<[Option<usize>; 2], ProgramError> {
    match each.code {
        code::LD_ABS_W | code::LD_ABS_H | code::LD_ABS_B
            if matches!(each.k, VLAN_TAG | VLAN_TAG_PRESENT) => {}
        code::LD_ABS_W | code::LD_ABS_H | code::LD_ABS_B | code::LDX_MSH
            if each.k > i32::MAX as u32 =>
        {
            return Err(ProgramError::Operand(at, each.k));
        }
        code::LD_MEM | code::LDX_MEM | code::ST | code::STX => {
            if each.k as usize >= MEMORY_WORDS {
                return Err(ProgramError::Operand(at, each.k));
            }
            let is_load = matches!(each.code, code::LD_MEM | code::LDX_MEM);
            if is_load && *written & 1 << each.k == 0 {
                return Err(ProgramError::Unwritten(at));
            }
            *written |= 1 << each.k;
        }
        code::JA => return Ok([(each.k as usize).checked_add(1), None]),
        code::RET_K | code::RET_A => return Ok([None, None]),
        other if is_comparison(other) => {
            let jumps = [each.jump_true, each.jump_false];
            return Ok(jumps.map(|jump| Some(usize::from(jump) + 1)));
        }
        other if other & 7 == code::ALU => {
            let operation = other & 0xf0;
            let by_constant = other & code::X == 0;
            let is_refused = match operation {
                code::DIV | code::MOD => by_constant && each.k == 0,
                code::LSH | code::RSH => by_constant && each.k >= 32,
                _ => false,
            };
            if other & 0xff00 != 0
                || operation > code::XOR
                || (operation == code::NEG & 0xf0 && !by_constant)
            {
                return Err(ProgramError::Code(at, other));
            }
            if is_refused {
                return Err(ProgramError::Operand(at, each.k));
            }
        }
        code::LD_IMM
        | code::LD_LEN
        | code::LDX_IMM
        | code::LDX_LEN
        | code::TAX
        | code::TXA
        | code::LD_ABS_W
        | code::LD_ABS_H
        | code::LD_ABS_B
        | code::LD_IND_W
        | code::LD_IND_H
        | code::LD_IND_B
        | code::LDX_MSH => {}
        other => return Err(ProgramError::Code(at, other)),
    }
    Ok([Some(1), None])
}

impl Program {
    /// Checks a program as the kernel does (`bpf_check_classic`): known codes, jumps forward and
    /// inside, scratch memory in range and written before it is read, a return at the end. Loads at
    /// negative offsets, which are the kernel's own extensions, are refused, but for those of VLAN
    /// tags.
    pub fn new(instructions: Vec<Instruction>) -> Result<Self, ProgramError> {
        let len = instructions.len();
        if !(1..=PROGRAM_LEN_MAX).contains(&len) {
            return Err(ProgramError::Length(len));
        }
        // A bit for each word that was written on every way to an instruction; jumps only lead
        // forward.
        let mut written = vec![u16::MAX; len];
        written[0] = 0;
        for (at, each) in instructions.iter().enumerate() {
            let mut here = written[at];
            let next = check(at, each, &mut here)?;
            for distance in next.into_iter().flatten() {
                let Some(target) = at.checked_add(distance).and_then(|to| written.get_mut(to))
                else {
                    return Err(if at + 1 == len && distance == 1 && !is_jump(each.code) {
                        ProgramError::End
                    } else {
                        ProgramError::Jump(at)
                    });
                };
                *target &= here;
            }
        }
        Ok(Self { instructions })
    }

    /// The instructions, for the kernel.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Whether the program takes a frame of which `bytes` were kept and that had `wire_len` bytes
    /// on the wire.
    ///
    /// A load beyond the bytes, or a division by 0, ends the program: the frame is not taken.
    pub fn matches(&self, bytes: &[u8], wire_len: u32) -> bool {
        let view = View {
            head: bytes,
            rest: &[],
            tag: None,
            wire_len,
        };
        self.run(&view).is_some_and(|taken| taken > 0)
    }

    /// Whether the program, one for arriving frames, takes this Ethernet frame as the kernel shows
    /// it to a packet socket's filter: without its outer tag, which is known beside it.
    pub fn matches_arriving(&self, bytes: &[u8], wire_len: u32) -> bool {
        // What `skb_vlan_untag` takes out: tags of 802.1Q and 802.1ad.
        let &[ref head @ .., kind_high, kind_low, id_high, id_low] =
            bytes.first_chunk::<16>().unwrap_or(&[0; 16]);
        if !matches!([kind_high, kind_low], [0x81, 0x00] | [0x88, 0xa8]) {
            return self.matches(bytes, wire_len);
        }
        let view = View {
            head,
            rest: &bytes[16..],
            tag: Some(u16::from_be_bytes([id_high, id_low])),
            wire_len: wire_len.saturating_sub(4),
        };
        self.run(&view).is_some_and(|taken| taken > 0)
    }

    /// What the program returns; `None` if a load or a division ended it.
    fn run(&self, view: &View<'_>) -> Option<u32> {
        let wire_len = view.wire_len;
        let (mut a, mut x) = (0u32, 0u32);
        let mut memory = [0u32; MEMORY_WORDS];
        let mut at = 0;
        loop {
            let Instruction { code, k, .. } = *self.instructions.get(at)?;
            at += 1;
            match code {
                code::LD_ABS_W | code::LD_ABS_H | code::LD_ABS_B if k >= VLAN_TAG => {
                    a = match k {
                        VLAN_TAG => view.tag.unwrap_or(0).into(),
                        _ => view.tag.is_some().into(),
                    };
                }
                code::LD_ABS_W => a = u32::from_be_bytes(view.array(k)?),
                code::LD_ABS_H => a = u16::from_be_bytes(view.array(k)?).into(),
                code::LD_ABS_B => a = u8::from_be_bytes(view.array(k)?).into(),
                code::LD_IND_W => a = u32::from_be_bytes(view.array(x.checked_add(k)?)?),
                code::LD_IND_H => a = u16::from_be_bytes(view.array(x.checked_add(k)?)?).into(),
                code::LD_IND_B => a = u8::from_be_bytes(view.array(x.checked_add(k)?)?).into(),
                code::LDX_MSH => x = u32::from(u8::from_be_bytes(view.array(k)?) & 0x0f) * 4,
                code::LD_IMM => a = k,
                code::LD_LEN => a = wire_len,
                code::LD_MEM => a = *memory.get(k as usize)?,
                code::LDX_IMM => x = k,
                code::LDX_LEN => x = wire_len,
                code::LDX_MEM => x = *memory.get(k as usize)?,
                code::ST => *memory.get_mut(k as usize)? = a,
                code::STX => *memory.get_mut(k as usize)? = x,
                code::TAX => x = a,
                code::TXA => a = x,
                code::NEG => a = a.wrapping_neg(),
                code::JA => at += k as usize,
                code::RET_K => return Some(k),
                code::RET_A => return Some(a),
                _ => {
                    let operand = if code & code::X == 0 { k } else { x };
                    if is_comparison(code) {
                        let holds = match code & !code::X {
                            code::JEQ => a == operand,
                            code::JGT => a > operand,
                            code::JGE => a >= operand,
                            _ => a & operand != 0,
                        };
                        let instruction = self.instructions.get(at - 1)?;
                        at += usize::from(if holds {
                            instruction.jump_true
                        } else {
                            instruction.jump_false
                        });
                    } else {
                        a = compute(code & 0xf0, a, operand)?;
                    }
                }
            }
        }
    }
}

fn compute(operation: u16, a: u32, operand: u32) -> Option<u32> {
    Some(match operation {
        code::ADD => a.wrapping_add(operand),
        code::SUB => a.wrapping_sub(operand),
        code::MUL => a.wrapping_mul(operand),
        code::DIV => a.checked_div(operand)?,
        code::MOD => a.checked_rem(operand)?,
        code::OR => a | operand,
        code::AND => a & operand,
        code::XOR => a ^ operand,
        // A shift by 32 or more leaves nothing, as in libpcap.
        code::LSH => a.checked_shl(operand).unwrap_or(0),
        _ => a.checked_shr(operand).unwrap_or(0),
    })
}

fn is_comparison(code: u16) -> bool {
    matches!(
        code & !code::X,
        code::JEQ | code::JGT | code::JGE | code::JSET
    )
}

fn is_jump(code: u16) -> bool {
    code & 7 == code::JMP
}

/// A frame as a program sees it: two parts, between which a tag was taken out.
struct View<'a> {
    head: &'a [u8],
    rest: &'a [u8],
    tag: Option<u16>,
    wire_len: u32,
}

impl View<'_> {
    #[inline]
    fn array<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        let whole = { self.head.get(offset as usize..) }.and_then(<[u8]>::first_chunk);
        whole.copied().or_else(|| self.array_in_rest(offset))
    }

    #[cold]
    fn array_in_rest<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        let mut array = [0; N];
        for (at, byte) in (offset as usize..).zip(&mut array) {
            *byte = match at.checked_sub(self.head.len()) {
                Some(behind) => *self.rest.get(behind)?,
                None => self.head[at],
            };
        }
        Some(array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(code: u16, jump_true: u8, jump_false: u8, k: u32) -> Instruction {
        Instruction {
            code,
            jump_true,
            jump_false,
            k,
        }
    }

    fn refused(instructions: &[Instruction]) -> ProgramError {
        Program::new(instructions.to_vec()).expect_err("is refused")
    }

    const RETURN: Instruction = Instruction {
        code: code::RET_K,
        jump_true: 0,
        jump_false: 0,
        k: 1,
    };

    #[test]
    fn programs_that_the_kernel_refuses_are_refused() {
        assert_eq!(refused(&[]), ProgramError::Length(0));
        assert_eq!(refused(&[RETURN; 4097]), ProgramError::Length(4097));
        let wrong = [
            (instruction(0x99, 0, 0, 0), ProgramError::Code(0, 0x99)),
            (instruction(code::JEQ, 1, 0, 0), ProgramError::Jump(0)),
            (instruction(code::JEQ, 0, 1, 0), ProgramError::Jump(0)),
            (instruction(code::JA, 0, 0, u32::MAX), ProgramError::Jump(0)),
            (
                instruction(code::ST, 0, 0, 16),
                ProgramError::Operand(0, 16),
            ),
            (
                instruction(code::LD_MEM, 0, 0, 16),
                ProgramError::Operand(0, 16),
            ),
            (
                instruction(code::LD_MEM, 0, 0, 3),
                ProgramError::Unwritten(0),
            ),
            (
                instruction(code::ALU | code::DIV, 0, 0, 0),
                ProgramError::Operand(0, 0),
            ),
            (
                instruction(code::ALU | code::LSH, 0, 0, 32),
                ProgramError::Operand(0, 32),
            ),
            (
                instruction(code::LD_ABS_B, 0, 0, 1 << 31),
                ProgramError::Operand(0, 1 << 31),
            ),
        ];
        for (first, error) in wrong {
            assert_eq!(refused(&[first, RETURN]), error);
        }
        assert_eq!(
            refused(&[instruction(code::LD_LEN, 0, 0, 0)]),
            ProgramError::End
        );
        // Written on one way only.
        let branch = instruction(code::JEQ, 0, 1, 0);
        let store = instruction(code::ST, 0, 0, 2);
        let load = instruction(code::LD_MEM, 0, 0, 2);
        assert_eq!(
            refused(&[branch, store, load, RETURN]),
            ProgramError::Unwritten(2)
        );
        assert!(Program::new(vec![store, branch, RETURN, load, RETURN]).is_ok());
    }

    #[test]
    fn the_machine_computes_in_32_bits() {
        let after = |operations: &[(u16, u32)]| {
            let mut program = vec![instruction(code::LD_IMM, 0, 0, 0x8000_0001)];
            program.extend(
                operations
                    .iter()
                    .map(|&(code, k)| instruction(code, 0, 0, k)),
            );
            program.push(instruction(code::RET_A, 0, 0, 0));
            let view = View {
                head: &[0x45, 1],
                rest: &[],
                tag: None,
                wire_len: 77,
            };
            Program::new(program).expect("is right").run(&view)
        };
        let k = code::ALU;
        let x = code::ALU | code::X;
        assert_eq!(after(&[(k | code::ADD, 0x8000_0000)]), Some(1));
        assert_eq!(after(&[(code::NEG, 0)]), Some(0x7fff_ffff));
        assert_eq!(after(&[(k | code::LSH, 1)]), Some(2));
        assert_eq!(after(&[(code::LDX_IMM, 40), (x | code::RSH, 0)]), Some(0));
        assert_eq!(after(&[(code::LDX_IMM, 0), (x | code::DIV, 0)]), None);
        assert_eq!(after(&[(code::LDX_MSH, 0), (code::TXA, 0)]), Some(20));
        assert_eq!(
            after(&[(code::LDX_LEN, 0), (x | code::MOD, 0)]),
            Some(0x8000_0001 % 77)
        );
        assert_eq!(after(&[(code::LD_ABS_H, 0)]), Some(0x4501));
        assert_eq!(after(&[(code::LD_ABS_H, 1)]), None);
        assert_eq!(
            after(&[(code::LDX_IMM, u32::MAX), (code::LD_IND_B, 1)]),
            None
        );
    }
}
