//! Which calls of two windows correspond.

use hashbrown::HashMap;

use super::call::Call;
use super::hash::{mixed, mixed_all};
use super::script::common;
use crate::model::CallRule;

const NO_ONE: u32 = u32::MAX;

/// The partners of two windows: places in A and in B, in the order of A. Calls that were paired
/// before have none. Of a window that goes on, the calls from `sure` on are so near its end that
/// those which the other window lacks may come yet.
pub(super) fn pairs(
    rule: CallRule,
    windows: [&[Call]; 2],
    sure: [usize; 2],
) -> Vec<(usize, usize)> {
    let mut partners = Partners {
        windows,
        of: windows.map(|window| vec![NO_ONE; window.len()]),
    };
    match rule {
        CallRule::Source | CallRule::Xid => {
            let ends = windows.map(<[Call]>::len);
            // Transaction ids may be the same by chance: that with the same arguments comes first.
            partners.by(ends, |_, _, call| {
                (call.key != 0).then(|| mixed(call.key, call.asked))
            });
            partners.by(ends, |_, _, call| (call.key != 0).then_some(call.key));
        }
        CallRule::Order => partners.by_order(sure),
    }
    let of_a = partners.of[0].iter().enumerate();
    of_a.filter(|(_, b)| **b != NO_ONE)
        .map(|(a, b)| (a, *b as usize))
        .collect()
}

struct Partners<'a> {
    windows: [&'a [Call]; 2],
    of: [Vec<u32>; 2],
}

impl Partners<'_> {
    /// Pairs the calls without a partner that have the same key, the first with the first.
    fn by(&mut self, ends: [usize; 2], key: impl Fn(usize, usize, &Call) -> Option<u64>) {
        let [a, b] = self.windows;
        // Calls of a key are a list: the first, and after each the next.
        let mut first: HashMap<u64, u32> = HashMap::new();
        let mut next = vec![NO_ONE; ends[1]];
        for at in (0..ends[1]).rev() {
            if self.of[1][at] == NO_ONE
                && !b[at].is_done
                && let Some(key) = key(1, at, &b[at])
            {
                next[at] = first.insert(key, at as u32).unwrap_or(NO_ONE);
            }
        }
        for (at, call) in a.iter().enumerate().take(ends[0]) {
            if self.of[0][at] == NO_ONE
                && !call.is_done
                && let Some(key) = key(0, at, call)
                && let Some(found) = first.get_mut(&key).filter(|found| **found != NO_ONE)
            {
                let partner = *found;
                *found = next[partner as usize];
                self.of[0][at] = partner;
                self.of[1][partner as usize] = at as u32;
            }
        }
    }

    /// First what a client does with a file is compared as texts are; then calls that are elsewhere
    /// in this order, or whose file is not known to be the same; then those that stand at the same
    /// place of it and ask for something else.
    fn by_order(&mut self, sure: [usize; 2]) {
        let is_end = [0, 1].map(|side| sure[side] == self.windows[side].len());
        let gaps = self.by_script(is_end == [true; 2]);
        self.by(sure, |_, _, call| Some(mixed(call.group, call.asked)));
        self.by(sure, |_, _, call| {
            Some(mixed(u64::from(call.who), call.asked))
        });
        self.by(sure, |side, at, call| {
            let gap = gaps[side][at];
            let version = u64::from(call.version.cast_unsigned());
            let what = mixed_all([call.program.into(), version, call.operation.into()]);
            (gap != NO_ONE).then(|| mixed_all([call.group, what, u64::from(gap)]))
        });
    }

    /// Returns of each call how many of its group before it have a partner, if that is known: not
    /// behind the last pair of a window that goes on.
    fn by_script(&mut self, is_end: bool) -> [Vec<u32>; 2] {
        let mut places: HashMap<u64, usize> = HashMap::new();
        let mut groups: Vec<[Vec<u32>; 2]> = Vec::new();
        for (side, window) in self.windows.into_iter().enumerate() {
            for (at, call) in window.iter().enumerate().filter(|(_, call)| !call.is_done) {
                let group = *places.entry(call.group).or_insert_with(|| {
                    groups.push(Default::default());
                    groups.len() - 1
                });
                groups[group][side].push(at as u32);
            }
        }
        let mut gaps = self.windows.map(|window| vec![NO_ONE; window.len()]);
        for of_group in &groups {
            let asked = [0, 1].map(|side| {
                let calls = of_group[side].iter();
                let asked = calls.map(|&at| self.windows[side][at as usize].asked);
                asked.collect::<Vec<u64>>()
            });
            let (stay, is_whole) = common(&asked[0], &asked[1]);
            for &(x, y) in &stay {
                let (a, b) = (of_group[0][x], of_group[1][y]);
                self.of[0][a as usize] = b;
                self.of[1][b as usize] = a;
            }
            // Without a pair beside it, no place is the same.
            if !is_whole || stay.is_empty() {
                continue;
            }
            for side in 0..2 {
                let mut before = 0;
                for &at in &of_group[side] {
                    if is_end || (before as usize) < stay.len() {
                        gaps[side][at as usize] = before;
                    }
                    before += u32::from(self.of[side][at as usize] != NO_ONE);
                }
            }
        }
        gaps
    }
}
