//! What the image is after some calls, one case each.

use std::collections::BTreeSet;

use lineside_image::{
    Action, Attributes, Creation, Directory, Image, Kind, ListedName, Outcome, RepairKind, Row,
    SetAttributes, Tree, UNNAMED,
};

const ROOT: i64 = 1;

/// Rows, numbered in their order.
struct Calls {
    tree: Tree,
    next: i64,
}

impl Calls {
    /// After a MNT.
    fn mounted() -> Self {
        let mut calls = Self::unmounted();
        calls.call(Row {
            action: Action::Mount,
            made: Some(ROOT),
            name: Some("/export"),
            ..Row::default()
        });
        calls
    }

    fn unmounted() -> Self {
        let (tree, next) = (Tree::new(), 100);
        Self { tree, next }
    }

    /// One that was done, unless the row says otherwise.
    fn call(&mut self, row: Row<'_>) {
        let outcome = match row.outcome {
            Outcome::NotSeen => Outcome::Done,
            outcome => outcome,
        };
        self.give(Row { outcome, ..row });
    }

    fn give(&mut self, row: Row<'_>) {
        self.next += 1;
        let (id, call) = (self.next, self.next);
        self.tree.row(&Row { id, call, ..row });
    }

    fn look(&mut self, directory: i64, name: &str, file: i64, after: Attributes) {
        self.call(Row {
            action: Action::Look,
            file: Some(directory),
            name: Some(name),
            made: Some(file),
            after,
            ..Row::default()
        });
    }

    fn of(&mut self, action: Action, directory: i64, name: &str, outcome: Outcome) {
        self.give(Row {
            action,
            outcome,
            file: Some(directory),
            name: Some(name),
            ..Row::default()
        });
    }

    fn paths(self) -> Vec<String> {
        paths(&self.tree.finish())
    }
}

fn paths(image: &Image) -> Vec<String> {
    let paths = (1..image.len()).map(|at| String::from_utf8_lossy(&image.path(at)).into_owned());
    let mut paths: Vec<_> = paths.collect();
    paths.sort();
    paths
}

fn file(size: u64) -> Attributes {
    Attributes {
        kind: Some(Kind::File),
        mode: Some(0o100_640),
        uid: Some(1000),
        gid: Some(100),
        size: Some(size),
        mtime_ns: Some(5),
        ..Attributes::default()
    }
}

fn directory() -> Attributes {
    let kind = Some(Kind::Directory);
    Attributes { kind, ..file(4096) }
}

#[test]
fn a_name_that_is_found_was_there() {
    let mut calls = Calls::mounted();
    calls.look(ROOT, "d", 2, directory());
    calls.look(2, "f", 3, file(77));
    let image = calls.tree.finish();
    assert_eq!(paths(&image), ["d", "d/f"]);
    assert_eq!(image.path_of(3).as_deref(), Some(&b"d/f"[..]));
    assert_eq!(image.path_of(ROOT).as_deref(), Some(&b""[..]));
    assert_eq!(image.path_of(99), None);
    let entry = image.entry(image.find(3).unwrap());
    assert_eq!(
        (entry.kind, entry.mode, entry.size),
        (Kind::File, 0o640, 77)
    );
    assert_eq!(
        (entry.uid, entry.gid, entry.mtime_ns),
        (Some(1000), Some(100), Some(5))
    );
    assert!((0..image.len()).all(|at| image.repairs_of(at).count() == 0));
}

#[test]
fn what_a_call_makes_was_not_there() {
    let mut calls = Calls::mounted();
    calls.of(Action::Look, ROOT, "new", Outcome::NoEntry);
    for (action, name, made) in [
        (Action::Make(Some(Kind::File)), "new", 2),
        (Action::Make(Some(Kind::Directory)), "folder", 3),
        (Action::Make(Some(Kind::Link)), "link", 4),
    ] {
        calls.call(Row {
            action,
            file: Some(ROOT),
            name: Some(name),
            made: Some(made),
            ..Row::default()
        });
        calls.look(ROOT, name, made, file(0));
    }
    calls.look(3, "in-it", 5, file(0));
    let image = calls.tree.finish();
    // Nothing that was seen made the last one: it has a handle, and no name at the start.
    assert_eq!(paths(&image), ["by-file-id", "by-file-id/0000000000000005"]);
    assert_eq!(image.made_count(), 3);
}

