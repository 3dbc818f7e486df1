//! Makes the load that was prepared, by the protocol that it has.

use std::sync::Arc;

use lineside_host::{RunClock, clock_name};
use lineside_load::Rows;
use lineside_load::certificate::{Certificate, Known, Limits, Machine, Planned};
use lineside_load::client::{DatagramClient, Pace};
use lineside_load::protocol::nfs::{NAMES, prepare, status_name};
use lineside_load::protocol::{
    Client, DatagramClient as DatagramProtocol, Echo, Memcached, Nfs, Sink, Source, Stamped,
};
use lineside_load::run::{LoadError, Make, Outcome, Part, Watch, run as run_load, run_each};

use super::progress::OnlyStops;
use super::recording::{OfDatagrams, OfStreams, Recording};
use super::settings::{Prepared, Requests};

impl Prepared {
    pub(super) fn run(
        &self,
        recording: Option<&Recording>,
        clock: RunClock,
        progress: &mut impl Watch,
    ) -> anyhow::Result<Outcome> {
        let with = Beside {
            recording,
            clock,
            progress,
        };
        Ok(match &self.requests {
            Requests::Http(http) => self.run_with(&|| (**http).clone(), with)?,
            Requests::Echo { bytes } => self.run_with(&|| Echo::new(*bytes, self.seed), with)?,
            Requests::Sink(sizes) => {
                self.run_with(&|| Sink::new((**sizes).clone(), self.seed), with)?
            }
            Requests::Source(sizes) => {
                self.run_with(&|| Source::new(sizes.as_deref().cloned(), self.seed), with)?
            }
            Requests::Memcached(mix) => self.run_with(&|| Memcached::new((**mix).clone()), with)?,
            Requests::Dns(dns) => self.run_datagrams(&|_, _| (**dns).clone(), with)?,
            Requests::Udp { sizes, is_echo } => {
                // Workers of several hosts have names of their own.
                let [run, _] = self.settings.secret;
                let stamped = Stamped::new((**sizes).clone(), self.seed, run, *is_echo);
                let stamped = stamped.with_clock(clock_name(), clock.ahead_ns());
                let of = |worker, workers| stamped.clone().of_worker(worker, workers);
                self.run_datagrams(&of, with)?
            }
            Requests::Nfs(nfs) => {
                let (mix, preparation) = &**nfs;
                let mut until = OnlyStops(&mut *with.progress);
                let tree = Arc::new(prepare(&self.settings, preparation, clock, &mut until)?);
                self.run_with(&|| Nfs::new(mix.clone(), Arc::clone(&tree)), with)?
            }
        })
    }

    fn run_with<P: Client>(
        &self,
        protocol: &(impl Fn() -> P + Sync),
        with: Beside<'_, impl Watch>,
    ) -> Result<Outcome, LoadError> {
        let making = Making {
            prepared: self,
            protocol,
            recording: with.recording,
        };
        let mut load = || run_load(&self.settings, &making, with.clock, with.progress);
        match with.recording {
            Some(recording) => recording.beside(&|| OfStreams(protocol()), load),
            None => load(),
        }
    }

    fn run_datagrams<P: DatagramProtocol>(
        &self,
        protocol: &(impl Fn(u32, u32) -> P + Sync),
        with: Beside<'_, impl Watch>,
    ) -> Result<Outcome, LoadError> {
        let client = |part: Part| {
            let pace = self.pace.pace(self.seed, part.worker, part.workers);
            let rows = with
                .recording
                .and_then(|recording| recording.rows(part.worker));
            let protocol = protocol(part.worker, part.workers);
            DatagramClient::new(protocol, part.plan, pace, part.targets, part.locals, rows)
        };
        let mut load = || run_each(&self.settings, &client, with.clock, with.progress);
        match with.recording {
            Some(recording) => recording.beside(&|| OfDatagrams(protocol(0, 1)), load),
            None => load(),
        }
    }

    pub(super) fn certificate(
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
        let fitness = is_judged.then(|| self.pace.fitness(self.seed, outcome));
        let known = Known {
            planned,
            fitness: fitness.flatten(),
            operations: &self.operations(),
            status_name: &|status| self.status_name(status),
            machine,
            failures,
        };
        Certificate::new(self.asked.clone(), outcome, known, limits)
    }

    fn operations(&self) -> Vec<&'static str> {
        match &self.requests {
            Requests::Http(_)
            | Requests::Echo { .. }
            | Requests::Sink(_)
            | Requests::Source(_)
            | Requests::Udp { .. } => Vec::new(),
            Requests::Memcached(mix) => Memcached::new((**mix).clone()).operations().to_vec(),
            Requests::Dns(dns) => DatagramProtocol::operations(&**dns).to_vec(),
            Requests::Nfs(_) => NAMES.to_vec(),
        }
    }

    fn status_name(&self, status: u32) -> String {
        match &self.requests {
            Requests::Http(_)
            | Requests::Echo { .. }
            | Requests::Sink(_)
            | Requests::Source(_)
            | Requests::Udp { .. } => status.to_string(),
            Requests::Memcached(mix) => Memcached::new((**mix).clone()).status(status).into_owned(),
            Requests::Dns(dns) => DatagramProtocol::status(&**dns, status).into_owned(),
            Requests::Nfs(_) => status_name(status).into_owned(),
        }
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
        self.pace
            .planned(self.seed, duration_ns, self.settings.plan.requests)
    }
}

/// What goes on beside a run.
struct Beside<'a, W> {
    recording: Option<&'a Recording>,
    clock: RunClock,
    progress: &'a mut W,
}

/// What makes the parts of each worker.
struct Making<'a, F> {
    prepared: &'a Prepared,
    protocol: &'a F,
    recording: Option<&'a Recording>,
}

impl<P: Client, F: Fn() -> P + Sync> Make<P> for Making<'_, F> {
    fn protocol(&self, _: u32) -> P {
        (self.protocol)()
    }

    fn pace(&self, worker: u32, workers: u32) -> Pace {
        self.prepared.pace.pace(self.prepared.seed, worker, workers)
    }

    fn rows(&self, worker: u32) -> Option<Rows> {
        self.recording?.rows(worker)
    }
}
