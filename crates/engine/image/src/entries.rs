//! The image: all that was there at the start, parents first.

use hashbrown::{HashMap, HashSet};
use lineside_rows::unescape;

use crate::attributes::Node;
use crate::kind::Kind;
use crate::names::{Key, Place, is_safe, number};
use crate::repair_kind::RepairKind;
use crate::tree::Tree;

/// The folder of objects that have no name.
pub const UNNAMED: &str = "by-file-id";

/// Permission bits of what was never seen.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// The entry that all others are below.
const TOP: u32 = 0;
/// Of the top, and of what the image adds: it is no node of the tree.
const ADDED: u32 = u32::MAX;

/// A name of a node in an entry that is a directory.
#[derive(Debug)]
struct Named {
    node: u32,
    parent: u32,
    name: Box<[u8]>,
    /// The entry that has the same node.
    link_of: Option<u32>,
    name_repair: Option<RepairKind>,
}

/// An entry of the image.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Its name in its directory; of the top it is empty.
    pub name: &'a [u8],
    /// The entry that it is in. That of the top is the top.
    pub parent: u32,
    /// What it is.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// Owner, if it is known.
    pub uid: Option<u32>,
    /// Group, if it is known.
    pub gid: Option<u32>,
    /// Bytes in it.
    pub size: u64,
    /// When it was modified, if it is known.
    pub mtime_ns: Option<i64>,
    /// What a symbolic link holds, as the tables have it.
    pub target: Option<&'a str>,
    /// Major and minor number of a device.
    pub device: Option<(u32, u32)>,
    /// It is another name of this entry, which comes before it.
    pub link_of: Option<u32>,
    /// Its `file_id`.
    pub file: Option<i64>,
    /// The first operation that showed it.
    pub id: i64,
    /// It is the top or a folder of the image's own.
    pub is_added: bool,
    pub(crate) name_repair: Option<RepairKind>,
    pub(crate) has_kind: bool,
    pub(crate) known: u8,
    pub(crate) guessed: u8,
}

/// The tree as it was at the start.
#[derive(Debug)]
pub struct Image {
    nodes: Vec<Node>,
    files: HashMap<i64, u32>,
    entries: Vec<Named>,
    /// The first entry of each node.
    of_node: HashMap<u32, u32>,
    /// The node of each server's root, of NFSv4.
    servers: HashMap<u32, u32>,
    /// Files that the trace made.
    made: u64,
}

impl Image {
    /// How many entries there are; 0 is the top.
    pub fn len(&self) -> u32 {
        u32::try_from(self.entries.len()).unwrap_or(u32::MAX)
    }

    /// Whether nothing was there.
    pub fn is_empty(&self) -> bool {
        self.entries.len() <= 1
    }

    /// Objects that calls of the trace made.
    pub fn made_count(&self) -> u64 {
        self.made
    }

    /// An entry, by its place: parents come before what is in them.
    pub fn entry(&self, at: u32) -> Entry<'_> {
        let named = &self.entries[at as usize];
        let added = Node::default();
        let node = self.nodes.get(named.node as usize);
        let of = node.unwrap_or(&added);
        let is_added = node.is_none() || at == TOP;
        let kind = match is_added {
            true => Kind::Directory,
            false => of.kind.unwrap_or(Kind::File),
        };
        let seen = of.known | of.guessed;
        let has = |bit: u8| seen & bit > 0;
        let mode = match (has(crate::attributes::MODE), kind) {
            (true, _) => of.mode,
            (false, Kind::Directory) => DIRECTORY_MODE,
            (false, _) => FILE_MODE,
        };
        Entry {
            name: &named.name,
            parent: named.parent,
            kind,
            mode,
            uid: has(crate::attributes::UID).then_some(of.uid),
            gid: has(crate::attributes::GID).then_some(of.gid),
            size: of.size,
            mtime_ns: has(crate::attributes::MTIME).then_some(of.mtime_ns),
            target: node.and_then(|node| node.target.as_deref()),
            device: of.device.as_deref().copied(),
            link_of: named.link_of,
            file: of.file,
            id: of.id,
            is_added,
            name_repair: named.name_repair,
            has_kind: of.kind.is_some(),
            known: of.known,
            guessed: of.guessed,
        }
    }

    /// The entry of an object that was there at the start.
    pub fn find(&self, file: i64) -> Option<u32> {
        let node = self.resolved(*self.files.get(&file)?);
        self.of_node.get(&node).copied()
    }

    /// The path of an object that was there at the start, below the top, whose own is empty.
    pub fn path_of(&self, file: i64) -> Option<Vec<u8>> {
        self.find(file).map(|entry| self.path(entry))
    }

    /// The path of the root of a server's file systems, as NFSv4 sees it.
    pub fn root_of(&self, server: u32) -> Option<Vec<u8>> {
        let node = self.resolved(*self.servers.get(&server)?);
        self.of_node.get(&node).map(|&entry| self.path(entry))
    }

    /// The path of an entry below the top.
    pub fn path(&self, entry: u32) -> Vec<u8> {
        let mut steps = Vec::new();
        let mut at = entry;
        while at != TOP {
            let named = &self.entries[at as usize];
            steps.push(&*named.name);
            at = named.parent;
        }
        steps.reverse();
        steps.join(&b'/')
    }

    fn of(tree: Tree) -> Self {
        let mut making = Making::new(tree);
        making.place_roots();
        making.place_rest();
        let Making { mut image, .. } = making;
        let is_made = |node: &&Node| node.is_made && node.alias.is_none();
        image.made = image.nodes.iter().filter(is_made).count() as u64;
        image
    }

    fn is_placed(&self, node: u32) -> bool {
        self.of_node.contains_key(&node)
    }

    fn resolved(&self, node: u32) -> u32 {
        let mut at = node;
        while let Some(alias) = self.nodes[at as usize].alias {
            at = alias;
        }
        at
    }
}