#[test]
fn what_a_call_removes_was_there() {
    let mut calls = Calls::mounted();
    calls.of(Action::Remove(None), ROOT, "gone", Outcome::Done);
    calls.of(
        Action::Remove(Some(Kind::Directory)),
        ROOT,
        "folder",
        Outcome::Done,
    );
    calls.of(Action::Remove(None), ROOT, "never", Outcome::NoEntry);
    calls.of(
        Action::Remove(Some(Kind::Directory)),
        ROOT,
        "full",
        Outcome::NotEmpty,
    );
    let image = calls.tree.finish();
    assert_eq!(paths(&image), ["folder", "full", "gone"]);
    let kinds: Vec<Kind> = (1..4).map(|at| image.entry(at).kind).collect();
    assert_eq!(kinds, [Kind::Directory, Kind::Directory, Kind::File]);
    let kinds: Vec<RepairKind> = image.repairs_of(3).map(|repair| repair.kind).collect();
    use RepairKind::{Mode, Owner, Size, Time, Type};
    assert_eq!(kinds, [Type, Mode, Owner, Size, Time]);
}

#[test]
fn a_moved_file_has_its_first_name() {
    let mut calls = Calls::mounted();
    calls.look(ROOT, "d", 2, directory());
    for (from, to) in [("a", "b"), ("b", "c")] {
        calls.call(Row {
            action: Action::Rename,
            file: Some(ROOT),
            file2: Some(2),
            name: Some(from),
            name2: Some(to),
            ..Row::default()
        });
        calls.look(2, to, 3, file(9));
        calls.call(Row {
            action: Action::Rename,
            file: Some(2),
            file2: Some(ROOT),
            name: Some(to),
            name2: Some(to),
            ..Row::default()
        });
    }
    let image = calls.tree.finish();
    assert_eq!(paths(&image), ["a", "d"]);
    // The handle came after the first move, and is that of the file that was moved.
    assert_eq!(image.path_of(3).as_deref(), Some(&b"a"[..]));
    assert_eq!(image.entry(image.find(3).unwrap()).size, 9);
}

#[test]
fn the_first_size_is_that_before_a_write() {
    let write = |offset, bytes, before, after| Row {
        action: Action::Write,
        file: Some(7),
        offset: Some(offset),
        bytes,
        before_size: before,
        after: Attributes {
            size: after,
            ..Attributes::default()
        },
        ..Row::default()
    };
    let read = |offset, bytes, is_end| Row {
        action: Action::Read,
        file: Some(7),
        offset: Some(offset),
        bytes,
        is_end,
        ..Row::default()
    };
    let cut = |size| Row {
        action: Action::Set,
        file: Some(7),
        set: SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        },
        ..Row::default()
    };
    // Calls, the first size, and whether it was seen.
    let cases = [
        (vec![write(0, 100, Some(40), Some(100))], 40, true),
        (vec![write(0, 100, None, Some(500))], 500, true),
        (vec![write(0, 100, None, Some(100))], 100, false),
        (vec![read(0, 4096, false), read(4096, 10, true)], 4106, true),
        (vec![read(0, 4096, false)], 4096, false),
        (
            vec![read(0, 10, false), cut(0), write(0, 5, Some(0), Some(5))],
            10,
            false,
        ),
        (vec![cut(0), read(0, 0, true)], 0, false),
    ];
    for (at, (rows, size, is_seen)) in cases.into_iter().enumerate() {
        let mut calls = Calls::unmounted();
        rows.into_iter().for_each(|row| calls.call(row));
        let image = calls.tree.finish();
        let entry = image.find(7).unwrap();
        assert_eq!(image.entry(entry).size, size, "case {at}");
        let mut repairs = image.repairs_of(entry);
        let is_repaired = repairs.any(|repair| repair.kind == RepairKind::Size);
        assert_eq!(is_repaired, !is_seen, "case {at}");
    }
}

