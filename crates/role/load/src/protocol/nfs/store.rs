//! Files that need no disk: what a file holds follows from its number and the place in it, until it
//! is written; what is written is kept in blocks of bounded memory.

use std::collections::{BTreeSet, HashMap};

use lineside_nfs::v3::WccAttributes;
use lineside_nfs::v3::{Attributes, Device, FileType, SetAttributes, SetTime, Status, Time};
use lineside_rpc::xdr::Optional;
use lineside_time::Nanoseconds;
use lineside_workload::Sizes;

use super::content;

/// Bytes of a block of what is written: a page of the clients.
const BLOCK: usize = 4 << 10;
/// The largest file: a number that every client can do sums with.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 43;
/// The longest name: that of the systems in use.
pub(super) const NAME_MAX: usize = 255;
/// Marks handles of this server.
const MAGIC: [u8; 8] = *b"lineside";
/// The root's number.
pub(super) const ROOT: u32 = 0;

/// What a store begins with, and its bounds.
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// The path that clients mount; paths below it can be mounted too.
    pub export: String,
    /// Directories `d00000`, `d00001` … in the root; without any, the store begins empty.
    pub directories: u32,
    /// Files `f0000000`, `f0000001` …, spread over the directories.
    pub files: u32,
    /// Bytes of each file.
    pub bytes: Sizes,
    /// Seeds the sizes.
    pub seed: u64,
    /// Files and directories at once, those that clients make among them; about 250 bytes of memory
    /// each.
    pub nodes_max: u32,
    /// Memory for what is written. A WRITE that finds no room is answered `NFS3ERR_NOSPC`. With 0
    /// nothing is kept: a WRITE moves a file's end, and its data are forgotten.
    pub written_bytes_max: usize,
}

/// Why a store cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// More than the bound.
    #[error("{files} files in {directories} directories are more than {nodes_max} at once")]
    TooMany {
        /// Files.
        files: u32,
        /// Directories.
        directories: u32,
        /// The bound.
        nodes_max: u32,
    },
    /// Files need a directory.
    #[error("{0} files in no directory: from 1 directory on")]
    NoDirectory(u32),
    /// A file that is too long.
    #[error("a file of {0} bytes: at most 8 TiB")]
    TooLong(u64),
}

#[derive(Debug)]
enum Kind {
    /// Its number may be given again.
    Free,
    File {
        /// Bytes up to here follow from their place unless they were written; those behind are 0.
        synthetic: u64,
        /// Blocks that were written.
        blocks: u32,
        /// Of an exclusive CREATE.
        verifier: Option<[u8; 8]>,
    },
    Directory {
        names: HashMap<Box<[u8]>, u32>,
        /// In the order in which they are listed: an entry's cookie is its number.
        children: BTreeSet<u32>,
    },
}

#[derive(Debug)]
struct Node {
    kind: Kind,
    generation: u32,
    parent: u32,
    name: Box<[u8]>,
    mode: u32,
    uid: u32,
    gid: u32,
    size: u64,
    atime_ns: Nanoseconds,
    mtime_ns: Nanoseconds,
    ctime_ns: Nanoseconds,
}

/// Files and directories.
#[derive(Debug)]
pub struct Store {
    nodes: Vec<Node>,
    free: Vec<u32>,
    nodes_max: u32,
    blocks: HashMap<(u32, u64), u32>,
    data: Vec<u8>,
    free_blocks: Vec<u32>,
    blocks_max: usize,
    export: String,
    now: Nanoseconds,
}

/// A part of a file that need not be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// Follows from its place: the file's number, and where it begins.
    Synthetic { file: u64, offset: u64, len: u64 },
    /// Zeros.
    Zeros(u64),
    /// Was written.
    Written(&'a [u8]),
}

