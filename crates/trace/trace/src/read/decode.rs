//! Values as Parquet encodes them in a page: runs, differences, and what lies plain (`Encodings.md`
//! of the Parquet format).
//!
//! A decoder holds places only; each call gives it the bytes of its page. It appends as many values
//! as asked, and reserves memory for those alone, whatever a damaged page claims to hold.

use super::compact::{Damage, from_zigzag, varint};
use super::unpack::unpack;

type Result<T> = std::result::Result<T, Damage>;

const ENDS: Damage = Damage("a page ends early");
const VALUE: Damage = Damage("a value out of range");
/// Packed numbers that are unpacked at once.
const UNPACKED: usize = 64;

/// Numbers of some bits in a row: repeated ones (RLE) and packed ones, in turn.
#[derive(Default)]
pub(super) struct Hybrid {
    at: usize,
    end: usize,
    width: u32,
    /// Values left of a run, and which.
    repeated: usize,
    value: u32,
    /// Values left of packed groups, and the bit at which the next one begins, counted from `at`.
    packed: usize,
    bit: usize,
}

impl Hybrid {
    /// In `bytes[at..end]`.
    pub(super) fn new(at: usize, end: usize, width: u32) -> Result<Self> {
        if width > u32::BITS {
            return Err(Damage("numbers of more than 32 bits"));
        }
        Ok(Self {
            at,
            end,
            width,
            ..Self::default()
        })
    }

    /// Behind a length of four bytes at `at`; returns where what follows begins, too.
    pub(super) fn with_length(bytes: &[u8], at: usize, width: u32) -> Result<(Self, usize)> {
        let len = u32_at(bytes, at)? as usize;
        let start = at + size_of::<u32>();
        let end = start.checked_add(len).filter(|&end| end <= bytes.len());
        let end = end.ok_or(ENDS)?;
        Ok((Self::new(start, end, width)?, end))
    }

    /// Appends `count` values, each as `of` gives it; `None` is a value that cannot be.
    pub(super) fn read<T: Copy + Default>(
        &mut self,
        bytes: &[u8],
        mut count: usize,
        out: &mut Vec<T>,
        of: impl Fn(u32) -> Option<T>,
    ) -> Result<()> {
        out.reserve(count);
        while count > 0 {
            if self.repeated > 0 {
                let taken = count.min(self.repeated);
                out.resize(out.len() + taken, of(self.value).ok_or(VALUE)?);
                (self.repeated, count) = (self.repeated - taken, count - taken);
            } else if self.packed > 0 {
                let taken = count.min(self.packed);
                self.read_packed(&bytes[self.at..self.end], taken, out, &of)?;
                (self.packed, count) = (self.packed - taken, count - taken);
                if self.packed == 0 {
                    self.at += self.bit.div_ceil(8);
                }
            } else {
                self.next_run(bytes)?;
            }
        }
        Ok(())
    }

    /// Appends packed values of the present run.
    fn read_packed<T: Copy + Default>(
        &mut self,
        run: &[u8],
        count: usize,
        out: &mut Vec<T>,
        of: &impl Fn(u32) -> Option<T>,
    ) -> Result<()> {
        let mut codes = [0; UNPACKED];
        let mut is_whole = true;
        let mut left = count;
        while left > 0 {
            let codes = &mut codes[..left.min(UNPACKED)];
            unpack(run, self.bit, self.width, codes, |bits| bits as u32);
            out.extend(codes.iter().map(|&code| {
                let value = of(code);
                is_whole &= value.is_some();
                value.unwrap_or_default()
            }));
            self.bit += codes.len() * self.width as usize;
            left -= codes.len();
        }
        is_whole.then_some(()).ok_or(VALUE)
    }

    /// Passes `count` values if the present run goes on with this many of `value`.
    pub(super) fn pass_run(&mut self, bytes: &[u8], value: u32, count: usize) -> Result<bool> {
        if self.repeated == 0 && self.packed == 0 {
            self.next_run(bytes)?;
        }
        let is_run = self.repeated >= count && self.value == value;
        if is_run {
            self.repeated -= count;
        }
        Ok(is_run)
    }

