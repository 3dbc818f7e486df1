//! Replays on servers that do not do what they are asked: read-only, full, gone for a while, busy,
//! without NFSv3.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use lineside_rows::Table;
use serde_json::Value as Json;
use tempfile::TempDir;

use crate::support::{Guarded, lineside, records, talk, wait_until};
use crate::wall::lab::{CLIENT, Lab};
use crate::wall::replayed_parts::drive;
use crate::wall::replays::replay;

/// A replay that is not what it should have been: its certificate, and RUN.
fn incomplete(folder: &TempDir, trace: &Path, url: &str, more: &[&str]) -> (Json, PathBuf) {
    let run = folder.path().join("run");
    let run_text = run.display().to_string();
    let asked = [&["--to", url, "-o", &run_text, "--force", "--json"], more].concat();
    let output = replay(trace, &asked);
    assert!(!output.stdout.is_empty(), "{}", talk(&output));
    let found: Json = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["verdict"]["state"], "incomplete", "{found:#}");
    (found, run)
}

fn reasons(found: &Json) -> String {
    found["verdict"]["reasons"].to_string()
}

#[test]
fn a_server_that_is_read_only_is_named() {
    let Some(lab) = Lab::up(&[]) else { return };
    for version in ["", "--version 4.1 "] {
        let (folder, trace) = drive(&lab, &format!("{version}meta --rounds 1"));
        let url = format!("nfs://192.0.2.1/vfs/there{}", version.len());
        std::fs::create_dir(lab.files().join(format!("there{}", version.len()))).expect("made");
        lab.remount("ro");
        // The directory cannot be made: nothing is.
        let output = replay(&trace, &["--to", "nfs://192.0.2.1/vfs/new"]);
        assert_eq!(output.status.code(), Some(1), "{version}");
        let text = talk(&output);
        assert_eq!(text.lines().count(), 1, "{version}: {text}");
        assert!(text.contains("read-only"), "{version}: {text}");
        // It is there: calls are made, and those that write are refused. By NFSv4 the way from the
        // root is to be made in it.
        if version.is_empty() {
            let (found, run) = incomplete(&folder, &trace, &url, &[]);
            assert!(reasons(&found).contains("read-only"), "{found:#}");
            assert!(!records(&run, Table::Operations).is_empty());
        }
        lab.remount("rw");
    }
}

#[test]
fn a_server_that_is_full_is_named() {
    let Some(lab) = Lab::up(&[]) else { return };
    for version in ["", "--version 4.1 "] {
        let work = format!("{version}seq --file big{} --bytes 3000000", version.len());
        let (folder, trace) = drive(&lab, &format!("{work} --chunk 500000"));
        let used = Command::new("du").arg("-sk").arg(lab.files()).output();
        let used = String::from_utf8_lossy(&used.expect("du runs").stdout).into_owned();
        let used: u64 = { used.split_whitespace().next() }
            .and_then(|kib| kib.parse().ok())
            .expect("KiB");
        lab.remount(&format!("size={}k", used + 1_200));
        let url = format!("nfs://192.0.2.1/vfs/full{}", version.len());
        let (found, run) = incomplete(&folder, &trace, &url, &[]);
        lab.remount("size=1g");
        assert!(
            reasons(&found).contains("make room"),
            "{version}: {found:#}"
        );
        // What there was room for is there, and its rows are.
        let rows = records(&run, Table::Operations);
        let writes = rows
            .iter()
            .filter(|row| row.text("operation") == Some("WRITE"));
        assert!(writes.count() >= 6, "{version}");
    }
}

/// A replay that goes on while the server is gone for a second or two.
fn replay_begun(trace: &Path, url: &str, more: &[&str]) -> Child {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", CLIENT, env!("CARGO_BIN_EXE_lineside")]);
    command
        .arg("replay")
        .arg(trace)
        .args(["--to", url, "--json"])
        .args(more);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it runs")
}

#[test]
fn a_server_that_is_started_again_is_gone_on_with() {
    let Some(lab) = Lab::up(&[]) else { return };
    let (_folder, trace) = drive(&lab, "meta --rounds 3");
    let source = records(&trace, Table::Operations);
    let times = source.iter().filter_map(|row| row.integer("call_time_ns"));
    let took_ns = times.clone().max().expect("a call") - times.min().expect("a call");
    // It takes some ten seconds.
    let speed = (took_ns as f64 / 10e9).to_string();
    let url = "nfs://192.0.2.1/vfs/again";
    let run = replay_begun(&trace, url, &["--speed", &speed, "--timeout", "50s"]);
    let made = lab.files().join("again");
    wait_until("the replay has begun", || {
        std::fs::read_dir(&made).is_ok_and(|all| all.count() > 0)
    });
    lab.kill_server();
    let _server = lab.start_server();
    let output = run.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", talk(&output));
    let found: Json = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        found["calls"]["made"], found["calls"]["source"],
        "{found:#}"
    );
    assert_eq!(
        found["calls"]["answered"], found["calls"]["made"],
        "{found:#}"
    );
    assert!(found["broken"].as_u64() > Some(0), "{found:#}");
}

