//! One direction of a TCP connection as a sequence of RPC messages (RFC 5531, 11), holes included.
//!
//! ```text
//!  after SYN ──► Fast ◄──────── accepted ───────── Slow ◄── joined in the middle
//!                 │  │ mark lost or impossible      ▲ │
//!                 │  └──────────────────────────────┘ │ no header within a long way
//!                 └── first header is none ──► NotRpc ◄┘ (Slow again if the other direction is RPC)
//! ```
//!
//! *Fast* walks from mark to mark by length, also across a hole that lies inside a fragment of
//! known length. *Slow* is entered only when a mark may be lost (module `search`). Only the head of
//! a message is held, as far as the [`MessageSink`] wants it; bulk data passes by in chunks.

use lineside_account::{Budget, Counter, Counters, Lease};
use lineside_frame::{Chunk, Piece, Range};

use crate::message::LAST_FRAGMENT;
use crate::search::{HEAD, Search};

mod config;
mod delivery;
mod message;
mod slow;

pub use config::Config;
pub use delivery::{begins_message, finish, on_datagram};
pub use message::{ALL, Message, MessageSink, Want};
pub use slow::seen;

use delivery::{Chunks, Delivery, after, ask, fit, is_message, left_after, pieces, serve, xid};
pub(crate) use message::PIECE_BYTES;
use message::list_bytes;

/// One direction of a TCP connection.
#[derive(Debug)]
pub struct Records {
    config: Config,
    mode: Mode,
    /// The bytes of a mark that is not complete yet.
    mark: [u8; 4],
    mark_len: usize,
    fragment_left: usize,
    fragment_last: bool,
    /// Empty fragments with which the record at hand begins.
    empty_count: u32,
    /// Some message was accepted in this direction.
    proven: bool,
    /// The xid of the last one.
    last_xid: Option<u32>,
    message: Option<Open>,
    search: Option<Box<Search>>,
    /// Bytes that were seen and that no message covers.
    unread: u64,
    /// What is held, drawn on the memory budget.
    lease: Lease,
    leased: usize,
}

/// Bytes of a record mark.
const MARK: usize = 4;
/// Empty fragments before the bytes of a record: legal (RFC 5531 section 11), but zeros without end
/// are no record. A guess.
const EMPTY_MAX: u32 = 16;

/// Why a message is none.
struct NoMessage {
    /// All its bytes were there.
    whole: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Mode {
    #[default]
    Unknown,
    Fast,
    Slow,
    NotRpc,
}

/// A message that has begun.
#[derive(Debug)]
struct Open {
    message: Message,
    stage: Stage,
}

impl Open {
    fn is_too_long(&self) -> bool {
        matches!(self.stage, Stage::TooLong { .. })
    }
}

#[derive(Debug)]
enum Stage {
    Head {
        held: Vec<Range>,
        held_bytes: usize,
        need: usize,
        /// What came before was asked about: this is no beginning.
        goes_on: bool,
    },
    /// So many bytes are passed on.
    Data(u64),
    Rest,
    /// Its head was released before it showed what it is: the sink has not seen it.
    Unread,
    /// It states more than is allowed: once its head shows that it is a message, it is passed over.
    TooLong {
        head: [u8; HEAD - MARK],
        len: usize,
    },
}

impl Records {
    /// A direction of which nothing has come; what it will hold is drawn on `budget`.
    pub fn new(config: Config, budget: &Budget) -> Self {
        Self {
            config,
            mode: Mode::Unknown,
            mark: [0; 4],
            mark_len: 0,
            fragment_left: 0,
            fragment_last: false,
            empty_count: 0,
            proven: false,
            last_xid: None,
            message: None,
            search: None,
            unread: 0,
            lease: budget.lease(0).expect("nothing fits into any budget"),
            leased: 0,
        }
    }

