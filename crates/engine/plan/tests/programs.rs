//! Plans of programs whose threads, windows and barriers are known.
//!
//! Each program runs against a server with known service times in virtual time; the planner is
//! given what a tap would see. Then each edge is looked up in what the program did.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use lineside_plan::{
    Action, CallNumber, Cause, Config, Edge, EdgeKind, Event, Figures, Observed, PlanSink,
    PlannedCall, Planner, Touch,
};
use lineside_time::Random;

/// A plan, kept.
#[derive(Default, Debug, PartialEq, Eq)]
struct Kept {
    calls: Vec<PlannedCall>,
    edges: Vec<Edge>,
}

impl PlanSink for Kept {
    fn call(&mut self, call: &PlannedCall) {
        self.calls.push(*call);
    }

    fn edge(&mut self, edge: Edge) {
        self.edges.push(edge);
    }
}

/// What a thread does next.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A connection is opened.
    Open,
    Call(Action),
    /// That many READs or WRITEs, so many at most under way.
    Run(Action, u32, usize),
}

/// A call as it was made, with what it truly waited for.
#[derive(Debug, Clone, Default)]
struct Made {
    observed: Observed,
    touch: Touch,
    thread: usize,
    /// Of a run, how many calls of it may be under way; else 0.
    depth: usize,
    /// Indices of the calls whose replies let it go; several: all of them.
    after: Vec<usize>,
}

/// A server, and how its clients' threads behave.
#[derive(Debug, Clone, Copy)]
struct Setting {
    threads: usize,
    depth: usize,
    connections: Connections,
    /// Threads use the same few files, each call one of them.
    are_common: bool,
    service_ns: u64,
    think_ns: u64,
}

/// What calls come on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connections {
    /// One of each thread.
    Own,
    /// One that all threads share.
    Shared,
    /// A new one for each file.
    New,
}

/// A thread that goes through files: LOOKUP, ATTRIBUTES, a run, and COMMIT and CLOSE.
struct Thread {
    steps: Vec<(Step, i64)>,
    /// Calls that it waits for before its next step.
    waits: Vec<usize>,
    /// The run that it is in: action, left, depth, file, offset, replies that have come.
    run: Option<(Action, u32, usize, i64, u64)>,
    under_way: Vec<usize>,
    done: Vec<usize>,
    issued: usize,
    depth: usize,
    connection: i64,
}

struct World<'a> {
    setting: Setting,
    random: &'a mut Random,
    now_ns: i64,
    calls: Vec<Made>,
    threads: Vec<Thread>,
    /// When something happens: a reply, or a thread that has thought.
    due: BinaryHeap<Reverse<(i64, usize, Due)>>,
    ids: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Reply(usize),
    Think,
}

const DIRECTORY: i64 = 1;

impl<'a> World<'a> {
    fn new(setting: Setting, files: usize, random: &'a mut Random) -> Self {
        let mut threads = Vec::new();
        for thread in 0..setting.threads {
            let mut steps = Vec::new();
            for each in 0..files {
                let file = match setting.are_common {
                    true => 100 + random.below(4) as i64,
                    false => 100 + (thread * 10_000 + each) as i64,
                };
                if setting.connections == Connections::New {
                    steps.push((Step::Open, file));
                }
                let is_write = random.chance(0.5);
                let calls = 1 + random.below(30) as u32;
                let action = if is_write {
                    Action::Write
                } else {
                    Action::Read
                };
                let first = if is_write {
                    Action::Change
                } else {
                    Action::Look
                };
                steps.push((Step::Call(first), file));
                if random.chance(0.5) {
                    steps.push((Step::Call(Action::Use), file));
                }
                let depth = 1 + random.below(setting.depth as u64) as usize;
                steps.push((Step::Run(action, calls, depth), file));
                if is_write {
                    steps.push((Step::Call(Action::Commit), file));
                }
                if random.chance(0.3) {
                    steps.push((Step::Call(Action::Use), file));
                }
            }
            steps.reverse();
            threads.push(Thread {
                steps,
                waits: Vec::new(),
                run: None,
                under_way: Vec::new(),
                done: Vec::new(),
                issued: 0,
                depth: 0,
                connection: match setting.connections {
                    Connections::Shared => 1,
                    _ => 1 + thread as i64,
                },
            });
        }
        Self {
            setting,
            random,
            now_ns: 0,
            calls: Vec::new(),
            threads,
            due: BinaryHeap::new(),
            ids: 0,
        }
    }

