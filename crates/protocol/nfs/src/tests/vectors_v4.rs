//! Operations put together by hand from the text of RFC 8881, RFC 7530, RFC 7862 and RFC 8435, word
//! by word.

use std::fmt::Debug;

use lineside_frame::{Cursor, Fault, Piece};
use lineside_rpc::xdr::{Counted, List, Outcome, Xdr};

use super::vectors::{hex, opaque};
use crate::v4::layouts::{DeviceBody, LayoutBody};
use crate::v4::{callback, *};

/// `bytes` as pieces that are never freed: a test's process ends soon.
fn pieces(text: &str) -> &'static [Piece<'static>] {
    vec![Piece::bytes(hex(text).leak())].leak()
}

fn call(text: &str) -> Call<'static> {
    whole(text, Call::decode, |call, out| call.encode(out))
}

fn reply(text: &str) -> Reply<'static> {
    whole(text, Reply::decode, |reply, out| reply.encode(out))
}

/// Decodes all of `text`, and sees that encoding gives it again.
fn whole<T: Debug>(
    text: &str,
    decode: impl Fn(&mut Cursor<'static>) -> T,
    encode: impl Fn(&T, &mut Vec<u8>),
) -> T {
    let mut cursor = Cursor::new(pieces(text));
    let value = decode(&mut cursor);
    let state = (cursor.fault(), cursor.remaining());
    assert_eq!(state, (None, 0), "{value:?}");
    let mut encoded = Vec::new();
    encode(&value, &mut encoded);
    assert_eq!(encoded, hex(text), "{value:?}");
    value
}

/// stateid4 with sequence 7.
const STATEID: &str = "00000007 000102030405060708090a0b";

fn stateid() -> Option<StateId> {
    let other = std::array::from_fn(|at| at as u8);
    Some(StateId { sequence: 7, other })
}

const SESSION: &str = "000102030405060708090a0b0c0d0e0f";

#[test]
fn headers() {
    let decode = |cursor: &mut _| CallHeader::decode(cursor);
    let header = whole(
        "00000003 746167 00  00000002  00000005",
        decode,
        Xdr::encode,
    );
    assert_eq!(header.tag, opaque(b"tag"));
    assert_eq!(
        (header.minor_version, header.operation_count),
        (Some(2), Some(5))
    );

    let decode = |cursor: &mut _| ReplyHeader::decode(cursor);
    let header = whole("00002718  00000000  00000001", decode, Xdr::encode);
    assert_eq!(header.status.and_then(Status::name), Some("NFS4ERR_DELAY"));
    assert_eq!((header.tag, header.operation_count), (opaque(b""), Some(1)));

    let decode = |cursor: &mut _| callback::CallHeader::decode(cursor);
    let header = whole(
        "00000000  00000001  00000009  00000002",
        decode,
        Xdr::encode,
    );
    assert_eq!(
        (header.minor_version, header.callback_ident),
        (Some(1), Some(9))
    );
    assert_eq!(header.operation_count, Some(2));
}

#[test]
fn sequence_and_handles() {
    let sequence = call(&format!(
        "00000035 {SESSION} 00000064 00000003 0000001f 00000001"
    ));
    let Call::Sequence(args) = sequence else {
        panic!("{sequence:?}")
    };
    assert_eq!((args.sequence, args.slot), (Some(100), Some(3)));
    assert_eq!((args.highest_slot, args.cache_this), (Some(31), Some(true)));
    assert_eq!(sequence.session().map(|id| id[15]), Some(15));
    assert_eq!(sequence.operation().map(Operation::name), Some("SEQUENCE"));

    let sequence = reply(&format!(
        "00000035 00000000 {SESSION} 00000064 00000003 0000001f 0000003f 00000200"
    ));
    let Reply::Sequence(Outcome::Ok(ok)) = sequence else {
        panic!("{sequence:?}")
    };
    assert_eq!(
        (ok.target_highest_slot, ok.status_flags),
        (Some(63), Some(0x200))
    );
    let failed = reply("00000035 00002744");
    assert_eq!(
        failed.status().and_then(status_name),
        Some("NFS4ERR_BADSESSION")
    );

    assert_eq!(call("00000016 00000003 414243 00").handle(), opaque(b"ABC"));
    assert_eq!(
        reply("0000000a 00000000 00000002 beef 0000").handle(),
        opaque(b"\xbe\xef")
    );
    assert_eq!(call("00000018").operation(), Some(Operation::PutRootFh));
}

#[test]
fn attributes_are_read_by_their_bits() {
    // type, change, size, fileid; mode, numlinks, owner, time_modify.
    let text = "00000009 00000000
        00000002 0010001a 0020001a
        00000048
        00000001  00000000 00000011  00000001 00000002  00000000 000000ff
        000001a4  00000002  00000005 616c696365 000000
        00000000 5f5e1000 00000005
        00000007 626c6f636b6564 00";
    let mask = Bitmap::new(&[1, 3, 4, 20, 33, 35, 36, 53]);
    assert_eq!(mask.words()[..3], [0x0010_001a, 0x0020_001a, 0]);
    // The owner_group, bit 37, is behind what the mask says: it is passed over with the list.
    let mut cursor = Cursor::new(pieces(text));
    let reply = Reply::decode(&mut cursor);
    assert_eq!(cursor.fault(), None);
    let list = reply.attributes().expect("GETATTR");
    assert_eq!((list.mask, list.unknown()), (Some(mask), None));
    let values = list.values();
    assert_eq!(values.file_type, Some(FileType::REGULAR));
    assert_eq!(
        (values.change, values.size),
        (Some(17), Some(0x1_0000_0002))
    );
    assert_eq!(
        (values.fileid, values.mode, values.link_count),
        (Some(255), Some(0o644), Some(2))
    );
    assert_eq!(values.owner, opaque(b"alice"));
    let mtime = values.mtime.expect("time_modify");
    assert_eq!(
        mtime.nanoseconds_since_epoch(),
        Some(1_600_000_000_000_000_005)
    );
    assert_eq!((values.group, values.atime), (None, None));
    assert_eq!(values.mask(), mask);
}

#[test]
fn an_attribute_of_unknown_length_ends_its_list_alone() {
    // size, and bit 95, behind which mode_umask would stand if there were more bits.
    let text = "00000009 00000000  00000003 00000010 00000000 80000000  0000000c
        00000000 00001000  deadbeef";
    let reply = reply(text);
    let list = reply.attributes().expect("GETATTR");
    assert_eq!((list.values().size, list.unknown()), (Some(4096), Some(95)));

    // More words than are kept, all of them zero: a bitmap of a later minor version.
    let text = "00000009 00000006 00000010 00000000 00000000 00000000 00000000 00000000";
    let Call::GetAttr(args) = call(text) else {
        panic!("GETATTR")
    };
    assert!(
        args.request
            .is_some_and(|request| request.contains(4) && !request.contains(200))
    );

    // A list that ends within its last attribute says what came before.
    let text = "00000009 00000000  00000001 00000018  0000000c  00000000 00000001  00000000";
    let mut cursor = Cursor::new(pieces(text));
    let cut = Reply::decode(&mut cursor);
    let values = cut.attributes().expect("GETATTR").values();
    assert_eq!((values.change, values.size), (Some(1), None));
    assert_eq!((cursor.fault(), cursor.remaining()), (None, 0));
}

#[test]
fn open() {
    let open = call(
        "00000012  00000000 00000102 00000001
         00000001 00000002  00000004 6f776e72
         00000001 00000003 0102030405060708  00000002 00000000 00000002  00000004 000001ff
         00000000 00000004 66696c65",
    );
    assert_eq!(open.name(), opaque(b"file"));
    assert_eq!(open.client_id(), Some(0x1_0000_0002));
    assert_eq!(
        open.attributes().map(|list| list.values().mode),
        Some(Some(0o777))
    );
    let Call::Open(args) = open else {
        panic!("{open:?}")
    };
    assert_eq!((args.access, args.deny), (Some(0x102), Some(1)));
    assert_eq!(args.how.create_mode(), Some("EXCLUSIVE4_1"));
    assert_eq!(args.claim.claim_type(), Some("CLAIM_NULL"));

    let text = format!(
        "00000012  00000000 00000002 00000000  00000000 00000001 00000000  00000000
         00000005 {STATEID}"
    );
    let open = call(&text);
    assert_eq!((open.stateid(), open.name()), (stateid(), None));

    let open = reply(&format!(
        "00000012 00000000  {STATEID}  00000001 00000000 00000001 00000000 00000002
         00000004  00000000
         00000002 00000008 0f0e0d0c0b0a090807060504  00000000  00000001 00000000 00010000
         00000000 00000000 00000003  00000006 4f574e455240 0000"
    ));
    assert_eq!(open.stateid(), stateid());
    let delegation = open.delegation().expect("a write delegation");
    assert_eq!(delegation.delegation_type(), Some(DelegationType::WRITE));
    assert_eq!(delegation.stateid().map(|id| id.sequence), Some(8));
    let change = open.change_info().expect("of the directory");
    assert_eq!((change.atomic, change.before, change.after), (true, 1, 2));
}

#[test]
fn the_cursor_stands_at_the_data() {
    let text = format!("00000026 {STATEID} 00000000 00001000 00000002 00000005  68656c6c6f 000000");
    let mut cursor = Cursor::new(pieces(&text));
    let write = Call::decode(&mut cursor);
    assert_eq!((write.offset(), write.count()), (Some(4096), Some(5)));
    assert_eq!((write.data_len(), cursor.remaining()), (Some(5), 8));
    assert_eq!(skip_data(&mut cursor, 5), Some(()));
    assert_eq!(cursor.remaining(), 0);

    let read = reply("00000019 00000000 00000001 00000400");
    assert_eq!(
        (read.data_len(), read.transferred()),
        (Some(1024), Some(1024))
    );
    assert_eq!(read.eof(), Some(true));

    let text = "00000044 00000000 00000001 00000003
        00000000 00000000 00000000 00000003 616263 00
        00000001 00000000 00001000 00000000 00002000
        00000000 00000000 00003000 00000004 64656667";
    let mut cursor = Cursor::new(pieces(text));
    let plus = Reply::decode(&mut cursor);
    let mut segments = Vec::new();
    for _ in 0..plus.segment_count().expect("READ_PLUS") {
        let segment = Segment::decode(&mut cursor);
        if let Some(len) = segment.data_len() {
            let data = cursor.limited(len as usize).view(len as usize);
            segments.push(data.map(|data| data.to_vec()));
            skip_data(&mut cursor, len);
        } else if let Segment::Hole(hole) = segment {
            assert_eq!((hole.offset, hole.length), (Some(0x1000), Some(0x2000)));
        }
    }
    assert_eq!(segments, [Some(b"abc".to_vec()), Some(b"defg".to_vec())]);
    assert_eq!((cursor.fault(), cursor.remaining()), (None, 0));
}

#[test]
fn failures_that_carry_a_body() {
    let denied =
        "00000000 00000064 00000000 0000000a 00000002 00000000 00000005 00000001 61 000000";
    for number in ["0000000c", "0000000d"] {
        let lock = reply(&format!("{number} 0000271a {denied}"));
        assert_eq!(lock.status(), Some(Status::DENIED.0));
        let (Reply::Lock(LockResult::Denied(conflict))
        | Reply::LockT(LockTestResult::Denied(conflict))) = lock
        else {
            panic!("{lock:?}")
        };
        assert_eq!((conflict.offset, conflict.length), (Some(100), Some(10)));
        assert_eq!(
            (conflict.lock_type, conflict.owner.client_id),
            (Some(LockType::WRITE), Some(5))
        );
    }
    assert_eq!(
        reply("0000000c 00002729").status(),
        Some(Status::BAD_STATEID.0)
    );

    let set = reply("00000022 0000000d 00000001 00000010");
    let Reply::SetAttr(Outcome::Fail(13, body)) = set else {
        panic!("{set:?}")
    };
    assert_eq!(body.attributes_set, Some(Bitmap::new(&[4])));

    let in_use = reply("00000023 00002721 00000003 746370 00 00000007 302e302e302e30 00");
    let Reply::SetClientId(SetClientIdResult::InUse(by)) = in_use else {
        panic!("{in_use:?}")
    };
    assert_eq!(by.network, opaque(b"tcp"));

    let small = reply("0000002f 00002715 00000400");
    assert!(matches!(
        small,
        Reply::GetDeviceInfo(GetDeviceInfoResult::TooSmall(Some(1024)))
    ));
    let later = reply("00000032 0000274a 00000001");
    assert!(matches!(
        later,
        Reply::LayoutGet(LayoutGetResult::TryLater(Some(true)))
    ));
    let copy = reply("0000003c 0000276e 00000001 00000000");
    assert_eq!(copy.status(), Some(Status::OFFLOAD_NO_REQS.0));

    // Of these a failure is its status alone.
    for number in [3, 9, 18, 25, 38, 42, 43, 53, 60, 68, 69] {
        assert_eq!(
            reply(&format!("{number:08x} 00002726")).status(),
            Some(10_022)
        );
    }
}

#[test]
fn layouts() {
    let device = "404142434445464748494a4b4c4d4e4f";
    let granted = reply(&format!(
        "00000032 00000000 00000001 {STATEID} 00000001
         00000000 00000000 ffffffff ffffffff 00000001 00000001
         00000030  {device} 00010001 00000000 00000000 00000000
         00000001 00000006 666866686668 0000"
    ));
    assert_eq!(granted.stateid(), stateid());
    let Reply::LayoutGet(LayoutGetResult::Ok(ok)) = granted else {
        panic!("{granted:?}")
    };
    let layout = ok.layouts.first().expect("one");
    assert_eq!(
        (layout.length, layout.io_mode),
        (Some(u64::MAX), Some(IoMode::READ))
    );
    let Some(LayoutBody::Files(files)) = layout.content() else {
        panic!("{layout:?}")
    };
    assert_eq!(
        (files.device.map(|id| id[0]), files.utility),
        (Some(0x40), Some(0x1_0001))
    );
    assert_eq!(files.handles.first(), Some(opaque(b"fhfhfh")));

    let granted = reply(&format!(
        "00000032 00000000 00000000 {STATEID} 00000001
         00000000 00000000 00000000 00001000 00000002 00000004
         00000058  00000000 00010000
         00000001 00000001 {device} 00000003 {STATEID} 00000001 00000002 abcd 0000
         00000001 30 000000 00000003 313030 00
         00000003 00000000"
    ));
    let Reply::LayoutGet(LayoutGetResult::Ok(ok)) = granted else {
        panic!("{granted:?}")
    };
    let layout = ok.layouts.first().expect("one");
    let Some(LayoutBody::FlexFiles(flex)) = layout.content() else {
        panic!("{layout:?}")
    };
    let server = flex
        .mirrors
        .first()
        .and_then(|mirror| mirror.first())
        .expect("one server");
    assert_eq!((flex.stripe_unit, flex.flags), (Some(0x1_0000), Some(3)));
    assert_eq!(
        (server.stateid, server.user, server.group),
        (stateid(), opaque(b"0"), opaque(b"100"))
    );

    let address = "00000003 746370 00 0000000f 31302e302e302e312e3135392e3132 00";
    let info = reply(&format!(
        "0000002f 00000000 00000001 00000030
         00000002 00000000 00000000 00000001 00000001 {address}
         00000000"
    ));
    let Reply::GetDeviceInfo(GetDeviceInfoResult::Ok(ok)) = info else {
        panic!("{info:?}")
    };
    let Some(DeviceBody::Files(device)) = ok.address.content() else {
        panic!("{ok:?}")
    };
    assert_eq!(device.stripes.iter().collect::<Vec<_>>(), [0, 0]);
    let paths = device.servers.first().expect("one server");
    assert_eq!(
        paths.first().and_then(|path| path.address),
        opaque(b"10.0.0.1.159.12")
    );
}

#[test]
fn copies() {
    let text = format!(
        "0000003c 00000008 0f0e0d0c0b0a090807060504 {STATEID} 00000000 00000100 00000000 00000200
         00000000 00000300 00000001 00000000 00000000"
    );
    let copy = call(&text);
    assert_eq!(
        (copy.source_offset(), copy.offset(), copy.count()),
        (Some(256), Some(512), Some(768))
    );
    assert_eq!(
        (copy.stateid(), copy.source_stateid().map(|id| id.sequence)),
        (stateid(), Some(8))
    );
    let done = reply(&format!(
        "0000003c 00000000 00000001 {STATEID} 00000000 00000300 00000002 0102030405060708 00000001 \
        00000000"
    ));
    assert_eq!((done.stateid(), done.transferred()), (stateid(), Some(768)));
    let status = reply("00000043 00000000 00000000 00000200 00000001 00000000");
    assert_eq!(status.transferred(), Some(512));
    let seek = reply("00000045 00000000 00000000 00000000 00001000");
    assert_eq!((seek.eof(), seek.offset()), (Some(false), Some(4096)));

    let xattr = call("00000049 00000001 00000004 75736572 00000003 616263 00");
    assert_eq!(xattr.name(), opaque(b"user"));
    let Call::SetXattr(args) = xattr else {
        panic!("{xattr:?}")
    };
    assert_eq!(
        (args.option, args.value),
        (Some(SetXattrOption::CREATE), opaque(b"abc"))
    );
    let removed = reply("0000004b 00000000 00000001 00000000 00000001 00000000 00000002");
    assert_eq!(removed.change_info().map(|change| change.after), Some(2));
}

#[test]
fn callbacks() {
    let text = format!(
        "0000000b {SESSION} 00000001 00000000 00000000 00000000
         00000001 {SESSION} 00000001 00000009 00000002"
    );
    let decode = |cursor: &mut _| callback::Call::decode(cursor);
    let sequence = whole(&text, decode, |call, out| call.encode(out));
    let callback::Call::Sequence(args) = sequence else {
        panic!("{sequence:?}")
    };
    let referring = args.referring.first().expect("a session");
    let calls: Vec<_> = referring
        .calls
        .iter()
        .map(|call| (call.sequence, call.slot))
        .collect();
    assert_eq!(calls, [(9, 2)]);

    let recall = whole(
        &format!("00000004 {STATEID} 00000001 00000002 abcd 0000"),
        decode,
        |call, out| call.encode(out),
    );
    assert_eq!(
        (recall.stateid(), recall.handle()),
        (stateid(), opaque(b"\xab\xcd"))
    );

    let text = format!("0000000f 00000002 abcd 0000 {STATEID} 0000001c 00000000 00000200");
    let offload = whole(&text, decode, |call, out| call.encode(out));
    assert_eq!((offload.count(), offload.stateid()), (Some(512), stateid()));
    let text = format!(
        "0000000f 00000002 abcd 0000 {STATEID} 00000000
         00000000 00000000 00000300 00000002 0102030405060708"
    );
    let offload = whole(&text, decode, |call, out| call.encode(out));
    assert_eq!(offload.count(), Some(768));

    let decode = |cursor: &mut _| callback::Reply::decode(cursor);
    let text = "00000003 00000000 00000001 00000018 00000010 00000000 00000002 00000000 00001000";
    let attributes = whole(text, decode, |reply, out| reply.encode(out));
    let values = attributes.attributes().expect("CB_GETATTR").values();
    assert_eq!((values.change, values.size), (Some(2), Some(4096)));
}

#[test]
fn impossible_values_are_malformed_and_unknown_ones_named() {
    let state = |text| {
        let mut cursor = Cursor::new(pieces(text));
        let call = Call::decode(&mut cursor);
        (call, cursor.fault())
    };
    assert_eq!(
        state("0000004c 00000001"),
        (Call::Unknown(76), Some(Fault::Malformed))
    );
    assert_eq!(
        state("00000002"),
        (Call::Unknown(2), Some(Fault::Malformed))
    );
    assert_eq!(state("0000"), (Call::Unread, Some(Fault::End)));
    assert_eq!(state("0000273c").0.operation(), Some(Operation::Illegal));
    // A handle of 129 bytes, a bitmap of 2^20 words, an array of two where one may stand.
    assert_eq!(state("00000016 00000081").1, Some(Fault::Malformed));
    assert_eq!(state("00000009 00100000").1, Some(Fault::Malformed));
    let text = format!("00000043 00000000 {:016x} 00000002 00000000 00000000", 1);
    let mut cursor = Cursor::new(pieces(&text));
    Reply::decode(&mut cursor);
    assert_eq!(cursor.fault(), Some(Fault::Malformed));

    let mut cursor = Cursor::new(pieces("0000004c 00002714 00000001"));
    let reply = Reply::decode(&mut cursor);
    assert_eq!(
        (reply.number(), reply.status()),
        (Some(76), Some(Status::NOTSUPP.0))
    );
    assert_eq!(cursor.fault(), Some(Fault::Malformed));
}

#[test]
fn a_count_that_cannot_be_costs_no_more_than_its_bytes() {
    let mut cursor = Cursor::new(pieces("ffffffff 00000000 00000000 00000000"));
    let names: Path<'_> = Counted::decode(&mut cursor);
    assert_eq!((names.count(), names.iter().count()), (Some(u32::MAX), 3));
    assert_eq!(cursor.fault(), Some(Fault::End));
}

#[test]
fn a_directory_is_read_entry_by_entry() {
    let readdir = reply(
        "0000001a 00000000 0102030405060708
         00000001 00000000 00000001 00000001 61 000000 00000001 00000010 00000008 00000000 00000005
         00000001 00000000 00000002 00000002 6262 0000 00000000 00000000
         00000000 00000001",
    );
    let Reply::ReadDir(Outcome::Ok(ok)) = readdir else {
        panic!("{readdir:?}")
    };
    let entries: Vec<_> = ok
        .entries
        .iter()
        .map(|entry: Entry<'_>| (entry.cookie, entry.name, entry.attributes.values().size))
        .collect();
    let expected = [
        (Some(1), opaque(b"a"), Some(5)),
        (Some(2), opaque(b"bb"), None),
    ];
    assert_eq!(entries, expected);
    assert_eq!(ok.eof, Some(true));
    assert_ne!(ok.entries, List::default());
}

#[test]
fn names_are_those_of_the_rfcs() {
    for operation in Operation::ALL {
        assert_eq!(Operation::from_number(operation.number()), Some(*operation));
    }
    assert_eq!(Operation::ALL.len(), 74, "3 to 75, and 10044");
    assert_eq!(callback::Operation::ALL.len(), 14);
    let name = |number| Operation::from_number(number).map(Operation::name);
    assert_eq!(
        (name(36), name(52)),
        (Some("SETCLIENTID_CONFIRM"), Some("SECINFO_NO_NAME"))
    );
    assert_eq!(
        (name(39), name(75)),
        (Some("RELEASE_LOCKOWNER"), Some("REMOVEXATTR"))
    );
    let first = |minor| Operation::ALL.iter().find(|o| o.minor_version() == minor);
    assert_eq!(
        (first(1), first(2)),
        (Some(&Operation::BackchannelCtl), Some(&Operation::Allocate))
    );
    assert_eq!(status_name(10_068), Some("NFS4ERR_RETRY_UNCACHED_REP"));
    assert_eq!(
        (status_name(10_096), status_name(10_073)),
        (Some("NFS4ERR_XATTR2BIG"), None)
    );
    assert_eq!(attributes::name(82), Some("xattr_support"));
    assert!((0..=86).all(|bit| attributes::name(bit).is_some()) && attributes::name(87).is_none());
}