    fn next_run(&mut self, bytes: &[u8]) -> Result<()> {
        let rest = bytes.get(self.at..self.end).ok_or(ENDS)?;
        let (header, len) = varint(rest).ok_or(ENDS)?;
        let count = usize::try_from(header >> 1).map_err(|_| ENDS)?;
        self.at += len;
        if header & 1 == 0 {
            let value_len = self.width.div_ceil(8) as usize;
            let value = rest.get(len..len + value_len).ok_or(ENDS)?;
            self.value = value
                .iter()
                .rev()
                .fold(0, |value, &byte| value << 8 | u32::from(byte));
            (self.repeated, self.at) = (count, self.at + value_len);
        } else {
            // The last group may be cut off behind the last value.
            let bits = (rest.len() - len) * 8;
            let room = bits.checked_div(self.width as usize).unwrap_or(usize::MAX);
            self.packed = count.saturating_mul(8).min(room);
            self.bit = 0;
        }
        if self.repeated == 0 && self.packed == 0 && count > 0 {
            return Err(ENDS);
        }
        Ok(())
    }
}

/// Differences (`DELTA_BINARY_PACKED`): blocks of miniblocks, each with a width of its own.
#[derive(Default)]
pub(super) struct Delta {
    at: usize,
    /// Values that are not read yet.
    left: usize,
    value: i64,
    is_first: bool,
    block_values: usize,
    miniblocks: usize,
    least: i64,
    /// Where the widths of the block are, and the next of them.
    widths: usize,
    miniblock: usize,
    /// Values left of the miniblock, their width, and the bit at which the next one begins, counted
    /// from `at`.
    miniblock_left: usize,
    width: u32,
    bit: usize,
}

impl Delta {
    pub(super) fn new(bytes: &[u8], at: usize) -> Result<Self> {
        let mut delta = Self {
            at,
            is_first: true,
            ..Self::default()
        };
        let [block, miniblocks, left] = [(); 3].map(|()| delta.varint(bytes));
        let number = |number: Result<u64>| usize::try_from(number?).map_err(|_| ENDS);
        (delta.block_values, delta.miniblocks) = (number(block)?, number(miniblocks)?);
        delta.left = number(left)?;
        delta.value = from_zigzag(delta.varint(bytes)?);
        if delta.miniblocks == 0 || !delta.block_values.is_multiple_of(delta.miniblocks) {
            return Err(Damage("blocks of differences that cannot be"));
        }
        delta.miniblock = delta.miniblocks;
        Ok(delta)
    }

    /// Appends `count` values, each as `of` gives it.
    pub(super) fn read<T>(
        &mut self,
        bytes: &[u8],
        mut count: usize,
        out: &mut Vec<T>,
        of: impl Fn(i64) -> T,
    ) -> Result<()> {
        if count > self.left {
            return Err(ENDS);
        }
        out.reserve(count);
        self.left -= count;
        if self.is_first && count > 0 {
            self.is_first = false;
            out.push(of(self.value));
            count -= 1;
        }
        let mut differences = [0; UNPACKED];
        while count > 0 {
            if self.miniblock_left == 0 {
                self.next_miniblock(bytes)?;
            }
            let taken = count.min(self.miniblock_left);
            let packed = bytes.get(self.at..).ok_or(ENDS)?;
            if (self.bit + taken * self.width as usize).div_ceil(8) > packed.len() {
                return Err(ENDS);
            }
            let taken = taken.min(UNPACKED);
            let (least, value) = (self.least, &mut self.value);
            let differences = &mut differences[..taken];
            unpack(packed, self.bit, self.width, differences, |bits| bits);
            out.extend(differences.iter().map(|bits| {
                *value = value.wrapping_add(least).wrapping_add(bits.cast_signed());
                of(*value)
            }));
            self.bit += taken * self.width as usize;
            (self.miniblock_left, count) = (self.miniblock_left - taken, count - taken);
        }
        Ok(())
    }

    /// Where the differences end: what follows them begins there. To be asked before anything is
    /// read.
    pub(super) fn end(&self, bytes: &[u8]) -> Result<usize> {
        let mut walk = Self { ..*self };
        let mut left = self.left.saturating_sub(1);
        while left > 0 {
            walk.next_miniblock(bytes)?;
            left = left.saturating_sub(walk.miniblock_left);
        }
        Ok(walk.at + walk.miniblock_len())
    }

