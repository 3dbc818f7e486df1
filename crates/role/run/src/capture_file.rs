use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::{ConfigError, RunError};

/// Refuses a file that exists and is not to be replaced; `flag` names another.
pub fn check_new_file(out: &Path, flag: &str, force: bool) -> Result<(), ConfigError> {
    match out.is_file() && !force {
        true => Err(ConfigError::new(format!(
            "{} exists already: name another file with {flag}, or replace it with --force",
            out.display()
        ))),
        false => Ok(()),
    }
}

/// Refuses a capture file `out`, or a series of them, that is an input itself, or exists and is not
/// to be replaced.
pub fn check_capture_file(
    out: &Path,
    is_series: bool,
    inputs: &[PathBuf],
    force: bool,
) -> Result<(), RunError> {
    if out.as_os_str() == "-" {
        return Ok(());
    }
    let there = std::fs::metadata(out).ok();
    let mut inputs = inputs.iter();
    if let Some(input) = inputs.find(|input| is_input(input, out, there.as_ref(), is_series)) {
        return Err(RunError::Usage(match input == out {
            true => format!("{} is read: write another file", out.display()),
            false => format!(
                "{} would be written where {} is read: write it elsewhere",
                out.display(),
                input.display()
            ),
        }));
    }
    if there.is_some_and(|there| there.is_file()) && !force {
        return Err(RunError::Exists(out.display().to_string()));
    }
    Ok(())
}

/// Whether writing `out`, which is `there`, would write into `input`.
fn is_input(input: &Path, out: &Path, there: Option<&Metadata>, is_series: bool) -> bool {
    let Ok(facts) = std::fs::metadata(input) else {
        return false;
    };
    // All files of a folder are inputs whatever their names, with `--follow` also those that
    // appear.
    if facts.is_dir() {
        let folder = match out.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        return folder.canonicalize().ok() == input.canonicalize().ok();
    }
    let id = |facts: &Metadata| (facts.dev(), facts.ino());
    there.map(id) == Some(id(&facts)) || is_series && is_of_series(input, out)
}

/// Whether `-b` may give a file that it writes the name of `input`:
/// `OUT_00001_20261122093000.pcapng` for `OUT.pcapng`.
fn is_of_series(input: &Path, out: &Path) -> bool {
    let name = |path: &Path| {
        let name = path.file_stem().unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    let folder = |path: &Path| path.parent().map(Path::to_owned);
    let number = name(input)
        .strip_prefix(&(name(out) + "_"))
        .map(str::to_owned);
    folder(input) == folder(out)
        && input.extension() == out.extension()
        && number.is_some_and(|number| number.starts_with(|first: char| first.is_ascii_digit()))
}
