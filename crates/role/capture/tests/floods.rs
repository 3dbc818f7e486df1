//! Floods beside NFS traffic: memory stays within the budget, and no operation is lost. The only
//! test of its process, so that resident memory is its own.

use std::net::{IpAddr, Ipv4Addr};

use lineside_account::{Budget, Counter, Counters};
use lineside_alloc::{process_bytes, process_bytes_max};
use lineside_capture::{Config, Pipeline};
use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_rows::{OperationRow, RecordSink, RowRef, Table};
use lineside_testkit::{capture, captures};

const BUDGET: usize = 32 << 20;
const FLOWS: u32 = 50_000;
/// As many connections of a flood as a quarter of the budget bears, about.
const CONNECTIONS: usize = 2_500;
/// Headers of a frame and what the allocator takes for it.
const FRAME_BYTES: usize = 160;
/// The flood comes from this network.
const FLOOD: u8 = 10;
const SYN: u8 = 2;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// Operations and checksums of others than the flood.
#[derive(Default)]
struct Rows {
    operations: Vec<OperationRow>,
    lost_bytes: i64,
    losses: usize,
}

impl RecordSink for Rows {
    fn wants(&self, _: Table) -> bool {
        true
    }

    fn on_time(&mut self, _: i64) {}

    fn row(&mut self, row: RowRef<'_>) {
        match row {
            RowRef::Operations(row) => {
                let is_flood = matches!(row.client_address,
                    Some(IpAddr::V4(address)) if address.octets()[0] == FLOOD);
                if !is_flood {
                    let mut row = row.clone();
                    (row.operation_id, row.rpc_id, row.connection_id) = (0, 0, 0);
                    row.repeat_of = row.repeat_of.map(|_| 0);
                    row.call_frame = row.call_frame.map(|_| 0);
                    row.reply_frame = row.reply_frame.map(|_| 0);
                    self.operations.push(row);
                }
            }
            RowRef::Losses(row) => {
                self.losses += 1;
                self.lost_bytes += row.bytes.unwrap_or(0);
            }
            _ => {}
        }
    }
}

/// A frame with a segment or a datagram from a flow of the flood, or to it.
fn frame(flow: u32, protocol: u8, from_flow: bool, transport: &[u8]) -> Vec<u8> {
    let client = Ipv4Addr::from(u32::from(FLOOD) << 24 | flow).octets();
    let server = [198, 51, 100, 1];
    let (source, destination) = match from_flow {
        true => (client, server),
        false => (server, client),
    };
    let len = (20 + transport.len()) as u16;
    let mut bytes = b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0\x45\0".to_vec();
    bytes.extend(len.to_be_bytes());
    bytes.extend((flow as u16).to_be_bytes());
    bytes.extend([0, 0, 64, protocol, 0, 0]);
    bytes.extend(source);
    bytes.extend(destination);
    bytes.extend(transport);
    bytes
}

fn ports(from_flow: bool) -> [u8; 4] {
    let (client, server) = (40_000_u16.to_be_bytes(), 80_u16.to_be_bytes());
    let (source, destination) = if from_flow {
        (client, server)
    } else {
        (server, client)
    };
    [source[0], source[1], destination[0], destination[1]]
}

fn tcp(flow: u32, from_flow: bool, flags: u8, numbers: [u32; 2], payload: &[u8]) -> Vec<u8> {
    let mut segment = ports(from_flow).to_vec();
    segment.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
    segment.extend([5 << 4, flags, 0xf0, 0, 0, 0, 0, 0]);
    segment.extend(payload);
    frame(flow, 6, from_flow, &segment)
}

fn opened(flow: u32) -> Vec<Vec<u8>> {
    vec![
        tcp(flow, true, SYN, [1000, 0], b""),
        tcp(flow, false, SYN | ACK, [5000, 1001], b""),
        tcp(flow, true, ACK, [1001, 5001], b""),
    ]
}

/// The frames of a flow.
fn flood(kind: &str, flow: u32) -> Vec<Vec<u8>> {
    let data = |numbers, payload: &[u8]| tcp(flow, true, PSH | ACK, numbers, payload);
    let mut frames = match kind {
        "SYNs" | "datagrams" => vec![],
        _ => opened(flow),
    };
    match kind {
        "SYNs" => frames.push(tcp(flow, true, SYN, [1000, 0], b"")),
        "requests" => frames.push(data([1001, 5001], b"GET / HTTP/1.1\r\n\r\n")),
        "gaps" => frames.extend([2461, 4461].map(|at| data([at, 5001], &[0; 64]))),
        "half calls" => {
            let words = [1 << 31 | 120, 7, 0, 2, 100_003, 3, 1, 0, 0, 0];
            let half: Vec<u8> = words
                .iter()
                .flat_map(|word: &u32| word.to_be_bytes())
                .collect();
            frames.push(data([1001, 5001], &half));
        }
        "acknowledgements" => {
            frames.push(data([1001, 5001], b"GET"));
            for end in (1..=40).map(|hole| 1004 + 2000 * hole) {
                frames.push(tcp(flow, false, ACK, [5001, end], b""));
            }
        }
        "holes" => {
            for end in (1..=9).map(|hole| 1001 + 2000 * hole) {
                frames.push(data([end - 10, 5001], &[0; 10]));
                frames.push(tcp(flow, false, ACK, [5001, end], b""));
            }
        }
        _ => {
            let mut datagram = ports(true).to_vec();
            datagram.extend([0, 40, 0, 0]);
            datagram.extend([0; 32]);
            frames.push(frame(flow, 17, true, &datagram));
        }
    }
    frames
}

