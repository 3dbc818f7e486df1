//! `doctor`: what it says is of its schema, and it comes to its end wherever it runs.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use lineside_run::doctor::{Condition, Doctor};
use lineside_testkit::programs::install;
use serde_json::Value;

use crate::report::{check, publish};
use crate::support::{lineside, open_folder, talk};

fn schema() -> Value {
    serde_json::to_value(schemars::schema_for!(Doctor)).expect("JSON")
}

#[test]
fn the_published_schema_of_doctor_is_that_of_the_code() {
    publish("doctor", &schema());
}

pub(crate) fn found(output: &Output) -> Doctor {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!talk(output).contains("panicked"), "{}", talk(output));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{}", talk(output)))
}

pub(crate) fn state(doctor: &Doctor, what: &str) -> Condition {
    let finding = doctor.findings.iter().find(|finding| finding.what == what);
    finding.unwrap_or_else(|| panic!("no {what}")).state
}

#[test]
fn the_json_of_doctor_is_as_its_schema_says() {
    let output = lineside().args(["doctor", "--json", "-o", "."]).output();
    let output = output.expect("it runs");
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let schema = schema();
    let mut wrong = Vec::new();
    check(&value, &schema, &schema, "doctor", &mut wrong);
    assert!(wrong.is_empty(), "{wrong:?}");
    let doctor = found(&output);
    assert_eq!(output.status.success(), doctor.can_capture);
    assert!(doctor.wake.samples > 50 && doctor.wake.p50_ns <= doctor.wake.p99_ns);
    for finding in &doctor.findings {
        let is_amiss = matches!(finding.state, Condition::Limited | Condition::Missing);
        let says = !finding.found.is_empty() && !finding.effect.is_empty();
        assert!(says && (!is_amiss || finding.remedy.is_some() || finding.what == "clock_source"));
    }
    let disk = doctor
        .findings
        .iter()
        .find(|finding| finding.what == "disk");
    assert!(disk.is_some_and(|disk| disk.figures["free_bytes"] > 0));
}

#[test]
fn doctor_names_the_remedy_to_who_has_no_privilege() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP: privileges are given up by root alone");
        return;
    }
    // The program where anybody may execute it.
    let folder = open_folder();
    let program = folder.path().join("lineside");
    install(env!("CARGO_BIN_EXE_lineside").as_ref(), &program);
    let output = Command::new(&program)
        .args(["doctor", "--json"])
        .current_dir("/")
        .uid(65_534)
        .gid(65_534)
        .output()
        .expect("it runs");
    let doctor = found(&output);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(state(&doctor, "af_packet"), Condition::Missing);
    let packets = { doctor.findings.iter() }.find(|finding| finding.what == "af_packet");
    let remedy = packets.and_then(|finding| finding.remedy.as_deref());
    assert!(
        remedy.is_some_and(|remedy| remedy.contains("setcap cap_net_raw")),
        "{remedy:?}"
    );
}

#[test]
fn the_table_of_doctor_fits_a_terminal_for_the_most_part() {
    let output = lineside()
        .arg("doctor")
        .current_dir(Path::new("/"))
        .output();
    let text = String::from_utf8(output.expect("it runs").stdout).expect("text");
    for what in [
        "clock source",
        "steal",
        "af packet",
        "landlock",
        "cores",
        "wake",
    ] {
        assert!(text.contains(what), "no {what}: {text}");
    }
}
