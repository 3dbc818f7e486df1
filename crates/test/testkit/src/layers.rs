//! Which files of a crate use which others, as their source says, for tests of the layers inside
//! a crate.
//!
//! A use is a path that begins with `crate` or `super`, outside comments and unit tests. Not here:
//! which crates use which, which Cargo knows. What a file takes from its own submodules does not
//! count for layers: it declares them. It does for [`Uses::groups`], for which a name that a module
//! passes on is a use of the file that has it.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;
use std::path::Path;

use crate::sources::{code_of, sources};

/// The module paths of a crate, `capture::flags` for one, each with those that it uses.
#[derive(Debug)]
pub struct Uses {
    written: BTreeMap<String, BTreeSet<String>>,
    /// With its own submodules, and past the modules that only pass a name on.
    real: BTreeMap<String, BTreeSet<String>>,
}

/// Files of which each uses all others, directly or by others of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// By their module paths.
    pub files: Vec<String>,
    /// One of them is the module that the others are submodules of.
    pub is_family: bool,
}

impl Uses {
    /// Reads all sources below `src`. The root of the crate, `main` or `lib`, is used by every path
    /// that leads to none of its modules: by what takes something that the root re-exports.
    ///
    /// # Panics
    ///
    /// If a file cannot be read.
    pub fn of(src: &Path) -> Self {
        let sources = Sources::of(src);
        let written = |(this, source): (&String, &Source)| {
            let used = source.used.iter().filter_map(|path| {
                let path = absolute(sources.home(this), path)?;
                Some(sources.module_of(&path).to_owned())
            });
            (this.clone(), used.filter(|used| used != this).collect())
        };
        let real = |(this, source): (&String, &Source)| {
            let home = sources.home(this);
            let above = source.used.iter().filter(|path| !path.starts_with("self"));
            let above = above.filter_map(|path| absolute(home, path));
            let below = source.of_children.iter().map(|path| joined(home, path));
            // A name that is passed on may be used here too.
            let passed = source.passed.iter();
            let passed = passed.filter(|(name, _)| has_word(&source.rest, name));
            let all = above
                .chain(below)
                .chain(passed.map(|(_, path)| path.clone()));
            let used = all.map(|path| sources.home_of(&path, 0));
            (this.clone(), used.filter(|used| used != this).collect())
        };
        Self {
            written: sources.files.iter().map(written).collect(),
            real: sources.files.iter().map(real).collect(),
        }
    }

    /// The strongly connected groups of at least two files, the largest first.
    pub fn groups(&self) -> Vec<Group> {
        let reached: BTreeMap<&str, BTreeSet<&str>> = self
            .real
            .keys()
            .map(|file| (&file[..], self.reached(file)))
            .collect();
        let mut left: BTreeSet<&str> = reached.keys().copied().collect();
        let mut groups = Vec::new();
        while let Some(file) = left.pop_first() {
            let others = reached[file].iter().copied();
            let others: Vec<_> = others
                .filter(|other| *other != file && reached[other].contains(file))
                .collect();
            left.retain(|other| !others.contains(other));
            if !others.is_empty() {
                let mut files: Vec<_> = others.iter().map(|&other| other.to_owned()).collect();
                files.push(file.to_owned());
                files.sort();
                let is_below = |one: &str, other: &str| {
                    let rest = one.strip_prefix(other);
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
                };
                let mut heads = files.iter();
                let is_family = heads.any(|head| files.iter().all(|file| is_below(file, head)));
                groups.push(Group { files, is_family });
            }
        }
        groups.sort_by_key(|group| std::cmp::Reverse(group.files.len()));
        groups
    }

    /// All files that one uses, directly or by others.
    fn reached(&self, file: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut next: Vec<&str> = self.real[file].iter().map(|used| &used[..]).collect();
        while let Some(used) = next.pop() {
            if reached.insert(used) {
                next.extend(self.real[used].iter().map(|used| &used[..]));
            }
        }
        reached
    }

