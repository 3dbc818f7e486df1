//! Random values of NFSv2's and NFSv4's types: what a type consists of is written here once more,
//! by hand.

use lineside_frame::Piece;
use lineside_rpc::message::{AuthSys, GssService};
use lineside_rpc::xdr::{
    Array, Counted, FixedOpaque, List, Opaque, Optional, Outcome, Scalar, Xdr,
};
use lineside_time::Random;

use crate::v2;
use crate::v4::attributes::{MaskedMode, ModeUmask, SetTime};
use crate::v4::layouts::{DeviceAddress, DeviceError, IoInfo, Layout, LayoutUpdate};
use crate::v4::{self, callback, *};

/// A type of which a random value can be drawn. What it refers to is leaked.
pub(super) trait Draw {
    fn draw(random: &mut Random) -> Self;
}

fn draw<T: Draw>(random: &mut Random) -> T {
    T::draw(random)
}

fn leak<T: Draw>(random: &mut Random, below: u64) -> &'static [T] {
    let count = random.below(below);
    (0..count).map(|_| draw(random)).collect::<Vec<_>>().leak()
}

macro_rules! draw_bits {
    ($($type:ty)*) => {
        $(impl Draw for $type {
            fn draw(random: &mut Random) -> Self {
                random.bits() as Self
            }
        })*
    };
}

draw_bits! { u32 u64 i64 }

/// Numbers with names: now and then one without.
macro_rules! draw_numbers {
    ($($name:ident)*) => {
        $(impl Draw for $name {
            fn draw(random: &mut Random) -> Self {
                $name(random.below(9) as u32)
            }
        })*
    };
}

draw_numbers! {
    FileType StableHow LockType DelegationType LayoutType IoMode Content SetXattrOption GssService Status
}

impl Draw for () {
    fn draw(_: &mut Random) -> Self {}
}

impl Draw for bool {
    fn draw(random: &mut Random) -> Self {
        random.chance(0.5)
    }
}

impl<const N: usize> Draw for [u8; N] {
    fn draw(random: &mut Random) -> Self {
        let mut bytes = [0; N];
        random.fill(&mut bytes);
        bytes
    }
}

impl<const MAX: usize> Draw for Opaque<'static, MAX> {
    fn draw(random: &mut Random) -> Self {
        let long = random.chance(0.002);
        let len = if long { MAX } else { random.below(20) as usize };
        let mut bytes = vec![0; len];
        random.fill(&mut bytes);
        let (one, two) = bytes.leak().split_at(len / 3);
        Self::new(vec![Piece::bytes(one), Piece::bytes(two)].leak())
    }
}

impl<const LEN: usize> Draw for FixedOpaque<'static, LEN> {
    fn draw(random: &mut Random) -> Self {
        let bytes: [u8; LEN] = draw(random);
        let (one, two) = bytes.to_vec().leak().split_at(LEN / 3);
        Self::new(vec![Piece::bytes(one), Piece::bytes(two)].leak())
    }
}

impl<T: Draw> Draw for Option<T> {
    fn draw(random: &mut Random) -> Self {
        Some(draw(random))
    }
}

impl<T: Draw> Draw for Optional<T> {
    fn draw(random: &mut Random) -> Self {
        if random.chance(0.3) {
            return Self::Absent;
        }
        Self::Present(draw(random))
    }
}

impl<O: Draw, F: Draw> Draw for Outcome<O, F> {
    fn draw(random: &mut Random) -> Self {
        if random.chance(0.8) {
            return Self::Ok(draw(random));
        }
        Self::Fail(1 + random.below(20_000) as u32, draw(random))
    }
}

impl<T: Draw + Copy + Xdr<'static>> Draw for List<'static, T> {
    fn draw(random: &mut Random) -> Self {
        Self::new(leak(random, 4))
    }
}

impl<T: Draw + Copy + Xdr<'static>, const MAX: u32> Draw for Counted<'static, T, MAX> {
    fn draw(random: &mut Random) -> Self {
        Self::new(leak(random, u64::from(MAX.min(3)) + 1))
    }
}

impl<T: Draw + Scalar<'static>, const MAX: usize> Draw for Array<'static, T, MAX> {
    fn draw(random: &mut Random) -> Self {
        Self::new(leak(random, 4))
    }
}

