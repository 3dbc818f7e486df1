//! The tree, as calls show and change it.

use hashbrown::HashMap;

use crate::attributes::Node;
use crate::kind::Kind;
use crate::names::{Names, Place};
use crate::row::{Action, Creation, ListedName, Outcome, Row};

/// A file that a call makes has a change time within this of the directory's: servers stamp both
/// by the tick of a clock, of at most 10 ms.
const TICK_NS: i64 = 10_000_000;

/// The tree of files, as far as rows have shown it.
#[derive(Debug, Default)]
pub struct Tree {
    pub(crate) nodes: Vec<Node>,
    pub(crate) files: HashMap<i64, u32>,
    pub(crate) names: Names,
    /// Where trees begin, with the path that was mounted.
    pub(crate) roots: Vec<Root>,
    compound: Compound,
}

/// A directory that no name leads to, because it was mounted.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) node: u32,
    pub(crate) server: u32,
    /// Empty: the root of the server's file systems.
    pub(crate) path: Box<str>,
}

/// What operations of the same compound begin with.
#[derive(Debug, Default)]
struct Compound {
    call: Option<i64>,
    current: Option<u32>,
    saved: Option<u32>,
}

impl Tree {
    /// A tree of which nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a row, in the order of calls. Those of calls that came again are not given, nor of
    /// operations that the server did not reach.
    pub fn row(&mut self, row: &Row<'_>) {
        if row.is_of_compound && self.compound.call != Some(row.call) {
            self.compound = Compound {
                call: Some(row.call),
                ..Compound::default()
            };
        }
        let is_second = matches!(row.action, Action::Rename | Action::Link);
        let (current, saved) = match is_second {
            true => (row.file2, row.file),
            false => (row.file, None),
        };
        let current = self.handle(row, current, self.compound.current);
        let saved = self.handle(row, saved, self.compound.saved);
        if row.is_of_compound && row.action != Action::PutHandle {
            self.compound.current = current;
        }
        let object = self.act(row, current, saved);
        if let Some(object) = object {
            let node = &mut self.nodes[object as usize];
            node.show(&row.after);
        }
    }

    /// Takes a name that a READDIRPLUS or READDIR has listed, after the row of that.
    pub fn listed(&mut self, listed: &ListedName<'_>) {
        if listed.name == "." || listed.name == ".." {
            return;
        }
        let directory = self.node(listed.directory, listed.id);
        let found = self.found(directory, listed.name, listed.file, listed.id);
        let node = &mut self.nodes[found as usize];
        if let Some(kind) = listed.kind {
            node.show_kind(kind);
        }
        node.show_size(listed.size);
    }

    /// Whether a call of the trace made the object: nothing of it is in the image.
    pub fn is_made(&self, file: i64) -> bool {
        { self.find(file) }.is_some_and(|node| {
            let node = &self.nodes[node as usize];
            node.is_made || node.is_remade
        })
    }

    /// Whether more calls of the object itself, not of names, show nothing new of it.
    pub fn is_settled(&self, file: i64) -> bool {
        { self.find(file) }.is_some_and(|node| self.nodes[node as usize].is_settled())
    }

    /// The node of a handle; where the row has none, that of the compound so far.
    fn handle(&mut self, row: &Row<'_>, file: Option<i64>, so_far: Option<u32>) -> Option<u32> {
        let so_far = so_far.filter(|_| row.is_of_compound);
        let so_far = so_far.map(|node| self.resolved(node));
        let Some(file) = file else {
            return so_far;
        };
        match (so_far, self.find(file)) {
            (Some(node), None) if self.is_anonymous(node) => {
                self.name_file(node, file);
                Some(node)
            }
            (Some(node), Some(known)) if node != known && self.is_anonymous(node) => {
                self.unify(node, known);
                Some(known)
            }
            _ => Some(self.node(file, row.id)),
        }
    }

