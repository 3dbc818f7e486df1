//! NFS over our own TCP: calls of any length, several at once, over a link that loses frames.

use std::sync::{Arc, Mutex};

use lineside_load::Load as _;
use lineside_load::client::Plan;
use lineside_load::protocol::nfs::{Offsets, Store, StoreSettings, Tree};
use lineside_load::protocol::{Nfs, NfsMix, NfsServer};
use lineside_nfs::v3::StableHow;
use lineside_workload::{Sizes, Unit, no_files};

use super::{World, pace, plan, seeds};

fn sizes(words: &str) -> Sizes {
    Sizes::parse("size", words, Unit::Bytes, &mut no_files).expect("words of sizes")
}

/// The tree of a store with one directory: a handle of this server is a number and its name.
fn tree(files: u32) -> Tree {
    let handle = |place: u64| {
        let mut handle = (place + 1).to_be_bytes().to_vec();
        handle.extend_from_slice(b"lineside");
        handle
    };
    let mut tree = Tree::new(&handle(0));
    tree.add_directory(&handle(1));
    for file in 0..files {
        let name = format!("f{file:07}");
        tree.add_file(0, name.as_bytes(), &handle(u64::from(file) + 2), 100_000);
    }
    tree
}

#[test]
fn nfs_requests_survive_a_lossy_link() {
    let (from, to) = seeds(0..6);
    for seed in from..to {
        let store = StoreSettings {
            export: "/export".to_owned(),
            directories: 1,
            files: 20,
            bytes: Sizes::constant(100_000, Unit::Bytes),
            seed,
            nodes_max: 100,
            written_bytes_max: 8 << 20,
        };
        let store = Store::new(&store).expect("a store");
        let shares = "null:5%,getattr:25%,lookup:20%,read:25%,write:20%,readdirplus:5%";
        let mix = NfsMix {
            shares: shares.parse().expect("shares"),
            keys: "zipf 0.9 over 20".parse().expect("keys"),
            read_bytes: sizes("uniform 1..40000"),
            write_bytes: sizes("uniform 1..20000"),
            offsets: Offsets::Sequential,
            stable: StableHow::FILE_SYNC,
            user: (0, 0),
            seed,
        };
        let plan = Plan {
            connections: 8,
            pipeline: 4,
            requests: Some(400),
            ..plan()
        };
        let client = Nfs::new(mix, Arc::new(tree(20)));
        // Of all that are not READ or WRITE the count is 0.
        let requests = (0..400).map(|number| client.request(number));
        let bytes: u64 = requests.map(|request| u64::from(request.count)).sum();
        let server = NfsServer::new(Arc::new(Mutex::new(store)));
        let pace = pace("poisson", (seed % 2 == 0).then_some("800"), seed);
        let mut world = World::new(
            plan,
            pace,
            "2ms 1ms, loss 2%, duplicate 1%",
            seed,
            client,
            server,
        );
        world.run(|_| {});
        let counts = &world.client().results().counts;
        assert_eq!(
            [counts.answered, counts.succeeded],
            [400; 2],
            "seed {seed}: {counts:?}"
        );
        assert_eq!(counts.content_bytes, bytes, "seed {seed}");
    }
}
