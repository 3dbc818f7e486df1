//! Capture files that are still written: one that grows, and a folder that gets its next one.
//!
//! A writer that keeps a ring (tcpdump `-W`, dumpcap `-b files:`) overwrites or deletes the
//! oldest whether or not it was read. What was lost so is found where it can be known:
//!
//! * tcpdump empties a file and begins it anew: [`Watched`] sees it. The files between it and the
//!   next one that is read had their turn before it, so they are lost exactly if it was
//!   overwritten before that one was open.
//! * dumpcap deletes, and numbers its files: a number that is missing is a file that was lost.
//! * Files that were seen and are gone before their turn are lost, whatever they are called.
//! * If the clock was set back, a file may be read and left before older ones. What it gets after
//!   that is lost.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use lineside_frame::Burst;

use crate::folder::{FolderFile, dumpcap_number, natural, paths};
use crate::watched::{Read, Watched, lost};
use crate::{Facts, PoolConfig, Port, PortError, Receive, Received};

/// Files whose facts are kept one by one; those of all further files are one input. A month of a
/// file a minute is 43,200.
const FILES_MAX: usize = 1024;

/// Losses that get a warning each.
const LOSS_WARNINGS_MAX: u64 = 100;

/// A file as it was looked at.
#[derive(Debug, Clone, Copy)]
struct State {
    written: Option<SystemTime>,
    /// In bytes, as far as it was read; once more is lost, the greatest.
    len: u64,
    /// The stamp of its first frame.
    begins_ns: i64,
}

impl State {
    fn of(path: &Path, begins_ns: i64) -> Self {
        let facts = path.metadata().ok();
        Self {
            written: facts.as_ref().and_then(|facts| facts.modified().ok()),
            len: facts.map_or(0, |facts| facts.len()),
            begins_ns,
        }
    }
}

/// A folder that gets files.
struct Folder {
    path: PathBuf,
    /// Files that were read, or are no captures, as they were then.
    known: BTreeMap<PathBuf, State>,
    /// Files that were there at the last look, and whose turn had not come.
    unread: BTreeMap<PathBuf, i64>,
}

/// A file whose turn is next: opened before the one before it is left.
struct Next {
    path: PathBuf,
    file: Watched,
    begins_ns: i64,
    /// Files that were deleted before it.
    deleted: Option<String>,
}

/// A file that is still written. At its end it is quiet until more comes; in a folder, until a file
/// appears with a frame, that was not there, or until one that was is written anew: then it has
/// ended, and that one is next.
pub struct Tail {
    /// `None` until the first file appears in a folder without any, and when the file was
    /// overwritten.
    path: Option<PathBuf>,
    pool: PoolConfig,
    reader: Option<Watched>,
    /// Of files that have ended.
    facts: Vec<Facts>,
    /// Of the file that is read or awaited and all that have ended since [`FILES_MAX`] were full;
    /// until then, of a file that is not there yet, or does not hold a file header yet.
    last: Facts,
    /// Frames and bytes of those of `last` that have ended.
    last_ended: (u64, u64),
    folder: Option<Folder>,
    next: Option<Next>,
    /// What was overwritten, until it is known where reading goes on.
    overwritten: Option<String>,
    losses: u64,
    /// The latest stamp: other files may go on up to it.
    last_ns: i64,
    has_failed: bool,
}

impl Tail {
    /// Follows the file at `path`, which may be empty as yet.
    pub fn file(path: &Path, pool: &PoolConfig) -> Result<Self, PortError> {
        let mut followed = Self::awaiting(path, pool);
        followed.path = Some(path.to_owned());
        followed.open()?;
        Ok(followed)
    }

