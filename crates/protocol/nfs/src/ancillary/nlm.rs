//! The network lock manager: versions 1 to 3 (X/Open XNFS chapter 10) with offsets of 32 bits,
//! version 4 (RFC 1813 appendix II) with 64.
//!
//! A server answers a `*_MSG` call by a call of its own, `*_RES`, to the client; GRANTED and
//! GRANTED_MSG too go from server to client. None of `*_MSG` and `*_RES` needs an RPC reply.

use lineside_rpc::xdr::{Handle, Name, Opaque};

use super::Summary;

pub use super::values::{Access, DenyMode};

/// Its RPC program number.
pub const PROGRAM: u32 = 100_021;

/// netobj: what the lock manager that made it knows by it, at most 1024 bytes.
pub type NetObject<'a> = Opaque<'a, 1024>;

lineside_rpc::xdr! {
    /// nlm_share: a DOS-like share of a file.
    pub struct Share<'a> {
        caller: Option<Name<'a>>,
        file: Option<Handle<'a>>,
        owner: Option<NetObject<'a>>,
        mode: Option<DenyMode>,
        access: Option<Access>,
    }

    /// nlm_shareargs.
    pub struct ShareArgs<'a> {
        cookie: Option<NetObject<'a>>,
        share: Share<'a>,
        reclaim: Option<bool>,
    }

    /// What the status monitor of the own host is asked to give back when another host has a new
    /// state (XNFS chapter 11, `status`). Not in the specification of NLM, but lock managers take
    /// it as procedure 16.
    pub struct Reboot<'a> {
        host: Option<Name<'a>>,
        state: Option<u32>,
        private: Option<[u8; 16]>,
    }

    /// nlm_notify: all locks and shares of a host are given up.
    pub struct Notify<'a> { host: Option<Name<'a>>, state: Option<u32> }
}

