//! The server of iperf3's protocol by our own endpoint: what `iperf3 -c` measures against, each
//! way, with several streams, for a time or a number of bytes, one test after the other.
//!
//! ```text
//!  client                                            server
//!    cookie of 37 bytes ──── control connection ───►
//!    ◄──────────────────────────── PARAM_EXCHANGE
//!    length, JSON of the parameters ───────────────►
//!    ◄──────────────────────────── CREATE_STREAMS
//!    cookie ──────────────── a connection a stream ►
//!    ◄───────────────── TEST_START, TEST_RUNNING
//!    data, or ◄── data
//!    TEST_END ─────────────────────────────────────►
//!    ◄────────────────────────── EXCHANGE_RESULTS
//!    length, JSON of the results ──────────────────►
//!    ◄────── length, JSON of ours, DISPLAY_RESULTS
//!    IPERF_DONE ───────────────────────────────────►
//! ```
//!
//! Of a sender's bytes iperf3's own server counts what has come by TEST_END. This one waits for all
//! that the client says it has sent, so that both ends report the same number.
//!
//! Not here: datagrams, both ways at once, and seconds that are left out (`-u`, `--bidir`, `-O`).

use std::collections::BTreeMap;
use std::net::IpAddr;

use lineside_frame::{Burst, Frame};
use lineside_reactor::{Engine, Sides};
use lineside_tcp::{Closed, ConnectionId, Departure, Effects, Event, Refused, Stack};
use lineside_time::Nanoseconds;
use serde_json::{Value, json};

use crate::peer::{ERRORS_MAX, Left, Party, Tally};

const COOKIE_LEN: usize = 37;
/// Parameters have some 200 bytes, results that many a stream.
const JSON_MAX: usize = 1 << 20;
/// A sender's bytes that are ready and not acknowledged: a socket's buffer.
const READY_BYTES: u64 = 1 << 20;
/// Bytes that the client has sent arrive within such a time, or not at all.
const PATIENCE_NS: i64 = 10_000_000_000;

// States of the protocol, a byte each: iperf3's iperf_api.h.
const TEST_START: u8 = 1;
const TEST_RUNNING: u8 = 2;
const TEST_END: u8 = 4;
const PARAM_EXCHANGE: u8 = 9;
const CREATE_STREAMS: u8 = 10;
const EXCHANGE_RESULTS: u8 = 13;
const DISPLAY_RESULTS: u8 = 14;
const IPERF_DONE: u8 = 16;
const ACCESS_DENIED: u8 = 0xff;
const SERVER_ERROR: u8 = 0xfe;
/// The number of "an option you are trying to set is not implemented yet", with an `errno` of 0.
const UNIMPLEMENTED: [u8; 8] = [0, 0, 0, 13, 0, 0, 0, 0];

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Its cookie will show.
    Unknown,
    Control,
    Stream,
    /// Of nobody: it is to end.
    Refused,
}

#[derive(Debug)]
struct Talk {
    role: Role,
    /// What came and is not read: of a stream the cookie at most.
    inbox: Vec<u8>,
    /// Everything sent but data.
    sent: Vec<u8>,
    announced: u64,
    acknowledged: u64,
    /// Data that came.
    received: u64,
    has_ended: bool,
    is_shut: bool,
}

/// How far a test is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Parameters,
    Streams,
    Running,
    /// The client's results are awaited.
    Results,
    /// Data of the client are still under way, until then.
    Rest(Nanoseconds),
    Display,
    /// All was sent.
    Over,
}

#[derive(Debug)]
struct Test {
    cookie: Vec<u8>,
    control: ConnectionId,
    streams: Vec<ConnectionId>,
    stream_count: usize,
    /// The server sends.
    is_reverse: bool,
    step: Step,
    began_ns: Nanoseconds,
    ended_ns: Nanoseconds,
    /// Of each stream: its number, and the bytes that the client has counted.
    results: Vec<(i64, u64)>,
}

