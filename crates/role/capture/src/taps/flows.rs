//! Packets of the connections that two taps may have in common, as far as they identify them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use lineside_account::{Budget, Lease};
use lineside_frame::{Burst, FrameRef};
use lineside_port::{CaptureReader, PoolConfig, Port, Receive, Received};
use lineside_wire::tcp::{HEADER_LEN, TcpOption, TcpOptions};
use lineside_wire::{Direction, Dissected, FourTuple, Ip, TcpFlags, TcpHeader, dissect};

use crate::one_place::is_place_of_path;

/// A copy within this is a mirror's (`--duplicate-window`), unless another interface shows it.
pub(super) const MIRROR_NS: i64 = 1_000_000;

/// The last bytes of a frame, whatever its link layer.
pub(super) type Tail = u64;

/// The end of a packet in its connection, as a number; also segments that an adapter cuts or joins
/// share some of these.
pub(super) type End = u64;

/// Packets for which memory is drawn at once.
const DRAWN: usize = 1 << 14;

/// Stands for the protocol of fragments; the number is reserved.
const FRAGMENTS: u8 = u8::MAX;

/// Frames asked for at once.
const BURST: usize = 256;

/// Memory for the blocks of a file that is looked at before the run. Small ones: of most files a
/// few frames are looked at, and a block is cleared when it is made. A longer frame gets a longer
/// one.
const POOL_BYTES: usize = 128 << 10;

/// Where frames were seen: an input, or one interface of a file that describes several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Tap {
    pub(super) input: u16,
    pub(super) interface: u16,
}

/// A packet of a flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    pub(super) stamp_ns: i64,
    pub(super) frame: u32,
    /// Of TCP, the number of its first byte; of others, what identifies it.
    pub(super) sequence: u32,
    /// Sequence numbers that it takes: bytes, SYN, FIN.
    pub(super) len: u32,
    pub(super) acknowledgement: u32,
    /// What copies have in common, and what is sent again has not: identification, time stamp
    /// option, acknowledgement.
    pub(super) mark: u32,
}

/// What a packet belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    ends: [(IpAddr, u16); 2],
    protocol: u8,
}

impl Key {
    /// A number made of it and of what is in it.
    pub(super) fn mixed(&self, direction: Direction, what: u32) -> u64 {
        let [one, other] = self
            .ends
            .map(|(address, port)| (bits(address), u64::from(port)));
        let ports = one.1 << 48 | other.1 << 32 | u64::from(self.protocol) << 8;
        mix(&[
            one.0,
            other.0,
            ports | direction.index() as u64,
            u64::from(what),
        ])
    }

    pub(super) fn hosts(&self) -> [IpAddr; 2] {
        self.ends.map(|(address, _)| address)
    }

    pub(super) fn ports(&self) -> [u16; 2] {
        self.ends.map(|(_, port)| port)
    }

    /// Fragments have no ports, so it is of all connections of two hosts.
    pub(super) fn is_of_fragments(&self) -> bool {
        self.protocol == FRAGMENTS
    }

    pub(super) fn is_tcp(&self) -> bool {
        self.protocol == lineside_wire::PROTOCOL_TCP
    }
}

/// A packet with its place.
pub(super) struct Placed {
    pub(super) tap: Tap,
    pub(super) key: Key,
    pub(super) direction: Direction,
    pub(super) packet: Packet,
    /// Who opens the connection, if it shows that.
    pub(super) opener: Option<Direction>,
    /// The last bytes of its frame.
    pub(super) tail: Option<u64>,
}

/// A connection at both taps.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// Who sent the SYN.
    pub(super) opener: Option<Direction>,
    /// By tap, then by direction.
    pub(super) packets: [[Vec<Packet>; 2]; 2],
}

/// All connections of two taps.
pub(super) struct Flows {
    pub(super) by_key: BTreeMap<Key, Flow>,
    _lease: Lease,
}

