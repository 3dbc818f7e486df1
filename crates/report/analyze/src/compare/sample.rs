//! One of the two traces: what the pass over its operations collects, slice by slice.

use std::path::Path;

use hashbrown::{HashMap, HashSet};
use lineside_rows::Table;

use super::statistics::{Distribution, Logarithms, step};
use crate::limits::KINDS_MAX;
use crate::read::batch::Batch;
use crate::read::columns::{Lexicon, Texts, Word};
use crate::read::filter::Asked;
use crate::read::filter::{Filter, span};
use crate::read::lexica::Lexica;
use crate::read::round_trips::{RoundTrips, add_ends, elapsed_ns};
use crate::read::trace::{Trace, TraceError};

/// Slices of time: enough for variances, and each long enough for a burst to lie inside.
pub(super) const SLICES: u32 = 48;
/// Pairs of client, or server, and kind of operation whose times are kept apart: about 10 KiB each.
pub(super) const PAIRS_MAX: usize = 16_384;
/// Files, each with its READs, WRITEs and other operations apart: about 110 bytes each.
pub(super) const FILES_MAX: usize = 1 << 21;
/// Outcomes (kind of operation, status), at most.
const OUTCOMES_MAX: usize = 1_024;

/// Program, version and name of an operation.
pub(super) type Kind = (String, Option<i32>, String);

/// What went wrong with an operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// It failed with this status.
    Status(String),
    /// No reply was seen.
    NoReply,
    /// The call came again before its reply.
    SentAgain,
}

/// A count for each slice.
pub(super) type Slices = [u32; SLICES as usize];

/// Operations of a kind, or of a client or server and a kind.
#[derive(Default)]
pub(super) struct Times {
    pub(super) operations: u64,
    pub(super) latency: Distribution,
}

/// Clients, or servers.
#[derive(Default)]
pub(super) struct Hosts {
    /// Operations of each.
    pub(super) counts: HashMap<String, Slices>,
    pub(super) kinds: HashMap<(String, Kind), Times>,
}

/// A trace.
pub(super) struct Sample {
    pub(super) trace: Trace,
    pub(super) asked: Asked,
    /// When the first chosen operation began, and how long a slice is.
    pub(super) start_ns: i64,
    pub(super) slice_ns: u64,
    pub(super) duration_ns: u64,
    /// The first call and the last reply.
    ends: Option<(i64, i64)>,
    pub(super) round_trip_ns: Option<u64>,
    pub(super) operations: u64,
    pub(super) failed: u64,
    /// Of all operations.
    pub(super) counts: Slices,
    /// Bytes that READ and WRITE moved.
    pub(super) moved_bytes: [Vec<f64>; 2],
    pub(super) kinds: HashMap<Kind, (Times, Slices)>,
    pub(super) outcomes: HashMap<(Kind, Outcome), Slices>,
    pub(super) clients: Hosts,
    /// None where both traces together have one server: it has what the kinds of operations show.
    pub(super) servers: Hosts,
    /// By file and way: READ, WRITE, any other.
    pub(super) files: HashMap<(i64, u8), Logarithms>,
    /// Operations of pairs and of files for which there was no room.
    pub(super) not_apart: [u64; 3],
    /// Addresses of servers.
    pub(super) addresses: HashSet<String>,
}

/// A row's times, for the second step of a batch.
struct Used {
    /// By client, by server.
    pairs: [Option<u32>; 2],
    slice: u32,
    ns: u64,
    /// The file and the way.
    file: Option<(i64, u8)>,
}

/// A kind of operations: program, version, name.
type KindKey = (Word, Option<i32>, Word);

/// What the pass fills, with numbers in place of texts.
struct Pass {
    start_ns: i64,
    slice_ns: u64,
    ends: Option<(i64, i64)>,
    counts: Slices,
    operations: u64,
    failed: u64,
    moved_bytes: [Vec<f64>; 2],
    kinds: Vec<(KindKey, u8, Slices, u64)>,
    kind_places: HashMap<KindKey, u16>,
    last_kind: Option<(KindKey, u16)>,
    outcomes: HashMap<(u16, OutcomeWord), Slices>,
    clients: Axis,
    servers: Option<Axis>,
    files: HashMap<(i64, u8), Logarithms>,
    files_not_apart: u64,
    used: Vec<Used>,
}