impl Draw for Bitmap {
    fn draw(random: &mut Random) -> Self {
        let count = random.below(6);
        let bits: Vec<_> = (0..count).map(|_| random.below(100) as u32).collect();
        Self::new(&bits)
    }
}

impl Draw for AttributeList<'static> {
    fn draw(random: &mut Random) -> Self {
        Self::new(Box::leak(Box::new(draw(random))))
    }
}

/// A field of [`Attributes`]: there or not.
fn maybe<T: Draw>(random: &mut Random) -> Option<T> {
    random.chance(0.3).then(|| draw(random))
}

macro_rules! draw_attributes {
    ($($field:ident)*) => {
        impl Draw for Attributes<'static> {
            fn draw(random: &mut Random) -> Self {
                Self {
                    acl: if random.chance(0.2) { draw(random) } else { Counted::default() },
                    set_atime: if random.chance(0.2) { draw(random) } else { SetTime::Unread },
                    set_mtime: if random.chance(0.2) { draw(random) } else { SetTime::Unread },
                    $($field: maybe(random),)*
                }
            }
        }
    };
}

draw_attributes! {
    file_type handle_expiry change size link_support symlink_support named_attributes fsid unique_handles
    lease_seconds read_error acl_support archive can_set_time case_insensitive case_preserving
    chown_restricted handle fileid files_available files_free files_total hidden homogeneous file_size_max
    links_max name_max read_max write_max mode no_truncation link_count owner group quota_hard_available
    quota_soft_available quota_used device bytes_available bytes_free bytes_total used system atime
    backup_time create_time time_delta ctime mtime mounted_on_fileid layout_block_size layout_alignment
    set_mode_masked clone_block_size bytes_freed change_type mode_umask xattr_support offline
    delegated_atime delegated_mtime
}

macro_rules! draw_structs {
    ($($type:ty { $($field:ident)* })*) => {
        $(impl Draw for $type {
            fn draw(random: &mut Random) -> Self {
                Self { $($field: draw(random),)* }
            }
        })*
    };
}

