//! A port over a socket of AF_XDP: one queue of an interface. The rings, the memory that they share
//! with the kernel and the program on the interface are in files of their own.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use lineside_account::Budget;
use lineside_frame::{BlockWriter, Burst, Descriptor, Frame, LinkType, Pool};
use lineside_host::monotonic_ns;
use lineside_wire::ethernet::{HEADER_LEN, TAG_LEN};
use rustix::io::Errno;

use super::attached::Attached;
use super::chunks::Chunks;
use super::lent::Lent;
use super::program::Arrivals;
use super::rings::{CONTINUED, METADATA, Part};
use super::socket::Socket;
use super::umem::{Request, Umem, take_stamp};
use crate::live::checksum_offload::{ChecksumOffload, finish};
use crate::live::clock::{ClockWatch, KernelStamps, Source};
use crate::live::{StampClock, ethtool};
use crate::{
    BLOCK_LEN, FRAME_LEN_MAX, Facts, Live, LiveFacts, Method, Port, PortError, Receive, Received,
    Transmit,
};

/// A frame that was counted is in the ring or lost after this time: so long a host may stand still
/// between the two.
const LATE_NS: i64 = 100_000_000;

/// A program that had begun when its queue was shut has counted its frame after this time.
const SHUT_NS: i64 = 2_000_000;

/// A port that is asked again and again does not ask the kernel each time: how many frames were
/// lost, and whether the interface is still there.
const COUNT_NS: i64 = 100_000;
const LOOK_NS: i64 = 1_000_000;

/// Of an interface that comes and goes, the first times are reported.
const WARNINGS_MAX: usize = 16;

/// Frames whose headers are asked for ahead: what is read of one takes about as long as they are on
/// their way.
const PREFETCH: u32 = 4;

/// The kernel sends a frame of at most this many parts (`MAX_SKB_FRAGS` + 1).
const PARTS_MAX: usize = 17;

/// A socket of AF_XDP: one queue of an interface.
pub(super) struct XdpPort {
    attached: Arc<Attached>,
    queue: u32,
    socket: Socket,
    umem: Arc<Umem>,
    chunks: Chunks,
    joined: Joined,
    arrivals: Arrivals,
    /// Frames of the UMEM that are being sent from where they lie.
    lent: Lent,
    stamping: Stamping,
    clock: StampClock,
    /// How far that is ahead of CLOCK_MONOTONIC, by which the program stamps frames.
    ahead_ns: i64,
    /// Those of frames that are sent.
    sent_stamps: KernelStamps,
    watch: ClockWatch,
    link_type: LinkType,
    facts: Facts,
    /// Frames taken from the receive ring.
    received: u64,
    /// When losses were counted, and faults looked for, while there was nothing to receive.
    counted_ns: i64,
    looked_ns: i64,
    /// The last [`Received::Idle`].
    until_ns: i64,
    /// Holders were asked to spill, and no frame was received since.
    has_asked: bool,
    /// As of the last account.
    link_losses: u32,
    /// The interface was down when the kernel was to send.
    is_down: bool,
    /// When no more frames were let in, by CLOCK_MONOTONIC.
    shut_ns: Option<i64>,
    ended: bool,
}

/// How far it has come with the stamp of a frame that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stamping {
    Idle,
    /// The next frame is to have one.
    Asked,
    /// The frame at this offset of the UMEM is to be stamped.
    Sending(u64),
    /// By the clock of the port; `None` if the kernel gave none.
    Sent(Option<i64>),
}

/// Blocks in which frames of several parts are put together.
struct Joined {
    budget: Budget,
    blocks_max: usize,
    /// Made for the first such frame.
    pool: Option<Pool>,
    writer: Option<BlockWriter>,
}

/// What is known of the port of a queue before a frame has come.
fn facts(attached: &Attached, link_type: LinkType, queue: u32, is_one: bool) -> Facts {
    let interface = &attached.interface;
    let name = match is_one {
        true => interface.name.clone(),
        false => format!("{} ({queue})", interface.name),
    };
    Facts {
        name,
        format: attached.method.to_string(),
        link_types: vec![link_type],
        resolution_ns: Some(1),
        live: Some(LiveFacts {
            method: attached.method,
            reason: attached.reason.clone(),
            queue: (!is_one).then_some(queue),
            mtu: interface.mtu,
            speed_bps: ethtool::speed_bps(&interface.name),
            // The program filters nothing.
            filtered: Some(0),
            ..LiveFacts::default()
        }),
        // Once for all queues.
        warnings: match queue {
            0 => attached.warnings.clone(),
            _ => Vec::new(),
        },
        ..Facts::default()
    }
}

