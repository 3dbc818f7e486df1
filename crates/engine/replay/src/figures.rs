//! What a replay counts.

use std::collections::BTreeMap;

use crate::call::Why;

/// Something of the source that the other server has not, with what was done instead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Repairs {
    /// A directory was read on from a cookie that no earlier reply had: from its beginning.
    pub cookies: u64,
    /// SETATTR was guarded by a change time that is not known here: without the guard.
    pub guards: u64,
    /// `..` would have led out of the directory: the directory itself.
    pub parents: u64,
    /// A symbolic link would have held a path that leads out: another one of its length.
    pub links: u64,
    /// A state id that no earlier reply had: the anonymous one.
    pub states: u64,
    /// An exclusive OPEN whose verifier the trace has not: another one.
    pub verifiers: u64,
    /// Attributes that a call asks for, which the trace does not name: those of a usual client.
    pub attributes: u64,
    /// The server put a call off: it was made again.
    pub delays: u64,
}

/// A status that is not the source's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Differing {
    /// The operation.
    pub operation: &'static str,
    /// The source's status.
    pub source: String,
    /// The other one.
    pub found: String,
}

/// Counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Calls that were made, openings apart.
    pub made: u64,
    /// Those of them that were answered.
    pub answered: u64,
    /// Those whose reply did not come in time, or with their connection.
    pub lost: u64,
    /// Those that the source's server had not answered.
    pub unanswered_before: u64,
    /// Calls that were left out.
    pub left_out: BTreeMap<Why, u64>,
    /// Operations whose status could be compared with the source's.
    pub compared: u64,
    /// Those of them whose status is the same.
    pub same: u64,
    /// The others, by operation and both statuses.
    pub differing: BTreeMap<Differing, u64>,
    /// Bytes of WRITEs.
    pub written_bytes: u64,
    /// What was repaired.
    pub repairs: Repairs,
}

impl Repairs {
    fn all(&mut self) -> [&mut u64; 8] {
        let Self {
            cookies,
            guards,
            parents,
            links,
            states,
            verifiers,
            attributes,
            delays,
        } = self;
        [
            cookies, guards, parents, links, states, verifiers, attributes, delays,
        ]
    }
}

impl Figures {
    /// Adds what another replay counts.
    pub fn add(&mut self, other: &Self) {
        self.made += other.made;
        self.answered += other.answered;
        self.lost += other.lost;
        self.unanswered_before += other.unanswered_before;
        self.compared += other.compared;
        self.same += other.same;
        self.written_bytes += other.written_bytes;
        for (&why, count) in &other.left_out {
            *self.left_out.entry(why).or_default() += count;
        }
        for (differing, count) in &other.differing {
            *self.differing.entry(differing.clone()).or_default() += count;
        }
        let mut repairs = other.repairs;
        let all = self.repairs.all().into_iter().zip(repairs.all());
        all.for_each(|(sum, of)| *sum += *of);
    }

    pub(crate) fn leave_out(&mut self, why: Why) {
        *self.left_out.entry(why).or_default() += 1;
    }

    /// Compares a status with the source's.
    pub(crate) fn compare(
        &mut self,
        operation: &'static str,
        source: Option<&str>,
        found: Option<&str>,
    ) {
        let (Some(source), Some(found)) = (source, found) else {
            return;
        };
        self.compared += 1;
        if source == found {
            self.same += 1;
            return;
        }
        let differing = Differing {
            operation,
            source: source.to_owned(),
            found: found.to_owned(),
        };
        *self.differing.entry(differing).or_default() += 1;
    }
}
