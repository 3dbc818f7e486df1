//! Connections that do not come about or stand still, in captures that are made here: each kind
//! has its finding, with place and cause; what is like one and harmless has none.

use std::net::IpAddr;

use lineside_analyze::{Filter, Finding, Place, report};
use lineside_rows::{ConnectionRow, LossRow, Row};
use lineside_testkit::capture::{self, Frame};
use lineside_wire::TcpFlags;
use lineside_wire::build::{FrameBuilder, TcpFields};
use lineside_wire::ethernet::ether_type;
use tempfile::TempDir;

use crate::support::{Record, lineside, records, talk};

const BEGIN_NS: i64 = 1_700_000_000_000_000_000;
const MICROSECOND_NS: i64 = 1_000;
pub(crate) const MILLISECOND_NS: i64 = 1_000_000;
const SECOND_NS: i64 = 1_000_000_000;
const SYN: TcpFlags = TcpFlags::SYN;
pub(crate) const ACK: TcpFlags = TcpFlags::ACK;
pub(crate) const RST: TcpFlags = TcpFlags::RST;
const FIN: TcpFlags = TcpFlags::FIN;
/// The ends of a connection.
pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;
/// The kinds that are judged here.
const KINDS: [&str; 4] = ["unreachable", "cb_path_down", "no_progress", "delayed_ack"];

/// A connection between two ends, segment by segment.
#[derive(Clone)]
pub(crate) struct Way {
    addresses: [IpAddr; 2],
    ports: [u16; 2],
    vlan: Option<u16>,
    /// The next sequence number of each end, and its window.
    pub(crate) next: [u32; 2],
    windows: [u16; 2],
    at_ns: i64,
    xid: u32,
    frames: Vec<Frame>,
}

impl Way {
    pub(crate) fn new(client: &str, server: &str, ports: [u16; 2]) -> Self {
        Self {
            addresses: [client, server].map(|text| text.parse().expect("an address")),
            ports,
            vlan: None,
            next: [u32::from(ports[0]) * 1_000, 4_000_000_000],
            windows: [20_000; 2],
            at_ns: BEGIN_NS,
            xid: u32::from(ports[0]) << 16,
            frames: Vec::new(),
        }
    }

    fn nfs() -> Self {
        Self::new("192.0.2.10", "198.51.100.20", [700, 2049])
    }

    pub(crate) fn later(&mut self, ns: i64) -> &mut Self {
        self.at_ns += ns;
        self
    }

    /// A segment of an end that changes nothing of what is known here.
    pub(crate) fn segment(
        &mut self,
        end: usize,
        sequence: u32,
        flags: TcpFlags,
        options: &[u8],
        bytes: &[u8],
    ) {
        let acknowledgement = match flags.contains(ACK) {
            true => self.next[1 - end],
            false => 0,
        };
        let fields = TcpFields {
            source_port: self.ports[end],
            destination_port: self.ports[1 - end],
            sequence,
            acknowledgement,
            flags,
            window: self.windows[end],
            options,
        };
        let mut builder = FrameBuilder::new(self.addresses[end], self.addresses[1 - end]);
        if let Some(id) = self.vlan {
            builder = builder.with_tag(ether_type::VLAN, id);
        }
        let bytes = builder.tcp(&fields, bytes);
        self.frames.push(Frame {
            stamp_ns: Some(self.at_ns),
            wire_len: bytes.len() as u32,
            link_type: 1,
            bytes,
        });
        self.at_ns += 20 * MICROSECOND_NS;
    }

    /// The next segment of an end.
    pub(crate) fn send(&mut self, end: usize, flags: TcpFlags, bytes: &[u8]) {
        self.segment(end, self.next[end], flags, &[], bytes);
        let marks = u32::from(flags.contains(SYN)) + u32::from(flags.contains(FIN));
        self.next[end] = self.next[end].wrapping_add(bytes.len() as u32 + marks);
    }

    pub(crate) fn acknowledge(&mut self, end: usize) {
        self.send(end, ACK, &[]);
    }

    /// A SYN that was not answered is sent once more.
    fn ask(&mut self) {
        self.segment(CLIENT, self.next[CLIENT], SYN, &[], &[]);
    }

