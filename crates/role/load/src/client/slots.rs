//! The connections of a plan, open or not, and the ends that they have.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lineside_tcp::Prefix;
use lineside_time::Nanoseconds;

use super::exchanges::NONE;
use crate::application::End;

/// A server's address and port.
pub type Target = End;

/// The addresses and ports from which a client's connections come, each pair in turn.
#[derive(Debug, Clone)]
pub struct Locals {
    blocks: Vec<Prefix>,
    /// Addresses of the blocks that are somebody else's.
    taken: Vec<IpAddr>,
    first_port: u16,
    ports: u32,
    /// Of the ports, those that leave this rest, divided by this many.
    share: (u32, u32),
}

/// The state of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    /// No connection, and none is asked for.
    #[default]
    Free,
    Opening,
    Open,
    /// This end has ended it, or has asked the peer to.
    Closing,
}

/// Flags of a slot in one byte, as there may be millions of slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Marks(u8);

impl Marks {
    /// It is in the list of those that take a request.
    pub(super) const READY: Self = Self(1);
    /// Its last request succeeded, and none was begun since.
    pub(super) const SUCCEEDED: Self = Self(2);

    /// Sets or clears a flag, and returns what it was.
    pub(super) fn set(&mut self, flag: Self, to: bool) -> bool {
        let was = self.0 & flag.0 != 0;
        self.0 = if to {
            self.0 | flag.0
        } else {
            self.0 & !flag.0
        };
        was
    }
}

/// A connection of a plan.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// Its number at the transport; known while it is open.
    pub(super) connection: u32,
    /// Its place in the pool of those with a request under way.
    pub(super) active: u32,
    /// Requests that it may still begin.
    pub(super) left: u32,
    pub(super) state: State,
    pub(super) marks: Marks,
    pub(super) target: u16,
    /// Bytes of its stream so far; while it opens, when that began.
    pub(super) sent: u64,
    /// Its pair of local address and port.
    pub(super) local: u64,
}

pub(super) struct Slots {
    pub(super) all: Vec<Slot>,
    pub(super) locals: Option<Locals>,
    pub(super) targets: Vec<Target>,
    /// The address that the transport chose towards each of them, if it did.
    chosen: Vec<Option<IpAddr>>,
    next_local: u64,
    next_target: usize,
}

impl Locals {
    /// All pairs of an address of `blocks`, without those in `taken`, and one of `ports` ports from
    /// `first_port` on; of the ports, every `share.1`-th from `share.0` on.
    pub fn new(
        blocks: Vec<Prefix>,
        taken: Vec<IpAddr>,
        first_port: u16,
        ports: u32,
        share: (u32, u32),
    ) -> Self {
        Self {
            blocks,
            taken,
            first_port,
            ports: ports.min(65_536 - u32::from(first_port)),
            share,
        }
    }

    fn ports(&self) -> u64 {
        let (_, count) = self.share;
        u64::from((self.ports + count - 1 - self.skipped().min(self.ports)) / count)
    }

    /// Ports before the first one of the share.
    fn skipped(&self) -> u32 {
        let (rest, count) = self.share;
        (rest + count - u32::from(self.first_port) % count) % count
    }

    fn addresses(&self) -> u64 {
        self.blocks.iter().map(usable).sum()
    }

    /// How many pairs there are, roughly: addresses that are somebody else's are in it.
    pub fn count(&self) -> u64 {
        self.addresses().saturating_mul(self.ports())
    }

    /// A pair, by its number, taken modulo their count; `None` if its address is taken.
    pub fn pair(&self, number: u64) -> Option<End> {
        let addresses = self.addresses().max(1);
        let mut place = number % addresses;
        let step = u64::from(self.share.1);
        let port = number / addresses % self.ports().max(1) * step + u64::from(self.skipped());
        let port = self.first_port.wrapping_add(port as u16);
        for block in &self.blocks {
            let here = usable(block);
            if place < here {
                let address = nth(block, place);
                return (!self.taken.contains(&address)).then_some((address, port));
            }
            place -= here;
        }
        None
    }
}

/// Hosts of a block: without its network and broadcast addresses (RFC 1122, 3.2.1.3), or without
/// the routers' anycast address of IPv6 (RFC 4291, 2.6.1). At most 2^32.
fn usable(block: &Prefix) -> u64 {
    let (bits, kept) = match block.address {
        IpAddr::V4(_) => (32 - u32::from(block.len.min(32)), 2),
        IpAddr::V6(_) => (128 - u32::from(block.len.min(128)), 1),
    };
    let all = 1u64 << bits.min(32);
    if all > 2 { all - kept } else { all }
}

fn nth(block: &Prefix, place: u64) -> IpAddr {
    let skip = u64::from(usable(block) > 2 || block_bits(block) > 1);
    match block.address {
        IpAddr::V4(address) => {
            let bits = block_bits(block);
            let network = u64::from(address.to_bits()) >> bits << bits;
            IpAddr::V4(Ipv4Addr::from_bits((network + place + skip) as u32))
        }
        IpAddr::V6(address) => {
            let bits = block_bits(block);
            let network = address.to_bits().checked_shr(bits).unwrap_or(0);
            let network = network.checked_shl(bits).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(network + u128::from(place + skip)))
        }
    }
}

