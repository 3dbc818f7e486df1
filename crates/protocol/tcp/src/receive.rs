//! A frame that arrived: whose it is, and whether it can be believed. RFC 9293, 3.10.7 begins where
//! this ends.

use std::net::IpAddr;

use lineside_frame::FrameRef;
use lineside_time::Nanoseconds;
use lineside_wire::ethernet::{self, Tag};
use lineside_wire::headers::{Headers, link_len};
use lineside_wire::{
    Dissected, Fragment, HeaderChecksum, Ip, PlainSegment, SeqNumber, TcpFlags, TcpHeader,
    checksum, dissect_outermost, tcp,
};

use crate::effects::Effects;
use crate::fragments::Taken;
use crate::ip::{codepoint, is_unicast};
use crate::options::Options;
use crate::stack::Stack;
use crate::tables::Found;

/// A segment for one of our addresses, whose checksum is right.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment<'a> {
    pub(crate) frame: &'a FrameRef,
    /// Where in the frame its payload begins.
    pub(crate) payload: usize,
    pub(crate) len: u32,
    pub(crate) sequence: SeqNumber,
    pub(crate) acknowledgement: SeqNumber,
    pub(crate) flags: TcpFlags,
    /// As sent.
    pub(crate) window: u16,
    pub(crate) options: Options<'a>,
    /// When it arrived.
    pub(crate) at: Nanoseconds,
    /// Our address and port, and the peer's.
    pub(crate) ends: [(IpAddr, u16); 2],
}

impl Segment<'_> {
    pub(crate) fn has(&self, flag: TcpFlags) -> bool {
        self.flags.contains(flag)
    }

    /// Payload, SYN and FIN, as they count in sequence numbers.
    pub(crate) fn sequence_len(&self) -> u32 {
        self.len + u32::from(self.has(TcpFlags::SYN)) + u32::from(self.has(TcpFlags::FIN))
    }
}

/// Frames whose connections are asked for before the first of them is taken: this many lines of
/// memory can be on their way at once.
const AHEAD: usize = 16;

