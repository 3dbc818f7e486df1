//! What the payload modes cost in memory alone: frames of 4 KiB through a queue of 1,000, without
//! ports. The adapter's memory is larger than the processor's caches, and frames lie in it at
//! random, as those of a UMEM do after a while. The modes take turns; the least time that the
//! processor spent for each is printed.
//!
//!     cargo run --profile dist -p lineside-forward --example payload_modes [-- ROUNDS]

use std::error::Error;

use lineside_account::Budget;
use lineside_forward::{PayloadSettings, Payloads};
use lineside_frame::{Descriptor, Frame, LinkType, Pool};
use lineside_payload::{MODES, Mode};
use lineside_time::Random;
use lineside_wire::build::FrameBuilder;

const FRAME_LEN: usize = 4096;
const HEADERS_LEN: usize = 42;
/// 256 MiB on the way in, and as many on the way out.
const FRAMES: usize = 1 << 16;
const HOLD: u32 = 1000;
/// Each frame passes so often in a turn: the kernel counts the processor's time by milliseconds.
const TIMES: usize = 4;

struct Adapter {
    received: Vec<Frame>,
    /// Where frames of the host are copied to.
    to_send: Vec<u8>,
}

impl Adapter {
    fn new() -> Result<Self, Box<dyn Error>> {
        let payload = vec![7; FRAME_LEN - HEADERS_LEN];
        let builder = FrameBuilder::new("10.9.1.7".parse()?, "10.9.2.2".parse()?);
        let bytes = builder.udp(7, 53, &payload);
        let descriptor = Descriptor {
            link_type: LinkType::ETHERNET,
            wire_len: FRAME_LEN as u32,
            ..Descriptor::default()
        };
        let mut pool = Pool::new(FRAMES * FRAME_LEN, 1, &Budget::new(1 << 30)).ok_or("no room")?;
        let mut block = pool.take().ok_or("no room")?;
        let mut frame = |_| {
            block.unfilled()[..FRAME_LEN].copy_from_slice(&bytes);
            block.advance(FRAME_LEN);
            block.take(FRAME_LEN, descriptor)
        };
        let mut received: Vec<_> = (0..FRAMES).map(&mut frame).collect();
        let mut random = Random::new(1);
        for at in (1..FRAMES).rev() {
            received.swap(at, random.below(at as u64 + 1) as usize);
        }
        Ok(Self {
            received,
            to_send: vec![1; FRAMES * FRAME_LEN],
        })
    }

    /// Nanoseconds a frame.
    fn pass(&mut self, mode: Mode) -> Result<f64, Box<dyn Error>> {
        let settings = PayloadSettings {
            mode,
            cache_bytes: 2 * u64::from(HOLD) * FRAME_LEN as u64,
            hold: HOLD,
        };
        let mut payloads = Payloads::new(settings, FRAME_LEN, &Budget::new(1 << 30))?;
        let began = spent_ns()?;
        for at in (0..FRAMES).cycle().take(TIMES * FRAMES) {
            let frame = &mut self.received[at];
            payloads.push(0, 0, 0, frame.another());
            let Some(departure) = payloads.pop(0) else {
                continue;
            };
            match departure.number {
                Some(number) => payloads.on_sent(number),
                None => {
                    let bytes = departure.frame.bytes();
                    self.to_send[at * FRAME_LEN..][..bytes.len()].copy_from_slice(bytes);
                }
            }
        }
        let spent = spent_ns()? - began;
        let report = payloads.report();
        assert_eq!((report.dropped, report.waiting), (0, HOLD.into()));
        Ok(spent / (TIMES * FRAMES) as f64)
    }
}

/// What this thread has had of the processors.
fn spent_ns() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split(' ').next().unwrap_or_default().parse()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args().nth(1);
    let rounds = rounds.map_or(Ok(7), |word| word.parse())?;
    let mut adapter = Adapter::new()?;
    let mut least = [f64::INFINITY; MODES.len()];
    for _ in 0..rounds {
        for (mode, least) in MODES.into_iter().zip(&mut least) {
            *least = least.min(adapter.pass(mode)?);
        }
    }
    for (mode, ns) in MODES.into_iter().zip(least) {
        let (name, times) = (mode.name(), least[0] / ns);
        println!("{name:<9}{ns:8.0} ns a frame, baseline takes {times:.2} times that");
    }
    Ok(())
}
