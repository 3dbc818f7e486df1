//! Arguments of NFSv2, MOUNT and the port mapper from rows.

use lineside_frame::Piece;
use lineside_nfs::ancillary::{mount as mount1, portmap};
use lineside_nfs::{mount, v2};
use lineside_rpc::xdr::{FixedOpaque, Opaque};

use super::nfs3::Parts;
use super::rows::Call;
use super::{Message, Rebuilt};

/// The number of a procedure of these programs by its name.
pub(super) fn number(call: &Call<'_>, name: &str) -> Option<u32> {
    let (program, version) = (call.row.text("program")?, call.row.integer("version")?);
    match (program, version) {
        ("nfs", 2) => { v2::Procedure::ALL.iter() }
            .find(|each| each.name() == name)
            .map(|each| each.number()),
        ("mount", 1 | 2) => { mount1::Procedure::ALL.iter() }
            .find(|each| each.name() == name)
            .map(|each| each.number()),
        ("mount", 3) => { mount::Procedure::ALL.iter() }
            .find(|each| each.name() == name)
            .map(|each| each.number()),
        ("portmap", 2) => { portmap::Procedure::ALL.iter() }
            .find(|each| each.name() == name)
            .map(|each| each.number()),
        _ => None,
    }
}

pub(super) fn put(call: &Call<'_>, out: &mut Message) -> Rebuilt<()> {
    let name = call.row.text("operation").unwrap_or_default();
    if call.row.text("program") == Some("mount") {
        if matches!(name, "MNT" | "UMNT" | "PATHCONF") {
            let path = call.bytes("name").ok_or("no path")?;
            let path = [Piece::bytes(&path)];
            let directory = Some(Opaque::new(&path));
            mount::Call::Mnt(mount::DirectoryArgs { directory }).encode(&mut out.bytes);
        }
        return Ok(());
    }
    if name == "CALLIT" {
        return Err("the arguments of another program");
    }
    if name == "DUMP" {
        return Ok(());
    }
    let integer = |column| call.integer(column).map(|number| number as u32);
    let port = match name {
        "GETPORT" => Some(0),
        _ => integer("target_port"),
    };
    let mapping = portmap::Mapping {
        program: Some(integer("target_program").ok_or("no program")?),
        version: Some(integer("target_version").ok_or("no version")?),
        protocol: Some(integer("target_protocol").ok_or("no protocol")?),
        port: Some(port.ok_or("no port")?),
    };
    portmap::Call::GetPort(mapping).encode(&mut out.bytes);
    Ok(())
}

pub(super) fn put_nfs2(call: &Call<'_>, out: &mut Message) -> Rebuilt<()> {
    use v2::Call as C;
    let parts = Parts::of(call);
    parts.need(&[0])?;
    let pieces = parts.pieces();
    let [file, file2, name, name2, target] = &pieces;
    let (handle, name) = (Some(FixedOpaque::new(file)), Some(Opaque::new(name)));
    let directory = handle;
    let what = v2::DirOpArgs { directory, name };
    let number = |column: &str| -> Rebuilt<Option<u32>> {
        let number = call.integer(column).ok_or("a number is not in the trace")?;
        Ok(Some(number as u32))
    };
    let operation = call.row.text("operation").unwrap_or_default();
    parts.need(match operation {
        "LOOKUP" | "REMOVE" | "RMDIR" | "CREATE" | "MKDIR" => &[2],
        "SYMLINK" => &[2, 4],
        "LINK" => &[1, 2],
        "RENAME" => &[1, 2, 3],
        _ => &[],
    })?;
    let create = |call| -> Rebuilt<v2::CreateArgs<'_>> {
        let attributes = attributes(call)?;
        Ok(v2::CreateArgs { what, attributes })
    };
    let arguments = match operation {
        "GETATTR" => C::GetAttr(v2::FileArgs { file: handle }),
        "READLINK" => C::ReadLink(v2::FileArgs { file: handle }),
        "STATFS" => C::StatFs(v2::FileArgs { file: handle }),
        "SETATTR" => C::SetAttr(v2::SetAttrArgs {
            file: handle,
            attributes: attributes(call)?,
        }),
        "LOOKUP" => C::Lookup(what),
        "REMOVE" => C::Remove(what),
        "RMDIR" => C::RmDir(what),
        "CREATE" => C::Create(create(call)?),
        "MKDIR" => C::MkDir(create(call)?),
        "READ" => C::Read(v2::ReadArgs {
            file: handle,
            offset: number("offset")?,
            count: number("count")?,
            // What nobody uses is no column.
            total_count: Some(0),
        }),
        "WRITE" => C::Write(v2::WriteArgs {
            file: handle,
            begin_offset: Some(0),
            offset: number("offset")?,
            total_count: Some(0),
            data_len: number("count")?,
        }),
        "SYMLINK" => C::SymLink(v2::SymLinkArgs {
            what,
            target: Some(Opaque::new(target)),
            attributes: attributes(call)?,
        }),
        "LINK" => C::Link(v2::LinkArgs {
            file: handle,
            link: v2::DirOpArgs {
                directory: Some(FixedOpaque::new(file2)),
                name,
            },
        }),
        "RENAME" => C::Rename(v2::RenameArgs {
            from: what,
            to: v2::DirOpArgs {
                directory: Some(FixedOpaque::new(file2)),
                name: Some(Opaque::new(name2)),
            },
        }),
        "READDIR" => C::ReadDir(v2::ReadDirArgs {
            directory,
            cookie: number("cookie")?,
            count: number("bytes_max")?,
        }),
        _ => return Err("no such procedure"),
    };
    arguments.encode(&mut out.bytes);
    if operation == "WRITE" {
        out.put_data(call.integer("count").unwrap_or(0) as u64);
    }
    Ok(())
}

/// All ones stand for an attribute that stays as it is.
fn attributes(call: &Call<'_>) -> Rebuilt<v2::SetAttributes> {
    let number = |column| {
        Some(
            call.integer(column)
                .map_or(u32::MAX, |number| number as u32),
        )
    };
    let time = |how: &str, ns: &str| -> Rebuilt<v2::Time> {
        let (seconds, microseconds) = match call.text(how) {
            Some("DONT_CHANGE") => (u32::MAX, u32::MAX),
            Some("SET_TO_CLIENT_TIME") => {
                let ns = call.integer(ns).ok_or("a time that does not fit")?;
                let part = ns.rem_euclid(1_000_000_000) / 1000;
                (ns.div_euclid(1_000_000_000) as u32, part as u32)
            }
            _ => return Err("the server's time, of which the client sends some seconds"),
        };
        Ok(v2::Time {
            seconds: Some(seconds),
            microseconds: Some(microseconds),
        })
    };
    Ok(v2::SetAttributes {
        mode: number("set_mode"),
        uid: number("set_uid"),
        gid: number("set_gid"),
        size: number("set_size"),
        atime: time("set_atime_how", "set_atime_ns")?,
        mtime: time("set_mtime_how", "set_mtime_ns")?,
    })
}
