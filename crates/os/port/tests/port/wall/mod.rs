//! Ports of real devices: what depends on network namespaces and on the clock.

mod checksum_offload;
mod flow_traffic;
mod flows;
mod shared;
mod steering;
mod wire;
mod xdp;
