//! What the crate promises, under each schedule.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use lineside_actor::{
    Actor, Address, Cause, Config, ConfigError, Context, Outcome, Pin, Report, Schedule, System,
    Topology, Waker, place,
};

/// Four schedulers on the first CPU, and two on two: more threads than this machine may have cores.
fn schedules() -> Vec<Schedule> {
    let cpus = Topology::read().expect("affinity").cpus;
    let cpu = |index: usize| cpus[index % cpus.len()].number;
    vec![
        Schedule::Pinned { cpus: vec![cpu(0)] },
        Schedule::Pinned {
            cpus: vec![cpu(0), cpu(1)],
        },
        Schedule::Pinned {
            cpus: vec![cpu(0); 4],
        },
        Schedule::stealing(1),
        Schedule::stealing(2),
        Schedule::stealing(4),
        Schedule::Stealing {
            schedulers: cpus.len().min(2),
            pin: Pin::Core,
        },
        Schedule::Stealing {
            schedulers: 2,
            pin: Pin::Package,
        },
        Schedule::Simulated { seed: 1 },
        Schedule::Simulated { seed: 2 },
    ]
}

/// An actor from a closure over its state.
struct Doing<S, M> {
    state: S,
    on_message: fn(&mut S, M, &mut Context<'_, M>) -> Outcome,
    on_stop: fn(&mut S, &mut Context<'_, M>) -> Outcome,
}

impl<S: Send + 'static, M: Send + 'static> Actor for Doing<S, M> {
    type Message = M;

    fn on_message(&mut self, message: M, context: &mut Context<'_, M>) -> Outcome {
        (self.on_message)(&mut self.state, message, context)
    }

    fn on_stop(&mut self, context: &mut Context<'_, M>) -> Outcome {
        (self.on_stop)(&mut self.state, context)
    }
}

fn doing<S, M>(state: S, on_message: fn(&mut S, M, &mut Context<'_, M>) -> Outcome) -> Doing<S, M> {
    Doing {
        state,
        on_message,
        on_stop: |_, _| Ok(()),
    }
}

type Log<T> = Arc<Mutex<Vec<T>>>;

/// An actor that writes what it gets, and a line when it stops.
fn logging<T: Send + 'static>(log: &Log<T>, last: fn() -> Option<T>) -> impl Actor<Message = T> {
    struct Logging<T>(Log<T>, fn() -> Option<T>);
    impl<T: Send + 'static> Actor for Logging<T> {
        type Message = T;

        fn on_message(&mut self, message: T, _: &mut Context<'_, T>) -> Outcome {
            self.0.lock().unwrap().push(message);
            Ok(())
        }

        fn on_stop(&mut self, _: &mut Context<'_, T>) -> Outcome {
            self.0.lock().unwrap().extend((self.1)());
            Ok(())
        }
    }
    Logging(Arc::clone(log), last)
}

fn system(schedule: Schedule) -> System {
    System::new(Config::new(schedule)).expect("a configuration that can be run")
}

/// 20 senders, started at once, each send `count` numbered messages to each of 3 receivers, and
/// themselves one message for each round. Returns what each receiver got, as (sender, number).
fn fan(schedule: Schedule, count: u32) -> (Vec<Vec<(u32, u32)>>, Report) {
    type Sender = (u32, u32, Vec<Address<(u32, u32)>>);
    let mut system = system(schedule);
    let logs: Vec<Log<(u32, u32)>> = (0..3).map(|_| Log::default()).collect();
    let receivers: Vec<_> = logs
        .iter()
        .map(|log| system.spawn("receiver", logging(log, || None)))
        .collect();
    let senders: Vec<_> = (0..20)
        .map(|me| {
            let state: Sender = (me, count, receivers.clone());
            system.spawn(
                "sender",
                doing(state, |(me, count, receivers), next: u32, context| {
                    for receiver in receivers.iter() {
                        context.send(receiver, (*me, next));
                    }
                    if next + 1 < *count {
                        context.send(&context.address(), next + 1);
                    }
                    Ok(())
                }),
            )
        })
        .collect();
    let mut handle = system.handle();
    for sender in &senders {
        handle.send(sender, 0).unwrap();
    }
    drop(handle);
    let report = system.run().expect("no failure");
    let got = logs
        .iter()
        .map(|log| std::mem::take(&mut *log.lock().unwrap()));
    (got.collect(), report)
}

#[test]
fn each_pair_keeps_its_order_and_nothing_is_lost_or_doubled() {
    for schedule in schedules() {
        let (got, report) = fan(schedule.clone(), 500);
        for received in &got {
            let mut expected = [0; 20];
            for &(sender, number) in received {
                assert_eq!(number, expected[sender as usize], "{schedule:?}");
                expected[sender as usize] += 1;
            }
            assert_eq!(expected, [500; 20], "{schedule:?}");
        }
        let handled: u64 = report
            .schedulers
            .iter()
            .map(|scheduler| scheduler.messages)
            .sum();
        assert_eq!(handled, 20 * 500 * 4, "{schedule:?}");
        let of_actors: u64 = report.actors.iter().map(|actor| actor.messages).sum();
        assert_eq!(of_actors, handled);
        assert!(report.actors.iter().all(|actor| actor.run_max >= 1));
    }
}

#[test]
fn a_seed_repeats_its_run_and_another_seed_differs() {
    let run = |seed| {
        let (got, report) = fan(Schedule::Simulated { seed }, 20);
        (got, report.schedulers[0].activations, report.actors)
    };
    let first = run(7);
    assert_eq!(first, run(7));
    assert_ne!(first.0, run(8).0);
}

#[test]
fn many_seeds_give_many_orders_of_two_senders() {
    // Two senders to one receiver, three messages each: 20 orders.
    let order = |seed| {
        let mut system = system(Schedule::Simulated { seed });
        let log = Log::default();
        let receiver = system.spawn("receiver", logging(&log, || None));
        for letter in ['a', 'b'] {
            let state = (letter, receiver.clone());
            let sender = system.spawn(
                "sender",
                doing(state, |(letter, receiver), (), context| {
                    (0..3).for_each(|_| context.send(receiver, *letter));
                    Ok(())
                }),
            );
            system.handle().send(&sender, ()).unwrap();
        }
        system.run().unwrap();
        let order: String = log.lock().unwrap().iter().collect();
        order
    };
    let orders: std::collections::BTreeSet<_> = (0..1_000).map(order).collect();
    assert_eq!(orders.len(), 20, "{orders:?}");
}

#[test]
fn outside_threads_compete_and_keep_their_order() {
    for schedule in schedules() {
        if matches!(schedule, Schedule::Simulated { .. }) {
            continue;
        }
        let mut system = system(schedule);
        let log = Log::default();
        let receivers: Vec<_> = (0..4)
            .map(|_| system.spawn("receiver", logging(&log, || None)))
            .collect();
        let handle = system.handle();
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let (mut handle, receivers) = (handle.clone(), receivers.clone());
                std::thread::spawn(move || {
                    for number in 0..10_000_usize {
                        let receiver = number % 4;
                        handle
                            .send(&receivers[receiver], (thread, receiver, number))
                            .unwrap();
                    }
                })
            })
            .collect();
        drop(handle);
        system.run().expect("no failure");
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        let mut expected: HashMap<(i32, usize), usize> = HashMap::new();
        for &(thread, receiver, number) in log.lock().unwrap().iter() {
            let next = expected.entry((thread, receiver)).or_insert(receiver);
            assert_eq!(number, *next);
            *next += 4;
        }
        assert_eq!(expected.len(), 12);
        assert!(expected.values().all(|&next| next >= 10_000));
    }
}

