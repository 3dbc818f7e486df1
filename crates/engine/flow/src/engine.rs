//! The engine: it takes packets, puts fragments together, and gives each packet to its connection.
//! What a connection makes of its packets is in `connection` and the modules below it.

use lineside_account::{Budget, Counter, Counters};
use lineside_frame::{Cause, Chunk, Descriptor, FrameRef};
use lineside_wire::{Dissected, Fragment, Ip, PlainSegment, UdpHeader, dissect};

use crate::config::Config;
use crate::connection::Connection;
use crate::connections::Connections;
use crate::context::{Context, Shared};
use crate::fragments::Fragments;
use crate::origin::Origin;
use crate::sink::StreamSink;
use crate::taken::{DAMAGED, Taken, count_checksums};
use crate::whole::{Whole, count_whole};

/// All connections, their streams and the fragments on their way to them.
///
/// Call its methods in this order:
///
/// 1. [`on_frame`](Self::on_frame) for each frame in the order of arrival. Where fragments are put
///    together before the engine, [`on_whole`](Self::on_whole) for each of their packets.
/// 2. [`on_timer`](Self::on_timer) after each burst, and for live captures also when none comes.
/// 3. [`spill`](Self::spill) whenever a pool of frames runs dry.
/// 4. [`finish`](Self::finish) once, at the end of the input; or [`close_from`](Self::close_from)
///    until it returns `None`, which does the same in parts if no fragments are held. Nothing may
///    be called after that.
///
/// `now` may stand still but does not go back; if it does, the engine goes on with the latest time.
pub struct Engine {
    connections: Connections,
    fragments: Fragments,
    shared: Shared,
    /// When quiet connections were looked at last.
    looked_ns: i64,
}

impl Engine {
    /// An engine without connections, which draws what it holds on `budget`.
    pub fn new(config: Config, budget: &Budget) -> Self {
        Self {
            connections: Connections::default(),
            fragments: Fragments::new(&config, budget),
            shared: Shared::new(config, budget),
            looked_ns: i64::MIN,
        }
    }

    /// The frame that began the connection in a slot.
    pub fn first_frame(&self, slot: usize) -> Option<&Descriptor> {
        self.connections.first(slot)
    }

    /// Takes a frame. `now` is the running maximum of the stamps.
    #[inline]
    pub fn on_frame<S: StreamSink>(
        &mut self,
        now: i64,
        frame: &FrameRef,
        sink: &mut S,
        counters: &mut Counters,
    ) -> Taken {
        // At each frame and not at each burst, whose borders are no part of the input.
        self.pass_time(now, sink, counters);
        self.give_up_fragments(sink, counters);
        let descriptor = frame.descriptor();
        let (link_type, wire_len) = (descriptor.link_type.0, descriptor.wire_len as usize);
        // The fast path for nearly all frames.
        if !descriptor.damaged
            && let Some(segment) = PlainSegment::new(link_type, frame.bytes(), wire_len)
        {
            let (connections, mut context) = self.parts(sink, counters);
            if let Some(taken) = connections.on_plain(&segment, frame, &mut context) {
                return taken;
            }
        }
        self.on_any_frame(frame, sink, counters)
    }

    /// Takes a frame that needs a closer look.
    #[inline(never)]
    fn on_any_frame<S: StreamSink>(
        &mut self,
        frame: &FrameRef,
        sink: &mut S,
        counters: &mut Counters,
    ) -> Taken {
        let descriptor = frame.descriptor();
        let (link_type, wire_len) = (descriptor.link_type.0, descriptor.wire_len as usize);
        let dissected = dissect(link_type, frame.bytes(), wire_len);
        let plain = |outcome| Taken {
            outcome,
            connection: None,
        };
        if descriptor.damaged {
            let is_tcp = matches!(dissected, Dissected::Tcp(..));
            counters.add(Counter::FramesDamagedNotTcp, (!is_tcp).into());
            return DAMAGED;
        }
        match &dissected {
            Dissected::Tcp(ip, tcp) => {
                let (connections, mut context) = self.parts(sink, counters);
                count_checksums(ip, tcp.checksum_offloaded, context.counters);
                if let Some(taken) = connections.on_predicted(ip, tcp, frame, &mut context) {
                    return taken;
                }
                let payload = tcp.payload.min(frame.bytes().len());
                let payload = Chunk::of_frame(frame, payload, tcp.captured_len);
                connections.on_tcp(ip, tcp, &Origin::Frame(frame), &[payload], &mut context)
            }
            Dissected::Udp(ip, udp) => self.on_udp(ip, udp, frame, sink, counters),
            Dissected::Fragment(ip, fragment) => {
                self.on_fragment(ip, fragment, frame, sink, counters)
            }
            Dissected::NotIp => plain(Counter::FramesNotIp),
            Dissected::IpUnread => plain(Counter::FramesIpUnread),
            Dissected::Esp => {
                counters.add(Counter::EspBytes, wire_len as u64);
                plain(Counter::FramesIpUnread)
            }
            Dissected::OtherProtocol => plain(Counter::FramesOtherProtocol),
            Dissected::TooDeep => plain(Counter::FramesTooDeep),
            Dissected::UnknownLink => plain(Counter::FramesUnknownLink),
            // What is missing of its headers may be as it should.
            _ if frame.bytes().len() < wire_len => plain(Counter::FramesHeaderCut),
            Dissected::MalformedLink => plain(Counter::MalformedLink),
            Dissected::MalformedIp => plain(Counter::MalformedIp),
            Dissected::MalformedTunnel => plain(Counter::MalformedTunnel),
            Dissected::MalformedTcp => plain(Counter::MalformedTcp),
            Dissected::MalformedUdp => plain(Counter::MalformedUdp),
        }
    }

