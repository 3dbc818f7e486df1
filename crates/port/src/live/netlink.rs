//! Questions and orders to the kernel about its links and addresses (rtnetlink(7)).

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// A socket of the network namespace in which it was opened, wherever its thread goes.
pub(super) struct Netlink(Socket);

/// Bytes of an answer: the kernel's own messages are at most 32 KiB.
const ANSWER_LEN: usize = 64 * 1024;

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self(socket))
    }

    /// Asks for a list, and gives each message of the answer to `take`.
    pub(super) fn dump(
        &self,
        request: RouteNetlinkMessage,
        take: impl FnMut(RouteNetlinkMessage),
    ) -> io::Result<()> {
        self.send(request, NLM_F_DUMP)?;
        self.receive(take)
    }

    /// Asks for one thing; what the kernel says of it goes to `take`.
    pub(super) fn ask(
        &self,
        request: RouteNetlinkMessage,
        take: impl FnMut(RouteNetlinkMessage),
    ) -> io::Result<()> {
        self.send(request, NLM_F_ACK)?;
        self.receive(take)
    }

    /// Has the kernel make or change something.
    pub(super) fn order(&self, request: RouteNetlinkMessage) -> io::Result<()> {
        self.send(request, NLM_F_ACK | NLM_F_CREATE)?;
        self.receive(|_| {})
    }

    fn send(&self, request: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut message =
            NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::from(request));
        message.header.flags = NLM_F_REQUEST | flags;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.0.send(&bytes, 0).map(|_| ())
    }

    /// Until the kernel says that this is all, or what went wrong.
    fn receive(&self, mut take: impl FnMut(RouteNetlinkMessage)) -> io::Result<()> {
        let mut answer = vec![0; ANSWER_LEN];
        loop {
            let len = self.0.recv(&mut &mut answer[..], 0)?;
            let mut left = &answer[..len];
            while !left.is_empty() {
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(left)
                    .map_err(io::Error::other)?;
                let taken = (message.header.length as usize).next_multiple_of(4);
                match message.payload {
                    NetlinkPayload::Done(_) => return Ok(()),
                    // An error without a code is an acknowledgement.
                    NetlinkPayload::Error(error) if error.code.is_none() => return Ok(()),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    NetlinkPayload::InnerMessage(message) => take(message),
                    _ => {}
                }
                left = left.get(taken..).unwrap_or_default();
            }
        }
    }
}
