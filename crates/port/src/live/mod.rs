//! Live ports: frames from and to interfaces (packet(7), AF_XDP).

mod clock;
mod interface;
mod packet;
mod xdp;

use lineside_account::Budget;
use lineside_frame::LinkType;

pub use interface::Interface;

use crate::{Method, Port, PortError};

/// How an interface is to be opened.
#[derive(Debug, Clone)]
pub struct LiveOptions {
    /// How frames are to be taken; `None`: the best way that takes nothing from the host.
    pub method: Option<Method>,
    /// Sockets among which packet sockets share the frames, those of a connection at the same one.
    pub sockets: usize,
    /// Also frames that are not for this host.
    pub promiscuous: bool,
    /// A classic BPF program for the kernel, which frames must pass; it may let through too many. Empty: all pass.
    pub filter: Vec<FilterInstruction>,
    /// What memory for frames is drawn on.
    pub budget: Budget,
    /// The most of it for the whole interface.
    pub bytes_max: usize,
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

/// Opens an interface to receive: a port for each of its sockets.
pub fn open(interface: &Interface, options: &LiveOptions) -> Result<Vec<Box<dyn Port>>, PortError> {
    if !interface.is_up {
        return Err(PortError::InterfaceDown {
            name: interface.name.clone(),
        });
    }
    let (method, reason) = match options.method {
        None => choice(interface),
        Some(method) => (method, "asked for".to_owned()),
    };
    if method == Method::AfPacket {
        return packet::open(interface, options, &reason);
    }
    match xdp::open(interface, options, &reason) {
        Err(error) if options.method.is_none() => packet::open(
            interface,
            options,
            &format!("AF_XDP cannot be had: {error}"),
        ),
        opened => opened,
    }
}

/// How an interface is listened at unless told otherwise, and why. Where native AF_XDP is named but cannot be
/// had, it is generic AF_XDP, and then AF_PACKET.
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

/// Opens an interface to send.
pub fn open_to_send(interface: &Interface) -> Result<Box<dyn Port>, PortError> {
    if !interface.is_up {
        return Err(PortError::InterfaceDown {
            name: interface.name.clone(),
        });
    }
    packet::open_to_send(interface)
}
