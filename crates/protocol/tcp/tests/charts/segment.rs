//! A segment as a line of a chart writes it.

use std::fmt;

use lineside_wire::build::{FrameBuilder, TcpFields};
use lineside_wire::tcp::{SackBlocks, Segment as Wire, TcpOption};
use lineside_wire::{Dissected, SeqNumber, TcpFlags, dissect_outermost};

use crate::chart::content;

/// `FLAGS START:END [ack N] [win N] [mss N] [scale N] [sackok] [ts VALUE:ECHO] [sack A:B]...
/// [ecn N]`; what is not written is not compared.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) flags: TcpFlags,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) ack: Option<i64>,
    pub(crate) win: Option<u16>,
    pub(crate) mss: Option<u16>,
    pub(crate) scale: Option<u8>,
    pub(crate) sackok: bool,
    pub(crate) ts: Option<(i64, i64)>,
    pub(crate) sack: Vec<(i64, i64)>,
    /// The codepoint of its IP header: RFC 3168, 5.
    pub(crate) ecn: Option<u8>,
}

/// Where the numbers of a chart begin: the initial sequence numbers of the sender and of the
/// receiver, and their first timestamps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bases {
    pub(crate) sequence: [SeqNumber; 2],
    pub(crate) timestamp: [u32; 2],
}

const FLAGS: [(char, TcpFlags); 8] = [
    ('F', TcpFlags::FIN),
    ('S', TcpFlags::SYN),
    ('R', TcpFlags::RST),
    ('P', TcpFlags::PSH),
    ('A', TcpFlags::ACK),
    ('U', TcpFlags::URG),
    ('E', TcpFlags::ECE),
    ('W', TcpFlags::CWR),
];

fn pair(text: &str) -> (i64, i64) {
    let (one, other) = text.split_once(':').expect("two numbers");
    let number = |text: &str| text.parse().expect("a number");
    (number(one), number(other))
}

impl Segment {
    pub(crate) fn parse(words: &mut dyn Iterator<Item = &str>) -> Self {
        let flags = words.next().expect("flags");
        // A segment without any flag is written `.`.
        let flags = flags.chars().filter(|&letter| letter != '.').map(|letter| {
            let known = FLAGS.iter().find(|(name, _)| *name == letter);
            known.unwrap_or_else(|| panic!("no flag {letter}")).1
        });
        let flags = flags.fold(TcpFlags::default(), |all, one| all | one);
        let (start, end) = pair(words.next().expect("sequence numbers"));
        let mut read = Self {
            flags,
            start,
            end,
            ..Self::default()
        };
        while let Some(word) = words.next() {
            if word == "sackok" {
                read.sackok = true;
                continue;
            }
            let value = words.next().expect("a value");
            let number = || value.parse::<i64>().expect("a number");
            match word {
                "ack" => read.ack = Some(number()),
                "win" => read.win = Some(number() as u16),
                "mss" => read.mss = Some(number() as u16),
                "scale" => read.scale = Some(number() as u8),
                "ts" => read.ts = Some(pair(value)),
                "ecn" => read.ecn = Some(number() as u8),
                "sack" => read.sack.push(pair(value)),
                _ => panic!("no word {word}"),
            }
        }
        read
    }

    /// Whether a segment that left is the expected one.
    pub(crate) fn is_met_by(&self, left: &Self) -> bool {
        let but_push = |flags: TcpFlags| flags.0 & !TcpFlags::PSH.0;
        let needs_push = self.flags.contains(TcpFlags::PSH);
        but_push(self.flags) == but_push(left.flags)
            && (!needs_push || left.flags.contains(TcpFlags::PSH))
            && (self.start, self.end) == (left.start, left.end)
            && (self.ack.is_none() || self.ack == left.ack)
            && (self.win.is_none() || self.win == left.win)
            && (self.mss.is_none() || self.mss == left.mss)
            && (self.scale.is_none() || self.scale == left.scale)
            && (!self.sackok || left.sackok)
            && (self.ts.is_none() || self.ts == left.ts)
            && self.sack == left.sack
            && (self.ecn.is_none() || self.ecn == left.ecn)
    }

    fn payload_len(&self) -> i64 {
        let counted = [TcpFlags::SYN, TcpFlags::FIN].into_iter();
        let counted = counted.filter(|&flag| self.flags.contains(flag)).count();
        self.end - self.start - counted as i64
    }

