//! Heads of any bytes and times into every monitor, and any words.

use std::collections::BTreeMap;

use lineside_account::Budget;
use lineside_measure::monitor::{
    Bin, FlowFacts, Head, Label, Monitors, Place, Report, Window, Words,
};

/// Sums of what monitors found.
#[derive(Default)]
struct Sums {
    bins: BTreeMap<(String, &'static str), u64>,
    windows: u64,
    flows: BTreeMap<String, u64>,
}

impl Report for Sums {
    fn bin(&mut self, label: Label<'_>, bin: Bin) {
        assert!(bin.from <= bin.to && bin.count > 0);
        let key = (label.monitor.to_owned(), bin.metric);
        *self.bins.entry(key).or_default() += bin.count;
    }

    fn window(&mut self, _: Label<'_>, window: Window) {
        assert!(window.packets > 0);
        self.windows += window.packets;
    }

    fn flow(&mut self, label: Label<'_>, flow: &FlowFacts) {
        *self.flows.entry(label.monitor.to_owned()).or_default() += flow.packets;
        if let Some(tcp) = flow.tcp {
            assert!(tcp.retransmitted_bytes <= flow.payload_bytes);
            assert!(tcp.reordered_packets <= flow.packets);
        }
    }
}

const WORDS: [&str; 3] = [
    "all flows 4",
    "gap,size,packets by flow flows 2",
    "size match tcp port 80",
];

/// A head is a time to add to the one before it (2 bytes, shifted by 4 bits of the third), a length
/// and its bytes. The first byte chooses the link type.
pub(crate) fn run(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = text.parse::<Words>();
    }
    let Some((&kind, mut rest)) = data.split_first() else {
        return;
    };
    let link_type = [1, 101, 113, 276, 147][usize::from(kind) % 5];
    let budget = Budget::new(64 << 20);
    let mut monitors = Monitors::new(&budget);
    for words in WORDS {
        monitors.ask(&words.parse().expect("words"));
    }
    let place = monitors.place(&Place::named("eth1.left")).expect("memory");
    let (mut sums, mut now, mut stamped) = (Sums::default(), 0_i64, 0);
    while let [t0, t1, shift, len, tail @ ..] = rest {
        let step = i64::from(i16::from_be_bytes([*t0, *t1])) << (shift & 0x3f).min(47);
        now = now.wrapping_add(step);
        let (bytes, after) = tail.split_at(usize::from(*len).min(tail.len()));
        rest = after;
        let time_ns = (shift & 0x40 == 0).then_some(now);
        stamped += u64::from(time_ns.is_some());
        let head = Head {
            time_ns,
            place,
            link_type,
            wire_len: bytes.len() as u32 + u32::from(shift >> 7) * 1_400,
            bytes: &bytes[..bytes.len().min(128)],
        };
        // An expression may ask for what a link type does not have.
        if monitors.on_head(&head, &mut sums).is_err() {
            return;
        }
    }
    monitors.report(&mut sums);
    let count = |words: &str, metric| {
        let bins = sums.bins.get(&(words.to_owned(), metric));
        bins.copied().unwrap_or_default()
    };
    let heads = monitors.heads();
    assert_eq!(count(WORDS[0], "packet_bytes"), heads);
    assert_eq!(count(WORDS[1], "packet_bytes"), heads);
    assert_eq!(count(WORDS[0], "gap_ns"), stamped.max(1) - 1);
    assert_eq!(sums.windows, 2 * stamped);
    for words in &WORDS[..2] {
        assert_eq!(
            sums.flows.get(*words).copied().unwrap_or_default(),
            heads,
            "{words}"
        );
    }
}
