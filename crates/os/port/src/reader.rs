//! Reading capture files.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lineside_account::Budget;
use lineside_frame::{Burst, Descriptor};

use crate::blocks::{Filling, Purpose};
use crate::erf;
use crate::foreign::foreign;
use crate::pcap::{FILE_HEADER_LEN, Pcap};
use crate::pcapng::{Pcapng, SECTION_HEADER};
use crate::record::{Order, Record, Step};
use crate::source::{Compression, Counted, Source, Waiting, decompressed};
use crate::{Facts, Place, PoolConfig, Port, PortError, Receive, Received};

/// Reads frames from a pcap or pcapng file, plain or compressed with gzip, zstd, xz or lz4.
///
/// It reads what there is into a block of its pool and cuts frames off it; when a record does not
/// fit into the rest of the block, what has come of it moves to the next one.
pub struct CaptureReader {
    source: Source,
    /// Bytes read from the file itself, also by a decompressing thread.
    count: Arc<AtomicU64>,
    compression: Option<Compression>,
    blocks: Filling,
    format: Format,
    /// Where in the (decompressed) capture the ready bytes of the block begin.
    offset: u64,
    skip_left: usize,
    ended: bool,
    is_following: bool,
    facts: Facts,
}

enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
    Erf,
}

/// Bytes from which a file is recognised that is no capture: tar's mark lies at 257.
const FOREIGN_LEN: usize = 512;

/// Compressed bytes that are read at once for a file's first frame.
const LOOK_LEN: u64 = 4096;

enum Filled {
    Some,
    End,
    PoolEmpty,
    Interrupted,
}

impl CaptureReader {
    /// Opens the file at `path`, standard input if that is `-`, and reads the file's header.
    pub fn open(path: &Path, pool: &PoolConfig) -> Result<Self, PortError> {
        let name = path.display().to_string();
        Self::of_file(Self::open_file(path)?, &name, pool)
    }

    /// The first half of [`open`](Self::open), for a process that drops its privileges before it
    /// reads.
    pub fn open_file(path: &Path) -> Result<File, PortError> {
        let opened = if path.as_os_str() == "-" {
            // The handle itself, since `Stdin` has a buffer of its own.
            io::stdin().as_fd().try_clone_to_owned().map(File::from)
        } else {
            File::open(path)
        };
        opened.map_err(|cause| PortError::Open {
            name: path.display().to_string(),
            cause,
        })
    }

    /// The second half: reads the header of an open file, from where it stands; `name` is for
    /// messages.
    pub fn of_file(file: File, name: &str, pool: &PoolConfig) -> Result<Self, PortError> {
        Self::of_shared(&Arc::new(file), name, pool, None)
    }

    /// As [`of_file`](Self::of_file), of a file that others look at, too. With `look_len` nothing
    /// but the first frame is to be read, of a regular file of this many bytes.
    pub(crate) fn of_shared(
        file: &Arc<File>,
        name: &str,
        pool: &PoolConfig,
        look_len: Option<u64>,
    ) -> Result<Self, PortError> {
        if look_len.is_some() {
            let source = Box::new(Arc::clone(file));
            return Self::begin(source, name, pool, Purpose::Look, look_len);
        }
        let metadata = file.metadata().map_err(|cause| PortError::Open {
            name: name.to_owned(),
            cause,
        })?;
        if metadata.is_dir() {
            let name = name.to_owned();
            return Err(PortError::Folder { name });
        }
        let is_file = metadata.is_file();
        let source: Source = if is_file {
            Box::new(Arc::clone(file))
        } else {
            Box::new(Waiting(Arc::clone(file)))
        };
        let bytes_total = is_file.then_some(metadata.len());
        let purpose = Purpose::Read(bytes_total);
        Self::begin(source, name, pool, purpose, bytes_total)
    }

    /// Reads the header of a capture from anything; `name` is for messages.
    pub fn new(
        source: Box<dyn Read + Send>,
        name: &str,
        pool: &PoolConfig,
    ) -> Result<Self, PortError> {
        Self::begin(source, name, pool, Purpose::Read(None), None)
    }

    fn begin(
        source: Source,
        name: &str,
        pool: &PoolConfig,
        purpose: Purpose,
        bytes_total: Option<u64>,
    ) -> Result<Self, PortError> {
        let blocks = pool.open(name, purpose)?;
        let count = Arc::new(AtomicU64::new(0));
        let counted = Counted {
            source,
            count: Arc::clone(&count),
        };
        let mut reader = Self {
            source: Box::new(counted),
            count,
            compression: None,
            blocks,
            format: Format::Pcapng(Pcapng::new()),
            offset: 0,
            skip_left: 0,
            ended: false,
            is_following: false,
            facts: Facts {
                name: name.to_owned(),
                bytes_total,
                ..Facts::default()
            },
        };
        reader.read_header(FILE_HEADER_LEN)?;
        if let Some(compression) = Compression::detect(reader.blocks.writer.ready()) {
            let len = match purpose {
                Purpose::Look => Some(LOOK_LEN),
                Purpose::Read(len) => len,
            };
            reader.decompress(compression, &pool.budget, len)?;
            reader.read_header(FILE_HEADER_LEN)?;
        }
        reader.on_header()?;
        Ok(reader)
    }

