//! Initial sequence numbers (RFC 6528), and connections from [cookies](crate::cookie): when too
//! many are half open.

use std::net::IpAddr;

use lineside_wire::build::TcpFields;
use lineside_wire::{SeqNumber, TcpFlags};

use crate::cookie::{Cookies, LIFE_NS, Offer, ends_bytes};
use crate::effects::Effects;
use crate::listen::age;
use crate::options::Emitted;
use crate::receive::Segment;
use crate::record::{State, flag};
use crate::siphash::siphash;
use crate::stack::Stack;

impl Stack {
    /// RFC 6528, 3: a clock of 4 microseconds and a keyed hash of the four-tuple.
    pub(crate) fn initial_sequence(&self, ends: [(IpAddr, u16); 2]) -> SeqNumber {
        let hash = siphash(self.secret, &ends_bytes(ends)) as u32;
        SeqNumber(hash) + (self.now / 4000) as u32
    }

    fn cookies(&self) -> Cookies {
        Cookies::new([self.secret[1], self.secret[0]])
    }

    /// Answers a SYN by a cookie.
    pub(crate) fn send_cookie(&mut self, segment: &Segment<'_>, effects: &mut impl Effects) {
        self.counters.cookies_sent += 1;
        self.cookie_at = Some(self.now);
        let [(local, local_port), (remote, remote_port)] = segment.ends;
        let mss = self.config.mss(local.is_ipv4());
        let offered = segment.options.mss(local.is_ipv4()).min(mss);
        let cookies = self.cookies();
        let iss = cookies.number(self.now, segment.ends, segment.sequence, offered);
        let mut options = Emitted::new();
        options.mss(mss);
        if let Some((value, _)) = segment
            .options
            .timestamps
            .filter(|_| self.config.timestamps)
        {
            // What has no place without timestamps is not agreed upon.
            let offer = Offer {
                scale: segment.options.scale,
                sack: self.config.sack && segment.options.sack_permitted,
            };
            if offer.sack {
                options.sack_permitted();
            }
            options.timestamps(offer.to_timestamp(self.timestamp()), value);
            if offer.scale.is_some() {
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

    /// Whether cookies are on their way.
    pub(crate) fn awaits_cookies(&self) -> bool {
        let since = self.cookie_at.map(|at| self.now.saturating_sub(at));
        since.is_some_and(|since| since <= LIFE_NS)
    }

    /// A connection in SYN-RECEIVED from the acknowledgement of a cookie: `None` if it is none, and
    /// `Some(None)` if there is no room.
    pub(crate) fn accept_cookie(
        &mut self,
        segment: &Segment<'_>,
        owner: u32,
    ) -> Option<Option<u32>> {
        let (iss, irs) = (segment.acknowledgement - 1, segment.sequence - 1);
        let size = self.cookies().mss(self.now, segment.ends, irs, iss)?;
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
            let offer = Offer::of_timestamp(echo);
            if offer.sack {
                record.set(flag::SACK);
            }
            if let Some(peers) = offer.scale {
                record.set(flag::SCALED);
                record.scales = scale << 4 | peers;
            }
        }
        active.recover = record.iss;
        debug_assert_eq!(record.state, State::SynReceived);
        self.begin_window(number);
        Some(Some(number))
    }
}
