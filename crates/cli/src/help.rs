//! `-h`: one screen with the flags that most need; groups, examples and files for `--help` and man.

use std::fmt::Write;

use clap::{Arg, Command};

/// Columns and lines of the screen.
const WIDTH: usize = 80;
/// Where the help of a flag begins.
const COLUMN: usize = 27;

/// What is known of a verb beside its flags.
pub(crate) struct Page {
    pub(crate) verb: &'static str,
    /// The flags that most need, by purpose: their long names, or the short one.
    groups: &'static [(&'static str, &'static [&'static str])],
    /// A command, and what it does.
    pub(crate) examples: &'static [(&'static str, &'static str)],
    pub(crate) files: &'static [(&'static str, &'static str)],
    pub(crate) see_also: &'static str,
}

const TRACE: &[(&str, &str)] = &[
    (
        "TRACE/trace.json",
        "what the run was, its counters and its verdict",
    ),
    (
        "TRACE/operations/*.parquet",
        "the operations; other tables beside it",
    ),
];

pub(crate) const PAGES: [Page; 7] = [
    Page {
        verb: "capture",
        groups: &[
            ("Input", &["read", "interface", "filter", "c", "autostop"]),
            ("Output", &["output", "write-pcap", "rotate", "force"]),
            ("Result", &["strict"]),
        ],
        examples: &[
            ("lineside capture nfs.pcapng -o trace", "from a file"),
            (
                "lineside capture -i eth1 -o trace",
                "from the wire, until Ctrl-C",
            ),
        ],
        files: TRACE,
        see_also: "lineside-report(1), lineside-info(1), tcpdump(1), pcap-filter(7)",
    },
    Page {
        verb: "report",
        groups: &[
            ("Operations", &["since", "until", "client", "operation"]),
            ("Form", &["json", "html", "interval"]),
            ("Judgement", &["assert"]),
        ],
        examples: &[
            ("lineside report trace", "the answer on one screen"),
            (
                "lineside report trace --assert 'p99(READ) < 10ms'",
                "for scripts",
            ),
        ],
        files: TRACE,
        see_also: "lineside-slow(1), lineside-compare(1), nfsiostat(8)",
    },
    Page {
        verb: "compare",
        groups: &[
            (
                "Operations",
                &["at", "since", "until", "client", "operation"],
            ),
            ("Form", &["full", "json"]),
            ("Judgement", &["assert"]),
        ],
        examples: &[
            (
                "lineside compare yesterday today",
                "what changed, worst first",
            ),
            (
                "lineside compare trace --at 10min",
                "before and after a time",
            ),
        ],
        files: TRACE,
        see_also: "lineside-report(1), lineside-slow(1)",
    },
    Page {
        verb: "slow",
        groups: &[
            ("Operations", &["since", "until", "client", "operation"]),
            ("Form", &["json"]),
        ],
        examples: &[
            ("lineside slow trace 10ms", "all that took 10 ms or more"),
            ("lineside slow trace 1ms --operation READ", "READs alone"),
        ],
        files: TRACE,
        see_also: "lineside-report(1), nfsslower(8)",
    },
    Page {
        verb: "emulate",
        groups: &[
            ("Link", &["delay", "loss", "rate", "limit"]),
            ("Ends", &["between", "server", "outside"]),
            ("Output", &["output", "write-pcap", "seed"]),
        ],
        examples: &[
            (
                "lineside emulate a.pcap --write-pcap b.pcap --delay 10ms",
                "a capture",
            ),
            (
                "lineside emulate --between eth1,eth2 --delay 10ms -o run",
                "two wires",
            ),
        ],
        files: &[(
            "RUN/trace.json",
            "what was asked, and the certificate of what was done",
        )],
        see_also: "lineside-ctl(1), lineside-explain(1), tc-netem(8)",
    },
    Page {
        verb: "explain",
        groups: &[
            ("Frame", &["read", "frame"]),
            ("Link", &["delay", "loss", "rate", "limit"]),
        ],
        examples: &[
            (
                "lineside explain --delay '10ms 1ms' --rate 1gbit",
                "settings",
            ),
            (
                "lineside explain -r a.pcap --frame 7 --delay 10ms",
                "a frame",
            ),
        ],
        files: &[],
        see_also: "lineside-emulate(1)",
    },
    Page {
        verb: "table",
        groups: &[],
        examples: &[
            (
                "lineside table from-capture a.pcap -o way.dist",
                "a capture's times",
            ),
            (
                "lineside emulate a.pcap --write-pcap b.pcap --delay 10ms",
                "use of one",
            ),
        ],
        files: &[],
        see_also: "lineside-emulate(1)",
    },
];

