//! A part of a workload: the calls that are chosen, and what they need of those before.
//!
//! Backwards through the calls, of those that are not chosen stay: the one whose reply first named
//! a file that a later call uses, unless it looks up what was there before the trace; changes of a
//! name that a later call uses; what gave a state that is used; what wrote to a file that is read.
//! Of those after them stay the CLOSEs and OPEN_DOWNGRADEs of what is opened.
//! Nothing else is needed: a file that was there is looked up before the run.
//!
//! Times go on from the first call that is chosen. What is needed of before is made at once. Where
//! a call waited for one that does not stay, it waits for what that had waited for, and longer by
//! the time that it took.

use std::collections::VecDeque;
use std::io;

use hashbrown::{HashMap, HashSet};
use lineside_nfs::{v3, v4};
use lineside_plan::{Begin, CallIndex, EdgeKind, Step};

use crate::call::{Call, FileId, Operation, Procedure};
use crate::script::{Edge, Script, Waits};
use crate::shelf::Shelf;
use crate::writer::Writer;

/// A directory and a name in it.
type Name<'a> = (FileId, &'a [u8]);

/// What an operation does to what others use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// It changes names.
    Name,
    /// It changes a file's data.
    Write,
    /// It brings a file's data.
    Read,
    /// None of these.
    Look,
}

impl Effect {
    fn of(operation: &Operation) -> Self {
        use v3::Procedure as P3;
        use v4::Operation as P4;
        let facts = operation.facts.as_deref();
        let sets_size = facts.is_some_and(|facts| facts.set_size.is_some());
        let makes = facts.is_some_and(|facts| facts.create_mode.is_some());
        match operation.procedure {
            Some(Procedure::Nfs3(of)) => match of {
                P3::Create | P3::MkDir | P3::SymLink | P3::MkNod => Self::Name,
                P3::Remove | P3::RmDir | P3::Rename | P3::Link => Self::Name,
                P3::Write => Self::Write,
                P3::SetAttr if sets_size => Self::Write,
                P3::Read => Self::Read,
                _ => Self::Look,
            },
            Some(Procedure::Nfs4(of)) => match of {
                P4::Create | P4::Remove | P4::Rename | P4::Link => Self::Name,
                P4::Open if makes => Self::Name,
                P4::Write | P4::Allocate | P4::Deallocate => Self::Write,
                P4::SetAttr if sets_size => Self::Write,
                P4::Read | P4::ReadPlus | P4::Seek => Self::Read,
                _ => Self::Look,
            },
            _ => Self::Look,
        }
    }
}

/// The names that an operation uses.
fn names(operation: &Operation) -> impl Iterator<Item = Name<'_>> {
    let is = |three, four| {
        let of = operation.procedure;
        of == Some(Procedure::Nfs3(three)) || of == Some(Procedure::Nfs4(four))
    };
    let [one, two] = operation.names.each_ref().map(Option::as_deref);
    let first = match is(v3::Procedure::Link, v4::Operation::Link) {
        true => operation.file2,
        false => operation.file,
    };
    let second = operation.file2.zip(two);
    first.zip(one).into_iter().chain(second)
}

fn is_root(operation: &Operation) -> bool {
    let root = Procedure::Nfs4(v4::Operation::PutRootFh);
    operation.procedure == Some(root)
}

fn files(operation: &Operation) -> impl Iterator<Item = FileId> {
    [operation.file, operation.file2].into_iter().flatten()
}

fn used_state(operation: &Operation) -> Option<&[u8]> {
    operation.facts.as_deref()?.stateid.as_deref()
}

fn given_states(operation: &Operation) -> impl Iterator<Item = &[u8]> {
    let facts = operation.facts.as_deref();
    let given = facts.map(|facts| [&facts.reply_stateid, &facts.delegation_stateid]);
    given.into_iter().flatten().filter_map(Option::as_deref)
}

fn owned((directory, name): Name<'_>) -> (FileId, Box<[u8]>) {
    (directory, name.into())
}

/// What later calls need of those before.
#[derive(Default)]
struct Wanted {
    files: HashSet<FileId>,
    data: HashSet<FileId>,
    names: HashSet<(FileId, Box<[u8]>)>,
    states: HashSet<Box<[u8]>>,
}

