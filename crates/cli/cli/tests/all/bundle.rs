//! `bundle`: nothing of what a run saw is in it, wherever `trace.json` holds it.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::{Map, Value};
use tempfile::TempDir;

use crate::support::{example, lineside, talk};

/// Texts that tell something, each in a form of its own.
const SECRETS: [&str; 16] = [
    "203.0.113.77",
    "203.0.113.78:2049",
    "2001:db8:77::1",
    "[2001:db8:77::2]:111",
    "02:00:5e:77:77:77",
    "198.51.100.0/24",
    "/srv/Zorkmid/plan.pcap",
    "zorkmid",
    "zorkmid.example.com",
    "nfs-server-zorkmid",
    "zorkmid@host",
    "--token=zorkmid",
    "0177feedfacecafe",
    "77feedfacecafe77",
    "7777777777",
    "zörkmid",
];
/// What must not be in the bytes, in any letter case.
const TELLTALES: [&str; 12] = [
    "203.0.113.7",
    "2001:db8:77",
    "02:00:5e:77",
    "198.51.100",
    "zorkmid",
    "zörkmid",
    "plan.pcap",
    "feedface",
    "77777777",
    "token=",
    "@host",
    "example.com",
];

/// Every text becomes a sentence with a secret in it, and every object gets keys that are secrets.
fn planted(value: &Value, next: &mut usize) -> Value {
    let mut secret = || {
        *next += 1;
        SECRETS[*next % SECRETS.len()]
    };
    match value {
        Value::String(text) => {
            let (one, two) = (secret(), secret());
            match *next % 3 {
                0 => one.into(),
                1 => format!("{text} of '{one}' ({two}), {text}").into(),
                _ => format!("frames {one}: {text}").into(),
            }
        }
        Value::Array(values) => {
            let mut all: Vec<Value> = values.iter().map(|each| planted(each, next)).collect();
            *next += 1;
            all.push(SECRETS[*next % SECRETS.len()].into());
            all.into()
        }
        Value::Object(fields) => {
            let key = secret().to_owned();
            let mut all: Map<String, Value> = { fields.iter() }
                .map(|(name, value)| (name.clone(), planted(value, next)))
                .collect();
            all.insert(key, 7.into());
            all.into()
        }
        other => other.clone(),
    }
}

fn traced() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let output = lineside()
        .args(["capture", "-q", "-o", "zorkmid-run"])
        .arg(example())
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", talk(&output));
    folder
}

fn bundle(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = lineside();
    let output = command
        .args(["bundle", "zorkmid-run"])
        .args(arguments)
        .current_dir(folder)
        .output();
    output.expect("it runs")
}

/// A file of the archive, by tar(1).
fn file_of(folder: &Path, archive: &str, name: &str) -> String {
    let output = std::process::Command::new("tar")
        .args(["-xOf", archive, name])
        .current_dir(folder)
        .output()
        .expect("tar runs");
    assert!(output.status.success(), "{}", talk(&output));
    String::from_utf8(output.stdout).expect("text")
}

fn assert_tells_nothing(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    for telltale in TELLTALES {
        let at = text.find(telltale);
        let around = at.map(|at| text.get(at.saturating_sub(60)..at + 40));
        assert!(at.is_none(), "{telltale} stands in the bundle: {around:?}");
    }
}

