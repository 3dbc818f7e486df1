//! Slow operations and groups of them as lines of text.

use std::fmt::Write;

use lineside_analyze::{Frames, Per, Slow, SlowGroup, SlowGroups, SlowOperation, Zone, file_name};
use lineside_words::{bytes, escape, grouped, percent};

/// Rows of cells below a heading: each column is as wide as its widest cell, numbers on the right.
pub fn table(heading: &[(&str, bool)], rows: &[Vec<String>]) -> String {
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells.chain([heading[at].0.len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let mut out = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for ((cell, &width), (_, is_number)) in cells.zip(&widths).zip(heading) {
            let _ = match is_number {
                true => write!(text, "{cell:>width$} "),
                false => write!(text, "{cell:<width$} "),
            };
        }
        out.push_str(text.trim_end());
        out.push('\n');
    };
    line(&mut heading.iter().map(|(name, _)| *name));
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
    out
}

fn ms(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.2}", ns as f64 / 1e6))
}

/// A time that is longer than what is known of it begins with `>`.
fn bound(ns: Option<u64>, is_bound: bool) -> String {
    let sign = if is_bound { ">" } else { "" };
    format!("{sign}{}", ms(ns))
}

/// What nfsslower prints, with client and user in place of process, and with the parts of the
/// latency and the frames.
pub fn operations(slow: &Slow, zone: &Zone) -> String {
    let day = |each: &SlowOperation| zone.day(each.call_time_ns);
    let mut days: Vec<_> = slow.operations.iter().map(day).collect();
    days.dedup();
    // The date, where there is more than one; else the time alone, as nfsslower has it.
    let from = if days.len() < 2 { 11 } else { 5 };
    let any = |part: fn(&SlowOperation) -> Option<u64>| {
        { slow.operations.iter() }.any(|each| part(each).is_some_and(|ns| ns > 0))
    };
    let recovery: fn(&SlowOperation) -> Option<u64> = |each| each.divided.recovery_ns;
    let way: fn(&SlowOperation) -> Option<u64> = |each| each.divided.way_ns;
    let pause: fn(&SlowOperation) -> Option<u64> = |each| each.divided.pause_ns;
    let (has_recovery, has_way, has_pause) = (any(recovery), any(way), any(pause));
    // The rows of a load have no frames, and those of the kernel's sockets no client.
    let all = &slow.operations;
    let has_frames = all.is_empty() || all.iter().any(|each| each.frames != Frames::default());
    let has_client = all.is_empty() || all.iter().any(|each| !each.client_address.is_empty());
    let mut heading = vec![("TIME", false)];
    heading.extend(has_client.then_some(("CLIENT", false)));
    heading.extend([
        ("UID", true),
        ("OP", false),
        ("BYTES", true),
        ("OFFSET_KB", true),
        ("LAT(ms)", true),
        ("SERVER", true),
    ]);
    heading.extend(has_way.then_some(("WAY", true)));
    heading.push(("TRANSFER", true));
    heading.extend(has_pause.then_some(("PAUSE", true)));
    heading.extend(has_recovery.then_some(("RESENT", true)));
    heading.extend(has_frames.then_some(("FRAMES", false)));
    heading.extend([("ID", true), ("FILENAME", false)]);
    let number =
        |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let row = |each: &SlowOperation| {
        let time = zone.date(each.call_time_ns);
        let mut row = vec![time.get(from..23).unwrap_or(&time).to_owned()];
        row.extend(has_client.then(|| escape(&each.client_address)));
        row.extend([
            number(each.user_id.filter(|&id| id >= 0)),
            escape(&each.operation),
            number(each.transferred_bytes.filter(|&bytes| bytes >= 0)),
            each.offset_bytes
                .map_or_else(|| "-".to_owned(), |offset| (offset / 1024).to_string()),
            bound(Some(each.latency_ns), each.latency_is_bound),
            ms(each.divided.server_ns),
        ]);
        row.extend(has_way.then(|| ms(way(each))));
        row.push(ms(Some(each.divided.transfer_ns)));
        row.extend(has_pause.then(|| ms(pause(each))));
        row.extend(has_recovery.then(|| ms(recovery(each))));
        row.extend(has_frames.then(|| each.frames.text(slow.has_inputs)));
        row.extend([
            each.operation_id.to_string(),
            escape(&file_name(
                each.path.as_deref().unwrap_or_default(),
                each.file_id,
            )),
        ]);
        row
    };
    let rows: Vec<Vec<String>> = slow.operations.iter().map(row).collect();
    table(&heading, &rows)
}

