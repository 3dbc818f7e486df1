//! `lineside forward --emulated`: the payload-caching paper's adapter in virtual time.

use serde_json::Value;

use crate::support::{lineside, talk};

fn forward(words: &[&str]) -> std::process::Output {
    let mut command = lineside();
    command.args(["forward", "--emulated"]).args(words);
    command.output().expect("it runs")
}

fn printed(words: &[&str]) -> String {
    let output = forward(words);
    assert!(output.status.success(), "{words:?}: {}", talk(&output));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn figures_stand_beside_the_paper_and_misses_are_named() {
    for (number, missed) in [("2", "0 of 9"), ("6", "2 of 16")] {
        let text = printed(&["--figure", number]);
        let line = format!("{missed} numbers missed");
        assert!(text.contains(&line), "{text}");
        assert!(text.contains("machine: link 125 MB/s, bus 115"), "{text}");
    }
    let text = printed(&["--figure", "4"]);
    assert!(text.contains("uupppppp  6 receive_complete"), "{text}");
}

#[test]
fn a_figure_is_json_and_a_page_and_the_same_each_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    let page_text = page.to_str().expect("text");
    let words = ["--figure", "6", "--json", "--html", page_text];
    let text = printed(&words);
    assert_eq!(text, printed(&words));
    let json: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["cells"].as_array().map(Vec::len), Some(16));
    assert_eq!(json["parameters"]["bus_bytes_per_s"], 115_000_000);
    let page = std::fs::read_to_string(page).expect("a page");
    assert_eq!(page.matches("<polyline").count(), 9);
}

#[test]
fn only_spill_and_adaptive_keep_what_direct_loses() {
    let counters = |mode| {
        let words = [
            "--mode", mode, "--cache", "64KiB", "--size", "1500", "--rate", "70MB/s",
        ];
        let text = printed(&[&words[..], &["--burst", "200", "--json"]].concat());
        let json: Value = serde_json::from_str(&text).expect("JSON");
        json["counters"]["dropped"]["missed"]
            .as_u64()
            .expect("a number")
    };
    assert!(counters("direct") > 0);
    assert_eq!((counters("spill"), counters("adaptive")), (0, 0));
}

#[test]
fn patterns_of_use_have_hit_rates() {
    for name in ["multicast", "proxy", "nfs-web"] {
        let text = printed(&["--pattern", name]);
        assert!(text.contains("hits         "), "{text}");
    }
}

#[test]
fn wrong_words_are_named_with_the_right_ones() {
    for (words, answer) in [
        (&["--figure", "3"][..], "--figure takes 2, 4, 5, 6, 7"),
        (
            &["--pattern", "dns"],
            "--pattern takes multicast, proxy, nfs-web",
        ),
        (&["--figure", "2", "--cache", "big"], "write 1.4MiB"),
        (&[], "add --figure NUMBER"),
    ] {
        let output = forward(words);
        assert!(
            !output.status.success() && talk(&output).contains(answer),
            "{}",
            talk(&output)
        );
    }
}
