//! A script is written: call by call, in the order in which they were made, and what is to be known
//! of all is gathered on the way.

use std::collections::VecDeque;
use std::io;

use hashbrown::{HashMap, HashSet};
use lineside_nfs::{mount, v3, v4};
use lineside_plan::{CallIndex, EdgeKind, Step};

use crate::call::{Call, FileId, LeftOut, Operation, Path, Procedure, Program};
use crate::script::{BLOCK_CALLS, Edge, Head, Script, Survey, Waits};
use crate::shelf::{Appender, Shelf};

/// Writes a [`Script`].
#[derive(Debug)]
pub struct Writer {
    out: Appender,
    places: Vec<u64>,
    len: CallIndex,
    seen: Seen,
    /// What the clients mounted, and what calls mount.
    pub roots: Vec<FileId>,
    /// What it has not.
    pub left_out: LeftOut,
    record: Vec<u8>,
    body: Vec<u8>,
}

impl Writer {
    /// Writes to a shelf that is empty.
    pub fn new(shelf: Box<dyn Shelf>) -> Self {
        Self {
            out: Appender::new(shelf),
            places: Vec::new(),
            len: 0,
            seen: Seen::default(),
            roots: Vec::new(),
            left_out: LeftOut::default(),
            record: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Writes the next call, with what it waits for.
    pub fn push(&mut self, call: &Call, step: Step, edges: &[Edge]) -> io::Result<()> {
        let mut edges: Vec<Edge> = edges.to_vec();
        self.seen.named(self.len, call, &mut edges);
        for operation in &call.operations {
            if operation.procedure == Some(Procedure::Mount(mount::Procedure::Mnt)) {
                self.roots.extend(operation.made);
            }
        }
        self.left_out.kerberos += u64::from(call.is_kerberos);
        self.left_out.udp += u64::from(call.is_udp);
        self.seen.take(call);
        let head = Head {
            index: self.len,
            call_ns: call.call_ns,
            connection: call.connection,
            client: call.client,
            program: call.program,
            is_left_out: call.left_out.is_some(),
            is_answered: call.is_answered,
            write_bytes: write_bytes(call),
            step,
            edges,
            body: (0, 0),
        };
        self.body.clear();
        call.encode(&mut self.body);
        self.record.clear();
        self.record.extend_from_slice(&[0; 8]);
        head.put(self.seen.first_ns.unwrap_or(0), &mut self.record);
        let head_len = (self.record.len() - 8) as u32;
        self.record[..4].copy_from_slice(&head_len.to_le_bytes());
        let body_len = u32::try_from(self.body.len()).map_err(io::Error::other)?;
        self.record[4..8].copy_from_slice(&body_len.to_le_bytes());
        self.record.extend_from_slice(&self.body);
        let at = self.out.append(&self.record)?;
        if self.len.is_multiple_of(BLOCK_CALLS) {
            self.places.push(at);
        }
        self.len = self.len.checked_add(1).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(())
    }

    /// The script of what was written.
    pub fn finish(mut self) -> io::Result<Script> {
        let (shelf, end) = self.out.finish()?;
        self.places.push(end);
        self.roots.sort_unstable();
        self.roots.dedup();
        Ok(Script {
            shelf,
            places: self.places,
            len: self.len,
            survey: self.seen.survey(&self.roots),
            shown: HashMap::new(),
            names: HashMap::new(),
            roots: self.roots,
            tops: Vec::new(),
            paths: HashMap::new(),
            left_out: self.left_out,
        })
    }
}

fn write_bytes(call: &Call) -> u32 {
    let writes = call.operations.iter().filter(|it| is_write(it));
    writes.fold(0, |sum: u32, it| sum.saturating_add(it.count.unwrap_or(0)))
}

/// Whether an operation is a WRITE.
pub(crate) fn is_write(operation: &Operation) -> bool {
    matches!(
        operation.procedure,
        Some(Procedure::Nfs3(v3::Procedure::Write) | Procedure::Nfs4(v4::Operation::Write))
    )
}

/// Calls that use a state which are remembered: more are seldom under way.
const USERS_MAX: usize = 64;

/// A step of a way from a server's root, which is passed if what it leads to is used as a
/// directory.
type Passed = (u32, Path, Option<FileId>);

/// What was seen of calls.
#[derive(Debug, Default)]
struct Seen {
    first_ns: Option<i64>,
    last_ns: i64,
    calls: u64,
    user: Option<(u32, u32)>,
    nfs3: u64,
    nfs4: u64,
    minor: u32,
    named: HashSet<FileId>,
    needed: Vec<FileId>,
    /// Directories that names were looked up in, or that were listed.
    directories: HashSet<FileId>,
    ways: Vec<Passed>,
    known_ways: HashSet<Passed>,
    /// The trace made a directory.
    has_made: bool,
    /// The call whose reply first named a file, and the last one that gave a state.
    files: HashMap<FileId, CallIndex>,
    states: HashMap<Box<[u8]>, CallIndex>,
    /// The last calls that use a state.
    users: HashMap<Box<[u8]>, VecDeque<CallIndex>>,
}

impl Seen {
    fn take(&mut self, call: &Call) {
        self.first_ns = self.first_ns.or(Some(call.call_ns));
        self.last_ns = self.last_ns.max(call.call_ns);
        self.calls += u64::from(call.program.is_some());
        self.user = self.user.or(call.user);
        match call.program {
            Some(Program::Nfs3) => self.nfs3 += 1,
            Some(Program::Nfs4(minor)) => {
                self.nfs4 += 1;
                self.minor = self.minor.max(minor);
            }
            _ => {}
        }
        self.way(call);
        if call.left_out.is_some() {
            return;
        }
        for operation in &call.operations {
            for file in [operation.file, operation.file2].into_iter().flatten() {
                if self.named.insert(file) {
                    self.needed.push(file);
                }
            }
            self.named.extend(operation.made);
        }
    }

    /// Edges from those that named what a call uses.
    fn named(&mut self, index: CallIndex, call: &Call, edges: &mut Vec<Edge>) {
        let mut add = |from: Option<&CallIndex>| {
            // A compound may use what it made itself.
            let from = from.copied().filter(|from| *from != index);
            let is_known = |from: CallIndex| {
                let resource = Waits::Plan(EdgeKind::Resource);
                edges.contains(&(from, Waits::Named)) || edges.contains(&(from, resource))
            };
            if let Some(from) = from.filter(|from| !is_known(*from)) {
                edges.push((from, Waits::Named));
            }
        };
        for operation in &call.operations {
            let used = [operation.file, operation.file2].into_iter().flatten();
            used.for_each(|file| add(self.files.get(&file)));
            let facts = operation.facts.as_deref();
            let state = facts.and_then(|facts| facts.stateid.as_deref());
            add(state.and_then(|state| self.states.get(state)));
            if let Some(made) = operation.made {
                self.files.entry(made).or_insert(index);
            }
            let is_close = operation.procedure == Some(Procedure::Nfs4(v4::Operation::Close));
            if let (Some(state), true) = (state, is_close) {
                // What still uses it would not find it open.
                let users = self.users.remove(state).unwrap_or_default();
                users.iter().for_each(|user| add(Some(user)));
                self.states.remove(state);
                continue;
            }
            if let Some(state) = state {
                let users = self.users.entry(state.into()).or_default();
                users.push_back(index);
                if users.len() > USERS_MAX {
                    users.pop_front();
                }
            }
            if let Some(made) = facts.and_then(|facts| facts.reply_stateid.clone()) {
                // Each call that gives it again changes its number, as OPEN_CONFIRM does.
                self.states.insert(made, index);
            }
        }
    }

    /// What a compound passes on its way from the root.
    fn way(&mut self, call: &Call) {
        let named = |operation: &Operation| match operation.procedure {
            Some(Procedure::Nfs4(name)) => Some(name),
            _ => None,
        };
        let uses = |operation: &Operation| {
            let name = named(operation);
            let is_listed = name == Some(v4::Operation::ReadDir);
            is_listed || name.is_some() && operation.names[0].is_some()
        };
        let mut path: Option<Path> = None;
        for (at, operation) in call.operations.iter().enumerate() {
            if uses(operation) {
                self.directories.extend(operation.file);
            }
            match named(operation) {
                Some(v4::Operation::Create) => self.has_made = true,
                _ if self.has_made => {}
                Some(v4::Operation::PutRootFh) => path = Some(Vec::new()),
                Some(v4::Operation::PutFh) => path = None,
                Some(v4::Operation::Lookup) => {
                    let is_ok = operation.status.as_deref() == Some("NFS4_OK");
                    let is_passed = call.operations.get(at + 1).is_some_and(uses);
                    match (&mut path, &operation.names[0]) {
                        (Some(path), Some(name)) if is_ok => {
                            path.push(name.to_vec());
                            let made = operation.made.filter(|_| !is_passed);
                            if is_passed || made.is_some() {
                                let way = (call.server, path.clone(), made);
                                if self.known_ways.insert(way.clone()) {
                                    self.ways.push(way);
                                }
                            }
                        }
                        _ => path = None,
                    }
                }
                _ => {}
            }
        }
    }

    fn survey(mut self, roots: &[FileId]) -> Survey {
        self.needed.retain(|file| !roots.contains(file));
        let mut ways: Vec<(u32, Path)> = Vec::new();
        let mut reached = HashSet::new();
        for (server, path, made) in self.ways {
            let is_passed = made.is_none_or(|made| self.directories.contains(&made));
            let before = (server, path[..path.len() - 1].to_vec());
            let is_reached = before.1.is_empty() || reached.contains(&before);
            let way = (server, path);
            if is_passed && is_reached && reached.insert(way.clone()) {
                ways.push(way);
            }
        }
        Survey {
            calls: self.calls,
            span_ns: self.first_ns.map(|first_ns| (first_ns, self.last_ns)),
            user: self.user,
            minor_version: (self.nfs4 > self.nfs3).then_some(self.minor),
            needed: self.needed,
            ways,
        }
    }
}
