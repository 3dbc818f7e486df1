//! `lineside report` and `lineside slow`: the account of the capture and of the workload in a
//! trace.

use std::fs;

use anyhow::Context;
use lineside_analyze::terminal;

use super::flags::{ReportArguments, SlowArguments};
use crate::exit::Exit;
use crate::print::{exit, print, print_json, style};

pub(crate) fn run(arguments: &ReportArguments) -> anyhow::Result<Exit> {
    let filter = arguments.filter.filter();
    if let Some(interval_ns) = arguments.interval {
        let series = lineside_analyze::intervals(&arguments.trace, &filter, interval_ns)?;
        if arguments.json {
            print_json(&series)?;
        } else {
            print(&terminal::intervals(&series))?;
        }
        return Ok(exit(&series.unreadable));
    }
    let report = lineside_analyze::report(&arguments.trace, &filter)?;
    if let Some(path) = &arguments.html {
        let page = lineside_analyze::html::page(&report);
        if path.as_os_str() == "-" {
            print(&page)?;
        } else {
            fs::write(path, page)
                .with_context(|| format!("{}: cannot write the page", path.display()))?;
            eprintln!("lineside: wrote {}", path.display());
        }
    } else if arguments.json {
        print_json(&report)?;
    } else {
        print(&terminal::report(&report, style()))?;
    }
    Ok(exit(&report.missing.unreadable))
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
            lines += &serde_json::to_string(operation)?;
            lines.push('\n');
        }
        print(&lines)?;
    } else {
        print(&terminal::slow(&slow))?;
    }
    if slow.left_out > 0 {
        eprintln!(
            "lineside: {} more are slow: these are the slowest {}; give a longer time, or a \
            narrower range with --since and --until",
            slow.left_out,
            slow.operations.len()
        );
    }
    if slow.unanswered > 0 {
        eprintln!(
            "lineside: {} calls have no reply: there is no way to know how slow they were",
            slow.unanswered
        );
    }
    if slow.backwards > 0 {
        eprintln!(
            "lineside: {} operations end before they begin, by their stamps: the clocks of the \
            inputs differ",
            slow.backwards
        );
    }
    Ok(exit(&slow.unreadable))
}
