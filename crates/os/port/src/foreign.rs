//! Naming files that are no captures, so that a user sees at once what went wrong.

use crate::{PortError, erf};

/// The error for a file that begins with `bytes` and is neither pcap nor pcapng; `None` if it may
/// be of the one format that has no mark.
#[cold]
pub(crate) fn foreign(name: &str, bytes: &[u8]) -> Option<PortError> {
    let looks = looks_like(bytes);
    if looks.is_none() && erf::begins(bytes) {
        return None;
    }
    let begins: Vec<String> = bytes
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Some(PortError::Foreign {
        name: name.to_owned(),
        begins: begins.join(" "),
        looks: looks.map_or_else(String::new, |looks| format!(", like {looks}")),
    })
}

/// What files begin with, and what they are.
const BEGINNINGS: [(&[u8], &str); 21] = [
    (
        b"snoop\0\0\0",
        "a snoop file: convert it with 'editcap -F nsecpcap'",
    ),
    (
        b"\xfd7zXZ\0",
        "xz within compressed data: unpack the outer one",
    ),
    (
        b"\x04\x22\x4d\x18",
        "lz4 within compressed data: unpack the outer one",
    ),
    (b"\x5d\0\0", "lzma: unpack it with 'xz -d'"),
    (b"BZh", "bzip2: unpack it with 'bzip2 -d'"),
    (b"\x1f\x9d", "compress: unpack it with 'gzip -d'"),
    (b"PK\x03\x04", "a zip archive: unpack it with 'unzip'"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it with '7z x'"),
    (
        b"\x1f\x8b",
        "gzip within compressed data: unpack the outer one",
    ),
    (
        b"\x28\xb5\x2f\xfd",
        "zstd within compressed data: unpack the outer one",
    ),
    (
        b"GMBU",
        "a Network Monitor file: convert it with 'editcap -F nsecpcap'",
    ),
    (
        b"RTSS",
        "a Network Monitor file: convert it with 'editcap -F nsecpcap'",
    ),
    (
        b"iptrace 1.0",
        "an iptrace file: convert it with 'editcap -T ether -F nsecpcap'",
    ),
    (
        b"iptrace 2.0",
        "an iptrace file: convert it with 'editcap -T ether -F nsecpcap'",
    ),
    (
        b"TR\0d\0",
        "a nettl file: convert it with 'editcap -T ether -F nsecpcap'",
    ),
    (
        b"\0\0\0\x01\0\0\0\0\0\x07\xd0\0",
        "a nettl file: convert it with 'editcap -T ether -F nsecpcap'",
    ),
    (
        b"TRSNIFF data",
        "a Sniffer file: convert it with 'editcap -F nsecpcap'",
    ),
    (
        b"\x7fver",
        "a Peek file: convert it with 'editcap -F nsecpcap'",
    ),
    (
        b"XCP\0",
        "a NetXRay file: convert it with 'editcap -F nsecpcap'",
    ),
    (
        b"PAR1",
        "a Parquet table: name the folder of the trace instead",
    ),
    (b"\x7fELF", "a program"),
];

fn looks_like(bytes: &[u8]) -> Option<&'static str> {
    if let Some((_, what)) = BEGINNINGS
        .iter()
        .find(|(magic, _)| bytes.starts_with(magic))
    {
        return Some(what);
    }
    // POSIX's mark, in the header of the first file.
    if bytes.get(257..262) == Some(b"ustar") {
        return Some("a tar archive: unpack it with 'tar xf', which also takes compressed ones");
    }
    let bytes = &bytes[..bytes.len().min(24)];
    let is_text = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~' | 0x80..);
    bytes.iter().all(is_text).then_some("text")
}
