//! Arguments of NFSv3 from rows.

use lineside_frame::Piece;
use lineside_nfs::v3;
use lineside_rpc::xdr::{Handle, Opaque, Optional};

use super::rows::Call;
use super::{Message, Rebuilt};

/// The number of a procedure by its name.
pub(super) fn number(name: &str) -> Option<u32> {
    (0..22)
        .find(|&number| v3::Procedure::from_number(number).map(v3::Procedure::name) == Some(name))
}

/// The bytes of names and handles, as pieces of a message.
pub(super) struct Parts {
    file: Option<Vec<u8>>,
    file2: Option<Vec<u8>>,
    name: Option<Vec<u8>>,
    name2: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
}

impl Parts {
    pub(super) fn of(call: &Call<'_>) -> Self {
        Self {
            file: call.handle("file_id"),
            file2: call.handle("file2_id"),
            name: call.bytes("name"),
            name2: call.bytes("name2"),
            target: call.bytes("symlink_target"),
        }
    }

    pub(super) fn pieces(&self) -> [[Piece<'_>; 1]; 5] {
        let all = [
            &self.file,
            &self.file2,
            &self.name,
            &self.name2,
            &self.target,
        ];
        all.map(|bytes| [Piece::bytes(bytes.as_deref().unwrap_or(&[]))])
    }

    /// Whether the parts at these places, as in [`pieces`](Self::pieces), are known.
    pub(super) fn need(&self, places: &[usize]) -> Rebuilt<()> {
        let all = [
            &self.file,
            &self.file2,
            &self.name,
            &self.name2,
            &self.target,
        ];
        const REASONS: [&str; 5] = [
            "no handle in files",
            "no second handle in files",
            "no name",
            "no second name",
            "no target",
        ];
        let lacking = { places.iter() }.find(|&&place| all[place].is_none());
        lacking.map_or(Ok(()), |&place| Err(REASONS[place]))
    }
}

pub(super) fn put(call: &Call<'_>, out: &mut Message) -> Rebuilt<()> {
    let parts = Parts::of(call);
    let pieces = parts.pieces();
    let name = call.row.text("operation").unwrap_or_default();
    parts.need(match name {
        "LOOKUP" | "REMOVE" | "RMDIR" | "CREATE" | "MKDIR" | "MKNOD" => &[0, 2],
        "SYMLINK" => &[0, 2, 4],
        "RENAME" => &[0, 1, 2, 3],
        "LINK" => &[0, 1, 2],
        _ => &[0],
    })?;
    let arguments = match of_file(call, name, Opaque::new(&pieces[0]))? {
        Some(arguments) => arguments,
        None => of_names(call, name, &pieces)?,
    };
    arguments.encode(&mut out.bytes);
    if let v3::Call::Write(args) = arguments {
        out.put_data(args.data_len.unwrap_or(0).into());
    }
    Ok(())
}

/// The arguments of a procedure that names nothing but a file or directory by its handle.
fn of_file<'a>(call: &Call<'_>, name: &str, handle: Handle<'a>) -> Rebuilt<Option<v3::Call<'a>>> {
    use v3::Call as C;
    let file = Some(handle);
    let (offset, count) = (
        call.integer("offset").map(i64::cast_unsigned),
        call.integer("count").map(|count| count as u32),
    );
    let cookie = call.integer("cookie").map(i64::cast_unsigned);
    let cookie_verifier = call.integer("cookie_verifier").map(i64::to_be_bytes);
    let number = |column| call.integer(column).map(|number| number as u32);
    Ok(Some(match name {
        "GETATTR" => C::GetAttr(v3::FileArgs { file }),
        "READLINK" => C::ReadLink(v3::FileArgs { file }),
        "FSSTAT" => C::FsStat(v3::FileArgs { file }),
        "FSINFO" => C::FsInfo(v3::FileArgs { file }),
        "PATHCONF" => C::PathConf(v3::FileArgs { file }),
        "SETATTR" => C::SetAttr(v3::SetAttrArgs {
            file,
            attributes: attributes(call)?,
            guard: match call.integer("guard_ctime_ns") {
                Some(ns) => Optional::Present(time(ns)),
                None => Optional::Absent,
            },
        }),
        "ACCESS" => C::Access(v3::AccessArgs {
            file,
            access: number("access_requested"),
        }),
        "READ" => C::Read(v3::ReadArgs {
            file,
            offset,
            count,
        }),
        "WRITE" => C::Write(v3::WriteArgs {
            file,
            offset,
            count,
            stable: Some(v3::StableHow(stable_how(call)?)),
            data_len: count,
        }),
        "READDIR" => C::ReadDir(v3::ReadDirArgs {
            directory: file,
            cookie,
            cookie_verifier,
            count: number("bytes_max"),
        }),
        "READDIRPLUS" => C::ReadDirPlus(v3::ReadDirPlusArgs {
            directory: file,
            cookie,
            cookie_verifier,
            directory_count: number("directory_bytes"),
            count_max: number("bytes_max"),
        }),
        "COMMIT" => C::Commit(v3::CommitArgs {
            file,
            offset,
            count,
        }),
        _ => return Ok(None),
    }))
}

/// The arguments of a procedure with a name in a directory.
fn of_names<'a>(
    call: &Call<'_>,
    name_of_operation: &str,
    pieces: &'a [[Piece<'a>; 1]; 5],
) -> Rebuilt<v3::Call<'a>> {
    use v3::Call as C;
    let [file, file2, name, name2, target] = pieces;
    let (handle, handle2) = (Some(Opaque::new(file)), Some(Opaque::new(file2)));
    let what = v3::DirOpArgs {
        directory: handle,
        name: Some(Opaque::new(name)),
    };
    Ok(match name_of_operation {
        "LOOKUP" => C::Lookup(what),
        "CREATE" => C::Create(v3::CreateArgs {
            what,
            how: match call.text("create_mode") {
                Some("UNCHECKED") => v3::CreateHow::Unchecked(attributes(call)?),
                Some("GUARDED") => v3::CreateHow::Guarded(attributes(call)?),
                Some("EXCLUSIVE") => {
                    v3::CreateHow::Exclusive(call.integer("create_verifier").map(i64::to_be_bytes))
                }
                _ => return Err("another way to create"),
            },
        }),
        "MKDIR" => C::MkDir(v3::MkDirArgs {
            what,
            attributes: attributes(call)?,
        }),
        "SYMLINK" => C::SymLink(v3::SymLinkArgs {
            what,
            attributes: attributes(call)?,
            target: Some(Opaque::new(target)),
        }),
        "MKNOD" => C::MkNod(v3::MkNodArgs {
            what,
            node: node(call)?,
        }),
        "REMOVE" => C::Remove(what),
        "RMDIR" => C::RmDir(what),
        "RENAME" => C::Rename(v3::RenameArgs {
            from: what,
            to: v3::DirOpArgs {
                directory: handle2,
                name: Some(Opaque::new(name2)),
            },
        }),
        "LINK" => C::Link(v3::LinkArgs {
            file: handle,
            link: v3::DirOpArgs {
                directory: handle2,
                name: Some(Opaque::new(name)),
            },
        }),
        _ => return Err("no such procedure"),
    })
}

