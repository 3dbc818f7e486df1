//! What a complete capture holds, found the slow and obvious way: each direction of a connection is
//! put together whole, then its records are walked. And what an ideal analyser could still find
//! when some of the frames, or parts of them, are missing.
//!
//! It shares no code with the engines that it judges. It does not cope with gaps in what it is
//! given ([`Stream::gap`] says where it met one): harm the capture afterwards and ask
//! [`Oracle::survives`].

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;

use twox_hash::XxHash3_64;

use crate::capture::Frame;

const NFS_PROGRAM: u32 = 100_003;
const READ: u32 = 6;
const WRITE: u32 = 7;
/// Programs that a call is believed to have: those of the registry, and NFSv4's callbacks.
const PROGRAMS: [Range<u32>; 2] = [100_000..400_000, 0x4000_0000..0x6000_0000];
/// A message's first bytes: enough for every header and for what comes before READ and WRITE data.
const HEAD_LEN: usize = 2048;

/// Everything found in a capture.
#[derive(Debug, Default)]
pub struct Oracle {
    /// One for each direction of a TCP connection that carries RPC, and for each UDP datagram that
    /// does.
    pub streams: Vec<Stream>,
    /// Every call and reply, stream by stream.
    pub messages: Vec<Message>,
}

/// The bytes of one direction of a connection, or of a datagram with its header.
#[derive(Debug)]
pub struct Stream {
    /// Who sent it.
    pub source: SocketAddr,
    /// To whom.
    pub destination: SocketAddr,
    /// How many connections on these ports came before, in the same capture.
    pub epoch: u32,
    /// UDP, not TCP.
    pub udp: bool,
    /// The bytes, from the first one seen.
    pub data: Vec<u8>,
    /// Bytes are missing behind `data`.
    pub gap: bool,
    pieces: Vec<Piece>,
    longest: usize,
    reached: Vec<(i64, usize)>,
}

/// Where bytes of a stream came from.
#[derive(Debug, Clone, Copy)]
struct Piece {
    start: i64,
    len: usize,
    frame: usize,
    /// Where they begin in the frame.
    at: usize,
}

/// A call or a reply.
#[derive(Debug, Clone)]
pub struct Message {
    /// The stream it lies in.
    pub stream: usize,
    /// Its first byte in the stream (of the record mark over TCP) to its last.
    pub span: Range<usize>,
    /// Where its body lies in the stream: a part for each fragment of the record.
    pub body: Vec<Range<usize>>,
    /// The transaction.
    pub xid: u32,
    /// A call, not a reply.
    pub call: bool,
    /// Program, version and procedure, of the call if it is a reply; `None` for a reply without
    /// one.
    pub procedure: Option<(u32, u32, u32)>,
    /// Of a reply: the call's place in [`Oracle::messages`].
    pub answers: Option<usize>,
    head: Vec<u8>,
}

/// A whole 512-byte block of READ or WRITE data at an aligned file offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The message that carries it.
    pub message: usize,
    /// File offset / 512.
    pub number: i64,
    /// XXH3, 64 bits, seed 0.
    pub checksum: i64,
    /// Its bytes in the message's stream.
    pub bytes: Vec<Range<usize>>,
    /// The bytes without which nobody could know what the block is and where: its message's up to
    /// the data, and the marks of the record's fragments up to the block.
    pub needs: Vec<Range<usize>>,
    /// Of READ data also its call's up to the offset: the message and its bytes.
    pub call_needs: Option<(usize, Vec<Range<usize>>)>,
}

impl Oracle {
    /// Reads a complete capture.
    pub fn new(frames: &[Frame]) -> Self {
        let mut oracle = Self::default();
        for stream in assemble(frames) {
            oracle.add(stream);
        }
        oracle.pair();
        oracle
    }

    /// The first 28 bytes of a message over TCP, 24 over UDP, or all of a shorter one.
    pub fn header(&self, message: &Message) -> Range<usize> {
        let len = if self.streams[message.stream].udp {
            24
        } else {
            28
        };
        message.span.start..message.span.end.min(message.span.start + len)
    }

