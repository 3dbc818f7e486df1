//! Captures that would have a reader believe what never was: file data that holds messages, missed
//! directions, answers that contradict their calls, bytes that are none of any message. Each kind
//! by seed, on one core and on two.

use lineside_actor::Schedule;
use lineside_run::{Evidence, judge};
use lineside_trace::{State, Verdict};

use super::again::{CALL, REPLY, Wire, lookup, words};
use super::*;

const SEEDS_OF_A_KIND: u64 = 40;
const SEGMENT: usize = 1448;

/// Rows and verdict of a kind, which are the same on two cores.
fn judged(wire: &Wire, what: &str) -> (CollectedRows, Counters, Verdict) {
    let frames = wire.frames.iter().map(|frame| (0, frame));
    let schedules = [(2, Schedule::Simulated { seed: 7 })];
    on_cores::compare(what, &Memory::new(frames), Config::default(), &schedules);
    let (rows, counters) = run(&wire.frames);
    let verdict = judge(&Evidence {
        counters: counters.clone(),
        looks_for_rpc: true,
        ..Evidence::default()
    });
    (rows, counters, verdict)
}

fn is_incomplete(verdict: &Verdict, reason: &str, what: &str) {
    assert_eq!(verdict.state, State::Incomplete, "{what}");
    let has = verdict.reasons.iter().any(|known| known.contains(reason));
    assert!(has, "{what}: {:?}", verdict.reasons);
}

/// Records of LOOKUPs, as a program that reads a stream of them stores them: calls, replies or
/// both.
fn stored(first: u32, count: u32, kinds: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for xid in first..first + count {
        let [call, reply] = lookup(xid, b"a name that is stored", 9);
        let parts = match kinds % 3 {
            0 => vec![call],
            1 => vec![reply],
            _ => vec![call, reply],
        };
        parts.iter().for_each(|part| bytes.extend(record(part)));
    }
    bytes
}

fn header(xid: u32, procedure: u32) -> Vec<u8> {
    words(&[
        xid, 0, 2, 100_003, 3, procedure, 1, 20, 9, 0, 1000, 100, 0, 0, 0, 8, 1, 1,
    ])
}

/// A READ of these bytes, or a WRITE.
fn moving(xid: u32, is_read: bool, data: &[u8]) -> [Vec<u8>; 2] {
    let len = data.len() as u32;
    let mut call = header(xid, if is_read { 6 } else { 7 });
    call.extend(words(&[0, 0, len]));
    let mut reply = words(&[xid, 1, 0, 0, 0, 0, 0]);
    let with_data = match is_read {
        true => {
            reply.extend(words(&[1]));
            reply.extend(words(&[1; 21]));
            reply.extend(words(&[len, 0, len]));
            &mut reply
        }
        false => {
            reply.extend(words(&[0, 0, len, 2, 5, 6]));
            call.extend(words(&[2, len]));
            &mut call
        }
    };
    with_data.extend_from_slice(data);
    with_data.resize(with_data.len().next_multiple_of(4), 0);
    [call, reply]
}

/// A connection with some calls before what a kind does.
fn begun(random: &mut Random) -> (Wire, u32) {
    let mut wire = Wire::new(false);
    let first = random.bits() as u32;
    for xid in 0..3 + random.below(20) as u32 {
        wire.answered(&lookup(first.wrapping_add(xid), b"a", 70));
    }
    (wire, first)
}

/// No row of an xid that was never on the wire.
fn has_only(rows: &CollectedRows, sent: impl Fn(u32) -> bool, what: &str) {
    for row in &rows.operations {
        let xid = row.xid.and_then(|xid| u32::try_from(xid).ok());
        assert!(xid.is_some_and(&sent), "{what}: {row:#?}");
    }
}

