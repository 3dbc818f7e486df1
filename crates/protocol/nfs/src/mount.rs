//! The MOUNT protocol, version 3 (RFC 1813 appendix I).

use lineside_rpc::message::Flavor;
use lineside_rpc::xdr::{Array, Handle, List, Name, Outcome};

use crate::ancillary::summary::{Named, Summary};

/// Its RPC program number.
pub const PROGRAM: u32 = 100_005;
/// The version described here.
pub const VERSION: u32 = 3;

lineside_rpc::procedures! {
    0 Null "NULL": () => ();
    1 Mnt "MNT": DirectoryArgs<'a> => Outcome<Mounted<'a>, ()>;
    2 Dump "DUMP": () => List<'a, Mount<'a>>;
    3 Umnt "UMNT": DirectoryArgs<'a> => ();
    4 UmntAll "UMNTALL": () => ();
    5 Export "EXPORT": () => List<'a, Export<'a>>;
}

lineside_rpc::xdr! {
    /// mountstat3 (RFC 1813 appendix I, 5.1.5).
    pub enum Status {
        OK = 0, "MNT3_OK";
        PERM = 1, "MNT3ERR_PERM";
        NOENT = 2, "MNT3ERR_NOENT";
        IO = 5, "MNT3ERR_IO";
        ACCES = 13, "MNT3ERR_ACCES";
        NOTDIR = 20, "MNT3ERR_NOTDIR";
        INVAL = 22, "MNT3ERR_INVAL";
        NAMETOOLONG = 63, "MNT3ERR_NAMETOOLONG";
        NOTSUPP = 10004, "MNT3ERR_NOTSUPP";
        SERVERFAULT = 10006, "MNT3ERR_SERVERFAULT";
    }

    /// The path that is mounted or unmounted.
    pub struct DirectoryArgs<'a> { directory: Option<Name<'a>> }

    /// mountres3_ok: the root's handle, and the flavors with which it may be used.
    pub struct Mounted<'a> { handle: Option<Handle<'a>>, flavors: Array<'a, Flavor, 1024> }

    /// mountbody: one client's mount.
    pub struct Mount<'a> { host: Option<Name<'a>>, directory: Option<Name<'a>> }

    /// exportnode: a path, and the hosts and groups that may mount it (none listed: all may).
    pub struct Export<'a> { directory: Option<Name<'a>>, groups: List<'a, Option<Name<'a>>> }
}

/// The RFC's name of a status.
pub fn status_name(status: u32) -> Option<&'static str> {
    Status(status).name()
}

impl<'a> Call<'a> {
    pub(crate) fn summarise(&self, summary: &mut Summary<'a>) {
        if let Self::Mnt(args) | Self::Umnt(args) = self {
            summary.name = args.directory.map(|path| path.view());
        }
    }
}

impl<'a> Reply<'a> {
    /// The status, if this procedure has one and it was seen.
    pub fn status(&self) -> Option<u32> {
        match self {
            Self::Mnt(outcome) => outcome.status(),
            _ => None,
        }
    }

    pub(crate) fn summarise(&self, summary: &mut Summary<'a>) {
        summary.status = self.status().map(|status| Named::new(status, status_name));
        match self {
            Self::Mnt(Outcome::Ok(mounted)) => {
                summary.object = mounted.handle.map(|handle| handle.view());
                summary.flavors = Some(mounted.flavors);
            }
            Self::Dump(mounts) => summary.entries = Some(mounts.iter().count() as u32),
            Self::Export(exports) => summary.entries = Some(exports.iter().count() as u32),
            _ => {}
        }
    }
}