    /// True if all bytes of `range` of a stream are among the `kept` bytes of the frames (as
    /// [`Mangled::kept`](crate::mangle::Mangled::kept) says).
    pub fn survives(&self, stream: usize, range: &Range<usize>, kept: &[usize]) -> bool {
        self.streams[stream].survives(range, kept)
    }

    /// True if the message's header survives.
    pub fn header_survives(&self, message: &Message, kept: &[usize]) -> bool {
        self.survives(message.stream, &self.header(message), kept)
    }

    /// True if a block survives with all that is needed to tell what it is.
    pub fn block_survives(&self, block: &Block, kept: &[usize]) -> bool {
        let all = |message: usize, ranges: &[Range<usize>]| {
            let stream = self.messages[message].stream;
            ranges
                .iter()
                .all(|range| self.survives(stream, range, kept))
        };
        all(block.message, &block.bytes)
            && all(block.message, &block.needs)
            && block
                .call_needs
                .as_ref()
                .is_none_or(|(call, ranges)| all(*call, ranges))
    }

    /// The frame (from 0) that holds a message's first byte, and the one that completed it: at
    /// whose arrival all bytes of the stream up to its end had been seen.
    pub fn frames_of(&self, message: &Message) -> (usize, usize) {
        let stream = &self.streams[message.stream];
        (
            stream.arrival(message.span.start),
            stream.complete(message.span.end),
        )
    }

    /// Every whole block of the NFSv3 READ and WRITE data in the capture.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        for (index, message) in self.messages.iter().enumerate() {
            let Some((NFS_PROGRAM, 3, procedure)) = message.procedure else {
                continue;
            };
            match (message.call, procedure) {
                (true, WRITE) => {
                    if let Some(write) = write_data(&message.head) {
                        self.cut(index, &write, None, &mut blocks);
                    }
                }
                (false, READ) => {
                    let Some(call) = message.answers else {
                        continue;
                    };
                    let Some((offset, needed)) = read_offset(&self.messages[call].head) else {
                        continue;
                    };
                    if let Some(mut read) = read_data(&message.head) {
                        read.offset = offset;
                        let needs = self.messages[call].stream_ranges(0..needed, true);
                        self.cut(index, &read, Some((call, needs)), &mut blocks);
                    }
                }
                _ => {}
            }
        }
        blocks
    }

    fn cut(
        &self,
        index: usize,
        data: &Data,
        call_needs: Option<(usize, Vec<Range<usize>>)>,
        out: &mut Vec<Block>,
    ) {
        let message = &self.messages[index];
        let stream = &self.streams[message.stream];
        let skew = (512 - data.offset % 512) % 512;
        let mut at = skew as usize;
        while at + 512 <= data.len {
            let bytes = message.stream_ranges(data.start + at..data.start + at + 512, false);
            let mut block = Vec::with_capacity(512);
            for range in &bytes {
                block.extend_from_slice(&stream.data[range.clone()]);
            }
            if block.len() == 512 {
                out.push(Block {
                    message: index,
                    number: ((data.offset + at as u64) / 512) as i64,
                    checksum: XxHash3_64::oneshot(&block) as i64,
                    bytes,
                    needs: message.needs(data.start, data.start + at + 512),
                    call_needs: call_needs.clone(),
                });
            }
            at += 512;
        }
    }

    /// Adds a stream if it holds RPC, with its messages.
    fn add(&mut self, stream: Stream) {
        let index = self.streams.len();
        let records = if stream.udp {
            datagram(&stream)
        } else {
            records(&stream.data)
        };
        for body in records {
            let mut head = Vec::new();
            for part in &body {
                let wanted = part.len().min(HEAD_LEN - head.len());
                head.extend_from_slice(&stream.data[part.start..part.start + wanted]);
            }
            let (Some(xid), Some(kind @ (0 | 1))) = (word(&head, 0), word(&head, 4)) else {
                continue;
            };
            let mark = if stream.udp { 0 } else { 4 };
            let (Some(first), Some(last)) = (body.first(), body.last()) else {
                continue;
            };
            let procedure = || Some((word(&head, 12)?, word(&head, 16)?, word(&head, 20)?));
            self.messages.push(Message {
                stream: index,
                span: first.start - mark..last.end,
                xid,
                call: kind == 0,
                procedure: if kind == 0 { procedure() } else { None },
                answers: None,
                body,
                head,
            });
        }
        self.streams.push(stream);
    }

    /// Finds the call of each reply: the last one of its xid before it, else the first behind it.
    /// And drops what is not RPC: connections on which no call was found.
    fn pair(&mut self) {
        type Key = (SocketAddr, SocketAddr, u32, bool, u32);
        let mut calls: HashMap<Key, Vec<(usize, usize)>> = HashMap::new();
        let mut talks: HashMap<(SocketAddr, SocketAddr, bool), ()> = HashMap::new();
        for (index, message) in self.messages.iter().enumerate() {
            let stream = &self.streams[message.stream];
            let plausible = |program| PROGRAMS.iter().any(|range| range.contains(&program));
            if message.call
                && message
                    .procedure
                    .is_some_and(|(program, ..)| plausible(program))
                && word(&message.head, 8) == Some(2)
            {
                talks.insert((stream.source, stream.destination, stream.udp), ());
                let key = (
                    stream.source,
                    stream.destination,
                    stream.epoch,
                    stream.udp,
                    message.xid,
                );
                let (_, completed) = self.frames_of(message);
                calls.entry(key).or_default().push((completed, index));
            }
        }
        for index in 0..self.messages.len() {
            let message = &self.messages[index];
            if message.call {
                continue;
            }
            let stream = &self.streams[message.stream];
            let key = (
                stream.destination,
                stream.source,
                stream.epoch,
                stream.udp,
                message.xid,
            );
            let (_, completed) = self.frames_of(message);
            let Some(list) = calls.get(&key) else {
                continue;
            };
            let before = list.iter().filter(|&&(at, _)| at <= completed).max();
            let answers = before.or_else(|| list.iter().min()).map(|&(_, call)| call);
            let procedure = answers.and_then(|call| self.messages[call].procedure);
            self.messages[index].answers = answers;
            self.messages[index].procedure = procedure;
        }
        let streams = &self.streams;
        let rpc = |message: &Message| {
            let stream = &streams[message.stream];
            talks.contains_key(&(stream.source, stream.destination, stream.udp))
                || talks.contains_key(&(stream.destination, stream.source, stream.udp))
        };
        let keep: Vec<bool> = self.messages.iter().map(rpc).collect();
        let mut places = Vec::with_capacity(keep.len());
        let mut next = 0;
        for &kept in &keep {
            places.push(next);
            next += usize::from(kept);
        }
        let mut kept = keep.iter();
        self.messages
            .retain(|_| *kept.next().expect("one flag a message"));
        for message in &mut self.messages {
            message.answers = message.answers.map(|call| places[call]);
        }
    }
}

