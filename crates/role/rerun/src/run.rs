//! The run: calls leave when they are due, and replies make others due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hashbrown::HashMap;
use lineside_host::RunClock;
use lineside_nfs_client::{
    Client, ClientError, Config, Connection, Event, PORTMAP_PORT, Service, Transport, Version,
};
use lineside_replay::{
    Call, CallIndex, ConnectionId, Program, Replay, Script, Settings, WINDOW_CALLS, Why,
};
use lineside_time::Clock;

use crate::error::RerunError;
use crate::lines::{Heard, LineIndex, Lines};
use crate::outcome::{Outcome, Stalls};
use crate::prepare::Ground;
use crate::sources::Sources;
use crate::tap::Tap;
use crate::url::Url;

/// What is run.
pub struct Asked<'a> {
    /// The calls.
    pub script: &'a Script,
    /// Where to.
    pub url: &'a Url,
    /// Who makes the calls at once: one, or several with a directory each.
    pub copies: Vec<Runner<'a>>,
    /// How long a reply, and a connection that broke, may take.
    pub timeout_ns: i64,
}

/// All calls of the script, made once.
pub struct Runner<'a> {
    /// At what pace, and by whom: alike in all copies, but for directory and seed.
    pub settings: Settings,
    /// What it stands on.
    pub ground: &'a Ground,
}

/// Hears how a run goes on, and says when it is to stop.
pub trait Watch {
    /// So many calls were made of so many.
    fn on_second(&mut self, made: usize, all: usize);
    /// Whether the run is to stop.
    fn stops(&mut self) -> bool;
}

/// A look at signals and times that nobody waits for.
const LOOK_NS: i64 = 100_000_000;
/// Spun before a deadline: the kernel's timer slack of 50 us (prctl(2), PR_SET_TIMERSLACK) and the
/// time that waking up takes.
const SPIN_NS: i64 = 150_000;
/// Between two tries to open a connection.
const RETRY_NS: i64 = 500_000_000;
/// How long the server may take to forget its clients.
const FAREWELL_NS: i64 = 2_000_000_000;
/// Drawing what a WRITE writes takes so long: a megabyte, in a build without optimisation.
const DRAW_NS: i64 = 5_000_000;
/// A turn of the loop that takes longer is a stall.
const STALL_NS: i64 = 1_000_000;
/// Bytes of calls that wait for the server.
const BYTES_MAX: usize = 1 << 30;
/// The largest reply: what the largest READ brings.
const REPLY_BYTES_MAX: u32 = 8 << 20;

/// A connection of the source for one service, as it is here for one copy.
struct Wire {
    copy: usize,
    session: usize,
    service: Service,
    line: Option<LineIndex>,
    connection: Option<Connection>,
    /// The opening that waits for it.
    opener: Option<CallIndex>,
    /// Calls that wait for it.
    waiting: Vec<CallIndex>,
    /// Calls that have not ended. Without any, it is closed.
    left: u64,
    /// It broke, or did not open, at this time first; and when it is tried again.
    broken: Option<(i64, i64)>,
}

/// A client of the source for one version, as it is here.
struct Session {
    client: Client,
    minor: Option<u32>,
    wires: Vec<usize>,
}

struct Run<'a, 'b> {
    asked: &'b Asked<'a>,
    clock: &'b RunClock,
    sources: &'b Sources,
    replays: Vec<Replay<'a>>,
    lines: Lines<'b, RunClock>,
    sessions: Vec<Session>,
    wires: Vec<Wire>,
    /// The wire of each line.
    of_lines: Vec<usize>,
    /// The wires of a connection, by program, and the first of them: of the first copy. All have
    /// as many.
    of_programs: HashMap<(ConnectionId, Program), usize>,
    of_connections: HashMap<ConnectionId, usize>,
    wires_of_copy: usize,
    /// Sessions that have something to send.
    touched: Vec<usize>,
    /// Calls that the server has put off: when they are made again, and by which wire.
    put_off: BinaryHeap<Reverse<(i64, usize, CallIndex)>>,
    connections: u64,
    broken: u64,
    stalls: Stalls,
    has_begun: bool,
}

