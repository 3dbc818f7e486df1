//! The program on an interface, and why the kernel refuses it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::program::Maps;
use super::socket::{Socket, Step};
use crate::live::bpf::{self, Mode};
use crate::live::socket_options::see_all_frames;
use crate::live::{FlowTable, Interface, LiveOptions, Steering};
use crate::{Method, PortError};

/// The program on the interface, for all its ports.
pub(super) struct Attached {
    pub(super) interface: Interface,
    pub(super) method: Method,
    pub(super) reason: String,
    /// What a user should know although it is no error.
    pub(super) warnings: Vec<String>,
    pub(super) maps: Maps,
    /// `None` when it was shut.
    link: Mutex<Option<OwnedFd>>,
    /// Ports that let frames in.
    open: AtomicUsize,
    /// Frames that all ports lost in rings and for want of chunks.
    pub(super) lost: AtomicU64,
    /// Frames that the driver counts as dropped, since the interface was opened.
    pub(super) driver_dropped: AtomicU64,
    pub(super) queues: u32,
    /// Has the interface take frames for others, as long as it is open.
    _promiscuous: Option<OwnedFd>,
}

impl Attached {
    pub(super) fn new(
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
    pub(super) fn shut(&self, queue: u32) {
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
pub(super) struct Refusal<'a> {
    pub(super) interface: &'a Interface,
}

impl Refusal<'_> {
    pub(super) fn of(&self, action: &'static str, errno: Errno, remedy: &str) -> PortError {
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

    pub(super) fn of_socket(
        &self,
        step: Step,
        errno: Errno,
        queue: u32,
        umem_len: usize,
    ) -> PortError {
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
