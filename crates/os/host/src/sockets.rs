//! The kernel's own TCP sockets for polling loops: nothing here blocks, and nothing is
//! allocated once a socket is there.
//!
//! `read`, `write`, `accept` and their like fail with [`WouldBlock`](io::ErrorKind::WouldBlock)
//! where they would wait; [`Epoll`](crate::Epoll) reports when to try again. Errors of setting up
//! say which address they are about and what helps.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::ioctl::{Getter, ioctl};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrAny, SocketFlags, SocketType,
    acceptfrom_with, bind, connect, getpeername, getsockname, listen, recv, send, shutdown,
    socket_with, sockopt,
};

use crate::clock::wall_ns;
use crate::options::set_option;
use crate::received::receive;

/// Why a socket was not made, bound or connected: for which address, and what helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot {action} {address}: {}{}", io::Error::from(*.error), self.remedy())]
pub struct SocketError {
    /// What was tried.
    pub action: &'static str,
    /// With which address.
    pub address: SocketAddr,
    /// The kernel's error.
    pub error: Errno,
}

impl SocketError {
    fn remedy(&self) -> &'static str {
        match self.error {
            Errno::MFILE => {
                "; each connection takes a descriptor: fewer connections, or a higher \
                 'ulimit -n'"
            }
            Errno::NFILE => "; the machine has no descriptors left: 'sysctl fs.file-max' raises it",
            Errno::NOBUFS | Errno::NOMEM => "; the kernel has no memory left for sockets",
            Errno::ADDRNOTAVAIL if self.action == "connect to" => {
                "; no local port is free towards it: more local addresses, fewer or longer \
                 connections, or a wider 'sysctl net.ipv4.ip_local_port_range'"
            }
            Errno::ADDRNOTAVAIL => "; this host does not have the address: 'ip address' lists its",
            Errno::ADDRINUSE => "; another socket has it: 'ss -tulpn' lists them",
            Errno::ACCESS => {
                "; ports below 'sysctl net.ipv4.ip_unprivileged_port_start' are root's"
            }
            Errno::PERM => "; a rule of the firewall forbids it",
            Errno::NETUNREACH | Errno::HOSTUNREACH => "; 'ip route get' says why",
            Errno::AFNOSUPPORT => "; the kernel is without IPv6, or has it disabled",
            _ => "",
        }
    }

    /// As an error of its kind, for code that goes by kinds.
    pub fn to_io(&self) -> io::Error {
        self.error.into()
    }
}

fn cannot(action: &'static str, address: SocketAddr) -> impl Fn(Errno) -> SocketError + Copy {
    move |error| SocketError {
        action,
        address,
        error,
    }
}

/// Settings of a TCP socket before it connects or listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpOptions {
    /// Sends small segments at once (`TCP_NODELAY`); default: yes.
    pub no_delay: bool,
    /// Closing it resets the connection and forgets what was not sent: no TIME-WAIT holds the
    /// local port (`SO_LINGER` of 0); default: no.
    pub reset_on_close: bool,
    /// Several sockets may bind to one address: listeners share its connections, one for each
    /// worker, and connections that differ in their peer share a local port (`SO_REUSEPORT`);
    /// default: no.
    pub reuse_port: bool,
    /// What was sent, or a SYN, waits at most this long for an answer (`TCP_USER_TIMEOUT`, RFC
    /// 5482); the kernel's own choice otherwise, which is minutes.
    pub user_timeout: Option<Duration>,
    /// Bytes of the send buffer; the kernel's own choice otherwise, which grows with need.
    pub send_buffer_bytes: Option<usize>,
    /// The same of the receive buffer, which bounds the window.
    pub receive_buffer_bytes: Option<usize>,
    /// The kernel notes when bytes come (`SO_TIMESTAMPNS`); default: no.
    pub stamp_bytes: bool,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            no_delay: true,
            reset_on_close: false,
            reuse_port: false,
            user_timeout: None,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            stamp_bytes: false,
        }
    }
}

impl TcpOptions {
    fn apply(&self, socket: &OwnedFd) -> rustix::io::Result<()> {
        sockopt::set_tcp_nodelay(socket, self.no_delay)?;
        if self.reset_on_close {
            sockopt::set_socket_linger(socket, Some(Duration::ZERO))?;
        }
        if self.reuse_port {
            sockopt::set_socket_reuseport(socket, true)?;
        }
        if let Some(timeout) = self.user_timeout {
            let milliseconds = u32::try_from(timeout.as_millis().max(1)).unwrap_or(u32::MAX);
            sockopt::set_tcp_user_timeout(socket, milliseconds)?;
        }
        if let Some(bytes) = self.send_buffer_bytes {
            sockopt::set_socket_send_buffer_size(socket, bytes)?;
        }
        if let Some(bytes) = self.receive_buffer_bytes {
            sockopt::set_socket_recv_buffer_size(socket, bytes)?;
        }
        if self.stamp_bytes {
            set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        }
        Ok(())
    }
}