    /// Does what the operation does. The node that its attributes are of.
    fn act(&mut self, row: &Row<'_>, current: Option<u32>, saved: Option<u32>) -> Option<u32> {
        let done = row.outcome == Outcome::Done;
        match row.action {
            Action::Attributes | Action::GetHandle => current,
            Action::Look | Action::Open | Action::Make(_) | Action::Remove(_) => {
                let directory = current?;
                self.of_name(row, directory)
            }
            Action::LookAtParent if done => {
                let parent = self.parent_of(current?, row.made, row.id);
                self.compound.current = Some(parent);
                Some(parent)
            }
            Action::Rename => {
                self.rename(row, saved?, current?);
                saved
            }
            Action::Link => {
                self.link(row, saved?, current?);
                saved
            }
            Action::Read | Action::Write | Action::Set | Action::ReadLink => {
                self.of_object(row, current?);
                current
            }
            Action::List => {
                self.guess_kind(current?, Kind::Directory);
                current
            }
            Action::Mount if done => {
                self.mount(row);
                None
            }
            Action::PutRoot if done => {
                let root = self.root(row.server, "", None, row.id);
                self.compound.current = Some(root);
                None
            }
            Action::PutHandle => {
                self.compound.current = row.file.map(|file| self.node(file, row.id));
                None
            }
            Action::Save => {
                self.compound.saved = current;
                None
            }
            Action::Restore => {
                // The row has the handle from before.
                self.compound.current = self.compound.saved;
                None
            }
            Action::LookAtParent | Action::Mount | Action::PutRoot => None,
        }
    }

    /// LOOKUP, OPEN, CREATE, REMOVE and the like. The node that attributes are of.
    fn of_name(&mut self, row: &Row<'_>, directory: u32) -> Option<u32> {
        self.show_directory(row, directory);
        let name = match row.name {
            Some(name) => name,
            // OPEN of a file by its handle.
            None if row.action == Action::Open => return Some(directory),
            None => {
                // What is current afterwards is not known.
                self.compound.current = row.made.map(|file| self.node(file, row.id));
                return row.made.and(self.compound.current);
            }
        };
        let kind = match row.action {
            Action::Open => Some(Kind::File),
            Action::Make(kind) if row.is_of_compound => row.made_kind.or(kind),
            Action::Make(kind) => { row.made_kind.or(kind) }.or(Some(Kind::File)),
            Action::Remove(kind) => kind,
            _ => None,
        };
        let is_open = row.action == Action::Open;
        let makes = match row.action {
            Action::Make(_) => true,
            _ => is_open && row.creation != Creation::None,
        };
        let object = match (row.outcome, row.action) {
            (Outcome::Done, Action::Remove(_)) => {
                self.remove(directory, name, row.id, kind);
                return Some(directory);
            }
            (Outcome::Done, _) if makes => self.make(row, directory, name, kind),
            (Outcome::Done, _) => self.look(row, directory, name),
            (Outcome::NoEntry, _) if !makes => {
                self.absent(directory, name);
                return Some(directory);
            }
            (Outcome::Exists, _) if makes => {
                self.found(directory, name, None, row.id);
                return Some(directory);
            }
            (Outcome::NotEmpty, Action::Remove(_)) => {
                let found = self.found(directory, name, None, row.id);
                self.guess_kind(found, Kind::Directory);
                return Some(directory);
            }
            (Outcome::NotSeen, _) if makes => {
                self.unsure(directory, name);
                return None;
            }
            _ => return Some(directory),
        };
        if let Some(kind) = kind {
            self.guess_kind(object, kind);
        }
        let node = &mut self.nodes[object as usize];
        if let Some(target) = row.target.filter(|_| node.target.is_none()) {
            node.target = Some(target.into());
        }
        if row.is_of_compound {
            self.compound.current = Some(object);
            // They stand in rows of their own.
            return None;
        }
        Some(object)
    }

