//! What operations have in common, for a table with one row an operation.

use lineside_rpc::xdr::{Name, Outcome};

use super::*;

impl<'a> Call<'a> {
    /// The file handle that PUTFH makes the current one.
    pub fn handle(&self) -> Option<Handle<'a>> {
        match self {
            Self::PutFh(args) => args.object,
            _ => None,
        }
    }

    /// The name that the operation is about, in the current directory; of RENAME the old one, of
    /// LINK the new one; of operations on extended attributes the attribute's.
    pub fn name(&self) -> Option<Name<'a>> {
        match self {
            Self::Create(args) => args.name,
            Self::Link(args) | Self::Lookup(args) | Self::Remove(args) | Self::SecInfo(args) => {
                args.name
            }
            Self::Open(args) => args.claim.name(),
            Self::Rename(args) => args.from,
            Self::GetXattr(args) | Self::RemoveXattr(args) => args.name,
            Self::SetXattr(args) => args.name,
            _ => None,
        }
    }

    /// RENAME's new name, or what the symbolic link that CREATE makes holds.
    pub fn name2(&self) -> Option<Name<'a>> {
        match self {
            Self::Rename(args) => args.to,
            Self::Create(args) => match args.object {
                CreateType::Symlink(target) => target,
                _ => None,
            },
            _ => None,
        }
    }

    /// The first byte of the file that the operation is about; of COPY and CLONE of the
    /// destination.
    pub fn offset(&self) -> Option<u64> {
        match self {
            Self::Commit(args) => args.offset,
            Self::Lock(args) => args.offset,
            Self::LockT(args) => args.offset,
            Self::LockU(args) => args.offset,
            Self::Read(args) | Self::ReadPlus(args) => args.offset,
            Self::Write(args) => args.offset,
            Self::LayoutCommit(args) => args.offset,
            Self::LayoutGet(args) => args.offset,
            Self::LayoutReturn(args) => args.file()?.offset,
            Self::Allocate(args) | Self::Deallocate(args) => args.offset,
            Self::Copy(args) => args.offset,
            Self::Clone(args) => args.offset,
            Self::IoAdvise(args) => args.offset,
            Self::LayoutError(args) => args.offset,
            Self::LayoutStats(args) => args.offset,
            Self::Seek(args) => args.offset,
            Self::WriteSame(args) => args.offset,
            _ => None,
        }
    }

    /// The first byte of COPY's and CLONE's source.
    pub fn source_offset(&self) -> Option<u64> {
        match self {
            Self::Copy(args) => args.source_offset,
            Self::Clone(args) => args.source_offset,
            _ => None,
        }
    }

    /// Bytes of the file that the operation is about, all ones for up to its end (0 in COPY and
    /// CLONE); or that the reply to READDIR and LISTXATTRS may have.
    pub fn count(&self) -> Option<u64> {
        match self {
            Self::Commit(args) => args.count.map(u64::from),
            Self::Lock(args) => args.length,
            Self::LockT(args) => args.length,
            Self::LockU(args) => args.length,
            Self::Read(args) | Self::ReadPlus(args) => args.count.map(u64::from),
            Self::ReadDir(args) => args.count_max.map(u64::from),
            Self::Write(args) => args.data_len.map(u64::from),
            Self::LayoutCommit(args) => args.length,
            Self::LayoutGet(args) => args.length,
            Self::LayoutReturn(args) => args.file()?.length,
            Self::Allocate(args) | Self::Deallocate(args) => args.length,
            Self::Copy(args) => args.count,
            Self::Clone(args) => args.count,
            Self::IoAdvise(args) => args.count,
            Self::LayoutError(args) => args.length,
            Self::LayoutStats(args) => args.length,
            Self::WriteSame(args) => args.block_size?.checked_mul(args.block_count?),
            Self::ListXattrs(args) => args.count_max.map(u64::from),
            _ => None,
        }
    }

    /// The open, lock, delegation, layout or copy that the operation uses; of COPY and CLONE the
    /// destination's.
    pub fn stateid(&self) -> Option<StateId> {
        match self {
            Self::Close(args) => args.stateid,
            Self::DelegReturn(args)
            | Self::FreeStateId(args)
            | Self::OffloadCancel(args)
            | Self::OffloadStatus(args) => args.stateid,
            Self::Lock(args) => match &args.locker {
                Locker::Unread => None,
                Locker::Known(owner) => owner.stateid,
                Locker::New(owner) => owner.open_stateid,
            },
            Self::LockU(args) => args.stateid,
            Self::Open(args) => match &args.claim {
                Claim::DelegateCurrent(claim) => claim.stateid,
                Claim::DelegateCurrentHandle(stateid) => *stateid,
                _ => None,
            },
            Self::OpenConfirm(args) => args.stateid,
            Self::OpenDowngrade(args) => args.stateid,
            Self::Read(args) | Self::ReadPlus(args) => args.stateid,
            Self::SetAttr(args) => args.stateid,
            Self::Write(args) => args.stateid,
            Self::LayoutCommit(args) => args.stateid,
            Self::LayoutGet(args) => args.stateid,
            Self::LayoutReturn(args) => args.file()?.stateid,
            Self::TestStateId(args) => args.stateids.iter().next(),
            Self::Allocate(args) | Self::Deallocate(args) => args.stateid,
            Self::Copy(args) => args.stateid,
            Self::CopyNotify(args) => args.stateid,
            Self::Clone(args) => args.stateid,
            Self::IoAdvise(args) => args.stateid,
            Self::LayoutError(args) => args.stateid,
            Self::LayoutStats(args) => args.stateid,
            Self::Seek(args) => args.stateid,
            Self::WriteSame(args) => args.stateid,
            _ => None,
        }
    }

    /// The state id of COPY's and CLONE's source.
    pub fn source_stateid(&self) -> Option<StateId> {
        match self {
            Self::Copy(args) => args.source_stateid,
            Self::Clone(args) => args.source_stateid,
            _ => None,
        }
    }

    /// The attributes that are set or compared.
    pub fn attributes(&self) -> Option<&AttributeList<'a>> {
        match self {
            Self::Create(args) => Some(&args.attributes),
            Self::SetAttr(args) => Some(&args.attributes),
            Self::Verify(args) | Self::NVerify(args) => Some(&args.attributes),
            Self::Open(args) => match &args.how {
                OpenHow::Create(
                    CreateHow::Unchecked(attributes) | CreateHow::Guarded(attributes),
                ) => Some(attributes),
                OpenHow::Create(CreateHow::ExclusiveWithAttributes(create)) => {
                    Some(&create.attributes)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The owner of an open or a lock.
    pub fn owner(&self) -> Option<&StateOwner<'a>> {
        match self {
            Self::Open(args) => Some(&args.owner),
            Self::Lock(args) => match &args.locker {
                Locker::New(owner) => Some(&owner.owner),
                _ => None,
            },
            Self::LockT(args) => Some(&args.owner),
            Self::ReleaseLockOwner(args) => Some(&args.owner),
            _ => None,
        }
    }

    /// The client id that the operation names.
    pub fn client_id(&self) -> Option<u64> {
        match self {
            Self::DelegPurge(args) | Self::Renew(args) | Self::DestroyClientId(args) => {
                args.client_id
            }
            Self::SetClientIdConfirm(args) => args.client_id,
            Self::CreateSession(args) => args.client_id,
            _ => self.owner()?.client_id,
        }
    }

    /// The session that the operation names.
    pub fn session(&self) -> Option<SessionId> {
        match self {
            Self::Sequence(args) => args.session,
            Self::BindConnToSession(args) => args.session,
            Self::DestroySession(args) => args.session,
            _ => None,
        }
    }

    /// Bytes of data that follow, before padding: of WRITE the file's, of WRITE_SAME the pattern.
    #[inline]
    pub fn data_len(&self) -> Option<u32> {
        match self {
            Self::Write(args) => args.data_len,
            Self::WriteSame(args) => args.data_len,
            _ => None,
        }
    }
}

impl<'a> LayoutReturnArgs<'a> {
    /// The part of a file, if not whole file systems are returned.
    fn file(&self) -> Option<&LayoutReturnFile<'a>> {
        match &self.what {
            LayoutReturn::File(file) => Some(file),
            _ => None,
        }
    }
}

