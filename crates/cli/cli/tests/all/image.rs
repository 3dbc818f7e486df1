//! `lineside image`: the tree that calls show, in a folder; names that would leave it; traces that
//! have no image.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use tempfile::TempDir;

use crate::generated::{Capture, Xdr};
use crate::report::{check, printed, run, traced};
use crate::support::{example, repository, talk};

#[test]
fn the_json_of_an_image_is_as_its_schema_says() {
    let schema = repository().join("docs/schema/image.schema.json");
    let schema = fs::read(schema).expect("it is published");
    let schema = serde_json::from_slice(&schema).expect("JSON");
    let folder = traced(&example());
    let found = printed(&run(&folder, &["image", "trace", "--json"]));
    let found = serde_json::from_str(&found).expect("JSON");
    let mut wrong = Vec::new();
    check(&found, &schema, &schema, "image", &mut wrong);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

const MOUNT: [u32; 3] = [100_005, 3, 1];
const NFS: u32 = 100_003;
const GETATTR: [u32; 3] = [NFS, 3, 1];
const LOOKUP: [u32; 3] = [NFS, 3, 3];
const READLINK: [u32; 3] = [NFS, 3, 5];
const READ: [u32; 3] = [NFS, 3, 6];
const ROOT: &[u8] = b"root";

const REG: u32 = 1;
const DIR: u32 = 2;
const BLK: u32 = 3;
const LNK: u32 = 5;
const SOCK: u32 = 6;
const FIFO: u32 = 7;

/// What a server says of an object.
#[derive(Clone, Copy)]
struct Facts {
    kind: u32,
    mode: u32,
    owner: [u32; 2],
    size: u64,
}

impl Facts {
    fn of(kind: u32, mode: u32) -> Self {
        let (owner, size) = ([0, 0], 0);
        Self {
            kind,
            mode,
            owner,
            size,
        }
    }

    fn words(self) -> Vec<u32> {
        let size = [(self.size >> 32) as u32, self.size as u32];
        let [user, group] = self.owner;
        let times = [1_600_000_000, 500].repeat(3);
        let rest = [0, 1, 0, 0, 0, 7, 0, 9];
        [
            &[self.kind, self.mode, 1, user, group][..],
            &size,
            &rest,
            &times,
        ]
        .concat()
    }

    /// Attributes that are there.
    fn xdr(self) -> Xdr {
        Xdr::words(&[1]).and(&self.words())
    }
}

/// A capture of a client that looks at a server's files.
struct Looking(Capture);

impl Looking {
    fn mounted() -> Self {
        let mut capture = Capture::new();
        let reply = Xdr::words(&[0, 0, 0, 0, 0]).bytes(ROOT).and(&[1, 1]);
        capture.call(10, MOUNT, &Xdr::default().bytes(b"/export"), Some(&reply));
        let reply = Xdr::words(&[0, 0, 0, 0, 0]).and(&Facts::of(DIR, 0o755).words());
        capture.call(10, GETATTR, &Xdr::default().bytes(ROOT), Some(&reply));
        Self(capture)
    }

    fn look(&mut self, directory: &[u8], name: &[u8], handle: &[u8], facts: Facts) {
        let arguments = Xdr::default().bytes(directory).bytes(name);
        let reply = Xdr::words(&[0, 0, 0, 0, 0]).bytes(handle);
        let reply = reply.join(&facts.xdr()).and(&[0]);
        self.0.call(10, LOOKUP, &arguments, Some(&reply));
    }

    fn read(&mut self, handle: &[u8], offset: u32, data: &[u8], facts: Facts) {
        let len = data.len() as u32;
        let arguments = Xdr::default().bytes(handle).and(&[0, offset, len]);
        let reply = Xdr::words(&[0, 0, 0, 0, 0]).join(&facts.xdr());
        let reply = reply.and(&[len, 0]).bytes(data);
        self.0.call(10, READ, &arguments, Some(&reply));
    }

    fn read_link(&mut self, handle: &[u8], target: &[u8]) {
        let reply = Xdr::words(&[0, 0, 0, 0, 0]).join(&Facts::of(LNK, 0o777).xdr());
        let arguments = Xdr::default().bytes(handle);
        self.0
            .call(10, READLINK, &arguments, Some(&reply.bytes(target)));
    }
}

fn imaged(folder: &TempDir, arguments: &[&str]) -> Json {
    let all = [&["image", "trace", "--json"], arguments].concat();
    serde_json::from_str(&printed(&run(folder, &all))).expect("JSON")
}

/// All that is below a folder, without following links.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if fs::symlink_metadata(&path).expect("there").is_dir() {
                open.push(path.clone());
            }
            all.push(path.strip_prefix(folder).expect("below").to_owned());
        }
    }
    all.sort();
    all
}

