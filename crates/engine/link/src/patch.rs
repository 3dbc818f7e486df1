//! Some settings of a link, which replace those that it has: what a user changes while it runs.

use crate::settings::{Delay, Order, Schedule, Settings, State};

/// A setting of a link, as users name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// [`Settings::delay`].
    Delay,
    /// [`Settings::rate`], or a schedule of deliveries.
    Rate,
    /// [`Settings::loss`].
    Loss,
    /// [`Settings::duplicate`].
    Duplicate,
    /// [`Settings::corrupt`].
    Corrupt,
    /// [`Settings::reorder`], and the order that it needs.
    Reorder,
    /// A schedule of a path file.
    Path,
    /// [`Settings::limit`].
    Limit,
    /// [`Settings::state`].
    Link,
}

impl Setting {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Delay,
        Self::Rate,
        Self::Loss,
        Self::Duplicate,
        Self::Corrupt,
        Self::Reorder,
        Self::Path,
        Self::Limit,
        Self::Link,
    ];

    /// Its name in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delay => "delay",
            Self::Rate => "rate",
            Self::Loss => "loss",
            Self::Duplicate => "duplicate",
            Self::Corrupt => "corrupt",
            Self::Reorder => "reorder",
            Self::Path => "path",
            Self::Limit => "limit",
            Self::Link => "link",
        }
    }
}

/// Some settings: those that it gives replace a link's, the others stay.
///
/// A list of patches is for frames by the expressions that they match: the first one for all, the
/// others for those that match expression 0, 1, ... Of each setting, the first expression that a
/// frame matches and that has it decides, or else the patch for all.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Patch {
    /// A bit for each [`Setting`] that it gives.
    given: u16,
    /// A bit for each that an expression of a list has and does not give: it stays as it is,
    /// whatever later expressions and the patch for all give.
    kept: u16,
    settings: Settings,
}

impl Patch {
    /// Gives these settings as they are in `settings`.
    pub fn new(given: impl IntoIterator<Item = Setting>, settings: Settings) -> Self {
        Self {
            given: bits(given),
            kept: 0,
            settings,
        }
    }

    /// This patch of a list, whose expression has these settings too and does not give them.
    pub fn keeping(self, kept: impl IntoIterator<Item = Setting>) -> Self {
        let kept = bits(kept) & !self.given;
        Self { kept, ..self }
    }

    /// What a list gives to frames that match a set of expressions, a bit each.
    pub fn of_set(list: &[Self], set: u32) -> Self {
        let mut all = Self::default();
        let (mut of_delay, mut of_reorder) = (None, None);
        for patch in for_set(list, set) {
            let new = (patch.given | patch.kept) & !(all.given | all.kept);
            let has_new = |setting: &Setting| new >> *setting as u16 & 1 == 1;
            for setting in Setting::ALL.into_iter().filter(has_new) {
                patch.apply(setting, &mut all.settings);
                match setting {
                    Setting::Delay => of_delay = Some(patch.settings.delay.order),
                    Setting::Reorder => of_reorder = Some(patch.settings.delay.order),
                    _ => {}
                }
            }
            all.given |= patch.given & new;
            all.kept |= patch.kept & new;
        }
        let delay = &mut all.settings.delay;
        delay.order = of_delay.or(of_reorder).unwrap_or(delay.order);
        if all.settings.reorder.share > 0.0 {
            all.settings.delay.order = Order::Reorder;
        }
        all
    }

    /// A setting that two lists give to the same frames.
    pub fn common_of(one: &[Self], other: &[Self]) -> Option<Setting> {
        let expressions = one.len().max(other.len()).saturating_sub(1);
        sets_of_two(expressions).find_map(|set| {
            let both = given_to(one, set) & given_to(other, set);
            let mut all = Setting::ALL.into_iter();
            all.find(|setting| both >> *setting as u16 & 1 == 1)
        })
    }

