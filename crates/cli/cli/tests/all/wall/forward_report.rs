//! What `report`, `info` and `compare` say of a forwarder's run, whether it ended or was killed.

use std::path::Path;

use serde_json::Value;

use crate::report::{check, report_schema};
use crate::support::{lineside, talk, wait_until};
use crate::wall::forward::{Farm, TCP, certificate, stats};
use crate::wall::load_ends::number;
use crate::wall::wire::need_wire;

/// What a verb prints of a run.
fn printed(verb: &str, run: &Path, words: &[&str]) -> String {
    let output = lineside().arg(verb).arg(run).args(words).output();
    let output = output.expect("it runs");
    assert!(
        output.status.success(),
        "{verb} {words:?}: {}",
        talk(&output)
    );
    String::from_utf8(output.stdout).expect("text")
}

fn is_of(finding: &Value, kind: &str) -> bool {
    finding["kind"] == kind
}

#[test]
fn a_node_that_was_lost_is_found_and_drawn() {
    need_wire!();
    let farm = Farm::new();
    let [stays, goes] = farm.nodes();
    let checked = format!("{TCP}; check http / every 500ms within 400ms fall 2 rise 1");
    let words = ["--mode", "pcache", "--hold", "20", "--service", &checked];
    let forwarder = farm.forward(&words);
    wait_until("both are checked", || {
        number(&stats(&forwarder), "/services/0/nodes/1/checks_good") > 0
    });
    drop(goes);
    wait_until("it is down", || {
        stats(&forwarder)["services"][0]["nodes"][1]["state"] == "down"
    });
    farm.load(&["http://10.9.1.100/", "-c", "4", "-n", "100"]);
    let ended = forwarder.interrupt();
    certificate(&ended);
    let run = ended.out.as_path();

    // Lines are wrapped anywhere.
    let first = printed("report", run, &[]);
    assert!(first.lines().count() <= 25, "{first}");
    assert!(first.contains("What stands out"), "{first}");
    let text = printed("report", run, &["--full"])
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for words in [
        "What stands out",
        "10.9.2.3:8080 of tcp 10.9.1.100:80 was down",
        "is down at the end",
        "connections are refused",
        "when nodes were down",
        "pcache: ",
        "frames at most",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let json: Value = serde_json::from_str(&printed("report", run, &["--json"])).expect("JSON");
    let schema = report_schema();
    let mut wrong = Vec::new();
    check(&json, &schema, &schema, "report", &mut wrong);
    assert!(wrong.is_empty(), "{wrong:#?}");
    let findings = json["findings"].as_array().expect("a list");
    let down = { findings.iter() }.find(|finding| is_of(finding, "node_down"));
    let down = down.expect("it is found");
    assert_eq!(down["who"], "10.9.2.3:8080");
    assert!(
        down["since_ns"].is_i64() && down["until_ns"].is_null(),
        "{down}"
    );
    // A node that was down explains its share.
    assert!(!findings.iter().any(|finding| is_of(finding, "share")));
    let course = &json["forwarding"]["course"];
    for (node, at) in ["10.9.2.2:8080", "10.9.2.3:8080"].into_iter().zip(0..) {
        let of = &course["nodes"][at];
        assert_eq!(of["node"], node);
        let opened = of["opened"].as_array().expect("a list").iter();
        let sum: u64 = opened.filter_map(Value::as_u64).sum();
        let place = format!("/forwarding/services/0/nodes/{at}/opened");
        assert_eq!(sum, number(&json, &place));
    }
    let page = printed("report", run, &["--html", "-"]);
    assert!(page.contains("when nodes were down") || page.contains("When nodes were down"));
    assert!(printed("info", run, &[]).contains("verdict      complete"));
    let compared = printed("compare", run, &[run.to_str().expect("text")]);
    assert!(compared.contains("forwarder"), "{compared}");
    drop(stays);
}

#[test]
fn a_killed_forwarder_is_reported_as_unfinished() {
    need_wire!();
    let farm = Farm::new();
    let forwarder = farm.forward(&["--service", TCP]);
    wait_until("its folder says what runs", || {
        forwarder.out.join("trace.json").exists()
    });
    forwarder.signal("KILL");
    let killed = forwarder.end();
    let run = killed.out.as_path();
    let text = printed("report", run, &[]);
    for words in ["unfinished", "was killed"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let json: Value = serde_json::from_str(&printed("report", run, &["--json"])).expect("JSON");
    assert_eq!(json["forwarding"]["verdict"], "unfinished");
    assert_eq!(json["findings"], Value::Array(Vec::new()));
    assert!(printed("info", run, &[]).contains("unfinished"));
}
