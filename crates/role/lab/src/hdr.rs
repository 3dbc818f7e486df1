//! Quantiles of a log of histograms, as HdrHistogram's writers leave it: wrk2, YCSB, Cassandra's
//! stress, `lineside load --hdr`. The form is that of HdrHistogram's
//! `AbstractHistogram.decodeFromCompressedByteBuffer` (V2) and `HistogramLogReader`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use flate2::read::ZlibDecoder;

/// First words of a histogram, and of one that is compressed: V2, without the length of a word.
const COOKIE: u32 = 0x1c84_9303;
const COOKIE_COMPRESSED: u32 = 0x1c84_9304;
/// The most bytes of a histogram's counts; five digits over all values have fewer.
const COUNTS_MAX: u64 = 64 << 20;

/// Which value of a log is read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantile(f64);

impl Quantile {
    /// `p99`, `p99.9` or `max`.
    pub(crate) fn parse(word: &str) -> Result<Self, String> {
        if word == "max" {
            return Ok(Self(1.0));
        }
        let percent = word
            .strip_prefix('p')
            .and_then(|number| number.parse().ok());
        let percent = percent.filter(|percent: &f64| *percent > 0.0 && *percent <= 100.0);
        let share = percent.map(|percent| Self(percent / 100.0));
        share.ok_or_else(|| format!("'{word}' is no quantile: write p50, p99.9 or max"))
    }

    /// Its value in a log, over all intervals that have this tag.
    pub(crate) fn of(self, log: &str, tag: Option<&str>) -> Result<f64, String> {
        let mut counts = BTreeMap::new();
        let mut tags = BTreeSet::new();
        for (number, line) in log.lines().enumerate() {
            let is_head = line.trim().is_empty() || line.starts_with(['#', '"']);
            if is_head {
                continue;
            }
            let (own, rest) = match line.strip_prefix("Tag=") {
                Some(line) => line.split_once(',').unwrap_or((line, "")),
                None => ("", line),
            };
            tags.insert(own);
            if tag.is_none_or(|tag| tag == own) {
                let histogram = rest.split(',').nth(3).unwrap_or_default().trim();
                add(histogram, &mut counts)
                    .map_err(|why| format!("line {} of its log: {why}", number + 1))?;
            }
        }
        let names = || tags.iter().copied().collect::<Vec<_>>().join(", ");
        if tag.is_none() && tags.len() > 1 {
            let names = names();
            return Err(format!(
                "its log has several tags: choose one with tag: {names}"
            ));
        }
        let all: u128 = counts.values().map(|count| u128::from(*count)).sum();
        let wanted = ((all as f64 * self.0).ceil() as u128).clamp(1, all.max(1));
        let mut before = 0;
        let value = counts.into_iter().find(|(_, count)| {
            before += u128::from(*count);
            before >= wanted
        });
        value
            .map(|(value, _)| value as f64)
            .ok_or_else(|| match tag {
                Some(tag) if !tags.contains(tag) => {
                    format!("its log has no tag {tag}, but {}", names())
                }
                _ => "its log has no value".to_owned(),
            })
    }
}

