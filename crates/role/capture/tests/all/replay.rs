//! Inputs that fuzzing found, and the seeds it begins with: `data/TARGET-what.bin`,
//! `fuzz/seeds/TARGET/*`.

use std::path::{Path, PathBuf};

use crate::targets;

#[test]
fn inputs_that_once_failed_pass() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let inputs = files(&data);
    assert!(!inputs.is_empty());
    for path in inputs {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.expect("names are ASCII");
        let target = name.split('-').next().unwrap_or_default();
        replay(target, &path);
    }
}

#[test]
fn seeds_pass() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/seeds");
    for target in targets::names() {
        let inputs = files(&seeds.join(target));
        assert!(!inputs.is_empty(), "{target} has no seed");
        inputs.iter().for_each(|path| replay(target, path));
    }
}

fn replay(target: &str, path: &Path) {
    let run = targets::by_name(target);
    let run = run.unwrap_or_else(|| panic!("{}: no such target", path.display()));
    let bytes = std::fs::read(path).expect("a readable file");
    let outcome = std::panic::catch_unwind(|| run(&bytes));
    assert!(outcome.is_ok(), "{}: see above", path.display());
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}
