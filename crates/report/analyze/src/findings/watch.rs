//! What is collected about latency in the pass over `operations`: by kind of operation and step of
//! time, by connection and by server, and which clients and files took much of it. All of bounded
//! size, in few instructions a row.

use lineside_rows::Table;
use lineside_trace::read::{Column, ReadError};

use super::stalls::Stalls;
use super::waits::{EXCESS_MIN_NS, Waits};
use crate::read::batch::Batch;
use crate::read::columns::{Integers, Lexicon, Word};
use crate::read::lexica::Lexica;
use crate::read::places::{Places, Steps};
use crate::read::trace::Trace;

/// Steps of time, and kinds of operations, at most.
const STEPS_MAX: u64 = 240;
pub(super) const KINDS_MAX: usize = 24;
/// Connections and servers, at most.
const CONNECTIONS_MAX: usize = 1 << 18;
const SERVERS_MAX: usize = 16;
/// Servers that are kept apart; the operations of others are compared with none.
const COMPARED_MAX: usize = 64;
/// Four steps for each power of two from 1 us to 68 s.
const BUCKETS: usize = 104;
/// The share of the time at its begin and end in which a state may have begun before or may end
/// after.
const EDGE_SHARE: f64 = 0.02;
/// READs and WRITEs of more than this are another kind: they take longer everywhere.
pub(super) const LARGE_BYTES: i64 = 32_768;

/// Times of one kind in one step.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) operations: u64,
    pub(super) server_ns: u64,
    buckets: [u32; BUCKETS],
}

impl Default for Cell {
    fn default() -> Self {
        Self {
            operations: 0,
            server_ns: 0,
            buckets: [0; BUCKETS],
        }
    }
}

impl Cell {
    #[cfg(test)]
    pub(super) fn of(times_ns: &[u64]) -> Self {
        let mut cell = Self::default();
        times_ns.iter().for_each(|&ns| cell.add(ns));
        cell
    }

    #[inline]
    fn add(&mut self, server_ns: u64) {
        self.operations += 1;
        self.server_ns += server_ns;
        self.buckets[bucket_of(server_ns)] += 1;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.server_ns += other.server_ns;
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
    }

    /// The middle of the bucket in which a quantile lies.
    pub(super) fn quantile_ns(&self, share: f64) -> u64 {
        let wanted = ((share * self.operations as f64).ceil() as u64).max(1);
        let mut passed = 0;
        let counts = self.buckets.iter().enumerate();
        let found = counts.into_iter().find(|(_, count)| {
            passed += u64::from(**count);
            passed >= wanted
        });
        found.map_or(0, |(bucket, _)| bucket_ns(bucket))
    }

    /// Operations from a time on, and about how long they took.
    pub(super) fn from(&self, time_ns: u64) -> (u64, u64) {
        let counts = self.buckets.iter().enumerate().skip(bucket_of(time_ns) + 1);
        counts.fold((0, 0), |(number, ns), (bucket, &count)| {
            let count = u64::from(count);
            (number + count, ns + count * bucket_ns(bucket))
        })
    }
}

/// The exponent of a float and the first two bits behind it.
#[inline]
fn bucket_of(ns: u64) -> usize {
    let bits = ((ns as f32).to_bits() >> 21) as usize;
    // 2^10 ns, about 1 us.
    bits.saturating_sub((127 + 10) << 2).min(BUCKETS - 1)
}

fn bucket_ns(bucket: usize) -> u64 {
    let (power, quarter) = (10 + bucket / 4, bucket % 4);
    (1u64 << power) + (1u64 << power) / 8 * (2 * quarter as u64 + 1)
}

/// The logarithm to base two, to 0.09: enough to tell apart factors of four.
#[inline]
pub(super) fn log2(ns: u64) -> f32 {
    (ns.max(1) as f32).to_bits() as f32 / (1 << 23) as f32 - 127.0
}

/// A connection's operations.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionTimes {
    pub(super) operations: u64,
    pub(super) latency_ns: u64,
    pub(super) server_ns: u64,
    pub(super) call_transfer_ns: u64,
    pub(super) reply_transfer_ns: u64,
    pub(super) recovery_ns: u64,
    pub(super) waited_for_recovery: u64,
    /// Operations that took [`EXCESS_MIN_NS`] or more.
    pub(super) long: u64,
    pub(super) first_ns: Option<i64>,
    pub(super) last_ns: Option<i64>,
}

