//! Connections whose handshake was answered here: what is left of them, and where they meet the
//! table. [`proxy`](crate::proxy) answers them.

use std::net::SocketAddr;

use lineside_tcp::keyed::hash_of_words;
use lineside_time::Nanoseconds;
use lineside_wire::TcpFlags;
use lineside_wire::TcpHeader;
use lineside_wire::build::TcpFields;
use lineside_wire::tcp::Segment;

use crate::counters::Outcome;
use crate::effects::Effects;
use crate::forward::Arrival;
use crate::nat::{Nat, Place, Waits, socket};
use crate::pool::end;
use crate::proxy::{self, Arrived, Failed, Group, Joined, Splice, Splices, Way};
use crate::rewrite;
use crate::settings::Transport;
use crate::table::{Connection, Direction, Ends, State, Tuple, flag};

/// What a window may be until one is seen; see [`follow`](crate::follow).
const WINDOW: u32 = 1 << 16;

impl From<Direction> for Way {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::ToNode => Self::ToNode,
            Direction::ToClient => Self::ToClient,
        }
    }
}

/// Where a client is, as a word that the engine gives back.
fn word_of(place: Place) -> u64 {
    let [a, b, c, d, e, f] = place.ethernet;
    u64::from_be_bytes([a, b, c, d, e, f, 0, place.port])
}

fn place_of(word: u64) -> Place {
    let [a, b, c, d, e, f, _, port] = word.to_be_bytes();
    Place {
        ethernet: [a, b, c, d, e, f],
        port,
    }
}

impl Nat {
    /// What answers handshakes in the nodes' place, if any service asks for it.
    pub fn splices(&self) -> Option<&Splices> {
        self.splices.as_deref()
    }

    /// Services as the engine knows them, by their numbers.
    pub(crate) fn spliced_services(&self) -> Vec<proxy::Service> {
        let services = self.pool.services.iter().map(|slot| {
            let headers = if slot.settings.address.is_ipv4() {
                40
            } else {
                60
            };
            let mtus = self.settings.ports.iter().map(|port| port.mtu);
            let mss = mtus.min().unwrap_or(0).saturating_sub(headers);
            let mut service = slot.settings.splice.clone().unwrap_or_default();
            service.offer.mss = service
                .offer
                .mss
                .min(u16::try_from(mss).unwrap_or(u16::MAX));
            service
        });
        services.collect()
    }

    /// Whether a segment without a connection is answered in a node's place.
    pub(crate) fn is_answered_here(
        &self,
        now: Nanoseconds,
        arrival: &Arrival<'_>,
        service: u16,
        tcp: &TcpHeader,
    ) -> bool {
        let Some(splices) = &self.splices else {
            return false;
        };
        let slot = &self.pool.services[usize::from(service)];
        if slot.settings.splice.is_some() || splices.has_client(ends_of(arrival)) {
            return true;
        }
        let begins = tcp.flags.opens() && !tcp.flags.contains(TcpFlags::ACK);
        match begins {
            true => self.is_crowded(),
            false => tcp.flags.contains(TcpFlags::ACK) && splices.awaits_cookies(now),
        }
    }

    /// A segment to a service that is answered here.
    pub(crate) fn answer_here(
        &mut self,
        now: Nanoseconds,
        arrival: &Arrival<'_>,
        service: u16,
        out: &mut Effects,
    ) -> Outcome {
        let before = self.cookies_sent();
        let found = self.pass_to_splices(now, arrival, service, Direction::ToNode, out);
        let slot = &self.pool.services[usize::from(service)];
        if slot.settings.splice.is_none() {
            self.cookies += self.cookies_sent() - before;
        }
        match found {
            Some(proxy::Outcome::Unknown) => Outcome::NoConnection,
            _ => Outcome::Handshake,
        }
    }

    fn cookies_sent(&self) -> u64 {
        let splices = self.splices.as_ref();
        splices.map_or(0, |splices| splices.counters().cookies_sent)
    }

