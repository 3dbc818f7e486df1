//! Sockets of AF_XDP: frames that an XDP program sends to user space past the kernel's network
//! stack.
//!
//! ```text
//!                      XDP program                     socket of the queue
//!  interface, queue ─► stamp, count ─► copy into chunk ─► receive ring ─► Frame, where it lies
//!                          │ no socket     ▲                                │ dropped
//!                          ▼               └──────── fill ring ◄────────────┘
//!                      the kernel                                 chunks: one UMEM for all queues
//! ```
//!
//! * The program is ours, assembled here, and hangs on a link that the kernel removes with the
//!   process.
//! * Copy mode: works on every driver, and leaves the frame in a chunk that is ours alone.
//! * A frame that spans chunks is copied together into a block: frames are contiguous.
//! * With [steering](super::Steering) the program in front of this lets frames pass to the kernel
//!   that are not ours.
//! * Not here: which method an interface gets (`super`).

mod chunks;
mod port;
mod program;
mod rings;
mod socket;
mod translation;
mod umem;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::bpf::{self, Mode};
use super::ethtool::queues_in_use;
use super::{FlowTable, HEADER_LEN_MAX, Interface, LiveOptions, Steering, see_all_frames};
use crate::{BLOCK_LEN, LivePort, Method, PortError};

use chunks::Chunks;
use port::XdpPort;
use program::Maps;
use socket::{Sizes, Socket, Step};
use umem::{ChunkSize, Umem};

