//! How the congestion window moves: one trait, a strategy a file. What is in flight, what is lost
//! and when recovery begins and ends is not known here.

mod cubic;
mod fixed;
mod new_reno;

use std::fmt::Debug;

use lineside_wire::SeqNumber;

pub use cubic::{CUBIC, Cubic};
pub use fixed::Fixed;
pub use new_reno::{NEW_RENO, NewReno};

/// The congestion window of a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
pub struct Window {
    /// Bytes that may be in flight.
    pub cwnd: u32,
    /// Below it the window grows by slow start.
    pub ssthresh: u32,
    /// Bytes acknowledged since it grew last, in congestion avoidance.
    pub acked: u32,
    /// The most payload of a segment.
    pub mss: u32,
    /// Whether `epoch` is not as it begins: it is looked at for nothing else.
    pub(crate) has_epoch: bool,
    /// Whether half of it was in flight once, and the sequence number after what was sent then.
    pub(crate) was_used: bool,
    pub(crate) used_until: SeqNumber,
    /// What [`Cubic`] remembers.
    pub epoch: Epoch,
}

/// What [`Cubic`] remembers of the last loss; in segments and seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Epoch {
    /// When congestion avoidance began; `None` before that.
    began_ns: Option<i64>,
    /// The window before the last loss, or less if that was lost sooner than the one before.
    w_max: f64,
    /// Until the function reaches that.
    k: f64,
    /// The window that Reno would have.
    w_est: f64,
    /// The window when the last loss was found.
    prior: f64,
    /// The window with its fraction.
    cwnd: f64,
}

/// Bytes that were acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledged {
    /// How many.
    pub bytes: u32,
    /// When.
    pub now_ns: i64,
    /// The smoothed round trip.
    pub round_trip_ns: i64,
}

impl Window {
    /// That of a new connection: RFC 6928, 2.
    pub fn new(mss: u32) -> Self {
        Self {
            cwnd: Self::initial(mss),
            ssthresh: u32::MAX,
            acked: 0,
            mss,
            has_epoch: false,
            was_used: false,
            used_until: SeqNumber(0),
            epoch: Epoch::default(),
        }
    }

    /// Becomes that of a new connection.
    pub(crate) fn begin(&mut self, mss: u32) {
        (self.cwnd, self.ssthresh) = (Self::initial(mss), u32::MAX);
        (self.acked, self.mss, self.was_used) = (0, mss, false);
        if std::mem::take(&mut self.has_epoch) {
            self.epoch = Epoch::default();
        }
    }

    /// The initial window: RFC 6928, 2.
    pub fn initial(mss: u32) -> u32 {
        (10 * mss).min((2 * mss).max(14_600))
    }

    /// Whether the sender uses it, as what is acknowledged up to `ack` shows, before which `flight`
    /// bytes up to `snd_nxt` were in flight: a window that was half full is in use until all that
    /// was in flight then is acknowledged, also where nothing follows. So counts Linux
    /// (`max_packets_out`); RFC 7661, 4.2 takes what was acknowledged within a round trip.
    pub(crate) fn is_used(&mut self, ack: SeqNumber, flight: u32, snd_nxt: SeqNumber) -> bool {
        if flight >= self.cwnd / 2 {
            (self.was_used, self.used_until) = (true, snd_nxt);
        } else if ack.is_after(self.used_until) {
            self.was_used = false;
        }
        self.was_used
    }

    /// All that is acknowledged counts, not RFC 3465's two segments for an acknowledgement: a
    /// receiver that takes bursts acknowledges bursts, and the window is to double all the same.
    fn slow_start(&mut self, bytes: u32) {
        self.cwnd = self.cwnd.saturating_add(bytes);
    }

    /// RFC 5681, 4.1.
    fn restart(&mut self) {
        self.cwnd = self.cwnd.min(Self::initial(self.mss));
    }
}

/// A strategy.
pub trait Congestion: Debug + Sync {
    /// Bytes were acknowledged, outside fast recovery, while the window was in use.
    fn on_acknowledged(&self, window: &mut Window, by: Acknowledged);
    /// Segments are lost while `flight` bytes are in flight: fast recovery begins.
    fn on_loss(&self, window: &mut Window, flight: u32);
    /// The retransmission timer expired. `is_first`: for the first time since data were
    /// acknowledged.
    fn on_timeout(&self, window: &mut Window, flight: u32, is_first: bool);
    /// Data are to be sent after idle time, longer than a timeout: RFC 5681, 4.1.
    fn on_restart(&self, window: &mut Window) {
        window.restart();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last acknowledgements of a message count, those of small ones after it do not.
    #[test]
    fn a_window_is_used_until_what_filled_it_is_acknowledged() {
        let mut window = Window::new(1_000);
        let n = |bytes: u32| SeqNumber(bytes.wrapping_sub(5_000));
        assert_eq!(window.cwnd, 10_000);
        assert!(!window.is_used(n(1_000), 1_000, n(1_000)));
        for (ack, flight) in [(3_000, 8_000), (6_000, 6_000), (9_000, 3_000)] {
            assert!(window.is_used(n(ack), flight, n(9_000)), "{ack}");
        }
        for ack in [10_000, 11_000] {
            assert!(!window.is_used(n(ack), 1_000, n(ack)), "{ack}");
        }
    }
}
