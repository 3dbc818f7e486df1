//! `lineside predict`: its figures, and what it refuses.

use lineside_trace::read::Value;
use serde_json::Value as Json;
use tempfile::TempDir;

use crate::plan::rows;
use crate::report::{check, printed, run, traced};
use crate::support::{example, repository, talk};

const MS: i64 = 1_000_000;

fn predicted(folder: &TempDir, words: &[&str]) -> Json {
    let all = [&["predict", "trace", "--json"], words].concat();
    serde_json::from_str(&printed(&run(folder, &all))).expect("JSON")
}

fn integer(value: &Json) -> i64 {
    value.as_i64().expect("an integer")
}

/// The figure of all calls of a point.
fn of_all(point: &Json) -> &Json {
    let figures = point["figures"].as_array().expect("a list");
    let all = figures.iter().find(|figure| figure["operation"].is_null());
    all.expect("a figure of all")
}

#[test]
fn a_longer_way_takes_longer_by_its_round_trips() {
    let folder = traced(&example());
    let found = predicted(&folder, &["--delay", "0ms, 1ms, 20ms"]);
    let plan = printed(&run(&folder, &["plan", "trace", "--json"]));
    let plan: Json = serde_json::from_str(&plan).expect("JSON");
    assert_eq!(found["calls"], plan["calls"], "without openings");
    let points = found["points"].as_array().expect("a list");
    let delays: Vec<_> = points.iter().map(|point| &point["axes"]["delay"]).collect();
    assert_eq!(delays, ["0ms", "1ms", "20ms"]);
    for (point, delay) in points.iter().zip([0, 1, 20]) {
        assert_eq!(point["unfinished"], 0);
        let p50 = integer(&of_all(point)["p50_ns"]);
        assert!(p50 >= 2 * delay * MS, "{p50}");
    }
    let elapsed: Vec<_> = points
        .iter()
        .map(|point| integer(&point["elapsed_ns"]))
        .collect();
    assert!(
        elapsed.is_sorted() && elapsed[2] > 2 * elapsed[0],
        "{elapsed:?}"
    );
    // Of each operation, those of its clients together.
    let figures = points[1]["figures"].as_array().expect("a list");
    let of = |wanted: &dyn Fn(&Json) -> bool| -> i64 {
        let chosen = figures.iter().filter(|figure| wanted(figure));
        chosen.map(|figure| integer(&figure["calls"])).sum()
    };
    let all = of(&|figure| figure["operation"].is_null());
    assert!(all > 100, "{all}");
    assert_eq!(
        of(&|figure| figure["client"].is_null() && !figure["operation"].is_null()),
        all
    );
    assert_eq!(of(&|figure| !figure["client"].is_null()), all);
    let text = printed(&run(&folder, &["predict", "trace", "--delay", "1ms"]));
    assert!(text.contains("What it leaves out"), "{text}");
}

#[test]
fn lists_make_a_grid_of_which_csv_has_each_figure() {
    let folder = traced(&example());
    let words = ["--delay", "1ms,5ms", "--rate", "100mbit,1gbit", "--csv"];
    let text = printed(&run(&folder, &[&["predict", "trace"], &words[..]].concat()));
    let mut lines = text.lines();
    let heading = lines.next().expect("a heading");
    assert_eq!(
        heading,
        "delay,rate,loss,limit,client,operation,metric,value"
    );
    let elapsed: Vec<_> = lines.filter(|line| line.contains(",elapsed_ns,")).collect();
    let begins: Vec<_> = elapsed.iter().map(|line| line.split(",,").next()).collect();
    let points = ["1ms,100mbit", "1ms,1gbit", "5ms,100mbit", "5ms,1gbit"];
    assert_eq!(begins, points.map(Some));
    assert_eq!(
        text,
        printed(&run(&folder, &[&["predict", "trace"], &words[..]].concat()))
    );
}

#[test]
fn what_is_drawn_is_drawn_more_than_once() {
    let folder = traced(&example());
    let found = predicted(&folder, &["--delay", "5ms", "--loss", "0%,2%"]);
    let [sure, drawn] = &found["points"].as_array().expect("a list")[..] else {
        panic!("two points: {found}");
    };
    let times = |point: &Json| {
        ["elapsed_least_ns", "elapsed_ns", "elapsed_most_ns"].map(|name| integer(&point[name]))
    };
    assert_eq!((&sure["draws"], &drawn["draws"]), (&1.into(), &5.into()));
    let of_sure = times(sure);
    assert!(
        of_sure.iter().all(|time| *time == of_sure[0]),
        "{of_sure:?}"
    );
    let of_drawn = times(drawn);
    assert!(
        of_drawn.is_sorted() && of_drawn[0] < of_drawn[2],
        "{of_drawn:?}"
    );
    // Each draw is that of its seed alone.
    let words = |seed: &'static str| {
        let words = [
            "--delay", "5ms", "--loss", "2%", "--draws", "1", "--seed", seed,
        ];
        integer(&predicted(&folder, &words)["points"][0]["elapsed_ns"])
    };
    let mut alone = ["1", "2", "3", "4", "5"].map(words);
    alone.sort_unstable();
    assert_eq!([alone[0], alone[2], alone[4]], of_drawn);
    let text = printed(&run(&folder, &["predict", "trace", "--loss", "0%,2%"]));
    assert!(text.contains("OF DRAWS"), "{text}");
}

