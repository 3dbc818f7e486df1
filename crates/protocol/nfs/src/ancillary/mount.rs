//! The MOUNT protocol, versions 1 (RFC 1094 appendix A) and 2 (X/Open XNFS chapter 8). Version 3 is
//! [`crate::mount`]. Version 1 has no PATHCONF.

use lineside_rpc::xdr::{List, Outcome};

use super::{Named, Summary};
use crate::mount::{DirectoryArgs, Export, Mount};
use crate::v2::Handle;

pub use crate::mount::PROGRAM;

lineside_rpc::procedures! {
    0 Null "NULL": () => ();
    1 Mnt "MNT": DirectoryArgs<'a> => Outcome<Mounted<'a>, ()>;
    2 Dump "DUMP": () => List<'a, Mount<'a>>;
    3 Umnt "UMNT": DirectoryArgs<'a> => ();
    4 UmntAll "UMNTALL": () => ();
    5 Export "EXPORT": () => List<'a, Export<'a>>;
    6 ExportAll "EXPORTALL": () => List<'a, Export<'a>>;
    7 PathConf "PATHCONF": DirectoryArgs<'a> => PathConf;
}

lineside_rpc::xdr! {
    /// The status of fhstatus: an error number of Unix. These have names (XNFS chapter 8).
    pub enum Status {
        OK = 0, "MNT_OK";
        PERM = 1, "MNT_EPERM";
        NOENT = 2, "MNT_ENOENT";
        ACCES = 13, "MNT_EACCES";
        INVAL = 22, "MNT_EINVAL";
    }

    /// The root's handle.
    pub struct Mounted<'a> { handle: Option<Handle<'a>> }

    /// ppathcnf: what pathconf(2) says of the directory. `errors` has a bit for each that it does
    /// not.
    pub struct PathConf {
        links_max: Option<u32>,
        canonical_max: Option<u32>,
        input_max: Option<u32>,
        name_max: Option<u32>,
        path_max: Option<u32>,
        pipe_buffer: Option<u32>,
        disabled_character: Option<u32>,
        unused: Option<u32>,
        errors: Option<[u8; 8]>,
    }
}

/// The specification's name of a status.
pub fn status_name(status: u32) -> Option<&'static str> {
    Status(status).name()
}

impl<'a> Call<'a> {
    pub(crate) fn summarise(&self, summary: &mut Summary<'a>) {
        if let Self::Mnt(args) | Self::Umnt(args) | Self::PathConf(args) = self {
            summary.name = args.directory.map(|path| path.view());
        }
    }
}

impl<'a> Reply<'a> {
    pub(crate) fn summarise(&self, summary: &mut Summary<'a>) {
        match self {
            Self::Mnt(outcome) => {
                let status = outcome.status();
                summary.status = status.map(|status| Named::new(status, status_name));
                let handle = outcome.ok().and_then(|mounted| mounted.handle);
                summary.object = handle.map(|handle| *handle);
            }
            Self::Dump(mounts) => summary.entries = Some(mounts.iter().count() as u32),
            Self::Export(exports) | Self::ExportAll(exports) => {
                summary.entries = Some(exports.iter().count() as u32);
            }
            _ => {}
        }
    }
}
