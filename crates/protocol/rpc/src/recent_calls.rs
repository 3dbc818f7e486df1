//! Calls that came: remembered by time, to know one that comes again when its connection's table
//! has forgotten it, or on another connection.
//!
//! ```text
//!  bucket   tag | what | connection | id | time     8 entries of 20 bytes, two to four cache lines
//!           the upper half of a key | program, procedure and arguments | where | the row | when
//! ```
//!
//! An entry lies in one of the two buckets that its tag names, in place of one that is empty, or
//! too old to matter: in the second only where the first is full. If there is none, one of the
//! sixteen moves to its other bucket (Pagh and Rodler, Cuckoo hashing, 2004); if none can, the
//! table grows, as far as its memory allows; then the oldest of the sixteen goes, which its user
//! counts. It grows where it is, in pieces of memory that stay: a table that moved to
//! another place would leave as much behind again. Nothing but hashes is kept: a wrong match needs
//! 62 equal bits.
//!
//! Of a time 16 bits are kept, of an id 48. Times that are too old are made just too old every 36
//! minutes, before they could seem young again. The other bits of an id are those of the latest
//! one: it is less than 2^48 behind.

use lineside_account::{Budget, Claim, Lease};

const WAYS: usize = 8;
/// Buckets of a piece of the table: 80 KiB, some 3,000 calls.
const PIECE: usize = 512;
/// Pieces up to which it doubles, since entries are moved half as often then: 2.5 MiB. Beyond it
/// grows by a quarter.
const DOUBLED_PIECES: usize = 32;
/// Time is counted in this many bits' worth of nanoseconds, which is 67 ms: 16 bits of that last
/// for 73 minutes.
const TICK_BITS: u32 = 26;
/// Ticks until times that are too old are made just too old. A clock may go back by half as many.
const AGED_TICKS: u32 = 1 << 15;
/// Bits of an id that an entry has.
const ID_BITS: u32 = 48;

/// So long is a call remembered that had no reply when it was given up: a client whose server is
/// away for long asks for new connections until it is back, and then sends its calls again.
const GIVEN_UP_NS: i64 = 1_500_000_000_000;

/// An entry is in use.
const USED: u32 = 1;
/// It waited for its reply when it was given up.
const GIVEN_UP: u32 = 2;

/// A call that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecentCall {
    /// The connection that it came on, as [`RecentCalls::on_call`] was given it.
    pub connection: u32,
    /// It had no reply when it was given up.
    pub is_given_up: bool,
    /// The id that [`RecentCalls::on_call`] was given of it, or of the first one that it repeats.
    pub first_id: i64,
}

/// A call with the number of another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Known {
    /// The same call, if it came before and this one repeats it.
    pub same: Option<RecentCall>,
    /// One that is too young to be forgotten had to be, for want of memory.
    pub has_forgotten: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    tag: u32,
    what: u32,
    connection: u32,
    first_id_low: u32,
    first_id_high: u16,
    time: u16,
}

impl Entry {
    fn set_first_id(&mut self, id: i64) {
        (self.first_id_low, self.first_id_high) = (id as u32, (id >> 32) as u16);
    }

    /// `latest`: the greatest id so far.
    fn first_id(&self, latest: i64) -> i64 {
        let known = i64::from(self.first_id_high) << 32 | i64::from(self.first_id_low);
        latest - (latest.wrapping_sub(known) & ((1 << ID_BITS) - 1))
    }

    fn call(&self, latest: i64) -> RecentCall {
        RecentCall {
            connection: self.connection,
            is_given_up: self.what & GIVEN_UP != 0,
            first_id: self.first_id(latest),
        }
    }
}

type Bucket = [Entry; WAYS];
type Piece = [Bucket; PIECE];

/// The calls of the last while.
#[derive(Debug)]
pub struct RecentCalls {
    pieces: Vec<Box<Piece>>,
    pieces_max: usize,
    /// So many ticks is a call remembered, and one that was given up.
    window: u16,
    given_up_window: u16,
    /// The tick when times were last made just too old.
    aged: u32,
    /// The greatest id of a call.
    latest_id: i64,
    lease: Lease,
}

