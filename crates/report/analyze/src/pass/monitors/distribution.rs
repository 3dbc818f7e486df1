//! From the bins of a table to a distribution.

use std::collections::BTreeMap;

use crate::model::{MonitorBin, MonitorDistribution};

/// Bins of a distribution that is drawn.
pub(super) const BINS_MAX: usize = 128;

/// Counts by the lowest and the highest value of their bin.
pub(super) type Counts = BTreeMap<(u64, u64), u64>;

/// What tables write for a bin without an end.
const OPEN: u64 = i64::MAX as u64;

/// The distribution of a metric; `None` without values. Without `is_drawn` it has no bins.
pub(super) fn distribution(
    metric: &str,
    counts: &Counts,
    is_drawn: bool,
) -> Option<MonitorDistribution> {
    let bins = counts.iter().filter(|(_, count)| **count > 0);
    let mut is_open = false;
    let bins: Vec<MonitorBin> = bins
        .map(|(&(from, to), &count)| {
            is_open |= to >= OPEN;
            let to = if to >= OPEN { from } else { to.max(from) };
            MonitorBin { from, to, count }
        })
        .collect();
    let (first, last) = (bins.first()?, bins.last()?);
    let count = { bins.iter() }.fold(0u64, |sum, bin| sum.saturating_add(bin.count));
    let mut bin_width_share = 0f64;
    let mut quantile = |share: f64| {
        let bin = quantile_bin(&bins, share, count);
        let width = (bin.to - bin.from) as f64 / bin.to.max(1) as f64;
        bin_width_share = bin_width_share.max(width);
        bin.to
    };
    let [p50, p90, p99, p999] = [0.5, 0.9, 0.99, 0.999].map(&mut quantile);
    let middles = bins.iter().map(|bin| {
        let middle = bin.from as f64 + (bin.to - bin.from) as f64 / 2.0;
        middle * bin.count as f64
    });
    Some(MonitorDistribution {
        metric: metric.to_owned(),
        unit: unit(metric),
        count,
        min: first.from,
        p50,
        p90,
        p99,
        p999,
        max: bins.iter().map(|bin| bin.to).max().unwrap_or(last.to),
        mean: middles.sum::<f64>() / count as f64,
        bin_width_share,
        is_open,
        bins: match is_drawn {
            true => joined(&bins),
            false => Vec::new(),
        },
    })
}

/// The unit that a metric's name ends in.
fn unit(metric: &str) -> &'static str {
    let units = ["ns", "bytes", "packets"].into_iter();
    let mut units = units.filter(|unit| {
        let before = metric.strip_suffix(unit);
        before.is_some_and(|before| before.ends_with('_'))
    });
    units.next().unwrap_or("")
}

fn quantile_bin(bins: &[MonitorBin], share: f64, count: u64) -> MonitorBin {
    let mut left = ((share * count as f64).ceil() as u64).clamp(1, count.max(1));
    for bin in bins {
        if bin.count >= left {
            return *bin;
        }
        left -= bin.count;
    }
    bins.last().copied().unwrap_or_default()
}

/// Few enough bins to be drawn: each power of two is cut into equal parts, as many as there is room
/// for, and a bin that is wider than a part stays as it is.
fn joined(bins: &[MonitorBin]) -> Vec<MonitorBin> {
    let mut bits = 5u32;
    loop {
        let joined = joined_by(bins, bits);
        if joined.len() <= BINS_MAX || bits == 0 {
            return joined;
        }
        bits -= 1;
    }
}

/// Each power of two in `1 << bits` parts.
fn joined_by(bins: &[MonitorBin], bits: u32) -> Vec<MonitorBin> {
    let mut joined: Vec<MonitorBin> = Vec::new();
    for bin in bins {
        let power = (bin.from | 1).ilog2().saturating_sub(bits);
        let from = bin.from >> power << power;
        let to = (from | ((1 << power) - 1)).max(bin.to);
        match joined.last_mut() {
            Some(last) if bin.from <= last.to => {
                last.to = last.to.max(bin.to);
                last.count = last.count.saturating_add(bin.count);
            }
            _ => joined.push(MonitorBin {
                from,
                to,
                count: bin.count,
            }),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(bins: &[(u64, u64, u64)]) -> Counts {
        bins.iter()
            .map(|&(from, to, count)| ((from, to), count))
            .collect()
    }

    #[test]
    fn figures_are_those_of_the_bins() {
        let bins = counts(&[(10, 10, 1), (64, 65, 49), (100, 103, 48), (1_000, 1_031, 2)]);
        let found = distribution("gap_ns", &bins, true).expect("values");
        let figures = [found.min, found.p50, found.p90, found.p99, found.max];
        assert_eq!(figures, [10, 65, 103, 1_031, 1_031]);
        assert_eq!((found.count, found.unit), (100, "ns"));
        let mean = (10.0 + 64.5 * 49.0 + 101.5 * 48.0 + 1_015.5 * 2.0) / 100.0;
        assert!((found.mean - mean).abs() < 1e-9, "{}", found.mean);
        assert!((found.bin_width_share - 31.0 / 1_031.0).abs() < 1e-9);
        assert_eq!(distribution("gap_ns", &Counts::new(), true), None);
    }

    #[test]
    fn a_bin_without_an_end_counts_as_its_begin() {
        let open = counts(&[(1, 1, 1), (16_384, OPEN, 3)]);
        let found = distribution("packet_bytes", &open, true).expect("values");
        assert_eq!(
            (found.max, found.p50, found.is_open),
            (16_384, 16_384, true)
        );
        assert_eq!((found.mean, found.bin_width_share), (49_153.0 / 4.0, 0.0));
    }

    #[test]
    fn joined_bins_hold_all_values_and_do_not_overlap() {
        let many: Counts = (0..16_385).map(|length| ((length, length), 1)).collect();
        let wide = counts(&[
            (0, 4, 7),
            (5_115, 5_119, 1),
            (5_120, 10_239, 5),
            (1 << 40, 1 << 41, 2),
        ]);
        for bins in [many, wide] {
            let found = distribution("packet_bytes", &bins, true).expect("values");
            assert!(found.bins.len() <= BINS_MAX, "{}", found.bins.len());
            let sum: u64 = found.bins.iter().map(|bin| bin.count).sum();
            assert_eq!(sum, found.count);
            for pair in found.bins.windows(2) {
                assert!(pair[0].to < pair[1].from, "{pair:?}");
            }
            for &(from, to) in bins.keys() {
                let holds = |bin: &&MonitorBin| bin.from <= from && to <= bin.to;
                assert!(found.bins.iter().any(|bin| holds(&bin)), "{from} to {to}");
            }
        }
    }

    #[test]
    fn units_are_the_end_of_a_metric() {
        let units = [
            "gap_ns",
            "gap_decades_ns",
            "flow_bytes",
            "n_reordering_packets",
            "mine",
        ];
        assert_eq!(units.map(unit), ["ns", "ns", "bytes", "packets", ""]);
    }
}
