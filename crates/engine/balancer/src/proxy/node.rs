//! The node's half: its handshake, and the replay of the request.

use lineside_time::Nanoseconds;
use lineside_wire::{SeqNumber, TcpFlags};

use super::client::default_mss;
use super::emit::{self, timestamp};
use super::engine::Splices;
use super::entry::{Node, Options, State};
use super::rewrite::{Splice, Way};
use super::{Arrived, Effects, Failed, Joined, Outcome};

/// The least and the largest time after which a part of the request is sent again: Linux's and RFC
/// 6298, 2.5.
const RTO_MIN_NS: Nanoseconds = 200_000_000;
const RTO_MAX_NS: Nanoseconds = 60_000_000_000;
/// Times that the same part is sent before the connection is given up: with doubling, about a
/// minute.
const REPLAYS_MAX: u8 = 8;
/// Segments of the request in flight: RFC 6928, 2.
const IN_FLIGHT_MAX: usize = 10;
/// A SYN/ACK may come again until the node has the acknowledgement. Without a request to replay
/// no segment shows that it has; afterwards the client answers a SYN/ACK by itself.
const LINGER_NS: Nanoseconds = 3_000_000_000;
/// RFC 5681, 3.2.
const DUPLICATES: u8 = 3;

impl Splices {
    /// A segment from a node to an end that the caller chose.
    pub fn on_node(
        &mut self,
        now: Nanoseconds,
        arrived: &Arrived<'_>,
        effects: &mut impl Effects,
    ) -> Outcome {
        let [node, own] = arrived.ends;
        let Some(number) = self.find_node([own, node]) else {
            return Outcome::Unknown;
        };
        let entry = &self.entries[number as usize];
        let (state, splice) = (entry.state, entry.splice);
        let is_right =
            arrived.checksum_offloaded || { arrived.segment }.verify_checksum(node.ip(), own.ip());
        if !is_right {
            self.counters.checksum_wrong += 1;
        }
        match state {
            State::Replaying if !is_right => Outcome::Pass(splice),
            State::Replaying => self.on_replayed(now, number, arrived, effects),
            State::Connecting if is_right => {
                self.on_answer(now, number, arrived, effects);
                Outcome::Taken
            }
            State::Connecting | State::Request => Outcome::Taken,
        }
    }

    /// Asks a node, or refuses the client if there is none.
    pub(super) fn connect(&mut self, now: Nanoseconds, number: u32, effects: &mut impl Effects) {
        let entry = &self.entries[number as usize];
        let (service, group, ends) = (entry.service, entry.group, entry.ends);
        let (tried, from) = (entry.node.tried, entry.from);
        let chosen = match tried < self.settings.nodes_max {
            true => effects.choose(service, (group, tried), ends, from),
            false => None,
        };
        let Some(node_ends) = chosen.filter(|&ends| self.find_node(ends).is_none()) else {
            if let Some(ends) = chosen {
                effects.release(ends, Failed::Client);
            }
            self.counters.no_node += 1;
            self.refuse(now, number, effects);
            return;
        };
        self.counters.nodes_asked += 1;
        self.enter_node(number, node_ends);
        let entry = &mut self.entries[number as usize];
        entry.state = State::Connecting;
        (entry.node.tries, entry.node.asked_at) = (0, now);
        self.ask(now, number, effects);
    }

    fn ask(&mut self, now: Nanoseconds, number: u32, effects: &mut impl Effects) {
        let entry = &mut self.entries[number as usize];
        let wait = self.settings.connect_timeout_ns << entry.node.tries.min(6);
        entry.node.tries += 1;
        let entry = &self.entries[number as usize];
        let mss = { self.service(entry.service) }.map_or(entry.agreed.mss, |of| of.offer.mss);
        entry.ask_node(mss, effects);
        self.set_timer(number, now + wait);
    }

    pub(super) fn ask_again(&mut self, now: Nanoseconds, number: u32, effects: &mut impl Effects) {
        let tries = self.entries[number as usize].node.tries;
        if tries < self.settings.connect_tries {
            self.ask(now, number, effects);
            return;
        }
        self.counters.nodes_silent += 1;
        self.ask_next(now, number, Failed::Silent, effects);
    }

    fn ask_next(&mut self, now: Nanoseconds, number: u32, why: Failed, effects: &mut impl Effects) {
        if let Some(ends) = self.leave_node(number) {
            effects.release(ends, why);
        }
        self.entries[number as usize].node.tried += 1;
        self.connect(now, number, effects);
    }

