//! Which operations a report is about.

use std::path::Path;

use lineside_words::parse_duration;
use serde::Serialize;

use crate::numbers::Zone;
use crate::read::columns::{Lexicon, Word};
use crate::read::lexica::Lexica;
use crate::read::selection::{ChosenConnections, ChosenFiles, nearest, unknown};
use crate::read::trace::{Trace, TraceError};
use crate::read::waits::Waits;

/// A moment as people write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Nanoseconds since the Unix epoch.
    Absolute(i64),
    /// Nanoseconds after the first call or reply of the trace.
    FromStart(i64),
    /// A date and time of day in the zone of the reader.
    Local(jiff::civil::DateTime),
    /// A time of day in the zone of the reader, on the first day of the trace that has it.
    Clock(jiff::civil::Time),
}

/// Why a text is not a moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a time from 1678 to 2262: write RFC 3339, such as 2026-11-21T12:35:00Z, a local \
        time, such as 13:35 or '2026-11-21 13:35:02.5', or how long after the start, such as 10s"
)]
pub struct MomentError(String);

impl std::str::FromStr for Moment {
    type Err = MomentError;

    fn from_str(text: &str) -> Result<Self, MomentError> {
        let error = || MomentError(text.to_owned());
        if let Ok(ns) = parse_duration(text) {
            return Ok(Self::FromStart(i64::try_from(ns).map_err(|_| error())?));
        }
        // As reports write it: the offset stands apart, and `UTC` is one.
        let text = text.trim();
        let text = text.strip_suffix(" UTC").map_or_else(
            || text.replace(" +", "+").replace(" -", "-"),
            |utc| format!("{utc}Z"),
        );
        if let Ok(stamp) = text.parse::<jiff::Timestamp>() {
            let ns = i64::try_from(stamp.as_nanosecond()).map_err(|_| error())?;
            return Ok(Self::Absolute(ns));
        }
        // A day alone could be meant as its begin or as its end, and a number as anything.
        if !text.contains(':') {
            return Err(error());
        }
        let local = text.parse().map(Self::Local);
        local.or_else(|_| text.parse().map(Self::Clock).map_err(|_| error()))
    }
}

impl Moment {
    /// When it next is, in nanoseconds since the Unix epoch: a time of day today, or else tomorrow.
    /// `None` if it is none of a clock.
    pub fn next(&self, now_ns: i64, zone: &Zone) -> Option<i64> {
        match *self {
            Self::Absolute(ns) => Some(ns),
            Self::FromStart(_) => None,
            Self::Local(civil) => zone.moment(civil),
            Self::Clock(time) => {
                let day = zone.day(now_ns)?;
                let days = [Some(day), day.tomorrow().ok()].into_iter().flatten();
                let mut moments = days.filter_map(|day| zone.moment(day.to_datetime(time)));
                moments.find(|ns| *ns > now_ns)
            }
        }
    }
}

/// Which operations to look at. The default is all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Those whose time is not before it.
    pub since: Option<Moment>,
    /// Those whose time is before it.
    pub until: Option<Moment>,
    /// Those of this client, an address as in the column `client_address`.
    pub client: Option<String>,
    /// Those of this server, an address as in the column `server_address`.
    pub server: Option<String>,
    /// Those of this uid, as in the column `user_id`.
    pub user_id: Option<i64>,
    /// Those about files whose path fits this pattern, or of this `file_id`.
    pub file: Option<String>,
    /// Those on this connection: its `connection_id`, or an end of it, `ADDRESS:PORT`.
    pub connection: Option<String>,
    /// Those of this name, as in the column `operation`, in any case.
    pub operation: Option<String>,
    /// The zone of times that have none.
    pub zone: Zone,
}

/// What was asked.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Asked {
    /// The folder of the trace, as given.
    pub trace: String,
    /// From when on.
    pub since_ns: Option<i64>,
    /// Until when, exclusive.
    pub until_ns: Option<i64>,
    /// Of which client.
    pub client: Option<String>,
    /// Of which server.
    pub server: Option<String>,
    /// Of which uid.
    pub user_id: Option<i64>,
    /// About which files: a pattern for their paths, or a `file_id`.
    pub file: Option<String>,
    /// On which connection: its `connection_id`, or one of its ends.
    pub connection: Option<String>,
    /// Of which name.
    pub operation: Option<String>,
}

/// A filter that knows the trace.
pub(crate) struct Chosen {
    pub(crate) since_ns: Option<i64>,
    pub(crate) until_ns: Option<i64>,
    client: Option<String>,
    server: Option<String>,
    pub(crate) user_id: Option<i64>,
    pub(crate) files: Option<ChosenFiles>,
    pub(crate) connections: Option<ChosenConnections>,
    operation: Option<String>,
    /// Which operations are of one call matters, as it does for compounds alone.
    pub(crate) reads_rpc_id: bool,
    /// How long calls without a reply waited.
    pub(crate) waits: Waits,
}