impl Tree {
    /// The image: all that was there at the start.
    pub fn finish(self) -> Image {
        Image::of(self)
    }
}

/// A name at the start.
#[derive(Debug)]
struct AtFirst {
    parent: u32,
    name: Box<str>,
    node: u32,
}

/// All of them, in order. Where a directory was first seen without its handle, a name in it may be
/// there twice: its objects are one, and so is what is in these.
fn names_at_first(tree: &mut Tree) -> Vec<AtFirst> {
    /// Directories in directories for which this is done: the time that a trace takes has a bound.
    const DEPTH_MAX: usize = 64;
    let mut names = Vec::new();
    for (Key(parent, name), place) in std::mem::take(&mut tree.names).into_all() {
        if let Place::Node(node) = place.at_first {
            names.push(AtFirst { parent, name, node });
        }
    }
    for depth in 0..=DEPTH_MAX {
        for name in &mut names {
            (name.parent, name.node) = (tree.resolved(name.parent), tree.resolved(name.node));
        }
        names.sort_unstable_by(|one, other| {
            (one.parent, &one.name, one.node).cmp(&(other.parent, &other.name, other.node))
        });
        let mut is_done = true;
        for pair in names.windows(2).filter(|_| depth < DEPTH_MAX) {
            let [one, other] = pair else { continue };
            if (one.parent, &one.name) == (other.parent, &other.name) {
                is_done &= !tree.unify_anonymous(one.node, other.node);
            }
        }
        if is_done {
            break;
        }
    }
    let is_made = |node: u32| tree.nodes[node as usize].is_made;
    names.retain(|name| !is_made(name.node) && !is_made(name.parent));
    names.dedup_by(|one, other| (one.parent, &one.name) == (other.parent, &other.name));
    names
}

/// An image that is being made.
struct Making {
    image: Image,
    roots: Vec<(u32, Box<str>)>,
    /// In the order of directories and names.
    names: Vec<AtFirst>,
    /// The folder of what has no name, once there is one.
    unnamed: Option<u32>,
    /// Names that the image itself gave.
    given: HashSet<(u32, Box<[u8]>)>,
}

impl Making {
    fn new(mut tree: Tree) -> Self {
        let names = names_at_first(&mut tree);
        let of_servers = tree.roots.iter().filter(|root| root.path.is_empty());
        let servers = of_servers.map(|root| (root.server, root.node)).collect();
        let roots = std::mem::take(&mut tree.roots).into_iter();
        let roots = roots.map(|root| (tree.resolved(root.node), root.path));
        let roots: Vec<_> = roots.collect();
        let top = Named {
            node: ADDED,
            parent: TOP,
            name: Box::default(),
            link_of: None,
            name_repair: None,
        };
        let image = Image {
            nodes: tree.nodes,
            files: tree.files,
            entries: vec![top],
            of_node: HashMap::new(),
            servers,
            made: 0,
        };
        Self {
            image,
            roots,
            names,
            unnamed: None,
            given: HashSet::new(),
        }
    }

    /// Gives the trees of mounts their places. One alone is the top itself.
    fn place_roots(&mut self) {
        let mut roots = std::mem::take(&mut self.roots);
        // What has a name is there already: a mount within another, and what was mounted twice.
        let mut seen: HashSet<u32> = self.names.iter().map(|name| name.node).collect();
        let first = roots.first().cloned();
        roots.retain(|(node, _)| seen.insert(*node));
        if roots.is_empty() {
            // Names lead from it to itself.
            roots.extend(first);
        }
        if let [(only, _)] = roots[..] {
            self.image.entries[0].node = only;
            self.image.of_node.insert(only, TOP);
            self.place_below(TOP);
            return;
        }
        for (node, path) in roots {
            let last = path.rsplit('/').find(|step| !step.is_empty());
            self.place(node, TOP, &unescape(last.unwrap_or("root")), None);
        }
    }

