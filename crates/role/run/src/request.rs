//! What `ctl` and a run say to each other, as JSON over the socket of the run's folder: a request
//! and its answer, each with the version of this form.
//!
//! ```text
//!  {"version": 1, "stats": {}}               {"version": 1, "done": {"stats": {..}}}
//!  {"version": 1, "mark": {"text": "now"}}   {"version": 1, "refused": "why"}
//! ```
//!
//! The two may be of different builds of `lineside`: whatever one does not know of the other is
//! refused, and both versions are named.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use lineside_link::words::LinkWords;
use lineside_time::Nanoseconds;
use lineside_trace::certificate::link::{Mark, SettingsWords};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::stats::RunStats;

/// The version of requests and answers: one more whenever either changes its form. Another kind of
/// request changes none: a run that does not know it says so.
const VERSION: u64 = 1;

/// What is asked of a run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// To change the link, or to report its settings.
    Settings(Box<Change>),
    /// To add a step.
    Step(NewStep),
    /// To begin.
    Start {},
    /// To note a text.
    Mark(Text),
    /// To report what was counted so far.
    Stats {},
    /// What a forwarder is asked.
    Forward(ForwardRequest),
}

/// The names of requests, for the refusal of others.
const KINDS: [&str; 6] = ["settings", "step", "start", "mark", "stats", "forward"];

/// A change of the link.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Empty for a request to report the current settings.
    pub emulate: LinkWords,
    /// The text of each file that they name, since the run may not be able to read it.
    pub files: BTreeMap<String, String>,
}

/// A step in words.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewStep {
    pub step: String,
    /// The text of each file that it names.
    pub files: BTreeMap<String, String>,
}

/// A text to be noted.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    pub text: String,
}

/// A request to a forwarder.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ForwardRequest {
    /// To change a node of a service: `add`, `remove`, `drain` or `weight`, and its words.
    Node { action: String, words: Vec<String> },
    /// To take all services anew: the section `[forward]` as JSON.
    Reload { forward: Value },
    /// To which node a connection goes, and why: the client and the service.
    Flow {
        client: SocketAddr,
        service: SocketAddr,
    },
}

/// What a forwarder answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForwardDone {
    /// A sentence of what was done.
    Changed(String),
    /// Which node and why: a text, and the same as JSON.
    Explained { text: String, explanation: Value },
    /// What was counted so far.
    Counted(Value),
}

/// The settings before a change, and from then on; the same if nothing was to be changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeAnswer {
    /// When, by the run's clock; `None` if nothing was changed.
    pub at_ns: Option<Nanoseconds>,
    /// The settings before, by the name of the direction.
    pub before: BTreeMap<String, SettingsWords>,
    /// The settings from then on.
    pub after: BTreeMap<String, SettingsWords>,
}

/// What was done, by the name of the request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Done {
    Settings(ChangeAnswer),
    /// The step, which is armed.
    Step(String),
    /// When the run began, by its clock.
    Start(i64),
    Mark(Mark),
    Stats(Box<RunStats>),
    Forward(ForwardDone),
}

/// The answer to a request; the error is why nothing has changed.
pub type Answer = Result<Done, String>;

impl Request {
    /// As it goes over the socket.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let mut form = serde_json::to_value(self)?;
        form["version"] = json!(VERSION);
        Ok(form.to_string())
    }

    /// Reads what came over the socket. The error is a sentence for whoever asked.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        const BOTH: &str = "use the lineside for ctl that the run was begun with";
        let form: Map<String, Value> = serde_json::from_str(text)
            .map_err(|error| format!("this is not a request: {error}"))?;
        let (version, mut form) = versioned(form);
        if version != Some(VERSION) {
            return Err(format!(
                "the request is {}, and this run takes requests of version {VERSION} (lineside {}): \
                {BOTH}",
                version_words(version),
                env!("CARGO_PKG_VERSION"),
            ));
        }
        form.retain(|_, value| !value.is_null());
        let kinds: Vec<_> = form.keys().cloned().collect();
        let [kind] = kinds.as_slice() else {
            return Err(format!(
                "a request is for one thing, of {}, and this one for {}",
                KINDS.join(", "),
                kinds.len()
            ));
        };
        if !KINDS.contains(&kind.as_str()) {
            return Err(format!(
                "unknown request '{kind}': those of version {VERSION} (lineside {}) are {}; {BOTH}",
                env!("CARGO_PKG_VERSION"),
                KINDS.join(", "),
            ));
        }
        let kind = kind.clone();
        serde_json::from_value(Value::Object(form))
            .map_err(|error| format!("'{kind}' is not understood: {error}"))
    }
}

