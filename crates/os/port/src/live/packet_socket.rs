//! A packet socket, without a ring: what sending takes.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use lineside_frame::{Burst, Frame, LinkType};
use lineside_wire::ethernet;

use super::checksum_offload::finish;
use super::clock::{KernelStamps, Source};
use super::socket_options::set_option;
use super::{FilterInstruction, Interface, StampClock, ethtool};
use crate::{Facts, LiveFacts, Method, Port, PortError, Transmit};

/// Frames that are sent by one call.
const SEND_MAX: usize = 64;

/// One call in this many has a frame stamped: a stamp costs two system calls.
const STAMP_EVERY: u32 = 16;

pub(super) fn open_to_send(interface: &Interface) -> Result<Box<dyn Transmit>, PortError> {
    let socket = PacketSocket::new(interface, StampClock::Wall, "frames are sent")?;
    socket.bind(0)?;
    // Without a queueing discipline: a caller that asked for a time does not want another's. Old
    // kernels have one anyway.
    let _ = socket.set(libc::PACKET_QDISC_BYPASS, &1_i32);
    Ok(Box::new(socket))
}

/// A packet socket of an interface. Without a ring it only sends.
pub(super) struct PacketSocket {
    pub(super) socket: OwnedFd,
    pub(super) interface: Interface,
    pub(super) link_type: LinkType,
    pub(super) facts: Facts,
    /// The kernel stamps frames that are sent, if it is asked to.
    pub(super) stamps_sent: bool,
    /// It shares frames with others by local port.
    pub(super) is_fanned_out: bool,
    /// Those of frames that came and of frames that were sent.
    pub(super) stamps: KernelStamps,
    stamping: Stamping,
    /// Calls that sent since a frame was stamped.
    unstamped: u32,
}

/// How far it has come with the stamp of a frame that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stamping {
    Idle,
    /// The next frame is to have one.
    Asked,
    /// One was sent: the stamp is on its way to the socket's queue of errors.
    Sending,
}

