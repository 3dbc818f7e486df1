//! Files in a tar archive (ustar of POSIX.1), whose headers name no user, host or time.
//!
//! What is read may come from anybody: of an archive only plain files are taken, and anything that
//! leads elsewhere (links, devices, names by extension) is refused. Names are for the caller to
//! judge.

use std::io::{self, ErrorKind, Read, Write};

const BLOCK: usize = 512;
/// Bytes of a name: the prefix field is not used.
pub const NAME_MAX: usize = 100;

/// Where the fields of a header begin, and end.
mod field {
    pub(super) const NAME: std::ops::Range<usize> = 0..100;
    pub(super) const LEN: std::ops::Range<usize> = 124..136;
    pub(super) const SUM: std::ops::Range<usize> = 148..156;
    pub(super) const KIND: usize = 156;
    pub(super) const MAGIC: std::ops::Range<usize> = 257..262;
    pub(super) const PREFIX: std::ops::Range<usize> = 345..500;
}

/// Reads the files of an archive of which none is longer than `len_max`, one after the other. The
/// error says what is wrong, in words.
pub fn read(
    mut input: impl Read,
    len_max: usize,
    mut on_file: impl FnMut(&str, &[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let mut header = [0; BLOCK];
    loop {
        block(&mut input, &mut header)?;
        if header == [0; BLOCK] {
            return end(input);
        }
        let name = checked(&header)?;
        let len = octal(&header[field::LEN]).ok_or("the length of a file is no number")?;
        let len = usize::try_from(len).ok().filter(|len| *len <= len_max);
        let shown = || lineside_words::escape(name);
        let len = len.ok_or_else(|| format!("{} is longer than {len_max} bytes", shown()))?;
        match header[field::KIND] {
            b'0' | 0 => {}
            b'5' if len == 0 => continue,
            _ => return Err(format!("{} is no plain file, such as a link", shown())),
        }
        // No more is taken than comes: a length alone is a number that anybody can write.
        let mut content = Vec::new();
        let read = (&mut input).take(len as u64).read_to_end(&mut content);
        read.map_err(|error| error.to_string())?;
        if content.len() < len {
            return Err(format!("cut short in {}", shown()));
        }
        let mut rest = [0; BLOCK];
        let padding = len.next_multiple_of(BLOCK) - len;
        fill(&mut input, &mut rest[..padding])?;
        on_file(name, &content)?;
    }
}

/// The name in a header that is whole.
fn checked(header: &[u8; BLOCK]) -> Result<&str, String> {
    let sum = octal(&header[field::SUM]).unwrap_or(u64::MAX);
    if sum != u64::from(sum_of(header)) || !header[field::MAGIC].starts_with(b"ustar") {
        return Err("no tar archive, or a damaged one".to_owned());
    }
    if header[field::PREFIX].iter().any(|byte| *byte != 0) {
        return Err("a name is too long".to_owned());
    }
    let name = header[field::NAME].split(|byte| *byte == 0).next();
    let name = std::str::from_utf8(name.unwrap_or_default());
    name.map_err(|_| "a name is no text".to_owned())
}

/// Behind the first block of zeros nothing else may stand.
fn end(mut input: impl Read) -> Result<(), String> {
    let (mut block, mut count) = ([0; BLOCK], 1);
    loop {
        match input.read(&mut block) {
            Ok(0) if count > 1 => return Ok(()),
            Ok(0) => return Err("cut short at its end".to_owned()),
            Ok(len) if block[..len].iter().all(|byte| *byte == 0) => count += 1,
            Ok(_) => return Err("something stands behind its end".to_owned()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn block(input: &mut impl Read, block: &mut [u8; BLOCK]) -> Result<(), String> {
    fill(input, block)
}

fn fill(input: &mut impl Read, bytes: &mut [u8]) -> Result<(), String> {
    input.read_exact(bytes).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => "cut short".to_owned(),
        _ => error.to_string(),
    })
}

/// A number of a header: octal digits, ended by a space or zero.
fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?;
    let digits = text.trim_matches([' ', '\0']);
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| u64::from_str_radix(digits, 8).ok())?
}

/// The sum of a header's bytes, made as if that of its own field were spaces.
fn sum_of(header: &[u8; BLOCK]) -> u32 {
    let bytes = header.iter().enumerate();
    let bytes = bytes.map(|(at, byte)| match field::SUM.contains(&at) {
        true => u32::from(b' '),
        false => u32::from(*byte),
    });
    bytes.sum()
}

/// Appends a file.
pub fn append(out: &mut impl Write, name: &str, content: &[u8]) -> io::Result<()> {
    out.write_all(&header(name, content.len() as u64)?)?;
    out.write_all(content)?;
    let rest = content.len().next_multiple_of(BLOCK) - content.len();
    out.write_all(&[0; BLOCK][..rest])
}

/// The end of an archive.
pub fn finish(out: &mut impl Write) -> io::Result<()> {
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
    put(156, "0");
    put(257, "ustar\0");
    put(263, "00");
    let sum = sum_of(&header);
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

    fn files(archive: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
        let mut found = Vec::new();
        read(archive, 1 << 10, |name, content| {
            found.push((name.to_owned(), content.to_owned()));
            Ok(())
        })?;
        Ok(found)
    }

    fn archive() -> Vec<u8> {
        let mut out = Vec::new();
        append(&mut out, "a/b", b"text").expect("memory");
        append(&mut out, "c", &[7; BLOCK]).expect("memory");
        finish(&mut out).expect("memory");
        out
    }

    /// An archive whose first header has another byte, and the sum of that.
    fn with(at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut out = archive();
        out[at..at + bytes.len()].copy_from_slice(bytes);
        let sum = sum_of(out[..BLOCK].try_into().expect("a block"));
        out[field::SUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        out
    }

    #[test]
    fn an_archive_is_read_as_it_was_written() {
        let found = files(&archive()).expect("it is right");
        let right = [
            ("a/b".to_owned(), b"text".to_vec()),
            ("c".to_owned(), vec![7; BLOCK]),
        ];
        assert_eq!(found, right);
        // tar(1) fills ten kibibytes.
        let padded = [archive(), vec![0; 7 * BLOCK]].concat();
        assert_eq!(files(&padded).expect("it is right"), right);
    }

    #[test]
    fn what_is_no_plain_archive_is_refused() {
        let whole = archive();
        for len in 0..whole.len() - 1 {
            // Without its last byte it has a block of zeros still.
            let cut = files(&whole[..len]);
            let is_whole = len > whole.len() - BLOCK;
            assert_eq!(cut.is_ok(), is_whole, "{len}: {cut:?}");
        }
        for kind in [b'1', b'2', b'3', b'6', b'L', b'x', b'g'] {
            let error = files(&with(field::KIND, &[kind])).expect_err("a link");
            assert!(error.contains("no plain file"), "{error}");
        }
        for (archive, expected) in [
            (with(124, b"77777777777"), "is longer than 1024 bytes"),
            (with(124, b"zz"), "is no number"),
            (with(345, b"deep"), "a name is too long"),
            (with(0, b"\xff"), "a name is no text"),
            ([whole.clone(), b"more".to_vec()].concat(), "behind its end"),
            ([b"PK".to_vec(), whole].concat(), "no tar archive"),
        ] {
            let error = files(&archive).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
    }
}
