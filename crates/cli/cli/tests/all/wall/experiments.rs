//! `lineside lab`: experiments with real programs, as an ordinary user.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use lineside_host::Stopwatch;
use lineside_testkit::disk::SmallDisk;
use serde_json::Value as Json;

use crate::support::{talk, wait_until};
use crate::wall::commands::{Ordinary, is_forbidden};

/// An ordinary user with the file of a lab.
pub(crate) struct Bench {
    ordinary: Ordinary,
}

impl Bench {
    pub(crate) fn new(text: &str) -> Self {
        let ordinary = Ordinary::new();
        std::fs::write(ordinary.path().join("it.toml"), text).expect("written");
        Self { ordinary }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.ordinary.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.ordinary.verb_by(&[]);
        command.args(["lab", "it.toml"]).args(words);
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("it runs")
    }

    /// In another folder than the file's.
    pub(crate) fn run_elsewhere(&self) -> Output {
        let mut command = self.ordinary.verb_by(&[]);
        command
            .current_dir("/")
            .arg("lab")
            .arg(self.path("it.toml"));
        command.arg("-o").arg(self.path("run"));
        command.output().expect("it runs")
    }

    pub(crate) fn json(&self, name: &str) -> Json {
        let text = std::fs::read(self.path(name)).expect(name);
        serde_json::from_slice(&text).expect("JSON")
    }
}

/// Processes that have a word in their environment.
pub(crate) fn marked(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").expect("processes");
    let is_marked = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.ok()?.path().join("environ");
        let text = std::fs::read(path).ok()?;
        let mut words = text.split(|byte| *byte == 0);
        words.any(|word| word == mark.as_bytes()).then_some(())
    };
    processes.filter_map(is_marked).count()
}

/// A variable that no other process has.
pub(crate) fn mark() -> (String, String) {
    let value = format!("{}-{:?}", std::process::id(), std::thread::current().id());
    let value: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
    (format!("LAB_TEST={value}"), value)
}

/// The metric at each point.
pub(crate) fn medians(lab: &Json, metric: &str) -> Vec<f64> {
    let points = lab["points"].as_array().expect("points");
    let of = |point: &Json| {
        let metrics = point["metrics"].as_array().expect("metrics");
        let found = metrics.iter().find(|it| it["metric"] == metric);
        found.expect(metric)["value"].as_f64().expect("a value")
    };
    points.iter().map(of).collect()
}

const HTTP: &str = r#"
lab = { seed = 7, repeats = 2, order = "paired", retries = 0 }
link.wire = { between = ["client", "server"], delay = "{delay}" }
sweep = { delay = ["0", "10ms"], connections = [1] }
[node.server]
run = "exec lineside load serve http $LINESIDE_ADDRESS:8080"
ready = "tcp:8080"
env = { LAB_TEST = "MARK" }
[node.client]
run = "exec lineside load http://$LINESIDE_PEER_SERVER:8080/ -c {connections} -d 300ms --json"
metric.answered = { json = "/rates/answered", better = "more" }
metric.took = { elapsed = true }
[assert]
slower = 'answered(delay="10ms") <= 50'
near = 'answered(delay="10ms") >= 2 * answered(delay="0")'
"#;

/// What a lab of two nodes has to show, whatever device carries it.
fn check_http(bench: &Bench, output: &Output, mark: &str) {
    // One of its assertions does not hold.
    assert_eq!(output.status.code(), Some(3), "{}", talk(output));
    let lab = bench.json("it/lab.json");
    let answered = medians(&lab, "answered");
    // A request takes 20 ms: never less, however busy the machine is.
    assert!(answered[1] > 0.0 && answered[1] <= 50.0, "{answered:?}");
    assert!(answered[0] > answered[1], "{answered:?}");
    assert_eq!(lab["assertions"][0]["state"], "holds", "{lab}");
    assert_eq!(lab["assertions"][1]["state"], "failed", "{lab}");
    for run in ["point=1/repeat=1", "point=2/repeat=2"] {
        let point = bench.json(&format!("it/{run}/point.json"));
        assert_eq!(point["nodes"]["client"]["status"], 0, "{point}");
        assert!(
            point["nodes"]["server"]["cpu_ns"].as_u64() > Some(0),
            "{point}"
        );
        let trace = bench.json(&format!("it/{run}/trace.json"));
        let outbound = &trace["certificate"]["directions"]["client to server"];
        assert!(
            outbound["counters"]["released"].as_u64() > Some(0),
            "{trace}"
        );
    }
    let table = bench.path("it/points/part-000000.parquet");
    assert!(table.exists());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("point") && text.contains("10ms"), "{text}");
    assert_eq!(marked(mark), 0, "processes are left");
}