impl ConnectionTimes {
    /// Of the calls, or of the replies: from the first byte to the last.
    pub(super) fn transfer_ns(&self, end: usize) -> u64 {
        [self.call_transfer_ns, self.reply_transfer_ns][end]
    }
}

/// Connections with operations, as many as there is room for.
pub(super) struct Connections {
    places: Places,
    times: Vec<ConnectionTimes>,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            places: Places::new(),
            times: Vec::new(),
        }
    }
}

impl Connections {
    #[inline]
    fn times_mut(&mut self, id: i64) -> Option<&mut ConnectionTimes> {
        let place = match self.places.get(id.cast_unsigned()) {
            Some(place) => place,
            None if self.times.len() >= CONNECTIONS_MAX => return None,
            None => {
                self.times.push(ConnectionTimes::default());
                self.places.add(id.cast_unsigned())
            }
        };
        Some(&mut self.times[place as usize])
    }

    /// The operations of a connection, if it has any.
    pub(super) fn times(&self, id: i64) -> Option<&ConnectionTimes> {
        let place = self.places.get(id.cast_unsigned())?;
        self.times.get(place as usize)
    }
}

/// The times of each server, from the second one on that occurs: where there is one alone, nothing
/// is collected.
#[derive(Debug, Default)]
pub(super) struct Servers {
    first: Option<Word>,
    pub(super) known: Vec<(Word, Vec<Cell>)>,
}

impl Servers {
    #[inline]
    pub(super) fn add(&mut self, server: Word, kind: u8, server_ns: u64) {
        if self.known.is_empty() && *self.first.get_or_insert(server) == server {
            return;
        }
        self.add_of_several(server, kind, server_ns);
    }

    #[inline(never)]
    fn add_of_several(&mut self, server: Word, kind: u8, server_ns: u64) {
        let kind = usize::from(kind);
        if kind >= KINDS_MAX {
            return;
        }
        let known = self.known.iter().position(|(word, _)| *word == server);
        let at = match known {
            Some(at) => at,
            None if self.known.len() < COMPARED_MAX => {
                self.known.push((server, Vec::new()));
                self.known.len() - 1
            }
            None => return,
        };
        let kinds = &mut self.known[at].1;
        if kinds.len() <= kind {
            kinds.resize(kind + 1, Cell::default());
        }
        kinds[kind].add(server_ns);
    }
}

/// A call and its reply.
pub(super) struct Call {
    pub(super) kind: u8,
    /// Its step of time.
    pub(super) step: usize,
    /// What a READ or WRITE asks for, if it is more than [`LARGE_BYTES`].
    pub(super) large_bytes: u64,
    pub(super) client: Word,
    pub(super) server: Word,
    pub(super) file_id: Option<i64>,
    /// The first byte of the call and the last, the first byte of the reply and the last.
    times: [i64; 4],
}

impl Call {
    #[inline]
    pub(super) fn latency_ns(&self) -> u64 {
        self.times[3].abs_diff(self.times[0])
    }

    /// When its first byte came.
    pub(super) fn begin_ns(&self) -> i64 {
        self.times[0]
    }

    #[inline]
    pub(super) fn server_ns(&self) -> u64 {
        self.times[2].abs_diff(self.times[1])
    }
}

/// What is collected.
pub(super) struct Watch {
    columns: Vec<&'static str>,
    pub(super) start_ns: i64,
    pub(super) step_ns: u64,
    pub(super) steps: usize,
    /// By twice the operation's word, and one more if it is large.
    kind_of: Vec<u8>,
    /// What a kind is called.
    pub(super) kinds: Vec<(Word, bool)>,
    /// Of each kind all steps.
    pub(super) cells: Vec<Vec<Cell>>,
    pub(super) waits: Waits,
    pub(super) by_server: Servers,
    pub(super) connections: Connections,
    step_of: Steps,
    pub(super) servers: Vec<(Word, Stalls)>,
    pub(super) has_recovery: bool,
    words: [Option<Word>; 2],
}

const OWN: [&str; 1] = ["connection_id"];
const RECOVERY: [&str; 2] = ["call_recovery_ns", "reply_recovery_ns"];
/// A word that has no kind yet, and one for which there was no room.
const NEW: u8 = u8::MAX;
const NO_ROOM: u8 = u8::MAX - 1;
/// A word that is never what a compound is for.
const IDLE: u8 = u8::MAX - 2;