    /// Each file with each that it uses.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        { self.written.iter() }
            .flat_map(|(file, used)| used.iter().map(move |used| (&file[..], &used[..])))
    }

    /// How many files there are.
    pub fn files(&self) -> usize {
        self.written.len()
    }

    /// The files that use each other in a circle, and those that use these.
    pub fn circles(&self) -> BTreeSet<&str> {
        let mut left: BTreeSet<_> = self.written.keys().map(|file| &file[..]).collect();
        loop {
            let is_free = |file: &&str| {
                !self.written[*file]
                    .iter()
                    .any(|used| left.contains(&used[..]))
            };
            let free: Vec<_> = left.iter().copied().filter(is_free).collect();
            if free.is_empty() {
                return left;
            }
            left.retain(|file| !free.contains(file));
        }
    }

    /// What contradicts `layers`, the lowest first: each is a list of modules of the root, and a
    /// file may use its own module and those of layers below. Modules that share an entry, with a
    /// space between them, count as one.
    pub fn against(&self, layers: &[&[&str]]) -> Vec<String> {
        let place = |file: &str| {
            let entries = layers.iter().enumerate();
            let mut entries =
                entries.flat_map(|(height, layer)| layer.iter().map(move |entry| (height, *entry)));
            entries.find(|(_, entry)| entry.split(' ').any(|name| name == part(file)))
        };
        let without = { self.written.keys() }
            .filter(|file| place(file).is_none())
            .map(|file| format!("{file} is in no layer"));
        let upward = self.pairs().filter(|(file, used)| {
            let (Some(from), Some(to)) = (place(file), place(used)) else {
                return false;
            };
            from != to && from.0 <= to.0
        });
        let upward = upward.map(|(file, used)| format!("{file} uses {used}"));
        without.chain(upward).collect()
    }
}

/// The module of the root that a file belongs to.
pub fn part(file: &str) -> &str {
    file.split("::").next().unwrap_or_default()
}

fn module(src: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(src).expect("below it").with_extension("");
    let name = relative.to_str().expect("UTF-8").replace('/', "::");
    match name.strip_suffix("::mod") {
        Some(folder) => folder.to_owned(),
        None => name,
    }
}

/// The sources of a crate by their module paths.
struct Sources {
    files: BTreeMap<String, Source>,
    root: &'static str,
}

/// A source without comments and unit tests.
#[derive(Default)]
struct Source {
    /// The paths that begin with `crate` or `super`.
    used: Vec<String>,
    /// The paths that begin with a submodule, from this module on.
    of_children: Vec<String>,
    /// Names that `pub use` passes on, each with its path from the root; `*` is every name.
    passed: Vec<(String, String)>,
    code: String,
    /// `code` without `pub use`.
    rest: String,
}

impl Sources {
    fn of(src: &Path) -> Self {
        let mut codes = BTreeMap::new();
        for path in sources(src) {
            let text = std::fs::read_to_string(&path).expect("a source");
            codes.insert(module(src, &path), code_of(&text));
        }
        let root = if codes.contains_key("lib") {
            "lib"
        } else {
            "main"
        };
        let names: BTreeSet<String> = codes.keys().cloned().collect();
        let source = |(this, code): (String, String)| {
            let home = if this == root { "" } else { &this };
            let children: Vec<&str> = { names.iter() }
                .filter(|name| **name != this && **name != root)
                .filter_map(|name| below(home, name))
                .collect();
            let (rest, uses) = without_passed_on(&code);
            let mut source = Source {
                used: ["crate::", "super::"]
                    .map(|start| paths_in(&code, start))
                    .concat(),
                rest,
                ..Source::default()
            };
            for child in &children {
                let start = format!("{child}::");
                source.of_children.extend(paths_in(&source.rest, &start));
            }
            for path in uses {
                let (path, name) = match path.split_once(" as ") {
                    Some((path, name)) => (path.to_owned(), name.to_owned()),
                    None => (path.clone(), part_at_end(&path).to_owned()),
                };
                let head = part(&path);
                let whole = match head {
                    "self" => Some(joined(home, &path["self::".len()..])),
                    head if children.contains(&head) => Some(joined(home, &path)),
                    _ => absolute(home, &path),
                };
                source.passed.extend(whole.map(|whole| (name, whole)));
            }
            source.code = code;
            (this, source)
        };
        Self {
            files: codes.into_iter().map(source).collect(),
            root,
        }
    }

