//! Messages put together by hand from RFC 1813's and RFC 4506's text, word by word.

use lineside_frame::{Cursor, Fault, Piece};
use lineside_rpc::message::Flavor;
use lineside_rpc::xdr::{Array, FixedOpaque, InPlace, List, Opaque, Optional, Outcome};

use crate::{mount, v2, v3};

/// Decodes `$bytes` as `$module::$kind` of `$procedure` into `$expected`, and encodes that into the
/// same bytes.
macro_rules! assert_message {
    ($bytes:expr, $module:ident::$kind:ident::$procedure:ident($expected:expr)) => {{
        let (bytes, expected) = ($bytes, $module::$kind::$procedure($expected));
        let pieces = [Piece::bytes(&bytes)];
        let mut cursor = Cursor::new(&pieces);
        let procedure = $module::Procedure::$procedure;
        assert_eq!($module::$kind::decode(procedure, &mut cursor), expected);
        assert_eq!((cursor.fault(), cursor.remaining()), (None, 0));
        let mut encoded = Vec::new();
        expected.encode(&mut encoded);
        assert_eq!(encoded, bytes);
    }};
}

/// The bytes of hexadecimal text; whitespace is for the reader.
pub(super) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().filter(|c| !c.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&String::from_iter(pair), 16).expect("hex");
    digits.chunks(2).map(byte).collect()
}

/// fattr3 of a directory, in wire order.
const ATTRIBUTES_HEX: &str = "00000002 000001ed 00000003 000003e8 00000064
    00000000 00001000  00000000 00002000  00000008 00000011
    00000000 0000fd01  00000000 00abcdef
    5f5e1000 00000001  5f5e1001 00000002  5f5e1002 3b9ac9ff";

fn attributes() -> InPlace<'static, v3::Attributes> {
    let time = |seconds, nanoseconds| v3::Time {
        seconds: Some(seconds),
        nanoseconds: Some(nanoseconds),
    };
    let attributes = v3::Attributes {
        file_type: Some(v3::FileType::DIRECTORY),
        mode: Some(0o755),
        link_count: Some(3),
        uid: Some(1000),
        gid: Some(100),
        size: Some(4096),
        used: Some(8192),
        device: v3::Device {
            major: Some(8),
            minor: Some(17),
        },
        fsid: Some(0xfd01),
        fileid: Some(0xab_cdef),
        atime: time(1_600_000_000, 1),
        mtime: time(1_600_000_001, 2),
        ctime: time(1_600_000_002, 999_999_999),
    };
    (&*Box::leak(Box::new(attributes))).into()
}

