//! Inputs that fuzzing found of what roles, reports and this command read, and the seeds that it
//! begins with: `tests/data/fuzz/TARGET-what.bin`, `fuzz/seeds/TARGET/*`.

use std::path::{Path, PathBuf};

use crate::roles;

#[test]
fn inputs_that_once_failed_in_roles_pass() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/fuzz");
    for path in files(&data) {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.expect("names are ASCII");
        replay(name.split('-').next().unwrap_or_default(), &path);
    }
}

#[test]
fn seeds_of_roles_pass() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/seeds");
    for target in roles::names() {
        let inputs = files(&seeds.join(target));
        assert!(!inputs.is_empty(), "{target} has no seed");
        inputs.iter().for_each(|path| replay(target, path));
    }
}

fn replay(target: &str, path: &Path) {
    let run = roles::by_name(target);
    let run = run.unwrap_or_else(|| panic!("{}: no such target", path.display()));
    let bytes = std::fs::read(path).expect("a readable file");
    let outcome = std::panic::catch_unwind(|| run(&bytes));
    assert!(outcome.is_ok(), "{}: see above", path.display());
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}
