//! A batch of `operations` with typed columns.

use lineside_trace::read::{Column, ReadError};

use crate::read::columns::{Counts, Flags, Integers, Shorts, Texts, Words};
use crate::read::filter::Chosen;
use crate::read::lexica::Lexica;
use crate::read::waits::{Wait, Waits};

/// The columns that are read, in this order.
pub(crate) const COLUMNS: [&str; 26] = [
    "operation_id",
    "call_time_ns",
    "call_end_ns",
    "reply_time_ns",
    "reply_end_ns",
    "client_address",
    "server_address",
    "program",
    "version",
    "operation",
    "rpc_status",
    "status",
    "file_id",
    "offset",
    "count",
    "transferred",
    "call_missing",
    "reply_missing",
    "call_incomplete",
    "reply_incomplete",
    "data_incomplete",
    "not_executed",
    "repeat",
    "retransmissions",
    "duplicate_replies",
    "user_id",
];

/// A batch of `operations` with typed columns.
pub(crate) struct Batch<'a> {
    pub(crate) rows: usize,
    pub(crate) operation_id: Integers<'a>,
    /// Null where [`Chosen::reads_rpc_id`] is false.
    pub(crate) rpc_id: Integers<'a>,
    pub(crate) call_time_ns: Integers<'a>,
    pub(crate) call_end_ns: Integers<'a>,
    pub(crate) reply_time_ns: Integers<'a>,
    pub(crate) reply_end_ns: Integers<'a>,
    pub(crate) client: Words<'a>,
    pub(crate) server: Words<'a>,
    pub(crate) program: Words<'a>,
    pub(crate) version: Shorts<'a>,
    pub(crate) operation: Words<'a>,
    pub(crate) rpc_status: Words<'a>,
    pub(crate) status: Words<'a>,
    pub(crate) file_id: Integers<'a>,
    pub(crate) offset: Integers<'a>,
    pub(crate) count: Integers<'a>,
    pub(crate) transferred: Integers<'a>,
    pub(crate) call_missing: Flags<'a>,
    pub(crate) reply_missing: Flags<'a>,
    pub(crate) incomplete: [Flags<'a>; 3],
    pub(crate) not_executed: Flags<'a>,
    pub(crate) repeat: Flags<'a>,
    pub(crate) retransmissions: Counts<'a>,
    pub(crate) duplicate_replies: Counts<'a>,
    pub(crate) user_id: Integers<'a>,
    /// Where a filter asks for them.
    connection_id: Option<Integers<'a>>,
    pub(crate) name: Option<Texts<'a>>,
    waits: &'a Waits,
}

