//! `--serve-on`: the other end of a load, by our own TCP at another interface, with a device
//! between the two.

use std::net::SocketAddr;

use lineside_host::RunClock;
use lineside_load::pair::while_serving;
use lineside_load::protocol::{EchoServer, HttpServer, MemcachedServer, SinkServer, SourceServer};
use lineside_load::run::Transport;
use lineside_load::serve::{ServeSettings, Served};
use lineside_load::stack_transport::{Opened, StackSettings};
use lineside_memcached::Limits;
use lineside_tcp::Prefix;
use lineside_words::{bytes, grouped};

use super::flags::Section;
use super::serve::{ENDLESS, responder};
use super::settings::{Prepared, Requests};
use crate::config::ConfigError;
use crate::print::say;

/// Bytes of a body.
const BODY_BYTES: u64 = 64;
/// Bytes of a source's connection, for a load that takes all of them.
const SOURCE_BYTES: u64 = 1 << 20;
/// Connections, if a device multiplies them.
const CONNECTIONS_MAX: u32 = 1 << 20;

/// Where the other end is served; `None`: elsewhere.
pub(super) fn settings(
    keys: &Section,
    prepared: &Prepared,
) -> Result<Option<ServeSettings>, ConfigError> {
    let Some(interface) = &keys.serve_on else {
        return Ok(None);
    };
    let Transport::Stack(stack) = &prepared.settings.transport else {
        return Err(ConfigError::usage(
            "--serve-on is the other end of -i: name the interface of this end with it",
        ));
    };
    let is_served = matches!(
        prepared.requests,
        Requests::Http(_)
            | Requests::Echo { .. }
            | Requests::Sink(_)
            | Requests::Source(_)
            | Requests::Memcached(_)
    );
    if !is_served {
        return Err(ConfigError::usage(
            "--serve-on serves http, echo, sink, source and memcached: serve others with 'lineside \
             load serve'",
        ));
    }
    let at = SocketAddr::from(prepared.settings.targets[0]);
    Ok(Some(ServeSettings {
        at,
        stack: Some(Box::new(StackSettings {
            interface: interface.clone(),
            addresses: vec![Prefix::single(at.ip())],
            connections_max: CONNECTIONS_MAX,
            neighbours: None,
            taps: None,
            opened: Opened::default(),
            ..(**stack).clone()
        })),
        workers: prepared.settings.workers,
        wait: prepared.settings.wait,
        budget: prepared.settings.budget.clone(),
        secret: prepared.settings.secret.map(|secret| !secret),
    }))
}

/// Runs a load beside its other end, and reports what that counted.
pub(super) fn beside<T>(
    serving: &ServeSettings,
    requests: &Requests,
    clock: RunClock,
    is_quiet: bool,
    run: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let run = |_: SocketAddr| run();
    let (outcome, served) = match requests {
        Requests::Echo { .. } => while_serving(serving, &|| EchoServer, clock, run)?,
        Requests::Sink(_) => while_serving(serving, &|| SinkServer, clock, run)?,
        Requests::Source(sizes) => {
            let bytes = sizes.as_ref().map_or(SOURCE_BYTES, |_| ENDLESS);
            while_serving(serving, &|| SourceServer { bytes }, clock, run)?
        }
        Requests::Memcached(_) => {
            let made = || MemcachedServer::new(Limits::default());
            while_serving(serving, &made, clock, run)?
        }
        _ => {
            let made = || HttpServer::new(responder(BODY_BYTES));
            while_serving(serving, &made, clock, run)?
        }
    };
    if !is_quiet {
        say(&line(&served));
    }
    outcome
}

fn line(served: &Served) -> String {
    let counts = &served.counts;
    let again = served.transports.iter().map(|facts| facts.retransmitted);
    format!(
        "the other end took {} connections and {} requests, {} in and {} out, and sent {} frames \
         again",
        grouped(counts.opened),
        grouped(counts.requests),
        bytes(counts.received_bytes),
        bytes(counts.answer_bytes),
        grouped(again.sum())
    )
}
