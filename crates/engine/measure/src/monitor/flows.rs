//! Flows: how large they are, how long they take, what they lose, and what a monitor by flow has of
//! each.

use std::fmt;

use lineside_time::Nanoseconds;
use lineside_wire::tcp::{TcpOption, TcpOptions};
use lineside_wire::{Dissected, PROTOCOL_TCP, TcpFlags, TcpHeader};

use super::bins::Room;
use super::flow_table::{Entry, FlowKey, FlowTable, Tracked};
use super::tcp_stream::{HOLES_MAX, Reordered, TcpStream};
use super::{Bin, Bins, FlowCounts, FlowFacts, Monitor, Packet, Rows, Scale, Window};

/// Which distributions of flows are wanted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wanted {
    pub(super) sizes: bool,
    pub(super) times: bool,
    pub(super) windows: bool,
    pub(super) reordering: bool,
}

/// Makes the monitors that each flow has of its own.
pub(super) struct Make(pub(super) Box<dyn Fn() -> Vec<Box<dyn Monitor>> + Send>);

impl fmt::Debug for Make {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Make")
    }
}

/// The flows of a point.
#[derive(Debug)]
pub(super) struct Flows {
    wanted: Wanted,
    make: Make,
    table: FlowTable<Flow>,
    /// Those of no flow, and of flows without a place.
    others: Flow,
    over: Distributions,
    /// Holes of all streams.
    holes: usize,
}

/// Holes that all streams of a table may have before each keeps few: 3 MB of them.
const HOLES_ALL: usize = 1 << 17;

/// Those few.
const HOLES_FEW: usize = 4;

/// Distributions over flows.
#[derive(Debug, Clone)]
struct Distributions {
    packets: Bins,
    bytes: Bins,
    completion: Bins,
    windows: Bins,
    unscaled_windows: Bins,
    extent: Bins,
    n: Bins,
}

/// A flow, and the monitors that it has of its own.
#[derive(Debug, Default)]
pub(super) struct Flow {
    facts: FlowFacts,
    stream: Option<TcpStream>,
    monitors: Vec<Box<dyn Monitor>>,
}

impl Tracked for Flow {
    fn is_over(&self) -> bool {
        self.facts.tcp.is_some_and(|tcp| tcp.end.is_some())
    }

    fn last_ns(&self) -> Nanoseconds {
        self.facts.last_ns.unwrap_or(Nanoseconds::MIN)
    }
}

impl Flow {
    fn new(monitors: Vec<Box<dyn Monitor>>) -> Self {
        Self {
            monitors,
            ..Self::default()
        }
    }

    #[inline]
    fn on_packet(&mut self, flow_id: i64, packet: &Packet<'_>, out: &mut dyn Rows) {
        let facts = &mut self.facts;
        if let Some(time_ns) = packet.head.time_ns {
            facts.first_ns.get_or_insert(time_ns);
            facts.last_ns = Some(time_ns);
        }
        facts.packets += 1;
        facts.bytes += u64::from(packet.head.wire_len);
        for monitor in &mut self.monitors {
            monitor.on_packet(packet, &mut OfFlow { flow_id, out });
        }
    }

    /// A segment of this flow passed.
    #[inline]
    fn on_segment(
        &mut self,
        tcp: &TcpHeader,
        shift: Option<u8>,
        holes_max: usize,
    ) -> Option<Reordered> {
        self.facts.payload_bytes += tcp.payload_len as u64;
        let stream = self.stream.get_or_insert_default();
        let reordered = stream.on_segment(tcp, shift, holes_max);
        let facts = self.facts.tcp.get_or_insert_default();
        if tcp.flags.contains(TcpFlags::RST) {
            facts.end.get_or_insert(false);
        } else if tcp.flags.contains(TcpFlags::FIN) && facts.end.is_none() {
            facts.end = Some(true);
            let is_whole = self
                .stream
                .as_ref()
                .is_some_and(|stream| stream.scale.is_some());
            let times = self.facts.first_ns.zip(self.facts.last_ns);
            let times = times.filter(|_| is_whole);
            facts.completion_ns = times.map(|(first, last)| last.abs_diff(first));
        }
        reordered
    }