    pub(crate) fn open(&mut self) -> &mut Self {
        self.send(CLIENT, SYN, &[]);
        self.send(SERVER, SYN | ACK, &[]);
        self.acknowledge(CLIENT);
        self
    }

    /// The next call: GETATTR of NFSv3.
    pub(crate) fn call(&mut self) -> u32 {
        self.xid += 1;
        let words = [self.xid, 0, 2, 100_003, 3, 1, 0, 0, 0, 0, 8, 1, 2];
        self.send(CLIENT, ACK, &record(&words, 0));
        self.xid
    }

    pub(crate) fn reply(&mut self, xid: u32) {
        let mut words = vec![xid, 1, 0, 0, 0, 0, 0];
        words.extend([
            1, 0o644, 1, 0, 0, 0, 100, 0, 100, 0, 0, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0,
        ]);
        self.send(SERVER, ACK, &record(&words, 0));
    }

    pub(crate) fn operations(&mut self, count: usize) -> &mut Self {
        for _ in 0..count {
            let xid = self.call();
            self.reply(xid);
        }
        self.acknowledge(CLIENT);
        self
    }

    /// What an end sent last, `len` bytes from `sequence` on, comes again after 0.2, 0.4, ... s.
    fn back_off(&mut self, end: usize, sequence: u32, len: usize, times: u32) {
        for time in 0..times {
            self.later((200 * MILLISECOND_NS) << time);
            self.segment(end, sequence, ACK, &[], &vec![7; len]);
        }
    }

    /// An acknowledgement of an end up to `up_to`, and of a block.
    fn acknowledge_block(&mut self, end: usize, up_to: u32, block: [u32; 2]) {
        let mut options = vec![1, 1, 5, 10];
        block
            .iter()
            .for_each(|edge| options.extend(edge.to_be_bytes()));
        let next = std::mem::replace(&mut self.next[1 - end], up_to);
        self.segment(end, self.next[end], ACK, &options, &[]);
        self.next[1 - end] = next;
    }
}

/// An RPC record of these words and so many bytes.
fn record(words: &[u32], more: usize) -> Vec<u8> {
    let len = (4 * words.len() + more) as u32;
    let mut bytes = (len | 1 << 31).to_be_bytes().to_vec();
    words
        .iter()
        .for_each(|word| bytes.extend(word.to_be_bytes()));
    bytes.resize(bytes.len() + more, 7);
    bytes
}

/// The trace of a capture of these connections.
pub(crate) fn captured(ways: &[&Way]) -> TempDir {
    let frames = ways.iter().flat_map(|way| way.frames.iter().cloned());
    let mut frames: Vec<Frame> = frames.collect();
    frames.sort_by_key(|frame| frame.stamp_ns);
    let folder = tempfile::tempdir().expect("a folder");
    let (input, out) = (folder.path().join("in.pcap"), folder.path().join("trace"));
    std::fs::write(&input, capture::write(&frames)).expect("written");
    let mut command = lineside();
    command.args(["capture", "-q", "-o"]).arg(&out).arg(&input);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", talk(&output));
    folder
}

/// What a capture shows.
struct Shown {
    findings: Vec<Finding>,
    connections: Vec<Record>,
    losses: Vec<Record>,
}

impl Shown {
    fn of(ways: &[&Way]) -> Self {
        let folder = captured(ways);
        let out = folder.path().join("trace");
        Self {
            findings: report(&out, &Filter::default()).expect("a trace").findings,
            connections: records(&out, ConnectionRow::TABLE),
            losses: records(&out, LossRow::TABLE),
        }
    }

    /// Those of the kinds of this file.
    fn found(&self) -> Vec<&Finding> {
        { self.findings.iter() }
            .filter(|finding| KINDS.contains(&finding.kind))
            .collect()
    }

    /// The one finding, which is of this kind and how.
    fn only(&self, kind: &str, how: &str) -> &Finding {
        let [finding] = self.found()[..] else {
            panic!("not one finding: {:#?}", self.found());
        };
        assert_eq!(
            (finding.kind, &finding.basis["how"]),
            (kind, &how.into()),
            "{finding:#?}"
        );
        finding
    }