impl Wanted {
    fn add(&mut self, call: &Call) {
        for operation in &call.operations {
            self.files.extend(files(operation));
            self.names.extend(names(operation).map(owned));
            self.states.extend(used_state(operation).map(Into::into));
            if Effect::of(operation) == Effect::Read {
                self.data.extend(operation.file);
            }
        }
    }

    fn needs(
        &self,
        call: &Call,
        is_first: impl Fn(FileId) -> bool,
        was_there: impl Fn(FileId) -> bool,
    ) -> bool {
        // Directories on a way from a server's root are made before the run.
        let is_way = call.operations.iter().any(is_root);
        call.left_out.is_none()
            && call.operations.iter().any(|operation| {
                let effect = Effect::of(operation);
                let may_make = |it| effect == Effect::Name || is_way || !was_there(it);
                let is_named = operation.made.filter(|it| self.files.contains(it));
                let is_named = is_named.is_some_and(|it| is_first(it) && may_make(it));
                let is_changed = match effect {
                    Effect::Name => names(operation).any(|it| self.names.contains(&owned(it))),
                    Effect::Write => operation.file.is_some_and(|it| self.data.contains(&it)),
                    Effect::Read | Effect::Look => false,
                };
                let mut given = given_states(operation);
                is_named || is_changed || given.any(|state| self.states.contains(state))
            })
    }
}

/// Calls that stay: a bit each, and how many there are before each 64.
struct Stays {
    bits: Vec<u64>,
    before: Vec<u32>,
}

impl Stays {
    fn new(len: CallIndex) -> Self {
        Self {
            bits: vec![0; len as usize / 64 + 1],
            before: Vec::new(),
        }
    }

    fn set(&mut self, call: CallIndex) {
        self.bits[call as usize / 64] |= 1 << (call % 64);
    }

    fn has(&self, call: CallIndex) -> bool {
        self.bits[call as usize / 64] >> (call % 64) & 1 == 1
    }

    /// All that stay are known.
    fn count(&mut self) {
        let counts = self.bits.iter().scan(0, |sum, bits| {
            let before = *sum;
            *sum += bits.count_ones();
            Some(before)
        });
        self.before = counts.collect();
    }

    /// The place of a call that stays, among those.
    fn place(&self, call: CallIndex) -> Option<CallIndex> {
        let at = call as usize / 64;
        let below = self.bits[at] & ((1 << (call % 64)) - 1);
        self.has(call).then(|| self.before[at] + below.count_ones())
    }
}

/// When calls begin, of the last ones.
#[derive(Default)]
struct Begins {
    all: VecDeque<(Begin, i64)>,
    next: CallIndex,
}

/// A trigger that lies further back is none: the call then has its time of day.
const BEGINS_MAX: usize = 1 << 18;

impl Begins {
    /// When a call begins, by calls that stay.
    fn of(&self, begin: Begin, call: &Call, times: &Times, stays: &Stays) -> Begin {
        let is_early = call.call_ns < times.chosen_ns;
        let Begin::After { call: of, think_ns } = begin else {
            return times.at(call.call_ns);
        };
        let think_ns = if is_early { 0 } else { think_ns };
        if stays.has(of) {
            return Begin::After { call: of, think_ns };
        }
        let back = (self.next - of) as usize;
        let before = self.all.len().checked_sub(back);
        let Some(&(before, took_ns)) = before.and_then(|at| self.all.get(at)) else {
            return times.at(call.call_ns);
        };
        let took_ns = if is_early { 0 } else { took_ns.max(0) };
        let later = |ns: i64| ns.saturating_add(took_ns).saturating_add(think_ns);
        match before {
            Begin::At(ns) => Begin::At(later(ns)),
            Begin::After { call, think_ns } => Begin::After {
                call,
                think_ns: later(think_ns),
            },
        }
    }

    fn push(&mut self, begin: Begin, took_ns: i64) {
        self.next += 1;
        self.all.push_back((begin, took_ns));
        if self.all.len() > BEGINS_MAX {
            self.all.pop_front();
        }
    }
}

/// When the first call that is chosen was made.
struct Times {
    chosen_ns: i64,
}