/// Exit states, for man pages.
pub(crate) const EXIT_STATUS: [(&str, &str); 6] = [
    (
        "0",
        "done; also for a file that is cut in its last frame, with a warning",
    ),
    ("1", "failure: something could not be read or written"),
    ("2", "usage: an unknown flag, key or value"),
    ("3", "an --assert does not hold"),
    (
        "4",
        "the run was disturbed and is not valid; with --strict also: something is missing",
    ),
    (
        "128+n",
        "signal n cut the reading of files short; what is complete is kept",
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

/// The flags of a verb under the headings of its page; the rest follows.
pub(crate) fn grouped(command: Command, page: &Page) -> Command {
    let headings: Vec<_> = { command.get_arguments() }
        .filter(|argument| !argument.is_positional())
        .map(|argument| {
            let group = { page.groups.iter() }
                .find(|(_, names)| names.iter().any(|name| is_named(argument, name)));
            (
                argument.get_id().clone(),
                group.map_or("Further", |(title, _)| *title),
            )
        })
        .collect();
    headings.into_iter().fold(command, |command, (id, title)| {
        command.mut_arg(id, |argument| argument.help_heading(title))
    })
}

/// One screen, if the verb has a page.
pub(crate) fn screen(command: &mut Command) -> Option<String> {
    let page = page(command.get_name())?;
    let usage = command.render_usage().to_string();
    let mut out = String::new();
    let about = command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    let _ = writeln!(out, "{}", fitting(&about, WIDTH));
    let usage = usage.trim_start_matches("Usage: ");
    for line in usage.lines() {
        let _ = writeln!(out, "{}", fitting(&format!("  {}", line.trim()), WIDTH));
    }
    for (title, names) in page.groups {
        let _ = writeln!(out, "{title}:");
        for name in *names {
            let argument = command
                .get_arguments()
                .find(|argument| is_named(argument, name));
            if let Some(argument) = argument {
                let _ = writeln!(out, "{}", flag(argument));
            }
        }
    }
    if page.groups.is_empty() {
        for verb in command
            .get_subcommands()
            .filter(|verb| verb.get_name() != "help")
        {
            let about = verb
                .get_about()
                .map(ToString::to_string)
                .unwrap_or_default();
            let line = format!("  {:<width$}{about}", verb.get_name(), width = COLUMN - 2);
            let _ = writeln!(out, "{}", fitting(&line, WIDTH));
        }
    }
    let _ = writeln!(out, "Examples:");
    for (example, what) in page.examples {
        let _ = writeln!(
            out,
            "{}",
            fitting(&format!("  {example:<58}# {what}"), WIDTH)
        );
    }
    let _ = writeln!(out, "All flags: lineside {} --help", page.verb);
    Some(out)
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
    fitting(
        &format!("  {name:<width$} {help}", width = COLUMN - 3),
        WIDTH,
    )
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
        for verb in command.get_subcommands_mut() {
            let name = verb.get_name().to_owned();
            let text = screen(verb).unwrap_or_else(|| verb.render_help().to_string());
            assert!(text.lines().count() <= 24, "{name}: {text}");
            let has_page = page(&name).is_some();
            let long = text.lines().filter(|line| line.chars().count() > WIDTH);
            assert!(!has_page || long.count() == 0, "{name}: {text}");
        }
    }

    #[test]
    fn pages_name_what_there_is() {
        let command = command();
        for page in &PAGES {
            let verb = command.find_subcommand(page.verb).expect(page.verb);
            let names: Vec<_> = page.groups.iter().flat_map(|(_, names)| *names).collect();
            assert!(names.len() <= 10, "{}", page.verb);
            for name in names {
                let found = verb
                    .get_arguments()
                    .any(|argument| is_named(argument, name));
                assert!(found, "{}: no {name}", page.verb);
            }
            assert_eq!(page.examples.len(), 2, "{}", page.verb);
        }
    }
}
