//! The machine that is emulated.

use serde::Serialize;

use crate::policy::{LEAST_BYTES, Mode};

/// The machine of an emulated adapter, and how it forwards. The defaults are one set for all
/// figures of the paper.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parameters {
    /// How payloads are forwarded.
    pub mode: Mode,
    /// Payload memory that no posted receive holds: the paper's effective size.
    pub cache_bytes: u64,
    /// Each way of the link, bytes a second. The paper's gigabit.
    pub link_bytes_per_s: u64,
    /// The bus between adapter and host, both ways together, under load. From the paper's peaks
    /// with 56 KB: 110 MB/s cross it once, 60 MB/s twice.
    pub bus_bytes_per_s: u64,
    /// The same for a packet that is alone, which meets no other access to memory. Fitted to the
    /// nine latencies of the paper's Table 2.
    pub lone_bus_bytes_per_s: u64,
    /// An interrupt, and waking the thread. It serves all packets that came since the last one, so
    /// that packets share it under load. For a packet that comes alone the three parts are 25 us,
    /// the paper's 60 MB/s of 1500 bytes in `direct`; how they divide is fitted to the bandwidth of
    /// TCP at 1500 bytes.
    pub interrupt_ns: u64,
    /// What each packet adds to the interrupt that serves it.
    pub interrupt_packet_ns: u64,
    /// The forwarding thread's work for a packet, which interrupts come before.
    pub thread_ns: u64,
    /// What each further page of a packet costs the processor, half at the interrupt and half in
    /// the thread. From the paper's 20 % of the processor for 56 KB in `direct`.
    pub page_ns: u64,
    /// How much of the processor's speed is lost while the bus moves payload, in thousandths: both
    /// want the memory. From the paper's peaks with 1500 bytes, `baseline` against `direct`.
    pub stolen_permille: u64,
    /// A page: of host memory, and of the cache.
    pub page_bytes: u32,
    /// Packets that wait for the thread; more are dropped. The paper's 400.
    pub input_queue_max: usize,
    /// Packets in the adapter's buffers, each way; then the link stops its sender. A guess, large
    /// enough that it never limits what the link can carry.
    pub buffers_max: usize,
    /// Pages that are posted to receive. A guess: 64 packets of a page, and four of 56 KB.
    pub posted_pages: u32,
    /// Packets that the thread has handed over and that wait for the bus or the link out; then it
    /// waits. A guess.
    pub send_ring_max: usize,
    /// Pages that the driver has for payloads, posted or held; without a free one the link stops
    /// its sender. A guess between what the paper excludes: 400 packets of 8 KB fill the input
    /// queue and are dropped there, and those of 56 KB never are.
    pub pool_pages: u32,
    /// Packets that wait for the link to let them in; more are dropped, before the adapter. A
    /// sender that can be stopped asks [`has_room`](super::Adapter::has_room).
    pub waiting_max: usize,
    /// Shorter packets are not cached.
    pub least_bytes: u32,
}

impl Parameters {
    /// The paper's machine.
    pub fn new(mode: Mode, cache_bytes: u64) -> Self {
        Self {
            mode,
            cache_bytes,
            link_bytes_per_s: 125_000_000,
            bus_bytes_per_s: 115_000_000,
            lone_bus_bytes_per_s: 218_000_000,
            interrupt_ns: 20_000,
            interrupt_packet_ns: 1_000,
            thread_ns: 4_000,
            page_ns: 3_400,
            stolen_permille: 930,
            page_bytes: 4096,
            input_queue_max: 400,
            buffers_max: 16,
            posted_pages: 64,
            send_ring_max: 128,
            pool_pages: 1024,
            waiting_max: 1000,
            least_bytes: LEAST_BYTES,
        }
    }

    /// Pages that a packet's payload takes; none if it is not worth an entry.
    pub fn pages(&self, bytes: u32) -> usize {
        match bytes < self.least_bytes {
            true => 0,
            false => (bytes.div_ceil(self.page_bytes) as usize).min(PAGES_MAX),
        }
    }

    /// Effective pages of the cache.
    pub fn cache_pages(&self) -> u32 {
        (self.cache_bytes / u64::from(self.page_bytes)).min(u64::from(PAGES_OF_CACHE_MAX)) as u32
    }
}

/// A packet's pages: 64 KB and a header.
pub const PAGES_MAX: usize = 17;
/// The largest cache: 4 GiB of 4 KB pages.
const PAGES_OF_CACHE_MAX: u32 = 1 << 20;

/// How long `bytes` take at a rate.
pub(crate) fn time_ns(bytes: u64, bytes_per_s: u64) -> i64 {
    ((u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(bytes_per_s.max(1)))) as i64
}