    /// While it is set, the end of the file does not end the port: it is idle there, until more has
    /// been written.
    pub(crate) fn set_following(&mut self, is_following: bool) {
        self.is_following = is_following;
    }

    pub(crate) fn is_compressed(&self) -> bool {
        self.compression.is_some()
    }

    pub(crate) fn own_facts(&self) -> &Facts {
        &self.facts
    }

    pub(crate) fn own_facts_mut(&mut self) -> &mut Facts {
        &mut self.facts
    }

    /// Makes so many bytes ready, or all there are.
    fn read_header(&mut self, len: usize) -> Result<(), PortError> {
        while self.blocks.writer.ready().len() < len {
            match self.fill(len)? {
                Filled::Some | Filled::Interrupted => {}
                Filled::End | Filled::PoolEmpty => break,
            }
        }
        Ok(())
    }

    /// Goes on with the decompressed bytes. Those of the compressed file that were read already
    /// come first to the decompressor.
    fn decompress(
        &mut self,
        compression: Compression,
        budget: &Budget,
        len: Option<u64>,
    ) -> Result<(), PortError> {
        let begin = io::Cursor::new(self.blocks.writer.ready().to_vec());
        self.blocks.writer.skip(self.blocks.writer.ready().len());
        let rest = std::mem::replace(&mut self.source, Box::new(io::empty()));
        let source = begin.chain(rest);
        self.source = decompressed(source, compression, &self.facts.name, budget, len)?;
        self.compression = Some(compression);
        self.facts.compression = Some(compression.name());
        Ok(())
    }

    fn on_header(&mut self) -> Result<(), PortError> {
        let ready = self.blocks.writer.ready();
        let name = &self.facts.name;
        if ready.is_empty() && self.facts.warnings.is_empty() {
            return Err(PortError::Empty { name: name.clone() });
        }
        let mut header = [0; FILE_HEADER_LEN];
        let len = ready.len().min(FILE_HEADER_LEN);
        header[..len].copy_from_slice(&ready[..len]);
        // Its four bytes read the same both ways.
        let is_pcapng = header.starts_with(&SECTION_HEADER.to_be_bytes());
        let pcap = Pcap::new(&header);
        if len >= 4 && pcap.is_none() && !is_pcapng {
            return self.on_other_header();
        }
        if len < FILE_HEADER_LEN {
            return Err(PortError::HeaderCut {
                name: name.clone(),
                len: len as u64,
            });
        }
        let Some(pcap) = pcap else {
            self.facts.format = "pcapng".to_owned();
            return Ok(());
        };
        self.facts.format = format!(
            "pcap, {}, {}",
            match pcap.order {
                Order::Little => "little-endian",
                Order::Big => "big-endian",
            },
            match pcap.unit_ns {
                1 => "nanoseconds",
                _ => "microseconds",
            }
        );
        self.facts.resolution_ns = Some(pcap.unit_ns.cast_unsigned());
        self.facts.note_link_type(pcap.link_type);
        self.format = Format::Pcap(pcap);
        self.skip(FILE_HEADER_LEN);
        self.skip_left = pcap.more_len;
        Ok(())
    }

    /// A file that is neither pcap nor pcapng.
    #[cold]
    fn on_other_header(&mut self) -> Result<(), PortError> {
        self.read_header(FOREIGN_LEN)?;
        let ready = self.blocks.writer.ready();
        let begin = &ready[..ready.len().min(FOREIGN_LEN)];
        if let Some(error) = foreign(&self.facts.name, begin) {
            return Err(error);
        }
        self.facts.format = "ERF".to_owned();
        self.facts.resolution_ns = Some(1);
        self.format = Format::Erf;
        Ok(())
    }

    /// Cuts frames off what is ready until the burst has `len_max`. `Some` is how many bytes must
    /// be ready before there is another one.
    fn cut(&mut self, burst: &mut Burst, len_max: usize) -> Result<Option<usize>, PortError> {
        while burst.len() < len_max {
            if self.skip_left > 0 {
                let len = self.skip_left.min(self.blocks.writer.ready().len());
                self.skip_left -= len;
                self.skip(len);
                if self.skip_left > 0 {
                    return Ok(Some(1));
                }
            }
            let ready = self.blocks.writer.ready();
            let need = match &mut self.format {
                Format::Pcap(pcap) => {
                    let step = pcap.step(ready, &mut self.facts);
                    self.on_step(step, 0, burst)?
                }
                Format::Pcapng(pcapng) => {
                    let step = pcapng.step(ready, &mut self.facts);
                    let numbered = pcapng.numbered;
                    self.on_step(step, numbered, burst)?
                }
                Format::Erf => {
                    let step = erf::step(ready, &mut self.facts);
                    self.on_step(step, 0, burst)?
                }
            };
            if need.is_some() {
                return Ok(need);
            }
        }
        Ok(None)
    }

