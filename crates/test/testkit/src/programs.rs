//! Programs that a test puts somewhere and runs.

use std::path::Path;
use std::process::Command;

/// Copies a program to where it can be run at once.
///
/// Another process does: what this one has open to write is open in whatever a thread of another
/// test forks, until that became its program, and a file that anybody has open to write is not run
/// (`ETXTBSY`, execve(2)).
///
/// # Panics
///
/// If it cannot be copied.
pub fn install(program: &Path, at: &Path) {
    let mut command = Command::new("install");
    let copied = command.args(["-m", "755"]).arg(program).arg(at).status();
    assert!(copied.is_ok_and(|status| status.success()), "{at:?}");
}

/// Writes a shell script to where it can be run at once.
///
/// # Panics
///
/// If it cannot be written.
pub fn install_script(text: &str, at: &Path) {
    let written = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(written.path(), format!("#!/bin/sh\n{text}\n")).expect("written");
    install(written.path(), at);
}