    fn home<'a>(&self, file: &'a str) -> &'a str {
        if file == self.root { "" } else { file }
    }

    /// The file whose module a path from the root leads into, as it is written.
    fn module_of<'a>(&'a self, path: &'a str) -> &'a str {
        let mut prefixes = successors(Some(path), |path| Some(path.rsplit_once("::")?.0));
        let known = prefixes.find(|prefix| self.files.contains_key(*prefix));
        known.unwrap_or(self.root)
    }

    /// The file that has what a path leads to, past modules that only pass it on.
    fn home_of(&self, path: &str, depth: usize) -> String {
        const DEPTH_MAX: usize = 8;
        let file = self.module_of(path);
        let home = self.home(file);
        let rest = path.strip_prefix(home).unwrap_or(path);
        let rest = rest.trim_start_matches("::");
        let (name, more) = rest.split_once("::").unwrap_or((rest, ""));
        let source = &self.files[file];
        if name.is_empty() || depth == DEPTH_MAX {
            return file.to_owned();
        }
        let mut passed = source.passed.iter();
        if let Some((_, to)) = passed.find(|(passed, _)| passed == name) {
            return self.home_of(&joined(to, more), depth + 1);
        }
        let mut globs = source.passed.iter().filter(|(name, _)| name == "*");
        let glob = globs.find(|(_, to)| {
            let to = to.trim_end_matches("::*");
            let of = &self.files[self.module_of(to)];
            !defines(&source.rest, name)
                && (defines(&of.code, name) || of.passed.iter().any(|(passed, _)| passed == name))
        });
        match glob {
            Some((_, to)) => self.home_of(&joined(to.trim_end_matches("::*"), rest), depth + 1),
            None => file.to_owned(),
        }
    }
}

/// What of a module path lies directly below another.
fn below<'a>(home: &str, name: &'a str) -> Option<&'a str> {
    let rest = match home {
        "" => name,
        home => name.strip_prefix(home)?.strip_prefix("::")?,
    };
    (!rest.contains("::")).then_some(rest)
}

fn joined(home: &str, path: &str) -> String {
    match (home, path) {
        ("", path) => path.to_owned(),
        (home, "") => home.to_owned(),
        (home, path) => format!("{home}::{path}"),
    }
}

fn part_at_end(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or_default()
}

fn has_word(code: &str, word: &str) -> bool {
    let is_of_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    code.match_indices(word).any(|(at, _)| {
        !code[..at].ends_with(is_of_name) && !code[at + word.len()..].starts_with(is_of_name)
    })
}

fn defines(code: &str, name: &str) -> bool {
    const ITEMS: [&str; 7] = ["struct", "enum", "fn", "const", "static", "type", "trait"];
    ITEMS
        .iter()
        .any(|item| has_word(code, &format!("{item} {name}")))
}

/// A source without the paths that `pub use` passes on, and those.
fn without_passed_on(code: &str) -> (String, Vec<String>) {
    let (mut rest, mut paths) = (String::new(), Vec::new());
    let mut left = code;
    while let Some(at) = left.find("pub") {
        let (before, here) = left.split_at(at);
        rest.push_str(before);
        let after = &here["pub".len()..];
        let after = match after.strip_prefix('(').and_then(|of| of.split_once(')')) {
            Some((_, after)) => after,
            None => after,
        };
        let of = after
            .strip_prefix(" use ")
            .and_then(|of| of.split_once(';'));
        let Some((tree, after)) = of.filter(|_| !before.ends_with(char::is_alphanumeric)) else {
            rest.push_str("pub");
            left = &here["pub".len()..];
            continue;
        };
        let words: Vec<&str> = tree.split_whitespace().collect();
        flatten(
            "",
            &words.join(" ").replace("{ ", "{").replace(", ", ","),
            &mut paths,
        );
        left = after;
    }
    rest.push_str(left);
    paths.retain(|path| !path.is_empty());
    (rest, paths)
}

/// The paths of a source that begin so.
fn paths_in(code: &str, start: &str) -> Vec<String> {
    let is_of_name = |letter: char| letter.is_alphanumeric() || "_$:".contains(letter);
    let mut paths = Vec::new();
    for (at, _) in code.match_indices(start) {
        // How far a name is visible is no use.
        if !code[..at].ends_with(is_of_name) && !code[..at].ends_with("pub(in ") {
            flatten("", &tree_at(&code[at..]), &mut paths);
        }
    }
    paths
}

/// The path or tree of paths that `code` begins with, without spaces.
fn tree_at(code: &str) -> String {
    let is_of_path = |letter: char| letter.is_alphanumeric() || "_:".contains(letter);
    let mut depth = 0;
    let end = code.find(|letter: char| {
        match letter {
            // A brace that does not follow `::` opens a block.
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => return depth == 0 && !is_of_path(letter),
        }
        depth < 0
    });
    let tree = &code[..end.unwrap_or(code.len())];
    let tree = match tree.find('{') {
        Some(brace) if !tree[..brace].ends_with("::") => &tree[..brace],
        _ => tree,
    };
    let mut words = tree.split_whitespace();
    let mut path = String::new();
    while let Some(word) = words.next() {
        match word {
            // Under which name it is used says nothing of where it is.
            "as" => path.extend(
                words
                    .next()
                    .and_then(|name| name.strip_prefix(plain_name(name))),
            ),
            word => path.push_str(word),
        }
    }
    path
}

