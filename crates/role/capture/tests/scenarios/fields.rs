//! Fields that contradict each other, headers that a snap length cut, and names that change.

use super::again::{CALL, REPLY, Wire, lookup};
use super::*;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn call(xid: u32, version: u32, procedure: u32, arguments: &[u32]) -> Vec<u8> {
    let mut out = words(&[xid, 0, 2, 100_003, version, procedure, 0, 0, 0, 0]);
    out.extend(words(arguments));
    out
}

/// A GETATTR with a credential of AUTH_SYS that has this body.
fn call_of(xid: u32, body: &[u32]) -> Vec<u8> {
    let mut out = words(&[xid, 0, 2, 100_003, 3, 1, 1, 4 * body.len() as u32]);
    out.extend(words(body));
    out.extend(words(&[0, 0, 8, 1, 1]));
    out
}

fn reply(xid: u32, results: &[u32]) -> Vec<u8> {
    let mut out = words(&[xid, 1, 0, 0, 0, 0]);
    out.extend(words(results));
    out
}

/// The operations of a conversation of calls and replies, and all rows.
fn rows(messages: &[[Vec<u8>; 2]]) -> (Vec<OperationRow>, CollectedRows, Counters) {
    let sent = messages
        .iter()
        .flat_map(|[call, reply]| [(0, record(call)), (1, record(reply))]);
    let (rows, counters) = run(&conversation(&sent.collect::<Vec<_>>()));
    (rows.operations.clone(), rows, counters)
}

#[test]
fn counts_that_contradict_their_data_set_a_flag() {
    let write = |count| {
        // Handle, offset, count, how, data.
        let arguments = [8, 1, 1, 0, 0, count, 0, 4, 0xaaaa_aaaa];
        [call(1, 3, 7, &arguments), reply(1, &[0, 0, 0, 4, 0, 1, 1])]
    };
    let read = |count| {
        // No attributes, count, end, data.
        let results = [0, 0, count, 1, 4, 0xaaaa_aaaa];
        [call(2, 3, 6, &[8, 1, 1, 0, 0, 4]), reply(2, &results)]
    };
    for (count, is_wrong) in [(4, false), (8, true), (0, true)] {
        let (operations, _, counters) = rows(&[write(count), read(count)]);
        let found: Vec<_> = operations
            .iter()
            .map(|row| (row.call_incomplete, row.reply_incomplete))
            .collect();
        assert_eq!(found, [(is_wrong, false), (false, is_wrong)], "{count}");
        let malformed = counters.value(Counter::RecordsMalformed);
        assert_eq!(malformed, 2 * u64::from(is_wrong));
    }
}

/// The second call of each pair has the bytes of the first again, which takes the fast path.
#[test]
fn credentials_give_groups_host_and_stamp_whatever_they_hold() {
    let short = u32::from_be_bytes(*b"box\0");
    let groups = |count: u32| [&[7, 3, short, 5, 6, count][..], &[u32::MAX; 16]].concat();
    let all = groups(16);
    let mut long = vec![7, 255];
    long.extend([u32::from_be_bytes(*b"long"); 64]);
    long.extend([5, 6, 1, 9]);
    let mut longer = long.clone();
    longer[1] = 256;
    let most = vec![u32::MAX.to_string(); 16].join(",");
    // Bytes of the host's name, and the groups.
    type Expected<'a> = Option<(usize, &'a str)>;
    let cases: [(&[u32], Expected<'_>); 8] = [
        (&[7, 3, short, 5, 6, 0], Some((3, ""))),
        (&[7, 0, 5, 6, 2, 0, 4], Some((0, "0,4"))),
        (&all, Some((3, &most))),
        (&long, Some((255, "9"))),
        // A host, groups that are too many, and lengths beyond the body.
        (&longer, None),
        (&groups(17), None),
        (&[7, u32::MAX, short, 5, 6, 0], None),
        (&[7, 3, short, 5, 6, u32::MAX], None),
    ];
    for (body, expected) in cases {
        let pair = |xid| [call_of(xid, body), reply(xid, &[1])];
        let (operations, _, _) = rows(&[pair(1), pair(2), pair(3)]);
        assert_eq!(operations.len(), 3, "{body:?}");
        for row in &operations {
            let name = row.machine_name.bytes().map(<[u8]>::len);
            let groups = row.group_ids.bytes().map(|groups| groups.to_vec());
            let found = name.zip(groups);
            let expected = expected.map(|(name, groups)| (name, groups.as_bytes().to_vec()));
            assert_eq!(found, expected, "{body:?}");
        }
    }
}

#[test]
fn attributes_shorter_than_their_mask_set_a_flag() {
    // Type and size: 4 and 8 bytes.
    for (len, is_wrong) in [(12, false), (8, true), (4, true), (0, true)] {
        let arguments = [0, 0, 2, 22, 4, 7, 9, 1, 0x12];
        let mut results = vec![0, 0, 2, 22, 0, 9, 0, 1, 0x12, len];
        results.extend([1, 0, 99].iter().take(len as usize / 4));
        let (operations, _, counters) = rows(&[[call(1, 4, 1, &arguments), reply(1, &results)]]);
        let found: Vec<_> = operations.iter().map(|row| row.reply_incomplete).collect();
        assert_eq!(found, [false, is_wrong], "{len}");
        let malformed = counters.value(Counter::RecordsMalformed);
        assert_eq!(malformed, u64::from(is_wrong));
    }
}