#[test]
fn records_in_file_data_without_its_head_are_no_rows() {
    for seed in 0..4 * SEEDS_OF_A_KIND {
        let mut random = Random::new(seed);
        let (mut wire, first) = begun(&mut random);
        // The client has just written what it sent itself.
        let near = first.wrapping_add(40 + random.below(3) as u32 * 3_000);
        let data = stored(near % (u32::MAX - 1_000), 700, random.below(3));
        let is_read = random.chance(0.5);
        let messages = moving(first.wrapping_sub(1), is_read, &data);
        let direction = usize::from(is_read);
        if is_read {
            wire.send(CALL, &messages[CALL]);
        }
        let message = record(&messages[direction]);
        let ends_within = random.chance(0.7);
        let len = match ends_within {
            true => message.len() / 2 + random.below(message.len() as u64 / 2) as usize,
            false => message.len(),
        };
        for (number, part) in message[..len].chunks(SEGMENT).enumerate() {
            wire.send_bytes(direction, part);
            if number == 0 {
                wire.frames.pop();
            }
        }
        let what = format!("seed {seed}, ends within: {ends_within}");
        if ends_within {
            match random.below(3) {
                0 => {}
                1 => wire.end(direction, TcpFlags::ACK | TcpFlags::FIN),
                _ => wire.end(direction, TcpFlags::RST),
            }
        } else {
            if !is_read {
                wire.send(REPLY, &messages[REPLY]);
            }
            for xid in 0..5 {
                wire.answered(&lookup(first.wrapping_add(30 + xid), b"b", 71));
            }
        }
        let (rows, _, verdict) = judged(&wire, &what);
        let sent = |xid: u32| xid.wrapping_sub(first.wrapping_sub(1)) < 36;
        has_only(&rows, sent, &what);
        assert_ne!(verdict.state, State::Complete, "{what}");
    }
}

#[test]
fn a_stored_copy_of_a_lost_reply_is_not_the_reply() {
    for seed in 0..SEEDS_OF_A_KIND {
        let mut random = Random::new(seed);
        let (mut wire, first) = begun(&mut random);
        let lost = lookup(first.wrapping_add(100), b"c", 72);
        let copy = lookup(first.wrapping_add(100), b"c", 666)[REPLY].clone();
        let data = record(&copy).repeat(20 + random.below(40) as usize);
        let read = moving(first.wrapping_add(99), true, &data);
        wire.send(CALL, &read[CALL]);
        wire.send(CALL, &lost[CALL]);
        wire.send_in(REPLY, &read[REPLY], 400, 0..1);
        wire.send(REPLY, &lost[REPLY]);
        wire.frames.pop();
        for xid in 0..random.below(5) as u32 {
            wire.answered(&lookup(first.wrapping_add(200 + xid), b"d", 73));
        }
        let what = format!("seed {seed}");
        let (rows, _, verdict) = judged(&wire, &what);
        let row = { rows.operations.iter() }
            .find(|row| row.xid == Some(first.wrapping_add(100).into()))
            .unwrap_or_else(|| panic!("{what}: the call was seen"));
        assert!(row.reply_missing, "{what}: {row:#?}");
        assert_ne!(verdict.state, State::Complete, "{what}");
    }
}

#[test]
fn a_direction_missed_for_nearly_4_gib_is_a_hole() {
    for seed in 0..SEEDS_OF_A_KIND {
        let mut random = Random::new(seed);
        let (mut wire, first) = begun(&mut random);
        let direction = random.below(2) as usize;
        let less = 1_000 + random.below(2_000_000) as u32;
        // The acknowledgements were seen meanwhile, or nothing and timestamps show it.
        let steps = [1, 400][random.below(2) as usize];
        if steps == 1 {
            wire.connection.clock = Some(random.bits() as u32);
            (100..110).for_each(|xid| wire.answered(&lookup(first.wrapping_add(xid), b"a", 70)));
        }
        let sequences = &mut wire.connection.sequences;
        let begin = sequences[direction];
        let missed = 0_u32.wrapping_sub(less);
        for step in 1..=steps {
            let passed = (u64::from(missed) * step / steps) as u32;
            wire.connection.sequences[direction] = begin.wrapping_add(passed);
            if steps > 1 {
                wire.send_bytes(1 - direction, b"");
            }
        }
        // So many bytes take their time.
        wire.now_ns += 400_000_000;
        for xid in 0..30 {
            wire.answered(&lookup(first.wrapping_add(500 + xid), b"e", 74));
        }
        let what = format!("seed {seed}, {less} bytes less, {steps} steps");
        let (rows, counters, verdict) = judged(&wire, &what);
        let lost = counters.value(Counter::StreamLost);
        // What looked like copies until it was known is counted as missing too.
        let more = lost - u64::from(missed);
        assert!(more < 2_000, "{what}: {more} bytes more than were missed");
        is_incomplete(&verdict, "never came", &what);
        let is_late = |row: &&OperationRow| row.name.bytes() == Some(b"e") && !row.reply_missing;
        let answered = rows.operations.iter().filter(is_late).count();
        assert!(answered >= 26, "{what}: {answered}");
    }
}

