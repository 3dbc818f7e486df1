//! A wall clock that is set while frames come: stamps jump, and no operation is lost or falsified.

use std::collections::BTreeMap;
use std::path::Path;

use lineside_rows::Table;
use lineside_testkit::capture;

use crate::support::{example, lineside, manifest, records, talk};

const S: i64 = 1_000_000_000;

/// How often each latency occurs among the operations of a trace.
fn latencies(run: &Path) -> BTreeMap<Option<i64>, i64> {
    let mut counts = BTreeMap::new();
    for row in records(run, Table::Operations) {
        let ends = row
            .integer("reply_time_ns")
            .zip(row.integer("call_time_ns"));
        *counts
            .entry(ends.map(|(end, begin)| end - begin))
            .or_default() += 1;
    }
    counts
}

/// Half of the frames come after the clock was set: by an hour, a day back, back to 1970.
#[test]
fn a_clock_that_is_set_falsifies_no_operation() {
    let folder = tempfile::tempdir().expect("a folder");
    let frames = capture::read(&example()).expect("the example");
    let trace = |name: &str, by_ns: i64| {
        let mut frames = frames.clone();
        let half = frames.len() / 2;
        for frame in &mut frames[half..] {
            frame.stamp_ns = frame.stamp_ns.map(|stamp_ns| stamp_ns + by_ns);
        }
        let file = folder.path().join(format!("{name}.pcapng"));
        std::fs::write(&file, capture::write(&frames)).expect("written");
        let run = folder.path().join(name);
        let mut command = lineside();
        command.args(["capture", "-q", "-o"]).arg(&run).arg(&file);
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{}", talk(&output));
        (latencies(&run), manifest(&run))
    };
    let (calm, record) = trace("calm", 0);
    let rows: i64 = calm.values().sum();
    assert!(rows > 100, "{rows}");
    let matched = |record: &lineside_trace::Manifest| record.counters["rpc.calls_answered"].value;
    let first_ns = record.clocks[0].first_ns.expect("frames have stamps");
    for (name, by_ns) in [
        ("hour", 3_600 * S),
        ("hour back", -3_600 * S),
        ("day back", -86_400 * S),
        ("1970", -first_ns),
    ] {
        let (set, of_set) = trace(name, by_ns);
        assert_eq!(set.values().sum::<i64>(), rows, "{name}");
        assert_eq!(matched(&of_set), matched(&record), "{name}");
        // Of the few calls that were under way, the latency is by the stamps, and shows it.
        let differs = { calm.iter() }
            .map(|(latency, count)| (count - set.get(latency).copied().unwrap_or_default()).max(0));
        let differs: i64 = differs.sum();
        assert!(differs <= rows / 20, "{name}: {differs} of {rows}");
        let back = of_set.counters["frames.stamped_back"].value;
        assert_eq!(back > 0, by_ns < 0, "{name}: {back}");
    }
}
