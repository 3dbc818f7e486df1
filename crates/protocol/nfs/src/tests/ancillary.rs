//! NFSv2 and the programs beside NFS: whole messages of every procedure against what they were made
//! from.

use lineside_frame::{Cursor, Fault, Piece, View};
use lineside_rpc::xdr::Optional;
use lineside_time::Random;
use proptest::prelude::*;

use super::cut;
use super::layouts::{self, Made, Program, Value};
use crate::ancillary::nfsacl::{v2 as nfsacl2, v3 as nfsacl3};
use crate::ancillary::nlm::{v1 as nlm1, v4 as nlm4};
use crate::ancillary::rquota::{v1 as rquota1, v2 as rquota2};
use crate::ancillary::{Procedure, Summary, klm, mount as mount1, nsm, portmap, rpcbind};
use crate::{v2, v3};

/// Checks messages of every procedure of these modules.
macro_rules! check_modules {
    ($random:ident, { $($module:ident $layouts:ident,)* }) => {
        $(for &(number, call, reply) in layouts::$layouts {
            let procedure = $module::Procedure::from_number(number).expect("described");
            let wide = stringify!($module) == "nlm4";
            check_message!($module::Call, procedure, Made::new(call, wide, &mut $random).bytes, $random);
            check_message!($module::Reply, procedure, Made::new(reply, wide, &mut $random).bytes, $random);
        })*
    };
}

/// Checks a message: read whole and in pieces, written again, cut short, with a hole.
macro_rules! check_message {
    ($module:ident::$kind:ident, $procedure:ident, $bytes:expr, $random:ident) => {{
        let (bytes, random) = ($bytes, &mut $random);
        let whole = [Piece::bytes(&bytes)];
        let value = $module::$kind::decode($procedure, &mut Cursor::new(&whole));
        let mut written = Vec::new();
        value.encode(&mut written);
        assert_eq!(written, bytes, "{value:?}");
        assert_eq!(value.procedure(), $procedure);

        let pieces = cut(&bytes, random);
        let mut cursor = Cursor::new(&pieces);
        assert_eq!($module::$kind::decode($procedure, &mut cursor), value);
        assert_eq!((cursor.fault(), cursor.remaining()), (None, 0));

        for _ in 0..8 {
            let start = random.below(bytes.len() as u64 + 1) as usize;
            let mut pieces = cut(&bytes[..start], random);
            let mut cursor = Cursor::new(&pieces);
            let seen = $module::$kind::decode($procedure, &mut cursor);
            assert!(seen.agrees(&value), "{seen:?} {value:?}");
            assert_eq!(cursor.fault().is_some(), start < bytes.len());

            let len = random.below((bytes.len() - start) as u64 + 1) as usize;
            pieces.push(Piece::hole(len));
            pieces.extend(cut(&bytes[start + len..], random));
            let mut cursor = Cursor::new(&pieces);
            let seen = $module::$kind::decode($procedure, &mut cursor);
            assert!(seen.agrees(&value), "{seen:?} {value:?}");
            assert!(
                cursor.fault().is_some() || seen == value,
                "{seen:?} {value:?}"
            );
        }
    }};
}

/// Each program and version with its layouts, and how many of them the version has.
const PROGRAMS: &[(u32, u32, Program, usize)] = &[
    (100_000, 2, layouts::PORTMAP, 6),
    (100_000, 3, layouts::RPCBIND, 9),
    (100_000, 4, layouts::RPCBIND, 13),
    (100_003, 2, layouts::NFS2, 18),
    (100_005, 1, layouts::MOUNT1, 7),
    (100_005, 2, layouts::MOUNT1, 8),
    (100_005, 3, layouts::MOUNT3, 6),
    (100_011, 1, layouts::RQUOTA1, 5),
    (100_011, 2, layouts::RQUOTA2, 5),
    (100_020, 1, layouts::KLM, 5),
    (100_021, 1, layouts::NLM, 17),
    (100_021, 2, layouts::NLM, 17),
    (100_021, 3, layouts::NLM, 21),
    (100_021, 4, layouts::NLM, 21),
    (100_024, 1, layouts::NSM, 7),
    (100_227, 2, layouts::NFSACL2, 6),
    (100_227, 3, layouts::NFSACL3, 4),
];

