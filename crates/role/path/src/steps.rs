//! Steps: what happens to a path at an instant, again and again, or when a frame comes.
//!
//! ```text
//!            at, every ──► next_ns ──┐
//!  frames ──► programs ──► matching ─┼─► Path::fire ─► changes, switches, marks, the end
//!            end of a hold ──────────┘        └──────► firings, for the certificate
//! ```

use std::sync::Arc;

use lineside_account::{Budget, Lease};
use lineside_filter::{Filter, Program};
use lineside_frame::{FrameRef, LinkType};
use lineside_link::{Delay, Patch, Setting, State};
use lineside_measure::monitor::Point;
use lineside_time::Nanoseconds;
use lineside_trace::certificate::link::{Firing, FiringEvent, StepReport};

/// A path has at most this many steps.
pub const STEPS_MAX: usize = 64;

/// All that steps do is listed: once there are this many events no step fires any more, and those
/// that hold something end.
const FIRINGS_MAX: usize = 10_000;

/// Changes of settings, by side: a list for frames by the expressions that they match, as [`Patch`]
/// has it; `None` leaves the settings of a side as they are.
pub type Patches = Vec<Option<Vec<Patch>>>;

/// How the patches of a step are undone, by side and by class.
pub(crate) type Undo = Vec<Option<Vec<Patch>>>;

/// What is to happen when.
#[derive(Debug, Clone)]
pub struct Step {
    /// As it was given.
    pub words: String,
    /// When it fires.
    pub when: When,
    /// How often it fires at most.
    pub times: u64,
    /// Of a frame: it fires from the match after this many on.
    pub skips: u64,
    /// After a firing it does not fire again for this long.
    pub hold_off_ns: Nanoseconds,
    /// So long after a firing its settings and monitors become again what they were. Until then it
    /// holds them: nothing else changes them, and it does not fire again.
    pub for_ns: Option<Nanoseconds>,
    /// The settings that it changes.
    pub patches: Option<Patches>,
    /// What else happens.
    pub actions: Vec<Action>,
}

/// When a step fires.
#[derive(Debug, Clone)]
pub enum When {
    /// So long after the beginning.
    At(Nanoseconds),
    /// This long after the beginning, and this long after that; above 0.
    Every(Nanoseconds),
    /// When a frame matches.
    Frame {
        /// The expression.
        filter: Filter,
        /// At which ports, by number, and at which points of them.
        places: Vec<(usize, Point)>,
    },
}

/// What a step does besides changing settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Has a monitor measure, or not: by its number.
    Monitor {
        /// The number.
        number: usize,
        /// Whether it measures from then on.
        is_on: bool,
    },
    /// Notes a text.
    Mark(String),
    /// Ends the run: no more frames are taken.
    End,
}

/// The steps of a path.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    armed: Vec<Armed>,
    began_ns: Option<Nanoseconds>,
    /// The path begins only then; `None`: it has begun, or is begun by its driver.
    starts_ns: Option<Nanoseconds>,
    /// The earliest instant at which something is to be done.
    next_ns: Option<Nanoseconds>,
    /// A bit for each point at which a step watches, by port.
    watched: Vec<u32>,
    firings: Vec<Firing>,
    unlisted: u64,
    is_over: bool,
    leases: Vec<Lease>,
}

/// A step that may fire.
#[derive(Debug)]
struct Armed {
    step: Arc<Step>,
    /// The expression, by link type; `None` matches nothing there.
    programs: Vec<(LinkType, Option<Program>)>,
    fired: u64,
    /// Matches before it may fire.
    skipped: u64,
    refused: u64,
    missed: u64,
    /// When it fires by the clock.
    due_ns: Option<Nanoseconds>,
    /// It does not fire before; never again, if this is the end of time.
    opens_ns: Nanoseconds,
    hold: Option<Hold>,
}