    /// A packet of a connection of the table, which the engine may know. The outcome, unless it
    /// goes on.
    pub(crate) fn ask_splices(
        &mut self,
        now: Nanoseconds,
        arrival: &Arrival<'_>,
        number: u32,
        direction: Direction,
        out: &mut Effects,
    ) -> Option<Outcome> {
        let splices = self.splices.as_ref()?;
        let connection = self.table.get(number);
        let may_be_its = connection.flags & flag::SHIFTED != 0 && splices.entries() > 0;
        if !may_be_its || direction == Direction::ToNode && !splices.has_client(ends_of(arrival)) {
            return None;
        }
        let service = connection.service;
        match self.pass_to_splices(now, arrival, service, direction, out)? {
            proxy::Outcome::Taken => Some(Outcome::Handshake),
            proxy::Outcome::Pass(_) | proxy::Outcome::Unknown => None,
        }
    }

    fn pass_to_splices(
        &mut self,
        now: Nanoseconds,
        arrival: &Arrival<'_>,
        service: u16,
        direction: Direction,
        out: &mut Effects,
    ) -> Option<proxy::Outcome> {
        let (packet, bytes) = (arrival.packet, arrival.frame.bytes());
        let segment = Segment::new_checked(&bytes[packet.transport_at..packet.end])?;
        let header = lineside_wire::ethernet::Frame::new_unchecked(bytes);
        let arrived = Arrived {
            ends: ends_of(arrival),
            segment,
            checksum_offloaded: packet.may_be_partial && rewrite::is_partial(bytes, packet),
            from: word_of(Place {
                ethernet: header.source(),
                port: arrival.port as u8,
            }),
        };
        self.with_splices(now, out, |splices, caller| match direction {
            Direction::ToNode => splices.on_client(now, service.into(), &arrived, caller),
            Direction::ToClient => splices.on_node(now, &arrived, caller),
        })
    }

    pub(crate) fn with_splices<R>(
        &mut self,
        now: Nanoseconds,
        out: &mut Effects,
        work: impl FnOnce(&mut Splices, &mut Caller<'_>) -> R,
    ) -> Option<R> {
        let mut splices = self.splices.take()?;
        let mut caller = Caller {
            nat: self,
            now,
            out,
        };
        let result = work(&mut splices, &mut caller);
        self.splices = Some(splices);
        Some(result)
    }

    /// A node of a group that was not tried: the group's own by weighted rendezvous hashing
    /// (Schindelhauer and Schomaker, SPAA 2005), so that a client meets the same ones in the same
    /// order; of a service without groups the first is the one that its choice names.
    fn choose_of(
        &mut self,
        now: Nanoseconds,
        client: (std::net::IpAddr, u16),
        service: u16,
        (group, tried): (Group, u8),
    ) -> Option<u16> {
        let slot = &self.pool.services[usize::from(service)];
        let groups = slot.settings.splice.as_ref().map(|splice| &splice.groups);
        let group = groups.and_then(|groups| groups.get(usize::from(group)));
        if group.is_none() && tried == 0 {
            return self.choose(now, client, service);
        }
        let flow = self.flow_hash(client, service);
        let rank = |node: u16| {
            let slot = &self.pool.nodes[usize::from(node)];
            let hash = hash_of_words(self.key, [flow, u64::from(node)]);
            // In 0 to 1, neither of both.
            let share = ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
            f64::from(slot.weight) / -share.ln()
        };
        let slot = &self.pool.services[usize::from(service)];
        let is_its = |&node: &u16| {
            let address = self.pool.nodes[usize::from(node)].address;
            slot.chooser.has(node) && group.is_none_or(|group| group.contains(&address))
        };
        // The next one below those that were tried: no memory for a list.
        let mut below = f64::INFINITY;
        let mut found = None;
        for _ in 0..=tried {
            let nodes = slot.nodes.iter().copied().filter(is_its);
            let ranked = nodes.map(|node| (node, rank(node)));
            let next = { ranked.filter(|&(_, rank)| rank < below) }
                .max_by(|one, other| one.1.total_cmp(&other.1))?;
            (found, below) = (Some(next.0), next.1);
        }
        found
    }
}

fn ends_of(arrival: &Arrival<'_>) -> [SocketAddr; 2] {
    [arrival.packet.source(), arrival.packet.destination()].map(socket)
}

/// What the engine calls.
pub(crate) struct Caller<'a> {
    nat: &'a mut Nat,
    now: Nanoseconds,
    out: &'a mut Effects,
}

