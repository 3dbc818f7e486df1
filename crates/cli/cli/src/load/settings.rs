//! The settings of a run, from the keys of `[load]`.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::num::NonZeroU64;

use anyhow::Context;
use lineside_account::Budget;
use lineside_http::{RequestTemplate, Url};
use lineside_load::certificate::Asked;
use lineside_load::client::{CatchUp, Plan};
use lineside_load::protocol::nfs::{Files, MixError, MountAt, Offsets, Preparation};
use lineside_load::protocol::{Dns, Http, Mix, NfsMix};
use lineside_load::run::{Settings, Transport};
use lineside_load::{CloseBy, Timing};
use lineside_nfs::v3::StableHow;
use lineside_reactor::Wait;
use lineside_words::WordError;
use lineside_workload::{Sizes, Template, Unit};

use super::behind::stand_at_the_end;
use super::flags::{MEMORY_DEFAULT, Section};
use super::limits::share;
use super::pace::{PaceWords, read_file};
use super::stack::addresses_of;
use super::target::Target;
use crate::config::{self, ConfigError};
use crate::inputs::wait;

/// Requests leave for so long, unless something else ends the run.
const DURATION_NS: i64 = 10_000_000_000;
/// A request is built so long before its instant, with `--timer io`.
const AHEAD_NS: i64 = 100_000;
/// Handshakes at once before the start: as many as a listener's queue of 128 takes.
const OPENING_MAX: u32 = 128;
/// The same of our own TCP, whose peers have longer queues or none.
const OPENING_MAX_STACK: u32 = 1_024;
/// Requests that wait for a connection: 16 MiB of them.
const WAITING_MAX: usize = 1 << 20;
/// After a connection failed, the next try of its slot waits so long.
const RETRY_NS: i64 = 10_000_000;
/// Ends of connections are waited for so long.
const LINGER_NS: i64 = 1_000_000_000;
/// Reports, and lines on the terminal.
const SECOND_NS: i64 = 1_000_000_000;
/// The longest body: a request lies in memory whole.
const BODY_BYTES_MAX: u64 = 16 << 20;

/// An answer may take so long.
const TIMEOUT_NS: i64 = 30_000_000_000;
/// One in a datagram, which is not sent again.
const DATAGRAM_TIMEOUT_NS: i64 = 1_000_000_000;
/// An answer of DNS that passes any network in one piece (DNS flag day 2020).
const DNS_UDP_LEN: u16 = 1_232;
/// Procedures of NFS that change nothing: whose files these are is not known here.
const NFS_MIX: &str = "getattr:40%, lookup:15%, access:15%, read:30%";
const NFS_SIZE: &str = "32KiB";
/// Files of an export that are used.
const FILES_FOUND_MAX: u32 = 10_000;
/// Files that are made.
const FILE_BYTES: u64 = 1 << 20;
const FILES_A_DIRECTORY: u32 = 1_000;

/// Bytes of a request of bulk data.
const BULK_BYTES: &str = "1MiB";
/// In place of sizes: all that a source sends on a connection.
const ALL: &str = "all";

/// Requests of memcached: small values, mostly read, some keys far more often than others.
const KEYS: &str = "zipf 0.99 over 100000";
const KEY_SIZE: &str = "30";
const VALUE_SIZE: &str = "100";
const GETS: &str = "90%";

/// What is sent.
#[derive(Debug, Clone)]
pub(super) enum Requests {
    Http(Box<Http>),
    Echo {
        bytes: u32,
    },
    Sink(Box<Sizes>),
    /// `None`: everything to the end of a connection.
    Source(Option<Box<Sizes>>),
    Udp {
        sizes: Box<Sizes>,
        is_echo: bool,
    },
    Memcached(Box<Mix>),
    Dns(Box<Dns>),
    Nfs(Box<(NfsMix, Preparation)>),
}

/// The settings of a run, resolved.
pub(super) struct Prepared {
    pub(super) requests: Requests,
    pub(super) pace: PaceWords,
    pub(super) settings: Settings,
    pub(super) asked: Asked,
    pub(super) seed: u64,
}

impl Prepared {
    /// Changes the rate and the duration, for another run.
    pub(super) fn change(&mut self, rate: f64, duration_ns: i64) -> Result<(), ConfigError> {
        self.pace.change_rate(&format!("{rate:.3}"))?;
        (self.asked.arrivals, self.asked.rate) = (self.pace.arrivals(), self.pace.rate());
        self.settings.timing.duration_ns = Some(duration_ns);
        self.settings.secret = secret();
        Ok(())
    }
}

