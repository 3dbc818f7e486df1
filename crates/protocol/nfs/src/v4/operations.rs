//! The operations' arguments and results.
//!
//! Sections are RFC 8881's, of operations 59 to 71 RFC 7862's, of 72 to 75 RFC 8276's; RFC 7530 has
//! those below 40 the same. The current file handle is the object that an operation is about; COPY,
//! CLONE, LINK and RENAME have the saved one as their source.

use lineside_rpc::message::{AuthSys, Flavor, GssService};
use lineside_rpc::xdr::{Array, Counted, List, Name, Optional, Outcome};

use super::attributes::{AttributeList, Bitmap};
use super::layouts::{DeviceAddress, DeviceError, FlexReturn, IoInfo, Layout, LayoutUpdate, parse};
use super::types::{
    Body, ChangeInfo, Content, Delegation, DelegationType, Device, DeviceId, Handle, IoMode,
    LayoutType, LockType, NetAddress, NetLocation, Owner, SessionId, StableHow, StateId,
    StateOwner, Time, Verifier, WriteResponse,
};

// The first forty, of NFSv4.0.
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

// Those that came with NFSv4.1.
lineside_rpc::xdr! {
    /// BACKCHANNEL_CTL4args (18.33).
    pub struct BackchannelCtlArgs<'a> {
        callback_program: Option<u32>,
        security: Counted<'a, CallbackSecurity<'a>>,
    }

    /// callback_sec_parms4.
    pub union CallbackSecurity<'a> {
        0 => None,
        1 => Sys(credential: AuthSys<'a>),
        6 => Gss(handles: GssHandles<'a>),
    }

    /// gss_cb_handles4.
    pub struct GssHandles<'a> {
        service: Option<GssService>,
        of_server: Option<Body<'a>>,
        of_client: Option<Body<'a>>,
    }

    /// BIND_CONN_TO_SESSION4args and its resok (18.34).
    pub struct BindConnection {
        session: Option<SessionId>,
        /// Bits: 1 calls, 2 callbacks; 7 from a client is callbacks, or both.
        direction: Option<u32>,
        rdma: Option<bool>,
    }

    /// EXCHANGE_ID4args (18.35).
    pub struct ExchangeIdArgs<'a> {
        verifier: Option<Verifier>,
        owner: Option<Owner<'a>>,
        flags: Option<u32>,
        protection: ProtectionWanted<'a>,
        implementation: Counted<'a, Implementation<'a>, 1>,
    }

    /// state_protect4_a.
    pub union ProtectionWanted<'a> {
        0 => None,
        1 => MachineCredential(operations: ProtectedOperations),
        2 => Ssv(parameters: SsvWanted<'a>),
    }

    /// state_protect_ops4: sets of operations, by number.
    pub struct ProtectedOperations { must_enforce: Option<Bitmap>, must_allow: Option<Bitmap> }

    /// ssv_sp_parms4.
    pub struct SsvWanted<'a> {
        operations: ProtectedOperations,
        hash_algorithms: Counted<'a, Option<Owner<'a>>>,
        encryption_algorithms: Counted<'a, Option<Owner<'a>>>,
        window: Option<u32>,
        handle_count: Option<u32>,
    }

    /// nfs_impl_id4.
    pub struct Implementation<'a> {
        domain: Option<Name<'a>>,
        name: Option<Name<'a>>,
        date: Option<Time>,
    }

    /// EXCHANGE_ID4resok.
    pub struct ExchangeIdOk<'a> {
        client_id: Option<u64>,
        sequence: Option<u32>,
        flags: Option<u32>,
        protection: ProtectionGranted<'a>,
        server_minor_id: Option<u64>,
        server_major_id: Option<Owner<'a>>,
        server_scope: Option<Owner<'a>>,
        implementation: Counted<'a, Implementation<'a>, 1>,
    }

    /// state_protect4_r.
    pub union ProtectionGranted<'a> {
        0 => None,
        1 => MachineCredential(operations: ProtectedOperations),
        2 => Ssv(parameters: SsvGranted<'a>),
    }

    /// ssv_prot_info4.
    pub struct SsvGranted<'a> {
        operations: ProtectedOperations,
        hash_algorithm: Option<u32>,
        encryption_algorithm: Option<u32>,
        ssv_len: Option<u32>,
        window: Option<u32>,
        handles: Counted<'a, Option<Body<'a>>>,
    }

    /// CREATE_SESSION4args (18.36).
    pub struct CreateSessionArgs<'a> {
        client_id: Option<u64>,
        sequence: Option<u32>,
        /// Bits: 1 persistent, 2 callbacks on this connection, 4 RDMA.
        flags: Option<u32>,
        fore: ChannelAttributes<'a>,
        back: ChannelAttributes<'a>,
        callback_program: Option<u32>,
        security: Counted<'a, CallbackSecurity<'a>>,
    }

    /// channel_attrs4: sizes in bytes.
    pub struct ChannelAttributes<'a> {
        header_padding: Option<u32>,
        request_max: Option<u32>,
        response_max: Option<u32>,
        cached_response_max: Option<u32>,
        operations_max: Option<u32>,
        /// Slots.
        requests_max: Option<u32>,
        rdma_ird: Counted<'a, Option<u32>, 1>,
    }

    /// CREATE_SESSION4resok.
    pub struct CreateSessionOk<'a> {
        session: Option<SessionId>,
        sequence: Option<u32>,
        flags: Option<u32>,
        fore: ChannelAttributes<'a>,
        back: ChannelAttributes<'a>,
    }

    /// DESTROY_SESSION4args (18.37).
    pub struct SessionArgs { session: Option<SessionId> }

    /// GET_DIR_DELEGATION4args (18.39).
    pub struct GetDirDelegationArgs {
        signal_available: Option<bool>,
        notifications: Option<Bitmap>,
        child_delay: Option<Time>,
        directory_delay: Option<Time>,
        child_attributes: Option<Bitmap>,
        directory_attributes: Option<Bitmap>,
    }

    /// GET_DIR_DELEGATION4res_non_fatal.
    pub union DirDelegation {
        0 => Granted(delegation: DirDelegationOk),
        1 => Unavailable(will_signal: Option<bool>),
    }

    /// GET_DIR_DELEGATION4resok.
    pub struct DirDelegationOk {
        cookie_verifier: Option<Verifier>,
        stateid: Option<StateId>,
        notifications: Option<Bitmap>,
        child_attributes: Option<Bitmap>,
        directory_attributes: Option<Bitmap>,
    }

    /// GETDEVICEINFO4args (18.40).
    pub struct GetDeviceInfoArgs {
        device: Option<DeviceId>,
        layout_type: Option<LayoutType>,
        count_max: Option<u32>,
        notifications: Option<Bitmap>,
    }

    /// GETDEVICEINFO4res.
    pub union GetDeviceInfoResult<'a> {
        0 => Ok(body: GetDeviceInfoOk<'a>),
        10005 => TooSmall(count_min: Option<u32>),
        _ => Other,
    }

    /// GETDEVICEINFO4resok.
    pub struct GetDeviceInfoOk<'a> { address: DeviceAddress<'a>, notifications: Option<Bitmap> }

    /// GETDEVICELIST4args (18.41).
    pub struct GetDeviceListArgs {
        layout_type: Option<LayoutType>,
        devices_max: Option<u32>,
        cookie: Option<u64>,
        cookie_verifier: Option<Verifier>,
    }

    /// GETDEVICELIST4resok.
    pub struct GetDeviceListOk<'a> {
        cookie: Option<u64>,
        cookie_verifier: Option<Verifier>,
        devices: Array<'a, DeviceId, 0x1_0000>,
        eof: Option<bool>,
    }

    /// LAYOUTCOMMIT4args (18.42).
    pub struct LayoutCommitArgs<'a> {
        offset: Option<u64>,
        length: Option<u64>,
        reclaim: Option<bool>,
        stateid: Option<StateId>,
        last_write_offset: Optional<Option<u64>>,
        mtime: Optional<Option<Time>>,
        update: LayoutUpdate<'a>,
    }

    /// LAYOUTCOMMIT4resok.
    pub struct LayoutCommitOk { size: Optional<Option<u64>> }

    /// LAYOUTGET4args (18.43).
    pub struct LayoutGetArgs {
        signal_available: Option<bool>,
        layout_type: Option<LayoutType>,
        io_mode: Option<IoMode>,
        offset: Option<u64>,
        length: Option<u64>,
        length_min: Option<u64>,
        stateid: Option<StateId>,
        count_max: Option<u32>,
    }

    /// LAYOUTGET4res.
    pub union LayoutGetResult<'a> {
        0 => Ok(body: LayoutGetOk<'a>),
        10058 => TryLater(will_signal: Option<bool>),
        _ => Other,
    }

    /// LAYOUTGET4resok.
    pub struct LayoutGetOk<'a> {
        return_on_close: Option<bool>,
        stateid: Option<StateId>,
        layouts: Counted<'a, Layout<'a>>,
    }

    /// LAYOUTRETURN4args (18.44).
    pub struct LayoutReturnArgs<'a> {
        reclaim: Option<bool>,
        layout_type: Option<LayoutType>,
        io_mode: Option<IoMode>,
        what: LayoutReturn<'a>,
    }

    /// layoutreturn4.
    pub union LayoutReturn<'a> {
        1 => File(file: LayoutReturnFile<'a>),
        2 => FileSystem,
        3 => All,
        _ => Other,
    }

    /// layoutreturn_file4.
    pub struct LayoutReturnFile<'a> {
        offset: Option<u64>,
        length: Option<u64>,
        stateid: Option<StateId>,
        body: Option<Body<'a>>,
    }

    /// LAYOUTRETURN4res's body.
    pub struct LayoutReturnOk { stateid: Optional<Option<StateId>> }

    /// SECINFO_NO_NAME4args (18.45).
    pub struct SecInfoNoNameArgs {
        /// 0 of the current file handle, 1 of its parent.
        style: Option<u32>,
    }

    /// SEQUENCE4args (18.46).
    pub fixed struct SequenceArgs {
        session: Option<SessionId>,
        sequence: Option<u32>,
        slot: Option<u32>,
        highest_slot: Option<u32>,
        cache_this: Option<bool>,
    }

    /// SEQUENCE4resok.
    pub fixed struct SequenceOk {
        session: Option<SessionId>,
        sequence: Option<u32>,
        slot: Option<u32>,
        highest_slot: Option<u32>,
        target_highest_slot: Option<u32>,
        status_flags: Option<u32>,
    }

    /// SET_SSV4args (18.47).
    pub struct SetSsvArgs<'a> { ssv: Option<Body<'a>>, digest: Option<Body<'a>> }

    /// SET_SSV4resok.
    pub struct SetSsvOk<'a> { digest: Option<Body<'a>> }

    /// TEST_STATEID4args (18.48).
    pub struct TestStateIdArgs<'a> { stateids: Array<'a, StateId, 0x1_0000> }

    /// TEST_STATEID4resok: a status for each.
    pub struct TestStateIdOk<'a> { statuses: Array<'a, u32, 0x1_0000> }

    /// WANT_DELEGATION4args (18.49).
    pub struct WantDelegationArgs { want: Option<u32>, claim: DelegationClaim }

    /// deleg_claim4.
    pub union DelegationClaim {
        1 => Previous(delegation: Option<DelegationType>),
        4 => Handle,
        6 => DelegatePreviousHandle,
    }

    /// WANT_DELEGATION4res's body.
    pub struct WantDelegationOk<'a> { delegation: Delegation<'a> }

    /// RECLAIM_COMPLETE4args (18.51).
    pub struct ReclaimCompleteArgs { one_file_system: Option<bool> }
}