const NO_PAIR: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum OutcomeWord {
    Status(Word),
    NoReply,
    SentAgain,
}

/// Clients, or servers, with numbers in place of texts.
#[derive(Default)]
struct Axis {
    pairs: Vec<((Word, u16), Times)>,
    /// By host, then by kind; [`NO_PAIR`] if it has none.
    places: Vec<Vec<u32>>,
    counts: Vec<Slices>,
    not_apart: u64,
}

impl Axis {
    /// Adds an operation; the place of its host and kind.
    fn add(&mut self, host: Word, kind: u16, slice: Option<u32>) -> u32 {
        let pair = self.pair(host, kind);
        self.pairs[pair as usize].1.operations += 1;
        if let Some(slice) = slice {
            let at = host as usize;
            if at >= self.counts.len() {
                self.counts.resize(at + 1, [0; SLICES as usize]);
            }
            self.counts[at][slice as usize] += 1;
        }
        pair
    }

    /// The place of a pair; those for which there is no room share one for each kind.
    fn pair(&mut self, host: Word, kind: u16) -> u32 {
        let room = self.pairs.len();
        let mut key = (host, kind);
        if room >= PAIRS_MAX && *self.place(key) == NO_PAIR {
            self.not_apart += 1;
            key.0 = Lexicon::OTHER;
        }
        let at = self.place(key);
        if *at == NO_PAIR {
            *at = room as u32;
            self.pairs.push((key, Times::default()));
            return room as u32;
        }
        *at
    }

    fn place(&mut self, (host, kind): (Word, u16)) -> &mut u32 {
        let (host, kind) = (host as usize, usize::from(kind));
        if host >= self.places.len() {
            self.places.resize_with(host + 1, Vec::new);
        }
        let kinds = &mut self.places[host];
        if kind >= kinds.len() {
            kinds.resize(kind + 1, NO_PAIR);
        }
        &mut kinds[kind]
    }

    /// No time comes any more.
    fn settle(&mut self) {
        let times = self.pairs.iter_mut();
        times.for_each(|(_, times)| times.latency.settle());
    }

    /// With texts in place of numbers.
    fn named(self, names: &[Kind], lexicon: &Lexicon) -> Hosts {
        let is_named = |host: Word| host != Lexicon::NONE && host != Lexicon::OTHER;
        let text = |host: Word| lexicon.text(host).to_owned();
        let kinds = { self.pairs.into_iter() }.filter(|((host, _), _)| is_named(*host));
        let counts = (0..)
            .zip(self.counts)
            .filter(|(host, slices)| is_named(*host) && slices.iter().any(|&count| count > 0));
        Hosts {
            counts: counts.map(|(host, slices)| (text(host), slices)).collect(),
            kinds: kinds
                .map(|((host, kind), times)| {
                    ((text(host), names[usize::from(kind)].clone()), times)
                })
                .collect(),
        }
    }
}

impl Sample {
    /// Reads the chosen operations of a trace, which has servers of these `addresses`; by server if
    /// there are several in both traces together.
    pub(super) fn of(
        mut trace: Trace,
        (path, filter): (&Path, &Filter),
        addresses: HashSet<String>,
        is_by_server: bool,
    ) -> Result<Self, TraceError> {
        let (chosen, span) = span(&mut trace, filter)?;
        let mut lexica = Lexica::new();
        let mut pass = Pass::new(span, is_by_server);
        trace.batches(Table::Operations, &Batch::columns(&chosen), |columns| {
            let batch = Batch::of(columns, &chosen, &mut lexica)?;
            let rows = batch.chosen(&chosen, &lexica);
            for row in rows {
                pass.add(&batch, row, &mut lexica);
            }
            pass.add_times();
            Ok(())
        });
        chosen.check(&lexica, &trace.warnings)?;
        let duration_ns = span.map_or(0, |(first, last)| last.abs_diff(first));
        let asked = chosen.asked(path, filter);
        let round_trip_ns = RoundTrips::of(&mut trace, &chosen).median_ns();
        let sample = pass.named(&lexica, trace, asked, duration_ns, addresses);
        Ok(Self {
            round_trip_ns,
            ..sample
        })
    }