    /// What is known of it now.
    fn facts(&self, flow_id: i64, key: Option<FlowKey>) -> FlowFacts {
        let mut facts = FlowFacts {
            flow_id,
            key,
            ..self.facts
        };
        if let (Some(tcp), Some(stream)) = (&mut facts.tcp, &self.stream) {
            tcp.retransmitted_bytes = stream.retransmitted_bytes;
            tcp.reordered_packets = stream.reordered;
            tcp.reordering_max =
                (stream.reordered > 0).then_some((stream.extent_max, stream.n_max));
            tcp.window_scale = stream.scale;
            tcp.windows = stream.windows;
        }
        facts
    }

    fn report(&self, flow_id: i64, out: &mut dyn Rows) {
        for monitor in &self.monitors {
            monitor.report(&mut OfFlow { flow_id, out });
        }
    }

    fn holes(&self) -> usize {
        self.stream.as_ref().map_or(0, TcpStream::holes)
    }

    fn memory_bytes(&self) -> usize {
        let monitors = self.monitors.iter().map(|monitor| monitor.memory_bytes());
        let stream = self.stream.as_ref().map_or(0, TcpStream::memory_bytes);
        monitors.sum::<usize>() + stream
    }
}

impl Distributions {
    fn new(room: &Room) -> Self {
        let bins = |metric| Bins::new(metric, Scale::LogLinear).drawn_on(Some(room));
        Self {
            packets: bins("flow_packets"),
            bytes: bins("flow_bytes"),
            completion: bins("flow_completion_ns"),
            windows: bins("tcp_window_bytes"),
            unscaled_windows: bins("tcp_window_unscaled_bytes"),
            extent: bins("reordering_extent_packets"),
            n: bins("n_reordering_packets"),
        }
    }

    /// A flow that will not change any more, or counts as it stands.
    fn add_flow(&mut self, wanted: Wanted, facts: &FlowFacts) {
        if wanted.sizes {
            self.packets.add(facts.packets);
            self.bytes.add(facts.bytes);
        }
        if wanted.times
            && let Some(time_ns) = facts.tcp.and_then(|tcp| tcp.completion_ns)
        {
            self.completion.add(time_ns);
        }
    }

    fn all(&self) -> [&Bins; 7] {
        [
            &self.packets,
            &self.bytes,
            &self.completion,
            &self.windows,
            &self.unscaled_windows,
            &self.extent,
            &self.n,
        ]
    }
}

impl Flows {
    /// Each flow gets the monitors that `make` makes, for which the table draws.
    pub(super) fn new(wanted: Wanted, table: FlowTable<Flow>, make: Make, room: &Room) -> Self {
        Self {
            wanted,
            table,
            others: Flow::new((make.0)()),
            make,
            over: Distributions::new(room),
            holes: 0,
        }
    }

    /// The place of a packet's flow, which may begin with it; `None` if it counts to the others.
    #[inline]
    fn place(&mut self, packet: &Packet<'_>, out: &mut dyn Rows) -> Option<usize> {
        let key = FlowKey::of(packet.headers)?;
        if let Some(place) = self.table.find(&key) {
            if let Dissected::Tcp(_, tcp) = packet.headers {
                let stream = self.table.entry(place).state.stream.as_ref();
                if stream.is_some_and(|stream| stream.is_begun_anew(tcp)) {
                    Self::give(self.wanted, &mut self.over, self.table.entry(place), out);
                    self.holes -= self.table.entry(place).state.holes();
                    let state = Flow::new((self.make.0)());
                    self.table.restart(place, state);
                }
            }
            return Some(place);
        }
        let now = packet.head.time_ns.unwrap_or(Nanoseconds::MIN);
        let state = Flow::new((self.make.0)());
        let (wanted, over, holes) = (self.wanted, &mut self.over, &mut self.holes);
        let evicted = |entry: &Entry<Flow>| {
            *holes -= entry.state.holes();
            Self::give(wanted, over, entry, out);
        };
        self.table.insert(key, now, state, evicted)
    }

    /// Gives a flow that is over.
    fn give(wanted: Wanted, over: &mut Distributions, flow: &Entry<Flow>, out: &mut dyn Rows) {
        let facts = flow.state.facts(flow.flow_id, Some(flow.key));
        over.add_flow(wanted, &facts);
        out.flow(&facts);
        flow.state.report(flow.flow_id, out);
    }

