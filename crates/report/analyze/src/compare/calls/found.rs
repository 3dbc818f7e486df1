//! What was found of pairs, and of calls without a partner.

use hashbrown::HashMap;

use super::call::Call;
use super::rows::NONE;
use crate::model::{CallDifference, ClientCalls, ComparedCalls, DifferenceKind, DividedTime};
use crate::read::columns::{Lexicon, Word};
use crate::read::lexica::Lexica;
use crate::read::names::Paths;
use crate::read::trace::Trace;

/// What stamps of two taps and the wake of a program differ by without a reason: a guess.
pub(super) const TOLERANCE_NS: i64 = 100_000;
/// Pairs of a client that are looked at for where both traces begin.
const FIRST: usize = 9;
/// Clients whose differences are counted.
const CLIENTS_MAX: usize = 65_536;
/// Clients that are listed.
const CLIENTS_LISTED: usize = 10;

const KINDS: [DifferenceKind; 6] = [
    DifferenceKind::Missing,
    DifferenceKind::Added,
    DifferenceKind::OtherStatus,
    DifferenceKind::OtherContent,
    DifferenceKind::Later,
    DifferenceKind::Earlier,
];

/// A call that is listed.
#[derive(Clone, Copy)]
struct Listed {
    a: Option<Call>,
    b: Option<Call>,
    by_ns: Option<i64>,
}

/// Adds up what is found.
pub(super) struct Found {
    top: usize,
    has_sums: bool,
    /// By how much B is later by its clock where both begin.
    zero_ns: Option<i64>,
    pub(super) pairs: u64,
    counts: [u64; 6],
    other_range: u64,
    other_arguments: u64,
    other_size: u64,
    other_data: u64,
    themselves: [u64; 2],
    clients: HashMap<Word, (ClientCalls, i128)>,
    listed: [Vec<Listed>; 6],
    response: [DividedTime; 2],
    response_pairs: u64,
}

impl Found {
    pub(super) fn new(top: usize, has_sums: bool) -> Self {
        Self {
            top,
            has_sums,
            zero_ns: None,
            pairs: 0,
            counts: [0; 6],
            other_range: 0,
            other_arguments: 0,
            other_size: 0,
            other_data: 0,
            themselves: [0; 2],
            clients: HashMap::new(),
            listed: std::array::from_fn(|_| Vec::new()),
            response: [DividedTime::default(); 2],
            response_pairs: 0,
        }
    }