struct Owner {
    frames: Vec<Frame>,
    talks: BTreeMap<ConnectionId, Talk>,
    test: Option<Test>,
    tally: Tally,
    silent: Option<IpAddr>,
}

/// A stack at which `iperf3 -c` runs its tests.
pub struct Iperf {
    stack: Stack,
    owner: Owner,
    /// So many tests are run; any number with 0.
    tests: u64,
    heard_ns: Option<Nanoseconds>,
    ended_ns: Option<Nanoseconds>,
}

impl Talk {
    fn new() -> Self {
        Self {
            role: Role::Unknown,
            inbox: Vec::new(),
            sent: Vec::new(),
            announced: 0,
            acknowledged: 0,
            received: 0,
            has_ended: false,
            is_shut: false,
        }
    }

    fn say(&mut self, bytes: &[u8]) {
        self.sent.extend_from_slice(bytes);
    }

    /// The next bytes, once this many have come.
    fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        (self.inbox.len() >= len).then(|| self.inbox.drain(..len).collect())
    }

    /// The next text of JSON with its length before it, once it has come.
    fn take_json(&mut self) -> Option<Result<Value, String>> {
        let head = self.inbox.first_chunk()?;
        let len = u32::from_be_bytes(*head) as usize;
        if len > JSON_MAX {
            return Some(Err(format!("{len} bytes of JSON are too many")));
        }
        let text = self.inbox.get(4..4 + len)?;
        let value = serde_json::from_slice(text).map_err(|error| error.to_string());
        self.inbox.drain(..4 + len);
        Some(value)
    }

    fn say_json(&mut self, value: &Value) {
        let text = value.to_string();
        let len = u32::try_from(text.len()).expect("some hundred bytes a stream");
        self.say(&len.to_be_bytes());
        self.say(text.as_bytes());
    }
}

impl Test {
    fn new(control: ConnectionId, cookie: Vec<u8>) -> Self {
        Self {
            cookie,
            control,
            streams: Vec::new(),
            stream_count: 1,
            is_reverse: false,
            step: Step::Parameters,
            began_ns: 0,
            ended_ns: 0,
            results: Vec::new(),
        }
    }

    /// Takes the client's parameters; false if they ask for something that is not here.
    fn set(&mut self, parameters: &Value) -> bool {
        self.is_reverse = is_set(&parameters["reverse"]);
        let count = parameters["parallel"].as_u64().unwrap_or(1);
        // iperf3's own limit.
        self.stream_count = count.clamp(1, 128) as usize;
        !["udp", "sctp", "bidirectional", "omit"]
            .into_iter()
            .any(|name| is_set(&parameters[name]))
    }

    /// Takes the step for which all has come, if it has.
    fn advance(
        &mut self,
        talks: &mut BTreeMap<ConnectionId, Talk>,
        now: Nanoseconds,
    ) -> Result<(), String> {
        let control = talks.get_mut(&self.control).ok_or("the client is gone")?;
        match self.step {
            Step::Parameters => {
                let Some(parameters) = control.take_json() else {
                    return Ok(());
                };
                if !self.set(&parameters?) {
                    control.say(&[SERVER_ERROR]);
                    control.say(&UNIMPLEMENTED);
                    return Err("the client asks for another test than TCP one way".to_owned());
                }
                control.say(&[CREATE_STREAMS]);
                self.step = Step::Streams;
            }
            Step::Streams if self.streams.len() == self.stream_count => {
                control.say(&[TEST_START, TEST_RUNNING]);
                (self.step, self.began_ns) = (Step::Running, now);
            }
            Step::Running => match control.take(1).as_deref() {
                None => {}
                Some([TEST_END]) => {
                    control.say(&[EXCHANGE_RESULTS]);
                    (self.step, self.ended_ns) = (Step::Results, now);
                }
                Some(other) => return Err(format!("the client ends the test by {other:?}")),
            },
            Step::Results => {
                if let Some(results) = control.take_json() {
                    self.take_results(&results?)?;
                    self.step = Step::Rest(now + PATIENCE_NS);
                }
            }
            Step::Rest(until) => {
                let counted = self.counted(talks);
                let mut pairs = counted.iter().zip(&self.results);
                if self.is_reverse || pairs.all(|(counted, (_, sent))| counted >= sent) {
                    let results = self.own_results(&counted);
                    let control = talks.get_mut(&self.control).expect("it was there");
                    control.say_json(&results);
                    control.say(&[DISPLAY_RESULTS]);
                    self.step = Step::Display;
                } else if now >= until {
                    return Err(format!("{counted:?} bytes came of {:?}", self.results));
                }
            }
            Step::Display => match control.take(1).as_deref() {
                None => {}
                Some([IPERF_DONE]) => self.step = Step::Over,
                Some(other) => return Err(format!("the client ends by {other:?}")),
            },
            Step::Streams | Step::Over => {}
        }
        Ok(())
    }

