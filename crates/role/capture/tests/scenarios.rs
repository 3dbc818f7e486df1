//! Seeded scenarios through the whole path: several clients, all procedures, TCP and UDP, and a tap
//! that loses, delays, repeats, cuts and begins late. The rows are compared with the unharmed trace
//! and, for checksums, with the files' contents.

#[path = "scenarios/again.rs"]
mod again;
mod connection;
#[path = "scenarios/evidence.rs"]
mod evidence;
#[path = "scenarios/fields.rs"]
mod fields;
#[path = "scenarios/kinds.rs"]
mod kinds;
#[path = "scenarios/matching.rs"]
mod matching;
mod on_cores;
#[path = "scenarios/plain.rs"]
mod plain;
#[path = "scenarios/plain_data.rs"]
mod plain_data;
#[path = "scenarios/room.rs"]
mod room;
#[path = "scenarios/simulated.rs"]
mod simulated;
#[path = "scenarios/tls.rs"]
mod tls;
#[path = "../../../protocol/nfs/src/tests/values.rs"]
mod values;
#[path = "scenarios/waits.rs"]
mod waits;

use std::collections::{BTreeMap, BTreeSet};

use lineside_account::{Budget, Counter, Counters};
use lineside_capture::{BLOCK_BYTES, Config, Pipeline};
use lineside_frame::{Burst, Descriptor, Frame, LinkType, Piece};
use lineside_nfs::{mount, v3};
use lineside_rows::{CollectedRows, OperationRow, RecordSink, Word};
use lineside_rpc::message::{Auth, AuthSys, Flavor, encode_record};
use lineside_rpc::xdr::{Array, Opaque, Outcome, Xdr};
use lineside_testkit::capture;
use lineside_testkit::mangle::{Harm, mangle};
use lineside_testkit::oracle::{Message, Oracle};
use lineside_time::Random;
use lineside_wire::TcpFlags;
use lineside_wire::build::FrameBuilder;
use twox_hash::XxHash3_64;

use connection::{CLIENT, SERVER, SERVER_PORT, TcpConnection};
use on_cores::Memory;
use values::Values;

/// Seeds, of which each is tried with every kind of harm.
const SEEDS: u64 = 30;
/// Between two moments at which a client or the server sends.
const STEP_NS: i64 = 50_000;
/// Every client has its own file, whose bytes are a function of its port and the place.
const FILE_BYTES: usize = 1 << 18;

fn file(port: u16) -> Vec<u8> {
    let mut bytes = vec![0; FILE_BYTES];
    Random::new(u64::from(port)).fill(&mut bytes);
    bytes
}

/// A connection's frames in order, with the step at which each is sent.
type Sent = Vec<(u64, Vec<u8>)>;

/// An operation's call and reply. READ and WRITE move bytes of the file.
fn operation(
    random: &mut Random,
    values: &mut Values,
    xid: u32,
    file: &[u8],
    most: u64,
) -> [Vec<u8>; 2] {
    let machine = [Piece::bytes(b"client")];
    let sys = AuthSys {
        stamp: Some(1),
        machine_name: Some(Opaque::new(&machine)),
        uid: Some(random.below(1000) as u32),
        gid: Some(random.below(1000) as u32),
        gids: Array::new(&[]),
    };
    let mut body = Vec::new();
    sys.encode(&mut body);
    let body = [Piece::bytes(&body)];
    let credential = if random.chance(0.5) {
        Auth::new(Flavor::SYS, &body)
    } else {
        Auth::none()
    };

    let procedure = match random.below(10) {
        0 => v3::Procedure::Write,
        1 | 2 => v3::Procedure::Read,
        3 => {
            let all = mount::Procedure::ALL;
            let procedure = all[random.below(all.len() as u64) as usize];
            let (call, reply) = (values.mount_call(procedure), values.mount_reply(procedure));
            return connection::mount(xid, &call, &reply);
        }
        _ => v3::Procedure::ALL[random.below(22) as usize],
    };
    let (mut call, mut reply) = (values.v3_call(procedure), values.v3_reply(procedure));
    let offset = random.below(FILE_BYTES as u64 - most);
    let len = random.below(most);
    let data = &file[offset as usize..(offset + len) as usize];
    let (place, count) = (Some(offset), Some(len as u32));
    if let v3::Call::Write(write) = &mut call {
        (write.offset, write.count, write.data_len) = (place, count, count);
    }
    if let v3::Call::Read(read) = &mut call {
        (read.offset, read.count) = (place, count);
    }
    if let v3::Reply::Read(Outcome::Ok(read)) = &mut reply {
        (read.count, read.data_len) = (count, count);
    }
    if let v3::Reply::Write(Outcome::Ok(write)) = &mut reply {
        write.count = count;
    }
    connection::nfs(xid, credential, &call, &reply, data)
}

