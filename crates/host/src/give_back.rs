//! A folder that goes back to its owner when the run that writes it is over, however it ends.
//!
//! The run itself may not do that: root that became `nobody` cannot give a file away. So a process
//! that keeps root's rights waits beside it. It reads nothing of what is captured, only the end of
//! a pipe, which comes when the run closes it or is killed.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Signals for the run are not for this process: it ends when the run has.
const WAIT: &str = "trap '' HUP INT TERM; read -r _; exec chown -hR -- \"$0\" .";
/// The same of folders, and of what is in them: parts further down were not given away.
const WAIT_BESIDE: &str = "trap '' HUP INT TERM; read -r _; \
    for run do chown -h -- \"$0\" \"$run\" \"$run\"/*; done";

/// The process that waits. Dropping this lets it do its work, and waits for it.
#[derive(Debug)]
pub(crate) struct GiveBack(Child);

impl GiveBack {
    /// For the owner that the folder has now.
    pub(crate) fn start(folder: &Path) -> io::Result<Self> {
        Self::wait_in(folder, WAIT, &[])
    }

    /// Of folders in `above`, for the owner that that has now.
    pub(crate) fn of_folders(above: &Path, folders: &[PathBuf]) -> io::Result<Self> {
        let names: Vec<_> = { folders.iter() }
            .filter_map(|folder| folder.file_name())
            .collect();
        Self::wait_in(above, WAIT_BESIDE, &names)
    }

    fn wait_in(folder: &Path, wait: &str, names: &[&OsStr]) -> io::Result<Self> {
        let facts = folder.metadata()?;
        let owner = format!("{}:{}", facts.uid(), facts.gid());
        let mut command = Command::new("sh");
        command
            .args(["-c", wait, &owner])
            .args(names)
            .current_dir(folder)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().map(Self)
    }
}

impl Drop for GiveBack {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // If it was killed, the folder keeps its owner.
        let _ = self.0.wait();
    }
}