impl RecentCalls {
    /// Remembers calls for `window_ns`, at most 36 minutes, in at most `bytes_max` of the budget.
    pub fn new(window_ns: i64, bytes_max: usize, budget: &Budget) -> Self {
        Self {
            pieces: Vec::new(),
            pieces_max: bytes_max / size_of::<Piece>(),
            window: ticks(window_ns).min(AGED_TICKS) as u16,
            given_up_window: ticks(GIVEN_UP_NS.max(window_ns)).min(AGED_TICKS) as u16,
            aged: 0,
            latest_id: i64::MIN,
            lease: budget.lease(0).expect("nothing fits into any budget"),
        }
    }

    /// A call came on a connection: `key` is a hash of the client, the server and the xid, `what`
    /// of what is called. `repeats`: whether it repeats the same one that came before.
    #[inline]
    pub fn on_call(
        &mut self,
        key: u64,
        what: u32,
        (connection, id): (u32, i64),
        now_ns: i64,
        repeats: impl FnOnce(&RecentCall) -> bool,
    ) -> Known {
        let mut entry = Entry {
            tag: tag(key),
            what: what & !GIVEN_UP | USED,
            connection,
            time: self.now(now_ns),
            ..Entry::default()
        };
        entry.set_first_id(id);
        self.latest_id = self.latest_id.max(id);
        // Nearly always its bucket has an empty place, and all before that are of others.
        let home = self.home(entry.tag);
        if let Some(piece) = self.pieces.get_mut(home / PIECE) {
            let bucket = &mut piece[home % PIECE];
            let mut way = 0;
            while way < WAYS {
                let other = &mut bucket[way];
                if other.tag == entry.tag {
                    break;
                }
                if other.what == 0 {
                    *other = entry;
                    return Known::default();
                }
                way += 1;
            }
        }
        self.on_call_slow(entry, id, repeats)
    }

    #[cold]
    fn on_call_slow(
        &mut self,
        mut entry: Entry,
        id: i64,
        repeats: impl FnOnce(&RecentCall) -> bool,
    ) -> Known {
        if self.pieces.is_empty() && !self.grow(entry.time) {
            return Known {
                same: None,
                has_forgotten: true,
            };
        }
        let mut repeats = Some(repeats);
        loop {
            let (same, place) = self.place(&entry, entry.time);
            let same = same.filter(|same| repeats.take().is_some_and(|repeats| repeats(same)));
            // One that is further behind is given up as the first: it would seem to be a later one.
            if let Some(same) = same.filter(|same| id - same.first_id < 1 << (ID_BITS - 1)) {
                entry.set_first_id(same.first_id);
            }
            match place {
                Place::Free(bucket, way) => {
                    self.bucket_mut(bucket)[way] = entry;
                    return Known {
                        same,
                        has_forgotten: false,
                    };
                }
                Place::Oldest(..)
                    if self.make_room(entry.tag, entry.time) || self.grow(entry.time) => {}
                Place::Oldest(bucket, way) => {
                    self.bucket_mut(bucket)[way] = entry;
                    return Known {
                        same,
                        has_forgotten: true,
                    };
                }
            }
        }
    }

    /// The latest call on a connection with this key.
    pub fn of_reply(&mut self, key: u64, connection: u32, now_ns: i64) -> Option<RecentCall> {
        let latest = self.latest_id;
        let found = self.find(key, connection, now_ns)?;
        Some(found.call(latest))
    }

    /// The latest call on a connection with this key was given up. It may have waited for long: it
    /// counts from now, unless another has taken its place.
    pub fn give_up(&mut self, key: u64, connection: u32, now_ns: i64) {
        let now = self.now(now_ns);
        if let Some(found) = self.find_within(key, connection, now, self.given_up_window) {
            (found.what, found.time) = (found.what | GIVEN_UP, now);
        }
    }

    /// Whether an entry does not matter any more.
    #[inline]
    fn is_old(&self, entry: &Entry, now: u16) -> bool {
        // Nearly all are young: of the longer window only the others are asked.
        let age = now.wrapping_sub(entry.time);
        age > self.window && (entry.what & GIVEN_UP == 0 || age > self.given_up_window)
    }

    /// The tick of a time, as entries have it.
    #[inline]
    fn now(&mut self, now_ns: i64) -> u16 {
        let now = ticks(now_ns);
        let since = now.wrapping_sub(self.aged);
        if since.wrapping_add(AGED_TICKS / 2) >= AGED_TICKS / 2 * 3 {
            self.make_just_too_old(now, since);
        }
        now as u16
    }

