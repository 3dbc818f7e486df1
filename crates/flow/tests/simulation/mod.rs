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
        builder(self.direction, sequence, acknowledgement, flags, payload)
    }
}

pub(crate) fn builder(
    direction: Direction,
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
    payload: &[u8],
) -> Vec<u8> {
    let ends = [([10, 0, 0, 1], 700), ([10, 0, 0, 2], 2049)];
    let (source, destination) = (ends[direction], ends[direction.opposite()]);
    FrameBuilder::new(source.0.into(), destination.0.into()).tcp(
        &TcpFields {
            source_port: source.1,
            destination_port: destination.1,
            sequence,
            acknowledgement,
            flags: TcpFlags(flags),
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
    let mut talk = Talk {
        isns,
        streams,
        sent: Vec::new(),
    };
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
    talk.sent.push(Sent {
        syn: true,
        without_ack: true,
        ..plain.clone()
    });
    talk.sent.push(Sent {
        syn: true,
        direction: Reverse,
        ..plain.clone()
    });
    talk.sent.push(plain.clone());
    let loss = if random.chance(0.5) { 0.0 } else { 0.1 };
    let mss = 1 + random.below(200) as usize;
    let mut sides = Direction::BOTH.map(|direction| Side {
        next: 0,
        again: Vec::new(),
        received: vec![false; talk.streams[direction.opposite()].len()],
        has: 0,
    });
    loop {
        let done = Direction::BOTH.map(|direction| {
            sides[direction].next == talk.streams[direction].len()
                && sides[direction].again.is_empty()
        });
        let direction = match done {
            [true, true] => break,
            [true, false] => Reverse,
            [false, true] => Forward,
            _ => Direction::BOTH[usize::from(random.chance(0.5))],
        };
        let len = talk.streams[direction].len();
        let has = sides[direction.opposite()].has;
        let side = &mut sides[direction];
        let acknowledged = side.has;
        for (.., wait) in &mut side.again {
            *wait = wait.saturating_sub(1);
        }
        let due = side.again.iter().position(|&(.., wait)| wait == 0);
        let (start, size) = match due {
            Some(at) => {
                let (start, size, _) = side.again.remove(at);
                let end = start + size;
                if end <= has {
                    continue;
                }
                let (start, size) = (start.max(has), end - start.max(has));
                // Perhaps with bytes around it that the other side has, but has not acknowledged.
                let earlier = random.below(30).min((start - has) as u64) as usize;
                let later = random.below(30).min((side.next - start - size) as u64) as usize;
                (start - earlier, size + earlier + later)
            }
            None if random.chance(0.1) || side.next == len => (side.next, 0),
            None => {
                let size = (1 + random.below(mss as u64) as usize).min(len - side.next);
                side.next += size;
                (side.next - size, size)
            }
        };
        let lost = size > 0 && random.chance(loss);
        let before_tap = random.chance(0.5);
        if lost {
            side.again.push((start, size, 1 + random.below(6) as usize));
        }
        if !(lost && before_tap) {
            talk.sent.push(Sent {
                direction,
                start,
                len: size,
                acknowledged,
                ..plain.clone()
            });
        }
        if !lost {
            let other = &mut sides[direction.opposite()];
            other.received[start..start + size].fill(true);
            while other.received.get(other.has) == Some(&true) {
                other.has += 1;
            }
        }
    }
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
