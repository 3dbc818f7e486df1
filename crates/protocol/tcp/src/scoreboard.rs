//! What is in flight, in runs: when it was sent, whether the receiver has it, whether it is lost.
//! RFC 2018, 4 and RFC 8985, 6.1, with one entry for bytes that share all of that.
//!
//! ```text
//!  snd_una ├── sent at 3 ──┼─ receiver has it ─┼─ lost ─┼── sent at 7, the last run ──┤ snd_nxt
//! ```
//!
//! * The last run is no entry of the list: data that left at once, such as a call, need no list.
//! * New data that leave within a small part of the round trip join the last run, so that a list is
//!   short whatever the window. They count as sent with the last of them.
//! * A list is bounded and drawn on the budget. Without room for another run, a report of the
//!   receiver is ignored, and new data join the last run, whatever that was.

use lineside_time::Nanoseconds;
use lineside_wire::SeqNumber;

use crate::lists::Lists;

/// Runs of a connection beside its last one: 64 holes of late data, and as many times at which
/// data were sent, several times over.
const RUNS_MAX: usize = 512;

/// Bytes from the end of the run before on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    end: SeqNumber,
    /// The receiver has it.
    has: bool,
    /// It is to be sent again.
    is_lost: bool,
    /// It was sent again.
    is_again: bool,
    sent_at: Nanoseconds,
}

const _: () = assert!(size_of::<Run>() == 16);

impl Run {
    fn new(end: SeqNumber, sent_at: Nanoseconds) -> Self {
        Self {
            end,
            has: false,
            is_lost: false,
            is_again: false,
            sent_at,
        }
    }

    /// Whether it can be joined with a neighbour: both have the same state.
    fn is_like(&self, other: &Self) -> bool {
        self.has && other.has
            || !self.has
                && !other.has
                && Self {
                    end: other.end,
                    ..*self
                } == *other
    }
}

/// A run, or a part of one, that has arrived: when it was sent, and where it ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrived {
    pub(crate) end: SeqNumber,
    pub(crate) sent_at: Nanoseconds,
    pub(crate) is_again: bool,
    pub(crate) bytes: u32,
}

/// All bytes in flight.
#[derive(Debug)]
pub(crate) struct Scoreboard {
    runs: Vec<Run>,
    last: Run,
    /// Where the first run begins.
    una: SeqNumber,
    /// Bytes that the receiver has, and bytes that are lost.
    has: u32,
    lost: u32,
    /// Nothing beyond this number was sent again.
    again: SeqNumber,
    /// More counts as sent again than was, for want of room.
    is_coarse: bool,
}

impl Default for Scoreboard {
    fn default() -> Self {
        Self {
            runs: Vec::new(),
            last: Run::new(SeqNumber(0), 0),
            una: SeqNumber(0),
            has: 0,
            lost: 0,
            again: SeqNumber(0),
            is_coarse: false,
        }
    }
}

impl Scoreboard {
    /// Nothing is in flight: `next` is the next byte.
    pub(crate) fn begin(&mut self, next: SeqNumber) {
        self.runs.clear();
        self.last = Run::new(next, 0);
        (self.una, self.again) = (next, next);
        (self.has, self.lost, self.is_coarse) = (0, 0, false);
    }

    /// The list, to be given back when nothing is in flight.
    pub(crate) fn list(&mut self) -> &mut Vec<Run> {
        &mut self.runs
    }

    /// Bytes that the receiver has.
    pub(crate) fn arrived(&self) -> u32 {
        self.has
    }

    /// Whether some are to be sent again.
    #[inline]
    pub(crate) fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Bytes that are on their way: RFC 6675, 4, SetPipe.
    pub(crate) fn pipe(&self) -> u32 {
        self.last.end.bytes_from(self.una) - self.has - self.lost
    }

    /// Whether what is in flight was sent once, in its order, no earlier than at `sent_at`, and
    /// nothing of it has arrived.
    pub(crate) fn is_plain(&self, sent_at: Nanoseconds) -> bool {
        let is_once = !self.again.is_after(self.una);
        self.has == 0 && self.lost == 0 && is_once && self.run(0).sent_at >= sent_at
    }

    fn run(&self, at: usize) -> &Run {
        self.runs.get(at).unwrap_or(&self.last)
    }

    fn run_mut(&mut self, at: usize) -> &mut Run {
        self.runs.get_mut(at).unwrap_or(&mut self.last)
    }

    /// Where a run begins.
    fn start(&self, at: usize) -> SeqNumber {
        match at.checked_sub(1) {
            None => self.una,
            Some(before) => self.runs[before].end,
        }
    }

