//! The settings of a run, from the keys of `[load]`.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::time::Duration;

use lineside_account::Budget;
use lineside_load::client::{CatchUp, Plan};
use lineside_load::prepared::Prepared;
use lineside_load::protocol::{Carrier, Moves, PROTOCOLS, Protocol, must_fit, protocol, resolve};
use lineside_load::settings::{Settings, Transport, secret};
use lineside_load::timetable::{PaceWords, Timetable};
use lineside_load::words::Words;
use lineside_load::{CloseBy, Patience, Timing};
use lineside_reactor::Wait;
use lineside_trace::certificate::load::Asked;
use lineside_words::nearest;

use super::flags::{MEMORY_DEFAULT, Section};
use super::local_server::stand_at_the_end;
use super::stack::addresses_of;
use crate::config::{self, ConfigError};
use crate::inputs::wait;
use crate::print::talk;
use crate::public::{Sending, UNASKED_PER_SECOND};

/// Requests leave for this long, unless something else ends the run.
const DURATION_NS: i64 = 10_000_000_000;
/// A request is built this long before its instant, with `--timer io`.
const AHEAD_NS: i64 = 100_000;
/// Handshakes at once before the start: as many as a listener's queue of 128 takes.
const OPENING_MAX: u32 = 128;
/// The same of our own TCP, whose peers have longer queues or none.
const OPENING_MAX_STACK: u32 = 1_024;
/// Requests that wait for a connection: 16 MiB of them.
const WAITING_MAX: usize = 1 << 20;
/// After a connection failed, the next try of its slot waits this long.
const RETRY_NS: i64 = 10_000_000;
/// Ends of connections are waited for this long.
const LINGER_NS: i64 = 1_000_000_000;
/// Reports, and lines on the terminal.
const SECOND_NS: i64 = 1_000_000_000;
/// An answer may take this long.
const TIMEOUT_NS: i64 = 30_000_000_000;
/// An agent that has been silent for this long is named.
const AGENT_NAMED_AFTER: Duration = Duration::from_secs(10);
/// One in a datagram, which is not sent again.
const DATAGRAM_TIMEOUT_NS: i64 = 1_000_000_000;
impl Section {
    /// Everything that words say, before anything is opened.
    pub(super) fn prepare(&self) -> anyhow::Result<Prepared> {
        let url = self.one_url()?;
        let (protocol, rest) = protocol_of(url)?;
        if let Some(preset) = self.preset() {
            preset.must_fit(protocol)?;
        }
        let timetable = Timetable::read(PaceWords {
            rate: self.rate.as_deref(),
            arrivals: self.arrivals.as_deref(),
            arrivals_of: self.arrivals_of.as_deref(),
            think: self.think.as_deref(),
        })?;
        must_fit(protocol, &self.protocol.0)?;
        self.pipeline_must_fit(protocol)?;
        let seed = self.seed.unwrap_or_default();
        let (server, requests) = (protocol.client)(&Words {
            url,
            rest,
            keys: &self.protocol.0,
            seed,
            timeout_ns: self.timeout_ns(protocol),
            preset_sizes: self.preset().and_then(|preset| preset.sizes),
        })?;
        let (wait, mut ahead_ns) = self.timing_words()?;
        if protocol.moves == Moves::Download {
            // Nothing is built: a request that takes what comes begins when it is due.
            ahead_ns = 0;
        }
        let budget = { self.memory.as_ref() }.map_or(Ok(MEMORY_DEFAULT), config::memory_bytes)?;
        let transport = self.transport()?;
        let servers = resolve(&server)?;
        let workers = at_least_one("-t", self.workers)?;
        let connections = at_least_one("-c", self.connections)?;
        if workers > connections {
            return Err(ConfigError::new(format!(
                "-t {workers} workers share -c {connections} connections: give each one at least"
            ))
            .into());
        }
        let duration_ns = self.duration_ns(&timetable)?;
        let is_stack = matches!(transport, Transport::Stack(_));
        let plan = self.plan(connections, ahead_ns, is_stack, protocol)?;
        let asked = Asked {
            url: url.to_owned(),
            protocol: protocol.name.to_owned(),
            servers: servers.iter().map(ToString::to_string).collect(),
            connections,
            workers,
            arrivals: timetable.arrivals(),
            rate: timetable.rate(),
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
            protocol,
            requests,
            timetable,
            settings,
            asked,
            seed,
        })
    }

    /// Refuses a high rate to a host that may be another's, unless it is meant.
    pub(super) fn must_be_meant(&self, prepared: &Prepared) -> Result<(), ConfigError> {
        let plan = &prepared.settings.plan;
        // The other end is the run's own, or in a network that it made.
        let is_own = self.serve_on.is_some() || self.server.is_some();
        let is_short =
            { plan.requests }.is_some_and(|requests| requests as f64 <= UNASKED_PER_SECOND);
        if is_own || is_short {
            return Ok(());
        }
        let under_way = u64::from(plan.connections) * u64::from(plan.pipeline);
        let per_arrival = match plan.opens_on_arrival {
            true => plan.requests_each.unwrap_or(1),
            false => 1,
        };
        // A search raises the rate until it fails.
        let per_second = match self.search {
            Some(true) => f64::INFINITY,
            _ => prepared.timetable.peak(under_way) * f64::from(per_arrival),
        };
        let sendings = { prepared.settings.targets.iter() }.map(|(to, _)| Sending {
            to: *to,
            per_second,
            fewer: "give a rate with -R 1000, or less",
        });
        sendings
            .into_iter()
            .try_for_each(|sending| sending.must_be_meant(self.public))
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

    /// Of bulk data, a connection has one request at a time.
    fn pipeline_must_fit(&self, protocol: &Protocol) -> Result<(), ConfigError> {
        let is_bulk = protocol.moves != Moves::Messages;
        match is_bulk && self.pipeline.is_some_and(|pipeline| pipeline > 1) {
            false => Ok(()),
            true => Err(ConfigError::new(format!(
                "--pipeline is for requests with answers, and of a {} a connection has one at a \
                 time: leave it out",
                protocol.name
            ))),
        }
    }

    /// An answer may take this long.
    fn timeout_ns(&self, protocol: &Protocol) -> i64 {
        let default = match protocol.carrier {
            Carrier::Udp => DATAGRAM_TIMEOUT_NS,
            Carrier::Tcp => TIMEOUT_NS,
        };
        self.timeout.as_ref().map_or(default, config::Time::get)
    }

    /// How long an agent may be silent: as long as an answer, but for a second or two that an
    /// answer may have, in which no program of another host begins.
    pub(super) fn patience(&self) -> Patience {
        let timeout_ns = self.timeout.as_ref().map_or(TIMEOUT_NS, config::Time::get);
        let timeout = Duration::from_nanos(timeout_ns.max(0).cast_unsigned());
        Patience {
            name_after: AGENT_NAMED_AFTER,
            end_after: timeout.max(AGENT_NAMED_AFTER),
            note: talk,
        }
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
    fn duration_ns(&self, timetable: &Timetable) -> Result<Option<i64>, ConfigError> {
        match self.duration.as_ref().map(config::Time::get) {
            Some(0) => Err(ConfigError::usage(
                "-d 0 leaves no time for a request: give 10s",
            )),
            Some(duration_ns) => Ok(Some(duration_ns)),
            None if self.requests.is_some() || timetable.ends() => Ok(None),
            None => Ok(Some(DURATION_NS)),
        }
    }

    fn plan(
        &self,
        connections: u32,
        ahead_ns: i64,
        is_stack: bool,
        protocol: &Protocol,
    ) -> Result<Plan, ConfigError> {
        let requests_each = self.requests_per_connection;
        let requests_each =
            requests_each.map(|each| at_least_one("--requests-per-connection", Some(each)));
        let timeout_ns = self.timeout_ns(protocol);
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

/// The protocol of a URL, and the URL after its scheme.
fn protocol_of(url: &str) -> Result<(&'static Protocol, &str), ConfigError> {
    let wrong = |why: String| ConfigError::new(format!("{url}: {why}"));
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(wrong(format!(
            "no scheme: write http://{url} or echo://{url}"
        )));
    };
    let scheme = scheme.to_ascii_lowercase();
    match protocol(&scheme) {
        Some(protocol) => Ok((protocol, rest)),
        None if scheme == "https" => {
            Err(wrong("https is not supported yet: write http".to_owned()))
        }
        None => Err(wrong(format!(
            "no scheme '{scheme}' is known; the nearest known one is {}",
            nearest(&scheme, PROTOCOLS.iter().map(|protocol| protocol.name))
        ))),
    }
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

    fn set(keys: &mut Section, name: &str, value: serde_json::Value) {
        keys.protocol.0.insert(name.to_owned(), value);
    }

    #[test]
    fn what_is_no_server_is_refused_with_the_way_out() {
        for (text, words) in [
            ("127.0.0.1:8080", "write http://127.0.0.1:8080"),
            ("http://", "no host"),
            ("https://a/", "not supported yet"),
            ("htpt://a/", "the nearest known one is http"),
            ("echo://a/path", "there are no paths here"),
            ("memcached://a/?b", "write memcached://HOST[:PORT]"),
            ("udp://a?size=1", "?bytes=100"),
            ("sink://a?byte=1", "write sink://HOST[:PORT][?bytes=1MiB]"),
            ("dns://a", "no name to ask for"),
            ("dns://a/x?type=B", "there are A, AAAA"),
            ("nfs://a", "no export"),
            ("nfs://a/e?port=1", "mountport=N"),
            ("echo://a?byte=3", "write ?bytes=64"),
            ("echo://a?bytes=0", "give 1 to 1MiB"),
            ("echo://a?bytes=2GiB", "give 1 to 1MiB"),
        ] {
            let Err(error) = section(text).prepare() else {
                panic!("{text}");
            };
            assert!(config::is_usage(&error), "{text}: {error:#}");
            assert!(error.to_string().contains(words), "{text}: {error}");
        }
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
            (|keys| set(keys, "body", "@/nowhere".into()), "/nowhere"),
            (
                |keys| set(keys, "headers", vec!["x"].into()),
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
