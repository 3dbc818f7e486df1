//! What was sent again for nothing. D-SACK says which segments arrived twice (RFC 2883; RFC 3708),
//! F-RTO finds that what was in flight at a timeout arrives after all (RFC 5682). The window is
//! then what it was.

use lineside_wire::SeqNumber;

use super::{Frto, News, Undo};
use crate::congestion::Window;
use crate::record::{Active, flag};
use crate::stack::Stack;

impl Undo {
    pub(crate) fn new(from: SeqNumber, window: Window) -> Self {
        Self {
            from,
            again: 0,
            window,
        }
    }
}

impl Active {
    /// Bytes leave again.
    pub(crate) fn count_again(&mut self, bytes: u32) {
        if let Some(undo) = &mut self.rare_mut().undo {
            undo.again = undo.again.saturating_add(bytes);
        }
    }

    /// Nothing was lost: the window is what it was, and what is in flight is not sent again.
    fn undo(&mut self) {
        if let Some(undo) = self.rare_mut().undo.take() {
            self.window = Window {
                mss: self.window.mss,
                cwnd: self.window.cwnd.max(undo.window.cwnd),
                ssthresh: self.window.ssthresh.max(undo.window.ssthresh),
                ..undo.window
            };
        }
        self.scoreboard.find_all();
        self.open();
    }
}

impl Stack {
    /// What the peer says that it received twice.
    pub(super) fn take_report(&mut self, number: u32, news: &News) {
        let Some((start, end)) = news.duplicate else {
            return;
        };
        self.counters.dsack_received += 1;
        let (record, active) = self.both(number);
        active.rack.widen(record.snd_una, active.snd_nxt);
        if active.probe().is_some_and(|probe| probe.repeats(end)) {
            return;
        }
        let Some(undo) = &mut active.rare_mut().undo else {
            return;
        };
        if undo.again == 0 || !end.is_after(undo.from) {
            return;
        }
        undo.again = undo.again.saturating_sub(end.bytes_from(start));
        let is_all = undo.again == 0;
        if is_all {
            active.undo();
        }
        self.counters.spurious += 1;
        self.counters.undone_dsack += u64::from(is_all);
    }

    /// Whether what was in flight at a timeout arrives after all.
    pub(super) fn judge_timeout(&mut self, number: u32, news: &News, is_duplicate: bool) {
        let (record, active) = self.both(number);
        let is_advance = news.is_advance(record);
        if active.frto == Frto::Off || !is_advance && !is_duplicate {
            return;
        }
        // Without selective acknowledgements what was sent again may have let through what came
        // before: RFC 5682, 2.1, step 3.
        let is_original = match record.has(flag::SACK) {
            true => news.has_original,
            false => is_advance && !news.has_again,
        };
        active.frto = match active.frto {
            Frto::First if is_advance => Frto::SendsNew,
            Frto::Waits if is_original => {
                active.undo();
                self.counters.spurious_timeouts += 1;
                return;
            }
            Frto::Waits => {
                // The new data are still in flight: RFC 5682, 2.1, step 3a.
                active.window.cwnd = active.window.cwnd.max(3 * active.window.mss);
                Frto::Off
            }
            _ => Frto::Off,
        };
    }
}