    /// Takes a packet put together from fragments, perhaps with holes. `now` is the running maximum
    /// of the stamps.
    pub fn on_whole<S: StreamSink>(
        &mut self,
        now: i64,
        whole: &Whole,
        sink: &mut S,
        counters: &mut Counters,
    ) {
        self.pass_time(now, sink, counters);
        let is_credible = count_whole(whole, counters);
        let Some(dissected) = whole.dissected().filter(|_| is_credible) else {
            return;
        };
        let origin = Origin::Whole(whole);
        let (connections, mut context) = self.parts(sink, counters);
        let is_duplicate = match dissected {
            Dissected::Tcp(ip, tcp) => {
                // `tcp.payload` does not lie after the options where a hole cuts them.
                let chunks = whole.chunks(ip.payload + tcp.header_len, tcp.payload_len);
                let taken = connections.on_tcp(&ip, &tcp, &origin, &chunks, &mut context);
                let is_damaged = taken.outcome == Counter::FramesDamaged;
                let counters = &mut context.counters;
                counters.add(Counter::SegmentsDamaged, is_damaged.into());
                taken.outcome == Counter::FramesDuplicate
            }
            Dissected::Udp(ip, udp) => {
                // If the whole is not in a tunnel, its fragments would have been the duplicates.
                let may_be_copy = ip.tunnels > whole.ip.tunnels;
                let chunks = whole.chunks(udp.payload, udp.payload_len);
                let taken =
                    connections.on_udp(&ip, &udp, &origin, &chunks, may_be_copy, &mut context);
                taken.outcome == Counter::FramesDuplicate
            }
            Dissected::NotIp | Dissected::OtherProtocol => false,
            _ => {
                context.counters.count(Counter::DatagramsUnread);
                false
            }
        };
        counters.add(Counter::DatagramsDuplicate, is_duplicate.into());
    }

    /// Gives up what is overdue: once a burst, and for live captures also when none comes. Without
    /// [`Config::quiet_window_ns`], rows do not depend on when this is called, for frames and whole
    /// packets do so too.
    pub fn on_timer<S: StreamSink>(&mut self, now: i64, sink: &mut S, counters: &mut Counters) {
        self.pass_time(now, sink, counters);
        self.give_up_fragments(sink, counters);
        self.look_at_quiet(sink, counters);
    }

    /// Copies everything held out of its blocks, so that the pool can use them again.
    pub fn spill(&mut self, counters: &mut Counters) {
        let mut spilled = self.fragments.spill() + self.shared.cut.spill();
        // Ranges in memory of their own still become overdue where time passes.
        let is_live = self.shared.config.quiet_window_ns.is_some();
        self.shared.holders.retain(|slot| {
            let connection = self.connections.get_mut(slot);
            let is_open = connection.is_some();
            spilled += connection.map_or(0, Connection::spill);
            is_open && is_live
        });
        counters.add(Counter::RangesSpilled, spilled as u64);
    }

    /// The input has ended: delivers all that waits, with holes where nothing came, and closes all
    /// connections.
    pub fn finish<S: StreamSink>(&mut self, sink: &mut S, counters: &mut Counters) {
        let now = self.shared.now;
        while let Some(whole) = self.fragments.overdue(now, true, counters) {
            self.on_whole(now, &whole, sink, counters);
        }
        self.close_from(0, usize::MAX, sink, counters);
    }

    /// A part of [`Engine::finish`]: closes the connections in at most `slots_max` slots from
    /// `slot` on; returns where to go on, `None` at the end.
    pub fn close_from<S: StreamSink>(
        &mut self,
        slot: usize,
        slots_max: usize,
        sink: &mut S,
        counters: &mut Counters,
    ) -> Option<usize> {
        // As if time had gone on, which live it does.
        self.give_up_cut(i64::MAX, sink, counters);
        let (connections, mut context) = self.parts(sink, counters);
        let end = connections.len().min(slot.saturating_add(slots_max));
        for slot in slot..end {
            connections.close(slot, &mut context);
        }
        context.shared.duplicates.clear();
        context.shared.held.trim(0);
        (end < connections.len()).then_some(end)
    }

