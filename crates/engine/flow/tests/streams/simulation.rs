//! Two TCP ends and the segments between them. The network may lose a segment before or after the
//! tap; then it is sent again, perhaps cut otherwise, and acknowledged only then.

use lineside_time::Random;
use lineside_wire::Direction::{self, Forward, Reverse};
use lineside_wire::TcpFlags;
use lineside_wire::build::{FrameBuilder, TcpFields};

pub(crate) const LATE_SEGMENTS: usize = 12;
/// Places by which a frame is late at most. As many earlier frames may be late into the same gap.
pub(crate) const DEPTH: usize = 5;
/// Ethernet, IPv4 and TCP without options.
pub(crate) const PAYLOAD_AT: usize = 54;

pub(crate) const FIN: u8 = TcpFlags::FIN.0;
pub(crate) const RST: u8 = TcpFlags::RST.0;
pub(crate) const SYN: u8 = TcpFlags::SYN.0;
pub(crate) const ACK: u8 = TcpFlags::ACK.0;

/// A segment on the wire before the tap.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) incarnation: usize,
    pub(crate) direction: Direction,
    /// Its place in its stream, and how many bytes it carries.
    pub(crate) start: usize,
    pub(crate) len: usize,
    /// Bytes of the other stream that its sender has, in order.
    pub(crate) acknowledged: usize,
    pub(crate) syn: bool,
    fin: bool,
    /// The acknowledgement covers the other side's FIN too.
    beyond_fin: bool,
    without_ack: bool,
}

/// A connection from its first to its last segment.
#[derive(Debug, Clone)]
pub(crate) struct Talk {
    pub(crate) isns: [u32; 2],
    pub(crate) streams: [Vec<u8>; 2],
    pub(crate) sent: Vec<Sent>,
}

impl Sent {
    pub(crate) fn frame(&self, talk: &Talk) -> Vec<u8> {
        let number = |direction: Direction, place: usize| {
            talk.isns[direction]
                .wrapping_add(1)
                .wrapping_add(place as u32)
        };
        let sequence = number(self.direction, self.start).wrapping_sub(u32::from(self.syn));
        let acknowledgement = number(
            self.direction.opposite(),
            self.acknowledged + usize::from(self.beyond_fin),
        );
        let mut flags = if self.without_ack { 0 } else { ACK };
        flags |= if self.syn { SYN } else { 0 };
        flags |= if self.fin { FIN } else { 0 };
        let payload = &talk.streams[self.direction][self.start..self.start + self.len];
        builder(
            700,
            self.direction,
            sequence,
            acknowledgement,
            flags,
            payload,
        )
    }
}

pub(crate) fn builder(
    port: u16,
    direction: Direction,
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
    payload: &[u8],
) -> Vec<u8> {
    with_options(
        port,
        direction,
        sequence,
        acknowledgement,
        flags,
        (&[], payload),
    )
}

/// A segment with options.
pub(crate) fn with_options(
    port: u16,
    direction: Direction,
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
    (options, payload): (&[u8], &[u8]),
) -> Vec<u8> {
    let ends = [([10, 0, 0, 1], port), ([10, 0, 0, 2], 2049)];
    let (source, destination) = (ends[direction], ends[direction.opposite()]);
    FrameBuilder::new(source.0.into(), destination.0.into()).tcp(
        &TcpFields {
            source_port: source.1,
            destination_port: destination.1,
            sequence,
            acknowledgement,
            flags: TcpFlags(flags),
            options,
            ..TcpFields::default()
        },
        payload,
    )
}

/// One side: what it has sent, and what it has of the other's stream.
struct Side {
    next: usize,
    /// Parts that were lost on their way, and how many segments later they are sent again.
    again: Vec<(usize, usize, usize)>,
    received: Vec<bool>,
    has: usize,
}

impl Side {
    /// The part of its stream of `len` bytes that it sends next; `None` if a part that was due has
    /// arrived meanwhile. `has`: what the other side has of the stream.
    fn next_part(
        &mut self,
        len: usize,
        has: usize,
        mss: usize,
        random: &mut Random,
    ) -> Option<(usize, usize)> {
        for (.., wait) in &mut self.again {
            *wait = wait.saturating_sub(1);
        }
        let Some(due) = self.again.iter().position(|&(.., wait)| wait == 0) else {
            if random.chance(0.1) || self.next == len {
                return Some((self.next, 0));
            }
            let size = (1 + random.below(mss as u64) as usize).min(len - self.next);
            self.next += size;
            return Some((self.next - size, size));
        };
        let (start, size, _) = self.again.remove(due);
        let end = start + size;
        if end <= has {
            return None;
        }
        let (start, size) = (start.max(has), end - start.max(has));
        // Perhaps with bytes around it that the other side has, but has not acknowledged.
        let earlier = random.below(30).min((start - has) as u64) as usize;
        let later = random.below(30).min((self.next - start - size) as u64) as usize;
        Some((start - earlier, size + earlier + later))
    }

