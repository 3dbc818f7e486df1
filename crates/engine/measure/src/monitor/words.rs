//! What a monitor is asked for, in words:
//! `gap,size at eth1.came match tcp port 2049 window 10ms`.

use std::fmt;
use std::str::FromStr;

use lineside_filter::{Filter, FilterError};
use lineside_time::Nanoseconds;
use lineside_words::{DurationError, parse_duration};

use super::bins::Room;
use super::flow_table::FlowTable;
use super::flows::{Flows, Make, Wanted};
use super::gaps::{Bursts, Gaps};
use super::sizes::Sizes;
use super::windows::Windows;
use super::{Monitor, Point, Scale};

/// What may be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bytes in windows of time.
    Utilisation,
    /// Packets in windows of time; the same rows.
    Packets,
    /// Lengths of frames.
    Size,
    /// Times between frames.
    Gap,
    /// The same in the bins of the original hardware.
    GapDecades,
    /// Frames and bytes that follow one another closely.
    Burst,
    /// Receive windows of TCP.
    TcpWindow,
    /// Packets and bytes of flows.
    FlowSize,
    /// Times from SYN to FIN.
    FlowTime,
    /// Segments of TCP that were overtaken.
    Reordering,
    /// Bytes of TCP that came again.
    Retransmitted,
}

/// The kinds by their names, in the order of the help.
const KINDS: [(&str, Kind); 11] = [
    ("utilisation", Kind::Utilisation),
    ("packets", Kind::Packets),
    ("size", Kind::Size),
    ("gap", Kind::Gap),
    ("gap_decades", Kind::GapDecades),
    ("burst", Kind::Burst),
    ("tcp_window", Kind::TcpWindow),
    ("flow_size", Kind::FlowSize),
    ("flow_time", Kind::FlowTime),
    ("reordering", Kind::Reordering),
    ("retransmitted", Kind::Retransmitted),
];

impl Kind {
    /// Whether it measures flows, of which there is one table.
    fn is_of_flows(self) -> bool {
        use Kind::{FlowSize, FlowTime, Reordering, Retransmitted, TcpWindow};
        matches!(
            self,
            TcpWindow | FlowSize | FlowTime | Reordering | Retransmitted
        )
    }
}

/// What a monitor is asked for.
#[derive(Debug, Clone)]
pub struct Words {
    /// As they were given.
    text: String,
    kinds: Vec<Kind>,
    at: PlaceWords,
    filter: Option<Filter>,
    window_ns: Nanoseconds,
    within_ns: u64,
    is_by_flow: bool,
    flows_max: Option<usize>,
}

/// Places in words: `eth1.came`, `eth1`, `*.dropped`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlaceWords {
    port: Option<String>,
    point: Option<PointWord>,
}

/// The points that are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PointWord {
    One(Point),
    /// All reasons of drops.
    Dropped,
}

/// Windows of time: a millisecond.
const WINDOW_NS: Nanoseconds = 1_000_000;

/// Frames of a burst follow one another within 20 us: a frame of 1,500 bytes takes 12 at 1 Gb/s.
const WITHIN_NS: u64 = 20_000;

/// Flows of a table by default: some 50 MB.
const FLOWS_MAX: usize = 131_072;

/// Flows that have monitors of their own, by default.
const BY_FLOW_MAX: usize = 256;

/// A table of flows may have this many at most.
const FLOWS_LIMIT: usize = 1 << 24;

/// Why words are refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WordsError {
    /// No kind is so named.
    #[error("unknown measurement '{word}'{}: there are {}, and all", near(.word), names())]
    Kind {
        /// The word.
        word: String,
    },
    /// The word is none that may stand there.
    #[error(
        "'{word}' is not understood: after what is measured may come 'at PORT.POINT', 'match EXPR', \
        'window TIME', 'within TIME', 'by flow' and 'flows N'"
    )]
    Word {
        /// The word.
        word: String,
    },
    /// A word that needs another one after it.
    #[error("'{word}' needs {what}")]
    Lacks {
        /// The word.
        word: &'static str,
        /// What is to follow.
        what: &'static str,
    },
    /// A word that came before.
    #[error("'{word}' is there twice: leave out one of them, or ask for two monitors")]
    Twice {
        /// The word.
        word: String,
    },
    /// A time that is none.
    #[error("{word}: {error}")]
    Time {
        /// The word before it.
        word: &'static str,
        /// Why.
        error: DurationError,
    },
    /// A time of nothing, or beyond what can be.
    #[error("{word}: '{given}' is not between 1ns and 1000 days")]
    Range {
        /// The word before it.
        word: &'static str,
        /// What was given.
        given: String,
    },
    /// A number that is none.
    #[error("flows: '{given}' is not a number from 1 to {FLOWS_LIMIT}")]
    Flows {
        /// What was given.
        given: String,
    },
    /// A word of no use there.
    #[error("'{word}' has no meaning {why}: leave it out")]
    Useless {
        /// The word.
        word: &'static str,
        /// Where.
        why: &'static str,
    },
    /// The expression.
    #[error("match: {0}")]
    Filter(#[from] FilterError),
}

