//! How the program is built: how large it may become, and which commit it says it is of.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lineside_testkit::programs::install_script;
use serde_json::{Value, json};

use crate::package::{missing, printed};
use crate::support::{lineside, repository, talk};

/// How much above `bench/build.json` is too much.
const TOLERANCE: f64 = 1.10;

/// What a small crate may grow by: a function or two.
const SLACK_BYTES: f64 = 16_384.0;

/// Machine code by crate. Names are rustc's: `_ZN`, then each part behind its length; or `_R` and a
/// grammar in which `C` begins a crate.
fn code_by_crate(program: &[u8]) -> BTreeMap<String, u64> {
    let word = |at: usize, len: usize| -> usize {
        let bytes = &program[at..at + len];
        let byte = |sum: usize, each: &u8| sum << 8 | usize::from(*each);
        bytes.iter().rev().fold(0, byte)
    };
    // The ELF header's table of sections: of the symbols and, by its link, of their names.
    let (sections, count) = (word(40, 8), word(60, 2));
    let at = |section: usize| sections + 64 * section;
    let symbols = (0..count).map(at).find(|&at| word(at + 4, 4) == 2);
    let symbols = symbols.expect("the program of a test has symbols");
    let names = word(at(word(symbols + 40, 4)) + 24, 8);
    let (start, len) = (word(symbols + 24, 8), word(symbols + 32, 8));
    let (mut seen, mut sizes) = (BTreeSet::new(), BTreeMap::new());
    for symbol in (start..start + len).step_by(24) {
        // Functions, each place once.
        let is_function = program[symbol + 4] & 15 == 2;
        let (place, size) = (word(symbol + 8, 8), word(symbol + 16, 8));
        if !is_function || size == 0 || !seen.insert(place) {
            continue;
        }
        let name = &program[names + word(symbol, 4)..];
        let end = name.iter().position(|&byte| byte == 0).expect("an end");
        let name = String::from_utf8_lossy(&name[..end]).into_owned();
        *sizes.entry(crate_of(&name)).or_default() += size as u64;
    }
    sizes
}

fn crate_of(symbol: &str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let found = if let Some(parts) = symbol.strip_prefix("_ZN") {
        let first = parts.trim_start_matches(|c: char| c.is_ascii_digit());
        let len = parts[..parts.len() - first.len()].parse().unwrap_or(0);
        let first = first.get(..len).unwrap_or_default();
        // An implementation: `_$LT$serde_json..de..Deserializer$u20$as…`: the first path in it.
        let path = first.split("..").next().unwrap_or_default();
        path.rsplit(|c| !is_name(c)).next().map(ToOwned::to_owned)
    } else if let Some(path) = symbol.strip_prefix("_R") {
        path.match_indices('C').find_map(|(at, _)| {
            let mut rest = &path[at + 1..];
            if let Some(number) = rest.strip_prefix('s') {
                rest = &number[number.find('_')? + 1..];
            }
            let name = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            let len: usize = rest[..rest.len() - name.len()].parse().ok()?;
            let name = name.strip_prefix('_').unwrap_or(name);
            name.get(..len).map(ToOwned::to_owned)
        })
    } else {
        None
    };
    let is_rust = |name: &String| !name.is_empty() && name.chars().all(is_name);
    found.filter(is_rust).unwrap_or_else(|| "C".to_owned())
}

/// The crates that a build of the program compiles, by `cargo metadata`: linked ones, procedural
/// macros, build scripts' dependencies.
fn crates_in_the_build() -> usize {
    let rustc = printed(Command::new("rustc").arg("-vV"));
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: "));
    let mut cargo = Command::new("cargo");
    cargo
        .args(["metadata", "--format-version=1", "--locked"])
        .args(["--filter-platform", host.expect("a host")])
        .current_dir(repository());
    let metadata: Value = serde_json::from_str(&printed(&mut cargo)).expect("JSON");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let nodes = list(&metadata["resolve"]["nodes"]);
    let id = |value: &Value| value.as_str().expect("an id").to_owned();
    let node = |of: &str| nodes.iter().find(|node| node["id"] == of);
    let cli = list(&metadata["packages"]);
    let cli = cli.iter().find(|package| package["name"] == "lineside-cli");
    let (mut found, mut todo) = (BTreeSet::new(), vec![id(&cli.expect("it is there")["id"])]);
    while let Some(of) = todo.pop() {
        let Some(node) = node(&of).filter(|_| found.insert(of.clone())) else {
            continue;
        };
        for dependency in list(&node["deps"]) {
            let kinds = list(&dependency["dep_kinds"]);
            if kinds.iter().any(|kind| kind["kind"] != "dev") {
                todo.push(id(&dependency["pkg"]));
            }
        }
    }
    found.len()
}

