//! The protocols of a load. Each is described in its own module, as a [`Protocol`], and has its line
//! here; flags, help, URLs, keys, servers and presets follow from the lists.

use std::net::{SocketAddr, ToSocketAddrs};

use lineside_http::Url;
use serde_json::{Map, Value};

use super::{bulk, dns, echo, http, memcached, nfs, stamped};
use crate::launch::Requests;
use crate::serve::Serve;
use crate::words::{UsageError, Words};

/// All protocols, in the order in which help lists their URLs.
pub static PROTOCOLS: [&Protocol; 8] = [
    &http::HTTP,
    &memcached::MEMCACHED,
    &dns::DNS,
    &nfs::NFS,
    &stamped::UDP,
    &echo::ECHO,
    &bulk::SINK,
    &bulk::SOURCE,
];

/// All presets, in the order in which help lists them.
pub static PRESETS: [&Preset; 4] = [&memcached::ETC, &http::IOT, &http::WEB, &bulk::DATACENTRE];

/// What carries a protocol's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// Byte streams.
    Tcp,
    /// Datagrams.
    Udp,
}

impl Carrier {
    /// What rows call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// What a request of a protocol moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moves {
    /// A request and its answer.
    Messages,
    /// Bulk data to the server, one request at a time on a connection.
    Upload,
    /// Bulk data from the server, the same. A request sends nothing.
    Download,
}

/// A protocol of a load: all that flags, help, URLs, reports and `load serve` know of it.
#[derive(Debug)]
pub struct Protocol {
    /// The scheme of its URLs, the word of `load serve`, and what reports and rows call it.
    pub name: &'static str,
    /// How its URL is written.
    pub url: &'static str,
    /// What carries its messages.
    pub carrier: Carrier,
    /// What a request moves.
    pub moves: Moves,
    /// Whether a client connects to other ports than that of its URL.
    pub has_further_ports: bool,
    /// The keys of `[load]` that it declares.
    pub keys: &'static [Key],
    /// Keys of other protocols that it reads too.
    pub shared_keys: &'static [&'static str],
    /// Reads its URL and its keys: the server's host and port, and what is sent.
    pub client: fn(&Words<'_>) -> Result<(Url, Box<dyn Requests>), UsageError>,
    /// Its server.
    pub service: Service,
}

/// The server of a protocol, for `load serve`.
#[derive(Debug)]
pub struct Service {
    /// Its place in the help of `load serve`; those with the same one keep their order here.
    pub place: u8,
    /// What it does.
    pub about: &'static str,
    /// The port of an address without one.
    pub port: u16,
    /// Of what `--size` is the length, and its default; `None`: it has none.
    pub size: Option<(&'static str, &'static str)>,
    /// Makes it.
    pub server: fn(ServiceWords) -> Result<Box<dyn Serve>, UsageError>,
}

/// The flags of a server.
#[derive(Debug, Clone, Copy)]
pub struct ServiceWords {
    /// `--size`.
    pub size: Option<u64>,
    /// The memory budget.
    pub memory: usize,
    /// Threads.
    pub workers: u32,
}

/// What a key's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// A text.
    Text,
    /// Texts, each by a flag of its own.
    Texts,
    /// A whole number.
    Count,
    /// Set or not.
    Switch,
}

/// A key of `[load]` and its flag.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name in files and in `trace.json`.
    pub name: &'static str,
    /// The flag's word.
    pub long: &'static str,
    /// The flag's letter.
    pub short: Option<char>,
    /// What its value is.
    pub kind: KeyKind,
    /// The placeholder of the value in help.
    pub value: &'static str,
    /// What it does.
    pub help: &'static str,
    /// Whether a value may begin with a hyphen.
    pub has_hyphens: bool,
    /// A value for messages.
    pub example: Option<&'static str>,
    /// The flag's words before this one.
    pub long_before: &'static [&'static str],
    /// Its name before this one.
    pub name_before: Option<&'static str>,
}

impl Key {
    /// A key whose value is a text; `long` is its flag.
    pub const fn new(name: &'static str, long: &'static str, help: &'static str) -> Self {
        Self {
            name,
            long,
            short: None,
            kind: KeyKind::Text,
            value: "",
            help,
            has_hyphens: false,
            example: None,
            long_before: &[],
            name_before: None,
        }
    }

    /// The flag as messages show it.
    pub fn flag(&self) -> String {
        match self.short {
            Some(short) => format!("-{short}"),
            None => format!("--{}", self.long),
        }
    }
}

/// A load that others have measured or agreed on: values of keys that are not set.
#[derive(Debug)]
pub struct Preset {
    /// The word of `--preset`.
    pub name: &'static str,
    /// What it is, if its name does not say so.
    pub about: Option<&'static str>,
    /// The protocols that it is for.
    pub of: &'static [&'static str],
    /// Keys of `[load]`, with their values as a file has them.
    pub keys: &'static [(&'static str, PresetValue)],
    /// The same, where a rate was given.
    pub with_rate: &'static [(&'static str, PresetValue)],
    /// Sizes of bulk data, if the URL gives none.
    pub sizes: Option<&'static str>,
}

/// The value of a key in a preset.
#[derive(Debug, Clone, Copy)]
pub enum PresetValue {
    /// A text.
    Text(&'static str),
    /// A number.
    Count(u32),
}

impl PresetValue {
    /// As a file has it.
    pub fn to_json(self) -> Value {
        match self {
            Self::Text(text) => text.into(),
            Self::Count(count) => count.into(),
        }
    }
}

/// The preset of this name.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.into_iter().find(|preset| preset.name == name)
}

