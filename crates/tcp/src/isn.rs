//! Initial sequence numbers (RFC 6528), and those that are cookies (RFC 4987, 3.6): when too many
//! connections are half open, what a SYN said comes back with the acknowledgement, and nothing is
//! kept meanwhile.
//!
//! ```text
//!  initial number  | 5 bits: when | 3 bits: segment size | 24 bits: keyed hash of all and the ends
//!  timestamp       | 27 bits: time, not after now | selective? | 4 bits: shift, 15 for none
//! ```

use std::net::IpAddr;

use lineside_wire::build::TcpFields;
use lineside_wire::{SeqNumber, TcpFlags};

use crate::effects::Effects;
use crate::listen::age;
use crate::options::Emitted;
use crate::receive::Segment;
use crate::record::{State, flag};
use crate::siphash::siphash;
use crate::stack::Stack;

/// The unit of a cookie's time.
const PERIOD_NS: i64 = 64_000_000_000;
/// A cookie holds in the period in which it was sent and in the next: Linux's MAX_SYNCOOKIE_AGE.
const PERIODS: i64 = 2;
/// Segment sizes that a cookie can name; the largest that the peer takes is named. 1,440 and 1,460
/// are those of Ethernet, 8,940 and 8,960 of jumbo frames.
const SIZES: [u16; 8] = [48, 536, 1220, 1360, 1440, 1460, 8940, 8960];
const HASH_BITS: u32 = 24;
/// Bits of a timestamp that say what the SYN offered.
const OFFER_BITS: u32 = 5;
const NO_SCALE: u32 = 15;
const SACK: u32 = 1 << 4;

