//! Flows that the driver forwards past the loop: entered once what the loop holds of them has left,
//! and their counts brought home.

use std::collections::{BTreeMap, HashMap, VecDeque};

use lineside_account::{Budget, Lease};
use lineside_balancer::{Decision, FlowKey, Nat, PortSettings, Translation, Transport};
use lineside_port::live::{FlowCounts, FlowKey as DriverKey, FlowOutcomes, FlowRule, FlowTable};
use lineside_time::Nanoseconds;
use lineside_wire::{PROTOCOL_TCP, PROTOCOL_UDP};
use serde::Serialize;

/// So often the counts of the driver come home: they keep connections from idling out.
const COLLECT_NS: Nanoseconds = 1_000_000_000;

/// Flows that wait to be entered: more stay with the loop.
const WAITING_MAX: usize = 4_096;

/// So long a flow waits for a turn with nothing under way. A loop that is always busy has no such
/// turn, and needs the driver most: then a flow enters anyway, and may overtake itself once.
const WAIT_NS: Nanoseconds = 5_000_000;

/// Flows that are decided, oldest first, with when that was.
#[derive(Default)]
struct Waiting(VecDeque<(Nanoseconds, Translation)>);

impl Waiting {
    fn push(&mut self, now: Nanoseconds, translation: Translation) {
        self.0.push_back((now, translation));
    }

    /// The next flow that may enter: any if the loop `is_clear` of frames under way, else one that
    /// has waited long enough.
    fn pop(&mut self, now: Nanoseconds, is_clear: bool) -> Option<Translation> {
        let (since, _) = self.0.front()?;
        let may_enter = is_clear || now >= since.saturating_add(WAIT_NS);
        may_enter
            .then(|| self.0.pop_front())?
            .map(|(_, translation)| translation)
    }

    fn remove(&mut self, key: FlowKey) {
        self.0.retain(|(_, translation)| translation.key() != key);
    }
}

/// The driver's part of a forwarder.
pub struct Driver {
    flows: FlowTable,
    /// The kernel's number of each port.
    interfaces: Vec<u32>,
    ethernets: Vec<[u8; 6]>,
    waiting: Waiting,
    /// What came home of each flow so far, by what identifies it.
    seen: HashMap<DriverKey, (FlowKey, FlowCounts)>,
    collected: Nanoseconds,
    entered: u64,
    refused: u64,
    why: Option<String>,
    frames: u64,
    bytes: u64,
    _memory: Lease,
}

/// What the driver did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DriverReport {
    /// Flows that are in its table.
    pub flows: usize,
    /// Flows that were entered.
    pub entered: u64,
    /// Flows that could not be entered: the loop forwarded them.
    pub refused: u64,
    /// Why, of the latest one.
    pub refused_why: Option<String>,
    /// Frames that it forwarded, as far as they were counted.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The outcomes of all frames that the driver saw.
    pub outcomes: BTreeMap<&'static str, u64>,
}

impl Driver {
    /// The part of a driver with this table of `flows_max` flows, whose ports have these numbers of
    /// the kernel's. `None` if the budget has no room for it.
    pub fn new(
        (flows, flows_max): (FlowTable, u32),
        interfaces: Vec<u32>,
        ports: &[PortSettings],
        budget: &Budget,
    ) -> Option<Self> {
        let of_flow = size_of::<(DriverKey, (FlowKey, FlowCounts))>() * 2;
        let waiting = WAITING_MAX * size_of::<(Nanoseconds, Translation)>();
        let memory = budget.lease(flows_max as usize * of_flow + waiting)?;
        Some(Self {
            flows,
            interfaces,
            ethernets: ports.iter().map(|port| port.ethernet).collect(),
            waiting: Waiting::default(),
            seen: HashMap::new(),
            collected: Nanoseconds::MIN,
            entered: 0,
            refused: 0,
            why: None,
            frames: 0,
            bytes: 0,
            _memory: memory,
        })
    }

    /// Takes what was decided: a flow that leaves goes at once, one that enters waits.
    pub(crate) fn take(&mut self, decided: &mut Vec<Decision>, nat: &mut Nat, now: Nanoseconds) {
        for decision in decided.drain(..) {
            match decision {
                Decision::Enter(translation) if self.waiting.0.len() < WAITING_MAX => {
                    self.waiting.push(now, translation);
                }
                Decision::Enter(_) => self.refused += 1,
                Decision::Leave(key) => self.leave(key, nat, now),
            }
        }
    }

    fn leave(&mut self, key: FlowKey, nat: &mut Nat, now: Nanoseconds) {
        self.waiting.remove(key);
        for interface in 0..self.interfaces.len() {
            let place = self.key_at(&key, interface);
            let Some((_, seen)) = self.seen.remove(&place) else {
                continue;
            };
            if let Ok(Some(counts)) = self.flows.remove(&place) {
                self.bring_home(&key, seen, counts, nat, now);
            }
        }
    }