    /// From the first call to the last reply.
    pub(super) fn elapsed_ns(&self) -> Option<u64> {
        elapsed_ns(self.ends)
    }

    /// The time at which a slice begins.
    pub(super) fn begin_ns(&self, slice: u32) -> i64 {
        self.start_ns
            .saturating_add_unsigned(self.slice_ns * u64::from(slice))
    }
}

impl Pass {
    fn new(span: Option<(i64, i64)>, is_by_server: bool) -> Self {
        let (first, last) = span.unwrap_or_default();
        Self {
            start_ns: first,
            slice_ns: last.abs_diff(first) / u64::from(SLICES) + 1,
            ends: None,
            counts: [0; SLICES as usize],
            operations: 0,
            failed: 0,
            moved_bytes: std::array::from_fn(|_| vec![0.0; SLICES as usize]),
            kinds: Vec::new(),
            kind_places: HashMap::new(),
            last_kind: None,
            outcomes: HashMap::new(),
            clients: Axis::default(),
            servers: is_by_server.then(Axis::default),
            files: HashMap::new(),
            files_not_apart: 0,
            used: Vec::new(),
        }
    }

    fn slice(&self, time_ns: Option<i64>) -> Option<u32> {
        let since = u64::try_from(time_ns?.checked_sub(self.start_ns)?).ok()?;
        Some((since / self.slice_ns).min(u64::from(SLICES) - 1) as u32)
    }

    fn add(&mut self, batch: &Batch<'_>, row: usize, lexica: &mut Lexica) {
        let kind = self.kind(batch, row, lexica);
        let status = lexica.failure(batch.status.get(row), batch.rpc_status.get(row));
        self.operations += 1;
        self.failed += u64::from(status.is_some());
        add_ends(&mut self.ends, batch, row);
        let slice = self.slice(batch.time(row));
        let pair = self.clients.add(batch.client.get(row), kind, slice);
        let servers = self.servers.as_mut();
        let of_server = servers.map(|axis| axis.add(batch.server.get(row), kind, slice));
        self.kinds[usize::from(kind)].3 += 1;
        let Some(slice) = slice else {
            return;
        };
        let at = slice as usize;
        self.counts[at] += 1;
        self.kinds[usize::from(kind)].2[at] += 1;
        let outcomes = [
            status.map(OutcomeWord::Status),
            batch.reply_missing.get(row).then_some(OutcomeWord::NoReply),
            (batch.retransmissions.get(row) > 0).then_some(OutcomeWord::SentAgain),
        ];
        for outcome in outcomes.into_iter().flatten() {
            if self.outcomes.len() < OUTCOMES_MAX || self.outcomes.contains_key(&(kind, outcome)) {
                let slices = self.outcomes.entry((kind, outcome));
                slices.or_insert([0; SLICES as usize])[at] += 1;
            }
        }
        let way = self.kinds[usize::from(kind)].1;
        if let (Some(moved), Some(bytes)) = (
            batch.transferred.get(row),
            self.moved_bytes.get_mut(usize::from(way)),
        ) {
            bytes[at] += moved as f64;
        }
        let hang = batch.wait(row).filter(|wait| wait.is_hang());
        let latency_ns = batch.latency_ns(row).or_else(|| Some(hang?.ns()));
        if let Some(ns) = latency_ns {
            self.used.push(Used {
                pairs: [Some(pair), of_server],
                slice,
                ns,
                file: batch.file_id.get(row).map(|file_id| (file_id, way)),
            });
        }
    }

    /// Adds the batch's times. What is looked up lies all over the memory, and short loops let a
    /// processor wait for several places at once.
    fn add_times(&mut self) {
        for used in &self.used {
            let step = step(used.ns);
            for (axis, pair) in [Some(&mut self.clients), self.servers.as_mut()]
                .into_iter()
                .zip(used.pairs)
            {
                if let (Some(axis), Some(pair)) = (axis, pair) {
                    axis.pairs[pair as usize].1.latency.add(used.slice, step);
                }
            }
        }
        for used in self.used.drain(..) {
            let Some(key) = used.file else {
                continue;
            };
            if self.files.len() < FILES_MAX || self.files.contains_key(&key) {
                let logarithm = (used.ns.max(1) as f64).ln();
                self.files
                    .entry(key)
                    .or_default()
                    .add(used.slice, logarithm);
            } else {
                self.files_not_apart += 1;
            }
        }
    }