fn names() -> String {
    KINDS.map(|(name, _)| name).join(", ")
}

fn near(word: &str) -> String {
    let near = KINDS
        .into_iter()
        .map(|(name, _)| (lineside_words::distance(name, word), name));
    match near.min() {
        Some((distance @ 1..3, name)) if 2 * distance < name.len() => {
            format!(" (did you mean '{name}'?)")
        }
        _ => String::new(),
    }
}

/// The words after what is measured.
const AFTER: [&str; 6] = ["at", "match", "window", "within", "by", "flows"];

/// The longest time that words may give.
const TIME_MAX_NS: u64 = 1000 * 86_400_000_000_000;

impl FromStr for Words {
    type Err = WordsError;

    fn from_str(text: &str) -> Result<Self, WordsError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let is_after = |word: &&str| AFTER.contains(word);
        let end = words.iter().position(is_after).unwrap_or(words.len());
        let mut read = Self {
            text: words.join(" "),
            kinds: kinds(&words[..end].join(" "))?,
            at: PlaceWords::default(),
            filter: None,
            window_ns: WINDOW_NS,
            within_ns: WITHIN_NS,
            is_by_flow: false,
            flows_max: None,
        };
        let mut rest = &words[end..];
        let mut seen = Vec::new();
        while let [word, after @ ..] = rest {
            if seen.contains(word) {
                let word = (*word).to_owned();
                return Err(WordsError::Twice { word });
            }
            seen.push(*word);
            let len = after.iter().position(is_after).unwrap_or(after.len());
            let (value, others) = after.split_at(len);
            read.take(word, value)?;
            rest = others;
        }
        read.refuse_useless(&seen)?;
        Ok(read)
    }
}

fn kinds(text: &str) -> Result<Vec<Kind>, WordsError> {
    let mut kinds = Vec::new();
    for word in text.split(',').map(str::trim) {
        if word == "all" {
            let all = KINDS.into_iter().map(|(_, kind)| kind);
            kinds.extend(all.filter(|kind| *kind != Kind::GapDecades));
            continue;
        }
        let known = KINDS.into_iter().find(|(name, _)| *name == word);
        let (_, kind) = known.ok_or_else(|| WordsError::Kind {
            word: word.to_owned(),
        })?;
        kinds.push(kind);
    }
    Ok(kinds)
}

fn time(word: &'static str, value: &[&str]) -> Result<u64, WordsError> {
    let [given] = value else {
        return Err(WordsError::Lacks {
            word,
            what: "a time, such as 10ms",
        });
    };
    let ns = parse_duration(given).map_err(|error| WordsError::Time { word, error })?;
    match ns {
        1..=TIME_MAX_NS => Ok(ns),
        _ => Err(WordsError::Range {
            word,
            given: (*given).to_owned(),
        }),
    }
}

