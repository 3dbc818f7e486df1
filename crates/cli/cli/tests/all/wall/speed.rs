//! The speed that an interface claims, beside what passes it.

use lineside_testkit::capture;

use crate::support::{example, lineside, manifest, talk};
use crate::wall::wire::{Running, Wire, need_wire};

#[test]
fn peaks_are_shown_with_the_claimed_speed() {
    need_wire!();
    let wire = Wire::new("speed", 1);
    let live = |words: &[&str]| {
        let running = Running::start(&wire.tap, &[&["-i", "t0"], words].concat());
        wire.send(&capture::read(&example()).expect("the example"));
        running.interrupt()
    };
    let folder = crate::support::private_folder();
    let file = folder.path().join("live.pcapng");
    let path = file.to_str().expect("UTF-8");
    let ended = live(&["--method", "af_packet", "--write-pcap", path]);
    let from_file = folder.path().join("trace");
    let mut command = lineside();
    let output = command
        .args(["capture", path, "-q", "-o"])
        .arg(&from_file)
        .output();
    let output = output.expect("lineside runs");
    assert!(output.status.success(), "{}", talk(&output));
    // A veth says so, and the file hands it on.
    for trace in [&ended.out, &from_file] {
        let claimed = manifest(trace).inputs[0].speed_bps;
        assert_eq!(claimed, Some(10_000_000_000), "{}", trace.display());
        let output = lineside().arg("report").arg(trace).arg("--json").output();
        let report: serde_json::Value =
            serde_json::from_slice(&output.expect("it runs").stdout).expect("JSON");
        let busiest = &report["wire"][0];
        let second = busiest["peak_1s_bytes"].as_f64().expect("a number");
        let share = busiest["speed_share"].as_f64().expect("a number");
        assert!(
            second > 0.0 && (share - second / 1.25e9).abs() < 1e-9,
            "{busiest}"
        );
        let output = lineside().arg("report").arg(trace).arg("--full").output();
        let text = String::from_utf8(output.expect("it runs").stdout).expect("UTF-8");
        assert!(text.contains("claims to carry 10 Gb/s"), "{text}");
    }
    // One queue's port knows it too; of a plain file it is not known.
    let facts = manifest(&live(&["--method", "af_xdp"]).out).inputs;
    assert_eq!(facts[0].speed_bps, Some(10_000_000_000), "{facts:?}");
}
