//! `lineside table`: distributions of delay, made, converted and looked at.

use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use lineside_analyze::time;
use lineside_link::{
    DEVIATION, Deliveries, PathFile, PathStep, TABLE_LEN_MAX, Table, Unit, format,
};
use lineside_measure::Spread;

use crate::Exit;
use crate::config::ConfigError;
use crate::emulate::spread_text;
use crate::measured::{Measured, Source};

/// Flags of `table`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    from: Option<Source>,
    /// normal, pareto, paretonormal, or a file: netem's (.dist), the original hardware's (.coe), or samples, one a line (12.5us; nanoseconds without a unit)
    #[arg(value_name = "NAME|FILE")]
    source: Option<String>,
    /// Entries of a table that is made from samples: 2, 4, 8, ... where prbs31 shall draw from it
    #[arg(long, global = true, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=TABLE_LEN_MAX as i64))]
    entries: u32,
    /// Write to standard output in this form, instead of the figures
    #[arg(long, global = true, value_name = "FORM")]
    export: Option<Form>,
    /// How long a line of an exported path file holds, such as 10s
    #[arg(long, global = true, value_name = "TIME", default_value = "1s")]
    step: String,
    /// Print the figures as JSON
    #[arg(long, global = true, conflicts_with = "export")]
    json: bool,
}

/// Forms of a table.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Form {
    /// netem's: the shape, cut at four deviations
    Netem,
    /// The original hardware's: the same, unsigned
    Coe,
    /// One entry a line: nanoseconds, or 8192 for a deviation
    Plain,
    /// What was measured, one a line, in nanoseconds and in the order of time
    Samples,
    /// A path file: delay and loss over time, of what was measured
    Path,
    /// A trace of mahimahi's
    Mahimahi,
}

/// No table is longer: 65,536 numbers, or some million samples.
const FILE_BYTES_MAX: u64 = 64 << 20;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let step_ns = lineside_time::parse_duration(&arguments.step);
    let step_ns = step_ns.map_err(|error| ConfigError::usage(&format!("step: {error}")))?;
    if step_ns == 0 {
        return Err(ConfigError::usage("step: 0 holds nothing: give a time such as 100ms").into());
    }
    let (name, table, samples) = match (&arguments.from, &arguments.source) {
        (Some(Source::Path { file }), _) => return run_path(arguments, file, step_ns),
        (Some(from), _) => {
            let measured = Measured::of(from)?;
            for remark in &measured.remarks {
                eprintln!("lineside: warning: {remark}");
            }
            let text = match arguments.export {
                Some(Form::Samples) => {
                    let times = measured.times_ns();
                    let lines: Vec<_> = times.iter().map(i64::to_string).collect();
                    Some(lines.join("\n") + "\n")
                }
                Some(Form::Path) => {
                    let path = measured.path_file(step_ns);
                    Some(path.map_err(anyhow::Error::msg)?.write())
                }
                Some(Form::Mahimahi) => {
                    let problem = "the frames of a capture make one: table from-capture";
                    let trace = measured.deliveries();
                    Some(
                        trace
                            .map_err(|why| anyhow::anyhow!("{why}; {problem}"))?
                            .write(),
                    )
                }
                _ => None,
            };
            if let Some(text) = text {
                crate::report::print(&text)?;
                return Ok(Exit::Done);
            }
            let times = measured.times_ns();
            let table = Table::from_samples(times.clone(), arguments.entries as usize)?;
            ("FILE".to_owned(), table, Some(times))
        }
        (None, Some(source)) => {
            let (table, samples) = of_source(source, arguments.entries as usize)?;
            (source.clone(), table, samples)
        }
        (None, None) => {
            return Err(ConfigError::usage(
                "name a table, or a file, or where to measure: from-capture, from-trace, from-ping, from-tcp; or path FILE",
            )
            .into());
        }
    };
    let cut = table.standardised().1;
    let text = match arguments.export {
        Some(form) => {
            if cut > 0 && matches!(form, Form::Netem | Form::Coe) {
                eprintln!(
                    "lineside: warning: {cut} of {} entries lie more than 4 deviations from the mean and were cut: --export plain keeps them",
                    table.values().len()
                );
            }
            match form {
                Form::Netem => format::write_dist(&table, &comment(&name, &table)),
                Form::Coe => format::write_coe(&table),
                Form::Plain => format::write_plain(&table),
                Form::Samples | Form::Path | Form::Mahimahi => {
                    return Err(ConfigError::usage(
                        "--export samples, path and mahimahi are for what was measured over time: from-capture, from-trace, from-ping, from-tcp, path",
                    )
                    .into());
                }
            }
        }
        None if arguments.json => json(&table, samples.as_deref())?,
        None => lines(&name, &table, samples.as_deref()),
    };
    crate::report::print(&text)?;
    Ok(Exit::Done)
}