/// What a step holds, and how it was before.
#[derive(Debug)]
struct Hold {
    until_ns: Nanoseconds,
    /// Of its patches.
    undo: Option<Undo>,
}

/// What is to be done at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// The path begins at this instant.
    Start(Nanoseconds),
    /// A step's hold ends.
    Undo(usize),
    /// A step fires.
    Fire(usize),
}

/// Why a step cannot be armed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// There are too many.
    #[error("a run has at most {STEPS_MAX} steps")]
    TooMany,
    /// Two steps want the same setting at the same time.
    #[error(
        "step '{other}' holds {} when step '{step}' is to change it: let one of them end before \
        the other begins", .setting.name()
    )]
    Held {
        /// The step that holds it.
        other: String,
        /// The step that would change it.
        step: String,
        /// What both are for.
        setting: Setting,
    },
    /// The instant has passed.
    #[error("step '{step}': the run is past that: give a time from its beginning that is to come")]
    Past {
        /// The step.
        step: String,
    },
    /// No memory is left.
    #[error("no memory is left for steps: give more with --memory")]
    NoMemory,
}

impl Steps {
    /// Adds a step, which counts time from the beginning of the path.
    pub(crate) fn arm(
        &mut self,
        step: Step,
        now: Nanoseconds,
        classes: usize,
        budget: &Budget,
    ) -> Result<(), StepError> {
        if self.armed.len() == STEPS_MAX {
            return Err(StepError::TooMany);
        }
        for other in &self.armed {
            overlap(&other.step, &step).map_or(Ok(()), Err)?;
        }
        let firings_bytes = match self.armed.is_empty() {
            true => FIRINGS_MAX * size_of::<Firing>(),
            false => 0,
        };
        let bytes = firings_bytes + memory_bytes(&step, classes);
        self.leases
            .push(budget.lease(bytes).ok_or(StepError::NoMemory)?);
        if self.armed.is_empty() {
            // A firing allocates nothing.
            self.firings.reserve(FIRINGS_MAX);
        }
        let mut programs = Vec::with_capacity(1);
        if let When::Frame { filter, places } = &step.when {
            let program = filter.compile(LinkType::ETHERNET.0).ok();
            programs.push((LinkType::ETHERNET, program));
            for (port, point) in places {
                if self.watched.len() <= *port {
                    self.watched.resize(port + 1, 0);
                }
                self.watched[*port] |= 1 << *point as u32;
            }
        }
        let mut armed = Armed {
            step: Arc::new(step),
            programs,
            fired: 0,
            skipped: 0,
            refused: 0,
            missed: 0,
            due_ns: None,
            opens_ns: Nanoseconds::MIN,
            hold: None,
        };
        if let Some(began_ns) = self.began_ns {
            armed.begin(began_ns, now);
            if armed.due_ns.is_none() && matches!(armed.step.when, When::At(_)) {
                let step = armed.step.words.clone();
                return Err(StepError::Past { step });
            }
        }
        self.armed.push(armed);
        self.find_next();
        Ok(())
    }

    /// The path begins only at `at_ns`, or when somebody [begins](Self::begin) it.
    pub(crate) fn wait_until(&mut self, at_ns: Option<Nanoseconds>) {
        self.starts_ns = Some(at_ns.unwrap_or(Nanoseconds::MAX));
        self.began_ns = None;
        self.find_next();
    }

    /// Whether the beginning is waited for.
    pub(crate) fn waits(&self) -> bool {
        self.starts_ns.is_some()
    }

    /// Time counts from `now` on.
    pub(crate) fn begin(&mut self, now: Nanoseconds) {
        self.began_ns = Some(now);
        self.starts_ns = None;
        for armed in &mut self.armed {
            armed.begin(now, now);
        }
        self.find_next();
    }

    /// Whether there are steps that can still fire at a point of a port.
    #[inline]
    pub(crate) fn watches(&self, port: usize, point: Point) -> bool {
        let points = self.watched.get(port).copied().unwrap_or_default();
        points >> point as u32 & 1 == 1
    }

