//! What a forwarder has counted so far.

use std::fmt::Write;

use lineside_trace::State;
use lineside_trace::certificate::Judged;
use lineside_trace::certificate::forward::{
    Forward, ForwardPayloads, ForwardService, ForwardSplices,
};
use lineside_words::{grouped, percent};

use crate::verdict_word;

/// The counts of a run, in lines.
pub fn forwarder_lines(certificate: &Judged<Forward>) -> String {
    let mut out = String::new();
    for port in &certificate.interfaces {
        let _ = writeln!(
            out,
            "{:<15}{} frames came, {} left, by {}",
            port.name,
            grouped(port.came),
            grouped(port.left),
            port.method
        );
    }
    if let Some(driver) = &certificate.driver {
        let _ = writeln!(
            out,
            "driver         {} frames of {} flows, {} flows now, {} could not be entered",
            grouped(driver.frames),
            grouped(driver.entered),
            grouped(driver.flows as u64),
            grouped(driver.refused)
        );
    }
    if let Some(payloads) = &certificate.payloads {
        payload_lines(payloads, &mut out);
    }
    for service in &certificate.services {
        service_lines(service, &mut out);
    }
    let table = &certificate.table;
    let _ = writeln!(
        out,
        "connections    {} of {}, {} half open, {} made room",
        grouped(table.connections),
        grouped(table.connections_max),
        grouped(table.half_open),
        grouped(table.evicted)
    );
    if let Some(splices) = &certificate.splices {
        splice_lines(splices, &mut out);
    }
    for (outcome, frames) in certificate.outcomes.iter() {
        let _ = writeln!(out, "  {outcome:<28}{:>14}", grouped(frames));
    }
    let verdict = &certificate.verdict;
    if verdict.state != State::Unfinished {
        let _ = writeln!(out, "verdict        {}", verdict_word(verdict));
        for reason in &verdict.reasons {
            let _ = writeln!(out, "               {reason}");
        }
    }
    out
}

fn payload_lines(payloads: &ForwardPayloads, out: &mut String) {
    let _ = writeln!(
        out,
        "payloads       {}, {} entries of {} bytes: {} hits, {} misses, {} dropped, {} spilled",
        payloads.mode,
        grouped(payloads.entries),
        grouped(payloads.entry_bytes),
        grouped(payloads.hits),
        grouped(payloads.misses),
        grouped(payloads.dropped),
        grouped(payloads.spilled + payloads.spilled_dry)
    );
    let _ = writeln!(
        out,
        "bus            {} bytes to the host, {} back; at most {} frames waited",
        grouped(payloads.to_host_bytes),
        grouped(payloads.to_adapter_bytes),
        grouped(payloads.queue_max)
    );
}

fn service_lines(service: &ForwardService, out: &mut String) {
    let _ = writeln!(
        out,
        "service        {} {}: {} connections began, {} now",
        service.transport,
        service.address,
        grouped(service.opened),
        grouped(service.connections)
    );
    let opened = service.nodes.iter().map(|node| node.opened).sum();
    let weights = service.nodes.iter().map(|node| node.weight).sum();
    let share = |part: u64, whole: u64| percent(part as f64 / whole.max(1) as f64);
    for node in &service.nodes {
        let _ = writeln!(
            out,
            "  {:<24} {:<9}{:>9} began ({}, weight {}), {} now, {} checks good, {} bad",
            node.address,
            node.state,
            grouped(node.opened),
            share(node.opened, opened),
            share(node.weight, weights),
            grouped(node.connections),
            grouped(node.checks_good),
            grouped(node.checks_bad)
        );
    }
}

/// Connections whose handshake was answered here.
fn splice_lines(splices: &ForwardSplices, out: &mut String) {
    let _ = writeln!(
        out,
        "answered here  {} handshakes: {} spliced, {} wait",
        grouped(splices.opened),
        grouped(splices.spliced),
        grouped(splices.waiting)
    );
    for (reason, connections) in splices.failed.iter().filter(|(_, count)| **count != 0) {
        let _ = writeln!(out, "  {reason:<28}{:>14}", grouped(*connections));
    }
}
