//! The terminal that a text goes to.

use std::io;

/// Columns of the terminal that standard output is; none if it is no terminal, or does not say.
pub fn terminal_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|&columns| columns > 0)
}
