//! What a run's sandbox lets it write, and what is noted of it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use lineside_host::{Capability, Confined, PrivilegeError, Sandbox};
use lineside_store::RunFolder;
use lineside_trace::SandboxFacts;

use crate::RunError;

/// A sandbox in which a run's folder can be written. Files beside it are open before, or made by a
/// process beside the run.
pub fn sandbox(folder: Option<&RunFolder>) -> Sandbox {
    match folder {
        Some(folder) => Sandbox::new().may_write_in(folder.place()),
        None => Sandbox::new(),
    }
}

/// Makes the file of frames that will be written in a sandbox, and lets `sandbox` write it (`-` is
/// standard output, and `is_series` means files that another process makes).
pub fn with_capture_file(
    sandbox: Sandbox,
    file: Option<&Path>,
    is_series: bool,
) -> Result<Sandbox, RunError> {
    let file = file.filter(|file| !is_series && file.as_os_str() != "-");
    let Some(file) = file else { return Ok(sandbox) };
    lineside_host::make_output(file);
    lineside_host::watch_outputs().map_err(|cause| RunError::System {
        what: "cannot start the process that removes an empty file",
        cause,
    })?;
    Ok(sandbox.may_write(file))
}

/// Drops every capability but those that reading what the user named takes, and writing folders and
/// files of others where `writes` has one, as the user that called sudo. Landlock limits both to
/// what was named.
pub fn keep_file_capabilities<'a>(
    writes: impl Iterator<Item = &'a Path>,
) -> Result<(), PrivilegeError> {
    let mut kept = vec![Capability::DacReadSearch];
    kept.extend(to_write(writes));
    lineside_host::keep_capabilities_of_caller(&kept)
}

/// What writing these folders and files takes, where one of them belongs to another user.
pub fn to_write<'a>(mut writes: impl Iterator<Item = &'a Path>) -> Option<Capability> {
    let own =
        lineside_host::caller_of_sudo().map_or_else(lineside_host::user, |(user, _)| user.as_raw());
    let is_others = |path: &Path| {
        let owner = path.metadata().map(|facts| facts.uid());
        owner.is_ok_and(|owner| owner != own)
    };
    writes.any(is_others).then_some(Capability::DacOverride)
}

/// The folder that a path is in.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}

/// Why there is none although nobody asked for that.
pub const DROP_INS_NEED_MORE: &str = "drop-ins are programs of the user, which need more";

/// A run without one.
pub fn not_confined(why: &str) -> SandboxFacts {
    SandboxFacts {
        holds: Vec::new(),
        missing: vec![why.to_owned()],
        allowed: Vec::new(),
    }
}

/// What `trace.json` says of one.
pub fn sandbox_facts(confined: &Confined) -> SandboxFacts {
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    SandboxFacts {
        holds: words(&confined.holds),
        missing: confined.missing.clone(),
        allowed: words(&confined.allowed),
    }
}
