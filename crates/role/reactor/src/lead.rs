use lineside_measure::Times;
use lineside_time::Nanoseconds;

/// The longest lead: frames leave by at most so much too early.
pub(crate) const LEAD_MAX_NS: i64 = 20_000;
/// A step of a running median: from 0 to 20 us takes 400 frames.
const STEP_NS: i64 = 50;

/// How much before its instant a release begins, so that half of the frames are handed over before
/// it.
#[derive(Debug, Default)]
pub(crate) struct Lead {
    lead_ns: i64,
    /// The running median of the time from a call that sends to the stamp of its first frame.
    usual_ns: Option<i64>,
    pub(crate) hand_over: Times,
}

impl Lead {
    pub(crate) fn ns(&self) -> i64 {
        self.lead_ns
    }

    /// What the calibration found: the usual time of a call that sends, and the lead to begin with.
    pub(crate) fn calibrate(&mut self, usual_ns: i64, lead_ns: i64) {
        self.usual_ns = Some(usual_ns);
        self.lead_ns = lead_ns.min(LEAD_MAX_NS);
    }

    /// The usual time from a call that sends to the hand-over of its first frame; `otherwise` as
    /// long as none is known.
    pub(crate) fn usual_ns(&self, otherwise: i64) -> i64 {
        self.usual_ns.unwrap_or(otherwise)
    }

    /// A call that began at `asked_ns` handed its first frame over at `stamp_ns`, if the kernel
    /// stamped it. `otherwise` as for [`usual_ns`](Self::usual_ns).
    pub(crate) fn on_stamp(
        &mut self,
        asked_ns: Nanoseconds,
        stamp_ns: Option<Nanoseconds>,
        otherwise: Option<i64>,
    ) {
        self.usual_ns = self.usual_ns.or(otherwise);
        let Some(stamp_ns) = stamp_ns else { return };
        let taken_ns = stamp_ns - asked_ns;
        self.hand_over.record(taken_ns);
        self.usual_ns = Some(step(self.usual_ns.unwrap_or(taken_ns), taken_ns));
    }

    /// A frame was handed over so much after its instant.
    pub(crate) fn on_late(&mut self, late_ns: i64) {
        self.lead_ns = step(self.lead_ns, self.lead_ns + late_ns).clamp(0, LEAD_MAX_NS);
    }
}

/// A step of a running median towards a new value.
fn step(median_ns: i64, new_ns: i64) -> i64 {
    median_ns + (new_ns - median_ns).signum() * STEP_NS
}
