//! Runs a script: one event after the other, each at its time.

use std::collections::BTreeMap;

use lineside_wire::TcpFlags;

use super::Fault;
use super::calls::{Outcome, perform};
use super::compare::{Bases, difference, text};
use super::options::{Offsets, bytes};
use super::packet::Left;
use super::script::{Action, Body, Call, Event, Packet, Script, Segment, TcpOption, Time, Value};
use super::settings::Settings;
use super::sockets::{BEGIN_NS, World};

/// Where the peer's sequence numbers begin: they pass 2^32 soon.
const PEERS_BASE: u32 = 0xffff_f800;
/// A line without a time of its own waits this long for its segment.
const ANY_TIME_NS: i64 = 1_000_000_000_000;

/// What is known of the segments between two ports.
#[derive(Debug, Default)]
struct Numbers {
    /// The stack's initial sequence number.
    local: Option<u32>,
    /// Another SYN of the stack may have another one.
    may_change: bool,
    /// The number of the peer's SYN in the script, and whether the stack has acknowledged it.
    remote: u32,
    is_remote_taken: bool,
    stamp: Option<(u32, u32)>,
}

/// A call that has not returned.
#[derive(Debug)]
struct Pending {
    line: u32,
    call: Call,
    /// In script time.
    until: i64,
}

struct Runner {
    world: World,
    numbers: BTreeMap<[u16; 2], Numbers>,
    pending: Option<Pending>,
    /// The time of the last event as the script has it.
    previous: i64,
    /// Frames whose numbers were looked at.
    looked: usize,
    is_foreign: bool,
}

/// Runs a script; the first thing that does not hold ends it. `is_foreign`: the script was
/// written for another stack; see [`Manner`](super::Manner).
pub fn run(script: &Script, is_foreign: bool) -> Result<(), Fault> {
    let mut runner = Runner {
        world: World::new(Settings::of(script)?, is_foreign),
        numbers: BTreeMap::new(),
        pending: None,
        previous: 0,
        looked: 0,
        is_foreign,
    };
    let mut events = script.events.iter();
    let last = events.rposition(|event| matches!(event.action, Action::Out(_)));
    for (index, event) in script.events.iter().enumerate() {
        if is_foreign && last.is_none_or(|last| index > last) {
            runner.world.left.clear();
            runner.looked = 0;
        }
        let mut later = script.events[index..].iter();
        let is_over = later.all(|event| matches!(event.action, Action::Command(_)));
        runner.step(event, is_over)?;
        if let Some(wrong) = runner.world.wrong() {
            return Err(Fault::new(event.line, wrong));
        }
    }
    let line = script.events.last().map_or(1, |event| event.line);
    runner.finish(line)
}

impl Runner {
    fn tolerance(&self) -> i64 {
        self.world.settings.tolerance_ns
    }

    /// In script time.
    fn now(&self) -> i64 {
        self.world.now - BEGIN_NS
    }

    fn step(&mut self, event: &Event, is_over: bool) -> Result<(), Fault> {
        let base = self.previous;
        let (from, to) = match event.time {
            Time::At(at) => (at, at),
            Time::After(ns) => (base + ns, base + ns),
            Time::Any => (i64::MIN, i64::MAX),
            Time::Between {
                is_relative,
                from,
                to,
            } => {
                let base = if is_relative { base } else { 0 };
                (base + from, base + to)
            }
        };
        if let Action::Out(packet) = &event.action {
            self.expect(packet, event.line, (from, to))?;
            // A range or any time: what follows counts from when it left.
            self.previous = if from == to { from } else { self.now() };
            return Ok(());
        }
        let at = if from == i64::MIN { self.now() } else { from };
        self.pass(at)?;
        self.previous = at;
        self.expect_no_left(event.line, at)?;
        match &event.action {
            Action::Command(command) => {
                let changed = self.world.settings.command(event.line, command)?;
                if changed && self.world.has_begun() && !is_over {
                    let what = "a setting after the first connection or packet: set it before";
                    return Err(Fault::new(event.line, what));
                }
                Ok(())
            }
            Action::In(packet) => self.inject(packet, event.line),
            Action::Call(call) => {
                let is_relative = matches!(event.time, Time::After(_));
                let until = call
                    .until
                    .map(|until| until + if is_relative { base } else { 0 });
                self.call(call, event.line, until.unwrap_or(at))
            }
            Action::State(expected) => {
                let found = self.world.state();
                match found == expected {
                    true => Ok(()),
                    false => Err(Fault::new(event.line, format!("the state is {found}"))),
                }
            }
            Action::Out(_) => unreachable!("expected above"),
        }
    }