    /// A time that an interval repeats if it began in one before.
    fn longest(&self, column: &str) -> i64 {
        let times = self
            .connections
            .iter()
            .filter_map(|row| row.integer(column));
        times.max().unwrap_or(0)
    }

    fn sum(&self, column: &str) -> i64 {
        self.connections
            .iter()
            .filter_map(|row| row.integer(column))
            .sum()
    }
}

fn seconds_after(finding: &Finding) -> f64 {
    (finding.since_ns.expect("a begin") - BEGIN_NS) as f64 / 1e9
}

/// SYNs that nobody answers, 1, 2, 4, ... seconds apart.
pub(crate) fn ask_for_a_minute(way: &mut Way) {
    for time in 0..6 {
        way.ask();
        way.later(SECOND_NS << time);
    }
}

#[test]
fn a_port_that_nobody_answers_is_unreachable() {
    for (client, server, vlan) in [
        ("192.0.2.10", "198.51.100.20", None),
        ("2001:db8::10", "2001:db8::20", Some(42)),
    ] {
        let mut way = Way::new(client, server, [700, 2049]);
        way.vlan = vlan;
        way.open().operations(20).later(20 * SECOND_NS);
        way.send(SERVER, RST | ACK, &[]);
        way.next[CLIENT] += 1_000_000;
        way.later(SECOND_NS);
        ask_for_a_minute(&mut way);
        let shown = Shown::of(&[&way]);
        let finding = shown.only("unreachable", "unanswered");
        assert!(finding.what.contains("6 SYNs"), "{finding:#?}");
        assert!(
            (21.0..21.1).contains(&seconds_after(finding)),
            "{finding:#?}"
        );
        assert_eq!((finding.until_ns, finding.who.as_str()), (None, client));
        assert_eq!(shown.sum("client_syns"), 7);
        assert_eq!(
            (shown.sum("server_syns"), shown.sum("server_resets")),
            (1, 1)
        );
    }
}

/// A mount of a dead server: the capture has nothing else.
#[test]
fn a_capture_of_syns_alone_names_who_does_not_answer() {
    let mut way = Way::nfs();
    ask_for_a_minute(&mut way);
    let shown = Shown::of(&[&way]);
    let finding = shown.only("unreachable", "unanswered");
    assert_eq!(finding.place, Some(Place::CannotTell));
    // One SYN at the end of a capture may be answered yet; HTTP is another's matter.
    let mut last = Way::nfs();
    last.ask();
    let mut http = Way::new("192.0.2.10", "198.51.100.20", [40_000, 80]);
    ask_for_a_minute(&mut http);
    assert_eq!(Shown::of(&[&last]).found().len(), 0);
    assert_eq!(Shown::of(&[&http]).found().len(), 0);
}

#[test]
fn a_syn_that_is_answered_late_is_no_finding() {
    let mut way = Way::nfs();
    way.ask();
    way.later(SECOND_NS);
    way.open().operations(10);
    way.send(CLIENT, FIN | ACK, &[]);
    way.send(SERVER, FIN | ACK, &[]);
    way.acknowledge(CLIENT);
    let shown = Shown::of(&[&way]);
    assert_eq!(shown.found().len(), 0, "{:#?}", shown.found());
    assert_eq!((shown.sum("client_syns"), shown.sum("client_fins")), (2, 1));
}

/// rpcbind answers, the port of mountd does not listen.
#[test]
fn mountd_that_refuses_is_unreachable() {
    let mut way = Way::nfs();
    way.open().operations(5);
    let mut mount = Way::new("192.0.2.10", "198.51.100.20", [800, 20_048]);
    mount.at_ns = way.at_ns;
    for _ in 0..3 {
        mount.later(SECOND_NS).ask();
        mount.next[CLIENT] += 1;
        mount.segment(SERVER, 0, RST | ACK, &[], &[]);
        mount.next[CLIENT] += 10_000;
    }
    let shown = Shown::of(&[&way, &mount]);
    let finding = shown.only("unreachable", "refused");
    assert_eq!(finding.place, Some(Place::Server));
    assert!(finding.what.contains("198.51.100.20:20048"), "{finding:#?}");
    assert_eq!(shown.sum("refused"), 3);
}

