//! Which frames of a capture belong to what is wanted, and whether it is the trace's capture.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use lineside_analyze::{Mark, Span};
use lineside_frame::{Burst, Frame};
use lineside_run::{Consumer, Step};
use lineside_wire::{Dissected, PROTOCOL_TCP, PROTOCOL_UDP, dissect};

/// The frames of some spans.
pub(super) struct Search {
    spans: Vec<Span>,
    /// Frames of interfaces have other numbers in a file that was written beside the trace.
    is_live: bool,
    keeps: bool,
    /// Frames that are to be written.
    pub(super) frames: Vec<Frame>,
    /// Frames found in the last reading.
    pub(super) found: u64,
    /// Marks that were found, and what is at the number of the others.
    seen: BTreeMap<(usize, usize), bool>,
    instead: BTreeMap<(usize, usize), String>,
    names: Vec<String>,
}

impl Search {
    pub(super) fn new(spans: Vec<Span>, is_live: bool) -> Self {
        Self {
            spans,
            is_live,
            keeps: false,
            frames: Vec::new(),
            found: 0,
            seen: BTreeMap::new(),
            instead: BTreeMap::new(),
            names: Vec::new(),
        }
    }

    /// Before a reading, in which frames are kept or counted.
    pub(super) fn begin(&mut self, keeps: bool) {
        self.keeps = keeps;
        self.found = 0;
    }

    pub(super) fn note_names<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        if self.names.is_empty() {
            self.names = names.map(str::to_owned).collect();
        }
    }

    /// For the comment of the file.
    pub(super) fn about(&self) -> String {
        let spans = self.spans.iter().take(10).map(|span| span.what.as_str());
        let more = match self.spans.len() {
            0..=10 => "",
            _ => " ...",
        };
        format!("cut out: {}{more}", spans.collect::<Vec<_>>().join(", "))
    }

    /// Why these are not the captures of the trace.
    pub(super) fn contradiction(&self) -> Option<String> {
        for (at, span) in self.spans.iter().enumerate() {
            for (place, mark) in span.marks.iter().enumerate() {
                if self.seen.contains_key(&(at, place)) {
                    continue;
                }
                let [client, server] = span.ends;
                let wanted = format!(
                    "it does not belong to the trace: frame {} is not one of {} ({client} and \
                    {server} at {})",
                    mark.frame,
                    span.what,
                    seconds(mark.time_ns)
                );
                return Some(match self.instead.get(&(at, place)) {
                    Some(instead) => format!("{wanted} but {instead}"),
                    None if self.is_live => format!(
                        "it does not belong to the trace: it has no frame of {} ({client} and \
                        {server} at {})",
                        span.what,
                        seconds(mark.time_ns)
                    ),
                    None => format!("{wanted}: it has fewer"),
                });
            }
        }
        match self.found {
            0 => Some("it has no frame of what was asked for".to_owned()),
            _ => None,
        }
    }

    fn is_wanted(&mut self, frame: &Frame) -> bool {
        let descriptor = *frame.descriptor();
        let is_marked = |mark: &Mark| match self.is_live {
            true => descriptor.stamp_ns == Some(mark.time_ns),
            false => descriptor.number == mark.frame,
        };
        let in_time = |span: &Span| {
            { descriptor.stamp_ns }.is_some_and(|at| span.from_ns <= at && at <= span.until_ns)
        };
        let is_near = |span: &Span| in_time(span) || span.marks.iter().any(is_marked);
        if !self.spans.iter().any(is_near) {
            return false;
        }
        let wire_len = descriptor.wire_len as usize;
        let packet = Packet::of(dissect(descriptor.link_type.0, frame.bytes(), wire_len));
        let mut is_wanted = false;
        for (at, span) in self.spans.iter().enumerate() {
            let fits = packet.as_ref().is_some_and(|packet| packet.is_of(span));
            is_wanted |= fits && in_time(span);
            for (place, mark) in span.marks.iter().enumerate() {
                if !is_marked(mark) {
                    continue;
                }
                if fits && descriptor.stamp_ns == Some(mark.time_ns) {
                    self.seen.insert((at, place), true);
                } else if !self.is_live {
                    let name = self.names.get(usize::from(descriptor.input));
                    let stamp = descriptor
                        .stamp_ns
                        .map_or_else(String::new, |ns| format!(" at {}", seconds(ns)));
                    let what = packet
                        .as_ref()
                        .map_or_else(|| "no IP packet".to_owned(), Packet::text);
                    let of = name.map_or_else(String::new, |name| format!(" of {name}"));
                    let instead = format!("{what}{stamp}{of}");
                    self.instead.entry((at, place)).or_insert(instead);
                }
            }
        }
        is_wanted
    }
}

impl Consumer for Search {
    fn on_burst(&mut self, burst: &mut Burst) -> Step {
        for frame in burst.drain(..) {
            if self.is_wanted(&frame) {
                self.found += 1;
                if self.keeps {
                    self.frames.push(frame);
                }
            }
        }
        Step::Continue
    }
}

/// Whose a packet is. A part of an IP packet has no ports.
struct Packet {
    ends: [(IpAddr, Option<u16>); 2],
    is_tcp: Option<bool>,
}

impl Packet {
    fn of(dissected: Dissected) -> Option<Self> {
        let (ip, ports, is_tcp) = match dissected {
            Dissected::Tcp(ip, tcp) => (
                ip,
                Some([tcp.source_port, tcp.destination_port]),
                Some(true),
            ),
            Dissected::Udp(ip, udp) => (
                ip,
                Some([udp.source_port, udp.destination_port]),
                Some(false),
            ),
            // In IPv6 the first header may be another than that of TCP or UDP.
            Dissected::Fragment(ip, fragment) => match fragment.protocol {
                PROTOCOL_TCP => (ip, None, Some(true)),
                PROTOCOL_UDP => (ip, None, Some(false)),
                _ => (ip, None, None),
            },
            _ => return None,
        };
        let port = |at: usize| ports.map(|ports| ports[at]);
        Some(Self {
            ends: [(ip.source, port(0)), (ip.destination, port(1))],
            is_tcp,
        })
    }

    fn is_of(&self, span: &Span) -> bool {
        let is = |(address, port): (IpAddr, Option<u16>), end: SocketAddr| {
            address == end.ip() && port.is_none_or(|port| port == end.port())
        };
        let [source, destination] = self.ends;
        let [client, server] = span.ends;
        self.is_tcp.is_none_or(|is_tcp| is_tcp == span.is_tcp)
            && (is(source, client) && is(destination, server)
                || is(source, server) && is(destination, client))
    }

    fn text(&self) -> String {
        let end = |(address, port): (IpAddr, Option<u16>)| match port {
            Some(port) => SocketAddr::new(address, port).to_string(),
            None => address.to_string(),
        };
        format!("{} to {}", end(self.ends[0]), end(self.ends[1]))
    }
}

/// As tshark's `frame.time_epoch` has it.
fn seconds(ns: i64) -> String {
    format!(
        "{}.{:09}",
        ns.div_euclid(1_000_000_000),
        ns.rem_euclid(1_000_000_000)
    )
}
