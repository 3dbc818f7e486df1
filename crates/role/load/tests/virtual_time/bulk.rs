//! Bulk data over our own TCP, over a link that loses frames.

use lineside_load::Load as _;
use lineside_load::client::Plan;
use lineside_load::protocol::{Client, Server, Sink, SinkServer, Source, SourceServer};
use lineside_load::results::{Cause, Counts};
use lineside_load::server::ServerCounts;
use lineside_workload::{Sizes, Unit, no_files};

use super::{MS, World, pace, plan, seeds};

const REQUESTS: u64 = 60;
const LINK: &str = "5ms, loss 1%";

fn sizes(words: &str) -> Sizes {
    Sizes::parse("bytes", words, Unit::Bytes, &mut no_files).expect("words of sizes")
}

/// The counts of a closed loop, or an open one of this rate, and of its server, and how long
/// requests took.
fn counts_of<C: Client, S: Server>(
    seed: u64,
    rate: Option<&str>,
    client: C,
    server: S,
) -> (Counts, ServerCounts, Vec<i64>) {
    let plan = Plan {
        connections: 4,
        requests: Some(REQUESTS),
        ..plan()
    };
    let mut world = World::new(
        plan,
        pace("poisson", rate, seed),
        LINK,
        seed,
        client,
        server,
    );
    world.run(|world| {
        let found = world.client().results().counts.content_bytes;
        let served = world.server.engine_mut().application_mut(0).0.counts();
        let moved = served.received_bytes + served.answer_bytes;
        assert!(found <= moved, "seed {seed}: {found} of {moved}");
    });
    let counts = world.client().results().counts.clone();
    let served = world.server.engine_mut().application_mut(0).0.counts();
    let rows = world.rows().into_iter();
    let took = rows.filter_map(|(_, _, departed, end, _)| Some(end? - departed?));
    (counts, served, took.collect())
}

#[test]
fn a_sink_takes_each_byte_of_lossy_links_once() {
    let (from, to) = seeds(0..6);
    for seed in from..to {
        let sink = Sink::new(sizes("uniform 1..200000"), seed);
        let (counts, served, took) = counts_of(seed, None, sink, SinkServer);
        assert_eq!(counts.succeeded, REQUESTS, "seed {seed}: {counts:?}");
        assert_eq!(served.received_bytes, counts.request_bytes, "seed {seed}");
        assert_eq!(counts.content_bytes, counts.request_bytes, "seed {seed}");
        assert!(counts.request_bytes > REQUESTS * 50_000, "{counts:?}");
        // The last acknowledgement takes the way there and back.
        assert!(
            took.iter().all(|&took| took >= 10 * MS),
            "seed {seed}: {took:?}"
        );
    }
}

/// Connections of three requests each: the fourth meets the end of its connection, and goes to
/// another one; or the connection had ended while it waited for a request.
#[test]
fn a_source_that_ends_connections_fails_no_request() {
    let (from, to) = seeds(0..6);
    let rates = [None, Some("40"), Some("200")];
    for (seed, rate) in (from..to).flat_map(|seed| rates.map(|rate| (seed, rate))) {
        let source = Source::new(Some(Sizes::constant(100_000, Unit::Bytes)), seed);
        let server = SourceServer { bytes: 300_000 };
        let (counts, served, _) = counts_of(seed, rate, source, server);
        assert_eq!(counts.succeeded, REQUESTS, "seed {seed}: {counts:?}");
        assert_eq!(counts.content_bytes, REQUESTS * 100_000, "seed {seed}");
        assert_eq!(counts.planned, REQUESTS, "seed {seed}: {counts:?}");
        assert!(counts.opened >= REQUESTS / 3, "seed {seed}: {counts:?}");
        assert!(served.answer_bytes >= counts.received_bytes, "{served:?}");
        assert!(counts.received_bytes >= counts.content_bytes, "{counts:?}");
    }
}

#[test]
fn a_request_of_a_source_may_be_a_connection() {
    let (from, to) = seeds(0..6);
    for seed in from..to {
        let source = Source::new(None, seed);
        let server = SourceServer { bytes: 123_456 };
        let (counts, ..) = counts_of(seed, None, source, server);
        assert_eq!(counts.succeeded, REQUESTS, "seed {seed}: {counts:?}");
        assert_eq!(counts.content_bytes, REQUESTS * 123_456, "seed {seed}");
    }
}

#[test]
fn a_source_that_ends_within_a_request_fails_it() {
    let source = Source::new(Some(Sizes::constant(100_000, Unit::Bytes)), 1);
    let server = SourceServer { bytes: 150_000 };
    let (counts, ..) = counts_of(1, None, source, server);
    let failed = counts.failed[Cause::Closed as usize];
    assert_eq!(counts.succeeded + failed, REQUESTS, "{counts:?}");
    // Of each connection the second one.
    assert!((28..=32).contains(&failed), "{counts:?}");
}