proptest! {
    // Each case is hundreds of messages.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_summary_has_the_fields_of_its_message(seed: u64) {
        let random = &mut Random::new(seed);
        for &(program, version, layouts, count) in PROGRAMS {
            let wide = (program, version) == (100_021, 4);
            for &(number, call, reply) in &layouts[..count] {
                let procedure = Procedure::find(program, version, number).expect("described");
                for (layout, is_call) in [(call, true), (reply, false)] {
                    let made = Made::new(layout, wide, random);
                    let whole = made.bytes.len();
                    check_summary(procedure, is_call, &made, whole);
                    // What a short capture has.
                    if whole > 0 {
                        check_summary(procedure, is_call, &made, random.below(whole as u64) as usize);
                    }
                }
            }
        }
    }

    #[test]
    fn messages_are_read_and_written_alike_wherever_they_are_cut(seed: u64) {
        let mut random = Random::new(seed);
        check_modules!(random, {
            v2 NFS2, mount1 MOUNT1, portmap PORTMAP, rpcbind RPCBIND, nlm1 NLM, nlm4 NLM, klm KLM, nsm NSM,
            nfsacl2 NFSACL2, nfsacl3 NFSACL3, rquota1 RQUOTA1, rquota2 RQUOTA2,
        });
    }
}

fn check_summary(procedure: Procedure, is_call: bool, made: &Made, len: usize) {
    let pieces = [Piece::bytes(&made.bytes[..len])];
    let mut cursor = Cursor::new(&pieces);
    let mut summary = Summary::default();
    match is_call {
        true => procedure.call(&mut cursor, &mut summary),
        false => procedure.reply(&mut cursor, &mut summary),
    }
    let summary = fields_of(&summary);
    if len == made.bytes.len() {
        assert_eq!((cursor.fault(), cursor.remaining()), (None, 0));
        let mut expected = made.summary.clone();
        expected.sort_by_key(|(name, _)| *name);
        assert_eq!(summary, expected, "{procedure:?} {is_call}");
    } else {
        assert_eq!(cursor.fault(), Some(Fault::End));
        for field in summary {
            assert!(made.summary.contains(&field), "{procedure:?} {field:?}");
        }
    }
}

#[test]
fn there_are_no_other_procedures() {
    for &(program, version, layouts, count) in PROGRAMS {
        for number in 0..100 {
            let described = layouts[..count].iter().any(|&(each, ..)| each == number);
            let found = Procedure::find(program, version, number);
            assert_eq!(found.is_some(), described, "{program} {version} {number}");
        }
    }
    for (program, version) in [
        (100_000, 1),
        (100_003, 3),
        (100_003, 4),
        (100_005, 4),
        (100_021, 5),
    ] {
        assert_eq!(Procedure::find(program, version, 0), None);
    }
}

#[test]
fn a_procedure_has_the_name_of_its_version() {
    for (numbers, name) in [
        ((100_000, 2, 3), "GETPORT"),
        ((100_000, 3, 5), "CALLIT"),
        ((100_000, 4, 5), "BCAST"),
        ((100_021, 4, 6), "TEST_MSG"),
        ((100_021, 1, 14), "UNLOCK_RES"),
        ((100_021, 4, 16), "SM_NOTIFY"),
        ((100_227, 3, 3), "GETXATTRDIR"),
    ] {
        let (program, version, number) = numbers;
        let procedure = Procedure::find(program, version, number).expect("described");
        assert_eq!(procedure.name(), name);
    }
}

