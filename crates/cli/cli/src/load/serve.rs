//! `lineside load serve`: the other end of a load.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use lineside_account::Budget;
use lineside_dns::{NameBuf, Zone};
use lineside_host::{RunClock, Signals, clock_name};
use lineside_http::{Body, Responder, ResponseTemplate};
use lineside_load::certificate::Quantiles;
use lineside_load::protocol::nfs::{Store, StoreSettings};
use lineside_load::protocol::{
    DnsServer, EchoServer, HttpServer, MemcachedServer, NfsServer, Server, SinkDatagrams,
    SinkFigures, SinkServer, SourceServer, StampedDatagrams,
};
use lineside_load::serve::{
    ServeError, ServeSettings, Served, serve as serve_load, serve_datagrams,
};
use lineside_memcached::Limits as StoreLimits;
use lineside_words::{bytes, grouped, percent, time};
use lineside_workload::{Sizes, Unit};
use serde::Serialize;

use super::flags::{ServeArguments, Service};
use super::settings::secret;
use crate::config::{self, ConfigError};
use crate::exit::Exit;
use crate::inputs::wait;
use crate::print::{print_json, say};

/// Bytes of a body, as of the load that servers are measured with.
const BODY_BYTES: u64 = 64;
/// Bytes of each file of an export.
const FILE_BYTES: u64 = 1 << 20;
/// A source without an end.
pub(super) const ENDLESS: u64 = u64::MAX >> 1;
/// Connections of our own TCP.
const CONNECTIONS_MAX: u32 = 1 << 23;
/// Flows of stamped datagrams that are kept apart: 16 KiB each.
const FLOWS_MAX: usize = 4_096;
/// How often signals are looked after.
const LOOK: Duration = Duration::from_millis(50);

impl Service {
    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Echo => "echo",
            Self::Sink => "sink",
            Self::Source => "source",
            Self::Memcached => "memcached",
            Self::Udp => "udp",
            Self::Dns => "dns",
            Self::Nfs => "nfs",
        }
    }

    /// The port that RFC 862, 863 and 864 have, memcached's own, and 8080.
    fn port(self) -> u16 {
        match self {
            Self::Http => 8080,
            Self::Echo | Self::Udp => 7,
            Self::Sink => 9,
            Self::Source => 19,
            Self::Memcached => 11_211,
            Self::Dns => 53,
            Self::Nfs => 2049,
        }
    }
}

/// What a server counted, for other programs.
#[derive(Debug, Serialize)]
struct Counts {
    service: &'static str,
    #[serde(flatten)]
    counts: lineside_load::server::ServerCounts,
    cpu_s: f64,
    /// Of stamped datagrams of one way.
    #[serde(skip_serializing_if = "Option::is_none")]
    one_way: Option<OneWay>,
}

/// What came of datagrams of one way.
#[derive(Debug, Clone, Serialize)]
struct OneWay {
    flows: u64,
    received: u64,
    bytes: u64,
    /// Below the highest number that came of each flow.
    lost: u64,
    duplicates: u64,
    /// RFC 4737, 3.3, and the greatest extent: 4.2.1.
    reordered: u64,
    extent_max: u64,
    beyond: u64,
    corrupt: u64,
    foreign: u64,
    unkept: u64,
    seconds: f64,
    /// RFC 3550, A.8: the mean of all flows, and the most.
    jitter_mean_ns: Option<u64>,
    jitter_max_ns: u64,
    /// Where both ends read one clock.
    delay: Option<Quantiles>,
    /// RFC 3393.
    delay_variation: Option<Quantiles>,
}

impl OneWay {
    /// `None` if nothing came.
    fn of(figures: &SinkFigures) -> Option<Self> {
        let (first, last) = figures.span_ns?;
        Some(Self {
            flows: figures.flows,
            received: figures.received,
            bytes: figures.bytes,
            lost: figures.lost,
            duplicates: figures.duplicates,
            reordered: figures.reordered,
            extent_max: figures.extent_max,
            beyond: figures.beyond,
            corrupt: figures.corrupt,
            foreign: figures.foreign,
            unkept: figures.unkept,
            seconds: (last - first) as f64 / 1e9,
            jitter_mean_ns: figures.jitter_mean_ns(),
            jitter_max_ns: figures.jitter_ns.1,
            delay: Quantiles::of(&figures.delays),
            delay_variation: Quantiles::of(&figures.variations),
        })
    }

