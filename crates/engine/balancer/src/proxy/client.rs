//! The client's half: SYNs, cookies, and the request.

use std::net::SocketAddr;

use lineside_tcp::cookie::{self, Offer};
use lineside_time::Nanoseconds;
use lineside_wire::tcp::TcpOption;
use lineside_wire::{SeqNumber, TcpFlags};

use super::emit::{self, Words, timestamp};
use super::engine::Splices;
use super::entry::{Agreed, Entry, Node, Options, State};
use super::request::{Request, Taken};
use super::rewrite::{Splice, Way};
use super::rules::Verdict;
use super::{Arrived, Effects, Outcome};

/// What a peer takes that names no segment size: RFC 9293, 3.7.1.
pub(super) fn default_mss(is_ipv4: bool) -> u16 {
    if is_ipv4 { 536 } else { 1220 }
}

impl Splices {
    /// A segment from a client to a service, by its place in the list of services.
    pub fn on_client(
        &mut self,
        now: Nanoseconds,
        service: u32,
        arrived: &Arrived<'_>,
        effects: &mut impl Effects,
    ) -> Outcome {
        let [client, own] = arrived.ends;
        let (segment, flags) = (arrived.segment, arrived.segment.flags());
        let found = self.find_client(arrived.ends);
        if !arrived.checksum_offloaded && !segment.verify_checksum(client.ip(), own.ip()) {
            self.counters.checksum_wrong += 1;
            // A node verifies for itself.
            return match found.map(|number| &self.entries[number as usize]) {
                Some(entry) if entry.state == State::Replaying => Outcome::Pass(entry.splice),
                _ => Outcome::Taken,
            };
        }
        if let Some(number) = found {
            return self.on_known_client(now, number, arrived, effects);
        }
        if flags.contains(TcpFlags::RST) {
            return Outcome::Unknown;
        }
        if flags.contains(TcpFlags::SYN) {
            if flags.opens() && !flags.contains(TcpFlags::ACK) {
                self.send_cookie(now, service, arrived, effects);
            }
            return Outcome::Taken;
        }
        if !flags.contains(TcpFlags::ACK) {
            return Outcome::Taken;
        }
        if let Some(number) = self.accept(now, service, arrived, effects) {
            return self.on_known_client(now, number, arrived, effects);
        }
        Outcome::Taken
    }

    fn send_cookie(
        &mut self,
        now: Nanoseconds,
        service: u32,
        arrived: &Arrived<'_>,
        effects: &mut impl Effects,
    ) {
        let Some(offer) = self.service(service).map(|service| service.offer) else {
            return;
        };
        self.counters.cookies_sent += 1;
        self.cookie_at = Some(now);
        let [client, own] = arrived.ends;
        let segment = arrived.segment;
        let read = Options::read(segment.options());
        let mss = read
            .mss
            .unwrap_or_else(|| default_mss(client.is_ipv4()))
            .min(offer.mss);
        let ends = cookie_ends(arrived.ends);
        let mut options = emit::Options::new();
        options.add(TcpOption::Mss(offer.mss));
        if let Some((value, _)) = read.timestamps.filter(|_| offer.timestamps) {
            let taken = Offer {
                scale: read.scale,
                sack: read.sack && offer.sack,
            };
            if taken.sack {
                options.add(TcpOption::SackPermitted);
            }
            options.timestamps(taken.to_timestamp(timestamp(now)), value);
            if taken.scale.is_some() {
                options.add(TcpOption::WindowScale(offer.window_scale.min(14)));
            }
        }
        let window = self.settings.request_bytes_max;
        let words = Words {
            sequence: self.cookies.number(now, ends, segment.sequence(), mss),
            acknowledgement: segment.sequence() + 1,
            flags: TcpFlags::SYN | TcpFlags::ACK,
            window: u16::try_from(window).unwrap_or(u16::MAX),
        };
        emit::transmit(
            Way::ToClient,
            ([own, client], arrived.from),
            words,
            &options,
            &[],
            effects,
        );
    }

