//! Images on a real server: a tree, a client that nobody here wrote, the image of its trace.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Output};

use lineside_testkit::disk::SmallDisk;
use serde_json::Value as Json;
use tempfile::TempDir;

use crate::report::{printed, run};
use crate::support::{lineside, talk};
use crate::wall::lab::{CLIENT, Lab};
use crate::wall::wire::obstacle;

/// A URL of the lab's export, as libnfs has it.
fn url(path: &str) -> String {
    format!("nfs://192.0.2.1/vfs/{path}?nfsport=2049&mountport=20048")
}

/// `lineside image` in the client's namespace.
fn image(folder: &TempDir, to: &str, more: &[&str]) -> Output {
    let mut command = Command::new("ip");
    let to = format!("nfs://192.0.2.1/{to}");
    let command = command.args(["netns", "exec", CLIENT, env!("CARGO_BIN_EXE_lineside")]);
    let command = command
        .args(["image", "trace", "--json", "--to", &to])
        .args(more);
    command
        .current_dir(folder.path())
        .output()
        .expect("it runs")
}

/// A tree as a server may have it.
fn plant(files: &Path) {
    let tree = files.join("tree");
    fs::create_dir_all(tree.join("deep/er")).expect("made");
    let numbers: String = (0..60_000).map(|number| format!("{number}\n")).collect();
    fs::write(tree.join("numbers"), &numbers).expect("written");
    fs::write(tree.join("deep/zeros"), vec![0; 100_000]).expect("written");
    fs::write(tree.join("deep/er/empty"), "").expect("written");
    symlink("../numbers", tree.join("deep/link")).expect("linked");
    fs::hard_link(tree.join("numbers"), tree.join("deep/again")).expect("linked");
    let mode = |path: &str, mode: u32| {
        fs::set_permissions(tree.join(path), fs::Permissions::from_mode(mode)).expect("its owner");
    };
    mode("numbers", 0o640);
    mode("deep/er", 0o1770);
    chown(tree.join("numbers"), Some(1_001), Some(1_002)).expect("root gives away");
}

/// Its trace: every name is listed, two files are read.
fn traced(lab: &Lab) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "set -e
        url() { echo \"nfs://192.0.2.1/vfs/$1?nfsport=2049&mountport=20048\"; }
        nfs-ls -R \"$(url tree)\"; nfs-cat \"$(url tree/numbers)\"
        nfs-cat \"$(url tree/deep/zeros)\"";
    let capture = folder.path().join("client.pcap");
    lab.record(&capture, &["bash", "-c", script]);
    printed(&run(
        &folder,
        &["capture", "client.pcap", "-q", "-o", "trace"],
    ));
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<_> = names
        .map(|name| name.into_string().expect("plain"))
        .collect();
    names.sort();
    names
}

/// Where the image of what was mounted begins: it may be below the folder of what has no name.
fn top(of: &Path) -> std::path::PathBuf {
    let mut at = of.to_owned();
    while !at.join("numbers").exists() {
        let inner = names(&at);
        assert_eq!(inner.len(), 1, "{}: {inner:?}", at.display());
        at.push(&inner[0]);
    }
    at
}

#[test]
fn an_image_on_a_real_server_is_as_planned() {
    let Some(lab) = Lab::up(&[]) else { return };
    if let Some(why) = obstacle(&["nfs-cat", "nfs-ls"]) {
        println!("SKIP: no libnfs: {why}");
        return;
    }
    plant(&lab.files());
    let folder = traced(&lab);
    for (name, query) in [("new", V3), ("new4", V4)] {
        is_as_planned(&lab, &folder, name, query);
        refusals(&lab, &folder, query);
    }
}

/// By either version, as users write it.
const V3: &str = "mountport=20048";
const V4: &str = "version=4.1";

