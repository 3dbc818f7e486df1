//! Where a packet came from: a frame, fragments put together, or a SYN kept as what was read of it.

use lineside_frame::{Descriptor, FrameRef};
use lineside_wire::{Ip, Layers, TcpHeader, tcp};

use crate::whole::Whole;

/// Where a packet came from.
pub(crate) enum Origin<'a> {
    Frame(&'a FrameRef),
    Whole(&'a Whole),
    Known(&'a Descriptor, &'a Layers),
}

impl Origin<'_> {
    /// The descriptor of its frame; of fragments, that of the first one.
    #[inline]
    pub(crate) fn descriptor(&self) -> &Descriptor {
        match self {
            Self::Frame(frame) => frame.descriptor(),
            Self::Whole(whole) => whole.descriptor(),
            Self::Known(descriptor, _) => descriptor,
        }
    }

    /// The bytes of its packet, as far as they are known.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Frame(frame) => frame.bytes(),
            Self::Whole(whole) => whole.first_bytes(),
            Self::Known(..) => &[],
        }
    }

    /// The options of its TCP header, as far as they were captured.
    pub(crate) fn tcp_options(&self, ip: &Ip, tcp: &TcpHeader) -> &[u8] {
        let header = match self {
            Self::Frame(frame) => frame.bytes().get(ip.payload..),
            // `ip.payload` counts from the beginning of a packet put together.
            _ => None,
        };
        let header = header.unwrap_or_default();
        let header = &header[..header.len().min(tcp.header_len)];
        header.get(tcp::HEADER_LEN..).unwrap_or_default()
    }

    #[cold]
    pub(crate) fn layers(&self) -> Layers {
        match self {
            Self::Frame(frame) => {
                let descriptor = frame.descriptor();
                let (link_type, wire_len) = (descriptor.link_type.0, descriptor.wire_len as usize);
                lineside_wire::layers(link_type, frame.bytes(), wire_len)
            }
            Self::Whole(whole) => whole.layers(),
            Self::Known(_, layers) => **layers,
        }
    }
}

/// What a packet's ends may be relative to: the identifier of an overlay, 24 bits, or else its
/// VLAN, beyond them.
#[inline]
pub(crate) fn network_of(ip: &Ip) -> Option<u32> {
    match ip.vlan {
        _ if ip.virtual_network.is_some() => ip.virtual_network,
        0 => None,
        vlan => Some(1 << 24 | u32::from(vlan)),
    }
}