    /// Time passes; a pending call is tried at each turn.
    fn pass(&mut self, until: i64) -> Result<(), Fault> {
        let until = until.saturating_add(BEGIN_NS);
        loop {
            self.look();
            self.retry()?;
            match self.world.next_deadline() {
                Some(at) if at <= until => self.world.pass(at, false),
                _ => break,
            }
        }
        self.world.pass(until, false);
        Ok(())
    }

    /// Nothing may have left that is too old for any line that follows.
    fn expect_no_left(&self, line: u32, at: i64) -> Result<(), Fault> {
        let Some(left) = self.world.left.front() else {
            return Ok(());
        };
        match left.at + self.tolerance() < at {
            true => Err(Fault::new(
                line,
                format!("before this, {}", self.describe(left)),
            )),
            false => Ok(()),
        }
    }

    fn describe(&self, left: &Left) -> String {
        let bases = self.bases(left.ports);
        format!("`{}` left at {}", text(left, &bases), seconds(left.at))
    }

    /// Learns numbers from what left.
    fn look(&mut self) {
        for left in self.world.left.iter().skip(self.looked) {
            let numbers = self.numbers.entry(left.ports).or_default();
            if left.flags.contains(TcpFlags::SYN) && (numbers.local.is_none() || numbers.may_change)
            {
                numbers.local = Some(left.sequence);
                numbers.may_change = false;
            }
            if left.flags.contains(TcpFlags::ACK) && !left.flags.contains(TcpFlags::RST) {
                numbers.is_remote_taken = true;
            }
        }
        self.looked = self.world.left.len();
    }

    fn bases(&self, ports: [u16; 2]) -> Bases {
        let numbers = self.numbers.get(&ports);
        let tick = self.world.settings.tick_ns;
        let is_of_syn = numbers.map_or(0, |numbers| numbers.remote);
        Bases {
            local: numbers.and_then(|numbers| numbers.local).unwrap_or(0),
            remote: PEERS_BASE.wrapping_add(is_of_syn),
            stamp: numbers.and_then(|numbers| numbers.stamp),
            ticks_off_max: tick.map(|tick| self.tolerance().div_euclid(tick) as u32),
        }
    }

    /// Waits for a segment, and compares it.
    fn expect(&mut self, packet: &Packet, line: u32, (from, to): (i64, i64)) -> Result<(), Fault> {
        let Body::Segment(expected) = &packet.body else {
            return Err(Fault::new(
                line,
                "the stack sends no ICMP error: `<` gives one to it",
            ));
        };
        let tolerance = self.tolerance();
        let limit = match to {
            i64::MAX => self.now() + ANY_TIME_NS,
            to => to + tolerance,
        };
        self.look();
        self.retry()?;
        while self.world.left.is_empty() {
            let deadline = self.world.next_deadline();
            let Some(at) = deadline.filter(|&at| at - BEGIN_NS <= limit) else {
                let what = format!("nothing left by {}", seconds(limit));
                return Err(Fault::new(line, what));
            };
            self.world.pass(at, true);
            self.look();
            self.retry()?;
        }
        let mut left = self.take();
        self.join(expected, &mut left);
        self.learn_stamp(expected, &left);
        let ports = packet.ports.unwrap_or(self.world.ports);
        let mut bases = self.bases(ports);
        if left.flags.contains(TcpFlags::SYN) {
            bases.remote = PEERS_BASE;
        }
        if left.flags.contains(TcpFlags::RST) && left.sequence == 0 {
            // RFC 9293, 3.10.7.1: it is nobody's number.
            bases.local = 0;
        }
        let wrong = match left.ports == ports {
            false => Some(format!(
                "it left from {} to {}",
                left.ports[0], left.ports[1]
            )),
            true => difference(expected, &left, &bases, self.is_foreign),
        };
        if let Some(wrong) = wrong {
            let what = format!(
                "{wrong}: `{}` left at {}",
                text(&left, &bases),
                seconds(left.at)
            );
            return Err(Fault::new(line, what));
        }
        let is_early = from != i64::MIN && left.at < from - tolerance;
        if is_early || left.at > limit {
            let what = format!("it left at {}, not at {}", seconds(left.at), seconds(from));
            return Err(Fault::new(line, what));
        }
        Ok(())
    }

