//! `lineside report` and `lineside slow`: the account of the capture and of the workload in a
//! trace.

use std::fs;

use anyhow::{Context, bail};
use lineside_account::harmless_json;
use lineside_analyze::terminal;

use super::compare::judged;
use super::flags::{ReportArguments, SlowArguments};
use crate::config::ConfigError;
use crate::exit::Exit;
use crate::print::{exit, print, print_json, print_styled, say, style};

pub(crate) fn run(arguments: &ReportArguments) -> anyhow::Result<Exit> {
    let filter = arguments.filter.filter();
    let zone = filter.zone.clone();
    if let Some(interval_ns) = arguments.interval {
        let series = lineside_analyze::intervals(&arguments.trace, &filter, interval_ns)?;
        if arguments.json {
            print_json(&series)?;
        } else {
            print(&terminal::intervals(&series, &zone))?;
        }
        return Ok(exit(&series.unreadable));
    }
    let mut report = lineside_analyze::report(&arguments.trace, &filter)?;
    if !arguments.assert.is_empty() {
        report.assertions = lineside_analyze::assert(&arguments.trace, &filter, &arguments.assert)?;
    }
    if let Some(path) = &arguments.html {
        let page = lineside_analyze::html::page(&report, &zone);
        if path.as_os_str() == "-" {
            print_styled(&page)?;
        } else {
            if path.is_file() && !arguments.force {
                bail!(ConfigError::usage(&format!(
                    "{} exists already: name another file with --html, or replace it with --force",
                    path.display()
                )));
            }
            fs::write(path, page)
                .with_context(|| format!("{}: cannot write the page", path.display()))?;
            say(&format!("wrote {}", path.display()));
        }
    } else if arguments.json {
        print_json(&report)?;
    } else {
        let style = style(zone);
        print_styled(&match arguments.full {
            true => terminal::report(&report, &style),
            false => terminal::first(&report, &style),
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
    let done = exit(&report.missing.unreadable);
    Ok(judged(&report.assertions, done))
}

pub(crate) fn run_slow(arguments: &SlowArguments) -> anyhow::Result<Exit> {
    let slow = lineside_analyze::slow(
        &arguments.trace,
        &arguments.filter.filter(),
        arguments.latency,
    )?;
    if arguments.json {
        let mut lines = String::new();
        for operation in &slow.operations {
            lines += &harmless_json(&serde_json::to_string(operation)?);
            lines.push('\n');
        }
        print(&lines)?;
    } else {
        print(&terminal::slow(&slow))?;
    }
    if slow.left_out > 0 {
        say(&format!(
            "{} more are slow: these are the slowest {}; give a longer time, or a \
            narrower range with --since and --until",
            slow.left_out,
            slow.operations.len()
        ));
    }
    if slow.unanswered > 0 {
        say(&format!(
            "{} calls have no reply: there is no way to know how slow they were",
            slow.unanswered
        ));
    }
    if slow.backwards > 0 {
        say(&format!(
            "{} operations end before they begin, by their stamps: the clocks of the \
            inputs differ",
            slow.backwards
        ));
    }
    Ok(exit(&slow.unreadable))
}
