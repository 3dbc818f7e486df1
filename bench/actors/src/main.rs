//! `actors VARIANT BENCHMARK THREADS MESSAGES`: prints the seconds from the first message to the
//! last.
//!
//! Message Ring and All-to-All of Chronicle (FAST 2015, section 7.1). Ring: 1,000 actors, 100
//! messages under way. All-to-All: 100 actors, each message goes to a random actor, 1,000 under way
//! (the paper does not say how many; research for this runtime used as many). A message is one u64:
//! the hops it has left. The Go and Erlang programs beside this one do the same.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use lineside_actor::{
    Actor, Address, Config, Context, Outcome, Pin, Report, Schedule, System, Topology, place,
};

/// Xorshift: the same cheap generator in all variants.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) as usize * bound) >> 32
    }
}

/// Whom an actor sends to: its successor, or anyone.
struct Route {
    ring: bool,
    successor: usize,
    actors: usize,
    random: Random,
}

impl Route {
    fn new(ring: bool, me: usize, actors: usize) -> Self {
        let random = Random(0x9e37_79b9_7f4a_7c15 ^ ((me as u64 + 1) << 20));
        Self {
            ring,
            successor: (me + 1) % actors,
            actors,
            random,
        }
    }

    fn next(&mut self) -> usize {
        if self.ring {
            self.successor
        } else {
            self.random.below(self.actors)
        }
    }
}

#[derive(Clone, Copy)]
struct Size {
    ring: bool,
    actors: usize,
    tokens: usize,
    hops: u64,
}

impl Size {
    fn start(&self, token: usize) -> usize {
        token * self.actors / self.tokens
    }
}

struct Peer {
    peers: Arc<[Address<Message>]>,
    route: Route,
}

enum Message {
    Meet(Arc<[Address<Self>]>),
    Token(u64),
}

impl Actor for Peer {
    type Message = Message;

    fn on_message(&mut self, message: Message, context: &mut Context<'_, Message>) -> Outcome {
        match message {
            Message::Token(0) => {}
            Message::Token(left) => {
                context.send(&self.peers[self.route.next()], Message::Token(left - 1));
            }
            Message::Meet(peers) => self.peers = peers,
        }
        Ok(())
    }
}

fn ours(config: Config, size: Size) -> (f64, Report) {
    let mut system = System::new(config).expect("a configuration that can be run");
    let mut handle = system.handle();
    let peers: Arc<[_]> = (0..size.actors)
        .map(|me| {
            let route = Route::new(size.ring, me, size.actors);
            let peers = Arc::default();
            system.spawn(format!("peer {me}"), Peer { peers, route })
        })
        .collect::<Vec<_>>()
        .into();
    for peer in peers.iter() {
        let _ = handle.send(peer, Message::Meet(Arc::clone(&peers)));
    }
    for token in 0..size.tokens {
        let _ = handle.send(&peers[size.start(token)], Message::Token(size.hops));
    }
    drop(handle);
    let started = Instant::now();
    let report = system.run().expect("no failure");
    (started.elapsed().as_secs_f64(), report)
}

/// Where an earlier, shorter run says that actors belong.
fn placement(schedule: &Schedule, size: Size, threads: usize) -> HashMap<String, usize> {
    let mut config = Config::new(schedule.clone());
    config.count_traffic = true;
    let hops = (size.hops / 100).max(100);
    place(&ours(config, Size { hops, ..size }).1, threads)
}

fn tokio(size: Size, threads: usize) -> f64 {
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .build()
        .expect("a runtime");
    let (senders, receivers): (Vec<UnboundedSender<u64>>, Vec<UnboundedReceiver<u64>>) =
        (0..size.actors).map(|_| unbounded_channel()).unzip();
    let senders: Arc<[_]> = senders.into();
    let left = Arc::new(AtomicUsize::new(size.tokens));
    let (done, wait) = mpsc::channel();
    for (me, mut receiver) in receivers.into_iter().enumerate() {
        let (senders, left, done) = (Arc::clone(&senders), Arc::clone(&left), done.clone());
        let mut route = Route::new(size.ring, me, size.actors);
        runtime.spawn(async move {
            while let Some(hops) = receiver.recv().await {
                if hops > 0 {
                    let _ = senders[route.next()].send(hops - 1);
                } else if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                    let _ = done.send(());
                }
            }
        });
    }
    let started = Instant::now();
    for token in 0..size.tokens {
        let _ = senders[size.start(token)].send(size.hops);
    }
    wait.recv().expect("the last token's end");
    let seconds = started.elapsed().as_secs_f64();
    runtime.shutdown_background();
    seconds
}

/// What one does without a runtime: a thread for each scheduler, a channel for each thread, and the
/// actors dealt out to them.
fn crossbeam(size: Size, threads: usize) -> f64 {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..threads)
        .map(|_| crossbeam_channel::unbounded::<(usize, u64)>())
        .unzip();
    let left = Arc::new(AtomicUsize::new(size.tokens));
    let (done, wait) = mpsc::channel();
    let started = Instant::now();
    for receiver in receivers {
        let (senders, left, done) = (senders.clone(), Arc::clone(&left), done.clone());
        std::thread::spawn(move || {
            let mut routes: Vec<_> = (0..size.actors)
                .map(|me| Route::new(size.ring, me, size.actors))
                .collect();
            for (actor, hops) in receiver {
                if hops > 0 {
                    let next = routes[actor].next();
                    let _ = senders[next % senders.len()].send((next, hops - 1));
                } else if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                    let _ = done.send(());
                }
            }
        });
    }
    for token in 0..size.tokens {
        let start = size.start(token);
        let _ = senders[start % threads].send((start, size.hops));
    }
    wait.recv().expect("the last token's end");
    started.elapsed().as_secs_f64()
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [variant, benchmark, threads, messages] = &arguments[..] else {
        eprintln!("usage: actors VARIANT ring|all THREADS MESSAGES");
        std::process::exit(2);
    };
    let threads: usize = threads.parse().expect("THREADS is a number");
    let messages: u64 = messages.parse().expect("MESSAGES is a number");
    let ring = benchmark == "ring";
    let (actors, tokens) = if ring { (1_000, 100) } else { (100, 1_000) };
    let size = Size {
        ring,
        actors,
        tokens,
        hops: messages / tokens as u64,
    };
    let cpus = Topology::read().expect("affinity").cpus;
    let cpus = (0..threads).map(|index| cpus[index % cpus.len()].number);
    let pinned = Schedule::Pinned {
        cpus: cpus.collect(),
    };
    let stealing = |pin| Schedule::Stealing {
        schedulers: threads,
        pin,
    };
    let seconds = match variant.as_str() {
        "pinned" => ours(Config::new(pinned), size).0,
        "placed" => {
            let placement = placement(&pinned, size, threads);
            let mut config = Config::new(pinned);
            config.placement = placement;
            ours(config, size).0
        }
        "stealing" => ours(Config::new(stealing(Pin::Anywhere)), size).0,
        "stealing-core" => ours(Config::new(stealing(Pin::Core)), size).0,
        "tokio" => tokio(size, threads),
        "crossbeam" => crossbeam(size, threads),
        _ => panic!("no variant {variant}"),
    };
    println!("{seconds}");
}
