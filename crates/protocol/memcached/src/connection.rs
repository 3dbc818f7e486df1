//! A server's end of one connection: commands go to the store, answers come out in order.

use crate::command::{Command, CommandError, CommandParser, CommandSink};
use crate::lines::{Lines, ParseError, push_number};
use crate::store::{NO_ITEM, Store, Ticket};

/// What is kept for a connection: 24 bytes.
#[derive(Debug)]
pub struct Connection {
    parser: CommandParser,
    /// The item whose value is on its way.
    ticket: Ticket,
    noreply: bool,
    is_closing: bool,
}

/// How far a push came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that were taken. Fewer than were given: send the answers, and push the others again.
    pub taken: usize,
    /// False: the client sent `quit`; close once the answers are sent.
    pub is_open: bool,
    /// Commands that were read whole, or refused.
    pub commands: u32,
}

/// Answers that a push collects before it stops.
const OUT_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the answer to one retrieval, which may name a large item a thousand times.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

impl Connection {
    /// One on which nothing has come.
    pub fn new() -> Self {
        Self {
            parser: CommandParser::new(),
            ticket: NO_ITEM,
            noreply: false,
            is_closing: false,
        }
    }

    /// Takes bytes from the client, the first of which has the offset `at` in the stream, at the
    /// Unix time `now_s`, and appends the answers to `out`, which holds at most 64 KiB before the
    /// last of them, and 16 MiB of that.
    pub fn push(
        &mut self,
        now_s: i64,
        at: u64,
        bytes: &[u8],
        lines: &mut Lines,
        store: &mut Store,
        out: &mut Vec<u8>,
    ) -> Result<Progress, ParseError> {
        store.advance(now_s);
        let mut answering = Answering {
            ticket: &mut self.ticket,
            noreply: &mut self.noreply,
            is_closing: &mut self.is_closing,
            store,
            out,
            commands: 0,
        };
        let taken = self.parser.push(at, bytes, lines, &mut answering);
        let commands = answering.commands;
        if taken.is_err() {
            self.release(lines, store);
        }
        Ok(Progress {
            taken: taken?,
            is_open: !self.is_closing,
            commands,
        })
    }

    /// Whether nothing need be kept of it: no command is unfinished.
    pub fn is_idle(&self) -> bool {
        self.parser.is_idle() && self.ticket == NO_ITEM && !self.is_closing
    }

    /// Gives back what it holds: the connection is closed.
    pub fn release(&mut self, lines: &mut Lines, store: &mut Store) {
        self.parser.release(lines);
        store.abandon(self.ticket);
        self.ticket = NO_ITEM;
    }
}

impl Default for Connection {
    fn default() -> Self {
        Self::new()
    }
}

struct Answering<'a> {
    ticket: &'a mut Ticket,
    noreply: &'a mut bool,
    is_closing: &'a mut bool,
    store: &'a mut Store,
    out: &'a mut Vec<u8>,
    commands: u32,
}

impl Answering<'_> {
    fn line(&mut self, text: &str, noreply: bool) {
        if !noreply {
            self.out.extend_from_slice(text.as_bytes());
            self.out.extend_from_slice(b"\r\n");
        }
    }
}

impl CommandSink for Answering<'_> {
    fn on_command(&mut self, _: u64, command: Command<'_>) {
        self.commands += 1;
        match command {
            Command::Get {
                keys,
                with_cas,
                touch,
            } => {
                let begin = self.out.len();
                for key in keys {
                    self.store.write_item(key, with_cas, touch, self.out);
                    if self.out.len() - begin > ANSWER_BYTES_MAX {
                        self.out.truncate(begin);
                        let text = "SERVER_ERROR out of memory writing get response";
                        return self.line(text, false);
                    }
                }
                self.line("END", false);
            }
            Command::Store { noreply, .. } => {
                *self.noreply = noreply;
                match self.store.begin(command) {
                    Ok(ticket) => *self.ticket = ticket,
                    Err(text) => {
                        *self.ticket = NO_ITEM;
                        self.line(text, noreply);
                    }
                }
            }
            Command::Delete { key, noreply } => {
                let text = if self.store.delete(key) {
                    "DELETED"
                } else {
                    "NOT_FOUND"
                };
                self.line(text, noreply);
            }
            Command::Add {
                key,
                delta,
                down,
                noreply,
            } => match self.store.add(key, delta, down) {
                Ok(number) if !noreply => {
                    push_number(self.out, number);
                    self.line("", false);
                }
                Ok(_) => {}
                Err(text) => self.line(text, noreply),
            },
            Command::Touch {
                key,
                exptime,
                noreply,
            } => {
                let is_there = self.store.touch(key, exptime);
                self.line(if is_there { "TOUCHED" } else { "NOT_FOUND" }, noreply);
            }
            Command::FlushAll { delay, noreply } => {
                self.store.flush_all(delay);
                self.line("OK", noreply);
            }
            Command::Version => {
                let text = concat!("VERSION ", env!("CARGO_PKG_VERSION"), "-lineside");
                self.line(text, false);
            }
            Command::Verbosity { noreply } => self.line("OK", noreply),
            Command::Quit => *self.is_closing = true,
        }
    }

    fn on_value(&mut self, bytes: &[u8]) {
        self.store.fill(*self.ticket, bytes);
    }

    fn on_value_end(&mut self, _: u64, is_right: bool) {
        // Refused with the line before it.
        if *self.ticket == NO_ITEM {
            return;
        }
        let ticket = std::mem::replace(self.ticket, NO_ITEM);
        let text = match is_right {
            true => self.store.commit(ticket),
            false => {
                self.store.abandon(ticket);
                "CLIENT_ERROR bad data chunk"
            }
        };
        self.line(text, *self.noreply);
    }

    fn on_refused(&mut self, _: u64, error: CommandError) {
        self.commands += 1;
        self.line(error.text(), false);
    }

    fn is_full(&self) -> bool {
        *self.is_closing || self.out.len() >= OUT_BYTES_MAX
    }
}
