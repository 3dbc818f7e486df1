//! Operations that failed or were never answered: one by one, or how many of each status, client …
//!
//! What `slow` keeps of an operation is kept of these, so that both show paths, names and frames
//! alike. Of a compound it is the operation that failed; of one without a reply, the one that says
//! most of what it does.

use std::cmp::Reverse;
use std::path::Path;

use hashbrown::HashMap;
use lineside_rows::Table;
use serde::Serialize;

use super::best::Best;
use super::frames::Frames;
use super::groups::{Directories, GROUPS_MAX, Names, Per, key};
use super::operation::{OwnColumns, Pick, RowFacts, operations};
use crate::numbers::{digits, share};
use crate::read::batch::Batch;
use crate::read::columns::{Lexicon, Word};
use crate::read::filter::{Filter, span};
use crate::read::lexica::Lexica;
use crate::read::trace::{Trace, TraceError};

/// Operations in one answer: the first of them.
pub const FAILED_MAX: usize = 1_000_000;

/// Which failures are shown.
#[derive(Debug, Clone, Default)]
pub struct FailedRequest {
    /// Only those with this status, as the tables have it or without its version (`STALE`);
    /// `UNANSWERED`: only calls that were never answered.
    pub status: Option<String>,
    /// So many are shown.
    pub top: Option<usize>,
}

impl FailedRequest {
    /// Whether a status is asked for; an empty one is that of a call without a reply.
    fn is_asked(&self, status: &str) -> bool {
        let Some(asked) = &self.status else {
            return true;
        };
        let asked = asked.to_ascii_uppercase();
        match status {
            "" => asked == "UNANSWERED",
            // `NFS3ERR_STALE` is STALE, and BAD_STATEID is not the end of another word.
            _ => {
                status == asked || { status.strip_suffix(asked.as_str()) }.is_some_and(|stem| {
                    stem.ends_with("ERR_") || matches!(stem, "NLM4_" | "LCK_" | "MNT_")
                })
            }
        }
    }
}

/// An operation that failed, or that was never answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailedOperation {
    /// Identifies the row of `operations`.
    pub operation_id: i64,
    /// `operation_id` of the first row of its compound.
    pub rpc_id: i64,
    /// The connection, as in `connections`.
    pub connection_id: i64,
    /// When its call began, or the reply, if the call was not seen.
    pub time_ns: Option<i64>,
    /// The caller.
    pub client_address: String,
    /// The callee.
    pub server_address: String,
    /// The user it was made for.
    pub user_id: Option<i64>,
    /// What.
    pub operation: String,
    /// All operations of its compound, in their order; empty if it is in none.
    pub compound: Vec<String>,
    /// The protocol's status, or RPC's where there is none; null: it was never answered.
    pub status: Option<String>,
    /// The file, as in the tables, in decimal digits.
    #[serde(serialize_with = "digits")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub file_id: Option<i64>,
    /// Its path as far as it is known; of operations with a name in a directory, such as REMOVE,
    /// that directory's with the name behind it.
    pub path: Option<String>,
    /// The frames of call and reply.
    #[serde(flatten)]
    pub frames: Frames,
    /// The command that shows these frames; null if they lie in no file.
    pub tshark: Option<String>,
}

/// The failed operations of a trace.
#[derive(Debug, Clone, Default)]
pub struct Failed {
    /// By time.
    pub operations: Vec<FailedOperation>,
    /// Those that were left out: there are more than were asked for, or than [`FAILED_MAX`].
    pub left_out: u64,
    /// Chosen calls; of a compound one.
    pub calls: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those without a reply.
    pub unanswered: u64,
    /// The trace has several inputs: numbers of frames alone do not identify them.
    pub has_inputs: bool,
    /// What could not be read, in sentences.
    pub unreadable: Vec<String>,
}