    #[inline]
    fn on_segment(&mut self, place: usize, tcp: &TcpHeader, head: &[u8]) {
        let mut shift = None;
        if tcp.flags.contains(TcpFlags::SYN) {
            shift = window_scale(tcp, head);
            if tcp.flags.contains(TcpFlags::ACK) && shift.is_none() {
                self.refuse_scale(place);
            }
        }
        let holes_max = match self.holes < HOLES_ALL {
            true => HOLES_MAX,
            false => HOLES_FEW,
        };
        let flow = self.table.state_mut(place);
        let holes = flow.holes();
        let reordered = flow.on_segment(tcp, shift, holes_max);
        self.holes = self.holes + flow.holes() - holes;
        if self.wanted.windows
            && !tcp.flags.contains(TcpFlags::RST)
            && let Some(stream) = &flow.stream
        {
            let window = stream.window_bytes(tcp);
            let is_known = stream.scale.is_some();
            match is_known {
                true => self.over.windows.add(window),
                false => self.over.unscaled_windows.add(window),
            }
        }
        if let Some(Reordered { extent, n }) = reordered
            && self.wanted.reordering
        {
            self.over.extent.add(extent);
            self.over.n.add(n);
        }
    }

    /// The other end does not scale windows, so neither does this one (RFC 7323, 2.2).
    fn refuse_scale(&mut self, place: usize) {
        let reversed = self.table.entry(place).key.reversed();
        if let Some(place) = self.table.find(&reversed)
            && let Some(stream) = &mut self.table.state_mut(place).stream
        {
            stream.scale = stream.scale.and(Some(0));
        }
    }
}

/// The window scale that a SYN offers.
fn window_scale(tcp: &TcpHeader, head: &[u8]) -> Option<u8> {
    let options_len = tcp.header_len.checked_sub(lineside_wire::tcp::HEADER_LEN)?;
    let end = tcp.payload.min(head.len());
    let options = head.get(tcp.payload.checked_sub(options_len)?.min(end)..end)?;
    TcpOptions::new(options).find_map(|option| match option {
        Ok(TcpOption::WindowScale(shift)) => Some(shift),
        _ => None,
    })
}

impl Monitor for Flows {
    fn on_packet(&mut self, packet: &Packet<'_>, out: &mut dyn Rows) {
        let Some(place) = self.place(packet, out) else {
            self.others.on_packet(0, packet, out);
            return;
        };
        let flow_id = self.table.entry(place).flow_id;
        self.table.state_mut(place).on_packet(flow_id, packet, out);
        match packet.headers {
            Dissected::Tcp(_, tcp) => self.on_segment(place, tcp, packet.head.bytes),
            Dissected::Udp(_, udp) => {
                let facts = &mut self.table.state_mut(place).facts;
                facts.payload_bytes += udp.payload_len as u64;
            }
            _ => {}
        }
    }

    fn report(&self, out: &mut dyn Rows) {
        let mut all = self.over.clone();
        // In the order in which they came, whatever place they have.
        let mut flows: Vec<_> = self.table.iter().collect();
        flows.sort_unstable_by_key(|flow| flow.flow_id);
        for flow in flows {
            Self::give(self.wanted, &mut all, flow, out);
        }
        if self.others.facts.packets > 0 {
            out.flow(&self.others.facts(0, None));
            self.others.report(0, out);
        }
        all.all().into_iter().for_each(|bins| bins.report(out));
    }

    /// Only of what all flows have together, and of those that are over: there may be millions.
    fn summarize(&self, out: &mut dyn Rows) {
        self.over
            .all()
            .into_iter()
            .for_each(|bins| bins.report(out));
    }

    fn flows(&self) -> Option<FlowCounts> {
        Some(self.table.counts())
    }

    fn memory_bytes(&self) -> usize {
        let flows = self.table.iter().map(|flow| flow.state.memory_bytes());
        let bins = self.over.all().into_iter().map(Bins::memory_bytes);
        self.table.memory_bytes() + flows.chain(bins).sum::<usize>()
    }
}

impl FlowFacts {
    /// Whether the packets are TCP's.
    pub fn is_tcp(&self) -> bool {
        self.key.is_some_and(|key| key.protocol == PROTOCOL_TCP)
    }
}

/// Rows of a flow.
struct OfFlow<'a> {
    flow_id: i64,
    out: &'a mut dyn Rows,
}

impl Rows for OfFlow<'_> {
    fn bin(&mut self, bin: Bin) {
        self.out.bin(Bin {
            flow_id: Some(self.flow_id),
            ..bin
        });
    }

    fn window(&mut self, window: Window) {
        self.out.window(Window {
            flow_id: Some(self.flow_id),
            ..window
        });
    }

    fn flow(&mut self, flow: &FlowFacts) {
        self.out.flow(flow);
    }
}