/// The procedures and types of a version, whose offsets and lengths are `$offset`.
macro_rules! nlm {
    ($offset:ty, $($status:tt)*) => {
        use crate::ancillary::nlm::{NetObject, Notify, Reboot, ShareArgs};
        use crate::ancillary::{Named, Summary};
        use lineside_rpc::xdr::{Handle, Name};

        lineside_rpc::procedures! {
            0 Null "NULL": () => ();
            1 Test "TEST": TestArgs<'a> => TestResult<'a>;
            2 Lock "LOCK": LockArgs<'a> => LockResult<'a>;
            3 Cancel "CANCEL": CancelArgs<'a> => LockResult<'a>;
            4 Unlock "UNLOCK": UnlockArgs<'a> => LockResult<'a>;
            5 Granted "GRANTED": TestArgs<'a> => LockResult<'a>;
            6 TestMsg "TEST_MSG": TestArgs<'a> => ();
            7 LockMsg "LOCK_MSG": LockArgs<'a> => ();
            8 CancelMsg "CANCEL_MSG": CancelArgs<'a> => ();
            9 UnlockMsg "UNLOCK_MSG": UnlockArgs<'a> => ();
            10 GrantedMsg "GRANTED_MSG": TestArgs<'a> => ();
            11 TestRes "TEST_RES": TestResult<'a> => ();
            12 LockRes "LOCK_RES": LockResult<'a> => ();
            13 CancelRes "CANCEL_RES": LockResult<'a> => ();
            14 UnlockRes "UNLOCK_RES": LockResult<'a> => ();
            15 GrantedRes "GRANTED_RES": LockResult<'a> => ();
            16 SmNotify "SM_NOTIFY": Reboot<'a> => ();
            20 Share "SHARE": ShareArgs<'a> => ShareResult<'a>;
            21 Unshare "UNSHARE": ShareArgs<'a> => ShareResult<'a>;
            22 NmLock "NM_LOCK": LockArgs<'a> => LockResult<'a>;
            23 FreeAll "FREE_ALL": Notify<'a> => ();
        }

        lineside_rpc::xdr! {
            /// nlm_stats.
            pub enum Status { $($status)* }

            /// nlm_lock: whose lock, and on which bytes. A length of 0 reaches to the end of the
            /// file.
            pub struct ByteLock<'a> {
                caller: Option<Name<'a>>,
                file: Option<Handle<'a>>,
                owner: Option<NetObject<'a>>,
                /// The owner's process on the caller.
                svid: Option<u32>,
                offset: Option<$offset>,
                len: Option<$offset>,
            }

            /// nlm_testargs.
            pub struct TestArgs<'a> {
                cookie: Option<NetObject<'a>>,
                exclusive: Option<bool>,
                lock: ByteLock<'a>,
            }

            /// nlm_lockargs.
            pub struct LockArgs<'a> {
                cookie: Option<NetObject<'a>>,
                /// The caller waits for the lock; the server reports it by GRANTED.
                block: Option<bool>,
                exclusive: Option<bool>,
                lock: ByteLock<'a>,
                /// The lock was held before the server restarted.
                reclaim: Option<bool>,
                /// The state number of the caller's status monitor.
                state: Option<u32>,
            }

            /// nlm_cancargs.
            pub struct CancelArgs<'a> {
                cookie: Option<NetObject<'a>>,
                block: Option<bool>,
                exclusive: Option<bool>,
                lock: ByteLock<'a>,
            }

            /// nlm_unlockargs.
            pub struct UnlockArgs<'a> { cookie: Option<NetObject<'a>>, lock: ByteLock<'a> }

            /// nlm_holder: the owner of a conflicting lock.
            pub struct Holder<'a> {
                exclusive: Option<bool>,
                svid: Option<u32>,
                owner: Option<NetObject<'a>>,
                offset: Option<$offset>,
                len: Option<$offset>,
            }

            /// nlm_testrply.
            pub union TestReply<'a> {
                1 => Denied(holder: Holder<'a>),
                _ => Other,
            }

            /// nlm_testres.
            pub struct TestResult<'a> { cookie: Option<NetObject<'a>>, reply: TestReply<'a> }

            /// nlm_res.
            pub struct LockResult<'a> { cookie: Option<NetObject<'a>>, status: Option<Status> }

            /// nlm_shareres.
            pub struct ShareResult<'a> {
                cookie: Option<NetObject<'a>>,
                status: Option<Status>,
                sequence: Option<u32>,
            }
        }

        /// The specification's name of a status.
        pub fn status_name(status: u32) -> Option<&'static str> {
            Status(status).name()
        }

        impl<'a> ByteLock<'a> {
            fn summarise(&self, cookie: Option<NetObject<'a>>, summary: &mut Summary<'a>) {
                summary.cookie = cookie.map(|cookie| cookie.view());
                summary.name = self.caller.map(|name| name.view());
                summary.file = self.file.map(|handle| handle.view());
                summary.lock_owner = self.owner.map(|owner| owner.view());
                summary.svid = self.svid;
                summary.offset = self.offset.map(u64::from);
                summary.count = self.len.map(u64::from);
            }
        }

        impl<'a> LockArgs<'a> {
            fn summarise(&self, summary: &mut Summary<'a>) {
                self.lock.summarise(self.cookie, summary);
                summary.block = self.block;
                summary.exclusive = self.exclusive;
                summary.reclaim = self.reclaim;
                summary.state = self.state;
            }
        }

        impl<'a> TestResult<'a> {
            fn summarise(&self, summary: &mut Summary<'a>) {
                summary.cookie = self.cookie.map(|cookie| cookie.view());
                summary.status = self.reply.discriminant().map(|status| Named::new(status, status_name));
                if let TestReply::Denied(holder) = &self.reply {
                    summary.exclusive = holder.exclusive;
                    summary.svid = holder.svid;
                    summary.lock_owner = holder.owner.map(|owner| owner.view());
                    summary.offset = holder.offset.map(u64::from);
                    summary.count = holder.len.map(u64::from);
                }
            }
        }

        impl<'a> LockResult<'a> {
            fn summarise(&self, summary: &mut Summary<'a>) {
                summary.cookie = self.cookie.map(|cookie| cookie.view());
                summary.status = self.status.map(|status| Named::new(status.0, status_name));
            }
        }

        impl<'a> Call<'a> {
            pub(crate) fn summarise(&self, summary: &mut Summary<'a>) {
                match self {
                    Self::Null(()) => {}
                    Self::Test(args)
                    | Self::TestMsg(args)
                    | Self::Granted(args)
                    | Self::GrantedMsg(args) => {
                        args.lock.summarise(args.cookie, summary);
                        summary.exclusive = args.exclusive;
                    }
                    Self::Lock(args) | Self::LockMsg(args) | Self::NmLock(args) => args.summarise(summary),
                    Self::Cancel(args) | Self::CancelMsg(args) => {
                        args.lock.summarise(args.cookie, summary);
                        summary.block = args.block;
                        summary.exclusive = args.exclusive;
                    }
                    Self::Unlock(args) | Self::UnlockMsg(args) => args.lock.summarise(args.cookie, summary),
                    Self::TestRes(result) => result.summarise(summary),
                    Self::LockRes(result)
                    | Self::CancelRes(result)
                    | Self::UnlockRes(result)
                    | Self::GrantedRes(result) => result.summarise(summary),
                    Self::Share(args) | Self::Unshare(args) => args.summarise(summary),
                    Self::SmNotify(reboot) => {
                        summary.name = reboot.host.map(|host| host.view());
                        summary.state = reboot.state;
                    }
                    Self::FreeAll(notify) => {
                        summary.name = notify.host.map(|host| host.view());
                        summary.state = notify.state;
                    }
                }
            }
        }

        impl<'a> Reply<'a> {
            pub(crate) fn summarise(&self, summary: &mut Summary<'a>) {
                match self {
                    Self::Test(result) => result.summarise(summary),
                    Self::Lock(result)
                    | Self::Cancel(result)
                    | Self::Unlock(result)
                    | Self::Granted(result)
                    | Self::NmLock(result) => result.summarise(summary),
                    Self::Share(result) | Self::Unshare(result) => {
                        summary.cookie = result.cookie.map(|cookie| cookie.view());
                        summary.status = result.status.map(|status| Named::new(status.0, status_name));
                        summary.sequence = result.sequence;
                    }
                    _ => {}
                }
            }
        }
    };
}

