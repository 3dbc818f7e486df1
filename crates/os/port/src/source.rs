//! The bytes of a capture: counted, and decompressed in a thread of their own.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use flate2::bufread::MultiGzDecoder;
use lineside_account::{Budget, Lease};
use lz4_flex::frame::FrameDecoder;
use lzma_rust2::XzReader;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::PortError;

/// Bytes that a thread decompresses at once. Two such buffers go round: one is filled while the
/// other is read.
const CHUNK_LEN: usize = 256 * 1024;
/// Compressed bytes that are read at once.
const COMPRESSED_LEN: usize = 128 * 1024;

/// Anything that bytes are read from.
pub(crate) type Source = Box<dyn Read + Send>;

/// Counts what is read, where another thread sees it.
pub(crate) struct Counted {
    pub(crate) source: Source,
    pub(crate) count: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.source.read(buffer)?;
        self.count.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
    }
}

/// How long a reader may be kept waiting before it can look at signals.
const ATTENTION: Duration = Duration::from_millis(100);

/// A pipe, a terminal, a socket: something that may keep its reader waiting. It waits in poll(2),
/// which a signal always ends, where read(2) would go on after a handler that asks for restarts.
pub(crate) struct Waiting(pub(crate) Arc<File>);

impl Read for Waiting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let time = Timespec::try_from(ATTENTION).expect("it fits");
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&time))? {
            0 => Err(io::ErrorKind::Interrupted.into()),
            _ => (&*self.0).read(buffer),
        }
    }
}

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    Gzip,
    Zstd {
        /// Two to this power is how far back the first frame refers.
        window_log: u32,
    },
    Xz {
        /// Bytes that the first block refers back.
        dictionary_len: usize,
    },
    Lz4 {
        /// The most bytes of a block of the first frame.
        block_len: usize,
    },
}

impl Compression {
    /// By a file's first bytes.
    pub(crate) fn detect(bytes: &[u8]) -> Option<Self> {
        match *bytes {
            [0x1f, 0x8b, 8, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ref header @ ..] => Some(Self::Zstd {
                window_log: window_log(header).unwrap_or(WINDOW_LOG_USUAL),
            }),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz {
                dictionary_len: dictionary_len(bytes).unwrap_or(DICTIONARY_LEN_USUAL),
            }),
            [0x04, 0x22, 0x4d, 0x18, _, sizes, ..] => Some(Self::Lz4 {
                block_len: lz4_block_len(sizes),
            }),
            // The format before frames: blocks of 8 MiB.
            [0x02, 0x21, 0x4c, 0x18, ..] => Some(Self::Lz4 { block_len: 8 << 20 }),
            // A skippable frame, as pzstd writes before each of its frames.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd {
                window_log: WINDOW_LOG_USUAL,
            }),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd { .. } => "zstd",
            Self::Xz { .. } => "xz",
            Self::Lz4 { .. } => "lz4",
        }
    }

    /// The command that checks a file.
    pub(crate) fn tool(self) -> &'static str {
        match self {
            Self::Gzip => "gzip -t",
            Self::Zstd { .. } => "zstd -t",
            Self::Xz { .. } => "xz -t",
            Self::Lz4 { .. } => "lz4 -t",
        }
    }

    fn window_len(self) -> usize {
        match self {
            Self::Gzip => 32 * 1024,
            Self::Zstd { window_log } => 1 << window_log,
            Self::Xz { dictionary_len } => dictionary_len + XZ_STATE_LEN,
            // One compressed, two of a frame whose blocks refer to each other, and how far those
            // do.
            Self::Lz4 { block_len } => 3 * block_len + 64 * 1024,
        }
    }
}

/// The dictionary of `xz -6`, its default: room for later streams of a file too.
const DICTIONARY_LEN_USUAL: usize = 8 << 20;
/// That of `xz -9`.
const DICTIONARY_LEN_MAX: usize = 64 << 20;
/// What a decoder holds besides.
const XZ_STATE_LEN: usize = 256 * 1024;