    fn think(&mut self, thread: usize) {
        let think_ns = 1 + self.random.below(2 * self.setting.think_ns);
        self.push(self.now_ns + think_ns as i64, thread, Due::Think);
    }

    fn push(&mut self, at_ns: i64, thread: usize, due: Due) {
        self.ids += 1;
        self.due
            .push(Reverse((at_ns, self.ids * 1_000 + thread, due)));
    }

    fn run(mut self) -> Vec<Made> {
        for thread in 0..self.threads.len() {
            self.think(thread);
        }
        while let Some(Reverse((now_ns, key, due))) = self.due.pop() {
            self.now_ns = now_ns;
            let thread = key % 1_000;
            match due {
                Due::Think => self.step(thread),
                Due::Reply(call) => self.reply(thread, call),
            }
        }
        self.calls
    }

    fn reply(&mut self, thread: usize, call: usize) {
        let of = &mut self.threads[thread];
        of.under_way.retain(|&each| each != call);
        of.done.push(call);
        let is_over = of.run.is_none();
        if !is_over || of.under_way.is_empty() {
            self.think(thread);
        }
    }

    /// Makes the next call, if one may be made.
    fn step(&mut self, thread: usize) {
        let of = &mut self.threads[thread];
        if let Some((action, left, depth, file, offset)) = of.run {
            if of.under_way.len() >= depth {
                return;
            }
            // The first window comes after what came before the run.
            let after = match of.issued < depth {
                true => of.waits.clone(),
                false => vec![of.done[of.issued - depth]],
            };
            of.issued += 1;
            let touch = Touch {
                action,
                file: Some(file),
                range: Some((offset, offset + 4096)),
                ..Touch::default()
            };
            of.run = (left > 1).then_some((action, left - 1, depth, file, offset + 4096));
            let is_more = of.run.is_some() && of.under_way.len() + 1 < depth;
            if left == 1 {
                of.waits.clear();
            }
            self.make(thread, touch, after);
            if is_more {
                self.think(thread);
            }
            return;
        }
        if !of.under_way.is_empty() {
            return;
        }
        let Some((step, file)) = of.steps.pop() else {
            return;
        };
        let after = std::mem::take(&mut of.done);
        match step {
            Step::Run(action, calls, depth) => {
                of.run = Some((action, calls, depth, file, 0));
                (of.waits, of.issued) = (after, 0);
                of.depth = depth.min(calls as usize);
                self.step(thread);
            }
            Step::Open => {
                of.connection += 1_000;
                self.make(thread, Touch::default(), after);
                let opened = self.calls.last_mut().expect("it was made");
                opened.observed.event = Event::Open;
            }
            Step::Call(action) => {
                let is_name = matches!(action, Action::Look | Action::Change);
                let touch = Touch {
                    action,
                    file: Some(if is_name { DIRECTORY } else { file }),
                    made: is_name.then_some(file),
                    name: is_name.then_some(file as u64),
                    is_directory: is_name,
                    ..Touch::default()
                };
                self.make(thread, touch, after);
            }
        }
    }

    fn make(&mut self, thread: usize, touch: Touch, after: Vec<usize>) {
        let service_ns = self.setting.service_ns;
        let took_ns = service_ns / 2 + self.random.below(service_ns);
        let reply_ns = self.now_ns + took_ns as i64;
        let number = self.calls.len();
        self.calls.push(Made {
            observed: Observed {
                id: number as i64,
                call_ns: self.now_ns,
                reply_ns: Some(reply_ns),
                connection: self.threads[thread].connection,
                ..Observed::default()
            },
            touch,
            thread,
            depth: match touch.action {
                Action::Read | Action::Write => self.threads[thread].depth,
                _ => 0,
            },
            after,
        });
        self.threads[thread].under_way.push(number);
        self.push(reply_ns, thread, Due::Reply(number));
    }
}

