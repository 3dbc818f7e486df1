//! A window that grows by a cubic function of the time since the last loss: RFC 9438. Hystart and
//! the shift of an epoch by idle time (4.2, 5.8) are not here: after idle time a connection begins
//! a new epoch.

use super::{Acknowledged, Congestion, Epoch, Window};

/// RFC 9438, 4.1: C, in segments for a second cubed.
const C: f64 = 0.4;
/// RFC 9438, 4.6: what is left of the window after a loss.
const BETA: f64 = 0.7;
/// RFC 9438, 4.3: the additive increase that is as fast as Reno's with its half.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// RFC 9438.
#[derive(Debug)]
pub struct Cubic;

/// The strategy of RFC 9438.
pub static CUBIC: Cubic = Cubic;

impl Cubic {
    /// RFC 9438, 4.6 and 4.7: the function's plateau, and what is left.
    fn reduce(window: &mut Window, flight: u32) {
        let mss = f64::from(window.mss);
        let cwnd = f64::from(window.cwnd) / mss;
        window.has_epoch = true;
        let epoch = &mut window.epoch;
        // Fast convergence: who has less than before leaves room for others.
        epoch.w_max = match cwnd < epoch.w_max {
            true => cwnd * (1.0 + BETA) / 2.0,
            false => cwnd,
        };
        epoch.prior = cwnd;
        epoch.began_ns = None;
        window.ssthresh = ((f64::from(flight) * BETA) as u32).max(2 * window.mss);
    }
}

impl Epoch {
    /// RFC 9438, 4.2: the function, `t` seconds into the epoch.
    fn cubic(&self, t: f64) -> f64 {
        C * (t - self.k).powi(3) + self.w_max
    }

    fn begin(&mut self, now_ns: i64, cwnd: f64) {
        self.began_ns = Some(now_ns);
        (self.cwnd, self.w_est) = (cwnd, cwnd);
        if self.w_max <= cwnd {
            // Nothing is known above: RFC 9438, 4.8 and 4.10.
            (self.w_max, self.k) = (cwnd, 0.0);
        } else {
            self.k = ((self.w_max - cwnd) / C).cbrt();
        }
    }
}

impl Congestion for Cubic {
    fn on_acknowledged(&self, window: &mut Window, by: Acknowledged) {
        if window.cwnd < window.ssthresh {
            window.slow_start(by.bytes);
            return;
        }
        let mss = f64::from(window.mss);
        window.has_epoch = true;
        let epoch = &mut window.epoch;
        let began_ns = match epoch.began_ns {
            Some(began_ns) => began_ns,
            None => {
                epoch.begin(by.now_ns, f64::from(window.cwnd) / mss);
                by.now_ns
            }
        };
        let t = by.now_ns.saturating_sub(began_ns) as f64 / 1e9;
        let segments = f64::from(by.bytes) / mss;
        // RFC 9438, 4.3: alpha is that of Reno once its window is that before the loss.
        let alpha = if epoch.w_est < epoch.prior {
            ALPHA
        } else {
            1.0
        };
        epoch.w_est += alpha * segments / epoch.cwnd;
        if epoch.cubic(t) < epoch.w_est {
            epoch.cwnd = epoch.cwnd.max(epoch.w_est);
        } else {
            // RFC 9438, 4.4 and 4.5: towards the function a round trip ahead.
            let ahead = epoch.cubic(t + by.round_trip_ns as f64 / 1e9);
            let target = ahead.clamp(epoch.cwnd, 1.5 * epoch.cwnd);
            epoch.cwnd += (target - epoch.cwnd) / epoch.cwnd * segments;
        }
        window.cwnd = (epoch.cwnd * mss).min(f64::from(1 << 30)) as u32;
    }

    fn on_loss(&self, window: &mut Window, flight: u32) {
        Self::reduce(window, flight);
        window.cwnd = window.ssthresh;
    }

    fn on_timeout(&self, window: &mut Window, flight: u32, is_first: bool) {
        if is_first {
            Self::reduce(window, flight);
            // RFC 9438, 4.8: the function begins where slow start ends.
            window.epoch.w_max = 0.0;
        }
        window.cwnd = window.mss;
    }

    fn on_restart(&self, window: &mut Window) {
        window.restart();
        if window.has_epoch {
            window.epoch.began_ns = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;

    /// Round trips of this long, in which the whole window is acknowledged.
    fn avoid(
        window: &mut Window,
        round_trip_ns: i64,
        until_ns: i64,
        mut see: impl FnMut(f64, f64),
    ) {
        let mut now_ns = 0;
        while now_ns < until_ns {
            let segments = window.cwnd / MSS;
            for at in 0..segments {
                let by = Acknowledged {
                    bytes: MSS,
                    now_ns: now_ns + round_trip_ns * i64::from(at) / i64::from(segments),
                    round_trip_ns,
                };
                Cubic.on_acknowledged(window, by);
            }
            now_ns += round_trip_ns;
            see(now_ns as f64 / 1e9, f64::from(window.cwnd) / f64::from(MSS));
        }
    }

    #[test]
    fn a_window_follows_the_function_of_its_rfc() {
        let mut window = Window::new(MSS);
        window.cwnd = 1000 * MSS;
        Cubic.on_loss(&mut window, 1000 * MSS);
        assert_eq!((window.cwnd, window.ssthresh), (700 * MSS, 700 * MSS));
        // RFC 9438, figure 2: K = cbrt(300 / 0.4), 9.1 s.
        let k = 750_f64.cbrt();
        avoid(&mut window, 100_000_000, 15_000_000_000, |t, cwnd| {
            let expected = C * (t - k).powi(3) + 1000.0;
            assert!(
                (cwnd / expected - 1.0).abs() < 0.02,
                "{cwnd} {expected} at {t}"
            );
        });
    }

    #[test]
    fn a_short_path_has_at_least_the_window_of_reno() {
        let mut window = Window::new(MSS);
        window.cwnd = 20 * MSS;
        Cubic.on_loss(&mut window, 20 * MSS);
        avoid(&mut window, 1_000_000, 200_000_000, |t, cwnd| {
            // RFC 9438, 4.3: 0.53 segments a round trip up to what was lost, then 1.
            let trips = t * 1000.0;
            let knee = (20.0 - 14.0) / ALPHA;
            let expected = 14.0 + ALPHA * trips.min(knee) + (trips - knee).max(0.0);
            assert!(
                (cwnd / expected - 1.0).abs() < 0.1,
                "{cwnd} {expected} at {t}"
            );
        });
    }

    #[test]
    fn a_second_loss_below_the_first_leaves_room() {
        let mut window = Window::new(MSS);
        window.cwnd = 100 * MSS;
        Cubic.on_loss(&mut window, 100 * MSS);
        Cubic.on_loss(&mut window, 70 * MSS);
        assert!((window.epoch.w_max - 70.0 * 0.85).abs() < 1e-9);
        Cubic.on_timeout(&mut window, 49 * MSS, true);
        assert_eq!((window.cwnd, window.ssthresh), (MSS, 34_300));
    }
}
