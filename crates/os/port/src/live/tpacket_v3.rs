//! Packet sockets with a ring of blocks that the kernel fills (TPACKET_V3).
//!
//! The kernel hands a block over when it is full or [`RETIRE_MS`] old. Its frames are used where
//! they lie; it goes back to the kernel when all of them are dropped. A caller that cannot wait for
//! a block uses [slots](SlotRing) instead.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lineside_account::Lease;
use lineside_frame::{BlockWriter, Burst, Descriptor, LinkType, Slots};
use lineside_host::monotonic_ns;
use rustix::mm::{MapFlags, ProtFlags};

use super::classic::RET_K;
use super::clock::ClockWatch;
use super::filter::CountingFilter;
use super::interface::HEADER_LEN_MAX;
use super::mapping::Mapping;
use super::packet_socket::PacketSocket;
use super::socket_options::{see_all_frames, set_option};
use super::tpacket_v2::{SlotRing, SlotRingError};
use super::{FilterInstruction, Interface, LiveOptions, StampClock, steering};
use crate::{Facts, Live, LivePort, Port, PortError, Receive, Received, Transmit};

/// A block that is not full is handed over after this time: at low rates each takes no longer than
/// this, so that a whole ring bears a stall of [`BLOCKS_MAX`] times as long, 5 s.
const RETIRE_MS: u32 = 20;

/// Bytes of a block. Shorter ones bear longer stalls; the longest frame, 64 KiB that were joined on
/// receive, has to fit, and one that does not is cut.
const BLOCK_LEN: usize = 128 * 1024;

/// Frames older than this have been handed over: the kernel's timers are late by a tick or two.
const DELAY_NS: i64 = 3 * RETIRE_MS as i64 * 1_000_000;

/// Blocks of a ring at least, 2 MiB: half that the kernel fills in turn, half that are read or
/// held.
const BLOCKS_MIN: usize = 16;

/// Blocks of a ring at most: 32 MiB, the traffic of 25 ms at 10 Gb/s.
const BLOCKS_MAX: usize = 256;

/// Opens a port for each socket; `reason` is why packet sockets were chosen.
pub(super) fn open(
    interface: &Interface,
    options: &LiveOptions,
    reason: &str,
) -> Result<Vec<Box<dyn LivePort>>, PortError> {
    let count = options.sockets.max(1);
    let mut ports: Vec<Box<dyn LivePort>> = Vec::with_capacity(count);
    for queue in 0..count {
        let mut socket = PacketSocket::new(interface, options.clock, reason)?;
        let ring = Ring::new(&socket, options, count)?;
        if count > 1 {
            socket.live_mut().queue = Some(queue as u32);
            socket.facts.name = format!("{} ({queue})", interface.name);
        }
        let mut port = PacketPort::new(socket, options.clock, Frames::Blocks(ring));
        port.listen(options, count)?;
        ports.push(Box::new(port));
    }
    Ok(ports)
}

/// Opens ports that take each frame at once, and send: of several each has what comes for its local
/// ports.
pub(super) fn open_each(
    interface: &Interface,
    options: &LiveOptions,
    reason: &str,
) -> Result<Vec<Box<dyn LivePort>>, PortError> {
    let count = options.sockets.max(1);
    let program = options.program();
    let mut ports = Vec::with_capacity(count);
    for queue in 0..count {
        let mut port = one_of_each(interface, options, reason, count)?;
        if count == 1 {
            port.listen(options, 1)?;
            return Ok(vec![Box::new(port)]);
        }
        port.socket.live_mut().queue = Some(queue as u32);
        port.socket.facts.name = format!("{} ({queue})", interface.name);
        port.join(options, &ports)?;
        ports.push(port);
    }
    // Only now is a frame at the socket of its port, and at no other.
    for port in &mut ports {
        port.let_in(&program)?;
    }
    let boxed = ports
        .into_iter()
        .map(|port| Box::new(port) as Box<dyn LivePort>);
    Ok(boxed.collect())
}

