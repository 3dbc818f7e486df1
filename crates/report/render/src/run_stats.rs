//! What a run has counted so far: `ctl RUN stats`.

use std::fmt::Write;

use lineside_run::stats::{DirectionStats, DropStats, MonitorStats, RunStats};
use lineside_words::{exact_time, grouped, time};

/// The figures for a person: a line for each direction, and what else there is.
pub fn run_stats_lines(stats: &RunStats) -> String {
    let mut out = String::new();
    if !stats.directions.is_empty() {
        directions_lines(stats, &mut out);
    }
    if let Some(switch) = &stats.switch {
        let _ = writeln!(
            out,
            "switch         {} came, {} forwarded, {} flooded, {} copies, {} dropped, {} addresses",
            grouped(switch.came),
            grouped(switch.forwarded),
            grouped(switch.flooded),
            grouped(switch.copies),
            grouped(switch.dropped),
            grouped(switch.addresses)
        );
        for port in switch.ports.iter().filter(|port| port.is_gone) {
            let _ = writeln!(out, "               {} takes no further part", port.name);
        }
    }
    if let Some(polling) = &stats.polling {
        let _ = writeln!(
            out,
            "loop           {} stalls of more than 100 us, {} the longest",
            grouped(polling.stalls),
            time(polling.stall_max_ns.max(0).cast_unsigned())
        );
    }
    if let Some(tap) = &stats.tap {
        let _ = writeln!(
            out,
            "tap            {} frames copied, {} dropped",
            grouped(tap.copied),
            grouped(tap.dropped_queue + tap.dropped_memory)
        );
    }
    for monitor in &stats.monitors {
        monitor_lines(monitor, &mut out);
    }
    out
}

fn directions_lines(stats: &RunStats, out: &mut String) {
    let after = stats.after_ns.unwrap_or_default();
    let _ = writeln!(
        out,
        "{:<15}{:>12}{:>12}{:>9}{:>8}{:>11}{:>11}{:>11}{:>10}{:>10}",
        format!("at {:.1} s", after as f64 / 1e9),
        "entered",
        "left",
        "dropped",
        "held",
        "late>100us",
        "p50",
        "p99",
        "in Mb/s",
        "out Mb/s"
    );
    for direction in &stats.directions {
        direction_lines(direction, out);
    }
}

fn direction_lines(direction: &DirectionStats, out: &mut String) {
    let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), time);
    let (entered, released) = match &direction.rates {
        Some(rates) => (megabits(rates.entered_bps), megabits(rates.released_bps)),
        None => ("-".to_owned(), "-".to_owned()),
    };
    let _ = writeln!(
        out,
        "{:<15}{:>12}{:>12}{:>9}{:>8}{:>11}{:>11}{:>11}{:>10}{:>10}",
        direction.name,
        grouped(direction.entered),
        grouped(direction.released),
        grouped(direction.dropped.total()),
        grouped(direction.held),
        grouped(direction.late.over_100us),
        time(direction.delay.map(|delay| delay.p50_ns)),
        time(direction.delay.map(|delay| delay.p99_ns)),
        entered,
        released
    );
    if direction.dropped.total() > 0 {
        let _ = writeln!(
            out,
            "               dropped by {}",
            reasons(&direction.dropped)
        );
    }
    for matching in &direction.matches {
        let _ = writeln!(
            out,
            "               match {}: {} entered, {} lost, p50 {}, p99 {}",
            matching.expressions,
            grouped(matching.entered),
            grouped(matching.lost),
            time(matching.delay.map(|delay| delay.p50_ns)),
            time(matching.delay.map(|delay| delay.p99_ns))
        );
    }
}

