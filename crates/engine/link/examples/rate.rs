//! How many frames a second go through a link in virtual time on one core.
//!
//!     cargo run --profile dist -p lineside-link --example rate
//!
//! Frames of 64 bytes in memory that is used again, 100 ns apart. It does not show what a port
//! costs, nor memory that is not in a cache.

use std::time::Instant;

use lineside_frame::{Descriptor, Frame};
use lineside_link::{Link, Settings, words};

const FRAMES: u64 = 4_000_000;
const GAP_NS: i64 = 100;

#[expect(clippy::disallowed_methods, reason = "this measures")]
fn main() -> Result<(), lineside_words::WordError> {
    for (delay, rate) in [
        ("0", None),
        ("100us", None),
        ("100us 10us distribution normal", None),
        ("100us 10us distribution normal prbs31", None),
        (
            "1ms 100us distribution pareto",
            Some("10gbit overhead ethernet"),
        ),
        ("100us 10us distribution normal order reorder", None),
        ("1ms 100us distribution normal order reorder", None),
        ("100us 10us distribution normal order correlated 1ms", None),
    ] {
        let settings = Settings {
            delay: words::delay(delay, &mut words::no_files)?,
            rate: rate.map(words::rate).transpose()?,
            ..Settings::default()
        };
        let mut link = Link::new(settings, 7, 0, 1 << 30);
        let descriptor = Descriptor {
            wire_len: 64,
            ..Descriptor::default()
        };
        let mut pool: Vec<_> = (0..32_768)
            .map(|_| Frame::copied(&[0; 64], descriptor))
            .collect();
        let mut out = Vec::with_capacity(65_536);
        let (mut now, mut left) = (0, 0);
        let begin = Instant::now();
        for _ in 0..FRAMES {
            let frame = pool
                .pop()
                .unwrap_or_else(|| Frame::copied(&[0; 64], descriptor));
            link.push(now, frame, &mut out);
            now += GAP_NS;
            if out.len() >= 64 {
                left += out.len() as u64;
                pool.extend(out.drain(..).map(|departure| departure.item));
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        let held = link.held();
        println!(
            "{:6.2} million frames/s, {held:6} held, {left} left: --delay '{delay}'{}",
            FRAMES as f64 / seconds / 1e6,
            rate.map_or(String::new(), |rate| format!(" --rate '{rate}'"))
        );
    }
    Ok(())
}