impl Message {
    /// Where bytes of the message lie in its stream; with `marks`, the record marks before them
    /// too.
    fn stream_ranges(&self, range: Range<usize>, marks: bool) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        let mut position = 0;
        for part in &self.body {
            let low = range.start.max(position);
            let high = range.end.min(position + part.len());
            if low < high {
                let start = part.start + (low - position);
                let mark = if marks && low == position {
                    part.start.min(4)
                } else {
                    0
                };
                ranges.push(start - mark..part.start + (high - position));
            }
            position += part.len();
        }
        ranges
    }

    /// The message's first bytes up to `data`, and the marks of its fragments that begin before
    /// `end`.
    fn needs(&self, data: usize, end: usize) -> Vec<Range<usize>> {
        let mut ranges = self.stream_ranges(0..data, true);
        let mut position = 0;
        for part in &self.body {
            if position >= data && position < end && part.start >= 4 {
                ranges.push(part.start - 4..part.start);
            }
            position += part.len();
        }
        ranges
    }

    /// The first bytes of the message.
    pub fn head(&self) -> &[u8] {
        &self.head
    }
}

impl Stream {
    fn survives(&self, range: &Range<usize>, kept: &[usize]) -> bool {
        let mut low = range.start as i64;
        while low < range.end as i64 {
            let from = self
                .pieces
                .partition_point(|piece| piece.start < low - self.longest as i64);
            let reach = |piece: &Piece| {
                piece.start + kept[piece.frame].saturating_sub(piece.at).min(piece.len) as i64
            };
            let here = self.pieces[from..]
                .iter()
                .take_while(|piece| piece.start <= low);
            match here.map(reach).max() {
                Some(end) if end > low => low = end,
                _ => return false,
            }
        }
        true
    }