fn is_as_planned(lab: &Lab, folder: &TempDir, name: &str, query: &str) {
    let repairs = format!("repairs-{name}");
    let output = image(
        folder,
        &format!("vfs/{name}?{query}"),
        &["--repairs", &repairs],
    );
    let figures: Json = serde_json::from_str(&printed(&output)).expect("JSON");
    let (tree, made) = (lab.files().join("tree"), top(&lab.files().join(name)));
    let facts = |top: &Path, path: &str| {
        let facts = fs::symlink_metadata(top.join(path)).expect("it is there");
        let size = facts.len() * u64::from(!facts.is_dir());
        (facts.mode(), facts.uid(), facts.gid(), size)
    };
    for path in [
        "numbers",
        "deep",
        "deep/zeros",
        "deep/er",
        "deep/er/empty",
        "deep/link",
    ] {
        assert_eq!(
            facts(&made, path),
            facts(&tree, path),
            "{path}: {figures:#}"
        );
    }
    for path in ["", "deep", "deep/er"] {
        assert_eq!(names(&made.join(path)), names(&tree.join(path)), "{path}");
    }
    let inode = |path: &str| fs::metadata(made.join(path)).expect("there").ino();
    assert_eq!(inode("numbers"), inode("deep/again"));
    let zeros = fs::metadata(made.join("deep/zeros")).expect("there");
    assert_eq!(zeros.blocks(), 0, "zeros are a hole");
    // nfs-ls sees it as the server has it.
    let listed = Command::new("ip")
        .args(["netns", "exec", CLIENT, "nfs-ls", "-R", &url(name)])
        .output()
        .expect("it runs");
    assert!(listed.status.success(), "{}", talk(&listed));
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for name in ["numbers", "deep", "again", "zeros", "empty", "link"] {
        assert!(listed.contains(name), "{name}: {listed}");
    }
    checksums_are_those_of_the_trace(&tree, &made);
}

/// A server that serves NFSv4 alone.
#[test]
fn an_image_is_made_where_there_is_no_nfsv3() {
    if let Some(why) = obstacle(&["nfs-cat", "nfs-ls"]) {
        println!("SKIP: no libnfs: {why}");
        return;
    }
    let folder = {
        let Some(lab) = Lab::up(&[]) else { return };
        plant(&lab.files());
        traced(&lab)
    };
    let only4 = |text: String| text.replace("Protocols = 3, 4;", "Protocols = 4;");
    let Some(lab) = Lab::up_as(&["--nfs4"], only4) else {
        return;
    };
    let output = image(&folder, "vfs/new", &[]);
    assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
    let text = talk(&output);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("?version=4.1"), "{text}");
    printed(&image(&folder, "vfs/new?version=4.1", &[]));
    assert!(
        top(&lab.files().join("new"))
            .join("deep/er/empty")
            .is_file()
    );
}

/// Each whole block has the checksum of the source's.
fn checksums_are_those_of_the_trace(tree: &Path, made: &Path) {
    let [source, image] = [tree, made].map(|top| fs::read(top.join("numbers")).expect("read"));
    assert_ne!(source, image, "no data of the trace");
    let sums = |data: &[u8]| -> Vec<u64> {
        let blocks = data.chunks_exact(512);
        blocks.map(twox_hash::XxHash3_64::oneshot).collect()
    };
    assert_eq!(sums(&source), sums(&image));
}

/// What a server does not take is one line with the way out, and leaves what is there.
fn refusals(lab: &Lab, folder: &TempDir, query: &str) {
    let text = |to: &str| {
        let output = image(folder, &format!("{to}?{query}"), &[]);
        assert_eq!(output.status.code(), Some(1), "{to}");
        let text = talk(&output);
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    let before = names(&lab.files().join("tree"));
    let there = text("vfs/tree");
    assert!(there.contains("exists already"), "{there}");
    assert_eq!(names(&lab.files().join("tree")), before);
    let none = text("nowhere/new");
    assert!(
        none.contains("/nowhere") && none.contains("export"),
        "{none}"
    );
    let disk = lab.files();
    let full = disk.join("filler");
    // What the export has left.
    let mut filler = fs::File::create(&full).expect("made");
    let _ = std::io::copy(&mut std::io::repeat(1), &mut filler);
    let text = text(&format!("vfs/full-{query}"));
    assert!(
        text.contains("NOSPC") && text.contains("make room"),
        "{text}"
    );
    fs::remove_file(&full).expect("removed");
}

#[test]
fn an_image_on_a_full_disk_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let small = folder.path().join("small");
    fs::create_dir(&small).expect("made");
    let Some(disk) = SmallDisk::mount(&small, 16 << 10) else {
        println!("SKIP: no disk can be mounted");
        return;
    };
    let example = crate::support::example();
    let trace = folder.path().join("trace");
    let capture = lineside()
        .arg("capture")
        .arg(example)
        .args(["-q", "-o"])
        .arg(&trace)
        .output();
    printed(&capture.expect("it runs"));
    let output = run(&folder, &["image", "trace", "-o", "small/tree"]);
    assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
    let text = talk(&output);
    assert!(
        text.contains("make room") && text.contains("not whole"),
        "{text}"
    );
    drop(disk);
}