impl<'a> Batch<'a> {
    /// The columns of a pass: [`COLUMNS`], those of the filter, and others behind them.
    pub(crate) fn columns(chosen: &Chosen) -> Vec<&'static str> {
        COLUMNS.into_iter().chain(chosen.columns()).collect()
    }

    pub(crate) fn of(
        columns: &'a [Column],
        chosen: &'a Chosen,
        lexica: &mut Lexica,
    ) -> Result<Self, ReadError> {
        let mut named = COLUMNS.into_iter().chain(chosen.columns()).zip(columns);
        let mut next = || {
            named
                .next()
                .expect("a batch has the columns that were asked for")
        };
        macro_rules! column {
            ($kind:ident) => {{
                let (name, column) = next();
                $kind::of(name, column)?
            }};
            ($kind:ident, $lexicon:expr) => {{
                let (name, column) = next();
                $kind::of(name, column, $lexicon)?
            }};
        }
        let batch = Self {
            rows: columns.first().map_or(0, Column::len),
            operation_id: column!(Integers),
            call_time_ns: column!(Integers),
            call_end_ns: column!(Integers),
            reply_time_ns: column!(Integers),
            reply_end_ns: column!(Integers),
            client: column!(Words, &mut lexica.clients),
            server: column!(Words, &mut lexica.servers),
            program: column!(Words, &mut lexica.words),
            version: column!(Shorts),
            operation: column!(Words, &mut lexica.words),
            rpc_status: column!(Words, &mut lexica.words),
            status: column!(Words, &mut lexica.words),
            file_id: column!(Integers),
            offset: column!(Integers),
            count: column!(Integers),
            transferred: column!(Integers),
            call_missing: column!(Flags),
            reply_missing: column!(Flags),
            incomplete: [column!(Flags), column!(Flags), column!(Flags)],
            not_executed: column!(Flags),
            repeat: column!(Flags),
            retransmissions: column!(Counts),
            duplicate_replies: column!(Counts),
            user_id: column!(Integers),
            rpc_id: match chosen.reads_rpc_id {
                true => column!(Integers),
                false => Integers::none(),
            },
            connection_id: match chosen.connections {
                Some(_) => Some(column!(Integers)),
                None => None,
            },
            name: match chosen.files {
                Some(_) => Some(column!(Texts)),
                None => None,
            },
            waits: &chosen.waits,
        };
        let users = (0..batch.rows).filter_map(|row| batch.user_id.get(row));
        lexica.note(batch.operation.distinct(), users, chosen.user_id);
        Ok(batch)
    }

    /// The time of a row: its call's or, if that was not seen, its reply's.
    pub(crate) fn time(&self, row: usize) -> Option<i64> {
        self.call_time_ns
            .get(row)
            .or_else(|| self.reply_time_ns.get(row))
    }

    /// Whether an operation of a compound is its last, and comes after those alone that name the
    /// file: then it is what the client wanted. Rows of a compound follow one another.
    pub(crate) fn is_alone(&self, row: usize, lexica: &Lexica) -> bool {
        let id = self.rpc_id.get(row);
        if id.is_none() {
            return true;
        }
        let is_last = row + 1 >= self.rows || self.rpc_id.get(row + 1) != id;
        let before = (0..row).rev().take_while(|&row| self.rpc_id.get(row) == id);
        let mut names = before.map(|row| lexica.words.text(self.operation.get(row)));
        is_last && names.all(|name| matches!(name, "SEQUENCE" | "PUTFH" | "PUTROOTFH"))
    }

    /// From the first byte of the call to the last of the reply, of an operation that the server
    /// reached.
    pub(crate) fn latency_ns(&self, row: usize) -> Option<u64> {
        if self.not_executed.get(row) {
            return None;
        }
        let (call, end) = (self.call_time_ns.get(row)?, self.reply_end_ns.get(row)?);
        u64::try_from(end.checked_sub(call)?).ok()
    }

    /// How long a call without a reply waited; `None` where there is no way to know.
    #[inline]
    pub(crate) fn wait(&self, row: usize) -> Option<&'a Wait> {
        match self.reply_missing.get(row) {
            true => self.waits.get(self.rpc_of(row)?),
            false => None,
        }
    }

    /// Whether a row is the first, or the only one, of its call.
    pub(crate) fn is_first(&self, row: usize) -> bool {
        self.rpc_id
            .get(row)
            .is_none_or(|id| self.operation_id.get(row) == Some(id))
    }

    /// Whether a call without a reply is part of another's wait.
    pub(crate) fn is_joined(&self, row: usize) -> bool {
        self.rpc_of(row).is_some_and(|id| self.waits.is_joined(id))
    }

    /// Whether calls of the trace waited for replies that did not come, and rows here may be some.
    pub(crate) fn has_waits(&self) -> bool {
        self.reply_missing.are_any() && !self.waits.is_empty()
    }

    /// Without compounds, an operation is a call.
    pub(crate) fn rpc_of(&self, row: usize) -> Option<i64> {
        self.rpc_id.get(row).or_else(|| self.operation_id.get(row))
    }

    /// The rows that a filter chooses.
    pub(crate) fn chosen(&self, chosen: &Chosen, lexica: &Lexica) -> Vec<usize> {
        if chosen.are_all() {
            return (0..self.rows).collect();
        }
        let [client, server, operation] = chosen.words(lexica);
        let is_chosen = |&row: &usize| {
            chosen.has_time(self.time(row))
                && client.is_none_or(|client| client == Some(self.client.get(row)))
                && server.is_none_or(|server| server == Some(self.server.get(row)))
                && operation.is_none_or(|operation| operation == Some(self.operation.get(row)))
                && { chosen.user_id }.is_none_or(|user| self.user_id.get(row) == Some(user))
                && self.is_of_chosen_file(chosen, row)
        };
        (0..self.rows).filter(is_chosen).collect()
    }

    fn is_of_chosen_file(&self, chosen: &Chosen, row: usize) -> bool {
        if let (Some(connections), Some(column)) = (&chosen.connections, &self.connection_id)
            && !column.get(row).is_some_and(|id| connections.has(id))
        {
            return false;
        }
        let (Some(files), Some(name)) = (&chosen.files, &self.name) else {
            return true;
        };
        let file_id = self.file_id.get(row);
        file_id.is_some_and(|id| files.has(id)) || {
            let name = name.get(row);
            name.is_some_and(|name| files.has_name(file_id, name))
        }
    }
}
