//! The workload of a trace as it can be replayed: the plan's calls with their arguments.
//!
//! ```text
//!  parts ─► rows with all of their arguments ─► shelf ──────────────┐
//!    └────► plan ─► calls, by number ─► edges, by later call ─► merge ─► Script
//! ```
//!
//! All of it lies on shelves, so that memory does not grow with the number of calls.

mod fields;
mod kept;
mod sorter;

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use hashbrown::{HashMap, HashSet};
use lineside_nfs::v4;
use lineside_plan::{Begin, Config, EdgeKind, Event, PlanSink, PlannedCall, Step};
use lineside_replay::{
    Call, CallIndex, Edge, Forward, Operation, Own, Procedure, Program, Script, Shelf, Shown,
    Waits, Why, Writer,
};
use lineside_rows::{Table, unescape};

use super::image::{ImageOfTrace, image};
use super::plan::{Plan, PlanError, PlanOutput, is_of_load, plan_beside};
use super::sizes::{Trips, trips};
use crate::numbers::Zone;
use crate::read::batch::Batch;
use crate::read::filter::{Filter, span};
use crate::read::lexica::Lexica;
use crate::read::trace::Trace;
use kept::Kept;
use sorter::{Sorted, Sorter};

/// A file as a shelf.
#[derive(Debug)]
struct FileShelf(File);

impl Shelf for FileShelf {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, at)
    }
}

/// Empty files, which may have no name: a script lies in them.
pub const SHELF_FILES: usize = 6;

/// A planned call: its number, event, client, thread, id, times, connection, trigger, thought.
const CALL: usize = 57;
/// An edge: the later call, the earlier one, and why.
const EDGE: usize = 9;

const KINDS: [EdgeKind; 3] = [EdgeKind::Resource, EdgeKind::Trigger, EdgeKind::Window];

/// Takes the plan.
struct Planned {
    calls: Sorter<CALL>,
    edges: Sorter<EDGE>,
    trips: HashMap<i64, Trips>,
}

/// What a record has, in its order.
struct Record {
    number: u32,
    event: u8,
    client: u32,
    thread: u32,
    id: i64,
    call_ns: i64,
    took_ns: i64,
    connection: i64,
    /// 0: none.
    trigger: u32,
    think_ns: i64,
}

const UNANSWERED: i64 = i64::MIN;

impl Record {
    fn bytes(&self) -> [u8; CALL] {
        let mut all = [0; CALL];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            all[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&self.number.to_be_bytes());
        put(&[self.event]);
        for number in [self.client, self.thread, self.trigger] {
            put(&number.to_le_bytes());
        }
        for number in [
            self.id,
            self.call_ns,
            self.took_ns,
            self.connection,
            self.think_ns,
        ] {
            put(&number.to_le_bytes());
        }
        all
    }

    fn of(bytes: &[u8; CALL]) -> Self {
        let mut rest = &bytes[4..];
        let mut next = |len: usize| {
            let (bytes, behind) = rest.split_at(len);
            rest = behind;
            bytes
                .iter()
                .rev()
                .fold(0_u64, |all, &byte| all << 8 | u64::from(byte))
        };
        let event = next(1) as u8;
        let [client, thread, trigger] = [0; 3].map(|_| next(4) as u32);
        let [id, call_ns, took_ns, connection, think_ns] = [0; 5].map(|_| next(8).cast_signed());
        Self {
            number: u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            event,
            client,
            thread,
            id,
            call_ns,
            took_ns,
            connection,
            trigger,
            think_ns,
        }
    }
}

impl PlanSink for Planned {
    fn call(&mut self, call: &PlannedCall) {
        let of = &call.observed;
        let trip = self
            .trips
            .get(&of.connection)
            .and_then(|trip| trip.client_ns);
        let (trigger, think_ns) = match call.begin(trip.unwrap_or(0).max(0), 0) {
            Begin::After { call, think_ns } => (call + 1, think_ns),
            Begin::At(_) => (0, 0),
        };
        let record = Record {
            number: call.number as u32,
            event: of.event as u8,
            client: of.client,
            thread: call.thread,
            id: of.id,
            call_ns: of.call_ns,
            took_ns: of.reply_ns.map_or(UNANSWERED, |ns| ns - of.call_ns),
            connection: of.connection,
            trigger,
            think_ns,
        };
        self.calls.push(record.bytes());
    }

