//! Sockets of AF_XDP: frames that an XDP program sends to user space past the kernel's network
//! stack.
//!
//! ```text
//!                      XDP program                     socket of the queue
//!  interface, queue ─► stamp, count ─► copy into chunk ─► receive ring ─► Frame, where it lies
//!                          │ no socket     ▲                                │ dropped
//!                          ▼               └──────── fill ring ◄────────────┘
//!                      the kernel                      chunks: one UMEM for all queues, and for
//!                                                      all interfaces that are opened together
//! ```
//!
//! * The program is ours, assembled here, and hangs on a link that the kernel removes with the
//!   process.
//! * Copy mode: works on every driver, and leaves the frame in a chunk that is ours alone.
//! * A frame that spans chunks is copied together into a block: frames are contiguous.
//! * With [steering](super::Steering) the program in front of this lets frames pass to the kernel
//!   that are not ours.
//! * Not here: which method an interface gets (`super`).

mod attached;
mod chunks;
mod lent;
mod port;
mod program;
mod rings;
mod socket;
mod translation;
mod umem;

use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;

use super::ethtool::queues_in_use;
use super::interface::HEADER_LEN_MAX;
use super::{Interface, LiveOptions};
use crate::{BLOCK_LEN, LivePort, PortError};

use attached::{Attached, Refusal};
use chunks::Chunks;
use port::XdpPort;
use socket::{Sizes, Socket, Step};
use umem::{ChunkSize, Umem};

/// An interface that is to be opened.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) interface: &'a Interface,
    pub(super) options: &'a LiveOptions,
    /// Why AF_XDP was chosen.
    pub(super) reason: &'a str,
    /// Its ports send as much as they receive.
    pub(super) sends: bool,
}

type Ports = Vec<Box<dyn LivePort>>;

/// Opens a port for each receive queue: in native mode if the driver has it and `options.method`
/// does not ask for generic mode.
pub(super) fn open(wanted: Wanted<'_>) -> Result<Ports, PortError> {
    let ports = open_all(&[wanted]).map_err(|(_, error)| error)?;
    Ok(ports.into_iter().flatten().collect())
}

/// The same for several interfaces, whose ports share one memory: each sends where they lie what
/// the others received. Fails with the place of the interface that cannot be had.
///
/// Each port has chunks of its own, which come back to it when whoever sent them is done with them:
/// so none takes the room that another one's frames arrive in.
pub(super) fn open_all(wanted: &[Wanted<'_>]) -> Result<Vec<Ports>, (usize, PortError)> {
    let len_max = wanted.iter().map(|it| it.interface.mtu as usize).max();
    let chunk = ChunkSize::for_frames(len_max.unwrap_or(0) + HEADER_LEN_MAX);
    let of_each =
        { wanted.iter().zip(0..) }.map(|(it, at)| it.chunks(chunk).map_err(|error| (at, error)));
    let of_each = of_each.collect::<Result<Vec<usize>, _>>()?;
    let Some(first) = wanted.first() else {
        return Ok(Vec::new());
    };
    let total = of_each.iter().sum();
    let umem = Umem::new(chunk, total, &first.options.budget)
        .map_err(|errno| {
            first
                .refusal()
                .of("map memory for", errno, "take less memory")
        })
        .and_then(|umem| umem.ok_or_else(|| first.memory(total * chunk.len())))
        .map_err(|error| (0, error))?;
    let mut opening: Vec<Opening<'_>> = Vec::with_capacity(wanted.len());
    let mut chunks_before = 0;
    for (at, (wanted, count)) in wanted.iter().zip(of_each).enumerate() {
        let first = { opening.iter() }.find_map(|other| other.sockets.first());
        let chunks = chunks_before..chunks_before + count;
        chunks_before = chunks.end;
        let made = Opening::new(*wanted, &umem, chunks, first).map_err(|error| (at, error))?;
        opening.push(made);
    }
    let opened = { opening.into_iter().zip(0..) }
        .map(|(it, at)| it.finish(&umem).map_err(|error| (at, error)));
    opened.collect()
}

impl Wanted<'_> {
    fn refusal(&self) -> Refusal<'_> {
        Refusal {
            interface: self.interface,
        }
    }

    fn memory(&self, needed_bytes: usize) -> PortError {
        PortError::Memory {
            name: self.interface.name.clone(),
            needed_bytes,
        }
    }

    /// Chunks for all its queues: three quarters of the memory are for them, a quarter for frames
    /// that are put together.
    fn chunks(&self, chunk: ChunkSize) -> Result<usize, PortError> {
        let queues = queues_in_use(self.interface) as usize;
        let chunks = self.options.bytes_max / 4 * 3 / chunk.len();
        let chunks = chunks.min(CHUNKS_MAX * queues);
        if chunks < CHUNKS_MIN * queues {
            return Err(self.memory(CHUNKS_MIN * queues * 4 / 3 * chunk.len()));
        }
        Ok(chunks)
    }
}

