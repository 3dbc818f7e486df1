//! Arrival processes: how the gaps between arrivals are distributed, whatever their mean rate, in
//! words. When arrivals come is `schedule`'s, the mean rate in time `profile`'s.

use std::fmt;
use std::sync::Arc;

use lineside_words::{DAY, WordError, Words, format_duration, parse_time};

use crate::gap_file::{self, GapFile};
use crate::shape::{Shape, sigma_of};
use crate::{LoadFile, MARKS};

/// The most states of an on-off process.
pub const STATES_MAX: usize = 64;

/// An arrival process. Its mean rate is that of a [`Profile`](crate::Profile), or its own.
///
/// | words | gaps |
/// |---|---|
/// | `constant` | all the same |
/// | `poisson` | exponential, independent |
/// | `uniform` · `uniform 50us..150us` | even from 0 to twice the mean, or in this ratio |
/// | `gamma cv 2` · `gamma shape 0.25` | gamma |
/// | `weibull shape 0.7` | Weibull |
/// | `lognormal cv 1.5` · `lognormal sigma 1` | lognormal |
/// | `pareto alpha 1.5` | Pareto |
/// | `generalized-pareto shape 0.155` | generalised Pareto, from 0 on |
/// | `on-off 20000 for 100ms, 0 for 900ms` | Poisson in each state; states last exponentially |
/// | `file PATH` | those of a file, in order, from the start again after the last |
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// All gaps are the same.
    Constant,
    /// A Poisson process.
    Poisson,
    /// Gaps even between two bounds; without any, from 0 to twice the mean.
    Uniform {
        /// The least and the greatest gap, at the process's own rate.
        gaps_ns: Option<(u64, u64)>,
    },
    /// Gamma distributed gaps.
    Gamma(Width),
    /// Weibull distributed gaps of this shape.
    Weibull {
        /// From 0.1 to 100.
        shape: f64,
    },
    /// Lognormal gaps.
    Lognormal(Width),
    /// Pareto distributed gaps.
    Pareto {
        /// The exponent of the tail, from 1.01 to 100.
        alpha: f64,
    },
    /// Generalised Pareto distributed gaps of this shape.
    GeneralizedPareto {
        /// From 0.001 to 0.9.
        shape: f64,
    },
    /// A Poisson process whose rate depends on a state: the states follow one another in order, and
    /// each lasts an exponentially distributed time (with two states, the Markov-modulated Poisson
    /// process).
    OnOff(Arc<[State]>),
    /// Gaps of a file.
    File {
        /// Its name in the words.
        name: String,
        /// What it holds.
        gaps: GapFile,
    },
}

/// How wide a distribution is, as it was written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Width {
    /// The coefficient of variation: deviation / mean.
    Cv(f64),
    /// The shape of a gamma distribution: 1 / cv^2.
    Shape(f64),
    /// The deviation of the logarithm of a lognormal one.
    Sigma(f64),
}

/// A state of an on-off process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct State {
    /// Arrivals a second while it lasts.
    pub rate: f64,
    /// How long it lasts in the mean.
    pub mean_ns: u64,
}

const MODELS: [&str; 10] = [
    "constant",
    "poisson",
    "uniform",
    "gamma",
    "weibull",
    "lognormal",
    "pareto",
    "generalized-pareto",
    "on-off",
    "file",
];

