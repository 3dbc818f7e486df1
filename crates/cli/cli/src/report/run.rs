//! `lineside report` and `lineside slow`: the account of the capture and of the workload in a
//! trace.

use lineside_analyze::{Assertion, SLOW_MAX, Slow};
use lineside_render::{html, slow, terminal};
use lineside_run::check_new_file;
use lineside_words::{escape_json, grouped, time};
use serde::Serialize;

use super::compare::judged;
use super::flags::{ReportArguments, SlowArguments};
use crate::config::ConfigError;
use crate::confine;
use crate::exit::Exit;
use crate::experiments;
use crate::junit::Junit;
use crate::print::{
    exit, passed_over, print, print_csv, print_data, print_json, print_styled, say, style,
};
use crate::runs;

pub(crate) fn run(arguments: ReportArguments) -> anyhow::Result<Exit> {
    let is_lab = lineside_lab::Results::is_there(&arguments.trace);
    if is_lab || experiments::predicted::is_there(&arguments.trace) {
        return experiment(&arguments, is_lab);
    }
    if arguments.target.is_some() {
        let why = format!(
            "--target is of labs, and {} is none",
            arguments.trace.display()
        );
        return Err(ConfigError::usage(&why).into());
    }
    let named = confine::trace(&arguments.trace);
    if let Some(page) = &arguments.html {
        check_new_file(page, "--html", arguments.force)?;
    }
    let junit = Junit::open(arguments.junit.as_deref(), arguments.assert.len())?;
    let outs = [arguments.html.as_deref(), arguments.junit.as_deref()];
    let outs: Vec<_> = outs.into_iter().flatten().collect();
    let confined = { arguments.confining }.enter_writing(named, &outs);
    let done = confined.and_then(|()| report(&arguments));
    let (assertions, done) = done?;
    if let Some(junit) = junit {
        let trace = arguments.trace.display().to_string();
        junit.finish("report", &trace, &assertions)?;
    }
    Ok(judged(&assertions, done))
}

/// Prints a lab or a prediction, or writes its page.
fn experiment(arguments: &ReportArguments, is_lab: bool) -> anyhow::Result<Exit> {
    let is_more = arguments.junit.is_some() || arguments.csv || arguments.interval.is_some();
    if is_more || !arguments.assert.is_empty() {
        let why = "of a lab there is the text, --html and --json; its file has assertions, and \
                   RUN/points/*.parquet all values";
        return Err(ConfigError::usage(why).into());
    }
    if !is_lab && (arguments.json || arguments.target.is_some()) {
        let why =
            "of a prediction there is the text and --html: predict.json in its folder has all";
        return Err(ConfigError::usage(why).into());
    }
    let (folder, target) = (arguments.trace.as_path(), arguments.target.as_deref());
    let named = confine::trace(folder);
    let Some(file) = &arguments.html else {
        { arguments.confining }.enter(named, None)?;
        match is_lab {
            true => experiments::report(folder, target, arguments.json)?,
            false => experiments::report_predicted(folder)?,
        }
        return Ok(Exit::Done);
    };
    check_new_file(file, "--html", arguments.force)?;
    { arguments.confining }.enter_writing(named, &[file])?;
    experiments::write_text(&experiments::page(folder, target, file)?, file)?;
    Ok(Exit::Done)
}

/// Prints the report. Returns what came of assertions, and whether all could be read.
fn report(arguments: &ReportArguments) -> anyhow::Result<(Vec<Assertion>, Exit)> {
    let filter = arguments.filter.filter();
    let zone = filter.zone.clone();
    if let Some(interval_ns) = arguments.interval {
        let series = lineside_analyze::intervals(&arguments.trace, &filter, interval_ns)?;
        if arguments.json {
            print_json(&series)?;
        } else if arguments.csv {
            print_csv(&series.intervals)?;
        } else {
            print(&lineside_render::intervals(&series, &zone))?;
        }
        return Ok((Vec::new(), exit(&series.unreadable)));
    }
    let mut report = lineside_analyze::report(&arguments.trace, &filter)?;
    if let Some(unfinished) = &mut report.missing.unfinished {
        unfinished.is_running = lineside_store::is_running(&arguments.trace);
    }
    if !arguments.assert.is_empty() {
        report.assertions = lineside_analyze::assert(&arguments.trace, &filter, &arguments.assert)?;
    }
    if let Some(path) = &arguments.html {
        experiments::write_text(&html::page(&report, &zone), path)?;
    } else if arguments.json {
        print_json(&report)?;
    } else if arguments.csv {
        print_csv(&report.operations)?;
    } else {
        let style = style(zone);
        print_styled(&match arguments.full {
            true => terminal::report(&report, &style),
            false => terminal::summary(&report, &style),
        })?;
    }
    if !report.trace.lacks.is_empty() {
        say(&format!(
            "{}: schema {} of {} lacks {}: findings that need them are not made",
            arguments.trace.display(),
            report.trace.schema_version,
            report.trace.tool,
            report.trace.lacks.join(", ")
        ));
    }
    passed_over(
        &arguments.trace,
        &report.trace.schema_version,
        &report.trace.passed_over,
    );
    let done = exit(&report.missing.unreadable);
    Ok((report.assertions, done))
}

