//! Captures of both ends of a path, given together: each packet is in them twice, at any delay, by
//! two clocks.
//!
//! ```text
//!  inputs ─► samples ─► packets in common? ─► both read ─► flows ─► which tap is the server's
//!                           │ no: nothing changes              ├─► frames that go away   (Dropped)
//!                           ▼                                  └─► stamps for the rows   (Stamps)
//!                         capture
//! ```
//!
//! Before the run, and only of files. What is found is fixed for the run: the frames of the other
//! tap that go away, by their numbers, and for frames of the server's tap the other's stamp. So
//! rows do not depend on how inputs are merged, nor on the number of cores. See
//! `docs/decisions/0041-two-taps.md`.

mod again;
mod flows;
mod matching;
mod pair;
mod sample;
mod stamps;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use lineside_account::{Budget, Counter, Counters};
use lineside_frame::{Burst, FrameRef};
use lineside_trace::{TwoTaps, Verdict};

use crate::filtered::count_unread;
use again::Again;
use flows::{Flows, Tap};
use pair::Outcome;
use sample::Samples;

pub use stamps::Amend;
pub(crate) use stamps::{Amended, Stamps};

/// Inputs among which taps are looked for, and taps. More are a ring's files, each of which would
/// be read twice.
const TAPS_MAX: usize = 8;

/// What was found before the run.
#[derive(Default)]
pub(crate) struct Taps {
    /// Taps whose frames go away, each with the one for which they do.
    order: Vec<[Tap; 2]>,
    /// Pairs of taps, for `trace.json`.
    pub(crate) pairs: Vec<TwoTaps>,
    /// What the user should know.
    pub(crate) notes: Vec<String>,
    /// The frames that are not taken.
    pub(crate) dropped: Dropped,
    /// The stamps of the other tap.
    pub(crate) stamps: Option<Arc<Stamps>>,
}

/// Looks for packets that several of these files have.
pub(crate) fn find(inputs: &[PathBuf], budget: &Budget) -> Taps {
    let are_files = inputs.len() <= TAPS_MAX && { inputs.iter() }
        .all(|path| path.metadata().is_ok_and(|facts| facts.is_file()));
    let mut taps = Taps::default();
    if !are_files {
        return taps;
    }
    let samples = Samples::of(inputs, budget, &mut taps.dropped.again);
    let mut stamps = BTreeMap::new();
    for [one, other] in samples.pairs(inputs, TAPS_MAX, budget) {
        let shared = |hosts| samples.share_hosts([one, other], hosts);
        match Flows::read(inputs, [one, other], shared, budget) {
            Some(mut flows) => {
                let outcome = pair::compare(&mut flows, [one, other], inputs);
                taps.take(outcome, &mut stamps);
            }
            None => taps.notes.push(format!(
                "{} and {} are captures of the same packets, and too long to be compared with this \
                 memory (--memory): their packets count twice",
                inputs[usize::from(one.input)].display(),
                inputs[usize::from(other.input)].display(),
            )),
        }
    }
    taps.notes.extend(samples.apart(inputs));
    taps.stamps = (!stamps.is_empty()).then(|| Arc::new(Stamps::new(stamps)));
    taps
}

impl Taps {
    /// Whether the frames of `one` go away for `other`, perhaps by way of taps between them.
    fn gives_way(&self, one: Tap, other: Tap) -> bool {
        let mut next = self
            .order
            .iter()
            .filter(|[from, to]| *from == one && from != to);
        next.any(|[_, to]| *to == other || self.gives_way(*to, other))
    }

    fn take(&mut self, outcome: Outcome, stamps: &mut BTreeMap<(u16, u32), i64>) {
        let [client, server] = outcome.taps;
        // Of three taps at nearly one place, each might give way to the next.
        let is_circle = client != server && self.gives_way(server, client);
        if outcome.facts.packets == 0 || is_circle {
            return;
        }
        self.order.push(outcome.taps);
        for (input, frame) in outcome.dropped {
            self.dropped.add(input, frame);
        }
        stamps.extend(outcome.stamps);
        self.notes.push(outcome.note);
        self.pairs.push(outcome.facts);
    }
}

/// Frames that another tap has too, by input and number.
#[derive(Default)]
pub(crate) struct Dropped {
    /// A bit a frame, of each input.
    bits: Vec<Vec<u64>>,
    counters: Counters,
    /// What would show that one file has each packet twice after all.
    again: Again,
}

impl Dropped {
    fn add(&mut self, input: u16, frame: u32) {
        let (input, word) = (usize::from(input), frame as usize / 64);
        if self.bits.len() <= input {
            self.bits.resize(input + 1, Vec::new());
        }
        let bits = &mut self.bits[input];
        if bits.len() <= word {
            bits.resize(word + 1, 0);
        }
        bits[word] |= 1 << (frame % 64);
    }

    fn has(&self, frame: &FrameRef) -> bool {
        let descriptor = frame.descriptor();
        let bits = self.bits.get(usize::from(descriptor.input));
        let word = bits.and_then(|bits| bits.get(usize::try_from(descriptor.number / 64).ok()?));
        word.is_some_and(|word| word & 1 << (descriptor.number % 64) != 0)
    }

    /// Reports in the verdict what the run noticed.
    pub(crate) fn doubt(&self, verdict: &mut Verdict) {
        if self.bits.is_empty() {
            self.again.doubt(verdict);
        }
    }

    /// What was counted of the frames that went away.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes the frames from `start` on out of `burst` that are to go away; returns how many are
    /// left of them. `None`: none ever goes away.
    pub(crate) fn take_from(&mut self, burst: &mut Burst, start: usize) -> Option<usize> {
        if self.bits.is_empty() {
            self.again.look(&burst[start..]);
            return None;
        }
        let mut kept = start;
        for at in start..burst.len() {
            if self.has(&burst[at]) {
                self.counters.count(Counter::FramesOtherTap);
                count_unread(&mut self.counters, &burst[at]);
            } else {
                burst.swap(kept, at);
                kept += 1;
            }
        }
        burst.truncate(kept);
        Some(kept - start)
    }
}