/// A client over TCP: `depth` calls in flight, replies in any order, segments of any size.
fn tcp(seed: u64, port: u16, count: u32) -> Sent {
    let mut random = Random::new(seed);
    let mut values = Values(Random::new(!seed));
    let file = file(port);
    let mut connection = TcpConnection::new(port, [random.bits() as u32, random.bits() as u32]);
    let (mut frames, mut at) = (Vec::new(), random.below(100));
    let mut send = |frames: &mut Sent, bytes: Vec<u8>, random: &mut Random| {
        at += 1 + random.below(4);
        frames.push((at, bytes));
    };
    for frame in connection.handshake() {
        send(&mut frames, frame, &mut random);
    }
    let (first, depth) = (random.bits() as u32, 1 + random.below(8) as usize);
    let mut waiting: Vec<Vec<u8>> = Vec::new();
    let mut called = 0;
    while called < count || !waiting.is_empty() {
        let calls = called < count && waiting.len() < depth && random.chance(0.6);
        if !calls && waiting.is_empty() {
            continue;
        }
        let (direction, message) = if calls {
            let xid = first.wrapping_add(called);
            let [call, reply] = operation(&mut random, &mut values, xid, &file, 9000);
            called += 1;
            waiting.push(reply);
            (0, call)
        } else {
            (
                1,
                waiting.remove(random.below(waiting.len() as u64) as usize),
            )
        };
        let mut record = Vec::new();
        let fragments = if random.chance(0.1) {
            vec![60, 200]
        } else {
            vec![]
        };
        encode_record(&fragments, &message, &mut record);
        let size = if random.chance(0.7) {
            1448
        } else {
            1 + random.below(1448) as usize
        };
        for part in record.chunks(size) {
            let frame = connection.segment(direction, TcpFlags::ACK, part);
            send(&mut frames, frame, &mut random);
            if random.chance(0.2) {
                let frame = connection.segment(1 - direction, TcpFlags::ACK, b"");
                send(&mut frames, frame, &mut random);
            }
        }
    }
    for direction in [0, 1] {
        let frame = connection.segment(direction, TcpFlags::ACK | TcpFlags::FIN, b"");
        send(&mut frames, frame, &mut random);
    }
    frames
}

/// A client over UDP; large datagrams are fragmented.
fn udp(seed: u64, port: u16, count: u32) -> Sent {
    let mut random = Random::new(seed);
    let mut values = Values(Random::new(!seed));
    let file = file(port);
    let (first, mut at) = (random.bits() as u32, random.below(100));
    let mut frames = Vec::new();
    for index in 0..count {
        let messages = operation(
            &mut random,
            &mut values,
            first.wrapping_add(index),
            &file,
            6000,
        );
        let ends = [(CLIENT, port), (SERVER, SERVER_PORT)];
        for (direction, message) in messages.iter().enumerate() {
            let (source, destination) = (ends[direction], ends[1 - direction]);
            let builder = FrameBuilder::new(source.0, destination.0).with_identification(index);
            let datagram = builder.udp_datagram(source.1, destination.1, message);
            for frame in builder.fragments(lineside_wire::PROTOCOL_UDP, &datagram, 1480) {
                at += 1 + random.below(4);
                frames.push((at, frame));
            }
        }
    }
    frames
}

/// All connections' frames by the steps at which they were sent.
fn merge(connections: &[Sent]) -> Vec<capture::Frame> {
    let mut all: Vec<(u64, usize, usize)> = Vec::new();
    for (connection, frames) in connections.iter().enumerate() {
        all.extend(
            frames
                .iter()
                .enumerate()
                .map(|(index, (at, _))| (*at, connection, index)),
        );
    }
    all.sort_unstable();
    let frame = |(at, connection, index): (u64, usize, usize)| {
        let bytes: &Vec<u8> = &connections[connection][index].1;
        capture::Frame {
            stamp_ns: Some(1_700_000_000_000_000_000 + at as i64 * STEP_NS),
            wire_len: bytes.len() as u32,
            link_type: 1,
            bytes: bytes.clone(),
        }
    };
    all.into_iter().map(frame).collect()
}