#[test]
fn a_stop_handles_taken_messages_and_refuses_the_rest() {
    for schedule in schedules() {
        let mut system = system(schedule.clone());
        let log = Log::default();
        let receiver = system.spawn("receiver", logging(&log, || None));
        let mut handle = system.handle();
        for number in 0..1_000 {
            handle.send(&receiver, number).unwrap();
        }
        handle.stop();
        let refused = handle.send(&receiver, 1_000).unwrap_err();
        assert_eq!(refused.0, 1_000);
        system.run().expect("no failure");
        assert_eq!(
            *log.lock().unwrap(),
            (0..1_000).collect::<Vec<_>>(),
            "{schedule:?}"
        );
    }
}

#[test]
fn a_pipeline_empties_itself_when_it_stops() {
    for schedule in schedules() {
        let mut system = system(schedule);
        let log = Log::default();
        let end = system.spawn("end", logging(&log, || Some("end stopped")));
        let stage = |name| {
            let mut stage = doing((name, end.clone()), |_, (): (), _| Ok(()));
            stage.on_stop = |(name, end), context| {
                context.send(end, *name);
                Ok(())
            };
            stage
        };
        system.spawn("second", stage("second"));
        system.spawn("first", stage("first"));
        let report = system.run().expect("no failure");
        assert_eq!(*log.lock().unwrap(), ["first", "second", "end stopped"]);
        assert_eq!(report.stop_messages, 2);
    }
}

