//! What files held at the start: the checksums of blocks that READs showed before any change.

use lineside_image::{BLOCK_BYTES, Image};
use lineside_rows::Table;
use serde::Serialize;

use crate::read::columns::Integers;
use crate::read::parts_by_id::PartsById;
use crate::read::trace::Trace;

/// READs that show blocks first, of 32 bytes each.
const READS_MAX: usize = 1 << 21;

/// Blocks that were seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Contents {
    /// Blocks of 512 bytes.
    pub blocks: u64,
}

/// Blocks that a READ shows first.
#[derive(Debug, Clone, Copy)]
struct Run {
    id: i64,
    file: i64,
    first: u64,
    count: u32,
}

/// The READs that show blocks first, in the order of their ids.
#[derive(Debug, Default)]
pub(super) struct Shown {
    runs: Vec<Run>,
    pub(super) left_out: u64,
}

impl Shown {
    /// Takes the whole blocks of a READ, of which `is_first` are new.
    pub(super) fn read(
        &mut self,
        id: i64,
        file: i64,
        (offset, bytes): (u64, u64),
        mut is_first: impl FnMut(u64) -> bool,
    ) {
        let first = offset.div_ceil(BLOCK_BYTES);
        let end = offset.saturating_add(bytes) / BLOCK_BYTES;
        for block in first..end {
            if !is_first(block) {
                continue;
            }
            if let Some(run) = self.runs.last_mut().filter(|run| run.id == id)
                && run.first + u64::from(run.count) == block
            {
                run.count += 1;
            } else if self.runs.len() < READS_MAX {
                let (first, count) = (block, 1);
                self.runs.push(Run {
                    id,
                    file,
                    first,
                    count,
                });
            } else {
                self.left_out += 1;
            }
        }
    }

    pub(super) fn sort(&mut self) {
        self.runs.sort_unstable_by_key(|run| (run.id, run.first));
    }

    /// The file of a block that an operation has shown first.
    fn find(&self, id: i64, block: u64) -> Option<i64> {
        let at = self
            .runs
            .partition_point(|run| (run.id, run.first) <= (id, block));
        let run = self.runs.get(at.checked_sub(1)?)?;
        let is_in = run.id == id && block - run.first < run.count.into();
        is_in.then_some(run.file)
    }
}

const COLUMNS: [&str; 3] = ["operation_id", "block", "checksum"];

pub(super) fn read<E>(
    trace: &mut Trace,
    shown: &Shown,
    image: &Image,
    mut take: impl FnMut(&Image, u32, u64, u64) -> Result<(), E>,
) -> Result<Contents, E> {
    let mut contents = Contents::default();
    let mut failed = None;
    let ids = shown.runs.first().zip(shown.runs.last());
    let Some((first, last)) = ids.map(|(first, last)| (first.id, last.id)) else {
        return Ok(contents);
    };
    let parts = PartsById::of(trace, Table::Checksums);
    parts.near(trace, (first, last), &COLUMNS, |batch| {
        let integers = |at: usize| Integers::of(COLUMNS[at], &batch[at]);
        let (ids, blocks, sums) = (integers(0)?, integers(1)?, integers(2)?);
        for row in 0..batch[0].len() {
            let Some((id, block)) = ids.get(row).zip(blocks.get(row)) else {
                continue;
            };
            let block = block.cast_unsigned();
            let entry = shown.find(id, block).and_then(|file| image.find(file));
            let Some((entry, sum)) = entry.zip(sums.get(row)).filter(|_| failed.is_none()) else {
                continue;
            };
            // A file that grew meanwhile showed what was not there.
            if block < image.entry(entry).size / BLOCK_BYTES {
                contents.blocks += 1;
                failed = take(image, entry, block, sum.cast_unsigned()).err();
            }
        }
        Ok(())
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(contents),
    }
}
