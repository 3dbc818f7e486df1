//! Blocks of memory, frames cut from them, and counted references to frames. A block is used again
//! when its last frame or reference is dropped; who fills it, a file or a kernel's ring, is not
//! known here.

mod alone;
mod burst;
mod copies;
mod cutter;
mod home;
mod len;
mod slots;
mod split;

use std::cell::Cell;
use std::fmt;
use std::ops::{Deref, Range};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use lineside_account::{Budget, Lease};

pub use burst::{Burst, SharedBurst};
pub use copies::Copies;
pub use cutter::Cutter;
use home::Place;
use len::Len;
pub use slots::Slots;

/// What a port says of a frame. Fixed size, copied with the handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Descriptor {
    /// When the frame arrived, by the clock of its input: nanoseconds since the Unix epoch.
    /// `None`: the input gave none, or one that does not fit.
    pub stamp_ns: Option<i64>,
    /// Bytes on the wire; more than the frame holds if a snap length cut it.
    pub wire_len: u32,
    /// What the first byte is.
    pub link_type: LinkType,
    /// Which input (its place on the command line).
    pub input: u16,
    /// Which interface of the input, if that is a file that describes several: its place among
    /// them, [`NO_INTERFACE`](Self::NO_INTERFACE) beyond those that are known.
    pub interface: u16,
    /// The frame's number within its input, from 1, as tshark counts.
    pub number: u64,
    /// The frame's number in the merged sequence of all inputs, from 1: the base of ids.
    pub ordinal: u64,
    /// Its recorder marks it as damaged: what its bytes say does not hold.
    pub damaged: bool,
    /// It passed the filter of its port, which the kernel ran: nobody has to run it again.
    pub has_passed: bool,
    /// Its TCP or UDP checksum is the sum of the pseudo-header, as a sender leaves it to its
    /// adapter: a live port that sends it has it finished.
    pub partial_checksum: bool,
}

impl Descriptor {
    /// An interface of which nothing is known.
    pub const NO_INTERFACE: u16 = u16::MAX;
}

/// How a frame begins: the LINKTYPE_ value of a capture file
/// (<https://www.tcpdump.org/linktypes.html>).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: the address family in the byte order of the capturing host.
    pub const NULL: Self = Self(0);
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// Raw IP, by the first nibble; 12 and 14 are older numbers of the same.
    pub const RAW: Self = Self(101);
    /// OpenBSD loopback: the address family in network byte order.
    pub const LOOP: Self = Self(108);
    /// Linux cooked capture.
    pub const LINUX_SLL: Self = Self(113);
    /// Raw IPv4.
    pub const IPV4: Self = Self(228);
    /// Raw IPv6.
    pub const IPV6: Self = Self(229);
    /// Linux cooked capture, version 2.
    pub const LINUX_SLL2: Self = Self(276);
}

struct Block {
    /// How many [`BlockRef`]s there are, and references that threads hold [back](Spare).
    references: AtomicUsize,
    start: NonNull<u8>,
    len: usize,
    /// Where it goes once nothing but its owner refers to it; without one the owner looks.
    place: Option<Place>,
    /// What keeps `start..start + len` in place.
    memory: Memory,
}