#[test]
fn a_failure_names_the_actor_and_the_others_stop_in_order() {
    for schedule in schedules() {
        for panics in [false, true] {
            let mut system = system(schedule.clone());
            let log = Log::default();
            let sink = system.spawn("sink", logging(&log, || Some(u64::MAX)));
            let state = (panics, sink);
            let failing = system.spawn(
                "parser 3",
                doing(state, |(panics, sink), number: u64, context| {
                    context.send(sink, number);
                    if number == 5 {
                        assert!(!*panics, "number {number}");
                        return Err("five is too much".into());
                    }
                    Ok(())
                }),
            );
            let mut handle = system.handle();
            let kept_open = handle.clone();
            for number in 0..10 {
                handle.send(&failing, number).unwrap();
            }
            let error = system.run().expect_err("it fails");
            assert_eq!(error.actor, "parser 3");
            match &error.cause {
                Cause::Panic(text) => assert!(panics && text == "number 5", "{text}"),
                Cause::Error(error) => assert!(!panics && error.to_string() == "five is too much"),
            }
            assert_eq!(
                *log.lock().unwrap(),
                [0, 1, 2, 3, 4, 5, u64::MAX],
                "{schedule:?}"
            );
            assert_eq!(error.report.actors[1].messages, 6);
            assert_eq!(error.report.actors[1].discarded, 4);
            drop(kept_open);
        }
    }
}

#[test]
fn an_actor_is_replaced_from_the_next_message_on() {
    for schedule in schedules() {
        let mut system = system(schedule);
        let log = Log::default();
        let actor = system.spawn(
            "actor",
            doing(Arc::clone(&log), |log, word: &str, context| {
                log.lock().unwrap().push(format!("first {word}"));
                context.replace(doing(Arc::clone(log), |log, word: &str, _| {
                    log.lock().unwrap().push(format!("second {word}"));
                    Ok(())
                }));
                Ok(())
            }),
        );
        let mut handle = system.handle();
        for word in ["a", "b", "c"] {
            handle.send(&actor, word).unwrap();
        }
        drop(handle);
        system.run().expect("no failure");
        assert_eq!(*log.lock().unwrap(), ["first a", "second b", "second c"]);
    }
}

