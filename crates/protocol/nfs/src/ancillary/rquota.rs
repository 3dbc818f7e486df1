//! Remote quotas, versions 1 and 2 (Sun's `rquota.x` and its extension to groups).

use super::{Named, Summary};

pub use super::values::Limits;

/// Its RPC program number.
pub const PROGRAM: u32 = 100_011;

lineside_rpc::xdr! {
    /// gqr_status.
    pub enum Status {
        OK = 1, "Q_OK";
        NOQUOTA = 2, "Q_NOQUOTA";
        EPERM = 3, "Q_EPERM";
    }

    /// rquota.
    pub struct Quota {
        /// Bytes of a block.
        block_size: Option<u32>,
        /// The limits are enforced.
        active: Option<bool>,
        limits: Limits,
    }

    /// getquota_rslt and setquota_rslt.
    pub union QuotaResult {
        1 => Quota(quota: Quota),
        _ => Other,
    }
}

/// The specification's name of a status.
pub fn status_name(status: u32) -> Option<&'static str> {
    Status(status).name()
}

impl QuotaResult {
    fn summarise(&self, summary: &mut Summary<'_>) {
        let status = self.discriminant();
        summary.status = status.map(|status| Named::new(status, status_name));
        if let Self::Quota(quota) = self {
            summary.quota_block_size = quota.block_size;
            summary.quota_active = quota.active;
            summary.quota_limits = Some(quota.limits);
        }
    }
}

/// What both versions have in common, but for the arguments.
macro_rules! procedures {
    () => {
        use crate::ancillary::rquota::QuotaResult;
        use lineside_rpc::xdr::Void;

        lineside_rpc::procedures! {
            0 Null "NULL": () => Void<'a>;
            1 GetQuota "GETQUOTA": GetArgs<'a> => QuotaResult;
            2 GetActiveQuota "GETACTIVEQUOTA": GetArgs<'a> => QuotaResult;
            3 SetQuota "SETQUOTA": SetArgs<'a> => QuotaResult;
            4 SetActiveQuota "SETACTIVEQUOTA": SetArgs<'a> => QuotaResult;
        }

        impl<'a> Call<'a> {
            pub(crate) fn summarise(&self, summary: &mut Summary<'a>) {
                match self {
                    Self::Null(()) => {}
                    Self::GetQuota(args) | Self::GetActiveQuota(args) => args.summarise(summary),
                    Self::SetQuota(args) | Self::SetActiveQuota(args) => args.summarise(summary),
                }
            }
        }

        impl Reply<'_> {
            pub(crate) fn summarise(&self, summary: &mut Summary<'_>) {
                match self {
                    Self::Null(_) => {}
                    Self::GetQuota(result)
                    | Self::GetActiveQuota(result)
                    | Self::SetQuota(result)
                    | Self::SetActiveQuota(result) => result.summarise(summary),
                }
            }
        }
    };
}

/// Version 1: quotas of users.
pub mod v1 {
    use lineside_rpc::xdr::Name;

    use crate::ancillary::Summary;
    use crate::ancillary::rquota::Limits;

    procedures! {}

    lineside_rpc::xdr! {
        /// getquota_args.
        pub struct GetArgs<'a> { path: Option<Name<'a>>, uid: Option<u32> }

        /// setquota_args.
        pub struct SetArgs<'a> {
            command: Option<u32>,
            path: Option<Name<'a>>,
            uid: Option<u32>,
            limits: Limits,
        }
    }

    impl<'a> GetArgs<'a> {
        fn summarise(&self, summary: &mut Summary<'a>) {
            summary.name = self.path.map(|path| path.view());
            summary.quota_id = self.uid;
        }
    }

    impl<'a> SetArgs<'a> {
        fn summarise(&self, summary: &mut Summary<'a>) {
            summary.quota_command = self.command;
            summary.name = self.path.map(|path| path.view());
            summary.quota_id = self.uid;
            summary.quota_limits = Some(self.limits);
        }
    }
}

/// Version 2: quotas of users (type 0) and groups (1).
pub mod v2 {
    use lineside_rpc::xdr::Name;

    use crate::ancillary::Summary;
    use crate::ancillary::rquota::Limits;

    procedures! {}

    lineside_rpc::xdr! {
        /// ext_getquota_args.
        pub struct GetArgs<'a> { path: Option<Name<'a>>, kind: Option<u32>, id: Option<u32> }

        /// ext_setquota_args.
        pub struct SetArgs<'a> {
            command: Option<u32>,
            path: Option<Name<'a>>,
            id: Option<u32>,
            kind: Option<u32>,
            limits: Limits,
        }
    }

    impl<'a> GetArgs<'a> {
        fn summarise(&self, summary: &mut Summary<'a>) {
            summary.name = self.path.map(|path| path.view());
            summary.quota_type = self.kind;
            summary.quota_id = self.id;
        }
    }

    impl<'a> SetArgs<'a> {
        fn summarise(&self, summary: &mut Summary<'a>) {
            summary.quota_command = self.command;
            summary.name = self.path.map(|path| path.view());
            summary.quota_type = self.kind;
            summary.quota_id = self.id;
            summary.quota_limits = Some(self.limits);
        }
    }
}