    /// A node answers its SYN.
    fn on_answer(
        &mut self,
        now: Nanoseconds,
        number: u32,
        arrived: &Arrived<'_>,
        effects: &mut impl Effects,
    ) {
        let entry = &mut self.entries[number as usize];
        let (segment, flags) = (arrived.segment, arrived.segment.flags());
        let is_ours = flags.contains(TcpFlags::ACK) && segment.acknowledgement() == entry.first();
        if flags.contains(TcpFlags::RST) {
            if is_ours {
                self.counters.nodes_refused += 1;
                self.ask_next(now, number, Failed::Refused, effects);
            }
            return;
        }
        if !is_ours {
            // RFC 9293, 3.10.7.3: of an earlier connection.
            if flags.contains(TcpFlags::ACK) {
                emit::reset(Way::ToNode, arrived, effects);
            }
            return;
        }
        if !flags.opens() {
            return;
        }
        entry.node.irs = segment.sequence();
        let options = Options::read(segment.options());
        if entry.agreed.timestamps && options.timestamps.is_none() {
            entry.reset_node(effects);
            self.counters.nodes_options += 1;
            self.ask_next(now, number, Failed::Options, effects);
            return;
        }
        self.join(now, number, segment.window(), options, effects);
    }

    /// Both halves are known.
    fn join(
        &mut self,
        now: Nanoseconds,
        number: u32,
        window: u16,
        options: Options,
        effects: &mut impl Effects,
    ) {
        let offered = self.shift(&self.entries[number as usize]);
        let entry = &mut self.entries[number as usize];
        let mss_max = self
            .services
            .get(entry.service as usize)
            .map(|of| of.offer.mss);
        let is_ipv4 = entry.ends[0].is_ipv4();
        let mss = options
            .mss
            .unwrap_or_else(|| default_mss(is_ipv4))
            .min(mss_max.unwrap_or(u16::MAX));
        let scales = entry.agreed.offer.scale;
        let node_shift = scales.and(options.scale);
        let stamp = options.timestamps.map_or(0, |(value, _)| value);
        let node = &mut entry.node;
        node.stamp = stamp;
        node.shift = node_shift.unwrap_or(0);
        node.window = window.into();
        let stamps_len = if entry.agreed.timestamps { 12 } else { 0 };
        node.payload_max = usize::from(mss).saturating_sub(stamps_len).max(8);
        node.rto_ns = node.first_rto_ns(now, self.settings.connect_timeout_ns);
        (node.tries, node.duplicates) = (0, 0);
        entry.splice = Splice {
            sequence: entry.iss.0.wrapping_sub(node.irs.0),
            timestamp: match entry.agreed.timestamps {
                true => timestamp(now).wrapping_sub(stamp),
                false => 0,
            },
            window_to_client: match scales {
                Some(_) => node.shift as i8 - offered as i8,
                None => 0,
            },
            window_to_node: match (scales, node_shift) {
                (Some(scale), None) => scale as i8,
                _ => 0,
            },
        };
        entry.state = State::Replaying;
        self.counters.spliced += 1;
        let joined = Joined {
            splice: entry.splice,
            scales: [scales.unwrap_or(0), entry.node.shift],
            next: [entry.next(), entry.node.irs + 1],
        };
        if let Some(node_ends) = entry.node.ends {
            effects.splice(node_ends, &joined);
        }
        if self.entries[number as usize].replay_len() == 0 {
            self.entries[number as usize].replay(0, 0, effects);
            self.set_timer(number, now + LINGER_NS);
            return;
        }
        self.replay(now, number, effects);
    }

    /// Sends what the node's window has room for.
    fn replay(&mut self, now: Nanoseconds, number: u32, effects: &mut impl Effects) {
        let entry = &mut self.entries[number as usize];
        let len = entry.replay_len();
        let in_flight_max =
            (entry.node.payload_max * IN_FLIGHT_MAX).min(entry.node.window as usize);
        let end = len.min(entry.node.acknowledged + in_flight_max);
        while entry.node.sent < end {
            let step = entry.node.payload_max.min(end - entry.node.sent);
            entry.replay(entry.node.sent, step, effects);
            entry.node.sent += step;
        }
        let at = now + entry.node.rto_ns;
        self.set_timer(number, at);
    }

