//! Whether a stealing scheduler lets others have what waits for it, and in which order it runs that
//! itself.
//!
//! A message to another core costs five to ten times one that stays, and so does an actor that
//! moves. Actors that do little for each message are therefore slower on several cores than on one,
//! unless so many wait that the others have enough to do. Each scheduler judges by its own last
//! passes. One that shares nothing is not stolen from and wakes no other; but a scheduler that
//! sleeps beside it asks it to share, and it has to refuse after its next pass
//! (`Scheduler::ask_to_share`).

use std::time::Duration;

/// Activations between two looks at inbox, rings and timers: enough that a look (some ten loads) is
/// nothing per message, few enough that a message from another core waits for microseconds.
pub(crate) const ACTIVATIONS_PER_PASS: usize = 32;

/// An activation worth more than the messages to another core and back that it may cost (about 0.2
/// µs).
const ACTIVATION_WORTH_SHARING: Duration = Duration::from_micros(1);
/// A wait until the last that is runnable runs, worth another thread's waking up: about what that
/// takes.
const WAIT_WORTH_SHARING: Duration = Duration::from_micros(50);
/// Messages an activation from which on the activation itself, and not its way through the run
/// queue, is what costs. Fewer gather where two cores overtake each other, or where what became
/// runnable last runs first.
const MESSAGES_FEW: u64 = 8;
/// How many are gathered, once it was begun.
const MESSAGES_GATHERED: u64 = 16;
/// So many of the last eight passes have to be heavy for a scheduler to share again: one alone may
/// have been interrupted. They need not follow each other: where one of a hundred actors is heavy,
/// most passes are light, and most of the time is not.
const HEAVY_FEW: u32 = 2;

/// What a scheduler saw of its last pass.
pub(crate) struct Pass {
    pub(crate) activations: u32,
    pub(crate) messages: u64,
    /// Actors in the run queue at its end.
    pub(crate) waiting: u32,
    pub(crate) took: Duration,
}

pub(crate) struct Sharing {
    on: bool,
    /// Which of the last eight passes were not light, the latest in the lowest bit.
    heavy: u8,
    gathers: bool,
}

impl Sharing {
    pub(crate) fn new() -> Self {
        Self {
            on: true,
            heavy: 1,
            gathers: false,
        }
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn off() -> Self {
        Self {
            on: false,
            heavy: 0,
            gathers: false,
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Whether what became runnable last runs first, so that messages gather in the mailboxes of
    /// the others.
    pub(crate) fn gathers(&self) -> bool {
        self.gathers
    }

    pub(crate) fn weigh(&mut self, pass: &Pass) {
        let ran = pass.activations;
        let light = ran as usize == ACTIVATIONS_PER_PASS
            && pass.took < ACTIVATION_WORTH_SHARING * ran
            && pass.took * pass.waiting < WAIT_WORTH_SHARING * ran;
        let enough = if self.gathers {
            MESSAGES_GATHERED
        } else {
            MESSAGES_FEW
        };
        self.gathers = light && pass.messages < enough * u64::from(ran);
        self.heavy = self.heavy << 1 | u8::from(!light);
        if !self.on {
            self.on = self.heavy.count_ones() >= HEAVY_FEW;
        } else if self.heavy & 0b11 == 0 {
            (self.on, self.heavy) = (false, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full pass of `messages` for each activation of `nanoseconds`, behind which this many
    /// actors wait.
    fn pass(messages: u64, nanoseconds: u64, waiting: u32) -> Pass {
        let activations = ACTIVATIONS_PER_PASS as u32;
        Pass {
            activations,
            messages: messages * u64::from(activations),
            waiting,
            took: Duration::from_nanos(nanoseconds) * activations,
        }
    }

    fn after(passes: &[Pass]) -> (bool, bool) {
        let mut sharing = Sharing::new();
        passes.iter().for_each(|pass| sharing.weigh(pass));
        (sharing.is_on(), sharing.gathers())
    }

    #[test]
    fn light_work_stays_where_it_is() {
        let light = || pass(10, 100, 100);
        assert_eq!(after(&[light()]), (true, false), "one pass says little");
        assert_eq!(after(&[light(), light()]), (false, false));
        let heavy = || pass(10, 1_000, 100);
        assert_eq!(after(&[heavy(), heavy()]), (true, false));
        let many = || pass(10, 100, 500);
        assert_eq!(after(&[many(), many()]), (true, false), "50 µs wait");
        let done = || Pass {
            activations: 31,
            ..light()
        };
        assert_eq!(after(&[done(), done()]), (true, false), "nothing waits");
    }

    #[test]
    fn heavy_work_is_shared_again_after_an_interrupted_pass() {
        let light = || pass(10, 100, 100);
        let heavy = || pass(10, 1_000_000, 100);
        assert!(!after(&[light(), light(), heavy()]).0);
        assert!(after(&[light(), light(), heavy(), light(), heavy()]).0);
        assert!(after(&[light(), light(), heavy(), heavy()]).0);
    }

    #[test]
    fn few_messages_are_gathered_until_they_are_enough() {
        let few = |messages| pass(messages, 50, 100);
        assert!(after(&[few(1)]).1);
        assert!(after(&[few(7)]).1);
        assert!(!after(&[few(8)]).1);
        assert!(after(&[few(1), few(15)]).1);
        assert!(!after(&[few(1), few(16)]).1);
        assert!(!after(&[few(1), few(16), few(8)]).1);
        assert!(!after(&[pass(1, 1_000, 2)]).1, "heavy work takes its turn");
    }
}