/// One of `count` such ports, which hears nothing yet.
fn one_of_each(
    interface: &Interface,
    options: &LiveOptions,
    reason: &str,
    count: usize,
) -> Result<PacketPort, PortError> {
    let mut socket = PacketSocket::new(interface, options.clock, reason)?;
    let frame_len = interface.mtu as usize + HEADER_LEN_MAX;
    let ring = SlotRing::new(
        socket.socket.as_fd(),
        frame_len,
        &options.budget,
        options.bytes_max / count,
    );
    let ring = ring.map_err(|error| match error {
        SlotRingError::Memory(needed_bytes) => PortError::Memory {
            name: interface.name.clone(),
            needed_bytes,
        },
        SlotRingError::Kernel(cause) => {
            PacketSocket::failure(interface, "make a packet ring for", cause)
        }
    })?;
    // What this host sends here would pass the path as if it had come. Old kernels do not know
    // this, and the ring sees to it.
    let _ = socket.set(libc::PACKET_IGNORE_OUTGOING, &1_i32);
    let _ = socket.set(libc::PACKET_QDISC_BYPASS, &1_i32);
    let reported = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    socket.stamps_sent = set_option(
        socket.socket.as_fd(),
        libc::SOL_SOCKET,
        libc::SO_TIMESTAMPING,
        &reported,
    )
    .is_ok();
    Ok(PacketPort::new(socket, options.clock, Frames::Slots(ring)))
}

struct PacketPort {
    socket: PacketSocket,
    clock: StampClock,
    ring: Frames,
    /// Counts what it rejects; `None` without a filter, or where only a classic one may be had.
    filter: Option<CountingFilter>,
    watch: ClockWatch,
    /// When faults were looked for.
    looked_ns: i64,
    /// When no more frames were let in.
    shut_ns: Option<i64>,
    ended: bool,
    is_down: bool,
}

/// The ring by which frames come.
enum Frames {
    /// Many at once.
    Blocks(Ring),
    /// Each at once.
    Slots(SlotRing),
}

/// The blocks that the kernel fills in turn.
struct Ring {
    slots: Slots,
    start: NonNull<u8>,
    count: usize,
    /// The block that the kernel hands over next.
    next: usize,
    /// The block whose frames are being cut.
    open: Option<OpenBlock>,
    /// Blocks that were read and of which frames may live.
    held: Vec<usize>,
    /// Holders were asked to spill, and nothing came back since.
    has_asked: bool,
    /// The kernel runs a filter.
    is_filtered: bool,
    _memory: Lease,
}

struct OpenBlock {
    index: usize,
    writer: BlockWriter,
    /// Bytes of the block before what the writer has not handed out.
    taken: usize,
    /// Where the next frame's header is.
    header: usize,
    frames_left: u32,
}

// SAFETY: `start` points into a mapping that belongs to no thread, and that `slots` keep alive.
unsafe impl Send for Ring {}

impl PacketPort {
    fn new(socket: PacketSocket, clock: StampClock, ring: Frames) -> Self {
        Self {
            socket,
            clock,
            ring,
            filter: None,
            watch: ClockWatch::new(),
            looked_ns: 0,
            shut_ns: None,
            ended: false,
            is_down: false,
        }
    }

    /// Lets frames in: only now, so that all of them have passed the filter.
    fn listen(&mut self, options: &LiveOptions, sockets: usize) -> Result<(), PortError> {
        self.let_in(&options.program())?;
        let interface = &self.socket.interface;
        let failed = |action| move |cause| PacketSocket::failure(interface, action, cause);
        if self.socket.interface.is_loopback {
            // Each frame would come twice: as it leaves and as it arrives. Old kernels cannot
            // distinguish them.
            let _ = self.socket.set(libc::PACKET_IGNORE_OUTGOING, &1_i32);
        }
        if options.promiscuous {
            see_all_frames(self.socket.socket.as_fd(), &self.socket.interface)
                .map_err(failed("see all frames of"))?;
        }
        self.socket.bind(libc::ETH_P_ALL as u16)?;
        if sockets > 1 {
            // A group is known by 16 bits in the network namespace: those of the process and the
            // interface.
            let group = (std::process::id() ^ self.socket.interface.index.rotate_left(8)) & 0xffff;
            let group = group | (libc::PACKET_FANOUT_HASH << 16);
            self.socket
                .set(libc::PACKET_FANOUT, &group)
                .map_err(failed("share among sockets the frames of"))?;
        }
        Ok(())
    }