#[test]
fn a_status_has_the_name_of_its_version() {
    // The reply's status behind what stands before it.
    for (numbers, before, status, name) in [
        ((100_003, 2, 10), &[][..], 2u32, Some("NFSERR_NOENT")),
        ((100_003, 2, 10), &[], 10_001, None),
        ((100_005, 1, 1), &[], 13, Some("MNT_EACCES")),
        ((100_005, 3, 1), &[], 13, Some("MNT3ERR_ACCES")),
        ((100_021, 3, 2), &[0; 4], 5, Some("LCK_DEADLCK")),
        ((100_021, 3, 2), &[0; 4], 6, None),
        ((100_021, 4, 2), &[0; 4], 6, Some("NLM4_ROFS")),
        ((100_020, 1, 2), &[], 3, Some("KLM_WORKING")),
        ((100_024, 1, 1), &[], 1, Some("STAT_FAIL")),
        ((100_011, 1, 1), &[], 2, Some("Q_NOQUOTA")),
        ((100_227, 2, 3), &[], 70, Some("NFSERR_STALE")),
        ((100_227, 3, 1), &[], 70, Some("NFS3ERR_STALE")),
    ] {
        let (program, version, number) = numbers;
        let procedure = Procedure::find(program, version, number).expect("described");
        let status_bytes = status.to_be_bytes();
        let pieces = [Piece::bytes(before), Piece::bytes(&status_bytes)];
        let mut summary = Summary::default();
        procedure.reply(&mut Cursor::new(&pieces), &mut summary);
        let found = summary.status.expect("seen");
        assert_eq!((found.number, found.name), (status, name), "{procedure:?}");
    }
}

/// NFSv2 says with all ones what is not to be set, and with a million microseconds that the
/// server's time is meant.
#[test]
fn attributes_of_version_2_that_are_not_set() {
    let procedure = Procedure::find(100_003, 2, 2).expect("SETATTR");
    let ones = u32::MAX;
    let words = [0o644, ones, ones, 0, ones, ones, 7, 1_000_000];
    let words: Vec<u8> = words
        .iter()
        .flat_map(|word: &u32| word.to_be_bytes())
        .collect();
    let pieces = [Piece::bytes(&[7; 32]), Piece::bytes(&words)];
    let mut summary = Summary::default();
    procedure.call(&mut Cursor::new(&pieces), &mut summary);
    let expected = v3::SetAttributes {
        mode: Optional::Present(Some(0o644)),
        uid: Optional::Absent,
        gid: Optional::Absent,
        size: Optional::Present(Some(0)),
        atime: v3::SetTime::DontChange,
        mtime: v3::SetTime::ServerTime,
    };
    assert_eq!(summary.set_attributes, Some(expected));
}

/// Version 2 counts other file types behind the links.
#[test]
fn file_types_of_version_2() {
    let procedure = Procedure::find(100_003, 2, 1).expect("GETATTR");
    for (number, expected) in [
        (1, v3::FileType::REGULAR),
        (5, v3::FileType::SYMLINK),
        (6, v3::FileType::SOCKET),
        (7, v3::FileType(0)),
        (8, v3::FileType::FIFO),
    ] {
        let mut words = [0; 18];
        (words[1], words[2]) = (number, 0o100_644);
        let words: Vec<u8> = words
            .iter()
            .flat_map(|word: &u32| word.to_be_bytes())
            .collect();
        let pieces = [Piece::bytes(&words)];
        let mut summary = Summary::default();
        procedure.reply(&mut Cursor::new(&pieces), &mut summary);
        let attributes = summary.attributes.expect("seen");
        assert_eq!(
            (attributes.file_type, attributes.mode),
            (Some(expected), Some(0o644))
        );
    }
}

