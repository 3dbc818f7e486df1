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
        let all = sources(src);
        let read = |path: &PathBuf| std::fs::read_to_string(path).expect("a source");
        let for_tests: Vec<PathBuf> = { all.iter() }
            .flat_map(|path| of_tests(path, &read(path)))
            .collect();
        for path in all {
            let parts = path.components().map(|part| part.as_os_str());
            if parts
                .clone()
                .any(|part| part == "tests" || part == "tests.rs")
                || for_tests.contains(&path)
            {
                continue;
            }
            let text = read(&path);
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

/// A source up to its first module of tests, whatever attributes stand between.
fn without_tests(text: &str) -> &str {
    let attributes = text.match_indices("#[cfg(").map(|(at, _)| at);
    let mut attributes = attributes.filter(|&at| at == 0 || text[..at].ends_with('\n'));
    let is_of_tests = |at: &usize| {
        let (condition, rest) = text[*at..].split_once(")]\n").unwrap_or_default();
        let is_test = ["(test", "loom"]
            .iter()
            .any(|word| condition.contains(word));
        // Attributes are closed before the item begins.
        let item = rest.lines().find(|line| !line.starts_with(['#', ' ', ')']));
        is_test && item.is_some_and(|item| item.contains("mod ") && item.ends_with('{'))
    };
    attributes.find(is_of_tests).map_or(text, |at| &text[..at])
}

/// The files that a source declares for tests alone.
fn of_tests(path: &Path, text: &str) -> Vec<PathBuf> {
    let names = text.split("#[cfg(test)]\nmod ").skip(1);
    let names = names.filter_map(|rest| rest.lines().next()?.strip_suffix(';'));
    let folder = path.parent().unwrap_or(path);
    names
        .map(|name| folder.join(name).with_extension("rs"))
        .collect()
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

    #[test]
    fn tests_are_left_out_whatever_stands_before_them() {
        let code = "fn code() {}\n\n#[cfg(test)]\nmod sample;\n#[cfg(target_os = \"linux\")]\nmod x {\n}\n";
        for tests in [
            "#[cfg(test)]\nmod tests {\n}\n",
            "#[cfg(test)]\n#[expect(\n    clippy::a,\n    reason = \"b\"\n)]\nmod tests {\n}\n",
            "#[cfg(all(test, loom))]\nmod model {\n}\n",
            "#[cfg(test)]\npub(crate) mod wall {\n}\n",
        ] {
            assert_eq!(without_tests(&format!("{code}{tests}")), code);
        }
        let declared = of_tests(Path::new("src/lib.rs"), code);
        assert_eq!(declared, [Path::new("src/sample.rs")]);
    }
}
