//! Checksums of 512-byte blocks at 512-byte-aligned file offsets, of data that passes and is never
//! held.

use lineside_frame::{Chunk, xxh3};

/// Bytes of a block.
pub const BLOCK_BYTES: usize = xxh3::LEN;

/// The data of one READ or WRITE after the other, in pieces of any size, holes included.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// File offset of the next byte.
    offset: u64,
    /// Whole aligned blocks that the data spans.
    spanned: u64,
    summed: u64,
    /// The beginning of a block whose rest has not come; `filled` bytes of it.
    partial: [u8; BLOCK_BYTES],
    filled: usize,
}

/// Consecutive blocks that were seen whole.
pub(crate) struct Run<'a> {
    /// The number of the first: file offset / 512.
    pub(crate) first: i64,
    /// The first, if it came in several pieces.
    pub(crate) straddling: Option<&'a [u8; BLOCK_BYTES]>,
    /// All others, where they lie.
    pub(crate) whole: Chunk<'a>,
}

impl Run<'_> {
    fn count(&self) -> usize {
        usize::from(self.straddling.is_some()) + self.whole.len() / BLOCK_BYTES
    }

    /// The checksum of the first block, if it came in several pieces.
    #[inline]
    pub(crate) fn straddling_sum(&self) -> Option<u64> {
        self.straddling.map(xxh3::sum)
    }

    /// Appends the checksum of each block.
    #[inline]
    pub(crate) fn sum(&self, sums: &mut Vec<u64>) {
        sums.extend(self.straddling_sum());
        xxh3::sum_each(self.whole.bytes(), sums);
    }
}

/// So many checksums are written at once: data of 32 KiB.
const SUMS_MAX: usize = 64;

/// Checksums of consecutive blocks of one READ or WRITE that are not written yet.
#[derive(Debug, Default)]
pub(crate) struct Summed {
    first: i64,
    sums: Vec<u64>,
}

impl Summed {
    /// Adds those of a run. `write` gets the number of the first block and the checksums that come
    /// before, if the run does not continue them, and those that are enough to be written.
    #[inline]
    pub(crate) fn add(&mut self, run: &Run<'_>, mut write: impl FnMut(i64, &[u64])) {
        if self.first.wrapping_add(self.sums.len() as i64) != run.first {
            self.end(&mut write);
        }
        if self.sums.is_empty() {
            self.first = run.first;
        }
        run.sum(&mut self.sums);
        if self.sums.len() >= SUMS_MAX {
            self.end(write);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// Gives what is left to `write`.
    #[inline]
    pub(crate) fn end(&mut self, mut write: impl FnMut(i64, &[u64])) {
        if !self.sums.is_empty() {
            write(self.first, &self.sums);
            self.sums.clear();
        }
    }
}

impl Default for Blocks {
    fn default() -> Self {
        Self {
            offset: 0,
            spanned: 0,
            summed: 0,
            partial: [0; BLOCK_BYTES],
            filled: 0,
        }
    }
}

impl Blocks {
    /// Data of `len` bytes follows that begins at `offset` of its file.
    pub(crate) fn begin(&mut self, offset: u64, len: u64) {
        self.offset = offset;
        self.spanned = Self::spanned(offset, len);
        (self.summed, self.filled) = (0, 0);
    }

    /// Whole aligned blocks in `len` bytes from `offset` on.
    pub(crate) fn spanned(offset: u64, len: u64) -> u64 {
        let block = BLOCK_BYTES as u64;
        (offset.saturating_add(len) / block).saturating_sub(offset.div_ceil(block))
    }

    /// Takes the next bytes or the next hole. `each` gets the run of blocks that they complete, if
    /// any.
    #[inline]
    pub(crate) fn on_data(&mut self, chunk: Chunk<'_>, each: impl FnOnce(Run<'_>)) {
        if chunk.missing().is_some() {
            self.offset = self.offset.wrapping_add(chunk.len() as u64);
            self.filled = 0;
            return;
        }
        let start = self.offset;
        self.offset = start.wrapping_add(chunk.len() as u64);
        let (mut aligned, mut straddling) = (0, None);
        let mut first = start / BLOCK_BYTES as u64;
        let in_block = (start % BLOCK_BYTES as u64) as usize;
        if in_block > 0 {
            let head = &chunk.bytes()[..chunk.len().min(BLOCK_BYTES - in_block)];
            aligned = head.len();
            if self.filled == in_block {
                self.filled += head.len();
                self.partial[in_block..self.filled].copy_from_slice(head);
                if self.filled < BLOCK_BYTES {
                    return;
                }
                straddling = Some(&self.partial);
            } else {
                // The beginning of this block was not seen, or is not part of the data.
                first = start.wrapping_add(head.len() as u64) / BLOCK_BYTES as u64;
            }
        }
        let whole_len = (chunk.len() - aligned) / BLOCK_BYTES * BLOCK_BYTES;
        let run = Run {
            first: first as i64,
            straddling,
            whole: chunk.part(aligned, whole_len),
        };
        let count = run.count();
        if count > 0 {
            self.summed += count as u64;
            each(run);
        }
        let rest = &chunk.bytes()[aligned + whole_len..];
        self.partial[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }

    /// Blocks that were checksummed, and blocks of which some byte was missing.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.summed, self.spanned.saturating_sub(self.summed))
    }
}

#[cfg(test)]
mod tests {
    use lineside_frame::{Cause, Descriptor, Frame};
    use lineside_time::Random;
    use twox_hash::XxHash3_64;

