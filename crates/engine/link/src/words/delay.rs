//! The words of `delay`: time, jitter, correlation, distribution, order and the original hardware's
//! forms. Drawing delays is not done here.

use lineside_words::{WordError, Words, begins_as_number};

use crate::settings::{Correlation, DELAY_MAX_NS, Delay, Distribution, Draws, Jitter, Order};
use crate::table::{Table, Unit};

/// A cycle of the original hardware: 200 MHz.
const CYCLE_NS: u64 = 5;

const DISTRIBUTIONS: [&str; 4] = ["uniform", "normal", "pareto", "paretonormal"];
const DELAY_WORDS: [&str; 7] = [
    "distribution",
    "one-sided",
    "order",
    "prbs31",
    "shift",
    "cycle",
    "times",
];
const ORDERS: [&str; 3] = ["fifo", "reorder", "correlated"];

/// A built-in table; `None` for `uniform` and names that are not built in.
fn built_in(name: &str) -> Option<Table> {
    match name {
        "normal" => Some(Table::normal()),
        "pareto" => Some(Table::pareto()),
        "paretonormal" => Some(Table::pareto_normal()),
        _ => None,
    }
}

/// Loads a table that is not built in by its name, or says why it cannot.
pub type LoadTable<'a> = &'a mut dyn FnMut(&str) -> Result<Table, String>;

/// How long frames are held. A distribution that is not built in comes from `load`.
pub fn delay(text: &str, load: LoadTable<'_>) -> Result<Delay, WordError> {
    let mut words = Words::new("delay", text);
    let base_ns = words.time("a time, such as 100us", 0)?;
    let jitter_ns = match words.peek() {
        Some(word) if !DELAY_WORDS.contains(&word) && begins_as_number(word) => {
            Some(words.time("a time, such as 10us", 0)?)
        }
        _ => None,
    };
    let correlation = match words.peek() {
        Some(word) if jitter_ns.is_some() && word.ends_with('%') => correlation(&mut words)?,
        _ => Correlation::None,
    };
    let mut asked = DelayWords::default();
    while let Some((column, word)) = words.next_word() {
        match word {
            "distribution" => asked.distribution = Some(distribution(&mut words, load)?),
            "one-sided" => asked.one_sided = Some(column),
            "order" => asked.order = Some(order(&mut words)?),
            "prbs31" => {
                let given = words.peek().filter(|word| begins_as_number(word));
                let state = if given.is_some() {
                    words.count(1, (1 << 31) - 1)? as u32
                } else {
                    1
                };
                asked.prbs31 = Some((column, state));
            }
            "shift" => asked.shift = Some((column, words.count(0, 32)? as u32)),
            "cycle" => {
                asked.cycle = Some((column, words.time("the time of a cycle, such as 5ns", 0)?))
            }
            "times" => asked.times = Some((column, factor(&mut words)?)),
            _ => return Err(words.unknown(column, word, &DELAY_WORDS)),
        }
    }
    asked.resolved(&words, base_ns, jitter_ns, correlation)
}

/// The clauses of `delay`, with their columns.
#[derive(Default)]
struct DelayWords {
    distribution: Option<(usize, Distribution)>,
    one_sided: Option<usize>,
    order: Option<Order>,
    prbs31: Option<(usize, u32)>,
    shift: Option<(usize, u32)>,
    cycle: Option<(usize, u64)>,
    times: Option<(usize, f64)>,
}

impl DelayWords {
    fn resolved(
        mut self,
        words: &Words<'_>,
        base_ns: u64,
        jitter_ns: Option<u64>,
        correlation: Correlation,
    ) -> Result<Delay, WordError> {
        let refused = |(column, problem): (usize, &str)| words.error(column, problem);
        let jitter = self.jitter(jitter_ns).map_err(refused)?;
        let draws = self.draws(&jitter, correlation).map_err(refused)?;
        if correlation != Correlation::None && matches!(self.order, Some(Order::Correlated { .. }))
        {
            let problem = "give either a share or a half-life for the correlation, not both";
            return Err(refused((1, problem)));
        }
        let order = self.order.unwrap_or_else(|| default_order(&jitter, &draws));
        Ok(Delay {
            base_ns,
            jitter,
            draws,
            order,
        })
    }

    /// The jitter of these clauses, or the column of a wrong one and what is wrong with it.
    fn jitter(&mut self, jitter_ns: Option<u64>) -> Result<Jitter, (usize, &'static str)> {
        let distribution = self.distribution.take();
        let is_measured = matches!(
            &distribution,
            Some((_, Distribution::Table { table, .. })) if table.unit() == Unit::Nanoseconds
        );
        if let (Some((column, _)), None) = (self.cycle, self.shift) {
            return Err((column, "a cycle goes with shift"));
        }
        if let (Some((column, _)), true) = (self.times, !is_measured || jitter_ns.is_some()) {
            return Err((
                column,
                "times goes with a distribution of measured times, without jitter before it",
            ));
        }
        match (jitter_ns, self.shift, distribution) {
            (Some(_), Some((column, _)), _) => {
                Err((column, "shift is the jitter: leave away the one before it"))
            }
            (None, Some((column, shift)), distribution) => {
                let distribution = distribution.map(|(_, distribution)| distribution);
                self.shifted(column, shift, distribution.unwrap_or_default())
            }
            (Some(jitter_ns), None, distribution) => {
                let distribution = distribution.map(|(_, distribution)| distribution);
                let distribution = distribution.unwrap_or_default();
                Ok(match self.one_sided {
                    Some(_) => Jitter::Above {
                        jitter_ns,
                        distribution,
                    },
                    None => Jitter::Around {
                        jitter_ns,
                        distribution,
                    },
                })
            }
            (None, None, Some((_, Distribution::Table { name, table }))) if is_measured => {
                if let Some(column) = self.one_sided {
                    return Err((column, "measured times are added to the delay as they are"));
                }
                let times = self.times.map_or(1.0, |(_, times)| times);
                Ok(Jitter::Measured { name, table, times })
            }
            (None, None, Some((column, _))) => Err((
                column,
                "a distribution needs a jitter after the delay: '100us 10us distribution normal'",
            )),
            (None, None, None) => match (self.one_sided, self.prbs31) {
                (Some(column), _) | (None, Some((column, _))) => Err((
                    column,
                    "without jitter there is nothing to draw: write it after the delay",
                )),
                (None, None) => Ok(Jitter::None),
            },
        }
    }