/// The failures of one status, client, file …
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailedGroup {
    /// What is grouped by.
    pub per: Per,
    /// The address, path, name, or time; of connections both ends. Empty: not known; of statuses,
    /// never answered.
    pub name: String,
    /// Of files and directories: as in the tables, in decimal digits.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "digits")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub file_id: Option<i64>,
    /// Calls of the group; of statuses, all that were chosen.
    pub calls: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those without a reply.
    pub unanswered: u64,
    /// The share of both.
    pub failed_share: f64,
    /// The status that most of them have; null: most were never answered.
    pub status: Option<String>,
    /// The operation that most of them are.
    pub operation: String,
    /// The first one's time.
    pub first_ns: Option<i64>,
    /// The last one's time.
    pub last_ns: Option<i64>,
    /// The first one.
    pub operation_id: i64,
    /// Its frames.
    #[serde(flatten)]
    pub frames: Frames,
    /// The command that shows these frames; null if they lie in no file.
    pub tshark: Option<String>,
}

/// The groups of a trace.
#[derive(Debug, Clone)]
pub struct FailedGroups {
    /// What is grouped by.
    pub per: Per,
    /// Those with most failures first.
    pub groups: Vec<FailedGroup>,
    /// Groups with failures that are not shown.
    pub left_out: u64,
    /// Failures of groups for which there was no room.
    pub not_tracked: u64,
    /// The trace has several inputs: numbers of frames alone do not identify them.
    pub has_inputs: bool,
    /// What could not be read, in sentences.
    pub unreadable: Vec<String>,
}

/// Finds the operations that failed or were never answered.
pub fn failed(path: &Path, filter: &Filter, request: &FailedRequest) -> Result<Failed, TraceError> {
    let mut kept: Vec<(Pick, Word)> = Vec::new();
    let mut all = Failed::default();
    let top = request.top.unwrap_or(FAILED_MAX).min(FAILED_MAX);
    let mut rpc_id = None;
    let pass = pass(path, filter, request, |row| {
        if let Some(Row { pick, status, .. }) = row.failed {
            match kept.last_mut() {
                Some((last, Lexicon::NONE))
                    if status == Lexicon::NONE && last.rpc_id == pick.rpc_id =>
                {
                    last.merge(pick);
                }
                _ => {
                    all.failed += u64::from(status != Lexicon::NONE);
                    all.unanswered += u64::from(status == Lexicon::NONE);
                    kept.push((pick, status));
                }
            }
            if kept.len() > 2 * top.max(1 << 16) {
                keep_first(&mut kept, top);
            }
        }
        all.calls += u64::from(row.rpc_id.is_none() || row.rpc_id != rpc_id);
        rpc_id = row.rpc_id;
    })?;
    let Pass { mut trace, lexica } = pass;
    keep_first(&mut kept, top);
    all.left_out = all.failed + all.unanswered - kept.len() as u64;
    let (picks, statuses): (Vec<Pick>, Vec<Word>) = kept.into_iter().unzip();
    let shown = operations(&mut trace, &picks, &Best::default(), &lexica);
    let named = shown.into_iter().zip(&picks).zip(statuses);
    all.operations = named
        .map(|((each, pick), status)| FailedOperation {
            operation_id: each.operation_id,
            rpc_id: each.rpc_id,
            connection_id: each.connection_id,
            time_ns: time(pick),
            client_address: each.client_address,
            server_address: each.server_address,
            user_id: each.user_id,
            operation: each.operation,
            compound: each.compound,
            status: text(&lexica, status),
            file_id: each.file_id,
            path: each.path,
            frames: each.frames,
            tshark: each.tshark,
        })
        .collect();
    all.has_inputs = has_inputs(&trace);
    all.unreadable = trace.warnings;
    Ok(all)
}

