//! Layers and licences, over `cargo metadata`.

use std::path::Path;
use std::process::Command;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

/// The layers of ARCHITECTURE.md, lowest first. A crate may depend on its own layer and those
/// below.
const LAYERS: [(&str, &[&str]); 5] = [
    ("foundations", &["account", "time", "wire"]),
    ("mechanism", &["actor", "frame", "port", "host"]),
    (
        "engines",
        &[
            "flow",
            "rpc",
            "nfs",
            "iscsi",
            "http",
            "memcached",
            "dns",
            "tcp",
            "workload",
            "link",
            "nat",
            "payload",
            "filter",
            "measure",
            "probe",
            "trace",
        ],
    ),
    (
        "roles",
        &[
            "run", "reactor", "capture", "load", "path", "forward", "lab", "analyze",
        ],
    ),
    ("binary", &["cli"]),
];

/// Crates that only tests may use.
const FOR_TESTS: [&str; 2] = ["sim", "testkit"];

/// The crates that may contain `unsafe`.
const MECHANISM: usize = 1;

/// Licences that go with "MIT OR Apache-2.0" and ask for no more than a notice.
const LICENCES: [&str; 12] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

#[test]
fn dependencies_point_down() {
    let metadata = metadata();
    for package in metadata.workspace_packages() {
        let Some(name) = short(&package.name) else {
            panic!("{} is not a lineside- crate", package.name)
        };
        if FOR_TESTS.contains(&name) {
            continue;
        }
        let layer = layer(name).unwrap_or_else(|| {
            panic!("{name} is in no layer: add it to LAYERS and ARCHITECTURE.md")
        });
        for dependency in &package.dependencies {
            let Some(below) = short(&dependency.name) else {
                continue;
            };
            if dependency.kind == DependencyKind::Development {
                continue;
            }
            assert!(
                !FOR_TESTS.contains(&below),
                "{name} depends on {below}, which is for tests"
            );
            assert!(
                Some(layer) >= self::layer(below),
                "{name} depends on {below}, which lies above it"
            );
        }
    }
}

#[test]
fn unsafe_lives_in_the_mechanism_crates() {
    for package in metadata().workspace_packages() {
        let name = short(&package.name).unwrap_or_default();
        if layer(name) == Some(MECHANISM) {
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
            "{} {}: licence '{expression}' is not in the list",
            package.name,
            package.version
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

fn metadata() -> Metadata {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
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

fn short(name: &str) -> Option<&str> {
    name.strip_prefix("lineside-")
}

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|(_, crates)| crates.contains(&name))
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
        None => LICENCES.contains(&term),
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
