//! Words by which `ctl` changes an emulated link while it runs. The channel between the thread that
//! takes requests and the polling loop is in `lineside_path::emulate`.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow};
use lineside_host::RunFolder;
use lineside_path::emulate::{ChangeAnswer, ChangeSender, Controlled};
use serde::{Deserialize, Serialize};

use super::keys::LinkWords;
use super::spec::LinkSpec;
use crate::print::warn;

/// A request of `ctl` to a run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// Empty for a request to report the current settings.
    pub(crate) emulate: LinkWords,
    /// The text of each file that they name, since the run may not be able to read it.
    pub(crate) files: BTreeMap<String, String>,
}

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Done(ChangeAnswer),
    /// The reason for which nothing has changed.
    Refused(String),
}

/// Listens in the run's folder; to be called before privileges are dropped. Where there can be no
/// socket, the run goes on without.
pub(crate) fn listen(folder: &RunFolder, mut spec: LinkSpec) -> Option<Controlled> {
    let respond = move |text: &str, changes: &ChangeSender| {
        let answer = match on_request(&mut spec, text, changes) {
            Ok(done) => Answer::Done(done),
            Err(why) => Answer::Refused(format!("{why:#}")),
        };
        serde_json::to_string(&answer).ok()
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
    text: &str,
    changes: &ChangeSender,
) -> anyhow::Result<ChangeAnswer> {
    let request: Request = serde_json::from_str(text).context("a request of another version")?;
    let new = spec.changed(&request.emulate, request.files)?;
    let pairs = new.settings.iter().zip(&spec.settings);
    let change = pairs.map(|(new, known)| (new != known).then(|| new.clone()));
    let done = changes.send(change.collect()).map_err(|why| anyhow!(why))?;
    *spec = new;
    Ok(done)
}
