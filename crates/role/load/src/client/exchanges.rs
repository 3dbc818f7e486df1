//! Requests under way: pools of what a connection needs while it has one, and of the requests
//! themselves, in chains.

use lineside_time::Nanoseconds;
use slab::Slab;

use crate::protocol::Request;

pub(super) const NONE: u32 = u32::MAX;

/// A request from its planning until it is answered and all its bytes are acknowledged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange {
    pub(super) request: Request,
    /// Where its bytes are in the stream.
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) next: u32,
    /// For when it was planned.
    pub(super) intended_ns: Nanoseconds,
    /// When its first byte left; [`Nanoseconds::MIN`] before.
    pub(super) departed_ns: Nanoseconds,
    /// When the first byte of its answer came; [`Nanoseconds::MIN`] before.
    pub(super) first_ns: Nanoseconds,
    /// When it was given to its connection.
    pub(super) begun_ns: Nanoseconds,
    pub(super) is_answered: bool,
    /// Those without an answer that were begun before and after it.
    pub(super) older: u32,
    pub(super) younger: u32,
}

impl Exchange {
    /// Where its bytes end in the stream.
    pub(super) fn end(&self) -> u64 {
        self.start + self.len
    }
}

/// What a connection has while a request is under way on it, or as long as it is open where bytes
/// may come before a request.
#[derive(Debug)]
pub(super) struct Active<R> {
    /// Its requests, in the order of the stream.
    pub(super) first: u32,
    pub(super) last: u32,
    /// Bytes of its stream that are acknowledged.
    pub(super) acknowledged: u64,
    /// Requests without an answer.
    pub(super) outstanding: u32,
    pub(super) reader: R,
}

/// The pools.
pub(super) struct Exchanges<R> {
    pub(super) active: Slab<Active<R>>,
    pub(super) exchanges: Slab<Exchange>,
    /// Of all without an answer, the one that was begun first, and the one that was last.
    oldest: u32,
    youngest: u32,
}

impl<R: Default> Exchanges<R> {
    pub(super) fn with_capacity(count: usize) -> Self {
        Self {
            active: Slab::with_capacity(count),
            exchanges: Slab::with_capacity(count),
            oldest: NONE,
            youngest: NONE,
        }
    }

    /// Bytes of memory that the pools take.
    pub(super) fn allocated_bytes(&self) -> usize {
        // A free entry is the index of the next one: a word beside each.
        self.active.capacity() * (size_of::<Active<R>>() + 8)
            + self.exchanges.capacity() * (size_of::<Exchange>() + 8)
    }

    /// Begins to keep what a connection needs, whose stream has this many bytes, all acknowledged.
    pub(super) fn activate(&mut self, sent: u64) -> u32 {
        self.active.insert(Active {
            first: NONE,
            last: NONE,
            acknowledged: sent,
            outstanding: 0,
            reader: R::default(),
        }) as u32
    }

    /// Adds a request behind the others of a connection, and behind all that are under way.
    pub(super) fn append(&mut self, active: u32, exchange: Exchange) -> u32 {
        let older = self.youngest;
        let place = self.exchanges.insert(Exchange { older, ..exchange }) as u32;
        match older {
            NONE => self.oldest = place,
            older => self.exchanges[older as usize].younger = place,
        }
        self.youngest = place;
        let active = &mut self.active[active as usize];
        match active.last {
            NONE => active.first = place,
            last => self.exchanges[last as usize].next = place,
        }
        active.last = place;
        active.outstanding += 1;
        place
    }

    /// Of all connections' requests without an answer, the one that was begun first.
    pub(super) fn oldest(&self) -> Option<&Exchange> {
        self.exchanges.get(self.oldest as usize)
    }

    /// A request is answered: it waits for nothing but the acknowledgement of its bytes.
    pub(super) fn answer(&mut self, active: u32, place: u32) -> Exchange {
        self.active[active as usize].outstanding -= 1;
        self.exchanges[place as usize].is_answered = true;
        self.unlink(place)
    }

    /// Takes a request out of the list of those without an answer.
    fn unlink(&mut self, place: u32) -> Exchange {
        let exchange = self.exchanges[place as usize];
        let Exchange { older, younger, .. } = exchange;
        match older {
            NONE => self.oldest = younger,
            older => self.exchanges[older as usize].younger = younger,
        }
        match younger {
            NONE => self.youngest = older,
            younger => self.exchanges[younger as usize].older = older,
        }
        exchange
    }

    /// The oldest request without an answer, or the one with this number.
    pub(super) fn unanswered(&self, active: u32, request: Option<u32>) -> Option<u32> {
        let mut place = self.active[active as usize].first;
        while place != NONE {
            let exchange = &self.exchanges[place as usize];
            let is_meant = request.is_none_or(|low| exchange.request.ordinal as u32 == low);
            if !exchange.is_answered && is_meant {
                return Some(place);
            }
            place = exchange.next;
        }
        None
    }

    /// Lets those in front go that are answered and acknowledged; whether none is left.
    pub(super) fn trim(&mut self, active: u32) -> bool {
        let active = &mut self.active[active as usize];
        while active.first != NONE {
            let exchange = &self.exchanges[active.first as usize];
            if !exchange.is_answered || exchange.end() > active.acknowledged {
                return false;
            }
            let next = exchange.next;
            self.exchanges.remove(active.first as usize);
            active.first = next;
        }
        active.last = NONE;
        true
    }

    /// Lets all of a connection go, but for the reader, which is returned; `each` gets those that
    /// have no answer.
    pub(super) fn clear(&mut self, active: u32, mut each: impl FnMut(Exchange)) -> R {
        let Active { first, reader, .. } = self.active.remove(active as usize);
        let mut place = first;
        while place != NONE {
            if !self.exchanges[place as usize].is_answered {
                each(self.unlink(place));
            }
            place = self.exchanges.remove(place as usize).next;
        }
        reader
    }
}
