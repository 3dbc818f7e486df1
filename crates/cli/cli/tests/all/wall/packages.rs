//! What `contrib/package/build` makes of one static binary: each is installed as its users install
//! it, in a root or an environment that holds nothing else, and makes `./demo`'s report there.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;

use lineside_testkit::waiting::Turn;
use serde_json::Value;

use crate::package::{missing, printed};
use crate::support::{example, lineside, repository, talk};
use crate::wall::wire::{need_wire, obstacle};

/// A folder of what serves all tests of a run: each may have a process of its own, of one runner.
/// Those of runners that have ended go.
fn shared() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let runner = name.strip_prefix("packages-of-");
        if runner.is_some_and(|runner| !Path::new("/proc").join(runner).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let runner = std::os::unix::process::parent_id();
    let shared = folder.join(format!("packages-of-{runner}"));
    fs::create_dir_all(&shared).expect("a folder");
    shared
}

/// Something in it, which the first test that needs it makes; `None` where it cannot be made.
fn once(name: &str, make: impl FnOnce(&Path) -> Option<()>) -> Option<PathBuf> {
    let place = shared().join(name);
    let done = place.with_extension("done");
    if !done.exists() {
        make(&place)?;
        fs::write(done, "").expect("a file");
    }
    Some(place)
}

/// The program of this test, linked statically: the library is compiled anyway, so that this takes
/// seconds. `None` where there is no static C library.
fn static_program() -> Option<PathBuf> {
    let make = |to: &Path| {
        let program = PathBuf::from(lineside().get_program());
        let crates = program.with_file_name("deps");
        // A library for each set of features that was ever built: the newest are those of now.
        let libraries = fs::read_dir(&crates).ok()?.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_library = name.starts_with("liblineside_cli-") && name.ends_with(".rlib");
            let written = entry.metadata().and_then(|data| data.modified());
            is_library.then(|| (written.unwrap_or(SystemTime::UNIX_EPOCH), entry.path()))
        });
        let mut libraries: Vec<_> = libraries.collect();
        libraries.sort();
        let mut why = "no library".to_owned();
        for (_, library) in libraries.iter().rev() {
            let mut library_flag = std::ffi::OsString::from("lineside_cli=");
            library_flag.push(library);
            let mut search = std::ffi::OsString::from("dependency=");
            search.push(&crates);
            let mut rustc = Command::new("rustc");
            rustc
                .args(["--edition=2024", "--crate-name=lineside"])
                .args(["-Ctarget-feature=+crt-static", "-Cstrip=symbols"])
                .arg(repository().join("crates/cli/cli/src/bin/lineside.rs"))
                .arg("--extern")
                .arg(library_flag)
                .arg("-L")
                .arg(search)
                .arg("-o")
                .arg(to);
            match rustc.output() {
                Ok(output) if output.status.success() => return Some(()),
                Ok(output) => why = talk(&output),
                Err(error) => why = error.to_string(),
            }
        }
        let why = why.lines().next().unwrap_or_default();
        println!("SKIP: no static program can be linked here: {why}");
        None
    };
    once("lineside-static", make)
}

/// The script, as it is called by a user with this mask of modes.
fn build(out: &Path, binary: &Path, umask: &str) -> Output {
    let call = format!("umask {umask}; exec \"$@\"");
    let mut command = Command::new("sh");
    command
        .args(["-c", &call, "sh"])
        .arg(repository().join("contrib/package/build"))
        .arg(out)
        .arg("--binary")
        .arg(binary)
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .env("LINESIDE_PACKAGE_COMPRESSION", "fast");
    command.output().expect("the script runs")
}

/// The folder with all packages, made once for all tests.
pub(crate) fn packages() -> Option<PathBuf> {
    if missing(&["python3", "cargo"]) {
        return None;
    }
    let _turn = Turn::take("packages");
    let program = static_program()?;
    once("packages", |out| {
        let output = build(out, &program, "022");
        assert!(output.status.success(), "{}", talk(&output));
        Some(())
    })
}

