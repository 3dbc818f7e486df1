//! Capture files that are still written: one that grows, and a folder that gets its next one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use lineside_frame::Burst;

use crate::folder::{FolderFile, natural, paths};
use crate::{CaptureReader, Facts, PoolConfig, Port, PortError, Receive, Received};

/// Files, and when each was written last.
type Known = BTreeMap<PathBuf, Option<SystemTime>>;

fn written(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|file| file.modified()).ok()
}

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
            let is_new = before.is_none() && !file.is_compressed && file.begins_ns() > i64::MIN;
            if is_new || file.begins_ns() > self.last_ns {
                files.push((file.begins_ns(), natural(path.as_os_str()), path));
            } else if file.begins_ns() > i64::MIN {
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
