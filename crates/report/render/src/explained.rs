//! An account of delays as text.

use std::fmt::Write;

use lineside_path::explain::Explained;
use lineside_words::exact_time;

/// The parts of a delay, in their order, and their sum.
pub fn explained_lines(explained: &Explained) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", explained.direction);
    for part in &explained.parts {
        let range = match part.most_ns {
            Some(most_ns) if most_ns == part.least_ns => String::new(),
            Some(most_ns) => format!(
                ", from {} to {}",
                exact_time(part.least_ns),
                exact_time(most_ns)
            ),
            None => format!(", from {}, without a bound", exact_time(part.least_ns)),
        };
        let _ = writeln!(
            out,
            "  {:<10} {}{range}",
            part.part,
            exact_time(part.mean_ns)
        );
        let _ = writeln!(out, "             {}", part.because);
    }
    if !explained.parts.is_empty() {
        let sum: f64 = explained.parts.iter().map(|part| part.mean_ns).sum();
        let _ = writeln!(out, "  in all     {}", exact_time(sum));
    }
    for remark in &explained.remarks {
        let _ = writeln!(out, "             {remark}");
    }
    out
}
