//! The layers of the files of this crate: a verb does not use another verb, and no files use each
//! other in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Modules that several verbs use, and which use no verb.
const SHARED: [&str; 4] = ["config", "inputs", "link", "print"];
/// Modules that may use all others: the entrance, the printer of the whole command line, and a test
/// of all declarations.
const ABOVE: [&str; 3] = ["main", "manual", "guide"];

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => sources(&path, into),
            false => into.push(path),
        }
    }
}

/// `use` trees, flattened.
fn flat(before: &str, tree: &str, into: &mut Vec<String>) {
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
                flat(&before, &inner[start..at], into);
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The files that each file uses, by module: `capture::flags`.
fn uses() -> BTreeMap<String, BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    sources(&root, &mut paths);
    let module = |path: &PathBuf| {
        let relative = path
            .strip_prefix(&root)
            .expect("below it")
            .with_extension("");
        let name = relative.to_str().expect("UTF-8").replace('/', "::");
        name.strip_suffix("::mod")
            .map_or(name.clone(), str::to_owned)
    };
    let known: BTreeSet<_> = paths.iter().map(module).collect();
    let mut all = BTreeMap::new();
    for path in &paths {
        let text = std::fs::read_to_string(path).expect("a source");
        let text = text
            .split("#[cfg(test)]\nmod tests")
            .next()
            .unwrap_or_default();
        let this = module(path);
        let is_folder = path.ends_with("mod.rs");
        let parent = match this.rsplit_once("::") {
            _ if is_folder => this.clone(),
            Some((parent, _)) => parent.to_owned(),
            None => String::new(),
        };
        let mut used = Vec::new();
        for statement in text.split("\nuse ").skip(1) {
            let tree: String = statement
                .split(';')
                .next()
                .unwrap_or_default()
                .split_whitespace()
                .collect();
            flat("", &tree, &mut used);
        }
        let used = used.iter().filter_map(|path| {
            let path = match (path.strip_prefix("crate::"), path.strip_prefix("super::")) {
                (Some(path), _) => path.to_owned(),
                (None, Some(path)) => format!("{parent}::{path}"),
                (None, None) => return None,
            };
            let parts: Vec<_> = path.split("::").collect();
            let mut longest = (1..=parts.len())
                .rev()
                .map(|count| parts[..count].join("::"));
            longest.find(|module| known.contains(module))
        });
        let used = used.filter(|used| *used != this).collect();
        all.insert(this, used);
    }
    all
}

/// The verb or the shared part that a file belongs to.
fn part(module: &str) -> &str {
    module.split("::").next().unwrap_or_default()
}

#[test]
fn no_verb_uses_another_and_nothing_shared_uses_a_verb() {
    let all = uses();
    assert!(all.len() > 30, "{all:?}");
    for (file, used) in &all {
        for other in used {
            let (from, to) = (part(file), part(other));
            let is_right = from == to || ABOVE.contains(&from) || SHARED.contains(&to);
            assert!(is_right, "{file} uses {other}");
        }
    }
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let mut left = uses();
    loop {
        let free = |used: &BTreeSet<String>| used.iter().all(|used| !left.contains_key(used));
        let done: Vec<_> = { left.iter() }
            .filter(|(_, used)| free(used))
            .map(|(file, _)| file.clone())
            .collect();
        if done.is_empty() {
            break;
        }
        left.retain(|file, _| !done.contains(file));
    }
    assert!(left.is_empty(), "in a circle, or above one: {left:#?}");
}
