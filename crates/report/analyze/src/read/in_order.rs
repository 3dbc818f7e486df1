//! Rows of all parts in one order.
//!
//! Rows lie in the order of replies, in any parts. A part is read when the rows have come to its
//! first call, so memory is that of the parts whose times overlap, and what comes out does not
//! depend on how rows are shared among parts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

use lineside_rows::Table;
use lineside_trace::read::PartReader;

use super::columns::Integers;
use super::trace::Trace;

/// A row that has a place among all others: the time of its call, its call, itself.
pub(crate) trait InOrder {
    fn key(&self) -> (i64, i64, i64);

    /// What it takes of the room that there is for rows: one row of many, or its bytes.
    fn weight(&self) -> usize {
        1
    }
}

/// A part that is to be read.
pub(crate) struct Part {
    first_ns: i64,
    /// Its place in the table.
    at: usize,
    pub(crate) run: usize,
    pub(crate) path: PathBuf,
    /// As its footer has it, which may say anything.
    pub(crate) rows: usize,
}

/// More rows than there is room for lie in parts that overlap.
pub(crate) struct Overlap;

/// The order of the next row of a part, and the part's place.
type Head = ((i64, i64, i64), usize);

/// A part that is open.
struct Open<R> {
    rows: std::vec::IntoIter<R>,
    weight: usize,
}

impl<R: InOrder> Open<R> {
    fn of(rows: Vec<R>) -> Self {
        let weight = rows.iter().map(R::weight).sum();
        let rows = rows.into_iter();
        Self { rows, weight }
    }
}

/// The parts of `operations`.
pub(crate) struct Ordered<R> {
    /// Those that were not read yet; the last first.
    closed: Vec<Part>,
    open: Vec<Open<R>>,
    /// The next row of each open part.
    heads: BinaryHeap<Reverse<Head>>,
    held: usize,
    room: usize,
}

impl<R: InOrder> Ordered<R> {
    pub(crate) fn new(trace: &mut Trace, room: usize) -> Self {
        let mut closed = Vec::new();
        for run in 0..trace.run_count() {
            for path in trace.parts_of(run, Table::Operations) {
                let part = lineside_trace::open_file(&path).ok();
                let part = part.and_then(|file| PartReader::open(file).ok());
                let range = part.as_ref().and_then(|part| part.range("call_time_ns"));
                let first_ns = range.map_or_else(|| first_call(trace, &path), |(first, _)| first);
                let rows = part.as_ref().map_or(0, PartReader::row_count);
                closed.push(Part {
                    first_ns,
                    at: closed.len(),
                    run,
                    path,
                    rows: usize::try_from(rows).unwrap_or(usize::MAX),
                });
            }
        }
        closed.sort_unstable_by_key(|part| Reverse((part.first_ns, part.at)));
        Self {
            closed,
            open: Vec::new(),
            heads: BinaryHeap::new(),
            held: 0,
            room,
        }
    }

    /// The next row. `read` gives the rows of a part, in any order; once they weigh more than the
    /// room that is left, its second argument, it may leave out the others.
    pub(crate) fn next(
        &mut self,
        mut read: impl FnMut(&Part, usize) -> Vec<R>,
    ) -> Result<Option<R>, Overlap> {
        loop {
            let next_ns = self.heads.peek().map(|Reverse((key, _))| key.0);
            while let Some(part) = self.closed.last()
                && next_ns.is_none_or(|next_ns| part.first_ns <= next_ns)
            {
                if let Some(part) = self.closed.pop() {
                    self.open(read(&part, self.room - self.held));
                }
                if self.held > self.room {
                    return Err(Overlap);
                }
                if next_ns.is_none() {
                    break;
                }
            }
            let Some(Reverse((_, at))) = self.heads.pop() else {
                match self.closed.is_empty() {
                    true => return Ok(None),
                    false => continue,
                }
            };
            let part = &mut self.open[at];
            let row = part.rows.next();
            match part.rows.as_slice().first() {
                Some(row) => self.heads.push(Reverse((row.key(), at))),
                None => {
                    self.held -= part.weight;
                    *part = Open::of(Vec::new());
                }
            }
            return Ok(row);
        }
    }

    fn open(&mut self, mut rows: Vec<R>) {
        if rows.is_empty() {
            return;
        }
        rows.sort_unstable_by_key(R::key);
        let free = { self.open.iter() }.position(|part| part.rows.as_slice().is_empty());
        let at = free.unwrap_or(self.open.len());
        self.heads.push(Reverse((rows[0].key(), at)));
        let part = Open::of(rows);
        self.held += part.weight;
        match self.open.get_mut(at) {
            Some(place) => *place = part,
            None => self.open.push(part),
        }
    }
}

/// When the first call of a part was made, whose footer does not say so. What cannot be read is
/// named when its turn comes.
fn first_call(trace: &mut Trace, path: &Path) -> i64 {
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