/// Without timestamps nothing shows how much, or whether a path reorders.
#[test]
fn a_direction_that_comes_round_unseen_is_no_complete_one() {
    for seed in 0..SEEDS_OF_A_KIND {
        let mut random = Random::new(seed);
        let (mut wire, first) = begun(&mut random);
        (100..180).for_each(|xid| wire.answered(&lookup(first.wrapping_add(xid), b"a", 70)));
        let direction = random.below(2) as usize;
        let less = 5_000 + random.below(2_000_000) as u32;
        let begin = wire.connection.sequences[direction];
        wire.connection.sequences[direction] = begin.wrapping_sub(less);
        wire.now_ns += 400_000_000;
        for xid in 0..20 {
            wire.answered(&lookup(first.wrapping_add(500 + xid), b"e", 74));
        }
        let what = format!("seed {seed}, {direction}, {less} bytes less");
        let (_, counters, verdict) = judged(&wire, &what);
        assert_eq!(counters.value(Counter::AcknowledgementsBack), 1, "{what}");
        is_incomplete(&verdict, "after a silence", &what);
    }
}

#[test]
fn bytes_between_records_are_counted() {
    for seed in 0..SEEDS_OF_A_KIND {
        let mut random = Random::new(seed);
        let (mut wire, first) = begun(&mut random);
        let direction = random.below(2) as usize;
        let mut stray = vec![0; [9, 99, 60_000][random.below(3) as usize]];
        if random.chance(0.5) {
            random.fill(&mut stray);
            // No mark of a record that may be.
            stray[0] = 0x7f;
        }
        for part in stray.chunks(SEGMENT) {
            wire.send_bytes(direction, part);
        }
        for xid in 0..30 {
            wire.answered(&lookup(first.wrapping_add(50 + xid), b"f", 75));
        }
        let what = format!("seed {seed}, {} bytes", stray.len());
        let (rows, counters, verdict) = judged(&wire, &what);
        is_incomplete(&verdict, "no message that was understood", &what);
        let answered = rows.operations.iter().filter(|row| !row.reply_missing);
        assert!(answered.count() >= 28, "{what}");
        let unread = counters.value(Counter::RpcUnread);
        // Empty fragments are legal, as far as there are few.
        assert!(unread + 64 >= stray.len() as u64, "{what}: {unread}");
    }
}

#[test]
fn more_calls_or_replies_alone_than_pairs_are_reported() {
    for seed in 0..SEEDS_OF_A_KIND {
        let mut random = Random::new(seed);
        let (mut wire, first) = begun(&mut random);
        let alone = 30 + random.below(30) as u32;
        let direction = random.below(2) as usize;
        for xid in 0..alone {
            let messages = lookup(first.wrapping_add(100 + xid), b"g", 76);
            wire.send(direction, &messages[direction]);
        }
        // An acknowledgement of them.
        wire.send_bytes(1 - direction, b"");
        let what = format!("seed {seed}, {alone} alone");
        let (_, counters, verdict) = judged(&wire, &what);
        assert_eq!(counters.value(Counter::ConnectionsUnpaired), 1, "{what}");
        is_incomplete(&verdict, "than pairs of both", &what);
    }
}

#[test]
fn a_reply_that_moves_more_than_was_asked_for_is_reported() {
    for is_read in [true, false] {
        for is_plain in [true, false] {
            let mut wire = Wire::new(false);
            wire.answered(&lookup(1, b"a", 70));
            let mut messages = moving(7, is_read, &[9; 700]);
            if is_read {
                let len = messages[CALL].len();
                messages[CALL][len - 4..].copy_from_slice(&100_u32.to_be_bytes());
            } else {
                messages[REPLY][36..40].copy_from_slice(&9_000_u32.to_be_bytes());
            }
            match is_plain {
                true => wire.answered(&messages),
                false => {
                    wire.send_in_two(CALL, &messages[CALL]);
                    wire.send_in_two(REPLY, &messages[REPLY]);
                }
            }
            let what = format!("READ {is_read}, at once {is_plain}");
            let (_, counters, verdict) = judged(&wire, &what);
            assert_eq!(counters.value(Counter::RepliesContradicting), 1, "{what}");
            is_incomplete(&verdict, "contradict their calls", &what);
        }
    }
}

const SEQUENCE: u32 = 53;
const PUTFH: u32 = 22;
const GETATTR: u32 = 9;
const NOENT: u32 = 2;

