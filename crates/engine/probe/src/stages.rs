//! What a probe does, one thing at a time: echoes, trains, sizes, and asking for lists.
//!
//! A stage is given the time and what comes, and says what to send: `transmit` until it has
//! nothing, then again at `due_ns` or when something came. Each has a number, which all its
//! datagrams carry, so that what comes late from another one changes nothing.

use lineside_time::{Nanoseconds, Random};

use crate::message::{ARRIVALS_IN_DATAGRAM, Arrivals, Head, LEN_MIN, Message};
use crate::plan::Shape;
use crate::server::PARTS;
use crate::settings::Settings;
use crate::train::Passed;
use crate::ways::{Answered, Echoes, Sent};

/// A way between client and server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the client to the server.
    Out,
    /// From the server to the client.
    Back,
}

/// What all stages share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) settings: Settings,
    pub(crate) session: u64,
    pub(crate) stage: u16,
    /// The round trip that was seen first.
    pub(crate) trip_ns: i64,
    /// Bytes of IP packets that were sent, and those that came or were asked for.
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) random: Random,
}

impl Core {
    /// Writes a datagram of this stage, unless that would exceed the budget.
    pub(crate) fn emit(
        &mut self,
        now: Nanoseconds,
        number: u32,
        message: Message<'_>,
        len: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let head = Head {
            stage: self.stage,
            session: self.session,
            number,
            sent_ns: now,
        };
        let len = message.emit(&head, len.max(LEN_MIN), out) as u64;
        let packet = len + u64::from(self.settings.ip_header_bytes);
        let has_room = packet <= self.left_bytes();
        self.sent_bytes += if has_room { packet } else { 0 };
        has_room
    }

    pub(crate) fn left_bytes(&self) -> u64 {
        let spent = self.sent_bytes + self.received_bytes;
        self.settings.budget_bytes.saturating_sub(spent)
    }

    /// Not even a short packet may be sent any more.
    pub(crate) fn is_spent(&self) -> bool {
        self.left_bytes() < (LEN_MIN as u64) + u64::from(self.settings.ip_header_bytes)
    }

    /// How long an answer may take before it is asked for again.
    fn patience_ns(&self) -> i64 {
        4 * self.trip_ns + 100_000_000
    }
}

/// Asks for the list of what came to the server in a stage, until all of it is there.
#[derive(Debug, Default)]
pub(crate) struct Collect {
    known: Vec<Option<(u32, Nanoseconds)>>,
    is_total_known: bool,
    asked_from: usize,
    tries: u32,
    due_ns: Nanoseconds,
    pub(crate) is_over: bool,
    /// The server does not answer any more.
    pub(crate) has_failed: bool,
}

/// Questions without an answer, each twice as long after the one before, until the server counts as
/// gone: 25 s and more.
const TRIES_MAX: u32 = 8;

impl Collect {
    fn transmit(&mut self, now: Nanoseconds, core: &mut Core, out: &mut Vec<u8>) -> bool {
        if self.is_over || now < self.due_ns {
            return false;
        }
        if self.tries >= TRIES_MAX {
            (self.is_over, self.has_failed) = (true, true);
            return false;
        }
        let missing = self.known.iter().position(Option::is_none);
        self.asked_from = missing.unwrap_or(self.known.len());
        self.due_ns = now + (core.patience_ns() << self.tries.min(5));
        self.tries += 1;
        let from = self.asked_from as u32;
        let is_sent = core.emit(now, 0, Message::Ask { from }, LEN_MIN, out);
        (self.is_over, self.has_failed) = (!is_sent, !is_sent);
        is_sent
    }

    fn on_arrivals(&mut self, now: Nanoseconds, part: Arrivals<'_>) {
        let total = part.total as usize;
        if total > crate::server::ARRIVALS_MAX {
            return;
        }
        self.is_total_known = true;
        if self.known.len() < total {
            self.known.resize(total, None);
        }
        let mut last = part.from as usize;
        for entry in part.iter() {
            if let Some(known) = self.known.get_mut(last) {
                *known = Some(entry);
            }
            last += 1;
        }
        self.is_over = self.known.iter().all(Option::is_some);
        if last == (self.asked_from + PARTS * ARRIVALS_IN_DATAGRAM).min(total) {
            // All that was asked for has come, or was lost.
            (self.due_ns, self.tries) = (now, 0);
        }
    }

    fn list(&self) -> Vec<(u32, Nanoseconds)> {
        self.known.iter().flatten().copied().collect()
    }
}