draw_structs! {
    Time { seconds nanoseconds }
    FileSystemId { major minor }
    Device { major minor }
    StateId { sequence other }
    ChangeInfo { atomic before after }
    MaskedMode { value mask }
    ModeUmask { mode umask }
    StateOwner<'static> { client_id owner }
    NetAddress<'static> { network address }
    Ace<'static> { ace_type flags mask who }
    ReadDelegation<'static> { stateid recall permissions }
    WriteDelegation<'static> { stateid recall limit permissions }
    BlockLimit { blocks bytes_per_block }
    WriteResponse<'static> { callback_id count committed verifier }
    Layout<'static> { offset length io_mode layout_type body }
    DeviceAddress<'static> { layout_type body }
    LayoutUpdate<'static> { layout_type body }
    DeviceError { device status operation }
    IoInfo { count bytes }
    AuthSys<'static> { stamp machine_name uid gid gids }

    CallHeader<'static> { tag minor_version operation_count }
    ReplyHeader<'static> { status tag operation_count }
    AccessArgs { access }
    AccessOk { supported access }
    CloseArgs { sequence stateid }
    StateIdOk { stateid }
    CommitArgs { offset count }
    CommitOk { verifier }
    CreateArgs<'static> { object name attributes }
    CreateOk { directory attributes_set }
    ClientIdArgs { client_id }
    StateIdArgs { stateid }
    GetAttrArgs { request }
    GetAttrOk<'static> { attributes }
    GetFhOk<'static> { object }
    NameArgs<'static> { name }
    DirectoryOk { directory }
    LockArgs<'static> { lock_type reclaim offset length locker }
    NewLockOwner<'static> { open_sequence open_stateid lock_sequence owner }
    KnownLockOwner { stateid sequence }
    LockDenied<'static> { offset length lock_type owner }
    LockTestArgs<'static> { lock_type offset length owner }
    UnlockArgs { lock_type sequence stateid offset length }
    VerifyArgs<'static> { attributes }
    OpenArgs<'static> { sequence access deny owner how claim }
    ExclusiveCreate<'static> { verifier attributes }
    ClaimDelegate<'static> { stateid name }
    OpenOk<'static> { stateid directory flags attributes_set delegation }
    OpenAttrArgs { create }
    OpenConfirmArgs { stateid sequence }
    OpenDowngradeArgs { stateid sequence access deny }
    PutFhArgs<'static> { object }
    ReadArgs { stateid offset count }
    ReadOk { eof data_len }
    ReadDirArgs { cookie cookie_verifier directory_count count_max request }
    ReadDirOk<'static> { cookie_verifier entries eof }
    Entry<'static> { cookie name attributes }
    ReadLinkOk<'static> { target }
    RenameArgs<'static> { from to }
    RenameOk { from to }
    GssInfo<'static> { object_id quality service }
    SecInfoOk<'static> { flavors }
    SetAttrArgs<'static> { stateid attributes }
    SetAttrResult { attributes_set }
    SetClientIdArgs<'static> { verifier id callback_program callback_address callback_ident }
    SetClientIdOk { client_id verifier }
    WriteArgs { stateid offset stable data_len }
    WriteOk { count committed verifier }
    ReleaseLockOwnerArgs<'static> { owner }

    BackchannelCtlArgs<'static> { callback_program security }
    GssHandles<'static> { service of_server of_client }
    BindConnection { session direction rdma }
    ExchangeIdArgs<'static> { verifier owner flags protection implementation }
    ProtectedOperations { must_enforce must_allow }
    SsvWanted<'static> { operations hash_algorithms encryption_algorithms window handle_count }
    Implementation<'static> { domain name date }
    ExchangeIdOk<'static> {
        client_id sequence flags protection server_minor_id server_major_id server_scope implementation
    }
    SsvGranted<'static> { operations hash_algorithm encryption_algorithm ssv_len window handles }
    CreateSessionArgs<'static> { client_id sequence flags fore back callback_program security }
    ChannelAttributes<'static> {
        header_padding request_max response_max cached_response_max operations_max requests_max rdma_ird
    }
    CreateSessionOk<'static> { session sequence flags fore back }
    SessionArgs { session }
    GetDirDelegationArgs {
        signal_available notifications child_delay directory_delay child_attributes directory_attributes
    }
    DirDelegationOk { cookie_verifier stateid notifications child_attributes directory_attributes }
    GetDeviceInfoArgs { device layout_type count_max notifications }
    GetDeviceInfoOk<'static> { address notifications }
    GetDeviceListArgs { layout_type devices_max cookie cookie_verifier }
    GetDeviceListOk<'static> { cookie cookie_verifier devices eof }
    LayoutCommitArgs<'static> { offset length reclaim stateid last_write_offset mtime update }
    LayoutCommitOk { size }
    LayoutGetArgs { signal_available layout_type io_mode offset length length_min stateid count_max }
    LayoutGetOk<'static> { return_on_close stateid layouts }
    LayoutReturnArgs<'static> { reclaim layout_type io_mode what }
    LayoutReturnFile<'static> { offset length stateid body }
    LayoutReturnOk { stateid }
    SecInfoNoNameArgs { style }
    SequenceArgs { session sequence slot highest_slot cache_this }
    SequenceOk { session sequence slot highest_slot target_highest_slot status_flags }
    SetSsvArgs<'static> { ssv digest }
    SetSsvOk<'static> { digest }
    TestStateIdArgs<'static> { stateids }
    TestStateIdOk<'static> { statuses }
    WantDelegationArgs { want claim }
    WantDelegationOk<'static> { delegation }
    ReclaimCompleteArgs { one_file_system }

    AllocateArgs { stateid offset length }
    CopyArgs<'static> {
        source_stateid stateid source_offset offset count consecutive synchronous source_servers
    }
    CopyOk<'static> { response requirements }
    CopyRequirements { consecutive synchronous }
    CopyNotifyArgs<'static> { stateid destination }
    CopyNotifyOk<'static> { lease stateid source_servers }
    IoAdviseArgs { stateid offset count hints }
    IoAdviseOk { hints }
    LayoutErrorArgs<'static> { offset length stateid errors }
    LayoutStatsArgs<'static> { offset length stateid read write device update }
    OffloadStatusOk<'static> { count complete }
    ReadPlusOk { eof segment_count }
    SeekArgs { stateid offset what }
    SeekOk { eof offset }
    WriteSameArgs {
        stateid stable offset block_size block_count number_offset first_number pattern_offset data_len
    }
    WriteSameOk<'static> { response }
    CloneArgs { source_stateid stateid source_offset offset count }
    XattrArgs<'static> { name }
    GetXattrOk<'static> { value }
    SetXattrArgs<'static> { option name value }
    XattrOk { change }
    ListXattrsArgs { cookie count_max }
    ListXattrsOk<'static> { cookie names eof }

    callback::CallHeader<'static> { tag minor_version callback_ident operation_count }
    callback::GetAttrArgs<'static> { file request }
    callback::RecallArgs<'static> { stateid truncate file }
    callback::LayoutRecallArgs<'static> { layout_type io_mode changed what }
    callback::LayoutRecallFile<'static> { file offset length stateid }
    callback::NotifyArgs<'static> { stateid directory changes }
    callback::Notification<'static> { mask values }
    callback::PushDelegArgs<'static> { file delegation }
    callback::RecallAnyArgs { keep types }
    callback::RecallSlotArgs { target_highest_slot }
    callback::SequenceArgs<'static> { session sequence slot highest_slot cache_this referring }
    callback::ReferringCalls<'static> { session calls }
    callback::ReferringCall { sequence slot }
    callback::SequenceOk { session sequence slot highest_slot target_highest_slot }
    callback::WantsCancelledArgs { contended resourced }
    callback::NotifyLockArgs<'static> { file owner }
    callback::NotifyDeviceIdArgs<'static> { changes }
    callback::OffloadArgs<'static> { file stateid result }
    callback::BytesCopied { count }
}