impl Section {
    /// Everything that words say, before anything is opened.
    pub(super) fn prepare(&self) -> anyhow::Result<Prepared> {
        let url = self.one_url()?;
        let target = Target::parse(url)?;
        self.preset_must_fit(target.protocol())?;
        let pace = PaceWords::read(self)?;
        let requests = self.requests_of(&target)?;
        let (wait, mut ahead_ns) = self.timing_words()?;
        if let Requests::Source(_) = &requests {
            // Nothing is built: a request that takes what comes begins when it is due.
            ahead_ns = 0;
        }
        let budget = { self.memory.as_ref() }.map_or(Ok(MEMORY_DEFAULT), config::memory_bytes)?;
        let transport = self.transport()?;
        let servers = target.resolve()?;
        let workers = at_least_one("-t", self.workers)?;
        let connections = at_least_one("-c", self.connections)?;
        if workers > connections {
            return Err(ConfigError::new(format!(
                "-t {workers} workers share -c {connections} connections: give each one at least"
            ))
            .into());
        }
        let duration_ns = self.duration_ns(&pace)?;
        let is_stack = matches!(transport, Transport::Stack(_));
        let is_datagram = matches!(target, Target::Dns { .. } | Target::Udp { .. });
        let kinds = [is_stack, is_datagram];
        let plan = self.plan(connections, ahead_ns, kinds)?;
        let seed = self.seed.unwrap_or_default();
        let asked = Asked {
            url: url.to_owned(),
            protocol: target.protocol().to_owned(),
            servers: servers.iter().map(ToString::to_string).collect(),
            connections,
            workers,
            arrivals: pace.arrivals(),
            rate: pace.rate(),
            arrivals_of: self
                .arrivals_of
                .clone()
                .unwrap_or_else(|| "requests".to_owned()),
            timer: self.timer.clone().unwrap_or_default(),
            wait: word_of(wait).to_owned(),
            seed,
        };
        let timeout_ns = plan.timeout_ns;
        let transport = with_timeout(transport, timeout_ns);
        let settings = Settings {
            targets: of_one_family(&servers, &transport)?,
            transport,
            workers,
            among: (0, workers),
            pins: self.pin == Some(true),
            real_time: self.real_time == Some(true),
            wait,
            plan,
            timing: Timing {
                duration_ns,
                drain_ns: timeout_ns,
                linger_ns: LINGER_NS,
                report_ns: SECOND_NS,
            },
            budget: Budget::new(budget),
            secret: secret(),
        };
        Ok(Prepared {
            requests,
            pace,
            settings,
            asked,
            seed,
        })
    }

    fn one_url(&self) -> Result<&str, ConfigError> {
        match self.url.as_deref().unwrap_or_default() {
            [url] => Ok(url),
            [] => Err(ConfigError::usage(
                "the server is missing: name it by a URL, such as http://127.0.0.1:8080/; \
                 'lineside load serve http 127.0.0.1:8080' is one",
            )),
            [_, second, ..] => Err(ConfigError::new(format!(
                "'{second}' is a second URL: a load has one server"
            ))),
        }
    }

    /// The request, for HTTP from its parts.
    fn requests_of(&self, target: &Target) -> anyhow::Result<Requests> {
        self.must_fit(target)?;
        Ok(match target {
            Target::Http(url) => self.http(url)?,
            Target::Echo { bytes, .. } => Requests::Echo { bytes: *bytes },
            Target::Sink { bytes, .. } => {
                let default = self.preset_sizes().unwrap_or(BULK_BYTES);
                Requests::Sink(Box::new(sizes(bytes.as_deref().unwrap_or(default))?))
            }
            Target::Source { bytes, .. } => {
                let words = bytes.as_deref().unwrap_or(BULK_BYTES);
                let sizes = (words != ALL).then(|| sizes(words)).transpose()?;
                Requests::Source(sizes.map(Box::new))
            }
            Target::Memcached(_) => Requests::Memcached(Box::new(self.memcached_mix()?)),
            Target::Dns { names, kinds, .. } => self.queries(names, kinds)?,
            Target::Nfs {
                export, mount_port, ..
            } => self.calls(export, *mount_port)?,
            Target::Udp {
                bytes, is_one_way, ..
            } => {
                let sizes = sizes(bytes)?;
                let least = lineside_load::protocol::STAMPED_BYTES_MIN;
                if sizes.max() < least {
                    return Err(ConfigError::new(format!(
                        "bytes: '{bytes}' has no room for number and stamp: give {least} or more"
                    ))
                    .into());
                }
                Requests::Udp {
                    sizes: Box::new(sizes),
                    is_echo: !is_one_way,
                }
            }
        })
    }

