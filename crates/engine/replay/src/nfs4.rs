//! Compounds of NFSv4: from rows to arguments, and what replies make known. The client engine adds
//! SEQUENCE, and sets client ids and the numbers of owners.

use lineside_frame::{Cursor, Piece};
use lineside_nfs::v4::attributes::SetTime;
use lineside_nfs::v4::{
    self, AttributeList, Attributes, Bitmap, Call as Made, Operation as Name4, StateId,
};
use lineside_nfs_client::{Request, Results};
use lineside_rpc::xdr::{Counted, Name, Xdr};

use crate::attributes;
use crate::call::{Call, Facts, Operation, Procedure};
use crate::figures::Figures;
use crate::nfs3::{Making, data, inner_target, name, position};
use crate::script::Script;
use crate::tables::{Lack, Position, Tables};

/// Attributes that a usual client asks for: type, change, size, file system, error of an entry,
/// file id, mode, links, owner, group, space, times, and what is mounted there.
const ASKED: [u32; 15] = [1, 3, 4, 8, 11, 20, 33, 35, 36, 37, 45, 47, 52, 53, 55];
/// That and the handle, of a directory's entries.
const HANDLE: u32 = 19;

fn operation_of(operation: &Operation) -> Option<Name4> {
    match operation.procedure {
        Some(Procedure::Nfs4(operation)) => Some(operation),
        _ => None,
    }
}

/// Bytes that an operation's arguments point to.
#[derive(Default)]
struct Texts<'a> {
    handle: &'a [u8],
    names: [&'a [u8]; 2],
    owner: &'a [u8],
    target: Vec<u8>,
    /// Attributes that it gives, as on the wire.
    list: Option<Vec<u8>>,
}

/// Gives `make` the compound of a call.
pub(crate) fn request<T>(
    making: &mut Making<'_>,
    call: &Call,
    make: impl FnOnce(Request<'_>) -> T,
) -> Result<T, Lack> {
    let mut texts = Vec::with_capacity(call.operations.len());
    let mut bytes = Vec::new();
    let operations = call.operations.iter();
    let operations = operations.filter(|it| operation_of(it) != Some(Name4::Sequence));
    let operations: Vec<_> = operations.collect();
    for operation in &operations {
        texts.push(texts_of(making, operation)?);
        if operation_of(operation) == Some(Name4::Write) {
            bytes.extend(data(making, operation)?);
        }
    }
    let none = Facts::default();
    let older: Vec<_> = { operations.iter() }
        .map(|operation| older(operation.facts.as_deref().unwrap_or(&none)))
        .collect();
    let pieces: Vec<_> = { texts.iter() }
        .map(|texts| {
            let [one, two] = texts.names;
            let list = texts.list.as_deref().unwrap_or_default();
            [texts.handle, one, two, texts.owner, &texts.target, list].map(|it| [Piece::bytes(it)])
        })
        .collect();
    let mut calls = Vec::with_capacity(operations.len());
    for (at, operation) in operations.iter().enumerate() {
        let facts = operation.facts.as_deref().unwrap_or(&none);
        let list = match texts[at].list {
            Some(_) => AttributeList::decode(&mut Cursor::new(&pieces[at][5])),
            None => AttributeList::new(&older[at]),
        };
        calls.push(one(making, call, operation, facts, &pieces[at], list)?);
    }
    let tag = call
        .operations
        .first()
        .and_then(|first| first.facts.as_deref());
    let tag = tag
        .and_then(|facts| facts.tag.as_deref())
        .unwrap_or_default();
    Ok(make(Request::Compound {
        tag: name(Some(tag))?,
        calls: &calls,
        data: &bytes,
    }))
}

fn texts_of<'a, 'm: 'a>(
    making: &mut Making<'m>,
    operation: &'a Operation,
) -> Result<Texts<'a>, Lack> {
    let names = operation
        .names
        .each_ref()
        .map(|it| it.as_deref().unwrap_or_default());
    for text in names {
        name(Some(text))?;
    }
    let mut texts = Texts {
        names,
        ..Texts::default()
    };
    match operation_of(operation) {
        Some(Name4::PutFh) => texts.handle = making.tables.handle(operation.file)?,
        Some(Name4::PutRootFh | Name4::PutPubFh) => texts.handle = making.top,
        Some(Name4::LookupP) if let Some(root) = making.tables.root(operation.file) => {
            making.repairs.parents += 1;
            texts.handle = root;
        }
        _ => {}
    }
    if let Some(facts) = operation.facts.as_deref() {
        texts.owner = facts.owner.as_deref().unwrap_or_default();
        texts.list = given(making, operation, facts)?;
        if operation_of(operation) == Some(Name4::Create) {
            let target = facts.symlink_target.as_deref().unwrap_or_default();
            texts.target = inner_target(name(Some(target))?, making.repairs);
        }
    }
    match texts.owner.len() <= v4::Owner::LEN_MAX {
        true => Ok(texts),
        false => Err(Lack::Arguments),
    }
}