impl Arrivals {
    /// Reads the words of the table above; `load` reads a file.
    pub fn parse(text: &str, load: LoadFile<'_>) -> Result<Self, WordError> {
        let mut words = Words::with_marks("arrivals", text, MARKS);
        let Some((column, word)) = words.next_word() else {
            return Err(words.missing("a model, such as poisson"));
        };
        let arrivals = match word {
            "constant" => Self::Constant,
            "poisson" => Self::Poisson,
            "uniform" => Self::Uniform {
                gaps_ns: gaps(&mut words)?,
            },
            "gamma" => Self::Gamma(gamma_width(&mut words)?),
            "weibull" => Self::Weibull {
                shape: weibull_shape(&mut words)?,
            },
            "lognormal" => Self::Lognormal(lognormal_width(&mut words)?),
            "pareto" => Self::Pareto {
                alpha: alpha(&mut words, 1.01)?,
            },
            "generalized-pareto" => Self::GeneralizedPareto {
                shape: generalized_pareto_shape(&mut words)?,
            },
            "on-off" => states(&mut words)?,
            "file" => {
                let (column, name) = words.rest();
                if name.is_empty() {
                    return Err(words.missing("the name of a file"));
                }
                let gaps = load(name).and_then(|text| gap_file::read(name, &text));
                Self::File {
                    name: name.to_owned(),
                    gaps: gaps.map_err(|problem| words.error(column, problem))?,
                }
            }
            _ => return Err(words.unknown(column, word, &MODELS)),
        };
        words.end()?;
        Ok(arrivals)
    }

    /// The mean rate, a second, that its words or its file have; `None` where they have none.
    pub fn own_rate(&self) -> Option<f64> {
        match self {
            Self::Uniform { gaps_ns } => {
                gaps_ns.map(|(low_ns, high_ns)| 2e9 / (low_ns + high_ns) as f64)
            }
            Self::OnOff(states) => {
                let cycle_ns: f64 = states.iter().map(|state| state.mean_ns as f64).sum();
                let arrivals = states.iter().map(|state| state.rate * state.mean_ns as f64);
                Some(arrivals.sum::<f64>() / cycle_ns)
            }
            Self::File { gaps, .. } => Some(gaps.rate()),
            _ => None,
        }
    }

    /// The mean rate of its busiest state, where it has states; else its
    /// [own](Self::own_rate).
    pub fn peak_rate(&self) -> Option<f64> {
        match self {
            Self::OnOff(states) => states.iter().map(|state| state.rate).reduce(f64::max),
            _ => self.own_rate(),
        }
    }

    /// The distribution of a gap where gaps are independent; `None` for `on-off` and `file`.
    pub fn shape(&self) -> Option<Shape> {
        Some(match *self {
            Self::Constant => Shape::Constant,
            Self::Poisson => Shape::Exponential,
            Self::Uniform { gaps_ns: None } => Shape::Uniform { low: 0.0 },
            Self::Uniform {
                gaps_ns: Some((low_ns, high_ns)),
            } => Shape::Uniform {
                low: 2.0 * low_ns as f64 / (low_ns + high_ns) as f64,
            },
            Self::Gamma(width) => width.gamma(),
            Self::Weibull { shape } => Shape::Weibull { shape },
            Self::Lognormal(width) => width.lognormal(),
            Self::Pareto { alpha } => Shape::Pareto { alpha },
            Self::GeneralizedPareto { shape } => Shape::GeneralizedPareto { shape },
            Self::OnOff(_) | Self::File { .. } => return None,
        })
    }
}

impl Width {
    pub(crate) fn gamma(self) -> Shape {
        let shape = match self {
            Self::Cv(cv) | Self::Sigma(cv) => 1.0 / (cv * cv),
            Self::Shape(shape) => shape,
        };
        Shape::Gamma { shape }
    }

    pub(crate) fn lognormal(self) -> Shape {
        let sigma = match self {
            Self::Cv(cv) | Self::Shape(cv) => sigma_of(cv),
            Self::Sigma(sigma) => sigma,
        };
        Shape::Lognormal { sigma }
    }
}

