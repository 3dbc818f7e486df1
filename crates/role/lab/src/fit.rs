//! The law that a metric follows over delay or rate, and what that says of the application.
//!
//! A loop that waits for each answer gives `c / (RTT0 + 2 d)` answers a second at a delay of `d`
//! each way, with `c` requests under way and a round trip of `RTT0` without any delay, unless
//! something else bounds it first: `min(cap, c / (RTT0 + 2 d))`. A law whose residuals are too
//! great is none.

use std::collections::BTreeMap;

use lineside_link::Setting;
use lineside_words::{bit_rate, number, percent, signed_time};
use serde::Serialize;

use crate::sweep::{rate_bits, time_ns};
use crate::{Axis, Estimate, Experiment, LabError, Results};

/// The greatest residual of a law that fits, where repeats do not spread more.
const RESIDUAL_MAX: f64 = 0.10;
/// A law without a cap that is off by no more needs none.
const PLAIN: f64 = 0.03;
/// A metric that changes less over an axis does not depend on it.
const FLAT: f64 = 0.05;
/// A node that used so much of one core was bound by it.
const CPU_MIN: f64 = 0.90;

/// What bounds a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Bound {
    /// The delay of a link.
    Delay,
    /// The rate of a link.
    Rate,
    /// The processor time of a node.
    Cpu,
    /// Something that no axis changes.
    Nothing,
    /// It cannot be known.
    Unknown,
}

/// The law of a metric over one axis, where the others have these values.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fit {
    /// The metric.
    pub metric: String,
    /// The axis over which it was looked at.
    pub over: String,
    /// The values of the other axes.
    pub at: BTreeMap<String, String>,
    /// What bounds it at the greatest delay, or the smallest rate.
    pub bound: Bound,
    /// The most that it reaches.
    pub cap: Option<f64>,
    /// Requests under way; for a rate the metric per bit a second.
    pub c: Option<f64>,
    /// The round trip without any delay.
    pub rtt0_ns: Option<f64>,
    /// Up to this delay, or from this rate on, something else bounds it.
    pub knee: Option<f64>,
    /// How far a point is off the law at most, as a share.
    pub residual_max: Option<f64>,
    /// The same in words.
    pub sentence: String,
}

/// A point of a cut.
#[derive(Clone, Copy)]
struct Sample {
    x: f64,
    y: Estimate,
    /// Cores of the busiest node, with its number.
    cpu: Option<(f64, usize)>,
}

/// `min(cap, c / (rtt0 + 2 x))`, or `min(cap, c x)`.
#[derive(Debug, Clone, Copy, Default)]
struct Law {
    cap: Option<f64>,
    c: Option<f64>,
    rtt0: f64,
}

/// What an axis is to a link.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    Delay,
    Rate,
}

/// What bounds each metric that is better when it is more, over each axis that is a link's delay or
/// rate.
pub fn answer(results: &Results) -> Vec<Fit> {
    let lab = &results.lab;
    let mut fits = Vec::new();
    for metric in lab.metrics() {
        if metric.better != Some(crate::Better::More) {
            continue;
        }
        for axis in &lab.sweep {
            let Some(over) = over(lab, axis) else {
                continue;
            };
            for (at, samples) in cuts(results, &metric.name, axis, over) {
                fits.push(fit(results, (&metric.name, axis, over), at, &samples));
            }
        }
    }
    fits
}

/// What a target such as `answered >= 20000` takes of each delay and rate: a sentence for each law
/// of its metric.
pub fn reach(results: &Results, target: &str) -> Result<Vec<String>, LabError> {
    let wrong = |why: String| LabError::Usage(format!("--target '{target}': {why}"));
    let (metric, least) =
        { target.split_once(">=") }.ok_or_else(|| wrong("write METRIC >= NUMBER".to_owned()))?;
    let (metric, least) = (metric.trim(), least.trim());
    let number_of = least.replace(',', "").parse::<f64>().ok();
    let least = number_of.filter(|it| *it > 0.0);
    let least = least.ok_or_else(|| wrong("give a number above 0".to_owned()))?;
    if results.metric(metric).is_none() {
        let known = results.lab.metrics().map(|metric| metric.name.as_str());
        let nearest = lineside_words::nearest(metric, known);
        return Err(wrong(format!(
            "no metric {metric}; the nearest one is {nearest}"
        )));
    }
    let fits = answer(results).into_iter();
    let fits = fits.filter(|fit| fit.metric == metric);
    let mut sentences: Vec<_> = fits.map(|fit| fit.place() + &fit.reach(least)).collect();
    if sentences.is_empty() {
        let why = "no axis is the delay or the rate of a link alone";
        return Err(wrong(why.to_owned()));
    }
    sentences.extend(measured(results, metric, least));
    Ok(sentences)
}