impl Store {
    /// A store with its tree.
    pub fn new(settings: &StoreSettings) -> Result<Self, StoreError> {
        let &StoreSettings {
            directories,
            files,
            nodes_max,
            ..
        } = settings;
        if u64::from(directories) + u64::from(files) >= u64::from(nodes_max) {
            return Err(StoreError::TooMany {
                files,
                directories,
                nodes_max,
            });
        }
        if files > 0 && directories == 0 {
            return Err(StoreError::NoDirectory(files));
        }
        let blocks_max = settings.written_bytes_max / BLOCK;
        let mut store = Self {
            nodes: Vec::new(),
            free: Vec::new(),
            nodes_max,
            blocks: HashMap::with_capacity(blocks_max),
            data: Vec::with_capacity(blocks_max * BLOCK),
            free_blocks: Vec::with_capacity(blocks_max),
            blocks_max,
            export: settings.export.clone(),
            now: 0,
        };
        store
            .nodes
            .reserve(1 + directories as usize + files as usize);
        store.nodes.push(node(ROOT, b"", directory(), 0o777));
        for number in 0..directories {
            let name = format!("d{number:05}");
            store.add(ROOT, name.as_bytes(), directory(), 0o777);
        }
        for number in 0..files {
            let name = format!("f{number:07}");
            let size = settings.bytes.draw(settings.seed, number.into());
            if size > FILE_BYTES_MAX {
                return Err(StoreError::TooLong(size));
            }
            let place = store.add(1 + number % directories, name.as_bytes(), file(size), 0o666);
            store.nodes[place as usize].size = size;
        }
        Ok(store)
    }

    pub(super) fn set_now(&mut self, now: Nanoseconds) {
        self.now = now;
    }

    pub(super) fn export(&self) -> &str {
        &self.export
    }

    /// Adds a node in a directory; there is room for it.
    fn add(&mut self, parent: u32, name: &[u8], kind: Kind, mode: u32) -> u32 {
        let mut added = node(parent, name, kind, mode);
        (added.atime_ns, added.mtime_ns, added.ctime_ns) = (self.now, self.now, self.now);
        let place = match self.free.pop() {
            Some(place) => {
                added.generation = self.nodes[place as usize].generation;
                self.nodes[place as usize] = added;
                place
            }
            None => {
                self.nodes.push(added);
                self.nodes.len() as u32 - 1
            }
        };
        self.link(parent, name, place);
        place
    }

    fn link(&mut self, parent: u32, name: &[u8], place: u32) {
        if let Kind::Directory { names, children } = &mut self.nodes[parent as usize].kind {
            names.insert(name.into(), place);
            children.insert(place);
        }
        self.touch(parent);
    }

    fn unlink(&mut self, parent: u32, name: &[u8]) {
        if let Kind::Directory { names, children } = &mut self.nodes[parent as usize].kind
            && let Some(place) = names.remove(name)
        {
            children.remove(&place);
        }
        self.touch(parent);
    }

    fn touch(&mut self, place: u32) {
        let node = &mut self.nodes[place as usize];
        (node.mtime_ns, node.ctime_ns) = (self.now, self.now);
    }

    /// The node of a handle.
    pub(super) fn node(&self, handle: &[u8]) -> Result<u32, Status> {
        let (numbers, magic) = handle.split_first_chunk::<8>().ok_or(Status::BADHANDLE)?;
        if magic != MAGIC {
            return Err(Status::BADHANDLE);
        }
        let id = u64::from_be_bytes(*numbers);
        let (generation, place) = ((id >> 32) as u32, id as u32);
        let place = place.checked_sub(1).ok_or(Status::BADHANDLE)?;
        let node = self.nodes.get(place as usize).ok_or(Status::BADHANDLE)?;
        let is_there = node.generation == generation && !matches!(node.kind, Kind::Free);
        is_there.then_some(place).ok_or(Status::STALE)
    }

    pub(super) fn handle(&self, place: u32) -> [u8; 16] {
        let mut handle = [0; 16];
        handle[..8].copy_from_slice(&self.file_id(place).to_be_bytes());
        handle[8..].copy_from_slice(&MAGIC);
        handle
    }

