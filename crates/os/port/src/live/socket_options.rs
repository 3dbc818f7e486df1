//! Options of sockets (setsockopt(2)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::Interface;

/// Has the interface take frames that are for others, as long as the packet socket is open.
pub(super) fn see_all_frames(socket: BorrowedFd<'_>, interface: &Interface) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: interface.index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(
        socket,
        libc::SOL_PACKET,
        libc::PACKET_ADD_MEMBERSHIP,
        &request,
    )
}

/// Sets an option of a socket (setsockopt(2)).
pub(super) fn set_option<T>(
    socket: BorrowedFd<'_>,
    level: i32,
    option: i32,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the value is whole and its length is given; the kernel copies it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as u32,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