impl Filter {
    /// Resolves moments against the range of times of the trace, if it has one.
    pub(crate) fn resolve(&self, range: Option<(i64, i64)>) -> Chosen {
        let first_ns = range.map(|(first, _)| first);
        let on_the_day = |time: jiff::civil::Time| {
            let (first, last) = range?;
            let day = self.zone.day(first)?;
            let moments = [Some(day), day.tomorrow().ok()].map(|day| {
                { day.and_then(|day| self.zone.moment(day.to_datetime(time))) }.unwrap_or(i64::MAX)
            });
            // A trace that lasts past midnight has it on its second day.
            let is_next = moments[0] < first && moments[1] <= last;
            Some(moments[usize::from(is_next)])
        };
        let absolute = |moment: Option<Moment>| {
            moment.and_then(|moment| match moment {
                Moment::Absolute(ns) => Some(ns),
                Moment::FromStart(ns) => Some(first_ns?.saturating_add(ns)),
                Moment::Local(civil) => self.zone.moment(civil),
                Moment::Clock(time) => on_the_day(time),
            })
        };
        // `::0001` and `::1` are the same host.
        let address = |host: &String| {
            let address: Result<std::net::IpAddr, _> = host.parse();
            address.map_or_else(|_| host.clone(), |address| address.to_string())
        };
        Chosen {
            since_ns: absolute(self.since),
            until_ns: absolute(self.until),
            client: self.client.as_ref().map(address),
            server: self.server.as_ref().map(address),
            user_id: self.user_id,
            files: None,
            connections: None,
            operation: self
                .operation
                .as_ref()
                .map(|name| name.to_ascii_uppercase()),
            reads_rpc_id: true,
            waits: Waits::default(),
        }
    }
}

impl Chosen {
    /// What was asked, with its times as those of the trace.
    pub(crate) fn asked(&self, path: &Path, filter: &Filter) -> Asked {
        Asked {
            trace: path.display().to_string(),
            since_ns: self.since_ns,
            until_ns: self.until_ns,
            client: filter.client.clone(),
            server: filter.server.clone(),
            user_id: filter.user_id,
            file: filter.file.clone(),
            connection: filter.connection.clone(),
            operation: filter.operation.clone(),
        }
    }

    /// The columns that it looks at besides those of every pass, in this order.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &'static str> + use<> {
        let rpc_id = self.reads_rpc_id.then_some("rpc_id");
        let connection = self.connections.is_some().then_some("connection_id");
        let name = self.files.is_some().then_some("name");
        rpc_id.into_iter().chain(connection).chain(name)
    }

    /// Whether every operation is chosen.
    pub(crate) fn are_all(&self) -> bool {
        self.since_ns.is_none()
            && self.until_ns.is_none()
            && self.client.is_none()
            && self.server.is_none()
            && self.user_id.is_none()
            && self.files.is_none()
            && self.connections.is_none()
            && self.operation.is_none()
    }

    /// Whether whole connections are chosen, by time or by client.
    pub(crate) fn are_of_connections(&self) -> bool {
        self.user_id.is_none()
            && self.files.is_none()
            && self.connections.is_none()
            && self.operation.is_none()
    }

    /// Whether connections between two hosts are chosen, whichever of them asked for it: a server
    /// asks its client for that of its callbacks.
    pub(crate) fn has_hosts(&self, from: &str, to: &str) -> bool {
        let is = |chosen: &Option<String>, host: &str| {
            { chosen.as_ref() }.is_none_or(|chosen| chosen == host)
        };
        let has = |client: &str, server: &str| is(&self.client, client) && is(&self.server, server);
        has(from, to) || has(to, from)
    }

    /// Whether some of the time between two is chosen.
    pub(crate) fn overlaps(&self, first_ns: i64, last_ns: i64) -> bool {
        self.since_ns.is_none_or(|since| last_ns >= since)
            && self.until_ns.is_none_or(|until| first_ns < until)
    }

    /// Whether an operation of that time is chosen. One without a time is, unless times were asked
    /// for.
    pub(crate) fn has_time(&self, time_ns: Option<i64>) -> bool {
        match time_ns {
            Some(time) => {
                self.since_ns.is_none_or(|since| time >= since)
                    && self.until_ns.is_none_or(|until| time < until)
            }
            None => self.since_ns.is_none() && self.until_ns.is_none(),
        }
    }

    /// The numbers of the client, the server and the operation that are asked for. `Some(None)`: it
    /// has not been seen so far.
    pub(crate) fn words(&self, lexica: &Lexica) -> [Option<Option<Word>>; 3] {
        let of = |lexicon: &Lexicon, asked: &Option<String>| {
            { asked.as_ref() }.map(|asked| lexicon.find(asked))
        };
        [
            of(&lexica.clients, &self.client),
            of(&lexica.servers, &self.server),
            of(&lexica.words, &self.operation),
        ]
    }

    /// After the pass: what was asked for must have occurred.
    pub(crate) fn check(&self, lexica: &Lexica, unreadable: &[String]) -> Result<(), TraceError> {
        for (what, asked, lexicon) in [
            ("client", &self.client, &lexica.clients),
            ("server", &self.server, &lexica.servers),
        ] {
            if let Some(asked) = asked
                && lexicon.find(asked).is_none()
            {
                let known: Vec<_> = lexicon.texts().collect();
                return Err(unknown(what, asked, nearest(asked, known), unreadable));
            }
        }
        if let Some(user_id) = self.user_id
            && !lexica.has_user(user_id)
        {
            let near = lexica
                .users()
                .min_by_key(|&known| (known.abs_diff(user_id), known));
            let near = near.map(|near| near.to_string());
            return Err(unknown("user", &user_id.to_string(), near, unreadable));
        }
        if let Some(name) = &self.operation {
            let operations = lexica.operations();
            if !operations.contains(name) {
                let known: Vec<_> = operations.iter().map(String::as_str).collect();
                return Err(unknown("operation", name, nearest(name, known), unreadable));
            }
        }
        Ok(())
    }
}

