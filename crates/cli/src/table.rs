//! `lineside table`: distributions of delay, made, converted and looked at.

use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use lineside_link::{DEVIATION, Spread, TABLE_LEN_MAX, Table, Unit, format};

use crate::Exit;
use crate::config::ConfigError;
use crate::emulate::spread_text;

/// Flags of `table`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// normal, pareto, paretonormal, or a file: netem's (.dist), the original hardware's (.coe), or samples, one a line (12.5us; nanoseconds without a unit)
    #[arg(value_name = "NAME|FILE")]
    source: String,
    /// Entries of a table that is made from samples: 2, 4, 8, ... where prbs31 shall draw from it
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=TABLE_LEN_MAX as i64))]
    entries: u32,
    /// Write the table to standard output in this form, instead of its figures
    #[arg(long, value_name = "FORM")]
    export: Option<Form>,
    /// Print the figures as JSON
    #[arg(long)]
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
}

/// No table is longer: 65,536 numbers, or some million samples.
const FILE_BYTES_MAX: u64 = 64 << 20;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let built_in = match arguments.source.as_str() {
        "normal" => Some(Table::normal()),
        "pareto" => Some(Table::pareto()),
        "paretonormal" => Some(Table::pareto_normal()),
        _ => None,
    };
    let (table, samples) = match built_in {
        Some(table) => (table, None),
        None => match read(Path::new(&arguments.source)).map_err(|why| ConfigError::usage(&why))? {
            Content::Table(table) => (table, None),
            Content::Samples(samples) => {
                let table = Table::from_samples(samples.clone(), arguments.entries as usize);
                (table?, Some(samples))
            }
        },
    };
    let cut = table.standardised().1;
    let text = match arguments.export {
        Some(form) => {
            if cut > 0 && !matches!(form, Form::Plain) {
                eprintln!(
                    "lineside: warning: {cut} of {} entries lie more than 4 deviations from the mean and were cut: --export plain keeps them",
                    table.values().len()
                );
            }
            match form {
                Form::Netem => format::write_dist(&table, &comment(&arguments.source, &table)),
                Form::Coe => format::write_coe(&table),
                Form::Plain => format::write_plain(&table),
            }
        }
        None if arguments.json => json(&table, samples.as_deref())?,
        None => lines(arguments, &table, samples.as_deref()),
    };
    crate::report::print(&text)?;
    Ok(Exit::Done)
}

/// What a file holds.
enum Content {
    Table(Table),
    /// Nanoseconds.
    Samples(Vec<i64>),
}

/// A table for `--delay '… distribution FILE'`: samples become one of 4,096 entries.
pub(crate) fn load(name: &str) -> Result<Table, String> {
    match read(Path::new(name))? {
        Content::Table(table) => Ok(table),
        Content::Samples(samples) => {
            Table::from_samples(samples, 4096).map_err(|error| format!("{name}: {error}"))
        }
    }
}

fn read(path: &Path) -> Result<Content, String> {
    let name = path.display();
    let mut text = String::new();
    let opened =
        File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    opened.map_err(|error| format!("{name}: cannot read it: {error}"))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("{name}: more than 64 MiB are no table"));
    }
    let is_dist = path
        .extension()
        .is_some_and(|extension| extension == "dist");
    let content = if is_dist || format::is_coe(&text) {
        format::read(&text).map(Content::Table)
    } else {
        format::read_samples(&text, 1.0).map(Content::Samples)
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

fn lines(arguments: &Arguments, table: &Table, samples: Option<&[i64]>) -> String {
    let mut out = String::new();
    let entries = table.values().len();
    let _ = writeln!(out, "table        {}, {entries} entries", arguments.source);
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
                source = arguments.source
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
