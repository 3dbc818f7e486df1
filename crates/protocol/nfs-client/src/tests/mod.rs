//! Clients before a server in memory: every call is answered once, whatever happens to connections,
//! and the server sees nothing that a client must not do.

mod server;

use std::collections::HashMap;

use lineside_frame::Piece;
use lineside_nfs::v3;
use lineside_nfs::v4::{self, Call, Claim, Handle, OpenHow, Owner, StateId, StateOwner, Status};
use lineside_rpc::message::encode_record;
use lineside_rpc::xdr::Name;
use lineside_time::{Nanoseconds, Random};
use proptest::prelude::*;

use self::server::{LEASE_SECONDS, SLOTS, Server};
use crate::*;

const SECOND: Nanoseconds = 1_000_000_000;

fn config(version: Version) -> Config {
    let mut config = Config::new(version, b"a client", [7; 8]);
    config.credential = Credential::sys(b"box", 0, 0, &[0]).expect("a credential");
    config.mount = Some(Mount {
        export: b"/a/b".to_vec(),
        at: MountAt::Portmap,
    });
    config
}

/// A client and its server, and what lies between them.
struct World {
    client: Client,
    server: Server,
    /// Replies that have not come, by connection.
    replies: Vec<(Connection, Vec<u8>)>,
    answers: HashMap<u64, u32>,
    data: HashMap<u64, Vec<u8>>,
    states: HashMap<u64, StateId>,
    lost: Vec<(u64, LostBy)>,
    is_ready: bool,
    failed: Option<ClientError>,
    is_closed: bool,
    connections: Vec<Connection>,
    now: Nanoseconds,
}

impl World {
    fn new(config: Config) -> Self {
        Self {
            client: Client::new(config),
            server: Server::default(),
            replies: Vec::new(),
            answers: HashMap::new(),
            data: HashMap::new(),
            states: HashMap::new(),
            lost: Vec::new(),
            is_ready: false,
            failed: None,
            is_closed: false,
            connections: Vec::new(),
            now: 0,
        }
    }

    fn ready(config: Config) -> Self {
        let mut world = Self::new(config);
        world.client.start(0);
        world.settle();
        assert!(world.is_ready, "{:?}", world.failed);
        world
    }

    /// The connection to NFS.
    fn nfs(&self) -> Connection {
        *self.connections.last().expect("a connection")
    }

    fn follow(&mut self) {
        while let Some(event) = self.client.poll() {
            match event {
                Event::Connect(service, port) => {
                    let stream = Transport::Stream;
                    let opened = self.client.opened(self.now, service, port, stream);
                    self.connections.push(opened);
                }
                Event::Ready => self.is_ready = true,
                Event::Lost(tag, by) => self.lost.push((tag, by)),
                Event::Failed(error) => self.failed = Some(error),
                Event::Closed => self.is_closed = true,
            }
        }
    }

    /// Takes all calls to the server.
    fn send(&mut self) {
        for &connection in &self.connections {
            let mut bytes = Vec::new();
            self.client.transmit(connection, &mut bytes);
            let replies = self.server.hear(connection.0, &bytes);
            let replies = replies.into_iter().map(|reply| (connection, reply));
            self.replies.extend(replies);
        }
    }

    fn receive(&mut self, connection: Connection, bytes: &[u8]) -> Result<(), Broken> {
        let (answers, data, states) = (&mut self.answers, &mut self.data, &mut self.states);
        let heard = self.client.on_bytes(self.now, connection, bytes, |reply| {
            let Some(tag) = reply.tag else { return };
            *answers.entry(tag).or_default() += 1;
            if let Answer::Results(results) = reply.answer
                && let Ok(compound) = results.compound()
            {
                for (reply, bytes) in compound.flatten() {
                    if let v4::Reply::Read(_) = reply {
                        data.insert(tag, bytes.to_vec());
                    }
                    if let (v4::Reply::Open(_), Some(stateid)) = (reply, reply.stateid()) {
                        states.insert(tag, stateid);
                    }
                }
            }
        });
        self.follow();
        heard
    }

