//! Rows of all parts in the order of their calls, and what becomes of each.

use lineside_image::{Action, FirstReads, Outcome, Tree};
use lineside_rows::Table;

use super::contents::Shown;
use super::left_out::ImageLeftOut;
use super::listed;
use super::more;
use super::rows::{COLUMNS, Kept, of_batch, some};
use crate::read::columns::Lexicon;
use crate::read::in_order::{InOrder, Ordered, Overlap, Part};
use crate::read::parts_by_id::PartsById;
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

/// What the rows are looked up in, and what came of them.
struct Merge {
    nfs: PartsById,
    nfs4: PartsById,
    files: PartsById,
    reads: FirstReads,
    done: Done,
}

/// Takes all rows, unless too many parts overlap.
pub(super) fn run(trace: &mut Trace, words: &mut Lexicon) -> Result<Done, Overlap> {
    let mut ordered = Ordered::new(trace, BYTES_MAX);
    let mut merge = Merge::new(trace);
    while let Some(row) = ordered.next(|part, room| merge.read(trace, words, part, room))? {
        merge.take(&row);
    }
    let mut done = merge.done;
    done.left_out.blocks_without_room = merge.reads.left_out() + done.shown.left_out;
    done.shown.sort();
    Ok(done)
}

impl Merge {
    fn new(trace: &mut Trace) -> Self {
        Self {
            nfs: PartsById::of(trace, Table::Nfs),
            nfs4: PartsById::of(trace, Table::Nfs4),
            files: PartsById::of(trace, Table::Files),
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

    fn read(
        &mut self,
        trace: &mut Trace,
        words: &mut Lexicon,
        part: &Part,
        room: usize,
    ) -> Vec<Kept> {
        let mut rows = Vec::new();
        let Done {
            tree,
            left_out,
            calls,
            answered,
            first_ns,
            ..
        } = &mut self.done;
        let mut weight = 0;
        let place = (part.run, part.path.as_path());
        trace.batches_of_part(place, Table::Operations, &COLUMNS, |batch| {
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
            return rows;
        }
        rows.sort_unstable_by_key(|row| row.id);
        more::add_to(trace, &self.nfs, &self.nfs4, &mut rows);
        listed::add_to(trace, &self.files, &mut rows);
        rows.retain(|row| row.is_of_compound || !shows_nothing(row));
        rows
    }

    fn take(&mut self, kept: &Kept) {
        let row = kept.row();
        let Done {
            tree,
            shown,
            left_out,
            ..
        } = &mut self.done;
        tree.row(&row);
        let listed = kept.more.iter().flat_map(|more| &more.listed);
        listed.for_each(|listed| listed.give(row.id, tree));
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