/// The attributes that an operation gives, if its row has all of them.
fn given(
    making: &Making<'_>,
    operation: &Operation,
    facts: &Facts,
) -> Result<Option<Vec<u8>>, Lack> {
    // It compared: what the server answered says with what outcome.
    let status = operation.status.as_deref();
    let holds = match operation_of(operation) {
        Some(Name4::Verify) => status == Some("NFS4_OK"),
        Some(Name4::NVerify) => status == Some("NFS4ERR_SAME"),
        _ => return Ok(attributes::given(facts)),
    };
    attributes::translated(making.tables, operation.file, facts, holds).map(Some)
}

/// Those of them that have columns of their own, in a trace of an older lineside.
fn older(facts: &Facts) -> Attributes<'static> {
    let set_time = |how: Option<&str>, ns: Option<i64>| match (how, ns) {
        (Some("SET_TO_CLIENT_TIME" | "SET_TO_CLIENT_TIME4"), Some(ns)) => {
            SetTime::ClientTime(Some(v4::Time {
                seconds: ns.div_euclid(1_000_000_000),
                nanoseconds: ns.rem_euclid(1_000_000_000) as u32,
            }))
        }
        (Some("SET_TO_SERVER_TIME" | "SET_TO_SERVER_TIME4"), _) => SetTime::ServerTime(0),
        _ => SetTime::Unread,
    };
    Attributes {
        size: facts.set_size,
        mode: facts.set_mode,
        set_atime: set_time(facts.set_atime_how.as_deref(), facts.set_atime_ns),
        set_mtime: set_time(facts.set_mtime_how.as_deref(), facts.set_mtime_ns),
        ..Attributes::default()
    }
}

/// The state id that the server gave for one of the source's. Those with a meaning of their own
/// (RFC 8881 section 8.2.3) stay as they are.
fn state(making: &mut Making<'_>, client: u32, facts: &Facts) -> Result<StateId, Lack> {
    let other = facts.stateid.as_deref().and_then(|it| it.try_into().ok());
    let other: [u8; 12] = other.ok_or(Lack::Arguments)?;
    let sequence = facts.stateid_sequence.unwrap_or(0);
    if other == [0; 12] || other == [0xff; 12] {
        return Ok(StateId { sequence, other });
    }
    Ok(making.tables.state(client, other).unwrap_or_else(|| {
        making.repairs.states += 1;
        StateId {
            sequence: 0,
            other: [0; 12],
        }
    }))
}

fn lock_type(facts: &Facts) -> Result<Option<v4::LockType>, Lack> {
    match facts.lock_type.as_deref() {
        Some("READ_LT") => Ok(Some(v4::LockType::READ)),
        Some("WRITE_LT") => Ok(Some(v4::LockType::WRITE)),
        Some("READW_LT") => Ok(Some(v4::LockType::READ_WAITING)),
        Some("WRITEW_LT") => Ok(Some(v4::LockType::WRITE_WAITING)),
        _ => Err(Lack::Arguments),
    }
}

fn content(facts: &Facts) -> Result<v4::Content, Lack> {
    match facts.content.as_deref() {
        Some("NFS4_CONTENT_DATA") => Ok(v4::Content::DATA),
        Some("NFS4_CONTENT_HOLE") => Ok(v4::Content::HOLE),
        _ => Err(Lack::Arguments),
    }
}

fn stable(facts: &Facts) -> Result<Option<v4::StableHow>, Lack> {
    let word = facts.stable_how.as_deref();
    match word.map(|word| word.trim_end_matches('4')) {
        Some("UNSTABLE") => Ok(Some(v4::StableHow::UNSTABLE)),
        Some("DATA_SYNC") => Ok(Some(v4::StableHow::DATA_SYNC)),
        Some("FILE_SYNC") => Ok(Some(v4::StableHow::FILE_SYNC)),
        _ => Err(Lack::Arguments),
    }
}

