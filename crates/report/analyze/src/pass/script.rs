//! The workload of a trace as it can be replayed: the plan's calls with their arguments.

use std::path::Path;

use hashbrown::{HashMap, HashSet};
use lineside_nfs::ancillary::portmap;
use lineside_nfs::{mount, v3, v4};
use lineside_plan::{Config, Edge, Event, Kept, PlanSink, PlannedCall, Step};
use lineside_replay::{
    Call, Facts, Operation, Own, Procedure, Program, Script, Shown, Why, compared,
};
use lineside_rows::{Table, unescape};
use lineside_trace::read::Value;

use super::image::{ImageOfTrace, image};
use super::plan::{Plan, PlanError, PlanOutput, plan};
use super::sizes::{CallSize, sizes};
use crate::numbers::Zone;
use crate::read::batch::Batch;
use crate::read::filter::{Filter, span};
use crate::read::lexica::Lexica;
use crate::read::trace::Trace;

/// The plan, without the texts of its numbers.
#[derive(Default)]
struct Silent(Kept);

impl PlanSink for Silent {
    fn call(&mut self, call: &PlannedCall) {
        self.0.call(call);
    }

    fn edge(&mut self, edge: Edge) {
        self.0.edge(edge);
    }
}

impl PlanOutput for Silent {
    fn text(&mut self, _: u32, _: &str) {}
}

/// The script of what a filter chooses of a trace, and the plan that it follows. A trace with a
/// part that is damaged or lost has none: what is left is another workload.
pub fn script(path: &Path, config: Config, filter: &Filter) -> Result<(Plan, Script), PlanError> {
    let (mut of_plan, Silent(mut kept)) = plan(path, config, Silent::default())?;
    kept.sort();
    let sizes = sizes(path)?;
    let mut trace = Trace::open_all(path, &Zone::default())?;
    let mut rows = Rows::default();
    rows.read(&mut trace);
    let mut script = Script::default();
    script.left_out.callbacks = of_plan.left_out.callbacks;
    script.left_out.repeats = of_plan.left_out.repeats;
    script.left_out.calls_not_seen = of_plan.left_out.calls_not_seen;
    script.sums = std::mem::take(&mut rows.sums);
    script.shown = rows.shown(&mut trace);
    script.names = names(&mut trace);
    if let Some(warning) = trace.warnings.first() {
        return Err(PlanError::Unreadable(warning.clone()));
    }
    for column in trace.lacks {
        if !of_plan.lacks.contains(&column) {
            of_plan.lacks.push(column);
        }
    }
    let first_ns = kept.calls.first().map_or(0, |call| call.observed.call_ns);
    let mut threads = HashMap::new();
    for call in &kept.calls {
        let next = threads.len() as u32;
        let thread = *{ threads.entry((call.observed.client, call.thread)) }.or_insert(next);
        let size = sizes.get(&call.observed.id).copied();
        add(
            &mut script,
            call,
            thread,
            size.unwrap_or_default(),
            first_ns,
            &mut rows,
        );
    }
    let edges = kept.edges.iter().map(|edge| {
        let (from, to) = edge.places();
        (from, to, edge.kind)
    });
    script.edges = edges.collect();
    script.keep_version();
    let mut made = None;
    if let Some(chosen) = chosen_calls(path, filter)? {
        let image = &made.insert(image(path)?).image;
        let calls = kept.calls.iter().map(|call| call.observed);
        let took_ns = calls
            .clone()
            .map(|of| of.reply_ns.map_or(0, |ns| ns - of.call_ns));
        let chosen: Vec<_> = calls.map(|of| chosen.contains(&of.id)).collect();
        let took_ns: Vec<_> = took_ns.collect();
        script.choose(&chosen, &took_ns, |file| image.find(file).is_some());
        if !script.calls.iter().any(|call| call.program.is_some()) {
            return Err(PlanError::NotChosen {
                trace: path.display().to_string(),
            });
        }
    }
    place(path, made, &rows, &mut script)?;
    let of = |is: fn(&Call) -> bool| script.calls.iter().filter(|call| is(call)).count() as u64;
    let [kerberos, udp] = [of(|call| call.is_kerberos), of(|call| call.is_udp)];
    (script.left_out.kerberos, script.left_out.udp) = (kerberos, udp);
    Ok((of_plan, script))
}