fn plain_name(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    &text[..end.unwrap_or(text.len())]
}

/// The paths of a tree of `use`: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn flatten(before: &str, tree: &str, into: &mut Vec<String>) {
    let Some((head, rest)) = tree.split_once('{') else {
        into.push(format!("{before}{tree}"));
        return;
    };
    let before = format!("{before}{head}");
    let inner = rest.strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in inner.char_indices().chain([(inner.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                // A tree of several lines has a comma at its end.
                if !inner[start..at].is_empty() {
                    flatten(&before, &inner[start..at], into);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// `path`, as the module `home` writes it, from the root of the crate on.
fn absolute(home: &str, path: &str) -> Option<String> {
    if let Some(path) = path.strip_prefix("crate::") {
        return Some(path.to_owned());
    }
    let (mut home, mut rest) = (home, path);
    while let Some(above) = rest.strip_prefix("super::") {
        home = home.rsplit_once("::").map_or("", |(parent, _)| parent);
        rest = above;
    }
    match home {
        _ if rest == path => None,
        "" => Some(rest.to_owned()),
        home => Some(format!("{home}::{rest}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(sources: &[(&str, &str)]) -> Uses {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, text) in sources {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(path, text).expect("a source");
        }
        Uses::of(folder.path())
    }

    #[test]
    fn every_way_to_write_a_use_is_found() {
        let all = uses(&[
            ("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::X;\n"),
            ("a/mod.rs", "mod deep;\nuse super::b::{Y, Z as W};\n"),
            ("a/deep.rs", "use crate::{c::{\n    Q,\n}, X};\n"),
            (
                "b.rs",
                "// use crate::a::X;\nfn f() -> crate::c::Q {\n    1\n}\n",
            ),
            (
                "c.rs",
                "pub struct Q;\n#[cfg(test)]\nmod tests {\n    use crate::b::Y;\n}\n",
            ),
        ]);
        let expected = [("a", "b"), ("a::deep", "c"), ("a::deep", "lib"), ("b", "c")];
        assert_eq!(all.pairs().collect::<Vec<_>>(), expected);
        assert_eq!(all.circles(), BTreeSet::new());
    }

    #[test]
    fn groups_see_past_names_that_are_passed_on() {
        let all = uses(&[
            ("lib.rs", "mod a;\nmod b;\npub use a::deep::X;\n"),
            ("a/mod.rs", "pub mod deep;\nfn f() { deep::g(); }\n"),
            ("a/deep.rs", "pub struct X;\nuse super::f;\n"),
            ("b.rs", "use crate::X;\n"),
        ]);
        let family = Group {
            files: vec!["a".to_owned(), "a::deep".to_owned()],
            is_family: true,
        };
        assert_eq!(all.groups(), [family]);
        let all = uses(&[
            ("lib.rs", "mod a;\nmod b;\npub use a::X;\npub use b::Y;\n"),
            ("a.rs", "pub struct X;\nuse crate::Y;\n"),
            ("b.rs", "pub struct Y;\nuse crate::X;\n"),
        ]);
        let [group] = &all.groups()[..] else {
            panic!("{all:#?}");
        };
        assert_eq!(
            (&group.files[..], group.is_family),
            (&["a".to_owned(), "b".to_owned()][..], false)
        );
    }

    #[test]
    fn circles_and_uses_against_the_layers_are_named() {
        let all = uses(&[
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("a.rs", "use crate::b::X;\n"),
            ("b.rs", "use super::{\n    a::Y,\n};\n"),
            ("c.rs", "use crate::a::Y;\npub(in crate::b) struct Z;\n"),
        ]);
        assert_eq!(all.circles(), BTreeSet::from(["a", "b", "c"]));
        let apart: &[&[&str]] = &[&["a"], &["b", "c"]];
        assert_eq!(all.against(apart), ["lib is in no layer", "a uses b"]);
        let together: &[&[&str]] = &[&["a b"], &["c"], &["lib"]];
        assert_eq!(all.against(together), [""; 0]);
    }
}
