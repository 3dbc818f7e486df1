//! The paper's experiments on the emulated adapter, in virtual time.

mod datagrams;
mod streams;

pub use datagrams::{Flow, QueueSample, lone_packet_ns, queue_samples, run_flow};
pub use streams::{Streams, StreamsOutcome, run_streams};