impl Caller<'_> {
    fn find(&self, [own, node]: [SocketAddr; 2]) -> Option<u32> {
        let tuple = Tuple {
            transport: Transport::Tcp,
            source: end(node),
            destination: end(own),
        };
        let found = self.nat.table.find(&tuple, &self.nat.pool)?;
        (found.1 == Direction::ToClient).then_some(found.0)
    }

    fn remove(&mut self, node_ends: [SocketAddr; 2]) {
        if let Some(number) = self.find(node_ends) {
            let connection = self.nat.table.remove(number, &self.nat.pool);
            self.nat.on_gone(number, &connection, self.out);
        }
    }
}

impl proxy::Effects for Caller<'_> {
    fn transmit(
        &mut self,
        way: Way,
        ends: [SocketAddr; 2],
        to: u64,
        fields: &TcpFields<'_>,
        payload: &[u8],
    ) {
        let addresses = ends.map(|end| end.ip());
        match way {
            Way::ToClient => {
                let place = place_of(to);
                let Some(port) = self.nat.settings.ports.get(usize::from(place.port)) else {
                    return;
                };
                let link = [place.ethernet, port.ethernet];
                let frame = self.nat.maker.segment(link, addresses, fields, payload);
                if let Some(frame) = frame {
                    self.nat.push(usize::from(place.port), frame, self.out);
                }
            }
            Way::ToNode => {
                let Some(number) = self.find(ends) else {
                    return;
                };
                let node = self.nat.table.get(number).node;
                let hop = self.nat.pool.nodes[usize::from(node)].hop;
                let link = [[0; 6]; 2];
                let frame = self.nat.maker.segment(link, addresses, fields, payload);
                let waits = Waits {
                    node: Some(node),
                    counts: false,
                };
                if let Some(frame) = frame {
                    self.nat.leave_to_hop(self.now, hop, frame, waits, self.out);
                }
            }
        }
    }

    fn choose(
        &mut self,
        service: u32,
        chosen: (Group, u8),
        ends: [SocketAddr; 2],
        from: u64,
    ) -> Option<[SocketAddr; 2]> {
        let (nat, now) = (&mut *self.nat, self.now);
        let service = u16::try_from(service).ok()?;
        let client = end(ends[0]);
        let node = nat.choose_of(now, client, service, chosen)?;
        let mut connection = Connection::new(client, service, node);
        let place = place_of(from);
        (connection.ethernet, connection.port) = (place.ethernet, place.port);
        connection.state = State::Asked;
        // From now on its segments come to the engine first.
        connection.flags |= flag::SHIFTED;
        let number = nat.admit(now, connection, self.out).ok()?;
        let connection = *nat.table.get(number);
        if !nat.joints.set(number, Splice::default()) {
            let connection = nat.table.remove(number, &nat.pool);
            nat.on_gone(number, &connection, self.out);
            // It did not begin.
            nat.pool.services[usize::from(service)].opened -= 1;
            nat.pool.nodes[usize::from(node)].opened -= 1;
            return None;
        }
        let tuple = nat.pool.tuple(&connection, Direction::ToClient);
        Some([socket(tuple.destination), socket(tuple.source)])
    }

    fn release(&mut self, node_ends: [SocketAddr; 2], _: Failed) {
        self.remove(node_ends);
    }

    fn splice(&mut self, node_ends: [SocketAddr; 2], joined: &Joined) {
        let Some(number) = self.find(node_ends) else {
            return;
        };
        let nat = &mut *self.nat;
        let until = self.now.saturating_add(nat.timeout(State::Established));
        nat.table
            .set_state(number, State::Established, until, &nat.pool);
        nat.table.renew(number, self.now, &nat.pool);
        nat.keep_affinity(self.now, number);
        let connection = nat.table.get_mut(number);
        connection.set_scales(joined.scales);
        connection.next = joined.next.map(|next| next.0);
        connection.edge = joined.next.map(|next| (next + WINDOW).0);
        nat.joints.set(number, joined.splice);
    }

    fn finish(&mut self, _: [SocketAddr; 2]) {
        // The engine has forgotten it: that is all that its segments ask for.
    }

    fn abort(&mut self, node_ends: [SocketAddr; 2]) {
        self.remove(node_ends);
    }
}