    /// Bytes of each stream: those that came, or that a program would have written to its socket.
    fn counted(&self, talks: &BTreeMap<ConnectionId, Talk>) -> Vec<u64> {
        let talks = self.streams.iter().map(|stream| talks.get(stream));
        let bytes = |talk: &Talk| match self.is_reverse {
            true => talk.announced,
            false => talk.received,
        };
        talks.map(|talk| talk.map_or(0, bytes)).collect()
    }

    fn own_results(&self, counted: &[u64]) -> Value {
        let seconds = (self.ended_ns - self.began_ns) as f64 / 1e9;
        let streams = counted.iter().zip(&self.results).map(|(bytes, (id, _))| {
            json!({
                "id": id,
                "bytes": bytes,
                "retransmits": -1,
                "jitter": 0,
                "errors": 0,
                "packets": 0,
                "start_time": 0,
                "end_time": seconds,
            })
        });
        json!({
            "cpu_util_total": 0,
            "cpu_util_user": 0,
            "cpu_util_system": 0,
            // Which stream they belong to is not known.
            "sender_has_retransmits": 0,
            "streams": streams.collect::<Vec<_>>(),
        })
    }

    /// What the client has counted of each stream.
    fn take_results(&mut self, results: &Value) -> Result<(), String> {
        let streams = results["streams"].as_array();
        let streams = streams.into_iter().flatten().filter_map(|stream| {
            let bytes = stream["bytes"].as_u64()?;
            Some((stream["id"].as_i64()?, bytes))
        });
        self.results = streams.collect();
        match self.results.len() == self.streams.len() {
            true => Ok(()),
            false => Err(format!("results of other streams: {results}")),
        }
    }
}

/// Whether a parameter is there, and neither false nor 0.
fn is_set(parameter: &Value) -> bool {
    match parameter {
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        _ => false,
    }
}

impl Owner {
    fn fail(&mut self, text: String) {
        if let Some(test) = self.test.take() {
            self.tally.failed += 1;
            if self.tally.errors.len() < ERRORS_MAX {
                self.tally.errors.push(text);
            }
            for connection in test.streams.into_iter().chain([test.control]) {
                if let Some(talk) = self.talks.get_mut(&connection) {
                    talk.role = Role::Refused;
                }
            }
        }
    }

    /// The cookie of a new connection has come.
    fn greet(&mut self, connection: ConnectionId) {
        let Some(talk) = self.talks.get_mut(&connection) else {
            return;
        };
        let Some(cookie) = talk.take(COOKIE_LEN) else {
            return;
        };
        match &mut self.test {
            None => {
                talk.role = Role::Control;
                talk.say(&[PARAM_EXCHANGE]);
                self.test = Some(Test::new(connection, cookie));
            }
            Some(test) if test.step == Step::Streams && test.cookie == cookie => {
                talk.role = Role::Stream;
                talk.received = talk.inbox.len() as u64;
                talk.inbox.clear();
                test.streams.push(connection);
            }
            Some(_) => {
                talk.role = Role::Refused;
                talk.say(&[ACCESS_DENIED]);
            }
        }
    }

