//! The certificate of a load for the terminal.

use std::collections::BTreeMap;
use std::fmt::Write;

use lineside_account::{bytes, grouped, harmless, time};
use lineside_load::certificate::{
    Asked, Certificate, DepartureFigures, Generator, Quantiles, Rates,
};

use crate::print::{fine_time, verdict_lines};

/// The certificate.
pub(super) fn lines(certificate: &Certificate) -> String {
    let mut out = String::new();
    head_lines(certificate, &mut out);
    rate_lines(certificate, &mut out);
    count_lines(certificate, &mut out);
    let is_open = certificate.asked.is_open_loop();
    let from = if is_open { "since planned" } else { "" };
    time_line("latency", certificate.latency, from, &mut out);
    if is_open {
        time_line(
            "  service",
            certificate.service,
            "since departure",
            &mut out,
        );
    }
    time_line(
        "  first byte",
        certificate.first_byte,
        "since departure",
        &mut out,
    );
    for (name, times) in &certificate.operations {
        let count = format!("of {}", grouped(times.count));
        time_line(&format!("  {name}"), Some(*times), &count, &mut out);
    }
    time_line("connecting", certificate.opening, "", &mut out);
    if is_open {
        late_lines(&certificate.departures, &mut out);
    }
    generator_lines(&certificate.generator, &mut out);
    verdict_lines(&certificate.verdict, &mut out);
    out
}

fn head_lines(certificate: &Certificate, out: &mut String) {
    let asked = &certificate.asked;
    let _ = writeln!(
        out,
        "load         {} at {} by {}",
        harmless(&asked.url),
        asked.servers.first().map_or("", String::as_str),
        certificate.generator.transport
    );
    let _ = writeln!(out, "             {}", model(asked));
}

/// `open loop: poisson 10000 a second, 50 connections, 1 worker, timer io, seed 1`
fn model(asked: &Asked) -> String {
    let ends = format!(
        "{} connections, {}",
        grouped(asked.connections.into()),
        match asked.workers {
            1 => "1 worker".to_owned(),
            workers => format!("{workers} workers"),
        }
    );
    let Some(arrivals) = &asked.arrivals else {
        return format!("closed loop: {ends}");
    };
    let rate = { asked.rate.as_ref() }.map_or(String::new(), |rate| format!(" at {rate} a second"));
    let of = if asked.is_of_connections() {
        " of connections"
    } else {
        ""
    };
    format!(
        "open loop: {arrivals}{rate}{of}, {ends}, timer {}, seed {}",
        asked.timer, asked.seed
    )
}

fn rate_lines(certificate: &Certificate, out: &mut String) {
    let Rates {
        offered,
        achieved,
        missed_share,
        answered,
        received_bytes,
        request_bytes,
    } = certificate.rates;
    if let (Some(offered), Some(achieved)) = (offered, achieved) {
        let _ = writeln!(
            out,
            "offered      {} a second; achieved {}, {:.3} % missed",
            rate(offered),
            rate(achieved),
            missed_share.unwrap_or_default() * 100.0
        );
    }
    let _ = writeln!(
        out,
        "answered     {} a second, {} in {:.3} s",
        rate(answered),
        grouped(certificate.requests.answered),
        certificate.duration_s
    );
    let _ = writeln!(
        out,
        "             {}/s in, {}/s out",
        bytes(received_bytes as u64),
        bytes(request_bytes as u64)
    );
}

/// A rate with as many digits as matter.
fn rate(per_second: f64) -> String {
    match per_second {
        1e3.. => grouped(per_second.round() as u64),
        _ => format!("{per_second:.2}"),
    }
}