    /// Joins the sockets before it, among which the kernel then shares frames by local port; lets
    /// no frame in yet.
    fn join(&mut self, options: &LiveOptions, before: &[Self]) -> Result<(), PortError> {
        let interface = &self.socket.interface;
        let failed = |action| move |cause| PacketSocket::failure(interface, action, cause);
        let none = [FilterInstruction {
            code: RET_K.into(),
            jump_true: 0,
            jump_false: 0,
            operand: 0,
        }];
        let attached = self.socket.attach(&none);
        attached.map_err(failed("attach the filter at"))?;
        if options.promiscuous {
            see_all_frames(self.socket.socket.as_fd(), interface)
                .map_err(failed("see all frames of"))?;
        }
        self.socket.bind(libc::ETH_P_ALL as u16)?;
        let joined = match before.first() {
            None => self.socket.found_group(&steering::fan_out()),
            Some(first) => self.socket.join_group(&first.socket),
        };
        joined.map_err(|cause| {
            let action = "share among sockets the frames of";
            PacketSocket::failure(&self.socket.interface, action, cause)
        })
    }

    /// Lets in what a program lets pass, or all if it is empty.
    fn let_in(&mut self, program: &[FilterInstruction]) -> Result<(), PortError> {
        let attached = match (program.is_empty(), self.socket.is_fanned_out) {
            (true, false) => Ok(()),
            (true, true) => self.socket.detach(),
            _ => self.filter(program),
        };
        attached.map_err(|cause| {
            PacketSocket::failure(&self.socket.interface, "attach the filter at", cause)
        })
    }

    /// Attaches a filter: if possible one that counts what it rejects.
    fn filter(&mut self, program: &[FilterInstruction]) -> io::Result<()> {
        let (socket, level) = (self.socket.socket.as_fd(), libc::SOL_SOCKET);
        if let Some(filter) = CountingFilter::new(program) {
            let descriptor = filter.as_fd().as_raw_fd();
            if set_option(socket, level, libc::SO_ATTACH_BPF, &descriptor).is_ok() {
                self.filter = Some(filter);
                return Ok(());
            }
        }
        self.socket.live_mut().filtered = None;
        self.socket.attach(program)
    }

    /// Finds out which error the kernel reports for the socket.
    fn look_at_fault(&mut self) -> Result<(), PortError> {
        let fault = rustix::net::sockopt::socket_error(&self.socket.socket);
        let (Ok(Err(cause)) | Err(cause)) = fault else {
            return Ok(());
        };
        if cause != rustix::io::Errno::NETDOWN {
            return Err(PacketSocket::failure(
                &self.socket.interface,
                "receive from",
                cause.into(),
            ));
        }
        if self.socket.interface.again()?.is_none() {
            return Err(PortError::InterfaceGone {
                name: self.socket.interface.name.clone(),
                frames: self.socket.facts.frames,
            });
        }
        // The kernel takes the socket up again with the interface.
        if !std::mem::replace(&mut self.is_down, true) {
            self.socket.facts.warnings.push(format!(
                "'{}' went down after {} frames: what passed until it came up again was not seen",
                self.socket.interface.name, self.socket.facts.frames
            ));
        }
        Ok(())
    }

    fn count_drops(&mut self) {
        // Before what passed: a frame between the two would be taken for a rejected one.
        let seen = self.filter.as_ref().map(CountingFilter::seen);
        // SAFETY: all zeros are a value of this structure.
        let mut stats: libc::tpacket_stats_v3 = unsafe { std::mem::zeroed() };
        let mut len = size_of::<libc::tpacket_stats_v3>() as u32;
        // SAFETY: the kernel writes at most `len` bytes.
        let result = unsafe {
            libc::getsockopt(
                self.socket.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                ptr::from_mut(&mut stats).cast(),
                &raw mut len,
            )
        };
        if result == 0 {
            // The kernel begins again at 0 with each answer.
            let frames = self.socket.facts.frames;
            let live = self.socket.live_mut();
            live.arrived += u64::from(stats.tp_packets);
            live.dropped_ring += u64::from(stats.tp_drops);
            live.unread = live.arrived.saturating_sub(frames + live.dropped_ring);
            if let Some(seen) = seen {
                live.filtered = Some(seen.saturating_sub(live.arrived));
            }
        }
    }
}

