//! The language of assertions.

use lineside_words::{Rate, nearest, parse_duration, parse_rate, parse_share, parse_size};

/// Why a text is not an assertion.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AssertError(String);

/// An assertion that was understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Assert {
    pub(super) text: String,
    pub(super) of: Of,
    pub(super) metric: Metric,
    pub(super) selection: Selection,
    pub(super) comparator: Comparator,
    /// In the unit of the metric: nanoseconds, bytes per second, 0 to 1.
    pub(super) bound: f64,
}

/// Which trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// The one there is; of two, B.
    Trace,
    A,
    B,
    /// B over A.
    Ratio,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Metric {
    /// This share of the latencies is not greater.
    Quantile(f64),
    Mean,
    Most,
    Count,
    Rate,
    Errors,
    Unanswered,
    Retransmissions,
    Loss,
    Throughput,
    /// From the first call to the last reply.
    Elapsed,
    RoundTrip,
    /// A count of two traces compared call by call.
    Calls(CallCount),
}

/// What `compare --calls` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallCount {
    Missing,
    Added,
    OtherStatus,
    OtherContent,
    Later,
    Earlier,
}

/// The unit that a value has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Time,
    Share,
    PerSecond,
    BytesPerSecond,
    Count,
    Times,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparator {
    Less,
    AtMost,
    Greater,
    AtLeast,
    Equal,
    Other,
}

/// Which operations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) operation: Option<String>,
    pub(super) client: Option<String>,
    /// Of this server.
    pub(super) server: Option<String>,
    pub(super) user_id: Option<i64>,
}

const METRICS: [(&str, Metric); 22] = [
    ("p50", Metric::Quantile(0.5)),
    ("p90", Metric::Quantile(0.9)),
    ("p95", Metric::Quantile(0.95)),
    ("p99", Metric::Quantile(0.99)),
    ("p999", Metric::Quantile(0.999)),
    ("mean", Metric::Mean),
    ("max", Metric::Most),
    ("count", Metric::Count),
    ("rate", Metric::Rate),
    ("errors", Metric::Errors),
    ("unanswered", Metric::Unanswered),
    ("retransmissions", Metric::Retransmissions),
    ("loss", Metric::Loss),
    ("throughput", Metric::Throughput),
    ("elapsed", Metric::Elapsed),
    ("rtt", Metric::RoundTrip),
    ("missing", Metric::Calls(CallCount::Missing)),
    ("added", Metric::Calls(CallCount::Added)),
    ("other_status", Metric::Calls(CallCount::OtherStatus)),
    ("other_content", Metric::Calls(CallCount::OtherContent)),
    ("later", Metric::Calls(CallCount::Later)),
    ("earlier", Metric::Calls(CallCount::Earlier)),
];

/// Words of other tools, and ours.
const HABITS: [(&str, &str); 17] = [
    ("latency", "p99"),
    ("median", "p50"),
    ("p100", "max"),
    ("avg", "mean"),
    ("average", "mean"),
    ("iops", "rate"),
    ("ops", "rate"),
    ("operations", "count"),
    ("failed", "errors"),
    ("error_rate", "errors"),
    ("retrans", "retransmissions"),
    ("drops", "loss"),
    ("bandwidth", "throughput"),
    ("bytes", "throughput"),
    ("duration", "elapsed"),
    ("round_trip", "rtt"),
    ("ping", "rtt"),
];

/// Two letters come before one: `<=` is not `<`.
const COMPARATORS: [(&str, Comparator); 6] = [
    ("<=", Comparator::AtMost),
    (">=", Comparator::AtLeast),
    ("==", Comparator::Equal),
    ("!=", Comparator::Other),
    ("<", Comparator::Less),
    (">", Comparator::Greater),
];

impl Metric {
    pub(super) fn unit(self) -> Unit {
        match self {
            Self::Quantile(_) | Self::Mean | Self::Most | Self::Elapsed | Self::RoundTrip => {
                Unit::Time
            }
            Self::Errors | Self::Unanswered | Self::Loss => Unit::Share,
            Self::Rate => Unit::PerSecond,
            Self::Throughput => Unit::BytesPerSecond,
            Self::Count | Self::Retransmissions | Self::Calls(_) => Unit::Count,
        }
    }
}

impl std::str::FromStr for Assert {
    type Err = AssertError;

