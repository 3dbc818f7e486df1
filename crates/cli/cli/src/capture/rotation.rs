//! Where the parts of a trace end, when their rows can be read, and how long they are kept:
//! `--rotate`, `--flush` and `--keep`.

use std::num::NonZeroU64;
use std::time::Duration;

use lineside_run::PartRotation;
use lineside_store::Retention;
use lineside_words::{parse_duration, parse_size};

use crate::config::ConfigError;

/// The most, and the default: an open part is held in memory, and there is one for each table.
const SIZE_MAX: usize = 64 << 20;
/// Below these a long capture becomes too many files for a folder, and each file is mostly its own
/// description.
const SIZE_MIN: usize = 1 << 20;
const TIME_MIN_NS: u64 = 1_000_000_000;
/// A part has about 5 KB of its own, and costs the disk a write: ten times a second is a burden.
const FLUSH_MIN_NS: u64 = 100_000_000;
/// What is kept for less is gone before anybody looks at it.
const KEEP_MIN: Duration = Duration::from_secs(60);
const KEEP_BYTES_MIN: usize = 4 << 20;

/// The word of `--flush` for parts that are final from the start.
const NONE: &str = "none";

/// How data come to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coming {
    /// They are there.
    Files,
    /// As time passes, each at the time of its stamp.
    Live,
    /// As time passes, with stamps of any time: from a file that grows, or a pipe.
    Grown,
}

impl Coming {
    /// The default of `rotate`.
    pub(super) fn rotate(self) -> impl Iterator<Item = &'static str> {
        let time = (self != Self::Files).then_some("1h");
        ["64MiB"].into_iter().chain(time)
    }

    /// The default of `flush`.
    pub(super) fn flush(self) -> &'static str {
        match self {
            Self::Files => NONE,
            Self::Live | Self::Grown => "1s",
        }
    }
}

/// What the values of the three keys mean together.
pub(super) fn rotation(
    rotate: &[String],
    flush: &str,
    keep: &[String],
    coming: Coming,
) -> Result<PartRotation, ConfigError> {
    let error = |key| move |why: String| ConfigError::new(format!("{key}: {why}"));
    let (bytes_max, time_ns) =
        size_or_time(
            rotate,
            "16MiB, 60s, or 16MiB,60s for both",
            |limit| match limit {
                Limit::Time(ns) if !(TIME_MIN_NS..=i64::MAX as u64).contains(&ns) => {
                    Some("is not from 1s to 292 years")
                }
                Limit::Bytes(bytes) if !(SIZE_MIN..=SIZE_MAX).contains(&bytes) => {
                    Some("is not a size from 1MiB to 64MiB")
                }
                _ => None,
            },
        )
        .map_err(error("rotate"))?;
    let (keep_bytes, keep_ns) = size_or_time(
        keep,
        "30d, 500GiB, or 30d,500GiB for both",
        |limit| match limit {
            Limit::Time(ns) if Duration::from_nanos(ns) < KEEP_MIN => Some(
                "is less than a minute: rows would go before anybody saw them; give 1min or \
                    more",
            ),
            Limit::Bytes(bytes) if bytes < KEEP_BYTES_MIN => {
                Some("is too little to keep a trace in: give 4MiB or more")
            }
            _ => None,
        },
    )
    .map_err(error("keep"))?;
    Ok(PartRotation {
        bytes_max: bytes_max.unwrap_or(SIZE_MAX),
        time_ns: time_ns.and_then(NonZeroU64::new),
        flush_ns: flush_ns(flush).map_err(error("flush"))?,
        by_clock: coming == Coming::Grown,
        retention: Retention {
            time: keep_ns.map(Duration::from_nanos),
            bytes: keep_bytes.map(|bytes| bytes as u64),
            runs: false,
        },
    })
}

fn flush_ns(text: &str) -> Result<Option<NonZeroU64>, String> {
    if text == NONE {
        return Ok(None);
    }
    let ns = parse_duration(text);
    let ns = ns.map_err(|error| format!("{error}; or {NONE}: parts are final from the start"))?;
    match NonZeroU64::new(ns).filter(|ns| (FLUSH_MIN_NS..=i64::MAX as u64).contains(&ns.get())) {
        Some(ns) => Ok(Some(ns)),
        None => Err(format!("{text} is not from 100ms to 292 years")),
    }
}

#[derive(Clone, Copy)]
enum Limit {
    Bytes(usize),
    Time(u64),
}

