//! Uses of a payload cache beside a forwarder's, as sequences of bind, send and invalidate.
//!
//! In `pcache` mode each payload that arrives crosses the bus once, and each send that misses once
//! more: that is counted, in pages.

use lineside_account::Budget;
use lineside_time::Random;
use serde::Serialize;

use crate::cache::{Advice, Bound, Cache, CacheCounters, FrameId, Residence};

/// The names of all patterns.
pub const PATTERNS: [&str; 3] = ["multicast", "proxy", "nfs-web"];

const PAGE_BYTES: u64 = 4096;
const MEMORY_BYTES: usize = 256 << 20;
/// Requests of a pattern.
const REQUESTS: u32 = 20_000;
/// Receivers of a multicast packet.
const RECEIVERS: u32 = 8;
/// Packets of a node that wait, at most.
const BACKLOG: u32 = 64;
/// Pages of all documents of a server: four times the paper's cache.
const DOCUMENTS: u32 = 1400;
/// One request in this many changes a document.
const CHANGE_EVERY: u64 = 50;
/// Documents that are asked for most: a tenth, by nine requests in ten.
const POPULAR: f64 = 0.9;

/// What a pattern did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PatternOutcome {
    /// Its name.
    pub name: &'static str,
    /// What happens in it.
    pub what: &'static str,
    /// Entries of the cache.
    pub entries: u32,
    /// What the cache counted.
    pub cache: CacheCounters,
    /// Pages that crossed the bus.
    pub crossings: u64,
    /// Pages that would have without a cache.
    pub crossings_without: u64,
}

impl PatternOutcome {
    /// Sends whose payload was there.
    pub fn hit_rate(&self) -> f64 {
        self.cache.hits as f64 / (self.cache.hits + self.cache.misses).max(1) as f64
    }
}

struct Run {
    cache: Cache,
    random: Random,
    received: u64,
    sent: u64,
    missed: u64,
}

impl Run {
    fn receive(&mut self, frame: u32) {
        self.received += 1;
        self.cache.receive_bind(FrameId(frame));
        self.cache.receive_complete(FrameId(frame), Residence::Both);
    }

    /// Begins a send; whether there is something to complete.
    fn begin_send(&mut self, frame: u32) -> bool {
        self.sent += 1;
        let bound = self.cache.send_bind(FrameId(frame));
        self.missed += u64::from(!matches!(bound, Bound::Hit(_)));
        bound != Bound::Past
    }

    fn send(&mut self, frame: u32) {
        if self.begin_send(frame) {
            self.cache.send_complete(FrameId(frame));
        }
    }

    fn document(&mut self) -> u32 {
        let popular = self.random.chance(POPULAR);
        let among = if popular { DOCUMENTS / 10 } else { DOCUMENTS };
        self.random.below(u64::from(among)) as u32
    }

    fn finish(self, name: &'static str, what: &'static str) -> PatternOutcome {
        PatternOutcome {
            name,
            what,
            entries: self.cache.entries() as u32,
            cache: self.cache.counters(),
            crossings: self.received + self.missed,
            crossings_without: self.received + self.sent,
        }
    }
}

/// Runs a pattern; `None` if there is none of this name, or no memory for the cache.
pub fn pattern(name: &str, cache_bytes: u64, seed: u64) -> Option<PatternOutcome> {
    let entries = (cache_bytes / PAGE_BYTES).min(1 << 20) as u32;
    let cache = Cache::new(entries, DOCUMENTS, &Budget::new(MEMORY_BYTES))?;
    let run = Run {
        cache,
        random: Random::new(seed),
        received: 0,
        sent: 0,
        missed: 0,
    };
    match name {
        "multicast" => Some(multicast(run)),
        "proxy" => Some(proxy(run)),
        "nfs-web" => Some(nfs_web(run)),
        _ => None,
    }
}

/// A packet arrives, and goes to each receiver; all its sends are pending together.
fn multicast(mut run: Run) -> PatternOutcome {
    let mut first = 0;
    for number in 0..REQUESTS {
        run.receive(number % DOCUMENTS);
        let backlog = run.random.below(u64::from(BACKLOG)) as u32;
        while first + backlog < number {
            let frame = first % DOCUMENTS;
            let pending = (0..RECEIVERS).filter(|_| run.begin_send(frame)).count();
            (0..pending).for_each(|_| drop_bool(run.cache.send_complete(FrameId(frame))));
            run.cache.advise(FrameId(frame), Advice::Demote);
            first += 1;
        }
    }
    run.finish(
        "multicast",
        "each payload arrives once and is sent to 8 receivers",
    )
}

/// A document comes from its server on a miss of the proxy's own store, and is sent from the
/// host's memory ever after, with a new header; some change.
fn proxy(mut run: Run) -> PatternOutcome {
    let mut stored = vec![false; DOCUMENTS as usize];
    for _ in 0..REQUESTS {
        let document = run.document();
        if run.random.below(CHANGE_EVERY) == 0 {
            run.cache.invalidate_binding(FrameId(document));
            stored[document as usize] = false;
        }
        if !std::mem::replace(&mut stored[document as usize], true) {
            run.receive(document);
        }
        run.send(document);
        run.cache.advise(FrameId(document), Advice::Promote);
    }
    run.finish(
        "proxy",
        "documents arrive once, are sent again and again, and seldom change",
    )
}

/// A web server reads from an NFS server what its buffer cache has not, and writes some pages
/// itself: what it made has to cross.
fn nfs_web(mut run: Run) -> PatternOutcome {
    let mut buffered = vec![false; DOCUMENTS as usize];
    for _ in 0..REQUESTS {
        let page = run.document();
        if run.random.below(CHANGE_EVERY) == 0 {
            // The server fills the page by itself: only the host has it.
            run.cache.invalidate_binding(FrameId(page));
            buffered[page as usize] = true;
        }
        if !std::mem::replace(&mut buffered[page as usize], true) {
            run.receive(page);
        }
        run.send(page);
    }
    run.finish(
        "nfs-web",
        "pages are read by NFS once and sent by HTTP; some are made here",
    )
}

/// All sends under way are of this frame, so that each completes.
fn drop_bool(completed: bool) {
    debug_assert!(completed, "a send that was bound completes");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pattern_saves_crossings_and_more_cache_saves_more() {
        for name in PATTERNS {
            let rates = [16 << 10, 256 << 10, 8 << 20].map(|bytes| {
                let outcome = pattern(name, bytes, 1).expect("it is there");
                let missed = outcome.crossings_without - outcome.crossings;
                assert_eq!(missed, outcome.cache.hits, "{name}");
                outcome.hit_rate()
            });
            assert!(rates.is_sorted() && rates[2] > 0.9, "{name}: {rates:?}");
        }
        assert!(pattern("nothing", 1 << 20, 1).is_none());
    }
}