/// `Arm` has no body, `Arm(_)` one that is drawn, `Arm = number` is any other discriminant.
macro_rules! draw_unions {
    ($($type:ty { $($arm:ident $(($body:tt))? $(= $number:literal)?,)* })*) => {
        $(impl Draw for $type {
            fn draw(random: &mut Random) -> Self {
                let arms: &[fn(&mut Random) -> Self] = &[$(draw_unions!(@arm $arm $(($body))? $(= $number)?)),*];
                arms[random.below(arms.len() as u64) as usize](random)
            }
        })*
    };
    (@arm $arm:ident) => { |_| Self::$arm };
    (@arm $arm:ident ($body:tt)) => { |random| Self::$arm(draw(random)) };
    (@arm $arm:ident = $number:literal) => { |_| Self::$arm($number) };
}

draw_unions! {
    NetLocation<'static> { Name(_), Url(_), Address(_), }
    SpaceLimit { Bytes(_), Blocks(_), }
    NoDelegation { Contention(_), Resource(_), Other = 8, }
    Delegation<'static> { None, Read(_), Write(_), NoneExtended(_), ReadAttributes(_), WriteAttributes(_), }
    SetTime { ClientTime(_), ServerTime = 0, }
    CreateType<'static> { Directory, Block(_), Character(_), Symlink(_), Socket, Fifo, Other = 1, }
    Locker<'static> { Known(_), New(_), }
    LockResult<'static> { Ok(_), Denied(_), Other = 10026, }
    LockTestResult<'static> { Ok, Denied(_), Other = 10026, }
    OpenHow<'static> { NoCreate, Create(_), Other = 2, }
    CreateHow<'static> { Unchecked(_), Guarded(_), Exclusive(_), ExclusiveWithAttributes(_), }
    Claim<'static> {
        Null(_), Previous(_), DelegateCurrent(_), DelegatePrevious(_), Handle, DelegateCurrentHandle(_),
        DelegatePreviousHandle,
    }
    SecInfo<'static> { Gss(_), Flavor = 1, }
    SetClientIdResult<'static> { Ok(_), InUse(_), Other = 10018, }
    CallbackSecurity<'static> { None, Sys(_), Gss(_), }
    ProtectionWanted<'static> { None, MachineCredential(_), Ssv(_), }
    ProtectionGranted<'static> { None, MachineCredential(_), Ssv(_), }
    DirDelegation { Granted(_), Unavailable(_), }
    GetDeviceInfoResult<'static> { Ok(_), TooSmall(_), Other = 2, }
    LayoutGetResult<'static> { Ok(_), TryLater(_), Other = 10059, }
    LayoutReturn<'static> { File(_), FileSystem, All, Other = 4, }
    DelegationClaim { Previous(_), Handle, DelegatePreviousHandle, }
    CopyResult<'static> { Ok(_), Requirements(_), Other = 10091, }
    Segment { Data(_), Hole(_), Other = 2, }
    callback::LayoutRecall<'static> { File(_), FileSystem(_), All, }
}

