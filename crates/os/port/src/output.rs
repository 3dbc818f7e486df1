//! Where a [`CaptureWriter`](crate::CaptureWriter)'s bytes go: files in turn, written by a thread.
//!
//! ```text
//!  writer ─chunk─► filled ─► thread ─► write(2)
//!     ▲                        │
//!     └── empty chunks: the credits, CHUNKS_MAX of them
//! ```
//!
//! A chunk holds whole records, so that whatever was written can be read.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use jiff::tz::TimeZone;
use lineside_host::FileMaker;

use crate::encode::whole_len;
use crate::{BLOCK_LEN, Place, PortError};

/// Bytes of a chunk: the longest record fits.
pub(crate) const CHUNK_LEN: usize = BLOCK_LEN;
/// Chunks that wait for the disk before the writer does: 8 MiB. A guess; the page cache takes the
/// rest.
pub(crate) const CHUNKS_MAX: usize = 16;

/// The way to the thread, which is started by the first message: a process that drops its
/// privileges before it starts threads may do so while the first file is open already.
pub(crate) enum Output {
    Ready(Box<Files>),
    Running(Running),
    Ended,
}

pub(crate) struct Running {
    filled: Sender<Message>,
    empty: Receiver<Vec<u8>>,
    /// Chunks that were made.
    chunks: usize,
    thread: JoinHandle<Result<(), PortError>>,
}

pub(crate) enum Message {
    /// Whole records, to be written.
    Chunk(Vec<u8>),
    /// The next file, begun at this instant.
    Next(i64),
}

impl Output {
    /// Sends a chunk and puts an empty one in its place; waits for one while all are under way.
    pub(crate) fn send_chunk(&mut self, chunk: &mut Vec<u8>) -> Result<(), PortError> {
        self.send(Message::Chunk(std::mem::take(chunk)))?;
        let Self::Running(running) = self else {
            return Ok(());
        };
        let empty = match running.empty.try_recv() {
            Ok(empty) => Some(empty),
            Err(_) if running.chunks < CHUNKS_MAX => {
                running.chunks += 1;
                Some(Vec::with_capacity(CHUNK_LEN))
            }
            Err(_) => running.empty.recv().ok(),
        };
        match empty {
            Some(empty) => *chunk = empty,
            None => return self.finish(),
        }
        Ok(())
    }

    pub(crate) fn send(&mut self, message: Message) -> Result<(), PortError> {
        if let Self::Ready(_) = self {
            let Self::Ready(files) = std::mem::replace(self, Self::Ended) else {
                unreachable!("it was ready");
            };
            *self = Self::Running(Running::start(*files)?);
        }
        match self {
            Self::Running(running) if running.filled.send(message).is_err() => self.finish(),
            _ => Ok(()),
        }
    }

    /// Waits until everything is written. The first error comes once, here or earlier; what is sent
    /// after it is lost.
    pub(crate) fn finish(&mut self) -> Result<(), PortError> {
        match std::mem::replace(self, Self::Ended) {
            Self::Running(running) => {
                drop(running.filled);
                let outcome = running.thread.join();
                outcome.expect("writing files does not panic")
            }
            Self::Ready(_) | Self::Ended => Ok(()),
        }
    }
}

impl Running {
    fn start(mut files: Files) -> Result<Self, PortError> {
        let (filled, messages) = channel();
        let (empties, empty) = channel();
        let name = files.name.clone();
        let thread = thread::Builder::new().name("capture-file".to_owned());
        let thread = thread.spawn(move || {
            for message in messages {
                match message {
                    Message::Chunk(mut chunk) => {
                        files.write(&chunk)?;
                        chunk.clear();
                        // The writer does not wait for it any more when it finishes.
                        let _ = empties.send(chunk);
                    }
                    Message::Next(now_ns) => files.next(now_ns)?,
                }
            }
            Ok(())
        });
        Ok(Self {
            filled,
            empty,
            chunks: 1,
            thread: thread.map_err(|cause| PortError::Thread { name, cause })?,
        })
    }
}

/// The file that is written, and which come before and after it.
pub(crate) struct Files {
    file: File,
    /// For messages.
    name: String,
    is_pcapng: bool,
    /// Bytes of the file so far, all of them whole records.
    len: u64,
    series: Option<Series>,
}

/// Numbered files of a folder.
struct Series {
    maker: FileMaker,
    /// Of the folder, for messages.
    path: PathBuf,
    stem: OsString,
    suffix: OsString,
    /// Of the newest file, from 1.
    number: u64,
    /// Files of the series, the newest last: all that may be deleted, else only that.
    kept: VecDeque<OsString>,
    files_max: Option<usize>,
}

impl Files {
    /// Makes, or replaces, the file at `path`; `-` is standard output.
    pub(crate) fn single(path: &Path, is_pcapng: bool) -> Result<Self, PortError> {
        let name = path.display().to_string();
        let opened = if name == "-" {
            // The handle itself, since `Stdout` has a buffer of its own.
            io::stdout().as_fd().try_clone_to_owned().map(File::from)
        } else {
            File::create(path)
        };
        Ok(Self {
            file: opened.map_err(|cause| PortError::Open {
                name: name.clone(),
                cause,
            })?,
            name,
            is_pcapng,
            len: 0,
            series: None,
        })
    }

