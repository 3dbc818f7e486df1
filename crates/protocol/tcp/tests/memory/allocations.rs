//! What is allocated when.

use lineside_wire::tcp::{SackBlocks, TcpOption};
use lineside_wire::{SeqNumber, TcpFlags};

use crate::allocated;
use crate::duel::{Duel, LIAR, liars};

/// Connections with as much out of order, both ways and at once, as there will be.
fn disorder(duel: &mut Duel) {
    let mut permitted = [0; 4];
    TcpOption::SackPermitted.emit(&mut permitted);
    for port in 0..40 {
        let (id, iss) = duel.open_liar(port, &permitted, 65_535);
        duel.send(id, 100_000);
        for each in 1..64 {
            let mut fields = liars(port, iss, 1 + 2 * each);
            let start = SeqNumber(iss) + 100 * each;
            let block = [SackBlocks::block(start, start + 10)];
            let mut options = [0; 12];
            TcpOption::Sack(SackBlocks::new(&block)).emit(&mut options);
            fields.options = &options;
            duel.forge(LIAR, &fields, &[0]);
        }
        duel.attack();
    }
    for port in 0..40 {
        let mut fields = liars(port, 0, 1);
        fields.flags = TcpFlags::RST;
        duel.forge(LIAR, &fields, &[]);
    }
    duel.attack();
    assert_eq!((duel.server.connections(), duel.owners[0].closed), (0, 40));
    duel.owners[0].opened.clear();
}

#[test]
fn nothing_is_allocated_once_tables_have_grown() {
    let mut duel = Duel::new(256 << 20, |config| config.connections_max = 1000);
    let round = |duel: &mut Duel, count: usize, len: u64| {
        let ids: Vec<_> = (0..count).map(|_| duel.open()).collect();
        duel.loss.1 = 0.03;
        for id in &ids {
            duel.talk(*id, len);
        }
        duel.loss.1 = 0.0;
        for [client, server] in ids {
            let [of_server, of_client] = &mut duel.owners;
            duel.client
                .shutdown(duel.now, client, of_client)
                .expect("it is open");
            let (stack, now) = (&mut duel.server, duel.now);
            crate::measured(|| stack.shutdown(now, server, of_server)).expect("it is open");
            duel.pass();
        }
        for _ in 0..61_000 / 500 {
            duel.now += 499_000_000;
            duel.pass();
        }
    };
    disorder(&mut duel);
    for _ in 0..3 {
        round(&mut duel, 100, 200_000);
    }
    assert_eq!(duel.server.connections() + duel.server.time_waits(), 0);
    duel.expect_within_budget();
    let (before, _) = allocated();
    assert!(before > 0, "the first rounds allocate");
    for _ in 0..3 {
        round(&mut duel, 100, 50_000);
    }
    let (after, _) = allocated();
    assert_eq!(after - before, 0, "allocations of 300 connections");
    assert_eq!(duel.owners[0].opened.len(), 600);
}

#[test]
fn a_stack_gives_back_what_it_drew() {
    let mut duel = Duel::new(64 << 20, |config| config.connections_max = 1000);
    let id = duel.open();
    duel.talk(id, 500_000);
    duel.expect_within_budget();
    let budget = duel.budget.clone();
    let Duel { server, owners, .. } = duel;
    drop(owners);
    crate::measured(|| drop(server));
    lineside_frame::give_back();
    assert_eq!(budget.used_bytes(), 0);
}