#[test]
fn what_a_snap_length_cut_is_cut_and_not_malformed() {
    let whole = Whole::new(4);
    for snap in 14..400 {
        let harm = Harm {
            snap,
            ..Harm::default()
        };
        let frames = mangle(&whole.frames, &harm).frames;
        let (_, counters) = run(&frames);
        for counter in [
            Counter::MalformedLink,
            Counter::MalformedIp,
            Counter::MalformedTcp,
            Counter::MalformedUdp,
            Counter::MalformedFragment,
            Counter::RecordsMalformed,
        ] {
            assert_eq!(counters.value(counter), 0, "{snap}: {}", counter.name());
        }
        let captured: usize = frames.iter().map(|frame| frame.bytes.len()).sum();
        assert!(
            counters.value(Counter::RpcBytes) <= captured as u64,
            "{snap}"
        );
    }
}

#[test]
fn a_renamed_file_has_its_new_name() {
    let name = |letter: u8| [1, u32::from_be_bytes([letter, 0, 0, 0])];
    let directory = |last| [8, 1, last];
    // The file 70 has the name a in the directory 1.
    let lookup = [
        call(1, 3, 3, &[&directory(1)[..], &name(b'a')].concat()),
        reply(1, &[0, 8, 2, 70, 0, 0]),
    ];
    let rename = |xid, [from, to]: [u32; 2], [old, new]: [u8; 2], status| {
        let arguments = [&directory(from)[..], &name(old), &directory(to), &name(new)];
        let results = [status, 0, 0, 0, 0];
        [call(xid, 3, 14, &arguments.concat()), reply(xid, &results)]
    };
    let (operations, all, counters) = rows(&[
        lookup.clone(),
        rename(2, [1, 1], [b'a', b'x'], 2),
        rename(3, [1, 1], [b'a', b'b'], 0),
        rename(4, [1, 2], [b'b', b'c'], 0),
        rename(5, [2, 1], [b'c', b'a'], 0),
        rename(6, [2, 1], [b'z', b'y'], 0),
    ]);
    let file = lineside_capture::file_id(SERVER, &words(&[2, 70]));
    let of = |last| Some(lineside_capture::file_id(SERVER, &words(&[1, last])));
    let named = all.files.iter().filter(|row| row.name.bytes().is_some());
    let found: Vec<_> = named
        .map(|row| {
            assert_eq!(row.file_id, Some(file));
            let by = operations
                .iter()
                .find(|by| by.operation_id == row.operation_id);
            let xid = by.and_then(|by| by.xid).expect("its operation");
            (xid, row.parent_file_id, row.name.bytes().expect("named")[0])
        })
        .collect();
    let expected = [
        (1, of(1), b'a'),
        (3, of(1), b'b'),
        (4, of(2), b'c'),
        (5, of(1), b'a'),
    ];
    assert_eq!(found, expected);
    // Of z nothing was known, on this connection.
    assert_eq!(counters.value(Counter::RenamesUnfollowed), 1);
}

/// READDIR lists names without handles: each is a fact once, unless a handle is known by the name.
#[test]
fn names_that_readdir_lists_are_facts_without_a_file_id() {
    let name = |text: &[u8]| {
        let mut bytes = [0; 4];
        bytes[..text.len()].copy_from_slice(text);
        [text.len() as u32, u32::from_be_bytes(bytes)]
    };
    let entry = |fileid, text: &[u8]| {
        let [len, letters] = name(text);
        [1, 0, fileid, len, letters, 0, fileid]
    };
    let list = |xid| {
        let entries = [
            entry(1, b"."),
            entry(2, b".."),
            entry(70, b"a"),
            entry(9, b"b"),
        ];
        let mut results = vec![0, 0, 0, 0];
        results.extend(entries.concat());
        results.extend([0, 1]);
        let call = call(xid, 3, 16, &[8, 1, 1, 0, 0, 0, 0, 4096]);
        [call, reply(xid, &results)]
    };
    // The file 70 has the name a in the directory.
    let lookup = [
        call(1, 3, 3, &[&[8, 1, 1][..], &name(b"a")].concat()),
        reply(1, &[0, 8, 2, 70, 0, 0]),
    ];
    let (operations, all, _) = rows(&[lookup, list(2), list(3)]);
    let listed: Vec<_> = { all.files.iter() }
        .filter(|row| row.fileid.is_some() || row.file_id.is_none())
        .collect();
    let [row] = listed[..] else {
        panic!("{listed:?}");
    };
    assert_eq!((row.file_id, row.fileid), (None, Some(9)));
    assert_eq!(row.name.bytes(), Some(&b"b"[..]));
    assert!(row.handle.is_null());
    let directory = lineside_capture::file_id(SERVER, &words(&[1, 1]));
    assert_eq!(row.parent_file_id, Some(directory));
    assert_eq!(row.operation_id, operations[1].operation_id);
}

/// A callback's operation names its file: there is no current one.
#[test]
fn a_recalled_delegation_has_its_file() {
    let mut wire = Wire::new(false);
    wire.answered(&lookup(1, b"first", 70));
    // CB_RECALL of a state id, for a handle (RFC 8881 section 20.2), to the program that Linux has
    // for it.
    let mut call = words(&[5, 0, 2, 0x4000_0000, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 4]);
    call.extend(words(&[1, 2, 3, 4, 0, 8, 2, 70]));
    wire.send(REPLY, &call);
    wire.send(CALL, &words(&[5, 1, 0, 0, 0, 0, 0, 0, 1, 4, 0]));
    let (rows, _) = run_with(&wire.frames, Config::default());
    let found = rows.operations.iter().find_map(|row| row.result_file_id);
    let recall = rows.operations.iter();
    let recall = recall.filter(|row| row.operation == Word::Known("CB_RECALL"));
    let recalled: Vec<_> = recall.map(|row| row.file_id).collect();
    assert_eq!(recalled, [found]);
    assert!(found.is_some());
}
