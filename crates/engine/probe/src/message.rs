//! The datagrams between a probe and its server: how they are read and written.
//!
//! ```text
//! magic 4 | version 1 | kind 1 | stage 2 | session 8 | number 4 | time 8 | what the kind has
//! ```
//!
//! Numbers are big-endian. `stage` numbers what a probe does, one thing after another; `session` is
//! the client's number in the first exchange and the server's cookie from then on; `time` is when
//! the datagram was sent, by its sender's clock. What follows is padded to the length asked for.
//!
//! Not here: what the two ends do with a message.

use lineside_time::Nanoseconds;

/// How each datagram begins: no other protocol's datagrams do.
const MAGIC: [u8; 4] = [b'L', b'S', b'P', 0x9d];
/// Raised with each change that the other end must know of.
pub const VERSION: u8 = 1;
/// What all datagrams have.
const HEAD_LEN: usize = 28;
/// The length of the shortest datagrams that this end sends, in bytes: nothing that a server
/// answers to a stranger is longer than what the stranger sent.
pub const LEN_MIN: usize = 64;
/// The longest datagram: what IPv4 has room for.
pub const LEN_MAX: usize = 65_507;
/// Arrivals in a datagram: with IPv6 and UDP headers it then has 1,240 bytes, which each path of
/// IPv6 takes (RFC 8200, section 5).
pub(crate) const ARRIVALS_IN_DATAGRAM: usize = 96;
/// A number and a time.
const ARRIVAL_LEN: usize = 12;

/// What all messages have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// Which part of a probe it belongs to.
    pub stage: u16,
    /// The client's number at first, then the server's cookie.
    pub session: u64,
    /// Its number within the stage.
    pub number: u32,
    /// When it was sent, by the sender's clock.
    pub sent_ns: Nanoseconds,
}

/// What a datagram says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// A client asks for a cookie.
    Hello,
    /// The server's answer, by which a client shows that it has the address that it gives.
    Welcome {
        /// The session's name from then on.
        cookie: u64,
    },
    /// The server speaks another version only: its head has that.
    OtherVersion {
        /// The server's.
        version: u8,
    },
    /// A client with a cookie begins.
    Begin {
        /// Bytes that the server may send.
        download_bytes_max: u64,
    },
    /// The session is there.
    Begun {
        /// Bytes that the server will send at most.
        download_bytes_max: u64,
    },
    /// The server has no room for a further session.
    Full,
    /// To be answered at once.
    Echo {
        /// How long the answer shall be; it is no longer than the question.
        answer_len: u16,
    },
    /// The answer, under the same number.
    Echoed {
        /// When the question was sent, by the client's clock.
        asked_ns: Nanoseconds,
        /// When it came, by the server's clock.
        came_ns: Nanoseconds,
        /// How many of the stage came before it.
        index: u32,
    },
    /// One of a train.
    Filler,
    /// The server shall send a train.
    Wanted {
        /// How many datagrams.
        count: u32,
        /// How long each is.
        len: u16,
        /// How many at first as fast as the server can.
        burst: u32,
        /// From one of the others to the next.
        gap_ns: u32,
    },
    /// Which datagrams of the stage came, from one place of that list on?
    Ask {
        /// The place.
        from: u32,
    },
    /// A part of that list.
    Arrivals(Arrivals<'a>),
    /// The client has done.
    Bye,
}

/// A part of the list of datagrams that came to the server in a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrivals<'a> {
    /// The place in the list of the first one.
    pub from: u32,
    /// How long the list is.
    pub total: u32,
    entries: &'a [u8],
}

impl Arrivals<'_> {
    /// Each with its number and the time at which it came.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Nanoseconds)> {
        { self.entries.chunks_exact(ARRIVAL_LEN) }.map(|entry| {
            let mut bytes = Reader(entry);
            (bytes.u32().unwrap_or(0), bytes.i64().unwrap_or(0))
        })
    }
}

/// Why a datagram is not one of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Foreign {
    /// Another protocol's.
    Magic,
    /// Ours in another version.
    Version(u8),
    /// Ours, and cut or of an unknown kind.
    Malformed,
}

