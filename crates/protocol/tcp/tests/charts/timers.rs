//! What happens when nothing comes: RFC 6298; RFC 5681, 3.1, 3.2 and 4.1; RFC 6675; RFC 9293,
//! 3.8.3.

use lineside_tcp::Config;

use crate::chart::Chart;

fn established() -> Chart {
    Chart::established(|_| {})
}

#[test]
fn data_are_sent_again_until_they_are_given_up() {
    let mut chart = Chart::established(|config| config.retries_max = 3);
    chart.run(
        "* send 10
         > PA 1:11 ack 1
         +0.05
         < A 1:1 ack 11
         = acked 10
         * send 10
         > PA 11:21 ack 1
         +0.199
         +0.001
         > PA 11:21 ack 1
         +0.399
         +0.001
         > PA 11:21 ack 1
         +0.799
         +0.001
         > PA 11:21 ack 1
         +1.599
         +0.001
         > RA 21:21 ack 1
         = closed timedout
         count timeouts 4
         count retransmitted_timeout 3",
    );
    chart.expect_empty();
}

#[test]
fn an_acknowledgement_begins_the_count_anew() {
    let mut chart = Chart::established(|config| config.retries_max = 2);
    chart.run("* send 3000\n> A 1:1001 ack 1\n> A 1001:2001 ack 1\n> A 2001:3001 ack 1");
    chart.run(
        "+0.2
         > A 1:1001 ack 1
         +0.4
         > A 1:1001 ack 1
         < A 1:1 ack 1001
         = acked 1000
         > A 1001:2001 ack 1
         > A 2001:3001 ack 1
         +0.2
         > A 1001:2001 ack 1
         < A 1:1 ack 3001
         = acked 2000",
    );
}

#[test]
fn three_duplicates_send_the_first_segment_again() {
    let mut chart = established();
    chart.run(
        "* send 6000
         > A 1:1001 ack 1
         > A 1001:2001 ack 1
         > A 2001:3001 ack 1
         > A 3001:4001 ack 1
         > A 4001:5001 ack 1
         > A 5001:6001 ack 1
         < A 1:1 ack 1001
         = acked 1000
         < A 1:1 ack 1001
         < A 1:1 ack 1001
         < A 1:1 ack 1001
         > A 1001:2001 ack 1
         < A 1:1 ack 1001
         < A 1:1 ack 4001
         = acked 3000
         > A 4001:5001 ack 1
         < A 1:1 ack 6001
         = acked 2000
         count recoveries 1
         count retransmitted_fast 2
         count timeouts 0",
    );
}

#[test]
fn selective_acknowledgements_say_what_is_lost() {
    let mut chart = Chart::with(|config| config.sack = true);
    chart.run(
        "* listen
         < S 0:1 mss 1000 sackok
         > SA 0:1 ack 1 sackok
         +0.1
         < A 1:1 ack 1
         = opened
         * send 8000
         > A 1:1001 ack 1
         > A 1001:2001 ack 1
         > A 2001:3001 ack 1
         > A 3001:4001 ack 1
         > A 4001:5001 ack 1
         > A 5001:6001 ack 1
         > A 6001:7001 ack 1
         > A 7001:8001 ack 1
         +0.1
         < A 1:1 ack 1 sack 1001:2001
         < A 1:1 ack 1 sack 3001:5001 sack 1001:2001
         > A 1:1001 ack 1
         < A 1:1 ack 1 sack 3001:6001 sack 1001:2001
         > A 2001:3001 ack 1
         < A 1:1 ack 2001 sack 3001:8001
         = acked 2000
         < A 1:1 ack 8001
         = acked 6000
         count recoveries 1
         count retransmitted_fast 2",
    );
}

#[test]
fn a_window_begins_small_again_after_idle_time() {
    // RFC 5681, 4.1: after a timeout's time without data, the initial window.
    let mut chart = established();
    let mut sent = 0;
    let mut una = 1;
    for _ in 0..4 {
        chart.call("send 40000").expect("it lives");
        loop {
            chart.pass(20_000_000);
            let left = chart.sent().len() as i64;
            if left == 0 {
                break;
            }
            sent = sent.max(left);
            una += left * 1000;
            chart.give_line(&format!("A 1:1 ack {una} win 60000"));
        }
        chart.heard.events.clear();
    }
    assert!(sent > 20, "the window grew: {sent}");
    chart.pass(5_000_000_000);
    chart.call("send 40000").expect("it lives");
    assert_eq!(chart.sent().len(), 10);
}

#[test]
fn a_keep_alive_finds_a_peer_that_is_gone() {
    // RFC 9293, 3.8.4: off unless asked for.
    let mut chart = Chart::established(|config| {
        config.keep_alive_ns = Some(100_000_000_000);
        config.keep_alive_interval_ns = 10_000_000_000;
        config.keep_alive_probes_max = 2;
    });
    chart.run(
        "+99.9
         +0.1
         > A 0:0 ack 1
         < A 1:1 ack 1
         +99.9
         +0.1
         > A 0:0 ack 1
         +10
         > A 0:0 ack 1
         +10
         > RA 1:1 ack 1
         = closed timedout
         count keep_alives 3",
    );
    chart.expect_empty();
}

#[test]
fn a_connection_at_rest_has_no_timer() {
    let chart = established();
    assert_eq!(chart.stack.next_deadline(), None);
    assert_eq!((chart.stack.connections(), chart.stack.active()), (1, 0));
}

#[test]
fn what_waits_longer_than_the_owner_does_ends_its_connection() {
    let limited = |config: &mut Config| config.user_timeout_ns = Some(5_000_000_000);
    // Data: not before 5 s, whatever the timeouts; acknowledgements begin the time anew.
    let mut chart = Chart::established(limited);
    chart.run(
        "* send 10
         > A 1:11 ack 1
         +0.1
         < A 1:1 ack 11
         = acked 10
         +100
         * send 10
         > A 11:21 ack 1",
    );
    chart.pass(4_999_000_000);
    let again = chart.sent();
    assert!(again.len() > 2, "{again:?}");
    assert_eq!(chart.stack.connections(), 1);
    chart.pass(1_000_000);
    chart.run("> RA 21:21 ack 1\n= closed timedout");
    chart.expect_empty();
    // A window that stays closed, though the peer answers.
    let mut chart = Chart::established(limited);
    chart.run("< A 1:1 ack 1 win 0\n* send 10");
    for _ in 0..3 {
        chart.run_until_sent();
        chart.sent();
        chart.give_line("A 1:1 ack 1 win 0");
    }
    chart.pass(5_000_000_000);
    assert_eq!(chart.stack.connections(), 0);
    // A SYN.
    let mut chart = Chart::with(limited);
    chart.run("* connect\n> S 0:1");
    chart.pass(4_999_000_000);
    chart.sent();
    assert_eq!(chart.stack.connections(), 1);
    chart.pass(1_000_000);
    chart.run("= closed timedout");
}

#[test]
fn after_a_lost_syn_the_first_timeout_is_longer() {
    // RFC 6298, 5.7: 3 s, until a round trip is measured.
    let mut chart = Chart::with(|_| {});
    chart.run(
        "* connect
         > S 0:1
         +1
         > S 0:1
         < SA 0:1 ack 1 mss 1000
         = opened
         > A 1:1 ack 1
         * send 10
         > A 1:11 ack 1
         +2.999
         +0.001
         > A 1:11 ack 1",
    );
}
