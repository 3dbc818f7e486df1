//! rpcbind: the port mapper's versions 3 and 4 (RFC 1833 section 2), for any transport. Version 3
//! has the procedures up to TADDR2UADDR; version 4 says BCAST for CALLIT.

use lineside_rpc::xdr::{List, Name};

use super::Summary;
use super::portmap::{Answer, Forwarded, ForwardedCall};

pub use super::portmap::PROGRAM;

lineside_rpc::procedures! {
    0 Null "NULL": () => ();
    1 Set "SET": Service<'a> => Answer;
    2 Unset "UNSET": Service<'a> => Answer;
    3 GetAddr "GETADDR": Service<'a> => Address<'a>;
    4 Dump "DUMP": () => List<'a, Service<'a>>;
    5 CallIt "CALLIT": ForwardedCall<'a> => ForwardedReply<'a>;
    6 GetTime "GETTIME": () => Time;
    7 UAddr2TAddr "UADDR2TADDR": Address<'a> => TransportAddress<'a>;
    8 TAddr2UAddr "TADDR2UADDR": TransportAddress<'a> => Address<'a>;
    9 GetVersAddr "GETVERSADDR": Service<'a> => Address<'a>;
    10 Indirect "INDIRECT": ForwardedCall<'a> => ForwardedReply<'a>;
    11 GetAddrList "GETADDRLIST": Service<'a> => List<'a, Entry<'a>>;
    12 GetStat "GETSTAT": () => Statistics<'a>;
}

lineside_rpc::xdr! {
    /// rpcb: where a program listens.
    pub struct Service<'a> {
        program: Option<u32>,
        version: Option<u32>,
        /// The kind of transport: `tcp`, `udp6`, `local`.
        netid: Option<Name<'a>>,
        /// The universal address: `10.0.0.1.8.1`, a path, or nothing.
        address: Option<Name<'a>>,
        /// The user that registered it.
        owner: Option<Name<'a>>,
    }

    /// A universal address, empty if there is none.
    pub struct Address<'a> { address: Option<Name<'a>> }

    /// rpcb_rmtcallres: the address of the program that was called, and its results.
    pub struct ForwardedReply<'a> { address: Option<Name<'a>>, results: Option<Forwarded<'a>> }

    /// Seconds since the Unix epoch.
    pub struct Time { seconds: Option<u32> }

    /// netbuf: an address as the transport has it.
    pub struct TransportAddress<'a> { len_max: Option<u32>, address: Option<Name<'a>> }

    /// rpcb_entry: an address of a program on one transport.
    pub struct Entry<'a> {
        address: Option<Name<'a>>,
        netid: Option<Name<'a>>,
        /// 1 without connections, 2 with, 3 with orderly release.
        semantics: Option<u32>,
        protocol_family: Option<Name<'a>>,
        protocol: Option<Name<'a>>,
    }

    /// rpcb_stat_byvers: what was called how often since the start.
    pub struct Statistics<'a> {
        version2: VersionStatistics<'a>,
        version3: VersionStatistics<'a>,
        version4: VersionStatistics<'a>,
    }

    /// rpcb_stat.
    pub struct VersionStatistics<'a> {
        calls: CallCounts,
        set_done: Option<u32>,
        unset_done: Option<u32>,
        addresses: List<'a, AddressCounts<'a>>,
        forwarded: List<'a, ForwardedCounts<'a>>,
    }

    /// Calls of each procedure.
    pub fixed struct CallCounts {
        null: Option<u32>,
        set: Option<u32>,
        unset: Option<u32>,
        getaddr: Option<u32>,
        dump: Option<u32>,
        callit: Option<u32>,
        gettime: Option<u32>,
        uaddr2taddr: Option<u32>,
        taddr2uaddr: Option<u32>,
        getversaddr: Option<u32>,
        indirect: Option<u32>,
        getaddrlist: Option<u32>,
        getstat: Option<u32>,
    }

    /// rpcbs_addrlist: how often the address of a program was asked for.
    pub struct AddressCounts<'a> {
        program: Option<u32>,
        version: Option<u32>,
        success: Option<u32>,
        failure: Option<u32>,
        netid: Option<Name<'a>>,
    }

    /// rpcbs_rmtcalllist: how often a procedure was called through CALLIT, BCAST or INDIRECT.
    pub struct ForwardedCounts<'a> {
        program: Option<u32>,
        version: Option<u32>,
        procedure: Option<u32>,
        success: Option<u32>,
        failure: Option<u32>,
        /// Those of them that came as INDIRECT.
        indirect: Option<u32>,
        netid: Option<Name<'a>>,
    }
}

impl<'a> Call<'a> {
    pub(crate) fn summarise(&self, summary: &mut Summary<'a>) {
        match self {
            Self::Null(()) | Self::Dump(()) | Self::GetTime(()) | Self::GetStat(()) => {}
            Self::Set(service)
            | Self::Unset(service)
            | Self::GetAddr(service)
            | Self::GetVersAddr(service)
            | Self::GetAddrList(service) => {
                summary.target_program = service.program;
                summary.target_version = service.version;
                summary.netid = service.netid.map(|id| id.view());
                summary.address = service.address.map(|address| address.view());
                summary.service_owner = service.owner.map(|owner| owner.view());
            }
            Self::CallIt(call) | Self::Indirect(call) => call.summarise(summary),
            Self::UAddr2TAddr(address) => summary.address = address.address.map(|a| a.view()),
            Self::TAddr2UAddr(address) => {
                summary.transport_address = address.address.map(|address| address.view());
            }
        }
    }
}

impl<'a> Reply<'a> {
    pub(crate) fn summarise(&self, summary: &mut Summary<'a>) {
        match self {
            Self::Null(()) | Self::GetStat(_) => {}
            Self::Set(answer) | Self::Unset(answer) => summary.done = answer.done,
            Self::GetAddr(address) | Self::GetVersAddr(address) | Self::TAddr2UAddr(address) => {
                summary.address = address.address.map(|address| address.view());
            }
            Self::Dump(services) => summary.entries = Some(services.iter().count() as u32),
            Self::GetAddrList(entries) => summary.entries = Some(entries.iter().count() as u32),
            Self::CallIt(reply) | Self::Indirect(reply) => {
                summary.address = reply.address.map(|address| address.view());
                summary.forwarded_bytes = reply.results.map(|results| results.len() as u32);
            }
            Self::GetTime(time) => summary.time_seconds = time.seconds,
            Self::UAddr2TAddr(address) => {
                summary.transport_address = address.address.map(|address| address.view());
            }
        }
    }
}
