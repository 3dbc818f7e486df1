//! The axes of a sweep, the points that they span, and the order in which these are run.

use std::collections::{BTreeMap, BTreeSet};

use lineside_time::Random;
use lineside_words::{format_duration, parse_duration, parse_rate};
use twox_hash::XxHash3_64;

/// An axis: a name that stands in braces in the words of nodes and links, and what it becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// Its values, in the order of the file.
    pub values: Vec<String>,
}

/// A run of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// The point, from 1.
    pub point: usize,
    /// From 1.
    pub repeat: u32,
}

/// The most points of a lab.
const POINTS_MAX: usize = 100_000;
/// The most values of a range.
const VALUES_MAX: usize = 10_000;

/// Values of some axes: all points that have them.
pub(crate) type Given = BTreeMap<String, String>;

/// The points that are run, in order, as numbers of all that axes span: those with the values of
/// one of `points`, or all, but for those with the values of one of `except`. `None` if they are
/// too many.
pub(crate) fn chosen(axes: &[Axis], points: &[Given], except: &[Given]) -> Option<Vec<usize>> {
    let mut counts = axes.iter().map(|axis| axis.values.len());
    counts.try_fold(1, usize::checked_mul)?;
    let all = [Given::new()];
    let mut chosen = BTreeSet::new();
    for given in if points.is_empty() { &all } else { points } {
        let free = |axis: &&Axis| !given.contains_key(&axis.name);
        let free = axes.iter().filter(free).map(|axis| axis.values.len());
        let count = free.fold(1, usize::saturating_mul);
        if count.saturating_add(chosen.len()) > POINTS_MAX {
            return None;
        }
        chosen.extend(spanned(axes, given));
    }
    let has = |point: &usize, given: &Given| {
        let values = values(axes, *point);
        given.iter().all(|(axis, value)| values[axis] == *value)
    };
    chosen.retain(|point| !except.iter().any(|given| has(point, given)));
    Some(chosen.into_iter().collect())
}

/// The numbers of all points that have these values.
fn spanned(axes: &[Axis], given: &Given) -> Vec<usize> {
    axes.iter()
        .fold(vec![0], |before, axis| {
            let places = axis.values.iter().enumerate();
            let places =
                places.filter(|(_, value)| given.get(&axis.name).is_none_or(|it| it == *value));
            let places: Vec<usize> = places.map(|(place, _)| place).collect();
            let next = |index: usize| {
                places
                    .iter()
                    .map(move |place| index * axis.values.len() + place)
            };
            before.into_iter().flat_map(next).collect()
        })
        .into_iter()
        .map(|index| index + 1)
        .collect()
}

/// The numbers of a point's values, the last axis the fastest.
pub(crate) fn indices(axes: &[Axis], point: usize) -> Vec<usize> {
    let mut rest = point - 1;
    let mut indices: Vec<_> = { axes.iter().rev() }
        .map(|axis| {
            let count = axis.values.len();
            let index = rest % count;
            rest /= count;
            index
        })
        .collect();
    indices.reverse();
    indices
}

/// The value of each axis at a point.
pub(crate) fn values(axes: &[Axis], point: usize) -> BTreeMap<String, String> {
    let indices = indices(axes, point);
    let named = axes.iter().zip(indices);
    let named = named.map(|(axis, index)| (axis.name.clone(), axis.values[index].clone()));
    named.collect()
}

/// The point at these values, which are those of all axes.
pub(crate) fn point(axes: &[Axis], values: &BTreeMap<String, String>) -> Option<usize> {
    let index = axes.iter().try_fold(0, |index, axis| {
        let value = values.get(&axis.name)?;
        let place = axis.values.iter().position(|known| known == value)?;
        Some(index * axis.values.len() + place)
    })?;
    (values.len() == axes.len()).then_some(index + 1)
}

/// The points that are run, of those that axes span: numbered from 1, in their order.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(crate) axes: &'a [Axis],
    /// As [`chosen`] has them.
    pub(crate) chosen: &'a [usize],
}

impl Plan<'_> {
    /// The values of the axes at a point.
    pub(crate) fn values(self, point: usize) -> Given {
        values(self.axes, self.chosen[point - 1])
    }

    /// The point at these values, which are those of all axes, if it is run.
    pub(crate) fn point_at(self, values: &Given) -> Option<usize> {
        let point = point(self.axes, values)?;
        self.chosen.binary_search(&point).ok().map(|at| at + 1)
    }
}

/// The values of a point, in words.
pub(crate) fn point_text(values: &BTreeMap<String, String>) -> String {
    let words = values.iter().map(|(name, value)| format!("{name}={value}"));
    words.collect::<Vec<_>>().join(" ")
}

/// The seed of a run: that of the lab, the values of the point, and the repeat.
pub(crate) fn seed(seed: u64, values: &BTreeMap<String, String>, repeat: u32) -> u64 {
    let text = format!("{seed} {values:?} {repeat}");
    XxHash3_64::oneshot(text.as_bytes())
}