    /// Until nobody has anything to say.
    fn settle(&mut self) {
        loop {
            self.follow();
            self.send();
            if self.replies.is_empty() {
                return;
            }
            for (connection, reply) in std::mem::take(&mut self.replies) {
                self.receive(connection, &reply).expect("a reply");
            }
        }
    }

    fn compound(&mut self, connection: Connection, tag: u64, calls: &[Call<'_>]) {
        let (by, data) = (Credential::none(), &b""[..]);
        let request = Request::Compound {
            tag: b"",
            calls,
            data,
        };
        let taken = self.client.call(self.now, connection, tag, &by, request);
        taken.expect("room for a call");
    }

    fn read(&mut self, connection: Connection, tag: u64) {
        self.compound(connection, tag, &[put(), read(tag)]);
    }
}

fn put() -> Call<'static> {
    let object = Some(Handle::new(&[]));
    Call::PutFh(v4::PutFhArgs { object })
}

fn read(offset: u64) -> Call<'static> {
    Call::Read(v4::ReadArgs {
        stateid: Some(StateId {
            sequence: 0,
            other: [0; 12],
        }),
        offset: Some(offset),
        count: Some(8),
    })
}

fn open<'a>(owner: &'a [Piece<'a>]) -> Call<'a> {
    Call::Open(v4::OpenArgs {
        sequence: Some(0),
        access: Some(1),
        deny: Some(0),
        owner: StateOwner {
            client_id: Some(0),
            owner: Some(Owner::new(owner)),
        },
        how: OpenHow::NoCreate,
        claim: Claim::Null(Some(Name::new(&[]))),
    })
}

fn close(stateid: StateId) -> Call<'static> {
    Call::Close(v4::CloseArgs {
        sequence: Some(0),
        stateid: Some(stateid),
    })
}

#[test]
fn an_export_is_mounted_by_portmap_and_mount() {
    let world = World::ready(config(Version::V3));
    assert_eq!(world.client.root(), b"root");
    assert_eq!(world.connections.len(), 3);
}

#[test]
fn mount_is_asked_for_at_nfs_port_without_a_port_mapper() {
    for is_refused in [true, false] {
        let mut world = World::new(config(Version::V3));
        world.client.start(0);
        assert_eq!(
            world.client.poll(),
            Some(Event::Connect(Service::Portmap, PORTMAP_PORT))
        );
        if is_refused {
            world.client.refused(0, Service::Portmap);
        } else {
            let stream = Transport::Stream;
            let opened = world
                .client
                .opened(0, Service::Portmap, PORTMAP_PORT, stream);
            world.client.abandon(0, opened);
        }
        world.settle();
        assert!(world.is_ready, "{:?}", world.failed);
        assert_eq!(world.connections.len(), 1, "one port serves both");
    }
}

#[test]
fn each_call_has_its_own_credential() {
    let mut world = World::ready(config(Version::V3));
    let connection = world.nfs();
    world.server.credentials.clear();
    let gids: Vec<u32> = (100..116).collect();
    let by = [
        Credential::sys(b"x", 5, 6, &gids).expect("16 groups"),
        Credential::none(),
        Credential::sys(b"", 7, 8, &[]).expect("no groups"),
    ];
    for (tag, by) in by.iter().enumerate() {
        let call = v3::Call::Null(());
        let request = Request::Nfs3(&call, &[]);
        let taken = world.client.call(0, connection, tag as u64, by, request);
        taken.expect("room");
    }
    world.settle();
    assert_eq!(world.server.credentials, [(5, gids), (7, vec![])]);
    assert_eq!(
        Credential::sys(b"x", 5, 6, &[0; 17]),
        Err(CredentialError::Groups(17))
    );
    assert_eq!(
        Credential::sys(&[b'x'; 256], 5, 6, &[]),
        Err(CredentialError::MachineName(256))
    );
}

