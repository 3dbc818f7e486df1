//! The client's own calls: how it becomes known to a server, stays so, and goes.
//!
//! ```text
//!  NFSv3    GETPORT ─► MNT ─► ready
//!  NFSv4.0  SETCLIENTID ─► SETCLIENTID_CONFIRM ─► LOOKUP of the export ─► ready ─► RENEW …
//!  NFSv4.1  EXCHANGE_ID ─► CREATE_SESSION ─► RECLAIM_COMPLETE ─► LOOKUP … ─► ready ─► SEQUENCE …
//!                                            DESTROY_CLIENTID ◄─ DESTROY_SESSION ◄─ finish
//! ```

use lineside_frame::Piece;
use lineside_nfs::ancillary::portmap;
use lineside_nfs::mount;
use lineside_nfs::v4::{
    self, Bitmap, Call, ChannelAttributes, NetAddress, Owner, Reply, SetClientIdResult, Status,
};
use lineside_rpc::xdr::{Counted, Name};
use lineside_time::Nanoseconds;

use crate::calls::Calls;
use crate::config::{
    ClientError, Event, MountAt, PORTMAP_PORT, Phase, Service, Step, Transport, Version,
};
use crate::request::Request;
use crate::results::{Answer, Results};
use crate::slots::Slots;

/// The number of TCP among the protocols of IP.
const TCP: u32 = 6;
/// The attribute `lease_time` (RFC 8881 section 5.8.1.11).
const LEASE_TIME: u32 = 10;
/// A lease of a server that does not say: that of Linux and nfs-ganesha is longer.
const LEASE_NS: Nanoseconds = 60_000_000_000;
/// Operations of a compound, and bytes of a result that the server keeps.
const OPERATIONS: u32 = 64;
const CACHED_BYTES: u32 = 4_096;
/// A program for callbacks, of those free for use (RFC 5531 section 8.4). None is served.
const CALLBACK_PROGRAM: u32 = 0x4000_0000;

impl Calls {
    /// Begins.
    pub(crate) fn start(&mut self) {
        if self.phase != Phase::Idle {
            return;
        }
        match (self.config.version, &self.config.mount) {
            (Version::V3, Some(mount)) => match mount.at {
                MountAt::Portmap => self.want(Service::Portmap, PORTMAP_PORT),
                MountAt::Port(port) => self.want(Service::Mount, port),
            },
            _ => self.want(Service::Nfs, self.config.port),
        }
    }

    /// A service is needed: by a connection that is there, or a new one.
    pub(crate) fn want(&mut self, service: Service, port: u16) {
        let mut channels = self.channels.iter_mut().enumerate();
        let found = channels.find_map(|(at, channel)| {
            let channel = channel.as_mut()?;
            let is_it = channel.is_up && channel.port == port;
            (is_it && channel.transport == Transport::Stream).then_some((at, channel))
        });
        self.phase = Phase::Connecting(service);
        match found {
            // The same port serves this one too.
            Some((at, channel)) => {
                channel.service = service;
                self.on_service(service, at);
            }
            None => self.events.push_back(Event::Connect(service, port)),
        }
    }

    /// There is a connection to a service that is needed.
    pub(crate) fn on_service(&mut self, service: Service, at: usize) {
        match (service, self.config.version) {
            (Service::Portmap, _) => {
                let call = portmap::Call::GetPort(portmap::Mapping {
                    program: Some(mount::PROGRAM),
                    version: Some(mount::VERSION),
                    protocol: Some(TCP),
                    port: Some(0),
                });
                self.phase = Phase::Asking(Step::GetPort);
                self.ask_for(at, Step::GetPort, Request::Portmap(&call));
            }
            (Service::Mount, _) => {
                let mount = self.config.mount.clone();
                let path = mount.map(|mount| mount.export).unwrap_or_default();
                let path = [Piece::bytes(&path)];
                let directory = Some(Name::new(&path));
                let call = mount::Call::Mnt(mount::DirectoryArgs { directory });
                self.phase = Phase::Asking(Step::Mnt);
                self.ask_for(at, Step::Mnt, Request::Mount(&call));
            }
            (Service::Nfs, Version::V3) => self.on_ready(),
            (Service::Nfs, Version::V4(0)) => self.set_client_id(at),
            (Service::Nfs, Version::V4(_)) => self.exchange_id(at),
        }
    }

