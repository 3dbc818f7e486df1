//! Calls that come again: after others, after a minute, on another connection; and other calls with
//! the same xid.

use super::*;

pub(super) const CALL: usize = 0;
pub(super) const REPLY: usize = 1;
const SECOND_NS: i64 = 1_000_000_000;

pub(super) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A LOOKUP of a name, and its reply with a handle.
pub(super) fn lookup(xid: u32, name: &[u8], handle: u32) -> [Vec<u8>; 2] {
    lookup_by(1000, xid, name, handle)
}

/// The same by a user.
pub(super) fn lookup_by(user: u32, xid: u32, name: &[u8], handle: u32) -> [Vec<u8>; 2] {
    let mut call = words(&[xid, 0, 2, 100_003, 3, 3, 1, 20, 9, 0, user, 100, 0, 0, 0]);
    call.extend(words(&[8, 1, 1]));
    call.extend(words(&[name.len() as u32]));
    call.extend_from_slice(name);
    call.resize(call.len().next_multiple_of(4), 0);
    let reply = words(&[xid, 1, 0, 0, 0, 0, 0, 8, 2, handle, 0, 0]);
    [call, reply]
}

/// Messages of one client, over TCP or UDP.
pub(super) struct Wire {
    is_udp: bool,
    pub(super) connection: TcpConnection,
    pub(super) now_ns: i64,
    pub(super) frames: Vec<capture::Frame>,
}

impl Wire {
    pub(super) fn new(is_udp: bool) -> Self {
        let mut wire = Self {
            is_udp,
            connection: TcpConnection::new(700, [1, 1]),
            now_ns: SECOND_NS,
            frames: Vec::new(),
        };
        wire.connect(700);
        wire
    }

    /// The client opens another connection.
    pub(super) fn connect(&mut self, port: u16) {
        self.connection = TcpConnection::new(port, [77, 77]);
        if !self.is_udp {
            for frame in self.connection.handshake() {
                self.push(frame);
            }
        }
    }

    pub(super) fn push(&mut self, bytes: Vec<u8>) {
        self.now_ns += 1_000_000;
        self.frames.push(capture::Frame {
            stamp_ns: Some(self.now_ns),
            wire_len: bytes.len() as u32,
            link_type: 1,
            bytes,
        });
    }

    pub(super) fn send(&mut self, direction: usize, message: &[u8]) {
        let frame = match self.is_udp {
            true => {
                let (from, to) = [(CLIENT, SERVER), (SERVER, CLIENT)][direction];
                let port = self.connection.port;
                let ports = [(port, SERVER_PORT), (SERVER_PORT, port)][direction];
                let builder = FrameBuilder::new(from, to);
                let builder = builder.with_identification(self.frames.len() as u32);
                builder.udp(ports.0, ports.1, message)
            }
            false => {
                let message = record(message);
                let flags = TcpFlags::ACK;
                self.connection.segment(direction, flags, &message)
            }
        };
        self.push(frame);
    }

    /// A message over TCP in two segments.
    pub(super) fn send_in_two(&mut self, direction: usize, message: &[u8]) {
        let len = record(message).len() / 2 + 1;
        self.send_in(direction, message, len, 0..0);
    }

    /// A message over TCP in segments of `len` bytes, of which some are `lost`.
    pub(super) fn send_in(
        &mut self,
        direction: usize,
        message: &[u8],
        len: usize,
        lost: std::ops::Range<usize>,
    ) {
        for (number, part) in record(message).chunks(len).enumerate() {
            self.send_bytes(direction, part);
            if lost.contains(&number) {
                self.frames.pop();
            }
        }
    }

    /// A segment.
    pub(super) fn send_bytes(&mut self, direction: usize, bytes: &[u8]) {
        let frame = self.connection.segment(direction, TcpFlags::ACK, bytes);
        self.push(frame);
    }

    pub(super) fn answered(&mut self, [call, reply]: &[Vec<u8>; 2]) {
        self.send(CALL, call);
        self.send(REPLY, reply);
    }

    pub(super) fn others(&mut self, count: u32) {
        for xid in 0..count {
            self.answered(&lookup(1_000_000 + xid, b"other", 9));
        }
    }

    pub(super) fn end(&mut self, direction: usize, flags: TcpFlags) {
        let frame = self.connection.segment(direction, flags, b"");
        self.push(frame);
    }

    fn rows(&self) -> (Vec<OperationRow>, CollectedRows, Counters) {
        let (rows, counters) = run(&self.frames);
        let mut operations: Vec<_> = rows.operations.clone();
        operations.retain(|row| row.xid == Some(7));
        operations.sort_by_key(|row| row.operation_id);
        (operations, rows, counters)
    }

