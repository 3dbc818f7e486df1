//! Round trips measured on ordinary sockets.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use lineside_wire::{icmp, ipv4};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, ipproto, recv, sendto,
    socket_with,
};

use crate::clock::Stopwatch;

/// Why no probe could be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// Ordinary users may not ping here.
    #[error(
        "no right to send ICMP echoes: 'sudo sysctl net.ipv4.ping_group_range=\"0 2147483647\"' \
        gives it to all users until the next start, CAP_NET_RAW (as root has it) to this one; or \
        probe a TCP port instead"
    )]
    Ping,
    /// The operating system refused.
    #[error("cannot probe {to}: {cause}")]
    Io {
        /// Whom.
        to: IpAddr,
        /// The error of the system call.
        cause: io::Error,
    },
}

/// Sends ICMP echoes, one at a time, by a socket that all users may have (icmp(7), `SOCK_DGRAM`)
/// or, where they may not, a raw one (raw(7)).
#[derive(Debug)]
pub struct Ping {
    socket: std::os::fd::OwnedFd,
    to: IpAddr,
    sequence: u16,
    /// Of a raw socket, which gets the answers to all: identifies ours.
    identifier: Option<u16>,
}

impl Ping {
    /// Opens the socket.
    pub fn new(to: IpAddr) -> Result<Self, ProbeError> {
        Self::of_all_users(to).or_else(|error| match error {
            ProbeError::Ping => Self::raw(to),
            error => Err(error),
        })
    }

    fn of_all_users(to: IpAddr) -> Result<Self, ProbeError> {
        Ok(Self {
            socket: Self::open(to, SocketType::DGRAM)?,
            to,
            sequence: 0,
            identifier: None,
        })
    }

    fn raw(to: IpAddr) -> Result<Self, ProbeError> {
        let socket = Self::open(to, SocketType::RAW)?;
        // From others nothing is taken.
        connect(&socket, &SocketAddr::new(to, 0)).map_err(|error| ProbeError::Io {
            to,
            cause: error.into(),
        })?;
        // No two sockets of a process have the same number.
        let identifier = std::process::id().wrapping_add(socket.as_raw_fd().unsigned_abs());
        Ok(Self {
            socket,
            to,
            sequence: 0,
            identifier: Some(identifier as u16),
        })
    }

    fn open(to: IpAddr, kind: SocketType) -> Result<std::os::fd::OwnedFd, ProbeError> {
        let (family, protocol) = match to {
            IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP),
            IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, kind, flags, Some(protocol));
        socket.map_err(|error| match error {
            Errno::ACCESS | Errno::PERM | Errno::PROTONOSUPPORT => ProbeError::Ping,
            error => ProbeError::Io {
                to,
                cause: error.into(),
            },
        })
    }

    /// Whether these bytes are the answer to the latest echo.
    fn is_answer(&self, bytes: &[u8]) -> bool {
        let message = match (self.identifier, self.to) {
            // A raw IPv4 socket gives the IP header too.
            (Some(_), IpAddr::V4(_)) if !bytes.is_empty() => {
                let header_len = ipv4::Packet::new_unchecked(bytes).header_len();
                bytes.get(header_len..).unwrap_or_default()
            }
            _ => bytes,
        };
        let kind = match self.to {
            IpAddr::V4(_) => icmp::kind::ECHO_REPLY,
            IpAddr::V6(_) => icmp::kind::ECHO_REPLY_V6,
        };
        // The kernel hands over answers to a datagram socket's own echoes only; earlier ones may be
        // late.
        icmp::Echo::new_checked(message).is_some_and(|echo| {
            let own = self.identifier.is_none_or(|own| own == echo.identifier());
            own && echo.kind() == kind && echo.sequence() == self.sequence
        })
    }

    /// One echo: how long its answer took, or `None` if none came within `patience`.
    pub fn round_trip(&mut self, patience: Duration) -> Result<Option<Duration>, ProbeError> {
        let failed = |error: Errno| ProbeError::Io {
            to: self.to,
            cause: error.into(),
        };
        self.sequence = self.sequence.wrapping_add(1);
        let kind = match self.to {
            IpAddr::V4(_) => icmp::kind::ECHO_REQUEST,
            IpAddr::V6(_) => icmp::kind::ECHO_REQUEST_V6,
        };
        // As many bytes as ping(8) sends. The kernel enters identifier and checksum, except for
        // raw IPv4.
        let mut echo = [0x5a; 64];
        icmp::Echo::emit(&mut echo, kind, self.identifier.unwrap_or(0), self.sequence);
        let to = SocketAddr::new(self.to, 0);
        let watch = Stopwatch::start();
        sendto(&self.socket, &echo, SendFlags::empty(), &to).map_err(failed)?;
        loop {
            let mut answer = [0; 256];
            match recv(&self.socket, &mut answer, RecvFlags::empty()) {
                Ok((_, len)) if self.is_answer(&answer[..len.min(answer.len())]) => {
                    return Ok(Some(watch.elapsed()));
                }
                Ok(_) | Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {}
                // A router reports that it is unreachable: lost.
                Err(Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::CONNREFUSED) => {
                    return Ok(None);
                }
                Err(error) => return Err(failed(error)),
            }
            let Some(left) = patience.checked_sub(watch.elapsed()) else {
                return Ok(None);
            };
            let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
            let timeout = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: left.subsec_nanos().into(),
            };
            match poll(&mut polled, Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

/// Connects to a port and leaves again: how long the SYN's answer took, also if it was a refusal,
/// or `None` if none came within `patience`.
pub fn connect_round_trip(
    to: SocketAddr,
    patience: Duration,
) -> Result<Option<Duration>, ProbeError> {
    let watch = Stopwatch::start();
    match TcpStream::connect_timeout(&to, patience) {
        Ok(_) => Ok(Some(watch.elapsed())),
        Err(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => Ok(Some(watch.elapsed())),
            io::ErrorKind::TimedOut
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable => Ok(None),
            _ => Err(ProbeError::Io {
                to: to.ip(),
                cause: error,
            }),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn this_host_answers() {
        let second = Duration::from_secs(1);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let took = connect_round_trip(address, second).expect("a probe");
        assert!(took.is_some_and(|took| took < second), "{took:?}");
        drop(listener);
        assert!(
            connect_round_trip(address, second)
                .expect("a probe")
                .is_some(),
            "refused is answered"
        );
        for this in [
            IpAddr::from([127, 0, 0, 1]),
            std::net::Ipv6Addr::LOCALHOST.into(),
        ] {
            let mut opened = 0;
            for ping in [Ping::of_all_users(this), Ping::raw(this), Ping::new(this)] {
                // No right to this kind, or a kernel without IPv6.
                let Ok(mut ping) = ping else { continue };
                opened += 1;
                for _ in 0..3 {
                    let took = ping.round_trip(second).expect("a probe");
                    assert!(took.is_some_and(|took| took < second), "{took:?}");
                }
            }
            if this.is_ipv4() && opened == 0 {
                assert!(!rustix::process::geteuid().is_root());
                println!("SKIP: no right to ping");
            }
        }
    }
}