impl Flows {
    /// Reads what two taps have of hosts that they share. `None`: there is no memory for it.
    pub(super) fn read(
        inputs: &[PathBuf],
        taps: [Tap; 2],
        shared: impl Fn([IpAddr; 2]) -> bool,
        budget: &Budget,
    ) -> Option<Self> {
        let mut lease = budget.lease(0)?;
        let (mut by_key, mut count) = (BTreeMap::<Key, Flow>::new(), 0);
        let mut files = taps.map(|tap| tap.input).to_vec();
        files.dedup();
        let mut fits = true;
        for input in files {
            read_packets(inputs, input, budget, |placed| {
                let Some(place) = taps.iter().position(|tap| *tap == placed.tap) else {
                    return ControlFlow::Continue(());
                };
                if !shared(placed.key.hosts()) {
                    return ControlFlow::Continue(());
                }
                if count % DRAWN == 0 {
                    // As lists grow, they take up to twice what is in them, and later as much for
                    // what is made of it.
                    fits = lease.resize((count + DRAWN) * 4 * size_of::<Packet>());
                    if !fits {
                        return ControlFlow::Break(());
                    }
                }
                count += 1;
                let flow = by_key.entry(placed.key).or_default();
                flow.opener = flow.opener.or(placed.opener);
                flow.packets[place][placed.direction].push(placed.packet);
                ControlFlow::Continue(())
            });
        }
        let is_seen = |tap: &[Vec<Packet>; 2]| tap.iter().any(|packets| !packets.is_empty());
        // Of a file that has both, each packet is of either.
        by_key.retain(|_, flow| taps[0] == taps[1] || flow.packets.iter().all(is_seen));
        fits.then_some(Self {
            by_key,
            _lease: lease,
        })
    }
}

/// Gives each packet of a file to `each`, until that breaks off. What cannot be read ends it: the
/// run itself reports that.
pub(super) fn read_packets(
    inputs: &[PathBuf],
    input: u16,
    budget: &Budget,
    mut each: impl FnMut(&Placed) -> ControlFlow<()>,
) {
    read_frames(&inputs[usize::from(input)], budget, |frame| {
        match placed(input, frame) {
            Some(placed) => each(&placed),
            None => ControlFlow::Continue(()),
        }
    });
}

fn read_frames(path: &Path, budget: &Budget, mut each: impl FnMut(&FrameRef) -> ControlFlow<()>) {
    let pool = PoolConfig::new(budget.clone(), POOL_BYTES);
    let Ok(mut port) = CaptureReader::open(path, &pool) else {
        return;
    };
    let mut burst = Burst::with_capacity(BURST);
    loop {
        let received = port.receive(&mut burst, BURST);
        // Where a path's frames are read, `OnePlace` decides.
        let mut frames = { burst.iter() }.filter(|frame| {
            let at = usize::from(frame.descriptor().interface);
            let described = port.facts_of(0).and_then(|facts| facts.interfaces.get(at));
            let name = described.and_then(|interface| interface.name.as_deref());
            !name.is_some_and(is_place_of_path)
        });
        if frames.any(|frame| each(frame).is_break()) {
            return;
        }
        burst.clear();
        if !matches!(
            received,
            Ok(Received::Frames(_) | Received::Interrupted | Received::Idle { .. })
        ) {
            return;
        }
    }
}

