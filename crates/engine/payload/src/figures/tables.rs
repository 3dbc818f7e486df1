//! The figures, each with the paper's numbers.

use super::{
    Cell, Curve, Figure, Flow, Streams, Tolerance, lone_packet_ns, queue_samples, run_flow,
    run_streams,
};
use crate::adapter::{AdapterCounters, Parameters};
use crate::policy::Mode;

/// The numbers of the figures; 2 is the table.
pub const FIGURES: [u8; 5] = [2, 4, 5, 6, 7];

/// 1.4 MiB, the cache of the paper's adapter.
const CACHE_BYTES: u64 = 1_468_006;
/// The share by which a number may differ, unless the figure says another.
const SHARE: f64 = 0.05;
/// Of bandwidth: peaks are found to this.
const STEP_MB: usize = 2;
const MODES: [Mode; 3] = [Mode::Baseline, Mode::Pcache, Mode::Direct];

/// Reproduces a figure; `None` if there is none of this number.
pub fn figure(number: u8, seed: u64) -> Option<Figure> {
    match number {
        2 => Some(latencies()),
        4 => Some(queues()),
        5 => Some(demand(seed)),
        6 => Some(bandwidth(seed)),
        7 => Some(streams(seed)),
        _ => None,
    }
}

fn empty(number: u8, title: &'static str, axes: [&'static str; 2]) -> Figure {
    Figure {
        number,
        title,
        axes,
        cells: Vec::new(),
        curves: Vec::new(),
        queues: Vec::new(),
        notes: Vec::new(),
        parameters: Parameters::new(Mode::Pcache, CACHE_BYTES),
    }
}

fn cell(name: String, unit: &'static str, ours: f64, paper: f64, tolerance: Tolerance) -> Cell {
    Cell {
        name,
        unit,
        ours,
        paper: Some(paper),
        tolerance,
    }
}

/// Table 2.
fn latencies() -> Figure {
    // Bytes, point to point, and through the forwarder in each mode.
    const PAPER: [(u32, f64, [f64; 3]); 3] = [
        (1500, 82.31, [153.86, 140.15, 131.5]),
        (4096, 108.36, [224.68, 191.68, 173.71]),
        (8192, 159.2, [326.88, 285.94, 260.74]),
    ];
    let mut figure = empty(
        2,
        "one-way latency of a UDP packet",
        ["packet, bytes", "us"],
    );
    for (mode, column) in MODES.into_iter().zip(0..) {
        let mut points = Vec::new();
        for (bytes, point_to_point, paper) in PAPER {
            let added = lone_packet_ns(&Parameters::new(mode, CACHE_BYTES), bytes);
            let ours = point_to_point + added as f64 / 1e3;
            points.push((f64::from(bytes), ours));
            let name = format!("{bytes} B {}", mode.name());
            let paper: [f64; 3] = paper;
            figure.cells.push(cell(
                name,
                "us",
                ours,
                paper[column],
                Tolerance::Share(0.06),
            ));
        }
        let name = mode.name().to_owned();
        figure.curves.push(Curve { name, points });
    }
    figure.notes = vec![
        "a closed form, not the event model: a packet that is alone meets no queue",
        "the way from host to host without a forwarder is the paper's measurement, an input here",
        "the paper prints ms; its text and the sizes make them us",
    ];
    figure
}

/// Figure 4.
fn queues() -> Figure {
    let mut figure = empty(4, "entries on the replacement queues", ["step", "entries"]);
    figure.queues = queue_samples();
    figure.notes = vec!["8 entries, 16 frames; the paper's figure is a drawing without numbers"];
    figure
}