/// Makes the calls of a script. What was done stands in the outcome, however it ended.
pub fn run(
    asked: &Asked<'_>,
    tap: Option<Tap>,
    sources: &Sources,
    clock: &RunClock,
    watch: &mut dyn Watch,
) -> Result<Outcome, RerunError> {
    let lines = Lines::new(clock, tap)?;
    let window = WINDOW_CALLS / asked.copies.len().max(1);
    let replays = asked.copies.iter().map(|copy| {
        let mut replay = Replay::new(asked.script, copy.settings.clone(), window);
        for (file, handle) in &copy.ground.known {
            replay.know(*file, handle);
        }
        replay
    });
    let mut run = Run {
        asked,
        clock,
        sources,
        replays: replays.collect(),
        lines,
        sessions: Vec::new(),
        wires: Vec::new(),
        of_lines: Vec::new(),
        of_programs: HashMap::new(),
        of_connections: HashMap::new(),
        wires_of_copy: 0,
        touched: Vec::new(),
        put_off: BinaryHeap::new(),
        connections: 0,
        broken: 0,
        stalls: Stalls::default(),
        has_begun: false,
    };
    let failure = run.lay_wires().and_then(|opened| {
        run.open_older(&opened, watch)?;
        // What was opened before is not part of it.
        run.begin();
        run.make_calls(watch)
    });
    let ended_ns = clock.now();
    run.say_farewell();
    Ok(run.outcome(failure.err(), ended_ns))
}

/// A call of a copy, as its client knows it.
fn tag(copy: usize, call: CallIndex) -> u64 {
    (copy as u64) << 32 | u64::from(call)
}

fn of_tag(tag: u64) -> (usize, CallIndex) {
    ((tag >> 32) as usize, tag as CallIndex)
}