/// What a frame says of its packet, unless that has no time or belongs to nothing.
pub(super) fn placed(input: u16, frame: &FrameRef) -> Option<Placed> {
    let descriptor = frame.descriptor();
    let bytes = frame.bytes();
    let wire_len = descriptor.wire_len as usize;
    let of_rest = |ip: &Ip, from: usize, ports: [u16; 2], what: u64| {
        let rest = bytes.get(from..).unwrap_or_default();
        let rest = &rest[..rest.len().min(48)];
        Fields {
            ports,
            sequence: mix(&[ip.identification.into(), what, mix_bytes(rest)]) as u32,
            len: 1,
            ..Fields::default()
        }
    };
    let (
        ip,
        protocol,
        Fields {
            ports,
            sequence,
            len,
            acknowledgement,
            mark,
            opener,
        },
    ) = match dissect(descriptor.link_type.0, bytes, wire_len) {
        Dissected::Tcp(ip, tcp) => (ip, ip.protocol, of_tcp(&ip, &tcp, bytes)),
        Dissected::Udp(ip, udp) => {
            let ports = [udp.source_port, udp.destination_port];
            (
                ip,
                ip.protocol,
                of_rest(&ip, udp.payload, ports, udp.payload_len as u64),
            )
        }
        Dissected::Fragment(ip, part) => {
            let what = u64::from(part.identification) << 32 | part.offset as u64;
            (ip, FRAGMENTS, of_rest(&ip, ip.payload, [0; 2], what))
        }
        _ => return None,
    };
    let (tuple, direction) = FourTuple::of(&ip, ports[0], ports[1]).canonical();
    Some(Placed {
        tap: Tap {
            input,
            interface: descriptor.interface,
        },
        key: Key {
            ends: tuple.ends().map(|end| (end.address, end.port)),
            protocol,
        },
        direction,
        packet: Packet {
            stamp_ns: descriptor.stamp_ns?,
            frame: u32::try_from(descriptor.number).ok()?,
            sequence,
            len,
            acknowledgement,
            mark,
        },
        opener: opener.map(|is_sender| match is_sender {
            true => direction,
            false => direction.opposite(),
        }),
        tail: tail(bytes),
    })
}

/// What a packet's headers give.
#[derive(Default)]
struct Fields {
    ports: [u16; 2],
    sequence: u32,
    len: u32,
    acknowledgement: u32,
    mark: u32,
    /// Whether the sender opens the connection.
    opener: Option<bool>,
}

fn of_tcp(ip: &Ip, tcp: &TcpHeader, bytes: &[u8]) -> Fields {
    let ports = [tcp.source_port, tcp.destination_port];
    let is_syn = tcp.flags.contains(TcpFlags::SYN);
    let is_fin = tcp.flags.contains(TcpFlags::FIN);
    let len = tcp.payload_len as u32 + u32::from(is_syn) + u32::from(is_fin);
    let options = bytes.get(ip.payload..).unwrap_or_default();
    let options = &options[..options.len().min(tcp.header_len)];
    let mut options = TcpOptions::new(options.get(HEADER_LEN..).unwrap_or_default());
    let time = options.find_map(|option| match option {
        Ok(TcpOption::Timestamps { value, .. }) => Some(value),
        _ => None,
    });
    let time = time.map_or(0, |time| 1 << 32 | u64::from(time));
    let sent = u64::from(ip.identification) << 32 | u64::from(tcp.acknowledgement.0);
    let mark = mix(&[time, sent]) as u32;
    let opener = is_syn.then(|| !tcp.flags.contains(TcpFlags::ACK));
    Fields {
        ports,
        sequence: tcp.sequence.0,
        len,
        acknowledgement: tcp.acknowledgement.0,
        mark,
        opener,
    }
}

fn bits(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => mix(&[address.to_bits() as u64, (address.to_bits() >> 64) as u64]),
    }
}

/// A number made of words: both halves of a product, as wyhash mixes (Wang Yi 2019).
fn mix(words: &[u64]) -> u64 {
    words.iter().fold(0x9e37_79b9_7f4a_7c15, |mixed, word| {
        let product = u128::from(mixed ^ word) * 0xd1b5_4a32_d192_ed03;
        (product >> 64) as u64 ^ product as u64
    })
}

/// The same of bytes.
fn mix_bytes(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.fold(bytes.len() as u64, |mixed, word| mix(&[mixed, word]))
}

pub(super) fn end_of(placed: &Placed) -> Option<End> {
    let Packet { sequence, len, .. } = placed.packet;
    (len > 0).then(|| { placed.key }.mixed(placed.direction, sequence.wrapping_add(len)))
}

/// The last bytes of a frame that is longer than what is padded.
pub(super) fn tail(bytes: &[u8]) -> Option<Tail> {
    const PADDED_LEN: usize = 80;
    if bytes.len() < PADDED_LEN {
        return None;
    }
    bytes.last_chunk().map(|last| Tail::from_le_bytes(*last))
}
