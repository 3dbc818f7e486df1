//! How an interface is to be opened.

use lineside_account::Budget;

use super::classic::{FilterInstruction, LD_IMM, TAX, VLAN_TAG_PRESENT};
use super::{FlowTable, StampClock, Steering};
use crate::Method;

/// How an interface is to be opened.
#[derive(Debug, Clone)]
pub struct LiveOptions {
    /// How frames are to be taken; `None`: the best way that takes nothing from the host.
    pub method: Option<Method>,
    /// Sockets among which packet sockets share the frames, those of a connection at the same one:
    /// to receive by a hash of the kernel's, to [send as well](super::open_each) by the local
    /// port. AF_XDP has a socket for each queue.
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

impl LiveOptions {
    /// Whether the filter looks at tags that were taken out of frames.
    pub(super) fn looks_at_tags(&self) -> bool {
        let mut each = self.filter.iter();
        each.any(|instruction| instruction.operand == VLAN_TAG_PRESENT)
    }

    /// Whether AF_PACKET will do where AF_XDP cannot be had.
    pub(super) fn may_be_by_packets(&self) -> bool {
        let steering = self.steering.as_ref();
        self.method.is_none() && steering.is_none_or(|it| it.can_be_by(Method::AfPacket))
    }

    /// What the kernel runs for AF_PACKET: steering, and the filter for what is ours.
    pub(super) fn program(&self) -> Vec<FilterInstruction> {
        let Some(steering) = &self.steering else {
            return self.filter.clone();
        };
        let mut program = steering.program();
        if self.filter.is_empty() {
            return program;
        }
        // The last instruction is where frames that are ours come to. A filter finds A and X as the
        // kernel leaves them to it: 0.
        program.pop();
        let zero = |code: u8| FilterInstruction {
            code: code.into(),
            jump_true: 0,
            jump_false: 0,
            operand: 0,
        };
        program.extend([zero(LD_IMM), zero(TAX)]);
        program.extend_from_slice(&self.filter);
        program
    }
}

/// How the devices of a link are made.
#[derive(Debug, Clone, Copy)]
pub struct EndOptions<'a> {
    /// The longest network packet, in bytes.
    pub mtu: u32,
    /// The clock of the stamps.
    pub clock: StampClock,
    /// What memory for frames is drawn on.
    pub budget: &'a Budget,
    /// The most of it for one device.
    pub bytes_max: usize,
}
