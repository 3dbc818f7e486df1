//! Lines that several verbs print.

use std::fmt::Write;

use lineside_measure::Spread;
use lineside_trace::Verdict;
use lineside_words::{escape, exact_time, signed_time};

use crate::block::state_word;

/// The lines of a verdict.
pub fn verdict_lines(verdict: &Verdict, out: &mut String) {
    let _ = writeln!(out, "verdict      {}", verdict_word(verdict));
    for reason in &verdict.reasons {
        let _ = writeln!(out, "             {}", escape(reason));
    }
}

/// `complete`
pub fn verdict_word(verdict: &Verdict) -> String {
    state_word(Some(verdict.state))
}

/// A distribution in a line; one of a single value is that value.
pub fn spread_text(spread: &Spread) -> String {
    if spread.min_ns == spread.max_ns {
        return exact_time(spread.max_ns as f64);
    }
    let time = |ns: i64| signed_time(ns as f64);
    format!(
        "mean {}, deviation {}; p1 {}, p50 {}, p99 {}, p99.9 {}, max {}",
        signed_time(spread.mean_ns),
        signed_time(spread.deviation_ns),
        time(spread.p01_ns),
        time(spread.p50_ns),
        time(spread.p99_ns),
        time(spread.p999_ns),
        time(spread.max_ns)
    )
}
