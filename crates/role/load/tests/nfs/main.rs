//! NFS clients and servers of this crate.

mod wall;
