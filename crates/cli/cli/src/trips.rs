//! Round trips by ICMP and TCP, one at a time, for `probe` and `table`.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use anyhow::Context;
use lineside_host::{Ping, Signals, Stopwatch, connect_round_trip};
use lineside_probe::Sample;

use crate::config::ConfigError;

/// Number and timing of round trips.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) count: u32,
    /// From one to the next, which waits until the previous one is answered or has timed out.
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
}

/// Round trips by ICMP echoes.
pub(crate) fn round_trips_of_ping(mut ping: Ping, pace: Pace) -> anyhow::Result<Vec<Sample>> {
    round_trips(pace, || Ok(ping.round_trip(pace.timeout)?))
}

/// Round trips to a TCP port.
pub(crate) fn round_trips_of_tcp(to: SocketAddr, pace: Pace) -> anyhow::Result<Vec<Sample>> {
    round_trips(pace, || Ok(connect_round_trip(to, pace.timeout)?))
}

fn round_trips(
    pace: Pace,
    mut probe: impl FnMut() -> anyhow::Result<Option<Duration>>,
) -> anyhow::Result<Vec<Sample>> {
    let signals = Signals::register().context("cannot handle signals")?;
    let (watch, mut samples) = (Stopwatch::start(), Vec::new());
    for _ in 0..pace.count {
        let began = watch.elapsed();
        let took = probe()?;
        samples.push(Sample {
            at_ns: began.as_nanos() as i64,
            took_ns: took.map(|took| took.as_nanos() as i64),
            len: 0,
        });
        if signals.stop().is_some() {
            break;
        }
        watch.wait_until(began + pace.interval);
    }
    Ok(samples)
}

/// The address of HOST:PORT; `advice` says what to write.
pub(crate) fn resolve(text: &str, host: &str, advice: &str) -> anyhow::Result<SocketAddr> {
    let found = text.to_socket_addrs().map(|mut all| all.next());
    match found {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err(ConfigError::usage(&format!("{host}: it has no address")).into()),
        Err(error) => Err(ConfigError::usage(&format!("{host}: {error}; {advice}")).into()),
    }
}

pub(crate) fn duration(text: &str) -> Result<Duration, lineside_words::DurationError> {
    lineside_words::parse_duration(text).map(Duration::from_nanos)
}