#[test]
fn actors_create_actors_while_they_run() {
    // A tree: each of 2^10 - 1 actors creates two more, until the depth is reached.
    fn node(leaves: Arc<AtomicU64>) -> Doing<Arc<AtomicU64>, u32> {
        doing(leaves, |leaves, depth: u32, context| {
            if depth == 0 {
                leaves.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
            for side in ["left", "right"] {
                let child = context.spawn(side, node(Arc::clone(leaves)));
                context.send(&child, depth - 1);
            }
            Ok(())
        })
    }
    for schedule in schedules() {
        let mut system = system(schedule);
        let leaves = Arc::default();
        let root = system.spawn("root", node(Arc::clone(&leaves)));
        system.handle().send(&root, 10).unwrap();
        let report = system.run().expect("no failure");
        assert_eq!(leaves.load(Ordering::Relaxed), 1 << 10);
        assert_eq!(report.actors.len(), (1 << 11) - 1);
    }
}

#[test]
fn timers_fire_in_order_and_not_before_their_time() {
    for schedule in schedules() {
        let mut system = system(schedule.clone());
        // Virtual time does not wait: that of a year would hang.
        let is_virtual = matches!(schedule, Schedule::Simulated { .. });
        let unit_ms: u64 = if is_virtual { 1_000_000_000 } else { 1 };
        let log = Log::default();
        let actor = system.spawn(
            "actor",
            doing(
                (Arc::clone(&log), unit_ms),
                |(log, unit_ms), delay_ms: u64, context| {
                    if delay_ms == 0 {
                        for delay_ms in [30, 10, 20].map(|units| units * *unit_ms) {
                            let delay = Duration::from_millis(delay_ms);
                            context.send_after(delay, &context.address(), delay_ms);
                        }
                        return Ok(());
                    }
                    assert!(context.now() >= Duration::from_millis(delay_ms));
                    log.lock().unwrap().push(delay_ms / *unit_ms);
                    Ok(())
                },
            ),
        );
        system.handle().send(&actor, 0).unwrap();
        system.run().expect("no failure");
        assert_eq!(*log.lock().unwrap(), [10, 20, 30], "{schedule:?}");
    }
}

#[test]
fn a_stop_does_not_wait_for_timers() {
    for schedule in schedules() {
        let mut system = system(schedule);
        let actor = system.spawn(
            "actor",
            doing((), |(), begin: bool, context| {
                assert!(begin, "the timer was dropped");
                context.send_after(Duration::from_secs(3_600), &context.address(), false);
                context.stop();
                Ok(())
            }),
        );
        let handle = system.handle();
        handle.clone().send(&actor, true).unwrap();
        // It would take an hour.
        system.run().expect("no failure");
        drop(handle);
    }
}

#[test]
fn counted_traffic_places_neighbours_together() {
    // Four pairs that talk among themselves, created so that taking turns separates each pair.
    let run = |placement: HashMap<String, usize>| {
        let schedule = schedules().remove(1);
        let mut config = Config::new(schedule);
        config.placement = placement;
        config.count_traffic = true;
        let mut system = System::new(config).expect("a configuration that can be run");
        let mut handle = system.handle();
        for pair in 0..4 {
            let state: Option<Address<u32>> = None;
            let echo = system.spawn(
                format!("echo {pair}"),
                doing(state, |_, _: (Address<u32>, u32), _| Ok(())),
            );
            let caller = system.spawn(
                format!("caller {pair}"),
                doing(echo, |echo, round: u32, context| {
                    context.send(echo, (context.address(), round));
                    if round < 100 {
                        context.send(&context.address(), round + 1);
                    }
                    Ok(())
                }),
            );
            handle.send(&caller, 1).unwrap();
        }
        drop(handle);
        system.run().expect("no failure")
    };
    let apart = run(HashMap::new());
    assert_eq!(
        apart.traffic.iter().map(|pair| pair.messages).sum::<u64>(),
        4 * 199
    );
    let remote = |report: &Report| {
        report
            .schedulers
            .iter()
            .map(|s| s.remote_sends)
            .sum::<u64>()
    };
    assert_eq!(remote(&apart), 4 * 100);
    let placement = place(&apart, 2);
    assert_eq!(remote(&run(placement)), 0);
}

#[test]
fn impossible_configurations_are_refused_with_their_reason() {
    let refused = |config| match System::new(config) {
        Ok(_) => panic!("it was taken"),
        Err(error) => error.to_string(),
    };
    assert_eq!(
        refused(Config::new(Schedule::stealing(0))),
        "0 schedulers asked for; at least 1 and at most 256 can run"
    );
    let none = Config::new(Schedule::pinned(0).unwrap());
    assert!(matches!(System::new(none), Err(ConfigError::Schedulers(0))));
    let cpus = Topology::read().unwrap().cpus.len();
    let error = Schedule::pinned(cpus + 1).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "{} schedulers asked for, but this process may use {cpus} CPUs",
            cpus + 1
        )
    );
    let error = refused(Config::new(Schedule::Pinned {
        cpus: vec![100_000],
    }));
    assert!(
        error.starts_with("cpu 100000 is not among those this process may use: ["),
        "{error}"
    );
    let mut config = Config::new(Schedule::pinned(1).unwrap());
    config.placement.insert("parser".to_owned(), 1);
    assert_eq!(
        refused(config),
        "actor 'parser' is placed on scheduler 1, but they end at 0"
    );
    let mut config = Config::new(Schedule::stealing(1));
    config.messages_per_activation_max = 0;
    assert_eq!(refused(config), "an activation handles at least 1 message");
}

