//! Datagrams that are numbered and stamped, to measure the path that they take: one way to a sink,
//! or back from an echo.
//!
//! ```text
//!   0       4     5      6       8         16     20       28       36       44
//!  │ magic │ ver │ verb │ 0  0  │ run     │ flow │ number │ stamp  │ clock  │ padding …
//! ```
//!
//! All numbers are big-endian. The stamp says when the datagram was to leave, in nanoseconds of the
//! clock that `clock` names: delays of one way are measured where both ends have the same one. The
//! padding follows from run, flow and number, and is compared.

use lineside_host::{RunClock, clock_name};
use lineside_http::Url;
use lineside_time::Nanoseconds;
use lineside_workload::{Purpose, Sizes, seed_for};

use super::{
    Answer, Carrier, DatagramClient, DatagramServer, Heard, Named, Numbered, Protocol, Request,
    Service,
};
use crate::application::End;
use crate::launch::{Datagrams, Requests, Worker};
use crate::serve::ServeDatagrams;
use crate::words::{UsageError, Words, sizes};

mod header;
mod sink;

use header::HEADER_LEN;
pub use header::{StampedHeader, Verb};
pub use sink::{FlowFigures, SinkDatagrams};

/// The least payload of a stamped datagram: shorter sizes count as this.
pub const STAMPED_BYTES_MIN: u64 = HEADER_LEN as u64;

/// The port of an echo, RFC 862.
const PORT: u16 = 7;
/// Bytes of a payload.
const BYTES: &str = "100";
/// Flows that a server keeps apart: 16 KiB each.
const FLOWS_MAX: usize = 4_096;
/// How a URL is written.
const FORM: &str = "udp://HOST[:PORT][?bytes=100&oneway]";

/// The protocol `udp`.
pub(super) static UDP: Protocol = Protocol {
    carrier: Carrier::Udp,
    ..Protocol::new(
        "udp",
        "udp://HOST[:PORT]",
        client,
        Service {
            place: 6,
            about: "Stamped datagrams: sent back, or counted with loss, order and jitter",
            port: PORT,
            size: None,
            server: |_| {
                Ok(Box::new(ServeDatagrams {
                    make: |clock: RunClock| {
                        let sink = SinkDatagrams::new(FLOWS_MAX, clock_name(), clock.ahead_ns());
                        StampedDatagrams(sink)
                    },
                    figures: |server: &StampedDatagrams| server.0.figures(),
                }))
            },
        },
    )
};

fn client(words: &Words<'_>) -> Result<(Url, Box<dyn Requests>), UsageError> {
    let (server, bytes, is_one_way) = url(words)?;
    let sizes = sizes("bytes", bytes)?;
    if sizes.max() < STAMPED_BYTES_MIN {
        return Err(UsageError(format!(
            "bytes: '{bytes}' has no room for number and stamp: give {STAMPED_BYTES_MIN} or more"
        )));
    }
    let seed = words.seed;
    let make = move |worker: Worker| {
        let (place, workers) = worker.place;
        Stamped::new(sizes.clone(), seed, worker.run, !is_one_way)
            .with_clock(clock_name(), worker.ahead_ns)
            .of_worker(place, workers)
    };
    Ok((server, Box::new(Datagrams(make))))
}

/// `HOST[:PORT][?bytes=WORDS][&oneway]`.
fn url<'a>(words: &Words<'a>) -> Result<(Url, &'a str, bool), UsageError> {
    let (at, query) = words.rest.split_once('?').unwrap_or((words.rest, ""));
    let (mut bytes, mut is_one_way) = (BYTES, false);
    for word in query.split('&').filter(|word| !word.is_empty()) {
        match word.strip_prefix("bytes=") {
            Some(words) => bytes = words,
            None if word == "oneway" => is_one_way = true,
            None => {
                return Err(words.wrong(format!("'{word}' is unknown here: write {FORM}")));
            }
        }
    }
    Ok((words.server(at, PORT, FORM)?, bytes, is_one_way))
}

/// A client of stamped datagrams.
#[derive(Debug, Clone)]
pub struct Stamped {
    verb: Verb,
    sizes: Sizes,
    seed: u64,
    run: u64,
    /// The worker's place, and how many there are: flows of different workers are different.
    share: (u32, u32),
    clock: u64,
    /// What the stamps are ahead of the loop's clock.
    ahead_ns: i64,
}

impl Stamped {
    /// Datagrams whose payloads have the sizes that `sizes` draws by the run's seed, at least 44
    /// bytes and at most 65,507 (RFC 768 over IPv4), which come back if `is_echo`. `run` names the
    /// run: workers of one have the same.
    pub fn new(sizes: Sizes, seed: u64, run: u64, is_echo: bool) -> Self {
        Self {
            verb: if is_echo { Verb::Echo } else { Verb::OneWay },
            sizes,
            seed: seed_for(seed, Purpose::RequestSizes),
            run,
            share: (0, 1),
            clock: 0,
            ahead_ns: 0,
        }
    }

    /// For one of the workers of a run.
    #[must_use]
    pub fn of_worker(self, worker: u32, workers: u32) -> Self {
        Self {
            share: (worker, workers),
            ..self
        }
    }

    fn flow(&self, slot: u32) -> u32 {
        let (worker, workers) = self.share;
        slot.wrapping_mul(workers).wrapping_add(worker)
    }

    /// Stamps of a clock that others have too, by its name: the loop's time is `ahead_ns` ahead of
    /// it.
    #[must_use]
    pub fn with_clock(self, clock: u64, ahead_ns: i64) -> Self {
        Self {
            clock,
            ahead_ns,
            ..self
        }
    }
}

