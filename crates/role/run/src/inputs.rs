//! Capture files, folders of them and pipes, opened as one port.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use lineside_account::Budget;
use lineside_host::Descriptors;
use lineside_port::{CaptureReader, FolderFile, Merge, MergeInput, PoolConfig, PortError, Tail};

use crate::RunError;

/// Inputs that are open.
pub struct Opened {
    /// All of them, merged by their stamps.
    pub port: Merge,
    /// Files of folders that cannot be read as captures, and interfaces, each with the reason.
    pub left_out: Vec<String>,
}

/// Opens files and folders as one port.
pub fn open(inputs: &[PathBuf], budget: &Budget) -> Result<Opened, RunError> {
    open_as(inputs, false, budget)
}

/// Opens files and folders as one port that goes on when a file grows, or a folder gets its next
/// file.
pub fn open_followed(inputs: &[PathBuf], budget: &Budget) -> Result<Opened, RunError> {
    open_as(inputs, true, budget)
}

fn open_as(inputs: &[PathBuf], follows: bool, budget: &Budget) -> Result<Opened, RunError> {
    check(inputs)?;
    let pool = pool(budget);
    let mut ports: Vec<MergeInput> = Vec::with_capacity(inputs.len());
    let mut left_out = Vec::new();
    for path in inputs {
        let facts = path.metadata().ok().filter(|_| path.as_os_str() != "-");
        let file = facts.as_ref().filter(|facts| facts.is_file());
        if facts.as_ref().is_some_and(Metadata::is_dir) {
            left_out.extend(open_folder(path, follows, &pool, &mut ports)?);
        } else if follows {
            ports.push(Tail::file(path, &pool)?.into());
        } else if let Some(file) = file.filter(|_| inputs.len() > 1) {
            ports.push(FolderFile::new(path, &pool, file.len())?.into());
        } else {
            ports.push(CaptureReader::open(path, &pool)?.into());
        }
    }
    check_count(ports.len())?;
    let port = Merge::new(ports);
    Ok(Opened { port, left_out })
}

/// Adds the files of a folder; returns those that were left out, each with the reason.
fn open_folder(
    path: &Path,
    follows: bool,
    pool: &PoolConfig,
    ports: &mut Vec<MergeInput>,
) -> Result<Vec<String>, RunError> {
    let (mut files, left_out) = match lineside_port::list(path, pool) {
        // The first file may be about to come.
        Err(PortError::NoCaptures { .. }) if follows => (Vec::new(), Vec::new()),
        listed => listed?,
    };
    let followed = match follows {
        true => Some(Tail::folder(path, &files, pool)?),
        false => None,
    };
    if follows {
        files.pop();
    }
    ports.extend(files.into_iter().map(MergeInput::from));
    ports.extend(followed.map(MergeInput::from));
    Ok(left_out)
}

/// A quarter of the budget is for blocks of frames in flight; the rest is for what is held, and for
/// rows. Files may take as many descriptors as the outputs leave.
pub(crate) fn pool(budget: &Budget) -> PoolConfig {
    let descriptors = Descriptors::raise();
    // Of few that are left the outputs get half.
    let half = descriptors.limit.saturating_sub(descriptors.open) / 2;
    let files_max = descriptors.room().max(half);
    PoolConfig::new(budget.clone(), budget.limit_bytes() / 4)
        .with_files_max(usize::try_from(files_max).unwrap_or(usize::MAX))
}

pub(crate) fn check(inputs: &[PathBuf]) -> Result<(), RunError> {
    if inputs.is_empty() {
        return Err(RunError::usage(
            "nothing to capture: name a FILE, - for standard input, or an interface with -i",
        ));
    }
    let is_standard = |input: &&PathBuf| input.as_os_str() == "-";
    if inputs.iter().filter(is_standard).count() > 1 {
        return Err(RunError::usage("standard input (-) can be read only once"));
    }
    if inputs.len() > usize::from(u16::MAX) {
        return Err(RunError::usage(
            "more than 65,535 inputs: merge some of them first",
        ));
    }
    Ok(())
}

/// That frames can say which file they are from.
pub(crate) fn check_count(files: usize) -> Result<(), RunError> {
    match files <= usize::from(u16::MAX) {
        true => Ok(()),
        false => Err(RunError::usage(
            "more than 65,535 files: merge some of them first",
        )),
    }
}
