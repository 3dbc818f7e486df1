//! Naming files that are no captures, so that a user sees at once what went wrong.

use crate::PortError;

/// The error for a file that begins with `bytes` and is neither pcap nor pcapng.
#[cold]
pub(crate) fn foreign(name: &str, bytes: &[u8]) -> PortError {
    let begins: Vec<String> = bytes
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    PortError::Foreign {
        name: name.to_owned(),
        begins: begins.join(" "),
        looks: looks_like(bytes).map_or_else(String::new, |looks| format!(", like {looks}")),
    }
}

/// What files begin with, and what they are.
const BEGINNINGS: [(&[u8], &str); 15] = [
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
    if is_erf(bytes) {
        return Some("an ERF file: convert it with 'editcap -F nsecpcap'");
    }
    let is_text = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~' | 0x80..);
    bytes.iter().all(is_text).then_some("text")
}

/// ERF has no magic: seconds in the upper half of a little-endian stamp, a type, a record length.
fn is_erf(bytes: &[u8]) -> bool {
    let Some(&[_, _, _, _, s0, s1, s2, s3, kind, _, len_high, len_low]) = bytes.first_chunk()
    else {
        return false;
    };
    let seconds = u32::from_le_bytes([s0, s1, s2, s3]);
    // From 1996, when the first such cards were made, to 2038.
    (820_454_400..0x8000_0000).contains(&seconds)
        && (1..=48).contains(&(kind & 0x7f))
        && u16::from_be_bytes([len_high, len_low]) >= 16
}
