//! Privileges, in processes of their own: what is left after they were dropped, and whether the
//! line that an error offers works when it is pasted.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use lineside_testkit::programs::install;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_privileged");
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("SKIP: only root has privileges to drop or give");
    }
    is_root
}

fn text(output: &Output) -> String {
    let talk = String::from_utf8_lossy(&output.stderr);
    String::from_utf8_lossy(&output.stdout).into_owned() + &talk
}

/// Root's alone, but for `shared`, which is the user's, in it.
struct Folders {
    root: TempDir,
}

impl Folders {
    fn new(user: u32) -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let folders = Self { root };
        fs::create_dir(folders.shared()).expect("created");
        chown(folders.shared(), Some(user), Some(user)).expect("root may");
        folders
    }

    fn shared(&self) -> PathBuf {
        self.root.path().join("shared")
    }

    fn run(&self) -> PathBuf {
        self.root.path().join("run")
    }

    fn drop_with(&self, command: &mut Command) -> String {
        command
            .arg("drop")
            .arg(self.run())
            .arg(self.shared().join("out.pcapng"));
        // A child of another test that was just forked may hold a copy of the program that this
        // one wrote: until it has begun its own.
        let mut output = command.output();
        while output
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::ExecutableFileBusy)
        {
            output = command.output();
        }
        let output = output.expect("it runs");
        let text = text(&output);
        assert!(output.status.success(), "{text}");
        text
    }

    /// What was written by a user who could no longer look any path up, and whose it all is.
    fn check(&self, owner: u32) {
        let run = self.run();
        let manifest = fs::read(run.join("trace.json")).expect("replaced");
        assert_eq!(manifest, b"ended as somebody else");
        let mut paths = vec![run.clone(), run.join("operations"), run.join("trace.json")];
        for index in 0..3 {
            paths.push(run.join(format!("operations/part-{index:06}.parquet")));
        }
        let files = fs::read_dir(self.shared()).expect("there");
        let files: Vec<PathBuf> = files.map(|file| file.expect("an entry").path()).collect();
        // Five frames of one each, then an empty file; of these the last three are kept.
        assert_eq!(files.len(), 3, "{files:?}");
        let owners = paths.iter().map(|path| (path, owner));
        // A process of root's makes those of the later frames.
        let owners = owners.chain(files.iter().map(|path| (path, owner)));
        for (path, owner) in owners {
            let facts = fs::metadata(path).expect("there");
            let found = (facts.uid(), facts.gid());
            assert_eq!(found, (owner, owner), "{}", path.display());
        }
    }
}

fn assert_nothing_is_left(text: &str, user: u32) {
    let field = |name: &str| -> Vec<&str> {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name}: {text}"))
            .split_whitespace()
            .collect()
    };
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(field(set), ["0000000000000000"], "{set}");
    }
    assert_eq!(field("NoNewPrivs:"), ["1"]);
    let user = user.to_string();
    assert_eq!(field("Uid:"), [&user[..]; 4]);
    assert_eq!(field("Gid:"), [&user[..]; 4]);
    assert!(
        text.contains("AF_PACKET: Operation not permitted"),
        "{text}"
    );
}

#[test]
fn root_becomes_nobody_or_the_sudo_user_and_still_writes() {
    if !is_root() {
        return;
    }
    for (sudo, user, owner) in [
        (None, NOBODY, 0),
        (Some("1234"), 1234, 1234),
        (Some("0"), NOBODY, 0),
    ] {
        let folders = Folders::new(user);
        let mut command = Command::new(PROGRAM);
        command.env_remove("SUDO_UID").env_remove("SUDO_GID");
        if let Some(id) = sudo {
            command.env("SUDO_UID", id).env("SUDO_GID", id);
        }
        let text = folders.drop_with(&mut command);
        assert_nothing_is_left(&text, user);
        assert!(text.contains("is_namespace_root: false"), "{text}");
        assert!(field_is_empty(&text, "Groups:"), "{text}");
        folders.check(owner);
    }
}

fn field_is_empty(text: &str, name: &str) -> bool {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.is_some_and(|rest| rest.trim().is_empty())
}

