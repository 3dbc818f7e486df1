//! The thread beside a loop that takes copies of its frames.

use lineside_account::Budget;
use lineside_reactor::{TapPoints, TapPort, tap};

use super::EmulationError;
use crate::LiveLoop;

/// What takes copies of frames, in a thread of its own.
pub struct Tapping<F> {
    /// How much of which frames.
    pub points: TapPoints,
    /// Takes them, until the port's end.
    pub take: F,
}

/// Runs `run` with the thread beside it, whose result is the second one. The tap ends with `run`,
/// unless that [ends it](crate::LivePath::set_tap) before.
pub(super) fn while_tapped<T: Send, R>(
    live: &mut LiveLoop,
    sides: usize,
    tapping: Option<Tapping<impl FnOnce(TapPort) -> T + Send>>,
    budget: &Budget,
    run: impl FnOnce(&mut LiveLoop) -> R,
) -> Result<(R, Option<std::thread::Result<T>>), EmulationError> {
    let bytes_max = budget.limit_bytes() / 8;
    let ends = tapping.map(|Tapping { points, take }| {
        let (tap, port) = tap(sides, points, bytes_max, budget)?;
        live.engine_mut().set_tap(Some(tap));
        Some((port, take))
    });
    let ends = ends.map(|ends| ends.ok_or(EmulationError::TapMemory));
    let ends = ends.transpose()?;
    Ok(std::thread::scope(|scope| {
        let thread = ends.map(|(port, take)| scope.spawn(move || take(port)));
        let ran = run(live);
        // The thread ends when it has taken what is in the queue.
        live.engine_mut().set_tap(None);
        (ran, thread.map(std::thread::ScopedJoinHandle::join))
    }))
}
