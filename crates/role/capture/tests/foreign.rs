//! What is not RPC in the clear: named and counted, and RPC beside it is read.

mod connection;

use lineside_account::{Budget, Counter, Counters};
use lineside_capture::{Config, DecodeAs, Pipeline, PortRule, Transport};
use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_nfs::v3;
use lineside_rows::CollectedRows;
use lineside_rpc::message::{Auth, encode_record};
use lineside_wire::TcpFlags;
use lineside_wire::build::FrameBuilder;

use connection::{CLIENT, SERVER, SERVER_PORT, TcpConnection};

const HELLO: &[u8] = &[22, 3, 1, 0, 9, 1, 0, 0, 5, 3, 3, 0, 0, 0];
const RECORDS: &[u8] = &[23, 3, 3, 0, 2, 7, 7, 23, 3, 3, 0, 1, 7];

fn run(frames: &[Vec<u8>], decode_as: DecodeAs) -> (CollectedRows, Counters) {
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
            number,
            ordinal: number,
            ..Descriptor::default()
        };
        burst.push(Frame::copied(bytes, descriptor));
        pipeline.on_burst(&mut burst);
    }
    let (rows, counters) = pipeline.finish();
    assert_eq!(counters.broken_identity(), None);
    (rows, counters)
}

/// A connection of the NFS server's port, or of another one in its place.
fn connection(is_begun: bool, port: u16, pieces: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut connection = TcpConnection::new(40_000, [100, 200]);
    let mut frames = match is_begun {
        true => connection.handshake().to_vec(),
        false => Vec::new(),
    };
    for (at, piece) in pieces.iter().enumerate() {
        frames.push(connection.segment(at % 2, TcpFlags::ACK, piece));
    }
    for frame in &mut frames {
        for at in [34, 36] {
            if frame[at..at + 2] == SERVER_PORT.to_be_bytes() {
                frame[at..at + 2].copy_from_slice(&port.to_be_bytes());
            }
        }
        // A checksum that was left to the adapter proves nothing.
        frame[50..52].fill(0);
    }
    frames
}

#[test]
fn tls_of_rpc_is_known_by_its_port() {
    let pieces = [HELLO, HELLO, RECORDS, RECORDS];
    let len: usize = pieces.iter().map(|piece| piece.len()).sum();
    let forced = DecodeAs {
        ports: vec![(Transport::Tcp, 443..=443, PortRule::Rpc)],
        ..DecodeAs::default()
    };
    for is_begun in [true, false] {
        for (port, rule, is_of_rpc) in [
            (2049, DecodeAs::default(), true),
            (111, DecodeAs::default(), true),
            (443, DecodeAs::default(), false),
            (443, forced.clone(), true),
        ] {
            // Records in a row show it where the handshake came before the capture.
            let pieces = if is_begun { &pieces[..] } else { &pieces[2..] };
            let len = if is_begun { len } else { 2 * RECORDS.len() };
            let (rows, counters) = run(&connection(is_begun, port, pieces), rule);
            let found = [
                Counter::ConnectionsTls,
                Counter::TlsBytes,
                Counter::ConnectionsTlsOther,
                Counter::TlsOtherBytes,
            ]
            .map(|counter| counters.value(counter));
            let expected = [1, len as u64];
            match is_of_rpc {
                true => assert_eq!(found, [1, len as u64, 0, 0], "{port}"),
                false => assert_eq!(found[2..], expected, "{port}"),
            }
            assert!(rows.connections.iter().any(|row| row.tls_seen));
        }
    }
}

#[test]
fn iwarp_smb_roce_and_sflow_are_counted_by_name() {
    let smb = [&[0, 0, 0, 60, 0xfd, b'S', b'M', b'B'][..], &[7; 56]].concat();
    let clear = [&[0, 0, 0, 60, 0xfe, b'S', b'M', b'B'][..], &[7; 56]].concat();
    let mut frames = connection(true, 445, &[&clear, &clear, &smb, &smb]);
    frames.extend(connection(
        true,
        20_049,
        &[b"MPA ID Req Frame\0\x01", b"MPA ID Rep Frame"],
    ));
    let ends = FrameBuilder::new(CLIENT, SERVER);
    let bth = [&[4, 0x40, 0xff, 0xff][..], &[0; 28]].concat();
    let sample = [&[0, 0, 0, 5, 0, 0, 0, 1][..], &[0; 40]].concat();
    frames.push(ends.udp(50_000, 4791, &bth));
    frames.push(ends.udp(50_000, 6343, &sample));
    // To these ports, but something else.
    frames.push(ends.udp(50_000, 4791, &[0xff; 40]));
    frames.push(ends.udp(50_000, 6343, &[0xff; 40]));
    // RPC beside it is read.
    let null = (v3::Call::Null(()), v3::Reply::Null(()));
    let messages = connection::nfs(9, Auth::none(), &null.0, &null.1, b"");
    let records = messages.map(|message| {
        let mut record = Vec::new();
        encode_record(&[], &message, &mut record);
        record
    });
    frames.extend(connection(
        true,
        2050,
        &records.each_ref().map(Vec::as_slice),
    ));
    let (rows, counters) = run(&frames, DecodeAs::default());
    assert_eq!(rows.operations.len(), 1);
    for (counter, expected) in [
        (Counter::SmbEncryptedBytes, 256),
        (Counter::IwarpBytes, 34),
        (Counter::RoceBytes, 32),
        (Counter::SflowBytes, 48),
        (Counter::TlsBytes, 0),
    ] {
        assert_eq!(counters.value(counter), expected, "{}", counter.name());
    }
}
