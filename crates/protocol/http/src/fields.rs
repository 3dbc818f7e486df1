//! The field lines of a head or a trailer section, read where they lie.

use memchr::memchr;

/// Field lines that the parser has checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fields<'a> {
    lines: &'a [u8],
}

/// A field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// As it was sent; names are compared without regard to case (RFC 9110 section 5.1).
    pub name: &'a [u8],
    /// Without the whitespace around it. The line breaks of a folded value (RFC 9112 section 5.2)
    /// stay in it: each is to be read as a space.
    pub value: &'a [u8],
}

impl<'a> Fields<'a> {
    /// `lines`: checked lines, with their line ends, without the empty line.
    pub(crate) fn new(lines: &'a [u8]) -> Self {
        Self { lines }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The first field of this name.
    pub fn value(&self, name: &str) -> Option<&'a [u8]> {
        let mut fields = *self;
        fields
            .find(|field| field.name.eq_ignore_ascii_case(name.as_bytes()))
            .map(|field| field.value)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let colon = memchr(b':', self.lines)?;
        let (name, rest) = self.lines.split_at(colon);
        let rest = &rest[1..];
        let mut len = 0;
        // A line that begins with whitespace goes on with the value.
        loop {
            len += memchr(b'\n', &rest[len..]).map_or(rest.len() - len, |at| at + 1);
            if !matches!(rest.get(len), Some(b' ' | b'\t')) {
                break;
            }
        }
        let (value, lines) = rest.split_at(len);
        self.lines = lines;
        Some(Field {
            name,
            value: trimmed(value),
        })
    }
}

/// Whitespace within a value; the ends of lines of a folded one are part of it.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// `value` without the whitespace around it.
pub(crate) fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = value
        && is_space(*first)
    {
        value = rest;
    }
    while let [rest @ .., last] = value
        && is_space(*last)
    {
        value = rest;
    }
    value
}

/// The members of a comma-separated list (RFC 9110 section 5.6.1); empty ones are left out.
pub(crate) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let members = value.split(|&byte| byte == b',').map(trimmed);
    members.filter(|member| !member.is_empty())
}

/// Characters of a token (RFC 9110 section 5.6.2).
pub(crate) const TOKEN: [bool; 256] = {
    let mut token = [false; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        token[at] = byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'!' | b'#'
                    | b'$'
                    | b'%'
                    | b'&'
                    | b'\''
                    | b'*'
                    | b'+'
                    | b'-'
                    | b'.'
                    | b'^'
                    | b'_'
                    | b'`'
                    | b'|'
                    | b'~'
            );
        at += 1;
    }
    token
};

/// Whether `bytes` are a token.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| TOKEN[usize::from(byte)])
}

/// Whether a value has no controls but tabs (RFC 9110 section 5.5).
pub(crate) fn is_value(bytes: &[u8]) -> bool {
    // Without an early end, so that it is done many bytes at a time.
    let bad = bytes.iter().fold(false, |bad, &byte| {
        bad | ((byte < b' ') & (byte != b'\t')) | (byte == 0x7f)
    });
    !bad
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_listed_with_folded_values_whole() {
        let fields = Fields::new(b"A: 1\r\nb:\t2 \n  3\r\n\t4\r\nC:\r\n");
        let listed: Vec<_> = fields.map(|field| (field.name, field.value)).collect();
        let expected: [(&[u8], &[u8]); 3] = [(b"A", b"1"), (b"b", b"2 \n  3\r\n\t4"), (b"C", b"")];
        assert_eq!(listed, expected);
        assert_eq!(fields.value("B"), Some(&b"2 \n  3\r\n\t4"[..]));
        assert_eq!(fields.value("D"), None);
        assert!(Fields::default().is_empty());
    }

    #[test]
    fn tokens_and_values_are_those_of_the_grammar() {
        let token = (0..=255).filter(|&byte| TOKEN[usize::from(byte)]);
        let expected =
            "!#$%&'*+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ^_`abcdefghijklmnopqrstuvwxyz|~";
        assert_eq!(token.collect::<Vec<u8>>(), expected.as_bytes());
        for byte in 0..=255 {
            let is_good = byte == b'\t' || (byte >= b' ' && byte != 0x7f);
            assert_eq!(is_value(&[b'a', byte, b'b']), is_good, "{byte}");
        }
    }
}