fn run(frames: &[capture::Frame]) -> (CollectedRows, Counters) {
    run_with(frames, Config::default())
}

fn feed<S: RecordSink>(pipeline: &mut Pipeline<S>, frames: &[capture::Frame], burst_len: usize) {
    let mut burst = Burst::new();
    for (index, frame) in frames.iter().enumerate() {
        let descriptor = Descriptor {
            stamp_ns: frame.stamp_ns,
            wire_len: frame.wire_len,
            link_type: LinkType(frame.link_type),
            input: 0,
            number: index as u64 + 1,
            ordinal: index as u64 + 1,
            ..Descriptor::default()
        };
        burst.push(Frame::copied(&frame.bytes, descriptor));
        if index % burst_len == 0 {
            pipeline.on_burst(&mut burst);
        }
        if index % 101 == 0 {
            pipeline.spill();
        }
    }
    pipeline.on_burst(&mut burst);
}

fn run_with(frames: &[capture::Frame], config: Config) -> (CollectedRows, Counters) {
    run_in_bursts(frames, config, 37)
}

fn run_in_bursts(
    frames: &[capture::Frame],
    config: Config,
    burst_len: usize,
) -> (CollectedRows, Counters) {
    let budget = Budget::new(128 << 20);
    let mut pipeline = Pipeline::new(config, &budget, CollectedRows::default());
    feed(&mut pipeline, frames, burst_len);
    let (rows, counters) = pipeline.finish();
    assert_eq!(counters.broken_identity(), None);
    (rows, counters)
}

/// Which operation a row is: the client's port, the transport, the xid.
type Key = (i32, bool, i64);

fn key(row: &OperationRow) -> Key {
    (
        row.client_port.expect("every row has it"),
        row.transport == Some("udp"),
        row.xid.expect("every row has it"),
    )
}

fn by_key(rows: &[OperationRow]) -> BTreeMap<Key, Vec<&OperationRow>> {
    let mut all: BTreeMap<Key, Vec<&OperationRow>> = BTreeMap::new();
    for row in rows {
        all.entry(key(row)).or_default().push(row);
    }
    all
}

/// The first field that both rows have with different values; ids, frames, times, flags and
/// counters apart.
fn contradiction(mine: &OperationRow, whole: &OperationRow) -> Option<&'static str> {
    macro_rules! first_different {
        ($($field:ident)*) => {
            $(if mine.$field != Default::default() && mine.$field != whole.$field {
                return Some(stringify!($field));
            })*
        };
    }
    first_different!(
        client_address server_address client_port server_port transport xid program program_number
        version operation compound_index rpc_status status auth_flavor user_id group_id file_id file2_id
        result_file_id name name2 offset count transferred file_size file_type call_bytes reply_bytes
    );
    None
}

struct Whole {
    frames: Vec<capture::Frame>,
    oracle: Oracle,
    rows: CollectedRows,
}