/// Points of an answer that are named.
const NAMED_MAX: usize = 4;

/// What the networks of points cost, and their words.
type Reached = Vec<(Vec<f64>, String)>;

/// Which of the points that were measured reach this much with all of their interval, and need no
/// better network than others that do: a sentence for each value of the other axes.
fn measured(results: &Results, metric: &str, least: f64) -> Vec<String> {
    let lab = &results.lab;
    let costs: Vec<_> = { lab.sweep.iter() }
        .filter_map(|axis| Some((axis, over(lab, axis)?)))
        .collect();
    let mut groups = Groups::default();
    for point in 1..=lab.points() {
        let (mut others, mut network) = (lab.values(point), Vec::new());
        let mut words = BTreeMap::new();
        for (axis, over) in &costs {
            let value = others.remove(&axis.name).unwrap_or_default();
            // What is less is the easier to have.
            network.push(match over {
                Over::Delay => -time_ns(&value).unwrap_or_default(),
                Over::Rate => rate_bits(&value).unwrap_or_default(),
            });
            words.insert(axis.name.clone(), value);
        }
        let reached: &mut Reached = groups.at(others);
        let estimate = results.estimate(point, metric);
        if estimate.is_some_and(|it| it.low.unwrap_or(it.value) >= least) {
            reached.push((network, crate::sweep::point_text(&words)));
        }
    }
    let goal = format!("{metric} >= {}", number(least));
    let sentences = groups.0.into_iter().map(|(at, reached)| {
        let is_easier = |one: &[f64], other: &[f64]| {
            one != other && one.iter().zip(other).all(|(one, other)| one <= other)
        };
        let easiest = { reached.iter() }
            .filter(|(one, _)| !reached.iter().any(|(other, _)| is_easier(other, one)));
        let names: Vec<&str> = easiest.map(|(_, words)| words.as_str()).collect();
        let more = match names.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let shown = names[..names.len().min(NAMED_MAX)].join(", or ");
        let place = place(&at);
        match names.is_empty() {
            true => format!("{place}{goal} was measured at no point"),
            false => {
                format!("{place}{goal} was measured at {shown}{more}, with all of its interval")
            }
        }
    });
    sentences.collect()
}

/// Where it is, for the beginning of a sentence.
fn place(at: &BTreeMap<String, String>) -> String {
    match crate::sweep::point_text(at) {
        at if at.is_empty() => at,
        at => format!("{at}: "),
    }
}

impl Fit {
    /// Where it is, for the beginning of a sentence.
    pub fn place(&self) -> String {
        place(&self.at)
    }

    /// What the law has at this delay, in nanoseconds, or this rate; `None` without a law.
    pub fn at(&self, x: f64) -> Option<f64> {
        self.residual_max?;
        let over = match self.rtt0_ns {
            Some(_) => Over::Delay,
            None => Over::Rate,
        };
        let law = Law {
            cap: self.cap,
            c: self.c,
            rtt0: self.rtt0_ns.unwrap_or_default() / 1e9,
        };
        Some(law.at(x, over))
    }