#[test]
fn a_lab_measures_each_point_and_judges_it() {
    let (variable, value) = mark();
    let bench = Bench::new(&HTTP.replace("MARK", &value));
    let output = bench.run(&["--junit", "it.xml"]);
    if is_forbidden(&output) {
        return;
    }
    check_http(&bench, &output, &variable);
    let xml = std::fs::read_to_string(bench.path("it.xml")).expect("written");
    assert!(xml.contains("tests=\"2\" failures=\"1\""), "{xml}");
    // The same again is refused, and what is there is shown.
    let again = bench.run(&[]);
    assert_eq!(again.status.code(), Some(2), "{}", talk(&again));
    let mut report = bench.ordinary.verb_by(&[]);
    let report = report.args(["report", "it"]).output().expect("it runs");
    assert!(report.status.success(), "{}", talk(&report));
    assert_eq!(report.stdout, output.stdout);
    // A lab does not differ from itself.
    let mut compare = bench.ordinary.verb_by(&[]);
    compare.args(["compare", "it", "it", "--threshold", "5%", "--json"]);
    let compared: Json =
        serde_json::from_slice(&compare.output().expect("it runs").stdout).expect("JSON");
    assert_eq!(compared["points"], serde_json::json!([2, 2]));
    assert_eq!(compared["changes"][0]["ratio"]["value"], 1.0, "{compared}");
    check_forms(&bench);
}

/// The page of a lab, and two labs as Markdown and JUnit.
fn check_forms(bench: &Bench) {
    let verb = |words: &[&str]| {
        let mut verb = bench.ordinary.verb_by(&[]);
        verb.args(words).output().expect("it runs")
    };
    let pages = bench.path("pages");
    std::fs::create_dir(&pages).expect("made");
    std::fs::set_permissions(&pages, Permissions::from_mode(0o777)).expect("ours");
    let page = verb(&[
        "report",
        "it",
        "--html",
        "pages/it.html",
        "--target",
        "answered >= 1",
    ]);
    assert!(page.status.success(), "{}", talk(&page));
    let text = std::fs::read_to_string(bench.path("pages/it.html")).expect("written");
    for part in [
        "answered over delay",
        "1 of 2 hold",
        "client to server, packets",
        "href=\"./../it/point=2/repeat=1/\"",
        "paired",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        bench
            .path("pages/./../it/point=2/repeat=1/point.json")
            .exists()
    );
    let words = ["compare", "it", "it", "--threshold", "5%"];
    let forms = ["--markdown", "-", "--junit", "compared.xml"];
    let compared = verb(&[&words[..], &forms[..]].concat());
    // Two repeats have no interval: nothing can be judged.
    assert_eq!(compared.status.code(), Some(3), "{}", talk(&compared));
    let text = String::from_utf8_lossy(&compared.stdout).into_owned();
    assert!(
        text.starts_with("### it to it: 4 undecided, 2 same\n"),
        "{text}"
    );
    assert!(
        text.contains("| answered | delay=10ms connections=1 | 1.000 | - | 2 |"),
        "{text}"
    );
    let xml = std::fs::read_to_string(bench.path("compared.xml")).expect("written");
    assert!(
        xml.contains("tests=\"6\" failures=\"0\" errors=\"4\""),
        "{xml}"
    );
}

#[test]
fn a_lab_has_the_same_form_with_tap_devices() {
    let (variable, value) = mark();
    let bench = Bench::new(&HTTP.replace("MARK", &value));
    let output = bench.ordinary.with_tap(bench.command(&[])).output();
    let output = output.expect("it runs");
    if is_forbidden(&output) || talk(&output).contains("unshare:") {
        return;
    }
    check_http(&bench, &output, &variable);
}

/// What each point prints depends on its seed alone.
const SEEDS: &str = r#"
lab = { seed = 9, repeats = 3, retries = 0 }
link.wire = { between = ["one", "two"] }
sweep = { x = [1, 2, 3, 4] }
[node.one]
run = "echo seed: ${LINESIDE_SEED%????????} {x}"
metric.seed = { regex = "seed: ([0-9]+)" }
[node.two]
run = "sleep 600"
env = { LAB_TEST = "MARK" }
"#;