/// All points in a new order for each repeat, which depends on the seed.
pub(crate) fn random(points: usize, repeats: u32, seed: u64) -> Vec<Planned> {
    let mut random = Random::new(seed);
    let mut all = Vec::new();
    for repeat in 1..=repeats {
        let mut points: Vec<_> = (1..=points).collect();
        shuffle(&mut points, &mut random);
        all.extend(points.into_iter().map(|point| Planned { point, repeat }));
    }
    all
}

/// Points that differ in the first axis alone one after the other: forwards in one repeat,
/// backwards in the next (ABBA), so that a drift of the machine is the same for all of them.
pub(crate) fn paired(axes: &[Axis], chosen: &[usize], repeats: u32, seed: u64) -> Vec<Planned> {
    let others = axes.iter().skip(1).map(|axis| axis.values.len());
    let others = others.product::<usize>();
    let mut groups = BTreeMap::<usize, Vec<usize>>::new();
    for (place, point) in chosen.iter().enumerate() {
        let group = groups.entry((point - 1) % others).or_default();
        group.push(place + 1);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    shuffle(&mut groups, &mut Random::new(seed));
    let mut all = Vec::new();
    // What is compared runs back to back, also over repeats.
    for mut points in groups {
        for repeat in 1..=repeats {
            all.extend(points.iter().map(|&point| Planned { point, repeat }));
            points.reverse();
        }
    }
    all
}

fn shuffle<T>(all: &mut [T], random: &mut Random) {
    for at in (1..all.len()).rev() {
        all.swap(at, random.below(at as u64 + 1) as usize);
    }
}

/// The values of a range: `1ms..64ms log 7` or `1..10 10`.
pub(crate) fn range(text: &str) -> Result<Vec<String>, String> {
    let mut words = text.split_whitespace();
    let (bounds, last) = (words.next().unwrap_or_default(), words.clone().last());
    let is_log = words.clone().next() == Some("log");
    let count = last.and_then(|count| count.parse::<usize>().ok());
    let shape = "write A..B COUNT or A..B log COUNT, such as 1ms..64ms log 7, or a list";
    let extra = words.count() != 1 + usize::from(is_log);
    let (Some((low, high)), Some(count), false) = (bounds.split_once(".."), count, extra) else {
        return Err(format!("'{text}' is no range: {shape}"));
    };
    if !(2..=VALUES_MAX).contains(&count) {
        return Err(format!("'{text}': a range has 2 to {VALUES_MAX} values"));
    }
    let kind = Kind::of(low)
        .filter(|kind| Kind::of(high) == Some(*kind))
        .ok_or_else(|| format!("'{text}': give two times, two rates or two numbers"))?;
    let (low, high) = (kind.number(low), kind.number(high));
    let (Some(low), Some(high)) = (low, high) else {
        return Err(format!(
            "'{text}': give two times, two rates or two numbers"
        ));
    };
    if is_log && (low <= 0.0 || high <= 0.0) {
        return Err(format!("'{text}': log needs bounds above 0"));
    }
    let share = |at: usize| at as f64 / (count - 1) as f64;
    let value = |at: usize| match (at, is_log) {
        (0, _) => low,
        (at, _) if at == count - 1 => high,
        (at, true) => rounded(low * (high / low).powf(share(at))),
        (at, false) => low + (high - low) * share(at),
    };
    Ok((0..count).map(|at| kind.text(value(at))).collect())
}

/// To three digits that count.
fn rounded(value: f64) -> f64 {
    let digits = 10_f64.powf(2.0 - value.abs().log10().floor());
    (value * digits).round() / digits
}

/// What the values of a range are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Time,
    Rate,
    Number,
}

impl Kind {
    fn of(text: &str) -> Option<Self> {
        let all = [Self::Number, Self::Time, Self::Rate].into_iter();
        { all }.find(|kind| kind.number(text).is_some())
    }

    fn number(self, text: &str) -> Option<f64> {
        match self {
            Self::Time => time_ns(text),
            Self::Rate => rate_bits(text),
            Self::Number => text.parse().ok().filter(|number: &f64| number.is_finite()),
        }
    }

    fn text(self, value: f64) -> String {
        match self {
            Self::Time => format_duration(value.round() as u64),
            Self::Rate => bits_text(value),
            Self::Number if value.fract().abs() < 1e-9 => format!("{value:.0}"),
            Self::Number => format!("{}", rounded(value)),
        }
    }
}

/// Nanoseconds of a time; 0 has no unit.
pub(crate) fn time_ns(text: &str) -> Option<f64> {
    match text {
        "0" => Some(0.0),
        text => parse_duration(text).ok().map(|ns| ns as f64),
    }
}

/// Bits a second of a rate.
pub(crate) fn rate_bits(text: &str) -> Option<f64> {
    match parse_rate(text).ok()? {
        lineside_words::Rate::Bits(bits) => Some(bits as f64),
        _ => None,
    }
}