impl Times {
    fn at(&self, call_ns: i64) -> Begin {
        Begin::At(call_ns.saturating_sub(self.chosen_ns).max(0))
    }
}

/// The last calls that made something which others use.
#[derive(Default)]
struct Makers {
    files: HashMap<FileId, CallIndex>,
    states: HashMap<Box<[u8]>, CallIndex>,
    names: HashMap<(FileId, Box<[u8]>), CallIndex>,
    writes: HashMap<FileId, Vec<CallIndex>>,
}

impl Makers {
    /// Edges to a call from those that make what it uses: the plan leaves out those that follow
    /// from others, which may be gone.
    fn resources(&mut self, to: CallIndex, call: &Call, edges: &mut Vec<Edge>) {
        let mut add = |from: Option<CallIndex>| {
            let edge = from.map(|from| (from, Waits::Plan(EdgeKind::Resource)));
            edges.extend(edge.filter(|(from, _)| *from < to));
        };
        for operation in &call.operations {
            files(operation).for_each(|it| add(self.files.get(&it).copied()));
            let state = used_state(operation);
            add(state.and_then(|it| self.states.get(it)).copied());
            names(operation).for_each(|it| add(self.names.get(&owned(it)).copied()));
            match (Effect::of(operation), operation.file) {
                (Effect::Name, _) => {
                    self.names
                        .extend(names(operation).map(|it| (owned(it), to)));
                }
                (Effect::Write, Some(file)) => self.writes.entry(file).or_default().push(to),
                (Effect::Read, Some(file)) => {
                    let writes = self.writes.remove(&file).unwrap_or_default();
                    writes.into_iter().for_each(|from| add(Some(from)));
                }
                _ => {}
            }
        }
        for operation in &call.operations {
            if let Some(made) = operation.made {
                self.files.entry(made).or_insert(to);
            }
            self.states
                .extend(given_states(operation).map(|it| (it.into(), to)));
        }
    }
}

impl Script {
    /// Keeps, on a shelf of its own, the calls that are chosen, and what these need. `was_there`:
    /// whether a file was there before.
    ///
    /// Counted are calls that are left out, and those that stay because others need them.
    pub fn choose(
        self,
        chosen: impl Fn(i64) -> bool,
        was_there: impl Fn(FileId) -> bool,
        shelf: Box<dyn Shelf>,
    ) -> io::Result<Self> {
        let (stays, chosen_ns) = self.staying(&chosen, was_there)?;
        let times = Times { chosen_ns };
        let mut writer = Writer::new(shelf);
        writer.roots = self.roots.clone();
        let left_out = self.left_out;
        (writer.left_out.callbacks, writer.left_out.repeats) =
            (left_out.callbacks, left_out.repeats);
        writer.left_out.calls_not_seen = left_out.calls_not_seen;
        let (mut begins, mut makers) = (Begins::default(), Makers::default());
        let mut heads = self.heads();
        while let Some(head) = heads.read()? {
            let call = self.call(head.body)?;
            let begin = begins.of(head.step.begin, &call, &times, &stays);
            begins.push(begin, call.took_ns);
            let is_call = u64::from(call.program.is_some());
            let Some(place) = stays.place(head.index) else {
                writer.left_out.not_chosen += is_call;
                continue;
            };
            writer.left_out.needed += is_call * u64::from(!chosen(call.id));
            let edges = head
                .edges
                .iter()
                .filter(|(_, waits)| *waits != Waits::Named);
            let edges = edges.filter_map(|&(from, waits)| Some((stays.place(from)?, waits)));
            let mut edges: Vec<Edge> = edges.collect();
            makers.resources(place, &call, &mut edges);
            edges.sort_unstable();
            edges.dedup_by_key(|(from, _)| *from);
            let begin = match begin {
                Begin::After { call, think_ns } => match stays.place(call) {
                    Some(call) => Begin::After { call, think_ns },
                    None => Begin::At(0),
                },
                at @ Begin::At(_) => at,
            };
            let thread = head.step.thread;
            writer.push(&call, Step { thread, begin }, &edges)?;
        }
        let mut script = writer.finish()?;
        (script.shown, script.names) = (self.shown, self.names);
        Ok(script)
    }

