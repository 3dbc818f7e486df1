//! Bulk data: to a sink, RFC 863, whose TCP acknowledges them; from a source, as of RFC 864, whose
//! bytes need not end.

use lineside_http::Url;
use lineside_workload::Sizes;

use super::{
    Answer, Answers, Broken, Client, Moves, Named, Outstanding, Preset, PresetValue, Protocol,
    Request, Server, Service,
};
use crate::launch::{Requests, Streams};
use crate::serve::ServeStreams;
use crate::words::{UsageError, Words, sizes};

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

/// Bytes of a request.
const BYTES: &str = "1MiB";
/// In place of sizes: all that a source sends on a connection.
const ALL: &str = "all";
/// A source without an end.
const ENDLESS: u64 = u64::MAX >> 1;
/// Bytes of a source's connection, for a load that takes all of them.
const PEER_BYTES: u64 = 1 << 20;

/// The protocol `sink`.
pub(super) static SINK: Protocol = Protocol {
    moves: Moves::Upload,
    ..Protocol::new(
        "sink",
        "sink://HOST[:PORT][?bytes=1MiB]",
        sink,
        Service {
            place: 2,
            about: "Whatever comes is counted",
            port: 9,
            size: None,
            server: |_| Ok(Box::new(ServeStreams(|| SinkServer))),
        },
    )
};

/// The protocol `source`.
pub(super) static SOURCE: Protocol = Protocol {
    moves: Moves::Download,
    ..Protocol::new(
        "source",
        "source://HOST[:PORT][?bytes=1MiB]",
        source,
        Service {
            place: 3,
            about: "Bytes, as fast as the client takes them",
            port: 19,
            size: Some((
                "what a source sends on each connection",
                "of a source, no end",
            )),
            server: |words| {
                let bytes = words.size.unwrap_or(ENDLESS);
                Ok(Box::new(ServeStreams(move || SourceServer { bytes })))
            },
        },
    )
};

/// Flow sizes of a search cluster, from the measurements behind figure 4 of Alizadeh et al., Data
/// center TCP (SIGCOMM 2010), in the rounding with which simulations pass them on
/// (`WebSearch_distribution.txt` of HPCC, SIGCOMM 2019; `CDF_search` of pFabric has packets of
/// 1,460 bytes). The mean is 1.71 MB. The rate is half of a link of 1 Gbit/s.
pub(super) static DATACENTRE: Preset = Preset {
    name: "datacentre",
    about: Some("flows to a sink"),
    of: &["sink"],
    keys: &[
        ("rate", PresetValue::Text("36.5")),
        ("arrivals", PresetValue::Text("poisson")),
        ("arrivals_of", PresetValue::Text("connections")),
        ("connections", PresetValue::Count(1_000)),
    ],
    sizes: Some(
        "cdf 0:0%, 10kB:15%, 20kB:20%, 30kB:30%, 50kB:40%, 80kB:53%, \
         200kB:60%, 1MB:70%, 2MB:80%, 5MB:90%, 10MB:97%, 30MB:100%",
    ),
    ..Preset::NONE
};

fn sink(words: &Words<'_>) -> Result<(Url, Box<dyn Requests>), UsageError> {
    let (server, sizes) = sink_sizes(words)?;
    let seed = words.seed;
    let make = move || Sink::new(sizes.clone(), seed);
    let requests = Streams::with_peer(make, ServeStreams(|| SinkServer));
    Ok((server, Box::new(requests)))
}

fn sink_sizes(words: &Words<'_>) -> Result<(Url, Sizes), UsageError> {
    let (server, given) = url(words, &SINK)?;
    let default = words.preset_sizes;
    Ok((server, sizes("bytes", given.or(default).unwrap_or(BYTES))?))
}

fn source(words: &Words<'_>) -> Result<(Url, Box<dyn Requests>), UsageError> {
    let (server, given) = url(words, &SOURCE)?;
    let given = given.unwrap_or(BYTES);
    let sizes = (given != ALL).then(|| sizes("bytes", given)).transpose()?;
    let bytes = sizes.as_ref().map_or(PEER_BYTES, |_| ENDLESS);
    let seed = words.seed;
    let make = move || Source::new(sizes.clone(), seed);
    let peer = ServeStreams(move || SourceServer { bytes });
    Ok((server, Box::new(Streams::with_peer(make, peer))))
}

/// `HOST[:PORT][?bytes=WORDS]`.
fn url<'a>(words: &Words<'a>, of: &Protocol) -> Result<(Url, Option<&'a str>), UsageError> {
    let (at, bytes) = words.parameter("bytes", of.url)?;
    Ok((words.server(at, of.service.port, of.url)?, bytes))
}

/// A client of a sink: each request is this many bytes, and is over when the other end's TCP has
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
}

impl Named for Sink {
    fn operation(&self, _: Request) -> &'static str {
        "SEND"
    }
}

/// A client of a source: each request takes this many bytes of what comes, or all to the end.
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
}

impl Named for Source {
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

    fn rests(&self, (): &()) -> bool {
        true
    }

    fn read(&mut self, (): &mut (), _: &[u8], _: &mut impl Answers<()>) {}

    fn content(&self, (): (), _: u64, _: &mut [u8]) {}
}

/// Sends bytes as fast as the client takes them, this many on each connection.
#[derive(Debug, Clone, Copy)]
pub struct SourceServer {
    /// How many.
    pub bytes: u64,
}

impl Server for SourceServer {
    type Reader = ();
    type Content = ();
    const GREETS: bool = true;

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
    use crate::words::test::words;

    #[test]
    fn urls_name_the_server_and_sizes() {
        let (server, bytes) =
            url(&words("sink://a?bytes=uniform 1KiB..1GiB"), &SINK).expect("a URL");
        assert_eq!((server.port, bytes), (9, Some("uniform 1KiB..1GiB")));
        let (server, bytes) = url(&words("source://[::1]:7"), &SOURCE).expect("a URL");
        assert_eq!((server.port, bytes), (7, None));
    }

    /// The mean of the table by its own straight lines, in bytes.
    #[test]
    fn flows_of_a_datacentre_have_their_published_mean() {
        let of_preset = |url| Words {
            preset_sizes: DATACENTRE.sizes,
            ..words(url)
        };
        let (_, sizes) = sink_sizes(&of_preset("sink://127.0.0.1")).expect("valid");
        assert_eq!((sizes.mean(), sizes.max()), (Some(1_711_250.0), 30_000_000));
        let (_, given) = sink_sizes(&of_preset("sink://127.0.0.1?bytes=7")).expect("valid");
        assert_eq!(given.max(), 7);
    }

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