    /// Requests of HTTP, all alike or with fields.
    fn http(&self, url: &Url) -> anyhow::Result<Requests> {
        let body = self.body.as_deref().map(body).transpose()?;
        let method = match (&self.http_method, &body) {
            (Some(method), _) => method,
            (None, Some(_)) => "POST",
            (None, None) => "GET",
        };
        let headers = self.headers.as_deref().unwrap_or_default();
        let template =
            RequestTemplate::new(method, url, headers, body.as_deref().unwrap_or_default());
        let template = template.map_err(|error| ConfigError::new(error.to_string()))?;
        if template.expects_continue() {
            return Err(ConfigError::usage(
                "Expect: 100-continue has the body wait for an answer, which a load does not do: \
                 leave it out",
            )
            .into());
        }
        if self.fields != Some(true) {
            return Ok(Requests::Http(Box::new(Http::new(template))));
        }
        let body = String::from_utf8(body.unwrap_or_default()).map_err(|_| {
            ConfigError::new("body: it is not text, and --fields is about text".to_owned())
        })?;
        let keys = { self.keys.as_deref() }.map(str::parse).transpose();
        let keys = keys.map_err(|error: WordError| ConfigError::new(error.to_string()))?;
        let seed = self.seed.unwrap_or_default();
        let http = Http::with_fields(method, url, headers, &body, keys, seed);
        let http = http.map_err(|error| ConfigError::new(error.to_string()))?;
        Ok(Requests::Http(Box::new(http)))
    }

    /// Flags of another protocol say nothing here.
    fn must_fit(&self, target: &Target) -> Result<(), ConfigError> {
        let given = [
            (self.headers.is_some(), "-H", "http"),
            (self.http_method.is_some(), "-X", "http"),
            (self.body.is_some(), "--body", "http"),
            (self.fields.is_some(), "--fields", "http"),
            (self.keys.is_some(), "--keys", "memcached or nfs or http"),
            (self.key_size.is_some(), "--key-size", "memcached"),
            (
                self.value_size.is_some(),
                "--value-size",
                "memcached or nfs",
            ),
            (self.get_ratio.is_some(), "--get-ratio", "memcached"),
            (self.mix.is_some(), "--mix", "nfs"),
            (self.files.is_some(), "--files", "nfs"),
        ];
        let is = target.protocol();
        let is_bulk = matches!(target, Target::Sink { .. } | Target::Source { .. });
        if is_bulk && self.pipeline.is_some_and(|pipeline| pipeline > 1) {
            return Err(ConfigError::new(format!(
                "--pipeline is for requests with answers, and of a {is} a connection has one at a \
                 time: leave it out"
            )));
        }
        let fits = |of: &str| of.split(" or ").any(|each| each == is);
        match given
            .iter()
            .find(|(is_given, _, of)| *is_given && !fits(of))
        {
            None => Ok(()),
            Some((_, flag, of)) => Err(ConfigError::new(format!(
                "{flag} is for {of}, and this is {is}: leave it out"
            ))),
        }
    }

    /// Queries of DNS.
    fn queries(&self, names: &str, kinds: &[u16]) -> anyhow::Result<Requests> {
        let seed = self.seed.unwrap_or_default();
        let names = Template::parse(names, None, seed);
        let names = names.map_err(|error| ConfigError::new(error.to_string()))?;
        let dns = Dns::new(names, kinds.to_vec(), true, Some(DNS_UDP_LEN), seed);
        let dns = dns.map_err(|error| ConfigError::new(error.to_string()))?;
        Ok(Requests::Dns(Box::new(dns)))
    }

