//! The kernel's UDP sockets for an application. A datagram for which its socket has no room does
//! not leave, and is reported.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};

use lineside_frame::{Chunk, Descriptor};
use lineside_host::{Datagrams, Interest, Peer};
use lineside_time::Nanoseconds;

use super::{DATAGRAMS, Due, ListenError, SocketLoop, reason_of_io};
use crate::application::{End, Outgoing};
use crate::{Application, Reason, SocketId};

/// Datagrams of a socket that are taken before the loop looks at anything else.
const RECEIVED_MAX: usize = 32;

/// A socket of datagrams.
pub(super) struct Endpoint {
    socket: Datagrams,
    owner: u32,
    pub(super) generation: u32,
    local: End,
    /// It exchanges datagrams with one other end alone.
    is_connected: bool,
    /// Datagrams that found no room, as far as they are counted.
    overrun: u64,
}

impl<A: Application> SocketLoop<A> {
    /// Takes datagrams, as [`Calls::bind`](crate::Calls::bind) does; returns the socket's address,
    /// with the port that the kernel chose if it was to choose.
    pub fn bind(
        &mut self,
        local: End,
        remote: Option<End>,
        owner: u32,
    ) -> Result<SocketAddr, ListenError> {
        let shares = self.options.reuse_port && remote.is_none();
        let socket = Datagrams::open(local.into(), remote.map(Into::into), shares)?;
        let address = socket.address()?;
        // Of all addresses it is one of both families.
        let local = (
            if local.0.is_unspecified() && remote.is_none() {
                local.0
            } else {
                address.ip()
            },
            address.port(),
        );
        let generation = self.next_generation();
        let entry = self.endpoints.vacant_entry();
        let number = entry.key() as u32;
        let token = DATAGRAMS | u64::from(generation) << 32 | u64::from(number);
        self.epoll.add(&socket, token, Interest::READ)?;
        entry.insert(Endpoint {
            socket,
            owner,
            generation,
            local,
            is_connected: remote.is_some(),
            overrun: 0,
        });
        let calls = &mut self.calls;
        self.application
            .on_bound(SocketId(number), owner, local, calls);
        Ok(local.into())
    }

    pub(super) fn unbind(&mut self, socket: SocketId) {
        if self.endpoints.try_remove(socket.0 as usize).is_some() {
            self.calls.on_unbound(socket);
        }
    }

    pub(super) fn on_datagram_call(
        &mut self,
        outgoing: Outgoing,
        clock: &mut impl FnMut() -> Nanoseconds,
    ) {
        let Some(endpoint) = self.endpoints.get(outgoing.socket.0 as usize) else {
            return;
        };
        self.counters.timed += u64::from(outgoing.due.is_some());
        // What is due later does not overtake what waits.
        let (now, first) = (self.calls.now(), self.departures.next_due());
        let waits = |&due: &Nanoseconds| due > now || first.is_some_and(|first| first <= due);
        match outgoing.due.filter(waits) {
            Some(due) => {
                let generation = endpoint.generation;
                self.departures
                    .push(due, Due::Datagram(outgoing, generation));
            }
            None => self.send_datagram(outgoing, clock),
        }
    }

    pub(super) fn send_datagram(
        &mut self,
        outgoing: Outgoing,
        clock: &mut impl FnMut() -> Nanoseconds,
    ) {
        let Outgoing {
            socket,
            ends: [(own, _), to],
            len,
            token,
            ..
        } = outgoing;
        let Some(endpoint) = self.endpoints.get(socket.0 as usize) else {
            return;
        };
        let (owner, application) = (endpoint.owner, &mut self.application);
        let Some(bytes) = self.buffer.get_mut(..len as usize) else {
            return application.on_datagram_unsent(owner, token, Reason::Other, &mut self.calls);
        };
        let mut left_ns = clock();
        application.fill_datagram(owner, token, left_ns, bytes);
        let send = |endpoint: &Endpoint| match endpoint.is_connected {
            true => endpoint.socket.send(bytes),
            false => endpoint.socket.answer(bytes, &endpoint.peer(own, to)),
        };
        let mut sent = send(endpoint);
        // What is reported of an earlier datagram says nothing about this one.
        if let Err(error) = &sent
            && matches!(reason_of_io(error), Reason::Refused | Reason::Unreachable)
        {
            let reason = reason_of_io(error);
            application.on_datagram_error(socket, owner, reason, &mut self.calls);
            left_ns = clock();
            sent = send(endpoint);
        }
        match sent {
            Ok(()) => {
                let calls = &mut self.calls;
                application.on_datagram_departed(owner, token, Some(left_ns), calls);
            }
            Err(error) => {
                self.counters.held_back += u64::from(error.kind() == ErrorKind::WouldBlock);
                let reason = match error.kind() {
                    ErrorKind::WouldBlock => Reason::NoRoom,
                    _ => reason_of_io(&error),
                };
                application.on_datagram_unsent(owner, token, reason, &mut self.calls);
            }
        }
    }

    /// Takes what came to a socket; what is left is reported again.
    pub(super) fn receive(
        &mut self,
        socket: SocketId,
        generation: u32,
        clock: &mut impl FnMut() -> Nanoseconds,
    ) {
        let descriptor = Descriptor::default();
        for _ in 0..RECEIVED_MAX {
            let endpoint = self.endpoints.get_mut(socket.0 as usize);
            let Some(endpoint) = endpoint.filter(|endpoint| endpoint.generation == generation)
            else {
                return;
            };
            let owner = endpoint.owner;
            match endpoint.socket.receive(&mut self.buffer) {
                Ok(None) => return,
                Ok(Some(datagram)) => {
                    let lost = endpoint.socket.lost();
                    self.counters.overrun += lost - std::mem::replace(&mut endpoint.overrun, lost);
                    let (local, port) = endpoint.local;
                    let own = datagram.peer.own().unwrap_or(local);
                    let peer = datagram.peer.address;
                    let ends = [(own, port), (peer.ip().to_canonical(), peer.port())];
                    let at = self
                        .ahead_ns
                        .map_or_else(&mut *clock, |ahead| datagram.at_ns + ahead);
                    let chunk = Chunk::lent(&self.buffer[..datagram.len], &descriptor);
                    let calls = &mut self.calls;
                    self.application
                        .on_datagram(socket, owner, ends, at, chunk, calls);
                }
                Err(error) => {
                    let reason = reason_of_io(&error);
                    self.application
                        .on_datagram_error(socket, owner, reason, &mut self.calls);
                }
            }
        }
    }
}

impl Endpoint {
    /// The peer at `to`, which is answered from `own`.
    fn peer(&self, own: IpAddr, to: End) -> Peer {
        if !self.local.0.is_unspecified() {
            return Peer::new(to.into(), None);
        }
        // One of all addresses is of IPv6, and has those of IPv4 mapped: RFC 3493, 3.7.
        let (address, port) = to;
        let address = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().into(),
            address => address,
        };
        Peer::new(
            (address, port).into(),
            (!own.is_unspecified()).then_some(own),
        )
    }
}
