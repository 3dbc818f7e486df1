//! What content alone does not find, or should not: rules of `--decode-as`.

mod connection;

use lineside_account::{Budget, Counter, Counters};
use lineside_capture::{Config, DecodeAs, Pipeline, PortRule, Transport};
use lineside_frame::{Burst, Descriptor, Frame, LinkType, Piece};
use lineside_nfs::v3;
use lineside_rows::{CollectedRows, OperationRow, Word};
use lineside_rpc::message::{Auth, encode_record};
use lineside_rpc::xdr::{Handle, Outcome};
use lineside_wire::TcpFlags;
use lineside_wire::build::FrameBuilder;

use connection::{CLIENT, SERVER, SERVER_PORT, TcpConnection};

/// Calls of a connection.
const CALLS: u32 = 5;

/// GETATTRs of a file that is gone, with their program's number set.
fn messages(program: u32) -> Vec<[Vec<u8>; 2]> {
    let handle = [Piece::bytes(b"a handle")];
    let file = Some(Handle::new(&handle));
    let call = v3::Call::GetAttr(v3::FileArgs { file });
    let reply = v3::Reply::GetAttr(Outcome::Fail(v3::Status::STALE.0, ()));
    let one = |xid| {
        let mut messages = connection::nfs(xid, Auth::none(), &call, &reply, b"");
        messages[0][12..16].copy_from_slice(&program.to_be_bytes());
        messages
    };
    (1..=CALLS).map(one).collect()
}

/// A connection that begins with bytes of another protocol, as a proxy sends them.
fn tcp(begins_with: &[u8], program: u32) -> Vec<Vec<u8>> {
    let mut connection = TcpConnection::new(700, [100, 200]);
    let mut frames = connection.handshake().to_vec();
    if !begins_with.is_empty() {
        frames.push(connection.segment(0, TcpFlags::ACK, begins_with));
    }
    for message in messages(program) {
        for (direction, message) in message.iter().enumerate() {
            let mut record = Vec::new();
            encode_record(&[], message, &mut record);
            frames.push(connection.segment(direction, TcpFlags::ACK, &record));
        }
    }
    frames
}

fn udp(program: u32) -> Vec<Vec<u8>> {
    let ends = [(CLIENT, 700), (SERVER, SERVER_PORT)];
    let datagram = |direction: usize, message: &Vec<u8>| {
        let (from, to) = (ends[direction], ends[1 - direction]);
        FrameBuilder::new(from.0, to.0).udp(from.1, to.1, message)
    };
    let both = |pair: [Vec<u8>; 2]| [datagram(0, &pair[0]), datagram(1, &pair[1])];
    messages(program).into_iter().flat_map(both).collect()
}

