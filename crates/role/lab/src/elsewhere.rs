//! Nodes on other machines: by what starts a program there, such as ssh, a shell is started, which
//! gets what it runs as lines of its input.
//!
//! Nothing is quoted for that command, so that it may be ssh, which has a shell take its words
//! apart, or one that does not. The end of the input ends what runs: the shell's own process group,
//! by TERM and two seconds later by KILL, also when the connection is cut.

use lineside_host::ReadyWhen;

/// What a node runs at a point.
pub(crate) struct Words {
    pub(crate) command: String,
    pub(crate) ready: Option<ReadyWhen>,
    /// What a shell on another machine is given.
    pub(crate) elsewhere: Option<String>,
    pub(crate) environment: Vec<(String, String)>,
}

/// Reads the name of a machine, with its user or without.
pub(crate) fn host(words: &str) -> Result<String, String> {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "._-:@%".contains(letter);
    // One that begins with - would be an option.
    let is_name = words.starts_with(|first: char| first.is_ascii_alphanumeric());
    match is_name && words.chars().all(is_letter) && !machine(words).is_empty() {
        true => Ok(words.to_owned()),
        false => Err(format!("'{words}': write MACHINE or USER@MACHINE")),
    }
}

/// The machine of a host, without its user.
pub(crate) fn machine(host: &str) -> &str {
    host.rsplit_once('@').map_or(host, |(_, machine)| machine)
}

/// A node of another machine: `rsh` starts a shell at `host`.
pub(crate) fn words(
    (rsh, host): (&str, &str),
    (run, ready): (&str, Option<ReadyWhen>),
    environment: Vec<(String, String)>,
) -> Words {
    let shell = format!("exec {rsh} {host} sh");
    let ready = ready.map(|ready| match ready {
        ReadyWhen::Succeeds(command) => {
            let script = quoted(&script(&command, &environment));
            ReadyWhen::Succeeds(format!("printf %s {script} | {rsh} {host} sh"))
        }
        ReadyWhen::Listens(port) => ReadyWhen::Answers(machine(host).to_owned(), port),
        answers => answers,
    });
    Words {
        elsewhere: Some(held(run, &environment)),
        command: shell,
        ready,
        environment: Vec::new(),
    }
}

fn script(command: &str, environment: &[(String, String)]) -> String {
    let set = environment.iter();
    let set = set.map(|(name, value)| format!("export {name}={}\n", quoted(value)));
    format!(
        "{}exec sh -c {} </dev/null\n",
        set.collect::<String>(),
        quoted(command)
    )
}

/// A command that ends with the shell's input. All of it is one compound command: a shell reads it
/// whole before it begins, and the rest of its input is for what waits for its end.
fn held(command: &str, environment: &[(String, String)]) -> String {
    format!(
        "{{\n{}exec 3<&0\nsetsid sh -c {} </dev/null 3<&- &\np=$!\nexec 2>/dev/null\n\
         (cat <&3; kill -TERM -$p; sleep 2; kill -KILL -$p) >/dev/null 2>&1 &\nw=$!\n\
         wait $p; s=$?\nkill $w\nexit $s\n}}\n",
        { environment.iter() }
            .map(|(name, value)| format!("export {name}={}\n", quoted(value)))
            .collect::<String>(),
        quoted(command)
    )
}

/// A word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_host_is_a_name_and_no_option() {
        for right in ["box", "me@box7.example.com", "10.0.0.1", "a@fe80::1%eth0"] {
            assert_eq!(host(right), Ok(right.to_owned()));
        }
        for wrong in [
            "",
            "-oProxyCommand=x",
            "a b",
            "a;b",
            "$(a)",
            "@box",
            "me@",
            "a'b",
        ] {
            assert!(host(wrong).is_err(), "{wrong}");
        }
        assert_eq!((machine("me@box"), machine("box")), ("box", "box"));
    }

    #[test]
    fn a_shell_runs_what_it_is_given_and_ends_with_its_input() {
        let environment = [("A".to_owned(), "it's $B".to_owned())];
        let run = |command: &str| {
            let mut shell = Command::new("sh");
            shell.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut shell = shell.spawn().expect("it runs");
            let mut input = shell.stdin.take().expect("a pipe");
            let script = held(command, &environment);
            std::io::Write::write_all(&mut input, script.as_bytes()).expect("it reads");
            (shell, input)
        };
        let (shell, input) = run("echo \"$A\" 'quoted'; exit 7");
        let output = shell.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(7));
        assert_eq!(output.stdout, b"it's $B quoted\n");
        drop(input);
        // With its input ends what it runs, and what that started.
        let (shell, input) = run("sleep 600 & sleep 601");
        drop(input);
        let output = shell.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(143));
    }
}
