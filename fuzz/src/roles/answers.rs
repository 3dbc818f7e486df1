//! What servers answer a load: streams of HTTP, memcached and NFS, whole and in pieces, and the
//! replies of a server whose export is mounted. However a stream is cut, the same is heard.

use std::sync::Arc;

use lineside_frame::{Chunk, Descriptor};
use lineside_http::{RequestTemplate, Url};
use lineside_load::protocol::nfs::{Files, MountAt, Offsets, Preparation, Tree, preparing};
use lineside_load::protocol::{Answer, Broken, Client, Http, Nfs, NfsMix, Outstanding, Request};
use lineside_load::{Application, Calls, ConnectionId, Load};
use lineside_nfs::v3::StableHow;
use lineside_workload::{Sizes, Unit};

use super::Bytes;

/// Requests that wait for an answer, by their numbers.
struct Waiting {
    numbers: Vec<u32>,
    heard: Vec<Answer>,
}

impl Waiting {
    fn new() -> Self {
        Self {
            numbers: (0..8).collect(),
            heard: Vec::new(),
        }
    }
}

fn request(ordinal: u32) -> Request {
    Request {
        ordinal: ordinal.into(),
        slot: 0,
    }
}

impl Outstanding for Waiting {
    fn oldest(&mut self) -> Option<Request> {
        self.numbers.first().copied().map(request)
    }

    fn request(&mut self, number: u32) -> Option<Request> {
        self.numbers.contains(&number).then(|| request(number))
    }

    fn answered(&mut self, answer: Answer) -> Result<(), Broken> {
        let place = match answer.request {
            Some(number) => self.numbers.iter().position(|&each| each == number),
            None => (!self.numbers.is_empty()).then_some(0),
        };
        self.numbers.remove(place.ok_or(Broken)?);
        self.heard.push(answer);
        Ok(())
    }
}

/// The first byte chooses the protocol, the second how long the pieces are.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let (choice, step) = (bytes.u8(), usize::from(bytes.u8()) + 1);
    match choice % 3 {
        0 => {
            let url = Url::parse("http://10.0.0.1/").expect("a URL");
            let template = RequestTemplate::new::<&str>("GET", &url, &[], b"").expect("valid");
            both(|| Http::new(template.clone()), bytes.0, step);
        }
        1 => both(nfs, bytes.0, step),
        _ => mounted(choice, bytes.0, step),
    }
}

fn nfs() -> Nfs {
    let mut tree = Tree::new(b"root");
    let directory = tree.add_directory(b"directory");
    for (name, size) in [(b"a", 0), (b"b", 5_000)] {
        tree.add_file(directory, name, name, size);
    }
    let all = "null:10%,getattr:20%,lookup:20%,access:10%,read:20%,write:20%";
    let mix = NfsMix {
        shares: all.parse().expect("shares"),
        keys: "uniform over 2".parse().expect("keys"),
        read_bytes: Sizes::constant(512, Unit::Bytes),
        write_bytes: Sizes::constant(512, Unit::Bytes),
        offsets: Offsets::Random,
        stable: StableHow::UNSTABLE,
        user: (0, 0),
        seed: 1,
    };
    Nfs::new(mix, Arc::new(tree))
}

fn both<C: Client>(make: impl Fn() -> C, stream: &[u8], step: usize) {
    let whole = heard(make(), stream, stream.len().max(1));
    assert_eq!(whole, heard(make(), stream, step), "in pieces of {step}");
}

/// What is heard of a stream in pieces of `step` bytes, and whether it was broken.
fn heard<C: Client>(mut client: C, stream: &[u8], step: usize) -> (Vec<Answer>, bool) {
    let mut out = Vec::new();
    for number in 0..8 {
        client.write(request(number), &mut out);
    }
    let (mut reader, mut waiting) = (C::Reader::default(), Waiting::new());
    let mut read = Ok(());
    for piece in stream.chunks(step) {
        read = read.and_then(|()| client.read(&mut reader, piece, &mut waiting));
    }
    let read = read.and_then(|()| client.end(&mut reader, &mut waiting));
    client.release(reader);
    (waiting.heard, read.is_err())
}

/// A server answers what mounts its export and looks for its files, or makes some.
fn mounted(choice: u8, stream: &[u8], step: usize) {
    let files = match choice & 64 {
        0 => Files::Found { files_max: 50 },
        _ => Files::Made {
            files: 4,
            directories: 2,
            bytes: Sizes::constant(3_000, Unit::Bytes),
            seed: 1,
            makes: choice & 128 == 0,
        },
    };
    let preparation = Preparation {
        export: "/export".to_owned(),
        mount: match choice & 32 {
            0 => MountAt::Port(7),
            _ => MountAt::Portmap,
        },
        files,
        user: (0, 0),
        timeout_ns: 1_000_000_000,
    };
    let server = ([10, 0, 0, 1].into(), 2_049);
    let (mut work, mut calls) = (preparing(preparation, server), Calls::default());
    let descriptor = Descriptor::default();
    work.open(&mut calls);
    work.start(0, 0, &mut calls);
    // Whatever is asked next, it asks on one connection: which is of no matter to it.
    let (connection, mut owner) = (ConnectionId(0), 0);
    let mut asked = [0; 256];
    for piece in stream.chunks(step) {
        owner = owner.max(1);
        work.on_open(connection, owner, [server; 2], &mut calls);
        work.fill(connection, owner, 0, &mut asked[..0]);
        work.on_bytes(
            connection,
            owner,
            Chunk::lent(piece, &descriptor),
            &mut calls,
        );
        work.on_open(connection, owner + 1, [server; 2], &mut calls);
        if piece.first() == Some(&0xff) {
            owner += 1;
        }
    }
    work.on_end(connection, owner, &mut calls);
    work.stop(&mut calls);
    work.end(&mut calls);
}
