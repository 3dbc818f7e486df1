//! A ring of slots, a frame in each, that the kernel fills (TPACKET_V2): handed over at once, where
//! blocks are handed over when they are full or old.
//!
//! Frames are copied out into blocks, and their slots go back at once: the kernel fills slots in
//! turn, so one frame that is held for long would stop it, and poll(2) takes a slot that was read
//! and not given back for one that has come.

use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use lineside_account::{Budget, Lease};
use lineside_frame::{BlockWriter, Burst, Descriptor, LinkType, Pool};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use super::mapping::Mapping;
use super::socket_options::set_option;
use crate::{BLOCK_LEN, Facts};

/// The kernel allocates slots in pieces of this: 64 pages, or more for a longer slot.
const PIECE_LEN: usize = 256 * 1024;
/// Slots at most: 16 ms at 0.5 million frames a second.
const SLOTS_MAX: usize = 8192;
/// Slots at least.
const SLOTS_MIN: usize = 64;
/// A slot's header, the address behind it, room for a tag and what the kernel aligns.
const HEADERS_LEN: usize = 128;
/// Where the address (`struct sockaddr_ll`) stands in a slot: behind `struct tpacket2_hdr`,
/// aligned.
const ADDRESS_AT: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);

/// The slots, and the blocks into which frames are copied.
pub(super) struct SlotRing {
    start: NonNull<u8>,
    slot_len: usize,
    count: usize,
    /// The slot that the kernel fills next.
    next: usize,
    pool: Pool,
    writer: Option<BlockWriter>,
    _mapping: Mapping,
    _memory: Lease,
}

// SAFETY: `start` points into the mapping, which belongs to no thread, and which lives as long.
unsafe impl Send for SlotRing {}

/// Why there is no ring.
pub(super) enum SlotRingError {
    /// So many bytes do not fit the budget.
    Memory(usize),
    Kernel(std::io::Error),
}

