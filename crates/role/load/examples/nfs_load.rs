//! A load of NFSv3 that prints a row a request.
//!
//! `nfs_load self:PORT EXPORT REQUESTS` goes against a server of its own, `nfs_load ADDRESS:PORT
//! EXPORT REQUESTS` against another one, in whose export it makes a tree. `INTERFACE LOCAL/LEN`
//! behind that has our own TCP carry everything, the preparation too, from that address.
//!
//! Columns: client port, xid, operation, status, offset, count, bytes that were read or written,
//! bytes of the request, when it left, when its answer was over.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;

use lineside_account::Budget;
use lineside_host::RunClock;
use lineside_load::client::{CatchUp, Pace, Plan};
use lineside_load::outcome::Observer;
use lineside_load::protocol::nfs::{
    Files, MountAt, Offsets, PROCEDURES, Preparation, Store, StoreSettings, Tree, prepare,
};
use lineside_load::protocol::{Named, Nfs, NfsMix, NfsServer};
use lineside_load::results::Row;
use lineside_load::run::{Make, run};
use lineside_load::serve::serve;
use lineside_load::settings::{Opened, ServeSettings, Settings, StackSettings, Transport};
use lineside_load::{CloseBy, Rows, Timing, rows};
use lineside_nfs::v3::StableHow;
use lineside_reactor::Wait;
use lineside_tcp::{Prefix, congestion};
use lineside_workload::{Sizes, Unit, no_files};

const FILES: u32 = 50;
const SHARES: &str = "null:5%,getattr:20%,setattr:5%,lookup:10%,access:5%,read:20%,write:15%,\
                      readdir:3%,readdirplus:3%,fsstat:3%,fsinfo:3%,pathconf:3%,commit:5%";

const SOCKETS: Transport = Transport::Sockets { from: Vec::new() };

type Failure = Box<dyn std::error::Error>;

struct Silent;

impl Observer for Silent {}

struct Making {
    tree: Arc<Tree>,
    rows: Mutex<Option<Rows>>,
}

impl Make<Nfs> for Making {
    fn protocol(&self, _: u32) -> Nfs {
        Nfs::new(mix(&self.tree), Arc::clone(&self.tree))
    }

    fn pace(&self, _: u32, _: u32) -> Pace {
        Pace::Closed(None)
    }

    fn rows(&self, _: u32) -> Option<Rows> {
        self.rows.lock().ok()?.take()
    }
}

fn sizes(words: &str) -> Sizes {
    Sizes::parse("size", words, Unit::Bytes, &mut no_files).expect("words of sizes")
}

fn mix(tree: &Tree) -> NfsMix {
    NfsMix {
        shares: SHARES.parse().expect("shares"),
        keys: tree.keys("zipf 0.9").expect("keys"),
        read_bytes: sizes("uniform 1..70000"),
        write_bytes: sizes("uniform 1..20000"),
        offsets: Offsets::Random,
        stable: StableHow::UNSTABLE,
        user: (0, 0),
        seed: 11,
    }
}

/// Our own TCP over an interface, from one address of a network that is reached without a router.
fn stack(interface: &str, local: &str) -> Result<Transport, Failure> {
    let (address, len) = local
        .split_once('/')
        .ok_or("LOCAL/LEN is an address and a length")?;
    let (address, len) = (address.parse()?, len.parse()?);
    Ok(Transport::Stack(Box::new(StackSettings {
        interface: interface.to_owned(),
        method: None,
        addresses: vec![Prefix::single(address)],
        on_link: vec![Prefix { address, len }],
        routers: Vec::new(),
        ports: (20_000, 1_000),
        mtu: None,
        window_bytes: 1 << 20,
        congestion: &congestion::CUBIC,
        time_wait_ns: 1_000_000_000,
        timeout_ns: Some(20_000_000_000),
        connections_max: 100,
        neighbours: None,
        taps: None,
        opened: Opened::default(),
    })))
}

fn settings(at: SocketAddr, requests: u64, transport: Transport) -> Settings {
    Settings {
        targets: vec![(at.ip(), at.port())],
        transport,
        workers: 1,
        among: (0, 1),
        pins: false,
        real_time: false,
        wait: Wait::Sleep,
        plan: Plan {
            connections: 6,
            opens_on_arrival: false,
            requests_each: None,
            pipeline: 4,
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
            duration_ns: None,
            drain_ns: 20_000_000_000,
            linger_ns: 1_000_000_000,
            report_ns: 1_000_000_000,
        },
        budget: Budget::new(64 << 20),
        secret: [1, 2],
    }
}