    fn on_ready(&mut self) {
        self.phase = Phase::Ready;
        self.events.push_back(Event::Ready);
    }

    fn begin(&mut self, at: usize, step: Step, calls: &[Call<'_>]) {
        self.phase = Phase::Asking(step);
        self.ask(at, step, calls);
    }

    /// RFC 7530 section 16.33. There are no callbacks.
    fn set_client_id(&mut self, at: usize) {
        let owner = self.config.owner.clone();
        let pieces = [&owner[..], b"tcp", b"0.0.0.0.0.0"].map(|bytes| [Piece::bytes(bytes)]);
        let [owner, network, address] = &pieces;
        let call = Call::SetClientId(v4::SetClientIdArgs {
            verifier: Some(self.config.verifier),
            id: Some(Owner::new(owner)),
            callback_program: Some(CALLBACK_PROGRAM),
            callback_address: NetAddress {
                network: Some(Name::new(network)),
                address: Some(Name::new(address)),
            },
            callback_ident: Some(1),
        });
        self.begin(at, Step::SetClientId, &[call]);
    }

    /// RFC 8881 section 18.35.
    fn exchange_id(&mut self, at: usize) {
        let owner = self.config.owner.clone();
        let owner = [Piece::bytes(&owner)];
        let call = Call::ExchangeId(v4::ExchangeIdArgs {
            verifier: Some(self.config.verifier),
            owner: Some(Owner::new(&owner)),
            flags: Some(0),
            protection: v4::ProtectionWanted::None,
            implementation: Counted::new(&[]),
        });
        self.begin(at, Step::ExchangeId, &[call]);
    }

    /// RFC 8881 section 18.36, without a back channel.
    fn create_session(&mut self, at: usize, sequence: u32) {
        let bytes = self.config.reply_bytes_max;
        let channel = |bytes, requests| ChannelAttributes {
            header_padding: Some(0),
            request_max: Some(bytes),
            response_max: Some(bytes),
            cached_response_max: Some(CACHED_BYTES),
            operations_max: Some(OPERATIONS),
            requests_max: Some(requests),
            rdma_ird: Counted::new(&[]),
        };
        let security = [v4::CallbackSecurity::None];
        let call = Call::CreateSession(v4::CreateSessionArgs {
            client_id: Some(self.client_id),
            sequence: Some(sequence),
            flags: Some(0),
            fore: channel(bytes, self.config.slots.max(1)),
            back: channel(CACHED_BYTES, 1),
            callback_program: Some(CALLBACK_PROGRAM),
            security: Counted::new(&security),
        });
        self.begin(at, Step::CreateSession, &[call]);
    }

    /// The lease's time, and the way to the export.
    fn look_up_root(&mut self, at: usize) {
        let mount = self.config.mount.clone();
        let path = mount.map(|mount| mount.export).unwrap_or_default();
        let names = path
            .split(|&byte| byte == b'/')
            .filter(|name| !name.is_empty());
        let pieces: Vec<_> = names.map(|name| [Piece::bytes(name)]).collect();
        let mut calls = vec![Call::PutRootFh(())];
        calls.extend(pieces.iter().map(|piece| {
            let name = Some(Name::new(piece));
            Call::Lookup(v4::NameArgs { name })
        }));
        let request = Some(Bitmap::new(&[LEASE_TIME]));
        calls.push(Call::GetAttr(v4::GetAttrArgs { request }));
        calls.push(Call::GetFh(()));
        self.begin(at, Step::Root, &calls);
    }

    /// When the lease is to be renewed: after half its time, so that a renewal may be lost.
    pub(crate) fn renewal(&self) -> Option<Nanoseconds> {
        let is_due = self.phase == Phase::Ready && !self.is_renewing && self.lease_ns > 0;
        is_due.then(|| self.renewed_at.saturating_add(self.lease_ns / 2))
    }

    pub(crate) fn renew(&mut self) {
        let mut channels = self.channels.iter().enumerate();
        let Some((at, _)) = channels.find(|(_, channel)| {
            let channel = channel.as_ref();
            channel.is_some_and(|channel| channel.is_up && channel.service == Service::Nfs)
        }) else {
            // Nothing can be renewed by: tried again as if it had been, for one turn.
            self.renewed_at = self.renewed_at.saturating_add(self.lease_ns / 8);
            return;
        };
        self.is_renewing = true;
        let client_id = Some(self.client_id);
        match self.config.version {
            Version::V4(0) => {
                self.ask(
                    at,
                    Step::Renew,
                    &[Call::Renew(v4::ClientIdArgs { client_id })],
                );
            }
            _ => self.ask(at, Step::Renew, &[]),
        }
    }

    /// The caller has no more calls: the server is to forget this client. Calls that are not
    /// answered are lost.
    pub(crate) fn finish(&mut self) {
        if matches!(self.phase, Phase::Closing(_) | Phase::Over) {
            return;
        }
        self.lose_calls();
        if self.phase == Phase::Over {
            return;
        }
        let nfs = self.channels.iter().position(|channel| {
            let channel = channel.as_ref();
            channel.is_some_and(|channel| channel.is_up && channel.service == Service::Nfs)
        });
        let session = self.slots.as_ref().map(|slots| slots.session);
        match (self.config.version, session, nfs) {
            (Version::V4(1..), Some(session), Some(at)) => {
                self.slots = None;
                self.phase = Phase::Closing(Step::DestroySession);
                let session = Some(session);
                let call = Call::DestroySession(v4::SessionArgs { session });
                self.ask(at, Step::DestroySession, &[call]);
            }
            _ => self.on_closed(),
        }
    }

    fn on_closed(&mut self) {
        self.phase = Phase::Over;
        self.events.push_back(Event::Closed);
    }

    /// A call of the client's own was answered.
    pub(crate) fn on_own(&mut self, at: usize, step: Step, answer: Answer<'_>) {
        let results = match answer {
            Answer::Results(results) => results,
            // A session that went by itself is gone.
            Answer::Refused(_) if matches!(self.phase, Phase::Closing(_)) => {
                return self.on_closed();
            }
            Answer::Refused(refusal) => return self.fail(ClientError::Refused(step, refusal)),
        };
        let outcome = match step {
            Step::GetPort => self.on_port(results),
            Step::Mnt => self.on_mounted(results),
            _ => self.on_compound(at, step, results),
        };
        if let Err(error) = outcome {
            self.fail(error);
        }
    }

    fn on_port(&mut self, results: Results<'_>) -> Result<(), ClientError> {
        let mut cursor = results.cursor();
        let reply = portmap::Reply::decode(portmap::Procedure::GetPort, &mut cursor);
        let port = match reply {
            portmap::Reply::GetPort(answer) => answer.port,
            _ => None,
        };
        let port = port.and_then(|port| u16::try_from(port).ok());
        match port.ok_or(ClientError::Unreadable(Step::GetPort))? {
            0 => self.want(Service::Mount, self.config.port),
            port => self.want(Service::Mount, port),
        }
        Ok(())
    }

    fn on_mounted(&mut self, results: Results<'_>) -> Result<(), ClientError> {
        let unreadable = ClientError::Unreadable(Step::Mnt);
        let mut cursor = results.cursor();
        let mount::Reply::Mnt(outcome) = mount::Reply::decode(mount::Procedure::Mnt, &mut cursor)
        else {
            return Err(unreadable);
        };
        let status = outcome.status().ok_or(unreadable)?;
        if status != 0 {
            return Err(ClientError::Status(Step::Mnt, status));
        }
        let handle = outcome.ok().and_then(|mounted| mounted.handle);
        self.root = handle.ok_or(unreadable)?.to_vec();
        self.want(Service::Nfs, self.config.port);
        Ok(())
    }

    fn on_compound(
        &mut self,
        at: usize,
        step: Step,
        results: Results<'_>,
    ) -> Result<(), ClientError> {
        let unreadable = ClientError::Unreadable(step);
        let compound = results.compound().map_err(|_| unreadable)?;
        let replies: Result<Vec<_>, _> =
            compound.map(|each| each.map(|(reply, _)| reply)).collect();
        let replies = replies.map_err(|_| unreadable)?;
        let status = compound.status;
        let is_done = status == Status::OK
            || (step == Step::ReclaimComplete && status == Status::COMPLETE_ALREADY);
        match step {
            Step::Renew => {
                self.is_renewing = false;
                let forgets = matches!(status, Status::STALE_CLIENTID | Status::EXPIRED);
                return match forgets {
                    true => Err(ClientError::Forgotten(status.0)),
                    false => Ok(()),
                };
            }
            Step::DestroySession => {
                self.phase = Phase::Closing(Step::DestroyClientId);
                let client_id = Some(self.client_id);
                let call = Call::DestroyClientId(v4::ClientIdArgs { client_id });
                self.ask(at, Step::DestroyClientId, &[call]);
                return Ok(());
            }
            Step::DestroyClientId => {
                self.on_closed();
                return Ok(());
            }
            _ if !is_done => return Err(ClientError::Status(step, status.0)),
            _ => {}
        }
        self.on_step(at, step, &replies).ok_or(unreadable)
    }

    /// A step that makes this client known succeeded; `None`: its results are not whole.
    fn on_step(&mut self, at: usize, step: Step, replies: &[Reply<'_>]) -> Option<()> {
        match (step, replies.last()?) {
            (Step::SetClientId, Reply::SetClientId(SetClientIdResult::Ok(ok))) => {
                self.client_id = ok.client_id?;
                let confirm = Call::SetClientIdConfirm(*ok);
                self.begin(at, Step::SetClientIdConfirm, &[confirm]);
            }
            (Step::SetClientIdConfirm, _) => self.look_up_root(at),
            (Step::ExchangeId, Reply::ExchangeId(outcome)) => {
                let ok = outcome.ok()?;
                self.client_id = ok.client_id?;
                self.create_session(at, ok.sequence?);
            }
            (Step::CreateSession, Reply::CreateSession(outcome)) => {
                let ok = outcome.ok()?;
                let slots = ok.fore.requests_max?.clamp(1, self.config.slots.max(1));
                self.slots = Some(Slots::new(ok.session?, slots));
                let one_file_system = Some(false);
                let args = v4::ReclaimCompleteArgs { one_file_system };
                self.begin(at, Step::ReclaimComplete, &[Call::ReclaimComplete(args)]);
            }
            (Step::ReclaimComplete, _) => self.look_up_root(at),
            (Step::Root, Reply::GetFh(outcome)) => {
                self.root = outcome.ok()?.object?.to_vec();
                let attributes = replies.iter().find_map(Reply::attributes);
                let seconds = attributes.and_then(|list| list.values().lease_seconds);
                let lease_ns = seconds.map(|seconds| Nanoseconds::from(seconds) * 1_000_000_000);
                self.lease_ns = lease_ns.filter(|&ns| ns > 0).unwrap_or(LEASE_NS);
                self.on_ready();
            }
            _ => return None,
        }
        Some(())
    }
}