impl PacketPort {
    fn receive_blocks(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        let Frames::Blocks(ring) = &mut self.ring else {
            return Ok(Received::End);
        };
        if self.ended {
            return Ok(Received::End);
        }
        ring.give_back();
        if ring.is_short() {
            return Ok(Received::PoolEmpty);
        }
        let before = burst.len();
        while burst.len() - before < max {
            if ring.open.is_none() && !ring.take_block() {
                break;
            }
            ring.cut(
                burst,
                before + max,
                self.socket.link_type,
                &mut self.socket.facts,
            );
        }
        if burst.len() > before {
            self.is_down = false;
            return Ok(Received::Frames(burst.len() - before));
        }
        let now_ns = monotonic_ns();
        if self
            .shut_ns
            .is_some_and(|shut_ns| now_ns > shut_ns + DELAY_NS)
        {
            self.ended = true;
            self.account();
            return Ok(Received::End);
        }
        if ring.is_stopped() {
            // Nothing comes until holders let go of it, who had less to let go of when they were
            // asked: to be asked again.
            ring.has_asked = false;
        }
        self.look_at_fault().inspect_err(|_| self.ended = true)?;
        Ok(Received::Idle {
            until_ns: self.clock.now() - DELAY_NS,
        })
    }

    fn receive_each(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        let Frames::Slots(each) = &mut self.ring else {
            return Ok(Received::End);
        };
        if self.ended {
            return Ok(Received::End);
        }
        let before = burst.len();
        let has_room = each.take(
            burst,
            before + max,
            self.socket.link_type,
            &mut self.socket.facts,
        );
        if burst.len() > before || max == 0 {
            self.is_down = false;
            self.socket.stamps.renew();
            for frame in &mut burst[before..] {
                let stamp_ns = &mut frame.descriptor_mut().stamp_ns;
                *stamp_ns = stamp_ns.map(|stamp_ns| self.socket.stamps.stamp_ns(stamp_ns));
            }
            return Ok(Received::Frames(burst.len() - before));
        }
        if !has_room {
            return Ok(Received::PoolEmpty);
        }
        self.socket.stamps.settle();
        let now_ns = monotonic_ns();
        if self
            .shut_ns
            .is_some_and(|shut_ns| now_ns > shut_ns + SHUT_NS)
        {
            self.ended = true;
            self.account();
            return Ok(Received::End);
        }
        if now_ns > self.looked_ns + LOOK_NS {
            self.looked_ns = now_ns;
            self.look_at_fault().inspect_err(|_| self.ended = true)?;
        }
        Ok(Received::Idle {
            until_ns: self.clock.now(),
        })
    }
}

/// A frame that was on its way to the ring when it was shut is there after this time.
const SHUT_NS: i64 = 2_000_000;
/// A port that is asked again and again does not look for faults each time.
const LOOK_NS: i64 = 1_000_000;

impl Port for PacketPort {
    fn facts(&self) -> Vec<&Facts> {
        self.socket.facts()
    }
}

impl Receive for PacketPort {
    fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        match self.ring {
            Frames::Blocks(_) => self.receive_blocks(burst, max),
            Frames::Slots(_) => self.receive_each(burst, max),
        }
    }

    fn leave(&mut self, ahead: &mut Burst) {
        self.socket.facts.take_back(ahead);
    }
}

impl Transmit for PacketPort {
    fn transmit(&mut self, burst: &mut Burst) -> Result<usize, PortError> {
        self.socket.transmit(burst)
    }

    fn reclaim(&mut self) -> usize {
        match &mut self.ring {
            Frames::Blocks(ring) => ring.give_back(),
            Frames::Slots(_) => 0,
        }
    }

    fn stamp_next(&mut self) -> bool {
        self.socket.stamp_next()
    }

    fn handed_over(&mut self) -> Option<Option<i64>> {
        self.socket.handed_over()
    }
}

