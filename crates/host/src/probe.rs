//! Round trips measured on ordinary sockets.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, recv, sendto,
    socket_with,
};

use crate::clock::Stopwatch;

/// Why no probe could be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// Ordinary users may not ping here.
    #[error(
        "no right to send ICMP echoes: 'sudo sysctl net.ipv4.ping_group_range=\"0 2147483647\"' gives it to all users until the next start, or probe a TCP port instead"
    )]
    Ping,
    /// The operating system refused.
    #[error("cannot probe {to}: {cause}")]
    Io {
        /// Whom.
        to: IpAddr,
        /// What the system said.
        cause: io::Error,
    },
}

/// Sends ICMP echoes, one at a time (icmp(7), `SOCK_DGRAM`).
#[derive(Debug)]
pub struct Ping {
    socket: std::os::fd::OwnedFd,
    to: IpAddr,
    sequence: u16,
}

impl Ping {
    /// Opens the socket.
    pub fn new(to: IpAddr) -> Result<Self, ProbeError> {
        let (family, protocol) = match to {
            IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP),
            IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::DGRAM, flags, Some(protocol));
        let socket = socket.map_err(|error| match error {
            Errno::ACCESS | Errno::PERM | Errno::PROTONOSUPPORT => ProbeError::Ping,
            error => ProbeError::Io {
                to,
                cause: error.into(),
            },
        })?;
        Ok(Self {
            socket,
            to,
            sequence: 0,
        })
    }

    /// One echo: how long its answer took, or `None` if none came within `patience`.
    pub fn round_trip(&mut self, patience: Duration) -> Result<Option<Duration>, ProbeError> {
        let failed = |error: Errno| ProbeError::Io {
            to: self.to,
            cause: error.into(),
        };
        self.sequence = self.sequence.wrapping_add(1);
        // RFC 792 and 4443: type, code; checksum and identifier are the kernel's; sequence number; as many bytes as ping(8) sends.
        let kind = if self.to.is_ipv4() { 8 } else { 128 };
        let mut echo = [0x5a; 64];
        echo[..8].copy_from_slice(&[kind, 0, 0, 0, 0, 0, 0, 0]);
        echo[6..8].copy_from_slice(&self.sequence.to_be_bytes());
        let to = SocketAddr::new(self.to, 0);
        let watch = Stopwatch::start();
        sendto(&self.socket, &echo, SendFlags::empty(), &to).map_err(failed)?;
        loop {
            let mut answer = [0; 128];
            match recv(&self.socket, &mut answer, RecvFlags::empty()) {
                // The kernel hands over answers to this socket's echoes only; earlier ones may be late.
                Ok((_, len)) if len >= 8 && answer[6..8] == self.sequence.to_be_bytes() => {
                    return Ok(Some(watch.elapsed()));
                }
                Ok(_) | Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {}
                // Somebody on the way says that it cannot be had: lost.
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

/// Connects to a port and leaves again: how long the SYN's answer took, also if it was a refusal, or `None` if none came within `patience`.
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
        match Ping::new([127, 0, 0, 1].into()) {
            Ok(mut ping) => {
                for _ in 0..3 {
                    let took = ping.round_trip(second).expect("a probe");
                    assert!(took.is_some_and(|took| took < second), "{took:?}");
                }
            }
            Err(ProbeError::Ping) => println!("SKIP: no right to ping"),
            Err(error) => panic!("{error}"),
        }
    }
}
