//! The real iperf3 measures against our TCP endpoint (`tcp-peer iperf3`).

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::talk;
use crate::wall::peer::{Ends, OURS};
use crate::wall::wire::{Running, obstacle, private_folder};

/// Of a sender that a time ended, so much may be on the way: what our end has ready, and what the
/// kernel has received and iperf3 has not read.
const UNDER_WAY_BYTES: u64 = 8 << 20;

/// One test, and the report of each end.
fn test(ends: &Ends, family: usize, method: &str, words: &str) -> (Output, String) {
    let folder = private_folder();
    let out = folder.path().join("none");
    let server = format!("--method {method} --port 5201 --linger 0.1 iperf3");
    let running = Running::spawn(&mut ends.peer(family, &server), out, folder);
    running.wait_until("it is there", || running.messages().contains(" is at "));
    let mut client: Command = ends.kernel.command("iperf3");
    client.args(["-J", "-c", OURS[family]]);
    let output = client.args(words.split(' ')).output().expect("it runs");
    (output, running.end().printed())
}

#[test]
fn iperf3_and_our_end_report_the_same_bytes() {
    if let Some(why) = obstacle(&["iperf3"]) {
        println!("SKIP: no iperf3: {why}");
        return;
    }
    let ends = Ends::new(1500, false);
    for (family, method, words, streams) in [
        (0, "af_packet", "-t 2", 1),
        (0, "af_xdp", "-t 2 -R", 1),
        (1, "af_xdp", "-t 2 -P 4", 4),
        (1, "af_packet", "-t 2 -P 4 -R", 4),
        (0, "af_packet", "-n 20000000", 1),
        (1, "af_packet", "-n 20000000 -R", 1),
    ] {
        let (output, counted) = test(&ends, family, method, words);
        assert!(output.status.success(), "{words}: {}", talk(&output));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let counted: Value = serde_json::from_str(&counted).expect("JSON");
        let bytes = |value: &Value| value.as_u64().expect("a number");
        let sums = ["sum_sent", "sum_received"].map(|sum| bytes(&report["end"][sum]["bytes"]));
        let ours = ["bytes_sent", "bytes_received"].map(|sum| bytes(&counted[sum]));
        let all = format!("{words}: {sums:?}, {counted}");
        match words.contains("-R") {
            false => {
                assert_eq!(sums[0], sums[1], "{all}");
                assert_eq!(ours, [0, sums[1]], "{all}");
            }
            true => {
                assert_eq!(ours, [sums[0], 0], "{all}");
                let under_way = sums[0].checked_sub(sums[1]);
                let most = streams * UNDER_WAY_BYTES;
                assert!(under_way.is_some_and(|bytes| bytes <= most), "{all}");
            }
        }
        let least = if words.contains("-n") { 20_000_000 } else { 1 };
        assert!(sums[1] >= least, "{all}");
        assert_eq!(counted["opened"], streams + 1, "{all}");
        assert_eq!(counted["finished"], 1, "{all}");
    }
    // What is not there is refused, by iperf3's own words.
    let (output, counted) = test(&ends, 0, "af_packet", "-u -t 1");
    // With `-J` they are in its report.
    let message = String::from_utf8_lossy(&output.stdout).into_owned() + &talk(&output);
    assert!(message.contains("not implemented"), "{message}");
    let counted: Value = serde_json::from_str(&counted).expect("JSON");
    assert_eq!(counted["failed"], 1, "{counted}");
}