impl Live for PacketPort {
    fn wake_on<'a>(&'a self, descriptors: &mut Vec<BorrowedFd<'a>>) {
        descriptors.push(self.socket.socket.as_fd());
    }

    fn backlog(&self) -> f32 {
        match &self.ring {
            Frames::Blocks(ring) => ring.backlog(),
            Frames::Slots(each) => each.backlog(),
        }
    }

    fn account(&mut self) {
        self.count_drops();
        let was_set = self.watch.was_set();
        let is_first = self.socket.live_mut().queue.is_none_or(|queue| queue == 0);
        let now = is_first.then(|| self.socket.interface.again().ok().flatten());
        let dropped = now.flatten();
        let dropped = dropped.map(|now| now.dropped.saturating_sub(self.socket.interface.dropped));
        let live = self.socket.live_mut();
        live.clock_steps += u64::from(was_set);
        if let Some(dropped) = dropped {
            live.dropped_interface = dropped;
        }
    }

    fn shut(&mut self) {
        const NOTHING: FilterInstruction = FilterInstruction {
            code: libc::BPF_RET as u16,
            jump_true: 0,
            jump_false: 0,
            operand: 0,
        };
        if self.shut_ns.is_none() {
            // If the kernel refused, frames would go on coming until the port is dropped: nothing
            // is lost by that.
            let _ = self.socket.attach(&[NOTHING]);
            self.shut_ns = Some(monotonic_ns());
        }
    }
}

impl Ring {
    fn new(
        socket: &PacketSocket,
        options: &LiveOptions,
        sockets: usize,
    ) -> Result<Self, PortError> {
        let name = || socket.interface.name.clone();
        let most = options.bytes_max / sockets / BLOCK_LEN;
        let count = most.clamp(BLOCKS_MIN, BLOCKS_MAX);
        let Some(memory) = options.budget.lease(count * BLOCK_LEN) else {
            return Err(PortError::Memory {
                name: name(),
                needed_bytes: count * BLOCK_LEN,
            });
        };
        let failed =
            |cause| PacketSocket::failure(&socket.interface, "make a packet ring for", cause);
        let version = libc::tpacket_versions::TPACKET_V3 as i32;
        socket.set(libc::PACKET_VERSION, &version).map_err(failed)?;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_LEN as u32,
            tp_block_nr: count as u32,
            // Version 3 packs frames closely; this only has to divide a block.
            tp_frame_size: 2048,
            tp_frame_nr: (count * (BLOCK_LEN / 2048)) as u32,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        socket.set(libc::PACKET_RX_RING, &request).map_err(failed)?;
        let len = count * BLOCK_LEN;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let mapping = Mapping::of(socket.socket.as_fd(), 0, len, access, MapFlags::SHARED);
        let mapping = mapping.map_err(|cause| failed(cause.into()))?;
        let start = mapping.start();
        let mapping: Arc<dyn Send + Sync> = Arc::new(mapping);
        Ok(Self {
            // SAFETY: the mapping lives as long as the slots; the kernel leaves a block alone from
            // the moment it sets its status to "user" until `give_back` sets it to "kernel".
            slots: unsafe { Slots::new(start, BLOCK_LEN, count, &mapping) },
            start,
            count,
            next: 0,
            open: None,
            held: Vec::with_capacity(count),
            has_asked: false,
            is_filtered: !options.filter.is_empty(),
            _memory: memory,
        })
    }

    /// The header of a block (`struct tpacket_block_desc`).
    fn block(&self, index: usize) -> *const libc::tpacket_block_desc {
        assert!(index < self.count, "a block of the ring");
        // SAFETY: the block lies within the mapping.
        unsafe { self.start.as_ptr().add(index * BLOCK_LEN).cast() }
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        let block = self.block(index);
        // SAFETY: the field is aligned, lives as long as the mapping, and is shared with the kernel
        // as an atomic.
        unsafe {
            let status = &raw const (*block).hdr.bh1.block_status;
            AtomicU32::from_ptr(status.cast_mut())
        }
    }

    /// The share of the blocks that the kernel has handed over and that were not read.
    fn backlog(&self) -> f32 {
        let is_waiting = |ahead: &usize| {
            let index = (self.next + ahead) % self.count;
            let status = self.status(index).load(Ordering::Relaxed);
            status & libc::TP_STATUS_USER != 0 && !self.held.contains(&index)
        };
        let waiting = (0..self.count).take_while(is_waiting).count();
        waiting as f32 / self.count as f32
    }

