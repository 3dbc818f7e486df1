//! ICMP errors that a segment met: RFC 5461 (which end a connection), RFC 5927 (which are
//! believed), RFC 1191 and RFC 8201 (packets that are too big).

use lineside_wire::icmp::{Failure, PORT_UNREACHABLE, PORT_UNREACHABLE_V6, PacketError};
use lineside_wire::{PROTOCOL_TCP, PROTOCOL_UDP, SeqNumber};

use crate::effects::{Closed, ConnectionId, Effects};
use crate::record::State;
use crate::stack::Stack;
use crate::tables::Found;

/// No path is taken to bear less: Linux's ip_rt_min_pmtu; RFC 8200, 5.
const MTU_MIN: [u32; 2] = [552, 1280];
/// What routers before RFC 1191, which do not say how much they bear, may bear: its section 7.1.
const PLATEAUS: [u32; 6] = [8166, 4352, 2002, 1492, 1006, 552];
/// A larger packet is tried again after this time: RFC 1191, 6.3; RFC 8201, 4.
const MTU_AGES_MS: u32 = 600_000;
/// ICMP's codes of a protocol or port that nobody has; ICMPv6's of a port.
const NOBODY: [&[u8]; 2] = [&[2, PORT_UNREACHABLE], &[PORT_UNREACHABLE_V6]];

impl Stack {
    pub(crate) fn on_packet_error(&mut self, error: &PacketError<'_>, effects: &mut impl Effects) {
        if error.protocol == PROTOCOL_UDP {
            self.on_datagram_met(error, effects);
            return;
        }
        let Some(number) = self.met(error) else {
            self.counters.errors_ignored += 1;
            return;
        };
        self.counters.errors_taken += 1;
        let is_ipv4 = error.source.is_ipv4();
        let owner = self.tables.records[number].owner;
        effects.on_error(ConnectionId(number), owner, error.failure);
        match error.failure {
            Failure::TooBig(mtu) => {
                self.reduce(number, mtu, is_ipv4);
                self.touch(number);
            }
            Failure::Unreachable(code) => {
                // All others may pass; and once data flow these, too, prove nothing: RFC 5461, 2.1
                // and RFC 5927, 5.2.
                let is_hard = NOBODY[usize::from(!is_ipv4)].contains(&code);
                if is_hard && self.tables.records[number].state == State::SynSent {
                    self.end(number, Closed::Unreachable, effects);
                }
            }
            Failure::TimeExceeded(_) => {}
        }
    }

    /// The owner of the datagram's port hears of the error.
    fn on_datagram_met(&mut self, error: &PacketError<'_>, effects: &mut impl Effects) {
        let ports = error.transport.first_chunk::<4>();
        let ends = ports.map(|&[a, b, c, d]| {
            let [local, remote] = [[a, b], [c, d]].map(u16::from_be_bytes);
            [(error.source, local), (error.destination, remote)]
        });
        let owner = ends.and_then(|[(address, port), _]| self.sockets.owner(address, port));
        let (Some(ends), Some(owner)) = (ends, owner) else {
            self.counters.errors_ignored += 1;
            return;
        };
        self.counters.errors_taken += 1;
        effects.on_datagram_error(owner, ends, error.failure);
    }

    /// The connection whose segment met the error, if that may be in flight.
    fn met(&self, error: &PacketError<'_>) -> Option<u32> {
        let bytes = error.transport.first_chunk::<8>()?;
        if error.protocol != PROTOCOL_TCP {
            return None;
        }
        let [local_port, remote_port] =
            [[bytes[0], bytes[1]], [bytes[2], bytes[3]]].map(u16::from_be_bytes);
        let sequence = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let path = self.tables.path(error.source, error.destination)?;
        let Found::Connection(number) = self.tables.find(path, local_port, remote_port)? else {
            return None;
        };
        let una = self.tables.records[number].snd_una;
        let ahead = SeqNumber(sequence).bytes_from(una);
        (ahead < self.next_sequence(number).bytes_from(una)).then_some(number)
    }

    /// The most payload and options of a segment on a connection's path now.
    pub(crate) fn mss_now(&mut self, number: u32) -> u16 {
        let now_ms = self.age_ms() as u32;
        let record = &self.tables.records[number];
        let path = &mut self.tables.paths[record.path];
        if path.mtu == 0 {
            return record.mss;
        }
        if now_ms.wrapping_sub(path.mtu_at) >= MTU_AGES_MS {
            path.mtu = 0;
            return record.mss;
        }
        let headers = if path.local.is_ipv4() { 40 } else { 60 };
        record.mss.min(path.mtu - headers)
    }

    /// An active connection's segments become as long as its path bears.
    pub(crate) fn fit_path(&mut self, number: u32) {
        let mss = self.mss_now(number);
        let (record, active) = self.both(number);
        active.window.mss = record.payload_of(mss);
    }

    /// Smaller segments from now on. What is in flight was dropped for its size, not for want of
    /// room: it is sent again, and the congestion window stays.
    fn reduce(&mut self, number: u32, mtu: u32, is_ipv4: bool) {
        let headers = if is_ipv4 { 40 } else { 60 };
        let (record, active) = self.both(number);
        let before = active.window.mss + record.options_len() + headers;
        let mtu = match mtu {
            0 => { PLATEAUS.into_iter() }
                .find(|&plateau| plateau < before)
                .unwrap_or(before),
            mtu => mtu,
        };
        let mtu = mtu.max(MTU_MIN[usize::from(!is_ipv4)]);
        if mtu >= before {
            return;
        }
        self.counters.path_mtu_reduced += 1;
        let at = self.age_ms() as u32;
        let path = &mut self.tables.paths[self.tables.records[number].path];
        (path.mtu, path.mtu_at) = (mtu as u16, at);
        self.fit_path(number);
        let (record, active) = self.both(number);
        if record.state.is_synchronized() {
            active.resend_all();
        }
    }
}
