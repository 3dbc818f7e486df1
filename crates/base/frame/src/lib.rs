//! Frames: bytes of the wire in slots of a pool, and how to keep and read them without copying.
//!
//! ```text
//!  Pool ──take──► BlockWriter ──take(len)──► Frame ──share──► FrameRef ──range──► Range (held)
//!    ▲   a port reads into it     exclusive, mutable    counted, read-only            │ spill
//!    └───────────── a block is free again when nothing refers to it ◄────────────────┘
//! ```
//!
//! * A [`Frame`] is the exclusive handle of its bytes; [`Frame::share`] turns it into counted,
//!   read-only references. Frames of one block never overlap.
//! * A port that shares memory with the kernel hands out frames of [`Slots`] in the same way.
//! * [`Copies`] are frames in memory that is used again, for code that must keep them for long.
//! * A [`Cutter`] gives frames of one's own making, to be written and sent.
//! * A pool is for frames in flight. Code that must keep bytes holds a [`Range`], which pins its
//!   block until it is [spilled](Range::spill) into memory of its own.
//! * A stream or a datagram is a chain of pieces, some of them holes, under a [`Cursor`]; an XDR
//!   field is read where it lies.
//! * [`xxh3`] is the checksum of a block of file data, and [`prefetch`] asks for a cache line: they
//!   are here because code for a processor's instructions needs `unsafe`.
//!   [`block`] makes a block for a checksum.

pub mod block;
mod cursor;
mod pool;
mod prefetch;
mod range;
pub mod xxh3;

pub use cursor::{Cursor, Fault, Piece, View};
pub use pool::{
    BlockWriter, Burst, Copies, Cutter, Descriptor, Frame, FrameRef, LinkType, Pool, SharedBurst,
    Slots, give_back,
};
pub use prefetch::prefetch;
pub use range::{Cause, Chunk, Range};