/// What groups are named by.
pub(crate) fn heading_of(per: Per) -> &'static str {
    match per {
        Per::Client => "CLIENT",
        Per::Server => "SERVER",
        Per::File => "FILE",
        Per::Directory => "DIRECTORY",
        Per::User => "UID",
        Per::Operation => "OPERATION",
        Per::Connection => "CONNECTION",
        Per::Minute => "MINUTE",
        Per::Status => "STATUS",
    }
}

/// One line a group.
pub fn groups(groups: &SlowGroups, zone: &Zone) -> String {
    let what = heading_of(groups.per);
    let has_recovery =
        { groups.groups.iter() }.any(|each| each.recovery_ns.is_some_and(|ns| ns > 0));
    let mut heading = vec![
        ("CALLS", true),
        ("SLOW", true),
        ("SHARE", true),
        ("P50(ms)", true),
        ("P99(ms)", true),
        ("MAX(ms)", true),
        ("SERVER P99", true),
    ];
    heading.extend(has_recovery.then_some(("RESENT", true)));
    heading.extend([
        ("BYTES", true),
        ("SLOW FROM", false),
        ("TO", false),
        (what, false),
    ]);
    let times = { groups.groups.iter() }.flat_map(|each| [each.slow_first_ns, each.slow_last_ns]);
    let mut days: Vec<_> = times.flatten().map(|ns| zone.day(ns)).collect();
    days.sort_unstable();
    days.dedup();
    let from = if days.len() < 2 { 11 } else { 5 };
    let time = |ns: Option<i64>| {
        let text = ns.map(|ns| zone.date(ns)).unwrap_or_default();
        text.get(from..23).unwrap_or("-").to_owned()
    };
    let row = |each: &SlowGroup| {
        let is_bound = |ns| {
            each.latency_bound_min_ns
                .is_some_and(|least| ns >= Some(least))
        };
        let latency = |ns| bound(ns, is_bound(ns));
        let mut row = vec![
            grouped(each.operations),
            grouped(each.slow),
            percent(each.slow_share),
            latency(each.latency_p50_ns),
            latency(each.latency_p99_ns),
            latency(each.latency_max_ns),
            ms(each.server_time_p99_ns),
        ];
        row.extend(has_recovery.then(|| ms(each.recovery_ns)));
        row.extend([
            bytes(each.transferred_bytes),
            time(each.slow_first_ns),
            time(each.slow_last_ns),
            name(each, zone),
        ]);
        row
    };
    let rows: Vec<Vec<String>> = groups.groups.iter().map(row).collect();
    table(&heading, &rows)
}

fn name(group: &SlowGroup, zone: &Zone) -> String {
    let id = group.connection_id;
    match group.per {
        Per::File | Per::Directory => escape(&file_name(&group.name, group.file_id)),
        Per::Connection if !group.name.is_empty() => {
            format!("{} ({})", escape(&group.name), id.unwrap_or_default())
        }
        Per::Minute => {
            let date = group.minute_ns.map(|ns| zone.date(ns)).unwrap_or_default();
            date.get(..16).unwrap_or("-").to_owned()
        }
        _ if group.name.is_empty() => "-".to_owned(),
        _ => escape(&group.name),
    }
}