    /// The test goes on as far as it can.
    fn advance(&mut self, now: Nanoseconds) {
        while let Some(test) = &mut self.test {
            let before = test.step;
            if let Err(text) = test.advance(&mut self.talks, now) {
                self.fail(text);
                return;
            }
            let (step, is_reverse) = (test.step, test.is_reverse);
            match step {
                Step::Display if before != step => {
                    let bytes: u64 = test.counted(&self.talks).into_iter().sum();
                    let (sent, received) = if is_reverse { (bytes, 0) } else { (0, bytes) };
                    self.tally.bytes_sent += sent;
                    self.tally.bytes_received += received;
                }
                Step::Over => {
                    self.tally.finished += 1;
                    self.test = None;
                }
                _ if before == step => return,
                _ => {}
            }
        }
    }

    fn on_bytes(&mut self, connection: ConnectionId, bytes: &[u8]) {
        let Some(talk) = self.talks.get_mut(&connection) else {
            return;
        };
        match talk.role {
            Role::Refused => {}
            Role::Stream => talk.received += bytes.len() as u64,
            Role::Unknown | Role::Control if talk.inbox.len() > JSON_MAX + 4 => {
                talk.role = Role::Refused;
                self.fail("the client says more than the protocol has".to_owned());
            }
            Role::Unknown | Role::Control => talk.inbox.extend_from_slice(bytes),
        }
        if self.talks[&connection].role == Role::Unknown {
            self.greet(connection);
        }
    }

    fn on_closed(&mut self, connection: ConnectionId, why: Closed) {
        self.talks.remove(&connection);
        let Some(test) = &self.test else {
            return;
        };
        // The client ends its streams before it says that it is done.
        let is_early = test.streams.contains(&connection) && test.step != Step::Display;
        if test.control == connection || is_early {
            self.fail(format!("a connection of the test broke off: {why:?}"));
        }
    }
}

impl Effects for Owner {
    fn transmit(&mut self, frame: Frame, _: Departure) {
        self.frames.push(frame);
    }

    fn fill(&mut self, connection: ConnectionId, _: u32, offset: u64, bytes: &mut [u8]) {
        // A stream carries data alone, and no test looks at its bytes.
        bytes.fill(0);
        if let Some(talk) = self.talks.get(&connection)
            && let Some(sent) = talk.sent.get(offset as usize..)
        {
            let len = sent.len().min(bytes.len());
            bytes[..len].copy_from_slice(&sent[..len]);
        }
    }

    fn on_event(&mut self, connection: ConnectionId, _: u32, event: Event<'_>) {
        match event {
            Event::Opened { .. } => {
                self.tally.opened += 1;
                self.talks.insert(connection, Talk::new());
            }
            Event::Stream(chunk) => self.on_bytes(connection, chunk.bytes()),
            Event::Closed(why) => self.on_closed(connection, why),
            Event::Acknowledged(bytes) => {
                if let Some(talk) = self.talks.get_mut(&connection) {
                    talk.acknowledged += bytes;
                }
            }
            Event::Ended => {
                if let Some(talk) = self.talks.get_mut(&connection) {
                    talk.has_ended = true;
                }
            }
        }
    }

    fn on_silent(&mut self, neighbour: IpAddr) {
        self.silent = Some(neighbour);
    }
}

impl Iperf {
    /// A server at a port, for this many tests; for any number with 0.
    pub fn new(mut stack: Stack, port: u16, tests: u64) -> Result<Self, Refused> {
        stack.listen(None, port, 0)?;
        Ok(Self {
            stack,
            owner: Owner {
                frames: Vec::new(),
                talks: BTreeMap::new(),
                test: None,
                tally: Tally::default(),
                silent: None,
            },
            tests,
            heard_ns: None,
            ended_ns: None,
        })
    }

