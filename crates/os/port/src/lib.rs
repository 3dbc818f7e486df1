//! Where frames come from and go to: interfaces, and capture files, read, merged and written.
//!
//! ```text
//!  file, pipe ─read(2)─► block of a pool ─cut─► Burst          CaptureReader, one for each input
//!       └─► thread: gzip, zstd … ─►┘                ├─► Merge ─► Burst, by stamps, with ordinals
//!  interface ─► packet ring, UMEM ─cut─► Burst ─────┘           live: a port for each queue
//!                    Burst ─encode─► chunk ─► thread ─► file   CaptureWriter
//! ```
//!
//! * Frames are cut where `read(2)` or the kernel put them; only a record that straddles two blocks
//!   is moved.
//! * A file is data: whatever it holds, reading it neither panics nor takes more memory than the
//!   [`PoolConfig`] and a decompressor's window, both drawn on the budget.
//! * A fault never swallows what lies before it: its frames come first, then the error.
//! * Not here: what is in a frame (`lineside-wire`), and what is done with it.

mod blocks;
mod encode;
mod erf;
mod error;
mod folder;
mod foreign;
pub mod live;
mod merge;
mod output;
mod pcap;
mod pcapng;
mod reader;
mod record;
mod recorded;
mod rotation;
mod source;
mod tail;
mod watched;
mod wrapper;
mod writer;

use std::os::fd::BorrowedFd;

use lineside_frame::{Burst, LinkType};

pub use blocks::PoolConfig;
pub use error::{Place, PortError};
pub use folder::{FolderFile, list, list_held, paths};
pub use merge::{Merge, MergeInput, Totals};
pub use reader::CaptureReader;
pub use recorded::Recorded;
pub use rotation::{Rotation, RotationError};
pub use tail::Tail;
pub use wrapper::Wrapper;
pub use writer::{CaptureWriter, WriterConfig};

/// The longest frame that a capture file may hold: libpcap's `MAXIMUM_SNAPLEN`.
pub const FRAME_LEN_MAX: usize = 262_144;

/// Bytes of a block into which a capture file is read.
///
/// It bounds a record with its headers and options. Two blocks take turns when frames are not held:
/// small enough to stay in a second-level cache, large enough that a call of `read(2)` costs
/// nothing.
pub const BLOCK_LEN: usize = 512 * 1024;

/// A place where frames come from or go to.
///
/// What it can do follows from the traits besides: a file is read by [`Receive`] or written by
/// [`Transmit`], an interface does both and is [`Live`]. No method that a port in front of another
/// one must forward has a default: else it does not compile.
pub trait Port: Send {
    /// What is known of each input or output behind this port, in their order.
    fn facts(&self) -> Vec<&Facts>;

    /// What is known of one of them. To list ten thousand for each of them takes a second.
    fn facts_of(&self, input: usize) -> Option<&Facts> {
        self.facts().into_iter().nth(input)
    }
}

/// A port from which frames come.
pub trait Receive: Port {
    /// Appends at most `max` frames to `burst`. A file waits until there is one, but less than a
    /// second; a live port does not wait: it returns [`Received::Idle`], and a caller that has
    /// nothing else to do polls [`wake_on`](Live::wake_on).
    ///
    /// After an error the port is at its end, and returns [`Received::End`].
    fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError>;

    /// Ends the receiving. `ahead` are frames that were received from this port and not looked at:
    /// they count as never received, those of a live port as [`unread`](LiveFacts::unread).
    fn leave(&mut self, ahead: &mut Burst);
}

/// A port to which frames go.
pub trait Transmit: Port {
    /// Sends frames from the front of `burst`, removes them there and returns how many.
    fn transmit(&mut self, burst: &mut Burst) -> Result<usize, PortError>;

    /// Takes back the slots of frames that have left since the last call; returns how many.
    fn reclaim(&mut self) -> usize;

    /// Requests a stamp for the first frame of the next [`transmit`](Self::transmit), which the
    /// kernel takes as it hands the frame to the driver; false if it cannot, or if the stamp of an
    /// earlier request has yet to come.
    fn stamp_next(&mut self) -> bool;

    /// The requested stamp, returned once: nanoseconds since the Unix epoch, or `None` if the
    /// kernel gave none after all.
    fn handed_over(&mut self) -> Option<Option<i64>>;
}

/// A port whose frames arrive while it is open: from an interface, not from a file.
pub trait Live: Receive {
    /// Appends the descriptors that become readable when the port may have frames.
    fn wake_on<'a>(&'a self, descriptors: &mut Vec<BorrowedFd<'a>>);

    /// The share of the space between the kernel and the port that is filled by frames which wait
    /// to be received, from 0 to 1.
    fn backlog(&self) -> f32;

    /// Brings [`facts`](Port::facts) up to date with what the kernel counts.
    fn account(&mut self);

    /// Lets no further frame in. Frames that have arrived can still be received; then comes the
    /// end.
    fn shut(&mut self);

    /// Takes the carrier of the other end away, or gives it back; whether the port can. Only a
    /// device that belongs to the port can be switched without a privilege.
    fn set_carrier(&mut self, _is_up: bool) -> bool {
        false
    }
}

/// A live port in both directions, such as an interface.
pub trait LivePort: Live + Transmit {}

