use super::*;
use crate::policy::{MODES, Mode};

/// Frames of `bytes` every `gap_ns`, as far as the link lets them in, for 0.4 s; then what is
/// inside leaves.
fn run(parameters: Parameters, bytes: u32, gap_ns: i64) -> (AdapterCounters, Vec<Done<u32>>) {
    let mut adapter = Adapter::new(parameters, &Budget::new(64 << 20)).expect("fits");
    let mut out = Vec::new();
    for number in 0..(400_000_000 / gap_ns) as u32 {
        let at = i64::from(number) * gap_ns;
        adapter.on_timer(at, &mut out);
        if adapter.waiting() < 50 {
            adapter.push(at, number, bytes, &mut out);
        }
    }
    let counters = adapter.counters();
    let left = counters.left + counters.dropped.input_queue + counters.dropped.missed;
    assert_eq!(
        counters.came,
        left + counters.dropped.waiting + adapter.held() as u64
    );
    adapter.on_timer(i64::MAX / 2, &mut out);
    assert_eq!(adapter.held(), 0);
    (counters, out)
}

#[test]
fn each_frame_leaves_or_is_dropped_once_and_in_order() {
    for mode in MODES {
        for bytes in [60, 1500, 8192, 57_344] {
            let (_, out) = run(Parameters::new(mode, 300_000), bytes, 20_000);
            let mut seen: Vec<_> = out.iter().map(|done| done.item).collect();
            let left = out.iter().filter(|done| done.dropped.is_none());
            assert!(
                left.clone().is_sorted_by_key(|done| done.item),
                "{mode:?} {bytes}"
            );
            seen.sort_unstable();
            assert!(
                seen.windows(2).all(|pair| pair[0] < pair[1]),
                "{mode:?} {bytes}"
            );
        }
    }
}

#[test]
fn only_direct_loses_payloads_of_a_full_cache() {
    for mode in MODES {
        // The thread needs longer than the packets come apart: the queue is full.
        let (counters, _) = run(
            Parameters {
                thread_ns: 100_000,
                ..Parameters::new(mode, 400_000)
            },
            4096,
            60_000,
        );
        assert_eq!(
            counters.dropped.missed > 0,
            mode == Mode::Direct,
            "{mode:?}"
        );
        assert_eq!(counters.spilled_bytes > 0, mode == Mode::Spill, "{mode:?}");
        assert!(counters.dropped.input_queue > 0, "{mode:?}");
    }
}

#[test]
fn payloads_cross_the_bus_as_their_mode_says() {
    let crossings = MODES.map(|mode| {
        let (counters, _) = run(Parameters::new(mode, 1_400_000), 8192, 400_000);
        let sent = counters.left * 8192;
        (counters.bus_bytes() as f64 / sent as f64).round() as u32
    });
    assert_eq!(crossings, [2, 1, 0, 0, 0]);
}

#[test]
fn what_does_not_fit_the_budget_is_not_made() {
    let parameters = Parameters::new(Mode::Pcache, 1 << 20);
    assert!(Adapter::<u32>::new(parameters, &Budget::new(1000)).is_none());
}