    /// Whether a list gives the same settings to the same frames as another one, if with other
    /// values.
    pub fn is_alike(one: &[Self], other: &[Self]) -> bool {
        let shape = |patch: &Self| (patch.given, patch.kept);
        one.iter().map(shape).eq(other.iter().map(shape))
    }

    /// The settings, also those that it does not give.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Gives the same settings as they are in `settings`: undoes this patch of them.
    pub fn of(&self, settings: &Settings) -> Self {
        Self {
            given: self.given,
            kept: 0,
            settings: settings.clone(),
        }
    }

    /// Whether it gives a setting.
    pub fn gives(&self, setting: Setting) -> bool {
        self.given >> setting as u16 & 1 == 1
    }

    /// The state, if it gives that.
    pub fn state(&self) -> Option<State> {
        self.gives(Setting::Link).then_some(self.settings.state)
    }

    /// The delay, if it gives that.
    pub fn delay(&self) -> Option<&Delay> {
        self.gives(Setting::Delay).then_some(&self.settings.delay)
    }

    /// Whether it gives none.
    pub fn is_empty(&self) -> bool {
        self.given == 0
    }

    /// A setting that both give.
    pub fn common(&self, other: &Self) -> Option<Setting> {
        let mut all = Setting::ALL.into_iter();
        all.find(|setting| self.gives(*setting) && other.gives(*setting))
    }

    /// `settings` with those that this gives.
    pub fn applied(&self, settings: &Settings) -> Settings {
        let mut new = settings.clone();
        let given = Setting::ALL.into_iter();
        let given = given.filter(|setting| self.gives(*setting));
        given.for_each(|setting| self.apply(setting, &mut new));
        if new.reorder.share > 0.0 {
            // A frame that skips the delay overtakes others.
            new.delay.order = Order::Reorder;
        }
        new
    }

    fn apply(&self, setting: Setting, to: &mut Settings) {
        let from = &self.settings;
        let is_path = |schedule: &Schedule| matches!(schedule, Schedule::Path(_));
        let is_deliveries = |schedule: &Schedule| matches!(schedule, Schedule::Deliveries(_));
        match setting {
            Setting::Delay => to.delay = from.delay.clone(),
            Setting::Rate => {
                to.rate = from.rate;
                replace(&mut to.schedule, &from.schedule, is_deliveries);
            }
            Setting::Loss => to.loss = from.loss.clone(),
            Setting::Duplicate => to.duplicate = from.duplicate,
            Setting::Corrupt => to.corrupt = from.corrupt,
            Setting::Reorder => {
                to.reorder = from.reorder;
                to.delay.order = from.delay.order;
            }
            Setting::Path => replace(&mut to.schedule, &from.schedule, is_path),
            Setting::Limit => to.limit = from.limit,
            Setting::Link => to.state = from.state,
        }
    }
}

fn bits(settings: impl IntoIterator<Item = Setting>) -> u16 {
    let bits = settings.into_iter().map(|setting| 1 << setting as u16);
    bits.fold(0, |all, bit| all | bit)
}

/// The patches of a list that are for a set of expressions, in the order in which they decide.
fn for_set(list: &[Patch], set: u32) -> impl Iterator<Item = &Patch> {
    let expressions = list.iter().skip(1).enumerate();
    let matched = expressions.filter(move |(number, _)| set >> number & 1 == 1);
    matched.map(|(_, patch)| patch).chain(list.first())
}

/// The settings that a list gives to a set, a bit each.
fn given_to(list: &[Patch], set: u32) -> u16 {
    let (mut known, mut given) = (0, 0);
    for patch in for_set(list, set) {
        given |= patch.given & !known;
        known |= patch.given | patch.kept;
    }
    given
}

/// All sets of at most two of this many expressions: whichever patches of two lists decide on a
/// setting for some frames, they do so for a set of these.
pub fn sets_of_two(expressions: usize) -> impl Iterator<Item = u32> {
    let one = move |number: usize| [0].into_iter().chain((0..number).map(|other| 1 << other));
    let sets =
        (0..expressions).flat_map(move |number| one(number).map(move |set| set | 1 << number));
    [0].into_iter().chain(sets)
}