    fn kind(&mut self, batch: &Batch<'_>, row: usize, lexica: &Lexica) -> u16 {
        let mut key = (
            batch.program.get(row),
            batch.version.get(row),
            batch.operation.get(row),
        );
        if let Some((_, at)) = self.last_kind.filter(|(last, _)| *last == key) {
            return at;
        }
        if let Some(&at) = self.kind_places.get(&key) {
            self.last_kind = Some((key, at));
            return at;
        }
        // The last place is for kinds for which there is no room.
        if self.kinds.len() + 1 >= KINDS_MAX {
            key = (Lexicon::OTHER, None, Lexicon::OTHER);
            if let Some(&at) = self.kind_places.get(&key) {
                return at;
            }
        }
        let way = way(lexica.words.text(key.0), lexica.words.text(key.2));
        let at = self.kinds.len() as u16;
        self.kinds.push((key, way, [0; SLICES as usize], 0));
        self.kind_places.insert(key, at);
        at
    }

    /// With texts in place of numbers, which are the same in every trace.
    fn named(
        mut self,
        lexica: &Lexica,
        trace: Trace,
        asked: Asked,
        duration_ns: u64,
        addresses: HashSet<String>,
    ) -> Sample {
        let text = |word| lexica.words.text(word).to_owned();
        let names: Vec<Kind> = { self.kinds.iter() }
            .map(|((program, version, operation), ..)| (text(*program), *version, text(*operation)))
            .collect();
        let mut of_kinds: Vec<Vec<&Distribution>> = vec![Vec::new(); names.len()];
        self.clients.settle();
        for ((_, kind), times) in &self.clients.pairs {
            of_kinds[usize::from(*kind)].push(&times.latency);
        }
        let kinds = names.iter().zip(&self.kinds).zip(of_kinds);
        let kinds = kinds.map(|((name, (_, _, slices, operations)), latencies)| {
            let times = Times {
                operations: *operations,
                latency: Distribution::sum(&latencies),
            };
            (name.clone(), (times, *slices))
        });
        let kinds = kinds.collect();
        let mut servers = self.servers.unwrap_or_default();
        servers.settle();
        let not_apart = [
            self.clients.not_apart,
            servers.not_apart,
            self.files_not_apart,
        ];
        let outcomes = self.outcomes.into_iter().map(|((kind, outcome), slices)| {
            let outcome = match outcome {
                OutcomeWord::Status(word) => Outcome::Status(text(word)),
                OutcomeWord::NoReply => Outcome::NoReply,
                OutcomeWord::SentAgain => Outcome::SentAgain,
            };
            ((names[usize::from(kind)].clone(), outcome), slices)
        });
        Sample {
            trace,
            asked,
            start_ns: self.start_ns,
            slice_ns: self.slice_ns,
            duration_ns,
            ends: self.ends,
            round_trip_ns: None,
            operations: self.operations,
            failed: self.failed,
            counts: self.counts,
            moved_bytes: self.moved_bytes,
            kinds,
            outcomes: outcomes.collect(),
            clients: self.clients.named(&names, &lexica.clients),
            servers: servers.named(&names, &lexica.servers),
            files: self.files,
            not_apart,
            addresses,
        }
    }
}

/// READ, WRITE, or any other operation.
pub(super) fn way(program: &str, operation: &str) -> u8 {
    match (program, operation) {
        ("nfs", "READ") => 0,
        ("nfs", "WRITE") => 1,
        _ => 2,
    }
}

/// The servers of the connections with RPC.
pub(super) fn servers(trace: &mut Trace) -> HashSet<String> {
    let mut servers = HashSet::new();
    trace.batches(
        Table::Connections,
        &["server_address", "program"],
        |batch| {
            let [address, program] = batch else {
                return Ok(());
            };
            let rows = address.len();
            let (address, program) = (
                Texts::of("server_address", address)?,
                Texts::of("program", program)?,
            );
            for row in 0..rows {
                if let (Some(address), Some(_)) = (address.get(row), program.get(row))
                    && !servers.contains(address)
                {
                    servers.insert(address.to_owned());
                }
            }
            Ok(())
        },
    );
    servers
}
