use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use lineside_frame::{Burst, FrameRef, LinkType};

use crate::{FRAME_LEN_MAX, Facts, Place, Port, PortError, Received};

/// Bytes that are written at once.
const BUFFER_LEN: usize = 256 * 1024;

/// Writes frames into a pcap file: little-endian, nanoseconds.
pub struct CaptureWriter {
    file: BufWriter<Box<dyn Write + Send>>,
    link_type: LinkType,
    facts: Facts,
}

impl CaptureWriter {
    /// Makes, or replaces, the file at `path`; its frames will be of `link_type`.
    pub fn create(path: &Path, link_type: LinkType) -> Result<Self, PortError> {
        let name = path.display().to_string();
        match File::create(path) {
            Ok(file) => Self::new(Box::new(file), &name, link_type),
            Err(cause) => Err(PortError::Open { name, cause }),
        }
    }

    /// Writes a capture to anything; `name` is for messages.
    pub fn new(
        file: Box<dyn Write + Send>,
        name: &str,
        link_type: LinkType,
    ) -> Result<Self, PortError> {
        let mut writer = Self {
            file: BufWriter::with_capacity(BUFFER_LEN, file),
            link_type,
            facts: Facts {
                name: name.to_owned(),
                format: "pcap, little-endian, nanoseconds".to_owned(),
                link_types: vec![link_type],
                ..Facts::default()
            },
        };
        let mut header = [0; 24];
        header[..4].copy_from_slice(&0xa1b2_3c4d_u32.to_le_bytes());
        header[4..6].copy_from_slice(&2_u16.to_le_bytes());
        header[6..8].copy_from_slice(&4_u16.to_le_bytes());
        header[16..20].copy_from_slice(&(FRAME_LEN_MAX as u32).to_le_bytes());
        header[20..22].copy_from_slice(&link_type.0.to_le_bytes());
        writer.write(&header)?;
        Ok(writer)
    }

    /// Writes what is still buffered. Dropping does so too, but cannot report an error.
    pub fn finish(mut self) -> Result<(), PortError> {
        self.file.flush().map_err(|cause| self.error(cause))
    }

    fn write_frame(&mut self, frame: &FrameRef) -> Result<(), PortError> {
        let descriptor = frame.descriptor();
        if descriptor.link_type != self.link_type {
            let given = descriptor.link_type;
            return Err(PortError::mixed(&self.facts.name, self.link_type, given));
        }
        let stamp = descriptor.stamp_ns.and_then(|stamp_ns| {
            let seconds = u32::try_from(stamp_ns.div_euclid(1_000_000_000)).ok()?;
            Some((seconds, stamp_ns.rem_euclid(1_000_000_000) as u32))
        });
        if stamp.is_none() && self.facts.warnings.is_empty() {
            self.facts.warnings.push(format!(
                "'{}' holds stamps from 1970 to 2106: the others, first that of frame {}, are written as 0",
                self.facts.name,
                self.facts.frames + 1
            ));
        }
        let (seconds, fraction_ns) = stamp.unwrap_or((0, 0));
        let kept_len = frame.bytes().len() as u32;
        let mut header = [0; 16];
        for (field, value) in header.chunks_exact_mut(4).zip([
            seconds,
            fraction_ns,
            kept_len,
            descriptor.wire_len.max(kept_len),
        ]) {
            field.copy_from_slice(&value.to_le_bytes());
        }
        self.write(&header)?;
        self.write(frame.bytes())?;
        self.facts.frames += 1;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), PortError> {
        self.file
            .write_all(bytes)
            .map_err(|cause| self.error(cause))?;
        self.facts.bytes += bytes.len() as u64;
        Ok(())
    }

    fn error(&self, cause: std::io::Error) -> PortError {
        let place = Place {
            name: self.facts.name.clone(),
            offset: self.facts.bytes,
            decompressed: false,
        };
        PortError::Write { place, cause }
    }
}

impl Port for CaptureWriter {
    fn receive(&mut self, _burst: &mut Burst, _max: usize) -> Result<Received, PortError> {
        Err(PortError::TransmitsOnly {
            name: self.facts.name.clone(),
        })
    }

    /// Takes all frames. After an error those that were written are gone from `burst`.
    fn transmit(&mut self, burst: &mut Burst) -> Result<usize, PortError> {
        let mut count = 0;
        let outcome = burst.iter().try_for_each(|frame| {
            self.write_frame(frame)?;
            count += 1;
            Ok(())
        });
        burst.drain(..count);
        outcome.map(|()| count)
    }

    /// Bytes are copied in [`transmit`](Port::transmit), which lets go of the slots itself.
    fn reclaim(&mut self) -> usize {
        0
    }

    fn facts(&self) -> Vec<&Facts> {
        vec![&self.facts]
    }
}