#[test]
fn the_program_is_no_larger_than_recorded() {
    let path = repository().join("bench/build.json");
    let text = fs::read_to_string(&path).expect("the record");
    let mut record: Value = serde_json::from_str(&text).expect("JSON");
    let rustc = printed(Command::new("rustc").arg("--version"));
    // Incremental builds cut crates into other units, which has more copies of what is generic.
    let units = match option_env!("CARGO_INCREMENTAL") {
        Some("0") => "whole",
        _ => "incremental",
    };
    let here = format!("{}, {}, {units}", rustc.trim(), std::env::consts::ARCH);
    let sizes = code_by_crate(&fs::read(lineside().get_program()).expect("the program"));
    let crates = crates_in_the_build();
    if std::env::var_os("LINESIDE_BLESS").is_some() {
        record["crates"] = json!(crates);
        record["code_of"] = json!(here);
        record["code_bytes_by_crate"] = json!(sizes);
        let text = serde_json::to_string_pretty(&record).expect("JSON");
        return fs::write(&path, text + "\n").expect("written");
    }
    let why = "bench/README.md, \"Building\", says what to look at; if it is worth that, say so in \
        a commit, with LINESIDE_BLESS=1";
    let recorded = record["crates"].as_f64().expect("a number");
    assert!(
        crates as f64 <= recorded * TOLERANCE,
        "{crates} crates are built, recorded are {recorded}: {why}"
    );
    if record["code_of"] != here.as_str() {
        return println!("SKIP: machine code was recorded of {}", record["code_of"]);
    }
    let before = record["code_bytes_by_crate"].as_object().expect("sizes");
    let of = |name: &str| before.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    let grown = |now: u64, then: f64| now as f64 > then * TOLERANCE + SLACK_BYTES;
    for (name, &now) in &sizes {
        let then = of(name);
        let sum = "bytes of machine code in the program of the tests";
        assert!(
            !grown(now, then),
            "{name}: {now} {sum}, recorded are {then}: {why}"
        );
    }
    let then = before.values().filter_map(Value::as_f64).sum();
    let now: u64 = sizes.values().sum();
    assert!(
        !grown(now, then),
        "{now} bytes of machine code, recorded are {then}: {why}"
    );
}

#[test]
fn symbols_are_of_the_crate_that_their_path_begins_with() {
    for (symbol, name) in [
        (
            "_ZN13lineside_load4main17h0123456789abcdefE",
            "lineside_load",
        ),
        (
            "_ZN79_$LT$$RF$mut$u20$serde_json..de..Deserializer$u20$as$u20$serde_core..de..D$GT$1a17h0E",
            "serde_json",
        ),
        (
            "_ZN42_$LT$T$u20$as$u20$core..any..Any_and_more$GT$7type_id17h0E",
            "core",
        ),
        ("_RNvCs1234_7mycrate3foo", "mycrate"),
        ("_RINvNtCs9pVt_4core3ptr13drop_in_placeE", "core"),
        ("ZSTD_compress", "C"),
    ] {
        assert_eq!(crate_of(symbol), name, "{symbol}");
    }
}

/// The build script, compiled and called as cargo does.
struct Script {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Script {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("build-script");
        let mut rustc = Command::new("rustc");
        rustc
            .args(["--edition=2024", "--crate-name=build_script"])
            .arg(repository().join("crates/cli/cli/build.rs"))
            .arg("-o")
            .arg(&program);
        printed(&mut rustc);
        Self { folder, program }
    }

    /// The commit that it records of the workspace in this folder.
    fn commit(&self, root: &Path, profile: &str, given: Option<&str>) -> Option<String> {
        let mut command = Command::new(&self.program);
        command
            .env("CARGO_MANIFEST_DIR", root.join("crates/cli/cli"))
            .env("CARGO_PKG_VERSION", "1.2.3")
            .env(
                "OUT_DIR",
                format!("/target/{profile}/build/lineside-cli-0/out"),
            )
            .env_remove("LINESIDE_COMMIT");
        if let Some(given) = given {
            command.env("LINESIDE_COMMIT", given);
        }
        let message = printed(&mut command);
        let of = |key: &str| {
            let start = format!("cargo::rustc-env={key}=");
            message
                .lines()
                .find_map(|line| Some(line.strip_prefix(&start)?.to_owned()))
        };
        assert_eq!(
            of("LINESIDE_PROFILE").as_deref(),
            Some(profile),
            "{message}"
        );
        let commit = of("LINESIDE_COMMIT");
        let version = commit
            .iter()
            .map(|commit| format!("1.2.3 ({commit})"))
            .next();
        assert_eq!(
            of("LINESIDE_VERSION"),
            version.or_else(|| Some("1.2.3".to_owned()))
        );
        commit
    }
}