fn run(frames: &[Vec<u8>], decode_as: DecodeAs) -> (Vec<OperationRow>, Counters) {
    let config = Config {
        decode_as,
        ..Config::default()
    };
    let budget = Budget::new(64 << 20);
    let mut pipeline = Pipeline::new(config, &budget, CollectedRows::default());
    let mut burst = Burst::new();
    for (bytes, number) in frames.iter().zip(1..) {
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
    (rows.operations, counters)
}

fn port(transport: Transport, rule: PortRule) -> DecodeAs {
    DecodeAs {
        ports: vec![(transport, SERVER_PORT..=SERVER_PORT, rule)],
        ..DecodeAs::default()
    }
}

fn program(from: u32, to: u32) -> DecodeAs {
    DecodeAs {
        programs: vec![(from, to)],
        ..DecodeAs::default()
    }
}

/// All calls were found, with their replies, as GETATTRs.
fn assert_all(rows: &[OperationRow]) {
    assert_eq!(rows.len(), CALLS as usize, "{rows:#?}");
    for row in rows {
        assert_eq!(row.operation, Word::Known("GETATTR"), "{row:?}");
        assert_eq!(row.status, Word::Known("NFS3ERR_STALE"), "{row:?}");
        assert!(!row.reply_missing && !row.call_missing, "{row:?}");
    }
}

#[test]
fn rpc_after_a_proxy_header_is_found() {
    // Version 2 of HAProxy's header: signature, PROXY over TCP and IPv4, 12 bytes of addresses and
    // ports.
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend([192, 0, 2, 1, 192, 0, 2, 2, 3, 0, 8, 1]);
    for header in [&header[..], b"PROXY TCP4 192.0.2.1 192.0.2.2 768 2049\r\n"] {
        let frames = tcp(header, v3::PROGRAM);
        let (rows, _) = run(&frames, DecodeAs::default());
        // A reply without its call shows that there is RPC.
        assert!(rows.iter().any(|row| row.call_missing), "{rows:#?}");
        let (rows, counters) = run(&frames, port(Transport::Tcp, PortRule::Rpc));
        assert_all(&rows);
        assert_eq!(counters.value(Counter::ConnectionsForced), 1);
        assert_eq!(counters.value(Counter::ConnectionsForcedInVain), 0);
    }
}

#[test]
fn a_rule_names_a_program_with_a_private_number() {
    const USER: u32 = 0x2000_0003;
    for frames in [tcp(b"", USER), udp(USER)] {
        let (rows, _) = run(&frames, DecodeAs::default());
        assert!(rows.iter().all(|row| row.call_missing), "{rows:#?}");
        let (rows, counters) = run(&frames, program(USER, v3::PROGRAM));
        assert_all(&rows);
        assert!(
            rows.iter()
                .all(|row| row.program_number == Some(USER.into()))
        );
        assert!(rows.iter().all(|row| row.program == Word::Known("nfs")));
        assert_eq!(counters.value(Counter::CallsDecodedAs), u64::from(CALLS));
        // The port's rule finds them too, and does not know what they are.
        let mut rules = port(Transport::Tcp, PortRule::Rpc);
        rules
            .ports
            .extend(port(Transport::Udp, PortRule::Rpc).ports);
        let (rows, _) = run(&frames, rules);
        assert_eq!(rows.len(), CALLS as usize);
        assert!(
            rows.iter()
                .all(|row| row.program == Word::Number(USER.into()))
        );
    }
}

#[test]
fn a_port_without_rpc_is_not_decoded() {
    for (frames, transport) in [
        (tcp(b"", v3::PROGRAM), Transport::Tcp),
        (udp(v3::PROGRAM), Transport::Udp),
    ] {
        let (rows, counters) = run(&frames, port(transport, PortRule::None));
        assert!(rows.is_empty(), "{rows:#?}");
        assert_eq!(counters.value(Counter::ConnectionsLeftAlone), 1);
        assert_eq!(counters.value(Counter::ConnectionsLeftAloneRpc), 1);
        // Of two rules the last one counts.
        let mut rules = port(transport, PortRule::None);
        rules.ports.extend(port(transport, PortRule::Rpc).ports);
        assert_all(&run(&frames, rules).0);
    }
}

#[test]
fn a_rule_that_does_not_fit_loses_nothing() {
    let mut frames = tcp(b"", v3::PROGRAM);
    let plain = run(&frames, DecodeAs::default()).0;
    let rules = [
        port(Transport::Tcp, PortRule::Rpc),
        port(Transport::Udp, PortRule::None),
        program(7, 100_005),
    ];
    for rules in rules {
        assert_eq!(run(&frames, rules.clone()).0, plain, "{rules:?}");
    }
    // Bytes that are no RPC stay so, and are counted.
    frames = tcp(b"", v3::PROGRAM).into_iter().take(3).collect();
    let mut connection = TcpConnection::new(701, [100, 200]);
    frames.extend(connection.handshake());
    frames.push(connection.segment(0, TcpFlags::ACK, &b"GET / HTTP/1.1\r\n".repeat(200)[..1400]));
    let (rows, counters) = run(&frames, port(Transport::Tcp, PortRule::Rpc));
    assert!(rows.is_empty(), "{rows:#?}");
    assert_eq!(counters.value(Counter::ConnectionsForcedInVain), 2);
}
