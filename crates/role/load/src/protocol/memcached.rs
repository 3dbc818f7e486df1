//! memcached's text protocol, by the parsers and the store of `lineside-memcached`.

mod fill;

use std::borrow::Cow;

use lineside_http::Url;
use lineside_memcached::{
    Command, Connection, KEY_MAX, Keys as KeyList, Limits, Lines, Reply, ReplyParser, ReplySink,
    Store, VALUE_MAX, Value, Verb,
};
use lineside_time::{Nanoseconds, Random};
use lineside_words::WordError;
use lineside_workload::{Keys, Purpose, Sizes, seed_for};

use fill::Filled;

use super::{
    Answer, Answers, Broken, Client, Key, Named, Outstanding, Preset, PresetValue, Protocol,
    Request, Server, Service,
};
use crate::launch::{Requests, Streams};
use crate::serve::ServeStreams;
use crate::words::{UsageError, Words, share, sizes};

/// Lines that come in pieces, at once.
const LINES_MAX: usize = 1 << 14;

/// Requests: small values, mostly read, some keys far more often than others.
const KEYS: &str = "zipf 0.99 over 100000";
const KEY_SIZE: &str = "30";
const VALUE_SIZE: &str = "100";
const GETS: &str = "90%";
/// Its own default.
const PORT: u16 = 11_211;

/// The protocol `memcached`.
pub(super) static MEMCACHED: Protocol = Protocol {
    keys: &[
        Key {
            value: "WORDS",
            example: Some("uniform over 1000"),
            ..Key::new(
                "keys",
                "keys",
                "Distribution of memcached keys, NFS files, or {key} of --fields: 'zipf 0.99 over \
                 100000', 'uniform over 1000' or 'sequential over 1000' [default: zipf 0.99 over \
                 100000; all files]",
            )
        },
        Key {
            value: "BYTES",
            ..Key::new(
                "key_size",
                "key-size",
                "Bytes of memcached keys: 30, 'uniform 20..200', ... [default: 30]",
            )
        },
        Key {
            value: "BYTES",
            ..Key::new(
                "value_size",
                "value-size",
                "Bytes of memcached values, or of READ and WRITE: 100, \
                 'lognormal median 200 cv 2', ... [default: 100; of NFS 32KiB]",
            )
        },
        Key {
            value: "SHARE",
            long_before: &["gets"],
            name_before: Some("gets"),
            ..Key::new(
                "get_ratio",
                "get-ratio",
                "Share of memcached requests that read; the others store [default: 90%]",
            )
        },
        Key {
            value: "N|all|none",
            example: Some("all"),
            ..Key::new(
                "fill",
                "fill",
                "Store memcached values of the first N keys, or of all, before the load \
                 [default: none; of --preset etc all]",
            )
        },
    ],
    ..Protocol::new(
        "memcached",
        "memcached://HOST[:PORT]",
        client,
        Service {
            place: 4,
            about: "A memcached with half of --memory",
            port: PORT,
            size: None,
            server: |words| {
                let limits = Limits {
                    memory_bytes: words.memory / 2 / words.workers as usize,
                    ..Limits::default()
                };
                Ok(Box::new(ServeStreams(move || MemcachedServer::new(limits))))
            },
        },
    )
};

/// Atikoglu et al., Workload analysis of a large-scale key-value store (SIGMETRICS 2012), table 5:
/// sizes of keys are generalised extreme values (location 30.7984, scale 8.20449, shape 0.078688),
/// here the middles of 20 equal shares. Values are generalised Pareto of scale 214.476 and shape
/// 0.348238, whose mean is this. There are 30 GETs for a SET (section 3.1). Gaps have the shape
/// 0.154971; at their own scale there are 52,700 a second.
pub(super) static ETC: Preset = Preset {
    name: "etc",
    about: Some("a key-value store"),
    of: &["memcached"],
    keys: &[
        (
            "key_size",
            PresetValue::Text(
                "table 21:5%, 23:5%, 25:5%, 26:5%, 28:5%, 29:5%, 30:5%, 31:5%, 32:5%, \
                 33:5%, 34:5%, 36:5%, 37:5%, 39:5%, 41:5%, 43:5%, 45:5%, 49:5%, 54:5%, 66:5%",
            ),
        ),
        (
            "value_size",
            PresetValue::Text("generalized-pareto mean 329 shape 0.348238 max 1MB"),
        ),
        ("get_ratio", PresetValue::Text("96.77%")),
        // The measured store was years old.
        ("fill", PresetValue::Text("all")),
    ],
    with_rate: &[(
        "arrivals",
        PresetValue::Text("generalized-pareto shape 0.154971"),
    )],
    ..Preset::NONE
};