    fn line(&self) -> String {
        let of_all = self.received.saturating_add(self.lost).max(1) as f64;
        let mut line = format!(
            "one way: {} datagrams in {} flows, {} lost ({}), {} again, {} out of order (by \
             {} at most); jitter {}",
            grouped(self.received),
            grouped(self.flows),
            grouped(self.lost),
            percent(self.lost as f64 / of_all),
            grouped(self.duplicates),
            grouped(self.reordered),
            grouped(self.extent_max),
            time(self.jitter_mean_ns.unwrap_or(0)),
        );
        if let Some(delay) = &self.delay {
            let _ = write!(
                line,
                "; delay p50 {}, p99 {}, max {}",
                time(delay.p50_ns),
                time(delay.p99_ns),
                time(delay.max_ns)
            );
        }
        line
    }
}

pub(super) fn serve(arguments: &ServeArguments) -> anyhow::Result<Exit> {
    let what = arguments.what;
    let at = address(&arguments.at, what)?;
    if arguments.size.is_some() && !matches!(what, Service::Http | Service::Source | Service::Nfs) {
        return Err(ConfigError::new(format!(
            "--size is for http, source and nfs, and this is {}: leave it out",
            what.name()
        ))
        .into());
    }
    let wait = wait(&arguments.wait)?;
    let memory = config::Size::of_mib(arguments.memory);
    let budget = Budget::new(config::memory_bytes(&memory)?);
    let mut stack = arguments.stack.settings((1, u32::from(u16::MAX)))?;
    if let Some(stack) = &mut stack {
        stack.connections_max = CONNECTIONS_MAX;
    }
    let settings = ServeSettings {
        at,
        stack: stack.map(Box::new),
        workers: arguments.workers,
        wait,
        budget,
        secret: secret(),
    };
    let one_way = Mutex::new(SinkFigures::default());
    let served = serve_with(arguments, &settings, &one_way)?;
    let one_way = one_way.into_inner().unwrap_or_default();
    report(arguments, &served, OneWay::of(&one_way))
}

/// Serves what was asked for.
fn serve_with(
    arguments: &ServeArguments,
    settings: &ServeSettings,
    one_way: &Mutex<SinkFigures>,
) -> anyhow::Result<Served> {
    let size = arguments.size.map(|size| size as u64);
    match arguments.what {
        Service::Http => {
            let bytes = size.unwrap_or(BODY_BYTES);
            until_signal(
                arguments,
                settings,
                &streams(settings, &|| HttpServer::new(responder(bytes))),
            )
        }
        Service::Echo => until_signal(arguments, settings, &streams(settings, &|| EchoServer)),
        Service::Sink => until_signal(arguments, settings, &streams(settings, &|| SinkServer)),
        Service::Dns => {
            let zone = zone()?;
            let made = || DnsServer(zone.clone());
            let serve = |clock, stop: &AtomicBool, ready: &dyn Fn(SocketAddr)| {
                let served = serve_datagrams(settings, &made, &|_| (), clock, stop, ready)?;
                Ok(served.0)
            };
            until_signal(arguments, settings, &serve)
        }
        Service::Udp => {
            let serve = |clock: RunClock, stop: &AtomicBool, ready: &dyn Fn(SocketAddr)| {
                let (name, ahead_ns) = (clock_name(), clock.ahead_ns());
                let made = || StampedDatagrams(SinkDatagrams::new(FLOWS_MAX, name, ahead_ns));
                let left = |server: &StampedDatagrams| server.0.figures();
                let (served, figures) =
                    serve_datagrams(settings, &made, &left, clock, stop, ready)?;
                let mut sum = one_way.lock().unwrap_or_else(PoisonError::into_inner);
                figures.iter().for_each(|figures| sum.add(figures));
                Ok(served)
            };
            until_signal(arguments, settings, &serve)
        }
        Service::Nfs => {
            let store = store(arguments, size)?;
            until_signal(
                arguments,
                settings,
                &streams(settings, &|| NfsServer::new(Arc::clone(&store))),
            )
        }
        Service::Memcached => {
            let limits = StoreLimits {
                memory_bytes: arguments.memory / 2 / arguments.workers as usize,
                ..StoreLimits::default()
            };
            until_signal(
                arguments,
                settings,
                &streams(settings, &|| MemcachedServer::new(limits)),
            )
        }
        Service::Source => {
            let bytes = size.unwrap_or(ENDLESS);
            until_signal(
                arguments,
                settings,
                &streams(settings, &|| SourceServer { bytes }),
            )
        }
    }
}

pub(super) fn responder(size: u64) -> Responder {
    let mut responder = Responder::new();
    let response = ResponseTemplate::new(200, &[] as &[&str], Body::Synthetic(size));
    let added = responder.route_others(response.expect("200 may have a body"));
    added.expect("room for one");
    responder
}