/// Figure 5.
fn demand(seed: u64) -> Figure {
    /// Packets of the cache.
    const CACHES: [u64; 4] = [16, 64, 128, 300];
    const BYTES: u32 = 4096;
    let mut figure = empty(
        5,
        "4 KB packets at 25 MB/s, Poisson: queue against CPU demand",
        ["added CPU demand, us", "packets queued"],
    );
    let mut worst: f64 = 0.0;
    let mut knees = Vec::new();
    for cache in CACHES {
        let mut points = Vec::new();
        let mut knee = f64::INFINITY;
        for demand_us in (0..=130).step_by(5) {
            let mut parameters = Parameters::new(Mode::Pcache, cache * u64::from(BYTES));
            parameters.thread_ns += demand_us * 1000;
            let counters = run_flow(
                &parameters,
                &Flow {
                    bytes: BYTES,
                    offered_bytes_per_s: 25e6,
                    is_poisson: true,
                    burst: 1,
                    packets: 12_000,
                    seed,
                },
            );
            let queued = counters.queued_mean();
            let expected = (cache as f64 / queued).min(1.0);
            worst = worst.max((counters.hit_rate() - expected).abs());
            if queued > 100.0 {
                knee = knee.min(demand_us as f64);
            }
            points.push((demand_us as f64, queued));
        }
        knees.push(knee);
        let name = format!("{cache} packets");
        figure.curves.push(Curve { name, points });
    }
    let most = { figure.curves.iter() }.flat_map(|curve| curve.points.last());
    let most = most.map(|(_, queued)| *queued).fold(0.0, f64::max);
    figure.cells = vec![
        cell(
            "longest queue".to_owned(),
            "packets",
            most,
            400.0,
            Tolerance::Absolute(20.0),
        ),
        cell(
            "hits from min(1, cache / queue), at worst".to_owned(),
            "",
            worst,
            0.03,
            Tolerance::AtMost,
        ),
        cell(
            "a cache of 300 explodes later than one of 16, by".to_owned(),
            "us",
            knees[3] - knees[0],
            0.0,
            Tolerance::AtLeast,
        ),
    ];
    figure.notes = vec![
        "hits = cache / mean queue holds where the queue is steady; at the knee it swings, and the \
         mean of a ratio is not the ratio of means",
    ];
    figure
}

/// Of each rate that is offered: what was counted.
fn sweep(
    parameters: &Parameters,
    bytes: u32,
    burst: u32,
    seed: u64,
) -> Vec<(f64, AdapterCounters)> {
    let rates = (10..=125).step_by(STEP_MB).chain([125]);
    let flow = |offered: usize| Flow {
        bytes,
        offered_bytes_per_s: offered as f64 * 1e6,
        is_poisson: false,
        burst,
        packets: 2000,
        seed,
    };
    rates
        .map(|offered| (offered as f64, run_flow(parameters, &flow(offered))))
        .collect()
}

/// Figure 6.
fn bandwidth(seed: u64) -> Figure {
    const PAPER: [(u32, [f64; 3]); 3] = [
        (1500, [29.0, 40.0, 60.0]),
        (8192, [48.0, 84.0, f64::NAN]),
        (57_344, [60.0, 110.0, 125.0]),
    ];
    let mut figure = empty(
        6,
        "UDP through the forwarder, cache of 1.4 MB",
        ["offered, MB/s", "delivered, MB/s"],
    );
    for (bytes, paper) in PAPER {
        for (mode, paper) in MODES.into_iter().zip(paper) {
            let all = sweep(&Parameters::new(mode, CACHE_BYTES), bytes, 1, seed);
            let points: Vec<_> = all
                .iter()
                .map(|(offered, counters)| (*offered, counters.left_mb_per_s()))
                .collect();
            let peak = points.iter().map(|point| point.1).fold(0.0, f64::max);
            let last = points[points.len() - 1].1;
            let name = format!("{bytes} B {}", mode.name());
            if paper.is_finite() {
                let title = format!("{name}, peak");
                figure
                    .cells
                    .push(cell(title, "MB/s", peak, paper, Tolerance::Share(SHARE)));
            }
            let of_peak = 100.0 * last / peak;
            let title = format!("{name}, at 125 MB/s offered, of the peak");
            let (bound, tolerance) = match bytes {
                57_344 => (95.0, Tolerance::AtLeast),
                _ => (90.0, Tolerance::AtMost),
            };
            if mode != Mode::Direct {
                figure
                    .cells
                    .push(cell(title, "%", of_peak, bound, tolerance));
            } else if bytes == 57_344 {
                let share = 100.0 * all[all.len() - 1].1.processor_share();
                let title = format!("{name}, CPU");
                figure
                    .cells
                    .push(cell(title, "%", share, 20.0, Tolerance::Absolute(5.0)));
            } else if bytes == 8192 {
                let misses = all.iter().find(|(offered, _)| *offered == 100.0);
                let misses = misses.map_or(0.0, |(_, counters)| 1.0 - counters.hit_rate());
                let title = format!("{name}, misses at 100 MB/s");
                let close = Tolerance::Absolute(5.0);
                figure
                    .cells
                    .push(cell(title, "%", 100.0 * misses, 22.0, close));
            }
            figure.curves.push(Curve { name, points });
        }
    }
    figure.notes = vec![
        "the paper has no numbers past the peaks: 'falls' is at most 90 % of the peak here, and \
         'never falls' at least 95 %",
        "direct misses nothing at 100 MB/s of 8 KB, also when packets come in bursts (--size 8192 \
         --burst 500): the link brings one in 66 us, and the processor needs 28 us",
    ];
    figure
}

