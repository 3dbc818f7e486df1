//! The layers of the files of this crate.

use std::path::Path;

use lineside_testkit::layers::Uses;

/// Modules, the lowest first; each uses only those of layers below.
const LAYERS: &[&[&str]] = &[
    &[
        "blocks",
        "decode_as",
        "filtered",
        "layers",
        "measured",
        "recorded",
    ],
    &["config", "sums"],
    // Each uses the other: an operation holds a procedure of a protocol by value, and a protocol
    // fills in the operation's row where it lies. A trait between them would be one with a single
    // implementation on each side.
    &["rpc protocol"],
    &["arrivals"],
    &["pipeline"],
    &["cores"],
    &["role"],
    &["lib"],
];

#[test]
fn modules_use_only_modules_of_layers_below() {
    let all = Uses::of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(all.files() > 30, "{all:?}");
    let against = all.against(LAYERS);
    assert!(against.is_empty(), "{against:#?}");
}
