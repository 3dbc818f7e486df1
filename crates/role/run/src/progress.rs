use lineside_account::Counters;
use lineside_port::Facts;

/// What a role reports while it runs. The command line prints it, or does not.
pub trait Progress {
    /// The inputs are open, and the first frame comes next.
    fn begin(&mut self, inputs: &[&Facts]);

    /// A sentence that the user may want to know.
    fn note(&mut self, text: &str);

    /// A sentence that the user should read, as a warning.
    fn warn(&mut self, text: &str);

    /// Bytes read of all input files.
    fn set_position(&mut self, bytes: u64);

    /// The state of a live run in one line, which replaces the one before it.
    fn set_line(&mut self, line: &str);

    /// A live run as a whole, in one line, at its end.
    fn end_line(&mut self, line: &str);

    /// The user asked for the counters by a signal; `line` is the state of a live run.
    fn counters(&mut self, line: Option<&str>, counters: &Counters);
}
