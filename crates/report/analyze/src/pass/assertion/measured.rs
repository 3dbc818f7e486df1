//! The figures that assertions are about: one pass over the operations for all of them.

use std::path::Path;

use lineside_measure::Times;
use lineside_rows::Table;
use lineside_trace::State;
use lineside_words::{grouped, nearest};

use super::language::{Assert, Metric, Selection};
use crate::numbers::share;
use crate::read::batch::Batch;
use crate::read::filter::{Filter, span};
use crate::read::lexica::Lexica;
use crate::read::round_trips::{RoundTrips, add_ends, elapsed_ns};
use crate::read::trace::{Trace, TraceError};

/// A value and the operations that it is of; without a value, why there is none.
pub(super) type Figure = (Result<f64, String>, u64);

/// What the operations of one selection add up to.
struct Gathered {
    selection: Selection,
    operations: u64,
    failed: u64,
    unanswered: u64,
    retransmissions: u64,
    moved_bytes: u64,
    /// The first call and the last reply.
    ends: Option<(i64, i64)>,
    /// The sum of latencies that have no place in a histogram is exact.
    latency: Times,
    /// How long calls without a reply waited: more than these times.
    waits: Vec<u64>,
}

/// The figures of a trace.
pub(super) struct Measured {
    gathered: Vec<Gathered>,
    duration_ns: u64,
    pub(super) state: Option<State>,
    /// Of bytes or frames, the greater; `None` without `trace.json`.
    loss: Option<f64>,
    round_trips: Option<RoundTrips>,
    operations: Vec<String>,
}

impl Measured {
    pub(super) fn of(path: &Path, filter: &Filter, asserts: &[Assert]) -> Result<Self, TraceError> {
        let mut trace = Trace::open_all(path, &filter.zone)?;
        let (chosen, _) = span(&mut trace, filter)?;
        let mut lexica = Lexica::new();
        let mut gathered: Vec<Gathered> = asserts
            .iter()
            .map(|assert| Gathered::of(&assert.selection))
            .collect();
        let mut range: Option<(i64, i64)> = None;
        trace.batches(Table::Operations, &Batch::columns(&chosen), |columns| {
            let batch = Batch::of(columns, &chosen, &mut lexica)?;
            let rows = batch.chosen(&chosen, &lexica);
            for time in rows.iter().filter_map(|&row| batch.time(row)) {
                range = Some(range.map_or((time, time), |(first, last)| {
                    (first.min(time), last.max(time))
                }));
            }
            for each in &mut gathered {
                each.add(&batch, &rows, &mut lexica);
            }
            Ok(())
        });
        gathered.iter_mut().for_each(Gathered::add_waits);
        chosen.check(&lexica, &trace.warnings)?;
        let is_of_ways = asserts
            .iter()
            .any(|assert| assert.metric == Metric::RoundTrip);
        let round_trips = is_of_ways.then(|| RoundTrips::of(&mut trace, &chosen));
        let verdict = trace.manifest.as_ref().map(|manifest| &manifest.verdict);
        let loss = |name: &str| verdict?.shares.get(name).copied();
        let losses = [loss("stream_bytes_lost"), loss("frames_dropped")];
        Ok(Self {
            gathered,
            duration_ns: range.map_or(0, |(first, last)| last.abs_diff(first)),
            state: verdict.map(|verdict| verdict.state),
            loss: verdict.map(|_| losses.into_iter().flatten().fold(0.0, f64::max)),
            round_trips,
            operations: lexica.operations(),
        })
    }

    /// The warning of a judgement if the trace is not complete.
    pub(super) fn verdict_note(&self) -> String {
        match self.state {
            Some(State::Complete) => String::new(),
            Some(state) => {
                let state = format!("{state:?}").to_lowercase();
                format!("the verdict is {state}: this is less sure")
            }
            None => "there is no verdict: how sure this is, is not known".to_owned(),
        }
    }

    /// What a judgement by latencies rests on besides them.
    pub(super) fn note(&self, at: usize, metric: Metric) -> String {
        let is_of_times = matches!(metric, Metric::Quantile(_) | Metric::Mean | Metric::Most);
        let waits = match self.gathered[at].waits.len() as u64 {
            0 => String::new(),
            1 => "1 call without a reply counts as long as it waited".to_owned(),
            count => format!(
                "{} calls without a reply count as long as they waited",
                grouped(count)
            ),
        };
        let notes = [waits, self.verdict_note()];
        let notes = { notes.iter() }.skip(usize::from(!is_of_times));
        let notes: Vec<&str> = notes
            .map(String::as_str)
            .filter(|it| !it.is_empty())
            .collect();
        notes.join("; ")
    }

