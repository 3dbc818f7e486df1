//! Traces, folders, names and numbers that somebody made to do harm: nothing hangs, steers the
//! terminal, deletes what is not ours, or ends in a panic.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{example, lineside, talk};

/// Escapes in the forms of one and of eight bits, a bell, writing from right to left, an end of a
/// line, and HTML.
const NAME: &str = "a\u{1b}]0;x\u{7}\u{9b}31m\u{202e}\nlineside: <b>&'\"";

/// Runs `lineside` in a folder. What hangs is ended after a minute, which is a failure with status
/// 124.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    let command = lineside();
    let mut guarded = Command::new("timeout");
    guarded.arg("60").arg(command.get_program()).args(arguments);
    guarded.current_dir(folder).output().expect("it runs")
}

/// A folder with a trace of the example in `trace`.
fn traced() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let input = example();
    let input = input.to_str().expect("UTF-8");
    let output = run(folder.path(), &["capture", input, "-q", "-o", "trace"]);
    assert!(output.status.success(), "{}", talk(&output));
    folder
}

fn fifo(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo runs").success());
}

#[test]
fn what_is_no_file_in_a_trace_is_named_and_not_opened() {
    let folder = traced();
    let trace = folder.path().join("trace");
    let table = trace.join("operations");
    fifo(&table.join("part-000007.parquet"));
    let _socket = UnixListener::bind(table.join("part-000008.parquet")).expect("bound");
    let zero = table.join("part-000009.parquet");
    std::os::unix::fs::symlink("/dev/zero", zero).expect("linked");
    fs::create_dir(table.join("part-000010.parquet")).expect("made");
    let verbs = [
        &["report", "trace"][..],
        &["report", "trace", "--interval", "1"],
        &["info", "trace"],
        &["slow", "trace"],
        &["plan", "trace"],
        &["image", "trace"],
    ];
    for verb in verbs {
        let output = run(folder.path(), verb);
        assert_eq!(output.status.code(), Some(1), "{verb:?}: {}", talk(&output));
        for part in 7..=10 {
            let line =
                format!("operations/part-{part:06}.parquet: cannot be read: it is not a file");
            assert!(talk(&output).contains(&line), "{verb:?}: {}", talk(&output));
        }
        assert!(!output.stdout.is_empty(), "{verb:?}: the rest is reported");
    }
    fs::remove_file(trace.join("trace.json")).expect("removed");
    for make in [fifo, |path: &Path| {
        std::os::unix::fs::symlink("/dev/zero", path).expect("linked");
    }] {
        let _ = fs::remove_file(trace.join("trace.json"));
        make(&trace.join("trace.json"));
        let more = [
            &["ctl", "trace"][..],
            &["capture", "x.pcap", "--config", "trace/trace.json"],
            &[
                "capture",
                "x.pcap",
                "--cores",
                "2",
                "--scheduler",
                "pinned",
                "--placement",
                "traffic:trace",
            ],
            &["table", "from-trace", "trace"],
        ];
        for verb in verbs.iter().chain(&more) {
            let output = run(folder.path(), verb);
            assert!(
                matches!(output.status.code(), Some(1 | 2)),
                "{verb:?}: {}",
                talk(&output)
            );
        }
    }
}

#[test]
fn a_fifo_among_capture_files_is_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let inputs = folder.path().join("inputs");
    fs::create_dir(&inputs).expect("made");
    fs::copy(example(), inputs.join("a.pcapng.zst")).expect("copied");
    fifo(&inputs.join("b.pcap"));
    std::os::unix::fs::symlink("/dev/zero", inputs.join("c.pcap")).expect("linked");
    for verb in [
        &["info", "inputs"][..],
        &["capture", "inputs", "-o", "trace", "-q"],
    ] {
        let output = run(folder.path(), verb);
        assert!(output.status.success(), "{}", talk(&output));
        for name in ["b.pcap", "c.pcap"] {
            let line = format!("left out: 'inputs/{name}' is not a file");
            assert!(talk(&output).contains(&line), "{}", talk(&output));
        }
    }
}

/// Fails if anything in a program's output could steer a terminal, or looks like a line of ours.
fn assert_harmless(what: &str, output: &Output) {
    assert!(
        matches!(output.status.code(), Some(0..=2)),
        "{what}: {}",
        talk(output)
    );
    for text in [&output.stdout, &output.stderr] {
        let text = std::str::from_utf8(text).expect("UTF-8");
        let steers = |each: char| each.is_control() && each != '\n' || each == '\u{202e}';
        assert!(!text.contains(steers), "{what}: {text:?}");
        assert!(!text.contains("\nlineside: <b>"), "{what}: {text:?}");
    }
}