/// One operation with its arguments; `texts` are handle, both names, owner, link's target and the
/// list of attributes.
fn one<'a>(
    making: &mut Making<'_>,
    call: &Call,
    operation: &Operation,
    facts: &Facts,
    texts: &'a [[Piece<'a>; 1]; 6],
    attributes: AttributeList<'a>,
) -> Result<Made<'a>, Lack> {
    let [handle, first, second, owner, ..] = texts;
    let text = Some(Name::new(first));
    let of_name = v4::NameArgs { name: text };
    let offset = || operation.offset.map(Some).ok_or(Lack::Arguments);
    let count = || operation.count.map(Some).ok_or(Lack::Arguments);
    let owner = v4::StateOwner {
        client_id: Some(0),
        owner: Some(v4::Owner::new(owner)),
    };
    let put = Made::PutFh(v4::PutFhArgs {
        object: Some(v4::Handle::new(handle)),
    });
    Ok(match operation_of(operation).ok_or(Lack::Kind)? {
        Name4::PutFh | Name4::PutRootFh | Name4::PutPubFh => put,
        Name4::LookupP if !texts[0][0].is_empty() => put,
        Name4::LookupP => Made::LookupP(()),
        Name4::Access => Made::Access(v4::AccessArgs {
            access: Some(facts.access_requested.ok_or(Lack::Arguments)?),
        }),
        Name4::Commit => Made::Commit(v4::CommitArgs {
            offset: offset()?,
            count: count()?,
        }),
        Name4::GetAttr => {
            let request = Some(asked(making, facts, &ASKED));
            Made::GetAttr(v4::GetAttrArgs { request })
        }
        Name4::GetFh => Made::GetFh(()),
        Name4::SaveFh => Made::SaveFh(()),
        Name4::RestoreFh => Made::RestoreFh(()),
        Name4::ReadLink => Made::ReadLink(()),
        Name4::Link => Made::Link(of_name),
        Name4::Lookup => Made::Lookup(of_name),
        Name4::Remove => Made::Remove(of_name),
        Name4::SecInfo => Made::SecInfo(of_name),
        Name4::Rename => Made::Rename(v4::RenameArgs {
            from: text,
            to: Some(Name::new(second)),
        }),
        Name4::Create => create(facts, texts, attributes)?,
        Name4::Open => open(making, call, facts, owner, text, attributes)?,
        Name4::ReadDir => read_dir(making, call, operation, facts)?,
        Name4::Verify => Made::Verify(v4::VerifyArgs { attributes }),
        Name4::NVerify => Made::NVerify(v4::VerifyArgs { attributes }),
        Name4::Lock => lock(making, call, operation, facts, owner)?,
        Name4::ReleaseLockOwner => Made::ReleaseLockOwner(v4::ReleaseLockOwnerArgs { owner }),
        _ => of_state(making, call, operation, facts, owner, attributes)?,
    })
}

/// One operation about state, or with a state id.
fn of_state<'a>(
    making: &mut Making<'_>,
    call: &Call,
    operation: &Operation,
    facts: &Facts,
    owner: v4::StateOwner<'a>,
    attributes: AttributeList<'a>,
) -> Result<Made<'a>, Lack> {
    let offset = || operation.offset.map(Some).ok_or(Lack::Arguments);
    let length = || operation.length.map(Some).ok_or(Lack::Arguments);
    let mut stateid = || state(making, call.client, facts).map(Some);
    Ok(match operation_of(operation).ok_or(Lack::Kind)? {
        Name4::Close => Made::Close(v4::CloseArgs {
            sequence: Some(0),
            stateid: stateid()?,
        }),
        Name4::DelegReturn => Made::DelegReturn(v4::StateIdArgs {
            stateid: stateid()?,
        }),
        Name4::FreeStateId => Made::FreeStateId(v4::StateIdArgs {
            stateid: stateid()?,
        }),
        Name4::OpenConfirm => Made::OpenConfirm(v4::OpenConfirmArgs {
            stateid: stateid()?,
            sequence: Some(0),
        }),
        Name4::OpenDowngrade => Made::OpenDowngrade(v4::OpenDowngradeArgs {
            stateid: stateid()?,
            sequence: Some(0),
            access: Some(facts.share_access.ok_or(Lack::Arguments)?),
            deny: Some(facts.share_deny.unwrap_or(0)),
        }),
        Name4::SetAttr => Made::SetAttr(v4::SetAttrArgs {
            stateid: stateid()?,
            attributes,
        }),
        Name4::LockT => Made::LockT(v4::LockTestArgs {
            lock_type: lock_type(facts)?,
            offset: offset()?,
            length: length()?,
            owner,
        }),
        Name4::LockU => Made::LockU(v4::UnlockArgs {
            lock_type: lock_type(facts)?,
            sequence: Some(0),
            stateid: stateid()?,
            offset: offset()?,
            length: length()?,
        }),
        _ => of_data(making, call, operation, facts)?,
    })
}

