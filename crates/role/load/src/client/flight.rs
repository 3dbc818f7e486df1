//! Datagrams under way: a pool of them in the order in which they were begun, and for each flow a
//! ring of its latest numbers that has the outcome of each.

use lineside_time::Nanoseconds;
use slab::Slab;

use crate::protocol::Numbered;

const NONE: u32 = u32::MAX;
/// In a ring, in place of a place in the pool: nothing had this number yet.
const UNUSED: u32 = u32::MAX;
/// It was answered.
const ANSWERED: u32 = u32::MAX - 1;
/// It is over in any other way.
const FAILED: u32 = u32::MAX - 2;

/// A datagram from its planning until it is over and has left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) message: Numbered,
    pub(super) len: u32,
    /// For when it was planned.
    pub(super) intended_ns: Nanoseconds,
    /// When it was given to the transport.
    pub(super) begun_ns: Nanoseconds,
    /// When it left, if that is known.
    pub(super) departed_ns: Option<Nanoseconds>,
    /// It has left, or never will.
    pub(super) has_left: bool,
    /// It is answered, or failed; its departure is not reported yet.
    is_over: bool,
    /// Distinguishes requests that have had the same place.
    generation: u32,
    older: u32,
    younger: u32,
}

/// What is known of a number of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It waits for an answer: its place in the pool.
    Waits(u32),
    /// It was answered.
    Answered,
    /// It is over in any other way, or too old to know.
    Over,
    /// It was never sent.
    Unsent,
}

/// The pool and the rings.
pub(super) struct Flight {
    pool: Slab<Sent>,
    rings: Vec<u32>,
    /// Bits of a number that are its place in a ring.
    bits: u32,
    generation: u32,
    /// Of those that are not over: how many, which was begun first, and which last.
    waiting: u32,
    oldest: u32,
    youngest: u32,
}

impl Flight {
    /// For this many flows with at most `each` datagrams under way, whose answers show this many
    /// bits of a number.
    pub(super) fn new(flows: u32, each: u32, number_bits: u32) -> Self {
        // As many again that are over, so that late answers and duplicates are distinguished.
        let least = u64::from(each).saturating_mul(2).next_power_of_two();
        let bits = least.clamp(1 << 6, 1 << 16).ilog2().min(number_bits);
        let under_way = (flows as usize).saturating_mul(each as usize);
        Self {
            pool: Slab::with_capacity(under_way.min(1 << 16)),
            rings: vec![UNUSED; (flows as usize) << bits],
            bits,
            generation: 0,
            waiting: 0,
            oldest: NONE,
            youngest: NONE,
        }
    }

    pub(super) fn allocated_bytes(&self) -> usize {
        self.pool.capacity() * (size_of::<Sent>() + 8) + self.rings.capacity() * size_of::<u32>()
    }

    /// Datagrams that are not over.
    pub(super) fn waiting(&self) -> u32 {
        self.waiting
    }

    fn ring(&self, flow: u32, number: u64) -> usize {
        let within = number & ((1 << self.bits) - 1);
        ((flow as usize) << self.bits) + within as usize
    }

    /// Whether the next number of a flow may be used: the one whose place it takes is over.
    pub(super) fn is_free(&self, flow: u32, next: u64) -> bool {
        self.rings[self.ring(flow, next)] >= FAILED
    }

    /// Begins a datagram; returns its token.
    pub(super) fn begin(
        &mut self,
        message: Numbered,
        len: u32,
        intended_ns: Nanoseconds,
        begun_ns: Nanoseconds,
    ) -> u64 {
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let place = self.pool.insert(Sent {
            message,
            len,
            intended_ns,
            begun_ns,
            departed_ns: None,
            has_left: false,
            is_over: false,
            generation,
            older: NONE,
            younger: NONE,
        }) as u32;
        self.link(place);
        self.waiting += 1;
        let ring = self.ring(message.request.slot, message.number);
        self.rings[ring] = place;
        u64::from(generation) << 32 | u64::from(place)
    }

