//! `lineside report` and `lineside slow`: against DuckDB, against a stored page, and on bad input.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use lineside_analyze::{FailedGroup, FailedOperation, Report, Series, SlowGroup, SlowOperation};
use lineside_rows::Table;
use lineside_testkit::mangle::{Harm, mangle};
use lineside_testkit::{capture, captures};
use lineside_trace::SCHEMA_VERSION;
use serde_json::Value;
use tempfile::TempDir;

use crate::python::python;
use crate::slow::PER;
use crate::support::{example, lineside, records, repository, talk};

/// A folder with a trace of `input` in `trace`, which does not reveal where the input lies.
pub(crate) fn traced(input: &Path) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let name = input.file_name().expect("a file").to_str().expect("UTF-8");
    let whole = fs::canonicalize(input).expect("the input is there");
    std::os::unix::fs::symlink(whole, folder.path().join(name)).expect("linked");
    printed(&run(&folder, &["capture", name, "-q", "-o", "trace"]));
    folder
}

/// Runs `lineside` in a folder, so that what it prints does not depend on where that is.
pub(crate) fn run(folder: &TempDir, arguments: &[&str]) -> Output {
    let mut command = lineside();
    command.args(arguments).current_dir(folder.path());
    command.output().expect("lineside runs")
}

pub(crate) fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", talk(output));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn json(folder: &TempDir, arguments: &[&str]) -> Value {
    let all = [&["report", "trace", "--json"], arguments].concat();
    serde_json::from_str(&printed(&run(folder, &all))).expect("JSON")
}

fn part(folder: &TempDir) -> PathBuf {
    folder.path().join("trace/operations/part-000000.parquet")
}

#[test]
fn the_terminal_form_is_as_stored_and_fits_80_columns() {
    let folder = traced(&example());
    let first = printed(&run(&folder, &["report", "trace", "--utc"]));
    let full = printed(&run(&folder, &["report", "trace", "--full", "--utc"]));
    let text = format!("{first}\n{full}");
    let long: Vec<_> = { text.lines() }
        .filter(|line| line.chars().count() > 80)
        .collect();
    assert!(long.is_empty(), "longer than 80 columns: {long:#?}");
    assert!(
        !text.contains('\u{1b}'),
        "colours although it is no terminal"
    );
    let stored = repository().join("crates/cli/cli/tests/all/report.txt");
    if std::env::var_os("LINESIDE_STORE").is_some() {
        fs::write(&stored, &text).expect("stored");
    }
    let known = fs::read_to_string(&stored).expect("the stored report");
    assert!(
        text == known,
        "run with LINESIDE_STORE=1 and look at the difference:\n{text}"
    );
}

