//! Attempts at what a busy machine spoils, and what the kernel says of the machine meanwhile.

use lineside_host::Stopwatch;

/// Above this share of an attempt's time in which some process waited for a processor, the machine
/// is busy with something else: the processes of a test alone come to a few in a hundred.
const PRESSURE_MAX: f64 = 0.25;

/// The same of time that the machine's host took.
const STOLEN_MAX: f64 = 0.02;

/// What the kernel has counted of processes that wait, and of time that was stolen.
struct Strain {
    since: Stopwatch,
    waited_us: Option<u64>,
    ticks: Vec<u64>,
}

impl Strain {
    fn begin() -> Self {
        let pressure = std::fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
        let total = { pressure.lines() }.find(|line| line.starts_with("some "));
        let total = total.and_then(|line| line.rsplit_once("total=")?.1.parse().ok());
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let all = stat.lines().next().unwrap_or_default().split_whitespace();
        Self {
            since: Stopwatch::start(),
            waited_us: total,
            ticks: all
                .skip(1)
                .take(8)
                .filter_map(|ticks| ticks.parse().ok())
                .collect(),
        }
    }

    /// Shares of the time since then, and whether either is too much.
    fn end(&self) -> (String, bool) {
        let now = Self::begin();
        let took_us = self.since.elapsed().as_micros().max(1) as f64;
        let waited = { now.waited_us.zip(self.waited_us) }
            .map_or(0.0, |(now, then)| now.saturating_sub(then) as f64 / took_us);
        let ticks = now.ticks.iter().zip(&self.ticks);
        let ticks: Vec<u64> = ticks.map(|(now, then)| now.saturating_sub(*then)).collect();
        // proc(5): the eighth is `steal`.
        let stolen = ticks.get(7).map_or(0.0, |&stolen| {
            stolen as f64 / ticks.iter().sum::<u64>().max(1) as f64
        });
        (
            format!(
                "pressure {:.0} %, stolen {:.1} %",
                100.0 * waited,
                100.0 * stolen
            ),
            waited > PRESSURE_MAX || stolen > STOLEN_MAX,
        )
    }
}

/// Makes up to five attempts: an error of one describes how a busy machine disturbed it, which is
/// no fault of the program. `./test` counts the lines that begin with `DISTURBED: `. If all five
/// fail, the test does, unless the kernel says of each that processes waited for a processor or
/// that time was stolen: then it is skipped, and says so.
pub(crate) fn undisturbed(what: &str, mut attempt: impl FnMut() -> Result<(), String>) {
    let mut was_busy = true;
    for _ in 0..5 {
        let strain = Strain::begin();
        let Err(why) = attempt() else { return };
        let (figures, is_busy) = strain.end();
        was_busy &= is_busy;
        println!("DISTURBED: {what}: {figures}: {why}");
    }
    assert!(was_busy, "{what}: failed five times");
    println!("SKIP: {what}: the machine was busy in each of five attempts");
}
