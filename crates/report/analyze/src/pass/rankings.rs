//! The busiest of each: files, clients, servers, users, and pairs of client and file.

use std::cmp::Reverse;

use crate::model::{Busy, Concentration, Ranking, Totals};
use crate::numbers::share;
use crate::pass::aggregate::Aggregate;
use crate::pass::usage::{Class, Use};
use crate::read::columns::{Lexicon, Word};
use crate::read::lexica::Lexica;

/// Entries in a list of the busiest.
pub(super) const TOP_MAX: usize = 25;

/// Clients.
pub(super) fn clients(aggregate: &Aggregate, lexica: &Lexica) -> Ranking {
    let used = aggregate
        .clients()
        .map(|(word, client)| (word, client.used));
    hosts(used.collect(), &lexica.clients, &aggregate.totals, |_| None)
}

/// Servers, which have also how long clients waited for them.
pub(super) fn servers(aggregate: &Aggregate, lexica: &Lexica) -> Ranking {
    let used = aggregate
        .servers()
        .map(|(word, server)| (word, server.used));
    let waited_ns = |word| {
        let mut servers = aggregate.servers();
        servers.find_map(|(other, server)| (other == word).then_some(server.waited_ns))
    };
    let all = &aggregate.totals;
    let mut ranking = hosts(used.collect(), &lexica.servers, all, waited_ns);
    let known = aggregate.servers().filter(|(word, _)| is_known(*word));
    let mut waited: Vec<u64> = known.map(|(_, server)| server.waited_ns).collect();
    waited.sort_unstable_by_key(|&ns| Reverse(ns));
    let shares = shares(waited.iter().copied(), all.waited_ns, &marks(waited.len()));
    for (point, share) in ranking.concentration.iter_mut().zip(shares) {
        point.waited_share = Some(share);
    }
    ranking
}

/// Hosts, of which those for which there was no room share a word.
fn hosts(
    used: Vec<(Word, Use)>,
    lexicon: &Lexicon,
    totals: &Totals,
    waited_ns: impl Fn(Word) -> Option<u64>,
) -> Ranking {
    let others = used.iter().find(|(word, _)| *word == Lexicon::OTHER);
    let not_tracked = others.map_or_else(Use::default, |(_, used)| *used);
    let known = used.into_iter().filter(|(word, _)| is_known(*word));
    ranking(known, not_tracked, totals, |word| Busy {
        name: lexicon.text(word).to_owned(),
        waited_ns: waited_ns(word),
        ..Busy::default()
    })
}

pub(super) fn users(aggregate: &Aggregate) -> Ranking {
    ranking(
        aggregate.users.users(),
        aggregate.users.not_tracked,
        &aggregate.totals,
        |user_id| Busy {
            user_id: Some(user_id),
            ..Busy::default()
        },
    )
}

pub(super) fn pairs(aggregate: &Aggregate, lexica: &Lexica) -> Ranking {
    let mut not_tracked = aggregate.files.pairs_not_tracked;
    for ((client, _), used) in aggregate.files.pairs() {
        if client == Lexicon::OTHER {
            not_tracked.merge(used);
        }
    }
    let known = { aggregate.files.pairs() }.filter(|((client, _), _)| is_known(*client));
    ranking(
        known,
        not_tracked,
        &aggregate.totals,
        |(client, file_id)| Busy {
            file_id: Some(file_id),
            client: Some(lexica.clients.text(client).to_owned()),
            ..Busy::default()
        },
    )
}

/// The busiest objects of some classes.
pub(super) fn objects(aggregate: &Aggregate, classes: &[Class], not_tracked: Use) -> Ranking {
    ranking(
        aggregate.files.files(classes),
        not_tracked,
        &aggregate.totals,
        |file_id| Busy {
            file_id: Some(file_id),
            ..Busy::default()
        },
    )
}

/// Whether a host has an address, and there was room for it.
pub(super) fn is_known(host: Word) -> bool {
    !matches!(host, Lexicon::NONE | Lexicon::OTHER)
}

