//! The line before a chunk: its size and its extensions (RFC 9112 section 7.1), byte by byte.
//!
//! Nothing is forgiven here: what one recipient reads as the end of a line and another as part of
//! an extension is a way to smuggle (RFC 9112 section 11.2).

use crate::error::ErrorKind;
use crate::{CHUNK_DIGITS_MAX, EXTENSION_MAX};

/// Where in the line the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Digits of the size.
    Size,
    /// Whitespace before an extension.
    Space,
    /// Within an extension.
    Extension,
    /// The LF.
    End,
}

/// The size so far, and how many digits or bytes of extensions were read.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) size: &'a mut u64,
    pub(crate) count: &'a mut u16,
}

impl Line<'_> {
    /// The place after `byte`; `None`: the line is complete.
    pub(crate) fn take(&mut self, place: Place, byte: u8) -> Result<Option<Place>, ErrorKind> {
        match (place, byte) {
            (Place::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => self.digit(byte),
            (Place::Size, _) if *self.count == 0 => Err(ErrorKind::BadChunkSize),
            (Place::Size | Place::Space | Place::Extension, b'\r') => Ok(Some(Place::End)),
            (Place::Size, b';' | b' ' | b'\t') => {
                // From here on the bytes of extensions are counted.
                *self.count = 1;
                Ok(Some(match byte {
                    b';' => Place::Extension,
                    _ => Place::Space,
                }))
            }
            (Place::Space, b' ' | b'\t') => self.extension(Place::Space),
            (Place::Space, b';') => self.extension(Place::Extension),
            (Place::Extension, byte) if byte == b'\t' || byte >= b' ' && byte != 0x7f => {
                self.extension(Place::Extension)
            }
            (Place::Extension, _) => Err(ErrorKind::BadChunkExtension),
            (Place::End, b'\n') => Ok(None),
            (Place::End, _) => Err(ErrorKind::BadChunkEnd),
            (Place::Size | Place::Space, _) => Err(ErrorKind::BadChunkSize),
        }
    }

    fn digit(&mut self, byte: u8) -> Result<Option<Place>, ErrorKind> {
        let value = char::from(byte).to_digit(16).unwrap_or_default();
        *self.count += 1;
        if usize::from(*self.count) > CHUNK_DIGITS_MAX || *self.size >> 59 != 0 {
            return Err(ErrorKind::ChunkTooLarge);
        }
        *self.size = *self.size << 4 | u64::from(value);
        Ok(Some(Place::Size))
    }

    fn extension(&mut self, place: Place) -> Result<Option<Place>, ErrorKind> {
        *self.count += 1;
        match usize::from(*self.count) > EXTENSION_MAX {
            true => Err(ErrorKind::BadChunkExtension),
            false => Ok(Some(place)),
        }
    }
}
