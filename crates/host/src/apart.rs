//! Processes beside this one that are started before it enters a sandbox: for what the sandbox
//! denies, without a foreign byte, or for foreign bytes that have to be read before.
//!
//! ```text
//!  this process ─┬─ fork ─► reads foreign bytes in a sandbox of its own, and answers once
//!                └─ fork ─► has the user's rights, and reads no foreign byte
//! ```

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::privileges::{Capability, keep_capabilities};
use crate::sandbox::Sandbox;

/// What `read` makes of foreign bytes in a process of its own, which is in `sandbox` and holds no
/// privilege but that of reading the files of others: at most `len_max` bytes. To be called before
/// there is another thread.
///
/// Fails if that process cannot enter its sandbox, or breaks off.
pub fn read_apart(
    sandbox: Sandbox,
    len_max: u64,
    read: impl FnOnce() -> Vec<u8>,
) -> io::Result<Vec<u8>> {
    let (ours, its) = pipe_with(PipeFlags::CLOEXEC)?;
    let mut ours = Some(File::from(ours));
    let process = fork(|| {
        // With an end to read of its own it would wait for itself when nobody else reads.
        drop(ours.take());
        keep_capabilities(&[Capability::DacReadSearch]).map_err(io::Error::other)?;
        sandbox.enter().map_err(io::Error::other)?;
        let made = read();
        File::from(its.try_clone()?).write_all(&made)
    })?;
    drop(its);
    let mut made = Vec::new();
    // Whatever is longer finds nobody who reads it, since this closes the end to read.
    let read = (ours.take()).map_or(Ok(0), |ours| ours.take(len_max).read_to_end(&mut made));
    match wait_for(process) {
        Some(0) => read.map(|_| made),
        _ => Err(io::Error::other("the process that reads it broke off")),
    }
}

/// Starts a process that does `work` and ends. To be called before there is another thread, whose
/// locks the new process would find held.
pub(crate) fn fork(work: impl FnOnce() -> io::Result<()>) -> io::Result<Pid> {
    // SAFETY: there is no other thread.
    // JUSTIFICATION: a program of its own would have to be found and trusted, by whoever may
    // replace it.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let done = catch_unwind(AssertUnwindSafe(work));
            // SAFETY: it ends this process, and runs nothing of the other's.
            unsafe { libc::_exit(i32::from(!matches!(done, Ok(Ok(()))))) }
        }
        process => Pid::from_raw(process).ok_or_else(|| io::ErrorKind::Other.into()),
    }
}

/// Waits for the end of a process that [`fork`] started; `None` if a signal ended it.
pub(crate) fn wait_for(process: Pid) -> Option<i32> {
    loop {
        match waitpid(Some(process), WaitOptions::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(Some((_, status))) => return status.exit_status(),
            _ => return None,
        }
    }
}

/// Makes this process one that ends when the socket does, and not by a signal for the terminal,
/// which is for the other. It keeps that file alone.
pub(crate) fn serve_alone(socket: &OwnedFd) -> io::Result<()> {
    rustix::process::setpgid(None, None)?;
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM, libc::SIGQUIT] {
        // SAFETY: to ignore a signal needs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    close_others(socket)
}

/// Closes all files of this process but one.
fn close_others(kept: &OwnedFd) -> io::Result<()> {
    let number = kept.as_fd().as_raw_fd().cast_unsigned();
    for (first, last) in [(0, number.checked_sub(1)), (number + 1, Some(u32::MAX))] {
        let Some(last) = last else { continue };
        // SAFETY: the process uses none of them again: it has only what it opens from here on.
        if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_bytes_are_read_in_a_sandbox_apart() {
        let status = || std::fs::read("/proc/self/status").unwrap_or_default();
        let read = read_apart(Sandbox::new(), 1 << 20, status).expect("it enters it");
        let text = String::from_utf8(read).expect("a text");
        for line in ["NoNewPrivs:\t1", "Seccomp:\t2"] {
            assert!(text.contains(line), "{text}");
        }
        let own = String::from_utf8(status()).expect("a text");
        assert!(!own.contains("Seccomp:\t2"), "{own}");
    }

    #[test]
    fn an_answer_is_limited_and_whole() {
        let long = || vec![7; 1 << 20];
        let read = read_apart(Sandbox::new(), 1_000, long);
        // What does not fit breaks the process off.
        assert!(read.is_err(), "{read:?}");
        let read = read_apart(Sandbox::new(), 1 << 20, long).expect("it fits");
        assert_eq!(read.len(), 1 << 20);
        // SAFETY: it ends the process apart.
        let broken = || unsafe { libc::_exit(3) };
        assert!(read_apart(Sandbox::new(), 10, broken).is_err());
    }
}