    /// Takes the first pairs: both traces begin with a first pair of a client whose distance most
    /// clients share, else with that which comes earliest in B. One client that is late makes no
    /// other early, and one that is early makes no other late.
    pub(super) fn begin<'a>(&mut self, pairs: impl Iterator<Item = (&'a Call, &'a Call)>) {
        if self.zero_ns.is_some() {
            return;
        }
        let mut first: HashMap<Word, Vec<i64>> = HashMap::new();
        for (a, b) in pairs {
            if first.len() >= CLIENTS_MAX && !first.contains_key(&a.who) {
                continue;
            }
            let of_client = first.entry(a.who).or_default();
            if of_client.len() < FIRST {
                of_client.push(b.call_ns.saturating_sub(a.call_ns));
            }
        }
        let mut distances: Vec<i64> = { first.values() }.filter_map(|by| first_of(by)).collect();
        self.zero_ns = shared(&mut distances);
    }

    pub(super) fn pair(&mut self, a: &Call, b: &Call) {
        self.pairs += 1;
        let is_other_status = is_other_status(a, b);
        let is_other_content = self.is_other_content(a, b, is_other_status);
        let zero_ns = self.zero_ns.unwrap_or_default();
        let late_ns = b.call_ns.saturating_sub(a.call_ns).saturating_sub(zero_ns);
        let is_same_wait = a.after != 0 && a.after == b.after;
        let own_ns = is_same_wait.then(|| b.think_ns.saturating_sub(a.think_ns));
        self.themselves[0] += u64::from(own_ns > Some(TOLERANCE_NS));
        self.themselves[1] += u64::from(own_ns.is_some_and(|ns| ns < -TOLERANCE_NS));
        if let Some((of_client, sum)) = self.client(a.who) {
            of_client.pairs += 1;
            *sum += i128::from(late_ns);
        }
        let both = Listed {
            a: Some(*a),
            b: Some(*b),
            by_ns: None,
        };
        if is_other_status {
            self.note(DifferenceKind::OtherStatus, a.who, both);
        }
        if is_other_content {
            self.note(DifferenceKind::OtherContent, a.who, both);
        }
        let by_ns = Some(own_ns.unwrap_or(late_ns));
        if late_ns > TOLERANCE_NS {
            self.note(DifferenceKind::Later, a.who, Listed { by_ns, ..both });
        }
        if late_ns < -TOLERANCE_NS {
            self.note(DifferenceKind::Earlier, a.who, Listed { by_ns, ..both });
        }
        if a.response_ns != NONE && b.response_ns != NONE {
            self.response_pairs += 1;
            for (all, call) in self.response.iter_mut().zip([a, b]) {
                let network_ns = call.response_ns - call.server_ns;
                all.total_ns = all.total_ns.saturating_add(call.response_ns);
                all.server_ns = all.server_ns.saturating_add(call.server_ns);
                all.network_ns = all.network_ns.saturating_add(network_ns);
            }
        }
    }

    pub(super) fn alone(&mut self, is_of_b: bool, call: &Call) {
        let (kind, a, b) = match is_of_b {
            false => (DifferenceKind::Missing, Some(*call), None),
            true => (DifferenceKind::Added, None, Some(*call)),
        };
        let by_ns = None;
        self.note(kind, call.who, Listed { a, b, by_ns });
    }

    fn is_other_content(&mut self, a: &Call, b: &Call, is_other_status: bool) -> bool {
        let is_other_range =
            differs(0, a, b, |call| call.offset) || differs(0, a, b, |call| call.count);
        let is_asked_whole = !a.lacks[0] && !b.lacks[0];
        let is_other_asked = is_asked_whole && !is_other_range && a.asked != b.asked;
        // A reply that reports another status has other things in it anyway.
        let are_comparable = !is_other_status && !a.is_unanswered && !b.is_unanswered;
        let is_other_size = are_comparable
            && (differs(1, a, b, |call| call.moved) || differs(1, a, b, |call| call.size));
        let is_other_data = are_comparable
            && self.has_sums
            && !a.lacks[2]
            && !b.lacks[2]
            && (a.offset, a.moved) == (b.offset, b.moved)
            && a.data != b.data;
        self.other_range += u64::from(is_other_range);
        self.other_arguments += u64::from(is_other_asked);
        self.other_size += u64::from(is_other_size);
        self.other_data += u64::from(is_other_data);
        is_other_range || is_other_asked || is_other_size || is_other_data
    }

    fn client(&mut self, who: Word) -> Option<&mut (ClientCalls, i128)> {
        if self.clients.len() >= CLIENTS_MAX && !self.clients.contains_key(&who) {
            return None;
        }
        Some(self.clients.entry(who).or_default())
    }

    fn note(&mut self, kind: DifferenceKind, who: Word, call: Listed) {
        let at = kind as usize;
        self.counts[at] += 1;
        if let Some((of_client, _)) = self.client(who) {
            let count = match kind {
                DifferenceKind::Missing => &mut of_client.missing,
                DifferenceKind::Added => &mut of_client.added,
                DifferenceKind::OtherStatus => &mut of_client.other_status,
                DifferenceKind::OtherContent => &mut of_client.other_content,
                DifferenceKind::Later => &mut of_client.later,
                DifferenceKind::Earlier => &mut of_client.earlier,
            };
            *count += 1;
        }
        let listed = &mut self.listed[at];
        // Later and earlier ones: by most first. Of all others the first.
        let by = |call: &Listed| match kind {
            DifferenceKind::Earlier => call.by_ns.map_or(0, i64::saturating_neg),
            _ => call.by_ns.unwrap_or_default(),
        };
        let place = listed.partition_point(|other| by(other) >= by(&call));
        if place < self.top {
            listed.insert(place, call);
            listed.truncate(self.top);
        }
    }

    /// The paths of files in A, or else in B.
    fn paths(&self, traces: [&mut Trace; 2]) -> [Paths; 2] {
        let all = self.listed.iter().flatten();
        let [mut of_a, mut of_b] = [Vec::new(), Vec::new()];
        for call in all {
            of_a.extend(call.a.map(|call| call.file).filter(|file| *file != NONE));
            of_b.extend(call.b.map(|call| call.file).filter(|file| *file != NONE));
        }
        let [a, b] = traces;
        [Paths::of(a, of_a), Paths::of(b, of_b)]
    }

    /// Fills what pairs show of a comparison.
    pub(super) fn finish(self, traces: [&mut Trace; 2], lexica: &Lexica, to: &mut ComparedCalls) {
        // Of several runs, ids are none that another verb would find.
        let [has_ids_a, has_ids_b] = traces.each_ref().map(|trace| trace.run_count() == 1);
        let paths = self.paths(traces);
        to.pairs = self.pairs;
        let counts = [
            &mut to.missing,
            &mut to.added,
            &mut to.other_status,
            &mut to.other_content,
            &mut to.later,
            &mut to.earlier,
        ];
        counts
            .into_iter()
            .zip(self.counts)
            .for_each(|(count, found)| *count = found);
        (to.other_range, to.other_size) = (self.other_range, self.other_size);
        to.other_arguments = self.other_arguments;
        to.other_data = self.has_sums.then_some(self.other_data);
        [to.later_themselves, to.earlier_themselves] = self.themselves;
        (to.response, to.response_pairs) = (self.response, self.response_pairs);
        for (kind, listed) in KINDS.into_iter().zip(&self.listed) {
            let listed = { listed.iter() }.map(|call| {
                let of = difference(kind, call, &paths, lexica);
                CallDifference {
                    a_operation_id: of.a_operation_id.filter(|_| has_ids_a),
                    b_operation_id: of.b_operation_id.filter(|_| has_ids_b),
                    ..of
                }
            });
            to.differences.extend(listed);
        }
        let clients = self.clients.into_iter().map(|(who, (mut client, sum))| {
            client.client = lexica.clients.text(who).to_owned();
            let mean = sum / i128::from(client.pairs.max(1));
            client.later_mean_ns = i64::try_from(mean).unwrap_or_default();
            client
        });
        let weight = |client: &ClientCalls| {
            let alone = client.missing + client.added;
            let others = client.other_status + client.other_content;
            alone + others + client.later + client.earlier
        };
        let mut clients: Vec<_> = clients.filter(|client| weight(client) > 0).collect();
        clients.sort_by(|one, other| {
            { weight(other).cmp(&weight(one)) }.then_with(|| one.client.cmp(&other.client))
        });
        clients.truncate(CLIENTS_LISTED);
        to.clients = clients;
    }
}

