//! Which tests may fail on a machine that is busy: those in modules named `wall`, which `./test`
//! runs again. Everything else must hold always, so nothing else may look at the machine's clock,
//! wait for a while, or make network namespaces.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use lineside_host::wall_ns;
use lineside_testkit::captures::repository;

/// What needs the machine's clock, or namespaces of its own.
const MARKERS: [&str; 21] = [
    ".elapsed()",
    "Instant::now",
    "NetNamespace",
    "Ordinary::new",
    "Stopwatch",
    "SystemTime::now",
    "connect_timeout",
    "crate::wall::wire",
    "monotonic_ns",
    "need_wire!",
    "park_timeout",
    "recv_timeout",
    "report.wall <",
    "set_read_timeout",
    "set_write_timeout",
    "take_place",
    "thread::sleep",
    "undisturbed(",
    "wait_timeout",
    "CLONE_NEWNET",
    "netns",
];

/// Tests that may have a marker where they stand, with the reason.
const EXCEPT: [(&str, &str); 3] = [
    (
        "testkit/src/waiting.rs",
        "places are taken and left, whenever that is",
    ),
    ("testkit/tests/all/clock.rs", "the list of markers"),
    ("host/tests/sandbox.rs", "calls that the sandbox refuses"),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// The sources of all crates, by their paths in the folders of `crates`.
fn crates() -> Vec<(String, String)> {
    let (root, mut found) = (repository().join("crates"), Vec::new());
    sources(&root, &mut found);
    assert!(found.len() > 500, "{}", found.len());
    let read = |path: PathBuf| {
        let name = path.strip_prefix(&root).expect("found there");
        let name: PathBuf = name.components().skip(1).collect();
        (
            name.display().to_string(),
            fs::read_to_string(&path).expect("UTF-8"),
        )
    };
    found.into_iter().map(read).collect()
}

/// The lines of tests, and whether each stands in a module named `wall`. rustfmt indents them: a
/// module ends where its brace is in the column of its `mod`.
fn lines_of_tests<'a>(name: &str, text: &'a str) -> Vec<(usize, &'a str, bool)> {
    let is_of_tests = name.split('/').nth(1) == Some("tests");
    let is_wall_file = name
        .split('/')
        .any(|part| part == "wall" || part == "wall.rs");
    let (mut tests_end, mut wall_end) = (None, None);
    let (mut found, mut before) = (Vec::new(), "");
    for (at, line) in text.lines().enumerate() {
        let indent = &line[..line.len() - line.trim_start().len()];
        if let Some(name) =
            { line.trim_start().strip_prefix("mod ") }.and_then(|rest| rest.strip_suffix(" {"))
        {
            let end = || Some(format!("{indent}}}"));
            if before.contains("cfg(test)") || before.contains("cfg(all(test") {
                tests_end = end();
            }
            if name == "wall" {
                wall_end = end();
            }
        }
        if is_of_tests || tests_end.is_some() {
            found.push((at + 1, line, is_wall_file || wall_end.is_some()));
        }
        for end in [&mut tests_end, &mut wall_end] {
            if end.as_deref() == Some(line) {
                *end = None;
            }
        }
        before = line;
    }
    found
}

#[test]
fn only_modules_named_wall_need_the_machines_clock() {
    let mut astray = String::new();
    for (name, text) in crates() {
        if EXCEPT.iter().any(|(except, _)| *except == name) {
            continue;
        }
        for (at, line, is_wall) in lines_of_tests(&name, &text) {
            let code = line.split("//").next().unwrap_or_default();
            if let Some(marker) = { MARKERS.iter() }.find(|&&marker| code.contains(marker))
                && !is_wall
            {
                let _ = writeln!(astray, "{name}:{at}: {marker}");
            }
        }
    }
    assert!(
        astray.is_empty(),
        "move these tests to a module named `wall`:\n{astray}"
    );
}

/// `./test` recognises tests of the wall clock by `wall::` in their path.
#[test]
fn no_other_name_ends_in_wall() {
    for (name, text) in crates() {
        for line in text.lines() {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            let is_module = { &mut words }.any(|word| word == "mod");
            let module = words.next().unwrap_or_default();
            let is_other = module.ends_with("wall") && module != "wall";
            assert!(!(is_module && is_other), "{name}: {line}");
        }
    }
}