/// Versions 1 to 3. The procedures from SHARE on came with version 3.
pub mod v1 {
    nlm! { u32,
        GRANTED = 0, "LCK_GRANTED";
        DENIED = 1, "LCK_DENIED";
        DENIED_NOLOCKS = 2, "LCK_DENIED_NOLOCKS";
        BLOCKED = 3, "LCK_BLOCKED";
        DENIED_GRACE_PERIOD = 4, "LCK_DENIED_GRACE_PERIOD";
        DEADLCK = 5, "LCK_DEADLCK";
    }
}

/// Version 4.
pub mod v4 {
    nlm! { u64,
        GRANTED = 0, "NLM4_GRANTED";
        DENIED = 1, "NLM4_DENIED";
        DENIED_NOLOCKS = 2, "NLM4_DENIED_NOLOCKS";
        BLOCKED = 3, "NLM4_BLOCKED";
        DENIED_GRACE_PERIOD = 4, "NLM4_DENIED_GRACE_PERIOD";
        DEADLCK = 5, "NLM4_DEADLCK";
        ROFS = 6, "NLM4_ROFS";
        STALE_FH = 7, "NLM4_STALE_FH";
        FBIG = 8, "NLM4_FBIG";
        FAILED = 9, "NLM4_FAILED";
    }
}

impl<'a> ShareArgs<'a> {
    fn summarise(&self, summary: &mut Summary<'a>) {
        summary.cookie = self.cookie.map(|cookie| cookie.view());
        summary.name = self.share.caller.map(|name| name.view());
        summary.file = self.share.file.map(|handle| handle.view());
        summary.lock_owner = self.share.owner.map(|owner| owner.view());
        summary.share_mode = self.share.mode;
        summary.share_access = self.share.access;
        summary.reclaim = self.reclaim;
    }
}
