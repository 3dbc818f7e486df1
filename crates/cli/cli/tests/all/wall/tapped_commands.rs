//! What a run between two commands leaves of its frames: a trace by `--tap`, and a file that
//! `capture` reads at one place.

use std::collections::BTreeMap;
use std::path::Path;

use lineside_rows::Table;

use crate::support::{Record, lineside, records, talk};
use crate::wall::commands::is_forbidden;

/// Calls of NFS by port and xid: how long from the call to the reply.
fn calls(folder: &Path) -> BTreeMap<(i64, i64), i64> {
    let rows = records(folder, Table::Operations).into_iter();
    let of_nfs = rows.filter(|row| row.text("program") == Some("nfs"));
    let call = |row: Record| {
        let number = |column| row.integer(column).expect("a number");
        let took_ns = number("reply_time_ns") - number("call_end_ns");
        ((number("client_port"), number("xid")), took_ns)
    };
    of_nfs.map(call).collect()
}

#[test]
fn frames_between_two_commands_count_once_at_either_side() {
    const DELAY_NS: i64 = 20_000_000;
    /// So much earlier a frame may leave: releases begin by what the kernel takes.
    const EARLY_NS: i64 = 100_000;
    let folder = tempfile::tempdir().expect("a folder");
    let program = lineside().get_program().to_owned();
    let program = program.to_str().expect("a name in UTF-8");
    let server = format!("exec {program} load serve nfs 0.0.0.0:2049 -q");
    let client = format!(
        "{program} load nfs://$LINESIDE_SERVER/export?mountport=2049 -n 60 -c 2 -q -o load"
    );
    let output = lineside()
        .args(["emulate", "--delay", "20ms", "--tap", "-o", "run", "-w"])
        .args([
            "passed.pcapng",
            "--server",
            &server,
            "--",
            "sh",
            "-c",
            &client,
        ])
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    if is_forbidden(&output) {
        return;
    }
    // A busy machine disturbs the link or the load.
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 4)), "{}", talk(&output));
    let captured = |at: &str| {
        let output = lineside()
            .args(["capture", "passed.pcapng", "--at", at, "-o", at])
            .current_dir(folder.path())
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{}", talk(&output));
        assert!(talk(&output).contains("at several places of one path"));
        calls(&folder.path().join(at))
    };
    let [server, client] = ["server", "client"].map(captured);
    assert!(server.len() > 60, "{} calls", server.len());
    assert!(server.keys().eq(client.keys()));
    // The same frames, before and after both ways.
    for (call, took_ns) in &server {
        let way_ns = client[call] - took_ns;
        assert!(way_ns >= 2 * (DELAY_NS - EARLY_NS), "{call:?}: {way_ns} ns");
    }
    let tapped = calls(&folder.path().join("run"));
    assert!(tapped.keys().eq(server.keys()));
    let load = calls(&folder.path().join("load"));
    assert_eq!(load.len(), 60);
    assert!(load.keys().all(|call| server.contains_key(call)));
}
