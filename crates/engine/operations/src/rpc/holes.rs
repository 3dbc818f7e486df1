//! Rows of `losses` for holes in streams: one for each, as long as these are few. A flood of holes
//! would fill the disk with its rows, so that beyond a rate the holes of a second become one row
//! for each cause and input, with the sum of their bytes.

use lineside_account::{Counter, Counters};
use lineside_rows::LossRow;

/// Rows a second of the capture's time, and at once. A guess: 1,000 rows a second are some 10 KB,
/// under 1 GB a day; a short capture has a row for each of its holes.
const ROWS_PER_S: i64 = 1_000;
const ROWS_AT_ONCE: i64 = 1 << 16;
const SECOND_NS: i64 = 1_000_000_000;
/// Pairs of cause and input that are summed within a second; those beyond have rows of their own.
const MERGED_MAX: usize = 64;

/// Which holes become rows of their own, and those that do not.
#[derive(Debug)]
pub(super) struct HoleRows {
    /// Rows that may be written, each as this many nanoseconds.
    credit_ns: i64,
    at_ns: i64,
    /// Of the second that began at `since_ns`: a row for each cause and input.
    merged: Vec<LossRow>,
    since_ns: i64,
    /// Holes that were merged since they were counted last.
    uncounted: u64,
}

/// What a row costs of a second.
const ROW_NS: i64 = SECOND_NS / ROWS_PER_S;

impl HoleRows {
    /// None so far.
    pub(super) fn new() -> Self {
        Self {
            credit_ns: ROWS_AT_ONCE * ROW_NS,
            at_ns: i64::MIN,
            merged: Vec::new(),
            since_ns: 0,
            uncounted: 0,
        }
    }

    /// Whether the hole in `row`, at `now`, is to be a row of its own. If not, it is part of a
    /// merged one.
    pub(super) fn takes(&mut self, now: i64, row: &LossRow) -> bool {
        let passed_ns = now.saturating_sub(self.at_ns).max(0);
        self.at_ns = now;
        let credit_ns = self.credit_ns.saturating_add(passed_ns);
        self.credit_ns = credit_ns.min(ROWS_AT_ONCE * ROW_NS);
        if self.credit_ns >= ROW_NS {
            self.credit_ns -= ROW_NS;
            return true;
        }
        let is_same = |merged: &LossRow| (merged.cause, merged.input) == (row.cause, row.input);
        if let Some(at) = self.merged.iter().position(is_same) {
            let merged = &mut self.merged[at];
            merged.bytes = Some(merged.bytes.unwrap_or(0) + row.bytes.unwrap_or(0));
        } else if self.merged.len() == MERGED_MAX {
            return true;
        } else {
            if self.merged.is_empty() {
                self.since_ns = now;
            }
            self.merged.push(LossRow {
                time_ns: row.time_ns,
                bytes: row.bytes,
                cause: row.cause,
                input: row.input,
                ..LossRow::default()
            });
        }
        self.uncounted += 1;
        false
    }

    /// Whether the merged rows of a second are due at `now`.
    #[inline]
    pub(super) fn are_due(&self, now: i64) -> bool {
        !self.merged.is_empty() && now.saturating_sub(self.since_ns) >= SECOND_NS
    }

    /// Counts what was merged since the last call.
    #[inline]
    pub(super) fn count(&mut self, counters: &mut Counters) {
        counters.add(Counter::HolesMerged, std::mem::take(&mut self.uncounted));
    }

    /// Takes the merged rows.
    pub(super) fn take(&mut self) -> Vec<LossRow> {
        std::mem::take(&mut self.merged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hole(cause: &'static str, bytes: i64) -> LossRow {
        LossRow {
            connection_id: Some(1),
            direction: Some("client_to_server"),
            time_ns: Some(5),
            first_byte: Some(7),
            bytes: Some(bytes),
            cause: Some(cause),
            input: Some(0),
            ..LossRow::default()
        }
    }

    #[test]
    fn a_flood_of_holes_is_a_row_a_cause_a_second_and_no_byte_less() {
        const HOLES: i64 = 1_000_000;
        let (mut rows, mut counters) = (HoleRows::new(), Counters::new());
        let (mut own, mut merged, mut bytes) = (0, 0, 0);
        for at in 0..HOLES {
            // Ten seconds, each hole of at + 1 bytes.
            let now = at * 10_000;
            if rows.are_due(now) {
                let taken = rows.take();
                merged += taken.len() as i64;
                bytes += taken.iter().filter_map(|row| row.bytes).sum::<i64>();
            }
            let cause = ["not_seen", "given_up"][(at % 2) as usize];
            if rows.takes(now, &hole(cause, at + 1)) {
                own += 1;
                bytes += at + 1;
            }
        }
        assert!(!rows.are_due(HOLES * 10_000));
        let last = rows.take();
        bytes += last.iter().filter_map(|row| row.bytes).sum::<i64>();
        assert!(last.iter().all(|row| row.connection_id.is_none()));
        assert_eq!(bytes, HOLES * (HOLES + 1) / 2);
        assert!(
            (0..=ROWS_PER_S * 10).contains(&(own - ROWS_AT_ONCE)),
            "{own}"
        );
        assert!((1..=20).contains(&merged), "{merged}");
        rows.count(&mut counters);
        let counted = counters.value(Counter::HolesMerged);
        assert_eq!(counted, (HOLES - own).cast_unsigned());
    }

    #[test]
    fn a_thousand_holes_a_second_are_rows_of_their_own() {
        let mut rows = HoleRows::new();
        for at in 0..200_000 {
            assert!(rows.takes(at * ROW_NS, &hole("not_seen", 1)));
        }
        assert!(rows.take().is_empty());
    }
}
