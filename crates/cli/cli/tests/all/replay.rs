//! `lineside replay`: what it refuses before it asks a server.

use lineside_trace::certificate::{Judged, replay::Replay};

use crate::report::{printed, publish, run, traced};
use crate::support::{example, talk};

/// The schema of what `--json` prints, and `trace.json` has.
#[test]
fn the_published_schema_of_a_replay_is_that_of_the_code() {
    let settings = schemars::generate::SchemaSettings::default().for_serialize();
    let generator = settings.into_generator();
    let schema = generator.into_root_schema_for::<Judged<Replay>>();
    publish("replay", &schema.to_value());
}

/// Nothing listens at this port of this host.
const NOWHERE: &str = "nfs://127.0.0.1:9/export/new";

fn refused(folder: &tempfile::TempDir, words: &[&str]) -> String {
    let output = run(folder, &[&["replay"], words].concat());
    assert!(!output.status.success(), "{words:?}");
    let text = talk(&output);
    assert_eq!(text.lines().count(), 1, "{words:?}: {text}");
    text
}

#[test]
fn a_replay_names_what_it_needs() {
    let folder = traced(&example());
    let cases = [
        (&["trace", "--to", NOWHERE, "--speed", "0"][..], "above 0"),
        (&["trace", "--to", NOWHERE, "--speed", "-1"], "above 0"),
        (&["trace", "--to", NOWHERE, "--speed", "NaN"], "above 0"),
        (&["trace", "--to", NOWHERE, "--speed", "inf"], "above 0"),
        (
            &["trace", "--to", NOWHERE, "--loop", "half"],
            "closed, open or fast",
        ),
        (
            &["trace", "--to", NOWHERE, "--loop", "fast", "--speed", "2"],
            "leave one of them out",
        ),
        (&["trace", "--to", NOWHERE, "--as", "root"], "1000:1000"),
        (
            &["trace", "--to", NOWHERE, "--clients", "x0"],
            "from 1 to 1000",
        ),
        (&["trace", "--to", NOWHERE, "--clients", "4"], "such as x4"),
        (
            &["trace", "--to", NOWHERE, "--clients", "x1001"],
            "from 1 to 1000",
        ),
        (
            &["trace", "--to", NOWHERE, "--operation", "REED"],
            "nearest that does is",
        ),
        (
            &["trace", "--to", NOWHERE, "--user", "4711"],
            "nearest that does is",
        ),
        (&["trace", "--to", "server:/x"], "nfs://SERVER/EXPORT/DIR"),
        (&["trace", "--to", "nfs://127.0.0.1"], "it has no path"),
        (&["trace", "--to", "nfs://127.0.0.1/a/../b"], "'..'"),
        (&["trace", "--to", NOWHERE], "no connection to "),
        (&["nfs-mix.pcapng.zst", "--to", NOWHERE], "capture it first"),
    ];
    for (words, wanted) in cases {
        let text = refused(&folder, words);
        assert!(text.contains(wanted), "{words:?}: {text}");
    }
}

#[test]
fn a_trace_that_is_not_whole_is_not_replayed() {
    for (table, is_lost) in [("nfs", true), ("checksums", false), ("operations", false)] {
        let folder = traced(&example());
        let parts = std::fs::read_dir(folder.path().join("trace").join(table));
        for part in parts.expect("a table") {
            let part = part.expect("a part").path();
            match is_lost {
                true => std::fs::remove_file(part).expect("removed"),
                false => std::fs::write(part, "no Parquet").expect("written"),
            }
        }
        let text = refused(&folder, &["trace", "--to", NOWHERE]);
        assert!(text.contains("make the trace anew"), "{table}: {text}");
    }
}

#[test]
fn a_trace_without_calls_or_replies_is_not_replayed() {
    let folder = traced(&example());
    let of = |filter: &str, name: &str| {
        let input = "nfs-mix.pcapng.zst";
        printed(&run(
            &folder,
            &["capture", input, "-q", "-f", filter, "-o", name],
        ));
        refused(&folder, &[name, "--to", NOWHERE])
    };
    assert!(of("dst port 2049", "calls").contains("has calls alone"));
    assert!(of("src port 2049", "replies").contains("has replies alone"));
    assert!(of("port 9", "nothing").contains("has no calls of NFS"));
}

/// Its rows are requests: what their replies named is not in them.
#[test]
fn the_run_of_a_load_is_not_replayed() {
    let folder = traced(&example());
    let trace = folder.path().join("trace");
    let path = trace.join("trace.json");
    let text = std::fs::read_to_string(&path).expect("it is there");
    let mut facts: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    facts["configuration"] = serde_json::json!({"load": {}});
    for table in ["nfs", "nfs4"] {
        facts["tables"]
            .as_object_mut()
            .expect("tables")
            .remove(table);
        std::fs::remove_dir_all(trace.join(table)).expect("removed");
    }
    std::fs::write(&path, facts.to_string()).expect("written");
    let text = refused(&folder, &["trace", "--to", NOWHERE]);
    assert!(
        text.contains("run of a load") && text.contains("capture"),
        "{text}"
    );
    // A plan has the times of its calls, and says what it lacks.
    let text = printed(&run(&folder, &["plan", "trace"]));
    assert!(text.contains("requests of a load"), "{text}");
}
