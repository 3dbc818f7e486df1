//! Segments that the engine sends.

use std::net::SocketAddr;

use lineside_time::Nanoseconds;
use lineside_wire::build::TcpFields;
use lineside_wire::tcp::{OPTIONS_LEN_MAX, TcpOption};
use lineside_wire::{SeqNumber, TcpFlags};

use super::entry::Entry;
use super::rewrite::Way;
use super::{Arrived, Effects};

/// The clock of timestamps: milliseconds, as RFC 7323, 5.4 has them.
pub(super) fn timestamp(now: Nanoseconds) -> u32 {
    (now / 1_000_000) as u32
}

/// Options one after the other.
#[derive(Debug)]
pub(super) struct Options {
    bytes: [u8; OPTIONS_LEN_MAX],
    len: usize,
}

impl Options {
    pub(super) fn new() -> Self {
        Self {
            bytes: [0; OPTIONS_LEN_MAX],
            len: 0,
        }
    }

    /// The engine's options, one of each kind at most, have room.
    pub(super) fn add(&mut self, option: TcpOption<'_>) {
        option.emit(&mut self.bytes[self.len..]);
        self.len += option.len();
    }

    pub(super) fn timestamps(&mut self, value: u32, echo: u32) {
        self.add(TcpOption::Timestamps { value, echo });
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// What a segment says beside ports and options.
#[derive(Debug, Clone, Copy)]
pub(super) struct Words {
    pub(super) sequence: SeqNumber,
    pub(super) acknowledgement: SeqNumber,
    pub(super) flags: TcpFlags,
    pub(super) window: u16,
}

pub(super) fn transmit(
    way: Way,
    (ends, to): ([SocketAddr; 2], u64),
    words: Words,
    options: &Options,
    payload: &[u8],
    effects: &mut impl Effects,
) {
    let fields = TcpFields {
        source_port: ends[0].port(),
        destination_port: ends[1].port(),
        sequence: words.sequence.0,
        acknowledgement: words.acknowledgement.0,
        flags: words.flags,
        window: words.window,
        options: options.bytes(),
    };
    effects.transmit(way, ends, to, &fields, payload);
}

/// Answers a segment of nobody: RFC 9293, 3.10.7.1. It has an acknowledgement.
pub(super) fn reset(way: Way, arrived: &Arrived<'_>, effects: &mut impl Effects) {
    let [source, destination] = arrived.ends;
    let words = Words {
        sequence: arrived.segment.acknowledgement(),
        acknowledgement: SeqNumber(0),
        flags: TcpFlags::RST,
        window: 0,
    };
    transmit(
        way,
        ([destination, source], arrived.from),
        words,
        &Options::new(),
        &[],
        effects,
    );
}

impl Entry {
    /// What is taken of the request at most, rounded so that no window that is offered ends before
    /// an earlier one although it is rounded up to the unit of its shift.
    pub(super) fn limit(request_bytes_max: usize) -> usize {
        /// The unit of the largest shift.
        const UNIT: usize = 1 << 14;
        request_bytes_max + UNIT
    }

    /// The client's half: an acknowledgement, or what `flags` say.
    pub(super) fn answer_client(
        &self,
        now: Nanoseconds,
        shift: u8,
        request_bytes_max: usize,
        flags: TcpFlags,
        effects: &mut impl Effects,
    ) {
        let mut options = Options::new();
        if self.agreed.timestamps {
            options.timestamps(timestamp(now), self.client_stamp);
        }
        let shift = self.agreed.offer.scale.map_or(0, |_| shift);
        let room = request_bytes_max.saturating_sub(self.request.known().len());
        let words = Words {
            sequence: self.client_ack,
            acknowledgement: self.next(),
            flags,
            window: u16::try_from(room.div_ceil(1 << shift)).unwrap_or(u16::MAX),
        };
        let [client, service] = self.ends;
        transmit(
            Way::ToClient,
            ([service, client], self.from),
            words,
            &options,
            &[],
            effects,
        );
    }

    /// The SYN to a node, with the client's number and options.
    pub(super) fn ask_node(&self, mss: u16, effects: &mut impl Effects) {
        let Some(ends) = self.node.ends else { return };
        let mut options = Options::new();
        options.add(TcpOption::Mss(mss.min(self.agreed.mss)));
        if self.agreed.timestamps {
            if self.agreed.offer.sack {
                options.add(TcpOption::SackPermitted);
            }
            options.timestamps(self.client_stamp, 0);
            if let Some(scale) = self.agreed.offer.scale {
                options.add(TcpOption::WindowScale(scale));
            }
        }
        let words = Words {
            sequence: self.irs,
            acknowledgement: SeqNumber(0),
            flags: TcpFlags::SYN,
            window: u16::try_from(self.client_window).unwrap_or(u16::MAX),
        };
        transmit(Way::ToNode, (ends, 0), words, &options, &[], effects);
    }

    /// The node's half in the client's name: `len` bytes of the request from `offset`, with its end
    /// if they reach it; none are an acknowledgement.
    pub(super) fn replay(&self, offset: usize, len: usize, effects: &mut impl Effects) {
        let Some(ends) = self.node.ends else { return };
        let mut options = Options::new();
        if self.agreed.timestamps {
            options.timestamps(self.client_stamp, self.node.stamp);
        }
        let known = self.request.known();
        let payload = &known[offset.min(known.len())..(offset + len).min(known.len())];
        let mut flags = TcpFlags::ACK;
        if offset + len > known.len() {
            flags = flags | TcpFlags::FIN;
        }
        if !payload.is_empty() {
            flags = flags | TcpFlags::PSH;
        }
        let shift = self.agreed.offer.scale.unwrap_or(0);
        // A node without shifts reads the field as bytes.
        let shift = if self.splice.window_to_node > 0 {
            0
        } else {
            shift
        };
        let words = Words {
            sequence: self.first() + offset as u32,
            acknowledgement: self.client_ack - self.splice.sequence,
            flags,
            window: u16::try_from(self.client_window >> shift).unwrap_or(u16::MAX),
        };
        transmit(Way::ToNode, (ends, 0), words, &options, payload, effects);
    }

    /// Ends the node's half in the client's name.
    pub(super) fn reset_node(&self, effects: &mut impl Effects) {
        let Some(ends) = self.node.ends else { return };
        let words = Words {
            sequence: self.next(),
            acknowledgement: self.node.irs + 1,
            flags: TcpFlags::RST | TcpFlags::ACK,
            window: 0,
        };
        transmit(Way::ToNode, (ends, 0), words, &Options::new(), &[], effects);
    }
}
