//! `lineside probe`: which way to measure, and where the findings go.

use std::net::SocketAddr;

use anyhow::{Context, bail};
use lineside_host::{Datagrams, Ping, ProbeError as PingError, Sandbox};
use lineside_measure::Spread;
use lineside_probe::{By, Findings, ProbeError, Sample, Settings, Share};

use super::ends::{Outcome, connect, probe, serve};
use super::files::Files;
use super::flags::Arguments;
use crate::exit::Exit;
use crate::print::{json_text, print, warn};
use crate::public::Sending;
use crate::trips::{Pace, resolve, round_trips_of_ping, round_trips_of_tcp};

/// Bytes of packets by default.
const BUDGET_BYTES: u64 = 10_000_000;
/// An ICMP echo as ping(8) has it, and a SYN with its answer: with their headers.
const TRIP_BYTES: u64 = 200;
const ADVICE: &str = "probe takes a name or an address";

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let Some(host) = &arguments.host else {
        return serve(arguments);
    };
    let port = arguments.tcp.unwrap_or(arguments.port);
    let to = match host.parse() {
        Ok(address) => SocketAddr::new(address, port),
        Err(_) => resolve(&format!("{host}:{port}"), host, ADVICE)?,
    };
    Sending {
        to: to.ip(),
        per_second: 1.0 / arguments.interval.as_secs_f64(),
        fewer: "leave more time between echoes with -i",
    }
    .must_be_meant(Some(arguments.public))?;
    let files = { arguments.output.as_deref() }
        .map(|folder| Files::create(folder, arguments.force))
        .transpose()?;
    let budget_bytes = arguments.budget.map_or(BUDGET_BYTES, |bytes| bytes as u64);
    let by = match (arguments.icmp, arguments.tcp) {
        (true, _) => By::Icmp,
        (_, Some(port)) => By::Tcp(port),
        _ => By::Udp(port),
    };
    let mut sockets = Sockets::open(arguments, by, to)?;
    sockets.confine(arguments, to)?;
    let (found, by) = match by {
        By::Udp(_) => {
            let settings = Settings {
                count: arguments.count,
                interval_ns: arguments.interval.as_nanos() as u64,
                patience_ns: arguments.timeout.as_nanos() as u64,
                budget_bytes,
                ip_header_bytes: if to.ip().to_canonical().is_ipv4() {
                    28
                } else {
                    48
                },
                seed: arguments.seed,
            };
            let socket = sockets.datagrams.take();
            let socket = socket.context("it was opened for UDP")?;
            match probe((socket, to), settings)? {
                Outcome::Found(found) => (*found, by),
                Outcome::Signal(signal) => return Ok(Exit::Signal(signal)),
                Outcome::Failed(why @ (ProbeError::Silent | ProbeError::Closed))
                    if !arguments.udp =>
                {
                    warn(&format!(
                        "{host}, UDP port {port}: {why}; round trips by ICMP follow"
                    ));
                    (
                        round_trips(arguments, (to, By::Icmp), sockets.ping, budget_bytes)?,
                        By::Icmp,
                    )
                }
                Outcome::Failed(why) => bail!("{host}, UDP port {port}: {why}"),
            }
        }
        _ => (
            round_trips(arguments, (to, by), sockets.ping, budget_bytes)?,
            by,
        ),
    };
    for remark in &found.remarks {
        warn(remark);
    }
    let step = arguments.step.unwrap_or(arguments.interval);
    let written = { files.as_ref() }.map(|files| files.write(&found, by, step));
    let written = written.transpose();
    let json = json_text(&found)?;
    let names = written.as_ref().ok().and_then(Option::as_deref);
    let text = lineside_render::probe_lines(host, by, &found, names);
    let reported = { files.as_ref() }.map(|files| files.write_report(&text, &json));
    // What was found is printed, whatever became of the files.
    print(if arguments.json { &json } else { &text })?;
    written?;
    reported.transpose()?;
    Ok(match arguments.strict && !found.remarks.is_empty() {
        true => Exit::Disturbed,
        false => Exit::Done,
    })
}

/// What a probe sends by, as far as it can be opened before.
struct Sockets {
    datagrams: Option<Datagrams>,
    /// Also for a probe that no server answers.
    ping: Option<Result<Ping, PingError>>,
}

impl Sockets {
    fn open(arguments: &Arguments, by: By, to: SocketAddr) -> anyhow::Result<Self> {
        let is_udp = matches!(by, By::Udp(_));
        let may_ping = by == By::Icmp || is_udp && !arguments.udp;
        Ok(Self {
            datagrams: is_udp.then(|| connect(to)).transpose()?,
            ping: may_ping.then(|| Ping::new(to.ip())),
        })
    }

    /// Answers are foreign bytes: what they reach is the folder alone, and TCP to the one port.
    fn confine(&self, arguments: &Arguments, to: SocketAddr) -> anyhow::Result<()> {
        let sandbox = match arguments.tcp {
            Some(_) => Sandbox::new().may_connect(to.port()),
            None => Sandbox::new(),
        };
        let folder = arguments.output.as_deref();
        arguments.confining.enter_writing_below(sandbox, folder)
    }
}

/// Round trips without a server.
fn round_trips(
    arguments: &Arguments,
    (to, by): (SocketAddr, By),
    ping: Option<Result<Ping, PingError>>,
    budget_bytes: u64,
) -> anyhow::Result<Findings> {
    let affordable = u32::try_from(budget_bytes / TRIP_BYTES).unwrap_or(u32::MAX);
    let pace = Pace {
        count: arguments.count.min(affordable.max(1)),
        interval: arguments.interval,
        timeout: arguments.timeout,
    };
    let samples = match by {
        By::Tcp(_) => round_trips_of_tcp(to, pace)?,
        _ => round_trips_of_ping(ping.context("it was opened for ICMP")??, pace)?,
    };
    let host = to.ip();
    if samples.iter().all(|sample| sample.took_ns.is_none()) {
        match by {
            By::Tcp(port) => bail!(
                "{host}: nothing answers at TCP port {port}, not even with a refusal: a firewall \
                may drop what comes; try another port, --icmp, or 'lineside probe --serve' there"
            ),
            _ => bail!(
                "{host}: no ICMP echo is answered: the host is not there, or a firewall drops \
                them; try --tcp PORT, or 'lineside probe --serve' there"
            ),
        }
    }
    let mut found = Findings::default();
    if pace.count < arguments.count {
        found.remarks.push(format!(
            "{} echoes of {} that were asked for: raise --budget",
            pace.count, arguments.count
        ));
    }
    let lost = samples.iter().filter(|sample| sample.took_ns.is_none());
    found.round_trips_lost = Some(Share::of(lost.count() as u64, samples.len() as u64));
    let times = samples.iter().filter_map(|sample: &Sample| sample.took_ns);
    found.round_trips = Some(Spread::of(times.map(|took_ns| (took_ns, 1)).collect()));
    found.budget_bytes = budget_bytes;
    found.sent_bytes = samples.len() as u64 * TRIP_BYTES / 2;
    found.received_bytes = found.sent_bytes;
    found.trips = samples;
    Ok(found)
}