/// Puts [`NAME`] into each text of a value.
fn make_hostile(value: &mut Value, key: &str) {
    match value {
        Value::String(text) if !["schema_version", "state"].contains(&key) => {
            *text = NAME.to_owned();
        }
        Value::Array(all) => all.iter_mut().for_each(|each| make_hostile(each, key)),
        Value::Object(all) => all
            .iter_mut()
            .for_each(|(key, each)| make_hostile(each, key)),
        _ => {}
    }
}

#[test]
fn texts_of_a_foreign_trace_steer_no_terminal() {
    let folder = traced();
    let emulated = [
        "emulate",
        example().to_str().expect("UTF-8"),
        "--delay",
        "1ms",
    ]
    .map(str::to_owned);
    let emulated: Vec<_> = emulated.iter().map(String::as_str).collect();
    let output = run(
        folder.path(),
        &[&emulated[..], &["-q", "-o", "link"]].concat(),
    );
    assert!(output.status.success(), "{}", talk(&output));
    for trace in ["trace", "link"] {
        let path = folder.path().join(trace).join("trace.json");
        let text = fs::read_to_string(&path).expect("there");
        let mut manifest: Value = serde_json::from_str(&text).expect("JSON");
        make_hostile(&mut manifest, "");
        manifest["verdict"]["reasons"] = json!([NAME]);
        let tables = manifest["tables"].as_object_mut().expect("a table");
        tables.insert(NAME.to_owned(), json!({"rows": 1, "parts": 1, "bytes": 1}));
        if let Some(directions) = manifest["certificate"]["directions"].as_object_mut() {
            let (_, direction) = directions.iter().next().expect("one");
            let direction = direction.clone();
            directions.insert(NAME.to_owned(), direction);
        }
        fs::write(&path, manifest.to_string()).expect("written");
        let part = folder
            .path()
            .join(trace)
            .join("operations")
            .join(format!("{NAME}.parquet"));
        let _ = fs::write(part.with_file_name(NAME.replace('/', "") + ".parquet"), "x");
        for verb in [
            &["info", trace][..],
            &["info", trace, "--json"],
            &["report", trace],
            &["report", trace, "--json"],
            &["report", trace, "--html", "-"],
            &["slow", trace, "1ns"],
            &["slow", trace, "1ns", "--json"],
            &["plan", trace],
            &["plan", trace, "--json"],
            &["image", trace],
            &["image", trace, "--json"],
            &["ctl", trace],
        ] {
            let output = run(folder.path(), verb);
            assert_harmless(&format!("{verb:?}"), &output);
            if verb.contains(&"--html") {
                let page = String::from_utf8_lossy(&output.stdout);
                assert!(!page.contains("<b>&'"), "{page}");
            }
            if verb.contains(&"--json") {
                let lines = String::from_utf8_lossy(&output.stdout);
                let values = serde_json::Deserializer::from_str(&lines).into_iter::<Value>();
                assert!({ values }.all(|value| value.is_ok()), "{verb:?}: {lines}");
            }
        }
    }
}

#[test]
fn names_on_the_command_line_steer_no_terminal() {
    let folder = traced();
    let name = NAME.replace('/', "");
    let there = format!("{name}.pcapng.zst");
    fs::copy(example(), folder.path().join(&there)).expect("copied");
    let flag = format!("--{name}");
    for verb in [
        &["info", &there][..],
        &["info", &name],
        &["capture", &there, "-o", &name],
        &["capture", &there, "-o", &name],
        &["capture", &name, "-o", "x"],
        &["capture", &there, "-o", "y", "-f", &name],
        &["capture", &there, "-o", "z", "--memory", &name],
        &["report", &name, "--interval", "1"],
        &["report", "trace", "--client", &name],
        &["report", "trace", &flag],
        &["report", "trace", "--html", &name],
        &["emulate", &there, "--delay", &name],
        &["emulate", &there, "--delay", "1ms", "-o", "e"],
        &["table", &name],
        &["ctl", &name],
        &["capture", "--config", &name],
        &["replay-pcap", "-i", &name, &there],
    ] {
        assert_harmless(&format!("{verb:?}"), &run(folder.path(), verb));
    }
}

