//! Which blocks of data show what a file held at the start: those that a READ shows before any call
//! has changed them.

use hashbrown::HashMap;

/// Bytes of a block, as in table `checksums`.
pub const BLOCK_BYTES: u64 = 512;

/// Blocks of a page: those of small files take one page of few bytes.
const PAGE_BLOCKS: u64 = 256;

/// Pages that are kept, of about 50 bytes each: 256 GiB of data.
const PAGES_MAX: usize = 1 << 21;

/// A longer range than this counts as all that follows: nobody writes so much at once.
const RANGE_MAX: u64 = 1 << 30;

type Page = [u64; (PAGE_BLOCKS / 64) as usize];

/// Blocks that calls have shown or changed, by `file_id`.
#[derive(Debug, Default)]
pub struct FirstReads {
    pages: HashMap<(i64, u64), Page>,
    /// From here on all has been changed: the file was cut.
    cuts: HashMap<i64, u64>,
    left_out: u64,
}

impl FirstReads {
    /// Nothing was read or written.
    pub fn new() -> Self {
        Self::default()
    }

    /// A READ shows a whole block. Whether it is as it was at the start, and was not shown before.
    pub fn read(&mut self, file: i64, block: u64) -> bool {
        let at = block.saturating_mul(BLOCK_BYTES);
        if self.cuts.get(&file).is_some_and(|cut| at >= *cut) {
            return false;
        }
        let is_first = self.touch(file, block);
        self.left_out += u64::from(is_first.is_none());
        is_first.unwrap_or(false)
    }

    /// A call changes bytes from `offset` on.
    pub fn write(&mut self, file: i64, offset: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        if bytes > RANGE_MAX {
            return self.cut(file, offset);
        }
        let last = offset.saturating_add(bytes - 1) / BLOCK_BYTES;
        for block in offset / BLOCK_BYTES..=last {
            if self.touch(file, block).is_none() {
                return self.cut(file, offset);
            }
        }
    }

    /// A call cuts the file, or lets it grow from there.
    pub fn cut(&mut self, file: i64, size: u64) {
        let cut = self.cuts.entry(file).or_insert(size);
        // What a cut leaves of a block is changed, too.
        *cut = (*cut).min(size / BLOCK_BYTES * BLOCK_BYTES);
    }

    /// Blocks that were shown when there was no more room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Whether nothing has touched the block before; `None`: there is no more room.
    fn touch(&mut self, file: i64, block: u64) -> Option<bool> {
        let key = (file, block / PAGE_BLOCKS);
        if self.pages.len() >= PAGES_MAX && !self.pages.contains_key(&key) {
            return None;
        }
        let page = self.pages.entry(key).or_default();
        let (word, bit) = (block % PAGE_BLOCKS / 64, 1 << (block % 64));
        let word = &mut page[word as usize];
        let is_first = *word & bit == 0;
        *word |= bit;
        Some(is_first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_counts_before_it_is_changed() {
        let mut reads = FirstReads::new();
        assert!(reads.read(1, 0));
        assert!(!reads.read(1, 0), "it was shown before");
        reads.write(1, 1_000, 100);
        assert!(
            !reads.read(1, 1) && !reads.read(1, 2),
            "both were changed in part"
        );
        assert!(reads.read(1, 3) && reads.read(2, 1));
        reads.cut(1, 5 * 512 + 1);
        assert!(reads.read(1, 4) && !reads.read(1, 5) && !reads.read(1, 1 << 50));
    }

    #[test]
    fn a_range_beyond_measure_takes_no_time() {
        let mut reads = FirstReads::new();
        reads.write(1, 512, u64::MAX);
        reads.write(1, u64::MAX - 5, 100);
        assert!(reads.read(1, 0) && !reads.read(1, 1) && !reads.read(1, u64::MAX));
    }
}
