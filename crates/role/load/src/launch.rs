//! Launches a load that was prepared: its protocol, its pace, its settings.

use std::borrow::Cow;

use lineside_host::RunClock;

use crate::Rows;
use crate::certificate::{Asked, Certificate, Known, Limits, Machine, Planned};
use crate::client::{Client, DatagramClient};
use crate::outcome::Outcome;
use crate::protocol::{
    Client as StreamProtocol, DatagramClient as DatagramProtocol, Named, Protocol,
};
use crate::recording::Recording;
use crate::run::{LoadError, Part, Settings, Watch, run_each, secret};
use crate::serve::Serve;
use crate::timetable::Timetable;
use crate::words::UsageError;
use crate::worker::Load;

/// The requests of a load, as its protocol read them from words.
pub trait Requests: Send + Sync {
    /// The operations whose times are told apart.
    fn operations(&self) -> &'static [&'static str];

    /// What a status is called.
    fn status(&self, status: u32) -> Cow<'static, str>;

    /// Makes the load, to its end.
    fn run(&self, launch: &Launch<'_>, watch: &mut dyn Watch) -> Result<Outcome, LoadError>;

    /// The server of these requests at the other end of a device, if this program has one.
    fn peer(&self) -> Option<&dyn Serve> {
        None
    }
}

/// A load, ready to run.
pub struct Prepared {
    /// Its protocol.
    pub protocol: &'static Protocol,
    /// What is sent.
    pub requests: Box<dyn Requests>,
    /// When.
    pub timetable: Timetable,
    /// How.
    pub settings: Settings,
    /// What was asked for, for the certificate.
    pub asked: Asked,
    /// Seeds all draws.
    pub seed: u64,
}

/// A run of a prepared load.
pub struct Launch<'a> {
    /// The load.
    pub prepared: &'a Prepared,
    /// Its rows, if they are written.
    pub recording: Option<&'a Recording>,
    /// The clock of the run.
    pub clock: RunClock,
}

impl Prepared {
    /// Changes the rate and the duration, for another run.
    pub fn change(&mut self, rate: f64, duration_ns: i64) -> Result<(), UsageError> {
        self.timetable.change_rate(&format!("{rate:.3}"))?;
        self.asked.arrivals = self.timetable.arrivals();
        self.asked.rate = self.timetable.rate();
        self.settings.timing.duration_ns = Some(duration_ns);
        self.settings.secret = secret();
        Ok(())
    }

    /// Makes the load, to its end.
    pub fn run(
        &self,
        recording: Option<&Recording>,
        clock: RunClock,
        watch: &mut dyn Watch,
    ) -> Result<Outcome, LoadError> {
        let launch = Launch {
            prepared: self,
            recording,
            clock,
        };
        self.requests.run(&launch, watch)
    }

    /// The certificate of a run.
    pub fn certificate(
        &self,
        outcome: &Outcome,
        was_stopped: bool,
        machine: Machine,
        limits: Limits,
        failures: Vec<String>,
    ) -> Certificate {
        let planned = self.planned(outcome, was_stopped);
        // Of a connection that arrives, the request leaves after its handshake; a schedule that was
        // moved is none of the model's.
        let is_judged = !self.asked.is_of_connections() && outcome.counts.moved == 0;
        let fitness = is_judged.then(|| self.timetable.fitness(self.seed, outcome));
        let known = Known {
            planned,
            fitness: fitness.flatten(),
            operations: self.requests.operations(),
            status_name: &|status| self.requests.status(status).into_owned(),
            machine,
            failures,
        };
        Certificate::new(self.asked.clone(), outcome, known, limits)
    }

    /// What the schedule held; of a run that a signal ended, what had come of it.
    fn planned(&self, outcome: &Outcome, was_stopped: bool) -> Option<Planned> {
        if was_stopped {
            return self.asked.is_open_loop().then(|| Planned {
                arrivals: outcome.counts.planned,
                span_ns: outcome.wall_ns.max(0).cast_unsigned(),
            });
        }
        let duration_ns = self.settings.timing.duration_ns;
        self.timetable
            .planned(self.seed, duration_ns, self.settings.plan.requests)
    }
}

impl Launch<'_> {
    fn rows(&self, worker: u32) -> Option<Rows> {
        self.recording?.rows(worker)
    }

    /// Runs the workers' clients, beside the threads that write their rows.
    fn run<L: Load>(
        &self,
        client: impl Fn(Part) -> L + Sync,
        names: impl Fn() -> Box<dyn Named> + Sync,
        watch: &mut dyn Watch,
    ) -> Result<Outcome, LoadError> {
        let mut load = || run_each(&self.prepared.settings, &client, self.clock, watch);
        match self.recording {
            Some(recording) => recording.beside(self.prepared.protocol, &names, load),
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

    fn run(&self, launch: &Launch<'_>, watch: &mut dyn Watch) -> Result<Outcome, LoadError> {
        let Prepared {
            timetable, seed, ..
        } = launch.prepared;
        let client = |part: Part| {
            let pace = timetable.pace(*seed, part.worker, part.workers);
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
        launch.run(client, || Box::new((self.make)()), watch)
    }

    fn peer(&self) -> Option<&dyn Serve> {
        self.peer.as_deref()
    }
}

/// Requests in datagrams, of clients that this makes for a worker of so many.
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

    fn run(&self, launch: &Launch<'_>, watch: &mut dyn Watch) -> Result<Outcome, LoadError> {
        let Prepared {
            timetable,
            seed,
            settings,
            ..
        } = launch.prepared;
        let of = |worker, workers| Worker {
            place: (worker, workers),
            // Workers of several hosts have names of their own.
            run: settings.secret[0],
            ahead_ns: launch.clock.ahead_ns(),
        };
        let client = |part: Part| {
            let pace = timetable.pace(*seed, part.worker, part.workers);
            let rows = launch.rows(part.worker);
            let protocol = (self.0)(of(part.worker, part.workers));
            DatagramClient::new(protocol, part.plan, pace, part.targets, part.locals, rows)
        };
        launch.run(client, || Box::new((self.0)(of(0, 1))), watch)
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
