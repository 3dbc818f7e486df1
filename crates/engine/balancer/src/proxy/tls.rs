//! The server's name in a TLS ClientHello: RFC 8446, 4.1.2 and 5.1; RFC 6066, 3.
//!
//! ```text
//!  records   | 22, version, length | fragment | 22, version, length | fragment | …
//!  message                         | 1, length | version, random, session, suites, compressions |
//!                                  | extensions: kind, length, value … server_name: list of names |
//! ```
//!
//! The message may lie in several records; it is read across them without being copied. Nothing
//! else of TLS is here: what follows the first message is not looked at.

/// A record with handshake messages: RFC 8446, 5.1.
const HANDSHAKE: u8 = 22;
/// The first message of a client: RFC 8446, 4.
const CLIENT_HELLO: u8 = 1;
/// The extension with the server's name, and the only kind of name: RFC 6066, 3.
const SERVER_NAME: usize = 0;
const HOST_NAME: usize = 0;
const RECORD_HEADER_LEN: usize = 5;
/// The most bytes of a record in the clear: RFC 8446, 5.1.
const RECORD_LEN_MAX: usize = 1 << 14;
/// Records that the message may lie in. Clients that cut it to get past middleboxes make two or
/// three; a limit keeps the work a segment small for those that make one of every byte.
const RECORDS_MAX: usize = 64;
/// The longest name of DNS.
const NAME_LEN_MAX: usize = 255;

/// What the first bytes of a connection say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one a connection, on the stack")]
pub enum Hello {
    /// They are the beginning of a message; the reader needs this many to go on.
    More(usize),
    /// The client names its server.
    Name(Name),
    /// It names none.
    Nameless,
    /// They are not a ClientHello.
    Malformed,
}

/// The name of a server, as it was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; NAME_LEN_MAX],
    len: u8,
}

impl Name {
    /// The bytes, which need not be text.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.bytes().escape_ascii())
    }
}

/// Whether a connection that begins with this byte speaks TLS rather than HTTP.
pub fn begins(byte: u8) -> bool {
    byte == HANDSHAKE
}

/// Reads the beginning of what a client sends.
pub fn client_hello(bytes: &[u8]) -> Hello {
    let mut message = Message {
        rest: bytes,
        in_record: 0,
        records: 0,
        len: bytes.len(),
    };
    match message.name() {
        Ok(Some(name)) => Hello::Name(name),
        Ok(None) => Hello::Nameless,
        Err(Stop::More(len)) => Hello::More(len),
        Err(Stop::Malformed) => Hello::Malformed,
    }
}

/// Why reading ends before the end.
enum Stop {
    More(usize),
    Malformed,
}

/// The bytes of a message across the records in which it lies.
struct Message<'a> {
    /// What was not read yet, from within a record on.
    rest: &'a [u8],
    /// Bytes that are left of that record.
    in_record: usize,
    records: usize,
    /// Bytes of everything that was given.
    len: usize,
}

