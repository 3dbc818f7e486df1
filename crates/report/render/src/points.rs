//! Points of a lab or of a prediction, as they are printed and drawn: axes, what was measured at
//! each point, and what is known of it.
//!
//! Numbers may be anything that a program printed: those that are not finite are missing here.

use lineside_words::{escape, number, parse_duration, parse_rate, parse_share, time};

/// All points, and what they say.
#[derive(Debug, Clone, Default)]
pub struct Points {
    /// Of what.
    pub title: String,
    /// Facts of the whole, a line each.
    pub about: Vec<String>,
    /// The axes, in their order.
    pub axes: Vec<Axis>,
    /// What was measured, in its order.
    pub metrics: Vec<Metric>,
    /// The points, in their order.
    pub points: Vec<Point>,
    /// Laws that metrics follow.
    pub laws: Vec<Law>,
    /// What bounds the metrics, or why that cannot be known.
    pub sentences: Vec<String>,
    /// What had to hold.
    pub assertions: Vec<Asserted>,
    /// Values of the first axis beside its first one.
    pub beside_first: Vec<Ratio>,
    /// Runs that were disturbed in every attempt.
    pub disturbed: Vec<Disturbed>,
    /// The file that it was made from.
    pub file: String,
    /// What the page says last.
    pub footer: String,
    /// All of it as JSON.
    pub json: String,
}

/// An axis.
#[derive(Debug, Clone)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// Its values, in the words of the file.
    pub values: Vec<String>,
    /// The same as numbers, if all of them are numbers of one kind.
    pub(crate) numbers: Option<Vec<f64>>,
}

impl Axis {
    /// An axis of these words.
    pub fn new(name: String, values: Vec<String>) -> Self {
        let numbers = numbers(&values);
        Self {
            name,
            values,
            numbers,
        }
    }

    /// Its values as numbers: nanoseconds, bits a second, shares or plain ones.
    pub fn numbers(&self) -> Option<&[f64]> {
        self.numbers.as_deref()
    }
}

/// The numbers of words that are all numbers, times, rates or shares, and not all the same.
fn numbers(values: &[String]) -> Option<Vec<f64>> {
    let kinds: [fn(&str) -> Option<f64>; 4] = [
        |word| word.parse().ok(),
        |word| match word {
            "0" => Some(0.0),
            word => Some(parse_duration(word).ok()? as f64),
        },
        |word| match parse_rate(word).ok()? {
            lineside_words::Rate::Bits(bits) => Some(bits as f64),
            _ => None,
        },
        |word| parse_share(word),
    ];
    let all = |kind: fn(&str) -> Option<f64>| {
        let finite = |value: &String| kind(value.trim()).filter(|number| number.is_finite());
        values.iter().map(finite).collect::<Option<Vec<f64>>>()
    };
    let found = kinds.into_iter().find_map(all)?;
    found
        .iter()
        .any(|value| *value != found[0])
        .then_some(found)
}

/// Something that was measured.
#[derive(Debug, Clone, Default)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// What it is counted in; may be empty. Times are in `s` or `ns`.
    pub unit: String,
    /// Whether it is what a link carried.
    pub is_of_link: bool,
}

impl Metric {
    /// Whether each value has its unit.
    pub(crate) fn is_time(&self) -> bool {
        matches!(self.unit.as_str(), "s" | "ns")
    }

    /// `answered (/s)`
    pub(crate) fn title(&self) -> String {
        match self.unit.as_str() {
            "" => self.name.clone(),
            _ if self.is_time() => self.name.clone(),
            unit => format!("{} ({unit})", self.name),
        }
    }

    /// A value of it in words.
    pub fn text(&self, value: f64) -> String {
        match self.unit.as_str() {
            "s" if (0.0..1e9).contains(&value) => time((value * 1e9).round() as u64),
            "ns" if (0.0..1e18).contains(&value) => time(value.round() as u64),
            _ if value.abs() >= 1e15 => format!("{value:.3e}"),
            "/s" => format!("{}/s", number(value)),
            "" => number(value),
            unit => format!("{} {unit}", number(value)),
        }
    }
}

/// A point.
#[derive(Debug, Clone, Default)]
pub struct Point {
    /// For each axis which of its values.
    pub place: Vec<usize>,
    /// Where the files of its first run are, beside the page; may be empty.
    pub folder: String,
    /// Runs that are there.
    pub runs: usize,
    /// Those of them that were disturbed.
    pub disturbed: usize,
    /// The metrics, in their order.
    pub values: Vec<Option<Value>>,
}

