//! A socket of AF_XDP with its four rings, bound to one queue of an interface.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING,
    XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpRingOffset,
    XdpStatistics, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sockopt};

use super::rings::{Consumer, Part, Producer};
use super::umem::{REQUEST_LEN, Umem};
use crate::live::mapping::Mapping;

/// Entries of the rings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Chunks that wait for frames.
    pub(super) fill: u32,
    /// Frames, or parts of them, that wait to be received.
    pub(super) receive: u32,
    /// Parts of frames that wait to be sent.
    pub(super) transmit: u32,
}

/// What failed on the way to a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Open,
    RegisterMemory,
    MakeRings,
    Bind,
}

/// A bound socket.
pub(super) struct Socket {
    descriptor: OwnedFd,
    pub(super) fill: Producer<u64>,
    pub(super) receive: Consumer<Part>,
    pub(super) transmit: Producer<Part>,
    pub(super) completion: Consumer<u64>,
    /// Frames to send may have a request to the kernel before them.
    pub(super) takes_requests: bool,
}

impl Socket {
    /// A socket at `queue` of the interface with number `index`. The first one registers the
    /// memory; others share it by naming the `first`.
    pub(super) fn new(
        index: u32,
        queue: u32,
        umem: &Umem,
        sizes: Sizes,
        first: Option<&Self>,
    ) -> Result<Self, (Step, Errno)> {
        let at = |step| move |errno| (step, errno);
        let descriptor = rustix::net::socket_with(
            AddressFamily::XDP,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(at(Step::Open))?;
        let takes_requests = match first {
            Some(first) => first.takes_requests,
            None => register(&descriptor, umem).map_err(at(Step::RegisterMemory))?,
        };
        let (fill, receive, transmit, completion) =
            rings(&descriptor, sizes).map_err(at(Step::MakeRings))?;
        // Frames sent for each system call: 32 if the kernel is older than 6.17 and does not know
        // this.
        set_option(&descriptor, libc::SOL_XDP, MAX_TX_SKB_BUDGET, SEND_BUDGET);
        // What is on its way counts against the socket's send buffer, whose default holds some 90
        // frames. Without the right to exceed net.core.wmem_max it stays at that.
        set_option(
            &descriptor,
            libc::SOL_SOCKET,
            libc::SO_SNDBUFFORCE,
            send_buffer_len(sizes.transmit),
        );
        bind(&descriptor, index, queue, first).map_err(at(Step::Bind))?;
        Ok(Self {
            descriptor,
            fill,
            receive,
            transmit,
            completion,
            takes_requests,
        })
    }

    /// What the kernel counts of this socket.
    pub(super) fn statistics(&self) -> Result<XdpStatistics, Errno> {
        sockopt::xdp_statistics(&self.descriptor)
    }

    /// What went wrong with the socket since this was asked last: its interface is gone.
    pub(super) fn fault(&self) -> Option<Errno> {
        match sockopt::socket_error(&self.descriptor) {
            Ok(Ok(())) => None,
            Ok(Err(errno)) | Err(errno) => Some(errno),
        }
    }

    /// Has the kernel send what is in the transmit ring; it may leave some there.
    pub(super) fn kick(&self) -> Result<(), Errno> {
        match rustix::net::send(&self.descriptor, &[], SendFlags::DONTWAIT) {
            // EAGAIN: more than the budget or the send buffer allows. EBUSY: the driver has dropped
            // a frame. ENOBUFS: no memory just now.
            Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Registers the memory; whether frames to send may have requests before them.
fn register(descriptor: &OwnedFd, umem: &Umem) -> Result<bool, Errno> {
    let mut registration = XdpUmemReg {
        addr: umem.start().expose_provenance().get() as u64,
        len: umem.len() as u64,
        chunk_size: umem.chunk.len() as u32,
        headroom: 0,
        flags: XdpUmemRegFlags::from_bits_retain(libc::XDP_UMEM_TX_METADATA_LEN),
        tx_metadata_len: REQUEST_LEN as u32,
    };
    match sockopt::set_xdp_umem_reg(descriptor, registration) {
        // Kernels before 6.8 know no requests.
        Err(Errno::INVAL) => {
            registration.flags = XdpUmemRegFlags::empty();
            registration.tx_metadata_len = 0;
            sockopt::set_xdp_umem_reg(descriptor, registration)?;
            Ok(false)
        }
        registered => registered.map(|()| true),
    }
}

type Rings = (Producer<u64>, Consumer<Part>, Producer<Part>, Consumer<u64>);

fn rings(descriptor: &OwnedFd, sizes: Sizes) -> Result<Rings, Errno> {
    sockopt::set_xdp_umem_fill_ring_size(descriptor, sizes.fill)?;
    sockopt::set_xdp_umem_completion_ring_size(descriptor, sizes.transmit)?;
    sockopt::set_xdp_rx_ring_size(descriptor, sizes.receive)?;
    sockopt::set_xdp_tx_ring_size(descriptor, sizes.transmit)?;
    let offsets = sockopt::xdp_mmap_offsets(descriptor)?;
    let map = |at: u64, ring: &XdpRingOffset, size: u32, entry_len: usize| {
        let len = ring.desc as usize + size as usize * entry_len;
        let both = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        Mapping::of(descriptor.as_fd(), at, len, both, flags).map(Arc::new)
    };
    let (fill, completion) = (size_of::<u64>(), size_of::<u64>());
    let part = size_of::<Part>();
    let fill = map(XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, sizes.fill, fill)?;
    let completion = map(
        XDP_UMEM_PGOFF_COMPLETION_RING,
        &offsets.cr,
        sizes.transmit,
        completion,
    )?;
    let receive = map(XDP_PGOFF_RX_RING, &offsets.rx, sizes.receive, part)?;
    let transmit = map(XDP_PGOFF_TX_RING, &offsets.tx, sizes.transmit, part)?;
    Ok((
        Producer::new(fill, &offsets.fr, sizes.fill),
        Consumer::new(receive, &offsets.rx, sizes.receive),
        Producer::new(transmit, &offsets.tx, sizes.transmit),
        Consumer::new(completion, &offsets.cr, sizes.transmit),
    ))
}

/// Binds in copy mode, with frames of several parts.
fn bind(descriptor: &OwnedFd, index: u32, queue: u32, first: Option<&Socket>) -> Result<(), Errno> {
    let mut waits_left = BIND_WAITS;
    loop {
        let bound = match first {
            None => {
                let flags = SocketAddrXdpFlags::XDP_COPY
                    | SocketAddrXdpFlags::XDP_USE_SG
                    | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
                rustix::net::bind(descriptor, &SocketAddrXdp::new(flags, index, queue))
            }
            // The first one's flags hold for all; to give any here is an error.
            Some(first) => rustix::net::bind(
                descriptor,
                &SocketAddrXdpWithSharedUmem {
                    addr: SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, index, queue),
                    shared_umem_fd: first.as_fd(),
                },
            ),
        };
        // The kernel lets go of a queue some time after the socket before was closed: seconds under
        // load.
        if bound != Err(Errno::BUSY) || waits_left == 0 {
            return bound;
        }
        waits_left -= 1;
        wait(BIND_WAIT);
    }
}

/// Sets an option without which things go slower.
fn set_option(descriptor: &OwnedFd, level: i32, option: i32, value: i32) {
    // SAFETY: the kernel reads the four bytes of `value`.
    unsafe {
        libc::setsockopt(
            descriptor.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<i32>() as u32,
        );
    }
}

fn wait(time: Duration) {
    let time = rustix::time::Timespec::try_from(time).expect("short");
    // A signal ends the wait early; then it is just the next try that comes early.
    let _ = rustix::event::poll(&mut [], Some(&time));
}

/// `XDP_MAX_TX_SKB_BUDGET` of linux/if_xdp.h.
const MAX_TX_SKB_BUDGET: i32 = 9;
/// Frames sent for each system call: with 256 instead of 32, 10 % more frames pass on veth.
const SEND_BUDGET: i32 = 256;

/// Room for a transmit ring of frames as the kernel counts them, with their administration.
fn send_buffer_len(transmit: u32) -> i32 {
    const FOR_EACH: u32 = 8 * 1024;
    i32::try_from(transmit * FOR_EACH).unwrap_or(i32::MAX)
}

/// A queue is tried for ten seconds: 2.7 were seen under load.
const BIND_WAITS: u32 = 500;
const BIND_WAIT: Duration = Duration::from_millis(20);
