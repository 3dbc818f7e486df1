//! What a probe found: figures of both ways, and files that an emulated link takes.

use lineside_link::{PathFile, PathStep};
use lineside_measure::Spread;
use lineside_time::Nanoseconds;
use serde::Serialize;

use crate::message::LEN_MIN;
use crate::settings::Settings;
use crate::stages::Direction;
use crate::train::{Fit, RateFound};
use crate::ways::{Order, Sample, Share, Ways, spread};

/// What a probe found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Findings {
    /// Round trips, without the time at the server.
    pub round_trips: Option<Spread>,
    /// Echoes that were not answered.
    pub round_trips_lost: Option<Share>,
    /// From here to there.
    pub out: WayFound,
    /// From there to here.
    #[serde(rename = "in")]
    pub back: WayFound,
    /// How much faster the server's clock runs, in millionths, where that was seen and taken out.
    pub clock_drift_ppm: Option<f64>,
    /// Bytes of the IP packets that were sent.
    pub sent_bytes: u64,
    /// Bytes of the IP packets that were asked for.
    pub received_bytes: u64,
    /// Bytes of IP packets that were allowed.
    pub budget_bytes: u64,
    /// What the figures leave open, a sentence each.
    pub remarks: Vec<String>,
    /// Both ways of each echo.
    #[serde(skip)]
    pub trips: Vec<Sample>,
}

/// What was found of a way.
#[derive(Debug, Clone, Default, Serialize)]
pub struct WayFound {
    /// The delays of short packets, half of the least round trip being assumed for each way, and
    /// without the time that their own bits take at the rate.
    pub delay: Option<Spread>,
    /// How much more than the least a packet's delay was: no assumption is in it.
    pub variation: Option<Spread>,
    /// What was lost of the echoes.
    pub lost: Option<Share>,
    /// Their order.
    pub order: Option<Order>,
    /// What trains of packets show.
    pub rate: Option<RateFound>,
    /// Packets of trains.
    pub train_packets: u64,
    /// Packets of trains that did not come: of more than a queue holds.
    pub train_packets_lost: u64,
    /// Round trips while the way was full.
    pub loaded: Option<Loaded>,
    /// The longest IP packet that passes in one piece.
    pub mtu_bytes: Option<u32>,
    /// Each echo in the order of sending.
    #[serde(skip)]
    pub samples: Vec<Sample>,
    #[serde(skip)]
    pub(crate) fits: Vec<Fit>,
}

/// What happened to echoes while a way was full.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Loaded {
    /// How fast it was filled: 1.25 times the rate that was found.
    pub bits_per_second: u64,
    /// With how many packets.
    pub packets: u64,
    /// Echoes beside them.
    pub echoes: u64,
    /// Echoes that were not answered.
    pub lost: u64,
    /// How long those took that were.
    pub round_trips: Option<Spread>,
}

impl Findings {
    pub(crate) fn way(&mut self, direction: Direction) -> &mut WayFound {
        match direction {
            Direction::Out => &mut self.out,
            Direction::Back => &mut self.back,
        }
    }

    /// Both ways of echoes.
    pub(crate) fn on_ways(&mut self, ways: Ways) {
        let is_short = |len| len == LEN_MIN as u32;
        self.round_trips = spread(&ways.round_trips, is_short);
        self.round_trips_lost = Some(lost(&ways.round_trips));
        self.clock_drift_ppm = ways.drift_ppm;
        let both = [
            (Direction::Out, ways.out, ways.order_out),
            (Direction::Back, ways.back, ways.order_back),
        ];
        for (direction, samples, order) in both {
            let way = self.way(direction);
            way.delay = spread(&samples, is_short);
            let least_ns = way.delay.as_ref().map_or(0, |delay| delay.min_ns);
            let above = |sample: &Sample| Sample {
                took_ns: sample.took_ns.map(|took_ns| took_ns - least_ns),
                ..*sample
            };
            let above: Vec<_> = samples.iter().map(above).collect();
            way.variation = spread(&above, is_short);
            way.lost = Some(lost(&samples));
            way.order = Some(order);
            way.samples = samples;
        }
        self.trips = ways.round_trips;
    }

    /// Rates from the trains, and delays without what the rates explain.
    pub(crate) fn conclude(&mut self, long_len: u32, settings: &Settings) {
        let frame = |len: u32| len + settings.frame_header_bytes();
        let mut own_ns = [0, 0];
        for (direction, own_ns) in [Direction::Out, Direction::Back]
            .into_iter()
            .zip(&mut own_ns)
        {
            let way = self.way(direction);
            let Some(fit) = RateFound::of(&way.fits, frame(long_len), true) else {
                continue;
            };
            let bits_ns = |bytes: u32| f64::from(bytes) * 8e9 / fit.bits_per_second.max(1) as f64;
            let waits = way.long_ones_wait_ns();
            // A packet alone waits for its own bits unless a bucket has room for it: the longer one
            // for longer. Half of that is midway between the two.
            let difference_ns = bits_ns(frame(long_len)) - bits_ns(frame(LEN_MIN as u32));
            let has_bucket = waits.is_none_or(|waits_ns| waits_ns < difference_ns / 2.0);
            let rate = RateFound::of(&way.fits, frame(long_len), has_bucket);
            way.rate = rate;
            if rate.is_some_and(|rate| !rate.is_at_least && rate.bucket_bytes == 0) {
                *own_ns = bits_ns(frame(LEN_MIN as u32)) as i64;
            }
        }
        // The two together are what both least delays have too much, of which each has a half.
        let too_much_ns = (own_ns[0] + own_ns[1]) / 2;
        for way in [&mut self.out, &mut self.back] {
            for sample in &mut way.samples {
                sample.took_ns = sample.took_ns.map(|took_ns| (took_ns - too_much_ns).max(0));
            }
            way.delay = spread(&way.samples, |len| len == LEN_MIN as u32);
        }
    }
}

