//! `--monitor` of a live run, against the capture file that it writes.

use lineside_rows::Table;

use crate::monitors::measured;
use crate::support::{lineside, manifest, records, talk};
use crate::wall::commands::{Ordinary, is_forbidden};

#[test]
fn a_live_run_measures_what_its_capture_file_holds() {
    let ordinary = Ordinary::new();
    let words = [
        "--delay",
        "2ms 1ms order reorder",
        "--loss",
        "1%",
        "--monitor",
        "all",
        "--monitor",
        "size,gap at *.dropped",
        "--monitor",
        "packets,gap match udp by flow",
        "--write-pcap",
        "passed.pcapng",
        "-o",
        "run",
        "--server",
        "exec python3 server.py",
        "--",
        "python3",
        "client.py",
    ];
    let output = ordinary.run(&words);
    if is_forbidden(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(7), "{}", talk(&output));
    let at = |name: &str| ordinary.path().join(name);
    let asked: Vec<_> = words
        .chunks(2)
        .filter(|pair| pair[0] == "--monitor")
        .flatten()
        .collect();
    let mut command = lineside();
    command
        .args(["capture", "-q", "-r"])
        .arg(at("passed.pcapng"));
    command.arg("-o").arg(at("read")).args(asked);
    let output = command.output().expect("lineside runs");
    assert!(output.status.success(), "{}", talk(&output));
    let live = measured(&at("run"));
    assert!(live.iter().all(|rows| rows.len() > 3));
    assert_eq!(live, measured(&at("read")));
    // Each frame that the certificate counts was measured, where it came, left and was dropped.
    let certificate = manifest(&at("run")).certificate.expect("it is there");
    assert_eq!(certificate["loop"]["tap"]["dropped_queue"], 0);
    let rows = records(&at("run"), Table::MonitorBins);
    for (direction, came, left) in [
        ("outbound", "client", "server"),
        ("inbound", "server", "client"),
    ] {
        let counters = &certificate["directions"][direction]["counters"];
        let counted = |port: &str, point: &str, monitor: &str| {
            let rows = rows.iter().filter(|row| {
                row.text("monitor") == Some(monitor)
                    && row.text("metric") == Some("packet_bytes")
                    && row.text("port") == Some(port)
                    && row.text("point") == Some(point)
            });
            rows.filter_map(|row| row.integer("count")).sum::<i64>()
        };
        assert_eq!(
            counters["entered"],
            counted(came, "came", "all"),
            "{direction}"
        );
        assert_eq!(
            counters["released"],
            counted(left, "left", "all"),
            "{direction}"
        );
        let lost = counted(came, "dropped_loss", "size,gap at *.dropped");
        assert_eq!(counters["dropped"]["loss"], lost, "{direction}");
    }
}
