//! Checksums that a sender left to its adapter, of frames that go on.
//!
//! The field holds the sum of the pseudo-header, and whoever knows how adds the rest: the kernel,
//! if a port can ask it to, which costs nothing where the other end of a virtual link takes frames
//! as they are. Here it is done for ports that cannot ask: that takes a look at every byte.

use lineside_frame::Frame;
use lineside_wire::{Dissected, complete_checksum, dissect_outermost, tcp, udp};

/// Where the kernel finds what it is to sum, and puts the checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChecksumOffload {
    /// The first byte of the transport header.
    pub(super) start: u16,
    /// Where the checksum is from there.
    pub(super) offset: u16,
}

impl ChecksumOffload {
    /// `None` if the checksum is finished, or if it is nowhere to be found.
    pub(super) fn of(frame: &Frame) -> Option<Self> {
        let descriptor = frame.descriptor();
        if !descriptor.partial_checksum {
            return None;
        }
        let link_type = descriptor.link_type.0;
        let (ip, offset) = match dissect_outermost(link_type, frame.bytes(), frame.whole_len()) {
            Dissected::Tcp(ip, _) => (ip, tcp::field::CHECKSUM),
            Dissected::Udp(ip, _) => (ip, udp::field::CHECKSUM),
            _ => return None,
        };
        Some(Self {
            start: u16::try_from(ip.payload).ok()?,
            offset: offset as u16,
        })
    }

    /// Bytes up to the end of the checksum.
    pub(super) fn end(self) -> usize {
        usize::from(self.start) + usize::from(self.offset) + size_of::<u16>()
    }
}

/// Finishes the checksum of a frame where that is still to be done.
#[inline]
pub(super) fn finish(frame: &mut Frame) {
    if frame.descriptor().partial_checksum {
        finish_now(frame);
    }
}

#[cold]
fn finish_now(frame: &mut Frame) {
    if !frame.rest().is_empty() {
        *frame = Frame::copied(&frame.parts().concat(), *frame.descriptor());
    }
    let link_type = frame.descriptor().link_type.0;
    complete_checksum(link_type, frame.bytes_mut());
    frame.descriptor_mut().partial_checksum = false;
}