fn plan(calls: &[Made], config: Config) -> (Figures, Kept) {
    let mut planner = Planner::new(config, Kept::default());
    for call in calls {
        planner.call(call.observed, &[call.touch]);
    }
    planner.finish()
}

/// What a plan found of a program.
#[derive(Debug, Default, Clone, Copy)]
struct Score {
    /// Triggers and windows of the program, and those that the plan has.
    true_edges: usize,
    found: usize,
    /// Edges of those kinds in the plan, and those that lead from another thread.
    planned: usize,
    false_edges: usize,
    /// WRITEs whose replies a COMMIT waited for, and COMMITs that come after all of them.
    barriers: usize,
    kept: usize,
}

impl Score {
    fn of(calls: &[Made], kept: &Kept) -> Self {
        let mut score = Self::default();
        let planned: BTreeSet<(CallNumber, CallNumber)> =
            kept.edges.iter().map(|edge| (edge.from, edge.to)).collect();
        for (at, call) in calls.iter().enumerate() {
            let to = at as u64 + 1;
            if call.touch.action == Action::Commit {
                score.barriers += 1;
                score.kept += usize::from(is_after_all(&planned, to, &call.after));
            }
            // Of several replies the last one let it go.
            let last = call
                .after
                .iter()
                .max_by_key(|&&from| calls[from].observed.reply_ns);
            if let Some(&from) = last {
                score.true_edges += 1;
                score.found += usize::from(planned.contains(&(from as u64 + 1, to)));
            }
        }
        for edge in &kept.edges {
            if edge.kind == EdgeKind::Resource {
                continue;
            }
            score.planned += 1;
            let [from, to] = [edge.from, edge.to].map(|number| &calls[number as usize - 1]);
            score.false_edges += usize::from(from.thread != to.thread);
        }
        score
    }

    fn add(&mut self, other: &Self) {
        self.true_edges += other.true_edges;
        self.found += other.found;
        self.planned += other.planned;
        self.false_edges += other.false_edges;
        self.barriers += other.barriers;
        self.kept += other.kept;
    }

    fn shares(&self) -> (f64, f64) {
        let share = |part: usize, all: usize| part as f64 / all.max(1) as f64;
        (
            share(self.found, self.true_edges),
            share(self.false_edges, self.planned),
        )
    }
}

/// Whether every one of `before` is reached from `to`, backwards along edges.
fn is_after_all(
    edges: &BTreeSet<(CallNumber, CallNumber)>,
    to: CallNumber,
    before: &[usize],
) -> bool {
    let mut back: BTreeMap<CallNumber, Vec<CallNumber>> = BTreeMap::new();
    for &(from, to) in edges {
        back.entry(to).or_default().push(from);
    }
    let (mut reached, mut open) = (BTreeSet::new(), vec![to]);
    while let Some(at) = open.pop() {
        for &from in back.get(&at).into_iter().flatten() {
            if reached.insert(from) {
                open.push(from);
            }
        }
    }
    before
        .iter()
        .all(|&from| reached.contains(&(from as u64 + 1)))
}

/// What every plan holds to.
fn check(calls: &[Made], kept: &Kept, seed: u64) {
    let mut numbers: Vec<_> = kept.calls.iter().map(|call| call.number).collect();
    numbers.sort_unstable();
    assert!(
        numbers.into_iter().eq(1..=calls.len() as u64),
        "seed {seed}: all calls once"
    );
    for edge in &kept.edges {
        let [from, to] = [edge.from, edge.to].map(|number| calls[number as usize - 1].observed);
        assert!(edge.from < edge.to, "seed {seed}: {edge:?}");
        let is_before = from.reply_ns.is_some_and(|ns| ns <= to.call_ns);
        assert!(is_before, "seed {seed}: {edge:?}");
    }
    for call in &kept.calls {
        assert_eq!(
            call.trigger.is_none(),
            call.cause == Cause::Time,
            "seed {seed}"
        );
        assert_eq!(
            call.trigger.is_none(),
            call.think_ns.is_none(),
            "seed {seed}"
        );
        assert!(call.think_ns >= call.think_ns.and(Some(0)), "seed {seed}");
    }
}

