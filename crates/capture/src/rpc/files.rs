//! Files: their handles and ids, and the facts that the table `files` reports once for each
//! connection.

use std::net::IpAddr;

use lineside_account::{Counter, Counters};
use lineside_frame::View;
use lineside_trace::{RecordSink, RowRef, Word};
use twox_hash::XxHash3_64;

use super::Operations;

/// Bytes of a handle: of NFSv4 (NFS4_FHSIZE); NFSv3's are at most 64.
pub(super) const HANDLE_MAX: usize = 128;

/// What a known fact costs, to draw on the budget: an entry of a set.
pub(super) const FACT_BYTES: usize = 16;

/// The id of a file: XXH3 (64 bits, seed 0) of the owning server's address, 4 or 16 bytes in
/// network order, followed by the handle.
pub fn file_id(server: IpAddr, handle: &[u8]) -> i64 {
    let mut bytes = [0; 16 + HANDLE_MAX];
    let address_len = match server {
        IpAddr::V4(address) => {
            bytes[..4].copy_from_slice(&address.octets());
            4
        }
        IpAddr::V6(address) => {
            bytes[..16].copy_from_slice(&address.octets());
            16
        }
    };
    let len = address_len + handle.len().min(HANDLE_MAX);
    bytes[address_len..len].copy_from_slice(&handle[..len - address_len]);
    XxHash3_64::oneshot(&bytes[..len]).cast_signed()
}

/// The id of the file with a handle that may lie in several pieces.
#[inline]
pub(crate) fn file_id_of(server: IpAddr, handle: &View<'_>) -> i64 {
    match handle.contiguous() {
        Some(bytes) => file_id(server, bytes),
        None => file_id(server, HandleBytes::new(handle).bytes()),
    }
}

/// A copy of a handle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HandleBytes {
    bytes: [u8; HANDLE_MAX],
    len: usize,
}

impl Default for HandleBytes {
    fn default() -> Self {
        Self {
            bytes: [0; HANDLE_MAX],
            len: 0,
        }
    }
}

impl HandleBytes {
    pub(crate) fn new(view: &View<'_>) -> Self {
        let mut handle = Self::default();
        for slice in view.slices() {
            let take = slice.len().min(HANDLE_MAX - handle.len);
            handle.bytes[handle.len..handle.len + take].copy_from_slice(&slice[..take]);
            handle.len += take;
        }
        handle
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The bytes of a handle, copied only if they lie in several pieces.
pub(crate) fn handle_bytes<'b>(handle: &View<'b>, copy: &'b mut Option<HandleBytes>) -> &'b [u8] {
    match handle.contiguous() {
        Some(bytes) => &bytes[..bytes.len().min(HANDLE_MAX)],
        None => copy.insert(HandleBytes::new(handle)).bytes(),
    }
}

/// A fact about a file.
pub(crate) struct Fact<'a> {
    pub(crate) operation_id: i64,
    pub(crate) time_ns: Option<i64>,
    pub(crate) server: IpAddr,
    pub(crate) handle: &'a [u8],
    pub(crate) file_id: i64,
    pub(crate) parent: Option<i64>,
    pub(crate) name: Option<&'a [u8]>,
    pub(crate) file_type: Word,
    pub(crate) size: Option<i64>,
}

impl Fact<'_> {
    /// What makes it new: which file, and where it has which name. A changed size is no new fact,
    /// else each WRITE would report one.
    fn key(&self) -> u64 {
        let file = existence_key(self.file_id);
        let key = match self.name {
            Some(name) => XxHash3_64::oneshot_with_seed(file, name) ^ 1,
            None => file,
        };
        key ^ (self.parent.unwrap_or(0) as u64).rotate_left(17)
    }
}

/// The key of the fact that a file exists, without name and place: its id, which is a hash already.
pub(crate) fn existence_key(file: i64) -> u64 {
    file.cast_unsigned()
}

impl<S: RecordSink> Operations<S> {
    /// Reports a fact about a file unless this connection has reported it before.
    pub(crate) fn report_fact(
        &mut self,
        connection: usize,
        fact: &Fact<'_>,
        counters: &mut Counters,
    ) {
        if !self.wants_files || !self.is_new_fact(connection, fact.key(), counters) {
            return;
        }
        let row = &mut self.scratch.file;
        row.clear();
        row.file_id = fact.file_id;
        row.operation_id = fact.operation_id;
        row.time_ns = fact.time_ns;
        row.server_address = Some(fact.server);
        row.handle.set(fact.handle);
        row.parent_file_id = fact.parent;
        if let Some(name) = fact.name {
            row.name.set(name);
        }
        row.file_type = fact.file_type;
        row.file_size = fact.size;
        self.sink.row(RowRef::Files(row));
        if fact.name.is_some() {
            // It also reported that the file exists.
            self.is_new_fact(connection, existence_key(fact.file_id), counters);
        }
    }

    fn is_new_fact(&mut self, connection: usize, key: u64, counters: &mut Counters) -> bool {
        let facts_max = self.config.facts_max;
        let (connections, budget) = (&mut self.connections, &self.budget);
        let facts = &mut connections[connection]
            .as_mut()
            .expect("a slot in use")
            .facts;
        if facts.contains(&key) {
            return false;
        }
        if facts.len() >= facts_max || !budget.draw(FACT_BYTES) {
            counters.count(Counter::FactsLimit);
            budget.give_back(facts.len() * FACT_BYTES);
            facts.clear();
            if !budget.draw(FACT_BYTES) {
                return true;
            }
        }
        facts.insert(key);
        true
    }
}