impl XdpPort {
    /// A port over `socket`, whose fill ring has what is free of `chunks`.
    pub(super) fn new(
        attached: Arc<Attached>,
        queue: u32,
        is_one: bool,
        socket: Socket,
        clock: StampClock,
        (umem, chunks, transmit): (Arc<Umem>, Chunks, u32),
        (budget, blocks_max): (Budget, usize),
    ) -> Result<Self, PortError> {
        let interface = &attached.interface;
        let Some(link_type) = interface.link_type else {
            return Err(PortError::UnknownHardware {
                name: interface.name.clone(),
            });
        };
        let arrivals = attached
            .maps
            .arrivals()
            .map_err(|errno| PortError::Interface {
                name: interface.name.clone(),
                action: "map the counters of",
                cause: errno.into(),
            })?;
        let facts = facts(&attached, link_type, queue, is_one);
        Ok(Self {
            queue,
            chunks,
            joined: Joined {
                budget,
                blocks_max,
                pool: None,
                writer: None,
            },
            arrivals,
            // Those in the ring, and as many that left it, each with a place in the completion
            // ring.
            lent: Lent::new(umem.chunks(), 2 * transmit as usize),
            stamping: Stamping::Idle,
            clock,
            ahead_ns: clock.ahead_ns(),
            sent_stamps: KernelStamps::new(clock, Source::Tai),
            watch: ClockWatch::new(),
            link_type,
            facts,
            received: 0,
            counted_ns: 0,
            looked_ns: 0,
            until_ns: i64::MIN,
            has_asked: false,
            link_losses: interface.link_losses,
            is_down: false,
            shut_ns: None,
            ended: false,
            attached,
            socket,
            umem,
        })
    }

    /// Takes frames from the ring until `burst` holds `len_max`, or there are none, or, which is
    /// `false`, no block for a long one.
    fn take(&mut self, burst: &mut Burst, len_max: usize) -> Result<bool, PortError> {
        let ready = self.socket.receive.ready((len_max - burst.len()) as u32);
        let mut next = 0;
        let mut has_room = true;
        while next < ready && burst.len() < len_max {
            let first = self.socket.receive.peek(next);
            if next + PREFETCH < ready {
                let later = self.socket.receive.peek(next + PREFETCH);
                self.umem.prefetch(later.offset);
            }
            if first.options & CONTINUED == 0 {
                let frame = self.cut(first)?;
                burst.push(frame);
                next += 1;
                continue;
            }
            let Some(count) = self.parts(next, ready) else {
                // The kernel shows all parts of a frame at once, but perhaps not to this look.
                if self.socket.receive.ready(u32::MAX) > ready {
                    break;
                }
                return Err(self.strange("a frame without its last part"));
            };
            let Some(frame) = self.join(next, count)? else {
                has_room = false;
                break;
            };
            burst.push(frame);
            next += count;
        }
        self.socket.receive.release(next);
        Ok(has_room)
    }

    /// How many parts the frame has that begins at `first`; `None` if not all are among the `ready`
    /// ones.
    fn parts(&self, first: u32, ready: u32) -> Option<u32> {
        let is_last = |at: &u32| self.socket.receive.peek(*at).options & CONTINUED == 0;
        (first..ready).find(is_last).map(|last| last - first + 1)
    }

    /// A frame that lies in one chunk, where it lies.
    fn cut(&mut self, part: Part) -> Result<Frame, PortError> {
        let Some((chunk, start)) = self.chunks.locate(part) else {
            return Err(self.strange("a frame outside the chunks it was given"));
        };
        let stamp = take_stamp(self.chunks.bytes_mut(chunk), start);
        let len = part.len as usize;
        let descriptor = self.describe(stamp, len);
        Ok(self.chunks.hold(chunk, start..start + len, descriptor))
    }