#[test]
fn the_json_of_a_prediction_is_as_its_schema_says() {
    let schema = repository().join("docs/schema/predict.schema.json");
    let schema = std::fs::read(schema).expect("it is published");
    let schema = serde_json::from_slice(&schema).expect("JSON");
    let folder = traced(&example());
    let found = predicted(&folder, &["--delay", "1ms", "--loss", "1%"]);
    let mut wrong = Vec::new();
    check(&found, &schema, &schema, "predict", &mut wrong);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_folder_holds_the_points_that_csv_prints() {
    let folder = traced(&example());
    let words = [
        "predict", "trace", "--delay", "1ms,5ms", "--csv", "-o", "to",
    ];
    let csv = printed(&run(&folder, &words));
    let names: Vec<_> = csv.lines().next().expect("a header").split(',').collect();
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        Value::Integer(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    let rows = rows(&folder.path().join("to"), "points", &names);
    let rows: Vec<_> = { rows.iter() }
        .map(|row| row.iter().map(text).collect::<Vec<_>>().join(","))
        .collect();
    assert!(rows.len() > 20, "{rows:?}");
    assert_eq!(rows, csv.lines().skip(1).collect::<Vec<_>>());
    let facts = std::fs::read(folder.path().join("to/predict.json")).expect("it is there");
    let facts: Json = serde_json::from_slice(&facts).expect("JSON");
    assert_eq!(facts["points"].as_array().map(Vec::len), Some(2));
    // It replaces a prediction, when asked to, and nothing else.
    assert!(talk(&run(&folder, &words)).contains("--force to replace a prediction"));
    printed(&run(&folder, &[&words[..], &["--force"]].concat()));
    let trace = [&words[..6], &["trace", "--force"]].concat();
    assert!(talk(&run(&folder, &trace)).contains("it is no part of a prediction"));
}

#[test]
fn a_prediction_names_what_it_needs() {
    let folder = traced(&example());
    for (words, expected) in [
        (&[][..], "no network: name one, such as --delay 1ms,10ms"),
        (&["--delay", "5"], "delay '5', column 1: '5' is not a time"),
        (
            &["--delay", "match tcp: 5ms"],
            "predict has no frames to look at",
        ),
        (&["--delay", ""], "delay"),
    ] {
        let output = run(&folder, &[&["predict", "trace"], words].concat());
        assert!(!output.status.success(), "{words:?}");
        let text = talk(&output);
        assert!(text.contains(expected), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    let output = run(&folder, &["predict", ".", "--delay", "1ms"]);
    assert!(!output.status.success());
}

#[test]
fn a_prediction_has_a_page_as_a_lab_has() {
    let folder = traced(&example());
    let words = [
        "predict",
        "trace",
        "--delay",
        "0ms,5ms,20ms",
        "--rate",
        "10mbit,1gbit",
    ];
    printed(&run(&folder, &[&words[..], &["-o", "to"]].concat()));
    let page = printed(&run(&folder, &["report", "to", "--html", "-"]));
    for part in [
        "elapsed over delay and rate",
        "class=\"contour\"",
        "p99 over rate",
        "rate=10mbit: ",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let text = printed(&run(&folder, &["report", "to"]));
    let lines = text
        .lines()
        .filter(|line| line.contains("mbit") || line.contains("gbit"));
    assert_eq!(lines.count(), 6, "{text}");
    let refused = run(&folder, &["report", "to", "--json"]);
    assert_eq!(refused.status.code(), Some(2), "{}", talk(&refused));
    // What is no prediction is named.
    std::fs::write(folder.path().join("to/predict.json"), "{}").expect("written");
    let broken = run(&folder, &["report", "to", "--html", "-"]);
    assert_eq!(broken.status.code(), Some(1), "{}", talk(&broken));
    assert!(
        talk(&broken).contains("it is no prediction"),
        "{}",
        talk(&broken)
    );
}