    /// Makes times that are too old just too old, so that 16 bits tell them from young ones until
    /// the next time.
    #[cold]
    fn make_just_too_old(&mut self, now: u32, since: u32) {
        let windows = [self.window, self.given_up_window];
        // Then no entry is of the last window, whatever its bits say.
        let are_all = since > AGED_TICKS + u32::from(self.given_up_window);
        let now16 = now as u16;
        let entries = { self.pieces.iter_mut() }.flat_map(|piece| piece.as_flattened_mut());
        for entry in entries {
            let window = windows[usize::from(entry.what & GIVEN_UP != 0)];
            if are_all || now16.wrapping_sub(entry.time) > window {
                entry.time = now16.wrapping_sub(window).wrapping_sub(1);
            }
        }
        self.aged = now;
    }

    fn find(&mut self, key: u64, connection: u32, now_ns: i64) -> Option<&mut Entry> {
        let now = self.now(now_ns);
        self.find_within(key, connection, now, self.window)
    }

    fn find_within(
        &mut self,
        key: u64,
        connection: u32,
        now: u16,
        window: u16,
    ) -> Option<&mut Entry> {
        if self.pieces.is_empty() {
            return None;
        }
        let tag = tag(key);
        let is_it = |entry: &Entry| {
            entry.tag == tag
                && entry.connection == connection
                && entry.what & USED != 0
                && now.wrapping_sub(entry.time) <= window
        };
        let places = self.homes(tag).into_iter();
        let places = places.flat_map(|bucket| (0..WAYS).map(move |way| (bucket, way)));
        let age = |&(bucket, way): &(usize, usize)| now.wrapping_sub(self.bucket(bucket)[way].time);
        let found = { places.filter(|&(bucket, way)| is_it(&self.bucket(bucket)[way])) };
        let (bucket, way) = found.min_by_key(age)?;
        Some(&mut self.bucket_mut(bucket)[way])
    }

    #[inline]
    fn bucket(&self, at: usize) -> &Bucket {
        &self.pieces[at / PIECE][at % PIECE]
    }

    #[inline]
    fn bucket_mut(&mut self, at: usize) -> &mut Bucket {
        &mut self.pieces[at / PIECE][at % PIECE]
    }

    /// Where an entry goes, and the same call that came before it, whose place that is then.
    fn place(&self, entry: &Entry, now: u16) -> (Option<RecentCall>, Place) {
        let homes = self.homes(entry.tag);
        let age = |other: &Entry| now.wrapping_sub(other.time);
        let (mut free, mut oldest) = (None, (homes[0], 0));
        for bucket in homes {
            for (way, other) in self.bucket(bucket).iter().enumerate() {
                if other.what == 0 {
                    // Places are never emptied: nothing comes behind this one.
                    let (bucket, way) = free.unwrap_or((bucket, way));
                    return (None, Place::Free(bucket, way));
                }
                if self.is_old(other, now) {
                    free = free.or(Some((bucket, way)));
                } else if other.tag == entry.tag && (other.what ^ entry.what) & !GIVEN_UP == 0 {
                    return (Some(other.call(self.latest_id)), Place::Free(bucket, way));
                } else if age(other) > age(&self.bucket(oldest.0)[oldest.1]) {
                    oldest = (bucket, way);
                }
            }
        }
        match free {
            Some((bucket, way)) => (None, Place::Free(bucket, way)),
            None => (None, Place::Oldest(oldest.0, oldest.1)),
        }
    }

    /// The first bucket of a tag, by its upper bits: those of clients that count their xids up are
    /// spread evenly (Knuth, The Art of Computer Programming, section 6.4), the lower bits are not.
    #[inline]
    fn home(&self, tag: u32) -> usize {
        ((u64::from(tag) * (self.pieces.len() * PIECE) as u64) >> 32) as usize
    }

    /// The two buckets of a tag, the first one first.
    fn homes(&self, tag: u32) -> [usize; 2] {
        // A multiplier of MurmurHash3 (Appleby 2011).
        let [one, other] = [tag, tag.wrapping_mul(0x85eb_ca6b)].map(|bits| self.home(bits));
        [one, if one == other { other ^ 1 } else { other }]
    }

    /// Moves an entry of a tag's buckets away; false if each is where it must be.
    fn make_room(&mut self, tag: u32, now: u16) -> bool {
        let window = self.given_up_window;
        for bucket in self.homes(tag) {
            for way in 0..WAYS {
                let moved = self.bucket(bucket)[way];
                let [one, other] = self.homes(moved.tag);
                let to = one ^ other ^ bucket;
                let is_free = |other: &Entry| other.what == 0 || self.is_old(other, now);
                if let Some(free) = self.bucket(to).iter().position(is_free) {
                    self.bucket_mut(to)[free] = moved;
                    // What is left behind is too old to matter.
                    self.bucket_mut(bucket)[way].time = now.wrapping_sub(window).wrapping_sub(1);
                    return true;
                }
            }
        }
        false
    }

