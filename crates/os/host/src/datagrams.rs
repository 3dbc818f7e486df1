//! UDP sockets whose datagrams are stamped by the kernel as they come, are sent in one piece or not
//! at all, and are answered from the address that they were sent to.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use lineside_time::ClockOffset;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, bind, connect, getsockname, send,
    socket_with, sockopt,
};

use crate::clock::{monotonic_ns, read_offset, wall_ns};
use crate::options::set_option;
use crate::received::receive;
use crate::sockets::SocketError;

/// What a train of packets may fill while this process does not run; the kernel allows less where
/// `net.core.rmem_max` says so.
const RECEIVE_BYTES: usize = 4 << 20;
/// Waking up takes about this long, and shorter waits are spent looking at the clock.
const SPIN_NS: i64 = 60_000;

/// The other end of a datagram, and which address of this host it was sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer {
    /// The other end.
    pub address: SocketAddr,
    /// This end; `None` where the socket has one address.
    own: Option<Ipv6Addr>,
}

impl Peer {
    /// A peer that is answered from one of this host's addresses, which matters to a socket of all
    /// addresses alone.
    pub fn new(address: SocketAddr, own: Option<IpAddr>) -> Self {
        let own = own.map(|own| match own {
            IpAddr::V4(own) => own.to_ipv6_mapped(),
            IpAddr::V6(own) => own,
        });
        Self { address, own }
    }

    /// Which address of this host it sent to, where the socket has several.
    pub fn own(&self) -> Option<IpAddr> {
        self.own.map(|own| IpAddr::V6(own).to_canonical())
    }
}

/// A datagram that came.
#[derive(Debug, Clone, Copy)]
pub struct Datagram {
    /// Its bytes in the buffer.
    pub len: usize,
    /// Where it came from.
    pub peer: Peer,
    /// When it came, by CLOCK_MONOTONIC: as the kernel took it.
    pub at_ns: i64,
}

/// A UDP socket.
#[derive(Debug)]
pub struct Datagrams {
    socket: OwnedFd,
    /// How far the kernel's stamps are ahead of CLOCK_MONOTONIC.
    offset: ClockOffset,
    lost: u64,
}

impl Datagrams {
    /// A socket that exchanges datagrams with one address.
    pub fn connect(to: SocketAddr) -> io::Result<Self> {
        let socket = Self::new(family_of(to))?;
        connect(&socket.socket, &to)?;
        Ok(socket)
    }

