//! The calls of a captured NFS workload, made again on another server.
//!
//! ```text
//!  Script: heads and bodies of calls ─► Walk ─► next ─► request ─► bytes (nfs-client)
//!          (of a plan and a trace)  ▲               ▲
//!                                   │            Tables: handles, cookies, state ids of the server
//!                                   └─ on_answer ───┴── replies
//! ```
//!
//! A [`Script`] is a workload as its trace shows it. A [`Replay`] walks it: it gives a call when
//! everything that the call waits for is there, with the names that the other server has for what
//! the call is about. Those come with the replies. Every call is given once, or is left out, with
//! the reason counted.
//!
//! It works below one directory: what the source's clients mounted is that directory, or, of
//! several mounts, a directory in it each. A `..` does not lead out of these, and a symbolic link
//! that is made there holds no path that does.
//!
//! Not here: sockets, clocks, files. The client engine opens sessions, and numbers owners and
//! slots.
#![forbid(unsafe_code)]

mod attributes;
mod beside;
mod call;
mod choose;
mod code;
mod content;
mod figures;
mod lateness;
mod nfs3;
mod nfs4;
mod own;
mod replay;
mod script;
mod shelf;
mod tables;
mod walk;
mod writer;

#[cfg(test)]
mod tests;

pub use attributes::compared;
pub use call::{
    Call, ConnectionId, Facts, FileId, LeftOut, Operation, Path, Procedure, Program, Why,
};
pub use content::fill;
pub use figures::{Differing, Figures, Repairs};
pub use lateness::Lateness;
pub use lineside_plan::CallIndex;
pub use own::{Own, Shown};
pub use replay::{Replay, Settings};
pub use script::{Edge, Head, Heads, Script, Survey, Waits};
pub use shelf::{Appender, Forward, Shelf};
pub use tables::Lack;
pub use walk::{Pace, WINDOW_CALLS, Walk};
pub use writer::Writer;
