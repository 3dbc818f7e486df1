//! Errors of the command line, in the form of all others: `lineside: what: why, and the way out`.

use std::error::Error as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use lineside_words::nearest;

use crate::arguments::Arguments;
use crate::habits;

/// What to give where one of several will do: the verb, what is missing, and the way out.
const MISSING: [(&str, &str, &str); 5] = [
    (
        "compare",
        "<B>",
        "name a second trace (compare A B), or compare one trace before and after a time \
        (compare A --at TIME)",
    ),
    (
        "probe",
        "<HOST>",
        "name the other end (probe HOST), or answer probes here (probe --serve)",
    ),
    (
        "packets",
        "--operation",
        "choose frames by --operation ID, which 'lineside slow TRACE' prints, or by \
        --connection ID",
    ),
    (
        "replay-pcap",
        "--interface",
        "name the interface to send to: -i IF",
    ),
    (
        "load",
        "<WHAT>",
        "say what to serve: 'load serve http ADDRESS'",
    ),
];

/// The message for an error of clap's; `arguments` are those of the command line.
pub(crate) fn message(error: &clap::Error, arguments: &[String]) -> String {
    let verb = arguments.get(1).map_or("", String::as_str);
    let refused = Refused {
        error,
        verb,
        arguments,
    };
    let argument = refused.argument();
    let value = refused.text(ContextKind::InvalidValue);
    match error.kind() {
        ErrorKind::UnknownArgument => refused.unknown_flag(),
        ErrorKind::InvalidSubcommand => refused.unknown_verb(),
        ErrorKind::InvalidValue if value.is_empty() => format!("{argument} needs a value"),
        ErrorKind::InvalidValue => {
            let known = refused.list(ContextKind::ValidValue).join(", ");
            format!("{argument}: '{value}' is unknown: it is one of {known}")
        }
        ErrorKind::ValueValidation => {
            let why = error.source().map(ToString::to_string).unwrap_or_default();
            match why.contains(&format!("'{value}'")) {
                true => format!("{argument}: {why}"),
                false => format!("{argument}: '{value}': {why}"),
            }
        }
        ErrorKind::MissingRequiredArgument => refused.missing(),
        ErrorKind::ArgumentConflict => refused.conflict(&argument),
        _ => {
            let text = error.to_string();
            let text = text.trim_start_matches("error: ").split("\n\n").next();
            let lines = text.unwrap_or_default().lines().map(str::trim);
            let line = lines.collect::<Vec<_>>().join(" ");
            format!("{line}; {}", help_of(verb))
        }
    }
}

/// A command line that clap refused.
struct Refused<'a> {
    error: &'a clap::Error,
    verb: &'a str,
    arguments: &'a [String],
}

impl Refused<'_> {
    fn text(&self, kind: ContextKind) -> &str {
        match self.error.get(kind) {
            Some(ContextValue::String(text)) => text,
            _ => "",
        }
    }

    fn list(&self, kind: ContextKind) -> Vec<String> {
        match self.error.get(kind) {
            Some(ContextValue::Strings(list)) => list.clone(),
            Some(ContextValue::String(text)) => vec![text.clone()],
            _ => Vec::new(),
        }
    }

    /// The argument in question, as it was typed.
    fn argument(&self) -> String {
        as_typed(
            self.text(ContextKind::InvalidArg),
            self.verb,
            self.arguments,
        )
    }

    fn unknown_flag(&self) -> String {
        let what = self.text(ContextKind::InvalidArg);
        let what = match what.starts_with('-') {
            true => format!("unknown flag '{what}'"),
            false => format!("'{what}' is one argument too many"),
        };
        let near = self.list(ContextKind::SuggestedArg).into_iter().next();
        match (habits::advice(self.error, self.arguments), near) {
            (Some(advice), _) => format!("{what}: {advice}"),
            (None, Some(near)) => format!("{what}; the nearest known one is {near}"),
            (None, None) => format!("{what}; {}", help_of(self.verb)),
        }
    }

    fn unknown_verb(&self) -> String {
        let what = self.text(ContextKind::InvalidSubcommand);
        if let Some(advice) = habits::advice(self.error, self.arguments) {
            return format!("unknown verb '{what}': {advice}");
        }
        let command = Arguments::command();
        let known = command.get_subcommands().map(Command::get_name);
        let near = nearest(what, known);
        format!("unknown verb '{what}'; the nearest known one is {near}; 'lineside -h' lists all")
    }

    fn missing(&self) -> String {
        let missing = self.list(ContextKind::InvalidArg);
        let known = MISSING.iter().find(|(of, what, _)| {
            *of == self.verb && missing.iter().any(|missing| missing.contains(what))
        });
        let what = missing.join(" and ");
        match known {
            Some((.., advice)) => format!("{what} is missing: {advice}"),
            None => format!("{what} is missing; {}", help_of(self.verb)),
        }
    }

    fn conflict(&self, argument: &str) -> String {
        let others = self.list(ContextKind::PriorArg);
        let others: Vec<_> = { others.iter() }
            .map(|other| as_typed(other, self.verb, self.arguments))
            .collect();
        match others.iter().any(|other| other == argument) {
            true => format!("{argument} is given twice: leave out one"),
            false => format!(
                "{argument} and {} exclude each other: leave out one",
                others.join(", ")
            ),
        }
    }
}

fn help_of(verb: &str) -> String {
    match crate::help::page(verb) {
        Some(page) if !page.verb.is_empty() => format!("'lineside {verb} --help' lists all"),
        _ => "'lineside -h' lists all".to_owned(),
    }
}