    /// Delivers the datagrams for which no longer copy has come, each at the time until which it
    /// has waited: when that is looked at, is no part of the input.
    #[cold]
    fn give_up_cut<S: StreamSink>(&mut self, now: i64, sink: &mut S, counters: &mut Counters) {
        let (_, context) = self.parts(sink, counters);
        loop {
            let until_ns = context.shared.cut.until_ns();
            let Some(cut) = (until_ns < now).then(|| context.shared.cut.pop()).flatten() else {
                return;
            };
            context.sink.on_time(until_ns);
            cut.deliver(context.sink, context.counters);
        }
    }

    #[inline]
    fn parts<'a, S>(
        &'a mut self,
        sink: &'a mut S,
        counters: &'a mut Counters,
    ) -> (&'a mut Connections, Context<'a, S>) {
        let context = Context {
            shared: &mut self.shared,
            sink,
            counters,
        };
        (&mut self.connections, context)
    }

    fn on_udp<S: StreamSink>(
        &mut self,
        ip: &Ip,
        udp: &UdpHeader,
        frame: &FrameRef,
        sink: &mut S,
        counters: &mut Counters,
    ) -> Taken {
        let (connections, mut context) = self.parts(sink, counters);
        let origin = Origin::Frame(frame);
        let payload = Chunk::of_frame(
            frame,
            udp.payload.min(frame.bytes().len()),
            udp.captured_len,
        );
        let cut_len = udp.payload_len - udp.captured_len;
        let cut = Chunk::hole(cut_len, Cause::SnapLength, frame.descriptor());
        let chunks = [payload, cut];
        let chunks = &chunks[..if cut.is_empty() { 1 } else { 2 }];
        let taken = connections.on_udp(ip, udp, &origin, chunks, true, &mut context);
        if taken.outcome != Counter::FramesDuplicate {
            count_checksums(ip, udp.checksum_offloaded, counters);
        }
        taken
    }

    fn on_fragment<S: StreamSink>(
        &mut self,
        ip: &Ip,
        fragment: &Fragment,
        frame: &FrameRef,
        sink: &mut S,
        counters: &mut Counters,
    ) -> Taken {
        let now = self.shared.now;
        let outcome = self
            .fragments
            .on_fragment(now, ip, fragment, frame, counters);
        while let Some(whole) = self.fragments.done(now, counters) {
            self.on_whole(now, &whole, sink, counters);
        }
        Taken {
            outcome,
            connection: None,
        }
    }

    /// Time goes on until `now`: connections that are over by then are closed before anything else.
    #[inline]
    fn pass_time<S: StreamSink>(&mut self, now: i64, sink: &mut S, counters: &mut Counters) {
        if !self.shared.cut.is_empty() {
            self.give_up_cut(now, sink, counters);
        }
        if self.connections.may_be_over(now) {
            let (connections, mut context) = self.parts(sink, counters);
            connections.close_over(now, &mut context);
        }
        self.shared.now = self.shared.now.max(now);
        sink.on_time(self.shared.now);
    }

    /// Delivers the packets of which some fragment is missing for too long.
    #[inline(always)]
    fn give_up_fragments<S: StreamSink>(&mut self, sink: &mut S, counters: &mut Counters) {
        if !self.fragments.is_empty() {
            self.give_up_overdue(sink, counters);
        }
    }

    #[cold]
    fn give_up_overdue<S: StreamSink>(&mut self, sink: &mut S, counters: &mut Counters) {
        let now = self.shared.now;
        while let Some(whole) = self.fragments.overdue(now, false, counters) {
            self.on_whole(now, &whole, sink, counters);
        }
    }

    /// Goes on with connections that hold something and of which nothing comes.
    fn look_at_quiet<S: StreamSink>(&mut self, sink: &mut S, counters: &mut Counters) {
        let Some(window_ns) = self.shared.config.quiet_window_ns else {
            return;
        };
        // A look at all of them a few times in each window: late by a quarter, and cheap.
        if self.shared.now.saturating_sub(self.looked_ns) < window_ns / 4 {
            return;
        }
        self.looked_ns = self.shared.now;
        let (connections, mut context) = self.parts(sink, counters);
        let mut holders = std::mem::take(&mut context.shared.holders);
        holders.retain(|slot| match connections.get_mut(slot) {
            Some(connection) => {
                connection.advance(false, &mut context);
                connection.holds()
            }
            None => false,
        });
        // Nothing new was held meanwhile, so that no other slot was listed.
        context.shared.holders = holders;
    }
}