    /// Whether there are steps that watch what leaves or is dropped anywhere.
    #[inline]
    pub(crate) fn watches_behind(&self) -> bool {
        let came = 1 << Point::Came as u32;
        self.watched.iter().any(|points| points & !came != 0)
    }

    /// Whether there are any.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.armed.is_empty() && self.starts_ns.is_none()
    }

    /// The earliest instant at which something is to be done.
    #[inline]
    pub(crate) fn next_ns(&self) -> Option<Nanoseconds> {
        self.next_ns
    }

    /// What is to be done first of that which is due by `now`.
    pub(crate) fn next_due(&mut self, now: Nanoseconds) -> Option<Due> {
        if self.next_ns.is_none_or(|next_ns| next_ns > now) {
            return None;
        }
        if let Some(starts_ns) = self.starts_ns.filter(|starts_ns| *starts_ns <= now) {
            return Some(Due::Start(starts_ns));
        }
        // What ends at an instant makes room for what begins then.
        let armed = self.armed.iter().enumerate();
        let undo = armed.clone().filter_map(|(index, armed)| {
            Some((
                armed.hold.as_ref()?.until_ns,
                false,
                index,
                Due::Undo(index),
            ))
        });
        let fire =
            armed.filter_map(|(index, armed)| Some((armed.due_ns?, true, index, Due::Fire(index))));
        let first = undo
            .chain(fire)
            .min_by_key(|&(at_ns, is_fire, index, _)| (at_ns, is_fire, index));
        first.map(|(.., due)| due)
    }

    /// The steps that a frame at a point of a port has fire, a bit each.
    pub(crate) fn matching(
        &mut self,
        port: usize,
        point: Point,
        frame: &FrameRef,
        now: Nanoseconds,
    ) -> u64 {
        if self.began_ns.is_none() {
            return 0;
        }
        let mut all = 0;
        for (index, armed) in self.armed.iter_mut().enumerate() {
            all |= u64::from(armed.matches(port, point, frame, now)) << index;
        }
        all
    }

    /// A step that holds a setting that `patches` change, and that setting.
    pub(crate) fn holder(&self, patches: &Patches) -> Option<(&Step, Setting)> {
        let holders = self.armed.iter().filter(|armed| armed.hold.is_some());
        let mut holders = holders.filter_map(|armed| {
            let held = armed.step.patches.as_ref()?;
            Some((&*armed.step, common(held, patches)?))
        });
        holders.next()
    }

    /// Each class of a side has become two: what is for one is for both.
    pub(crate) fn classify(&mut self, side: usize) {
        let holds = { self.armed.iter_mut() }.filter_map(|armed| armed.hold.as_mut());
        for undo in holds.filter_map(|hold| hold.undo.as_mut()) {
            undo[side]
                .iter_mut()
                .for_each(|classes| classes.extend_from_within(..));
        }
    }

    /// Whether the list of firings has room for another one, and for the end of each hold.
    pub(crate) fn has_room(&self) -> bool {
        self.firings.len() + STEPS_MAX < FIRINGS_MAX
    }

    pub(crate) fn step(&self, index: usize) -> Arc<Step> {
        Arc::clone(&self.armed[index].step)
    }

    /// A step has fired at `now`; `undo` is how its patches are undone.
    pub(crate) fn fired(&mut self, index: usize, now: Nanoseconds, undo: Option<Undo>) {
        let armed = &mut self.armed[index];
        armed.fired += 1;
        self.is_over |= armed.step.actions.contains(&Action::End);
        let for_ns = armed.step.for_ns;
        armed.hold = for_ns.map(|for_ns| Hold {
            until_ns: now.saturating_add(for_ns),
            undo,
        });
        self.passed(index, now, FiringEvent::Fired, None);
    }

    /// A step was to fire at `now`, and changed nothing.
    pub(crate) fn refused(&mut self, index: usize, now: Nanoseconds, why: &'static str) {
        let has_room = self.has_room();
        self.armed[index].refused += 1;
        self.passed(index, now, FiringEvent::Refused, Some(why));
        if !has_room {
            let armed = &mut self.armed[index];
            (armed.due_ns, armed.opens_ns) = (None, Nanoseconds::MAX);
            self.find_next();
        }
    }

    fn passed(
        &mut self,
        index: usize,
        now: Nanoseconds,
        event: FiringEvent,
        why: Option<&'static str>,
    ) {
        let began_ns = self.began_ns.unwrap_or(now);
        let armed = &mut self.armed[index];
        armed.go_on(now, began_ns);
        self.note(index, now, event, why);
        self.find_next();
    }

    /// A step's hold ends at `now`: how its patches are undone.
    pub(crate) fn undone(&mut self, index: usize, now: Nanoseconds) -> Option<Undo> {
        let hold = self.armed[index].hold.take();
        self.note(index, now, FiringEvent::Undone, None);
        self.find_next();
        hold?.undo
    }

    fn note(
        &mut self,
        index: usize,
        at_ns: Nanoseconds,
        event: FiringEvent,
        why: Option<&'static str>,
    ) {
        if event == FiringEvent::Refused && !self.has_room() {
            self.unlisted += 1;
            return;
        }
        self.firings.push(Firing {
            step: index + 1,
            at_ns,
            after_ns: at_ns - self.began_ns.unwrap_or(at_ns),
            event,
            why: why.map(Into::into),
        });
    }

    fn find_next(&mut self) {
        let armed = self.armed.iter();
        let instants = armed.flat_map(|armed| {
            let until_ns = armed.hold.as_ref().map(|hold| hold.until_ns);
            [armed.due_ns, until_ns].into_iter().flatten()
        });
        let starts_ns = self
            .starts_ns
            .filter(|starts_ns| *starts_ns < Nanoseconds::MAX);
        self.next_ns = instants.chain(starts_ns).min();
    }

    /// Whether a step has ended the run.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// What fired, in order, as far as it is listed, and how much more there was.
    pub(crate) fn firings(&self) -> (&[Firing], u64) {
        (&self.firings, self.unlisted)
    }

    pub(crate) fn reports(&self) -> Vec<StepReport> {
        let report = |armed: &Armed| StepReport {
            words: armed.step.words.clone(),
            fired: armed.fired,
            refused: armed.refused,
            missed: armed.missed,
            marks: { armed.step.actions.iter() }
                .filter_map(|action| match action {
                    Action::Mark(text) => Some(text.clone()),
                    _ => None,
                })
                .collect(),
        };
        self.armed.iter().map(report).collect()
    }
}

