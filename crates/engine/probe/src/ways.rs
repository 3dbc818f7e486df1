//! Delay, loss and order of each way, from echoes that both ends stamped.
//!
//! The two clocks need not agree. What a client sees of a way's delay is `delay + offset` one way
//! and `delay - offset` the other, with an offset that nobody knows: the sum of both ways is known,
//! and how each way's delay differs from one datagram to the next, but not how the sum is split.
//! **Half of the least sum is assumed for each way.** Clocks that run at different rates show as a
//! rise of one way and a fall of the other; that is found and taken out.
//!
//! Not here: rates, which trains show.

use lineside_measure::Spread;
use lineside_time::Nanoseconds;
use serde::Serialize;

/// A datagram as its sender and its receiver saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// When it was sent, by the clock of the client.
    pub at_ns: Nanoseconds,
    /// Its length.
    pub len: u32,
}

/// The answer to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// The number of the question.
    pub number: u32,
    /// Its place in the order in which questions came to the server.
    pub index: u32,
    /// When it left, by the server's clock.
    pub left_ns: Nanoseconds,
    /// When it came, by the client's clock.
    pub at_ns: Nanoseconds,
}

/// A share, and the interval in which the true one lies with 99 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Share {
    /// How many there were.
    pub count: u64,
    /// Of how many.
    pub of: u64,
    /// From 0 to 1.
    pub share: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Share {
    /// By E. B. Wilson's score (J. Am. Stat. Assoc. 22, 1927), which holds for few and for none
    /// too, if each is lost by itself: where losses come in bursts the interval is wider.
    pub fn of(count: u64, of: u64) -> Self {
        /// The quantile of 99.5 % of the normal distribution.
        const Z: f64 = 2.575_829_303_549;
        let share = if of == 0 {
            0.0
        } else {
            count as f64 / of as f64
        };
        let (low, high) = if of == 0 {
            (0.0, 1.0)
        } else {
            let n = of as f64;
            let scale = 1.0 + Z * Z / n;
            let middle = (share + Z * Z / (2.0 * n)) / scale;
            let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt() / scale;
            let low = if count == 0 { 0.0 } else { middle - half };
            let high = if count == of { 1.0 } else { middle + half };
            (low.max(0.0), high.min(1.0))
        };
        Self {
            count,
            of,
            share,
            low,
            high,
        }
    }
}

/// Order of what came, as RFC 4737 counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Order {
    /// Datagrams that came after one that was sent later (section 3.3).
    pub reordered: u64,
    /// How many that were sent later had come before one of them, at most: the reordering extent
    /// (section 4.2.1), without duplicates.
    pub extent_max: u64,
    /// Datagrams that came again.
    pub duplicates: u64,
}

impl Order {
    /// Of numbers in the order in which they came, which `sent` are at most.
    pub fn of(numbers: impl Iterator<Item = u32>, sent: usize) -> Self {
        let (mut order, mut came) = (Self::default(), vec![false; sent]);
        let mut latest = None;
        for number in numbers {
            let Some(is_there) = came.get_mut(number as usize) else {
                continue;
            };
            if *is_there {
                order.duplicates += 1;
                continue;
            }
            *is_there = true;
            if latest.is_none_or(|latest| number > latest) {
                latest = Some(number);
                continue;
            }
            order.reordered += 1;
            let later = &came[number as usize + 1..];
            let extent = later.iter().filter(|&&is_there| is_there).count() as u64;
            order.extent_max = order.extent_max.max(extent);
        }
        order
    }
}

/// A datagram of a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When it was sent, by the client's clock; on the way back, when its question was.
    pub at_ns: Nanoseconds,
    /// How long it took; `None`: it did not come.
    pub took_ns: Option<Nanoseconds>,
    /// Its length.
    pub len: u32,
}

/// The echoes of a stage as seen at both ends.
#[derive(Debug, Default)]
pub struct Echoes {
    /// Questions by number.
    pub sent: Vec<Sent>,
    /// Numbers of questions in the order in which they came to the server, and when, by its clock.
    pub arrivals: Vec<(u32, Nanoseconds)>,
    /// Answers in the order in which they came.
    pub answers: Vec<Answered>,
}