    pub(super) fn file_id(&self, place: u32) -> u64 {
        u64::from(self.nodes[place as usize].generation) << 32 | u64::from(place + 1)
    }

    pub(super) fn attributes(&self, place: u32) -> Attributes {
        let node = &self.nodes[place as usize];
        let (file_type, links, used) = match &node.kind {
            Kind::Directory { .. } => (FileType::DIRECTORY, 2, BLOCK as u64),
            _ => (FileType::REGULAR, 1, node.size.next_multiple_of(512)),
        };
        let size = match &node.kind {
            Kind::Directory { .. } => BLOCK as u64,
            _ => node.size,
        };
        Attributes {
            file_type: Some(file_type),
            mode: Some(node.mode),
            link_count: Some(links),
            uid: Some(node.uid),
            gid: Some(node.gid),
            size: Some(size),
            used: Some(used),
            device: Device {
                major: Some(0),
                minor: Some(0),
            },
            fsid: Some(u64::from_be_bytes(MAGIC)),
            fileid: Some(self.file_id(place)),
            atime: time(node.atime_ns),
            mtime: time(node.mtime_ns),
            ctime: time(node.ctime_ns),
        }
    }

    pub(super) fn wcc(&self, place: u32) -> WccAttributes {
        let attributes = self.attributes(place);
        WccAttributes {
            size: attributes.size,
            mtime: attributes.mtime,
            ctime: attributes.ctime,
        }
    }

    pub(super) fn is_directory(&self, place: u32) -> bool {
        matches!(self.nodes[place as usize].kind, Kind::Directory { .. })
    }

    pub(super) fn parent(&self, place: u32) -> u32 {
        self.nodes[place as usize].parent
    }

    /// Where a name of a directory leads.
    pub(super) fn look_up(&self, directory: u32, name: &[u8]) -> Result<u32, Status> {
        let node = &self.nodes[directory as usize];
        let Kind::Directory { names, .. } = &node.kind else {
            return Err(Status::NOTDIR);
        };
        match name {
            b"." => Ok(directory),
            b".." => Ok(node.parent),
            name if name.len() > NAME_MAX => Err(Status::NAMETOOLONG),
            name => names.get(name).copied().ok_or(Status::NOENT),
        }
    }

    /// A path below the export, or itself.
    pub(super) fn mounted(&self, path: &[u8]) -> Result<u32, Status> {
        let export = self.export.trim_end_matches('/').as_bytes();
        let rest = path.strip_prefix(export).ok_or(Status::NOENT)?;
        if !rest.is_empty() && rest[0] != b'/' {
            return Err(Status::NOENT);
        }
        let mut names = rest
            .split(|&byte| byte == b'/')
            .filter(|name| !name.is_empty());
        let place = names.try_fold(ROOT, |place, name| self.look_up(place, name))?;
        self.is_directory(place)
            .then_some(place)
            .ok_or(Status::NOTDIR)
    }

