//! A disk that is soon full.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system of few bytes over a folder, until this is dropped.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts it, for all to write into; `None` where that is not allowed.
    pub fn mount(folder: &Path, bytes: usize) -> Option<Self> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o"])
            .arg(format!("size={bytes},mode=777"))
            .arg("lineside-test")
            .arg(folder)
            .output();
        let is_mounted = mounted.is_ok_and(|output| output.status.success());
        is_mounted.then(|| Self(folder.to_owned()))
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.0
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a program that was killed may not have let go of it yet.
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}