impl PacketSocket {
    pub(super) fn new(
        interface: &Interface,
        clock: StampClock,
        reason: &str,
    ) -> Result<Self, PortError> {
        let Some(link_type) = interface.link_type else {
            return Err(PortError::UnknownHardware {
                name: interface.name.clone(),
            });
        };
        // SAFETY: a plain system call.
        let socket =
            unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if socket < 0 {
            let cause = io::Error::last_os_error();
            return Err(if cause.raw_os_error() == Some(libc::EPERM) {
                PortError::Privilege {
                    what: format!("listen at or send to '{}' by AF_PACKET", interface.name),
                    capabilities: &["cap_net_raw"],
                }
            } else {
                Self::failure(interface, "open a packet socket for", cause)
            });
        }
        // SAFETY: the descriptor is new and used by no one else.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let facts = Facts {
            name: interface.name.clone(),
            format: Method::AfPacket.to_string(),
            link_types: vec![link_type],
            resolution_ns: Some(1),
            live: Some(LiveFacts {
                method: Method::AfPacket,
                reason: reason.to_owned(),
                mtu: interface.mtu,
                speed_bps: ethtool::speed_bps(&interface.name),
                filtered: Some(0),
                ..LiveFacts::default()
            }),
            ..Facts::default()
        };
        Ok(Self {
            socket,
            interface: interface.clone(),
            link_type,
            facts,
            stamps_sent: false,
            is_fanned_out: false,
            stamps: KernelStamps::new(clock, Source::Wall),
            stamping: Stamping::Idle,
            unstamped: STAMP_EVERY,
        })
    }

    pub(super) fn failure(
        interface: &Interface,
        action: &'static str,
        cause: io::Error,
    ) -> PortError {
        PortError::Interface {
            name: interface.name.clone(),
            action,
            cause,
        }
    }

    pub(super) fn live_mut(&mut self) -> &mut LiveFacts {
        self.facts.live.get_or_insert_default()
    }

    pub(super) fn bind(&self, protocol: u16) -> Result<(), PortError> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: protocol.to_be(),
            sll_ifindex: self.interface.index as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: the address is whole and its length is given.
        let result = unsafe {
            libc::bind(
                self.socket.as_raw_fd(),
                ptr::from_ref(&address).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            )
        };
        if result < 0 {
            let cause = io::Error::last_os_error();
            return Err(Self::failure(&self.interface, "listen at", cause));
        }
        Ok(())
    }

    pub(super) fn attach(&self, program: &[FilterInstruction]) -> io::Result<()> {
        set_option(
            self.socket.as_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            &as_program(program),
        )
    }

    /// Takes the program away.
    pub(super) fn detach(&self) -> io::Result<()> {
        let (socket, level) = (self.socket.as_fd(), libc::SOL_SOCKET);
        set_option(socket, level, libc::SO_DETACH_FILTER, &0_i32)
    }

    /// Is the first of sockets among which the kernel chooses one for each frame: by the remainder
    /// of what the program gives back (`PACKET_FANOUT_CBPF`).
    pub(super) fn found_group(&mut self, program: &[FilterInstruction]) -> io::Result<()> {
        let found = |flags: u32| {
            let group = FANOUT_UNIQUE | flags | libc::PACKET_FANOUT_CBPF;
            self.set(libc::PACKET_FANOUT, &(group << 16))
        };
        // Frames that this host sends would be shared as well; kernels before 5.11 do not know the
        // flag, and the ring leaves them out.
        found(FANOUT_IGNORE_OUTGOING).or_else(|_| found(0))?;
        self.set(libc::PACKET_FANOUT_DATA, &as_program(program))?;
        self.is_fanned_out = true;
        Ok(())
    }

    /// Joins the group of another.
    pub(super) fn join_group(&mut self, first: &Self) -> io::Result<()> {
        let group = first.group()? & !(FANOUT_UNIQUE << 16);
        self.set(libc::PACKET_FANOUT, &group)?;
        self.is_fanned_out = true;
        Ok(())
    }

    /// Number, kind and flags of the group.
    fn group(&self) -> io::Result<u32> {
        let mut group = 0_u32;
        let mut len = size_of::<u32>() as u32;
        // SAFETY: the kernel writes at most `len` bytes to where there are as many.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_FANOUT,
                (&raw mut group).cast(),
                &raw mut len,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(group)
    }

    pub(super) fn set<T>(&self, option: i32, value: &T) -> io::Result<()> {
        set_option(self.socket.as_fd(), libc::SOL_PACKET, option, value)
    }

    /// Sends up to [`SEND_MAX`] frames by one call; returns how many the kernel took.
    fn send(&mut self, frames: &[Frame]) -> Result<usize, PortError> {
        // SAFETY: all zeros are values of these structures: no buffers, no address.
        let mut parts: [[libc::iovec; 2]; SEND_MAX] = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; SEND_MAX] = unsafe { std::mem::zeroed() };
        for (frame, (parts, message)) in frames.iter().zip(parts.iter_mut().zip(&mut messages)) {
            let given = frame.descriptor().link_type;
            if given != self.link_type {
                return Err(PortError::WrongLinkType {
                    name: self.facts.name.clone(),
                    holds: self.link_type.0,
                    given: given.0,
                    number: frame.descriptor().number,
                });
            }
            for (part, bytes) in parts.iter_mut().zip(frame.parts()) {
                part.iov_base = bytes.as_ptr().cast_mut().cast();
                part.iov_len = bytes.len();
            }
            message.msg_hdr.msg_iov = parts.as_mut_ptr();
            message.msg_hdr.msg_iovlen = if frame.rest().is_empty() { 1 } else { 2 };
        }
        // A control message with a request for a stamp: a header and 32 bits.
        let mut control = [0_u64; 4];
        if self.stamping == Stamping::Asked {
            let first = &mut messages[0].msg_hdr;
            first.msg_control = control.as_mut_ptr().cast();
            // SAFETY: the message fits `control`, which is aligned as its header is.
            unsafe {
                first.msg_controllen = libc::CMSG_SPACE(4) as usize;
                let part = libc::CMSG_FIRSTHDR(first);
                (*part).cmsg_level = libc::SOL_SOCKET;
                (*part).cmsg_type = libc::SO_TIMESTAMPING;
                (*part).cmsg_len = libc::CMSG_LEN(4) as usize;
                let wish = libc::SOF_TIMESTAMPING_TX_SOFTWARE;
                ptr::write_unaligned(libc::CMSG_DATA(part).cast(), wish);
            }
        }
        // SAFETY: the parts of each message are a frame's bytes and its rest; the kernel only reads
        // them.
        let sent = unsafe {
            libc::sendmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr(),
                frames.len() as u32,
                libc::MSG_DONTWAIT,
            )
        };
        if sent >= 0 {
            self.unstamped = self.unstamped.saturating_add(1);
            if self.stamping == Stamping::Asked && sent > 0 {
                self.stamping = Stamping::Sending;
            }
            return Ok(sent as usize);
        }
        let cause = io::Error::last_os_error();
        match cause.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => Ok(0),
            _ => Err(self.not_sent(&frames[0], cause)),
        }
    }

    /// Why the kernel did not take a frame.
    #[cold]
    fn not_sent(&self, frame: &Frame, cause: io::Error) -> PortError {
        let name = || self.facts.name.clone();
        match cause.raw_os_error() {
            Some(libc::ENETDOWN) => PortError::InterfaceDown { name: name() },
            Some(libc::EMSGSIZE) => {
                let len = frame.whole_len();
                // An Ethernet header is not of the packet.
                let header_len = match self.link_type {
                    LinkType::ETHERNET => ethernet::HEADER_LEN,
                    _ => 0,
                };
                PortError::TooLong {
                    name: name(),
                    mtu: self.interface.mtu,
                    number: frame.descriptor().number,
                    len,
                    needed: len.saturating_sub(header_len),
                }
            }
            _ => Self::failure(&self.interface, "send to", cause),
        }
    }

    /// The stamp of the frame that was sent with a request for one.
    fn stamp_sent(&mut self) -> Option<i64> {
        /// For `struct scm_timestamping`, and what else the kernel adds to the frame.
        const CONTROL_LEN: usize = 256;
        let mut control = [0_u64; CONTROL_LEN / 8];
        // SAFETY: all zeros is a value of this structure: no buffers, no address.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = CONTROL_LEN;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: the kernel writes at most `msg_controllen` bytes to `control`, and no others.
        let len = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, flags) };
        if len < 0 {
            return None;
        }
        // SAFETY: the kernel left whole control messages in `control`, whose length it set.
        let mut part = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
        while !part.is_null() {
            // SAFETY: `part` is one of them; its data is as long as its kind requires, three
            // timespecs here, of which the first is the software's stamp; it may lie unaligned.
            unsafe {
                let kind = ((*part).cmsg_level, (*part).cmsg_type);
                if kind == (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) {
                    let stamp: libc::timespec = ptr::read_unaligned(libc::CMSG_DATA(part).cast());
                    return Some(stamp.tv_sec * 1_000_000_000 + stamp.tv_nsec);
                }
                part = libc::CMSG_NXTHDR(&raw const message, part);
            }
        }
        None
    }
}