/// The seeds that each run found.
fn seeds(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for point in 1..=4 {
        for repeat in 1..=3 {
            let run = format!("point={point}/repeat={repeat}");
            let text = std::fs::read(folder.join(&run).join("point.json")).expect("measured");
            let json: Json = serde_json::from_slice(&text).expect("JSON");
            let words = format!("{} {} {}", json["seed"], json["metrics"], json["axes"]);
            found.insert(run, words);
        }
    }
    found
}

#[test]
fn a_lab_killed_anywhere_goes_on_to_the_same_points() {
    let (variable, value) = mark();
    let bench = Bench::new(&SEEDS.replace("MARK", &value));
    let whole = bench.run(&["-o", "whole"]);
    if is_forbidden(&whole) {
        return;
    }
    assert!(whole.status.success(), "{}", talk(&whole));
    let done = || {
        let runs = (1..=4).flat_map(|point| (1..=3).map(move |repeat| (point, repeat)));
        let is_there = |(point, repeat): &(u32, u32)| {
            bench
                .path(&format!("cut/point={point}/repeat={repeat}/point.json"))
                .exists()
        };
        runs.filter(is_there).count()
    };
    // At another place of a run each time.
    for (kill, after_ms) in [0, 15, 40, 70, 120].into_iter().enumerate() {
        let mut command = bench.command(&["-o", "cut", "--resume", "-q"]);
        let mut child = command.spawn().expect("it runs");
        wait_until("a run is done", || {
            done() > kill || child.try_wait().expect("ours").is_some()
        });
        let since = Stopwatch::start();
        since.wait_until(Duration::from_millis(after_ms));
        child.kill().expect("ours");
        child.wait().expect("ours");
        wait_until("nothing is left", || marked(&variable) == 0);
    }
    assert!(done() < 12, "it was never cut short");
    let rest = bench.run(&["-o", "cut", "--resume"]);
    assert!(rest.status.success(), "{}", talk(&rest));
    assert_eq!(seeds(&bench.path("cut")), seeds(&bench.path("whole")));
    // A file that was changed is another lab.
    std::fs::write(bench.path("it.toml"), SEEDS.replace("seed = 9", "seed = 8")).expect("written");
    let other = bench.run(&["-o", "cut", "--resume"]);
    assert_eq!(other.status.code(), Some(2), "{}", talk(&other));
}

/// A node that forks, leaves its session, ignores TERM and closes what it was given.
const STUBBORN: &str = r#"
lab = { seed = 9, timeout = "600s" }
link.wire = { between = ["one", "two"] }
[node.one]
run = """
trap '' TERM HUP INT
exec 1>&- 2>&-
setsid sh -c 'sleep 900 & touch began; sleep 901' &
exec sleep 902"""
env = { LAB_TEST = "MARK" }
[node.two]
run = "exec sleep 903"
env = { LAB_TEST = "MARK" }
wait = true
"#;

