//! Compounds of NFSv4 from rows.

use lineside_frame::{Cursor, Piece};
use lineside_nfs::v4::{self, AttributeList, Bitmap, Operation, StateId};
use lineside_rpc::xdr::{Opaque, Scalar, Xdr, pad};

use super::nfs3::{Parts, stable_how};
use super::rows::Call;
use super::{Message, Rebuilt};

/// `at` becomes the operation that cannot be encoded.
pub(super) fn put(call: &Call<'_>, at: &mut String, out: &mut Message) -> Rebuilt<()> {
    let tag = call.bytes("tag").ok_or("no tag")?;
    let tag = [Piece::bytes(&tag)];
    let count = call.integer("compound_operations").ok_or("no count")?;
    let header = v4::CallHeader {
        tag: Some(Opaque::new(&tag)),
        minor_version: call.integer("minor_version").map(|number| number as u32),
        operation_count: Some(count as u32),
    };
    header.encode(&mut out.bytes);
    if count == 0 {
        return Ok(());
    }
    let mut seen = 0;
    for operation in call.operations() {
        seen += 1;
        if operation.row.integer("compound_index").is_none() {
            return Err("sealed, or too little was seen");
        }
        *at = operation.row.text("operation").unwrap_or("?").to_owned();
        if operation.row.is("call_incomplete") {
            return Err("malformed");
        }
        put_operation(&operation, out)?;
    }
    match seen == count {
        true => Ok(()),
        false => Err("more operations than were read"),
    }
}

fn put_operation(call: &Call<'_>, out: &mut Message) -> Rebuilt<()> {
    let name = call.row.text("operation").unwrap_or_default();
    let known = { Operation::ALL.iter() }.find(|operation| operation.name() == name);
    let operation = *known.ok_or("an unknown operation")?;
    if let Some(arguments) = call.bytes("arguments") {
        let mut bytes = operation.number().to_be_bytes().to_vec();
        bytes.extend_from_slice(&arguments);
        let pieces = [Piece::bytes(&bytes)];
        let arguments = v4::Call::decode(&mut Cursor::new(&pieces));
        arguments.encode(&mut out.bytes);
        if let Some(len) = arguments.data_len() {
            out.put_data(len.into());
        }
        return Ok(());
    }
    let parts = Parts::of(call);
    let pieces = parts.pieces();
    let [file, _, name, name2, _] = &pieces;
    parts.need(match operation {
        Operation::PutFh => &[0],
        Operation::Lookup
        | Operation::Link
        | Operation::Remove
        | Operation::SecInfo
        | Operation::Create
        | Operation::GetXattr
        | Operation::RemoveXattr => &[2],
        Operation::Rename => &[2, 3],
        _ => &[],
    })?;
    let name = v4::NameArgs {
        name: Some(Opaque::new(name)),
    };
    let to = Some(Opaque::new(name2));
    let arguments = match operation {
        Operation::PutFh => v4::Call::PutFh(v4::PutFhArgs {
            object: Some(Opaque::new(file)),
        }),
        Operation::Lookup => v4::Call::Lookup(name),
        Operation::Link => v4::Call::Link(name),
        Operation::Remove => v4::Call::Remove(name),
        Operation::SecInfo => v4::Call::SecInfo(name),
        Operation::Rename => v4::Call::Rename(v4::RenameArgs {
            from: name.name,
            to,
        }),
        Operation::GetXattr => v4::Call::GetXattr(v4::XattrArgs { name: name.name }),
        Operation::RemoveXattr => v4::Call::RemoveXattr(v4::XattrArgs { name: name.name }),
        Operation::Create | Operation::SetAttr | Operation::Verify | Operation::NVerify => {
            return put_attributes(call, operation, out);
        }
        Operation::Open => return put_open(call, out),
        Operation::LockT | Operation::LockU | Operation::ReleaseLockOwner => {
            return put_lock(call, operation, out);
        }
        _ => plain(call, operation)?,
    };
    arguments.encode(&mut out.bytes);
    if let Some(len) = arguments.data_len() {
        out.put_data(len.into());
    }
    Ok(())
}

fn number(call: &Call<'_>, column: &str) -> Rebuilt<Option<u32>> {
    let number = call.integer(column).ok_or("a number is not in the trace")?;
    Ok(Some(number as u32))
}