impl Words {
    fn take(&mut self, word: &str, value: &[&str]) -> Result<(), WordsError> {
        match word {
            "at" => {
                let [place] = value else {
                    let what = "one place, such as eth1.came or eth1";
                    return Err(WordsError::Lacks { word: "at", what });
                };
                self.at = PlaceWords::read(place);
            }
            "match" => {
                if value.is_empty() {
                    let what = "a filter expression, such as tcp port 2049";
                    return Err(WordsError::Lacks {
                        word: "match",
                        what,
                    });
                }
                self.filter = Some(Filter::parse(&value.join(" "))?);
            }
            "window" => self.window_ns = time("window", value)?.cast_signed(),
            "within" => self.within_ns = time("within", value)?,
            "by" => match value {
                ["flow"] => self.is_by_flow = true,
                [] => {
                    return Err(WordsError::Lacks {
                        word: "by",
                        what: "the word flow",
                    });
                }
                [word, ..] => {
                    return Err(WordsError::Word {
                        word: (*word).to_owned(),
                    });
                }
            },
            "flows" => {
                let [given] = value else {
                    return Err(WordsError::Lacks {
                        word: "flows",
                        what: "a number",
                    });
                };
                let number = given
                    .parse()
                    .ok()
                    .filter(|flows| (1..=FLOWS_LIMIT).contains(flows));
                let error = || WordsError::Flows {
                    given: (*given).to_owned(),
                };
                self.flows_max = Some(number.ok_or_else(error)?);
            }
            other => {
                return Err(WordsError::Word {
                    word: other.to_owned(),
                });
            }
        }
        Ok(())
    }

    fn refuse_useless(&self, seen: &[&str]) -> Result<(), WordsError> {
        let has = |wanted: &[Kind]| self.kinds.iter().any(|kind| wanted.contains(kind));
        let of_flows = self.kinds.iter().any(|kind| kind.is_of_flows());
        let useless = [
            (
                "window",
                !has(&[Kind::Utilisation, Kind::Packets]),
                "without utilisation or packets",
            ),
            ("within", !has(&[Kind::Burst]), "without burst"),
            (
                "flows",
                !of_flows && !self.is_by_flow,
                "without a monitor of flows",
            ),
            (
                "by",
                self.kinds.iter().all(|kind| kind.is_of_flows()),
                "for what is of flows anyway",
            ),
        ];
        let useless = useless.into_iter();
        let mut useless =
            useless.filter(|&(word, is_useless, _)| is_useless && seen.contains(&word));
        match useless.next() {
            Some((word, _, why)) => Err(WordsError::Useless { word, why }),
            None => Ok(()),
        }
    }

    /// What it measures where nothing says otherwise.
    pub fn expression(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }

    /// Another name of a port is that port.
    pub fn rename_port(&mut self, other: &str, port: &str) {
        let named = self.at.port.as_mut().filter(|named| *named == other);
        named.into_iter().for_each(|named| *named = port.to_owned());
    }

    /// Whether it measures at a point of a port.
    pub fn is_at(&self, port: &str, point: Point) -> bool {
        self.at.is_at(port, point)
    }

    /// Whether it measures at such points.
    pub fn is_of(&self, point: Point) -> bool {
        self.at.is_of(point)
    }

    /// The port that it names.
    pub fn port(&self) -> Option<&str> {
        self.at.port()
    }

    fn flows_max(&self) -> usize {
        let usual = match self.is_by_flow {
            true => BY_FLOW_MAX,
            false => FLOWS_MAX,
        };
        self.flows_max.unwrap_or(usual)
    }

    /// Bytes that the monitors of a flow may come to take.
    fn flow_bytes_max(&self) -> usize {
        let own = self.kinds.iter().filter(|_| self.is_by_flow);
        own.map(|kind| match kind {
            Kind::Size => Scale::Lengths.memory_bytes_max(),
            Kind::Gap => Scale::LogLinear.memory_bytes_max(),
            Kind::GapDecades => Scale::Decades.memory_bytes_max(),
            Kind::Burst | Kind::Utilisation | Kind::Packets => {
                2 * Scale::LogLinear.memory_bytes_max()
            }
            _ => 0,
        })
        .sum()
    }

    /// The monitors for one point.
    pub(super) fn monitors(
        &self,
        budget: &lineside_account::Budget,
        room: &Room,
    ) -> Vec<Box<dyn Monitor>> {
        let has = |kind| self.kinds.contains(&kind);
        let mut monitors = match self.is_by_flow {
            true => Vec::new(),
            false => self.of_frames(Some(room)),
        };
        if self.is_by_flow || self.kinds.iter().any(|kind| kind.is_of_flows()) {
            let wanted = Wanted {
                sizes: has(Kind::FlowSize),
                times: has(Kind::FlowTime),
                windows: has(Kind::TcpWindow),
                reordering: has(Kind::Reordering),
            };
            let make = match self.is_by_flow {
                true => {
                    let words = self.clone();
                    Make(Box::new(move || words.of_frames(None)))
                }
                false => Make(Box::new(Vec::new)),
            };
            let table = FlowTable::new(self.flows_max(), self.flow_bytes_max(), budget);
            monitors.push(Box::new(Flows::new(wanted, table, make, room)));
        }
        monitors
    }