#[test]
fn nothing_is_left_of_nodes_however_a_lab_ends() {
    let (variable, value) = mark();
    let bench = Bench::new(&STUBBORN.replace("MARK", &value));
    for signal in ["KILL", "INT", "TERM"] {
        let began = bench.path("began");
        let _ = std::fs::remove_file(&began);
        let mut command = bench.command(&["--force"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        wait_until("it runs", || {
            began.exists() || child.try_wait().expect("ours").is_some()
        });
        if !began.exists() {
            assert!(is_forbidden(&child.wait_with_output().expect("ours")));
            return;
        }
        assert!(marked(&variable) >= 4);
        let pid = child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(sent.expect("kill runs").success());
        let status = child.wait().expect("ours");
        match signal {
            "KILL" => assert_eq!(status.signal(), Some(9)),
            "INT" => assert_eq!(status.code(), Some(130)),
            _ => assert_eq!(status.code(), Some(143)),
        }
        wait_until("nothing is left", || marked(&variable) == 0);
    }
}

#[test]
fn what_is_wrong_with_a_node_is_named_with_its_last_lines() {
    let fine =
        "node.two = { run = \"exec sleep 60\" }\nlink.wire = { between = [\"one\", \"two\"] }";
    for (node, expected) in [
        (
            r#"run = "echo it is broken >&2; exit 3", ready = "tcp:80""#,
            "node one ended early: exit status 3; the last lines of \
             it/point=1/repeat=1/one.err:\n  it is broken",
        ),
        (
            r#"run = "exec sleep 60", ready = "tcp:80""#,
            "node one was not ready (tcp:80) within 300 ms, lab.ready_wait",
        ),
        (
            r#"run = "exec sleep 60", ready = "false""#,
            "node one was not ready (false) within 300 ms, lab.ready_wait",
        ),
        (
            r#"run = "no-such-program", wait = true"#,
            "node one failed: exit status 127, a command was not found",
        ),
        (
            r#"run = "exec sleep 60", wait = true"#,
            "node one had not ended after 500 ms, lab.timeout",
        ),
        (
            r#"run = "kill -9 $$", wait = true"#,
            "node one failed: signal 9",
        ),
        (
            r#"run = "echo rate 1; echo rate 2", metric.rate = { regex = "rate ([0-9]+)" }"#,
            "node one metric rate: 'rate ([0-9]+)' matches more than once",
        ),
        (
            r#"run = "echo nothing", metric.rate = { json = "/rate" }"#,
            "node one metric rate: its standard output has no JSON document; the last lines of \
             it/point=1/repeat=1/one.out:\n  nothing",
        ),
    ] {
        let lab = "lab = { ready_wait = \"300ms\", timeout = \"500ms\", retries = 0 }";
        let bench = Bench::new(&format!("{lab}\nnode.one = {{ {node} }}\n{fine}\n"));
        let output = bench.run(&[]);
        if is_forbidden(&output) {
            return;
        }
        assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
        let text = talk(&output);
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("--resume"), "{text}");
    }
}

/// Three nodes at a switch, and a chain whose middle has two links.
const MORE: &str = r#"
lab = { retries = 0 }
[node.a]
run = "exec lineside load serve echo $LINESIDE_ADDRESS:7"
ready = "tcp:7"
[node.b]
run = "exec lineside load serve echo $LINESIDE_ADDRESS:7"
ready = "tcp:7"
[node.c]
run = """
for peer in $LINESIDE_PEER_A $LINESIDE_PEER_B; do
  lineside load echo://$peer:7 -n 3 -c 1 --json || exit 1
done
echo all: 2"""
metric.all = { regex = "all: ([0-9])" }
"#;

#[test]
fn nodes_are_joined_by_a_switch_or_by_several_links() {
    for links in [
        "[link.lan]\nbetween = [\"a\", \"b\", \"c\"]\ndelay = \"1ms\"",
        "[link.one]\nbetween = [\"c\", \"a\"]\ndelay = \"1ms\"\n\
         [link.two]\nbetween = [\"c\", \"b\"]",
    ] {
        let bench = Bench::new(&format!("{MORE}{links}\n"));
        let output = bench.run(&[]);
        if is_forbidden(&output) {
            return;
        }
        assert!(output.status.success(), "{links}: {}", talk(&output));
        assert_eq!(medians(&bench.json("it/lab.json"), "all"), [2.0]);
    }
}

#[test]
fn a_full_disk_ends_a_lab_and_all_runs_so_far_stand() {
    let text = SEEDS.replace("repeats = 3", "repeats = 30");
    let bench = Bench::new(&text);
    let small = bench.path("small");
    std::fs::create_dir(&small).expect("a folder");
    let Some(disk) = SmallDisk::mount(&small, 400 << 10) else {
        println!("SKIP: nothing can be mounted");
        return;
    };
    let run = disk.folder().join("run");
    let output = bench.run(&["-q", "-o", run.to_str().expect("UTF-8")]);
    if is_forbidden(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
    let text = talk(&output);
    assert!(
        text.contains("No space left") && text.contains("--resume"),
        "{text}"
    );
    // What there is reads as a lab.
    let mut report = bench.ordinary.verb_by(&[]);
    let report = report
        .args(["report", "small/run", "--json"])
        .output()
        .expect("it runs");
    let lab: Json = serde_json::from_slice(&report.stdout).expect("JSON");
    let done = lab["runs"].as_u64().expect("a count");
    assert!(done > 0 && done < 120, "{done}");
}

#[test]
fn the_setting_that_forbids_a_lab_is_named() {
    let bench = Bench::new(SEEDS);
    // A user namespace has such a setting of its own, for those below it.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces || exit 99
        exec setpriv --bounding-set -all --inh-caps -all ./lineside lab it.toml";
    let mut command = Command::new("unshare");
    command.args(["-Ur", "sh", "-c", script]);
    let output = command.current_dir(bench.ordinary.path()).output();
    let output = output.expect("it runs");
    let text = talk(&output);
    if output.status.code() == Some(99) || text.contains("unshare:") {
        println!("SKIP: no user namespace to forbid one in: {text}");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{text}");
    let expected = "cannot make a user namespace: user.max_user_namespaces is 0: 'sudo sysctl";
    assert!(text.contains(expected), "{text}");
}