fn load(
    at: SocketAddr,
    export: &str,
    requests: u64,
    mount: MountAt,
    transport: Transport,
) -> Result<(), Failure> {
    let preparation = Preparation {
        export: export.to_owned(),
        mount,
        files: Files::Made {
            files: FILES,
            directories: 3,
            bytes: sizes("uniform 1..200000"),
            seed: 5,
            makes: true,
        },
        user: (0, 0),
        timeout_ns: 20_000_000_000,
    };
    let (settings, clock) = (settings(at, requests, transport), RunClock::start());
    let tree = Arc::new(prepare(&settings, &preparation, clock, &mut Silent)?);
    let (rows, source) = rows(1);
    let making = Making {
        tree: Arc::clone(&tree),
        rows: Mutex::new(Some(rows)),
    };
    let printing = thread::spawn(move || {
        let nfs = Nfs::new(mix(&tree), tree);
        let patience = std::time::Duration::from_secs(3_600);
        while source.next(patience, |row| print_row(&nfs, row)).is_ok() {}
    });
    let outcome = run(&settings, &making, clock, &mut Silent)?;
    printing.join().map_err(|_| "the printer failed")?;
    eprintln!("{:?}", outcome.counts);
    match outcome.broken_identity {
        None => Ok(()),
        Some(identity) => Err(identity.into()),
    }
}

fn print_row(nfs: &Nfs, row: &Row) {
    let request = nfs.request(row.ordinal);
    let status = match (row.status, row.cause) {
        (Some(status), _) => nfs.status(status),
        (None, cause) => cause.map_or("", |cause| cause.name()).into(),
    };
    println!(
        "{} {} {} {status} {} {} {} {} {} {}",
        row.ends[0].1,
        row.ordinal as u32,
        PROCEDURES[request.place].1.name(),
        request.offset,
        request.count,
        row.content_bytes,
        row.request_bytes,
        row.departed_ns.unwrap_or(0),
        row.end_ns.unwrap_or(0),
    );
}

/// Loads a server of our own.
fn load_self(port: u16, export: &str, requests: u64) -> Result<(), Failure> {
    let store = StoreSettings {
        export: export.to_owned(),
        directories: 0,
        files: 0,
        bytes: Sizes::constant(0, Unit::Bytes),
        seed: 0,
        nodes_max: 10_000,
        written_bytes_max: 64 << 20,
    };
    let store = Arc::new(Mutex::new(Store::new(&store)?));
    let stop = AtomicBool::new(false);
    let serving = ServeSettings {
        at: (IpAddr::from([127, 0, 0, 1]), port).into(),
        stack: None,
        workers: 1,
        wait: Wait::Sleep,
        budget: Budget::new(64 << 20),
        secret: [3, 4],
    };
    let (tell, heard) = channel();
    thread::scope(|scope| {
        let stop = &stop;
        let served = scope.spawn(move || {
            let make = || NfsServer::new(Arc::clone(&store));
            serve(&serving, &make, RunClock::start(), stop, |at| {
                // Nobody listens if the load has failed.
                let _ = tell.send(at);
            })
        });
        let outcome = match heard.recv() {
            Ok(at) => load(at, export, requests, MountAt::Port(at.port()), SOCKETS),
            Err(_) => Err("the server does not listen".into()),
        };
        stop.store(true, Ordering::Relaxed);
        served.join().map_err(|_| "the server failed")??;
        outcome
    })
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, export, requests, stack_words @ ..] = &arguments[..] else {
        return Err(
            "usage: nfs_load self:PORT|ADDRESS:PORT EXPORT REQUESTS [INTERFACE LOCAL/LEN]".into(),
        );
    };
    let requests = requests.parse()?;
    if let Some(port) = server.strip_prefix("self:") {
        return load_self(port.parse()?, export, requests);
    }
    let transport = match stack_words {
        [interface, local] => stack(interface, local)?,
        _ => SOCKETS,
    };
    load(
        server.parse()?,
        export,
        requests,
        MountAt::Portmap,
        transport,
    )
}