/// A built-in table, or one of a file; and the samples that it was made of.
fn of_source(source: &str, entries: usize) -> anyhow::Result<(Table, Option<Vec<i64>>)> {
    match source {
        "normal" => return Ok((Table::normal(), None)),
        "pareto" => return Ok((Table::pareto(), None)),
        "paretonormal" => return Ok((Table::pareto_normal(), None)),
        _ => {}
    }
    let text = read_text(Path::new(source));
    let content = text.and_then(|text| content(source, &text));
    Ok(match content.map_err(|why| ConfigError::usage(&why))? {
        Content::Table(table) => (table, None),
        Content::Samples(samples) => (
            Table::from_samples(samples.clone(), entries)?,
            Some(samples),
        ),
    })
}

/// `table path FILE`: figures of a path file or of a trace of mahimahi's, or one as the other.
fn run_path(arguments: &Arguments, file: &Path, step_ns: u64) -> anyhow::Result<Exit> {
    let name = file.display().to_string();
    let usage = |why: String| ConfigError::usage(&why);
    let text = read_text(file).map_err(usage)?;
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let is_path = lines.find(|line| !line.trim().is_empty());
    let is_path = is_path.is_some_and(|line| line.trim_start().starts_with("time"));
    let path = if is_path {
        PathFile::read(&name, &text).map_err(|error| error.to_string())
    } else {
        let trace = Deliveries::read(&name, &text).map_err(|error| error.to_string());
        trace.and_then(|trace| Ok(trace.path_file(step_ns)?))
    };
    let path = path.map_err(|why| usage(format!("{name}: {why}")))?;
    let text = match arguments.export {
        Some(Form::Path) => path.write(),
        Some(Form::Mahimahi) => {
            let trace = Deliveries::of_path(&path);
            trace
                .map_err(|why| usage(format!("{name}: {why}")))?
                .write()
        }
        Some(_) => {
            let problem = "a path file can be written as path or mahimahi: netem, coe, plain and samples are of distributions";
            return Err(usage(problem.to_owned()).into());
        }
        None if arguments.json => serde_json::to_string_pretty(&path_figures(&path))? + "\n",
        None => path_lines(&path),
    };
    crate::report::print(&text)?;
    Ok(Exit::Done)
}

/// Means by time of what a path gives.
fn path_figures(path: &PathFile) -> serde_json::Value {
    let duration_ns: u64 = path.spans().map(|(_, span_ns)| span_ns).sum();
    let mean = |value: &dyn Fn(&PathStep) -> Option<f64>| {
        let parts = path.spans();
        let sum: Option<f64> = parts
            .map(|(step, span_ns)| Some(value(step)? * span_ns as f64))
            .sum();
        sum.map(|sum| sum / duration_ns as f64)
    };
    serde_json::json!({
        "steps": path.steps().len(),
        "duration_ns": duration_ns,
        "repeats": path.period_ns().is_some(),
        "delay_mean_ns": mean(&|step| step.delay_ns.map(|ns| ns as f64)),
        "loss_mean": mean(&|step| step.loss),
        "rate_mean_bps": mean(&|step| step.bits_per_second.map(|rate| rate as f64)),
    })
}

fn path_lines(path: &PathFile) -> String {
    let figures = path_figures(path);
    let number = |name: &str| figures[name].as_f64();
    let mut out = format!(
        "path         {}, {} lines, {}{}\n",
        path.name(),
        path.steps().len(),
        time(figures["duration_ns"].as_u64().unwrap_or(0)),
        if path.period_ns().is_some() {
            ", then again"
        } else {
            ""
        }
    );
    if let Some(ns) = number("delay_mean_ns") {
        let _ = writeln!(
            out,
            "delay        {:.3} us in the mean of the time",
            ns / 1e3
        );
    }
    if let Some(share) = number("loss_mean") {
        let _ = writeln!(
            out,
            "loss         {:.3} % in the mean of the time",
            share * 100.0
        );
    }
    if let Some(rate) = number("rate_mean_bps") {
        let _ = writeln!(
            out,
            "rate         {:.3} Mbit/s in the mean of the time",
            rate / 1e6
        );
    }
    let _ = writeln!(out, "use          --path {}", path.name());
    out
}