#[test]
fn a_build_from_a_clone_knows_its_commit() {
    if missing(&["git", "rustc"]) {
        return;
    }
    let script = Script::new();
    let root = script.folder.path().join("clone");
    fs::create_dir_all(root.join("crates/cli/cli/src")).expect("made");
    let source = root.join("crates/cli/cli/src/lib.rs");
    fs::write(&source, "one").expect("written");
    fs::write(root.join("README.md"), "one").expect("written");
    assert_eq!(script.commit(&root, "demo", None), None, "a tarball");

    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b", "-C"]);
        printed(git.arg(&root).args(words)).trim().to_owned()
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "one"]);
    let hash = git(&["rev-parse", "--short=12", "HEAD"]);
    assert_eq!(script.commit(&root, "demo", None), Some(hash.clone()));
    assert_eq!(
        script.commit(&root, "debug", None),
        None,
        "would build at each commit"
    );
    assert_eq!(
        script.commit(&root, "dist", Some("v9")).as_deref(),
        Some("v9")
    );
    assert_eq!(
        script.commit(&root, "debug", Some("v9")).as_deref(),
        Some("v9")
    );
    // What is no part of the program does not change it.
    fs::write(root.join("README.md"), "two").expect("written");
    assert_eq!(script.commit(&root, "release", None), Some(hash.clone()));
    fs::write(&source, "two").expect("written");
    assert_eq!(
        script.commit(&root, "release", None),
        Some(format!("{hash}-dirty"))
    );

    // Unpacked within a repository that is not its own.
    let inner = root.join("vendor/lineside");
    fs::create_dir_all(inner.join("crates/cli/cli/src")).expect("made");
    assert_eq!(script.commit(&inner, "demo", None), None);
}

/// `./demo` where cargo finds no crates and no network, and with other programs in front of those
/// of the machine. What it prints, and what it left in its folder.
fn demo(target: &Path, programs: &[(&str, &str)], path: &str) -> (String, usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).expect("made");
    for (name, text) in programs {
        install_script(text, &bin.join(name));
    }
    let output = Command::new("bash")
        .arg(repository().join("demo"))
        .env("PATH", format!("{}:{path}", bin.display()))
        .env("CARGO_HOME", folder.path().join("cargo"))
        .env("CARGO_NET_OFFLINE", "true")
        .env("CARGO_TARGET_DIR", target)
        .output()
        .expect("bash runs");
    assert!(!output.status.success(), "{output:?}");
    let message = talk(&output);
    let ours = message.lines().filter(|line| line.starts_with("demo: "));
    assert_eq!(ours.count(), 1, "{message}");
    // Cargo remembers the compiler in a hidden file.
    let left = fs::read_dir(target).into_iter().flatten().flatten();
    let left = left.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    let left = left.count();
    (message, left)
}

#[test]
fn demo_says_what_is_missing() {
    if missing(&["bash", "cargo", "cc"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = std::env::var("PATH").expect("a path");
    let target = folder.path().join("target");
    let (message, left) = demo(&target, &[], &path);
    assert!(message.contains("demo: crates are missing"), "{message}");
    assert!(message.contains("cargo fetch --locked"), "{message}");
    assert_eq!(left, 0, "nothing is half-written");

    let full = "echo Filesystem; echo none 10 0 10 0% /";
    let (message, left) = demo(&target, &[("df", full)], &path);
    assert!(
        message.contains("has 10 MiB free, the build takes 450 more"),
        "{message}"
    );
    assert!(message.contains("CARGO_TARGET_DIR"), "{message}");
    assert_eq!(left, 0, "nothing is half-written");

    let (message, _) = demo(Path::new("/proc/nowhere"), &[], &path);
    assert!(message.contains("cannot be made"), "{message}");

    // Cargo and rustc as they are, but neither cc nor what could install it.
    let there = |name: &str| {
        let found = printed(Command::new("sh").args(["-c", "command -v \"$0\"", name]));
        format!("exec '{}' \"$@\"", found.trim())
    };
    let names = [
        "cargo", "rustc", "bash", "dirname", "cut", "sort", "head", "id",
    ];
    let programs: Vec<_> = names.iter().map(|name| (*name, there(name))).collect();
    let programs: Vec<_> = programs
        .iter()
        .map(|(name, text)| (*name, text.as_str()))
        .collect();
    let (message, left) = demo(&target, &programs, "/nowhere");
    assert!(message.contains("a C compiler is missing"), "{message}");
    assert!(message.contains("apt-get install gcc"), "{message}");
    assert_eq!(left, 0, "nothing is half-written");

    let old = [("rustc", "echo rustc 1.80.0")];
    let (message, _) = demo(&target, &old, &path);
    assert!(message.contains("Rust 1.80.0 is too old"), "{message}");
}
