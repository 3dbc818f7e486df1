//! Which node gets a new connection.

use lineside_tcp::keyed::hash_of_words;
use lineside_time::Nanoseconds;

use crate::settings::{Choice, WEIGHT_MAX};
use crate::table::bits;

/// Places of a Maglev table: the paper's small size, a prime. A share is exact to 1 in 650 with 100
/// nodes.
pub(crate) const PLACES: usize = 65_537;
/// The key of what nodes are chosen by. It is no secret: with the same nodes every forwarder
/// chooses alike, the next one after this one too, and a client can find out its node anyway.
pub(crate) const KEY: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03];
/// In place of a node.
pub(crate) const NOBODY: u16 = u16::MAX;

/// What the choice is made by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    /// Its number.
    pub(crate) node: u16,
    pub(crate) address: std::net::SocketAddr,
    pub(crate) weight: u32,
    pub(crate) connections: u32,
    /// When it came up, if its share still rises.
    pub(crate) rises_from: Option<Nanoseconds>,
}

/// The choice of a service.
#[derive(Debug)]
pub(crate) struct Chooser {
    choice: Choice,
    slow_start: Nanoseconds,
    candidates: Vec<Candidate>,
    /// Of Maglev: a candidate for each place.
    places: Box<[u16]>,
    /// Of candidates: what is ahead of its share, for round robin (nginx's smooth one).
    ahead: Vec<i64>,
}

impl Chooser {
    pub(crate) fn new(choice: Choice, slow_start: Nanoseconds) -> Self {
        let places = match choice {
            Choice::Maglev => PLACES,
            _ => 0,
        };
        Self {
            choice,
            slow_start,
            candidates: Vec::new(),
            places: vec![NOBODY; places].into(),
            ahead: Vec::new(),
        }
    }

    /// Bytes that it takes beside its candidates.
    pub(crate) fn bytes_of(choice: Choice) -> usize {
        match choice {
            Choice::Maglev => PLACES * size_of::<u16>(),
            _ => 0,
        }
    }

    /// Takes these nodes as those that connections may go to; their weights are not 0.
    pub(crate) fn set(&mut self, candidates: impl Iterator<Item = Candidate>) {
        self.candidates.clear();
        self.candidates.extend(candidates);
        self.ahead.clear();
        self.ahead.resize(self.candidates.len(), 0);
        if self.choice == Choice::Maglev {
            self.populate();
        }
    }

    pub(crate) fn candidate_mut(&mut self, node: u16) -> Option<&mut Candidate> {
        self.candidates.iter_mut().find(|each| each.node == node)
    }

    pub(crate) fn has(&self, node: u16) -> bool {
        self.candidates.iter().any(|each| each.node == node)
    }

    /// The node of a flow. `hash` is the flow's.
    pub(crate) fn choose(&mut self, now: Nanoseconds, hash: u64) -> Option<u16> {
        if self.candidates.is_empty() {
            return None;
        }
        let index = match self.choice {
            Choice::Maglev => self.by_place(now, hash)?,
            Choice::LeastConnections => self.least(now)?,
            Choice::RoundRobin => self.in_turn(now)?,
        };
        let candidate = &mut self.candidates[index];
        if { candidate.rises_from }.is_some_and(|from| now >= from.saturating_add(self.slow_start))
        {
            candidate.rises_from = None;
        }
        Some(candidate.node)
    }

    /// The place of a flow in Maglev's table.
    pub(crate) fn place(&self, hash: u64) -> usize {
        hash as usize % PLACES
    }

    /// The node that a flow would get; nothing changes by the question.
    pub(crate) fn peek(&self, now: Nanoseconds, hash: u64) -> Option<u16> {
        let index = match self.choice {
            Choice::Maglev => self.by_place(now, hash)?,
            Choice::LeastConnections => self.least(now)?,
            Choice::RoundRobin => self.next_in_turn(now)?,
        };
        Some(self.candidates.get(index)?.node)
    }

    /// The weight that counts now, in thousandths.
    fn share(&self, candidate: &Candidate, now: Nanoseconds) -> u64 {
        const WHOLE: u64 = 1000;
        let weight = u64::from(candidate.weight);
        // A check may have ended at a later instant than that of the frame.
        let past = candidate
            .rises_from
            .map(|from| now.saturating_sub(from).max(0));
        match past {
            Some(past) if past < self.slow_start => {
                let thousandths = past as u128 * u128::from(WHOLE) / self.slow_start as u128;
                // It begins with a tenth: a node without any connection would never be checked.
                weight * (thousandths as u64).max(WHOLE / 10)
            }
            _ => weight * WHOLE,
        }
    }