enum Memory {
    Own(#[expect(dead_code, reason = "held for its drop")] OwnBytes),
    Mapped(#[expect(dead_code, reason = "held for its drop")] Arc<dyn Send + Sync>),
    /// That of a frame's head, in front of a rest that lies elsewhere.
    Joint(split::Joint),
    /// What it was is given up, and the block is kept for the next joint.
    Gone,
}

/// A boxed slice that is reached through a pointer only.
struct OwnBytes(NonNull<[u8]>);

impl Drop for OwnBytes {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Box::into_raw` in `Block::own`, and nothing refers to it
        // any more.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

// SAFETY: the bytes are reached only through `BlockWriter`, `Frame` and `FrameRef`. `BlockWriter`
// touches the part behind what it handed out; each `Frame` touches its own part, and parts never
// overlap because `BlockWriter::take` only moves forward; `FrameRef` only reads a part whose
// `Frame` was consumed. So no two threads reach the same byte unless all of them read.
// JUSTIFICATION: handing out disjoint mutable parts of one allocation that is recycled as a whole
// has no safe form that keeps the count per block instead of per frame.
unsafe impl Sync for Block {}
// SAFETY: the memory belongs to no thread: a box, or a mapping whose owner is `Send`.
unsafe impl Send for Block {}

impl Block {
    fn own(bytes: Box<[u8]>, place: Option<Place>) -> BlockRef {
        let len = bytes.len();
        let bytes = NonNull::from(Box::leak(bytes));
        BlockRef::new(bytes.cast(), len, Memory::Own(OwnBytes(bytes)), place)
    }

    /// # Safety
    /// No one may write to `start..start + len` while the slice lives.
    #[inline]
    unsafe fn part(&self, start: usize, len: usize) -> &[u8] {
        debug_assert!(start + len <= self.len);
        // SAFETY: the range lies within the block (asserted, and every caller took it from there).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(start), len) }
    }

    /// # Safety
    /// No one else may read or write `start..start + len` while the slice lives.
    #[expect(
        clippy::mut_from_ref,
        reason = "exclusive parts of one shared block are the point"
    )]
    #[inline]
    unsafe fn part_mut(&self, start: usize, len: usize) -> &mut [u8] {
        debug_assert!(start + len <= self.len);
        // SAFETY: the range lies within the block; exclusiveness is the caller's duty.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(start), len) }
    }
}

/// A counted reference to a block, as an `Arc` is one, but for the references that a thread [holds
/// back](Spare).
struct BlockRef(NonNull<Block>);

/// References to one block that a thread let go but did not give back yet: the next ones that it
/// needs are taken from here. Frames come and go in bursts that lie in one block, so that a burst
/// costs an atomic operation or two, where each of its frames would cost two, on a cache line that
/// several cores want.
struct Spare {
    /// Null if there is none.
    block: Cell<*const Block>,
    count: Cell<usize>,
}

thread_local! {
    static SPARE: Spare = const {
        Spare {
            block: Cell::new(ptr::null()),
            count: Cell::new(0),
        }
    };
}

/// Gives back what this thread holds back of references to frames that it let go, so that the port
/// that brought them may use their memory again. To be called by a thread other than the port's
/// after each burst of frames.
pub fn give_back() {
    // A thread that ends has given back.
    let _ = SPARE.try_with(Spare::give_back);
}

impl Spare {
    /// Takes a reference to `block` out, if there is one.
    #[inline]
    fn take(&self, block: NonNull<Block>) -> bool {
        let is_there = self.block.get() == block.as_ptr() && self.count.get() > 0;
        if is_there {
            self.count.set(self.count.get() - 1);
        }
        is_there
    }

    /// Holds references to `block` back, and gives those to another one back.
    #[inline]
    fn put(&self, block: NonNull<Block>, count: usize) {
        if self.block.get() != block.as_ptr() {
            self.give_back();
            self.block.set(block.as_ptr());
        }
        self.count.set(self.count.get() + count);
    }

    /// A block that ends may refer to others, which are then held back in turn.
    fn give_back(&self) {
        while let Some(block) = NonNull::new(self.block.replace(ptr::null()).cast_mut()) {
            let count = self.count.take();
            if count > 0 {
                // SAFETY: the references were put here and are given up.
                unsafe { BlockRef::release(block, count) };
            }
        }
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.give_back();
    }
}

// SAFETY: a counted reference to what is `Sync` and `Send`.
unsafe impl Send for BlockRef {}
// SAFETY: as above.
unsafe impl Sync for BlockRef {}

impl BlockRef {
    fn new(start: NonNull<u8>, len: usize, memory: Memory, place: Option<Place>) -> Self {
        let block = Box::new(Block {
            references: AtomicUsize::new(1),
            start,
            len,
            place,
            memory,
        });
        Self(NonNull::from(Box::leak(block)))
    }

    /// Whether it is the only one. What was done through the others comes before. Counts those that
    /// other threads hold back.
    #[inline]
    fn is_only(&self) -> bool {
        // Acquire, the release of the others: what was done with the frames comes before.
        self.references.load(Ordering::Acquire) == 1
    }

    /// # Safety
    /// The caller owns this many references to the block, and gives them up.
    #[inline]
    unsafe fn give_up(block: NonNull<Block>, count: usize) {
        if SPARE.try_with(|spare| spare.put(block, count)).is_err() {
            // SAFETY: as the caller vouches.
            unsafe { Self::release(block, count) };
        }
    }

    /// # Safety
    /// The caller owns this many references to the block, and gives them up.
    unsafe fn release(block: NonNull<Block>, count: usize) {
        // SAFETY: the references keep it alive.
        let counted = unsafe { block.as_ref() };
        if let Some(place) = &counted.place
            && place.release(&counted.references, count)
        {
            return;
        }
        let before = counted.references.fetch_sub(count, Ordering::Release);
        debug_assert!(before >= count, "more references given up than there are");
        if before == count {
            fence(Ordering::Acquire);
            // SAFETY: it came from a box, and these were the last references.
            split::end(unsafe { Box::from_raw(block.as_ptr()) });
        }
    }
}

impl Deref for BlockRef {
    type Target = Block;

    #[inline]
    fn deref(&self) -> &Block {
        // SAFETY: the reference keeps it alive.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for BlockRef {
    #[inline]
    fn clone(&self) -> Self {
        if !SPARE.try_with(|spare| spare.take(self.0)).unwrap_or(false) {
            self.references.fetch_add(1, Ordering::Relaxed);
        }
        Self(self.0)
    }
}

impl Drop for BlockRef {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this reference is given up.
        unsafe { Self::give_up(self.0, 1) };
    }
}

/// Blocks of equal size: allocated on first use, reused as soon as nothing refers to them.
pub struct Pool {
    blocks: Vec<BlockRef>,
    block_len: usize,
    blocks_max: usize,
    lease: Lease,
}

impl Pool {
    /// A pool of at most `blocks_max` blocks of `block_len` bytes, drawn on `budget` as they are
    /// first used. `None` if not even two blocks fit: one to fill and one that is still in use.
    pub fn new(block_len: usize, blocks_max: usize, budget: &Budget) -> Option<Self> {
        let lease = budget.lease(2 * block_len)?;
        Some(Self {
            blocks: Vec::with_capacity(blocks_max),
            block_len,
            blocks_max,
            lease,
        })
    }

    /// An unused block, or `None`: then holders must [spill](crate::Range::spill) first.
    pub fn take(&mut self) -> Option<BlockWriter> {
        give_back();
        // The first ones first: what was read into lately is still in the cache.
        if let Some(block) = self.blocks.iter().find(|block| block.is_only()) {
            return Some(BlockWriter::new(block.clone()));
        }
        let grown = (self.blocks.len() + 1).max(2) * self.block_len;
        if self.blocks.len() >= self.blocks_max || !self.lease.resize(grown) {
            return None;
        }
        let block = Block::own(vec![0; self.block_len].into(), None);
        self.blocks.push(block.clone());
        Some(BlockWriter::new(block))
    }

    /// Bytes of a block: no frame can be longer.
    pub fn block_len(&self) -> usize {
        self.block_len
    }
}

/// The one writer of a block: a port fills it and cuts frames off its front.
///
/// ```text
///  0 ........ taken ........ filled ........ len
///  frames handed out | ready() | unfilled()
/// ```
pub struct BlockWriter {
    block: BlockRef,
    taken: usize,
    filled: usize,
    /// References to the block that are counted, and that no frame has yet.
    ahead: usize,
}

impl BlockWriter {
    /// References that are counted at once: a burst's frames or so.
    const AT_ONCE: usize = 256;

    fn new(block: BlockRef) -> Self {
        Self {
            block,
            taken: 0,
            filled: 0,
            ahead: 0,
        }
    }

    /// Room behind what is filled.
    pub fn unfilled(&mut self) -> &mut [u8] {
        // SAFETY: frames lie before `taken` <= `filled`, and this is the only writer.
        unsafe {
            self.block
                .part_mut(self.filled, self.block.len - self.filled)
        }
    }

    /// The first `len` bytes of [`unfilled`](Self::unfilled) were written.
    pub fn advance(&mut self, len: usize) {
        assert!(
            len <= self.block.len - self.filled,
            "advanced past the block"
        );
        self.filled += len;
    }

    /// What is filled and not yet handed out.
    #[inline]
    pub fn ready(&self) -> &[u8] {
        // SAFETY: `taken..filled` belongs to this writer, which `&self` keeps from writing.
        unsafe { self.block.part(self.taken, self.filled - self.taken) }
    }

    /// Drops `len` ready bytes: file headers, padding.
    #[inline]
    pub fn skip(&mut self, len: usize) {
        assert!(
            len <= self.filled - self.taken,
            "skipped more than is ready"
        );
        self.taken += len;
    }

    /// Hands out the first `len` ready bytes as a frame.
    #[inline]
    pub fn take(&mut self, len: usize, descriptor: Descriptor) -> Frame {
        self.cut(0..len, len, descriptor)
    }

    /// Hands out `frame` of the first `len` ready bytes, and drops the others.
    #[inline]
    pub fn cut(&mut self, frame: Range<usize>, len: usize, descriptor: Descriptor) -> Frame {
        let start = self.taken + frame.start;
        assert!(
            frame.start <= frame.end && frame.end <= len,
            "a frame lies within what is cut off"
        );
        self.skip(len);
        if self.ahead == 0 {
            self.count_ahead();
        }
        self.ahead -= 1;
        Frame::of(FrameRef {
            block: BlockRef(self.block.0),
            start: start as u32,
            len: Len::new(frame.len()),
            descriptor,
        })
    }

    #[cold]
    fn count_ahead(&mut self) {
        let references = &self.block.references;
        references.fetch_add(Self::AT_ONCE, Ordering::Relaxed);
        self.ahead = Self::AT_ONCE;
    }

    /// Copies what is ready into `next`, an unused block, and goes on there.
    pub fn move_to(&mut self, mut next: Self) {
        let ready = self.ready();
        let len = ready.len();
        next.unfilled()[..len].copy_from_slice(ready);
        next.advance(len);
        *self = next;
    }
}

impl Drop for BlockWriter {
    fn drop(&mut self) {
        // SAFETY: those that were counted ahead and that no frame got.
        unsafe { BlockRef::give_up(self.block.0, self.ahead) };
    }
}

/// The exclusive, mutable handle of a frame's bytes; or one of [several](Self::another) of the same
/// bytes, which gets bytes of its own before it changes them.
#[derive(Debug)]
pub struct Frame {
    bytes: FrameRef,
}

impl Frame {
    /// A frame in memory of its own, outside any pool: for tests and tools that build frames.
    pub fn copied(bytes: &[u8], descriptor: Descriptor) -> Self {
        Self::of(FrameRef {
            block: Block::own(bytes.into(), None),
            start: 0,
            len: Len::new(bytes.len()),
            descriptor,
        })
    }

    #[inline]
    fn of(bytes: FrameRef) -> Self {
        Self { bytes }
    }

    /// The bytes, to change them. A frame that has [others](Self::another) gets a copy of its own,
    /// outside any pool.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if self.bytes.len.is_shared() {
            self.leave_others();
        }
        let FrameRef {
            block, start, len, ..
        } = &self.bytes;
        // SAFETY: this is the only handle of the range: `share` consumes it, and `another` marks
        // both of its handles; one that was marked has got memory of its own above.
        unsafe { block.part_mut(*start as usize, len.bytes()) }
    }

    #[cold]
    fn leave_others(&mut self) {
        let copy = Self::copied(self.bytes(), *self.descriptor());
        *self = copy.joined(self.bytes.rest_part().cloned());
    }

    /// Another frame of the same bytes, which are not copied until one of both is to be changed. It
    /// goes its own way, and the memory is free when both are dropped.
    #[inline]
    pub fn another(&mut self) -> Self {
        self.bytes.len.share();
        Self {
            bytes: self.bytes.clone(),
        }
    }

    /// Whether there may be [others](Self::another) that have these bytes, or a
    /// [rest](FrameRef::rest) of them.
    #[inline]
    pub fn has_others(&self) -> bool {
        self.bytes.len.is_shared()
    }

    /// What the port recorded of it.
    #[inline]
    pub fn descriptor_mut(&mut self) -> &mut Descriptor {
        &mut self.bytes.descriptor
    }

    /// Gives up the right to write, for references that can be counted.
    #[inline]
    pub fn share(self) -> FrameRef {
        self.bytes
    }
}

impl Deref for Frame {
    type Target = FrameRef;

