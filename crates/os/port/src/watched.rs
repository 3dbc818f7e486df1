//! A capture file whose writer may come round and write it anew: a file of a ring.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use lineside_frame::Burst;
use twox_hash::XxHash3_64;

use crate::{CaptureReader, Facts, PoolConfig, PortError, Receive, Received};

/// Bytes by which a file is known: its header, of pcapng its interfaces, and the stamp of its first
/// frame, which no later round of the ring has again.
const BEGINNING_LEN: usize = 1024;

/// How a file begins: the length and the hash of its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    len: usize,
    hash: u64,
}

impl Mark {
    fn of(bytes: &[u8]) -> Self {
        Self {
            len: bytes.len(),
            hash: XxHash3_64::oneshot(bytes),
        }
    }

    /// Whether the file still begins so. It may have grown since; whoever writes it anew empties it
    /// first, and begins with another frame.
    fn stands(&mut self, file: &File) -> bool {
        let mut bytes = [0; BEGINNING_LEN];
        let mut len = 0;
        while len < bytes.len() {
            match file.read_at(&mut bytes[len..], len as u64) {
                Ok(0) => break,
                Ok(more) => len += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A pipe has no beginning to go back to.
                Err(_) => return true,
            }
        }
        let stands = len >= self.len && Self::of(&bytes[..self.len]) == *self;
        if stands && len > self.len {
            *self = Self::of(&bytes[..len]);
        }
        stands
    }
}

/// Reads such a file.
pub(crate) struct Watched {
    reader: CaptureReader,
    file: Arc<File>,
    mark: Mark,
}

/// What a call of [`Watched::receive`] found.
pub(crate) enum Read {
    /// As of any file.
    Frames(Received),
    /// It is written anew: what it held behind the frames received so far is lost.
    Overwritten,
}

impl Watched {
    /// Opens the file at `path` and reads its header.
    pub(crate) fn open(path: &Path, pool: &PoolConfig) -> Result<Self, PortError> {
        let file = Arc::new(CaptureReader::open_file(path)?);
        Self::open_as(file, path, pool, None, None)
    }

    /// Reads the first frame of a regular file of this many bytes, which is at `path`.
    pub(crate) fn look(
        file: Arc<File>,
        path: &Path,
        pool: &PoolConfig,
        len: u64,
    ) -> Result<Self, PortError> {
        Self::open_as(file, path, pool, Some(len), None)
    }

    /// Reads a file that began so, from its beginning; `None` if it does no more.
    pub(crate) fn read_again(
        file: Arc<File>,
        path: &Path,
        pool: &PoolConfig,
        mark: Mark,
    ) -> Result<Option<Self>, PortError> {
        let mut file = Self::open_as(file, path, pool, None, Some(mark))?;
        // What was read of it came before: it is of the file that began so.
        Ok(file.stands().then_some(file))
    }

    fn open_as(
        file: Arc<File>,
        path: &Path,
        pool: &PoolConfig,
        look_len: Option<u64>,
        mark: Option<Mark>,
    ) -> Result<Self, PortError> {
        let mark = mark.unwrap_or_else(|| {
            let mut mark = Mark::of(&[]);
            mark.stands(&file);
            mark
        });
        let name = path.display().to_string();
        let reader = CaptureReader::of_shared(&file, &name, pool, look_len)?;
        Ok(Self { reader, file, mark })
    }

    /// How the file begins.
    pub(crate) fn mark(&self) -> Mark {
        self.mark
    }

    /// Receives as the reader does. What was read before the beginning was found changed may be of
    /// either round, and is dropped: bytes that were read while the beginning stood, and only
    /// those, are of the round that it stands for.
    pub(crate) fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Read, PortError> {
        let (before, bytes) = (burst.len(), self.reader.own_facts().bytes);
        let received = self.reader.receive(burst, max);
        // Frames are delivered before the file is read on: those of a call that read are all of
        // what it read.
        let has_read = self.reader.own_facts().bytes > bytes || burst.len() == before;
        if has_read && !self.stands() {
            let mut suspect = burst.split_off(before);
            self.reader.own_facts_mut().take_back(&mut suspect);
            return Ok(Read::Overwritten);
        }
        received.map(Read::Frames)
    }

    /// Whether the file is still the one that was opened.
    fn stands(&mut self) -> bool {
        self.mark.stands(&self.file)
    }

    pub(crate) fn reader(&self) -> &CaptureReader {
        &self.reader
    }

    pub(crate) fn reader_mut(&mut self) -> &mut CaptureReader {
        &mut self.reader
    }

    pub(crate) fn facts(&self) -> &Facts {
        self.reader.own_facts()
    }
}

/// A sentence about frames that nobody read, or of which that is not known.
pub(crate) fn lost(what: &str, since_ns: i64, until_ns: Option<i64>) -> String {
    let time = |ns: i64| {
        jiff::Timestamp::from_nanosecond(ns.into())
            .map_or_else(|_| format!("{ns} ns"), |at| format!("{at:.6}"))
    };
    let since = match since_ns {
        i64::MIN => String::new(),
        since_ns => format!(" after {}", time(since_ns)),
    };
    let until = until_ns.map_or_else(String::new, |until_ns| {
        format!(" before {}", time(until_ns))
    });
    match (since.is_empty(), until.is_empty()) {
        (true, true) => format!("{what}: its frames may be lost"),
        _ => format!("{what}: frames{since}{until} may be lost"),
    }
}
