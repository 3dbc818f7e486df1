//! Which actors share a core: computed from the messages that an earlier run counted.

use std::collections::HashMap;

use crate::report::Report;

/// How much more than its even share of the messages a scheduler may get, so that actors that talk
/// much can stay together: a guess between balance (0) and locality (no bound).
const SLACK: f64 = 0.1;

/// A home for each actor of `report`, by name, among `schedulers`: those that exchange most
/// messages come together as long as no scheduler gets more than 1.1 times its share of the
/// messages. The run must have counted its traffic ([`crate::Config::count_traffic`]); the result
/// is a [`crate::Config::placement`]. Names that several actors bear are placed as one actor.
///
/// Greedy: pairs in descending order of traffic join their groups if the joined group still fits;
/// then groups go, the heaviest first, to the scheduler that has least.
pub fn place(report: &Report, schedulers: usize) -> HashMap<String, usize> {
    let schedulers = schedulers.max(1);
    let mut first_of_name = HashMap::new();
    let mut group: Vec<usize> = Vec::new();
    for (index, actor) in report.actors.iter().enumerate() {
        group.push(*first_of_name.entry(actor.name.as_str()).or_insert(index));
    }
    let mut load = vec![0; group.len()];
    for (&group, actor) in group.iter().zip(&report.actors) {
        load[group] += actor.messages;
    }
    let total: u64 = load.iter().sum();
    let share_max = (total as f64 / schedulers as f64 * (1.0 + SLACK)).ceil() as u64;

    let mut pairs: HashMap<(usize, usize), u64> = HashMap::new();
    for traffic in &report.traffic {
        let (a, b) = (group[traffic.from], group[traffic.to]);
        *pairs.entry((a.min(b), a.max(b))).or_default() += traffic.messages;
    }
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.sort_unstable_by_key(|&(pair, messages)| (std::cmp::Reverse(messages), pair));
    for ((a, b), _) in pairs {
        let (a, b) = (root(&group, a), root(&group, b));
        if a != b && load[a] + load[b] <= share_max {
            group[a.max(b)] = a.min(b);
            load[a.min(b)] += load[a.max(b)];
        }
    }

    let mut roots: Vec<_> = (0..group.len()).filter(|&at| group[at] == at).collect();
    roots.sort_by_key(|&at| std::cmp::Reverse(load[at]));
    let mut loads = vec![0; schedulers];
    let mut home = HashMap::new();
    for at in roots {
        let least = (0..schedulers).min_by_key(|&scheduler| loads[scheduler]);
        let least = least.expect("at least one scheduler");
        loads[least] += load[at];
        home.insert(at, least);
    }
    let actors = report.actors.iter().enumerate();
    actors
        .map(|(at, actor)| (actor.name.clone(), home[&root(&group, at)]))
        .collect()
}

/// The actor that stands for the group of `at`.
fn root(group: &[usize], mut at: usize) -> usize {
    while group[at] != at {
        at = group[at];
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{ActorReport, Traffic};

    #[test]
    fn actors_with_much_traffic_share_a_scheduler_at_even_load() {
        // A ring of 8: 100 messages between neighbours.
        let actor = |index| ActorReport {
            name: format!("{index}"),
            messages: 100,
            ..ActorReport::default()
        };
        let traffic = |from| Traffic {
            from,
            to: (from + 1) % 8,
            messages: 100,
        };
        let report = Report {
            actors: (0..8).map(actor).collect(),
            traffic: (0..8).map(traffic).collect(),
            ..Report::default()
        };
        let placement = place(&report, 2);
        let home: Vec<_> = (0..8).map(|at| placement[&format!("{at}")]).collect();
        assert_eq!(home.iter().sum::<usize>(), 4, "even: {home:?}");
        let crossings = (0..8).filter(|&at| home[at] != home[(at + 1) % 8]).count();
        assert!(crossings <= 4, "8 if placed in turns: {home:?}");
    }
}
