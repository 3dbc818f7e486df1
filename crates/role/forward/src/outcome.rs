//! What a forwarder came to, as its certificate has it: from the counters of the engine and the
//! driver to the types that `trace` writes.

use std::collections::BTreeMap;

use lineside_balancer::{
    Finding, NodeReport, NodeState, Outcomes, PortReport, ServiceReport, TableReport, Traffic,
    proxy::Report as SpliceReport,
};
use lineside_port::{Port, PortError};
use lineside_reactor::Reactor;
use lineside_run::{Evidence, TapEvidence};
use lineside_time::Nanoseconds;
use lineside_trace::certificate::Judged;
use lineside_trace::certificate::forward::{
    Counts, Forward, ForwardChange, ForwardFinding, ForwardInterface, ForwardNode, ForwardPort,
    ForwardService, ForwardSplices, ForwardTable, ForwardTraffic,
};
use lineside_trace::{InputFacts, Verdict};

use crate::Forwarder;
use crate::driver::Driver;
use crate::payloads::Payloads;

/// The outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What is written of it.
    pub certificate: Certificate,
    /// The ports, in their order.
    pub inputs: Vec<InputFacts>,
    /// The signal that ended the run.
    pub signal: Option<u8>,
    /// The failure that ended the run.
    pub failure: Option<PortError>,
}

/// What a forwarder did, and whether it can be believed.
pub type Certificate = Judged<Forward>;

/// What is known at `now` of a run that began at `began`.
pub(crate) fn certificate(
    live: &Reactor<Forwarder>,
    began: Nanoseconds,
    now: Nanoseconds,
) -> Certificate {
    let forwarder = live.engine();
    let mut polling = live.facts();
    polling.tap = forwarder.tapped().map(lineside_reactor::TapCounts::facts);
    let interfaces = (0..live.sides()).map(|side| {
        let passed = forwarder.passed()[side];
        ForwardInterface {
            name: forwarder.names()[side].clone(),
            method: live
                .method(side)
                .map_or_else(String::new, |method| method.to_string()),
            came: passed.came,
            came_bytes: passed.came_bytes,
            left: passed.left,
            left_bytes: passed.left_bytes,
            unsent: passed.unsent,
        }
    });
    let nat = forwarder.nat().report(now);
    let found = Forward {
        began_ns: began,
        ran_ns: now - began,
        interfaces: interfaces.collect(),
        residence: forwarder.residence().spread(),
        arrived: nat.arrived,
        outcomes: counts(&nat.outcomes),
        held: nat.held,
        made: nat.made,
        ports: nat.ports.into_iter().map(port).collect(),
        services: nat.services.iter().map(service).collect(),
        table: table(&nat.table),
        splices: nat.splices.map(splices),
        driver: forwarder.driver().map(Driver::report),
        course: forwarder.course().report(),
        payloads: forwarder.payloads().map(Payloads::report),
        polling,
    };
    Judged {
        found,
        verdict: Verdict::default(),
    }
}

/// Outcomes that happened.
fn counts(outcomes: &Outcomes) -> Counts {
    let all = lineside_balancer::Outcome::ALL.iter();
    all.map(|&outcome| (outcome.name(), outcomes.of(outcome)))
        .filter(|&(_, frames)| frames > 0)
        .collect()
}

fn traffic(of: Traffic) -> ForwardTraffic {
    ForwardTraffic {
        frames: of.frames,
        bytes: of.bytes,
    }
}

fn port(port: PortReport) -> ForwardPort {
    ForwardPort {
        name: port.name,
        received: traffic(port.received),
        sent: traffic(port.sent),
    }
}

fn service(service: &ServiceReport) -> ForwardService {
    ForwardService {
        transport: service.transport.name().to_owned(),
        address: service.address.to_string(),
        opened: service.opened,
        connections: service.connections.into(),
        refused: counts(&service.refused),
        nodes: service.nodes.iter().map(node).collect(),
        past_nodes: service.past_nodes.map(traffic),
    }
}

fn node(node: &NodeReport) -> ForwardNode {
    let state = match node.state {
        NodeState::Up => "up",
        NodeState::Down => "down",
        NodeState::Draining => "draining",
    };
    let changes = node.history.iter().map(|change| ForwardChange {
        at_ns: change.at_ns,
        is_up: change.is_up,
        finding: finding(change.finding),
    });
    ForwardNode {
        address: node.address.to_string(),
        weight: node.weight.into(),
        state: state.to_owned(),
        opened: node.opened,
        connections: node.connections.into(),
        to_node: traffic(node.to_node),
        from_node: traffic(node.from_node),
        checks_good: node.checks_good,
        checks_bad: node.checks_bad,
        last_check: node.last_check.map(finding),
        history: changes.collect(),
    }
}

fn finding(finding: Finding) -> ForwardFinding {
    serde_json::to_value(finding).unwrap_or_default()
}

fn table(table: &TableReport) -> ForwardTable {
    ForwardTable {
        connections: table.connections as u64,
        half_open: table.half_open as u64,
        connections_max: table.connections_max as u64,
        bytes: table.bytes as u64,
        evicted: table.evicted,
        cookies: table.cookies,
        affinities: table.affinities as u64,
    }
}

fn splices(splices: SpliceReport) -> ForwardSplices {
    let named = |counts: BTreeMap<&'static str, u64>| {
        let counts = counts.into_iter();
        counts
            .map(|(name, count)| (name.to_owned(), count))
            .collect()
    };
    ForwardSplices {
        opened: splices.opened,
        waiting: splices.waiting,
        spliced: splices.spliced,
        failed: named(splices.failed),
        counters: named(splices.counters),
    }
}

/// Judges by what is known of the ports, the tap and the loop, and by what failed.
pub(crate) fn judge(
    certificate: &mut Certificate,
    live: &Reactor<Forwarder>,
    failed: impl Iterator<Item = String>,
) {
    let nat = &certificate.found;
    let met: u64 = nat.outcomes.iter().map(|(_, frames)| frames).sum();
    let came = nat.arrived == met + nat.held;
    let broken = (!came).then(|| {
        format!(
            "the counts contradict one another: {} frames came, {} have an outcome, {} wait",
            nat.arrived, met, nat.held
        )
    });
    let lost = nat
        .payloads
        .as_ref()
        .filter(|payloads| payloads.came != payloads.left + payloads.dropped + payloads.waiting);
    let lost = lost.map(|payloads| {
        format!(
            "the counts contradict one another: {} payloads came, {} left, {} were dropped, {} \
             wait",
            payloads.came, payloads.left, payloads.dropped, payloads.waiting
        )
    });
    let spliced = nat.splices.as_ref().filter(|splices| {
        let failed: u64 = splices.failed.values().sum();
        splices.opened != splices.waiting + splices.spliced + failed
    });
    let unspliced = spliced.map(|splices| {
        let (opened, waiting, spliced) = (splices.opened, splices.waiting, splices.spliced);
        format!(
            "the counts contradict one another: of {opened} handshakes that were answered here, \
             {waiting} wait, {spliced} were spliced, and {:?} failed",
            splices.failed
        )
    });
    let tap = nat.polling.tap.map(|tap| TapEvidence {
        captured: tap.tapped,
        dropped_queue: tap.dropped_queue,
        dropped_memory: tap.dropped_memory,
    });
    certificate.verdict = lineside_run::judge(&Evidence {
        inputs: live.ports().flat_map(Port::facts).collect(),
        tap,
        failures: failed.chain(broken).chain(lost).chain(unspliced).collect(),
        ..Evidence::default()
    });
}