/// Groups the failures of a trace.
pub fn failed_groups(
    path: &Path,
    filter: &Filter,
    per: Per,
    request: &FailedRequest,
) -> Result<FailedGroups, TraceError> {
    let directories = match per {
        Per::Directory => Directories::of(&mut Trace::open(path)?),
        _ => Directories::default(),
    };
    let mut groups: HashMap<Option<i64>, Group> = HashMap::new();
    let (mut not_tracked, mut calls, mut rpc_id) = (0, 0, None);
    let pass = pass(path, filter, request, |row| {
        calls += u64::from(row.rpc_id.is_none() || row.rpc_id != rpc_id);
        rpc_id = row.rpc_id;
        let key = match (per, &row.failed) {
            (Per::Status, Some(failed)) => {
                Some(i64::from(failed.status)).filter(|_| failed.status != Lexicon::NONE)
            }
            (Per::Status, None) => return,
            _ => key(per, row.batch, row.facts, row.at, row.lexica, &directories),
        };
        if groups.len() >= GROUPS_MAX && !groups.contains_key(&key) {
            not_tracked += u64::from(row.failed.is_some());
            return;
        }
        groups.entry(key).or_default().add(row.rpc_id, row.failed);
    })?;
    let Pass { mut trace, lexica } = pass;
    let mut shown: Vec<_> = { groups.into_iter() }
        .filter(|(_, group)| group.failed + group.unanswered > 0)
        .collect();
    shown.sort_by_key(|(key, group)| (Reverse(group.failed + group.unanswered), *key));
    let count = shown.len();
    shown.truncate(request.top.unwrap_or(usize::MAX));
    let names = Names::of(&mut trace, shown.iter().filter_map(|(key, _)| *key), per);
    let groups = { shown.iter() }.map(|(key, group)| {
        let calls = if per == Per::Status {
            calls
        } else {
            group.calls
        };
        let name = key.map(|key| names.name(key, &lexica));
        let is_file = matches!(per, Per::File | Per::Directory);
        let name = name.unwrap_or_default();
        group.shown(per, name, key.filter(|_| is_file), calls, &trace, &lexica)
    });
    Ok(FailedGroups {
        per,
        groups: groups.collect(),
        left_out: (count - shown.len()) as u64,
        not_tracked,
        has_inputs: has_inputs(&trace),
        unreadable: trace.warnings,
    })
}

fn time(pick: &Pick) -> Option<i64> {
    pick.times[0].or(pick.times[2])
}

fn text(lexica: &Lexica, status: Word) -> Option<String> {
    (status != Lexicon::NONE).then(|| lexica.words.text(status).to_owned())
}

fn has_inputs(trace: &Trace) -> bool {
    let inputs = trace
        .manifest
        .as_ref()
        .map(|manifest| manifest.inputs.len());
    inputs.is_none_or(|inputs| inputs > 1)
}

/// Keeps the first by time.
fn keep_first(kept: &mut Vec<(Pick, Word)>, top: usize) {
    // The id breaks ties, so that the answer is the same every time.
    kept.sort_by_key(|(pick, _)| (time(pick), pick.operation_id));
    kept.truncate(top);
}

/// One group as the pass keeps it.
#[derive(Debug, Default)]
struct Group {
    calls: u64,
    failed: u64,
    unanswered: u64,
    statuses: HashMap<Word, u64>,
    operations: HashMap<Word, u64>,
    first: Option<Pick>,
    last_ns: Option<i64>,
    /// The compound that was added last, and of those without a reply.
    rpc_id: Option<i64>,
    unanswered_id: Option<i64>,
}

impl Group {
    fn add(&mut self, rpc_id: Option<i64>, failed: Option<Row>) {
        self.calls += u64::from(rpc_id.is_none() || rpc_id != self.rpc_id);
        self.rpc_id = rpc_id;
        let Some(Row { pick, status, .. }) = failed else {
            return;
        };
        if status == Lexicon::NONE {
            if self.unanswered_id == Some(pick.rpc_id) {
                return;
            }
            self.unanswered_id = Some(pick.rpc_id);
            self.unanswered += 1;
        } else {
            self.failed += 1;
        }
        *self.statuses.entry(status).or_default() += 1;
        *self.operations.entry(pick.operation).or_default() += 1;
        self.last_ns = self.last_ns.max(time(&pick));
        let is_first = { self.first.as_ref() }.is_none_or(|first| {
            (time(&pick), pick.operation_id) < (time(first), first.operation_id)
        });
        if is_first {
            self.first = Some(pick);
        }
    }