/// One end of a TCP connection.
#[derive(Debug)]
pub struct TcpSocket(OwnedFd);

impl TcpSocket {
    /// Begins to connect, from `local` where that is given. The socket becomes writable when it is
    /// connected or has failed: [`take_error`](Self::take_error) reports which.
    ///
    /// A `local` of port 0 gives the address alone: the kernel then chooses a port that is free
    /// towards this peer, and so lends one port to many peers (`IP_BIND_ADDRESS_NO_PORT`, ip(7)).
    pub fn connect(
        to: SocketAddr,
        local: Option<SocketAddr>,
        options: &TcpOptions,
    ) -> Result<Self, SocketError> {
        let socket = new(to)?;
        let failed = cannot("connect to", to);
        options.apply(&socket).map_err(failed)?;
        if let Some(local) = local {
            let failed = cannot("bind to", local);
            if local.port() == 0 {
                // Of the level of IPv4 for IPv6 as well.
                set_option(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
                    .map_err(failed)?;
            } else {
                // A port in TIME-WAIT may be used again.
                sockopt::set_socket_reuseaddr(&socket, true).map_err(failed)?;
            }
            bind(&socket, &local).map_err(failed)?;
        }
        match connect(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Self(socket)),
            Err(error) => Err(failed(error)),
        }
    }

    /// Why connecting or the connection failed, if it did, and forgets it (`SO_ERROR`).
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        let error = sockopt::socket_error(&self.0)?;
        Ok(error.err().map(io::Error::from))
    }

    /// Reads bytes that came; 0 is the peer's end of them, unless `buffer` is empty.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (len, _) = recv(&self.0, buffer, RecvFlags::empty())?;
        Ok(len)
    }

    /// Reads as [`read`](Self::read) does; also how many nanoseconds ago the last of these bytes
    /// came, where the kernel stamps them ([`TcpOptions::stamp_bytes`]), and 0 otherwise.
    pub fn read_aged(&self, buffer: &mut [u8]) -> io::Result<(usize, i64)> {
        let mut control = [0_u64; 16];
        let (len, controls) = receive(&self.0, None, buffer, &mut control)?;
        let age_ns = controls.stamp_ns.map_or(0, |at_ns| wall_ns() - at_ns);
        Ok((len, age_ns.max(0)))
    }

    /// Writes the first of these bytes, as many as there is room for.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(&self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    /// Bytes that were written and that the peer has not acknowledged yet, sent or not
    /// (`SIOCOUTQ`, tcp(7)). The end of the bytes counts as none.
    pub fn unacknowledged_bytes(&self) -> io::Result<u32> {
        // SAFETY: this request writes one `int` (tcp(7)).
        // JUSTIFICATION: rustix has no call for it.
        let bytes: i32 =
            unsafe { ioctl(&self.0, Getter::<{ libc::TIOCOUTQ as u32 }, i32>::new()) }?;
        Ok(bytes.max(0).cast_unsigned())
    }

    /// Whether the kernel reports when the peer has acknowledged all of a later
    /// [`write`](Self::write), as far as it had room: an event of
    /// [`has_failed`](crate::Ready::has_failed), which stays until the report is
    /// [dropped](Self::drop_reports) (`SOF_TIMESTAMPING_TX_ACK`, timestamping in the kernel's
    /// documentation of its network).
    pub fn report_acknowledgements(&self, is_wanted: bool) -> io::Result<()> {
        // Without the data, of which the report would be a copy.
        let mut flags = libc::SOF_TIMESTAMPING_OPT_TSONLY;
        if is_wanted {
            flags |= libc::SOF_TIMESTAMPING_TX_ACK;
        }
        let (level, name) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
        Ok(set_option(&self.0, level, name, flags.cast_signed())?)
    }

    /// Drops the reports of acknowledgements that have come.
    pub fn drop_reports(&self) {
        let mut none: [u8; 0] = [];
        while recv(&self.0, &mut none[..], RecvFlags::ERRQUEUE).is_ok() {}
    }

    /// Sends no more: the peer reads an end after the bytes before it.
    pub fn shut_write(&self) -> io::Result<()> {
        Ok(shutdown(&self.0, Shutdown::Write)?)
    }

    /// Closes it with a reset: what was not sent is forgotten, and no TIME-WAIT holds the port.
    pub fn reset(self) -> io::Result<()> {
        Ok(sockopt::set_socket_linger(&self.0, Some(Duration::ZERO))?)
    }

    /// The address of this end.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        address(getsockname(&self.0)?)
    }

    /// The address of the other end; fails before the socket is connected.
    pub fn peer_address(&self) -> io::Result<SocketAddr> {
        let peer = getpeername(&self.0)?;
        address(peer.ok_or(Errno::NOTCONN)?)
    }
}

