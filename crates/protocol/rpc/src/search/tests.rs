//! Tests of the search for a lost record boundary: streams cut at every place, stored headers,
//! holes.

use lineside_frame::{Cause, Descriptor, Frame};

use super::*;

fn call(xid: u32, body_len: usize) -> Vec<u8> {
    let mut bytes = (LAST_FRAGMENT | (40 + body_len) as u32)
        .to_be_bytes()
        .to_vec();
    for word in [xid, 0, 2, 100_003, 3, 6, 0, 0, 0, 0] {
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    bytes.resize(44 + body_len, 0xee);
    bytes
}

fn push(search: &mut Search, bytes: &[u8]) {
    let frame = Frame::copied(bytes, Descriptor::default()).share();
    search.push(Chunk::of_frame(&frame, 0, bytes.len()), &Config::default());
}

fn content(ranges: &[Range]) -> Vec<u8> {
    ranges
        .iter()
        .flat_map(|range| range.bytes().to_vec())
        .collect()
}

#[test]
fn a_header_is_found_wherever_frames_are_cut() {
    let mut stream = vec![0x77; 50];
    stream.extend(call(5, 8));
    stream.extend(call(6, 8));
    for step in 1..stream.len() {
        let mut search = Search::default();
        let mut found = None;
        for part in stream.chunks(step) {
            push(&mut search, part);
            let agreed = search.agreed(|xid, is_call| is_call && xid == 6);
            found = found.or(agreed);
        }
        let at = found.expect("xid 6 was answered");
        assert_eq!(
            content(&search.accept(at)),
            &stream[50..],
            "the chain from xid 5, frames of {step}"
        );
    }
}

#[test]
fn a_stored_call_is_rejected_by_where_it_leads() {
    let mut stream = call(9, 8);
    stream.extend(call(10, 8));
    stream.extend([0x11; 200]);
    let mut search = Search::default();
    push(&mut search, &stream);
    assert!(
        !search.has_candidates(),
        "the second leads to no header, so the first does not either"
    );
    assert_eq!(search.rejected, 2);
    assert!(search.held_bytes <= stream.len());
}

#[test]
fn fragments_without_end_are_not_followed_for_ever() {
    // A call in a fragment that is not the last one of its record, a thousand times.
    let mut fragment = call(1, 0)[..28].to_vec();
    fragment[..4].copy_from_slice(&24_u32.to_be_bytes());
    let mut stream = fragment.repeat(1000);
    for _ in 0..20_000 {
        stream.extend_from_slice(&[0, 0, 0, 4, 1, 2, 3, 4]);
    }
    let mut search = Search::default();
    stream.chunks(1448).for_each(|part| push(&mut search, part));
    assert!(!search.has_candidates() && search.rejected == 1000);
}

/// A call in a fragment of 24 bytes that is not the last one of its record.
fn open_call(xid: u32, len: u32) -> Vec<u8> {
    let mut bytes = call(xid, 0)[..HEAD].to_vec();
    bytes[..4].copy_from_slice(&len.to_be_bytes());
    bytes
}

#[test]
fn many_candidates_cost_no_more_per_byte_than_few() {
    let bounded = |stream: &[u8], step: usize, what: &str| {
        let mut search = Search::default();
        for part in stream.chunks(step) {
            push(&mut search, part);
            search.agreed(|_, _| false);
            search.chained(false);
        }
        let (steps, most) = (search.steps.get(), stream.len() as u64 + 64);
        assert!(steps <= most, "{what}, {step} at once: {steps} > {most}");
    };
    let count = CANDIDATES_MAX as u32;
    // All lead to one place, from which fragments go on without end.
    let mut converging = Vec::new();
    for number in 0..count {
        let left = (count - number) * HEAD as u32 - 4;
        converging.extend(open_call(number, left));
    }
    converging.extend([0, 0, 0, 4, 1, 2, 3, 4].repeat(4000));
    // One record after the other, and the last one never ends.
    let mut chain: Vec<u8> = (0..count).flat_map(|xid| call(xid, 8)).collect();
    chain.extend(call(count, 1 << 20));
    // Each leads to a place of its own within what comes after them.
    let mut nested: Vec<u8> = (0..count).flat_map(|xid| open_call(xid, 1 << 15)).collect();
    nested.extend([0, 0, 0, 5].repeat(1 << 14));
    for step in [7, 64, 1448, 1 << 16] {
        bounded(&converging, step, "converging");
        bounded(&chain, step, "a chain");
        bounded(&nested, step, "nested");
    }
}

#[test]
fn record_fragments_that_meet_share_what_follows() {
    // A stored header and the true one lead to the same fragment, which ends the record; then a
    // call.
    let mut stream = open_call(700, 2 * HEAD as u32 - 4);
    stream.extend(open_call(7, HEAD as u32 - 4));
    let end = LAST_FRAGMENT | 12;
    stream.extend(end.to_be_bytes());
    stream.extend([0; 12]);
    stream.extend(call(8, 40));
    for step in 1..stream.len() {
        let mut search = Search::default();
        stream.chunks(step).for_each(|part| push(&mut search, part));
        assert_eq!(search.candidates.len(), 3, "frames of {step}");
        let at = search.find(8, true).expect("it is there");
        assert_eq!(at, HEAD as u64, "xid 7 is near, 700 is not");
        search.accept(at);
        assert_eq!(search.rejected, 1, "xid 700");
    }
    stream[4..8].copy_from_slice(&6_u32.to_be_bytes());
    let mut search = Search::default();
    push(&mut search, &stream);
    assert_eq!(search.find(8, true), Some(0), "xid 6 is near too");
}

/// How far a header may be behind the last one depends on the bytes between them: from where the
/// last record that is seen begins, not from where another candidate does that shares its end.
#[test]
fn records_that_share_an_end_in_a_hole_begin_where_they_do() {
    let mut stream = open_call(100, 2 * HEAD as u32 - 4);
    stream.extend(open_call(900_000, HEAD as u32 - 4));
    stream.extend((LAST_FRAGMENT | 100).to_be_bytes());
    stream.extend([0; 12]);
    // At 300: three messages of 100 bytes may be between them.
    let ahead = 3 + 2 * XIDS_BEHIND - XIDS_BEHIND;
    for (xid, begins) in [(100 + ahead, 0), (101 + ahead, 300)] {
        let mut search = Search::default();
        push(&mut search, &stream);
        let by = Descriptor::default();
        let len = 300 - stream.len();
        let hole = Chunk::hole(len, Cause::NotSeen, &by);
        search.push(hole, &Config::default());
        push(&mut search, &call(xid, 8));
        assert_eq!(search.find(xid, true), Some(begins));
    }
}

#[test]
fn a_hole_that_no_candidate_needs_is_not_held() {
    let mut search = Search::default();
    push(&mut search, &[0x77; 90]);
    let by = Descriptor::default();
    search.push(
        Chunk::hole(200 << 20, Cause::NotSeen, &by),
        &Config::default(),
    );
    assert_eq!(search.held_bytes, 0);
}

#[test]
fn a_call_that_leads_into_a_hole_waits_for_the_end() {
    let mut search = Search::default();
    push(&mut search, &[0x77; 9]);
    push(&mut search, &call(9, 100)[..60]);
    search.push(
        Chunk::hole(500, Cause::NotSeen, &Descriptor::default()),
        &Config::default(),
    );
    assert_eq!(search.chained(false), None);
    let at = search.chained(true).expect("it begins a frame");
    assert_eq!(search.accept(at).len(), 2);
}

/// A header within a frame stands for itself only if it leads to another one.
#[test]
fn two_calls_before_a_hole_are_believed_within_a_frame() {
    for (calls, begins) in [(1, None), (2, Some(9))] {
        let mut frame = vec![0x77; 9];
        if calls == 2 {
            frame.extend(call(9, 8));
        }
        frame.extend_from_slice(&call(10, 100)[..60]);
        let mut search = Search {
            last_xid: Some(8),
            ..Search::default()
        };
        push(&mut search, &frame);
        let by = Descriptor::default();
        let hole = Chunk::hole(500, Cause::NotSeen, &by);
        search.push(hole, &Config::default());
        assert_eq!(search.chained(true), begins);
    }
}

/// RFC 5531, section 9: MSG_DENIED has its reason and two numbers at most.
#[test]
fn a_denied_reply_is_as_long_as_its_reason_needs() {
    let is_reply = |third, fourth, len| plausible_reply(1, 1, third, fourth, 0, len);
    assert!(is_reply(0, 2, 24), "RPC_MISMATCH of versions 2 to 2");
    assert!(is_reply(1, 5, 20), "AUTH_ERROR, AUTH_TOOWEAK");
    assert!(!is_reply(0, 2, 28), "nothing comes after it");
    assert!(!is_reply(2, 2, 24), "there is no third reason");
    assert!(!is_reply(1, 65, 20), "nor so many kinds of error");
}

/// What one end sends are calls, or replies: a chain of both was found in file data.
#[test]
fn a_chain_of_calls_and_replies_is_none() {
    let mut reply = (LAST_FRAGMENT | 32_u32).to_be_bytes().to_vec();
    for word in [10, 1, 0, 0, 0, 0, 0, 0] {
        reply.extend_from_slice(&(word as u32).to_be_bytes());
    }
    for (second, is_believed) in [(call(10, 8), true), (reply, false)] {
        let mut stream = call(9, 8);
        stream.extend(second);
        let mut search = Search::default();
        push(&mut search, &stream);
        let agreed = search.agreed(|xid, is_call| xid == 10 && is_call == is_believed);
        let begins = agreed.map(|at| content(&search.accept(at)).len());
        let expected = if is_believed { stream.len() } else { 36 };
        assert_eq!(begins, Some(expected));
    }
}
