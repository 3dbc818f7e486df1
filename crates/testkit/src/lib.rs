//! What tests need: captures read the slow way, harm to them by seed, oracles, and an NFS client on
//! kernel sockets. Only a dev-dependency of others, but for the program `nfs-drive`.
#![forbid(unsafe_code)]

pub mod capture;
pub mod captures;
pub mod disk;
pub mod drive;
pub mod layers;
pub mod mangle;
pub mod oracle;
pub mod simulator;
pub mod tshark;
pub mod wrap;
