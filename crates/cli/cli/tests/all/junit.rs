//! `--junit FILE`, read by Python's parser of XML; and what a locale without UTF-8 gets.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::report::{printed, run, traced};
use crate::support::{example, lineside, talk};

/// Prints each case of a document: its name, and the element that says how it went.
const READ: &str = "
import sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
assert root.tag == 'testsuites', root.tag
cases = [case for suite in root.findall('testsuite') for case in suite.findall('testcase')]
assert int(root.get('tests')) == len(cases)
for kind in ['failure', 'error']:
    assert int(root.get(kind + 's')) == len(root.findall('.//' + kind)), kind
for case in cases:
    assert case.get('classname') and case.get('time') is not None
    went = [each for each in case if each.tag in ('failure', 'error')]
    assert all(each.get('message') for each in went)
    print(case.get('name'), *(each.tag for each in went), sep='\t')
";

/// A file has these cases: the assertion, and `failure` or `error` if it does not hold.
pub(crate) fn is_junit(path: &Path, expected: &[(&str, Option<&str>)]) {
    let output = Command::new("python3")
        .args(["-c", READ])
        .arg(path)
        .output();
    let Ok(output) = output else {
        println!("SKIP: no python3");
        return;
    };
    let cases = printed(&output);
    let line = |&(name, went): &(&str, Option<&str>)| match went {
        Some(went) => format!("{name}\t{went}\n"),
        None => format!("{name}\n"),
    };
    assert_eq!(cases, expected.iter().map(line).collect::<String>());
}

#[test]
fn assertions_of_a_report_and_a_comparison_become_cases() {
    let folder = traced(&example());
    let asserts = [
        "--assert",
        "p99(READ) < 1h",
        "--assert",
        "errors < 1%",
        "--assert",
        "p50(SYMLINK, client=192.0.2.2, user=9999) < 1s",
    ];
    let junit = folder.path().join("junit.xml");
    fs::write(&junit, "x".repeat(9_999)).expect("an older one");
    let output = run(
        &folder,
        &[&["report", "trace", "--junit", "junit.xml"][..], &asserts].concat(),
    );
    assert_eq!(output.status.code(), Some(3), "{}", talk(&output));
    let cases = [
        (asserts[1], None),
        (asserts[3], Some("failure")),
        (asserts[5], Some("error")),
    ];
    is_junit(&junit, &cases);
    let compare = [
        &["compare", "trace", "trace", "--junit", "both.xml"][..],
        &asserts[..2],
    ];
    printed(&run(&folder, &compare.concat()));
    is_junit(&folder.path().join("both.xml"), &cases[..1]);
    // JSON says the same.
    let json = run(
        &folder,
        &[&["report", "trace", "--json"][..], &asserts].concat(),
    );
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let undecided = |at: usize| &json["assertions"][at]["undecided"];
    assert_eq!((undecided(1), undecided(2)), (&false.into(), &true.into()));
}

#[test]
fn a_run_that_fails_leaves_no_junit_file() {
    let folder = traced(&example());
    let words = ["--junit", "junit.xml", "--assert", "p99 < 1s"];
    let output = run(&folder, &[&["report", "none"][..], &words].concat());
    assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
    assert!(!folder.path().join("junit.xml").exists());
    let output = run(&folder, &["report", "trace", "--junit", "junit.xml"]);
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert!(talk(&output).contains("give at least one --assert"));
    let output = run(
        &folder,
        &["compare", "trace", "trace", "--html", "page.html"],
    );
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert!(
        talk(&output).contains("compare has no page"),
        "{}",
        talk(&output)
    );
}

#[test]
fn without_utf8_texts_are_ascii_and_data_are_not() {
    let folder = traced(&example());
    let text = |locale: &str, words: &[&str]| {
        let mut command = lineside();
        command.args(words).current_dir(folder.path());
        command.env("LC_ALL", locale);
        printed(&command.output().expect("it runs"))
    };
    for words in [
        &["report", "trace"][..],
        &["report", "trace", "--full"],
        &["slow", "trace", "0"],
    ] {
        for locale in ["C", "POSIX", "de_DE.ISO-8859-1"] {
            let text = text(locale, words);
            let other = text.chars().find(|character| !character.is_ascii());
            assert_eq!(other, None, "{words:?}: {text}");
            let long = text
                .lines()
                .find(|line| line.len() > 80 && words[0] == "report");
            assert_eq!(long, None, "{words:?}");
        }
    }
    assert!(text("C.UTF-8", &["report", "trace"]).contains('█'));
    let json = ["report", "trace", "--json", "--utc"];
    assert_eq!(text("C", &json), text("C.UTF-8", &json));
}

#[test]
fn a_capture_piped_in_is_no_live_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = fs::canonicalize(example()).expect("there");
    for _ in 0..2 {
        let mut command = lineside();
        command.args(["capture", "-", "-q", "--runs", "-o", "runs"]);
        command.current_dir(folder.path());
        let output = command
            .stdin(fs::File::open(&input).expect("there"))
            .output();
        printed(&output.expect("it runs"));
    }
    let first = printed(&run(&folder, &["report", "runs", "--utc"]));
    assert!(first.contains("verdict       complete"), "{first}");
    assert!(!first.contains("gap"), "{first}");
}
