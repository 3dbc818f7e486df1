/// How packets were sent, and to which port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// By our own packets of UDP.
    Udp(u16),
    /// By echoes.
    Icmp,
    /// By handshakes of TCP.
    Tcp(u16),
}