/// All that a summary says, by name.
fn fields_of(summary: &Summary<'_>) -> Vec<(&'static str, Value)> {
    let s = summary;
    let word = |number: Option<u32>| number.map(|number| Value::Number(number.into()));
    let wide = |number: Option<u64>| number.map(Value::Number);
    let flag = |flag: Option<bool>| flag.map(|flag| Value::Number(flag.into()));
    let bytes = |view: Option<View<'_>>| view.map(|view| Value::Bytes(view.to_vec()));
    let attributes = s.attributes.unwrap_or_default();
    let limits = s.quota_limits.unwrap_or_default();
    let set = s.set_attributes.unwrap_or_default();
    let seconds = |time| match time {
        v3::SetTime::ClientTime(time) => word(time.seconds),
        _ => None,
    };
    let mut fields: Vec<(&'static str, Option<Value>)> = vec![
        ("file", bytes(s.file)),
        ("file2", bytes(s.file2)),
        ("name", bytes(s.name)),
        ("name2", bytes(s.name2)),
        ("symlink_target", bytes(s.symlink_target)),
        ("offset", wide(s.offset)),
        ("count", wide(s.count)),
        ("data_len", word(s.data_len)),
        ("transferred", word(s.transferred)),
        ("transferred_all", flag(s.transferred_all.then_some(true))),
        ("status", word(s.status.map(|status| status.number))),
        ("object", bytes(s.object)),
        ("links", word(attributes.link_count)),
        ("uid", word(attributes.uid)),
        ("gid", word(attributes.gid)),
        ("size", wide(attributes.size)),
        ("fsid", wide(attributes.fsid)),
        ("fileid", wide(attributes.fileid)),
        ("atime", word(attributes.atime.seconds)),
        ("mtime", word(attributes.mtime.seconds)),
        ("ctime", word(attributes.ctime.seconds)),
        ("set_mode", word(set.mode.value())),
        ("set_uid", word(set.uid.value())),
        ("set_gid", word(set.gid.value())),
        ("set_size", wide(set.size.value())),
        ("set_atime", seconds(set.atime)),
        ("set_mtime", seconds(set.mtime)),
        ("directory_cookie", word(s.directory_cookie)),
        ("bytes_max", word(s.bytes_max)),
        ("eof", flag(s.eof)),
        ("entries", word(s.entries)),
        ("transfer_size", word(s.transfer_size)),
        (
            "flavors",
            word(s.flavors.and_then(|flavors| flavors.count())),
        ),
        ("target_program", word(s.target_program)),
        ("target_version", word(s.target_version)),
        ("target_procedure", word(s.target_procedure)),
        ("protocol", word(s.protocol)),
        ("port", word(s.port)),
        ("netid", bytes(s.netid)),
        ("address", bytes(s.address)),
        ("transport_address", bytes(s.transport_address)),
        ("service_owner", bytes(s.service_owner)),
        ("done", flag(s.done)),
        ("forwarded_bytes", word(s.forwarded_bytes)),
        ("time_seconds", word(s.time_seconds)),
        ("cookie", bytes(s.cookie)),
        ("exclusive", flag(s.exclusive)),
        ("block", flag(s.block)),
        ("reclaim", flag(s.reclaim)),
        ("svid", word(s.svid)),
        ("lock_owner", bytes(s.lock_owner)),
        ("share_mode", word(s.share_mode.map(|mode| mode.0))),
        ("share_access", word(s.share_access.map(|access| access.0))),
        ("sequence", word(s.sequence)),
        ("state", word(s.state)),
        ("quota_id", word(s.quota_id)),
        ("quota_type", word(s.quota_type)),
        ("quota_command", word(s.quota_command)),
        ("quota_block_size", word(s.quota_block_size)),
        ("quota_active", flag(s.quota_active)),
        ("blocks_hard", word(limits.blocks_hard)),
        ("blocks_soft", word(limits.blocks_soft)),
        ("blocks_used", word(limits.blocks_used)),
        ("files_hard", word(limits.files_hard)),
        ("files_soft", word(limits.files_soft)),
        ("files_used", word(limits.files_used)),
        ("blocks_seconds_left", word(limits.blocks_seconds_left)),
        ("files_seconds_left", word(limits.files_seconds_left)),
        ("acl_mask", word(s.acl_mask)),
        ("acl_entries", word(s.acl_entries)),
        ("acl_default_entries", word(s.acl_default_entries)),
        ("access", word(s.access)),
        ("create", flag(s.create)),
    ];
    fields.sort_by_key(|(name, _)| *name);
    fields
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}
