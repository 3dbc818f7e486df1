use std::process::ExitCode;

/// Exit states, as `docs/guide/capture.md` lists them. Usage errors end with clap's own 2.
pub(crate) enum Exit {
    Done,
    Usage,
    Failure,
    /// An `--assert` does not hold.
    Assertion,
    /// `--strict`, and something is missing; or an emulated link's times do not hold.
    Disturbed,
    Signal(u8),
    /// The status of the program that was run.
    Program(u8),
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