impl Watch {
    /// For operations between two times, both inclusive.
    pub(super) fn new(trace: &mut Trace, span: Option<(i64, i64)>) -> Self {
        Self::with(trace.has_columns(Table::Operations, &RECOVERY), span)
    }

    pub(super) fn with(has_recovery: bool, span: Option<(i64, i64)>) -> Self {
        let mut columns = OWN.to_vec();
        if has_recovery {
            columns.extend(RECOVERY);
        }
        let (start_ns, last_ns) = span.unwrap_or_default();
        let step_ns = (last_ns.abs_diff(start_ns) / STEPS_MAX + 1).max(1_000_000);
        Self {
            columns,
            start_ns,
            step_ns,
            steps: (last_ns.abs_diff(start_ns) / step_ns + 1) as usize,
            kind_of: Vec::new(),
            kinds: Vec::new(),
            cells: Vec::new(),
            waits: Waits::default(),
            by_server: Servers::default(),
            connections: Connections::default(),
            step_of: Steps::new(start_ns, step_ns),
            servers: Vec::new(),
            has_recovery,
            words: [None; 2],
        }
    }

    /// The columns that it looks at, besides those of every pass.
    pub(super) fn columns(&self) -> &[&'static str] {
        &self.columns
    }

    /// Adds the chosen rows of a batch, which has [`columns`](Self::columns) as `own`.
    pub(super) fn add(
        &mut self,
        batch: &Batch<'_>,
        own: &[Column],
        rows: &[usize],
        lexica: &mut Lexica,
    ) -> Result<(), ReadError> {
        let connection_id = Integers::of(OWN[0], &own[0])?;
        let recovery = match self.has_recovery {
            true => Some([
                Integers::of(RECOVERY[0], &own[1])?,
                Integers::of(RECOVERY[1], &own[2])?,
            ]),
            false => None,
        };
        self.calls(batch, rows, lexica, |watch, row, call| {
            let waited = recovery.as_ref().map(|columns| {
                columns
                    .each_ref()
                    .map(|column| column.get(row).map_or(0, |ns| ns.max(0) as u64))
            });
            let waited = waited.unwrap_or_default();
            watch.add_call(call, waited, connection_id.get(row));
            let [_, call_end, reply, reply_end] = call.times;
            watch
                .by_server
                .add(call.server, call.kind, call.server_ns());
            let stalls = watch.stalls(call.server);
            stalls.add(call.client, call_end, [reply, reply_end], waited[0]);
        });
        Ok(())
    }

    /// When what shows in steps from `first` to `last` began and ended; `None`: it did so already
    /// when the time began, or still when it ended.
    pub(super) fn times(&self, first: usize, last: usize) -> [Option<i64>; 2] {
        let edge = (EDGE_SHARE * self.steps as f64).ceil() as usize;
        let at = |step: usize| {
            let since_ns = step as u64 * self.step_ns;
            self.start_ns.saturating_add_unsigned(since_ns)
        };
        let ends = last + 1 + edge < self.steps;
        [
            (first > edge).then(|| at(first)),
            ends.then(|| at(last + 1)),
        ]
    }

    /// Hands over the calls of a batch of which all times are known. The rows of a compound have
    /// one call and one reply: the first that is for something.
    #[inline]
    pub(super) fn calls(
        &mut self,
        batch: &Batch<'_>,
        rows: &[usize],
        lexica: &Lexica,
        mut on_call: impl FnMut(&mut Self, usize, &Call),
    ) {
        self.kind_of.resize(2 * lexica.words.len(), NEW);
        self.words = ["READ", "WRITE"].map(|name| lexica.words.find(name));
        let mut rpc_id = None;
        for &row in rows {
            let id = batch.rpc_id.get(row);
            if (id.is_some() && id == rpc_id) || batch.not_executed.get(row) {
                continue;
            }
            let Some((kind, large_bytes)) = self.kind(batch, row, lexica) else {
                continue;
            };
            rpc_id = id;
            let [Some(call), Some(call_end), Some(reply), Some(reply_end)] = [
                batch.call_time_ns.get(row),
                batch.call_end_ns.get(row),
                batch.reply_time_ns.get(row),
                batch.reply_end_ns.get(row),
            ] else {
                continue;
            };
            if !(call <= call_end && call_end <= reply && reply <= reply_end) {
                continue;
            }
            let since_start = || (call.abs_diff(self.start_ns) / self.step_ns) as usize;
            let call = Call {
                kind,
                step: self.step_of.at(call).unwrap_or_else(since_start),
                large_bytes,
                client: batch.client.get(row),
                server: batch.server.get(row),
                file_id: batch.file_id.get(row),
                times: [call, call_end, reply, reply_end],
            };
            on_call(self, row, &call);
        }
    }