    /// Those that look at one frame after another, whatever flow it is of.
    fn of_frames(&self, room: Option<&Room>) -> Vec<Box<dyn Monitor>> {
        let has = |kind| self.kinds.contains(&kind);
        let mut monitors: Vec<Box<dyn Monitor>> = Vec::new();
        if has(Kind::Utilisation) || has(Kind::Packets) {
            monitors.push(Box::new(Windows::new(self.window_ns, room)));
        }
        if has(Kind::Size) {
            monitors.push(Box::new(Sizes::new(room)));
        }
        if has(Kind::Gap) {
            monitors.push(Box::new(Gaps::new(room)));
        }
        if has(Kind::GapDecades) {
            monitors.push(Box::new(Gaps::in_decades(room)));
        }
        if has(Kind::Burst) {
            monitors.push(Box::new(Bursts::new(self.within_ns, room)));
        }
        monitors
    }
}

/// `eth1.came`, `eth1`, `*.left`: an interface may have points in its name.
impl PlaceWords {
    /// Reads a place: `PORT.POINT`, or `PORT`, which is all but drops; `*` is each port, and
    /// `dropped` each reason of drops.
    pub fn read(place: &str) -> Self {
        let point = |name| match name {
            "dropped" => Some(PointWord::Dropped),
            name => Point::named(name).map(PointWord::One),
        };
        let (port, point) = match place.rsplit_once('.') {
            Some((port, name)) if point(name).is_some() => (port, point(name)),
            _ => (place, None),
        };
        let port = (port != "*").then(|| port.to_owned());
        Self { port, point }
    }

    /// Whether it names a point of a port.
    pub fn is_at(&self, port: &str, point: Point) -> bool {
        let is_port = self.port.as_deref().is_none_or(|wanted| wanted == port);
        is_port && self.is_of(point)
    }

    /// Whether it names such points.
    pub fn is_of(&self, point: Point) -> bool {
        match self.point {
            None => !point.is_drop(),
            Some(PointWord::One(wanted)) => wanted == point,
            Some(PointWord::Dropped) => point.is_drop(),
        }
    }

    /// The port that it names.
    pub fn port(&self) -> Option<&str> {
        self.port.as_deref()
    }

    /// Whether it names points, and not a port alone.
    pub fn has_point(&self) -> bool {
        self.point.is_some()
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_where_and_which_frames() {
        let words: Words = "gap,packets  at eth0.7.came match tcp port 2049 window 10ms"
            .parse()
            .expect("words");
        assert_eq!(
            words.to_string(),
            "gap,packets at eth0.7.came match tcp port 2049 window 10ms"
        );
        assert_eq!(words.window_ns, 10_000_000);
        assert!(words.is_at("eth0.7", Point::Came) && !words.is_at("eth0.7", Point::Left));
        assert!(!words.is_at("eth0", Point::Came));
        let drops: Words = "size at *.dropped".parse().expect("words");
        assert!(drops.is_at("eth1", Point::DroppedRate) && !drops.is_at("eth1", Point::Came));
        let usual: Words = "all".parse().expect("words");
        assert!(usual.is_at("eth1", Point::Left) && !usual.is_at("eth1", Point::DroppedLoss));
    }

    #[test]
    fn wrong_words_are_named_with_the_way_out() {
        for (given, named) in [
            ("gapp", "did you mean 'gap'"),
            ("", "there are utilisation"),
            ("gap at", "one place"),
            ("gap at a b", "one place"),
            ("gap match", "filter expression"),
            ("gap match foo bar", "match: "),
            ("packets window 0s", "between 1ns"),
            ("packets window 10", "window: "),
            ("burst within", "a time"),
            ("gap window 1ms", "without utilisation"),
            ("size within 1ms", "without burst"),
            ("size flows 7", "without a monitor of flows"),
            ("flow_size flows 0", "a number from 1"),
            ("flow_size by flow", "of flows anyway"),
            ("gap by port", "'port' is not understood"),
            ("gap at a at b", "twice"),
            ("gap eth1", "unknown measurement 'gap eth1'"),
        ] {
            let error = given.parse::<Words>().expect_err(given).to_string();
            assert!(error.contains(named), "{given}: {error}");
        }
    }
}
