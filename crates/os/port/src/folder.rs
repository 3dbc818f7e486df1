//! Capture files that are parts of one capture: rotated by tcpdump (`-C`, `-G`, `-W`) or dumpcap
//! (`-b`). Of many files only those are open whose time has come.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Seek};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lineside_frame::Burst;

use crate::blocks::Purpose;
use crate::watched::{Mark, Read, Watched, lost};
use crate::{CaptureReader, Facts, PoolConfig, Port, PortError, Receive, Received};

/// A file of a folder, or one of several that were named: opened when its turn comes and closed at
/// its end.
pub struct FolderFile {
    path: PathBuf,
    /// Where it must stay open, since nobody may open it later.
    held: Option<Arc<File>>,
    pool: PoolConfig,
    first_ns: i64,
    /// The latest that was received.
    last_ns: i64,
    mark: Mark,
    /// Boxed, since most files of many are not open.
    reader: Option<Box<Watched>>,
    ended: bool,
    pub(crate) is_compressed: bool,
    /// As of when it was listed, then as of its end.
    facts: Facts,
}

/// The capture files of a folder, by the stamps of their first frames, of equal ones by their
/// names, in which 10 comes behind
/// 9. A file that is no capture, or not yet one, is left out and reported with the reason.
pub fn list(folder: &Path, pool: &PoolConfig) -> Result<(Vec<FolderFile>, Vec<String>), PortError> {
    let files = paths(folder)?.into_iter().map(|path| (path, None));
    list_held(folder, files, pool)
}

