//! The other tap's stamps, for the rows of operations.

use std::collections::BTreeMap;

use lineside_rows::{NfsCells, OperationCells, OperationRow, OperationRows};

/// Sets columns of rows that the frames of a capture do not have.
pub trait Amend: Send + Sync {
    /// Sets those of a row.
    fn amend(&self, row: &mut OperationRow);
}

/// For frames of a server's tap, when the other tap saw the bytes that end with them.
pub(crate) struct Stamps {
    /// By input, sorted by frame.
    by_input: Vec<(u16, Vec<(u32, i64)>)>,
}

impl Stamps {
    pub(super) fn new(stamps: BTreeMap<(u16, u32), i64>) -> Self {
        let mut by_input = Vec::<(u16, Vec<(u32, i64)>)>::new();
        for ((input, frame), stamp_ns) in stamps {
            match by_input.last_mut() {
                Some((last, stamps)) if *last == input => stamps.push((frame, stamp_ns)),
                _ => by_input.push((input, vec![(frame, stamp_ns)])),
            }
        }
        Self { by_input }
    }

    fn of(&self, input: Option<i32>, frame: Option<i64>) -> Option<i64> {
        let (input, frame) = (input?, u32::try_from(frame?).ok()?);
        let (_, stamps) = { self.by_input.iter() }.find(|(each, _)| i32::from(*each) == input)?;
        let at = stamps.binary_search_by_key(&frame, |(frame, _)| *frame);
        Some(stamps[at.ok()?].1)
    }
}

/// The columns of the other tap.
impl Amend for Stamps {
    fn amend(&self, row: &mut OperationRow) {
        row.client_tap_call_ns = self.of(row.call_input, row.call_frame);
        row.client_tap_reply_ns = self.of(row.reply_input, row.reply_frame);
    }
}

/// Rows with such columns.
pub(crate) struct Amended<'a, R> {
    pub(crate) rows: &'a mut R,
    pub(crate) amend: &'a dyn Amend,
}

impl<R: OperationRows> OperationRows for Amended<'_, R> {
    fn operation(&self, cells: &mut impl OperationCells) {
        let mut row = OperationRow::default();
        self.rows.operation(&mut row);
        self.amend.amend(&mut row);
        row.put_to(cells);
    }

    fn nfs(&mut self, cells: &mut impl NfsCells) {
        self.rows.nfs(cells);
    }
}
