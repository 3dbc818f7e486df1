//! `lineside completions` and `lineside man`: the command line for shells and for man.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use lineside_reactor::Wait;

use crate::arguments::{Arguments, CompletionsArguments, ManArguments};
use crate::config::{Keys as _, Sandboxing};
use crate::exit::Exit;
use crate::help;
use crate::inputs::METHODS;
use crate::print::print;

pub(crate) fn run_completions(arguments: &CompletionsArguments) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    let mut command = command();
    let verbs: Vec<String> = { command.get_subcommands() }
        .map(|verb| verb.get_name().to_owned())
        .collect();
    for verb in &verbs {
        command = command.mut_subcommand(verb, |verb| offered(&verb));
    }
    clap_complete::generate(arguments.shell, &mut command, "lineside", &mut script);
    print(&with_interfaces(
        arguments.shell,
        &String::from_utf8(script)?,
    ))?;
    Ok(Exit::Done)
}

/// Stands for the names of this machine's interfaces in a script.
const INTERFACES: &str = "lineside_interfaces";

/// A verb as scripts offer it: without hidden flags, which they would list too, and with the words
/// that its flags take.
fn offered(verb: &Command) -> Command {
    let shown = { verb.get_arguments() }.filter(|argument| !argument.is_hide_set());
    let shown = shown.map(|argument| match words_of(verb.get_name(), argument) {
        words if words.is_empty() => argument.clone(),
        words => { argument.clone() }.value_parser(PossibleValuesParser::new(words)),
    });
    let about = verb.get_about().cloned().unwrap_or_default();
    // clap has names that live as long as the program.
    let name: &str = verb.get_name().to_owned().leak();
    Command::new(name)
        .about(about)
        .args(shown)
        .subcommands(verb.get_subcommands().map(offered))
}

/// The words that a flag takes; those that clap knows stay.
fn words_of(verb: &str, argument: &Arg) -> Vec<&'static str> {
    let id = argument.get_id().as_str();
    match argument.get_long().unwrap_or(id) {
        "interface" | "on" | "serve-on" => vec![INTERFACES],
        "method" => METHODS.map(|(word, _)| word).into(),
        "wait" => Wait::WORDS.map(|(word, _)| word).into(),
        "sandbox" => Sandboxing::WORDS.into(),
        "words" if verb == "ctl" => crate::ctl::WORDS.into(),
        _ => {
            let declared = match verb {
                "capture" => crate::capture::Section::declared(),
                "load" => crate::load::Section::declared(),
                _ => Vec::new(),
            };
            let mut declared = declared.into_iter();
            let found = declared.find(|key| key.name == argument.get_id().as_str());
            found
                .and_then(|key| key.words)
                .map_or_else(Vec::new, |words| words())
        }
    }
}

/// A script that asks the machine for its interfaces when they are completed.
fn with_interfaces(shell: Shell, script: &str) -> String {
    const LIST: &str = "command ls /sys/class/net 2>/dev/null";
    let (marked, list) = match shell {
        Shell::Bash => (INTERFACES.to_owned(), format!("any $({LIST})")),
        Shell::Zsh => (format!("({INTERFACES})"), "_net_interfaces".to_owned()),
        Shell::Fish => (format!("{INTERFACES}\\t''"), format!("({LIST})")),
        _ => return script.to_owned(),
    };
    script.replace(&marked, &list)
}

pub(crate) fn run_man(arguments: &ManArguments) -> anyhow::Result<Exit> {
    let command = command();
    let Some(folder) = &arguments.folder else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page)?;
        print(&(String::from_utf8(page)? + &sections("")))?;
        return Ok(Exit::Done);
    };
    let verbs: Vec<String> = { command.get_subcommands() }
        .map(|verb| verb.get_name().to_owned())
        .collect();
    let names = verbs
        .iter()
        .map(|verb| (format!("lineside-{verb}.1"), verb.as_str()));
    let names = names.chain([("lineside.1".to_owned(), "")]);
    fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command, folder))
        .and_then(|()| {
            { names.into_iter() }.try_for_each(|(name, verb)| {
                let mut page = fs::OpenOptions::new()
                    .append(true)
                    .open(folder.join(name))?;
                page.write_all(sections(verb).as_bytes())
            })
        })
        .with_context(|| format!("{}: cannot write the man pages", folder.display()))?;
    Ok(Exit::Done)
}

