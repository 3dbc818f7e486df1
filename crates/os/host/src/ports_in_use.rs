//! Which local ports programs of this network namespace use.

use std::fs;

/// A local port that a socket has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortInUse {
    /// `tcp` or `udp`.
    pub protocol: &'static str,
    /// Its number.
    pub port: u16,
    /// Whether the socket takes connections, or datagrams from anybody.
    pub listens: bool,
}

/// The ports of all sockets of the calling thread's network namespace; none where proc(5) does not
/// tell.
pub fn ports_in_use() -> Vec<PortInUse> {
    let of = |(protocol, file): (&'static str, &str)| {
        let text = fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
        let ports = text.lines().filter_map(|line| read(protocol, line));
        ports.collect::<Vec<_>>()
    };
    let files = [
        ("tcp", "tcp"),
        ("tcp", "tcp6"),
        ("udp", "udp"),
        ("udp", "udp6"),
    ];
    files.into_iter().flat_map(of).collect()
}

/// A line of proc(5): number, local and remote address, state. `None` for the heading.
fn read(protocol: &'static str, line: &str) -> Option<PortInUse> {
    const LISTENING: &str = "0A";
    let mut words = line.split_whitespace().skip(1);
    let (_, port) = words.next()?.rsplit_once(':')?;
    Some(PortInUse {
        protocol,
        port: u16::from_str_radix(port, 16).ok()?,
        listens: protocol == "udp" || words.nth(1) == Some(LISTENING),
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn ports_of_sockets_are_in_use() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let socket = UdpSocket::bind("[::1]:0").expect("a port");
        let port = |address: std::io::Result<std::net::SocketAddr>| address.expect("bound").port();
        let expected = [
            ("tcp", port(listener.local_addr())),
            ("udp", port(socket.local_addr())),
        ];
        let found = ports_in_use();
        for (protocol, port) in expected {
            let found = found
                .iter()
                .find(|it| (it.protocol, it.port) == (protocol, port));
            assert!(found.is_some_and(|it| it.listens), "{protocol} {port}");
        }
        drop(listener);
        let left = ports_in_use();
        let is_there =
            { left.iter() }.any(|it| (it.protocol, it.port) == expected[0] && it.listens);
        assert!(!is_there);
    }
}
