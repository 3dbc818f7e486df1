//! The keys that say where frames and their payloads pass.

use lineside_forward::{ByDriver, PayloadSettings};
use lineside_payload::Mode;
use lineside_words::parse_fractional_size;

use super::keys::Section;
use crate::config::ConfigError;
use crate::inputs::of_word;

/// The words of `--mode` that keep payloads.
pub(crate) const PAYLOAD_MODES: [(&str, Mode); 5] = [
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

impl Section {
    /// Whether the driver forwards, or how payloads are kept.
    pub(super) fn ways(&self) -> Result<(ByDriver, Option<PayloadSettings>), ConfigError> {
        let word = self.mode.as_deref().unwrap_or("auto");
        let Some(&(_, mode)) = { PAYLOAD_MODES.iter() }.find(|(known, _)| *known == word) else {
            let payloads = PAYLOAD_MODES.map(|(word, _)| (word, ByDriver::Never));
            let by_driver = of_word("mode", word, &[&MODES[..], &payloads].concat())?;
            let given = [
                ("cache", self.cache.is_some()),
                ("hold", self.hold.is_some()),
            ];
            if let Some((key, _)) = given.iter().find(|(_, is_given)| *is_given) {
                return Err(ConfigError::new(format!(
                    "{key} is for a mode in which payloads wait, and the mode is '{word}': add \
                     --mode pcache, or another of baseline, direct, spill and adaptive"
                )));
            }
            return Ok((by_driver, None));
        };
        let hold = self.hold.unwrap_or_default();
        if hold > HOLD_MAX {
            return Err(ConfigError::new(format!(
                "hold: {hold} frames are too many: write a number up to {HOLD_MAX}"
            )));
        }
        let payloads = PayloadSettings {
            mode,
            cache_bytes: self.cache_bytes()?,
            hold,
        };
        Ok((ByDriver::Never, Some(payloads)))
    }

    /// The size of the payload cache.
    pub(crate) fn cache_bytes(&self) -> Result<u64, ConfigError> {
        cache_bytes(self.cache.as_deref().unwrap_or(CACHE_DEFAULT))
    }
}

/// A size that may have a fraction, as the paper's 1.4 MB has.
fn cache_bytes(text: &str) -> Result<u64, ConfigError> {
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
        assert_eq!(cache_bytes("1.4MiB").ok(), Some(1_468_006));
        assert_eq!(cache_bytes("64KiB").ok(), Some(65_536));
        for wrong in ["", "MiB", "1.4.2MiB", "-1", "1e9", "9TiB9"] {
            assert!(cache_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_cache_is_for_a_payload_mode() {
        let section = |mode: &str, cache: Option<&str>, hold: Option<u32>| Section {
            mode: Some(mode.to_owned()),
            cache: cache.map(str::to_owned),
            hold,
            ..Section::default()
        };
        let ways = section("spill", Some("4KiB"), Some(7)).ways();
        let kept = PayloadSettings {
            mode: Mode::Spill,
            cache_bytes: 4096,
            hold: 7,
        };
        assert_eq!(ways.ok(), Some((ByDriver::Never, Some(kept))));
        assert_eq!(
            section("driver", None, None).ways().ok(),
            Some((ByDriver::Always, None))
        );
        for wrong in [
            section("driver", Some("1MiB"), None),
            section("auto", None, Some(1)),
            section("pcaches", None, None),
            section("pcache", None, Some(HOLD_MAX + 1)),
        ] {
            assert!(wrong.ways().is_err());
        }
    }
}
