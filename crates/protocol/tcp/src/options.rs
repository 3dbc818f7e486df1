//! The options of segments: RFC 9293, 3.2; RFC 7323; RFC 2018.

use lineside_wire::SeqNumber;
use lineside_wire::tcp::{OPTIONS_LEN_MAX, SackBlocks, TcpOption, TcpOptions};

/// RFC 9293, 3.7.1: of peers that give none, over IPv6 and IPv4.
const MSS_DEFAULT: [u16; 2] = [1220, 536];
/// A shift that is larger counts as this: RFC 7323, 2.3.
const SCALE_MAX: u8 = 14;

/// What the options of a segment say; the last of a kind counts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Options<'a> {
    mss: Option<u16>,
    pub(crate) scale: Option<u8>,
    pub(crate) sack_permitted: bool,
    pub(crate) sack: Option<SackBlocks<'a>>,
    /// Value and echo.
    pub(crate) timestamps: Option<(u32, u32)>,
    pub(crate) malformed: bool,
}

impl<'a> Options<'a> {
    /// Reads the options of a header.
    #[inline]
    pub(crate) fn read(bytes: &'a [u8]) -> Self {
        if let Ok(bytes) = <&[u8; 12]>::try_from(bytes)
            && let Some(timestamps) = timestamps_alone(bytes)
        {
            return Self {
                timestamps: Some(timestamps),
                ..Self::default()
            };
        }
        let mut read = Self::default();
        for option in TcpOptions::new(bytes) {
            match option {
                Ok(TcpOption::Mss(mss)) => read.mss = Some(mss),
                Ok(TcpOption::WindowScale(scale)) => read.scale = Some(scale.min(SCALE_MAX)),
                Ok(TcpOption::SackPermitted) => read.sack_permitted = true,
                Ok(TcpOption::Sack(blocks)) => read.sack = Some(blocks),
                Ok(TcpOption::Timestamps { value, echo }) => read.timestamps = Some((value, echo)),
                Err(_) => read.malformed = true,
            }
        }
        read
    }

    /// The most payload that the peer takes. What is too small to carry options counts as more:
    /// RFC 791 promises packets of 68 bytes, Linux takes no less than 48 here.
    pub(crate) fn mss(&self, is_ipv4: bool) -> u16 {
        let default = MSS_DEFAULT[usize::from(is_ipv4)];
        self.mss.unwrap_or(default).max(48)
    }
}

/// Timestamps and nothing else, as RFC 7323, appendix A lays them out: what nearly every segment
/// has.
const TIMESTAMPS_ALONE: [u8; 4] = [1, 1, 8, 10];

#[inline]
fn timestamps_alone(bytes: &[u8; 12]) -> Option<(u32, u32)> {
    let ([kind, value, echo], []) = bytes.as_chunks::<4>() else {
        return None;
    };
    let both = [*value, *echo].map(u32::from_be_bytes);
    (*kind == TIMESTAMPS_ALONE).then_some((both[0], both[1]))
}

/// Options to be sent, padded to whole words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Emitted {
    bytes: [u8; OPTIONS_LEN_MAX],
    len: usize,
}

impl Emitted {
    /// None.
    pub(crate) fn new() -> Self {
        Self {
            bytes: [0; OPTIONS_LEN_MAX],
            len: 0,
        }
    }

    /// The bytes of a header.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Adds an option behind no-operations, so that it ends on a whole word: RFC 7323, appendix A.
    fn push(&mut self, option: TcpOption<'_>) {
        const NO_OPERATION: u8 = 1;
        let padding = option.len().next_multiple_of(4) - option.len();
        self.bytes[self.len..][..padding].fill(NO_OPERATION);
        option.emit(&mut self.bytes[self.len + padding..]);
        self.len += padding + option.len();
    }

    pub(crate) fn mss(&mut self, mss: u16) {
        self.push(TcpOption::Mss(mss));
    }

    pub(crate) fn scale(&mut self, shift: u8) {
        self.push(TcpOption::WindowScale(shift));
    }

    pub(crate) fn sack_permitted(&mut self) {
        self.push(TcpOption::SackPermitted);
    }

    #[inline]
    pub(crate) fn timestamps(&mut self, value: u32, echo: u32) {
        if self.len == 0 {
            let words = [TIMESTAMPS_ALONE, value.to_be_bytes(), echo.to_be_bytes()];
            self.bytes[..12].copy_from_slice(words.as_flattened());
            self.len = 12;
            return;
        }
        self.push(TcpOption::Timestamps { value, echo });
    }

    /// As many blocks as have room.
    pub(crate) fn sack(&mut self, blocks: impl Iterator<Item = (SeqNumber, SeqNumber)>) {
        let room = ((OPTIONS_LEN_MAX - self.len).saturating_sub(4) / 8).min(SackBlocks::MAX);
        let mut written = [[0; 8]; SackBlocks::MAX];
        let mut count = 0;
        for (place, (start, end)) in written.iter_mut().take(room).zip(blocks) {
            *place = SackBlocks::block(start, end);
            count += 1;
        }
        if count > 0 {
            self.push(TcpOption::Sack(SackBlocks::new(&written[..count])));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_are_written_fit_and_read_back() {
        let mut emitted = Emitted::new();
        emitted.timestamps(7, 9);
        let blocks = (0..9).map(|at| (SeqNumber(at * 10), SeqNumber(at * 10 + 5)));
        emitted.sack(blocks.clone());
        assert_eq!(
            emitted.bytes().len(),
            12 + 4 + 3 * 8,
            "three fit beside timestamps"
        );
        let read = Options::read(emitted.bytes());
        assert_eq!(read.timestamps, Some((7, 9)));
        assert!(read.sack.expect("written").iter().eq(blocks.take(3)));
        let mut emitted = Emitted::new();
        emitted.mss(1460);
        emitted.sack_permitted();
        emitted.timestamps(1, 0);
        emitted.scale(15);
        assert_eq!(emitted.bytes().len(), 24);
        let read = Options::read(emitted.bytes());
        assert_eq!(
            (read.mss(true), read.scale, read.sack_permitted),
            (1460, Some(14), true)
        );
        assert!(!read.malformed && Options::read(&[3, 9]).malformed);
        assert_eq!(Options::read(&[]).mss(true), 536);
        assert_eq!(Options::read(&[]).mss(false), 1220);
    }
}
