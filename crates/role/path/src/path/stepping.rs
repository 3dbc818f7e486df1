//! What steps do to a path.

use lineside_frame::{Burst, Frame};
use lineside_link::{Departure, Dropped, Patch, Setting, Settings};
use lineside_measure::monitor::Point;
use lineside_time::Nanoseconds;

use super::{NoMemory, Path};
use crate::element::arrival_ns;
use crate::monitors::point_of;
use crate::steps::{self, Due, Firing, FiringEvent, Patches, Step, StepError, StepReport};
use crate::{Departures, SideId};

impl Path {
    /// Adds a step, which counts time from the [beginning](Self::begin). What it needs is allocated
    /// here.
    pub fn arm(&mut self, step: Step, now: Nanoseconds) -> Result<(), StepError> {
        let sides = step.patches.iter().flatten().zip(&mut self.sides);
        for (classes, side) in sides {
            let delays = classes.iter().flatten().filter_map(Patch::delay);
            delays.for_each(|delay| side.chain.link_mut().prepare(delay));
        }
        self.steps.arm(step, now, &self.budget)?;
        self.make_spares();
        Ok(())
    }

    /// The path begins, once [`begin`](Self::begin) has been called, only at `at_ns`; `None`: at
    /// [`start`](Self::start). Frames pass it before.
    pub fn wait_until(&mut self, at_ns: Option<Nanoseconds>) {
        self.steps.wait_until(at_ns);
    }

    /// Whether the path waits for its start.
    pub fn waits(&self) -> bool {
        self.steps.waits()
    }

    /// The path that waits begins now: time of steps, flapping, bursts of loss and schedules counts
    /// from here.
    pub fn start(&mut self, now: Nanoseconds) {
        self.steps.begin(now);
        self.begin(now);
    }