/// `MIN..MAX`, or nothing.
fn gaps(words: &mut Words<'_>) -> Result<Option<(u64, u64)>, WordError> {
    if words.peek().is_none() {
        return Ok(None);
    }
    let what = "gaps such as 50us..150us";
    let gaps = words.parsed(what, |word| {
        let (low, high) = word
            .split_once("..")
            .ok_or_else(|| format!("'{word}' is not a range: write {what}"))?;
        let (low_ns, high_ns) = (parse_time(low, 0, DAY)?, parse_time(high, 1, DAY)?);
        match low_ns < high_ns {
            true => Ok((low_ns, high_ns)),
            false => Err(format!("'{word}' goes down: write the shorter gap first")),
        }
    })?;
    Ok(Some(gaps))
}

/// `cv NUMBER` or `shape NUMBER`.
pub(crate) fn gamma_width(words: &mut Words<'_>) -> Result<Width, WordError> {
    match words.next_word() {
        Some((_, "cv")) => Ok(Width::Cv(words.number(
            "a number, such as 2",
            0.01,
            10.0,
        )?)),
        Some((_, "shape")) => {
            let shape = words.number("a number, such as 0.25", 0.01, 10_000.0)?;
            Ok(Width::Shape(shape))
        }
        Some((column, word)) => Err(words.unknown(column, word, &["cv", "shape"])),
        None => Err(words.missing("how wide it is, such as cv 2,")),
    }
}

/// `cv NUMBER` or `sigma NUMBER`.
pub(crate) fn lognormal_width(words: &mut Words<'_>) -> Result<Width, WordError> {
    match words.next_word() {
        Some((_, "cv")) => Ok(Width::Cv(words.number(
            "a number, such as 1.5",
            0.01,
            100.0,
        )?)),
        Some((_, "sigma")) => {
            let sigma = words.number("a number, such as 1", 0.01, 4.0)?;
            Ok(Width::Sigma(sigma))
        }
        Some((column, word)) => Err(words.unknown(column, word, &["cv", "sigma"])),
        None => Err(words.missing("how wide it is, such as cv 1.5,")),
    }
}

/// `shape NUMBER`.
pub(crate) fn weibull_shape(words: &mut Words<'_>) -> Result<f64, WordError> {
    words.expect("shape")?;
    words.number("a number, such as 0.7", 0.1, 100.0)
}

/// `shape NUMBER` of the generalised Pareto distribution.
pub(crate) fn generalized_pareto_shape(words: &mut Words<'_>) -> Result<f64, WordError> {
    words.expect("shape")?;
    words.number("a number, such as 0.155", 0.001, 0.9)
}

/// `alpha NUMBER`.
pub(crate) fn alpha(words: &mut Words<'_>, least: f64) -> Result<f64, WordError> {
    words.expect("alpha")?;
    words.number("a number, such as 1.5", least, 100.0)
}