fn block_bits(block: &Prefix) -> u32 {
    match block.address {
        IpAddr::V4(_) => 32 - u32::from(block.len.min(32)),
        IpAddr::V6(_) => 128 - u32::from(block.len.min(128)),
    }
}

impl Slots {
    /// So many slots, for connections from `locals` (any, if `None`) to `targets` in turn, from the
    /// `first`-th pair on.
    pub(super) fn new(count: u32, locals: Option<Locals>, targets: Vec<Target>) -> Self {
        let slot = Slot {
            connection: NONE,
            active: NONE,
            left: 0,
            state: State::Free,
            marks: Marks::default(),
            target: 0,
            sent: 0,
            local: 0,
        };
        Self {
            all: vec![slot; count as usize],
            locals,
            chosen: vec![None; targets.len()],
            targets,
            next_local: 0,
            next_target: 0,
        }
    }

    /// The ends of a slot's next connection.
    pub(super) fn next_ends(&mut self, slot: u32, now: Nanoseconds) -> [End; 2] {
        let target = self.next_target;
        self.next_target = (target + 1) % self.targets.len();
        let entry = &mut self.all[slot as usize];
        (entry.target, entry.sent) = (target as u16, now.cast_unsigned());
        entry.state = State::Opening;
        let remote = self.targets[target];
        let local = match &self.locals {
            None => (unspecified(remote.0), 0),
            Some(locals) => loop {
                let number = self.next_local;
                self.next_local += 1;
                if let Some(pair) = locals.pair(number) {
                    self.all[slot as usize].local = number;
                    break pair;
                }
            },
        };
        [local, remote]
    }
}

impl Slots {
    /// The local end of a connection, as the transport chose it.
    pub(super) fn set_local(&mut self, slot: u32, (address, port): End) {
        if self.locals.is_none() {
            let entry = &mut self.all[slot as usize];
            entry.local = port.into();
            let chosen = self.chosen.get_mut(usize::from(entry.target));
            if let Some(chosen) = chosen.filter(|_| !address.is_unspecified()) {
                *chosen = Some(address);
            }
        }
    }

    /// The ends of a slot's connection. Where the transport chose the address, it is the one that
    /// it chose last towards this server.
    pub(super) fn ends(&self, slot: u32) -> [End; 2] {
        let entry = &self.all[slot as usize];
        let remote = self.targets[usize::from(entry.target)];
        let local = match &self.locals {
            None => {
                let chosen = self
                    .chosen
                    .get(usize::from(entry.target))
                    .copied()
                    .flatten();
                let address = chosen.unwrap_or_else(|| unspecified(remote.0));
                (address, entry.local as u16)
            }
            Some(locals) => locals
                .pair(entry.local)
                .unwrap_or_else(|| (unspecified(remote.0), 0)),
        };
        [local, remote]
    }
}

fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn block(text: &str, len: u8) -> Prefix {
        Prefix {
            address: text.parse().expect("an address"),
            len,
        }
    }

    #[test]
    fn pairs_are_each_used_once_and_shared_by_port() {
        let taken: Vec<IpAddr> = vec!["10.9.0.1".parse().expect("an address")];
        let blocks = vec![block("10.9.0.0", 29), block("10.9.1.7", 32)];
        let mut seen = HashSet::new();
        for share in 0..3 {
            let locals = Locals::new(blocks.clone(), taken.clone(), 1_000, 10, (share, 3));
            let own: Vec<End> = { 0..locals.count() }
                .filter_map(|n| locals.pair(n))
                .collect();
            assert!(own.iter().all(|(_, port)| port % 3 == share as u16));
            seen.extend(own.iter().copied());
        }
        // Five of the six hosts of the /29, and the single address.
        assert_eq!(seen.len(), 6 * 10);
        assert!(seen.iter().all(|(_, port)| (1_000..1_010).contains(port)));
        assert!(!seen.iter().any(|(address, _)| taken.contains(address)));
    }

    #[test]
    fn blocks_leave_out_what_is_no_host() {
        for (text, len, first, last) in [
            ("10.9.7.3", 24, "10.9.7.1", "10.9.7.254"),
            ("10.9.7.3", 32, "10.9.7.3", "10.9.7.3"),
            ("10.9.7.3", 31, "10.9.7.2", "10.9.7.3"),
            ("fd00::5", 126, "fd00::5", "fd00::7"),
            ("fd00::5", 128, "fd00::5", "fd00::5"),
        ] {
            let locals = Locals::new(vec![block(text, len)], Vec::new(), 9, 1, (0, 1));
            let address = |number| locals.pair(number).expect("a pair").0.to_string();
            assert_eq!((&*address(0), &*address(locals.count() - 1)), (first, last));
        }
    }
}