    /// What it takes to reach this much.
    fn reach(&self, least: f64) -> String {
        let (metric, over, goal) = (&self.metric, &self.over, number(least));
        let most = self.cap.unwrap_or(f64::INFINITY);
        let Some(off) = self.residual_max else {
            return format!(
                "what {metric} >= {goal} takes of {over} cannot be known: {}",
                self.sentence
            );
        };
        let off = percent(off);
        if least > most {
            return format!(
                "no {over} brings {metric} to {goal}: {} is its most",
                number(most)
            );
        }
        match (self.c, self.rtt0_ns) {
            (None, _) => format!("{metric} is {goal} or more at every {over}"),
            (Some(c), Some(rtt0_ns)) => match (c / least * 1e9 - rtt0_ns) / 2.0 {
                delay_ns if delay_ns < 0.0 => {
                    let most = number(c / rtt0_ns * 1e9);
                    format!("no {over} brings {metric} to {goal}: without any it is {most}")
                }
                delay_ns => {
                    let delay = signed_time(delay_ns);
                    format!(
                        "{metric} >= {goal} takes a {over} of {delay} at most each way, within {off}"
                    )
                }
            },
            (Some(c), None) => {
                let rate = bit_rate(least / c);
                format!("{metric} >= {goal} takes a {over} of {rate} at least, within {off}")
            }
        }
    }
}

/// Whether an axis is the delay or the rate of a link, and nothing else.
fn over(lab: &Experiment, axis: &Axis) -> Option<Over> {
    let placeholder = format!("{{{}}}", axis.name);
    let is = |words: &[String]| words.iter().any(|text| text.trim() == placeholder);
    let all = |is: fn(&str) -> Option<f64>| axis.values.iter().all(|value| is(value).is_some());
    let mut links = lab.links.iter();
    if lab.links.iter().any(|link| is(link.texts(Setting::Delay))) && all(time_ns) {
        return Some(Over::Delay);
    }
    (links.any(|link| is(link.texts(Setting::Rate))) && all(rate_bits)).then_some(Over::Rate)
}

/// Something for each value of some axes, in the order of the points.
#[derive(Default)]
struct Groups<T>(
    Vec<(BTreeMap<String, String>, T)>,
    BTreeMap<BTreeMap<String, String>, usize>,
);

impl<T: Default> Groups<T> {
    fn at(&mut self, at: BTreeMap<String, String>) -> &mut T {
        let new = self.0.len();
        let number = *self.1.entry(at.clone()).or_insert(new);
        if number == new {
            self.0.push((at, T::default()));
        }
        &mut self.0[number].1
    }
}

/// The samples along an axis for all values of the others.
fn cuts(
    results: &Results,
    metric: &str,
    axis: &Axis,
    over: Over,
) -> Vec<(BTreeMap<String, String>, Vec<Sample>)> {
    let mut cuts = Groups::default();
    for point in 1..=results.lab.points() {
        let mut at = results.lab.values(point);
        let value = at.remove(&axis.name).unwrap_or_default();
        let x = match over {
            Over::Delay => time_ns(&value),
            Over::Rate => rate_bits(&value),
        };
        let all: &mut Vec<Sample> = cuts.at(at);
        if let (Some(x), Some(y)) = (x, results.estimate(point, metric)) {
            let cpu = results.busiest(point);
            all.push(Sample { x, y, cpu });
        }
    }
    for (_, samples) in &mut cuts.0 {
        samples.sort_by(|one, other| one.x.total_cmp(&other.x));
        if over == Over::Rate {
            // As with delays, what is least bound comes first.
            samples.reverse();
        }
    }
    cuts.0
}

fn fit(
    results: &Results,
    (metric, axis, over): (&str, &Axis, Over),
    at: BTreeMap<String, String>,
    samples: &[Sample],
) -> Fit {
    let mut fit = Fit {
        metric: metric.to_owned(),
        over: axis.name.clone(),
        at,
        bound: Bound::Unknown,
        cap: None,
        c: None,
        rtt0_ns: None,
        knee: None,
        residual_max: None,
        sentence: String::new(),
    };
    let why = match law(samples, over) {
        Ok(law) => {
            fit.cap = law.cap;
            fit.c = law.c;
            fit.rtt0_ns = law
                .c
                .filter(|_| over == Over::Delay)
                .map(|_| law.rtt0 * 1e9);
            fit.residual_max = Some(residual(samples, law, over));
            describe(results, &mut fit, samples, law, over);
            return fit;
        }
        Err(why) => why,
    };
    fit.sentence = format!(
        "what bounds {metric} over {} cannot be known, because {why}",
        axis.name
    );
    fit
}

