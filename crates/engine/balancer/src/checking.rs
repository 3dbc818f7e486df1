//! Checks of nodes, by the way that connections take: from a NAT address, through the same port, to
//! the node's port.
//!
//! ```text
//!  TCP:   SYN ─► ◄─ SYN/ACK, RST ─►             a refusal or silence is a failure
//!  HTTP:  SYN ─► ◄─ SYN/ACK, GET ─► ◄─ status, RST ─►
//!  UDP:   empty datagram ─►                     an ICMP error is a failure, silence is not
//! ```
//!
//! A node is up until its first check has failed: a restart interrupts nobody.

use std::net::IpAddr;

use lineside_frame::Frame;
use lineside_time::Nanoseconds;
use lineside_wire::build::TcpFields;
use lineside_wire::headers::Headers;
use lineside_wire::udp::{self, Datagram};
use lineside_wire::{PROTOCOL_UDP, SeqNumber, TcpFlags, TcpHeader};

use crate::effects::Effects;
use crate::health::{Change, Checks, Finding, NOBODY, Probe};
use crate::nat::{Nat, Waits};
use crate::packet::{End, Packet};
use crate::pool::end;
use crate::settings::{Health, Transport};

/// Changes of a node that are remembered.
const HISTORY_MAX: usize = 16;
/// The window of a check: an answer's first segment is all that is read.
const WINDOW: u16 = 8192;

impl Nat {
    /// Begins the checks of a node, at a moment within the first interval: not all at once.
    pub(crate) fn begin_checks(&mut self, now: Nanoseconds, node: u16) {
        let Some(health) = self.health_of(node) else {
            return;
        };
        let spread = health.interval.min(1_000_000_000) as u64;
        let at = now.saturating_add(self.checks.random.below(spread) as i64);
        let timer = self.checks.wheel.insert(at, node.into());
        self.pool.nodes[usize::from(node)].checked.timer = Some(timer);
    }

    /// Ends the checks of a node.
    pub(crate) fn end_checks(&mut self, node: u16) {
        self.drop_probe(node);
        if let Some(timer) = self.pool.nodes[usize::from(node)].checked.timer.take() {
            self.checks.wheel.cancel(timer);
        }
    }

    fn health_of(&self, node: u16) -> Option<&Health> {
        let service = self.pool.nodes[usize::from(node)].service;
        let settings = &self.pool.services[usize::from(service)].settings;
        settings.health.as_ref()
    }

    fn transport_of(&self, node: u16) -> Transport {
        let service = self.pool.nodes[usize::from(node)].service;
        self.pool.services[usize::from(service)].settings.transport
    }

    /// Checks that are due, or whose time is over.
    pub(crate) fn on_check_timers(&mut self, now: Nanoseconds, out: &mut Effects) {
        while let Some((_, number)) = self.checks.wheel.pop(now) {
            let node = number as u16;
            let checked = &mut self.pool.nodes[usize::from(node)].checked;
            checked.timer = None;
            if checked.probe.is_none() {
                self.start_check(now, node, out);
                continue;
            }
            let finding = match self.transport_of(node) {
                Transport::Tcp => Finding::Silent,
                Transport::Udp => Finding::Good,
            };
            self.end_check(now, node, finding, out);
        }
    }

    fn start_check(&mut self, now: Nanoseconds, node: u16, out: &mut Effects) {
        let Some(health) = self.health_of(node) else {
            return;
        };
        let timeout = health.timeout;
        let address = self.pool.nodes[usize::from(node)].address;
        let nat = self.pool.nat_of_family(address.is_ipv4()).next();
        let port = nat.and_then(|nat| Some((nat.1, self.checks.take_port(node)?)));
        let at = now.saturating_add(timeout);
        let timer = self.checks.wheel.insert(at, node.into());
        let sequence = SeqNumber(self.checks.random.bits() as u32);
        let checked = &mut self.pool.nodes[usize::from(node)].checked;
        checked.timer = Some(timer);
        checked.started = now;
        // With all port numbers in use the next turn tries again.
        let Some(ours) = port else {
            return;
        };
        checked.probe = Some(Probe {
            ours,
            sequence,
            has_asked: false,
        });
        match self.transport_of(node) {
            Transport::Tcp => {
                let fields = TcpFields {
                    sequence: sequence.0,
                    flags: TcpFlags::SYN,
                    window: WINDOW,
                    // The segment size that every path bears: RFC 9293, 3.7.1.
                    options: &[2, 4, 0x02, 0x18],
                    ..TcpFields::default()
                };
                self.send_check(now, node, &fields, &[], out);
            }
            Transport::Udp => self.send_datagram(now, node, ours, out),
        }
    }

