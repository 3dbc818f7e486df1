//! Words of settings, and texts for people: one reader for the small languages of links, loads,
//! monitors, services and assertions. What the words of a language mean is not known here.
//!
//! | module | what |
//! |---|---|
//! | [`Words`] | words one by one, each with its column; errors name it |
//! | [`parse_duration`], [`parse_size`], [`parse_rate`], [`share`] | numbers with units |
//! | [`nearest`] | which known word was meant |
//! | [`time`], [`bytes`], [`percent`] and others | numbers as people read them |
//! | [`escape`] | texts from the wire that cannot steer a terminal |
#![forbid(unsafe_code)]

mod duration;
mod escape;
mod near;
mod number;
mod rate;
mod reader;
mod size;

pub use duration::{DAY, DurationError, YEAR, format_duration, parse_duration, parse_time};
pub use escape::{escape, escape_json};
pub use near::{distance, nearest};
pub use number::{
    bit_rate, bytes, exact_time, grouped, number, parse_share, percent, rate, share, signed_time,
    time,
};
pub use rate::{Rate, RateError, parse_per_second, parse_rate};
pub use reader::{WordError, Words, begins_as_number};
pub use size::{parse_fractional_size, parse_size, parse_tc_size};

/// Whether a text is a number below 0, which no setting is.
fn is_negative(text: &str) -> bool {
    let digits = text.trim().strip_prefix('-');
    digits.is_some_and(|digits| digits.starts_with(|c: char| c.is_ascii_digit()))
}