    /// The entry of a client that brings a right cookie.
    fn accept(
        &mut self,
        now: Nanoseconds,
        service: u32,
        arrived: &Arrived<'_>,
        effects: &mut impl Effects,
    ) -> Option<u32> {
        let segment = arrived.segment;
        let (irs, iss) = (segment.sequence() - 1, segment.acknowledgement() - 1);
        let mss = self.cookies.mss(now, cookie_ends(arrived.ends), irs, iss);
        let Some(mss) = mss else {
            // The first segments may come out of order: then the cookie is right, and the number of
            // the SYN is not what it seems.
            match cookie::may_hold(now, iss) {
                true => self.counters.cookies_wrong += 1,
                false => {
                    self.counters.unknown += 1;
                    emit::reset(Way::ToClient, arrived, effects);
                }
            }
            return None;
        };
        let service_of = self.service(service)?;
        let (timestamps, decides) = (service_of.offer.timestamps, service_of.rules.is_some());
        if !self.make_room(now, effects) {
            self.counters.entries_full += 1;
            return None;
        }
        let Some(request) = Request::new(&self.budget) else {
            self.counters.no_memory += 1;
            return None;
        };
        self.counters.cookies_right += 1;
        let stamps = Options::read(segment.options())
            .timestamps
            .filter(|_| timestamps);
        let offer = stamps.map_or_else(Offer::default, |(_, echo)| Offer::of_timestamp(echo));
        let number = self.enter(Entry {
            number: 0,
            ends: arrived.ends,
            service,
            from: arrived.from,
            state: State::Request,
            timer: None,
            irs,
            iss,
            agreed: Agreed {
                mss,
                offer,
                timestamps: stamps.is_some(),
            },
            client_stamp: stamps.map_or(0, |(value, _)| value),
            client_window: u32::from(segment.window()) << offer.scale.unwrap_or(0),
            client_ack: iss + 1,
            request,
            needed: 1,
            known: 0,
            group: 0,
            node: Node::new(),
            splice: Splice::default(),
        });
        self.set_timer(number, now + self.settings.request_timeout_ns);
        if !decides {
            self.connect(now, number, effects);
            // Without a node it is over.
            return self.find_client(arrived.ends);
        }
        Some(number)
    }

    fn on_known_client(
        &mut self,
        now: Nanoseconds,
        number: u32,
        arrived: &Arrived<'_>,
        effects: &mut impl Effects,
    ) -> Outcome {
        let entry = &mut self.entries[number as usize];
        entry.from = arrived.from;
        let (segment, flags) = (arrived.segment, arrived.segment.flags());
        if entry.state == State::Replaying {
            return self.pass_to_node(number, arrived, effects);
        }
        let ahead = segment.sequence().distance_from(entry.next());
        let room = Entry::limit(self.settings.request_bytes_max as usize) as i32;
        if flags.contains(TcpFlags::RST) {
            // RFC 5961, 3.2.
            if ahead == 0 {
                self.counters.resets_of_clients += 1;
                self.drop_entry(number, effects);
            } else if (0..room).contains(&ahead) {
                self.answer(now, number, TcpFlags::ACK, effects);
            }
            return Outcome::Taken;
        }
        let stamps = Options::read(segment.options()).timestamps;
        let is_old = stamps
            .is_some_and(|(value, _)| SeqNumber(value).is_before(SeqNumber(entry.client_stamp)));
        let fits = flags.contains(TcpFlags::ACK)
            && !flags.contains(TcpFlags::SYN)
            && segment.acknowledgement() == entry.iss + 1
            && (stamps.is_some() || !entry.agreed.timestamps)
            && !(is_old && entry.agreed.timestamps)
            && ahead.unsigned_abs() <= room.unsigned_abs();
        if !fits {
            self.counters.unfitting += 1;
            self.answer(now, number, TcpFlags::ACK, effects);
            return Outcome::Taken;
        }
        if ahead <= 0 {
            entry.client_stamp = stamps.map_or(entry.client_stamp, |(value, _)| value);
        }
        if ahead >= 0 {
            let scale = entry.agreed.offer.scale.unwrap_or(0);
            entry.client_window = u32::from(segment.window()) << scale;
        }
        if segment.payload().is_empty() && !flags.contains(TcpFlags::FIN) {
            // It asks whether anybody is there.
            if ahead < 0 {
                self.answer(now, number, TcpFlags::ACK, effects);
            }
            return Outcome::Taken;
        }
        self.take_part(number, arrived);
        self.answer(now, number, TcpFlags::ACK, effects);
        if self.entries[number as usize].state == State::Request {
            self.decide(now, number, effects);
        }
        Outcome::Taken
    }