/// Echoes at an even pace, with or without a load beside them.
#[derive(Debug)]
pub(crate) struct EchoStage {
    plan: EchoPlan,
    pub(crate) echoes: Echoes,
    answered: u32,
    begin_ns: Nanoseconds,
    due_ns: Nanoseconds,
    /// When answers are not waited for any longer.
    end_ns: Nanoseconds,
    pub(crate) collect: Collect,
    load: Option<Load>,
    pub(crate) is_over: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct EchoPlan {
    pub(crate) count: u32,
    pub(crate) interval_ns: i64,
    /// Datagrams of most, and of each eighth.
    pub(crate) lens: [u32; 2],
    pub(crate) patience_ns: i64,
}

/// Fillers beside echoes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) direction: Direction,
    pub(crate) count: u32,
    pub(crate) len: u32,
    pub(crate) gap_ns: i64,
    pub(crate) sent: u32,
    pub(crate) due_ns: Nanoseconds,
}

/// One echo in this many is long.
pub(crate) const LONG_EACH: u32 = 8;
/// Fillers have other numbers than echoes.
const FILLERS_FROM: u32 = 1 << 31;

impl EchoStage {
    pub(crate) fn new(now: Nanoseconds, plan: EchoPlan, load: Option<Load>) -> Self {
        Self {
            plan,
            echoes: Echoes::default(),
            answered: 0,
            begin_ns: now,
            due_ns: now,
            end_ns: Nanoseconds::MAX,
            collect: Collect::default(),
            load,
            is_over: false,
        }
    }

    fn is_sending(&self) -> bool {
        (self.echoes.sent.len() as u32) < self.plan.count
    }

    pub(crate) fn transmit(
        &mut self,
        now: Nanoseconds,
        core: &mut Core,
        out: &mut Vec<u8>,
    ) -> bool {
        if self.is_sending() && now >= self.due_ns {
            return self.echo(now, core, out);
        }
        if let Some(load) = &mut self.load
            && load.sent < load.count
            && now >= load.due_ns
        {
            return load.transmit(now, core, out);
        }
        let is_waiting = self.answered < self.plan.count && now < self.end_ns;
        if self.is_sending() || is_waiting {
            return false;
        }
        if self.load.is_some() {
            // What waits in queues is gone by now, and what each datagram met is known.
            self.is_over = true;
            return false;
        }
        let is_sent = self.collect.transmit(now, core, out);
        self.is_over = self.collect.is_over;
        is_sent
    }

    fn echo(&mut self, now: Nanoseconds, core: &mut Core, out: &mut Vec<u8>) -> bool {
        let number = self.echoes.sent.len() as u32;
        let is_long = number % LONG_EACH == LONG_EACH - 1;
        let len = self.plan.lens[usize::from(is_long)];
        let answer_len = len as u16;
        let packet = u64::from(len + core.settings.ip_header_bytes);
        let has_room = 2 * packet <= core.left_bytes();
        if !has_room || !core.emit(now, number, Message::Echo { answer_len }, len as usize, out) {
            self.plan.count = number;
            return false;
        }
        core.received_bytes += packet;
        self.echoes.sent.push(Sent { at_ns: now, len });
        // An even pace that nothing periodic on the way falls in with.
        let jitter_ns = core.random.below(self.plan.interval_ns as u64 / 4) as i64;
        self.due_ns = self.begin_ns + i64::from(number + 1) * self.plan.interval_ns + jitter_ns;
        if !self.is_sending() {
            self.end_ns = now + self.plan.patience_ns;
        }
        true
    }

    pub(crate) fn on_message(&mut self, at_ns: Nanoseconds, head: Head, message: Message<'_>) {
        match message {
            Message::Echoed { index, .. } => {
                let is_known = (head.number as usize) < self.echoes.sent.len();
                // Duplicates of answers are kept, and bounded.
                if is_known && self.echoes.answers.len() < 4 * self.plan.count as usize {
                    self.echoes.answers.push(Answered {
                        number: head.number,
                        index,
                        left_ns: head.sent_ns,
                        at_ns,
                    });
                    self.answered += 1;
                }
            }
            Message::Arrivals(part) => self.collect.on_arrivals(at_ns, part),
            _ => {}
        }
    }

    pub(crate) fn due_ns(&self) -> Nanoseconds {
        let mut due_ns = Nanoseconds::MAX;
        if let Some(load) = self.load.filter(|load| load.sent < load.count) {
            due_ns = load.due_ns;
        }
        match () {
            () if self.is_sending() => due_ns.min(self.due_ns),
            () if self.answered < self.plan.count && self.collect.tries == 0 => {
                due_ns.min(self.end_ns)
            }
            () => due_ns.min(self.collect.due_ns),
        }
    }