fn setting(random: &mut Random) -> Setting {
    Setting {
        threads: 1 + random.below(8) as usize,
        depth: 1 + random.below(8) as usize,
        connections: match random.below(3) {
            0 => Connections::Own,
            1 => Connections::Shared,
            _ => Connections::New,
        },
        are_common: random.chance(0.5),
        service_ns: 50_000 << random.below(8),
        think_ns: 1_000 << random.below(6),
    }
}

#[test]
fn a_thousand_plans_have_all_calls_once_and_no_circle() {
    for seed in 0..1_000 {
        let mut random = Random::new(seed);
        let setting = setting(&mut random);
        let calls = World::new(setting, 4, &mut random).run();
        let (figures, kept) = plan(&calls, Config::default());
        check(&calls, &kept, seed);
        assert_eq!(figures.events(), calls.len() as u64, "seed {seed}");
        let causes = figures.by_reply + figures.by_window + figures.by_spawn;
        let all = causes + figures.by_guess + figures.by_time;
        assert_eq!(all, figures.events(), "seed {seed}");
        assert_eq!(
            (figures, kept),
            plan(&calls, Config::default()),
            "seed {seed}"
        );
    }
}

#[test]
fn plans_within_small_bounds_hold_the_same() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let setting = setting(&mut random);
        let calls = World::new(setting, 4, &mut random).run();
        let config = Config {
            ahead_max: 8,
            run_calls_max: 5,
            open_calls_max: 20,
            remembered_max: 32,
            threads_max: 2,
            ..Config::default()
        };
        let (_, kept) = plan(&calls, config);
        check(&calls, &kept, seed);
    }
}

/// A capture that lost packets has calls without replies, also in windows.
#[test]
fn plans_of_lost_replies_hold_the_same() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let setting = setting(&mut random);
        let mut calls = World::new(setting, 4, &mut random).run();
        for call in &mut calls {
            if random.chance(0.05) {
                call.observed.reply_ns = None;
            }
        }
        let (_, kept) = plan(&calls, Config::default());
        check(&calls, &kept, seed);
    }
}

/// The shares that docs/guide/plan.md has.
#[test]
fn the_edges_of_known_programs_are_found() {
    let own = (Connections::Own, false, 2);
    let kinds = [
        ("own connections, own files", own, [0.99, 0.01]),
        (
            "one connection, own files",
            (Connections::Shared, false, 2),
            [0.98, 0.02],
        ),
        (
            "a connection a file, own files",
            (Connections::New, false, 2),
            [0.9, 0.1],
        ),
        (
            "own connections, common files",
            (Connections::Own, true, 2),
            [0.5, 0.5],
        ),
        (
            "one connection, common files",
            (Connections::Shared, true, 2),
            [0.2, 0.8],
        ),
        (
            "the same, server as fast as thought",
            (Connections::Own, false, 0),
            [0.5, 0.05],
        ),
    ];
    for (name, (connections, are_common, slower), [least, most]) in kinds {
        for threads in [1, 2, 4, 8] {
            let mut all = Score::default();
            for seed in 0..40 {
                let mut random = Random::new(seed);
                let drawn = setting(&mut random);
                let think_ns = match slower {
                    0 => drawn.service_ns,
                    _ => drawn.think_ns,
                };
                let setting = Setting {
                    threads,
                    connections,
                    are_common,
                    think_ns,
                    ..drawn
                };
                let calls = World::new(setting, 12, &mut random).run();
                let (_, kept) = plan(&calls, Config::default());
                all.add(&Score::of(&calls, &kept));
            }
            let (found, wrong) = all.shares();
            println!(
                "{name:<36} {threads} {:>5.1} % found, {:>5.1} % false, barriers {} of {}",
                found * 100.0,
                wrong * 100.0,
                all.kept,
                all.barriers
            );
            assert!(found >= least && wrong <= most, "{name}, {threads} threads");
        }
    }
}

