use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// The longest `trace.json` that is read. One of 65,535 inputs has 50 MB.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;

/// Opens a file of a trace. In a foreign trace its name may stand for a FIFO, which nobody writes,
/// for a device, or for a link to one: these are never opened.
pub fn open_file(path: &Path) -> io::Result<File> {
    if fs::metadata(path)?.is_file() {
        return File::open(path);
    }
    Err(io::Error::other("it is not a file"))
}

/// The text of a `trace.json`.
pub fn manifest_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = { open_file(path)?.take(MANIFEST_BYTES_MAX + 1) }.read_to_string(&mut text)?;
    match read as u64 > MANIFEST_BYTES_MAX {
        true => Err(io::Error::other("it is longer than 64 MiB")),
        false => Ok(text),
    }
}
