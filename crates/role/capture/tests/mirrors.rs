//! What a switch mirrors: in tunnels, in fragments, twice. The rows are those of the plain capture.
//!
//! A test that cannot run prints one line that begins with `SKIP: ` and says why; `./test` counts
//! these.

use std::path::PathBuf;

use lineside_account::{Budget, Counter, Counters};
use lineside_capture::{Config, Pipeline};
use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_rows::{CollectedRows, ConnectionRow, OperationRow, Text};
use lineside_testkit::wrap::{self, Wrap};
use lineside_testkit::{capture, captures};

/// Frames of a capture that are compared: more would only take longer.
const FRAMES_MAX: usize = 2500;

fn run_as(frames: &[capture::Frame], config: Config) -> (CollectedRows, Counters) {
    let budget = Budget::new(256 << 20);
    let mut pipeline = Pipeline::new(config, &budget, CollectedRows::default());
    for (index, frame) in frames.iter().enumerate() {
        let number = index as u64 + 1;
        let descriptor = Descriptor {
            stamp_ns: frame.stamp_ns,
            wire_len: frame.wire_len,
            link_type: LinkType(frame.link_type),
            number,
            ordinal: number,
            ..Descriptor::default()
        };
        let mut burst = Burst::new();
        burst.push(Frame::copied(&frame.bytes, descriptor));
        pipeline.on_burst(&mut burst);
    }
    let (rows, counters) = pipeline.finish();
    assert_eq!(counters.broken_identity(), None);
    assert_eq!(budget.used_bytes(), 0);
    (rows, counters)
}

fn run(frames: &[capture::Frame]) -> (CollectedRows, Counters) {
    run_as(frames, Config::default())
}

/// Ids and frame numbers as 0: they depend on how many frames there are.
fn plain(rows: &CollectedRows) -> CollectedRows {
    let mut rows = CollectedRows {
        operations: rows.operations.clone(),
        nfs: rows.nfs.clone(),
        nfs4: rows.nfs4.clone(),
        services: rows.services.clone(),
        checksums: rows.checksums.clone(),
        connections: rows.connections.clone(),
        files: rows.files.clone(),
        losses: rows.losses.clone(),
        ..CollectedRows::default()
    };
    // The order in which several operations end is no part of the result.
    rows.nfs.sort_by_key(|row| row.operation_id);
    rows.nfs4.sort_by_key(|row| row.operation_id);
    rows.services.sort_by_key(|row| row.operation_id);
    for row in &mut rows.operations {
        (row.operation_id, row.rpc_id, row.connection_id) = (0, 0, 0);
        row.repeat_of = row.repeat_of.map(|_| 0);
        row.call_frame = row.call_frame.map(|_| 0);
        row.reply_frame = row.reply_frame.map(|_| 0);
    }
    rows.operations
        .sort_by_key(|row| (row.call_time_ns, row.reply_time_ns, row.xid));
    rows.nfs.iter_mut().for_each(|row| row.operation_id = 0);
    rows.nfs4.iter_mut().for_each(|row| row.operation_id = 0);
    rows.services
        .iter_mut()
        .for_each(|row| row.operation_id = 0);
    rows.checksums
        .iter_mut()
        .for_each(|row| row.operation_id = 0);
    rows.files.iter_mut().for_each(|row| row.operation_id = 0);
    rows.losses
        .iter_mut()
        .for_each(|row| row.connection_id = None);
    for row in &mut rows.connections {
        row.connection_id = 0;
        for text in [
            &mut row.vlan_ids,
            &mut row.encapsulation,
            &mut row.tunnel_ids,
        ] {
            *text = Text::default();
        }
        (row.outer_source_address, row.outer_destination_address) = (None, None);
    }
    rows
}