/// A message that begins with a key, as flags and files name it, with the flag that was typed in
/// place of that.
pub(crate) fn of_flags(message: &str, arguments: &[String]) -> String {
    let verb = arguments.get(1).map_or("", String::as_str);
    let first = message.split([' ', ':']).next().unwrap_or_default();
    if first.len() > 1 && first.starts_with('-') {
        let typed = typed(first, verb, arguments);
        return typed.unwrap_or_else(|| first.to_owned()) + &message[first.len()..];
    }
    let Some((key, rest)) = message.split_once(": ") else {
        return message.to_owned();
    };
    let is_key = |letter: char| letter.is_ascii_lowercase() || matches!(letter, '_' | '-');
    if key.is_empty() || !key.chars().all(is_key) {
        return message.to_owned();
    }
    let flag = format!("--{}", key.replace('_', "-"));
    match typed(&flag, verb, arguments) {
        Some(typed) => format!("{typed}: {rest}"),
        None => message.to_owned(),
    }
}

/// A flag as clap names it (`--decode-as <RULE>`, `<FILE>`), as it was typed: `-d`.
fn as_typed(flag: &str, verb: &str, arguments: &[String]) -> String {
    let long = flag.split([' ', '=']).next().unwrap_or(flag);
    let long = match flag.starts_with('<') {
        true => flag,
        false => long.trim_end_matches("..."),
    };
    typed(long, verb, arguments).unwrap_or_else(|| long.trim_matches(['<', '>']).to_owned())
}

/// How a flag, a key of that name or an older name of it stands on the command line.
fn typed(flag: &str, verb: &str, arguments: &[String]) -> Option<String> {
    let command = Arguments::command();
    let verb = command.find_subcommand(verb)?;
    let name = flag.strip_prefix('-')?;
    let mut letters = name.chars();
    let letter = letters.next().filter(|_| letters.next().is_none());
    let name = name.trim_start_matches('-');
    let id = name.replace('-', "_");
    let mut all = verb.get_arguments();
    let argument = all.find(|argument| match letter {
        Some(letter) => argument.get_short() == Some(letter),
        None => argument.get_long() == Some(name) || argument.get_id().as_str() == id,
    })?;
    let mut words = arguments.iter().skip(2).take_while(|word| *word != "--");
    words.find_map(|word| {
        let given = word.split('=').next().unwrap_or(word);
        if let Some(long) = given.strip_prefix("--") {
            let mut known = argument.get_long_and_visible_aliases().unwrap_or_default();
            known.extend(argument.get_all_aliases().unwrap_or_default());
            return known.contains(&long).then(|| format!("--{long}"));
        }
        let letter = word.strip_prefix('-')?.chars().next()?;
        let is_it = argument.get_short() == Some(letter) || { argument.get_all_short_aliases() }
            .is_some_and(|all| all.contains(&letter));
        is_it.then(|| format!("-{letter}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn errors_have_one_form_and_a_way_out() {
        for (words, expected) in [
            (&["lineside", "capture", "-d"][..], "-d needs a value"),
            (
                &["lineside", "capture", "x", "--rotat", "5"],
                "unknown flag '--rotat'; the nearest known one is --rotate",
            ),
            (
                &["lineside", "captur"],
                "unknown verb 'captur'; the nearest known one is capture; 'lineside -h' lists all",
            ),
            (
                &["lineside", "report", "t", "-n", "5"],
                "unknown flag '-n': limits are -c N",
            ),
            (
                &["lineside", "compare", "t"],
                "<B> is missing: name a second trace",
            ),
            (&["lineside", "probe"], "<HOST> is missing: name the other"),
            (
                &["lineside", "packets", "t", "-w", "f"],
                "is missing: choose frames by --operation ID",
            ),
            (
                &["lineside", "report", "t", "--json", "--csv"],
                "exclude each other: leave out one",
            ),
            (
                &["lineside", "emulate", "f", "-d", "5"],
                "-d: '5' is not a time",
            ),
            (
                &["lineside", "completions", "tcsh"],
                "SHELL: 'tcsh' is unknown: it is one of bash, elvish",
            ),
            (
                &["lineside", "report", "t", "more"],
                "'more' is one argument too many; 'lineside report --help' lists all",
            ),
        ] {
            let error = Arguments::command().try_get_matches_from(words);
            let message = message(&error.expect_err(expected), &line(words));
            assert!(message.contains(expected), "{words:?}: {message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn errors_name_the_flag_that_was_typed() {
        let why = "decode_as: '5': write LAYER==VALUE";
        for (words, expected) in [
            (&["lineside", "capture", "f", "-d", "5"][..], "-d: '5'"),
            (&["lineside", "capture", "f", "-d5"], "-d: '5'"),
            (
                &["lineside", "capture", "f", "--decode-as=5"],
                "--decode-as: '5'",
            ),
            // It came from a file.
            (&["lineside", "capture", "f", "--config", "c"], why),
        ] {
            let message = of_flags(why, &line(words));
            assert!(message.starts_with(expected), "{words:?}: {message}");
        }
        let old = line(&["lineside", "load", "u", "--gets", "2"]);
        let message = of_flags("get_ratio: '2' is not a share", &old);
        assert!(message.starts_with("--gets: "), "{message}");
        let message = of_flags("--get-ratio is for memcached", &old);
        assert!(message.starts_with("--gets is for"), "{message}");
        let old_letter = line(&["lineside", "emulate", "f", "-a", "5s"]);
        let message = of_flags("-d is for interfaces", &old_letter);
        assert_eq!(message, "-a is for interfaces");
        for other in ["t/x: cannot read", "Some text: more", "no colon", "- is"] {
            assert_eq!(of_flags(other, &old), other);
        }
    }
}
