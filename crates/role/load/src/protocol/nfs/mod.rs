//! NFS version 3 over TCP (RFC 1813; RFC 5531, 11): a client of any server, and a server of files
//! that need no disk.
//!
//! ```text
//!  prepare ─► Tree: handles, sizes ─► Nfs: a seed and a number give a call ─► records ─► NfsServer
//!                                        reply by xid, in any order ◄─────── records ◄─┘   Store
//! ```
//!
//! * A client knows the files' handles before the run: [`prepare()`] mounts the export, and finds
//!   or makes a tree. No request of a run changes which files there are.
//! * A call's xid is the low 32 bits of the request's number.
//! * Not here: NFSv4, UDP, Kerberos, locks.

mod call;
mod client;
mod content;
mod definition;
mod mix;
mod preparation;
mod prepare;
mod preparer;
mod rows;
mod server;
mod store;
mod tree;
mod work;

pub use client::{Nfs, NfsReader, status_name};
pub(super) use definition::NFS;
pub use mix::{MixError, NAMES, NfsMix, NfsRequest, Offsets, PROCEDURES, Shares};
pub use preparation::{
    DIRECTORIES_MAX, FILES_MAX, Files, MountAt, NFS_PORT, PORTMAP_PORT, Preparation, PrepareError,
};
pub use prepare::{prepare, preparing};
pub use server::{NfsContent, NfsServer, NfsServerReader};
pub use store::{Store, StoreError, StoreSettings};
pub use tree::Tree;