#[test]
fn force_deletes_only_what_lineside_wrote() {
    let folder = traced();
    let input = example();
    let input = input.to_str().expect("UTF-8");
    let own = fs::read_to_string(folder.path().join("trace/trace.json")).expect("there");
    let part = fs::read(folder.path().join("trace/operations/part-000000.parquet"));
    let part = part.expect("there");
    let other = own.replacen("\"trace_id\": \"", "\"trace_id\": \"0", 1);
    let of_other_tool = own.replacen("\"name\": \"lineside\"", "\"name\": \"other\"", 1);
    for (what, manifest, table, bytes) in [
        ("another tool's trace.json", "{}", "operations", &part),
        (
            "another tool's trace.json",
            &of_other_tool,
            "operations",
            &part,
        ),
        (
            "another tool's part",
            &own,
            "operations",
            &b"PAR1PAR1".to_vec(),
        ),
        ("a part of another trace", &other, "operations", &part),
        ("another tool's folder", &own, "spark", &part),
    ] {
        let out = folder.path().join("out");
        let precious = out.join(table).join("part-000000.parquet");
        fs::create_dir_all(out.join(table)).expect("made");
        fs::write(out.join("trace.json"), manifest).expect("written");
        fs::write(&precious, bytes).expect("written");
        let output = run(folder.path(), &["capture", input, "-o", "out", "--force"]);
        assert_eq!(output.status.code(), Some(1), "{what}: {}", talk(&output));
        assert!(
            talk(&output).contains("so --force deletes nothing there"),
            "{}",
            talk(&output)
        );
        assert_eq!(fs::read(&precious).expect("there"), *bytes, "{what}");
        assert_eq!(
            fs::read_to_string(out.join("trace.json")).expect("there"),
            manifest,
            "{what}"
        );
        fs::remove_dir_all(&out).expect("removed");
    }
    // A link is not a part, whatever it leads to.
    let linked = folder.path().join("trace/operations/part-000009.parquet");
    std::os::unix::fs::symlink("part-000000.parquet", &linked).expect("linked");
    let force = ["capture", input, "-q", "-o", "trace", "--force"];
    assert_eq!(run(folder.path(), &force).status.code(), Some(1));
    fs::remove_file(linked).expect("removed");
    let output = run(folder.path(), &force);
    assert!(output.status.success(), "{}", talk(&output));
}

#[test]
fn a_page_replaces_a_file_only_with_force() {
    let folder = traced();
    let page = folder.path().join("page.html");
    fs::write(&page, "precious").expect("written");
    let output = run(folder.path(), &["report", "trace", "--html", "page.html"]);
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert!(
        talk(&output).contains("replace it with --force"),
        "{}",
        talk(&output)
    );
    assert_eq!(fs::read_to_string(&page).expect("there"), "precious");
    let forced = ["report", "trace", "--html", "page.html", "--force"];
    assert!(run(folder.path(), &forced).status.success());
    assert!(
        fs::read_to_string(&page)
            .expect("there")
            .contains("</html>")
    );
    let device = ["report", "trace", "--html", "/dev/null"];
    assert!(
        run(folder.path(), &device).status.success(),
        "a device holds nothing to lose"
    );
}

/// What a key may be set to beyond its bounds, by the form of its default.
fn beyond(value: &Value) -> Vec<Value> {
    let text = value.as_str().unwrap_or_default();
    match value {
        Value::Number(_) | Value::Null => [0, 1 << 31, 1 << 32, 1 << 53, i64::MAX as u64, u64::MAX]
            .map(Value::from)
            .into(),
        _ if text.ends_with("iB") => ["0", "8000000TiB", "18446744073709551615", "99999999TiB"]
            .map(Value::from)
            .into(),
        _ if text.starts_with(|first: char| first.is_ascii_digit()) => [
            "0s",
            "1ns",
            "9223372036s",
            "18446744073709551615ns",
            "99999999999999999999s",
        ]
        .map(Value::from)
        .into(),
        _ => Vec::new(),
    }
}

#[test]
fn no_number_of_a_key_ends_in_a_panic() {
    let folder = traced();
    let input = example();
    let input = input.to_str().expect("UTF-8");
    let link = ["emulate", input, "--delay", "1ms", "-q", "-o", "link"];
    assert!(run(folder.path(), &link).status.success());
    for (verb, trace) in [("capture", "trace"), ("emulate", "link")] {
        let path = folder.path().join(trace).join("trace.json");
        let text = fs::read_to_string(path).expect("there");
        let manifest: Value = serde_json::from_str(&text).expect("JSON");
        let keys = manifest["configuration"][verb].as_object().expect("keys");
        for (key, value) in keys {
            for value in beyond(value) {
                let config = json!({ "configuration": { verb: { key: value } } });
                fs::write(folder.path().join("c.json"), config.to_string()).expect("written");
                let arguments = [verb, input, "--config", "c.json", "-c", "9", "-q"];
                let output = run(folder.path(), &arguments);
                let what = format!("{key} = {value}: {}", talk(&output));
                assert!(matches!(output.status.code(), Some(0..=2)), "{what}");
                assert!(!talk(&output).contains("panicked"), "{what}");
            }
        }
    }
    for verb in ["capture", "emulate"] {
        let arguments = [verb, input, "--delay", "1ms", "--memory", "8000000TiB"];
        let arguments: Vec<_> = { arguments.into_iter() }
            .filter(|each| verb == "emulate" || !["--delay", "1ms"].contains(each))
            .collect();
        let output = run(folder.path(), &arguments);
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        assert!(
            talk(&output).contains("memory: this machine has "),
            "{}",
            talk(&output)
        );
    }
}
