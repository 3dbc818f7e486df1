//! Our TCP endpoint against scripts in packetdrill's language: our own, and with `SUITE=DIR` those
//! of others.

use std::path::{Path, PathBuf};

use lineside_testkit::drill::{self, Manner, STRICT};

/// Changed scripts of each.
const MUTATIONS: u64 = 10;

fn own_scripts() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("drill");
    let scripts = drill::scripts(&root).expect("a folder of scripts");
    assert!(scripts.len() >= 150, "{} scripts", scripts.len());
    scripts
}

#[test]
fn our_tcp_passes_every_script() {
    let mut wrong = Vec::new();
    for path in own_scripts() {
        if let Err(fault) = drill::run_file(&path, STRICT).expect("a script") {
            wrong.push(format!("{}:{}: {}", path.display(), fault.line, fault.what));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_script_begins_with_its_source() {
    for path in own_scripts() {
        let text = std::fs::read_to_string(&path).expect("a script");
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with("// RFC "), "{}: {first}", path.display());
    }
}

#[test]
fn a_script_with_one_expectation_changed_fails() {
    let mut wrong = Vec::new();
    for path in own_scripts() {
        let text = std::fs::read_to_string(&path).expect("a script");
        let script = drill::parse(&text, STRICT.defined).expect("it was read before");
        for seed in 0..MUTATIONS {
            let Some((mutated, what)) = drill::mutated(&script, seed) else {
                wrong.push(format!("{} expects nothing", path.display()));
                continue;
            };
            if drill::run(&mutated, STRICT.is_foreign).is_ok() {
                wrong.push(format!("{}, seed {seed}: {what}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "passed all the same: {wrong:#?}");
}

#[test]
fn what_a_script_may_not_say_is_named_with_its_line() {
    for (text, line, what) in [
        (
            "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 dance(3) = 0",
            2,
            "no call dance",
        ),
        (
            "\n+0 `sysctl -w net.ipv4.tcp_magic=1`",
            2,
            "no setting net.ipv4.tcp_magic",
        ),
        ("0 `rm -r /`", 1, "is not run"),
        ("--speed=9\n", 1, "no option --speed"),
        ("0 < S 0:0(0) win 9 <magic 3>", 1, "no option `magic`"),
        ("0 < X 0:0(0) win 9", 1, "no flag X"),
        ("0 < S 0:5(0) win 9", 1, "0:5 are not 0 bytes"),
        ("0 < . 1:1(0) win 9", 1, "`.` needs `ack N`"),
        ("0 socket(... SOCK_STREAM) = 3", 1, "is expected"),
        ("#ifdef STANDARD\n", 1, "#endif is missing"),
        (
            "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 setsockopt(3, SOL_TCP, TCP_MD5SIG, [1], 4) = 0",
            2,
            "no option TCP_MD5SIG",
        ),
        (
            "0 < S 0:0(0) win 9\n+0 `sysctl -w net.ipv4.tcp_sack=0`\n+0 > R. 0:0(0) ack 1",
            2,
            "set it before",
        ),
        ("0 %{ print(1) }%", 1, "is not run"),
        ("0 < icmp unreachable nobody [1:1(0)]", 1, "no ICMP error"),
    ] {
        let outcome = drill::parse(text, STRICT.defined);
        let outcome = outcome.and_then(|script| drill::run(&script, STRICT.is_foreign));
        let fault = outcome.expect_err(text);
        assert_eq!(fault.line, line, "{text}: {}", fault.what);
        assert!(fault.what.contains(what), "{text}: {}", fault.what);
    }
}

/// Scripts of others, wherever they lie.
#[test]
fn a_suite_of_others_is_counted() {
    let Some(root) = std::env::var_os("SUITE") else {
        return;
    };
    let foreign = Manner {
        is_foreign: true,
        ..STRICT
    };
    let (mut passed, mut failed) = (0, 0);
    for path in drill::scripts(Path::new(&root)).expect("a folder of scripts") {
        match drill::run_file(&path, foreign).expect("a script") {
            Ok(()) => passed += 1,
            Err(fault) => {
                failed += 1;
                println!("{}:{}: {}", path.display(), fault.line, fault.what);
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    assert!(passed + failed > 0, "no scripts: *.pkt");
}
