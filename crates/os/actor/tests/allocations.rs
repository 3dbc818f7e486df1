//! Nothing is allocated per message once a run is warm.

use lineside_actor::{Actor, Address, Config, Context, Outcome, Schedule, System, Topology};
use lineside_alloc::process_allocations;

const ACTORS: usize = 50;
const IN_FLIGHT: usize = 200;

/// Sends each token on to the next peer, until it has gone far enough.
struct Peer {
    peers: Vec<Address<Message>>,
    next: usize,
}

enum Message {
    Meet(Vec<Address<Self>>),
    Token(u32),
    /// Longer than a token's node: another size of node.
    Wide([u64; 10]),
}

impl Actor for Peer {
    type Message = Message;

    fn on_message(&mut self, message: Message, context: &mut Context<'_, Message>) -> Outcome {
        self.next = (self.next * 5 + 3) % ACTORS;
        match message {
            Message::Meet(peers) => self.peers = peers,
            Message::Token(0) => {}
            Message::Token(left) => {
                context.send(&self.peers[self.next], Message::Wide([u64::from(left); 10]));
            }
            Message::Wide(left) => {
                context.send(&self.peers[self.next], Message::Token(left[0] as u32 - 1));
            }
        }
        Ok(())
    }
}

/// Allocations of a whole run in which every token is sent `hops` times.
fn allocations(schedule: Schedule, hops: u32) -> u64 {
    let before = process_allocations();
    let mut system = System::new(Config::new(schedule)).unwrap();
    let peers: Vec<_> = (0..ACTORS)
        .map(|next| {
            let peers = Vec::new();
            system.spawn("peer", Peer { peers, next })
        })
        .collect();
    let mut handle = system.handle();
    for peer in &peers {
        handle.send(peer, Message::Meet(peers.clone())).unwrap();
    }
    for token in 0..IN_FLIGHT {
        handle
            .send(&peers[token % ACTORS], Message::Token(hops))
            .unwrap();
    }
    drop(handle);
    let report = system.run().unwrap();
    let handled: u64 = report.schedulers.iter().map(|s| s.messages).sum();
    assert!(handled >= IN_FLIGHT as u64 * u64::from(hops) * 2);
    process_allocations() - before
}

#[test]
fn allocations_do_not_grow_with_messages() {
    // The queues' sizes depend a little on the interleaving of threads: a run of a hundred times as
    // many messages may allocate some dozens of times more, but not once per thousand messages.
    let cpu = Topology::read().unwrap().cpus[0].number;
    let pinned = |count| Schedule::Pinned {
        cpus: vec![cpu; count],
    };
    for schedule in [
        Schedule::stealing(1),
        Schedule::stealing(2),
        pinned(1),
        pinned(2),
    ] {
        let short = allocations(schedule.clone(), 20);
        let long = allocations(schedule.clone(), 2_000);
        let messages = 1_980 * 2 * IN_FLIGHT as u64;
        assert!(
            long <= short + 100,
            "{schedule:?}: {short} allocations, then {long} for {messages} messages more"
        );
    }
}
