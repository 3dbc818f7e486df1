//! What the receiver has of the data in flight, by its selective acknowledgements: RFC 2018, 4 and
//! RFC 6675, 3 and 4.

use lineside_wire::SeqNumber;

/// Ranges that are kept: of what a receiver reports beyond them nothing is known, which is as if it
/// had not come.
const RANGES_MAX: usize = 64;
/// Ranges or segments above a byte that show its loss: RFC 6675, 2.
const DUP_THRESH: usize = 3;

/// Ranges above the cumulative acknowledgement that the receiver has: apart, in their order.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    ranges: Vec<(SeqNumber, SeqNumber)>,
}

impl Scoreboard {
    /// Forgets all: after a timeout the receiver may have dropped what it reported (RFC 2018, 8).
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Everything before `una` is acknowledged.
    pub(crate) fn acknowledge(&mut self, una: SeqNumber) {
        let before = self
            .ranges
            .iter()
            .take_while(|range| !range.1.is_after(una));
        let count = before.count();
        self.ranges.drain(..count);
        if let Some(first) = self.ranges.first_mut()
            && first.0.is_before(una)
        {
            first.0 = una;
        }
    }

    /// Where the ranges are: whoever adds one makes room for it.
    pub(crate) fn list(&mut self) -> &mut Vec<(SeqNumber, SeqNumber)> {
        &mut self.ranges
    }

    /// The receiver has `start..end`, which lies between `una` and `nxt`; returns whether that is
    /// news.
    pub(crate) fn add(&mut self, start: SeqNumber, end: SeqNumber) -> bool {
        let from = { self.ranges.iter() }
            .take_while(|range| range.1.is_before(start))
            .count();
        let joined = { self.ranges[from..].iter() }
            .take_while(|range| !range.0.is_after(end))
            .count();
        if joined == 0 {
            if self.ranges.len() == RANGES_MAX {
                return false;
            }
            self.ranges.insert(from, (start, end));
            return true;
        }
        let (first, last) = (self.ranges[from], self.ranges[from + joined - 1]);
        let whole = (earlier(first.0, start), later(last.1, end));
        if joined == 1 && whole == first {
            return false;
        }
        self.ranges[from] = whole;
        self.ranges.drain(from + 1..from + joined);
        true
    }

    /// Bytes of `start..end` that the receiver has.
    pub(crate) fn bytes_within(&self, start: SeqNumber, end: SeqNumber) -> u32 {
        let within = self.ranges.iter().map(|&(from, to)| {
            let (from, to) = (later(from, start), earlier(to, end));
            to.distance_from(from).max(0).cast_unsigned()
        });
        within.sum()
    }

    /// What the receiver lacks before this byte is lost: RFC 6675, 4, IsLost.
    pub(crate) fn lost_before(&self, mss: u32) -> Option<SeqNumber> {
        let mut bytes = 0;
        let ranges = self.ranges.iter().rev().enumerate();
        for (above, &(start, end)) in ranges {
            bytes += end.bytes_from(start);
            if above + 1 >= DUP_THRESH || bytes > (DUP_THRESH as u32 - 1) * mss {
                return Some(start);
            }
        }
        None
    }

    /// The first gap at or after `from` and before `end`: where it begins and ends.
    pub(crate) fn gap(&self, from: SeqNumber, end: SeqNumber) -> Option<(SeqNumber, SeqNumber)> {
        let mut start = from;
        for &(first, last) in &self.ranges {
            if !last.is_after(start) {
                continue;
            }
            if first.is_after(start) {
                break;
            }
            start = last;
        }
        let next = self.ranges.iter().map(|range| range.0);
        let stop = { next }
            .filter(|first| first.is_after(start))
            .fold(end, earlier);
        stop.is_after(start).then_some((start, stop))
    }
}

pub(crate) fn earlier(one: SeqNumber, other: SeqNumber) -> SeqNumber {
    if other.is_before(one) { other } else { one }
}

pub(crate) fn later(one: SeqNumber, other: SeqNumber) -> SeqNumber {
    if other.is_after(one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_scoreboard_knows_what_a_map_of_bytes_knows(
            base in any::<u32>(), una in 0_usize..200,
            blocks in proptest::collection::vec((0_usize..190, 1_usize..30), 0..30),
            probe in (0_usize..200, 0_usize..200),
        ) {
            let at = |offset: usize| SeqNumber(base) + offset as u32;
            let mut board = Scoreboard::default();
            let mut has = [false; 220];
            for (start, len) in blocks {
                let is_news = has[start..start + len].iter().any(|&byte| !byte);
                has[start..start + len].fill(true);
                prop_assert_eq!(board.add(at(start), at(start + len)), is_news);
            }
            board.acknowledge(at(una));
            has[..una].fill(false);
            let count = has.iter().filter(|&&byte| byte).count();
            prop_assert_eq!(board.bytes_within(at(0), at(220)), count as u32);
            prop_assert_eq!(board.ranges.is_empty(), count == 0);
            let (from, to) = (probe.0.min(probe.1).max(una), probe.0.max(probe.1).max(una));
            let within = has[from..to].iter().filter(|&&byte| byte).count();
            prop_assert_eq!(board.bytes_within(at(from), at(to)), within as u32);
            let gap = (from..to).find(|&offset| !has[offset]).map(|start| {
                let stop = (start..to).find(|&offset| has[offset]).unwrap_or(to);
                (at(start), at(stop))
            });
            prop_assert_eq!(board.gap(at(from), at(to)), gap);
            // A byte is lost if three ranges lie above it, or more than two segments of 10 bytes.
            let lost = |offset: usize| {
                let above = &has[offset..];
                let bytes = above.iter().filter(|&&byte| byte).count();
                let begins = |at: usize| above[at] && (at == 0 || !above[at - 1]);
                let ranges = (0..above.len()).filter(|&at| begins(at)).count();
                ranges >= 3 || bytes > 20
            };
            let edge = board.lost_before(10);
            for offset in (una..220).filter(|&offset| !has[offset]) {
                prop_assert_eq!(edge.is_some_and(|edge| at(offset).is_before(edge)), lost(offset));
            }
        }
    }

    #[test]
    fn a_scoreboard_is_bounded() {
        let mut board = Scoreboard::default();
        let news = (0..1000).filter(|&at| board.add(SeqNumber(at * 10), SeqNumber(at * 10 + 1)));
        assert_eq!(news.count(), RANGES_MAX);
    }
}