/// What a man page has beside the flags.
fn sections(verb: &str) -> String {
    let page = help::page(verb);
    let mut out = String::new();
    let mut section = |title: &str, entries: &[(&str, &str)]| {
        if !entries.is_empty() {
            let _ = writeln!(out, ".SH {title}");
        }
        for (term, what) in entries {
            let _ = writeln!(out, ".TP\n\\fB{}\\fR\n{}", roff(term), roff(what));
        }
    };
    section("\"EXIT STATUS\"", &help::EXIT_STATUS);
    let Some(page) = page else {
        return out;
    };
    section("EXAMPLES", page.examples);
    section("FILES", page.files);
    let _ = writeln!(out, ".SH \"SEE ALSO\"\n{}", roff(page.see_also));
    out
}

/// A text in which nothing is a request.
fn roff(text: &str) -> String {
    let text = text
        .replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('\'', "\\(aq");
    if text.starts_with('.') {
        format!("\\&{text}")
    } else {
        text
    }
}

/// One screen of help, if `-h` was asked for of a verb that has one; of `lineside` itself however
/// help was asked for.
pub(crate) fn screen(arguments: &[String]) -> Option<String> {
    let mut given = arguments.iter().skip(1).take_while(|word| *word != "--");
    let is_short = given.clone().any(|word| word == "-h");
    let mut words = given.clone().filter(|word| !word.starts_with('-'));
    let is_first = match words.next().map(String::as_str) {
        None => true,
        Some("help") => words.next().is_none(),
        Some(_) => false,
    };
    if !is_short && !is_first {
        return None;
    }
    let mut command = command();
    command.build();
    match given
        .find(|word| !word.starts_with('-'))
        .filter(|_| !is_first)
    {
        Some(verb) => {
            let verb = command.find_subcommand_mut(verb)?;
            // What a verb does beside has help of its own.
            let is_other = given
                .next()
                .is_some_and(|word| verb.find_subcommand(word).is_some());
            (!is_other).then(|| help::screen(verb)).flatten()
        }
        None => help::screen(&mut command),
    }
}

/// The command line as it is read, as wide as the terminal.
pub(crate) fn command_for_terminal() -> Command {
    let width = lineside_host::terminal_columns().unwrap_or(100);
    let command = with_groups(Arguments::command());
    let pages = help::PAGES.iter().filter(|page| !page.verb.is_empty());
    let with_examples = pages.fold(command, |command, page| {
        command.mut_subcommand(page.verb, |verb| {
            verb.after_help(help::examples(page) + "\n")
        })
    });
    with_examples.term_width(width.clamp(60, 200))
}

/// The command line as declared. `lineside help VERB` prints `--help` and gets no completions or
/// pages of its own.
pub(crate) fn command() -> Command {
    with_groups(Arguments::command().disable_help_subcommand(true))
}

/// Flags by purpose and mode.
fn with_groups(command: Command) -> Command {
    let pages = help::PAGES.iter().filter(|page| !page.verb.is_empty());
    pages.fold(command, |command, page| {
        let headings = match page.verb {
            "capture" => crate::capture::mode_headings(),
            "emulate" => crate::emulate::mode_headings(),
            "load" => crate::load::protocol_headings(),
            _ => Vec::new(),
        };
        let of_mode = |name: &str| {
            let found = { headings.iter() }.find(|(key, _)| *key == name);
            found.map(|(_, heading)| *heading)
        };
        command.mut_subcommand(page.verb, |verb| help::grouped(&verb, page, of_mode))
    })
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
                let has_unit =
                    |value: &str| ["SIZE", "TIME"].iter().any(|unit| value.contains(unit));
                if values.iter().any(|value| has_unit(value)) {
                    let units = ["MiB", "2ms", "10s", "60s", "10ms", "4m", "30d", "5us"];
                    let is_there = units.iter().any(|each| help.contains(each));
                    assert!(is_there, "{name}: no unit in '{help}'");
                }
            }
        }
    }
}
