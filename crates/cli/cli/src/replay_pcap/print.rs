//! The account of a replay, printed.

use std::fmt::Write;

use lineside_words::{bit_rate, bytes, grouped, time};
use lineside_workload::Departures;

use super::flags::Arguments;
use super::sender::Sender;
use crate::print::{print, print_json, seconds};

pub(super) fn print_account(
    arguments: &Arguments,
    sender: &Sender,
    departures: &Departures,
) -> anyhow::Result<()> {
    match arguments.json {
        true => print_json(&json(arguments, sender, departures)),
        false => print(&(lines(arguments, departures) + &remarks(sender, departures))),
    }
}

fn json(arguments: &Arguments, sender: &Sender, departures: &Departures) -> serde_json::Value {
    let lateness = departures.lateness.map(|late| {
        serde_json::json!({
            "p50_ns": late.p50_ns,
            "p99_ns": late.p99_ns,
            "p999_ns": late.p999_ns,
            "max_ns": late.max_ns,
            "late_frames": late.late.over_100us,
        })
    });
    serde_json::json!({
        "interface": arguments.interface,
        "frames": departures.frames,
        "bytes": departures.bytes,
        "asked_ns": departures.asked_ns,
        "achieved_ns": departures.achieved_ns,
        "asked_bps": departures.asked_bps,
        "achieved_bps": departures.achieved_bps,
        "achieved_pps": departures.achieved_pps,
        "lateness": lateness,
        "stalls": sender.stalls,
        "frames_cut": sender.ready.frames_cut,
        "stamps_backwards": departures.stamps_backwards,
        "stamps_missing": departures.stamps_missing,
    })
}

fn lines(arguments: &Arguments, departures: &Departures) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "sent         {} frames, {} to {}",
        grouped(departures.frames),
        bytes(departures.bytes),
        arguments.interface
    );
    let rate = |bps: Option<f64>| bps.map_or(String::new(), |bps| format!(", {}", bit_rate(bps)));
    if let Some(asked_ns) = departures.asked_ns {
        let _ = writeln!(
            out,
            "asked        {}{}",
            seconds(asked_ns as i64),
            rate(departures.asked_bps)
        );
    }
    let _ = match departures.achieved_pps {
        Some(pps) => writeln!(
            out,
            "achieved     {}{}, {} frames/s",
            seconds(departures.achieved_ns as i64),
            rate(departures.achieved_bps),
            grouped(pps as u64)
        ),
        None => writeln!(
            out,
            "achieved     no rate: no time passed from the first frame to the last"
        ),
    };
    if let Some(late) = departures.lateness {
        let _ = writeln!(
            out,
            "late         p50 {}, p99 {}, p99.9 {}, max {}; \
            {} by more than 100 us",
            time(late.p50_ns),
            time(late.p99_ns),
            time(late.p999_ns),
            time(late.max_ns),
            grouped(late.late.over_100us)
        );
    }
    out
}

/// Counts of frames that left changed or late.
fn remarks(sender: &Sender, departures: &Departures) -> String {
    let mut out = String::new();
    for (count, what) in [
        (
            sender.stalls,
            "times the interface did not accept a frame that was due",
        ),
        (
            sender.ready.frames_cut,
            "frames were cut by a snap length: only the captured part of them was sent",
        ),
        (
            departures.stamps_backwards,
            "stamps ran backwards: those frames went with the ones before them",
        ),
        (
            departures.stamps_missing,
            "frames without a stamp went with the ones before them",
        ),
    ] {
        if count > 0 {
            let _ = writeln!(out, "             {} {what}", grouped(count));
        }
    }
    out
}