fn lost(samples: &[Sample]) -> Share {
    let lost = samples.iter().filter(|sample| sample.took_ns.is_none());
    Share::of(lost.count() as u64, samples.len() as u64)
}

impl WayFound {
    /// How much longer long packets take than short ones, at their medians.
    fn long_ones_wait_ns(&self) -> Option<f64> {
        let is_short = |len| len == LEN_MIN as u32;
        let short = spread(&self.samples, is_short)?;
        let long = spread(&self.samples, |len| !is_short(len))?;
        Some((long.p50_ns - short.p50_ns) as f64)
    }

    /// The way over time, for `emulate --path`: in each `step_ns` the median delay of short
    /// packets, and in each stretch of at least [`LOSS_SAMPLES`] packets the share that was lost.
    /// The rate is in it unless there is a bucket, which a path file has no word for.
    pub fn path_file(&self, step_ns: u64) -> Result<PathFile, &'static str> {
        let rate = self
            .rate
            .filter(|rate| !rate.is_at_least && rate.bucket_bytes == 0);
        path_file(
            &self.samples,
            step_ns,
            LOSS_SAMPLES,
            rate.map(|rate| rate.bits_per_second),
        )
    }

    /// The delays of short packets, in nanoseconds, in the order of sending.
    pub fn delays_ns(&self) -> Vec<Nanoseconds> {
        let short = self
            .samples
            .iter()
            .filter(|sample| sample.len == LEN_MIN as u32);
        short.filter_map(|sample| sample.took_ns).collect()
    }
}

/// Packets of which a share of losses is taken at least: a lost one alone does not stand for all
/// that another sender has under way in the same moment.
pub const LOSS_SAMPLES: usize = 100;

/// A network over time, which begins anew at its end: in each step the median of the shortest
/// samples, and the share that was lost of those of the step, or of as many steps as have this many
/// samples.
pub fn path_file(
    samples: &[Sample],
    step_ns: u64,
    loss_samples: usize,
    bits_per_second: Option<u64>,
) -> Result<PathFile, &'static str> {
    let first_ns = samples.first().map_or(0, |sample| sample.at_ns);
    let len = samples.iter().map(|sample| sample.len).min();
    let window = |sample: &Sample| (sample.at_ns - first_ns).max(0) as u64 / step_ns.max(1);
    let mut steps: Vec<PathStep> = Vec::new();
    // The first steps and how many samples each stretch of losses has.
    let (mut stretches, mut delay_ns) = (Vec::<(usize, usize, usize)>::new(), None);
    for here in samples.chunk_by(|one, other| window(one) == window(other)) {
        let mut times: Vec<_> = { here.iter() }
            .filter(|sample| Some(sample.len) == len)
            .filter_map(|sample| sample.took_ns)
            .collect();
        times.sort_unstable();
        // Without any that came, the delay stays as it was.
        delay_ns = { times.get(times.len() / 2) }
            .map(|&took_ns| took_ns.max(0).cast_unsigned())
            .or(delay_ns);
        let lost = here
            .iter()
            .filter(|sample| sample.took_ns.is_none())
            .count();
        match stretches.last_mut() {
            Some((_, of, all_lost)) if *of < loss_samples => {
                *of += here.len();
                *all_lost += lost;
            }
            _ => stretches.push((steps.len(), here.len(), lost)),
        }
        steps.push(PathStep {
            at_ns: window(&here[0]) * step_ns,
            delay_ns: Some(delay_ns.unwrap_or(0)),
            loss: Some(0.0),
            bits_per_second,
        });
    }
    // A rest with too few samples belongs to the stretch before it.
    if let [.., before, last] = &mut stretches[..]
        && last.1 < loss_samples
    {
        (before.1, before.2) = (before.1 + last.1, before.2 + last.2);
        stretches.pop();
    }
    for (at, &(begin, of, lost)) in stretches.iter().enumerate() {
        let end = stretches.get(at + 1).map_or(steps.len(), |next| next.0);
        for step in &mut steps[begin..end] {
            step.loss = Some(lost as f64 / of as f64);
        }
    }
    let period_ns = steps.last().map(|last| last.at_ns + step_ns);
    PathFile::new("measured", steps, period_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ms: i64, took_ns: Option<i64>) -> Sample {
        Sample {
            at_ns: 5_000_000 + at_ms * 1_000_000,
            took_ns,
            len: 64,
        }
    }

    #[test]
    fn a_path_file_has_delays_by_step_and_losses_by_stretch() {
        let samples = [
            sample(0, Some(1000)),
            sample(10, None),
            sample(20, Some(3000)),
            sample(30, Some(4000)),
            sample(40, None),
        ];
        let path = path_file(&samples, 10_000_000, 2, Some(8000)).expect("a path");
        assert_eq!(
            path.write(),
            "time delay loss rate\n0ns 1us 50% 8000bit\n10ms 1us 50% 8000bit\n\
            20ms 3us 33.333333333333% 8000bit\n30ms 4us 33.333333333333% 8000bit\n\
            40ms 4us 33.333333333333% 8000bit\n50ms repeat\n"
        );
        let path = path_file(&samples, 20_000_000, 1, None).expect("a path");
        assert_eq!(
            path.write(),
            "time delay loss\n0ns 1us 50%\n20ms 4us 0%\n40ms 4us 100%\n60ms repeat\n"
        );
    }
}
