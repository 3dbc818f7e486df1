//! The layers of the files of this crate: a verb does not use another verb, and no files use each
//! other in a circle.

use std::collections::BTreeSet;
use std::path::Path;

use lineside_testkit::layers::{Uses, part};

/// Modules that several verbs use, and which use no verb.
const SHARED: [&str; 19] = [
    "archive",
    "charset",
    "config",
    "congestion",
    "confine",
    "exit",
    "experiments",
    "filters",
    "forwarder",
    "inputs",
    "junit",
    "limits",
    "link",
    "outputs",
    "print",
    "public",
    "runs",
    "tables",
    "trips",
];
/// Modules that may use all others: the entrance, what prints and refuses command lines, and tests
/// of all declarations.
const ABOVE: [&str; 7] = [
    "main",
    "lib",
    "arguments",
    "manual",
    "errors",
    "guide",
    "before",
];

fn uses() -> Uses {
    Uses::of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}

#[test]
fn no_verb_uses_another_and_nothing_shared_uses_a_verb() {
    let all = uses();
    assert!(all.files() > 30, "{all:?}");
    for (file, used) in all.pairs() {
        let (from, to) = (part(file), part(used));
        let is_right = from == to || ABOVE.contains(&from) || SHARED.contains(&to);
        assert!(is_right, "{file} uses {used}");
    }
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let all = uses();
    assert_eq!(all.circles(), BTreeSet::new(), "{all:#?}");
}