/// An interface with its sockets, whose program is not attached yet.
struct Opening<'a> {
    wanted: Wanted<'a>,
    /// Those of its queues in the memory.
    chunks: Range<usize>,
    sizes: Sizes,
    sockets: Vec<Socket>,
}

impl<'a> Opening<'a> {
    /// `first` has registered the memory, unless that is still to be done.
    fn new(
        wanted: Wanted<'a>,
        umem: &Umem,
        chunks: Range<usize>,
        first: Option<&Socket>,
    ) -> Result<Self, PortError> {
        let Wanted {
            interface, options, ..
        } = wanted;
        let queues = queues_in_use(interface) as usize;
        let sizes = sizes(chunks.len() / queues, options.transmit_max)
            .map_err(|chunks| wanted.memory(chunks * queues * umem.chunk.len() / 3 * 4))?;
        let mut sockets: Vec<Socket> = Vec::with_capacity(queues);
        for queue in 0..queues as u32 {
            let first = first.or_else(|| sockets.first());
            match Socket::new(interface.index, queue, umem, sizes, first) {
                Ok(socket) => sockets.push(socket),
                // The interface has fewer queues in use than it was made with.
                Err((Step::Bind, Errno::INVAL)) if queue > 0 => break,
                Err((step, errno)) => {
                    return Err(wanted.refusal().of_socket(step, errno, queue, umem.len()));
                }
            }
        }
        Ok(Self {
            wanted,
            chunks,
            sizes,
            sockets,
        })
    }

    /// Has frames led to its ports.
    fn finish(mut self, umem: &Arc<Umem>) -> Result<Ports, PortError> {
        let Wanted {
            interface,
            options,
            reason,
            sends,
        } = self.wanted;
        let share = self.chunks.len() / self.sockets.len();
        let blocks = options.bytes_max / 4 / BLOCK_LEN / self.sockets.len();
        let is_one = self.sockets.len() == 1;
        let reserve = match sends {
            true => self.sizes.transmit as usize,
            false => RESERVE.min(share / 8),
        };
        // The kernel must have room for frames before the program leads the first of them to a
        // socket.
        let chunks = { self.sockets.iter_mut().enumerate() }.map(|(queue, socket)| {
            let first = self.chunks.start + queue * share;
            // SAFETY: each port gets a range of its own, and `Chunks` gives a chunk to the kernel
            // only when it is free: when it has come back.
            let slots = unsafe { umem.slots(first, share) };
            let mut chunks = Chunks::new(slots, umem.chunk, first, share, reserve);
            chunks.refill(&mut socket.fill);
            chunks
        });
        let chunks: Vec<Chunks> = chunks.collect();
        let attached = Attached::new(interface, options, reason, &self.sockets)?;
        let attached = Arc::new(attached);
        let both = self.sockets.into_iter().zip(chunks);
        let ports = both.enumerate().map(|(queue, (socket, chunks))| {
            let port = XdpPort::new(
                Arc::clone(&attached),
                queue as u32,
                is_one,
                socket,
                options.clock,
                (Arc::clone(umem), chunks, self.sizes.transmit),
                (options.budget.clone(), blocks.clamp(2, BLOCKS_MAX)),
            );
            port.map(|port| Box::new(port) as Box<dyn LivePort>)
        });
        ports.collect()
    }
}

/// For each queue; with less, a pause of a tenth of a millisecond would cost frames.
const CHUNKS_MIN: usize = 256;
/// For each queue: two thirds of them are 10 ms at 1.6 million frames a second, for which a busy
/// core may turn away.
const CHUNKS_MAX: usize = 24 * 1024;
/// Blocks into which a queue's long frames are copied: 16 MiB.
const BLOCKS_MAX: usize = 32;

/// The receive ring holds at most two thirds of the chunks, so that what a slow reader loses is
/// lost there, and what holders cost is lost for want of chunks: the counters distinguish the two.
///
/// The transmit ring is no longer than that one, so that frames still come while it is full. Fails
/// with the chunks that there would have to be for it.
fn sizes(chunks: usize, transmit_max: Option<u32>) -> Result<Sizes, usize> {
    let receive: u32 = 1 << (chunks * 2 / 3).ilog2();
    let transmit = match transmit_max {
        None => receive.min(TRANSMIT_MAX),
        Some(wanted) => wanted.clamp(1, TRANSMIT_LIMIT).next_power_of_two(),
    };
    if transmit > receive {
        return Err((transmit as usize * 3).div_ceil(2));
    }
    Ok(Sizes {
        fill: (chunks as u32).next_power_of_two(),
        receive,
        transmit,
    })
}

/// Eight times what a system call sends.
const TRANSMIT_MAX: u32 = 2048;
/// More than the kernel's queues behind the ring ever hold.
const TRANSMIT_LIMIT: u32 = 1 << 15;

/// Chunks kept to send from where that happens now and then. Ports that send all the time keep as
/// many as the transmit ring takes.
const RESERVE: usize = 256;