    fn edge(&mut self, edge: lineside_plan::Edge) {
        let (from, to) = edge.places();
        let mut record = [0; EDGE];
        record[..4].copy_from_slice(&to.to_be_bytes());
        record[4..8].copy_from_slice(&from.to_be_bytes());
        record[8] = edge.kind as u8;
        self.edges.push(record);
    }
}

impl PlanOutput for Planned {
    fn text(&mut self, _: u32, _: &str) {}
}

/// What was gathered of all rows.
struct Gathered {
    servers: Vec<String>,
    mounted: HashSet<i64>,
    compared: HashSet<Shown>,
}

/// The script of what a filter chooses of a trace, and the plan that it follows. It lies in
/// `files`, which are empty. A trace with a part that is damaged or lost has none: what is left is
/// another workload.
pub fn script(
    path: &Path,
    config: Config,
    filter: &Filter,
    files: [File; SHELF_FILES],
) -> Result<(Plan, Script), PlanError> {
    let no_shelf = |error: io::Error| PlanError::Shelf {
        trace: path.display().to_string(),
        why: error.to_string(),
    };
    let [rows, order, calls, edges, all, some] =
        files.map(|file| Box::new(FileShelf(file)) as Box<dyn Shelf>);
    let mut trace = Trace::open_all(path, &Zone::default())?;
    if is_of_load(&mut trace) {
        let trace = path.display().to_string();
        return Err(PlanError::OfLoad { trace });
    }
    let mut kept = Kept::new(&mut trace, rows, order);
    let planned = Planned {
        calls: Sorter::new(calls),
        edges: Sorter::new(edges),
        trips: trips(&mut trace),
    };
    let (mut of_plan, planned) = plan_beside(path, config, planned, &mut kept)?;
    if let Some(warning) = of_plan.unreadable.first() {
        return Err(PlanError::Unreadable(warning.clone()));
    }
    let version = kept.version();
    let gathered = Gathered {
        servers: std::mem::take(&mut kept.servers),
        mounted: std::mem::take(&mut kept.mounted),
        compared: std::mem::take(&mut kept.compared),
    };
    let sorted = planned.calls.finish().map_err(no_shelf)?;
    let edges = planned.edges.finish().map_err(no_shelf)?;
    let [rows, order] = kept.finish().map_err(no_shelf)?;
    let mut script = write(&sorted, &edges, (&*rows.0, order), version, all).map_err(no_shelf)?;
    drop((sorted, edges, rows));
    script.left_out.callbacks = of_plan.left_out.callbacks;
    script.left_out.repeats = of_plan.left_out.repeats;
    script.left_out.calls_not_seen = of_plan.left_out.calls_not_seen;
    script.shown = gathered.shown(&mut trace, &script).map_err(no_shelf)?;
    script.names = names(&mut trace);
    if let Some(warning) = trace.warnings.first() {
        return Err(PlanError::Unreadable(warning.clone()));
    }
    for column in trace.lacks {
        if !of_plan.lacks.contains(&column) {
            of_plan.lacks.push(column);
        }
    }
    let mut made = None;
    if let Some(chosen) = chosen_calls(path, filter)? {
        let image = &made.insert(image(path)?).image;
        let chosen = script.choose(
            |id| chosen.contains(&id),
            |file| image.find(file).is_some(),
            some,
        );
        script = chosen.map_err(no_shelf)?;
        if script.survey.calls == 0 {
            return Err(PlanError::NotChosen {
                trace: path.display().to_string(),
            });
        }
    }
    place(path, made, &gathered, &mut script)?;
    Ok((of_plan, script))
}