    /// Calls of NFS.
    fn calls(&self, export: &str, mount_port: Option<u16>) -> anyhow::Result<Requests> {
        let wrong = |error: WordError| ConfigError::new(error.to_string());
        let size = self.value_size.as_deref().unwrap_or(NFS_SIZE);
        let size = Sizes::parse("value-size", size, Unit::Bytes, &mut read_file).map_err(wrong)?;
        let shares = self.mix.as_deref().unwrap_or(NFS_MIX).parse();
        let shares = shares.map_err(|error: MixError| ConfigError::new(error.to_string()))?;
        let (files, seed) = (self.files, self.seed.unwrap_or_default());
        let keys = match (&self.keys, files) {
            (Some(keys), _) => keys.parse(),
            (None, Some(files)) => format!("uniform over {files}").parse(),
            (None, None) => format!("uniform over {FILES_FOUND_MAX}").parse(),
        };
        // As root squashed or not, the server says; ordinary servers of tests take anyone.
        let user = (0, 0);
        let mix = NfsMix {
            shares,
            keys: keys.map_err(wrong)?,
            read_bytes: size.clone(),
            write_bytes: size,
            offsets: Offsets::Random,
            stable: StableHow::UNSTABLE,
            user,
            seed,
        };
        let preparation = Preparation {
            export: export.to_owned(),
            mount: mount_port.map_or(MountAt::Portmap, MountAt::Port),
            files: match files {
                None => Files::Found {
                    files_max: FILES_FOUND_MAX,
                },
                Some(files) => Files::Made {
                    files,
                    directories: files.div_ceil(FILES_A_DIRECTORY),
                    bytes: Sizes::constant(FILE_BYTES, Unit::Bytes),
                    seed,
                    makes: true,
                },
            },
            user,
            timeout_ns: self.timeout_ns(false),
        };
        Ok(Requests::Nfs(Box::new((mix, preparation))))
    }

    /// An answer may take so long.
    fn timeout_ns(&self, is_datagram: bool) -> i64 {
        let default = if is_datagram {
            DATAGRAM_TIMEOUT_NS
        } else {
            TIMEOUT_NS
        };
        self.timeout.as_ref().map_or(default, config::Time::get)
    }

    /// Requests of memcached.
    fn memcached_mix(&self) -> Result<Mix, ConfigError> {
        let wrong = |error: WordError| ConfigError::new(error.to_string());
        let keys = self
            .keys
            .as_deref()
            .unwrap_or(KEYS)
            .parse()
            .map_err(wrong)?;
        let sizes = |setting, text: Option<&str>, default| {
            Sizes::parse(
                setting,
                text.unwrap_or(default),
                Unit::Bytes,
                &mut read_file,
            )
            .map_err(wrong)
        };
        Ok(Mix {
            keys,
            key_len: sizes("key-size", self.key_size.as_deref(), KEY_SIZE)?,
            value_bytes: sizes("value-size", self.value_size.as_deref(), VALUE_SIZE)?,
            get_share: share(self.get_ratio.as_deref().unwrap_or(GETS))
                .map_err(|why| ConfigError::new(format!("get_ratio: {why}")))?,
            seed: self.seed.unwrap_or_default(),
        })
    }

    /// How the loop waits, and how long before its instant a request is built.
    fn timing_words(&self) -> Result<(Wait, i64), ConfigError> {
        let (by_timer, ahead_ns) = match self.timer.as_deref() {
            Some("sleep") => (Wait::Sleep, 0),
            Some("app") => (Wait::Hybrid, 0),
            _ => (Wait::Hybrid, AHEAD_NS),
        };
        let wait = self.wait.as_deref().map_or(Ok(by_timer), wait)?;
        Ok((wait, ahead_ns))
    }

    fn transport(&self) -> anyhow::Result<Transport> {
        let ports = ports(self.ports.as_deref().unwrap_or("1024-65535"))?;
        let mut stack = self.stack.settings(ports)?;
        if let Some(stack) = stack.as_mut().filter(|_| self.server.is_some()) {
            stand_at_the_end(stack);
        }
        let from = addresses_of("from", self.from.as_deref())?;
        Ok(match stack {
            Some(_) if !from.is_empty() => {
                return Err(ConfigError::usage(
                    "--from is for the kernel's sockets, and -i has its own addresses: name them \
                     with --address",
                )
                .into());
            }
            Some(stack) => Transport::Stack(Box::new(stack)),
            None => Transport::Sockets { from },
        })
    }

