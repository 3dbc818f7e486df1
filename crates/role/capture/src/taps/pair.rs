//! Two taps of the same packets: which is nearer to the server, how far apart they and their
//! clocks are, which frames go away.
//!
//! ```text
//!  client ── tap ═══════ to the server ═══════► tap ── server
//!             t1 ──────────────────────────────► t2        t2 - t1 = way there + clocks' offset
//!             t4 ◄────────────────────────────── t3        t4 - t3 = way back  - clocks' offset
//! ```
//!
//! The sum of the least of both is the round trip between the taps, whatever their clocks: if it
//! is negative, the taps are the other way around. Half of the difference is the offset, as NTP
//! estimates it (RFC 5905, 8): it supposes that the fastest packets take as long there as back.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use lineside_trace::{TwoTaps, WayBetween};
use lineside_wire::Direction;
use lineside_words::{grouped, time};

use super::flows::{Flow, Flows, Key, Packet, Tap};
use super::matching::Index;

/// Ports at which servers listen although their callers' may be lower: NFS, rpcbind, mountd.
const SERVER_PORTS: [u16; 3] = [2049, 111, 20048];

/// Clocks that are further apart are not of one time: frames that only the other tap has would be
/// in the wrong place.
const OFFSET_MAX_NS: i64 = 1_000_000_000;

/// An acknowledgement this long before or after all that the server's tap has of a connection shows
/// nothing new: the last one of a connection, which was on its way when that tap ended.
const EDGE_NS: i64 = 1_000_000_000;

/// What a pair of taps comes to.
pub(super) struct Outcome {
    /// The taps, the server's last.
    pub(super) taps: [Tap; 2],
    pub(super) facts: TwoTaps,
    pub(super) note: String,
    /// Frames that go away, by input and number.
    pub(super) dropped: Vec<(u16, u32)>,
    /// The other tap's stamps.
    pub(super) stamps: Vec<((u16, u32), i64)>,
}

/// Times between the taps in each direction, from the first tap to the second.
type Between = [Vec<i64>; 2];

/// What is known of a connection.
struct Known {
    /// The direction to the server.
    to_server: Direction,
    between: Between,
    /// Which of the taps is the server's, if it can be known.
    server_tap: Option<usize>,
}

pub(super) fn compare(flows: &mut Flows, taps: [Tap; 2], inputs: &[PathBuf]) -> Outcome {
    let servers = servers(&flows.by_key);
    let mut known = BTreeMap::new();
    for (key, flow) in &mut flows.by_key {
        let hosts = key.hosts();
        let to_server = match key.is_of_fragments() {
            true => servers.get(&hosts).map(|(_, way)| *way),
            false => None,
        };
        let to_server = to_server.unwrap_or_else(|| to_server_of(key, flow));
        if taps[0] == taps[1] {
            split(flow, to_server);
        }
        known.insert(*key, judge(key, flow, to_server));
    }
    let votes = votes(&known);
    let add = |sum: [usize; 2], vote: &[usize; 2]| [sum[0] + vote[0], sum[1] + vote[1]];
    let all = votes.values().fold([0; 2], add);
    let most = usize::from(all[1] > all[0]);
    let mut sums = Sums::default();
    for (key, flow) in &flows.by_key {
        let known = &known[key];
        if known.between.iter().all(Vec::is_empty) {
            // Another connection of the same ends.
            continue;
        }
        let both = flow
            .packets
            .each_ref()
            .map(|tap| tap.iter().all(|way| !way.is_empty()));
        let nearer = match (both, votes.get(&server_of(key, known.to_server))) {
            ([true, false], _) => 0,
            ([false, true], _) => 1,
            (_, Some(vote)) if vote[0] != vote[1] => usize::from(vote[1] > vote[0]),
            _ => most,
        };
        sums.add(key, flow, (known, nearer, nearer == most), taps);
    }
    sums.finish(most, taps, inputs)
}