    /// Follows `folder` from the last of `files` on, which are those in it now; if there is none,
    /// from the first that appears.
    pub fn folder(
        folder: &Path,
        files: &[FolderFile],
        pool: &PoolConfig,
    ) -> Result<Self, PortError> {
        let mut followed = match files.last() {
            Some(file) => Self::file(file.path(), pool)?,
            None => Self::awaiting(folder, pool),
        };
        let begins_ns: BTreeMap<_, _> = { files.iter() }
            .map(|file| (file.path(), file.begins_ns()))
            .collect();
        let state = |path: &Path| {
            let begins_ns = begins_ns.get(path).copied();
            State::of(path, begins_ns.unwrap_or(i64::MIN))
        };
        let there = match files {
            [] => Vec::new(),
            _ => paths(folder)?,
        };
        followed.folder = Some(Folder {
            path: folder.to_owned(),
            known: { there.into_iter() }
                .map(|path| (path.clone(), state(&path)))
                .collect(),
            unread: BTreeMap::new(),
        });
        Ok(followed)
    }

    fn awaiting(path: &Path, pool: &PoolConfig) -> Self {
        Self {
            path: None,
            pool: pool.clone(),
            reader: None,
            facts: Vec::new(),
            last: Facts {
                name: path.display().to_string(),
                ..Facts::default()
            },
            last_ended: (0, 0),
            folder: None,
            next: None,
            overwritten: None,
            losses: 0,
            last_ns: i64::MIN,
            has_failed: false,
        }
    }

    /// Opens the file, if it is there and holds as much as a file header.
    fn open(&mut self) -> Result<bool, PortError> {
        let Some(path) = &self.path else {
            let Some(next) = self.look()? else {
                return Ok(false);
            };
            self.take(next);
            return Ok(true);
        };
        let Some(mut file) = opened(path, &self.pool)? else {
            return Ok(false);
        };
        if file.reader().is_compressed() {
            let name = path.display().to_string();
            return Err(PortError::NotFollowed { name });
        }
        file.reader_mut().set_following(true);
        self.reader = Some(file);
        if let Some(what) = self.overwritten.take() {
            self.note_lost(&what, self.last_ns, None);
        }
        Ok(true)
    }

    /// Continues with a file, and warns about losses before it.
    fn take(&mut self, next: Next) {
        let (since_ns, until_ns) = (self.last_ns, Some(next.begins_ns));
        for what in { self.overwritten.take().into_iter() }.chain(next.deleted) {
            self.note_lost(&what, since_ns, until_ns);
        }
        self.path = Some(next.path);
        self.reader = Some(next.file);
    }

    fn note_lost(&mut self, what: &str, since_ns: i64, until_ns: Option<i64>) {
        self.losses += 1;
        let facts = self.facts.last_mut().unwrap_or(&mut self.last);
        facts.lapses += 1;
        if self.losses <= LOSS_WARNINGS_MAX {
            facts.warnings.push(lost(what, since_ns, until_ns));
        } else if self.losses == LOSS_WARNINGS_MAX + 1 {
            let more = "the ring has lapped its reader more often: `losses` has each time";
            facts.warnings.push(more.to_owned());
        }
    }