    /// Nothing was acknowledged in time.
    pub(super) fn replay_again(
        &mut self,
        now: Nanoseconds,
        number: u32,
        effects: &mut impl Effects,
    ) {
        let entry = &mut self.entries[number as usize];
        if entry.replay_len() == 0 {
            self.finish(number, effects);
            return;
        }
        if entry.node.tries >= REPLAYS_MAX {
            self.counters.replays_lost += 1;
            entry.reset_node(effects);
            let node_ends = entry.node.ends;
            self.answer(now, number, TcpFlags::RST | TcpFlags::ACK, effects);
            self.remove(number);
            if let Some(ends) = node_ends {
                effects.abort(ends);
            }
            return;
        }
        entry.node.tries += 1;
        entry.node.rto_ns = (entry.node.rto_ns * 2).min(RTO_MAX_NS);
        let len = self.replay_first(number, effects);
        let entry = &mut self.entries[number as usize];
        // What was in flight counts as lost: RFC 5681, 3.1.
        entry.node.sent = entry.node.acknowledged + len;
        let at = now + entry.node.rto_ns;
        self.set_timer(number, at);
    }

    fn replay_first(&mut self, number: u32, effects: &mut impl Effects) -> usize {
        let entry = &self.entries[number as usize];
        let begin = entry.node.acknowledged;
        let len = entry.node.payload_max.min(entry.replay_len() - begin);
        // A closed window is asked with a byte: RFC 9293, 3.8.6.1.
        let len = if entry.node.window == 0 { 1 } else { len };
        entry.replay(begin, len, effects);
        self.counters.replayed_again += 1;
        len
    }

    /// A node speaks while the request is replayed to it.
    fn on_replayed(
        &mut self,
        now: Nanoseconds,
        number: u32,
        arrived: &Arrived<'_>,
        effects: &mut impl Effects,
    ) -> Outcome {
        let entry = &mut self.entries[number as usize];
        let (segment, flags) = (arrived.segment, arrived.segment.flags());
        let pass = Outcome::Pass(entry.splice);
        if flags.contains(TcpFlags::SYN) {
            // It has not heard the acknowledgement.
            entry.replay(0, 0, effects);
            return Outcome::Taken;
        }
        if flags.contains(TcpFlags::RST) {
            self.counters.resets_of_nodes += 1;
            self.finish(number, effects);
            return pass;
        }
        if let Some((value, _)) = Options::read(segment.options()).timestamps
            && SeqNumber(value).is_after(SeqNumber(entry.node.stamp))
        {
            entry.node.stamp = value;
        }
        let len = entry.replay_len();
        let acknowledged = segment.acknowledgement().distance_from(entry.first());
        let Ok(acknowledged) = usize::try_from(acknowledged) else {
            return pass;
        };
        if acknowledged >= len {
            self.finish(number, effects);
            return pass;
        }
        let window = u32::from(segment.window()) << entry.node.shift;
        let is_duplicate = acknowledged == entry.node.acknowledged
            && segment.payload().is_empty()
            && window == entry.node.window
            && entry.node.sent > acknowledged;
        if is_duplicate {
            entry.node.duplicates = entry.node.duplicates.saturating_add(1);
            if entry.node.duplicates == DUPLICATES {
                self.replay_first(number, effects);
            }
            return pass;
        }
        if acknowledged >= entry.node.acknowledged {
            entry.node.window = window;
        }
        if acknowledged > entry.node.acknowledged {
            entry.node.acknowledged = acknowledged;
            entry.node.sent = entry.node.sent.max(acknowledged);
            (entry.node.tries, entry.node.duplicates) = (0, 0);
        }
        self.replay(now, number, effects);
        pass
    }

    pub(super) fn finish(&mut self, number: u32, effects: &mut impl Effects) {
        let ends = self.entries[number as usize].node.ends;
        self.remove(number);
        if let Some(ends) = ends {
            effects.finish(ends);
        }
    }
}

impl Node {
    /// The first retransmission timeout: RFC 6298, 2.2, unless the SYN was sent again (Karn): 3,
    /// SRTT + 4 * RTTVAR.
    fn first_rto_ns(&self, now: Nanoseconds, connect_timeout_ns: Nanoseconds) -> Nanoseconds {
        let rto_ns = match self.tries {
            1 => (now - self.asked_at).saturating_mul(3),
            _ => connect_timeout_ns,
        };
        rto_ns.clamp(RTO_MIN_NS, RTO_MAX_NS)
    }
}