/// A compound of SEQUENCE, PUTFH and GETATTR, and a reply of these results.
fn compound(xid: u32, sequence: u32, status: u32, results: &[Vec<u32>]) -> [Vec<u8>; 2] {
    let mut call = words(&[xid, 0, 2, 100_003, 4, 1, 1, 20, 9, 0, 1000, 100, 0, 0, 0]);
    call.extend(words(&[0, 1, 3, SEQUENCE, 5, 6, 7, 8, sequence, 3, 9, 0]));
    call.extend(words(&[PUTFH, 8, 1, 1, GETATTR, 1, 16]));
    let mut reply = words(&[xid, 1, 0, 0, 0, 0, status, 0, results.len() as u32]);
    results
        .iter()
        .for_each(|result| reply.extend(words(result)));
    [call, reply]
}

fn of_sequence(sequence: u32, slot: u32) -> Vec<u32> {
    vec![SEQUENCE, 0, 5, 6, 7, 8, sequence, slot, 9, 9, 0]
}

#[test]
fn results_that_do_not_fit_their_compound_are_reported() {
    let attributes = vec![GETATTR, 0, 1, 16, 8, 0, 4096];
    let ok = || vec![of_sequence(1, 3), vec![PUTFH, 0], attributes.clone()];
    let with = |at: usize, result: Vec<u32>| {
        let mut results = ok();
        results[at] = result;
        results
    };
    let cases = [
        ("whole", 0, ok(), 0),
        ("failed", NOENT, with(2, vec![GETATTR, NOENT]), 0),
        (
            "ended early",
            NOENT,
            vec![of_sequence(1, 3), vec![PUTFH, NOENT]],
            0,
        ),
        ("another slot", 0, with(0, of_sequence(1, 4)), 1),
        ("another sequence", 0, with(0, of_sequence(2, 3)), 1),
        (
            "too few for its status",
            0,
            vec![of_sequence(1, 3), vec![PUTFH, 0]],
            1,
        ),
        ("a status that none has", NOENT, ok(), 1),
        (
            "a result after a failure",
            NOENT,
            with(1, vec![PUTFH, NOENT]),
            1,
        ),
    ];
    for (what, status, results, contradicting) in cases {
        let mut wire = Wire::new(false);
        wire.answered(&compound(7, 1, status, &results));
        let (rows, counters, verdict) = judged(&wire, what);
        let counted = counters.value(Counter::RepliesContradicting);
        assert_eq!(counted, contradicting, "{what}: {:?}", verdict.reasons);
        let not_executed = rows
            .operations
            .iter()
            .filter(|row| row.not_executed)
            .count();
        assert_eq!(not_executed, usize::from(what == "ended early"), "{what}");
    }
}

#[test]
fn a_slot_used_again_with_its_sequence_is_a_repeat() {
    let results = |sequence| {
        let attributes = vec![GETATTR, 0, 1, 16, 8, 0, 4096];
        vec![of_sequence(sequence, 3), vec![PUTFH, 0], attributes]
    };
    let mut wire = Wire::new(false);
    for (xid, sequence) in [(1, 1), (2, 2), (3, 2), (4, 3)] {
        wire.answered(&compound(xid, sequence, 0, &results(sequence)));
    }
    let (rows, counters, _) = judged(&wire, "a slot again");
    let repeats: Vec<_> = { rows.operations.iter() }
        .filter(|row| row.repeat)
        .map(|row| row.xid)
        .collect();
    assert_eq!(repeats, [Some(3); 3]);
    assert_eq!(counters.value(Counter::CallsRepeated), 1);
}

#[test]
fn what_krb5p_encrypts_is_counted() {
    let mut wire = Wire::new(false);
    for xid in 0..5 {
        let gss = [6, 20, 1, 0, xid, 3, 0];
        let mut call = words(&[xid, 0, 2, 100_003, 4, 1]);
        call.extend(words(&gss));
        call.extend(words(&[6, 0, 8, 1, 2]));
        let reply = words(&[xid, 1, 0, 6, 0, 0, 8, 3, 4]);
        wire.answered(&[call, reply]);
    }
    let (_, counters, verdict) = judged(&wire, "krb5p");
    assert_eq!(counters.value(Counter::CallsAnswered), 5);
    assert_eq!(counters.value(Counter::SealedBytes), 5 * (72 + 36));
    is_incomplete(&verdict, "krb5p", "krb5p");
}

