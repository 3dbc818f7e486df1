//! How long the operations of each client, file, user … took.

use std::cmp::Reverse;
use std::path::Path;

use hashbrown::HashMap;
use lineside_rows::Table;
use serde::Serialize;

use super::operation::{OwnColumns, RowFacts};
use super::request::{SlowBy, SlowRequest, duration};
use super::spread::SparseTimes;
use crate::limits::FILES_MAX;
use crate::numbers::{date, digits, share};
use crate::read::batch::Batch;
use crate::read::columns::{Integers, Lexicon, Texts, Word};
use crate::read::filter::{Filter, span};
use crate::read::lexica::Lexica;
use crate::read::names::Paths;
use crate::read::selection::each_connection;
use crate::read::trace::{Trace, TraceError};

/// Groups that are distinguished: up to 250 bytes each, besides their histograms.
pub const GROUPS_MAX: usize = 1 << 20;
/// Steps of all histograms: 8 bytes each.
const STEPS_MAX: usize = 1 << 24;
/// Groups that are shown if nothing else was asked for.
const TOP: usize = 25;
const MINUTE_NS: i64 = 60_000_000_000;

/// What operations are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// The caller.
    Client,
    /// The callee.
    Server,
    /// The file or directory that they are about.
    File,
    /// The directory that they are about, or that of their file.
    Directory,
    /// The uid of AUTH_SYS.
    User,
    /// Their name.
    Operation,
    /// The connection.
    Connection,
    /// The minute of their call.
    Minute,
    /// Their status, or RPC's where there is none.
    Status,
}

/// The operations of one client, file … and how long they took. Of a compound, one in each group.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowGroup {
    /// What is grouped by.
    pub per: Per,
    /// The address, path, name, or time; of connections both ends. Empty: not known.
    pub name: String,
    /// Of files and directories: as in the tables, in decimal digits.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "digits")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub file_id: Option<i64>,
    /// Of users: the uid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<i64>,
    /// Of connections: as in the tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_id: Option<i64>,
    /// Of minutes: when it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minute_ns: Option<i64>,
    /// Operations with a latency: the first byte of the call and the last of the reply were seen.
    pub operations: u64,
    /// Those that took as long as was asked for.
    pub slow: u64,
    /// The share of these.
    pub slow_share: f64,
    /// The latency that half of them do not exceed.
    pub latency_p50_ns: Option<u64>,
    /// The latency that 99 % of them do not exceed.
    pub latency_p99_ns: Option<u64>,
    /// The mean latency.
    pub latency_mean_ns: Option<u64>,
    /// The longest latency.
    pub latency_max_ns: Option<u64>,
    /// The least of the latencies that are bounds, of calls without a reply: as long a one, or a
    /// longer one, took longer than that. Null: none is.
    pub latency_bound_min_ns: Option<u64>,
    /// The operation that took that long.
    pub slowest_operation_id: Option<i64>,
    /// From the end of the call to the begin of the reply: the median.
    pub server_time_p50_ns: Option<u64>,
    /// The same: the 99th percentile.
    pub server_time_p99_ns: Option<u64>,
    /// The time of call and reply from their first to their last byte, in all.
    pub transfer_ns: u64,
    /// The time that calls and replies waited for bytes that were sent again, in all; null: the
    /// trace is older than this.
    pub recovery_ns: Option<u64>,
    /// Bytes moved.
    pub transferred_bytes: u64,
    /// When the first slow one was called.
    pub slow_first_ns: Option<i64>,
    /// When the last slow one was called.
    pub slow_last_ns: Option<i64>,
}

/// The groups of a trace.
#[derive(Debug, Clone)]
pub struct SlowGroups {
    /// What is grouped by.
    pub per: Per,
    /// As they were sorted.
    pub groups: Vec<SlowGroup>,
    /// Groups that are not shown.
    pub left_out: u64,
    /// Operations of groups for which there was no room.
    pub not_tracked: u64,
    /// What could not be read, in sentences.
    pub unreadable: Vec<String>,
}