impl Stack {
    /// Takes the frames of a burst. Among many connections the lines of several that are needed
    /// come at the same time, instead of one after the other.
    pub(crate) fn on_frames<'f>(
        &mut self,
        mut frames: impl ExactSizeIterator<Item = &'f FrameRef> + Clone,
        effects: &mut impl Effects,
    ) {
        while frames.len() > 0 {
            if frames.len() > 1 {
                self.prepare_frames(frames.clone().take(AHEAD));
            }
            for frame in frames.by_ref().take(AHEAD) {
                self.on_frame(frame, effects);
            }
        }
    }

    #[inline]
    fn prepare_frames<'f>(&self, frames: impl Iterator<Item = &'f FrameRef>) {
        if !self.tables.are_large() {
            return;
        }
        let mut hashes = [0; AHEAD];
        let mut count = 0;
        for hash in frames.filter_map(|frame| self.hash_of(frame)) {
            self.tables.prefetch_entry(hash);
            hashes[count] = hash;
            count += 1;
        }
        for &hash in &hashes[..count] {
            self.tables.prefetch_record(hash);
        }
    }

    /// The hash of the four-tuple of what nearly every frame is.
    #[inline]
    fn hash_of(&self, frame: &FrameRef) -> Option<u64> {
        let descriptor = frame.descriptor();
        let wire_len = descriptor.wire_len as usize;
        let plain = PlainSegment::new(descriptor.link_type.0, frame.bytes(), wire_len)?;
        let (ip, tcp) = plain.headers();
        let path = self.tables.path(ip.destination, ip.source)?;
        let (local, remote) = (tcp.destination_port, tcp.source_port);
        Some(self.tables.hash(path, local, remote))
    }

    pub(crate) fn on_frame(&mut self, frame: &FrameRef, effects: &mut impl Effects) {
        self.counters.frames += 1;
        let bytes = frame.bytes();
        if !self.has_our_tags(bytes) {
            self.counters.not_ours += 1;
            return;
        }
        let descriptor = frame.descriptor();
        let wire_len = descriptor.wire_len as usize;
        if let Some(plain) = PlainSegment::new(descriptor.link_type.0, bytes, wire_len) {
            let (ip, tcp) = plain.headers();
            self.on_tcp(frame, &ip, &tcp, effects);
            return;
        }
        match dissect_outermost(descriptor.link_type.0, bytes, wire_len) {
            Dissected::Tcp(ip, tcp) => self.on_tcp(frame, &ip, &tcp, effects),
            Dissected::NotIp | Dissected::OtherProtocol | Dissected::IpUnread | Dissected::Esp => {
                self.on_control(bytes, effects);
            }
            Dissected::Udp(ip, udp) => self.on_udp(frame, &ip, &udp, effects),
            Dissected::Fragment(ip, fragment) => self.on_fragment(frame, &ip, &fragment, effects),
            Dissected::TooDeep | Dissected::UnknownLink => self.counters.not_read += 1,
            _ => self.counters.malformed += 1,
        }
    }

    /// Whether a frame has exactly our tags, whatever their priority.
    fn has_our_tags(&self, bytes: &[u8]) -> bool {
        if bytes.len() < link_len(&self.config.tags) {
            return false;
        }
        let mut kind = ethernet::Frame::new_unchecked(bytes).ether_type();
        let mut rest = &bytes[ethernet::HEADER_LEN..];
        for &(expected, control) in self.config.tags.iter().flatten() {
            let tag = Tag::new_unchecked(rest);
            if kind != expected || tag.id() != control & 0x0fff {
                return false;
            }
            kind = tag.ether_type();
            rest = &rest[ethernet::TAG_LEN..];
        }
        true
    }

    /// Whether a packet is for one of our addresses, from somebody who can be answered.
    pub(crate) fn is_for_us(&self, ip: &Ip) -> bool {
        self.config.is_ours(ip.destination)
            && ip.header == link_len(&self.config.tags)
            && is_unicast(ip.source)
    }

    /// A packet that the fragment completes is as if it had come whole.
    fn on_fragment(
        &mut self,
        frame: &FrameRef,
        ip: &Ip,
        fragment: &Fragment,
        effects: &mut impl Effects,
    ) {
        if !self.is_for_us(ip) {
            self.counters.not_ours += 1;
            return;
        }
        if ip.captured_len < ip.payload_len {
            self.counters.malformed += 1;
            return;
        }
        if !has_right_header(ip) {
            self.counters.checksum_wrong += 1;
            return;
        }
        self.counters.fragments += 1;
        let bytes = frame.bytes();
        let link = ethernet::Frame::new_unchecked(bytes);
        let headers = Headers {
            link: [link.destination(), link.source()],
            tags: self.config.tags,
            ecn: codepoint(&bytes[ip.header..]),
            ..Headers::new(ip.source, ip.destination)
        };
        let part = &bytes[ip.payload..][..ip.payload_len];
        let stamp = frame.descriptor().stamp_ns.unwrap_or(self.now);
        let cutter = &mut self.cutter;
        let now = stamp.min(self.now);
        let taken = self.fragments.take(now, fragment, part, &headers, cutter);
        match taken {
            Taken::Waits => {}
            Taken::Dropped => self.counters.reassembly_failed += 1,
            Taken::Whole(whole) => {
                self.counters.reassembled += 1;
                self.on_frame(&whole.share(), effects);
            }
        }
    }

    #[inline(always)]
    fn on_tcp(&mut self, frame: &FrameRef, ip: &Ip, tcp: &TcpHeader, effects: &mut impl Effects) {
        if !self.is_for_us(ip) {
            self.counters.not_ours += 1;
            return;
        }
        let bytes = frame.bytes();
        if ip.captured_len < ip.payload_len {
            self.counters.malformed += 1;
            return;
        }
        let segment = &bytes[ip.payload..][..ip.payload_len];
        let sum = checksum::add(checksum::sum(segment), ip.pseudo_header_sum(segment.len()));
        let is_offloaded = tcp.checksum_offloaded && self.config.takes_offloaded;
        if !has_right_header(ip) || sum != 0xffff && !is_offloaded {
            self.counters.checksum_wrong += 1;
            return;
        }
        self.counters.segments += 1;
        self.counters.offloaded += u64::from(sum != 0xffff);
        let options = Options::read(&segment[tcp::field::OPTIONS..tcp.header_len]);
        self.counters.malformed_options += u64::from(options.malformed);
        let stamp = frame.descriptor().stamp_ns.unwrap_or(self.now);
        let segment = Segment {
            frame,
            payload: tcp.payload,
            len: tcp.payload_len as u32,
            sequence: tcp.sequence,
            acknowledgement: tcp.acknowledgement,
            flags: tcp.flags,
            window: tcp.window,
            options,
            at: stamp.min(self.now),
            ends: [
                (ip.destination, tcp.destination_port),
                (ip.source, tcp.source_port),
            ],
        };
        self.on_segment(&segment, effects);
    }

    #[inline]
    fn on_segment(&mut self, segment: &Segment<'_>, effects: &mut impl Effects) {
        if self.config.syn_fin_dropped && segment.has(TcpFlags::SYN) && segment.has(TcpFlags::FIN) {
            self.counters.syn_fins += 1;
            return;
        }
        let [(local, local_port), (remote, remote_port)] = segment.ends;
        let path = self.tables.path(local, remote);
        match path.and_then(|path| self.tables.find(path, local_port, remote_port)) {
            Some(Found::Connection(number)) => {
                self.on_connection_segment(number, segment, effects);
            }
            Some(Found::TimeWait(number)) => self.on_wait_segment(number, segment, effects),
            None => self.on_stray(segment, None, effects),
        }
    }
}

/// Whether the IP header's checksum is right, if there is one.
pub(crate) fn has_right_header(ip: &Ip) -> bool {
    matches!(
        ip.checksum,
        HeaderChecksum::Right | HeaderChecksum::NoneInIpv6
    )
}