impl<'a> Message<'a> {
    /// Reads a datagram.
    pub fn parse(datagram: &'a [u8]) -> Result<(Head, Self), Foreign> {
        let mut bytes = Reader(datagram);
        if bytes.take(4) != Some(&MAGIC) {
            return Err(Foreign::Magic);
        }
        let version = bytes.u8().ok_or(Foreign::Malformed)?;
        if version != VERSION {
            return Err(Foreign::Version(version));
        }
        Self::parse_rest(&mut bytes).ok_or(Foreign::Malformed)
    }

    fn parse_rest(bytes: &mut Reader<'a>) -> Option<(Head, Self)> {
        let kind = bytes.u8()?;
        let head = Head {
            stage: bytes.u16()?,
            session: bytes.u64()?,
            number: bytes.u32()?,
            sent_ns: bytes.i64()?,
        };
        let message = match kind {
            1 => Self::Hello,
            2 => Self::Welcome {
                cookie: bytes.u64()?,
            },
            3 => Self::OtherVersion {
                version: bytes.u8()?,
            },
            4 => Self::Begin {
                download_bytes_max: bytes.u64()?,
            },
            5 => Self::Begun {
                download_bytes_max: bytes.u64()?,
            },
            6 => Self::Full,
            7 => Self::Echo {
                answer_len: bytes.u16()?,
            },
            8 => Self::Echoed {
                asked_ns: bytes.i64()?,
                came_ns: bytes.i64()?,
                index: bytes.u32()?,
            },
            9 => Self::Filler,
            10 => Self::Wanted {
                count: bytes.u32()?,
                len: bytes.u16()?,
                burst: bytes.u32()?,
                gap_ns: bytes.u32()?,
            },
            11 => Self::Ask { from: bytes.u32()? },
            12 => Self::Arrivals(Self::arrivals(bytes)?),
            13 => Self::Bye,
            _ => return None,
        };
        Some((head, message))
    }

    fn arrivals(bytes: &mut Reader<'a>) -> Option<Arrivals<'a>> {
        let (from, total, count) = (bytes.u32()?, bytes.u32()?, bytes.u16()?);
        let entries = bytes.take(usize::from(count) * ARRIVAL_LEN)?;
        Some(Arrivals {
            from,
            total,
            entries,
        })
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Hello => 1,
            Self::Welcome { .. } => 2,
            Self::OtherVersion { .. } => 3,
            Self::Begin { .. } => 4,
            Self::Begun { .. } => 5,
            Self::Full => 6,
            Self::Echo { .. } => 7,
            Self::Echoed { .. } => 8,
            Self::Filler => 9,
            Self::Wanted { .. } => 10,
            Self::Ask { .. } => 11,
            Self::Arrivals(_) => 12,
            Self::Bye => 13,
        }
    }

    /// Writes a datagram of `len` bytes, or as many as it needs; returns how many those are.
    pub fn emit(&self, head: &Head, len: usize, out: &mut Vec<u8>) -> usize {
        out.clear();
        begin(self.kind(), head, out);
        match *self {
            Self::Hello | Self::Full | Self::Filler | Self::Bye => {}
            Self::Welcome { cookie: number }
            | Self::Begin {
                download_bytes_max: number,
            }
            | Self::Begun {
                download_bytes_max: number,
            } => out.extend(number.to_be_bytes()),
            Self::OtherVersion { version } => out.push(version),
            Self::Echo { answer_len } => out.extend(answer_len.to_be_bytes()),
            Self::Echoed {
                asked_ns,
                came_ns,
                index,
            } => {
                out.extend(asked_ns.to_be_bytes());
                out.extend(came_ns.to_be_bytes());
                out.extend(index.to_be_bytes());
            }
            Self::Wanted {
                count,
                len,
                burst,
                gap_ns,
            } => {
                out.extend(count.to_be_bytes());
                out.extend(len.to_be_bytes());
                out.extend(burst.to_be_bytes());
                out.extend(gap_ns.to_be_bytes());
            }
            Self::Ask { from } => out.extend(from.to_be_bytes()),
            Self::Arrivals(arrivals) => {
                let count = (arrivals.entries.len() / ARRIVAL_LEN) as u16;
                out.extend(arrivals.from.to_be_bytes());
                out.extend(arrivals.total.to_be_bytes());
                out.extend(count.to_be_bytes());
                out.extend(arrivals.entries);
            }
        }
        if out.len() < len {
            out.resize(len, 0);
        }
        out.len()
    }
}

