//! What an emulated link does to one class of frames, those that an expression selects or all
//! others. Queue, rate and limit are the link's and are not here.

use lineside_measure::Spread;
use lineside_time::Nanoseconds;

use crate::draw::{Impairment, Normal, Ranks, Sampler};
use crate::loss::LossState;
use crate::path_file::PathFile;
use crate::settings::{Correlation, Delay, Draws, Loss, Schedule, Settings};

/// The impairments of one class of frames: loss, duplication, corruption, and delay with its order.
/// State, rate and limit are the link's, for all classes. Classes with equal loss share one loss
/// model, and classes with equal delay share their draws and keep one order.
#[derive(Debug)]
pub struct Class {
    pub(crate) settings: Settings,
    /// `None` if the class shares the delay of another one, whose sampler draws for it.
    pub(crate) sampler: Option<Sampler>,
    pub(crate) loss: LossState,
    pub(crate) streams: Streams,
    /// Where order is kept, no frame is due before this.
    pub(crate) latest_due_ns: Nanoseconds,
    /// The first class with the same loss.
    pub(crate) loss_of: u8,
    /// The first class with the same delay.
    pub(crate) delay_of: u8,
    pub(crate) entered: u64,
    pub(crate) lost: u64,
}

/// A stream of random numbers for each impairment.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    pub(crate) delay: Ranks,
    pub(crate) loss: Ranks,
    pub(crate) duplicate: Ranks,
    pub(crate) corrupt: Ranks,
    pub(crate) reorder: Ranks,
}

impl Class {
    pub(crate) fn new(settings: Settings, seed: u64, stream: u16) -> Self {
        let ranks = |impairment| Ranks::new(seed, stream, impairment);
        let mut class = Self {
            sampler: None,
            loss: LossState::default(),
            streams: Streams {
                delay: ranks(Impairment::Delay),
                loss: ranks(Impairment::Loss),
                duplicate: ranks(Impairment::Duplicate),
                corrupt: ranks(Impairment::Corrupt),
                reorder: ranks(Impairment::Reorder),
            },
            settings: Settings::default(),
            latest_due_ns: Nanoseconds::MIN,
            loss_of: 0,
            delay_of: 0,
            entered: 0,
            lost: 0,
        };
        class.set(settings);
        class
    }

    /// Takes other settings: streams go on, counts of draws begin again, and a new loss model
    /// begins.
    pub(crate) fn set(&mut self, settings: Settings) {
        self.sampler = None;
        if let Draws::Prbs31 { state } = settings.delay.draws
            && settings.delay.draws != self.settings.delay.draws
        {
            self.streams.delay.begin_prbs31(state);
        }
        if settings.loss != self.settings.loss {
            self.loss.begin();
        }
        prepare(&settings);
        self.settings = settings;
    }

    /// This class up to a change, of which it keeps what is reported: the settings, and what its
    /// sampler drew.
    pub(crate) fn past(&mut self) -> Self {
        Self {
            settings: self.settings.clone(),
            sampler: self.sampler.take(),
            loss: LossState::default(),
            streams: self.streams.clone(),
            ..*self
        }
    }

    /// Joins classes with equal loss, and classes with equal delay; `sampler` makes one.
    pub(crate) fn join(classes: &mut [Self], sampler: impl Fn(&Delay) -> Sampler) {
        for at in 0..classes.len() {
            let settings = &classes[at].settings;
            let first = |is_same: &dyn Fn(&Settings) -> bool| {
                let mut before = classes[..at].iter();
                let found = before.position(|class| is_same(&class.settings));
                found.unwrap_or(at) as u8
            };
            let loss_of = first(&|other| other.loss == settings.loss);
            let delay_of = first(&|other| other.delay == settings.delay);
            // After a change the class may share its delay with another one than before: frames
            // under way are not overtaken.
            let latest_ns = classes[usize::from(classes[at].delay_of)].latest_due_ns;
            let order = &mut classes[usize::from(delay_of)];
            order.latest_due_ns = order.latest_due_ns.max(latest_ns);
            let class = &mut classes[at];
            (class.loss_of, class.delay_of) = (loss_of, delay_of);
            if usize::from(delay_of) == at {
                let delay = &class.settings.delay;
                class.sampler.get_or_insert_with(|| sampler(delay));
            } else {
                class.sampler = None;
            }
        }
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Frames of this class that entered.
    pub fn entered(&self) -> u64 {
        self.entered
    }

    /// Those of them that the loss model dropped.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The delays by the settings: of the path file if it gives them, or else of the sampler, which
    /// may be another class's.
    pub(crate) fn asked(&self, sampler: &Sampler) -> Spread {
        if let Some(path) = self.path()
            && path.steps().iter().all(|step| step.delay_ns.is_some())
        {
            let spans = path.spans();
            let steps = spans.filter_map(|(step, span_ns)| {
                Some((step.delay_ns? as i64, (span_ns / 1_000_000).max(1)))
            });
            return Spread::of(steps.collect());
        }
        let asked = sampler.asked().into_iter();
        Spread::of(asked.map(|delay_ns| (delay_ns, 1)).collect())
    }

    /// The delays that its sampler drew; `None` without a sampler, jitter or frames.
    pub(crate) fn drawn(&self) -> Option<Spread> {
        let sampler = self.sampler.as_ref()?;
        let mean_ns = sampler.mean_ns()?;
        let mut spread = Spread::of(sampler.drawn());
        spread.mean_ns = mean_ns;
        Some(spread)
    }

    fn path(&self) -> Option<&PathFile> {
        match &self.settings.schedule {
            Some(Schedule::Path(path)) => Some(path),
            _ => None,
        }
    }

    /// The largest delay of its sampler and its path file.
    pub(crate) fn delay_max_ns(&self) -> i64 {
        let drawn = self.sampler.as_ref().map_or(0, Sampler::max_ns);
        let scheduled = self.path().map_or(0, PathFile::delay_max_ns);
        drawn.max(scheduled)
    }
}

/// The delays by the settings of one of these classes, which may share them with another one.
pub(crate) fn asked_for(classes: &[Class], class: &Class) -> Spread {
    let owner = &classes[usize::from(class.delay_of)];
    let spread = owner.sampler.as_ref().map(|sampler| class.asked(sampler));
    spread.unwrap_or_default()
}

/// The delays that were drawn for one of these classes, and for those that share them.
pub(crate) fn drawn_for(classes: &[Class], class: &Class) -> Option<Spread> {
    classes[usize::from(class.delay_of)].drawn()
}

/// Makes the table of correlated draws if these settings need it. That takes a tenth of a second:
/// now, and not when the first frame comes.
pub(crate) fn prepare(settings: &Settings) {
    if is_correlated(settings) {
        Normal::get();
    }
}

fn is_correlated(settings: &Settings) -> bool {
    let loss = match settings.loss {
        Loss::Random(chance) => chance.correlation,
        _ => Correlation::None,
    };
    let correlations = [
        settings.duplicate.correlation,
        settings.corrupt.correlation,
        settings.reorder.correlation,
        loss,
        settings.delay.correlation(),
    ];
    correlations
        .iter()
        .any(|&correlation| correlation != Correlation::None)
}