/// The law of samples, if there is one.
fn law(samples: &[Sample], over: Over) -> Result<Law, String> {
    let count = samples.len();
    if count < 3 {
        return Err(format!(
            "it was measured at {count} of its values: 3 are the least"
        ));
    }
    if samples.iter().any(|sample| sample.y.value <= 0.0) {
        return Err("it is not above 0 everywhere".to_owned());
    }
    let values = samples.iter().map(|sample| sample.y.value);
    let (least, most) = values
        .clone()
        .fold((f64::INFINITY, 0.0_f64), |(least, most), value| {
            (least.min(value), most.max(value))
        });
    if least / most >= 1.0 - FLAT {
        return Ok(Law {
            cap: crate::statistics::median(&values.collect::<Vec<_>>()),
            ..Law::default()
        });
    }
    // The first samples are at the cap, the others beyond the knee.
    let params = if over == Over::Delay { 2 } else { 1 };
    let most_capped = count.saturating_sub(params + 1);
    // One sample alone is no cap.
    let caps = [0].into_iter().chain(2..=most_capped);
    let laws = caps.filter_map(|capped| {
        let beyond = inverse(&samples[capped..], over)?;
        let firsts: Vec<_> = samples[..capped].iter().map(|it| it.y.value).collect();
        let cap = crate::statistics::median(&firsts);
        Some(Law { cap, ..beyond })
    });
    let off = |law: &Law| residual(samples, *law, over);
    let laws: Vec<_> = laws.collect();
    let best = laws
        .iter()
        .min_by(|one, other| off(one).total_cmp(&off(other)));
    let best = best.ok_or_else(|| "it does not fall as a law has it".to_owned())?;
    // A cap has to explain something.
    let plain = laws.iter().find(|law| law.cap.is_none());
    let plain = plain.filter(|plain| off(plain) <= (1.5 * off(best)).max(PLAIN));
    let best = *plain.unwrap_or(best);
    let spread = samples.iter().filter_map(|sample| {
        let (low, high) = sample.y.low.zip(sample.y.high)?;
        Some((high - low) / 2.0 / sample.y.value)
    });
    let borne = spread.fold(RESIDUAL_MAX, f64::max).min(2.0 * RESIDUAL_MAX);
    match off(&best) {
        off if off <= borne => Ok(best),
        off => Err(format!(
            "the best law is off by {} at a point",
            percent(off)
        )),
    }
}

