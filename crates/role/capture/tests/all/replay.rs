//! Every input that a fuzz target ever tripped over (`data/TARGET-what.bin`), the seeds of targets
//! (`fuzz/seeds/TARGET/*`), and changes of both.

use std::path::Path;

use crate::{inputs, targets};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");

#[test]
fn inputs_that_once_failed_pass() {
    assert!(inputs::found(&targets::TARGETS, Path::new(DATA)) > 0);
}

#[test]
fn seeds_of_targets_and_changes_of_them_pass() {
    inputs::changed(&targets::TARGETS, Path::new(DATA));
}