    /// A part of the request, and perhaps its end.
    fn take_part(&mut self, number: u32, arrived: &Arrived<'_>) {
        let limit = self.settings.request_bytes_max as usize;
        let entry = &mut self.entries[number as usize];
        let segment = arrived.segment;
        let offset = segment.sequence().distance_from(entry.first());
        let payload = segment.payload();
        // What lies before the first byte is old.
        let skipped = usize::try_from(-i64::from(offset.min(0))).unwrap_or(0);
        let part = payload.get(skipped..).unwrap_or_default();
        let offset = usize::try_from(offset).unwrap_or(0);
        if entry.request.add(offset, part, Entry::limit(limit)) == Taken::NoRoom {
            self.counters.no_memory += 1;
            return;
        }
        let end = offset + part.len();
        let is_whole = end <= Entry::limit(limit) && skipped <= payload.len();
        if segment.flags().contains(TcpFlags::FIN) && is_whole {
            entry.request.end_at(end);
        }
    }

    /// What the rules say of the request so far.
    fn decide(&mut self, now: Nanoseconds, number: u32, effects: &mut impl Effects) {
        let entry = &mut self.entries[number as usize];
        let bytes = entry.request.known();
        let is_full = bytes.len() >= self.settings.request_bytes_max as usize;
        let has_ended = entry.request.has_ended();
        if bytes.len() < entry.needed && !is_full && !has_ended {
            return;
        }
        let rules = self.services.get(entry.service as usize);
        let Some(rules) = rules.and_then(|service| service.rules.as_ref()) else {
            return self.connect(now, number, effects);
        };
        let verdict = rules.decide(bytes, entry.known);
        let counters = &mut self.counters;
        let counter = match verdict {
            Verdict::More(_) if is_full => &mut counters.too_long,
            Verdict::More(_) if has_ended => &mut counters.cut_short,
            Verdict::More(needed) => {
                (entry.known, entry.needed) = (bytes.len(), needed);
                return;
            }
            Verdict::Group(_) => &mut counters.matched,
            Verdict::Unmatched => &mut counters.unmatched,
            Verdict::Malformed => &mut counters.malformed,
        };
        *counter += 1;
        let group = match verdict {
            Verdict::Group(group) => Some(group),
            _ => rules.default,
        };
        match group {
            Some(group) => {
                entry.group = group;
                self.connect(now, number, effects);
            }
            None => {
                self.counters.refused += 1;
                self.refuse(now, number, effects);
            }
        }
    }

    /// A segment of the client while its request is being replayed.
    fn pass_to_node(
        &mut self,
        number: u32,
        arrived: &Arrived<'_>,
        effects: &mut impl Effects,
    ) -> Outcome {
        let entry = &mut self.entries[number as usize];
        let splice = entry.splice;
        let (segment, flags) = (arrived.segment, arrived.segment.flags());
        if let Some((value, _)) = Options::read(segment.options()).timestamps
            && SeqNumber(value).is_after(SeqNumber(entry.client_stamp))
        {
            entry.client_stamp = value;
        }
        if flags.contains(TcpFlags::RST) {
            if segment.sequence() == entry.next() {
                self.counters.resets_while_replayed += 1;
                self.finish(number, effects);
            }
            return Outcome::Pass(splice);
        }
        let acknowledgement = segment.acknowledgement();
        if flags.contains(TcpFlags::ACK) && !acknowledgement.is_before(entry.client_ack) {
            let scale = entry.agreed.offer.scale.unwrap_or(0);
            entry.client_ack = acknowledgement;
            entry.client_window = u32::from(segment.window()) << scale;
        }
        Outcome::Pass(splice)
    }
}

/// The end that made the cookie comes first.
fn cookie_ends([client, own]: [SocketAddr; 2]) -> cookie::Ends {
    [(own.ip(), own.port()), (client.ip(), client.port())]
}
