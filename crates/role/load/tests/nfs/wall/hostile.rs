//! Servers and clients that send anything: a request fails by a cause or is answered, and nothing
//! panics. Each case is a seed.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use lineside_account::Budget;
use lineside_host::RunClock;
use lineside_load::protocol::nfs::{NfsContent, NfsServerReader, Store, Tree};
use lineside_load::protocol::{Answers, NfsServer, Server};
use lineside_load::results::Cause;
use lineside_load::run::run;
use lineside_load::serve::serve;
use lineside_load::settings::ServeSettings;
use lineside_reactor::Wait;
use lineside_time::Random;

use super::{Making, Silent, made, mix, prepared, serving, settings, store};

/// Answers as a server does, and spoils some answers.
struct Hostile {
    server: NfsServer,
    random: Random,
    share: f64,
}

struct Spoiling<'a, A> {
    answers: &'a mut A,
    random: &'a mut Random,
    share: f64,
    is_over: &'a mut bool,
}

/// What is read of a connection, and whether it was cut.
type Reading = (NfsServerReader, bool);

impl<A: Answers<NfsContent>> Answers<NfsContent> for Spoiling<'_, A> {
    fn bytes(&mut self, bytes: &[u8]) {
        if *self.is_over {
            return;
        }
        if !self.random.chance(self.share) || bytes.len() < 28 {
            return self.answers.bytes(bytes);
        }
        let mut bytes = bytes.to_vec();
        match self.random.below(7) {
            // The mark, the xid, whether it is a reply, what came of it: any of these words.
            0 => {
                let at = 4 * self.random.below(7) as usize;
                bytes[at..at + 4].copy_from_slice(&(self.random.bits() as u32).to_be_bytes());
            }
            1 => {
                let at = self.random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << self.random.below(8);
            }
            2 => self.random.fill(&mut bytes),
            3 => {
                // Within an answer, or before it.
                let len = self.random.below(28) * self.random.below(2);
                bytes.truncate(len as usize);
                self.answers.bytes(&bytes);
                *self.is_over = true;
                return self.answers.close();
            }
            // Another state of acceptance, or a denial.
            4 => bytes[24..28].copy_from_slice(&(self.random.below(6) as u32).to_be_bytes()),
            5 => bytes[12..16].copy_from_slice(&[0, 0, 0, 1]),
            _ => return,
        }
        self.answers.bytes(&bytes);
    }

    fn content(&mut self, content: NfsContent, len: u64) {
        if !*self.is_over {
            self.answers.content(content, len);
        }
    }

    fn close(&mut self) {
        self.answers.close();
    }

    fn request(&mut self) {
        self.answers.request();
    }
}

impl Server for Hostile {
    type Reader = Reading;
    type Content = NfsContent;

    fn rests(&self, (reader, is_over): &Reading) -> bool {
        self.server.rests(reader) && !is_over
    }

    fn read(
        &mut self,
        (reader, is_over): &mut Reading,
        bytes: &[u8],
        answers: &mut impl Answers<NfsContent>,
    ) {
        let mut spoiling = Spoiling {
            answers,
            random: &mut self.random,
            share: self.share,
            is_over,
        };
        self.server.read(reader, bytes, &mut spoiling);
    }

    fn release(&mut self, (reader, _): Reading) {
        self.server.release(reader);
    }

    fn content(&self, content: NfsContent, offset: u64, bytes: &mut [u8]) {
        self.server.content(content, offset, bytes);
    }
}