    /// Whether a step has ended the run: frames that come from then on are not taken.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.steps.is_over()
    }

    /// Whether there are steps.
    #[inline]
    pub(crate) fn has_steps(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Whether a step fires when a frame leaves or is dropped.
    #[inline]
    pub(crate) fn watches_behind(&self) -> bool {
        self.steps.watches_behind()
    }

    /// What fired, in order, as far as it is listed, and how much more there was.
    pub fn firings(&self) -> (&[Firing], u64) {
        self.steps.firings()
    }

    /// A step, by its number in [`Firing::step`].
    pub fn step(&self, number: usize) -> std::sync::Arc<Step> {
        self.steps.step(number - 1)
    }

    /// How often each step fired.
    pub fn steps(&self) -> Vec<StepReport> {
        self.steps.reports()
    }

    /// The words of a step that holds a setting that `patches` change, and that setting.
    pub fn holder(&self, patches: &Patches) -> Option<(String, Setting)> {
        let (step, setting) = self.steps.holder(patches)?;
        Some((step.words.clone(), setting))
    }

    /// Changes the settings that `patches` give, as [`change`](Self::change) does; whether that
    /// changed something.
    pub fn apply(
        &mut self,
        now: Nanoseconds,
        patches: &Patches,
        out: &mut Departures,
    ) -> Result<bool, NoMemory> {
        let sides = patches.iter().enumerate();
        let new = sides.map(|(side, classes)| {
            let link = self.link(SideId::new(side));
            let new = classes.as_ref()?.iter().zip(link.classes());
            let new: Vec<_> = new
                .map(|(patch, class)| patch.applied(class.settings()))
                .collect();
            let old = link.classes().iter().map(|class| class.settings());
            (!new.iter().eq(old)).then_some(new)
        });
        let new: Vec<Option<Vec<Settings>>> = new.collect();
        let given: Vec<_> = new.iter().map(Option::as_deref).collect();
        self.change(now, &given, out)?;
        Ok(given.iter().any(Option::is_some))
    }

    /// Does what is due by `now`.
    #[inline]
    pub(super) fn step_on(&mut self, now: Nanoseconds, out: &mut Departures) {
        while let Some(due) = self.steps.next_due(now) {
            match due {
                Due::Start(at_ns) => self.start(at_ns),
                Due::Undo(index) => self.undo(index, now, out),
                Due::Fire(index) => self.fire(index, now, out),
            }
        }
    }

    /// Lets frames enter up to the last one that fires a step, each under the settings of its
    /// instant: those of a step hold for the frame that fires it.
    pub(super) fn enter_watched(
        &mut self,
        now: Nanoseconds,
        side: SideId,
        burst: &mut Burst,
        out: &mut Departures,
    ) {
        let (mut at, mut ahead) = (0, std::mem::take(&mut self.ahead));
        while let Some(frame) = burst.get(at) {
            let at_ns = arrival_ns(frame, now);
            let matching = self.steps.matching(side.index(), Point::Came, frame, at_ns);
            if matching != 0 {
                ahead.extend(burst.drain(..at));
                self.enter(now, side, &mut ahead, out);
                self.fire_all(matching, at_ns, out);
                at = 0;
            }
            if self.is_over() {
                // The frame that ends the run is the first one that is not taken.
                burst.clear();
            }
            at += 1;
        }
        self.ahead = ahead;
    }

    /// Frames of `side` leave at `now`.
    pub(super) fn watch_departures(
        &mut self,
        now: Nanoseconds,
        side: SideId,
        departures: &[Departure<Frame>],
    ) -> u64 {
        let Some(exit) = self.exit(side).map(SideId::index) else {
            return 0;
        };
        if !self.steps.watches(exit, Point::Left) {
            return 0;
        }
        let frames = departures.iter().map(|departure| &departure.item);
        let matching = frames.map(|frame| self.steps.matching(exit, Point::Left, frame, now));
        matching.fold(0, |all, each| all | each)
    }

    /// Frames of `side` were dropped.
    pub(super) fn watch_drops(&mut self, side: SideId, drops: &[Dropped<Frame>]) -> u64 {
        if !self.watches_behind() {
            return 0;
        }
        let port = self.port(side);
        let matching = drops.iter().map(|dropped| {
            let point = point_of(dropped.reason);
            self.steps
                .matching(port, point, &dropped.item, dropped.at_ns)
        });
        matching.fold(0, |all, each| all | each)
    }

    /// Fires steps, a bit each.
    pub(super) fn fire_all(&mut self, steps: u64, now: Nanoseconds, out: &mut Departures) {
        let mut left = steps;
        while left != 0 {
            self.fire(left.trailing_zeros() as usize, now, out);
            left &= left - 1;
        }
    }

    fn fire(&mut self, index: usize, now: Nanoseconds, out: &mut Departures) {
        let step = self.steps.step(index);
        let mut undo = None;
        if !self.steps.has_room() {
            let why = "the list of what steps did is full";
            self.steps.refused(index, now, why);
            return;
        }
        if let Some(patches) = &step.patches {
            if self.steps.holder(patches).is_some() {
                self.steps
                    .refused(index, now, "another step holds a setting that it changes");
                return;
            }
            if step.for_ns.is_some() {
                let settings = |side: usize, class: usize| {
                    self.link(SideId::new(side)).classes()[class].settings()
                };
                undo = Some(steps::undoing(patches, settings));
            }
            if self.apply(now, patches, out).is_err() {
                self.steps
                    .refused(index, now, "no memory is left to account for the change");
                return;
            }
        }
        for (monitor, is_on) in step.switches(FiringEvent::Fired) {
            self.observers.on_switch(now, monitor, is_on);
        }
        self.steps.fired(index, now, undo);
    }

    fn undo(&mut self, index: usize, now: Nanoseconds, out: &mut Departures) {
        let step = self.steps.step(index);
        let undo = self.steps.undone(index, now);
        for (monitor, is_on) in step.switches(FiringEvent::Undone) {
            self.observers.on_switch(now, monitor, is_on);
        }
        let undone = undo.map(|patches| self.apply(now, &patches, out));
        if let Some(Err(NoMemory)) = undone {
            self.steps
                .refused(index, now, "no memory is left to account for its undoing");
        }
    }
}
