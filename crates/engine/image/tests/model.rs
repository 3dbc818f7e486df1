//! Random operations on a model of a file system: the image agrees with the model at the start in
//! all that its calls showed.

use std::collections::{BTreeMap, BTreeSet};

use lineside_image::{
    Action, Attributes, Creation, Directory, Image, Kind, ListedName, Outcome, Row, SetAttributes,
    Tree, UNNAMED,
};
use lineside_time::Random;

const ROOT: i64 = 1;
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// An object of the model.
#[derive(Debug, Clone)]
struct Object {
    kind: Kind,
    mode: u32,
    size: u64,
    links: u32,
    names: BTreeMap<&'static str, i64>,
}

/// A file system.
#[derive(Debug, Clone)]
struct Model {
    objects: BTreeMap<i64, Object>,
    next: i64,
}

impl Model {
    fn new(random: &mut Random) -> Self {
        let mut model = Self {
            objects: BTreeMap::new(),
            next: ROOT,
        };
        model.object(Kind::Directory, random);
        for _ in 0..random.below(40) {
            let directory = model.directory(random);
            let kind = [Kind::File, Kind::Directory, Kind::Link][random.below(3) as usize];
            let name = NAMES[random.below(5) as usize];
            if !model.objects[&directory].names.contains_key(name) {
                let made = model.object(kind, random);
                model.names(directory).insert(name, made);
            }
        }
        model
    }

    fn object(&mut self, kind: Kind, random: &mut Random) -> i64 {
        let at = self.next;
        self.next += 1;
        let object = Object {
            kind,
            mode: random.below(0o1000) as u32,
            size: random.below(10_000),
            links: 1,
            names: BTreeMap::new(),
        };
        self.objects.insert(at, object);
        at
    }

    /// One that a path leads to.
    fn directory(&self, random: &mut Random) -> i64 {
        let mut at = ROOT;
        while random.chance(0.6) {
            let all: Vec<_> = self.objects[&at].names.values().copied().collect();
            let below = all
                .iter()
                .filter(|at| self.objects[at].kind == Kind::Directory);
            let below: Vec<_> = below.copied().collect();
            if below.is_empty() {
                break;
            }
            at = below[random.below(below.len() as u64) as usize];
        }
        at
    }

    fn names(&mut self, directory: i64) -> &mut BTreeMap<&'static str, i64> {
        &mut self.objects.get_mut(&directory).unwrap().names
    }

    fn attributes(&self, at: i64) -> Attributes {
        let object = &self.objects[&at];
        Attributes {
            kind: Some(object.kind),
            mode: Some(object.mode),
            size: Some(object.size),
            links: Some(object.links),
            ..Attributes::default()
        }
    }

    /// Whether `below` is in `above`, or is it.
    fn is_within(&self, below: i64, above: i64) -> bool {
        let mut open = vec![above];
        let mut seen = BTreeSet::new();
        while let Some(at) = open.pop() {
            if at == below {
                return true;
            }
            if seen.insert(at) {
                open.extend(self.objects[&at].names.values());
            }
        }
        false
    }
}

/// Calls, each with what it showed of the start, for the check.
struct Client<'a> {
    model: Model,
    tree: Tree,
    id: i64,
    /// Objects that a call has made.
    made: BTreeSet<i64>,
    /// Objects whose handle was seen.
    seen: BTreeSet<i64>,
    /// Share of calls that the capture loses.
    loss: f64,
    random: &'a mut Random,
}