/// Opens a port for each receive queue: in native mode if the driver has it and `options.method`
/// does not ask for generic mode. `reason` is why AF_XDP was chosen; `sends` whether the ports send
/// as much as they receive.
pub(super) fn open(
    interface: &Interface,
    options: &LiveOptions,
    reason: &str,
    sends: bool,
) -> Result<Vec<Box<dyn LivePort>>, PortError> {
    let refusal = Refusal { interface };
    let queues = queues_in_use(interface) as usize;
    // Three quarters of the memory are for chunks, a quarter for frames that are put together.
    let chunk = ChunkSize::for_frames(interface.mtu as usize + HEADER_LEN_MAX);
    let chunks = (options.bytes_max / 4 * 3 / chunk.len()).min(CHUNKS_MAX * queues);
    let memory = |chunks| PortError::Memory {
        name: interface.name.clone(),
        needed_bytes: chunks * chunk.len(),
    };
    if chunks < CHUNKS_MIN * queues {
        return Err(memory(CHUNKS_MIN * queues * 4 / 3));
    }
    let umem = Umem::new(chunk, chunks, &options.budget)
        .map_err(|errno| refusal.of("map memory for", errno, "take less memory"))?
        .ok_or_else(|| memory(chunks))?;
    let mut sockets: Vec<Socket> = Vec::with_capacity(queues);
    let sizes = sizes(chunks / queues, options.transmit_max).map_err(|chunks| {
        let needed_bytes = chunks * queues * chunk.len() / 3 * 4;
        PortError::Memory {
            name: interface.name.clone(),
            needed_bytes,
        }
    })?;
    for queue in 0..queues as u32 {
        match Socket::new(interface.index, queue, &umem, sizes, sockets.first()) {
            Ok(socket) => sockets.push(socket),
            // The interface has fewer queues in use than it was made with.
            Err((Step::Bind, Errno::INVAL)) if queue > 0 => break,
            Err((step, errno)) => return Err(refusal.of_socket(step, errno, queue, umem.len())),
        }
    }
    let share = chunks / sockets.len();
    let blocks = options.bytes_max / 4 / BLOCK_LEN / sockets.len();
    let is_one = sockets.len() == 1;
    let reserve = match sends {
        true => sizes.transmit as usize,
        false => RESERVE.min(share / 8),
    };
    // The kernel must have room for frames before the program leads the first of them to a socket.
    let chunks = { sockets.iter_mut().enumerate() }.map(|(queue, socket)| {
        // SAFETY: each port gets a range of its own, and `Chunks` gives a chunk to the kernel only
        // when it is free: when it has come back.
        let slots = unsafe { umem.slots(queue * share, share) };
        let mut chunks = Chunks::new(slots, umem.chunk, queue * share, share, reserve);
        chunks.refill(&mut socket.fill);
        chunks
    });
    let chunks: Vec<Chunks> = chunks.collect();
    let attached = Arc::new(Attached::new(interface, options, reason, &sockets)?);
    let ports = { sockets.into_iter().zip(chunks).enumerate() }.map(|(queue, (socket, chunks))| {
        let port = XdpPort::new(
            Arc::clone(&attached),
            queue as u32,
            is_one,
            socket,
            options.clock,
            (Arc::clone(&umem), chunks),
            (options.budget.clone(), blocks.clamp(2, BLOCKS_MAX)),
        );
        port.map(|port| Box::new(port) as Box<dyn LivePort>)
    });
    ports.collect()
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

/// The program on the interface, for all its ports.
struct Attached {
    interface: Interface,
    method: Method,
    reason: String,
    /// What a user should know although it is no error.
    warnings: Vec<String>,
    maps: Maps,
    /// `None` when it was shut.
    link: Mutex<Option<OwnedFd>>,
    /// Ports that let frames in.
    open: AtomicUsize,
    /// Frames that all ports lost in rings and for want of chunks.
    lost: AtomicU64,
    /// Frames that the driver counts as dropped, since the interface was opened.
    driver_dropped: AtomicU64,
    queues: u32,
    /// Has the interface take frames for others, as long as it is open.
    _promiscuous: Option<OwnedFd>,
}

impl Attached {
    fn new(
        interface: &Interface,
        options: &LiveOptions,
        reason: &str,
        sockets: &[Socket],
    ) -> Result<Self, PortError> {
        let refusal = Refusal { interface };
        let promiscuous = options
            .promiscuous
            .then(|| promiscuous(&refusal))
            .transpose()?;
        let make = |errno| refusal.of("make BPF maps for", errno, "");
        let maps = Maps::new(sockets.len() as u32).map_err(make)?;
        for (queue, socket) in sockets.iter().enumerate() {
            maps.open(queue as u32, socket.as_fd()).map_err(make)?;
        }
        let steering = options.steering.as_ref();
        let flows = options.flows.as_ref().map(FlowTable::maps);
        let program = maps
            .load(steering.map(Steering::program).as_deref(), flows.as_ref())
            .map_err(|(errno, log)| refusal.of("load an XDP program for", errno, &log))?;
        let link = |mode| bpf::link_xdp(program.as_fd(), interface.index, mode);
        let refused = |errno| refusal.of_link(errno);
        let mut reason = reason.to_owned();
        let generic = || link(Mode::Generic).map_err(refused);
        let (link, method) = if options.method == Some(Method::AfXdpGeneric) {
            (generic()?, Method::AfXdpGeneric)
        } else {
            match link(Mode::Native) {
                Ok(link) => (link, Method::AfXdpNative),
                Err(errno @ (Errno::BUSY | Errno::EXIST | Errno::PERM)) => {
                    return Err(refused(errno));
                }
                Err(errno) => {
                    reason = format!("{reason}; generic, since {}", native_refusal(errno));
                    (generic()?, Method::AfXdpGeneric)
                }
            }
        };
        let is_native = method == Method::AfXdpNative;
        let no_way_out = { options.flows.as_ref() }.and_then(|it| it.admit(interface, is_native));
        let is_blind = options.looks_at_tags() && interface.takes_out_tags();
        let warning = format!(
            "the filter asks for VLAN tags, and the adapter of '{0}' may take them out of frames \
            before AF_XDP sees those: 'ethtool -K {0} rxvlan off' keeps them, and --method \
            af_packet knows them",
            interface.name
        );
        Ok(Self {
            interface: interface.clone(),
            method,
            reason,
            warnings: { is_blind.then_some(warning).into_iter() }
                .chain(steering.and_then(Steering::warning))
                .chain(no_way_out)
                .collect(),
            maps,
            link: Mutex::new(Some(link)),
            open: AtomicUsize::new(sockets.len()),
            lost: AtomicU64::new(0),
            driver_dropped: AtomicU64::new(0),
            queues: sockets.len() as u32,
            _promiscuous: promiscuous,
        })
    }

    /// Lets no more frames of `queue` in. With the last queue the program goes.
    fn shut(&self, queue: u32) {
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(link) = link.take() {
                // Where a sandbox forbids bpf(2), closing it does.
                let _ = bpf::detach(link.as_fd());
            }
        } else {
            // If it is refused, frames go on coming until the last queue is shut, and are counted.
            let _ = self.maps.shut(queue);
        }
    }
}