/// What a file holds.
enum Content {
    Table(Table),
    /// Nanoseconds.
    Samples(Vec<i64>),
}

/// A table for `--delay '… distribution FILE'`: samples become one of 4,096 entries.
pub(crate) fn load(name: &str, text: &str) -> Result<Table, String> {
    match content(name, text)? {
        Content::Table(table) => Ok(table),
        Content::Samples(samples) => {
            Table::from_samples(samples, 4096).map_err(|error| format!("{name}: {error}"))
        }
    }
}

/// A path file for `--path`.
pub(crate) fn path(name: &str, text: &str) -> Result<PathFile, String> {
    PathFile::read(name, text).map_err(|error| format!("{name}: {error}"))
}

/// A trace of mahimahi's for `--rate 'trace FILE'`.
pub(crate) fn deliveries(name: &str, text: &str) -> Result<Deliveries, String> {
    Deliveries::read(name, text).map_err(|error| format!("{name}: {error}"))
}

/// The text of a file that words name.
pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    let name = path.display();
    let mut text = String::new();
    let opened =
        File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    opened.map_err(|error| format!("{name}: cannot read it: {error}"))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("{name}: more than 64 MiB are no table"));
    }
    Ok(text)
}

fn content(name: &str, text: &str) -> Result<Content, String> {
    let content = if name.ends_with(".dist") || format::is_coe(text) {
        format::read(text).map(Content::Table)
    } else {
        format::read_samples(text, 1.0).map(Content::Samples)
    };
    content.map_err(|error| format!("{name}: {error}"))
}

fn comment(source: &str, table: &Table) -> String {
    let of = PathBuf::from(source);
    let name = of.file_name().unwrap_or_default().to_string_lossy();
    match table.unit() {
        Unit::Deviations => format!("{name}, by lineside"),
        Unit::Nanoseconds => format!(
            "{name}, by lineside: give netem mean {:.0} ns and deviation {:.0} ns",
            table.mean(),
            table.deviation()
        ),
    }
}

/// The table's entries as a distribution.
fn spread(table: &Table) -> Spread {
    Spread::of(table.values().iter().map(|&value| (value, 1)).collect())
}

fn of_samples(samples: &[i64]) -> Spread {
    Spread::of(samples.iter().map(|&value| (value, 1)).collect())
}

fn json(table: &Table, samples: Option<&[i64]>) -> anyhow::Result<String> {
    let unit = match table.unit() {
        Unit::Deviations => "1/8192 deviation",
        Unit::Nanoseconds => "ns",
    };
    let samples = samples.map(of_samples);
    let distance = samples
        .as_ref()
        .and_then(|samples| spread(table).distance(samples));
    let figures = serde_json::json!({
        "entries": table.values().len(),
        "unit": unit,
        "mean": table.mean(),
        "deviation": table.deviation(),
        "entries_cut_at_4_deviations": table.standardised().1,
        "samples": samples,
        "table_from_samples_ks": distance.map(|distance| distance.ks),
    });
    let text = serde_json::to_string_pretty(&figures).context("figures are JSON")?;
    Ok(text + "\n")
}

fn lines(name: &str, table: &Table, samples: Option<&[i64]>) -> String {
    let mut out = String::new();
    let entries = table.values().len();
    let _ = writeln!(out, "table        {name}, {entries} entries");
    if let Some(samples) = samples {
        let samples = of_samples(samples);
        let _ = writeln!(
            out,
            "samples      {}, {}",
            samples.count,
            spread_text(&samples)
        );
        if let Some(distance) = spread(table).distance(&samples) {
            let _ = writeln!(
                out,
                "             the table is {:.4} from them by Kolmogorov and Smirnov",
                distance.ks
            );
        }
    }
    match table.unit() {
        Unit::Nanoseconds => {
            let _ = writeln!(out, "entries      {}", spread_text(&spread(table)));
            let _ = writeln!(
                out,
                "use          --delay '0 distribution {source}', or its shape: --delay '{:.0}ns {:.0}ns distribution {source}'",
                table.mean(),
                table.deviation(),
                source = name
            );
        }
        Unit::Deviations => {
            let unit = DEVIATION as f64;
            let _ = writeln!(
                out,
                "entries      mean {:.4}, deviation {:.4}, from {:.4} to {:.4} (1 is what --delay gives as jitter)",
                table.mean() / unit,
                table.deviation() / unit,
                spread(table).min_ns as f64 / unit,
                spread(table).max_ns as f64 / unit
            );
        }
    }
    out
}