#[test]
fn a_bundle_holds_no_secret_planted_in_a_trace() {
    let folder = traced();
    let at = |name: &str| folder.path().join(name);
    let json = at("zorkmid-run/trace.json");
    let manifest: Value =
        serde_json::from_str(&fs::read_to_string(&json).expect("there")).expect("JSON");
    for start in 0..SECRETS.len() {
        let mut next = start;
        let full = planted(&manifest, &mut next);
        assert!(next > 200, "{next} places are few");
        fs::write(&json, full.to_string()).expect("written");
        fs::write(
            at("zorkmid-run/zorkmid.log"),
            SECRETS
                .map(|secret| format!("lost {secret} at frames\n"))
                .concat(),
        )
        .expect("written");
        fs::create_dir_all(at("zorkmid-run/monitor_zorkmid")).expect("made");
        fs::write(at("zorkmid-run/monitor_zorkmid/zorkmid.parquet"), "zorkmid").expect("written");
        let output = bundle(folder.path(), &["-o", "out.tar"]);
        assert!(output.status.success(), "{}", talk(&output));
        let message = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(message.contains("different addresses"), "{message}");
        assert_tells_nothing(&fs::read(at("out.tar")).expect("there"));
        fs::remove_file(at("out.tar")).expect("there");
    }
}

#[test]
fn a_bundle_stays_readable_without_names() {
    let folder = traced();
    let output = bundle(folder.path(), &[]);
    assert!(output.status.success(), "{}", talk(&output));
    let read = |name: &str| {
        let text = file_of(
            folder.path(),
            "lineside-bundle.tar",
            &format!("lineside-bundle/{name}"),
        );
        serde_json::from_str::<Value>(&text).expect("JSON")
    };
    let (trace, tables) = (read("trace.json"), read("tables.json"));
    assert_eq!(trace["tool"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(trace["verdict"]["state"], "complete");
    assert!(
        !trace["counters"].to_string().contains("name-"),
        "{}",
        trace["counters"]
    );
    assert_eq!(trace["configuration"]["capture"]["late_window"], "2ms");
    assert!(
        tables["operations"]["rows"]
            .as_u64()
            .is_some_and(|rows| rows > 0)
    );
    let columns = tables["operations"]["columns"].to_string();
    assert!(columns.contains("call_time_ns"), "{columns}");
    assert!(!tables.to_string().contains("name-"), "{tables}");
    let about = read("about.json");
    assert_eq!(about["names_kept"], false);
    assert!(
        about["replaced"]["name"]
            .as_u64()
            .is_some_and(|count| count > 0)
    );
    let examined = read("doctor.json");
    assert!(
        examined["findings"]
            .as_array()
            .is_some_and(|all| all.len() > 8)
    );
    let bytes = fs::read(folder.path().join("lineside-bundle.tar")).expect("there");
    let text = String::from_utf8_lossy(&bytes);
    let here = example();
    let file = here
        .file_name()
        .and_then(|name| name.to_str())
        .expect("text");
    assert!(!text.contains(file), "the name of the input stands in it");
}

#[test]
fn a_bundle_replaces_no_file_and_says_what_it_gives_away() {
    let folder = traced();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("mine.tar"), "mine").expect("written");
    let output = bundle(folder.path(), &["-o", "mine.tar"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        talk(&output).contains("exists already"),
        "{}",
        talk(&output)
    );
    // A link that leads nowhere is not followed either.
    std::os::unix::fs::symlink(at("elsewhere"), at("link.tar")).expect("made");
    let output = bundle(folder.path(), &["-o", "link.tar"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!at("elsewhere").exists());
    assert_eq!(fs::read(at("mine.tar")).expect("there"), b"mine");

    let output = bundle(
        folder.path(),
        &["-o", "all.tar", "--with-names", "--with-tables"],
    );
    let message = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        message.contains("every address, user, file name and handle"),
        "{message}"
    );
    let trace = file_of(folder.path(), "all.tar", "lineside-bundle/trace.json");
    assert!(trace.contains("nfs-mix.pcapng.zst"));
    let listed = std::process::Command::new("tar")
        .args(["-tf", "all.tar"])
        .current_dir(folder.path())
        .output()
        .expect("tar runs");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(
        listed.contains("lineside-bundle/tables/operations/"),
        "{listed}"
    );

    let output = lineside()
        .args(["bundle", "nothing"])
        .current_dir(folder.path())
        .output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        talk(&output).contains("give the folder that a run left"),
        "{}",
        talk(&output)
    );
}