    /// Which rows are repeats; each has the first one's id, whatever came between.
    fn repeats(&self) -> Vec<bool> {
        let rows = self.rows().0;
        let first = rows.first().map(|row| row.rpc_id);
        for row in &rows {
            assert_eq!(row.repeat_of, first.filter(|_| row.repeat));
        }
        rows.iter().map(|row| row.repeat).collect()
    }
}

/// A connection that has ended still holds a call when days pass, in one burst or in many.
#[test]
fn calls_of_an_ended_connection_count_whatever_bursts() {
    let mut wire = Wire::new(false);
    wire.send(CALL, &lookup(1, b"a", 70)[CALL]);
    // The tap misses the reply, which the next call acknowledges.
    let reply = record(&lookup(1, b"a", 70)[REPLY]);
    wire.connection.segment(REPLY, TcpFlags::ACK, &reply);
    wire.send(CALL, &lookup(2, b"b", 71)[CALL]);
    for direction in [CALL, REPLY] {
        wire.end(direction, TcpFlags::FIN | TcpFlags::ACK);
    }
    wire.connect(800);
    for day in 0..10 {
        wire.now_ns += 86_400 * SECOND_NS;
        wire.answered(&lookup(3 + day, b"c", 72));
    }
    for burst_len in [1, 2, 7, usize::MAX] {
        let (rows, _) = run_in_bursts(&wire.frames, Config::default(), burst_len);
        let ended = rows
            .connections
            .iter()
            .find(|row| row.client_port == Some(700));
        let outstanding_max = ended.map(|row| row.outstanding_max);
        assert_eq!(outstanding_max, Some(2), "in bursts of {burst_len}");
    }
}

#[test]
fn an_xid_with_other_arguments_is_another_call() {
    let long = |last: u8| [[b'n'; 254].as_slice(), &[last]].concat();
    for is_udp in [false, true] {
        for [a, b] in [[b"a".to_vec(), b"b".to_vec()], [long(b'a'), long(b'b')]] {
            let (first, second) = (lookup(7, &a, 70), lookup(7, &b, 71));
            let file = |handle: u32| lineside_capture::file_id(SERVER, &words(&[2, handle]));
            // The first one got no reply.
            let mut wire = Wire::new(is_udp);
            wire.send(CALL, &first[CALL]);
            wire.answered(&second);
            let (operations, rows, _) = wire.rows();
            let [one, other] = operations.as_slice() else {
                panic!("two calls: {operations:#?}")
            };
            assert!(one.reply_missing && one.retransmissions == 0);
            assert_eq!(one.name.bytes(), Some(a.as_slice()));
            assert_eq!(other.result_file_id, Some(file(71)));
            assert_eq!(other.name.bytes(), Some(b.as_slice()));
            let named = rows.files.iter().filter(|row| row.name.bytes().is_some());
            assert_eq!(named.count(), 0, "the reply may be the first one's");
            assert!(one.reply_ambiguous && other.reply_ambiguous);

            // Both got one, in the order of the calls or not: nobody knows.
            let mut wire = Wire::new(is_udp);
            for message in [&first[CALL], &second[CALL]] {
                wire.send(CALL, message);
            }
            for message in [&first[REPLY], &second[REPLY]] {
                wire.send(REPLY, message);
            }
            let (operations, rows, counters) = wire.rows();
            let flags: Vec<_> = operations.iter().map(|row| row.reply_ambiguous).collect();
            assert_eq!(flags, [true, true]);
            assert!(rows.files.iter().all(|row| row.name.is_null()));
            assert_eq!(counters.value(Counter::RepliesAmbiguous), 1);

            // It got one.
            let mut wire = Wire::new(is_udp);
            wire.answered(&first);
            wire.answered(&second);
            let (operations, rows, counters) = wire.rows();
            let found: Vec<_> = operations
                .iter()
                .map(|row| (row.name.bytes(), row.result_file_id, row.repeat))
                .collect();
            let expected = [
                (Some(a.as_slice()), Some(file(70)), false),
                (Some(b.as_slice()), Some(file(71)), false),
            ];
            assert_eq!(found, expected);
            assert!(operations.iter().all(|row| !row.reply_ambiguous));
            assert_eq!(counters.value(Counter::CallsRepeated), 0);
            let named = rows.files.iter().filter(|row| row.name.bytes().is_some());
            assert_eq!(named.count(), 2);
        }
    }
}

