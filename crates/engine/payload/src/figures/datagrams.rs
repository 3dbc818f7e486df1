//! The paper's experiments with UDP on the emulated adapter.

use lineside_account::Budget;
use lineside_time::Random;

use crate::adapter::{Adapter, AdapterCounters, Parameters, time_ns};
use crate::policy::Mode;

/// Memory of one experiment.
const MEMORY_BYTES: usize = 64 << 20;
/// A sender that the link stops has this many packets of its own.
const SENDER_MAX: usize = 50;

/// A stream of datagrams through the adapter.
#[derive(Debug, Clone)]
pub struct Flow {
    /// The size of each.
    pub bytes: u32,
    /// What the sender offers, bytes a second.
    pub offered_bytes_per_s: f64,
    /// Exponential times between them, or equal ones.
    pub is_poisson: bool,
    /// So many come back to back, and none until their time is over.
    pub burst: u32,
    /// Packets, after a tenth of them that is not counted.
    pub packets: u32,
    /// Of all draws.
    pub seed: u64,
}

/// What the adapter did with a stream; the link stops the sender, which then offers less.
pub fn run_flow(parameters: &Parameters, flow: &Flow) -> AdapterCounters {
    let budget = Budget::new(MEMORY_BYTES);
    let mut adapter = Adapter::new(parameters.clone(), &budget).expect("64 MiB are enough");
    let mut random = Random::new(flow.seed);
    let mut out = Vec::new();
    let mean_ns = f64::from(flow.bytes) * 1e9 / flow.offered_bytes_per_s;
    let mut at = 0.0_f64;
    for number in 0..flow.packets + flow.packets / 10 {
        at += match (flow.is_poisson, number % flow.burst.max(1)) {
            (true, _) => {
                -mean_ns
                    * (1.0 - random.bits() as f64 / 2_f64.powi(64))
                        .max(1e-12)
                        .ln()
            }
            (false, 0) => mean_ns * f64::from(flow.burst.max(1)),
            _ => 0.0,
        };
        adapter.on_timer(at as i64, &mut out);
        if number == flow.packets / 10 {
            adapter.begin(at as i64);
        }
        if adapter.waiting() < SENDER_MAX.max(flow.burst as usize) {
            adapter.push(at as i64, (), flow.bytes, &mut out);
        }
        out.clear();
    }
    adapter.counters()
}

/// A single packet, alone on the way, in nanoseconds: what the forwarder adds to the way from host
/// to host.
///
/// The adapter stores and forwards a packet, and its bus carries a page while the next one comes:
/// what remains is the link's time, the last page's way to the host and the first one's back.
pub fn lone_packet_ns(parameters: &Parameters, bytes: u32) -> i64 {
    let page = u64::from(parameters.page_bytes);
    let bytes = u64::from(bytes);
    let transfer = |part: u64| LONE_SETUP_NS + time_ns(part, parameters.lone_bus_bytes_per_s);
    let last = (bytes.max(1) - 1) % page + 1;
    let receive = if parameters.mode == Mode::Baseline || parameters.mode == Mode::Pcache {
        transfer(last)
    } else {
        0
    };
    let send = match parameters.mode {
        Mode::Baseline => transfer(bytes.min(page)),
        _ => 0,
    };
    time_ns(bytes, parameters.link_bytes_per_s) + receive + send + LONE_HOST_NS
}

/// The beginning of a transfer on an idle bus; fitted to Table 2 together with the speed of the
/// bus and the host's time.
const LONE_SETUP_NS: i64 = 5_000;
/// The host's time for a packet that wakes it: the 25 us of a loaded host, and the waking.
const LONE_HOST_NS: i64 = 36_000;

/// Where the entries of a cache are after this many packets of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct QueueSample {
    /// What just happened.
    pub after: &'static str,
    /// Entries on the queue of free ones.
    pub unbound: usize,
    /// Entries of payloads that were sent.
    pub victim: usize,
    /// Entries of payloads that wait.
    pub priority: usize,
    /// Entries of sends and receives under way.
    pub pending: usize,
}

/// Figure 4: how the entries of a small cache move between the queues.
pub fn queue_samples() -> Vec<QueueSample> {
    use crate::cache::{Advice, Cache, FrameId, Queue, Residence};
    let mut cache = Cache::new(8, 16, &Budget::new(1 << 16)).expect("64 KiB are enough");
    let mut samples = Vec::new();
    let mut sample = |after, cache: &Cache| {
        samples.push(QueueSample {
            after,
            unbound: cache.len(Queue::Unbound),
            victim: cache.len(Queue::Victim),
            priority: cache.len(Queue::Priority),
            pending: cache.pending(),
        });
    };
    sample("at first", &cache);
    (0..6).for_each(|frame| {
        cache.receive_bind(FrameId(frame));
    });
    sample("6 receive_bind", &cache);
    (0..6).for_each(|frame| {
        cache.receive_complete(FrameId(frame), Residence::Both);
    });
    sample("6 receive_complete", &cache);
    (0..3).for_each(|frame| {
        cache.send_bind(FrameId(frame));
    });
    sample("3 send_bind, all hit", &cache);
    (0..3).for_each(|frame| {
        cache.send_complete(FrameId(frame));
    });
    sample("3 send_complete", &cache);
    cache.invalidate_binding(FrameId(3));
    sample("1 invalidate_binding", &cache);
    cache.advise(FrameId(4), Advice::Demote);
    sample("1 advise: demote", &cache);
    (6..14).for_each(|frame| {
        cache.receive_bind(FrameId(frame));
    });
    sample("8 receive_bind: 4 free, 3 victims, 1 waiting", &cache);
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saturated_cache_hits_as_often_as_its_share_of_the_queue() {
        for packets in [16, 64, 128, 300] {
            let mut parameters = Parameters::new(Mode::Pcache, packets * 4096);
            parameters.thread_ns += 160_000;
            let flow = Flow {
                bytes: 4096,
                offered_bytes_per_s: 25e6,
                is_poisson: true,
                burst: 1,
                packets: 20_000,
                seed: 1,
            };
            let counters = run_flow(&parameters, &flow);
            let expected = packets as f64 / counters.queued_mean();
            let off = (counters.hit_rate() - expected).abs();
            assert!(
                off < 0.03,
                "{packets}: {} and {expected}",
                counters.hit_rate()
            );
        }
    }

    #[test]
    fn a_lone_packet_takes_what_table_2_says() {
        let paper = [
            (1500, 82.31, [153.86, 140.15, 131.5]),
            (4096, 108.36, [224.68, 191.68, 173.71]),
            (8192, 159.2, [326.88, 285.94, 260.74]),
        ];
        let modes = [Mode::Baseline, Mode::Pcache, Mode::Direct];
        for (bytes, point_to_point, forwarding) in paper {
            for (mode, paper) in modes.into_iter().zip(forwarding) {
                let added = lone_packet_ns(&Parameters::new(mode, 1 << 20), bytes);
                let ours = point_to_point + added as f64 / 1e3;
                assert!(
                    (ours / paper - 1.0).abs() < 0.06,
                    "{bytes} {mode:?}: {ours}"
                );
            }
        }
    }
}
