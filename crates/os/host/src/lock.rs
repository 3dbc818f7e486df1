//! Who holds the lock of a folder.

use std::fs::File;
use std::io::ErrorKind;

/// Whether a process is there, and goes on.
pub fn is_alive(process: u32) -> bool {
    match status_of(process) {
        Ok(status) => !status.starts_with(['Z', 'X']) && !status.is_empty(),
        // From a sandbox, that another process is there is all that can be seen of it.
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    }
}

/// What proc_pid_stat(5) says of a process behind its name, which is in brackets and may hold
/// anything: its state, its parent and so on.
pub(crate) fn status_of(process: u32) -> std::io::Result<String> {
    let facts = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, status) = facts.rsplit_once(") ").unwrap_or_default();
    Ok(status.to_owned())
}

/// The process that holds the lock of an open folder, as far as the kernel shows it: those of other
/// PID namespaces have no number here, and a few file systems (btrfs, overlayfs) have another
/// device in the list than for their files.
pub fn lock_holder(folder: &File) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    let facts = folder.metadata().ok()?;
    let (major, minor) = (
        rustix::fs::major(facts.dev()),
        rustix::fs::minor(facts.dev()),
    );
    holder_in(
        &std::fs::read_to_string("/proc/locks").ok()?,
        &format!("{major:02x}:{minor:02x}:{}", facts.ino()),
    )
}

/// The process that holds a lock on a file, of a list as in proc_locks(5):
/// `1: FLOCK  ADVISORY  WRITE 708 08:01:392 0 EOF`.
fn holder_in(locks: &str, file: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        // What waits for a lock is marked with an arrow, which moves all fields.
        match fields[..] {
            [_, "FLOCK", _, _, process, of, ..] if of == file => {
                process.parse().ok().filter(|&process| process > 0)
            }
            _ => None,
        }
    })
}

/// A process in brackets, where it is known.
pub fn named(process: &Option<u32>) -> String {
    process.map_or_else(String::new, |process| format!(" (process {process})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let lock = File::open(folder.path()).expect("there");
        assert_eq!(lock_holder(&lock), None);
        lock.lock().expect("free");
        let other = File::open(folder.path()).expect("there");
        assert_eq!(lock_holder(&other), Some(std::process::id()));
        let locks = "1: POSIX  ADVISORY  WRITE 7 00:1a:5 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 8 00:1a:5 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 0 00:1a:6 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 9 00:1a:5 0 EOF\n";
        assert_eq!(holder_in(locks, "00:1a:5"), Some(9));
        assert_eq!(holder_in(locks, "00:1a:6"), None);
    }
}
