//! Ethernet addresses of neighbours, asked for by ARP (RFC 826; RFC 1122, 2.3.2) or neighbour
//! discovery (RFC 4861, 7.2), and aged. Addresses of one's own are answered for by `control`.
//!
//! Frames that wait for an answer wait here. Whoever uses this asks, and reads the answers: what an
//! answer is (`L`: an Ethernet address, or one behind a port), and what is to be known of a frame
//! that waits (`T`), are the user's.

use std::collections::VecDeque;
use std::net::IpAddr;

use hashbrown::HashTable;
use lineside_account::{Budget, Lease};
use lineside_frame::Frame;
use lineside_time::Nanoseconds;

use crate::keyed::hash_of_address;
use crate::slab::NONE;
use crate::slab::{Numbered, Slab};

/// Between two questions: RFC 4861, 10, RETRANS_TIMER; RFC 1122 allows one a second.
const ASK_NS: i64 = 1_000_000_000;
/// Questions without an answer: RFC 4861, 10, MAX_MULTICAST_SOLICIT.
const ASKS_MAX: u8 = 3;
/// An answer holds for this long, then it is asked for again while it is used: RFC 4861, 10,
/// REACHABLE_TIME.
const FRESH_NS: i64 = 30_000_000_000;
/// When an address that was entered for good is asked for again.
const NEVER: Nanoseconds = Nanoseconds::MAX;
/// Frames that wait for an answer: RFC 1122, 2.3.2.2 asks for one at least. Each handshake of a
/// host that is not known yet waits, and one that is dropped takes a second; Linux keeps 101.
const WAITING_MAX: usize = 100;
/// Frames that wait for all answers: no more blocks are held for hosts that may not be there.
const WAITING_ALL_MAX: usize = 1024;

/// An address on the link.
#[derive(Debug)]
struct Neighbour<L> {
    address: IpAddr,
    link_address: Option<L>,
    /// Where somebody else says that it is: taken if it does not answer from where it is known.
    claimed: Option<L>,
    /// When it is asked for again, or the answer is to be asked for anew.
    at: Nanoseconds,
    asks: u8,
    /// Frames that wait for it.
    waiting: usize,
    /// While it is nobody's.
    next_free: u32,
}

impl<L> Numbered for Neighbour<L> {
    fn next_free(&mut self) -> &mut u32 {
        &mut self.next_free
    }
}

/// A frame that waits for the Ethernet address of a neighbour.
#[derive(Debug)]
struct Waiting<T> {
    number: u32,
    frame: Frame,
    departure: T,
}

/// What is known of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known<L> {
    /// Its Ethernet address.
    Address {
        /// Where it is.
        link_address: L,
        /// It is to be asked for again.
        asks: bool,
    },
    /// Nothing: the frame waits.
    Waits {
        /// It is to be asked for.
        asks: bool,
    },
    /// There is no room for another neighbour.
    NoRoom,
}

/// The outcome of a turn of asking for neighbours.
#[derive(Debug)]
pub enum Turn {
    /// It is to be asked for again.
    Ask(IpAddr),
    /// It did not answer at its known place; another neighbour announced where it is now.
    Moved(IpAddr),
    /// It does not answer: this many frames that waited are dropped.
    Silent(IpAddr, u64),
}

/// All neighbours.
#[derive(Debug)]
pub struct Neighbours<L, T> {
    neighbours: Slab<Neighbour<L>>,
    table: HashTable<u32>,
    key: [u64; 2],
    /// The one that a frame was for last, often the only router; [`NONE`] when one is removed.
    latest: u32,
    /// Those that are asked for.
    asking: Vec<u32>,
    /// Those that wait longest first.
    waiting: VecDeque<Waiting<T>>,
    _lease: Lease,
}

impl<L: Copy, T> Neighbours<L, T> {
    /// Bytes of a neighbour beside its record.
    const BYTES: usize = 32 + size_of::<u32>();

