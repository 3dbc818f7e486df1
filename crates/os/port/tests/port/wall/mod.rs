//! Ports of real devices: what depends on network namespaces and on the clock.

mod flow_traffic;
mod flows;
mod shared;
mod steering;
mod unfinished;
mod wire;
mod xdp;