    /// READ, WRITE, SETATTR, READLINK.
    fn of_object(&mut self, row: &Row<'_>, at: u32) {
        let done = row.outcome == Outcome::Done;
        let may_be_done = done || row.outcome == Outcome::NotSeen;
        let node = &mut self.nodes[at as usize];
        match row.action {
            Action::Read if done => {
                node.guess_kind(Kind::File);
                let end = row.offset.map(|offset| offset.saturating_add(row.bytes));
                match row.is_end && row.bytes > 0 {
                    true => node.show_size(end),
                    false if row.bytes > 0 => node.show_least(end.unwrap_or(0)),
                    false => {}
                }
            }
            Action::Write if may_be_done => {
                node.guess_kind(Kind::File);
                node.write(row);
            }
            Action::Set => {
                node.show_size(row.before_size);
                node.show_mtime(row.before_mtime_ns);
                if may_be_done {
                    node.set(&row.set);
                }
            }
            Action::ReadLink if done => {
                node.guess_kind(Kind::Link);
                if let Some(target) = row.target.filter(|_| node.target.is_none()) {
                    node.target = Some(target.into());
                }
            }
            _ => {}
        }
    }

    fn show_directory(&mut self, row: &Row<'_>, directory: u32) {
        let node = &mut self.nodes[directory as usize];
        node.guess_kind(Kind::Directory);
        node.show_mtime(row.directory.before_mtime_ns);
        let seen = crate::Attributes {
            mode: row.directory.mode,
            ..crate::Attributes::default()
        };
        node.show(&seen);
        if matches!(row.action, Action::Make(_) | Action::Remove(_))
            || row.creation != Creation::None
        {
            node.changed |= crate::attributes::MTIME;
        }
    }

    fn look(&mut self, row: &Row<'_>, directory: u32, name: &str) -> u32 {
        match name {
            "." => directory,
            ".." => self.parent_of(directory, row.made, row.id),
            _ => self.found(directory, name, row.made, row.id),
        }
    }

    /// A call shows that the name leads to an object.
    fn found(&mut self, directory: u32, name: &str, file: Option<i64>, id: i64) -> u32 {
        self.guess_kind(directory, Kind::Directory);
        let place = self.names.get(directory, name);
        let now = match place.now {
            Place::Node(now) => Some(self.resolved(now)),
            _ => None,
        };
        let count = self.nodes.len();
        let node = match (now, file) {
            (Some(now), None) => now,
            (Some(now), Some(file)) if self.is_anonymous(now) => match self.find(file) {
                None => {
                    self.name_file(now, file);
                    now
                }
                Some(known) => {
                    self.unify(now, known);
                    known
                }
            },
            (_, Some(file)) => self.node(file, id),
            (None, None) => self.new_node(None, id),
        };
        let is_new = self.nodes.len() > count;
        let seen = &mut self.nodes[node as usize];
        seen.is_gone = false;
        // The call that was to make it has no reply.
        seen.is_made |= is_new && place.now == Place::Unsure;
        let mut place = place;
        if place.at_first == Place::Unknown && place.now == Place::Unknown {
            // One that was elsewhere, and had no more names, was moved or linked by a client that
            // was not seen. Listings do not have the number of names.
            let is_elsewhere = seen.is_named && seen.is_single;
            place.at_first = match seen.is_made || seen.is_remade || is_elsewhere {
                true => Place::Absent,
                false => Place::Node(node),
            };
            seen.is_named |= place.at_first != Place::Absent;
        }
        place.now = Place::Node(node);
        *self.names.of(directory, name) = place;
        node
    }

    /// A call shows that nothing has the name.
    fn absent(&mut self, directory: u32, name: &str) {
        let place = self.names.of(directory, name);
        if place.at_first == Place::Unknown {
            place.at_first = Place::Absent;
        }
        place.now = Place::Absent;
    }

    /// A call that was to give the name has no reply.
    fn unsure(&mut self, directory: u32, name: &str) {
        let place = self.names.of(directory, name);
        if place.now == Place::Unknown || place.now == Place::Absent {
            place.at_first = match place.at_first {
                Place::Unknown => Place::Absent,
                known => known,
            };
            place.now = Place::Unsure;
        }
    }

