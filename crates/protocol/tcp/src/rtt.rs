//! Round trip times and the retransmission timeout: RFC 6298.

use lineside_time::Nanoseconds;

use crate::config::Config;
use crate::record::Record;

/// Of the unit in which a record has them, an eighth of a microsecond.
const UNIT_NS: i64 = 125;
/// Before the first measurement: RFC 6298, 2.1.
const INITIAL_NS: i64 = 1_000_000_000;
/// The same after a SYN was lost: RFC 6298, 5.7.
const PATIENT_NS: i64 = 3_000_000_000;

impl Record {
    /// A round trip was measured: RFC 6298, 2.2 and 2.3.
    pub(crate) fn measure(&mut self, rtt_ns: Nanoseconds) {
        let rtt = (rtt_ns.max(0) / UNIT_NS).clamp(1, i64::from(u32::MAX / 8)) as u32;
        if self.srtt == 0 {
            (self.srtt, self.rttvar) = (rtt, rtt / 2);
            return;
        }
        let delta = self.srtt.abs_diff(rtt);
        // RTTVAR first, by the old SRTT: beta = 1/4, alpha = 1/8.
        self.rttvar = self.rttvar - self.rttvar / 4 + delta / 4;
        self.srtt = (self.srtt - self.srtt / 8 + rtt / 8).max(1);
    }

    /// The SYN, or the answer to one, was sent again: until a round trip is measured the timeout is
    /// longer than that was. RFC 6298, 5.7.
    pub(crate) fn be_patient(&mut self) {
        if self.srtt == 0 {
            self.rttvar = (PATIENT_NS / UNIT_NS) as u32;
        }
    }

    /// The smoothed round trip; 0 before the first measurement.
    pub(crate) fn round_trip_ns(&self) -> Nanoseconds {
        i64::from(self.srtt) * UNIT_NS
    }

    /// The timeout after this many in a row: RFC 6298, 2.3 to 2.5 and 5.5.
    pub(crate) fn rto_ns(&self, config: &Config, timeouts: u8) -> Nanoseconds {
        let measured = match self.srtt {
            0 => INITIAL_NS.max(i64::from(self.rttvar) * UNIT_NS),
            srtt => (i64::from(srtt) + 4 * i64::from(self.rttvar)) * UNIT_NS,
        };
        let bounded = measured.clamp(config.rto_min_ns, config.rto_max_ns);
        let doubled = bounded.saturating_mul(1 << timeouts.min(30));
        doubled.min(config.rto_max_ns)
    }
}
