//! Files: their handles and ids, and the facts that the table `files` reports once for each
//! connection.

use std::net::IpAddr;

use hashbrown::{HashMap, HashSet};
use lineside_account::{Budget, Claim, Counter, Counters};
use lineside_frame::View;
use lineside_rows::Word;
use twox_hash::XxHash3_64;

/// Bytes of a handle: of NFSv4 (NFS4_FHSIZE); NFSv3's are at most 64.
const HANDLE_MAX: usize = 128;

/// What a known fact costs, to draw on the budget: an entry of a set.
const FACT_BYTES: usize = 16;
/// The same of a name.
const NAME_BYTES: usize = 24;

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
    /// `None`: a name that was listed without a handle.
    pub(crate) file_id: Option<i64>,
    /// Its number within the file system, of one that was listed.
    pub(crate) fileid: Option<i64>,
    pub(crate) parent: Option<i64>,
    pub(crate) name: Option<&'a [u8]>,
    pub(crate) file_type: Word,
    pub(crate) size: Option<i64>,
}

impl Fact<'_> {
    /// What makes it new: which file, and where it has which name. A changed size is no new fact,
    /// else each WRITE would report one.
    pub(crate) fn key(&self) -> u64 {
        let file = existence_key(self.file_id.or(self.fileid).unwrap_or(0));
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
fn existence_key(file: i64) -> u64 {
    file.cast_unsigned()
}

/// What a connection has reported of files.
#[derive(Debug, Default)]
pub(crate) struct KnownFiles {
    /// Hashes of the facts already reported.
    facts: HashSet<u64>,
    /// The file that has a name in a directory, by a hash of both.
    names: HashMap<u64, i64>,
}

impl KnownFiles {
    /// Whether it was reported that a file exists.
    #[inline]
    pub(crate) fn has_reported(&self, file: i64) -> bool {
        self.facts.contains(&existence_key(file))
    }

    /// What they draw on the budget.
    pub(crate) fn drawn(&self) -> usize {
        self.facts.len() * FACT_BYTES + self.names.len() * NAME_BYTES
    }
}

/// The files of a connection, with what they may draw.
pub(crate) struct Files<'a> {
    pub(crate) known: &'a mut KnownFiles,
    pub(crate) budget: &'a Budget,
    pub(crate) claim: Claim,
    /// Facts that are remembered.
    pub(crate) facts_max: usize,
}

impl Files<'_> {
    /// Whether a fact is new; from now on it is not.
    pub(crate) fn is_new_fact(&mut self, key: u64, counters: &mut Counters) -> bool {
        let Self { budget, claim, .. } = *self;
        let KnownFiles { facts, names } = &mut *self.known;
        if facts.contains(&key) {
            return false;
        }
        if facts.len() >= self.facts_max || !budget.draw_as(claim, FACT_BYTES) {
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

    /// A fact was reported with a name: the file exists, and has that name, which is remembered to
    /// know it when it is renamed.
    pub(crate) fn remember_name(
        &mut self,
        (parent, name): (Option<i64>, &[u8]),
        file: i64,
        counters: &mut Counters,
    ) {
        self.is_new_fact(existence_key(file), counters);
        let Some(parent) = parent else {
            return;
        };
        let key = place_key(parent, name);
        let names = &mut self.known.names;
        if names.contains_key(&key) || self.budget.draw_as(self.claim, NAME_BYTES) {
            names.insert(key, file);
        }
    }

    /// Whether a file with a handle is known to have a name in a directory.
    pub(crate) fn has_name(&self, parent: Option<i64>, name: &[u8]) -> bool {
        parent.is_some_and(|parent| self.known.names.contains_key(&place_key(parent, name)))
    }

    /// The file that has lost a name in a directory, if it was remembered.
    pub(crate) fn take_name(&mut self, parent: i64, name: &[u8]) -> Option<i64> {
        let file = self.known.names.remove(&place_key(parent, name))?;
        self.budget.give_back(NAME_BYTES);
        Some(file)
    }

    /// A fact may be reported once more.
    pub(crate) fn forget(&mut self, fact: &Fact<'_>) {
        if self.known.facts.remove(&fact.key()) {
            self.budget.give_back(FACT_BYTES);
        }
    }
}