#[test]
fn a_set_user_id_file_goes_on_as_its_user() {
    if !is_root() {
        return;
    }
    let (folder, program) = copy_of_program();
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).expect("its owner may");
    let folders = Folders::new(1234);
    let mut command = Command::new(&program);
    command
        .uid(1234)
        .gid(1234)
        .env("SUDO_UID", "7")
        .env("SUDO_GID", "7");
    let text = folders.drop_with(&mut command);
    assert_nothing_is_left(&text, 1234);
    folders.check(1234);
    drop(folder);
}

#[test]
fn later_files_are_made_by_root_where_the_user_may_not() {
    if !is_root() {
        return;
    }
    let folders = Folders::new(1);
    let mut command = Command::new(PROGRAM);
    let text = folders.drop_with(command.env_remove("SUDO_UID"));
    assert_nothing_is_left(&text, NOBODY);
    folders.check(0);
}

#[test]
fn root_of_a_single_user_namespace_keeps_no_capabilities() {
    let folders = tempfile::tempdir().expect("a folder");
    let unshared = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user"]).args(arguments);
        command.current_dir(folders.path());
        command.output()
    };
    if !unshared(&["true"]).is_ok_and(|output| output.status.success()) {
        println!("SKIP: no user namespace can be made here");
        return;
    }
    let output = unshared(&[PROGRAM, "drop", "run", "out.pcapng"]).expect("it runs");
    let report = text(&output);
    assert!(output.status.success(), "{report}");
    assert_nothing_is_left(&report, 0);
    assert!(report.contains("is_namespace_root: true"), "{report}");
    let manifest = fs::read(folders.path().join("run/trace.json")).expect("replaced");
    assert_eq!(manifest, b"ended as somebody else");
    let output = unshared(&[PROGRAM, "require", "CAP_NET_RAW", "CAP_BPF"]).expect("it runs");
    assert!(text(&output).contains("no CAP_BPF: in a user namespace"));
    // The network namespace is the machine's, so that the socket is refused: only the capability is
    // there.
    let output = unshared(&[PROGRAM, "require", "CAP_NET_RAW"]).expect("it runs");
    assert!(output.status.success(), "{}", text(&output));
}

/// A copy that everyone may run, in a folder whose name needs care in a shell.
fn copy_of_program() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let everyone = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o755));
    everyone(folder.path()).expect("its owner may");
    let inner = folder.path().join("it's here");
    fs::create_dir(&inner).expect("created");
    everyone(&inner).expect("its owner may");
    let program = inner.join("privileged");
    install(PROGRAM.as_ref(), &program);
    (folder, program)
}

#[test]
fn the_line_that_an_error_offers_works_when_pasted() {
    if !is_root() {
        return;
    }
    if Command::new("setcap").arg("-h").output().is_err() {
        println!("SKIP: setcap is not installed");
        return;
    }
    let (folder, program) = copy_of_program();
    let require = || {
        let mut command = Command::new(&program);
        command.args(["require", "CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF"]);
        command.uid(NOBODY).gid(NOBODY).output().expect("it runs")
    };
    let refused = require();
    let talk = text(&refused);
    assert!(!refused.status.success(), "{talk}");
    assert!(
        talk.contains("no CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF: run it as root"),
        "{talk}"
    );
    let line = { talk.lines() }.find(|line| line.trim().starts_with("sudo setcap "));
    // Whoever runs this test is root already, and may have no sudo.
    let pasted = format!("sudo() {{ \"$@\"; }}\n{}", line.expect("a line to paste"));
    let setcap = Command::new("sh")
        .args(["-c", &pasted])
        .output()
        .expect("a shell");
    assert!(setcap.status.success(), "{}", text(&setcap));
    let output = require();
    let talk = text(&output);
    assert!(output.status.success(), "{talk}");
    assert!(talk.contains("AF_PACKET: opened"), "{talk}");
    let barred = Command::new("setpriv")
        .arg("--no-new-privs")
        .arg(&program)
        .args(["require", "CAP_NET_RAW"])
        .uid(NOBODY)
        .gid(NOBODY)
        .output();
    let talk = text(&barred.expect("util-linux"));
    assert!(talk.contains("(no_new_privs is set)"), "{talk}");
    let bounded = Command::new("setpriv")
        .args(["--bounding-set", "-net_raw", PROGRAM])
        .args(["require", "CAP_NET_RAW"])
        .output();
    let talk = text(&bounded.expect("util-linux"));
    assert!(talk.contains("(not in its bounding set)"), "{talk}");
    drop(folder);
}