fn client(words: &Words<'_>) -> Result<(Url, Box<dyn Requests>), UsageError> {
    let server = words.server(words.rest, PORT, MEMCACHED.url)?;
    let keys = words.text("keys").unwrap_or(KEYS).parse();
    let gets = words.text("get_ratio").unwrap_or(GETS);
    let mix = Mix {
        keys: keys.map_err(|error: WordError| UsageError::of(error))?,
        key_len: sizes("key-size", words.text("key_size").unwrap_or(KEY_SIZE))?,
        value_bytes: sizes("value-size", words.text("value_size").unwrap_or(VALUE_SIZE))?,
        get_share: share(gets).map_err(|why| UsageError(format!("get_ratio: {why}")))?,
        seed: words.seed,
    };
    let values = fill::values(words.text("fill").unwrap_or("none"), mix.keys.count())?;
    let peer = ServeStreams(|| MemcachedServer::new(Limits::default()));
    let of_load = mix.clone();
    let requests = Streams::with_peer(move || Memcached::new(of_load.clone()), peer);
    let filled = Filled {
        requests,
        mix,
        values,
    };
    Ok((server, Box::new(filled)))
}

/// Which requests a client makes.
#[derive(Debug, Clone)]
pub struct Mix {
    /// Which keys.
    pub keys: Keys,
    /// Bytes of a key, from 16 on.
    pub key_len: Sizes,
    /// Bytes of a value; the same for each request of a key.
    pub value_bytes: Sizes,
    /// The share of requests that ask, from 0 to 1; all others store.
    pub get_share: f64,
    /// Seeds all draws.
    pub seed: u64,
}

/// A client of a memcached server.
#[derive(Debug)]
pub struct Memcached {
    mix: Mix,
    lines: Lines,
    seeds: [u64; 4],
    key: Vec<u8>,
    /// Stores the values of all keys, one after the other.
    fills: bool,
}

/// The statuses of answers.
mod status {
    pub(super) const HIT: u32 = 1;
    pub(super) const MISS: u32 = 2;
    pub(super) const STORED: u32 = 3;
    pub(super) const NOT_STORED: u32 = 4;
    pub(super) const ERROR: u32 = 5;
    pub(super) const NAMES: [&str; 6] = ["", "HIT", "MISS", "STORED", "NOT_STORED", "ERROR"];
}

impl Memcached {
    /// Requests of this mix.
    pub fn new(mix: Mix) -> Self {
        let seed = |purpose| seed_for(mix.seed, purpose);
        let seeds = [
            seed(Purpose::Keys),
            seed(Purpose::Contents),
            // Of keys, and of values.
            seed(Purpose::RequestSizes),
            seed(Purpose::ResponseSizes),
        ];
        Self {
            mix,
            lines: Lines::new(LINES_MAX),
            seeds,
            key: Vec::with_capacity(KEY_MAX),
            fills: false,
        }
    }

    /// Requests that store the value of each key of this mix, in the keys' order.
    fn filling(mix: Mix) -> Self {
        Self {
            fills: true,
            ..Self::new(mix)
        }
    }

    fn is_get(&self, ordinal: u64) -> bool {
        if self.fills {
            return false;
        }
        let mut random = Random::new(self.seeds[1] ^ ordinal.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        random.chance(self.mix.get_share)
    }
}

/// An answer that is not over.
#[derive(Debug, Default)]
pub struct MemcachedReader {
    parser: ReplyParser,
    content_bytes: u64,
    items: u32,
}

struct Reading<'a, O> {
    outstanding: &'a mut O,
    content_bytes: &'a mut u64,
    items: &'a mut u32,
    is_broken: bool,
}

impl<O: Outstanding> ReplySink for Reading<'_, O> {
    fn on_item(&mut self, _: u64, _: Value<'_>) {
        *self.items += 1;
    }

    fn on_value(&mut self, bytes: &[u8]) {
        *self.content_bytes += bytes.len() as u64;
    }

    fn on_reply(&mut self, _: u64, reply: Reply<'_>) {
        let items = std::mem::take(self.items);
        let status = match reply {
            Reply::End if items > 0 => status::HIT,
            Reply::End => status::MISS,
            Reply::Stored => status::STORED,
            Reply::NotStored | Reply::Exists | Reply::NotFound => status::NOT_STORED,
            _ => status::ERROR,
        };
        let answer = Answer {
            status,
            is_success: status != status::ERROR,
            content_bytes: std::mem::take(self.content_bytes),
            closes: false,
            request: None,
            operation: match status {
                status::HIT | status::MISS => 0,
                status::STORED | status::NOT_STORED => 1,
                _ => 2,
            },
        };
        self.is_broken |= self.outstanding.answered(answer).is_err();
    }
}

