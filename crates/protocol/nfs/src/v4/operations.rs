//! The operations' arguments and results: those of NFSv4.0, and what all minor versions share.
//!
//! Sections are RFC 8881's; RFC 7530 has the same. The current file handle is the object that an
//! operation is about; LINK and RENAME have the saved one as their source.

use lineside_rpc::message::{Flavor, GssService};
use lineside_rpc::xdr::{Counted, List, Name, Outcome};

use super::attributes::{AttributeList, Bitmap};
use super::types::{
    ChangeInfo, Delegation, DelegationType, Device, Handle, LockType, NetAddress, Owner, StableHow,
    StateId, StateOwner, Verifier,
};

lineside_rpc::xdr! {
    /// ACCESS4args (18.1): the bits asked for.
    pub struct AccessArgs {
        /// Bits: 1 read, 2 lookup, 4 modify, 8 extend, 16 delete, 32 execute; of extended
        /// attributes 64 read, 128 write, 256 list.
        access: Option<u32>,
    }

    /// ACCESS4resok.
    pub struct AccessOk {
        /// The bits that the server can judge.
        supported: Option<u32>,
        access: Option<u32>,
    }

    /// CLOSE4args (18.2).
    pub struct CloseArgs { sequence: Option<u32>, stateid: Option<StateId> }

    /// A result that is a state id: of CLOSE, LOCK, LOCKU, OPEN_CONFIRM and OPEN_DOWNGRADE.
    pub struct StateIdOk { stateid: Option<StateId> }

    /// COMMIT4args (18.3).
    pub struct CommitArgs { offset: Option<u64>, count: Option<u32> }

    /// COMMIT4resok.
    pub struct CommitOk { verifier: Option<Verifier> }

    /// CREATE4args (18.4).
    pub struct CreateArgs<'a> {
        object: CreateType<'a>,
        name: Option<Name<'a>>,
        attributes: AttributeList<'a>,
    }

    /// createtype4, by [`FileType`](super::FileType).
    pub union CreateType<'a> {
        2 => Directory,
        3 => Block(device: Option<Device>),
        4 => Character(device: Option<Device>),
        5 => Symlink(target: Option<Name<'a>>),
        6 => Socket,
        7 => Fifo,
        _ => Other,
    }

    /// CREATE4resok.
    pub struct CreateOk {
        directory: Option<ChangeInfo>,
        /// The attributes that were set.
        attributes_set: Option<Bitmap>,
    }

    /// DELEGPURGE4args (18.5), RENEW4args and DESTROY_CLIENTID4args (18.50).
    pub struct ClientIdArgs { client_id: Option<u64> }

    /// Arguments that are a state id: of DELEGRETURN (18.6), FREE_STATEID (18.38), OFFLOAD_CANCEL
    /// and OFFLOAD_STATUS.
    pub struct StateIdArgs { stateid: Option<StateId> }

    /// GETATTR4args (18.7).
    pub struct GetAttrArgs { request: Option<Bitmap> }

    /// GETATTR4resok.
    pub struct GetAttrOk<'a> { attributes: AttributeList<'a> }

    /// GETFH4resok (18.8).
    pub struct GetFhOk<'a> { object: Option<Handle<'a>> }

    /// Arguments that are a name in the current directory: of LINK (18.9, the new name), LOOKUP
    /// (18.13), REMOVE (18.25) and SECINFO (18.29).
    pub struct NameArgs<'a> { name: Option<Name<'a>> }

    /// The change of one directory: a result of LINK and REMOVE.
    pub struct DirectoryOk { directory: Option<ChangeInfo> }

    /// LOCK4args (18.10).
    pub struct LockArgs<'a> {
        lock_type: Option<LockType>,
        reclaim: Option<bool>,
        offset: Option<u64>,
        /// Bytes; all ones is up to the end of the file.
        length: Option<u64>,
        locker: Locker<'a>,
    }

    /// locker4.
    pub union Locker<'a> {
        0 => Known(owner: KnownLockOwner),
        1 => New(owner: NewLockOwner<'a>),
    }

    /// open_to_lock_owner4: the first lock of an owner.
    pub struct NewLockOwner<'a> {
        open_sequence: Option<u32>,
        open_stateid: Option<StateId>,
        lock_sequence: Option<u32>,
        owner: StateOwner<'a>,
    }

    /// exist_lock_owner4.
    pub struct KnownLockOwner { stateid: Option<StateId>, sequence: Option<u32> }

    /// LOCK4res.
    pub union LockResult<'a> {
        0 => Ok(body: StateIdOk),
        10010 => Denied(conflict: LockDenied<'a>),
        _ => Other,
    }

    /// LOCK4denied: a lock in the way.
    pub struct LockDenied<'a> {
        offset: Option<u64>,
        length: Option<u64>,
        lock_type: Option<LockType>,
        owner: StateOwner<'a>,
    }

    /// LOCKT4args (18.11).
    pub struct LockTestArgs<'a> {
        lock_type: Option<LockType>,
        offset: Option<u64>,
        length: Option<u64>,
        owner: StateOwner<'a>,
    }

    /// LOCKT4res.
    pub union LockTestResult<'a> {
        0 => Ok,
        10010 => Denied(conflict: LockDenied<'a>),
        _ => Other,
    }

    /// LOCKU4args (18.12).
    pub struct UnlockArgs {
        lock_type: Option<LockType>,
        sequence: Option<u32>,
        stateid: Option<StateId>,
        offset: Option<u64>,
        length: Option<u64>,
    }

    /// VERIFY4args (18.31) and NVERIFY4args (18.15).
    pub struct VerifyArgs<'a> { attributes: AttributeList<'a> }

    /// OPEN4args (18.16).
    pub struct OpenArgs<'a> {
        sequence: Option<u32>,
        /// Bits: 1 read, 2 write; from 256 on what delegation is wanted.
        access: Option<u32>,
        /// Bits: 1 read, 2 write.
        deny: Option<u32>,
        owner: StateOwner<'a>,
        how: OpenHow<'a>,
        claim: Claim<'a>,
    }

    /// openflag4.
    pub union OpenHow<'a> {
        0 => NoCreate,
        1 => Create(how: CreateHow<'a>),
        _ => Other,
    }

    /// createhow4.
    pub union CreateHow<'a> {
        0 => Unchecked(attributes: AttributeList<'a>),
        1 => Guarded(attributes: AttributeList<'a>),
        2 => Exclusive(verifier: Option<Verifier>),
        3 => ExclusiveWithAttributes(create: ExclusiveCreate<'a>),
    }

    /// creatverfattr.
    pub struct ExclusiveCreate<'a> { verifier: Option<Verifier>, attributes: AttributeList<'a> }

    /// open_claim4: on what grounds the file is opened, and its name if the current file handle is
    /// its directory.
    pub union Claim<'a> {
        0 => Null(name: Option<Name<'a>>),
        1 => Previous(delegation: Option<DelegationType>),
        2 => DelegateCurrent(claim: ClaimDelegate<'a>),
        3 => DelegatePrevious(name: Option<Name<'a>>),
        4 => Handle,
        5 => DelegateCurrentHandle(stateid: Option<StateId>),
        6 => DelegatePreviousHandle,
    }

    /// open_claim_delegate_cur4.
    pub struct ClaimDelegate<'a> { stateid: Option<StateId>, name: Option<Name<'a>> }

    /// OPEN4resok.
    pub struct OpenOk<'a> {
        stateid: Option<StateId>,
        directory: Option<ChangeInfo>,
        /// Bits: 2 OPEN_CONFIRM must follow, 4 POSIX locks, 8 the file outlives its removal, 32
        /// CB_NOTIFY_LOCK may come.
        flags: Option<u32>,
        attributes_set: Option<Bitmap>,
        delegation: Delegation<'a>,
    }

    /// OPENATTR4args (18.17).
    pub struct OpenAttrArgs { create: Option<bool> }

    /// OPEN_CONFIRM4args (RFC 7530 section 16.18).
    pub struct OpenConfirmArgs { stateid: Option<StateId>, sequence: Option<u32> }

    /// OPEN_DOWNGRADE4args (18.18).
    pub struct OpenDowngradeArgs {
        stateid: Option<StateId>,
        sequence: Option<u32>,
        access: Option<u32>,
        deny: Option<u32>,
    }

    /// PUTFH4args (18.19).
    pub struct PutFhArgs<'a> { object: Option<Handle<'a>> }

    /// READ4args (18.22) and READ_PLUS4args (15.10).
    pub struct ReadArgs { stateid: Option<StateId>, offset: Option<u64>, count: Option<u32> }

    /// READ4resok up to the data, where the cursor then stands.
    pub struct ReadOk {
        eof: Option<bool>,
        /// Bytes of data that follow, before padding.
        data_len: Option<u32>,
    }

    /// READDIR4args (18.23).
    pub struct ReadDirArgs {
        cookie: Option<u64>,
        cookie_verifier: Option<Verifier>,
        /// The most bytes of names and cookies.
        directory_count: Option<u32>,
        /// The most bytes that the result may have.
        count_max: Option<u32>,
        request: Option<Bitmap>,
    }

    /// READDIR4resok, with dirlist4.
    pub struct ReadDirOk<'a> {
        cookie_verifier: Option<Verifier>,
        entries: List<'a, Entry<'a>>,
        eof: Option<bool>,
    }

    /// entry4.
    pub struct Entry<'a> {
        cookie: Option<u64>,
        name: Option<Name<'a>>,
        attributes: AttributeList<'a>,
    }

    /// READLINK4resok (18.24).
    pub struct ReadLinkOk<'a> { target: Option<Name<'a>> }

    /// RENAME4args (18.26).
    pub struct RenameArgs<'a> { from: Option<Name<'a>>, to: Option<Name<'a>> }

    /// RENAME4resok.
    pub struct RenameOk { from: Option<ChangeInfo>, to: Option<ChangeInfo> }

    /// secinfo4.
    pub union SecInfo<'a> {
        6 => Gss(mechanism: GssInfo<'a>),
        _ => Flavor,
    }

    /// rpcsec_gss_info.
    pub struct GssInfo<'a> {
        object_id: Option<Owner<'a>>,
        quality: Option<u32>,
        service: Option<GssService>,
    }

    /// SECINFO4resok.
    pub struct SecInfoOk<'a> { flavors: Counted<'a, SecInfo<'a>> }

    /// SETATTR4args (18.30).
    pub struct SetAttrArgs<'a> { stateid: Option<StateId>, attributes: AttributeList<'a> }

    /// What follows SETATTR4res's status, whatever that is.
    pub struct SetAttrResult { attributes_set: Option<Bitmap> }

    /// SETCLIENTID4args (RFC 7530 section 16.33).
    pub struct SetClientIdArgs<'a> {
        verifier: Option<Verifier>,
        id: Option<Owner<'a>>,
        /// The RPC program of this client's callbacks.
        callback_program: Option<u32>,
        callback_address: NetAddress<'a>,
        callback_ident: Option<u32>,
    }

    /// SETCLIENTID4res.
    pub union SetClientIdResult<'a> {
        0 => Ok(body: SetClientIdOk),
        10017 => InUse(by: NetAddress<'a>),
        _ => Other,
    }

    /// SETCLIENTID4resok and SETCLIENTID_CONFIRM4args (RFC 7530 section 16.34).
    pub struct SetClientIdOk { client_id: Option<u64>, verifier: Option<Verifier> }

    /// WRITE4args (18.32) up to the data, where the cursor then stands.
    pub struct WriteArgs {
        stateid: Option<StateId>,
        offset: Option<u64>,
        stable: Option<StableHow>,
        /// Bytes of data that follow, before padding.
        data_len: Option<u32>,
    }

    /// WRITE4resok.
    pub struct WriteOk {
        count: Option<u32>,
        committed: Option<StableHow>,
        verifier: Option<Verifier>,
    }

    /// RELEASE_LOCKOWNER4args (RFC 7530 section 16.37).
    pub struct ReleaseLockOwnerArgs<'a> { owner: StateOwner<'a> }
}

