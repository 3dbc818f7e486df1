//! The end that answers probes.
//!
//! A stranger gets no byte more than it sent, and nothing is kept of it: a client has to repeat the
//! cookie that it got at its address before it has a session, so that the server cannot be used to
//! flood an address that someone else wrote into a datagram. A session may then have as many bytes
//! as it asked for, within the server's bound.
//!
//! Not here: the socket and the clock.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};

use lineside_time::Nanoseconds;

use crate::message::{
    ARRIVALS_IN_DATAGRAM, Foreign, Head, LEN_MAX, LEN_MIN, Message, VERSION, emit_arrivals,
};
use crate::plan::Shape;

/// What a server allows.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Sessions at a time. One takes 2 MiB at most.
    pub sessions_max: usize,
    /// Bytes that are sent to a session, headers of IP and UDP not counted.
    pub download_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions_max: 16,
            download_bytes_max: 100_000_000,
        }
    }
}

/// A session ends when nothing came for this long: a client pauses for less.
const IDLE_NS: i64 = 30_000_000_000;
/// How long a cookie holds at least.
const COOKIE_NS: i64 = 60_000_000_000;
/// Datagrams of a stage that are remembered: 16 bytes each.
pub const ARRIVALS_MAX: usize = 131_072;
/// Answers that wait to be sent.
const ANSWERS_MAX: usize = 4_096;
/// Parts of a list that answer one question: 20 KB, which no link holds up for long.
pub(crate) const PARTS: usize = 16;

/// What a server has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerCounters {
    /// Sessions that began.
    pub sessions: u64,
    /// Sessions that were refused for want of room.
    pub refused: u64,
    /// Datagrams of other protocols and versions, of strangers and of unknown kinds.
    pub foreign: u64,
    /// Answers that were not sent: too many waited, or the session had had its bytes.
    pub unanswered: u64,
}

/// The state of a server. `P` says where a datagram came from, and where its answer goes.
#[derive(Debug)]
pub struct Server<P> {
    limits: Limits,
    secret: RandomState,
    sessions: Vec<Session<P>>,
    answers: VecDeque<(P, Answer)>,
    /// The session whose train is looked at next.
    turn: usize,
    counters: ServerCounters,
}

#[derive(Debug)]
struct Session<P> {
    peer: P,
    cookie: u64,
    seen_ns: Nanoseconds,
    stage: u16,
    /// Numbers of the stage's datagrams, and when they came.
    arrivals: Vec<(u32, Nanoseconds)>,
    train: Option<Train>,
    /// Bytes that may still be sent.
    left_bytes: u64,
    download_bytes_max: u64,
}

/// What is being sent.
#[derive(Debug, Clone, Copy)]
struct Train {
    stage: u16,
    number: u32,
    len: u16,
    shape: Shape,
    due_ns: Nanoseconds,
}