/// Makes messages of what the kernel refuses.
struct Refusal<'a> {
    interface: &'a Interface,
}

impl Refusal<'_> {
    fn of(&self, action: &'static str, errno: Errno, remedy: &str) -> PortError {
        let name = self.interface.name.clone();
        match errno {
            Errno::PERM | Errno::ACCESS => PortError::Privilege {
                what: format!("{action} '{name}' by AF_XDP"),
                capabilities: &["cap_net_raw", "cap_net_admin", "cap_bpf"],
            },
            Errno::NODEV | Errno::NXIO => PortError::InterfaceGone { name, frames: 0 },
            Errno::NETDOWN => PortError::InterfaceDown { name },
            _ => PortError::Xdp {
                name,
                action,
                cause: errno.into(),
                remedy: remedy.to_owned(),
            },
        }
    }

    fn of_socket(&self, step: Step, errno: Errno, queue: u32, umem_len: usize) -> PortError {
        let packet = "take AF_PACKET instead";
        match (step, errno) {
            (Step::Open, Errno::AFNOSUPPORT) => self.of(
                "open a socket for",
                errno,
                &format!("this kernel was built without AF_XDP: {packet}"),
            ),
            (Step::Open, _) => self.of("open a socket for", errno, packet),
            (Step::RegisterMemory, Errno::NOBUFS | Errno::NOMEM) => self.of(
                "lock memory to receive from",
                errno,
                &format!(
                    "{} KiB are above the limit for locked memory: raise it ('ulimit -l'), \
                     take less memory, or give the program cap_ipc_lock",
                    umem_len / 1024
                ),
            ),
            (Step::RegisterMemory, _) => self.of("register memory to receive from", errno, packet),
            (Step::MakeRings, _) => self.of("make rings to receive from", errno, packet),
            (Step::Bind, Errno::BUSY) => self.of(
                "receive from",
                errno,
                &format!(
                    "queue {queue} belongs to another AF_XDP socket, and did so for 10 s: end the \
                     program that holds it, or {packet}"
                ),
            ),
            (Step::Bind, _) => self.of("bind a socket to", errno, packet),
        }
    }

    fn of_link(&self, errno: Errno) -> PortError {
        let name = &self.interface.name;
        match errno {
            Errno::BUSY | Errno::EXIST => self.of(
                "attach an XDP program to",
                errno,
                &format!(
                    "another one is there: 'ip link show {name}' names it, 'ip link set {name} xdp off' \
                     removes it unless its owner holds a link, and AF_PACKET works beside it"
                ),
            ),
            _ => self.of("attach an XDP program to", errno, native_refusal(errno)),
        }
    }
}

/// Why a driver refuses a program that takes frames of several parts, by the error that it gives.
fn native_refusal(errno: Errno) -> &'static str {
    match errno {
        Errno::RANGE => "the MTU, here or at a veth's other end, is too large for the driver",
        Errno::NOSPC => {
            "there are fewer receive queues than the other end of the veth has transmit queues"
        }
        Errno::OPNOTSUPP | Errno::INVAL => {
            "the driver does not support it, or not with these settings"
        }
        Errno::NOMEM => "the kernel has no memory for it",
        _ => "the driver gives no reason",
    }
}

/// A socket that sees nothing and keeps the interface promiscuous: AF_XDP itself does not.
fn promiscuous(refusal: &Refusal<'_>) -> Result<OwnedFd, PortError> {
    let refused = |errno| refusal.of("see all frames of", errno, "");
    let socket = rustix::net::socket_with(
        AddressFamily::PACKET,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(refused)?;
    see_all_frames(socket.as_fd(), refusal.interface)
        .map_err(|error| refused(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
    Ok(socket)
}