    fn take(&mut self) -> Left {
        self.looked = self.looked.saturating_sub(1);
        self.world.left.pop_front().expect("something has left")
    }

    /// A segment that is longer than the segment size stands for those that it is cut into.
    fn join(&mut self, expected: &Segment, left: &mut Left) {
        const OPTIONS_LEN_MAX: usize = 40;
        let full = left.payload.len();
        let size = self.world.segment_size(left.ports).unwrap_or(536).into();
        if expected.len as usize <= full || full == 0 || full + OPTIONS_LEN_MAX < size {
            return;
        }
        while left.payload.len() < expected.len as usize {
            let next = self.world.left.front();
            let sequence = left.sequence.wrapping_add(left.payload.len() as u32);
            let follows = next.is_some_and(|next| {
                let is_like = (next.at, next.ports, next.ack) == (left.at, left.ports, left.ack);
                next.sequence == sequence && is_like && next.window == left.window
            });
            if !follows || !left.payload.len().is_multiple_of(full) {
                return;
            }
            let next = self.take();
            left.payload.extend(&next.payload);
            left.flags = next.flags;
        }
    }

    /// The first timestamp that is compared says how the script's clock stands.
    fn learn_stamp(&mut self, expected: &Segment, left: &Left) {
        let stamp = |options: &[TcpOption]| {
            options.iter().find_map(|option| match option {
                TcpOption::Timestamps { value, .. } => Some(*value),
                _ => None,
            })
        };
        let script = expected.options.as_deref().and_then(stamp);
        if let Some(pair) = script.zip(stamp(&left.options)) {
            let numbers = self.numbers.entry(left.ports).or_default();
            numbers.stamp.get_or_insert(pair);
        }
    }

    fn inject(&mut self, packet: &Packet, line: u32) -> Result<(), Fault> {
        let ends = self.world.settings.ends;
        let [ours, theirs] = match packet.ports {
            Some([theirs, ours]) => [ours, theirs],
            None => self.world.ports,
        };
        let numbers = self.numbers.entry([ours, theirs]).or_default();
        let local = numbers.local.unwrap_or(0);
        let segment = match &packet.body {
            Body::Segment(segment) => segment,
            Body::Error(error) => {
                let sequence = error.echoed.0.wrapping_add(local);
                let frame = ends.error(error, [ours, theirs], sequence);
                let what = format!("no ICMP error {} {:?} here", error.kind, error.code);
                self.world
                    .give(&frame.ok_or_else(|| Fault::new(line, what))?);
                self.look();
                return self.retry();
            }
        };
        let is_syn = segment.flags.contains(TcpFlags::SYN);
        let start = segment.start.unwrap_or_default();
        if is_syn {
            numbers.may_change = true;
            if !numbers.is_remote_taken {
                numbers.remote = start;
            }
            let options = segment.options.as_deref().unwrap_or_default().iter();
            let mut sizes = options.rev().filter_map(|option| match option {
                TcpOption::Mss(size) => Some(*size),
                _ => None,
            });
            let size = sizes.next().unwrap_or(536);
            self.world.learn_segment_size([ours, theirs], size);
        }
        let base = PEERS_BASE.wrapping_add(if is_syn { 0 } else { numbers.remote });
        let (script, live) = numbers.stamp.unwrap_or_default();
        let offsets = Offsets {
            ack: local,
            value: 0,
            echo: live.wrapping_sub(script),
        };
        let options = bytes(segment.options.as_deref().unwrap_or_default(), offsets);
        let ack = segment.ack.map_or(0, |ack| ack.wrapping_add(local));
        let sequence = start.wrapping_add(base);
        let frame = ends.segment([theirs, ours], segment, [sequence, ack], &options);
        self.world.give(&frame);
        self.look();
        self.retry()
    }