/// Adds the counts of a histogram, by the greatest of the values that it does not distinguish.
fn add(text: &str, counts: &mut BTreeMap<u64, u64>) -> Result<(), String> {
    let cut = || "its histogram is cut short".to_owned();
    let bytes = base64(text).ok_or("its histogram is no base64")?;
    let compressed = Fields(&bytes).cookie(COOKIE_COMPRESSED)?;
    let mut inflated = Vec::new();
    let mut decoder = ZlibDecoder::new(compressed).take(COUNTS_MAX);
    decoder.read_to_end(&mut inflated).map_err(|_| cut())?;
    let mut fields = Fields(&inflated);
    let mut payload = Fields(fields.cookie(COOKIE)?);
    let mut header = Fields(payload.0.get(..32).ok_or_else(cut)?);
    payload.0 = &payload.0[32..];
    let (_, digits) = (header.number(4)?, header.number(4)?);
    let unit = header.number(8)?.max(1).ilog2();
    if digits > 5 {
        return Err(format!("a histogram of {digits} digits is none"));
    }
    // So many values of a bucket, half of which the bucket below has too.
    let resolution = 2 * 10_u64.pow(digits as u32);
    let half = resolution.next_power_of_two().ilog2() - 1;
    let mut index = 0_u64;
    while !payload.0.is_empty() {
        let number = payload.varint().ok_or_else(cut)?;
        if number < 0 {
            index = index.saturating_add(number.unsigned_abs());
            continue;
        }
        let bucket = (index >> half).saturating_sub(1);
        let place = match index >> half {
            0 => index,
            _ => (index & ((1 << half) - 1)) + (1 << half),
        };
        let shift = u32::try_from(bucket)
            .unwrap_or(u32::MAX)
            .saturating_add(unit);
        let next = (shift < 63)
            .then(|| (place + 1).checked_mul(1 << shift))
            .flatten();
        let next = next.ok_or("its histogram has values beyond all bounds")?;
        if number > 0 {
            let count = counts.entry(next - 1).or_default();
            *count = count.saturating_add(number.unsigned_abs());
        }
        index = index.saturating_add(1);
    }
    Ok(())
}

/// Numbers of the most significant byte first.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn number(&mut self, len: usize) -> Result<u64, String> {
        let (bytes, rest) = self
            .0
            .split_at_checked(len)
            .ok_or("its histogram is cut short")?;
        self.0 = rest;
        Ok(bytes
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// The first word has to be this one; what follows has the length that the second one says.
    fn cookie(&mut self, expected: u32) -> Result<&'a [u8], String> {
        let cookie = self.number(4)? as u32;
        if cookie & !0xf0 != expected {
            return Err(format!("{cookie:#x} begins no histogram of version 2"));
        }
        let len = self.number(4)? as usize;
        // That of the counts is without the rest of the header.
        let len = if expected == COOKIE {
            len.saturating_add(32)
        } else {
            len
        };
        let bytes = self.0.get(..len);
        bytes.ok_or_else(|| "its histogram is cut short".to_owned())
    }

    /// A number in ZigZag form, 7 bits to a byte, whose ninth byte has all of its 8 bits.
    fn varint(&mut self) -> Option<i64> {
        let mut number = 0;
        for place in 0..9 {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            let is_last = place == 8;
            let bits = if is_last { byte } else { byte & 0x7f };
            number |= u64::from(bits) << (7 * place);
            if is_last || byte < 0x80 {
                break;
            }
        }
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }
}