    /// At most `max` of them; `None` if the budget does not bear them. The key is secret: strangers
    /// choose addresses.
    pub fn new(max: u32, key: [u64; 2], budget: &Budget) -> Option<Self> {
        let bytes = max as usize * Self::BYTES + WAITING_ALL_MAX * size_of::<Waiting<T>>();
        Some(Self {
            neighbours: Slab::new(max, budget)?,
            table: HashTable::with_capacity(max as usize),
            key,
            latest: NONE,
            asking: Vec::with_capacity(max as usize),
            waiting: VecDeque::with_capacity(WAITING_ALL_MAX),
            _lease: budget.lease(bytes)?,
        })
    }

    fn find(&self, address: IpAddr) -> Option<u32> {
        let hash = hash_of_address(self.key, address);
        let is_it = |&number: &u32| self.neighbours[number].address == address;
        self.table.find(hash, is_it).copied()
    }

    #[inline]
    fn find_or_add(&mut self, address: IpAddr) -> Option<u32> {
        let latest = self.neighbours.get(self.latest);
        if latest.is_some_and(|latest| latest.address == address) {
            return Some(self.latest);
        }
        let number = self.find(address).or_else(|| self.add(address))?;
        self.latest = number;
        Some(number)
    }

    fn add(&mut self, address: IpAddr) -> Option<u32> {
        let make = || Neighbour {
            address,
            link_address: None,
            claimed: None,
            at: 0,
            asks: 0,
            waiting: 0,
            next_free: 0,
        };
        let number = self.neighbours.take(make)?;
        let neighbour = &mut self.neighbours[number];
        (neighbour.address, neighbour.link_address) = (address, None);
        neighbour.claimed = None;
        (neighbour.at, neighbour.asks) = (0, 0);
        let (key, neighbours) = (self.key, &self.neighbours);
        self.table
            .insert_unique(hash_of_address(key, address), number, |&number| {
                hash_of_address(key, neighbours[number].address)
            });
        Some(number)
    }

    /// The Ethernet address of a neighbour that a frame is for.
    #[inline]
    pub fn resolve(&mut self, now: Nanoseconds, address: IpAddr) -> Known<L> {
        let Some(number) = self.find_or_add(address) else {
            return Known::NoRoom;
        };
        let neighbour = &mut self.neighbours[number];
        let asks = neighbour.asks == 0 && (neighbour.link_address.is_none() || now >= neighbour.at);
        if asks {
            (neighbour.asks, neighbour.at) = (1, now.saturating_add(ASK_NS));
            self.asking.push(number);
        }
        match neighbour.link_address {
            Some(link_address) => Known::Address { link_address, asks },
            None => Known::Waits { asks },
        }
    }

    /// What is sent to a neighbour seems not to arrive: its address is asked for again when the
    /// next frame is for it.
    pub fn doubt(&mut self, now: Nanoseconds, address: IpAddr) {
        if let Some(number) = self.find(address) {
            let neighbour = &mut self.neighbours[number];
            if neighbour.asks == 0 && neighbour.at != NEVER {
                neighbour.at = now;
            }
        }
    }

    /// A frame waits for an answer. The one that waited longest for it makes room, or if too many
    /// wait for others, the one that waited longest of all; it is returned.
    pub fn wait(&mut self, address: IpAddr, frame: Frame, departure: T) -> Option<(Frame, T)> {
        let Some(number) = self.find(address) else {
            return Some((frame, departure));
        };
        let dropped = if self.neighbours[number].waiting == WAITING_MAX {
            let place = self.waiting.iter().position(|each| each.number == number);
            place.and_then(|place| self.waiting.remove(place))
        } else if self.waiting.len() == WAITING_ALL_MAX {
            self.waiting.pop_front()
        } else {
            None
        };
        if let Some(dropped) = &dropped {
            self.neighbours[dropped.number].waiting -= 1;
        }
        self.neighbours[number].waiting += 1;
        self.waiting.push_back(Waiting {
            number,
            frame,
            departure,
        });
        dropped.map(|waiting| (waiting.frame, waiting.departure))
    }

