//! Live ports: frames from and to interfaces (packet(7), AF_XDP).

mod bpf;
mod checksum_offload;
mod classic;
mod clock;
mod ethtool;
mod filter;
mod flows;
mod generator;
mod interface;
mod link_end;
mod loopback;
mod mapping;
mod offers;
mod packet_socket;
mod steering;
mod tap;
mod tpacket_v2;
mod tpacket_v3;
mod xdp;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use lineside_account::Budget;
use lineside_frame::LinkType;

pub use flows::{FlowCounts, FlowError, FlowKey, FlowOutcomes, FlowRule, FlowTable};
pub use generator::{Departures, Generator, GeneratorError, drop_all, pass_all};
pub use interface::Interface;
pub use link_end::{EndOptions, LinkEnd, open_end, open_tap};
pub use loopback::open_loopback;
pub use offers::Offers;
pub use steering::{AddressBlock, AddressBlockError, Steering};

use crate::{LivePort, Method, PortError, Transmit};

use xdp::Wanted;

/// Bytes of an Ethernet header, and of a VLAN tag in it.
const HEADER_LEN: usize = 14;
const TAG_LEN: usize = 4;
/// With two tags.
const HEADER_LEN_MAX: usize = HEADER_LEN + 2 * TAG_LEN;

/// How an interface is to be opened.
#[derive(Debug, Clone)]
pub struct LiveOptions {
    /// How frames are to be taken; `None`: the best way that takes nothing from the host.
    pub method: Option<Method>,
    /// Sockets among which packet sockets share the frames, those of a connection at the same one:
    /// to receive by a hash of the kernel's, to [send as well](open_each) by the local port. AF_XDP
    /// has a socket for each queue.
    pub sockets: usize,
    /// Also frames that are not for this host.
    pub promiscuous: bool,
    /// A classic BPF program for the kernel, which frames must pass, and which gives back how many
    /// bytes are kept of them. Empty: all pass whole. The kernel runs it for AF_PACKET alone, whose
    /// frames say that they [passed](lineside_frame::Descriptor::has_passed).
    pub filter: Vec<FilterInstruction>,
    /// Which frames are taken, while the host goes on using the interface. `None`: all of them.
    pub steering: Option<Steering>,
    /// Flows whose frames the driver forwards without the port, where it takes frames by AF_XDP.
    /// All ports between which it does share one table.
    pub flows: Option<FlowTable>,
    /// Parts of frames that may be on their way out at once, at each queue of AF_XDP: the length of
    /// its transmit ring, a power of two, and as many chunks of memory kept for it. A frame is one
    /// part unless it is longer than a page. `None`: 2,048, or fewer where there is little memory.
    /// The kernel copies what packet sockets send as it takes it, as far as its own queues go.
    pub transmit_max: Option<u32>,
    /// The clock of the stamps.
    pub clock: StampClock,
    /// What memory for frames is drawn on.
    pub budget: Budget,
    /// The most of it for the whole interface.
    pub bytes_max: usize,
}

/// The clock by which a live port stamps frames, those that came and those that were handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StampClock {
    /// The wall clock, as of a capture. It may be set while the port is open.
    Wall,
    /// CLOCK_MONOTONIC and this many nanoseconds, whatever happens to the wall clock: see
    /// [`RunClock`](lineside_host::RunClock).
    Steady {
        /// What is added.
        ahead_ns: i64,
    },
}

/// An instruction of classic BPF, laid out as the kernel's `struct sock_filter` (linux/filter.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct FilterInstruction {
    /// What it does.
    pub code: u16,
    /// Instructions to skip if a condition holds.
    pub jump_true: u8,
    /// Instructions to skip if it does not.
    pub jump_false: u8,
    /// A constant, offset or distance.
    pub operand: u32,
}

impl LiveOptions {
    /// Whether the filter looks at tags that were taken out of frames.
    fn looks_at_tags(&self) -> bool {
        let mut each = self.filter.iter();
        each.any(|instruction| instruction.operand == VLAN_TAG_PRESENT)
    }

    /// Whether AF_PACKET will do where AF_XDP cannot be had.
    fn may_be_by_packets(&self) -> bool {
        let steering = self.steering.as_ref();
        self.method.is_none() && steering.is_none_or(|it| it.can_be_by(Method::AfPacket))
    }
}

/// Loads at these offsets are extensions of the kernel's (linux/filter.h): the VLAN tag that was
/// taken out of the frame, and whether there is one.
const VLAN_TAG: u32 = 0xffff_f000 + 44;
const VLAN_TAG_PRESENT: u32 = 0xffff_f000 + 48;

/// Opens an interface to receive: a port for each of its sockets.
pub fn open(
    interface: &Interface,
    options: &LiveOptions,
) -> Result<Vec<Box<dyn LivePort>>, PortError> {
    must_be_up(interface)?;
    must_be_steered(interface, options)?;
    let (method, reason) = match options.method {
        None if options.steering.is_some() => (
            Method::AfXdpNative,
            "the host keeps all other frames".to_owned(),
        ),
        None => match choice(interface) {
            (Method::AfXdpNative, _) if options.looks_at_tags() && interface.takes_out_tags() => {
                let reason = "the filter asks for VLAN tags, which the adapter takes out of frames";
                (Method::AfPacket, reason.to_owned())
            }
            chosen => chosen,
        },
        Some(method) => (method, "asked for".to_owned()),
    };
    if method == Method::AfPacket {
        return tpacket_v3::open(interface, options, &reason);
    }
    let wanted = Wanted {
        interface,
        options,
        reason: &reason,
        sends: false,
    };
    match xdp::open(wanted) {
        Err(error) if options.may_be_by_packets() => tpacket_v3::open(
            interface,
            options,
            &format!("AF_XDP cannot be had: {error}"),
        ),
        opened => opened,
    }
}

