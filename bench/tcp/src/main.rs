//! `lineside-bench-tcp WHAT WHO [COUNT]`: runs one measurement of `bench/tcp/run` and prints its
//! figure.
//!
//! | WHAT | WHO | COUNT | figure |
//! |---|---|---|---|
//! | `trip` | `ours`, `smoltcp` | connections | ns of CPU a round trip of 64 bytes, both ends |
//! | `trips` | `ours` | connections | the same, 64 connections at once |
//! | `slow` | `ours` | connections | the same, one connection a millisecond |
//! | `bulk` | `ours`, `smoltcp` | | Gb/s of CPU time at MSS 1,460, both ends |
//! | `open` | `ours`, `smoltcp` | | ns of a connection: 64 bytes each way, closed by both |
//! | `rest` | `ours` | connections | bytes a connection by the budget, and resident |
//! | `timers` | `ours`, `btree` | pending | ns to take the first timer and insert another one |
//! | `draws` | `both` | | what drawing an instant takes of that |
//! | `count` | `ours` | connections | nothing: round trips for callgrind to count |
//!
//! Both ends are in this thread, and the wire is a list of frames. Time is virtual: a microsecond
//! for each round trip.

mod ours;
mod rival;
mod timers;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Of a request and of its answer.
const MESSAGE: usize = 64;
/// What one end's owner has to say, again and again.
const TEXT_LEN: usize = 4096;

/// Bytes of a stream from `offset` on.
fn fill(text: &[u8; 2 * TEXT_LEN], offset: u64, bytes: &mut [u8]) {
    let from = offset as usize % TEXT_LEN;
    bytes.copy_from_slice(&text[from..][..bytes.len()]);
}

fn text() -> [u8; 2 * TEXT_LEN] {
    std::array::from_fn(|at| (at % TEXT_LEN * 31 % 251) as u8)
}

/// What a receiver makes of bytes: nobody can leave out reading them.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_ne_bytes(*word));
    let whole = words.fold(0, u64::wrapping_add);
    rest.iter()
        .fold(whole, |sum, &byte| sum.wrapping_add(byte.into()))
}

/// CPU time of this thread.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Nanoseconds of CPU of each of `count` turns.
fn each(count: u64, mut turn: impl FnMut()) -> f64 {
    let began = cpu();
    for _ in 0..count {
        turn();
    }
    (cpu() - began).as_nanos() as f64 / count as f64
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let count = words
        .get(2)
        .map_or(1, |word| word.parse().expect("COUNT is a number"));
    match words[..2.min(words.len())] {
        ["trip", "ours"] => println!("{:.1}", ours::trips(count, 1, 1_000)),
        ["trips", "ours"] => println!("{:.1}", ours::trips(count, 64, 64_000)),
        ["slow", "ours"] => println!("{:.1}", ours::trips(count, 1, 1_000_000)),
        ["count", "ours"] => ours::count(count),
        ["bulk", "ours"] => println!("{:.2}", ours::bulk()),
        ["open", "ours"] => println!("{:.1}", ours::opens()),
        ["rest", "ours"] => {
            let (drawn, resident) = ours::at_rest(count);
            println!("{drawn:.1} {resident:.1}");
        }
        ["trip", "smoltcp"] => println!("{:.1}", rival::trips(count)),
        ["bulk", "smoltcp"] => println!("{:.2}", rival::bulk()),
        ["open", "smoltcp"] => println!("{:.1}", rival::opens()),
        ["timers", "ours"] => println!("{:.1}", timers::wheel(count)),
        ["draws", "both"] => println!("{:.1}", timers::draws()),
        ["timers", "btree"] => println!("{:.1}", timers::btree(count)),
        _ => {
            eprintln!("lineside-bench-tcp WHAT WHO [COUNT]: see its source");
            std::process::exit(2);
        }
    }
}