    fn shown(
        &self,
        per: Per,
        name: String,
        file_id: Option<i64>,
        calls: u64,
        trace: &Trace,
        lexica: &Lexica,
    ) -> FailedGroup {
        let most = |of: &HashMap<Word, u64>| {
            let most = of
                .iter()
                .max_by_key(|&(&word, &count)| (count, Reverse(word)));
            most.map_or(Lexicon::NONE, |(&word, _)| word)
        };
        let first = self.first.clone().unwrap_or_default();
        FailedGroup {
            per,
            name,
            file_id,
            calls,
            failed: self.failed,
            unanswered: self.unanswered,
            failed_share: share(self.failed + self.unanswered, calls),
            status: text(lexica, most(&self.statuses)),
            operation: lexica.words.text(most(&self.operations)).to_owned(),
            first_ns: time(&first),
            last_ns: self.last_ns,
            operation_id: first.operation_id,
            frames: first.frames,
            tshark: first.frames.tshark(trace.manifest.as_ref()),
        }
    }
}

/// What is left of a pass.
struct Pass {
    trace: Trace,
    lexica: Lexica,
}

/// A row that failed or was not answered.
struct Row {
    pick: Pick,
    /// [`Lexicon::NONE`]: it was not answered.
    status: Word,
}

/// A chosen row.
struct Each<'a, 'b> {
    batch: &'a Batch<'b>,
    facts: &'a RowFacts<'b>,
    at: usize,
    lexica: &'a Lexica,
    rpc_id: Option<i64>,
    failed: Option<Row>,
}

/// Hands over each chosen row, with whether it failed as was asked for.
fn pass(
    path: &Path,
    filter: &Filter,
    request: &FailedRequest,
    mut on_row: impl FnMut(Each<'_, '_>),
) -> Result<Pass, TraceError> {
    let mut trace = Trace::open(path)?;
    let (mut chosen, _) = span(&mut trace, filter)?;
    chosen.reads_rpc_id = trace.has_compounds();
    let mut lexica = Lexica::new();
    let own = OwnColumns::of(&mut trace);
    let shared = Batch::columns(&chosen);
    let columns = [shared.as_slice(), own.names()].concat();
    trace.batches(Table::Operations, &columns, |columns| {
        let batch = Batch::of(columns, &chosen, &mut lexica)?;
        let facts = own.batch(&columns[shared.len()..])?;
        for row in batch.chosen(&chosen, &lexica) {
            let failure = lexica.failure(batch.status.get(row), batch.rpc_status.get(row));
            let status = match failure {
                None if batch.reply_missing.get(row) => Some(Lexicon::NONE),
                failure => failure,
            };
            let status = status.filter(|&status| request.is_asked(lexica.words.text(status)));
            on_row(Each {
                batch: &batch,
                facts: &facts,
                at: row,
                lexica: &lexica,
                rpc_id: batch.rpc_id.get(row),
                failed: status.map(|status| Row {
                    pick: Pick::of(&batch, &facts, row, &lexica),
                    status,
                }),
            });
        }
        Ok(())
    });
    chosen.check(&lexica, &trace.warnings)?;
    Ok(Pass { trace, lexica })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_asked_for_with_and_without_its_version() {
        let asks = |asked: &str, status: &str| {
            let request = FailedRequest {
                status: Some(asked.to_owned()),
                top: None,
            };
            request.is_asked(status)
        };
        assert!(asks("stale", "NFS3ERR_STALE") && asks("STALE", "NFS4ERR_STALE"));
        assert!(asks("NFS3ERR_STALE", "NFS3ERR_STALE"));
        assert!(asks("unanswered", "") && !asks("STALE", ""));
        assert!(!asks("STALE", "NFS4ERR_NOT_STALE"));
    }
}
