//! The owners of opens and locks of NFSv4.0, whose calls are numbered (RFC 7530 section 9.1.7): an
//! owner has one such call under way, and the next number follows from how the last was answered.

use std::collections::{HashMap, VecDeque};

use lineside_nfs::v4::{Reply, Status};

use crate::config::CallError;

/// Owners and states that are kept: above what servers take.
const OWNERS_MAX: usize = 1 << 16;
const STATES_MAX: usize = 1 << 20;

/// What of a state id names the state.
pub(crate) type State = [u8; 12];

/// Whose number stands in a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Whose {
    OpenOwner(Vec<u8>),
    LockOwner(Vec<u8>),
    /// Of the owner of this state.
    State(State),
}

/// A number of an owner in a call.
#[derive(Debug, Clone)]
pub(crate) struct Numbered {
    pub(crate) whose: Whose,
    /// The operation of the compound.
    pub(crate) operation: u32,
    /// Where the number stands in the message.
    pub(crate) at: usize,
}

/// A number that was given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Given {
    owner: usize,
    operation: u32,
}

#[derive(Debug, Default)]
struct Owner {
    next: u32,
    is_busy: bool,
    /// xids of calls that wait for it.
    waiting: VecDeque<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct Owners {
    all: Vec<Owner>,
    by_name: HashMap<Whose, usize>,
    by_state: HashMap<State, usize>,
}

impl Owners {
    /// Whether there is room for what a call brings.
    pub(crate) fn admit(&self, numbered: &[Numbered]) -> Result<(), CallError> {
        let is_full = self.all.len() + numbered.len() > OWNERS_MAX
            || self.by_state.len() + numbered.len() > STATES_MAX;
        match is_full && !numbered.is_empty() {
            true => Err(CallError::Owners),
            false => Ok(()),
        }
    }

    /// The owner of a number; `None`: of a state that is not known, whose caller knows the number.
    fn find(&mut self, whose: &Whose) -> Option<usize> {
        if let Whose::State(state) = whose {
            return self.by_state.get(state).copied();
        }
        if let Some(&owner) = self.by_name.get(whose) {
            return Some(owner);
        }
        self.all.push(Owner::default());
        self.by_name.insert(whose.clone(), self.all.len() - 1);
        Some(self.all.len() - 1)
    }

    /// Numbers for a call, written into its message. Where it waits for an owner instead, those
    /// that waited for the others that it names are to be tried again.
    pub(crate) fn give(
        &mut self,
        xid: u32,
        numbered: &[Numbered],
        message: &mut [u8],
    ) -> Result<Vec<Given>, Vec<u32>> {
        let mut given: Vec<(Given, usize)> = Vec::with_capacity(numbered.len());
        for each in numbered {
            let Some(owner) = self.find(&each.whose) else {
                continue;
            };
            if self.all[owner].is_busy {
                self.all[owner].waiting.push_back(xid);
                let others = given.iter().map(|(each, _)| each.owner);
                let drained = others.flat_map(|other| std::mem::take(&mut self.all[other].waiting));
                return Err(drained.collect());
            }
            let operation = each.operation;
            given.push((Given { owner, operation }, each.at));
        }
        for (place, (each, at)) in given.iter().enumerate() {
            let before = given[..place]
                .iter()
                .filter(|(other, _)| other.owner == each.owner);
            let owner = &mut self.all[each.owner];
            let number = owner.next.wrapping_add(before.count() as u32);
            message[*at..][..4].copy_from_slice(&number.to_be_bytes());
            owner.is_busy = true;
        }
        Ok(given.into_iter().map(|(each, _)| each).collect())
    }

    /// How a numbered operation was answered.
    pub(crate) fn on_result(
        &mut self,
        given: &[Given],
        numbered: &[Numbered],
        operation: u32,
        reply: &Reply<'_>,
    ) {
        let Some(status) = reply.status() else { return };
        let mut mine = given.iter().filter(|each| each.operation == operation);
        for each in mine.clone().filter(|_| counts(status)) {
            let owner = &mut self.all[each.owner];
            owner.next = owner.next.wrapping_add(1);
        }
        // A LOCK of a new owner has the numbers of two: the lock's is the last.
        let state = reply.stateid().map(|stateid| stateid.other);
        match (reply, state, mine.next_back()) {
            (Reply::Open(_) | Reply::Lock(_), Some(state), Some(each)) if status == 0 => {
                self.by_state.insert(state, each.owner);
            }
            (Reply::Close(_), ..) if status == 0 => {
                let closed = numbered.iter().find(|each| each.operation == operation);
                if let Some(Whose::State(state)) = closed.map(|each| &each.whose) {
                    self.by_state.remove(state);
                }
            }
            _ => {}
        }
    }

    /// A call is over: the next that waits for each of its owners.
    pub(crate) fn give_back(&mut self, given: &[Given]) -> Vec<u32> {
        let mut next = Vec::new();
        for each in given {
            let owner = &mut self.all[each.owner];
            owner.is_busy = false;
            next.extend(owner.waiting.pop_front());
        }
        next
    }

    /// A call was sent, and how it was answered will not be known. It is taken for executed: a
    /// server that did not refuses the next number, rather than taking one for a repetition.
    pub(crate) fn lose(&mut self, given: &[Given]) {
        for each in given {
            let owner = &mut self.all[each.owner];
            owner.next = owner.next.wrapping_add(1);
        }
    }

    /// All calls that wait for an owner.
    pub(crate) fn waiting(&mut self) -> Vec<u32> {
        let all = self.all.iter_mut();
        all.flat_map(|owner| owner.waiting.drain(..)).collect()
    }
}

/// Whether an operation with this status has used its number (RFC 7530 section 9.1.7).
fn counts(status: u32) -> bool {
    !matches!(
        Status(status),
        Status::STALE_CLIENTID
            | Status::STALE_STATEID
            | Status::BAD_STATEID
            | Status::BAD_SEQID
            | Status::BADXDR
            | Status::RESOURCE
            | Status::NOFILEHANDLE
            | Status::MOVED
    )
}