    use super::*;

    /// Feeds `file[from..from + len]` in pieces, some of them lost; returns what was summed.
    fn feed(
        file: &[u8],
        from: usize,
        len: usize,
        pieces: &[(usize, bool)],
    ) -> (Vec<(i64, u64)>, Blocks) {
        let mut blocks = Blocks::default();
        blocks.begin(from as u64, len as u64);
        let (mut at, mut sums, mut out) = (from, Vec::new(), Vec::new());
        for &(size, lost) in pieces {
            let size = size.min(from + len - at);
            let frame = Frame::copied(&file[at..at + size], Descriptor::default()).share();
            let hole = Chunk::hole(size, Cause::NotSeen, frame.descriptor());
            let chunk = if lost {
                hole
            } else {
                Chunk::of_frame(&frame, 0, size)
            };
            blocks.on_data(chunk, |run| {
                sums.clear();
                run.sum(&mut sums);
                out.extend((run.first..).zip(sums.iter().copied()));
            });
            at += size;
        }
        (out, blocks)
    }

    #[test]
    fn every_block_that_was_seen_whole_is_summed_and_no_other() {
        let mut random = Random::new(5);
        let mut file = vec![0; 20_000];
        random.fill(&mut file);
        for _ in 0..300 {
            let from = random.below(3000) as usize;
            let len = random.below(16_000) as usize;
            let pieces: Vec<_> =
                std::iter::repeat_with(|| (1 + random.below(1448) as usize, random.chance(0.1)))
                    .take(400)
                    .collect();
            let mut seen = vec![false; file.len()];
            let mut at = from;
            for &(size, lost) in &pieces {
                let size = size.min(from + len - at);
                seen[at..at + size].fill(!lost);
                at += size;
            }
            let expected: Vec<_> = (0..file.len() / BLOCK_BYTES)
                .filter(|block| {
                    seen[block * BLOCK_BYTES..][..BLOCK_BYTES]
                        .iter()
                        .all(|&seen| seen)
                })
                .map(|block| {
                    (
                        block as i64,
                        XxHash3_64::oneshot(&file[block * BLOCK_BYTES..][..BLOCK_BYTES]),
                    )
                })
                .collect();
            let (got, blocks) = feed(&file, from, len, &pieces);
            assert_eq!(got, expected);
            let spanned = ((from + at - from) / 512).saturating_sub(from.div_ceil(512)) as u64;
            assert_eq!(
                blocks.counts(),
                (expected.len() as u64, spanned - expected.len() as u64)
            );
        }
    }

    #[test]
    fn consecutive_checksums_are_written_at_once() {
        let frame = Frame::copied(&[1; 9000], Descriptor::default()).share();
        let (mut blocks, mut summed) = (Blocks::default(), Summed::default());
        let mut written = Vec::new();
        let mut write = |first: i64, sums: &[u64]| written.push((first, sums.len()));
        blocks.begin(100, 1 << 20);
        for at in 0..30 {
            let chunk = match at {
                9 => Chunk::hole(1448, Cause::NotSeen, frame.descriptor()),
                _ => Chunk::of_frame(&frame, 0, 1448),
            };
            blocks.on_data(chunk, |run| summed.add(&run, &mut write));
        }
        summed.end(&mut write);
        summed.end(&mut write);
        // Up to byte 13,132, and from byte 14,580 on: SUMS_MAX at least, and the rest.
        assert_eq!(written, [(1, 24), (29, 56)]);
        assert!(summed.is_empty());

        written.clear();
        let mut write = |first: i64, sums: &[u64]| written.push((first, sums.len()));
        blocks.begin(0, 1 << 20);
        for _ in 0..9 {
            let chunk = Chunk::of_frame(&frame, 0, 9000);
            blocks.on_data(chunk, |run| summed.add(&run, &mut write));
        }
        summed.end(&mut write);
        assert_eq!(written, [(0, 70), (70, 70), (140, 18)]);
    }

    #[test]
    fn hostile_offsets_do_not_overflow() {
        let frame = Frame::copied(&[1; 2000], Descriptor::default()).share();
        let mut blocks = Blocks::default();
        blocks.begin(u64::MAX - 700, 2000);
        blocks.on_data(Chunk::of_frame(&frame, 0, 2000), |_| {});
    }
}
