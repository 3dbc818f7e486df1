//! The output of `completions` and `man`, in the programs that read it.

use std::process::{Command, Output};

use crate::support::{lineside, talk};

const VERBS: [&str; 25] = [
    "capture",
    "info",
    "report",
    "compare",
    "slow",
    "failed",
    "predict",
    "packets",
    "plan",
    "image",
    "replay",
    "replay-pcap",
    "emulate",
    "lab",
    "forward",
    "load",
    "ctl",
    "explain",
    "table",
    "probe",
    "doctor",
    "bundle",
    "completions",
    "man",
    "version",
];
/// The sources that `table` measures.
const SOURCES: [&str; 5] = [
    "from-capture",
    "from-trace",
    "from-ping",
    "from-tcp",
    "path",
];

fn printed(command: &mut Command) -> String {
    let output: Output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", talk(&output));
    assert_eq!(talk(&output), "");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The completions that bash offers for the last of `words`.
fn completed(words: &[&str]) -> Vec<String> {
    let script = printed(lineside().args(["completions", "bash"]));
    let complete = r#"
        eval "$1"; shift
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        "$(complete -p lineside | sed 's/.* -F \([^ ]*\) .*/\1/')" lineside "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", complete, "bash", &script])
        .args(words);
    printed(&mut bash).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_verbs_and_flags() {
    if Command::new("bash").arg("--version").output().is_err() {
        println!("SKIP: no bash to complete in");
        return;
    }
    let offered = completed(&["lineside", ""]);
    for verb in VERBS {
        assert!(
            offered.iter().any(|word| word == verb),
            "{verb}: {offered:?}"
        );
    }
    assert_eq!(completed(&["lineside", "cap"]), ["capture"]);
    assert_eq!(completed(&["lineside", "capture", "--rot"]), ["--rotate"]);
    assert_eq!(completed(&["lineside", "completions", "fi"]), ["fish"]);
    assert_eq!(completed(&["lineside", "explain", "--flo"]), ["--flow"]);
    assert_eq!(completed(&["lineside", "explain", "--bet"]), [""]);
    // Hidden words of before.
    assert_eq!(completed(&["lineside", "capture", "--no-s"]), [""]);
}

#[test]
fn bash_completes_the_words_of_flags() {
    if Command::new("bash").arg("--version").output().is_err() {
        println!("SKIP: no bash to complete in");
        return;
    }
    for (words, only) in [
        (&["capture", "--overload", "dr"][..], "drop"),
        (&["capture", "--method", "af_p"], "af_packet"),
        (&["capture", "--scheduler", "pin"], "pinned"),
        (&["emulate", "--wait", "spi"], "spin"),
        (&["load", "--preset", "io"], "iot"),
        (&["forward", "--sandbox", "req"], "require"),
        (&["ctl", "run", "dra"], "drain"),
    ] {
        let line = [&["lineside"], words].concat();
        assert_eq!(completed(&line), [only], "{words:?}");
    }
    for verb in ["capture", "load", "forward", "doctor", "replay-pcap"] {
        let offered = completed(&["lineside", verb, "-i", ""]);
        for name in ["lo", "any"] {
            assert!(
                offered.iter().any(|word| word == name),
                "{verb}: {offered:?}"
            );
        }
    }
}

#[test]
fn help_of_the_program_is_one_page() {
    let page = printed(lineside().arg("-h"));
    for verb in VERBS {
        let line = page
            .lines()
            .find(|line| line.trim_start().starts_with(verb));
        assert!(line.is_some(), "{verb}: {page}");
    }
    for words in [&["--help"][..], &["help"]] {
        assert_eq!(printed(lineside().args(words)), page, "{words:?}");
    }
    let bare = lineside().output().expect("it runs");
    assert_eq!(bare.status.code(), Some(2));
    assert_eq!(talk(&bare), page);
}

#[test]
fn each_help_has_the_examples_of_the_man_page() {
    let folder = tempfile::tempdir().expect("a folder");
    printed(lineside().arg("man").arg(folder.path()));
    for verb in VERBS {
        let (short, long) = (
            printed(lineside().args([verb, "-h"])),
            printed(lineside().args([verb, "--help"])),
        );
        let page = folder.path().join(format!("lineside-{verb}.1"));
        let page = std::fs::read_to_string(page).expect("a page");
        let page = page.replace("\\-", "-").replace("\\(aq", "'");
        let (_, examples) = long.split_once("Examples:\n").expect(verb);
        for line in examples.lines().filter(|line| !line.trim().is_empty()) {
            let example = line.split(" # ").next().unwrap_or(line).trim();
            assert!(short.contains(example), "{verb}: {example}: {short}");
            assert!(page.contains(example), "{verb}: {example}: {page}");
        }
    }
}

