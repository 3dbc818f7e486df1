//! What clients say and servers answer, behind one trait each. A protocol keeps what it has read of
//! an unfinished message and nothing else: when a request is meant to leave, and its outcome,
//! is the client's business, and how bytes travel the transport's.

mod bulk;
mod datagram;
mod definition;
mod dns;
mod echo;
mod http;
mod memcached;
pub mod nfs;
mod registry;
mod stamped;
mod stream;

pub use crate::one_way::SinkFigures;
pub use bulk::{Sink, SinkServer, Source, SourceServer};
pub use datagram::{DatagramClient, DatagramServer, Heard, Numbered};
pub use definition::{
    Carrier, Key, KeyKind, Moves, Preset, PresetValue, Protocol, Service, ServiceWords,
};
pub use dns::{Dns, DnsError, DnsServer};
pub use echo::{Echo, EchoServer};
pub use http::{Http, HttpError, HttpServer};
pub use memcached::{Memcached, MemcachedServer, Mix};
pub use nfs::{Nfs, NfsMix, NfsServer, Shares as NfsShares};
pub use registry::{
    PRESETS, PROTOCOLS, keys, listed, must_fit, preset, protocol, resolve, services,
};
pub use stamped::{
    EchoDatagrams, FlowFigures, STAMPED_BYTES_MIN, SinkDatagrams, Stamped, StampedDatagrams,
    StampedHeader, Verb,
};
pub use stream::{Answer, Answers, Broken, Client, Named, Outstanding, Request, Server};
