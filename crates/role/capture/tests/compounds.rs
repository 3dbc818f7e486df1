//! NFSv4 compounds that no client sends: what is hostile, cut short by bounds, or answered too
//! early ends in rows of that compound alone, never in a panic.

#[expect(dead_code, reason = "NFSv3 is spoken elsewhere")]
mod connection;

use lineside_account::{Budget, Counter, Counters};
use lineside_capture::{BLOCK_BYTES, Config, Pipeline};
use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_rows::{CollectedRows, OperationRow, Word};
use lineside_rpc::message::encode_record;
use lineside_time::Random;
use lineside_wire::TcpFlags;
use twox_hash::XxHash3_64;

use connection::TcpConnection;

const PUTFH: u32 = 22;
const PUTROOTFH: u32 = 24;
const GETFH: u32 = 10;
const READ: u32 = 25;
const WRITE: u32 = 38;
const OPEN: u32 = 18;
const ILLEGAL: u32 = 10044;

/// Words as XDR has them.
fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A COMPOUND's call that says it has `count` operations, which follow.
fn call(xid: u32, count: u32, operations: &[Vec<u8>]) -> Vec<u8> {
    let mut out = words(&[xid, 0, 2, 100_003, 4, 1, 0, 0, 0, 0, 0, 0, count]);
    out.extend(operations.concat());
    out
}

/// Its reply.
fn reply(xid: u32, count: u32, results: &[Vec<u8>]) -> Vec<u8> {
    let mut out = words(&[xid, 1, 0, 0, 0, 0, 0, 0, count]);
    out.extend(results.concat());
    out
}

fn put_fh(handle: u32) -> Vec<u8> {
    words(&[PUTFH, 4, handle])
}

fn read(offset: u32, count: u32) -> Vec<u8> {
    words(&[READ, 0, 0, 0, 0, 0, offset, count])
}