    #[inline]
    fn add_call(&mut self, call: &Call, recovery_ns: [u64; 2], connection_id: Option<i64>) {
        let (latency_ns, server_ns) = (call.latency_ns(), call.server_ns());
        if let Some(steps) = self.cells.get_mut(usize::from(call.kind))
            && let Some(cell) = steps.get_mut(call.step)
        {
            cell.add(server_ns);
        }
        self.waits
            .add(call.client, call.file_id, latency_ns, server_ns);
        let Some(id) = connection_id else { return };
        let Some(times) = self.connections.times_mut(id) else {
            return;
        };
        let [call, call_end, reply, reply_end] = call.times;
        times.operations += 1;
        times.long += u64::from(latency_ns >= EXCESS_MIN_NS);
        times.latency_ns += latency_ns;
        times.server_ns += server_ns;
        times.call_transfer_ns += call_end.abs_diff(call);
        times.reply_transfer_ns += reply_end.abs_diff(reply);
        let waited = recovery_ns[0] + recovery_ns[1];
        times.recovery_ns += waited;
        times.waited_for_recovery += u64::from(waited > 0);
        times.first_ns = Some(times.first_ns.map_or(call, |first| first.min(call)));
        times.last_ns = Some(times.last_ns.map_or(reply_end, |last| last.max(reply_end)));
    }

    fn stalls(&mut self, server: Word) -> &mut Stalls {
        let at = { self.servers.iter() }.position(|(word, _)| *word == server);
        let at = at.unwrap_or_else(|| {
            // The last place is for servers for which there is no room.
            if self.servers.len() < SERVERS_MAX {
                self.servers.push((server, Stalls::new()));
            }
            self.servers.len() - 1
        });
        &mut self.servers[at].1
    }

    /// The kind of a row, and what it asks for if that is much; `None` for what only prepares
    /// something in a compound.
    #[inline]
    fn kind(&mut self, batch: &Batch<'_>, row: usize, lexica: &Lexica) -> Option<(u8, u64)> {
        let word = batch.operation.get(row);
        let is_data = self.words.contains(&Some(word));
        let large = match is_data {
            true => batch.count.get(row).filter(|count| *count > LARGE_BYTES),
            false => None,
        };
        let is_large = large.is_some();
        let at = 2 * word as usize + usize::from(is_large);
        let known = self.kind_of.get_mut(at)?;
        if *known == NEW {
            *known = match lexica.words.text(word) {
                "" | "SEQUENCE" | "CB_SEQUENCE" | "PUTFH" | "PUTROOTFH" | "PUTPUBFH" | "SAVEFH"
                | "RESTOREFH" => IDLE,
                _ if word == Lexicon::OTHER || self.kinds.len() >= KINDS_MAX => NO_ROOM,
                _ => {
                    self.kinds.push((word, is_large));
                    self.cells.push(vec![Cell::default(); self.steps]);
                    (self.kinds.len() - 1) as u8
                }
            };
        }
        (*known != IDLE).then_some((*known, large.map_or(0, i64::unsigned_abs)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_the_times_that_they_stand_for() {
        for ns in [1_100, 50_000, 1_000_000, 15_000_000, 3_000_000_000] {
            let middle = bucket_ns(bucket_of(ns));
            assert!(
                middle.abs_diff(ns) as f64 <= ns as f64 * 0.13,
                "{ns}: {middle}"
            );
            assert!((log2(ns) - (ns as f32).log2()).abs() < 0.09, "{ns}");
        }
        let mut cell = Cell::of(&[1_000_000; 99]);
        cell.add(500_000_000);
        assert!(cell.quantile_ns(0.5).abs_diff(1_000_000) < 130_000);
        assert_eq!(cell.from(100_000_000).0, 1);
    }
}
