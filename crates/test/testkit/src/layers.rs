//! Which files of a crate use which others, as their source says, for tests of the layers inside
//! a crate.
//!
//! A use is a path that begins with `crate` or `super`, outside comments and unit tests. Not here:
//! which crates use which, which Cargo knows. And what a file takes from its own submodules does
//! not count: it declares them.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;
use std::path::{Path, PathBuf};

/// The module paths of a crate, `capture::flags` for one, each with those that it uses.
#[derive(Debug)]
pub struct Uses(BTreeMap<String, BTreeSet<String>>);

impl Uses {
    /// Reads all sources below `src`. The root of the crate, `main` or `lib`, is used by every path
    /// that leads to none of its modules: by what takes something that the root re-exports.
    ///
    /// # Panics
    ///
    /// If a file cannot be read.
    pub fn of(src: &Path) -> Self {
        let mut paths = Vec::new();
        sources(src, &mut paths);
        let files: BTreeMap<_, _> = paths.iter().map(|path| (module(src, path), path)).collect();
        let root = if files.contains_key("lib") {
            "lib"
        } else {
            "main"
        };
        let uses_of = |(this, path): (&String, &&PathBuf)| {
            let text = std::fs::read_to_string(path).expect("a source");
            let home = if this == root { "" } else { this };
            let used = paths_in(&text).into_iter().filter_map(|used| {
                let used = absolute(home, &used)?;
                let mut prefixes =
                    successors(Some(&used[..]), |path| Some(path.rsplit_once("::")?.0));
                let known = prefixes.find(|prefix| files.contains_key(*prefix));
                Some(known.unwrap_or(root).to_owned())
            });
            (this.clone(), used.filter(|used| used != this).collect())
        };
        Self(files.iter().map(uses_of).collect())
    }

    /// Each file with each that it uses.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        { self.0.iter() }
            .flat_map(|(file, used)| used.iter().map(move |used| (&file[..], &used[..])))
    }

    /// How many files there are.
    pub fn files(&self) -> usize {
        self.0.len()
    }

    /// The files that use each other in a circle, and those that use these.
    pub fn circles(&self) -> BTreeSet<&str> {
        let mut left: BTreeSet<_> = self.0.keys().map(|file| &file[..]).collect();
        loop {
            let is_free = |file: &&str| !self.0[*file].iter().any(|used| left.contains(&used[..]));
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
        let without = { self.0.keys() }
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

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

fn module(src: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(src).expect("below it").with_extension("");
    let name = relative.to_str().expect("UTF-8").replace('/', "::");
    match name.strip_suffix("::mod") {
        Some(folder) => folder.to_owned(),
        None => name,
    }
}

/// The paths of a source that begin with `crate` or `super`.
fn paths_in(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]\nmod tests").next();
    let lines = text.unwrap_or_default().lines().map(str::trim_start);
    let code: Vec<_> = lines.filter(|line| !line.starts_with("//")).collect();
    let code = code.join("\n");
    let is_of_name = |letter: char| letter.is_alphanumeric() || "_$:".contains(letter);
    let mut paths = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let is_begun = code[..at].ends_with(is_of_name);
            if !is_begun {
                flatten("", &tree_at(&code[at..]), &mut paths);
            }
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
    tree.split_whitespace().collect()
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
                flatten(&before, &inner[start..at], into);
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
                "pub struct Q;\n#[cfg(test)]\nmod tests { use crate::b::Y; }\n",
            ),
        ]);
        let expected = [("a", "b"), ("a::deep", "c"), ("a::deep", "lib"), ("b", "c")];
        assert_eq!(all.pairs().collect::<Vec<_>>(), expected);
        assert_eq!(all.circles(), BTreeSet::new());
    }

    #[test]
    fn circles_and_uses_against_the_layers_are_named() {
        let all = uses(&[
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("a.rs", "use crate::b::X;\n"),
            ("b.rs", "use super::a::Y;\n"),
            ("c.rs", "use crate::a::Y;\n"),
        ]);
        assert_eq!(all.circles(), BTreeSet::from(["a", "b", "c"]));
        let apart: &[&[&str]] = &[&["a"], &["b", "c"]];
        assert_eq!(all.against(apart), ["lib is in no layer", "a uses b"]);
        let together: &[&[&str]] = &[&["a b"], &["c"], &["lib"]];
        assert_eq!(all.against(together), [""; 0]);
    }
}
