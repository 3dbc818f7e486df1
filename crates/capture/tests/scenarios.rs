//! Seeded scenarios through the whole path: several clients, all procedures, TCP and UDP, and a tap that
//! loses, delays, repeats, cuts and begins late. What comes out is compared with the unharmed trace and,
//! for checksums, with the files' contents.

mod connection;
#[path = "../../nfs/src/tests/values.rs"]
mod values;

use std::collections::{BTreeMap, BTreeSet};

use lineside_account::{Budget, Counter, Counters};
use lineside_capture::{BLOCK_BYTES, Config, Pipeline};
use lineside_frame::{Burst, Descriptor, Frame, LinkType, Piece};
use lineside_nfs::{mount, v3};
use lineside_rpc::message::{Auth, AuthSys, Flavor, encode_record};
use lineside_rpc::xdr::{Array, Opaque, Outcome, Xdr};
use lineside_testkit::capture;
use lineside_testkit::mangle::{Harm, mangle};
use lineside_testkit::oracle::{Message, Oracle};
use lineside_time::Random;
use lineside_trace::{CollectedRows, OperationRow, Word};
use lineside_wire::TcpFlags;
use lineside_wire::build::FrameBuilder;
use twox_hash::XxHash3_64;

use connection::{CLIENT, SERVER, SERVER_PORT, TcpConnection};
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
    let budget = Budget::new(128 << 20);
    let mut pipeline = Pipeline::new(Config::default(), &budget, CollectedRows::default());
    let mut burst = Burst::new();
    for (index, frame) in frames.iter().enumerate() {
        let descriptor = Descriptor {
            stamp_ns: frame.stamp_ns,
            wire_len: frame.wire_len,
            link_type: LinkType(frame.link_type),
            input: 0,
            number: index as u64 + 1,
            ordinal: index as u64 + 1,
        };
        burst.push(Frame::copied(&frame.bytes, descriptor));
        if index % 37 == 0 {
            pipeline.on_burst(&mut burst);
        }
        if index % 101 == 0 {
            pipeline.spill();
        }
    }
    pipeline.on_burst(&mut burst);
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

/// The first field that both rows have with different values; ids, frames, times, flags and counters apart.
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
            assert!(
                sums.contains(&(key, block.number)) || !self.oracle.block_survives(&block, kept),
                "{what}: block {} of {key:?} survived",
                block.number
            );
        }
    }
}

