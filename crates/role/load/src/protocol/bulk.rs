//! Bulk data: to a sink, RFC 863, whose TCP acknowledges them; from a source, as of RFC 864, whose
//! bytes need not end.

use lineside_workload::Sizes;

use super::{Answer, Answers, Broken, Client, Outstanding, Request, Server};

/// The characters of RFC 864, without its lines: those of ASCII from the space on.
const CHARACTERS: usize = 95;
/// So many rows of them lie ready, as much as a nearest cache has room for: copying is several
/// times as fast as working each one out.
const ROWS: usize = 64;

static READY: [u8; CHARACTERS * ROWS] = {
    let mut ready = [0; CHARACTERS * ROWS];
    let mut at = 0;
    while at < ready.len() {
        ready[at] = b' ' + (at % CHARACTERS) as u8;
        at += 1;
    }
    ready
};

/// Writes the characters from `offset` on.
fn characters(offset: u64, bytes: &mut [u8]) {
    let first = (offset % CHARACTERS as u64) as usize;
    // Whole rows, after which the next piece begins with the same character.
    for piece in bytes.chunks_mut(CHARACTERS * (ROWS - 1)) {
        piece.copy_from_slice(&READY[first..first + piece.len()]);
    }
}

/// A client of a sink: each request is so many bytes, and is over when the other end's TCP has
/// acknowledged them all.
#[derive(Debug, Clone)]
pub struct Sink {
    sizes: Sizes,
    seed: u64,
}

impl Sink {
    /// Requests of these sizes, at least 1 byte, which follow from the seed.
    pub fn new(sizes: Sizes, seed: u64) -> Self {
        Self { sizes, seed }
    }
}

impl Client for Sink {
    type Reader = ();
    const IS_ACKNOWLEDGED: bool = true;

    fn name(&self) -> &'static str {
        "sink"
    }

    fn len(&mut self, request: Request) -> Option<u64> {
        Some(self.sizes.draw(self.seed, request.ordinal).max(1))
    }

    fn fill(&mut self, _: Request, offset: u64, bytes: &mut [u8]) {
        characters(offset, bytes);
    }

    /// It has no request in one piece.
    fn write(&mut self, _: Request, _: &mut Vec<u8>) {}

    /// A sink says nothing.
    fn read(&mut self, (): &mut (), _: &[u8], _: &mut impl Outstanding) -> Result<(), Broken> {
        Err(Broken)
    }

    fn operation(&self, _: Request) -> &'static str {
        "SEND"
    }
}

/// A client of a source: each request takes so many bytes of what comes, or all to the end.
#[derive(Debug, Clone)]
pub struct Source {
    sizes: Option<Sizes>,
    seed: u64,
}

/// What came of a source and belongs to no request that is over.
#[derive(Debug, Default)]
pub struct SourceReader {
    bytes: u64,
}

impl Source {
    /// Requests of these sizes, at least 1 byte, which follow from the seed; `None`: a request
    /// takes what comes until the server ends the connection.
    pub fn new(sizes: Option<Sizes>, seed: u64) -> Self {
        Self { sizes, seed }
    }
}

impl Client for Source {
    type Reader = SourceReader;
    const IS_UNASKED: bool = true;

    fn name(&self) -> &'static str {
        "source"
    }

    fn len(&mut self, _: Request) -> Option<u64> {
        Some(0)
    }

    /// Nothing is sent.
    fn write(&mut self, _: Request, _: &mut Vec<u8>) {}

    fn read(
        &mut self,
        reader: &mut SourceReader,
        bytes: &[u8],
        outstanding: &mut impl Outstanding,
    ) -> Result<(), Broken> {
        reader.bytes += bytes.len() as u64;
        let (Some(sizes), Some(request)) = (&self.sizes, outstanding.oldest()) else {
            return Ok(());
        };
        let wanted = sizes.draw(self.seed, request.ordinal).max(1);
        if reader.bytes < wanted {
            return Ok(());
        }
        reader.bytes -= wanted;
        outstanding.answered(Answer {
            is_success: true,
            content_bytes: wanted,
            ..Answer::default()
        })
    }

    fn came(&self, reader: &SourceReader) -> u64 {
        reader.bytes
    }

    fn end(
        &mut self,
        reader: &mut SourceReader,
        outstanding: &mut impl Outstanding,
    ) -> Result<(), Broken> {
        let is_whole = self.sizes.is_none() && reader.bytes > 0;
        if !is_whole || outstanding.oldest().is_none() {
            return Ok(());
        }
        outstanding.answered(Answer {
            is_success: true,
            content_bytes: std::mem::take(&mut reader.bytes),
            closes: true,
            ..Answer::default()
        })
    }

    fn operation(&self, _: Request) -> &'static str {
        "RECEIVE"
    }
}