/// RFC 4648, section 4.
fn base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    for chunk in text.as_bytes().chunks(4) {
        let mut word = 0_u32;
        for letter in chunk {
            let value = match letter {
                b'A'..=b'Z' => letter - b'A',
                b'a'..=b'z' => letter - b'a' + 26,
                b'0'..=b'9' => letter - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            word = word << 6 | u32::from(value);
        }
        word <<= 6 * (4 - chunk.len());
        let bytes = word.to_be_bytes();
        out.extend(&bytes[1..chunk.len()]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::write::ZlibEncoder;

    use super::*;

    const LOG: &str = "#[Logged with x]\n\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\
        \"Interval_Compressed_Histogram\"\n";

    fn line(tag: &str, counts: &[i64]) -> String {
        packed(tag, &histogram(counts))
    }

    fn histogram(counts: &[i64]) -> Vec<u8> {
        let mut payload = Vec::new();
        for count in counts {
            // Small numbers have one byte.
            let zigzag = (count << 1) ^ (count >> 63);
            assert!((0..128).contains(&zigzag));
            payload.push(zigzag as u8);
        }
        let mut bytes = (COOKIE | 0x10).to_be_bytes().to_vec();
        bytes.extend((payload.len() as u32).to_be_bytes());
        bytes.extend([0, 3_u32].map(u32::to_be_bytes).concat());
        bytes.extend([1, 86_400_000_u64].map(u64::to_be_bytes).concat());
        bytes.extend(1_f64.to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    fn packed(tag: &str, bytes: &[u8]) -> String {
        let mut encoder = ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).expect("memory");
        let body = encoder.finish().expect("memory");
        let mut all = (COOKIE_COMPRESSED | 0x10).to_be_bytes().to_vec();
        all.extend((body.len() as u32).to_be_bytes());
        all.extend(body);
        format!("{tag}0.000,1.000,0.001,{}\n", encoded(&all))
    }

    #[test]
    fn no_histogram_is_too_odd() {
        let whole = histogram(&[2, -2, 1, -6, 60, 60, 60, 60, 60, 60, 60, 60, 60, 60, 1]);
        for at in 0..whole.len() {
            for byte in [0, 1, 5, 0x7f, 0x80, 0xff] {
                // From here on, and this one alone.
                let mut bytes = whole.clone();
                bytes[at] = byte;
                let one = packed("", &bytes);
                bytes[at..].fill(byte);
                let rest = packed("", &bytes);
                let cut = packed("", &whole[..at]);
                for log in [&one, &rest, &cut, &format!("{one}{rest}")] {
                    let _ = Quantile(0.99).of(log, None);
                }
            }
        }
    }

    fn encoded(bytes: &[u8]) -> String {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let of = |chunk: &[u8]| -> String {
            let mut word = [0; 4];
            word[1..=chunk.len()].copy_from_slice(chunk);
            let word = u32::from_be_bytes(word);
            let letter = |at: usize| char::from(LETTERS[(word >> (18 - 6 * at) & 63) as usize]);
            (0..=chunk.len()).map(letter).collect()
        };
        bytes.chunks(3).map(of).collect()
    }

    #[test]
    fn quantiles_are_those_of_all_intervals() {
        // 0: twice, 3: once, and once each of 10 to 12.
        let one = line("", &[2, -2, 1, -6, 1, 1, 1]);
        let two = line("", &[-20, 4]);
        let log = format!("{LOG}{one}{two}");
        for (word, expected) in [("p20", 0.0), ("p30", 3.0), ("p50", 11.0), ("p60", 12.0)] {
            let quantile = Quantile::parse(word).expect(word);
            assert_eq!(quantile.of(&log, None), Ok(expected), "{word}");
        }
        assert_eq!(Quantile(1.0).of(&log, None), Ok(20.0));
        // Beyond 2,048 values come by two, beyond 4,096 by four.
        let far = line("", &[-60, -60, -60, -60, -60, -60, -60, -60, -60, -60, 1]);
        assert_eq!(Quantile(1.0).of(&far, None), Ok(600.0));
        let mut many = vec![-63; 56];
        many.push(1);
        // Index 3,528: the third bucket begins at 3,072, and has 4,096 there.
        let expected = 4_096 + (3_528 - 3_072) * 4 + 3;
        assert_eq!(
            Quantile(1.0).of(&line("", &many), None),
            Ok(f64::from(expected))
        );
    }

    #[test]
    fn what_is_wrong_with_a_log_is_said() {
        let log = format!("{LOG}{}{}", line("Tag=a,", &[1]), line("Tag=b,", &[-9, 1]));
        let of = |log: &str, tag| Quantile(0.5).of(log, tag);
        assert_eq!(of(&log, Some("b")), Ok(9.0));
        for (log, tag, expected) in [
            (
                log.as_str(),
                None,
                "several tags: choose one with tag: a, b",
            ),
            (&log, Some("c"), "has no tag c, but a, b"),
            (LOG, None, "has no value"),
            (
                &log[..log.len() - 9],
                Some("b"),
                "line 4 of its log: its histogram is cut short",
            ),
            (
                "0.0,1.0,0.1,HIST!\n",
                None,
                "line 1 of its log: its histogram is no base64",
            ),
            (
                "0.0,1.0,0.1,AAAAAAAAAAAA\n",
                None,
                "0x0 begins no histogram of version 2",
            ),
            (
                "0.0,1.0\n",
                None,
                "line 1 of its log: its histogram is cut short",
            ),
        ] {
            let error = of(log, tag).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
        for word in ["p0", "p101", "99", "pp", "median", "pNaN"] {
            assert!(Quantile::parse(word).is_err(), "{word}");
        }
    }
}
