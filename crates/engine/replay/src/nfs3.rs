//! Calls of NFSv3: from rows to arguments, and what replies make known.

use lineside_frame::Piece;
use lineside_nfs::v3::{self, Procedure};
use lineside_nfs_client::{Request, Results};
use lineside_rpc::xdr::{Handle, Name, Optional};

use crate::call::{Call, Facts, Operation};
use crate::content;
use crate::figures::Repairs;
use crate::script::Script;
use crate::tables::{Lack, Position, Tables};

/// A WRITE that is longer is none: servers take a megabyte.
const WRITE_BYTES_MAX: u32 = 16 << 20;

/// What a call is made from.
pub(crate) struct Making<'a> {
    pub(crate) tables: &'a Tables,
    /// Of what WRITEs write.
    pub(crate) seed: u64,
    /// What was drawn of that ahead: the operation, and its bytes.
    pub(crate) drawn: Option<(i64, Vec<u8>)>,
    /// The handle of the root of the call's server.
    pub(crate) top: &'a [u8],
    pub(crate) repairs: &'a mut Repairs,
}

/// A name as the trace has it, or why there is none.
pub(crate) fn name(of: Option<&[u8]>) -> Result<&[u8], Lack> {
    of.filter(|name| name.len() <= Name::LEN_MAX)
        .ok_or(Lack::Arguments)
}

/// The bytes that a WRITE writes.
pub(crate) fn data(making: &mut Making<'_>, operation: &Operation) -> Result<Vec<u8>, Lack> {
    match making.drawn.take_if(|(id, _)| *id == operation.id) {
        Some((_, bytes)) => Ok(bytes),
        None => draw(making.seed, operation),
    }
}

/// The same, drawn.
pub(crate) fn draw(seed: u64, operation: &Operation) -> Result<Vec<u8>, Lack> {
    let offset = operation.offset.ok_or(Lack::Arguments)?;
    let count = operation.count.filter(|&count| count <= WRITE_BYTES_MAX);
    let mut bytes = vec![0; count.ok_or(Lack::Arguments)? as usize];
    let file = operation.file.unwrap_or_default();
    content::write(seed, file, offset, &operation.sums, &mut bytes);
    Ok(bytes)
}

/// A path for a symbolic link that leads nowhere outside: where it would, its slashes and dots
/// become underscores.
pub(crate) fn inner_target(target: &[u8], repairs: &mut Repairs) -> Vec<u8> {
    let mut components = target.split(|&byte| byte == b'/');
    let leads_out = target.starts_with(b"/") || components.any(|component| component == b"..");
    match leads_out {
        false => target.to_vec(),
        true => {
            repairs.links += 1;
            let other = |byte: &u8| {
                if matches!(byte, b'/' | b'.') {
                    b'_'
                } else {
                    *byte
                }
            };
            target.iter().map(other).collect()
        }
    }
}

/// Where a READDIR of a client goes on.
pub(crate) fn position(
    making: &mut Making<'_>,
    client: u32,
    operation: &Operation,
    facts: &Facts,
) -> Result<Position, Lack> {
    let cookie = facts.cookie.ok_or(Lack::Arguments)?;
    let directory = operation.file.ok_or(Lack::Arguments)?;
    if cookie == 0 {
        return Ok(Position::default());
    }
    let known = making.tables.position(client, directory);
    making.repairs.cookies += u64::from(known.is_none());
    Ok(known.unwrap_or_default())
}

fn attributes(facts: &Facts) -> v3::SetAttributes {
    fn set<T>(value: Option<T>) -> Optional<Option<T>> {
        value.map_or(Optional::Absent, |value| Optional::Present(Some(value)))
    }
    v3::SetAttributes {
        mode: set(facts.set_mode),
        uid: set(facts.set_uid),
        gid: set(facts.set_gid),
        size: set(facts.set_size),
        atime: set_time(facts.set_atime_how.as_deref(), facts.set_atime_ns),
        mtime: set_time(facts.set_mtime_how.as_deref(), facts.set_mtime_ns),
    }
}

