//! Rows of all parts in the order of their calls, and what becomes of each.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;

use lineside_image::{Action, FirstReads, Outcome, Tree};
use lineside_rows::Table;
use lineside_trace::read::PartReader;

use super::contents::Shown;
use super::left_out::ImageLeftOut;
use super::listed::{self, Listed};
use super::more::{self, PartsById};
use super::rows::{COLUMNS, Kept, of_batch, some};
use crate::read::columns::{Integers, Lexicon};
use crate::read::trace::Trace;

/// Bytes of rows in memory: two parts of the usual size, and what goes beyond them.
pub(super) const BYTES_MAX: usize = 160 << 20;

/// What came of the rows.
pub(super) struct Done {
    pub(super) tree: Tree,
    pub(super) shown: Shown,
    pub(super) calls: u64,
    pub(super) answered: u64,
    pub(super) first_ns: Option<i64>,
    pub(super) left_out: ImageLeftOut,
}

/// The first call of a part, its place in the table, and where it is.
type Closed = (i64, usize, PathBuf);

/// The order of the next row of a part, and the part's place.
type Head = ((i64, i64, i64), usize);

/// A part that is open.
#[derive(Default)]
struct Open {
    /// The next one last.
    rows: Vec<Kept>,
    listed: Vec<Listed>,
    weight: usize,
}

/// The parts of `operations`.
pub(super) struct Merge {
    /// Those that were not read yet, with the first call in each; the last first.
    closed: Vec<Closed>,
    nfs: PartsById,
    nfs4: PartsById,
    files: PartsById,
    open: Vec<Open>,
    /// The next row of each open part.
    heads: BinaryHeap<Reverse<Head>>,
    held: usize,
    reads: FirstReads,
    done: Done,
}

impl Merge {
    pub(super) fn new(trace: &mut Trace) -> Self {
        let mut closed = Vec::new();
        for (at, path) in trace.parts(Table::Operations).into_iter().enumerate() {
            let part = lineside_trace::open_file(&path).ok();
            let part = part.and_then(|file| PartReader::open(file).ok());
            let range = part.as_ref().and_then(|part| part.range("call_time_ns"));
            let first_ns = range.map_or_else(|| first_call(trace, &path), |(first, _)| first);
            closed.push((first_ns, at, path));
        }
        closed.sort_unstable_by(|one, other| other.cmp(one));
        Self {
            closed,
            nfs: PartsById::of(trace, Table::Nfs),
            nfs4: PartsById::of(trace, Table::Nfs4),
            files: PartsById::of(trace, Table::Files),
            open: Vec::new(),
            heads: BinaryHeap::new(),
            held: 0,
            reads: FirstReads::new(),
            done: Done {
                tree: Tree::new(),
                shown: Shown::default(),
                calls: 0,
                answered: 0,
                first_ns: None,
                left_out: ImageLeftOut::default(),
            },
        }
    }

    /// Takes all rows. `false`: too many parts overlap.
    pub(super) fn run(&mut self, trace: &mut Trace, words: &mut Lexicon) -> bool {
        loop {
            let next_ns = self.heads.peek().map(|Reverse((key, _))| key.0);
            while let Some((first_ns, ..)) = self.closed.last()
                && next_ns.is_none_or(|next_ns| *first_ns <= next_ns)
            {
                self.read(trace, words);
                if self.held > BYTES_MAX {
                    return false;
                }
                if next_ns.is_none() {
                    break;
                }
            }
            let Some(Reverse((_, at))) = self.heads.pop() else {
                match self.closed.is_empty() {
                    true => return true,
                    false => continue,
                }
            };
            let part = &mut self.open[at];
            let row = part.rows.pop();
            let next = part.rows.last().map(Kept::key);
            if let Some(row) = row {
                self.take(&row, at);
            }
            match next {
                Some(next) => self.heads.push(Reverse((next, at))),
                None => {
                    self.held -= self.open[at].weight;
                    self.open[at] = Open::default();
                }
            }
        }
    }

    pub(super) fn finish(self) -> Done {
        let mut done = self.done;
        done.left_out.blocks_without_room = self.reads.left_out() + done.shown.left_out;
        done.shown.sort();
        done
    }