fn bits_text(bits: f64) -> String {
    let bits = bits.round() as u64;
    let units = [
        ("gbit", 1_000_000_000),
        ("mbit", 1_000_000),
        ("kbit", 1_000),
    ];
    let unit = units
        .into_iter()
        .find(|(_, unit)| bits.is_multiple_of(*unit));
    unit.map_or_else(
        || format!("{bits}bit"),
        |(name, unit)| format!("{}{name}", bits / unit),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> Vec<Axis> {
        let axis = |name: &str, values: &[&str]| Axis {
            name: name.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        vec![
            axis("build", &["a", "b"]),
            axis("delay", &["0", "1ms", "2ms"]),
        ]
    }

    #[test]
    fn a_point_has_a_value_of_each_axis() {
        let axes = axes();
        assert_eq!(chosen(&axes, &[], &[]), Some(vec![1, 2, 3, 4, 5, 6]));
        assert_eq!(indices(&axes, 1), [0, 0]);
        assert_eq!(indices(&axes, 6), [1, 2]);
        let values = values(&axes, 5);
        assert_eq!(
            (values["build"].as_str(), values["delay"].as_str()),
            ("b", "1ms")
        );
        let points = 1..=6;
        for number in points.clone() {
            let at = super::values(&axes, number);
            assert_eq!(point(&axes, &at), Some(number));
        }
        assert_eq!(point(&axes[..1], &values), None, "of another lab");
        let seeds: BTreeSet<_> = points
            .flat_map(|point| (1..=5).map(move |repeat| (point, repeat)))
            .map(|(point, repeat)| seed(7, &super::values(&axes, point), repeat))
            .collect();
        assert_eq!(seeds.len(), 30);
    }

    #[test]
    fn orders_have_every_run_once_and_depend_on_the_seed() {
        let axes = axes();
        let of_pairs = |seed| paired(&axes, &[1, 2, 3, 4, 5, 6], 4, seed);
        let orders = |seed| [random(6, 4, seed), of_pairs(seed)];
        for (kind, order) in orders(1).iter().enumerate() {
            let mut all: Vec<_> = order.iter().map(|it| (it.point, it.repeat)).collect();
            all.sort_unstable();
            let expected = (1..=6).flat_map(|point| (1..=4).map(move |repeat| (point, repeat)));
            assert_eq!(all, expected.collect::<Vec<_>>());
            assert!((2..9).any(|seed| orders(seed)[kind] != *order));
        }
        assert_eq!(orders(1), orders(1));
        // A and B, back to back, in the order ABBA.
        for pair in of_pairs(1).chunks(4) {
            let points: Vec<_> = pair.iter().map(|it| it.point).collect();
            assert_eq!((points[0], points[1]), (points[3], points[2]));
            assert_eq!(points[0] + 3, points[1]);
        }
    }

    #[test]
    fn points_are_chosen_or_left_out_by_their_values() {
        let axes = axes();
        let given = |words: &[(&str, &str)]| -> Given {
            let words = words.iter();
            words
                .map(|(axis, value)| ((*axis).to_owned(), (*value).to_owned()))
                .collect()
        };
        let (a, one) = (given(&[("build", "a")]), given(&[("delay", "1ms")]));
        let last = given(&[("build", "b"), ("delay", "2ms")]);
        let chosen = |points: &[Given], except: &[Given]| chosen(&axes, points, except);
        assert_eq!(
            chosen(&[one.clone(), a.clone()], &[]),
            Some(vec![1, 2, 3, 5])
        );
        assert_eq!(
            chosen(&[], std::slice::from_ref(&last)),
            Some(vec![1, 2, 3, 4, 5])
        );
        assert_eq!(chosen(&[a, last], &[one]), Some(vec![1, 3, 6]));
        // Numbered as they are run, and beside each other by the other axes.
        let order = paired(&axes, &[1, 3, 6], 1, 1);
        let order: Vec<_> = order.iter().map(|planned| planned.point).collect();
        assert!(
            [[1, 2, 3], [2, 3, 1]].contains(&[order[0], order[1], order[2]]),
            "{order:?}"
        );
        // Few of very many.
        let wide = |name: &str| Axis {
            name: name.to_owned(),
            values: (0..5_000).map(|value| value.to_string()).collect(),
        };
        let wide = [wide("x"), wide("y")];
        let two = [
            given(&[("x", "4"), ("y", "7")]),
            given(&[("x", "9"), ("y", "0")]),
        ];
        assert_eq!(super::chosen(&wide, &two, &[]), Some(vec![20_008, 45_001]));
        assert_eq!(super::chosen(&wide, &[], &two), None);
    }

    #[test]
    fn ranges_have_round_values() {
        let texts = |text: &str| range(text).expect(text).join(" ");
        assert_eq!(texts("1ms..64ms log 7"), "1ms 2ms 4ms 8ms 16ms 32ms 64ms");
        assert_eq!(texts("1..4 4"), "1 2 3 4");
        assert_eq!(texts("10mbit..1gbit log 3"), "10mbit 100mbit 1gbit");
        assert_eq!(texts("0..1 3"), "0 0.5 1");
        for wrong in [
            "1ms..2 3",
            "1ms..2ms",
            "1..2 1",
            "1..2 log x",
            "0..1 log 3",
            "1 2 3",
        ] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }
}