#[test]
fn an_activation_is_bounded() {
    // One scheduler: the flood must not keep the other actor from its turn.
    for schedule in [Schedule::stealing(1), Schedule::pinned(1).unwrap()] {
        let mut config = Config::new(schedule);
        config.messages_per_activation_max = 8;
        let mut system = System::new(config).unwrap();
        let log = Log::default();
        let flooded = system.spawn("flooded", logging(&log, || None));
        let other = system.spawn("other", logging(&log, || None));
        let mut handle = system.handle();
        (0..100).for_each(|_| handle.send(&flooded, "flood").unwrap());
        handle.send(&other, "other").unwrap();
        drop(handle);
        let report = system.run().unwrap();
        let position = log.lock().unwrap().iter().position(|&who| who == "other");
        assert_eq!(position, Some(8));
        assert_eq!(report.actors[0].activations, 13);
        assert_eq!(report.actors[0].run_max, 100);
    }
}

/// Sends itself messages until enough, and notes whose turns are the longest.
struct Busy {
    number: u64,
    me: Option<Address<u64>>,
    turn: Arc<Mutex<Turn>>,
}

#[derive(Default)]
struct Turn {
    of: u64,
    messages: u64,
    longest: u64,
}

impl Actor for Busy {
    type Message = u64;

    fn on_message(&mut self, left: u64, context: &mut Context<'_, u64>) -> Outcome {
        let mut turn = self.turn.lock().unwrap();
        if turn.of != self.number {
            (turn.of, turn.messages) = (self.number, 0);
        }
        turn.messages += 1;
        turn.longest = turn.longest.max(turn.messages);
        let me = self.me.get_or_insert_with(|| context.address());
        if left > 0 {
            context.send(me, left - 1);
        }
        Ok(())
    }
}

#[test]
fn an_actor_that_had_its_turn_waits_for_the_others() {
    // So light that messages are to gather: what became runnable last runs first.
    let mut config = Config::new(Schedule::stealing(1));
    config.messages_per_activation_max = 4;
    let mut system = System::new(config).unwrap();
    let turn = Arc::new(Mutex::new(Turn::default()));
    let mut handle = system.handle();
    for number in 1..=3 {
        let turn = Arc::clone(&turn);
        let me = None;
        let busy = system.spawn(number.to_string(), Busy { number, me, turn });
        handle.send(&busy, 50_000).unwrap();
    }
    drop(handle);
    system.run().unwrap();
    // All end in the same round: the last one has one more turn at most.
    let longest = turn.lock().unwrap().longest;
    assert!(longest <= 8, "{longest} messages in a turn");
}

