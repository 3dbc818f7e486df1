//! The arguments and results of operations that came with NFSv4.1.
//!
//! Sections are RFC 8881's.

use lineside_rpc::message::{AuthSys, GssService};
use lineside_rpc::xdr::{Array, Counted, Name, Optional};

use super::attributes::Bitmap;
use super::layouts::{DeviceAddress, FlexReturn, Layout, LayoutUpdate, parse};
use super::types::{
    Body, Delegation, DelegationType, DeviceId, IoMode, LayoutType, Owner, SessionId, StateId,
    Time, Verifier,
};

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

impl<'a> LayoutReturnArgs<'a> {
    /// What a client reports of a flexible file, if the body was seen.
    pub fn flex_files(&self) -> Option<FlexReturn<'a>> {
        match (self.layout_type?, &self.what) {
            (LayoutType::FLEX_FILES, LayoutReturn::File(file)) => parse(file.body),
            _ => None,
        }
    }
}