#[test]
fn a_damaged_segment_is_the_cause_of_its_hole() {
    for is_header in [false, true] {
        let mut random = Random::new(5);
        let (mut wire, first) = begun(&mut random);
        wire.send_in(
            REPLY,
            &lookup(first.wrapping_sub(9), b"h", 77)[REPLY],
            20,
            0..0,
        );
        let damaged = wire.frames.len() - 1;
        // A byte of the payload, or of the IPv4 header.
        let at = match is_header {
            true => 14 + 8,
            false => wire.frames[damaged].bytes.len() - 1,
        };
        wire.frames[damaged].bytes[at] ^= 0xff;
        for xid in 0..80 {
            wire.answered(&lookup(first.wrapping_add(50 + xid), b"i", 78));
        }
        let what = format!("header {is_header}");
        let (rows, counters, verdict) = judged(&wire, &what);
        assert_eq!(counters.value(Counter::FramesDamaged), 1, "{what}");
        assert_eq!(counters.value(Counter::HolesDamaged), 1, "{what}");
        assert_eq!(rows.losses[0].cause, Some("damaged"), "{what}");
        is_incomplete(&verdict, "1 damaged", &what);
    }
}

#[test]
fn replies_of_two_servers_to_one_call_are_ambiguous() {
    let mut wire = Wire::new(true);
    for xid in 0..5 {
        wire.answered(&lookup(xid, b"a", 70));
    }
    let [call, reply] = lookup(9, b"j", 79);
    let port = wire.connection.port;
    wire.send(CALL, &call);
    let other = std::net::IpAddr::from([10, 0, 0, 77]);
    let foreign = lookup(9, b"j", 666)[REPLY].clone();
    let builder = FrameBuilder::new(other, CLIENT).with_identification(9_999);
    let frame = builder.udp(SERVER_PORT, port, &foreign);
    wire.push(frame);
    wire.send(REPLY, &reply);
    let (rows, counters, verdict) = judged(&wire, "two servers");
    let row = rows.operations.iter().find(|row| row.xid == Some(9));
    assert!(row.is_some_and(|row| row.reply_ambiguous));
    assert_eq!(counters.value(Counter::RepliesAmbiguous), 1);
    assert_eq!(verdict.state, State::Incomplete);
}

#[test]
fn what_paws_drops_never_wins() {
    for seed in 0..SEEDS_OF_A_KIND {
        let mut random = Random::new(seed);
        let (mut wire, first) = begun(&mut random);
        let clock = [60_000, 90_000_000, 100][random.below(3) as usize];
        wire.connection.clock = Some(clock);
        for xid in 0..2 + random.below(40) as u32 {
            wire.answered(&lookup(first.wrapping_add(50 + xid), b"a", 70));
        }
        let direction = random.below(2) as usize;
        let now = wire.connection.clock;
        let sequences = wire.connection.sequences;
        for _ in 0..1 + random.below(4) {
            // From the time before the numbers came round, or from a clock before that.
            let back = 50 + random.below(50_000) as u32;
            wire.connection.clock = now.map(|now| now.wrapping_sub(back));
            let ahead = [0, 500][random.below(2) as usize];
            wire.connection.sequences[direction] = sequences[direction].wrapping_add(ahead);
            wire.send(direction, &lookup(7, b"of long ago", 666)[direction]);
            (wire.connection.sequences, wire.connection.clock) = (sequences, now);
            if random.chance(0.7) {
                // The receiver repeats what it acknowledged.
                wire.send_bytes(1 - direction, b"");
            }
        }
        for xid in 0..60 {
            wire.answered(&lookup(first.wrapping_add(100 + xid), b"l", 81));
        }
        let what = format!("seed {seed}, {direction}");
        let (rows, counters, verdict) = judged(&wire, &what);
        assert_eq!(
            verdict.state,
            State::Complete,
            "{what}: {:?}",
            verdict.reasons
        );
        assert!(counters.value(Counter::SegmentsPast) > 0, "{what}");
        assert_eq!(counters.value(Counter::StreamLost), 0, "{what}");
        let late = rows
            .operations
            .iter()
            .filter(|row| row.name.bytes() == Some(b"l"));
        assert_eq!(late.filter(|row| !row.reply_missing).count(), 60, "{what}");
        has_only(&rows, |xid| xid.wrapping_sub(first) < 200, &what);
        assert!(
            rows.operations
                .iter()
                .all(|row| row.xid != Some(7) || first > u32::MAX - 200)
        );
    }
}

