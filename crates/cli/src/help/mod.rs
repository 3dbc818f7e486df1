//! `-h`: one screen with the flags that most need; groups, examples and files for `--help` and man.

mod pages;

use clap::{Arg, Command};

pub(crate) use pages::{EXIT_STATUS, PAGES, Page};

/// Columns and lines of the screen.
const WIDTH: usize = 80;
/// Where the help of a flag begins.
const COLUMN: usize = 27;
/// How wide the names of verbs are.
const VERB: usize = 13;

pub(crate) fn page(verb: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.verb == verb)
}

fn is_named(argument: &Arg, name: &str) -> bool {
    let mut letters = name.chars();
    let short = letters.next().filter(|_| letters.next().is_none());
    match short {
        Some(letter) => argument.get_short() == Some(letter),
        None => argument.get_long() == Some(name),
    }
}

/// The flags of a verb under the headings of its page, then those of some modes alone
/// (`of_mode` has their headings), then the rest.
pub(crate) fn grouped(
    command: &Command,
    page: &Page,
    of_mode: impl Fn(&str) -> Option<&'static str>,
) -> Command {
    if page.groups.is_empty() {
        return command.clone();
    }
    let titles = page.groups.iter().map(|(title, _)| *title);
    let rank = |heading: Option<&str>| match heading {
        None => 0,
        Some("Further") => usize::MAX,
        // Those of modes come behind those of the page.
        Some(heading) => titles
            .clone()
            .position(|title| title == heading)
            .map_or(99, |at| at + 1),
    };
    let headed = |argument: &Arg| {
        let group = { page.groups.iter() }
            .find(|(_, names)| names.iter().any(|name| is_named(argument, name)));
        let heading = group.map(|(title, _)| *title);
        let heading = heading.or_else(|| of_mode(argument.get_id().as_str()));
        match argument.is_positional() {
            true => argument.clone(),
            false => argument.clone().help_heading(heading.unwrap_or("Further")),
        }
    };
    let mut arguments: Vec<Arg> = command.get_arguments().map(headed).collect();
    // Headings stand in the order of their first flags.
    arguments.sort_by_key(|argument| rank(argument.get_help_heading()));
    let about = command.get_about().cloned().unwrap_or_default();
    Command::new(page.verb)
        .about(about)
        .args(arguments)
        .subcommands(command.get_subcommands().cloned())
        .args_conflicts_with_subcommands(command.is_args_conflicts_with_subcommands_set())
}

/// One screen, if the verb has a page.
pub(crate) fn screen(command: &mut Command) -> Option<String> {
    let name = command.get_name();
    let page = page(if name == "lineside" { "" } else { name })?;
    let usage = command.render_usage().to_string();
    let mut lines = vec![about(command)];
    let usage = usage.trim_start_matches("Usage: ").lines();
    lines.extend(usage.map(|line| format!("  {}", line.trim())));
    for (title, names) in page.groups {
        lines.push(format!("{title}:"));
        for name in *names {
            let argument = { command.get_arguments() }.find(|argument| is_named(argument, name));
            let verb = command.find_subcommand(name);
            lines.extend(verb.map(verb_line).or_else(|| argument.map(flag)));
        }
    }
    if page.groups.is_empty() {
        let verbs = command.get_subcommands();
        lines.extend(
            verbs
                .filter(|verb| verb.get_name() != "help")
                .map(verb_line),
        );
    }
    lines.push("Examples:".to_owned());
    let examples = page.examples.iter();
    lines.extend(examples.map(|(example, what)| format!("  {example:<58}# {what}")));
    let all = ["lineside", page.verb, "--help"]
        .join(" ")
        .replace("  ", " ");
    lines.push(format!("All of it: {all}"));
    let fitting = lines.iter().map(|line| fitting(line, WIDTH) + "\n");
    Some(fitting.collect())
}

fn about(command: &Command) -> String {
    command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default()
}

fn verb_line(verb: &Command) -> String {
    format!("  {:<width$}{}", verb.get_name(), about(verb), width = VERB)
}

fn flag(argument: &Arg) -> String {
    let value = { argument.get_action().takes_values() }
        .then(|| argument.get_value_names().and_then(<[_]>::first))
        .flatten();
    let value = value.map_or_else(String::new, |value| format!(" <{value}>"));
    let name = match (argument.get_short(), argument.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}{value}"),
        (Some(short), None) => format!("-{short}{value}"),
        (None, long) => format!("    --{}{value}", long.unwrap_or_default()),
    };
    let help = argument
        .get_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    format!("  {name:<width$} {help}", width = COLUMN - 3)
}

/// The begin of a line that is too long, up to a whole word.
fn fitting(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.trim_end().to_owned();
    }
    let begin: String = line.chars().take(width - 1).collect();
    let end = begin.rfind(' ').unwrap_or(begin.len());
    format!("{}…", begin[..end].trim_end_matches([',', ':', ';', ' ']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manual::command;

    #[test]
    fn short_help_is_one_screen() {
        let mut command = command();
        command.build();
        let mut texts = vec![screen(&mut command)];
        texts.extend(command.get_subcommands_mut().map(screen));
        for text in texts {
            let text = text.expect("each has a page");
            assert!(text.lines().count() <= 24, "{text}");
            let long = text.lines().filter(|line| line.chars().count() > WIDTH);
            assert_eq!(long.count(), 0, "{text}");
        }
    }

    #[test]
    fn pages_name_what_there_is() {
        let command = command();
        for page in &PAGES {
            let verb = match page.verb {
                "" => Some(&command),
                verb => command.find_subcommand(verb),
            };
            let verb = verb.expect(page.verb);
            let names: Vec<_> = page.groups.iter().flat_map(|(_, names)| *names).collect();
            assert!(page.verb.is_empty() || names.len() <= 10, "{}", page.verb);
            for name in names {
                let mut arguments = verb.get_arguments();
                let is_flag = arguments.any(|argument| is_named(argument, name));
                let is_verb = verb.find_subcommand(name).is_some();
                assert!(is_flag || is_verb, "{}: no {name}", page.verb);
            }
            assert_eq!(page.examples.len(), 2, "{}", page.verb);
        }
    }

    #[test]
    fn flags_say_their_defaults_and_their_mode() {
        let mut command = command();
        command.build();
        let capture = command.find_subcommand_mut("capture").expect("a verb");
        let text = capture.render_help().to_string();
        for words in [
            "[default: 256MiB]",
            "[default: stealing]",
            "Live:",
            "Further:",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let emulate = command.find_subcommand_mut("emulate").expect("a verb");
        let text = emulate.render_help().to_string();
        for words in [
            "Between commands:",
            "Between interfaces or commands:",
            "Of a capture:",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}
