//! Runs that cannot start, of each role and for each reason: the trace that `--force` would have
//! replaced is there afterwards, byte by byte.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use lineside_testkit::disk::SmallDisk;

use crate::support::{example, lineside, talk};
use crate::wall::between::Hosts;
use crate::wall::cut_short::fill;
use crate::wall::load_devices::inside;
use crate::wall::load_ends::Served;
use crate::wall::wire::{Namespace, need_wire, private_folder, run};

/// A user without privileges: the overflow user of every kernel.
const NOBODY: u32 = 65_534;

/// What makes a run of each role where `m0` and `m1` are up; it lasts until it is ended.
const ROLES: [(&str, &str); 9] = [
    ("capture -i", "capture -i m0"),
    ("capture FILE", "capture EXAMPLE"),
    ("emulate FILE", "emulate EXAMPLE --delay 1ms --monitor size"),
    ("emulate CMD", "emulate --delay 1ms --monitor size -- true"),
    (
        "emulate --between",
        "emulate --between m0,m1 --monitor size",
    ),
    ("emulate --on", "emulate --on m0"),
    (
        "forward",
        "forward -i m0,m1 --nat 10.9.2.9 --service SERVICE",
    ),
    ("load", "load http://127.0.0.1:9/ -n 10"),
    (
        "load -i",
        "load http://10.9.0.9/ -i m0 --address 10.9.1.0/28 -n 10",
    ),
];

/// What is in a folder, and in the folders in it.
fn held(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(folder).expect("there");
    let entries = entries.map(|entry| entry.expect("an entry").path());
    let each = entries.flat_map(|path| match path.is_dir() {
        true => held(&path),
        false => BTreeMap::from([(path.clone(), std::fs::read(&path).expect("readable"))]),
    });
    each.collect()
}

/// The words of a role, in the namespace, which would replace `out`.
fn role(between: &Namespace, words: &str, out: &Path) -> Command {
    let mut command = inside(between);
    let (verb, rest) = words.split_once(' ').expect("two words");
    command.args([verb, "--force", "-o"]).arg(out);
    for word in rest.split(' ') {
        match word {
            "EXAMPLE" => command.arg(example()),
            "SERVICE" => command.arg("tcp 10.9.1.100:80 to 192.0.2.2:8080"),
            word => command.arg(word),
        };
    }
    command
}

/// A trace with tables, as a run before left it.
fn old_run(out: &Path) {
    let mut command = lineside();
    let made = command
        .args(["capture", "-q", "-o"])
        .arg(out)
        .arg(example());
    let output = made.output().expect("it runs");
    assert!(output.status.success(), "{}", talk(&output));
}

/// A run that would replace `out` fails, and `out` is as it was.
fn fails(what: &str, command: &mut Command, out: &Path) {
    let before = held(out);
    assert!(before.len() > 1, "{what}: a trace");
    let output = command.output().expect("it runs");
    let message = talk(&output);
    assert!(!output.status.success(), "{what}: it started: {message}");
    let after = held(out);
    let names = |held: &BTreeMap<PathBuf, _>| held.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&before), names(&after), "{what}: {message}");
    assert!(before == after, "{what}: other bytes: {message}");
    println!("{what}: {}", message.lines().last().unwrap_or_default());
}

/// What makes the start of roles fail: a name, what is done to the words of the roles in which a
/// word occurs, and to the namespace before.
type Failure = (
    &'static str,
    &'static str,
    fn(&str) -> String,
    &'static [&'static str],
);

const FAILURES: [Failure; 11] = [
    (
        "an interface is missing",
        "m0",
        |words| words.replace("m0", "none0"),
        &[],
    ),
    (
        "the second interface is missing",
        "m1",
        |words| words.replace("m1", "none1"),
        &[],
    ),
    (
        "an interface is down",
        "m0",
        str::to_owned,
        &["link set m0 down"],
    ),
    (
        "the second interface is down",
        "m1",
        str::to_owned,
        &["link set m1 down"],
    ),
    ("nobody listens", "http", str::to_owned, &[]),
    (
        "a server has no address",
        "http",
        |words| {
            words
                .replace("127.0.0.1", "no-such-host.invalid")
                .replace("10.9.0.9", "10.9.0.9:0")
        },
        &[],
    ),
    (
        "a host has the address",
        "forward",
        |words| words.replace("10.9.2.9", "192.0.2.7"),
        &["addr add 192.0.2.7/24 dev m0"],
    ),
    (
        "a file is missing",
        "EXAMPLE",
        |words| words.replace("EXAMPLE", "/nonexistent/file"),
        &[],
    ),
    (
        "a file is no capture",
        "EXAMPLE",
        |words| words.replace("EXAMPLE", "/proc/self/status"),
        &[],
    ),
    (
        "a command is missing",
        "-- true",
        |words| words.replace("-- true", "-- no-such-command"),
        &[],
    ),
    (
        "a setting is no setting",
        "",
        |words| {
            let (verb, rest) = words.split_once(' ').expect("two words");
            format!("{verb} --memory 1 {rest}")
        },
        &[],
    ),
];