/// NFSv4.1: the server does not know the session any more, and what was open is not.
#[test]
fn a_server_that_forgot_its_clients_is_named() {
    let Some(lab) = Lab::up(&[]) else { return };
    let (folder, trace) = drive(&lab, "--version 4.1 meta --rounds 3");
    let source = records(&trace, Table::Operations);
    let times = source.iter().filter_map(|row| row.integer("call_time_ns"));
    let took_ns = times.clone().max().expect("a call") - times.min().expect("a call");
    let speed = (took_ns as f64 / 10e9).to_string();
    let run_folder = folder.path().join("run").display().to_string();
    let url = "nfs://192.0.2.1/vfs/forgotten";
    let run = replay_begun(&trace, url, &["--speed", &speed, "-o", &run_folder]);
    // What calls make, below the way from the root that is made before.
    let made = lab.files().join("forgotten/vfs");
    wait_until("the replay has begun", || {
        std::fs::read_dir(&made).is_ok_and(|all| all.count() > 0)
    });
    lab.kill_server();
    let _server = lab.start_server();
    let output = run.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("has forgotten the client"), "{text}");
    assert!(!records(Path::new(&run_folder), Table::Operations).is_empty());
}

/// Passes on what passes, but the statuses of some replies to GETATTR of NFSv3, by their number.
fn busy(to: u16, which: impl Fn(u32) -> bool + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (which, seen) = (Arc::new(which), Arc::new(AtomicU32::new(0)));
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else {
                return;
            };
            let (which, seen) = (Arc::clone(&which), Arc::clone(&seen));
            pass_both(client, server, which, seen);
        }
    });
    port
}

fn pass_both(
    client: TcpStream,
    server: TcpStream,
    which: Arc<impl Fn(u32) -> bool + Send + Sync + 'static>,
    seen: Arc<AtomicU32>,
) {
    let up = [&client, &server].map(|socket| socket.try_clone().expect("a socket"));
    let asked = Arc::new(Mutex::new(HashSet::new()));
    let known = Arc::clone(&asked);
    let xid = |record: &[u8]| record[4..8].to_vec();
    thread::spawn(move || {
        let [client, server] = up;
        pass_records(client, server, |record| {
            // Program 100003, version 3, procedure 1.
            let of = [100_003, 3, 1].map(u32::to_be_bytes);
            if record.get(16..28) == Some(of.as_flattened()) {
                asked.lock().expect("no panic").insert(xid(record));
            }
        });
    });
    thread::spawn(move || {
        pass_records(server, client, |record| {
            let is_one = known.lock().expect("no panic").remove(&xid(record));
            if is_one && which(seen.fetch_add(1, Ordering::Relaxed)) {
                // Behind the mark and the header of a reply without a verifier: JUKEBOX.
                record[28..32].copy_from_slice(&10_008_u32.to_be_bytes());
            }
        });
    });
}

/// Passes on records, which `each` may change.
fn pass_records(mut from: TcpStream, mut to: TcpStream, mut each: impl FnMut(&mut [u8])) {
    let mut mark = [0; 4];
    while from.read_exact(&mut mark).is_ok() {
        let mut record = mark.to_vec();
        record.resize(4 + (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize, 0);
        if from.read_exact(&mut record[4..]).is_err() {
            break;
        }
        each(&mut record);
        if to.write_all(&record).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// As a kernel's client does, a call that a server puts off is made again after five seconds.
#[test]
fn a_call_that_a_server_puts_off_is_made_again() {
    let mut server = lineside();
    server
        .args(["load", "serve", "nfs", "127.0.0.1:0"])
        .stderr(Stdio::piped());
    let mut server = Guarded(server.spawn().expect("it runs"));
    let mut line = String::new();
    let talk_of = server.stderr.take().expect("a pipe");
    BufReader::new(talk_of)
        .read_line(&mut line)
        .expect("a line");
    let digits = line.split("127.0.0.1:").nth(1).unwrap_or_default();
    let digits: String = digits.chars().take_while(char::is_ascii_digit).collect();
    let port: u16 = digits.parse().expect("a port");
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace");
    let mut capture = lineside();
    let capture = capture.arg("capture").arg(crate::support::example());
    let output = capture.args(["-q", "-f", "tcp", "-o"]).arg(&trace).output();
    assert!(output.is_ok_and(|output| output.status.success()));
    let replayed = |port: u16, name: &str, timeout: &str| -> Json {
        let mut command = lineside();
        let url = format!("nfs://127.0.0.1:{port}/export/{name}");
        let command = command
            .arg("replay")
            .arg(&trace)
            .args(["--to", &url, "--json"]);
        let output = command
            .args(["--loop", "fast", "--timeout", timeout])
            .output();
        let output = output.expect("it runs");
        assert!(!output.stdout.is_empty(), "{}", talk(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let plain = replayed(port, "plain", "60s");
    let once = replayed(busy(port, |number| number == 3), "once", "60s");
    assert_eq!(once["repairs"]["delays"], 1, "{once:#}");
    assert_eq!(once["calls"]["made"], plain["calls"]["made"], "{once:#}");
    assert_eq!(
        once["calls"]["answered"], plain["calls"]["made"],
        "{once:#}"
    );
    let jukebox = |found: &Json| {
        found["statuses"]["differing"]
            .to_string()
            .contains("JUKEBOX")
    };
    assert!(!jukebox(&once), "{once:#}");
    // No longer than a reply may take: then it is what the server answers.
    let always = replayed(busy(port, |_| true), "always", "2s");
    assert_eq!(always["repairs"]["delays"], Json::Null, "{always:#}");
    assert!(jukebox(&always), "{always:#}");
    assert!(reasons(&always).contains("--timeout"), "{always:#}");
}
