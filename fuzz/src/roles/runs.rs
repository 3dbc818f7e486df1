//! A folder of runs that somebody else left: any `trace.json`, parts and other files in it. What
//! can be read is reported; the next start closes what was killed, and removes no row.

use std::fs;
use std::path::{Path, PathBuf};

use lineside_analyze::{Filter, may_be_of_runs, runs_of};
use lineside_render::{Style, html, terminal};
use lineside_run::Runs;
use lineside_store::Retention;

use super::Bytes;

const RUNS_MAX: usize = 3;
const FILES: [&str; 8] = [
    "trace.json",
    "operations/part-000000.parquet",
    "operations/.part-000001.parquet.tmp",
    "losses/part-000000.parquet",
    "connections/part-000000.parquet",
    "state.0",
    "control",
    ".operations.tmp/part-000000.parquet",
];

/// Files, each with its run, its place, its length in two bytes, and its bytes.
pub(crate) fn run(data: &[u8]) {
    let folder = scratch();
    let mut bytes = Bytes(data);
    let mut given = Vec::new();
    while !bytes.is_empty() && given.len() < 12 {
        let (run, place) = (usize::from(bytes.u8()) % RUNS_MAX, usize::from(bytes.u8()));
        let len = usize::from(bytes.u16());
        let path = folder
            .join(format!("run=20261122T18300{run}Z"))
            .join(FILES[place % FILES.len()]);
        let content = bytes.take(len);
        if fs::create_dir_all(path.parent().expect("a folder")).is_ok()
            && fs::write(&path, content).is_ok()
        {
            given.push(path);
        }
    }
    report(&folder);
    for run in runs_of(&folder).unwrap_or_default() {
        report(&run.path);
    }
    let _ = may_be_of_runs(&folder);
    let parts = |given: &[PathBuf]| {
        let parts = given.iter().filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("part-"))
        });
        parts
            .filter(|path| path.exists() || aside(path).exists())
            .count()
    };
    let before = parts(&given);
    if let Ok(runs) = Runs::begin(&folder, 1_800_000_000_000_000_000, Retention::default()) {
        assert!(runs.run().path().is_dir());
    }
    // A copy that was about to take a table's place is no row of its own.
    assert!(parts(&given) + given.iter().filter(|path| is_copy(path)).count() >= before);
    report(&folder);
    let _ = fs::remove_dir_all(&folder);
}

/// Where a part lies that is none: nothing of it is lost, and no reader takes it for one.
fn aside(part: &Path) -> PathBuf {
    let name = part.file_name().and_then(|name| name.to_str());
    part.with_file_name(format!(".{}.damaged", name.unwrap_or_default()))
}

fn is_copy(path: &Path) -> bool {
    path.components()
        .any(|part| part.as_os_str() == ".operations.tmp")
}

fn report(folder: &Path) {
    let filter = Filter::default();
    if let Ok(report) = lineside_analyze::report(folder, &filter) {
        let style = Style::default();
        let _ = (
            terminal::summary(&report, &style),
            terminal::report(&report, &style),
            html::page(&report, &filter.zone),
        );
        serde_json::to_string(&report).expect("it can be written");
    }
}

/// A new folder of this process, in memory where there is room for files.
fn scratch() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let above = match memory.is_dir() {
        true => memory.to_owned(),
        false => std::env::temp_dir(),
    };
    let folder = above.join(format!("lineside-fuzz-runs-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder for files");
    folder
}
