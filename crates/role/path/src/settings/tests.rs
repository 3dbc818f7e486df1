//! Words for ways and frames: what is found for which, what a change replaces, what is refused.

use lineside_link::Setting;
use lineside_link::words::LinkWords;
use lineside_run::ConfigError;

use super::files::Files;
use super::spec::given;
use super::words::{Words, find, merged};
use super::{LinkSpec, Ways};
use crate::Direction;

/// The words for frames of a way that match these expressions.
fn found(
    ways: &Ways,
    delay: &[String],
    way: usize,
    matched: &[&str],
) -> Result<Option<String>, ConfigError> {
    let words = LinkWords {
        delay: Some(delay.to_vec()),
        ..LinkWords::default()
    };
    let given = given(&words, ways, false, &mut Files::default())?;
    let found = find(ways, &given, Setting::Delay, way, matched);
    Ok(found.map(|found| Words::setting(&found.text).expect("valid words").to_owned()))
}

/// `known` with the changes of `new`.
fn changed(ways: &Ways, known: &LinkWords, new: &LinkWords) -> Result<LinkWords, ConfigError> {
    let read = |words, can_go| given(words, ways, can_go, &mut Files::default());
    let mut changed = LinkWords::default();
    for given in merged(ways, &read(known, false)?, read(new, true)?) {
        changed.add(given.setting, given.text);
    }
    Ok(changed)
}

#[test]
fn words_are_for_both_directions_or_for_one() {
    let words = |given: &[&str], direction, matched: &[&str]| {
        let given: Vec<_> = given.iter().map(|&words| words.to_owned()).collect();
        let way = direction as usize;
        found(&Ways::default(), &given, way, matched).expect("valid words")
    };
    use Direction::{Inbound, Outbound};
    for (given, outbound, inbound) in [
        (&[][..], None, None),
        (&["1ms"], Some("1ms"), Some("1ms")),
        (&["in:5ms", "1ms"], Some("1ms"), Some("5ms")),
        (&["out: 5ms"], Some("5ms"), None),
        (&["match udp: 5ms", "1ms"], Some("1ms"), Some("1ms")),
    ] {
        assert_eq!(words(given, Outbound, &[]).as_deref(), outbound);
        assert_eq!(words(given, Inbound, &[]).as_deref(), inbound);
    }
    let given = [
        "1ms",
        "in: match udp: 5ms",
        "match host fe80:: or net ::/0: 7ms",
        "in: 2ms",
    ];
    for (direction, matched, found) in [
        (Outbound, &["udp"][..], "1ms"),
        (Inbound, &["udp"], "5ms"),
        (Inbound, &["tcp"], "2ms"),
        (Inbound, &["host fe80:: or net ::/0", "udp"], "7ms"),
        (Outbound, &["udp", "host fe80:: or net ::/0"], "7ms"),
    ] {
        assert_eq!(words(&given, direction, matched).as_deref(), Some(found));
    }
    for wrong in ["match udp:5ms", "match : 5ms", "in: match  : 5ms"] {
        assert!(Words::read(&Ways::default(), wrong).is_err(), "{wrong}");
    }
}

#[test]
fn settings_given_twice_for_the_same_frames_are_refused() {
    let refused = |delay: &[&str]| {
        let delay = delay.iter().map(|&words| words.to_owned()).collect();
        let words = LinkWords {
            delay: Some(delay),
            ..LinkWords::default()
        };
        let error = LinkSpec::read(&words, Ways::default(), &[]).err()?;
        Some(error.to_string())
    };
    for valid in [
        &["1ms", "in: 2ms"][..],
        &["in: 1ms", "out: 2ms"],
        &["1ms", "match udp: 2ms", "in: match udp: 3ms"],
    ] {
        assert_eq!(refused(valid), None);
    }
    for wrong in [
        ["1ms", "2ms"],
        ["in: 1ms", "in:2ms"],
        ["match udp: 1ms", "match udp : 2ms"],
    ] {
        let why = refused(&wrong).expect("it is refused");
        assert!(wrong.iter().all(|words| why.contains(words)), "{why}");
    }
}