fn count_lines(certificate: &Certificate, out: &mut String) {
    let requests = &certificate.requests;
    let statuses = requests.statuses.iter();
    let statuses: Vec<_> = statuses
        .map(|(status, &count)| format!("{} of {status}", grouped(count)))
        .collect();
    if !["echo", "udp", "sink", "source"].contains(&&*certificate.asked.protocol)
        && !statuses.is_empty()
    {
        let _ = writeln!(out, "statuses     {}", statuses.join(", "));
    }
    for (lead, counts, what) in [
        ("failed", &requests.failed, "requests"),
        ("not sent", &requests.unsent, "requests"),
        (
            "not opened",
            &certificate.connections.refused,
            "connections",
        ),
    ] {
        if !counts.is_empty() {
            let _ = writeln!(out, "{lead:<12} {} {what}: {}", sum(counts), causes(counts));
        }
    }
    for (lead, count, what) in [
        (
            "one way",
            requests.one_way,
            "datagrams left; what came of them the other end says",
        ),
        ("again", requests.duplicates, "answers came once more"),
        (
            "too late",
            requests.late_answers,
            "answers came after their requests had failed",
        ),
        (
            "strays",
            requests.strays,
            "datagrams came that answer nothing",
        ),
        (
            "waited",
            requests.waited,
            "requests found no connection at their instant",
        ),
        (
            "overdue",
            requests.overdue,
            "requests were looked at more than 1 ms after their instant",
        ),
        (
            "moved",
            requests.moved,
            "times the schedule was moved after a stall",
        ),
    ] {
        if count > 0 {
            let _ = writeln!(out, "{lead:<12} {} {what}", grouped(count));
        }
    }
}

fn sum(counts: &BTreeMap<&'static str, u64>) -> String {
    grouped(counts.values().sum())
}

fn causes(counts: &BTreeMap<&'static str, u64>) -> String {
    let all = counts.iter();
    let all: Vec<_> = all
        .map(|(cause, &count)| format!("{} {}", grouped(count), cause_words(cause)))
        .collect();
    all.join(", ")
}

/// Causes in words.
fn cause_words(cause: &str) -> &str {
    match cause {
        "reset" => "reset or refused by the server",
        "closed" => "closed by the server",
        "timeout" => "without an answer in time",
        "unreachable" => "unreachable",
        "protocol" => "answered by what is no answer",
        "local" => "without a port, descriptor or memory here",
        "no_connection" => "while too many waited for a connection",
        "run_over" => "waited for a connection at the end",
        "refused" => "whose connection did not open",
        other => other,
    }
}

fn time_line(lead: &str, times: Option<Quantiles>, from: &str, out: &mut String) {
    let Some(times) = times else {
        return;
    };
    let _ = write!(
        out,
        "{lead:<12} 50 % {}, 90 % {}, 99 % {}, 99.9 % {}, most {}",
        time(times.p50_ns),
        time(times.p90_ns),
        time(times.p99_ns),
        time(times.p999_ns),
        time(times.max_ns)
    );
    let _ = match from {
        "" => writeln!(out),
        from => writeln!(out, " {from}"),
    };
}

fn late_lines(departures: &DepartureFigures, out: &mut String) {
    let Some(lateness) = departures.lateness else {
        return;
    };
    let _ = writeln!(
        out,
        "late         50 % {}, 99 % {}, most {}; {} over 10 us, {} over 100 us, {} over 1 ms",
        time(lateness.p50_ns),
        time(lateness.p99_ns),
        time(lateness.max_ns),
        grouped(departures.over_10us),
        grouped(departures.over_100us),
        grouped(departures.over_1000us)
    );
    let Some(fit) = departures.fit else {
        return;
    };
    let _ = write!(
        out,
        "             gaps of the first {} differ from the model's by {} (50 %), {} (99 %); misfit \
        {}",
        grouped(fit.departures),
        time(fit.gap_error_p50_ns),
        time(fit.gap_error_p99_ns),
        fine_time(fit.misfit_ns)
    );
    let _ = match (fit.distance, fit.p_value) {
        (Some(distance), Some(p_value)) => writeln!(
            out,
            "\n             {distance:.4} from the model by Kolmogorov and Smirnov, p-value \
            {p_value:.3}"
        ),
        _ => writeln!(out),
    };
}

fn generator_lines(generator: &Generator, out: &mut String) {
    let per_million = generator.cpu_s_per_million;
    let per_million = per_million.map_or(String::new(), |each| {
        format!("; {each:.3} s for a million answers")
    });
    let _ = writeln!(
        out,
        "processor    {:.3} s, the busiest worker {:.1} % of the time{per_million}",
        generator.cpu_s,
        generator.busiest_share * 100.0
    );
    for (count, what) in [
        (generator.stalls, "turns of the loop took more than 1 ms"),
        (
            generator.held_back,
            "writes waited for a window or for room",
        ),
        (generator.retransmitted, "frames were sent again"),
        (generator.dropped, "frames were dropped at this end"),
    ] {
        if count > 0 {
            let _ = writeln!(out, "             {} {what}", grouped(count));
        }
    }
}
