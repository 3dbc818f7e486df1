//! `lineside probe`: which way to measure, and what becomes of the findings.

use anyhow::bail;
use lineside_measure::Spread;
use lineside_probe::{Findings, ProbeError, Sample, Settings, Share};

use super::ends::{Outcome, probe, serve};
use super::files::Files;
use super::flags::Arguments;
use super::print::lines;
use crate::exit::Exit;
use crate::print::{json_text, print, warn};
use crate::trips::{By, Pace, resolve, round_trips_of_ping, round_trips_of_tcp};

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
        Ok(address) => std::net::SocketAddr::new(address, port),
        Err(_) => resolve(&format!("{host}:{port}"), host, ADVICE)?,
    };
    let files = { arguments.output.as_deref() }
        .map(|folder| Files::create(folder, arguments.force))
        .transpose()?;
    let budget_bytes = arguments.budget.map_or(BUDGET_BYTES, |bytes| bytes as u64);
    let by = match (arguments.icmp, arguments.tcp) {
        (true, _) => By::Icmp,
        (_, Some(port)) => By::Tcp(port),
        _ => By::Udp(port),
    };
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
            match probe(to, settings)? {
                Outcome::Found(found) => (*found, by),
                Outcome::Signal(signal) => return Ok(Exit::Signal(signal)),
                Outcome::Failed(why @ (ProbeError::Silent | ProbeError::Closed))
                    if !arguments.udp =>
                {
                    warn(&format!(
                        "{host}, UDP port {port}: {why}; round trips by ICMP follow"
                    ));
                    (
                        round_trips(arguments, to, By::Icmp, budget_bytes)?,
                        By::Icmp,
                    )
                }
                Outcome::Failed(why) => bail!("{host}, UDP port {port}: {why}"),
            }
        }
        _ => (round_trips(arguments, to, by, budget_bytes)?, by),
    };
    for remark in &found.remarks {
        warn(remark);
    }
    let step = arguments.step.unwrap_or(arguments.interval);
    let written = files
        .as_ref()
        .map(|files| files.write(&found, by, step))
        .transpose()?;
    let json = json_text(&found)?;
    let text = lines(host, by, &found, written.as_deref());
    if let Some(files) = &files {
        files.write_report(&text, &json)?;
    }
    print(if arguments.json { &json } else { &text })?;
    Ok(Exit::Done)
}

/// Round trips without a server.
fn round_trips(
    arguments: &Arguments,
    to: std::net::SocketAddr,
    by: By,
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
        _ => round_trips_of_ping(to, pace)?,
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