    /// A frame of `count` parts, copied together. `None` if there is no block for it.
    fn join(&mut self, first: u32, count: u32) -> Result<Option<Frame>, PortError> {
        let parts = first..first + count;
        let lens = parts
            .clone()
            .map(|at| self.socket.receive.peek(at).len as usize);
        let len = lens.sum();
        if len > FRAME_LEN_MAX {
            return Err(self.strange("a frame longer than any can be"));
        }
        let mut writer = self.joined.writer.take();
        if writer
            .as_mut()
            .is_none_or(|writer| writer.unfilled().len() < len)
        {
            let Some(pool) = self.joined.pool() else {
                return Err(PortError::Memory {
                    name: self.facts.name.clone(),
                    needed_bytes: 2 * BLOCK_LEN,
                });
            };
            writer = pool.take();
        }
        let Some(mut writer) = writer else {
            return Ok(None);
        };
        let mut stamp = None;
        for at in parts {
            let part = self.socket.receive.peek(at);
            let Some((chunk, start)) = self.chunks.locate(part) else {
                return Err(self.strange("a part of a frame outside the chunks it was given"));
            };
            let len = part.len as usize;
            let bytes = self.chunks.bytes_mut(chunk);
            if at == first {
                stamp = take_stamp(bytes, start);
            }
            writer.unfilled()[..len].copy_from_slice(&bytes[start..start + len]);
            writer.advance(len);
            self.chunks.take_back(chunk);
        }
        let descriptor = self.describe(stamp, len);
        let frame = writer.take(len, descriptor);
        self.joined.writer = Some(writer);
        Ok(Some(frame))
    }

    fn describe(&mut self, stamp: Option<u64>, len: usize) -> Descriptor {
        self.received += 1;
        self.facts.frames += 1;
        self.facts.bytes += len as u64;
        let monotonic_ns = stamp.map_or_else(monotonic_ns, |stamp| stamp as i64);
        Descriptor {
            stamp_ns: Some(monotonic_ns + self.ahead_ns),
            wire_len: len as u32,
            link_type: self.link_type,
            number: self.facts.frames,
            ..Descriptor::default()
        }
    }

    /// What an empty ring means: `None` if it is not empty any more.
    fn on_empty(&mut self) -> Result<Option<Received>, PortError> {
        let now_ns = monotonic_ns();
        // In this order: see `program`.
        let arrived = self.arrivals.of(self.queue);
        if self.socket.receive.ready(1) > 0 {
            return Ok(None);
        }
        if self.chunks.are_used_up() {
            return Ok(Some(Received::PoolEmpty));
        }
        let is_settled = |port: &Self| arrived == port.received + port.lost();
        if !is_settled(self) && now_ns > self.counted_ns + COUNT_NS {
            self.counted_ns = now_ns;
            self.count_losses();
        }
        let is_settled = is_settled(self);
        let settled_ns = if is_settled { now_ns } else { now_ns - LATE_NS };
        if let Some(shut_ns) = self.shut_ns
            && (settled_ns > shut_ns + SHUT_NS)
        {
            self.ended = true;
            self.account();
            return Ok(Some(Received::End));
        }
        if now_ns > self.looked_ns + LOOK_NS {
            self.looked_ns = now_ns;
            self.look_at_fault()?;
        }
        self.until_ns = self.until_ns.max(settled_ns + self.ahead_ns);
        Ok(Some(Received::Idle {
            until_ns: self.until_ns,
        }))
    }

    /// Frames that were lost behind the program, as far as they were counted.
    fn lost(&self) -> u64 {
        let live = self.facts.live.as_ref();
        live.map_or(0, |live| live.dropped_ring + live.dropped_pool)
    }

    /// Asks the kernel how many frames were lost behind the program.
    fn count_losses(&mut self) {
        let Ok(statistics) = self.socket.statistics() else {
            return;
        };
        let invalid = statistics.rx_invalid_descs + statistics.tx_invalid_descs;
        debug_assert_eq!(invalid, 0, "the kernel takes every descriptor of ours");
        let before = self.lost();
        let live = self.live_mut();
        live.dropped_ring = statistics.rx_ring_full.unwrap_or(0);
        live.dropped_pool = statistics.rx_dropped;
        let lost = self.lost() - before;
        self.attached.lost.fetch_add(lost, Ordering::Relaxed);
    }

