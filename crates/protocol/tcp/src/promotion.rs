//! From the smaller record to the larger one and back, and the end of both. A connection has one
//! timer, at the earliest of its deadlines.

use lineside_time::{Nanoseconds, TimerId};

use crate::effects::{Closed, ConnectionId, Effects, Event};
use crate::record::{Active, Phase, RESTS, Record, Retransmission, State, flag};
use crate::recovery::{Frto, Rack, Sooner};
use crate::slab::NONE;
use crate::stack::Stack;

impl Stack {
    /// The larger record of a connection, taken from the pool if it has none; `None` if there is no
    /// room.
    pub(crate) fn activate(&mut self, number: u32) -> Option<&mut Active> {
        let record = self.tables.records[number];
        if let Some(active) = record.active() {
            return Some(&mut self.tables.actives[active]);
        }
        let idle_ms = (self.age_ms() as u32).wrapping_sub(record.place) & !RESTS;
        let sent_at = self.now.saturating_sub(i64::from(idle_ms) * 1_000_000);
        let place = self.tables.actives.take(Active::default)?;
        self.tables.records[number].place = place;
        let mss = self.mss_now(number);
        let active = &mut self.tables.actives[place];
        active.begin(&record, mss);
        (active.sent_at, active.waits_since) = (sent_at, self.now);
        if record.has(flag::ACK_DELAYED) && record.timer != NONE {
            active.ack_at = self.wheel.at(TimerId(record.timer));
        }
        Some(active)
    }

    /// After idle time the path is not what it was: RFC 5681, 4.1.
    pub(crate) fn restart(&mut self, number: u32) {
        let (now, rto) = (self.now, self.rto(number));
        let congestion = self.config.congestion;
        let (record, active) = self.both(number);
        let is_idle = active.snd_nxt == record.snd_una && active.ready == 0;
        if is_idle && now.saturating_sub(active.sent_at) > rto {
            congestion.on_restart(&mut active.window);
        }
    }

    /// Gives the larger record back if nothing needs it, and sets the timer.
    pub(crate) fn settle(&mut self, number: u32) {
        let began = self.began.unwrap_or(self.now);
        // An answer is likely while an acknowledgement waits for one to ride on.
        let is_spare = self.tables.actives.has_spare();
        let record = &mut self.tables.records[number];
        let Some(place) = record.active() else {
            if self.config.keep_alive_ns.is_some() && !record.has(flag::ACK_DELAYED) {
                self.set_timer(number, self.keep_alive_at());
            }
            return;
        };
        let active = &mut self.tables.actives[place];
        let delayed = record.has(flag::ACK_DELAYED).then_some(active.ack_at);
        if let Some(after) = self.config.keep_alive_ns
            && active.retransmission == Retransmission::Off
            && active.has_only_a_window(record)
        {
            let at = self.now.saturating_add(after);
            active.retransmission = Retransmission::KeepAlive(at);
        }
        if active.is_needed(record) || delayed.is_some() && is_spare {
            let limit = active.limit(record, self.config.user_timeout_ns);
            let never = Nanoseconds::MAX;
            let first = { delayed.unwrap_or(never) }
                .min(active.retransmission.at().unwrap_or(never))
                .min(active.sooner.at().unwrap_or(never))
                .min(limit.unwrap_or(never));
            self.set_timer_of_active(number, first);
            return;
        }
        let segments = |bytes: u32| u16::try_from(bytes / active.window.mss).unwrap_or(u16::MAX);
        record.cwnd = segments(active.window.cwnd).max(1);
        record.ssthresh = segments(active.window.ssthresh).max(2);
        let sent_ms = active.sent_at.saturating_sub(began) / 1_000_000;
        record.place = RESTS | sent_ms as u32;
        self.tables.free_active(place);
        self.set_timer(number, delayed.or_else(|| self.keep_alive_at()));
    }

    /// When a connection that rests from now on is asked whether its peer is there.
    fn keep_alive_at(&self) -> Option<Nanoseconds> {
        let after = self.config.keep_alive_ns?;
        Some(self.now.saturating_add(after))
    }

    /// The larger record has the deadlines: a timer that fires too early finds nothing due, and is
    /// set anew. So most acknowledgements move none.
    #[inline]
    fn set_timer_of_active(&mut self, number: u32, at: Nanoseconds) {
        let timer = self.tables.records[number].timer;
        let never = at == Nanoseconds::MAX;
        if never || timer == NONE || self.wheel.at(TimerId(timer)) > at {
            self.set_timer(number, (!never).then_some(at));
        }
    }

