//! The words of tc-netem(8), and our own where it has none, read into settings and written back.
//!
//! | setting | words |
//! |---|---|
//! | [`delay`] | `TIME [JITTER [CORRELATION]] [distribution uniform\|normal\|pareto\|paretonormal\|FILE] [one-sided] [order fifo\|reorder\|correlated TIME] [prbs31 [STATE]] [shift BITS [cycle TIME]] [times FACTOR]` |
//! | [`loss`] | `[random] SHARE [CORRELATION]` · `gemodel P [R [1-H [1-K]]]` · `burst TIME every TIME` · `every N` · `frames N,N,...` · `segment N [times K]` · `byte OFFSET [times K]` · `none` |
//! | [`chance`] | `SHARE [CORRELATION]` |
//! | [`rate`] | `RATE [burst SIZE] [overhead none\|ethernet\|BYTES] [drop]` |
//! | [`state`] | `up` · `down [carrier]` · `flap UP-TIME DOWN-TIME [carrier]` |
//! | [`limit`] | `FRAMES`, or bytes with a unit: `64kb` |

mod delay;
mod display;
pub(crate) mod percent;
mod texts;

use lineside_words::{Rate, WordError, Words, begins_as_number, parse_rate};

use crate::settings::{
    Carrier, Chance, Correlation, ETHERNET_OVERHEAD, Excess, Limit, Loss, Place, RateLimit, State,
};
use crate::table::Table;

use delay::correlation;
pub use delay::{LoadTable, delay};
pub use texts::LinkWords;

const LOSS_WORDS: [&str; 8] = [
    "random", "gemodel", "burst", "every", "frames", "segment", "byte", "none",
];
const RATE_WORDS: [&str; 3] = ["burst", "overhead", "drop"];
const STATE_WORDS: [&str; 3] = ["up", "down", "flap"];

/// For [`delay`] where no files are read.
pub fn no_files(name: &str) -> Result<Table, String> {
    Err(format!("'{name}' is not built in"))
}

/// Which frames are lost.
pub fn loss(text: &str) -> Result<Loss, WordError> {
    let mut words = Words::new("loss", text);
    let Some(word) = words.peek() else {
        return Err(words.missing("a share, such as 0.1%"));
    };
    let column = words.column();
    if begins_as_number(word) {
        return share_of_frames(&mut words).map(Loss::Random);
    }
    words.next_word();
    let loss = match word {
        "none" => Loss::None,
        "random" => return share_of_frames(&mut words).map(Loss::Random),
        "gemodel" => {
            let p = words.share()?;
            let mut next = |default: f64| match words.peek() {
                Some(_) => words.share(),
                None => Ok(default),
            };
            // The defaults are those of tc(8): with p alone, losses are independent.
            Loss::GilbertElliott {
                p,
                r: next(1.0 - p)?,
                bad_loss: next(1.0)?,
                good_loss: next(0.0)?,
            }
        }
        "burst" => {
            let length_ns = words.time("how long all is lost, such as 50ms", 0)?;
            words.expect("every")?;
            let column = words.column();
            let every_ns = words.time("how often, such as 10s", 0)?;
            if length_ns == 0 || every_ns <= length_ns {
                return Err(words.error(
                    column,
                    "the burst must be shorter than the time between two, and not 0",
                ));
            }
            Loss::Burst {
                length_ns,
                every_ns,
            }
        }
        "every" => Loss::Every(words.count(1, u64::MAX)?),
        "frames" => Loss::Frames(numbers(&mut words)?),
        "segment" => {
            let place = Place::Segment(words.count(1, u64::MAX)?);
            let times = times(&mut words)?;
            Loss::Segment { place, times }
        }
        "byte" => {
            let place = Place::Byte(words.count(0, u32::MAX.into())? as u32);
            let times = times(&mut words)?;
            Loss::Segment { place, times }
        }
        _ => return Err(words.unknown(column, word, &LOSS_WORDS)),
    };
    words.end()?;
    Ok(loss)
}

/// A share of the frames, for `setting`: `duplicate`, `corrupt` or `reorder`.
pub fn chance(setting: &'static str, text: &str) -> Result<Chance, WordError> {
    share_of_frames(&mut Words::new(setting, text))
}