#[test]
fn explain_lists_no_flags_that_it_refuses() {
    let folder = tempfile::tempdir().expect("a folder");
    printed(lineside().arg("man").arg(folder.path()));
    let page = std::fs::read_to_string(folder.path().join("lineside-explain.1"));
    let page = page.expect("there").replace("\\-", "-");
    let help = printed(lineside().args(["explain", "--help"]));
    for text in [help, page] {
        assert!(
            text.contains("--frame") && text.contains("--delay"),
            "{text}"
        );
        for refused in [
            "--between",
            "--server",
            "--outside",
            "--tap",
            "--write-pcap",
            "--force",
            "CMD",
        ] {
            assert!(!text.contains(refused), "{refused}: {text}");
        }
    }
}

#[test]
fn every_shell_has_a_script() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = printed(lineside().args(["completions", shell]));
        assert!(script.contains("late-window"), "{shell}");
        assert!(!script.contains("lineside_interfaces"), "{shell}");
    }
}

#[test]
fn the_man_pages_are_set_without_warnings() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("man1");
    assert_eq!(printed(lineside().arg("man").arg(&pages)), "");
    let mut all = VERBS.map(|verb| format!("lineside-{verb}.1")).to_vec();
    all.extend(SOURCES.map(|source| format!("lineside-table-{source}.1")));
    let others = ["lab-bundle", "lab-rerun", "load-serve"];
    all.extend(others.map(|other| format!("lineside-{other}.1")));
    all.push("lineside.1".to_owned());
    assert_eq!(std::fs::read_dir(&pages).expect("there").count(), all.len());
    let main = std::fs::read_to_string(pages.join("lineside.1")).expect("there");
    assert_eq!(printed(lineside().arg("man")), main);
    if Command::new("groff").arg("--version").output().is_err() {
        println!("SKIP: no groff to set the man pages (Debian: apt-get install groff-base)");
        return;
    }
    for name in all {
        let mut groff = Command::new("groff");
        groff
            .args(["-man", "-Tutf8", "-wall"])
            .arg(pages.join(&name));
        // Bold is overstruck here and there: each letter, a backspace, the letter again.
        let set: Vec<char> = printed(&mut groff).chars().collect();
        let kept = set
            .iter()
            .enumerate()
            .filter(|&(at, &letter)| letter != '\u{8}' && set.get(at + 1) != Some(&'\u{8}'));
        let text: String = kept.map(|(_, &letter)| letter).collect();
        assert!(text.contains("SYNOPSIS"), "{name}: {text}");
        let sections = ["EXIT STATUS", "EXAMPLES", "FILES", "SEE ALSO"];
        let has_all = sections.iter().all(|section| text.contains(section));
        assert!(name != "lineside-report.1" || has_all, "{text}");
        assert!(
            name != "lineside-capture.1" || text.contains("16MiB,60s"),
            "{text}"
        );
    }
}

#[test]
fn version_says_what_was_built() {
    let text = printed(lineside().arg("version"));
    for word in [
        "lineside ",
        "commit",
        "profile",
        "target",
        "AF_XDP",
        "tables 2.",
    ] {
        assert!(text.contains(word), "no {word}: {text}");
    }
}

#[test]
fn neighbours_words_are_answered() {
    for (words, answer) in [
        (&["emulate", "--latency", "10ms"][..], "write --delay 10ms"),
        (&["emulate", "--jitter=1ms"], "--delay '10ms 1ms"),
        (&["capture", "-Y", "nfs"], "-f takes tcpdump's filters"),
        (&["capture", "-z", "rpc,srt"], "lineside report TRACE"),
        (&["qdisc", "add"], "lineside emulate --between"),
    ] {
        let output = lineside().args(words).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(
            talk(&output).contains(answer),
            "{words:?}: {}",
            talk(&output)
        );
    }
    let screen = printed(lineside().args(["capture", "-h"]));
    assert!(
        screen.lines().count() <= 24 && screen.contains("Examples:"),
        "{screen}"
    );
    let all = printed(lineside().args(["capture", "--help"]));
    assert!(
        all.contains("--placement") && all.contains("Output:"),
        "{all}"
    );
}