    fn read(&mut self, trace: &mut Trace, words: &mut Lexicon) {
        let Some((_, _, path)) = self.closed.pop() else {
            return;
        };
        let mut rows = Vec::new();
        let Done {
            tree,
            left_out,
            calls,
            answered,
            first_ns,
            ..
        } = &mut self.done;
        let room = BYTES_MAX.saturating_sub(self.held);
        let mut weight = 0;
        trace.batches_of_part((0, &path), Table::Operations, &COLUMNS, |batch| {
            of_batch(batch, words, left_out, |row| {
                if row.id == row.call {
                    *calls += 1;
                    *answered += u64::from(row.outcome != Outcome::NotSeen);
                    *first_ns = Some(first_ns.map_or(row.call_ns, |ns| ns.min(row.call_ns)));
                }
                if !is_needless(&row, tree) && weight <= room {
                    weight += row.weight();
                    rows.push(row);
                }
            })
        });
        if weight > room {
            self.held += weight;
            return;
        }
        rows.sort_unstable_by_key(|row| row.id);
        more::add_to(trace, &self.nfs, &self.nfs4, &mut rows);
        let listed = listed::of_rows(trace, &self.files, &mut rows);
        rows.retain(|row| row.is_of_compound || !shows_nothing(row));
        rows.sort_unstable_by_key(|row| Reverse(row.key()));
        let Some(next) = rows.last().map(Kept::key) else {
            return;
        };
        let weight = rows.iter().map(Kept::weight).sum::<usize>()
            + listed.iter().map(Listed::weight).sum::<usize>();
        self.held += weight;
        let free = self.open.iter().position(|part| part.rows.is_empty());
        let at = free.unwrap_or(self.open.len());
        self.heads.push(Reverse((next, at)));
        let part = Open {
            rows,
            listed,
            weight,
        };
        match self.open.get_mut(at) {
            Some(place) => *place = part,
            None => self.open.push(part),
        }
    }

    fn take(&mut self, kept: &Kept, part: usize) {
        let row = kept.row();
        let Done {
            tree,
            shown,
            left_out,
            ..
        } = &mut self.done;
        tree.row(&row);
        if row.action == Action::List {
            let listed = &self.open[part].listed;
            let first = listed.partition_point(|listed| listed.id < row.id);
            let these = listed[first..]
                .iter()
                .take_while(|listed| listed.id == row.id);
            these.for_each(|listed| listed.give(tree));
        }
        let may_be_done = matches!(row.outcome, Outcome::Done | Outcome::NotSeen);
        let Some(file) = row.file.filter(|_| may_be_done) else {
            return;
        };
        let made = row.made.or(Some(file)).filter(|_| row.set.size.is_some());
        if let (Some(cut), Some(size)) = (made, row.set.size) {
            self.reads.cut(cut, size);
        }
        let Some(offset) = row.offset else {
            return;
        };
        match row.action {
            Action::Write => self.reads.write(file, offset, row.bytes.max(1)),
            Action::Read if kept.data_incomplete => left_out.reads_incomplete += 1,
            Action::Read if row.outcome == Outcome::Done && !tree.is_made(file) => {
                let reads = &mut self.reads;
                shown.read(row.id, file, (offset, row.bytes), |block| {
                    reads.read(file, block)
                });
            }
            _ => {}
        }
    }
}

/// A call of a file of which all is known.
fn is_needless(row: &Kept, tree: &Tree) -> bool {
    let is_of_object = matches!(
        row.action,
        Action::Attributes | Action::ReadLink | Action::GetHandle
    );
    // In a compound it has the handle for what follows.
    is_of_object && !row.is_of_compound && some(row.file).is_some_and(|file| tree.is_settled(file))
}

/// A call that shows nothing, as SEQUENCE.
fn shows_nothing(row: &Kept) -> bool {
    row.action == Action::Attributes && row.kind.is_none() && some(row.size).is_none()
}

/// When the first call of a part was made, whose footer does not say so. What cannot be read is
/// named when its turn comes.
fn first_call(trace: &mut Trace, path: &std::path::Path) -> i64 {
    let column = ["call_time_ns"];
    let mut first_ns = i64::MAX;
    trace.batches_of_part((0, path), Table::Operations, &column, |batch| {
        let times = Integers::of(column[0], &batch[0])?;
        let times = (0..batch[0].len()).filter_map(|row| times.get(row));
        first_ns = times.fold(first_ns, i64::min);
        Ok(())
    });
    first_ns
}
