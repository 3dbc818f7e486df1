//! What steps do to a path.

use lineside_frame::{Burst, Frame};
use lineside_link::{Departure, Dropped, Patch, Setting, Settings};
use lineside_measure::monitor::Point;
use lineside_time::Nanoseconds;
use lineside_trace::certificate::link::{Firing, FiringEvent, StepReport};

use super::{NoMemory, Path};
use crate::element::arrival_ns;
use crate::monitors::point_of;
use crate::steps::{Due, Patches, Step, StepError, Undo};
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
        let classes = self.sides.iter().map(|side| side.account.classes());
        let classes = classes.max().unwrap_or(1);
        self.steps.arm(step, now, classes, &self.budget)?;
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
        self.apply_held(now, patches, None, out)
    }

    fn apply_held(
        &mut self,
        now: Nanoseconds,
        patches: &Patches,
        held_by: Option<usize>,
        out: &mut Departures,
    ) -> Result<bool, NoMemory> {
        let bytes = |list: &Vec<Patch>| size_of_val(&list[..]);
        let leases = patches.iter().map(|list| {
            let lease = list.as_ref().map(|list| self.budget.lease(bytes(list)));
            lease.map(|lease| lease.ok_or(NoMemory)).transpose()
        });
        let leases = leases.collect::<Result<Vec<_>, _>>()?;
        let changed = self.change_classes(now, out, |path, side, class| {
            let list = patches.get(side)?.as_ref()?;
            let report = path.report(SideId::new(side));
            let patch = Patch::of_set(list, report.sets[class]);
            Some(patch.applied(report.link.classes()[class].settings()))
        })?;
        let sides = self.sides.iter_mut().zip(patches).zip(leases);
        for ((side, list), lease) in sides {
            if let (Some(list), Some(lease)) = (list, lease) {
                let classifier = side.chain.classifier_mut();
                classifier.changed(list, held_by, lease);
            }
        }
        Ok(changed)
    }

    /// Changes settings to those that `settings` gives for a class of a side; `None` leaves the
    /// side as it is. Returns whether that changed something.
    fn change_classes(
        &mut self,
        now: Nanoseconds,
        out: &mut Departures,
        settings: impl Fn(&Self, usize, usize) -> Option<Settings>,
    ) -> Result<bool, NoMemory> {
        let sides = 0..self.sides.len();
        let new = sides.map(|side| {
            let classes = self.link(SideId::new(side)).classes();
            let new = (0..classes.len()).map(|class| settings(self, side, class));
            let new: Option<Vec<_>> = new.collect();
            let old = || classes.iter().map(|class| class.settings());
            new.filter(|new| !new.iter().eq(old()))
        });
        let new: Vec<Option<Vec<Settings>>> = new.collect();
        let given: Vec<_> = new.iter().map(Option::as_deref).collect();
        self.change(now, &given, out)?;
        Ok(given.iter().any(Option::is_some))
    }

    /// How the patches of a step are undone in the classes that there are.
    fn undoing(&self, patches: &Patches) -> Undo {
        let sides = patches.iter().enumerate();
        let sides = sides.map(|(side, list)| {
            let (list, report) = (list.as_ref()?, self.report(SideId::new(side)));
            let classes = report.link.classes().iter().zip(report.sets);
            let undo = classes.map(|(class, set)| Patch::of_set(list, *set).of(class.settings()));
            Some(undo.collect())
        });
        sides.collect()
    }

    /// Undoes what a step did.
    fn apply_undo(
        &mut self,
        now: Nanoseconds,
        step: usize,
        undo: &Undo,
        out: &mut Departures,
    ) -> Result<bool, NoMemory> {
        for (side, _) in { self.sides.iter_mut().zip(undo) }.filter(|(_, undo)| undo.is_some()) {
            side.chain.classifier_mut().undone(step);
        }
        self.change_classes(now, out, |path, side, class| {
            let chain = &path.sides[side].chain;
            let settings = match undo.get(side)?.as_ref()?.get(class) {
                Some(undo) => undo.applied(chain.report().link.classes()[class].settings()),
                // It was made since.
                None => chain.classifier().settings(class),
            };
            Some(settings)
        })
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
                undo = Some(self.undoing(patches));
            }
            let held_by = step.for_ns.map(|_| index);
            if self.apply_held(now, patches, held_by, out).is_err() {
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
        let undone = undo.map(|undo| self.apply_undo(now, index, &undo, out));
        if let Some(Err(NoMemory)) = undone {
            self.steps
                .refused(index, now, "no memory is left to account for its undoing");
        }
    }
}
