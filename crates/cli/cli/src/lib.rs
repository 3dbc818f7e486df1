//! The `lineside` command, all of it but the `main` of `src/bin/lineside.rs`.
#![forbid(unsafe_code)]
// Texts go out by way of `print`, which takes away what could steer a terminal.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod archive;
mod arguments;
#[cfg(test)]
mod before;
mod bundle;
mod capture;
mod charset;
mod config;
mod confine;
mod congestion;
mod ctl;
mod doctor;
mod emulate;
mod errors;
mod exit;
mod experiments;
mod explain;
mod filters;
mod forward;
mod forwarder;
#[cfg(test)]
mod guide;
mod habits;
mod help;
mod image;
mod info;
mod inputs;
mod junit;
mod lab;
mod limits;
mod link;
mod load;
mod manual;
mod outputs;
mod packets;
mod plan;
mod predict;
mod print;
mod probe;
mod public;
mod replay;
mod replay_pcap;
mod report;
mod runs;
mod table;
mod tables;
mod trips;
mod version;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{FromArgMatches, Parser};
use lineside_path::emulate::EmulationError;
use lineside_words::escape;

use crate::arguments::{Arguments, Verb};
use crate::exit::Exit;
pub use crate::forwarder::forward_words;

/// The command line. Its errors repeat arguments, so they are those of harmless ones. Groups and
/// widths are for help alone: to make them takes longer than to read the arguments.
fn parsed() -> Arguments {
    let matches = |arguments: Vec<OsString>| {
        let matches = manual::command_for_terminal().try_get_matches_from(arguments)?;
        Arguments::from_arg_matches(&matches)
    };
    Arguments::try_parse().unwrap_or_else(|error| {
        let arguments = std::env::args_os();
        let arguments = arguments.map(|each| escape(&each.to_string_lossy()));
        let arguments: Vec<String> = arguments.collect();
        let screen = match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                manual::screen(&arguments)
            }
            _ => None,
        };
        if let Some(screen) = screen {
            if error.use_stderr() {
                print::talk(&screen);
                std::process::exit(error.exit_code());
            }
            let done = print::print(&screen).map_or(Exit::Failure, |()| Exit::Done);
            std::process::exit(i32::from(matches!(done, Exit::Failure)));
        }
        let words = arguments.iter().map(OsString::from).collect();
        let error = matches(words).err().unwrap_or(error);
        if !error.use_stderr() {
            error.exit();
        }
        print::say(&errors::message(&error, &arguments));
        std::process::exit(error.exit_code())
    })
}

/// Reads the text of a configuration file as each verb does: for tests that try any text. The error
/// is a sentence.
pub fn check_configuration(text: &str) -> Result<(), String> {
    config::from_text::<capture::Section>(text, "capture")?;
    config::from_text::<link::section::Section>(text, "emulate")?;
    config::from_text::<load::Section>(text, "load")?;
    let forward = config::from_text::<forwarder::Section>(text, "forward")?;
    let settings = forward.words().settings(Vec::new());
    settings.map(drop).map_err(|error| error.to_string())
}

/// Runs the verb that the command line names.
pub fn main() -> ExitCode {
    lineside_host::close_inherited(std::env::args_os());
    let done = match parsed().verb {
        Verb::Capture(arguments) => capture::run(&arguments),
        Verb::Info(arguments) => info::run(&arguments),
        Verb::Report(arguments) => report::run(arguments),
        Verb::Compare(arguments) => report::run_compare(arguments),
        Verb::Slow(arguments) => report::run_slow(arguments),
        Verb::Failed(arguments) => report::run_failed(arguments),
        Verb::Predict(arguments) => predict::run(arguments),
        Verb::Packets(arguments) => packets::run(&arguments),
        Verb::Plan(arguments) => plan::run(arguments),
        Verb::Image(arguments) => image::run(arguments),
        Verb::Emulate(arguments) => emulate::run(&arguments),
        Verb::Load(arguments) => load::run(&arguments),
        Verb::Lab(arguments) => lab::run(arguments),
        Verb::Forward(arguments) => forward::run(&arguments),
        Verb::Ctl(arguments) => ctl::run(&arguments),
        Verb::Explain(arguments) => explain::run(&arguments),
        Verb::Table(arguments) => table::run(&arguments),
        Verb::Probe(arguments) => probe::run(&arguments),
        Verb::Replay(arguments) => replay::run(*arguments),
        Verb::ReplayPcap(arguments) => replay_pcap::run(&arguments),
        Verb::Doctor(arguments) => doctor::run(&arguments),
        Verb::Bundle(arguments) => {
            let tool = (version::text(), lineside_run::doctor::examine(&[], None));
            bundle::run(arguments, tool)
        }
        Verb::Completions(arguments) => manual::run_completions(&arguments),
        Verb::Man(arguments) => manual::run_man(&arguments),
        Verb::Version => version::run(),
    };
    lineside_host::end_outputs();
    match done {
        Ok(exit) => exit.into(),
        Err(error) => {
            let arguments = std::env::args_os();
            let arguments = arguments.map(|each| each.to_string_lossy().into_owned());
            let arguments: Vec<String> = arguments.collect();
            let (usage, message) = (config::is_usage(&error), format!("{error:#}"));
            print::say(&match usage {
                true => errors::of_flags(&message, &arguments),
                false => message,
            });
            match error.downcast_ref().and_then(EmulationError::client_status) {
                Some(status) => Exit::Program(status),
                None if usage => Exit::Usage,
                None => Exit::Failure,
            }
            .into()
        }
    }
}
