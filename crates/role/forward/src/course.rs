//! The course of a run: what happened in steps of equal length.

use std::net::SocketAddr;

use lineside_balancer::{Report, Transport};
use lineside_time::Nanoseconds;
use lineside_trace::certificate::forward::{ForwardCourse, ForwardNodeCourse};

/// More steps become half as many of twice the length: a day has steps of some minutes.
const STEPS_MAX: usize = 600;

/// Nodes with a course of their own, which takes some kilobytes each.
const NODES_MAX: usize = 64;

/// What happened in steps of equal length: each is a list with a value for each step. The last one
/// is not full.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Course {
    /// How long a step is.
    pub step_ns: Nanoseconds,
    /// Connections that began.
    pub opened: Vec<u64>,
    /// Connections in the table as the step ended.
    pub connections: Vec<u64>,
    /// Handshakes among them that were not finished.
    pub half_open: Vec<u64>,
    /// Frames that came to the program.
    pub frames: Vec<u64>,
    /// Frames among them that were for a node or a client, and were lost.
    pub lost: Vec<u64>,
    /// Frames that the driver forwarded past it.
    pub by_driver: Vec<u64>,
    /// The first nodes.
    pub nodes: Vec<CourseOfNode>,
    began_ns: Nanoseconds,
    /// The counts as the last step began.
    before: [u64; 4],
}

/// What happened at a node, in the same steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CourseOfNode {
    /// The protocol of its service.
    pub transport: Transport,
    /// The address of its service.
    pub service: SocketAddr,
    /// Its address.
    pub node: SocketAddr,
    /// Connections that began.
    pub opened: Vec<u64>,
    before: u64,
}

impl Course {
    /// One whose first step begins at `began`.
    pub(crate) fn new(began: Nanoseconds, step_ns: Nanoseconds) -> Self {
        Self {
            step_ns,
            began_ns: began,
            ..Self::default()
        }
    }

    /// What is written of it.
    pub(crate) fn report(&self) -> ForwardCourse {
        let nodes = self.nodes.iter().map(|of| ForwardNodeCourse {
            transport: of.transport.name().to_owned(),
            service: of.service.to_string(),
            node: of.node.to_string(),
            opened: of.opened.clone(),
        });
        ForwardCourse {
            step_ns: self.step_ns.max(0).unsigned_abs(),
            opened: self.opened.clone(),
            connections: self.connections.clone(),
            half_open: self.half_open.clone(),
            frames: self.frames.clone(),
            lost: self.lost.clone(),
            by_driver: self.by_driver.clone(),
            nodes: nodes.collect(),
        }
    }

    /// The counts at `now`, since the run began: called once a step at least, and at the end.
    pub(crate) fn on_counts(&mut self, now: Nanoseconds, nat: &Report, driver_frames: u64) {
        let opened = nat.services.iter().map(|service| service.opened).sum();
        let counts = [opened, nat.arrived, nat.outcomes.lost(), driver_frames];
        // Those of a service that was removed are no longer among them.
        let since = [0, 1, 2, 3].map(|at| u64::saturating_sub(counts[at], self.before[at]));
        self.before = counts;
        let step = ((now - self.began_ns - 1).max(0) / self.step_ns) as usize;
        let steps = self.opened.len().max(step + 1);
        let states = [nat.table.connections, nat.table.half_open];
        for (list, value) in self.states().into_iter().zip(states) {
            list.resize(steps, 0);
            list[step] = value as u64;
        }
        for (list, value) in self.sums().into_iter().zip(since) {
            list.resize(steps, 0);
            list[step] += value;
        }
        self.on_nodes(nat, step, steps);
        while self.opened.len() > STEPS_MAX {
            self.halve();
        }
    }

    fn on_nodes(&mut self, nat: &Report, step: usize, steps: usize) {
        for (service, node) in { nat.services.iter() }
            .flat_map(|service| service.nodes.iter().map(move |node| (service, node)))
        {
            let key = (service.transport, service.address, node.address);
            let known =
                { self.nodes.iter() }.position(|of| (of.transport, of.service, of.node) == key);
            let at = known.unwrap_or(self.nodes.len());
            if at == NODES_MAX {
                continue;
            }
            if known.is_none() {
                self.nodes.push(CourseOfNode {
                    transport: key.0,
                    service: key.1,
                    node: key.2,
                    opened: Vec::new(),
                    before: 0,
                });
            }
            let of = &mut self.nodes[at];
            of.opened.resize(steps, 0);
            of.opened[step] += node.opened.saturating_sub(of.before);
            of.before = node.opened;
        }
        // Those that were removed have no more connections.
        self.nodes
            .iter_mut()
            .for_each(|of| of.opened.resize(steps, 0));
    }