/// A file of the folder with this end.
pub(crate) fn file(folder: &Path, end: &str) -> PathBuf {
    let mut entries = fs::read_dir(folder).expect("there").flatten();
    let found = entries.find(|entry| entry.file_name().to_string_lossy().ends_with(end));
    found.unwrap_or_else(|| panic!("no {end}")).path()
}

fn unpacked(archive: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    printed(
        Command::new("tar")
            .arg("-xf")
            .arg(archive)
            .arg("-C")
            .arg(to),
    );
}

/// What `./demo` does, by a program that is called in a way of its own.
fn shows_the_demo(program: &dyn Fn() -> Command, folder: &Path, inside: &str) {
    fs::copy(example(), folder.join("example.zst")).expect("copied");
    let capture = format!("{inside}/example.zst");
    let trace = format!("{inside}/demo-trace");
    printed(program().args(["capture", &capture, "-o", &trace, "-q"]));
    let report = printed(program().args(["report", &trace]));
    assert!(report.contains("READ "), "{report}");
    let version = printed(program().arg("--version"));
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
}

/// A program that is called without any of this machine's variables.
fn bare(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    command
}

/// The demo in a root that has nothing but what a package put there, and /proc as in every
/// container: no libc, no compiler, no shell.
fn shows_the_demo_in(root: &Path) {
    fs::create_dir_all(root.join("proc")).expect("made");
    let call = || {
        let enter = "mount -t proc proc \"$0/proc\" && exec chroot \"$0\" /usr/bin/lineside \"$@\"";
        let mut command = Command::new("unshare");
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .args(["--mount", "sh", "-c", enter])
            .arg(root);
        command
    };
    shows_the_demo(&call, root, "");
}

#[test]
fn packages_of_one_binary_are_the_same_bytes() {
    let Some(one) = packages() else { return };
    let one = one.as_path();
    let program = static_program().expect("packed");
    let program = program.as_path();
    let two = tempfile::tempdir().expect("a folder");
    let output = build(two.path(), program, "077");
    assert!(output.status.success(), "{}", talk(&output));
    let sums = |of: &Path| fs::read_to_string(of.join("SHA256SUMS")).expect("there");
    assert_eq!(sums(one), sums(two.path()), "two builds, one hash");
    let mut check = Command::new("sha256sum");
    let listed = printed(check.args(["-c", "SHA256SUMS"]).current_dir(one));
    assert_eq!(listed.lines().count(), 7, "{listed}");
    let made = fs::read_dir(one).expect("there").flatten();
    let modes = made.map(|entry| entry.metadata().expect("there").permissions().mode() & 0o777);
    assert!(modes.into_iter().all(|mode| mode == 0o644 || mode == 0o755));
    // Nothing half-made is left beside them.
    assert_eq!(fs::read_dir(one).expect("there").count(), 8);
    names_all_parts(&file(one, ".cdx.json"));
}

/// As CycloneDX 1.6 has it: each part has a place in the graph, and each crate its checksum.
fn names_all_parts(file: &Path) {
    let text = fs::read_to_string(file).expect("there");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(document["specVersion"], "1.6");
    let array = |value: &Value| value.as_array().expect("a list").clone();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let parts = array(&document["components"]);
    let refs: Vec<_> = { parts.iter() }
        .map(|part| text(&part["bom-ref"]))
        .collect();
    let program = text(&document["metadata"]["component"]["bom-ref"]);
    for part in &parts {
        let is_crate = text(&part["bom-ref"]).starts_with("pkg:cargo/");
        assert_eq!(part["hashes"][0]["content"].is_string(), is_crate, "{part}");
        assert!(part["licenses"][0]["expression"].is_string(), "{part}");
    }
    for has in ["pkg:cargo/rustix@", "pkg:cargo/zstd-sys@", "glibc"] {
        assert!(refs.iter().any(|each| each.starts_with(has)), "no {has}");
    }
    for has_not in ["pkg:cargo/proptest@", "pkg:cargo/lineside"] {
        assert!(!refs.iter().any(|each| each.starts_with(has_not)));
    }
    for edge in array(&document["dependencies"]) {
        for each in array(&edge["dependsOn"]).iter().chain([&edge["ref"]]) {
            let name = text(each);
            assert!(name == program || refs.contains(&name), "{name} is no part");
        }
    }
}