/// By a table of roles and failures: whoever adds a role to the first adds it to all.
#[test]
fn a_run_that_cannot_start_replaces_nothing() {
    need_wire!("ip");
    let hosts = Hosts::new();
    let folder = private_folder();
    let out = folder.path().join("run");
    old_run(&out);
    for (failure, word, change, before) in FAILURES {
        before.iter().for_each(|words| hosts.between.ip(words));
        for (name, words) in ROLES.iter().filter(|(_, words)| words.contains(word)) {
            let mut command = role(&hosts.between, &change(words), &out);
            fails(&format!("{name}: {failure}"), &mut command, &out);
        }
        for port in ["m0", "m1"] {
            hosts.between.ip(&format!("link set {port} up"));
            hosts.between.ip(&format!("addr flush dev {port}"));
        }
    }
}

/// Words that name what cannot be opened or written.
#[test]
fn a_run_whose_files_cannot_be_had_replaces_nothing() {
    need_wire!("ip");
    let hosts = Hosts::new();
    let folder = private_folder();
    let out = folder.path().join("run");
    old_run(&out);
    let config = folder.path().join("config.toml");
    std::fs::write(&config, "[capture\n").expect("written");
    let config = config.display().to_string();
    let log = folder.path().join("log");
    std::fs::write(&log, "an older log").expect("written");
    for (name, words) in ROLES {
        let (verb, rest) = words.split_once(' ').expect("two words");
        let flags = [
            "--config /nonexistent.toml".to_owned(),
            format!("--config {config}"),
        ];
        let pcap = "--write-pcap /nonexistent/folder/file.pcapng".to_owned();
        for flags in flags.into_iter().chain([pcap]) {
            if flags.contains("pcap") && name == "load" {
                // The kernel's sockets show no frames.
                continue;
            }
            let words = format!("{verb} {flags} {rest}");
            let mut command = role(&hosts.between, &words, &out);
            fails(&format!("{name}: {flags}"), &mut command, &out);
        }
        if verb == "load" {
            let words = format!("{words} --hdr {}", log.display());
            let mut command = role(&hosts.between, &words, &out);
            fails(&format!("{name}: --hdr"), &mut command, &out);
            assert_eq!(std::fs::read(&log).expect("there"), b"an older log");
        }
    }
}

/// Without privileges, in a folder of that user's.
#[test]
fn a_run_without_privileges_replaces_nothing() {
    need_wire!("ip");
    let hosts = Hosts::new();
    let folder = tempfile::tempdir_in("/tmp").expect("a folder");
    let out = folder.path().join("run");
    old_run(&out);
    let mut chown = Command::new("chown");
    run(chown.args(["-R", &NOBODY.to_string()]).arg(folder.path()));
    for (name, words) in ROLES {
        if ["capture FILE", "emulate FILE", "emulate CMD", "load"].contains(&name) {
            // These need none.
            continue;
        }
        let command = role(&hosts.between, words, &out);
        let words = command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned());
        let words: Vec<_> = words.collect();
        // `ip netns exec` is root's: the program becomes the user.
        let mut each = words.iter();
        let at = each.position(|word| word.ends_with("lineside"));
        let at = at.expect("the program");
        let mut command = hosts.between.command("setpriv");
        command.args(["--reuid", &NOBODY.to_string(), "--clear-groups"]);
        fails(&format!("{name}: nobody"), command.args(&words[at..]), &out);
    }
}

/// On a disk that is full up to the last block.
#[test]
fn a_run_without_room_replaces_nothing() {
    need_wire!("ip");
    let hosts = Hosts::new();
    let folder = tempfile::tempdir().expect("a folder");
    let disk = SmallDisk::mount(folder.path(), 1 << 20).expect("root mounts");
    let out = disk.folder().join("run");
    old_run(&out);
    fill(disk.folder());
    let served = Served::of(inside(&hosts.between), &["http", "127.0.0.1:9"]);
    for (name, words) in ROLES {
        let mut command = role(&hosts.between, words, &out);
        fails(&format!("{name}: no room"), &mut command, &out);
    }
    drop(served);
    // With room, the next run takes its place.
    std::fs::remove_file(disk.folder().join("filler")).expect("removed");
    let before = held(&out);
    let words = "emulate --between m0,m1 --duration 100ms";
    let output = role(&hosts.between, words, &out).output().expect("it runs");
    assert!(
        matches!(output.status.code(), Some(0 | 4)),
        "{}",
        talk(&output)
    );
    assert!(held(&out).keys().all(|path| path.ends_with("trace.json")));
    assert!(held(&out) != before);
}
