//! The three records of a connection: 64 bytes as long as it lives, a larger one while bytes are in
//! flight or missing, 32 bytes in TIME_WAIT. See `docs/decisions/0024-tcp-endpoint.md`.

use lineside_frame::{Range, prefetch};
use lineside_time::Nanoseconds;
use lineside_wire::SeqNumber;

use crate::congestion::Window;
use crate::recovery::{Frto, Probe, Rack, Reduction, Sooner, Undo};
use crate::scoreboard::Scoreboard;
use crate::slab::Numbered;

/// In place of the number of an [`Active`] record, with a time: the connection is at rest.
pub(crate) const RESTS: u32 = 1 << 31;

/// RFC 9293, 3.3.2. LISTEN is a listener's, TIME_WAIT a [`TimeWait`], CLOSED no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum State {
    /// A free record.
    Closed,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
}

impl State {
    /// Whether data and a FIN of the peer may still come.
    pub(crate) fn receives(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }

    /// Whether the handshake is over.
    pub(crate) fn is_synchronized(self) -> bool {
        self >= Self::Established
    }
}

/// Bits of [`Record::flags`].
pub(crate) mod flag {
    /// Both ends send timestamps: RFC 7323, 3.2.
    pub(crate) const TIMESTAMPS: u16 = 1;
    /// Both ends know selective acknowledgements: RFC 2018, 2.
    pub(crate) const SACK: u16 = 1 << 1;
    /// Windows are shifted: RFC 7323, 2.2.
    pub(crate) const SCALED: u16 = 1 << 2;
    /// An acknowledgement is due now.
    pub(crate) const ACK_NOW: u16 = 1 << 3;
    /// An acknowledgement is due, and waits for data to ride on.
    pub(crate) const ACK_DELAYED: u16 = 1 << 4;
    /// The owner has no more data.
    pub(crate) const SHUT: u16 = 1 << 5;
    /// A FIN was sent: the last sequence number before `snd_nxt`.
    pub(crate) const FIN_SENT: u16 = 1 << 6;
    /// A listener's.
    pub(crate) const PASSIVE: u16 = 1 << 7;
    /// In the list of connections that this burst touched.
    pub(crate) const TOUCHED: u16 = 1 << 8;
    /// The owner chose a receive window.
    pub(crate) const WINDOW_SET: u16 = 1 << 9;
    /// The peer sent its FIN: it has no more data.
    pub(crate) const FIN_RECEIVED: u16 = 1 << 10;
    /// The owner takes nothing more.
    pub(crate) const CLOSED: u16 = 1 << 11;
    /// Routers may mark packets: RFC 3168, 6.1.1.
    pub(crate) const ECN: u16 = 1 << 13;
    /// A mark came, and acknowledgements echo it: RFC 3168, 6.1.3.
    pub(crate) const ECHOES: u16 = 1 << 14;
    /// Short segments do not wait: RFC 9293, 3.7.4 (MUST-17).
    pub(crate) const NO_DELAY: u16 = 1 << 12;
    /// The path brings segments out of order: RFC 8985, 6.2, step 3.
    pub(crate) const REORDERS: u16 = 1 << 15;
}

/// What lives as long as the connection: a cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Record {
    /// The pair of addresses.
    pub(crate) path: u32,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    /// The oldest byte that is not acknowledged.
    pub(crate) snd_una: SeqNumber,
    /// The next byte that is expected.
    pub(crate) rcv_nxt: SeqNumber,
    /// The end of the window that was offered.
    pub(crate) rcv_adv: SeqNumber,
    /// The initial sequence number.
    pub(crate) iss: SeqNumber,
    /// Round trip and its variation: RFC 6298, 2; in eighths of a microsecond, 0 before the first
    /// measurement.
    pub(crate) srtt: u32,
    pub(crate) rttvar: u32,
    /// The timestamp to echo: RFC 7323, 4.3.
    pub(crate) ts_recent: u32,
    /// The pending timer, or [`NONE`](crate::slab::NONE).
    pub(crate) timer: u32,
    /// The [`Active`] record; from [`RESTS`] on there is none, and the rest is when data were sent
    /// last, in milliseconds since the stack began.
    pub(crate) place: u32,
    pub(crate) owner: u32,
    /// How often the offset of `snd_una` in the stream passed 2^32.
    pub(crate) high: u16,
    /// The peer's window as sent.
    pub(crate) snd_wnd: u16,
    /// The congestion window, in segments.
    pub(crate) cwnd: u16,
    /// Slow start ends here, in segments.
    pub(crate) ssthresh: u16,
    /// The most payload and options of a segment that is sent.
    pub(crate) mss: u16,
    /// When `ts_recent` was taken, in units of 1,024 s.
    pub(crate) ts_recent_at: u16,
    pub(crate) flags: u16,
    /// The shift of the peer's windows and of those that are offered, 4 bits each.
    pub(crate) scales: u8,
    pub(crate) state: State,
}