    /// The value of a metric for the assertion at this place.
    pub(super) fn figure(&self, at: usize, metric: Metric) -> Figure {
        let of = &self.gathered[at];
        let seconds = self.duration_ns as f64 / 1e9;
        let nothing = || {
            format!(
                "there is no {} in it{}",
                of.selection.words(),
                self.near(of)
            )
        };
        let some = |value: Option<u64>| value.map(|ns| ns as f64).ok_or_else(nothing);
        let of_all = |count: u64| match of.operations {
            0 => Err(nothing()),
            operations => Ok(share(count, operations)),
        };
        let per_second = |amount: u64| match (of.operations, self.duration_ns) {
            (0, _) => Err(nothing()),
            (_, 0) => Err("it lasts no time: there is no rate".to_owned()),
            _ => Ok(amount as f64 / seconds),
        };
        let value = match metric {
            Metric::Quantile(share) => some(of.latency.quantile_ns(share)),
            Metric::Mean => some(of.latency.mean_ns()),
            Metric::Most => some(of.latency.max_ns()),
            Metric::Count => Ok(of.operations as f64),
            Metric::Rate if of.operations == 0 => Ok(0.0),
            Metric::Rate => per_second(of.operations),
            Metric::Errors => of_all(of.failed),
            Metric::Unanswered => of_all(of.unanswered),
            Metric::Retransmissions => of_all(0).map(|_| of.retransmissions as f64),
            Metric::Throughput => per_second(of.moved_bytes),
            Metric::Loss => self
                .loss
                .ok_or_else(|| "trace.json cannot be read: loss is not known".to_owned()),
            Metric::Elapsed => some(elapsed_ns(of.ends)),
            Metric::RoundTrip => { self.round_trips.as_ref() }
                .and_then(RoundTrips::median_ns)
                .map(|ns| ns as f64)
                .ok_or_else(|| "no connection of it shows a round trip".to_owned()),
            Metric::Calls(_) => Err("it is of 'lineside compare A B --calls' alone".to_owned()),
        };
        let counted = match metric {
            Metric::Quantile(_) | Metric::Mean | Metric::Most => of.latency.count(),
            _ => of.operations,
        };
        (value, counted)
    }

    /// The nearest operation that there is, for one that there is not.
    fn near(&self, of: &Gathered) -> String {
        let Some(name) = of.selection.operation.as_deref() else {
            return String::new();
        };
        if self.operations.iter().any(|known| known == name) {
            return String::new();
        }
        if self.operations.is_empty() {
            return String::new();
        }
        let nearest = nearest(name, self.operations.iter().map(String::as_str));
        format!("; the nearest is {nearest}")
    }
}

impl Selection {
    fn words(&self) -> String {
        let operation = self
            .operation
            .clone()
            .unwrap_or_else(|| "operation".to_owned());
        let client = { self.client.as_ref() }.map(|client| format!(" of client {client}"));
        let server = { self.server.as_ref() }.map(|server| format!(" of server {server}"));
        let user = self.user_id.map(|user| format!(" of user {user}"));
        let latency = " with a latency";
        let parts = [client, server, user]
            .into_iter()
            .flatten()
            .collect::<String>();
        if self.operation.is_none() && parts.is_empty() {
            operation + latency
        } else {
            operation + &parts
        }
    }
}

impl Gathered {
    fn of(selection: &Selection) -> Self {
        Self {
            selection: selection.clone(),
            operations: 0,
            failed: 0,
            unanswered: 0,
            retransmissions: 0,
            moved_bytes: 0,
            ends: None,
            latency: Times::growing(3),
            waits: Vec::new(),
        }
    }

    fn add(&mut self, batch: &Batch<'_>, rows: &[usize], lexica: &mut Lexica) {
        let operation = self.selection.operation.as_deref();
        let operation = operation.map(|name| lexica.words.find(name));
        let client = self.selection.client.as_deref();
        let client = client.map(|client| lexica.clients.find(client));
        let server = self.selection.server.as_deref();
        let server = server.map(|server| lexica.servers.find(server));
        for &row in rows {
            let is_meant = operation.is_none_or(|word| word == Some(batch.operation.get(row)))
                && client.is_none_or(|word| word == Some(batch.client.get(row)))
                && server.is_none_or(|word| word == Some(batch.server.get(row)))
                && { self.selection.user_id }
                    .is_none_or(|user| batch.user_id.get(row) == Some(user));
            if !is_meant {
                continue;
            }
            self.operations += 1;
            add_ends(&mut self.ends, batch, row);
            let failure = lexica.failure(batch.status.get(row), batch.rpc_status.get(row));
            self.failed += u64::from(failure.is_some());
            self.unanswered += u64::from(batch.reply_missing.get(row));
            self.retransmissions += batch.retransmissions.get(row);
            let moved = batch.transferred.get(row).unwrap_or(0);
            self.moved_bytes += u64::try_from(moved).unwrap_or(0);
            if let Some(ns) = batch.latency_ns(row) {
                self.latency.add(ns);
            }
            self.waits.extend(batch.wait(row).map(|wait| wait.ns()));
        }
    }

    /// Waits are latencies too, so that nothing holds because a server hangs. One that is shorter
    /// than half of the operations take is a call in flight, of which nothing is known yet.
    fn add_waits(&mut self) {
        let median_ns = self.latency.quantile_ns(0.5).unwrap_or(0);
        self.waits.retain(|ns| *ns >= median_ns);
        self.waits.iter().for_each(|ns| self.latency.add(*ns));
    }
}
