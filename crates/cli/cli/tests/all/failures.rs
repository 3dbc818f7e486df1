//! Findings about what fails, in captures of few calls made for them.

use lineside_analyze::{Filter, Finding, Report, report};
use lineside_rows::Table;
use tempfile::TempDir;

use crate::generated::{Capture, Xdr};
use crate::support::records;

const PORTMAP: [u32; 3] = [100_000, 2, 3];
const MOUNT: [u32; 3] = [100_005, 3, 1];
const NFS: u32 = 100_003;
const GETATTR: [u32; 3] = [NFS, 3, 1];
const READDIR: [u32; 3] = [NFS, 3, 16];
const COMPOUND: [u32; 3] = [NFS, 4, 1];
const NLM_LOCK: [u32; 3] = [100_021, 4, 2];

/// The begin of an accepted reply: no verifier, SUCCESS.
fn accepted() -> Xdr {
    Xdr::words(&[0, 0, 0, 0])
}

fn handle() -> Xdr {
    Xdr::default().bytes(b"handle-1")
}

fn reported(folder: &TempDir) -> Report {
    report(&folder.path().join("trace"), &Filter::default()).expect("a trace")
}

/// The one finding of a kind.
fn only(report: &Report, kind: &str) -> Finding {
    let found = report
        .findings
        .iter()
        .filter(|finding| finding.kind == kind);
    let found: Vec<_> = found.collect();
    assert_eq!(found.len(), 1, "{kind}: {:#?}", report.findings);
    found[0].clone()
}

fn kinds(report: &Report) -> Vec<&'static str> {
    report.findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn a_port_that_is_not_registered_is_found() {
    let asks = |program: u32, ports: [u32; 2]| {
        let mut capture = Capture::new();
        for (protocol, port) in [6, 17].into_iter().zip(ports) {
            let arguments = Xdr::words(&[program, 3, protocol, 0]);
            capture.call(10, PORTMAP, &arguments, Some(&accepted().and(&[port])));
        }
        reported(&capture.traced())
    };
    let report = asks(100_005, [0, 0]);
    let found = report
        .findings
        .iter()
        .find(|each| each.kind == "not_registered");
    let found = found.expect("a finding");
    assert!(
        found.what.contains("mount version 3 over tcp"),
        "{found:#?}"
    );
    assert!(
        found.failed && found.what.contains("198.51.100.20"),
        "{found:#?}"
    );
    // Another transport has a port, and nobody needs quotas.
    assert_eq!(kinds(&asks(100_005, [20_048, 0])), Vec::<&str>::new());
    assert_eq!(kinds(&asks(100_011, [0, 0])), Vec::<&str>::new());
}

#[test]
fn a_refused_mount_says_why() {
    let mut capture = Capture::new();
    let path = Xdr::default().bytes(b"/export");
    capture.call(10, MOUNT, &path, Some(&accepted().and(&[13])));
    let found = only(&reported(&capture.traced()), "errors");
    assert!(
        found.what.contains("1 of 1 MNT calls fails with ACCES"),
        "{found:#?}"
    );
    assert!(found.advice.contains("export list"), "{found:#?}");
}

#[test]
fn reasons_of_refusals_are_kept_and_shown() {
    let mut capture = Capture::new();
    // MSG_DENIED, AUTH_ERROR, AUTH_TOOWEAK; then PROG_MISMATCH, 3 to 3.
    capture.call(10, GETATTR, &handle(), Some(&Xdr::words(&[1, 1, 5])));
    let mismatch = Xdr::words(&[0, 0, 0, 2, 3, 3]);
    capture.call(10, [NFS, 4, 0], &Xdr::default(), Some(&mismatch));
    let folder = capture.traced();
    let rows = records(&folder.path().join("trace"), Table::Services);
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].text("auth_error"), Some("AUTH_TOOWEAK"));
    let versions = ["version_min", "version_max"].map(|name| rows[1].integer(name));
    assert_eq!(versions, [Some(3), Some(3)]);
    let all = reported(&folder);
    let what: Vec<_> = all.findings.iter().map(|each| each.what.as_str()).collect();
    assert!(
        what.iter().any(|what| what.contains("AUTH_TOOWEAK")),
        "{what:?}"
    );
    assert!(
        what.iter().any(|what| what.contains("has version 3 ")),
        "{what:?}"
    );
}

#[test]
fn three_failures_of_five_are_found_and_searches_are_not() {
    let fails = |status: u32, failures: usize| {
        let mut capture = Capture::new();
        for call in 0..5 {
            // Without attributes, then with all of them zero.
            let reply = match call < failures {
                true => accepted().and(&[status]),
                false => accepted().and(&[0; 22]),
            };
            capture.call(10, GETATTR, &handle(), Some(&reply));
        }
        kinds(&reported(&capture.traced()))
    };
    assert_eq!(fails(13, 3), ["errors"]);
    assert_eq!(fails(70, 3), ["stale"]);
    assert_eq!(fails(2, 3), Vec::<&str>::new());
    assert_eq!(fails(13, 0), Vec::<&str>::new());
}