const _: () = assert!(size_of::<Record>() == 64, "a cache line");

impl Record {
    pub(crate) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn set(&mut self, flag: u16) {
        self.flags |= flag;
    }

    pub(crate) fn clear(&mut self, flag: u16) {
        self.flags &= !flag;
    }

    /// Its larger record.
    #[inline]
    pub(crate) fn active(&self) -> Option<u32> {
        (self.place < RESTS).then_some(self.place)
    }

    /// The peer's window in bytes.
    pub(crate) fn send_window(&self) -> u32 {
        u32::from(self.snd_wnd) << (self.scales & 15)
    }

    /// By how much the windows that are offered are shifted.
    pub(crate) fn receive_scale(&self) -> u8 {
        self.scales >> 4
    }

    /// Where `sequence`, which is not before `snd_una`, lies in the stream that is sent.
    pub(crate) fn offset(&self, sequence: SeqNumber) -> u64 {
        let una = self.una_offset();
        una + u64::from(sequence.bytes_from(self.snd_una))
    }

    /// The offset of `snd_una`, which is not the SYN.
    fn una_offset(&self) -> u64 {
        let low = self.snd_una.bytes_from(self.iss + 1);
        u64::from(self.high) << 32 | u64::from(low)
    }

    /// Everything before `to` is acknowledged, the SYN long since.
    pub(crate) fn advance_una(&mut self, to: SeqNumber) {
        let [before, after] = [self.snd_una, to].map(|number| number.bytes_from(self.iss + 1));
        if after < before {
            self.high = self.high.wrapping_add(1);
        }
        self.snd_una = to;
    }

    /// What is left of `mss` beside the options that each segment has.
    pub(crate) fn payload_of(&self, mss: u16) -> u32 {
        u32::from(mss).saturating_sub(self.options_len()).max(1)
    }

    /// The bytes of options that each segment has.
    pub(crate) fn options_len(&self) -> u32 {
        if self.has(flag::TIMESTAMPS) { 12 } else { 0 }
    }
}

/// How far a connection is from a loss: RFC 5681, 3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing is known to be lost.
    Open,
    /// Fast recovery: ends when what was sent before it is acknowledged.
    Recovery,
    /// After a timeout: ends likewise.
    Loss,
}

/// What a connection's timer is for, beside delayed acknowledgements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retransmission {
    /// Nothing is in flight.
    Off,
    /// The oldest bytes in flight are sent again at this instant: RFC 6298, 5.
    Timeout(Nanoseconds),
    /// The peer's window is asked for at this instant: RFC 9293, 3.8.6.1.
    Probe(Nanoseconds),
    /// Nothing is in flight, and the peer is asked whether it is there: RFC 9293, 3.8.4.
    KeepAlive(Nanoseconds),
    /// The peer's FIN is not waited for beyond this instant.
    Over(Nanoseconds),
}

impl Retransmission {
    /// When the timer fires.
    pub(crate) fn at(self) -> Option<Nanoseconds> {
        match self {
            Self::Off => None,
            Self::Timeout(at) | Self::Probe(at) | Self::KeepAlive(at) | Self::Over(at) => Some(at),
        }
    }
}