impl AsFd for TcpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Accepts connections.
#[derive(Debug)]
pub struct TcpListener {
    socket: OwnedFd,
    options: TcpOptions,
}

impl TcpListener {
    /// Listens; up to `backlog` connections wait to be accepted, or `net.core.somaxconn` if that
    /// is less. The options are those of accepted connections, too.
    pub fn listen(at: SocketAddr, backlog: u16, options: &TcpOptions) -> Result<Self, SocketError> {
        let socket = new(at)?;
        let failed = cannot("listen at", at);
        options.apply(&socket).map_err(failed)?;
        sockopt::set_socket_reuseaddr(&socket, true).map_err(failed)?;
        bind(&socket, &at).map_err(failed)?;
        listen(&socket, backlog.into()).map_err(failed)?;
        Ok(Self {
            socket,
            options: *options,
        })
    }

    /// The next connection and its peer. Those that ended before they were accepted are passed
    /// over.
    pub fn accept(&self) -> io::Result<(TcpSocket, SocketAddr)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, peer) = loop {
            match acceptfrom_with(&self.socket, flags) {
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                accepted => break accepted?,
            }
        };
        let peer = address(peer.ok_or(Errno::NOTCONN)?)?;
        // Linux hands the listener's options down; this one, too, but no document says so.
        if self.options.reset_on_close {
            sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
        }
        Ok((TcpSocket(socket), peer))
    }

    /// Where it listens: the port that the kernel chose, if it was given 0.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        address(getsockname(&self.socket)?)
    }
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn new(of: SocketAddr) -> Result<OwnedFd, SocketError> {
    let family = match of {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(family, SocketType::STREAM, flags, None).map_err(cannot("make a socket for", of))
}

fn address(any: SocketAddrAny) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(any)?)
}