#[test]
fn a_deb_installs_in_an_empty_root_and_keeps_the_configuration() {
    if missing(&["dpkg", "dpkg-deb"]) {
        return;
    }
    let Some(out) = packages() else { return };
    let out = out.as_path();
    let folder = tempfile::tempdir().expect("a folder");
    let deb = file(out, ".deb");
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
        "./usr/share/doc/lineside/CHANGELOG.md",
        "./usr/share/doc/lineside/THIRD-PARTY-LICENCES",
        "./usr/share/doc/lineside/docs/README.md",
        "./usr/share/doc/lineside/docs/coming-from.md",
        "./usr/share/doc/lineside/docs/cookbook.md",
        "./usr/share/doc/lineside/docs/glossary.md",
        "./usr/share/doc/lineside/docs/troubleshooting.md",
        "./usr/share/doc/lineside/docs/schema/doctor.schema.json",
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
    let described = printed(Command::new("dpkg-deb").arg("-f").arg(&deb));
    for field in ["Homepage: https://", "Maintainer: The Lineside authors <"] {
        assert!(described.contains(field), "no {field}: {described}");
    }
    let root = folder.path().join("root");
    installed_by_dpkg(&deb, &root);
    leads_nowhere_dead(&root.join("usr/share/doc/lineside"));
    names_all_licences(&root.join("usr/share/doc/lineside/THIRD-PARTY-LICENCES"));
}

/// Installs, changes the configuration, installs again, removes: what the user wrote stays. The
/// demo runs in between; the last is installed again for those who look at files.
fn installed_by_dpkg(deb: &Path, root: &Path) {
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
    match obstacle(&[]) {
        Some(why) => println!("SKIP: no wire: {why}"),
        None => shows_the_demo_in(root),
    }
    let configuration = root.join("etc/lineside/capture.toml");
    fs::write(&configuration, "[capture]\nmemory = \"128MiB\"\n").expect("written");
    dpkg(&["-i", deb]);
    dpkg(&["-r", "lineside"]);
    assert!(!root.join("usr/bin/lineside").exists());
    let kept = fs::read_to_string(&configuration).expect("it stays");
    assert!(kept.contains("128MiB"), "{kept}");
    dpkg(&["-i", deb]);
}

/// Each link between the documents of a package leads to a file or folder of it.
fn leads_nowhere_dead(documents: &Path) {
    let mut links = 0;
    let mut folders = vec![documents.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder)
            .expect("there")
            .flatten()
            .map(|e| e.path())
        {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|end| end != "md") {
                continue;
            }
            let text = fs::read_to_string(&path).expect("text");
            for part in text.split("](").skip(1) {
                let target = part.split([')', '#', ' ']).next().unwrap_or_default();
                if target.is_empty() || target.contains(':') {
                    continue;
                }
                links += 1;
                let to = path.parent().expect("a folder").join(target);
                assert!(to.exists(), "{}: {target} leads nowhere", path.display());
            }
        }
    }
    assert!(links > 50, "{links}");
}

/// A crate of ours, one of others, zstd's C sources, and the libraries that no crate brings.
fn names_all_licences(file: &Path) {
    let text = fs::read_to_string(file).expect("there");
    for part in [
        "\nrustix ",
        "\nzstd-sys ",
        "\nzlib-rs ",
        "Meta Platforms, Inc. and affiliates",
        "The Rust standard library",
        "The GNU C Library",
    ] {
        assert!(text.contains(part), "no {part}");
    }
    for part in ["\nproptest ", "\nclap_derive ", "\nlineside"] {
        assert!(!text.contains(part), "{part} is not linked");
    }
}