impl Client for Memcached {
    type Reader = MemcachedReader;

    fn write(&mut self, request: Request, out: &mut Vec<u8>) {
        let number = match self.fills {
            true => request.ordinal,
            false => self.mix.keys.draw(self.seeds[0], request.ordinal),
        };
        let len = self.mix.key_len.draw(self.seeds[2], number).clamp(16, 250) as usize;
        self.key.clear();
        push_hex(number, &mut self.key);
        self.key.resize(len, b'k');
        if self.is_get(request.ordinal) {
            let keys = KeyList::new(&self.key);
            let command = Command::Get {
                keys,
                with_cas: false,
                touch: None,
            };
            return command.write(out);
        }
        let len = self.mix.value_bytes.draw(self.seeds[3], number);
        let len = len.min(VALUE_MAX) as u32;
        let command = Command::Store {
            verb: Verb::Set,
            key: &self.key,
            flags: 0,
            exptime: 0,
            len,
            noreply: false,
        };
        command.write(out);
        // Printable, and another one for each key.
        let letters = (0..len).map(|at| b'a' + ((number + u64::from(at)) % 26) as u8);
        out.extend(letters);
        out.extend_from_slice(b"\r\n");
    }

    fn read(
        &mut self,
        reader: &mut MemcachedReader,
        bytes: &[u8],
        outstanding: &mut impl Outstanding,
    ) -> Result<(), Broken> {
        let mut reading = Reading {
            outstanding,
            content_bytes: &mut reader.content_bytes,
            items: &mut reader.items,
            is_broken: false,
        };
        let read = reader.parser.push(0, bytes, &mut self.lines, &mut reading);
        match read.is_ok() && !reading.is_broken {
            true => Ok(()),
            false => Err(Broken),
        }
    }

    fn release(&mut self, mut reader: MemcachedReader) {
        reader.parser.release(&mut self.lines);
    }
}

impl Named for Memcached {
    fn operation(&self, request: Request) -> &'static str {
        match self.is_get(request.ordinal) {
            true => "GET",
            false => "SET",
        }
    }

    fn operations(&self) -> &'static [&'static str] {
        &["GET", "SET", "ERROR"]
    }

    fn status(&self, status: u32) -> Cow<'static, str> {
        let name = status::NAMES.get(status as usize).copied();
        name.unwrap_or_default().into()
    }
}

/// A number as 16 hexadecimal digits.
fn push_hex(number: u64, out: &mut Vec<u8>) {
    let digit = |shift| b"0123456789abcdef"[(number >> shift) as usize & 15];
    out.extend((0..16).rev().map(|place| digit(4 * place)));
}

/// A server with a store in bounded memory.
#[derive(Debug)]
pub struct MemcachedServer {
    store: Store,
    lines: Lines,
    now_s: i64,
    out: Vec<u8>,
}

impl MemcachedServer {
    /// An empty store within these limits.
    pub fn new(limits: Limits) -> Self {
        Self {
            store: Store::new(limits),
            lines: Lines::new(LINES_MAX),
            now_s: 0,
            out: Vec::new(),
        }
    }
}

impl Server for MemcachedServer {
    type Reader = Connection;
    type Content = ();

    fn pass(&mut self, now: Nanoseconds) {
        self.now_s = now / 1_000_000_000;
    }

    fn rests(&self, connection: &Connection) -> bool {
        connection.is_idle()
    }

    fn read(
        &mut self,
        connection: &mut Connection,
        mut bytes: &[u8],
        answers: &mut impl Answers<()>,
    ) {
        loop {
            self.out.clear();
            let (lines, store, out) = (&mut self.lines, &mut self.store, &mut self.out);
            let Ok(progress) = connection.push(self.now_s, 0, bytes, lines, store, out) else {
                return answers.close();
            };
            answers.bytes(&self.out);
            (0..progress.commands).for_each(|_| answers.request());
            if !progress.is_open {
                return answers.close();
            }
            bytes = &bytes[progress.taken..];
            if bytes.is_empty() {
                return;
            }
        }
    }

    fn content(&self, (): (), _: u64, _: &mut [u8]) {}

    fn release(&mut self, mut connection: Connection) {
        connection.release(&mut self.lines, &mut self.store);
    }
}