    /// What is opened by a call that stays is closed, too.
    fn keep_closes(&self, stays: &mut Stays) -> io::Result<()> {
        use v4::Operation as P4;
        let mut opened: HashSet<Box<[u8]>> = HashSet::new();
        let mut heads = self.heads();
        while let Some(head) = heads.read()? {
            let call = self.call(head.body)?;
            for operation in &call.operations {
                let is = |of: &[P4]| {
                    let mut of = of.iter();
                    of.any(|of| operation.procedure == Some(Procedure::Nfs4(*of)))
                };
                let ends = is(&[P4::Close, P4::OpenDowngrade]) && call.left_out.is_none();
                let state = used_state(operation).filter(|_| ends);
                if state.is_some_and(|state| opened.contains(state)) {
                    stays.set(head.index);
                }
                if stays.has(head.index) && is(&[P4::Open]) {
                    opened.extend(given_states(operation).map(Into::into));
                }
            }
        }
        Ok(())
    }

    /// Which calls stay, and when the first that is chosen was made.
    fn staying(
        &self,
        chosen: impl Fn(i64) -> bool,
        was_there: impl Fn(FileId) -> bool,
    ) -> io::Result<(Stays, i64)> {
        let mut first_of: HashMap<FileId, CallIndex> = HashMap::new();
        let mut heads = self.heads();
        while let Some(head) = heads.read()? {
            for operation in self.call(head.body)?.operations {
                if let Some(made) = operation.made {
                    first_of.entry(made).or_insert(head.index);
                }
            }
        }
        let mut stays = Stays::new(self.len());
        let mut connections = HashSet::new();
        let mut wanted = Wanted::default();
        let mut chosen_ns = 0;
        self.backwards(|head| {
            let call = self.call(head.body)?;
            let is_first = |file| first_of.get(&file) == Some(&head.index);
            let is_chosen = call.program.is_some() && chosen(call.id);
            if is_chosen {
                chosen_ns = call.call_ns;
            }
            let does_stay = match call.program {
                None => connections.contains(&call.connection),
                Some(_) => is_chosen || wanted.needs(&call, is_first, &was_there),
            };
            if does_stay {
                stays.set(head.index);
            }
            if does_stay && call.program.is_some() {
                connections.insert(call.connection);
                wanted.add(&call);
            }
            Ok(())
        })?;
        self.keep_closes(&mut stays)?;
        stays.count();
        Ok((stays, chosen_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Facts, Program};
    use crate::tests::{calls_of, heads_of, written};

    fn call(at: i64, of: v3::Procedure, file: FileId) -> Call {
        Call {
            id: at,
            call_ns: at * 1_000,
            connection: 1,
            program: Some(Program::Nfs3),
            is_answered: true,
            operations: vec![Operation {
                id: at,
                procedure: Some(Procedure::Nfs3(of)),
                file: Some(file),
                ..Operation::default()
            }],
            ..Call::default()
        }
    }

    fn named(mut call: Call, name: &[u8], made: Option<FileId>) -> Call {
        call.operations[0].names[0] = Some(name.into());
        call.operations[0].made = made;
        call
    }

    /// What stays of calls of one thread, each after the one before, and their ids.
    fn chosen(calls: Vec<Call>, wanted: &[i64]) -> (Script, Vec<i64>) {
        let begin = |at: CallIndex| match at {
            0 => Begin::At(0),
            _ => Begin::After {
                call: at - 1,
                think_ns: 10,
            },
        };
        let all = (0..).zip(calls).map(|(at, mut call)| {
            let (thread, begin) = (0, begin(at));
            call.took_ns = 100;
            (call, Step { thread, begin }, Vec::new())
        });
        let script = written(all, &[1]);
        let is_wanted = |id: i64| wanted.contains(&id);
        let script = script.choose(is_wanted, |file| file < 10, Box::new(Vec::new()));
        let script = script.expect("memory");
        let ids = calls_of(&script).iter().map(|call| call.id).collect();
        (script, ids)
    }

    #[test]
    fn what_a_call_needs_of_those_before_stays() {
        use v3::Procedure as P;
        let calls = || {
            vec![
                named(call(0, P::Lookup, 1), b"there", Some(2)),
                named(call(1, P::Create, 1), b"made", Some(11)),
                call(2, P::GetAttr, 11),
                call(3, P::Write, 11),
                call(4, P::GetAttr, 2),
                call(5, P::Read, 11),
                named(call(6, P::Remove, 1), b"made", None),
                named(call(7, P::Create, 1), b"made", Some(12)),
                named(call(8, P::Create, 1), b"found", Some(3)),
                call(9, P::GetAttr, 3),
            ]
        };
        let cases: [(&[i64], &[i64]); 7] = [
            // It was there: it is looked up before the run.
            (&[4], &[4]),
            (&[2], &[1, 2]),
            (&[3], &[1, 3]),
            (&[5], &[1, 3, 5]),
            (&[7], &[1, 6, 7]),
            // It may be elsewhere, where it is not there.
            (&[9], &[8, 9]),
            (&[], &[]),
        ];
        for (wanted, stays) in cases {
            let (script, ids) = chosen(calls(), wanted);
            assert_eq!(ids, stays, "{wanted:?}");
            let counts = [script.left_out.not_chosen, script.left_out.needed];
            let needed = stays.len() - wanted.len();
            assert_eq!(
                counts,
                [10 - stays.len() as u64, needed as u64],
                "{wanted:?}"
            );
            assert_eq!(script.len() as usize, stays.len());
            for head in heads_of(&script) {
                assert!(head.edges.iter().all(|(from, _)| *from < head.index));
            }
        }
        let (script, _) = chosen(calls(), &[5]);
        let edges = heads_of(&script).into_iter().flat_map(|head| {
            let index = head.index;
            head.edges.into_iter().map(move |(from, _)| (from, index))
        });
        assert_eq!(edges.collect::<Vec<_>>(), [(0, 1), (0, 2), (1, 2)]);
    }

    #[test]
    fn times_go_on_from_the_first_call_that_is_chosen() {
        use v3::Procedure as P;
        let calls = vec![
            named(call(0, P::Create, 1), b"made", Some(11)),
            call(1, P::GetAttr, 1),
            call(2, P::GetAttr, 11),
            call(3, P::FsInfo, 1),
            call(4, P::GetAttr, 11),
        ];
        let (script, ids) = chosen(calls, &[2, 4]);
        assert_eq!(ids, [0, 2, 4]);
        let begins = heads_of(&script).into_iter().map(|head| head.step.begin);
        let begins: Vec<_> = begins.collect();
        let after = |call, think_ns| Begin::After { call, think_ns };
        // The second waits for what the GETATTR of the root had waited for, and as long as it took.
        assert_eq!(begins, [Begin::At(0), after(0, 110), after(1, 120)]);
    }

    #[test]
    fn a_state_that_is_used_is_opened() {
        let state = |call: &mut Call, of: v4::Operation, used: Option<u8>, given: Option<u8>| {
            let operation = &mut call.operations[0];
            operation.procedure = Some(Procedure::Nfs4(of));
            let bytes = |it: Option<u8>| it.map(|it| vec![it; 12].into_boxed_slice());
            operation.facts = Some(Box::new(Facts {
                stateid: bytes(used),
                reply_stateid: bytes(given),
                ..Facts::default()
            }));
        };
        let mut calls: Vec<_> = { 0..5 }
            .map(|at| call(at, v3::Procedure::Null, 2))
            .collect();
        state(&mut calls[0], v4::Operation::Open, None, Some(7));
        state(&mut calls[1], v4::Operation::Open, None, Some(8));
        state(&mut calls[2], v4::Operation::OpenConfirm, Some(7), Some(7));
        state(&mut calls[3], v4::Operation::Write, Some(7), None);
        state(&mut calls[4], v4::Operation::Close, Some(7), Some(7));
        // What is opened is closed, and the other is not.
        assert_eq!(chosen(calls, &[3]).1, [0, 2, 3, 4]);
    }

    #[test]
    fn a_connection_is_opened_for_calls_that_stay() {
        let opening = |connection| Call {
            id: 100 + connection,
            connection,
            ..Call::default()
        };
        let mut calls = vec![opening(1), opening(2)];
        calls.push(call(1, v3::Procedure::Null, 1));
        let (script, ids) = chosen(calls, &[1]);
        assert_eq!(ids, [101, 1]);
        assert_eq!(script.left_out.needed, 0);
    }
}