    /// Makes the first of the files `STEM_00001_TIME.SUFFIX` for the path `STEM.SUFFIX`, as dumpcap
    /// calls them.
    pub(crate) fn series(
        path: &Path,
        is_pcapng: bool,
        files_max: Option<usize>,
        (maker, now_ns): (FileMaker, i64),
    ) -> Result<Self, PortError> {
        let mut series = Series {
            maker,
            path: match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
                _ => PathBuf::from("."),
            },
            stem: path.file_stem().unwrap_or_default().to_owned(),
            suffix: path.extension().map_or_else(OsString::new, |extension| {
                [".".as_ref(), extension].into_iter().collect()
            }),
            number: 0,
            kept: VecDeque::new(),
            files_max,
        };
        let (file, name) = series.next(now_ns)?;
        Ok(Self {
            file,
            name,
            is_pcapng,
            len: 0,
            series: Some(series),
        })
    }

    /// The file that is open.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Calls the first file of a series by another time than that of its making.
    pub(crate) fn rename_first(&mut self, begin_ns: i64) -> Result<(), PortError> {
        if let Some(series) = &mut self.series {
            self.name = series.rename_newest(begin_ns)?;
        }
        Ok(())
    }

    /// Writes whole records. When that fails, the file is cut behind the last whole one.
    pub(crate) fn write(&mut self, records: &[u8]) -> Result<(), PortError> {
        let mut written = 0;
        while written < records.len() {
            let cause = match self.file.write(&records[written..]) {
                Ok(0) => ErrorKind::WriteZero.into(),
                Ok(len) => {
                    written += len;
                    continue;
                }
                Err(cause) if cause.kind() == ErrorKind::Interrupted => continue,
                Err(cause) => cause,
            };
            let place = Place {
                name: self.name.clone(),
                offset: self.len + written as u64,
                decompressed: false,
            };
            // A pcap file's header is written alone.
            if self.is_pcapng || self.len > 0 {
                let whole = whole_len(records, self.is_pcapng, written);
                // A pipe cannot be cut, and the first error is the one to report.
                let _ = self.file.set_len(self.len + whole as u64);
            }
            return Err(PortError::Write { place, cause });
        }
        self.len += written as u64;
        Ok(())
    }

    fn next(&mut self, now_ns: i64) -> Result<(), PortError> {
        if let Some(series) = &mut self.series {
            let (file, name) = series.next(now_ns)?;
            self.file = file;
            self.name = name;
            self.len = 0;
        }
        Ok(())
    }
}

impl Series {
    /// Deletes the oldest file if there is none to spare, and makes the next one.
    fn next(&mut self, now_ns: i64) -> Result<(File, String), PortError> {
        self.number += 1;
        let file_name = self.file_name(now_ns);
        if let Some(files_max) = self.files_max
            && self.kept.len() >= files_max
            && let Some(oldest) = self.kept.pop_front()
        {
            // Another program may have removed it already; what matters is that the next one can be
            // made.
            let _ = self.maker.remove(&oldest);
        }
        // All of those that may be deleted, else only the newest.
        if self.files_max.is_none() {
            self.kept.clear();
        }
        self.kept.push_back(file_name.clone());
        let name = self.path.join(&file_name).display().to_string();
        match self.maker.make(&file_name) {
            Ok(file) => Ok((file, name)),
            Err(cause) => Err(not_made(name, cause)),
        }
    }

    /// Calls the newest file by another time; returns its path.
    fn rename_newest(&mut self, begin_ns: i64) -> Result<String, PortError> {
        let file_name = self.file_name(begin_ns);
        let name = self.path.join(&file_name).display().to_string();
        if let Some(newest) = self.kept.back_mut()
            && *newest != file_name
        {
            if let Err(cause) = self.maker.rename(newest, &file_name) {
                let _ = self.maker.remove(newest);
                return Err(not_made(name, cause));
            }
            *newest = file_name;
        }
        Ok(name)
    }

    /// What the newest file is called if it begins at this instant.
    fn file_name(&self, begin_ns: i64) -> OsString {
        let time = jiff::Timestamp::from_nanosecond(begin_ns.into());
        let time = time.expect("64 bits of nanoseconds are within its range");
        let time = time.to_zoned(TimeZone::system());
        let mut file_name = self.stem.clone();
        file_name.push(format!("_{:05}_", self.number));
        file_name.push(time.strftime("%Y%m%d%H%M%S").to_string());
        file_name.push(&self.suffix);
        file_name
    }
}

fn not_made(name: String, cause: io::Error) -> PortError {
    match cause.kind() {
        ErrorKind::AlreadyExists => PortError::Exists { name },
        _ => PortError::Open { name, cause },
    }
}
