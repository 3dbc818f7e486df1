//! NFS version 4, minor versions 0 to 2: RFC 7530, RFC 8881, RFC 7862, and the extended attributes
//! of RFC 8276.
//!
//! A call of the procedure [`COMPOUND`] is a list of operations, and its reply a list of their
//! results up to the first that failed. Either is read an operation at a time, so that file data in
//! the middle of a compound can be taken as it arrives:
//!
//! ```text
//!  CallHeader::decode   ──► tag, minor version, number of operations
//!  Call::decode         ──► an operation with its arguments        (as often)
//!    data_len           ──► of WRITE and WRITE_SAME: that many bytes and their padding stand here
//!  ReplyHeader::decode  ──► status, tag, number of results
//!  Reply::decode        ──► an operation with its status and results
//!    data_len           ──► of READ: as above
//!    segment_count      ──► of READ_PLUS: that many Segments, after each of which its data stands
//! ```
//!
//! Lengths are known by the kind of the operation alone, so behind one that is
//! [`Unknown`](Call::Unknown) nothing can be read: the cursor is then rejected. The minor version
//! changes nothing in what is read.

pub mod attributes;
pub mod callback;
pub mod layouts;
mod minor_1;
mod minor_2;
mod operations;
mod summary;
mod types;

use lineside_frame::Cursor;
use lineside_rpc::xdr::{Name, Outcome, Xdr, padding};

pub use attributes::{AttributeList, Attributes, Bitmap};
pub use minor_1::*;
pub use minor_2::*;
pub use operations::*;
pub use types::*;

/// Its RPC program number.
pub const PROGRAM: u32 = 100_003;
/// The version described here.
pub const VERSION: u32 = 4;
/// The procedure that does nothing.
pub const NULL: u32 = 0;
/// The procedure that carries operations.
pub const COMPOUND: u32 = 1;

lineside_rpc::xdr! {
    /// COMPOUND4args up to the first operation (RFC 8881 section 16.2.1).
    pub struct CallHeader<'a> {
        tag: Option<Name<'a>>,
        minor_version: Option<u32>,
        /// Operations that follow.
        operation_count: Option<u32>,
    }

    /// COMPOUND4res up to the first result.
    pub struct ReplyHeader<'a> {
        /// That of the last operation.
        status: Option<Status>,
        tag: Option<Name<'a>>,
        /// Results that follow.
        operation_count: Option<u32>,
    }
}

/// A result: all begin with a status.
trait Answer {
    fn status(&self) -> Option<u32>;
}

impl<O, F> Answer for Outcome<O, F> {
    fn status(&self) -> Option<u32> {
        Self::status(self)
    }
}

macro_rules! answers {
    ($($union:ident)*) => {
        $(impl Answer for $union<'_> {
            fn status(&self) -> Option<u32> {
                self.discriminant()
            }
        })*
    };
}

answers! {
    LockResult LockTestResult SetClientIdResult GetDeviceInfoResult LayoutGetResult CopyResult
}