    /// The frame that first brought the byte.
    fn arrival(&self, at: usize) -> usize {
        let at = at as i64;
        let from = self
            .pieces
            .partition_point(|piece| piece.start < at - self.longest as i64);
        let here = self.pieces[from..]
            .iter()
            .take_while(|piece| piece.start <= at);
        let holds = here.filter(|piece| piece.start + piece.len as i64 > at);
        holds.map(|piece| piece.frame).min().unwrap_or(usize::MAX)
    }

    /// The frame at which all bytes before `end` had been seen.
    fn complete(&self, end: usize) -> usize {
        let at = self
            .reached
            .partition_point(|&(reach, _)| reach < end as i64);
        self.reached.get(at).map_or(usize::MAX, |&(_, frame)| frame)
    }
}

/// How far a stream reaches without a hole after each frame that made it longer.
fn reached(pieces: &[Piece]) -> Vec<(i64, usize)> {
    let mut pieces = pieces.to_vec();
    let mut waiting: BTreeMap<i64, i64> = BTreeMap::new();
    let mut reach = 0;
    let mut steps = Vec::new();
    pieces.sort_by_key(|piece| piece.frame);
    for piece in pieces {
        let stop = piece.start + piece.len as i64;
        let longest = waiting.entry(piece.start).or_insert(stop);
        *longest = (*longest).max(stop);
        let before = reach;
        while let Some((&start, &stop)) = waiting.first_key_value()
            && start <= reach
        {
            waiting.remove(&start);
            reach = reach.max(stop);
        }
        if reach > before {
            steps.push((reach, piece.frame));
        }
    }
    steps
}

/// The one message of a datagram, behind its 8 bytes of header.
fn datagram(stream: &Stream) -> Vec<Vec<Range<usize>>> {
    if stream.gap || stream.data.len() < 8 {
        vec![]
    } else {
        vec![vec![8..stream.data.len()]]
    }
}

/// The fragments of each complete record, by their marks (RFC 5531 section 11).
fn records(data: &[u8]) -> Vec<Vec<Range<usize>>> {
    let mut records = Vec::new();
    let mut fragments = Vec::new();
    let mut at = 0;
    while let Some(mark) = word(data, at) {
        let end = at + 4 + (mark & 0x7fff_ffff) as usize;
        if end > data.len() {
            break;
        }
        fragments.push(at + 4..end);
        if mark >> 31 == 1 {
            records.push(std::mem::take(&mut fragments));
        }
        at = end;
    }
    records
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..at + 4)?
        .try_into()
        .ok()
        .map(u32::from_be_bytes)
}

/// Where file data lies in a message.
struct Data {
    offset: u64,
    start: usize,
    len: usize,
}

/// Passes an XDR opaque: the place behind it.
fn opaque(head: &[u8], at: usize) -> Option<usize> {
    Some(at + 4 + (word(head, at)? as usize).next_multiple_of(4))
}

/// Behind a call's credential and verifier.
fn arguments(head: &[u8]) -> Option<usize> {
    opaque(head, opaque(head, 28)? + 4)
}

fn offset(head: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(word(head, at)?) << 32 | u64::from(word(head, at + 4)?))
}

/// READ's offset, and how many bytes of the call one must have to know it with its count.
fn read_offset(head: &[u8]) -> Option<(u64, usize)> {
    let at = opaque(head, arguments(head)?)?;
    Some((offset(head, at)?, at + 12))
}

/// Where WRITE's data lies (RFC 1813 section 3.3.7).
fn write_data(head: &[u8]) -> Option<Data> {
    let at = opaque(head, arguments(head)?)?;
    let len = word(head, at + 16)? as usize;
    Some(Data {
        offset: offset(head, at)?,
        start: at + 20,
        len,
    })
}

