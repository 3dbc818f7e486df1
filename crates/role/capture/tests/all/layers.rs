//! The layers of the files of this crate.

use std::path::Path;

use lineside_testkit::layers::Uses;

/// Modules, the lowest first; each uses only those of layers below.
const LAYERS: &[&[&str]] = &[
    &["arrivals", "filtered", "recorded"],
    &["one_place"],
    &["taps::flows"],
    &[
        "taps::again",
        "taps::matching",
        "taps::sample",
        "taps::stamps",
    ],
    &["taps::pair"],
    &["taps"],
    &["measured"],
    &["pipeline"],
    &["cores"],
    &["role"],
    &["lib"],
];

#[test]
fn modules_use_only_modules_of_layers_below() {
    let all = Uses::of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(all.files() > 15, "{all:?}");
    let against = all.against(LAYERS);
    assert!(against.is_empty(), "{against:#?}");
}