    /// Takes the next bytes or the next hole. `after_syn`: they are the first of the connection.
    #[inline]
    pub fn on_stream<S: MessageSink>(
        &mut self,
        after_syn: bool,
        chunk: Chunk<'_>,
        sink: &mut S,
        counters: &mut Counters,
    ) {
        if self.mode == Mode::Unknown {
            self.mode = if after_syn { Mode::Fast } else { Mode::Slow };
        }
        match self.mode {
            Mode::Fast => {
                let passed = self.passes_by(&chunk, sink, counters);
                let len = match passed {
                    0 => self.whole_message(&chunk, sink, counters).unwrap_or(0),
                    passed => passed,
                };
                if len == chunk.len() {
                    return;
                }
                self.walk(chunk.from(len), sink, counters);
            }
            Mode::Slow => self.push_search(chunk, counters),
            Mode::Unknown | Mode::NotRpc => {
                self.unread += seen(&chunk);
                return;
            }
        }
        if self.mode == Mode::Slow {
            self.search(sink, counters);
        }
        if self.held_bytes() != self.leased {
            self.draw(sink, counters);
        }
    }

    /// Nothing shows yet that this is RPC.
    fn may_be_other(&self) -> bool {
        !self.proven && !self.config.certain
    }

    /// The other direction carries RPC, and so does this one, whatever it began with.
    pub fn revive(&mut self) {
        if self.mode == Mode::NotRpc {
            self.mode = Mode::Slow;
            (self.fragment_left, self.mark_len) = (0, 0);
        }
    }

    /// True once a message was accepted.
    pub fn is_rpc(&self) -> bool {
        self.proven
    }

    /// True if the next byte begins a record.
    pub fn is_between_records(&self) -> bool {
        self.mode == Mode::Fast
            && self.fragment_left == 0
            && self.mark_len == 0
            && self.message.is_none()
    }

    /// Copies what is held out of its blocks; returns how many ranges.
    pub fn spill(&mut self) -> usize {
        let searched = self.search.as_mut().map_or(0, |search| search.spill());
        let held = match &mut self.message {
            Some(Open {
                stage: Stage::Head { held, .. },
                ..
            }) => {
                let held = held.iter_mut();
                held.map(|range| usize::from(range.spill())).sum()
            }
            _ => 0,
        };
        searched + held
    }

    /// True if it holds ranges of frames.
    #[inline]
    pub fn holds(&self) -> bool {
        self.search.is_some()
            || matches!(&self.message, Some(Open { stage: Stage::Head { held, .. }, .. }) if !held.is_empty())
    }

    /// Fast mode, for bytes in the middle or at the end of a message whose head is read: nothing
    /// changes but how many are left. Returns how many they are.
    #[inline]
    fn passes_by<S: MessageSink>(
        &mut self,
        chunk: &Chunk<'_>,
        sink: &mut S,
        counters: &mut Counters,
    ) -> usize {
        let Some(open) = &mut self.message else {
            return 0;
        };
        let len = chunk.len().min(self.fragment_left);
        let ends = len == self.fragment_left;
        if len == 0 || chunk.missing().is_some() || ends && !self.fragment_last {
            return 0;
        }
        match &mut open.stage {
            Stage::Rest => {}
            Stage::Data(left) if *left > len as u64 => {
                sink.on_data(chunk.part(0, len), counters);
                *left = left_after(*left, len);
            }
            _ => return 0,
        }
        self.fragment_left -= len;
        open.message.touch(chunk);
        open.message.len += len;
        counters.add(Counter::RpcBytes, len as u64);
        if ends {
            sink.on_end(&open.message, counters);
            self.message = None;
        }
        len
    }

    /// Fast mode.
    fn walk<S: MessageSink>(
        &mut self,
        mut chunk: Chunk<'_>,
        sink: &mut S,
        counters: &mut Counters,
    ) {
        while !chunk.is_empty() {
            if self.fragment_left == 0 {
                if let Some(len) = self.whole_message(&chunk, sink, counters) {
                    chunk = chunk.from(len);
                    continue;
                }
                if chunk.missing().is_some() {
                    return self.lose(chunk, sink, counters);
                }
                if self.mark_len == 0 && self.message.is_none() {
                    self.begin(&chunk);
                } else {
                    self.touch(&chunk);
                }
                let Some(take) = self.read_mark(&chunk) else {
                    return;
                };
                if !self.accepts_mark(&chunk.from(take), counters) {
                    return match self.mode {
                        Mode::NotRpc => self.unread += seen(&chunk),
                        _ => self.lose(chunk, sink, counters),
                    };
                }
                counters.add(Counter::RpcBytes, 4);
                chunk = chunk.from(take);
                if self.fragment_left > 0 {
                    continue;
                }
            }
            let take = self.fragment_left.min(chunk.len());
            self.fragment_left -= take;
            let part = chunk.part(0, take);
            chunk = chunk.from(take);
            let done = self.fragment_left == 0 && self.fragment_last;
            if let Err(NoMessage { whole }) = self.message_bytes(part, done, sink, counters) {
                self.forget_message(&part, counters);
                if whole && self.may_be_other() {
                    // The first bytes of the connection are there and no RPC: it is something else.
                    self.mode = Mode::NotRpc;
                    self.unread += seen(&part) + seen(&chunk);
                    return;
                }
                // The next header may lie in what was taken for a part of this record.
                self.lose(part, sink, counters);
                return self.push_search(chunk, counters);
            }
        }
    }

