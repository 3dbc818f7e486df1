//! Events of runs between live ports, for the terminal.

use lineside_path::emulate::Event;

use super::flags::Arguments;
use crate::confine;
use crate::inputs::listening_lines;
use crate::print::{say, talk, warn};

impl Arguments {
    /// Prints an event to standard error; with `--quiet`, only what went wrong.
    pub(super) fn print_event(&self, event: &Event<'_>) {
        let text = match event {
            Event::Warning(text) => text.clone(),
            Event::ServerEnded(status) => {
                format!("the server ended before the client: {status}")
            }
            Event::OutsideEnded(status) => {
                format!("pasta ended, nothing outside is reachable: {status}")
            }
            _ if self.quiet => return,
            Event::Listening(facts) => return talk(&listening_lines(facts)),
            Event::Note(text) => return say(text),
            Event::Confined(confined) => {
                return confine::note(confined);
            }
            Event::Advice(text) => text.clone(),
            Event::NothingListens(wait) if wait.is_zero() => return,
            Event::NothingListens(_) => format!(
                "nothing listens at the server after {}: the client starts anyway (--server-wait)",
                self.keys.server_wait.as_deref().unwrap_or_default()
            ),
        };
        warn(&text);
    }
}