fn write(offset: u32, data: &[u8]) -> Vec<u8> {
    let mut out = words(&[WRITE, 0, 0, 0, 0, 0, offset, 0, data.len() as u32]);
    out.extend(data);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

fn read_result(data: &[u8]) -> Vec<u8> {
    let mut out = words(&[READ, 0, 1, data.len() as u32]);
    out.extend(data);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

fn write_result(count: u32) -> Vec<u8> {
    words(&[WRITE, 0, count, 0, 0, 0])
}

/// A connection, whose messages are sent in segments.
struct Wire {
    connection: TcpConnection,
    frames: Vec<Vec<u8>>,
}

impl Wire {
    fn new() -> Self {
        let mut connection = TcpConnection::new(700, [100, 200]);
        let frames = connection.handshake().into();
        Self { connection, frames }
    }

    fn send(&mut self, direction: usize, message: &[u8]) {
        let record = record(message);
        self.segments(direction, &record);
    }

    fn segments(&mut self, direction: usize, bytes: &[u8]) {
        for part in bytes.chunks(1448) {
            let frame = self.connection.segment(direction, TcpFlags::ACK, part);
            self.frames.push(frame);
        }
    }

    fn run(&self, config: Config) -> (CollectedRows, Counters) {
        let budget = Budget::new(128 << 20);
        let mut pipeline = Pipeline::new(config, &budget, CollectedRows::default());
        let mut burst = Burst::new();
        for (bytes, number) in self.frames.iter().zip(1..) {
            let descriptor = Descriptor {
                stamp_ns: Some(number as i64 * 1000),
                wire_len: bytes.len() as u32,
                link_type: LinkType(1),
                input: 0,
                number,
                ordinal: number,
                ..Descriptor::default()
            };
            burst.push(Frame::copied(bytes, descriptor));
            pipeline.on_burst(&mut burst);
        }
        let (rows, counters) = pipeline.finish();
        assert_eq!(counters.broken_identity(), None);
        let mut rows = rows;
        rows.operations.sort_by_key(|row| row.operation_id);
        assert!(
            rows.operations
                .windows(2)
                .all(|two| two[0].operation_id != two[1].operation_id),
            "an id twice: {:#?}",
            rows.operations
        );
        for row in &rows.operations {
            if let Some(index) = row.compound_index {
                assert_eq!(row.operation_id, row.rpc_id + i64::from(index), "{row:?}");
            }
        }
        (rows, counters)
    }
}

fn record(message: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    encode_record(&[], message, &mut record);
    record
}

/// The call and the reply of one compound alone.
fn alone(call: &[u8], reply: &[u8]) -> (Vec<OperationRow>, Counters) {
    let mut wire = Wire::new();
    wire.send(0, call);
    wire.send(1, reply);
    let (rows, counters) = wire.run(Config::default());
    (rows.operations, counters)
}

fn names(rows: &[OperationRow]) -> Vec<&Word> {
    rows.iter().map(|row| &row.operation).collect()
}

const OK: Word = Word::Known("NFS4_OK");

#[test]
fn the_operation_count_of_a_compound_is_not_trusted() {
    let operations = [put_fh(7), words(&[GETFH])];
    let results = [words(&[PUTFH, 0])];
    let (rows, counters) = alone(
        &call(1, u32::MAX, &operations),
        &reply(1, u32::MAX, &results),
    );
    assert_eq!(names(&rows), [&Word::Known("PUTFH"), &Word::Known("GETFH")]);
    assert!(rows[1].call_incomplete && rows[1].reply_incomplete && !rows[0].call_incomplete);
    assert_eq!((&rows[0].status, &rows[1].status), (&OK, &Word::None));
    assert_eq!(counters.value(Counter::CallsAnswered), 1);
}

#[test]
fn a_reused_xid_is_a_retransmission_only_with_equal_arguments() {
    let asked = |handle| call(7, 2, &[put_fh(handle), words(&[GETFH])]);
    let answer = reply(7, 1, &[words(&[PUTFH, 70])]);
    let expected = [("the same", 1, 1), ("another", 2, 0)];
    for ((what, calls, again), second) in expected.into_iter().zip([asked(1), asked(2)]) {
        // In one segment, and cut where the first operation is.
        for cut in [0, 60] {
            let mut wire = Wire::new();
            wire.send(0, &asked(1));
            let second = record(&second);
            wire.segments(0, &second[..cut]);
            wire.segments(0, &second[cut..]);
            wire.send(1, &answer);
            let (rows, counters) = wire.run(Config::default());
            assert_eq!(counters.value(Counter::RpcCalls), calls, "{what}");
            assert_eq!(counters.value(Counter::CallsRetransmitted), again, "{what}");
            assert_eq!(rows.operations.len() as u64, 2 * calls, "{what}");
            let first = &rows.operations[0];
            assert_eq!(first.reply_missing, calls == 2, "{what}");
            assert_eq!(first.retransmissions as u64, again, "{what}");
        }
    }
}

#[test]
fn no_more_than_1024_operations_are_recorded() {
    const COUNT: usize = 100_000;
    let operations = vec![words(&[PUTROOTFH]); COUNT];
    let results = vec![words(&[PUTROOTFH, 0]); COUNT];
    let mut wire = Wire::new();
    wire.send(0, &call(1, COUNT as u32, &operations));
    wire.send(1, &reply(1, COUNT as u32, &results));
    wire.send(0, &call(2, 1, &[put_fh(9)]));
    wire.send(1, &reply(2, 1, &[words(&[PUTFH, 0])]));
    let (rows, counters) = wire.run(Config::default());
    let long = rows.operations.iter().filter(|row| row.xid == Some(1));
    assert_eq!(long.clone().count(), 1024);
    assert!(
        long.clone()
            .all(|row| row.status == OK && !row.not_executed)
    );
    assert_eq!(rows.operations.len(), 1025);
    assert_eq!(counters.value(Counter::CompoundLimit), 1, "once");
    let bytes: Vec<i64> = long.filter_map(|row| row.call_bytes).collect();
    assert_eq!(bytes, [52 + 4 * COUNT as i64], "counted once");
}

#[test]
fn an_unknown_operation_ends_the_reading_of_a_compound() {
    let operations = [put_fh(7), words(&[9999]), words(&[GETFH])];
    let results = [words(&[PUTFH, 0]), words(&[ILLEGAL, ILLEGAL])];
    let (rows, counters) = alone(&call(1, 3, &operations), &reply(1, 2, &results));
    assert_eq!(names(&rows), [&Word::Known("PUTFH"), &Word::Number(9999)]);
    assert_eq!(rows[1].status, Word::Known("NFS4ERR_OP_ILLEGAL"));
    assert_eq!(counters.value(Counter::OperationsUnknown), 1);
}

/// Of arguments and values that are kept as they came there are 4,096 bytes at most.
#[test]
fn arguments_that_are_kept_are_bounded() {
    let test_state_ids = |count: u32| {
        let mut out = words(&[55, count]);
        out.extend(words(&vec![9; 4 * count as usize]));
        out
    };
    let verify = |len: u32| {
        let mut out = words(&[37, 1, 1 << 12, len]);
        out.extend(vec![5; len as usize]);
        out
    };
    let get_attributes = |count: u32| {
        let mut out = words(&[9, count]);
        out.extend(words(&vec![3; count.min(16) as usize]));
        out
    };
    // What is kept of the bitmap, of values and of arguments.
    type Kept = [Option<usize>; 3];
    let cases: [(Vec<u8>, Kept); 11] = [
        (test_state_ids(0), [None, None, Some(4)]),
        (test_state_ids(255), [None, None, Some(4 + 255 * 16)]),
        (test_state_ids(256), [None, None, None]),
        (words(&[55, u32::MAX, 0, 0, 0, 0]), [None, None, None]),
        (verify(4096), [Some(4), Some(4096), None]),
        (verify(4100), [Some(4), None, None]),
        (words(&[37, 1, 2, u32::MAX, 0]), [Some(4), None, None]),
        (get_attributes(0), [Some(0), None, None]),
        (get_attributes(3), [Some(12), None, None]),
        (get_attributes(7), [Some(28), None, None]),
        (get_attributes(u32::MAX), [None, None, None]),
    ];
    for (operation, expected) in cases {
        let mut wire = Wire::new();
        wire.send(0, &call(1, 1, std::slice::from_ref(&operation)));
        wire.send(1, &reply(1, 0, &[]));
        let (rows, _) = wire.run(Config::default());
        let len = |blob: &lineside_rows::Blob| blob.bytes().map(<[u8]>::len);
        let [bitmap, values] = rows.nfs.first().map_or([None; 2], |row| {
            [len(&row.attribute_bitmap), len(&row.attribute_values)]
        });
        let arguments = { rows.nfs4.iter() }.find_map(|row| len(&row.arguments));
        let found = [bitmap, values, arguments];
        assert_eq!(
            found,
            expected,
            "{:?}",
            &operation[..operation.len().min(24)]
        );
    }
}

#[test]
fn results_of_other_operations_are_refused() {
    let operations = [put_fh(7), read(0, 8), words(&[GETFH])];
    let results = [words(&[PUTFH, 0]), write_result(8), words(&[GETFH, 10001])];
    let (rows, counters) = alone(&call(1, 3, &operations), &reply(1, 3, &results));
    assert_eq!(
        names(&rows),
        ["PUTFH", "READ", "GETFH"].map(Word::Known).each_ref()
    );
    let statuses: Vec<&Word> = rows.iter().map(|row| &row.status).collect();
    assert_eq!(statuses, [&OK, &Word::None, &Word::None]);
    assert!(rows[1].reply_incomplete && rows[1].transferred.is_none());
    assert_eq!(counters.value(Counter::RecordsMalformed), 1);

    // More results than the call has operations are nobody's.
    let results = [words(&[PUTFH, 0]), words(&[GETFH, 10001])];
    let (rows, counters) = alone(&call(1, 1, &operations[..1]), &reply(1, 2, &results));
    assert_eq!(names(&rows), [&Word::Known("PUTFH")]);
    assert_eq!(counters.value(Counter::RecordsMalformed), 1);
}

#[test]
fn a_reply_that_overtakes_its_call_has_the_same_rows() {
    let data: Vec<u8> = (0..6000u32).map(|at| (at / 7) as u8).collect();
    let operations = [put_fh(7), write(0, &data), put_fh(8), words(&[GETFH])];
    let results = [
        words(&[PUTFH, 0]),
        write_result(6000),
        words(&[PUTFH, 0]),
        words(&[GETFH, 0, 4, 8]),
    ];
    let (call, reply) = (record(&call(1, 4, &operations)), reply(1, 4, &results));
    let whole = {
        let mut wire = Wire::new();
        wire.segments(0, &call);
        wire.send(1, &reply);
        wire.run(Config::default()).0
    };
    assert_eq!(whole.operations.len(), 4);
    assert_eq!(whole.checksums.len(), 6000 / BLOCK_BYTES);
    assert_eq!(whole.operations[3].file_id, whole.operations[2].file_id);
    for at in (60..call.len()).step_by(97) {
        let mut wire = Wire::new();
        wire.segments(0, &call[..at]);
        wire.send(1, &reply);
        // The xid again, in the middle of the call's record it is data.
        wire.segments(0, &call[at..]);
        let (rows, counters) = wire.run(Config::default());
        let found = |rows: &[OperationRow]| -> Vec<String> {
            rows.iter()
                .map(|row| {
                    format!(
                        "{:?} {:?} {:?} {:?} {:?} {}",
                        row.operation,
                        row.status,
                        row.file_id,
                        row.offset,
                        row.transferred,
                        row.call_incomplete
                    )
                })
                .collect()
        };
        assert_eq!(found(&rows.operations), found(&whole.operations), "{at}");
        assert_eq!(rows.checksums.len(), whole.checksums.len(), "{at}");
        assert_eq!(counters.value(Counter::CallsAnswered), 1, "{at}");
    }
}

#[test]
fn a_compound_that_evicts_itself_is_not_mixed_with_others() {
    for outstanding_max in 1..12 {
        let mut wire = Wire::new();
        for xid in 0..20 {
            let count = 1 + xid % 9;
            let operations: Vec<_> = (0..count).map(|at| put_fh(100 * xid + at)).collect();
            wire.send(0, &call(xid, count, &operations));
            if xid % 3 > 0 {
                let results = vec![words(&[PUTFH, 0]); count as usize];
                wire.send(1, &reply(xid, count, &results));
            }
        }
        let config = Config {
            outstanding_max,
            ..Config::default()
        };
        let (rows, counters) = wire.run(config);
        let server = connection::SERVER;
        for row in &rows.operations {
            let (Some(xid), Some(index)) = (row.xid, row.compound_index) else {
                continue;
            };
            let handle = (100 * xid as u32 + index as u32).to_be_bytes();
            let file = lineside_capture::file_id(server, &handle);
            assert!(
                row.file_id.is_none_or(|id| id == file),
                "{outstanding_max}: {row:?}"
            );
        }
        let mut whole = 0;
        for xid in 0..20 {
            let here = rows.operations.iter().filter(|row| row.xid == Some(xid));
            whole += u32::from(here.count() as i64 == 1 + xid % 9);
        }
        assert!(whole > 0, "{outstanding_max}: no compound is whole");
        assert!(counters.value(Counter::OutstandingLimit) > 0);
    }
}

#[test]
fn an_open_whose_name_was_not_seen_names_no_file() {
    // The call is cut within OPEN, so that it is not known whether it has a name.
    let mut wire = Wire::new();
    let operations = [put_fh(7), words(&[OPEN, 1])];
    wire.send(0, &call(1, 3, &operations));
    let mut open = words(&[OPEN, 0, 1, 2, 3, 4]);
    // Change information, flags, no attributes, no delegation.
    open.extend(words(&[1, 0, 1, 0, 2, 0, 0, 0]));
    wire.send(
        1,
        &reply(1, 3, &[words(&[PUTFH, 0]), open, words(&[GETFH, 0, 4, 8])]),
    );
    let rows = wire.run(Config::default()).0.operations;
    let id = |handle: u32| {
        Some(lineside_capture::file_id(
            connection::SERVER,
            &handle.to_be_bytes(),
        ))
    };
    let ids: Vec<_> = rows
        .iter()
        .map(|row| (row.file_id, row.result_file_id))
        .collect();
    assert_eq!(ids, [(id(7), None), (id(7), None), (id(8), None)]);
}

#[test]
fn data_of_several_operations_is_checksummed_however_it_is_cut() {
    let mut bytes = vec![0; 20_000];
    Random::new(4).fill(&mut bytes);
    let places = [(0, 5000), (512, 1024), (700, 3), (1000, 9000)];
    let part = |(offset, len): (usize, usize)| &bytes[offset..offset + len];
    let mut operations = vec![put_fh(1)];
    let mut results = vec![words(&[PUTFH, 0])];
    for place in places {
        operations.push(read(place.0 as u32, place.1 as u32));
        results.push(read_result(part(place)));
        operations.push(write(place.0 as u32, part(place)));
        results.push(write_result(place.1 as u32));
    }
    let count = operations.len() as u32;
    let messages = [call(1, count, &operations), reply(1, count, &results)];
    for len in [1, 3, 100, 511, 1448] {
        let mut wire = Wire::new();
        for (direction, message) in messages.iter().enumerate() {
            for part in record(message).chunks(len) {
                wire.segments(direction, part);
            }
        }
        let (rows, counters) = wire.run(Config::default());
        let first = rows.operations[0].operation_id;
        let mut expected = Vec::new();
        for (index, (offset, len)) in places.into_iter().enumerate() {
            let blocks = offset.div_ceil(BLOCK_BYTES)..(offset + len) / BLOCK_BYTES;
            for block in blocks {
                let sum = XxHash3_64::oneshot(&bytes[block * BLOCK_BYTES..][..BLOCK_BYTES]);
                for row in [1, 2] {
                    let id = first + 2 * index as i64 + row;
                    expected.push((id, block as i64, sum.cast_signed()));
                }
            }
        }
        expected.sort_unstable();
        let mut sums: Vec<_> = { rows.checksums.iter() }
            .map(|row| (row.operation_id, row.block, row.checksum))
            .collect();
        sums.sort_unstable();
        assert_eq!(sums, expected, "segments of {len}");
        assert_eq!(counters.value(Counter::Blocks), expected.len() as u64);
        assert!(
            rows.operations
                .iter()
                .all(|row| !row.data_incomplete && row.status == OK)
        );
    }
}