fn set_time(how: Option<&str>, ns: Option<i64>) -> v3::SetTime {
    match (how, ns) {
        (Some("SET_TO_SERVER_TIME"), _) => v3::SetTime::ServerTime,
        (Some("SET_TO_CLIENT_TIME"), Some(ns)) => {
            let seconds = u32::try_from(ns.div_euclid(1_000_000_000)).unwrap_or(u32::MAX);
            v3::SetTime::ClientTime(v3::Time {
                seconds: Some(seconds),
                nanoseconds: Some(ns.rem_euclid(1_000_000_000) as u32),
            })
        }
        _ => v3::SetTime::DontChange,
    }
}

fn how(facts: &Facts) -> Result<v3::CreateHow, Lack> {
    match facts.create_mode.as_deref() {
        Some("UNCHECKED") => Ok(v3::CreateHow::Unchecked(attributes(facts))),
        Some("GUARDED") => Ok(v3::CreateHow::Guarded(attributes(facts))),
        Some("EXCLUSIVE") => {
            let verifier = facts.create_verifier.ok_or(Lack::Arguments)?;
            Ok(v3::CreateHow::Exclusive(Some(verifier.to_be_bytes())))
        }
        _ => Err(Lack::Arguments),
    }
}

fn node(facts: &Facts) -> Result<v3::Node, Lack> {
    let attributes = attributes(facts);
    let device = v3::DeviceNode {
        attributes,
        device: v3::Device {
            major: facts.device_major,
            minor: facts.device_minor,
        },
    };
    let is_known = facts.device_major.and(facts.device_minor).is_some();
    match facts.node_type.as_deref() {
        Some("BLK") if is_known => Ok(v3::Node::Block(device)),
        Some("CHR") if is_known => Ok(v3::Node::Character(device)),
        Some("SOCK") => Ok(v3::Node::Socket(attributes)),
        Some("FIFO") => Ok(v3::Node::Fifo(attributes)),
        _ => Err(Lack::Arguments),
    }
}

fn stable(facts: &Facts) -> Result<v3::StableHow, Lack> {
    match facts.stable_how.as_deref() {
        Some("UNSTABLE") => Ok(v3::StableHow::UNSTABLE),
        Some("DATA_SYNC") => Ok(v3::StableHow::DATA_SYNC),
        Some("FILE_SYNC") => Ok(v3::StableHow::FILE_SYNC),
        _ => Err(Lack::Arguments),
    }
}

