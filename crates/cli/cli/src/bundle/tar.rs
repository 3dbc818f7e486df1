//! Files in a tar archive (ustar of POSIX.1), whose headers tell no user, host or time.

use std::io::{self, Write};

const BLOCK: usize = 512;
/// Bytes of a name: the prefix field is not used.
pub(super) const NAME_MAX: usize = 100;

/// Appends a file.
pub(super) fn append(out: &mut impl Write, name: &str, content: &[u8]) -> io::Result<()> {
    out.write_all(&header(name, content.len() as u64)?)?;
    out.write_all(content)?;
    let rest = content.len().next_multiple_of(BLOCK) - content.len();
    out.write_all(&[0; BLOCK][..rest])
}

/// The end of an archive.
pub(super) fn finish(out: &mut impl Write) -> io::Result<()> {
    out.write_all(&[0; 2 * BLOCK])?;
    out.flush()
}

fn header(name: &str, len: u64) -> io::Result<[u8; BLOCK]> {
    if name.len() > NAME_MAX {
        return Err(io::Error::other("a name is too long for a tar archive"));
    }
    let mut header = [0; BLOCK];
    let mut put = |at: usize, text: &str| {
        header[at..at + text.len()].copy_from_slice(text.as_bytes());
    };
    put(0, name);
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{len:011o}\0"));
    put(136, "00000000000\0");
    // The sum is made as if it were spaces.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\0");
    put(263, "00");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole_and_names_bounded() {
        let mut out = Vec::new();
        append(&mut out, "a/b", b"text").expect("memory");
        append(&mut out, "c", &[7; BLOCK]).expect("memory");
        finish(&mut out).expect("memory");
        assert_eq!(out.len(), 6 * BLOCK);
        assert_eq!(&out[..3], b"a/b");
        assert_eq!(&out[124..136], b"00000000004\0");
        assert!(append(&mut out, &"n".repeat(101), b"").is_err());
    }
}
