//! Rows of a load of NFSv3 beside those that a capture of the same run makes of it: against our own
//! server, and against a real one.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use lineside_rows::Table;

use crate::support::{Guarded, Record, Trace, lineside, records, repository, talk, wait_until};
use crate::wall::lab::Lab;
use crate::wall::wire::obstacle;

/// `examples/nfs_load.rs` of the crate of the load.
fn program() -> PathBuf {
    let programs = Path::new(env!("CARGO_BIN_EXE_lineside")).parent();
    let programs = programs.expect("target/debug").to_owned();
    let target = programs.parent().expect("target");
    let arguments = ["build", "--quiet", "--workspace", "--example"];
    let status = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["nfs_load", "--target-dir"])
        .arg(target)
        .current_dir(repository())
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "it does not build"
    );
    programs.join("examples/nfs_load")
}

/// A request: operation, status, offset and count, bytes moved, bytes of the call, and when it left
/// and was answered.
type Row = ([String; 2], [i64; 4], [i64; 2]);
/// Requests by the client's port and the xid.
type Rows = BTreeMap<(i64, i64), Row>;

fn loaded(printed: &[u8]) -> Rows {
    let text = String::from_utf8_lossy(printed);
    let rows = text.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<i64>().expect("a number");
        let names = [words[2], words[3]].map(str::to_owned);
        // A capture counts without the record mark.
        let numbers = [number(4), number(5), number(6), number(7) - 4];
        (
            (number(0), number(1)),
            (names, numbers, [number(8), number(9)]),
        )
    });
    rows.collect()
}

fn captured(row: &Record) -> ((i64, i64), Row) {
    let operation = row.text("operation").expect("an operation");
    // NULL has no status but that of RPC.
    let status = row.text("status").or_else(|| row.text("rpc_status"));
    let number = |column| row.integer(column).unwrap_or(0);
    let moved = match operation {
        "READ" | "WRITE" => [number("offset"), number("count"), number("transferred")],
        _ => [0; 3],
    };
    let [offset, count, transferred] = moved;
    let names = [operation, status.unwrap_or("")].map(str::to_owned);
    let numbers = [offset, count, transferred, number("call_bytes")];
    let times = [number("call_time_ns"), number("reply_end_ns")];
    (
        (number("client_port"), number("xid")),
        (names, numbers, times),
    )
}

fn are_equal(ours: &Rows, trace: &Trace, requests: usize) {
    assert_eq!(ours.len(), requests);
    let rows = trace.nfs_rows().map(captured);
    let theirs: Rows = rows.filter(|(key, _)| ours.contains_key(key)).collect();
    assert_eq!(theirs.len(), requests);
    let mut statuses: BTreeMap<&str, usize> = BTreeMap::new();
    for (key, (names, numbers, [left_ns, answered_ns])) in ours {
        let (their_names, their_numbers, [call_ns, reply_ns]) = &theirs[key];
        assert_eq!((names, numbers), (their_names, their_numbers), "{key:?}");
        // Another clock than a capture's, or another unit, would be far off.
        for (ours, theirs) in [(left_ns, call_ns), (answered_ns, reply_ns)] {
            assert!(
                (ours - theirs).abs() < 10_000_000_000,
                "{key:?}: {ours} {theirs}"
            );
        }
        *statuses.entry(&names[1]).or_default() += 1;
    }
    println!("{requests} requests equal: {statuses:?}");
    assert!(statuses["NFS3_OK"] > requests * 9 / 10, "{statuses:?}");
}

/// tcpdump at the loopback interface.
struct Recording {
    tcpdump: Guarded,
    log: PathBuf,
}

impl Recording {
    /// Records the frames of a port; returns once it listens.
    fn start(file: &Path, port: u16) -> Self {
        let log = file.with_extension("log");
        let tcpdump = Command::new("tcpdump")
            .args(["-Z", "root", "-i", "lo", "-B", "262144", "-w"])
            .arg(file)
            .args(["--time-stamp-precision=nano", "tcp", "port"])
            .arg(port.to_string())
            .stderr(std::fs::File::create(&log).expect("a log"))
            .spawn()
            .expect("tcpdump");
        let recording = Self {
            tcpdump: Guarded(tcpdump),
            log,
        };
        wait_until("tcpdump listens", || recording.says("listening on"));
        recording
    }

    fn says(&self, what: &str) -> bool {
        std::fs::read_to_string(&self.log).is_ok_and(|log| log.contains(what))
    }

