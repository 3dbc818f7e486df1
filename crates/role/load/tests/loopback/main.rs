//! Clients and servers of this crate over sockets of the kernel.

mod wall;