impl SlotRing {
    /// For frames of `frame_len` bytes; half of `bytes_max` for slots, and half for blocks.
    pub(super) fn new(
        socket: BorrowedFd<'_>,
        frame_len: usize,
        budget: &Budget,
        bytes_max: usize,
    ) -> Result<Self, SlotRingError> {
        let slot_len = (frame_len + HEADERS_LEN).next_power_of_two().max(2048);
        let piece_len = PIECE_LEN.max(slot_len);
        let count = (bytes_max / 2 / slot_len).clamp(SLOTS_MIN, SLOTS_MAX);
        let count = count.next_multiple_of(piece_len / slot_len);
        let len = count * slot_len;
        let memory = budget.lease(len).ok_or(SlotRingError::Memory(len))?;
        let blocks = (bytes_max / 2 / BLOCK_LEN).max(2);
        let pool = Pool::new(BLOCK_LEN, blocks, budget);
        let pool = pool.ok_or(SlotRingError::Memory(2 * BLOCK_LEN))?;
        let version = libc::tpacket_versions::TPACKET_V2 as i32;
        set_option(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)
            .map_err(SlotRingError::Kernel)?;
        let request = libc::tpacket_req {
            tp_block_size: piece_len as u32,
            tp_block_nr: (len / piece_len) as u32,
            tp_frame_size: slot_len as u32,
            tp_frame_nr: count as u32,
        };
        set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)
            .map_err(SlotRingError::Kernel)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        let mapping = Mapping::of(socket, 0, len, access, flags)
            .map_err(|errno: Errno| SlotRingError::Kernel(errno.into()))?;
        Ok(Self {
            start: mapping.start(),
            slot_len,
            count,
            next: 0,
            pool,
            writer: None,
            _mapping: mapping,
            _memory: memory,
        })
    }

    fn slot(&self, index: usize) -> *mut u8 {
        assert!(index < self.count, "a slot of the ring");
        // SAFETY: the slot lies within the mapping.
        unsafe { self.start.as_ptr().add(index * self.slot_len) }
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: the field is the slot's first, aligned, lives as long as the mapping, and is
        // shared with the kernel as an atomic.
        unsafe { AtomicU32::from_ptr(self.slot(index).cast()) }
    }

    /// Copies frames until `burst` holds `len_max`, or there are none, or, which is `false`, no
    /// block for the next.
    pub(super) fn take(
        &mut self,
        burst: &mut Burst,
        len_max: usize,
        link_type: LinkType,
        facts: &mut Facts,
    ) -> bool {
        while burst.len() < len_max {
            // Acquire: the frame was written before the status.
            if self.status(self.next).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                break;
            }
            if !self.copy(burst, link_type, facts) {
                return false;
            }
            // Release: what was read of the frame comes before.
            self.status(self.next)
                .store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % self.count;
        }
        true
    }

    fn copy(&mut self, burst: &mut Burst, link_type: LinkType, facts: &mut Facts) -> bool {
        let slot = self.slot(self.next);
        // SAFETY: the kernel has handed the slot over (as the status shows) and writes it no more;
        // header and address lie at its front.
        let (header, address) = unsafe {
            let header: libc::tpacket2_hdr = ptr::read(slot.cast());
            let address: libc::sockaddr_ll = ptr::read(slot.add(ADDRESS_AT).cast());
            (header, address)
        };
        if address.sll_pkttype == libc::PACKET_OUTGOING {
            // Old kernels cannot be asked to leave out what this host sends.
            return true;
        }
        let (begin, len) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        assert!(
            begin >= ADDRESS_AT && begin + len <= self.slot_len,
            "a frame lies in its slot, behind the header"
        );
        let tag = (header.tp_status & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
            let has_protocol = header.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let protocol = if has_protocol {
                header.tp_vlan_tpid
            } else {
                0x8100
            };
            [protocol.to_be_bytes(), header.tp_vlan_tci.to_be_bytes()]
        });
        let tag = tag.filter(|_| link_type == LinkType::ETHERNET && len >= ADDRESSES_LEN);
        let tag_len = if tag.is_some() { 4 } else { 0 };
        let has_room = { &mut self.writer }
            .as_mut()
            .is_some_and(|writer| writer.unfilled().len() >= len + tag_len);
        if !has_room {
            match self.pool.take() {
                Some(writer) => self.writer = Some(writer),
                None => return false,
            }
        }
        let writer = self.writer.as_mut().expect("it has room, or is new");
        // SAFETY: within the slot (asserted), which is this side's until its status is set.
        let bytes = unsafe { std::slice::from_raw_parts(slot.add(begin), len) };
        let out = &mut writer.unfilled()[..len + tag_len];
        match tag {
            None => out.copy_from_slice(bytes),
            Some(tag) => {
                let (addresses, rest) = bytes.split_at(ADDRESSES_LEN);
                out[..ADDRESSES_LEN].copy_from_slice(addresses);
                out[ADDRESSES_LEN..][..4].copy_from_slice(tag.as_flattened());
                out[ADDRESSES_LEN + 4..].copy_from_slice(rest);
            }
        }
        writer.advance(len + tag_len);
        facts.frames += 1;
        let wire_len = header.tp_len + tag_len as u32;
        facts.bytes += u64::from(wire_len);
        let descriptor = Descriptor {
            stamp_ns: Some(i64::from(header.tp_sec) * 1_000_000_000 + i64::from(header.tp_nsec)),
            wire_len,
            link_type,
            number: facts.frames,
            ..Descriptor::default()
        };
        burst.push(writer.take(len + tag_len, descriptor));
        true
    }

    /// The share of the slots that wait to be read: a look at 16 of them.
    pub(super) fn backlog(&self) -> f32 {
        const LOOKS: usize = 16;
        let is_waiting = |look: &usize| {
            let index = (self.next + look * self.count / LOOKS) % self.count;
            self.status(index).load(Ordering::Relaxed) & libc::TP_STATUS_USER != 0
        };
        (0..LOOKS).take_while(is_waiting).count() as f32 / LOOKS as f32
    }
}

/// Both addresses of Ethernet, before which nothing of a frame comes and behind which its tag does.
const ADDRESSES_LEN: usize = 12;