    fn from_str(text: &str) -> Result<Self, AssertError> {
        let fault = |what: String| AssertError(format!("'{text}': {what}"));
        let place = COMPARATORS
            .iter()
            .filter_map(|(word, comparator)| Some((text.find(word)?, word.len(), *comparator)));
        // Of those at the first place the longest.
        let place = place.min_by_key(|&(at, length, _)| (at, std::cmp::Reverse(length)));
        let (at, length, comparator) = place.ok_or_else(|| {
            fault("no comparison; write it as in p99(READ) < 10ms, in quotes".to_owned())
        })?;
        Self::read(text, at, Some((length, comparator)))
    }
}

impl Assert {
    /// The figure of an assertion alone, which is compared with nothing.
    pub fn figure(words: &str) -> Result<Self, AssertError> {
        Self::read(words, words.len(), None)
    }

    /// Reads what is compared, up to `at`, and with what, after so many letters.
    fn read(
        text: &str,
        at: usize,
        compared: Option<(usize, Comparator)>,
    ) -> Result<Self, AssertError> {
        let fault = |what: String| AssertError(format!("'{text}': {what}"));
        let left = text[..at].trim();
        if let Some(word) = ["&&", "||", " and ", " or "]
            .iter()
            .find(|word| text.contains(*word))
        {
            let word = word.trim();
            return Err(fault(format!(
                "no '{word}' here; give --assert for each comparison"
            )));
        }
        let (of, rest) = side(left);
        let (name, selection) = match rest.split_once('(') {
            Some((name, rest)) => {
                let inner = rest.trim_end().strip_suffix(')');
                let inner = inner.ok_or_else(|| fault("the ( has no )".to_owned()))?;
                (name.trim(), Selection::of(inner).map_err(fault)?)
            }
            None => (rest.trim(), Selection::default()),
        };
        let metric = metric(name).map_err(fault)?;
        if metric == Metric::Loss && selection != Selection::default() {
            let why = "loss is of the whole capture: what was lost has no operation";
            return Err(fault(format!("{why}; write loss {}", &text[at..])));
        }
        if metric == Metric::RoundTrip && selection != Selection::default() {
            let why = "round trips are of connections, which the flags choose";
            return Err(fault(format!("{why}; write rtt {}", &text[at..])));
        }
        if let Metric::Calls(_) = metric
            && (of != Of::Trace || selection != Selection::default())
        {
            let why = "it is of all calls of both traces; the flags choose calls";
            return Err(fault(format!("{why}; write {name} {}", &text[at..])));
        }
        let (length, comparator) = compared.unwrap_or((0, Comparator::AtLeast));
        let right = text[at + length..].trim();
        let (of, bound) = match (of, metric.unit(), right.strip_suffix('%')) {
            _ if compared.is_none() => (of, Ok(0.0)),
            // A share of a time can only be that of the other trace's.
            (Of::Trace, Unit::Time, Some(percent)) => (
                Of::Ratio,
                value(percent.trim(), Unit::Times).map(|bound| bound / 100.0),
            ),
            (Of::Ratio, ..) => (of, value(right, Unit::Times)),
            (_, unit, _) => (of, value(right, unit)),
        };
        Ok(Self {
            text: text.trim().to_owned(),
            of,
            metric,
            selection,
            comparator,
            bound: bound.map_err(fault)?,
        })
    }

    /// Whether it names one of two traces: there has to be a second.
    pub fn is_of_two(&self) -> bool {
        self.of != Of::Trace || self.is_of_calls()
    }

    /// Whether its value is a time.
    pub fn is_of_time(&self) -> bool {
        self.metric.unit() == Unit::Time
    }

    /// Whether it is of what `compare --calls` counts.
    pub fn is_of_calls(&self) -> bool {
        matches!(self.metric, Metric::Calls(_))
    }

    /// That a load, which has no trace, can be measured by it.
    pub fn must_be_of_a_load(&self) -> Result<(), AssertError> {
        let fault = |what: &str| Err(AssertError(format!("'{}': {what}", self.text)));
        if self.of != Of::Trace {
            return fault("A, B and ratio are of two traces, and a load is one run: leave it out");
        }
        if self.selection != Selection::default() {
            return fault("nothing is selected of a load: write p99 < 10ms");
        }
        match self.metric {
            Metric::Retransmissions
            | Metric::Loss
            | Metric::Elapsed
            | Metric::RoundTrip
            | Metric::Calls(_) => {
                fault("a load does not measure that; errors and unanswered are shares of requests")
            }
            _ => Ok(()),
        }
    }
}

