//! The keys that say where frames and their payloads pass.

use lineside_payload::Mode;
use lineside_run::{ConfigError, of_word};
use lineside_words::parse_fractional_size;

use crate::{ByDriver, PayloadSettings};

/// The words of `--mode` that keep payloads.
pub const PAYLOAD_MODES: [(&str, Mode); 5] = [
    ("baseline", Mode::Baseline),
    ("pcache", Mode::Pcache),
    ("direct", Mode::Direct),
    ("spill", Mode::Spill),
    ("adaptive", Mode::Adaptive),
];

/// The others, the default first.
const MODES: [(&str, ByDriver); 3] = [
    ("auto", ByDriver::IfPossible),
    ("driver", ByDriver::Always),
    ("loop", ByDriver::Never),
];

/// The paper's.
const CACHE_DEFAULT: &str = "1.4MiB";

/// The longest queue: more frames than any port's memory has chunks for.
const HOLD_MAX: u32 = 1 << 20;

/// Whether the driver forwards, or how payloads are kept.
pub fn passage(
    mode: Option<&str>,
    cache: Option<&str>,
    hold: Option<u32>,
) -> Result<(ByDriver, Option<PayloadSettings>), ConfigError> {
    let word = mode.unwrap_or("auto");
    let Some(&(_, mode)) = { PAYLOAD_MODES.iter() }.find(|(known, _)| *known == word) else {
        let payloads = PAYLOAD_MODES.map(|(word, _)| (word, ByDriver::Never));
        let by_driver = of_word("mode", word, &[&MODES[..], &payloads].concat())?;
        let given = [("cache", cache.is_some()), ("hold", hold.is_some())];
        if let Some((key, _)) = given.iter().find(|(_, is_given)| *is_given) {
            return Err(ConfigError::new(format!(
                "{key} is for a mode in which payloads wait, and the mode is '{word}': add \
                 --mode pcache, or another of baseline, direct, spill and adaptive"
            )));
        }
        return Ok((by_driver, None));
    };
    let hold = hold.unwrap_or_default();
    if hold > HOLD_MAX {
        return Err(ConfigError::new(format!(
            "hold: {hold} frames are too many: write a number up to {HOLD_MAX}"
        )));
    }
    let payloads = PayloadSettings {
        mode,
        cache_bytes: cache_bytes(cache)?,
        hold,
    };
    Ok((ByDriver::Never, Some(payloads)))
}

/// The size of the payload cache; it may have a fraction, as the paper's 1.4 MB has.
pub fn cache_bytes(given: Option<&str>) -> Result<u64, ConfigError> {
    let text = given.unwrap_or(CACHE_DEFAULT);
    let bytes = parse_fractional_size(text).filter(|bytes| (0.0..=1e12).contains(bytes));
    bytes.map(|bytes| bytes as u64).ok_or_else(|| {
        ConfigError::new(format!(
            "cache: '{text}' is not a size of a cache: write 1.4MiB, 512KiB or a number of bytes"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_caches_may_have_fractions() {
        assert_eq!(cache_bytes(Some("1.4MiB")).ok(), Some(1_468_006));
        assert_eq!(cache_bytes(Some("64KiB")).ok(), Some(65_536));
        for wrong in ["", "MiB", "1.4.2MiB", "-1", "1e9", "9TiB9"] {
            assert!(cache_bytes(Some(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_cache_is_for_a_payload_mode() {
        let ways = passage(Some("spill"), Some("4KiB"), Some(7));
        let kept = PayloadSettings {
            mode: Mode::Spill,
            cache_bytes: 4096,
            hold: 7,
        };
        assert_eq!(ways.ok(), Some((ByDriver::Never, Some(kept))));
        assert_eq!(
            passage(Some("driver"), None, None).ok(),
            Some((ByDriver::Always, None))
        );
        for wrong in [
            passage(Some("driver"), Some("1MiB"), None),
            passage(Some("auto"), None, Some(1)),
            passage(Some("pcaches"), None, None),
            passage(Some("pcache"), None, Some(HOLD_MAX + 1)),
        ] {
            assert!(wrong.is_err());
        }
    }
}