/// The kernel chooses a number that no other group has (linux/if_packet.h).
const FANOUT_UNIQUE: u32 = 0x2000;
const FANOUT_IGNORE_OUTGOING: u32 = 0x4000;

/// A program as the kernel reads it, as long as the slice lives.
fn as_program(program: &[FilterInstruction]) -> libc::sock_fprog {
    libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_ptr().cast_mut().cast(),
    }
}

impl Port for PacketSocket {
    fn facts(&self) -> Vec<&Facts> {
        vec![&self.facts]
    }
}

impl Transmit for PacketSocket {
    fn transmit(&mut self, burst: &mut Burst) -> Result<usize, PortError> {
        burst.iter_mut().for_each(finish);
        let mut sent = 0;
        while sent < burst.len() {
            let count = (burst.len() - sent).min(SEND_MAX);
            match self.send(&burst[sent..sent + count]) {
                Ok(0) => break,
                Ok(count) => sent += count,
                Err(error) => {
                    burst.drain(..sent);
                    return Err(error);
                }
            }
        }
        burst.drain(..sent);
        self.facts.frames += sent as u64;
        Ok(sent)
    }

    /// None: the kernel copies frames as it takes them.
    fn reclaim(&mut self) -> usize {
        0
    }

    fn stamp_next(&mut self) -> bool {
        let is_wanted = self.stamps_sent && self.unstamped >= STAMP_EVERY;
        if is_wanted && self.stamping == Stamping::Idle {
            self.stamping = Stamping::Asked;
        }
        self.stamping == Stamping::Asked
    }

    fn handed_over(&mut self) -> Option<Option<i64>> {
        if self.stamping != Stamping::Sending {
            return None;
        }
        let stamp_ns = self.stamp_sent()?;
        self.stamping = Stamping::Idle;
        self.unstamped = 0;
        self.stamps.renew();
        Some(Some(self.stamps.stamp_ns(stamp_ns)))
    }
}