/// The day of a date, counted from 1970: by the civil calendar, as in days of the Julian period.
fn day(date: &str) -> Option<i64> {
    let mut parts = date.split('-').map(|part| part.parse::<i64>().ok());
    let (Some(Some(year)), Some(Some(month)), Some(Some(day)), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let is_date = (1970..2200).contains(&year) && (1..=12).contains(&month);
    if !is_date || !(1..=31).contains(&day) {
        return None;
    }
    // The year begins in March, so that the leap day is its last.
    let (year, month) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let of_year = (153 * month + 2) / 5 + day - 1;
    Some(365 * year + year / 4 - year / 100 + year / 400 + of_year - 719_468)
}

fn today() -> i64 {
    wall_ns() / 86_400_000_000_000
}

/// What is wrong with an attribute that leaves a test out.
fn fault_of(attribute: &str, today: i64) -> Option<&'static str> {
    const FORM: &str = "write #[ignore = \"quarantined until YEAR-MONTH-DAY: REASON\"]";
    let Some(text) = attribute.strip_prefix("#[ignore = \"quarantined until ") else {
        return Some(FORM);
    };
    let (date, reason) = text.split_once(": ").unwrap_or_default();
    match day(date) {
        None => Some(FORM),
        Some(_) if reason.trim_end_matches(['"', ']']).len() < 10 => Some(FORM),
        Some(until) if until < today => Some("its time is over: mend the test, or remove it"),
        Some(_) => None,
    }
}

#[test]
fn what_is_left_out_has_a_date_to_come_and_a_reason() {
    let mut wrong = String::new();
    for (name, text) in crates() {
        if name.ends_with("all/clock.rs") {
            continue;
        }
        for line in text.lines().map(str::trim_start) {
            let is_left_out = line.starts_with("#[ignore");
            if let Some(fault) = is_left_out.then(|| fault_of(line, today())).flatten() {
                let _ = writeln!(wrong, "{name}: {line}: {fault}");
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn dates_are_days_and_past_ones_are_over() {
    assert_eq!(day("1970-01-01"), Some(0));
    assert_eq!(day("2000-03-01"), Some(11_017));
    assert_eq!(day("2026-12-31"), Some(20_818));
    assert_eq!(day("2026-13-01"), None);
    assert_eq!(day("soon"), None);
    let of = |text: &str| fault_of(text, 20_000);
    assert_eq!(
        of("#[ignore = \"quarantined until 2026-12-31: veth is slow\"]"),
        None
    );
    for wrong in [
        "#[ignore]",
        "#[ignore = \"slow\"]",
        "#[ignore = \"quarantined until 2026-12-31: \"]",
        "#[ignore = \"quarantined until then: veth is slow\"]",
        "#[ignore = \"quarantined until 2020-12-31: veth is slow\"]",
    ] {
        assert!(of(wrong).is_some(), "{wrong}");
    }
}

/// Three rows of a test that are still open: it is quarantined, or mended.
#[test]
fn what_was_seen_flaky_is_in_the_ledger() {
    let text = fs::read_to_string(repository().join("docs/flaky.tsv")).expect("it is there");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("date\ttest\twhy\tstate"));
    let sources: String = crates().into_iter().map(|(_, text)| text).collect();
    let mut open = std::collections::BTreeMap::new();
    for line in lines {
        let [date, test, why, state] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("four columns: {line}")
        };
        assert!(day(date).is_some_and(|day| day <= today()), "{line}");
        assert!(!why.is_empty(), "{line}");
        let function = test.rsplit("::").next().unwrap_or_default();
        let is_known = state == "mended" || sources.contains(&format!("fn {function}("));
        assert!(is_known, "there is no such test: {line}");
        assert!(["open", "mended", "quarantined"].contains(&state), "{line}");
        if state == "open" {
            *open.entry(test).or_insert(0) += 1;
        }
    }
    open.retain(|_, times| *times >= 3);
    assert!(open.is_empty(), "quarantine or mend: {open:?}");
}