pub(super) fn opaque<const MAX: usize>(bytes: &'static [u8]) -> Option<Opaque<'static, MAX>> {
    Some(Opaque::new(Box::leak(Box::new([Piece::bytes(bytes)]))))
}

#[test]
fn lookup() {
    assert_message!(
        hex("00000005 6861 6e64 6c 000000  00000004 6e616d65"),
        v3::Call::Lookup(v3::DirOpArgs {
            directory: opaque(b"handl"),
            name: opaque(b"name"),
        })
    );
    assert_message!(
        hex(&format!(
            "00000000  00000002 beef 0000  00000001 {ATTRIBUTES_HEX}  00000000"
        )),
        v3::Reply::Lookup(Outcome::Ok(v3::LookupOk {
            object: opaque(b"\xbe\xef"),
            attributes: Optional::Present(attributes()),
            directory: Optional::Absent,
        }))
    );
    assert_message!(
        hex("00000002 00000000"),
        v3::Reply::Lookup(Outcome::Fail(
            2,
            v3::ObjectAttributes {
                attributes: Optional::Absent
            }
        ))
    );
}

#[test]
fn read() {
    assert_message!(
        hex("00000004 01020304  00000001 00000002  00010000"),
        v3::Call::Read(v3::ReadArgs {
            file: opaque(&[1, 2, 3, 4]),
            offset: Some(0x1_0000_0002),
            count: Some(65_536),
        })
    );
    assert_message!(
        hex("00000000  00000000  00000003 00000001  00000003"),
        v3::Reply::Read(Outcome::Ok(v3::ReadOk {
            attributes: Optional::Absent,
            count: Some(3),
            eof: Some(true),
            data_len: Some(3),
        }))
    );
}

#[test]
fn write() {
    assert_message!(
        hex("00000001 ff000000  00000000 00000200  00000005 00000002  00000005"),
        v3::Call::Write(v3::WriteArgs {
            file: opaque(&[0xff]),
            offset: Some(512),
            count: Some(5),
            stable: Some(v3::StableHow::FILE_SYNC),
            data_len: Some(5),
        })
    );
    assert_message!(
        hex(&format!(
            "00000000  00000001 00000000 00000007 00000001 00000002 00000003 00000004
             00000001 {ATTRIBUTES_HEX}  00000005 00000002 0102030405060708"
        )),
        v3::Reply::Write(Outcome::Ok(v3::WriteOk {
            file: v3::Wcc {
                before: Optional::Present(v3::WccAttributes {
                    size: Some(7),
                    mtime: v3::Time {
                        seconds: Some(1),
                        nanoseconds: Some(2)
                    },
                    ctime: v3::Time {
                        seconds: Some(3),
                        nanoseconds: Some(4)
                    },
                }),
                after: Optional::Present(attributes()),
            },
            count: Some(5),
            committed: Some(v3::StableHow::FILE_SYNC),
            verifier: Some([1, 2, 3, 4, 5, 6, 7, 8]),
        }))
    );
}

#[test]
fn create() {
    let what = v3::DirOpArgs {
        directory: opaque(b"dirh"),
        name: opaque(b"a"),
    };
    assert_message!(
        hex("00000004 64697268  00000001 61000000  00000002 00000000 cafe0001"),
        v3::Call::Create(v3::CreateArgs {
            what,
            how: v3::CreateHow::Exclusive(Some([0, 0, 0, 0, 0xca, 0xfe, 0, 1])),
        })
    );
    assert_message!(
        hex("00000004 64697268  00000001 61000000  00000001
             00000001 000001a4  00000000  00000001 00000064  00000001 00000000 00000000
             00000001  00000002 00000009 0000000a"),
        v3::Call::Create(v3::CreateArgs {
            what,
            how: v3::CreateHow::Guarded(v3::SetAttributes {
                mode: Optional::Present(Some(0o644)),
                uid: Optional::Absent,
                gid: Optional::Present(Some(100)),
                size: Optional::Present(Some(0)),
                atime: v3::SetTime::ServerTime,
                mtime: v3::SetTime::ClientTime(v3::Time {
                    seconds: Some(9),
                    nanoseconds: Some(10),
                }),
            }),
        })
    );
}

#[test]
fn readdirplus() {
    let entries = [
        v3::EntryPlus {
            fileid: Some(5),
            name: opaque(b"."),
            cookie: Some(1),
            attributes: Optional::Absent,
            handle: Optional::Absent,
        },
        v3::EntryPlus {
            fileid: Some(6),
            name: opaque(b"abc"),
            cookie: Some(2),
            attributes: Optional::Absent,
            handle: Optional::Present(opaque(b"hand")),
        },
    ];
    assert_message!(
        hex("00000000  00000000  0000000000000001
             00000001  0000000000000005 00000001 2e000000 0000000000000001  00000000 00000000
             00000001  0000000000000006 00000003 61626300 0000000000000002  00000000
                       00000001 00000004 68616e64
             00000000  00000001"),
        v3::Reply::ReadDirPlus(Outcome::Ok(v3::ReadDirPlusOk {
            directory: Optional::Absent,
            cookie_verifier: Some([0, 0, 0, 0, 0, 0, 0, 1]),
            entries: List::new(&entries),
            eof: Some(true),
        }))
    );
    assert_message!(
        hex("00000002 aabb0000  0000000000000002 0000000000000001  00001000 00008000"),
        v3::Call::ReadDirPlus(v3::ReadDirPlusArgs {
            directory: opaque(&[0xaa, 0xbb]),
            cookie: Some(2),
            cookie_verifier: Some([0, 0, 0, 0, 0, 0, 0, 1]),
            directory_count: Some(4096),
            count_max: Some(32_768),
        })
    );
}

#[test]
fn mnt() {
    assert_message!(
        hex("00000004 2f737276"),
        mount::Call::Mnt(mount::DirectoryArgs {
            directory: opaque(b"/srv")
        })
    );
    assert_message!(
        hex("00000000  00000004 68616e64  00000002 00000001 0005f373"),
        mount::Reply::Mnt(Outcome::Ok(mount::Mounted {
            handle: opaque(b"hand"),
            flavors: Array::new(&[Flavor::SYS, Flavor::KRB5]),
        }))
    );
    assert_message!(hex("0000000d"), mount::Reply::Mnt(Outcome::Fail(13, ())));
    assert_eq!(mount::status_name(13), Some("MNT3ERR_ACCES"));
}

#[test]
fn fields_before_a_fault_are_read() {
    let bytes = hex("00000004 01020304  00000000 00000200  0000");
    let pieces = [Piece::bytes(&bytes)];
    let mut cursor = Cursor::new(&pieces);
    let call = v3::Call::decode(v3::Procedure::Write, &mut cursor);
    assert_eq!(call.file(), opaque(&[1, 2, 3, 4]));
    assert_eq!((call.offset(), call.count()), (Some(512), None));
    assert_eq!((cursor.fault(), cursor.needed()), (Some(Fault::End), 20));
}

#[test]
fn impossible_values_are_malformed() {
    for (procedure, bytes) in [
        (v3::Procedure::GetAttr, "00000041"),
        (v3::Procedure::Lookup, "00000000 00001001"),
        (v3::Procedure::Create, "00000000 00000000 00000003"),
        (
            v3::Procedure::MkDir,
            "00000000 00000000 00000000 00000000 00000000 00000000 00000003",
        ),
    ] {
        let bytes = hex(bytes);
        let pieces = [Piece::bytes(&bytes)];
        let mut cursor = Cursor::new(&pieces);
        v3::Call::decode(procedure, &mut cursor);
        assert_eq!(
            cursor.fault(),
            Some(Fault::Malformed),
            "{}",
            procedure.name()
        );
    }
}

#[test]
fn unknown_numbers_are_kept_without_a_name() {
    assert_eq!(v3::status_name(70), Some("NFS3ERR_STALE"));
    assert_eq!(v3::status_name(4), None);
    assert_eq!(v3::FileType(9).name(), None);
    assert_eq!(v3::Procedure::from_number(21), Some(v3::Procedure::Commit));
    assert_eq!(v3::Procedure::from_number(22), None);
    for (number, procedure) in v3::Procedure::ALL.iter().enumerate() {
        assert_eq!(procedure.number() as usize, number);
    }
    assert_message!(
        hex("00000000 00000000 00000009"),
        v3::Call::MkNod(v3::MkNodArgs {
            what: v3::DirOpArgs {
                directory: opaque(b""),
                name: opaque(b"")
            },
            node: v3::Node::Other(9),
        })
    );
}

#[test]
fn rows_are_about_the_right_file() {
    let (from, to) = (opaque(b"from"), opaque(b"to"));
    let rename = v3::Call::Rename(v3::RenameArgs {
        from: v3::DirOpArgs {
            directory: from,
            name: opaque(b"a"),
        },
        to: v3::DirOpArgs {
            directory: to,
            name: opaque(b"b"),
        },
    });
    assert_eq!((rename.file(), rename.file2()), (from, to));
    assert_eq!(
        (rename.name(), rename.name2()),
        (opaque(b"a"), opaque(b"b"))
    );

    let wcc = v3::Wcc {
        before: Optional::Absent,
        after: Optional::Present(attributes()),
    };
    let refused = v3::Reply::Create(Outcome::Fail(17, wcc));
    assert_eq!(
        refused.status().and_then(v3::status_name),
        Some("NFS3ERR_EXIST")
    );
    assert_eq!(refused.attributes(), Some(attributes()));
    assert_eq!(refused.object(), None);
    let ctime = refused.attributes().expect("present").get().ctime;
    assert_eq!(
        ctime.nanoseconds_since_epoch(),
        Some(1_600_000_002_999_999_999)
    );
}

#[test]
fn version_2_has_handles_without_a_length() {
    let handle = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    let bytes: [u8; 32] = std::array::from_fn(|at| at as u8);
    let file = Some(FixedOpaque::new(Box::leak(Box::new([Piece::bytes(
        Box::leak(Box::new(bytes)),
    )]))));
    assert_message!(
        hex(&format!("{handle} 00000000 00001000 00000000 00000200")),
        v2::Call::Write(v2::WriteArgs {
            file,
            begin_offset: Some(0),
            offset: Some(4096),
            total_count: Some(0),
            data_len: Some(512),
        })
    );
    assert_message!(
        hex(&format!(
            "{handle} 00000004 6e616d65 000001a4 ffffffff ffffffff 00000000 {}",
            "ffffffff".repeat(4)
        )),
        v2::Call::Create(v2::CreateArgs {
            what: v2::DirOpArgs {
                directory: file,
                name: opaque(b"name"),
            },
            attributes: v2::SetAttributes {
                mode: Some(0o644),
                uid: Some(u32::MAX),
                gid: Some(u32::MAX),
                size: Some(0),
                atime: v2::Time {
                    seconds: Some(u32::MAX),
                    microseconds: Some(u32::MAX),
                },
                mtime: v2::Time {
                    seconds: Some(u32::MAX),
                    microseconds: Some(u32::MAX),
                },
            },
        })
    );
    let entries = [v2::Entry {
        fileid: Some(7),
        name: opaque(b"."),
        cookie: Some(1),
    }];
    assert_message!(
        hex("00000000 00000001 00000007 00000001 2e 000000 00000001 00000000 00000001"),
        v2::Reply::ReadDir(Outcome::Ok(v2::ReadDirOk {
            entries: List::new(&entries),
            eof: Some(true),
        }))
    );
    let time = |microseconds| v2::Time {
        seconds: Some(1),
        microseconds: Some(microseconds),
    };
    assert_eq!(time(5).nanoseconds_since_epoch(), Some(1_000_005_000));
    assert_eq!(
        time(1_000_000).nanoseconds_since_epoch(),
        None,
        "the server's time, in a SETATTR"
    );
    assert_eq!(v2::status_name(99), Some("NFSERR_WFLUSH"));
}