/// The busiest of `used`, and how much of `totals` the first few have. Keys break ties, so that a
/// report is the same every time.
fn ranking<K: Copy + Ord>(
    used: impl Iterator<Item = (K, Use)>,
    not_tracked: Use,
    totals: &Totals,
    named: impl Fn(K) -> Busy,
) -> Ranking {
    let mut all: Vec<(K, Use)> = used.collect();
    let busy = |&(key, used): &(K, Use)| Busy {
        operations: used.operations,
        failed: used.failed,
        read_bytes: used.bytes[0],
        written_bytes: used.bytes[1],
        ..named(key)
    };
    let bytes = |used: &Use| used.bytes[0] + used.bytes[1];
    let marks = marks(all.len());

    all.sort_unstable_by_key(|(id, used)| (Reverse(used.operations), *id));
    let by_operations = all.iter().take(TOP_MAX).map(busy).collect();
    let operation_shares = shares(
        all.iter().map(|(_, used)| used.operations),
        totals.operations,
        &marks,
    );

    all.sort_unstable_by_key(|(id, used)| (Reverse(bytes(used)), *id));
    let moving = all.iter().filter(|(_, used)| bytes(used) > 0);
    let by_bytes = moving.take(TOP_MAX).map(busy).collect();
    let byte_shares = shares(
        all.iter().map(|(_, used)| bytes(used)),
        totals.read_bytes + totals.written_bytes,
        &marks,
    );

    let points = marks.iter().zip(operation_shares).zip(byte_shares);
    Ranking {
        count: all.len() as u64,
        not_tracked_operations: not_tracked.operations,
        not_tracked_bytes: bytes(&not_tracked),
        by_operations,
        by_bytes,
        concentration: points
            .map(|((&first, operations_share), bytes_share)| Concentration {
                first: first as u64,
                operations_share,
                bytes_share,
                waited_share: None,
            })
            .collect(),
    }
}

/// 1, 2, 3, 5, 7, 10, 15, 25, 50, 100, … and all: where a concentration curve is given.
fn marks(count: usize) -> Vec<usize> {
    let mut marks = vec![1, 2, 3, 5, 7, 10, 15, 25, 50];
    let mut power = 100;
    while power < count {
        marks.extend([power, power * 2, power * 5]);
        power *= 10;
    }
    marks.retain(|&mark| mark < count);
    if count > 0 {
        marks.push(count);
    }
    marks
}

/// The share of the first so many in the whole, for each mark.
fn shares(values: impl Iterator<Item = u64>, whole: u64, marks: &[usize]) -> Vec<f64> {
    let mut sum = 0;
    let mut shares = Vec::with_capacity(marks.len());
    for (at, value) in values.enumerate() {
        sum += value;
        if marks.get(shares.len()) == Some(&(at + 1)) {
            shares.push(share(sum, whole));
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(operations: u64, bytes: u64) -> Use {
        Use {
            operations,
            failed: 0,
            bytes: [bytes, 0],
        }
    }

    fn totals(operations: u64, read_bytes: u64) -> Totals {
        Totals {
            operations,
            read_bytes,
            ..Totals::default()
        }
    }

    fn file(id: i64) -> Busy {
        Busy {
            file_id: Some(id),
            ..Busy::default()
        }
    }

    #[test]
    fn the_busiest_come_first_and_ties_by_id() {
        let all = [(3, used(5, 0)), (1, used(5, 10)), (2, used(90, 30))];
        let ranking = ranking(all.into_iter(), Use::default(), &totals(100, 40), file);
        let ids: Vec<_> = ranking
            .by_operations
            .iter()
            .map(|busy| busy.file_id)
            .collect();
        assert_eq!(ids, [Some(2), Some(1), Some(3)]);
        assert_eq!(
            ranking.by_bytes.len(),
            2,
            "what moves nothing is in no list of bytes"
        );
        let curve: Vec<_> = ranking
            .concentration
            .iter()
            .map(|point| (point.first, point.operations_share))
            .collect();
        assert_eq!(curve, [(1, 0.9), (2, 0.95), (3, 1.0)]);
        assert_eq!(ranking.concentration[0].bytes_share, 0.75);
    }

    #[test]
    fn shares_are_of_all_operations_also_of_those_without_a_file() {
        let used_one = [(1, used(30, 5))].into_iter();
        let ranking = ranking(used_one, used(10, 0), &totals(60, 10), file);
        assert_eq!(ranking.concentration[0].operations_share, 0.5);
        assert_eq!(ranking.concentration[0].bytes_share, 0.5);
        assert_eq!(ranking.not_tracked_operations, 10);
    }

    #[test]
    fn marks_end_with_all() {
        assert_eq!(marks(0), Vec::<usize>::new());
        assert_eq!(marks(4), [1, 2, 3, 4]);
        assert_eq!(marks(300), [1, 2, 3, 5, 7, 10, 15, 25, 50, 100, 200, 300]);
    }
}