/// `c / (rtt0 + 2 x)` by least squares of relative errors: `1 / y` is a line. For a rate `c x`.
fn inverse(samples: &[Sample], over: Over) -> Option<Law> {
    if over == Over::Rate {
        let ratios: Vec<_> = samples.iter().map(|it| it.y.value / it.x).collect();
        return Some(Law {
            c: crate::statistics::median(&ratios),
            ..Law::default()
        });
    }
    // Weighted by y: an error of 1/y counts by its share.
    let (mut ww, mut wx, mut wxx, mut wy, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for sample in samples {
        let (x, y) = (2.0 * sample.x / 1e9, sample.y.value);
        let weight = y * y;
        ww += weight;
        wx += weight * x;
        wxx += weight * x * x;
        wy += weight / y;
        wxy += weight * x / y;
    }
    let determinant = ww * wxx - wx * wx;
    let slope = (ww * wxy - wx * wy) / determinant;
    let offset = (wxx * wy - wx * wxy) / determinant;
    (determinant > 0.0 && slope > 0.0 && offset >= 0.0).then(|| Law {
        cap: None,
        c: Some(1.0 / slope),
        rtt0: offset / slope,
    })
}

impl Law {
    fn at(self, x: f64, over: Over) -> f64 {
        let beyond = self.c.map_or(f64::INFINITY, |c| match over {
            Over::Delay => c / (self.rtt0 + 2.0 * x / 1e9),
            Over::Rate => c * x,
        });
        beyond.min(self.cap.unwrap_or(f64::INFINITY))
    }

    /// Where the cap ends.
    fn knee(self, over: Over) -> Option<f64> {
        let (cap, c) = self.cap.zip(self.c)?;
        let knee = match over {
            Over::Delay => (c / cap - self.rtt0) / 2.0 * 1e9,
            Over::Rate => cap / c,
        };
        (knee > 0.0).then_some(knee)
    }
}

/// How far a sample is off a law at most.
fn residual(samples: &[Sample], law: Law, over: Over) -> f64 {
    let off = |sample: &Sample| (sample.y.value / law.at(sample.x, over) - 1.0).abs();
    samples.iter().map(off).fold(0.0, f64::max)
}

/// What a law says.
fn describe(results: &Results, fit: &mut Fit, samples: &[Sample], law: Law, over: Over) {
    fit.knee = law.knee(over);
    let (metric, axis) = (&fit.metric, &fit.over);
    let off = percent(fit.residual_max.unwrap_or_default());
    let cap = law.cap.map(number).unwrap_or_default();
    let busy = busy(samples, law);
    let else_by = match busy {
        Some((cores, node)) => {
            let name = &results.lab.nodes[node].name;
            format!("CPU: node {name} takes {} of a core", number(cores))
        }
        None => "something that is neither CPU nor an axis".to_owned(),
    };
    let Some(c) = law.c else {
        fit.bound = busy.map_or(Bound::Nothing, |_| Bound::Cpu);
        let by = match busy {
            Some(_) => format!("bound by {else_by}"),
            None => format!("not bound by {axis}"),
        };
        fit.sentence = format!(
            "{metric} is {by}: {cap} at every {axis}, within {off}; another one would bring nothing"
        );
        return;
    };
    // The greatest delay, or the least rate.
    let last = samples.last().map_or(0.0, |it| it.x);
    match over {
        Over::Delay => {
            fit.bound = Bound::Delay;
            let rtt0 = signed_time(law.rtt0 * 1e9);
            let law_text = format!(
                "{} under way over a round trip of {rtt0} and twice the delay, within {off}",
                number(c)
            );
            let (half, far) = (number(gain(law, last, last / 2.0, over)), signed_time(last));
            fit.sentence = match fit.knee {
                Some(knee) => format!(
                    "{metric} is bound by delay beyond {} each way ({law_text}), and at {cap} below \
                     that by {else_by}; {far} is {} times that, and half of it would bring {half} %",
                    signed_time(knee),
                    number(last / knee)
                ),
                None => format!(
                    "{metric} is bound by delay: {law_text}; half the delay of {far} would bring \
                     {half} %"
                ),
            };
        }
        Over::Rate => {
            fit.bound = Bound::Rate;
            let each = bit_rate(1.0 / c);
            let each = each.trim_end_matches("/s");
            fit.sentence = match fit.knee {
                Some(knee) => format!(
                    "{metric} is bound by rate below {} ({each} each, within {off}), and at {cap} \
                     above that by {else_by}; {} is {} of that, and twice as much would bring {} %",
                    bit_rate(knee),
                    bit_rate(last),
                    percent(last / knee),
                    number(gain(law, last, last * 2.0, over))
                ),
                None => format!(
                    "{metric} is bound by rate: {each} each, within {off}; up to {} nothing else \
                     bounds it",
                    bit_rate(samples.first().map_or(0.0, |it| it.x))
                ),
            };
        }
    }
}

/// The node that takes all of a core where the axis does not bound a metric.
fn busy(samples: &[Sample], law: Law) -> Option<(f64, usize)> {
    let cap = law.cap.unwrap_or(f64::INFINITY);
    let capped = { samples.iter() }.filter(|it| law.c.is_none() || it.y.value >= 0.9 * cap);
    let busiest = capped
        .filter_map(|sample| sample.cpu)
        .max_by(|one, other| one.0.total_cmp(&other.0));
    busiest.filter(|(cores, _)| *cores >= CPU_MIN)
}

/// What another delay or rate would bring, in percent.
fn gain(law: Law, from: f64, to: f64, over: Over) -> f64 {
    ((law.at(to, over) / law.at(from, over) - 1.0) * 100.0).round()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(over: Over, of: impl Fn(f64) -> f64) -> Vec<Sample> {
        let us = [0.0, 25.0, 50.0, 100.0, 200.0, 400.0, 800.0];
        let mbit = [1e9, 500e6, 200e6, 100e6, 50e6, 20e6, 10e6];
        let xs = match over {
            Over::Delay => us.map(|us| us * 1e3),
            Over::Rate => mbit,
        };
        let sample = |(at, x): (usize, &f64)| Sample {
            x: *x,
            // Some noise, the same each time.
            y: Estimate {
                value: of(*x) * (1.0 + 0.02 * ((at % 3) as f64 - 1.0)),
                low: None,
                high: None,
            },
            cpu: None,
        };
        xs.iter().enumerate().map(sample).collect()
    }

    #[test]
    fn a_known_law_is_found_with_its_figures() {
        let near = |found: Option<f64>, right: f64| {
            let found = found.expect("it is there");
            assert!((found / right - 1.0).abs() < 0.05, "{found} is not {right}");
        };
        let delay = |ns: f64| 4.0 / (40e-6 + 2.0 * ns / 1e9);
        let law_of = |over, of: &dyn Fn(f64) -> f64| law(&samples(over, of), over);
        let found = law_of(Over::Delay, &delay).expect("a law");
        near(found.c, 4.0);
        near(Some(found.rtt0), 40e-6);
        assert!(found.knee(Over::Delay).is_none(), "{found:?}");
        let mixed = |ns: f64| delay(ns).min(30_000.0);
        let found = law_of(Over::Delay, &mixed).expect("a law");
        near(found.c, 4.0);
        near(found.cap, 30_000.0);
        near(
            found.knee(Over::Delay),
            (4.0 / 30_000.0 - 40e-6) / 2.0 * 1e9,
        );
        let flat = law_of(Over::Delay, &|_| 5_000.0).expect("a law");
        near(flat.cap, 5_000.0);
        assert!(flat.c.is_none());
        let rate = law_of(Over::Rate, &|bits| (bits / 8_000.0).min(20_000.0)).expect("a law");
        near(rate.c, 1.0 / 8_000.0);
        near(rate.knee(Over::Rate), 160e6);
    }

    #[test]
    fn a_target_takes_what_the_law_has() {
        let fit = |c: Option<f64>, rtt0_ns, cap, residual_max| Fit {
            metric: "answered".to_owned(),
            over: "delay".to_owned(),
            at: BTreeMap::from([("connections".to_owned(), "4".to_owned())]),
            bound: Bound::Delay,
            cap,
            c,
            rtt0_ns,
            knee: None,
            residual_max,
            sentence: "why".to_owned(),
        };
        let delay = fit(Some(4.0), Some(40e3), Some(30_000.0), Some(0.02));
        assert_eq!(delay.place(), "connections=4: ");
        // 4 under way over 200 us are 20,000 a second: 160 us beside the 40.
        let text = delay.reach(20_000.0);
        assert!(
            text.contains("80.0 us at most each way, within 2"),
            "{text}"
        );
        assert!(delay.reach(40_000.0).contains("30,000 is its most"));
        let uncapped = fit(Some(4.0), Some(40e3), None, Some(0.02));
        assert!(
            uncapped
                .reach(200_000.0)
                .contains("without any it is 100,000")
        );
        let rate = fit(Some(1e-4), None, None, Some(0.02));
        let text = rate.reach(1_000.0);
        assert!(text.contains("10 Mb/s at least"), "{text}");
        let unknown = fit(None, None, None, None);
        assert!(unknown.reach(1.0).contains("cannot be known"));
    }

    #[test]
    fn the_easiest_network_that_was_measured_is_named() {
        // 1,000 and 2,000 with 1 and 4 connections, and 3,000 and 4,000 at 25 us.
        let results = crate::compare::tests::results(1.0, 0.01, 1, 4);
        let sentences = measured(&results, "answered", 1_500.0);
        assert_eq!(
            sentences,
            [
                "connections=1: answered >= 1,500 was measured at delay=25us, with all of its interval",
                "connections=4: answered >= 1,500 was measured at delay=25us, with all of its interval",
            ]
        );
        let none = measured(&results, "answered", 3_500.0);
        assert_eq!(
            none[0],
            "connections=1: answered >= 3,500 was measured at no point"
        );
    }

    #[test]
    fn what_follows_no_law_has_none() {
        let steps = |ns: f64| if ns > 60e3 { 100.0 } else { 1_000.0 };
        assert!(law(&samples(Over::Delay, steps), Over::Delay).is_err());
        let rising = |ns: f64| 1_000.0 + ns;
        assert!(law(&samples(Over::Delay, rising), Over::Delay).is_err());
        let few = samples(Over::Delay, |_| 1.0);
        assert!(law(&few[..2], Over::Delay).is_err());
    }
}
