//! What findings are found in.

use crate::model::Report;
use crate::read::filter::Chosen;
use crate::read::lexica::Lexica;
use crate::read::trace::Trace;

/// What findings are found in, after the pass over `operations`.
pub(crate) struct Scene<'a> {
    pub(crate) report: &'a Report,
    pub(crate) trace: &'a mut Trace,
    pub(crate) chosen: &'a Chosen,
    pub(crate) lexica: &'a mut Lexica,
}

/// Ways from the tap: the shortest round trips to both ends.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ways {
    pub(super) client_ns: Option<u64>,
    pub(super) server_ns: Option<u64>,
}