/// As [`list`], of a folder whose files are known, and of which some may have been opened before.
pub fn list_held(
    folder: &Path,
    found: impl Iterator<Item = (PathBuf, Option<File>)>,
    pool: &PoolConfig,
) -> Result<(Vec<FolderFile>, Vec<String>), PortError> {
    let (mut files, mut left_out) = (Vec::new(), Vec::new());
    for (path, held) in found {
        match FolderFile::look(&path, held, pool) {
            Ok(file) => files.push(file),
            Err(
                error @ (PortError::Foreign { .. }
                | PortError::HeaderCut { .. }
                | PortError::Empty { .. }
                | PortError::Folder { .. }
                | PortError::NoFile { .. }),
            ) => left_out.push(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    files.sort_by_cached_key(|file| (file.first_ns, natural(file.path.as_os_str())));
    if files.is_empty() {
        return Err(PortError::NoCaptures {
            name: folder.display().to_string(),
        });
    }
    Ok((files, left_out))
}

/// What lies in a folder, by its names.
pub fn paths(folder: &Path) -> Result<Vec<PathBuf>, PortError> {
    let entries = std::fs::read_dir(folder);
    let paths = entries.and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut paths: Vec<PathBuf> = paths.map_err(|cause| PortError::Open {
        name: folder.display().to_string(),
        cause,
    })?;
    paths.sort();
    Ok(paths)
}

/// A name in which numbers compare as numbers: text, number, text, number and so on.
pub(crate) fn natural(name: &OsStr) -> Vec<(Vec<u8>, u128)> {
    let mut parts: Vec<(Vec<u8>, u128)> = vec![Default::default()];
    let mut is_number = false;
    for &byte in name.as_encoded_bytes() {
        if is_number && !byte.is_ascii_digit() {
            parts.push(Default::default());
        }
        is_number = byte.is_ascii_digit();
        let Some((text, number)) = parts.last_mut() else {
            continue;
        };
        match is_number {
            true => {
                *number = number
                    .saturating_mul(10)
                    .saturating_add((byte - b'0').into())
            }
            false => text.push(byte),
        }
    }
    parts
}

impl FolderFile {
    /// Reads the first frame of a file, which is then closed until its turn comes; `held` is the
    /// file where it was opened before, and stays open.
    pub fn look(path: &Path, held: Option<File>, pool: &PoolConfig) -> Result<Self, PortError> {
        let name = || path.display().to_string();
        let facts = match &held {
            Some(file) => file.metadata(),
            None => path.metadata(),
        };
        let facts = facts.map_err(|cause| {
            let name = name();
            PortError::Open { name, cause }
        })?;
        // A FIFO that nobody writes would hold up the whole folder, and a device never ends.
        match facts.is_dir() {
            true => Err(PortError::Folder { name: name() }),
            false if !facts.is_file() => Err(PortError::NoFile { name: name() }),
            false => Self::begin(path, held.map(Arc::new), pool, facts.len()),
        }
    }

    /// Reads the first frame of a regular file of `len` bytes, which is then closed until its turn
    /// comes. An error behind the file's header is one of its turn.
    pub fn new(path: &Path, pool: &PoolConfig, len: u64) -> Result<Self, PortError> {
        Self::begin(path, None, pool, len)
    }

    fn begin(
        path: &Path,
        held: Option<Arc<File>>,
        pool: &PoolConfig,
        len: u64,
    ) -> Result<Self, PortError> {
        let file = match &held {
            Some(file) => Arc::clone(file),
            None => Arc::new(CaptureReader::open_file(path)?),
        };
        let mut file = Watched::look(file, path, pool, len)?;
        let reader = file.reader_mut();
        let mut burst = Burst::new();
        // The error comes again.
        let _ = reader.receive(&mut burst, 1);
        let first = burst.first().and_then(|frame| frame.descriptor().stamp_ns);
        let facts = reader.own_facts().clone();
        Ok(Self {
            path: path.to_owned(),
            held,
            pool: pool.clone(),
            first_ns: first.unwrap_or(i64::MIN),
            last_ns: i64::MIN,
            mark: file.mark(),
            reader: None,
            ended: false,
            is_compressed: file.reader().is_compressed(),
            facts: Facts {
                frames: 0,
                bytes: 0,
                warnings: Vec::new(),
                ..facts
            },
        })
    }

    /// The same file, not opened yet, of one that was not opened either: to be read once more.
    pub fn again(&self) -> Self {
        Self {
            path: self.path.clone(),
            held: self.held.clone(),
            pool: self.pool.clone(),
            reader: None,
            facts: self.facts.clone(),
            ..*self
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The stamp of its first frame: until the other inputs have come as far, it need not be
    /// opened.
    pub(crate) fn begins_ns(&self) -> i64 {
        self.first_ns
    }
}

impl FolderFile {
    /// Opens the file; says what happened to it if it is no longer the one that was looked at.
    fn open(&mut self) -> Result<Result<(), &'static str>, PortError> {
        let file = match self.held.clone() {
            Some(file) => rewound(file, &self.path),
            None => CaptureReader::open_file(&self.path).map(Arc::new),
        };
        let again =
            file.and_then(|file| Watched::read_again(file, &self.path, &self.pool, self.mark));
        let file = match again {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(Err("was overwritten")),
            Err(PortError::Open { cause, .. }) if cause.kind() == ErrorKind::NotFound => {
                return Ok(Err("was deleted"));
            }
            Err(
                PortError::Empty { .. } | PortError::HeaderCut { .. } | PortError::Foreign { .. },
            ) => return Ok(Err("was overwritten")),
            Err(error) => return Err(error),
        };
        self.reader = Some(Box::new(file));
        Ok(Ok(()))
    }

    /// Lets the file go, and keeps what is known of it.
    fn end(&mut self) {
        self.ended = true;
        if let Some(file) = self.reader.take() {
            self.facts.clone_from(file.facts());
        }
    }

    /// Ends a file whose writer did not wait for its reader.
    fn end_lost(&mut self, what: &str) -> Received {
        let has_begun = self.reader.is_some();
        self.end();
        let before = if has_begun { "all of it" } else { "it" };
        let what = format!("{} {what} before {before} was read", self.facts.name);
        self.facts.lapses += 1;
        self.facts.warnings.push(lost(&what, self.last_ns, None));
        Received::End
    }
}

impl Port for FolderFile {
    fn facts(&self) -> Vec<&Facts> {
        let reader = self.reader.as_ref();
        vec![reader.map_or(&self.facts, |file| file.facts())]
    }
}

impl Receive for FolderFile {
    fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        if self.ended {
            return Ok(Received::End);
        }
        if self.reader.is_none() {
            if !self.pool.has_room(Purpose::Read(self.facts.bytes_total)) {
                return Ok(Received::PoolEmpty);
            }
            let opened = self.open().inspect_err(|_| self.ended = true)?;
            if let Err(what) = opened {
                return Ok(self.end_lost(what));
            }
        }
        let Some(file) = &mut self.reader else {
            return Ok(Received::End);
        };
        match file.receive(burst, max) {
            Ok(Read::Overwritten) => Ok(self.end_lost("was overwritten")),
            Ok(Read::Frames(Received::End)) => {
                self.end();
                Ok(Received::End)
            }
            Ok(Read::Frames(received)) => {
                let last = burst.last().and_then(|frame| frame.descriptor().stamp_ns);
                self.last_ns = last.unwrap_or(self.last_ns);
                Ok(received)
            }
            Err(error) => {
                self.end();
                Err(error)
            }
        }
    }

    fn leave(&mut self, ahead: &mut Burst) {
        match &mut self.reader {
            Some(file) => file.reader_mut().leave(ahead),
            None => self.facts.take_back(ahead),
        }
    }
}

/// A file that stayed open, at its beginning.
fn rewound(file: Arc<File>, path: &Path) -> Result<Arc<File>, PortError> {
    match (&*file).rewind() {
        Ok(()) => Ok(file),
        Err(cause) => Err(PortError::Open {
            name: path.display().to_string(),
            cause,
        }),
    }
}

/// The ring and the number of a file that dumpcap (`-b`) named: `NAME_00042_20261127103000.pcapng`,
/// with `nametimenum:2` `NAME_20261127103000_00042.pcapng`.
pub(crate) fn dumpcap_number(path: &Path) -> Option<(&[u8], u64)> {
    let name = path.file_name()?.as_bytes();
    let end = name.iter().position(|&byte| byte == b'.');
    let mut parts = name[..end.unwrap_or(name.len())].rsplitn(3, |&byte| byte == b'_');
    let (last, first, ring) = (parts.next()?, parts.next()?, parts.next()?);
    let is_number = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    let number = match (first.len(), last.len()) {
        (5..14, 14) => first,
        (14, 5..14) => last,
        _ => return None,
    };
    let number = std::str::from_utf8(number).ok()?;
    (is_number(first) && is_number(last)).then_some((ring, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_compare_as_numbers() {
        let mut names = ["cap10", "cap", "cap9.pcap", "cap2", "cap1", "cap02x"];
        names.sort_by_key(|name| natural(OsStr::new(name)));
        assert_eq!(
            names,
            ["cap", "cap1", "cap2", "cap02x", "cap9.pcap", "cap10"]
        );
    }

    #[test]
    fn files_of_a_dumpcap_ring_are_known_by_their_numbers() {
        let number = |name| dumpcap_number(Path::new(name));
        let ring = Some((&b"a_b"[..], 42));
        assert_eq!(number("/x_9/a_b_00042_20261127103000.pcapng"), ring);
        assert_eq!(number("a_b_20261127103000_00042.pcap.gz"), ring);
        let million = Some((&b"a"[..], 1_000_000));
        assert_eq!(number("a_1000000_20261127103000.pcapng"), million);
        for other in [
            "a_00042.pcapng",
            "a_0042_20261127103000",
            "a_00042_2026112710300",
            "00042_20261127103000",
            "a_0x042_20261127103000",
            "a_20261127103000_20261127103000",
            "a_",
            "",
        ] {
            assert_eq!(number(other), None, "{other}");
        }
    }
}
