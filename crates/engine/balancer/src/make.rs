//! Frames of our own: ARP, neighbour discovery, ICMP, checks and resets.

use std::net::IpAddr;

use lineside_account::Budget;
use lineside_frame::{Cutter, Descriptor, Frame, LinkType};
use lineside_wire::PROTOCOL_TCP;
use lineside_wire::build::TcpFields;
use lineside_wire::control::ControlFrame;
use lineside_wire::headers::Headers;

/// Frames are cut from blocks of this size: beyond the longest packet and its headers.
const BLOCK_BYTES: usize = 1 << 17;
/// As many as hold a burst of full packets that are under way.
const BLOCKS_MAX: usize = 32;

/// What makes frames.
pub(crate) struct Maker {
    cutter: Cutter,
    pub(crate) made: u64,
}

impl std::fmt::Debug for Maker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Maker").field("made", &self.made).finish()
    }
}

impl Maker {
    pub(crate) const BYTES: usize = 2 * BLOCK_BYTES;

    pub(crate) fn new(budget: &Budget) -> Option<Self> {
        Some(Self {
            cutter: Cutter::new(BLOCK_BYTES, BLOCKS_MAX, budget)?,
            made: 0,
        })
    }

    pub(crate) fn cut(&mut self, len: usize) -> Option<Frame> {
        let descriptor = Descriptor {
            wire_len: len as u32,
            link_type: LinkType::ETHERNET,
            ..Descriptor::default()
        };
        let frame = self.cutter.cut(len, descriptor)?;
        self.made += 1;
        Some(frame)
    }

    /// The first `head_len` bytes of a frame once more, in front of its other bytes where they lie;
    /// those are kept until the last of such frames was sent. A whole copy if there is no memory.
    pub(crate) fn with_own_head(&mut self, frame: &mut Frame, head_len: usize) -> Frame {
        let descriptor = *frame.descriptor();
        let Some(mut head) = self.cutter.cut(head_len, descriptor) else {
            return frame.another();
        };
        let (bytes, len) = (head.bytes_mut(), frame.bytes().len());
        bytes.copy_from_slice(&frame.bytes()[..head_len]);
        head.with_rest(frame, head_len..len)
    }

    /// A packet; `write` fills its payload. `link` has the receiver first.
    pub(crate) fn packet(
        &mut self,
        link: [[u8; 6]; 2],
        ends: [IpAddr; 2],
        hop_count: u8,
        (protocol, payload_len): (u8, usize),
        write: impl FnOnce(&mut [u8]),
    ) -> Option<Frame> {
        let headers = Headers {
            link,
            hop_count,
            ..Headers::new(ends[0], ends[1])
        };
        let mut frame = self.cut(headers.len_bytes() + payload_len)?;
        write(headers.emit(protocol, payload_len, frame.bytes_mut()));
        Some(frame)
    }

    /// A TCP segment.
    pub(crate) fn segment(
        &mut self,
        link: [[u8; 6]; 2],
        ends: [IpAddr; 2],
        fields: &TcpFields<'_>,
        payload: &[u8],
    ) -> Option<Frame> {
        let len = fields.header_len() + payload.len();
        self.packet(link, ends, 64, (PROTOCOL_TCP, len), |segment| {
            segment[fields.header_len()..].copy_from_slice(payload);
            fields.emit(ends, segment);
        })
    }

    /// A frame about neighbours, or the answer to an echo.
    pub(crate) fn control(&mut self, control: &ControlFrame<'_>) -> Option<Frame> {
        const UNTAGGED: [Option<(u16, u16)>; 2] = [None; 2];
        let mut frame = self.cut(control.len_bytes(&UNTAGGED))?;
        control.emit(&UNTAGGED, frame.bytes_mut());
        Some(frame)
    }
}
