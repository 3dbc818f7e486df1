//! `--hdr FILE`: a log of histograms, as HdrHistogram's readers take it.
//!
//! ```text
//!  Tag=latency,0.000,1.000,4.055,HISTFAAA…     where it begins and its length in seconds, the
//!  Tag=service,0.000,1.000,0.312,HISTFAAA…     greatest value in ms, and all values in ns
//! ```
//!
//! Our histograms have the steps of an HdrHistogram of 3 significant digits: what is logged is what
//! the loops recorded, and nothing is rounded twice. The form is that of HdrHistogram's
//! `AbstractHistogram.encodeIntoCompressedByteBuffer` (V2) and `HistogramLogWriter` (1.3).

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use lineside_measure::Times;
use lineside_run::check_new_file;
use lineside_time::Nanoseconds;

use crate::error::LoadError;
use crate::outcome::{Outcome, RunSecond};
use crate::results::RecentTimes;
use crate::words::UsageError;

/// First words of a histogram, and of one that is compressed: V2, of counts of any length.
const COOKIE: u32 = 0x1c84_9303 | 0x10;
const COOKIE_COMPRESSED: u32 = 0x1c84_9304 | 0x10;
/// Digits of the default histogram.
const DIGITS: u32 = 3;
/// A day: the highest value of the default histogram.
const HIGHEST_NS: u64 = 86_400_000_000_000;
/// Values are nanoseconds; the column of the greatest has milliseconds, as of Java's writer.
const MAX_VALUE_DIVISOR: f64 = 1e6;

/// A log that is being written.
pub struct HdrLog {
    path: PathBuf,
    out: BufWriter<File>,
    /// Seconds that are in it.
    seconds: u32,
    /// After it nothing is written.
    failure: Option<io::Error>,
}

impl HdrLog {
    /// Opens the file; a log that is there stays until requests leave.
    pub fn create(path: &Path, force: bool) -> Result<Self, LoadError> {
        let is_new = check_new_file(path, "--hdr", force);
        is_new.map_err(|error| UsageError(error.to_string()))?;
        let is_made = lineside_host::make_output(path);
        let mut options = File::options();
        let opened = options.write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(|error| LoadError::File {
            path: path.to_owned(),
            error,
        })?;
        if !is_made {
            lineside_host::goes_if_empty(path, &file);
        }
        Ok(Self {
            path: path.to_owned(),
            out: BufWriter::new(file),
            seconds: 0,
            failure: None,
        })
    }

    pub fn file(&self) -> BorrowedFd<'_> {
        self.out.get_ref().as_fd()
    }

    /// Requests are about to leave.
    pub fn begin(&mut self, at: Nanoseconds) {
        // A device or a pipe stays, and has no length.
        let _ = self.out.get_ref().set_len(0);
        let seconds = at as f64 / 1e9;
        self.write(&format!(
            "#[Logged by lineside load {}: times in nanoseconds]\n\
             #[Histogram log format version 1.3]\n\
             #[StartTime: {seconds:.3} (seconds since epoch)]\n\
             #[BaseTime: {seconds:.3} (seconds since epoch)]\n\
             #[MaxValueDivisor: {MAX_VALUE_DIVISOR:.1}]\n\
             \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\
             \"Interval_Compressed_Histogram\"\n",
            env!("CARGO_PKG_VERSION")
        ));
    }

    /// A second is over.
    pub fn on_second(&mut self, second: &RunSecond) {
        if let Some(times) = &second.times {
            let end_s = f64::from(second.number);
            self.interval(f64::from(self.seconds), end_s, times);
            self.seconds = second.number;
        }
    }

    /// The run is over: what came after its last full second is an interval too.
    pub fn finish(mut self, outcome: &Outcome) -> Result<(), String> {
        let begin_s = f64::from(self.seconds);
        if outcome.rest.latency.count() > 0 {
            // The loop may have found the end of that second a little late.
            let end_s = (outcome.wall_ns as f64 / 1e9).max(begin_s + 0.001);
            self.interval(begin_s, end_s, &outcome.rest);
        }
        match self.failure {
            None => Ok(()),
            Some(error) => Err(format!(
                "{}: cannot be written: {error}",
                self.path.display()
            )),
        }
    }

    fn interval(&mut self, begin_s: f64, end_s: f64, times: &RecentTimes) {
        for (tag, times) in [("latency", &times.latency), ("service", &times.service)] {
            let max = times.max_ns().unwrap_or(0) as f64 / MAX_VALUE_DIVISOR;
            let length_s = end_s - begin_s;
            let histogram = base64(&compressed(times));
            self.write(&format!(
                "Tag={tag},{begin_s:.3},{length_s:.3},{max:.3},{histogram}\n"
            ));
        }
    }

    /// Each interval is in the file when it is over: others may follow the log, and a run that is
    /// killed leaves it.
    fn write(&mut self, text: &str) {
        if self.failure.is_none() {
            let written = self.out.write_all(text.as_bytes());
            self.failure = written.and_then(|()| self.out.flush()).err();
        }
    }
}