    /// As many pieces more, or a quarter as many; false if memory does not allow one.
    #[cold]
    fn grow(&mut self, now: u16) -> bool {
        let before = self.pieces.len();
        let bytes = |count| count * size_of::<Piece>();
        let more = match before {
            0..DOUBLED_PIECES => before.max(1),
            _ => before / 4,
        };
        let mut count = (before + more).min(self.pieces_max);
        while count > before && !self.lease.resize_as(Claim::Spare, bytes(count)) {
            count = before + (count - before) / 2;
        }
        if count <= before {
            return false;
        }
        self.pieces.resize_with(count, new_piece);
        self.spread(before * PIECE, now);
        true
    }

    /// Moves entries to where they belong since the table has grown. A home is the same share of
    /// the table as before, so none comes before where it was: from the last bucket on, entries
    /// move to where others have left.
    fn spread(&mut self, buckets_before: usize, now: u16) {
        // One in eight at most, as a rule.
        let mut others = Vec::with_capacity(buckets_before);
        for at in (0..buckets_before).rev() {
            let bucket = std::mem::take(self.bucket_mut(at));
            for entry in bucket {
                if entry.what == 0 || self.is_old(&entry, now) {
                    continue;
                }
                // Its second bucket is for when the first one is full at last.
                let home = self.home(entry.tag);
                if home < at || !put(self.bucket_mut(home), &entry) {
                    others.push(entry);
                }
            }
        }
        for entry in others {
            let mut place = self.place(&entry, now).1;
            if matches!(place, Place::Oldest(..)) && self.make_room(entry.tag, now) {
                place = self.place(&entry, now).1;
            }
            // A third of the places are empty: it is one.
            if let Place::Free(bucket, way) = place {
                self.bucket_mut(bucket)[way] = entry;
            }
        }
    }
}

fn new_piece() -> Box<Piece> {
    let buckets = vec![Bucket::default(); PIECE].into_boxed_slice();
    buckets.try_into().expect("it has so many")
}

/// Puts an entry into a bucket, if there is an empty place.
fn put(bucket: &mut Bucket, entry: &Entry) -> bool {
    let empty = bucket.iter_mut().find(|other| other.what == 0);
    empty.map(|empty| *empty = *entry).is_some()
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Free(usize, usize),
    Oldest(usize, usize),
}

fn tag(key: u64) -> u32 {
    (key >> 32) as u32
}

