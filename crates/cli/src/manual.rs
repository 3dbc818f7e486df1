//! `lineside completions` and `lineside man`: the command line for shells and for man.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::exit::Exit;
use crate::print::print;

/// Flags of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Flags of `man`.
#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// Where lineside.1, lineside-capture.1 and the others go; made if it is not there
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

pub(crate) fn run_completions(arguments: &CompletionsArguments) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    // Scripts offer hidden flags too.
    let mut command = command().mut_subcommand("explain", |explain| {
        let shown = { explain.get_arguments() }.filter(|argument| !argument.is_hide_set());
        let about = explain.get_about().cloned().unwrap_or_default();
        Command::new("explain").about(about).args(shown)
    });
    clap_complete::generate(arguments.shell, &mut command, "lineside", &mut script);
    print(&String::from_utf8(script)?)?;
    Ok(Exit::Done)
}

pub(crate) fn run_man(arguments: &ManArguments) -> anyhow::Result<Exit> {
    let command = command();
    let Some(folder) = &arguments.folder else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page)?;
        print(&String::from_utf8(page)?)?;
        return Ok(Exit::Done);
    };
    fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command, folder))
        .with_context(|| format!("{}: cannot write the man pages", folder.display()))?;
    Ok(Exit::Done)
}

/// The command line as declared. `lineside help VERB` prints `--help` and gets no completions or
/// pages of its own.
fn command() -> Command {
    crate::Arguments::command().disable_help_subcommand(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_has_help_with_its_unit() {
        let mut command = command();
        command.build();
        for verb in command.get_subcommands() {
            for argument in verb.get_arguments() {
                let name = format!("{} {}", verb.get_name(), argument.get_id());
                let help = argument.get_help().map(ToString::to_string);
                let help = help.unwrap_or_default();
                assert!(!help.is_empty(), "{name} has no help");
                let values = argument.get_value_names().unwrap_or_default();
                let has_unit = |value: &str| {
                    ["SIZE", "TIME", "SECONDS"]
                        .iter()
                        .any(|unit| value.contains(unit))
                };
                if values.iter().any(|value| has_unit(value)) {
                    let units = ["MiB", "2ms", "10s", "seconds"];
                    let is_there = units.iter().any(|each| help.contains(each));
                    assert!(is_there, "{name}: no unit in '{help}'");
                }
            }
        }
    }
}