impl Whole {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut connections: Vec<Sent> = (0..3)
            .map(|index| tcp(random.bits(), 700 + index, 40))
            .collect();
        connections.push(udp(random.bits(), 800, 20));
        let frames = merge(&connections);
        let (rows, counters) = run(&frames);
        // Without harm everything is there, once and complete.
        assert_eq!(rows.operations.len(), 140, "seed {seed}");
        assert_eq!(counters.value(Counter::CallsAnswered), 140);
        assert_eq!(counters.value(Counter::StreamLost), 0);
        for row in &rows.operations {
            assert!(
                !row.call_missing && !row.reply_missing,
                "seed {seed}: {row:?}"
            );
            assert!(
                !row.call_incomplete && !row.reply_incomplete,
                "seed {seed}: {row:?}"
            );
            assert!(!row.data_incomplete, "seed {seed}: {row:?}");
        }
        Self {
            oracle: Oracle::new(&frames),
            frames,
            rows,
        }
    }

    fn key_of(&self, message: &Message) -> Key {
        let stream = &self.oracle.streams[message.stream];
        let client = if message.call {
            stream.source
        } else {
            stream.destination
        };
        (client.port().into(), stream.udp, message.xid.into())
    }

    /// Judges a harmed trace by the unharmed one.
    fn judge(&self, harm: &Harm, what: &str) {
        let mangled = mangle(&self.frames, harm);
        let (rows, counters) = run(&mangled.frames);
        let whole = by_key(&self.rows.operations);
        let here = by_key(&rows.operations);

        for (key, rows) in &here {
            let whole = whole
                .get(key)
                .unwrap_or_else(|| panic!("{what}: {key:?} never was"));
            // A datagram that the tap recorded twice is a call that came again.
            let most = if key.1 && harm.duplicate > 0.0 { 2 } else { 1 };
            assert!(
                rows.len() <= most,
                "{what}: {key:?} {} times: {rows:#?}",
                rows.len()
            );
            for row in rows {
                let field = contradiction(row, whole[0]);
                assert_eq!(field, None, "{what}: {row:#?}\nwhole: {:#?}", whole[0]);
            }
        }

        let messages = &self.oracle.messages;
        let survives = |message: &Message| self.oracle.header_survives(message, &mangled.kept);
        for message in messages.iter().filter(|message| survives(message)) {
            let key = self.key_of(message);
            let row = here.get(&key).and_then(|rows| {
                rows.iter().find(|row| {
                    !(if message.call {
                        row.call_missing
                    } else {
                        row.reply_missing
                    })
                })
            });
            // One that stands alone is believed by evidence from outside it; where there is none,
            // its bytes are counted as unread, which makes the verdict incomplete.
            let is_other_half = |other: &&Message| self.key_of(other) == key;
            let others = messages.iter().filter(|other| other.call != message.call);
            let is_alone = !others.filter(is_other_half).any(&survives);
            if row.is_none() && is_alone && counters.value(Counter::RpcUnread) > 0 {
                continue;
            }
            assert!(
                row.is_some(),
                "{what}: {key:?} call {} is not recorded",
                message.call
            );
            if let Some(call) = message.answers.filter(|&call| survives(&messages[call])) {
                let paired = here[&key]
                    .iter()
                    .any(|row| !row.call_missing && !row.reply_missing);
                assert!(
                    paired,
                    "{what}: {key:?} is not one row: {:?} {call}",
                    here[&key]
                );
            }
        }

        self.judge_checksums(&rows, &mangled.kept, what);
        if harm.drop == 0.0 && harm.late_start == 0 && harm.snap == usize::MAX {
            assert_eq!(here.len(), whole.len(), "{what}: nothing is lost");
            assert_eq!(counters.value(Counter::StreamLost), 0, "{what}");
            assert_eq!(counters.value(Counter::Resynchronised), 0, "{what}");
        }
    }

    /// Checksums are those of the file, and every block that survived has one.
    fn judge_checksums(&self, rows: &CollectedRows, kept: &[usize], what: &str) {
        let ids: BTreeMap<i64, Key> = rows
            .operations
            .iter()
            .map(|row| (row.operation_id, key(row)))
            .collect();
        let mut files: BTreeMap<i32, Vec<u8>> = BTreeMap::new();
        let mut sums = BTreeSet::new();
        for row in &rows.checksums {
            let key = ids[&row.operation_id];
            let file = files.entry(key.0).or_insert_with(|| file(key.0 as u16));
            let block = &file[row.block as usize * BLOCK_BYTES..][..BLOCK_BYTES];
            let right = XxHash3_64::oneshot(block).cast_signed();
            assert_eq!(
                row.checksum, right,
                "{what}: block {} of {key:?}",
                row.block
            );
            sums.insert((key, row.block));
        }
        for block in self.oracle.blocks() {
            let message = &self.oracle.messages[block.message];
            let key = self.key_of(message);
            // Whether the message may be missing was judged before.
            let halves = rows.operations.iter().filter(|row| self::key(row) == key);
            let is_recorded = halves
                .map(|row| match message.call {
                    true => row.call_missing,
                    false => row.reply_missing,
                })
                .any(|is_missing| !is_missing);
            if !is_recorded {
                continue;
            }
            assert!(
                sums.contains(&(key, block.number)) || !self.oracle.block_survives(&block, kept),
                "{what}: block {} of {key:?} survived",
                block.number
            );
        }
    }
}

