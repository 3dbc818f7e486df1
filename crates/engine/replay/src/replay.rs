//! A script on its way: which call is made now, with which names, and what its reply makes known.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use hashbrown::HashMap;
use lineside_nfs::{mount, v3};
use lineside_nfs_client::{Answer, Credential, CredentialError, Request};
use lineside_plan::CallIndex;

use crate::beside;
use crate::call::{Call, FileId, Procedure, Why};
use crate::figures::Figures;
use crate::nfs3::{self, Making};
use crate::nfs4;
use crate::script::Script;
use crate::tables::{Lack, Tables};
use crate::walk::{Pace, WINDOW_CALLS, Walk};
use crate::writer::is_write;

/// How a script is replayed.
#[derive(Debug, Clone)]
pub struct Settings {
    /// At what pace.
    pub pace: Pace,
    /// Times of the trace are divided by this: a number above 0.
    pub speed: f64,
    /// User and group of all calls; `None`: those of the source.
    pub user: Option<(u32, u32)>,
    /// WRITEs write other data with another seed; with 0 those that an image has.
    pub seed: u64,
    /// A call that the server puts off is made again for so long.
    pub patience_ns: i64,
    /// What is mounted.
    pub export: Vec<u8>,
    /// The handle of the directory that everything happens below.
    pub top: Vec<u8>,
    /// The handles of the roots of [`Script::tops`].
    pub tops: Vec<Vec<u8>>,
}

/// WRITEs of fewer bytes are drawn when they are made: that takes some microseconds.
const DRAWN_BYTES_MIN: u32 = 32 << 10;
/// Bytes that are drawn ahead at most, of all copies.
const DRAWN_BYTES_MAX: usize = 16 << 20;

/// How the source's server put a call off.
const PUT_OFF: [&str; 3] = ["NFS3ERR_JUKEBOX", "NFS4ERR_DELAY", "NFS4ERR_GRACE"];
/// How long Linux waits then: of NFSv3 (`NFS_JUKEBOX_RETRY_TIME`), and of NFSv4 at first and at
/// most (`NFS4_POLL_RETRY_MIN`, `NFS4_POLL_RETRY_MAX`).
const JUKEBOX_NS: i64 = 5_000_000_000;
const DELAY_NS: i64 = 100_000_000;
const DELAY_MAX_NS: i64 = 15_000_000_000;

/// What AUTH_SYS calls this machine.
const MACHINE: &[u8] = b"lineside";

/// A replay without sockets and clock.
#[derive(Debug)]
pub struct Replay<'a> {
    script: &'a Script,
    settings: Settings,
    walk: Walk<'a>,
    tables: Tables,
    figures: Figures,
    credentials: HashMap<(u32, u32), Credential>,
    /// Calls that were given, and have not ended.
    under_way: HashMap<CallIndex, Arc<Call>>,
    /// Calls that the server has put off: when that began, and how long they wait now.
    put_off: HashMap<CallIndex, (i64, i64)>,
    /// What WRITEs write, of those that were not made: their operations, and bytes.
    drawn: BTreeMap<CallIndex, (i64, Vec<u8>)>,
    drawn_bytes: usize,
    drawn_room: usize,
    failure: Option<io::Error>,
}

impl<'a> Replay<'a> {
    /// A replay that makes no call before [`begin`](Self::begin), with so many calls in its
    /// window.
    pub fn new(script: &'a Script, settings: Settings, window: usize) -> Self {
        let mut tables = Tables::default();
        for &root in &script.roots {
            tables.set_handle(root, &settings.top);
        }
        for root in settings.tops.iter().chain([&settings.top]) {
            tables.set_root(root);
        }
        Self {
            walk: Walk::new(script, settings.pace, settings.speed, window),
            script,
            settings,
            tables,
            figures: Figures::default(),
            credentials: HashMap::new(),
            under_way: HashMap::new(),
            put_off: HashMap::new(),
            drawn: BTreeMap::new(),
            drawn_bytes: 0,
            // Copies share it as they share the window.
            drawn_room: DRAWN_BYTES_MAX / (WINDOW_CALLS / window.max(1)).max(1),
            failure: None,
        }
    }

    /// Calls are made from now on.
    pub fn begin(&mut self, now: i64) {
        self.walk.begin(now);
    }

