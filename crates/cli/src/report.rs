//! `lineside report` and `lineside slow`: what a trace says of the capture and of the workload.

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use lineside_analyze::{Filter, Moment, terminal};
use lineside_time::parse_duration;
use serde::Serialize;

use crate::Exit;

/// Flags of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// The folder of a trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    #[command(flatten)]
    filter: FilterArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a page that needs nothing else (- is standard output)
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    html: Option<PathBuf>,
    /// Print nfsiostat's columns for each interval: seconds, or a time with its unit
    #[arg(long, value_name = "SECONDS", conflicts_with = "html", value_parser = interval_ns)]
    interval: Option<u64>,
}

/// Flags of `slow`.
#[derive(Debug, Args)]
pub(crate) struct SlowArguments {
    /// The folder of a trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// The least time that is slow: a number with its unit; milliseconds without, as nfsslower has it
    #[arg(value_name = "TIME", default_value = "10ms", value_parser = latency_ns)]
    latency: u64,
    #[command(flatten)]
    filter: FilterArguments,
    /// Print a JSON object for each operation, one a line
    #[arg(long)]
    json: bool,
}

/// Which operations.
#[derive(Debug, Args)]
struct FilterArguments {
    /// From this time on: RFC 3339, or how long after the start, such as 10s
    #[arg(long, value_name = "TIME")]
    since: Option<Moment>,
    /// Before this time: RFC 3339, or how long after the start, such as 10s
    #[arg(long, value_name = "TIME")]
    until: Option<Moment>,
    /// Of this client
    #[arg(long, value_name = "ADDRESS")]
    client: Option<String>,
    /// Of this name, such as READ
    #[arg(long, value_name = "NAME")]
    operation: Option<String>,
}

impl FilterArguments {
    fn filter(&self) -> Filter {
        Filter {
            since: self.since,
            until: self.until,
            client: self.client.clone(),
            operation: self.operation.clone(),
        }
    }
}

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
            "lineside: {} more are slow: these are the slowest {}; ask for a longer time, or for less with --since and --until",
            slow.left_out,
            slow.operations.len()
        );
    }
    if slow.unanswered > 0 {
        eprintln!(
            "lineside: {} calls have no reply: nobody knows how slow they were",
            slow.unanswered
        );
    }
    if slow.backwards > 0 {
        eprintln!(
            "lineside: {} operations end before they begin, by their stamps: the clocks of the inputs differ",
            slow.backwards
        );
    }
    Ok(exit(&slow.unreadable))
}

/// What could be reported was; what could not be read is a failure all the same.
pub(crate) fn exit(unreadable: &[String]) -> Exit {
    for warning in unreadable {
        eprintln!("lineside: warning: {warning}");
    }
    if unreadable.is_empty() {
        Exit::Done
    } else {
        Exit::Failure
    }
}

fn style() -> terminal::Style {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    terminal::Style {
        colour: !plain && std::io::stdout().is_terminal(),
    }
}

/// Prints to standard output; that the reader, such as `head`, has seen enough is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            bail!("standard output: cannot write: {error}")
        }
        _ => Ok(()),
    }
}

/// Prints JSON as [`print()`] does.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Nanoseconds of a time with its unit, or of a number of `unit`.
fn duration(text: &str, unit: &str) -> Result<u64, String> {
    let with_unit = if text.parse::<f64>().is_ok() {
        format!("{text}{unit}")
    } else {
        text.to_owned()
    };
    parse_duration(&with_unit).map_err(|error| error.to_string())
}

fn interval_ns(text: &str) -> Result<u64, String> {
    match duration(text, "s")? {
        0 => Err("an interval of no time has no operations".to_owned()),
        ns => Ok(ns),
    }
}

fn latency_ns(text: &str) -> Result<u64, String> {
    duration(text, "ms")
}