    /// Takes out what waits for a neighbour; returns how many frames.
    fn release(&mut self, number: u32, mut each: impl FnMut(Frame, T)) -> usize {
        let count = std::mem::take(&mut self.neighbours[number].waiting);
        let (mut left, mut place) = (count, 0);
        while left > 0 {
            if self.waiting[place].number != number {
                place += 1;
                continue;
            }
            left -= 1;
            if let Some(waiting) = self.waiting.remove(place) {
                each(waiting.frame, waiting.departure);
            }
        }
        count
    }

    /// Learns an address; `adds`: also one that nobody asked for. Hands over what waited.
    pub fn learn(
        &mut self,
        now: Nanoseconds,
        address: IpAddr,
        link_address: L,
        adds: bool,
        release: impl FnMut(Frame, T),
    ) {
        let number = if adds {
            self.find_or_add(address)
        } else {
            self.find(address)
        };
        let Some(number) = number else {
            return;
        };
        let neighbour = &mut self.neighbours[number];
        neighbour.link_address = Some(link_address);
        neighbour.claimed = None;
        if neighbour.at != NEVER {
            (neighbour.asks, neighbour.at) = (0, now.saturating_add(FRESH_NS));
        }
        self.asking.retain(|&each| each != number);
        self.release(number, release);
    }

    /// Somebody says to have an address that is known elsewhere: it moved, or it is forged. Its
    /// owner, if it still is where it is known, has until the next question's time to say so by
    /// [`learn`](Self::learn). True: it is to be asked for.
    pub fn claim(&mut self, now: Nanoseconds, address: IpAddr, link_address: L) -> bool {
        let Some(number) = self.find(address) else {
            return false;
        };
        let neighbour = &mut self.neighbours[number];
        if neighbour.at == NEVER {
            return false;
        }
        neighbour.claimed = Some(link_address);
        let asks = neighbour.asks == 0;
        if asks {
            (neighbour.asks, neighbour.at) = (1, now.saturating_add(ASK_NS));
            self.asking.push(number);
        }
        asks
    }

    /// Enters an address for good: it is neither asked for nor doubted. What waited for it is
    /// dropped; returns how many frames, or `None` where there is no room.
    pub fn keep(&mut self, address: IpAddr, link_address: L) -> Option<usize> {
        let number = self.find_or_add(address)?;
        let neighbour = &mut self.neighbours[number];
        neighbour.link_address = Some(link_address);
        (neighbour.asks, neighbour.at) = (0, NEVER);
        self.asking.retain(|&each| each != number);
        Some(self.release(number, |_, _| {}))
    }

    /// What is known of an address, without asking for it.
    pub fn known(&self, address: IpAddr) -> Option<L> {
        self.neighbours[self.find(address)?].link_address
    }

    /// How many frames wait.
    pub fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    /// The frames that wait, those that wait longest first.
    pub fn waiting_mut(&mut self) -> impl Iterator<Item = &mut Frame> {
        self.waiting.iter_mut().map(|waiting| &mut waiting.frame)
    }

    /// When the next question is due.
    pub fn next_deadline(&self) -> Option<Nanoseconds> {
        let asking = self.asking.iter();
        asking.map(|&number| self.neighbours[number].at).min()
    }

    /// The next that is to be asked for again or that is silent; what waited for that is handed
    /// over, to be dropped.
    pub fn on_timer(&mut self, now: Nanoseconds, release: impl FnMut(Frame, T)) -> Option<Turn> {
        let is_due = |&number: &u32| self.neighbours[number].at <= now;
        let place = self.asking.iter().position(is_due)?;
        let number = self.asking[place];
        let neighbour = &mut self.neighbours[number];
        let address = neighbour.address;
        if let Some(claimed) = neighbour.claimed.take() {
            neighbour.link_address = Some(claimed);
            (neighbour.asks, neighbour.at) = (0, now.saturating_add(FRESH_NS));
            self.asking.swap_remove(place);
            return Some(Turn::Moved(address));
        }
        if neighbour.asks < ASKS_MAX {
            neighbour.asks += 1;
            neighbour.at = now.saturating_add(ASK_NS);
            return Some(Turn::Ask(address));
        }
        self.asking.swap_remove(place);
        let dropped = self.release(number, release);
        let hash = hash_of_address(self.key, address);
        if let Ok(entry) = self.table.find_entry(hash, |&each| each == number) {
            entry.remove();
        }
        self.neighbours.free(number);
        self.latest = NONE;
        Some(Turn::Silent(address, dropped as u64))
    }
}