#[test]
fn a_scan_of_ports_beside_is_no_finding() {
    let mut way = Way::nfs();
    way.open().operations(5);
    let scans = [("192.0.2.10", 3_000), ("203.0.113.9", 1)].map(|(from, first)| {
        let ports = first..first + 300;
        ports.map(move |port| {
            let mut scan = Way::new(from, "198.51.100.20", [50_000, port]);
            scan.at_ns += i64::from(port) * MILLISECOND_NS;
            scan.ask();
            scan.next[CLIENT] += 1;
            scan.segment(SERVER, 0, RST | ACK, &[], &[]);
            scan
        })
    });
    let scans: Vec<Way> = scans
        .into_iter()
        .flatten()
        .filter(|scan| scan.ports[1] != 111)
        .collect();
    let ways: Vec<&Way> = scans.iter().chain([&way]).collect();
    let shown = Shown::of(&ways);
    assert_eq!(shown.found().len(), 0, "{:#?}", shown.found());
}

/// The server holds a connection that its client has forgotten; the RST never reaches it.
#[test]
fn a_challenge_ack_is_named() {
    for has_seen_the_old_one in [true, false] {
        let mut way = Way::nfs();
        if has_seen_the_old_one {
            way.open().operations(5);
        }
        let old = way.next;
        for _ in 0..4 {
            way.later(SECOND_NS);
            way.next = [old[0] + 5_000_000, old[1]];
            way.ask();
            way.next = old;
            way.acknowledge(SERVER);
        }
        let shown = Shown::of(&[&way]);
        let finding = shown.only("unreachable", "challenged");
        assert!(finding.what.contains('4'), "{finding:#?}");
        assert_eq!(shown.sum("challenged"), 4);
    }
}

/// A server that is behind a firewall of one direction.
#[test]
fn answers_that_do_not_reach_the_client_are_unfinished() {
    let mut way = Way::nfs();
    for _ in 0..4 {
        way.ask();
        way.next[CLIENT] += 1;
        way.segment(SERVER, way.next[SERVER], SYN | ACK, &[], &[]);
        way.next[CLIENT] -= 1;
        way.later(SECOND_NS);
    }
    let shown = Shown::of(&[&way]);
    assert_eq!(
        shown.only("unreachable", "unfinished").place,
        Some(Place::Network)
    );
}

#[test]
fn connections_that_are_reset_in_a_loop_are_unreachable() {
    let loops: Vec<Way> = (0..5)
        .map(|number| {
            let mut way = Way::new("192.0.2.10", "198.51.100.20", [700 + number, 2049]);
            way.later(i64::from(number) * 3 * SECOND_NS).open().call();
            way.send(SERVER, RST | ACK, &[]);
            way
        })
        .collect();
    let ways: Vec<&Way> = loops.iter().collect();
    let finding = Shown::of(&ways);
    let finding = finding.only("unreachable", "reset");
    assert_eq!(finding.basis["connections"], 5);
    assert_eq!(Shown::of(&ways[..2]).found().len(), 0, "two are no loop");
}

#[test]
fn a_callback_that_does_not_come_about_is_a_path_down() {
    let mut way = Way::nfs();
    way.open().operations(5);
    let mut back = Way::new("198.51.100.20", "192.0.2.10", [900, 45_678]);
    back.at_ns = way.at_ns;
    ask_for_a_minute(&mut back);
    let shown = Shown::of(&[&way, &back]);
    let finding = shown.only("cb_path_down", "unanswered");
    assert!(finding.what.contains("recalls cannot come"), "{finding:#?}");
}

/// Of one direction alone answers are missing everywhere: nothing is known of them.
#[test]
fn a_capture_of_one_direction_has_no_finding_of_requests() {
    let mut way = Way::nfs();
    way.open().operations(20);
    let mut other = Way::new("192.0.2.10", "198.51.100.20", [701, 2049]);
    other.later(SECOND_NS);
    ask_for_a_minute(&mut other);
    way.frames
        .retain(|frame| frame.bytes[26..30] == [192, 0, 2, 10]);
    let shown = Shown::of(&[&way, &other]);
    assert_eq!(shown.found().len(), 0, "{:#?}", shown.found());
}

