//! An account of delays for the terminal.

use std::fmt::Write;

use lineside_analyze::grouped;

use super::account::Explained;

pub(super) fn us(ns: f64) -> String {
    format!("{:.3} us", ns / 1e3)
}

pub(super) fn bit_rate(bits_per_second: u64) -> String {
    format!("{} bit/s", grouped(bits_per_second))
}

pub(super) fn lines(explained: &Explained) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", explained.direction);
    for part in &explained.parts {
        let range = match part.most_ns {
            Some(most_ns) if most_ns == part.least_ns => String::new(),
            Some(most_ns) => format!(", from {} to {}", us(part.least_ns), us(most_ns)),
            None => format!(", from {}, without a bound", us(part.least_ns)),
        };
        let _ = writeln!(out, "  {:<10} {}{range}", part.part, us(part.mean_ns));
        let _ = writeln!(out, "             {}", part.because);
    }
    if !explained.parts.is_empty() {
        let sum: f64 = explained.parts.iter().map(|part| part.mean_ns).sum();
        let _ = writeln!(out, "  in all     {}", us(sum));
    }
    for remark in &explained.remarks {
        let _ = writeln!(out, "             {remark}");
    }
    out
}
