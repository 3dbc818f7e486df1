//! Every input of what roles, reports and this command read that a fuzz target ever tripped over
//! (`tests/data/fuzz/TARGET-what.bin`), the seeds of targets, and changes of both.

use std::path::Path;

use crate::{inputs, roles};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/fuzz");

#[test]
fn inputs_that_once_failed_in_roles_pass() {
    assert!(inputs::found(&roles::TARGETS, Path::new(DATA)) > 0);
}

#[test]
fn seeds_of_roles_and_changes_of_them_pass() {
    inputs::changed(&roles::TARGETS, Path::new(DATA));
}