/// The end that shuts its window, and for how long; the other one asks for room.
fn shut_window(end: usize, rest: i64, times: u32) -> Way {
    let mut way = Way::nfs();
    way.open().operations(10);
    way.send(1 - end, ACK, &[7; 1_000]);
    let window = std::mem::replace(&mut way.windows[end], 0);
    way.acknowledge(end);
    for time in 0..times {
        way.later(rest << time);
        way.segment(1 - end, way.next[1 - end] - 1, ACK, &[], &[]);
        way.acknowledge(end);
    }
    way.windows[end] = window;
    way
}

#[test]
fn a_window_that_stays_shut_is_named_with_whose_it_is() {
    for (end, place, who) in [
        (SERVER, Place::Server, "198.51.100.20"),
        (CLIENT, Place::Client, "192.0.2.10"),
    ] {
        let shown = Shown::of(&[&shut_window(end, 200 * MILLISECOND_NS, 8)]);
        let finding = shown.only("no_progress", "window_shut");
        assert_eq!((finding.place, finding.who.as_str()), (Some(place), who));
        let name = ["client", "server"][end];
        assert_eq!(finding.basis["whose"], name);
        let shut_ns = shown.longest(&format!("{name}_shut_ns"));
        assert!(
            (51 * SECOND_NS..52 * SECOND_NS).contains(&shut_ns),
            "{shut_ns}"
        );
    }
}

#[test]
fn a_window_that_is_shut_for_moments_is_no_finding() {
    for end in [SERVER, CLIENT] {
        let mut way = shut_window(end, 5 * MILLISECOND_NS, 4);
        // It opens, much later it is shut again.
        way.later(MILLISECOND_NS).acknowledge(end);
        way.later(10 * SECOND_NS);
        way.windows[end] = 0;
        way.acknowledge(end);
        // Nobody asks for room while there is nothing to send.
        way.later(30 * SECOND_NS);
        way.windows[end] = 1_000;
        way.acknowledge(end);
        let shown = Shown::of(&[&way]);
        assert_eq!(shown.found().len(), 0, "{:#?}", shown.found());
    }
}

/// A full segment does not get through, the short one after it does; with the tap where `is_seen`.
fn hole(end: usize, is_seen: bool) -> Way {
    let mut way = Way::nfs();
    way.open().operations(10);
    let up_to = way.next[end];
    let full: Vec<u8> = record(&[7; 10], 2_000)[..1_448].to_vec();
    way.send(end, ACK, &full);
    if !is_seen {
        way.frames.pop();
    }
    let start = way.next[end];
    way.send(end, ACK, &[7; 500]);
    let block = [start, way.next[end]];
    for time in 0..6 {
        way.acknowledge_block(1 - end, up_to, block);
        way.later((200 * MILLISECOND_NS) << time);
        if is_seen {
            way.segment(end, up_to, ACK, &[], &full);
        }
    }
    way.acknowledge_block(1 - end, up_to, block);
    way
}

#[test]
fn segments_too_long_for_the_way_are_an_mtu_hole() {
    for (end, is_seen) in [
        (CLIENT, true),
        (SERVER, true),
        (CLIENT, false),
        (SERVER, false),
    ] {
        let shown = Shown::of(&[&hole(end, is_seen)]);
        let finding = shown.only("no_progress", "mtu_hole");
        assert_eq!(finding.place, Some(Place::Network));
        for size in ["1,448", "500"] {
            assert!(finding.what.contains(size), "{finding:#?}");
        }
        let name = ["client", "server"][end];
        assert_eq!(finding.basis["from"], name);
        let stuck_ns = shown.longest(&format!("{name}_stuck_ns"));
        assert!(
            (12 * SECOND_NS..13 * SECOND_NS).contains(&stuck_ns),
            "{stuck_ns}"
        );
        let causes: Vec<_> = shown.losses.iter().map(|row| row.text("cause")).collect();
        let expected = if is_seen { vec![] } else { vec![Some("lost")] };
        assert_eq!(causes, expected, "the receiver asked for them");
        assert!({ shown.findings.iter() }.all(|finding| finding.kind != "loss"));
    }
}

