//! A window that never moves: for a load whose departures no network may decide. RFC 5681 forbids
//! it on networks that are shared.

use super::{Acknowledged, Congestion, Window};

/// So many bytes in flight, whatever happens.
#[derive(Debug)]
pub struct Fixed(pub u32);

impl Congestion for Fixed {
    fn on_acknowledged(&self, window: &mut Window, _: Acknowledged) {
        window.cwnd = self.0.max(window.mss);
    }

    fn on_loss(&self, window: &mut Window, _: u32) {
        window.cwnd = self.0.max(window.mss);
    }

    fn on_timeout(&self, window: &mut Window, _: u32, _: bool) {
        window.cwnd = self.0.max(window.mss);
    }

    fn on_restart(&self, window: &mut Window) {
        window.cwnd = self.0.max(window.mss);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_a_fixed_window() {
        let mut window = Window::new(1000);
        let fixed = Fixed(50_000);
        let by = Acknowledged {
            bytes: 1,
            now_ns: 0,
            round_trip_ns: 0,
        };
        fixed.on_acknowledged(&mut window, by);
        assert_eq!(window.cwnd, 50_000);
        fixed.on_loss(&mut window, 10_000);
        fixed.on_timeout(&mut window, 10_000, true);
        assert_eq!(window.cwnd, 50_000);
    }
}
