//! The slow operations of a trace.

use std::path::Path;

use hashbrown::{HashMap, HashSet};
use lineside_trace::Table;
use serde::Serialize;

use crate::aggregate::{Batch, COLUMNS, Lexica};
use crate::columns::{Integers, Texts};
use crate::filter::{Filter, span};
use crate::names::Paths;
use crate::numbers::digits;
use crate::trace::{Trace, TraceError};

/// Operations in one answer: the slowest of them.
pub const SLOW_MAX: usize = 1_000_000;

/// The slow operations of a trace.
#[derive(Debug, Clone, Default)]
pub struct Slow {
    /// In the order of their calls.
    pub operations: Vec<SlowOperation>,
    /// Slow ones that were left out: there are more than [`SLOW_MAX`].
    pub left_out: u64,
    /// Chosen calls without a reply: there is no way to know how slow.
    pub unanswered: u64,
    /// Chosen operations whose reply ended before their call began, by their stamps: there is no
    /// way to know how slow either.
    pub backwards: u64,
    /// What could not be read, in sentences.
    pub unreadable: Vec<String>,
}

/// Operations with a name in a directory, which is their `file_id`: of NFSv2 to NFSv4.
const NAMING: [&str; 10] = [
    "CREATE", "LOOKUP", "MKDIR", "MKNOD", "OPEN", "REMOVE", "RENAME", "RMDIR", "SECINFO", "SYMLINK",
];

/// A slow operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowOperation {
    /// Identifies the row of `operations`.
    pub operation_id: i64,
    /// When its call began.
    pub call_time_ns: i64,
    /// The caller.
    pub client_address: String,
    /// The user it was made for.
    pub user_id: Option<i64>,
    /// What.
    pub operation: String,
    /// Bytes moved.
    pub transferred_bytes: Option<i64>,
    /// Where in the file.
    pub offset_bytes: Option<u64>,
    /// From the first byte of the call to the last of the reply, as seen on the wire.
    pub latency_ns: u64,
    /// Of that, from the end of the call to the begin of the reply.
    pub server_time_ns: Option<u64>,
    /// The file, as in the tables, in decimal digits.
    #[serde(serialize_with = "digits")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub file_id: Option<i64>,
    /// Its path as far as it is known; of operations with a name in a directory, such as REMOVE,
    /// that directory's with the name behind it.
    pub path: Option<String>,
}

/// Finds the operations that took at least `latency_min_ns`.
pub fn slow(path: &Path, filter: &Filter, latency_min_ns: u64) -> Result<Slow, TraceError> {
    let mut trace = Trace::open(path)?;
    let (chosen, _) = span(&mut trace, filter)?;
    let mut lexica = Lexica::new();
    let mut slow = Slow::default();
    trace.batches(Table::Operations, &COLUMNS, |columns| {
        let batch = Batch::of(columns, &mut lexica)?;
        lexica.note_operations(&batch);
        for row in batch.chosen(&chosen, &lexica) {
            slow.unanswered += u64::from(batch.reply_missing.get(row));
            let (Some(call), Some(reply)) =
                (batch.call_time_ns.get(row), batch.reply_end_ns.get(row))
            else {
                continue;
            };
            let latency_ns = duration(call, reply);
            slow.backwards += u64::from(latency_ns.is_none());
            let Some(latency_ns) = latency_ns.filter(|&ns| ns >= latency_min_ns) else {
                continue;
            };
            slow.operations.push(SlowOperation {
                operation_id: batch.operation_id.get(row).unwrap_or_default(),
                call_time_ns: call,
                client_address: lexica.clients.text(batch.client.get(row)).to_owned(),
                user_id: batch.user_id.get(row),
                operation: lexica.words.text(batch.operation.get(row)).to_owned(),
                transferred_bytes: batch.transferred.get(row),
                offset_bytes: batch.offset.get(row).map(|bits| bits as u64),
                latency_ns,
                server_time_ns: match (batch.call_end_ns.get(row), batch.reply_time_ns.get(row)) {
                    (Some(from), Some(to)) => duration(from, to),
                    _ => None,
                },
                file_id: batch.file_id.get(row),
                path: None,
            });
        }
        if slow.operations.len() >= 2 * SLOW_MAX {
            slow.keep_slowest(SLOW_MAX);
        }
        Ok(())
    });
    chosen.check(&lexica.clients, &lexica.operations(), &trace.warnings)?;
    slow.keep_slowest(SLOW_MAX);
    slow.operations
        .sort_unstable_by_key(|each| (each.call_time_ns, each.operation_id));
    let paths = Paths::of(
        &mut trace,
        slow.operations.iter().filter_map(|each| each.file_id),
    );
    let names = names(&mut trace, &slow.operations);
    for each in &mut slow.operations {
        each.path = each.file_id.and_then(|id| paths.path(id));
        if let Some(name) = names.get(&each.operation_id) {
            let directory = each.path.as_deref().unwrap_or("…").trim_end_matches('/');
            each.path = Some(format!("{directory}/{name}"));
        }
    }
    slow.unreadable = trace.warnings;
    Ok(slow)
}

impl Slow {
    fn keep_slowest(&mut self, count: usize) {
        if self.operations.len() <= count {
            return;
        }
        // The id breaks ties, so that the answer is the same every time.
        let rank = |each: &SlowOperation| (std::cmp::Reverse(each.latency_ns), each.operation_id);
        self.operations.select_nth_unstable_by_key(count, rank);
        self.left_out += (self.operations.len() - count) as u64;
        self.operations.truncate(count);
    }
}

/// The names of those operations, by id, that do something with a name in the directory `file_id`.
fn names(trace: &mut Trace, operations: &[SlowOperation]) -> HashMap<i64, String> {
    let acts_on_name =
        { operations.iter() }.filter(|each| NAMING.contains(&each.operation.as_str()));
    let wanted: HashSet<i64> = acts_on_name.map(|each| each.operation_id).collect();
    let mut names = HashMap::new();
    if wanted.is_empty() {
        return names;
    }
    trace.batches(Table::Operations, &["operation_id", "name"], |batch| {
        let [operation_id, name] = batch else {
            return Ok(());
        };
        let rows = name.len();
        let operation_id = Integers::of("operation_id", operation_id)?;
        let name = Texts::of("name", name)?;
        for row in 0..rows {
            if let (Some(id), Some(name)) = (operation_id.get(row), name.get(row))
                && wanted.contains(&id)
            {
                names.insert(id, name.to_owned());
            }
        }
        Ok(())
    });
    names
}

fn duration(from: i64, to: i64) -> Option<u64> {
    u64::try_from(to.checked_sub(from)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_are_kept() {
        let operation = |id, latency_ns| SlowOperation {
            operation_id: id,
            call_time_ns: 0,
            client_address: String::new(),
            user_id: None,
            operation: String::new(),
            transferred_bytes: None,
            offset_bytes: None,
            latency_ns,
            server_time_ns: None,
            file_id: None,
            path: None,
        };
        let mut slow = Slow {
            operations: vec![
                operation(1, 5),
                operation(2, 9),
                operation(3, 9),
                operation(4, 1),
            ],
            ..Slow::default()
        };
        slow.keep_slowest(2);
        let mut ids: Vec<_> = slow
            .operations
            .iter()
            .map(|each| each.operation_id)
            .collect();
        ids.sort_unstable();
        assert_eq!((ids, slow.left_out), (vec![2, 3], 2));
    }
}