#[cfg(test)]
mod tests {
    use lineside_frame::Descriptor;

    use super::*;

    type Neighbours = super::Neighbours<[u8; 6], ()>;

    fn address(number: u8) -> IpAddr {
        [192, 0, 2, number].into()
    }

    /// Lets this many frames wait, whose first bytes are their numbers; returns those of dropped
    /// ones.
    fn wait(neighbours: &mut Neighbours, address: IpAddr, count: usize) -> Vec<u8> {
        neighbours.resolve(0, address);
        let frame = |number| Frame::copied(&[number as u8; 60], Descriptor::default());
        let dropped = (0..count).filter_map(|number| neighbours.wait(address, frame(number), ()));
        dropped.map(|(frame, ())| frame.bytes()[0]).collect()
    }

    #[test]
    fn a_hundred_frames_wait_for_a_neighbour() {
        let budget = Budget::new(1 << 20);
        let mut neighbours = Neighbours::new(100, [0; 2], &budget).expect("it fits");
        assert_eq!(wait(&mut neighbours, address(1), 102), [0, 1], "the oldest");
        let mut released = Vec::new();
        neighbours.learn(0, address(1), [2; 6], false, |frame, _| {
            released.push(frame.bytes()[0]);
        });
        assert_eq!(released, (2..102).collect::<Vec<_>>());
    }

    #[test]
    fn a_neighbour_that_is_kept_is_never_asked_for() {
        let budget = Budget::new(1 << 20);
        let mut neighbours = Neighbours::new(2, [0; 2], &budget).expect("it fits");
        assert_eq!(wait(&mut neighbours, address(1), 3), []);
        assert_eq!(neighbours.keep(address(1), [2; 6]), Some(3), "what waited");
        assert_eq!(neighbours.next_deadline(), None);
        for now in [0, FRESH_NS, 1_000 * FRESH_NS] {
            neighbours.doubt(now, address(1));
            let known = neighbours.resolve(now, address(1));
            let Known::Address { link_address, asks } = known else {
                panic!("it is known");
            };
            assert_eq!((link_address, asks), ([2; 6], false));
            // The address may change: the neighbour says so itself.
            neighbours.learn(now, address(1), [2; 6], false, |_, _| {});
        }
        assert_eq!(neighbours.keep(address(2), [4; 6]), Some(0));
        assert_eq!(neighbours.keep(address(3), [6; 6]), None, "no room");
    }

    #[test]
    fn silent_neighbours_do_not_hold_all_frames() {
        let budget = Budget::new(1 << 20);
        let mut neighbours = Neighbours::new(100, [0; 2], &budget).expect("it fits");
        for number in 0..10 {
            assert_eq!(wait(&mut neighbours, address(number), 100), []);
        }
        // Beyond 1,024 those that waited longest go.
        assert_eq!(wait(&mut neighbours, address(10), 27), [0, 1, 2]);
        let (mut silent, mut dropped) = (0, 0);
        for second in 1..4 {
            while let Some(turn) = neighbours.on_timer(second * ASK_NS, |_, ()| {}) {
                if let Turn::Silent(_, frames) = turn {
                    silent += 1;
                    dropped += frames;
                }
            }
        }
        assert_eq!((silent, dropped), (11, 1024));
        // And there is room again.
        assert_eq!(wait(&mut neighbours, address(50), 100), []);
    }
}
