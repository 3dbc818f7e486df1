//! Calls and replies that come twice, late, alone, or with an xid that was used before.

use super::*;

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
        // Every packet that is sent has a number of its own: the same one again would be a mirror's
        // copy.
        let builder = FrameBuilder::new(from, to).with_identification(number);
        builder.udp(ports.0, ports.1, &null(xid)[direction])
    };
    // Each line: what passes the tap, and what its one row or rows say: retransmissions, copies of
    // the reply, repeat.
    let (call, reply) = (0, 1);
    type Found = (i32, i32, bool);
    let cases: [(&[usize], &[Found]); 6] = [
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
        let mut listed: Vec<_> = rows
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
        listed.sort_unstable();
        assert_eq!(listed, expected, "{passes:?}");
    }
}

/// A reply whose call came before the capture began, and the same call again: a reply never answers
/// a later call.
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
    // After the mark: xid, type, RPC's version, program, version, procedure.
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
    let timeout_ns = 300_000_000_000;
    let config = Config {
        reply_timeout_ns: timeout_ns,
        ..Config::default()
    };
    for (waits_ns, answered, late) in [(timeout_ns / 2, 2, 0), (timeout_ns * 2, 1, 1)] {
        // From the second call on.
        let begin_ns = frames[3].stamp_ns.expect("a stamp") + waits_ns;
        for (frame, at) in frames[4..].iter_mut().zip(0..) {
            frame.stamp_ns = Some(begin_ns + at);
        }
        let (rows, counters) = run_with(&frames, config.clone());
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
    // After the mark: xid, type, RPC's version, program, version, procedure.
    let with = |at: usize, word: u32| {
        let mut first = messages(1)[0].clone();
        first[at..at + 4].copy_from_slice(&word.to_be_bytes());
        first
    };
    let any_version = with(20, u32::MAX);
    // A fragment of nothing before that with all bytes.
    let in_two = [vec![0; 4], messages(1)[0].clone()].concat();
    // Nothing shows that this is RPC before its answer.
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
