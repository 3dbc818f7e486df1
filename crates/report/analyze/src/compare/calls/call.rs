//! Calls of rows: the rows of a compound are one call.

use hashbrown::HashMap;

use super::hash::{mixed, mixed_all};
use super::rows::{NONE, Row, Rows};
use super::waits::Waits;
use crate::model::CallRule;
use crate::read::columns::{Lexicon, Word};
use crate::read::compound::is_beside;
use crate::read::filter::Chosen;
use crate::read::in_order::Overlap;
use crate::read::lexica::Lexica;
use crate::read::trace::Trace;

/// Files whose names are learned.
const LABELS_MAX: usize = 1 << 20;

/// A call, as a comparison needs it. [`NONE`] stands for null.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) id: i64,
    pub(super) call_ns: i64,
    /// To the last byte of its reply.
    pub(super) response_ns: i64,
    /// Of that, the server had it.
    pub(super) server_ns: i64,
    /// Since the reply that it waited for, and that one's [`name`](Self::name); 0: none.
    pub(super) think_ns: i64,
    pub(super) after: u64,
    /// What its partner has, too; 0: it has none.
    pub(super) key: u64,
    /// Its client and what it is about, and what it asks for.
    pub(super) group: u64,
    pub(super) asked: u64,
    pub(super) statuses: u64,
    pub(super) data: u64,
    pub(super) offset: i64,
    pub(super) count: i64,
    pub(super) moved: i64,
    pub(super) size: i64,
    pub(super) file: i64,
    /// The client, and the one in A that it stands for.
    pub(super) client: Word,
    pub(super) who: Word,
    pub(super) program: Word,
    pub(super) operation: Word,
    pub(super) status: Word,
    pub(super) version: i32,
    pub(super) is_unanswered: bool,
    pub(super) is_compound: bool,
    /// Some of the call, of the reply, of the data was not seen.
    pub(super) lacks: [bool; 3],
    /// Its partner is known.
    pub(super) is_done: bool,
}

/// What the rows of both traces have in common.
pub(super) struct Terms {
    pub(super) rule: CallRule,
    /// It is of a replay: its calls go by the names of those that they repeat.
    pub(super) has_source: bool,
    /// Of clients of B those of A.
    pub(super) clients: HashMap<Word, Word>,
    /// Ids of files mean the same in both.
    pub(super) has_files: bool,
}

/// The calls of a trace in the order of their times.
pub(super) struct Calls {
    pub(super) rows: Rows,
    pub(super) waits: Waits,
    terms: Terms,
    /// The first row of the next call.
    next: Option<Row>,
    of_call: Vec<Row>,
    labels: HashMap<i64, u64>,
    pub(super) calls: u64,
    pub(super) unanswered: u64,
}

impl Calls {
    pub(super) fn new(rows: Rows, waits: Waits, terms: Terms) -> Self {
        Self {
            rows,
            waits,
            terms,
            next: None,
            of_call: Vec::new(),
            labels: HashMap::new(),
            calls: 0,
            unanswered: 0,
        }
    }

    pub(super) fn next(
        &mut self,
        trace: &mut Trace,
        chosen: &Chosen,
        lexica: &mut Lexica,
    ) -> Result<Option<Call>, Overlap> {
        self.of_call.clear();
        self.of_call.extend(self.next.take());
        while let Some(row) = self.rows.next(trace, chosen, lexica)? {
            if self
                .of_call
                .first()
                .is_some_and(|first| first.rpc_id != row.rpc_id)
            {
                self.next = Some(row);
                break;
            }
            self.of_call.push(row);
        }
        let Some(first) = self.of_call.first().copied() else {
            return Ok(None);
        };
        let call = self.call(&first, lexica);
        self.calls += 1;
        self.unanswered += u64::from(call.is_unanswered);
        Ok(Some(call))
    }

    fn call(&mut self, first: &Row, lexica: &Lexica) -> Call {
        let rows = &self.of_call;
        let text = |row: &&Row| is_beside(lexica.words.text(row.operation));
        let main = rows.iter().find(|row| !text(row)).unwrap_or(first);
        let who = self
            .terms
            .clients
            .get(&first.client)
            .copied()
            .unwrap_or(first.client);
        let some = |of: fn(&Row) -> i64| rows.iter().map(of).find(|value| *value != NONE);
        let bits = |value: i64| value.cast_unsigned();
        let asked = rows.iter().fold(0, |asked, row| mixed(asked, row.asked()));
        let file = some(|row| row.file).unwrap_or(NONE);
        let group = mixed(u64::from(who), self.label(file));
        let key = match self.terms.rule {
            CallRule::Source if self.terms.has_source => {
                let sources = rows.iter().map(|row| row.source);
                { sources.filter(|id| *id != NONE).min() }.map_or(0, |id| mixed_all([bits(id)]))
            }
            CallRule::Source => mixed_all([bits(first.rpc_id)]),
            CallRule::Xid if first.xid == NONE => 0,
            CallRule::Xid => mixed_all([u64::from(who), first.called(), bits(first.xid)]),
            CallRule::Order => mixed(group, asked),
        };
        let statuses = { rows.iter() }.fold(0, |all, row| mixed(all, u64::from(row.status)));
        let status = { rows.iter().rev() }.map(|row| row.status);
        let waited = self.waits.add(who, key, first);
        let call = Call {
            id: first.rpc_id,
            call_ns: first.call_ns,
            response_ns: waited.response_ns,
            server_ns: waited.server_ns,
            think_ns: waited.think_ns,
            after: waited.after,
            key,
            group,
            asked,
            statuses,
            data: rows.iter().fold(0, |all, row| match row.data {
                0 => all,
                data => mixed(all, data),
            }),
            offset: some(|row| row.offset).unwrap_or(NONE),
            count: some(|row| row.count).unwrap_or(NONE),
            moved: some(|row| row.moved).unwrap_or(NONE),
            size: some(|row| row.size).unwrap_or(NONE),
            file,
            client: first.client,
            who,
            program: main.program,
            operation: main.operation,
            status: { status }
                .find(|status| *status != Lexicon::NONE)
                .unwrap_or(Lexicon::NONE),
            version: main.version,
            is_unanswered: first.is_unanswered,
            is_compound: rows.len() > 1,
            lacks: [0, 1, 2].map(|part| rows.iter().any(|row| row.lacks[part])),
            is_done: false,
        };
        self.learn();
        call
    }

    /// What a file is called, as far as the calls so far show it: the same on every server.
    fn label(&self, file: i64) -> u64 {
        if file == NONE {
            return 0;
        }
        match (self.labels.get(&file), self.terms.has_files) {
            (Some(label), _) => *label,
            (None, true) => mixed_all([file.cast_unsigned()]),
            (None, false) => 0,
        }
    }

    /// Learns the names of files that the rows of a call looked up or made.
    fn learn(&mut self) {
        if self.terms.rule != CallRule::Order {
            return;
        }
        for at in 0..self.of_call.len() {
            let row = self.of_call[at];
            let has_room = self.labels.len() < LABELS_MAX || self.labels.contains_key(&row.made);
            if row.made != NONE && row.name != 0 && row.made != row.file && has_room {
                let label = mixed(self.label(row.file), row.name);
                self.labels.insert(row.made, label);
            }
        }
    }
}