#[test]
fn a_stray_segment_ahead_is_no_loss_and_no_row() {
    for seed in 0..SEEDS_OF_A_KIND {
        let mut random = Random::new(seed);
        let (mut wire, first) = begun(&mut random);
        let direction = random.below(2) as usize;
        for _ in 0..1 + random.below(2) {
            let most = [300, 9_000, 60_000][random.below(3) as usize];
            let ahead = 1 + random.below(most) as u32;
            let sequences = wire.connection.sequences;
            wire.connection.sequences[direction] = sequences[direction].wrapping_add(ahead + 200);
            wire.send(direction, &lookup(7, b"another's", 666)[direction]);
            wire.connection.sequences = sequences;
            wire.answered(&lookup(first.wrapping_add(40), b"m", 82));
        }
        let ends = random.chance(0.5);
        let count = if ends { 5 } else { 200 };
        for xid in 0..count {
            wire.answered(&lookup(first.wrapping_add(100 + xid), b"n", 83));
        }
        if ends {
            wire.end(CALL, TcpFlags::ACK | TcpFlags::FIN);
            wire.end(REPLY, TcpFlags::ACK | TcpFlags::FIN);
        }
        let what = format!("seed {seed}, {direction}, ends: {ends}");
        let (rows, counters, verdict) = judged(&wire, &what);
        assert_eq!(counters.value(Counter::StreamLost), 0, "{what}");
        assert_eq!(
            verdict.state,
            State::Complete,
            "{what}: {:?}",
            verdict.reasons
        );
        assert!(counters.value(Counter::SegmentsStray) > 0, "{what}");
        let late = rows
            .operations
            .iter()
            .filter(|row| row.name.bytes() == Some(b"n"));
        let answered = late.filter(|row| !row.reply_missing).count();
        assert_eq!(answered, count as usize, "{what}");
        has_only(&rows, |xid| xid.wrapping_sub(first) < 400, &what);
    }
}

/// What a tap sees that stands on both sides of a firewall which draws the numbers of some
/// directions anew.
fn on_both_sides(frames: &[capture::Frame], added: [u32; 2]) -> Vec<capture::Frame> {
    let mut both = Vec::new();
    for frame in frames {
        let mut other = frame.clone();
        let addresses = [26, 30].map(|at| {
            let bytes: [u8; 4] = other.bytes[at..at + 4].try_into().expect("an address");
            std::net::IpAddr::from(bytes)
        });
        let direction = usize::from(addresses[0] == SERVER);
        let mut segment = lineside_wire::tcp::Segment::new_unchecked(&mut other.bytes[34..]);
        segment.set_sequence(segment.sequence() + added[direction]);
        if segment.flags().contains(TcpFlags::ACK) {
            segment.set_acknowledgement(segment.acknowledgement() + added[1 - direction]);
        }
        segment.fill_checksum(addresses[0], addresses[1]);
        let outer = frame.clone();
        let mut pair = match direction {
            0 => [outer, other],
            _ => [other, outer],
        };
        pair[1].stamp_ns = pair[1].stamp_ns.map(|stamp| stamp + 30_000);
        both.extend(pair);
    }
    both
}

#[test]
fn both_sides_of_a_firewall_are_one_set_of_rows() {
    for seed in 0..SEEDS_OF_A_KIND {
        let mut random = Random::new(seed);
        let (mut wire, first) = begun(&mut random);
        wire.answered(&moving(first.wrapping_sub(1), true, &[7; 20_000]));
        wire.end(CALL, TcpFlags::ACK | TcpFlags::FIN);
        wire.end(REPLY, TcpFlags::ACK | TcpFlags::FIN);
        let whole = run(&wire.frames).0;
        let drawn = [random.bits() as u32, random.bits() as u32];
        let which = random.below(3);
        let added = [
            drawn[0] * u32::from(which != 1),
            drawn[1] * u32::from(which != 0),
        ];
        wire.frames = on_both_sides(&wire.frames, added);
        let what = format!("seed {seed}, {added:?} added");
        let (rows, counters, verdict) = judged(&wire, &what);
        assert_eq!(rows.operations.len(), whole.operations.len(), "{what}");
        assert_eq!(
            verdict.state,
            State::Complete,
            "{what}: {:?}",
            verdict.reasons
        );
        assert_eq!(counters.value(Counter::StreamLost), 0, "{what}");
    }
}
