//! Port numbers of a NAT address towards a node: which are free, found in a few steps however many
//! are taken.
//!
//! ```text
//!  drawn by the client's hash ─► free? it is the one
//!          │ eight are taken
//!          ▼
//!  a map of all numbers, a bit each, and a bit for each 64 of them: the next free one after the
//!  number that was drawn is three words away
//! ```
//!
//! While few numbers are taken, a draw finds one, and there is no map: it is made for a node that
//! has many connections, and goes with them.

use std::ops::Range;

use lineside_account::{Budget, Lease};

/// Numbers of checks.
pub(crate) const CHECKS: Range<u16> = 1024..2048;
/// The first number of connections.
pub(crate) const START: u16 = CHECKS.end;
/// How many there are.
pub(crate) const COUNT: u32 = u16::MAX as u32 - START as u32 + 1;

/// So many draws are tried before a map is made, and so many numbers of a map.
const TRIES: u16 = 8;
/// Below this many numbers in use, a draw finds one: the map goes.
const FEW: u32 = COUNT / 16;
const WORDS: usize = (1 << 16) / 64;

/// The numbers of one NAT address towards one node.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    used: u32,
    map: Option<Box<Map>>,
}

/// A bit for each number that is taken.
#[derive(Debug)]
struct Map {
    words: [u64; WORDS],
    /// A bit for each word that has no free number.
    full: [u64; WORDS / 64],
    _lease: Lease,
}

impl Ports {
    pub(crate) fn is_full(&self) -> bool {
        self.used >= COUNT
    }

    /// A number is taken.
    pub(crate) fn take(&mut self, port: u16) {
        self.used += 1;
        if let Some(map) = &mut self.map {
            map.set(port, true);
        }
    }

    /// A number is free again.
    pub(crate) fn free(&mut self, port: u16) {
        self.used -= 1;
        if self.used < FEW {
            self.map = None;
        } else if let Some(map) = &mut self.map {
            map.set(port, false);
        }
    }

    /// A free number: the first of the draws that is, or one after a draw. `None` if there is none,
    /// or the budget has no room for a map.
    pub(crate) fn find(
        &mut self,
        draw: impl Fn(u16) -> u16,
        is_free: impl Fn(u16) -> bool,
        budget: &Budget,
    ) -> Option<u16> {
        if self.is_full() {
            return None;
        }
        if let Some(port) = Some(draw(0)).filter(|&port| is_free(port)) {
            return Some(port);
        }
        if self.map.is_none() {
            let drawn = (1..TRIES).map(&draw).find(|&port| is_free(port));
            if drawn.is_some() {
                return drawn;
            }
            self.map = Some(Map::new(&is_free, budget)?);
        }
        let map = self.map.as_ref()?;
        // Some client's own address and port may be a number's that is not taken here.
        let mut next = draw(TRIES);
        for _ in 0..TRIES {
            let port = map.next_free(next)?;
            if is_free(port) {
                return Some(port);
            }
            next = port.checked_add(1).unwrap_or(START);
        }
        None
    }
}

impl Map {
    #[cold]
    fn new(is_free: impl Fn(u16) -> bool, budget: &Budget) -> Option<Box<Self>> {
        let lease = budget.lease(size_of::<Self>())?;
        let mut map = Box::new(Self {
            words: [0; WORDS],
            full: [0; _],
            _lease: lease,
        });
        for port in 0..=u16::MAX {
            map.set(port, port < START || !is_free(port));
        }
        Some(map)
    }

    fn set(&mut self, port: u16, is_taken: bool) {
        let at = usize::from(port / 64);
        let word = &mut self.words[at];
        *word = *word & !(1 << (port % 64)) | u64::from(is_taken) << (port % 64);
        let (bit, is_full) = (1 << (at % 64), *word == u64::MAX);
        let full = &mut self.full[at / 64];
        *full = *full & !bit | if is_full { bit } else { 0 };
    }

    /// The first free number from this one on; after the last comes the first.
    fn next_free(&self, from: u16) -> Option<u16> {
        let at = usize::from(from / 64);
        let here = !self.words[at] & u64::MAX << (from % 64);
        if here != 0 {
            return Some(number(at, here));
        }
        let with_room = |at: usize, mask: u64| {
            let words = !self.full[at] & mask;
            (words != 0).then(|| at * 64 + words.trailing_zeros() as usize)
        };
        let (first, bit) = (at / 64, at % 64);
        let all = self.full.len();
        let beyond = u64::MAX.checked_shl(bit as u32 + 1).unwrap_or(0);
        let found = with_room(first, beyond)
            .or_else(|| (1..=all).find_map(|step| with_room((first + step) % all, u64::MAX)))?;
        Some(number(found, !self.words[found]))
    }
}

fn number(word: usize, free: u64) -> u16 {
    (word * 64) as u16 + free.trailing_zeros() as u16
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;

    use lineside_time::Random;
    use proptest::prelude::*;

    use super::*;

    /// Takes and frees numbers as an oracle does, a set of those that are taken.
    fn check(seed: u64, fill: u32, steps: u32) {
        let budget = Budget::new(1 << 20);
        let (mut ports, mut taken) = (Ports::default(), BTreeSet::new());
        let mut random = Random::new(seed);
        let mut tried_most = 0;
        for step in 0..fill + steps {
            let frees = step >= fill && random.below(2) == 0;
            if frees && let Some(&port) = taken.range(random.below(65_536) as u16..).next() {
                taken.remove(&port);
                ports.free(port);
                continue;
            }
            let word = random.bits();
            let draw = |attempt: u16| {
                let mixed = word.rotate_left(u32::from(attempt) * 7) % u64::from(COUNT);
                START + mixed as u16
            };
            let (tries, had_map) = (Cell::new(0), ports.map.is_some());
            let is_free = |port: u16| {
                tries.set(tries.get() + 1);
                !taken.contains(&port)
            };
            let found = ports.find(draw, is_free, &budget);
            assert_eq!(found.is_some(), taken.len() < COUNT as usize, "step {step}");
            // A map is made once for thousands of connections.
            if had_map {
                tried_most = tried_most.max(tries.get());
            }
            if let Some(port) = found {
                assert!(port >= START && taken.insert(port), "{port} is taken");
                ports.take(port);
            }
        }
        assert!(tried_most <= 2, "{tried_most} tries");
        assert_eq!(ports.used as usize, taken.len());
        for port in taken {
            ports.free(port);
        }
        assert_eq!(budget.used_bytes(), 0, "the map went with its connections");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

        /// A number is found exactly if there is one, and in two tries, however many are taken.
        #[test]
        fn a_port_is_found_exactly_if_one_is_free(seed: u64, fill in 0..70_000_u32) {
            check(seed, fill, 2_000);
        }
    }

    #[test]
    fn the_last_free_port_is_found_in_two_tries() {
        check(7, COUNT - 1, 5_000);
        check(8, COUNT + 10, 5_000);
    }
}
