//! What operations waited for where a known segment is lost: the columns of recovery, and what the
//! connection counts.

use super::*;

const MS: i64 = 1_000_000;

/// When a segment passes the tap: steps in a millisecond.
const fn at_ms(ms: u64) -> u64 {
    ms * (MS / STEP_NS) as u64
}

/// Two calls and their replies as records, each in two segments.
struct Conversation {
    connection: TcpConnection,
    passes: Sent,
}

impl Conversation {
    /// After its handshake, which takes 0.1 ms.
    fn new() -> Self {
        let mut connection = TcpConnection::new(700, [1_000, 9_000]);
        let handshake = connection.handshake();
        Self {
            connection,
            passes: (0..).zip(handshake).collect(),
        }
    }

    /// The segments of a message, whether they pass or not.
    fn halves(&mut self, direction: usize, xid: u32) -> [Vec<u8>; 2] {
        let (call, reply) = (v3::Call::Null(()), v3::Reply::Null(()));
        let record = record(&connection::nfs(xid, Auth::none(), &call, &reply, b"")[direction]);
        let (first, rest) = record.split_at(record.len() / 2);
        [first, rest].map(|part| self.connection.segment(direction, TcpFlags::ACK, part))
    }

    fn pass(&mut self, ms: u64, segments: impl IntoIterator<Item = Vec<u8>>) {
        self.passes
            .extend(segments.into_iter().map(|segment| (at_ms(ms), segment)));
    }

    /// By call, in milliseconds: what it and its reply waited for. And what each end sent again, in
    /// all and by timeout.
    #[expect(clippy::type_complexity, reason = "a pair of each")]
    fn waits(self) -> (Vec<(Option<i64>, Option<i64>)>, [(i64, i64); 2]) {
        let (rows, _) = run(&merge(&[self.passes]));
        let mut operations: Vec<&OperationRow> = rows.operations.iter().collect();
        operations.sort_by_key(|row| row.xid);
        let ms = |ns: Option<i64>| ns.map(|ns| ns / MS);
        let waits = { operations.iter() }
            .map(|row| (ms(row.call_recovery_ns), ms(row.reply_recovery_ns)))
            .collect();
        let [of] = &rows.connections[..] else {
            panic!("{:?}", rows.connections);
        };
        let again = [
            (of.client_retransmissions, of.client_timeout_retransmissions),
            (of.server_retransmissions, of.server_timeout_retransmissions),
        ];
        (waits, again)
    }
}

#[test]
fn nothing_waits_where_nothing_is_lost() {
    let mut talk = Conversation::new();
    for (ms, xid) in [(1, 1), (5, 2)] {
        let call = talk.halves(0, xid);
        talk.pass(ms, call);
        let reply = talk.halves(1, xid);
        talk.pass(ms + 2, reply);
    }
    assert_eq!(talk.waits(), (vec![(None, None); 2], [(0, 0); 2]));
}

#[test]
fn a_call_waits_for_its_lost_segment() {
    // Lost before the tap: the next call shows it 1 ms later.
    let mut talk = Conversation::new();
    let [begin, lost] = talk.halves(0, 1);
    let next = talk.halves(0, 2);
    talk.pass(1, [begin]);
    talk.pass(2, next);
    talk.pass(202, [lost]);
    let replies = [1, 2].map(|xid| talk.halves(1, xid));
    talk.pass(204, replies.into_iter().flatten());
    let waits = vec![(Some(200), None), (Some(200), None)];
    assert_eq!(talk.waits(), (waits, [(1, 1), (0, 0)]));

    // Lost behind the tap, which sees it twice; the next call is sent when that has come.
    let mut talk = Conversation::new();
    let [begin, lost] = talk.halves(0, 1);
    talk.pass(1, [begin, lost.clone()]);
    talk.pass(301, [lost]);
    let reply = talk.halves(1, 1);
    talk.pass(302, reply);
    let next = talk.halves(0, 2);
    talk.pass(303, next);
    let reply = talk.halves(1, 2);
    talk.pass(304, reply);
    let waits = vec![(Some(300), None), (None, None)];
    assert_eq!(talk.waits(), (waits, [(1, 1), (0, 0)]));
}

#[test]
fn a_reply_waits_for_its_lost_segment() {
    let mut talk = Conversation::new();
    let calls = [1, 2].map(|xid| talk.halves(0, xid));
    talk.pass(1, calls.into_iter().flatten());
    let [begin, lost] = talk.halves(1, 1);
    let next = talk.halves(1, 2);
    talk.pass(3, [begin]);
    talk.pass(4, next);
    talk.pass(254, [lost]);
    let waits = vec![(None, Some(250)), (None, Some(250))];
    assert_eq!(talk.waits(), (waits, [(0, 0), (1, 1)]));
}
