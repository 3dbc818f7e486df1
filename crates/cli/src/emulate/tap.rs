//! `lineside emulate --tap`: the frames that leave the path, as a trace in the folder of the run.

use anyhow::Context;
use lineside_account::Budget;
use lineside_capture::{Seen, capture_into};
use lineside_host::RunFolder;
use lineside_reactor::TapPort;
use lineside_trace::Table;

/// Captures frames until the loop drops its end of the tap.
pub(crate) fn run(
    mut port: TapPort,
    folder: &RunFolder,
    trace_id: &str,
    budget: &Budget,
) -> anyhow::Result<Seen> {
    // As `capture` has it by default.
    let wanted = |table: &Table| *table != Table::Packets;
    let tables: Vec<_> = Table::ALL.iter().copied().filter(wanted).collect();
    let captured = capture_into(folder, &tables, trace_id, &mut port, budget);
    captured.context("the tap's trace cannot be written")
}