/// Groups the operations of a trace.
pub fn slow_groups(
    path: &Path,
    filter: &Filter,
    per: Per,
    request: &SlowRequest,
) -> Result<SlowGroups, TraceError> {
    let mut trace = Trace::open(path)?;
    let (chosen, _) = span(&mut trace, filter)?;
    let mut lexica = Lexica::new();
    let own = OwnColumns::of(&mut trace);
    let directories = match per {
        Per::Directory => Directories::of(&mut trace),
        _ => Directories::default(),
    };
    let mut groups = Groups::new(GROUPS_MAX, STEPS_MAX);
    let shared = Batch::columns(&chosen);
    let columns = [shared.as_slice(), own.names()].concat();
    trace.batches(Table::Operations, &columns, |columns| {
        let batch = Batch::of(columns, &chosen, &mut lexica)?;
        let facts = own.batch(&columns[shared.len()..])?;
        for row in batch.chosen(&chosen, &lexica) {
            if batch.not_executed.get(row) {
                continue;
            }
            let key = key(per, &batch, &facts, row, &lexica, &directories);
            groups.add(key, &batch, &facts, row, request.latency_min_ns);
        }
        Ok(())
    });
    chosen.check(&lexica, &trace.warnings)?;
    let count = groups.groups.len();
    let first = first(groups.groups, per, request, &lexica);
    let not_tracked = groups.not_tracked;
    let shown = named(&mut trace, first, per, &lexica);
    Ok(SlowGroups {
        per,
        left_out: (count - shown.len()) as u64,
        groups: shown,
        not_tracked,
        unreadable: trace.warnings,
    })
}

/// What a row is grouped by; `None`: it is not known.
pub(super) fn key(
    per: Per,
    batch: &Batch<'_>,
    facts: &RowFacts<'_>,
    row: usize,
    lexica: &Lexica,
    directories: &Directories,
) -> Option<i64> {
    let word = |word: Word| (word != Lexicon::NONE).then(|| i64::from(word));
    match per {
        Per::Client => Some(i64::from(batch.client.get(row))),
        Per::Server => Some(i64::from(batch.server.get(row))),
        Per::File => batch.file_id.get(row),
        Per::Directory => {
            let operation = lexica.words.text(batch.operation.get(row));
            let file_id = batch.file_id.get(row);
            file_id.and_then(|id| directories.of_file(id, operation))
        }
        Per::User => batch.user_id.get(row),
        Per::Operation => Some(i64::from(batch.operation.get(row))),
        Per::Connection => facts.connection_id.get(row),
        Per::Minute => {
            { batch.call_time_ns.get(row) }.map(|time| time.div_euclid(MINUTE_NS) * MINUTE_NS)
        }
        Per::Status => word(batch.status.get(row)).or_else(|| word(batch.rpc_status.get(row))),
    }
}

/// One group as the pass keeps it.
#[derive(Debug, Default)]
struct Group {
    latency: SparseTimes,
    server: SparseTimes,
    slow: u64,
    operations: u64,
    slowest: Option<i64>,
    transfer_ns: u64,
    recovery_ns: Option<u64>,
    transferred_bytes: u64,
    slow_times: Option<(i64, i64)>,
    /// The least latency that is a bound.
    bound_min_ns: Option<u64>,
    /// The compound that was added last.
    rpc_id: Option<i64>,
}

struct Groups {
    groups: HashMap<Option<i64>, Group>,
    groups_max: usize,
    steps_left: usize,
    not_tracked: u64,
}

impl Groups {
    fn new(groups_max: usize, steps_left: usize) -> Self {
        Self {
            groups: HashMap::new(),
            groups_max,
            steps_left,
            not_tracked: 0,
        }
    }