/// The number of a WRITE's `stable_how`, in any version.
pub(super) fn stable_how(call: &Call<'_>) -> Rebuilt<u32> {
    match call.text("stable_how").ok_or("no stable_how")? {
        "UNSTABLE" | "UNSTABLE4" => Ok(0),
        "DATA_SYNC" | "DATA_SYNC4" => Ok(1),
        "FILE_SYNC" | "FILE_SYNC4" => Ok(2),
        other => other.parse().map_err(|_| "another stable_how"),
    }
}

pub(super) fn time(ns: i64) -> v3::Time {
    v3::Time {
        seconds: Some(ns.div_euclid(1_000_000_000) as u32),
        nanoseconds: Some(ns.rem_euclid(1_000_000_000) as u32),
    }
}

fn set_time(call: &Call<'_>, how: &str, ns: &str) -> Rebuilt<v3::SetTime> {
    match call.text(how) {
        Some("DONT_CHANGE") => Ok(v3::SetTime::DontChange),
        Some("SET_TO_SERVER_TIME") => Ok(v3::SetTime::ServerTime),
        Some("SET_TO_CLIENT_TIME") => {
            let ns = call.integer(ns).ok_or("a time that does not fit")?;
            Ok(v3::SetTime::ClientTime(time(ns)))
        }
        _ => Err("no time"),
    }
}

pub(super) fn attributes(call: &Call<'_>) -> Rebuilt<v3::SetAttributes> {
    let set = |column| match call.integer(column) {
        Some(number) => Optional::Present(Some(number as u32)),
        None => Optional::Absent,
    };
    Ok(v3::SetAttributes {
        mode: set("set_mode"),
        uid: set("set_uid"),
        gid: set("set_gid"),
        size: match call.integer("set_size") {
            Some(number) => Optional::Present(Some(number.cast_unsigned())),
            None => Optional::Absent,
        },
        atime: set_time(call, "set_atime_how", "set_atime_ns")?,
        mtime: set_time(call, "set_mtime_how", "set_mtime_ns")?,
    })
}

fn node(call: &Call<'_>) -> Rebuilt<v3::Node> {
    let attributes = attributes(call)?;
    let number = |column| call.integer(column).map(|number| number as u32);
    let device = v3::DeviceNode {
        attributes,
        device: v3::Device {
            major: number("device_major"),
            minor: number("device_minor"),
        },
    };
    Ok(match call.text("node_type") {
        Some("BLK") => v3::Node::Block(device),
        Some("CHR") => v3::Node::Character(device),
        Some("SOCK") => v3::Node::Socket(attributes),
        Some("FIFO") => v3::Node::Fifo(attributes),
        _ => return Err("another type of node"),
    })
}
