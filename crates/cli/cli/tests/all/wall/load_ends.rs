//! Both ends of a load, as other programs start them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{lineside, talk};

/// `lineside load serve`, until it is dropped or asked for its counts.
pub(crate) struct Served {
    child: Child,
    pub(crate) at: String,
}

impl Served {
    pub(crate) fn start(words: &[&str]) -> Self {
        Self::of(lineside(), words)
    }

    /// By a command that calls `lineside`.
    pub(crate) fn of(mut command: Command, words: &[&str]) -> Self {
        command.args(["load", "serve"]).args(words).arg("--json");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        let stderr = child.stderr.as_mut().expect("a pipe");
        BufReader::new(stderr).read_line(&mut line).expect("a line");
        let at = line
            .split(" at ")
            .nth(1)
            .and_then(|rest| rest.split(';').next());
        let at = at.unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, at }
    }

    pub(crate) fn interrupt(&self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::INT).expect("it runs");
    }

    /// Ends it, as Ctrl-C does.
    pub(crate) fn counts(mut self) -> Value {
        self.interrupt();
        let status = self.child.wait().expect("it ends");
        assert_eq!(status.code(), Some(0));
        let stdout = self.child.stdout.take().expect("a pipe");
        serde_json::from_reader(stdout).expect("JSON")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The certificate of a load that came to its end; a busy machine makes it invalid.
#[track_caller]
pub(crate) fn certificate(words: &[&str]) -> Value {
    certificate_by(lineside(), words)
}

/// The same by a command that calls `lineside`.
#[track_caller]
pub(crate) fn certificate_by(mut command: Command, words: &[&str]) -> Value {
    // What fails is for the test to judge.
    let judged_here = ["--errors-max", "100%", "--json"];
    let output = command.arg("load").args(words).args(judged_here).output();
    let output = output.expect("lineside runs");
    let ended = output.status.success();
    assert!(ended, "{words:?}: {}: {}", output.status, talk(&output));
    let certificate: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        certificate["broken_identity"],
        Value::Null,
        "{certificate:#}"
    );
    certificate
}

#[track_caller]
pub(crate) fn number(value: &Value, pointer: &str) -> u64 {
    let found = value.pointer(pointer).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("{pointer}: {value:#}"))
}
