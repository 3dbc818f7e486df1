//! Heads of modules, names of tests, the width of lines, and references that lead out of the
//! repository: in the sources, the guides and the root's documents.

use std::collections::HashSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use lineside_testkit::captures::repository;

/// Columns of prose: comments and Markdown. Code is formatted by rustfmt to the same width.
const PROSE_MAX: usize = 100;

/// Columns of what rustfmt leaves as it is: bodies of macros, long texts.
const LINE_MAX: usize = 120;

/// Folders that are not ours to write, or that a build made.
const NOT_OURS: [&str; 5] = ["target", ".git", "corpus", "seeds", "artifacts"];

/// Documents that are not in the repository, and numbers that only they explain.
const FOREIGN: [&str; 3] = ["trace-format.md", "mission.md", "cli.md"];

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

/// How long a line may be.
fn columns_max(line: &str, is_markdown: bool, is_code_block: bool) -> usize {
    let text = line.trim_start();
    let is_comment = text.starts_with("//");
    let prose = text.trim_start_matches(['/', '!']).trim_start();
    let longest = prose.split(' ').map(|word| word.chars().count()).max();
    // Rows of tables, links, and literals without spaces.
    let is_unbreakable = prose.starts_with('|') || longest > Some(PROSE_MAX - 20);
    let is_example = is_markdown && (is_code_block || line.starts_with("    "));
    // Drawings are as wide as they are.
    let is_drawing = is_comment && prose.contains(['─', '►', '◄']) || prose.contains("     ");
    match () {
        () if is_unbreakable || is_example => usize::MAX,
        () if is_drawing => LINE_MAX,
        () if is_comment || is_markdown => PROSE_MAX,
        () => LINE_MAX,
    }
}

#[test]
fn lines_of_prose_have_at_most_100_columns() {
    let mut wide = String::new();
    for path in ours() {
        // Its lines are those of the tables' declarations, as a test of `trace` compares them.
        if path.ends_with("docs/guide/trace.md") {
            continue;
        }
        let is_markdown = path.extension().is_some_and(|end| end == "md");
        let text = fs::read_to_string(&path).expect("UTF-8");
        let mut is_code_block = false;
        for (at, line) in text.lines().enumerate() {
            is_code_block ^= line.trim_start().starts_with("```");
            let columns = line.chars().count();
            if columns > columns_max(line, is_markdown, is_code_block) {
                let _ = writeln!(wide, "{}:{}: {columns}", path.display(), at + 1);
            }
        }
    }
    assert!(wide.is_empty(), "\n{wide}");
}

#[test]
fn references_lead_to_what_is_in_the_repository() {
    let mut foreign = String::new();
    for path in ours() {
        // This list itself.
        if path.ends_with("prose.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("UTF-8");
        for (at, line) in text.lines().enumerate() {
            let names = FOREIGN.iter().any(|name| line.contains(name));
            if names || has_foreign_number(line) {
                let _ = writeln!(foreign, "{}:{}: {line}", path.display(), at + 1);
            }
        }
    }
    assert!(foreign.is_empty(), "\n{foreign}");
}

/// The names of functions with the attribute `#[test]`, and of tests that `proptest!` makes.
fn test_names(text: &str) -> impl Iterator<Item = &str> {
    let behind = text.split("#[test]").skip(1);
    behind.filter_map(|behind| {
        let (_, name) = behind.split_once("fn ")?;
        name.split(|c: char| !c.is_alphanumeric() && c != '_')
            .next()
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

/// A module of more than 150 lines says at its head what it is, and what it is not.
#[test]
fn long_modules_open_with_what_they_are() {
    let mut silent = String::new();
    for path in ours() {
        let text = fs::read_to_string(&path).expect("UTF-8");
        let is_module = path.extension().is_some_and(|end| end == "rs");
        let is_source = path.components().any(|part| part.as_os_str() == "src");
        if is_module && is_source && text.lines().count() > 150 && !text.starts_with("//!") {
            let _ = writeln!(silent, "{}", path.display());
        }
    }
    assert!(silent.is_empty(), "\n{silent}");
}

/// Lines of the README: what is more stands in the cookbook and the guides.
const README_LINES_MAX: usize = 120;

#[test]
fn the_readme_has_at_most_120_lines() {
    let text = fs::read_to_string(repository().join("README.md")).expect("UTF-8");
    let lines = text.lines().count();
    assert!(lines <= README_LINES_MAX, "{lines} lines");
}

/// A heading as links name it.
fn anchor(heading: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | ' ');
    let heading: String = heading.trim().to_lowercase().chars().filter(kept).collect();
    heading.replace(' ', "-")
}

/// The headings of a Markdown text outside its code.
fn anchors(text: &str) -> HashSet<String> {
    let prose = text.split("\n```").step_by(2).flat_map(str::lines);
    { prose.filter(|line| line.starts_with('#')) }
        .map(|line| anchor(line.trim_start_matches('#')))
        .collect()
}

/// The targets of links in a Markdown text that lead to no other host.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1);
    targets
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target)
        .filter(|target| !target.contains(char::is_whitespace) && !target.contains("://"))
}

#[test]
fn links_lead_to_files_and_headings_that_exist() {
    let (mut dead, mut checked) = (String::new(), 0);
    for path in ours() {
        if path.extension().is_none_or(|end| end != "md") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("UTF-8");
        for target in links(&text) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let to = match file {
                "" => path.clone(),
                file => path.with_file_name(file),
            };
            let is_markdown = to.extension().is_some_and(|end| end == "md");
            let is_there = match heading {
                "" => to.exists(),
                heading => fs::read_to_string(&to)
                    .is_ok_and(|text| !is_markdown || anchors(&text).contains(heading)),
            };
            checked += 1;
            if !is_there {
                let _ = writeln!(dead, "{}: {target}", path.display());
            }
        }
    }
    assert!(dead.is_empty(), "\n{dead}");
    assert!(checked > 150, "{checked} links");
}

/// Two rows of one id are two truths: merges leave them behind.
#[test]
fn every_promise_of_the_specification_stands_once() {
    let text = fs::read_to_string(repository().join("SPECIFICATION.md")).expect("UTF-8");
    let mut known = HashSet::new();
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        let id = line.split('|').nth(1).unwrap_or_default().trim();
        if id.ends_with(|last: char| last.is_ascii_digit()) {
            assert!(known.insert(id), "{id} stands twice");
        }
    }
    assert!(known.len() > 100, "{} promises", known.len());
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
    let documents = ["SPECIFICATION.md", "docs/tcp.md"].map(|name| repository().join(name));
    let text = documents.map(|path| fs::read_to_string(path).expect("UTF-8"));
    let text = text.join("\n");
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

/// `issue 5`, `(C6)`: numbers of lists that are kept elsewhere.
fn has_foreign_number(line: &str) -> bool {
    let begins_with_digit = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
    let named = ["issue ", "issues "];
    let is_named = named.iter().any(|name| {
        let mut places = line.match_indices(name);
        places.any(|(at, _)| {
            let is_word = line[..at]
                .chars()
                .last()
                .is_none_or(|c| !c.is_alphanumeric());
            is_word && begins_with_digit(&line[at + name.len()..])
        })
    });
    let bracketed = line.split('(').skip(1).any(|rest| {
        let Some((inside, _)) = rest.split_once(')') else {
            return false;
        };
        let mut letters = inside.chars();
        let row = letters
            .next()
            .is_some_and(|first| "CMNPXUR".contains(first));
        row && !letters.as_str().is_empty() && letters.all(|c| c.is_ascii_digit())
    });
    is_named || bracketed
}
