//! A part of a workload: the calls that are chosen, and what they need of those before.
//!
//! Backwards through the calls, of those that are not chosen stay: the one whose reply first named
//! a file that a later call uses, unless it looks up what was there before the trace; changes of a
//! name that a later call uses; what gave a state that is used; what wrote to a file that is read.
//! Nothing else is needed: a file that was there is looked up before the run.
//!
//! Times go on from the first call that is chosen. What is needed of before is made at once. Where
//! a call waited for one that does not stay, it waits for what that had waited for, and longer by
//! the time that it took.

use hashbrown::{HashMap, HashSet};
use lineside_nfs::{v3, v4};
use lineside_plan::{Begin, CallIndex, EdgeKind, Step};

use crate::script::{Call, FileId, Operation, Procedure, Script};

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

/// What later calls need of those before.
#[derive(Default)]
struct Wanted<'a> {
    files: HashSet<FileId>,
    data: HashSet<FileId>,
    names: HashSet<Name<'a>>,
    states: HashSet<&'a [u8]>,
}

impl<'a> Wanted<'a> {
    fn add(&mut self, call: &'a Call) {
        for operation in &call.operations {
            self.files.extend(files(operation));
            self.names.extend(names(operation));
            self.states.extend(used_state(operation));
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
                    Effect::Name => names(operation).any(|name| self.names.contains(&name)),
                    Effect::Write => operation.file.is_some_and(|it| self.data.contains(&it)),
                    Effect::Read | Effect::Look => false,
                };
                let mut given = given_states(operation);
                is_named || is_changed || given.any(|state| self.states.contains(state))
            })
    }
}

impl Script {
    /// Keeps the calls that are chosen, and what these need. `took_ns` is how long each took in
    /// the trace; `was_there`: whether a file was there before.
    ///
    /// Counted are calls that are left out, and those that stay because others need them.
    pub fn choose(&mut self, chosen: &[bool], took_ns: &[i64], was_there: impl Fn(FileId) -> bool) {
        let stays = self.staying(chosen, was_there);
        let begins = self.begins(chosen, &stays, took_ns);
        let mut places = vec![None; stays.len()];
        let staying = places.iter_mut().zip(&stays).filter(|(_, stays)| **stays);
        let staying = (0..).zip(staying.map(|(place, _)| place));
        staying.for_each(|(next, place)| *place = Some(next));
        let place = |call: CallIndex| -> Option<CallIndex> { places[call as usize] };
        let edges = self.edges.drain(..);
        let edges = edges.filter_map(|(from, to, kind)| Some((place(from)?, place(to)?, kind)));
        self.edges = edges.collect();
        let steps = self.steps.iter().zip(begins).zip(&stays);
        let steps = steps.filter(|(_, stays)| **stays);
        let steps = steps.map(|((step, begin), _)| Step {
            thread: step.thread,
            begin: match begin {
                Begin::After { call, think_ns } => match place(call) {
                    Some(call) => Begin::After { call, think_ns },
                    None => Begin::At(0),
                },
                at @ Begin::At(_) => at,
            },
        });
        self.steps = steps.collect();
        let of_call = |call: &Call| u64::from(call.program.is_some());
        let mut at = 0;
        let left_out = &mut self.left_out;
        self.calls.retain(|call| {
            let (stays, chosen) = (stays[at], chosen[at]);
            at += 1;
            left_out.not_chosen += of_call(call) * u64::from(!stays);
            left_out.needed += of_call(call) * u64::from(stays && !chosen);
            stays
        });
        self.edges.extend(self.resources());
        self.edges.sort_unstable_by_key(|&(from, to, _)| (from, to));
        self.edges.dedup_by_key(|&mut (from, to, _)| (from, to));
        let ids = self.calls.iter().flat_map(|call| &call.operations);
        let ids: HashSet<i64> = ids.map(|operation| operation.id).collect();
        self.sums.retain(|id, _| ids.contains(id));
    }

    /// Which calls stay.
    fn staying(&self, chosen: &[bool], was_there: impl Fn(FileId) -> bool) -> Vec<bool> {
        let mut first_of: HashMap<FileId, usize> = HashMap::new();
        for (at, call) in self.calls.iter().enumerate() {
            for made in call
                .operations
                .iter()
                .filter_map(|operation| operation.made)
            {
                first_of.entry(made).or_insert(at);
            }
        }
        let mut stays = vec![false; self.calls.len()];
        let mut connections = HashSet::new();
        let mut wanted = Wanted::default();
        for (at, call) in self.calls.iter().enumerate().rev() {
            let is_first = |file| first_of.get(&file) == Some(&at);
            stays[at] = match call.program {
                None => connections.contains(&call.connection),
                Some(_) => chosen[at] || wanted.needs(call, is_first, &was_there),
            };
            if stays[at] && call.program.is_some() {
                connections.insert(call.connection);
                wanted.add(call);
            }
        }
        stays
    }

