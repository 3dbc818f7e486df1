//! The first look at a trace: who calls, and by what its calls can be joined with the other's.

use hashbrown::{HashMap, HashSet};
use lineside_rows::Table;

use super::hash::{bytes_hash, mixed_all};
use super::rows::SOURCE;
use crate::read::columns::{Flags, Integers, Lexicon, Texts, Word, Words};
use crate::read::lexica::Lexica;
use crate::read::trace::Trace;

/// Keys that a sketch keeps: a share of 1 % of two traces is found within a tenth of it.
const KEPT: usize = 16_384;

const COLUMNS: [&str; 12] = [
    "operation_id",
    "rpc_id",
    "call_time_ns",
    "call_missing",
    "client_address",
    "server_address",
    "program",
    "operation",
    "xid",
    "offset",
    "name",
    "file_id",
];

/// The least keys of a trace, each with the time of the call that has it; `None`: several have. Two
/// traces keep the same of those that both have.
#[derive(Default)]
pub(super) struct Sketch {
    kept: HashMap<u64, Option<i64>>,
    /// Keys from here on are not kept.
    end: Option<u64>,
}

impl Sketch {
    fn add(&mut self, key: u64, ns: i64) {
        if self.end.is_some_and(|end| key >= end) {
            return;
        }
        { self.kept.entry(key) }
            .and_modify(|known| *known = None)
            .or_insert(Some(ns));
        if self.kept.len() > 2 * KEPT {
            let mut keys: Vec<u64> = self.kept.keys().copied().collect();
            let (_, end, _) = keys.select_nth_unstable(KEPT);
            let end = *end;
            self.kept.retain(|key, _| *key < end);
            self.end = Some(end);
        }
    }

    /// The share of the smaller trace's keys that the other has, too.
    pub(super) fn share(&self, other: &Self) -> f64 {
        let end = [self.end, other.end].into_iter().flatten().min();
        let is_of_both = |key: &u64| end.is_none_or(|end| *key < end);
        let keys = self.kept.keys().filter(|key| is_of_both(key));
        let common = keys.clone().filter(|key| other.kept.contains_key(*key));
        let others = other.kept.keys().filter(|key| is_of_both(key));
        match keys.clone().count().min(others.count()) {
            0 => 0.0,
            all => common.count() as f64 / all as f64,
        }
    }

    /// When the one call that has a key was made in both, in the order of the first.
    pub(super) fn times(&self, other: &Self) -> Vec<(i64, i64)> {
        let both = self.kept.iter();
        let both = both.filter_map(|(key, ns)| (*ns).zip(*other.kept.get(key)?));
        let mut times: Vec<_> = both.collect();
        times.sort_unstable();
        times
    }
}

/// What a trace has.
#[derive(Default)]
pub(super) struct Survey {
    /// Clients with their first calls.
    pub(super) clients: HashMap<Word, i64>,
    pub(super) servers: HashSet<Word>,
    /// Transaction ids with their operations.
    pub(super) xids: Sketch,
    /// What calls ask for.
    pub(super) asked: Sketch,
    /// Ids of calls.
    pub(super) ids: Sketch,
    /// Ids of the calls that are repeated.
    pub(super) sources: Sketch,
    /// Some calls repeat calls of another trace.
    pub(super) has_source: bool,
    pub(super) has_sums: bool,
}

impl Survey {
    pub(super) fn of(trace: &mut Trace, lexica: &mut Lexica) -> Self {
        let mut survey = Self::default();
        let mut columns = COLUMNS.to_vec();
        let may_have_source = trace.has_columns(Table::Operations, &[SOURCE]);
        columns.extend(may_have_source.then_some(SOURCE));
        trace.batches(Table::Operations, &columns, |batch| {
            let integers = |at: usize| Integers::of(columns[at], &batch[at]);
            let (id, rpc_id, call) = (integers(0)?, integers(1)?, integers(2)?);
            let missing = Flags::of(columns[3], &batch[3])?;
            let client = Words::of(columns[4], &batch[4], &mut lexica.clients)?;
            let server = Words::of(columns[5], &batch[5], &mut lexica.servers)?;
            let program = Words::of(columns[6], &batch[6], &mut lexica.words)?;
            let operation = Words::of(columns[7], &batch[7], &mut lexica.words)?;
            let (xid, offset) = (integers(8)?, integers(9)?);
            let name = Texts::of(columns[10], &batch[10])?;
            let file = integers(11)?;
            let source = match may_have_source {
                true => Some(integers(COLUMNS.len())?),
                false => None,
            };
            for row in 0..batch[0].len() {
                let source = source.as_ref().and_then(|source| source.get(row));
                survey.has_source |= source.is_some();
                let is_first = rpc_id.get(row).is_none_or(|rpc| id.get(row) == Some(rpc));
                let Some(ns) = call.get(row).filter(|_| is_first && !missing.get(row)) else {
                    continue;
                };
                survey.servers.insert(server.get(row));
                let first_ns = survey.clients.entry(client.get(row)).or_insert(ns);
                *first_ns = ns.min(*first_ns);
                let what = [program.get(row), operation.get(row)].map(u64::from);
                if let Some(xid) = xid.get(row) {
                    let key = mixed_all([what[0], what[1], xid.cast_unsigned()]);
                    survey.xids.add(key, ns);
                }
                let name = name.get(row).map_or(0, |name| bytes_hash(name.as_bytes()));
                let offset = offset.get(row).unwrap_or_default().cast_unsigned();
                let file = file.get(row).unwrap_or_default().cast_unsigned();
                let asked = mixed_all([what[0], what[1], file, offset, name]);
                survey.asked.add(asked, ns);
                if let Some(id) = id.get(row) {
                    survey.ids.add(mixed_all([id.cast_unsigned()]), ns);
                }
                if let Some(source) = source {
                    survey.sources.add(mixed_all([source.cast_unsigned()]), ns);
                }
            }
            Ok(())
        });
        survey.servers.remove(&Lexicon::NONE);
        survey.has_sums = has_sums(trace);
        survey
    }

    /// The names by which calls go where a trace repeats another: those of what they repeat.
    pub(super) fn named(&self) -> &Sketch {
        match self.has_source {
            true => &self.sources,
            false => &self.ids,
        }
    }

    /// The client of `other` that each client here stands for: itself, or if the traces have none
    /// in common the one that comes at the same place.
    pub(super) fn clients_of(&self, other: &Self) -> HashMap<Word, Word> {
        let has_common = self
            .clients
            .keys()
            .any(|client| other.clients.contains_key(client));
        if has_common {
            return HashMap::new();
        }
        let in_order = |survey: &Self| {
            let clients = survey.clients.iter();
            let mut clients: Vec<_> = clients.map(|(client, ns)| (*ns, *client)).collect();
            clients.sort_unstable();
            clients
        };
        let (own, others) = (in_order(self), in_order(other));
        own.into_iter()
            .map(|(_, client)| client)
            .zip(others.into_iter().map(|(_, to)| to))
            .collect()
    }
}

/// Whether checksums of data are there.
fn has_sums(trace: &mut Trace) -> bool {
    let mut has_any = false;
    if trace.has(Table::Checksums) {
        for path in trace.parts(Table::Checksums) {
            has_any |= trace
                .open_part(&path)
                .is_some_and(|part| part.row_count() > 0);
        }
    }
    has_any
}