    /// How long requests leave; `None`: something else ends the run.
    fn duration_ns(&self, pace: &PaceWords) -> Result<Option<i64>, ConfigError> {
        match self.duration.as_ref().map(config::Time::get) {
            Some(0) => Err(ConfigError::usage(
                "-d 0 leaves no time for a request: give 10s",
            )),
            Some(duration_ns) => Ok(Some(duration_ns)),
            None if self.requests.is_some() || pace.ends() => Ok(None),
            None => Ok(Some(DURATION_NS)),
        }
    }

    fn plan(
        &self,
        connections: u32,
        ahead_ns: i64,
        [is_stack, is_datagram]: [bool; 2],
    ) -> Result<Plan, ConfigError> {
        let requests_each = self.requests_per_connection;
        let requests_each =
            requests_each.map(|each| at_least_one("--requests-per-connection", Some(each)));
        let timeout_ns = self.timeout_ns(is_datagram);
        if timeout_ns == 0 {
            return Err(ConfigError::usage(
                "--timeout 0 lets no answer come: give 30s",
            ));
        }
        let opens_on_arrival = self.arrivals_of.as_deref() == Some("connections");
        Ok(Plan {
            connections,
            opens_on_arrival,
            // A connection that arrives has one request, unless more were asked for.
            requests_each: match requests_each.transpose()? {
                None if opens_on_arrival => Some(1),
                each => each,
            },
            pipeline: at_least_one("--pipeline", self.pipeline)?,
            close_by: match self.close.as_deref() {
                Some("rst") => CloseBy::Rst,
                Some("peer") => CloseBy::Peer,
                _ => CloseBy::Fin,
            },
            requests: self.requests.map(NonZeroU64::get),
            timeout_ns,
            ahead_ns,
            opening_max: if is_stack {
                OPENING_MAX_STACK
            } else {
                OPENING_MAX
            },
            waiting_max: WAITING_MAX,
            retry_ns: RETRY_NS,
            catch_up: catch_up(self.on_overrun.as_deref().unwrap_or("keep"))?,
            share: (0, 1),
        })
    }
}

/// Sizes in a URL.
fn sizes(words: &str) -> Result<Sizes, ConfigError> {
    let sizes = Sizes::parse("bytes", words, Unit::Bytes, &mut read_file);
    sizes.map_err(|error| ConfigError::new(error.to_string()))
}

/// A SYN, too, waits no longer for an answer than a request does.
fn with_timeout(transport: Transport, timeout_ns: i64) -> Transport {
    match transport {
        Transport::Stack(mut stack) => {
            stack.timeout_ns = Some(timeout_ns);
            Transport::Stack(stack)
        }
        sockets => sockets,
    }
}

fn at_least_one(flag: &str, count: Option<u32>) -> Result<u32, ConfigError> {
    match count.unwrap_or(1) {
        0 => Err(ConfigError::new(format!("{flag} must not be 0"))),
        count => Ok(count),
    }
}

/// The words of `--catch-up`.
fn catch_up(words: &str) -> Result<CatchUp, ConfigError> {
    let mut parts = words.split_whitespace();
    match (parts.next(), parts.next().map(str::parse), parts.next()) {
        (Some("keep"), None, None) => Ok(CatchUp::Keep),
        (Some("reanchor"), None, None) => Ok(CatchUp::Reanchor),
        (Some("cap"), Some(Ok(most @ 1..)), None) => Ok(CatchUp::Cap(most)),
        _ => Err(ConfigError::new(format!(
            "catch-up: '{words}' is unknown: write keep, 'cap 100' (in a millisecond) or reanchor"
        ))),
    }
}

/// A body: the text, or what is in a file.
fn body(text: &str) -> anyhow::Result<Vec<u8>> {
    let Some(name) = text.strip_prefix('@') else {
        return Ok(text.as_bytes().to_vec());
    };
    let at = |error: std::io::Error| ConfigError::new(format!("body: '{name}': {error}"));
    let len = std::fs::metadata(name).map_err(at)?.len();
    if len > BODY_BYTES_MAX {
        return Err(ConfigError::new(format!(
            "body: '{name}' has {}: a body has at most 16 MiB",
            lineside_words::bytes(len)
        ))
        .into());
    }
    std::fs::read(name)
        .map_err(at)
        .context("the body of requests")
}