fn resident(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.trim_start_matches(':').split_whitespace().next());
    kib.and_then(|kib| kib.parse::<usize>().ok())
        .expect("a number of KiB")
        << 10
}

/// The rows of the capture with a flood between its frames.
fn run(frames: &[capture::Frame], kind: Option<&str>) -> (Rows, Counters, usize) {
    let budget = Budget::new(BUDGET);
    let mut pipeline = Pipeline::new(Config::default(), &budget, Rows::default());
    let (mut ordinal, mut flow) = (0, 0);
    let mut take = |bytes: &[u8], stamp_ns, link_type, wire_len| {
        ordinal += 1;
        let descriptor = Descriptor {
            stamp_ns,
            wire_len,
            link_type: LinkType(link_type),
            number: ordinal,
            ordinal,
            ..Descriptor::default()
        };
        let mut burst = Burst::new();
        burst.push(Frame::copied(bytes, descriptor));
        pipeline.on_burst(&mut burst);
    };
    let each = FLOWS / frames.len() as u32 + 1;
    for frame in frames {
        take(
            &frame.bytes,
            frame.stamp_ns,
            frame.link_type,
            frame.wire_len,
        );
        for _ in 0..kind.map_or(0, |_| each) {
            for bytes in flood(kind.unwrap_or_default(), flow) {
                take(&bytes, frame.stamp_ns, 1, bytes.len() as u32);
            }
            flow += 1;
        }
    }
    let (mut rows, counters) = pipeline.finish();
    rows.operations.sort_by_key(|row| {
        (
            row.call_time_ns,
            row.reply_time_ns,
            row.xid,
            row.client_port,
        )
    });
    assert_eq!(counters.broken_identity(), None, "{kind:?}");
    assert_eq!(budget.used_bytes(), 0, "{kind:?}");
    (rows, counters, budget.peak_bytes())
}

#[test]
fn floods_stay_within_memory_and_cost_no_operation() {
    let frames = capture::read(&captures::example("nfs-mix.pcapng.zst")).expect("the example");
    let (alone, ..) = run(&frames, None);
    assert!(alone.operations.len() > 400);
    let base = resident("VmHWM");
    let own = process_bytes();
    for (kind, parts_held) in [
        ("SYNs", 0),
        ("requests", 0),
        ("gaps", 2),
        ("half calls", 1),
        ("datagrams", 0),
        ("acknowledgements", 0),
        ("holes", 9),
    ] {
        let (most, (rows, counters, peak)) = process_bytes_max(|| run(&frames, Some(kind)));
        let most = most.saturating_sub(own);
        // Rows of this test, lists that doubled, what a pipeline has from the start; and frames, of
        // which each is on its own here, and whole as long as a part of it is held.
        let uncounted = most.saturating_sub(peak);
        let whole_frames = CONNECTIONS * parts_held * FRAME_BYTES;
        assert!(
            uncounted <= BUDGET / 32 + whole_frames,
            "{kind}: {most} bytes allocated, {peak} counted"
        );
        assert!(peak <= BUDGET, "{kind}: {peak} bytes counted");
        let resident = resident("VmHWM").saturating_sub(base);
        assert!(
            resident <= BUDGET + BUDGET / 10,
            "{kind}: {resident} bytes resident"
        );
        for (with, without) in rows.operations.iter().zip(&alone.operations) {
            assert_eq!(with, without, "{kind}");
        }
        assert_eq!(rows.operations.len(), alone.operations.len(), "{kind}");
        let given_up = counters.value(Counter::ConnectionsLimit);
        assert!(given_up > 10_000, "{kind}: {given_up}");
        assert_eq!(counters.value(Counter::ValuedLimit), 0, "{kind}");
        let lost = counters.value(Counter::StreamLost);
        assert_eq!(
            rows.lost_bytes.cast_unsigned(),
            lost,
            "{kind}: bytes of losses"
        );
        if kind == "holes" {
            let merged = counters.value(Counter::HolesMerged);
            assert!(
                merged > 100_000 && rows.losses < 80_000,
                "{merged}, {}",
                rows.losses
            );
        }
    }
}