fn begin(kind: u8, head: &Head, out: &mut Vec<u8>) {
    out.extend(MAGIC);
    out.extend([VERSION, kind]);
    out.extend(head.stage.to_be_bytes());
    out.extend(head.session.to_be_bytes());
    out.extend(head.number.to_be_bytes());
    out.extend(head.sent_ns.to_be_bytes());
    debug_assert_eq!(out.len(), HEAD_LEN);
}

/// Writes a part of a list of arrivals.
pub(crate) fn emit_arrivals(
    head: &Head,
    from: usize,
    all: &[(u32, Nanoseconds)],
    out: &mut Vec<u8>,
) -> usize {
    out.clear();
    begin(12, head, out);
    let rest = all.get(from..).unwrap_or_default();
    let part = &rest[..rest.len().min(ARRIVALS_IN_DATAGRAM)];
    out.extend((from as u32).to_be_bytes());
    out.extend((all.len() as u32).to_be_bytes());
    out.extend((part.len() as u16).to_be_bytes());
    for (number, at_ns) in part {
        out.extend(number.to_be_bytes());
        out.extend(at_ns.to_be_bytes());
    }
    out.len()
}

/// Bytes that are read from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all() -> Vec<Message<'static>> {
        vec![
            Message::Hello,
            Message::Welcome { cookie: 7 },
            Message::OtherVersion { version: 9 },
            Message::Begin {
                download_bytes_max: 1 << 40,
            },
            Message::Begun {
                download_bytes_max: 5,
            },
            Message::Full,
            Message::Echo { answer_len: 1400 },
            Message::Echoed {
                asked_ns: -4,
                came_ns: i64::MAX,
                index: 3,
            },
            Message::Filler,
            Message::Wanted {
                count: 9,
                len: 1472,
                burst: 4,
                gap_ns: 1000,
            },
            Message::Ask { from: 96 },
            Message::Bye,
        ]
    }

    #[test]
    fn messages_are_read_as_written() {
        let head = Head {
            stage: 3,
            session: 0x0123_4567_89ab_cdef,
            number: 77,
            sent_ns: -5,
        };
        let mut out = Vec::new();
        for message in all() {
            assert_eq!(message.emit(&head, 200, &mut out), 200);
            assert_eq!(Message::parse(&out), Ok((head, message)));
            // No cut one is taken for a whole one.
            let len = message.emit(&head, 0, &mut out);
            assert_eq!(
                Message::parse(&out[..len - 1]),
                Err(Foreign::Malformed),
                "{message:?}"
            );
        }
        let list: Vec<_> = (0..200)
            .map(|number| (number, 1000 - i64::from(number)))
            .collect();
        emit_arrivals(&head, 96, &list, &mut out);
        let Ok((_, Message::Arrivals(part))) = Message::parse(&out) else {
            panic!("not a list: {out:?}");
        };
        assert_eq!((part.from, part.total), (96, 200));
        assert_eq!(part.iter().collect::<Vec<_>>(), list[96..192]);
    }

    #[test]
    fn foreign_datagrams_are_recognised() {
        let mut out = Vec::new();
        Message::Hello.emit(&Head::default(), LEN_MIN, &mut out);
        out[4] = 2;
        assert_eq!(Message::parse(&out), Err(Foreign::Version(2)));
        out[4] = VERSION;
        out[5] = 200;
        assert_eq!(Message::parse(&out), Err(Foreign::Malformed));
        assert_eq!(Message::parse(b"GET / HTTP/1.1"), Err(Foreign::Magic));
        assert_eq!(Message::parse(b""), Err(Foreign::Magic));
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(mut bytes in proptest::collection::vec(any::<u8>(), 0..100), kind in 0_u8..16) {
            let _ = Message::parse(&bytes);
            if bytes.len() > 5 {
                bytes[..4].copy_from_slice(&MAGIC);
                bytes[4..6].copy_from_slice(&[VERSION, kind]);
            }
            if let Ok((_, Message::Arrivals(arrivals))) = Message::parse(&bytes) {
                prop_assert!(arrivals.iter().count() <= 100 / ARRIVAL_LEN);
            }
        }
    }
}