    /// Reads a record mark, which may lie in several chunks. Returns its bytes in `chunk`; `None`:
    /// it is not complete.
    #[inline]
    fn read_mark(&mut self, chunk: &Chunk<'_>) -> Option<usize> {
        let (mark, take) = match chunk.bytes().first_chunk() {
            Some(&mark) if self.mark_len == 0 => (mark, 4),
            _ => {
                let take = (4 - self.mark_len).min(chunk.len());
                self.mark[self.mark_len..self.mark_len + take]
                    .copy_from_slice(&chunk.bytes()[..take]);
                self.mark_len += take;
                if self.mark_len < 4 {
                    return None;
                }
                self.mark_len = 0;
                (self.mark, take)
            }
        };
        let mark = u32::from_be_bytes(mark);
        self.fragment_left = (mark & !LAST_FRAGMENT) as usize;
        self.fragment_last = mark & LAST_FRAGMENT != 0;
        Some(take)
    }

    /// Whether the mark that was read last may be one; `head` follows it. If it shows that the
    /// stream is something else than RPC, the mode says so.
    #[inline]
    fn accepts_mark(&mut self, head: &Chunk<'_>, counters: &mut Counters) -> bool {
        let len = self.fragment_left;
        // No byte of its record has come.
        let begun = self.message.as_ref();
        let is_first = begun.is_none_or(|open| open.message.len == 0);
        // An empty fragment is legal as the end of a record that has begun (RFC 5531 section 11),
        // and before its bytes.
        self.empty_count = match len == 0 && is_first {
            true => self.empty_count + 1,
            false => 0,
        };
        let is_empty = self.empty_count > 0 && self.fragment_last || self.empty_count > EMPTY_MAX;
        let is_long = len > self.config.record_max_bytes;
        if !is_long && !is_empty {
            return true;
        }
        // Whether a first fragment is one after all, what follows the mark decides, whenever it
        // comes; of a later one, its length decides: a wildly wrong one shows that the walk has
        // gone astray.
        let may_be_long = is_long && self.config.may_be_long(len);
        if let Some(open) = self.message.as_mut().filter(|_| may_be_long && is_first) {
            open.stage = Stage::TooLong {
                head: [0; HEAD - MARK],
                len: 0,
            };
            return true;
        }
        self.fragment_left = 0;
        counters.add(Counter::RecordLimit, may_be_long.into());
        let is_record = is_long && is_message(&[head.piece()], self.config.any_program);
        if is_first && !is_record && self.may_be_other() {
            self.message = None;
            self.mode = Mode::NotRpc;
        }
        false
    }

    /// The message with which `chunk` begins, if the chunk has all of it, as is the rule for all
    /// but READ and WRITE: nothing of it is kept. Returns its bytes, the mark included; `None`: it
    /// is no such message, and nothing has changed.
    #[inline]
    fn whole_message<S: MessageSink>(
        &mut self,
        chunk: &Chunk<'_>,
        sink: &mut S,
        counters: &mut Counters,
    ) -> Option<usize> {
        let mark = u32::from_be_bytes(*chunk.bytes().first_chunk()?);
        let len = mark.checked_sub(LAST_FRAGMENT)? as usize;
        let end = MARK + len;
        let begins = self.proven && self.fragment_left == 0 && self.message.is_none();
        if !begins || len == 0 || end > chunk.len() || len > self.config.record_max_bytes {
            return None;
        }
        let part = chunk.part(MARK, len);
        let message = Message {
            len,
            ..Message::begin(chunk)
        };
        let head = [part.piece()];
        let want = sink.on_head(&message, &head, true, counters);
        if want != Want::End
            && let Delivery::Refused = serve(want, &message, &[part], true, sink, counters)
        {
            return None;
        }
        let xid = part.bytes().first_chunk().copied();
        self.last_xid = xid.map(u32::from_be_bytes).or(self.last_xid);
        sink.on_end(&message, counters);
        counters.add(Counter::RpcBytes, end as u64);
        Some(end)
    }