#[test]
fn an_rpm_installs_in_an_empty_root() {
    if missing(&["rpm"]) {
        return;
    }
    let Some(out) = packages() else { return };
    let out = out.as_path();
    let folder = tempfile::tempdir().expect("a folder");
    let package = file(out, ".rpm");
    let database = folder.path().join("database");
    let rpm = || {
        let mut command = Command::new("rpm");
        command.arg("--dbpath").arg(&database);
        command
    };
    let checked = printed(rpm().args(["-K", "--nosignature"]).arg(&package));
    assert!(checked.contains("digests OK"), "{checked}");
    let query = "%{NAME} %{VERSION} %{ARCH} %{LICENSE} %{URL} %{BUILDTIME}\n";
    let asked = printed(rpm().args(["-qp", "--qf", query]).arg(&package));
    let words = ["lineside", std::env::consts::ARCH, "https://", "1700000000"];
    assert!(words.iter().all(|word| asked.contains(word)), "{asked}");
    let kept = printed(rpm().args(["-qpc"]).arg(&package));
    assert_eq!(kept, "/etc/lineside/capture.toml\n");
    // Its shell is for the scripts that make the user.
    let needs = printed(rpm().args(["-qp", "--requires"]).arg(&package));
    let foreign = needs
        .lines()
        .find(|need| !need.starts_with("rpmlib(") && *need != "/bin/sh");
    assert_eq!(foreign, None, "{needs}");

    need_wire!();
    let root = folder.path().join("root");
    fs::create_dir(&root).expect("made");
    let mut install = Command::new("rpm");
    install
        .arg(format!("--root={}", root.display()))
        .args(["-i", "--nodeps", "--noscripts", "--nosignature"])
        .arg(&package);
    printed(&mut install);
    shows_the_demo_in(&root);
    let mut verify = Command::new("rpm");
    verify.arg(format!("--root={}", root.display())).args([
        "-V",
        "--nodeps",
        "--noscripts",
        "lineside",
    ]);
    assert_eq!(printed(&mut verify), "", "what is there is what it says");
    leads_nowhere_dead(&root.join("usr/share/doc/lineside"));
}

#[test]
fn a_wheel_installs_in_an_environment_without_a_network() {
    let has_venv = Command::new("python3")
        .args(["-c", "import ensurepip, venv"])
        .status();
    if !has_venv.is_ok_and(|status| status.success()) {
        return println!("SKIP: python3 has no venv (Debian: apt-get install python3-venv)");
    }
    let Some(out) = packages() else { return };
    let out = out.as_path();
    let folder = tempfile::tempdir().expect("a folder");
    let environment = folder.path().join("environment");
    printed(
        Command::new("python3")
            .args(["-m", "venv"])
            .arg(&environment),
    );
    let bin = environment.join("bin");
    let pip = |wheel: &Path| {
        let mut pip = Command::new(bin.join("python"));
        pip.args([
            "-m",
            "pip",
            "install",
            "--no-index",
            "--disable-pip-version-check",
        ]);
        pip.arg(wheel).output().expect("pip runs")
    };
    let wheel = file(out, ".whl");
    let output = pip(&wheel);
    assert!(output.status.success(), "{}", talk(&output));
    let call = || bare(&bin.join("lineside"));
    shows_the_demo(&call, folder.path(), &folder.path().to_string_lossy());
    assert!(environment.join("share/man/man1/lineside.1.gz").exists());
    // Of another architecture: pip refuses by the name.
    let name = wheel.file_name().expect("a name").to_string_lossy();
    let other = folder
        .path()
        .join(name.replace(std::env::consts::ARCH, "s390x"));
    fs::copy(&wheel, &other).expect("copied");
    let output = pip(&other);
    let is_said = talk(&output).contains("is not a supported wheel on this platform");
    assert!(!output.status.success() && is_said, "{}", talk(&output));
}

