//! `lineside load serve`: the other end of a load.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use lineside_account::Budget;
use lineside_host::{RunClock, Signals};
use lineside_load::confine::confine_server;
use lineside_load::protocol::{Protocol, ServiceWords, SinkFigures, listed, services};
use lineside_load::serve::{Serve, Served};
use lineside_load::settings::{ServeSettings, secret};
use lineside_trace::certificate::load::Quantiles;
use lineside_words::{bytes, grouped, percent, time};
use serde::Serialize;

use super::flags::ServeArguments;
use crate::config::{self, ConfigError};
use crate::confine;
use crate::exit::Exit;
use crate::inputs::wait;
use crate::print::{print_json, say};

/// Connections of our own TCP.
const CONNECTIONS_MAX: u32 = 1 << 23;
/// How often signals are looked after.
const LOOK: Duration = Duration::from_millis(50);

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
    if arguments.size.is_some() && what.service.size.is_none() {
        let all = services().into_iter();
        let with_size: Vec<_> = { all.filter(|of| of.service.size.is_some()) }
            .map(|of| of.name)
            .collect();
        return Err(ConfigError::new(format!(
            "--size is for {}, and this is {}: leave it out",
            listed(&with_size, "and"),
            what.name
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
    let server = (what.service.server)(ServiceWords {
        size: arguments.size.map(|size| size as u64),
        memory: arguments.memory,
        workers: arguments.workers,
    })?;
    let served = until_signal(arguments, &settings, &*server)?;
    report(arguments, &served)
}

/// `ADDRESS` or `ADDRESS:PORT`, of IPv6 in brackets or without a port.
fn address(text: &str, what: &Protocol) -> Result<SocketAddr, ConfigError> {
    if let Ok(at) = text.parse() {
        return Ok(at);
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let address: IpAddr = bare.parse().map_err(|_| {
        ConfigError::new(format!(
            "'{text}' is not an address to listen at: write 127.0.0.1:{}, 0.0.0.0 for all, or [::1]:{}",
            what.service.port,
            what.service.port
        ))
    })?;
    Ok(SocketAddr::new(address, what.service.port))
}

/// Serves; the calling thread looks after signals.
fn until_signal(
    arguments: &ServeArguments,
    settings: &ServeSettings,
    server: &dyn Serve,
) -> anyhow::Result<Served> {
    let signals = Signals::register().context("cannot handle signals")?;
    let stop = AtomicBool::new(false);
    let name = arguments.what.name;
    let ready = |at: SocketAddr| {
        if !arguments.quiet {
            say(&format!("serving {name} at {at}; Ctrl-C ends it"));
        }
    };
    let clock = RunClock::start();
    let at = || format!("{name} at {}", settings.at);
    let applied = |sandbox| arguments.confining.applied(sandbox);
    let confined = confine_server(settings, arguments.what.carrier, clock, applied);
    confined.with_context(at)?.iter().for_each(confine::note);
    thread::scope(|scope| {
        let (stop, ready) = (&stop, &ready);
        let serving = scope.spawn(move || server.serve(settings, clock, stop, ready));
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

fn report(arguments: &ServeArguments, served: &Served) -> anyhow::Result<Exit> {
    let counts = served.counts;
    let one_way = OneWay::of(&served.one_way);
    if arguments.json {
        print_json(&Counts {
            service: arguments.what.name,
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
    use lineside_load::protocol::protocol;

    use super::*;

    #[test]
    fn an_address_without_a_port_has_the_services() {
        let [http, echo] = ["http", "echo"].map(|name| protocol(name).expect("a protocol"));
        let at = |text: &str, what| address(text, what).expect("an address").to_string();
        assert_eq!(at("127.0.0.1", http), "127.0.0.1:8080");
        assert_eq!(at("127.0.0.1:0", http), "127.0.0.1:0");
        assert_eq!(at("::1", echo), "[::1]:7");
        assert_eq!(at("[::1]:9", echo), "[::1]:9");
        let error = address("localhost", http).expect_err("a name").to_string();
        assert!(error.contains("write 127.0.0.1:8080"), "{error}");
    }
}
