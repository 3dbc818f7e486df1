//! The callback program: what a server asks of its clients (RFC 7530, RFC 8881 sections 19 and 20,
//! RFC 7862 section 16).
//!
//! Its number is chosen by the client: in SETCLIENTID, CREATE_SESSION and BACKCHANNEL_CTL. Over
//! NFSv4.0 the server opens a connection for it, from NFSv4.1 on it comes on a connection of the
//! client's.

use lineside_frame::Cursor;
use lineside_rpc::xdr::{Array, Counted, Name, Outcome, Xdr};

use super::{
    Answer, AttributeList, Bitmap, Body, Delegation, Done, FileSystemId, GetAttrOk, Handle, IoMode,
    LayoutType, SessionId, StateId, StateOwner, WriteResponse, compound,
};
pub use super::{COMPOUND, NULL, ReplyHeader, status_name};

/// The program number that the RFCs print, and that servers and clients use if they need no other.
pub const PROGRAM: u32 = 0x4000_0000;
/// The numbers from which clients choose one (transient ones, RFC 5531).
pub const PROGRAMS: std::ops::Range<u32> = 0x4000_0000..0x6000_0000;
/// The version described here.
pub const VERSION: u32 = 1;

compound! {
    3 GetAttr "CB_GETATTR" 0: GetAttrArgs<'a> => Outcome<GetAttrOk<'a>, ()>;
    4 Recall "CB_RECALL" 0: RecallArgs<'a> => Done;
    5 LayoutRecall "CB_LAYOUTRECALL" 1: LayoutRecallArgs<'a> => Done;
    6 Notify "CB_NOTIFY" 1: NotifyArgs<'a> => Done;
    7 PushDeleg "CB_PUSH_DELEG" 1: PushDelegArgs<'a> => Done;
    8 RecallAny "CB_RECALL_ANY" 1: RecallAnyArgs => Done;
    9 RecallableObjAvail "CB_RECALLABLE_OBJ_AVAIL" 1: RecallAnyArgs => Done;
    10 RecallSlot "CB_RECALL_SLOT" 1: RecallSlotArgs => Done;
    11 Sequence "CB_SEQUENCE" 1: SequenceArgs<'a> => Outcome<SequenceOk, ()>;
    12 WantsCancelled "CB_WANTS_CANCELLED" 1: WantsCancelledArgs => Done;
    13 NotifyLock "CB_NOTIFY_LOCK" 1: NotifyLockArgs<'a> => Done;
    14 NotifyDeviceId "CB_NOTIFY_DEVICEID" 1: NotifyDeviceIdArgs<'a> => Done;
    15 Offload "CB_OFFLOAD" 2: OffloadArgs<'a> => Done;
    10044 Illegal "CB_ILLEGAL" 0: () => Done;
}

lineside_rpc::xdr! {
    /// CB_COMPOUND4args up to the first operation (RFC 8881 section 19.2). The reply's is
    /// [`ReplyHeader`].
    pub struct CallHeader<'a> {
        tag: Option<Name<'a>>,
        minor_version: Option<u32>,
        /// What the client gave to SETCLIENTID.
        callback_ident: Option<u32>,
        /// Operations that follow.
        operation_count: Option<u32>,
    }

    /// CB_GETATTR4args (20.1).
    pub struct GetAttrArgs<'a> { file: Option<Handle<'a>>, request: Option<Bitmap> }

    /// CB_RECALL4args (20.2).
    pub struct RecallArgs<'a> {
        stateid: Option<StateId>,
        truncate: Option<bool>,
        file: Option<Handle<'a>>,
    }

    /// CB_LAYOUTRECALL4args (20.3).
    pub struct LayoutRecallArgs<'a> {
        layout_type: Option<LayoutType>,
        io_mode: Option<IoMode>,
        changed: Option<bool>,
        what: LayoutRecall<'a>,
    }

    /// layoutrecall4.
    pub union LayoutRecall<'a> {
        1 => File(file: LayoutRecallFile<'a>),
        2 => FileSystem(fsid: Option<FileSystemId>),
        3 => All,
    }

    /// layoutrecall_file4.
    pub struct LayoutRecallFile<'a> {
        file: Option<Handle<'a>>,
        offset: Option<u64>,
        length: Option<u64>,
        stateid: Option<StateId>,
    }

    /// CB_NOTIFY4args (20.4).
    pub struct NotifyArgs<'a> {
        stateid: Option<StateId>,
        directory: Option<Handle<'a>>,
        changes: Counted<'a, Notification<'a>>,
    }

    /// notify4: which kinds of changes, and each kind's description one after another.
    pub struct Notification<'a> { mask: Option<Bitmap>, values: Option<Body<'a>> }

    /// CB_PUSH_DELEG4args (20.5).
    pub struct PushDelegArgs<'a> { file: Option<Handle<'a>>, delegation: Delegation<'a> }

    /// CB_RECALL_ANY4args (20.6) and CB_RECALLABLE_OBJ_AVAIL4args (20.7).
    pub struct RecallAnyArgs { keep: Option<u32>, types: Option<Bitmap> }

    /// CB_RECALL_SLOT4args (20.8).
    pub struct RecallSlotArgs { target_highest_slot: Option<u32> }

    /// CB_SEQUENCE4args (20.9).
    pub struct SequenceArgs<'a> {
        session: Option<SessionId>,
        sequence: Option<u32>,
        slot: Option<u32>,
        highest_slot: Option<u32>,
        cache_this: Option<bool>,
        referring: Counted<'a, ReferringCalls<'a>>,
    }

    /// referring_call_list4: calls of the client whose replies this callback may overtake.
    pub struct ReferringCalls<'a> { session: Option<SessionId>, calls: Array<'a, ReferringCall, 0x1_0000> }

    /// referring_call4.
    pub scalar struct ReferringCall { sequence: u32, slot: u32 }

    /// CB_SEQUENCE4resok.
    pub fixed struct SequenceOk {
        session: Option<SessionId>,
        sequence: Option<u32>,
        slot: Option<u32>,
        highest_slot: Option<u32>,
        target_highest_slot: Option<u32>,
    }

    /// CB_WANTS_CANCELLED4args (20.10).
    pub struct WantsCancelledArgs { contended: Option<bool>, resourced: Option<bool> }

    /// CB_NOTIFY_LOCK4args (20.11).
    pub struct NotifyLockArgs<'a> { file: Option<Handle<'a>>, owner: StateOwner<'a> }

    /// CB_NOTIFY_DEVICEID4args (20.12).
    pub struct NotifyDeviceIdArgs<'a> { changes: Counted<'a, Notification<'a>> }

    /// CB_OFFLOAD4args (RFC 7862 section 16.1).
    pub struct OffloadArgs<'a> {
        file: Option<Handle<'a>>,
        stateid: Option<StateId>,
        result: Outcome<WriteResponse<'a>, BytesCopied>,
    }

    /// What a copy that failed had done.
    pub struct BytesCopied { count: Option<u64> }
}