impl<P: Live + Transmit> LivePort for P {}

/// The outcome of [`Receive::receive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// So many frames were appended: at least one, unless none was asked for or a filter took all
    /// away.
    Frames(usize),
    /// No more will come.
    End,
    /// Every block is referred to by frames: their holders must spill or drop some first.
    PoolEmpty,
    /// A signal arrived while waiting; ask again, or do not.
    Interrupted,
    /// A live port has none for now. Those to come have arrived after this, nanoseconds since the
    /// Unix epoch, as far as the kernel hands them over in time.
    Idle {
        /// The time.
        until_ns: i64,
    },
}

/// What is known of one input or output so far.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The file's path, or `-`.
    pub name: String,
    /// Such as `pcap, big-endian, nanoseconds` or `pcapng`.
    pub format: String,
    /// `gzip`, `zstd`, `xz` or `lz4`.
    pub compression: Option<&'static str>,
    /// Link types that the file announced, each once; the first 64 of them.
    pub link_types: Vec<LinkType>,
    /// The step between two stamps, rounded up to nanoseconds: the coarsest of the file's
    /// interfaces.
    pub resolution_ns: Option<u64>,
    /// Frames received or transmitted.
    pub frames: u64,
    /// Bytes read from or written to the file itself, thus compressed ones if it is compressed.
    pub bytes: u64,
    /// Bytes of the file when it was opened; `None` for a pipe.
    pub bytes_total: Option<u64>,
    /// Times that the writer of a ring of files overwrote or deleted some that had not been read.
    pub lapses: u64,
    /// What a user should know although it was no error, a sentence each.
    pub warnings: Vec<String>,
    /// Interfaces that a pcapng file describes, in its order; the first 1,024 of them.
    pub interfaces: Vec<Interface>,
    /// What is known of a live port.
    pub live: Option<LiveFacts>,
}

/// What is known of a live port, of the time since it was opened. [`Live::account`] brings it up to
/// date.
///
/// Once the port has ended: `arrived` = frames received + `dropped_ring` + `dropped_pool` +
/// `unread`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveFacts {
    /// How frames are taken.
    pub method: Method,
    /// Why so, in a few words.
    pub reason: String,
    /// The receive queue, if the port is one of several of an interface.
    pub queue: Option<u32>,
    /// The longest network packet, in bytes.
    pub mtu: u32,
    /// Bits a second that the driver claims; a virtual interface may claim any. `None`: it does not
    /// say.
    pub speed_bps: Option<u64>,
    /// Frames that came as far as the port: behind the adapter, and behind the kernel's filter.
    pub arrived: u64,
    /// Frames that came and that the kernel's filter rejected; `None` where it does not count them.
    pub filtered: Option<u64>,
    /// Frames that the adapter or its driver dropped; counted for the whole interface, at its first
    /// queue.
    pub dropped_interface: u64,
    /// Frames that found the ring between kernel and port full.
    pub dropped_ring: u64,
    /// Frames for which no slot of the pool was free.
    pub dropped_pool: u64,
    /// Frames that had come when the port was left, and that were not received.
    pub unread: u64,
    /// Times that the clock of the stamps was set.
    pub clock_steps: u64,
}

/// How a live port takes frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Method {
    /// A packet socket with a ring (TPACKET_V3): the host gets its frames all the same.
    #[default]
    AfPacket,
    /// AF_XDP in the driver: the host does not get them.
    AfXdpNative,
    /// AF_XDP behind the driver, on any interface: the host does not get them.
    AfXdpGeneric,
    /// The other end of a TAP device: only what the host sends there.
    Tap,
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::AfPacket => "AF_PACKET",
            Self::AfXdpNative => "AF_XDP native",
            Self::AfXdpGeneric => "AF_XDP generic",
            Self::Tap => "TAP",
        })
    }
}

/// An interface that a pcapng file describes, with the last statistics that it gives of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name; the first 256 bytes.
    pub name: Option<String>,
    /// How its frames begin.
    pub link_type: LinkType,
    /// The most bytes kept of a frame; 0 for no bound.
    pub snap_len: u32,
    /// The filter expression that its frames match; the first 256 bytes.
    pub filter: Option<String>,
    /// Bits a second that it claimed (`if_speed`).
    pub speed_bps: Option<u64>,
    /// Frames that the interface received (`isb_ifrecv`).
    pub received: Option<u64>,
    /// Frames that the interface dropped for want of resources (`isb_ifdrop`).
    pub dropped: Option<u64>,
    /// Frames that the operating system dropped (`isb_osdrop`).
    pub dropped_by_system: Option<u64>,
}

impl Facts {
    /// Counts frames that were received and not looked at as not received, and drops them.
    pub fn take_back(&mut self, frames: &mut Burst) {
        self.frames -= frames.len() as u64;
        if let Some(live) = &mut self.live {
            live.unread += frames.len() as u64;
            let bytes = frames
                .iter()
                .map(|frame| u64::from(frame.descriptor().wire_len));
            self.bytes -= bytes.sum::<u64>();
        }
        frames.clear();
    }

    fn note_link_type(&mut self, link_type: LinkType) {
        if self.link_types.len() < 64 && !self.link_types.contains(&link_type) {
            self.link_types.push(link_type);
        }
    }
}
