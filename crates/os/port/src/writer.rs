//! Writing frames into capture files, one or a series. The bytes of records are made by `encode`,
//! and a thread of `output` writes them.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use lineside_account::{Budget, Lease};
use lineside_frame::{Burst, Frame, FrameRef, LinkType};
use lineside_host::{FileMaker, FolderError};

use crate::encode::{self, RECORD_LEN_MAX};
use crate::output::{CHUNK_LEN, CHUNKS_MAX, Files, Message, Output};
use crate::{FRAME_LEN_MAX, Facts, Interface, Port, PortError, Rotation, Transmit};

/// What was encoded goes to the disk after this time, however little it is.
const FLUSH_NS: i64 = 1_000_000_000;

/// Interfaces of a section, as many as [`CaptureReader`](crate::CaptureReader) reads.
const INTERFACES_MAX: usize = 65_536;

/// What a [`CaptureWriter`] writes besides frames.
#[derive(Debug, Clone)]
pub struct WriterConfig {
    /// On which the chunks that wait for the disk are drawn.
    pub budget: Budget,
    /// The inputs, at their index: each file of pcapng begins with them. A frame of another input,
    /// or of another link type, describes its own before it comes.
    pub interfaces: Vec<Interface>,
    /// The program that writes, such as `lineside 0.1.0`.
    pub application: String,
    /// About the capture.
    pub comment: Option<String>,
    /// When the next file begins.
    pub rotation: Rotation,
    /// Whether a file of a rotation may replace one that is there.
    pub replaces: bool,
}

/// Writes frames into capture files, little-endian with nanoseconds: pcapng, or pcap if the name
/// ends in `.pcap`.
///
/// Frames are encoded into chunks, so that they are let go of at once; a thread writes the chunks.
/// When [8 MiB](WriterConfig::budget) wait for the disk, the caller does too. Time is what the
/// stamps and [`on_timer`](Self::on_timer) give, never backwards; chunks reach the file a second
/// after their first frame at the latest, records whole. After an error nothing more is written.
pub struct CaptureWriter {
    output: Output,
    chunk: Vec<u8>,
    format: Format,
    config: WriterConfig,
    /// `None` until a first frame shows it.
    begin_ns: Option<i64>,
    now_ns: i64,
    flushed_ns: i64,
    /// The instant at which the next file is due.
    next_ns: Option<i64>,
    file_frames: u64,
    file_bytes: u64,
    facts: Facts,
    _lease: Lease,
}

/// Why the folder of a series cannot be opened.
fn not_opened(name: &str, error: FolderError) -> PortError {
    match error {
        FolderError::Io { path, error, .. } => PortError::Open {
            name: path.display().to_string(),
            cause: { error.raw_os_error() }
                .map_or_else(|| error.kind().into(), io::Error::from_raw_os_error),
        },
        other => PortError::Unwritable {
            name: name.to_owned(),
            why: other.to_string(),
        },
    }
}

enum Format {
    /// The header is written when the link type is known.
    Pcap(Option<LinkType>),
    Pcapng(Section),
}

/// Interfaces that the section describes so far: those that were announced, whose numbers are their
/// inputs', and those that came with a frame.
#[derive(Default)]
struct Section {
    others: HashMap<(u16, LinkType), u32>,
    described: usize,
}

fn unwritable(path: &Path, why: &str) -> PortError {
    PortError::Unwritable {
        name: path.display().to_string(),
        why: why.to_owned(),
    }
}

/// The file, or the files of a rotation, which `maker` makes if there is one.
fn files(
    path: &Path,
    is_pcapng: bool,
    config: &WriterConfig,
    maker: Option<FileMaker>,
    now_ns: i64,
) -> Result<Files, PortError> {
    let name = path.display().to_string();
    if !config.rotation.turns() {
        return Files::single(path, is_pcapng);
    }
    if name == "-" {
        let why = "standard output cannot be rotated with -b: name a file";
        return Err(unwritable(path, why));
    }
    if path.file_name().is_none() || name.ends_with('/') {
        return Err(unwritable(path, "that is a folder: name a file in it"));
    }
    let maker = match maker {
        Some(maker) => maker,
        None => FileMaker::new(path, config.replaces, config.rotation.kept())
            .map_err(|error| not_opened(&name, error))?,
    };
    Files::series(path, is_pcapng, config.rotation.files, (maker, now_ns))
}