fn hostile<T>(seed: u64, share: f64, work: impl FnOnce(SocketAddr) -> T) -> T {
    let files = Arc::new(Mutex::new(Store::new(&store(40)).expect("a store")));
    let stop = AtomicBool::new(false);
    let (tell, heard) = channel();
    thread::scope(|scope| {
        let settings = ServeSettings {
            at: (Ipv4Addr::LOCALHOST, 0).into(),
            stack: None,
            workers: 1,
            wait: Wait::Sleep,
            budget: Budget::new(64 << 20),
            secret: [3, 4],
        };
        let stop = &stop;
        let serving = scope.spawn(move || {
            let make = || Hostile {
                server: NfsServer::new(Arc::clone(&files)),
                random: Random::new(seed),
                share,
            };
            let ready = |at| tell.send(at).expect("somebody listens");
            serve(&settings, &make, RunClock::start(), stop, ready)
        });
        let at = heard.recv().expect("it listens");
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(at)));
        stop.store(true, Ordering::Relaxed);
        serving.join().expect("no panic").expect("it served");
        worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[test]
fn requests_of_a_hostile_server_fail_by_cause() {
    let (tree, _) = serving(&store(40), |at| {
        prepared(at, made(40, false)).expect("a tree")
    });
    let shares = "null:10%,getattr:20%,lookup:20%,read:25%,write:10%,readdirplus:5%,access:10%";
    let mut failed = [0; Cause::ALL.len()];
    let mut refused = 0;
    for seed in 0..8 {
        let making = Making(mix(shares), Arc::new(tree.clone()));
        let outcome = hostile(seed, 0.02, |at| {
            let mut settings = settings(at, 600, 4, 1);
            settings.plan.timeout_ns = 200_000_000;
            run(&settings, &making, RunClock::start(), &mut Silent).expect("it ran")
        });
        let counts = &outcome.counts;
        assert_eq!(outcome.broken_identity, None, "seed {seed}");
        assert_eq!(
            [counts.planned, counts.sent],
            [600; 2],
            "seed {seed}: {counts:?}"
        );
        assert_eq!(counts.outstanding(), 0, "seed {seed}");
        failed
            .iter_mut()
            .zip(counts.failed)
            .for_each(|(sum, count)| *sum += count);
        // Statuses of RPC stand above those of NFS.
        let of_rpc = counts
            .statuses
            .iter()
            .filter(|(status, _)| *status > 0x8000_0000);
        refused += of_rpc.map(|&(_, count)| count).sum::<u64>();
    }
    let of = |cause: Cause| failed[cause as usize];
    assert!(
        of(Cause::Protocol) > 0 && of(Cause::Timeout) > 0,
        "{failed:?}"
    );
    assert!(
        of(Cause::Closed) > 0 && refused > 0,
        "{failed:?}, {refused} refused"
    );
}

#[test]
fn a_preparation_with_a_hostile_server_ends() {
    let (mut trees, mut errors) = (0, std::collections::BTreeSet::new());
    for seed in 0..12 {
        let outcome = hostile(seed, 0.03, |at| {
            let settings = settings(at, 1, 1, 1);
            let preparation = lineside_load::protocol::nfs::Preparation {
                timeout_ns: 300_000_000,
                ..super::preparation(at, made(40, true))
            };
            let clock = RunClock::start();
            super::prepare(&settings, &preparation, clock, &mut Silent)
        });
        match outcome {
            Ok(tree) => trees += u32::from(tree.files() == 40),
            Err(error) => drop(errors.insert(error.to_string())),
        }
    }
    assert!(errors.len() > 3, "{trees} trees, {errors:?}");
}

/// Sends bytes that are no calls, and calls that are cut or changed; the server goes on.
#[test]
fn a_server_outlives_hostile_clients() {
    let ((), served) = serving(&store(4), |at| {
        let tree = prepared(at, made(4, false)).expect("a tree");
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let mut stream = TcpStream::connect(at).expect("it listens");
            let timeout = Some(Duration::from_millis(20));
            stream.set_read_timeout(timeout).expect("a socket");
            let calls = calls(&tree, &mut random);
            // The server may have ended the connection.
            let _ = stream.write_all(&calls);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut answers = Vec::new();
            let _ = stream.read_to_end(&mut answers);
        }
        let again = prepared(at, made(4, false)).expect("a tree");
        assert_eq!(again, tree);
    });
    assert!(served.counts.opened >= 62, "{:?}", served.counts);
}

fn calls(tree: &Tree, random: &mut Random) -> Vec<u8> {
    use lineside_load::protocol::{Client, Nfs, Request};
    let shares = "getattr:20%,lookup:20%,read:20%,write:10%,readdirplus:10%,readdir:10%,\
                  setattr:10%";
    let mut nfs = Nfs::new(mix(shares), Arc::new(tree.clone()));
    let mut bytes = Vec::new();
    for ordinal in 0..20 {
        nfs.write(Request { ordinal, slot: 0 }, &mut bytes);
    }
    match random.below(3) {
        0 => random.fill(&mut bytes),
        1 => bytes.truncate(random.below(bytes.len() as u64) as usize),
        _ => {
            for _ in 0..=random.below(20) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.bits() as u8;
            }
        }
    }
    bytes
}