    fn receive(&mut self, start: usize, size: usize) {
        self.received[start..start + size].fill(true);
        while self.received.get(self.has) == Some(&true) {
            self.has += 1;
        }
    }
}

/// A connection by seed.
pub(crate) fn talk(seed: u64, incarnation: usize) -> Talk {
    let mut random = Random::new(seed);
    let mut stream = || {
        let mut bytes = vec![0; 300 + random.below(4000) as usize];
        random.fill(&mut bytes);
        bytes
    };
    let streams = [stream(), stream()];
    let mut random = Random::new(seed ^ 0x5555);
    // Every second connection wraps around.
    let isns = [0, 1].map(|_| {
        if random.chance(0.5) {
            0u32.wrapping_sub(random.below(4000) as u32)
        } else {
            random.bits() as u32
        }
    });
    let plain = Sent {
        incarnation,
        direction: Forward,
        start: 0,
        len: 0,
        acknowledged: 0,
        syn: false,
        fin: false,
        beyond_fin: false,
        without_ack: false,
    };
    let syn = Sent {
        syn: true,
        ..plain.clone()
    };
    let mut sent = vec![syn.clone(), syn, plain.clone()];
    sent[0].without_ack = true;
    sent[1].direction = Reverse;
    let mut talk = Talk {
        isns,
        streams,
        sent,
    };
    talk.transfer(&plain, &mut random);
    let ends = Direction::BOTH.map(|direction| talk.streams[direction].len());
    for (direction, beyond_fin) in [(Forward, false), (Reverse, true)] {
        talk.sent.push(Sent {
            direction,
            start: ends[direction],
            acknowledged: ends[direction.opposite()],
            fin: true,
            beyond_fin,
            ..plain.clone()
        });
    }
    talk
}

impl Talk {
    /// Sends all bytes of both streams, in segments like `plain`.
    fn transfer(&mut self, plain: &Sent, random: &mut Random) {
        let loss = if random.chance(0.5) { 0.0 } else { 0.1 };
        let mss = 1 + random.below(200) as usize;
        let mut sides = Direction::BOTH.map(|direction| Side {
            next: 0,
            again: Vec::new(),
            received: vec![false; self.streams[direction.opposite()].len()],
            has: 0,
        });
        loop {
            let done = Direction::BOTH.map(|direction| {
                sides[direction].next == self.streams[direction].len()
                    && sides[direction].again.is_empty()
            });
            let direction = match done {
                [true, true] => break,
                [true, false] => Reverse,
                [false, true] => Forward,
                _ => Direction::BOTH[usize::from(random.chance(0.5))],
            };
            let len = self.streams[direction].len();
            let (side, other) = direction.split_mut(&mut sides);
            let acknowledged = side.has;
            let Some((start, size)) = side.next_part(len, other.has, mss, random) else {
                continue;
            };
            let lost = size > 0 && random.chance(loss);
            let before_tap = random.chance(0.5);
            if lost {
                side.again.push((start, size, 1 + random.below(6) as usize));
            }
            if !(lost && before_tap) {
                self.sent.push(Sent {
                    direction,
                    start,
                    len: size,
                    acknowledged,
                    ..plain.clone()
                });
            }
            if !lost {
                other.receive(start, size);
            }
        }
    }
}

/// Moves some items after one that was up to `depth` places later.
pub(crate) fn displace<T>(items: Vec<T>, share: f64, depth: usize, random: &mut Random) -> Vec<T> {
    let mut keyed: Vec<(usize, usize, T)> = items
        .into_iter()
        .enumerate()
        .map(|(index, item)| {
            let late = if random.chance(share) {
                1 + random.below(depth as u64) as usize
            } else {
                0
            };
            (index + late, late, item)
        })
        .collect();
    keyed.sort_by_key(|&(place, late, _)| (place, late));
    keyed.into_iter().map(|(.., item)| item).collect()
}
