//! Why a folder cannot be made or written.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, CWD, accessat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::lock::named;

/// Why a run folder cannot be made or written. Each has the place and the remedy.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The path is taken.
    #[error("{} exists already: choose another folder with -o, or replace the trace in it with \
        --force", path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// `--force`, but what is there is not a trace of ours alone.
    #[error("{} is not part of a trace that lineside wrote, so --force deletes nothing there: \
        choose another folder with -o, or remove it yourself", path.display())]
    Foreign {
        /// What does not belong to a trace.
        path: PathBuf,
    },
    /// `--force`, but a run that has not ended writes it.
    #[error("{} is being written by another run{}: end that one first, or choose another folder \
        with -o", path.display(), named(holder))]
    Busy {
        /// The folder.
        path: PathBuf,
        /// The process, if the kernel names it.
        holder: Option<u32>,
    },
    /// Somebody took away what a run writes.
    #[error("{} was removed or replaced while a run wrote into it, and what it held is lost: start \
        the run again, and remove a trace only once its run has ended ('lineside info' says so)",
        path.display())]
    Gone {
        /// The folder of the run, or of a table, or a part.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("{}: cannot {action}: {error}; {}", path.display(), way_out(path, error))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The error of the system call.
        error: Arc<io::Error>,
    },
}

impl FolderError {
    /// Whether the disk, or what one may have of it, is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { error, .. } if is_full(error))
    }

    /// Of a file or folder that the operating system refused.
    pub fn io(path: &Path, action: &'static str, error: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            action,
            error: Arc::new(error),
        }
    }
}

/// Whether a disk, or what one may have of it, is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// What the user may do where a path cannot be written: which folder lacks what, and what then.
pub fn way_out(path: &Path, error: &io::Error) -> String {
    let advice = match error.kind() {
        _ if is_full(error) => "free some space, or write elsewhere with -o",
        io::ErrorKind::PermissionDenied => return lacking(path),
        io::ErrorKind::ReadOnlyFilesystem => "name a folder of another file system with -o",
        io::ErrorKind::NotFound if path.is_relative() && working_folder_is_gone() => {
            "the working directory was removed: change to one that is there"
        }
        io::ErrorKind::NotFound => "create the folder above it, or write elsewhere with -o",
        _ => "write elsewhere with -o",
    };
    advice.to_owned()
}

fn working_folder_is_gone() -> bool {
    statat(CWD, ".", AtFlags::empty()).is_ok_and(|facts| facts.st_nlink == 0)
}

/// Which folder of a path this process may not pass or write to.
fn lacking(path: &Path) -> String {
    let user = geteuid().as_raw();
    let lacks = |folder: &Path, access| {
        accessat(CWD, folder, access, AtFlags::EACCESS) == Err(Errno::ACCESS)
    };
    let mut folders: Vec<_> = path.ancestors().skip(1).collect();
    folders.reverse();
    let named = |folder: &Path| match folder.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => folder.to_owned(),
    };
    let folders: Vec<_> = folders.into_iter().map(named).collect();
    if let Some(folder) = folders.iter().find(|folder| lacks(folder, Access::EXEC_OK)) {
        return format!(
            "user {user} may not pass {}: write elsewhere with -o",
            folder.display()
        );
    }
    let written = [Some(path), folders.last().map(PathBuf::as_path)];
    let mut written = written.into_iter().flatten();
    match written.find(|folder| lacks(folder, Access::WRITE_OK)) {
        Some(folder) => format!(
            "user {user} may not write to {}: write elsewhere with -o",
            folder.display()
        ),
        None => "write elsewhere with -o".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_is_in_the_way() {
        let says = |path: &str, kind: io::ErrorKind| way_out(Path::new(path), &kind.into());
        let full = says("/x/run", io::ErrorKind::StorageFull);
        assert!(full.starts_with("free some space"), "{full}");
        let read_only = says("/x/run", io::ErrorKind::ReadOnlyFilesystem);
        assert!(read_only.contains("another file system"), "{read_only}");
        let missing = says("run", io::ErrorKind::NotFound);
        assert!(
            missing.starts_with("create the folder above it"),
            "{missing}"
        );
    }
}