/// How fast frames leave.
pub fn rate(text: &str) -> Result<RateLimit, WordError> {
    let mut words = Words::new("rate", text);
    let Some((column, word)) = words.next_word() else {
        return Err(words.missing("a rate, such as 1gbit"));
    };
    let bits_per_second = match parse_rate(word) {
        Ok(Rate::Bits(bits_per_second)) => bits_per_second,
        Ok(Rate::Frames(_)) => {
            return Err(words.error(
                column,
                format!("'{word}' counts frames: give bits, such as 1gbit"),
            ));
        }
        Err(error) => return Err(words.refused(column, word, error.to_string())),
    };
    let mut rate = RateLimit {
        bits_per_second,
        burst_bytes: 0,
        overhead_bytes: 0,
        excess: Excess::Wait,
    };
    let mut drop_column = 1;
    while let Some((column, word)) = words.next_word() {
        match word {
            "burst" => rate.burst_bytes = words.size()?,
            "overhead" => {
                rate.overhead_bytes = match words.peek() {
                    Some("none") => 0,
                    Some("ethernet") => ETHERNET_OVERHEAD,
                    Some(word) if begins_as_number(word) => {
                        rate.overhead_bytes = words.count(0, 1024)? as u32;
                        continue;
                    }
                    Some(word) => {
                        return Err(words.unknown(words.column(), word, &["none", "ethernet"]));
                    }
                    None => return Err(words.missing("none, ethernet or bytes")),
                };
                words.next_word();
            }
            "drop" => {
                rate.excess = Excess::Drop;
                drop_column = column;
            }
            _ => return Err(words.unknown(column, word, &RATE_WORDS)),
        }
    }
    if rate.excess == Excess::Drop && rate.burst_bytes < 64 {
        let problem =
            "without a burst of a frame or more all would be dropped: add one, such as burst 15k";
        return Err(words.error(drop_column, problem));
    }
    Ok(rate)
}

/// Whether a link takes frames.
pub fn state(text: &str) -> Result<State, WordError> {
    let mut words = Words::new("link", text);
    let Some((column, word)) = words.next_word() else {
        return Err(words.missing("up, down or flap"));
    };
    let state = match word {
        "up" => State::Up,
        "down" => State::Down {
            carrier: carrier(&mut words)?,
        },
        "flap" => {
            let column = words.column();
            let up_ns = words.time("how long it is up, such as 10s", 0)?;
            let down_ns = words.time("how long it is down, such as 1s", 0)?;
            if up_ns == 0 || down_ns == 0 {
                return Err(words.error(column, "neither time may be 0"));
            }
            State::Flapping {
                up_ns,
                down_ns,
                carrier: carrier(&mut words)?,
            }
        }
        _ => return Err(words.unknown(column, word, &STATE_WORDS)),
    };
    words.end()?;
    Ok(state)
}

/// What the ends of a link see while it is down.
fn carrier(words: &mut Words<'_>) -> Result<Carrier, WordError> {
    match words.next_word() {
        None => Ok(Carrier::Stays),
        Some((_, "carrier")) => Ok(Carrier::Goes),
        Some((column, word)) => Err(words.unknown(column, word, &["carrier"])),
    }
}

/// How much is held.
pub fn limit(text: &str) -> Result<Limit, WordError> {
    let mut words = Words::new("limit", text);
    let Some(word) = words.peek() else {
        return Err(words.missing("frames, such as 1000, or bytes, such as 64kb"));
    };
    let limit = if word.bytes().all(|byte| byte.is_ascii_digit()) {
        Limit::Frames(words.count(1, u64::MAX)?)
    } else {
        Limit::Bytes(words.size()?)
    };
    words.end()?;
    Ok(limit)
}

fn share_of_frames(words: &mut Words<'_>) -> Result<Chance, WordError> {
    let share = words.share()?;
    let correlation = match words.peek() {
        Some(_) => correlation(words)?,
        None => Correlation::None,
    };
    words.end()?;
    Ok(Chance { share, correlation })
}

/// Numbers of frames, with commas between.
fn numbers(words: &mut Words<'_>) -> Result<Vec<u64>, WordError> {
    let what = "numbers of frames, such as 3,17";
    words.parsed(what, |word| {
        let parse = |number: &str| number.parse::<u64>().ok().filter(|&number| number > 0);
        let numbers: Option<Vec<_>> = word.split(',').map(parse).collect();
        let mut numbers = numbers.ok_or_else(|| format!("'{word}' is not {what}"))?;
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    })
}