impl CaptureWriter {
    /// Makes, or replaces, the file at `path`, standard output if that is `-`. With a rotation the
    /// files are called as dumpcap does: `NAME_00001_20261121173000.pcapng` for `NAME.pcapng`,
    /// where the time is local; one that is there is [replaced](WriterConfig::replaces), or an
    /// error. `begin_ns` is when the capture begins, by the clock of the stamps; `None`: with the
    /// first frame.
    ///
    /// Starts no thread yet: the first burst does.
    pub fn create(
        path: &Path,
        config: WriterConfig,
        begin_ns: Option<i64>,
    ) -> Result<Self, PortError> {
        Self::create_by(path, config, begin_ns, None)
    }

    /// The same, where `maker` makes the files of a rotation: for a run that drops its privileges.
    pub fn create_by(
        path: &Path,
        config: WriterConfig,
        begin_ns: Option<i64>,
        maker: Option<FileMaker>,
    ) -> Result<Self, PortError> {
        let name = path.display().to_string();
        let extension = path.extension().and_then(|extension| extension.to_str());
        let is_pcapng = match extension.unwrap_or_default() {
            "gz" | "zst" | "lz4" | "xz" | "bz2" => {
                let why = "captures are written uncompressed: leave the ending away and compress \
                    them later";
                return Err(unwritable(path, why));
            }
            extension => extension != "pcap",
        };
        let holds = config.interfaces.first().map(|first| first.link_type);
        if let (false, Some(holds)) = (is_pcapng, holds) {
            let mut others = config.interfaces.iter();
            if let Some(other) = others.find(|other| other.link_type != holds) {
                return Err(PortError::mixed(&name, holds, other.link_type));
            }
        }
        let now_ns = begin_ns.unwrap_or_default();
        let needed_bytes = CHUNKS_MAX * CHUNK_LEN;
        let Some(lease) = config.budget.lease(needed_bytes) else {
            return Err(PortError::Memory { name, needed_bytes });
        };
        let files = files(path, is_pcapng, &config, maker, now_ns)?;
        let (format, format_name) = if is_pcapng {
            (Format::Pcapng(Section::default()), "pcapng")
        } else {
            (Format::Pcap(holds), "pcap, little-endian, nanoseconds")
        };
        let mut writer = Self {
            output: Output::Ready(Box::new(files)),
            chunk: Vec::with_capacity(CHUNK_LEN),
            format,
            config,
            begin_ns,
            now_ns,
            flushed_ns: now_ns,
            next_ns: None,
            file_frames: 0,
            file_bytes: 0,
            facts: Facts {
                name,
                format: format_name.to_owned(),
                ..Facts::default()
            },
            _lease: lease,
        };
        writer.begin_file()?;
        Ok(writer)
    }