/// Where READ's data lies (RFC 1813 section 3.3.6); `None` unless the call was executed and
/// succeeded.
fn read_data(head: &[u8]) -> Option<Data> {
    if word(head, 8)? != 0 {
        return None;
    }
    let at = opaque(head, 16)?;
    if (word(head, at)?, word(head, at + 4)?) != (0, 0) {
        return None;
    }
    let attributes = if word(head, at + 8)? == 1 { 84 } else { 0 };
    let at = at + 12 + attributes;
    Some(Data {
        offset: 0,
        start: at + 12,
        len: word(head, at + 8)? as usize,
    })
}

/// A packet, or a fragment of one.
struct Packet {
    protocol: u8,
    source: IpAddr,
    destination: IpAddr,
    /// Where the IP payload lies in the frame.
    payload: Range<usize>,
    /// Identification, offset and whether more follow.
    fragment: Option<(u32, usize, bool)>,
}

fn packet(frame: &Frame) -> Option<Packet> {
    let bytes = &frame.bytes;
    let at = match frame.link_type {
        1 => {
            let mut at = 12;
            while matches!(bytes.get(at..at + 2)?, [0x81, 0] | [0x88, 0xa8] | [0x91, 0]) {
                at += 4;
            }
            at + 2
        }
        113 => 16,
        276 => 20,
        101 | 228 | 229 | 12 | 14 => 0,
        _ => return None,
    };
    match bytes.get(at)? >> 4 {
        4 => ipv4(bytes, at),
        6 => ipv6(bytes, at),
        _ => None,
    }
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(bytes.get(at).copied()?) << 8 | usize::from(bytes.get(at + 1).copied()?))
}

/// The wire's end of the packet, which a snap length may have cut: only complete captures come
/// here.
fn ipv4(bytes: &[u8], at: usize) -> Option<Packet> {
    let address = |at: usize| Some(Ipv4Addr::from(*bytes.get(at..)?.first_chunk::<4>()?));
    let total = half(bytes, at + 2)?;
    let end = if total == 0 {
        bytes.len()
    } else {
        (at + total).min(bytes.len())
    };
    let word = half(bytes, at + 6)?;
    let fragment = (word & 0x3fff != 0).then_some((
        half(bytes, at + 4)? as u32,
        (word & 0x1fff) * 8,
        word & 0x2000 != 0,
    ));
    let start = at + usize::from(bytes.get(at)? & 15) * 4;
    (start <= end).then_some(Packet {
        protocol: *bytes.get(at + 9)?,
        source: address(at + 12)?.into(),
        destination: address(at + 16)?.into(),
        payload: start..end,
        fragment,
    })
}

fn ipv6(bytes: &[u8], at: usize) -> Option<Packet> {
    let address = |at: usize| Some(Ipv6Addr::from(*bytes.get(at..)?.first_chunk::<16>()?));
    let end = (at + 40 + half(bytes, at + 4)?).min(bytes.len());
    let mut protocol = *bytes.get(at + 6)?;
    let mut start = at + 40;
    let mut fragment = None;
    loop {
        match protocol {
            0 | 43 | 60 => {
                (protocol, start) = (
                    *bytes.get(start)?,
                    start + 8 + usize::from(*bytes.get(start + 1)?) * 8,
                )
            }
            44 => {
                let placed = half(bytes, start + 2)?;
                let identification = word(bytes, start + 4)?;
                fragment = Some((identification, placed & 0xfff8, placed & 1 == 1));
                (protocol, start) = (*bytes.get(start)?, start + 8);
            }
            _ => break,
        }
    }
    (start <= end).then_some(Packet {
        protocol,
        source: address(at + 8)?.into(),
        destination: address(at + 24)?.into(),
        payload: start..end,
        fragment,
    })
}

/// A TCP direction while its segments are collected.
#[derive(Default)]
struct Direction {
    /// The sequence number of the first byte, if a SYN was seen.
    start: Option<u32>,
    segments: Vec<(u32, Piece)>,
}

type Ends = (SocketAddr, SocketAddr);

/// Which fragments belong together: addresses, protocol, identification.
type Fragmented = (IpAddr, IpAddr, u8, u32);

