//! What came to a socket, with what the kernel says of it: when it came, and where to.

use std::io;
use std::mem::zeroed;
use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

/// Reads what has come, without waiting, and what the kernel says of it; `name` gets its sender.
pub(crate) fn receive(
    socket: &OwnedFd,
    name: Option<&mut libc::sockaddr_storage>,
    buffer: &mut [u8],
    control: &mut [u64],
) -> io::Result<(usize, Controls)> {
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all zeros is a value of this structure: no buffers, no address.
    let mut message: libc::msghdr = unsafe { zeroed() };
    if let Some(name) = name {
        message.msg_name = ptr::from_mut(name).cast();
        message.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
    }
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(control);
    let flags = libc::MSG_DONTWAIT;
    // SAFETY: the kernel writes at most as much as the message says to each of the three, which
    // live as long as this function.
    // JUSTIFICATION: rustix hands out none of the control messages that are asked for here.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    match usize::try_from(len) {
        Ok(len) => Ok((len, Controls::of(&message))),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// What the kernel says of a datagram, or of bytes.
#[derive(Default)]
pub(crate) struct Controls {
    /// When it came, by the wall clock.
    pub(crate) stamp_ns: Option<i64>,
    /// Datagrams that found no room.
    pub(crate) lost: Option<u32>,
    /// The address that it was sent to.
    pub(crate) own: Option<Ipv6Addr>,
}

impl Controls {
    fn of(message: &libc::msghdr) -> Self {
        let mut controls = Self::default();
        // SAFETY: the kernel left whole control messages in the buffer, whose length it set.
        let mut part = unsafe { libc::CMSG_FIRSTHDR(message) };
        while !part.is_null() {
            // SAFETY: `part` is one of them; its data is as long as its kind requires, and may lie
            // unaligned.
            unsafe {
                let data = libc::CMSG_DATA(part);
                match ((*part).cmsg_level, (*part).cmsg_type) {
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                        let stamp: libc::timespec = ptr::read_unaligned(data.cast());
                        controls.stamp_ns = Some(stamp.tv_sec * 1_000_000_000 + stamp.tv_nsec);
                    }
                    (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                        controls.lost = Some(ptr::read_unaligned(data.cast()));
                    }
                    (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                        let info: libc::in6_pktinfo = ptr::read_unaligned(data.cast());
                        controls.own = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr));
                    }
                    _ => {}
                }
                part = libc::CMSG_NXTHDR(message, part);
            }
        }
        controls
    }
}