    /// A datagram by its token.
    pub(super) fn of_token(&mut self, token: u64) -> Option<(u32, &mut Sent)> {
        let sent = self.pool.get_mut(token as u32 as usize)?;
        (sent.generation == (token >> 32) as u32).then_some((token as u32, sent))
    }

    pub(super) fn get(&self, place: u32) -> &Sent {
        &self.pool[place as usize]
    }

    /// The outcome of a number of a flow that has sent those below `next`.
    pub(super) fn fate(&self, flow: u32, number: u64, next: u64) -> Fate {
        if number >= next {
            return Fate::Unsent;
        }
        if next - number > 1 << self.bits {
            return Fate::Over;
        }
        match self.rings[self.ring(flow, number)] {
            UNUSED => Fate::Unsent,
            ANSWERED => Fate::Answered,
            FAILED => Fate::Over,
            place if self.get(place).message.number == number => Fate::Waits(place),
            _ => Fate::Over,
        }
    }

    /// The one that was begun first of those that are not over.
    pub(super) fn oldest(&self) -> Option<(u32, &Sent)> {
        self.pool
            .get(self.oldest as usize)
            .map(|sent| (self.oldest, sent))
    }

    /// The first of a flow's that has left and is not over, of the latest ones that `next` follows.
    pub(super) fn oldest_of(&self, flow: u32, next: u64) -> Option<u32> {
        let first = next.saturating_sub(1 << self.bits);
        (first..next).find_map(|number| match self.fate(flow, number, next) {
            Fate::Waits(place) if self.get(place).has_left => Some(place),
            _ => None,
        })
    }

    /// One that did not leave yet has its time anew, as if it had been begun at `now`.
    pub(super) fn postpone(&mut self, place: u32, now: Nanoseconds) {
        self.unlink(place);
        self.pool[place as usize].begun_ns = now;
        self.link(place);
    }

    /// A datagram is answered, or over in another way; its departure may still be reported.
    pub(super) fn finish(&mut self, place: u32, is_answered: bool) -> Sent {
        self.unlink(place);
        self.waiting -= 1;
        let sent = &mut self.pool[place as usize];
        sent.is_over = true;
        let sent = *sent;
        let ring = self.ring(sent.message.request.slot, sent.message.number);
        self.rings[ring] = if is_answered { ANSWERED } else { FAILED };
        if sent.has_left {
            self.pool.remove(place as usize);
        }
        sent
    }

    /// A datagram has left, or never will; whether it waits for an answer.
    pub(super) fn on_left(&mut self, place: u32, departed_ns: Option<Nanoseconds>) -> bool {
        let sent = &mut self.pool[place as usize];
        (sent.has_left, sent.departed_ns) = (true, departed_ns);
        if sent.is_over {
            self.pool.remove(place as usize);
            return false;
        }
        true
    }

    /// Puts one behind all that were begun before.
    fn link(&mut self, place: u32) {
        let older = std::mem::replace(&mut self.youngest, place);
        let sent = &mut self.pool[place as usize];
        (sent.older, sent.younger) = (older, NONE);
        match older {
            NONE => self.oldest = place,
            older => self.pool[older as usize].younger = place,
        }
    }

    fn unlink(&mut self, place: u32) {
        let Sent { older, younger, .. } = self.pool[place as usize];
        match older {
            NONE => self.oldest = younger,
            older => self.pool[older as usize].younger = younger,
        }
        match younger {
            NONE => self.youngest = older,
            younger => self.pool[younger as usize].older = older,
        }
    }
}

