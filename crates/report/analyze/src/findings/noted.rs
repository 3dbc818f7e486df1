//! Operations that findings about state look at one by one: noted in the pass over `operations`,
//! and joined with the tables that have their details.

use hashbrown::{HashMap, HashSet};
use lineside_rows::Table;
use lineside_trace::read::{Column, Values};

use super::few::Few;
use crate::read::batch::Batch;
use crate::read::columns::Word;
use crate::read::lexica::Lexica;
use crate::read::trace::Trace;

/// Operations of a kind that are noted: the first ones. A million calls of READDIR are enough to
/// find a circle in them.
const NOTES_MAX: usize = 1 << 17;

/// What an operation is noted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum What {
    Recall,
    Return,
    Client,
    TestStateId,
    Listing,
    Port,
    Lock,
    Granted,
    Refused,
    Other,
}

impl What {
    fn of(operation: &str) -> Self {
        match operation {
            "CB_RECALL" => Self::Recall,
            "DELEGRETURN" => Self::Return,
            "EXCHANGE_ID" | "SETCLIENTID" => Self::Client,
            "TEST_STATEID" => Self::TestStateId,
            "READDIR" | "READDIRPLUS" => Self::Listing,
            "GETPORT" | "GETADDR" => Self::Port,
            "LOCK" | "LOCK_MSG" => Self::Lock,
            "GRANTED" | "GRANTED_MSG" => Self::Granted,
            _ => Self::Other,
        }
    }
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Note {
    pub(super) id: i64,
    pub(super) what: What,
    pub(super) client: Word,
    pub(super) server: Word,
    /// The status, or RPC's where there is none.
    pub(super) status: Word,
    pub(super) failed: bool,
    pub(super) call_ns: Option<i64>,
    pub(super) reply_ns: Option<i64>,
    pub(super) file_id: Option<i64>,
}

/// What the pass notes.
#[derive(Debug, Default)]
pub(super) struct Noted {
    /// By word.
    what: Vec<Option<What>>,
    counts: HashMap<What, usize>,
    pub(super) notes: Vec<Note>,
    /// Servers whose replies end before their last field.
    pub(super) short: Few,
    pub(super) short_replies: u64,
    /// The last call or reply, once anything is noted that may wait until then: rows come by time,
    /// but for those of a batch.
    pub(super) last_ns: Option<i64>,
}

impl Noted {
    /// Adds the chosen rows of a batch, and those of them that `failed`, each with its status. Most
    /// batches have none of what is noted: their words show it, and no row is looked at.
    pub(super) fn add(
        &mut self,
        batch: &Batch<'_>,
        (rows, failed): (&[usize], &[(usize, Word)]),
        lexica: &mut Lexica,
    ) {
        self.what.resize(lexica.words.len(), None);
        let mut has_any = false;
        for &word in batch.operation.distinct() {
            let what =
                self.what[word as usize].get_or_insert_with(|| What::of(lexica.words.text(word)));
            has_any |= *what != What::Other;
        }
        let is_refused = |row: usize, lexica: &Lexica| {
            matches!(
                lexica.words.text(batch.rpc_status.get(row)),
                "AUTH_ERROR" | "PROG_MISMATCH" | "RPC_MISMATCH"
            )
        };
        for &(row, status) in failed {
            if is_refused(row, lexica) {
                self.note(What::Refused, (batch, row), Some(status));
            }
        }
        for &row in rows.iter().filter(|_| has_any) {
            let what = self.what[batch.operation.get(row) as usize].unwrap_or(What::Other);
            if what == What::Other {
                continue;
            }
            let failure = lexica.failure(batch.status.get(row), batch.rpc_status.get(row));
            if failure.is_none() || !is_refused(row, lexica) {
                self.note(what, (batch, row), failure);
            }
        }
        if batch.incomplete[1].are_any() {
            for &row in rows.iter().filter(|&&row| batch.incomplete[1].get(row)) {
                self.short_replies += 1;
                self.short.add(batch.server.get(row), 1);
            }
        }
        if self.has_waiting() {
            let ends =
                { rows.iter() }.map(|&row| batch.reply_end_ns.get(row).or_else(|| batch.time(row)));
            self.last_ns = ends.max().flatten().max(self.last_ns);
        }
    }