    fn look_at_fault(&mut self) -> Result<(), PortError> {
        let name = || self.attached.interface.name.clone();
        match self.socket.fault() {
            None => Ok(()),
            Some(Errno::NETDOWN | Errno::NODEV | Errno::NXIO) => Err(PortError::InterfaceGone {
                name: name(),
                frames: self.facts.frames,
            }),
            Some(errno) => Err(PortError::Interface {
                name: name(),
                action: "receive from",
                cause: errno.into(),
            }),
        }
    }

    fn strange(&self, what: &str) -> PortError {
        PortError::Interface {
            name: self.attached.interface.name.clone(),
            action: "trust the rings of",
            cause: io::Error::other(format!("the kernel handed over {what}")),
        }
    }

    fn live_mut(&mut self) -> &mut LiveFacts {
        self.facts.live.get_or_insert_default()
    }

    /// Fails if a frame cannot leave by this interface.
    fn check(&self, frame: &Frame) -> Result<(), PortError> {
        let name = &self.facts.name;
        let (descriptor, len) = (frame.descriptor(), frame.whole_len());
        if descriptor.link_type != self.link_type {
            return Err(PortError::WrongLinkType {
                name: name.clone(),
                holds: self.link_type.0,
                given: descriptor.link_type.0,
                number: descriptor.number,
            });
        }
        // A head with a rest takes a part more.
        let split = match frame.rest().is_empty() {
            true => 0,
            false => self.umem.chunk.part_len_max(),
        };
        if len > self.len_max() || len + split > PARTS_MAX * self.umem.chunk.part_len_max() {
            return Err(PortError::TooLong {
                name: name.clone(),
                mtu: self.attached.interface.mtu,
                number: descriptor.number,
                len,
                needed: len - HEADER_LEN,
            });
        }
        if frame.bytes().len() < HEADER_LEN {
            return Err(PortError::Interface {
                name: name.clone(),
                action: "send to",
                cause: io::Error::other(format!(
                    "frame {} has {} bytes, fewer than an Ethernet header",
                    descriptor.number,
                    frame.bytes().len()
                )),
            });
        }
        Ok(())
    }

    /// Puts a frame into the transmit ring; `false` if there is no room. What lies in the memory
    /// stays there, and all else is copied.
    fn queue(&mut self, frame: &mut Frame) -> Result<bool, PortError> {
        self.check(frame)?;
        let mut request = Request {
            stamps: false,
            checksum: self.checksum_to_ask(frame),
        };
        let parts = frame.parts();
        let places = parts.map(|bytes| self.umem.offset_of(bytes));
        let (mut left, mut copies) = (0, 0);
        for (bytes, place) in parts.iter().zip(places) {
            let count = bytes.len().div_ceil(self.umem.chunk.part_len_max());
            left += place.map_or(count, |_| count.min(1));
            copies += place.map_or(count, |_| 0);
        }
        if (self.socket.transmit.free(left as u32) as usize) < left
            || self.chunks.free_count() < copies
        {
            return Ok(false);
        }
        request.stamps = (left, copies) == (1, 1) && self.stamping == Stamping::Asked;
        for (bytes, place) in parts.into_iter().zip(places) {
            if let Some(offset) = place.filter(|_| !bytes.is_empty()) {
                if !request.is_empty() {
                    self.umem.write_request(offset, request);
                }
                left -= 1;
                self.push(
                    offset as u64,
                    bytes.len(),
                    left,
                    std::mem::take(&mut request),
                );
                continue;
            }
            for bytes in bytes.chunks(self.umem.chunk.part_len_max()) {
                let offset = self.chunks.send(bytes).expect("counted");
                if !request.is_empty() {
                    self.chunks.request(offset, request);
                }
                if request.stamps {
                    self.stamping = Stamping::Sending(offset);
                }
                left -= 1;
                self.push(offset, bytes.len(), left, std::mem::take(&mut request));
            }
        }
        Ok(true)
    }

    /// Puts a part into the transmit ring, behind which `left` of the same frame follow.
    fn push(&mut self, offset: u64, len: usize, left: usize, request: Request) {
        let continued = if left > 0 { CONTINUED } else { 0 };
        let metadata = if request.is_empty() { 0 } else { METADATA };
        self.socket.transmit.push(Part {
            offset,
            len: len as u32,
            options: continued | metadata,
        });
    }