/// The two ways of the echoes.
#[derive(Debug)]
pub struct Ways {
    /// Of each question, the way there.
    pub out: Vec<Sample>,
    /// Of each question that came, the way back.
    pub back: Vec<Sample>,
    /// Order on the way there.
    pub order_out: Order,
    /// Order on the way back.
    pub order_back: Order,
    /// Both ways, without the time at the server.
    pub round_trips: Vec<Sample>,
    /// How much faster the server's clock runs, in millionths, if that was seen and taken out.
    pub drift_ppm: Option<f64>,
}

impl Echoes {
    /// From each question to its answer, with the time at the server: all that is known without
    /// the list of what came there.
    pub(crate) fn answered(&self) -> Vec<Sample> {
        let trip = |sent: &Sent| Sample {
            at_ns: sent.at_ns,
            took_ns: None,
            len: sent.len,
        };
        let mut trips: Vec<_> = self.sent.iter().map(trip).collect();
        for answer in &self.answers {
            if let Some(trip) = trips.get_mut(answer.number as usize) {
                trip.took_ns.get_or_insert(answer.at_ns - trip.at_ns);
            }
        }
        trips
    }

    /// The ways.
    pub fn ways(&self) -> Ways {
        let mut came: Vec<Option<Nanoseconds>> = vec![None; self.sent.len()];
        for &(number, at_ns) in &self.arrivals {
            if let Some(came) = came.get_mut(number as usize) {
                came.get_or_insert(at_ns);
            }
        }
        let mut answered: Vec<Option<Answered>> = vec![None; self.arrivals.len()];
        let mut trips: Vec<Option<Nanoseconds>> = vec![None; self.sent.len()];
        for answer in &self.answers {
            let index = answer.index as usize;
            let asked = self
                .arrivals
                .get(index)
                .filter(|asked| asked.0 == answer.number);
            let sent = self.sent.get(answer.number as usize);
            let (Some(asked), Some(sent)) = (asked, sent) else {
                continue;
            };
            answered[index].get_or_insert(*answer);
            let at_server_ns = answer.left_ns - asked.1;
            trips[answer.number as usize].get_or_insert(answer.at_ns - sent.at_ns - at_server_ns);
        }
        let sample = |sent: &Sent, took_ns| Sample {
            at_ns: sent.at_ns,
            took_ns,
            len: sent.len,
        };
        let out = { self.sent.iter().zip(&came) }
            .map(|(sent, came)| sample(sent, came.map(|came_ns| came_ns - sent.at_ns)));
        let back = { self.arrivals.iter().zip(&answered) }.filter_map(|((number, _), answer)| {
            let sent = self.sent.get(*number as usize)?;
            Some(sample(
                sent,
                answer.map(|answer| answer.at_ns - answer.left_ns),
            ))
        });
        let round_trips = { self.sent.iter().zip(&trips) }.map(|(sent, trip)| sample(sent, *trip));
        let mut ways = Ways {
            out: out.collect(),
            back: back.collect(),
            order_out: Order::of(
                self.arrivals.iter().map(|arrival| arrival.0),
                self.sent.len(),
            ),
            order_back: Order::of(
                self.answers.iter().map(|answer| answer.index),
                self.arrivals.len(),
            ),
            round_trips: round_trips.collect(),
            drift_ppm: None,
        };
        ways.agree();
        ways
    }
}

impl Ways {
    /// Takes the clocks' difference out: its rate, if both ways show it, and as much of it that
    /// both ways' least delays are the same.
    fn agree(&mut self) {
        if let Some(drift) = drift(&self.out, &self.back) {
            self.drift_ppm = Some(drift * 1e6);
            let first_ns = self.out.first().map_or(0, |sample| sample.at_ns);
            let by = |sample: &Sample| (drift * (sample.at_ns - first_ns) as f64) as i64;
            for sample in &mut self.out {
                sample.took_ns = sample.took_ns.map(|took_ns| took_ns - by(sample));
            }
            for sample in &mut self.back {
                sample.took_ns = sample.took_ns.map(|took_ns| took_ns + by(sample));
            }
        }
        let least = |way: &[Sample]| {
            // The shortest datagrams alone: longer ones take longer.
            let len = way.iter().map(|sample| sample.len).min();
            let short = way.iter().filter(|sample| Some(sample.len) == len);
            short.filter_map(|sample| sample.took_ns).min()
        };
        let (Some(out_ns), Some(back_ns)) = (least(&self.out), least(&self.back)) else {
            return;
        };
        let half_ns = (out_ns + back_ns) / 2;
        for (way, least_ns) in [(&mut self.out, out_ns), (&mut self.back, back_ns)] {
            for sample in way {
                sample.took_ns = sample.took_ns.map(|took_ns| took_ns - least_ns + half_ns);
            }
        }
    }
}