    fn call(&mut self, call: &Call, line: u32, until: i64) -> Result<(), Fault> {
        if let Some(pending) = &self.pending {
            self.pass(pending.until + self.tolerance())?;
            if let Some(pending) = &self.pending {
                let what = format!("{} has not returned", pending.call.name);
                return Err(Fault::new(pending.line, what));
            }
        }
        if call.name == "connect" {
            for numbers in self.numbers.values_mut() {
                (numbers.may_change, numbers.is_remote_taken) = (true, false);
            }
        }
        let call = call.clone();
        self.pending = Some(Pending { line, call, until });
        let is_bounded = until > self.now();
        self.retry()?;
        match &self.pending {
            Some(pending) if !is_bounded => {
                let what = format!(
                    "{} blocks: {:?} is expected",
                    pending.call.name, pending.call.result
                );
                Err(Fault::new(line, what))
            }
            _ => Ok(()),
        }
    }

    /// Tries the pending call.
    fn retry(&mut self) -> Result<(), Fault> {
        let Some(pending) = self.pending.take() else {
            return Ok(());
        };
        let outcome = perform(&mut self.world, &pending.call, pending.line)?;
        self.look();
        if outcome == Outcome::Blocks {
            if self.now() > pending.until + self.tolerance() {
                let what = format!(
                    "{} did not return by {}",
                    pending.call.name,
                    seconds(pending.until)
                );
                return Err(Fault::new(pending.line, what));
            }
            self.pending = Some(pending);
            return Ok(());
        }
        let (line, until) = (pending.line, pending.until);
        let now = self.now();
        if (now - until).abs() > self.tolerance() {
            let what = format!("it returned at {}, not at {}", seconds(now), seconds(until));
            return Err(Fault::new(line, what));
        }
        check(&pending.call, &outcome).map_or(Ok(()), |what| Err(Fault::new(line, what)))
    }

    fn finish(mut self, line: u32) -> Result<(), Fault> {
        if let Some(pending) = &self.pending {
            self.pass(pending.until + self.tolerance())?;
        }
        if let Some(pending) = &self.pending {
            let what = format!("{} has not returned", pending.call.name);
            return Err(Fault::new(pending.line, what));
        }
        match self.world.left.front() {
            Some(left) if !self.is_foreign => Err(Fault::new(
                line,
                format!("at the end, {}", self.describe(left)),
            )),
            _ => Ok(()),
        }
    }
}

/// What differs between what a call came to and what is expected; `None`: nothing.
fn check(call: &Call, outcome: &Outcome) -> Option<String> {
    let expected = match (&call.result, &call.errno) {
        (Value::Any, _) => return None,
        (Value::Number(-1), Some(errno)) => errno.clone(),
        (Value::Number(number), _) => number.to_string(),
        (other, _) => format!("{other:?}"),
    };
    let found = match outcome {
        Outcome::Done(number) => number.to_string(),
        Outcome::Failed(errno) => (*errno).to_owned(),
        Outcome::Differs(what) => return Some(what.clone()),
        Outcome::Blocks => "a call that blocks".into(),
    };
    let is_same = found == expected || expected == "EWOULDBLOCK" && found == "EAGAIN";
    (!is_same).then(|| format!("{} returned {found}, but {expected} is expected", call.name))
}

fn seconds(ns: i64) -> String {
    format!("{}.{:06} s", ns / 1_000_000_000, ns % 1_000_000_000 / 1000)
}
