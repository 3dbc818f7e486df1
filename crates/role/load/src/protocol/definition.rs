//! What a protocol of a load is to flags, help, reports and servers. Which there are, is in
//! `registry.rs`.

use lineside_http::Url;
use serde_json::Value;

use crate::launch::Requests;
use crate::serve::Serve;
use crate::words::{UsageError, Words};

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

/// Reads the URL and the keys of a protocol: the server's host and port, and what is sent.
pub(super) type ReadRequests = fn(&Words<'_>) -> Result<(Url, Box<dyn Requests>), UsageError>;

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
    pub client: ReadRequests,
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

impl Protocol {
    /// A protocol of requests and answers over byte streams, without keys.
    pub const fn new(
        name: &'static str,
        url: &'static str,
        client: ReadRequests,
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

    /// Whether it reads this key.
    pub(super) fn reads(&self, key: &Key) -> bool {
        let own = self.keys.iter().any(|own| own.name == key.name);
        own || self.shared_keys.contains(&key.name)
    }
}
