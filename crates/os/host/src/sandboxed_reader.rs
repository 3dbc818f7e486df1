//! Processes beside this one that are started before it enters a sandbox: for what the sandbox
//! denies, without a foreign byte, or for foreign bytes that have to be read before.
//!
//! ```text
//!  this process ─┬─ fork ─► reads foreign bytes in a sandbox of its own, and answers once
//!                └─ fork ─► has the user's rights, and reads no foreign byte
//! ```

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::privileges::{Capability, keep_capabilities};
use crate::sandbox::Sandbox;

/// What `read` makes of foreign bytes in a process of its own, which is in `sandbox` and holds no
/// privilege but that of reading the files of others: at most `len_max` bytes. To be called before
/// there is another thread.
///
/// Fails if that process cannot enter its sandbox, or breaks off.
pub fn read_sandboxed(
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
pub fn fork(work: impl FnOnce() -> io::Result<()>) -> io::Result<Pid> {
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
pub fn wait_for(process: Pid) -> Option<i32> {
    loop {
        match waitpid(Some(process), WaitOptions::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(Some((_, status))) => return status.exit_status(),
            _ => return None,
        }
    }
}

/// Makes this process one that ends when its socket does, and not by a signal for the terminal,
/// which is for the other. It keeps these files alone.
pub fn serve_alone(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    rustix::process::setpgid(None, None)?;
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM, libc::SIGQUIT] {
        // SAFETY: to ignore a signal needs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    close_others(kept)
}

/// Closes all files of this process but these.
pub(crate) fn close_others(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    let numbers = kept.iter().map(|file| file.as_raw_fd().cast_unsigned());
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    let mut first = 0;
    for number in numbers.into_iter().chain([u32::MAX]) {
        if first < number {
            // SAFETY: the process uses none of them again: it has only what it opens from here on.
            if unsafe { libc::syscall(libc::SYS_close_range, first, number - 1, 0) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        first = number.saturating_add(1);
    }
    Ok(())
}

/// Answers a request with an open file, with nothing, or with an error.
pub fn send_file(
    socket: &OwnedFd,
    answer: Result<Option<BorrowedFd<'_>>, &io::Error>,
) -> io::Result<()> {
    let (code, file) = match answer {
        Ok(file) => (0, file),
        Err(error) => (error.raw_os_error().unwrap_or(libc::EIO), None),
    };
    let code = code.to_ne_bytes();
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut room);
    if file.is_some() {
        beside.push(SendAncillaryMessage::ScmRights(file.as_slice()));
    }
    let parts = [IoSlice::new(&code)];
    sendmsg(socket, &parts, &mut beside, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for the answer to a request; `gone` is what there is to say if nobody answers.
pub fn receive_file(socket: &OwnedFd, gone: &'static str) -> io::Result<Option<OwnedFd>> {
    let mut code = [0; 4];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut room);
    let mut parts = [IoSliceMut::new(&mut code)];
    let len = loop {
        match recvmsg(socket, &mut parts, &mut beside, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?.bytes,
        }
    };
    let file = beside.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    match i32::from_ne_bytes(code) {
        _ if len < code.len() => Err(io::Error::other(gone)),
        0 => Ok(file),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_bytes_are_read_in_a_sandbox_apart() {
        let status = || std::fs::read("/proc/self/status").unwrap_or_default();
        let read = read_sandboxed(Sandbox::new(), 1 << 20, status).expect("it enters it");
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
        let read = read_sandboxed(Sandbox::new(), 1_000, long);
        // What does not fit breaks the process off.
        assert!(read.is_err(), "{read:?}");
        let read = read_sandboxed(Sandbox::new(), 1 << 20, long).expect("it fits");
        assert_eq!(read.len(), 1 << 20);
        // SAFETY: it ends the process apart.
        let broken = || unsafe { libc::_exit(3) };
        assert!(read_sandboxed(Sandbox::new(), 10, broken).is_err());
    }
}
