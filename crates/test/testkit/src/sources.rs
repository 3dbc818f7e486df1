//! The sources of a crate: which files there are, and how long they and their functions are,
//! without comments and unit tests.

use std::path::{Path, PathBuf};

/// How much source there is.
#[derive(Debug, Default)]
pub struct Sizes {
    /// Lines that are neither blank nor comment.
    pub code: usize,
    /// Files, each with its lines.
    pub files: Vec<(PathBuf, usize)>,
    /// Functions by `file: name`, each with its lines of code.
    pub functions: Vec<(String, usize)>,
}

impl Sizes {
    /// Adds the sources below `src`; files that only have tests are left out.
    ///
    /// # Panics
    ///
    /// If a file cannot be read.
    pub fn add(&mut self, src: &Path) {
        for path in sources(src) {
            let parts = path.components().map(|part| part.as_os_str());
            if parts
                .clone()
                .any(|part| part == "tests" || part == "tests.rs")
            {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source");
            let text = without_tests(&text);
            self.code += text.lines().filter(|line| is_code(line)).count();
            self.files.push((path.clone(), text.lines().count()));
            let functions = functions(text).into_iter();
            self.functions.extend(
                functions.map(|(name, lines)| (format!("{}: {name}", path.display()), lines)),
            );
        }
    }
}

/// All sources below a folder.
pub(crate) fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(path);
        }
    }
    all
}

/// A source without comments and unit tests, each line without its indentation.
pub(crate) fn code_of(text: &str) -> String {
    let lines = without_tests(text).lines().map(str::trim_start);
    let code: Vec<_> = lines.filter(|line| !line.starts_with("//")).collect();
    code.join("\n")
}

fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default()
}

fn is_code(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with("//")
}

/// The functions of a source as rustfmt writes it, each with its lines of code.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut all = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let Some((before, after)) = code.split_once("fn ") else {
            continue;
        };
        let is_qualifier = |word: &str| {
            matches!(word, "const" | "async" | "unsafe" | "extern" | "\"C\"")
                || word.starts_with("pub")
        };
        let is_of_bounds = |word: &str| matches!(word, "(super)" | "(crate)");
        if !before
            .split_whitespace()
            .all(|word| is_qualifier(word) || is_of_bounds(word))
        {
            continue;
        }
        let indent = line.len() - code.len();
        // A declaration ends without a body, and a short body in its line.
        let opening = lines[at..]
            .iter()
            .find(|line| line.ends_with(['{', ';', '}']));
        if !opening.is_some_and(|line| line.ends_with('{')) {
            continue;
        }
        let end = format!("{}}}", " ".repeat(indent));
        if let Some(length) = lines[at..].iter().position(|line| **line == end) {
            let of = &lines[at..=at + length];
            let name = after.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            let count = of.iter().filter(|line| is_code(line)).count();
            all.push((name.into_iter().next().unwrap_or_default(), count));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_their_lines_of_code() {
        let text = "trait T {\n    fn none(&self);\n}\n\npub(crate) fn two() -> u8 {\n    // why\n\n    \
                    1\n}\nimpl X {\n    const fn one() {}\n    fn cut(\n        self,\n    ) {\n    }\n}\n";
        assert_eq!(functions(text), [("two", 3), ("cut", 4)]);
    }
}