#[test]
fn a_session_carries_as_many_calls_as_it_has_slots() {
    let mut world = World::ready(config(Version::V4(1)));
    let connection = world.nfs();
    (0..100).for_each(|tag| world.read(connection, tag));
    world.send();
    assert_eq!(world.replies.len(), SLOTS as usize);
    world.settle();
    assert_eq!(world.answers.len(), 100);
    assert!(
        world
            .data
            .iter()
            .all(|(tag, data)| data[..] == tag.to_be_bytes())
    );
    assert_eq!(world.server.wrong, [""; 0]);
    world.client.finish(world.now);
    world.settle();
    assert!(world.is_closed);
}

#[test]
fn a_renewal_is_sent_after_half_a_lease_without_calls() {
    let half = Nanoseconds::from(LEASE_SECONDS) * SECOND / 2;
    for minor in 0..=2 {
        let mut world = World::ready(config(Version::V4(minor)));
        assert_eq!(world.client.next_deadline(), Some(half), "4.{minor}");
        // A call renews the lease of a session, and not that of NFSv4.0.
        world.now = 30 * SECOND;
        let connection = world.nfs();
        world.read(connection, 1);
        world.settle();
        let due = if minor == 0 { half } else { world.now + half };
        assert_eq!(world.client.next_deadline(), Some(due), "4.{minor}");
        world.now = due - 1;
        world.client.on_time(world.now);
        world.settle();
        let count = |server: &Server| (server.renewals, server.lone_sequences);
        assert_eq!(count(&world.server), (0, 0), "4.{minor}");
        world.now = due;
        world.client.on_time(world.now);
        world.settle();
        let expected = if minor == 0 { (1, 0) } else { (0, 1) };
        assert_eq!(count(&world.server), expected, "4.{minor}");
        assert_eq!(world.client.next_deadline(), Some(due + half), "4.{minor}");
    }
}

#[test]
fn a_server_that_forgot_the_session_ends_the_client() {
    let mut world = World::ready(config(Version::V4(1)));
    world.server.sequence_status = Some(Status::BADSESSION);
    let connection = world.nfs();
    world.read(connection, 1);
    world.settle();
    assert_eq!(world.answers[&1], 1);
    let forgotten = ClientError::Forgotten(Status::BADSESSION.0);
    assert_eq!(world.failed, Some(forgotten));
    assert_eq!(
        forgotten.to_string(),
        "the server has forgotten the client: NFS4ERR_BADSESSION"
    );
}

#[test]
fn a_delayed_sequence_does_not_count() {
    let mut world = World::ready(config(Version::V4(1)));
    let connection = world.nfs();
    for status in [Some(Status::DELAY), None, Some(Status::DELAY), None] {
        world.server.sequence_status = status;
        (0..9).for_each(|tag| world.read(connection, tag));
        world.settle();
    }
    assert_eq!(world.server.wrong, [""; 0]);
    assert_eq!(world.failed, None);
    assert_eq!(world.answers.values().sum::<u32>(), 36);
}

#[test]
fn a_call_without_a_reply_is_lost_and_keeps_its_slot() {
    let mut config = config(Version::V4(1));
    config.timeout_ns = Some(SECOND);
    let mut world = World::ready(config);
    let connection = world.nfs();
    (0..2).for_each(|tag| world.read(connection, tag));
    world.send();
    let late = world.replies.remove(0);
    world.settle();
    assert_eq!(world.answers.len(), 1);
    world.now = SECOND;
    world.client.on_time(world.now);
    world.follow();
    assert_eq!(world.lost, [(0, LostBy::Timeout)]);
    (2..9).for_each(|tag| world.read(connection, tag));
    world.settle();
    world.receive(late.0, &late.1).expect("a late reply");
    (9..20).for_each(|tag| world.read(connection, tag));
    world.settle();
    assert_eq!(world.answers.len(), 19);
    assert_eq!(world.client.outstanding(), 0);
    assert_eq!(world.server.wrong, [""; 0]);
}