    /// A call makes an object, or takes the one that is there.
    fn make(&mut self, row: &Row<'_>, directory: u32, name: &str, kind: Option<Kind>) -> u32 {
        let place = self.names.get(directory, name);
        let known = row.made.and_then(|file| self.find(file));
        if self.was_there(row, place.now, known) {
            let found = self.found(directory, name, row.made, row.id);
            self.nodes[found as usize].set(&row.set);
            return found;
        }
        let made = known.unwrap_or_else(|| self.new_node(row.made, row.id));
        let node = &mut self.nodes[made as usize];
        let mut place = place;
        match known {
            // A server gave the number of one that it had removed.
            Some(_) if !node.is_made && node.is_gone => node.is_remade = true,
            Some(_) => {
                // A call that was made before, and answered later, had found it.
                node.is_made = true;
                if place.at_first == Place::Node(made) {
                    place.at_first = Place::Absent;
                }
            }
            None => node.is_made = true,
        }
        node.is_gone = false;
        if let Some(kind) = kind {
            node.guess_kind(kind);
        }
        if place.at_first == Place::Unknown {
            place.at_first = Place::Absent;
        }
        place.now = Place::Node(made);
        *self.names.of(directory, name) = place;
        made
    }

    /// Whether a call that makes a file unless there is one has found one.
    fn was_there(&self, row: &Row<'_>, now: Place, known: Option<u32>) -> bool {
        if row.creation != Creation::Unchecked {
            return false;
        }
        if let Some((before, after)) = row.directory.changes {
            return before == after;
        }
        let is_known = |node: u32| {
            let node = &self.nodes[node as usize];
            !node.is_made && !node.is_gone
        };
        match now {
            Place::Node(_) => return true,
            _ if known.is_some_and(is_known) => return true,
            Place::Absent => return false,
            Place::Unknown | Place::Unsure => {}
        }
        let (after, directory) = (&row.after, &row.directory);
        let is_full = after.size.is_some_and(|size| size > 0) && row.set.size.is_none();
        let is_linked = after.links.is_some_and(|links| links > 1);
        // The directory did not change; the file's own time shows whether that is for a coarse
        // clock.
        let times = directory.mtime_ns.zip(after.ctime_ns);
        let is_older = times.is_some_and(|(directory_ns, ns)| {
            directory.before_mtime_ns == directory.mtime_ns
                && directory_ns.abs_diff(ns) > TICK_NS.unsigned_abs()
        });
        is_full || is_linked || is_older
    }

    fn remove(&mut self, directory: u32, name: &str, id: i64, kind: Option<Kind>) {
        let place = self.names.get(directory, name);
        let gone = match place.now {
            Place::Node(node) => Some(self.resolved(node)),
            Place::Unknown => Some(self.found(directory, name, None, id)),
            Place::Unsure | Place::Absent => None,
        };
        if let Some(gone) = gone {
            self.nodes[gone as usize].is_gone = true;
            if let Some(kind) = kind {
                self.guess_kind(gone, kind);
            }
        }
        self.absent(directory, name);
    }

    fn rename(&mut self, row: &Row<'_>, from: u32, to: u32) {
        let Some((name, new_name)) = row.name.zip(row.name2) else {
            return;
        };
        self.show_directory(row, from);
        self.guess_kind(to, Kind::Directory);
        match row.outcome {
            Outcome::Done => {}
            Outcome::NoEntry => return self.absent(from, name),
            Outcome::NotSeen => return self.unsure(to, new_name),
            _ => return,
        }
        for directory in [from, to] {
            self.nodes[directory as usize].changed |= crate::attributes::MTIME;
        }
        let moved = match self.names.get(from, name).now {
            Place::Node(node) => self.resolved(node),
            Place::Unknown => self.found(from, name, None, row.id),
            // A call that was not seen gave the name: the object had none at the start.
            Place::Unsure | Place::Absent => self.new_node(None, row.id),
        };
        self.absent(from, name);
        let place = self.names.of(to, new_name);
        if place.at_first == Place::Unknown && (from, name) != (to, new_name) {
            place.at_first = Place::Absent;
        }
        let replaced = std::mem::replace(&mut place.now, Place::Node(moved));
        if let Place::Node(replaced) = replaced {
            let replaced = self.resolved(replaced);
            self.nodes[replaced as usize].is_gone = replaced != moved;
        }
    }

