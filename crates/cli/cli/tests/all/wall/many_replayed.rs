//! More files are replayed than may be open at once.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use lineside_testkit::capture::{self, Frame};

use crate::support::{lineside, talk, wait_until};
use crate::wall::wire::{Wire, need_wire, private_folder};

/// Files of a test, two frames each.
const FILES: usize = 300;
/// Descriptors: of the files that only root may open a few fit, and not all.
const DESCRIPTORS: usize = 128;
/// In the sets of /proc/PID/status.
const DAC_READ_SEARCH: &str = "0000000000000004";

/// Writes files that follow each other, which `mode` lets others read or not.
fn write(folder: &Path, files: usize, mode: u32) {
    std::fs::create_dir(folder).expect("a folder");
    std::fs::set_permissions(folder, Permissions::from_mode(mode | 0o100 | mode >> 2))
        .expect("its owner");
    for number in 0..files {
        let frame = |second: usize| Frame {
            stamp_ns: Some((number * 2 + second) as i64 * 1_000),
            wire_len: 60,
            link_type: 1,
            bytes: vec![number as u8; 60],
        };
        let path = folder.join(format!("{number:03}.pcap"));
        std::fs::write(&path, capture::write(&[frame(0), frame(1)])).expect("room");
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("its owner");
    }
}

/// `lineside replay-pcap WORDS` into `g0` with few descriptors.
fn replay(wire: &Wire, folder: &Path, words: &str) -> Child {
    let script = format!("ulimit -n {DESCRIPTORS}; exec \"$0\" replay-pcap {words} -i g0 --json");
    let mut command: Command = wire.generator.command("sh");
    command.args(["-c", &script]).arg(lineside().get_program());
    command.current_dir(folder).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).spawn().expect("it runs")
}

/// The frames that it sent, without a warning.
fn frames_of(child: Child) -> u64 {
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", talk(&output));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let account: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    account["frames"].as_u64().expect("a number")
}

#[test]
fn many_files_are_replayed_with_few_descriptors() {
    need_wire!();
    let wire = Wire::new("many", 1);
    let folder = private_folder();
    write(&folder.path().join("open"), FILES, 0o644);
    write(&folder.path().join("roots"), FILES, 0o600);
    write(&folder.path().join("few"), 20, 0o600);
    for (words, files) in [
        ("open", FILES),
        ("open/*", FILES),
        ("roots", FILES),
        ("roots/*", FILES),
        ("few", 20),
        ("few/* open", FILES + 20),
        ("few open roots --no-sandbox", 2 * FILES + 20),
    ] {
        let child = replay(&wire, folder.path(), &format!("{words} --fast --loop 3"));
        assert_eq!(frames_of(child), 6 * files as u64, "{words}");
    }
}

/// Files that the user may read who called sudo, or `nobody`, take no privilege; nor do those of
/// root that are few enough to stay open.
#[test]
fn a_replay_of_many_files_holds_what_opening_them_takes() {
    need_wire!();
    let wire = Wire::new("opens", 1);
    // Where others may enter, as most folders with captures are.
    let folder = crate::support::open_folder();
    write(&folder.path().join("open"), FILES, 0o644);
    write(&folder.path().join("roots"), FILES, 0o600);
    write(&folder.path().join("few"), 20, 0o600);
    let none = "0000000000000000";
    for (words, left) in [
        ("open", none),
        ("few/* open", none),
        ("roots", DAC_READ_SEARCH),
    ] {
        let words_ = format!("{words} --rate 1kpps --loop 2");
        let child = replay(&wire, folder.path(), &words_);
        let path = format!("/proc/{}/status", child.id());
        let read = || std::fs::read_to_string(&path).unwrap_or_default();
        wait_until("it is in its sandbox", || read().contains("Seccomp:\t2"));
        let status = read();
        for (set, expected) in [
            ("CapEff", left),
            ("CapPrm", left),
            ("CapInh", none),
            ("CapAmb", none),
            ("CapBnd", none),
        ] {
            let line = format!("{set}:\t{expected}");
            assert!(status.contains(&line), "{words}: {line}: {status}");
        }
        assert!(
            status.contains("Uid:\t65534\t65534\t65534\t65534"),
            "{status}"
        );
        assert!(
            status.contains("Gid:\t65534\t65534\t65534\t65534"),
            "{status}"
        );
        frames_of(child);
    }
}