    /// The load beside the echoes.
    pub(crate) fn load(&self) -> Option<Load> {
        self.load
    }

    /// What both ends saw.
    pub(crate) fn into_echoes(mut self) -> Echoes {
        self.echoes.arrivals = self.collect.list();
        self.echoes
    }
}

impl Load {
    fn transmit(&mut self, now: Nanoseconds, core: &mut Core, out: &mut Vec<u8>) -> bool {
        let packet = u64::from(self.len + core.settings.ip_header_bytes);
        let number = FILLERS_FROM + self.sent;
        match self.direction {
            Direction::Out => {
                self.sent += 1;
                self.due_ns += self.gap_ns;
                core.emit(now, number, Message::Filler, self.len as usize, out)
            }
            Direction::Back => {
                let wanted = Message::Wanted {
                    count: self.count,
                    len: self.len as u16,
                    burst: 0,
                    gap_ns: u32::try_from(self.gap_ns).unwrap_or(u32::MAX),
                };
                core.received_bytes += packet * u64::from(self.count);
                self.sent = self.count;
                core.emit(now, number, wanted, LEN_MIN, out)
            }
        }
    }
}

/// A train, and which of its packets came when.
#[derive(Debug)]
pub(crate) struct TrainStage {
    pub(crate) direction: Direction,
    shape: Shape,
    len: u32,
    sent_ns: Vec<Nanoseconds>,
    passed: Vec<Passed>,
    collect: Collect,
    due_ns: Nanoseconds,
    tries: u32,
    largest_gap_ns: i64,
    pub(crate) is_over: bool,
}

impl TrainStage {
    pub(crate) fn new(now: Nanoseconds, direction: Direction, shape: Shape, len: u32) -> Self {
        Self {
            direction,
            shape,
            len,
            sent_ns: Vec::with_capacity(shape.count as usize),
            passed: Vec::with_capacity(shape.count as usize),
            collect: Collect::default(),
            due_ns: now,
            tries: 0,
            largest_gap_ns: 0,
            is_over: false,
        }
    }

    pub(crate) fn transmit(
        &mut self,
        now: Nanoseconds,
        core: &mut Core,
        out: &mut Vec<u8>,
    ) -> bool {
        match self.direction {
            Direction::Out if (self.sent_ns.len() as u32) < self.shape.count => {
                if now < self.due_ns {
                    return false;
                }
                let number = self.sent_ns.len() as u32;
                let len = self.len as usize;
                if !core.emit(now, number, Message::Filler, len, out) {
                    self.shape.count = number;
                    return false;
                }
                self.sent_ns.push(now);
                self.due_ns = match self.shape.due_ns(number + 1, self.due_ns) {
                    due_ns if due_ns == self.due_ns => now,
                    due_ns => due_ns,
                };
                true
            }
            Direction::Out => {
                let is_sent = self.collect.transmit(now, core, out);
                self.is_over = self.collect.is_over;
                is_sent
            }
            Direction::Back => self.ask(now, core, out),
        }
    }

    fn ask(&mut self, now: Nanoseconds, core: &mut Core, out: &mut Vec<u8>) -> bool {
        if now < self.due_ns {
            return false;
        }
        if !self.passed.is_empty() || self.tries >= TRIES_MAX / 2 {
            self.is_over = true;
            return false;
        }
        let packet = u64::from(self.len + core.settings.ip_header_bytes);
        if self.tries == 0 {
            core.received_bytes += packet * u64::from(self.shape.count);
        }
        self.due_ns = now + (core.patience_ns() << self.tries);
        self.tries += 1;
        let wanted = Message::Wanted {
            count: self.shape.count,
            len: self.len as u16,
            burst: self.shape.burst,
            gap_ns: self.shape.gap_ns,
        };
        let is_sent = core.emit(now, 0, wanted, LEN_MIN, out);
        self.is_over = !is_sent;
        is_sent
    }

    pub(crate) fn on_message(
        &mut self,
        at_ns: Nanoseconds,
        head: Head,
        message: Message<'_>,
        core: &Core,
    ) {
        match message {
            Message::Arrivals(part) => {
                self.collect.on_arrivals(at_ns, part);
                self.is_over |= self.collect.is_over;
            }
            Message::Filler if self.direction == Direction::Back => {
                let has_room = (self.passed.len() as u32) < self.shape.count;
                if has_room && head.number < self.shape.count {
                    let before_ns = self.passed.last().map_or(at_ns, |packet| packet.at_ns);
                    self.largest_gap_ns = self.largest_gap_ns.max(at_ns - before_ns);
                    self.passed.push(self.passed(head.sent_ns, at_ns, core));
                }
                self.is_over = self.passed.len() as u32 == self.shape.count;
                // So long after the last one no further one is waited for: a slow path has gaps.
                self.due_ns = at_ns + 100_000_000 + core.trip_ns + 4 * self.largest_gap_ns;
            }
            _ => {}
        }
    }