    /// The first file, as long as no burst was written: to be given to the user that the process
    /// becomes.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        match &self.output {
            Output::Ready(files) => Some(files.file()),
            Output::Running(_) | Output::Ended => None,
        }
    }

    /// Takes over an announced input's figures: the latest ones end each file of pcapng.
    pub fn set_figures(&mut self, input: usize, figures: &Interface) {
        if let Some(interface) = self.config.interfaces.get_mut(input) {
            interface.received = figures.received;
            interface.dropped = figures.dropped;
            interface.dropped_by_system = figures.dropped_by_system;
        }
    }

    /// Writes frames and leaves them where they are.
    pub fn write(&mut self, frames: &[Frame]) -> Result<(), PortError> {
        frames
            .iter()
            .try_for_each(|frame| self.write_frame(frame))?;
        self.on_timer(self.now_ns)
    }

    /// To be called at least once a second while no frames come: files end and bytes go to the disk
    /// when it is time.
    pub fn on_timer(&mut self, now_ns: i64) -> Result<(), PortError> {
        self.now_ns = self.now_ns.max(now_ns);
        if self.next_ns.is_some_and(|next_ns| self.now_ns >= next_ns) {
            self.next_file()?;
        }
        if self.now_ns.saturating_sub(self.flushed_ns) >= FLUSH_NS {
            self.send_chunk()?;
        }
        Ok(())
    }

    /// Ends the file and waits until it is written. Dropping does so too, but cannot report an
    /// error.
    pub fn finish(mut self) -> Result<(), PortError> {
        self.close()
    }

    fn close(&mut self) -> Result<(), PortError> {
        if let Output::Ended = self.output {
            return Ok(());
        }
        let ended = self.end_file();
        let finished = self.output.finish();
        ended.and(finished)
    }

    fn write_frame(&mut self, frame: &FrameRef) -> Result<(), PortError> {
        if let Output::Ended = self.output {
            return Err(PortError::Ended {
                name: self.facts.name.clone(),
            });
        }
        let descriptor = frame.descriptor();
        let mut left = FRAME_LEN_MAX;
        let parts = frame.parts().map(|bytes| {
            let kept = &bytes[..bytes.len().min(left)];
            left -= kept.len();
            kept
        });
        let len = FRAME_LEN_MAX - left;
        let wire_len = descriptor.wire_len.max(len as u32);
        let key = (descriptor.input, descriptor.link_type);
        if let Format::Pcap(Some(holds)) = self.format
            && holds != descriptor.link_type
        {
            return Err(PortError::mixed(&self.facts.name, holds, key.1));
        }
        if let Some(stamp_ns) = descriptor.stamp_ns {
            if self.begin_ns.is_none() {
                self.begin(stamp_ns)?;
            }
            self.now_ns = self.now_ns.max(stamp_ns);
            if self.next_ns.is_some_and(|next_ns| self.now_ns >= next_ns) {
                self.next_file()?;
            }
        }
        let id = self.describe(key)?;
        self.make_room(RECORD_LEN_MAX + len)?;
        let before = self.chunk.len();
        let encode = |chunk: &mut Vec<u8>| match self.format {
            Format::Pcap(_) => encode::pcap_record(chunk, descriptor.stamp_ns, wire_len, parts),
            Format::Pcapng(_) => {
                encode::enhanced_packet(chunk, id, descriptor.stamp_ns, wire_len, parts)
            }
        };
        let fits = encode(&mut self.chunk);
        self.facts.frames += 1;
        self.file_frames += 1;
        self.count_bytes(before);
        if !fits && self.facts.warnings.is_empty() {
            let from = match self.format {
                Format::Pcap(_) => "from 1970 to 2106",
                Format::Pcapng(_) => "since 1970",
            };
            self.facts.warnings.push(format!(
                "'{}' holds stamps {from}: the others, first that of frame {}, are written as 0",
                self.facts.name, self.facts.frames
            ));
        }
        let Rotation {
            file_bytes,
            packets,
            ..
        } = self.config.rotation;
        let is_full = packets.is_some_and(|packets| self.file_frames >= packets)
            || file_bytes.is_some_and(|bytes| self.file_bytes >= bytes);
        if is_full { self.next_file() } else { Ok(()) }
    }

    /// The first stamp of a capture of which it was not known when it begins.
    fn begin(&mut self, stamp_ns: i64) -> Result<(), PortError> {
        self.begin_ns = Some(stamp_ns);
        (self.now_ns, self.flushed_ns) = (stamp_ns, stamp_ns);
        self.next_ns = self.due_ns();
        match &mut self.output {
            Output::Ready(files) => files.rename_first(stamp_ns),
            Output::Running(_) | Output::Ended => Ok(()),
        }
    }

    /// The number of the frame's interface in the section; describes it if that is not done.
    fn describe(&mut self, key: (u16, LinkType)) -> Result<u32, PortError> {
        let announced = self.config.interfaces.get(usize::from(key.0));
        match &self.format {
            Format::Pcap(Some(_)) => return Ok(0),
            Format::Pcap(None) => return self.begin_pcap(key.1).map(|()| 0),
            Format::Pcapng(_) if announced.is_some_and(|input| input.link_type == key.1) => {
                return Ok(key.0.into());
            }
            Format::Pcapng(section) => {
                if let Some(&id) = section.others.get(&key) {
                    return Ok(id);
                }
            }
        }
        let interface = Interface {
            name: announced.and_then(|announced| announced.name.clone()),
            link_type: key.1,
            snap_len: announced.map_or(0, |announced| announced.snap_len),
            ..Interface::default()
        };
        if let Format::Pcapng(section) = &self.format
            && section.described >= INTERFACES_MAX
        {
            self.end_section()?;
            self.begin_section()?;
        }
        let id = self.write_interface(&interface)?;
        if let Format::Pcapng(section) = &mut self.format {
            section.others.insert(key, id);
        }
        Ok(id)
    }

    fn write_interface(&mut self, interface: &Interface) -> Result<u32, PortError> {
        self.facts.note_link_type(interface.link_type);
        self.make_room(CHUNK_LEN / 2)?;
        let before = self.chunk.len();
        encode::interface(&mut self.chunk, interface);
        self.count_bytes(before);
        let Format::Pcapng(section) = &mut self.format else {
            return Ok(0);
        };
        section.described += 1;
        Ok(section.described as u32 - 1)
    }

    /// Writes the header, alone.
    fn begin_pcap(&mut self, link_type: LinkType) -> Result<(), PortError> {
        self.format = Format::Pcap(Some(link_type));
        self.facts.note_link_type(link_type);
        let first = self.config.interfaces.first();
        let snap_len = first.map_or(0, |interface| interface.snap_len);
        encode::pcap_header(&mut self.chunk, link_type, snap_len);
        self.count_bytes(0);
        self.send_chunk()
    }

    fn next_file(&mut self) -> Result<(), PortError> {
        self.end_file()?;
        self.output.send(Message::Next(self.now_ns))?;
        self.begin_file()
    }

    fn begin_file(&mut self) -> Result<(), PortError> {
        self.file_frames = 0;
        self.file_bytes = 0;
        self.next_ns = self.begin_ns.and_then(|_| self.due_ns());
        match self.format {
            Format::Pcap(None) => Ok(()),
            Format::Pcap(Some(link_type)) => self.begin_pcap(link_type),
            // The next file is one from its beginning.
            Format::Pcapng(_) => self.begin_section().and_then(|()| self.send_chunk()),
        }
    }

    /// When the file that begins now ends for its time.
    fn due_ns(&self) -> Option<i64> {
        let Rotation {
            duration_ns,
            interval_ns,
            ..
        } = self.config.rotation;
        let after = duration_ns.and_then(|duration| self.now_ns.checked_add_unsigned(duration));
        let multiple = interval_ns.and_then(|interval_ns| {
            let interval_ns = interval_ns.cast_signed();
            let passed = self.now_ns.div_euclid(interval_ns);
            passed.checked_add(1)?.checked_mul(interval_ns)
        });
        after.into_iter().chain(multiple).min()
    }

    fn begin_section(&mut self) -> Result<(), PortError> {
        self.format = Format::Pcapng(Section::default());
        self.make_room(CHUNK_LEN / 2)?;
        let before = self.chunk.len();
        let comment = self.config.comment.as_deref();
        encode::section(&mut self.chunk, &self.config.application, comment);
        self.count_bytes(before);
        let interfaces = std::mem::take(&mut self.config.interfaces);
        let mut each = interfaces.iter();
        let outcome = each.try_for_each(|interface| self.write_interface(interface).map(drop));
        self.config.interfaces = interfaces;
        outcome
    }

    fn end_file(&mut self) -> Result<(), PortError> {
        match self.format {
            // No frame ever showed a link type: an empty capture, still one that can be opened.
            Format::Pcap(None) => self.begin_pcap(LinkType::ETHERNET)?,
            Format::Pcap(Some(_)) => {}
            Format::Pcapng(_) => self.end_section()?,
        }
        self.send_chunk()
    }

    fn end_section(&mut self) -> Result<(), PortError> {
        for id in 0..self.config.interfaces.len() {
            self.make_room(RECORD_LEN_MAX)?;
            let (interface, before) = (&self.config.interfaces[id], self.chunk.len());
            let begin_ns = self.begin_ns.unwrap_or_default();
            let end_ns = self.now_ns;
            encode::statistics(&mut self.chunk, id as u32, interface, begin_ns, end_ns);
            self.count_bytes(before);
        }
        Ok(())
    }

    fn count_bytes(&mut self, before: usize) {
        let len = (self.chunk.len() - before) as u64;
        self.file_bytes += len;
        self.facts.bytes += len;
    }

    fn make_room(&mut self, len: usize) -> Result<(), PortError> {
        if self.chunk.len() + len > CHUNK_LEN {
            self.send_chunk()?;
        }
        Ok(())
    }

    fn send_chunk(&mut self) -> Result<(), PortError> {
        self.flushed_ns = self.now_ns;
        if self.chunk.is_empty() {
            return Ok(());
        }
        match &mut self.output {
            // What a file begins with, before there are frames, needs no thread.
            Output::Ready(files) if self.facts.frames == 0 => {
                files.write(&self.chunk)?;
                self.chunk.clear();
                Ok(())
            }
            output => output.send_chunk(&mut self.chunk),
        }
    }
}

impl Port for CaptureWriter {
    fn facts(&self) -> Vec<&Facts> {
        vec![&self.facts]
    }
}

impl Transmit for CaptureWriter {
    /// Takes all frames. After an error those that were encoded are gone from `burst`.
    fn transmit(&mut self, burst: &mut Burst) -> Result<usize, PortError> {
        let mut count = 0;
        let outcome = burst.iter().try_for_each(|frame| {
            self.write_frame(frame)?;
            count += 1;
            Ok(())
        });
        burst.drain(..count);
        outcome.and_then(|()| self.on_timer(self.now_ns))?;
        Ok(count)
    }

    /// Bytes are copied in [`transmit`](Transmit::transmit), which lets go of the slots itself.
    fn reclaim(&mut self) -> usize {
        0
    }

    /// No: a file has no driver.
    fn stamp_next(&mut self) -> bool {
        false
    }

    fn handed_over(&mut self) -> Option<Option<i64>> {
        None
    }
}

impl Drop for CaptureWriter {
    fn drop(&mut self) {
        // Whoever wants to know calls `finish`.
        let _ = self.close();
    }
}