/// One operation about data, with a state id.
fn of_data(
    making: &mut Making<'_>,
    call: &Call,
    operation: &Operation,
    facts: &Facts,
) -> Result<Made<'static>, Lack> {
    let offset = || operation.offset.map(Some).ok_or(Lack::Arguments);
    let count = || operation.count.map(Some).ok_or(Lack::Arguments);
    let length = || operation.length.map(Some).ok_or(Lack::Arguments);
    let mut stateid = || state(making, call.client, facts).map(Some);
    Ok(match operation_of(operation).ok_or(Lack::Kind)? {
        Name4::Read => Made::Read(v4::ReadArgs {
            stateid: stateid()?,
            offset: offset()?,
            count: count()?,
        }),
        Name4::Write => Made::Write(v4::WriteArgs {
            stateid: stateid()?,
            offset: offset()?,
            stable: stable(facts)?,
            data_len: count()?,
        }),
        Name4::ReadPlus => Made::ReadPlus(v4::ReadArgs {
            stateid: stateid()?,
            offset: offset()?,
            count: count()?,
        }),
        Name4::Allocate => Made::Allocate(v4::AllocateArgs {
            stateid: stateid()?,
            offset: offset()?,
            length: length()?,
        }),
        Name4::Deallocate => Made::Deallocate(v4::AllocateArgs {
            stateid: stateid()?,
            offset: offset()?,
            length: length()?,
        }),
        Name4::Seek => Made::Seek(v4::SeekArgs {
            stateid: stateid()?,
            offset: offset()?,
            what: Some(content(facts)?),
        }),
        Name4::Copy => Made::Copy(v4::CopyArgs {
            source_stateid: Some(source_state(making, call, operation)),
            stateid: Some(state(making, call.client, facts)?),
            source_offset: Some(facts.source_offset.ok_or(Lack::Arguments)?),
            offset: offset()?,
            count: length()?,
            consecutive: Some(true),
            // Without callbacks nothing says when it has ended otherwise.
            synchronous: Some(true),
            source_servers: Counted::new(&[]),
        }),
        Name4::Clone => Made::Clone(v4::CloneArgs {
            source_stateid: Some(source_state(making, call, operation)),
            stateid: Some(state(making, call.client, facts)?),
            source_offset: Some(facts.source_offset.ok_or(Lack::Arguments)?),
            offset: offset()?,
            count: length()?,
        }),
        // Nothing here can serve it.
        _ => return Err(Lack::Kind),
    })
}

/// The state of what is copied, which no row has: that of the client's last OPEN of the file.
fn source_state(making: &mut Making<'_>, call: &Call, operation: &Operation) -> StateId {
    let opened = { operation.file2 }.and_then(|file| making.tables.opened(call.client, file));
    opened.unwrap_or_else(|| {
        making.repairs.states += 1;
        StateId {
            sequence: 0,
            other: [0; 12],
        }
    })
}

fn create<'a>(
    facts: &Facts,
    texts: &'a [[Piece<'a>; 1]; 6],
    attributes: AttributeList<'a>,
) -> Result<Made<'a>, Lack> {
    let device = facts.device_major.zip(facts.device_minor);
    let device = device.map(|(major, minor)| v4::Device { major, minor });
    let object = match facts.node_type.as_deref() {
        _ if facts.symlink_target.is_some() => v4::CreateType::Symlink(Some(Name::new(&texts[4]))),
        None | Some("DIR") => v4::CreateType::Directory,
        Some("SOCK") => v4::CreateType::Socket,
        Some("FIFO") => v4::CreateType::Fifo,
        Some("BLK") if device.is_some() => v4::CreateType::Block(device),
        Some("CHR") if device.is_some() => v4::CreateType::Character(device),
        Some(_) => return Err(Lack::Arguments),
    };
    Ok(Made::Create(v4::CreateArgs {
        object,
        name: Some(Name::new(&texts[1])),
        attributes,
    }))
}