    /// Bytes of the present miniblock.
    fn miniblock_len(&self) -> usize {
        let values = match self.widths {
            0 => 0,
            _ => self.block_values / self.miniblocks,
        };
        (values / 8).saturating_mul(self.width as usize)
    }

    fn next_miniblock(&mut self, bytes: &[u8]) -> Result<()> {
        let end = self.at.checked_add(self.miniblock_len()).ok_or(ENDS)?;
        self.at = end;
        if self.miniblock == self.miniblocks {
            self.least = from_zigzag(self.varint(bytes)?);
            (self.widths, self.miniblock) = (self.at, 0);
            self.at = self.at.checked_add(self.miniblocks).ok_or(ENDS)?;
        }
        let width = bytes.get(self.widths + self.miniblock).ok_or(ENDS)?;
        self.width = u32::from(*width);
        if self.width > u64::BITS {
            return Err(Damage("differences of more than 64 bits"));
        }
        self.miniblock += 1;
        self.miniblock_left = self.block_values / self.miniblocks;
        self.bit = 0;
        if self.miniblock_left == 0 {
            return Err(Damage("blocks of differences that cannot be"));
        }
        Ok(())
    }

    fn varint(&mut self, bytes: &[u8]) -> Result<u64> {
        let (value, len) = bytes.get(self.at..).and_then(varint).ok_or(ENDS)?;
        self.at += len;
        Ok(value)
    }
}

/// Appends `count` numbers that lie plain from `at` on.
pub(super) fn read_plain<T, const LEN: usize>(
    bytes: &[u8],
    at: &mut usize,
    count: usize,
    out: &mut Vec<T>,
    of: impl Fn([u8; LEN]) -> T,
) -> Result<()> {
    let numbers = bytes.get(*at..).unwrap_or_default().as_chunks().0;
    let numbers = numbers.get(..count).ok_or(ENDS)?;
    out.extend(numbers.iter().map(|&number| of(number)));
    *at += count * LEN;
    Ok(())
}

/// Appends `count` numbers whose bytes lie apart, all first ones first (`BYTE_STREAM_SPLIT`);
/// `done` were read before.
pub(super) fn read_split<T, const LEN: usize>(
    bytes: &[u8],
    done: &mut usize,
    count: usize,
    out: &mut Vec<T>,
    of: impl Fn([u8; LEN]) -> T,
) -> Result<()> {
    let in_page = bytes.len() / LEN;
    if count > in_page - (*done).min(in_page) {
        return Err(ENDS);
    }
    let number = |place: usize| of(std::array::from_fn(|byte| bytes[byte * in_page + place]));
    out.extend((*done..*done + count).map(number));
    *done += count;
    Ok(())
}

/// Appends `count` truth values, a bit each from `bit` on.
pub(super) fn read_bits(
    bytes: &[u8],
    bit: &mut usize,
    count: usize,
    out: &mut Vec<bool>,
) -> Result<()> {
    if *bit + count > bytes.len() * 8 {
        return Err(ENDS);
    }
    let mut flags = [false; UNPACKED];
    let mut left = count;
    while left > 0 {
        let flags = &mut flags[..left.min(UNPACKED)];
        unpack(bytes, *bit, 1, flags, |bits| bits == 1);
        out.extend_from_slice(flags);
        *bit += flags.len();
        left -= flags.len();
    }
    Ok(())
}

/// The bytes at `at` behind their length, which go past `at`.
pub(super) fn next_plain_bytes<'a>(bytes: &'a [u8], at: &mut usize) -> Result<&'a [u8]> {
    let len = u32_at(bytes, *at)? as usize;
    *at += size_of::<u32>();
    next_bytes(bytes, at, len)
}

/// `len` bytes at `at`, which go past `at`.
pub(super) fn next_bytes<'a>(bytes: &'a [u8], at: &mut usize, len: usize) -> Result<&'a [u8]> {
    let value = bytes
        .get(*at..)
        .and_then(|rest| rest.get(..len))
        .ok_or(ENDS)?;
    *at += len;
    Ok(value)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk).ok_or(ENDS)?;
    Ok(u32::from_le_bytes(*word))
}