fn side(text: &str) -> (Of, &str) {
    let sides = [
        ("ratio.", Of::Ratio),
        ("A.", Of::A),
        ("a.", Of::A),
        ("B.", Of::B),
        ("b.", Of::B),
    ];
    let found = { sides.into_iter() }.find_map(|(word, of)| Some((of, text.strip_prefix(word)?)));
    found.unwrap_or((Of::Trace, text))
}

fn metric(name: &str) -> Result<Metric, String> {
    let small = name.to_ascii_lowercase();
    if let Some((_, metric)) = METRICS.iter().find(|(known, _)| *known == small) {
        return Ok(*metric);
    }
    let names = METRICS.map(|(name, _)| name);
    let habit = HABITS
        .iter()
        .find(|(word, _)| *word == small)
        .map(|(_, ours)| *ours);
    let nearest = habit.unwrap_or_else(|| nearest(&small, names));
    Err(format!(
        "no metric '{name}'; the nearest is {nearest}, all are {}",
        names.join(", ")
    ))
}

impl Selection {
    fn of(text: &str) -> Result<Self, String> {
        let mut selection = Self::default();
        let items = text
            .split([',', ' '])
            .map(str::trim)
            .filter(|item| !item.is_empty());
        for item in items.filter(|item| !matches!(*item, "*" | "all")) {
            match item.split_once('=') {
                None | Some(("operation", _)) => {
                    let name = item.strip_prefix("operation=").unwrap_or(item);
                    if selection.operation.is_some() {
                        return Err(format!("'{name}' is a second operation; assert each alone"));
                    }
                    selection.operation = Some(name.to_ascii_uppercase());
                }
                Some((end @ ("client" | "server"), host)) => {
                    let address = host.parse::<std::net::IpAddr>();
                    let address = address.map_err(|_| format!("'{host}' is no address"))?;
                    let address = Some(address.to_string());
                    match end {
                        "client" => selection.client = address,
                        _ => selection.server = address,
                    }
                }
                Some(("user", user)) => {
                    let user_id = user.parse().map_err(|_| format!("'{user}' is no uid"))?;
                    selection.user_id = Some(user_id);
                }
                Some((key, _)) => {
                    let nearest = nearest(key, ["operation", "client", "server", "user"]);
                    return Err(format!(
                        "nothing is selected by '{key}'; the nearest that is is {}, for others use \
                        the flags that choose operations",
                        nearest
                    ));
                }
            }
        }
        Ok(selection)
    }
}

/// A number in the unit of the metric.
fn value(text: &str, unit: Unit) -> Result<f64, String> {
    let bare = text
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite() && *number >= 0.0);
    match unit {
        Unit::Time => match (parse_duration(text), bare) {
            (Ok(ns), _) => Ok(ns as f64),
            (Err(_), Some(_)) => Err(format!("{text} has no unit; is {text}ms meant?")),
            (Err(_), None) => Err(format!(
                "'{text}' is not a time; the units are {}",
                offer(text, &TIMES)
            )),
        },
        Unit::Share => {
            parse_share(text).ok_or_else(|| format!("'{text}' is not a share; write 1% or 0.01"))
        }
        Unit::PerSecond => {
            let digits = text
                .strip_suffix("/s")
                .map(|digits| digits.trim().parse::<f64>());
            let rate = digits.and_then(Result::ok).filter(|rate| *rate >= 0.0);
            rate.ok_or_else(|| match bare {
                Some(_) => format!("{text} has no unit; is {text}/s meant?"),
                None => format!("'{text}' is not a rate of operations; write 100/s"),
            })
        }
        Unit::BytesPerSecond => throughput(text),
        Unit::Count => bare.ok_or_else(|| format!("'{text}' is not a count; write 100")),
        Unit::Times => bare.ok_or_else(|| format!("'{text}' is not a ratio; write 1.2")),
    }
}

const TIMES: [&str; 6] = ["ns", "us", "ms", "s", "min", "h"];
const BYTES: [(&str, f64); 3] = [("kB", 1e3), ("MB", 1e6), ("GB", 1e9)];

/// All units, the nearest to what was written first.
fn offer(text: &str, units: &[&str]) -> String {
    let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let nearest = nearest(unit.trim(), units.iter().copied());
    let rest = units.iter().filter(|each| **each != nearest).copied();
    let rest: Vec<&str> = rest.collect();
    format!("{nearest} (the nearest), {}", rest.join(", "))
}

