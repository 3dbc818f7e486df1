//! The sandbox of a capture: what it may still do once it reads foreign bytes.

use std::path::PathBuf;

use lineside_host::{Place, Sandbox};
use lineside_port::CaptureReader;
use lineside_run::{
    DROP_INS_NEED_MORE, Progress, Run, RunError, folder_of, keep_file_capabilities, not_confined,
    sandbox_facts, with_capture_file,
};
use lineside_store::RunFolder;

use super::Settings;
use super::settings::is_pipe;

/// Makes sure that each input can be opened, and reads nothing: an unreadable input is an error
/// before anything is created.
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
    let capture_file = settings.capture_file.as_ref();
    let capture_file = capture_file.map(|file| file.path.as_path());
    let writes = folder.map(RunFolder::path).into_iter().chain(capture_file);
    // Parts of older runs go too, also of those that another user began.
    let older = folder.map_or(&[][..], RunFolder::beside);
    let writes = writes.chain(older.iter().map(Place::path));
    Ok(keep_file_capabilities(writes)?)
}

/// Enters the sandbox, and notes in `trace.json` whether it holds.
pub(super) fn enter(
    settings: &Settings,
    sandbox: Sandbox,
    run: &mut Run,
    progress: &mut dyn Progress,
) -> Result<(), RunError> {
    let facts = if !settings.sandbox {
        not_confined("--sandbox off")
    } else if !settings.drop_ins.programs.is_empty() {
        not_confined(DROP_INS_NEED_MORE)
    } else {
        let confined = match settings.sandbox_required {
            true => sandbox.required().enter()?,
            false => sandbox.enter()?,
        };
        confined
            .shortfall()
            .iter()
            .for_each(|why| progress.note(why));
        sandbox_facts(&confined)
    };
    run.manifest.sandbox = Some(facts);
    Ok(())
}

/// Whether parts of runs beside the one that begins may go.
pub(super) fn keeps_less_of_runs(settings: &Settings) -> bool {
    let retention = settings.rotation.retention;
    retention.runs && retention.is_limited()
}

/// The sandbox: to be described while what is written can still be opened.
pub(super) fn sandbox(
    settings: &Settings,
    folder: Option<&RunFolder>,
) -> Result<Sandbox, RunError> {
    let mut sandbox = lineside_run::sandbox(folder);
    // Parts of older runs go, and their trace.json says so.
    let older = folder.map_or(&[][..], RunFolder::beside);
    sandbox = older.iter().fold(sandbox, Sandbox::may_write_in);
    if settings.live.is_some() {
        sandbox = sandbox.may_ask_about_links();
    } else {
        let file = settings.capture_file.as_ref();
        let (path, is_series) = file
            .map(|file| (file.path.as_path(), file.rotation.turns()))
            .unzip();
        sandbox = with_capture_file(sandbox, path, is_series == Some(true))?;
        for path in &settings.inputs {
            sandbox = sandbox.may_read(path);
            if settings.follow.is_some() && !is_pipe(path) {
                // A file that grows may be replaced by one of its name.
                sandbox = sandbox.may_read(folder_of(path));
            }
        }
    }
    Ok(sandbox)
}
