//! `--cores`: the same trace, statistics of the actors, and refused settings.

use std::collections::HashMap;
use std::path::Path;
use std::process::Output;

use lineside_rows::Table;
use lineside_trace::TrafficFacts;

use crate::support::{counters, example, lineside, manifest, records, sorted, talk};

fn run(out: &Path, options: &[&str]) -> Output {
    lineside()
        .arg("capture")
        .arg(example())
        .args(["--packets", "-q", "-o"])
        .arg(out)
        .args(options)
        .output()
        .expect("lineside runs")
}

fn has_two() -> bool {
    let has = std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
    if !has {
        println!("SKIP: several cores need two");
    }
    has
}

#[test]
fn two_cores_write_the_same_trace() {
    if !has_two() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    assert!(run(&one, &[]).status.success());
    let pinned = ["--cores", "2", "--scheduler", "pinned", "--placement"];
    let pinned = [&pinned[..], &["encoder-rest=0,pipeline-0=1", "--stats"]].concat();
    for options in [&["--cores", "2", "--stats"][..], &pinned] {
        let output = run(&two, &[options, &["--force"]].concat());
        assert!(output.status.success(), "{}", talk(&output));
        // Without monitors there are none of their tables.
        for &table in Table::ALL
            .iter()
            .filter(|table| !Table::MONITORS.contains(table))
        {
            let (mine, theirs) = (records(&two, table), records(&one, table));
            assert!(sorted(&mine) == sorted(&theirs), "{}", table.name());
        }
        let (mine, theirs) = (manifest(&two), manifest(&one));
        assert_eq!(mine.verdict, theirs.verdict);
        assert_eq!(mine.clocks, theirs.clocks);
        assert_eq!(mine.counters, theirs.counters);
        assert_eq!(counters(&mine).broken_identity(), None);
        assert_eq!(theirs.runtime, None, "one core needs no actors");
        let runtime = mine.runtime.expect("actors ran");
        assert_eq!(runtime.schedulers.len(), 2);
        let handled: u64 = runtime.schedulers.iter().map(|each| each.messages).sum();
        let by_actors: u64 = runtime.actors.iter().map(|each| each.messages).sum();
        assert!(handled > 0 && handled == by_actors);
        let messages = talk(&output);
        for what in ["actors ", "idle", "pipeline-1", "encoder-checksums"] {
            assert!(messages.contains(what), "{messages}");
        }
        if runtime.scheduler == "pinned" {
            let home = |name| runtime.actors.iter().find(|each| each.name == name);
            assert_eq!(home("pipeline-0").map(|actor| actor.home), Some(1));
            assert_eq!(home("pipeline-1").map(|actor| actor.home), Some(1));
            assert_eq!(home("encoder-rest").map(|actor| actor.home), Some(0));
        }
    }
    // The output is a valid configuration.
    let again = folder.path().join("again");
    let output = lineside()
        .args(["capture", "-q", "--config"])
        .arg(two.join("trace.json"))
        .arg("-o")
        .arg(&again)
        .output()
        .expect("lineside runs");
    assert!(output.status.success(), "{}", talk(&output));
    let runtime = manifest(&again).runtime.expect("several cores again");
    assert_eq!(runtime.scheduler, "pinned");
}

#[test]
fn counted_messages_place_heavy_pairs_on_one_core() {
    if !has_two() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    assert!(run(&first, &["--cores", "2"]).status.success());
    let mut counted = manifest(&first);
    let runtime = counted.runtime.as_mut().expect("actors ran");
    let batches = |pair: &&TrafficFacts| pair.from.starts_with("pipeline");
    let batches: u64 = runtime
        .traffic
        .iter()
        .filter(batches)
        .map(|pair| pair.messages)
        .sum();
    let pair = |pair: &&TrafficFacts| pair.from == "encoder-operations";
    let pair = runtime.traffic.iter().find(pair).expect("counted");
    assert!(batches > 0 && pair.to == "encoder-checksums", "{runtime:?}");
    assert_eq!(
        pair.messages, batches,
        "each batch goes from encoder to encoder"
    );

    // Had pipeline-1 and encoder-rest talked most, that pair would share a core: by default it does
    // not.
    for pair in &mut runtime.traffic {
        pair.messages = 1;
        if pair.from == "pipeline-1" {
            (pair.to, pair.messages) = ("encoder-rest".to_owned(), 1_000);
        }
    }
    std::fs::write(first.join("trace.json"), counted.to_json()).expect("written");
    let pinned = ["--cores", "2", "--scheduler", "pinned", "--placement"];
    let homes = |words: &str| {
        let output = run(&second, &[&pinned[..], &[words, "--force"]].concat());
        assert!(output.status.success(), "{}", talk(&output));
        let ran = manifest(&second);
        let homes: HashMap<_, _> = (ran.runtime.expect("actors ran").actors.into_iter())
            .map(|actor| (actor.name, actor.home))
            .collect();
        (homes, ran.configuration["capture"]["placement"].to_string())
    };
    let by_traffic = format!("traffic:{}", first.display());
    let (home, configured) = homes(&by_traffic);
    assert_eq!(home["pipeline-1"], home["encoder-rest"], "{home:?}");
    assert!(configured.contains("pipeline-1="), "{configured}");
    assert!(!configured.contains("traffic"), "{configured}");
    // Other messages go above it.
    let other = 1 - home["encoder-rest"];
    let (home, _) = homes(&format!("{by_traffic},encoder-rest={other}"));
    assert_eq!(home["encoder-rest"], other);
}

#[test]
fn impossible_runs_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("trace");
    let alone = folder.path().join("alone");
    assert!(run(&alone, &[]).status.success());
    let on_one = format!("traffic:{}", alone.display());
    let cases: [(&[&str], &str); 11] = [
        (&["--cores", "0"], "cores: 0"),
        (&["--cores", "9999"], "or fewer"),
        (&["--scheduler", "pined"], "nearest known one is pinned"),
        (&["--placement", "pipeline-0=0"], "add --scheduler pinned"),
        (&["--placement", "pipeline-0"], "no ACTOR=CORE"),
        (&["--placement", "pipeline-0=one"], "no ACTOR=CORE"),
        (&["--placement", "pipeline-0=1"], "from 0 to 0"),
        (&["--placement", "checksum-0=0"], "one is checksums-0"),
        (&["--placement", "trafic:run"], "no traffic:TRACE"),
        (&["--placement", "traffic:no-run"], "no-run/trace.json"),
        (&["--placement", &on_one], "give a run that had --cores 2"),
    ];
    for (at, (options, expected)) in cases.into_iter().enumerate() {
        let pinned: &[&str] = if at > 3 {
            &["--scheduler", "pinned"]
        } else {
            &[]
        };
        let output = run(&out, &[options, pinned].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        let messages = talk(&output);
        assert!(messages.contains(expected), "{options:?}: {messages}");
        assert!(!out.exists());
    }
}
