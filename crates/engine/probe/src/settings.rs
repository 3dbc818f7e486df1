//! What a probe does.

/// What a probe does.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Echoes.
    pub count: u32,
    /// From one to the next, at least 4 ns.
    pub interval_ns: u64,
    /// How long the last answers are waited for.
    pub patience_ns: u64,
    /// Bytes of IP packets that are sent and asked for at most, both ways together.
    pub budget_bytes: u64,
    /// Bytes of the headers of IP and UDP: 28 or 48.
    pub ip_header_bytes: u32,
    /// Draws.
    pub seed: u64,
}

/// The header of Ethernet: rates count it, as those of an emulated link do.
const ETHERNET_BYTES: u32 = 14;

impl Settings {
    /// Bytes of headers in a frame.
    pub(crate) fn frame_header_bytes(&self) -> u32 {
        self.ip_header_bytes + ETHERNET_BYTES
    }
}