#[test]
fn an_abandoned_connection_loses_its_calls_alone() {
    let mut world = World::ready(config(Version::V4(0)));
    let first = world.nfs();
    let second = world
        .client
        .opened(0, Service::Nfs, NFS_PORT, Transport::Stream);
    world.connections.push(second);
    let owner = [Piece::bytes(b"owner")];
    world.compound(first, 1, &[put(), open(&owner)]);
    world.compound(second, 2, &[put(), open(&owner)]);
    world.send();
    world.replies.clear();
    world.connections.retain(|&each| each == second);
    world.client.abandon(0, first);
    world.settle();
    assert_eq!(world.lost, [(1, LostBy::Closed)]);
    assert_eq!(world.answers[&2], 1);
    assert_eq!(world.server.wrong, [""; 0]);
}

#[test]
fn a_session_whose_slots_are_all_lost_ends_the_client() {
    let mut world = World::ready(config(Version::V4(1)));
    for round in 0..SLOTS {
        let stream = Transport::Stream;
        let opened = world.client.opened(0, Service::Nfs, NFS_PORT, stream);
        world.read(opened, round.into());
        world.client.transmit(opened, &mut Vec::new());
        assert_eq!(world.failed, None);
        world.client.abandon(0, opened);
        world.follow();
    }
    assert_eq!(world.failed, Some(ClientError::NoSlots));
    assert_eq!(world.lost.len(), SLOTS as usize);
}

#[test]
fn replies_still_come_while_a_client_finishes() {
    let mut world = World::ready(config(Version::V4(1)));
    let connection = world.nfs();
    (0..10).for_each(|tag| world.read(connection, tag));
    world.send();
    world.client.finish(0);
    world.settle();
    assert!(world.is_closed);
    let tags: Vec<u64> = world.lost.iter().map(|&(tag, _)| tag).collect();
    assert_eq!(tags.len(), 10, "{tags:?}");
    assert_eq!(world.client.outstanding(), 0);
}

#[test]
fn calls_beyond_the_bounds_are_not_taken() {
    let mut config = config(Version::V3);
    config.bytes_max = 1_000;
    let mut world = World::ready(config);
    let connection = world.nfs();
    let by = Credential::none();
    let mut call = |request: Request<'_>| world.client.call(0, connection, 0, &by, request);
    let null = v3::Call::Null(());
    let taken = (0..1_000).take_while(|_| call(Request::Nfs3(&null, &[])).is_ok());
    assert_eq!(taken.count(), 1_000 / 40);
    assert_eq!(call(Request::Nfs3(&null, &[])), Err(CallError::Full));
    let calls = [put()];
    let compound = Request::Compound {
        tag: b"",
        calls: &calls,
        data: &[],
    };
    assert_eq!(call(compound), Err(CallError::Version));
    assert_eq!(call(Request::Nfs3(&null, b"data")), Err(CallError::Data));
}

#[test]
fn foreign_bytes_are_refused() {
    // A reply to no call, a call, an accept_stat that there is none of, a cut header, nothing.
    let wrong: [&[u32]; 5] = [
        &[0xffff, 1, 0, 0, 0, 0],
        &[1, 0, 0, 0, 0, 0],
        &[4, 1, 0, 0, 0, 6],
        &[4, 1, 0, 0, 0],
        &[],
    ];
    for words in wrong {
        let mut world = World::ready(config(Version::V4(1)));
        let connection = world.nfs();
        world.read(connection, 1);
        let message: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let mut record = Vec::new();
        encode_record(&[], &message, &mut record);
        assert_eq!(world.receive(connection, &record), Err(Broken), "{words:?}");
        assert_eq!(world.client.outstanding(), 1);
    }
}

