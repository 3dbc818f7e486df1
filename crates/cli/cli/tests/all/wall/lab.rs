//! Against a real server: counts against those of our own client, checksums against the files'
//! contents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use lineside_testkit::tshark;
use lineside_testkit::waiting::Turn;
use lineside_trace::BLOCK_BYTES;
use serde_json::Value;
use tempfile::TempDir;
use twox_hash::XxHash3_64;

use crate::support::{Guarded, Trace, repository, talk, wait_until};
use crate::tshark::compare;
use crate::wall::wire::obstacle;

/// There is one lab at a time: its namespaces have fixed names.
const LAB: &str = "lab";

/// Its namespaces; the one in the middle is there with `--mirror`.
pub(crate) const SERVER: &str = "lineside-srv";
pub(crate) const CLIENT: &str = "lineside-cli";
pub(crate) const MIDDLE: &str = "lineside-mid";

/// The lab, taken down however the test ends.
pub(crate) struct Lab {
    state: TempDir,
    _only: Turn,
}

impl Lab {
    /// Prints the reason and returns `None` where there can be no lab.
    pub(crate) fn up(options: &[&str]) -> Option<Self> {
        Self::up_as(options, |configuration| configuration)
    }

    /// The same with another configuration of nfs-ganesha.
    pub(crate) fn up_as(options: &[&str], of: impl FnOnce(String) -> String) -> Option<Self> {
        let tools = ["ss", "rpcbind", "ganesha.nfsd", "tcpdump"];
        if let Some(why) = obstacle(&tools) {
            println!("SKIP: no lab: {why}");
            return None;
        }
        let only = Turn::take(LAB);
        let list = Command::new("ip").args(["netns", "list"]).output();
        if list.is_ok_and(|list| String::from_utf8_lossy(&list.stdout).contains("lineside-srv")) {
            println!("SKIP: no lab: another lab is up");
            return None;
        }
        let lab = Self {
            state: tempfile::tempdir().expect("a folder"),
            _only: only,
        };
        let usual = repository().join("crates/test/nfs-lab/ganesha.conf");
        let usual = std::fs::read_to_string(usual).expect("it is there");
        std::fs::write(lab.configuration(), of(usual)).expect("written");
        let mut up = lab.command("up");
        let up = up
            .args(options)
            .env("LINESIDE_LAB_CONF", lab.configuration());
        let output = up.output();
        let output = output.expect("the lab\'s up runs");
        assert!(output.status.success(), "{}", talk(&output));
        Some(lab)
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(repository().join("crates/test/nfs-lab").join(name));
        command.env("LINESIDE_LAB", self.state.path());
        command
    }

    /// Runs a client while tcpdump records. Fails if frames were dropped.
    pub(crate) fn record(&self, capture: &Path, client: &[&str]) -> Output {
        let output = self
            .command("cap")
            .arg(capture)
            .arg("--")
            .args(client)
            .output()
            .expect("the lab\'s cap runs");
        assert!(output.status.success(), "{client:?}: {}", talk(&output));
        assert!(
            talk(&output).contains(" 0 packets dropped by kernel"),
            "tcpdump lost frames: {}",
            talk(&output)
        );
        output
    }

    /// The process id of nfs-ganesha.
    pub(crate) fn server_process(&self) -> String {
        let id = std::fs::read_to_string(self.state.path().join("ganesha.pid"));
        id.expect("it runs").trim().to_owned()
    }

    fn configuration(&self) -> PathBuf {
        self.state.path().join("ganesha.conf")
    }

    /// Ends nfs-ganesha, as a crash does.
    pub(crate) fn kill_server(&self) {
        let id = self.server_process();
        let killed = Command::new("kill").args(["-KILL", &id]).status();
        assert!(killed.is_ok_and(|status| status.success()));
        let process = Path::new("/proc").join(&id);
        wait_until("the server is gone", || !process.exists());
    }

    /// Starts it again, in its namespaces.
    pub(crate) fn start_server(&self) -> Guarded {
        let beside = std::fs::read_to_string(self.state.path().join("rpcbind.pid"));
        let beside = beside.expect("it runs");
        let state = |name: &str| self.state.path().join(name);
        let mut server = Command::new("nsenter");
        server.args(["-t", beside.trim(), "-m", "-n", "ganesha.nfsd", "-F", "-L"]);
        server
            .arg(state("ganesha.log"))
            .arg("-f")
            .arg(self.configuration());
        server
            .arg("-p")
            .arg(state("again.lock"))
            .args(["-N", "NIV_EVENT"]);
        server.stdout(Stdio::null()).stderr(Stdio::null());
        Guarded(server.spawn().expect("nsenter runs"))
    }

