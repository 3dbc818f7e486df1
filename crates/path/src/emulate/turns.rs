use std::process::ExitStatus;
use std::time::Duration;

use lineside_host::{Stopwatch, SystemClock};
use lineside_port::{Facts, Port, PortError};
use lineside_reactor::LoopFacts;
use lineside_time::Clock;
use lineside_trace::InputFacts;

use super::EmulationError;
use super::control::Changes;
use crate::{Certificate, LiveLoop, live_certificate, loop_facts};

/// Frames under way when the run is to end leave within this time, or are lost.
const DRAIN: Duration = Duration::from_secs(1);

/// The kernel's counts are read so often, which takes tens of microseconds: if possible while
/// nothing is due.
const TICK: Duration = Duration::from_secs(1);

const TICK_MAX: Duration = Duration::from_secs(10);

/// What a user should know while a run goes on.
#[derive(Debug)]
pub enum Event<'a> {
    /// The ports are open.
    Listening(&'a [&'a Facts]),
    /// A sentence about the loop.
    Note(String),
    /// A sentence about settings or the machine that may be as intended.
    Advice(String),
    /// Something is wrong.
    Warning(String),
    /// Nothing listens at the server after this wait; the client begins all the same.
    NothingListens(Duration),
    /// The server ended before the client.
    ServerEnded(ExitStatus),
    /// `pasta` ended, so nothing outside is reachable.
    OutsideEnded(ExitStatus),
}

/// The outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The path's certificate, judged by all that is known.
    pub certificate: Certificate,
    /// What the loop measured of itself.
    pub facts: LoopFacts,
    /// The ports, in the order of their sides.
    pub inputs: Vec<InputFacts>,
    /// The signal that ended the run.
    pub signal: Option<u8>,
    /// The failure that ended the run.
    pub failure: Option<PortError>,
}

impl Outcome {
    /// Reads the kernel's counts a last time, and reports.
    pub(super) fn of(live: &mut LiveLoop, signal: Option<u8>, failure: Option<PortError>) -> Self {
        live.ports_mut().for_each(|port| port.account());
        let facts = live.ports().flat_map(Port::facts);
        let inputs = facts.map(lineside_run::input_facts).collect();
        Self {
            certificate: live_certificate(live, "wall clock"),
            facts: loop_facts(live),
            inputs,
            signal,
            failure,
        }
    }
}

/// What the loop does after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// It turns on.
    Continue,
    /// It takes no more frames, and ends once those under way have left.
    Drain,
    /// It ends.
    Stop,
}

/// Turns the loop, and makes changes between two turns, until a port fails or `next` ends it, which
/// is given the time since the start after each turn. Returns the failure of a port.
pub(super) fn turns(
    live: &mut LiveLoop,
    clock: &SystemClock,
    changes: &Changes,
    mut next: impl FnMut(Duration) -> Result<Next, EmulationError>,
) -> Result<Option<PortError>, EmulationError> {
    let stopwatch = Stopwatch::start();
    let (mut ticked, mut shut) = (Duration::ZERO, None);
    let mut now = || clock.now();
    loop {
        if let Err(error) = live.turn(&mut now) {
            return Ok(Some(error));
        }
        changes.make_next(live, clock);
        let elapsed = stopwatch.elapsed();
        if let Some(shut) = shut {
            if live.held() == 0 || elapsed - shut > DRAIN {
                return Ok(None);
            }
            continue;
        }
        match next(elapsed)? {
            Next::Stop => return Ok(None),
            Next::Drain => {
                live.ports_mut().for_each(|port| port.shut());
                shut = Some(elapsed);
            }
            Next::Continue if elapsed - ticked >= TICK => {
                if live.is_calm(clock.now()) || elapsed - ticked >= TICK_MAX {
                    ticked = elapsed;
                    live.ports_mut().for_each(|port| port.account());
                }
            }
            Next::Continue => {}
        }
    }
}
