//! A client of NFSv4.1 that we did not write: a second nfs-ganesha whose files are the first one's
//! (FSAL PROXY_V4). It does many things at once, in slots of one session.

use std::collections::{BTreeMap, BTreeSet};

use lineside_testkit::tshark;
use lineside_trace::read::Value;

use crate::support::{Record, Trace, repository};
use crate::tshark::compare;
use crate::wall::lab::{Lab, nfs_drive};

#[test]
fn sessions_and_slots_of_a_foreign_client_are_tsharks() {
    let machine = std::env::consts::ARCH;
    let library = format!("/usr/lib/{machine}-linux-gnu/ganesha/libfsalproxy_v4.so");
    if !std::path::Path::new(&library).exists() {
        println!("SKIP: no second server: there is no {library} (nfs-ganesha-proxy-v4)");
        return;
    }
    let Some(lab) = Lab::up(&[]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("proxied.pcap");
    let proxy = repository().join("crates/test/nfs-lab/proxy");
    let drive = nfs_drive();
    let [proxy, drive] = [&proxy, &drive].map(|path| path.to_str().expect("a plain path"));
    let work = "--server 127.0.0.1 rand --file one --bytes 400000 --chunk 30000 --depth 8 \
                --operations 200";
    let client: Vec<&str> = [proxy, drive].into_iter().chain(work.split(' ')).collect();
    lab.record(&capture, &client);
    let trace = Trace::of(&capture, &[]);
    slots_count_one_by_one(&trace);
    if tshark::available() {
        let differences = compare(&capture, "proxied", &mut BTreeSet::new());
        assert!(differences.is_empty(), "{differences:#?}");
    } else {
        println!("SKIP: rows are not compared with tshark: there is none");
    }
}

/// Of the one session that was made, each slot begins at 1 and misses no number, and several are
/// used.
fn slots_count_one_by_one(trace: &Trace) {
    let names: BTreeMap<i64, &Record> = { trace.operations.iter() }
        .map(|row| (row.integer("operation_id").expect("never null"), row))
        .collect();
    let mut slots: BTreeMap<(Vec<u8>, i64), Vec<i64>> = BTreeMap::new();
    let mut made = BTreeSet::new();
    for row in &trace.nfs4 {
        let Value::Bytes(session) = row.value("session") else {
            continue;
        };
        let operation = names[&row.integer("operation_id").expect("never null")];
        match operation.text("operation") {
            Some("SEQUENCE") => {
                let [slot, sequence, highest] = ["slot", "slot_sequence", "highest_slot"]
                    .map(|column| row.integer(column).expect("a SEQUENCE has it"));
                assert!(slot <= highest, "slot {slot} above {highest}");
                let sequences = slots.entry((session.clone(), slot)).or_default();
                sequences.push(sequence);
            }
            Some("CREATE_SESSION") => {
                made.insert(session.clone());
            }
            other => panic!("{other:?} has a session"),
        }
    }
    assert_eq!(made.len(), 1, "sessions that were made");
    assert!(slots.len() > 1, "one slot of a client with 8 calls at once");
    for ((session, slot), sequences) in &mut slots {
        assert!(made.contains(session), "{session:?} was not made");
        sequences.sort_unstable();
        let counted: Vec<i64> = (1..=sequences.len() as i64).collect();
        assert_eq!(*sequences, counted, "slot {slot}");
    }
}
