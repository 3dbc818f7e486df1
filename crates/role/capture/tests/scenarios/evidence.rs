//! What is believed over UDP, and where replies come from.

use std::net::{IpAddr, Ipv4Addr};

use super::*;

const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3));
const EVERYBODY: IpAddr = IpAddr::V4(Ipv4Addr::BROADCAST);

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

type End = (IpAddr, u16);

/// Datagrams: from where, to where, and what.
fn datagrams(sent: &[(End, End, Vec<u8>)]) -> Vec<capture::Frame> {
    let frames = sent.iter().zip(0..).map(|((from, to, bytes), number)| {
        let builder = FrameBuilder::new(from.0, to.0).with_identification(number);
        (u64::from(number), builder.udp(from.1, to.1, bytes))
    });
    merge(&[frames.collect()])
}

fn null(xid: u32) -> [Vec<u8>; 2] {
    let (call, reply) = (v3::Call::Null(()), v3::Reply::Null(()));
    connection::nfs(xid, Auth::none(), &call, &reply, b"")
}

#[test]
fn other_protocols_over_udp_are_no_operations() {
    // An NTP client's first packet: a root dispersion of 2, and the reference "INIT".
    let mut ntp = words(&[0xe300_06ec, 0, 2, u32::from_be_bytes(*b"INIT")]);
    ntp.resize(48, 0);
    // With the address of a server as its reference.
    let mut ntp_later = words(&[0xe300_06ec, 0, 2, 0x0a00_0002]);
    ntp_later.resize(48, 0);
    // A DHCP request with xid 1.
    let mut dhcp = words(&[0x0101_0600, 1]);
    dhcp.resize(300, 0);
    let mut game = words(&[77, 1, 1, 1, 5]);
    game.extend([0; 3]);
    for (what, port, bytes) in [
        ("NTP", 123, ntp),
        ("NTP", 123, ntp_later),
        ("DHCP", 67, dhcp),
        ("a game", 27_015, game),
    ] {
        let (client, server) = ((CLIENT, 40_000), (SERVER, port));
        let sent: Vec<_> = (0..5).map(|_| (client, server, bytes.clone())).collect();
        let back = sent
            .iter()
            .map(|(_, _, bytes)| (server, client, bytes.clone()));
        let both: Vec<_> = sent.iter().cloned().chain(back).collect();
        let sent = match what {
            // Its server answers with other numbers.
            "NTP" => &sent,
            _ => &both,
        };
        let (rows, counters) = run(&datagrams(sent));
        let value = |counter| counters.value(counter);
        assert!(rows.operations.is_empty(), "{what}: {:#?}", rows.operations);
        assert!(value(Counter::DatagramsDoubted) > 0, "{what}");
        assert_eq!(value(Counter::ConnectionsRpc), 0, "{what}");
        assert_eq!(value(Counter::RpcBytes), 0, "{what}");
        assert_eq!(
            value(Counter::RpcCalls) + value(Counter::Replies),
            0,
            "{what}"
        );
    }
}

#[test]
fn a_call_of_an_unknown_program_is_believed_once_it_is_answered() {
    let call = |xid| words(&[xid, 0, 2, 0x4000_0001, 1, 1, 0, 0, 0, 0]);
    let reply = |xid| words(&[xid, 1, 0, 0, 0, 0]);
    let (client, server) = ((CLIENT, 700), (SERVER, 5000));
    let calls: Vec<_> = (0..3).map(|xid| (client, server, call(xid))).collect();
    assert!(run(&datagrams(&calls)).0.operations.is_empty());
    let mut sent = calls;
    sent.push((server, client, reply(1)));
    let (rows, counters) = run(&datagrams(&sent));
    let [row] = rows.operations.as_slice() else {
        panic!("one operation: {:#?}", rows.operations)
    };
    assert_eq!((row.xid, row.reply_missing), (Some(1), false));
    assert_eq!(counters.value(Counter::ConnectionsRpc), 1);
    assert_eq!(counters.value(Counter::CallsUdp), 1);
    // From then on others are believed too.
    sent.push((client, server, call(9)));
    let (rows, counters) = run(&datagrams(&sent));
    assert_eq!(rows.operations.len(), 2);
    assert_eq!(counters.value(Counter::CallsUdpUnanswered), 1);
}

#[test]
fn a_reply_from_another_address_of_the_server_is_paired() {
    let [call, reply] = null(7);
    let client = (CLIENT, 700);
    let sent = [
        (client, (SERVER, SERVER_PORT), call),
        ((OTHER, SERVER_PORT), client, reply.clone()),
        ((OTHER, SERVER_PORT), client, reply),
    ];
    let (rows, counters) = run(&datagrams(&sent));
    let [row] = rows.operations.as_slice() else {
        panic!("one operation: {:#?}", rows.operations)
    };
    assert_eq!(row.server_address, Some(SERVER), "as it was called");
    assert_eq!((row.reply_frame, row.duplicate_replies), (Some(2), 1));
    assert_eq!(counters.value(Counter::RepliesWithoutCall), 0);
}

#[test]
fn replies_to_a_broadcast_belong_to_its_call() {
    // portmap's NULL.
    let call = words(&[7, 0, 2, 100_000, 2, 0, 0, 0, 0, 0]);
    let reply = words(&[7, 1, 0, 0, 0, 0]);
    let client = (CLIENT, 700);
    let sent = [
        (client, (EVERYBODY, 111), call),
        ((SERVER, 111), client, reply.clone()),
        ((OTHER, 111), client, reply),
    ];
    let (rows, counters) = run(&datagrams(&sent));
    let [row] = rows.operations.as_slice() else {
        panic!("one operation: {:#?}", rows.operations)
    };
    assert_eq!((row.reply_missing, row.duplicate_replies), (false, 1));
    assert_eq!(counters.value(Counter::RepliesWithoutCall), 0);
}

#[test]
fn replies_before_their_call_are_one_and_its_copies() {
    let [call, reply] = null(7);
    let (client, server) = ((CLIENT, 700), (SERVER, SERVER_PORT));
    let sent = [
        (server, client, reply.clone()),
        (server, client, reply),
        (client, server, call),
    ];
    let (rows, counters) = run(&datagrams(&sent));
    let [row] = rows.operations.as_slice() else {
        panic!("one operation: {:#?}", rows.operations)
    };
    assert_eq!((row.reply_frame, row.duplicate_replies), (Some(1), 1));
    assert_eq!(counters.value(Counter::Replies), 2);
    assert_eq!(counters.value(Counter::RepliesDuplicate), 1);
}
