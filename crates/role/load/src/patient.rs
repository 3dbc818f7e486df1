//! Where a program of another host is written to and heard, with a limit to how long it may be
//! silent.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use lineside_host::{Stopwatch, wait_to_read, wait_to_write};
use lineside_words::time;

/// Bytes that a pipe with room takes at once (PIPE_BUF, pipe(7)).
const PIPE_LEN: usize = 4_096;

/// How long an agent may be silent.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Then it is named.
    pub name_after: Duration,
    /// Then the run ends.
    pub end_after: Duration,
    /// Takes the line that names it.
    pub note: fn(&str),
}

/// One end of a program.
pub(crate) struct Patient<T> {
    end: T,
    /// Who is waited for.
    who: String,
    patience: Patience,
    /// Since when something is awaited; `None`: it may take any time.
    since: Option<Stopwatch>,
    is_named: bool,
}

impl Patience {
    /// Names an agent that has been silent for long.
    pub(crate) fn name(&self, who: &str) {
        (self.note)(&format!(
            "lineside: {who}: no answer for {}; waiting for {} in all\n",
            time(nanoseconds(self.name_after)),
            time(nanoseconds(self.end_after)),
        ));
    }
}

impl<T: AsFd> Patient<T> {
    pub(crate) fn new(end: T, who: &str, patience: Patience) -> Self {
        Self {
            end,
            who: who.to_owned(),
            patience,
            since: Some(Stopwatch::start()),
            is_named: false,
        }
    }

    /// From now on something is awaited.
    pub(crate) fn restart(&mut self) {
        self.since = Some(Stopwatch::start());
        self.is_named = false;
    }

    /// From now on it may take any time.
    pub(crate) fn take_any_time(&mut self) {
        self.since = None;
    }

    /// Waits until there is something to read, or the end.
    pub(crate) fn wait_to_read(&mut self) -> io::Result<()> {
        self.wait(|end, at_most| wait_to_read(end, at_most))
    }

    fn wait(&mut self, wait: impl Fn(&T, Duration) -> bool) -> io::Result<()> {
        let Some(since) = &self.since else {
            return Ok(());
        };
        let Patience {
            name_after,
            end_after,
            ..
        } = self.patience;
        if !self.is_named {
            if wait(&self.end, name_after.saturating_sub(since.elapsed())) {
                return Ok(());
            }
            self.is_named = true;
            self.patience.name(&self.who);
        }
        match wait(&self.end, end_after.saturating_sub(since.elapsed())) {
            true => Ok(()),
            false => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

impl<T: AsFd + Read> Read for Patient<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait_to_read()?;
        self.end.read(buffer)
    }
}

impl<T: AsFd + Write> Write for Patient<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wait(|end, at_most| wait_to_write(end, at_most))?;
        self.end.write(&bytes[..bytes.len().min(PIPE_LEN)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.end.flush()
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
