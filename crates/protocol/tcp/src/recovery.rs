//! What an acknowledgement says of losses, and what follows from it.
//!
//! ```text
//!  News: what it delivered ─► RACK: what is lost ─► Open ─► Recovery ─► Open
//!                                                     └─► Loss, by the timer ─► Open
//!  undo: back to Open, with the window as it was, if nothing was lost after all
//! ```
//!
//! * With selective acknowledgements RACK says what is lost (RFC 8985), and nothing else: its
//!   section 3.3 has why that covers RFC 6675. Without them three duplicates do (RFC 6582).
//! * During fast recovery the window follows what is delivered: RFC 6937.
//! * A probe of the tail instead of a timeout: [`probe`].
//! * What was sent again for nothing is found by D-SACK and by F-RTO: [`undo`].

mod probe;
mod rack;
mod reduction;
mod state;
mod undo;

use lineside_time::Nanoseconds;
use lineside_wire::{SeqNumber, TcpFlags};

pub(crate) use state::{Frto, Probe, Rack, Reduction, Sooner, Undo};

use crate::lists::Lists;
use crate::receive::Segment;
use crate::record::{Active, Phase, Record, flag};
use crate::scoreboard::{Arrived, Run};
use crate::stack::Stack;

/// Duplicate acknowledgements, or segments that arrived, that show a loss: RFC 5681, 3.2.
const DUP_THRESH: u32 = 3;

/// What one acknowledgement says.
#[derive(Debug)]
pub(crate) struct News {
    /// When it came.
    at: Nanoseconds,
    una: SeqNumber,
    /// The timestamp that it echoes, and the one that stands for an instant of 0.
    echo: Option<(u32, u32)>,
    min_rtt: Nanoseconds,
    /// The highest number that had arrived before it.
    fack: SeqNumber,
    recover: SeqNumber,
    /// Bytes that are known to have arrived by it.
    pub(crate) bytes: u32,
    /// What was sent last of them, of that which is believed.
    latest: Option<Arrived>,
    /// The highest number among them.
    highest: SeqNumber,
    /// Some were sent once, and overtaken.
    is_reordered: bool,
    /// Some were sent once, before the timeout or the loss.
    has_original: bool,
    /// Some were sent again.
    has_again: bool,
    /// It reports blocks that were not known.
    pub(crate) has_blocks: bool,
    /// It reports this as a duplicate.
    pub(crate) duplicate: Option<(SeqNumber, SeqNumber)>,
    /// Neither new data nor a new window.
    pub(crate) is_same: bool,
}

impl News {
    pub(crate) fn new(
        record: &Record,
        active: &Active,
        segment: &Segment<'_>,
        clock_base: u32,
    ) -> Self {
        let echo = segment.options.timestamps.map(|(_, echo)| echo);
        let echo = echo.filter(|&echo| record.has(flag::TIMESTAMPS) && echo != 0);
        Self {
            at: segment.at,
            una: record.snd_una,
            echo: echo.map(|echo| (echo, clock_base)),
            min_rtt: active.rack.min_rtt(),
            fack: active.rack.fack(record.snd_una),
            recover: active.recover,
            bytes: 0,
            latest: None,
            highest: record.snd_una,
            is_reordered: false,
            has_original: false,
            has_again: false,
            has_blocks: false,
            duplicate: None,
            is_same: false,
        }
    }

    /// These have arrived.
    pub(crate) fn see(&mut self, arrived: Arrived) {
        self.bytes += arrived.bytes;
        self.has_again |= arrived.is_again;
        if !arrived.is_again {
            // RFC 8985, 6.2, step 3.
            self.is_reordered |= arrived.end.is_before(self.fack);
            self.has_original |= !arrived.end.is_after(self.recover);
        } else if self.is_ambiguous(&arrived) {
            return;
        }
        if arrived.end.is_after(self.highest) {
            self.highest = arrived.end;
        }
        let is_later = self.latest.is_none_or(|latest| {
            let same = arrived.sent_at == latest.sent_at;
            arrived.sent_at > latest.sent_at || same && arrived.end.is_after(latest.end)
        });
        if is_later {
            self.latest = Some(arrived);
        }
    }