    fn deref(&self) -> &FrameRef {
        &self.bytes
    }
}

/// A counted, read-only reference to a frame's bytes.
#[derive(Clone)]
pub struct FrameRef {
    block: BlockRef,
    start: u32,
    len: Len,
    descriptor: Descriptor,
}

impl FrameRef {
    /// The bytes kept of the frame.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: a `FrameRef` outside a `Frame` means that the `Frame` was consumed; inside one,
        // `Frame::bytes_mut` takes `&mut self`, so no slice of ours can be alive beside it. Of
        // several frames with the same bytes none writes to them.
        unsafe { self.block.part(self.start as usize, self.len.bytes()) }
    }

    /// What the port recorded of it.
    #[inline]
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// `len` of its bytes from `offset`.
    pub(crate) fn part(&self, offset: usize, len: usize) -> Part {
        let whole = Part {
            block: self.block.clone(),
            start: self.start,
            len: self.len.bytes() as u32,
        };
        whole.within(offset, len)
    }
}

/// A counted, read-only reference to some of a frame's bytes, without what the port recorded of the
/// frame: many are held at once, and moved.
#[derive(Clone)]
pub(crate) struct Part {
    block: BlockRef,
    start: u32,
    len: u32,
}

impl Part {
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: it comes of a `FrameRef`, which may read these bytes.
        unsafe { self.block.part(self.start as usize, self.len as usize) }
    }

    /// `len` of its bytes from `offset`.
    pub(crate) fn within(mut self, offset: usize, len: usize) -> Self {
        assert!(
            offset + len <= self.len as usize,
            "a part lies within its frame"
        );
        (self.start, self.len) = (self.start + offset as u32, len as u32);
        self
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Part of {} bytes", self.len)
    }
}