    fn begin(&mut self, chunk: &Chunk<'_>) {
        self.message = Some(Open {
            message: Message::begin(chunk),
            stage: Stage::Head {
                held: Vec::new(),
                held_bytes: 0,
                need: HEAD - 4,
                goes_on: false,
            },
        });
    }

    fn touch(&mut self, chunk: &Chunk<'_>) {
        if let Some(open) = &mut self.message {
            open.message.touch(chunk);
        }
    }

    /// Takes bytes of the message.
    #[inline]
    fn message_bytes<S: MessageSink>(
        &mut self,
        part: Chunk<'_>,
        done: bool,
        sink: &mut S,
        counters: &mut Counters,
    ) -> Result<(), NoMessage> {
        self.touch(&part);
        let Some(open) = &mut self.message else {
            return Err(NoMessage { whole: false });
        };
        open.message.len += part.len();
        if part.missing().is_some() {
            open.message.missing += part.len();
        }
        if let Stage::TooLong { head, len } = &mut open.stage {
            let is_known = *len == head.len();
            let take = part.bytes().len().min(head.len() - *len);
            head[*len..*len + take].copy_from_slice(&part.bytes()[..take]);
            *len += take;
            if !is_known && (*len == head.len() || part.missing().is_some()) {
                let head = Piece::bytes(&head[..*len]);
                if !is_message(&[head], self.config.any_program) {
                    let whole = open.message.missing == 0;
                    return Err(NoMessage { whole });
                }
                counters.count(Counter::RecordLimit);
                self.proven = true;
            }
            if done {
                self.message = None;
            }
            return Ok(());
        }
        if part.missing().is_none() {
            counters.add(Counter::RpcBytes, part.len() as u64);
        }
        let mut part = part;
        if let Stage::Data(left) = &mut open.stage {
            let take = fit(*left, part.len());
            if take > 0 {
                sink.on_data(part.part(0, take), counters);
            }
            part = part.from(take);
            *left = left_after(*left, take);
            if *left == 0 {
                open.stage = Stage::Head {
                    held: Vec::new(),
                    held_bytes: 0,
                    need: 1,
                    goes_on: true,
                };
            }
        }
        if !self.head_bytes(part, done, sink, counters)? {
            return Ok(());
        }
        if done {
            self.end_message(sink, counters);
        }
        Ok(())
    }

