//! `lineside capture`: from capture files or interfaces to a trace.

use lineside_capture::{Outcome, capture};
use lineside_host::wall_ns;
use lineside_run::Runs;
use lineside_store::Retention;

use super::decode_as;
use super::flags::Arguments;
use super::keys::Section;
use super::print::{Terminal, actor_lines, list_interfaces, print_summary};
use crate::config::{ConfigError, Keys, refuse_two_on_standard_output};
use crate::exit::Exit;
use crate::print::{talk, warn};

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    if arguments.list_interfaces {
        return list_interfaces(arguments.json).map(|()| Exit::Done);
    }
    let mut section = arguments.keys.clone();
    if let Some(path) = &arguments.config {
        section = section.over(Section::from_file(path)?);
    }
    let (mut section, mut settings) = section.resolved()?;
    if settings.output.is_none() && settings.capture_file.is_none() {
        return Err(ConfigError::usage(
            "nowhere to write: name a folder for the trace with -o TRACE, or a file with \
            --write-pcap",
        )
        .into());
    }
    refuse_two_on_standard_output(section.write_pcap.as_deref(), arguments.json)?;
    let runs = begin_runs(&section, settings.rotation.retention)?;
    if let Some(runs) = &runs {
        runs.notes.iter().for_each(|note| warn(note));
        section.output = Some(runs.run().path().to_owned());
        settings.output = section.output.clone();
        settings.made = Some(runs.run().clone());
    }
    let mut terminal = Terminal::new(arguments.quiet);
    lineside_wire::declare_tunnels(settings.config.decode_as.tunnels.clone());
    let captured = capture(&settings, &mut terminal);
    terminal.finish();
    let outcome = captured?;
    let inputs = outcome.manifest.inputs.iter();
    let warnings = inputs.flat_map(|input| &input.warnings);
    let misfits = decode_as::warnings(&settings.config.decode_as, &outcome.counters);
    for warning in warnings.chain(&misfits) {
        warn(warning);
    }
    if !arguments.quiet {
        print_summary(arguments, &section, &outcome)?;
    }
    let Outcome {
        manifest,
        signal,
        failure,
        ..
    } = outcome;
    if let Some(runtime) = manifest.runtime.as_ref().filter(|_| arguments.stats) {
        talk(&actor_lines(runtime));
    }
    if let Some(failure) = failure {
        anyhow::bail!(failure);
    }
    Ok(match signal {
        Some(signal) => Exit::Signal(signal),
        None => Exit::of_state(manifest.verdict.state, section.strict == Some(true)),
    })
}

/// The folder of runs in which this one begins; `None` without `--runs`.
fn begin_runs(section: &Section, retention: Retention) -> anyhow::Result<Option<Runs>> {
    if section.runs != Some(true) {
        return Ok(None);
    }
    let Some(output) = &section.output else {
        let why = "--runs is for a folder of runs: name it with -o, or leave out --runs";
        return Err(ConfigError::usage(why).into());
    };
    if section.force == Some(true) {
        let why = "--force has no effect with --runs: use one of them";
        return Err(ConfigError::usage(why).into());
    }
    Ok(Some(Runs::begin(output, wall_ns(), retention)?))
}