/// Counts itself, so that a message that is lost or dropped twice shows.
struct Counted(Arc<AtomicU64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn every_message_is_dropped_once_even_if_the_system_never_ran() {
    for schedule in schedules() {
        for runs in [true, false] {
            let drops = Arc::default();
            let mut system = system(schedule.clone());
            let actor = system.spawn(
                "actor",
                doing((), |(), message: Counted, context| {
                    // Never fires.
                    context.send_after(Duration::from_secs(9), &context.address(), message);
                    context.stop();
                    Ok(())
                }),
            );
            let mut handle = system.handle();
            for _ in 0..100 {
                assert!(handle.send(&actor, Counted(Arc::clone(&drops))).is_ok());
            }
            if runs {
                system.run().expect("no failure");
            } else {
                drop(system);
            }
            assert_eq!(
                drops.load(Ordering::Relaxed),
                100,
                "{schedule:?}, runs: {runs}"
            );
            assert!(handle.send(&actor, Counted(Arc::default())).is_err());
        }
    }
}

#[test]
#[should_panic(expected = "another system's")]
fn an_address_of_another_system_is_refused() {
    let mut other = system(Schedule::stealing(1));
    let address = other.spawn("other", doing((), |(), (), _| Ok(())));
    let _ = system(Schedule::stealing(1)).handle().send(&address, ());
}

#[test]
fn order_survives_a_ring_that_is_full() {
    // Far more in a pass than a ring between two cores holds, for many passes.
    let cpus = Topology::read().unwrap().cpus;
    let cpus = [0, cpus.len() - 1].map(|index| cpus[index].number).to_vec();
    let mut config = Config::new(Schedule::Pinned { cpus });
    config.placement = [("sender", 0), ("receiver", 1)]
        .map(|(name, home)| (name.to_owned(), home))
        .into();
    let mut system = System::new(config).unwrap();
    let log = Log::default();
    let receiver = system.spawn("receiver", logging(&log, || None));
    let sender = doing((receiver, 0), |(receiver, next), round: u32, context| {
        for _ in 0..1_000 {
            context.send(receiver, *next);
            *next += 1;
        }
        if round < 400 {
            context.send(&context.address(), round + 1);
        }
        Ok(())
    });
    let sender = system.spawn("sender", sender);
    system.handle().send(&sender, 1).unwrap();
    let report = system.run().expect("no failure");
    assert_eq!(report.schedulers[0].remote_sends, 400_000);
    assert!(log.lock().unwrap().iter().copied().eq(0..400_000));
}

/// Sends each message on, and at last to the thread that works as a guest.
fn chain(system: &mut System, links: usize, end: mpsc::Sender<u64>, waker: Waker) -> Address<u64> {
    let last = system.spawn(
        "last",
        doing((end, waker), |(end, waker), message, _| {
            end.send(message)?;
            waker.wake();
            Ok(())
        }),
    );
    (0..links).fold(last, |next, link| {
        let pass_on = |next: &mut Address<u64>, message, context: &mut Context<'_, u64>| {
            context.send(next, message + 1);
            Ok(())
        };
        system.spawn(format!("link {link}"), doing(next, pass_on))
    })
}

#[test]
fn a_guest_works_where_it_would_wait() {
    // Alone, and beside others.
    for schedulers in [1, 2, 4] {
        let mut system = System::new(Config::new(Schedule::stealing(schedulers))).expect("runs");
        let mut guest = system.guest().expect("a stealing schedule has one");
        let waker = guest.waker().expect("it lives");
        let (end, ended) = mpsc::channel();
        let first = chain(&mut system, 3, end, waker);
        let mut handle = system.handle();
        let run = std::thread::spawn(move || system.run());
        let mut sum = 0;
        for message in 0..1_000 {
            handle.send(&first, message).expect("it runs");
            // Never more than 8 under way.
            if message < 8 {
                continue;
            }
            let mut came = ended.try_recv().ok();
            while came.is_none() {
                if !guest.work() {
                    guest.wait(|| {
                        came = ended.try_recv().ok();
                        came.is_some()
                    });
                }
                came = came.or_else(|| ended.try_recv().ok());
            }
            sum += came.unwrap_or_default();
        }
        assert!(!guest.has_ended());
        drop(handle);
        drop(guest);
        let report = run.join().expect("no panic").expect("no failure");
        sum += ended.try_iter().sum::<u64>();
        assert_eq!(sum, (0..1_000).map(|message| message + 3).sum());
        assert_eq!(report.schedulers.len(), schedulers);
        let guests = report.schedulers.last().expect("one at least").messages;
        assert!(guests > 0, "with {schedulers} it did nothing");
        assert!(schedulers > 1 || guests == 4_000);
    }
}