/// What the keyed hash covers: addresses and ports.
fn ends_bytes(ends: [(IpAddr, u16); 2]) -> [u8; 36] {
    let mut bytes = [0; 36];
    for ((address, port), at) in ends.into_iter().zip([0, 16]) {
        match address {
            IpAddr::V4(address) => bytes[at..at + 4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => bytes[at..at + 16].copy_from_slice(&address.octets()),
        }
        bytes[32 + at / 8..][..2].copy_from_slice(&port.to_be_bytes());
    }
    bytes
}

impl Stack {
    /// RFC 6528, 3: a clock of 4 microseconds and a keyed hash of the four-tuple.
    pub(crate) fn initial_sequence(&self, ends: [(IpAddr, u16); 2]) -> SeqNumber {
        let hash = siphash(self.secret, &ends_bytes(ends)) as u32;
        SeqNumber(hash) + (self.now / 4000) as u32
    }

    /// The cookie of a peer's SYN with this number, as of a period.
    fn cookie(&self, segment: &Segment<'_>, irs: SeqNumber, period: i64, size: u32) -> SeqNumber {
        let mut bytes = [0; 49];
        bytes[..36].copy_from_slice(&ends_bytes(segment.ends));
        bytes[36..44].copy_from_slice(&period.to_be_bytes());
        bytes[44..48].copy_from_slice(&irs.0.to_be_bytes());
        bytes[48] = size as u8;
        let key = [self.secret[1], self.secret[0]];
        let hash = siphash(key, &bytes) as u32 >> (32 - HASH_BITS);
        SeqNumber((period as u32) << 27 | size << HASH_BITS | hash)
    }

    /// Answers a SYN by a cookie.
    pub(crate) fn send_cookie(&mut self, segment: &Segment<'_>, effects: &mut impl Effects) {
        self.counters.cookies_sent += 1;
        self.cookie_at = Some(self.now);
        let [(local, local_port), (remote, remote_port)] = segment.ends;
        let mss = self.config.mss(local.is_ipv4());
        let offered = segment.options.mss(local.is_ipv4()).min(mss);
        let size = SIZES.partition_point(|&size| size <= offered).max(1) as u32 - 1;
        let iss = self.cookie(segment, segment.sequence, self.now / PERIOD_NS, size);
        let mut options = Emitted::new();
        options.mss(mss);
        if let Some((value, _)) = segment
            .options
            .timestamps
            .filter(|_| self.config.timestamps)
        {
            // What has no place without timestamps is not agreed upon.
            let has_sack = self.config.sack && segment.options.sack_permitted;
            if has_sack {
                options.sack_permitted();
            }
            let scale = segment.options.scale;
            let offer = scale.map_or(NO_SCALE, u32::from) | if has_sack { SACK } else { 0 };
            options.timestamps(self.offer_timestamp(offer), value);
            if scale.is_some() {
                options.scale(self.config.window_scale());
            }
        }
        let fields = TcpFields {
            source_port: local_port,
            destination_port: remote_port,
            sequence: iss.0,
            acknowledgement: (segment.sequence + 1).0,
            flags: TcpFlags::SYN | TcpFlags::ACK,
            window: self.syn_window() as u16,
            options: options.bytes(),
        };
        self.send_bare([local, remote], &fields, effects);
    }

    /// A timestamp whose last bits are an offer, and that is not later than now.
    fn offer_timestamp(&self, offer: u32) -> u32 {
        let now = self.timestamp();
        let stamp = now >> OFFER_BITS << OFFER_BITS | offer;
        match stamp.wrapping_sub(now).cast_signed() > 0 {
            true => stamp.wrapping_sub(1 << OFFER_BITS),
            false => stamp,
        }
    }

    /// Whether cookies are on their way.
    pub(crate) fn awaits_cookies(&self) -> bool {
        let since = self.cookie_at.map(|at| self.now.saturating_sub(at));
        since.is_some_and(|since| since <= PERIODS * PERIOD_NS)
    }

    /// The segment size that the cookie names which this segment acknowledges, if there is one.
    fn cookie_size(&self, segment: &Segment<'_>) -> Option<u16> {
        let (iss, irs) = (segment.acknowledgement - 1, segment.sequence - 1);
        let size = iss.0 >> HASH_BITS & 7;
        let now = self.now / PERIOD_NS;
        let mut periods = (now - PERIODS + 1..=now).rev();
        let is_ours = periods.any(|period| self.cookie(segment, irs, period, size) == iss);
        is_ours.then_some(SIZES[size as usize])
    }

    /// A connection in SYN-RECEIVED from the acknowledgement of a cookie: `None` if it is none, and
    /// `Some(None)` if there is no room.
    pub(crate) fn accept_cookie(
        &mut self,
        segment: &Segment<'_>,
        owner: u32,
    ) -> Option<Option<u32>> {
        let size = self.cookie_size(segment)?;
        let number = self.take_half_open(segment, owner);
        let Some(number) = number else {
            return Some(None);
        };
        let (window, scale) = (self.syn_window(), self.config.window_scale());
        let now = age(self.now);
        let record = &mut self.tables.records[number];
        let active = &mut self.tables.actives[record.place];
        record.iss = segment.acknowledgement - 1;
        record.snd_una = record.iss;
        active.snd_nxt = record.iss + 1;
        record.rcv_nxt = segment.sequence;
        record.rcv_adv = record.rcv_nxt + window;
        record.mss = record.mss.min(size);
        if let Some((value, echo)) = segment.options.timestamps {
            record.set(flag::TIMESTAMPS);
            (record.ts_recent, record.ts_recent_at) = (value, now);
            let offer = echo & ((1 << OFFER_BITS) - 1);
            if offer & SACK != 0 {
                record.set(flag::SACK);
            }
            let peers = offer & NO_SCALE;
            if peers != NO_SCALE {
                record.set(flag::SCALED);
                record.scales = scale << 4 | peers as u8;
            }
        }
        active.recover = record.iss;
        debug_assert_eq!(record.state, State::SynReceived);
        self.begin_window(number);
        Some(Some(number))
    }
}
