//! Which clients and files took much time, of bounded size: who may be slow.

use hashbrown::HashMap;

use crate::numbers::share;
use crate::read::columns::{Lexicon, Word};

/// Who is slow exceeds the others by at least this time, on average.
pub(super) const EXCESS_MIN_NS: u64 = 2_000_000;
/// Operations of a suspect in its run, and of those with which it is compared.
pub(super) const OPERATIONS_MIN: u64 = 50;
/// Files that are kept apart. When there are more, the half that took least is forgotten.
const FILES_MAX: usize = 65_536;
/// Of suspects of a kind, those that took most time.
const SUSPECTS_MAX: usize = 8;
/// It takes this share of all time.
pub(super) const TIME_SHARE_MIN: f64 = 0.05;

/// Time in operations that took long.
#[derive(Debug, Clone, Copy, Default)]
struct Wait {
    operations: u64,
    ns: u64,
}

/// Who took much time.
#[derive(Debug, Default)]
pub(super) struct Waits {
    clients: Vec<Wait>,
    files: HashMap<i64, Wait>,
    latency_ns: u64,
    server_ns: u64,
}

impl Waits {
    #[inline]
    pub(super) fn add(
        &mut self,
        client: Word,
        file_id: Option<i64>,
        latency_ns: u64,
        server_ns: u64,
    ) {
        self.latency_ns += latency_ns;
        self.server_ns += server_ns;
        // An operation that takes less cannot exceed others by so much.
        if latency_ns >= EXCESS_MIN_NS {
            self.add_long(client, file_id, latency_ns, server_ns);
        }
    }

    #[inline(never)]
    fn add_long(&mut self, client: Word, file_id: Option<i64>, latency_ns: u64, server_ns: u64) {
        let at = client as usize;
        if at >= self.clients.len() {
            self.clients.resize(at + 1, Wait::default());
        }
        self.clients[at].operations += 1;
        self.clients[at].ns += latency_ns;
        let Some(file_id) = file_id.filter(|_| server_ns >= EXCESS_MIN_NS) else {
            return;
        };
        if self.files.len() >= FILES_MAX && !self.files.contains_key(&file_id) {
            let mut times: Vec<u64> = self.files.values().map(|wait| wait.ns).collect();
            let middle = times.len() / 2;
            let (_, median, _) = times.select_nth_unstable(middle);
            let median = *median;
            self.files.retain(|_, wait| wait.ns > median);
        }
        let wait = self.files.entry(file_id).or_default();
        wait.operations += 1;
        wait.ns += server_ns;
    }

    /// Those that took enough to be named, most first.
    pub(super) fn clients(&self) -> Vec<Word> {
        let known = self
            .clients
            .iter()
            .enumerate()
            .skip(Lexicon::OTHER as usize + 1);
        let all = known.map(|(word, wait)| (word as Word, *wait));
        most(all, self.latency_ns)
    }

    pub(super) fn files(&self) -> Vec<i64> {
        most(
            self.files.iter().map(|(&id, &wait)| (id, wait)),
            self.server_ns,
        )
    }
}

fn most<K: Copy + Ord>(waits: impl Iterator<Item = (K, Wait)>, whole_ns: u64) -> Vec<K> {
    let enough = |wait: &Wait| {
        wait.operations >= OPERATIONS_MIN / 2 && share(wait.ns, whole_ns) >= TIME_SHARE_MIN
    };
    let mut found: Vec<(K, Wait)> = waits.filter(|(_, wait)| enough(wait)).collect();
    found.sort_unstable_by_key(|(key, wait)| (std::cmp::Reverse(wait.ns), *key));
    found
        .into_iter()
        .take(SUSPECTS_MAX)
        .map(|(key, _)| key)
        .collect()
}
