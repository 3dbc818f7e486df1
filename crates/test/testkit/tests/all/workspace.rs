//! Layers, and what `deny.toml` says of dependencies, over `cargo metadata`.

use std::path::Path;
use std::process::Command;

use cargo_metadata::camino::Utf8Path;
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

/// The families, folders of `crates/`, lowest first. A crate may depend on its own family and those
/// below.
const FAMILIES: [&str; 8] = [
    "base", "os", "protocol", "engine", "trace", "role", "report", "cli",
];

/// The family that only tests may use.
const FOR_TESTS: &str = "test";

#[test]
fn dependencies_point_down() {
    let metadata = metadata();
    for package in metadata.workspace_packages() {
        let name = &package.name;
        assert!(
            name.starts_with("lineside-"),
            "{name} is not a lineside- crate"
        );
        let family = family(package.manifest_path.parent());
        if family == FOR_TESTS {
            continue;
        }
        let layer = layer(family);
        assert!(
            layer.is_some(),
            "{name} is in '{family}', which is no family: add it to FAMILIES and ARCHITECTURE.md"
        );
        for dependency in &package.dependencies {
            let Some(folder) = &dependency.path else {
                continue;
            };
            if dependency.kind == DependencyKind::Development {
                continue;
            }
            let below = self::family(Some(folder));
            assert!(
                below != FOR_TESTS,
                "{name} depends on {}, which is for tests",
                dependency.name
            );
            assert!(
                layer >= self::layer(below),
                "{name} depends on {}, which lies above it",
                dependency.name
            );
        }
    }
}

/// The map of the crates is the tree: each crate has a row, under its family, and no row is of
/// another.
#[test]
fn the_map_of_the_architecture_is_the_tree() {
    let metadata = metadata();
    let packages = metadata.workspace_packages();
    let mut crates: Vec<String> = { packages.iter() }
        .map(|package| {
            let folder = package.manifest_path.parent();
            let name = folder.and_then(|folder| folder.file_name());
            format!("{}/{}", family(folder), name.unwrap_or_default())
        })
        .collect();
    crates.sort();
    let path = metadata.workspace_root.join("ARCHITECTURE.md");
    let text = std::fs::read_to_string(path).expect("ARCHITECTURE.md");
    let mut family = "";
    let mut rows = Vec::new();
    let (_, map) = text.split_once("\n## Crates\n").expect("a map");
    let map = map.split("\n## ").next().unwrap_or_default();
    for line in map.lines().filter(|line| line.starts_with('|')) {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let (first, second) = (cells.next(), cells.next());
        if let Some(name) = first.and_then(|cell| cell.strip_prefix('`')?.strip_suffix("/`")) {
            family = name;
        }
        if let Some(name) = second.and_then(|cell| cell.strip_prefix('`')?.strip_suffix('`')) {
            rows.push(format!("{family}/{name}"));
        }
    }
    rows.sort();
    assert_eq!(rows, crates);
}

#[test]
fn unsafe_lives_in_the_mechanism_crates() {
    for package in metadata().workspace_packages() {
        let folder = package.manifest_path.parent();
        let has_unsafe = ["lineside-frame", "lineside-alloc"].contains(&package.name.as_str());
        if has_unsafe || family(folder) == "os" {
            continue;
        }
        for target in package
            .targets
            .iter()
            .filter(|target| target.is_lib() || target.is_bin())
        {
            let text = std::fs::read_to_string(&target.src_path).expect("a target has a source");
            assert!(
                text.contains("#![forbid(unsafe_code)]"),
                "{} does not forbid unsafe code",
                target.src_path
            );
        }
    }
}

#[test]
fn licences_are_permissive() {
    for package in &metadata().packages {
        let expression = package.license.as_deref().unwrap_or_default();
        assert!(
            allowed(expression),
            "{} {}: licence '{expression}' is not in deny.toml",
            package.name,
            package.version
        );
    }
}

