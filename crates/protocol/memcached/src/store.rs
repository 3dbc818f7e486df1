//! A bounded store of items, which answers as memcached does.
//!
//! An item is one block of key and value, found by a hash table of places. When memory is used up,
//! a hand goes round all places and removes the first item that was not asked for since it last
//! came by (second chance, an approximation of the least recently used).

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use hashbrown::HashTable;

use crate::command::{Command, Verb};
use crate::lines::push_number;

#[cfg(test)]
mod tests;

/// What a store may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all items, with what each costs beside its key and value. Default: 64 MiB, as
    /// memcached's `-m`.
    pub memory_bytes: usize,
    /// Bytes of a value. Default: 1 MiB less what memcached spends beside it, as its `-I`.
    pub value_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            value_bytes_max: (1 << 20) - 512,
        }
    }
}

/// Items by key.
#[derive(Debug)]
pub struct Store {
    items: Vec<Item>,
    free: Vec<u32>,
    /// Places of linked items, by key.
    table: HashTable<u32>,
    hasher: BuildHasherDefault<DefaultHasher>,
    /// The place at which the hand stands.
    hand: usize,
    used_bytes: usize,
    limits: Limits,
    /// The unique number of the last item that was stored.
    cas: u64,
    now_s: i64,
    flush_at_s: Option<i64>,
    evicted_count: u64,
}

/// The place of an item whose value is on its way.
pub(crate) type Ticket = u32;

/// No item.
pub(crate) const NO_ITEM: Ticket = u32::MAX;

/// Bytes that an item costs beside its key and value: its place, its entry in the table, and the
/// head of its block of memory.
const ITEM_COST_BYTES: usize = size_of::<Item>() + 8 + 16;

/// Exptimes up to this are from now, larger ones Unix times.
const RELATIVE_MAX_S: i64 = 60 * 60 * 24 * 30;

#[derive(Debug)]
struct Item {
    /// Key, then value.
    bytes: Vec<u8>,
    /// Of an item on its way with `cas`: the number that has to be there.
    cas: u64,
    /// 0: never.
    expires_s: i64,
    flags: u32,
    key_len: u8,
    stage: Stage,
    /// The hand has not come by since it was asked for.
    is_recent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Free,
    /// Its value is on its way, for this command.
    Coming(Kind),
    /// The table knows it.
    Linked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    Cas,
}

impl Item {
    fn key(&self) -> &[u8] {
        &self.bytes[..usize::from(self.key_len)]
    }

    fn value(&self) -> &[u8] {
        &self.bytes[usize::from(self.key_len)..]
    }

    fn cost(&self) -> usize {
        ITEM_COST_BYTES + self.bytes.capacity()
    }
}

impl Store {
    /// An empty one.
    pub fn new(limits: Limits) -> Self {
        Self {
            items: Vec::new(),
            free: Vec::new(),
            table: HashTable::new(),
            hasher: BuildHasherDefault::default(),
            hand: 0,
            used_bytes: 0,
            limits,
            cas: 0,
            now_s: 0,
            flush_at_s: None,
            evicted_count: 0,
        }
    }

    /// Items that it holds, expired ones that nobody has asked for since among them.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Bytes in use, of [`Limits::memory_bytes`].
    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Items that were removed to make room.
    pub fn evicted_count(&self) -> u64 {
        self.evicted_count
    }

    /// It is now this Unix time.
    pub(crate) fn advance(&mut self, now_s: i64) {
        self.now_s = now_s;
        if self.flush_at_s.is_some_and(|at| at <= now_s) {
            self.flush_all(0);
        }
    }