/// `FIRST-LAST`: the first port, and how many.
fn ports(text: &str) -> Result<(u16, u32), ConfigError> {
    let read = || {
        let (first, last) = text.split_once('-')?;
        let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first > 0 && first <= last).then(|| (first, u32::from(last - first) + 1))
    };
    read().ok_or_else(|| {
        ConfigError::new(format!("ports: '{text}' is not a range: write 1024-65535"))
    })
}

fn word_of(wait: Wait) -> &'static str {
    let known = Wait::WORDS.iter().find(|(_, known)| *known == wait);
    known.map_or("hybrid", |(word, _)| word)
}

/// Servers of the family of the local addresses, or else of the first one.
fn of_one_family(
    servers: &[SocketAddr],
    transport: &Transport,
) -> Result<Vec<(std::net::IpAddr, u16)>, ConfigError> {
    let local = match transport {
        Transport::Sockets { from } => from.first().copied(),
        Transport::Stack(stack) => stack.addresses.first().map(|block| block.address),
    };
    let is_v4 = local.map_or_else(|| servers[0].is_ipv4(), |address| address.is_ipv4());
    let of_family = servers.iter().filter(|server| server.is_ipv4() == is_v4);
    // Of a name with several addresses, one: they are one host more often than not.
    match of_family.map(|server| (server.ip(), server.port())).next() {
        Some(server) => Ok(vec![server]),
        None => Err(ConfigError::new(format!(
            "{} is reached from an address of its own family: the local one is of the other",
            servers[0]
        ))),
    }
}

/// What strangers must not know of this run.
pub(super) fn secret() -> [u64; 2] {
    let state = RandomState::new();
    [state.hash_one(1), state.hash_one(2)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(url: &str) -> Section {
        let keys = Section {
            url: Some(vec![url.to_owned()]),
            ..Section::default()
        };
        keys.resolved(None).expect("valid")
    }

    #[test]
    fn an_end_is_a_time_a_number_or_the_rates_own() {
        let mut keys = section("http://127.0.0.1/");
        let duration = |keys: &Section| keys.prepare().expect("valid").settings.timing.duration_ns;
        assert_eq!(duration(&keys), Some(DURATION_NS));
        keys.rate = Some("10 for 1s".to_owned());
        assert_eq!(duration(&keys), None);
        keys.rate = None;
        keys.requests = NonZeroU64::new(5);
        assert_eq!(duration(&keys), None);
        keys.duration = Some(config::Time::of_ns(7));
        assert_eq!(duration(&keys), Some(7));
    }

    #[test]
    fn a_timer_is_a_way_to_wait_and_a_lead() {
        let mut keys = section("echo://127.0.0.1");
        for (timer, wait, expected) in [
            ("io", None, (Wait::Hybrid, AHEAD_NS)),
            ("app", None, (Wait::Hybrid, 0)),
            ("sleep", None, (Wait::Sleep, 0)),
            ("sleep", Some("spin"), (Wait::Spin, 0)),
        ] {
            keys.timer = Some(timer.to_owned());
            keys.wait = wait.map(str::to_owned);
            let settings = keys.prepare().expect("valid").settings;
            assert_eq!((settings.wait, settings.plan.ahead_ns), expected);
        }
    }

    #[test]
    fn wrong_words_are_refused_with_the_way_out() {
        for (change, words) in [
            (
                (|keys| keys.connections = Some(0)) as fn(&mut Section),
                "-c must not be 0",
            ),
            (|keys| keys.workers = Some(99), "give each one at least"),
            (|keys| keys.body = Some("@/nowhere".to_owned()), "/nowhere"),
            (
                |keys| keys.headers = Some(vec!["x".to_owned()]),
                "has no colon",
            ),
            (
                |keys| keys.ports = Some("9-8".to_owned()),
                "write 1024-65535",
            ),
            (
                |keys| keys.wait = Some("spinn".to_owned()),
                "the nearest known one is spin",
            ),
            (
                |keys| keys.on_overrun = Some("cap".to_owned()),
                "write keep, 'cap 100'",
            ),
            (|keys| keys.url = None, "the server is missing"),
            (|keys| keys.from = Some(vec!["::1".to_owned()]), "the other"),
        ] {
            let mut keys = section("http://127.0.0.1/");
            change(&mut keys);
            let Err(error) = keys.prepare() else {
                panic!("{words}");
            };
            assert!(config::is_usage(&error), "{error:#}");
            assert!(format!("{error:#}").contains(words), "{error:#}");
        }
    }
}
