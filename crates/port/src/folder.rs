//! Capture files that are parts of one capture: rotated by tcpdump (`-C`, `-G`, `-W`) or dumpcap
//! (`-b`), or still growing.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use lineside_frame::Burst;

use crate::{CaptureReader, Facts, PoolConfig, Port, PortError, Receive, Received};

/// A file of a folder, opened when its turn comes and closed at its end.
pub struct FolderFile {
    path: PathBuf,
    pool: PoolConfig,
    first_ns: i64,
    reader: Option<CaptureReader>,
    ended: bool,
    is_compressed: bool,
    /// As of when it was listed, then as of its end.
    facts: Facts,
}

/// The capture files of a folder, by the stamps of their first frames, of equal ones by their
/// names, in which 10 comes behind
/// 9. A file that is no capture, or not yet one, is left out and reported with the reason.
pub fn list(folder: &Path, pool: &PoolConfig) -> Result<(Vec<FolderFile>, Vec<String>), PortError> {
    let (mut files, mut left_out) = (Vec::new(), Vec::new());
    for path in paths(folder)? {
        match FolderFile::look(&path, pool) {
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

fn paths(folder: &Path) -> Result<Vec<PathBuf>, PortError> {
    let entries = std::fs::read_dir(folder);
    let paths = entries.and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut paths: Vec<PathBuf> = paths.map_err(|cause| PortError::Open {
        name: folder.display().to_string(),
        cause,
    })?;
    paths.sort();
    Ok(paths)
}

fn written(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|file| file.modified()).ok()
}

/// A name in which numbers compare as numbers: text, number, text, number and so on.
fn natural(name: &OsStr) -> Vec<(Vec<u8>, u128)> {
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
    /// Reads the first frame.
    fn look(path: &Path, pool: &PoolConfig) -> Result<Self, PortError> {
        // A FIFO that nobody writes would hold up the whole folder, and a device never ends.
        if path
            .metadata()
            .is_ok_and(|facts| !facts.is_file() && !facts.is_dir())
        {
            let name = path.display().to_string();
            return Err(PortError::NoFile { name });
        }
        let mut reader = CaptureReader::open(path, pool)?;
        let mut burst = Burst::new();
        // What is wrong with the file comes again when it is read.
        let _ = reader.receive(&mut burst, 1);
        let first = burst.first().and_then(|frame| frame.descriptor().stamp_ns);
        let facts = reader.own_facts().clone();
        Ok(Self {
            path: path.to_owned(),
            pool: pool.clone(),
            first_ns: first.unwrap_or(i64::MIN),
            reader: None,
            ended: false,
            is_compressed: reader.is_compressed(),
            facts: Facts {
                frames: 0,
                bytes: 0,
                warnings: Vec::new(),
                ..facts
            },
        })
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

impl Port for FolderFile {
    fn facts(&self) -> Vec<&Facts> {
        let reader = self.reader.as_ref();
        vec![reader.map_or(&self.facts, CaptureReader::own_facts)]
    }
}

impl Receive for FolderFile {
    fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        if self.ended {
            return Ok(Received::End);
        }
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None => self
                .reader
                .insert(CaptureReader::open(&self.path, &self.pool)?),
        };
        let received = reader.receive(burst, max);
        if !matches!(received, Ok(Received::End) | Err(_)) {
            return received;
        }
        self.ended = true;
        self.facts.clone_from(reader.own_facts());
        self.reader = None;
        received
    }

    fn leave(&mut self, ahead: &mut Burst) {
        match &mut self.reader {
            Some(reader) => reader.leave(ahead),
            None => self.facts.take_back(ahead),
        }
    }
}

/// Files, and when each was written last.
type Known = BTreeMap<PathBuf, Option<SystemTime>>;

/// A file that is still written. At its end it is quiet until more comes; in a folder, until a file
/// appears with a frame, that was not there, or until one that was is written anew: then it has
/// ended, and that one is next.
pub struct Followed {
    /// `None` until the first file appears in a folder without any.
    path: Option<PathBuf>,
    pool: PoolConfig,
    reader: Option<CaptureReader>,
    /// Of files that have ended.
    facts: Vec<Facts>,
    /// Of a file that is not there yet, or does not hold a file header yet.
    awaited: Facts,
    /// The folder, and what was in it as of when.
    folder: Option<(PathBuf, Known)>,
    next: Option<PathBuf>,
    /// The latest stamp: other files may go on up to it.
    last_ns: i64,
    has_failed: bool,
}

impl Followed {
    /// Follows the file at `path`, which may be empty as yet.
    pub fn file(path: &Path, pool: &PoolConfig) -> Result<Self, PortError> {
        let mut followed = Self::awaiting(path, pool);
        followed.path = Some(path.to_owned());
        followed.open()?;
        Ok(followed)
    }

    /// Follows `folder` from the file on that is the last one now, `path`; if there is none, from
    /// the first that appears.
    pub fn folder(
        folder: &Path,
        path: Option<&Path>,
        pool: &PoolConfig,
    ) -> Result<Self, PortError> {
        let (mut followed, there) = match path {
            Some(path) => (Self::file(path, pool)?, paths(folder)?),
            None => (Self::awaiting(folder, pool), Vec::new()),
        };
        let known = { there.into_iter() }.map(|path| (path.clone(), written(&path)));
        followed.folder = Some((folder.to_owned(), known.collect()));
        Ok(followed)
    }

    fn awaiting(path: &Path, pool: &PoolConfig) -> Self {
        Self {
            path: None,
            pool: pool.clone(),
            reader: None,
            facts: Vec::new(),
            awaited: Facts {
                name: path.display().to_string(),
                ..Facts::default()
            },
            folder: None,
            next: None,
            last_ns: i64::MIN,
            has_failed: false,
        }
    }

    /// Opens the file, if it is there and holds as much as a file header.
    fn open(&mut self) -> Result<bool, PortError> {
        if self.path.is_none() {
            self.path = self.appeared()?;
        }
        let Some(path) = &self.path else {
            return Ok(false);
        };
        match CaptureReader::open(path, &self.pool) {
            Ok(mut reader) => {
                if reader.is_compressed() {
                    let name = path.display().to_string();
                    return Err(PortError::NotFollowed { name });
                }
                reader.set_following(true);
                self.reader = Some(reader);
                Ok(true)
            }
            Err(PortError::Empty { .. } | PortError::HeaderCut { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A file that was not there before, or of which nothing is left that was, with a frame in it;
    /// of several the earliest.
    fn appeared(&mut self) -> Result<Option<PathBuf>, PortError> {
        let Some((folder, known)) = &mut self.folder else {
            return Ok(None);
        };
        let mut files = Vec::new();
        for path in paths(folder)? {
            let (before, now) = (known.get(&path).copied(), written(&path));
            if Some(&path) == self.path.as_ref() || before == Some(now) {
                continue;
            }
            // What is no capture file yet may become one.
            let Ok(file) = FolderFile::look(&path, &self.pool) else {
                continue;
            };
            // Rotated files may be compressed once they are complete: then they have been read.
            let is_new = before.is_none() && !file.is_compressed && file.first_ns > i64::MIN;
            if is_new || file.first_ns > self.last_ns {
                files.push((file.first_ns, natural(path.as_os_str()), path));
            } else if file.first_ns > i64::MIN {
                known.insert(path, now);
            }
        }
        let first = files.into_iter().min().map(|(_, _, path)| path);
        known.extend(first.clone().map(|path| (path.clone(), written(&path))));
        Ok(first)
    }

    /// What there is to read.
    fn read(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        loop {
            let quiet = Ok(Received::Idle {
                until_ns: self.last_ns,
            });
            if self.reader.is_none() && !self.open()? {
                return quiet;
            }
            let Some(reader) = &mut self.reader else {
                return quiet;
            };
            let before = burst.len();
            let received = reader.receive(burst, max);
            for frame in &mut burst[before..] {
                frame.descriptor_mut().input = self.facts.len() as u16;
                self.last_ns = self
                    .last_ns
                    .max(frame.descriptor().stamp_ns.unwrap_or(i64::MIN));
            }
            match (received?, self.next.take()) {
                (Received::Idle { .. }, None) => match self.appeared()? {
                    // Its writer has gone on: what it has written since the last look is its end.
                    Some(next) => {
                        self.next = Some(next);
                        if let Some(reader) = &mut self.reader {
                            reader.set_following(false);
                        }
                    }
                    None => return quiet,
                },
                (Received::End, Some(next)) => {
                    let ended = self.reader.take();
                    self.facts
                        .extend(ended.map(|reader| reader.own_facts().clone()));
                    self.awaited.name = next.display().to_string();
                    self.path = Some(next);
                }
                (received, next) => {
                    self.next = next;
                    return Ok(received);
                }
            }
        }
    }
}

impl Port for Followed {
    fn facts(&self) -> Vec<&Facts> {
        let last = self
            .reader
            .as_ref()
            .map_or(&self.awaited, CaptureReader::own_facts);
        self.facts.iter().chain([last]).collect()
    }
}

impl Receive for Followed {
    fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        if self.has_failed {
            return Ok(Received::End);
        }
        let received = self.read(burst, max);
        self.has_failed = received.is_err();
        received
    }

    fn leave(&mut self, ahead: &mut Burst) {
        let last = match &mut self.reader {
            Some(reader) => reader.own_facts_mut(),
            None => &mut self.awaited,
        };
        for frame in ahead.drain(..) {
            let file = usize::from(frame.descriptor().input);
            let facts = self.facts.get_mut(file).unwrap_or(last);
            facts.take_back(&mut vec![frame]);
        }
    }
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
}