impl<'a> Reply<'a> {
    /// The current file handle, as GETFH returns it.
    pub fn handle(&self) -> Option<Handle<'a>> {
        match self {
            Self::GetFh(outcome) => outcome.ok()?.object,
            _ => None,
        }
    }

    /// The open, lock, layout, delegation or copy that the operation gave or changed. Of OPEN the
    /// open's: its delegation has one of its own.
    pub fn stateid(&self) -> Option<StateId> {
        match self {
            Self::Close(outcome)
            | Self::LockU(outcome)
            | Self::OpenConfirm(outcome)
            | Self::OpenDowngrade(outcome) => outcome.ok()?.stateid,
            Self::Lock(LockResult::Ok(ok)) => ok.stateid,
            Self::Open(outcome) => outcome.ok()?.stateid,
            Self::GetDirDelegation(Outcome::Ok(DirDelegation::Granted(ok))) => ok.stateid,
            Self::LayoutGet(LayoutGetResult::Ok(ok)) => ok.stateid,
            Self::LayoutReturn(outcome) => outcome.ok()?.stateid.value(),
            Self::WantDelegation(outcome) => outcome.ok()?.delegation.stateid(),
            Self::Copy(CopyResult::Ok(ok)) => ok.response.callback_id.first()?,
            Self::CopyNotify(outcome) => outcome.ok()?.stateid,
            Self::WriteSame(outcome) => outcome.ok()?.response.callback_id.first()?,
            _ => None,
        }
    }

    /// The delegation that came with the operation's success.
    pub fn delegation(&self) -> Option<&Delegation<'a>> {
        match self {
            Self::Open(outcome) => outcome.ok().map(|ok| &ok.delegation),
            Self::WantDelegation(outcome) => outcome.ok().map(|ok| &ok.delegation),
            _ => None,
        }
    }

    /// The attributes of the current file handle.
    pub fn attributes(&self) -> Option<&AttributeList<'a>> {
        match self {
            Self::GetAttr(outcome) => outcome.ok().map(|ok| &ok.attributes),
            _ => None,
        }
    }

    /// The change attribute around the operation: of the directory, of RENAME the one left; of
    /// operations on extended attributes of the file.
    pub fn change_info(&self) -> Option<ChangeInfo> {
        match self {
            Self::Create(outcome) => outcome.ok()?.directory,
            Self::Link(outcome) | Self::Remove(outcome) => outcome.ok()?.directory,
            Self::Open(outcome) => outcome.ok()?.directory,
            Self::Rename(outcome) => outcome.ok()?.from,
            Self::SetXattr(outcome) | Self::RemoveXattr(outcome) => outcome.ok()?.change,
            _ => None,
        }
    }

    /// Bytes that the operation moved; READ_PLUS's are the sum of its segments, which follow.
    pub fn transferred(&self) -> Option<u64> {
        match self {
            Self::Read(outcome) => outcome.ok()?.data_len.map(u64::from),
            Self::Write(outcome) => outcome.ok()?.count.map(u64::from),
            Self::Copy(CopyResult::Ok(ok)) => ok.response.count,
            Self::OffloadStatus(outcome) => outcome.ok()?.count,
            Self::WriteSame(outcome) => outcome.ok()?.response.count,
            _ => None,
        }
    }

    /// Where SEEK found what it looked for.
    pub fn offset(&self) -> Option<u64> {
        match self {
            Self::Seek(outcome) => outcome.ok()?.offset,
            _ => None,
        }
    }

    /// Whether the end was reached: of the file, the directory or the list.
    pub fn eof(&self) -> Option<bool> {
        match self {
            Self::Read(outcome) => outcome.ok()?.eof,
            Self::ReadDir(outcome) => outcome.ok()?.eof,
            Self::GetDeviceList(outcome) => outcome.ok()?.eof,
            Self::ReadPlus(outcome) => outcome.ok()?.eof,
            Self::Seek(outcome) => outcome.ok()?.eof,
            Self::ListXattrs(outcome) => outcome.ok()?.eof,
            _ => None,
        }
    }

    /// How far the data had come, and the verifier that changes when the server may have lost some.
    pub fn committed(&self) -> Option<(Option<StableHow>, Option<Verifier>)> {
        match self {
            Self::Write(outcome) => outcome.ok().map(|ok| (ok.committed, ok.verifier)),
            Self::Commit(outcome) => outcome.ok().map(|ok| (None, ok.verifier)),
            Self::Copy(CopyResult::Ok(ok)) => Some((ok.response.committed, ok.response.verifier)),
            Self::WriteSame(outcome) => {
                let response = &outcome.ok()?.response;
                Some((response.committed, response.verifier))
            }
            _ => None,
        }
    }

    /// The client id that the operation gave.
    pub fn client_id(&self) -> Option<u64> {
        match self {
            Self::SetClientId(SetClientIdResult::Ok(ok)) => ok.client_id,
            Self::ExchangeId(outcome) => outcome.ok()?.client_id,
            _ => None,
        }
    }

    /// The session that the operation used or gave.
    pub fn session(&self) -> Option<SessionId> {
        match self {
            Self::Sequence(outcome) => outcome.ok()?.session,
            Self::BindConnToSession(outcome) => outcome.ok()?.session,
            Self::CreateSession(outcome) => outcome.ok()?.session,
            _ => None,
        }
    }

    /// READ's bytes of data that follow, before padding.
    #[inline]
    pub fn data_len(&self) -> Option<u32> {
        match self {
            Self::Read(outcome) => outcome.ok()?.data_len,
            _ => None,
        }
    }

    /// READ_PLUS's [`Segment`]s that follow, after each of which its data stands.
    #[inline]
    pub fn segment_count(&self) -> Option<u32> {
        match self {
            Self::ReadPlus(outcome) => outcome.ok()?.segment_count,
            _ => None,
        }
    }
}

impl Segment {
    /// Bytes of data that follow, before padding.
    #[inline]
    pub fn data_len(&self) -> Option<u32> {
        match self {
            Self::Data(data) => data.data_len,
            _ => None,
        }
    }
}