#[test]
fn a_run_killed_in_its_first_seconds_has_a_report() {
    let folder = traced(&example());
    let trace = folder.path().join("trace");
    for &table in Table::ALL {
        // Tables that were not wanted are not there.
        let _ = fs::remove_dir_all(trace.join(table.name()));
    }
    let file = trace.join("trace.json");
    let text = fs::read_to_string(&file).expect("there");
    let mut manifest: Value = serde_json::from_str(&text).expect("JSON");
    manifest["verdict"]["state"] = "unfinished".into();
    manifest["tables"] = serde_json::json!({});
    fs::write(&file, manifest.to_string()).expect("written");
    for verb in ["report", "info", "slow"] {
        let output = run(&folder, &[verb, "trace"]);
        let talk = talk(&output);
        assert!(!talk.contains("No such file"), "{verb}: {talk}");
        let text = printed(&output);
        assert!(verb == "slow" || text.contains("unfinished"), "{text}");
    }
    // What a run that ended lacks is an error.
    fs::write(&file, text).expect("written");
    let output = run(&folder, &["report", "trace"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(talk(&output).contains("it has no table operations"));
}

/// Traces of different kinds: two examples, and captures that lack something, where they are at
/// hand.
fn traces() -> Vec<TempDir> {
    let mut inputs = vec![example(), captures::example("nfs-v4.pcapng.zst")];
    if let Some(shared) = captures::beside() {
        inputs.push(shared.join("public/wireshark__nfs_bad_stalls.cap.zst"));
        inputs.push(shared.join("own/mix-v3-1500-snap128.pcap.zst"));
    }
    inputs.iter().map(|input| traced(input)).collect()
}

#[test]
fn the_first_screen_has_24_lines_at_any_width() {
    for folder in traces() {
        for columns in ["1", "60", "80", "133", "200", "999"] {
            let width = columns.parse::<usize>().expect("a number").clamp(60, 200);
            for form in [&["report", "trace"][..], &["report", "trace", "--full"]] {
                let mut command = lineside();
                command.args(form).env("COLUMNS", columns);
                let output = command.current_dir(folder.path()).output();
                let text = printed(&output.expect("lineside runs"));
                let long = text.lines().find(|line| line.chars().count() > width);
                assert_eq!(long, None, "{form:?}, {columns} columns");
                if form.len() == 2 {
                    assert!(text.lines().count() <= 24, "{text}");
                    for word in ["verdict", "stands out", "operations", "over time"] {
                        assert!(text.contains(word), "{word}: {text}");
                    }
                }
            }
        }
    }
}

#[test]
fn times_are_local_and_charts_show_them() {
    let folder = traced(&example());
    let report = |zone: &str, arguments: &[&str]| {
        let mut command = lineside();
        command.args(["report", "trace"]).args(arguments);
        let output = command.env("TZ", zone).current_dir(folder.path()).output();
        printed(&output.expect("lineside runs"))
    };
    // POSIX's form needs no database of zones: five and a half hours ahead of UTC.
    let zone = "XXX-5:30";
    let full = report(zone, &["--full"]);
    assert!(full.contains("17:32:22.001 +05:30"), "{full}");
    assert!(!full.contains("UTC"), "{full}");
    // A chart's last line is its axis.
    let charts = full.split(" a column").count() - 1;
    let ends = full
        .lines()
        .filter(|line| line.ends_with("17:32:22.010 +05:30"));
    assert_eq!((charts, ends.count()), (4, 4), "{full}");
    assert_eq!(
        report(zone, &["--full", "--utc"]),
        report("UTC", &["--full"])
    );
    assert_eq!(report(zone, &["--json"]), report("UTC", &["--json"]));
    // Times without an offset are local, and a time that was printed is understood.
    let count = |arguments: &[&str]| {
        let report = report(zone, &[&["--json"], arguments].concat());
        let report: Value = serde_json::from_str(&report).expect("JSON");
        report["totals"]["operations"].as_u64()
    };
    let after = count(&["--since", "2026-11-21T12:02:21Z"]);
    assert!(after > Some(0) && after < Some(414), "{after:?}");
    for since in [
        "17:32:21",
        "2026-11-21 17:32:21",
        "2026-11-21 17:32:21.000 +05:30",
    ] {
        assert_eq!(count(&["--since", since]), after, "{since}");
    }
    assert_eq!(count(&["--since", "12:02:21", "--utc"]), after);
}

#[test]
fn counts_sums_and_quantiles_agree_with_duckdb() {
    let Some(python) = python() else {
        println!("SKIP: no Python with duckdb (LINESIDE_PYTHON): ./test makes one");
        return;
    };
    let mut inputs = vec![example()];
    if let Some(shared) = captures::beside() {
        inputs.push(shared.join("public/wireshark__nfs_bad_stalls.cap.zst"));
        inputs.push(shared.join("own/mix-v3-1500-snap128.pcap.zst"));
    }
    for input in inputs {
        let folder = traced(&input);
        agrees_with_duckdb(&python, &folder);
        if input == example() {
            // Many users, shared files and storms, which a small trace does not have.
            let output = Command::new(&python)
                .arg(repository().join("crates/cli/cli/tests/all/multiply.py"))
                .arg(folder.path().join("trace"))
                .output();
            let output = output.expect("Python runs");
            assert!(output.status.success(), "{}", talk(&output));
            let storms = &json(&folder, &[])["getattr_storms"];
            assert!(
                storms.as_array().is_some_and(|storms| storms.len() > 1),
                "{storms}"
            );
            agrees_with_duckdb(&python, &folder);
        }
    }
}

pub(crate) fn agrees_with_duckdb(python: &Path, folder: &TempDir) {
    let report = printed(&run(folder, &["report", "trace", "--json"]));
    let mut child = Command::new(python)
        .arg(repository().join("crates/cli/cli/tests/all/report.py"))
        .arg(folder.path().join("trace"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("Python runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(report.as_bytes()).expect("written");
    drop(stdin);
    let output = child.wait_with_output().expect("Python ends");
    let facts = &json(folder, &[])["trace"]["inputs"];
    assert!(output.status.success(), "{facts}: {}", talk(&output));
}

#[test]
fn the_page_needs_nothing_else() {
    let folder = traced(&example());
    let page = printed(&run(&folder, &["report", "trace", "--html", "-"]));
    for reference in ["http:", "https:", "src=", "@import", "url(", "//"] {
        assert!(!page.contains(reference), "the page has {reference}");
    }
    let links: Vec<_> = { page.split("href=\"").skip(1) }
        .filter(|rest| !rest.starts_with("data:,\"") && !rest.starts_with("#s"))
        .collect();
    assert!(links.is_empty(), "the page leads elsewhere: {links:?}");
    let count = |what: &str| page.matches(what).count();
    assert_eq!(
        count("<table>"),
        count("<caption>"),
        "every table has a caption"
    );
    assert_eq!(
        count("<svg"),
        count("role=\"img\" aria-label="),
        "every drawing has a title"
    );
    assert_eq!(count("<h1>"), 1);
    let data = page
        .split("id=\"report\">")
        .nth(1)
        .and_then(|rest| rest.split("</script>").next());
    let data: Value = serde_json::from_str(data.expect("the data")).expect("JSON");
    assert_eq!(data, json(&folder, &[]));
}

#[test]
fn the_page_runs_its_own_script_alone() {
    let folder = traced(&example());
    let page = printed(&run(&folder, &["report", "trace", "--html", "-"]));
    let between = |from: &str, to: &str| {
        let (_, rest) = page.split_once(from).expect(from);
        rest.split_once(to).expect(to).0.to_owned()
    };
    let named = between("script-src 'sha256-", "'");
    let script = between("<script>", "</script>");
    let mut child = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sha256sum runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(script.as_bytes()).expect("written");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let hex = String::from_utf8(output.stdout).expect("text");
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("digits");
    let hash: Vec<u8> = (0..64).step_by(2).map(digit).collect();
    assert_eq!(
        base64(&hash),
        named,
        "report.js changed: its hash is in html.rs"
    );
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group
            .iter()
            .fold(0u32, |bits, &byte| bits << 8 | u32::from(byte));
        let bits = bits << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = bits >> (18 - 6 * place) & 63;
            text.push(match place <= group.len() {
                true => char::from(DIGITS[digit as usize]),
                false => '=',
            });
        }
    }
    text
}

/// The published schemas: of the report, of `--interval`, of a line of `slow` and `failed`.
fn schemas() -> [(&'static str, Value); 6] {
    [
        ("report", report_schema()),
        ("interval", schemars::schema_for!(Series).to_value()),
        ("slow", schemars::schema_for!(SlowOperation).to_value()),
        ("slow_group", schemars::schema_for!(SlowGroup).to_value()),
        ("failed", schemars::schema_for!(FailedOperation).to_value()),
        (
            "failed_group",
            schemars::schema_for!(FailedGroup).to_value(),
        ),
    ]
}

/// The schema of a report as it is written: some of its fields are not read from a certificate.
pub(crate) fn report_schema() -> Value {
    let settings = schemars::generate::SchemaSettings::default().for_serialize();
    let generator = settings.into_generator();
    generator.into_root_schema_for::<Report>().to_value()
}

#[test]
fn the_published_schemas_are_those_of_the_code() {
    for (name, schema) in schemas() {
        publish(name, &schema);
    }
}

/// Fails unless a schema is the published one.
pub(crate) fn publish(name: &str, schema: &Value) {
    let path = repository().join(format!("docs/schema/{name}.schema.json"));
    let text = serde_json::to_string_pretty(schema).expect("JSON") + "\n";
    if std::env::var_os("LINESIDE_STORE").is_some() {
        fs::write(&path, &text).expect("stored");
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == known,
        "docs/schema/{name}.schema.json: run with LINESIDE_STORE=1 and look at the difference"
    );
}

#[test]
fn every_json_form_is_as_its_schema_says() {
    let folder = traced(&example());
    let [report, interval, slow, group, ..] = schemas().map(|(_, schema)| schema);
    let mut found = Vec::new();
    for arguments in [
        &[][..],
        &["--client", "2001:db8::2", "--operation", "read"],
        &["--since", "1ms", "--until", "1s"],
        &["--since", "2100-01-01T00:00:00Z"],
    ] {
        check(
            &json(&folder, arguments),
            &report,
            &report,
            "report",
            &mut found,
        );
        let interval_ = [arguments, &["--interval", "0.1"]].concat();
        check(
            &json(&folder, &interval_),
            &interval,
            &interval,
            "interval",
            &mut found,
        );
    }
    let lines = printed(&run(&folder, &["slow", "trace", "0", "--json"]));
    for line in lines.lines() {
        let line = serde_json::from_str(line).expect("JSON");
        check(&line, &slow, &slow, "slow", &mut found);
    }
    for per in PER {
        let lines = printed(&run(&folder, &["slow", "trace", "--per", per, "--json"]));
        for line in lines.lines() {
            let line = serde_json::from_str(line).expect("JSON");
            check(&line, &group, &group, per, &mut found);
        }
    }
    assert!(found.is_empty(), "{found:#?}");

    // The check finds errors.
    let mut wrong = json(&folder, &[]);
    wrong["totals"]["operations"] = "many".into();
    wrong["totals"]["guesses"] = 1.into();
    let totals = wrong["totals"].as_object_mut().expect("an object");
    totals.remove("failed");
    wrong["clients"]["by_bytes"][0]["name"] = 1.into();
    check(&wrong, &report, &report, "report", &mut found);
    assert_eq!(found.len(), 4, "{found:#?}");
}

/// Lists where `value` does not conform to `schema`: another type, a field that is not described,
/// one that is required and absent, or a field without a description.
pub(crate) fn check(
    value: &Value,
    schema: &Value,
    root: &Value,
    place: &str,
    found: &mut Vec<String>,
) {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(reference.trim_start_matches('#'));
        return check(value, target.expect("a definition"), root, place, found);
    }
    if let Some(choices) = schema.get("anyOf").or_else(|| schema.get("oneOf")) {
        let fits = choices.as_array().into_iter().flatten().any(|choice| {
            let mut wrong = Vec::new();
            check(value, choice, root, place, &mut wrong);
            wrong.is_empty()
        });
        if !fits {
            found.push(format!("{place}: {value} is not one of the choices"));
        }
        return;
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let fits = |kinds: &Value| match kinds {
        Value::String(only) => only == kind,
        kinds => kinds
            .as_array()
            .is_some_and(|kinds| kinds.contains(&kind.into())),
    };
    if schema.get("const").is_some_and(|only| only != value)
        || schema.get("type").is_some_and(|kinds| !fits(kinds))
    {
        found.push(format!("{place}: {value} does not conform to the schema"));
        return;
    }
    match value {
        Value::Array(values) => {
            let items = schema.get("items").expect("arrays describe their items");
            for value in values {
                check(value, items, root, &format!("{place}[]"), found);
            }
        }
        Value::Object(fields) => {
            let Some(properties) = schema.get("properties") else {
                // A map: its values have one form, or any.
                if let Some(each) = schema.get("additionalProperties") {
                    for (name, value) in fields {
                        check(value, each, root, &format!("{place}.{name}"), found);
                    }
                }
                return;
            };
            for (name, value) in fields {
                match properties.get(name) {
                    Some(field) if field.get("description").is_some() => {
                        check(value, field, root, &format!("{place}.{name}"), found);
                    }
                    _ => found.push(format!("{place}.{name}: not described")),
                }
            }
            for name in schema
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                if name.as_str().is_none_or(|name| !fields.contains_key(name)) {
                    found.push(format!("{place}.{name}: absent"));
                }
            }
        }
        _ => {}
    }
}

#[test]
fn filters_divide_the_operations() {
    let folder = traced(&example());
    let count = |arguments: &[&str]| {
        json(&folder, arguments)["totals"]["operations"]
            .as_u64()
            .expect("a number")
    };
    let all = count(&[]);
    assert_eq!(all, 414);
    let (before, after) = (count(&["--until", "1ms"]), count(&["--since", "1ms"]));
    assert!(before > 0 && after > 0);
    assert_eq!(before + after, all);
    assert_eq!(
        count(&["--client", "192.0.2.2"]) + count(&["--client", "2001:DB8:0::2"]),
        all
    );
    assert_eq!(count(&["--operation", "read"]), 110);
    assert_eq!(
        count(&["--operation", "WRITE", "--client", "192.0.2.2"]),
        51
    );
    assert_eq!(count(&["--since", "2100-01-01T00:00:00Z"]), 0);
}

#[test]
fn ids_of_files_are_texts_that_no_reader_of_json_rounds() {
    let folder = traced(&example());
    let rows = records(&folder.path().join("trace"), Table::Operations);
    let known: Vec<_> = { rows.iter() }
        .filter_map(|row| Some(row.integer("file_id")?.to_string()))
        .collect();
    let report = json(&folder, &[]);
    let lines = printed(&run(&folder, &["slow", "trace", "0", "--json"]));
    let slow = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let slow: Vec<Value> = slow.collect();
    let busy = { ["files", "pairs"].into_iter() }
        .flat_map(|of| report[of]["by_operations"].as_array().expect("a list"));
    let ids: Vec<_> = { busy.chain(&slow) }
        .map(|each| &each["file_id"])
        .filter(|id| !id.is_null())
        .collect();
    assert!(ids.len() > 100);
    for id in ids {
        let is_known = id
            .as_str()
            .is_some_and(|id| known.iter().any(|known| known == id));
        assert!(is_known, "{id}");
    }
}

#[test]
fn intervals_add_up() {
    let folder = traced(&example());
    let series = json(&folder, &["--interval", "0.1"]);
    let intervals = series["intervals"].as_array().expect("intervals");
    assert_eq!(intervals.len(), 14);
    let sum = |pointer: &str| {
        intervals
            .iter()
            .filter_map(|each| each.pointer(pointer)?.as_u64())
            .sum::<u64>()
    };
    assert_eq!(sum("/all/operations"), 414);
    assert_eq!(sum("/read/operations"), 110);
    assert_eq!(sum("/write/operations"), 67);
    assert_eq!(sum("/all/retransmissions"), 8);
    let text = printed(&run(&folder, &["report", "trace", "--interval", "1"]));
    assert_eq!(text.matches("read: ").count(), 2);
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}

#[test]
fn intervals_give_reads_and_writes_the_bytes_of_their_compounds() {
    let folder = traced(&captures::example("nfs-v4.pcapng.zst"));
    let series = json(&folder, &["--interval", "60"]);
    let bytes = |what: &str| series["intervals"][0][what]["rpc_bytes"].as_u64();
    let report = json(&folder, &[]);
    let moved = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64);
    let (read, written, all) = (bytes("read"), bytes("write"), bytes("all"));
    assert!(read > moved("/totals/read_bytes"), "{read:?}, {report}");
    assert!(written > moved("/totals/written_bytes"), "{written:?}");
    assert!(all > read.zip(written).map(|(read, written)| read + written));
}

#[test]
fn unknown_read_figures_have_no_heading() {
    let folder = tempfile::tempdir().expect("a folder");
    // Frames cut after the headers of a READ's reply: none shows how much was read.
    let frames = capture::read(&example()).expect("the example");
    let harm = Harm {
        snap: 96,
        ..Harm::default()
    };
    let cut = folder.path().join("cut.pcap");
    fs::write(&cut, capture::write(&mangle(&frames, &harm).frames)).expect("written");
    let input = cut.to_str().expect("UTF-8");
    printed(&run(&folder, &["capture", input, "-q", "-o", "trace"]));
    let text = printed(&run(&folder, &["report", "trace", "--full"]));
    assert!(text.contains("nfs v3 READ"), "{text}");
    assert!(!text.lines().any(|line| line == "READ"), "{text}");
}

#[test]
fn folders_that_are_no_trace_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("file"), "x").expect("written");
    fs::create_dir(folder.path().join("empty")).expect("made");
    for (path, why) in [
        ("absent", "there is nothing of that name"),
        ("file", "it is a file"),
        ("empty", "neither trace.json nor a table operations"),
    ] {
        for verb in ["report", "slow"] {
            let output = run(&folder, &[verb, path]);
            assert_eq!(output.status.code(), Some(1), "{path}");
            assert!(talk(&output).contains(why), "{path}: {}", talk(&output));
            assert!(output.stdout.is_empty());
        }
    }
}