/// For two hosts, the direction to the server of the connection with most packets.
fn servers(flows: &BTreeMap<Key, Flow>) -> BTreeMap<[IpAddr; 2], (usize, Direction)> {
    let mut servers = BTreeMap::new();
    for (key, flow) in flows.iter().filter(|(key, _)| !key.is_of_fragments()) {
        let packets = flow.packets.iter().flatten().map(Vec::len).sum();
        let most = servers
            .entry(key.hosts())
            .or_insert((0, Direction::Forward));
        if packets > most.0 {
            *most = (packets, to_server_of(key, flow));
        }
    }
    servers
}

/// Which tap each server's connections have at its side, in packets.
fn votes(known: &BTreeMap<Key, Known>) -> BTreeMap<IpAddr, [usize; 2]> {
    let mut votes = BTreeMap::<_, [usize; 2]>::new();
    for (key, known) in known {
        if let Some(tap) = known.server_tap {
            votes.entry(server_of(key, known.to_server)).or_default()[tap] +=
                known.between.iter().map(Vec::len).sum::<usize>();
        }
    }
    votes
}

fn server_of(key: &Key, to_server: Direction) -> IpAddr {
    key.hosts()[to_server.opposite().index()]
}

/// Who opened it, or else who has the port of a server.
fn to_server_of(key: &Key, flow: &Flow) -> Direction {
    let ports = key.ports();
    let is_server = ports.map(|port| SERVER_PORTS.contains(&port));
    flow.opener.unwrap_or(match is_server {
        [true, false] => Direction::Reverse,
        [false, true] => Direction::Forward,
        // The first end is called, so what goes there is of the second.
        _ if ports[0] < ports[1] => Direction::Reverse,
        _ => Direction::Forward,
    })
}

/// Each packet of a file twice: the first copies are of the tap that it passed first. That is the
/// sender's, but where a reply would come before its call: there one clock is behind.
fn split(flow: &mut Flow, to_server: Direction) {
    let mut by_order = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    for direction in Direction::BOTH {
        let mut counts = BTreeMap::<(u32, u32, u32, u32), usize>::new();
        for packet in std::mem::take(&mut flow.packets[0][direction]) {
            let Packet {
                sequence,
                len,
                mark,
                acknowledgement,
                ..
            } = packet;
            let count = counts
                .entry((sequence, len, mark, acknowledgement))
                .or_default();
            by_order[*count % 2][direction].push(packet);
            *count += 1;
        }
    }
    let [first, second] = by_order;
    flow.packets = [first, second];
    let back = to_server.opposite();
    if !answers_early(flow, to_server) {
        let [first, second] = &mut flow.packets;
        std::mem::swap(&mut first[back], &mut second[back]);
    }
}

/// Whether first copies of what the server sends acknowledge what second copies only bring later.
fn answers_early(flow: &Flow, to_server: Direction) -> bool {
    let [calls, replies] = [
        &flow.packets[1][to_server],
        &flow.packets[0][to_server.opposite()],
    ];
    let mut ends = BTreeMap::<u32, i64>::new();
    for call in calls.iter().filter(|call| call.len > 0) {
        ends.entry(call.sequence.wrapping_add(call.len))
            .or_insert(call.stamp_ns);
    }
    let early = |reply: &&Packet| {
        ends.get(&reply.acknowledgement)
            .is_some_and(|came_ns| *came_ns > reply.stamp_ns)
    };
    2 * replies.iter().filter(early).count() > replies.len()
}

fn indexes<'a>(key: &Key, taps: [&'a [Packet]; 2]) -> [Index<'a>; 2] {
    let origin = taps[0].first().map_or(0, |first| first.sequence);
    taps.map(|packets| Index::new(packets, origin, key.is_tcp()))
}

fn judge(key: &Key, flow: &Flow, to_server: Direction) -> Known {
    let between = Direction::BOTH.map(|direction| {
        let [one, other] = indexes(
            key,
            [0, 1].map(|tap| flow.packets[tap][direction].as_slice()),
        );
        let took = other
            .last_bytes()
            .filter_map(|(byte, packet)| packet.stamp_ns.checked_sub(one.sure(byte, packet)?));
        let mut took: Vec<_> = took.collect();
        took.sort_unstable();
        took
    });
    let there = between[to_server].first();
    let back = between[to_server.opposite()].last();
    let server_tap = there
        .zip(back)
        .and_then(|(there, back)| match there.saturating_sub(*back) {
            0 => None,
            round_trip => Some(usize::from(round_trip > 0)),
        });
    Known {
        to_server,
        between,
        server_tap,
    }
}

