//! What a run does with requests of `ctl`. Their form is in [`request`](super::request); the
//! channel between the thread that takes them and the polling loop is in `lineside_path::emulate`.

use lineside_host::RunFolder;
use lineside_path::emulate::{ChangeAnswer, ChangeSender, Controlled};

use super::request::{Answer, Change, Done, Request, Start, answer_to_json};
use super::spec::LinkSpec;
use super::steps::{StepContext, StepWords};
use crate::print::warn;

/// Listens in the run's folder; to be called before privileges are dropped. Where there can be no
/// socket, the run goes on without.
pub(crate) fn listen(
    folder: &RunFolder,
    mut spec: LinkSpec,
    context: StepContext,
) -> Option<Controlled> {
    let respond = move |text: &str, sender: &ChangeSender| {
        let asked = Request::read(text);
        let answer = asked.and_then(|asked| on_request(&mut spec, &context, asked, sender));
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

fn on_request(
    spec: &mut LinkSpec,
    context: &StepContext,
    asked: Request,
    sender: &ChangeSender,
) -> Answer {
    Ok(match asked {
        Request::Settings(asked) => Done::Settings(change(spec, asked, sender)?),
        Request::Step(asked) => {
            let words = StepWords::read(&asked.step).map_err(|error| error.to_string())?;
            let step = words.step(spec, asked.files, context);
            sender.arm(step.map_err(|error| error.to_string())?)?;
            Done::Step(asked.step)
        }
        Request::Start(Start {}) => Done::Start(sender.start()?),
        Request::Mark(asked) => Done::Mark(sender.mark(asked.text)?),
    })
}

fn change(
    spec: &mut LinkSpec,
    asked: Change,
    sender: &ChangeSender,
) -> Result<ChangeAnswer, String> {
    let patches = spec.patches(&asked.emulate, asked.files.clone());
    let patches = patches.map_err(|error| error.to_string())?;
    let new = spec.changed(&asked.emulate, asked.files);
    let new = new.map_err(|error| error.to_string())?;
    let done = sender.send(patches)?;
    *spec = new;
    Ok(done)
}