/// One place holds schedules of two kinds: a schedule of a kind takes it, and its absence frees it
/// of that kind alone.
fn replace(
    to: &mut Option<Schedule>,
    from: &Option<Schedule>,
    is_kind: impl Fn(&Schedule) -> bool,
) {
    match from {
        Some(schedule) if is_kind(schedule) => *to = from.clone(),
        _ if to.as_ref().is_some_and(is_kind) => *to = None,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Carrier, Chance};
    use crate::{Deliveries, words};

    fn delay(words: &str) -> Settings {
        Settings {
            delay: words::delay(words, &mut words::no_files).expect("a delay"),
            ..Settings::default()
        }
    }

    fn reorders(settings: &Settings, share: f64) -> Settings {
        let mut settings = settings.clone();
        settings.reorder = Chance {
            share,
            ..Chance::default()
        };
        settings
    }

    #[test]
    fn a_patch_changes_what_it_gives_and_its_undoing_that() {
        let before = Settings {
            state: State::Down {
                carrier: Carrier::Goes,
            },
            rate: Some(words::rate("1mbit").expect("a rate")),
            ..delay("10ms 1ms order fifo")
        };
        let other = Settings {
            rate: None,
            loss: words::loss("3%").expect("a loss"),
            limit: words::limit("7").expect("a limit"),
            ..delay("5ms")
        };
        for setting in Setting::ALL {
            let patch = Patch::new([setting], other.clone());
            let after = patch.applied(&before);
            for each in Setting::ALL.into_iter().filter(|each| *each != setting) {
                let back = Patch::new([each], before.clone());
                assert_eq!(back.applied(&after), after, "{setting:?} leaves {each:?}");
            }
            assert_eq!(patch.of(&before).applied(&after), before, "{setting:?}");
            assert_eq!(patch.applied(&after), after, "{setting:?}");
        }
        let all = Patch::new(Setting::ALL, other.clone());
        assert_eq!(all.applied(&before), other);
        assert_eq!(all.common(&Patch::new([], other.clone())), None);
        let two = Patch::new([Setting::Loss, Setting::Limit], other);
        assert_eq!(all.common(&two), Some(Setting::Loss));
    }

    #[test]
    fn the_order_of_a_delay_follows_reordering() {
        let plain = delay("10ms");
        let reordering = Patch::new([Setting::Reorder], reorders(&plain, 0.25));
        let after = reordering.applied(&plain);
        assert_eq!(after.delay.order, Order::Reorder);
        // A delay that comes meanwhile may be overtaken too.
        let slower = Patch::new([Setting::Delay], delay("20ms")).applied(&after);
        assert_eq!(slower.delay.order, Order::Reorder);
        let mut without = reordering.of(&plain).applied(&slower);
        assert_eq!(without.delay.order, Order::Fifo);
        without.delay.base_ns = plain.delay.base_ns;
        assert_eq!(without, plain);
    }

    #[test]
    fn a_rate_takes_the_place_of_deliveries_and_leaves_a_path() {
        let deliveries = Deliveries::read("trace", "1\n2\n").expect("a trace");
        let scheduled = Settings {
            schedule: Some(Schedule::Deliveries(deliveries)),
            ..Settings::default()
        };
        let rate = Settings {
            rate: Some(words::rate("1mbit").expect("a rate")),
            ..Settings::default()
        };
        let patch = Patch::new([Setting::Rate], rate.clone());
        assert_eq!(patch.applied(&scheduled), rate);
        assert_eq!(patch.of(&scheduled).applied(&rate), scheduled);
        let none = Patch::new([Setting::Path], Settings::default());
        assert_eq!(none.applied(&scheduled), scheduled);
    }
}