/// All streams of a capture.
fn assemble(frames: &[Frame]) -> Vec<Stream> {
    let mut streams = Vec::new();
    let mut directions: BTreeMap<(Ends, u32), Direction> = BTreeMap::new();
    let mut epochs: HashMap<Ends, (u32, Option<u32>)> = HashMap::new();
    let mut fragments: HashMap<Fragmented, Vec<(Piece, bool)>> = HashMap::new();
    for (index, frame) in frames.iter().enumerate() {
        let Some(packet) = packet(frame) else {
            continue;
        };
        let mut pieces = vec![Piece {
            start: 0,
            len: packet.payload.len(),
            frame: index,
            at: packet.payload.start,
        }];
        if let Some((identification, offset, more)) = packet.fragment {
            pieces[0].start = offset as i64;
            let key = (
                packet.source,
                packet.destination,
                packet.protocol,
                identification,
            );
            let parts = fragments.entry(key).or_default();
            parts.push((pieces[0], more));
            if !whole(parts) {
                continue;
            }
            pieces = fragments
                .remove(&key)
                .expect("just there")
                .into_iter()
                .map(|(piece, _)| piece)
                .collect();
        }
        let (data, _) = join(&mut pieces, frames);
        let ports = (half(&data, 0), half(&data, 2));
        let (Some(source_port), Some(destination_port)) = ports else {
            continue;
        };
        let source = SocketAddr::new(packet.source, source_port as u16);
        let destination = SocketAddr::new(packet.destination, destination_port as u16);
        match packet.protocol {
            17 => streams.push(Stream::new(source, destination, 0, true, pieces, frames)),
            6 => {
                let (Some(sequence), Some(&flags), Some(&header)) =
                    (word(&data, 4), data.get(13), data.get(12))
                else {
                    continue;
                };
                let ends = if source < destination {
                    (source, destination)
                } else {
                    (destination, source)
                };
                let (epoch, isn) = epochs.entry(ends).or_default();
                // A SYN with another number begins a new connection on the same ports.
                if flags & 0x12 == 2 && *isn != Some(sequence) {
                    *epoch += u32::from(isn.is_some());
                    *isn = Some(sequence);
                }
                let direction = directions
                    .entry(((source, destination), *epoch))
                    .or_default();
                if flags & 2 != 0 {
                    direction.start = Some(sequence.wrapping_add(1));
                    continue;
                }
                // A TCP segment in IP fragments is rare: only its first part is placed.
                let header = usize::from(header >> 4) * 4;
                let piece = pieces[0];
                if let Some(len) = piece.len.checked_sub(header)
                    && len > 0
                {
                    direction.segments.push((
                        sequence,
                        Piece {
                            start: 0,
                            len,
                            at: piece.at + header,
                            ..piece
                        },
                    ));
                }
            }
            _ => {}
        }
    }
    for (((source, destination), epoch), direction) in directions {
        let Some(&(first, _)) = direction.segments.first() else {
            continue;
        };
        let base = direction.start.unwrap_or(first);
        let place = |&(sequence, piece): &(u32, Piece)| Piece {
            start: i64::from(sequence.wrapping_sub(base) as i32),
            ..piece
        };
        let mut pieces: Vec<Piece> = direction.segments.iter().map(place).collect();
        let lowest = pieces.iter().map(|piece| piece.start).min().unwrap_or(0);
        if direction.start.is_none() {
            pieces.iter_mut().for_each(|piece| piece.start -= lowest);
        }
        streams.push(Stream::new(
            source,
            destination,
            epoch,
            false,
            pieces,
            frames,
        ));
    }
    streams
}

impl Stream {
    fn new(
        source: SocketAddr,
        destination: SocketAddr,
        epoch: u32,
        udp: bool,
        mut pieces: Vec<Piece>,
        frames: &[Frame],
    ) -> Self {
        let (data, gap) = join(&mut pieces, frames);
        let longest = pieces.iter().map(|piece| piece.len).max().unwrap_or(0);
        let reached = reached(&pieces);
        Self {
            source,
            destination,
            epoch,
            udp,
            data,
            gap,
            pieces,
            longest,
            reached,
        }
    }
}

