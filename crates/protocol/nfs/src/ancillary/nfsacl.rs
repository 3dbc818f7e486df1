//! Access control lists beside NFS, versions 2 and 3 (Sun's `nfs_acl.x`), each with the statuses,
//! handles and attributes of the NFS version with its number.

use lineside_rpc::xdr::Array;

use super::Summary;

/// Its RPC program number.
pub const PROGRAM: u32 = 100_227;

lineside_rpc::xdr! {
    /// aclent: the permissions of a user or group.
    pub scalar struct Entry {
        /// Bits: 1 owner, 2 user, 4 owning group, 8 group, 16 mask, 32 others, 0x1000 a default.
        kind: u32,
        /// The user or group, if it is of one.
        id: u32,
        /// Bits: 4 read, 2 write, 1 execute.
        permissions: u32,
    }

    /// secattr and vsecattr.
    pub struct Lists<'a> {
        /// What is asked for or meant. Bits: 1 the list, 2 its length, 4 the default list, 8 its
        /// length.
        mask: Option<u32>,
        /// How many entries the list has, those included that are not here.
        count: Option<u32>,
        entries: Array<'a, Entry, 1024>,
        default_count: Option<u32>,
        default_entries: Array<'a, Entry, 1024>,
    }
}

impl Lists<'_> {
    fn summarise(&self, summary: &mut Summary<'_>) {
        summary.acl_mask = self.mask;
        summary.acl_entries = self.entries.count();
        summary.acl_default_entries = self.default_entries.count();
    }
}

/// Version 2.
pub mod v2 {
    use lineside_rpc::xdr::Outcome;

    use crate::ancillary::nfsacl::Lists;
    use crate::ancillary::{Named, Summary};
    use crate::v2::{Attributes, FileArgs, Handle, status_name};

    lineside_rpc::procedures! {
        0 Null "NULL": () => ();
        1 GetAcl "GETACL": GetAclArgs<'a> => Outcome<GetAclOk<'a>, ()>;
        2 SetAcl "SETACL": SetAclArgs<'a> => Outcome<Attributes, ()>;
        3 GetAttr "GETATTR": FileArgs<'a> => Outcome<Attributes, ()>;
        4 Access "ACCESS": AccessArgs<'a> => Outcome<AccessOk, ()>;
        5 GetXattrDir "GETXATTRDIR": GetXattrDirArgs<'a> => Outcome<GetXattrDirOk<'a>, ()>;
    }

    lineside_rpc::xdr! {
        /// GETACL2args.
        pub struct GetAclArgs<'a> { file: Option<Handle<'a>>, mask: Option<u32> }

        /// GETACL2resok.
        pub struct GetAclOk<'a> { attributes: Attributes, lists: Lists<'a> }

        /// SETACL2args.
        pub struct SetAclArgs<'a> { file: Option<Handle<'a>>, lists: Lists<'a> }

        /// ACCESS2args, with the bits of version 3's ACCESS.
        pub struct AccessArgs<'a> { file: Option<Handle<'a>>, access: Option<u32> }

        /// ACCESS2resok.
        pub struct AccessOk { attributes: Attributes, access: Option<u32> }

        /// GETXATTRDIR2args: `create` the directory if there is none.
        pub struct GetXattrDirArgs<'a> { file: Option<Handle<'a>>, create: Option<bool> }

        /// GETXATTRDIR2resok.
        pub struct GetXattrDirOk<'a> { directory: Option<Handle<'a>>, attributes: Attributes }
    }

    impl<'a> Call<'a> {
        pub(crate) fn summarise(&self, summary: &mut Summary<'a>) {
            let file = match self {
                Self::Null(()) => return,
                Self::GetAcl(args) => {
                    summary.acl_mask = args.mask;
                    args.file
                }
                Self::SetAcl(args) => {
                    args.lists.summarise(summary);
                    args.file
                }
                Self::GetAttr(args) => args.file,
                Self::Access(args) => {
                    summary.access = args.access;
                    args.file
                }
                Self::GetXattrDir(args) => {
                    summary.create = args.create;
                    args.file
                }
            };
            summary.file = file.map(|handle| *handle);
        }
    }

    impl<'a> Reply<'a> {
        pub(crate) fn summarise(&self, summary: &mut Summary<'a>) {
            let (status, attributes) = match self {
                Self::Null(()) => return,
                Self::GetAcl(outcome) => {
                    if let Some(ok) = outcome.ok() {
                        ok.lists.summarise(summary);
                    }
                    (outcome.status(), outcome.ok().map(|ok| &ok.attributes))
                }
                Self::SetAcl(outcome) | Self::GetAttr(outcome) => (outcome.status(), outcome.ok()),
                Self::Access(outcome) => {
                    summary.access = outcome.ok().and_then(|ok| ok.access);
                    (outcome.status(), outcome.ok().map(|ok| &ok.attributes))
                }
                Self::GetXattrDir(outcome) => {
                    let handle = outcome.ok().and_then(|ok| ok.directory);
                    summary.object = handle.map(|handle| *handle);
                    (outcome.status(), outcome.ok().map(|ok| &ok.attributes))
                }
            };
            summary.status = status.map(|status| Named::new(status, status_name));
            summary.attributes = attributes.map(Into::into);
        }
    }
}