impl Message<'_> {
    fn name(&mut self) -> Result<Option<Name>, Stop> {
        if self.number(1)? != usize::from(CLIENT_HELLO) {
            return Err(Stop::Malformed);
        }
        let mut hello = self.number(3)?;
        // Version and random.
        self.skip_within(34, &mut hello)?;
        // Session, suites, compressions.
        for len_bytes in [1, 2, 1] {
            let len = self.number_within(len_bytes, &mut hello)?;
            self.skip_within(len, &mut hello)?;
        }
        if hello == 0 {
            return Ok(None);
        }
        let mut extensions = self.number_within(2, &mut hello)?;
        if extensions != hello {
            return Err(Stop::Malformed);
        }
        while extensions > 0 {
            let kind = self.number_within(2, &mut extensions)?;
            let len = self.number_within(2, &mut extensions)?;
            if kind == SERVER_NAME {
                let mut value = len;
                let _ = extensions.checked_sub(len).ok_or(Stop::Malformed)?;
                return self.server_name(&mut value).map(Some);
            }
            self.skip_within(len, &mut extensions)?;
        }
        Ok(None)
    }

    /// A list has one name of each kind, and there is one kind.
    fn server_name(&mut self, value: &mut usize) -> Result<Name, Stop> {
        let mut list = self.number_within(2, value)?;
        if list != *value || self.number_within(1, &mut list)? != HOST_NAME {
            return Err(Stop::Malformed);
        }
        let len = self.number_within(2, &mut list)?;
        if len != list || !(1..=NAME_LEN_MAX).contains(&len) {
            return Err(Stop::Malformed);
        }
        let mut bytes = [0; NAME_LEN_MAX];
        for byte in &mut bytes[..len] {
            *byte = self.number(1)? as u8;
        }
        let len = len as u8;
        Ok(Name { bytes, len })
    }

    /// A number of this many bytes that is a part of `whole`, from which its length is taken.
    fn number_within(&mut self, len: usize, whole: &mut usize) -> Result<usize, Stop> {
        *whole = whole.checked_sub(len).ok_or(Stop::Malformed)?;
        self.number(len)
    }

    fn number(&mut self, len: usize) -> Result<usize, Stop> {
        let mut number = 0;
        for _ in 0..len {
            self.enter_record()?;
            let (&byte, rest) = self.rest.split_first().ok_or(Stop::More(self.len + 1))?;
            self.rest = rest;
            self.in_record -= 1;
            number = number << 8 | usize::from(byte);
        }
        Ok(number)
    }

    fn skip_within(&mut self, mut len: usize, whole: &mut usize) -> Result<(), Stop> {
        *whole = whole.checked_sub(len).ok_or(Stop::Malformed)?;
        while len > 0 {
            self.enter_record()?;
            let step = len.min(self.in_record);
            let missing = step.saturating_sub(self.rest.len());
            let rest = self.rest.get(step..);
            self.rest = rest.ok_or(Stop::More(self.len + missing))?;
            self.in_record -= step;
            len -= step;
        }
        Ok(())
    }

    /// At the end of a record the next one begins.
    fn enter_record(&mut self) -> Result<(), Stop> {
        if self.in_record > 0 {
            return Ok(());
        }
        // What is no handshake is known by the first byte.
        if self.rest.first().is_some_and(|&kind| kind != HANDSHAKE) {
            return Err(Stop::Malformed);
        }
        let header = self.rest.split_first_chunk::<RECORD_HEADER_LEN>();
        let missing = RECORD_HEADER_LEN.saturating_sub(self.rest.len());
        let (&[_, major, _, high, low], rest) = header.ok_or(Stop::More(self.len + missing))?;
        let len = usize::from(u16::from_be_bytes([high, low]));
        self.records += 1;
        // RFC 8446, 5.1: no fragment of a handshake is empty.
        let is_right = major == 3 && (1..=RECORD_LEN_MAX).contains(&len);
        if !is_right || self.records > RECORDS_MAX {
            return Err(Stop::Malformed);
        }
        (self.rest, self.in_record) = (rest, len);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What OpenSSL 3 sends to `api.example.com`.
    const OPENSSL: &[u8] = include_bytes!("client_hello.bin");

    /// The same message in records of this many bytes.
    fn in_records(len: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in OPENSSL[RECORD_HEADER_LEN..].chunks(len) {
            bytes.extend([HANDSHAKE, 3, 1]);
            bytes.extend((part.len() as u16).to_be_bytes());
            bytes.extend(part);
        }
        bytes
    }

    #[test]
    fn the_name_is_found_however_the_message_is_cut() {
        for len in [9, 50, 100, 1 << 14] {
            let whole = in_records(len);
            let Hello::Name(name) = client_hello(&whole) else {
                panic!("no name in records of {len} bytes");
            };
            assert_eq!(name.bytes(), b"api.example.com");
            // For a beginning, the answer is how much more is needed, or the name.
            for end in 0..whole.len() {
                match client_hello(&whole[..end]) {
                    Hello::More(needed) => assert!(needed > end && needed <= whole.len()),
                    Hello::Name(found) => assert_eq!(found, name),
                    other => panic!("{other:?} of {end} bytes"),
                }
            }
        }
        assert_eq!(client_hello(&in_records(1)), Hello::Malformed);
    }

    #[test]
    fn other_beginnings_are_no_client_hello() {
        for bytes in [
            &b"GET / HTTP/1.1\r\n"[..],
            &[22, 2],
            &[22, 3, 1, 0, 0],
            &[22, 3, 1, 0, 4, 2],
        ] {
            let is_short = bytes.len() < RECORD_HEADER_LEN && bytes[0] == HANDSHAKE;
            let hello = client_hello(bytes);
            match is_short {
                true => assert!(matches!(hello, Hello::More(_)), "{bytes:?}"),
                false => assert_eq!(hello, Hello::Malformed, "{bytes:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn foreign_bytes_have_an_end(
            bytes: Vec<u8>, changes in proptest::collection::vec((0_usize..600, any::<u8>()), 0..4),
        ) {
            let mut hello = OPENSSL.to_vec();
            for (at, byte) in changes {
                let at = at % hello.len();
                hello[at] = byte;
            }
            for bytes in [bytes, hello] {
                if let Hello::More(needed) = client_hello(&bytes) {
                    prop_assert!(needed > bytes.len());
                }
            }
        }
    }
}