    fn add(
        &mut self,
        key: Option<i64>,
        batch: &Batch<'_>,
        facts: &RowFacts<'_>,
        row: usize,
        latency_min_ns: u64,
    ) {
        let [call, call_end, reply, reply_end] = [
            batch.call_time_ns.get(row),
            batch.call_end_ns.get(row),
            batch.reply_time_ns.get(row),
            batch.reply_end_ns.get(row),
        ];
        let between = |from: Option<i64>, to: Option<i64>| duration(from?, to?);
        let wait = batch.wait(row);
        let latency_ns = wait.map(|wait| wait.ns());
        let latency_ns = latency_ns.or_else(|| between(call, reply_end));
        let (Some(call), Some(latency_ns)) = (call, latency_ns) else {
            return;
        };
        let server_ns = between(call_end, reply);
        let is_full = self.groups.len() >= self.groups_max;
        if is_full && !self.groups.contains_key(&key) {
            self.not_tracked += 1;
            return;
        }
        let group = self.groups.entry(key).or_default();
        let moved = batch.transferred.get(row).unwrap_or(0);
        group.transferred_bytes += u64::try_from(moved).unwrap_or(0);
        let rpc_id = batch.rpc_id.get(row);
        if rpc_id.is_some() && group.rpc_id == rpc_id {
            return;
        }
        let new = usize::from(group.latency.is_new(latency_ns))
            + usize::from(server_ns.is_some_and(|ns| group.server.is_new(ns)));
        if new > self.steps_left {
            self.not_tracked += 1;
            return;
        }
        self.steps_left -= new;
        group.rpc_id = rpc_id;
        group.operations += 1;
        if wait.is_some_and(|wait| wait.is_bound) {
            let least = group.bound_min_ns.unwrap_or(latency_ns);
            group.bound_min_ns = Some(least.min(latency_ns));
        }
        if group.latency.max_ns().is_none_or(|most| latency_ns > most) {
            group.slowest = batch.operation_id.get(row);
        }
        group.latency.add(latency_ns);
        if let Some(ns) = server_ns {
            group.server.add(ns);
        }
        group.transfer_ns += between(Some(call), call_end).unwrap_or(0);
        group.transfer_ns += between(reply, reply_end).unwrap_or(0);
        if let Some([in_call, in_reply]) = facts.recovery_ns(row) {
            *group.recovery_ns.get_or_insert(0) += in_call + in_reply;
        }
        if latency_ns >= latency_min_ns {
            group.slow += 1;
            let (first, last) = group.slow_times.unwrap_or((call, call));
            group.slow_times = Some((first.min(call), last.max(call)));
        }
    }
}

/// The groups that are shown, in their order.
fn first(
    groups: HashMap<Option<i64>, Group>,
    per: Per,
    request: &SlowRequest,
    lexica: &Lexica,
) -> Vec<(Option<i64>, Group)> {
    // A group may have had room for itself, and none for its operations.
    let groups = groups.into_iter().filter(|(_, group)| group.operations > 0);
    let by = request.by.unwrap_or(match per {
        Per::Minute => SlowBy::Time,
        _ => SlowBy::Latency,
    });
    let rank = |group: &Group| match by {
        SlowBy::Time => 0,
        SlowBy::Latency => group.latency.quantile_ns(0.99).unwrap_or(0),
        SlowBy::Server => group.server.quantile_ns(0.99).unwrap_or(0),
        SlowBy::Transfer => group.transfer_ns,
        SlowBy::Recovery => group.recovery_ns.unwrap_or(0),
        SlowBy::Size => group.transferred_bytes,
        SlowBy::Slow => group.slow,
        SlowBy::Operations => group.operations,
    };
    let text = |key: Option<i64>| match (per, key) {
        (Per::Client, Some(word)) => lexica.clients.text(word as Word),
        (Per::Server, Some(word)) => lexica.servers.text(word as Word),
        (Per::Operation | Per::Status, Some(word)) => lexica.words.text(word as Word),
        _ => "",
    };
    let mut ranked: Vec<_> = groups.map(|each| (Reverse(rank(&each.1)), each)).collect();
    ranked.sort_unstable_by(|(one, (key, _)), (other, (other_key, _))| {
        (one, text(*key), key).cmp(&(other, text(*other_key), other_key))
    });
    // Minutes over time are a table that ends with the trace.
    let top = request.top.unwrap_or(match by {
        SlowBy::Time => usize::MAX,
        _ => TOP,
    });
    ranked.into_iter().take(top).map(|(_, each)| each).collect()
}

fn named(
    trace: &mut Trace,
    groups: Vec<(Option<i64>, Group)>,
    per: Per,
    lexica: &Lexica,
) -> Vec<SlowGroup> {
    let names = Names::of(trace, groups.iter().filter_map(|(key, _)| *key), per);
    let is_file = matches!(per, Per::File | Per::Directory);
    let of = |wanted: bool, key: Option<i64>| key.filter(|_| wanted);
    let shown = { groups.iter() }.map(|(key, group)| SlowGroup {
        per,
        name: key.map(|key| names.name(key, lexica)).unwrap_or_default(),
        file_id: of(is_file, *key),
        user_id: of(per == Per::User, *key),
        connection_id: of(per == Per::Connection, *key),
        minute_ns: of(per == Per::Minute, *key),
        operations: group.operations,
        slow: group.slow,
        slow_share: share(group.slow, group.operations),
        latency_p50_ns: group.latency.quantile_ns(0.5),
        latency_p99_ns: group.latency.quantile_ns(0.99),
        latency_mean_ns: group.latency.mean_ns(),
        latency_max_ns: group.latency.max_ns(),
        latency_bound_min_ns: group.bound_min_ns,
        slowest_operation_id: group.slowest,
        server_time_p50_ns: group.server.quantile_ns(0.5),
        server_time_p99_ns: group.server.quantile_ns(0.99),
        transfer_ns: group.transfer_ns,
        recovery_ns: group.recovery_ns,
        transferred_bytes: group.transferred_bytes,
        slow_first_ns: group.slow_times.map(|(first, _)| first),
        slow_last_ns: group.slow_times.map(|(_, last)| last),
    });
    shown.collect()
}

