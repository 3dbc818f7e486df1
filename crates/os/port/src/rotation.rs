//! When a capture that is written goes on in a new file: dumpcap's `-b`. Opening and removing files
//! is the writer's.

use std::str::FromStr;

/// When a capture that is written goes on in a new file, and how many files are kept: dumpcap's
/// `-b`.
///
/// Whichever comes first begins the next file. Without any, there is one file under the name given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rotation {
    /// `duration:SECONDS`, here in nanoseconds: this long after the file was begun.
    pub duration_ns: Option<u64>,
    /// `interval:SECONDS`, here in nanoseconds: when the time is a multiple of it.
    pub interval_ns: Option<u64>,
    /// `filesize:kB`, here in bytes: the frame that reaches it is the file's last.
    pub file_bytes: Option<u64>,
    /// `packets:N`: frames of a file.
    pub packets: Option<u64>,
    /// `files:N`: before one more begins, the oldest is deleted. `None` keeps all.
    pub files: Option<usize>,
}

/// Why words of `-b` are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RotationError {
    /// The part before the colon is unknown, or there is none.
    #[error(
        "-b {word}: write duration:SECONDS, interval:SECONDS, filesize:kB, packets:N or files:N"
    )]
    Unknown {
        /// The word.
        word: String,
    },
    /// The part after the colon is no number, or too small or large.
    #[error("-b {word}: write {wanted} above 0 after the colon")]
    Number {
        /// The word.
        word: String,
        /// What fits there.
        wanted: &'static str,
    },
    /// A ring that never turns.
    #[error(
        "-b {word} sets how many files are kept, but not when the next one begins: \
         add -b filesize:kB, duration:SECONDS, interval:SECONDS or packets:N"
    )]
    FilesAlone {
        /// The word.
        word: String,
    },
}

impl Rotation {
    /// Reads the arguments of every `-b`; the last of two of a kind counts, as with
    /// dumpcap.
    ///
    /// As there, a kB is 1,000 bytes, and a file is at most 2 TB.
    pub fn parse<S: AsRef<str>>(words: &[S]) -> Result<Self, RotationError> {
        const WHOLE: &str = "a whole number";
        let mut rotation = Self::default();
        let mut files_word = None;
        for word in words {
            let word = word.as_ref();
            let wrong = |wanted| RotationError::Number {
                word: word.to_owned(),
                wanted,
            };
            let (what, value) = word.split_once(':').unwrap_or((word, ""));
            match what {
                "duration" | "interval" => {
                    let ns = nanoseconds(value).ok_or_else(|| wrong("seconds, or a time (60s)"))?;
                    match what {
                        "duration" => rotation.duration_ns = Some(ns),
                        _ => rotation.interval_ns = Some(ns),
                    }
                }
                "filesize" => {
                    let bytes = file_bytes(value).ok_or_else(|| wrong("kB, or a size (10MB)"))?;
                    rotation.file_bytes = Some(bytes);
                }
                "packets" => {
                    rotation.packets = Some(positive(value).ok_or_else(|| wrong(WHOLE))?);
                }
                "files" => {
                    rotation.files = Some(positive(value).ok_or_else(|| wrong(WHOLE))?);
                    files_word = Some(word.to_owned());
                }
                _ => {
                    return Err(RotationError::Unknown {
                        word: word.to_owned(),
                    });
                }
            }
        }
        match files_word {
            Some(word) if !rotation.turns() => Err(RotationError::FilesAlone { word }),
            _ => Ok(rotation),
        }
    }

    /// How many files may be removed or renamed.
    pub fn kept(&self) -> usize {
        self.files.unwrap_or(1)
    }

    /// Whether there will ever be a second file.
    pub fn turns(&self) -> bool {
        self.duration_ns.is_some()
            || self.interval_ns.is_some()
            || self.file_bytes.is_some()
            || self.packets.is_some()
    }
}

fn positive<T: FromStr + Default + PartialEq>(text: &str) -> Option<T> {
    text.parse().ok().filter(|number| *number != T::default())
}

/// Kilobytes, as dumpcap counts them, or a size with its unit; 2 TB at most.
fn file_bytes(text: &str) -> Option<u64> {
    let is_bare = text.bytes().all(|byte| byte.is_ascii_digit());
    let bytes: u64 = match is_bare {
        true => positive::<u64>(text)?.checked_mul(1000)?,
        false => lineside_words::parse_size(text).ok()?.try_into().ok()?,
    };
    (1..=u64::from(u32::MAX) * 1000)
        .contains(&bytes)
        .then_some(bytes)
}

/// Seconds, perhaps with decimals, or a time with its unit: at least a microsecond and, as a
/// century is enough, no overflow.
fn nanoseconds(text: &str) -> Option<u64> {
    let of_unit = || Some(lineside_words::parse_duration(text).ok()? as f64 / 1e9);
    let seconds = text.parse().ok().or_else(of_unit)?;
    (1e-6..=3_155_760_000.0)
        .contains(&seconds)
        .then(|| (seconds * 1e9).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_dumpcap_reads_them() {
        let rotation = Rotation::parse(&[
            "duration:1.5",
            "interval:3600",
            "filesize:1",
            "filesize:2",
            "packets:7",
            "files:3",
        ]);
        assert_eq!(
            rotation,
            Ok(Rotation {
                duration_ns: Some(1_500_000_000),
                interval_ns: Some(3_600_000_000_000),
                file_bytes: Some(2_000),
                packets: Some(7),
                files: Some(3),
            })
        );
        assert_eq!(Rotation::parse::<&str>(&[]), Ok(Rotation::default()));
    }

    #[test]
    fn errors_name_the_word_and_the_way_out() {
        let error = |words: &[&str]| Rotation::parse(words).expect_err("wrong").to_string();
        for unknown in ["size:3", "packets3", "", "printname:x"] {
            let error = error(&["packets:3", unknown]);
            let expected = format!("-b {unknown}: write duration:SECONDS, interval");
            assert!(error.starts_with(&expected), "{error}");
        }
        for wrong in [
            "packets:",
            "packets",
            "packets:0",
            "packets:-1",
            "files:1.5",
        ] {
            assert_eq!(
                error(&[wrong]),
                format!("-b {wrong}: write a whole number above 0 after the colon")
            );
        }
        for wrong in ["duration:0", "interval:nan", "duration:1e99", "interval:-1"] {
            assert_eq!(
                error(&[wrong]),
                format!("-b {wrong}: write seconds, or a time (60s) above 0 after the colon")
            );
        }
        for wrong in ["filesize:4294967296", "filesize:0B", "filesize:5TB"] {
            assert_eq!(
                error(&[wrong]),
                format!("-b {wrong}: write kB, or a size (10MB) above 0 after the colon")
            );
        }
        let read = |word: &str| Rotation::parse(&[word]).expect(word);
        assert_eq!(read("filesize:10MB").file_bytes, Some(10_000_000));
        assert_eq!(read("filesize:10").file_bytes, Some(10_000));
        assert_eq!(read("duration:2s").duration_ns, Some(2_000_000_000));
        assert_eq!(read("interval:1h").interval_ns, Some(3_600_000_000_000));
        assert!(error(&["files:2"]).starts_with("-b files:2 sets how many"));
    }
}