/// The most payload of a datagram: RFC 768 and RFC 791.
const PAYLOAD_MAX: u64 = 65_535 - 20 - 8;

impl DatagramClient for Stamped {
    const NUMBER_BITS: u32 = 64;

    fn is_one_way(&self) -> bool {
        self.verb == Verb::OneWay
    }

    fn len(&mut self, message: Numbered) -> usize {
        let drawn = self.sizes.draw(self.seed, message.request.ordinal);
        drawn.clamp(HEADER_LEN as u64, PAYLOAD_MAX) as usize
    }

    fn write(&mut self, message: Numbered, leaves_ns: Nanoseconds, bytes: &mut [u8]) {
        let header = StampedHeader {
            verb: self.verb,
            run: self.run,
            flow: self.flow(message.request.slot),
            number: message.number,
            stamp_ns: leaves_ns - self.ahead_ns,
            clock: self.clock,
        };
        header.emit(bytes);
    }

    fn read(&mut self, flow: u32, bytes: &[u8]) -> Option<Heard> {
        let header = StampedHeader::parse(bytes)?;
        let names = (self.run, self.flow(flow));
        let is_ours = header.verb == Verb::Echoed && (header.run, header.flow) == names;
        (is_ours && header.has_padding(bytes)).then_some(Heard {
            number: header.number,
            answer: Answer {
                is_success: true,
                content_bytes: bytes.len() as u64,
                ..Answer::default()
            },
        })
    }
}

impl Named for Stamped {
    fn operation(&self, _: Request) -> &'static str {
        match self.verb {
            Verb::OneWay => "SEND",
            Verb::Echo | Verb::Echoed => "ECHO",
        }
    }
}

/// Sends stamped datagrams back that are to come back, and no others: it answers no answer, and
/// with no more bytes than came.
#[derive(Debug, Clone, Copy, Default)]
pub struct EchoDatagrams;

impl DatagramServer for EchoDatagrams {
    fn read(&mut self, _: [End; 2], _: Nanoseconds, bytes: &[u8], answer: &mut Vec<u8>) -> bool {
        let header = StampedHeader::parse(bytes);
        if header.is_none_or(|header| header.verb != Verb::Echo) {
            return false;
        }
        let start = answer.len();
        answer.extend_from_slice(bytes);
        answer[start + 5] = 2;
        true
    }
}

/// The other end of stamped datagrams: it sends back those that are to come back, and counts those
/// of one way.
pub struct StampedDatagrams(pub SinkDatagrams);

impl DatagramServer for StampedDatagrams {
    fn read(
        &mut self,
        ends: [End; 2],
        at: Nanoseconds,
        bytes: &[u8],
        answer: &mut Vec<u8>,
    ) -> bool {
        EchoDatagrams.read(ends, at, bytes, answer) || self.0.read(ends, at, bytes, answer)
    }
}

#[cfg(test)]
mod tests {
    use lineside_workload::Unit;

    use super::*;
    use crate::words::test::words;

    fn numbered(number: u64) -> Numbered {
        let request = Request {
            ordinal: 3 * number,
            slot: 9,
        };
        Numbered { request, number }
    }

    #[test]
    fn a_url_has_sizes_and_ways() {
        let (server, bytes, is_one_way) =
            url(&words("udp://a?oneway&bytes=uniform 64..1400")).expect("a URL");
        assert_eq!(
            (server.port, bytes, is_one_way),
            (7, "uniform 64..1400", true)
        );
    }

    #[test]
    fn an_echo_is_read_by_its_flow_and_number_alone() {
        let sizes = Sizes::constant(61, Unit::Bytes);
        let mut client = Stamped::new(sizes, 1, 0x1234_5678_9abc_def0, true).with_clock(77, 1_000);
        let message = numbered(1 << 40);
        let mut bytes = vec![0; client.len(message)];
        client.write(message, 5_000, &mut bytes);
        let header = StampedHeader {
            verb: Verb::Echo,
            run: 0x1234_5678_9abc_def0,
            flow: 9,
            number: 1 << 40,
            stamp_ns: 4_000,
            clock: 77,
        };
        assert_eq!(StampedHeader::parse(&bytes), Some(header));
        assert_eq!(client.read(9, &bytes), None, "a request is no answer");
        let mut answer = Vec::new();
        let ends = [("127.0.0.1".parse().expect("an address"), 7); 2];
        assert!(EchoDatagrams.read(ends, 0, &bytes, &mut answer));
        assert_eq!(answer.len(), bytes.len());
        let heard = client.read(9, &answer).expect("an answer");
        assert_eq!((heard.number, heard.answer.content_bytes), (1 << 40, 61));
        assert_eq!(client.read(8, &answer), None);
        assert!(
            !EchoDatagrams.read(ends, 0, &answer, &mut Vec::new()),
            "no loops"
        );
        // Nothing of it may change: magic, version, verb, names, number by the padding, padding.
        for at in { 0..28 }.chain(44..61).filter(|at| !(6..8).contains(at)) {
            let mut wrong = answer.clone();
            wrong[at] ^= 0x10;
            assert_eq!(client.read(9, &wrong), None, "{at}");
        }
        for len in 0..bytes.len() {
            assert_eq!(
                StampedHeader::parse(&bytes[..len]).is_some(),
                len >= HEADER_LEN
            );
        }
    }

    #[test]
    fn sizes_are_those_that_fit() {
        for (asked, len) in [(0, 44), (44, 44), (1_400, 1_400), (70_000, 65_507)] {
            let mut client = Stamped::new(Sizes::constant(asked, Unit::Bytes), 1, 2, false);
            assert_eq!(client.len(numbered(5)), len);
            assert!(client.is_one_way());
        }
    }
}