#[test]
fn what_survives_the_tap_is_recorded_and_nothing_else() {
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

#[test]
fn repeated_calls_and_replies_are_distinguished() {
    let null = |xid| {
        connection::nfs(
            xid,
            Auth::none(),
            &v3::Call::Null(()),
            &v3::Reply::Null(()),
            b"",
        )
    };
    let frame = |number: u32, direction: usize, xid: u32| {
        let (from, to) = [(CLIENT, SERVER), (SERVER, CLIENT)][direction];
        let ports = [(700, SERVER_PORT), (SERVER_PORT, 700)][direction];
        // Every packet that is sent has a number of its own: the same one again would be a mirror's copy.
        let builder = FrameBuilder::new(from, to).with_identification(number);
        builder.udp(ports.0, ports.1, &null(xid)[direction])
    };
    // Each line: what passes the tap, and what its one row or rows say: retransmissions, copies of
    // the reply, repeat.
    let (call, reply) = (0, 1);
    type Told = (i32, i32, bool);
    let cases: [(&[usize], &[Told]); 6] = [
        (&[call, reply], &[(0, 0, false)]),
        (&[call, call, reply], &[(1, 0, false)]),
        (&[call, reply, reply], &[(0, 1, false)]),
        (&[reply, call], &[(0, 0, false)]),
        (&[reply, reply, call], &[(0, 1, false)]),
        (&[call, reply, call, reply], &[(0, 0, false), (0, 0, true)]),
    ];
    for (passes, expected) in cases {
        let passes_in_turn = (0..).zip(passes);
        let frames = passes_in_turn.map(|(at, &direction)| (at, frame(at as u32, direction, 77)));
        let frames: Sent = frames.collect();
        let rows = run(&merge(&[frames])).0.operations;
        let mut told: Vec<_> = rows
            .iter()
            .map(|row| {
                assert!(
                    !row.call_missing && !row.reply_missing,
                    "{passes:?}: {row:?}"
                );
                assert_eq!(row.operation, Word::Known("NULL"));
                (row.retransmissions, row.duplicate_replies, row.repeat)
            })
            .collect();
        told.sort_unstable();
        assert_eq!(told, expected, "{passes:?}");
    }
}

/// A reply whose call came before the capture began, and the same call again: nothing is answered before it is asked.
#[test]
fn a_reply_long_before_a_call_is_not_its_own() {
    let (call, reply) = (v3::Call::Null(()), v3::Reply::Null(()));
    let [call, reply] = connection::nfs(7, Auth::none(), &call, &reply, b"");
    let datagram = |number, is_call: bool| {
        let (from, to) = if is_call {
            (CLIENT, SERVER)
        } else {
            (SERVER, CLIENT)
        };
        let ports = if is_call {
            (700, SERVER_PORT)
        } else {
            (SERVER_PORT, 700)
        };
        let message = if is_call { &call } else { &reply };
        FrameBuilder::new(from, to)
            .with_identification(number)
            .udp(ports.0, ports.1, message)
    };
    let other = || FrameBuilder::new(CLIENT, SERVER).udp(9, 9, b"discarded");
    for (gap_ns, others, orphans) in [(1_000_000, 40, 0), (3_000_000, 10, 0), (3_000_000, 40, 1)] {
        let mut sent = vec![(0, datagram(0, false))];
        sent.extend((0..others).map(|_| (0, other())));
        sent.extend([(1, datagram(1, true)), (2, datagram(2, false))]);
        let mut frames = merge(&[sent]);
        let begin_ns = frames[0].stamp_ns.expect("a stamp") + gap_ns;
        let [.., call, reply] = frames.as_mut_slice() else {
            unreachable!("two and more")
        };
        call.stamp_ns = Some(begin_ns);
        reply.stamp_ns = Some(begin_ns + 500_000);
        let (rows, counters) = run(&frames);
        assert_eq!(counters.value(Counter::CallsAnswered), 1);
        assert_eq!(counters.value(Counter::RepliesWithoutCall), orphans);
        assert_eq!(counters.value(Counter::RepliesDuplicate), 1 - orphans);
        let answered = rows.operations.iter().find(|row| !row.call_missing);
        let answered = answered.expect("the call");
        let took = answered.reply_time_ns.zip(answered.call_time_ns);
        let took = took.map(|(reply, call)| reply - call);
        assert_eq!(took, Some(if orphans == 1 { 500_000 } else { -gap_ns }));
    }
}

#[test]
fn replies_alone_are_rpc_and_show_which_end_calls() {
    let (call, reply) = (v3::Call::Null(()), v3::Reply::Null(()));
    let [_, reply] = connection::nfs(7, Auth::none(), &call, &reply, b"");
    // By the ports alone the server would be the client.
    let datagram = FrameBuilder::new(SERVER, CLIENT).udp(SERVER_PORT, 700, &reply);
    let (rows, counters) = run(&merge(&[vec![(0, datagram)]]));
    assert_eq!(counters.value(Counter::RepliesWithoutCall), 1);
    assert_eq!(counters.value(Counter::ConnectionsRpc), 1);
    let clients: Vec<_> = rows
        .connections
        .iter()
        .map(|row| row.client_address)
        .collect();
    assert_eq!(clients, [Some(CLIENT)]);
}

#[test]
fn a_known_service_is_no_client() {
    // Joined in the middle, before any call.
    for port in [700, 40_000] {
        let mut connection = TcpConnection::new(port, [1, 1]);
        let frames = [0, 1, 0].map(|direction| connection.segment(direction, TcpFlags::ACK, b""));
        let (rows, _) = run(&merge(&[(0..).zip(frames).collect()]));
        assert!(!rows.connections.is_empty());
        for row in rows.connections {
            assert_eq!(row.client_port, Some(i32::from(port)));
        }
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

#[test]
fn both_ends_may_call_with_the_same_xid() {
    let [call, reply] = connection::nfs(
        5,
        Auth::none(),
        &v3::Call::Null(()),
        &v3::Reply::Null(()),
        b"",
    );
    let (call, reply) = (record(&call), record(&reply));
    let frames = conversation(&[(0, call.clone()), (1, call), (0, reply.clone()), (1, reply)]);
    let (rows, counters) = run(&frames);
    assert_eq!(counters.value(Counter::CallsAnswered), 2);
    let mut callers: Vec<_> = rows
        .operations
        .iter()
        .map(|row| (row.client_address, row.call_frame, row.reply_frame))
        .collect();
    callers.sort_unstable();
    assert_eq!(
        callers,
        [
            (Some(CLIENT), Some(4), Some(7)),
            (Some(SERVER), Some(5), Some(6))
        ]
    );
}

/// Without its credential nobody knows whether a reply is wrapped.
#[test]
fn a_reply_that_a_cut_call_makes_unreadable_is_incomplete() {
    let (call, reply) = (v3::Call::Null(()), v3::Reply::Null(()));
    let [mut call, reply] = connection::nfs(5, Auth::none(), &call, &reply, b"");
    // The procedure: GETATTR.
    call[23] = 1;
    let mut frames = conversation(&[(0, record(&call)), (1, record(&reply))]);
    let frame = frames.iter_mut().find(|frame| frame.bytes.ends_with(&call));
    let bytes = &mut frame.expect("the call").bytes;
    bytes.truncate(bytes.len() - call.len() + 26);
    let (rows, _) = run(&frames);
    let [row] = rows.operations.as_slice() else {
        panic!("one operation: {:#?}", rows.operations)
    };
    assert_eq!(row.status, Word::None);
    assert!(row.call_incomplete && row.reply_incomplete);
}

#[test]
fn an_xid_used_again_for_another_procedure_is_no_repeat() {
    let (call, reply) = (v3::Call::Null(()), v3::Reply::Null(()));
    let [call, reply] =
        connection::nfs(5, Auth::none(), &call, &reply, b"").map(|message| record(&message));
    // Behind the mark: xid, type, RPC's version, program, version, procedure.
    let mut other = call.clone();
    other[27] = 100;
    let calls = [&call, &other, &other, &call, &call];
    let sent: Vec<_> = calls
        .iter()
        .flat_map(|&call| [(0, call.clone()), (1, reply.clone())])
        .collect();
    let (rows, counters) = run(&conversation(&sent));
    let repeats: Vec<_> = rows.operations.iter().map(|row| row.repeat).collect();
    assert_eq!(repeats, [false, false, true, false, true]);
    assert_eq!(counters.value(Counter::CallsRepeated), 2);
    assert_eq!(counters.value(Counter::CallsAnswered), 5);
}

#[test]
fn a_reply_to_an_expired_call_is_counted_as_a_limit() {
    let messages = |xid| {
        let (call, reply) = (v3::Call::Null(()), v3::Reply::Null(()));
        connection::nfs(xid, Auth::none(), &call, &reply, b"").map(|message| record(&message))
    };
    let ([first, first_reply], [second, second_reply]) = (messages(1), messages(2));
    let mut frames = conversation(&[(0, first), (0, second), (1, second_reply), (1, first_reply)]);
    let timeout_ns = Config::default().reply_timeout_ns;
    for (waits_ns, answered, late) in [(timeout_ns / 2, 2, 0), (timeout_ns * 2, 1, 1)] {
        // From the second call on.
        let begin_ns = frames[3].stamp_ns.expect("a stamp") + waits_ns;
        for (frame, at) in frames[4..].iter_mut().zip(0..) {
            frame.stamp_ns = Some(begin_ns + at);
        }
        let (rows, counters) = run(&frames);
        let value = |counter| counters.value(counter);
        assert_eq!(value(Counter::CallsAnswered), answered);
        assert_eq!(value(Counter::CallsExpired), late);
        assert_eq!(value(Counter::RepliesWithoutCall), late);
        assert_eq!(value(Counter::ReplyLimit), late);
        assert_eq!(rows.operations.len() as u64, 2 + late);
    }
}

#[test]
fn a_strange_first_record_does_not_hide_the_others() {
    let messages = |xid| {
        let (call, reply) = (v3::Call::Null(()), v3::Reply::Null(()));
        connection::nfs(xid, Auth::none(), &call, &reply, b"").map(|message| record(&message))
    };
    // Behind the mark: xid, type, RPC's version, program, version, procedure.
    let with = |at: usize, word: u32| {
        let mut first = messages(1)[0].clone();
        first[at..at + 4].copy_from_slice(&word.to_be_bytes());
        first
    };
    let any_version = with(20, u32::MAX);
    // A fragment of nothing before that with all bytes.
    let in_two = [vec![0; 4], messages(1)[0].clone()].concat();
    // Nothing tells that this is RPC before its answer.
    let no_program = with(16, 7);
    for (first, found) in [(any_version, 4), (in_two, 4), (no_program, 3)] {
        let (begin, rest) = first.split_at(40);
        let mut sent = vec![(0, begin.to_vec()), (0, rest.to_vec())];
        sent.push((1, messages(1)[1].clone()));
        for xid in 2..5 {
            sent.extend((0..).zip(messages(xid)));
        }
        let (_, counters) = run(&conversation(&sent));
        assert_eq!(counters.value(Counter::CallsAnswered), found);
        assert_eq!(counters.value(Counter::RepliesWithoutCall), 4 - found);
    }
}

/// A NULL call that asks for TLS, and the answer of a server that agrees.
fn tls_probe() -> [Vec<u8>; 2] {
    let [probe, mut answer] = connection::nfs(
        5,
        Auth::new(Flavor::TLS, &[]),
        &v3::Call::Null(()),
        &v3::Reply::Null(()),
        b"",
    );
    // Behind the xid, the type, the state and the verifier's flavor.
    answer.splice(16..20, *b"\0\0\0\x08STARTTLS");
    [probe, answer].map(|message| record(&message))
}

/// Bytes as one TLS record.
fn tls_record(kind: u8, inside: &[u8]) -> Vec<u8> {
    let mut out = vec![kind, 3, 3];
    out.extend_from_slice(&(inside.len() as u16).to_be_bytes());
    out.extend_from_slice(inside);
    out
}

#[test]
fn file_data_is_no_handshake() {
    let [probe, agreed] = tls_probe();
    let hello = tls_record(22, b"hello").repeat(100);
    let handle = [Piece::bytes(b"handle")];
    let write = v3::Call::Write(v3::WriteArgs {
        file: Some(Opaque::new(&handle)),
        offset: Some(0),
        count: Some(hello.len() as u32),
        stable: Some(v3::StableHow::FILE_SYNC),
        data_len: Some(hello.len() as u32),
    });
    let [write, _] = connection::nfs(6, Auth::none(), &write, &v3::Reply::Null(()), &hello);
    let write = record(&write);
    let data_at = write.len() - hello.len();
    let [_, refused] = connection::nfs(
        5,
        Auth::none(),
        &v3::Call::Null(()),
        &v3::Reply::Null(()),
        b"",
    );
    let mut denied = 5_u32.to_be_bytes().to_vec();
    for word in [1_u32, 1, 1, 5] {
        denied.extend_from_slice(&word.to_be_bytes());
    }
    let begin = |answer: Option<&Vec<u8>>| {
        let mut sent = vec![(0, probe.clone())];
        sent.extend(answer.map(|answer| (1, answer.clone())));
        sent
    };
    let answers = [
        Some(record(&refused)),
        Some(record(&denied)),
        Some(agreed),
        None,
    ];
    for (answer, may_begin) in answers.iter().zip([false, false, true, true]) {
        let mut sent = begin(answer.as_ref());
        sent.push((0, write[..data_at].to_vec()));
        sent.push((0, write[data_at..].to_vec()));
        let (rows, counters) = run(&conversation(&sent));
        assert_eq!(rows.operations.len(), 2, "{answer:?}");
        assert_eq!(counters.value(Counter::ConnectionsTls), 0, "{answer:?}");

        let mut sent = begin(answer.as_ref());
        sent.push((0, hello.clone()));
        let (_, counters) = run(&conversation(&sent));
        assert_eq!(
            counters.value(Counter::ConnectionsTls),
            u64::from(may_begin),
            "{answer:?}"
        );
    }
}

#[test]
fn tls_is_counted_and_never_read() {
    let [plain_call, plain_reply] = connection::nfs(
        9,
        Auth::none(),
        &v3::Call::Null(()),
        &v3::Reply::Null(()),
        b"",
    );
    let [probe, answer] = tls_probe();
    // Perfect RPC inside TLS is none.
    let inside = record(&plain_call).repeat(20);
    let mut hello = tls_record(22, &inside);
    hello.extend(tls_record(23, &inside));
    let frames = conversation(&[
        (0, probe),
        (1, answer),
        (0, hello),
        (1, tls_record(22, &record(&plain_reply))),
        (0, tls_record(23, &inside)[..7].to_vec()),
        (0, tls_record(23, &inside)[7..].to_vec()),
    ]);
    let (rows, counters) = run(&frames);
    let told: Vec<_> = rows.operations.iter().map(|row| row.auth_flavor).collect();
    assert_eq!(told, [Word::Known("tls")]);
    assert_eq!(counters.value(Counter::TlsRecords), 4);
    assert_eq!(counters.value(Counter::ConnectionsTls), 1);
    assert!(rows.connections.iter().all(|row| row.tls_seen));

    // Without the probe it is a stream like any other, in which nothing is found either.
    let frames = conversation(&[(0, tls_record(22, b"hello")), (1, tls_record(22, b"hello"))]);
    let (rows, counters) = run(&frames);
    assert_eq!(rows.operations.len(), 0);
    assert_eq!(counters.value(Counter::ConnectionsTls), 0);
}
