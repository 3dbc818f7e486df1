//! The thread beside a loop that takes copies of its frames.

use std::sync::mpsc::Sender;

use lineside_account::Budget;
use lineside_reactor::{TapPoints, TapPort};
use lineside_run::{MonitorSwitch, live};

use super::EmulationError;
use crate::LiveLoop;

/// What takes copies of frames, in a thread of its own.
pub struct Tapping<F> {
    /// How much of which frames.
    pub points: TapPoints,
    /// Takes them, until the port's end; the second argument is the number of the first queue of
    /// each port, as inputs of the run are numbered.
    pub take: F,
    /// Where steps switch monitors.
    pub switches: Option<Sender<MonitorSwitch>>,
}

/// Runs `run` with the thread beside it, whose result is the second one; `start` is what can still
/// fail before.
pub(super) fn while_tapped<T: Send, S, R>(
    live: &mut LiveLoop,
    tapping: Option<Tapping<impl FnOnce(TapPort, Vec<u16>) -> T + Send>>,
    budget: &Budget,
    start: impl FnOnce(&mut LiveLoop) -> Result<S, EmulationError>,
    run: impl FnOnce(&mut LiveLoop, S) -> R,
) -> Result<(R, Option<std::thread::Result<T>>), EmulationError> {
    let mut first = 0;
    let firsts = (0..live.sides()).map(|side| {
        let this = first;
        first += live.queues(side) as u16;
        this
    });
    let firsts: Vec<u16> = firsts.collect();
    let tapping = tapping.map(|tapping| {
        live.engine_mut().set_switches(tapping.switches);
        live::Tapping {
            points: tapping.points,
            take: move |port| (tapping.take)(port, firsts),
        }
    });
    live::while_tapped(live, tapping, budget, start, run)
}