#[test]
fn an_empty_trace_has_a_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty.pcap");
    fs::write(&empty, capture::write(&[])).expect("a capture without frames");
    printed(&run(
        &folder,
        &["capture", "empty.pcap", "-q", "-o", "trace"],
    ));
    let text = printed(&run(&folder, &["report", "trace"]));
    assert!(text.contains("operations    none"), "{text}");
    let text = printed(&run(&folder, &["report", "trace", "--full"]));
    assert!(text.contains("operations    0"), "{text}");
    assert!(printed(&run(&folder, &["report", "trace", "--html", "-"])).contains("</html>"));
    assert_eq!(json(&folder, &[])["totals"]["operations"], 0);
    let asked = &json(&folder, &["--since", "1s"])["asked"];
    assert!(asked["since_ns"].is_null(), "it has no start: {asked}");
    assert_eq!(
        json(&folder, &["--interval", "1"])["intervals"],
        serde_json::json!([])
    );
    assert_eq!(
        printed(&run(&folder, &["slow", "trace"])).lines().count(),
        1
    );
    let output = run(&folder, &["report", "trace", "--operation", "READ"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        talk(&output).contains("it has no operations at all"),
        "{}",
        talk(&output)
    );
}

#[test]
fn times_that_run_backwards_are_refused() {
    let folder = traced(&example());
    for times in [
        ["--since", "2s", "--until", "1s"],
        ["--since", "1s", "--until", "1s"],
        ["--since", "1s", "--until", "2001-01-01T00:00:00Z"],
    ] {
        for verb in [
            &["report", "trace"][..],
            &["report", "trace", "--interval", "1"],
            &["slow", "trace"],
        ] {
            let output = run(&folder, &[verb, &times].concat());
            assert_eq!(output.status.code(), Some(1));
            assert!(
                talk(&output).contains("is not before --until"),
                "{}",
                talk(&output)
            );
            assert!(output.stdout.is_empty());
        }
    }
}

