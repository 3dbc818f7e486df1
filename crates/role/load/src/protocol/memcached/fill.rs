//! Values that are stored before a load begins: requests to an empty store would miss, which takes
//! a server less than to answer. The load's counts, times and rows have nothing of it.

use std::borrow::Cow;

use lineside_trace::certificate::load::Fill;

use super::{Memcached, Mix};
use crate::client::{Client, Pace};
use crate::error::LoadError;
use crate::launch::{Launch, Requests};
use crate::outcome::{Observer, OnlyStops, Outcome};
use crate::run::{Part, run_each};
use crate::serve::Serve;
use crate::words::UsageError;

/// Values that `all` stores at most: a few gigabytes of small ones.
const VALUES_MAX: u64 = 10_000_000;
/// Connections, and commands under way on each: enough for what a core can send.
const CONNECTIONS: u32 = 8;
const PIPELINE: u32 = 16;

/// How many of the keys have a value before the load: `none`, `all` or a number.
pub(super) fn values(words: &str, keys: u64) -> Result<u64, UsageError> {
    match words {
        "none" => Ok(0),
        "all" => Ok(keys.min(VALUES_MAX)),
        number => { number.parse() }
            .map(|number: u64| number.min(keys))
            .map_err(|_| UsageError(format!("fill: '{number}' is not none, all or a number"))),
    }
}

/// Requests to stores that are filled first.
pub(super) struct Filled<R> {
    pub(super) requests: R,
    pub(super) mix: Mix,
    /// Keys whose values are stored, from the first one on.
    pub(super) values: u64,
}

impl<R: Requests> Requests for Filled<R> {
    fn operations(&self) -> &'static [&'static str] {
        self.requests.operations()
    }

    fn status(&self, status: u32) -> Cow<'static, str> {
        self.requests.status(status)
    }

    fn run(&self, launch: &Launch<'_>, observer: &mut dyn Observer) -> Result<Outcome, LoadError> {
        if self.values == 0 {
            return self.requests.run(launch, observer);
        }
        let fill = fill(
            &self.mix,
            self.values,
            launch,
            &mut OnlyStops(&mut *observer),
        )?;
        let mut outcome = self.requests.run(launch, observer)?;
        if fill.stored < fill.values {
            outcome.notes.push(format!(
                "of {} values to be stored first, {} were not: requests for them miss",
                fill.values,
                fill.values - fill.stored
            ));
        }
        outcome.fill = Some(fill);
        Ok(outcome)
    }

    fn peer(&self) -> Option<&dyn Serve> {
        self.requests.peer()
    }
}

/// Stores the values of the first keys in each server.
fn fill(
    mix: &Mix,
    values: u64,
    launch: &Launch<'_>,
    observer: &mut dyn Observer,
) -> Result<Fill, LoadError> {
    let mut all = Fill::default();
    for &target in &launch.settings.targets {
        let mut settings = launch.settings.clone();
        settings.targets = vec![target];
        (settings.workers, settings.among) = (1, (0, 1));
        (settings.pins, settings.real_time) = (false, false);
        settings.timing.duration_ns = None;
        let plan = &mut settings.plan;
        plan.connections = CONNECTIONS;
        plan.pipeline = PIPELINE;
        plan.opens_on_arrival = false;
        plan.requests_each = None;
        plan.requests = Some(values);
        let client = |part: Part| {
            let protocol = Memcached::filling(mix.clone());
            let pace = Pace::Closed(None);
            Client::new(protocol, part.plan, pace, part.targets, part.locals, None)
        };
        let outcome = run_each(&settings, &client, launch.clock, observer)?;
        all.values += values;
        all.stored += outcome.counts.statuses.iter().find_map(stored).unwrap_or(0);
        all.request_bytes += outcome.counts.request_bytes;
        all.duration_s += outcome.wall_ns.max(0) as f64 / 1e9;
    }
    Ok(all)
}

fn stored(&(status, count): &(u32, u64)) -> Option<u64> {
    (status == super::status::STORED).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_values_are_stored_as_there_are_keys() {
        let of = |words| values(words, 1_000).expect("right words");
        assert_eq!(
            [of("none"), of("all"), of("10"), of("5000")],
            [0, 1_000, 10, 1_000]
        );
        assert_eq!(values("all", u64::MAX).expect("all"), VALUES_MAX);
        let error = values("some", 10).expect_err("not a number");
        assert!(error.to_string().contains("'some'"));
    }
}