/// `ADDRESS` or `ADDRESS:PORT`, of IPv6 in brackets or without a port.
fn address(text: &str, what: Service) -> Result<SocketAddr, ConfigError> {
    if let Ok(at) = text.parse() {
        return Ok(at);
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let address: IpAddr = bare.parse().map_err(|_| {
        ConfigError::new(format!(
            "'{text}' is not an address to listen at: write 127.0.0.1:{}, 0.0.0.0 for all, or [::1]:{}",
            what.port(),
            what.port()
        ))
    })?;
    Ok(SocketAddr::new(address, what.port()))
}

/// A server until it is stopped; it says where it listens.
type Serving<'a> =
    dyn Fn(RunClock, &AtomicBool, &dyn Fn(SocketAddr)) -> Result<Served, ServeError> + Sync + 'a;

/// Serves a protocol over byte streams.
fn streams<'a, P: Server, F: Fn() -> P + Sync>(
    settings: &'a ServeSettings,
    make: &'a F,
) -> impl Fn(RunClock, &AtomicBool, &dyn Fn(SocketAddr)) -> Result<Served, ServeError> + Sync + 'a {
    move |clock, stop, ready| serve_load(settings, make, clock, stop, ready)
}

/// Serves; the calling thread looks after signals.
fn until_signal(
    arguments: &ServeArguments,
    settings: &ServeSettings,
    serve: &Serving<'_>,
) -> anyhow::Result<Served> {
    let signals = Signals::register().context("cannot handle signals")?;
    let stop = AtomicBool::new(false);
    let name = arguments.what.name();
    let ready = |at: SocketAddr| {
        if !arguments.quiet {
            say(&format!("serving {name} at {at}; Ctrl-C ends it"));
        }
    };
    let clock = RunClock::start();
    let at = || format!("{name} at {}", settings.at);
    arguments.confine(settings, clock).with_context(at)?;
    thread::scope(|scope| {
        let (stop, ready) = (&stop, &ready);
        let serving = scope.spawn(move || serve(clock, stop, ready));
        while !serving.is_finished() {
            if signals.stop().is_some() {
                stop.store(true, Ordering::Relaxed);
            }
            thread::park_timeout(LOOK);
        }
        let served = serving
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        served.with_context(at)
    })
}

/// A zone in which each name has an address of those for documents (RFC 5737).
fn zone() -> anyhow::Result<Zone> {
    Ok(Zone {
        origin: NameBuf::parse("load.example")?,
        a: Some(Ipv4Addr::new(192, 0, 2, 1)),
        aaaa: None,
        ttl_s: 60,
    })
}

/// The files of an export.
fn store(arguments: &ServeArguments, size: Option<u64>) -> anyhow::Result<Arc<Mutex<Store>>> {
    let settings = StoreSettings {
        export: "/export".to_owned(),
        directories: 10,
        files: 1_000,
        bytes: Sizes::constant(size.unwrap_or(FILE_BYTES), Unit::Bytes),
        seed: 1,
        nodes_max: 1 << 20,
        written_bytes_max: arguments.memory / 2,
    };
    let store = Store::new(&settings).map_err(|error| ConfigError::new(error.to_string()))?;
    Ok(Arc::new(Mutex::new(store)))
}

fn report(
    arguments: &ServeArguments,
    served: &Served,
    one_way: Option<OneWay>,
) -> anyhow::Result<Exit> {
    let counts = served.counts;
    if arguments.json {
        print_json(&Counts {
            service: arguments.what.name(),
            counts,
            cpu_s: served.cpu_ns as f64 / 1e9,
            one_way,
        })?;
    } else if !arguments.quiet {
        say(&format!(
            "{} connections, {} of them failed; {} requests; {} in, {} out; {} of processor \
             time",
            grouped(counts.opened),
            grouped(counts.failed),
            grouped(counts.requests),
            bytes(counts.received_bytes),
            bytes(counts.answer_bytes),
            time(served.cpu_ns.max(0).cast_unsigned())
        ));
        if let Some(one_way) = one_way {
            say(&one_way.line());
        }
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_port_has_the_services() {
        let at = |text: &str, what| address(text, what).expect("an address").to_string();
        assert_eq!(at("127.0.0.1", Service::Http), "127.0.0.1:8080");
        assert_eq!(at("127.0.0.1:0", Service::Http), "127.0.0.1:0");
        assert_eq!(at("::1", Service::Echo), "[::1]:7");
        assert_eq!(at("[::1]:9", Service::Echo), "[::1]:9");
        let error = address("localhost", Service::Http)
            .expect_err("a name")
            .to_string();
        assert!(error.contains("write 127.0.0.1:8080"), "{error}");
    }
}
