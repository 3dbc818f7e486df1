use lineside_balancer::Report;
use lineside_port::{Port, PortError};
use lineside_reactor::Reactor;
use lineside_run::{Evidence, TapEvidence, judge};
use lineside_time::Nanoseconds;
use lineside_trace::certificate::run::LoopFacts;
use lineside_trace::{InputFacts, Verdict};
use serde::Serialize;

use crate::course::Course;
use crate::driver::{Driver, DriverReport};
use crate::payloads::{PayloadReport, Payloads};
use crate::{Forwarder, Passed};

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
#[derive(Debug, Serialize)]
pub struct Certificate {
    /// Whether anything is missing.
    pub verdict: Verdict,
    /// When it began, by the clock of all instants here.
    pub began_ns: Nanoseconds,
    /// How long it ran.
    pub ran_ns: Nanoseconds,
    /// Frames at each port, and how it is read.
    pub interfaces: Vec<PortReport>,
    /// From the arrival of a frame to the call that handed it over.
    pub residence: Option<lineside_measure::Spread>,
    /// Services, nodes, connections, reasons.
    #[serde(flatten)]
    pub nat: Report,
    /// What the driver forwarded past the loop; `None` without.
    pub driver: Option<DriverReport>,
    /// What happened over time.
    pub course: Course,
    /// Where payloads lay; `None` without a payload mode.
    pub payloads: Option<PayloadReport>,
    /// What the loop measured of itself.
    #[serde(rename = "loop")]
    pub loop_facts: LoopFacts,
}

/// Frames at a port.
#[derive(Debug, Serialize)]
pub struct PortReport {
    /// The interface.
    pub name: String,
    /// How it is read.
    pub method: String,
    /// What passed.
    #[serde(flatten)]
    pub passed: Passed,
}

impl Certificate {
    /// What is known at `now` of a run that began at `began`.
    pub(crate) fn of(live: &Reactor<Forwarder>, began: Nanoseconds, now: Nanoseconds) -> Self {
        let forwarder = live.engine();
        let mut loop_facts = live.facts();
        loop_facts.tap = forwarder.tapped().map(lineside_reactor::TapCounts::facts);
        let names = (0..live.sides()).map(|side| PortReport {
            name: forwarder.names()[side].clone(),
            method: live
                .method(side)
                .map_or_else(String::new, |method| method.to_string()),
            passed: forwarder.passed()[side],
        });
        Self {
            verdict: Verdict::default(),
            began_ns: began,
            ran_ns: now - began,
            interfaces: names.collect(),
            residence: forwarder.residence().spread(),
            nat: forwarder.nat().report(now),
            driver: forwarder.driver().map(Driver::report),
            course: forwarder.course().clone(),
            payloads: forwarder.payloads().map(Payloads::report),
            loop_facts,
        }
    }

    /// Judges by what is known of the ports, the tap and the loop.
    pub(crate) fn judge(&mut self, live: &Reactor<Forwarder>) {
        let gone = live.gone().iter().map(|gone| gone.why.clone());
        let nat = &self.nat;
        let came = nat.arrived == nat.outcomes.sum() + nat.held;
        let broken = (!came).then(|| {
            format!(
                "the counts contradict one another: {} frames came, {} have an outcome, {} wait",
                nat.arrived,
                nat.outcomes.sum(),
                nat.held
            )
        });
        let lost = self.payloads.as_ref().filter(|payloads| {
            payloads.came != payloads.left + payloads.dropped + payloads.waiting as u64
        });
        let lost = lost.map(|payloads| {
            format!(
                "the counts contradict one another: {} payloads came, {} left, {} were dropped, {} \
                 wait",
                payloads.came, payloads.left, payloads.dropped, payloads.waiting
            )
        });
        let spliced = nat.splices.as_ref().filter(|splices| !splices.is_whole());
        let unspliced = spliced.map(|splices| {
            let (opened, waiting, spliced) = (splices.opened, splices.waiting, splices.spliced);
            format!(
                "the counts contradict one another: of {opened} handshakes that were answered here, \
                 {waiting} wait, {spliced} were spliced, and {:?} failed",
                splices.failed
            )
        });
        let tap = self.loop_facts.tap.map(|tap| TapEvidence {
            captured: tap.tapped,
            dropped_queue: tap.dropped_queue,
            dropped_memory: tap.dropped_memory,
        });
        self.verdict = judge(&Evidence {
            inputs: live.ports().flat_map(Port::facts).collect(),
            tap,
            failures: gone.chain(broken).chain(lost).chain(unspliced).collect(),
            ..Evidence::default()
        });
    }
}