#[test]
fn captured_messages_are_recorded_and_nothing_else() {
    // More find more: `LINESIDE_SEEDS=2000` takes two minutes.
    let seeds = std::env::var("LINESIDE_SEEDS")
        .ok()
        .and_then(|seeds| seeds.parse().ok());
    for seed in 0..seeds.unwrap_or(SEEDS) {
        let whole = Whole::new(seed);
        let frames = whole.frames.len();
        let none = Harm {
            seed,
            ..Harm::default()
        };
        let share = (seed % 10) as f64 / 100.0;
        let part = seed as usize % 30;
        let harms = [
            (
                "late and twice",
                Harm {
                    late: 0.1,
                    duplicate: 0.02,
                    ..none.clone()
                },
            ),
            (
                "loss",
                Harm {
                    drop: 0.002 + share,
                    ..none.clone()
                },
            ),
            (
                "bursts",
                Harm {
                    drop: 0.005,
                    burst: 1 + part * 2,
                    ..none.clone()
                },
            ),
            (
                "late, twice and lost",
                Harm {
                    late: 0.05,
                    duplicate: 0.02,
                    drop: share,
                    ..none.clone()
                },
            ),
            (
                "snap length",
                Harm {
                    snap: 60 + part * 47,
                    ..none.clone()
                },
            ),
            (
                "snap length and loss",
                Harm {
                    snap: 120,
                    drop: 0.02,
                    ..none.clone()
                },
            ),
            (
                "late start",
                Harm {
                    late_start: frames * (part + 1) / 34,
                    ..none.clone()
                },
            ),
            (
                "late start and loss",
                Harm {
                    late_start: frames / 3,
                    drop: 0.03,
                    ..none
                },
            ),
        ];
        for (kind, harm) in harms {
            whole.judge(&harm, &format!("{kind}, seed {seed}"));
        }
    }
}

/// What is left of a row when ids and frame numbers are taken out.
fn plain(row: &OperationRow) -> String {
    let mut row = row.clone();
    (row.operation_id, row.rpc_id, row.connection_id) = (0, 0, 0);
    row.repeat_of = row.repeat_of.map(|_| 0);
    (row.call_frame, row.reply_frame) = (None, None);
    format!("{row:?}")
}

#[test]
fn rows_do_not_depend_on_other_connections() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let connections: Vec<Sent> = (0..4)
            .map(|index| {
                let frames = if index < 3 {
                    tcp(random.bits(), 700 + index, 30)
                } else {
                    udp(random.bits(), 700 + index, 15)
                };
                let harm = Harm {
                    seed,
                    drop: 0.02,
                    late: 0.05,
                    ..Harm::default()
                };
                let mangled = mangle(&merge(&[frames]), &harm);
                let at = |frame: &capture::Frame| {
                    (frame.stamp_ns.unwrap_or(0) - 1_700_000_000_000_000_000) / STEP_NS
                };
                mangled
                    .frames
                    .into_iter()
                    .map(|frame| (at(&frame) as u64, frame.bytes))
                    .collect()
            })
            .collect();
        let together = run(&merge(&connections)).0;
        let mut alone = Vec::new();
        for connection in &connections {
            alone.extend(
                run(&merge(std::slice::from_ref(connection)))
                    .0
                    .operations
                    .iter()
                    .map(plain),
            );
        }
        let mut together: Vec<String> = together.operations.iter().map(plain).collect();
        alone.sort();
        together.sort();
        assert_eq!(together, alone, "seed {seed}");
    }
}

/// A record as it stands in a segment.
fn record(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_record(&[], message, &mut out);
    out
}

/// The frames of a connection whose sides send these bytes in turn.
fn conversation(sent: &[(usize, Vec<u8>)]) -> Vec<capture::Frame> {
    let mut connection = TcpConnection::new(700, [1, 1]);
    let mut frames: Sent = (0..).zip(connection.handshake()).collect();
    for (direction, bytes) in sent {
        let at = frames.len() as u64;
        frames.push((at, connection.segment(*direction, TcpFlags::ACK, bytes)));
    }
    merge(&[frames])
}