/// True once the fragments reach from 0 to one with no more behind it.
fn whole(parts: &[(Piece, bool)]) -> bool {
    let Some((last, _)) = parts.iter().find(|(_, more)| !more) else {
        return false;
    };
    let mut sorted: Vec<Piece> = parts.iter().map(|&(piece, _)| piece).collect();
    sorted.sort_by_key(|piece| piece.start);
    let reach = sorted.iter().fold(0, |reach, piece| {
        if piece.start <= reach {
            reach.max(piece.start + piece.len as i64)
        } else {
            reach
        }
    });
    reach >= last.start + last.len as i64
}

/// The bytes up to the first gap, whether there is one, and the pieces sorted.
fn join(pieces: &mut [Piece], frames: &[Frame]) -> (Vec<u8>, bool) {
    pieces.sort_by_key(|piece| (piece.start, piece.frame));
    let mut data: Vec<u8> = Vec::new();
    for piece in pieces.iter() {
        if piece.start > data.len() as i64 {
            return (data, true);
        }
        let known = (data.len() as i64 - piece.start) as usize;
        if known < piece.len {
            let bytes = &frames[piece.frame].bytes[piece.at..piece.at + piece.len];
            data.extend_from_slice(&bytes[known..]);
        }
    }
    (data, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An Ethernet frame with an IPv4 packet between 10.0.0.1:1000 and 10.0.0.2:2049.
    fn frame(protocol: u8, reply: bool, header: &[u8], payload: &[u8]) -> Frame {
        let mut bytes = vec![0; 12];
        bytes.extend([0x08, 0x00, 0x45, 0]);
        bytes.extend(((20 + header.len() + payload.len()) as u16).to_be_bytes());
        bytes.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
        let ends = [[10, 0, 0, 1], [10, 0, 0, 2]];
        bytes.extend(ends[usize::from(reply)]);
        bytes.extend(ends[usize::from(!reply)]);
        bytes.extend_from_slice(header);
        bytes.extend_from_slice(payload);
        Frame {
            stamp_ns: Some(0),
            wire_len: bytes.len() as u32,
            link_type: 1,
            bytes,
        }
    }

    fn tcp(reply: bool, sequence: u32, payload: &[u8]) -> Frame {
        let mut header = ports(reply);
        header.extend(sequence.to_be_bytes());
        header.extend([0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
        frame(6, reply, &header, payload)
    }

    fn ports(reply: bool) -> Vec<u8> {
        let ports = [1000_u16, 2049];
        let of = |end: bool| ports[usize::from(end)].to_be_bytes();
        [of(reply), of(!reply)].concat()
    }

    /// A call without credential, behind its record mark.
    fn call(xid: u32, procedure: u32, arguments: &[u8]) -> Vec<u8> {
        let words = [xid, 0, 2, NFS_PROGRAM, 3, procedure, 0, 0, 0, 0];
        record(&words, arguments)
    }

    fn record(words: &[u32], rest: &[u8]) -> Vec<u8> {
        let len = words.len() * 4 + rest.len();
        let mut bytes = (len as u32 | 1 << 31).to_be_bytes().to_vec();
        bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        bytes.extend_from_slice(rest);
        bytes
    }

    /// WRITE of 1,100 bytes at offset 1,000: whole blocks are 2 and 3.
    fn write(xid: u32) -> (Vec<u8>, Vec<u8>) {
        let data: Vec<u8> = (0..1100).map(|at| (at * 7 % 251) as u8).collect();
        let mut arguments = vec![0, 0, 0, 4, 1, 2, 3, 4, 0, 0, 0, 0];
        for word in [1000, 1100, 0, 1100_u32] {
            arguments.extend(word.to_be_bytes());
        }
        arguments.extend_from_slice(&data);
        (call(xid, WRITE, &arguments), data)
    }

    /// The bytes as segments of `len`, from sequence number `start`.
    fn segments(start: u32, bytes: &[u8], len: usize) -> Vec<Frame> {
        let place = |(at, chunk)| tcp(false, start.wrapping_add((at * len) as u32), chunk);
        bytes.chunks(len).enumerate().map(place).collect()
    }

    #[test]
    fn blocks_are_cut_at_file_offsets() {
        let (bytes, data) = write(9);
        // Sequence numbers wrap within the record, and the segments come in the wrong order.
        let mut frames = segments(u32::MAX - 300, &bytes, 100);
        frames[1..].reverse();
        let oracle = Oracle::new(&frames);
        assert_eq!(oracle.messages.len(), 1);
        assert_eq!(oracle.messages[0].procedure, Some((NFS_PROGRAM, 3, WRITE)));
        assert_eq!(oracle.frames_of(&oracle.messages[0]), (0, frames.len() - 1));
        let blocks = oracle.blocks();
        let found: Vec<_> = blocks
            .iter()
            .map(|block| (block.number, block.checksum))
            .collect();
        let sum = |from: usize| XxHash3_64::oneshot(&data[from..from + 512]) as i64;
        assert_eq!(found, [(2, sum(24)), (3, sum(536))]);
    }

    #[test]
    fn lost_bytes_do_not_survive_unless_retransmitted() {
        let (bytes, _) = write(9);
        let mut frames = segments(0, &bytes, 100);
        let copy = tcp(false, 650, &bytes[650..750]);
        frames.push(copy);
        let oracle = Oracle::new(&frames);
        let (message, blocks) = (&oracle.messages[0], oracle.blocks());
        let survivors = |kept: &[usize]| -> Vec<i64> {
            let alive = blocks
                .iter()
                .filter(|block| oracle.block_survives(block, kept));
            alive.map(|block| block.number).collect()
        };
        let mut kept: Vec<usize> = frames.iter().map(|frame| frame.bytes.len()).collect();
        assert_eq!(survivors(&kept), [2, 3]);
        // Data begins at byte 72 of the stream, block 2 at 96, block 3 at 608.
        kept[6] = 0;
        assert_eq!(
            survivors(&kept),
            [] as [i64; 0],
            "bytes 600 to 649 are in no other frame"
        );
        kept[6] = frames[6].bytes.len() - 50;
        assert_eq!(survivors(&kept), [2, 3], "650 to 699 came again");
        kept[9] = 0;
        assert_eq!(survivors(&kept), [2]);
        assert!(oracle.header_survives(message, &kept));
        kept[0] = 54 + 27;
        assert!(
            !oracle.header_survives(message, &kept),
            "27 bytes are not 28"
        );
        kept[0] = 54 + 28;
        assert!(oracle.header_survives(message, &kept));
        assert_eq!(survivors(&kept), [] as [i64; 0], "the offset is lost");
    }

    #[test]
    fn a_reply_belongs_to_the_call_before_it() {
        let header = |bytes: &[u8]| {
            [
                ports(false),
                ((8 + bytes.len()) as u16).to_be_bytes().to_vec(),
                vec![0, 0],
            ]
            .concat()
        };
        let back = |bytes: &[u8]| {
            [
                ports(true),
                ((8 + bytes.len()) as u16).to_be_bytes().to_vec(),
                vec![0, 0],
            ]
            .concat()
        };
        let first = call(5, 1, &[0, 0, 0, 0])[4..].to_vec();
        let second = call(5, 4, &[0, 0, 0, 0])[4..].to_vec();
        let reply = record(&[5, 1, 0, 0, 0, 0], &[])[4..].to_vec();
        let other = record(&[6, 1, 0, 0, 0, 0], &[])[4..].to_vec();
        let frames = [
            frame(17, false, &header(&first), &first),
            frame(17, true, &back(&reply), &reply),
            frame(17, false, &header(&second), &second),
            frame(17, true, &back(&reply), &reply),
            frame(17, true, &back(&other), &other),
        ];
        let oracle = Oracle::new(&frames);
        let procedures: Vec<_> = oracle
            .messages
            .iter()
            .map(|message| message.procedure.map(|(.., procedure)| procedure))
            .collect();
        assert_eq!(procedures, [Some(1), Some(1), Some(4), Some(4), None]);
        assert_eq!(oracle.header(&oracle.messages[1]), 8..32);
    }
}
