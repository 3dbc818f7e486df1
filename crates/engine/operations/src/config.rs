use lineside_rpc::record;

use crate::decode_as::DecodeAs;

/// What decides the rows besides the input.
#[derive(Debug, Clone)]
pub struct Config {
    /// Flows: windows, bounds, the interval of `connections`.
    pub flow: lineside_flow::Config,
    /// Records: bounds.
    pub record: record::Config,
    /// What goes before content.
    pub decode_as: DecodeAs,
    /// A call without reply for this long is given up. Silence of hours ends no call: memory bounds
    /// those that wait.
    pub reply_timeout_ns: i64,
    /// Calls outstanding at once, over all connections, as far as a quarter of the memory bears
    /// them.
    pub outstanding_max: usize,
    /// Answered calls remembered per connection, to recognise their repetitions.
    pub answered_max: usize,
    /// Facts of files remembered per connection, to report each once.
    pub facts_max: usize,
    /// Whether data is checksummed.
    pub checksums: bool,
    /// Whether calls that can take the fast path do; the rows are the same without it.
    pub fast_path: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            flow: lineside_flow::Config::default(),
            record: record::Config::default(),
            decode_as: DecodeAs::default(),
            reply_timeout_ns: 7 * 86_400 * 1_000_000_000,
            outstanding_max: 1 << 20,
            answered_max: 256,
            facts_max: 1 << 18,
            checksums: true,
            fast_path: true,
        }
    }
}
