//! Slow start, congestion avoidance and the halving after a loss: RFC 5681, 3.1 and 3.2; RFC 6582
//! has what recovery is; bytes are counted as in RFC 3465, 2.

use super::{Acknowledged, Congestion, Window};

/// RFC 5681 and RFC 6582.
#[derive(Debug)]
pub struct NewReno;

/// The standard strategy: RFC 5681 and RFC 6582.
pub static NEW_RENO: NewReno = NewReno;

impl Congestion for NewReno {
    fn on_acknowledged(&self, window: &mut Window, by: Acknowledged) {
        if window.cwnd < window.ssthresh {
            window.slow_start(by.bytes);
            return;
        }
        window.acked = window.acked.saturating_add(by.bytes);
        if window.acked >= window.cwnd {
            window.acked -= window.cwnd;
            window.cwnd = window.cwnd.saturating_add(window.mss);
        }
    }

    fn on_loss(&self, window: &mut Window, flight: u32) {
        // RFC 5681, equation 4.
        window.ssthresh = (flight / 2).max(2 * window.mss);
        window.cwnd = window.ssthresh;
        window.acked = 0;
    }

    fn on_timeout(&self, window: &mut Window, flight: u32, is_first: bool) {
        if is_first {
            window.ssthresh = (flight / 2).max(2 * window.mss);
        }
        window.cwnd = window.mss;
        window.acked = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_doubles_then_grows_by_a_segment_a_round_trip() {
        let mut window = Window::new(1000);
        assert_eq!(window.cwnd, 10_000);
        window.ssthresh = 40_000;
        for expected in [20_000, 40_000, 41_000, 42_000] {
            // An acknowledgement for every second segment of the window.
            for _ in 0..window.cwnd / 2000 {
                let by = Acknowledged {
                    bytes: 2000,
                    now_ns: 0,
                    round_trip_ns: 0,
                };
                NewReno.on_acknowledged(&mut window, by);
            }
            let rest = window.cwnd.abs_diff(expected);
            assert!(rest <= 1000, "{} {expected}", window.cwnd);
        }
    }

    #[test]
    fn a_loss_halves_and_a_timeout_begins_anew() {
        let mut window = Window::new(1000);
        NewReno.on_loss(&mut window, 30_000);
        assert_eq!((window.cwnd, window.ssthresh), (15_000, 15_000));
        NewReno.on_timeout(&mut window, 12_000, true);
        assert_eq!((window.cwnd, window.ssthresh), (1000, 6000));
        NewReno.on_timeout(&mut window, 1000, false);
        assert_eq!((window.cwnd, window.ssthresh), (1000, 6000));
        NewReno.on_loss(&mut window, 1);
        assert_eq!(window.cwnd, 2000, "two segments at least");
    }
}
