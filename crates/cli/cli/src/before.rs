//! What flags and keys were called before is still understood, and no help lists it.

use clap::{Command, CommandFactory, FromArgMatches};
use serde_json::json;

use crate::config::{Keys, read_keys};
use crate::{capture, forwarder, link, load};

#[test]
fn every_flag_of_before_is_still_read() {
    for (line, before) in [
        ("capture f --autostop duration:5", "--autostop"),
        ("capture f -a 5s", ""),
        ("capture f --no-sandbox", "--no-sandbox"),
        ("emulate f -a duration:60", ""),
        ("emulate f --autostop duration:60", "--autostop"),
        ("emulate f --armed", "--armed"),
        ("emulate f --no-sandbox", "--no-sandbox"),
        ("explain --size 64", "--size"),
        ("load u --workers 2", "--workers"),
        ("load u --rate 5", "--rate"),
        ("load u --gets 90%", "--gets"),
        ("load u --rows none", "--rows"),
        ("load u --catch-up keep", "--catch-up"),
        ("load u --limit stall=5ms", "--limit"),
        ("load u --link delay", "--link"),
        ("load u --no-sandbox", "--no-sandbox"),
        ("load serve http a --workers 2", "--workers"),
        ("forward --ports a,b", "--ports"),
        ("forward -i a -a duration:5", ""),
        ("forward -i a --autostop duration:5", "--autostop"),
        ("forward -i a --timeout udp=30s", "--timeout"),
        ("forward --emulated --size 64", "--size"),
        ("forward -i a --no-sandbox", "--no-sandbox"),
        ("table f --step 1s", "--step"),
        ("table f --no-sandbox", "--no-sandbox"),
        ("probe h --step 1s", "--step"),
        ("ctl r stats --every 1s", "--every"),
        ("packets t --operation 1 --write f", "--write"),
        ("bundle r --out f", "--out"),
        ("doctor --out d", "--out"),
        ("report t --no-sandbox", "--no-sandbox"),
    ] {
        let words: Vec<&str> = std::iter::once("lineside").chain(line.split(' ')).collect();
        let read = crate::arguments::Arguments::command().try_get_matches_from(&words);
        let read = read.unwrap_or_else(|error| panic!("{line}: {error}"));
        crate::arguments::Arguments::from_arg_matches(&read).expect(line);
        if before.is_empty() {
            continue;
        }
        let mut command = crate::manual::command();
        command.build();
        let mut verb = command.find_subcommand_mut(words[1]).expect("a verb");
        if words[2] == "serve" {
            verb = verb.find_subcommand_mut("serve").expect("a verb");
        }
        assert!(!is_listed(verb, before), "{line}");
    }
}

fn is_listed(verb: &mut Command, flag: &str) -> bool {
    let text = verb.render_long_help().to_string();
    let lines = text.lines().map(str::trim_start);
    let mut flags = lines.filter(|line| line.starts_with('-'));
    flags.any(|line| line.split([' ', ',']).any(|word| word == flag))
}

/// The value of `now` in what a section says by the key `before`.
fn now<K: Keys>(before: serde_json::Value, now: &str) -> serde_json::Value {
    let keys: K = read_keys(&before, "section").expect("keys of before");
    let mut written = serde_json::Map::new();
    keys.write(&mut written);
    written[now].clone()
}

#[test]
fn every_key_of_before_is_still_read() {
    type Capture = capture::Section;
    type Emulate = link::section::Section;
    assert_eq!(now::<Capture>(json!({"sandbox": false}), "sandbox"), "off");
    assert_eq!(now::<Capture>(json!({"sandbox": true}), "sandbox"), "on");
    let off = json!({"no_sandbox": true});
    assert_eq!(now::<Emulate>(off.clone(), "sandbox"), "off");
    assert_eq!(now::<load::Section>(off.clone(), "sandbox"), "off");
    assert_eq!(now::<forwarder::Section>(off, "sandbox"), "off");
    // As earlier runs recorded what nobody had asked for.
    let null = json!({"no_sandbox": null, "autostop": null});
    assert!(now::<Emulate>(null, "sandbox").is_null());
    assert_eq!(now::<Emulate>(json!({"armed": true}), "wait_start"), true);
    for text in ["duration:60", "60s"] {
        let before = json!({ "autostop": text });
        assert_eq!(now::<Emulate>(before.clone(), "duration"), "60s");
        assert_eq!(now::<forwarder::Section>(before, "duration"), "60s");
    }
    for (before, name, value) in [
        ("gets", "get_ratio", "95%"),
        ("rows", "row_sample", "none"),
        ("catch_up", "on_overrun", "keep"),
    ] {
        assert_eq!(now::<load::Section>(json!({ before: value }), name), value);
    }
    let both = json!({"rows": "none", "row_sample": "all"});
    let error = read_keys::<load::Section>(&both, "load").expect_err("one of them");
    assert_eq!(
        error,
        "load.rows: it is row_sample today, which is there too: leave it out"
    );
}
