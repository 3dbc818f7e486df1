//! Times of one of very many groups, in little memory.

/// Steps of each power of two: a step is 1.6 % wide, its middle at most 0.8 % from any of its
/// times.
const STEPS: u64 = 64;
/// Below this, each nanosecond has a step.
const EXACT: u64 = 2 * STEPS;

/// A histogram that holds only the steps in which times lie: most files have few operations.
#[derive(Debug, Clone, Default)]
pub(crate) struct SparseTimes {
    /// In order.
    steps: Vec<(u16, u32)>,
    count: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl SparseTimes {
    /// Whether [`add`](Self::add) would take more memory.
    pub(crate) fn is_new(&self, time_ns: u64) -> bool {
        self.place(time_ns).is_err()
    }

    pub(crate) fn add(&mut self, time_ns: u64) {
        match self.place(time_ns) {
            Ok(at) => self.steps[at].1 = self.steps[at].1.saturating_add(1),
            Err(at) => self.steps.insert(at, (step(time_ns), 1)),
        }
        self.min_ns = match self.count {
            0 => time_ns,
            _ => self.min_ns.min(time_ns),
        };
        self.max_ns = self.max_ns.max(time_ns);
        self.sum_ns += u128::from(time_ns);
        self.count += 1;
    }

    fn place(&self, time_ns: u64) -> Result<usize, usize> {
        let step = step(time_ns);
        self.steps.binary_search_by_key(&step, |&(step, _)| step)
    }

    pub(crate) fn max_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max_ns)
    }

    pub(crate) fn mean_ns(&self) -> Option<u64> {
        (self.count > 0).then(|| (self.sum_ns / u128::from(self.count)) as u64)
    }

    /// The time that this share, from 0 to 1, does not exceed.
    pub(crate) fn quantile_ns(&self, share: f64) -> Option<u64> {
        let wanted = ((share * self.count as f64).ceil() as u64).max(1);
        let mut passed = 0;
        let found = self.steps.iter().find(|(_, count)| {
            passed += u64::from(*count);
            passed >= wanted
        });
        found.map(|&(step, _)| middle(step).clamp(self.min_ns, self.max_ns))
    }
}

fn step(time_ns: u64) -> u16 {
    if time_ns < EXACT {
        return time_ns as u16;
    }
    let power = time_ns.ilog2() - EXACT.ilog2();
    let place = (time_ns >> (power + 1)) - STEPS;
    (EXACT + u64::from(power) * STEPS + place) as u16
}

fn middle(step: u16) -> u64 {
    let step = u64::from(step);
    if step < EXACT {
        return step;
    }
    let (power, place) = ((step - EXACT) / STEPS, (step - EXACT) % STEPS);
    let width = 1u64 << (power + 1);
    (STEPS + place) * width + width / 2
}

#[cfg(test)]
mod tests {
    use lineside_time::Random;

    use super::*;

    #[test]
    fn quantiles_of_few_steps_lie_within_one_percent() {
        let mut random = Random::new(3);
        let mut times = SparseTimes::default();
        let mut all: Vec<u64> = (0..50_000)
            .map(|_| {
                let top = 1u64 << random.below(45);
                top + random.below(top)
            })
            .collect();
        all.extend([0, 1, u64::MAX]);
        all.iter().for_each(|&ns| times.add(ns));
        all.sort_unstable();
        for share in [0.0, 0.01, 0.5, 0.9, 0.99, 1.0] {
            let at = ((share * all.len() as f64).ceil() as usize).max(1) - 1;
            let found = times.quantile_ns(share).expect("there are times");
            let error = found.abs_diff(all[at]) as f64 / all[at].max(1) as f64;
            assert!(error < 0.01, "{share}: {found}, not {}", all[at]);
        }
        assert_eq!(times.max_ns(), Some(u64::MAX));
        assert_eq!(SparseTimes::default().quantile_ns(0.5), None);
    }
}