/// A median with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// The median.
    pub value: f64,
    /// Its interval, if one is known.
    pub interval: Option<(f64, f64)>,
}

impl Value {
    /// A value that can be drawn.
    pub fn finite(value: f64, interval: Option<(f64, f64)>) -> Option<Self> {
        let interval = interval.filter(|(low, high)| low.is_finite() && high.is_finite());
        value.is_finite().then_some(Self { value, interval })
    }
}

/// A law that a metric follows over an axis.
#[derive(Debug, Clone)]
pub struct Law {
    /// The number of the metric.
    pub metric: usize,
    /// The number of the axis.
    pub axis: usize,
    /// The values of all axes; that of its own does not count.
    pub place: Vec<usize>,
    /// Its values, along the axis.
    pub curve: Vec<(f64, f64)>,
}

/// What had to hold.
#[derive(Debug, Clone)]
pub struct Asserted {
    /// `holds`, `failed` or `undecided`.
    pub state: &'static str,
    /// Its name and its words.
    pub what: String,
    /// Where it does not hold, and why.
    pub why: Vec<String>,
}

/// A metric beside what it was before.
#[derive(Debug, Clone)]
pub struct Ratio {
    /// The values of the axes.
    pub at: String,
    /// The metric.
    pub metric: String,
    /// Runs that were compared.
    pub pairs: usize,
    /// The median ratio.
    pub ratio: Option<Value>,
    /// `better`, `worse`, `changed`, `same` or `undecided`.
    pub state: &'static str,
}

/// A run that was disturbed in every attempt.
#[derive(Debug, Clone)]
pub struct Disturbed {
    /// The point, from 1.
    pub point: usize,
    /// The repeat, from 1.
    pub repeat: u32,
    /// Where its files are, beside the page.
    pub folder: String,
    /// Why.
    pub why: String,
}

impl Points {
    /// The number of the point at a place. Points are in the order of their places, the last axis
    /// first to change.
    pub(crate) fn number(&self, place: &[usize]) -> Option<usize> {
        self.points
            .binary_search_by(|point| point.place.as_slice().cmp(place))
            .ok()
    }

    /// The law of a metric over an axis at a place.
    pub(crate) fn law(&self, metric: usize, axis: usize, place: &[usize]) -> Option<&[(f64, f64)]> {
        let is_it = |law: &&Law| {
            let others = law.place.iter().zip(place).enumerate();
            let is_there = { others }.all(|(at, (one, other))| at == axis || one == other);
            (law.metric, law.axis) == (metric, axis) && is_there
        };
        Some(&self.laws.iter().find(is_it)?.curve)
    }

    /// `rate=100mbit connections=4`, without one of the axes.
    pub(crate) fn place_text(&self, place: &[usize], without: &[usize]) -> String {
        let axes = self.axes.iter().zip(place).enumerate();
        let words = axes.filter_map(|(at, (axis, value))| {
            let value = axis.values.get(*value).map_or("", String::as_str);
            (!without.contains(&at)).then(|| format!("{}={}", axis.name, escape(value)))
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_one_kind_are_numbers() {
        let of = |values: &[&str]| {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            Axis::new("x".to_owned(), values).numbers
        };
        assert_eq!(of(&["0", "25us", "1ms"]), Some(vec![0.0, 25e3, 1e6]));
        assert_eq!(of(&["10mbit", "1gbit"]), Some(vec![10e6, 1e9]));
        assert_eq!(of(&["4", "-1", "1e3"]), Some(vec![4.0, -1.0, 1e3]));
        assert_eq!(of(&["0.1%", "1%"]), Some(vec![0.001, 0.01]));
        for none in [
            &["./old", "./new"][..],
            &["1ms", "1mbit"],
            &["NaN", "1"],
            &["inf", "1"],
            &["4"],
            &[],
        ] {
            assert_eq!(of(none), None, "{none:?}");
        }
    }

    #[test]
    fn values_of_any_size_have_words() {
        let metric = |unit: &str| Metric {
            unit: unit.to_owned(),
            ..Metric::default()
        };
        assert_eq!(metric("s").text(0.0012), "1.20 ms");
        assert_eq!(metric("/s").text(16_826.0), "16,826/s");
        assert_eq!(metric("").text(-1e300), "-1.000e300");
        assert_eq!(metric("s").text(-1.0), "-1 s");
        assert_eq!(Value::finite(f64::NAN, None), None);
    }
}