    /// A node whose share still rises takes only that share of its places' flows; the others go
    /// where another hash leads them.
    fn by_place(&self, now: Nanoseconds, hash: u64) -> Option<usize> {
        const TRIES: u64 = 8;
        let mut index = usize::from(*self.places.get(hash as usize % PLACES)?);
        for again in 1..TRIES {
            let candidate = self.candidates.get(index)?;
            let drawn = hash_of_words(KEY, [hash, again]);
            if drawn % 1000 * u64::from(candidate.weight) < self.share(candidate, now) {
                break;
            }
            index = usize::from(*self.places.get((drawn >> 16) as usize % PLACES)?);
        }
        Some(index)
    }

    fn least(&self, now: Nanoseconds) -> Option<usize> {
        let load = |candidate: &Candidate| {
            let connections = u64::from(candidate.connections) + 1;
            // Compared as fractions.
            (connections, self.share(candidate, now).max(1))
        };
        let all = self.candidates.iter().enumerate();
        let least = all.min_by(|(_, one), (_, other)| {
            let (one, other) = (load(one), load(other));
            (u128::from(one.0) * u128::from(other.1))
                .cmp(&(u128::from(other.0) * u128::from(one.1)))
        });
        least.map(|(index, _)| index)
    }

    /// The one that is furthest ahead once each has got its share.
    fn next_in_turn(&self, now: Nanoseconds) -> Option<usize> {
        let ahead = |index: &usize| self.ahead[*index] + self.share_of(*index, now);
        // Of several the first: `max_by_key` would take the last.
        (0..self.candidates.len()).rev().max_by_key(ahead)
    }

    fn share_of(&self, index: usize, now: Nanoseconds) -> i64 {
        self.share(&self.candidates[index], now) as i64
    }

    fn in_turn(&mut self, now: Nanoseconds) -> Option<usize> {
        let next = self.next_in_turn(now)?;
        let mut total = 0;
        for index in 0..self.candidates.len() {
            let share = self.share_of(index, now);
            total += share;
            self.ahead[index] += share;
        }
        self.ahead[next] -= total;
        Some(next)
    }

    /// The paper's 3.4: each node in turn takes the next free place of its own permutation, as
    /// often as its weight says.
    fn populate(&mut self) {
        self.places.fill(NOBODY);
        let highest = self.candidates.iter().map(|each| each.weight).max();
        let Some(highest) = highest.filter(|&weight| (1..=WEIGHT_MAX).contains(&weight)) else {
            return;
        };
        let mut walks: Vec<_> = { self.candidates.iter() }
            .map(|each| {
                let bits = bits(each.address.ip());
                let words = [(bits >> 64) as u64, bits as u64, each.address.port().into()];
                let hash = hash_of_words(KEY, words);
                let offset = hash as usize % PLACES;
                let skip = (hash >> 32) as usize % (PLACES - 1) + 1;
                (offset, skip, 0)
            })
            .collect();
        let mut left = PLACES;
        loop {
            let turn = walks.iter_mut().zip(&self.candidates).enumerate();
            for (index, ((place, skip, turns), candidate)) in turn {
                *turns += candidate.weight;
                if *turns < highest {
                    continue;
                }
                *turns -= highest;
                while self.places[*place] != NOBODY {
                    *place = (*place + *skip) % PLACES;
                }
                self.places[*place] = index as u16;
                left -= 1;
                if left == 0 {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A check ends at the instant of its own turn, which may be after that of a frame.
    #[test]
    fn a_node_that_came_up_a_moment_later_gets_its_whole_share() {
        for choice in [Choice::Maglev, Choice::LeastConnections, Choice::RoundRobin] {
            let mut chooser = Chooser::new(choice, 0);
            chooser.set(std::iter::once(Candidate {
                node: 3,
                address: ([192, 0, 2, 1], 80).into(),
                weight: 1,
                connections: 0,
                rises_from: Some(1_000),
            }));
            assert_eq!(chooser.peek(999, 5), Some(3));
            assert_eq!(chooser.choose(999, 5), Some(3));
        }
    }
}
