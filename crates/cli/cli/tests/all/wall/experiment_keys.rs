//! What the file of a lab can ask for beside commands and links.

use std::process::{Command, Output};

use lineside_testkit::captures::repository;

use crate::support::{lineside, talk};
use crate::wall::commands::is_forbidden;
use crate::wall::experiments::{Bench, medians};
use crate::wall::wire::obstacle;

/// A node's keys, each with what shows that it holds.
const KEYS: &str = r#"
lab = { retries = 0 }
link.wire = { between = ["one", "two"], path = "it.path" }
sweep = { size = ["200M"], text = ["{size}"] }
[node.one]
cpus = [0]
memory = "64MiB"
files = { "conf/it.conf" = "text {text} of {size} {other}", script = "exit 0" }
run = '''
sh $LINESIDE_FILES/script && cat $LINESIDE_FILES/conf/it.conf
echo "cpus: $(nproc)"
dd if=/dev/zero of=/dev/null bs={size} count=1 2>/dev/null && echo "large: 1" || echo "large: 0"
echo '{"deep": [5e9]}' >$LINESIDE_FILES/found.json'''
metric.cpus = { regex = "cpus: ([0-9]+)" }
metric.large = { regex = "large: ([01])" }
metric.deep = { json = "/deep/0", from = "found.json", scale = 1e-9, unit = "s" }
metric.text = { regex = 'text \{size\} of ([0-9]+)M \{other\}' }
[node.two]
run = "exec sleep 60"
"#;

#[test]
fn a_node_has_its_files_and_no_more_than_its_limits() {
    let bench = Bench::new(KEYS);
    std::fs::write(bench.path("it.path"), "time delay\n0s 1ms\n").expect("written");
    // Files that words name are beside the lab's, wherever it is run from.
    let output = bench.run_elsewhere();
    if is_forbidden(&output) {
        return;
    }
    assert!(output.status.success(), "{}", talk(&output));
    let lab = bench.json("run/lab.json");
    for (metric, expected) in [
        ("cpus", 1.0),
        ("large", 0.0),
        ("deep", 5.0),
        ("text", 200.0),
    ] {
        assert_eq!(medians(&lab, metric), [expected], "{metric}");
    }
    let kept = bench.path("run/point=1/repeat=1");
    assert!(kept.join("one.files/found.json").exists() && !kept.join("two.files").exists());
    // The same without the limit.
    let bench = Bench::new(&KEYS.replace("memory = \"64MiB\"", ""));
    std::fs::write(bench.path("it.path"), "time delay\n0s 1ms\n").expect("written");
    let output = bench.run(&["-o", "run"]);
    assert!(output.status.success(), "{}", talk(&output));
    assert_eq!(medians(&bench.json("run/lab.json"), "large"), [1.0]);
}

#[test]
fn a_node_of_root_can_be_another_user() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP: not root");
        return;
    }
    let text = r#"
lab = { retries = 0 }
link.wire = { between = ["one", "two"] }
node.two = { run = "exec sleep 60" }
[node.one]
user = "nobody"
run = "id -u; exec touch $LINESIDE_FILES/its"
metric.id = { regex = "([0-9]+)" }
"#;
    let bench = Bench::new(text);
    let mut command = lineside();
    command
        .args(["lab", "it.toml", "-o", "run"])
        .current_dir(bench.path("."));
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", talk(&output));
    assert_eq!(medians(&bench.json("run/lab.json"), "id"), [65534.0]);
    assert!(bench.path("run/point=1/repeat=1/one.files/its").exists());
    // Whoever is not root is said so, with the place.
    let output = bench.run(&[]);
    let expected = "it.toml:6:8: node.one.user: root alone runs programs as another user";
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert!(talk(&output).contains(expected), "{}", talk(&output));
}

/// The first point is always the same, the second one never.
const AGREES: &str = r#"
lab = { seed = 9, repeats = "3..5", width = "5% of it", retries = 0 }
link.wire = { between = ["one", "two"] }
sweep = { same = [1, 0] }
[node.one]
run = '[ {same} = 1 ] && echo "it: 7" || echo "it: $LINESIDE_SEED"; echo "other: $LINESIDE_SEED"'
metric.it = { regex = "it: ([0-9]+)" }
metric.other = { regex = "other: ([0-9]+)" }
[node.two]
run = "exec sleep 60"
"#;

