//! The course of a run: what happened in steps of equal length.

use lineside_nat::Report;
use lineside_time::Nanoseconds;
use serde::Serialize;

/// More steps become half as many of twice the length: a day has steps of some minutes.
const STEPS_MAX: usize = 600;

/// What happened in steps of equal length: each is a list with a value for each step. The last one
/// is not full.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Course {
    /// How long a step is.
    pub step_ns: Nanoseconds,
    /// Connections that began.
    pub opened: Vec<u64>,
    /// Connections in the table as the step ended.
    pub connections: Vec<u64>,
    /// Frames that came to the program.
    pub frames: Vec<u64>,
    /// Frames that the driver forwarded past it.
    pub by_driver: Vec<u64>,
    #[serde(skip)]
    began_ns: Nanoseconds,
    /// The counts as the last step began.
    #[serde(skip)]
    before: [u64; 3],
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

    /// The counts at `now`, since the run began: called once a step at least, and at the end.
    pub(crate) fn on_counts(&mut self, now: Nanoseconds, nat: &Report, driver_frames: u64) {
        let opened = nat.services.iter().map(|service| service.opened).sum();
        let counts = [opened, nat.arrived, driver_frames];
        // Those of a service that was removed are no longer among them.
        let since = [0, 1, 2].map(|at| u64::saturating_sub(counts[at], self.before[at]));
        self.before = counts;
        let step = ((now - self.began_ns - 1).max(0) / self.step_ns) as usize;
        let [connections, sums @ ..] = self.lists();
        connections.resize(connections.len().max(step + 1), 0);
        connections[step] = nat.table.connections as u64;
        for (list, value) in sums.into_iter().zip(since) {
            list.resize(list.len().max(step + 1), 0);
            list[step] += value;
        }
        while self.opened.len() > STEPS_MAX {
            self.step_ns *= 2;
            let [connections, sums @ ..] = self.lists();
            let last = |pair: &[u64]| pair.last().copied().unwrap_or_default();
            *connections = connections.chunks(2).map(last).collect();
            for list in sums {
                *list = list.chunks(2).map(|pair| pair.iter().sum()).collect();
            }
        }
    }

    fn lists(&mut self) -> [&mut Vec<u64>; 4] {
        [
            &mut self.connections,
            &mut self.opened,
            &mut self.frames,
            &mut self.by_driver,
        ]
    }
}

#[cfg(test)]
mod tests {
    use lineside_account::Budget;
    use lineside_nat::{Nat, NodeSettings, PortSettings, Service, Settings, Timeouts, Transport};

    use super::*;

    fn nat() -> Nat {
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