impl Armed {
    /// The path began at `began_ns`; what was to fire before `now` does not.
    fn begin(&mut self, began_ns: Nanoseconds, now: Nanoseconds) {
        self.due_ns = match self.step.when {
            When::At(after_ns) => Some(began_ns.saturating_add(after_ns)).filter(|at| *at >= now),
            When::Every(every_ns) => next_after(began_ns, every_ns, now - 1),
            When::Frame { .. } => None,
        };
    }

    /// The step fired at `now`, or was to.
    fn go_on(&mut self, now: Nanoseconds, began_ns: Nanoseconds) {
        let off_ns = self.step.hold_off_ns.max(self.step.for_ns.unwrap_or(0));
        self.opens_ns = now.saturating_add(off_ns);
        let due_ns = self.due_ns.take();
        if let (&When::Every(every_ns), Some(due_ns)) = (&self.step.when, due_ns)
            && self.fired < self.step.times
        {
            self.missed += ((now - due_ns) / every_ns).cast_unsigned();
            self.due_ns = next_after(began_ns, every_ns, now);
        }
    }

    fn matches(&mut self, port: usize, point: Point, frame: &FrameRef, now: Nanoseconds) -> bool {
        let When::Frame { filter, places } = &self.step.when else {
            return false;
        };
        if self.fired >= self.step.times
            || self.hold.is_some()
            || now < self.opens_ns
            || !places.contains(&(port, point))
        {
            return false;
        }
        let (link_type, wire_len) = (frame.descriptor().link_type, frame.descriptor().wire_len);
        let known = self.programs.iter();
        let known = known.clone().position(|(each, _)| *each == link_type);
        let at = known.unwrap_or_else(|| {
            let program = filter.compile(link_type.0).ok();
            self.programs.push((link_type, program));
            self.programs.len() - 1
        });
        let program = self.programs[at].1.as_ref();
        if !program.is_some_and(|program| program.matches(frame.bytes(), wire_len)) {
            return false;
        }
        let is_skipped = self.skipped < self.step.skips;
        self.skipped += u64::from(is_skipped);
        !is_skipped
    }
}