/// Figure 7.
fn streams(seed: u64) -> Figure {
    /// KiB of cache.
    const CACHES: [u64; 7] = [64, 128, 256, 512, 768, 1024, 1434];
    let mut figure = empty(7, "TCP through the forwarder", ["cache, KiB", "MB/s"]);
    let runs = [
        (1500, Mode::Pcache, 4, 4),
        (8192, Mode::Pcache, 4, 4),
        (8192, Mode::Pcache, 1, 1),
        (1500, Mode::Direct, 4, 4),
        (8192, Mode::Direct, 4, 4),
    ];
    for (mtu, mode, clients, of_each) in runs {
        let streams = Streams {
            mtu,
            clients,
            streams: of_each,
            measured_ns: 700_000_000,
            seed,
        };
        let outcomes = CACHES.map(|kib| run_streams(&Parameters::new(mode, kib << 10), &streams));
        let points: Vec<_> = { CACHES.iter().zip(&outcomes) }
            .map(|(kib, outcome)| (*kib as f64, outcome.goodput_mb_per_s))
            .collect();
        let name = format!("{mtu} B {} x{}", mode.name(), u16::from(clients) * of_each);
        let close = Tolerance::Share(if mtu == 1500 { 0.25 } else { 0.10 });
        let last = points[points.len() - 1].1;
        let mut add = |what: &str, unit, ours, paper, tolerance| {
            let title = format!("{name}, {what}");
            figure.cells.push(cell(title, unit, ours, paper, tolerance));
        };
        match (mtu, mode, clients) {
            (1500, Mode::Pcache, _) => {
                add("64 KiB", "MB/s", points[0].1, 30.0, close);
                add("1.4 MiB", "MB/s", last, 47.0, close);
            }
            (_, Mode::Pcache, 4) => {
                add("64 KiB", "MB/s", points[0].1, 55.0, close);
                add("1.4 MiB", "MB/s", last, 88.0, close);
                add(
                    "hits from 1 MiB",
                    "%",
                    100.0 * outcomes[5].adapter.hit_rate(),
                    100.0,
                    Tolerance::Absolute(0.5),
                );
            }
            (_, Mode::Pcache, _) => add("1.4 MiB", "MB/s", last, 85.0, close),
            (8192, ..) => add("1.4 MiB", "MB/s", last, 125.0, close),
            _ => {}
        }
        if mode == Mode::Direct {
            let misses = outcomes[1..]
                .iter()
                .map(|outcome| 1.0 - outcome.adapter.hit_rate());
            let most = 100.0 * misses.fold(0.0, f64::max);
            add("misses from 128 KiB", "%", most, 1.0, Tolerance::AtMost);
        }
        figure.curves.push(Curve { name, points });
    }
    figure.notes = vec![
        "real TCP: Reno, no SACK, no timestamps, windows of 64 KB, acknowledgements delayed by at \
         most 100 ms as in FreeBSD 4",
        "an acknowledgement that comes alone costs the processor what a page of data does; \
         those that come together share the interrupt",
    ];
    figure
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of all figures, as they were when they were last looked at.
    const GOLDEN: &str = include_str!("golden.txt");

    #[test]
    fn all_figures_are_those_last_looked_at() {
        let mut text = String::new();
        for figure in FIGURES.map(|number| figure(number, 1).expect("it is there")) {
            for cell in &figure.cells {
                let missed = if cell.is_met() == Some(false) {
                    " missed"
                } else {
                    ""
                };
                let Cell {
                    name, ours, unit, ..
                } = cell;
                text += &format!("{}: {name}: {ours:.2} {unit}{missed}\n", figure.number);
            }
        }
        assert!(text == GOLDEN, "golden.txt differs from:\n{text}");
    }
}