    /// The frame of a segment between two ends.
    pub(crate) fn frame(&self, builder: &FrameBuilder, ports: [u16; 2], bases: Bases) -> Vec<u8> {
        let [ours, theirs] = bases.sequence;
        let mut options = [0; 40];
        let mut rest = &mut options[..];
        let blocks: Vec<_> = { self.sack.iter() }
            .map(|&(from, to)| SackBlocks::block(theirs + from as u32, theirs + to as u32))
            .collect();
        let ts = self.ts.map(|(value, echo)| TcpOption::Timestamps {
            value: bases.timestamp[0].wrapping_add(value as u32),
            echo: bases.timestamp[1].wrapping_add(echo as u32),
        });
        let all = [
            self.mss.map(TcpOption::Mss),
            self.scale.map(TcpOption::WindowScale),
            self.sackok.then_some(TcpOption::SackPermitted),
            ts,
            (!blocks.is_empty()).then(|| TcpOption::Sack(SackBlocks::new(&blocks))),
        ];
        for option in all.into_iter().flatten() {
            rest = option.emit(rest);
        }
        let len = 40 - rest.len();
        let fields = TcpFields {
            source_port: ports[0],
            destination_port: ports[1],
            sequence: (ours + self.start as u32).0,
            acknowledgement: self.ack.map_or(0, |ack| (theirs + ack as u32).0),
            flags: self.flags,
            window: self.win.unwrap_or(60_000),
            options: &options[..len],
        };
        let first = self.start + i64::from(self.flags.contains(TcpFlags::SYN));
        let payload: Vec<_> = { first..first + self.payload_len().max(0) }
            .map(content)
            .collect();
        let builder = builder.clone().with_ecn(self.ecn.unwrap_or(0));
        builder.tcp(&fields, &payload)
    }

    /// The segment of a frame that left, and its ports; `None`: it is none. Its bytes are what they
    /// are to be.
    pub(crate) fn read(
        frame: &[u8],
        bases: impl FnOnce([u16; 2], SeqNumber, TcpFlags) -> Bases,
    ) -> Option<(Self, [u16; 2])> {
        let Dissected::Tcp(ip, header) = dissect_outermost(1, frame, frame.len()) else {
            return None;
        };
        let bytes = &frame[ip.payload..][..ip.payload_len];
        let wire = Wire::new_checked(bytes).expect("a whole header");
        assert!(
            wire.verify_checksum(ip.source, ip.destination),
            "a checksum"
        );
        let ports = [wire.source_port(), wire.destination_port()];
        let flags = wire.flags();
        let bases = bases(ports, wire.sequence(), flags);
        let [ours, theirs] = bases.sequence;
        let start = i64::from(wire.sequence().distance_from(ours));
        let has = |flag| i64::from(flags.contains(flag));
        let payload = wire.payload();
        let mut read = Self {
            flags,
            start,
            end: start + payload.len() as i64 + has(TcpFlags::SYN) + has(TcpFlags::FIN),
            ack: { flags.contains(TcpFlags::ACK) }
                .then(|| wire.acknowledgement().distance_from(theirs).into()),
            win: Some(wire.window()),
            ecn: Some(frame[ip.header + 1] & 3),
            ..Self::default()
        };
        for (byte, at) in payload.iter().zip(start + has(TcpFlags::SYN)..) {
            assert_eq!(*byte, content(at), "the byte at {at}");
        }
        for option in wire.options() {
            match option.expect("well-formed options") {
                TcpOption::Mss(mss) => read.mss = Some(mss),
                TcpOption::WindowScale(scale) => read.scale = Some(scale),
                TcpOption::SackPermitted => read.sackok = true,
                TcpOption::Sack(blocks) => read.sack.extend(blocks.iter().map(|(from, to)| {
                    (
                        from.distance_from(theirs).into(),
                        to.distance_from(theirs).into(),
                    )
                })),
                TcpOption::Timestamps { value, echo } => {
                    let past = |value: u32, base: u32| value.wrapping_sub(base).cast_signed();
                    let [own, other] = bases.timestamp;
                    read.ts = Some((past(value, own).into(), past(echo, other).into()));
                }
            }
        }
        let _ = header;
        Some((read, ports))
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, flag) in FLAGS {
            if self.flags.contains(flag) {
                write!(f, "{name}")?;
            }
        }
        write!(f, " {}:{}", self.start, self.end)?;
        for (name, value) in [
            ("ack", self.ack),
            ("win", self.win.map(i64::from)),
            ("mss", self.mss.map(i64::from)),
            ("scale", self.scale.map(i64::from)),
            ("ecn", self.ecn.filter(|&ecn| ecn > 0).map(i64::from)),
        ] {
            if let Some(value) = value {
                write!(f, " {name} {value}")?;
            }
        }
        if self.sackok {
            write!(f, " sackok")?;
        }
        if let Some((value, echo)) = self.ts {
            write!(f, " ts {value}:{echo}")?;
        }
        for (from, to) in &self.sack {
            write!(f, " sack {from}:{to}")?;
        }
        Ok(())
    }
}