impl Preset {
    /// One that sets nothing.
    pub(super) const NONE: Self = Self {
        name: "",
        about: None,
        of: &[],
        keys: &[],
        with_rate: &[],
        sizes: None,
    };

    /// Fails for a protocol that it is not for.
    pub fn must_fit(&self, protocol: &Protocol) -> Result<(), UsageError> {
        match self.of.contains(&protocol.name) {
            true => Ok(()),
            false => Err(UsageError(format!(
                "--preset {} is for {}, and this is {}: leave it out",
                self.name,
                self.of.join(", "),
                protocol.name
            ))),
        }
    }
}

/// The protocol of this name, the scheme of its URLs.
pub fn protocol(name: &str) -> Option<&'static Protocol> {
    let mut all = PROTOCOLS.into_iter();
    all.find(|protocol| protocol.name == name)
}

/// Keys of all protocols, each once.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    PROTOCOLS.iter().flat_map(|protocol| protocol.keys)
}

/// All services, in the order of help.
pub fn services() -> Vec<&'static Protocol> {
    let mut all = PROTOCOLS.to_vec();
    all.sort_by_key(|protocol| protocol.service.place);
    all
}

impl Protocol {
    /// A protocol of requests and answers over byte streams, without keys.
    pub const fn new(
        name: &'static str,
        url: &'static str,
        client: fn(&Words<'_>) -> Result<(Url, Box<dyn Requests>), UsageError>,
        service: Service,
    ) -> Self {
        Self {
            name,
            url,
            carrier: Carrier::Tcp,
            moves: Moves::Messages,
            has_further_ports: false,
            keys: &[],
            shared_keys: &[],
            client,
            service,
        }
    }

    fn reads(&self, key: &Key) -> bool {
        let own = self.keys.iter().any(|own| own.name == key.name);
        own || self.shared_keys.contains(&key.name)
    }

    /// Fails if a key is set that this protocol does not read.
    pub fn must_fit(&self, set: &Map<String, Value>) -> Result<(), UsageError> {
        let is_set = |key: &&Key| set.get(key.name).is_some_and(|value| !value.is_null());
        let Some(key) = keys().filter(is_set).find(|key| !self.reads(key)) else {
            return Ok(());
        };
        let declares = |of: &&&Self| of.keys.iter().any(|own| own.name == key.name);
        let shares = |of: &&&Self| of.shared_keys.contains(&key.name);
        let of = { PROTOCOLS.iter().filter(declares) }.chain(PROTOCOLS.iter().filter(shares));
        let of: Vec<_> = of.map(|protocol| protocol.name).collect();
        Err(UsageError(format!(
            "{} is for {}, and this is {}: leave it out",
            key.flag(),
            of.join(" or "),
            self.name
        )))
    }
}

/// The server's addresses, each once.
pub fn resolve(Url { host, port, .. }: &Url) -> Result<Vec<SocketAddr>, UsageError> {
    let found = (host.as_str(), *port).to_socket_addrs();
    let found = found.map_err(|error| {
        UsageError(format!(
            "{host}: {error}: write a name that is known here ('getent hosts {host}'), or an \
             address"
        ))
    })?;
    let mut all: Vec<SocketAddr> = Vec::new();
    for address in found {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    match all.is_empty() {
        true => Err(UsageError(format!("{host}: it has no address"))),
        false => Ok(all),
    }
}

/// A list as a sentence has it: `a, b and c`.
pub fn listed(words: &[impl AsRef<str>], last: &str) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match &words[..] {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., end] => format!("{} {last} {end}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::words::test::words;

    #[test]
    fn names_and_keys_are_of_one_protocol_each() {
        let names: BTreeSet<_> = PROTOCOLS.iter().map(|of| of.name).collect();
        assert_eq!(names.len(), PROTOCOLS.len());
        let all: BTreeSet<_> = keys().map(|key| key.name).collect();
        assert_eq!(all.len(), keys().count());
        for protocol in PROTOCOLS {
            assert!(protocol.url.starts_with(&format!("{}://", protocol.name)));
            let is_known = |shared: &&str| all.contains(shared);
            assert!(
                protocol.shared_keys.iter().all(is_known),
                "{}",
                protocol.name
            );
        }
        for of in PRESETS.iter().flat_map(|preset| preset.of) {
            assert!(names.contains(of), "{of}");
        }
    }

    #[test]
    fn urls_name_the_server() {
        for (url, name, host, port) in [
            ("http://localhost/a?b", "http", "localhost", 80),
            ("memcached://localhost", "memcached", "localhost", 11_211),
            ("nfs://a/b", "nfs", "a", 2049),
        ] {
            let client = protocol(name).expect(name).client;
            let (server, _) = client(&words(url)).expect(url);
            assert_eq!((&*server.host, server.port), (host, port), "{url}");
        }
    }

    #[test]
    fn a_key_of_others_is_refused_with_their_names() {
        let echo = protocol("echo").expect("a protocol");
        let set = |name: &str| Map::from_iter([(name.to_owned(), Value::from("x"))]);
        let error = echo
            .must_fit(&set("value_size"))
            .expect_err("a key of others");
        assert_eq!(
            error.0,
            "--value-size is for memcached or nfs, and this is echo: leave it out"
        );
        assert!(protocol("nfs").expect("one").must_fit(&set("keys")).is_ok());
    }
}
