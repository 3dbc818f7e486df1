//! Writing captures by hand, and reading them in one go.

use std::io::{self, Read};
use std::path::Path;

use lineside_account::Budget;
use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_port::{
    BLOCK_LEN, CaptureReader, CaptureWriter, Facts, PoolConfig, Port, PortError, Receive, Received,
    Rotation, WriterConfig,
};

/// What a test compares of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) stamp_ns: Option<i64>,
    pub(crate) wire_len: u32,
    pub(crate) link_type: u16,
    pub(crate) bytes: Vec<u8>,
}

impl Expected {
    pub(crate) fn of(frame: &Frame) -> Self {
        let descriptor = frame.descriptor();
        Self {
            stamp_ns: descriptor.stamp_ns,
            wire_len: descriptor.wire_len,
            link_type: descriptor.link_type.0,
            bytes: frame.bytes().to_vec(),
        }
    }

    /// A frame as this one is to be, from an input.
    pub(crate) fn frame(&self, input: u16) -> Frame {
        let descriptor = Descriptor {
            stamp_ns: self.stamp_ns,
            wire_len: self.wire_len,
            link_type: LinkType(self.link_type),
            input,
            ..Descriptor::default()
        };
        Frame::copied(&self.bytes, descriptor)
    }
}

/// Everything that came of a capture.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) frames: Vec<Expected>,
    pub(crate) facts: Facts,
    pub(crate) error: Option<PortError>,
}

impl Outcome {
    /// The frames of a capture in which nothing is wrong.
    pub(crate) fn clean(self) -> Vec<Expected> {
        assert!(self.error.is_none(), "{:?}", self.error);
        assert!(self.facts.warnings.is_empty(), "{:?}", self.facts.warnings);
        self.frames
    }
}

/// What a capture is written with: nothing announced, and these words of `-b`.
pub(crate) fn writer_config(rotation: &[&str]) -> WriterConfig {
    WriterConfig {
        budget: Budget::new(64 << 20),
        interfaces: Vec::new(),
        application: "test".to_owned(),
        comment: None,
        rotation: Rotation::parse(rotation).expect("known words"),
        replaces: false,
    }
}

/// A writer that begins at the epoch.
pub(crate) fn writer(path: &Path, rotation: &[&str]) -> CaptureWriter {
    CaptureWriter::create(path, writer_config(rotation), Some(0)).expect("a folder")
}

pub(crate) fn pool() -> PoolConfig {
    PoolConfig::new(Budget::new(64 << 20), 2 * BLOCK_LEN)
}

/// Reads all of `source`, in bursts of `max`; checks numbers and that the budget comes back.
pub(crate) fn read_from(source: Box<dyn Read + Send>, max: usize) -> Outcome {
    let pool = pool();
    let mut outcome = Outcome {
        frames: Vec::new(),
        facts: Facts::default(),
        error: None,
    };
    match CaptureReader::new(source, "test", &pool) {
        Ok(mut reader) => {
            let mut last = 0;
            outcome.error = drain(&mut reader, max, |frame| {
                // Blocks that are no frames may have numbers too.
                let number = frame.descriptor().number;
                let least = last.max(outcome.frames.len() as u64) + 1;
                assert!(number >= least, "{number} after {last}");
                last = number;
                outcome.frames.push(Expected::of(frame));
            });
            outcome.facts = reader.facts()[0].clone();
            assert_eq!(outcome.facts.frames, outcome.frames.len() as u64);
        }
        Err(error) => outcome.error = Some(error),
    }
    let budget = pool.budget.clone();
    drop(pool);
    assert_eq!(budget.used_bytes(), 0);
    outcome
}

pub(crate) fn read(bytes: &[u8]) -> Outcome {
    read_from(Box::new(io::Cursor::new(bytes.to_vec())), 32)
}

/// Gives frames to `each` until the end or an error, after which there must be an end.
pub(crate) fn drain(
    port: &mut dyn Receive,
    max: usize,
    mut each: impl FnMut(&Frame),
) -> Option<PortError> {
    let mut burst = Burst::new();
    loop {
        match port.receive(&mut burst, max) {
            Ok(Received::Frames(count)) => {
                assert!(count == burst.len() && (1..=max).contains(&count));
                burst.drain(..).for_each(|frame| each(&frame));
            }
            Ok(Received::End) => return None,
            Ok(Received::Interrupted) => {}
            Ok(Received::PoolEmpty) => panic!("nothing is held"),
            Ok(Received::Idle { .. }) => panic!("a file is never idle"),
            Err(error) => {
                assert!(burst.is_empty());
                assert_eq!(
                    port.receive(&mut burst, max).expect("once is enough"),
                    Received::End
                );
                return Some(error);
            }
        }
    }
}