impl Client<'_> {
    fn give(&mut self, row: Row<'_>) -> bool {
        self.id += 1;
        if self.random.chance(self.loss) {
            return false;
        }
        // A server does not give all attributes each time.
        let after = match self.random.chance(0.7) {
            true => row.after,
            false => Attributes {
                links: row.after.links,
                ..Attributes::default()
            },
        };
        let (id, call) = (self.id, self.id);
        self.tree.row(&Row {
            id,
            call,
            after,
            ..row
        });
        let seen = [row.file, row.file2, row.made];
        self.seen.extend(seen.into_iter().flatten());
        true
    }

    fn step(&mut self) {
        let directory = self.model.directory(self.random);
        let name = NAMES[self.random.below(5) as usize];
        let there = self.model.objects[&directory].names.get(name).copied();
        let row = Row {
            file: Some(directory),
            name: Some(name),
            outcome: Outcome::Done,
            ..Row::default()
        };
        match (self.random.below(10), there) {
            (0 | 1, None) => {
                let (action, outcome) = (Action::Look, Outcome::NoEntry);
                self.give(Row {
                    action,
                    outcome,
                    ..row
                });
            }
            (0..=3, Some(at)) => {
                let (action, made) = (Action::Look, Some(at));
                let after = self.model.attributes(at);
                self.give(Row {
                    action,
                    made,
                    after,
                    ..row
                });
            }
            (2 | 3, None) => self.make(row, directory, name),
            (4, _) => self.create_unchecked(row, directory, name, there),
            (5, Some(at)) => self.remove(row, directory, name, at),
            (6, Some(at)) => self.rename(row, directory, name, at),
            (7, Some(at)) => self.link(at),
            (8, Some(at)) => self.change(at),
            (9, _) => self.list(directory),
            _ => {}
        }
    }

    fn make(&mut self, row: Row<'_>, directory: i64, name: &'static str) {
        let kind = [Kind::File, Kind::Directory, Kind::Link][self.random.below(3) as usize];
        let made = self.model.object(kind, self.random);
        self.model.names(directory).insert(name, made);
        self.made.insert(made);
        let after = self.model.attributes(made);
        let action = Action::Make(Some(kind));
        self.give(Row {
            action,
            made: Some(made),
            after,
            ..row
        });
    }

    fn create_unchecked(
        &mut self,
        row: Row<'_>,
        directory: i64,
        name: &'static str,
        there: Option<i64>,
    ) {
        if there.is_some_and(|at| self.model.objects[&at].kind != Kind::File) {
            return;
        }
        let made = there.unwrap_or_else(|| {
            let made = self.model.object(Kind::File, self.random);
            self.model.names(directory).insert(name, made);
            self.made.insert(made);
            made
        });
        self.model.objects.get_mut(&made).unwrap().size = 0;
        let row = Row {
            action: Action::Make(None),
            creation: Creation::Unchecked,
            made: Some(made),
            after: self.model.attributes(made),
            directory: Directory {
                changes: Some((1, 1 + i64::from(there.is_none()))),
                ..Directory::default()
            },
            set: SetAttributes {
                size: Some(0),
                ..SetAttributes::default()
            },
            ..row
        };
        self.give(row);
    }

    fn remove(&mut self, row: Row<'_>, directory: i64, name: &'static str, at: i64) {
        let object = &self.model.objects[&at];
        let is_directory = object.kind == Kind::Directory;
        let action = Action::Remove(is_directory.then_some(Kind::Directory));
        if !object.names.is_empty() {
            let outcome = Outcome::NotEmpty;
            self.give(Row {
                action,
                outcome,
                ..row
            });
            return;
        }
        self.model.names(directory).remove(name);
        self.model.objects.get_mut(&at).unwrap().links -= 1;
        self.give(Row { action, ..row });
    }

    fn rename(&mut self, row: Row<'_>, from: i64, name: &'static str, at: i64) {
        let to = self.model.directory(self.random);
        let new_name = NAMES[self.random.below(5) as usize];
        let is_free = !self.model.objects[&to].names.contains_key(new_name);
        if !is_free || self.model.is_within(to, at) {
            return;
        }
        self.model.names(from).remove(name);
        self.model.names(to).insert(new_name, at);
        let (file2, name2) = (Some(to), Some(new_name));
        let action = Action::Rename;
        self.give(Row {
            action,
            file2,
            name2,
            ..row
        });
    }

    fn link(&mut self, at: i64) {
        let to = self.model.directory(self.random);
        let name = NAMES[self.random.below(5) as usize];
        let is_file = self.model.objects[&at].kind == Kind::File;
        if !is_file || self.model.objects[&to].names.contains_key(name) {
            return;
        }
        self.model.names(to).insert(name, at);
        self.model.objects.get_mut(&at).unwrap().links += 1;
        let after = self.model.attributes(at);
        self.give(Row {
            action: Action::Link,
            file: Some(at),
            file2: Some(to),
            name: Some(name),
            outcome: Outcome::Done,
            after,
            ..Row::default()
        });
    }

    fn change(&mut self, at: i64) {
        let object = self.model.objects.get_mut(&at).unwrap();
        if object.kind != Kind::File {
            return;
        }
        let before_size = Some(object.size);
        let mut row = Row {
            file: Some(at),
            outcome: Outcome::Done,
            before_size,
            ..Row::default()
        };
        match self.random.below(3) {
            0 => {
                let (offset, bytes) = (self.random.below(12_000), 1 + self.random.below(5_000));
                object.size = object.size.max(offset + bytes);
                row = Row {
                    action: Action::Write,
                    offset: Some(offset),
                    bytes,
                    ..row
                };
            }
            1 => {
                let size = self.random.below(12_000);
                object.size = size;
                row.action = Action::Set;
                row.set.size = Some(size);
            }
            _ => {
                object.mode ^= 0o111;
                row.action = Action::Set;
                row.set.mode = true;
            }
        }
        row.after = self.model.attributes(at);
        self.give(row);
    }

    fn list(&mut self, directory: i64) {
        let row = Row {
            action: Action::List,
            file: Some(directory),
            outcome: Outcome::Done,
            ..Row::default()
        };
        if !self.give(row) {
            return;
        }
        for (name, at) in self.model.objects[&directory].names.clone() {
            let is_whole = self.random.chance(0.5);
            let object = &self.model.objects[&at];
            self.tree.listed(&ListedName {
                id: self.id,
                directory,
                name,
                file: is_whole.then_some(at),
                kind: is_whole.then_some(object.kind),
                size: is_whole.then_some(object.size),
            });
            if is_whole {
                self.seen.insert(at);
            }
        }
    }
}

