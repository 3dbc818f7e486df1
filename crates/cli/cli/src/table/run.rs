//! `lineside table`: distributions of delay, made, converted and shown.

use std::path::{Path, PathBuf};

use lineside_host::Sandbox;
use lineside_link::{Deliveries, PathFile, Table, Unit, format};
use lineside_path::settings::{Content, content, read_text};
use lineside_render::{path_figures, path_lines, table_figures, table_lines};

use super::flags::{Arguments, Form, Source};
use super::measured::{Measured, Network};
use crate::config::ConfigError;
use crate::confine;
use crate::exit::Exit;
use crate::print::{json_text, print, warn};

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let step_ns = lineside_words::parse_duration(&arguments.step);
    let step_ns = step_ns.map_err(|error| ConfigError::usage(&format!("step: {error}")))?;
    if step_ns == 0 {
        return Err(ConfigError::usage("step: 0 is not a step: give a time such as 100ms").into());
    }
    let network = arguments
        .from
        .as_ref()
        .map(Network::open)
        .transpose()?
        .flatten();
    arguments.confine(network.as_ref())?;
    let (name, table, samples) = match (&arguments.from, &arguments.source) {
        (Some(Source::Path { file }), _) => return run_path(arguments, file, step_ns),
        (Some(from), _) => {
            let measured = Measured::of(from, network)?;
            for remark in &measured.remarks {
                warn(remark);
            }
            if let Some(text) = over_time(&measured, arguments.export, step_ns)? {
                print(&text)?;
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
                "name a table, or a file, or where to measure: from-capture, from-trace, \
                from-ping, from-tcp; or path FILE",
            )
            .into());
        }
    };
    let text = match arguments.export {
        Some(form) => exported(&name, &table, form)?,
        None if arguments.json => json_text(&table_figures(&table, samples.as_deref()))?,
        None => table_lines(&name, &table, samples.as_deref()),
    };
    print(&text)?;
    Ok(Exit::Done)
}

impl Arguments {
    /// What is read is read in a sandbox, and so are the answers of a network.
    fn confine(&self, network: Option<&Network>) -> anyhow::Result<()> {
        let named = match (&self.from, &self.source) {
            (Some(Source::FromCapture { files, .. }), _) => confine::captures(files),
            (Some(Source::FromTrace { trace }), _) => confine::trace(trace),
            (Some(Source::Path { file }), _) => Sandbox::new().may_read(file),
            (None, Some(source)) => Sandbox::new().may_read(Path::new(source)),
            (Some(Source::FromPing { .. } | Source::FromTcp { .. }), _) => {
                network.map(Network::sandbox).unwrap_or_default()
            }
            (None, None) => return Ok(()),
        };
        self.confining().enter(named, None)
    }
}

/// A measured network in a form that keeps the order of time; `None` for the other forms.
fn over_time(
    measured: &Measured,
    form: Option<Form>,
    step_ns: u64,
) -> anyhow::Result<Option<String>> {
    Ok(match form {
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
            let advice = "the frames of a capture make one: table from-capture";
            let trace = measured.deliveries();
            let trace = trace.map_err(|why| anyhow::anyhow!("{why}; {advice}"))?;
            Some(trace.write())
        }
        _ => None,
    })
}

/// A table in a form of distributions.
fn exported(name: &str, table: &Table, form: Form) -> anyhow::Result<String> {
    let cut = table.standardised().1;
    if cut > 0 && matches!(form, Form::Netem | Form::Coe) {
        warn(&format!(
            "{cut} of {} entries lie more than 4 deviations from the mean and \
            were cut: --export plain keeps them",
            table.values().len()
        ));
    }
    match form {
        Form::Netem => Ok(format::write_dist(table, &comment(name, table))),
        Form::Coe => Ok(format::write_coe(table)),
        Form::Plain => Ok(format::write_plain(table)),
        Form::Samples | Form::Path | Form::Mahimahi => Err(ConfigError::usage(
            "--export samples, path and mahimahi are for what was measured over time: \
            from-capture, from-trace, from-ping, from-tcp, path",
        )
        .into()),
    }
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
            let problem = "a path file can be written as path or mahimahi: netem, coe, plain and \
            samples are of distributions";
            return Err(usage(problem.to_owned()).into());
        }
        None if arguments.json => json_text(&path_figures(&path))?,
        None => path_lines(&path),
    };
    print(&text)?;
    Ok(Exit::Done)
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
