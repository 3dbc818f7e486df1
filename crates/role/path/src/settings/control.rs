//! What an emulated link does with requests of `ctl`. The polling loop does the things that they
//! ask for, as in [`emulate`](crate::emulate).

use lineside_account::Budget;
use lineside_host::FolderError;
use lineside_link::words::LinkWords;
use lineside_run::control::Asking;
use lineside_run::request::{Answer, Change, ChangeAnswer, Done, Request};
use lineside_run::stats::RunStats;
use lineside_run::{ConfigError, Looks, MonitorsAsked};
use lineside_store::RunFolder;

use super::spec::LinkSpec;
use super::steps::{StepContext, StepWords};
use super::words::filters;
use crate::SideId;
use crate::emulate::{Asked, ChangeSender, Controlled};

/// What requests are answered from, beside the polling loop.
struct Known {
    spec: LinkSpec,
    context: StepContext,
    monitors: MonitorsAsked,
}

/// Listens in the run's folder, where requests draw on `budget`; to be called before privileges are
/// dropped. `looks` is where its monitors are asked.
pub fn listen(
    folder: &RunFolder,
    budget: &Budget,
    spec: LinkSpec,
    context: StepContext,
    looks: Option<Looks>,
) -> Result<Controlled, FolderError> {
    Controlled::listen(folder, budget, responding(spec, context, looks))
}

/// What an emulated link does with a request, with the help of its loop.
pub fn responding(
    spec: LinkSpec,
    context: StepContext,
    looks: Option<Looks>,
) -> impl FnMut(Request, &Asking<Asked>) -> Answer + Send {
    let mut known = Known {
        spec,
        context,
        monitors: MonitorsAsked::new(looks),
    };
    move |asked, asking| on_request(&mut known, asked, &ChangeSender(asking))
}

fn on_request(known: &mut Known, asked: Request, sender: &ChangeSender<'_>) -> Answer {
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
    sender: &ChangeSender<'_>,
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
    sender: &ChangeSender<'_>,
) -> Result<ChangeAnswer, String> {
    let text = |error: ConfigError| error.to_string();
    let (known, new) = classified(spec, &asked.emulate).map_err(text)?;
    let changed = known.changed(&asked.emulate, asked.files).map_err(text)?;
    classify(spec, &new, sender)?;
    let done = sender.send(changed.patches())?;
    *spec = changed;
    Ok(done)
}
