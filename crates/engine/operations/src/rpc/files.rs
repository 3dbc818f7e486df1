//! Files: their handles and ids, and the facts that the table `files` reports once for each
//! connection.

use std::net::IpAddr;

use lineside_account::{Counter, Counters};
use lineside_frame::View;
use lineside_rows::{RecordSink, RowRef, Word, is_success};
use twox_hash::XxHash3_64;

use super::Operations;
use super::connection::RpcConnection;
use super::operation::Slot;

/// Bytes of a handle: of NFSv4 (NFS4_FHSIZE); NFSv3's are at most 64.
const HANDLE_MAX: usize = 128;

/// What a known fact costs, to draw on the budget: an entry of a set.
pub(super) const FACT_BYTES: usize = 16;
/// The same of a name.
pub(super) const NAME_BYTES: usize = 24;

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
    /// Empty if it is not known.
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

/// The key of a name in a directory.
fn place_key(parent: i64, name: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(parent.cast_unsigned(), name)
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
        if !fact.handle.is_empty() {
            row.handle.set(fact.handle);
        }
        row.parent_file_id = fact.parent;
        if let Some(name) = fact.name {
            row.name.set(name);
        }
        row.file_type = fact.file_type;
        row.file_size = fact.size;
        self.sink.row(RowRef::Files(row));
        if let Some(name) = fact.name {
            // It also reported that the file exists.
            self.is_new_fact(connection, existence_key(fact.file_id), counters);
            self.remember_name(connection, fact.parent, name, fact.file_id);
        }
    }

    /// Reports the new name of a file that was renamed, if this connection has reported the old
    /// one: the call names directories, and no file.
    pub(crate) fn report_rename(&mut self, connection: usize, slot: Slot, counters: &mut Counters) {
        let operation = &mut self.operations[slot];
        if operation.row.name2.is_null() {
            return;
        }
        let is_renamed = operation.row.operation == Word::Known("RENAME")
            && matches!(operation.row.status, Word::Known(status) if is_success(status));
        if !self.wants_files || operation.row.reply_ambiguous || !is_renamed {
            return;
        }
        let row = &mut operation.row;
        let (name, name2) = (
            std::mem::take(&mut row.name),
            std::mem::take(&mut row.name2),
        );
        self.follow_rename(connection, slot, [name.bytes(), name2.bytes()], counters);
        let row = &mut self.operations[slot].row;
        (row.name, row.name2) = (name, name2);
    }

    /// A file with the first of two names has the second one now.
    fn follow_rename(
        &mut self,
        connection: usize,
        slot: Slot,
        names: [Option<&[u8]>; 2],
        counters: &mut Counters,
    ) {
        let row = &self.operations[slot].row;
        let (Some(from), Some(to), Some(server)) = (row.file_id, row.file2_id, row.server_address)
        else {
            return;
        };
        let [Some(old), Some(new)] = names else {
            return;
        };
        let (operation_id, time_ns) = (row.operation_id, row.reply_end_ns);
        let known = &mut self.connection(connection).names;
        let Some(file_id) = known.remove(&place_key(from, old)) else {
            return counters.count(Counter::RenamesUnfollowed);
        };
        self.budget.give_back(NAME_BYTES);
        let fact = Fact {
            operation_id,
            time_ns,
            server,
            handle: &[],
            file_id,
            parent: Some(to),
            name: Some(new),
            file_type: Word::None,
            size: None,
        };
        // The file may have had this name before, and another since.
        let facts = &mut self.connection(connection).facts;
        if facts.remove(&fact.key()) {
            self.budget.give_back(FACT_BYTES);
        }
        self.report_fact(connection, &fact, counters);
    }

    /// Where a file has which name, to know it when it is renamed.
    fn remember_name(&mut self, connection: usize, parent: Option<i64>, name: &[u8], file: i64) {
        let Some(parent) = parent else {
            return;
        };
        let key = place_key(parent, name);
        let (connections, budget) = (&mut self.connections, &self.budget);
        let rpc = connections[connection].as_mut().expect("a slot in use");
        if rpc.names.contains_key(&key) || budget.draw_as(rpc.claim(), NAME_BYTES) {
            rpc.names.insert(key, file);
        }
    }

    fn is_new_fact(&mut self, connection: usize, key: u64, counters: &mut Counters) -> bool {
        let facts_max = self.config.facts_max;
        let (connections, budget) = (&mut self.connections, &self.budget);
        let rpc = { connections[connection].as_deref_mut() }.expect("a slot in use");
        let claim = rpc.claim();
        let RpcConnection { facts, names, .. } = rpc;
        if facts.contains(&key) {
            return false;
        }
        if facts.len() >= facts_max || !budget.draw_as(claim, FACT_BYTES) {
            counters.count(Counter::FactsLimit);
            budget.give_back(facts.len() * FACT_BYTES + names.len() * NAME_BYTES);
            facts.clear();
            names.clear();
            if !budget.draw_as(claim, FACT_BYTES) {
                return true;
            }
        }
        facts.insert(key);
        true
    }
}
