//! What came out of order: RFC 9293, 3.10.7.4 ("MAY be held"), RFC 2018, 4 (how it is reported).
//! Bound where it lies, within a quota.

use lineside_frame::{FrameRef, Range};
use lineside_wire::SeqNumber;

use crate::record::{Active, Held, Rare};
use crate::scoreboard::{earlier, later};
use crate::stack::Stack;

/// What a part counts as at least: it pins its frame.
const PART_BYTES_MIN: usize = 1024;

fn cost(len: usize) -> usize {
    len.max(PART_BYTES_MIN)
}

impl Stack {
    /// Holds `len` bytes of `frame` from `offset` on, which begin at `start`, but for those that
    /// are held already, the first of which are noted. Returns how many are held now, and how many
    /// were before.
    pub(crate) fn hold(
        &mut self,
        place: u32,
        frame: &FrameRef,
        offset: usize,
        (start, len): (SeqNumber, u32),
    ) -> (u32, u32) {
        let end = start + len;
        let quota = self.config.receive_window_bytes as usize * 2;
        let rare = self.tables.actives[place].rare_mut();
        let (mut at, mut held, mut duplicate) = (start, 0, 0);
        let mut index = { &rare.held }.partition_point(|part| !part.end().is_after(start));
        while at.is_before(end) {
            let next = rare.held.get(index);
            let stop = next.map_or(end, |part| earlier(part.start, end));
            if stop.is_after(at) {
                let part_len = stop.bytes_from(at);
                let price = cost(part_len as usize);
                let is_full = rare.held_cost + price > quota
                    || self.held_bytes + price > self.config.held_bytes_max;
                if !is_full && self.tables.parts.has_room(&mut rare.held) {
                    let from = offset + at.bytes_from(start) as usize;
                    let range = Range::bound(frame, from, part_len as usize);
                    rare.held.insert(index, Held { start: at, range });
                    index += 1;
                    rare.held_cost += price;
                    self.held_bytes += price;
                    held += part_len;
                }
            }
            let Some(part) = rare.held.get(index) else {
                break;
            };
            let covered = earlier(part.end(), end);
            let from = later(part.start, start);
            if covered.is_after(from) {
                duplicate += covered.bytes_from(from);
                add_duplicate(&mut self.duplicate, (from, covered));
            }
            at = later(covered, stop);
            index += 1;
        }
        if held + duplicate > 0 {
            rare.remember(start);
        }
        (held, duplicate)
    }

    /// Takes the first held part if it reaches beyond `next`, the next byte that is expected, and
    /// begins no later.
    pub(crate) fn take_held(&mut self, place: u32, next: SeqNumber) -> Option<Held> {
        let active = &mut self.tables.actives[place];
        let is_next = { active.held().first() }.is_some_and(|part| !part.start.is_after(next));
        if !is_next {
            return None;
        }
        let rare = active.rare_mut();
        let part = rare.held.remove(0);
        let price = cost(part.range.len());
        rare.held_cost -= price;
        self.held_bytes -= price;
        Some(part)
    }

    /// Lets go of everything held; returns how many bytes.
    pub(crate) fn drop_held(&mut self, place: u32) -> u64 {
        let active = &mut self.tables.actives[place];
        if active.held().is_empty() {
            return 0;
        }
        let rare = active.rare_mut();
        let mut bytes = 0;
        for part in rare.held.drain(..) {
            self.held_bytes -= cost(part.range.len());
            bytes += part.range.len() as u64;
        }
        rare.held_cost = 0;
        self.counters.bytes_held -= bytes;
        bytes
    }
}

/// Notes what came twice: of a segment the first run of such bytes is reported (RFC 2883, 4).
pub(crate) fn add_duplicate(
    duplicate: &mut Option<(SeqNumber, SeqNumber)>,
    (from, to): (SeqNumber, SeqNumber),
) {
    match duplicate {
        Some((_, end)) if *end == from => *end = to,
        known => _ = known.get_or_insert((from, to)),
    }
}

impl Rare {
    /// What came out of order last is reported first.
    fn remember(&mut self, start: SeqNumber) {
        let recent = self.recent.get_or_insert([start; 3]);
        if recent[0] != start {
            *recent = [start, recent[0], recent[1]];
        }
    }

    /// The block of held bytes with this number.
    fn block_of(&self, number: SeqNumber) -> Option<(SeqNumber, SeqNumber)> {
        let index = self
            .held
            .partition_point(|part| !part.end().is_after(number));
        let part = self.held.get(index)?;
        if part.start.is_after(number) {
            return None;
        }
        let (mut start, mut end) = (part.start, part.end());
        for before in self.held[..index].iter().rev() {
            if before.end() != start {
                break;
            }
            start = before.start;
        }
        for after in &self.held[index + 1..] {
            if after.start != end {
                break;
            }
            end = after.end();
        }
        Some((start, end))
    }

    fn blocks(&self) -> impl Iterator<Item = (SeqNumber, SeqNumber)> {
        let lowest = self.held.first().map(|part| part.start);
        let mut seen: [Option<SeqNumber>; 4] = [None; 4];
        let recent = self.recent.into_iter().flatten();
        let numbers = recent.chain(lowest).enumerate();
        let blocks = numbers.filter_map(move |(at, number)| {
            let block = self.block_of(number)?;
            let is_new = !seen.contains(&Some(block.0));
            seen[at] = Some(block.0);
            is_new.then_some(block)
        });
        blocks.take(4)
    }
}

impl Active {
    /// Blocks to be reported: those of late first, then the lowest (RFC 2018, 4).
    #[inline]
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (SeqNumber, SeqNumber)> {
        let rare = self.rare().filter(|rare| !rare.held.is_empty());
        rare.into_iter().flat_map(Rare::blocks)
    }
}