/// The first multiple of `every_ns` from the beginning that lies after `now`.
fn next_after(
    began_ns: Nanoseconds,
    every_ns: Nanoseconds,
    now: Nanoseconds,
) -> Option<Nanoseconds> {
    let passed = (now - began_ns).div_euclid(every_ns).max(0);
    let after_ns = (passed + 1).checked_mul(every_ns)?;
    began_ns.checked_add(after_ns)
}

impl Step {
    /// Whether it takes a carrier away.
    pub(crate) fn takes_carrier(&self) -> bool {
        let sides = self.patches.iter().flatten().flatten();
        let mut states = sides.flatten().filter_map(Patch::state);
        states.any(State::takes_carrier)
    }

    /// The monitors that an event has measure, or not.
    pub fn switches(&self, event: FiringEvent) -> impl Iterator<Item = (usize, bool)> {
        let actions = self.actions.iter();
        actions.filter_map(move |action| match (action, event) {
            (Action::Monitor { number, is_on }, FiringEvent::Fired) => Some((*number, *is_on)),
            (Action::Monitor { number, is_on }, FiringEvent::Undone) => Some((*number, !is_on)),
            _ => None,
        })
    }
}

/// A setting that both change for some frames.
fn common(one: &Patches, other: &Patches) -> Option<Setting> {
    let sides = one.iter().zip(other);
    let sides = sides.filter_map(|(one, other)| Some((one.as_ref()?, other.as_ref()?)));
    let mut common = sides.filter_map(|(one, other)| Patch::common_of(one, other));
    common.next()
}

/// Steps by the clock are known beforehand: one that is to change what another holds then is
/// refused.
fn overlap(one: &Step, other: &Step) -> Option<StepError> {
    let (When::At(first_ns), When::At(second_ns)) = (&one.when, &other.when) else {
        return None;
    };
    let (holder, holder_ns, step, at_ns) = match first_ns <= second_ns {
        true => (one, *first_ns, other, *second_ns),
        false => (other, *second_ns, one, *first_ns),
    };
    let until_ns = holder_ns.saturating_add(holder.for_ns?);
    let setting = common(holder.patches.as_ref()?, step.patches.as_ref()?);
    let setting = setting.filter(|_| at_ns < until_ns)?;
    Some(StepError::Held {
        other: holder.words.clone(),
        step: step.words.clone(),
        setting,
    })
}

/// The memory of a step, with that of its undoing for this many classes of a side.
fn memory_bytes(step: &Step, classes: usize) -> usize {
    let sides = step.patches.iter().flatten().flatten();
    let bytes = |patch: &Patch| size_of::<Patch>() + patch.delay().map_or(0, Delay::memory_bytes);
    let patches: usize = sides.clone().flatten().map(bytes).sum();
    let undo: usize = { sides.map(|list| list.iter().map(bytes).max()) }
        .map(|most| classes * most.unwrap_or_default())
        .sum();
    size_of::<Armed>() + size_of::<Step>() + step.words.len() + patches + undo
}