#[test]
fn a_point_is_run_until_its_repeats_agree() {
    let bench = Bench::new(AGREES);
    let plan = bench.run(&["--dry-run"]);
    let text = String::from_utf8_lossy(&plan.stdout).into_owned();
    assert!(
        text.contains("3 to 5 times") && text.contains("6 to 10 runs"),
        "{text}"
    );
    let output = bench.run(&[]);
    if is_forbidden(&output) {
        return;
    }
    assert!(output.status.success(), "{}", talk(&output));
    let check = |order: &str, expected: [u64; 2]| {
        let lab = bench.json("it/lab.json");
        let repeats = [0, 1].map(|point| lab["points"][point]["repeats"].as_u64());
        assert_eq!(repeats, expected.map(Some), "{order}: {lab}");
        let planned = expected.iter().sum::<u64>();
        assert_eq!(lab["runs_planned"].as_u64(), Some(planned), "{order}");
    };
    check("random", [3, 5]);
    // Nothing is missing, and what is gone is run again.
    let before = std::fs::read(bench.path("it/point=2/repeat=5/point.json")).expect("a run");
    std::fs::remove_dir_all(bench.path("it/point=1/repeat=2")).expect("ours");
    let resumed = bench.run(&["--resume"]);
    assert!(talk(&resumed).contains("repeat 2"), "{}", talk(&resumed));
    check("resumed", [3, 5]);
    let after = std::fs::read(bench.path("it/point=2/repeat=5/point.json")).expect("a run");
    assert_eq!(before, after);
    // Runs that are compared with others come with them.
    let paired = AGREES.replace("seed = 9", "seed = 9, order = \"paired\"");
    std::fs::write(bench.path("it.toml"), paired).expect("written");
    let output = bench.run(&["--force"]);
    assert!(output.status.success(), "{}", talk(&output));
    check("paired", [5, 5]);
}

const INSTALL: &str = r#"
lab = { retries = 0 }
link.wire = { between = ["one", "two"] }
node.one = { install = ["echo made >>made", "STEP"], run = "exit", wait = true }
node.two = { install = "echo made >>made", run = "exec sleep 60" }
"#;

#[test]
fn steps_of_install_run_if_they_are_asked_for() {
    let bench = Bench::new(&INSTALL.replace("STEP", "true"));
    let output = bench.run(&[]);
    if is_forbidden(&output) {
        return;
    }
    assert!(output.status.success(), "{}", talk(&output));
    let said = "not run without --install: echo made >>made";
    assert!(talk(&output).contains(said), "{}", talk(&output));
    assert!(!bench.path("made").exists());
    let output = bench.run(&["--install", "--force"]);
    assert!(output.status.success(), "{}", talk(&output));
    let made = std::fs::read_to_string(bench.path("made")).expect("it ran");
    assert_eq!(made, "made\n", "once");
    // One that fails ends the lab, with its last lines.
    let bench = Bench::new(&INSTALL.replace("STEP", "echo no network >&2; exit 100"));
    let output = bench.run(&["--install"]);
    assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
    let expected = "install: 'echo no network >&2; exit 100': exit status: 100; the last lines of \
                    it/install.log:\n  no network";
    assert!(talk(&output).contains(expected), "{}", talk(&output));
}

/// One of two links is captured; the log of the load is read.
const TAPPED: &str = r#"
lab = { retries = 0 }
link.near = { between = ["client", "a"] }
link.far = { between = ["client", "b"], tap = true, delay = "1ms" }
node.a = { run = "exec lineside load serve nfs $LINESIDE_ADDRESS", ready = "tcp:2049" }
node.b = { run = "exec lineside load serve nfs $LINESIDE_ADDRESS", ready = "tcp:2049" }
[node.client]
run = '''
for peer in $LINESIDE_PEER_A $LINESIDE_PEER_B; do
  lineside load nfs://$peer/export --hdr $LINESIDE_FILES/$peer.hlog -n 20 -c 1 -q || exit 1
done
mv $LINESIDE_FILES/$LINESIDE_PEER_B_FAR.hlog $LINESIDE_FILES/it.hlog'''
metric.near = { tap = "count(server=10.0.0.2)" }
metric.far = { tap = "count(server=10.0.1.2)" }
metric.median = { tap = "p50(server=10.0.1.2)" }
metric.logged = { hdr = "p50", tag = "latency", from = "it.hlog", scale = 1e-9 }
"#;

#[test]
fn figures_of_a_tap_and_of_a_log_are_metrics() {
    let bench = Bench::new(TAPPED);
    let output = bench.run(&[]);
    if is_forbidden(&output) {
        return;
    }
    assert!(output.status.success(), "{}", talk(&output));
    let lab = bench.json("it/lab.json");
    assert_eq!(medians(&lab, "near"), [0.0]);
    assert!(medians(&lab, "far")[0] >= 20.0, "{lab}");
    // Each way takes 1 ms; the tap is between them.
    for metric in ["median", "logged"] {
        let median = medians(&lab, metric)[0];
        assert!((0.001..1.0).contains(&median), "{metric}: {lab}");
    }
    assert!(medians(&lab, "logged")[0] >= 0.002, "{lab}");
}