pub(crate) fn run_slow(mut arguments: SlowArguments) -> anyhow::Result<Exit> {
    let request = arguments.request()?;
    arguments
        .confining
        .enter(confine::trace(&arguments.trace), None)?;
    runs::choose(&mut arguments.trace);
    let filter = arguments.filter.filter();
    if let Some(per) = arguments.per {
        let groups = lineside_analyze::slow_groups(&arguments.trace, &filter, per, &request)?;
        match (arguments.json, arguments.csv) {
            (true, _) => print_json_lines(&groups.groups)?,
            (false, true) => print_csv(&groups.groups)?,
            _ => print(&slow::groups(&groups, &filter.zone))?,
        }
        for (number, what) in [
            (groups.left_out, "more groups: --top shows them"),
            (
                groups.not_tracked,
                "operations are in none of the groups: there are more groups than memory is for; \
                choose some with the filters",
            ),
        ] {
            if number > 0 {
                say(&format!("{} {what}", grouped(number)));
            }
        }
        return Ok(exit(&groups.unreadable));
    }
    let slow = lineside_analyze::slow(&arguments.trace, &filter, &request)?;
    match (arguments.json, arguments.csv) {
        (true, _) => print_json_lines(&slow.operations)?,
        (false, true) => print_csv(&slow.operations)?,
        _ => print(&slow::operations(&slow, &filter.zone))?,
    }
    let is_cut = slow.operations.len() >= SLOW_MAX;
    talk_about(&slow, &arguments, request.latency_min_ns, is_cut);
    Ok(exit(&slow.unreadable))
}

pub(super) fn print_json_lines(values: &[impl Serialize]) -> anyhow::Result<()> {
    let mut lines = String::new();
    for value in values {
        lines += &escape_json(&serde_json::to_string(value)?);
        lines.push('\n');
    }
    print_data(&lines)
}

/// What is not in the list, and where to look next.
fn talk_about(slow: &Slow, arguments: &SlowArguments, latency_min_ns: u64, is_cut: bool) {
    match slow.latency_max_ns {
        Some(most) if slow.operations.is_empty() && latency_min_ns > 0 => say(&format!(
            "none of {} calls took {} or more: the slowest took {}",
            grouped(slow.timed),
            time(latency_min_ns),
            time(most)
        )),
        None => say("no chosen operation has a call and a reply with times"),
        _ => (),
    }
    if slow.left_out > 0 {
        let number = grouped(slow.left_out);
        say(&match is_cut {
            true => format!(
                "{number} more are slow: these are the first {}; give a longer time, or a narrower \
                range with --since and --until",
                grouped(slow.operations.len() as u64)
            ),
            false => format!("{number} more: a greater --top shows them"),
        });
    }
    if slow.unanswered > 0 {
        say(&format!(
            "{} calls have no reply: there is no way to know how slow they were",
            grouped(slow.unanswered)
        ));
    }
    if slow.backwards > 0 {
        say(&format!(
            "{} calls end before they begin, by their stamps: the clocks of the \
            inputs differ",
            grouped(slow.backwards)
        ));
    }
    let slowest = { slow.operations.iter() }.max_by_key(|each| each.latency_ns);
    if let (Some(slowest), false) = (slowest, arguments.json || arguments.csv)
        && let Some(tshark) = &slowest.tshark
    {
        say(&format!("the slowest's call and reply: {tshark}"));
    }
}