/// A histogram as its readers decompress it.
fn compressed(times: &Times) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(&encoded(times.counts()));
    let bytes = written.and_then(|()| encoder.finish());
    let bytes = bytes.expect("memory takes what is written");
    let mut out = COOKIE_COMPRESSED.to_be_bytes().to_vec();
    out.extend((bytes.len() as u32).to_be_bytes());
    out.extend(bytes);
    out
}

/// Its header, and its counts up to the last one that is not 0.
fn encoded(counts: &[u64]) -> Vec<u8> {
    let mut payload = Vec::new();
    let used = counts.iter().rposition(|&count| count > 0).unwrap_or(0) + 1;
    let mut counts = counts[..used].iter().peekable();
    while let Some(&count) = counts.next() {
        let mut zeros = 1;
        while count == 0 && counts.next_if_eq(&&0).is_some() {
            zeros += 1;
        }
        // Many counts of 0 are written as how many they are, below 0.
        push_varint(
            if zeros > 1 {
                -zeros
            } else {
                count.cast_signed()
            },
            &mut payload,
        );
    }
    let mut out = COOKIE.to_be_bytes().to_vec();
    out.extend((payload.len() as u32).to_be_bytes());
    // The offset of indices that are not normalised.
    out.extend(0u32.to_be_bytes());
    out.extend(DIGITS.to_be_bytes());
    out.extend(1u64.to_be_bytes());
    out.extend(HIGHEST_NS.to_be_bytes());
    // The ratio of whole numbers to those of doubles.
    out.extend(1f64.to_be_bytes());
    out.extend(payload);
    out
}

/// A number in ZigZag form, 7 bits to a byte: LEB128, whose ninth byte has all of its 8 bits.
fn push_varint(number: i64, out: &mut Vec<u8>) {
    let mut left = ((number << 1) ^ (number >> 63)).cast_unsigned();
    for _ in 0..8 {
        if left < 0x80 {
            break;
        }
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place) & 63) as usize];
            out.push(if place > chunk.len() {
                '='
            } else {
                char::from(letter)
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::ZlibDecoder;

    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        let texts = ["", "f", "fo", "foo", "foob", "fooba", "foobar"];
        let encoded = texts.map(|text| base64(text.as_bytes()));
        let expected = [
            "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy",
        ];
        assert_eq!(encoded, expected);
    }

    /// Bytes that HdrHistogram's Python package 0.10 writes for the same values.
    #[test]
    fn a_histogram_is_encoded_as_others_encode_it() {
        let mut times = Times::default();
        for ns in [0, 0, 3, 5_000, 5_003, 86_400_000_000_000] {
            times.add(ns);
        }
        let bytes = compressed(&times);
        let [cookie, len] =
            [0, 4].map(|at| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four")));
        assert_eq!((cookie, len as usize), (COOKIE_COMPRESSED, bytes.len() - 8));
        let mut encoded = Vec::new();
        let mut decoder = ZlibDecoder::new(&bytes[8..]);
        decoder.read_to_end(&mut encoded).expect("zlib");
        let expected = "1c8493130000000a00000000000000030000000000000001\
            00004e94914f00003ff0000000000000040302bb33048ba00402";
        let hex: String = encoded.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected);
        // Numbers of all lengths, and a histogram without values.
        let mut varint = Vec::new();
        push_varint(i64::MAX, &mut varint);
        assert_eq!(varint, [0xfe, 255, 255, 255, 255, 255, 255, 255, 255]);
        assert_eq!(super::encoded(Times::default().counts())[40..], [0]);
    }
}