/// Operations and their data.
fn assert_same(what: &str, wrapped: &CollectedRows, whole: &CollectedRows) {
    let (wrapped, whole) = (plain(wrapped), plain(whole));
    assert_eq!(wrapped.operations.len(), whole.operations.len(), "{what}");
    for (mine, theirs) in wrapped.operations.iter().zip(&whole.operations) {
        assert_eq!(mine, theirs, "{what}");
    }
    // Not `assert_eq`, which would print all rows.
    assert!(wrapped.nfs == whole.nfs, "{what}: nfs");
    assert!(wrapped.nfs4 == whole.nfs4, "{what}: nfs4");
    assert!(wrapped.services == whole.services, "{what}: services");
    let counts = |rows: &CollectedRows| [rows.files.len(), rows.losses.len()];
    assert_eq!(counts(&wrapped), counts(&whole), "{what}");
    let blocks = |rows: &CollectedRows| {
        let mut blocks: Vec<_> = rows
            .checksums
            .iter()
            .map(|row| (row.block, row.checksum))
            .collect();
        blocks.sort_unstable();
        blocks
    };
    assert!(blocks(&wrapped) == blocks(&whole), "{what}: checksums");
}

/// The captures at hand, the example first: name and frames.
fn captures() -> Vec<(String, Vec<capture::Frame>)> {
    let read = |path: &PathBuf| {
        let mut frames = capture::read(path).ok()?;
        frames.truncate(FRAMES_MAX);
        Some((path.display().to_string(), frames))
    };
    captures::all().iter().filter_map(read).collect()
}

fn text(text: &Text) -> String {
    String::from_utf8_lossy(text.bytes().unwrap_or_default()).into_owned()
}

fn is_untagged(row: &ConnectionRow) -> bool {
    row.vlan_ids.bytes().is_none()
}

#[test]
fn a_capture_in_tunnels_gives_the_rows_of_the_plain_one() {
    let mut operations = 0;
    for (at, (name, frames)) in captures().iter().enumerate() {
        // Behind a tag there is more than IP, which some tunnels do not carry: then the frame stays
        // as it is.
        let (rows, counters) = run(frames);
        operations += rows.operations.len();
        for (which, how) in Wrap::ALL.into_iter().enumerate() {
            // Every tunnel around the example, and three of them around each other capture.
            if at > 0 && (which + at) % 5 > 0 {
                continue;
            }
            // What has no length of its own is found by headers that are right; those of some
            // captures, which were made to crash readers, are not.
            if at > 0 && matches!(how, Wrap::L2tp3 | Wrap::L2tp3Udp | Wrap::MplsUdp) {
                continue;
            }
            let what = format!("{name} in {how:?}");
            let wrapped = wrap::wrap_all(frames, how);
            let (mine, mine_counters) = run(&wrapped);
            assert_same(&what, &mine, &rows);
            let connections = [&mine, &rows].map(|rows| {
                let mut connections = plain(rows).connections;
                for row in &mut connections {
                    // Frames are longer by their tunnel.
                    (row.client_peak_1ms_bytes, row.client_peak_1s_bytes) = (0, 0);
                    (row.server_peak_1ms_bytes, row.server_peak_1s_bytes) = (0, 0);
                }
                connections
            });
            assert_eq!(connections[0], connections[1], "{what}");
            for outcome in [
                Counter::FramesTcp,
                Counter::FramesUdp,
                Counter::FramesFragment,
            ] {
                assert_eq!(
                    mine_counters.value(outcome),
                    counters.value(outcome),
                    "{what}"
                );
            }
            for (row, bare) in mine.connections.iter().zip(&rows.connections) {
                if is_untagged(bare) {
                    let layers = [&row.encapsulation, &row.tunnel_ids, &row.vlan_ids].map(text);
                    assert_eq!(layers, how.expected(), "{what}");
                }
            }
        }
    }
    assert!(operations > 500, "{operations}");
}

/// Both the tunnel's packets and those inside, which their sender had to fragment, are put
/// together. Two virtual networks in which the same hosts, by their addresses and ports, say the
/// same a moment later.
#[test]
fn networks_with_the_same_addresses_are_distinguished() {
    let (_, frames) = &captures()[0];
    let one = wrap::wrap_all(frames, Wrap::Vxlan);
    let mut other = wrap::wrap_all(frames, Wrap::Geneve);
    for frame in &mut other {
        frame.stamp_ns = frame.stamp_ns.map(|stamp| stamp + 5_000_000);
    }
    let mut both = [one.as_slice(), &other].concat();
    both.sort_by_key(|frame| frame.stamp_ns);
    let (rows, counters) = run(&both);
    assert_eq!(counters.broken_identity(), None);
    assert_eq!(counters.value(Counter::FramesDuplicate), 0);
    let mut apart = plain(&run(&one).0);
    let second = plain(&run(&other).0);
    apart.operations.extend(second.operations);
    apart.checksums.extend(second.checksums);
    apart.connections.extend(second.connections);
    let (rows, apart) = (plain(&rows), plain(&apart));
    assert_eq!(rows.operations.len(), 2 * run(frames).0.operations.len());
    assert!(rows.operations == apart.operations, "operations");
    let blocks = |rows: &CollectedRows| {
        let mut blocks: Vec<_> = { rows.checksums.iter() }
            .map(|row| (row.block, row.checksum))
            .collect();
        blocks.sort_unstable();
        blocks
    };
    assert!(blocks(&rows) == blocks(&apart), "checksums");
    assert_eq!(rows.connections.len(), apart.connections.len());
}

