//! A client and a server in one process, with a device between them: what one end sent and the
//! other one saw is known of one clock.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use lineside_host::RunClock;

use crate::protocol::{Client as ClientProtocol, Server as ServerProtocol};
use crate::run::{LoadError, Make, Outcome, Settings, Watch, run};
use crate::serve::{ServeError, ServeSettings, Served, serve};

/// Why a pair did not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PairError {
    /// The client's end.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The server's end.
    #[error("the server's end: {0}")]
    Serve(#[from] ServeError),
    /// The server's end ended early.
    #[error("the server's end ended before it listened")]
    NoServer,
}

/// Serves as `serving` says, runs a load against it, and stops serving. `target` makes the client's
/// settings of the address at which the server listens.
pub fn run_pair<P: ClientProtocol, S: ServerProtocol>(
    target: impl FnOnce(SocketAddr) -> Settings,
    make: &impl Make<P>,
    serving: &ServeSettings,
    make_server: &(impl Fn() -> S + Sync),
    clock: RunClock,
    watch: &mut impl Watch,
) -> Result<(Outcome, Served), PairError> {
    let stop = AtomicBool::new(false);
    let (tell, heard) = channel();
    thread::scope(|scope| {
        let stop = &stop;
        let served = scope.spawn(move || {
            serve(serving, make_server, clock, stop, |at| {
                let _ = tell.send(at);
            })
        });
        let outcome = match heard.recv() {
            Ok(at) => Some(run(&target(at), make, clock, watch)),
            Err(_) => None,
        };
        stop.store(true, Ordering::Relaxed);
        let served = served.join().map_err(|_| PairError::NoServer)?;
        match outcome {
            Some(outcome) => Ok((outcome?, served?)),
            None => Err(served.err().map_or(PairError::NoServer, PairError::from)),
        }
    })
}
