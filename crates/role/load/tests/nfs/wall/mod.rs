//! NFS clients and servers of this crate over the kernel's sockets, on loopback, beside clients
//! that are not ours.

mod hostile;
mod oracles;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;

use lineside_account::Budget;
use lineside_host::RunClock;
use lineside_load::client::{CatchUp, Pace, Plan};
use lineside_load::outcome::{Observer, Outcome};
use lineside_load::protocol::nfs::{
    Files, MountAt, Offsets, PROCEDURES, Preparation, PrepareError, Store, StoreSettings, Tree,
    prepare,
};
use lineside_load::protocol::{Nfs, NfsMix, NfsServer};
use lineside_load::run::{Make, run};
use lineside_load::serve::{Served, serve};
use lineside_load::settings::{ServeSettings, Settings, Transport};
use lineside_load::{CloseBy, Timing};
use lineside_nfs::v3::StableHow;
use lineside_reactor::Wait;
use lineside_workload::{Sizes, Unit};

const EXPORT: &str = "/export";

fn settings(at: SocketAddr, requests: u64, pipeline: u32, workers: u32) -> Settings {
    Settings {
        targets: vec![(at.ip(), at.port())],
        transport: Transport::Sockets { from: Vec::new() },
        workers,
        among: (0, workers),
        pins: false,
        real_time: false,
        wait: Wait::Hybrid,
        plan: Plan {
            connections: 4,
            opens_on_arrival: false,
            requests_each: None,
            pipeline,
            close_by: CloseBy::Fin,
            requests: Some(requests),
            timeout_ns: 20_000_000_000,
            ahead_ns: 100_000,
            opening_max: 64,
            waiting_max: 1 << 16,
            catch_up: CatchUp::Keep,
            retry_ns: 10_000_000,
            share: (0, 1),
        },
        timing: Timing {
            // A server that is gone is tried again until then.
            duration_ns: Some(60_000_000_000),
            drain_ns: 20_000_000_000,
            linger_ns: 1_000_000_000,
            report_ns: 100_000_000,
        },
        budget: Budget::new(64 << 20),
        secret: [1, 2],
    }
}

struct Silent;

impl Observer for Silent {}

struct Making(NfsMix, Arc<Tree>);

impl Make<Nfs> for Making {
    fn protocol(&self, _: u32) -> Nfs {
        Nfs::new(self.0.clone(), Arc::clone(&self.1))
    }

    fn pace(&self, _: u32, _: u32) -> Pace {
        Pace::Closed(None)
    }
}

fn mix(shares: &str) -> NfsMix {
    NfsMix {
        shares: shares.parse().expect("shares"),
        keys: "zipf 0.9 over 40".parse().expect("keys"),
        read_bytes: Sizes::constant(8_192, Unit::Bytes),
        write_bytes: Sizes::constant(5_000, Unit::Bytes),
        offsets: Offsets::Random,
        stable: StableHow::UNSTABLE,
        user: (0, 0),
        seed: 9,
    }
}

fn store(files: u32) -> StoreSettings {
    StoreSettings {
        export: EXPORT.to_owned(),
        directories: files.min(4),
        files,
        bytes: Sizes::constant(100_000, Unit::Bytes),
        seed: 5,
        nodes_max: 10_000,
        written_bytes_max: 64 << 20,
    }
}

fn preparation(at: SocketAddr, files: Files) -> Preparation {
    Preparation {
        export: EXPORT.to_owned(),
        mount: MountAt::Port(at.port()),
        files,
        user: (0, 0),
        timeout_ns: 20_000_000_000,
    }
}

fn made(files: u32, makes: bool) -> Files {
    Files::Made {
        files,
        directories: files.min(4),
        bytes: Sizes::constant(100_000, Unit::Bytes),
        seed: 5,
        makes,
    }
}

fn prepared(at: SocketAddr, files: Files) -> Result<Tree, PrepareError> {
    let settings = settings(at, 1, 1, 1);
    prepare(
        &settings,
        &preparation(at, files),
        RunClock::start(),
        &mut Silent,
    )
}

/// Serves a store while `work` goes on.
fn serving<T>(store: &StoreSettings, work: impl FnOnce(SocketAddr) -> T) -> (T, Served) {
    let store = Arc::new(Mutex::new(Store::new(store).expect("a store")));
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
            let make = || NfsServer::new(Arc::clone(&store));
            let ready = |at| tell.send(at).expect("somebody listens");
            serve(&settings, &make, RunClock::start(), stop, ready)
        });
        let at = heard.recv().expect("it listens");
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(at)));
        stop.store(true, Ordering::Relaxed);
        let served = serving.join().expect("no panic").expect("it served");
        let worked = worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (worked, served)
    })
}