#[test]
fn an_unchecked_create_may_find_a_file() {
    let create = |after, directory, set_size| Row {
        action: Action::Make(None),
        creation: Creation::Unchecked,
        file: Some(ROOT),
        name: Some("f"),
        made: Some(2),
        after,
        directory,
        set: SetAttributes {
            size: set_size,
            ..SetAttributes::default()
        },
        ..Row::default()
    };
    let times = |before, after| Directory {
        before_mtime_ns: Some(before),
        mtime_ns: Some(after),
        ..Directory::default()
    };
    let changes = |before, after| Directory {
        changes: Some((before, after)),
        ..Directory::default()
    };
    let changed = |ns| Attributes {
        ctime_ns: Some(ns),
        ..file(0)
    };
    let linked = Attributes {
        links: Some(2),
        ..file(0)
    };
    let second = 1_000_000_000;
    // A call, and whether the file was there.
    let cases = [
        (create(file(0), Directory::default(), None), false),
        (create(file(9), Directory::default(), None), true),
        (create(linked, Directory::default(), None), true),
        (create(changed(second), times(0, second), Some(0)), false),
        (create(changed(second), times(0, 0), Some(0)), true),
        (
            create(changed(second), times(second, second), Some(0)),
            false,
        ),
        (create(file(0), changes(5, 5), None), true),
        (create(file(0), changes(5, 6), None), false),
    ];
    for (at, (row, was_there)) in cases.into_iter().enumerate() {
        let mut calls = Calls::mounted();
        calls.call(row);
        let expected: &[&str] = if was_there { &["f"] } else { &[] };
        assert_eq!(calls.paths(), expected, "case {at}");
    }
}

#[test]
fn names_are_listed_and_linked() {
    let mut calls = Calls::mounted();
    calls.call(Row {
        action: Action::List,
        file: Some(ROOT),
        ..Row::default()
    });
    for (name, file, kind) in [
        (".", Some(ROOT), Kind::Directory),
        ("..", Some(9), Kind::Directory),
        ("one", Some(2), Kind::File),
        ("unseen", None, Kind::Directory),
    ] {
        calls.tree.listed(&ListedName {
            id: 5,
            directory: ROOT,
            name,
            file,
            kind: Some(kind),
            size: Some(6),
        });
    }
    let linked = Attributes {
        links: Some(2),
        ..file(6)
    };
    calls.look(ROOT, "two", 2, linked);
    calls.look(ROOT, "two", 2, linked);
    let image = calls.tree.finish();
    assert_eq!(paths(&image), ["one", "two", "unseen"]);
    // It had one name: another client, which was not seen, moved or linked it.
    let mut calls = Calls::mounted();
    let single = Attributes {
        links: Some(1),
        ..file(6)
    };
    calls.look(ROOT, "one", 2, single);
    calls.look(ROOT, "two", 2, linked);
    assert_eq!(calls.paths(), ["one"]);
    let mut calls = Calls::mounted();
    calls.look(ROOT, "one", 2, linked);
    calls.look(ROOT, "two", 2, linked);
    calls.call(Row {
        action: Action::Link,
        file: Some(2),
        file2: Some(ROOT),
        name: Some("three"),
        ..Row::default()
    });
    let image = calls.tree.finish();
    assert_eq!(paths(&image), ["one", "two"]);
    assert_eq!(image.entry(2).link_of, Some(1));
}