#[cfg(test)]
const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;
    use crate::{Epoll, Interest, Ready};

    fn wait(epoll: &mut Epoll) -> Ready {
        let mut ready = epoll.wait(Some(10_000_000_000)).expect("waited");
        ready.next().expect("something within 10 s")
    }

    /// A connected pair: client and server.
    fn pair(at: SocketAddr, options: &TcpOptions) -> (TcpSocket, TcpSocket) {
        let listener = TcpListener::listen(at, 16, options).expect("listens");
        let refused = listener.accept().expect_err("nobody connects yet");
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
        let to = listener.local_address().expect("bound");
        let client = TcpSocket::connect(to, None, options).expect("begins");
        let mut epoll = Epoll::new(4).expect("Linux 5.11");
        epoll.add(&client, 1, Interest::WRITE).expect("added");
        assert!(wait(&mut epoll).is_writable);
        assert!(client.take_error().expect("asked").is_none());
        epoll.delete(&client).expect("deleted");
        epoll.add(&listener, 2, Interest::READ).expect("added");
        assert_eq!(wait(&mut epoll).token, 2);
        let (server, peer) = listener.accept().expect("one waits");
        assert_eq!(peer, client.local_address().expect("bound"));
        assert_eq!(client.peer_address().expect("connected"), to);
        (client, server)
    }

    #[test]
    fn bytes_go_both_ways_and_end_without_blocking() {
        for at in [LOOPBACK, SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 0)] {
            let (client, server) = pair(at, &TcpOptions::default());
            let mut buffer = [0; 64];
            let empty = server.read(&mut buffer).expect_err("nothing came");
            assert_eq!(empty.kind(), ErrorKind::WouldBlock);
            assert_eq!(client.write(b"GET /").expect("room"), 5);
            client.shut_write().expect("connected");
            let mut epoll = Epoll::new(4).expect("Linux 5.11");
            epoll.add(&server, 3, Interest::READ).expect("added");
            while !wait(&mut epoll).has_peer_closed {}
            assert_eq!(server.read(&mut buffer).expect("came"), 5);
            assert_eq!(&buffer[..5], b"GET /");
            assert_eq!(server.read(&mut buffer).expect("the end"), 0);
            assert_eq!(server.write(b"ok").expect("room"), 2);
        }
    }

    /// What needs the clock of the machine.
    mod wall {
        use super::*;

        #[test]
        fn bytes_have_the_age_that_they_have() {
            let options = TcpOptions {
                stamp_bytes: true,
                ..TcpOptions::default()
            };
            let (client, server) = pair(LOOPBACK, &options);
            let nothing = client.read_aged(&mut [0; 8]).expect_err("nothing came");
            assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
            // The kernel begins to stamp frames a moment after it was asked to for the first time:
            // what comes before has no age.
            let aged = (0..500).any(|_| {
                let watch = crate::Stopwatch::start();
                assert_eq!(server.write(b"early").expect("room"), 5);
                watch.wait_until(Duration::from_millis(20));
                let (len, age_ns) = client.read_aged(&mut [0; 8]).expect("came");
                let elapsed_ns = watch.elapsed().as_nanos() as i64;
                assert_eq!(len, 5);
                // They came as they were written; the clock of a host may be slewed.
                assert!(age_ns < elapsed_ns + 1_000_000_000, "{age_ns} {elapsed_ns}");
                age_ns > 10_000_000
            });
            assert!(aged, "the kernel stamps what comes");
            drop(server);
            assert_eq!(client.read_aged(&mut [0; 8]).expect("the end").0, 0);
            let unstamped = pair(LOOPBACK, &TcpOptions::default());
            assert_eq!(unstamped.1.write(b"late").expect("room"), 4);
            assert_eq!(unstamped.0.read_aged(&mut [0; 8]).expect("came"), (4, 0));
        }
    }

    #[test]
    fn unread_bytes_stay_unacknowledged() {
        let options = TcpOptions {
            receive_buffer_bytes: Some(4096),
            ..TcpOptions::default()
        };
        let (client, server) = pair(LOOPBACK, &options);
        assert_eq!(client.unacknowledged_bytes().expect("asked"), 0);
        let mut written = 0;
        loop {
            match client.write(&[7; 65536]) {
                Ok(len) => written += len,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    break;
                }
            }
        }
        // What the small window does not hold waits here, and is counted.
        let waiting = client.unacknowledged_bytes().expect("asked") as usize;
        assert!(waiting > 0 && waiting <= written, "{waiting} of {written}");
        let mut epoll = Epoll::new(4).expect("Linux 5.11");
        epoll.add(&server, 4, Interest::READ).expect("added");
        let mut read = 0;
        while read < written {
            assert!(wait(&mut epoll).is_readable);
            read += server.read(&mut [0; 65536]).expect("came");
        }
        while client.unacknowledged_bytes().expect("asked") > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_reset_is_an_error_to_the_peer() {
        for by_option in [false, true] {
            let options = TcpOptions {
                reset_on_close: by_option,
                ..TcpOptions::default()
            };
            let (client, server) = pair(LOOPBACK, &options);
            if by_option {
                drop(server);
            } else {
                server.reset().expect("closed");
            }
            let mut epoll = Epoll::new(4).expect("Linux 5.11");
            epoll.add(&client, 5, Interest::NONE).expect("added");
            assert!(wait(&mut epoll).has_failed);
            let error = client.take_error().expect("asked").expect("failed");
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
    }

    #[test]
    fn an_acknowledgement_is_reported_if_that_is_wanted() {
        let (client, server) = pair(LOOPBACK, &TcpOptions::default());
        let mut epoll = Epoll::new(4).expect("Linux 5.11");
        let on_edge = Interest::NONE.on_edge();
        epoll.add(&client, 3, on_edge).expect("added");
        for is_wanted in [true, false, true] {
            client.report_acknowledgements(is_wanted).expect("set");
            client.write(b"data").expect("there is room");
            if is_wanted {
                assert!(wait(&mut epoll).has_failed);
                assert!(client.take_error().expect("asked").is_none());
                client.drop_reports();
                assert_eq!(client.unacknowledged_bytes().expect("asked"), 0);
            }
            assert_eq!(epoll.wait(Some(1_000_000)).expect("waited").len(), 0);
        }
        drop(server);
    }

    #[test]
    fn a_refused_connection_says_so() {
        let listener = TcpListener::listen(LOOPBACK, 1, &TcpOptions::default()).expect("listens");
        let to = listener.local_address().expect("bound");
        drop(listener);
        // Linux may refuse at once, on its loopback.
        let kind = match TcpSocket::connect(to, None, &TcpOptions::default()) {
            Err(error) => error.to_io().kind(),
            Ok(client) => {
                let mut epoll = Epoll::new(4).expect("Linux 5.11");
                epoll.add(&client, 6, Interest::WRITE).expect("added");
                assert!(wait(&mut epoll).has_failed);
                client.take_error().expect("asked").expect("failed").kind()
            }
        };
        assert_eq!(kind, ErrorKind::ConnectionRefused);
    }

    #[test]
    fn one_local_port_serves_many_peers() {
        let options = TcpOptions::default();
        let listeners = [2, 3].map(|last| {
            let at = SocketAddr::new(Ipv4Addr::new(127, 0, 0, last).into(), 0);
            TcpListener::listen(at, 16, &options).expect("listens")
        });
        let to = |listener: &TcpListener| listener.local_address().expect("bound");
        let reusing = TcpOptions {
            reuse_port: true,
            ..options
        };
        // An address alone first: the kernel chooses the port while it connects.
        let first = TcpSocket::connect(to(&listeners[0]), Some(LOOPBACK), &reusing);
        let local = first.as_ref().expect("begins").local_address();
        let local = local.expect("bound");
        assert_eq!((local.ip(), local.port() > 0), (LOOPBACK.ip(), true));
        let second = TcpSocket::connect(to(&listeners[1]), Some(local), &reusing);
        assert_eq!(
            second
                .expect("another peer")
                .local_address()
                .expect("bound"),
            local
        );
        // The same pair of ends is taken.
        let error = TcpSocket::connect(to(&listeners[0]), Some(local), &reusing)
            .expect_err("there is such a connection");
        assert!(
            error
                .to_string()
                .starts_with("cannot connect to 127.0.0.2:")
        );
        assert!(
            error.to_string().contains("no local port is free"),
            "{error}"
        );
    }

    #[test]
    fn listeners_share_a_port_where_they_may() {
        let options = TcpOptions {
            reuse_port: true,
            ..TcpOptions::default()
        };
        let first = TcpListener::listen(LOOPBACK, 16, &options).expect("listens");
        let at = first.local_address().expect("bound");
        TcpListener::listen(at, 16, &options).expect("shares");
        let error = TcpListener::listen(at, 16, &TcpOptions::default()).expect_err("is taken");
        assert!(
            error.to_string().contains("another socket has it"),
            "{error}"
        );
        let foreign = SocketAddr::new(Ipv4Addr::new(192, 0, 2, 1).into(), 80);
        let error = TcpListener::listen(foreign, 16, &options).expect_err("not of this host");
        let text = error.to_string();
        assert!(
            text.starts_with("cannot listen at 192.0.2.1:80: "),
            "{text}"
        );
        assert!(text.contains("does not have the address"), "{text}");
    }
}

