//! `lineside load --assert`: what a load must keep to.

use lineside_analyze::{Assert, AssertError, Assertion, LoadFigures};
use lineside_load::certificate::Certificate;
use lineside_load::outcome::Outcome;
use lineside_load::protocol::{Moves, protocol};

use super::flags::Section;
use crate::config::ConfigError;
use crate::print::{print, talk};

impl Section {
    /// The assertions, read before anything begins.
    pub(super) fn asserts(&self) -> Result<Vec<Assert>, ConfigError> {
        let texts = self.asserts.iter().flatten();
        let read = |text: &String| {
            let assert: Assert = text.parse()?;
            assert.must_be_of_a_load()?;
            Ok(assert)
        };
        texts
            .map(read)
            .collect::<Result<_, AssertError>>()
            .map_err(|error| ConfigError::new(format!("assert: {error}")))
    }
}

/// What assertions are about.
pub(super) fn figures<'a>(certificate: &Certificate, outcome: &'a Outcome) -> LoadFigures<'a> {
    let counts = &outcome.counts;
    LoadFigures {
        latency: &outcome.times.latency,
        requests: counts.planned,
        answered: counts.answered,
        not_successful: counts.planned.saturating_sub(counts.succeeded),
        unanswered: counts.planned.saturating_sub(counts.answered),
        answers_per_s: certificate.rates.answered,
        bytes_per_s: match protocol(&certificate.asked.protocol).map(|of| of.moves) {
            Some(Moves::Upload) => certificate.rates.request_bytes,
            _ => certificate.rates.received_bytes,
        },
    }
}

/// What came of assertions. Standard output belongs to the data if they are JSON.
pub(super) fn assertion_lines(
    judged: &[Assertion],
    is_json: bool,
    is_quiet: bool,
) -> anyhow::Result<()> {
    let shown = judged.iter().filter(|each| !is_quiet || !each.holds);
    let text: String = shown
        .map(|each| format!("{:<12} {}\n", "assert", each.what))
        .collect();
    if is_json || is_quiet {
        talk(&text);
        return Ok(());
    }
    print(&text)
}