impl fmt::Debug for FrameRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameRef")
            .field("len", &self.len.bytes())
            .field("descriptor", &self.descriptor)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(number: u64) -> Descriptor {
        Descriptor {
            number,
            ..Descriptor::default()
        }
    }

    #[test]
    fn frames_of_a_block_are_disjoint_and_the_block_comes_back() {
        let budget = Budget::new(64);
        let mut pool = Pool::new(16, 4, &budget).expect("fits");
        let mut writer = pool.take().expect("unused");
        writer.unfilled()[..10].copy_from_slice(b"0123456789");
        writer.advance(10);
        writer.skip(1);
        let mut first = writer.take(3, descriptor(1));
        let second = writer.take(4, descriptor(2));
        first.bytes_mut()[0] = b'x';
        assert_eq!(first.bytes(), b"x23");
        assert_eq!(second.bytes(), b"4567");

        let next = pool.take().expect("a second block");
        writer.move_to(next);
        assert_eq!(writer.ready(), b"89");
        let kept = second.share();
        drop(first);
        let mut others: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(others.len(), 2, "the kept frame pins its block");
        drop(kept);
        others.push(pool.take().expect("unpinned"));
        assert!(pool.take().is_none());
        assert_eq!(budget.used_bytes(), 64);
    }

    #[test]
    fn a_frame_that_others_share_is_copied_when_it_is_changed() {
        let mut pool = Pool::new(16, 2, &Budget::new(32)).expect("fits");
        let mut writer = pool.take().expect("unused");
        writer.unfilled()[..8].copy_from_slice(b"12345678");
        writer.advance(8);
        let mut one = writer.take(4, descriptor(1));
        let mut beside = writer.take(4, descriptor(2));
        let mut two = one.another();
        let mut three = two.another();
        two.descriptor_mut().number = 7;
        three.truncate(2);
        let place = one.bytes().as_ptr();
        assert_eq!(
            (two.bytes().as_ptr(), three.bytes().as_ptr()),
            (place, place)
        );
        two.bytes_mut()[0] = b'x';
        beside.bytes_mut()[0] = b'y';
        assert_eq!((one.bytes(), two.bytes()), (&b"1234"[..], &b"x234"[..]));
        assert_eq!((three.bytes(), beside.bytes()), (&b"12"[..], &b"y678"[..]));
        assert_eq!((one.descriptor().number, two.descriptor().number), (1, 7));
        three.bytes_mut()[1] = b'z';
        assert_eq!((one.bytes(), three.bytes()), (&b"1234"[..], &b"1z"[..]));
        let place = two.bytes().as_ptr();
        two.bytes_mut()[1] = b'w';
        assert_eq!(two.bytes().as_ptr(), place, "its own by now");
    }

    /// The end of a thread, here of a test's, gives back, too.
    #[test]
    fn another_thread_holds_a_block_back_until_it_gives_back() {
        let mut pool = Pool::new(16, 2, &Budget::new(32)).expect("fits");
        let mut writer = pool.take().expect("unused");
        writer.advance(16);
        let frames: Vec<_> = (1..=4)
            .map(|number| writer.take(4, descriptor(number)))
            .collect();
        drop(writer);
        let _other = pool.take().expect("a second block");
        assert!(pool.take().is_none(), "frames of the first one live");
        let pool = std::thread::scope(|scope| {
            let work = scope.spawn(move || {
                let shared: Vec<_> = frames.into_iter().map(Frame::share).collect();
                let copies = shared.clone();
                drop(shared);
                drop(copies);
                assert!(
                    pool.take().is_some(),
                    "the caller has given its blocks back"
                );
                pool
            });
            work.join().expect("no panic")
        });
        let mut pool = pool;
        let mut writer = pool.take().expect("nothing lives");
        writer.advance(4);
        let frame = writer.take(4, descriptor(5));
        drop(writer);
        let (drop_it, is_dropped) = std::sync::mpsc::channel();
        let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                drop(frame);
                drop_it.send("dropped").expect("heard");
                goes_on.recv().expect("signalled");
                give_back();
                drop_it.send("given back").expect("heard");
                goes_on.recv().expect("signalled");
            });
            assert_eq!(is_dropped.recv(), Ok("dropped"));
            assert!(pool.take().is_none(), "held back by the other thread");
            go_on.send(()).expect("heard");
            assert_eq!(is_dropped.recv(), Ok("given back"));
            assert!(pool.take().is_some());
            go_on.send(()).expect("heard");
        });
    }

    #[test]
    fn a_block_outlives_its_pool_and_goes_with_its_last_frame() {
        let memory: Arc<dyn Send + Sync> = Arc::new(());
        let mut bytes = *b"abcdefgh";
        let start = NonNull::from(&mut bytes).cast();
        // SAFETY: `bytes` outlives the slots, and is not touched beside them.
        let mut slots = unsafe { Slots::new(start, 8, 1, &memory) };
        let frame = slots.frame(0, 2..4, descriptor(1)).expect("free").share();
        drop(slots);
        assert_eq!((frame.bytes(), Arc::strong_count(&memory)), (&b"cd"[..], 2));
        drop(frame);
        give_back();
        assert_eq!(Arc::strong_count(&memory), 1);
    }

    #[test]
    fn a_slot_is_free_when_its_frames_are_gone() {
        let mut memory = vec![0_u8; 32].into_boxed_slice();
        let start = NonNull::new(memory.as_mut_ptr()).expect("not null");
        let owner: Arc<dyn Send + Sync> = Arc::new(());
        // SAFETY: `memory` outlives the slots, and is not touched beside them.
        let mut slots = unsafe { Slots::new(start, 16, 2, &owner) };
        let mut writer = slots.writer(1).expect("free");
        writer.unfilled()[..4].copy_from_slice(b"abcd");
        writer.advance(4);
        let frame = writer.take(4, descriptor(1));
        drop(writer);
        assert!(slots.writer(1).is_none(), "its frame lives");
        assert!(slots.is_free(0));
        let shared = frame.share();
        assert_eq!(shared.bytes(), b"abcd");
        drop(shared);
        assert!(slots.is_free(1));

        slots.bytes_mut(1).expect("free")[..2].copy_from_slice(b"xy");
        let mut frame = slots.frame(1, 1..3, descriptor(3)).expect("free");
        assert_eq!(frame.bytes(), b"yc");
        frame.bytes_mut()[1] = b'z';
        assert!(slots.bytes_mut(1).is_none(), "its frame lives");
        assert!(slots.frame(1, 0..1, descriptor(4)).is_none());
        drop(frame);
        assert!(slots.is_free(1));
        drop(slots);
        assert_eq!(&memory[16..20], b"xyzd");
    }

    #[test]
    fn a_pool_that_does_not_fit_is_refused() {
        assert!(Pool::new(16, 4, &Budget::new(31)).is_none());
        let mut pool = Pool::new(16, 4, &Budget::new(40)).expect("two fit");
        let _held = (pool.take().expect("one"), pool.take().expect("two"));
        assert!(pool.take().is_none(), "the budget is spent");
    }
}