/// What is needed while bytes are in flight or missing. Its first four cache lines are all that
/// segments touch of which none is lost or overtaken: among many connections no line is in a cache.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Active {
    /// The next sequence number that was never sent.
    pub(crate) snd_nxt: SeqNumber,
    /// The segment that the peer's window is from: RFC 9293, 3.3.1.
    pub(crate) snd_wl1: SeqNumber,
    pub(crate) snd_wl2: SeqNumber,
    /// The largest window that the peer offered.
    pub(crate) snd_wnd_max: u32,
    /// Bytes that the owner has ready after `snd_nxt`.
    pub(crate) ready: u64,
    pub(crate) retransmission: Retransmission,
    pub(crate) sooner: Sooner,
    /// When a delayed acknowledgement is due.
    pub(crate) ack_at: Nanoseconds,
    pub(crate) scoreboard: Scoreboard,
    /// A byte that was sent once, and when: acknowledged, it gives the round trip.
    pub(crate) timed: Option<(SeqNumber, Nanoseconds)>,
    /// When data were sent last.
    pub(crate) sent_at: Nanoseconds,
    /// Since when the oldest bytes that are not acknowledged wait for that.
    pub(crate) waits_since: Nanoseconds,
    /// Where the phase ends; no new recovery begins before it is acknowledged.
    pub(crate) recover: SeqNumber,
    pub(crate) dup_acks: u32,
    /// What was in flight then: acknowledgements of a burst count before they let anything leave.
    pub(crate) flight_then: u32,
    /// Echoes of marks count again from here on, and the next new data says that the window is
    /// smaller: RFC 3168, 6.1.2.
    pub(crate) marked_until: SeqNumber,
    pub(crate) owes_cwr: bool,
    pub(crate) phase: Phase,
    pub(crate) frto: Frto,
    /// What is lost first leaves whatever the window: RFC 6675, 5, 4.3; RFC 6298, 5.4.
    pub(crate) must_send: bool,
    /// Timeouts and probes since data were acknowledged: each doubles the time to the next.
    pub(crate) timeouts: u8,
    /// Probes since the peer was heard.
    pub(crate) unanswered: u8,
    /// Whether `rare` is not as it begins.
    has_rare: bool,
    pub(crate) rack: Rack,
    pub(crate) window: Window,
    rare: Rare,
}

const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(Active, scoreboard) == 64 && offset_of!(Active, timed) == 128);
    assert!(offset_of!(Active, rack) == 192, "three lines");
    let epoch = offset_of!(Active, window) + offset_of!(Window, epoch);
    assert!(epoch == 256, "what begins each connection anew fills four");
};

/// What only losses, disorder and an owner that chooses windows need.
#[derive(Debug, Default)]
pub(crate) struct Rare {
    pub(crate) reduction: Reduction,
    /// A probe of the tail that has left.
    pub(crate) probe: Option<Probe>,
    /// What the last recovery or timeout changed.
    pub(crate) undo: Option<Undo>,
    /// When the window became smaller in this recovery.
    pub(crate) reduced_at: Nanoseconds,
    /// What came out of order: apart, in its order.
    pub(crate) held: Vec<Held>,
    /// What they count as, against the quota.
    pub(crate) held_cost: usize,
    /// Where the peer's FIN is that came out of order.
    pub(crate) fin_at: Option<SeqNumber>,
    /// Sequence numbers of what came out of order lately, the last one first.
    pub(crate) recent: Option<[SeqNumber; 3]>,
    /// The window that the owner chose.
    pub(crate) rcv_wnd: u32,
}

impl Default for Active {
    fn default() -> Self {
        let zero = SeqNumber(0);
        Self {
            snd_nxt: zero,
            snd_wl1: zero,
            snd_wl2: zero,
            snd_wnd_max: 0,
            ready: 0,
            retransmission: Retransmission::Off,
            sooner: Sooner::Off,
            ack_at: 0,
            scoreboard: Scoreboard::default(),
            timed: None,
            sent_at: 0,
            waits_since: 0,
            recover: zero,
            dup_acks: 0,
            flight_then: 0,
            marked_until: zero,
            owes_cwr: false,
            phase: Phase::Open,
            frto: Frto::Off,
            must_send: false,
            timeouts: 0,
            unanswered: 0,
            has_rare: false,
            rack: Rack::default(),
            window: Window::new(1),
            rare: Rare::default(),
        }
    }
}