/// Writes calls with their rows and edges. `version` is replayed.
fn write(
    calls: &Sorted<CALL>,
    edges: &Sorted<EDGE>,
    (rows, (order, order_end)): (&dyn Shelf, (Box<dyn Shelf>, u64)),
    version: Option<u32>,
    to: Box<dyn Shelf>,
) -> io::Result<Script> {
    let mut writer = Writer::new(to);
    let (mut calls, mut edges) = (calls.read()?, edges.read()?);
    let mut order = Forward::new(&*order, 0..order_end);
    let mut threads = HashMap::new();
    let mut first_ns = None;
    let mut index: CallIndex = 0;
    while let Some(record) = calls.next_if(|_| true)? {
        let of = Record::of(&record);
        let next = threads.len() as u32;
        let thread = *{ threads.entry((of.client, of.thread)) }.or_insert(next);
        let first_ns = *first_ns.get_or_insert(of.call_ns);
        let step = Step {
            thread,
            begin: match of.trigger.checked_sub(1) {
                Some(call) => Begin::After {
                    call,
                    think_ns: of.think_ns,
                },
                None => Begin::At(of.call_ns.saturating_sub(first_ns)),
            },
        };
        let mut waits: Vec<Edge> = Vec::new();
        while let Some(edge) = edges.next_if(|edge| edge[..4] == index.to_be_bytes())? {
            let from = CallIndex::from_be_bytes([edge[4], edge[5], edge[6], edge[7]]);
            let kind = KINDS.iter().find(|kind| **kind as u8 == edge[8]);
            waits.extend(kind.map(|&kind| (from, Waits::Plan(kind))));
        }
        let mut call = call(&mut order, rows)?;
        if of.event == Event::Open as u8 {
            call = Call::default();
        } else {
            call.left_out = call.program.is_none().then_some(Why::Program);
            call.program = call.program.or(Some(Program::Portmap));
        }
        call.id = of.id;
        call.call_ns = of.call_ns;
        call.took_ns = of.took_ns.max(0);
        call.connection = of.connection;
        call.client = of.client;
        call.is_answered = of.took_ns != UNANSWERED;
        call.keep_version(version);
        if of.number != index + 1 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        writer.push(&call, step, &waits)?;
        index += 1;
    }
    writer.finish()
}

/// The next call of its rows.
fn call(order: &mut Forward<'_>, rows: &dyn Shelf) -> io::Result<Call> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    let count = *order.peek(4)?.first_chunk().ok_or_else(damaged)?;
    order.skip(4);
    let mut call = Call::default();
    for _ in 0..u32::from_le_bytes(count) {
        let place = *order.peek(8)?.first_chunk().ok_or_else(damaged)?;
        order.skip(8);
        let row = kept::row(rows, u64::from_le_bytes(place))?;
        call.program = call.program.or(row.program);
        call.user = call.user.or(row.user);
        call.is_kerberos |= row.is_kerberos;
        call.is_udp |= row.is_udp;
        call.server = call.server.max(row.server);
        call.operations.extend(row.operations);
    }
    call.operations.sort_by_key(|operation| operation.id);
    if let Some(Program::Nfs4(minor)) = &mut call.program {
        let first = call.operations.first();
        let facts = first.and_then(|operation| operation.facts.as_deref());
        *minor = facts.and_then(|facts| facts.minor_version).unwrap_or(0);
    }
    Ok(call)
}

/// The calls of which an operation is chosen; `None`: all are.
fn chosen_calls(path: &Path, filter: &Filter) -> Result<Option<HashSet<i64>>, PlanError> {
    let mut trace = Trace::open_all(path, &filter.zone)?;
    let (chosen, _) = span(&mut trace, filter)?;
    if chosen.are_all() {
        return Ok(None);
    }
    let mut lexica = Lexica::new();
    let mut calls = HashSet::new();
    trace.batches(Table::Operations, &Batch::columns(&chosen), |columns| {
        let batch = Batch::of(columns, &chosen, &mut lexica)?;
        let rows = batch.chosen(&chosen, &lexica).into_iter();
        calls.extend(rows.filter_map(|row| batch.rpc_of(row)));
        Ok(())
    });
    chosen.check(&lexica, &trace.warnings)?;
    Ok(Some(calls))
}

