//! The words of `--drop-in`.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{DropIn, DropInSettings};
use crate::ConfigError;

/// The most bytes of a frame that a drop-in is given: more than most frames have.
const BYTES_MAX: usize = 65_536;

/// The programs that are given heads. They need a run folder for their tables.
pub fn drop_ins(
    given: Option<&[String]>,
    bytes: Option<usize>,
    has_folder: bool,
) -> Result<DropInSettings, ConfigError> {
    let (given, bytes) = (given.unwrap_or_default(), bytes.unwrap_or_default());
    if bytes > 0 && given.is_empty() {
        return Err(ConfigError::usage(
            "--drop-in-bytes is for programs that are given heads: name one with --drop-in",
        ));
    }
    if bytes > BYTES_MAX {
        return Err(ConfigError::usage(&format!(
            "drop_in_bytes: {bytes} bytes of each frame are too many: give up to {BYTES_MAX}"
        )));
    }
    if !given.is_empty() && !has_folder {
        return Err(ConfigError::usage(
            "--drop-in writes a table: name the folder for it with -o",
        ));
    }
    let programs = DropIn::parse_all(given);
    let programs = programs.map_err(|why| ConfigError::usage(&format!("drop-in: {why}")))?;
    for program in &programs {
        check_program(program)?;
    }
    Ok(DropInSettings { programs, bytes })
}

/// Fails if the command begins with the name of a program that is not there. What a shell makes of
/// other beginnings shows when it runs.
fn check_program(drop_in: &DropIn) -> Result<(), ConfigError> {
    let first = drop_in
        .command
        .split_whitespace()
        .next()
        .unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
    if !first.chars().all(is_plain) {
        return Ok(());
    }
    let why = if first.contains('/') {
        match Path::new(first).metadata() {
            Err(_) => Some("is not there: give the path of a program"),
            Ok(facts) if facts.is_dir() => Some("is a folder: give the path of a program"),
            Ok(facts) if facts.permissions().mode() & 0o111 == 0 => {
                Some("is not executable: chmod +x it, or name its interpreter first")
            }
            Ok(_) => None,
        }
    } else {
        let mut shell = Command::new("sh");
        shell.args(["-c", "command -v -- \"$1\"", "sh", first]);
        shell.stdout(Stdio::null()).stderr(Stdio::null());
        // A shell that cannot be asked says so when it is to run the command.
        let is_missing = shell.status().is_ok_and(|status| !status.success());
        is_missing.then_some("is not a program in PATH: install it, or give its path")
    };
    match why {
        Some(why) => Err(ConfigError::usage(&format!(
            "drop-in '{}': {first} {why}",
            drop_in.name
        ))),
        None => Ok(()),
    }
}
