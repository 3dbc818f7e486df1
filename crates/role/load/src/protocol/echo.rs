//! The simplest protocol of requests and answers: an echo, RFC 862.

use lineside_http::Url;
use lineside_words::parse_size;

use super::{
    Answer, Answers, Broken, Client, Named, Outstanding, Protocol, Request, Server, Service,
};
use crate::launch::{Requests, Streams};
use crate::serve::ServeStreams;
use crate::words::{UsageError, Words};

/// The port of RFC 862.
const PORT: u16 = 7;
/// Bytes of a request.
const BYTES: u32 = 64;
/// The most of them: a request lies in memory whole.
const BYTES_MAX: u32 = 1 << 20;

/// The protocol `echo`.
pub(super) static ECHO: Protocol = Protocol::new(
    "echo",
    "echo://HOST[:PORT][?bytes=64]",
    client,
    Service {
        place: 1,
        about: "Whatever comes goes back",
        port: PORT,
        size: None,
        server: |_| Ok(Box::new(ServeStreams(|| EchoServer))),
    },
);

fn client(words: &Words<'_>) -> Result<(Url, Box<dyn Requests>), UsageError> {
    let (server, bytes) = url(words)?;
    let seed = words.seed;
    let make = move || Echo::new(bytes, seed);
    let requests = Streams::with_peer(make, ServeStreams(|| EchoServer));
    Ok((server, Box::new(requests)))
}

/// `HOST[:PORT][?bytes=N]`.
fn url(words: &Words<'_>) -> Result<(Url, u32), UsageError> {
    let (at, size) = words.parameter("bytes", "?bytes=64")?;
    let server = words.server(at, PORT, ECHO.url)?;
    let Some(size) = size else {
        return Ok((server, BYTES));
    };
    let bytes = parse_size(size)
        .ok()
        .and_then(|bytes| u32::try_from(bytes).ok());
    match bytes.filter(|bytes| (1..=BYTES_MAX).contains(bytes)) {
        Some(bytes) => Ok((server, bytes)),
        None => Err(words.wrong(format!(
            "'{size}' is not a length of a request: give 1 to 1MiB"
        ))),
    }
}

/// A client of an echo: each request is this many bytes, and its answer the same ones.
#[derive(Debug, Clone)]
pub struct Echo {
    bytes: u32,
    seed: u64,
    expected: Vec<u8>,
}

/// How much of an answer has come.
#[derive(Debug, Default)]
pub struct EchoReader {
    received: u32,
}

impl Echo {
    /// Requests of `bytes` bytes, at least 1, which follow from the seed.
    pub fn new(bytes: u32, seed: u64) -> Self {
        let bytes = bytes.max(1);
        Self {
            bytes,
            seed,
            expected: Vec::with_capacity(bytes as usize),
        }
    }
}

/// The bytes of a request are its number and the seed, again and again: cheap, and different from
/// those of any other request.
fn pattern(seed: u64, ordinal: u64) -> [u8; 8] {
    (seed ^ ordinal.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes()
}

impl Client for Echo {
    type Reader = EchoReader;

    fn write(&mut self, request: Request, out: &mut Vec<u8>) {
        let pattern = pattern(self.seed, request.ordinal);
        out.extend(pattern.iter().cycle().take(self.bytes as usize));
    }

    fn read(
        &mut self,
        reader: &mut EchoReader,
        mut bytes: &[u8],
        outstanding: &mut impl Outstanding,
    ) -> Result<(), Broken> {
        while !bytes.is_empty() {
            let request = outstanding.oldest().ok_or(Broken)?;
            let len = bytes.len().min((self.bytes - reader.received) as usize);
            let pattern = pattern(self.seed, request.ordinal);
            self.expected.clear();
            let from = reader.received as usize % pattern.len();
            self.expected
                .extend(pattern.iter().cycle().skip(from).take(len));
            if self.expected != bytes[..len] {
                return Err(Broken);
            }
            bytes = &bytes[len..];
            reader.received += len as u32;
            if reader.received == self.bytes {
                reader.received = 0;
                outstanding.answered(Answer {
                    is_success: true,
                    content_bytes: self.bytes.into(),
                    ..Answer::default()
                })?;
            }
        }
        Ok(())
    }
}

impl Named for Echo {
    fn operation(&self, _: Request) -> &'static str {
        "ECHO"
    }
}

/// Returns what comes.
#[derive(Debug, Clone, Copy, Default)]
pub struct EchoServer;

impl Server for EchoServer {
    type Reader = ();
    type Content = ();

    fn rests(&self, (): &()) -> bool {
        true
    }

    fn read(&mut self, (): &mut (), bytes: &[u8], answers: &mut impl Answers<()>) {
        answers.request();
        answers.bytes(bytes);
    }

    fn content(&self, (): (), _: u64, _: &mut [u8]) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::test::words;

    #[test]
    fn a_url_has_a_port_and_a_length() {
        for (text, host, port, bytes) in [
            ("echo://127.0.0.1", "127.0.0.1", 7, 64),
            ("echo://127.0.0.1:80", "127.0.0.1", 80, 64),
            ("echo://[::1]", "::1", 7, 64),
            ("ECHO://[::1]:9000/?bytes=4KiB", "::1", 9000, 4096),
        ] {
            let (server, found) = url(&words(text)).expect(text);
            assert_eq!(
                (&*server.host, server.port, found),
                (host, port, bytes),
                "{text}"
            );
        }
    }
}