#[cfg(test)]
mod wall {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::{NetNamespace, Netlink, may_make_network_namespaces};

    /// Of two local ports each serves as many peers as there are.
    #[test]
    fn local_ports_are_chosen_for_each_peer() {
        if !may_make_network_namespaces() {
            println!("SKIP: local ports: network namespaces need root");
            return;
        }
        let thread = std::thread::spawn(|| {
            let _ours = NetNamespace::new().expect("allowed");
            let netlink = Netlink::open().expect("netlink");
            netlink.switch_on(1).expect("a loopback interface");
            let range = "/proc/sys/net/ipv4/ip_local_port_range";
            crate::kernel::set(range, "40000 40001").expect("ours");
            let options = TcpOptions::default();
            let at = |last, port| SocketAddr::new(Ipv4Addr::new(127, 0, 0, last).into(), port);
            let listeners = [2, 3, 4, 5]
                .map(|last| TcpListener::listen(at(last, 80), 16, &options).expect("listens"));
            let connect = |to: &TcpListener| {
                let to = to.local_address().expect("bound");
                TcpSocket::connect(to, Some(LOOPBACK), &options)
            };
            let open: Vec<_> = { listeners.iter().chain(&listeners) }
                .map(|listener| connect(listener).expect("a port is free towards it"))
                .collect();
            let error = connect(&listeners[0]).expect_err("both are taken");
            assert!(
                error.to_string().contains("more local addresses"),
                "{error}"
            );
            drop(open);
        });
        thread.join().expect("no panic");
    }
}
