//! How connections begin: RFC 9293, 3.5, 3.10.7.1 to 3.10.7.4.

use lineside_tcp::Config;

use crate::chart::Chart;

fn whole(config: &mut Config) {
    (config.timestamps, config.sack) = (true, true);
    config.receive_window_bytes = 1 << 20;
}

#[test]
fn a_listener_answers_with_what_the_peer_offered() {
    let mut chart = Chart::with(whole);
    chart.run(
        "* listen
         < S 0:1 mss 1000 scale 7 sackok ts 5:0
         > SA 0:1 ack 1 win 65535 mss 1460 scale 5 sackok ts 0:5
         < A 1:1 ack 1 ts 6:0
         = opened
         * send 10
         > PA 1:11 ack 1 win 32768 ts 0:6
         peer 2001
         < S 0:1
         > SA 0:1 ack 1 win 65535 mss 1460
         < A 1:1 ack 1
         = opened
         * send 600
         > A 1:537 ack 1 win 65535
         < A 1:1 ack 537
         = acked 536
         > PA 537:601 ack 1",
    );
}

#[test]
fn an_active_open_takes_the_answer() {
    let mut chart = Chart::with(whole);
    chart.run(
        "* connect
         > S 0:1 win 65535 mss 1460 scale 5 sackok ts 0:0
         +0.1
         < SA 0:1 ack 1 mss 1460 scale 2 sackok ts 9:0
         = opened
         > A 1:1 ack 1 ts 100:9",
    );
}

#[test]
fn both_ends_may_open_at_once() {
    // RFC 9293, figure 7.
    let mut chart = Chart::new();
    chart.run(
        "* connect
         > S 0:1
         < S 0:1 mss 1000
         > SA 0:1 ack 1
         < SA 0:1 ack 1 mss 1000
         = opened
         < A 1:11 ack 1
         = data 10
         * send 5
         > A 1:6 ack 11
         < A 11:11 ack 6
         = acked 5",
    );
    // The peer's second segment is lost, its data are what shows that it has our SYN.
    let mut chart = Chart::new();
    chart.run(
        "* connect
         > S 0:1
         < S 0:1
         > SA 0:1 ack 1
         < A 1:6 ack 1
         = opened
         = data 5
         +0.05
         > A 1:1 ack 6",
    );
}

#[test]
fn a_syn_is_sent_again_until_it_is_given_up() {
    let mut chart = Chart::with(|config| config.syn_retries_max = 2);
    chart.run(
        "* connect
         > S 0:1
         +0.999
         +0.001
         > S 0:1
         +1.999
         +0.001
         > S 0:1
         +3.999
         +0.001
         = closed timedout
         count timeouts 3
         count given_up 1",
    );
    chart.expect_empty();
}

#[test]
fn a_syn_that_nobody_completes_is_forgotten() {
    let mut chart = Chart::with(|config| config.syn_retries_max = 1);
    chart.run(
        "* listen
         < S 0:1
         > SA 0:1 ack 1
         < S 0:1
         > SA 0:1 ack 1
         +1
         > SA 0:1 ack 1
         +2",
    );
    chart.expect_empty();
}

#[test]
fn in_syn_sent_only_what_answers_the_syn_counts() {
    let mut chart = Chart::new();
    chart.run(
        "* connect
         > S 0:1
         < A 1:1 ack 5
         > R 5:5
         < SA 0:1 ack 0
         > R 0:0
         < RA 0:0 ack 2
         < R 0:0
         < A 1:1 ack 1
         < SA 0:1 ack 1
         = opened
         > A 1:1 ack 1",
    );
    let mut chart = Chart::new();
    chart.run(
        "* connect
         > S 0:1
         < RA 0:0 ack 1
         = closed refused",
    );
    chart.expect_empty();
}

#[test]
fn an_answer_may_carry_data_and_a_fin() {
    // RFC 9293, 3.10.7.3, fourth: text of a SYN-ACK is taken.
    let mut chart = Chart::new();
    chart.run(
        "* connect
         > S 0:1
         < SFA 0:12 ack 1
         = opened
         = data 10
         = ended
         > A 1:1 ack 12",
    );
}

#[test]
fn data_on_a_syn_come_again() {
    let mut chart = Chart::new();
    chart.run(
        "* listen
         < S 0:101
         > SA 0:1 ack 1
         < A 1:101 ack 1
         = opened
         = data 100
         +0.05
         > A 1:1 ack 101",
    );
}

#[test]
fn in_syn_received_what_is_wrong_ends_nothing_silently() {
    let mut chart = Chart::new();
    chart.run(
        "* listen
         < S 0:1
         > SA 0:1 ack 1
         < A 1:1 ack 2
         > R 2:2
         < A 1:1 ack 0
         > R 0:0
         < R 5:5
         > A 1:1 ack 1
         < S -5:-4
         > A 1:1 ack 1
         < R 1:1
         < S 0:1
         > SA 0:1 ack 1",
    );
}

/// RFC 9293, 3.10.7.4, fourth: the listener goes on, and the next SYN is the first one again.
#[test]
fn a_syn_in_the_window_of_a_half_open_connection_ends_it() {
    for syn in ["S 5:6", "S 1:2", "SA 5:6 ack 1"] {
        let mut chart = Chart::new();
        chart.run(&format!(
            "* listen
             < S 0:1
             > SA 0:1 ack 1
             < {syn}
             +60
             count half_open_ended 1
             count challenges 0"
        ));
        chart.expect_empty();
        chart.run(
            "< S 5:6
             > SA 0:1 ack 6
             < A 6:6 ack 1
             = opened",
        );
    }
    // One that both ends opened is challenged, as any connection.
    let mut chart = Chart::new();
    chart.run(
        "* connect
         > S 0:1
         < S 0:1
         > SA 0:1 ack 1
         < S 5:6
         > A 1:1 ack 1
         < A 1:1 ack 1
         = opened",
    );
}

#[test]
fn segments_for_nobody_are_answered_by_rst() {
    // RFC 9293, 3.10.7.1.
    let mut chart = Chart::new();
    chart.run(
        "< S 0:1
         > RA 0:0 ack 1
         < A 5:15 ack 100
         > R 100:100
         < FA 5:6 ack 9
         > R 9:9
         < F 5:16
         > RA 0:0 ack 16
         < R 5:5
         < RA 5:5 ack 9
         * listen
         < A 5:5 ack 9
         > R 9:9
         < SA 5:6 ack 9
         > R 9:9
         < F 5:16",
    );
    chart.expect_empty();
    // Of a SYN with a FIN the FIN is left for later: RFC 9293, 3.10.7.2.
    chart.run(
        "< SF 0:2
         > SA 0:1 ack 1",
    );
}