    pub(crate) fn set_timer(&mut self, number: u32, at: Option<Nanoseconds>) {
        let record = &mut self.tables.records[number];
        match (record.timer, at) {
            (NONE, None) => {}
            (NONE, Some(at)) => record.timer = self.wheel.insert(at, number).0,
            (timer, None) => {
                self.wheel.cancel(TimerId(timer));
                record.timer = NONE;
            }
            (timer, Some(at)) => {
                if self.wheel.at(TimerId(timer)) != at {
                    self.wheel.set(TimerId(timer), at);
                }
            }
        }
    }

    /// A connection that its owner closed waits for the peer's FIN for a bounded time.
    pub(crate) fn limit_fin_wait(&mut self, number: u32) {
        let at = self.now.saturating_add(self.config.fin_wait_2_ns);
        let (record, active) = self.both(number);
        if record.state == State::FinWait2 && record.has(flag::CLOSED) {
            active.retransmission = Retransmission::Over(at);
        }
    }

    /// Lets everything of a connection go but its path, which is returned.
    pub(crate) fn forget(&mut self, number: u32) -> u32 {
        self.set_timer(number, None);
        let record = self.tables.records[number];
        if record.state == State::SynReceived && record.has(flag::PASSIVE) {
            self.half_open -= 1;
        }
        if let Some(active) = record.active() {
            let dropped = self.drop_held(active);
            self.counters.bytes_refused += dropped;
            self.tables.free_active(active);
        }
        self.tables.remove_connection(number);
        let record = &mut self.tables.records[number];
        (record.state, record.place) = (State::Closed, RESTS);
        record.path
    }

    /// The connection is over.
    pub(crate) fn end(&mut self, number: u32, why: Closed, effects: &mut impl Effects) {
        let Record { state, owner, .. } = self.tables.records[number];
        // The owner of a listener never heard of it.
        let is_known =
            state != State::SynReceived || !self.tables.records[number].has(flag::PASSIVE);
        let path = self.forget(number);
        self.tables.release_path(path);
        if is_known {
            effects.on_event(ConnectionId(number), owner, Event::Closed(why));
        }
    }
}

impl Active {
    /// Whether bytes wait to be acknowledged, a SYN or FIN among them.
    pub(crate) fn waits(&self, record: &Record) -> bool {
        self.snd_nxt != record.snd_una || self.ready > 0
    }

    /// When what waits has waited for too long.
    pub(crate) fn limit(&self, record: &Record, most_ns: Option<i64>) -> Option<Nanoseconds> {
        let most_ns = most_ns.filter(|_| self.waits(record))?;
        Some(self.waits_since.saturating_add(most_ns))
    }

    /// For a connection at rest, or a new one.
    fn begin(&mut self, record: &Record, mss: u16) {
        let mss = record.payload_of(mss);
        self.snd_nxt = record.snd_una;
        self.ready = 0;
        // At rest nothing acceptable is older than the next byte.
        (self.snd_wl1, self.snd_wl2) = (record.rcv_nxt, record.snd_una);
        self.snd_wnd_max = record.send_window();
        self.window.begin(mss);
        if record.cwnd > 0 {
            self.window.cwnd = u32::from(record.cwnd) * mss;
            self.window.ssthresh = match record.ssthresh {
                u16::MAX => u32::MAX,
                segments => u32::from(segments) * mss,
            };
        }
        self.phase = Phase::Open;
        (self.marked_until, self.owes_cwr) = (record.snd_una, false);
        self.flight_then = 0;
        self.recover = record.snd_una;
        self.dup_acks = 0;
        self.scoreboard.begin(record.snd_una);
        self.rack = Rack::default();
        (self.frto, self.must_send) = (Frto::Off, false);
        self.timed = None;
        (self.retransmission, self.sooner) = (Retransmission::Off, Sooner::Off);
        (self.timeouts, self.unanswered) = (0, 0);
    }

    /// Whether it would rest, had its owner not chosen a window.
    fn has_only_a_window(&self, record: &Record) -> bool {
        let mut without = *record;
        without.clear(flag::WINDOW_SET);
        record.has(flag::WINDOW_SET) && !self.is_needed(&without)
    }

    /// Whether bytes are in flight, ready or missing.
    fn is_needed(&self, record: &Record) -> bool {
        let fin_waits = record.has(flag::SHUT) && !record.has(flag::FIN_SENT);
        !record.state.is_synchronized()
            || self.snd_nxt != record.snd_una
            || self.ready > 0
            || fin_waits
            || !self.held().is_empty()
            || self.fin_at().is_some()
            || record.has(flag::WINDOW_SET)
            || self.owes_cwr
            || self.retransmission != Retransmission::Off
    }
}