/// `RATE for TIME`, at least two, with commas between.
fn states(words: &mut Words<'_>) -> Result<Arrivals, WordError> {
    let mut states = Vec::new();
    let begin = words.column();
    loop {
        let column = words.column();
        if states.len() == STATES_MAX {
            return Err(words.error(column, format!("more than {STATES_MAX} states")));
        }
        let rate = words.rate("a rate a second, such as 20000")?;
        words.expect("for")?;
        let mean_ns = words.time("how long in the mean, such as 100ms", 1_000)?;
        states.push(State { rate, mean_ns });
        if words.peek().is_none() {
            break;
        }
        words.expect(",")?;
    }
    if states.len() < 2 {
        return Err(words.missing("another state, such as ', 0 for 900ms',"));
    }
    if states.iter().all(|state| state.rate == 0.0) {
        let problem = "at rates of 0 nothing is ever sent: give one state more";
        return Err(words.error(begin, problem));
    }
    Ok(Arrivals::OnOff(states.into()))
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cv(cv) => write!(f, "cv {cv}"),
            Self::Shape(shape) => write!(f, "shape {shape}"),
            Self::Sigma(sigma) => write!(f, "sigma {sigma}"),
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant => f.write_str("constant"),
            Self::Poisson => f.write_str("poisson"),
            Self::Uniform { gaps_ns: None } => f.write_str("uniform"),
            &Self::Uniform {
                gaps_ns: Some((low_ns, high_ns)),
            } => {
                let (low, high) = (format_duration(low_ns), format_duration(high_ns));
                write!(f, "uniform {low}..{high}")
            }
            Self::Gamma(width) => write!(f, "gamma {width}"),
            Self::Weibull { shape } => write!(f, "weibull shape {shape}"),
            Self::Lognormal(width) => write!(f, "lognormal {width}"),
            Self::Pareto { alpha } => write!(f, "pareto alpha {alpha}"),
            Self::GeneralizedPareto { shape } => write!(f, "generalized-pareto shape {shape}"),
            Self::OnOff(states) => {
                f.write_str("on-off")?;
                for (number, state) in states.iter().enumerate() {
                    let comma = if number > 0 { "," } else { "" };
                    let mean = format_duration(state.mean_ns);
                    write!(f, "{comma} {} for {mean}", state.rate)?;
                }
                Ok(())
            }
            Self::File { name, .. } => write!(f, "file {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::no_files;

    fn parse(text: &str) -> Result<Arrivals, WordError> {
        Arrivals::parse(text, &mut no_files)
    }

    #[test]
    fn models_print_the_words_that_they_are_read_from() {
        for text in [
            "constant",
            "poisson",
            "uniform",
            "uniform 50us..150us",
            "gamma cv 2",
            "gamma shape 0.25",
            "weibull shape 0.7",
            "lognormal cv 1.5",
            "lognormal sigma 1",
            "pareto alpha 1.5",
            "on-off 20000 for 100ms, 0 for 900ms",
            "on-off 5 for 1s, 50 for 2s, 0.5 for 3min",
        ] {
            assert_eq!(parse(text).expect(text).to_string(), text);
        }
        let mut load = |_: &str| Ok("1us\n3us".to_owned());
        let file = Arrivals::parse("file my gaps, old.txt", &mut load).expect("a file");
        assert_eq!(file.to_string(), "file my gaps, old.txt");
        assert_eq!(file.own_rate(), Some(5e5));
    }

    #[test]
    fn rates_of_their_own_are_those_of_the_words() {
        let rate = |text: &str| parse(text).expect(text).own_rate();
        assert_eq!(rate("poisson"), None);
        assert_eq!(rate("uniform 50us..150us"), Some(10_000.0));
        let on_off = rate("on-off 20000 for 100ms, 0 for 900ms").expect("its own");
        assert!((on_off - 2000.0).abs() < 1e-9);
    }

    #[test]
    fn refused_models_name_the_column_and_the_way_out() {
        for (text, column, advice) in [
            ("", 1, "such as poisson is missing"),
            ("possion", 1, "nearest known word is poisson"),
            ("constant 5", 10, "one word too many"),
            ("uniform 5us", 9, "write gaps such as 50us..150us"),
            ("uniform 9us..5us", 9, "the shorter gap first"),
            ("gamma", 6, "such as cv 2, is missing"),
            ("gamma cv", 9, "is missing"),
            ("gamma shap 2", 7, "nearest known word is shape"),
            ("gamma cv 0", 10, "from 0.01 to 10"),
            ("gamma cv nan", 10, "not a number"),
            ("pareto alpha 1", 14, "from 1.01 to 100"),
            ("weibull shape -1", 15, "must not be negative"),
            ("on-off 5 for 1s", 16, "another state"),
            ("on-off 0 for 1s, 0 for 2s", 8, "give one state more"),
            ("on-off 5 for 1s 6 for 2s", 17, "nearest known word is ,"),
            ("on-off 5 for 1s, 6", 19, "for is missing"),
            ("on-off 5 for 10ns, 6 for 1s", 14, "at least 1us"),
            ("file", 5, "the name of a file"),
            ("file a", 6, "no file is read here"),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error.column, column, "{error}");
            assert!(error.to_string().contains(advice), "{error}");
        }
    }
}