/// A host at the end of a tunnel shows what it sends before it is wrapped and what it receives
/// while it still is.
#[test]
fn a_packet_outside_its_tunnel_is_of_the_same_connection() {
    let (_, frames) = &captures()[0];
    let wrapped = wrap::wrap_all(frames, Wrap::Vxlan);
    let is_from_client = |frame: &capture::Frame| {
        let source = frame.bytes.get(26..30).unwrap_or(&[]);
        source.last().is_some_and(|last| last % 2 == 0)
    };
    let mixed: Vec<_> = { frames.iter().zip(&wrapped) }
        .map(|(frame, wrapped)| match is_from_client(frame) {
            true => frame.clone(),
            false => wrapped.clone(),
        })
        .collect();
    let (rows, whole) = (plain(&run(&mixed).0), plain(&run(frames).0));
    assert!(rows.operations == whole.operations, "operations");
}

#[test]
fn fragments_of_tunnels_are_put_together_first() {
    let mut fragments = 0;
    for (name, frames) in captures() {
        // Without their rest, fragments of a packet wait for it where the packet itself does not.
        if frames
            .iter()
            .any(|frame| frame.wire_len as usize > frame.bytes.len())
        {
            continue;
        }
        let (rows, _) = run(&frames);
        let wrapped = wrap::wrap_all(&frames, Wrap::Vxlan);
        let parts = wrapped.iter().flat_map(|frame| wrap::fragment(frame, 504));
        let parts: Vec<_> = parts.collect();
        let (mine, counters) = run(&parts);
        assert_same(&name, &mine, &rows);
        fragments += counters.value(Counter::FramesFragment);
    }
    assert!(fragments > 1000, "{fragments}");
}

#[test]
fn a_capture_mirrored_twice_gives_the_rows_of_one_copy() {
    let mut duplicates = 0;
    for (name, frames) in captures() {
        let (rows, counters) = run(&frames);
        if counters.value(Counter::FramesDuplicate) > 0 {
            // Copies are there already, and a copy of a copy may come too late after the first.
            continue;
        }
        let taken = |counters: &Counters| {
            let outcomes = [
                Counter::FramesTcp,
                Counter::FramesUdp,
                Counter::FramesFragment,
            ];
            outcomes.map(|outcome| counters.value(outcome))
        };
        for how in [None, Some(Wrap::ErspanII)] {
            let what = format!("{name}, {how:?}");
            let mut mirrored = wrap::mirror(&frames, 20_000);
            if let Some(how) = how {
                mirrored = wrap::wrap_all(&mirrored, how);
            }
            let (mine, mine_counters) = run(&mirrored);
            assert_eq!(mine.operations.len(), rows.operations.len(), "{what}");
            assert_eq!(taken(&mine_counters), taken(&counters), "{what}");
            duplicates += mine_counters.value(Counter::FramesDuplicate);
        }
    }
    assert!(duplicates > 1000, "{duplicates}");
}

/// The example with checksums as they are on a wire, seen by two taps.
fn example_of_two_taps() -> (Vec<capture::Frame>, Vec<capture::Frame>) {
    let (_, mut frames) = captures().swap_remove(0);
    for frame in &mut frames {
        lineside_wire::complete_checksum(frame.link_type, &mut frame.bytes);
    }
    let both = wrap::mirror(&frames, 0);
    (frames, both)
}

