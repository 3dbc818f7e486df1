//! Settings written in the words that would be read as the same settings.

use std::fmt;

use lineside_words::format_duration;

use super::percent::Percent;
use crate::settings::{
    Chance, Correlation, Delay, Distribution, Draws, Excess, Jitter, Limit, Loss, Order, Place,
    RateLimit, State,
};

impl fmt::Display for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Percent(self.share))?;
        match self.correlation {
            Correlation::Share(share) => write!(f, " {}", Percent(share)),
            Correlation::None | Correlation::HalfLife(_) => Ok(()),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Random(chance) => write!(f, "random {chance}"),
            &Self::GilbertElliott {
                p,
                r,
                bad_loss,
                good_loss,
            } => write!(
                f,
                "gemodel {} {} {} {}",
                Percent(p),
                Percent(r),
                Percent(bad_loss),
                Percent(good_loss)
            ),
            &Self::Burst {
                length_ns,
                every_ns,
            } => {
                write!(
                    f,
                    "burst {} every {}",
                    format_duration(length_ns),
                    format_duration(every_ns)
                )
            }
            Self::Every(number) => write!(f, "every {number}"),
            Self::Frames(numbers) => {
                let numbers: Vec<_> = numbers.iter().map(u64::to_string).collect();
                write!(f, "frames {}", numbers.join(","))
            }
            Self::Segment { place, times } => match place {
                Place::Segment(number) => write!(f, "segment {number} times {times}"),
                Place::Byte(offset) => write!(f, "byte {offset} times {times}"),
            },
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uniform => "uniform",
            Self::Table { name, .. } => name,
        })
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_duration(self.base_ns))?;
        let share = match self.draws {
            Draws::Seeded {
                correlation: Correlation::Share(share),
            } => format!(" {}", Percent(share)),
            _ => String::new(),
        };
        match &self.jitter {
            Jitter::None => {}
            Jitter::Around {
                jitter_ns,
                distribution,
            } => {
                let jitter = format_duration(*jitter_ns);
                write!(f, " {jitter}{share} distribution {distribution}")?;
            }
            Jitter::Above {
                jitter_ns,
                distribution,
            } => {
                let jitter = format_duration(*jitter_ns);
                write!(f, " {jitter}{share} distribution {distribution} one-sided")?;
            }
            Jitter::Shifted {
                shift,
                cycle_ns,
                distribution,
            } => {
                let cycle = format_duration(*cycle_ns);
                write!(
                    f,
                    " shift {shift} cycle {cycle} distribution {distribution}"
                )?;
            }
            Jitter::Measured { name, times, .. } => {
                write!(f, " distribution {name} times {times}")?;
            }
        }
        if let Draws::Prbs31 { state } = self.draws {
            write!(f, " prbs31 {state}")?;
        }
        match self.order {
            Order::Fifo => f.write_str(" order fifo"),
            Order::Reorder => f.write_str(" order reorder"),
            Order::Correlated { half_life_ns } => {
                write!(f, " order correlated {}", format_duration(half_life_ns))
            }
        }
    }
}

impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const PREFIXES: [(&str, u64); 4] = [
            ("t", 1_000_000_000_000),
            ("g", 1_000_000_000),
            ("m", 1_000_000),
            ("k", 1_000),
        ];
        let Self {
            bits_per_second,
            burst_bytes,
            overhead_bytes,
            excess,
        } = self;
        let fits = |&&(_, factor): &&(&str, u64)| bits_per_second.is_multiple_of(factor);
        let (prefix, factor) = PREFIXES.iter().find(fits).copied().unwrap_or(("", 1));
        let number = bits_per_second / factor;
        write!(
            f,
            "{number}{prefix}bit burst {burst_bytes}b overhead {overhead_bytes}"
        )?;
        match excess {
            Excess::Wait => Ok(()),
            Excess::Drop => f.write_str(" drop"),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Up => f.write_str("up")?,
            Self::Down { .. } => f.write_str("down")?,
            Self::Flapping { up_ns, down_ns, .. } => {
                write!(
                    f,
                    "flap {} {}",
                    format_duration(up_ns),
                    format_duration(down_ns)
                )?;
            }
        }
        match self.takes_carrier() {
            true => f.write_str(" carrier"),
            false => Ok(()),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Derived => f.write_str("memory"),
            Self::Frames(frames) => write!(f, "{frames}"),
            Self::Bytes(bytes) => write!(f, "{bytes}b"),
        }
    }
}
