//! Windows that are shorter than the traces.

use std::convert::Infallible;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use lineside_rows::{OperationRow, Row, Table, Word};
use lineside_trace::{EncoderConfig, Part, TraceEncoder};

use super::calls_of;
use crate::model::{CallRule, ComparedCalls};
use crate::read::filter::Filter;

const WINDOW: usize = 256;

/// READs with these numbers, one after another; a call's transaction id is its number and `xid`.
fn write(folder: &Path, numbers: impl Iterator<Item = i64>, xid: i64) {
    let to = folder.join("operations");
    fs::create_dir_all(&to).expect("a folder");
    let sink = move |part: Part| -> Result<(), Infallible> {
        if part.table == Table::Operations {
            fs::write(to.join(part.file_name()), part.bytes()).expect("written");
        }
        Ok(())
    };
    let mut encoder = TraceEncoder::new(&EncoderConfig::new(Table::ALL, "made"), sink);
    for number in numbers {
        let call_ns = 1_700_000_000_000_000_000 + number * 300_000;
        let client = Ipv4Addr::new(10, 1, 0, (number % 3) as u8);
        let row = OperationRow {
            operation_id: number << 18,
            rpc_id: number << 18,
            connection_id: number % 3,
            call_time_ns: Some(call_ns),
            call_end_ns: Some(call_ns),
            reply_time_ns: Some(call_ns + 200_000),
            reply_end_ns: Some(call_ns + 200_000),
            client_address: Some(IpAddr::V4(client)),
            xid: Some(number + xid),
            program: Word::Known("nfs"),
            operation: Word::Known("READ"),
            file_id: Some(number / 40),
            offset: Some(number % 1_000 * 512),
            ..OperationRow::default()
        };
        row.write_to(&mut encoder);
    }
    let _sink = encoder.finish().expect("nothing fails");
}

/// Compares READs 1 to 4,000 with those that `stays` leaves.
fn compared(xid: i64, stays: impl Fn(i64) -> bool) -> ComparedCalls {
    let folder = tempfile::tempdir().expect("a folder");
    let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
    write(&a, 1..=4_000, 0);
    write(&b, (1..=4_000).filter(|number| stays(*number)), xid);
    let filter = Filter::default();
    let found = calls_of((&a, &filter), (&b, &filter), 10, WINDOW);
    found.expect("they can be read").0
}

fn counts(of: &ComparedCalls) -> [u64; 7] {
    [
        of.pairs,
        of.missing,
        of.added,
        of.other_status,
        of.other_content,
        of.later,
        of.earlier,
    ]
}

#[test]
fn a_late_start_longer_than_a_window_moves_no_call() {
    for (xid, rule) in [(0, CallRule::Xid), (1_000_000, CallRule::Order)] {
        let late = compared(xid, |number| number > 1_500);
        assert_eq!(late.rule, rule);
        assert_eq!(counts(&late), [2_500, 1_500, 0, 0, 0, 0, 0], "{rule:?}");
        let early = compared(xid, |number| number <= 1_500);
        assert_eq!(counts(&early), [1_500, 2_500, 0, 0, 0, 0, 0], "{rule:?}");
        let hole = compared(xid, |number| !(1_000..2_000).contains(&number));
        assert_eq!(counts(&hole), [3_000, 1_000, 0, 0, 0, 0, 0], "{rule:?}");
        let holes = compared(xid, |number| number % 97 != 0);
        assert_eq!(counts(&holes), [3_959, 41, 0, 0, 0, 0, 0], "{rule:?}");
    }
}