fn add(
    script: &mut Script,
    planned: &PlannedCall,
    thread: u32,
    size: CallSize,
    first_ns: i64,
    rows: &mut Rows,
) {
    let of = &planned.observed;
    script.steps.push(Step {
        thread,
        begin: planned.begin(size.client_trip_ns, first_ns),
    });
    let mut call = Call {
        id: of.id,
        call_ns: of.call_ns,
        connection: of.connection,
        client: of.client,
        is_answered: of.reply_ns.is_some(),
        ..Call::default()
    };
    if of.event != Event::Open {
        let row = rows.calls.remove(&of.id).unwrap_or_default();
        (call.is_udp, call.is_kerberos) = (size.is_udp, row.is_kerberos);
        call.user = row.user;
        call.program = Some(row.program.unwrap_or(Program::Portmap));
        call.left_out = row.program.is_none().then_some(Why::Program);
        call.server = row.server;
        call.operations = row.operations;
        for operation in &call.operations {
            if operation.procedure == Some(Procedure::Mount(mount::Procedure::Mnt)) {
                script.roots.extend(operation.made);
            }
        }
    }
    script.calls.push(call);
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
    rows: &Rows,
    script: &mut Script,
) -> Result<(), PlanError> {
    let (needed, servers) = (script.needed(), &rows.servers);
    script.roots.sort_unstable();
    script.roots.dedup();
    script.tops = vec![Vec::new(); servers.len()];
    // What alone was mounted is the top.
    if needed.is_empty() && rows.mounted.len() + servers.len() <= 1 {
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

/// A call, as its rows show it.
#[derive(Default)]
struct CallRow {
    program: Option<Program>,
    user: Option<(u32, u32)>,
    is_kerberos: bool,
    server: u32,
    operations: Vec<Operation>,
}

/// Rows of all tables, by their calls.
#[derive(Default)]
struct Rows {
    calls: HashMap<i64, CallRow>,
    facts: HashMap<i64, Box<Facts>>,
    sums: HashMap<i64, Vec<(u64, u64)>>,
    writes: HashSet<i64>,
    /// Values of the server's own that VERIFYs compare.
    compared: HashSet<Shown>,
    /// Servers whose root NFSv4 clients used.
    servers: Vec<String>,
    /// What was mounted, by any version.
    mounted: HashSet<i64>,
}

const OPERATIONS: [&str; 20] = [
    "operation_id",
    "rpc_id",
    "program",
    "version",
    "operation",
    "status",
    "auth_flavor",
    "user_id",
    "group_id",
    "file_id",
    "file2_id",
    "result_file_id",
    "name",
    "name2",
    "offset",
    "count",
    "not_executed",
    "compound_index",
    "repeat",
    "server_address",
];

macro_rules! facts_of {
    ($table:expr, $trace:expr, $facts:expr; $($name:ident),*) => {
        let columns = ["operation_id", $(stringify!($name)),*];
        $trace.rows($table, &columns, |row| {
            let Some(id) = row[0].integer() else { return };
            let facts = $facts.entry(id).or_default();
            let mut values = row[1..].iter();
            $(if let Some(value) = values.next() {
                facts.$name = Field::of(value).or(facts.$name.take());
            })*
        });
    };
}

impl Rows {
    fn read(&mut self, trace: &mut Trace) {
        let facts = &mut self.facts;
        facts_of!(
            Table::Nfs, trace, facts;
            stable_how, create_mode, create_verifier, access_requested, cookie, cookie_verifier,
            directory_bytes, bytes_max, set_mode, set_uid, set_gid, set_size, set_atime_how,
            set_atime_ns, set_mtime_how, set_mtime_ns, guard_ctime_ns, node_type, device_major,
            device_minor, symlink_target, attribute_bitmap, attribute_values
        );
        if trace.has_compounds() {
            facts_of!(
                Table::Nfs4, trace, facts;
                minor_version, tag, owner, stateid, stateid_sequence, reply_stateid, share_access,
                share_deny, claim, delegation_stateid, lock_type, content, source_offset
            );
        }
        facts_of!(
            Table::Services, trace, facts;
            target_program, target_version, target_protocol, target_port
        );
        trace.rows(Table::Operations, &OPERATIONS, |row| self.operation(row));
        for call in self.calls.values_mut() {
            call.operations.sort_by_key(|operation| operation.id);
            if let Some(Program::Nfs4(minor)) = &mut call.program {
                let first = call.operations.first();
                let facts = first.and_then(|operation| operation.facts.as_deref());
                *minor = facts.and_then(|facts| facts.minor_version).unwrap_or(0);
            }
        }
        self.checksums(trace);
    }

    fn operation(&mut self, row: &[Value]) {
        let number = |at: usize| row[at].integer();
        let text = |at: usize| row[at].text();
        let flag = |at: usize| matches!(row[at], Value::Boolean(true));
        let Some((id, call)) = number(0).zip(number(1)) else {
            return;
        };
        if flag(18) {
            return;
        }
        let program = program(text(2), number(3));
        let call = self.calls.entry(call).or_default();
        call.program = call.program.or(program);
        let user = [number(7), number(8)].map(|it| it.and_then(|it| u32::try_from(it).ok()));
        call.user = call.user.or_else(|| user[0].zip(user[1]));
        call.is_kerberos |= text(6).is_some_and(|flavor| flavor.starts_with("gss"));
        let procedure = program
            .zip(text(4))
            .and_then(|(of, name)| procedure(of, name));
        if matches!(text(4), Some("PUTROOTFH" | "PUTPUBFH")) {
            let server = text(19).unwrap_or_default();
            let known = self.servers.iter().position(|known| known == server);
            call.server = known.unwrap_or(self.servers.len()) as u32;
            if known.is_none() {
                self.servers.push(server.to_owned());
            }
        }
        if text(2) == Some("mount") {
            self.mounted.extend(number(11));
        }
        let is_write = matches!(text(4), Some("WRITE"));
        if is_write {
            self.writes.insert(id);
        }
        let facts = self.facts.remove(&id);
        if matches!(text(4), Some("VERIFY" | "NVERIFY"))
            && let Some((file, facts)) = number(9).zip(facts.as_deref())
        {
            self.compared.extend(compared(file, facts));
        }
        call.operations.push(Operation {
            id,
            procedure,
            file: number(9),
            file2: number(10),
            made: number(11),
            names: [12, 13].map(|at| text(at).map(|text| unescape(text).into())),
            offset: number(14).map(i64::cast_unsigned),
            count: number(15).and_then(|count| u32::try_from(count).ok()),
            length: number(15).map(i64::cast_unsigned),
            status: text(5).map(Into::into),
            not_executed: flag(16),
            facts,
        });
    }

    /// Of each GETATTR, what its reply has of the values that VERIFYs compare.
    fn shown(&self, trace: &mut Trace) -> HashMap<i64, Vec<Shown>> {
        let mut shown: HashMap<i64, Vec<Shown>> = HashMap::new();
        if self.compared.is_empty() {
            return shown;
        }
        let files: HashSet<i64> = self.compared.iter().map(|(file, ..)| *file).collect();
        let all = self.calls.values().flat_map(|call| &call.operations);
        let asks = |it: &&Operation| it.procedure == Some(Procedure::Nfs4(v4::Operation::GetAttr));
        let asking = all.filter(asks).filter_map(|it| Some((it.id, it.file?)));
        let asking: HashMap<i64, i64> = asking.filter(|(_, file)| files.contains(file)).collect();
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
        shown
    }

    fn checksums(&mut self, trace: &mut Trace) {
        let columns = ["operation_id", "block", "checksum"];
        trace.rows(Table::Checksums, &columns, |row| {
            let [Some(id), Some(block), Some(sum)] = [0, 1, 2].map(|at: usize| row[at].integer())
            else {
                return;
            };
            if self.writes.contains(&id) {
                let sum = (block.cast_unsigned(), sum.cast_unsigned());
                self.sums.entry(id).or_default().push(sum);
            }
        });
        for sums in self.sums.values_mut() {
            sums.sort_unstable();
        }
    }
}

/// A value of a column as a field of [`Facts`] has it.
trait Field: Sized {
    fn of(value: &Value) -> Option<Self>;
}

impl Field for u32 {
    fn of(value: &Value) -> Option<Self> {
        value.integer().and_then(|value| Self::try_from(value).ok())
    }
}

impl Field for u64 {
    fn of(value: &Value) -> Option<Self> {
        value.integer().map(i64::cast_unsigned)
    }
}

impl Field for i64 {
    fn of(value: &Value) -> Option<Self> {
        value.integer()
    }
}

impl Field for Box<str> {
    fn of(value: &Value) -> Option<Self> {
        value.text().map(Into::into)
    }
}

impl Field for Box<[u8]> {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(unescape(text).into()),
            Value::Bytes(bytes) => Some(bytes.as_slice().into()),
            _ => None,
        }
    }
}

fn program(name: Option<&str>, version: Option<i64>) -> Option<Program> {
    match (name?, version?) {
        ("nfs", 3) => Some(Program::Nfs3),
        ("nfs", 4) => Some(Program::Nfs4(0)),
        ("mount", 3) => Some(Program::Mount),
        ("portmap", 2) => Some(Program::Portmap),
        _ => None,
    }
}

fn procedure(program: Program, name: &str) -> Option<Procedure> {
    match program {
        Program::Nfs3 => {
            let mut all = v3::Procedure::ALL.iter();
            all.find(|it| it.name() == name)
                .map(|&it| Procedure::Nfs3(it))
        }
        Program::Nfs4(_) => {
            let mut all = v4::Operation::ALL.iter();
            all.find(|it| it.name() == name)
                .map(|&it| Procedure::Nfs4(it))
        }
        Program::Mount => {
            let mut all = mount::Procedure::ALL.iter();
            all.find(|it| it.name() == name)
                .map(|&it| Procedure::Mount(it))
        }
        Program::Portmap => {
            let mut all = portmap::Procedure::ALL.iter();
            all.find(|it| it.name() == name)
                .map(|&it| Procedure::Portmap(it))
        }
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