/// From an .xz file's first block: <https://tukaani.org/xz/xz-file-format.txt>, 3.1 and 5.3.1.
fn dictionary_len(bytes: &[u8]) -> Option<usize> {
    let (&flags, mut rest) = bytes.get(13..)?.split_first()?;
    // A number of 7 bits a byte, the last byte below 128.
    let number = |rest: &mut &[u8]| {
        let len = rest.iter().take(9).position(|byte| byte & 0x80 == 0)? + 1;
        let (number, behind) = rest.split_at(len);
        *rest = behind;
        let bits = number.iter().rev();
        Some(bits.fold(0_u64, |bits, byte| bits << 7 | u64::from(byte & 0x7f)))
    };
    let sizes = u32::from(flags & 0x40 != 0) + u32::from(flags & 0x80 != 0);
    for _ in 0..sizes {
        number(&mut rest)?;
    }
    for _ in 0..=flags & 3 {
        let (filter, len) = (number(&mut rest)?, number(&mut rest)?);
        let properties = rest.get(..usize::try_from(len).ok()?)?;
        if let (0x21, &[bits]) = (filter, properties) {
            let len = (2 | usize::from(bits & 1)) << (bits.min(40) / 2 + 11);
            return Some(len.clamp(DICTIONARY_LEN_USUAL, DICTIONARY_LEN_MAX));
        }
        rest = &rest[properties.len()..];
    }
    None
}

/// From the byte BD of an LZ4 frame: <https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md>.
fn lz4_block_len(sizes: u8) -> usize {
    // 64 KiB, 256 KiB, 1 MiB, 4 MiB; what else stands there the decoder refuses.
    1 << (2 * (sizes >> 4 & 7).clamp(4, 7) + 8)
}

/// The window of zstd's highest ordinary level (19): room for later frames of a file too.
const WINDOW_LOG_USUAL: u32 = 23;
/// More needs `--long` at both ends: zstd's own default limit.
const WINDOW_LOG_MAX: u32 = 27;

/// From a zstd frame header behind the magic number: RFC 8878, 3.1.1.1.
fn window_log(header: &[u8]) -> Option<u32> {
    let (&descriptor, rest) = header.split_first()?;
    let is_single_segment = descriptor & 0x20 != 0;
    let needed = if is_single_segment {
        // The window is the content, whose length stands behind the dictionary's identifier.
        let identifier_len = [0, 1, 2, 4][usize::from(descriptor & 3)];
        let len = 1 << (descriptor >> 6);
        let field = rest.get(identifier_len..)?.get(..len)?;
        let mut content_len = [0; 8];
        content_len[..len].copy_from_slice(field);
        // In 2 bytes the length stands less 256, which no limit here notices.
        let content_len = u64::from_le_bytes(content_len);
        u64::BITS - content_len.saturating_sub(1).leading_zeros()
    } else {
        let window = *rest.first()?;
        // The mantissa may add up to 7/8.
        10 + u32::from(window >> 3) + u32::from(window & 7 != 0)
    };
    Some(needed.clamp(WINDOW_LOG_USUAL, WINDOW_LOG_MAX))
}

/// The bytes that a compressed source holds. `len` is how many there are or, of those that nobody
/// reads on, may be read at once; `None` if nobody knows: those of few are decompressed here, where
/// a thread costs more than it saves.
pub(crate) fn decompressed(
    source: impl Read + Send + 'static,
    compression: Compression,
    name: &str,
    budget: &Budget,
    len: Option<u64>,
) -> Result<Source, PortError> {
    let few =
        { len.and_then(|len| usize::try_from(len).ok()) }.filter(|&len| len <= COMPRESSED_LEN);
    let Some(len) = few else {
        let read = Decompressed::new(source, compression, name, budget)?;
        return Ok(Box::new(read));
    };
    let lease = lease(len + compression.window_len(), name, budget)?;
    let source = BufReader::with_capacity(len.max(1), source);
    let decoder = decoder(source, compression).map_err(|cause| PortError::Open {
        name: name.to_owned(),
        cause,
    })?;
    Ok(Box::new(Here {
        decoder,
        _lease: lease,
    }))
}

fn lease(needed_bytes: usize, name: &str, budget: &Budget) -> Result<Lease, PortError> {
    budget.lease(needed_bytes).ok_or_else(|| PortError::Memory {
        name: name.to_owned(),
        needed_bytes,
    })
}

/// Decompresses as it is read.
struct Here {
    decoder: Source,
    _lease: Lease,
}

impl Read for Here {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.decoder.read(buffer)
    }
}

/// Bytes from a decompressing thread, which ends when this is dropped.
struct Decompressed {
    full: Receiver<io::Result<Vec<u8>>>,
    empty: Sender<Vec<u8>>,
    chunk: Vec<u8>,
    read: usize,
    /// The chunk was given back and the next one has not come.
    asked: bool,
    ended: bool,
    _lease: Lease,
}

