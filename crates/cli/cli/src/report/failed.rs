//! `lineside failed`: what failed in a trace, and what was never answered.

use lineside_analyze::{Failed, FailedGroups};
use lineside_render::failed;
use lineside_words::{grouped, percent};

use super::flags::FailedArguments;
use super::run::print_json_lines;
use crate::confine;
use crate::exit::Exit;
use crate::print::{exit, print, print_csv, say};
use crate::runs;

pub(crate) fn run(mut arguments: FailedArguments) -> anyhow::Result<Exit> {
    let request = arguments.request();
    { arguments.confining }.enter(confine::trace(&arguments.trace), None)?;
    runs::choose(&mut arguments.trace);
    let filter = arguments.filter.filter();
    let (json, csv) = (arguments.json, arguments.csv);
    if let Some(per) = arguments.per {
        let groups = lineside_analyze::failed_groups(&arguments.trace, &filter, per, &request)?;
        match (json, csv) {
            (true, _) => print_json_lines(&groups.groups)?,
            (false, true) => print_csv(&groups.groups)?,
            _ => print(&failed::groups(&groups, &filter.zone))?,
        }
        talk_about_groups(&groups, json || csv);
        return Ok(exit(&groups.unreadable));
    }
    let all = lineside_analyze::failed(&arguments.trace, &filter, &request)?;
    match (json, csv) {
        (true, _) => print_json_lines(&all.operations)?,
        (false, true) => print_csv(&all.operations)?,
        _ => print(&failed::operations(&all, &filter.zone))?,
    }
    talk_about(&all, json || csv);
    Ok(exit(&all.unreadable))
}

fn talk_about_groups(groups: &FailedGroups, is_data: bool) {
    for (number, what) in [
        (groups.left_out, "more groups: --top shows them"),
        (
            groups.not_tracked,
            "failures are in none of the groups: there are more groups than memory is for; choose \
            some with the filters",
        ),
    ] {
        if number > 0 {
            say(&format!("{} {what}", grouped(number)));
        }
    }
    if let Some(first) = groups.groups.first()
        && let (Some(tshark), false) = (&first.tshark, is_data)
    {
        say(&format!("the first of most: {tshark}"));
    }
}

/// How many failed, and where to look next.
fn talk_about(all: &Failed, is_data: bool) {
    let not_done = all.failed + all.unanswered;
    if not_done == 0 {
        say(&format!("none of {} calls failed", grouped(all.calls)));
        return;
    }
    say(&format!(
        "of {} calls {} failed and {} were never answered, {} together; --per status, operation, \
        client or file counts them",
        grouped(all.calls),
        grouped(all.failed),
        grouped(all.unanswered),
        percent(lineside_analyze::share(not_done, all.calls))
    ));
    if all.left_out > 0 {
        say(&format!(
            "{} more: a greater --top shows them",
            grouped(all.left_out)
        ));
    }
    if let Some(first) = all.operations.first()
        && let (Some(tshark), false) = (&first.tshark, is_data)
    {
        say(&format!("the first's call and reply: {tshark}"));
    }
}