/// The sender finds a size that passes, as Linux does with tcp_mtu_probing=1.
#[test]
fn a_hole_whose_sender_finds_the_size_names_both() {
    let mut way = Way::nfs();
    way.open().operations(10);
    let up_to = way.next[SERVER];
    way.send(SERVER, ACK, &[7; 1_448]);
    way.back_off(SERVER, up_to, 1_448, 3);
    way.later(1_600 * MILLISECOND_NS);
    way.segment(SERVER, up_to, ACK, &[], &[7; 524]);
    way.acknowledge(CLIENT);
    way.later(SECOND_NS).operations(10);
    let shown = Shown::of(&[&way]);
    let finding = shown.only("no_progress", "mtu_hole");
    assert!(
        finding.what.contains("1,448") && finding.what.contains("524"),
        "{finding:#?}"
    );
}

#[test]
fn replies_that_nobody_acknowledges_are_named() {
    let mut way = Way::nfs();
    way.open().operations(10);
    let xid = way.call();
    let up_to = way.next[SERVER];
    way.reply(xid);
    way.back_off(SERVER, up_to, 112, 6);
    let shown = Shown::of(&[&way]);
    let finding = shown.only("no_progress", "unacknowledged");
    assert_eq!(finding.basis["from"], "server");
}

/// A segment that is lost once, twice, and comes again soon: the network loses, no more.
#[test]
fn losses_that_are_made_up_for_are_no_standstill() {
    let mut way = Way::nfs();
    way.open().operations(10);
    for times in 1..3 {
        let up_to = way.next[SERVER];
        way.send(SERVER, ACK, &[7; 1_448]);
        let start = way.next[SERVER];
        way.send(SERVER, ACK, &[7; 500]);
        let block = [start, way.next[SERVER]];
        way.acknowledge_block(CLIENT, up_to, block);
        way.back_off(SERVER, up_to, 1_448, times);
        way.acknowledge(CLIENT);
        way.later(SECOND_NS);
    }
    let shown = Shown::of(&[&way]);
    assert_eq!(shown.found().len(), 0, "{:#?}", shown.found());
    assert!(shown.longest("server_stuck_ns") > 600 * MILLISECOND_NS);
}

/// Two calls at once: the second reply waits at the server for the acknowledgement of the first.
fn replies_that_wait(delay_ns: i64, is_slow_server: bool) -> Way {
    let mut way = Way::nfs();
    way.open();
    let mut first = way.call();
    for _ in 0..60 {
        let second = way.call();
        way.reply(first);
        way.later(delay_ns);
        if is_slow_server {
            // The acknowledgement came long before; it frees nothing.
            way.at_ns -= delay_ns - 30 * MILLISECOND_NS;
            way.acknowledge(CLIENT);
            way.at_ns += delay_ns - 30 * MILLISECOND_NS;
        } else {
            way.acknowledge(CLIENT);
        }
        first = second;
    }
    way.reply(first);
    way
}

#[test]
fn replies_freed_by_acknowledgements_are_not_the_servers_time() {
    let shown = Shown::of(&[&replies_that_wait(40 * MILLISECOND_NS, false)]);
    let finding = { shown.findings.iter() }.find(|finding| finding.kind == "delayed_ack");
    let finding = finding.expect("it is found");
    assert_eq!(finding.place, Some(Place::Client));
    assert!({ shown.findings.iter() }.all(|finding| finding.kind != "slow_server"));
    assert_eq!(shown.sum("reply_ack_waits"), 60);
    // The same times, but the server answers long after the acknowledgement.
    let shown = Shown::of(&[&replies_that_wait(80 * MILLISECOND_NS, true)]);
    assert_eq!(shown.sum("reply_ack_waits"), 0);
    assert!({ shown.findings.iter() }.any(|finding| finding.kind == "slow_server"));
}