    /// Places what no name leads to: first what is in nothing, then what `..` led out of, then
    /// what is in itself.
    fn place_rest(&mut self) {
        let within: HashSet<u32> = self.names.iter().map(|name| name.node).collect();
        let parents: HashSet<u32> = self.names.iter().map(|name| name.parent).collect();
        let count = u32::try_from(self.image.nodes.len()).unwrap_or(ADDED);
        for turn in 0..3 {
            for at in 0..count {
                let node = &self.image.nodes[at as usize];
                let is_there = node.alias.is_none() && !node.is_made;
                let is_used = node.file.is_some() || node.is_named || parents.contains(&at);
                let needed = match (within.contains(&at), node.parent) {
                    (true, _) => 2,
                    (false, Some(_)) => 1,
                    (false, None) => 0,
                };
                if is_there && is_used && needed <= turn && !self.image.is_placed(at) {
                    self.place_unnamed(at);
                }
            }
        }
    }

    fn place_unnamed(&mut self, at: u32) {
        let node = &self.image.nodes[at as usize];
        let number = node.file.unwrap_or(node.id).cast_unsigned();
        let above = node.parent.map(|above| self.image.resolved(above));
        let above = above.and_then(|above| self.image.of_node.get(&above));
        let above = above.filter(|above| self.is_directory(**above));
        let parent = match (above, self.unnamed) {
            (Some(above), _) => *above,
            (None, Some(unnamed)) => unnamed,
            (None, None) => {
                let name = self.free_name(TOP, UNNAMED.as_bytes());
                let unnamed = self.add(ADDED, TOP, &name, None);
                *self.unnamed.insert(unnamed)
            }
        };
        let name = format!("{number:016x}");
        self.place(at, parent, name.as_bytes(), Some(RepairKind::Name));
    }

    /// Places a node and all that is below it.
    fn place(&mut self, node: u32, parent: u32, name: &[u8], repair: Option<RepairKind>) {
        let name = self.free_name(parent, name);
        let entry = self.add(node, parent, &name, repair);
        self.place_below(entry);
    }

    fn place_below(&mut self, entry: u32) {
        let mut at = entry;
        // What is added goes to the end, so this comes to all of it, in the order of depth.
        while let Some(named) = self.image.entries.get(at as usize) {
            let parent = named.node;
            let is_first = named.link_of.is_none() && parent != ADDED;
            // A server may say that what has names in it is no directory.
            let is_first = is_first && self.is_directory(at);
            let mut next = self.names.partition_point(|name| name.parent < parent);
            while let Some(name) = self.names.get(next).filter(|name| name.parent == parent)
                && is_first
            {
                next += 1;
                let node = name.node;
                let is_directory = self.image.nodes[node as usize].kind == Some(Kind::Directory);
                // A directory has one name.
                if self.image.is_placed(node) && is_directory {
                    continue;
                }
                let name = unescape(&name.name);
                match is_safe(&name) {
                    true => self.add(node, at, &name, None),
                    false => {
                        let other = format!("name-{:016x}", number(&name));
                        let other = self.free_name(at, other.as_bytes());
                        self.add(node, at, &other, Some(RepairKind::NameReplaced))
                    }
                };
            }
            at += 1;
        }
    }

    fn is_directory(&self, entry: u32) -> bool {
        self.image.entry(entry).kind == Kind::Directory
    }

    /// A name that the image gives, or one like it that nothing in the directory has.
    fn free_name(&mut self, parent: u32, name: &[u8]) -> Vec<u8> {
        let name = match is_safe(name) {
            true => name.to_vec(),
            false => format!("name-{:016x}", number(name)).into_bytes(),
        };
        let mut free = name.clone();
        let mut next = 2_u64;
        while self.is_taken(parent, &free) || !self.given.insert((parent, free.as_slice().into())) {
            free = [&name[..name.len().min(200)], format!("-{next}").as_bytes()].concat();
            next += 1;
        }
        free
    }

    fn is_taken(&self, parent: u32, name: &[u8]) -> bool {
        let node = self.image.entries[parent as usize].node;
        let Ok(text) = std::str::from_utf8(name) else {
            return false;
        };
        // A name with a backslash stands otherwise in the tables: those are not given here.
        let found = self
            .names
            .binary_search_by(|known| (known.parent, &*known.name).cmp(&(node, text)));
        found.is_ok()
    }

    fn add(&mut self, node: u32, parent: u32, name: &[u8], repair: Option<RepairKind>) -> u32 {
        let entry = self.image.len();
        let mut link_of = None;
        if node != ADDED {
            let first = *self.image.of_node.entry(node).or_insert(entry);
            link_of = (first != entry).then_some(first);
        }
        self.image.entries.push(Named {
            node,
            parent,
            name: name.into(),
            link_of,
            name_repair: repair,
        });
        entry
    }
}