    /// Makes room for a value; the error is the answer.
    pub(crate) fn begin(&mut self, command: Command<'_>) -> Result<Ticket, &'static str> {
        let Command::Store {
            verb,
            key,
            flags,
            exptime,
            len,
            ..
        } = command
        else {
            return Err("SERVER_ERROR not a command with a value");
        };
        let bytes = key.len() + len as usize;
        let is_large = len as usize > self.limits.value_bytes_max;
        if is_large || !self.make_room(ITEM_COST_BYTES + bytes) {
            // What was there before would be older than what the client knows.
            if verb == Verb::Set {
                self.delete(key);
            }
            return Err(match is_large {
                true => "SERVER_ERROR object too large for cache",
                false => "SERVER_ERROR out of memory storing object",
            });
        }
        let (kind, cas) = match verb {
            Verb::Set => (Kind::Set, 0),
            Verb::Add => (Kind::Add, 0),
            Verb::Replace => (Kind::Replace, 0),
            Verb::Append => (Kind::Append, 0),
            Verb::Prepend => (Kind::Prepend, 0),
            Verb::Cas(cas) => (Kind::Cas, cas),
        };
        let mut block = Vec::with_capacity(bytes);
        block.extend_from_slice(key);
        let item = Item {
            bytes: block,
            cas,
            expires_s: self.expiry(exptime),
            flags,
            key_len: key.len() as u8,
            stage: Stage::Coming(kind),
            is_recent: false,
        };
        self.used_bytes += item.cost();
        let place = match self.free.pop() {
            Some(place) => {
                self.items[place as usize] = item;
                place
            }
            None => {
                self.items.push(item);
                self.items.len() as u32 - 1
            }
        };
        Ok(place)
    }

    /// The next bytes of a value.
    pub(crate) fn fill(&mut self, ticket: Ticket, bytes: &[u8]) {
        if ticket != NO_ITEM {
            let item = &mut self.items[ticket as usize];
            debug_assert!(item.bytes.len() + bytes.len() <= item.bytes.capacity());
            item.bytes.extend_from_slice(bytes);
        }
    }

    /// The value will not come.
    pub(crate) fn abandon(&mut self, ticket: Ticket) {
        if ticket != NO_ITEM {
            self.discard(ticket);
        }
    }

    /// The value is there; returns the answer.
    pub(crate) fn commit(&mut self, ticket: Ticket) -> &'static str {
        let item = &self.items[ticket as usize];
        let Stage::Coming(kind) = item.stage else {
            return "SERVER_ERROR no value was expected";
        };
        let cas = item.cas;
        let hash = self.hasher.hash_one(item.key());
        let old = self.lookup(hash, item.key());
        let old = old.and_then(|old| self.unexpired(old));
        let (is_stored, text) = match (kind, old) {
            (Kind::Set, _) | (Kind::Add, None) | (Kind::Replace, Some(_)) => (true, "STORED"),
            (Kind::Append | Kind::Prepend, Some(old)) => {
                let text = self.join(old, ticket, kind == Kind::Append);
                self.discard(ticket);
                return text;
            }
            (Kind::Add, Some(old)) => {
                self.items[old as usize].is_recent = true;
                (false, "NOT_STORED")
            }
            (Kind::Replace | Kind::Append | Kind::Prepend, None) => (false, "NOT_STORED"),
            (Kind::Cas, None) => (false, "NOT_FOUND"),
            (Kind::Cas, Some(old)) if self.items[old as usize].cas == cas => (true, "STORED"),
            (Kind::Cas, Some(_)) => (false, "EXISTS"),
        };
        if is_stored {
            if let Some(old) = old {
                self.unlink(old);
            }
            self.link(ticket, hash);
        } else {
            self.discard(ticket);
        }
        text
    }

    /// Appends the item of a key, if there is one, as a retrieval has it.
    pub(crate) fn write_item(
        &mut self,
        key: &[u8],
        with_cas: bool,
        touch: Option<i64>,
        out: &mut Vec<u8>,
    ) {
        let Some(place) = self.find(key) else {
            return;
        };
        let expires_s = touch.map(|exptime| self.expiry(exptime));
        let item = &mut self.items[place as usize];
        item.is_recent = true;
        item.expires_s = expires_s.unwrap_or(item.expires_s);
        out.extend_from_slice(b"VALUE ");
        out.extend_from_slice(item.key());
        out.push(b' ');
        push_number(out, u64::from(item.flags));
        out.push(b' ');
        push_number(out, item.value().len() as u64);
        if with_cas {
            out.push(b' ');
            push_number(out, item.cas);
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(item.value());
        out.extend_from_slice(b"\r\n");
    }

    /// Whether there was one.
    pub(crate) fn delete(&mut self, key: &[u8]) -> bool {
        let place = self.find(key);
        place.inspect(|&place| self.unlink(place)).is_some()
    }

    /// Whether there is one.
    pub(crate) fn touch(&mut self, key: &[u8], exptime: i64) -> bool {
        let Some(place) = self.find(key) else {
            return false;
        };
        self.items[place as usize].expires_s = self.expiry(exptime);
        true
    }

    /// Adds to the number in an item; the error is the answer.
    pub(crate) fn add(&mut self, key: &[u8], delta: u64, down: bool) -> Result<u64, &'static str> {
        let place = self.find(key).ok_or("NOT_FOUND")?;
        let item = &mut self.items[place as usize];
        let number = stored_number(item.value())
            .ok_or("CLIENT_ERROR cannot increment or decrement non-numeric value")?;
        let number = match down {
            true => number.saturating_sub(delta),
            false => number.wrapping_add(delta),
        };
        let before = item.cost();
        let len = item.bytes.len();
        item.bytes.truncate(usize::from(item.key_len));
        push_number(&mut item.bytes, number);
        // A shorter number keeps its length, as in memcached.
        if item.bytes.len() < len {
            item.bytes.resize(len, b' ');
        }
        item.is_recent = true;
        self.cas += 1;
        item.cas = self.cas;
        let after = item.cost();
        self.used_bytes = self.used_bytes - before + after;
        Ok(number)
    }