fn median(sorted: &[i64]) -> Option<i64> {
    sorted.get(sorted.len() / 2).copied()
}

/// Sums over the connections of a pair.
#[derive(Default)]
struct Sums {
    connections: u64,
    packets: u64,
    /// Later at the server's tap by, and later at the other one by.
    ways: [Vec<i64>; 2],
    lost: [u64; 2],
    unseen: [u64; 2],
    dropped: Vec<(u16, u32)>,
    stamps: Vec<((u16, u32), i64)>,
}

impl Sums {
    fn add(
        &mut self,
        key: &Key,
        flow: &Flow,
        (known, nearer, is_usual): (&Known, usize, bool),
        taps: [Tap; 2],
    ) {
        let sign = if nearer == 1 { 1 } else { -1 };
        let [client, server] = [&flow.packets[1 - nearer], &flow.packets[nearer]];
        // From the client's tap to the server's, by the clocks.
        let usual = Direction::BOTH.map(|way| median(&known.between[way]).map(|ns| sign * ns));
        let usual = Direction::BOTH.map(|way| {
            usual[way]
                .or_else(|| usual[way.opposite()])
                .unwrap_or_default()
        });
        let offset_ns = (usual[0] + usual[1]) / 2;
        let has_both = known.between.iter().all(|way| !way.is_empty());
        let stamps = server.iter().flatten().map(|packet| packet.stamp_ns);
        let watched = stamps.clone().min().zip(stamps.max());
        let is_same = { known.between.iter().flatten() }
            .all(|ns| *ns == sign * usual[0] && (*ns == 0 || has_both));
        self.connections += 1;
        for way in Direction::BOTH {
            let [at_client, at_server] = indexes(key, [&client[way], &server[way]]);
            for (byte, packet) in at_server.last_bytes() {
                let Some(stamp_ns) = at_client.likely(byte, packet, usual[way]) else {
                    continue;
                };
                self.packets += 1;
                if !is_same {
                    let place = (taps[nearer].input, packet.frame);
                    self.stamps.push((place, stamp_ns));
                }
            }
            let is_seen: Vec<_> = at_client
                .last_bytes()
                .map(|(byte, packet)| (packet.frame, at_server.with_byte(byte).next().is_some()))
                .collect();
            let mut seen = is_seen.into_iter().peekable();
            for packet in &client[way] {
                let has_bytes = seen.next_if(|(frame, _)| *frame == packet.frame);
                let at_ns = packet.stamp_ns.saturating_add(usual[way]);
                let is_watched = |edge_ns| is_within(watched, edge_ns, at_ns);
                let goes = match has_bytes {
                    Some((_, true)) => true,
                    // Nothing else brings these bytes.
                    Some((_, false)) => is_watched(0) && offset_ns.abs() > OFFSET_MAX_NS,
                    None => is_watched(EDGE_NS),
                };
                if goes {
                    self.dropped.push((taps[1 - nearer].input, packet.frame));
                }
            }
            if is_usual {
                let place = usize::from(way != known.to_server);
                let took = known.between[way].iter();
                let sign = if place == 0 { sign } else { -sign };
                self.ways[place].extend(took.map(|ns| sign * ns));
                let [from, to] = match place {
                    0 => [&at_client, &at_server],
                    _ => [&at_server, &at_client],
                };
                let usual_ns = if place == 0 { usual[way] } else { -usual[way] };
                let [lost, unseen] = lost(from, to, usual_ns);
                self.lost[place] += lost;
                self.unseen[place] += unseen;
            }
        }
    }