fn long(call: &Call<'_>, column: &str) -> Rebuilt<Option<u64>> {
    let number = call.integer(column).ok_or("a number is not in the trace")?;
    Ok(Some(number.cast_unsigned()))
}

fn stateid(call: &Call<'_>) -> Rebuilt<Option<StateId>> {
    let other = call.bytes("stateid").ok_or("no state id")?;
    Ok(Some(StateId {
        sequence: call.integer("stateid_sequence").ok_or("no state id")? as u32,
        other: other.try_into().map_err(|_| "no state id")?,
    }))
}

fn session(call: &Call<'_>) -> Rebuilt<Option<[u8; 16]>> {
    let session = call.bytes("session").ok_or("no session")?;
    Ok(Some(session.try_into().map_err(|_| "no session")?))
}

fn sequence(call: &Call<'_>) -> Rebuilt<Option<u32>> {
    let number = call.integer("owner_sequence");
    Ok(Some(number.ok_or("no sequence of the owner")? as u32))
}

/// The bitmap of attributes, as on the wire.
fn bitmap_bytes(call: &Call<'_>) -> Rebuilt<Vec<u8>> {
    let words = call.bytes("attribute_bitmap");
    let words = words.ok_or("which attributes are asked for, or given")?;
    let mut bytes = (words.len() as u32 / 4).to_be_bytes().to_vec();
    bytes.extend_from_slice(&words);
    Ok(bytes)
}

fn bitmap(call: &Call<'_>) -> Rebuilt<Option<Bitmap>> {
    let bytes = bitmap_bytes(call)?;
    let pieces = [Piece::bytes(&bytes)];
    Ok(Bitmap::read(&mut Cursor::new(&pieces)))
}