    /// What the server calls a file that was there before.
    pub fn know(&mut self, file: FileId, handle: &[u8]) {
        self.tables.set_handle(file, handle);
        if self.script.roots.contains(&file) {
            self.tables.set_root(handle);
        }
    }

    /// When [`next`](Self::next) has a call, as far as is known.
    pub fn next_deadline(&self) -> Option<i64> {
        self.walk.next_deadline()
    }

    /// A call, or an opening, that is made now. To be asked until there is none.
    pub fn next(&mut self, now: i64) -> Option<CallIndex> {
        let (index, body) = self.walk.next(now)?;
        match self.script.call(body) {
            Ok(call) => {
                self.under_way.insert(index, Arc::new(call));
                Some(index)
            }
            Err(error) => {
                self.failure = Some(error);
                None
            }
        }
    }

    /// Draws what a later WRITE writes, while nothing else is to be done; `false`: there is none.
    pub fn draw_ahead(&mut self) -> bool {
        let room = self.drawn_room.saturating_sub(self.drawn_bytes);
        let Some((index, body)) = self.walk.next_write(DRAWN_BYTES_MIN, room) else {
            return false;
        };
        let Ok(call) = self.script.call(body) else {
            return true;
        };
        let write = call.operations.iter().find(|it| is_write(it));
        if let Some(write) = write.filter(|_| call.left_out.is_none())
            && let Ok(bytes) = nfs3::draw(self.settings.seed, write)
        {
            self.drawn_bytes += bytes.len();
            self.drawn.insert(index, (write.id, bytes));
        }
        true
    }