/// A server may be too fast for the window to fill: then the depth is a bound.
#[test]
fn depths_are_exact_or_lower_bounds() {
    let (mut runs, mut exact, mut bounds, mut wrong) = (0, 0, 0, 0);
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let drawn = setting(&mut random);
        let setting = Setting {
            connections: Connections::Own,
            are_common: false,
            think_ns: 1_000 << random.below(12),
            ..drawn
        };
        let calls = World::new(setting, 8, &mut random).run();
        let (_, kept) = plan(&calls, Config::default());
        let mut depths = BTreeMap::new();
        for call in kept.calls.iter().filter(|call| call.run.is_some()) {
            let depth = calls[call.number as usize - 1].depth;
            depths.insert(call.run, (call.depth, call.is_bound, depth as u32));
        }
        for (found, is_bound, depth) in depths.into_values() {
            assert!(found <= Some(depth), "seed {seed}: {found:?} of {depth}");
            runs += 1;
            exact += usize::from(found == Some(depth));
            bounds += usize::from(is_bound == Some(true));
            wrong += usize::from(is_bound == Some(false) && found != Some(depth));
        }
    }
    println!("{runs} runs, {exact} exact, {bounds} bounds, {wrong} wrong but called full");
    assert!(
        exact * 2 > runs && wrong * 50 < runs - bounds,
        "{exact}, {wrong} of {runs}"
    );
}

/// Calls in turn on two connections, the second one always after the first one's reply: one thread.
/// Without a meeting of which many were to be expected, the program is not two.
#[test]
fn turns_on_two_connections_are_one_thread() {
    let call = |number: i64| Observed {
        id: number,
        call_ns: number * 100_000,
        reply_ns: Some(number * 100_000 + 60_000),
        connection: number / 3 % 2,
        ..Observed::default()
    };
    let made = |observed: Observed| Made {
        observed,
        ..Made::default()
    };
    let calls: Vec<Made> = (0..90).map(|number| made(call(number))).collect();
    let (figures, kept) = plan(&calls, Config::default());
    assert_eq!(figures.threads, 1);
    let triggers = kept.calls.iter().filter_map(|call| call.trigger);
    assert!(triggers.eq(1..90));
    // One that meets another is no turn.
    let mut calls = calls;
    calls[40].observed.reply_ns = Some(calls[60].observed.call_ns);
    let (figures, _) = plan(&calls, Config::default());
    assert!(figures.threads > 1);
}

/// An asynchronous program that begins to write among its READs goes on reading: no other thread
/// does, which would have waited since the file was opened.
#[test]
fn a_write_among_reads_begins_no_thread() {
    let call = |number: i64| {
        let is_write = number >= 40 && number % 10 == 0;
        let begin = number.cast_unsigned() * 4096;
        Made {
            observed: Observed {
                id: number,
                call_ns: number * 100_000,
                reply_ns: Some(number * 100_000 + 350_000),
                ..Observed::default()
            },
            touch: Touch {
                action: match is_write {
                    true => Action::Write,
                    false => Action::Read,
                },
                file: Some(7),
                range: Some((begin, begin + 4096)),
                ..Touch::default()
            },
            ..Made::default()
        }
    };
    let calls: Vec<Made> = (0..90).map(call).collect();
    let (figures, kept) = plan(&calls, Config::default());
    check(&calls, &kept, 0);
    assert_eq!(figures.threads, 1);
    for call in kept.calls.iter().filter(|call| call.number > 4) {
        assert!(call.think_ns < Some(1_000_000), "{call:?}");
    }
}