/// Takes what comes.
#[derive(Debug, Clone, Copy, Default)]
pub struct SinkServer;

impl Server for SinkServer {
    type Reader = ();
    type Content = ();

    fn name(&self) -> &'static str {
        "sink"
    }

    fn rests(&self, (): &()) -> bool {
        true
    }

    fn read(&mut self, (): &mut (), _: &[u8], _: &mut impl Answers<()>) {}

    fn content(&self, (): (), _: u64, _: &mut [u8]) {}
}

/// Sends bytes as fast as the client takes them, so many on each connection.
#[derive(Debug, Clone, Copy)]
pub struct SourceServer {
    /// How many.
    pub bytes: u64,
}

impl Server for SourceServer {
    type Reader = ();
    type Content = ();
    const GREETS: bool = true;

    fn name(&self) -> &'static str {
        "source"
    }

    fn greet(&mut self, (): &mut (), answers: &mut impl Answers<()>) {
        answers.content((), self.bytes);
        answers.close();
    }

    fn rests(&self, (): &()) -> bool {
        true
    }

    fn read(&mut self, (): &mut (), _: &[u8], _: &mut impl Answers<()>) {}

    fn content(&self, (): (), offset: u64, bytes: &mut [u8]) {
        characters(offset, bytes);
    }
}

#[cfg(test)]
mod tests {
    use lineside_workload::Unit;

    use super::*;

    #[test]
    fn characters_go_on_where_a_part_ends() {
        let whole: Vec<u8> = (0..20_000).map(|at| b' ' + (at % 95) as u8).collect();
        for (from, to) in [(0, 20_000), (94, 6_100), (5_985, 12_000), (95, 96), (7, 7)] {
            let mut part = vec![0; to - from];
            characters(from as u64, &mut part);
            assert_eq!(part, whole[from..to], "{from}..{to}");
        }
    }

    /// Requests of one connection, and the contents of those that were answered.
    struct Requests(Vec<Request>, Vec<u64>);

    impl Outstanding for Requests {
        fn oldest(&mut self) -> Option<Request> {
            self.0.first().copied()
        }

        fn request(&mut self, _: u32) -> Option<Request> {
            self.oldest()
        }

        fn answered(&mut self, answer: Answer) -> Result<(), Broken> {
            if self.0.is_empty() {
                return Err(Broken);
            }
            self.0.remove(0);
            self.1.push(answer.content_bytes);
            Ok(())
        }
    }

    const REQUEST: Request = Request {
        ordinal: 0,
        slot: 0,
    };

    #[test]
    fn bytes_before_a_request_count_for_it() {
        let mut source = Source::new(Some(Sizes::constant(100, Unit::Bytes)), 1);
        let (mut reader, mut requests) = (SourceReader::default(), Requests(vec![], vec![]));
        let mut read = |reader: &mut _, len, requests: &mut _| {
            let bytes = vec![0; len];
            source.read(reader, &bytes, requests).expect("bytes");
        };
        read(&mut reader, 70, &mut requests);
        requests.0.push(REQUEST);
        read(&mut reader, 29, &mut requests);
        assert!(requests.1.is_empty());
        read(&mut reader, 131, &mut requests);
        assert_eq!((&*requests.1, reader.bytes), (&[100][..], 130));
        requests.0.push(REQUEST);
        read(&mut reader, 0, &mut requests);
        assert_eq!((&*requests.1, reader.bytes), (&[100, 100][..], 30));
    }

    #[test]
    fn an_end_answers_a_request_for_everything_alone() {
        for (sizes, came, expected) in [
            (None, 70, &[70][..]),
            (None, 0, &[]),
            (Some(Sizes::constant(100, Unit::Bytes)), 70, &[]),
        ] {
            let mut source = Source::new(sizes, 1);
            let (mut reader, mut requests) =
                (SourceReader::default(), Requests(vec![REQUEST], vec![]));
            let bytes = vec![0; came];
            source
                .read(&mut reader, &bytes, &mut requests)
                .expect("bytes");
            source.end(&mut reader, &mut requests).expect("an end");
            assert_eq!(requests.1, expected, "{came}");
        }
    }
}
