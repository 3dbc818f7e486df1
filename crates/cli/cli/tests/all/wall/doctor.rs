//! `doctor` on machines made for it: without /sys and /proc, and with interfaces of its own.

use std::process::Command;

use lineside_run::doctor::Condition;

use crate::doctor::{found, state};
use crate::wall::wire::{Namespace, need_wire};

#[test]
fn doctor_comes_to_its_end_without_sys_and_proc() {
    need_wire!("unshare");
    let hide = "mount -t tmpfs none /sys && mount -t tmpfs none /proc && exec \"$0\" doctor --json";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", hide, env!("CARGO_BIN_EXE_lineside")])
        .output()
        .expect("unshare runs");
    let doctor = found(&output);
    assert_eq!(state(&doctor, "clock_source"), Condition::Unknown);
    assert_eq!(state(&doctor, "steal"), Condition::Unknown);
    assert_eq!(state(&doctor, "memory"), Condition::Unknown);
}

#[test]
fn doctor_says_how_each_interface_is_captured() {
    need_wire!("ip");
    let namespace = Namespace::new("doctor");
    let doctor_of = |names: &str| {
        let mut command = namespace.command(env!("CARGO_BIN_EXE_lineside"));
        let output = command.args(["doctor", "--json", "-i", names]).output();
        let output = output.expect("it runs");
        (output.status.code(), found(&output))
    };
    namespace.ip("link add here type veth peer name there");
    let (status, doctor) = doctor_of("here");
    assert_eq!(
        (status, state(&doctor, "interface")),
        (Some(1), Condition::Missing)
    );
    namespace.ip("link set here up");
    namespace.ip("link set there up");
    let (status, doctor) = doctor_of("here,nowhere");
    assert_eq!(status, Some(0));
    let of = |what: &str, name: &str| {
        let mut each = doctor.findings.iter();
        let finding =
            each.find(|finding| finding.what == what && finding.interface.as_deref() == Some(name));
        finding
            .unwrap_or_else(|| panic!("no {what} of {name}"))
            .clone()
    };
    let here = of("interface", "here");
    assert!(here.found.contains("AF_XDP native"), "{here:?}");
    assert!(of("stamps", "here").found.contains("software"));
    assert_eq!(of("interface", "nowhere").state, Condition::Missing);
    // An address is the host's own use of it.
    namespace.ip("addr add 192.0.2.1/24 dev here");
    let (_, doctor) = doctor_of("here");
    let here = { doctor.findings.iter() }.find(|finding| finding.what == "interface");
    assert!(here.is_some_and(|here| here.found.starts_with("AF_PACKET")));
}