/// Gives `make` the call of an operation.
pub(crate) fn request<T>(
    making: &mut Making<'_>,
    call: &Call,
    operation: &Operation,
    procedure: Procedure,
    make: impl FnOnce(Request<'_>) -> T,
) -> Result<T, Lack> {
    let none = Facts::default();
    let facts = operation.facts.as_deref().unwrap_or(&none);
    let tables = making.tables;
    let of = |file: Option<i64>| match procedure {
        Procedure::Null => Ok(&[][..]),
        _ => tables.handle(file),
    };
    let file = [Piece::bytes(of(operation.file)?)];
    let takes_two = matches!(procedure, Procedure::Rename | Procedure::Link);
    let file2 = takes_two.then(|| of(operation.file2)).transpose()?;
    let file2 = [Piece::bytes(file2.unwrap_or_default())];
    let names = operation.names.each_ref().map(Option::as_deref);
    let is_out = names[0] == Some(b"..") && tables.root(operation.file).is_some();
    making.repairs.parents += u64::from(is_out);
    let names = [if is_out { Some(&b"."[..]) } else { names[0] }, names[1]];
    let texts = names.map(|name| [Piece::bytes(name.unwrap_or_default())]);
    let target = match procedure {
        Procedure::SymLink => name(facts.symlink_target.as_deref())?,
        _ => &[],
    };
    let target = inner_target(target, making.repairs);
    let target = [Piece::bytes(&target)];
    let bytes = match procedure {
        Procedure::Write => data(making, operation)?,
        _ => Vec::new(),
    };
    let handles = [Handle::new(&file), Handle::new(&file2)];
    // Too long a name cannot be asked for: it is checked before it is used.
    let text = |at: usize| name(names[at]).map(|_| Some(Name::new(&texts[at])));
    let call = match of_names(procedure, facts, handles, text, Name::new(&target))? {
        Some(call) => call,
        None => of_file(making, call, operation, facts, procedure, Some(handles[0]))?,
    };
    Ok(make(Request::Nfs3(&call, &bytes)))
}

/// A call with names; `None`: it has none.
fn of_names<'a>(
    procedure: Procedure,
    facts: &'a Facts,
    [file, file2]: [Handle<'a>; 2],
    text: impl Fn(usize) -> Result<Option<Name<'a>>, Lack>,
    target: Name<'a>,
) -> Result<Option<v3::Call<'a>>, Lack> {
    let at = |directory: Handle<'a>, at: usize| -> Result<v3::DirOpArgs<'a>, Lack> {
        Ok(v3::DirOpArgs {
            directory: Some(directory),
            name: text(at)?,
        })
    };
    let what = || at(file, 0);
    Ok(Some(match procedure {
        Procedure::Lookup => v3::Call::Lookup(what()?),
        Procedure::Remove => v3::Call::Remove(what()?),
        Procedure::RmDir => v3::Call::RmDir(what()?),
        Procedure::Create => v3::Call::Create(v3::CreateArgs {
            what: what()?,
            how: how(facts)?,
        }),
        Procedure::MkDir => v3::Call::MkDir(v3::MkDirArgs {
            what: what()?,
            attributes: attributes(facts),
        }),
        Procedure::SymLink => v3::Call::SymLink(v3::SymLinkArgs {
            what: what()?,
            attributes: attributes(facts),
            target: Some(target),
        }),
        Procedure::MkNod => v3::Call::MkNod(v3::MkNodArgs {
            what: what()?,
            node: node(facts)?,
        }),
        Procedure::Rename => v3::Call::Rename(v3::RenameArgs {
            from: what()?,
            to: at(file2, 1)?,
        }),
        Procedure::Link => v3::Call::Link(v3::LinkArgs {
            file: Some(file),
            link: at(file2, 0)?,
        }),
        _ => return Ok(None),
    }))
}

/// A call without names.
fn of_file<'a>(
    making: &mut Making<'_>,
    call: &Call,
    operation: &Operation,
    facts: &Facts,
    procedure: Procedure,
    file: Option<Handle<'a>>,
) -> Result<v3::Call<'a>, Lack> {
    let offset = operation.offset.ok_or(Lack::Arguments);
    let count = operation.count.ok_or(Lack::Arguments);
    let bytes_max = facts.bytes_max.ok_or(Lack::Arguments);
    Ok(match procedure {
        Procedure::Null => v3::Call::Null(()),
        Procedure::GetAttr => v3::Call::GetAttr(v3::FileArgs { file }),
        Procedure::ReadLink => v3::Call::ReadLink(v3::FileArgs { file }),
        Procedure::FsStat => v3::Call::FsStat(v3::FileArgs { file }),
        Procedure::FsInfo => v3::Call::FsInfo(v3::FileArgs { file }),
        Procedure::PathConf => v3::Call::PathConf(v3::FileArgs { file }),
        Procedure::SetAttr => v3::Call::SetAttr(v3::SetAttrArgs {
            file,
            attributes: attributes(facts),
            guard: guard(making, operation, facts),
        }),
        Procedure::Access => v3::Call::Access(v3::AccessArgs {
            file,
            access: Some(facts.access_requested.ok_or(Lack::Arguments)?),
        }),
        Procedure::Read => v3::Call::Read(v3::ReadArgs {
            file,
            offset: Some(offset?),
            count: Some(count?),
        }),
        Procedure::Commit => v3::Call::Commit(v3::CommitArgs {
            file,
            offset: Some(offset?),
            count: Some(count?),
        }),
        Procedure::Write => v3::Call::Write(v3::WriteArgs {
            file,
            offset: operation.offset,
            count: operation.count,
            stable: Some(stable(facts)?),
            data_len: operation.count,
        }),
        Procedure::ReadDir => {
            let at = position(making, call.client, operation, facts)?;
            v3::Call::ReadDir(v3::ReadDirArgs {
                directory: file,
                cookie: Some(at.cookie),
                cookie_verifier: Some(at.verifier),
                count: Some(bytes_max?),
            })
        }
        Procedure::ReadDirPlus => {
            let at = position(making, call.client, operation, facts)?;
            v3::Call::ReadDirPlus(v3::ReadDirPlusArgs {
                directory: file,
                cookie: Some(at.cookie),
                cookie_verifier: Some(at.verifier),
                directory_count: Some(facts.directory_bytes.ok_or(Lack::Arguments)?),
                count_max: Some(bytes_max?),
            })
        }
        _ => return Err(Lack::Kind),
    })
}