/// The range of times that is looked at: what the trace has, cut by the filter.
pub(crate) fn span(
    trace: &mut Trace,
    filter: &Filter,
) -> Result<(Chosen, Option<(i64, i64)>), TraceError> {
    let range = trace.time_range(&["call_time_ns", "reply_time_ns"]);
    let mut chosen = filter.resolve(range);
    chosen.waits = Waits::of(trace);
    if let (Some(since), Some(until)) = (chosen.since_ns, chosen.until_ns)
        && since >= until
    {
        return Err(TraceError::Backwards {
            since: filter.zone.date(since),
            until: filter.zone.date(until),
        });
    }
    if let Some(pattern) = &filter.file {
        chosen.files = Some(ChosenFiles::of(trace, pattern)?);
    }
    if let Some(text) = &filter.connection {
        chosen.connections = Some(ChosenConnections::of(trace, text)?);
    }
    let span = range.and_then(|(first, last)| {
        let first = chosen.since_ns.map_or(first, |since| since.max(first));
        let last = chosen.until_ns.map_or(last, |until| (until - 1).min(last));
        (first <= last).then_some((first, last))
    });
    Ok((chosen, span))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates_or_distances_from_the_start() {
        assert_eq!("10s".parse(), Ok(Moment::FromStart(10_000_000_000)));
        assert_eq!(
            "1970-01-01T00:00:01.5Z".parse(),
            Ok(Moment::Absolute(1_500_000_000))
        );
        assert_eq!("1970-01-01T01:00:00+01:00".parse(), Ok(Moment::Absolute(0)));
        for bad in [
            "",
            "yesterday",
            "10",
            "2026-11-21",
            "9999-12-31T00:00:00Z",
            "25:00",
        ] {
            assert!(bad.parse::<Moment>().is_err(), "{bad}");
        }
        // As reports write them.
        let pasted = [
            "1970-01-01 01:00:00.500 +01:00",
            "1970-01-01 00:00:00.500 UTC",
        ];
        for text in pasted {
            assert_eq!(text.parse(), Ok(Moment::Absolute(500_000_000)), "{text}");
        }
    }

    #[test]
    fn times_without_an_offset_are_those_of_the_zone() {
        let hour = 3_600_000_000_000;
        let since = |text: &str, range| {
            let filter = Filter {
                since: Some(text.parse().expect(text)),
                ..Filter::default()
            };
            filter.resolve(Some(range)).since_ns
        };
        assert_eq!(since("1970-01-01 02:00", (0, hour)), Some(2 * hour));
        assert_eq!(since("02:00", (hour, 3 * hour)), Some(2 * hour));
        // From 23:00 to 03:00.
        assert_eq!(since("02:00", (23 * hour, 27 * hour)), Some(26 * hour));
        // Not at all in the trace.
        assert_eq!(since("02:00", (4 * hour, 5 * hour)), Some(2 * hour));
    }

    #[test]
    fn unknown_names_are_answered_with_the_nearest() {
        let mut lexica = Lexica::new();
        lexica.clients.number("10.0.0.1");
        lexica.clients.number("192.168.7.7");
        let filter = Filter {
            client: Some("10.0.0.2".to_owned()),
            ..Filter::default()
        };
        let error = filter.resolve(None).check(&lexica, &[]).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("the nearest that does is 10.0.0.1"),
            "{error}"
        );
    }
}
