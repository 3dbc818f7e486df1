//! What bounds a direction, and what it may be taken for.

/// How many times `record_max_bytes` a fragment may state and still be one.
const LONG_MAX: usize = 16;

/// Bounds of a direction.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// A fragment longer than this is no fragment: the mark is wrong, or it is counted as a limit.
    /// NFS moves 1 MiB at a time; some servers allow more.
    pub record_max_bytes: usize,
    /// Bytes of one message that are held for parsing; a longer one is parsed as far as that.
    /// A READDIRPLUS reply can have 1 MiB.
    pub message_held_max_bytes: usize,
    /// Bytes held while a header is searched.
    pub search_held_max_bytes: usize,
    /// Bytes searched in vain until a stream is taken for something else.
    pub search_max_bytes: u64,
    /// Whether calls of programs that no registry names (RFC 5531 section 8.4) are calls too.
    pub any_program: bool,
    /// Whether it is certain that there is RPC, so that no stream is taken for something else.
    pub certain: bool,
}

impl Config {
    /// Whether a fragment that states so much more than `record_max_bytes` may be one.
    pub(crate) fn may_be_long(&self, len: usize) -> bool {
        len <= LONG_MAX * self.record_max_bytes
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            record_max_bytes: 8 << 20,
            message_held_max_bytes: (1 << 20) + 4096,
            search_held_max_bytes: 4 << 20,
            search_max_bytes: 16 << 20,
            any_program: false,
            certain: false,
        }
    }
}