    fn len(&self, at: usize) -> u32 {
        self.run(at).end.bytes_from(self.start(at))
    }

    /// The run in which `number` lies.
    fn find(&self, number: SeqNumber) -> usize {
        self.runs.partition_point(|run| !run.end.is_after(number))
    }

    /// Makes a run begin at `number`; `None` if there is no room for it.
    fn split(&mut self, number: SeqNumber, lists: &mut Lists<Run>) -> Option<usize> {
        let at = self.find(number);
        if self.start(at) == number {
            return Some(at);
        }
        if self.runs.len() == RUNS_MAX || !lists.has_room(&mut self.runs) {
            return None;
        }
        let front = Run {
            end: number,
            ..*self.run(at)
        };
        self.runs.insert(at, front);
        Some(at + 1)
    }

    /// Joins a run with those of its neighbours that have the same state.
    fn join(&mut self, mut at: usize) {
        if at > 0 && self.runs[at - 1].is_like(self.run(at)) {
            at -= 1;
            self.runs.remove(at);
        }
        if at < self.runs.len() && self.runs[at].is_like(self.run(at + 1)) {
            self.runs.remove(at);
        }
    }

    /// New bytes leave, up to `end`. `unit` is the binary logarithm of the time, in nanoseconds,
    /// within which data count as sent at once.
    pub(crate) fn send(
        &mut self,
        (start, end): (SeqNumber, SeqNumber),
        now: Nanoseconds,
        unit: u32,
        lists: &mut Lists<Run>,
    ) {
        if self.last.end == self.una {
            self.begin(start);
            self.last = Run::new(end, now);
            return;
        }
        let last = self.last;
        let is_new = last != Run::new(last.end, last.sent_at);
        if !is_new && (last.sent_at ^ now) >> unit == 0 {
            (self.last.end, self.last.sent_at) = (end, now);
            return;
        }
        if self.runs.len() < RUNS_MAX && lists.has_room(&mut self.runs) {
            self.runs.push(last);
            self.last = Run::new(end, now);
            return;
        }
        let len = self.len(self.runs.len());
        self.has -= if last.has { len } else { 0 };
        self.lost -= if last.is_lost { len } else { 0 };
        self.last = Run::new(end, now);
        self.last.is_again = last.is_again;
    }

    /// Everything before `to` is acknowledged; `see` is given what was not known to have arrived.
    #[inline]
    pub(crate) fn acknowledge(&mut self, to: SeqNumber, mut see: impl FnMut(Arrived)) {
        if self.runs.is_empty() && to == self.last.end {
            let bytes = to.bytes_from(self.una);
            if !self.last.has && bytes > 0 {
                see(self.last.arrived(to, bytes));
            }
            self.begin(to);
            return;
        }
        self.acknowledge_part(to, see);
    }

    fn acknowledge_part(&mut self, to: SeqNumber, mut see: impl FnMut(Arrived)) {
        let mut passed = 0;
        loop {
            let run = *self.run(passed);
            let end = earlier(run.end, to);
            let bytes = end.distance_from(self.una).max(0).cast_unsigned();
            match (run.has, run.is_lost) {
                (true, _) => self.has -= bytes,
                (_, true) => self.lost -= bytes,
                _ => {}
            }
            if !run.has && bytes > 0 {
                see(run.arrived(end, bytes));
            }
            self.una = later(self.una, end);
            if run.end.is_after(to) || passed == self.runs.len() {
                break;
            }
            passed += 1;
        }
        self.runs.drain(..passed);
        if self.una == self.last.end {
            self.begin(self.una);
        } else if self.is_coarse {
            self.is_coarse = false;
            self.lose_all();
        }
    }

    /// The receiver has `from..to`, which lies within what is in flight; `see` is given what it was
    /// not known to have. Returns whether there was any.
    pub(crate) fn arrive(
        &mut self,
        (from, to): (SeqNumber, SeqNumber),
        lists: &mut Lists<Run>,
        mut see: impl FnMut(Arrived),
    ) -> bool {
        let mut start = from;
        let mut is_news = false;
        while start.is_before(to) {
            let at = self.find(start);
            let run = *self.run(at);
            let end = earlier(run.end, to);
            if !run.has {
                let is_split = end == run.end || self.split(end, lists).is_some();
                let Some(at) = self.split(start, lists).filter(|_| is_split) else {
                    return is_news;
                };
                is_news = true;
                let bytes = end.bytes_from(start);
                self.has += bytes;
                self.lost -= if run.is_lost { bytes } else { 0 };
                let run = self.run_mut(at);
                (run.has, run.is_lost) = (true, false);
                see(run.arrived(end, bytes));
                self.join(at);
            }
            start = end;
        }
        is_news
    }