fn loaded(at: SocketAddr, mix: NfsMix, tree: Tree, pipeline: u32, workers: u32) -> Outcome {
    let settings = settings(at, 3_000, pipeline, workers);
    let making = Making(mix, Arc::new(tree));
    run(&settings, &making, RunClock::start(), &mut Silent).expect("it ran")
}

#[test]
fn each_request_of_a_mix_is_answered() {
    let all = "null:10%,getattr:10%,setattr:5%,lookup:10%,access:5%,read:20%,write:20%,readdir:5%,\
               readdirplus:5%,fsstat:2%,fsinfo:2%,pathconf:1%,commit:5%";
    for (pipeline, workers) in [(1, 1), (16, 2)] {
        let ((outcome, calls), served) = serving(&store(40), |at| {
            let tree = prepared(at, made(40, false)).expect("a tree");
            let draws = Nfs::new(mix(all), Arc::new(tree.clone()));
            let calls: Vec<_> = (0..3_000).map(|number| draws.request(number)).collect();
            (loaded(at, mix(all), tree, pipeline, workers), calls)
        });
        let counts = &outcome.counts;
        assert_eq!(outcome.broken_identity, None);
        assert_eq!(
            [counts.planned, counts.answered, counts.succeeded],
            [3_000; 3],
            "{counts:?}"
        );
        // Directories and files are looked up, and the root is mounted and asked for its sizes.
        assert_eq!(served.counts.requests, 3_000 + 4 + 40 + 2);
        let moving = calls
            .iter()
            .filter(|call| matches!(PROCEDURES[call.place].0, "read" | "write"));
        let bytes = moving.map(|call| u64::from(call.count)).sum::<u64>();
        assert_eq!(counts.content_bytes, bytes);
        let times = &outcome.times.operations;
        assert_eq!(times.iter().map(|times| times.count()).sum::<u64>(), 3_000);
        for (place, (name, _)) in PROCEDURES.iter().enumerate() {
            let calls = calls.iter().filter(|call| call.place == place).count();
            assert_eq!(times[place].count(), calls as u64, "{name}");
        }
    }
}

#[test]
fn a_tree_that_is_made_is_found_again() {
    let empty = store(0);
    let ((made, found, again), _) = serving(&empty, |at| {
        let missing = prepared(at, made(30, false)).expect_err("nothing is there");
        assert!(
            missing.to_string().contains("'prepare' makes it"),
            "{missing}"
        );
        let none = prepared(at, Files::Found { files_max: 100 }).expect_err("nothing is there");
        assert!(
            none.to_string().contains("no files below /export"),
            "{none}"
        );
        let made_tree = prepared(at, made(30, true)).expect("a tree");
        let found = prepared(at, Files::Found { files_max: 1_000 }).expect("a tree");
        let again = prepared(at, made(30, false)).expect("a tree");
        (made_tree, found, again)
    });
    assert_eq!(made, again);
    assert_eq!((made.files(), made.directories()), (30, 4));
    assert_eq!((found.files(), found.directories()), (30, 5));
    // A tree that is found is in the order of paths, one that is made in that of numbers.
    let mut names: Vec<_> = (0..30).map(|file| found.name(file)).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        (0..30).map(|file| made.name(file)).collect::<Vec<_>>()
    );
    assert!((0..30).all(|file| found.size(file) == 100_000 && made.size(file) == 100_000));
}

#[test]
fn a_mount_that_is_refused_says_why() {
    let ((), _) = serving(&store(4), |at| {
        let elsewhere = Preparation {
            export: "/exports".to_owned(),
            ..preparation(at, Files::Found { files_max: 10 })
        };
        let clock = RunClock::start();
        let outcome = prepare(&settings(at, 1, 1, 1), &elsewhere, clock, &mut Silent);
        let text = outcome.expect_err("no such export").to_string();
        assert_eq!(
            text,
            "MNT of /exports: MNT3ERR_NOENT: 'showmount -e' lists what is exported"
        );
        // A path below the export is one too.
        let below = Preparation {
            export: "/export/d00001".to_owned(),
            ..preparation(at, Files::Found { files_max: 10 })
        };
        let tree = prepare(&settings(at, 1, 1, 1), &below, clock, &mut Silent).expect("a tree");
        assert_eq!(tree.files(), 1);
    });
}