    /// Entries of a directory from a cookie on, each with its name.
    pub(super) fn entries(
        &self,
        directory: u32,
        from: u32,
    ) -> impl Iterator<Item = (u32, &[u8])> + use<'_> {
        let children = match &self.nodes[directory as usize].kind {
            Kind::Directory { children, .. } => Some(children),
            _ => None,
        };
        let places = children.into_iter().flat_map(move |all| all.range(from..));
        places.map(|&place| (place, &*self.nodes[place as usize].name))
    }

    fn makes(&self, directory: u32, name: &[u8]) -> Result<Option<u32>, Status> {
        if name.is_empty() || matches!(name, b"." | b"..") || name.contains(&b'/') {
            return Err(Status::INVAL);
        }
        match self.look_up(directory, name) {
            Ok(place) => Ok(Some(place)),
            Err(Status::NOENT) => {
                let count = self.nodes.len() - self.free.len();
                match count < self.nodes_max as usize {
                    true => Ok(None),
                    false => Err(Status::NOSPC),
                }
            }
            Err(status) => Err(status),
        }
    }

    /// Makes a file, or gives one that is there if `how` lets it.
    pub(super) fn create(&mut self, directory: u32, name: &[u8], how: How) -> Result<u32, Status> {
        match (self.makes(directory, name)?, how) {
            (None, how) => {
                let place = self.add(directory, name, file(0), 0o644);
                if let (How::Exclusive(asked), Kind::File { verifier, .. }) =
                    (how, &mut self.nodes[place as usize].kind)
                {
                    *verifier = Some(asked);
                }
                Ok(place)
            }
            (Some(place), How::Unchecked) if !self.is_directory(place) => Ok(place),
            (Some(place), How::Exclusive(asked)) => match self.nodes[place as usize].kind {
                Kind::File { verifier, .. } if verifier == Some(asked) => Ok(place),
                _ => Err(Status::EXIST),
            },
            (Some(_), _) => Err(Status::EXIST),
        }
    }

    pub(super) fn make_directory(&mut self, parent: u32, name: &[u8]) -> Result<u32, Status> {
        match self.makes(parent, name)? {
            None => Ok(self.add(parent, name, directory(), 0o755)),
            Some(_) => Err(Status::EXIST),
        }
    }

    /// Removes a file, or a directory without entries.
    pub(super) fn remove(
        &mut self,
        parent: u32,
        name: &[u8],
        is_directory: bool,
    ) -> Result<(), Status> {
        if matches!(name, b"." | b"..") {
            return Err(Status::INVAL);
        }
        let place = self.look_up(parent, name)?;
        match (&self.nodes[place as usize].kind, is_directory) {
            (Kind::Directory { .. }, false) => return Err(Status::ISDIR),
            (Kind::Directory { children, .. }, true) if !children.is_empty() => {
                return Err(Status::NOTEMPTY);
            }
            (Kind::File { .. }, true) => return Err(Status::NOTDIR),
            _ => {}
        }
        self.unlink(parent, name);
        self.drop_node(place);
        Ok(())
    }

    fn drop_node(&mut self, place: u32) {
        self.drop_blocks(place, 0);
        let node = &mut self.nodes[place as usize];
        node.kind = Kind::Free;
        node.generation += 1;
        self.free.push(place);
    }

    pub(super) fn rename(
        &mut self,
        (from, old): (u32, &[u8]),
        (to, new): (u32, &[u8]),
    ) -> Result<(), Status> {
        if [old, new].iter().any(|name| matches!(*name, b"." | b"..")) {
            return Err(Status::INVAL);
        }
        let place = self.look_up(from, old)?;
        let is_directory = self.is_directory(place);
        let mut above = to;
        while is_directory && above != ROOT {
            if above == place {
                return Err(Status::INVAL);
            }
            above = self.parent(above);
        }
        match self.look_up(to, new) {
            Ok(there) if there == place => return Ok(()),
            Ok(there) if self.is_directory(there) != is_directory => return Err(Status::EXIST),
            Ok(_) => self.remove(to, new, is_directory)?,
            Err(Status::NOENT) => drop(self.makes(to, new).or_else(|status| match status {
                // It takes no new place.
                Status::NOSPC => Ok(None),
                status => Err(status),
            })?),
            Err(status) => return Err(status),
        }
        self.unlink(from, old);
        self.link(to, new, place);
        let node = &mut self.nodes[place as usize];
        (node.parent, node.name, node.ctime_ns) = (to, new.into(), self.now);
        Ok(())
    }

    pub(super) fn set_attributes(
        &mut self,
        place: u32,
        wanted: &SetAttributes,
    ) -> Result<(), Status> {
        if let Some(size) = wanted.size.value() {
            self.set_size(place, size)?;
        }
        let now = self.now;
        let node = &mut self.nodes[place as usize];
        let value = |field: Optional<Option<u32>>, old: u32| field.value().unwrap_or(old);
        node.mode = value(wanted.mode, node.mode) & 0o7777;
        (node.uid, node.gid) = (value(wanted.uid, node.uid), value(wanted.gid, node.gid));
        let time = |wanted: &SetTime, old| match wanted {
            SetTime::ServerTime => now,
            SetTime::ClientTime(time) => time.nanoseconds_since_epoch().unwrap_or(old),
            _ => old,
        };
        node.atime_ns = time(&wanted.atime, node.atime_ns);
        node.mtime_ns = time(&wanted.mtime, node.mtime_ns);
        node.ctime_ns = now;
        Ok(())
    }

    fn set_size(&mut self, place: u32, size: u64) -> Result<(), Status> {
        if size > FILE_BYTES_MAX {
            return Err(Status::FBIG);
        }
        let node = &mut self.nodes[place as usize];
        let Kind::File { synthetic, .. } = &mut node.kind else {
            return Err(Status::ISDIR);
        };
        let is_shorter = size < node.size;
        *synthetic = size.min(*synthetic);
        node.size = size;
        if is_shorter {
            self.drop_blocks(place, size);
        }
        self.touch(place);
        Ok(())
    }

    /// What was written from `size` on is 0 again.
    fn drop_blocks(&mut self, place: u32, size: u64) {
        let Kind::File { blocks: count, .. } = &mut self.nodes[place as usize].kind else {
            return;
        };
        if *count == 0 {
            return;
        }
        let first = size.div_ceil(BLOCK as u64);
        let (free, before) = (&mut self.free_blocks, self.blocks.len());
        self.blocks.retain(|&(node, number), &mut slot| {
            let is_kept = node != place || number < first;
            if !is_kept {
                free.push(slot);
            }
            is_kept
        });
        *count -= (before - self.blocks.len()) as u32;
        let within = (size % BLOCK as u64) as usize;
        if within > 0
            && let Some(&slot) = self.blocks.get(&(place, size / BLOCK as u64))
        {
            self.data[slot as usize * BLOCK..][within..BLOCK].fill(0);
        }
    }

    /// Keeps bytes of a file; how many found room.
    pub(super) fn write(&mut self, place: u32, offset: u64, bytes: &[u8]) -> Result<u32, Status> {
        if self.is_directory(place) {
            return Err(Status::ISDIR);
        }
        let end = offset.checked_add(bytes.len() as u64);
        let end = end
            .filter(|&end| end <= FILE_BYTES_MAX)
            .ok_or(Status::FBIG)?;
        let mut taken = bytes.len();
        if self.blocks_max > 0 {
            let mut rest = bytes;
            let mut at = offset;
            while !rest.is_empty() {
                let within = (at % BLOCK as u64) as usize;
                let (part, behind) = rest.split_at(rest.len().min(BLOCK - within));
                let Some(slot) = self.block(place, at / BLOCK as u64) else {
                    break;
                };
                self.data[slot * BLOCK + within..][..part.len()].copy_from_slice(part);
                (at, rest) = (at + part.len() as u64, behind);
            }
            taken -= rest.len();
            if taken == 0 && !bytes.is_empty() {
                return Err(Status::NOSPC);
            }
        }
        let node = &mut self.nodes[place as usize];
        node.size = node.size.max(end - (bytes.len() - taken) as u64);
        self.touch(place);
        Ok(taken as u32)
    }

    /// Where a block of a file is kept, from now on; `None`: there is no room.
    fn block(&mut self, place: u32, number: u64) -> Option<usize> {
        if let Some(&slot) = self.blocks.get(&(place, number)) {
            return Some(slot as usize);
        }
        let slot = match self.free_blocks.pop() {
            Some(slot) => slot as usize,
            None if self.data.len() / BLOCK < self.blocks_max => {
                self.data.resize(self.data.len() + BLOCK, 0);
                self.data.len() / BLOCK - 1
            }
            None => return None,
        };
        let file = self.file_id(place);
        let block = &mut self.data[slot * BLOCK..][..BLOCK];
        block.fill(0);
        if let Kind::File {
            synthetic, blocks, ..
        } = &mut self.nodes[place as usize].kind
        {
            let start = number * BLOCK as u64;
            let known = synthetic.saturating_sub(start).min(BLOCK as u64) as usize;
            content::fill(file, start, &mut block[..known]);
            *blocks += 1;
        }
        self.blocks.insert((place, number), slot as u32);
        Some(slot)
    }

    /// Has `each` take the parts of a file from `offset` on; how many bytes there are, and whether
    /// the file ends there.
    pub(super) fn read<'a>(
        &'a self,
        place: u32,
        offset: u64,
        count: u32,
        mut each: impl FnMut(Part<'a>),
    ) -> Result<(u32, bool), Status> {
        let node = &self.nodes[place as usize];
        let &Kind::File {
            synthetic, blocks, ..
        } = &node.kind
        else {
            return Err(Status::ISDIR);
        };
        let end = offset.saturating_add(count.into()).min(node.size);
        let len = end.saturating_sub(offset) as u32;
        let file = self.file_id(place);
        let mut at = offset;
        while at < end {
            // Without blocks the rest of the file is one.
            let until = match blocks {
                0 => end,
                _ => end.min((at / BLOCK as u64 + 1) * BLOCK as u64),
            };
            let slot = match blocks {
                0 => None,
                _ => self.blocks.get(&(place, at / BLOCK as u64)),
            };
            if let Some(&slot) = slot {
                let within = (at % BLOCK as u64) as usize;
                let block = &self.data[slot as usize * BLOCK..][within..];
                each(Part::Written(&block[..(until - at) as usize]));
            } else {
                let known = until.min(synthetic.max(at));
                if known > at {
                    let len = known - at;
                    each(Part::Synthetic {
                        file,
                        offset: at,
                        len,
                    });
                }
                if until > known {
                    each(Part::Zeros(until - known));
                }
            }
            at = until;
        }
        Ok((len, offset.saturating_add(len.into()) >= node.size))
    }

    /// Nodes and bytes: how many may be, and how many more.
    pub(super) fn room(&self) -> [(u64, u64); 2] {
        let nodes = (self.nodes.len() - self.free.len()) as u64;
        let nodes_max = u64::from(self.nodes_max);
        let bytes = |blocks: usize| (blocks * BLOCK) as u64;
        let left = bytes(self.blocks_max - self.blocks.len());
        match self.blocks_max {
            0 => [
                (nodes_max, nodes_max - nodes),
                (FILE_BYTES_MAX, FILE_BYTES_MAX),
            ],
            most => [(nodes_max, nodes_max - nodes), (bytes(most), left)],
        }
    }
}

/// How a file is made: createmode3.
#[derive(Debug, Clone, Copy)]
pub(super) enum How {
    Unchecked,
    Guarded,
    Exclusive([u8; 8]),
}

fn node(parent: u32, name: &[u8], kind: Kind, mode: u32) -> Node {
    Node {
        kind,
        generation: 0,
        parent,
        name: name.into(),
        mode,
        uid: 0,
        gid: 0,
        size: 0,
        atime_ns: 0,
        mtime_ns: 0,
        ctime_ns: 0,
    }
}

fn file(synthetic: u64) -> Kind {
    Kind::File {
        synthetic,
        blocks: 0,
        verifier: None,
    }
}

fn directory() -> Kind {
    Kind::Directory {
        names: HashMap::new(),
        children: BTreeSet::new(),
    }
}

fn time(at_ns: Nanoseconds) -> Time {
    let at_ns = at_ns.max(0).unsigned_abs();
    Time {
        seconds: Some((at_ns / 1_000_000_000) as u32),
        nanoseconds: Some((at_ns % 1_000_000_000) as u32),
    }
}

#[cfg(test)]
mod tests;
