//! No call and no reply of NFSv3 allocates, at the client and at the server, however the stream is
//! cut.

use std::sync::{Arc, Mutex};

use lineside_alloc::allocations;
use lineside_load::protocol::nfs::{NfsContent, Offsets, Store, StoreSettings, Tree};
use lineside_load::protocol::{
    Answer, Answers, Broken, Client, Nfs, NfsMix, NfsServer, Outstanding, Request, Server,
};
use lineside_nfs::v3::StableHow;
use lineside_time::Random;
use lineside_workload::{Sizes, Unit, no_files};

/// One request that waits, and answers so far.
struct One {
    request: Option<Request>,
    answered: u64,
    succeeded: u64,
}

impl Outstanding for One {
    fn oldest(&mut self) -> Option<Request> {
        self.request
    }

    fn request(&mut self, number: u32) -> Option<Request> {
        self.request
            .filter(|request| request.ordinal as u32 == number)
    }

    fn answered(&mut self, answer: Answer) -> Result<(), Broken> {
        self.request.take().ok_or(Broken)?;
        self.answered += 1;
        self.succeeded += u64::from(answer.is_success);
        Ok(())
    }
}

/// What a server answers, with room for all of it.
struct Collected {
    bytes: Vec<u8>,
    contents: Vec<(usize, NfsContent, u64)>,
}

impl Answers<NfsContent> for Collected {
    fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn content(&mut self, content: NfsContent, len: u64) {
        self.contents.push((self.bytes.len(), content, len));
        self.bytes.resize(self.bytes.len() + len as usize, 0);
    }

    fn close(&mut self) {
        panic!("the server ends the connection");
    }

    fn request(&mut self) {}
}

/// Cuts a stream into pieces of 1 to 3,000 bytes.
fn in_pieces(random: &mut Random, mut bytes: &[u8], mut each: impl FnMut(&[u8])) {
    while !bytes.is_empty() {
        let len = bytes.len().min(1 + random.below(3_000) as usize);
        let (piece, rest) = bytes.split_at(len);
        each(piece);
        bytes = rest;
    }
}

const EXPORT: &str = "/export";

fn sizes(words: &str) -> Sizes {
    Sizes::parse("size", words, Unit::Bytes, &mut no_files).expect("words of sizes")
}

/// The tree of a store without asking for it: handles are its numbers and a name (the server's own
/// form), which a test of loads finds by LOOKUP.
fn tree() -> Tree {
    let root = handle_of(0);
    let mut tree = Tree::new(&root);
    for number in 1..=4 {
        tree.add_directory(&handle_of(number));
    }
    for file in 0..40_u32 {
        let handle = handle_of(5 + file);
        tree.add_file(file % 4, format!("f{file:07}").as_bytes(), &handle, 100_000);
    }
    tree
}

fn handle_of(place: u32) -> Vec<u8> {
    let mut handle = (u64::from(place) + 1).to_be_bytes().to_vec();
    handle.extend_from_slice(b"lineside");
    handle
}

#[test]
fn no_call_and_no_reply_allocates() {
    let store = Store::new(&StoreSettings {
        export: EXPORT.to_owned(),
        directories: 4,
        files: 40,
        bytes: Sizes::constant(100_000, Unit::Bytes),
        seed: 5,
        nodes_max: 100,
        written_bytes_max: 8 << 20,
    });
    let mut server = NfsServer::new(Arc::new(Mutex::new(store.expect("a store"))));
    let tree = Arc::new(tree());
    let shares = "null:10%,getattr:10%,setattr:5%,lookup:10%,access:5%,read:20%,write:20%,\
                  readdir:5%,readdirplus:5%,fsstat:2%,fsinfo:2%,pathconf:1%,commit:5%";
    let mut client = Nfs::new(
        NfsMix {
            shares: shares.parse().expect("shares"),
            keys: "zipf 0.9 over 40".parse().expect("keys"),
            read_bytes: sizes("uniform 1..30000"),
            write_bytes: sizes("uniform 1..30000"),
            offsets: Offsets::Random,
            stable: StableHow::FILE_SYNC,
            user: (0, 0),
            seed: 3,
        },
        tree,
    );
    let mut collected = Collected {
        bytes: Vec::with_capacity(1 << 20),
        contents: Vec::with_capacity(1 << 10),
    };
    let mut waiting = One {
        request: None,
        answered: 0,
        succeeded: 0,
    };
    let (mut of_client, mut of_server) = Default::default();
    let mut written = Vec::with_capacity(1 << 20);
    let mut random = Random::new(8);
    let mut allocated = 0;
    for ordinal in 0..12_000 {
        let before = allocations();
        let request = Request { ordinal, slot: 0 };
        written.clear();
        client.write(request, &mut written);
        waiting.request = Some(request);
        collected.bytes.clear();
        collected.contents.clear();
        server.pass(1_000 + ordinal.cast_signed());
        in_pieces(&mut random, &written, |piece| {
            server.read(&mut of_server, piece, &mut collected);
        });
        for &(at, content, len) in &collected.contents {
            server.content(content, 0, &mut collected.bytes[at..at + len as usize]);
        }
        in_pieces(&mut random, &collected.bytes, |piece| {
            let read = client.read(&mut of_client, piece, &mut waiting);
            assert_eq!(read, Ok(()), "request {ordinal}");
        });
        // Buffers grow at first, as far as the longest message needs.
        if ordinal >= 4_000 {
            allocated += allocations() - before;
        }
    }
    assert_eq!([waiting.answered, waiting.succeeded], [12_000; 2]);
    assert_eq!(allocated, 0);
}
