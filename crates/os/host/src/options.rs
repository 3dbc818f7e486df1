//! Options of sockets that rustix does not have.

use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// Sets an option whose value is an `int`.
pub(crate) fn set_option(
    socket: &impl AsFd,
    level: i32,
    name: i32,
    value: i32,
) -> rustix::io::Result<()> {
    // SAFETY: the kernel reads an `int` from where there is one, and writes nothing.
    // JUSTIFICATION: rustix has no call for options that it does not name.
    let done = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as u32,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}
