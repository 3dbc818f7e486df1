//! A script on its way: which call is made now, with which names, and what its reply makes known.

use hashbrown::{HashMap, HashSet};
use lineside_nfs::{mount, v3, v4};
use lineside_nfs_client::{Answer, Credential, CredentialError, Request};
use lineside_plan::CallIndex;

use crate::beside;
use crate::figures::Figures;
use crate::nfs3::{self, Making};
use crate::nfs4;
use crate::script::{Call, FileId, Procedure, Script, Why};
use crate::tables::{Lack, Tables};
use crate::walk::{Pace, Times, Walk};

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
    /// What is mounted.
    pub export: Vec<u8>,
    /// The handle of the directory that everything happens below.
    pub top: Vec<u8>,
    /// The handles of the roots of [`Script::tops`].
    pub tops: Vec<Vec<u8>>,
}

/// What AUTH_SYS calls this machine.
const MACHINE: &[u8] = b"lineside";

/// A replay without sockets and clock.
#[derive(Debug)]
pub struct Replay<'a> {
    script: &'a Script,
    settings: Settings,
    walk: Walk,
    tables: Tables,
    figures: Figures,
    credentials: HashMap<(u32, u32), Credential>,
    /// Openings, and calls that were left out.
    not_made: HashSet<CallIndex>,
}

impl<'a> Replay<'a> {
    /// A replay that makes no call before [`begin`](Self::begin).
    pub fn new(script: &'a Script, settings: Settings) -> Self {
        let mut tables = Tables::default();
        for &root in &script.roots {
            tables.set_handle(root, &settings.top);
        }
        for root in settings.tops.iter().chain([&settings.top]) {
            tables.set_root(root);
        }
        Self {
            walk: Walk::new(&Script::default(), settings.pace, settings.speed, 0),
            script,
            settings,
            tables,
            figures: Figures::default(),
            credentials: HashMap::new(),
            not_made: HashSet::new(),
        }
    }

    /// Calls are made as this walk of the script has them.
    pub fn begin(&mut self, walk: Walk) {
        self.walk = walk;
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
        self.walk.next(now)
    }

    /// Whether everything was made and has ended.
    pub fn is_over(&self) -> bool {
        self.walk.is_over()
    }

    /// What is made when.
    pub fn walk(&self) -> &Walk {
        &self.walk
    }

    /// The times of calls that were made on the server.
    pub fn made(&self) -> impl Iterator<Item = &Times> {
        let times = (0..).zip(self.walk.times());
        let made = times
            .filter(|(index, times)| times.made_ns != i64::MIN && !self.not_made.contains(index));
        made.map(|(_, times)| times)
    }

    /// The counts so far.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// A call of the script.
    pub fn call(&self, call: CallIndex) -> &'a Call {
        &self.script.calls[call as usize]
    }

    /// Gives `make` a call as it is made on this server, with who makes it.
    pub fn request<T>(
        &mut self,
        index: CallIndex,
        make: impl FnOnce(&Credential, Request<'_>) -> T,
    ) -> Result<T, Why> {
        let script = self.script;
        let call = &script.calls[index as usize];
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
            script,
            tables: &self.tables,
            seed: self.settings.seed,
            top: { self.settings.tops.get(call.server as usize) }.unwrap_or(&self.settings.top),
            repairs: &mut self.figures.repairs,
        };
        let operation = call.operations.first().ok_or(Why::Arguments)?;
        let make = |request: Request<'_>| make(&credential, request);
        let made = match operation.procedure {
            Some(Procedure::Nfs3(procedure)) => {
                nfs3::request(&mut making, call, operation, procedure, make)
            }
            Some(Procedure::Mount(procedure)) => {
                let export = &self.settings.export;
                Ok(beside::mount(operation, procedure, export, make))
            }
            Some(Procedure::Portmap(procedure)) => {
                beside::portmap(procedure, operation.facts.as_deref(), make)
            }
            Some(Procedure::Nfs4(_)) => nfs4::request(&mut making, call, make),
            None => Err(Lack::Kind),
        };
        let made = made.map_err(|lack| match lack {
            Lack::Arguments => Why::Arguments,
            Lack::Handle => Why::Handle,
            Lack::Value => Why::Value,
            Lack::Kind => Why::Program,
        })?;
        self.figures.made += 1;
        for operation in &call.operations {
            let is_write = match operation.procedure {
                Some(Procedure::Nfs3(procedure)) => procedure == v3::Procedure::Write,
                Some(Procedure::Nfs4(operation)) => operation == v4::Operation::Write,
                _ => false,
            };
            let bytes = operation.count.filter(|_| is_write);
            self.figures.written_bytes += u64::from(bytes.unwrap_or(0));
        }
        if !call.is_answered {
            self.figures.unanswered_before += 1;
        }
        Ok(made)
    }

    /// A call was sent. One that the source's server did not answer is waited for by none.
    pub fn on_sent(&mut self, now: i64, index: CallIndex) {
        self.walk.on_sent(now, index);
        if !self.call(index).is_answered {
            self.walk.on_end(now, index);
        }
    }

    /// A connection was opened, or a call is left out.
    pub fn on_done(&mut self, now: i64, index: CallIndex, left_out: Option<Why>) {
        if let Some(why) = left_out {
            self.figures.leave_out(why);
        }
        self.not_made.insert(index);
        self.walk.on_end(now, index);
    }

    /// A call was answered.
    pub fn on_answer(&mut self, now: i64, index: CallIndex, answer: Answer<'_>) {
        let script = self.script;
        let call = &script.calls[index as usize];
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
    }

    /// No reply to a call will come.
    pub fn on_lost(&mut self, now: i64, index: CallIndex) {
        self.figures.lost += 1;
        self.walk.on_end(now, index);
    }
}

fn credential((uid, gid): (u32, u32)) -> Result<Credential, CredentialError> {
    Credential::sys(MACHINE, uid, gid, &[gid])
}