#[test]
fn a_terminal_gets_bold_headings_unless_no_color_is_set() {
    let folder = traced(&example());
    let on_terminal = |no_color: &str| {
        let output = Command::new("script")
            .args([
                "-qec",
                &format!("{} report trace", env!("CARGO_BIN_EXE_lineside")),
                "/dev/null",
            ])
            .env("NO_COLOR", no_color)
            .current_dir(folder.path())
            .output()
            .ok()?;
        assert!(output.status.success(), "{}", talk(&output));
        Some(String::from_utf8_lossy(&output.stdout).contains('\u{1b}'))
    };
    let Some(colour) = on_terminal("") else {
        println!("SKIP: no script(1), which makes a terminal: Debian's package bsdutils");
        return;
    };
    assert!(colour, "no bold heading");
    assert_eq!(on_terminal("1"), Some(false), "NO_COLOR is not respected");
}

#[test]
fn a_newer_schema_is_refused_and_a_newer_column_is_not() {
    let folder = traced(&example());
    let path = folder.path().join("trace/trace.json");
    let text = fs::read_to_string(&path).expect("trace.json");
    let version = |version: &str| {
        text.replace(
            &format!("\"schema_version\": \"{SCHEMA_VERSION}\""),
            &format!("\"schema_version\": \"{version}\""),
        )
    };
    fs::write(&path, version("2.7")).expect("written");
    assert_eq!(json(&folder, &[])["trace"]["schema_version"], "2.7");
    fs::write(&path, version("3.0")).expect("written");
    for verb in ["report", "info"] {
        let output = run(&folder, &[verb, "trace"]);
        assert_eq!(output.status.code(), Some(1));
        let talk = talk(&output);
        assert!(talk.contains("schema 3.0 is newer than"), "{talk}");
    }
}