    /// What the kernel is to finish of a frame. What it cannot is finished here: it is too old, or
    /// there is no place for the request.
    fn checksum_to_ask(&self, frame: &mut Frame) -> Option<ChecksumOffload> {
        let bytes = frame.bytes();
        let place = self.umem.offset_of(bytes);
        let asked = ChecksumOffload::of(frame).filter(|it| {
            self.socket.takes_requests
                && it.end() <= bytes.len()
                && place.is_none_or(|at| self.umem.takes_request(at))
        });
        if asked.is_none() {
            finish(frame);
        }
        asked
    }

    /// Holds what is being sent from where it lies.
    fn lend(&mut self, frame: Frame) {
        let frame = frame.share();
        for bytes in frame.parts() {
            if let Some(offset) = self.umem.offset_of(bytes) {
                let chunk = self.umem.chunk.locate(offset).0;
                self.lent.lend(chunk, frame.clone());
            }
        }
    }

    /// Bytes of a frame with its header and a tag, as the kernel lets it pass.
    fn len_max(&self) -> usize {
        let mtu = self.attached.interface.mtu as usize;
        (mtu + HEADER_LEN + TAG_LEN).min(PARTS_MAX * self.umem.chunk.part_len_max())
    }

    /// Takes back what was sent; returns how many chunks.
    fn complete(&mut self) -> Result<usize, PortError> {
        let ready = self.socket.completion.ready(u32::MAX);
        for at in 0..ready {
            let offset = self.socket.completion.peek(at);
            if self.stamping == Stamping::Sending(offset) {
                let tai_ns = self.chunks.answered_stamp(offset);
                self.sent_stamps.renew();
                let stamp_ns = tai_ns.map(|tai_ns| self.sent_stamps.stamp_ns(tai_ns as i64));
                self.stamping = Stamping::Sent(stamp_ns);
            }
            let offset = usize::try_from(offset).unwrap_or(usize::MAX);
            let chunk = self.umem.chunk.locate(offset).0;
            if self.lent.give_back(chunk) || self.chunks.sent(offset) {
                continue;
            }
            return Err(self.strange("a chunk as sent that was not being sent"));
        }
        self.socket.completion.release(ready);
        Ok(ready as usize)
    }

    /// Has the kernel send what waits in the transmit ring.
    fn kick(&mut self) -> Result<(), PortError> {
        let mut pending = self.socket.transmit.pending();
        while pending > 0 {
            let kicked = self.socket.kick();
            self.is_down = kicked == Err(Errno::NETDOWN);
            kicked.map_err(|errno| match errno {
                Errno::NETDOWN => PortError::InterfaceDown {
                    name: self.attached.interface.name.clone(),
                },
                Errno::NXIO | Errno::NODEV => PortError::InterfaceGone {
                    name: self.attached.interface.name.clone(),
                    frames: self.facts.frames,
                },
                errno => PortError::Interface {
                    name: self.attached.interface.name.clone(),
                    action: "send to",
                    cause: errno.into(),
                },
            })?;
            let before = std::mem::replace(&mut pending, self.socket.transmit.pending());
            if pending == before {
                break;
            }
        }
        Ok(())
    }
}

impl Port for XdpPort {
    fn facts(&self) -> Vec<&Facts> {
        vec![&self.facts]
    }
}

impl Receive for XdpPort {
    fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        if self.ended {
            return Ok(Received::End);
        }
        self.chunks.recycle();
        self.chunks.refill(&mut self.socket.fill);
        if self.chunks.are_short() && !self.has_asked {
            // In turns with frames, as long as there are any.
            self.has_asked = true;
            return Ok(Received::PoolEmpty);
        }
        let before = burst.len();
        let len_max = before.saturating_add(max);
        loop {
            let taken = self.take(burst, len_max);
            let has_room = taken.inspect_err(|_| self.ended = true)?;
            if burst.len() > before || max == 0 {
                self.has_asked = false;
                return Ok(Received::Frames(burst.len() - before));
            }
            if !has_room {
                return Ok(Received::PoolEmpty);
            }
            match self.on_empty() {
                Ok(None) => {}
                Ok(Some(received)) => return Ok(received),
                Err(error) => {
                    self.ended = true;
                    return Err(error);
                }
            }
        }
    }

    fn leave(&mut self, ahead: &mut Burst) {
        self.received -= ahead.len() as u64;
        self.facts.take_back(ahead);
    }
}