/// A call: of NFSv3 or NFSv4 a READ, or an OPEN of one of two owners, or a CLOSE.
fn one_call(world: &mut World, connection: Connection, tag: u64, opens: bool, owner: u64) {
    if opens {
        let opened = world.states.keys().min().copied();
        let opened = opened.and_then(|tag| world.states.remove(&tag));
        let owner: &[u8] = if owner == 0 { b"one" } else { b"other" };
        let owner = [Piece::bytes(owner)];
        let call = match opened {
            Some(stateid) => close(stateid),
            None => open(&owner),
        };
        return world.compound(connection, tag, &[put(), call]);
    }
    // A client of NFSv3 has no id.
    if world.client.client_id() != 0 {
        return world.read(connection, tag);
    }
    let call = v3::Call::Read(v3::ReadArgs {
        file: Some(lineside_rpc::xdr::Handle::new(&[])),
        offset: Some(tag),
        count: Some(8),
    });
    let (by, request) = (Credential::none(), Request::Nfs3(&call, &[]));
    let taken = world.client.call(0, connection, tag, &by, request);
    taken.expect("room");
}

/// What a seed makes of a client's life: calls on several connections, replies in any order and
/// cut anywhere, connections that end and are opened again.
fn live(seed: u64, version: Version, opens: bool) -> World {
    let mut random = Random::new(seed);
    let mut config = config(version);
    config.fragments = vec![random.below(300) as usize; random.below(3) as usize];
    let mut world = World::ready(config);
    let first = world.connections.len() - 1;
    for _ in 0..random.below(3) {
        let stream = Transport::Stream;
        let more = world.client.opened(0, Service::Nfs, NFS_PORT, stream);
        world.connections.push(more);
    }
    let mut tag = 0;
    for _ in 0..120 {
        let count = (world.connections.len() - first) as u64;
        let connection = world.connections[first + random.below(count) as usize];
        match random.below(6) {
            0..=2 => {
                tag += 1;
                one_call(&mut world, connection, tag, opens, random.below(2));
            }
            3 => world.send(),
            4 if !world.replies.is_empty() => {
                let at = random.below(world.replies.len() as u64) as usize;
                let (connection, mut bytes) = world.replies.swap_remove(at);
                while !bytes.is_empty() {
                    let len = 1 + random.below(bytes.len() as u64) as usize;
                    let rest = bytes.split_off(len.min(bytes.len()));
                    world.receive(connection, &bytes).expect("a reply");
                    bytes = rest;
                }
            }
            5 if random.chance(0.2) => {
                world.send();
                world.replies.retain(|(each, _)| *each != connection);
                world.server.forget(connection.0);
                world.client.closed(0, connection);
                world.client.reopened(0, connection);
            }
            _ => {}
        }
    }
    world.settle();
    assert_eq!(world.server.wrong, [""; 0]);
    assert_eq!(world.answers.len() as u64, tag);
    assert!(world.answers.values().all(|&times| times == 1));
    assert_eq!(world.client.outstanding(), 0);
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_call_is_executed_and_answered_once(seed: u64, minor in 0_u32..4) {
        let version = if minor == 3 { Version::V3 } else { Version::V4(minor) };
        let mut world = live(seed, version, false);
        world.server.read.sort_unstable();
        let expected: Vec<u64> = (1..=world.answers.len() as u64).collect();
        prop_assert_eq!(&world.server.read, &expected);
    }

    #[test]
    fn owners_are_numbered_in_order(seed: u64) {
        live(seed, Version::V4(0), true);
    }

    #[test]
    fn bytes_of_any_kind_are_no_panic(seed: u64, minor in 0_u32..3, flips in 1_u64..20) {
        let mut random = Random::new(seed);
        let mut world = World::ready(config(Version::V4(minor)));
        let connection = world.nfs();
        let owner = [Piece::bytes(b"owner")];
        (0..9).for_each(|tag| world.read(connection, tag));
        world.compound(connection, 9, &[put(), open(&owner)]);
        world.send();
        for (connection, mut reply) in std::mem::take(&mut world.replies) {
            for _ in 0..flips {
                let at = random.below(reply.len() as u64) as usize;
                reply[at] ^= 1 << random.below(8);
            }
            if world.receive(connection, &reply).is_err() {
                break;
            }
        }
        world.client.on_time(3_600 * SECOND);
        world.client.finish(3_600 * SECOND);
        world.follow();
    }
}
