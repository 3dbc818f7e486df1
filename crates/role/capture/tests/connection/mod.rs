//! Calls and replies of our own encoder as frames of TCP connections.

use std::net::{IpAddr, Ipv4Addr};

use lineside_nfs::{mount, v3};
use lineside_rpc::message::{
    AcceptStatus, AcceptedReply, Auth, Body, CallHeader, Header, RPC_VERSION, ReplyHeader,
};
use lineside_rpc::xdr::Xdr;
use lineside_wire::TcpFlags;
use lineside_wire::build::{FrameBuilder, TcpFields};
use lineside_wire::tcp::TcpOption;

pub(crate) const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
pub(crate) const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
pub(crate) const SERVER_PORT: u16 = 2049;

/// A TCP connection by what each side has sent. Direction 0 is the client's.
pub(crate) struct TcpConnection {
    pub(crate) port: u16,
    pub(crate) sequences: [u32; 2],
    /// The client's address and the server's.
    pub(crate) addresses: [IpAddr; 2],
    /// The clock of both ends, if they stamp their segments.
    pub(crate) clock: Option<u32>,
}

impl TcpConnection {
    pub(crate) fn new(port: u16, sequences: [u32; 2]) -> Self {
        Self {
            port,
            sequences,
            addresses: [CLIENT, SERVER],
            clock: None,
        }
    }

    pub(crate) fn handshake(&mut self) -> [Vec<u8>; 3] {
        [
            self.segment(0, TcpFlags::SYN, b""),
            self.segment(1, TcpFlags::SYN | TcpFlags::ACK, b""),
            self.segment(0, TcpFlags::ACK, b""),
        ]
    }

    pub(crate) fn segment(&mut self, direction: usize, flags: TcpFlags, payload: &[u8]) -> Vec<u8> {
        let ports = [self.port, SERVER_PORT];
        let mut options = [1; 12];
        let options = match &mut self.clock {
            Some(value) => {
                *value = value.wrapping_add(1);
                let (value, echo) = (*value, 7);
                TcpOption::Timestamps { value, echo }.emit(&mut options[2..]);
                options.as_slice()
            }
            None => &[],
        };
        let fields = TcpFields {
            source_port: ports[direction],
            destination_port: ports[1 - direction],
            sequence: self.sequences[direction],
            acknowledgement: self.sequences[1 - direction],
            flags,
            options,
            ..TcpFields::default()
        };
        let syn = u32::from(flags.contains(TcpFlags::SYN));
        let sequence = &mut self.sequences[direction];
        *sequence = sequence.wrapping_add(payload.len() as u32 + syn);
        let [source, destination] = [direction, 1 - direction].map(|end| self.addresses[end]);
        FrameBuilder::new(source, destination).tcp(&fields, payload)
    }
}

fn call(xid: u32, program: u32, procedure: u32, credential: Auth<'_>) -> Vec<u8> {
    let header = Header {
        xid: Some(xid),
        body: Body::Call(CallHeader {
            rpc_version: Some(RPC_VERSION),
            program: Some(program),
            version: Some(3),
            procedure: Some(procedure),
            credential,
            verifier: Auth::none(),
        }),
    };
    let mut out = Vec::new();
    header.encode(&mut out);
    out
}

fn reply(xid: u32) -> Vec<u8> {
    let header = Header {
        xid: Some(xid),
        body: Body::Reply(ReplyHeader::Accepted(AcceptedReply {
            verifier: Auth::none(),
            status: AcceptStatus::Success,
        })),
    };
    let mut out = Vec::new();
    header.encode(&mut out);
    out
}

/// A call and its reply as RPC messages, with data behind them where there is some.
pub(crate) fn nfs(
    xid: u32,
    credential: Auth<'_>,
    arguments: &v3::Call<'_>,
    results: &v3::Reply<'_>,
    data: &[u8],
) -> [Vec<u8>; 2] {
    let mut messages = [
        call(xid, v3::PROGRAM, arguments.procedure().number(), credential),
        reply(xid),
    ];
    arguments.encode(&mut messages[0]);
    results.encode(&mut messages[1]);
    let carrier = match (arguments, results) {
        (v3::Call::Write(_), _) => Some(0),
        (_, v3::Reply::Read(outcome)) if outcome.ok().is_some() => Some(1),
        _ => None,
    };
    if let Some(carrier) = carrier {
        messages[carrier].extend_from_slice(data);
        let padded = messages[carrier].len().next_multiple_of(4);
        messages[carrier].resize(padded, 0);
    }
    messages
}

/// The same for MOUNT.
#[allow(dead_code, reason = "not every test mounts")]
pub(crate) fn mount(
    xid: u32,
    arguments: &mount::Call<'_>,
    results: &mount::Reply<'_>,
) -> [Vec<u8>; 2] {
    let number = arguments.procedure().number();
    let mut messages = [call(xid, mount::PROGRAM, number, Auth::none()), reply(xid)];
    arguments.encode(&mut messages[0]);
    results.encode(&mut messages[1]);
    messages
}
