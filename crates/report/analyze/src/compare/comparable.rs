//! Whether two traces have anything that can be compared.

use std::collections::BTreeSet;

use super::sample::Sample;
use super::words;

/// Kinds that are named of each trace.
const NAMED_MAX: usize = 4;

/// Why none of the figures of one trace has a counterpart in the other; `None`: some have.
pub(super) fn why_not(a: &Sample, b: &Sample) -> Option<String> {
    let are_empty = a.operations == 0 || b.operations == 0;
    if are_empty || a.kinds.keys().any(|kind| b.kinds.contains_key(kind)) {
        return None;
    }
    Some(format!(
        "the traces cannot be compared: no operation is in both: {} in A, {} in B",
        kinds(a),
        kinds(b)
    ))
}

/// The names of a trace's kinds of operations, the most frequent first.
fn kinds(sample: &Sample) -> String {
    let mut all: Vec<_> = { sample.kinds.iter() }
        .map(|(kind, (times, _))| (std::cmp::Reverse(times.operations), words::kind(kind)))
        .collect();
    all.sort_unstable();
    let more = all.len().saturating_sub(NAMED_MAX);
    let named: Vec<_> = all
        .into_iter()
        .take(NAMED_MAX)
        .map(|(_, name)| name)
        .collect();
    match more {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// What has to be borne in mind where one trace is of a load and the other a capture: their clocks
/// run at different places.
pub(super) fn of_different_roles(a: &Sample, b: &Sample) -> Option<String> {
    let roles = [a, b].map(|sample| {
        let configuration = &sample.trace.manifest.as_ref()?.configuration;
        let found = ["load", "capture"].into_iter();
        let found = found.filter(|role| !configuration[*role].is_null());
        found.collect::<BTreeSet<_>>().into_iter().next_back()
    });
    let (load, capture) = match roles {
        [Some("load"), Some("capture")] => ("A", "B"),
        [Some("capture"), Some("load")] => ("B", "A"),
        _ => return None,
    };
    Some(format!(
        "{load} is of a load, which measures in the client, and {capture} of a capture, which \
        measures at its tap: times differ by the way between the two"
    ))
}