#[test]
fn a_directory_that_never_ends_is_found() {
    let lists = |ends: bool| {
        let mut capture = Capture::new();
        for _ in 0..12 {
            for cookie in [0, 10, 20] {
                let arguments = handle().and(&[0, cookie, 0, 0, 4_096]);
                // No attributes, a verifier, one entry, and whether it is the last.
                let entry = Xdr::words(&[1, 0, 7]).bytes(b"name").and(&[0, cookie + 10]);
                let is_end = u32::from(ends && cookie == 20);
                let reply = accepted().and(&[0, 0, 0, 0]).join(&entry).and(&[0, is_end]);
                capture.call(10, READDIR, &arguments, Some(&reply));
            }
        }
        reported(&capture.traced())
    };
    let found = only(&lists(false), "readdir_loop");
    assert!(found.what.contains("up to 12 times"), "{found:#?}");
    assert_eq!(kinds(&lists(true)), Vec::<&str>::new());
}

#[test]
fn a_lock_that_waits_is_found() {
    let locks = |wait_ms: u64| {
        let mut capture = Capture::new();
        let lock = Xdr::default()
            .bytes(b"1")
            .and(&[1, 1])
            .bytes(b"host")
            .join(&handle());
        let lock = lock.bytes(b"owner").and(&[7, 0, 0, 0, 1, 0, 0]);
        for status in [3, 0] {
            let reply = accepted().bytes(b"1").and(&[status]);
            capture.call(10, NLM_LOCK, &lock, Some(&reply));
            capture.wait_ms(wait_ms);
        }
        reported(&capture.traced())
    };
    let found = only(&locks(30_000), "lock_wait");
    assert_eq!((found.who.as_str(), found.failed), ("192.0.2.10", true));
    assert!(found.what.contains("30.0 s"), "{found:#?}");
    assert_eq!(kinds(&locks(5)), Vec::<&str>::new());
}

#[test]
fn state_ids_that_the_server_does_not_know_are_kept_and_found() {
    let mut capture = Capture::new();
    let stateid = [1, 2, 3, 4];
    // No tag, minor version 1, TEST_STATEID of two.
    let call = Xdr::words(&[0, 1, 1, 55, 2]).and(&stateid).and(&stateid);
    let reply = accepted().and(&[0, 0, 1, 55, 0, 2, 10_025, 0]);
    capture.call(10, COMPOUND, &call, Some(&reply));
    let folder = capture.traced();
    let rows = records(&folder.path().join("trace"), Table::Nfs4);
    let statuses: Vec<_> = rows
        .iter()
        .filter_map(|row| row.text("stateid_statuses"))
        .collect();
    assert_eq!(statuses, ["NFS4ERR_BAD_STATEID,NFS4_OK"]);
    capture.call(
        10,
        COMPOUND,
        &call,
        Some(&accepted().and(&[0, 0, 1, 55, 0, 2, 10_025, 10_025])),
    );
    let found = only(&reported(&capture.traced()), "unknown_states");
    assert!(
        found.what.contains("3 of 4") && found.what.contains("BAD_STATEID"),
        "{found:#?}"
    );
}

#[test]
fn two_clients_with_one_name_are_no_restart() {
    let names = |clients: &[u8], verifiers: [u32; 2], ids: [u32; 2]| {
        let mut capture = Capture::new();
        for (turn, &client) in clients.iter().enumerate() {
            let which = usize::from(client != clients[0]);
            let call = Xdr::words(&[0, 1, 1, 42, 0, verifiers[which]]);
            let call = call.bytes(b"Linux NFSv4.2 clone").and(&[0, 0, 0]);
            let id = ids[which] + 2 * turn as u32 * u32::from(ids[0] != ids[1]);
            // Flags, no state protection, the server's owner and scope, no implementation.
            let reply = accepted().and(&[0, 0, 1, 42, 0, 0, id, 1, 0, 0, 0, 0]);
            let reply = reply.bytes(b"s").bytes(b"s").and(&[0]);
            capture.call(client, COMPOUND, &call, Some(&reply));
        }
        reported(&capture.traced())
    };
    let found = only(
        &names(&[10, 11, 10, 11], [1, 2], [5, 6]),
        "same_client_name",
    );
    assert!(found.evidence.contains("Linux NFSv4.2 clone"), "{found:#?}");
    // One client with two addresses, and one that moved.
    assert_eq!(
        kinds(&names(&[10, 11, 10, 11], [1, 1], [5, 5])),
        Vec::<&str>::new()
    );
    assert_eq!(
        kinds(&names(&[10, 11, 11, 11], [1, 2], [5, 6])),
        Vec::<&str>::new()
    );
}

#[test]
fn a_server_that_ends_its_replies_early_is_named() {
    let mut capture = Capture::new();
    for _ in 0..3 {
        // ACCESS fails, and the attributes that follow the status are missing.
        let reply = accepted().and(&[13]);
        capture.call(10, [NFS, 3, 4], &handle().and(&[1]), Some(&reply));
    }
    let all = reported(&capture.traced());
    let verdict = all.missing.verdict.map(|state| format!("{state:?}"));
    assert_eq!(
        verdict.as_deref(),
        Some("Incomplete"),
        "{:?}",
        all.missing.reasons
    );
    assert_eq!(only(&all, "short_replies").who, "198.51.100.20");
}
