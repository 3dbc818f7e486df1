//! The sandbox of a capture: what it may still do once it reads foreign bytes.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lineside_host::{Capability, Confined, RunFolder, Sandbox};
use lineside_port::CaptureReader;
use lineside_run::{Progress, Run, RunError};
use lineside_trace::SandboxFacts;

use super::Settings;
use super::settings::is_pipe;

/// Makes sure that each input can be opened, and reads nothing: what cannot be read is told before
/// anything is made.
pub(super) fn check_inputs(inputs: &[PathBuf]) -> Result<(), RunError> {
    for path in inputs {
        let is_standard = path.as_os_str() == "-";
        // To open each of thousands takes twice as long as to ask.
        if !is_standard && lineside_host::may_read(path) || is_pipe(path) || path.is_dir() {
            continue;
        }
        CaptureReader::open_file(path)?;
    }
    Ok(())
}

/// Of files: everything is given up but what reads and writes what the user named. (Landlock says
/// which that is.) Drop-ins are started later, as somebody without privileges, which takes some.
pub(super) fn keep_capabilities(
    settings: &Settings,
    folder: Option<&RunFolder>,
) -> Result<(), RunError> {
    if !settings.drop_ins.programs.is_empty() {
        return Ok(());
    }
    let is_others = |path: &Path| {
        let owner = path.metadata().map(|facts| facts.uid());
        owner.is_ok_and(|owner| owner != lineside_host::user())
    };
    let capture_file = settings
        .capture_file
        .as_ref()
        .map(|file| parent(&file.path));
    let writes = folder.map(RunFolder::path).into_iter().chain(capture_file);
    let mut kept = vec![Capability::DacReadSearch];
    if { writes }.any(is_others) {
        kept.push(Capability::DacOverride);
    }
    Ok(lineside_host::keep_capabilities(&kept)?)
}

/// Enters the sandbox, and notes in `trace.json` whether it holds.
pub(super) fn enter(
    settings: &Settings,
    run: &mut Run,
    progress: &mut dyn Progress,
) -> Result<(), RunError> {
    let confined = if !settings.sandbox {
        none("--no-sandbox")
    } else if !settings.drop_ins.programs.is_empty() {
        none("drop-ins are programs of the user, which need more")
    } else {
        let confined = sandbox(settings, run.folder.as_ref()).enter()?;
        for missing in &confined.missing {
            progress.note(&format!("the sandbox is not whole: {missing}"));
        }
        confined
    };
    run.manifest.sandbox = Some(SandboxFacts {
        holds: { confined.holds.iter() }
            .map(|&part| part.to_owned())
            .collect(),
        missing: confined.missing,
    });
    Ok(())
}

fn none(why: &str) -> Confined {
    Confined {
        missing: vec![why.to_owned()],
        ..Confined::default()
    }
}

fn sandbox(settings: &Settings, folder: Option<&RunFolder>) -> Sandbox {
    let mut sandbox = Sandbox::new();
    if settings.live.is_none() {
        for path in &settings.inputs {
            sandbox = sandbox.may_read(path);
            if settings.follow.is_some() && !is_pipe(path) {
                // A file that grows may be replaced by one of its name.
                sandbox = sandbox.may_read(parent(path));
            }
        }
    }
    if let Some(folder) = folder {
        sandbox = sandbox
            .may_write_below(folder.path())
            .may_remove_folders_in(parent(folder.path()));
    }
    if let Some(file) = &settings.capture_file {
        let path = file.path.as_path();
        sandbox = match path.as_os_str() == "-" {
            true => sandbox,
            false => sandbox.may_write_below(parent(path)),
        };
    }
    sandbox
}

/// The folder that a path is in.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}
