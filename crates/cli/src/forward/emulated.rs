//! `lineside forward --emulated`: the forwarder of the payload-caching paper in virtual time.

use anyhow::{Context, bail};
use lineside_payload::figures::{FIGURES, Flow, figure, run_flow};
use lineside_payload::patterns::{PATTERNS, pattern};
use lineside_payload::{Mode, Parameters};
use lineside_time::Rate;

use super::emulated_print::{figure_html, figure_text, flow_text, pattern_text};
use super::emulated_run::run_commands;
use super::flags::Arguments;
use crate::exit::Exit;
use crate::inputs::of_word;
use crate::print::{print, print_json};

/// The words of `--mode` for it.
pub(super) const MODES: [(&str, Mode); 5] = [
    ("baseline", Mode::Baseline),
    ("pcache", Mode::Pcache),
    ("direct", Mode::Direct),
    ("spill", Mode::Spill),
    ("adaptive", Mode::Adaptive),
];

/// Packets of a flow that are counted.
const PACKETS: u32 = 20_000;

/// Runs a figure, a pattern or a flow.
pub(super) fn run(given: &Arguments) -> anyhow::Result<Exit> {
    let arguments = &given.emulated;
    let (seed, json) = (given.keys.seed.unwrap_or(1), given.json);
    let mode = of_word(
        "mode",
        given.keys.mode.as_deref().unwrap_or("pcache"),
        &MODES,
    )?;
    let cache_bytes = cache_bytes(&arguments.cache)?;
    if let Some(number) = arguments.figure {
        let known = FIGURES.map(|number| number.to_string()).join(", ");
        let figure = figure(number, seed)
            .with_context(|| format!("there is no figure {number}: --figure takes {known}"))?;
        if let Some(page) = &arguments.html {
            std::fs::write(page, figure_html(&figure))
                .with_context(|| format!("cannot write '{}'", page.display()))?;
        }
        match json {
            true => print_json(&figure)?,
            false => print(&figure_text(&figure))?,
        }
        return Ok(Exit::Done);
    }
    if let Some(name) = &arguments.pattern {
        let outcome = pattern(name, cache_bytes, seed).with_context(|| {
            let known = PATTERNS.join(", ");
            format!("there is no pattern '{name}': --pattern takes {known}")
        })?;
        match json {
            true => print_json(&outcome)?,
            false => print(&pattern_text(&outcome))?,
        }
        return Ok(Exit::Done);
    }
    let parameters = Parameters::new(mode, cache_bytes);
    if let Some(server) = &arguments.server {
        return run_commands(&parameters, (server, &arguments.client), seed, json);
    }
    let Some(bytes) = arguments.size else {
        bail!(
            "nothing to do: add --figure NUMBER, --pattern NAME, --size BYTES or --server CMD -- CMD"
        );
    };
    let counters = run_flow(
        &parameters,
        &Flow {
            bytes,
            offered_bytes_per_s: bytes_per_s(arguments.rate, bytes),
            is_poisson: arguments.poisson,
            burst: arguments.burst,
            packets: PACKETS,
            seed,
        },
    );
    match json {
        true => print_json(&serde_json::json!({
            "parameters": parameters,
            "counters": counters,
        }))?,
        false => print(&flow_text(&parameters, &counters))?,
    }
    Ok(Exit::Done)
}

/// Of packets of a size, or of frames a second.
fn bytes_per_s(rate: Rate, bytes: u32) -> f64 {
    match rate {
        Rate::Bits(bits) => bits as f64 / 8.0,
        Rate::Frames(frames) => frames as f64 * f64::from(bytes),
    }
}

/// A size that may have a fraction, as the paper's 1.4 MB has.
fn cache_bytes(text: &str) -> anyhow::Result<u64> {
    let trimmed = text.trim();
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let split = trimmed.find(|c| !is_number(c)).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let factor = lineside_account::parse_size(&format!("1{unit}")).ok();
    let bytes = { number.parse::<f64>().ok() }
        .zip(factor)
        .map(|(number, factor)| number * factor as f64)
        .filter(|bytes| (0.0..=1e12).contains(bytes));
    match bytes {
        Some(bytes) => Ok(bytes as u64),
        None => {
            bail!("'{text}' is not a size of a cache: write 1.4MiB, 512KiB or a number of bytes")
        }
    }
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
}