#[test]
fn a_compound_goes_from_name_to_name() {
    let mut tree = Tree::new();
    let mut id = 0;
    let mut compound = |tree: &mut Tree, rows: &[Row<'_>]| {
        let call = id;
        for row in rows {
            let is_of_compound = true;
            tree.row(&Row {
                id,
                call,
                is_of_compound,
                outcome: Outcome::Done,
                ..*row
            });
            id += 1;
        }
    };
    let of = |action| Row {
        action,
        ..Row::default()
    };
    let named = |action, name| Row {
        name: Some(name),
        ..of(action)
    };
    compound(
        &mut tree,
        &[
            of(Action::PutRoot),
            named(Action::Look, "export"),
            named(Action::Look, "d"),
            Row {
                after: directory(),
                ..of(Action::Attributes)
            },
            named(Action::Look, "f"),
            Row {
                file: Some(8),
                ..of(Action::GetHandle)
            },
            Row {
                file: Some(8),
                after: file(3),
                ..of(Action::Attributes)
            },
        ],
    );
    compound(
        &mut tree,
        &[
            of(Action::PutRoot),
            named(Action::Look, "export"),
            Row {
                file: Some(7),
                ..of(Action::GetHandle)
            },
            of(Action::Save),
            Row {
                creation: Creation::Guarded,
                ..named(Action::Open, "made")
            },
            Row {
                file: Some(6),
                ..of(Action::GetHandle)
            },
            of(Action::Restore),
            named(Action::Open, "opened"),
            Row {
                after: file(4),
                ..of(Action::Attributes)
            },
        ],
    );
    compound(
        &mut tree,
        &[
            Row {
                file: Some(7),
                ..of(Action::PutHandle)
            },
            of(Action::Save),
            Row {
                file: Some(7),
                file2: Some(7),
                name2: Some("new"),
                ..named(Action::Rename, "old")
            },
        ],
    );
    let image = tree.finish();
    assert_eq!(
        paths(&image),
        [
            "export",
            "export/d",
            "export/d/f",
            "export/old",
            "export/opened"
        ]
    );
    assert_eq!(image.path_of(8).as_deref(), Some(&b"export/d/f"[..]));
    assert_eq!(image.path_of(7).as_deref(), Some(&b"export"[..]));
    assert_eq!(image.path_of(6), None);
    assert_eq!(image.entry(image.find(8).unwrap()).size, 3);
}

#[test]
fn handles_without_names_are_named_by_number() {
    let mut calls = Calls::unmounted();
    calls.call(Row {
        action: Action::Read,
        file: Some(-1),
        bytes: 5,
        offset: Some(0),
        is_end: true,
        ..Row::default()
    });
    calls.look(2, "below", 3, file(1));
    calls.look(2, "..", 4, directory());
    let image = calls.tree.finish();
    let below = "by-file-id/0000000000000004/0000000000000002/below";
    assert_eq!(image.path_of(3).as_deref(), Some(below.as_bytes()));
    assert_eq!(
        image.path_of(-1).as_deref(),
        Some(&b"by-file-id/ffffffffffffffff"[..])
    );
    let repairs: Vec<_> = (0..image.len())
        .flat_map(|at| image.repairs_of(at))
        .collect();
    let names = repairs
        .iter()
        .filter(|repair| repair.kind == RepairKind::Name);
    assert_eq!(names.count(), 3);
}

#[test]
fn a_name_that_leaves_its_folder_is_replaced() {
    let long = "a".repeat(256);
    let mut calls = Calls::mounted();
    for (at, name) in ["a/b", "", r"a\x00", &long, "/etc", r"\x2e.", r"\x2e"]
        .iter()
        .enumerate()
    {
        calls.look(ROOT, name, 10 + at as i64, file(0));
    }
    let image = calls.tree.finish();
    assert_eq!(image.len(), 8);
    for path in paths(&image) {
        assert!(path.starts_with("name-") && path.len() == 21, "{path}");
    }
    for at in 1..image.len() {
        let mut repairs = image.repairs_of(at);
        assert!(repairs.any(|repair| repair.kind == RepairKind::NameReplaced));
    }
}

