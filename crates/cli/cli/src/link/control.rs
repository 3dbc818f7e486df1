//! What a run does with requests of `ctl`. Their form is in [`request`](super::request); the
//! channel between the thread that takes them and the polling loop is in `lineside_path::emulate`.

use std::time::Duration;

use lineside_host::{Stopwatch, wall_ns};
use lineside_measure::monitor::Summary;
use lineside_path::SideId;
use lineside_path::emulate::{ChangeAnswer, ChangeSender, Controlled};
use lineside_store::RunFolder;

use lineside_run::stats::{MonitorStats, RunStats, STATS_VERSION};
use lineside_run::{Looks, Respond};

use super::keys::LinkWords;
use super::request::{Answer, Change, Done, Request, answer_to_json};
use super::spec::LinkSpec;
use super::steps::{StepContext, StepWords};
use super::words::filters;
use crate::config::ConfigError;
use crate::print::warn;

/// What requests are answered from, beside the polling loop.
struct Known {
    spec: LinkSpec,
    context: StepContext,
    monitors: Monitors,
}

/// Listens in the run's folder; to be called before privileges are dropped. `looks` is where its
/// monitors are asked. Where there can be no socket, the run goes on without.
pub(crate) fn listen(
    folder: &RunFolder,
    spec: LinkSpec,
    context: StepContext,
    looks: Option<Looks>,
) -> Option<Controlled> {
    let monitors = Monitors {
        looks,
        latest: None,
    };
    let mut known = Known {
        spec,
        context,
        monitors,
    };
    let respond = move |text: &str, sender: &ChangeSender| {
        let answer = Request::read(text).and_then(|asked| on_request(&mut known, asked, sender));
        answer_to_json(&answer).ok()
    };
    match Controlled::listen(folder, respond) {
        Ok(controlled) => Some(controlled),
        Err(error) => {
            warn(&format!("nothing can be changed while this runs: {error}"));
            None
        }
    }
}

/// Answers requests to a live capture, which has monitors and no link.
pub(crate) fn answer_capture(looks: Looks) -> Respond {
    let mut monitors = Monitors {
        looks: Some(looks),
        latest: None,
    };
    Box::new(move |text| {
        let answer = Request::read(text).and_then(|asked| match asked {
            Request::Stats {} => Ok(Done::Stats(Box::new(RunStats {
                stats_version: STATS_VERSION.to_owned(),
                at_ns: wall_ns(),
                after_ns: None,
                directions: Vec::new(),
                switch: None,
                tap: None,
                polling: None,
                monitors: monitors.stats(),
            }))),
            _ => Err("the run is a capture, which has no link: it can be asked for stats".into()),
        });
        answer_to_json(&answer).ok()
    })
}

fn on_request(known: &mut Known, asked: Request, sender: &ChangeSender) -> Answer {
    Ok(match asked {
        Request::Settings(asked) => Done::Settings(change(&mut known.spec, *asked, sender)?),
        Request::Step(asked) => {
            let words = StepWords::read(&asked.step).map_err(|error| error.to_string())?;
            let text = |error: ConfigError| error.to_string();
            let (spec, new) = classified(&known.spec, &words.link).map_err(text)?;
            let step = words.step(&spec, asked.files, &known.context);
            let step = step.map_err(text)?;
            classify(&mut known.spec, &new, sender)?;
            sender.arm(step)?;
            Done::Step(asked.step)
        }
        Request::Forward(_) => {
            return Err("the run is an emulated link, which has no nodes".to_owned());
        }
        Request::Start {} => Done::Start(sender.start()?),
        Request::Mark(asked) => Done::Mark(sender.mark(asked.text)?),
        Request::Stats {} => Done::Stats(Box::new(RunStats {
            monitors: known.monitors.stats(),
            ..sender.stats()?
        })),
    })
}

/// The link with the expressions of `given` that are new, and those; nothing has been asked yet.
fn classified(
    spec: &LinkSpec,
    given: &LinkWords,
) -> Result<(LinkSpec, Vec<(usize, String)>), ConfigError> {
    let new = spec.new_expressions(given)?;
    let mut classified = spec.clone();
    for (way, expression) in &new {
        classified = classified.with_expression(*way, expression)?;
    }
    Ok((classified, new))
}

/// Has the run tell frames apart by these expressions too.
fn classify(
    spec: &mut LinkSpec,
    new: &[(usize, String)],
    sender: &ChangeSender,
) -> Result<(), String> {
    for (way, expression) in new {
        let text = |error: ConfigError| error.to_string();
        let filter = filters(std::slice::from_ref(expression)).map_err(text)?;
        let with = spec.with_expression(*way, expression).map_err(text)?;
        for filter in filter {
            sender.classify(SideId::new(*way), filter)?;
        }
        *spec = with;
    }
    Ok(())
}

fn change(
    spec: &mut LinkSpec,
    asked: Change,
    sender: &ChangeSender,
) -> Result<ChangeAnswer, String> {
    let text = |error: ConfigError| error.to_string();
    let (known, new) = classified(spec, &asked.emulate).map_err(text)?;
    let changed = known.changed(&asked.emulate, asked.files).map_err(text)?;
    classify(spec, &new, sender)?;
    let done = sender.send(changed.patches())?;
    *spec = changed;
    Ok(done)
}

/// The monitors of a run, which measure in a thread of their own.
struct Monitors {
    looks: Option<Looks>,
    /// Their last report, when it was made, and how long that took.
    latest: Option<(Vec<Summary>, Stopwatch, Duration)>,
}

impl Monitors {
    /// After this time the reply says that the monitors, which are busy, found nothing.
    const PATIENCE: Duration = Duration::from_secs(1);
    /// A look takes the monitors at most a tenth of their time, however often they are asked:
    /// frames wait meanwhile.
    const REST: u32 = 9;

    fn stats(&mut self) -> Vec<MonitorStats> {
        let Some(looks) = &self.looks else {
            return Vec::new();
        };
        let is_fresh = |&(_, since, took): &(_, Stopwatch, Duration)| {
            since.elapsed() < took.saturating_mul(Self::REST)
        };
        if !self.latest.as_ref().is_some_and(is_fresh) {
            let asked = Stopwatch::start();
            let found = looks.look(Self::PATIENCE).unwrap_or_default();
            self.latest = Some((found, Stopwatch::start(), asked.elapsed()));
        }
        let found = { self.latest.iter() }.flat_map(|(found, ..)| found.iter().cloned());
        found.map(MonitorStats::from).collect()
    }
}