impl Decompressed {
    fn new(
        source: impl Read + Send + 'static,
        compression: Compression,
        name: &str,
        budget: &Budget,
    ) -> Result<Self, PortError> {
        let needed_bytes = 2 * CHUNK_LEN + COMPRESSED_LEN + compression.window_len();
        let lease = lease(needed_bytes, name, budget)?;
        let (full_sender, full) = sync_channel(2);
        let (empty, empty_receiver) = channel();
        for _ in 0..2 {
            let _ = empty.send(Vec::new());
        }
        let source = BufReader::with_capacity(COMPRESSED_LEN, source);
        thread::Builder::new()
            .name(compression.name().to_owned())
            .spawn(move || match decoder(source, compression) {
                Ok(decoder) => decompress(decoder, &full_sender, &empty_receiver),
                Err(error) => drop(full_sender.send(Err(error))),
            })
            .map_err(|cause| PortError::Open {
                name: name.to_owned(),
                cause,
            })?;
        Ok(Self {
            full,
            empty,
            chunk: Vec::new(),
            read: 0,
            asked: false,
            ended: false,
            _lease: lease,
        })
    }
}

impl Read for Decompressed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.chunk.len() {
            if self.ended {
                return Ok(0);
            }
            if !self.asked {
                // The thread may have ended and left what it decompressed behind.
                let _ = self.empty.send(std::mem::take(&mut self.chunk));
                self.read = 0;
                self.asked = true;
            }
            self.chunk = match self.full.recv_timeout(ATTENTION) {
                Ok(chunk) => chunk.inspect_err(|_| self.ended = true)?,
                Err(RecvTimeoutError::Timeout) => return Err(io::ErrorKind::Interrupted.into()),
                Err(_) => return Err(io::Error::other("the decompressing thread is gone")),
            };
            self.asked = false;
            self.ended = self.chunk.is_empty();
        }
        let len = buffer.len().min(self.chunk.len() - self.read);
        buffer[..len].copy_from_slice(&self.chunk[self.read..][..len]);
        self.read += len;
        Ok(len)
    }
}

fn decoder(source: impl BufRead + Send + 'static, compression: Compression) -> io::Result<Source> {
    Ok(match compression {
        Compression::Gzip => Box::new(MultiGzDecoder::new(source)),
        Compression::Zstd { window_log } => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(source)?;
            decoder.window_log_max(window_log)?;
            Box::new(decoder)
        }
        Compression::Xz { .. } => {
            let limit_kib = u32::try_from(compression.window_len() / 1024).unwrap_or(u32::MAX);
            Box::new(Sips(XzReader::new_mem_limit(source, true, limit_kib)))
        }
        Compression::Lz4 { .. } => Box::new(Lz4Frames(FrameDecoder::new(source))),
    })
}

/// Reads little at once, from a decoder whose error takes what it had decoded in that call with it.
struct Sips<R>(R);

impl<R: Read> Read for Sips<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = buffer.len().min(4096);
        self.0.read(&mut buffer[..len])
    }
}

/// LZ4 frames one behind the other: a decoder ends with each.
struct Lz4Frames<R: BufRead>(FrameDecoder<R>);

impl<R: BufRead> Read for Lz4Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let len = self.0.read(buffer)?;
            if len > 0 || buffer.is_empty() || self.0.get_mut().fill_buf()?.is_empty() {
                return Ok(len);
            }
        }
    }
}

/// Sends chunks until the end, which is an empty one, an error, or no receiver.
fn decompress(
    mut decoder: Source,
    full: &SyncSender<io::Result<Vec<u8>>>,
    empty: &Receiver<Vec<u8>>,
) {
    for mut chunk in empty {
        chunk.resize(CHUNK_LEN, 0);
        let mut len = 0;
        let mut failed = None;
        while len < CHUNK_LEN {
            match decoder.read(&mut chunk[len..]) {
                Ok(0) => break,
                Ok(more) => len += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        chunk.truncate(len);
        if len > 0 || failed.is_none() {
            let is_last = len == 0;
            if full.send(Ok(chunk)).is_err() || is_last {
                return;
            }
        }
        if let Some(error) = failed {
            let _ = full.send(Err(error));
            return;
        }
    }
}