#[test]
fn a_guest_learns_that_the_run_has_ended() {
    let mut system = System::new(Config::new(Schedule::stealing(2))).expect("runs");
    let mut guest = system.guest().expect("a stealing schedule has one");
    let actor = system.spawn("weak", doing((), |(), (), _| Err("enough".into())));
    let mut handle = system.handle();
    let run = std::thread::spawn(move || system.run());
    handle.send(&actor, ()).expect("it runs");
    while !guest.has_ended() {
        if !guest.work() {
            guest.wait(|| false);
        }
    }
    drop(handle);
    drop(guest);
    let error = run.join().expect("no panic").expect_err("it failed");
    assert_eq!(error.actor, "weak");
}

#[test]
fn only_a_stealing_schedule_that_is_not_bound_has_a_guest() {
    for schedule in schedules() {
        let wanted = matches!(
            schedule,
            Schedule::Stealing {
                pin: Pin::Anywhere,
                ..
            }
        );
        let mut system = System::new(Config::new(schedule.clone())).expect("runs");
        let guest = system.guest();
        assert_eq!(guest.is_some(), wanted, "{schedule:?}");
        // One whose system never ran ends with it.
        drop(system);
        drop(guest);
    }
}

mod wall {
    //! What depends on how the machine shares its processors among threads.

    use super::*;

    #[test]
    fn outside_threads_lose_no_wake_up() {
        // A message at a time, so that the schedulers fall asleep between any two.
        for schedule in schedules() {
            if matches!(schedule, Schedule::Simulated { .. }) {
                continue;
            }
            let mut system = system(schedule.clone());
            let (sender, answers) = mpsc::channel();
            let last = system.spawn(
                "last",
                doing(sender, |sender, number: u32, _| Ok(sender.send(number)?)),
            );
            let first = system.spawn(
                "first",
                doing(last, |last, number: u32, context| {
                    context.send(last, number);
                    Ok(())
                }),
            );
            let mut handle = system.handle();
            let outside = std::thread::spawn(move || {
                for number in 0..1_000 {
                    handle.send(&first, number).unwrap();
                    // Less than the longest sleep (1 s), so that one that ran out hides no loss;
                    // more than a busy machine takes for three threads' turns.
                    let answer = answers.recv_timeout(Duration::from_millis(900));
                    assert_eq!(answer, Ok(number), "{schedule:?}");
                    if number % 8 == 0 {
                        // Longer than a scheduler spins.
                        std::thread::park_timeout(Duration::from_micros(150));
                    }
                }
            });
            let report = system.run().expect("no failure");
            outside.join().expect("every answer in time");
            let parks: u64 = report
                .schedulers
                .iter()
                .map(|scheduler| scheduler.parks)
                .sum();
            assert!(parks > 0, "they slept");
            assert!(report.schedulers.iter().all(|s| !s.idle.is_zero()));
        }
    }

    #[test]
    fn an_idle_scheduler_steals() {
        let mut system = system(Schedule::stealing(2));
        let busy: Vec<_> = (0..8)
            .map(|_| {
                system.spawn(
                    "busy",
                    doing((), |(), round: u32, context| {
                        let until = context.now() + Duration::from_micros(200);
                        while context.now() < until {
                            std::hint::spin_loop();
                        }
                        if round < 50 {
                            context.send(&context.address(), round + 1);
                        }
                        Ok(())
                    }),
                )
            })
            .collect();
        let mut handle = system.handle();
        busy.iter().for_each(|actor| handle.send(actor, 0).unwrap());
        drop(handle);
        let report = system.run().expect("no failure");
        let steals: u64 = report
            .schedulers
            .iter()
            .map(|scheduler| scheduler.steals)
            .sum();
        assert!(steals > 0);
        let shares: Vec<_> = report.schedulers.iter().map(|s| s.messages).collect();
        assert!(
            shares.iter().all(|&messages| messages >= 40),
            "{shares:?} of 408"
        );
    }
}
