//! What is known of nodes by checks.

use std::collections::VecDeque;

use lineside_time::{Nanoseconds, Random, TimerId, Wheel};
use lineside_wire::SeqNumber;
use serde::Serialize;

use crate::packet::End;
use crate::ports::CHECKS as PORTS;

pub(crate) const NOBODY: u16 = u16::MAX;
/// Why a node went down, or what a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// All is well.
    Good,
    /// No answer came in time.
    Silent,
    /// The node refuses connections.
    Refused,
    /// An ICMP error came back.
    Unreachable,
    /// The answer has another status, or is no HTTP.
    WrongStatus(u16),
}

/// A node came up or went down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at_ns: Nanoseconds,
    /// What it is since then.
    pub is_up: bool,
    /// What the check that decided it found.
    pub finding: Finding,
}

/// What is known of a node by checks.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) timer: Option<TimerId>,
    pub(crate) probe: Option<Probe>,
    pub(crate) started: Nanoseconds,
    /// Results in a row that contradict what the node is taken for.
    pub(crate) contrary: u32,
    pub(crate) good: u64,
    pub(crate) bad: u64,
    pub(crate) last: Option<Finding>,
    pub(crate) history: VecDeque<Change>,
}

/// A check under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe {
    pub(crate) ours: End,
    pub(crate) sequence: SeqNumber,
    pub(crate) has_asked: bool,
}

/// All checks.
#[derive(Debug)]
pub(crate) struct Checks {
    pub(crate) wheel: Wheel,
    /// Nodes by the port number of their check.
    pub(crate) by_port: Box<[u16]>,
    pub(crate) next_port: usize,
    pub(crate) random: Random,
}

impl Checks {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            wheel: Wheel::new(),
            by_port: vec![NOBODY; PORTS.len()].into(),
            next_port: 0,
            random: Random::new(seed),
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Nanoseconds> {
        self.wheel.next_deadline()
    }

    pub(crate) fn take_port(&mut self, node: u16) -> Option<u16> {
        for _ in 0..PORTS.len() {
            let at = self.next_port;
            self.next_port = (at + 1) % PORTS.len();
            if self.by_port[at] == NOBODY {
                self.by_port[at] = node;
                return Some(PORTS.start + at as u16);
            }
        }
        None
    }

    pub(crate) fn place(port: u16) -> Option<usize> {
        PORTS
            .contains(&port)
            .then(|| usize::from(port - PORTS.start))
    }

    /// The node whose check has this port number.
    pub(crate) fn node_of(&self, port: u16) -> Option<u16> {
        let node = self.by_port[Self::place(port)?];
        (node != NOBODY).then_some(node)
    }
}