    /// The first bytes that are to be sent again.
    pub(crate) fn first_lost(&self) -> Option<(SeqNumber, SeqNumber)> {
        if self.lost == 0 {
            return None;
        }
        let at = (0..=self.runs.len()).find(|&at| self.run(at).is_lost)?;
        Some((self.start(at), self.run(at).end))
    }

    /// Bytes that the receiver lacks leave again.
    pub(crate) fn resend(
        &mut self,
        (start, end): (SeqNumber, SeqNumber),
        now: Nanoseconds,
        lists: &mut Lists<Run>,
    ) {
        // Without room for its ends the whole run counts as sent again, until what left of it is
        // acknowledged.
        let first = self.split(start, lists);
        let is_cut = end == self.last.end || self.split(end, lists).is_some();
        self.is_coarse |= first.is_none() || !is_cut;
        let first = first.unwrap_or_else(|| self.find(start));
        let mut at = first;
        while at <= self.runs.len() && self.start(at).is_before(end) {
            let len = self.len(at);
            let run = self.run_mut(at);
            if !run.has {
                let was_lost = std::mem::take(&mut run.is_lost);
                (run.is_again, run.sent_at) = (true, now);
                self.lost -= if was_lost { len } else { 0 };
            }
            at += 1;
        }
        self.again = later(self.again, self.run(at - 1).end);
        self.join(first);
    }

    /// Whether the receiver reported to have what it does not acknowledge: it has dropped it.
    pub(crate) fn is_head_reported(&self) -> bool {
        self.run(0).has
    }

    /// All is lost, and what the receiver reported is forgotten: it may have dropped it (RFC 2018,
    /// 8).
    pub(crate) fn lose_all(&mut self) {
        for at in 0..=self.runs.len() {
            let run = self.run_mut(at);
            (run.has, run.is_lost) = (false, true);
        }
        (self.has, self.lost) = (0, self.last.end.bytes_from(self.una));
    }

    /// Whether the first byte was sent again.
    pub(crate) fn is_head_again(&self) -> bool {
        self.run(0).is_again
    }

    /// The first `bytes` are lost; without room for their end, what was sent with them is, too.
    pub(crate) fn lose_first(&mut self, bytes: u32, lists: &mut Lists<Run>) {
        if self.run(0).has || self.run(0).is_lost {
            return;
        }
        if self.len(0) > bytes {
            self.split(self.una + bytes, lists);
        }
        self.lost += self.len(0);
        self.run_mut(0).is_lost = true;
    }

    /// Nothing is lost after all.
    pub(crate) fn find_all(&mut self) {
        for at in 0..=self.runs.len() {
            self.run_mut(at).is_lost = false;
        }
        self.lost = 0;
    }

    /// What was sent before `sent_at`, or then and before `end`, is lost if it was sent by `until`:
    /// RFC 8985, 6.2, step 5.
    pub(crate) fn lose_before(
        &mut self,
        (sent_at, end): (Nanoseconds, SeqNumber),
        until: Nanoseconds,
        lists: &mut Lists<Run>,
    ) -> Lost {
        let mut lost = Lost::default();
        let mut at = 0;
        while at <= self.runs.len() {
            let run = *self.run(at);
            let is_older =
                run.sent_at < sent_at || run.sent_at == sent_at && self.start(at).is_before(end);
            if run.has || run.is_lost || !is_older {
                at += 1;
                continue;
            }
            if run.sent_at > until {
                lost.waits = lost.waits.max(Some(run.sent_at));
                at += 1;
                continue;
            }
            let is_whole = run.sent_at < sent_at || !run.end.is_after(end);
            if is_whole || self.split(end, lists).is_some() {
                lost.bytes += self.len(at);
                let again = run.is_again.then_some(run.sent_at);
                lost.again = lost.again.max(again);
                self.run_mut(at).is_lost = true;
            }
            at += 1;
        }
        self.lost += lost.bytes;
        lost
    }
}

/// What was found to be lost.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lost {
    pub(crate) bytes: u32,
    /// When the latest of what was sent again, and is lost again, was.
    pub(crate) again: Option<Nanoseconds>,
    /// When the latest of what may still come was sent.
    pub(crate) waits: Option<Nanoseconds>,
}

