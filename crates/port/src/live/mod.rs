//! Live ports: frames from and to interfaces (packet(7), AF_XDP).

mod clock;
mod interface;
mod packet;
mod xdp;

use lineside_account::Budget;

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
    match options.method {
        Some(Method::AfXdpNative | Method::AfXdpGeneric) => xdp::open(interface, options),
        Some(Method::AfPacket) | None => packet::open(interface, options, ""),
    }
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