impl OpenHow<'_> {
    /// createmode4's name, of an OPEN that may create.
    pub fn create_mode(&self) -> Option<&'static str> {
        let Self::Create(how) = self else { return None };
        Some(match how {
            CreateHow::Unread => return None,
            CreateHow::Unchecked(_) => "UNCHECKED4",
            CreateHow::Guarded(_) => "GUARDED4",
            CreateHow::Exclusive(_) => "EXCLUSIVE4",
            CreateHow::ExclusiveWithAttributes(_) => "EXCLUSIVE4_1",
        })
    }
}

impl<'a> Claim<'a> {
    /// open_claim_type4's name.
    pub fn claim_type(&self) -> Option<&'static str> {
        Some(match self {
            Self::Unread => return None,
            Self::Null(_) => "CLAIM_NULL",
            Self::Previous(_) => "CLAIM_PREVIOUS",
            Self::DelegateCurrent(_) => "CLAIM_DELEGATE_CUR",
            Self::DelegatePrevious(_) => "CLAIM_DELEGATE_PREV",
            Self::Handle => "CLAIM_FH",
            Self::DelegateCurrentHandle(_) => "CLAIM_DELEG_CUR_FH",
            Self::DelegatePreviousHandle => "CLAIM_DELEG_PREV_FH",
        })
    }

    /// The file's name, if it is opened by name.
    pub fn name(&self) -> Option<Name<'a>> {
        match self {
            Self::Null(name) | Self::DelegatePrevious(name) => *name,
            Self::DelegateCurrent(claim) => claim.name,
            _ => None,
        }
    }
}

impl SecInfo<'_> {
    /// The flavor that may be used.
    pub fn flavor(&self) -> Option<Flavor> {
        self.discriminant().map(Flavor)
    }
}

impl CreateType<'_> {
    /// What is created, if that was seen.
    pub fn file_type(&self) -> Option<super::FileType> {
        self.discriminant().map(super::FileType)
    }
}

pub(super) type Done = Outcome<(), ()>;
