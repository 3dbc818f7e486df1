//! Connections that go over to TLS.

use super::*;

/// A NULL call that requests TLS, and the answer of a server that agrees.
fn tls_probe() -> [Vec<u8>; 2] {
    let [probe, mut answer] = connection::nfs(
        5,
        Auth::new(Flavor::TLS, &[]),
        &v3::Call::Null(()),
        &v3::Reply::Null(()),
        b"",
    );
    // After the xid, the type, the state and the verifier's flavor.
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
    let flavors: Vec<_> = rows.operations.iter().map(|row| row.auth_flavor).collect();
    assert_eq!(flavors, [Word::Known("tls")]);
    assert_eq!(counters.value(Counter::TlsRecords), 4);
    assert_eq!(counters.value(Counter::ConnectionsTls), 1);
    assert!(rows.connections.iter().all(|row| row.tls_seen));

    // Without the probe it is TLS all the same: RPC has no such records at its port.
    let frames = conversation(&[(0, tls_record(22, b"hello")), (1, tls_record(22, b"hello"))]);
    let (rows, counters) = run(&frames);
    assert_eq!(rows.operations.len(), 0);
    assert_eq!(counters.value(Counter::ConnectionsTls), 1);
}