    /// Whether it may be the first of two transmissions that arrived: RFC 8985, 6.2, step 2.
    fn is_ambiguous(&self, arrived: &Arrived) -> bool {
        let is_before = self.echo.is_some_and(|(echo, base)| {
            let sent = ((arrived.sent_at / 1_000_000) as u32).wrapping_add(base);
            echo.wrapping_sub(sent).cast_signed() < 0
        });
        is_before || self.at.saturating_sub(arrived.sent_at) < self.min_rtt
    }

    fn is_advance(&self, record: &Record) -> bool {
        record.snd_una != self.una
    }
}

impl Stack {
    /// The records of a connection that has both, and the lists that what is in flight grows from.
    pub(crate) fn parts(&mut self, number: u32) -> (&mut Record, &mut Active, &mut Lists<Run>) {
        let record = &mut self.tables.records[number];
        let active = &mut self.tables.actives[record.place];
        (record, active, &mut self.tables.ranges)
    }

    /// What an acknowledgement, which was taken, says of losses.
    pub(crate) fn recover(&mut self, number: u32, news: &mut News, segment: &Segment<'_>) {
        let (record, active) = self.both(number);
        if !active.has_nothing_lost(record, news) {
            self.find_losses(number, news, segment);
        }
    }

    fn find_losses(&mut self, number: u32, news: &mut News, segment: &Segment<'_>) {
        let is_duplicate = self.count_duplicate(number, news, segment);
        self.take_report(number, news);
        let (record, active) = self.both(number);
        active.rack.update(news);
        if news.is_reordered {
            record.set(flag::REORDERS);
        }
        self.end_probe(number, news, segment);
        self.end_phase(number);
        self.judge_timeout(number, news, is_duplicate);
        let (record, active) = self.both(number);
        let mut is_safe = true;
        if record.has(flag::SACK) {
            is_safe = news.is_advance(record);
            is_safe &= self.detect_losses(number) == 0;
        } else if active.phase == Phase::Recovery && news.is_advance(record) {
            // The rest of what was in flight had arrived, but for what follows the gap: RFC 6582,
            // 3.2, partial acknowledgements.
            self.lose_first(number);
        } else if active.phase == Phase::Open && active.dup_acks >= DUP_THRESH {
            self.lose_first(number);
            self.enter_recovery(number);
        }
        let (record, active) = self.both(number);
        if active.phase == Phase::Recovery {
            active.follow(record, news.bytes, is_safe);
        }
    }

    /// Whether something has arrived, but not the next byte: RFC 5681, 2. Without selective
    /// acknowledgements each stands for a segment.
    fn count_duplicate(&mut self, number: u32, news: &mut News, segment: &Segment<'_>) -> bool {
        let (record, active) = self.both(number);
        let mss = active.window.mss;
        let flight = active.snd_nxt.bytes_from(record.snd_una);
        let has_sack = record.has(flag::SACK);
        if news.is_advance(record) {
            let segments = (record.snd_una.bytes_from(news.una) / mss).max(1);
            let before = active.dup_acks;
            active.dup_acks = match active.phase {
                // One was the gap, the others had arrived: RFC 6582, 3.2.
                Phase::Recovery => before.saturating_sub(segments - 1),
                _ => 0,
            };
            if !has_sack {
                // Those were counted as they came.
                news.bytes = news.bytes.saturating_sub((before - active.dup_acks) * mss);
            }
            return false;
        }
        let is_duplicate = match has_sack {
            true => news.has_blocks,
            false => segment.len == 0 && !segment.has(TcpFlags::FIN) && news.is_same,
        };
        if !is_duplicate || flight == 0 {
            return false;
        }
        if active.phase != Phase::Loss {
            // No more arrived than were sent.
            let most = flight.div_ceil(mss);
            if !has_sack && active.dup_acks < most {
                news.bytes = mss;
            }
            active.dup_acks = (active.dup_acks + 1).min(most);
        }
        true
    }

