//! A runner of packetdrill's script language in virtual time, over a
//! [`Stack`](lineside_tcp::Stack).
//!
//! ```text
//!  text ─► parser ─► Script ─► runner ─┬─ calls ──► sockets ─► Stack
//!                      │               ├─ `<` lines: packet::write ─► on_burst
//!                      │               └─ `>` lines: packet::read, compared field by field
//!                      └─ settings: `sysctl` lines become the stack's configuration
//! ```
//!
//! * A script is a function of its text: nothing waits, and shell commands are not run.
//! * Each field that a line states is compared. A frame that no line expects fails the script.
//! * Not compared, because no RFC asks for it: the order of options and their padding, and into how
//!   many segments a longer one than the segment size is cut.
//! * Beyond packetdrill's language: `raw HEX` among the options of a segment.
mod calls;
mod compare;
mod mutate;
mod options;
mod packet;
mod parser;
mod runner;
mod scanner;
mod script;
mod settings;
mod sockets;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use mutate::mutated;
pub use parser::parse;
pub use runner::run;
pub use script::Script;

/// What does not hold, and in which line of the script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// From 1.
    pub line: u32,
    /// What was expected, and what was there.
    pub what: String,
}

impl Fault {
    fn new(line: u32, what: impl Into<String>) -> Self {
        let what = what.into();
        Self { line, what }
    }
}

/// How scripts are read and run.
#[derive(Debug, Clone, Copy)]
pub struct Manner<'a> {
    /// What `#ifdef` lines know.
    pub defined: &'a [&'a str],
    /// Written for another stack: what leaves after the last line that expects a segment is not
    /// looked at, as in packetdrill, nor is PSH, which RFC 9293, 3.9.1.2 leaves to the sender while
    /// more is queued.
    pub is_foreign: bool,
}

/// By the RFCs, where a script has that beside a system's own way; every frame is to be expected.
pub const STRICT: Manner<'_> = Manner {
    defined: &["STANDARD"],
    is_foreign: false,
};

/// Runs the script of a file.
pub fn run_file(path: &Path, manner: Manner<'_>) -> io::Result<Result<(), Fault>> {
    let text = String::from_utf8_lossy(&fs::read(path)?).into_owned();
    let script = parse(&text, manner.defined);
    Ok(script.and_then(|script| run(&script, manner.is_foreign)))
}

/// The scripts at a path: the file, or all below the folder whose name ends with `.pkt`, sorted.
pub fn scripts(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(scripts(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "pkt") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