fn throughput(text: &str) -> Result<f64, String> {
    let amount = text.strip_suffix("/s").map(str::trim);
    let decimal = amount.and_then(|amount| {
        { BYTES.iter() }.find_map(|(unit, factor)| {
            let digits = amount
                .strip_suffix(unit)
                .filter(|rest| !rest.ends_with('i'))?;
            Some(digits.trim().parse::<f64>().ok()? * factor)
        })
    });
    let binary = || {
        let amount = amount.filter(|amount| amount.ends_with('B'))?;
        parse_size(amount).ok().map(|size| size as f64)
    };
    let bits = || match parse_rate(text) {
        Ok(Rate::Bits(bits)) if text.ends_with(char::is_alphabetic) => Some(bits as f64 / 8.0),
        _ => None,
    };
    decimal
        .or_else(binary)
        .or_else(bits)
        .ok_or_else(|| format!("'{text}' is not a throughput; write 10MB/s, 10MiB/s or 100mbit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Assert {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn assertions_are_understood() {
        let all = parsed("p99(read) < 10ms");
        assert_eq!((all.metric, all.bound), (Metric::Quantile(0.99), 1e7));
        assert_eq!(all.selection.operation.as_deref(), Some("READ"));
        assert_eq!(all.comparator, Comparator::Less);
        let some = parsed("ratio.p50(WRITE, client=::0001, server=10.0.0.1, user=0) <= 1.2");
        assert_eq!(some.selection.server.as_deref(), Some("10.0.0.1"));
        assert_eq!((some.of, some.bound), (Of::Ratio, 1.2));
        assert_eq!(some.selection.client.as_deref(), Some("::1"));
        assert_eq!(some.selection.user_id, Some(0));
        for (text, bound) in [
            ("errors==0%", 0.0),
            ("errors() < 0.5 %", 0.005),
            ("loss<0.01", 0.01),
            ("rate(all) > 100/s", 100.0),
            ("count > 0", 0.0),
            ("throughput(READ) >= 10MB/s", 1e7),
            ("throughput >= 1MiB/s", 1_048_576.0),
            ("throughput >= 8mbit", 1e6),
            ("retransmissions != 3", 3.0),
            ("max<=1.5s", 1.5e9),
            ("elapsed <= 110%", 1.1),
            ("B.elapsed < 1min", 6e10),
            ("rtt < 1ms", 1e6),
            ("missing == 0", 0.0),
            ("later <= 12", 12.0),
        ] {
            let difference = parsed(text).bound - bound;
            assert!(difference.abs() < 1e-9, "{text}: {}", parsed(text).bound);
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_near() {
        for (text, words) in [
            ("p98(READ) < 10ms", "no metric 'p98'; the nearest is p9"),
            ("latency(READ) < 10ms", "the nearest is p99"),
            ("iops > 5/s", "the nearest is rate"),
            (
                "p99(READ) < 10msec",
                "'10msec' is not a time; the units are ms (the nearest)",
            ),
            ("p99(READ) < 10", "10 has no unit; is 10ms meant?"),
            ("rate > 10", "is 10/s meant?"),
            ("errors < 10ms", "write 1% or 0.01"),
            ("throughput > 10", "write 10MB/s"),
            ("p99(READ)", "no comparison"),
            ("p99(READ < 10ms", "the ( has no )"),
            ("p99 < 1ms && p50 < 1ms", "give --assert for each"),
            ("p99(clint=::1) < 1ms", "the nearest that is is client"),
            ("p99(client=x) < 1ms", "'x' is no address"),
            ("p99(server=x) < 1ms", "'x' is no address"),
            ("p99(READ WRITE) < 1ms", "assert each alone"),
            ("loss(READ) < 1%", "write loss < 1%"),
            ("ratio.p99 < 10ms", "write 1.2"),
            ("elapsed < x%", "'x' is not a ratio"),
            ("ratio.elapsed < 110%", "write 1.2"),
            ("missing(READ) == 0", "write missing == 0"),
            ("rtt(READ) < 1ms", "write rtt < 1ms"),
            ("B.added == 0", "write added == 0"),
            ("duration < 1s", "the nearest is elapsed"),
        ] {
            let error = text.parse::<Assert>().expect_err(text).to_string();
            assert!(error.contains(words), "{text}: no {words:?} in {error}");
        }
    }
}