fn refused(folder: &TempDir, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert!(!output.status.success(), "{arguments:?}");
    let text = talk(&output);
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn an_image_has_what_calls_show() {
    let mut calls = Looking::mounted();
    let big = Facts {
        owner: [1_234, 5_678],
        size: 1 << 30,
        ..Facts::of(REG, 0o640)
    };
    calls.look(ROOT, b"big", b"file-big", big);
    calls.look(ROOT, b"again", b"file-big", big);
    calls.look(ROOT, b"in", b"dir-in", Facts::of(DIR, 0o1751));
    calls.look(b"dir-in", b"link", b"link-1", Facts::of(LNK, 0o777));
    calls.read_link(b"link-1", b"/etc/passwd");
    calls.look(b"dir-in", b"pipe", b"fifo-1", Facts::of(FIFO, 0o622));
    calls.look(b"dir-in", b"socket", b"sock-1", Facts::of(SOCK, 0o755));
    calls.look(b"dir-in", b"disk", b"disk-1", Facts::of(BLK, 0o660));
    calls.look(b"dir-in", b"su", b"file-su", Facts::of(REG, 0o4755));
    let (one, two) = ([0x11; 512], [0x22; 512]);
    let data = [&one[..], &one, &[0; 512], &two].concat();
    calls.read(b"file-big", 0, &data, big);
    let folder = calls.0.traced();
    let figures = imaged(&folder, &["-o", "tree", "--repairs", "repairs"]);
    let counts = [
        "files",
        "hard_links",
        "directories",
        "symbolic_links",
        "others",
    ];
    let counts = counts.map(|name| figures[name].as_u64().expect("a number"));
    assert_eq!(counts, [2, 1, 1, 1, 3], "{figures:#}");
    assert_eq!(figures["known_bytes"], 2_048, "{figures:#}");
    let tree = folder.path().join("tree");
    let facts = |path: &str| fs::symlink_metadata(tree.join(path)).expect("it is there");
    let mode = |path: &str| facts(path).mode() & 0o7777;
    assert_eq!((facts("big").len(), mode("big")), (1 << 30, 0o640));
    assert!(facts("big").blocks() * 512 < 1 << 20, "holes take no room");
    assert_eq!(facts("big").mtime(), 1_600_000_000);
    assert_eq!(facts("big").ino(), facts("again").ino());
    assert_eq!(mode("in"), 0o1751);
    let target = fs::read_link(tree.join("in/link")).expect("a link");
    assert_eq!(target, Path::new("/etc/passwd"));
    assert!(facts("in/pipe").file_type().is_fifo());
    assert_eq!(mode("in/pipe"), 0o622);
    assert!(facts("in/socket").file_type().is_socket());
    assert!(facts("in/disk").is_file(), "a device is a file here");
    assert_eq!(mode("in/su"), 0o755, "its content is not what it was");
    if facts("").uid() == 0 {
        assert_eq!((facts("big").uid(), facts("big").gid()), (1_234, 5_678));
    }
    let mut read = vec![0; 2_560];
    let file = fs::File::open(tree.join("big")).expect("opens");
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut read, 0).expect("read");
    let blocks: Vec<_> = read.chunks(512).collect();
    assert!(
        blocks[0] == blocks[1] && blocks[0] != blocks[3],
        "equal where theirs are"
    );
    assert!(blocks[2] == [0; 512] && blocks[4] == [0; 512]);
    for (block, data) in [(blocks[0], one), (blocks[3], two)] {
        assert_ne!(block, data, "no data of the trace");
        let sum = twox_hash::XxHash3_64::oneshot;
        assert_eq!(sum(block), sum(&data), "the checksum is that of the trace");
    }
    let facts = fs::read_to_string(folder.path().join("repairs/image.json")).expect("there");
    assert_eq!(serde_json::from_str::<Json>(&facts).expect("JSON"), figures);
    // Those of a device, and of set-user-id.
    assert_eq!(figures["repairs"]["not_made"], 2, "{figures:#}");
}

