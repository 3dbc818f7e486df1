//! What expressions of `match` cost a frame: `cargo run --profile dist -p lineside-path --example
//! classes` prints a line for each number of them, in nanoseconds.

use std::time::Instant;

use lineside_account::Budget;
use lineside_filter::Filter;
use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_link::{Patch, Setting, Settings, words};
use lineside_path::{Departures, Direction, Path};
use lineside_wire::build::FrameBuilder;

const TURNS: i64 = 20_000;
const BURST: u16 = 64;

fn delayed(words: &str) -> Settings {
    Settings {
        delay: words::delay(words, &mut words::no_files).expect("a delay"),
        ..Settings::default()
    }
}

#[expect(clippy::disallowed_methods, reason = "this measures")]
fn main() {
    println!("expressions  ns a frame  classes met");
    for count in [0, 1, 6, 12, 24, 32] {
        let budget = Budget::new(1 << 30);
        let links = [delayed("1ms"), Settings::default()];
        let mut path = Path::new(links, 7, 64 << 20, &budget).expect("memory");
        let filters = (0..count).map(|number| Filter::parse(&format!("udp dst port {number}")));
        let filters = filters.collect::<Result<Vec<_>, _>>().expect("expressions");
        let patches = (0..count).map(|number| {
            let settings = delayed(&format!("{}us", 100 + number));
            Patch::new([Setting::Delay], settings)
        });
        let patches = [Patch::default()].into_iter().chain(patches).collect();
        path.classify(Direction::Outbound, filters, patches)
            .expect("memory");
        path.begin(0);
        // All expressions have frames, and as many frames match none.
        let mut known: Burst = (0..BURST).map(|number| frame(number % 64)).collect();
        let mut out = Departures::default();
        let mut times = Vec::new();
        for turn in 0..TURNS {
            let mut burst: Burst = known.iter_mut().map(Frame::another).collect();
            let now = turn * 1_000_000;
            let began = Instant::now();
            path.on_burst(now, Direction::Outbound, &mut burst, &mut out);
            path.on_timer(now, &mut out);
            out[0].clear();
            times.push(began.elapsed().as_nanos());
        }
        // The median burst: most are disturbed by nothing.
        times.sort_unstable();
        let ns = times[times.len() / 2] as f64 / f64::from(BURST);
        let classes = path.link(Direction::Outbound).classes().len();
        println!("{count:>11}  {ns:>10.1}  {classes:>11}");
    }
}

fn frame(port: u16) -> Frame {
    let [one, other] = [1, 2].map(|host| [10, 0, 0, host].into());
    let bytes = FrameBuilder::new(one, other).udp(700, port, b"x");
    let descriptor = Descriptor {
        link_type: LinkType::ETHERNET,
        wire_len: bytes.len() as u32,
        ..Descriptor::default()
    };
    Frame::copied(&bytes, descriptor)
}