impl Transmit for XdpPort {
    fn transmit(&mut self, burst: &mut Burst) -> Result<usize, PortError> {
        self.complete()?;
        if self.is_down {
            // While it is, nothing is put into the ring: it would leave when it is up again.
            self.kick()?;
        }
        let mut count = 0;
        let mut refused = None;
        for frame in burst.iter_mut() {
            match self.queue(frame) {
                Ok(true) => count += 1,
                Ok(false) => break,
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        for frame in burst.drain(..count) {
            self.lend(frame);
        }
        self.socket.transmit.submit();
        self.kick()?;
        self.facts.frames += count as u64;
        match refused {
            None => Ok(count),
            Some(error) => Err(error),
        }
    }

    fn reclaim(&mut self) -> usize {
        // What fails here fails in the next call that can report it.
        let _ = self.kick();
        let sent = self.complete().unwrap_or(0);
        let dropped = self.chunks.recycle();
        self.chunks.refill(&mut self.socket.fill);
        sent + dropped
    }

    fn stamp_next(&mut self) -> bool {
        if self.socket.takes_requests && self.stamping == Stamping::Idle {
            self.stamping = Stamping::Asked;
        }
        self.stamping == Stamping::Asked
    }

    fn handed_over(&mut self) -> Option<Option<i64>> {
        let Stamping::Sent(stamp_ns) = self.stamping else {
            return None;
        };
        self.stamping = Stamping::Idle;
        Some(stamp_ns)
    }
}

impl Live for XdpPort {
    fn wake_on<'a>(&'a self, descriptors: &mut Vec<BorrowedFd<'a>>) {
        descriptors.push(self.socket.as_fd());
    }

    fn backlog(&self) -> f32 {
        self.socket.receive.fill_level()
    }

    fn account(&mut self) {
        // In this order: what is dropped meanwhile counts as lost alone, and shows with the next
        // account. The other way round it would count twice.
        let now = self.attached.interface.again().ok().flatten();
        if let Some(now) = now.as_ref().filter(|_| self.queue == 0) {
            let dropped = now.dropped.saturating_sub(self.attached.interface.dropped);
            self.attached
                .driver_dropped
                .store(dropped, Ordering::Relaxed);
        }
        self.count_losses();
        let lost = self.lost();
        let arrived = self.arrivals.of(self.queue);
        let was_set = self.watch.was_set();
        if was_set {
            self.ahead_ns = self.clock.ahead_ns();
        }
        let unread = arrived.saturating_sub(self.received + lost);
        let attached = Arc::clone(&self.attached);
        let is_last = self.queue + 1 == attached.queues;
        let live = self.live_mut();
        live.arrived = arrived;
        live.unread = unread;
        live.clock_steps += u64::from(was_set);
        // The last queue: the losses of all are known.
        if is_last {
            let mut dropped = attached.driver_dropped.load(Ordering::Relaxed);
            if attached.method == Method::AfXdpNative {
                // The driver counts what a socket refuses among its own losses.
                dropped = dropped.saturating_sub(attached.lost.load(Ordering::Relaxed));
            }
            // It grows alone: each row of `losses` is what came since the row before.
            live.dropped_interface = live.dropped_interface.max(dropped);
        }
        let Some(now) = now else { return };
        live.mtu = now.mtu;
        if std::mem::replace(&mut self.link_losses, now.link_losses) != now.link_losses
            && self.facts.warnings.len() < WARNINGS_MAX
        {
            self.facts.warnings.push(format!(
                "'{}' went down after {} frames: what passed until it came up again was not seen",
                attached.interface.name, self.facts.frames
            ));
        }
    }

    fn shut(&mut self) {
        if self.shut_ns.is_none() {
            self.attached.shut(self.queue);
            self.shut_ns = Some(monotonic_ns());
        }
    }
}

impl Drop for XdpPort {
    fn drop(&mut self) {
        self.shut();
    }
}

impl Joined {
    /// The pool; `None` if the budget has no room for it.
    fn pool(&mut self) -> Option<&mut Pool> {
        if self.pool.is_none() {
            self.pool = Pool::new(BLOCK_LEN, self.blocks_max, &self.budget);
        }
        self.pool.as_mut()
    }
}