    /// Mounts the exported files with other options.
    pub(crate) fn remount(&self, options: &str) {
        let mut mount = Command::new("mount");
        mount
            .args(["-o", &format!("remount,{options}")])
            .arg(self.files());
        let output = mount.output().expect("mount runs");
        assert!(output.status.success(), "{}", talk(&output));
    }

    /// The exported files.
    pub(crate) fn files(&self) -> PathBuf {
        self.state.path().join("files")
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.command("down").status();
    }
}

/// The NFS client of the testkit.
pub(crate) fn nfs_drive() -> PathBuf {
    testkit_program("nfs-drive")
}

/// A program of the testkit, built if it is not: Cargo promises a package's tests only the
/// package's own programs.
pub(crate) fn testkit_program(name: &str) -> PathBuf {
    let programs = Path::new(env!("CARGO_BIN_EXE_lineside"))
        .parent()
        .expect("target/debug")
        .to_owned();
    let target = programs.parent().expect("target");
    let status = Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            // Of one package alone, others would be built anew with fewer features.
            "--workspace",
            "--bin",
            name,
            "--target-dir",
        ])
        .arg(target)
        .current_dir(repository())
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "{name} does not build"
    );
    programs.join(name)
}

#[test]
fn a_real_server_agrees() {
    let Some(lab) = Lab::up(&[]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    counts_equal_the_clients(&lab, folder.path());
    match obstacle(&["nfs-cp", "nfs-ls", "nfs-cat"]) {
        Some(why) => println!("SKIP: no libnfs: {why}"),
        None => libnfs_is_understood(&lab, folder.path()),
    }
}

/// Checks that the trace has the counts of nfs-drive.
fn counts_equal_the_clients(lab: &Lab, folder: &Path) {
    let drive = nfs_drive();
    let drive = drive.to_str().expect("a plain path");
    let works: [&str; 13] = [
        "--seed 1 meta --rounds 5",
        "--seed 2 --udp --repeat 0.2 meta --rounds 3",
        "--seed 3 seq --file one --bytes 3000000 --chunk 1000000 --depth 3",
        "--seed 4 rand --file two --bytes 400000 --chunk 30000 --depth 8 --skew 77 --operations 200",
        "--seed 5 --fragments 300,1,4000 rand --file three --bytes 200000 --chunk 20000 --depth 4",
        "--seed 6 --segment 150 rand --file four --bytes 30000 --chunk 3000 --depth 3 --operations \
        50",
        "--seed 7 --udp rand --file five --bytes 200000 --chunk 16384 --depth 4 --operations 60",
        "--seed 8 --server 2001:db8::1 rand --file six --bytes 200000 --chunk 9000 --depth 6",
        "--seed 9 --version 4.0 meta --rounds 3",
        "--seed 10 --version 4.0 rand --file seven --bytes 300000 --chunk 30000 --depth 8 --skew 77",
        "--seed 11 --version 4.1 meta --rounds 3",
        "--seed 12 --version 4.1 seq --file eight --bytes 3000000 --chunk 1000000 --depth 3",
        "--seed 13 --version 4.1 --fragments 300,1,4000 --server 2001:db8::1 rand --file nine \
        --bytes 200000 --chunk 20000 --depth 4",
    ];
    for work in works {
        let capture = folder.join("drive.pcap");
        let client: Vec<&str> = [drive].into_iter().chain(work.split(' ')).collect();
        let output = lab.record(&capture, &client);
        let counted: Value = serde_json::from_slice(&output.stdout).expect("nfs-drive prints JSON");
        let trace = Trace::of(&capture, &[]);
        trace.assert_identities(work);
        assert_eq!(tally(&trace), expected(&counted), "{work}");
        checksums_equal_the_files(&trace, &lab.files(), work);
        if work.contains("--version 4") && tshark::available() {
            let differences = compare(&capture, work, &mut BTreeSet::new());
            assert!(differences.is_empty(), "{work}: {differences:#?}");
        }
    }
}

/// libnfs, which we did not write: its files' checksums, and nothing left open.
fn libnfs_is_understood(lab: &Lab, folder: &Path) {
    let numbers: String = (0..60_000).map(|number| format!("{number}\n")).collect();
    std::fs::write(lab.files().join("numbers"), &numbers).expect("the export can be written");
    let script = "url() { echo \"nfs://192.0.2.1/vfs/$1?nfsport=2049&mountport=20048\"; }
        nfs-ls \"$(url '')\" && nfs-cp \"$(url numbers)\" \"$1/numbers\" && nfs-cp \"$1/numbers\" \
        \"$(url copy)\" && nfs-cat \"$(url copy)\"";
    let capture = folder.join("libnfs.pcap");
    let client = [
        "bash",
        "-c",
        script,
        "libnfs",
        folder.to_str().expect("a plain path"),
    ];
    let output = lab.record(&capture, &client);
    assert!(String::from_utf8_lossy(&output.stdout).ends_with(&numbers));
    let trace = Trace::of(&capture, &[]);
    trace.assert_identities("libnfs");
    assert!(
        trace
            .operations
            .iter()
            .all(|row| !row.is("call_missing") && !row.is("reply_missing"))
    );
    for operation in ["READ", "WRITE"] {
        let moved: i64 = trace
            .nfs_rows()
            .filter(|row| row.text("operation") == Some(operation))
            .filter_map(|row| row.integer("transferred"))
            .sum();
        assert!(moved >= numbers.len() as i64, "{operation}: {moved} bytes");
    }
    checksums_equal_the_files(&trace, &lab.files(), "libnfs");
}

pub(crate) type Counts = BTreeMap<String, i64>;

/// The counts of a trace, by `PROGRAM OPERATION column`.
pub(crate) fn tally(trace: &Trace) -> Counts {
    let mut counts = Counts::new();
    for row in trace.nfs_rows() {
        let operation = format!(
            "{} {}",
            row.text("program").unwrap_or("?"),
            row.text("operation").unwrap_or("?")
        );
        let mut add = |what: &str, times: i64| {
            *counts.entry(format!("{operation} {what}")).or_default() += times
        };
        let again = row.integer("retransmissions").unwrap_or(0) + i64::from(row.is("repeat"));
        add("calls", i64::from(!row.is("repeat")));
        add("calls that came again", again);
        let is_answered = !row.is("reply_missing") && !row.is("not_executed");
        // Which of two replies to a repeated call counts as the first depends on when they came.
        add(
            "replies",
            i64::from(is_answered) + row.integer("duplicate_replies").unwrap_or(0),
        );
        if !row.is("repeat") {
            add("bytes", row.integer("transferred").unwrap_or(0));
            if let Some(status) = row.text("status") {
                add(status, 1);
            }
        }
    }
    counts
}

/// The same counts from the client's JSON.
pub(crate) fn expected(counted: &Value) -> Counts {
    let mut counts = Counts::new();
    for (program, operations) in counted.as_object().expect("programs") {
        for (operation, count) in operations.as_object().expect("operations") {
            let number = |what: &str| count[what].as_i64().expect("a number");
            let mut add = |what: &str, times: i64| {
                *counts
                    .entry(format!("{program} {operation} {what}"))
                    .or_default() += times
            };
            add("calls", number("calls"));
            add("calls that came again", number("repeats"));
            add("replies", number("replies") + number("duplicate_replies"));
            add("bytes", number("bytes"));
            for (status, times) in count["statuses"].as_object().expect("statuses") {
                add(status, times.as_i64().expect("a number"));
            }
        }
    }
    counts
}

/// Each checksum is that of the file's block, and each whole block that was moved has one.
pub(crate) fn checksums_equal_the_files(trace: &Trace, files: &Path, what: &str) {
    let mut names: BTreeMap<i64, String> = BTreeMap::new();
    for row in trace.nfs_rows() {
        if let (Some("CREATE" | "LOOKUP" | "OPEN"), Some(file), Some(name)) = (
            row.text("operation"),
            row.integer("result_file_id"),
            row.text("name"),
        ) {
            names.insert(file, name.to_owned());
        }
    }
    // Files that are gone by now are left out: their contents cannot be asked.
    let contents: BTreeMap<i64, Vec<u8>> = names
        .iter()
        .filter_map(|(&file, name)| Some((file, std::fs::read(files.join(name)).ok()?)))
        .collect();
    let mut seen: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    for row in &trace.checksums {
        let integer = |column| row.integer(column).expect("never null");
        seen.insert(
            (integer("operation_id"), integer("block")),
            integer("checksum"),
        );
    }
    let block_bytes = i64::from(BLOCK_BYTES);
    let mut compared = 0;
    for row in trace
        .nfs_rows()
        .filter(|row| matches!(row.text("operation"), Some("READ" | "WRITE")))
    {
        let numbers = (
            row.integer("operation_id"),
            row.integer("file_id"),
            row.integer("offset"),
            row.integer("transferred"),
        );
        let (Some(operation), Some(file), Some(offset), Some(moved)) = numbers else {
            continue;
        };
        let Some(content) = contents.get(&file) else {
            continue;
        };
        for block in (offset + block_bytes - 1) / block_bytes..(offset + moved) / block_bytes {
            let bytes =
                &content[(block * block_bytes) as usize..((block + 1) * block_bytes) as usize];
            let expected = XxHash3_64::oneshot(bytes) as i64;
            assert_eq!(
                seen.get(&(operation, block)),
                Some(&expected),
                "{what}: block {block} of {:?}",
                names.get(&file)
            );
            compared += 1;
        }
    }
    if !contents.is_empty() {
        assert!(compared > 0, "{what}: no block was compared");
        println!("{what}: {compared} blocks equal the files'");
    }
}