    fn shifted(
        &self,
        column: usize,
        shift: u32,
        distribution: Distribution,
    ) -> Result<Jitter, (usize, &'static str)> {
        if let Some(column) = self.one_sided {
            return Err((column, "shift is one-sided in any case"));
        }
        let cycle_ns = self.cycle.map_or(CYCLE_NS, |(_, cycle_ns)| cycle_ns);
        if cycle_ns.saturating_mul(1 << shift) > DELAY_MAX_NS {
            return Err((column, "that is more than a day"));
        }
        Ok(Jitter::Shifted {
            shift,
            cycle_ns,
            distribution,
        })
    }

    /// The source of the draws.
    fn draws(
        &self,
        jitter: &Jitter,
        correlation: Correlation,
    ) -> Result<Draws, (usize, &'static str)> {
        let Some((column, state)) = self.prbs31 else {
            return Ok(Draws::Seeded { correlation });
        };
        if correlation != Correlation::None {
            return Err((
                column,
                "the draws of prbs31 are not correlated: leave the share away",
            ));
        }
        if matches!(self.order, Some(Order::Correlated { .. })) {
            return Err((
                column,
                "the draws of prbs31 are not correlated: choose another order",
            ));
        }
        let len = jitter.table().map_or(2, |(_, table)| table.values().len());
        if !len.is_power_of_two() || len < 2 {
            return Err((column, "prbs31 needs a table of 2, 4, 8, ... entries"));
        }
        Ok(Draws::Prbs31 { state })
    }
}

/// The order of frames where none is asked for: a network keeps it, and its delays change slowly
/// (decision 0020). The hardware's draws, and correlated ones, are as asked.
fn default_order(jitter: &Jitter, draws: &Draws) -> Order {
    /// So many times the jitter: frames that come closer wait for a tenth of it at most in the
    /// mean, and draws still differ from one second to the next.
    const HALF_LIFE: u64 = 10;
    let is_free = matches!(
        draws,
        Draws::Seeded {
            correlation: Correlation::None
        }
    );
    let size_ns = match jitter {
        _ if !is_free => 0,
        Jitter::Around { jitter_ns, .. } | Jitter::Above { jitter_ns, .. } => *jitter_ns,
        Jitter::Measured { table, times, .. } => (table.deviation() * times).round() as u64,
        Jitter::Shifted { .. } | Jitter::None => 0,
    };
    match size_ns {
        0 => Order::Fifo,
        _ => Order::Correlated {
            half_life_ns: size_ns.saturating_mul(HALF_LIFE).min(DELAY_MAX_NS),
        },
    }
}

fn distribution(
    words: &mut Words<'_>,
    load: LoadTable<'_>,
) -> Result<(usize, Distribution), WordError> {
    let (column, name) = words
        .next_word()
        .ok_or_else(|| words.missing("the name of a distribution"))?;
    if name == "uniform" {
        return Ok((column, Distribution::Uniform));
    }
    let table = match built_in(name) {
        Some(table) => table,
        None => load(name).map_err(|why| {
            let known = words.unknown(column, name, &DISTRIBUTIONS).problem;
            words.error(column, format!("{why}; {known}"))
        })?,
    };
    Ok((column, Distribution::named(name, table)))
}

fn order(words: &mut Words<'_>) -> Result<Order, WordError> {
    let (column, word) = words
        .next_word()
        .ok_or_else(|| words.missing("fifo, reorder or correlated"))?;
    match word {
        "fifo" => Ok(Order::Fifo),
        "reorder" => Ok(Order::Reorder),
        "correlated" => {
            let column = words.column();
            match words.time("a half-life, such as 1ms", 0)? {
                0 => Err(words.error(column, "a half-life of 0 is none: leave the words away")),
                half_life_ns => Ok(Order::Correlated { half_life_ns }),
            }
        }
        _ => Err(words.unknown(column, word, &ORDERS)),
    }
}

fn factor(words: &mut Words<'_>) -> Result<f64, WordError> {
    words.parsed("a factor", |word| {
        let factor = word.parse::<f64>().ok();
        let factor = factor.filter(|factor| (0.0..=1e6).contains(factor));
        factor.ok_or_else(|| format!("'{word}' is not a factor from 0 to 1000000"))
    })
}

pub(super) fn correlation(words: &mut Words<'_>) -> Result<Correlation, WordError> {
    let column = words.column();
    match words.share()? {
        0.0 => Ok(Correlation::None),
        share if share < 1.0 => Ok(Correlation::Share(share)),
        _ => Err(words.error(
            column,
            "at 100% each draw would be the first one: give less",
        )),
    }
}