    /// `numbered`: records so far that are no frames and that Wireshark numbers as if they were.
    #[inline(always)]
    fn on_step(
        &mut self,
        step: Result<Step, String>,
        numbered: u64,
        burst: &mut Burst,
    ) -> Result<Option<usize>, PortError> {
        match step {
            Ok(Step::Frame(record)) => self.take(&record, numbered, burst),
            Ok(Step::Need(len)) => return Ok(Some(len)),
            Ok(Step::Skip(len)) => self.skip_left = len,
            Err(what) => {
                return Err(PortError::Damaged {
                    place: self.place(),
                    what,
                    frames: self.facts.frames,
                });
            }
        }
        Ok(None)
    }

    #[inline(always)]
    fn take(&mut self, record: &Record, numbered: u64, burst: &mut Burst) {
        self.facts.frames += 1;
        let descriptor = Descriptor {
            stamp_ns: record.stamp_ns,
            // Some writers leave the length on the wire smaller than what they kept.
            wire_len: record.wire_len.max(record.len as u32),
            link_type: record.link_type,
            interface: record.interface,
            number: self.facts.frames + numbered,
            damaged: record.damaged,
            ..Descriptor::default()
        };
        let end = record.before + record.len;
        let len = end + record.behind;
        burst.push(self.blocks.writer.cut(record.before..end, len, descriptor));
        self.offset += len as u64;
    }

    fn skip(&mut self, len: usize) {
        self.blocks.writer.skip(len);
        self.offset += len as u64;
    }

    /// Reads what there is, in a block that has room for `need` bytes from the first ready one.
    fn fill(&mut self, need: usize) -> Result<Filled, PortError> {
        let ready_len = self.blocks.writer.ready().len();
        let room = ready_len + self.blocks.writer.unfilled().len();
        if room < need.max(ready_len + 1) && !self.blocks.make_room(need, &self.facts.name)? {
            return Ok(Filled::PoolEmpty);
        }
        let read = self.source.read(self.blocks.writer.unfilled());
        self.facts.bytes = self.count.load(Ordering::Relaxed);
        match read {
            Ok(0) => Ok(Filled::End),
            Ok(len) => {
                self.blocks.writer.advance(len);
                Ok(Filled::Some)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Filled::Interrupted),
            Err(cause) => self.on_read_error(cause),
        }
    }

    #[cold]
    fn on_read_error(&mut self, cause: io::Error) -> Result<Filled, PortError> {
        let place = Place {
            offset: self.offset + self.blocks.writer.ready().len() as u64,
            ..self.place()
        };
        let Some(compression) = self.compression else {
            return Err(PortError::Read { place, cause });
        };
        if cause.kind() == io::ErrorKind::UnexpectedEof {
            self.facts.warnings.push(format!(
                "{place} the {} data are cut: what they held before was read",
                compression.name()
            ));
            return Ok(Filled::End);
        }
        Err(PortError::Decompress {
            place,
            cause,
            tool: compression.tool(),
        })
    }

    fn on_end(&mut self) {
        self.ended = true;
        let is_whole = match &self.format {
            Format::Pcap(_) | Format::Erf => true,
            Format::Pcapng(pcapng) => pcapng.is_between_blocks(),
        };
        if !self.blocks.writer.ready().is_empty() || self.skip_left > 0 || !is_whole {
            self.facts.warnings.push(format!(
                "{} is cut in its last record: the {} frames before it were read",
                self.place(),
                self.facts.frames
            ));
        }
    }

    fn place(&self) -> Place {
        Place {
            name: self.facts.name.clone(),
            offset: self.offset,
            decompressed: self.compression.is_some(),
        }
    }
}

impl Port for CaptureReader {
    fn facts(&self) -> Vec<&Facts> {
        vec![&self.facts]
    }

    fn facts_of(&self, input: usize) -> Option<&Facts> {
        Some(&self.facts).filter(|_| input == 0)
    }
}

impl Receive for CaptureReader {
    fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        let before = burst.len();
        while !self.ended {
            let cut = self.cut(burst, before + max);
            let count = burst.len() - before;
            let need = match cut {
                Ok(None) => return Ok(Received::Frames(count)),
                // An error comes again, at the next call, when what lies before it is delivered.
                Ok(Some(_)) | Err(_) if count > 0 => return Ok(Received::Frames(count)),
                Ok(Some(need)) => need,
                Err(error) => {
                    self.ended = true;
                    return Err(error);
                }
            };
            match self.fill(need).inspect_err(|_| self.ended = true)? {
                Filled::Some => {}
                Filled::End if self.is_following => {
                    return Ok(Received::Idle { until_ns: i64::MIN });
                }
                Filled::End => self.on_end(),
                Filled::PoolEmpty => return Ok(Received::PoolEmpty),
                Filled::Interrupted => return Ok(Received::Interrupted),
            }
        }
        Ok(Received::End)
    }

    fn leave(&mut self, ahead: &mut Burst) {
        self.facts.take_back(ahead);
    }
}
