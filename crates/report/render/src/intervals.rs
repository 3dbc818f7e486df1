//! Intervals as nfsiostat prints them.

use std::fmt::Write;

use lineside_analyze::{HANG_MIN_NS, Iostat, Series, Zone};
use lineside_words::{grouped, time};

/// What nfsiostat prints, an interval after the other, with the times of a zone. `-` is
/// what only a client knows.
pub fn intervals(series: &Series, zone: &Zone) -> String {
    let mut out = String::new();
    for interval in &series.intervals {
        let seconds = series.interval_ns as f64 / 1e9;
        let waiting = match interval.oldest_wait_ns {
            HANG_MIN_NS.. => format!(
                ", {} waiting, the oldest for {}",
                grouped(interval.waiting),
                time(interval.oldest_wait_ns)
            ),
            _ => String::new(),
        };
        let _ = writeln!(
            out,
            "{}, {:.3} ops/s{waiting}\n{:8}{:>10}{:>11}{:>9}{:>12}{:>9}{:>5}{:>6}{:>10}",
            zone.date(interval.start_ns),
            interval.all.operations as f64 / seconds,
            "",
            "ops/s",
            "kB/s",
            "kB/op",
            "retrans",
            "avg RTT",
            "exe",
            "queue",
            "errors"
        );
        for (name, iostat) in [("read:", &interval.read), ("write:", &interval.write)] {
            iostat_line(name, iostat, seconds, &mut out);
        }
        out.push('\n');
    }
    out
}

fn iostat_line(name: &str, iostat: &Iostat, seconds: f64, out: &mut String) {
    let operations = iostat.operations as f64;
    let kilobytes = iostat.rpc_bytes as f64 / 1024.0;
    let of = |number: f64, whole: f64| if whole == 0.0 { 0.0 } else { number / whole };
    let counted = |number: u64| format!("{number} ({:.1}%)", of(number as f64, operations) * 100.0);
    let _ = writeln!(
        out,
        "{name:<8}{:>10.3}{:>11.3}{:>9.3}{:>12}{:>9.3}{:>5}{:>6}{:>10}",
        operations / seconds,
        kilobytes / seconds,
        of(kilobytes, operations),
        counted(iostat.retransmissions),
        of(
            iostat.round_trip_sum_ns as f64 / 1e6,
            iostat.round_trips as f64
        ),
        "-",
        "-",
        counted(iostat.failed),
    );
}