impl Run {
    fn arrived(&self, end: SeqNumber, bytes: u32) -> Arrived {
        Arrived {
            end,
            sent_at: self.sent_at,
            is_again: self.is_again,
            bytes,
        }
    }
}

pub(crate) fn earlier(one: SeqNumber, other: SeqNumber) -> SeqNumber {
    if other.is_before(one) { other } else { one }
}

pub(crate) fn later(one: SeqNumber, other: SeqNumber) -> SeqNumber {
    if other.is_after(one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use lineside_account::Budget;
    use proptest::prelude::*;

    use super::*;

    /// What is known of a byte.
    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Byte {
        sent_at: i64,
        has: bool,
        is_lost: bool,
        is_again: bool,
    }

    #[derive(Debug, Clone)]
    enum Operation {
        Send(u32, i64),
        Acknowledge(u32),
        Arrive(u32, u32),
        Resend(u32),
        LoseFirst(u32),
        LoseBefore(i64, u32, i64),
        LoseAll,
        FindAll,
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            (1_u32..30, 0_i64..3).prop_map(|(len, wait)| Operation::Send(len, wait)),
            (0_u32..60).prop_map(Operation::Acknowledge),
            (0_u32..200, 1_u32..40).prop_map(|(start, len)| Operation::Arrive(start, len)),
            (1_u32..20).prop_map(Operation::Resend),
            (1_u32..20).prop_map(Operation::LoseFirst),
            (0_i64..60, 0_u32..200, 0_i64..60)
                .prop_map(|(at, end, until)| Operation::LoseBefore(at, end, until)),
            Just(Operation::LoseAll),
            Just(Operation::FindAll),
        ]
    }

    /// A scoreboard, and each byte in flight by itself.
    struct Pair {
        board: Scoreboard,
        lists: Lists<Run>,
        una: SeqNumber,
        bytes: Vec<Byte>,
        now: i64,
    }

    impl Pair {
        fn apply(&mut self, operation: Operation) {
            let (board, lists) = (&mut self.board, &mut self.lists);
            let (una, nxt) = (self.una, self.una + self.bytes.len() as u32);
            let flight = self.bytes.len() as u32;
            let mut seen = 0;
            let see = |arrived: Arrived| seen += arrived.bytes;
            match operation {
                Operation::Send(len, wait) => {
                    self.now += wait;
                    board.send((nxt, nxt + len), self.now, 0, lists);
                    let byte = Byte {
                        sent_at: self.now,
                        has: false,
                        is_lost: false,
                        is_again: false,
                    };
                    self.bytes.extend((0..len).map(|_| byte));
                }
                Operation::Acknowledge(len) => {
                    let len = len.min(flight);
                    board.acknowledge(una + len, see);
                    let passed = self.bytes.drain(..len as usize);
                    assert_eq!(seen as usize, passed.filter(|byte| !byte.has).count());
                    self.una = una + len;
                }
                Operation::Arrive(start, len) => {
                    let range = start.min(flight)..(start + len).min(flight);
                    let is_news = board.arrive((una + range.start, una + range.end), lists, see);
                    let bytes = &mut self.bytes[range.start as usize..range.end as usize];
                    assert_eq!(seen as usize, bytes.iter().filter(|byte| !byte.has).count());
                    assert_eq!(is_news, seen > 0);
                    for byte in bytes {
                        (byte.has, byte.is_lost) = (true, false);
                    }
                }
                Operation::Resend(len) => {
                    let Some((start, end)) = board.first_lost() else {
                        assert!(self.bytes.iter().all(|byte| !byte.is_lost));
                        return;
                    };
                    let at = start.bytes_from(una) as usize;
                    assert_eq!(self.bytes.iter().position(|byte| byte.is_lost), Some(at));
                    let len = len.min(end.bytes_from(start));
                    self.now += 1;
                    board.resend((start, start + len), self.now, lists);
                    for byte in &mut self.bytes[at..at + len as usize] {
                        (byte.is_lost, byte.is_again, byte.sent_at) = (false, true, self.now);
                    }
                }
                Operation::LoseFirst(len) => self.lose_first(len),
                Operation::LoseBefore(at, end, until) => self.lose_before((at, end), until),
                Operation::LoseAll => {
                    board.lose_all();
                    for (byte, at) in self.bytes.iter_mut().zip(0..) {
                        // Of what had arrived it was forgotten when it was sent.
                        let run = board.run(board.find(una + at));
                        byte.sent_at = if byte.has { run.sent_at } else { byte.sent_at };
                        (byte.has, byte.is_lost) = (false, true);
                    }
                }
                Operation::FindAll => {
                    board.find_all();
                    for byte in &mut self.bytes {
                        byte.is_lost = false;
                    }
                }
            }
        }

        fn lose_first(&mut self, len: u32) {
            let len = len.min(self.board.len(0));
            self.board.lose_first(len, &mut self.lists);
            let Some(&first) = self.bytes.first() else {
                return;
            };
            if !first.has && !first.is_lost {
                let run = &mut self.bytes[..len as usize];
                run.iter_mut().for_each(|byte| byte.is_lost = true);
            }
        }

        fn lose_before(&mut self, (at, end): (i64, u32), until: i64) {
            let limit = (at, self.una + end);
            let found = self.board.lose_before(limit, until, &mut self.lists);
            let (lost, latest) = (found.bytes, found.waits);
            let is_older = |offset: usize, byte: &Byte| {
                let is_before = byte.sent_at == at && (offset as u32) < end;
                !byte.has && !byte.is_lost && (byte.sent_at < at || is_before)
            };
            let (mut expected, mut expected_latest) = (0, None);
            for (offset, byte) in self.bytes.iter_mut().enumerate() {
                if !is_older(offset, byte) {
                    continue;
                }
                if byte.sent_at <= until {
                    byte.is_lost = true;
                    expected += 1;
                } else {
                    expected_latest = expected_latest.max(Some(byte.sent_at));
                }
            }
            assert_eq!((lost, latest), (expected, expected_latest));
        }

        fn compare(&self) {
            let count = |is: fn(&Byte) -> bool| self.bytes.iter().filter(|byte| is(byte)).count();
            let board = &self.board;
            assert_eq!(board.arrived() as usize, count(|byte| byte.has));
            assert_eq!(
                board.pipe() as usize,
                count(|byte| !byte.has && !byte.is_lost)
            );
            let first = self.bytes.first().map_or(0, |byte| byte.sent_at);
            if board.is_plain(first) {
                let is_older = self.bytes.iter().any(|byte| byte.sent_at < first);
                let others = count(|byte| byte.has || byte.is_lost || byte.is_again);
                assert!(!is_older && others == 0);
            }
        }
    }

    proptest! {
        #[test]
        fn a_scoreboard_knows_what_each_byte_knows(
            base in any::<u32>(),
            operations in proptest::collection::vec(operation(), 0..80),
        ) {
            let lists = Lists::new(&Budget::new(1 << 20)).expect("nothing is drawn yet");
            let una = SeqNumber(base);
            let mut pair = Pair {
                board: Scoreboard::default(),
                lists,
                una,
                bytes: Vec::new(),
                now: 0,
            };
            pair.board.begin(una);
            for operation in operations {
                pair.apply(operation);
                pair.compare();
            }
        }
    }

    fn sent(count: u32, unit: u32, lists: &mut Lists<Run>) -> Scoreboard {
        let mut board = Scoreboard::default();
        for at in 0..count {
            let range = (SeqNumber(at * 10), SeqNumber(at * 10 + 10));
            board.send(range, i64::from(at), unit, lists);
        }
        board
    }

    #[test]
    fn data_sent_within_a_unit_share_a_run() {
        let mut lists = Lists::new(&Budget::new(1 << 20)).expect("nothing is drawn yet");
        assert_eq!(sent(1000, 6, &mut lists).runs.len(), 15);
    }

    #[test]
    fn a_scoreboard_is_bounded() {
        let mut lists = Lists::new(&Budget::new(1 << 20)).expect("nothing is drawn yet");
        let board = sent(2000, 0, &mut lists);
        assert_eq!((board.runs.len(), board.pipe()), (RUNS_MAX, 20_000));
    }

    #[test]
    fn without_room_all_is_sent_again_in_the_end() {
        let mut lists = Lists::new(&Budget::new(0)).expect("nothing is drawn yet");
        let mut board = sent(10, 0, &mut lists);
        assert_eq!((board.runs.len(), board.pipe()), (0, 100));
        let block = (SeqNumber(50), SeqNumber(60));
        assert!(
            !board.arrive(block, &mut lists, |_| {}),
            "there is no room to note it"
        );
        board.lose_all();
        for at in 0..10 {
            let start = SeqNumber(at * 10);
            assert_eq!(board.first_lost(), Some((start, SeqNumber(100))));
            board.resend((start, start + 10), 50, &mut lists);
            assert_eq!(board.first_lost(), None, "until it is acknowledged");
            board.acknowledge(start + 10, |_| {});
        }
        assert_eq!((board.pipe(), board.first_lost()), (0, None));
    }
}
