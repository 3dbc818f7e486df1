//! The blocks that capture files are read into, shared by all files of a command.
//!
//! ```text
//!  reader ─ fills one block ─ cuts frames ─► held by whoever needs them
//!    │ full, and a frame of it is held                    │ dropped, or copied out
//!    ▼                                                    ▼
//!  resting: blocks that no reader fills ── take ──► free again, for any reader
//! ```
//!
//! * Each reader has one block reserved, and all of them together another one. So when no frame is
//!   held there is a block for whoever needs one: no reader waits for another.
//! * Of few files that are open each gets large blocks, of very many small ones: ten thousand that
//!   overlap in time fit into the memory of a hundred.
//! * A record longer than its reader's blocks is read in a longer one, which the reader then keeps.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lineside_account::{Budget, Lease};
use lineside_frame::BlockWriter;

use crate::{BLOCK_LEN, PortError};

/// Lengths of blocks, from a page on. The longest holds any record.
const LENS: [usize; 8] = [
    BLOCK_LEN >> 7,
    BLOCK_LEN >> 6,
    BLOCK_LEN >> 5,
    BLOCK_LEN >> 4,
    BLOCK_LEN >> 3,
    BLOCK_LEN >> 2,
    BLOCK_LEN >> 1,
    BLOCK_LEN,
];

/// The n-th file that is open at once gets blocks of the nth part of a share of the memory: so
/// 10,000 of them take about as much as there is, at the default budget.
const SHARE: usize = 8;

/// How much memory the frames of capture files may take. Clones of it are the same memory: all
/// files that are read at once should have one.
#[derive(Clone)]
pub struct PoolConfig {
    /// What it is drawn on.
    pub budget: Budget,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    bytes_max: usize,
    files_max: usize,
    /// Files that are open.
    files: usize,
    /// Of the blocks that belong to files which are open.
    reserved_bytes: usize,
    /// Of all blocks.
    made_bytes: usize,
    /// Blocks that no file is read into; frames of them may be held.
    resting: Vec<BlockWriter>,
    lease: Option<Lease>,
}

/// The block that a file is read into.
pub(crate) struct Filling {
    pool: PoolConfig,
    pub(crate) writer: BlockWriter,
    /// Bytes of a block that the file may rely on.
    reserved_bytes: usize,
    /// Bytes of blocks that suit the file.
    len: usize,
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Its first frame.
    Look,
    /// All of it, which is this many bytes as far as is known.
    Read(Option<u64>),
}

impl PoolConfig {
    /// At most `bytes_max` bytes of `budget`, in blocks of up to [`BLOCK_LEN`] bytes; more if each
    /// file that is open could not have one otherwise.
    pub fn new(budget: Budget, bytes_max: usize) -> Self {
        let bytes_max = bytes_max.min(budget.limit_bytes());
        Self {
            shared: Arc::new(Mutex::new(Shared {
                bytes_max,
                files_max: usize::MAX,
                files: 0,
                reserved_bytes: 0,
                made_bytes: 0,
                resting: Vec::new(),
                lease: budget.lease(0),
            })),
            budget,
        }
    }

    /// With at most this many files open at once.
    pub fn with_files_max(self, files_max: usize) -> Self {
        self.shared().files_max = files_max;
        self
    }

    /// Whether a file can be opened as things are; false if frames that are held must be copied out
    /// first.
    pub(crate) fn has_room(&self, purpose: Purpose) -> bool {
        let mut shared = self.shared();
        let len = shared.first_len(purpose);
        match shared.take(len) {
            Some(block) => {
                shared.resting.push(block);
                true
            }
            None => false,
        }
    }

    /// A block for a file called `name`.
    pub(crate) fn open(&self, name: &str, purpose: Purpose) -> Result<Filling, PortError> {
        let mut shared = self.shared();
        if shared.files >= shared.files_max {
            return Err(PortError::TooManyOpen {
                name: name.to_owned(),
                files_max: shared.files_max,
            });
        }
        let first_len = shared.first_len(purpose);
        let len = match purpose {
            Purpose::Look => first_len,
            Purpose::Read(_) => shared.len_by_share(),
        };
        shared.files += 1;
        let is_reserved = shared.reserve(0, first_len);
        let writer = match is_reserved {
            true => { shared.take(first_len) }.or_else(|| shared.make(first_len)),
            false => None,
        };
        let Some(writer) = writer else {
            shared.close(if is_reserved { first_len } else { 0 });
            return Err(no_memory(name, first_len + BLOCK_LEN));
        };
        drop(shared);
        Ok(Filling {
            pool: self.clone(),
            writer,
            reserved_bytes: first_len,
            len,
        })
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for PoolConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = self.shared();
        let (made, files) = (shared.made_bytes, shared.files);
        write!(f, "{made} bytes of blocks for {files} files")
    }
}

