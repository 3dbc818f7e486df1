//! How the window becomes smaller during fast recovery: in proportion to what is delivered, and
//! when less is in flight than will be, by slow start. RFC 6937, with its slow start reduction
//! bound.

use super::Reduction;
use crate::record::{Active, Phase, Record};

impl Reduction {
    /// A strategy that keeps its window as it is has none.
    pub(crate) fn new(flight: u32, target: u32, before: u32) -> Self {
        Self {
            flight: if target < before { flight.max(1) } else { 0 },
            target,
            delivered: 0,
            sent: 0,
        }
    }

    /// The window, once these are delivered and `pipe` are in flight: RFC 6937, 3. Only what is
    /// safe, as it advances and finds no further loss, lets it grow: RFC 9937, 6.2.
    fn window(&mut self, delivered: u32, pipe: u32, mss: u32, is_safe: bool) -> u32 {
        self.delivered += delivered;
        let more = if pipe > self.target {
            let share = u64::from(self.delivered) * u64::from(self.target);
            let share = share.div_ceil(u64::from(self.flight)) as u32;
            share.saturating_sub(self.sent)
        } else {
            let behind = self.delivered.saturating_sub(self.sent);
            let most = match is_safe {
                true => behind.max(delivered) + mss,
                false => behind,
            };
            (self.target - pipe).min(most)
        };
        pipe + more
    }
}

impl Active {
    /// The window follows what is delivered.
    pub(crate) fn follow(&mut self, record: &Record, delivered: u32, is_safe: bool) {
        let (pipe, mss) = (self.pipe(record), self.window.mss);
        let reduction = &mut self.rare_mut().reduction;
        if reduction.flight > 0 {
            self.window.cwnd = reduction.window(delivered, pipe, mss, is_safe);
        }
    }

    /// Bytes leave, perhaps during recovery.
    pub(crate) fn count_in_recovery(&mut self, bytes: u32) {
        if self.phase == Phase::Recovery {
            let sent = &mut self.rare_mut().reduction.sent;
            *sent = sent.saturating_add(bytes);
        }
    }

    /// The recovery is over.
    pub(crate) fn end_reduction(&mut self) {
        let reduction = self.rare_mut().reduction;
        if reduction.flight > 0 {
            self.window.cwnd = reduction.target;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each acknowledgement delivers a segment; what the window allows leaves, `lost` of the flight
    /// first. Returns what was in flight after each.
    fn recovery(flight: u32, lost: u32, ssthresh: u32) -> Vec<u32> {
        let mut reduction = Reduction::new(flight, ssthresh, flight);
        let mut pipe = flight - lost;
        let acknowledgements = flight - lost;
        let each = (0..acknowledgements).map(|_| {
            pipe -= 1;
            let sent = reduction.window(1, pipe, 1, true) - pipe;
            reduction.sent += sent;
            pipe += sent;
            pipe
        });
        each.collect()
    }

    #[test]
    fn the_window_is_halved_over_a_round_trip() {
        // RFC 6937, 4, figure 1: a loss of 20, and ten more leave, on every second one.
        let pipes = recovery(20, 1, 10);
        assert_eq!(*pipes.last().expect("some"), 10);
        assert!(
            pipes.windows(2).all(|two| two[0].abs_diff(two[1]) <= 1),
            "{pipes:?}"
        );
    }

    #[test]
    fn after_many_losses_it_grows_as_in_slow_start() {
        // RFC 6937, 4, figure 2: 15 of 20 are lost. Two segments for each that arrives.
        let pipes = recovery(20, 15, 10);
        assert_eq!(pipes, [6, 7, 8, 9, 10]);
    }
}
