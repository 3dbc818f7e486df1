//! `--junit FILE`: what came of assertions as JUnit's XML, which Jenkins, GitLab and others read: a
//! case for each assertion.
//!
//! The file is opened before a sandbox is entered and written when everything is known: it has a
//! whole document or, if the run fails, none.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use anyhow::Context;
use lineside_analyze::Assertion;

use crate::config::ConfigError;

/// The file of `--junit`.
pub(crate) struct Junit {
    path: PathBuf,
    file: File,
}

impl Junit {
    /// Opens FILE, if one was named; what it has stays until the end. `asserts` is the number of
    /// assertions.
    pub(crate) fn open(path: Option<&Path>, asserts: usize) -> anyhow::Result<Option<Self>> {
        let Some(path) = path else { return Ok(None) };
        if asserts == 0 {
            let why = "--junit FILE lists what came of assertions: give at least one --assert";
            return Err(ConfigError::usage(why).into());
        }
        // A new one goes at the end if it is still empty: the run failed.
        lineside_host::make_output(path);
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).open(path);
        let file = file.with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(Some(Self {
            path: path.to_owned(),
            file,
        }))
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Writes what came of the assertions of a verb about a run.
    pub(crate) fn finish(
        mut self,
        verb: &str,
        run: &str,
        assertions: &[Assertion],
    ) -> anyhow::Result<()> {
        let text = document(verb, run, assertions);
        let written = self.replace(text.as_bytes());
        if written.is_err() {
            // Half a document is none.
            let _ = self.file.set_len(0);
        }
        written.with_context(|| format!("{}: cannot write it", self.path.display()))
    }

    fn replace(&mut self, text: &[u8]) -> io::Result<()> {
        // A device or a pipe has no length.
        let is_file = self.file.metadata()?.is_file();
        if is_file {
            self.file.rewind()?;
        }
        self.file.write_all(text)?;
        match is_file {
            true => self.file.set_len(text.len() as u64),
            false => Ok(()),
        }
    }
}

/// The document: a suite with a case for each assertion. One that does not hold is a failure, one
/// that cannot be judged an error.
fn document(verb: &str, run: &str, assertions: &[Assertion]) -> String {
    let count = |is: fn(&Assertion) -> bool| assertions.iter().filter(|each| is(each)).count();
    let errors = count(|each| each.undecided);
    let failures = count(|each| !each.holds && !each.undecided);
    let sums = format!(
        "tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"0\" time=\"0\"",
        assertions.len()
    );
    let name = escaped(format!("lineside {verb} {run}").trim_end());
    let class = escaped(&format!("lineside.{verb}"));
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"lineside\" {sums}>\n  \
         <testsuite name=\"{name}\" {sums}>\n"
    );
    for each in assertions {
        let (case, what) = (escaped(&each.assertion), escaped(&each.what));
        let _ = write!(
            out,
            "    <testcase classname=\"{class}\" name=\"{case}\" time=\"0\">"
        );
        let _ = match (each.holds, each.undecided) {
            (true, _) => write!(out, "<system-out>{what}</system-out>"),
            (false, true) => write!(out, "<error type=\"undecided\" message=\"{what}\"/>"),
            (false, false) => write!(out, "<failure type=\"assertion\" message=\"{what}\"/>"),
        };
        out.push_str("</testcase>\n");
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

/// A text in XML 1.0, which has no control characters, whatever a trace is named.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' => out.push(' '),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            character if character.is_control() => out.push('\u{fffd}'),
            character => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assertion(text: &str, holds: bool, value: Option<f64>) -> Assertion {
        Assertion {
            assertion: text.to_owned(),
            holds,
            undecided: value.is_none(),
            value,
            bound: 1.0,
            operations: 3,
            what: format!("{text}: \"found\" \u{1b}[1m"),
        }
    }

    #[test]
    fn each_assertion_is_a_case() {
        let text = document(
            "report",
            "a&b",
            &[
                assertion("p99 < 1ms", true, Some(0.5)),
                assertion("p50 < 1ms", false, Some(2.0)),
                assertion("p99(READ) < 1ms", false, None),
            ],
        );
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(
            lines[2],
            "<testsuite name=\"lineside report a&amp;b\" tests=\"3\" failures=\"1\" errors=\"1\" \
            skipped=\"0\" time=\"0\">"
        );
        for (line, what) in [
            (3, "<system-out>"),
            (4, "<failure type=\"assertion\" "),
            (5, "<error type=\"undecided\" "),
        ] {
            assert!(lines[line].contains(what), "{}", lines[line]);
            assert!(
                lines[line].contains("&quot;found&quot; \u{fffd}[1m"),
                "{text}"
            );
        }
        assert!(lines[3].contains("name=\"p99 &lt; 1ms\""), "{text}");
    }

    #[test]
    fn a_shorter_document_replaces_a_longer_one_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("junit.xml");
        std::fs::write(&path, "x".repeat(10_000)).expect("written");
        let one = [assertion("p99 < 1ms", true, Some(0.5))];
        let open = || Junit::open(Some(&path), 1).expect("it opens");
        drop(open().expect("named"));
        let before = std::fs::read_to_string(&path).expect("there");
        assert_eq!(before, "x".repeat(10_000), "what was there stays");
        let junit = open().expect("named");
        junit.finish("load", "", &one).expect("it is written");
        let text = std::fs::read_to_string(&path).expect("there");
        assert_eq!(text, document("load", "", &one));
        std::fs::remove_file(&path).expect("removed");
        drop(open().expect("named"));
        let left = std::fs::metadata(&path).expect("there").len();
        assert_eq!(left, 0, "what is empty goes when the program ends");
        assert!(Junit::open(Some(&path), 0).is_err(), "nothing to list");
    }
}