impl Filling {
    /// Makes room for `need` bytes in the block, counted from the first ready one, and for at least
    /// one more than is ready. False if all blocks are held.
    pub(crate) fn make_room(&mut self, need: usize, name: &str) -> Result<bool, PortError> {
        let needed = len_for(need.max(self.writer.ready().len() + 1));
        let mut len = needed.max(self.len);
        if self.writer.block_len() >= len && self.writer.restart() {
            return Ok(true);
        }
        let mut shared = self.pool.shared();
        if len > self.reserved_bytes {
            if shared.reserve(self.reserved_bytes, len) {
                self.reserved_bytes = len;
            } else if needed > self.reserved_bytes {
                return Err(no_memory(name, needed));
            } else {
                len = self.reserved_bytes;
            }
        }
        let Some(mut next) = shared.take(len) else {
            return Ok(false);
        };
        let ready = self.writer.ready();
        next.unfilled()[..ready.len()].copy_from_slice(ready);
        next.advance(ready.len());
        let full = std::mem::replace(&mut self.writer, next);
        shared.rest(full);
        Ok(true)
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        let mut shared = self.pool.shared();
        shared.rest(std::mem::replace(&mut self.writer, BlockWriter::alone(0)));
        shared.close(self.reserved_bytes);
    }
}

impl Shared {
    /// Bytes of blocks for one more file.
    fn len_by_share(&self) -> usize {
        let share = match self.files {
            // One to fill, and one whose frames are held.
            0 => self.bytes_max / 2,
            files => self.bytes_max / SHARE / (files + 1),
        };
        let fits = LENS.iter().rev().find(|&&len| len <= share);
        fits.copied().unwrap_or(LENS[0])
    }

    /// Of the first block of a file.
    fn first_len(&self, purpose: Purpose) -> usize {
        match purpose {
            Purpose::Look => LENS[0],
            Purpose::Read(None) => self.len_by_share(),
            Purpose::Read(Some(size)) => {
                let size = usize::try_from(size).unwrap_or(BLOCK_LEN);
                self.len_by_share().min(len_for(size))
            }
        }
    }

    /// Reserves `after` instead of `before` bytes for a file; false if the budget has no room.
    fn reserve(&mut self, before: usize, after: usize) -> bool {
        let reserved = self.reserved_bytes - before + after;
        let fits = self.draw(reserved + BLOCK_LEN);
        if fits {
            self.reserved_bytes = reserved;
        }
        fits
    }

    /// An unused block: another file's, or a new one.
    fn take(&mut self, len: usize) -> Option<BlockWriter> {
        // The last ones first: what was read into lately is still in the cache.
        let mut resting = self.resting.iter_mut();
        if let Some(place) = resting.rposition(|block| block.block_len() == len && block.restart())
        {
            return Some(self.resting.remove(place));
        }
        let fits = |shared: &Self| {
            let made = shared.made_bytes + len;
            made <= shared.bytes_max.max(shared.reserved_bytes + BLOCK_LEN)
        };
        if !fits(self) {
            let made_bytes = &mut self.made_bytes;
            self.resting.retain_mut(|block| {
                let is_free = block.restart();
                *made_bytes -= if is_free { block.block_len() } else { 0 };
                !is_free
            });
        }
        match fits(self) {
            true => self.make(len),
            false => None,
        }
    }

    /// A new block, if the budget has room.
    fn make(&mut self, len: usize) -> Option<BlockWriter> {
        if !self.draw(self.made_bytes + len) {
            return None;
        }
        self.made_bytes += len;
        Some(BlockWriter::alone(len))
    }

    /// Draws at least this many bytes of the budget.
    fn draw(&mut self, bytes: usize) -> bool {
        let lease = self.lease.as_mut();
        lease.is_some_and(|lease| bytes <= lease.bytes() || lease.resize(bytes))
    }

    /// No file is read into the block any more.
    fn rest(&mut self, mut block: BlockWriter) {
        block.skip(block.ready().len());
        self.resting.push(block);
    }

    /// A file for which so much was reserved is closed.
    fn close(&mut self, reserved_bytes: usize) {
        self.files -= 1;
        self.reserved_bytes -= reserved_bytes;
        let common = if self.files > 0 { BLOCK_LEN } else { 0 };
        let bytes = self.made_bytes.max(self.reserved_bytes + common);
        if let Some(lease) = &mut self.lease {
            lease.resize(bytes.min(lease.bytes()));
        }
    }
}

/// Of the shortest blocks that hold so much.
fn len_for(bytes: usize) -> usize {
    let fits = LENS.iter().find(|&&len| len >= bytes);
    fits.copied().unwrap_or(BLOCK_LEN)
}

fn no_memory(name: &str, needed_bytes: usize) -> PortError {
    PortError::Memory {
        name: name.to_owned(),
        needed_bytes,
    }
}
