//! Clients and servers of datagrams.

mod wall;