/// Whether a frame is the one that `wrap::mirror` made.
fn is_copy(frame: &capture::Frame) -> bool {
    frame.bytes[6..12] == [2, 0, 0, 0, 0, 0x77]
}

/// Where the payload of a frame's TCP segment begins, if it has any.
fn tcp_payload(frame: &capture::Frame) -> Option<usize> {
    match lineside_wire::dissect(1, &frame.bytes, frame.wire_len as usize) {
        lineside_wire::Dissected::Tcp(_, tcp) if tcp.payload_len > 0 => Some(tcp.payload),
        _ => None,
    }
}

/// A tap with a snap length beside one without.
#[test]
fn of_two_copies_the_longer_one_is_read() {
    let (frames, both) = example_of_two_taps();
    let (rows, _) = run(&frames);
    for kept in [0, 1, 60, 400] {
        for cuts_copies in [false, true] {
            let mut both = both.clone();
            for frame in both
                .iter_mut()
                .filter(|frame| is_copy(frame) == cuts_copies)
            {
                if let Some(payload) = tcp_payload(frame) {
                    frame.bytes.truncate(payload + kept);
                }
            }
            let (mine, counters) = run(&both);
            let what = format!("{kept} bytes, copies {cuts_copies}");
            assert_same(&what, &mine, &rows);
            assert_eq!(counters.value(Counter::StreamLost), 0, "{what}");
        }
    }
}

/// Where the payload of a frame's datagram or fragment begins.
fn datagram_payload(frame: &capture::Frame) -> Option<usize> {
    match lineside_wire::dissect(1, &frame.bytes, frame.wire_len as usize) {
        lineside_wire::Dissected::Udp(_, udp) => Some(udp.payload),
        lineside_wire::Dissected::Fragment(ip, _) => Some(ip.payload),
        _ => None,
    }
}

/// Of datagrams and of fragments; the copies come before the next packet, or after the answer.
#[test]
fn of_two_copies_of_a_datagram_the_longer_one_is_read() {
    let (frames, _) = example_of_two_taps();
    let (rows, _) = run(&frames);
    let parts = frames.iter().flat_map(|frame| {
        let wire_len = frame.wire_len as usize;
        match lineside_wire::dissect(1, &frame.bytes, wire_len) {
            lineside_wire::Dissected::Fragment(..) => vec![frame.clone()],
            _ => wrap::fragment(frame, 504),
        }
    });
    let parts: Vec<_> = parts.collect();
    for (kind, frames) in [("datagrams", &frames), ("fragments", &parts)] {
        for (kept, delay_ns) in [(12, 0), (50, 20_000), (13, 400_000), (200, 900_000)] {
            for cuts_copies in [false, true] {
                let mut cut = 0;
                let mut both = wrap::mirror(frames, delay_ns);
                for frame in both
                    .iter_mut()
                    .filter(|frame| is_copy(frame) == cuts_copies)
                {
                    if let Some(payload) = datagram_payload(frame) {
                        cut += u64::from(frame.bytes.len() > payload + kept);
                        frame.bytes.truncate(payload + kept);
                    }
                }
                let (mine, counters) = run(&both);
                let what = format!("{kind}, {kept} bytes, {delay_ns} ns, copies {cuts_copies}");
                assert!(cut > 10, "{what}: {cut}");
                assert_same(&what, &mine, &rows);
                let copies = counters.value(Counter::FramesDuplicate);
                assert_eq!(copies, frames.len() as u64, "{what}");
            }
        }
    }
}

#[test]
fn what_only_cut_copies_have_is_lost_as_without_them() {
    let (mut frames, mut both) = example_of_two_taps();
    for frame in frames.iter_mut().chain(&mut both) {
        if let Some(payload) = tcp_payload(frame) {
            frame.bytes.truncate(payload + 150);
        }
    }
    let (rows, counters) = run(&frames);
    let (mine, mine_counters) = run(&both);
    // In which order connections come to their holes is no part of the result.
    assert_eq!(plain(&mine).operations, plain(&rows).operations);
    for counter in [
        Counter::StreamLost,
        Counter::StreamDelivered,
        Counter::HolesSnapLength,
    ] {
        assert_eq!(
            mine_counters.value(counter),
            counters.value(counter),
            "{counter:?}"
        );
    }
}

