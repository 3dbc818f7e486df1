//! `lineside lab bundle` and `lab rerun`, and the facts that a lab keeps.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value as Json;

use crate::support::talk;
use crate::wall::commands::{Ordinary, is_forbidden};

/// Its metric is what a file beside it says.
const LAB: &str = r#"
lab = { seed = 5, repeats = 3, retries = 0 }
link.wire = { between = ["one", "two"], delay = "{delay}" }
sweep = { delay = ["0", "1ms"] }
[node.one]
run = """
cat secret; cat secret >&2
echo "rate: $(cat rate)"
"""
metric.rate = { regex = "rate: ([0-9]+)", better = "more" }
[node.two]
run = "exec sleep 600"
"#;

/// What its nodes print.
const SECRET: &str = "of 203.0.113.77 and zorkmid.example.com, in /srv/zorkmid/x\ntoken=zorkmid\n";

/// An ordinary user with a lab that was run, unless that is forbidden here.
struct Bench {
    ordinary: Ordinary,
}

impl Bench {
    fn new() -> Option<Self> {
        let bench = Self {
            ordinary: Ordinary::new(),
        };
        bench.put("it.toml", LAB);
        bench.put("rate", "100");
        bench.put("secret", SECRET);
        let output = bench.run(&["lab", "it.toml"]);
        if is_forbidden(&output) {
            return None;
        }
        assert!(output.status.success(), "{}", talk(&output));
        Some(bench)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.ordinary.path().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("written");
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = self.ordinary.verb_by(&[]);
        let command = command.args(words).stdin(Stdio::null());
        command.output().expect("it runs")
    }

    fn json(&self, name: &str) -> Json {
        let text = fs::read(self.path(name)).expect(name);
        serde_json::from_slice(&text).expect("JSON")
    }

    fn bundle(&self) {
        let output = self.run(&["lab", "bundle", "it", "-o", "it.tar"]);
        assert!(output.status.success(), "{}", talk(&output));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            text.contains("6 of 6 runs") && text.contains("replaced"),
            "{text}"
        );
    }
}