fn ticks(ns: i64) -> u32 {
    (ns >> TICK_BITS) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: i64 = 1_000_000_000;

    fn key(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn a_call_is_known_for_a_while_wherever_it_comes() {
        let budget = Budget::new(1 << 20);
        let mut calls = RecentCalls::new(60 * SECOND_NS, 1 << 20, &budget);
        for number in 0..5000 {
            assert_eq!(
                calls.on_call(key(number), 4, (1, number as i64), 0, |_| true),
                Known::default()
            );
        }
        calls.give_up(key(7), 1, SECOND_NS);
        for number in 0..5000 {
            let of_reply = calls.of_reply(key(number), 1, SECOND_NS);
            assert_eq!(of_reply.map(|call| call.is_given_up), Some(number == 7));
            assert_eq!(calls.of_reply(key(number), 2, SECOND_NS), None);
            let other = calls.on_call(key(number), 8, (1, -1), SECOND_NS, |_| true);
            assert_eq!(other, Known::default(), "what is called is another");
            let again = calls.on_call(key(number), 4, (2, -1), 59 * SECOND_NS, |_| true);
            let expected = RecentCall {
                connection: 1,
                is_given_up: number == 7,
                first_id: number as i64,
            };
            assert_eq!(again.same, Some(expected));
            let third = calls.on_call(key(number), 4, (3, -2), 60 * SECOND_NS, |_| true);
            let same = third.same.map(|same| (same.connection, same.first_id));
            assert_eq!(same, Some((2, number as i64)), "of the first");
            let other = calls.on_call(key(number), 4, (4, -3), 60 * SECOND_NS, |_| false);
            assert_eq!(other, Known::default());
            let found = calls.of_reply(key(number), 4, 60 * SECOND_NS);
            assert_eq!(found.map(|call| call.first_id), Some(-3), "no repeat");
        }
        let late = calls.on_call(key(1), 4, (1, 0), 200 * SECOND_NS, |_| true);
        assert_eq!(late, Known::default());
    }

    #[test]
    fn a_call_is_forgotten_however_long_ago_it_came() {
        // When 16 bits of time begin anew, in this many steps.
        let round_ns = 1 << (16 + TICK_BITS);
        for steps in [1, 2, 3, 40] {
            let budget = Budget::new(1 << 20);
            let mut calls = RecentCalls::new(60 * SECOND_NS, 1 << 20, &budget);
            calls.on_call(key(1), 4, (1, 1), SECOND_NS, |_| true);
            for step in 1..=steps {
                let now_ns = SECOND_NS + round_ns / steps * step;
                assert_eq!(calls.of_reply(key(1), 1, now_ns), None, "{step} of {steps}");
                calls.on_call(key(2), 4, (1, 2), now_ns, |_| true);
            }
            let again = calls.on_call(key(1), 4, (1, 3), SECOND_NS + round_ns, |_| true);
            assert_eq!(again, Known::default(), "{steps} steps");
        }
    }

    #[test]
    fn ids_are_known_although_only_48_bits_are_kept() {
        let budget = Budget::new(1 << 20);
        let mut calls = RecentCalls::new(60 * SECOND_NS, 1 << 20, &budget);
        let first_ids = [(1 << 48) - 1, (1 << 48) + 5];
        for (number, id) in (0..).zip(first_ids) {
            calls.on_call(key(number), 4, (1, id), SECOND_NS, |_| true);
        }
        for (number, id) in (0..).zip(first_ids) {
            let found = calls.of_reply(key(number), 1, SECOND_NS);
            assert_eq!(found.map(|call| call.first_id), Some(id));
        }
        // One that is so far behind that it could be forgotten is no longer the first.
        let mut again = |id| {
            let known = calls.on_call(key(9), 4, (1, id), SECOND_NS, |_| true);
            known.same.map(|same| same.first_id)
        };
        let begin = 1 << 50;
        let far = begin + (1 << 47);
        assert_eq!(again(begin), None);
        for (id, first_id) in [(begin + 1, begin), (far, begin), (far + 1, far)] {
            assert_eq!(again(id), Some(first_id));
        }
    }

    #[test]
    fn four_places_of_five_are_used_before_a_call_is_forgotten() {
        let budget = Budget::new(1 << 20);
        let mut calls = RecentCalls::new(60 * SECOND_NS, 1 << 20, &budget);
        // As random as those of many clients.
        let key = |number| key(key(number) ^ key(number) >> 32);
        let new = |calls: &mut RecentCalls, number: u64| {
            let call = (1, number as i64);
            calls.on_call(key(number), 4, call, SECOND_NS, |_| true)
        };
        let held = (0..).find(|&number| new(&mut calls, number).has_forgotten);
        let held = held.expect("it is full at last");
        // Ten pieces fit into a mebibyte.
        assert!(held as usize > 4 * 10 * PIECE * WAYS / 5, "{held}");
        let mut forgotten = 0;
        for number in 0..held {
            let found = calls.of_reply(key(number), 1, SECOND_NS);
            forgotten += u32::from(found.is_none());
            assert!(found.is_none_or(|call| call.first_id == number as i64));
        }
        assert_eq!(forgotten, 1);
    }

    #[test]
    fn without_memory_the_oldest_is_forgotten_and_counted() {
        let budget = Budget::new(100 << 10);
        let mut calls = RecentCalls::new(60 * SECOND_NS, 1 << 20, &budget);
        let mut forgotten = 0;
        for number in 0..12_000 {
            let at_ns = number as i64 * 2_500_000;
            let known = calls.on_call(key(number), 4, (1, 0), at_ns, |_| true);
            forgotten += u64::from(known.has_forgotten);
        }
        let now_ns = 30 * SECOND_NS;
        let mut is_known = |number: &u64| calls.of_reply(key(*number), 1, now_ns).is_some();
        let known: Vec<u64> = (0..12_000).filter(|number| is_known(number)).collect();
        assert_eq!(known.len() as u64 + forgotten, 12_000);
        assert!(known.len() > 2_800, "of 4,096 places: {}", known.len());
        assert!(known.contains(&11_999));
        drop(calls);
        assert_eq!(budget.used_bytes(), 0);
    }
}