#[test]
fn a_change_replaces_only_the_settings_it_names() {
    let ways = Ways::default();
    let words = |delay: &[&str], rate: &[&str]| {
        let list = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(|&words| words.to_owned()).collect();
            Some(words).filter(|words| !words.is_empty())
        };
        LinkWords {
            delay: list(delay),
            rate: list(rate),
            loss: list(&["1%"]),
            ..LinkWords::default()
        }
    };
    for (known, given, after) in [
        (&["10ms"][..], &["40ms"][..], &["40ms"][..]),
        (&["10ms", "in: 5ms"], &["40ms"], &["40ms"]),
        (&["10ms"], &["in: 5ms"], &["out: 10ms", "in: 5ms"]),
        (&["10ms"], &["in: 5ms", "40ms"], &["out: 40ms", "in: 5ms"]),
        (
            &["in: 5ms", "10ms"],
            &["out: 2ms"],
            &["in: 5ms", "out: 2ms"],
        ),
        (
            &["out: 1ms", "in: 5ms"],
            &["out:2ms"],
            &["in: 5ms", "out:2ms"],
        ),
        (
            &["match udp: 1ms", "10ms"],
            &["40ms", "in: match udp: 2ms"],
            &["out: match udp: 1ms", "40ms", "in: match udp: 2ms"],
        ),
    ] {
        let given = words(given, &["in: none"]);
        let changed = changed(&ways, &words(known, &["1mbit"]), &given);
        let expected = words(after, &["out: 1mbit"]);
        assert_eq!(changed.expect("valid words"), expected);
    }
    let changed = changed(&ways, &words(&["1ms"], &["1mbit"]), &words(&[], &["none"]));
    assert_eq!(changed.expect("valid words"), words(&["1ms"], &[]));
}
#[test]
fn words_name_ports_where_there_are_some() {
    let ports = |names: &[&str]| {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        Ways::between(Some(&names))
    };
    let three = ports(&["a", "b", "c"]).expect("three ports");
    let delay = |ways: &Ways, given: &[&str], way| {
        let given: Vec<_> = given.iter().map(|&words| words.to_owned()).collect();
        found(ways, &given, way, &[]).map_err(|error| error.to_string())
    };
    let given = ["1ms", "b in: 5ms", "c out : 2ms"];
    let found = [0, 1, 2, 3, 4, 5].map(|way| delay(&three, &given, way).expect("valid"));
    let once = |words: &str| Some(words.to_owned());
    assert_eq!(
        found,
        [
            once("1ms"),
            once("5ms"),
            once("1ms"),
            None,
            None,
            once("2ms")
        ],
        "words without a port are met once"
    );
    let two = ports(&["a", "b"]).expect("two ports");
    for (words, way) in [
        ("a in: 1ms", 0),
        ("b out:1ms", 0),
        ("b in: 1ms", 1),
        ("a out: 1ms", 1),
    ] {
        assert_eq!(delay(&two, &[words], way), Ok(once("1ms")), "{words}");
        assert_eq!(delay(&two, &[words], 1 - way), Ok(None), "{words}");
    }
    for (ways, words, why) in [
        (&three, "in: 1ms", "'a in: WORDS'"),
        (&three, "d in: 1ms", "the ports are a, b, c"),
        (&Ways::default(), "a in: 1ms", "write 'out:' or 'in:'"),
    ] {
        let error = delay(ways, &[words], 0).expect_err(words);
        assert!(error.contains(why), "{error}");
    }
    for (names, why) in [
        (&["a"][..], "names two interfaces"),
        (&["a", "a"], "two different ends"),
        (&["a", "b", "a"], "'a' is there twice"),
        (&["1", "2", "3", "4", "5", "6", "7", "8", "9"], "at most 8"),
    ] {
        let error = ports(names).expect_err(why).to_string();
        assert!(error.contains(why), "{error}");
    }
    let known = |words: &[&str]| LinkWords {
        delay: Some(words.iter().map(|&words| words.to_owned()).collect()),
        ..LinkWords::default()
    };
    for (before, given, after) in [
        (
            &["1ms"][..],
            "a in: 2ms",
            &["b in: 1ms", "c in: 1ms", "a in: 2ms"][..],
        ),
        (&["1ms"], "a out: 2ms", &["1ms", "a out: 2ms"]),
        (&["a out: 1ms", "b in: 3ms"], "2ms", &["a out: 1ms", "2ms"]),
    ] {
        let changed = changed(&three, &known(before), &known(&[given]));
        assert_eq!(changed.expect("valid words"), known(after), "{given}");
    }
}
