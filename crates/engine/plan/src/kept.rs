//! A plan that is kept in memory, to be walked.

use crate::order::{Begin, CallIndex};
use crate::{CallNumber, Edge, PlanSink, PlannedCall};

/// A plan.
#[derive(Debug, Default)]
pub struct Kept {
    /// Calls; in the order of their numbers once they are [sorted](Self::sort).
    pub calls: Vec<PlannedCall>,
    /// Edges.
    pub edges: Vec<Edge>,
}

impl PlanSink for Kept {
    fn call(&mut self, call: &PlannedCall) {
        self.calls.push(*call);
    }

    fn edge(&mut self, edge: Edge) {
        self.edges.push(edge);
    }
}

impl Kept {
    /// Puts calls into the order of their numbers: a call's place is then that of its number.
    pub fn sort(&mut self) {
        self.calls.sort_unstable_by_key(|call| call.number);
    }
}

impl PlannedCall {
    /// When it is made at the earliest, where the way from the tap to its client and back takes
    /// `client_trip_ns`, and the first call was made at `first_ns`.
    pub fn begin(&self, client_trip_ns: i64, first_ns: i64) -> Begin {
        match self.trigger.zip(self.think_ns) {
            // What the tap saw has the way to the client and back.
            Some((trigger, think_ns)) => Begin::After {
                call: index(trigger),
                think_ns: think_ns.saturating_sub(client_trip_ns).max(0),
            },
            None => Begin::At(self.observed.call_ns.saturating_sub(first_ns)),
        }
    }
}

impl Edge {
    /// The places of both calls.
    pub fn places(&self) -> (CallIndex, CallIndex) {
        (index(self.from), index(self.to))
    }
}

fn index(number: CallNumber) -> CallIndex {
    (number - 1) as CallIndex
}