/// The distance that most of several have, each of them and those later by the tolerance; of those
/// that equally many have the least.
fn shared(distances: &mut [i64]) -> Option<i64> {
    distances.sort_unstable();
    let mut best: Option<(i64, usize)> = None;
    let mut end = 0;
    for (at, &least) in distances.iter().enumerate() {
        let is_near = |by: &i64| by.saturating_sub(least) <= TOLERANCE_NS;
        while distances.get(end).is_some_and(is_near) {
            end += 1;
        }
        if best.is_none_or(|(_, most)| end - at > most) {
            best = Some((least, end - at));
        }
    }
    best.map(|(least, _)| least)
}

/// The first of some distances that is like the others: transaction ids may be the same by chance.
fn first_of(by: &[i64]) -> Option<i64> {
    const LIKE_NS: u64 = 1_000_000;
    let middle = |values: &mut Vec<u64>| {
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    let mut sorted = by.to_vec();
    sorted.sort_unstable();
    let median = *sorted.get(sorted.len() / 2)?;
    let mut apart: Vec<u64> = by.iter().map(|by| by.abs_diff(median)).collect();
    let like_ns = middle(&mut apart).saturating_mul(4).max(LIKE_NS);
    by.iter().copied().find(|by| by.abs_diff(median) <= like_ns)
}

/// Whether a value is another. Of a part of the call (0) or reply (1) that was not seen whole, a
/// value that is not there says nothing.
fn differs(part: usize, a: &Call, b: &Call, value: impl Fn(&Call) -> i64) -> bool {
    let (of_a, of_b) = (value(a), value(b));
    let is_seen = of_a != NONE && of_b != NONE;
    of_a != of_b && (is_seen || !a.lacks[part] && !b.lacks[part])
}

fn is_other_status(a: &Call, b: &Call) -> bool {
    let is_whole = a.is_unanswered || b.is_unanswered || !a.lacks[1] && !b.lacks[1];
    let is_seen = a.status != Lexicon::NONE && b.status != Lexicon::NONE;
    a.statuses != b.statuses && (is_whole || is_seen && !a.is_compound && !b.is_compound)
}

fn difference(
    kind: DifferenceKind,
    of: &Listed,
    paths: &[Paths; 2],
    lexica: &Lexica,
) -> CallDifference {
    let [a, b] = [of.a.as_ref(), of.b.as_ref()];
    let call = a.or(b);
    let text = |word: fn(&Call) -> Word| call.map_or("", |call| lexica.words.text(word(call)));
    let version = call.map_or(0, |call| call.version);
    let operation = match (text(|call| call.program), version) {
        ("", _) => text(|call| call.operation).to_owned(),
        (program, 0) => format!("{program} {}", text(|call| call.operation)),
        (program, version) => format!("{program} v{version} {}", text(|call| call.operation)),
    };
    let mut known = [a, b].into_iter().zip(paths);
    let path = known.find_map(|(call, paths)| paths.path(call?.file));
    CallDifference {
        kind,
        client: call
            .map_or("", |call| lexica.clients.text(call.client))
            .to_owned(),
        operation,
        path,
        a_operation_id: a.map(|call| call.id),
        b_operation_id: b.map(|call| call.id),
        a_time_ns: a.map(|call| call.call_ns),
        b_time_ns: b.map(|call| call.call_ns),
        what: match (a, b) {
            (Some(a), Some(b)) => words(kind, a, b, lexica),
            _ => String::new(),
        },
        later_ns: of.by_ns,
    }
}

/// What differs between two calls.
fn words(kind: DifferenceKind, a: &Call, b: &Call, lexica: &Lexica) -> String {
    let status = |call: &Call| match call.status {
        Lexicon::NONE => "no status",
        status => lexica.words.text(status),
    };
    if kind == DifferenceKind::OtherStatus {
        return match status(a) == status(b) {
            true => format!("{}, before it others", status(a)),
            false => format!("{} in A, {} in B", status(a), status(b)),
        };
    }
    if kind != DifferenceKind::OtherContent {
        return match b.after != 0 && a.after == b.after {
            true => "after the reply that it waited for".to_owned(),
            false => "since the begin".to_owned(),
        };
    }
    let number = |value: i64| match value {
        NONE => "none".to_owned(),
        value => value.to_string(),
    };
    type Field = (usize, &'static str, fn(&Call) -> i64);
    let fields: [Field; 4] = [
        (0, "offset", |call| call.offset),
        (0, "asked for", |call| call.count),
        (1, "moved", |call| call.moved),
        (1, "size of the file", |call| call.size),
    ];
    let other = fields
        .into_iter()
        .filter(|(part, _, value)| differs(*part, a, b, value));
    let other = other.map(|(_, name, value)| {
        format!(
            "{name} {} in A, {} in B",
            number(value(a)),
            number(value(b))
        )
    });
    let mut all: Vec<String> = other.collect();
    if all.is_empty() {
        let is_asked = a.asked != b.asked;
        all.push(
            if is_asked {
                "another name, or other arguments"
            } else {
                "other data"
            }
            .to_owned(),
        );
    }
    all.join("; ")
}