fn run(seed: u64, loss: f64) -> (Model, Image, BTreeSet<i64>, BTreeSet<i64>) {
    let mut random = Random::new(seed);
    let at_first = Model::new(&mut random);
    let mut client = Client {
        model: at_first.clone(),
        tree: Tree::new(),
        id: 0,
        made: BTreeSet::new(),
        seen: BTreeSet::new(),
        loss: 0.0,
        random: &mut random,
    };
    client.give(Row {
        action: Action::Mount,
        made: Some(ROOT),
        outcome: Outcome::Done,
        ..Row::default()
    });
    client.loss = loss;
    for _ in 0..client.random.below(400) {
        client.step();
    }
    (at_first, client.tree.finish(), client.made, client.seen)
}

/// No directory has a name twice, and parents come first.
fn check_form(image: &Image, context: &str) {
    let mut names = BTreeSet::new();
    for at in 1..image.len() {
        let entry = image.entry(at);
        assert!(entry.parent < at, "{context}: {at}");
        assert_eq!(
            image.entry(entry.parent).kind,
            Kind::Directory,
            "{context}: {at}"
        );
        assert!(
            names.insert((entry.parent, entry.name.to_vec())),
            "{context}: {at}"
        );
        assert!(
            entry.link_of.is_none_or(|first| first < at),
            "{context}: {at}"
        );
    }
}

#[test]
fn what_calls_showed_is_as_it_was() {
    let (mut entries, mut sizes) = (0, 0);
    for seed in 0..500 {
        let context = format!("seed {seed}");
        let (model, image, made, seen) = run(seed, 0.0);
        check_form(&image, &context);
        let mut of_entry = vec![ROOT];
        for at in 1..image.len() {
            let entry = image.entry(at);
            let path = String::from_utf8(image.path(at)).unwrap();
            // A handle that the client has from before.
            if path.starts_with(UNNAMED) && path.matches('/').count() < 2 {
                of_entry.push(entry.file.unwrap_or(0));
                continue;
            }
            let names = &model.objects[&of_entry[entry.parent as usize]].names;
            let Some(&there) = names.get(std::str::from_utf8(entry.name).unwrap()) else {
                panic!("{context}: {path} was not there");
            };
            of_entry.push(there);
            let object = &model.objects[&there];
            if let Some(file) = entry.file {
                assert_eq!(file, there, "{context}: {path}");
            }
            let is_repaired = |kind: &str| {
                let mut repairs = image.repairs_of(at);
                repairs.any(|repair| repair.kind.name() == kind)
            };
            entries += 1;
            if entry.link_of.is_some() {
                continue;
            }
            if !is_repaired("type") {
                assert_eq!(entry.kind, object.kind, "{context}: {path}");
            }
            if !is_repaired("mode") && entry.kind != Kind::Link {
                assert_eq!(entry.mode, object.mode, "{context}: {path}");
            }
            if !is_repaired("size") && entry.kind == Kind::File {
                assert_eq!(entry.size, object.size, "{context}: {path}");
                sizes += 1;
            }
        }
        for file in seen.difference(&made) {
            assert!(
                image.find(*file).is_some(),
                "{context}: {file} is not in the image"
            );
        }
        for file in &made {
            assert_eq!(image.find(*file), None, "{context}: {file} was made");
        }
    }
    assert!(
        entries > 4_000 && sizes > 500,
        "{entries} entries, {sizes} sizes"
    );
}

#[test]
fn lost_calls_leave_an_image_that_is_whole() {
    for seed in 0..500 {
        let context = format!("seed {seed}");
        let (_, image, made, seen) = run(seed, 0.3);
        check_form(&image, &context);
        for file in seen.difference(&made) {
            assert!(
                image.find(*file).is_some(),
                "{context}: {file} is not in the image"
            );
        }
    }
}
