//! Thousands of simulated interleavings of a pipeline with credits, in which workers fail and the
//! sink stalls.
//!
//! A source takes frames from a pool, sends them to one of three workers, which send them on to a
//! sink, which gives them back. Where the pool is dry the source drops and counts.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lineside_actor::{Actor, Address, Config, Context, Outcome, Schedule, System};

const FRAMES: u32 = 60;
const POOL: usize = 8;

#[derive(Default)]
struct Tally {
    sent: u32,
    dropped: u32,
    finished: Vec<u32>,
    failed: u32,
    free: Option<usize>,
    stopped: u32,
}

type Shared = Arc<Mutex<Tally>>;

enum ToSource {
    Arrives(u32),
    Returned(usize),
}

struct Source {
    workers: Vec<Address<(u32, Address<ToSource>)>>,
    free: usize,
    tally: Shared,
}

impl Actor for Source {
    type Message = ToSource;

    fn on_message(&mut self, message: ToSource, context: &mut Context<'_, ToSource>) -> Outcome {
        let frame = match message {
            ToSource::Returned(frames) => {
                self.free += frames;
                return Ok(());
            }
            ToSource::Arrives(frame) => frame,
        };
        if self.free == 0 {
            self.tally.lock().unwrap().dropped += 1;
        } else {
            self.free -= 1;
            self.tally.lock().unwrap().sent += 1;
            let worker = &self.workers[frame as usize % self.workers.len()];
            context.send(worker, (frame, context.address()));
        }
        if frame + 1 < FRAMES && !context.is_stopping() {
            let next = ToSource::Arrives(frame + 1);
            context.send_after(Duration::from_micros(1), &context.address(), next);
        }
        Ok(())
    }

    fn on_stop(&mut self, _: &mut Context<'_, ToSource>) -> Outcome {
        let mut tally = self.tally.lock().unwrap();
        tally.stopped += 1;
        tally.free = Some(self.free);
        Ok(())
    }
}

struct Worker {
    sink: Address<ToSink>,
    fails_at: Option<u32>,
    tally: Shared,
}

impl Actor for Worker {
    type Message = (u32, Address<ToSource>);

    fn on_message(
        &mut self,
        (frame, source): Self::Message,
        context: &mut Context<'_, Self::Message>,
    ) -> Outcome {
        if self.fails_at == Some(frame) {
            self.tally.lock().unwrap().failed += 1;
            return Err(format!("frame {frame} is not for me").into());
        }
        context.send(&self.sink, ToSink::Frame(frame, source));
        Ok(())
    }

    fn on_stop(&mut self, _: &mut Context<'_, Self::Message>) -> Outcome {
        self.tally.lock().unwrap().stopped += 1;
        Ok(())
    }
}

enum ToSink {
    Frame(u32, Address<ToSource>),
    GoOn,
}

/// Holds frames back while it is stalled.
struct Sink {
    stalls_at: u32,
    held: Option<VecDeque<(u32, Address<ToSource>)>>,
    tally: Shared,
}

impl Sink {
    fn finish(&self, frame: u32, source: &Address<ToSource>, context: &mut Context<'_, ToSink>) {
        self.tally.lock().unwrap().finished.push(frame);
        context.send(source, ToSource::Returned(1));
    }

    fn go_on(&mut self, context: &mut Context<'_, ToSink>) {
        for (frame, source) in self.held.take().into_iter().flatten() {
            self.finish(frame, &source, context);
        }
    }
}

impl Actor for Sink {
    type Message = ToSink;

    fn on_message(&mut self, message: ToSink, context: &mut Context<'_, ToSink>) -> Outcome {
        match (message, &mut self.held) {
            (ToSink::GoOn, _) => self.go_on(context),
            (ToSink::Frame(frame, source), Some(held)) => held.push_back((frame, source)),
            (ToSink::Frame(frame, source), None) => {
                self.finish(frame, &source, context);
                if frame == self.stalls_at {
                    self.held = Some(VecDeque::new());
                    let address = context.address();
                    context.send_after(Duration::from_micros(20), &address, ToSink::GoOn);
                }
            }
        }
        Ok(())
    }

    /// A stop drops the timer, so what is held has to be finished here.
    fn on_stop(&mut self, context: &mut Context<'_, ToSink>) -> Outcome {
        self.go_on(context);
        self.tally.lock().unwrap().stopped += 1;
        Ok(())
    }
}

/// What a run with this seed came to, after its books were found to balance.
fn run(seed: u64) -> (bool, bool, Vec<u32>) {
    let tally = Shared::default();
    let mut system = System::new(Config::new(Schedule::Simulated { seed })).unwrap();
    let sink = system.spawn(
        "sink",
        Sink {
            stalls_at: (seed % 64) as u32,
            held: None,
            tally: Arc::clone(&tally),
        },
    );
    // Every other run has no failure; the rest fail at one of the frames, sooner or later.
    let fails_at = (seed % 2 == 1).then_some((seed / 2 % u64::from(FRAMES)) as u32);
    let workers = (0..3).map(|index| {
        let worker = Worker {
            sink: sink.clone(),
            fails_at,
            tally: Arc::clone(&tally),
        };
        system.spawn(format!("worker {index}"), worker)
    });
    let workers = workers.collect();
    let source = Source {
        workers,
        free: POOL,
        tally: Arc::clone(&tally),
    };
    let source = system.spawn("source", source);
    let _ = system.handle().send(&source, ToSource::Arrives(0));
    drop(source);
    let result = system.run();

    let tally = std::mem::take(&mut *tally.lock().unwrap());
    let (report, failed) = match result {
        Ok(report) => (report, false),
        Err(error) => {
            let worker = fails_at.expect("only a worker fails") % 3;
            assert_eq!(error.actor, format!("worker {worker}"), "seed {seed}");
            (*error.report, true)
        }
    };
    let discarded: u64 = report.actors.iter().map(|actor| actor.discarded).sum();
    let finished = tally.finished.len() as u32;
    assert_eq!(
        tally.sent,
        finished + tally.failed + discarded as u32,
        "seed {seed}: each frame has one end"
    );
    assert_eq!(
        tally.stopped,
        5 - tally.failed,
        "seed {seed}: all others stop"
    );
    if !failed {
        assert_eq!(tally.sent + tally.dropped, FRAMES, "seed {seed}");
    }
    let lost = (tally.sent - finished) as usize;
    if let Some(free) = tally.free {
        // The source stops first, so a stalled sink's frames may come back later.
        assert!(free <= POOL - lost, "seed {seed}: {free} free, {lost} lost");
    }
    for worker in 0..3 {
        let of_one = tally.finished.iter().filter(|&&frame| frame % 3 == worker);
        assert!(
            of_one.is_sorted(),
            "seed {seed}: order of a worker's frames"
        );
    }
    (failed, tally.dropped > 0, tally.finished)
}

#[test]
fn books_balance_whatever_the_interleaving() {
    let (mut failures, mut dry, mut whole) = (0, 0, 0);
    for seed in 0..3_000 {
        let (failed, dropped, finished) = run(seed);
        failures += u32::from(failed);
        dry += u32::from(dropped);
        whole += u32::from(finished.len() == FRAMES as usize);
    }
    // The faults did happen, and so did their absence.
    assert!(
        failures > 500 && dry > 100 && whole > 100,
        "{failures} {dry} {whole}"
    );
}

#[test]
fn a_failing_seed_fails_again() {
    let failing = (0..1_000)
        .find(|&seed| run(seed).0)
        .expect("one that fails");
    assert_eq!(run(failing), run(failing));
}
