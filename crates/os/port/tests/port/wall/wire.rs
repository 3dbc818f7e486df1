//! A virtual wire in a network namespace of the test's own: `near` is the end under test, a packet
//! socket sits at the other.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::ptr;

use lineside_port::live::Interface;

/// The wire; its namespace lasts as long as the thread and its children.
pub(crate) struct Wire {
    far: OwnedFd,
}

/// Makes a wire whose ends have this many queues each, `near` and `far`. `None`, with the reason
/// printed, where that is not allowed.
pub(crate) fn wire(near_queues: u32, far_queues: u32, mtu: u32) -> Option<Wire> {
    lineside_testkit::waiting::take_place();
    // SAFETY: a plain system call, which concerns this thread only.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        let cause = io::Error::last_os_error();
        println!("SKIP: no network namespace of our own: {cause}");
        return None;
    }
    // The host's own chatter would be among the frames. Where there is no IPv6, there is none.
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    Some(another_wire(
        ["near", "far"],
        [near_queues, far_queues],
        mtu,
    ))
}

/// Makes one more wire in the namespace of the last [`wire`].
pub(crate) fn another_wire(names: [&str; 2], queues: [u32; 2], mtu: u32) -> Wire {
    let [near, far] = names;
    let queues = queues.map(|n| format!("numrxqueues {n} numtxqueues {n}"));
    ip(&format!(
        "link add name {near} mtu {mtu} {} type veth peer name {far} mtu {mtu} {}",
        queues[0], queues[1]
    ));
    ip(&format!("link set {near} up"));
    ip(&format!("link set {far} up"));
    Wire {
        far: packet_socket(far),
    }
}

/// Runs ip(8); returns its output.
pub(crate) fn ip(arguments: &str) -> String {
    let done = Command::new("ip").args(arguments.split(' ')).output();
    let done = done.expect("ip runs");
    let complaint = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "ip {arguments}: {complaint}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

pub(crate) fn near() -> Interface {
    Interface::named("near").expect("just made")
}

impl Wire {
    /// What an interface of this namespace receives.
    pub(crate) fn at(interface: &str) -> Self {
        Self {
            far: packet_socket(interface),
        }
    }

    /// Sends frames into the far end.
    pub(crate) fn send(&self, frames: &[Vec<u8>]) {
        let mut parts: Vec<_> = frames
            .iter()
            .map(|frame| libc::iovec {
                iov_base: frame.as_ptr().cast_mut().cast(),
                iov_len: frame.len(),
            })
            .collect();
        let mut messages: Vec<libc::mmsghdr> = parts
            .iter_mut()
            .map(|part| {
                // SAFETY: all zeros is a message without parts.
                let mut message: libc::mmsghdr = unsafe { zeroed() };
                message.msg_hdr.msg_iov = part;
                message.msg_hdr.msg_iovlen = 1;
                message
            })
            .collect();
        let mut sent = 0;
        while sent < messages.len() {
            let left = &mut messages[sent..];
            // SAFETY: each message has one part, a frame's bytes, which the kernel only reads.
            let count = unsafe {
                libc::sendmmsg(
                    self.far.as_raw_fd(),
                    left.as_mut_ptr(),
                    left.len() as u32,
                    0,
                )
            };
            if count < 0 {
                // The ring of the wire is full.
                let cause = io::Error::last_os_error();
                assert_eq!(cause.raw_os_error(), Some(libc::ENOBUFS), "{cause}");
                continue;
            }
            sent += count as usize;
        }
    }

    /// The next frame at the far end; `None` if there is none.
    pub(crate) fn receive(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0_u8; 70_000];
        // SAFETY: the kernel writes at most as many bytes as there are.
        let len = unsafe {
            libc::recv(
                self.far.as_raw_fd(),
                bytes.as_mut_ptr().cast(),
                bytes.len(),
                libc::MSG_DONTWAIT,
            )
        };
        bytes.truncate(usize::try_from(len).ok()?);
        Some(bytes)
    }
}

fn packet_socket(interface: &str) -> OwnedFd {
    let index = Interface::named(interface).expect("just made").index;
    let protocol = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: a plain system call, whose descriptor is new.
    let socket = unsafe {
        let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
        assert!(socket >= 0, "{}", io::Error::last_os_error());
        OwnedFd::from_raw_fd(socket)
    };
    let set = |level, option, value: i32| {
        // SAFETY: the kernel reads four bytes.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                level,
                option,
                (&raw const value).cast(),
                4,
            )
        };
        assert!(
            result == 0 || option == libc::SO_RCVBUFFORCE,
            "{}",
            io::Error::last_os_error()
        );
    };
    // Not allowed in a user namespace, where what needs it is not allowed either.
    set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 64 << 20);
    set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1);
    // SAFETY: all zeros is an address.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol;
    address.sll_ifindex = index as i32;
    // SAFETY: the address is whole.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            ptr::from_ref(&address).cast(),
            size_of::<libc::sockaddr_ll>() as u32,
        )
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    socket
}