/// What is to be sent once.
#[derive(Debug, Clone, Copy)]
enum Answer {
    /// As it is, at least this long.
    Plain(Head, Message<'static>, usize),
    /// Echoed, with the time of sending.
    Echoed(Head, Message<'static>, usize),
    /// Arrivals from a place on.
    Arrivals(Head, u32),
}

impl<P: Copy + Eq + Hash> Server<P> {
    /// A server with a secret that no stranger can know.
    pub fn new(limits: Limits, secret: RandomState) -> Self {
        Self {
            limits,
            secret,
            sessions: Vec::with_capacity(limits.sessions_max),
            answers: VecDeque::with_capacity(ANSWERS_MAX),
            turn: 0,
            counters: ServerCounters::default(),
        }
    }

    /// What it has done.
    pub fn counters(&self) -> ServerCounters {
        self.counters
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// A datagram came at that time.
    pub fn on_datagram(&mut self, at_ns: Nanoseconds, from: P, datagram: &[u8]) {
        match Message::parse(datagram) {
            Ok((head, Message::Hello)) => self.on_hello(at_ns, from, head, datagram.len()),
            Ok((head, Message::Begin { download_bytes_max })) => {
                self.on_begin(at_ns, from, head, download_bytes_max);
            }
            Ok((head, message)) => self.on_message(at_ns, from, head, message, datagram.len()),
            Err(Foreign::Version(_)) if datagram.len() >= LEN_MIN => {
                self.counters.foreign += 1;
                let version = Message::OtherVersion { version: VERSION };
                self.answer(from, Answer::Plain(Head::default(), version, 0));
            }
            Err(_) => self.counters.foreign += 1,
        }
    }

    fn answer(&mut self, to: P, answer: Answer) {
        if self.answers.len() < ANSWERS_MAX {
            self.answers.push_back((to, answer));
        } else {
            self.counters.unanswered += 1;
        }
    }

    fn cookie(&self, at_ns: Nanoseconds, of: P, epochs_ago: i64) -> u64 {
        self.secret
            .hash_one((of, at_ns.div_euclid(COOKIE_NS) - epochs_ago))
    }

    fn on_hello(&mut self, at_ns: Nanoseconds, from: P, head: Head, len: usize) {
        // The answer is longer than the head: only what was padded is answered.
        if len < LEN_MIN {
            self.counters.foreign += 1;
            return;
        }
        let cookie = self.cookie(at_ns, from, 0);
        self.answer(
            from,
            Answer::Plain(head, Message::Welcome { cookie }, LEN_MIN),
        );
    }

    fn on_begin(&mut self, at_ns: Nanoseconds, from: P, head: Head, wanted: u64) {
        let is_ours = |epochs_ago| head.session == self.cookie(at_ns, from, epochs_ago);
        if !is_ours(0) && !is_ours(1) {
            self.counters.foreign += 1;
            return;
        }
        self.sessions
            .retain(|session| at_ns - session.seen_ns < IDLE_NS);
        let known = { self.sessions.iter() }.find(|session| session.is(from, head.session));
        let download_bytes_max = match known {
            // The answer was lost.
            Some(session) => session.download_bytes_max,
            None if self.sessions.len() >= self.limits.sessions_max => {
                self.counters.refused += 1;
                self.answer(from, Answer::Plain(head, Message::Full, 0));
                return;
            }
            None => {
                let download_bytes_max = wanted.min(self.limits.download_bytes_max);
                self.counters.sessions += 1;
                self.sessions.push(Session {
                    peer: from,
                    cookie: head.session,
                    seen_ns: at_ns,
                    stage: 0,
                    arrivals: Vec::new(),
                    train: None,
                    left_bytes: download_bytes_max,
                    download_bytes_max,
                });
                download_bytes_max
            }
        };
        let begun = Message::Begun { download_bytes_max };
        self.answer(from, Answer::Plain(head, begun, 0));
    }

    fn on_message(
        &mut self,
        at_ns: Nanoseconds,
        from: P,
        head: Head,
        message: Message<'_>,
        len: usize,
    ) {
        let known = { self.sessions.iter_mut() }.find(|session| session.is(from, head.session));
        let Some(session) = known else {
            self.counters.foreign += 1;
            return;
        };
        session.seen_ns = at_ns;
        if head.stage > session.stage {
            session.stage = head.stage;
            session.arrivals.clear();
            session.train = None;
        }
        if head.stage < session.stage {
            // Of a stage that is over: late, and of no use.
            return;
        }
        match message {
            Message::Echo { answer_len } => {
                let index = session.arrivals.len() as u32;
                if session.remember(head.number, at_ns) {
                    let echoed = Message::Echoed {
                        asked_ns: head.sent_ns,
                        came_ns: at_ns,
                        index,
                    };
                    let len = len.min(answer_len.into());
                    self.answer(from, Answer::Echoed(head, echoed, len));
                }
            }
            Message::Filler => {
                session.remember(head.number, at_ns);
            }
            Message::Wanted {
                count,
                len,
                burst,
                gap_ns,
            } => {
                // Asked again, it goes on.
                session.train.get_or_insert(Train {
                    stage: head.stage,
                    number: 0,
                    len,
                    shape: Shape {
                        count,
                        burst,
                        gap_ns,
                    },
                    due_ns: at_ns,
                });
            }
            Message::Ask { from: place } => self.answer(from, Answer::Arrivals(head, place)),
            Message::Bye => self
                .sessions
                .retain(|session| !session.is(from, head.session)),
            _ => self.counters.foreign += 1,
        }
    }

    /// The next datagram to send now, into `out`, and where to; `None` if there is none.
    pub fn transmit(&mut self, now: Nanoseconds, out: &mut Vec<u8>) -> Option<P> {
        while let Some((to, answer)) = self.answers.pop_front() {
            if self.write(now, to, answer, out) {
                return Some(to);
            }
            self.counters.unanswered += 1;
        }
        for _ in 0..self.sessions.len() {
            self.turn = (self.turn + 1) % self.sessions.len();
            let session = &mut self.sessions[self.turn];
            if let Some(to) = session.filler(now, out) {
                return Some(to);
            }
        }
        None
    }

    /// Writes an answer; false if its session is gone or has had its bytes.
    fn write(&mut self, now: Nanoseconds, to: P, answer: Answer, out: &mut Vec<u8>) -> bool {
        let head = match answer {
            Answer::Plain(head, message, len) => {
                message.emit(
                    &Head {
                        sent_ns: now,
                        ..head
                    },
                    len,
                    out,
                );
                return true;
            }
            Answer::Echoed(head, ..) | Answer::Arrivals(head, _) => head,
        };
        let known = { self.sessions.iter_mut() }.find(|session| session.is(to, head.session));
        let Some(session) = known else {
            return false;
        };
        let head = Head {
            sent_ns: now,
            ..head
        };
        match answer {
            Answer::Echoed(_, message, len) => message.emit(&head, len, out),
            Answer::Arrivals(head, place) if head.stage == session.stage => {
                let head = Head {
                    sent_ns: now,
                    ..head
                };
                let len = emit_arrivals(&head, place as usize, &session.arrivals, out);
                // One question is answered with several parts.
                let next = place as usize + ARRIVALS_IN_DATAGRAM;
                let parts = head.number as usize + 1;
                if next < session.arrivals.len() && parts < PARTS {
                    let head = Head {
                        number: parts as u32,
                        ..head
                    };
                    self.answers
                        .push_front((to, Answer::Arrivals(head, next as u32)));
                }
                len
            }
            _ => return false,
        };
        let known = { self.sessions.iter_mut() }.find(|session| session.is(to, head.session));
        known.is_some_and(|session| session.spend(out.len()))
    }

    /// When to call [`transmit`](Self::transmit) again, if nothing comes.
    pub fn next_deadline(&self) -> Option<Nanoseconds> {
        if !self.answers.is_empty() {
            return Some(Nanoseconds::MIN);
        }
        let trains = self.sessions.iter().filter_map(|session| session.train);
        trains.map(|train| train.due_ns).min()
    }
}

impl<P: Copy + Eq> Session<P> {
    fn is(&self, peer: P, cookie: u64) -> bool {
        self.peer == peer && self.cookie == cookie
    }

    /// False if there is no room.
    fn remember(&mut self, number: u32, at_ns: Nanoseconds) -> bool {
        let has_room = self.arrivals.len() < ARRIVALS_MAX;
        if has_room {
            self.arrivals.push((number, at_ns));
        }
        has_room
    }

    fn spend(&mut self, bytes: usize) -> bool {
        let left = self.left_bytes.checked_sub(bytes as u64);
        self.left_bytes = left.unwrap_or(self.left_bytes);
        left.is_some()
    }

    /// The next one of a train that is due.
    fn filler(&mut self, now: Nanoseconds, out: &mut Vec<u8>) -> Option<P> {
        let train = self.train.as_mut()?;
        let is_over = train.number >= train.shape.count || usize::from(train.len) > LEN_MAX;
        if is_over {
            // A request that is repeated finds the train there, and sends no other.
            train.due_ns = Nanoseconds::MAX;
            return None;
        }
        if train.due_ns > now {
            return None;
        }
        let head = Head {
            stage: train.stage,
            session: self.cookie,
            number: train.number,
            sent_ns: now,
        };
        train.number += 1;
        train.due_ns = match train.shape.due_ns(train.number, train.due_ns) {
            // A burst begins when it does, and what follows it from its end.
            due_ns if due_ns == train.due_ns => now,
            due_ns => due_ns,
        };
        let len = Message::Filler.emit(&head, train.len.into(), out);
        if !self.spend(len) {
            self.train = None;
            return None;
        }
        Some(self.peer)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    const FROM: ([u8; 4], u16) = ([192, 0, 2, 1], 4000);

    fn sent(server: &mut Server<SocketAddr>, now: Nanoseconds) -> Vec<Vec<u8>> {
        let (mut out, mut all) = (Vec::new(), Vec::new());
        while server.transmit(now, &mut out).is_some() {
            all.push(out.clone());
        }
        all
    }

    fn say(
        server: &mut Server<SocketAddr>,
        now: Nanoseconds,
        from: SocketAddr,
        session: u64,
        message: Message<'_>,
    ) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let head = Head {
            session,
            stage: 1,
            ..Head::default()
        };
        message.emit(&head, LEN_MIN, &mut out);
        server.on_datagram(now, from, &out);
        sent(server, now)
    }

    fn cookie(answer: &[Vec<u8>]) -> u64 {
        match Message::parse(&answer[0]) {
            Ok((_, Message::Welcome { cookie })) => cookie,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn strangers_get_no_byte_more_than_they_sent() {
        let from = FROM.into();
        let mut server = Server::new(Limits::default(), RandomState::new());
        let mut out = Vec::new();
        for kind in 0..16 {
            for len in [0, 3, 5, 27, 28, 40, 63, 64, 200] {
                for version in [0, VERSION, 2] {
                    Message::Hello.emit(&Head::default(), 200, &mut out);
                    (out[4], out[5]) = (version, kind);
                    server.on_datagram(5, from, &out[..len]);
                    let answers: usize = sent(&mut server, 5).iter().map(Vec::len).sum();
                    assert!(answers <= len, "kind {kind}: {answers} for {len}");
                }
            }
        }
        assert_eq!(server.sessions(), 0);
    }

    #[test]
    fn a_session_needs_the_cookie_of_its_address() {
        let (from, other) = (FROM.into(), ([192, 0, 2, 2], 4000).into());
        let mut server = Server::new(Limits::default(), RandomState::new());
        let cookie = cookie(&say(&mut server, 5, from, 1, Message::Hello));
        let begin = Message::Begin {
            download_bytes_max: 300,
        };
        assert!(say(&mut server, 6, other, cookie, begin).is_empty());
        assert!(say(&mut server, 6, from, cookie + 1, begin).is_empty());
        let wanted = Message::Wanted {
            count: 1000,
            len: 100,
            burst: 0,
            gap_ns: 0,
        };
        assert!(say(&mut server, 6, from, cookie, wanted).is_empty());
        assert_eq!(
            say(&mut server, COOKIE_NS + 6, from, cookie, begin).len(),
            1
        );
        // No more bytes than were agreed upon.
        assert_eq!(
            say(&mut server, COOKIE_NS + 6, from, cookie, wanted).len(),
            3
        );
        assert_eq!(
            say(&mut server, COOKIE_NS + 6, from, cookie, wanted).len(),
            0
        );
        say(&mut server, COOKIE_NS + 7, from, cookie, Message::Bye);
        assert_eq!(server.sessions(), 0);
        assert!(say(&mut server, 3 * COOKIE_NS, from, cookie, begin).is_empty());
    }

    #[test]
    fn sessions_are_bounded_and_idle_ones_end() {
        let limits = Limits {
            sessions_max: 2,
            ..Limits::default()
        };
        let mut server = Server::new(limits, RandomState::new());
        let mut begin = |now, host| {
            let from = ([192, 0, 2, host], 4000).into();
            let cookie = cookie(&say(&mut server, now, from, 1, Message::Hello));
            let begin = Message::Begin {
                download_bytes_max: 1,
            };
            let answer = say(&mut server, now, from, cookie, begin);
            matches!(Message::parse(&answer[0]), Ok((_, Message::Begun { .. })))
        };
        assert_eq!([begin(0, 1), begin(0, 2), begin(0, 3)], [true, true, false]);
        // The same again is no further one.
        assert!(begin(1, 2));
        assert!(begin(IDLE_NS, 3));
    }
}