    /// Why no more calls can be read from the script.
    pub fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take().or_else(|| self.walk.take_failure())
    }

    /// Whether everything was made and has ended.
    pub fn is_over(&self) -> bool {
        self.walk.is_over()
    }

    /// What is made when.
    pub fn walk(&self) -> &Walk<'a> {
        &self.walk
    }

    /// The counts so far.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// A call that is under way.
    pub fn call(&self, call: CallIndex) -> Option<&Arc<Call>> {
        self.under_way.get(&call)
    }

    /// Gives `make` a call as it is made on this server, with who makes it.
    pub fn request<T>(
        &mut self,
        index: CallIndex,
        make: impl FnOnce(&Credential, Request<'_>) -> T,
    ) -> Result<T, Why> {
        let call = Arc::clone(self.under_way.get(&index).ok_or(Why::Arguments)?);
        let drawn = self.drawn.remove(&index);
        self.drawn_bytes -= drawn.as_ref().map_or(0, |(_, bytes)| bytes.len());
        if let Some(why) = call.left_out {
            return Err(why);
        }
        let user = self.settings.user.or(call.user).unwrap_or_default();
        let credential = match self.credentials.get(&user) {
            Some(credential) => credential.clone(),
            None => {
                let made = credential(user).map_err(|_| Why::Arguments)?;
                self.credentials.insert(user, made.clone());
                made
            }
        };
        let mut making = Making {
            tables: &self.tables,
            seed: self.settings.seed,
            drawn,
            top: { self.settings.tops.get(call.server as usize) }.unwrap_or(&self.settings.top),
            repairs: &mut self.figures.repairs,
        };
        let operation = call.operations.first().ok_or(Why::Arguments)?;
        let make = |request: Request<'_>| make(&credential, request);
        let made = match operation.procedure {
            Some(Procedure::Nfs3(procedure)) => {
                nfs3::request(&mut making, &call, operation, procedure, make)
            }
            Some(Procedure::Mount(procedure)) => {
                let export = &self.settings.export;
                Ok(beside::mount(operation, procedure, export, make))
            }
            Some(Procedure::Portmap(procedure)) => {
                beside::portmap(procedure, operation.facts.as_deref(), make)
            }
            Some(Procedure::Nfs4(_)) => nfs4::request(&mut making, &call, make),
            None => Err(Lack::Kind),
        };
        let made = made.map_err(|lack| match lack {
            Lack::Arguments => Why::Arguments,
            Lack::Handle => Why::Handle,
            Lack::Value => Why::Value,
            Lack::Kind => Why::Program,
        })?;
        if self.put_off.contains_key(&index) {
            return Ok(made);
        }
        self.figures.made += 1;
        for write in call.operations.iter().filter(|it| is_write(it)) {
            self.figures.written_bytes += u64::from(write.count.unwrap_or(0));
        }
        if !call.is_answered {
            self.figures.unanswered_before += 1;
        }
        Ok(made)
    }

    /// A call was sent. One that the source's server did not answer is waited for by none.
    pub fn on_sent(&mut self, now: i64, index: CallIndex) {
        if !self.put_off.contains_key(&index) {
            self.walk.on_sent(now, index);
        }
        if self.call(index).is_some_and(|call| !call.is_answered) {
            self.walk.on_end(now, index);
        }
    }

    /// A connection was opened, or a call is left out.
    pub fn on_done(&mut self, now: i64, index: CallIndex, left_out: Option<Why>) {
        if let Some(why) = left_out {
            self.figures.leave_out(why);
        }
        self.under_way.remove(&index);
        self.walk.on_nothing(now, index);
    }

    /// A call was answered. One that the server puts off, as a kernel's client does, is to be made
    /// again: then this is the time to wait.
    pub fn on_answer(&mut self, now: i64, index: CallIndex, answer: Answer<'_>) -> Option<i64> {
        let script = self.script;
        let call = self.under_way.remove(&index)?;
        if let Some(wait_ns) = self.again(now, index, &call, answer) {
            self.under_way.insert(index, call);
            return Some(wait_ns);
        }
        self.put_off.remove(&index);
        let call = &*call;
        self.figures.answered += 1;
        if let (Some(operation), Answer::Results(results)) = (call.operations.first(), answer) {
            let top = &self.settings.top;
            let tables = &mut self.tables;
            let found = match operation.procedure {
                Some(Procedure::Nfs3(procedure)) => {
                    let status =
                        nfs3::on_results(script, tables, call, operation, procedure, results);
                    status.map(|status| (procedure.name(), status, v3::status_name(status)))
                }
                Some(Procedure::Mount(procedure)) => {
                    let status = beside::on_mount(tables, operation, procedure, top, results);
                    status.map(|status| (procedure.name(), status, mount::status_name(status)))
                }
                Some(Procedure::Nfs4(_)) => {
                    nfs4::on_results(script, tables, &mut self.figures, call, results);
                    None
                }
                Some(Procedure::Portmap(_)) | None => None,
            };
            if let Some((name, status, known)) = found {
                let number = status.to_string();
                let found = known.unwrap_or(&number);
                let source = operation.status.as_deref();
                self.figures.compare(name, source, Some(found));
            }
        }
        self.walk.on_end(now, index);
        None
    }

    /// How long a call waits that the server puts off, unless the source's did, too.
    fn again(
        &mut self,
        now: i64,
        index: CallIndex,
        call: &Call,
        answer: Answer<'_>,
    ) -> Option<i64> {
        let Answer::Results(results) = answer else {
            return None;
        };
        let (wait_ns, wait_max_ns) = match call.operations.first()?.procedure? {
            Procedure::Nfs3(procedure) => {
                nfs3::is_put_off(procedure, results).then_some((JUKEBOX_NS, JUKEBOX_NS))
            }
            Procedure::Nfs4(_) => {
                nfs4::is_put_off(call, results).then_some((DELAY_NS, DELAY_MAX_NS))
            }
            Procedure::Mount(_) | Procedure::Portmap(_) => None,
        }?;
        let statuses = call.operations.iter().filter_map(|it| it.status.as_deref());
        if !call.is_answered || statuses.into_iter().any(|it| PUT_OFF.contains(&it)) {
            return None;
        }
        let (since_ns, wait_ns) = match self.put_off.get(&index) {
            Some(&(since_ns, before_ns)) => (since_ns, (2 * before_ns).min(wait_max_ns)),
            None => (now, wait_ns),
        };
        if now + wait_ns - since_ns > self.settings.patience_ns {
            return None;
        }
        self.figures.repairs.delays += 1;
        self.put_off.insert(index, (since_ns, wait_ns));
        Some(wait_ns)
    }

    /// No reply to a call will come.
    pub fn on_lost(&mut self, now: i64, index: CallIndex) {
        // One that the source's server had not answered was waited for by none.
        let call = self.under_way.remove(&index);
        self.put_off.remove(&index);
        self.figures.lost += u64::from(call.is_some_and(|call| call.is_answered));
        self.walk.on_end(now, index);
    }
}

fn credential((uid, gid): (u32, u32)) -> Result<Credential, CredentialError> {
    Credential::sys(MACHINE, uid, gid, &[gid])
}