/// What groups are called.
pub(super) struct Names {
    per: Per,
    paths: Paths,
    ends: HashMap<i64, String>,
}

impl Names {
    pub(super) fn of(trace: &mut Trace, keys: impl Iterator<Item = i64>, per: Per) -> Self {
        let mut names = Self {
            per,
            paths: Paths::default(),
            ends: HashMap::new(),
        };
        match per {
            Per::File | Per::Directory => names.paths = Paths::of(trace, keys),
            Per::Connection => names.ends = ends(trace, keys.collect()),
            _ => (),
        }
        names
    }

    pub(super) fn name(&self, key: i64, lexica: &Lexica) -> String {
        match self.per {
            Per::Client => lexica.clients.text(key as Word).to_owned(),
            Per::Server => lexica.servers.text(key as Word).to_owned(),
            Per::Operation | Per::Status => lexica.words.text(key as Word).to_owned(),
            Per::File | Per::Directory => self.paths.path(key).unwrap_or_default(),
            Per::User => key.to_string(),
            Per::Connection => self.ends.get(&key).cloned().unwrap_or_default(),
            Per::Minute => date(key),
        }
    }
}

/// Both ends of connections.
fn ends(trace: &mut Trace, wanted: hashbrown::HashSet<i64>) -> HashMap<i64, String> {
    let mut ends = HashMap::new();
    each_connection(trace, |id, of| {
        if wanted.contains(&id) {
            ends.entry(id).or_insert_with(|| of().join(" to "));
        }
    });
    ends
}

/// Which files are directories, and in which directory each file is.
#[derive(Default)]
pub(super) struct Directories(HashMap<i64, Place>);

#[derive(Default)]
struct Place {
    /// The newest operation that reported it.
    operation_id: i64,
    parent: Option<i64>,
    is_directory: bool,
}

impl Directories {
    pub(super) fn of(trace: &mut Trace) -> Self {
        let mut places: HashMap<i64, Place> = HashMap::new();
        let columns = ["file_id", "operation_id", "parent_file_id", "file_type"];
        trace.batches(Table::Files, &columns, |batch| {
            let [file_id, operation_id, parent, file_type] = batch else {
                return Ok(());
            };
            let rows = file_id.len();
            let file_id = Integers::of("file_id", file_id)?;
            let operation_id = Integers::of("operation_id", operation_id)?;
            let parent = Integers::of("parent_file_id", parent)?;
            let file_type = Texts::of("file_type", file_type)?;
            for row in 0..rows {
                let (Some(file), Some(operation)) = (file_id.get(row), operation_id.get(row))
                else {
                    continue;
                };
                if places.len() >= FILES_MAX && !places.contains_key(&file) {
                    continue;
                }
                let place = places.entry(file).or_default();
                place.is_directory |= file_type.get(row) == Some("DIR");
                if let Some(parent) = parent.get(row)
                    && operation >= place.operation_id
                {
                    (place.operation_id, place.parent) = (operation, Some(parent));
                }
                // What has files in it is a directory.
                if let Some(parent) = parent.get(row) {
                    places.entry(parent).or_default().is_directory = true;
                }
            }
            Ok(())
        });
        Self(places)
    }

    fn of_file(&self, file_id: i64, operation: &str) -> Option<i64> {
        let place = self.0.get(&file_id);
        let is_directory = place.is_some_and(|place| place.is_directory)
            || matches!(operation, "LOOKUP" | "READDIR" | "READDIRPLUS");
        match is_directory {
            true => Some(file_id),
            false => place.and_then(|place| place.parent),
        }
    }
}