    fn bring_home(
        &mut self,
        key: &FlowKey,
        seen: FlowCounts,
        counts: FlowCounts,
        nat: &mut Nat,
        now: Nanoseconds,
    ) {
        let frames = counts.frames - seen.frames;
        let bytes = counts.bytes - seen.bytes;
        if frames > 0 {
            self.frames += frames;
            self.bytes += bytes;
            nat.passed(now, key, frames, bytes);
        }
    }

    fn key_at(&self, key: &FlowKey, port: usize) -> DriverKey {
        DriverKey {
            interface: self.interfaces[port],
            protocol: match key.transport {
                Transport::Tcp => PROTOCOL_TCP,
                Transport::Udp => PROTOCOL_UDP,
            },
            source: key.source,
            destination: key.destination,
        }
    }

    /// Enters flows that wait, at once if the loop `is_clear` of frames, and brings counts
    /// home from time to time.
    pub(crate) fn on_turn(&mut self, now: Nanoseconds, is_clear: bool, nat: &mut Nat) {
        while let Some(translation) = self.waiting.pop(now, is_clear) {
            self.enter(&translation);
        }
        if now >= self.collected.saturating_add(COLLECT_NS) {
            self.collected = now;
            self.collect(nat, now);
        }
    }

    fn enter(&mut self, translation: &Translation) {
        let key = translation.key();
        let place = self.key_at(&key, translation.port);
        let rule = FlowRule {
            key: place,
            new_source: translation.new_source,
            new_destination: translation.new_destination,
            out: self.interfaces[translation.out_port],
            ethernet_here: self.ethernets[translation.port],
            ethernet_source: translation.ethernet_source,
            ethernet_destination: translation.ethernet_destination,
        };
        match self.flows.insert(&rule) {
            Ok(()) => {
                self.entered += 1;
                self.seen.insert(place, (key, FlowCounts::default()));
            }
            Err(error) => {
                self.refused += 1;
                self.why = Some(error.to_string());
            }
        }
    }

    /// Brings the counts of all flows home.
    pub(crate) fn collect(&mut self, nat: &mut Nat, now: Nanoseconds) {
        let mut changed = Vec::new();
        let seen = &mut self.seen;
        self.flows.for_each(|place, counts| {
            if let Some((key, before)) = seen.get_mut(place)
                && counts.frames > before.frames
            {
                changed.push((*key, *before, counts));
                *before = counts;
            }
        });
        for (key, before, counts) in changed {
            self.bring_home(&key, before, counts, nat, now);
        }
    }

    /// When counts are to come home next, if there are any.
    pub(crate) fn next_deadline(&self) -> Option<Nanoseconds> {
        match self.waiting.0.is_empty() {
            false => Some(Nanoseconds::MIN),
            true => (!self.seen.is_empty()).then(|| self.collected.saturating_add(COLLECT_NS)),
        }
    }

    /// Has all frames come up, for a tap that looks.
    pub(crate) fn pause(&self, is_paused: bool) {
        self.flows.pause(is_paused);
    }

    /// What it did.
    pub fn report(&self) -> DriverReport {
        DriverReport {
            flows: self.flows.len(),
            entered: self.entered,
            refused: self.refused,
            refused_why: self.why.clone(),
            frames: self.frames,
            bytes: self.bytes,
            outcomes: named(self.flows.outcomes()),
        }
    }
}

/// The outcomes that happened, by name.
fn named(outcomes: FlowOutcomes) -> BTreeMap<&'static str, u64> {
    let FlowOutcomes {
        forwarded,
        no_flow,
        paused,
        other_protocol,
        other_address,
        options,
        fragment,
        flag,
        time_to_live,
        partial,
        too_long,
        malformed,
    } = outcomes;
    let all = [
        ("forwarded", forwarded),
        ("no flow", no_flow),
        ("paused", paused),
        ("other protocol", other_protocol),
        ("other address", other_address),
        ("options", options),
        ("fragment", fragment),
        ("SYN, FIN or RST", flag),
        ("time to live", time_to_live),
        ("unfinished checksum", partial),
        ("too long", too_long),
        ("malformed", malformed),
    ];
    all.into_iter().filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(port: u16) -> Translation {
        let of = |host, port| ([10, 9, 1, host], port).into();
        Translation {
            transport: Transport::Tcp,
            port: 0,
            source: of(7, port),
            destination: of(100, 80),
            new_source: of(100, port),
            new_destination: of(2, 8080),
            out_port: 1,
            ethernet_source: [2; 6],
            ethernet_destination: [4; 6],
        }
    }

    #[test]
    fn flows_enter_when_nothing_is_under_way_or_in_time() {
        let mut waiting = Waiting::default();
        waiting.push(10, flow(1));
        waiting.push(20, flow(2));
        waiting.push(30, flow(3));
        assert_eq!(waiting.pop(10 + WAIT_NS - 1, false), None, "busy");
        // A loop that is always busy holds nobody back for ever.
        assert_eq!(waiting.pop(10 + WAIT_NS, false), Some(flow(1)));
        assert_eq!(waiting.pop(10 + WAIT_NS, false), None, "each in its time");
        waiting.remove(flow(2).key());
        assert_eq!(waiting.pop(31, true), Some(flow(3)));
        assert_eq!(waiting.pop(31, true), None);
    }
}