/// The number of which an answer shows the low `bits`: the latest of those below `next`.
pub(super) fn number_of(shown: u64, bits: u32, next: u64) -> Option<u64> {
    let newest = next.checked_sub(1)?;
    let mask = u64::MAX >> (64 - bits);
    newest.checked_sub(newest.wrapping_sub(shown) & mask)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use lineside_time::Random;

    use super::*;
    use crate::protocol::Request;

    #[test]
    fn numbers_are_found_by_their_low_bits() {
        for bits in [3, 16, 64] {
            for next in [1u64, 7, 8, 9, 70_000, 1 << 40] {
                let mask = u64::MAX >> (64 - bits);
                for number in next.saturating_sub(20).max(next.saturating_sub(mask))..next {
                    assert_eq!(number_of(number & mask, bits, next), Some(number));
                }
            }
        }
        assert_eq!(number_of(0, 16, 0), None);
        assert_eq!(number_of(5, 16, 5), None);
        assert_eq!(number_of(5, 64, 5), None);
    }

    /// A flight beside a map that forgets nothing.
    struct Both {
        flight: Flight,
        next: [u64; 3],
        fates: HashMap<(u32, u64), Fate>,
        /// Those that have not left.
        tokens: Vec<(u64, Numbered)>,
    }

    impl Both {
        fn begin(&mut self, flow: u32, now: Nanoseconds) {
            let number = self.next[flow as usize];
            if !self.flight.is_free(flow, number) {
                return;
            }
            let request = Request {
                ordinal: now as u64,
                slot: flow,
            };
            let message = Numbered { request, number };
            let token = self.flight.begin(message, 1, now, now);
            self.fates.insert((flow, number), Fate::Waits(token as u32));
            self.next[flow as usize] += 1;
            self.tokens.push((token, message));
        }

        /// One of those that wait leaves and is over, in either order, or has its time anew.
        fn go_on(&mut self, random: &mut Random, now: Nanoseconds) {
            if self.tokens.is_empty() {
                return;
            }
            let chosen = random.below(self.tokens.len() as u64) as usize;
            let (token, message) = self.tokens[chosen];
            let (place, sent) = self.flight.of_token(token).expect("it has not left");
            assert_eq!(sent.message, message);
            if random.chance(0.1) {
                return self.flight.postpone(place, now);
            }
            let (is_before, is_answered) = (random.chance(0.5), random.chance(0.5));
            if is_before {
                self.flight.finish(place, is_answered);
            }
            assert_eq!(self.flight.on_left(place, Some(now)), !is_before);
            if !is_before {
                let flow = message.request.slot;
                let oldest = self.flight.oldest_of(flow, self.next[flow as usize]);
                assert_eq!(oldest, Some(place), "the only one that has left");
                self.flight.finish(place, is_answered);
            }
            let fate = if is_answered {
                Fate::Answered
            } else {
                Fate::Over
            };
            self.fates
                .insert((message.request.slot, message.number), fate);
            self.tokens.swap_remove(chosen);
            assert!(self.flight.of_token(token).is_none());
        }

        fn is_as_known(&self) {
            assert_eq!(self.flight.waiting() as usize, self.tokens.len());
            for (flow, &next) in { 0.. }.zip(&self.next) {
                assert_eq!(self.flight.fate(flow, next, next), Fate::Unsent);
                for number in next.saturating_sub(64)..next {
                    let expected = self.fates[&(flow, number)];
                    assert_eq!(self.flight.fate(flow, number, next), expected);
                }
                if next > 64 {
                    assert_eq!(self.flight.fate(flow, next - 65, next), Fate::Over);
                }
            }
            let oldest = self.flight.oldest().map(|(_, sent)| sent.begun_ns);
            let begun = self.flight.pool.iter().map(|(_, sent)| sent.begun_ns);
            assert_eq!(oldest, begun.min());
        }
    }

    #[test]
    fn fates_are_those_of_a_map_of_all_numbers() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let mut both = Both {
                flight: Flight::new(3, 4, 16),
                next: [0; 3],
                fates: HashMap::new(),
                tokens: Vec::new(),
            };
            for now in 0..5_000 {
                match random.chance(0.6) {
                    true => both.begin(random.below(3) as u32, now),
                    false => both.go_on(&mut random, now),
                }
                both.is_as_known();
            }
            assert!(both.next.iter().all(|&next| next > 500), "{:?}", both.next);
        }
    }
}