#[test]
fn a_lab_keeps_the_facts_of_what_it_ran_on() {
    let Some(bench) = Bench::new() else { return };
    let lab = bench.json("it/lab.json");
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux");
    assert_eq!(lab["facts"]["kernel"], release.trim());
    for fact in ["cores", "load", "net.ipv4.tcp_rmem", "lineside"] {
        assert!(lab["facts"][fact].is_string(), "{fact}: {lab}");
    }
    let program = lab["facts"]["program.sleep"].as_str().expect("a program");
    assert!(program.contains(" bytes, XXH3 "), "{program}");
    let run = bench.json("it/point=2/repeat=3/facts.json");
    assert!(run["after"]["steal"].is_string(), "{run}");
    assert!(
        run["before"]["kernel"].is_null(),
        "what is the same is not there: {run}"
    );
    let trace = bench.json("it/point=2/repeat=3/trace.json");
    let settings = &trace["machine"]["settings"];
    assert!(settings["net.ipv4.tcp_wmem"].is_string(), "{trace}");
    let info = bench.run(&["info", "it"]);
    assert!(info.status.success(), "{}", talk(&info));
    let text = String::from_utf8_lossy(&info.stdout).into_owned();
    for expected in [
        "2 points, 3 repeats, random order, seed 5",
        "6 of 6, in",
        "axis         delay: 0 1ms",
        "program.sleep",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let doctor = bench.run(&["doctor", "--json"]);
    let doctor: Json = serde_json::from_slice(&doctor.stdout).expect("JSON");
    assert_eq!(doctor["facts"]["kernel"], lab["facts"]["kernel"]);
    assert_eq!(
        doctor["facts"]["net.ipv4.tcp_rmem"],
        lab["facts"]["net.ipv4.tcp_rmem"]
    );
}

#[test]
fn a_bundle_is_run_again_and_says_what_is_reproduced() {
    let Some(bench) = Bench::new() else { return };
    bench.bundle();
    let again = |words: &[&str]| bench.run(&[&["lab", "rerun", "it.tar"], words].concat());
    // A stranger's commands are shown, and not run unasked.
    let asked = again(&["-o", "asked"]);
    assert_eq!(asked.status.code(), Some(2), "{}", talk(&asked));
    let text = talk(&asked);
    assert!(
        text.contains("exec sleep 600") && text.contains("--yes"),
        "{text}"
    );
    assert!(!bench.path("asked").exists());
    let same = again(&["-o", "same", "--yes"]);
    assert_eq!(same.status.code(), Some(0), "{}", talk(&same));
    let text = String::from_utf8_lossy(&same.stdout).into_owned();
    assert!(text.contains("2 of 2 points are reproduced"), "{text}");
    // What is there is not run again, nor replaced unasked.
    let there = again(&["-o", "same", "--yes"]);
    assert_eq!(there.status.code(), Some(2), "{}", talk(&there));
    let resumed = again(&["-o", "same", "--yes", "--resume"]);
    assert_eq!(resumed.stdout, same.stdout, "{}", talk(&resumed));
    // Both sides are labs.
    let compared = bench.run(&["compare", "same/there", "same/here"]);
    assert!(compared.status.success(), "{}", talk(&compared));
    bench.put("rate", "200");
    let other = again(&["-o", "other", "--yes", "--json"]);
    assert_eq!(other.status.code(), Some(3), "{}", talk(&other));
    let other: Json = serde_json::from_slice(&other.stdout).expect("JSON");
    for point in other["points"].as_array().expect("points") {
        assert_eq!(point["state"], "differs", "{other}");
        assert_eq!(point["metrics"][0]["ratio"]["value"], 2.0, "{other}");
    }
    assert_eq!(other, bench.json("other/rerun.json"));
}

#[test]
fn a_bundle_holds_no_name_of_the_machine_it_was_made_on() {
    let Some(bench) = Bench::new() else { return };
    bench.bundle();
    let bytes = fs::read(bench.path("it.tar")).expect("there");
    let text = String::from_utf8_lossy(&bytes).to_lowercase();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux");
    let folder = bench.ordinary.path().to_str().expect("UTF-8");
    let of_machine = [host.trim(), folder, "adapter.e"];
    let printed = ["203.0.113", "zorkmid", "example.com", "token="];
    for secret in of_machine.iter().chain(&printed) {
        assert!(!text.contains(&secret.to_lowercase()), "{secret}");
    }
    // Other tools open it, and find a lab.
    let mut unpack = Command::new("tar");
    let unpacked = unpack
        .args(["-xf", "it.tar"])
        .current_dir(bench.ordinary.path());
    assert!(unpacked.status().expect("tar runs").success());
    let report = bench.run(&["report", "lineside-lab"]);
    assert!(report.status.success(), "{}", talk(&report));
    let out = bench.path("lineside-lab/point=1/repeat=1/one.out");
    assert!(
        fs::read_to_string(out)
            .expect("there")
            .contains("rate: 100")
    );
    // An experiment that names its user's files is not for others.
    bench.put(
        "named.toml",
        &LAB.replace("cat secret;", "cat /home/zorkmid/x;"),
    );
    let named = bench.run(&["lab", "named.toml"]);
    assert!(named.status.success(), "{}", talk(&named));
    let refused = bench.run(&["lab", "bundle", "named", "-o", "named.tar"]);
    assert_eq!(refused.status.code(), Some(2), "{}", talk(&refused));
    assert!(
        talk(&refused).contains("named/lab.toml:7 names '/home'"),
        "{}",
        talk(&refused)
    );
    assert!(!bench.path("named.tar").exists());
    let kept = bench.run(&["lab", "bundle", "named", "-o", "named.tar", "--with-names"]);
    assert!(kept.status.success(), "{}", talk(&kept));
}

#[test]
fn a_bundle_that_is_damaged_is_refused_before_anything_runs() {
    let Some(bench) = Bench::new() else { return };
    bench.bundle();
    let bytes = fs::read(bench.path("it.tar")).expect("there");
    let with = |from: &[u8], to: &[u8]| {
        let at = bytes.windows(from.len()).position(|it| it == from);
        let at = at.expect("it is there");
        [&bytes[..at], to, &bytes[at + from.len()..]].concat()
    };
    for (damaged, expected) in [
        (bytes[..bytes.len() / 2].to_vec(), "cut short"),
        (with(b": \"1.0\"", b": \"2.0\""), "take a newer lineside"),
        (with(b"exec sleep 600", b"exec sleep 601"), ""),
        (b"no archive".repeat(100), "no tar archive"),
    ] {
        fs::write(bench.path("damaged.tar"), damaged).expect("written");
        let output = bench.run(&["lab", "rerun", "damaged.tar", "-o", "none"]);
        // What is whole but asks for other commands shows these.
        let code = if expected.is_empty() { 2 } else { 1 };
        assert_eq!(output.status.code(), Some(code), "{}", talk(&output));
        let text = talk(&output);
        assert!(text.contains(expected), "{expected}: {text}");
        let is_one = expected.is_empty() || text.trim().lines().count() == 1;
        assert!(is_one, "one message: {text}");
        assert!(!bench.path("none").exists());
    }
    // A program that the lab had and this machine has not.
    let tar = with(b"\"program.sleep\"", b"\"program.cat70\"");
    fs::write(bench.path("other.tar"), tar).expect("written");
    let shown = bench.run(&["lab", "rerun", "other.tar", "-o", "none"]);
    assert_eq!(
        shown.status.code(),
        Some(2),
        "its commands are there: {}",
        talk(&shown)
    );
    // A file called as a word of this verb is still an experiment.
    fs::copy(bench.path("it.toml"), bench.path("bundle")).expect("copied");
    let plan = bench.run(&["lab", "./bundle", "--dry-run"]);
    assert!(plan.status.success(), "{}", talk(&plan));
}
