//! What `contrib/package` makes: a package, a unit and an image that do as the guide says.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{lineside, repository, talk};
use crate::wire::{Namespace, Running, need_wire, private_folder};

fn missing(tools: &[&str]) -> bool {
    let is_missing = |tool: &&&str| {
        let found = Command::new("sh")
            .args(["-c", "command -v \"$0\"", tool])
            .output();
        !found.is_ok_and(|output| output.status.success())
    };
    match tools.iter().find(is_missing) {
        Some(tool) => println!("SKIP: {tool} is missing"),
        None => return false,
    }
    true
}

fn printed(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{command:?}: {}", talk(&output));
    String::from_utf8(output.stdout).expect("text")
}

fn unit() -> PathBuf {
    repository().join("contrib/package/lineside-capture@.service")
}

/// The package around a binary, by way of a folder of its own.
fn packed(binary: &Path, umask: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let build = format!("umask {umask}; exec \"$@\"");
    let script = repository().join("contrib/package/build");
    let mut command = Command::new("bash");
    command
        .args(["-c", &build, "bash"])
        .args([script.as_os_str(), folder.path().as_os_str()])
        .arg("--binary")
        .arg(binary)
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .env("LINESIDE_PACKAGE_COMPRESSION", "gzip");
    printed(&mut command);
    folder
}

/// A file of the folder with this end.
fn file(folder: &Path, end: &str) -> PathBuf {
    let mut entries = fs::read_dir(folder).expect("there").flatten();
    let found = entries.find(|entry| entry.file_name().to_string_lossy().ends_with(end));
    found.unwrap_or_else(|| panic!("no {end}")).path()
}

/// Without what a debugger needs it packs ten times as fast.
fn stripped(folder: &Path) -> PathBuf {
    let to = folder.join("lineside");
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&to).arg(lineside().get_program());
    if !strip.status().is_ok_and(|status| status.success()) {
        fs::copy(lineside().get_program(), &to).expect("copied");
    }
    to
}

