//! A probe and its server, by a path that loses, doubles, holds and changes datagrams, beside
//! datagrams of strangers. A stranger is answered no more bytes than it sent; whatever is found can
//! be written.

use std::collections::VecDeque;
use std::hash::RandomState;

use lineside_probe::{Client, Limits, Server, Settings};

use super::Bytes;

const OPERATIONS_MAX: usize = 2_000;
const STRANGER: u8 = 1;

/// Eight bytes that configure both ends, then operations.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let settings = Settings {
        count: u32::from(bytes.u16()) % 64 + 1,
        interval_ns: u64::from(bytes.u32()) + 4,
        patience_ns: 1_000_000_000,
        budget_bytes: u64::from(bytes.u16()) * 64,
        ip_header_bytes: 28,
        seed: 1,
    };
    let limits = Limits {
        sessions_max: 2,
        ..Limits::default()
    };
    let mut now = 1_000_000_000;
    let mut client = Client::new(settings, now);
    let mut server: Server<u8> = Server::new(limits, RandomState::new());
    let (mut there, mut back) = (VecDeque::new(), VecDeque::new());
    let (mut to_stranger, mut from_stranger) = (0, 0);
    let mut out = Vec::new();
    for _ in 0..OPERATIONS_MAX {
        if bytes.is_empty() || client.outcome().is_some() {
            break;
        }
        match bytes.u8() {
            0..40 => {
                if client.transmit(now, &mut out) {
                    there.push_back(out.clone());
                }
            }
            40..80 => {
                if let Some(datagram) = there.pop_front() {
                    server.on_datagram(now, 0, &datagram);
                }
            }
            80..120 => {
                if let Some(peer) = server.transmit(now, &mut out) {
                    match peer {
                        STRANGER => to_stranger += out.len(),
                        _ => back.push_back(out.clone()),
                    }
                }
            }
            120..160 => {
                if let Some(datagram) = back.pop_front() {
                    client.on_datagram(now, &datagram);
                }
            }
            160..180 => {
                let way = if bytes.u8() % 2 == 0 {
                    &mut there
                } else {
                    &mut back
                };
                change(way, &mut bytes);
            }
            180..190 => {
                let len = usize::from(bytes.u8());
                let datagram = bytes.take(len);
                from_stranger += datagram.len();
                server.on_datagram(now, STRANGER, datagram);
            }
            190..200 => {
                let len = usize::from(bytes.u8());
                client.on_datagram(now, bytes.take(len));
            }
            200..205 => client.on_too_long(now),
            // The clocks of kernels step back at times.
            205..210 => now -= i64::from(bytes.u16()),
            210..230 => now += i64::from(bytes.u16()),
            _ => {
                let due = client
                    .next_deadline()
                    .into_iter()
                    .chain(server.next_deadline());
                now = due.min().unwrap_or(now).clamp(now, now + 10_000_000_000);
            }
        }
        assert!(server.sessions() <= limits.sessions_max);
        assert!(
            to_stranger <= from_stranger,
            "{to_stranger} for {from_stranger}"
        );
    }
    // Without a server it ends by itself.
    for _ in 0..10_000 {
        match client.next_deadline() {
            Some(due) if client.outcome().is_none() => now = now.max(due),
            _ => break,
        }
        while client.transmit(now, &mut out) {}
    }
    match client.outcome() {
        Some(Ok(found)) => {
            serde_json::to_string(&found).expect("it can be written");
            for way in [&found.out, &found.back] {
                let _ = (way.path_file(20_000_000), way.delays_ns());
            }
            lineside_render::probe_lines("host", lineside_probe::By::Udp(1), &found, None);
        }
        Some(Err(error)) => assert!(!error.to_string().is_empty()),
        None => {}
    }
}

/// Doubles, drops, moves or changes a datagram that is under way.
fn change(way: &mut VecDeque<Vec<u8>>, bytes: &mut Bytes<'_>) {
    let (what, place) = (bytes.u8(), usize::from(bytes.u8()));
    let Some(first) = way.front_mut() else { return };
    match what % 5 {
        0 => drop(way.pop_front()),
        1 => {
            let again = first.clone();
            way.push_front(again);
        }
        2 => way.rotate_left(1),
        3 => first.truncate(place),
        _ => {
            let changed = bytes.take(usize::from(what / 16) + 1);
            let at = place.min(first.len());
            for (byte, new) in first[at..].iter_mut().zip(changed) {
                *byte = *new;
            }
        }
    }
}