#[test]
fn names_of_a_trace_never_leave_the_folder() {
    let outside = tempfile::tempdir().expect("a folder");
    let mut calls = Looking::mounted();
    let file = Facts::of(REG, 0o644);
    let (long, longest) = ([b'n'; 256], [b'm'; 255]);
    let absolute = outside.path().join("by-name");
    let names: [&[u8]; 17] = [
        b"",
        b".",
        b"..",
        b"/",
        b"../up",
        b"a/b",
        b"/etc/lineside",
        absolute.as_os_str().as_bytes(),
        b"nul\0in",
        &long,
        &longest,
        b"Case",
        b"case",
        b"\xff\xfe",
        b"\x1b[31mred",
        b"back\\slash",
        b"by-file-id",
    ];
    for (number, name) in names.iter().enumerate() {
        calls.look(ROOT, name, format!("file-{number:04}").as_bytes(), file);
    }
    // The same name twice, with two objects.
    calls.look(ROOT, b"twice", b"twice-1", file);
    calls.look(ROOT, b"twice", b"twice-2", Facts::of(DIR, 0o755));
    calls.look(b"twice-2", b"within", b"within-1", file);
    // A link out of the folder, and a name in it, as if it were a directory.
    calls.look(ROOT, b"out", b"link-out", Facts::of(LNK, 0o777));
    calls.read_link(b"link-out", outside.path().as_os_str().as_bytes());
    calls.look(b"link-out", b"through", b"through-1", file);
    // Circles: of the root, of a directory with itself, of two with each other.
    calls.look(ROOT, b"loop", ROOT, Facts::of(DIR, 0o755));
    calls.look(b"self-1", b"self", b"self-1", Facts::of(DIR, 0o755));
    calls.look(b"ring-1", b"two", b"ring-2", Facts::of(DIR, 0o755));
    calls.look(b"ring-2", b"one", b"ring-1", Facts::of(DIR, 0o755));
    // No directory has two names.
    calls.look(ROOT, b"one", b"linked-dir", Facts::of(DIR, 0o755));
    calls.look(ROOT, b"two", b"linked-dir", Facts::of(DIR, 0o755));
    calls.read(b"through-1", 0, &[7; 512], file);
    let folder = calls.0.traced();
    fs::create_dir(folder.path().join("tree")).expect("made");
    let before: Vec<_> = below(folder.path());
    let figures = imaged(&folder, &["-o", "tree"]);
    let tree = folder.path().join("tree");
    let rest = below(folder.path()).into_iter();
    let rest: Vec<_> = rest
        .filter(|path| !path.starts_with("tree") || path == Path::new("tree"))
        .collect();
    assert_eq!(rest, before, "nothing is beside the image");
    assert_eq!(below(outside.path()), Vec::<PathBuf>::new());
    assert!(!Path::new("/etc/lineside").exists());
    for name in [
        &longest[..],
        b"Case",
        b"case",
        b"\xff\xfe",
        b"\x1b[31mred",
        b"back\\slash",
        b"twice",
    ] {
        let path = tree.join(OsStr::from_bytes(name));
        assert!(fs::symlink_metadata(&path).is_ok(), "{}", path.display());
    }
    let replaced = below(&tree).into_iter();
    let replaced = replaced.filter(|path| path.as_os_str().as_bytes().starts_with(b"name-"));
    assert_eq!(
        replaced.count() as u64,
        figures["repairs"]["name_replaced"].as_u64().expect("some")
    );
}

