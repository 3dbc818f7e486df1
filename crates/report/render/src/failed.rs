//! Failed operations and groups of them as lines of text.

use lineside_analyze::{
    Failed, FailedGroup, FailedGroups, FailedOperation, Frames, Per, Zone, file_name,
};
use lineside_words::{escape, grouped, percent};

use crate::slow::{heading_of, table};

/// What stands in the place of a status where no reply came.
const UNANSWERED: &str = "UNANSWERED";

/// Of times, the part that is printed: the date, where there is more than one, else the time alone.
fn shown_from(zone: &Zone, times: impl Iterator<Item = Option<i64>>) -> usize {
    let mut days: Vec<_> = times.flatten().map(|ns| zone.day(ns)).collect();
    days.sort_unstable();
    days.dedup();
    if days.len() < 2 { 11 } else { 5 }
}

fn time(zone: &Zone, from: usize, ns: Option<i64>) -> String {
    let text = ns.map(|ns| zone.date(ns)).unwrap_or_default();
    text.get(from..23).unwrap_or("-").to_owned()
}

fn status(status: Option<&str>) -> String {
    escape(status.unwrap_or(UNANSWERED))
}

/// One line an operation.
pub fn operations(failed: &Failed, zone: &Zone) -> String {
    let all = &failed.operations;
    let from = shown_from(zone, all.iter().map(|each| each.time_ns));
    let has_frames = all.is_empty() || all.iter().any(|each| each.frames != Frames::default());
    let mut heading = vec![
        ("TIME", false),
        ("CLIENT", false),
        ("SERVER", false),
        ("UID", true),
        ("OP", false),
        ("STATUS", false),
    ];
    heading.extend(has_frames.then_some(("FRAMES", false)));
    heading.extend([("ID", true), ("FILENAME", false)]);
    let row = |each: &FailedOperation| {
        let user = each.user_id.filter(|&id| id >= 0);
        let mut row = vec![
            time(zone, from, each.time_ns),
            escape(&each.client_address),
            escape(&each.server_address),
            user.map_or_else(|| "-".to_owned(), |id| id.to_string()),
            escape(&each.operation),
            status(each.status.as_deref()),
        ];
        row.extend(has_frames.then(|| each.frames.text(failed.has_inputs)));
        let path = each.path.as_deref().unwrap_or_default();
        row.extend([
            each.operation_id.to_string(),
            escape(&file_name(path, each.file_id)),
        ]);
        row
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    table(&heading, &rows)
}

/// One line a group.
pub fn groups(groups: &FailedGroups, zone: &Zone) -> String {
    let times = { groups.groups.iter() }.flat_map(|each| [each.first_ns, each.last_ns]);
    let from = shown_from(zone, times);
    let is_status = groups.per == Per::Status;
    let mut heading = vec![
        ("CALLS", true),
        ("FAILED", true),
        ("UNANSWERED", true),
        ("SHARE", true),
        ("FROM", false),
        ("TO", false),
        ("OP", false),
    ];
    heading.extend((!is_status).then_some(("STATUS", false)));
    heading.extend([("FIRST FRAMES", false), (heading_of(groups.per), false)]);
    let row = |each: &FailedGroup| {
        let mut row = vec![
            grouped(each.calls),
            grouped(each.failed),
            grouped(each.unanswered),
            percent(each.failed_share),
            time(zone, from, each.first_ns),
            time(zone, from, each.last_ns),
            escape(&each.operation),
        ];
        row.extend((!is_status).then(|| status(each.status.as_deref())));
        row.extend([each.frames.text(groups.has_inputs), name(each)]);
        row
    };
    let rows: Vec<Vec<String>> = groups.groups.iter().map(row).collect();
    table(&heading, &rows)
}

fn name(group: &FailedGroup) -> String {
    match group.per {
        Per::File | Per::Directory => escape(&file_name(&group.name, group.file_id)),
        Per::Status if group.name.is_empty() => UNANSWERED.to_owned(),
        _ if group.name.is_empty() => "-".to_owned(),
        _ => escape(&group.name),
    }
}