/// The attributes that are given, as on the wire.
fn attribute_bytes(call: &Call<'_>) -> Rebuilt<Vec<u8>> {
    let mut bytes = bitmap_bytes(call)?;
    let values = call.bytes("attribute_values");
    let values = values.ok_or("the values of attributes")?;
    bytes.extend_from_slice(&(values.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&values);
    pad(&mut bytes, values.len());
    Ok(bytes)
}

/// Operations without names, handles and attributes.
fn plain(call: &Call<'_>, operation: Operation) -> Rebuilt<v4::Call<'static>> {
    use v4::Call as C;
    Ok(match operation {
        Operation::Access => C::Access(v4::AccessArgs {
            access: number(call, "access_requested")?,
        }),
        Operation::Close => C::Close(v4::CloseArgs {
            sequence: sequence(call)?,
            stateid: stateid(call)?,
        }),
        Operation::Commit => C::Commit(v4::CommitArgs {
            offset: long(call, "offset")?,
            count: number(call, "count")?,
        }),
        Operation::DelegPurge => C::DelegPurge(client(call)?),
        Operation::Renew => C::Renew(client(call)?),
        Operation::DestroyClientId => C::DestroyClientId(client(call)?),
        Operation::DelegReturn => C::DelegReturn(state(call)?),
        Operation::FreeStateId => C::FreeStateId(state(call)?),
        Operation::OffloadCancel => C::OffloadCancel(state(call)?),
        Operation::OffloadStatus => C::OffloadStatus(state(call)?),
        Operation::GetAttr => C::GetAttr(v4::GetAttrArgs {
            request: bitmap(call)?,
        }),
        Operation::GetFh => C::GetFh(()),
        Operation::LookupP => C::LookupP(()),
        Operation::PutPubFh => C::PutPubFh(()),
        Operation::PutRootFh => C::PutRootFh(()),
        Operation::ReadLink => C::ReadLink(()),
        Operation::RestoreFh => C::RestoreFh(()),
        Operation::SaveFh => C::SaveFh(()),
        Operation::Illegal => C::Illegal(()),
        Operation::OpenConfirm => C::OpenConfirm(v4::OpenConfirmArgs {
            stateid: stateid(call)?,
            sequence: sequence(call)?,
        }),
        Operation::OpenDowngrade => C::OpenDowngrade(v4::OpenDowngradeArgs {
            stateid: stateid(call)?,
            sequence: sequence(call)?,
            access: number(call, "share_access")?,
            deny: number(call, "share_deny")?,
        }),
        Operation::Read => C::Read(read(call)?),
        Operation::ReadPlus => C::ReadPlus(read(call)?),
        Operation::Write => C::Write(v4::WriteArgs {
            stateid: stateid(call)?,
            offset: long(call, "offset")?,
            stable: Some(v4::StableHow(stable_how(call)?)),
            data_len: number(call, "count")?,
        }),
        Operation::ReadDir => C::ReadDir(v4::ReadDirArgs {
            cookie: long(call, "cookie")?,
            cookie_verifier: long(call, "cookie_verifier")?.map(u64::to_be_bytes),
            directory_count: number(call, "directory_bytes")?,
            count_max: number(call, "bytes_max")?,
            request: bitmap(call)?,
        }),
        Operation::Sequence => C::Sequence(v4::SequenceArgs {
            session: session(call)?,
            sequence: number(call, "slot_sequence")?,
            slot: number(call, "slot")?,
            highest_slot: number(call, "highest_slot")?,
            cache_this: Some(
                call.flag("cache_reply")
                    .ok_or("whether to keep the reply")?,
            ),
        }),
        Operation::DestroySession => C::DestroySession(v4::SessionArgs {
            session: session(call)?,
        }),
        Operation::Allocate => C::Allocate(allocate(call)?),
        Operation::Deallocate => C::Deallocate(allocate(call)?),
        Operation::Seek => C::Seek(v4::SeekArgs {
            stateid: stateid(call)?,
            offset: long(call, "offset")?,
            what: Some(v4::Content(
                match call.text("content").ok_or("no content")? {
                    "NFS4_CONTENT_DATA" => 0,
                    "NFS4_CONTENT_HOLE" => 1,
                    other => other.parse().map_err(|_| "no content")?,
                },
            )),
        }),
        _ => return Err("other arguments"),
    })
}

fn client(call: &Call<'_>) -> Rebuilt<v4::ClientIdArgs> {
    Ok(v4::ClientIdArgs {
        client_id: long(call, "client_id")?,
    })
}

fn state(call: &Call<'_>) -> Rebuilt<v4::StateIdArgs> {
    Ok(v4::StateIdArgs {
        stateid: stateid(call)?,
    })
}

fn read(call: &Call<'_>) -> Rebuilt<v4::ReadArgs> {
    Ok(v4::ReadArgs {
        stateid: stateid(call)?,
        offset: long(call, "offset")?,
        count: number(call, "count")?,
    })
}

fn allocate(call: &Call<'_>) -> Rebuilt<v4::AllocateArgs> {
    Ok(v4::AllocateArgs {
        stateid: stateid(call)?,
        offset: long(call, "offset")?,
        length: long(call, "count")?,
    })
}

/// Operations that give attributes, but for OPEN.
fn put_attributes(call: &Call<'_>, operation: Operation, out: &mut Message) -> Rebuilt<()> {
    let bytes = attribute_bytes(call)?;
    let pieces = [Piece::bytes(&bytes)];
    let attributes = AttributeList::decode(&mut Cursor::new(&pieces));
    let parts = Parts::of(call);
    let pieces = parts.pieces();
    let [_, _, name, _, target] = &pieces;
    let verify = v4::VerifyArgs { attributes };
    let arguments = match operation {
        Operation::Verify => v4::Call::Verify(verify),
        Operation::NVerify => v4::Call::NVerify(verify),
        Operation::SetAttr => v4::Call::SetAttr(v4::SetAttrArgs {
            stateid: stateid(call)?,
            attributes,
        }),
        _ => v4::Call::Create(v4::CreateArgs {
            object: match call.text("node_type").ok_or("no type")? {
                "DIR" => v4::CreateType::Directory,
                "SOCK" => v4::CreateType::Socket,
                "FIFO" => v4::CreateType::Fifo,
                "LNK" => {
                    parts.need(&[4])?;
                    v4::CreateType::Symlink(Some(Opaque::new(target)))
                }
                "BLK" => v4::CreateType::Block(device(call)?),
                "CHR" => v4::CreateType::Character(device(call)?),
                _ => return Err("another type"),
            },
            name: Some(Opaque::new(name)),
            attributes,
        }),
    };
    arguments.encode(&mut out.bytes);
    Ok(())
}

fn device(call: &Call<'_>) -> Rebuilt<Option<v4::Device>> {
    Ok(Some(v4::Device {
        major: call.integer("device_major").ok_or("no device")? as u32,
        minor: call.integer("device_minor").ok_or("no device")? as u32,
    }))
}

fn put_open(call: &Call<'_>, out: &mut Message) -> Rebuilt<()> {
    let parts = Parts::of(call);
    let pieces = parts.pieces();
    let name = Some(Opaque::new(&pieces[2]));
    let mode = call.text("create_mode");
    let attributes = match mode {
        Some("UNCHECKED4" | "GUARDED4" | "EXCLUSIVE4_1") => attribute_bytes(call)?,
        _ => Vec::new(),
    };
    let attributes = [Piece::bytes(&attributes)];
    let attributes = AttributeList::decode(&mut Cursor::new(&attributes));
    let owner = call.bytes("owner").ok_or("no owner")?;
    let owner = [Piece::bytes(&owner)];
    let verifier = call.integer("create_verifier").map(i64::to_be_bytes);
    let how = match mode {
        None => v4::OpenHow::NoCreate,
        Some("UNCHECKED4") => v4::OpenHow::Create(v4::CreateHow::Unchecked(attributes)),
        Some("GUARDED4") => v4::OpenHow::Create(v4::CreateHow::Guarded(attributes)),
        Some("EXCLUSIVE4") => v4::OpenHow::Create(v4::CreateHow::Exclusive(Some(
            verifier.ok_or("no verifier")?,
        ))),
        Some(_) => {
            let create = v4::ExclusiveCreate {
                verifier: Some(verifier.ok_or("no verifier")?),
                attributes,
            };
            v4::OpenHow::Create(v4::CreateHow::ExclusiveWithAttributes(create))
        }
    };
    let named = || parts.need(&[2]);
    let claim = match call.text("claim").ok_or("no claim")? {
        "CLAIM_NULL" => named().map(|()| v4::Claim::Null(name))?,
        "CLAIM_DELEGATE_PREV" => named().map(|()| v4::Claim::DelegatePrevious(name))?,
        "CLAIM_DELEGATE_CUR" => {
            named()?;
            let stateid = stateid(call)?;
            v4::Claim::DelegateCurrent(v4::ClaimDelegate { stateid, name })
        }
        "CLAIM_FH" => v4::Claim::Handle,
        "CLAIM_DELEG_CUR_FH" => v4::Claim::DelegateCurrentHandle(stateid(call)?),
        "CLAIM_DELEG_PREV_FH" => v4::Claim::DelegatePreviousHandle,
        _ => return Err("another claim"),
    };
    let arguments = v4::Call::Open(v4::OpenArgs {
        sequence: sequence(call)?,
        access: number(call, "share_access")?,
        deny: number(call, "share_deny")?,
        owner: v4::StateOwner {
            client_id: long(call, "client_id")?,
            owner: Some(Opaque::new(&owner)),
        },
        how,
        claim,
    });
    arguments.encode(&mut out.bytes);
    Ok(())
}

fn put_lock(call: &Call<'_>, operation: Operation, out: &mut Message) -> Rebuilt<()> {
    let kind = match call.text("lock_type") {
        Some("READ_LT") => 1,
        Some("WRITE_LT") => 2,
        Some("READW_LT") => 3,
        Some("WRITEW_LT") => 4,
        other => other.and_then(|kind| kind.parse().ok()).unwrap_or(0),
    };
    let lock_type = Some(v4::LockType(kind));
    if operation == Operation::LockU {
        let arguments = v4::Call::LockU(v4::UnlockArgs {
            lock_type,
            sequence: sequence(call)?,
            stateid: stateid(call)?,
            offset: long(call, "offset")?,
            length: long(call, "count")?,
        });
        arguments.encode(&mut out.bytes);
        return Ok(());
    }
    let owner = call.bytes("owner").ok_or("no owner")?;
    let owner = [Piece::bytes(&owner)];
    let owner = v4::StateOwner {
        client_id: long(call, "client_id")?,
        owner: Some(Opaque::new(&owner)),
    };
    let arguments = match operation {
        Operation::LockT => v4::Call::LockT(v4::LockTestArgs {
            lock_type,
            offset: long(call, "offset")?,
            length: long(call, "count")?,
            owner,
        }),
        _ => v4::Call::ReleaseLockOwner(v4::ReleaseLockOwnerArgs { owner }),
    };
    arguments.encode(&mut out.bytes);
    Ok(())
}