/// `times K`, or once.
fn times(words: &mut Words<'_>) -> Result<u64, WordError> {
    if words.peek().is_none() {
        return Ok(1);
    }
    words.expect("times")?;
    words.count(1, u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Unit;

    fn file(name: &str) -> Result<Table, String> {
        match name {
            "measured" => {
                Ok(Table::new(vec![1000, 2000, 5000], Unit::Nanoseconds).expect("a table"))
            }
            "three.dist" => {
                Ok(Table::new(vec![-8192, 0, 8192], Unit::Deviations).expect("a table"))
            }
            _ => Err(format!("there is no file '{name}'")),
        }
    }

    #[test]
    fn words_are_read_and_written_back() {
        for (text, resolved) in [
            ("100us", "100us order fifo"),
            ("0", "0ns order fifo"),
            // Ten times the jitter, unless something else is asked for.
            (
                "100us 10us",
                "100us 10us distribution uniform order correlated 100us",
            ),
            (
                "100us 10us order fifo",
                "100us 10us distribution uniform order fifo",
            ),
            (
                "100us 10us 25% distribution normal",
                "100us 10us 25% distribution normal order fifo",
            ),
            (
                "1ms 10us distribution pareto order reorder",
                "1ms 10us distribution pareto order reorder",
            ),
            (
                "1ms 10us order correlated 2ms",
                "1ms 10us distribution uniform order correlated 2ms",
            ),
            (
                "5us 8us one-sided distribution three.dist",
                "5us 8us distribution three.dist one-sided order correlated 80us",
            ),
            (
                "5us shift 11 prbs31",
                "5us shift 11 cycle 5ns distribution uniform prbs31 1 order fifo",
            ),
            (
                "5us shift 11 distribution paretonormal prbs31 77 cycle 10ns",
                "5us shift 11 cycle 10ns distribution paretonormal prbs31 77 order fifo",
            ),
            (
                "0ns distribution measured times 1.5",
                "0ns distribution measured times 1.5 order correlated 25500ns",
            ),
            (
                "1us 10us distribution measured",
                "1us 10us distribution measured order correlated 100us",
            ),
        ] {
            let read = delay(text, &mut file).expect(text);
            assert_eq!(read.to_string(), resolved);
            assert_eq!(delay(resolved, &mut file), Ok(read));
        }
        for (text, resolved) in [
            ("0.1%", "random 0.1%"),
            ("random 0.3% 25%", "random 0.3% 25%"),
            ("gemodel 1%", "gemodel 1% 99% 100% 0%"),
            ("gemodel 1% 10% 70% 0.1%", "gemodel 1% 10% 70% 0.1%"),
            ("burst 50ms every 10s", "burst 50ms every 10s"),
            ("every 100", "every 100"),
            ("frames 17,3", "frames 3,17"),
            ("segment 3", "segment 3 times 1"),
            ("byte 0 times 2", "byte 0 times 2"),
            ("none", "none"),
        ] {
            let read = loss(text).expect(text);
            assert_eq!(read.to_string(), resolved);
            assert_eq!(loss(resolved), Ok(read));
        }
        for (text, resolved) in [
            ("1gbit", "1gbit burst 0b overhead 0"),
            (
                "10mbit burst 15k overhead ethernet",
                "10mbit burst 15360b overhead 24",
            ),
            (
                "10mbit overhead 38 burst 2kb drop",
                "10mbit burst 2048b overhead 38 drop",
            ),
        ] {
            let read = rate(text).expect(text);
            assert_eq!(read.to_string(), resolved);
            assert_eq!(rate(resolved), Ok(read));
        }
        for text in [
            "up",
            "down",
            "down carrier",
            "flap 10s 500ms",
            "flap 10s 500ms carrier",
        ] {
            assert_eq!(state(text).expect(text).to_string(), text);
        }
        assert_eq!(limit("1000"), Ok(Limit::Frames(1000)));
        assert_eq!(limit("64kb"), Ok(Limit::Bytes(65_536)));
        let chance = chance("duplicate", "1% 10%").expect("a share");
        assert_eq!(chance.to_string(), "1% 10%");
    }

    #[test]
    fn a_refused_word_is_named_with_its_column() {
        let refused = |text: &str| match text.split_once(' ').expect("a setting and words") {
            ("delay", words) => delay(words, &mut file).map(|_| ()),
            ("loss", words) => loss(words).map(|_| ()),
            ("rate", words) => rate(words).map(|_| ()),
            ("link", words) => state(words).map(|_| ()),
            ("limit", words) => limit(words).map(|_| ()),
            (_, words) => chance("corrupt", words).map(|_| ()),
        };
        for (text, message) in [
            (
                "delay ",
                "delay '', column 1: a time, such as 100us is missing",
            ),
            ("delay 100", "column 1: '100' is not a time"),
            ("delay -5ms", "column 1: '-5ms' must not be negative"),
            ("rate -1mbit", "column 1: '-1mbit' must not be negative"),
            ("loss -1%", "column 1: '-1%' must not be negative"),
            ("limit -5kb", "column 1: '-5kb' must not be negative"),
            ("delay 25h", "column 1: '25h' is more than a day"),
            (
                "delay 1ms 1ms distrbution normal",
                "column 9: 'distrbution' is unknown here; the nearest known word is distribution",
            ),
            (
                "delay 1ms 1ms distribution nromal",
                "column 22: there is no file 'nromal'; 'nromal' is unknown here; the nearest known \
                word is normal",
            ),
            (
                "delay 1ms distribution normal",
                "column 18: a distribution needs a jitter after the delay",
            ),
            (
                "delay 1ms 1ms distribution",
                "column 21: the name of a distribution is missing",
            ),
            (
                "delay 1ms 1ms order fifa",
                "column 15: 'fifa' is unknown here; the nearest known word is fifo",
            ),
            (
                "delay 1ms 1ms order correlated 0",
                "column 26: a half-life of 0 is none",
            ),
            ("delay 1ms 1ms 100%", "column 9: at 100% each draw"),
            (
                "delay 1ms 1ms prbs31 distribution three.dist",
                "column 9: prbs31 needs a table of 2, 4, 8",
            ),
            (
                "delay 1ms 1ms 5% prbs31",
                "column 12: the draws of prbs31 are not correlated",
            ),
            (
                "delay 1ms prbs31",
                "column 5: without jitter there is nothing to draw",
            ),
            ("delay 1ms 1ms shift 4", "column 9: shift is the jitter"),
            (
                "delay 1ms shift 33",
                "column 11: '33' is not a number from 0 to 32",
            ),
            ("delay 1ms cycle 4ns", "column 5: a cycle goes with shift"),
            ("delay 1ms 1ms times 2", "column 9: times goes with"),
            (
                "loss 0.1",
                "column 1: '0.1' is not a share: write a number from 0 to 100 and %",
            ),
            ("loss 101%", "column 1: '101%' is not a share"),
            (
                "loss gemodle 1%",
                "column 1: 'gemodle' is unknown here; the nearest known word is gemodel",
            ),
            (
                "loss gemodel 1% 2% 3% 4% 5%",
                "column 21: '5%' is one word too many",
            ),
            (
                "loss burst 5s every 5s",
                "column 16: the burst must be shorter",
            ),
            ("loss burst 5s", "column 9: every is missing"),
            (
                "loss frames 1,x",
                "column 8: '1,x' is not numbers of frames",
            ),
            ("loss segment 0", "column 9: '0' is not a number from 1 on"),
            (
                "loss segment 3 time 2",
                "column 11: 'time' is unknown here; the nearest known word is times",
            ),
            ("rate 0", "column 1: '0' is not a rate of 1 or more"),
            ("rate 1kpps", "column 1: '1kpps' counts frames"),
            (
                "rate 1gbit brust 5k",
                "column 7: 'brust' is unknown here; the nearest known word is burst",
            ),
            ("rate 1gbit burst 5x", "column 13: '5x' is not a size"),
            (
                "rate 1gbit overhead ethrnet",
                "column 16: 'ethrnet' is unknown here; the nearest known word is ethernet",
            ),
            ("rate 1gbit drop", "column 7: without a burst"),
            (
                "link flop",
                "column 1: 'flop' is unknown here; the nearest known word is flap",
            ),
            ("link flap 0 1s", "column 6: neither time may be 0"),
            ("limit 0", "column 1: '0' is not a number from 1 on"),
            (
                "corrupt 5% 5% 5%",
                "corrupt '5% 5% 5%', column 7: '5%' is one word too many",
            ),
        ] {
            let error = refused(text).expect_err(text).to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