    /// A socket that takes datagrams of all at one address, or with a port alone at all addresses.
    pub fn bind(address: Option<IpAddr>, port: u16) -> io::Result<Self> {
        let at = match address {
            Some(address) => SocketAddr::new(address, port),
            None => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port),
        };
        match (Self::bind_at(at, address.is_none()), address) {
            // A kernel without IPv6.
            (Err(error), None) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => {
                Self::bind_at(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port), false)
            }
            (bound, _) => bound,
        }
    }

    /// A socket at an address and port (any if 0) whose sends never block; it exchanges datagrams
    /// with `to` alone if that is given. One of all addresses is of both families. With `shares`,
    /// sockets at the same address divide what comes by its sender.
    pub fn open(at: SocketAddr, to: Option<SocketAddr>, shares: bool) -> Result<Self, SocketError> {
        let cannot = |action, address| {
            move |error: io::Error| SocketError {
                action,
                address,
                error: Errno::from_io_error(&error).unwrap_or(Errno::IO),
            }
        };
        let failed = cannot("bind to", at);
        let is_of_all = at.ip().is_unspecified() && to.is_none();
        let at = match is_of_all {
            true => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), at.port()),
            false => at,
        };
        let socket = Self::new(family_of(at)).map_err(failed)?;
        let set = || {
            fcntl_setfl(&socket.socket, OFlags::NONBLOCK)?;
            if shares {
                sockopt::set_socket_reuseport(&socket.socket, true)?;
            }
            if is_of_all {
                socket.set_of_all()?;
            }
            Ok(bind(&socket.socket, &at)?)
        };
        set().map_err(failed)?;
        if let Some(to) = to {
            let connected = connect(&socket.socket, &to);
            connected
                .map_err(io::Error::from)
                .map_err(cannot("connect to", to))?;
        }
        Ok(socket)
    }

    fn set_of_all(&self) -> io::Result<()> {
        sockopt::set_ipv6_v6only(&self.socket, false)?;
        self.set(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)
    }

    fn bind_at(at: SocketAddr, is_of_all: bool) -> io::Result<Self> {
        let socket = Self::new(family_of(at))?;
        if is_of_all {
            socket.set_of_all()?;
        }
        bind(&socket.socket, &at)?;
        Ok(socket)
    }

    fn new(family: AddressFamily) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::DGRAM, flags, None)?;
        let forced = sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BYTES);
        if forced.is_err() {
            sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BYTES)?;
        }
        let this = Self {
            socket,
            offset: ClockOffset::new(read_offset(wall_ns)),
            lost: 0,
        };
        this.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        this.set(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)?;
        // In one piece, whatever the kernel believes that the path takes (ip(7)).
        this.set(
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_PROBE,
        )?;
        if family == AddressFamily::INET6 {
            let probe = libc::IPV6_PMTUDISC_PROBE;
            this.set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, probe)?;
        }
        Ok(this)
    }

    fn set(&self, level: i32, name: i32, value: i32) -> io::Result<()> {
        Ok(set_option(&self.socket, level, name, value)?)
    }

    /// The address of this end.
    pub fn address(&self) -> io::Result<SocketAddr> {
        let address = getsockname(&self.socket)?;
        Ok(SocketAddr::try_from(address)?)
    }

    /// Datagrams that came and found no room, because this process did not take them in time.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Sends to the address that the socket is connected to.
    pub fn send(&self, datagram: &[u8]) -> io::Result<()> {
        send(&self.socket, datagram, SendFlags::empty())?;
        Ok(())
    }

    /// Sends to a peer, from the address that it sent to.
    pub fn answer(&self, datagram: &[u8], peer: &Peer) -> io::Result<()> {
        let (name, name_len) = to_raw(peer.address);
        let mut part = libc::iovec {
            iov_base: datagram.as_ptr().cast_mut().cast(),
            iov_len: datagram.len(),
        };
        let mut control = [0_u64; 8];
        // SAFETY: all zeros is a value of this structure: no buffers, no address.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_name = (&raw const name).cast_mut().cast();
        message.msg_namelen = name_len;
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        if let Some(own) = peer.own {
            let info = libc::in6_pktinfo {
                ipi6_addr: libc::in6_addr {
                    s6_addr: own.octets(),
                },
                ipi6_ifindex: 0,
            };
            let len = size_of::<libc::in6_pktinfo>() as u32;
            message.msg_control = control.as_mut_ptr().cast();
            // SAFETY: a header and 20 bytes fit `control`, which is aligned as a header is.
            // JUSTIFICATION: rustix sends no such control message.
            unsafe {
                message.msg_controllen = libc::CMSG_SPACE(len) as usize;
                let header = libc::CMSG_FIRSTHDR(&raw const message);
                (*header).cmsg_level = libc::IPPROTO_IPV6;
                (*header).cmsg_type = libc::IPV6_PKTINFO;
                (*header).cmsg_len = libc::CMSG_LEN(len) as usize;
                ptr::write_unaligned(libc::CMSG_DATA(header).cast(), info);
            }
        }
        // SAFETY: name, part and control are as long as the message says; the kernel reads them.
        // JUSTIFICATION: as above.
        let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const message, 0) };
        match sent {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The next datagram that has come; `None` if there is none now.
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Datagram>> {
        // SAFETY: all zeros is an address of no family.
        let mut name: libc::sockaddr_storage = unsafe { zeroed() };
        let mut control = [0_u64; 32];
        let (len, controls) = match receive(&self.socket, Some(&mut name), buffer, &mut control) {
            Ok(received) => received,
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => return Ok(None),
                _ => return Err(error),
            },
        };
        if let Some(lost) = controls.lost {
            self.lost = self.lost.max(lost.into());
        }
        let at_ns = match controls.stamp_ns {
            Some(stamp_ns) => {
                self.offset.observe(read_offset(wall_ns));
                self.offset.steady_ns(stamp_ns)
            }
            None => monotonic_ns(),
        };
        let address = from_raw(&name).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        let own = controls.own;
        Ok(Some(Datagram {
            len,
            peer: Peer { address, own },
            at_ns,
        }))
    }

    /// Waits until something comes, or until this instant of CLOCK_MONOTONIC. A signal ends it
    /// early, and a short wait takes no time: look again.
    pub fn wait(&self, until_ns: i64) -> io::Result<()> {
        let left_ns = until_ns.saturating_sub(monotonic_ns());
        if left_ns < SPIN_NS {
            std::hint::spin_loop();
            return Ok(());
        }
        let left = Duration::from_nanos((left_ns - SPIN_NS).cast_unsigned());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut polled = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Readable when a datagram has come.
impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn family_of(address: SocketAddr) -> AddressFamily {
    match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    }
}

/// An address as the kernel reads it.
fn to_raw(address: SocketAddr) -> (libc::sockaddr_storage, u32) {
    // SAFETY: all zeros is an address of no family.
    let mut raw: libc::sockaddr_storage = unsafe { zeroed() };
    let len = match address {
        SocketAddr::V4(address) => {
            let v4 = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(address.ip().octets()),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is larger than any address and aligned for each.
            unsafe { ptr::write((&raw mut raw).cast(), v4) };
            size_of_val(&v4)
        }
        SocketAddr::V6(address) => {
            let v6 = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: address.ip().octets(),
                },
                sin6_scope_id: address.scope_id(),
            };
            // SAFETY: as above.
            unsafe { ptr::write((&raw mut raw).cast(), v6) };
            size_of_val(&v6)
        }
    };
    (raw, len as u32)
}

