//! A server beside a load, in one process: the other end of a device between the two.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use lineside_host::RunClock;
use lineside_tcp::Prefix;

use crate::error::ServeError;
use crate::prepared::Prepared;
use crate::protocol::{Carrier, listed, services};
use crate::serve::{Serve, Served};
use crate::settings::{Opened, ServeSettings, StackSettings, Transport};
use crate::words::UsageError;

/// Connections, if a device multiplies them.
const CONNECTIONS_MAX: u32 = 1 << 20;

/// The server of a load at another interface.
pub struct Peer<'a> {
    /// How it serves.
    pub settings: ServeSettings,
    server: &'a dyn Serve,
}

impl<'a> Peer<'a> {
    /// The server of a load by our own TCP, at `interface`.
    pub fn new(prepared: &'a Prepared, interface: &str) -> Result<Self, UsageError> {
        let Transport::Stack(stack) = &prepared.settings.transport else {
            return Err(UsageError::new(
                "--serve-on is the other end of -i: name the interface of this end with it",
            ));
        };
        let Some(server) = prepared.requests.peer() else {
            let served = services().into_iter();
            let served = served.filter(|of| of.carrier == Carrier::Tcp && !of.has_further_ports);
            let served: Vec<_> = served.map(|of| of.name).collect();
            return Err(UsageError(format!(
                "--serve-on serves {}: serve others with 'lineside load serve'",
                listed(&served, "and")
            )));
        };
        let at = SocketAddr::from(prepared.settings.targets[0]);
        let settings = ServeSettings {
            at,
            stack: Some(Box::new(StackSettings {
                interface: interface.to_owned(),
                addresses: vec![Prefix::single(at.ip())],
                connections_max: CONNECTIONS_MAX,
                neighbours: None,
                taps: None,
                opened: Opened::default(),
                ..(**stack).clone()
            })),
            workers: prepared.settings.workers,
            wait: prepared.settings.wait,
            budget: prepared.settings.budget.clone(),
            secret: prepared.settings.secret.map(|secret| !secret),
        };
        Ok(Self { settings, server })
    }

    /// Serves until `run` returns, which begins when the server listens.
    ///
    /// Fails without running if there is nothing that listens. What came of the server is the
    /// second: it may have ended early.
    pub fn while_serving<T>(
        &self,
        clock: RunClock,
        run: impl FnOnce() -> T,
    ) -> Result<(T, Result<Served, ServeError>), ServeError> {
        let stop = AtomicBool::new(false);
        let (send, listens) = channel();
        thread::scope(|scope| {
            let stop = &stop;
            let served = scope.spawn(move || {
                // The end of this closure ends the wait for an address that never comes.
                let ready = move |at| {
                    let _ = send.send(at);
                };
                self.server.serve(&self.settings, clock, stop, &ready)
            });
            let outcome = listens.recv().ok().map(|_| run());
            stop.store(true, Ordering::Relaxed);
            let served = served
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let why = || ServeError::Worker(0, "it ended before it listened".to_owned());
            match outcome {
                Some(outcome) => Ok((outcome, served)),
                None => Err(served.err().unwrap_or_else(why)),
            }
        })
    }
}