impl Active {
    /// Asks for the lines that segments and timers touch.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(&self.snd_nxt);
        prefetch(&self.scoreboard);
        prefetch(&self.timed);
        prefetch(&self.rack);
    }

    /// `None`: it is as it begins.
    #[inline]
    pub(crate) fn rare(&self) -> Option<&Rare> {
        self.has_rare.then_some(&self.rare)
    }

    pub(crate) fn rare_mut(&mut self) -> &mut Rare {
        self.has_rare = true;
        &mut self.rare
    }

    /// Takes it out, if it is not as it begins.
    #[inline]
    pub(crate) fn take_rare(&mut self) -> Option<Rare> {
        std::mem::take(&mut self.has_rare).then(|| std::mem::take(&mut self.rare))
    }

    /// What came out of order.
    #[inline]
    pub(crate) fn held(&self) -> &[Held] {
        self.rare().map_or(&[], |rare| &rare.held)
    }

    /// Where the peer's FIN is that came out of order.
    #[inline]
    pub(crate) fn fin_at(&self) -> Option<SeqNumber> {
        self.rare()?.fin_at
    }

    /// A probe of the tail that has left.
    #[inline]
    pub(crate) fn probe(&self) -> Option<Probe> {
        self.rare()?.probe
    }
}

/// Bytes that came out of order.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) start: SeqNumber,
    pub(crate) range: Range,
}

impl Held {
    pub(crate) fn end(&self) -> SeqNumber {
        self.start + self.range.len() as u32
    }
}

/// A connection in TIME_WAIT: RFC 9293, 3.3.2.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeWait {
    pub(crate) path: u32,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    pub(crate) snd_nxt: SeqNumber,
    pub(crate) rcv_nxt: SeqNumber,
    pub(crate) ts_recent: u32,
    /// In milliseconds since the stack began; the lowest bit says whether there are timestamps.
    pub(crate) until: u32,
    /// Neighbours in the order of their ends.
    pub(crate) previous: u32,
    pub(crate) next: u32,
}

const _: () = assert!(size_of::<TimeWait>() == 32, "half a cache line");

impl Numbered for Record {
    fn next_free(&mut self) -> &mut u32 {
        &mut self.ts_recent
    }
}

impl Numbered for Active {
    fn next_free(&mut self) -> &mut u32 {
        &mut self.snd_wnd_max
    }
}

impl Numbered for TimeWait {
    fn next_free(&mut self) -> &mut u32 {
        &mut self.next
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::slab::NONE;

    fn record(iss: u32) -> Record {
        Record {
            path: 0,
            local_port: 0,
            remote_port: 0,
            snd_una: SeqNumber(iss),
            rcv_nxt: SeqNumber(0),
            rcv_adv: SeqNumber(0),
            iss: SeqNumber(iss),
            srtt: 0,
            rttvar: 0,
            ts_recent: 0,
            timer: NONE,
            place: RESTS,
            owner: 0,
            high: 0,
            snd_wnd: 0,
            cwnd: 0,
            ssthresh: 0,
            mss: 0,
            ts_recent_at: 0,
            flags: 0,
            scales: 0,
            state: State::Established,
        }
    }

    proptest! {
        #[test]
        fn offsets_go_on_beyond_four_gigabytes(
            iss in any::<u32>(), steps in proptest::collection::vec(1_u32..1 << 31, 1..40),
        ) {
            let mut record = record(iss);
            record.snd_una = SeqNumber(iss) + 1;
            let mut offset = 0;
            for step in steps {
                prop_assert_eq!(record.offset(record.snd_una), offset);
                prop_assert_eq!(record.offset(record.snd_una + step), offset + u64::from(step));
                record.advance_una(record.snd_una + step);
                offset += u64::from(step);
            }
        }
    }
}
