//! What takes a plan, and what is not in it.

use std::path::Path;

use lineside_plan::PlanSink;
use serde::Serialize;

use super::rows::Row;
use crate::read::columns::Lexicon;
use crate::read::trace::Trace;

/// Takes a plan, and the texts that its numbers stand for.
pub trait PlanOutput: PlanSink {
    /// A client, a server or an operation has this number.
    fn text(&mut self, number: u32, text: &str);
}

/// Takes the rows themselves, beside the plan.
pub(crate) trait Aside {
    /// Rows of a part, which it may keep somewhere.
    fn part(
        &mut self,
        _trace: &mut Trace,
        _part: (usize, &Path),
        _words: &Lexicon,
        _rows: &mut [Row],
    ) {
    }

    /// The rows of the next call, in the order of the calls' numbers; an opening has none.
    fn call(&mut self, _rows: &[Row]) {}
}

impl Aside for () {}

/// Rows of the trace that are no part of the plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// Replies whose call was not seen, or has no time.
    pub calls_not_seen: u64,
    /// Calls that came again, which the transport did and not the program.
    pub repeats: u64,
    /// Calls of servers: callbacks, and answers of NLM.
    pub callbacks: u64,
    /// Requests of other protocols.
    pub other_protocols: u64,
    /// Connections whose opening was not seen.
    pub openings_not_seen: u64,
    /// Requests of a load, whose rows lack what replies named: what waits for that is not known.
    pub of_load: u64,
}