    /// Takes bytes of the message's head, and asks the sink when enough have come; false: they are
    /// held until then.
    #[inline]
    fn head_bytes<S: MessageSink>(
        &mut self,
        part: Chunk<'_>,
        done: bool,
        sink: &mut S,
        counters: &mut Counters,
    ) -> Result<bool, NoMessage> {
        let Some(Open { message, stage }) = &mut self.message else {
            return Err(NoMessage { whole: false });
        };
        let Stage::Head {
            held,
            held_bytes,
            need,
            goes_on,
        } = stage
        else {
            return Ok(true);
        };
        let len = *held_bytes + part.len();
        let full = len > self.config.message_held_max_bytes;
        if len < *need && !done && !full {
            if !part.is_empty() {
                if held.capacity() == 0 {
                    *held = sink.spare();
                }
                held.push(part.hold());
                *held_bytes = len;
            }
            return Ok(false);
        }
        counters.add(Counter::MessageLimit, u64::from(full && !done));
        let (whole, goes_on) = (message.missing == 0, *goes_on);
        let mut held = std::mem::take(held);
        let asked = {
            // Nearly always all of it lies in one frame.
            let (alone, chain): (_, Chunks<'_>);
            let chunks = if held.is_empty() {
                alone = [part];
                &alone[..]
            } else {
                chain = held.iter().map(Range::chunk).chain([part]).collect();
                &chain[..]
            };
            if !goes_on {
                if !self.proven && !is_message(&pieces(chunks, 0), self.config.any_program) {
                    return Err(NoMessage { whole });
                }
                self.last_xid = xid(chunks).or(self.last_xid);
            }
            ask(message, chunks, done || full, sink, counters)
        };
        *stage = match asked {
            Delivery::Refused => return Err(NoMessage { whole }),
            Delivery::Data(left) => Stage::Data(left),
            Delivery::More { from, need } => Stage::Head {
                held: hold_rest(&mut held, part, from, sink),
                held_bytes: len - from,
                need: need.max(len - from + 1),
                goes_on: goes_on || from > 0,
            },
            Delivery::Rest => Stage::Rest,
        };
        if held.capacity() > 0 {
            sink.recycle(held);
        }
        self.proven = true;
        Ok(true)
    }

    #[inline]
    fn end_message<S: MessageSink>(&mut self, sink: &mut S, counters: &mut Counters) {
        if let Some(open) = &self.message
            && !matches!(open.stage, Stage::Head { .. } | Stage::Unread)
        {
            sink.on_end(&open.message, counters);
        }
        self.message = None;
    }

    /// Ends a message whose rest was lost: what came of it is still good.
    fn cut_message<S: MessageSink>(&mut self, sink: &mut S, counters: &mut Counters) {
        let Some(mut open) = self.message.take() else {
            return;
        };
        (open.message.ended, open.message.cut) = (false, true);
        if matches!(open.stage, Stage::Unread | Stage::TooLong { .. }) {
            return;
        }
        if let Stage::Head { held, .. } = &open.stage {
            let chunks: Chunks<'_> = held.iter().map(Range::chunk).collect();
            if open.message.len < 8
                || !(self.proven || is_message(&pieces(&chunks, 0), self.config.any_program))
                || matches!(
                    ask(&open.message, &chunks, true, sink, counters),
                    Delivery::Refused
                )
            {
                let taken = (open.message.len - open.message.missing) as u64;
                counters.subtract(Counter::RpcBytes, taken);
                self.unread += taken;
                return;
            }
            self.proven = true;
        }
        sink.on_end(&open.message, counters);
    }

    /// What is held, and what holding it takes: many small parts take more than their bytes.
    #[inline]
    fn held_bytes(&self) -> usize {
        let searched = self
            .search
            .as_ref()
            .map_or(0, |search| search.memory_bytes());
        let head = match &self.message {
            Some(Open {
                stage: Stage::Head {
                    held, held_bytes, ..
                },
                ..
            }) => held_bytes + list_bytes(held),
            _ => 0,
        };
        searched + head
    }

    /// Draws what is held on the budget; what does not fit is decided or cut at once.
    fn draw<S: MessageSink>(&mut self, sink: &mut S, counters: &mut Counters) {
        loop {
            let held = self.held_bytes();
            if self.lease.resize_as(sink.claim(), held) {
                self.leased = held;
                return;
            }
            counters.count(Counter::HeldLimit);
            match &self.search {
                Some(search) if search.has_candidates() => self.decide(sink, counters),
                Some(_) => return,
                None => self.release_head(sink, counters),
            }
        }
    }

    /// Has a message read as far as it has come; the rest of it passes by.
    fn release_head<S: MessageSink>(&mut self, sink: &mut S, counters: &mut Counters) {
        let Some(open) = &mut self.message else {
            return;
        };
        let Stage::Head { held, .. } = &mut open.stage else {
            return;
        };
        let held = std::mem::take(held);
        open.stage = Stage::Unread;
        let chunks: Chunks<'_> = held.iter().map(Range::chunk).collect();
        if open.message.len < 8
            || !(self.proven || is_message(&pieces(&chunks, 0), self.config.any_program))
        {
            return;
        }
        open.stage = match ask(&open.message, &chunks, true, sink, counters) {
            Delivery::Refused => return,
            Delivery::Data(left) => Stage::Data(left),
            Delivery::More { .. } | Delivery::Rest => Stage::Rest,
        };
        self.proven = true;
    }
}

/// The ranges that hold a head from byte `from` on, of which `held` and `part` have come.
fn hold_rest<S: MessageSink>(
    held: &mut Vec<Range>,
    part: Chunk<'_>,
    from: usize,
    sink: &mut S,
) -> Vec<Range> {
    if from > 0 {
        let mut rest = sink.spare();
        let chunks = held.iter().map(Range::chunk).chain([part]);
        rest.extend(after(chunks, from).map(|chunk| chunk.hold()));
        return rest;
    }
    let mut rest = std::mem::take(held);
    if rest.capacity() == 0 {
        rest = sink.spare();
    }
    rest.push(part.hold());
    rest
}
