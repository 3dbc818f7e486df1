//! A script as it was read.

use lineside_wire::TcpFlags;

/// A whole script.
#[derive(Debug, Clone)]
pub struct Script {
    pub(super) options: Vec<(u32, String, String)>,
    pub(super) events: Vec<Event>,
}

/// What happens, or is to happen.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) line: u32,
    pub(super) time: Time,
    pub(super) action: Action,
}

/// When: in nanoseconds since the script began, or since the event before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Time {
    At(i64),
    After(i64),
    Any,
    Between {
        is_relative: bool,
        from: i64,
        to: i64,
    },
}

#[derive(Debug, Clone)]
pub(super) enum Action {
    Command(String),
    /// The peer's.
    In(Packet),
    /// The stack's.
    Out(Packet),
    Call(Call),
    /// The state of the socket that was opened last is to be this one, as `tcp_info` names it.
    State(String),
}

#[derive(Debug, Clone)]
pub(super) struct Packet {
    /// Source and destination, if not those of the script.
    pub(super) ports: Option<[u16; 2]>,
    pub(super) body: Body,
}

#[derive(Debug, Clone)]
pub(super) enum Body {
    Segment(Segment),
    Error(PathError),
}

/// Numbers are those of the script: since the initial sequence numbers.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) flags: TcpFlags,
    /// `None`: any.
    pub(super) start: Option<u32>,
    pub(super) len: u32,
    pub(super) ack: Option<u32>,
    /// `None`: any.
    pub(super) window: Option<u16>,
    pub(super) urgent: Option<u16>,
    /// The codepoint of the IP header (RFC 3168, 5). `None`: any, and that of nobody's marks.
    pub(super) ecn: Option<u8>,
    /// `None`: any.
    pub(super) options: Option<Vec<TcpOption>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TcpOption {
    Mss(u16),
    NoOperation,
    EndOfList,
    WindowScale(u8),
    SackPermitted,
    Sack(Vec<(u32, u32)>),
    Timestamps { value: u32, echo: u32 },
    Raw(Vec<u8>),
}

/// An ICMP error, and the segment that it is about.
#[derive(Debug, Clone)]
pub(super) struct PathError {
    pub(super) kind: String,
    pub(super) code: Option<String>,
    pub(super) mtu: Option<u32>,
    /// The sequence number, and payload.
    pub(super) echoed: (u32, u32),
}

#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) arguments: Vec<Value>,
    pub(super) result: Value,
    pub(super) errno: Option<String>,
    /// A call that blocks ends then, on the clock of the event's own time.
    pub(super) until: Option<i64>,
}

/// An argument or result.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// `...`
    Any,
    Number(i64),
    Word(String),
    Text(String),
    /// `A | B`
    Either(Vec<Self>),
    List(Vec<Self>),
    Fields(Vec<(String, Self)>),
    /// `htons(80)`
    Of(String, Vec<Self>),
}