    /// Sends what is due, and ends the streams that the client has ended.
    fn act(&mut self, now: Nanoseconds) {
        let test = self.owner.test.as_ref();
        let test = test.filter(|test| test.is_reverse);
        let sends = test.is_some_and(|test| test.step == Step::Running);
        // The client, which reads whole blocks, waits for the rest of one until the stream ends.
        let has_sent = test.is_some_and(|test| test.ended_ns > 0);
        let connections: Vec<_> = self.owner.talks.keys().copied().collect();
        for connection in connections {
            let Some(talk) = self.owner.talks.get_mut(&connection) else {
                continue;
            };
            let until = match talk.role {
                Role::Stream if sends => talk.acknowledged + READY_BYTES,
                _ => talk.sent.len() as u64,
            };
            let len = until.saturating_sub(talk.announced);
            talk.announced += len;
            let is_done = match talk.role {
                Role::Refused => true,
                Role::Stream if has_sent => true,
                _ => talk.has_ended,
            };
            let shuts = is_done && !talk.is_shut;
            talk.is_shut |= shuts;
            let (stack, owner) = (&mut self.stack, &mut self.owner);
            let done = (|| {
                if len > 0 {
                    stack.send(now, connection, len, owner)?;
                }
                if shuts {
                    stack.shutdown(now, connection, owner)?;
                }
                Ok::<_, Refused>(())
            })();
            if let Err(refused) = done {
                owner.fail(format!("{connection:?}: {refused}"));
            }
        }
    }
}

impl Party for Iperf {
    fn tally(&self) -> &Tally {
        &self.owner.tally
    }

    fn stack(&self) -> &Stack {
        &self.stack
    }

    fn refused(&self) -> Option<Refused> {
        None
    }

    fn silent(&self) -> Option<IpAddr> {
        self.owner.silent.filter(|_| self.owner.tally.opened == 0)
    }

    fn ended_ns(&self) -> Option<Nanoseconds> {
        self.ended_ns
    }

    fn is_over(&self, now: Nanoseconds, linger_ns: i64) -> bool {
        let Tally {
            finished, failed, ..
        } = self.owner.tally;
        let is_done = self.tests > 0 && finished + failed >= self.tests;
        let heard_ns = self.heard_ns.unwrap_or(now);
        let is_silent = now - heard_ns > linger_ns;
        is_done && (is_silent || self.owner.talks.is_empty() && self.stack.time_waits() == 0)
    }
}

impl Engine for Iperf {
    type Account = Left;

    fn on_burst(&mut self, now: Nanoseconds, _: usize, burst: &mut Burst) {
        self.heard_ns = Some(now);
        self.stack.on_burst(now, burst, &mut self.owner);
    }

    fn on_timer(&mut self, now: Nanoseconds, _: Nanoseconds, out: &mut Sides<Left>) {
        self.stack.on_timer(now, &mut self.owner);
        let before = self.owner.tally.finished + self.owner.tally.failed;
        self.owner.advance(now);
        if self.owner.tally.finished + self.owner.tally.failed > before {
            self.ended_ns = Some(now);
        }
        self.act(now);
        for frame in self.owner.frames.drain(..) {
            out.send(0, frame, Left(now));
        }
    }

    fn next_deadline(&self) -> Option<Nanoseconds> {
        let rest = match self.owner.test.as_ref().map(|test| test.step) {
            Some(Step::Rest(until)) => Some(until),
            _ => None,
        };
        self.stack.next_deadline().into_iter().chain(rest).min()
    }

    fn held(&self) -> usize {
        self.owner.frames.len()
    }

    fn spill(&mut self, _: usize) {
        self.stack.spill();
    }

    fn on_sent(&mut self, _: Left, _: Nanoseconds) {}

    /// The loop counts it; it is sent again like one that was lost.
    fn on_unsent(&mut self, _: Left, _: &Frame) {}
}