#[test]
fn the_package_installs_and_two_builds_are_alike() {
    if missing(&["bash", "dpkg", "dpkg-deb"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let binary = stripped(folder.path());
    let (one, two) = (packed(&binary, "022"), packed(&binary, "077"));
    let sums = |of: &TempDir| fs::read_to_string(of.path().join("SHA256SUMS")).expect("there");
    assert_eq!(sums(&one), sums(&two), "two builds, one hash");

    let deb = file(one.path(), ".deb");
    let listed = printed(Command::new("dpkg-deb").arg("-c").arg(&deb));
    for name in [
        "./usr/bin/lineside",
        "./lib/systemd/system/lineside-capture@.service",
        "./usr/lib/sysusers.d/lineside.conf",
        "./etc/lineside/capture.toml",
        "./usr/share/man/man1/lineside.1.gz",
        "./usr/share/man/man1/lineside-doctor.1.gz",
        "./usr/share/bash-completion/completions/lineside",
        "./usr/share/zsh/vendor-completions/_lineside",
        "./usr/share/fish/vendor_completions.d/lineside.fish",
        "./usr/share/doc/lineside/copyright",
        "./usr/share/doc/lineside/changelog.gz",
        "./usr/share/doc/lineside/schema/doctor.schema.json",
    ] {
        let line = listed.lines().find(|line| line.ends_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name}: {listed}"));
        let is_right = line.contains(" root/root ") && line.contains("2023-11-14");
        let mode = if name.ends_with("bin/lineside") {
            "-rwxr-xr-x"
        } else {
            "-rw-r--r--"
        };
        assert!(is_right && line.starts_with(mode), "{line}");
    }
    installed(&deb, folder.path());
    image(one.path(), folder.path());
}

/// Installs, changes the configuration, installs again, removes: what the user wrote stays.
fn installed(deb: &Path, folder: &Path) {
    let root = folder.join("root");
    for name in ["info", "updates", "triggers"] {
        fs::create_dir_all(root.join("var/lib/dpkg").join(name)).expect("made");
    }
    fs::write(root.join("var/lib/dpkg/status"), "").expect("written");
    let dpkg = |arguments: &[&str]| {
        let mut command = Command::new("dpkg");
        command
            .arg(format!("--root={}", root.display()))
            .arg("--log=/dev/null")
            .args(["--force-not-root", "--force-script-chrootless"])
            .args(arguments)
            .env(
                "PATH",
                "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin",
            );
        printed(&mut command)
    };
    let deb = deb.to_str().expect("text");
    dpkg(&["-i", deb]);
    let version = printed(Command::new(root.join("usr/bin/lineside")).arg("--version"));
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    let configuration = root.join("etc/lineside/capture.toml");
    fs::write(&configuration, "[capture]\nmemory = \"128MiB\"\n").expect("written");
    dpkg(&["-i", deb]);
    dpkg(&["-r", "lineside"]);
    assert!(!root.join("usr/bin/lineside").exists());
    let kept = fs::read_to_string(&configuration).expect("it stays");
    assert!(kept.contains("128MiB"), "{kept}");
}

/// Every blob is what its name says, and each descriptor leads to one of its size.
fn image(out: &Path, folder: &Path) {
    let at = folder.join("image");
    fs::create_dir(&at).expect("made");
    let archive = file(out, ".oci.tar");
    printed(
        Command::new("tar")
            .arg("-xf")
            .arg(archive)
            .arg("-C")
            .arg(&at),
    );
    let json = |path: PathBuf| -> Value {
        serde_json::from_str(&fs::read_to_string(path).expect("there")).expect("JSON")
    };
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().expect("a digest");
        let hash = digest.strip_prefix("sha256:").expect("SHA-256");
        let path = at.join("blobs/sha256").join(hash);
        let len = fs::metadata(&path).expect("there").len();
        assert_eq!(descriptor["size"], len, "{descriptor}");
        let sum = printed(Command::new("sha256sum").arg(&path));
        assert!(sum.starts_with(hash), "{sum}");
        path
    };
    assert_eq!(json(at.join("oci-layout"))["imageLayoutVersion"], "1.0.0");
    let manifest = json(blob(&json(at.join("index.json"))["manifests"][0]));
    let config = json(blob(&manifest["config"]));
    assert_eq!(config["config"]["Entrypoint"][0], "/usr/bin/lineside");
    let layer = blob(&manifest["layers"][0]);
    let plain = Command::new("gzip")
        .arg("-dc")
        .arg(&layer)
        .output()
        .expect("gzip runs");
    let tar = folder.join("layer.tar");
    fs::write(&tar, plain.stdout).expect("written");
    let sum = printed(Command::new("sha256sum").arg(&tar));
    let diff = config["rootfs"]["diff_ids"][0].as_str().expect("a digest");
    assert_eq!(diff.strip_prefix("sha256:"), sum.split(' ').next());
    let listed = printed(Command::new("tar").arg("-tvf").arg(&tar));
    assert!(listed.contains("-rwxr-xr-x 0/0"), "{listed}");
}

#[test]
fn the_script_that_packs_refuses_what_it_does_not_know() {
    if missing(&["bash", "dpkg", "dpkg-deb"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (arguments, word) in [
        (&[][..], "no folder"),
        (&["out", "--binaries"][..], "unknown flag"),
        (&["out", "--binary"][..], "takes a FILE"),
        (&["out", "more"][..], "one folder"),
    ] {
        let output: Output = Command::new(repository().join("contrib/package/build"))
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .expect("it runs");
        assert!(
            !output.status.success() && talk(&output).contains(word),
            "{}",
            talk(&output)
        );
    }
}

#[test]
fn the_unit_is_sound_and_little_exposed() {
    if missing(&["systemd-analyze"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let text = fs::read_to_string(unit()).expect("there");
    let program = lineside().get_program().to_string_lossy().into_owned();
    let copy = folder.path().join("lineside-capture@.service");
    fs::write(&copy, text.replace("/usr/bin/lineside", &program)).expect("written");
    let verify = |path: &Path| {
        let mut command = Command::new("systemd-analyze");
        let output = command.args(["verify", "--man=no"]).arg(path).output();
        output.expect("it runs")
    };
    let output = verify(&copy);
    assert!(output.status.success(), "{}", talk(&output));
    assert_eq!(talk(&output), "");
    // The check finds errors.
    fs::write(&copy, text.replace("WatchdogSec=30s", "WatchdogSec=often")).expect("written");
    assert_ne!(talk(&verify(&copy)), "");
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--offline=true", "--no-pager", "--threshold=25"]);
    printed(security.arg(unit()));
}

/// A real systemd: the service has its own user and no rights left, is in the sandbox, and comes
/// back after a kill, which the run of before tells.
#[test]
fn a_systemd_starts_and_restarts_the_unit() {
    need_wire!();
    if missing(&["unshare", "nsenter", "systemctl"]) || !Path::new("/lib/systemd/systemd").exists()
    {
        return println!("SKIP: systemd is missing");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let made = packed(&stripped(folder.path()), "022");
    let script = "set -e
        process() { systemctl show --property MainPID --value $unit; }
        first=$(process)
        grep -E '^(Uid|CapEff|NoNewPrivs)' /proc/$first/status
        kill -KILL $first
        for _ in $(seq 100); do
            if [ $(process) != $first ] && systemctl is-active --quiet $unit; then break; fi
            sleep .1
        done
        lineside info $folder
        cat $(ls -d $folder/run=* | head -1)/trace.json";
    let mut lab = Command::new(repository().join("lab/unit"));
    let said = printed(lab.arg(file(made.path(), ".deb")).arg(script));
    let (said, manifest) = said.split_once("\n{").expect("a manifest at the end");
    let manifest: Value = serde_json::from_str(&format!("{{{manifest}")).expect("JSON");
    let sandbox = serde_json::json!({ "holds": ["landlock", "seccomp"], "missing": [] });
    assert_eq!(manifest["sandbox"]["holds"], sandbox["holds"], "{said}");
    assert_eq!(manifest["sandbox"]["missing"], sandbox["missing"], "{said}");
    assert_eq!(manifest["verdict"]["state"], "incomplete", "{said}");
    assert!(!said.contains("Uid:\t0"), "root: {said}");
    for part in [
        "CapEff:\t0000000000000000",
        "NoNewPrivs:\t1",
        "  killed: ",
        "  gap: nothing is recorded",
        "goes on, 0 operations: unfinished",
    ] {
        assert!(said.contains(part), "no '{part}': {said}");
    }
}

#[test]
fn the_unit_calls_capture_with_flags_that_it_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = fs::read_to_string(unit()).expect("there");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="))
        .expect("a command");
    let help = printed(lineside().args(["capture", "--help"]));
    let configuration = repository().join("contrib/package/capture.toml");
    let words = line.split(' ').skip(1).map(|word| {
        let word = word.replace(
            "/etc/lineside/capture.toml",
            &configuration.to_string_lossy(),
        );
        word.replace("/var/lib/lineside", &folder.path().to_string_lossy())
            .replace("%i", "nowhere0")
    });
    // Until capture writes runs into partitions of a folder.
    let words: Vec<String> = words
        .filter(|word| word != "--runs" || help.contains("--runs"))
        .collect();
    let output = lineside().args(&words).output().expect("it runs");
    assert!(!output.status.success());
    assert!(
        talk(&output).contains("nowhere0"),
        "{words:?}: {}",
        talk(&output)
    );
    assert!(
        !talk(&output).contains("unexpected argument"),
        "{}",
        talk(&output)
    );
}

#[test]
fn a_service_says_that_it_is_ready_alive_and_stopping() {
    need_wire!();
    let service = "tcp 10.9.1.100:80 to 10.9.2.2:8080";
    for words in [
        &["capture", "-i", "here"][..],
        &["emulate", "--between", "here,there"],
        &[
            "forward",
            "--ports",
            "here,there",
            "--nat",
            "10.9.2.100",
            "--service",
            service,
        ],
    ] {
        says_how_it_goes(words);
    }
}

fn says_how_it_goes(words: &[&str]) {
    let namespace = Namespace::new("notify");
    for end in ["here", "there"] {
        namespace.ip(&format!("link add {end} type veth peer name {end}0"));
        namespace.ip(&format!("link set {end} up"));
        namespace.ip(&format!("link set {end}0 up"));
    }
    let folder = private_folder();
    let path = folder.path().join("notify");
    let listener = UnixDatagram::bind(&path).expect("bound");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("its owner");
    listener
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("set");
    let out = folder.path().join("trace");
    let mut command = namespace.command(lineside().get_program());
    command
        .args(words)
        .arg("-o")
        .arg(&out)
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "400000")
        .current_dir(folder.path());
    let running = Running::spawn(&mut command, out, folder);
    let heard = || {
        let mut room = [0; 512];
        let len = loop {
            match listener.recv(&mut room) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                received => break received.expect("it says something"),
            }
        };
        String::from_utf8_lossy(&room[..len]).into_owned()
    };
    // What comes first says that the interface is open.
    assert_eq!(heard(), "READY=1", "{words:?}");
    let (mut beats, mut has_status) = (0, false);
    // Nothing passes the interface: the signs come from the loop all the same.
    while beats < 8 || !has_status {
        match heard().as_str() {
            "WATCHDOG=1" => beats += 1,
            status if status.starts_with("STATUS=") => has_status = true,
            other => panic!("{words:?}: {other}"),
        }
        assert!(beats < 40, "{words:?}: no status");
    }
    running.signal("TERM");
    while heard() != "STOPPING=1" {}
    running.end();
}
