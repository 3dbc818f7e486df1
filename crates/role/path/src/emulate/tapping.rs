//! The thread beside a loop that takes copies of its frames.

use std::sync::mpsc::Sender;

use lineside_account::Budget;
use lineside_reactor::{TapPoints, TapPort, tap};
use lineside_run::MonitorSwitch;

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

/// Runs `run` with the thread beside it, whose result is the second one. The tap ends with `run`,
/// unless that [ends it](crate::LivePath::set_tap) before.
pub(super) fn while_tapped<T: Send, R>(
    live: &mut LiveLoop,
    tapping: Option<Tapping<impl FnOnce(TapPort, Vec<u16>) -> T + Send>>,
    budget: &Budget,
    run: impl FnOnce(&mut LiveLoop) -> R,
) -> Result<(R, Option<std::thread::Result<T>>), EmulationError> {
    let bytes_max = budget.limit_bytes() / 8;
    let mut first = 0;
    let firsts = (0..live.sides()).map(|side| {
        let this = first;
        first += live.queues(side) as u16;
        this
    });
    let firsts: Vec<u16> = firsts.collect();
    let ends = tapping.map(
        |Tapping {
             points,
             take,
             switches,
         }| {
            live.engine_mut().set_switches(switches);
            let (tap, port) = tap(firsts.len(), points, bytes_max, budget)?;
            live.engine_mut().set_tap(Some(tap));
            Some((port, take))
        },
    );
    let ends = ends.map(|ends| ends.ok_or(EmulationError::TapMemory));
    let ends = ends.transpose()?;
    Ok(std::thread::scope(|scope| {
        let thread = ends.map(|(port, take)| scope.spawn(move || take(port, firsts)));
        let ran = run(live);
        // The thread ends when it has taken what is in the queue.
        live.engine_mut().set_tap(None);
        (ran, thread.map(std::thread::ScopedJoinHandle::join))
    }))
}
