//! Explicit congestion notification: RFC 3168, 6.1. A router marks a packet instead of dropping it,
//! the receiver echoes that until the sender says that its window is smaller.
//!
//! ```text
//!  asks    SYN, ECE and CWR ──────────────►  accepts
//!          ◄────────────── SYN and ACK, ECE
//!          data that may be marked ───────►  the mark is seen
//!          ◄───────────────────── ACKs, ECE
//!          the next new data, CWR ────────►  no ECE from here on
//! ```

use lineside_wire::TcpFlags;
use lineside_wire::headers::link_len;

use crate::config::Ecn;
use crate::effects::Why;
use crate::ip::{CE, ECT_0, codepoint};
use crate::receive::Segment;
use crate::record::{Phase, State, flag};
use crate::stack::Stack;

impl Stack {
    /// What a SYN says of it. One that is sent again asks no more: it may have been lost for that
    /// (RFC 3168, 6.1.1.1).
    pub(crate) fn ecn_of_syn(&self, number: u32) -> TcpFlags {
        let record = &self.tables.records[number];
        let is_first = self.tables.actives[record.place].timeouts == 0;
        match record.state == State::SynReceived {
            true if record.has(flag::ECN) => TcpFlags::ECE,
            false if self.config.ecn == Ecn::Ask && is_first => TcpFlags::ECE | TcpFlags::CWR,
            _ => TcpFlags::default(),
        }
    }

    /// The peer's SYN asks, or accepts: RFC 3168, 6.1.1. An answer with both bits is an echo of our
    /// own.
    pub(crate) fn take_ecn(&mut self, number: u32, segment: &Segment<'_>) {
        let bits = [TcpFlags::ECE, TcpFlags::CWR].map(|bit| segment.has(bit));
        let agrees = match (self.config.ecn, segment.has(TcpFlags::ACK)) {
            (Ecn::Off, _) => false,
            (_, false) => bits == [true, true],
            (Ecn::Accept, true) => false,
            (Ecn::Ask, true) => bits == [true, false],
        };
        if agrees {
            self.tables.records[number].set(flag::ECN);
        }
    }

    /// Data came, which a router may have marked.
    pub(crate) fn take_mark(&mut self, number: u32, segment: &Segment<'_>) {
        let record = &mut self.tables.records[number];
        if !record.has(flag::ECN) || segment.len == 0 {
            return;
        }
        if segment.has(TcpFlags::CWR) {
            record.clear(flag::ECHOES);
        }
        let at = link_len(&self.config.tags);
        if codepoint(&segment.frame.bytes()[at..]) == CE {
            self.counters.ce_received += 1;
            record.set(flag::ECHOES);
        }
    }

    /// The peer echoes a mark: the window becomes smaller, once for what is in flight (RFC 3168,
    /// 6.1.2).
    pub(crate) fn on_echo(&mut self, number: u32, segment: &Segment<'_>) {
        let congestion = self.config.congestion;
        let (record, active) = self.both(number);
        let is_old = record.snd_una.is_before(active.marked_until);
        if !segment.has(TcpFlags::ECE) || !record.has(flag::ECN) || is_old {
            return;
        }
        // Recovery and a timeout have made it smaller.
        if active.phase == Phase::Open {
            let flight = active.snd_nxt.bytes_from(record.snd_una);
            let flight = flight.max(active.flight_then.min(active.window.cwnd));
            congestion.on_loss(&mut active.window, flight);
            self.counters.ecn_reductions += 1;
        }
        let (_, active) = self.both(number);
        (active.marked_until, active.owes_cwr) = (active.snd_nxt, true);
    }

    /// Flags of a segment of a synchronized connection, and the codepoint of its packet: new data
    /// may be marked, what is sent again and what probes may not (RFC 3168, 6.1.5 and 6.1.6).
    pub(crate) fn ecn_of(&mut self, number: u32, why: Why, len: u32) -> (TcpFlags, u8) {
        let record = &self.tables.records[number];
        if !record.has(flag::ECN) {
            return (TcpFlags::default(), 0);
        }
        let echo = match record.has(flag::ECHOES) {
            true => TcpFlags::ECE,
            false => TcpFlags::default(),
        };
        if len == 0 || !matches!(why, Why::Data | Why::HeldBack) {
            return (echo, 0);
        }
        let owes = record.active().is_some_and(|active| {
            let active = &mut self.tables.actives[active];
            std::mem::take(&mut active.owes_cwr)
        });
        match owes {
            true => (echo | TcpFlags::CWR, ECT_0),
            false => (echo, ECT_0),
        }
    }
}