    fn link(&mut self, row: &Row<'_>, object: u32, directory: u32) {
        self.guess_kind(directory, Kind::Directory);
        let Some(name) = row.name else {
            return;
        };
        match row.outcome {
            Outcome::Done => {
                let place = self.names.of(directory, name);
                if place.at_first == Place::Unknown {
                    place.at_first = Place::Absent;
                }
                place.now = Place::Node(object);
                self.nodes[directory as usize].changed |= crate::attributes::MTIME;
            }
            Outcome::Exists => {
                self.found(directory, name, None, row.id);
            }
            Outcome::NotSeen => self.unsure(directory, name),
            _ => {}
        }
    }

    fn mount(&mut self, row: &Row<'_>) {
        let Some(file) = row.made else {
            return;
        };
        self.root(row.server, row.name.unwrap_or_default(), Some(file), row.id);
    }

    /// Where the tree of a server, or of what it exports, begins.
    fn root(&mut self, server: u32, path: &str, file: Option<i64>, id: i64) -> u32 {
        let known = self
            .roots
            .iter()
            .find(|root| root.server == server && *root.path == *path)
            .map(|root| root.node);
        let known = known.map(|node| self.resolved(node));
        let node = match (file, known) {
            (None, Some(known)) => return known,
            (None, None) => self.new_node(None, id),
            (Some(file), known) => {
                let node = self.node(file, id);
                if known == Some(node) {
                    return node;
                }
                node
            }
        };
        let seen = &mut self.nodes[node as usize];
        seen.guess_kind(Kind::Directory);
        // Two paths, or a server that gives other handles after a start.
        if !seen.is_root {
            seen.is_root = true;
            let path = path.into();
            self.roots.push(Root { node, server, path });
        }
        node
    }

    fn parent_of(&mut self, child: u32, file: Option<i64>, id: i64) -> u32 {
        let known = self.nodes[child as usize].parent;
        let known = known.map(|node| self.resolved(node));
        let parent = match (file, known) {
            (Some(file), _) => self.node(file, id),
            (None, Some(known)) => known,
            (None, None) => self.new_node(None, id),
        };
        self.guess_kind(parent, Kind::Directory);
        let child = &mut self.nodes[child as usize];
        child.guess_kind(Kind::Directory);
        // The parent of a root is the root itself.
        if !child.is_root {
            child.parent.get_or_insert(parent);
        }
        parent
    }

    fn guess_kind(&mut self, node: u32, kind: Kind) {
        self.nodes[node as usize].guess_kind(kind);
    }

    fn find(&self, file: i64) -> Option<u32> {
        self.files.get(&file).map(|&node| self.resolved(node))
    }

    fn node(&mut self, file: i64, id: i64) -> u32 {
        match self.find(file) {
            Some(node) => node,
            None => self.new_node(Some(file), id),
        }
    }

    fn new_node(&mut self, file: Option<i64>, id: i64) -> u32 {
        let at = u32::try_from(self.nodes.len()).expect("less than 2^32 objects are in memory");
        self.nodes.push(Node {
            file,
            id,
            ..Node::default()
        });
        if let Some(file) = file {
            self.files.insert(file, at);
        }
        at
    }

    fn is_anonymous(&self, node: u32) -> bool {
        self.nodes[node as usize].file.is_none()
    }

    fn name_file(&mut self, node: u32, file: i64) {
        self.nodes[node as usize].file = Some(file);
        self.files.insert(file, node);
    }

    /// A node without a handle is one that has one.
    fn unify(&mut self, anonymous: u32, known: u32) {
        if anonymous == known {
            return;
        }
        let other = std::mem::take(&mut self.nodes[anonymous as usize]);
        self.nodes[known as usize].absorb(&other);
        self.nodes[anonymous as usize].alias = Some(known);
    }

    /// Two that have one name are one, if one of them has no handle. Whether they became one.
    pub(crate) fn unify_anonymous(&mut self, one: u32, other: u32) -> bool {
        let (one, other) = (self.resolved(one), self.resolved(other));
        match (self.is_anonymous(one), self.is_anonymous(other)) {
            _ if one == other => return false,
            (_, true) => self.unify(other, one),
            (true, false) => self.unify(one, other),
            (false, false) => return false,
        }
        true
    }

    /// The node that is meant.
    pub(crate) fn resolved(&self, node: u32) -> u32 {
        let mut at = node;
        while let Some(alias) = self.nodes[at as usize].alias {
            at = alias;
        }
        at
    }
}