// Those that came with NFSv4.2, and extended attributes.
lineside_rpc::xdr! {
    /// ALLOCATE4args (15.1) and DEALLOCATE4args (15.4).
    pub struct AllocateArgs {
        stateid: Option<StateId>,
        offset: Option<u64>,
        length: Option<u64>,
    }

    /// COPY4args (15.2).
    pub struct CopyArgs<'a> {
        source_stateid: Option<StateId>,
        stateid: Option<StateId>,
        source_offset: Option<u64>,
        offset: Option<u64>,
        /// Bytes; 0 is up to the end of the source.
        count: Option<u64>,
        consecutive: Option<bool>,
        synchronous: Option<bool>,
        source_servers: Counted<'a, NetLocation<'a>>,
    }

    /// COPY4res.
    pub union CopyResult<'a> {
        0 => Ok(body: CopyOk<'a>),
        10094 => Requirements(requirements: CopyRequirements),
        _ => Other,
    }

    /// COPY4resok.
    pub struct CopyOk<'a> { response: WriteResponse<'a>, requirements: CopyRequirements }

    /// copy_requirements4.
    pub struct CopyRequirements { consecutive: Option<bool>, synchronous: Option<bool> }

    /// COPY_NOTIFY4args (15.3).
    pub struct CopyNotifyArgs<'a> {
        stateid: Option<StateId>,
        destination: NetLocation<'a>,
    }

    /// COPY_NOTIFY4resok.
    pub struct CopyNotifyOk<'a> {
        lease: Option<Time>,
        stateid: Option<StateId>,
        source_servers: Counted<'a, NetLocation<'a>>,
    }

    /// IO_ADVISE4args (15.5).
    pub struct IoAdviseArgs {
        stateid: Option<StateId>,
        offset: Option<u64>,
        count: Option<u64>,
        hints: Option<Bitmap>,
    }

    /// IO_ADVISE4resok.
    pub struct IoAdviseOk { hints: Option<Bitmap> }

    /// LAYOUTERROR4args (15.6).
    pub struct LayoutErrorArgs<'a> {
        offset: Option<u64>,
        length: Option<u64>,
        stateid: Option<StateId>,
        errors: Counted<'a, DeviceError>,
    }

    /// LAYOUTSTATS4args (15.7).
    pub struct LayoutStatsArgs<'a> {
        offset: Option<u64>,
        length: Option<u64>,
        stateid: Option<StateId>,
        read: Option<IoInfo>,
        write: Option<IoInfo>,
        device: Option<DeviceId>,
        update: LayoutUpdate<'a>,
    }

    /// OFFLOAD_STATUS4resok (15.9).
    pub struct OffloadStatusOk<'a> {
        /// Bytes copied so far.
        count: Option<u64>,
        /// The status with which it ended, if it did.
        complete: Counted<'a, Option<u32>, 1>,
    }

    /// read_plus_res4 (15.10) up to the first [`Segment`], where the cursor then stands.
    pub struct ReadPlusOk {
        eof: Option<bool>,
        /// Segments that follow.
        segment_count: Option<u32>,
    }

    /// read_plus_content: a segment of the file. After [`Data`](Self::Data) the cursor stands at
    /// its data.
    pub union Segment {
        0 => Data(data: SegmentData),
        1 => Hole(hole: SegmentHole),
        _ => Other,
    }

    /// data4 up to the data.
    pub struct SegmentData {
        offset: Option<u64>,
        /// Bytes of data that follow, before padding.
        data_len: Option<u32>,
    }

    /// data_info4.
    pub struct SegmentHole { offset: Option<u64>, length: Option<u64> }

    /// SEEK4args (15.11).
    pub struct SeekArgs {
        stateid: Option<StateId>,
        offset: Option<u64>,
        what: Option<Content>,
    }

    /// seek_res4.
    pub struct SeekOk { eof: Option<bool>, offset: Option<u64> }

    /// WRITE_SAME4args (15.12) up to the pattern, where the cursor then stands.
    pub struct WriteSameArgs {
        stateid: Option<StateId>,
        stable: Option<StableHow>,
        offset: Option<u64>,
        block_size: Option<u64>,
        block_count: Option<u64>,
        number_offset: Option<u64>,
        first_number: Option<u32>,
        pattern_offset: Option<u64>,
        /// Bytes of the pattern that follow, before padding.
        data_len: Option<u32>,
    }

    /// WRITE_SAME4res's body.
    pub struct WriteSameOk<'a> { response: WriteResponse<'a> }

    /// CLONE4args (15.13).
    pub struct CloneArgs {
        source_stateid: Option<StateId>,
        stateid: Option<StateId>,
        source_offset: Option<u64>,
        offset: Option<u64>,
        /// Bytes; 0 is up to the end of the source.
        count: Option<u64>,
    }

    /// GETXATTR4args (8.4.1) and REMOVEXATTR4args (8.4.4).
    pub struct XattrArgs<'a> { name: Option<Name<'a>> }

    /// GETXATTR4res's body.
    pub struct GetXattrOk<'a> { value: Option<Body<'a>> }

    /// setxattr_option4.
    pub enum SetXattrOption {
        EITHER = 0, "SETXATTR4_EITHER";
        CREATE = 1, "SETXATTR4_CREATE";
        REPLACE = 2, "SETXATTR4_REPLACE";
    }

    /// SETXATTR4args (8.4.2).
    pub struct SetXattrArgs<'a> {
        option: Option<SetXattrOption>,
        name: Option<Name<'a>>,
        value: Option<Body<'a>>,
    }

    /// SETXATTR4res's and REMOVEXATTR4res's body: the file's change attribute.
    pub struct XattrOk { change: Option<ChangeInfo> }

    /// LISTXATTRS4args (8.4.3).
    pub struct ListXattrsArgs { cookie: Option<u64>, count_max: Option<u32> }

    /// LISTXATTRS4resok.
    pub struct ListXattrsOk<'a> {
        cookie: Option<u64>,
        names: Counted<'a, Option<Name<'a>>>,
        eof: Option<bool>,
    }
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

impl<'a> LayoutReturnArgs<'a> {
    /// What a client reports of a flexible file, if the body was seen.
    pub fn flex_files(&self) -> Option<FlexReturn<'a>> {
        match (self.layout_type?, &self.what) {
            (LayoutType::FLEX_FILES, LayoutReturn::File(file)) => parse(file.body),
            _ => None,
        }
    }
}

impl CreateType<'_> {
    /// What is created, if that was seen.
    pub fn file_type(&self) -> Option<super::FileType> {
        self.discriminant().map(super::FileType)
    }
}

pub(super) type Done = Outcome<(), ()>;
