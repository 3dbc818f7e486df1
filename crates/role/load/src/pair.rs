//! A server beside something else, in one process: the other end of a device between the two.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use lineside_host::RunClock;

use crate::protocol::Server;
use crate::serve::{ServeError, ServeSettings, Served, serve};

/// Serves until `run` returns, which begins when the server listens and is given its address.
///
/// Fails without running if there is nothing that listens; and after it, if the server ended early.
pub fn while_serving<S: Server, T>(
    settings: &ServeSettings,
    make: &(impl Fn() -> S + Sync),
    clock: RunClock,
    run: impl FnOnce(SocketAddr) -> T,
) -> Result<(T, Served), ServeError> {
    let stop = AtomicBool::new(false);
    let (tell, heard) = channel();
    thread::scope(|scope| {
        let stop = &stop;
        let served = scope.spawn(move || {
            // The end of this closure ends the wait for an address that never comes.
            serve(settings, make, clock, stop, |at| {
                let _ = tell.send(at);
            })
        });
        let outcome = heard.recv().ok().map(run);
        stop.store(true, Ordering::Relaxed);
        let served = served
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        match outcome {
            Some(outcome) => Ok((outcome, served)),
            None => Err(ServeError::Worker(
                0,
                "it ended before it listened".to_owned(),
            )),
        }
    })
}