/// `loss 12, limit 3`
fn reasons(dropped: &DropStats) -> String {
    let reasons = [
        ("loss", dropped.loss),
        ("down", dropped.down),
        ("limit", dropped.limit),
        ("rate", dropped.rate),
        ("memory", dropped.memory),
        ("interface", dropped.interface),
    ];
    let reasons = reasons.iter().filter(|(_, count)| *count > 0);
    let reasons = reasons.map(|(reason, count)| format!("{reason} {}", grouped(*count)));
    reasons.collect::<Vec<_>>().join(", ")
}

fn monitor_lines(monitor: &MonitorStats, out: &mut String) {
    let _ = writeln!(
        out,
        "monitor        '{}' at {}.{}",
        monitor.monitor, monitor.port, monitor.point
    );
    for each in &monitor.distributions {
        let value = |value: u64| match each.metric.ends_with("_ns") {
            true => time(value),
            false => grouped(value),
        };
        let _ = writeln!(
            out,
            "  {:<28}{:>12}   p50 {}, p90 {}, p99 {}, max {}",
            each.metric,
            grouped(each.count),
            value(each.p50),
            value(each.p90),
            value(each.p99),
            value(each.max)
        );
    }
    if let Some(window) = &monitor.window {
        let _ = writeln!(
            out,
            "  {:<28}{:>12}   {} frames/s, {} Mb/s",
            format!("latest {}", exact_time(window.window_ns as f64)),
            grouped(window.packets),
            grouped(window.pps as u64),
            megabits(window.bps)
        );
    }
    if let (Some(known), Some(seen)) = (monitor.flows_known, monitor.flows_seen) {
        let (known, seen) = (grouped(known), grouped(seen));
        let _ = writeln!(out, "  {:<28}{known:>12}   {seen} seen", "flows");
    }
}

/// `12.3`
fn megabits(bps: f64) -> String {
    format!("{:.1}", bps / 1e6)
}

#[cfg(test)]
mod tests {
    use lineside_run::stats::{DelayStats, DistributionStats, WindowStats};

    use super::*;

    #[test]
    fn a_direction_has_a_line_and_its_reasons_another() {
        let direction = DirectionStats {
            name: "outbound".to_owned(),
            entered: 12_345,
            released: 12_000,
            dropped: DropStats {
                loss: 300,
                limit: 42,
                ..DropStats::default()
            },
            held: 3,
            delay: Some(DelayStats {
                count: 12_000,
                min_ns: 1,
                p50_ns: 10_000_000,
                p99_ns: 12_875_000,
                max_ns: 13_000_000,
            }),
            ..DirectionStats::default()
        };
        let mut out = String::new();
        direction_lines(&direction, &mut out);
        let words: Vec<_> = out.split_whitespace().collect();
        assert_eq!(
            words.join(" "),
            "outbound 12,345 12,000 342 3 0 10.0 ms 12.9 ms - - dropped by loss 300, limit 42"
        );
    }

    #[test]
    fn a_monitor_has_a_line_for_each_metric() {
        let monitor = MonitorStats {
            monitor: "gap,packets".to_owned(),
            port: "m0".to_owned(),
            point: "came".to_owned(),
            distributions: vec![DistributionStats {
                metric: "gap_ns".to_owned(),
                count: 9,
                p50: 1_000,
                p90: 2_000,
                p99: 3_000,
                max: 4_000,
            }],
            window: Some(WindowStats {
                start_ns: 0,
                window_ns: 1_000_000,
                packets: 5,
                bytes: 5_000,
                pps: 5_000.0,
                bps: 40e6,
            }),
            flows_known: Some(3),
            flows_seen: Some(4),
        };
        let mut out = String::new();
        monitor_lines(&monitor, &mut out);
        let lines: Vec<_> = { out.lines() }
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            lines,
            [
                "monitor 'gap,packets' at m0.came",
                "gap_ns 9 p50 1.00 us, p90 2.00 us, p99 3.00 us, max 4.00 us",
                "latest 1 ms 5 5,000 frames/s, 40.0 Mb/s",
                "flows 3 4 seen"
            ]
        );
    }
}