    /// The file whose turn is next, open: of those that were not read yet the earliest.
    fn look(&mut self) -> Result<Option<Next>, PortError> {
        let Some(folder) = &mut self.folder else {
            return Ok(None);
        };
        let reading = self.path.as_deref();
        let Looked {
            there,
            files,
            grown,
        } = folder.look(reading, self.last_ns, &self.pool)?;
        let next = match files.iter().min_by_key(|(path, file)| {
            let name = natural(path.as_os_str());
            (file.begins_ns, name)
        }) {
            Some((path, state)) => opened(path, &self.pool)?.map(|file| (path, *state, file)),
            None => None,
        };
        let next = next.map(|(path, state, mut file)| {
            let is_compressed = file.reader().is_compressed();
            file.reader_mut().set_following(!is_compressed);
            folder.known.insert(path.clone(), state);
            Next {
                path: path.clone(),
                file,
                begins_ns: state.begins_ns,
                deleted: folder.deleted(reading, path, &files, &there),
            }
        });
        if let Some(next) = &next {
            folder.unread = { files.into_iter() }
                .filter(|(path, _)| *path != next.path)
                .map(|(path, file)| (path, file.begins_ns))
                .collect();
        }
        for path in grown {
            let what = format!("{path} grew after it was left for an older one");
            self.note_lost(&what, i64::MIN, None);
        }
        Ok(next)
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
            let Some(file) = &mut self.reader else {
                return quiet;
            };
            let before = burst.len();
            let received = file.receive(burst, max);
            let input = self.facts.len() as u16;
            for frame in &mut burst[before..] {
                frame.descriptor_mut().input = input;
                let stamp_ns = frame.descriptor().stamp_ns;
                self.last_ns = self.last_ns.max(stamp_ns.unwrap_or(i64::MIN));
            }
            match received? {
                Read::Overwritten => self.on_overwritten(),
                Read::Frames(Received::Idle { .. }) => {
                    self.next = self.look()?;
                    if self.next.is_none() {
                        return quiet;
                    }
                    // Its writer has gone on: what it has written since the last look is its end.
                    if let Some(file) = &mut self.reader {
                        file.reader_mut().set_following(false);
                    }
                }
                Read::Frames(Received::End) => {
                    if self.next.is_none() {
                        self.next = self.look()?;
                    }
                    let Some(next) = self.next.take() else {
                        return quiet;
                    };
                    self.end_file();
                    self.take(next);
                }
                Read::Frames(received) => return Ok(received),
            }
        }
    }

    /// In a folder its turn comes again behind those that are older now.
    fn on_overwritten(&mut self) {
        let name = self.end_file();
        self.overwritten = Some(format!("{name} was overwritten before all of it was read"));
        match self.next.take() {
            Some(next) => self.take(next),
            None if self.folder.is_some() => self.path = None,
            None => {}
        }
    }

    /// Lets the file go; returns its name.
    fn end_file(&mut self) -> String {
        let Some(file) = self.reader.take() else {
            return String::new();
        };
        let facts = file.facts().clone();
        let name = facts.name.clone();
        if let (Some(folder), Some(path)) = (&mut self.folder, &self.path)
            && let Some(state) = folder.known.get_mut(path)
        {
            state.len = facts.bytes;
        }
        if self.facts.len() < FILES_MAX {
            self.facts.push(facts);
        } else {
            self.last_ended.0 += facts.frames;
            self.last_ended.1 += facts.bytes;
            self.last.name = format!("{name} and others after the first {FILES_MAX}");
            self.last.format = facts.format;
            for link_type in facts.link_types {
                self.last.note_link_type(link_type);
            }
            let known = self.last.warnings.len();
            let warnings = facts.warnings.into_iter();
            self.last
                .warnings
                .extend(warnings.take((LOSS_WARNINGS_MAX as usize).saturating_sub(known)));
        }
        self.sum();
        name
    }

    /// Brings the facts of all files behind [`FILES_MAX`] up to date.
    fn sum(&mut self) {
        let now = self.reader.as_ref().map(Watched::facts);
        if self.facts.len() == FILES_MAX {
            self.last.frames = self.last_ended.0 + now.map_or(0, |facts| facts.frames);
            self.last.bytes = self.last_ended.1 + now.map_or(0, |facts| facts.bytes);
        }
    }
}

/// What is in a folder.
struct Looked {
    /// All of it, sorted.
    there: Vec<PathBuf>,
    /// Captures with a frame that were not there before, or of which nothing is left that was.
    files: BTreeMap<PathBuf, State>,
    /// Files that have got more since they were left.
    grown: Vec<String>,
}