#[test]
fn trees_of_several_mounts_stand_beside_each_other() {
    let mut calls = Calls::mounted();
    for (made, name, server) in [
        (2, "/a/data", 1),
        (3, "/b/data", 1),
        (4, "/", 2),
        (2, "/x", 1),
    ] {
        calls.call(Row {
            action: Action::Mount,
            made: Some(made),
            name: Some(name),
            server,
            ..Row::default()
        });
    }
    calls.look(3, "f", 5, file(0));
    assert_eq!(
        calls.paths(),
        ["data", "data-2", "data-2/f", "export", "root"]
    );
}

#[test]
fn a_circle_of_directories_ends() {
    let mut calls = Calls::mounted();
    calls.look(2, "x", 3, directory());
    calls.look(3, "y", 2, directory());
    calls.look(4, "self", 4, directory());
    let image = calls.tree.finish();
    assert_eq!(
        image.path_of(3).as_deref(),
        Some(&b"by-file-id/0000000000000002/x"[..])
    );
    assert_eq!(
        image.path_of(4).as_deref(),
        Some(&b"by-file-id/0000000000000004"[..])
    );
}

#[test]
fn a_number_that_a_server_gives_again_is_another_file() {
    let mut calls = Calls::mounted();
    calls.look(ROOT, "f", 2, file(5));
    calls.of(Action::Remove(None), ROOT, "f", Outcome::Done);
    calls.call(Row {
        action: Action::Make(None),
        creation: Creation::Guarded,
        file: Some(ROOT),
        name: Some("g"),
        made: Some(2),
        after: file(0),
        ..Row::default()
    });
    let image = calls.tree.finish();
    assert_eq!(paths(&image), ["f"]);
    assert_eq!(image.entry(1).size, 5);
}

#[test]
fn a_call_without_a_reply_may_have_made_it() {
    let mut calls = Calls::mounted();
    calls.of(Action::Make(Some(Kind::File)), ROOT, "f", Outcome::NotSeen);
    calls.look(ROOT, "f", 2, file(0));
    assert_eq!(calls.paths(), Vec::<String>::new());
}

#[test]
fn a_directory_that_was_seen_in_two_ways_is_one() {
    let mut tree = Tree::new();
    let mut id = 0;
    let mut compound = |rows: &[(Action, Option<&str>, Option<i64>)]| {
        let call = id;
        for &(action, name, file) in rows {
            tree.row(&Row {
                id,
                call,
                action,
                name,
                file,
                is_of_compound: true,
                outcome: Outcome::Done,
                ..Row::default()
            });
            id += 1;
        }
    };
    let look = |name| (Action::Look, Some(name), None);
    let root = (Action::PutRoot, None, None);
    compound(&[root, look("d"), look("in"), look("f")]);
    compound(&[(Action::PutHandle, None, Some(9)), look("in"), look("f")]);
    compound(&[(Action::PutHandle, None, Some(9)), look("in"), look("g")]);
    compound(&[root, look("d"), (Action::GetHandle, None, Some(9))]);
    let image = tree.finish();
    assert_eq!(paths(&image), ["d", "d/in", "d/in/f", "d/in/g"]);
}

#[test]
fn names_in_a_link_are_elsewhere() {
    let mut calls = Calls::mounted();
    let link = Attributes {
        kind: Some(Kind::Link),
        ..file(6)
    };
    calls.look(ROOT, "link", 2, link);
    calls.look(2, "through", 3, file(6));
    calls.look(3, "deeper", 4, file(6));
    // The root is in itself, and has a file with the name of the image's own folder.
    calls.look(ROOT, "loop", ROOT, directory());
    calls.look(ROOT, UNNAMED, 5, file(6));
    let image = calls.tree.finish();
    let paths = paths(&image);
    assert!(paths.iter().any(|path| path == "link"), "{paths:?}");
    let inside = |path: &String| path.starts_with("link/");
    assert!(!paths.iter().any(inside), "{paths:?}");
    let names: BTreeSet<_> = paths.iter().collect();
    assert_eq!(names.len(), paths.len(), "no name twice: {paths:?}");
    for file in [2, 3, 4] {
        assert!(image.path_of(file).is_some(), "{file}: {paths:?}");
    }
}