/// What calls have in common, for a table with one row an operation.
impl<'a> Call<'a> {
    /// The file or directory that it is about.
    pub fn handle(&self) -> Option<Handle<'a>> {
        match self {
            Self::GetAttr(args) => args.file,
            Self::Recall(args) => args.file,
            Self::LayoutRecall(args) => args.recalled()?.file,
            Self::Notify(args) => args.directory,
            Self::PushDeleg(args) => args.file,
            Self::NotifyLock(args) => args.file,
            Self::Offload(args) => args.file,
            _ => None,
        }
    }

    /// The open, delegation, layout or copy that it is about.
    pub fn stateid(&self) -> Option<StateId> {
        match self {
            Self::Recall(args) => args.stateid,
            Self::LayoutRecall(args) => args.recalled()?.stateid,
            Self::Notify(args) => args.stateid,
            Self::PushDeleg(args) => args.delegation.stateid(),
            Self::Offload(args) => args.stateid,
            _ => None,
        }
    }

    /// The first byte of the layout that is recalled.
    pub fn offset(&self) -> Option<u64> {
        match self {
            Self::LayoutRecall(args) => args.recalled()?.offset,
            _ => None,
        }
    }

    /// Bytes of the layout that is recalled, or that a copy wrote.
    pub fn count(&self) -> Option<u64> {
        match self {
            Self::LayoutRecall(args) => args.recalled()?.length,
            Self::Offload(args) => match &args.result {
                Outcome::Unread => None,
                Outcome::Ok(response) => response.count,
                Outcome::Fail(_, copied) => copied.count,
            },
            _ => None,
        }
    }

    /// CB_SEQUENCE's session.
    pub fn session(&self) -> Option<SessionId> {
        match self {
            Self::Sequence(args) => args.session,
            _ => None,
        }
    }
}

impl<'a> LayoutRecallArgs<'a> {
    /// The part of a file, if not whole file systems are recalled.
    fn recalled(&self) -> Option<&LayoutRecallFile<'a>> {
        match &self.what {
            LayoutRecall::File(file) => Some(file),
            _ => None,
        }
    }
}

/// What replies have in common, for a table with one row an operation.
impl<'a> Reply<'a> {
    /// CB_GETATTR's attributes: size and change of a file that the client has a write delegation
    /// of.
    pub fn attributes(&self) -> Option<&AttributeList<'a>> {
        match self {
            Self::GetAttr(outcome) => outcome.ok().map(|ok| &ok.attributes),
            _ => None,
        }
    }

    /// CB_SEQUENCE's session.
    pub fn session(&self) -> Option<SessionId> {
        match self {
            Self::Sequence(outcome) => outcome.ok()?.session,
            _ => None,
        }
    }
}

impl<'a> From<CallHeader<'a>> for super::CallHeader<'a> {
    /// What both kinds of compounds begin with.
    fn from(header: CallHeader<'a>) -> Self {
        Self {
            tag: header.tag,
            minor_version: header.minor_version,
            operation_count: header.operation_count,
        }
    }
}