    fn finish(mut self, server_tap: usize, taps: [Tap; 2], inputs: &[PathBuf]) -> Outcome {
        self.ways.iter_mut().for_each(|way| way.sort_unstable());
        let least = { self.ways[0].first().copied() }.zip(self.ways[1].first().copied());
        let offset_ns = least.map(|(there, back)| (there - back) / 2);
        let way = |way: &[i64], offset_ns: i64| -> Option<WayBetween> {
            let at = |quantile: usize| {
                Some(way.get((way.len() * quantile / 100).min(way.len() - 1))? - offset_ns)
            };
            if way.is_empty() {
                return None;
            }
            Some(WayBetween {
                least_ns: at(0)?,
                median_ns: at(50)?,
                p99_ns: at(99)?,
            })
        };
        let name = |which: usize| {
            let path = inputs[usize::from(taps[which].input)].display();
            let side = if which == server_tap {
                "server"
            } else {
                "client"
            };
            match taps[0].input == taps[1].input {
                true if taps[0] == taps[1] => format!("{path} (copies at the {side}'s side)"),
                true => format!("{path} (interface {})", taps[which].interface),
                false => path.to_string(),
            }
        };
        let facts = TwoTaps {
            server_tap: name(server_tap),
            client_tap: name(1 - server_tap),
            connections: self.connections,
            packets: self.packets,
            round_trip_ns: least.map(|(there, back)| there + back),
            clock_offset_ns: offset_ns,
            to_server: offset_ns.and_then(|offset| way(&self.ways[0], offset)),
            to_client: offset_ns.and_then(|offset| way(&self.ways[1], -offset)),
            lost_to_server: self.lost[0],
            lost_to_client: self.lost[1],
            unseen_by_server_tap: self.unseen[0],
            unseen_by_client_tap: self.unseen[1],
        };
        let note = match self.stamps.is_empty() {
            true => format!(
                "{} has the packets of {} at the same distances in time: it is the same capture \
                 again, and its frames are left out",
                facts.client_tap, facts.server_tap
            ),
            false => note(&facts),
        };
        Outcome {
            taps: [taps[1 - server_tap], taps[server_tap]],
            facts,
            note,
            dropped: self.dropped,
            stamps: self.stamps,
        }
    }
}

/// Packets that were sent and did not arrive, and those of whose bytes the other tap has none.
fn lost(from: &Index<'_>, to: &Index<'_>, usual_ns: i64) -> [u64; 2] {
    let (mut lost, mut unseen) = (0, 0);
    let Some([first_ns, last_ns]) = to.span() else {
        return [0; 2];
    };
    let mut seen = std::collections::HashSet::new();
    for (byte, packet) in from.last_bytes() {
        let copies = to.with_byte(byte).count();
        let at_ns = packet.stamp_ns.saturating_add(usual_ns);
        if copies == 0 {
            unseen += u64::from((first_ns..=last_ns).contains(&at_ns));
        } else if seen.insert(byte) {
            lost += from.with_byte(byte).count().saturating_sub(copies) as u64;
        }
    }
    [lost, unseen]
}

fn note(facts: &TwoTaps) -> String {
    let clocks = match (facts.round_trip_ns, facts.clock_offset_ns) {
        (Some(round_trip_ns), Some(0)) => format!(
            "a round trip between them takes {}; their clocks agree",
            time(round_trip_ns.unsigned_abs()),
        ),
        (Some(round_trip_ns), Some(offset_ns)) => format!(
            "a round trip between them takes {}; the clock of the first is {} {} that of the other",
            time(round_trip_ns.unsigned_abs()),
            time(offset_ns.unsigned_abs()),
            if offset_ns < 0 { "behind" } else { "ahead of" },
        ),
        _ => "they have packets of one direction in common, which shows neither the distance nor \
              the clocks' offset"
            .to_owned(),
    };
    format!(
        "{} and {} are two taps of one path ({} packets are in both): rows are of the first, which \
         is nearer to the server; {clocks}",
        facts.server_tap,
        facts.client_tap,
        grouped(facts.packets)
    )
}

/// Whether an instant lies in a span, or at most `edge_ns` outside of it.
fn is_within(span: Option<(i64, i64)>, edge_ns: i64, at_ns: i64) -> bool {
    span.is_some_and(|(first_ns, last_ns)| {
        let [first_ns, last_ns] = [
            first_ns.saturating_sub(edge_ns),
            last_ns.saturating_add(edge_ns),
        ];
        (first_ns..=last_ns).contains(&at_ns)
    })
}
