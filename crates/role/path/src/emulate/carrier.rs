//! The carriers of a run's ports: they go and come as the settings of the links have it.
//!
//! A TAP device's is switched by its port. An interface has none to its other end while it is
//! switched off, which a process beside the run does: the run itself has no privilege any more.

use lineside_host::LinkSwitch;
use lineside_link::State;
use lineside_time::Nanoseconds;

use crate::{LiveLoop, Patches, Path, SideId};

/// The carriers of all ports.
pub(super) struct Carriers {
    /// For interfaces, by their places in the list with which it began.
    switch: Option<LinkSwitch>,
    ports: Vec<Carrier>,
    failures: Vec<String>,
}

/// The carrier of one port.
struct Carrier {
    name: String,
    by: By,
    is_up: bool,
}

/// Who switches a carrier.
#[derive(Clone, Copy)]
enum By {
    /// The port, whose device belongs to this run.
    Port,
    /// The process beside the run, which knows the interface by this place.
    Switch(usize),
    /// Nobody, for this reason.
    Nobody(&'static str),
}

impl Carriers {
    /// Of ports that switch their own carrier, or else by `switch`, for the ports that are not the
    /// run's own. `why` nobody else can.
    pub(super) fn new(
        live: &mut LiveLoop,
        switch: Option<LinkSwitch>,
        names: &[&str],
        why: &'static str,
    ) -> Self {
        let mut carriers = Self {
            switch,
            ports: Vec::new(),
            failures: Vec::new(),
        };
        let mut places = 0..;
        for (port, name) in names.iter().enumerate() {
            let by = match (set_carrier(live, port, true), &carriers.switch) {
                (true, _) => By::Port,
                (false, Some(_)) => places.next().map_or(By::Nobody(why), By::Switch),
                (false, None) => By::Nobody(why),
            };
            carriers.ports.push(Carrier {
                name: (*name).to_owned(),
                by,
                is_up: true,
            });
        }
        carriers
    }

    /// Why the carriers cannot follow the settings that hold.
    pub(super) fn obstacle(&self, path: &Path) -> Option<String> {
        let states = { path.sides() }.map(|side| (side, path.link(side).settings().state));
        let obstacle = self.obstacle_to(path, states);
        let steps = (1..=path.steps().len()).map(|number| path.step(number));
        let mut later =
            steps.filter_map(|step| self.obstacle_to_change(path, step.patches.as_ref()?));
        obstacle.or_else(|| later.next())
    }

    /// Why the carriers could not follow a change.
    pub(super) fn obstacle_to_change(&self, path: &Path, change: &Patches) -> Option<String> {
        let states = { path.sides() }.zip(change).filter_map(|(side, settings)| {
            // The state is that of all classes.
            Some((side, settings.as_ref()?.first()?.state()?))
        });
        self.obstacle_to(path, states)
    }

    fn obstacle_to(
        &self,
        path: &Path,
        mut states: impl Iterator<Item = (SideId, State)>,
    ) -> Option<String> {
        states.find_map(|(side, state)| {
            let port = self.ports.get(port_of(path, side))?;
            match port.by {
                By::Nobody(why) if state.takes_carrier() => {
                    Some(format!("the carrier of {} cannot go: {why}", port.name))
                }
                _ => None,
            }
        })
    }

    /// Switches what is to be switched at `now`.
    pub(super) fn follow(&mut self, live: &mut LiveLoop, now: Nanoseconds) {
        for port in 0..self.ports.len() {
            let path = live.engine().path();
            let since_ns = path.since_begin(now);
            let mut sides = path.sides().filter(|&side| port_of(path, side) == port);
            let is_up = sides.all(|side| path.link(side).settings().state.has_carrier(since_ns));
            let carrier = &mut self.ports[port];
            if carrier.is_up == is_up {
                continue;
            }
            carrier.is_up = is_up;
            match (carrier.by, &self.switch) {
                (By::Port, _) => {
                    set_carrier(live, port, is_up);
                }
                (By::Switch(place), Some(switch)) => {
                    if let Err(error) = switch.switch(place, is_up) {
                        let why = format!("the carrier of {} stays: {error}", carrier.name);
                        self.failures.push(why);
                    }
                }
                _ => {}
            }
        }
    }

    /// What went wrong, at the end of the run. Every carrier comes back before this returns.
    pub(super) fn end(mut self, live: &mut LiveLoop) -> Vec<String> {
        while let Some((place, error)) = self.switch.as_ref().and_then(LinkSwitch::failure) {
            let is_it = |carrier: &&Carrier| matches!(carrier.by, By::Switch(of) if of == place);
            if let Some(carrier) = self.ports.iter().find(is_it) {
                let why = format!("the carrier of {} stays: {error}", carrier.name);
                self.failures.push(why);
            }
        }
        for (port, carrier) in self.ports.iter().enumerate() {
            if matches!(carrier.by, By::Port) && !carrier.is_up {
                set_carrier(live, port, true);
            }
        }
        self.failures
    }
}

/// The port at whose other end a side's state is seen: the one by which its frames leave, or behind
/// which a core is the one by which they come.
fn port_of(path: &Path, side: SideId) -> usize {
    path.exit(side)
        .map_or_else(|| path.port(side), SideId::index)
}

/// Has the ports of a side switch their carrier; whether one of them can.
fn set_carrier(live: &mut LiveLoop, side: usize, is_up: bool) -> bool {
    let before: usize = (0..side).map(|side| live.queues(side)).sum();
    let count = live.queues(side);
    let ports = live.ports_mut().skip(before).take(count);
    // Each is asked.
    let switched = ports.map(|port| usize::from(port.set_carrier(is_up)));
    switched.sum::<usize>() > 0
}
