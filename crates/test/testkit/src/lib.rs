//! What tests need: captures read the slow way, harm to them by seed, oracles, an NFS client on
//! kernel sockets, and an end of TCP connections without any. Only a dev-dependency of others, but
//! for the programs `nfs-drive` and `tcp-peer`.
#![forbid(unsafe_code)]

pub mod capture;
pub mod captures;
pub mod disk;
pub mod drill;
pub mod drive;
pub mod iperf;
pub mod layers;
pub mod mangle;
pub mod memory;
pub mod oracle;
pub mod peer;
pub mod programs;
pub mod simulator;
pub mod sources;
pub mod steered;
pub mod tshark;
pub mod waiting;
pub mod wrap;