#[test]
fn dependencies_come_from_where_they_may() {
    let rules = rules();
    let registries = words(&rules["sources"]["allow-registry"]);
    let banned = rules["bans"]["deny"].as_array().expect("a list");
    let banned: Vec<_> = { banned.iter() }
        .map(|each| each["crate"].as_str().expect("a name"))
        .collect();
    for package in &metadata().packages {
        let name = package.name.as_str();
        assert!(!banned.contains(&name), "{name} is banned by deny.toml");
        let Some(source) = &package.source else {
            let mut foreign = { package.dependencies.iter() }.filter(|each| each.path.is_none());
            let any = foreign.find(|each| each.req.comparators.is_empty());
            assert!(any.is_none(), "{name} takes any version of a crate");
            continue;
        };
        let registry = source.repr.strip_prefix("registry+");
        let is_known = registry.is_some_and(|from| registries.iter().any(|each| each == from));
        assert!(
            is_known,
            "{name} comes from {source}, which deny.toml does not name"
        );
    }
}

#[test]
fn licence_expressions_are_read_as_spdx_says() {
    for good in [
        "MIT",
        "MIT OR GPL-2.0",
        "GPL-2.0/MIT",
        "(MIT OR GPL-3.0) AND ISC",
        "Apache-2.0 WITH LLVM-exception",
    ] {
        assert!(allowed(good), "{good}");
    }
    for bad in [
        "",
        "GPL-2.0",
        "MIT AND GPL-2.0",
        "(MIT OR ISC) AND GPL-3.0",
        "GPL-2.0 WITH LLVM-exception",
    ] {
        assert!(!allowed(bad), "{bad}");
    }
}

/// `deny.toml`.
fn rules() -> toml::Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deny.toml");
    let text = std::fs::read_to_string(path).expect("it is there");
    text.parse().expect("TOML")
}

fn words(list: &toml::Value) -> Vec<String> {
    let list = list.as_array().expect("a list").iter();
    list.map(|each| each.as_str().expect("text").to_owned())
        .collect()
}

fn metadata() -> Metadata {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../Cargo.toml");
    // Only this platform's packages: the others need not be there.
    let rustc = Command::new("rustc")
        .arg("-vV")
        .output()
        .expect("rustc runs");
    let text = String::from_utf8_lossy(&rustc.stdout).into_owned();
    let host = text
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .expect("rustc names its host");
    let options = vec!["--filter-platform".to_owned(), host.to_owned()];
    MetadataCommand::new()
        .manifest_path(root)
        .other_options(options)
        .exec()
        .expect("cargo metadata")
}

/// The folder in which a crate's folder lies.
fn family(folder: Option<&Utf8Path>) -> &str {
    let family = folder.and_then(|folder| folder.parent()?.file_name());
    family.unwrap_or_default()
}

fn layer(family: &str) -> Option<usize> {
    FAMILIES.iter().position(|each| *each == family)
}

/// Whether one may use a package under this SPDX expression. `/` is an old way to write OR; AND
/// binds more tightly than OR.
fn allowed(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    any(&expression, " OR ", |branch| {
        !any(branch, " AND ", |term| !term_allowed(term))
    })
}

fn term_allowed(term: &str) -> bool {
    match term
        .strip_prefix('(')
        .and_then(|term| term.strip_suffix(')'))
    {
        Some(inner) => allowed(inner),
        None => words(&rules()["licenses"]["allow"])
            .iter()
            .any(|each| each == term),
    }
}

/// True if `holds` for any part between `separator`s outside parentheses.
fn any(expression: &str, separator: &str, holds: impl Fn(&str) -> bool) -> bool {
    let (mut depth, mut start) = (0, 0);
    for (at, character) in expression.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 && at >= start && expression[at..].starts_with(separator) => {
                if holds(expression[start..at].trim()) {
                    return true;
                }
                start = at + separator.len();
            }
            _ => {}
        }
    }
    holds(expression[start..].trim())
}
