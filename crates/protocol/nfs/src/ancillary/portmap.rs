//! The port mapper: version 2 (RFC 1833 section 3).

use lineside_rpc::xdr::{List, Opaque};

use super::Summary;

/// Its RPC program number, rpcbind's too.
pub const PROGRAM: u32 = 100_000;
/// The version described here.
pub const VERSION: u32 = 2;

lineside_rpc::procedures! {
    0 Null "NULL": () => ();
    1 Set "SET": Mapping => Answer;
    2 Unset "UNSET": Mapping => Answer;
    3 GetPort "GETPORT": Mapping => Port;
    4 Dump "DUMP": () => List<'a, Mapping>;
    5 CallIt "CALLIT": ForwardedCall<'a> => ForwardedReply<'a>;
}

/// Arguments or results of a call that is passed on. The RFC sets no limit; this is more than a
/// datagram holds.
pub type Forwarded<'a> = Opaque<'a, 65_536>;

lineside_rpc::xdr! {
    /// mapping: where a program listens. `protocol` is that of IP: 6 TCP, 17 UDP.
    pub fixed struct Mapping {
        program: Option<u32>,
        version: Option<u32>,
        protocol: Option<u32>,
        port: Option<u32>,
    }

    /// Whether it was done.
    pub struct Answer { done: Option<bool> }

    /// A port, 0 if the program is not registered.
    pub struct Port { port: Option<u32> }

    /// call_args: a call to another program, which answers only if it succeeds.
    pub struct ForwardedCall<'a> {
        program: Option<u32>,
        version: Option<u32>,
        procedure: Option<u32>,
        arguments: Option<Forwarded<'a>>,
    }

    /// call_result: the port of the program that was called, and its results.
    pub struct ForwardedReply<'a> { port: Option<u32>, results: Option<Forwarded<'a>> }
}

impl Mapping {
    fn summarise(&self, summary: &mut Summary<'_>) {
        summary.target_program = self.program;
        summary.target_version = self.version;
        summary.protocol = self.protocol;
        summary.port = self.port;
    }
}

impl ForwardedCall<'_> {
    pub(super) fn summarise(&self, summary: &mut Summary<'_>) {
        summary.target_program = self.program;
        summary.target_version = self.version;
        summary.target_procedure = self.procedure;
        summary.forwarded_bytes = self.arguments.map(|arguments| arguments.len() as u32);
    }
}

impl<'a> Call<'a> {
    pub(crate) fn summarise(&self, summary: &mut Summary<'a>) {
        match self {
            Self::Null(()) | Self::Dump(()) => {}
            Self::Set(mapping) | Self::Unset(mapping) => mapping.summarise(summary),
            Self::GetPort(mapping) => {
                mapping.summarise(summary);
                // It is what is asked for.
                summary.port = None;
            }
            Self::CallIt(call) => call.summarise(summary),
        }
    }
}

impl<'a> Reply<'a> {
    pub(crate) fn summarise(&self, summary: &mut Summary<'a>) {
        match self {
            Self::Null(()) => {}
            Self::Set(answer) | Self::Unset(answer) => summary.done = answer.done,
            Self::GetPort(port) => summary.port = port.port,
            Self::Dump(mappings) => summary.entries = Some(mappings.iter().count() as u32),
            Self::CallIt(reply) => {
                summary.port = reply.port;
                summary.forwarded_bytes = reply.results.map(|results| results.len() as u32);
            }
        }
    }
}