/// An address as the kernel wrote it.
fn from_raw(raw: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(raw.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that this is in it, and the storage is aligned for it.
            let v4: libc::sockaddr_in = unsafe { ptr::read((&raw const *raw).cast()) };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6: libc::sockaddr_in6 = unsafe { ptr::read((&raw const *raw).cast()) };
            Some(SocketAddr::V6(SocketAddrV6::new(
                Ipv6Addr::from(v6.sin6_addr.s6_addr),
                u16::from_be(v6.sin6_port),
                v6.sin6_flowinfo,
                v6.sin6_scope_id,
            )))
        }
        _ => None,
    }
}

#[cfg(test)]
mod wall {
    use super::*;

    fn received(socket: &mut Datagrams, buffer: &mut [u8]) -> io::Result<Datagram> {
        for _ in 0..100 {
            if let Some(datagram) = socket.receive(buffer)? {
                return Ok(datagram);
            }
            socket.wait(monotonic_ns() + 100_000_000)?;
        }
        panic!("nothing came");
    }

    #[test]
    fn datagrams_are_stamped_and_answered_from_their_address() {
        let mut server = Datagrams::bind(None, 0).expect("a free port");
        let port = server.address().expect("bound").port();
        // Another address of this host than the kernel would choose for an answer.
        for address in ["127.0.0.1", "127.0.0.9", "::1"] {
            let to = SocketAddr::new(address.parse().expect("an address"), port);
            let Ok(mut client) = Datagrams::connect(to) else {
                assert!(to.is_ipv6(), "IPv4 is there");
                continue;
            };
            let mut buffer = [0; 2000];
            let before_ns = monotonic_ns();
            if client.send(b"a question").is_err() {
                println!("SKIP: no {address} here");
                continue;
            }
            let question = received(&mut server, &mut buffer).expect("it comes");
            let after_ns = monotonic_ns();
            assert_eq!(&buffer[..question.len], b"a question");
            assert!(
                (before_ns - 20_000..after_ns).contains(&question.at_ns),
                "{before_ns} {question:?} {after_ns}"
            );
            server.answer(b"an answer", &question.peer).expect("sent");
            let answer = received(&mut client, &mut buffer).expect("it comes");
            assert_eq!(&buffer[..answer.len], b"an answer");
            assert_eq!(answer.peer.address, to);
        }
        assert_eq!(server.lost(), 0);
    }

    #[test]
    fn a_socket_of_one_peer_takes_nothing_from_others() {
        let any = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let all = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        let mut server = Datagrams::open(all, None, true).expect("a free port");
        let port = server.address().expect("bound").port();
        let to = SocketAddr::new("127.0.0.7".parse().expect("an address"), port);
        let mut client = Datagrams::open(any, Some(to), false).expect("a free port");
        let mut buffer = [0; 100];
        client.send(b"a question").expect("sent");
        let question = received(&mut server, &mut buffer).expect("it comes");
        assert_eq!(question.peer.own(), Some(to.ip()));
        let at = question.peer.address;
        let stranger = Datagrams::open(any, Some(client.address().expect("bound")), false);
        stranger
            .expect("a port")
            .send(b"not from there")
            .expect("sent");
        let peer = Peer::new(at, question.peer.own());
        assert_eq!(peer, question.peer);
        server.answer(b"an answer", &peer).expect("sent");
        let answer = received(&mut client, &mut buffer).expect("it comes");
        assert_eq!(
            (&buffer[..answer.len], answer.peer.address),
            (&b"an answer"[..], to)
        );
        // Another one at the same address shares it; without the option it is refused.
        let at = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
        assert!(Datagrams::open(at, None, true).is_ok());
        let error = Datagrams::open(at, None, false).expect_err("in use");
        assert_eq!((error.action, error.error), ("bind to", Errno::ADDRINUSE));
    }

    #[test]
    fn what_is_not_taken_in_time_is_counted() {
        let mut server = Datagrams::bind(Some(Ipv4Addr::LOCALHOST.into()), 0).expect("a port");
        let mut client = Datagrams::connect(server.address().expect("bound")).expect("a socket");
        for _ in 0..20_000 {
            client.send(&[7; 1400]).expect("sent");
        }
        let (mut came, mut buffer) = (0, [0; 2000]);
        while server.receive(&mut buffer).expect("readable").is_some() {
            came += 1;
        }
        // The count comes with the next one that has room.
        client.send(&[7; 1400]).expect("sent");
        received(&mut server, &mut buffer).expect("it comes");
        assert_eq!(came + server.lost(), 20_000);
        assert!(server.lost() > 0);
        // A port that is closed says so.
        drop(server);
        client.send(&[7; 10]).expect("sent");
        let error = received(&mut client, &mut buffer).expect_err("closed");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
