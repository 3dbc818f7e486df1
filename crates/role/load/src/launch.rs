//! Launches the requests of a load: streams or datagrams, at a pace, with rows.

use std::borrow::Cow;

use lineside_host::RunClock;

use crate::Rows;
use crate::client::{Client, DatagramClient, Pace};
use crate::error::LoadError;
use crate::outcome::{Observer, Outcome};
use crate::protocol::{Client as StreamProtocol, DatagramClient as DatagramProtocol, Named};
use crate::recording::{Program, Recording};
use crate::run::{Part, run_each};
use crate::serve::Serve;
use crate::settings::Settings;
use crate::timetable::Timetable;
use crate::worker::Load;

/// The requests of a load, as its protocol read them from words.
pub trait Requests: Send + Sync {
    /// The operations that have times of their own.
    fn operations(&self) -> &'static [&'static str];

    /// What a status is called.
    fn status(&self, status: u32) -> Cow<'static, str>;

    /// Makes the load, to its end.
    fn run(&self, launch: &Launch<'_>, observer: &mut dyn Observer) -> Result<Outcome, LoadError>;

    /// The server of these requests at the other end of a device, if this program has one.
    fn peer(&self) -> Option<&dyn Serve> {
        None
    }
}

/// All of a run but its requests.
pub struct Launch<'a> {
    /// Whose rows they are.
    pub program: Program,
    /// How it goes.
    pub settings: &'a Settings,
    /// When requests leave.
    pub timetable: &'a Timetable,
    /// Seeds all draws.
    pub seed: u64,
    /// Its rows, if they are written.
    pub recording: Option<&'a Recording>,
    /// The clock of the run.
    pub clock: RunClock,
}

impl Launch<'_> {
    fn pace(&self, part: &Part) -> Pace {
        self.timetable.pace(self.seed, part.worker, part.workers)
    }

    fn rows(&self, worker: u32) -> Option<Rows> {
        self.recording?.rows(worker)
    }

    /// Runs the workers' clients, beside the threads that write their rows.
    fn run<L: Load>(
        &self,
        client: impl Fn(Part) -> L + Sync,
        names: impl Fn() -> Box<dyn Named> + Sync,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, LoadError> {
        let mut load = || run_each(self.settings, &client, self.clock, observer);
        match self.recording {
            Some(recording) => recording.beside(&self.program, &names, self.clock, load),
            None => load(),
        }
    }
}

/// Requests over byte streams, of clients that `make` makes.
pub struct Streams<F> {
    make: F,
    peer: Option<Box<dyn Serve>>,
}

impl<F> Streams<F> {
    /// Without a server of their own.
    pub fn new(make: F) -> Self {
        Self { make, peer: None }
    }

    /// With this server at the other end of a device.
    pub fn with_peer(make: F, peer: impl Serve + 'static) -> Self {
        Self {
            make,
            peer: Some(Box::new(peer)),
        }
    }
}

impl<P, F> Requests for Streams<F>
where
    P: StreamProtocol + 'static,
    F: Fn() -> P + Send + Sync,
{
    fn operations(&self) -> &'static [&'static str] {
        (self.make)().operations()
    }

    fn status(&self, status: u32) -> Cow<'static, str> {
        (self.make)().status(status)
    }

    fn run(&self, launch: &Launch<'_>, observer: &mut dyn Observer) -> Result<Outcome, LoadError> {
        let client = |part: Part| {
            let pace = launch.pace(&part);
            let rows = launch.rows(part.worker);
            Client::new(
                (self.make)(),
                part.plan,
                pace,
                part.targets,
                part.locals,
                rows,
            )
        };
        launch.run(client, || Box::new((self.make)()), observer)
    }

    fn peer(&self) -> Option<&dyn Serve> {
        self.peer.as_deref()
    }
}

/// Requests in datagrams, of clients that this makes for a worker of this many.
pub struct Datagrams<F>(pub F);

impl<P, F> Requests for Datagrams<F>
where
    P: DatagramProtocol + 'static,
    F: Fn(Worker) -> P + Send + Sync,
{
    fn operations(&self) -> &'static [&'static str] {
        (self.0)(Worker::default()).operations()
    }

    fn status(&self, status: u32) -> Cow<'static, str> {
        (self.0)(Worker::default()).status(status)
    }

    fn run(&self, launch: &Launch<'_>, observer: &mut dyn Observer) -> Result<Outcome, LoadError> {
        let of = |worker, workers| Worker {
            place: (worker, workers),
            // Workers of several hosts have names of their own.
            run: launch.settings.secret[0],
            ahead_ns: launch.clock.ahead_ns(),
        };
        let client = |part: Part| {
            let pace = launch.pace(&part);
            let rows = launch.rows(part.worker);
            let protocol = (self.0)(of(part.worker, part.workers));
            DatagramClient::new(protocol, part.plan, pace, part.targets, part.locals, rows)
        };
        launch.run(client, || Box::new((self.0)(of(0, 1))), observer)
    }
}

/// The worker for which a client of datagrams is made.
#[derive(Debug, Clone, Copy)]
pub struct Worker {
    /// Its place, and how many there are.
    pub place: (u32, u32),
    /// Names the run.
    pub run: u64,
    /// What the loop's clock is ahead of the one that others have too.
    pub ahead_ns: i64,
}

impl Default for Worker {
    fn default() -> Self {
        Self {
            place: (0, 1),
            run: 0,
            ahead_ns: 0,
        }
    }
}
