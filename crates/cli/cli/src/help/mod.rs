//! `-h`: one screen with the flags of daily use; groups, examples and files for `--help` and man.

mod pages;

use clap::{Arg, Command};

pub(crate) use pages::{EXIT_STATUS, PAGES, Page};

/// Columns and lines of the screen.
const WIDTH: usize = 80;
/// Where the help of a flag begins.
const COLUMN: usize = 27;
/// How wide the names of verbs are.
const VERB: usize = 13;
/// Flags that many verbs have, after those of the verb.
const COMMON: [(&str, &[&str]); 2] = [
    ("Messages", &["json", "quiet", "verbose", "stats"]),
    (
        "Settings",
        &["config", "seed", "cores", "memory", "sandbox", "help"],
    ),
];

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

/// The flags of a verb under the headings of its page, in their order, then those of some modes
/// alone (`of_mode` has their headings), then those that all verbs have.
pub(crate) fn grouped(
    command: &Command,
    page: &Page,
    of_mode: impl Fn(&str) -> Option<&'static str>,
) -> Command {
    if page.groups.is_empty() {
        return command.clone();
    }
    let named = || {
        let all = page.groups.iter().chain(page.more);
        all.flat_map(|(title, names)| names.iter().map(move |name| (*title, *name)))
    };
    let common = || {
        let all = COMMON.iter();
        all.flat_map(|(title, names)| names.iter().map(move |name| (*title, *name)))
    };
    // The heading of a flag, and where it comes.
    let placed = |argument: &Arg| {
        let first = |title| named().position(|(of, _)| of == title);
        let mut found = named().enumerate();
        let found = found.find(|(_, (_, name))| is_named(argument, name));
        if let Some((at, (title, _))) = found {
            return (Some(title), 1, first(title).unwrap_or(at), at);
        }
        if let Some(title) = of_mode(argument.get_id().as_str()) {
            return (Some(title), 2, 0, 0);
        }
        let found = common().enumerate();
        let mut found = found.filter(|(_, (_, name))| is_named(argument, name));
        match found.next() {
            Some((at, (title, _))) => (Some(title), 3, at, 0),
            None => (None, 4, 0, 0),
        }
    };
    let mut arguments: Vec<Arg> = command.get_arguments().cloned().collect();
    arguments.sort_by_key(|argument| match argument.is_positional() {
        true => (0, 0, 0),
        false => {
            let (_, rank, group, at) = placed(argument);
            (rank, group, at)
        }
    });
    let headed = |argument: Arg| match placed(&argument).0 {
        Some(title) if !argument.is_positional() => argument.help_heading(title),
        _ => argument,
    };
    // Clap has noted the order of the declarations.
    let arguments = arguments.into_iter().map(headed).enumerate();
    let arguments = arguments.map(|(at, argument)| argument.display_order(at));
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
    lines.extend(examples(page).lines().map(str::to_owned));
    lines.push(match page.verb {
        "" => "Flags of a verb: lineside VERB -h, all of them: lineside VERB --help".to_owned(),
        verb => format!("All flags: lineside {verb} --help"),
    });
    let fitting = lines.iter().map(|line| fitting(line, WIDTH) + "\n");
    Some(fitting.collect())
}

/// The examples of a verb, for `-h` and `--help`.
pub(crate) fn examples(page: &Page) -> String {
    let examples = page.examples.iter();
    let lines = examples.map(|(example, what)| format!("\n  {example:<57} # {what}"));
    std::iter::once("Examples:".to_owned())
        .chain(lines)
        .collect()
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
        for (at, text) in texts.into_iter().enumerate() {
            let text = text.expect("each has a page");
            // The first one lists all verbs, 26 of them.
            let lines = if at == 0 { 34 } else { 24 };
            assert!(text.lines().count() <= lines, "{text}");
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
            let names = |groups: &[(&str, &'static [&'static str])]| -> Vec<&'static str> {
                groups
                    .iter()
                    .flat_map(|(_, names)| *names)
                    .copied()
                    .collect()
            };
            let daily = names(page.groups);
            assert!(page.verb.is_empty() || daily.len() <= 10, "{}", page.verb);
            for name in daily.into_iter().chain(names(page.more)) {
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
        for words in ["[default: 256MiB]", "[default: stealing]", "Live:"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let emulate = command.find_subcommand_mut("emulate").expect("a verb");
        let text = emulate.render_help().to_string();
        for words in ["Between commands:", "Between interfaces:", "Of a capture:"] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn every_flag_has_a_group_and_defaults_stand_once() {
        let mut command = command();
        command.build();
        let has_page =
            |verb: &&Command| page(verb.get_name()).is_some_and(|it| !it.groups.is_empty());
        for verb in command.get_subcommands().filter(has_page) {
            let shown = verb.get_arguments().filter(|flag| !flag.is_hide_set());
            let shown = shown.filter(|flag| flag.get_id() != "help");
            for flag in shown.filter(|flag| !flag.is_positional()) {
                let heading = flag.get_help_heading();
                let is_in_group = heading.is_some_and(|heading| heading != "Further");
                assert!(is_in_group, "{} {}", verb.get_name(), flag.get_id());
            }
        }
        assert_defaults_stand_once(&command);
    }

    fn assert_defaults_stand_once(command: &Command) {
        for argument in command.get_arguments() {
            let help = argument.get_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            let of_clap = !argument.get_default_values().is_empty()
                && !argument.is_hide_default_value_set()
                && argument.get_action().takes_values();
            let count = help.matches("[default").count() + usize::from(of_clap);
            let name = (command.get_name(), argument.get_id());
            assert!(count <= 1, "{name:?}: {help}");
            assert!(
                !help.contains("{n}"),
                "{name:?}: clap breaks the line there"
            );
        }
        command
            .get_subcommands()
            .for_each(assert_defaults_stand_once);
    }
}