/// A reader that returns one byte at a time, and is interrupted before each.
pub(crate) struct Dripping {
    bytes: Vec<u8>,
    read: usize,
    interrupted: bool,
}

impl Dripping {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            read: 0,
            interrupted: false,
        }
    }
}

impl Read for Dripping {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.interrupted = !self.interrupted;
        if self.interrupted {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match self.bytes.get(self.read) {
            Some(&byte) => {
                buffer[0] = byte;
                self.read += 1;
                Ok(1)
            }
            None => Ok(0),
        }
    }
}

/// Writes numbers in the byte order of a file.
pub(crate) struct Bytes {
    pub(crate) is_big: bool,
    pub(crate) bytes: Vec<u8>,
}

impl Bytes {
    pub(crate) fn new(is_big: bool) -> Self {
        Self {
            is_big,
            bytes: Vec::new(),
        }
    }

    pub(crate) fn u16(&mut self, value: u16) {
        let bytes = if self.is_big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        };
        self.bytes.extend(bytes);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        let bytes = if self.is_big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        };
        self.bytes.extend(bytes);
    }

    pub(crate) fn u64(&mut self, value: u64) {
        let bytes = if self.is_big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        };
        self.bytes.extend(bytes);
    }

    pub(crate) fn padded(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    pub(crate) fn option(&mut self, code: u16, value: &[u8]) {
        self.u16(code);
        self.u16(value.len() as u16);
        self.padded(value);
    }

    /// A pcapng block around what `body` writes.
    pub(crate) fn block(&mut self, kind: u32, body: impl FnOnce(&mut Self)) {
        let mut inner = Self::new(self.is_big);
        body(&mut inner);
        let len = 12 + inner.bytes.len() as u32;
        self.u32(kind);
        self.u32(len);
        self.bytes.extend(inner.bytes);
        self.u32(len);
    }

    pub(crate) fn section(&mut self) {
        self.block(0x0a0d_0d0a, |body| {
            body.u32(0x1a2b_3c4d);
            body.u16(1);
            body.u16(0);
            body.u64(u64::MAX);
        });
    }

    pub(crate) fn interface(
        &mut self,
        link_type: u16,
        snap_len: u32,
        options: impl FnOnce(&mut Self),
    ) {
        self.block(1, |body| {
            body.u16(link_type);
            body.u16(0);
            body.u32(snap_len);
            options(body);
        });
    }

    pub(crate) fn enhanced(&mut self, interface: u32, ticks: u64, wire_len: u32, bytes: &[u8]) {
        self.block(6, |body| {
            body.u32(interface);
            body.u32((ticks >> 32) as u32);
            body.u32(ticks as u32);
            body.u32(bytes.len() as u32);
            body.u32(wire_len);
            body.padded(bytes);
        });
    }

    pub(crate) fn pcap_header(&mut self, magic: u32, link_type: u32) {
        self.u32(magic);
        self.u16(2);
        self.u16(4);
        self.u64(0);
        self.u32(65_535);
        self.u32(link_type);
    }

    pub(crate) fn pcap_record(&mut self, seconds: u32, fraction: u32, wire_len: u32, bytes: &[u8]) {
        self.u32(seconds);
        self.u32(fraction);
        self.u32(bytes.len() as u32);
        self.u32(wire_len);
        self.bytes.extend(bytes);
    }
}

/// A little-endian microsecond pcap of Ethernet frames of these lengths, a millisecond apart.
pub(crate) fn pcap_of(lens: &[usize]) -> Vec<u8> {
    let mut file = Bytes::new(false);
    file.pcap_header(0xa1b2_c3d4, 1);
    for (index, &len) in lens.iter().enumerate() {
        let (seconds, fraction) = (7 + index as u32 / 1000, index as u32 % 1000 * 1000);
        file.pcap_record(seconds, fraction, len as u32, &vec![index as u8; len]);
    }
    file.bytes
}

/// A pcapng of Ethernet frames of these lengths, with an unknown block between them.
pub(crate) fn pcapng_of(lens: &[usize]) -> Vec<u8> {
    let mut file = Bytes::new(true);
    file.section();
    file.interface(1, 0, |_| {});
    for (index, &len) in lens.iter().enumerate() {
        file.enhanced(
            0,
            7_000_000 + index as u64 * 1000,
            len as u32,
            &vec![index as u8; len],
        );
        file.block(0xbad, |body| body.u32(5));
    }
    file.bytes
}