    /// Ends it, with all frames.
    fn finish(mut self) {
        // tcpdump reads the kernel's buffer at least once a second.
        let pause = Command::new("sleep").arg("1.2").status();
        assert!(pause.is_ok_and(|status| status.success()));
        let stop = Command::new("kill")
            .args(["-INT", &self.tcpdump.id().to_string()])
            .status();
        assert!(stop.is_ok_and(|status| status.success()));
        self.tcpdump.wait().expect("it ends");
        assert!(
            self.says("\n0 packets dropped by kernel"),
            "the capture is not complete"
        );
    }
}

/// A free port of the loopback interface.
fn free_port() -> u16 {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    free.local_addr().expect("an address").port()
}

#[test]
fn rows_of_a_load_are_those_of_its_capture() {
    if let Some(why) = obstacle(&["tcpdump"]) {
        println!("SKIP: rows of a load are not compared: {why}");
        return;
    }
    let program = program();
    let folder = crate::support::private_folder();
    let file = folder.path().join("load.pcap");
    let port = free_port();
    let recording = Recording::start(&file, port);
    let server = format!("self:{port}");
    let output = Command::new(program)
        .args([&server, "/export", "4000"])
        .output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{}", talk(&output));
    let ours = loaded(&output.stdout);
    recording.finish();
    let trace = Trace::of(&file, &[]);
    are_equal(&ours, &trace, 4_000);
}

/// The columns in which a load's row and that of its capture agree.
const TEXTS: [&str; 9] = [
    "client_address",
    "server_address",
    "transport",
    "program",
    "operation",
    "rpc_status",
    "status",
    "auth_flavor",
    "name",
];
const NUMBERS: [&str; 12] = [
    "server_port",
    "program_number",
    "version",
    "user_id",
    "group_id",
    "file_id",
    "offset",
    "count",
    "transferred",
    "call_bytes",
    "client_port",
    "xid",
];

#[test]
fn the_table_of_a_load_is_that_of_its_capture() {
    if let Some(why) = obstacle(&["tcpdump"]) {
        println!("SKIP: the table of a load is not compared: {why}");
        return;
    }
    let folder = crate::support::private_folder();
    let file = folder.path().join("load.pcap");
    let port = free_port();
    let recording = Recording::start(&file, port);
    let server = lineside()
        .args(["load", "serve", "nfs", &format!("127.0.0.1:{port}")])
        .spawn()
        .expect("it runs");
    let server = Guarded(server);
    wait_until("the server listens", || {
        std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
    });
    let run = folder.path().join("run");
    let mix =
        "null:5%,getattr:20%,lookup:15%,read:30%,write:15%,readdirplus:5%,fsstat:5%,commit:5%";
    let output = lineside()
        .args([
            "load",
            &format!("nfs://127.0.0.1:{port}/export?mountport={port}"),
        ])
        .args(["-n", "2000", "-c", "4", "--mix", mix, "-o"])
        .arg(&run)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", talk(&output));
    recording.finish();
    drop(server);
    let capture = folder.path().join("capture");
    let output = lineside()
        .arg("capture")
        .arg(&file)
        .arg("-o")
        .arg(&capture)
        .output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{}", talk(&output));
    let of = |folder: &Path| -> BTreeMap<_, _> {
        let rows = records(folder, Table::Operations).into_iter();
        let row = |row: Record| {
            let texts = TEXTS.map(|column| row.text(column).map(str::to_owned));
            let numbers = NUMBERS.map(|column| row.integer(column));
            ((numbers[10], numbers[11]), (texts, numbers))
        };
        rows.map(row).collect()
    };
    let (ours, theirs) = (of(&run), of(&capture));
    assert_eq!(ours.len(), 2_000);
    for (key, row) in &ours {
        assert_eq!(Some(row), theirs.get(key));
    }
    let compared = lineside().arg("compare").arg(&capture).arg(&run).output();
    let compared = String::from_utf8_lossy(&compared.expect("it runs").stdout).into_owned();
    assert!(compared.contains("B is of a load"), "{compared}");
    assert!(!compared.contains("cannot be compared"), "{compared}");
}

#[test]
fn a_load_of_a_real_server_is_what_its_wire_shows() {
    let Some(lab) = Lab::up(&[]) else { return };
    let program = program();
    let program = program.to_str().expect("a plain path");
    let folder = crate::support::private_folder();
    let file = folder.path().join("load.pcap");
    // By the kernel's sockets, and by our own TCP, which the host of the client does not see.
    for own in [&[][..], &["lineside-c", "192.0.2.77/24"]] {
        let client = [&[program, "192.0.2.1:2049", "/vfs", "3000"], own].concat();
        let output = lab.record(&file, &client);
        let ours = loaded(&output.stdout);
        are_equal(&ours, &Trace::of(&file, &[]), 3_000);
    }
    // The tree is there: 50 files in three directories.
    let made = std::fs::read_dir(lab.files().join("d00000")).expect("a directory");
    assert_eq!(made.count(), 17);
}