#[test]
fn an_image_overwrites_nothing_and_names_what_it_needs() {
    let folder = traced(&example());
    fs::create_dir(folder.path().join("mine")).expect("made");
    fs::write(folder.path().join("mine/thesis.txt"), "mine").expect("written");
    let text = refused(&folder, &["image", "trace", "-o", "mine"]);
    assert!(text.contains("overwrites nothing"), "{text}");
    let text = refused(&folder, &["image", "trace", "--repairs", "mine"]);
    assert!(text.contains("give another folder"), "{text}");
    let text = refused(&folder, &["image", "trace", "-o", "trace"]);
    assert!(text.contains("overwrites nothing"), "{text}");
    let text = refused(
        &folder,
        &["image", "trace", "-o", "a", "--to", "nfs://h/e/d"],
    );
    assert!(text.contains("--to"), "{text}");
    for url in ["nfs://h", "http://h/e/d", "nfs://h/e/.."] {
        let text = refused(&folder, &["image", "trace", "--to", url]);
        assert!(text.contains("nfs://SERVER"), "{text}");
    }
    // A port at which nobody listens.
    let to = "nfs://127.0.0.1:1/e/d?mountport=1";
    let text = refused(
        &folder,
        &["image", "trace", "--to", to, "--repairs", "repairs"],
    );
    assert!(text.contains("cannot connect"), "{text}");
    // What was made in vain is empty, and is taken later.
    printed(&run(&folder, &["image", "trace", "--repairs", "repairs"]));
    std::os::unix::fs::symlink("mine", folder.path().join("elsewhere")).expect("linked");
    let text = refused(&folder, &["image", "trace", "-o", "elsewhere"]);
    assert!(text.contains("elsewhere"), "{text}");
}

#[test]
fn a_trace_without_calls_or_replies_has_no_image() {
    let folder = traced(&example());
    for (filter, name, why) in [
        ("dst port 2049", "calls", "has calls alone"),
        ("src port 2049", "replies", "has replies alone"),
        ("port 9", "nothing", "has no calls of NFS"),
    ] {
        let capture = [
            "capture",
            "nfs-mix.pcapng.zst",
            "-q",
            "-f",
            filter,
            "-o",
            name,
        ];
        printed(&run(&folder, &capture));
        let text = refused(&folder, &["image", name, "-o", "tree"]);
        assert!(text.contains(why), "{text}");
        // What was made in vain is empty, and taken again.
        let left = fs::read_dir(folder.path().join("tree")).expect("a folder");
        assert_eq!(left.count(), 0);
    }
    let text = refused(&folder, &["image", "nfs-mix.pcapng.zst"]);
    assert!(text.contains("capture it first"), "{text}");
}

#[test]
fn the_same_rows_in_other_parts_have_the_same_image() {
    let folder = traced(&example());
    let capture = [
        "capture",
        "nfs-mix.pcapng.zst",
        "-q",
        "-o",
        "cut",
        "--rotate",
        "1s",
    ];
    printed(&run(&folder, &capture));
    printed(&run(&folder, &["image", "trace", "-o", "one"]));
    printed(&run(&folder, &["image", "cut", "-o", "two"]));
    let tree = |name: &str| {
        let top = folder.path().join(name);
        let each = below(&top).into_iter().map(|path| {
            let facts = fs::symlink_metadata(top.join(&path)).expect("there");
            let data = facts
                .is_file()
                .then(|| fs::read(top.join(&path)).expect("read"));
            (
                path,
                (
                    facts.mode(),
                    facts.size() * u64::from(facts.is_file()),
                    facts.mtime(),
                    data,
                ),
            )
        });
        each.collect::<BTreeMap<_, _>>()
    };
    assert!(!tree("one").is_empty());
    assert_eq!(tree("one"), tree("two"));
}
