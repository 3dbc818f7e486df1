//! Where numbers lie along the edge of a drawing.

use crate::points::Axis;
use crate::svg::round_up;

/// Numbers of which the greatest is more often the least are on a logarithmic scale.
const SPREAD_MAX: f64 = 30.0;
/// Room that the label of a value takes, by its letters, as a share of the edge: on a telephone.
const LETTER: f64 = 0.024;

/// Where numbers lie, from 0 to 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    /// On a logarithmic scale the least above 0, so that 0 has its place, too.
    unit: Option<f64>,
}

impl Scale {
    /// A scale from the least to the greatest of some numbers.
    pub(crate) fn between(values: impl Iterator<Item = f64> + Clone) -> Self {
        let finite = values.filter(|value| value.is_finite());
        let low = finite.clone().fold(f64::INFINITY, f64::min);
        let high = finite.clone().fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        let least = finite.filter(|value| *value > 0.0);
        let least = least.fold(f64::INFINITY, f64::min);
        let is_wide = low >= 0.0 && high / least > SPREAD_MAX;
        Self {
            low,
            high,
            unit: is_wide.then_some(least),
        }
    }

    /// A scale from 0, or below, to a round number.
    pub(crate) fn of_values(values: impl Iterator<Item = f64> + Clone) -> Self {
        let mut scale = Self::between(values);
        let end = |value: f64| match value {
            value if value > 0.0 => round_up(value, 1e3),
            value if value < 0.0 => -round_up(-value, 1e3),
            _ => 0.0,
        };
        scale.low = end(scale.low).min(0.0);
        scale.high = end(scale.high);
        if scale.high <= scale.low {
            scale.high = scale.low + 1.0;
        }
        scale
    }

    /// Where a number lies.
    pub(crate) fn at(self, value: f64) -> f64 {
        let share = match self.unit {
            Some(unit) => {
                let of = |value: f64| (value / unit).ln_1p();
                (of(value) - of(self.low)) / (of(self.high) - of(self.low))
            }
            // Halved, for the difference of two may be too large.
            None => (value / 2.0 - self.low / 2.0) / (self.high / 2.0 - self.low / 2.0),
        };
        match share.is_finite() {
            true => share.clamp(0.0, 1.0),
            false => 0.0,
        }
    }

    /// Round numbers along it, from the lowest on.
    pub(crate) fn ticks(self) -> Vec<f64> {
        let Some(unit) = self.unit else {
            let half = self.low / 2.0 + self.high / 2.0;
            return match self.low < 0.0 && self.high > 0.0 {
                true => vec![self.low, 0.0, self.high],
                false => vec![self.low, half, self.high],
            };
        };
        let (first, last) = (
            unit.log10().floor() as i32,
            self.high.log10().floor() as i32,
        );
        let step = ((last - first) / 4).max(0) as usize + 1;
        let decades = (first..=last).rev().step_by(step);
        let decades = decades.map(|decade| 10f64.powi(decade));
        let decades = decades.filter(|tick| self.at(*tick) > 0.06);
        let mut ticks: Vec<f64> = decades.collect();
        ticks.push(self.low);
        ticks.reverse();
        ticks
    }
}

/// The values of an axis, each at its place from 0 to 1.
pub(crate) fn places(axis: &Axis) -> Vec<f64> {
    match &axis.numbers {
        Some(numbers) => {
            let scale = Scale::between(numbers.iter().copied());
            numbers.iter().map(|number| scale.at(*number)).collect()
        }
        None => {
            let gaps = axis.values.len().saturating_sub(1);
            let place = |at: usize| match gaps {
                0 => 0.5,
                gaps => at as f64 / gaps as f64,
            };
            (0..axis.values.len()).map(place).collect()
        }
    }
}

/// Labels of an axis where there is room for them: its ends first.
pub(crate) fn labels(axis: &Axis) -> Vec<(f64, &str)> {
    let mut all: Vec<(f64, &str)> = { places(axis).into_iter() }
        .zip(axis.values.iter().map(String::as_str))
        .collect();
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut kept: Vec<(f64, &str)> = all.first().copied().into_iter().collect();
    let last = all.last().copied();
    let room = |one: &str, other: &str| {
        let letters = one.chars().count() + other.chars().count();
        (letters as f64 / 2.0 + 1.5) * LETTER
    };
    for &(at, text) in all.iter().skip(1) {
        let Some(&(before, its)) = kept.last() else {
            break;
        };
        let fits = at - before >= room(text, its);
        let is_clear = last.is_none_or(|(end, its)| at == end || end - at >= room(text, its));
        if fits && is_clear {
            kept.push((at, text));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place() {
        for values in [
            vec![],
            vec![0.0],
            vec![5.0, 5.0],
            vec![-3.0, 4.0],
            vec![0.0, 1e-300, 1e300],
            vec![-f64::MAX, f64::MAX],
            vec![f64::NAN, f64::INFINITY, 2.0],
        ] {
            for scale in [
                Scale::between(values.iter().copied()),
                Scale::of_values(values.iter().copied()),
            ] {
                for value in values.iter().copied().chain(scale.ticks()) {
                    let at = scale.at(value);
                    assert!((0.0..=1.0).contains(&at), "{values:?}: {value} at {at}");
                }
                assert!(scale.ticks().len() <= 9, "{:?}", scale.ticks());
            }
        }
    }

    #[test]
    fn zero_has_its_place_on_a_logarithmic_scale() {
        let scale = Scale::between([0.0, 1.0, 10.0, 100.0].into_iter());
        let at: Vec<f64> = [0.0, 1.0, 10.0, 100.0]
            .map(|value| scale.at(value))
            .to_vec();
        assert!(at.windows(2).all(|pair| pair[1] - pair[0] > 0.1), "{at:?}");
        let linear = Scale::between([0.0, 5.0, 10.0].into_iter());
        assert_eq!(linear.at(5.0), 0.5);
    }

    #[test]
    fn labels_leave_room_for_each_other() {
        let values = (0..100).map(|at| format!("{at}ms")).collect();
        let axis = Axis::new("delay".to_owned(), values);
        let kept = labels(&axis);
        assert_eq!(kept.first().map(|it| it.1), Some("0ms"));
        assert_eq!(kept.last().map(|it| it.1), Some("99ms"));
        assert!((4..15).contains(&kept.len()), "{kept:?}");
    }
}