/// Version 3.
pub mod v3 {
    use lineside_rpc::xdr::{Handle, Optional, Outcome};

    use crate::ancillary::nfsacl::Lists;
    use crate::ancillary::{Named, Summary};
    use crate::v3::{ObjectAttributes, PostOpAttributes, status_name};

    lineside_rpc::procedures! {
        0 Null "NULL": () => ();
        1 GetAcl "GETACL": GetAclArgs<'a> => Outcome<GetAclOk<'a>, ObjectAttributes<'a>>;
        2 SetAcl "SETACL": SetAclArgs<'a> => Outcome<ObjectAttributes<'a>, ObjectAttributes<'a>>;
        3 GetXattrDir "GETXATTRDIR": GetXattrDirArgs<'a> => Outcome<GetXattrDirOk<'a>, ()>;
    }

    lineside_rpc::xdr! {
        /// GETACL3args.
        pub struct GetAclArgs<'a> { file: Option<Handle<'a>>, mask: Option<u32> }

        /// GETACL3resok.
        pub struct GetAclOk<'a> { attributes: PostOpAttributes<'a>, lists: Lists<'a> }

        /// SETACL3args.
        pub struct SetAclArgs<'a> { file: Option<Handle<'a>>, lists: Lists<'a> }

        /// GETXATTRDIR3args: `create` the directory if there is none.
        pub struct GetXattrDirArgs<'a> { file: Option<Handle<'a>>, create: Option<bool> }

        /// GETXATTRDIR3resok.
        pub struct GetXattrDirOk<'a> { directory: Option<Handle<'a>>, attributes: PostOpAttributes<'a> }
    }

    impl<'a> Call<'a> {
        pub(crate) fn summarise(&self, summary: &mut Summary<'a>) {
            let file = match self {
                Self::Null(()) => return,
                Self::GetAcl(args) => {
                    summary.acl_mask = args.mask;
                    args.file
                }
                Self::SetAcl(args) => {
                    args.lists.summarise(summary);
                    args.file
                }
                Self::GetXattrDir(args) => {
                    summary.create = args.create;
                    args.file
                }
            };
            summary.file = file.map(|handle| handle.view());
        }
    }

    impl<'a> Reply<'a> {
        pub(crate) fn summarise(&self, summary: &mut Summary<'a>) {
            let (status, attributes) = match self {
                Self::Null(()) => return,
                Self::GetAcl(outcome) => {
                    let attributes = match outcome {
                        Outcome::Unread => Optional::Unread,
                        Outcome::Ok(ok) => {
                            ok.lists.summarise(summary);
                            ok.attributes
                        }
                        Outcome::Fail(_, fail) => fail.attributes,
                    };
                    (outcome.status(), attributes)
                }
                Self::SetAcl(outcome) => {
                    let attributes = match outcome {
                        Outcome::Unread => Optional::Unread,
                        Outcome::Ok(body) | Outcome::Fail(_, body) => body.attributes,
                    };
                    (outcome.status(), attributes)
                }
                Self::GetXattrDir(outcome) => {
                    let handle = outcome.ok().and_then(|ok| ok.directory);
                    summary.object = handle.map(|handle| handle.view());
                    let attributes = outcome.ok().map(|ok| ok.attributes);
                    (outcome.status(), attributes.unwrap_or_default())
                }
            };
            summary.status = status.map(|status| Named::new(status, status_name));
            summary.attributes = attributes.present().map(|attributes| attributes.get());
        }
    }
}
