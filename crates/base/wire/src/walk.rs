//! The way through a frame, layer by layer.

use crate::Layers;

/// On the way from the first byte of a frame to its innermost packet.
pub(crate) struct Walk<'a> {
    /// The captured part of the frame, up to the end of the layer that is read.
    pub(crate) bytes: &'a [u8],
    /// Where that ended on the wire.
    pub(crate) end: usize,
    pub(crate) layers: Layers,
    /// Whether to look into tunnels.
    pub(crate) follows: bool,
}