#[test]
fn of_a_damaged_and_a_right_copy_the_right_one_is_read() {
    let (frames, both) = example_of_two_taps();
    let (rows, _) = run(&frames);
    for damages_copies in [false, true] {
        let mut both = both.clone();
        let mut damaged = 0;
        for (at, frame) in both.iter_mut().enumerate().skip(100) {
            if at % 5 < 2 && is_copy(frame) == damages_copies && tcp_payload(frame).is_some() {
                *frame.bytes.last_mut().expect("a frame") ^= 0x10;
                damaged += 1;
            }
        }
        let (mine, counters) = run(&both);
        assert_same("damaged", &mine, &rows);
        assert_eq!(counters.value(Counter::FramesDamaged), damaged);
        assert_eq!(counters.value(Counter::StreamLost), 0);
        assert_eq!(counters.value(Counter::FramesDamagedNotTcp), 0);
    }
}

/// Without a right copy its bytes are a hole, and no row has them.
#[test]
fn a_damaged_segment_is_not_read() {
    let (mut frames, _) = example_of_two_taps();
    let mut lost = 0;
    for frame in frames.iter_mut().skip(100).step_by(40) {
        if let Some(payload) = tcp_payload(frame) {
            lost += (frame.bytes.len() - payload) as u64;
            *frame.bytes.last_mut().expect("a frame") ^= 0x10;
        }
    }
    assert!(lost > 0);
    let (_, counters) = run(&frames);
    assert_eq!(counters.value(Counter::StreamLost), lost);
}

/// Other sequence numbers than those of the example.
fn shift_numbers(frames: &mut [capture::Frame]) {
    for frame in frames {
        let (bytes, len) = (&mut frame.bytes, frame.wire_len as usize);
        let lineside_wire::Dissected::Tcp(ip, _) = lineside_wire::dissect(1, bytes, len) else {
            continue;
        };
        let segment = &mut bytes[ip.payload..];
        for at in [4, 8] {
            segment[at] ^= 0x40;
        }
        segment[16..18].fill(0);
        let end = ip.payload_len.min(segment.len());
        let sum = lineside_wire::checksum::transport(
            ip.source,
            ip.destination,
            ip.protocol,
            &segment[..end],
        );
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
    }
}

#[test]
fn directions_in_networks_of_their_own_are_one_connection() {
    let (frames, _) = example_of_two_taps();
    let (rows, _) = run(&frames);
    for in_vlans in [false, true] {
        let (mine, counters) = run(&wrap::routed(&frames, [7, 9], in_vlans));
        assert_same("routed", &mine, &rows);
        assert_eq!(mine.connections.len(), rows.connections.len());
        assert_eq!(counters.value(Counter::StreamLost), 0);
    }
}

/// The same four-tuples in other networks, whose directions have identifiers of their own too.
#[test]
fn four_tuples_of_two_routed_networks_are_distinguished() {
    let (mut frames, _) = example_of_two_taps();
    // Datagrams have no numbers that tell them apart.
    let is_udp = |frame: &capture::Frame| frame.bytes.get(23) == Some(&17);
    frames.retain(|frame| !is_udp(frame));
    let (rows, _) = run(&frames);
    for in_vlans in [false, true] {
        let one = wrap::routed(&frames, [7, 9], in_vlans);
        let mut others = frames.clone();
        shift_numbers(&mut others);
        let mut others = wrap::routed(&others, [17, 19], in_vlans);
        for frame in &mut others {
            frame.stamp_ns = frame.stamp_ns.map(|stamp| stamp + 5_000);
        }
        let mut both = [one, others].concat();
        both.sort_by_key(|frame| frame.stamp_ns);
        let (mine, counters) = run(&both);
        assert_eq!(
            mine.connections.len(),
            2 * rows.connections.len(),
            "VLANs {in_vlans}"
        );
        assert_eq!(
            mine.operations.len(),
            2 * rows.operations.len(),
            "VLANs {in_vlans}"
        );
        let missing = |row: &&OperationRow| row.call_missing || row.reply_missing;
        assert_eq!(
            mine.operations.iter().filter(missing).count(),
            2 * rows.operations.iter().filter(missing).count()
        );
        assert_eq!(counters.value(Counter::StreamLost), 0);
    }
}
