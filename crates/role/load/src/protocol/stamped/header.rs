//! What a datagram of the stamped protocol begins with.

use lineside_time::Nanoseconds;

const MAGIC: [u8; 4] = *b"LsDg";
const VERSION: u8 = 1;
/// The least datagram: its header.
pub(super) const HEADER_LEN: usize = 44;

/// What a stamped datagram is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// It is counted where it arrives.
    OneWay,
    /// It is to come back.
    Echo,
    /// It comes back.
    Echoed,
}

/// The header of a stamped datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StampedHeader {
    /// What it is for.
    pub verb: Verb,
    /// Names the run: flows of different ones are different.
    pub run: u64,
    /// Names the flow within the run.
    pub flow: u32,
    /// Its number within the flow, from 0.
    pub number: u64,
    /// When it was to leave, in nanoseconds of the clock.
    pub stamp_ns: Nanoseconds,
    /// Names the clock; 0: one that nobody else has.
    pub clock: u64,
}

impl StampedHeader {
    /// The header of a datagram, if it is one of these.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let header = bytes.first_chunk::<HEADER_LEN>()?;
        let number = |at: usize| u64::from_be_bytes(*header[at..].first_chunk().unwrap_or(&[0; 8]));
        let [.., version, verb, _, _] = *header.first_chunk::<8>()?;
        let verb = match verb {
            0 => Verb::OneWay,
            1 => Verb::Echo,
            2 => Verb::Echoed,
            _ => return None,
        };
        (header.starts_with(&MAGIC) && version == VERSION).then(|| Self {
            verb,
            run: number(8),
            flow: (number(16) >> 32) as u32,
            number: number(20),
            stamp_ns: number(28).cast_signed(),
            clock: number(36),
        })
    }

    /// Writes the header, and behind it the padding that belongs to it.
    pub(super) fn emit(&self, bytes: &mut [u8]) {
        let (header, padding) = bytes.split_at_mut(HEADER_LEN);
        header[..4].copy_from_slice(&MAGIC);
        let verb = match self.verb {
            Verb::OneWay => 0,
            Verb::Echo => 1,
            Verb::Echoed => 2,
        };
        header[4..8].copy_from_slice(&[VERSION, verb, 0, 0]);
        header[8..16].copy_from_slice(&self.run.to_be_bytes());
        header[16..20].copy_from_slice(&self.flow.to_be_bytes());
        header[20..28].copy_from_slice(&self.number.to_be_bytes());
        header[28..36].copy_from_slice(&self.stamp_ns.to_be_bytes());
        header[36..].copy_from_slice(&self.clock.to_be_bytes());
        let pattern = self.pattern();
        let mut parts = padding.chunks_exact_mut(8);
        for part in &mut parts {
            part.copy_from_slice(&pattern);
        }
        let rest = parts.into_remainder();
        rest.copy_from_slice(&pattern[..rest.len()]);
    }

    /// The bytes of its padding, again and again.
    fn pattern(&self) -> [u8; 8] {
        let number = self.number ^ u64::from(self.flow) << 40;
        (self.run ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes()
    }

    /// Whether a datagram with this header has the padding that belongs to it.
    pub fn has_padding(&self, bytes: &[u8]) -> bool {
        let (pattern, padding) = (self.pattern(), bytes.get(HEADER_LEN..).unwrap_or_default());
        let mut parts = padding.chunks_exact(8);
        { &mut parts }.all(|part| part == pattern) && pattern.starts_with(parts.remainder())
    }
}
