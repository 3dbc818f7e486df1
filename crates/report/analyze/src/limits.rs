//! How many of each are distinguished: the bounds of a pass over a trace.

/// Clients that are distinguished.
pub(crate) const CLIENTS_MAX: usize = 65_536;
/// Files that are distinguished: about 105 bytes each.
pub(crate) const FILES_MAX: usize = 4 << 20;
/// Pairs of client and file that are distinguished, of files that several clients use: about 90
/// bytes each. A file with one client needs none.
pub(crate) const PAIRS_MAX: usize = 1 << 20;
/// Users that are distinguished.
pub(crate) const USERS_MAX: usize = 65_536;
/// Kinds of operations (program, version, name), each with three histograms of up to 300 KiB. NFS
/// has 120.
pub(crate) const KINDS_MAX: usize = 256;
