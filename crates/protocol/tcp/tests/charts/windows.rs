//! Windows, theirs and ours: RFC 9293, 3.8.6; RFC 7323, 2.

use crate::chart::Chart;

fn established() -> Chart {
    Chart::established(|_| {})
}

#[test]
fn a_closed_window_is_probed_ever_more_rarely() {
    let mut chart = established();
    chart.run(
        "< A 1:1 ack 1 win 0
         * send 100
         +0.199
         +0.001
         > A 1:2 ack 1
         < A 1:1 ack 1 win 0
         +0.399
         +0.001
         > A 1:2 ack 1
         < A 1:1 ack 1 win 0
         +0.799
         +0.001
         > A 1:2 ack 1
         count probes 3
         < A 1:1 ack 2 win 1000
         = acked 1
         > PA 2:101 ack 1
         < A 1:1 ack 101
         = acked 99",
    );
    assert_eq!(chart.stack.active(), 0);
}

#[test]
fn a_window_may_stay_closed_for_ever() {
    let mut chart = Chart::established(|config| config.retries_max = 3);
    chart.run(
        "< A 1:1 ack 1 win 0
         * send 10",
    );
    for _ in 0..40 {
        chart.run_until_sent();
        assert_eq!(chart.sent().len(), 1);
        chart.run("< A 1:1 ack 1 win 0");
    }
    chart.run(
        "< A 1:1 ack 1 win 100
         > PA 1:11 ack 1",
    );
}

#[test]
fn a_closed_window_that_nobody_answers_for_is_given_up() {
    let mut chart = Chart::established(|config| config.retries_max = 2);
    chart.run(
        "< A 1:1 ack 1 win 0
         * send 10
         +0.2
         > A 1:2 ack 1
         +0.4
         > A 1:2 ack 1
         +0.8
         > RA 2:2 ack 1
         = closed timedout",
    );
    chart.expect_empty();
}

#[test]
fn a_window_that_opens_lets_leave_what_waited() {
    let mut chart = established();
    chart.run(
        "< A 1:1 ack 1 win 500
         * send 2000
         > A 1:501 ack 1
         < A 1:1 ack 501 win 0
         = acked 500
         < A 1:1 ack 501 win 1500
         > A 501:1501 ack 1
         < A 1:1 ack 1501
         = acked 1000
         > PA 1501:2001 ack 1",
    );
}

#[test]
fn a_window_that_shrinks_is_borne() {
    // RFC 9293, 3.8.6: a sender must be robust against it.
    let mut chart = established();
    chart.run(
        "* send 3000
         > A 1:1001 ack 1
         > A 1001:2001 ack 1
         > PA 2001:3001 ack 1
         < A 1:1 ack 1 win 1000
         * send 10
         < A 1:1 ack 1001 win 500
         = acked 1000
         +0.2
         > A 1001:2001 ack 1
         < A 1:1 ack 3001 win 500
         = acked 2000
         > PA 3001:3011 ack 1",
    );
}

#[test]
fn a_small_window_is_not_filled_with_small_segments() {
    // RFC 9293, 3.8.6.2.1: a full segment, or half of the largest window.
    let mut chart = established();
    chart.run(
        "< A 1:1 ack 1 win 1600
         * send 5000
         > A 1:1001 ack 1
         < A 1:1 ack 1001 win 700
         = acked 1000
         +0.199
         +0.001
         > A 1001:1701 ack 1
         < A 1:1 ack 1701 win 1600
         = acked 700
         > A 1701:2701 ack 1",
    );
}

#[test]
fn the_window_that_is_offered_never_moves_back() {
    let mut chart = established();
    chart.run(
        "< A 1:101 ack 1
         = data 100
         +0.05
         > A 1:1 ack 101 win 20000
         * window 0
         < A 101:1101 ack 1
         = data 1000
         +0.05
         > A 1:1 ack 1101 win 19000
         < A 1101:20001 ack 1
         = data 18900
         +0.05
         > A 1:1 ack 20001 win 100
         < A 20001:20101 ack 1
         = data 100
         +0.05
         > A 1:1 ack 20101 win 0
         < A 20101:20102 ack 1
         > A 1:1 ack 20101 win 0
         * window 500
         * window 2000
         > A 1:1 ack 20101 win 2000
         * window 20000
         > A 1:1 ack 20101 win 20000",
    );
}

#[test]
fn a_scaled_window_that_closes_never_moves_back() {
    let mut chart = Chart::with(|config| config.receive_window_bytes = 1 << 20);
    chart.run(
        "* listen
         < S 0:1 scale 0 mss 1000
         > SA 0:1 ack 1 win 65535 scale 5
         < A 1:1 ack 1
         = opened
         < A 1:2 ack 1
         = data 1
         +0.05
         > A 1:1 ack 2 win 32768
         * window 0
         < A 2:13 ack 1
         = data 11
         +0.05
         > A 1:1 ack 13 win 32768",
    );
}

#[test]
fn a_short_segment_waits_while_another_is_in_flight() {
    let mut chart = established();
    chart.run(
        "* send 10
         > PA 1:11 ack 1
         * send 10
         * send 10
         < A 1:1 ack 11
         = acked 10
         > PA 11:31 ack 1",
    );
    let mut chart = Chart::established(|config| config.nagle = false);
    chart.run(
        "* send 10
         > PA 1:11 ack 1
         * send 10
         > PA 11:21 ack 1",
    );
}

#[test]
fn a_window_probe_is_answered() {
    let mut chart = established();
    chart.run(
        "< A 0:0 ack 1
         > A 1:1 ack 1 win 20000
         * window 0
         < A 1:20001 ack 1
         = data 20000
         +0.05
         > A 1:1 ack 20001 win 0
         < A 20001:20002 ack 1
         > A 1:1 ack 20001 win 0
         < A 20000:20000 ack 1
         > A 1:1 ack 20001 win 0",
    );
}

#[test]
fn a_closed_window_takes_acknowledgements_and_resets() {
    let mut chart = established();
    chart.run(
        "* send 10
         > PA 1:11 ack 1
         * window 0
         < A 1:20001 ack 1
         = data 20000
         +0.05
         > A 11:11 ack 20001 win 0
         < A 20001:20101 ack 11
         = acked 10
         > A 11:11 ack 20001 win 0
         < R 20001:20001
         = closed reset",
    );
}