#[test]
fn a_metric_that_cannot_be_had_is_named_by_its_place() {
    let run = |from: &str, to: &str| {
        assert!(TAPPED.contains(from), "{from}");
        let bench = Bench::new(&TAPPED.replace(from, to));
        let output = bench.run(&[]);
        (!is_forbidden(&output)).then(|| (output.status.code(), talk(&output)))
    };
    for (from, to, code, expected) in [
        (
            "count(server=10.0.0.2)",
            "cuont()",
            2,
            "it.toml:13:23: metric near: 'cuont()': ",
        ),
        ("tap = true, ", "", 2, "metric near: no link has tap = true"),
        (
            "delay = \"1ms\"",
            "delay = \"1ms\"\nlink.more = { between = [\"a\", \"b\"], tap = true }",
            2,
            "link.more: another link has tap",
        ),
        (
            "count(server=10.0.0.2)",
            "p99(SYMLINK)",
            1,
            "point 1, repeat 1: node client metric near: p99(SYMLINK) ",
        ),
        (
            "exit 1\ndone",
            "exit 1\ndone\nsed -i 's/.\\{20\\}$//' $LINESIDE_FILES/*",
            1,
            "metric logged: line ",
        ),
        (
            "$LINESIDE_FILES/it.hlog'''",
            "$LINESIDE_FILES/other.hlog'''",
            1,
            "metric logged: it.hlog in $LINESIDE_FILES cannot be read: No such file",
        ),
        (
            "mv $LINESIDE_FILES/$LINESIDE_PEER_B_FAR.hlog",
            "mkfifo",
            1,
            "metric logged: it.hlog in $LINESIDE_FILES is no file",
        ),
    ] {
        let to = to
            .replace("\nlink.more", " }\nlink.more")
            .replace("true }", "true");
        let Some((status, text)) = run(from, &to) else {
            return;
        };
        assert_eq!(status, Some(code), "{to}: {text}");
        assert!(text.contains(expected), "{to}: {text}");
    }
}

#[test]
fn the_loop_is_whole_in_one_lab() {
    let there = Command::new("sh")
        .args(["-c", "command -v nfs-cp"])
        .output();
    if !there.is_ok_and(|there| there.status.success()) {
        println!("SKIP: no loop: nfs-cp is missing");
        return;
    }
    let bench = looping("loop");
    let output = bench.run(&[]);
    if !is_forbidden(&output) {
        check_loop(&bench, &output);
    }
}

#[test]
fn the_loop_is_whole_with_a_real_server() {
    if let Some(why) = obstacle(&["rpcbind", "ganesha.nfsd", "nfs-cp"]) {
        println!("SKIP: no loop: {why}");
        return;
    }
    let bench = looping("loop-ganesha");
    let mut command = lineside();
    command
        .args(["lab", "it.toml"])
        .current_dir(bench.path("."));
    check_loop(&bench, &command.output().expect("it runs"));
}

/// An example, with fewer points.
fn looping(name: &str) -> Bench {
    let file = repository().join(format!("examples/labs/{name}.toml"));
    let text = std::fs::read_to_string(file).expect("an example");
    let text = text.replace("repeats = 3, retries = 1", "repeats = 1, retries = 0");
    Bench::new(&text.replace("[\"100mbit\", \"1gbit\"]", "[\"1gbit\"]"))
}

fn check_loop(bench: &Bench, output: &Output) {
    // How near each other they are is a matter of how busy the machine is: that is judged.
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        talk(output)
    );
    let lab = bench.json("it/lab.json");
    let assertions = lab["assertions"].as_array().expect("assertions");
    assert_eq!(assertions[0]["state"], "holds", "{lab}");
    for assertion in assertions {
        assert_ne!(assertion["state"], "undecided", "{lab}");
    }
    let captured = medians(&lab, "captured");
    for name in ["predicted", "replayed", "real"] {
        let values = medians(&lab, name);
        // 20 calls or more one after the other, each of which takes 20 ms, and 2 ms before.
        assert!(
            values[0] >= 0.040 && values[1] >= 0.400,
            "{name}: {values:?}"
        );
        assert!(
            values[1] > values[0] && values[1] > captured[1],
            "{name}: {lab}"
        );
    }
    // Both traces are there to be looked at.
    let files = bench.path("it/point=2/repeat=1/client.files");
    for trace in ["A", "B", "real"] {
        let report = lineside().arg("report").arg(files.join(trace)).output();
        assert!(report.expect("it runs").status.success(), "{trace}");
    }
}
