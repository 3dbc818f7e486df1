//! The report of a probe as text.

use std::fmt::Write;

use lineside_probe::{By, Findings, RateFound, Share, WayFound};
use lineside_words::{bit_rate, bytes, grouped, percent, signed_time};

use crate::spread_text;

/// The report. `flags` are those by which `emulate` takes the files, if there are any.
pub fn probe_lines(host: &str, by: By, found: &Findings, flags: Option<&[String]>) -> String {
    let mut out = String::new();
    let how = match by {
        By::Udp(port) => format!("UDP port {port}, both ways"),
        By::Icmp => "ICMP, round trips".to_owned(),
        By::Tcp(port) => format!("TCP port {port}, round trips"),
    };
    let _ = writeln!(
        out,
        "probe        {host}, {how}: {} out, {} in, of {}",
        bytes(found.sent_bytes),
        bytes(found.received_bytes),
        bytes(found.budget_bytes)
    );
    if let Some(trips) = &found.round_trips {
        let _ = writeln!(out, "round trip   {}", spread_text(trips));
    }
    if let Some(lost) = &found.round_trips_lost {
        let _ = writeln!(out, "             lost {}", share_text(lost));
    }
    if matches!(by, By::Udp(_)) {
        way_lines("out", &found.out, &mut out);
        way_lines("in", &found.back, &mut out);
        let drift = match found.clock_drift_ppm {
            Some(ppm) => {
                format!("the other end's runs {ppm:+.1} ppm faster, which was taken out; ")
            }
            None => String::new(),
        };
        let _ = writeln!(
            out,
            "clocks       {drift}delays assume half of the least round trip for each way: the true \
            split cannot be known"
        );
    } else {
        let _ = writeln!(
            out,
            "not known    loss, order, rate and packet size of each way: that needs 'lineside probe \
            --serve' there"
        );
    }
    if let Some(flags) = flags {
        let _ = writeln!(out, "again        lineside emulate {}", flags.join(" "));
    }
    out
}

fn way_lines(name: &str, way: &WayFound, out: &mut String) {
    let mut lead = name;
    let mut line = |what: &str, text: String| {
        let _ = writeln!(out, "{lead:<13}{what:<7}{text}");
        lead = "";
    };
    if let (Some(delay), Some(variation)) = (&way.delay, &way.variation) {
        line("delay", spread_text(delay));
        line(
            "varies",
            format!(
                "above the least by p50 {}, p90 {}, p99 {}, max {}",
                signed_time(variation.p50_ns as f64),
                signed_time(variation.p90_ns as f64),
                signed_time(variation.p99_ns as f64),
                signed_time(variation.max_ns as f64)
            ),
        );
    }
    if let Some(lost) = &way.lost {
        line("lost", share_text(lost));
    }
    if let Some(order) = way
        .order
        .filter(|order| order.reordered + order.duplicates > 0)
    {
        line(
            "order",
            format!(
                "{} came after later ones, by {} at most; {} came twice",
                grouped(order.reordered),
                grouped(order.extent_max),
                grouped(order.duplicates)
            ),
        );
    }
    if let Some(rate) = &way.rate {
        line("rate", rate_text(rate, way));
    }
    if let Some(loaded) = &way.loaded {
        let trips = loaded.round_trips.as_ref();
        let times = trips.map_or_else(
            || "none was answered".to_owned(),
            |trips| {
                format!(
                    "round trips of p50 {}, p90 {}, max {}",
                    signed_time(trips.p50_ns as f64),
                    signed_time(trips.p90_ns as f64),
                    signed_time(trips.max_ns as f64)
                )
            },
        );
        line(
            "full",
            format!(
                "{times}, {} of {} lost, while {} packets came at {}",
                loaded.lost,
                loaded.echoes,
                grouped(loaded.packets),
                rate_word(loaded.bits_per_second)
            ),
        );
    }
    if let Some(mtu) = way.mtu_bytes {
        line("packet", format!("{mtu} bytes at most in one piece"));
    }
}

/// `7 of 400, 1.8 % (0.7 % to 4.4 % with 99 % confidence)`
fn share_text(share: &Share) -> String {
    format!(
        "{} of {}, {} ({} to {} with 99 % confidence)",
        grouped(share.count),
        grouped(share.of),
        percent(share.share),
        percent(share.low),
        percent(share.high)
    )
}

fn rate_text(rate: &RateFound, way: &WayFound) -> String {
    let lost = match way.train_packets_lost {
        0 => String::new(),
        lost => format!(
            ", {} of {} packets lost",
            grouped(lost),
            grouped(way.train_packets)
        ),
    };
    let trains = match rate.trains {
        1 => "1 train".to_owned(),
        trains => format!(
            "{trains} trains from {} to {}",
            rate_word(rate.lowest_bits_per_second),
            rate_word(rate.highest_bits_per_second)
        ),
    };
    if rate.is_at_least {
        return format!(
            "at least {}: packets came as fast as they were sent ({trains}{lost})",
            rate_word(rate.bits_per_second)
        );
    }
    let bucket = match rate.bucket_bytes {
        0 => "no burst".to_owned(),
        bucket => format!("burst of {} bytes", grouped(bucket)),
    };
    format!(
        "{}, {bucket} ({trains}{lost})",
        rate_word(rate.bits_per_second)
    )
}

/// `12.3 Mb/s`
fn rate_word(bits_per_second: u64) -> String {
    bit_rate(bits_per_second as f64)
}
