//! Every field of a certificate is read back, and none can be renamed or removed silently.

use lineside_measure::Spread;
use serde_json::{Map, Value, json};

use super::forward::{
    Forward, ForwardChange, ForwardDriver, ForwardInterface, ForwardNode, ForwardNodeCourse,
    ForwardPayloads, ForwardPort, ForwardService, ForwardSplices,
};
use super::link::{
    ChangeReport, ClockStep, CoreReport, DirectionReport, Firing, Link, Mark, MatchReport,
    StepReport,
};
use super::load::{FitFigures, Load, Quantiles, SecondFigures};
use super::replay::{Differing, Replay};
use super::run::{Calibration, Gone, LoopFacts, TapFacts};
use super::*;
use crate::{Machine, ManifestError, SCHEMA_VERSION, State, Verdict};

/// Fields whose keys are data.
const MAPS: [&str; 12] = [
    "counters.",
    "directions",
    "dropped.",
    "failed",
    "left_out",
    "operations",
    "outcomes",
    "refused",
    "repairs",
    "shares",
    "statuses.",
    "unsent",
];

fn polling() -> LoopFacts {
    LoopFacts {
        calibration: Some(Calibration::default()),
        pickup: Some(Spread::default()),
        hand_over: Some(Spread::default()),
        tap: Some(TapFacts::default()),
        gone: vec![Gone::default()],
        ..LoopFacts::default()
    }
}

fn link() -> Link {
    let matches = vec![MatchReport {
        drawn: Some(Spread::default()),
        ..MatchReport::default()
    }];
    let mut direction = DirectionReport {
        matches: matches.clone(),
        ..DirectionReport::default()
    };
    direction.settings.path = Some("walk".to_owned());
    let mut realised = Spread::of(vec![(5, 1)]);
    realised.forget_values();
    direction.delays.realised = Some(realised);
    let mut link = Link {
        core: Some(CoreReport {
            dropped: [("reserved".into(), 2)].into(),
            ports: vec![Default::default()],
            ..CoreReport::default()
        }),
        directions: [("outbound".to_owned(), direction)].into(),
        changes: vec![ChangeReport {
            matches,
            ..ChangeReport::default()
        }],
        marks: vec![Mark::default()],
        steps: vec![StepReport::default()],
        firings: vec![Firing {
            why: Some("held".into()),
            ..Firing::default()
        }],
        firings_unlisted: 1,
        polling: Some(polling()),
        machine: Some(Machine::default()),
        ..Link::default()
    };
    link.clock_steps.count = 1;
    link.clock_steps.first.push(ClockStep::default());
    link
}

fn load() -> Load {
    let mut load = Load {
        latency: Some(Quantiles::default()),
        operations: [("READ".to_owned(), Quantiles::default())].into(),
        seconds: vec![SecondFigures::default()],
        ..Load::default()
    };
    load.requests.failed.insert("reset".to_owned(), 1);
    load.departures.fit = Some(FitFigures::default());
    load
}

fn replay() -> Replay {
    let mut replay = Replay {
        issue_time: Some(Spread::default()),
        repairs: [("cookies".to_owned(), 1)].into(),
        ..Replay::default()
    };
    replay.calls.left_out.insert("handle".to_owned(), 1);
    replay.statuses.differing.push(Differing::default());
    replay
}

fn forward() -> Forward {
    let node = ForwardNode {
        last_check: Some(json!("good")),
        history: vec![ForwardChange::default()],
        ..ForwardNode::default()
    };
    let mut forward = Forward {
        interfaces: vec![ForwardInterface::default()],
        residence: Some(Spread::default()),
        outcomes: [("to node", 4), ("control", 1)].into_iter().collect(),
        ports: vec![ForwardPort::default()],
        services: vec![ForwardService {
            nodes: vec![node],
            ..ForwardService::default()
        }],
        splices: Some(ForwardSplices::default()),
        driver: Some(ForwardDriver::default()),
        payloads: Some(ForwardPayloads::default()),
        polling: polling(),
        ..Forward::default()
    };
    forward.course.nodes.push(ForwardNodeCourse::default());
    forward
}

fn manifest<C: Certificate>(role: Role, found: C) -> Manifest {
    let judged = Judged {
        found,
        verdict: Verdict {
            state: State::Complete,
            ..Verdict::default()
        },
    };
    Manifest {
        schema_version: SCHEMA_VERSION.to_owned(),
        configuration: json!({ role.name(): {} }),
        certificate: Some(serde_json::to_value(judged).expect("JSON")),
        ..Manifest::default()
    }
}

/// The certificates of all roles that write one.
fn all() -> Vec<Manifest> {
    vec![
        manifest(Role::Emulate, link()),
        manifest(Role::Emulate, Link::default()),
        manifest(Role::Load, load()),
        manifest(Role::Load, Load::default()),
        manifest(Role::Forward, forward()),
        manifest(Role::Forward, Forward::default()),
        manifest(Role::Replay, replay()),
        manifest(Role::Replay, Replay::default()),
    ]
}

