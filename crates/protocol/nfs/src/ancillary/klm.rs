//! The kernel lock manager's way to its own lock daemon, version 1 (Sun's `klm_prot.x`): locks as
//! in [`super::nlm`], with a process for an owner.

use lineside_rpc::xdr::{Handle, Name, Void};

use super::{Named, Summary};

/// Its RPC program number.
pub const PROGRAM: u32 = 100_020;
/// The version described here.
pub const VERSION: u32 = 1;

lineside_rpc::procedures! {
    0 Null "NULL": () => Void<'a>;
    1 Test "TEST": TestArgs<'a> => TestReply;
    2 Lock "LOCK": LockArgs<'a> => LockResult;
    3 Cancel "CANCEL": LockArgs<'a> => LockResult;
    4 Unlock "UNLOCK": ByteLock<'a> => LockResult;
}

lineside_rpc::xdr! {
    /// klm_stats.
    pub enum Status {
        GRANTED = 0, "KLM_GRANTED";
        DENIED = 1, "KLM_DENIED";
        DENIED_NOLOCKS = 2, "KLM_DENIED_NOLOCKS";
        WORKING = 3, "KLM_WORKING";
    }

    /// klm_lock.
    pub struct ByteLock<'a> {
        server: Option<Name<'a>>,
        file: Option<Handle<'a>>,
        pid: Option<u32>,
        offset: Option<u32>,
        len: Option<u32>,
    }

    /// klm_testargs.
    pub struct TestArgs<'a> { exclusive: Option<bool>, lock: ByteLock<'a> }

    /// klm_lockargs.
    pub struct LockArgs<'a> { block: Option<bool>, exclusive: Option<bool>, lock: ByteLock<'a> }

    /// klm_holder: the owner of a conflicting lock.
    pub struct Holder {
        exclusive: Option<bool>,
        svid: Option<u32>,
        offset: Option<u32>,
        len: Option<u32>,
    }

    /// klm_testrply.
    pub union TestReply {
        1 => Denied(holder: Holder),
        _ => Other,
    }

    /// klm_stat.
    pub struct LockResult { status: Option<Status> }
}

/// The specification's name of a status.
pub fn status_name(status: u32) -> Option<&'static str> {
    Status(status).name()
}

impl<'a> ByteLock<'a> {
    fn summarise(&self, summary: &mut Summary<'a>) {
        summary.name = self.server.map(|server| server.view());
        summary.file = self.file.map(|handle| handle.view());
        summary.svid = self.pid;
        summary.offset = self.offset.map(u64::from);
        summary.count = self.len.map(u64::from);
    }
}

impl<'a> Call<'a> {
    pub(crate) fn summarise(&self, summary: &mut Summary<'a>) {
        match self {
            Self::Null(()) => {}
            Self::Test(args) => {
                args.lock.summarise(summary);
                summary.exclusive = args.exclusive;
            }
            Self::Lock(args) | Self::Cancel(args) => {
                args.lock.summarise(summary);
                summary.block = args.block;
                summary.exclusive = args.exclusive;
            }
            Self::Unlock(lock) => lock.summarise(summary),
        }
    }
}

impl Reply<'_> {
    pub(crate) fn summarise(&self, summary: &mut Summary<'_>) {
        let status = match self {
            Self::Null(_) => None,
            Self::Test(reply) => {
                if let TestReply::Denied(holder) = reply {
                    summary.exclusive = holder.exclusive;
                    summary.svid = holder.svid;
                    summary.offset = holder.offset.map(u64::from);
                    summary.count = holder.len.map(u64::from);
                }
                reply.discriminant()
            }
            Self::Lock(result) | Self::Cancel(result) | Self::Unlock(result) => {
                result.status.map(|status| status.0)
            }
        };
        summary.status = status.map(|status| Named::new(status, status_name));
    }
}