/// How much faster the server's clock runs than the client's, if both ways show the same: the
/// slopes of their least delays.
fn drift(out: &[Sample], back: &[Sample]) -> Option<f64> {
    /// A clock of a computer is off by 100 millionths at most, and time services turn it by 500.
    const DRIFT_MAX: f64 = 700e-6;
    /// What differs by less in all changes no figure.
    const CHANGE_MIN_NS: f64 = 10_000.0;
    let (one, other) = (slope(out)?, -slope(back)?);
    let drift = (one + other) / 2.0;
    let span_ns = out.last()?.at_ns - out.first()?.at_ns;
    let is_the_same = (one - other).abs() < 0.2 * drift.abs();
    let matters = drift.abs() * span_ns as f64 > CHANGE_MIN_NS;
    (is_the_same && matters && drift.abs() < DRIFT_MAX).then_some(drift)
}

/// The slope of the least delays of eight parts of the time: the median of the slopes between each
/// two of them (H. Theil, 1950).
fn slope(way: &[Sample]) -> Option<f64> {
    const PARTS: usize = 8;
    let len = way.iter().map(|sample| sample.len).min()?;
    let short: Vec<_> = { way.iter() }
        .filter(|sample| sample.len == len)
        .filter_map(|sample| Some((sample.took_ns?, sample.at_ns)))
        .collect();
    let parts = short.chunks((short.len() / PARTS).max(1));
    let least: Vec<_> = parts.filter_map(|part| part.iter().min()).collect();
    let mut slopes = Vec::new();
    for (at, one) in least.iter().enumerate() {
        for other in &least[at + 1..] {
            if other.1 > one.1 {
                slopes.push((other.0 - one.0) as f64 / (other.1 - one.1) as f64);
            }
        }
    }
    slopes.sort_unstable_by(f64::total_cmp);
    { least.len() >= PARTS }.then(|| slopes.get(slopes.len() / 2).copied())?
}

