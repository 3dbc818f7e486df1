//! What the link of a connection can do, by the least time that a byte took.

use hashbrown::HashMap;

/// Connections whose best rates are remembered.
const CONNECTIONS_MAX: usize = 1 << 16;

/// Messages of fewer bytes say little of what a link carries.
const BEST_BYTES_MIN: u64 = 8 << 10;

/// The least time that a byte took, of calls and of replies of a connection: what its link can do.
#[derive(Debug, Default)]
pub(crate) struct Best {
    /// Nanoseconds a byte, of WRITE's calls and of READ's replies.
    of: HashMap<(i64, bool), f64>,
}

impl Best {
    pub(super) fn note(&mut self, connection: i64, is_call: bool, bytes: u64, took_ns: u64) {
        let key = (connection, is_call);
        if bytes < BEST_BYTES_MIN || self.of.len() >= CONNECTIONS_MAX && !self.of.contains_key(&key)
        {
            return;
        }
        let each = took_ns as f64 / bytes as f64;
        let best = self.of.entry(key).or_insert(each);
        *best = best.min(each);
    }

    /// How long so many bytes take at the best that was seen; 0 if nothing was.
    pub(crate) fn time_ns(&self, connection: i64, is_call: bool, bytes: u64) -> u64 {
        let each = self.of.get(&(connection, is_call)).copied();
        (each.unwrap_or(0.0) * bytes as f64) as u64
    }
}