/// GETATTR of two files with one xid, and one reply: nobody knows whose type it has.
#[test]
fn attributes_that_may_be_of_another_file_are_no_fact() {
    let call = |handle| words(&[7, 0, 2, 100_003, 3, 1, 0, 0, 0, 0, 8, 2, handle]);
    let attributes = [[1; 1].as_slice(), &[0; 20]].concat();
    let reply = words(&[[7, 1, 0, 0, 0, 0, 0].as_slice(), &attributes].concat());
    for is_ambiguous in [false, true] {
        let mut wire = Wire::new(false);
        if is_ambiguous {
            wire.send(CALL, &call(70));
        }
        wire.answered(&[call(71), reply.clone()]);
        let (operations, rows, _) = wire.rows();
        assert_eq!(operations.len(), 1 + usize::from(is_ambiguous));
        assert!(!rows.files.is_empty());
        let typed = rows.files.iter().any(|row| row.file_type != Word::None);
        assert_eq!(typed, !is_ambiguous);
    }
}

#[test]
fn a_call_that_comes_again_after_many_others_is_a_repeat() {
    for (is_udp, after_ns) in [(true, SECOND_NS), (false, 60 * SECOND_NS)] {
        let mut wire = Wire::new(is_udp);
        let call = lookup(7, b"a", 70);
        wire.answered(&call);
        wire.others(600);
        wire.now_ns += after_ns;
        wire.answered(&call);
        wire.others(600);
        wire.answered(&call);
        // With other arguments it is another.
        wire.answered(&lookup(7, b"b", 71));
        assert_eq!(wire.repeats(), [false, true, true, false]);
    }
}

#[test]
fn a_reply_that_comes_again_after_many_others_has_its_call() {
    for is_udp in [true, false] {
        let mut wire = Wire::new(is_udp);
        let call = lookup(7, b"a", 70);
        wire.answered(&call);
        wire.others(600);
        wire.send(REPLY, &call[REPLY]);
        let (operations, _, counters) = wire.rows();
        assert_eq!(operations.len(), 1);
        assert_eq!(counters.value(Counter::RepliesDuplicate), 1);
        assert_eq!(counters.value(Counter::RepliesWithoutCall), 0);

        // A call that was sent twice waits for its second reply.
        let mut wire = Wire::new(is_udp);
        wire.send(CALL, &call[CALL]);
        wire.answered(&call);
        wire.others(600);
        wire.send(REPLY, &call[REPLY]);
        let (operations, ..) = wire.rows();
        let [row] = operations.as_slice() else {
            panic!("one call: {operations:#?}")
        };
        assert_eq!((row.retransmissions, row.duplicate_replies), (1, 1));
    }
}

#[test]
fn a_call_that_comes_again_after_a_reset_is_a_repeat() {
    let (reset, fin) = (TcpFlags::RST | TcpFlags::ACK, TcpFlags::FIN | TcpFlags::ACK);
    let call = lookup(7, b"a", 70);
    // Whether it was answered before, how the connection ended, and whether it is a repeat.
    for (is_answered, ends, port, is_repeat) in [
        (true, &[(0, reset)][..], 700, true),
        (true, &[(1, reset)], 701, true),
        (false, &[(0, reset)], 701, true),
        (false, &[(0, fin), (1, fin)], 701, true),
        (false, &[(0, fin), (1, fin)], 700, true),
        // The client had its reply: a program that begins with the same xid each time.
        (true, &[(0, fin), (1, fin)], 701, false),
    ] {
        let mut wire = Wire::new(false);
        wire.send(CALL, &call[CALL]);
        if is_answered {
            wire.send(REPLY, &call[REPLY]);
        }
        for &(direction, flags) in ends {
            wire.end(direction, flags);
        }
        wire.connect(port);
        wire.answered(&call);
        wire.answered(&lookup(8, b"b", 71));
        let what = format!("{is_answered} {ends:?} {port}");
        assert_eq!(wire.repeats(), [false, is_repeat], "{what}");
    }
}

/// The end of a capture, or a hole, may lie behind a reply's first words: its xid and its type are
/// enough to know whose it is.
#[test]
fn a_reply_that_is_cut_behind_its_type_answers_its_call() {
    let [call, reply] = lookup(7, b"a", 70);
    for (kept, is_answered) in [(7, false), (8, true)] {
        let mut wire = Wire::new(false);
        wire.others(2);
        wire.send(CALL, &call);
        let begun = &record(&reply)[..4 + kept];
        let frame = wire.connection.segment(REPLY, TcpFlags::ACK, begun);
        wire.push(frame);
        let (operations, ..) = wire.rows();
        let [row] = operations.as_slice() else {
            panic!("one call: {operations:#?}")
        };
        let seen = (row.reply_time_ns.is_some(), row.reply_incomplete);
        assert_eq!(seen, (is_answered, is_answered), "{kept} bytes");
        assert_eq!(row.reply_missing, !is_answered, "{kept} bytes");
    }
}