/// The times of datagrams of one length that came; `None` without any.
pub fn spread(way: &[Sample], is_of_len: impl Fn(u32) -> bool) -> Option<Spread> {
    let of_len = way.iter().filter(|sample| is_of_len(sample.len));
    let times = of_len.filter_map(|sample| sample.took_ns);
    let spread = Spread::of(times.map(|took_ns| (took_ns, 1)).collect());
    (spread.count > 0).then_some(spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Echoes each 10 ms by a server whose clock is `ahead_ns` ahead and runs `ppm` faster.
    fn echoes(count: u32, ahead_ns: i64, ppm: f64, delays: impl Fn(u32) -> [i64; 2]) -> Echoes {
        let mut echoes = Echoes::default();
        let there = |at_ns: i64| at_ns + ahead_ns + (at_ns as f64 * ppm * 1e-6) as i64;
        for number in 0..count {
            let at_ns = i64::from(number) * 10_000_000;
            let [out, back] = delays(number);
            echoes.sent.push(Sent { at_ns, len: 64 });
            echoes.arrivals.push((number, there(at_ns + out)));
            echoes.answers.push(Answered {
                number,
                index: number,
                left_ns: there(at_ns + out + 5_000),
                at_ns: at_ns + out + 5_000 + back,
            });
        }
        echoes
    }

    fn times(way: &[Sample]) -> Vec<i64> {
        way.iter().filter_map(|sample| sample.took_ns).collect()
    }

    #[test]
    fn variation_of_each_way_is_found_whatever_the_clocks_say() {
        let delays = |number: u32| {
            [
                1_000_000 + i64::from(number % 7) * 1000,
                1_000_000 + i64::from(number % 3) * 100,
            ]
        };
        for ahead_ns in [0, -77_000_000_000, i64::MAX / 4] {
            let ways = echoes(400, ahead_ns, 0.0, delays).ways();
            let expected: [Vec<_>; 2] =
                [0, 1].map(|way| (0..400).map(|number| delays(number)[way]).collect());
            assert_eq!([times(&ways.out), times(&ways.back)], expected);
            assert_eq!(ways.drift_ppm, None);
            let both = |number| delays(number).iter().sum::<i64>();
            assert_eq!(
                times(&ways.round_trips),
                (0..400).map(both).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn unequal_ways_are_each_given_half_of_the_least_sum() {
        let ways = echoes(20, 5, 0.0, |number| {
            [3_000_000 + i64::from(number), 1_000_000]
        })
        .ways();
        let expected: Vec<_> = (0..20).map(|number| 2_000_000 + number).collect();
        assert_eq!(times(&ways.out), expected);
        assert_eq!(times(&ways.back), [2_000_000; 20]);
    }

    #[test]
    fn clocks_of_different_rates_are_brought_together() {
        let delays = |number: u32| [2_000_000 + i64::from(number % 5) * 50_000, 2_000_000];
        for ppm in [-40.0, 60.0, 300.0] {
            let ways = echoes(800, 1 << 50, ppm, delays).ways();
            let found = ways.drift_ppm.expect("it is seen");
            assert!((found - ppm).abs() < 0.02 * ppm.abs(), "{ppm}: {found}");
            for (number, took_ns) in times(&ways.out).into_iter().enumerate() {
                let error_ns = took_ns - delays(number as u32)[0];
                assert!(error_ns.abs() < 20_000, "{ppm}: {number}: {error_ns}");
            }
        }
        // What one way alone does is its own.
        let ways = echoes(800, 0, 0.0, |number| {
            [2_000_000 + i64::from(number) * 1000, 2_000_000]
        })
        .ways();
        assert_eq!(ways.drift_ppm, None);
    }

    #[test]
    fn losses_of_each_way_are_distinguished() {
        let mut echoes = echoes(100, 9, 0.0, |_| [1_000_000; 2]);
        // 10 questions do not come; of the others' answers 5 do not.
        echoes.arrivals.retain(|(number, _)| number % 10 != 3);
        let places: Vec<u32> = echoes.arrivals.iter().map(|arrival| arrival.0).collect();
        echoes
            .answers
            .retain(|answer| answer.number % 10 != 3 && answer.number % 20 != 5);
        for answer in &mut echoes.answers {
            let place = places.iter().position(|number| *number == answer.number);
            answer.index = place.expect("it came") as u32;
        }
        let ways = echoes.ways();
        let lost = |way: &[Sample]| way.iter().filter(|sample| sample.took_ns.is_none()).count();
        assert_eq!((ways.out.len(), lost(&ways.out)), (100, 10));
        assert_eq!((ways.back.len(), lost(&ways.back)), (90, 5));
    }

    #[test]
    fn order_is_counted_as_rfc_4737_does() {
        // Its appendix has 1 2 3 5 6 7 4 8 in this form: 4 is late by an extent of 3.
        let order = Order::of([0, 1, 2, 4, 5, 6, 3, 7, 7, 99].into_iter(), 8);
        assert_eq!(
            (order.reordered, order.extent_max, order.duplicates),
            (1, 3, 1)
        );
    }

    #[test]
    fn intervals_are_wilsons() {
        // Agresti and Coull (The American Statistician 52, 1998) give the form; by hand for 1 of
        // 10 with 99 %.
        let share = Share::of(1, 10);
        assert!(
            (share.low - 0.0117).abs() < 2e-4 && (share.high - 0.5072).abs() < 1e-3,
            "{share:?}"
        );
        assert_eq!((Share::of(0, 50).low, Share::of(50, 50).high), (0.0, 1.0));
        assert_eq!((Share::of(0, 0).low, Share::of(0, 0).high), (0.0, 1.0));
    }
}