    /// Whether anything is noted that may wait until the end.
    fn has_waiting(&self) -> bool {
        [What::Recall, What::Lock]
            .iter()
            .any(|what| self.counts.contains_key(what))
    }

    fn note(&mut self, what: What, (batch, row): (&Batch<'_>, usize), failure: Option<Word>) {
        if batch.not_executed.get(row) {
            return;
        }
        let count = self.counts.entry(what).or_default();
        if *count >= NOTES_MAX {
            return;
        }
        *count += 1;
        self.notes.push(Note {
            id: batch.operation_id.get(row).unwrap_or_default(),
            what,
            client: batch.client.get(row),
            server: batch.server.get(row),
            status: failure.unwrap_or_else(|| batch.status.get(row)),
            failed: failure.is_some(),
            call_ns: batch.call_time_ns.get(row),
            reply_ns: batch.reply_end_ns.get(row),
            file_id: batch.file_id.get(row),
        });
    }

    /// Those of a kind, by time.
    pub(super) fn of(&self, what: What) -> Vec<&Note> {
        let mut notes: Vec<_> = { self.notes.iter() }
            .filter(|note| note.what == what)
            .collect();
        notes.sort_by_key(|note| (note.call_ns, note.id));
        notes
    }

    /// The cells of a table in some columns, of noted operations of a kind.
    pub(super) fn cells<const N: usize>(
        &self,
        trace: &mut Trace,
        table: Table,
        whats: &[What],
        columns: [&'static str; N],
    ) -> HashMap<i64, [Cell; N]> {
        let wanted = { self.notes.iter() }.filter(|note| whats.contains(&note.what));
        let wanted: HashSet<i64> = wanted.map(|note| note.id).collect();
        cells_of(trace, table, &wanted, columns)
    }
}

/// The cells of a table in some columns, of the operations with these ids.
pub(super) fn cells_of<const N: usize>(
    trace: &mut Trace,
    table: Table,
    wanted: &HashSet<i64>,
    columns: [&'static str; N],
) -> HashMap<i64, [Cell; N]> {
    let mut found = HashMap::new();
    if wanted.is_empty() || !trace.has_columns(table, &columns) {
        return found;
    }
    let all = [&["operation_id"][..], &columns[..]].concat();
    trace.batches(table, &all, |batch| {
        let Values::Int64(ids) = batch[0].values() else {
            return Ok(());
        };
        for (row, id) in ids.iter().enumerate() {
            if wanted.contains(id) {
                let cells = std::array::from_fn(|at| Cell::of(&batch[at + 1], row));
                found.insert(*id, cells);
            }
        }
        Ok(())
    });
    found
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Cell {
    None,
    Number(i64),
    Text(Vec<u8>),
}

impl Cell {
    pub(super) fn of(column: &Column, row: usize) -> Self {
        let present = column.present();
        if !present.is_empty() && !present[row] {
            return Self::None;
        }
        let number = |number: Option<i64>| number.map_or(Self::None, Self::Number);
        match column.values() {
            Values::Int64(values) => number(values.get(row).copied()),
            Values::Int32(values) => number(values.get(row).map(|&value| value.into())),
            Values::Boolean(values) => number(values.get(row).map(|&value| value.into())),
            Values::Texts(places, texts) | Values::Bytes(places, texts) => { places.get(row) }
                .and_then(|&place| texts.bytes(place as usize))
                .map_or(Self::None, |bytes| Self::Text(bytes.to_vec())),
        }
    }

    pub(super) fn number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<String> {
        match self {
            Self::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }
}
