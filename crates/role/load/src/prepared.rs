//! A load that was prepared: its protocol, its pace, its settings; and its certificate.

use lineside_host::RunClock;
use lineside_trace::certificate::load::{Asked, Limits};

use crate::certificate::{Certificate, Known, Machine, Planned, certificate};
use crate::error::LoadError;
use crate::launch::{Launch, Requests};
use crate::outcome::{Observer, Outcome};
use crate::protocol::Protocol;
use crate::recording::{Program, Recording};
use crate::settings::{Settings, secret};
use crate::timetable::Timetable;
use crate::words::UsageError;

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

    /// Changes how many connections there are, for another run.
    pub fn change_connections(&mut self, connections: u32) {
        self.asked.connections = connections;
        self.settings.plan.connections = connections;
    }

    /// Makes the load, to its end.
    pub fn run(
        &self,
        recording: Option<&Recording>,
        clock: RunClock,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, LoadError> {
        let launch = Launch {
            program: Program {
                name: self.protocol.name,
                transport: self.protocol.carrier.name(),
            },
            settings: &self.settings,
            timetable: &self.timetable,
            seed: self.seed,
            recording,
            clock,
        };
        self.requests.run(&launch, observer)
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
        certificate(self.asked.clone(), outcome, known, limits)
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
