use std::process::ExitCode;

use lineside_trace::State;

/// Exit states, as `docs/guide/capture.md` lists them. Usage errors end with clap's own 2.
pub(crate) enum Exit {
    Done,
    Usage,
    Failure,
    /// An `--assert` does not hold, or more requests of a load failed than `--errors-max` allows.
    Assertion,
    /// `--strict`, and the verdict is not complete.
    Disturbed,
    Signal(u8),
    /// The status of the program that was run.
    Program(u8),
}

impl Exit {
    /// The state of a run that came to its end: its verdict counts with `--strict` alone.
    pub(crate) fn of_state(state: State, is_strict: bool) -> Self {
        match state {
            State::Complete => Self::Done,
            _ if is_strict => Self::Disturbed,
            _ => Self::Done,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failure => 1,
            Exit::Usage => 2,
            Exit::Assertion => 3,
            Exit::Disturbed => 4,
            Exit::Signal(signal) => 128 + signal,
            Exit::Program(status) => status,
        })
    }
}