fn open<'a>(
    making: &mut Making<'_>,
    call: &Call,
    facts: &Facts,
    owner: v4::StateOwner<'a>,
    name: Option<Name<'a>>,
    attributes: AttributeList<'a>,
) -> Result<Made<'a>, Lack> {
    let verifier = facts.create_verifier.unwrap_or_else(|| {
        let is_asked =
            matches!(facts.create_mode.as_deref(), Some(mode) if mode.starts_with("EXCL"));
        making.repairs.verifiers += u64::from(is_asked);
        call.id.cast_unsigned()
    });
    let verifier = Some(verifier.to_be_bytes());
    let how = match facts.create_mode.as_deref() {
        None => v4::OpenHow::NoCreate,
        Some(mode) => v4::OpenHow::Create(match mode {
            "UNCHECKED" | "UNCHECKED4" => v4::CreateHow::Unchecked(attributes),
            "GUARDED" | "GUARDED4" => v4::CreateHow::Guarded(attributes),
            "EXCLUSIVE" | "EXCLUSIVE4" => v4::CreateHow::Exclusive(verifier),
            "EXCLUSIVE4_1" => v4::CreateHow::ExclusiveWithAttributes(v4::ExclusiveCreate {
                verifier,
                attributes,
            }),
            _ => return Err(Lack::Arguments),
        }),
    };
    let claim = match facts.claim.as_deref() {
        Some("CLAIM_NULL") => v4::Claim::Null(name),
        Some("CLAIM_FH") => v4::Claim::Handle,
        // A delegation of the source's: the open is asked for anew.
        Some("CLAIM_DELEGATE_CUR") => {
            making.repairs.states += 1;
            v4::Claim::Null(name)
        }
        Some("CLAIM_DELEG_CUR_FH") => {
            making.repairs.states += 1;
            v4::Claim::Handle
        }
        _ => return Err(Lack::Arguments),
    };
    Ok(Made::Open(v4::OpenArgs {
        sequence: Some(0),
        access: Some(facts.share_access.ok_or(Lack::Arguments)?),
        deny: Some(facts.share_deny.unwrap_or(0)),
        owner,
        how,
        claim,
    }))
}

fn read_dir<'a>(
    making: &mut Making<'_>,
    call: &Call,
    operation: &Operation,
    facts: &Facts,
) -> Result<Made<'a>, Lack> {
    let at = position(making, call.client, operation, facts)?;
    let usual: Vec<_> = ASKED.into_iter().chain([HANDLE]).collect();
    Ok(Made::ReadDir(v4::ReadDirArgs {
        cookie: Some(at.cookie),
        cookie_verifier: Some(at.verifier),
        directory_count: Some(facts.directory_bytes.unwrap_or(0)),
        count_max: Some(facts.bytes_max.ok_or(Lack::Arguments)?),
        request: Some(asked(making, facts, &usual)),
    }))
}

/// The attributes that are asked for: where the row does not have them, those of a usual client.
fn asked(making: &mut Making<'_>, facts: &Facts, usual: &[u32]) -> Bitmap {
    attributes::asked(facts).unwrap_or_else(|| {
        making.repairs.attributes += 1;
        Bitmap::new(usual)
    })
}

fn lock<'a>(
    making: &mut Making<'_>,
    call: &Call,
    operation: &Operation,
    facts: &Facts,
    owner: v4::StateOwner<'a>,
) -> Result<Made<'a>, Lack> {
    let stateid = Some(state(making, call.client, facts)?);
    let locker = match facts.owner {
        Some(_) => v4::Locker::New(v4::NewLockOwner {
            open_sequence: Some(0),
            open_stateid: stateid,
            lock_sequence: Some(0),
            owner,
        }),
        None => v4::Locker::Known(v4::KnownLockOwner {
            stateid,
            sequence: Some(0),
        }),
    };
    Ok(Made::Lock(v4::LockArgs {
        lock_type: lock_type(facts)?,
        reclaim: Some(false),
        offset: Some(operation.offset.ok_or(Lack::Arguments)?),
        length: Some(operation.length.ok_or(Lack::Arguments)?),
        locker,
    }))
}