    /// Removes all items, now or once `delay_s` seconds have passed.
    pub(crate) fn flush_all(&mut self, delay_s: i64) {
        if delay_s > 0 {
            self.flush_at_s = Some(self.expiry(delay_s));
            return;
        }
        self.flush_at_s = None;
        // It takes a number, as in memcached, so that all that is stored later is newer.
        self.cas += 1;
        for place in 0..self.items.len() {
            if self.items[place].stage == Stage::Linked {
                self.discard(place as u32);
            }
        }
        self.table.clear();
    }

    fn expiry(&self, exptime: i64) -> i64 {
        match exptime {
            0 => 0,
            ..0 => i64::MIN,
            1..=RELATIVE_MAX_S => self.now_s.saturating_add(exptime),
            _ => exptime,
        }
    }

    /// The place of a key that has not expired.
    fn find(&mut self, key: &[u8]) -> Option<u32> {
        let place = self.lookup(self.hasher.hash_one(key), key)?;
        self.unexpired(place)
    }

    fn lookup(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let is_key = |&place: &u32| self.items[place as usize].key() == key;
        self.table.find(hash, is_key).copied()
    }

    fn unexpired(&mut self, place: u32) -> Option<u32> {
        let expires_s = self.items[place as usize].expires_s;
        if expires_s != 0 && expires_s <= self.now_s {
            self.unlink(place);
            return None;
        }
        Some(place)
    }

    fn link(&mut self, place: u32, hash: u64) {
        self.cas += 1;
        let item = &mut self.items[place as usize];
        item.stage = Stage::Linked;
        item.cas = self.cas;
        let (items, hasher) = (&self.items, &self.hasher);
        let rehash = |&place: &u32| hasher.hash_one(items[place as usize].key());
        self.table.insert_unique(hash, place, rehash);
    }

    fn unlink(&mut self, place: u32) {
        let hash = self.hasher.hash_one(self.items[place as usize].key());
        if let Ok(entry) = self.table.find_entry(hash, |&other| other == place) {
            entry.remove();
        }
        self.discard(place);
    }

    /// Gives the memory of a place back that the table does not know.
    fn discard(&mut self, place: u32) {
        let item = &mut self.items[place as usize];
        self.used_bytes -= item.cost();
        item.bytes = Vec::new();
        item.stage = Stage::Free;
        self.free.push(place);
    }

    /// Puts the value of `ticket` behind or before that of `old`, which keeps its flags and time.
    fn join(&mut self, old: u32, ticket: Ticket, behind: bool) -> &'static str {
        let len =
            self.items[old as usize].value().len() + self.items[ticket as usize].value().len();
        if len > self.limits.value_bytes_max {
            return "SERVER_ERROR out of memory storing object";
        }
        let more = std::mem::take(&mut self.items[ticket as usize].bytes);
        self.used_bytes -= more.capacity();
        let item = &mut self.items[old as usize];
        let before = item.cost();
        let value = &more[usize::from(item.key_len)..];
        item.bytes.reserve_exact(value.len());
        match behind {
            true => item.bytes.extend_from_slice(value),
            false => {
                let at = usize::from(item.key_len);
                item.bytes.splice(at..at, value.iter().copied());
            }
        }
        item.is_recent = true;
        self.cas += 1;
        item.cas = self.cas;
        let after = item.cost();
        self.used_bytes = self.used_bytes - before + after;
        "STORED"
    }

    /// Removes items until `bytes` fit; false: they cannot.
    fn make_room(&mut self, bytes: usize) -> bool {
        // Each place at most twice: once to take its second chance, once to be removed.
        let mut steps = self.items.len() * 2;
        while self.used_bytes.saturating_add(bytes) > self.limits.memory_bytes {
            if steps == 0 {
                return false;
            }
            steps -= 1;
            self.hand = (self.hand + 1) % self.items.len();
            let item = &mut self.items[self.hand];
            match item.stage {
                Stage::Linked if item.is_recent => item.is_recent = false,
                Stage::Linked => {
                    self.unlink(self.hand as u32);
                    self.evicted_count += 1;
                }
                Stage::Free | Stage::Coming(_) => {}
            }
        }
        true
    }
}

/// The number in an item, as strtoull reads it: spaces, a plus sign, digits, the end or a space.
fn stored_number(value: &[u8]) -> Option<u64> {
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let begin = value.iter().position(|byte| !is_space(byte))?;
    let value = &value[begin..];
    let end = value.iter().position(is_space).unwrap_or(value.len());
    crate::lines::number(&value[..end])
}