    fn passed(&self, sent_ns: Nanoseconds, at_ns: Nanoseconds, core: &Core) -> Passed {
        Passed {
            sent_ns,
            at_ns,
            bytes: self.len + core.settings.frame_header_bytes(),
        }
    }

    pub(crate) fn due_ns(&self) -> Nanoseconds {
        match self.direction {
            Direction::Out if (self.sent_ns.len() as u32) < self.shape.count => self.due_ns,
            Direction::Out => self.collect.due_ns,
            Direction::Back => self.due_ns,
        }
    }

    /// The server does not answer any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.collect.has_failed
    }

    /// The packets that came, and how many there were.
    pub(crate) fn into_passed(mut self, core: &Core) -> (Vec<Passed>, u32) {
        for (number, at_ns) in self.collect.list() {
            if let Some(&sent_ns) = self.sent_ns.get(number as usize) {
                self.passed.push(self.passed(sent_ns, at_ns, core));
            }
        }
        (self.passed, self.shape.count)
    }
}

/// The search for the longest packet that passes.
#[derive(Debug)]
pub(crate) struct SizeStage {
    pub(crate) direction: Direction,
    /// The longest IP packet that passed.
    pub(crate) passes: u32,
    /// The shortest one that did not.
    fails: u32,
    trial: u32,
    tries: u32,
    due_ns: Nanoseconds,
    pub(crate) is_over: bool,
}

/// Lengths that are tried first: those of Ethernet, and of Ethernet with long frames.
const GUESSES: [u32; 4] = [1500, 1501, 9000, 9001];
/// How often one that does not pass is tried: it may have been lost.
const SIZE_TRIES: u32 = 5;

impl SizeStage {
    pub(crate) fn new(now: Nanoseconds, direction: Direction, core: &Core) -> Self {
        let mut size = Self {
            direction,
            passes: LEN_MIN as u32 + core.settings.ip_header_bytes,
            fails: 65_536,
            trial: 0,
            tries: 0,
            due_ns: now,
            is_over: false,
        };
        size.choose(now);
        size
    }

    fn choose(&mut self, now: Nanoseconds) {
        let between = |&&guess: &&u32| self.passes < guess && guess < self.fails;
        let guess = GUESSES.iter().find(between).copied();
        self.trial = guess.unwrap_or_else(|| self.passes.midpoint(self.fails));
        self.tries = 0;
        self.due_ns = now;
        self.is_over = self.fails - self.passes <= 1;
    }

    pub(crate) fn transmit(
        &mut self,
        now: Nanoseconds,
        core: &mut Core,
        out: &mut Vec<u8>,
    ) -> bool {
        if self.is_over || now < self.due_ns {
            return false;
        }
        if self.tries >= SIZE_TRIES {
            self.on_too_long(now);
            return false;
        }
        // A train of each stage is sent once.
        core.stage += 1;
        self.tries += 1;
        self.due_ns = now + core.patience_ns();
        let len = self.trial - core.settings.ip_header_bytes;
        let is_sent = match self.direction {
            Direction::Out => {
                let answer_len = LEN_MIN as u16;
                let echo = Message::Echo { answer_len };
                core.emit(now, self.trial, echo, len as usize, out)
            }
            Direction::Back => {
                core.received_bytes += u64::from(self.trial);
                let wanted = Message::Wanted {
                    count: 1,
                    len: len as u16,
                    burst: 1,
                    gap_ns: 0,
                };
                core.emit(now, self.trial, wanted, LEN_MIN, out)
            }
        };
        self.is_over = !is_sent;
        is_sent
    }

    /// The one that was tried does not pass.
    pub(crate) fn on_too_long(&mut self, now: Nanoseconds) {
        self.fails = self.trial;
        self.choose(now);
    }

    pub(crate) fn on_message(
        &mut self,
        now: Nanoseconds,
        head: Head,
        message: Message<'_>,
        len: usize,
        core: &Core,
    ) {
        let has_passed = match (self.direction, message) {
            (Direction::Out, Message::Echoed { .. }) => head.number == self.trial,
            (Direction::Back, Message::Filler) => {
                len as u32 + core.settings.ip_header_bytes == self.trial
            }
            _ => false,
        };
        if has_passed {
            self.passes = self.trial;
            self.choose(now);
        }
    }

    pub(crate) fn due_ns(&self) -> Nanoseconds {
        self.due_ns
    }
}