/// A guard by the change time that the server has shown last.
fn guard(making: &mut Making<'_>, operation: &Operation, facts: &Facts) -> Optional<v3::Time> {
    if facts.guard_ctime_ns.is_none() {
        return Optional::Absent;
    }
    match making.tables.changed(operation.file) {
        Some((seconds, nanoseconds)) => Optional::Present(v3::Time {
            seconds: Some(seconds),
            nanoseconds: Some(nanoseconds),
        }),
        None => {
            making.repairs.guards += 1;
            Optional::Absent
        }
    }
}

/// Whether the server puts a call off.
pub(crate) fn is_put_off(procedure: Procedure, results: Results<'_>) -> bool {
    // The status is the first word of all replies but that of NULL.
    let status = v3::Reply::decode(procedure, &mut results.cursor()).status();
    status == Some(v3::Status::JUKEBOX.0)
}

/// Learns what a reply has. Its status.
pub(crate) fn on_results(
    script: &Script,
    tables: &mut Tables,
    call: &Call,
    operation: &Operation,
    procedure: Procedure,
    results: Results<'_>,
) -> Option<u32> {
    let mut cursor = results.cursor();
    let reply = v3::Reply::decode(procedure, &mut cursor);
    if let (Some(made), Some(handle)) = (made(script, operation), reply.object()) {
        tables.set_handle(made, &handle.to_vec());
    }
    // Where a file was made, its attributes are in the reply and not the directory's.
    let about = reply.object().map_or(operation.file, |_| operation.made);
    if let Some((file, time)) = about.zip(reply.attributes().map(|it| it.get().ctime))
        && let (Some(seconds), Some(nanoseconds)) = (time.seconds, time.nanoseconds)
    {
        tables.set_changed(file, (seconds, nanoseconds));
    }
    let directory = operation.file.unwrap_or_default();
    match &reply {
        v3::Reply::ReadDir(outcome) => {
            if let Some(ok) = outcome.ok() {
                let last = ok.entries.iter().filter_map(|entry| entry.cookie).last();
                go_on(tables, call.client, directory, last, ok.cookie_verifier);
            }
        }
        v3::Reply::ReadDirPlus(outcome) => {
            let Some(ok) = outcome.ok() else {
                return reply.status();
            };
            let mut last = None;
            for entry in ok.entries.iter() {
                last = entry.cookie.or(last);
                let Some((name, handle)) = entry.name.zip(entry.handle.value()) else {
                    continue;
                };
                let key = (directory, name.to_vec().into_boxed_slice());
                if let Some(&file) = script.names.get(&key) {
                    tables.set_handle(file, &handle.to_vec());
                }
            }
            go_on(tables, call.client, directory, last, ok.cookie_verifier);
        }
        _ => {}
    }
    reply.status()
}

/// The file that a call named first: by its reply, or by its name where the reply had no handle.
fn made(script: &Script, operation: &Operation) -> Option<i64> {
    operation.made.or_else(|| {
        let (directory, name) = (operation.file?, operation.names[0].clone()?);
        script.names.get(&(directory, name)).copied()
    })
}

fn go_on(
    tables: &mut Tables,
    client: u32,
    directory: i64,
    last: Option<u64>,
    verifier: Option<[u8; 8]>,
) {
    let known = tables.position(client, directory).unwrap_or_default();
    let position = Position {
        cookie: last.unwrap_or(known.cookie),
        verifier: verifier.unwrap_or(known.verifier),
    };
    tables.set_position(client, directory, position);
}