#[test]
fn an_archive_is_whole_once_it_is_unpacked() {
    let Some(out) = packages() else { return };
    let out = out.as_path();
    let folder = tempfile::tempdir().expect("a folder");
    let archive = file(out, ".tar.xz");
    unpacked(&archive, folder.path());
    let name = archive.file_name().expect("a name").to_string_lossy();
    let at = folder.path().join(name.trim_end_matches(".tar.xz"));
    let manifest =
        fs::read_to_string(repository().join("crates/cli/cli/Cargo.toml")).expect("there");
    let named = manifest.replace("{ version }", env!("CARGO_PKG_VERSION"));
    let named = named.replace("{ target-arch }", std::env::consts::ARCH);
    assert!(
        named.contains(&format!("/{name}\"")),
        "cargo-binstall looks elsewhere"
    );
    for name in [
        "man/man1/lineside.1",
        "completions/lineside.bash",
        "completions/_lineside",
        "completions/lineside.fish",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "README.md",
    ] {
        assert!(at.join(name).exists(), "no {name}");
    }
    let call = || bare(&at.join("lineside"));
    shows_the_demo(&call, folder.path(), &folder.path().to_string_lossy());
    leads_nowhere_dead(&at);
    names_all_licences(&at.join("THIRD-PARTY-LICENCES"));
}

#[test]
fn an_image_holds_what_its_descriptors_say_and_runs() {
    let Some(out) = packages() else { return };
    let out = out.as_path();
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().join("image");
    unpacked(&file(out, ".oci.tar"), &at);
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
    let plain = Command::new("gzip").arg("-dc").arg(&layer).output();
    let tar = folder.path().join("layer.tar");
    fs::write(&tar, plain.expect("gzip runs").stdout).expect("written");
    let sum = printed(Command::new("sha256sum").arg(&tar));
    let diff = config["rootfs"]["diff_ids"][0].as_str().expect("a digest");
    assert_eq!(diff.strip_prefix("sha256:"), sum.split(' ').next());
    let listed = printed(
        Command::new("tar")
            .args(["--numeric-owner", "-tvf"])
            .arg(&tar),
    );
    assert!(listed.contains("-rwxr-xr-x 0/0"), "{listed}");
    let root = folder.path().join("root");
    unpacked(&tar, &root);
    names_all_licences(&root.join("usr/share/doc/lineside/THIRD-PARTY-LICENCES"));
    need_wire!();
    shows_the_demo_in(&root);
}

#[test]
fn the_script_that_packs_refuses_what_it_does_not_know() {
    if missing(&["python3"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let dynamic = lineside().get_program().to_string_lossy().into_owned();
    let head = fs::read(&dynamic).expect("there")[..4096].to_vec();
    let mut foreign = head.clone();
    // s390, in the header of an ELF file.
    foreign[18..20].copy_from_slice(&[22, 0]);
    fs::write(folder.path().join("foreign"), foreign).expect("written");
    fs::write(folder.path().join("text"), "#!/bin/sh\n").expect("written");
    fs::write(folder.path().join("cut"), &head[..100]).expect("written");
    for (arguments, word) in [
        (&[][..], "no folder"),
        (&["out", "--binaries"][..], "unknown flag"),
        (&["out", "--binary"][..], "expected one argument"),
        (&["out", "more"][..], "one folder"),
        (
            &["out", "--architecture", "pdp11"][..],
            "'pdp11' is none of",
        ),
        (&["out", "--binary", "nowhere"][..], "No such file"),
        (&["out", "--binary", "text"][..], "no 64-bit Linux program"),
        (&["out", "--binary", "cut"][..], "cut off"),
        (
            &["out", "--binary", "foreign"][..],
            "is for ELF machine 22, not for",
        ),
        (&["out", "--binary", &dynamic][..], "is not static"),
        (&["text/out", "--binary", &dynamic][..], "Not a directory"),
    ] {
        let output: Output = Command::new(repository().join("contrib/package/build"))
            .args(arguments)
            .env("SOURCE_DATE_EPOCH", "1700000000")
            .current_dir(folder.path())
            .output()
            .expect("it runs");
        let message = talk(&output);
        assert!(
            !output.status.success() && message.contains(word),
            "{message}"
        );
        assert_eq!(message.lines().count(), 1, "{message}");
        let left = fs::read_dir(folder.path().join("out"))
            .into_iter()
            .flatten();
        assert_eq!(left.count(), 0, "{arguments:?} leaves nothing");
    }
}
