//! The captures that tests read: those of the repository, and further ones where they lie beside
//! it.

use std::path::{Path, PathBuf};

/// Names another folder for [`beside`]; empty, it stands for none, as in a clone with nothing
/// beside it.
pub const FOLDER_VARIABLE: &str = "LINESIDE_TRACES";

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// A capture of the folder `examples`, which `examples/record` records.
pub fn example(name: &str) -> PathBuf {
    repository().join("examples").join(name)
}

/// The captures of the folder `examples`, sorted by name.
pub fn examples() -> Vec<PathBuf> {
    let mut paths = files(&repository().join("examples"));
    paths.retain(|path| path.to_string_lossy().contains(".pcap"));
    paths
}

/// The folder of further captures, `own` and `public`: `../shared/traces`, unless
/// [`FOLDER_VARIABLE`] names another one.
pub fn beside() -> Option<PathBuf> {
    let folder = match std::env::var_os(FOLDER_VARIABLE) {
        Some(folder) => PathBuf::from(folder),
        None => repository().join("../shared/traces"),
    };
    folder.is_dir().then_some(folder)
}

/// The examples, then the captures beside the repository, each sorted by name.
pub fn all() -> Vec<PathBuf> {
    let mut paths = examples();
    if let Some(folder) = beside() {
        for part in ["own", "public"] {
            paths.extend(files(&folder.join(part)));
        }
    }
    paths
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.is_file());
    paths.sort();
    paths
}