/// An answer as it goes over the socket.
pub(crate) fn answer_to_json(answer: &Answer) -> serde_json::Result<String> {
    let mut form = match answer {
        Ok(done) => json!({ "done": serde_json::to_value(done)? }),
        Err(why) => json!({ "refused": why }),
    };
    form["version"] = json!(VERSION);
    Ok(form.to_string())
}

/// Reads an answer that came over the socket. The outer error is that there is none that this
/// version can read.
pub fn read_answer(text: &str) -> Result<Answer, String> {
    let form: Map<String, Value> = serde_json::from_str(text)
        .map_err(|error| format!("the reply is not valid JSON: {error}"))?;
    let (version, mut form) = versioned(form);
    if version != Some(VERSION) {
        // What the run says of it may help all the same.
        let why = form.get("refused").and_then(Value::as_str);
        let why = why.map_or_else(String::new, |why| format!(" (it says: {why})"));
        return Err(format!(
            "the run answers by a form that is {}, and this ctl reads version {VERSION} (lineside \
            {}): use the lineside for ctl that the run was begun with{why}",
            version_words(version),
            env!("CARGO_PKG_VERSION"),
        ));
    }
    if let Some(Value::String(why)) = form.remove("refused") {
        return Ok(Err(why));
    }
    let done = form.remove("done").unwrap_or_default();
    let done = serde_json::from_value(done);
    Ok(Ok(done.map_err(|error| {
        format!("its answer is not understood: {error}")
    })?))
}

/// The version, and the rest of a form.
fn versioned(mut form: Map<String, Value>) -> (Option<u64>, Map<String, Value>) {
    let version = form.remove("version");
    (version.and_then(|version| version.as_u64()), form)
}

fn version_words(version: Option<u64>) -> String {
    version.map_or_else(
        || "without a version, as before lineside had them".to_owned(),
        |version| format!("of version {version}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_request_of_this_version_is_refused() {
        let ours = format!("version {VERSION}");
        for (text, expected) in [
            ("", "this is not a request"),
            ("[1]", "this is not a request"),
            ("{\"emulate\":{},\"files\":{}}", "without a version"),
            ("{\"version\":0,\"mark\":{\"text\":\"a\"}}", "of version 0"),
            ("{\"version\":7,\"mark\":{\"text\":\"a\"}}", "of version 7"),
            ("{\"version\":\"1\"}", "without a version"),
            ("{\"version\":1}", "and this one for 0"),
            (
                "{\"version\":1,\"mark\":{\"text\":\"a\"},\"settings\":{}}",
                "and this one for 2",
            ),
            ("{\"version\":1,\"reboot\":{}}", "unknown request 'reboot'"),
            ("{\"version\":1,\"mark\":{}}", "'mark' is not understood"),
            (
                "{\"version\":1,\"mark\":{\"text\":\"a\",\"at\":1}}",
                "unknown field `at`",
            ),
        ] {
            let why = Request::read(text).expect_err(text);
            assert!(why.contains(expected), "{text}: {why}");
            let is_of_versions =
                expected.contains("version") || expected.contains("unknown request");
            assert!(!is_of_versions || why.contains(&ours), "{text}: {why}");
        }
        let mark = Request::read("{\"version\":1,\"mark\":{\"text\":\"a\"},\"x\":null}");
        assert!(matches!(mark, Ok(Request::Mark(Text { text })) if text == "a"));
    }

    #[test]
    fn answers_of_other_versions_are_refused_with_both() {
        let ours = format!("version {VERSION}");
        for (text, expected) in [
            ("{\"refused\":\"a request of another version\"}", "it says:"),
            ("{\"version\":9,\"done\":{}}", "of version 9"),
        ] {
            let why = read_answer(text).expect_err(text);
            assert!(why.contains(expected) && why.contains(&ours), "{why}");
        }
        assert!(read_answer("what?").is_err());
        assert!(read_answer("{\"version\":1}").is_err());
        let refused = answer_to_json(&Err("no".to_owned())).expect("JSON");
        assert!(matches!(read_answer(&refused), Ok(Err(why)) if why == "no"));
    }
}