    /// All that was sent before the loss or the timeout is acknowledged.
    fn end_phase(&mut self, number: u32) {
        let (record, active) = self.both(number);
        if active.phase == Phase::Open || record.snd_una.is_before(active.recover) {
            return;
        }
        if active.phase == Phase::Recovery {
            active.end_reduction();
        }
        active.rack.end_recovery();
        active.open();
    }

    fn lose_first(&mut self, number: u32) {
        let (_, active, lists) = self.parts(number);
        if !active.scoreboard.is_head_again() {
            active.scoreboard.lose_first(active.window.mss, lists);
        }
    }

    /// Something is lost, and the window becomes smaller.
    fn enter_recovery(&mut self, number: u32) {
        let (congestion, now) = (self.config.congestion, self.now);
        let (record, active) = self.both(number);
        active.phase = Phase::Recovery;
        active.recover = active.snd_nxt;
        active.must_send = true;
        let undo = Undo::new(record.snd_una, active.window);
        let rare = active.rare_mut();
        (rare.probe, rare.undo) = (None, Some(undo));
        let before = active.window.cwnd;
        let flight = active.snd_nxt.bytes_from(record.snd_una);
        let flight = flight.max(active.flight_then.min(before));
        congestion.on_loss(&mut active.window, flight);
        let reduction = Reduction::new(flight, active.window.cwnd, before);
        let rare = active.rare_mut();
        (rare.reduction, rare.reduced_at) = (reduction, now);
        self.counters.recoveries += 1;
    }

    /// What was sent again since the window became smaller is lost: it is still too large. RFC
    /// 5681, 4.3.
    fn reduce_again(&mut self, number: u32) {
        let (congestion, now) = (self.config.congestion, self.now);
        let (record, active) = self.both(number);
        active.end_reduction();
        let before = active.window.cwnd;
        congestion.on_loss(&mut active.window, before);
        let flight = active.pipe(record);
        let reduction = Reduction::new(flight, active.window.cwnd, before);
        let rare = active.rare_mut();
        (rare.reduction, rare.reduced_at) = (reduction, now);
        self.counters.reduced_again += 1;
    }
}

impl Active {
    /// Whether an acknowledgement of all that is in flight says nothing else: then it is taken.
    #[inline]
    fn has_nothing_lost(&mut self, record: &mut Record, news: &News) -> bool {
        let is_plain = self.snd_nxt == record.snd_una
            && news.is_advance(record)
            && self.phase == Phase::Open
            && self.frto == Frto::Off
            && self.dup_acks == 0
            && news.duplicate.is_none()
            && self.probe().is_none();
        if !is_plain {
            return false;
        }
        self.rack.update(news);
        if news.is_reordered {
            record.set(flag::REORDERS);
        }
        if matches!(self.sooner, Sooner::Reordering(_)) && record.has(flag::SACK) {
            self.sooner = Sooner::Off;
        }
        true
    }

    /// Nothing is known to be lost from here on.
    fn open(&mut self) {
        self.phase = Phase::Open;
        (self.dup_acks, self.must_send) = (0, false);
        self.frto = Frto::Off;
    }

    /// What is in flight is lost, but not for want of room on the path: the congestion window
    /// stays.
    pub(crate) fn resend_all(&mut self) {
        self.scoreboard.lose_all();
        self.rare_mut().undo = None;
        self.lose();
    }

    /// Some of what is in flight is lost, and all of it if nothing more is heard.
    pub(crate) fn lose(&mut self) {
        self.phase = Phase::Loss;
        self.recover = self.snd_nxt;
        (self.dup_acks, self.must_send) = (0, true);
        (self.frto, self.sooner, self.timed) = (Frto::Off, Sooner::Off, None);
        self.rare_mut().probe = None;
    }

    /// Bytes that are on their way. Without selective acknowledgements each duplicate one stands
    /// for a segment that has arrived; those of RFC 3042 are among them.
    pub(crate) fn pipe(&self, record: &Record) -> u32 {
        let pipe = self.scoreboard.pipe();
        match record.has(flag::SACK) {
            true => pipe,
            false => pipe.saturating_sub(self.dup_acks.saturating_mul(self.window.mss)),
        }
    }
}