/// The paths of objects whose keys are fields.
fn forms(path: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let is_map = MAPS.iter().any(|name| {
                let map = name.trim_end_matches('.');
                path.rsplit('/').next() == Some(map) && (*name == map || is_counts(fields))
            });
            if !is_map {
                found.push(path.to_owned());
            }
            for (name, value) in fields {
                forms(&format!("{path}/{name}"), value, found);
            }
        }
        Value::Array(all) => {
            for (at, value) in all.iter().enumerate() {
                forms(&format!("{path}/{at}"), value, found);
            }
        }
        _ => {}
    }
}

/// Whether these are counts by reason, and no struct of that name.
fn is_counts(fields: &Map<String, Value>) -> bool {
    !["entered", "loss", "compared"]
        .iter()
        .any(|name| fields.contains_key(*name))
}

fn read(value: &Value) -> Result<Manifest, ManifestError> {
    Manifest::from_json(&value.to_string())
}

#[test]
fn every_certificate_survives_its_text() {
    for manifest in all() {
        let again = Manifest::from_json(&manifest.to_json()).expect("readable");
        assert_eq!(again, manifest);
    }
    assert_eq!(of::<Link>(&all()[0]), Some(link()));
    assert_eq!(of::<Load>(&all()[0]), None);
    assert_eq!(of::<Load>(&all()[2]), Some(load()));
}

#[test]
fn a_field_that_is_unknown_or_missing_is_named() {
    let mut tried = 0;
    for manifest in all() {
        let value = serde_json::to_value(&manifest).expect("JSON");
        let mut found = Vec::new();
        forms("", &value["certificate"], &mut found);
        for path in found {
            let at = format!("/certificate{path}");
            let fields = |value: &mut Value, change: &dyn Fn(&mut Map<String, Value>)| {
                let form = value.pointer_mut(&at).and_then(Value::as_object_mut);
                change(form.expect("a form"));
            };
            let mut more = value.clone();
            fields(&mut more, &|form| {
                form.insert("unheard_of".to_owned(), json!(1));
            });
            let error = read(&more).expect_err(&at).to_string();
            assert!(error.contains("unheard_of: version"), "{at}: {error}");
            let mut list = value.clone();
            let form = list.pointer_mut(&at).expect("a form");
            *form = form
                .as_object()
                .expect("a form")
                .values()
                .cloned()
                .collect();
            read(&list).expect_err(&at);
            let names: Vec<String> = { value.pointer(&at).and_then(Value::as_object) }
                .map(|form| form.keys().cloned().collect())
                .unwrap_or_default();
            for name in names {
                let mut less = value.clone();
                let mut renamed = value.clone();
                fields(&mut renamed, &|form| {
                    let value = form.shift_remove(&name).expect("there");
                    form.insert(format!("{name}_too"), value);
                });
                let error = read(&renamed).expect_err(&name).to_string();
                let is_named = error.contains(&format!("{name}_too: version"))
                    || error.contains(&format!("missing field `{name}`"));
                assert!(is_named, "{at}: {error}");
                fields(&mut less, &|form| {
                    form.shift_remove(&name);
                });
                // What is written only if it is there may be missing.
                match read(&less) {
                    Err(error) => {
                        let error = error.to_string();
                        let is_named = error.contains(&format!("{name}: the field is missing"))
                            || error.contains(&format!("missing field `{name}`"));
                        assert!(is_named, "{at}: {error}");
                        tried += 1;
                    }
                    Ok(_) => assert!(MAY_LACK.contains(&&*name), "{at}/{name}"),
                }
            }
        }
    }
    assert!(tried > 200, "{tried}");
}

/// Fields that are absent if there is nothing to write.
const MAY_LACK: [&str; 13] = [
    "changes",
    "clock_steps",
    "core",
    "firings",
    "firings_unlisted",
    "gone",
    "loop",
    "machine",
    "marks",
    "matches",
    "path",
    "steps",
    "why",
];

#[test]
fn a_version_decides_what_may_be_missing_or_more() {
    let manifest = manifest(Role::Load, load());
    let mut value = serde_json::to_value(&manifest).expect("JSON");
    let certificate = value["certificate"].as_object_mut().expect("fields");
    certificate.shift_remove("drift");
    value["schema_version"] = json!("2.4");
    let older = read(&value).expect("as the version before wrote it");
    assert_eq!(of::<Load>(&older), Some(load()));
    value["schema_version"] = json!(SCHEMA_VERSION);
    let error = read(&value).expect_err("this version writes it");
    assert_eq!(error.to_string(), "certificate.drift: the field is missing");
    value["certificate"]["drift"] = Value::Null;
    value["certificate"]["seconds"][0]["jitter_ns"] = json!(5);
    value["schema_version"] = json!("2.999");
    let newer = read(&value).expect("of a newer minor version");
    assert_eq!(newer.passed_over, ["certificate.seconds[0].jitter_ns"]);
    assert_eq!(of::<Load>(&newer), Some(load()));
}