/// Describes the operations of a compound: `number Name "NAME" minor version: Args => Results;`.
///
/// Gives `Operation` with numbers and names, and `Call` and `Reply`, each an enum of all of them
/// that reads and writes the operation's number too.
macro_rules! compound {
    ($($number:literal $name:ident $text:literal $since:literal: $args:ty => $results:ty;)*) => {
        lineside_rpc::numbered! {
            /// An operation of a compound.
            pub enum Operation { $($number $name $text;)* }
        }

        impl Operation {
            /// The first minor version that has it.
            pub fn minor_version(self) -> u32 {
                match self { $(Self::$name => $since,)* }
            }
        }

        /// An operation with its arguments.
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub enum Call<'a> {
            /// The operation's number was not seen.
            #[default]
            Unread,
            /// An operation of this number, of which no more can be read; nor what follows it.
            Unknown(u32),
            $(#[doc = concat!("`", $text, "`")] $name($args),)*
        }

        impl<'a> Call<'a> {
            /// Reads an operation's number and its arguments.
            #[inline]
            pub fn decode(cursor: &mut Cursor<'a>) -> Self {
                let Some(number) = cursor.u32() else { return Self::Unread };
                match number {
                    $($number => Self::$name(<$args as Xdr<'a>>::decode(cursor)),)*
                    number => {
                        cursor.reject();
                        Self::Unknown(number)
                    }
                }
            }

            /// Appends the operation's number and its arguments.
            pub fn encode(&self, out: &mut Vec<u8>) {
                self.number().encode(out);
                match self {
                    Self::Unread | Self::Unknown(_) => {}
                    $(Self::$name(args) => args.encode(out),)*
                }
            }

            /// Whether all that is read here is the same in `whole`.
            pub fn agrees(&self, whole: &Self) -> bool {
                match (self, whole) {
                    (Self::Unread, _) => true,
                    $((Self::$name(args), Self::$name(whole)) => args.agrees(whole),)*
                    _ => self == whole,
                }
            }

            /// Which operation it is, if that was seen and is known.
            pub fn operation(&self) -> Option<Operation> {
                match self {
                    Self::Unread | Self::Unknown(_) => None,
                    $(Self::$name(_) => Some(Operation::$name),)*
                }
            }

            /// The operation's number, if that was seen.
            pub fn number(&self) -> Option<u32> {
                match self {
                    Self::Unknown(number) => Some(*number),
                    _ => self.operation().map(Operation::number),
                }
            }
        }

        /// An operation with its status and results.
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub enum Reply<'a> {
            /// The operation's number was not seen.
            #[default]
            Unread,
            /// An operation of this number, of which the status and no more can be read; nor what
            /// follows it.
            Unknown(u32, Option<u32>),
            $(#[doc = concat!("`", $text, "`")] $name($results),)*
        }

        impl<'a> Reply<'a> {
            /// Reads an operation's number, its status and its results.
            #[inline]
            pub fn decode(cursor: &mut Cursor<'a>) -> Self {
                let Some(number) = cursor.u32() else { return Self::Unread };
                match number {
                    $($number => Self::$name(<$results as Xdr<'a>>::decode(cursor)),)*
                    number => {
                        let status = cursor.u32();
                        cursor.reject();
                        Self::Unknown(number, status)
                    }
                }
            }

            /// Appends the operation's number, its status and its results.
            pub fn encode(&self, out: &mut Vec<u8>) {
                self.number().encode(out);
                match self {
                    Self::Unread => {}
                    Self::Unknown(_, status) => status.encode(out),
                    $(Self::$name(results) => results.encode(out),)*
                }
            }

            /// Whether all that is read here is the same in `whole`.
            pub fn agrees(&self, whole: &Self) -> bool {
                match (self, whole) {
                    (Self::Unread, _) => true,
                    (Self::Unknown(number, status), Self::Unknown(whole_number, whole_status)) => {
                        number == whole_number && status.agrees(whole_status)
                    }
                    $((Self::$name(results), Self::$name(whole)) => results.agrees(whole),)*
                    _ => false,
                }
            }

            /// Which operation it is, if that was seen and is known.
            pub fn operation(&self) -> Option<Operation> {
                match self {
                    Self::Unread | Self::Unknown(..) => None,
                    $(Self::$name(_) => Some(Operation::$name),)*
                }
            }

            /// The operation's number, if that was seen.
            pub fn number(&self) -> Option<u32> {
                match self {
                    Self::Unknown(number, _) => Some(*number),
                    _ => self.operation().map(Operation::number),
                }
            }

            /// Its status, if that was seen.
            pub fn status(&self) -> Option<u32> {
                match self {
                    Self::Unread => None,
                    Self::Unknown(_, status) => *status,
                    $(Self::$name(results) => Answer::status(results),)*
                }
            }
        }
    };
}
use compound;

compound! {
    3 Access "ACCESS" 0: AccessArgs => Outcome<AccessOk, ()>;
    4 Close "CLOSE" 0: CloseArgs => Outcome<StateIdOk, ()>;
    5 Commit "COMMIT" 0: CommitArgs => Outcome<CommitOk, ()>;
    6 Create "CREATE" 0: CreateArgs<'a> => Outcome<CreateOk, ()>;
    7 DelegPurge "DELEGPURGE" 0: ClientIdArgs => Done;
    8 DelegReturn "DELEGRETURN" 0: StateIdArgs => Done;
    9 GetAttr "GETATTR" 0: GetAttrArgs => Outcome<GetAttrOk<'a>, ()>;
    10 GetFh "GETFH" 0: () => Outcome<GetFhOk<'a>, ()>;
    11 Link "LINK" 0: NameArgs<'a> => Outcome<DirectoryOk, ()>;
    12 Lock "LOCK" 0: LockArgs<'a> => LockResult<'a>;
    13 LockT "LOCKT" 0: LockTestArgs<'a> => LockTestResult<'a>;
    14 LockU "LOCKU" 0: UnlockArgs => Outcome<StateIdOk, ()>;
    15 Lookup "LOOKUP" 0: NameArgs<'a> => Done;
    16 LookupP "LOOKUPP" 0: () => Done;
    17 NVerify "NVERIFY" 0: VerifyArgs<'a> => Done;
    18 Open "OPEN" 0: OpenArgs<'a> => Outcome<OpenOk<'a>, ()>;
    19 OpenAttr "OPENATTR" 0: OpenAttrArgs => Done;
    20 OpenConfirm "OPEN_CONFIRM" 0: OpenConfirmArgs => Outcome<StateIdOk, ()>;
    21 OpenDowngrade "OPEN_DOWNGRADE" 0: OpenDowngradeArgs => Outcome<StateIdOk, ()>;
    22 PutFh "PUTFH" 0: PutFhArgs<'a> => Done;
    23 PutPubFh "PUTPUBFH" 0: () => Done;
    24 PutRootFh "PUTROOTFH" 0: () => Done;
    25 Read "READ" 0: ReadArgs => Outcome<ReadOk, ()>;
    26 ReadDir "READDIR" 0: ReadDirArgs => Outcome<ReadDirOk<'a>, ()>;
    27 ReadLink "READLINK" 0: () => Outcome<ReadLinkOk<'a>, ()>;
    28 Remove "REMOVE" 0: NameArgs<'a> => Outcome<DirectoryOk, ()>;
    29 Rename "RENAME" 0: RenameArgs<'a> => Outcome<RenameOk, ()>;
    30 Renew "RENEW" 0: ClientIdArgs => Done;
    31 RestoreFh "RESTOREFH" 0: () => Done;
    32 SaveFh "SAVEFH" 0: () => Done;
    33 SecInfo "SECINFO" 0: NameArgs<'a> => Outcome<SecInfoOk<'a>, ()>;
    34 SetAttr "SETATTR" 0: SetAttrArgs<'a> => Outcome<SetAttrResult, SetAttrResult>;
    35 SetClientId "SETCLIENTID" 0: SetClientIdArgs<'a> => SetClientIdResult<'a>;
    36 SetClientIdConfirm "SETCLIENTID_CONFIRM" 0: SetClientIdOk => Done;
    37 Verify "VERIFY" 0: VerifyArgs<'a> => Done;
    38 Write "WRITE" 0: WriteArgs => Outcome<WriteOk, ()>;
    39 ReleaseLockOwner "RELEASE_LOCKOWNER" 0: ReleaseLockOwnerArgs<'a> => Done;
    40 BackchannelCtl "BACKCHANNEL_CTL" 1: BackchannelCtlArgs<'a> => Done;
    41 BindConnToSession "BIND_CONN_TO_SESSION" 1: BindConnection => Outcome<BindConnection, ()>;
    42 ExchangeId "EXCHANGE_ID" 1: ExchangeIdArgs<'a> => Outcome<ExchangeIdOk<'a>, ()>;
    43 CreateSession "CREATE_SESSION" 1: CreateSessionArgs<'a> => Outcome<CreateSessionOk<'a>, ()>;
    44 DestroySession "DESTROY_SESSION" 1: SessionArgs => Done;
    45 FreeStateId "FREE_STATEID" 1: StateIdArgs => Done;
    46 GetDirDelegation "GET_DIR_DELEGATION" 1: GetDirDelegationArgs => Outcome<DirDelegation, ()>;
    47 GetDeviceInfo "GETDEVICEINFO" 1: GetDeviceInfoArgs => GetDeviceInfoResult<'a>;
    48 GetDeviceList "GETDEVICELIST" 1: GetDeviceListArgs => Outcome<GetDeviceListOk<'a>, ()>;
    49 LayoutCommit "LAYOUTCOMMIT" 1: LayoutCommitArgs<'a> => Outcome<LayoutCommitOk, ()>;
    50 LayoutGet "LAYOUTGET" 1: LayoutGetArgs => LayoutGetResult<'a>;
    51 LayoutReturn "LAYOUTRETURN" 1: LayoutReturnArgs<'a> => Outcome<LayoutReturnOk, ()>;
    52 SecInfoNoName "SECINFO_NO_NAME" 1: SecInfoNoNameArgs => Outcome<SecInfoOk<'a>, ()>;
    53 Sequence "SEQUENCE" 1: SequenceArgs => Outcome<SequenceOk, ()>;
    54 SetSsv "SET_SSV" 1: SetSsvArgs<'a> => Outcome<SetSsvOk<'a>, ()>;
    55 TestStateId "TEST_STATEID" 1: TestStateIdArgs<'a> => Outcome<TestStateIdOk<'a>, ()>;
    56 WantDelegation "WANT_DELEGATION" 1: WantDelegationArgs => Outcome<WantDelegationOk<'a>, ()>;
    57 DestroyClientId "DESTROY_CLIENTID" 1: ClientIdArgs => Done;
    58 ReclaimComplete "RECLAIM_COMPLETE" 1: ReclaimCompleteArgs => Done;
    59 Allocate "ALLOCATE" 2: AllocateArgs => Done;
    60 Copy "COPY" 2: CopyArgs<'a> => CopyResult<'a>;
    61 CopyNotify "COPY_NOTIFY" 2: CopyNotifyArgs<'a> => Outcome<CopyNotifyOk<'a>, ()>;
    62 Deallocate "DEALLOCATE" 2: AllocateArgs => Done;
    63 IoAdvise "IO_ADVISE" 2: IoAdviseArgs => Outcome<IoAdviseOk, ()>;
    64 LayoutError "LAYOUTERROR" 2: LayoutErrorArgs<'a> => Done;
    65 LayoutStats "LAYOUTSTATS" 2: LayoutStatsArgs<'a> => Done;
    66 OffloadCancel "OFFLOAD_CANCEL" 2: StateIdArgs => Done;
    67 OffloadStatus "OFFLOAD_STATUS" 2: StateIdArgs => Outcome<OffloadStatusOk<'a>, ()>;
    68 ReadPlus "READ_PLUS" 2: ReadArgs => Outcome<ReadPlusOk, ()>;
    69 Seek "SEEK" 2: SeekArgs => Outcome<SeekOk, ()>;
    70 WriteSame "WRITE_SAME" 2: WriteSameArgs => Outcome<WriteSameOk<'a>, ()>;
    71 Clone "CLONE" 2: CloneArgs => Done;
    72 GetXattr "GETXATTR" 2: XattrArgs<'a> => Outcome<GetXattrOk<'a>, ()>;
    73 SetXattr "SETXATTR" 2: SetXattrArgs<'a> => Outcome<XattrOk, ()>;
    74 ListXattrs "LISTXATTRS" 2: ListXattrsArgs => Outcome<ListXattrsOk<'a>, ()>;
    75 RemoveXattr "REMOVEXATTR" 2: XattrArgs<'a> => Outcome<XattrOk, ()>;
    10044 Illegal "ILLEGAL" 0: () => Done;
}

/// Passes over bulk data of `len` bytes and its padding, seen or not; `None` if the message ends
/// before.
pub fn skip_data(cursor: &mut Cursor<'_>, len: u32) -> Option<()> {
    let len = len as usize;
    cursor.skip(len + padding(len))
}
