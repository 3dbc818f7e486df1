//! Parts of tables on their way to the folder, and what is done with them there.

use std::fs::File;
use std::num::NonZeroU64;

use lineside_account::{Budget, Claim, Lease};
use lineside_host::{
    FinalParts, FolderError, Keeping, Merging, NewPart, Older, OnDisk, PartWriter, Retention,
    RunFolder,
};
use lineside_rows::Table;
use lineside_trace::{
    EncoderConfig, MergeError, Part, PartSink, Summaries, TraceEncoder, merge_parts,
};

use crate::older::OlderRuns;

/// Where rows become visible, and where the parts that hold them end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartRotation {
    /// A final part ends at this size.
    pub bytes_max: usize,
    /// It ends where this time ends: at multiples of it since the Unix epoch.
    pub time_ns: Option<NonZeroU64>,
    /// Rows are in a small part after this time, which becomes a piece of a final one later;
    /// `None`: parts are final from the start.
    pub flush_ns: Option<NonZeroU64>,
    /// These times are the machine's and not the frames'.
    pub by_clock: bool,
    /// What is kept.
    pub retention: Retention,
}

impl PartRotation {
    /// Where data come as time passes: a part a second, 64 MiB or an hour in a final one.
    pub const LIVE: Self = Self {
        bytes_max: 64 << 20,
        time_ns: NonZeroU64::new(3_600_000_000_000),
        flush_ns: NonZeroU64::new(1_000_000_000),
        by_clock: false,
        retention: Retention {
            time: None,
            bytes: None,
            runs: false,
        },
    };

    /// Where data are there: final parts of 64 MiB.
    pub const FILES: Self = Self {
        time_ns: None,
        flush_ns: None,
        ..Self::LIVE
    };

    /// When the open parts end, whatever is in them.
    pub fn part_time_ns(&self) -> Option<NonZeroU64> {
        match (self.flush_ns, self.time_ns) {
            (Some(flush), Some(time)) => Some(flush.min(time)),
            (flush, time) => flush.or(time),
        }
    }

    /// The encoder's settings for these tables.
    pub fn encoder(&self, tables: &[Table], trace_id: &str) -> EncoderConfig {
        EncoderConfig {
            part_bytes_max: self.bytes_max,
            part_time_ns: self.part_time_ns().filter(|_| !self.by_clock),
            ..EncoderConfig::new(tables, trace_id)
        }
    }

    /// What writes the parts of the trace `trace_id` into `folder`.
    pub fn writer(&self, folder: &RunFolder, trace_id: &str, budget: &Budget) -> PartWriter {
        let keeping = Keeping {
            merging: self.flush_ns.map(|_| self.merging(trace_id, budget)),
            retention: self.retention,
            older: self.older(folder),
        };
        PartWriter::keeping(folder, keeping, Some(budget))
    }

    fn older(&self, folder: &RunFolder) -> Option<Box<dyn Older>> {
        let are_kept = self.retention.runs && self.retention.is_limited();
        are_kept.then(|| Box::new(OlderRuns::of(folder.beside(), self.retention)) as _)
    }

    fn merging(&self, trace_id: &str, budget: &Budget) -> Merging {
        let (trace_id, budget) = (trace_id.to_owned(), budget.clone());
        let keep = self.retention;
        // What goes, goes as whole parts: not much more than what is over.
        let keep_ns = keep.time.map(|time| (time.as_nanos() / 4) as u64);
        let time_ns = match (self.time_ns, keep_ns.and_then(NonZeroU64::new)) {
            (Some(time), Some(keep)) => Some(time.min(keep)),
            (time, keep) => time.or(keep),
        };
        let keep_bytes = keep.bytes.map_or(usize::MAX, |bytes| (bytes / 16) as usize);
        // Encoded rows, twice, and the batch: not so much that little is left for anything else.
        let bytes_max = self
            .bytes_max
            .min(budget.limit_bytes() / 16)
            .min(keep_bytes) as u64;
        Merging {
            finals: FinalParts {
                time_ns,
                bytes_max,
                rows_max: part_rows_max,
            },
            merge: Box::new(move |table, parts| merge(table, &trace_id, &budget, parts)),
        }
    }
}

/// Most rows of a table's part.
fn part_rows_max(table: &str) -> u64 {
    let config = EncoderConfig::new(&[], "");
    let rows = match table == Table::Checksums.name() {
        true => config.checksum_part_rows_max,
        false => config.part_rows_max,
    };
    rows as u64
}

/// Bytes of a decoded batch.
const BATCH_BYTES: u64 = 4 << 20;

fn merge(
    table: &str,
    trace_id: &str,
    budget: &Budget,
    parts: Vec<File>,
) -> Result<Option<(u64, lineside_host::Pieces)>, String> {
    let table = Table::ALL.iter().find(|known| known.name() == table);
    let Some(&table) = table else {
        return Err("it is not a table of ours".to_owned());
    };
    let bytes = { parts.iter() }.map(|part| part.metadata().map_or(0, |facts| facts.len()));
    let bytes = bytes.sum::<u64>() * 2 + BATCH_BYTES;
    // It can wait: what frames need comes first.
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let Some(_lease) = budget.lease_as(Claim::Spare, bytes) else {
        return Ok(None);
    };
    let merged = merge_parts(table, trace_id, parts).map_err(|error: MergeError| error.to_string());
    merged.map(|merged| Some((merged.rows, merged.pieces.into())))
}

/// Passes parts of tables to the thread that writes them.
pub struct Parts(pub PartWriter);

impl PartSink for Parts {
    type Error = FolderError;

    fn part(&mut self, part: Part) -> Result<(), FolderError> {
        self.0.submit(new_part(part))
    }
}

/// A part as it is written.
pub fn new_part(part: Part) -> NewPart {
    NewPart {
        table: part.table.name().to_owned(),
        file: part.file_name(),
        rows: part.rows,
        window_ns: part.window_ns,
        bytes: part.pieces.into(),
    }
}

/// What tables hold, with what of it is on the disk: fewer parts where some became one, fewer rows
/// where not all are kept.
pub fn on_disk(summaries: &mut Summaries, on_disk: &OnDisk) {
    for (table, summary) in summaries.iter_mut() {
        // Of a table without one there was no room for the first part.
        let mut tables = on_disk.tables.iter();
        let written = tables.find(|(name, _)| name == table.name());
        let totals = written.map_or_else(Default::default, |(_, totals)| *totals);
        (summary.rows, summary.parts, summary.bytes) = (totals.rows, totals.parts, totals.bytes);
    }
}

/// Draws what the encoder holds on the budget. Where it does not fit, the open parts end early.
pub fn bound_encoder<P: PartSink>(encoder: &mut TraceEncoder<P>, lease: &mut Option<Lease>) {
    let held = encoder.held_bytes();
    if !lease.as_mut().is_some_and(|lease| lease.resize(held)) {
        encoder.end_parts();
        let held = encoder.held_bytes();
        if let Some(lease) = lease {
            lease.resize(held);
        }
    }
}