/// Whether the server puts a compound off, of which it has changed nothing yet.
pub(crate) fn is_put_off(call: &Call, results: Results<'_>) -> bool {
    let changes = |operation: &Operation| {
        !matches!(
            operation_of(operation),
            Some(
                Name4::Sequence
                    | Name4::PutFh
                    | Name4::PutRootFh
                    | Name4::PutPubFh
                    | Name4::SaveFh
                    | Name4::RestoreFh
                    | Name4::GetFh
                    | Name4::GetAttr
                    | Name4::Lookup
                    | Name4::LookupP
                    | Name4::Access
                    | Name4::Verify
                    | Name4::NVerify
            )
        )
    };
    let is_delayed = |status: v4::Status| matches!(status, v4::Status::DELAY | v4::Status::GRACE);
    let Ok(mut compound) = results.compound() else {
        return false;
    };
    let status = compound.status;
    let mut operations = call.operations.iter();
    is_delayed(status)
        && compound.all(|each| match each {
            Ok((reply, _)) => {
                let is_ok = reply.status() == Some(0);
                operations.next().is_none_or(|it| !is_ok || !changes(it))
            }
            Err(_) => false,
        })
}

/// Learns what a reply has, and compares its statuses.
pub(crate) fn on_results(
    script: &Script,
    tables: &mut Tables,
    figures: &mut Figures,
    call: &Call,
    results: Results<'_>,
) {
    let Ok(compound) = results.compound() else {
        return;
    };
    let mut made = None;
    for (operation, reply) in call.operations.iter().zip(compound) {
        let Ok((reply, _)) = reply else { return };
        let known = reply.status().map(|status| match v4::status_name(status) {
            Some(name) => name.to_owned(),
            None => status.to_string(),
        });
        // PUTFH stands for PUTROOTFH, and its name is the source's.
        let name = operation_of(operation).map_or("", Name4::name);
        figures.compare(name, operation.status.as_deref(), known.as_deref());
        learn(script, tables, call, operation, &reply, &mut made);
    }
}

fn learn(
    script: &Script,
    tables: &mut Tables,
    call: &Call,
    operation: &Operation,
    reply: &v4::Reply<'_>,
    made: &mut Option<i64>,
) {
    let facts = operation.facts.as_deref();
    let bytes = |of: Option<&[u8]>| of.and_then(|it| <[u8; 12]>::try_from(it).ok());
    let source = facts.and_then(|facts| {
        bytes(facts.reply_stateid.as_deref()).or_else(|| bytes(facts.stateid.as_deref()))
    });
    if let (Some(source), Some(state), Some(0)) = (source, reply.stateid(), reply.status()) {
        match reply {
            v4::Reply::Close(_) => tables.forget_state(call.client, source),
            _ => tables.set_state(call.client, source, state),
        }
        match (operation_of(operation), operation.file, operation.made) {
            (Some(Name4::Open), _, Some(file)) => {
                tables.set_opened(call.client, file, Some(state));
            }
            (Some(Name4::Close), Some(file), _) => tables.set_opened(call.client, file, None),
            _ => {}
        }
    }
    let delegation = facts.and_then(|facts| bytes(facts.delegation_stateid.as_deref()));
    let given = reply.delegation().and_then(|given| given.stateid());
    if let Some((source, given)) = delegation.zip(given) {
        tables.set_state(call.client, source, given);
    }
    *made = match operation_of(operation) {
        Some(Name4::Lookup | Name4::LookupP | Name4::Open | Name4::Create) => operation.made,
        Some(Name4::GetAttr | Name4::Access | Name4::GetFh) => *made,
        _ => None,
    };
    if let Some(handle) = reply.handle()
        && let Some(file) = made.or(operation.made).or(operation.file)
    {
        tables.set_handle(file, &handle.to_vec());
    }
    if let (Some(shown), v4::Reply::GetAttr(outcome)) = (script.shown.get(&operation.id), reply)
        && let Some(ok) = outcome.ok()
    {
        attributes::learn(tables, shown, &ok.attributes.values());
    }
    if let v4::Reply::ReadDir(outcome) = reply
        && let (Some(ok), Some(directory)) = (outcome.ok(), operation.file)
    {
        list(script, tables, call.client, directory, ok);
    }
}

/// Learns what a directory has.
fn list(
    script: &Script,
    tables: &mut Tables,
    client: u32,
    directory: i64,
    listed: &v4::ReadDirOk<'_>,
) {
    let mut position = tables.position(client, directory).unwrap_or_default();
    for entry in listed.entries.iter() {
        position.cookie = entry.cookie.unwrap_or(position.cookie);
        if let (Some(name), Some(handle)) = (entry.name, entry.attributes.values().handle) {
            let key = (directory, name.to_vec().into_boxed_slice());
            if let Some(&file) = script.names.get(&key) {
                tables.set_handle(file, &handle.to_vec());
            }
        }
    }
    let verifier = listed.cookie_verifier.unwrap_or(position.verifier);
    tables.set_position(
        client,
        directory,
        Position {
            verifier,
            ..position
        },
    );
}