    /// When each call begins, by calls that stay.
    fn begins(&self, chosen: &[bool], stays: &[bool], took_ns: &[i64]) -> Vec<Begin> {
        let first = (chosen.iter().zip(&self.calls))
            .find(|(chosen, call)| **chosen && call.program.is_some());
        let first_ns = first.map_or(0, |(_, call)| call.call_ns);
        let begin_ns = self.calls.first().map_or(first_ns, |call| call.call_ns);
        let before_ns = first_ns.saturating_sub(begin_ns);
        let mut begins: Vec<Begin> = Vec::with_capacity(self.steps.len());
        for (step, call) in self.steps.iter().zip(&self.calls) {
            let is_early = call.call_ns < first_ns;
            begins.push(match step.begin {
                Begin::At(at_ns) => Begin::At(at_ns.saturating_sub(before_ns).max(0)),
                Begin::After { call, think_ns } => {
                    let think_ns = if is_early { 0 } else { think_ns };
                    let at = call as usize;
                    let took_ns = if is_early { 0 } else { took_ns[at].max(0) };
                    match (stays[at], begins[at]) {
                        (true, _) => Begin::After { call, think_ns },
                        (false, Begin::At(ns)) => {
                            Begin::At(ns.saturating_add(took_ns).saturating_add(think_ns))
                        }
                        (
                            false,
                            Begin::After {
                                call,
                                think_ns: before,
                            },
                        ) => Begin::After {
                            call,
                            think_ns: before.saturating_add(took_ns).saturating_add(think_ns),
                        },
                    }
                }
            });
        }
        begins
    }

    /// An edge from each call that makes something to those that use it: the plan leaves out those
    /// that follow from others, which may be gone.
    fn resources(&self) -> Vec<(CallIndex, CallIndex, EdgeKind)> {
        let mut edges = Vec::new();
        let mut files_of = HashMap::new();
        let mut states_of = HashMap::new();
        let mut names_of = HashMap::new();
        let mut writes_of: HashMap<FileId, Vec<CallIndex>> = HashMap::new();
        for (to, call) in (0..).zip(&self.calls) {
            for operation in &call.operations {
                edges.extend(files(operation).filter_map(|it| Some((*files_of.get(&it)?, to))));
                let state = used_state(operation);
                edges.extend(state.and_then(|it| Some((*states_of.get(it)?, to))));
                edges.extend(names(operation).filter_map(|it| Some((*names_of.get(&it)?, to))));
                match (Effect::of(operation), operation.file) {
                    (Effect::Name, _) => names_of.extend(names(operation).map(|it| (it, to))),
                    (Effect::Write, Some(file)) => writes_of.entry(file).or_default().push(to),
                    (Effect::Read, Some(file)) => {
                        let writes = writes_of.remove(&file).unwrap_or_default();
                        edges.extend(writes.into_iter().map(|from| (from, to)));
                    }
                    _ => {}
                }
            }
            for operation in &call.operations {
                if let Some(made) = operation.made {
                    files_of.entry(made).or_insert(to);
                }
                states_of.extend(given_states(operation).map(|it| (it, to)));
            }
        }
        let others = edges.into_iter().filter(|(from, to)| from < to);
        others
            .map(|(from, to)| (from, to, EdgeKind::Resource))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Facts, Program};

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

    /// Calls of one thread, each after the one before.
    fn script(calls: Vec<Call>) -> Script {
        let begin = |at: CallIndex| match at {
            0 => Begin::At(0),
            _ => Begin::After {
                call: at - 1,
                think_ns: 10,
            },
        };
        let steps = (0..calls.len() as CallIndex).map(|at| Step {
            thread: 0,
            begin: begin(at),
        });
        Script {
            steps: steps.collect(),
            calls,
            roots: vec![1],
            ..Script::default()
        }
    }

    /// The ids that stay, and when they begin.
    fn chosen(calls: Vec<Call>, wanted: &[i64]) -> (Script, Vec<i64>) {
        let mut script = script(calls);
        let chosen: Vec<bool> = { script.calls.iter() }
            .map(|call| wanted.contains(&call.id))
            .collect();
        let took_ns = vec![100; chosen.len()];
        script.choose(&chosen, &took_ns, |file| file < 10);
        let ids = script.calls.iter().map(|call| call.id).collect();
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
            assert_eq!(script.steps.len(), stays.len());
            for &(from, to, _) in &script.edges {
                assert!(
                    from < to && (to as usize) < stays.len(),
                    "{:?}",
                    script.edges
                );
            }
        }
        let (script, _) = chosen(calls(), &[5]);
        let edges: Vec<_> = script
            .edges
            .iter()
            .map(|&(from, to, _)| (from, to))
            .collect();
        assert_eq!(edges, [(0, 1), (0, 2), (1, 2)]);
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
        let begins: Vec<_> = script.steps.iter().map(|step| step.begin).collect();
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
        assert_eq!(chosen(calls, &[3]).1, [0, 2, 3]);
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