    fn send_check(
        &mut self,
        now: Nanoseconds,
        node: u16,
        fields: &TcpFields<'_>,
        payload: &[u8],
        out: &mut Effects,
    ) {
        let slot = &self.pool.nodes[usize::from(node)];
        let Some(probe) = slot.checked.probe else {
            return;
        };
        let theirs = end(slot.address);
        let fields = TcpFields {
            source_port: probe.ours.1,
            destination_port: theirs.1,
            ..*fields
        };
        let ends = [probe.ours.0, theirs.0];
        let frame = self.maker.segment([[0; 6]; 2], ends, &fields, payload);
        self.send_own(now, node, frame, out);
    }

    fn send_datagram(&mut self, now: Nanoseconds, node: u16, ours: End, out: &mut Effects) {
        let theirs = end(self.pool.nodes[usize::from(node)].address);
        let ends: [IpAddr; 2] = [ours.0, theirs.0];
        let payload = (PROTOCOL_UDP, udp::HEADER_LEN);
        let hops = Headers::new(ends[0], ends[1]).hop_count;
        let frame = self
            .maker
            .packet([[0; 6]; 2], ends, hops, payload, |bytes| {
                let mut datagram = Datagram::new_unchecked(bytes);
                datagram.set_source_port(ours.1);
                datagram.set_destination_port(theirs.1);
                datagram.set_len(udp::HEADER_LEN as u16);
                datagram.fill_checksum(ends[0], ends[1]);
            });
        self.send_own(now, node, frame, out);
    }

    fn send_own(&mut self, now: Nanoseconds, node: u16, frame: Option<Frame>, out: &mut Effects) {
        if let Some(frame) = frame {
            let hop = self.pool.nodes[usize::from(node)].hop;
            self.leave_to_hop(now, hop, frame, Waits::OWN, out);
        }
    }

    /// Whether a packet answers a check; it is taken then.
    pub(crate) fn on_check_answer(
        &mut self,
        now: Nanoseconds,
        packet: &Packet,
        bytes: &[u8],
        out: &mut Effects,
    ) -> bool {
        let Some(node) = self.checks.node_of(packet.ports[1]) else {
            return false;
        };
        let slot = &self.pool.nodes[usize::from(node)];
        let Some(probe) = slot.checked.probe else {
            return false;
        };
        let is_its = end(slot.address) == packet.source() && probe.ours == packet.destination();
        if !is_its || self.transport_of(node) != packet.transport {
            return false;
        }
        match packet.tcp {
            Some(tcp) => self.on_check_segment(now, node, probe, &tcp, bytes, out),
            None => self.end_check(now, node, Finding::Good, out),
        }
        true
    }

    fn on_check_segment(
        &mut self,
        now: Nanoseconds,
        node: u16,
        probe: Probe,
        tcp: &TcpHeader,
        bytes: &[u8],
        out: &mut Effects,
    ) {
        let flags = tcp.flags;
        if !flags.contains(TcpFlags::ACK) || !tcp.acknowledgement.is_after(probe.sequence) {
            return;
        }
        if flags.contains(TcpFlags::RST) {
            self.end_check(now, node, Finding::Refused, out);
            return;
        }
        let http = self.health_of(node).and_then(|health| health.http.clone());
        let Some(http) = http else {
            if flags.opens() {
                self.send_reset(now, node, tcp, out);
                self.end_check(now, node, Finding::Good, out);
            }
            return;
        };
        if flags.opens() && !probe.has_asked {
            let request = format!(
                "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: lineside\r\nConnection: close\r\n\r\n",
                http.path, http.host
            );
            let fields = TcpFields {
                sequence: tcp.acknowledgement.0,
                acknowledgement: tcp.sequence.0.wrapping_add(1),
                flags: TcpFlags::ACK | TcpFlags::PSH,
                window: WINDOW,
                ..TcpFields::default()
            };
            self.send_check(now, node, &fields, request.as_bytes(), out);
            if let Some(probe) = &mut self.pool.nodes[usize::from(node)].checked.probe {
                probe.has_asked = true;
            }
        } else if tcp.captured_len > 0 && probe.has_asked {
            let status = status(&bytes[tcp.payload..][..tcp.captured_len]);
            let finding = match http.status.contains(&status) {
                true => Finding::Good,
                false => Finding::WrongStatus(status),
            };
            self.send_reset(now, node, tcp, out);
            self.end_check(now, node, finding, out);
        }
    }