/// A size, a time, or one of each. `refuse` says what is wrong with one.
fn size_or_time(
    limits: &[String],
    forms: &str,
    refuse: impl Fn(Limit) -> Option<&'static str>,
) -> Result<(Option<usize>, Option<u64>), String> {
    let (mut bytes_max, mut time_ns) = (None, None);
    for text in limits {
        let limit = match (parse_duration(text), parse_size(text)) {
            (Ok(ns), _) => Limit::Time(ns),
            (_, Ok(bytes)) => Limit::Bytes(bytes),
            _ => {
                return Err(format!(
                    "'{text}' is neither a size nor a time: write {forms}"
                ));
            }
        };
        if let Some(why) = refuse(limit) {
            return Err(format!("{text} {why}"));
        }
        let is_again = match limit {
            Limit::Time(ns) => time_ns.replace(ns).is_some(),
            Limit::Bytes(bytes) => bytes_max.replace(bytes).is_some(),
        };
        if is_again {
            return Err(format!(
                "{} gives the same limit twice: give at most one size and one time",
                limits.join(",")
            ));
        }
    }
    Ok((bytes_max, time_ns))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::capture::Section;
    use crate::config;

    fn section(value: &Value) -> Section {
        config::read_keys(value, "capture").expect("keys")
    }

    fn seconds(time_s: u64) -> Option<NonZeroU64> {
        NonZeroU64::new(time_s * 1_000_000_000)
    }

    #[test]
    fn parts_rotate_by_a_size_a_time_or_both() {
        for (limits, bytes_max, time_ns) in [
            (json!([]), 64 << 20, None),
            (json!(["1MiB"]), 1 << 20, None),
            (json!(["1s"]), 64 << 20, seconds(1)),
            (json!(["2min", "16MiB"]), 16 << 20, seconds(120)),
            (json!(["1d"]), 64 << 20, seconds(86_400)),
        ] {
            let (_, settings) = section(&json!({ "rotate": limits }))
                .resolved()
                .expect("valid");
            let rotation = PartRotation {
                bytes_max,
                time_ns,
                ..PartRotation::FILES
            };
            assert_eq!(settings.rotation, rotation, "{limits}");
        }
    }

    #[test]
    fn rows_that_come_in_time_can_be_read_after_a_second() {
        let (hour, second) = (seconds(3_600), seconds(1));
        for (value, time_ns, flush_ns, by_clock) in [
            (json!({ "inputs": ["a.pcap"] }), None, None, false),
            (json!({ "interfaces": ["eth0"] }), hour, second, false),
            (
                json!({ "inputs": ["a.pcap"], "follow": true }),
                hour,
                second,
                true,
            ),
            (json!({ "inputs": ["/dev/null"] }), hour, second, true),
            (
                json!({ "interfaces": ["eth0"], "rotate": ["64MiB"] }),
                None,
                second,
                false,
            ),
            (
                json!({ "interfaces": ["eth0"], "flush": "none" }),
                hour,
                None,
                false,
            ),
            (
                json!({ "inputs": ["a.pcap"], "flush": "5s" }),
                None,
                seconds(5),
                false,
            ),
        ] {
            let (resolved, settings) = section(&value).resolved().expect("valid");
            let rotation = PartRotation {
                time_ns,
                flush_ns,
                by_clock,
                ..PartRotation::FILES
            };
            assert_eq!(settings.rotation, rotation, "{value}");
            // What `trace.json` records of it means the same to the next run.
            let (_, again) = resolved.resolved().expect("valid");
            assert_eq!(again.rotation, rotation, "{value}");
        }
    }

    #[test]
    fn a_time_a_size_or_both_are_kept() {
        for (limits, time_s, bytes) in [
            (json!(["30d"]), Some(30 * 86_400), None),
            (json!(["500GiB"]), None, Some(500 << 30)),
            (json!(["1min", "4MiB"]), Some(60), Some(4 << 20)),
        ] {
            let value = json!({ "interfaces": ["eth0"], "keep": limits });
            let (_, settings) = section(&value).resolved().expect("valid");
            let expected = Retention {
                time: time_s.map(Duration::from_secs),
                bytes,
                runs: false,
            };
            assert_eq!(settings.rotation.retention, expected, "{limits}");
        }
    }

    #[test]
    fn limits_that_cannot_be_are_refused() {
        for value in [
            json!({ "rotate": ["1000KiB"] }),
            json!({ "rotate": ["65MiB"] }),
            json!({ "rotate": ["999ms"] }),
            json!({ "rotate": ["60"] }),
            json!({ "rotate": ["5m"] }),
            json!({ "rotate": ["2s", "3s"] }),
            json!({ "rotate": ["2MiB", "3s", "3MiB"] }),
            json!({ "flush": "99ms" }),
            json!({ "flush": "off" }),
            json!({ "flush": "1MiB" }),
            json!({ "keep": ["59s"] }),
            json!({ "keep": ["3MiB"] }),
            json!({ "keep": ["30d", "40d"] }),
            json!({ "keep": ["forever"] }),
        ] {
            assert!(section(&value).resolved().is_err(), "{value}");
        }
    }
}
