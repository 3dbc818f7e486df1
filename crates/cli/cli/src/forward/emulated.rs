//! `lineside forward --emulated`: the forwarder of the payload-caching paper in virtual time.

use anyhow::{Context, bail};
use lineside_forward::settings::{PAYLOAD_MODES, cache_bytes};
use lineside_host::Sandbox;
use lineside_payload::Parameters;
use lineside_payload::figures::{FIGURES, Flow, figure, run_flow};
use lineside_payload::patterns::{PATTERNS, pattern};
use lineside_render::adapter::{figure_html, figure_text, flow_text, pattern_text};
use lineside_run::of_word;
use lineside_words::Rate;

use super::emulated_run::run_commands;
use super::flags::Arguments;
use crate::exit::Exit;
use crate::print::{print, print_json};

/// Packets of a flow that are counted.
const PACKETS: u32 = 20_000;

/// Runs a figure, a pattern or a flow.
pub(super) fn run(given: &Arguments) -> anyhow::Result<Exit> {
    let arguments = &given.emulated;
    let (seed, json) = (given.keys.seed.unwrap_or(1), given.json);
    let mode = of_word(
        "mode",
        given.keys.mode.as_deref().unwrap_or("pcache"),
        &PAYLOAD_MODES,
    )?;
    let cache_bytes = cache_bytes(given.keys.cache.as_deref())?;
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
        let sandbox = { given.keys.sandbox.unwrap_or_default() }.applied(Sandbox::new());
        let commands = (server.as_str(), arguments.client.as_slice());
        return run_commands(&parameters, commands, sandbox, seed, json);
    }
    let Some(bytes) = arguments.size else {
        bail!(
            "nothing to do: add --figure NUMBER, --pattern NAME, --datagram-size BYTES or --server CMD -- CMD"
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
