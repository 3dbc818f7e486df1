//! What a forwarder prints: what it would do, and what it did.

use std::fmt::Write;

use lineside_balancer::{Service, Settings};
use lineside_words::{exact_time, grouped, percent};
use serde_json::Value;

/// What settings ask for, in lines.
pub(crate) fn check_lines(settings: &Settings) -> String {
    let mut out = String::new();
    for port in &settings.ports {
        let [a, b, c, d, e, f] = port.ethernet;
        let _ = writeln!(
            out,
            "port       {} {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}, MTU {}",
            port.name, port.mtu
        );
    }
    for address in &settings.nat {
        let _ = writeln!(out, "nat        {address}");
    }
    for route in &settings.routes {
        let (network, len) = route.network;
        let via = route
            .via
            .map_or_else(String::new, |via| format!(" via {via}"));
        let port = &settings.ports[route.port].name;
        let _ = writeln!(out, "route      {network}/{len}{via} dev {port}");
    }
    for service in &settings.services {
        service_lines(service, &mut out);
    }
    out + "nothing was opened: leave --check out to forward\n"
}

fn service_lines(service: &Service, out: &mut String) {
    let transport = service.transport.name();
    let _ = writeln!(out, "service    {transport} {}", service.address);
    for node in &service.nodes {
        let _ = writeln!(out, "  node     {} weight {}", node.address, node.weight);
    }
    if let Some(health) = &service.health {
        let what = match &health.http {
            None => "a handshake".to_owned(),
            Some(http) => format!("GET {}", http.path),
        };
        let time = |ns: i64| exact_time(ns as f64);
        let _ = writeln!(
            out,
            "  check    {what} every {}, within {}",
            time(health.interval),
            time(health.timeout)
        );
    }
}

/// The counts of a run, in lines.
pub(crate) fn lines(certificate: &Value) -> String {
    let mut out = String::new();
    for port in list(&certificate["interfaces"]) {
        let _ = writeln!(
            out,
            "{:<15}{} frames came, {} left, by {}",
            text(&port["name"]),
            count(&port["came"]),
            count(&port["left"]),
            text(&port["method"])
        );
    }
    let driver = &certificate["driver"];
    if driver.is_object() {
        let _ = writeln!(
            out,
            "driver         {} frames of {} flows, {} flows now, {} could not be entered",
            count(&driver["frames"]),
            count(&driver["entered"]),
            count(&driver["flows"]),
            count(&driver["refused"])
        );
    }
    payload_lines(&certificate["payloads"], &mut out);
    for service in list(&certificate["services"]) {
        service_counts(&service, &mut out);
    }
    let table = &certificate["table"];
    let _ = writeln!(
        out,
        "connections    {} of {}, {} half open, {} made room",
        count(&table["connections"]),
        count(&table["connections_max"]),
        count(&table["half_open"]),
        count(&table["evicted"])
    );
    let splices = &certificate["splices"];
    if splices.is_object() {
        splice_counts(splices, &mut out);
    }
    let outcomes = certificate["outcomes"].as_object();
    for (outcome, frames) in outcomes.into_iter().flatten() {
        let _ = writeln!(out, "  {outcome:<28}{:>14}", count(frames));
    }
    let verdict = &certificate["verdict"];
    let state = text(&verdict["state"]);
    if state != "unfinished" {
        let _ = writeln!(out, "verdict        {state}");
        for reason in list(&verdict["reasons"]) {
            let _ = writeln!(out, "               {}", text(&reason));
        }
    }
    out
}

fn payload_lines(payloads: &Value, out: &mut String) {
    if !payloads.is_object() {
        return;
    }
    let _ = writeln!(
        out,
        "payloads       {}, {} entries of {} bytes: {} hits, {} misses, {} dropped, {} spilled",
        text(&payloads["mode"]),
        count(&payloads["entries"]),
        count(&payloads["entry_bytes"]),
        count(&payloads["hits"]),
        count(&payloads["misses"]),
        count(&payloads["dropped"]),
        grouped(
            [&payloads["spilled"], &payloads["spilled_dry"]]
                .iter()
                .filter_map(|value| value.as_u64())
                .sum()
        )
    );
    let _ = writeln!(
        out,
        "bus            {} bytes to the host, {} back; at most {} frames waited",
        count(&payloads["to_host_bytes"]),
        count(&payloads["to_adapter_bytes"]),
        count(&payloads["queue_max"])
    );
}

fn service_counts(service: &Value, out: &mut String) {
    let _ = writeln!(
        out,
        "service        {} {}: {} connections began, {} now",
        text(&service["transport"]),
        text(&service["address"]),
        count(&service["opened"]),
        count(&service["connections"])
    );
    let nodes = list(&service["nodes"]);
    let opened: u64 = nodes
        .iter()
        .filter_map(|node| node["opened"].as_u64())
        .sum();
    let weights: u64 = nodes
        .iter()
        .filter_map(|node| node["weight"].as_u64())
        .sum();
    let share = |part: &Value, whole: u64| {
        let part = part.as_u64().unwrap_or_default() as f64;
        percent(part / whole.max(1) as f64)
    };
    for node in &nodes {
        let _ = writeln!(
            out,
            "  {:<24} {:<9}{:>9} began ({}, weight {}), {} now, {} checks good, {} bad",
            text(&node["address"]),
            text(&node["state"]),
            count(&node["opened"]),
            share(&node["opened"], opened),
            share(&node["weight"], weights),
            count(&node["connections"]),
            count(&node["checks_good"]),
            count(&node["checks_bad"])
        );
    }
}

/// Connections whose handshake was answered here.
fn splice_counts(splices: &Value, out: &mut String) {
    let _ = writeln!(
        out,
        "answered here  {} handshakes: {} spliced, {} wait",
        count(&splices["opened"]),
        count(&splices["spliced"]),
        count(&splices["waiting"])
    );
    let failed = splices["failed"].as_object().into_iter().flatten();
    for (reason, connections) in failed.filter(|(_, count)| count.as_u64() != Some(0)) {
        let _ = writeln!(out, "  {reason:<28}{:>14}", count(connections));
    }
}

fn count(value: &Value) -> String {
    grouped(value.as_u64().unwrap_or_default())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}