    /// Takes the next block, if the kernel has handed it over.
    fn take_block(&mut self) -> bool {
        let index = self.next;
        if self.held.contains(&index) {
            return false;
        }
        // Acquire: the frames were written before the status.
        let status = self.status(index).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return false;
        }
        let block = self.block(index);
        // SAFETY: the kernel has handed the block over, and writes it no more.
        let (first, frames_left) = unsafe {
            let header = &(*block).hdr.bh1;
            (header.offset_to_first_pkt as usize, header.num_pkts)
        };
        let mut writer = self.slots.writer(index).expect("it was the kernel's");
        writer.advance(BLOCK_LEN);
        self.next = (index + 1) % self.count;
        self.open = Some(OpenBlock {
            index,
            writer,
            taken: 0,
            header: first,
            frames_left,
        });
        true
    }

    /// Cuts frames off the open block until `burst` holds `len_max`.
    fn cut(&mut self, burst: &mut Burst, len_max: usize, link_type: LinkType, facts: &mut Facts) {
        let Some(open) = &mut self.open else { return };
        while open.frames_left > 0 && burst.len() < len_max {
            assert!(
                open.header.is_multiple_of(8)
                    && open.header + size_of::<libc::tpacket3_hdr>() <= BLOCK_LEN
                    && open.header >= open.taken,
                "a frame's header lies in its block, behind the frame before"
            );
            // SAFETY: the header lies within the block (asserted), which is this side's, behind
            // what was handed out.
            let header: libc::tpacket3_hdr = unsafe {
                let at = self
                    .start
                    .as_ptr()
                    .add(open.index * BLOCK_LEN + open.header);
                ptr::read(at.cast())
            };
            let mut begin = open.header + usize::from(header.tp_mac);
            let mut len = header.tp_snaplen as usize;
            let mut wire_len = header.tp_len;
            let tag = (header.tp_status & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
                let has_protocol = header.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
                let protocol = if has_protocol {
                    header.hv1.tp_vlan_tpid
                } else {
                    0x8100
                };
                (protocol, header.hv1.tp_vlan_tci as u16)
            });
            let tag = tag.filter(|_| link_type == LinkType::ETHERNET && len >= 12);
            if tag.is_some() {
                // Before the frame there is room: an address as long as Ethernet's header, and
                // padding.
                begin -= 4;
                len += 4;
                wire_len += 4;
            }
            facts.frames += 1;
            let stamp_ns = i64::from(header.tp_sec) * 1_000_000_000 + i64::from(header.tp_nsec);
            let descriptor = Descriptor {
                stamp_ns: Some(stamp_ns),
                wire_len,
                link_type,
                number: facts.frames,
                has_passed: self.is_filtered,
                ..Descriptor::default()
            };
            open.writer.skip(begin - open.taken);
            let mut frame = open.writer.take(len, descriptor);
            open.taken = begin + len;
            if let Some((protocol, tag)) = tag {
                let bytes = frame.bytes_mut();
                bytes.copy_within(4..16, 0);
                bytes[12..14].copy_from_slice(&protocol.to_be_bytes());
                bytes[14..16].copy_from_slice(&tag.to_be_bytes());
            }
            facts.bytes += u64::from(wire_len);
            burst.push(frame);
            open.header += header.tp_next_offset as usize;
            open.frames_left -= 1;
        }
        if open.frames_left == 0 {
            self.held.push(open.index);
            self.open = None;
        }
    }

    /// Gives blocks back to the kernel of which no frame lives; returns how many.
    fn give_back(&mut self) -> usize {
        let before = self.held.len();
        let mut at = 0;
        while let Some(&index) = self.held.get(at) {
            if self.slots.is_free(index) {
                // Release: what was read and written of the frames comes before.
                self.status(index)
                    .store(libc::TP_STATUS_KERNEL, Ordering::Release);
                self.held.swap_remove(at);
            } else {
                at += 1;
            }
        }
        let given_back = before - self.held.len();
        self.has_asked &= given_back == 0;
        given_back
    }

    /// Whether the block is held that the kernel would fill next.
    fn is_stopped(&self) -> bool {
        self.held.contains(&self.next)
    }

    /// Whether a block is held that the kernel comes to within half a turn: it fills blocks in
    /// turn, and one that it does not have stops it, however many others it has. Reported once for
    /// each state of things.
    fn is_short(&mut self) -> bool {
        let (next, count) = (self.next, self.count);
        let ahead = |index: &usize| (index + count - next) % count;
        let is_short = self.held.iter().map(ahead).any(|ahead| ahead < count / 2);
        is_short && !std::mem::replace(&mut self.has_asked, true)
    }
}