#[test]
fn bytes_of_cut_frames_are_not_reported_as_zero() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut frames = capture::read(&example()).expect("the example");
    for frame in &mut frames {
        frame.bytes.truncate(128);
    }
    let cut = folder.path().join("cut.pcap");
    fs::write(&cut, capture::write(&frames)).expect("written");
    let folder = traced(&cut);
    let report = json(&folder, &[]);
    let untold = report["totals"]["without_amount"]
        .as_u64()
        .expect("a number");
    assert!(untold > 100, "{untold}");
    let found = report["findings"].as_array().expect("a list");
    assert!(found.iter().any(|finding| finding["kind"] == "amounts"));
    // Where the headers before the data are cut, there is no way to know its length.
    for row in records(&folder.path().join("trace"), Table::Operations) {
        let has = |column: &str, word: &str| row.text(column) == Some(word);
        let is_cut_read =
            has("operation", "READ") && has("status", "NFS3_OK") && row.is("reply_incomplete");
        let is_cut_write = has("operation", "WRITE") && row.is("call_incomplete");
        assert_eq!(row.is("data_incomplete"), is_cut_read || is_cut_write);
    }
}

/// A tap of one direction: what the other one carried is not 0.
#[test]
fn bytes_of_a_direction_that_was_not_seen_are_not_known() {
    for (filter, unknown) in [
        ("dst port 2049", "read not known"),
        ("src port 2049", "read not known; written not known"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let input = example();
        let input = input.to_str().expect("UTF-8");
        let capture = ["capture", input, "-f", filter, "-q", "-o", "trace"];
        run(&folder, &capture);
        let text = printed(&run(&folder, &["report", "trace"]));
        assert!(text.contains(unknown), "{filter}: {text}");
        let full = printed(&run(&folder, &["report", "trace", "--full"]));
        assert!(!full.contains(" 0 B"), "{filter}: {full}");
    }
}

/// `emulate --tap` that was killed: its tables are there, and `trace.json` does not count them yet.
#[test]
fn info_reads_the_trace_of_a_killed_tap() {
    let folder = traced(&example());
    let path = folder.path().join("trace/trace.json");
    let text = fs::read_to_string(&path).expect("trace.json");
    let mut manifest: Value = serde_json::from_str(&text).expect("JSON");
    manifest["configuration"] = serde_json::json!({ "emulate": { "tap": true } });
    manifest["tables"] = serde_json::json!({});
    fs::write(&path, manifest.to_string()).expect("written");
    let info = run(&folder, &["info", "trace"]);
    assert!(info.status.success(), "{}", talk(&info));
    assert!(String::from_utf8_lossy(&info.stdout).contains("operations   "));
}

#[test]
fn a_damaged_trace_is_reported_as_far_as_it_is_readable() {
    // A part that is gone.
    let folder = traced(&example());
    fs::remove_file(part(&folder)).expect("removed");
    let info = run(&folder, &["info", "trace"]);
    let output = run(&folder, &["report", "trace"]);
    for output in [&info, &output] {
        assert_eq!(output.status.code(), Some(1));
        let talk = talk(output);
        assert!(talk.contains("0 of the 1 parts"), "{talk}");
    }
    assert!(String::from_utf8_lossy(&info.stdout).contains("verdict "));
    assert!(String::from_utf8_lossy(&output.stdout).contains("unreadable"));

    // A part that ends early, and one whose pages are damaged.
    for harm in [
        |bytes: &mut Vec<u8>| bytes.truncate(1_000),
        |bytes: &mut Vec<u8>| bytes[20..9_000].fill(0xff),
    ] {
        let folder = traced(&example());
        let mut bytes = fs::read(part(&folder)).expect("the part");
        harm(&mut bytes);
        fs::write(part(&folder), bytes).expect("written");
        for verb in ["report", "slow", "info"] {
            let output = run(&folder, &[verb, "trace"]);
            assert_eq!(output.status.code(), Some(1));
            let talk = talk(&output);
            assert_eq!(talk.matches("part-000000.parquet").count(), 1, "{talk}");
            assert!(!output.stdout.is_empty());
        }
    }

    // No trace.json: the tables are still there.
    let folder = traced(&example());
    fs::remove_file(folder.path().join("trace/trace.json")).expect("removed");
    let output = run(&folder, &["report", "trace"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("not known") && text.contains("operations    414"),
        "{text}"
    );
}

#[test]
fn unknown_names_are_answered_with_the_nearest() {
    let folder = traced(&example());
    for (arguments, nearest) in [
        (["--client", "192.0.2.22"], "nearest that does is 192.0.2.2"),
        (["--operation", "READD"], "nearest that does is READ"),
    ] {
        for verb in ["report", "slow"] {
            let output = run(&folder, &[&[verb, "trace"][..], &arguments].concat());
            assert_eq!(output.status.code(), Some(1));
            assert!(talk(&output).contains(nearest), "{}", talk(&output));
        }
    }
    let output = run(&folder, &["report", "trace", "--since", "yesterday"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(talk(&output).contains("RFC 3339"), "{}", talk(&output));
}
