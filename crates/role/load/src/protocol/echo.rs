//! The simplest protocol of requests and answers: an echo, RFC 862.

use super::{Answer, Answers, Broken, Client, Outstanding, Request, Server};

/// A client of an echo: each request is so many bytes, and its answer the same ones.
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

    fn name(&self) -> &'static str {
        "echo"
    }

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

    fn name(&self) -> &'static str {
        "echo"
    }

    fn rests(&self, (): &()) -> bool {
        true
    }

    fn read(&mut self, (): &mut (), bytes: &[u8], answers: &mut impl Answers<()>) {
        answers.request();
        answers.bytes(bytes);
    }

    fn content(&self, (): (), _: u64, _: &mut [u8]) {}
}