draw_structs! {
    SegmentData { offset data_len }
    SegmentHole { offset length }
}

impl Draw for v2::FileType {
    fn draw(random: &mut Random) -> Self {
        Self(random.below(10) as u32)
    }
}

draw_structs! {
    v2::Time { seconds microseconds }
    v2::Attributes {
        file_type mode link_count uid gid size block_size device blocks fsid fileid atime mtime ctime
    }
    v2::SetAttributes { mode uid gid size atime mtime }
    v2::FileArgs<'static> { file }
    v2::DirOpArgs<'static> { directory name }
    v2::SetAttrArgs<'static> { file attributes }
    v2::ReadArgs<'static> { file offset count total_count }
    v2::WriteArgs<'static> { file begin_offset offset total_count data_len }
    v2::CreateArgs<'static> { what attributes }
    v2::RenameArgs<'static> { from to }
    v2::LinkArgs<'static> { file link }
    v2::SymLinkArgs<'static> { what target attributes }
    v2::ReadDirArgs<'static> { directory cookie count }
    v2::DirOpOk<'static> { object attributes }
    v2::ReadLinkOk<'static> { target }
    v2::ReadOk { attributes data_len }
    v2::ReadDirOk<'static> { entries eof }
    v2::Entry<'static> { fileid name cookie }
    v2::StatFsOk { transfer_size block_size blocks_total blocks_free blocks_available }
}

macro_rules! draw_operations {
    ($module:ident::$kind:ident, $call:ident, $reply:ident: $($name:ident)*) => {
        pub(super) fn $call(operation: $module::$kind, random: &mut Random) -> $module::Call<'static> {
            match operation {
                $($module::$kind::$name => $module::Call::$name(draw(random)),)*
            }
        }

        pub(super) fn $reply(operation: $module::$kind, random: &mut Random) -> $module::Reply<'static> {
            match operation {
                $($module::$kind::$name => $module::Reply::$name(draw(random)),)*
            }
        }
    };
}

draw_operations! {
    v4::Operation, v4_call, v4_reply:
    Access Close Commit Create DelegPurge DelegReturn GetAttr GetFh Link Lock LockT LockU Lookup LookupP
    NVerify Open OpenAttr OpenConfirm OpenDowngrade PutFh PutPubFh PutRootFh Read ReadDir ReadLink Remove
    Rename Renew RestoreFh SaveFh SecInfo SetAttr SetClientId SetClientIdConfirm Verify Write
    ReleaseLockOwner BackchannelCtl BindConnToSession ExchangeId CreateSession DestroySession FreeStateId
    GetDirDelegation GetDeviceInfo GetDeviceList LayoutCommit LayoutGet LayoutReturn SecInfoNoName Sequence
    SetSsv TestStateId WantDelegation DestroyClientId ReclaimComplete Allocate Copy CopyNotify Deallocate
    IoAdvise LayoutError LayoutStats OffloadCancel OffloadStatus ReadPlus Seek WriteSame Clone GetXattr
    SetXattr ListXattrs RemoveXattr Illegal
}

draw_operations! {
    callback::Operation, callback_call, callback_reply:
    GetAttr Recall LayoutRecall Notify PushDeleg RecallAny RecallableObjAvail RecallSlot Sequence
    WantsCancelled NotifyLock NotifyDeviceId Offload Illegal
}

draw_operations! {
    v2::Procedure, v2_call, v2_reply:
    Null GetAttr SetAttr Root Lookup ReadLink Read WriteCache Write Create Remove Rename Link SymLink MkDir
    RmDir ReadDir StatFs
}