impl Folder {
    /// Looks at everything but the file that is being read.
    fn look(
        &mut self,
        reading: Option<&Path>,
        last_ns: i64,
        pool: &PoolConfig,
    ) -> Result<Looked, PortError> {
        let (mut files, mut grown) = (BTreeMap::new(), Vec::new());
        let there = paths(&self.path)?;
        self.known
            .retain(|path, _| there.binary_search(path).is_ok());
        for path in &there {
            let before = self.known.get(path).copied();
            let mut now = State::of(path, i64::MIN);
            let is_same = before.is_some_and(|before| before.written == now.written);
            if Some(&**path) == reading || is_same {
                continue;
            }
            // What is no capture file yet may become one.
            let Ok(file) = FolderFile::look(path, None, pool) else {
                continue;
            };
            now.begins_ns = file.begins_ns();
            if now.begins_ns == i64::MIN {
                continue;
            }
            let is_unread = match file.is_compressed {
                // Rotated files may be compressed once they are complete: then they have been read.
                true => now.begins_ns > last_ns,
                false => before.is_none_or(|before| before.begins_ns != now.begins_ns),
            };
            if is_unread {
                files.insert(path.clone(), now);
                continue;
            }
            if let Some(before) = before.filter(|_| !file.is_compressed) {
                if now.len > before.len {
                    grown.push(path.display().to_string());
                    now.len = u64::MAX;
                }
                now.len = now.len.max(before.len);
            }
            self.known.insert(path.clone(), now);
        }
        Ok(Looked {
            there,
            files,
            grown,
        })
    }

    /// Files that were gone before their turn, when the one behind `before` is `next`; `files` are
    /// those to be read of all that are `there`.
    fn deleted(
        &self,
        before: Option<&Path>,
        next: &Path,
        files: &BTreeMap<PathBuf, State>,
        there: &[PathBuf],
    ) -> Option<String> {
        if let Some((ring, before)) = before.and_then(dumpcap_number)
            && let Some((same, next)) = dumpcap_number(next)
            && ring == same
        {
            let between = before + 1..next;
            // Without a frame, or out of their order since the clock was set back.
            let there = there.iter().filter(|path| {
                dumpcap_number(path)
                    .is_some_and(|(same, number)| ring == same && between.contains(&number))
            });
            let skipped = next.saturating_sub(before + 1);
            let what = match skipped.saturating_sub(there.count() as u64) {
                0 => None,
                1 if skipped == 1 => Some(format!("number {} of the ring was", before + 1)),
                count => Some(format!(
                    "{count} of the numbers {before} to {next} of the ring were"
                )),
            };
            if let Some(what) = what {
                return Some(format!("{what} deleted unread"));
            }
        }
        // A file that is compressed meanwhile has the same first frame.
        let is_left = |begins_ns| files.values().any(|file| file.begins_ns == begins_ns);
        let mut gone = { self.unread.iter() }.filter(|(_, begins_ns)| !is_left(**begins_ns));
        let (first, _) = gone.next()?;
        let more = match gone.count() {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        let first = first.display();
        Some(format!("{first}{more}: deleted or overwritten unread"))
    }
}

/// `None` if the file is not there yet, or does not hold a file header yet.
fn opened(path: &Path, pool: &PoolConfig) -> Result<Option<Watched>, PortError> {
    match Watched::open(path, pool) {
        Ok(file) => Ok(Some(file)),
        Err(PortError::Empty { .. } | PortError::HeaderCut { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Port for Tail {
    fn facts(&self) -> Vec<&Facts> {
        let last = match &self.reader {
            Some(file) if self.facts.len() < FILES_MAX => file.facts(),
            _ => &self.last,
        };
        self.facts.iter().chain([last]).collect()
    }
}

impl Receive for Tail {
    fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        if self.has_failed {
            return Ok(Received::End);
        }
        let received = self.read(burst, max);
        self.has_failed = received.is_err();
        self.sum();
        received
    }

    fn leave(&mut self, ahead: &mut Burst) {
        for frame in ahead.drain(..) {
            let file = usize::from(frame.descriptor().input);
            let facts = match (self.facts.get_mut(file), &mut self.reader) {
                (Some(facts), _) => facts,
                (None, Some(file)) => file.reader_mut().own_facts_mut(),
                (None, None) => &mut self.last,
            };
            facts.take_back(&mut vec![frame]);
        }
        self.sum();
    }
}