/// Where the trace's image has what was mounted, and what calls use that was there before.
fn place(
    path: &Path,
    made: Option<ImageOfTrace>,
    kept: &Gathered,
    script: &mut Script,
) -> Result<(), PlanError> {
    let (needed, servers) = (script.survey.needed.clone(), &kept.servers);
    script.tops = vec![Vec::new(); servers.len()];
    // What alone was mounted is the top.
    if needed.is_empty() && kept.mounted.len() + servers.len() <= 1 {
        return Ok(());
    }
    let made = made.map_or_else(|| image(path), Ok)?;
    let steps = |path: Vec<u8>| {
        let steps = path.split(|byte| *byte == b'/').filter(|it| !it.is_empty());
        steps.map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    for file in script.roots.iter().copied().chain(needed) {
        if let Some(path) = made.image.path_of(file) {
            script.paths.insert(file, steps(path));
        }
    }
    for (top, server) in script.tops.iter_mut().zip(servers) {
        *top = made.root_of(server).map(steps).unwrap_or_default();
    }
    Ok(())
}

impl Gathered {
    /// Of each GETATTR, what its reply has of the values that VERIFYs compare.
    fn shown(&self, trace: &mut Trace, script: &Script) -> io::Result<HashMap<i64, Vec<Shown>>> {
        let mut shown: HashMap<i64, Vec<Shown>> = HashMap::new();
        if self.compared.is_empty() {
            return Ok(shown);
        }
        let files: HashSet<i64> = self.compared.iter().map(|(file, ..)| *file).collect();
        let asks = |it: &Operation| it.procedure == Some(Procedure::Nfs4(v4::Operation::GetAttr));
        let mut asking: HashMap<i64, i64> = HashMap::new();
        let mut heads = script.heads();
        while let Some(head) = heads.read()? {
            for it in script.call(head.body)?.operations {
                asking.extend(
                    { it.file }
                        .filter(|file| asks(&it) && files.contains(file))
                        .map(|file| (it.id, file)),
                );
            }
        }
        let nfs: [(&str, Own); 5] = [
            ("fileid", Own::File),
            ("filesystem_id", Own::FileSystem),
            ("atime_ns", Own::Atime),
            ("mtime_ns", Own::Mtime),
            ("ctime_ns", Own::Ctime),
        ];
        for (table, own) in [
            (Table::Nfs, &nfs[..]),
            (Table::Nfs4, &[("change", Own::Change)]),
        ] {
            let names = own.iter().map(|(name, _)| *name);
            let columns: Vec<_> = ["operation_id"].into_iter().chain(names).collect();
            trace.rows(table, &columns, |row| {
                let id = row[0].integer();
                let Some((id, &file)) = id.and_then(|id| Some((id, asking.get(&id)?))) else {
                    return;
                };
                let values = row[1..].iter().zip(own);
                let values =
                    values.filter_map(|(value, (_, own))| Some((file, *own, value.integer()?)));
                let values: Vec<_> = values.filter(|it| self.compared.contains(it)).collect();
                if !values.is_empty() {
                    shown.entry(id).or_default().extend(values);
                }
            });
        }
        Ok(shown)
    }
}

/// Files by directory and name.
fn names(trace: &mut Trace) -> HashMap<(i64, Box<[u8]>), i64> {
    let mut names = HashMap::new();
    let columns = ["file_id", "parent_file_id", "name"];
    trace.rows(Table::Files, &columns, |row| {
        let ids = row[0].integer().zip(row[1].integer());
        if let Some(((file, directory), name)) = ids.zip(row[2].text()) {
            names.insert((directory, unescape(name).into()), file);
        }
    });
    names
}