/// Opens an interface to receive and send each frame at once: a port for each of its queues, or of
/// packet sockets for each of [`LiveOptions::sockets`].
///
/// Without a method in the options it is AF_XDP, or where that cannot be had AF_PACKET, by which
/// the host gets the frames too. Of `n` packet sockets the one with number `k` has what comes for
/// the local ports `p` with `p % n == k`, of TCP and UDP; fragments, ARP, ICMP and all else come to
/// the first. The queue of AF_XDP is the driver's choice.
pub fn open_each(
    interface: &Interface,
    options: &LiveOptions,
) -> Result<Vec<Box<dyn LivePort>>, PortError> {
    let ports = open_all(&[(interface, options)])?;
    Ok(ports.into_iter().flatten().collect())
}

/// The same for several interfaces, between which frames go, in their order. Those that are had by
/// AF_XDP share one memory: a frame that one received another sends where it lies, and the memory
/// comes back to the port that received into it. It is as much as the options give all of them, and
/// drawn on the budget of the first.
pub fn open_all(
    wanted: &[(&Interface, &LiveOptions)],
) -> Result<Vec<Vec<Box<dyn LivePort>>>, PortError> {
    for (interface, options) in wanted {
        must_be_up(interface)?;
        must_be_steered(interface, options)?;
    }
    // Why AF_XDP is not tried, by interface.
    let mut by_packets: Vec<Option<String>> = wanted
        .iter()
        .map(|(_, options)| {
            (options.method == Some(Method::AfPacket)).then(|| reason_to_open(options).to_owned())
        })
        .collect();
    let shared = loop {
        let left = { wanted.iter().zip(0..) }.filter(|(_, at)| by_packets[*at].is_none());
        let (left, places): (Vec<Wanted<'_>>, Vec<usize>) = left
            .map(|(&(interface, options), at)| {
                let reason = reason_to_open(options);
                let wanted = Wanted {
                    interface,
                    options,
                    reason,
                    sends: true,
                };
                (wanted, at)
            })
            .unzip();
        match xdp::open_all(&left) {
            Ok(ports) => break ports,
            Err((at, error)) if left[at].options.may_be_by_packets() => {
                by_packets[places[at]] = Some(format!("AF_XDP cannot be had: {error}"));
            }
            Err((_, error)) => return Err(error),
        }
    };
    let mut shared = shared.into_iter();
    let opened = { wanted.iter().zip(by_packets) }.map(|((interface, options), why)| match why {
        Some(reason) => tpacket_v3::open_each(interface, options, &reason),
        None => Ok(shared.next().expect("the others are had by AF_XDP")),
    });
    opened.collect()
}

fn reason_to_open(options: &LiveOptions) -> &'static str {
    match (options.method, &options.steering) {
        (Some(_), _) => "asked for",
        (None, None) => "the host gets no frame besides",
        (None, Some(_)) => "the host keeps all other frames",
    }
}

/// How an interface is listened at by default, and why. Where native AF_XDP is named but
/// cannot be had, it is generic AF_XDP, and then AF_PACKET.
pub fn choice(interface: &Interface) -> (Method, String) {
    let packet = |reason: String| (Method::AfPacket, reason);
    if interface.is_loopback {
        return packet("the host talks to itself on it".to_owned());
    }
    if let Some(address) = interface.addresses.first() {
        return packet(format!(
            "the host needs its frames: it has the address {address}"
        ));
    }
    if let Some(master) = &interface.master {
        return packet(format!("{master} needs its frames"));
    }
    if interface.has_xdp {
        return packet("another XDP program is attached to it".to_owned());
    }
    if interface.link_type != Some(LinkType::ETHERNET) {
        return packet("it is no Ethernet".to_owned());
    }
    (
        Method::AfXdpNative,
        "nothing of the host's passes it".to_owned(),
    )
}

/// Opens an interface to send, where something is at its other end.
pub fn open_to_send(interface: &Interface) -> Result<Box<dyn Transmit>, PortError> {
    must_carry(interface)?;
    packet_socket::open_to_send(interface)
}

/// Fails if what is sent there is lost: it is switched off, or has no carrier.
pub fn must_carry(interface: &Interface) -> Result<(), PortError> {
    must_be_up(interface)?;
    if interface.is_running {
        return Ok(());
    }
    Err(PortError::NoCarrier {
        name: interface.name.clone(),
    })
}

/// Fails if frames cannot be steered as asked.
fn must_be_steered(interface: &Interface, options: &LiveOptions) -> Result<(), PortError> {
    let Some(steering) = &options.steering else {
        return Ok(());
    };
    steering.check(interface)?;
    match options.method {
        Some(method) if !steering.can_be_by(method) => Err(PortError::Steering {
            name: interface.name.clone(),
            why: format!(
                "by {method} the host's kernel sees frames for its own address as well, and resets \
                 their connections: take AF_XDP, or an address that the host does not have"
            ),
        }),
        _ => Ok(()),
    }
}

fn must_be_up(interface: &Interface) -> Result<(), PortError> {
    if interface.is_up {
        return Ok(());
    }
    Err(PortError::InterfaceDown {
        name: interface.name.clone(),
    })
}

/// Has the interface take frames that are for others, as long as the packet socket is open.
fn see_all_frames(socket: BorrowedFd<'_>, interface: &Interface) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: interface.index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(
        socket,
        libc::SOL_PACKET,
        libc::PACKET_ADD_MEMBERSHIP,
        &request,
    )
}

/// Sets an option of a socket (setsockopt(2)).
fn set_option<T>(socket: BorrowedFd<'_>, level: i32, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: the value is whole and its length is given; the kernel copies it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as u32,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
