//! The width of lines, and references that lead out of the repository: in the sources, the guides
//! and the root's documents.

use std::collections::HashSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use lineside_testkit::captures::repository;

/// Folders that are not ours to write, or that a build made.
const NOT_OURS: [&str; 5] = ["target", ".git", "corpus", "seeds", "artifacts"];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            if !NOT_OURS.iter().any(|not| name == *not) {
                files(&path, found);
            }
        } else if path
            .extension()
            .is_some_and(|end| end == "rs" || end == "md")
        {
            found.push(path);
        }
    }
}

fn ours() -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&repository(), &mut found);
    assert!(found.len() > 200, "{found:?}");
    found
}

/// The names of functions with the attribute `#[test]`, and of tests that `proptest!` makes.
fn test_names(text: &str) -> impl Iterator<Item = &str> {
    let behind = text.split("#[test]").skip(1);
    behind.filter_map(|behind| {
        let (_, name) = behind.split_once("fn ")?;
        Some(
            name.split(|c: char| !c.is_alphanumeric() && c != '_')
                .next()?,
        )
    })
}

#[test]
fn test_names_have_at_most_60_characters() {
    let mut long = String::new();
    for path in ours() {
        let text = fs::read_to_string(&path).expect("UTF-8");
        let names = test_names(&text).filter(|name| name.len() > 60);
        names.for_each(|name| {
            let _ = writeln!(long, "{}: {name}", path.display());
        });
    }
    assert!(long.is_empty(), "\n{long}");
}

/// A promise is shown by tests that exist: single names, or files of tests.
#[test]
fn every_test_that_the_specification_names_exists() {
    let mut known: HashSet<String> = HashSet::new();
    for path in ours() {
        let text = fs::read_to_string(&path).expect("UTF-8");
        known.extend(test_names(&text).map(str::to_owned));
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        known.insert(stem.into_owned());
    }
    let specification = repository().join("SPECIFICATION.md");
    let text = fs::read_to_string(specification).expect("UTF-8");
    let mut checked = 0;
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        let shown_by = line.rsplit('|').nth(1).unwrap_or_default();
        for name in shown_by.split('`').skip(1).step_by(2) {
            if name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            {
                checked += 1;
                assert!(known.contains(name), "no test is called {name}: {line}");
            }
        }
    }
    assert!(checked > 150, "{checked} names");
}
