//! The loop of a live run, turn after turn, until its end: requests, a wall clock that is set, and
//! the kernel's counts in between.
//!
//! ```text
//!  Run::drive: sandbox ─► start of the record ─► turns ───────────────────────► its end
//!                         turn ─► answer ─► watch, each ms ─► tick, each s ─► next ──┐
//!                          ▲                                                         │
//!                          └─────── Continue, or Drain: ports are shut ◄─────────────┘
//! ```

use std::time::Duration;

use lineside_account::Budget;
use lineside_host::Sandbox;
use lineside_port::PortError;
use lineside_reactor::{Engine, Reactor, TapPoints, TapPort, Tapped, tap};
use lineside_time::{Clock, ClockOffset, Nanoseconds, SteadyClock};
use lineside_trace::certificate::run::Gone;

use crate::{Record, Run, not_confined};

/// The kernel's counts are read so often, which takes tens of microseconds.
pub const TICK: Duration = Duration::from_secs(1);

/// So often the loop looks whether the wall clock was set.
const WATCH_NS: Nanoseconds = 1_000_000;

/// What the loop does after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It turns on.
    Continue,
    /// It takes no more frames, and ends once those under way have left.
    Drain,
    /// It ends.
    Stop,
}

/// The wall clock was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSet {
    /// By this.
    pub by_ns: i64,
    /// It is ahead of the loop's clock by this from now on.
    pub ahead_ns: i64,
}

/// What a role does between the turns of its loop.
pub trait Live {
    /// What the loop drives.
    type Engine: Engine;
    /// Why it cannot go on, beside a port that fails.
    type Error;

    /// Frames under way when the run is to end leave within this time, or are lost.
    const DRAIN: Duration;

    /// Does the next thing that is asked for, or a part of it, if there is one.
    fn answer(&mut self, live: &mut Reactor<Self::Engine>, clock: &impl Clock);

    /// Called each millisecond, with what happened to the wall clock since.
    fn watch(&mut self, live: &mut Reactor<Self::Engine>, now: Nanoseconds, set: Option<ClockSet>);

    /// Whether the kernel's counts are read now, `since` they were.
    fn is_tick(&self, live: &Reactor<Self::Engine>, now: Nanoseconds, since: Duration) -> bool;

    /// The kernel's counts have been read.
    fn on_tick(&mut self, live: &mut Reactor<Self::Engine>, now: Nanoseconds);

    /// Whether the loop turns on, so long after its start.
    fn next(
        &mut self,
        live: &mut Reactor<Self::Engine>,
        elapsed: Duration,
    ) -> Result<Next, Self::Error>;
}

/// Turns the loop until a port fails or the role ends it. Returns the failure of a port.
pub fn turns<L: Live>(
    live: &mut Reactor<L::Engine>,
    clock: &impl SteadyClock,
    role: &mut L,
) -> Result<Option<PortError>, L::Error> {
    let began_ns = clock.now();
    let mut wall = ClockOffset::new(clock.wall_offset());
    let mut watched_ns = began_ns;
    let (mut ticked, mut shut) = (Duration::ZERO, None);
    loop {
        if let Err(error) = live.turn(&mut || clock.now()) {
            return Ok(Some(error));
        }
        role.answer(live, clock);
        let now = clock.now();
        if now - watched_ns >= WATCH_NS {
            watched_ns = now;
            let set = wall.observe(clock.wall_offset()).map(|by_ns| ClockSet {
                by_ns,
                ahead_ns: wall.ahead_ns(),
            });
            role.watch(live, now, set);
        }
        let elapsed = Duration::from_nanos((now - began_ns) as u64);
        if let Some(shut) = shut {
            if live.held() == 0 || elapsed - shut > L::DRAIN {
                return Ok(None);
            }
            continue;
        }
        if role.is_tick(live, now, elapsed - ticked) {
            ticked = elapsed;
            live.ports_mut().for_each(|port| port.account());
            role.on_tick(live, now);
        }
        match role.next(live, elapsed)? {
            Next::Stop => return Ok(None),
            Next::Drain => {
                live.ports_mut().for_each(|port| port.shut());
                shut = Some(elapsed);
            }
            Next::Continue => {}
        }
    }
}

/// What takes copies of frames, in a thread of its own, until the port's end.
pub struct Tapping<F> {
    /// How much of which frames.
    pub points: TapPoints,
    /// Takes them.
    pub take: F,
}

/// The budget has no room for a tap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoTapMemory;

/// Runs `run` with the thread beside it, whose result is the second one. The tap ends with `run`,
/// unless that ends it before. `start` is what can still fail before there is the thread.
pub fn while_tapped<E: Engine + Tapped, T: Send, S, R, F: From<NoTapMemory>>(
    live: &mut Reactor<E>,
    tapping: Option<Tapping<impl FnOnce(TapPort) -> T + Send>>,
    budget: &Budget,
    start: impl FnOnce(&mut Reactor<E>) -> Result<S, F>,
    run: impl FnOnce(&mut Reactor<E>, S) -> R,
) -> Result<(R, Option<std::thread::Result<T>>), F> {
    let bytes_max = budget.limit_bytes() / 8;
    let sides = live.sides();
    let ends = tapping.map(|Tapping { points, take }| {
        let (tap, port) = tap(sides, points, bytes_max, budget)?;
        live.engine_mut().set_tap(Some(tap));
        Some((port, take))
    });
    let ends = ends.map(|ends| ends.ok_or(NoTapMemory)).transpose()?;
    let started = start(live)?;
    Ok(std::thread::scope(|scope| {
        let thread = ends.map(|(port, take)| scope.spawn(move || take(port)));
        let ran = run(live, started);
        // The thread ends when it has taken what is in the queue.
        live.engine_mut().set_tap(None);
        (ran, thread.map(std::thread::ScopedJoinHandle::join))
    }))
}

/// Which sides' ports are gone, of those that the user knows.
#[derive(Debug, Default)]
pub struct GoneSides(usize);

impl GoneSides {
    /// A warning for each side of `gone` that has gone since; `name` is its name.
    pub fn warnings<'a>(
        &mut self,
        gone: &[Gone],
        name: impl Fn(usize) -> &'a str,
    ) -> impl Iterator<Item = String> {
        let new = &gone[self.0..];
        self.0 = gone.len();
        new.iter().map(move |side| {
            let name = name(side.side);
            let why = &side.why;
            format!("{name} takes no further part, the other ports go on: {why}")
        })
    }
}

impl Run {
    /// Drives a live run, which enters the sandbox, or leaves it out and why, and starts its record
    /// when all that can fail has been tried. One that cannot start leaves its folder as it was.
    pub fn drive<T, E>(
        &mut self,
        sandbox: Result<Sandbox, &'static str>,
        live: impl FnOnce(Option<Sandbox>, &mut Record) -> Result<T, E>,
    ) -> Result<T, E> {
        self.manifest.sandbox = sandbox.as_ref().err().map(|why| not_confined(why));
        let mut record = Record::of(self);
        let ran = live(sandbox.ok(), &mut record)?;
        self.manifest.sandbox = record.end();
        Ok(ran)
    }
}
