//! The width of lines, and references that lead out of the repository: in the sources, the guides and the root's documents.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use lineside_testkit::captures::repository;

/// Columns of code and prose: rustfmt's `max_width`.
const WIDTH_MAX: usize = 100;

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
        } else if path.extension().is_some_and(|end| end == "rs" || end == "md") {
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

/// Whether a line may be longer: what cannot be broken, as a row of a table, a link or a literal without spaces.
fn is_unbreakable(line: &str, is_markdown: bool, is_code_block: bool) -> bool {
    let text = line.trim_start().trim_start_matches(['/', '!']).trim_start();
    let is_table = text.starts_with('|');
    let longest = text.split(' ').map(|word| word.chars().count()).max();
    is_table
        || longest.is_some_and(|longest| longest > WIDTH_MAX - 20)
        || is_markdown && (is_code_block || line.starts_with("    "))
}

#[test]
fn lines_of_code_and_prose_have_at_most_100_columns() {
    let mut wide = String::new();
    for path in ours() {
        let is_markdown = path.extension().is_some_and(|end| end == "md");
        let text = fs::read_to_string(&path).expect("UTF-8");
        let mut is_code_block = false;
        for (at, line) in text.lines().enumerate() {
            is_code_block ^= line.trim_start().starts_with("```");
            let columns = line.chars().count();
            if columns > WIDTH_MAX && !is_unbreakable(line, is_markdown, is_code_block) {
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

/// `issue 5`, `(C6)`: numbers of lists that are kept elsewhere.
fn has_foreign_number(line: &str) -> bool {
    let begins_with_digit = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
    let named = ["issue ", "issues "];
    let is_named = named.iter().any(|name| {
        let mut places = line.match_indices(name);
        places.any(|(at, _)| {
            let is_word = line[..at].chars().last().is_none_or(|c| !c.is_alphanumeric());
            is_word && begins_with_digit(&line[at + name.len()..])
        })
    });
    let bracketed = line.split('(').skip(1).any(|rest| {
        let Some((inside, _)) = rest.split_once(')') else {
            return false;
        };
        let mut letters = inside.chars();
        let row = letters.next().is_some_and(|first| "CMNPXUR".contains(first));
        row && !letters.as_str().is_empty() && letters.all(|c| c.is_ascii_digit())
    });
    is_named || bracketed
}