    /// Steps of twice the length.
    fn halve(&mut self) {
        self.step_ns *= 2;
        for list in self.states() {
            let last = |pair: &[u64]| pair.last().copied().unwrap_or_default();
            *list = list.chunks(2).map(last).collect();
        }
        let of_nodes = self.nodes.iter_mut().map(|of| &mut of.opened);
        let sum = |list: &mut Vec<u64>| {
            *list = list.chunks(2).map(|pair| pair.iter().sum()).collect();
        };
        of_nodes.for_each(sum);
        self.sums().into_iter().for_each(sum);
    }

    /// Counts as a step ended.
    fn states(&mut self) -> [&mut Vec<u64>; 2] {
        [&mut self.connections, &mut self.half_open]
    }

    /// What happened within a step.
    fn sums(&mut self) -> [&mut Vec<u64>; 4] {
        [
            &mut self.opened,
            &mut self.frames,
            &mut self.lost,
            &mut self.by_driver,
        ]
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use lineside_account::Budget;
    use lineside_balancer::{
        Nat, NodeSettings, PortSettings, Service, Settings, Timeouts, Transport,
    };

    use super::*;

    pub(crate) fn nat() -> Nat {
        let node = NodeSettings {
            address: "10.9.2.2:80".parse().expect("an address"),
            weight: 1,
        };
        let address = "10.9.1.100:80".parse().expect("an address");
        let settings = Settings {
            ports: vec![PortSettings {
                name: "p".to_owned(),
                ethernet: [2; 6],
                mtu: 1500,
            }],
            nat: vec!["10.9.2.100".parse().expect("an address")],
            services: vec![Service::new(Transport::Tcp, address, vec![node])],
            routes: Vec::new(),
            timeouts: Timeouts::default(),
            connections_max: 10,
            cookies_above: None,
            seed: 1,
        };
        Nat::new(settings, &Budget::new(1 << 24)).expect("settings that are right")
    }

    /// Whatever the steps become, nothing is counted twice or lost, and the length is bounded.
    #[test]
    fn a_long_run_has_longer_steps_and_the_same_sums() {
        let mut report = nat().report(0);
        let mut course = Course::new(5, 10);
        for second in 1..=10_000 {
            report.services[0].opened += second % 3;
            report.arrived += 2;
            report.table.connections = second as usize;
            report.table.half_open = 3;
            report.services[0].nodes[0].opened = report.services[0].opened;
            course.on_counts(5 + 10 * second as i64, &report, 7 * second);
        }
        assert_eq!(course.step_ns, 320);
        assert_eq!(course.opened.len(), 313);
        assert_eq!(course.opened.iter().sum::<u64>(), report.services[0].opened);
        assert_eq!(course.frames.iter().sum::<u64>(), 20_000);
        assert_eq!(course.by_driver.iter().sum::<u64>(), 70_000);
        assert_eq!(course.frames[3], 64);
        assert_eq!(course.connections[..2], [32, 64]);
        assert_eq!(course.connections.last(), Some(&10_000));
        assert_eq!(course.half_open, [3; 313]);
        assert_eq!(course.nodes[0].opened, course.opened);
    }

    /// One more than have a course of their own, and one that goes.
    #[test]
    fn nodes_that_come_and_go_have_steps_of_their_own() {
        let mut report = nat().report(0);
        let node = report.services[0].nodes[0].clone();
        let mut course = Course::new(0, 10);
        course.on_counts(10, &report, 0);
        report.services[0].nodes = { 0..=NODES_MAX as u16 }
            .map(|number| {
                let address = SocketAddr::from(([10, 9, 2, 2], 80 + number));
                let opened = 7;
                lineside_balancer::NodeReport {
                    address,
                    opened,
                    ..node.clone()
                }
            })
            .collect();
        course.on_counts(20, &report, 0);
        report.services[0].nodes.truncate(1);
        course.on_counts(30, &report, 0);
        assert_eq!(course.nodes.len(), NODES_MAX);
        assert!(course.nodes.iter().all(|of| of.opened == [0, 7, 0]));
    }

    #[test]
    fn a_run_that_stood_still_has_empty_steps() {
        let mut report = nat().report(0);
        let mut course = Course::new(0, 10);
        course.on_counts(10, &report, 0);
        report.arrived = 9;
        course.on_counts(45, &report, 0);
        assert_eq!(course.frames, [0, 0, 0, 0, 9]);
    }
}