    /// Ends the connection of a check.
    fn send_reset(&mut self, now: Nanoseconds, node: u16, tcp: &TcpHeader, out: &mut Effects) {
        let fields = TcpFields {
            sequence: tcp.acknowledgement.0,
            flags: TcpFlags::RST,
            window: 0,
            ..TcpFields::default()
        };
        self.send_check(now, node, &fields, &[], out);
    }

    /// Whether an ICMP error is about a check; `ours` and `theirs` are the packet's ends.
    pub(crate) fn on_check_error(
        &mut self,
        now: Nanoseconds,
        ours: End,
        theirs: End,
        out: &mut Effects,
    ) -> bool {
        let Some(node) = self.checks.node_of(ours.1) else {
            return false;
        };
        let slot = &self.pool.nodes[usize::from(node)];
        let is_its = (slot.checked.probe).is_some_and(|probe| probe.ours == ours);
        if !is_its || end(slot.address) != theirs {
            return false;
        }
        self.end_check(now, node, Finding::Unreachable, out);
        true
    }

    fn drop_probe(&mut self, node: u16) {
        let probe = self.pool.nodes[usize::from(node)].checked.probe.take();
        if let Some(place) = probe.and_then(|probe| Checks::place(probe.ours.1)) {
            self.checks.by_port[place] = NOBODY;
        }
    }

    /// A check has ended; the next one begins an interval after it did.
    fn end_check(&mut self, now: Nanoseconds, node: u16, finding: Finding, out: &mut Effects) {
        self.drop_probe(node);
        let Some(health) = self.health_of(node) else {
            return;
        };
        let (interval, rise, fall) = (health.interval, health.rise, health.fall);
        let slot = &mut self.pool.nodes[usize::from(node)];
        let at = slot.checked.started.saturating_add(interval).max(now);
        if let Some(timer) = slot.checked.timer.take() {
            self.checks.wheel.cancel(timer);
        }
        slot.checked.timer = Some(self.checks.wheel.insert(at, node.into()));
        let is_good = finding == Finding::Good;
        let is_first = slot.checked.last.replace(finding).is_none();
        match is_good {
            true => slot.checked.good += 1,
            false => slot.checked.bad += 1,
        }
        if is_good == slot.is_up {
            slot.checked.contrary = 0;
            return;
        }
        slot.checked.contrary += 1;
        let needed = if is_good { rise } else { fall };
        if !is_first && slot.checked.contrary < needed {
            return;
        }
        slot.checked.contrary = 0;
        if slot.checked.history.len() == HISTORY_MAX {
            slot.checked.history.pop_front();
        }
        slot.checked.history.push_back(Change {
            at_ns: now,
            is_up: is_good,
            finding,
        });
        slot.is_up = is_good;
        slot.rises_from = Some(now);
        let service = slot.service;
        self.pool.refresh(service);
        if !is_good {
            self.on_node_lost(now, node, out);
        }
    }
}

/// The status of an HTTP answer; 0 if it is none.
fn status(answer: &[u8]) -> u16 {
    let line = answer.strip_prefix(b"HTTP/1.").unwrap_or_default();
    let digits = line
        .get(2..5)
        .filter(|digits| digits.iter().all(u8::is_ascii_digit));
    digits.map_or(0, |digits| {
        { digits.iter() }.fold(0, |status, digit| status * 10 + u16::from(digit - b'0'))
    })
}