impl<'a> Run<'a, '_> {
    /// Which call goes by which wire. Returns the connections that the script opens.
    fn lay_wires(&mut self) -> Result<Vec<ConnectionId>, RerunError> {
        let mut opened = Vec::new();
        let mut sessions: HashMap<(u32, Option<u32>), usize> = HashMap::new();
        let mut heads = self.asked.script.heads();
        while let Some(head) = heads.read().map_err(RerunError::Script)? {
            let Some(program) = head.program else {
                opened.push(head.connection);
                continue;
            };
            if head.is_left_out {
                continue;
            }
            let minor = match program {
                Program::Nfs4(minor) => Some(minor),
                Program::Nfs3 | Program::Mount | Program::Portmap => None,
            };
            let next = self.wires.len();
            let wires = &mut self.of_programs;
            let wire = *{ wires.entry((head.connection, program)) }.or_insert(next);
            if wire == next {
                let next = self.sessions.len();
                let session = *sessions.entry((head.client, minor)).or_insert(next);
                if session == next {
                    self.sessions.push(self.session(0, minor));
                }
                self.add_wire(0, session, program.service());
                let first = &mut self.of_connections;
                first.entry(head.connection).or_insert(wire);
            }
            self.wires[wire].left += 1;
        }
        self.wires_of_copy = self.wires.len();
        let minors: Vec<_> = { self.sessions.iter() }
            .map(|session| session.minor)
            .collect();
        for copy in 1..self.replays.len() {
            let before = self.sessions.len();
            for minor in &minors {
                self.sessions.push(self.session(copy, *minor));
            }
            for wire in 0..self.wires_of_copy {
                let Wire {
                    session,
                    service,
                    left,
                    ..
                } = self.wires[wire];
                self.add_wire(copy, before + session, service).left = left;
            }
        }
        Ok(opened)
    }

    fn add_wire(&mut self, copy: usize, session: usize, service: Service) -> &mut Wire {
        let wire = self.wires.len();
        self.sessions[session].wires.push(wire);
        self.wires.push(Wire {
            copy,
            session,
            service,
            line: None,
            connection: None,
            opener: None,
            waiting: Vec::new(),
            left: 0,
            broken: None,
        });
        &mut self.wires[wire]
    }

    /// The wire of a call of the first copy; `None`: the call is left out.
    fn wire(&self, call: &Call) -> Option<usize> {
        match call.program {
            Some(_) if call.left_out.is_some() => None,
            Some(program) => self.of_programs.get(&(call.connection, program)).copied(),
            None => self.of_connections.get(&call.connection).copied(),
        }
    }

    fn begin(&mut self) {
        let begin_ns = self.clock.now();
        for replay in &mut self.replays {
            replay.begin(begin_ns);
        }
        self.has_begun = true;
    }

    fn session(&self, copy: usize, minor: Option<u32>) -> Session {
        let number = self.sessions.len();
        let version = minor.map_or(Version::V3, Version::V4);
        let now = self.clock.now();
        // A name and a verifier that no other run has.
        let name = format!("lineside-replay-{}-{now:x}-{number}", std::process::id());
        let mut config = Config::new(version, name.as_bytes(), now.to_be_bytes());
        config.port = self.asked.url.port;
        config.timeout_ns = Some(self.asked.timeout_ns);
        config.bytes_max = BYTES_MAX;
        config.reply_bytes_max = REPLY_BYTES_MAX;
        // xids of one port are of one client.
        config.first_xid = (now as u32).wrapping_mul(0x9e37_79b9) | 1;
        if let Some((uid, gid)) = self.asked.copies[copy].settings.user {
            let made = lineside_nfs_client::Credential::sys(b"lineside", uid, gid, &[gid]);
            config.credential = made.unwrap_or(config.credential);
        }
        let mut client = Client::new(config);
        if minor.is_some() {
            client.start(now);
        }
        Session {
            client,
            minor,
            wires: Vec::new(),
        }
    }

    /// Connections that are older than the trace are open before the first call.
    fn open_older(
        &mut self,
        opened: &[ConnectionId],
        watch: &mut dyn Watch,
    ) -> Result<(), RerunError> {
        let mut is_opened = vec![false; self.wires.len()];
        for wire in opened.iter().filter_map(|it| self.of_connections.get(it)) {
            for copy in 0..self.replays.len() {
                is_opened[copy * self.wires_of_copy + wire] = true;
            }
        }
        let older = (0..self.wires.len()).filter(|&wire| !is_opened[wire]);
        let older: Vec<_> = older.collect();
        for &wire in &older {
            self.connect(wire);
        }
        while older
            .iter()
            .any(|&wire| self.wires[wire].broken.is_none() && !self.is_open(wire))
        {
            if watch.stops() {
                return Err(RerunError::Stopped);
            }
            self.turn(LOOK_NS)?;
        }
        Ok(())
    }

    /// Whether calls may go by it: its line may have opened in the turn that goes on, and its
    /// client not have heard of that.
    fn is_open(&self, wire: usize) -> bool {
        let Wire {
            line, connection, ..
        } = self.wires[wire];
        connection.is_some() && line.is_some_and(|line| self.lines.is_open(line))
    }

    fn make_calls(&mut self, watch: &mut dyn Watch) -> Result<(), RerunError> {
        let all = self.asked.script.len() as usize * self.replays.len();
        let mut looked_ns = self.clock.now();
        loop {
            let before = self.clock.now();
            self.make_due();
            self.flush();
            if self.replays.iter().all(Replay::is_over) {
                return Ok(());
            }
            let now = self.clock.now();
            self.stalls.note(now - before);
            if now - looked_ns >= LOOK_NS {
                looked_ns = now;
                if watch.stops() {
                    return Ok(());
                }
                let made = self.replays.iter().map(|replay| replay.walk().made());
                watch.on_second(made.sum::<u64>() as usize, all);
            }
            let mut failures = self.replays.iter_mut().filter_map(Replay::take_failure);
            if let Some(failure) = failures.next() {
                return Err(RerunError::Script(failure));
            }
            let until = self.next_deadline(now);
            // What WRITEs write is drawn while nothing else is to be done.
            let may_draw = until - now >= DRAW_NS;
            let drawn = may_draw && self.replays.iter_mut().any(Replay::draw_ahead);
            self.turn(if drawn { 0 } else { until - now })?;
        }
    }

    /// Makes the calls whose time has come.
    fn make_due(&mut self) {
        while let Some(&Reverse((at, wire, call))) = self.put_off.peek()
            && at <= self.clock.now()
        {
            self.put_off.pop();
            match self.is_open(wire) {
                true => self.send(wire, call),
                false => self.wires[wire].waiting.push(call),
            }
        }
        for copy in 0..self.replays.len() {
            while let Some(call) = self.replays[copy].next(self.clock.now()) {
                self.make(copy, call);
            }
        }
    }

    fn next_deadline(&self, now: i64) -> i64 {
        let sessions = self.sessions.iter();
        let sessions = sessions.filter_map(|session| session.client.next_deadline());
        let wires = self.wires.iter().filter_map(|wire| Some(wire.broken?.1));
        let calls = self.replays.iter().filter_map(Replay::next_deadline);
        let put_off = self.put_off.peek().map(|Reverse((at, ..))| *at);
        let next = sessions.chain(wires).chain(calls).chain(put_off).min();
        next.map_or(now + LOOK_NS, |next| next.clamp(now, now + LOOK_NS))
    }

    /// Waits for at most so long, and takes what comes.
    fn turn(&mut self, wait_ns: i64) -> Result<(), RerunError> {
        let wait_ns = (wait_ns - SPIN_NS).max(0);
        if wait_ns > 0 {
            self.lines.pass_on();
        }
        let mut heard = Vec::new();
        self.lines.wait(wait_ns as u64, &mut heard)?;
        for heard in heard {
            match heard {
                Heard::Opened(line) => self.on_open(line),
                Heard::Closed(line, why) => self.on_close(line, why)?,
                Heard::Bytes(line) => self.read(line)?,
            }
            // One that is due does not wait for the other replies.
            if self.has_begun {
                self.make_due();
            }
        }
        let now = self.clock.now();
        for session in 0..self.sessions.len() {
            let client = &mut self.sessions[session].client;
            if client.next_deadline().is_some_and(|at| at <= now) {
                client.on_time(now);
                self.touched.push(session);
            }
            self.follow(session)?;
        }
        for wire in 0..self.wires.len() {
            if self.wires[wire].broken.is_some_and(|(_, at)| at <= now) {
                self.connect(wire);
            }
        }
        self.flush();
        Ok(())
    }

    /// What a client reports.
    fn follow(&mut self, session: usize) -> Result<(), RerunError> {
        while let Some(event) = self.sessions[session].client.poll() {
            match event {
                Event::Failed(error @ ClientError::Forgotten(_)) => {
                    return Err(RerunError::Forgotten(error));
                }
                Event::Failed(error) => return Err(error.into()),
                Event::Lost(tag, _) => {
                    let now = self.clock.now();
                    let (copy, call) = of_tag(tag);
                    let is_answered = { self.call(copy, call) }.is_some_and(|it| it.is_answered);
                    self.replays[copy].on_lost(now, call);
                    if !is_answered {
                        // The source's server did not answer it, either.
                        continue;
                    }
                    return Err(RerunError::Timeout {
                        to: SocketAddr::new(self.asked.url.server, self.asked.url.port),
                        doing: "a call waited for it".to_owned(),
                        seconds: (self.asked.timeout_ns / 1_000_000_000) as u64,
                    });
                }
                // Connections are those of the source.
                Event::Connect(..) | Event::Ready | Event::Closed => {}
            }
        }
        Ok(())
    }

    /// A call that is under way.
    fn call(&self, copy: usize, call: CallIndex) -> Option<Arc<Call>> {
        self.replays[copy].call(call).cloned()
    }

    fn make(&mut self, copy: usize, call: CallIndex) {
        let now = self.clock.now();
        let Some(of) = self.call(copy, call) else {
            return;
        };
        let Some(wire) = self.wire(&of) else {
            return self.replays[copy].on_done(now, call, of.left_out);
        };
        let wire = copy * self.wires_of_copy + wire;
        let is_opening = of.program.is_none();
        match (is_opening, self.is_open(wire)) {
            (true, true) => self.replays[copy].on_done(now, call, None),
            (true, false) => {
                self.wires[wire].opener = Some(call);
                self.connect_first(wire);
            }
            (false, true) => self.send(wire, call),
            (false, false) => {
                self.wires[wire].waiting.push(call);
                self.connect_first(wire);
            }
        }
    }

    fn send(&mut self, wire: usize, call: CallIndex) {
        let Wire {
            copy,
            session,
            line: Some(line),
            connection: Some(connection),
            ..
        } = self.wires[wire]
        else {
            return;
        };
        let now = self.clock.now();
        let Some(of) = self.call(copy, call) else {
            return;
        };
        let client = &mut self.sessions[session].client;
        let sent = self.replays[copy].request(call, |credential, request| {
            client.call(now, connection, tag(copy, call), credential, request)
        });
        match sent {
            Ok(Ok(xid)) => {
                if self.lines.is_tapped() {
                    self.sources.insert(self.lines.port(line), xid, of.id);
                }
                self.touched.push(session);
                // As its row has it: when the kernel gets it. What that does with it is its way.
                let now = self.clock.now();
                self.flush();
                self.replays[copy].on_sent(now, call);
                if !of.is_answered {
                    self.over(wire);
                }
            }
            Ok(Err(_)) => self.leave_out(wire, call, Why::Arguments),
            Err(why) => self.leave_out(wire, call, why),
        }
    }

    fn leave_out(&mut self, wire: usize, call: CallIndex, why: Why) {
        let copy = self.wires[wire].copy;
        self.replays[copy].on_done(self.clock.now(), call, Some(why));
        self.over(wire);
    }

    /// A call of a wire is over. After the last one its connection is closed.
    fn over(&mut self, wire: usize) {
        let of = &mut self.wires[wire];
        of.left = of.left.saturating_sub(1);
        // A client of NFSv4 says farewell by its connections.
        let is_mine = self.sessions[of.session].client.client_id() == 0;
        if of.left == 0
            && is_mine
            && let (Some(line), Some(connection)) = (of.line.take(), of.connection.take())
        {
            self.lines.close(line);
            let now = self.clock.now();
            self.sessions[of.session].client.abandon(now, connection);
        }
    }

    fn flush(&mut self) {
        while let Some(session) = self.touched.pop() {
            let Session { client, wires, .. } = &mut self.sessions[session];
            for &wire in wires.iter() {
                let Wire {
                    line: Some(line),
                    connection: Some(connection),
                    ..
                } = self.wires[wire]
                else {
                    continue;
                };
                let mut bytes = Vec::new();
                if client.transmit(connection, &mut bytes) {
                    self.lines.send(line, &bytes);
                }
            }
        }
    }

    fn connect_first(&mut self, wire: usize) {
        if self.wires[wire].line.is_none() && self.wires[wire].broken.is_none() {
            self.connect(wire);
        }
    }

    fn connect(&mut self, wire: usize) {
        let of = &mut self.wires[wire];
        let port = match of.service {
            Service::Portmap => PORTMAP_PORT,
            Service::Mount => self.asked.copies[of.copy].ground.mount_port,
            Service::Nfs => self.asked.url.port,
        };
        let to = SocketAddr::new(self.asked.url.server, port);
        match self.lines.connect(to, of.line) {
            Ok(line) => {
                of.line = Some(line);
                if let Some((_, next)) = &mut of.broken {
                    *next = i64::MAX;
                }
                self.of_lines.resize(self.of_lines.len().max(line + 1), 0);
                self.of_lines[line] = wire;
            }
            Err(_) => {
                let now = self.clock.now();
                let since = of.broken.map_or(now, |(since, _)| since);
                of.broken = Some((since, now + RETRY_NS));
            }
        }
    }

    fn on_open(&mut self, line: LineIndex) {
        let (wire, now) = (self.of_lines[line], self.clock.now());
        let of = &mut self.wires[wire];
        of.broken = None;
        self.connections += 1;
        let client = &mut self.sessions[of.session].client;
        match of.connection {
            Some(connection) => client.reopened(now, connection),
            None => {
                let port = self.asked.url.port;
                let opened = client.opened(now, of.service, port, Transport::Stream);
                of.connection = Some(opened);
            }
        }
        self.touched.push(of.session);
        let waiting = std::mem::take(&mut of.waiting);
        if let Some(call) = of.opener.take() {
            self.replays[of.copy].on_done(now, call, None);
        }
        for call in waiting {
            self.send(wire, call);
        }
    }

    fn on_close(&mut self, line: LineIndex, why: Option<io::Error>) -> Result<(), RerunError> {
        let (wire, now) = (self.of_lines[line], self.clock.now());
        let of = &mut self.wires[wire];
        if of.line != Some(line) {
            return Ok(());
        }
        if let Some(connection) = of.connection {
            self.broken += 1;
            self.sessions[of.session].client.closed(now, connection);
        }
        let since = of.broken.map_or(now, |(since, _)| since);
        of.broken = Some((since, now + RETRY_NS));
        if of.service != Service::Nfs && of.connection.is_none() {
            // Without a port mapper the calls to it are left out.
            let waiting = std::mem::take(&mut of.waiting);
            let opener = of.opener.take();
            (of.broken, of.line) = (None, None);
            if let Some(call) = opener {
                self.replays[of.copy].on_done(now, call, None);
            }
            for call in waiting {
                self.leave_out(wire, call, Why::Service);
            }
            return Ok(());
        }
        if now.saturating_sub(since) > self.asked.timeout_ns {
            let port = self.asked.url.port;
            let why = why.map_or_else(|| "the server closes it".to_owned(), |why| why.to_string());
            return Err(RerunError::NoConnection {
                service: of.service.name(),
                to: SocketAddr::new(self.asked.url.server, port),
                why,
            });
        }
        Ok(())
    }

    fn read(&mut self, line: LineIndex) -> Result<(), RerunError> {
        let wire = self.of_lines[line];
        let Wire {
            copy,
            session,
            connection: Some(connection),
            ..
        } = self.wires[wire]
        else {
            return Ok(());
        };
        let mut ended = 0;
        let is_broken = match self.lines.take(line) {
            Ok(None) => return Ok(()),
            Ok(Some((now, bytes))) => {
                let client = &mut self.sessions[session].client;
                let replay = &mut self.replays[copy];
                let put_off = &mut self.put_off;
                let outcome = client.on_bytes(now, connection, bytes, |reply| {
                    let Some(tag) = reply.tag else { return };
                    let call = of_tag(tag).1;
                    let is_answered = replay.call(call).is_some_and(|it| it.is_answered);
                    match replay.on_answer(now, call, reply.answer) {
                        Some(wait_ns) => put_off.push(Reverse((now + wait_ns, wire, call))),
                        None => ended += u64::from(is_answered),
                    }
                });
                outcome.is_err()
            }
            Err(why) => return self.on_close(line, why),
        };
        if is_broken {
            return Err(RerunError::NoReply {
                to: SocketAddr::new(self.asked.url.server, self.asked.url.port),
            });
        }
        self.touched.push(session);
        for _ in 0..ended {
            self.over(wire);
        }
        Ok(())
    }

    /// Clients of NFSv4 have the server forget them.
    fn say_farewell(&mut self) {
        let until = self.clock.now() + FAREWELL_NS;
        let mut left = 0;
        for session in 0..self.sessions.len() {
            let client = &mut self.sessions[session].client;
            if client.client_id() != 0 {
                client.finish(self.clock.now());
                self.touched.push(session);
                left += 1;
            }
        }
        self.flush();
        while left > 0 && self.clock.now() < until {
            let mut heard = Vec::new();
            if self.lines.wait(LOOK_NS as u64, &mut heard).is_err() {
                break;
            }
            for heard in heard {
                if let Heard::Bytes(line) = heard {
                    let _ = self.read(line);
                }
            }
            self.flush();
            for session in &mut self.sessions {
                while let Some(event) = session.client.poll() {
                    left -= usize::from(matches!(event, Event::Closed | Event::Failed(_)));
                }
            }
        }
    }

    fn outcome(self, failure: Option<RerunError>, ended_ns: i64) -> Outcome {
        self.lines.finish();
        Outcome::new(
            &self.replays,
            [self.connections, self.broken],
            self.stalls,
            ended_ns,
            failure,
        )
    }
}

impl Stalls {
    fn note(&mut self, took_ns: i64) {
        if took_ns > STALL_NS {
            self.count += 1;
            self.max_ns = self.max_ns.max(took_ns);
            self.sum_ns += took_ns;
        }
    }
}
