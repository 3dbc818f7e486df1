//! Records the commit and the profile that `lineside version` prints.
//!
//! A packager gives the commit as `LINESIDE_COMMIT`. Otherwise git says it, if the workspace is the
//! top of a repository; `-dirty` follows where what is built differs from the commit. A debug build
//! records none: each commit would compile the crate anew. Nothing of this machine goes in.
#![forbid(unsafe_code)]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the program is made of; changes elsewhere do not make it another one.
const SOURCES: [&str; 5] = [
    "Cargo.toml",
    "Cargo.lock",
    "crates/*/*/src/*",
    "crates/*/*/Cargo.toml",
    "crates/*/*/build.rs",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=LINESIDE_COMMIT");
    let profile = profile();
    println!("cargo::rustc-env=LINESIDE_PROFILE={profile}");
    let given = env::var("LINESIDE_COMMIT").ok();
    let given = given.filter(|commit| !commit.trim().is_empty());
    let commit = given.or_else(|| {
        let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?).join("../../..");
        let is_recorded = profile != "debug";
        is_recorded.then(|| commit(&root)).flatten()
    });
    let mut version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    if let Some(commit) = commit.as_deref().map(str::trim) {
        println!("cargo::rustc-env=LINESIDE_COMMIT={commit}");
        version = format!("{version} ({commit})");
    }
    println!("cargo::rustc-env=LINESIDE_VERSION={version}");
}

/// Cargo says `release` for each profile that inherits from it; the folder says which one it is.
fn profile() -> String {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let names = ["debug", "demo", "dist", "profiling", "release"];
    let mut folders = out.iter().rev().filter_map(|part| part.to_str());
    let found = folders.find(|part| names.contains(part));
    let profile = env::var("PROFILE").unwrap_or_default();
    found.map_or(profile, ToOwned::to_owned)
}

fn commit(root: &Path) -> Option<String> {
    // A tarball that was unpacked within another repository has no commit of its own.
    let top = PathBuf::from(git(root, &["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let hash = git(root, &["rev-parse", "--short=12", "HEAD"])?;
    // HEAD is another file after a checkout, its log and its branch after a commit.
    let branch = git(root, &["rev-parse", "--symbolic-full-name", "HEAD"])?;
    for name in ["HEAD", "logs/HEAD", &branch, "packed-refs"] {
        let path = root.join(git(root, &["rev-parse", "--git-path", name])?);
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    let mut status = vec!["status", "--porcelain", "--untracked-files=no", "--"];
    status.extend(SOURCES);
    for name in ["Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", root.join(name).display());
    }
    for family in root.join("crates").read_dir().ok()?.flatten() {
        for folder in family.path().read_dir().into_iter().flatten().flatten() {
            for name in ["src", "Cargo.toml"] {
                let path = folder.path().join(name);
                println!("cargo::rerun-if-changed={}", path.display());
            }
        }
    }
    let is_clean = git(root, &status)?.is_empty();
    Some(if is_clean {
        hash
    } else {
        format!("{hash}-dirty")
    })
}

/// What git prints; `None` where it fails, as in a repository of another user.
fn git(root: &Path, words: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // `status` would write the index otherwise, which somebody else may hold.
    command
        .env("GIT_OPTIONAL_LOCKS", "0")
        .current_dir(root)
        .args(words);
    let output = command.output().ok()?;
    let text = output.status.success().then_some(output.stdout)?;
    Some(String::from_utf8(text).ok()?.trim().to_owned())
}
