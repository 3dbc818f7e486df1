//! Whether a timeout was for nothing: RFC 5682.

use crate::chart::Chart;
use crate::rack::{opened, send};

/// Six segments, a timeout, and six more that wait.
fn timed_out() -> Chart {
    let mut chart = Chart::established(|_| {});
    chart.run(
        "* send 10
         > A 1:11 ack 1
         +0.1
         < A 1:1 ack 11
         = acked 10",
    );
    send(&mut chart, 11, 6);
    chart.run(
        "+0.3
         > A 11:1011 ack 1
         * send 6000
         < A 1:1 ack 1011
         = acked 1000
         > A 6011:7011 ack 1
         > A 7011:8011 ack 1",
    );
    chart
}

#[test]
fn what_arrives_after_a_timeout_shows_that_it_was_spurious() {
    // RFC 5682, 2.1, step 3b: the window is what it was.
    let mut chart = timed_out();
    chart.run(
        "< A 1:1 ack 2011
         = acked 1000
         > A 8011:9011 ack 1
         > A 9011:10011 ack 1
         > A 10011:11011 ack 1
         > A 11011:12011 ack 1
         < A 1:1 ack 12011
         = acked 10000
         count spurious_timeouts 1
         count retransmitted 1",
    );
}

#[test]
fn a_duplicate_after_a_timeout_shows_that_it_was_not() {
    // RFC 5682, 2.1, step 3a.
    let mut chart = timed_out();
    chart.run(
        "< A 1:1 ack 1011
         > A 1011:2011 ack 1
         < A 1:1 ack 2011
         = acked 1000
         > A 2011:3011 ack 1
         count spurious_timeouts 0",
    );
}

#[test]
fn what_may_be_lost_waits_for_the_verdict() {
    // RFC 5682, 2.1, step 2b: the window has room for it.
    let mut chart = Chart::established(|_| {});
    send(&mut chart, 1, 4);
    chart.run(
        "+0.2
         > A 1:1001 ack 1
         * send 1000
         < A 1:1 ack 1001
         = acked 1000
         > A 4001:5001 ack 1
         < A 1:1 ack 2001
         = acked 1000
         count spurious_timeouts 1",
    );
}

#[test]
fn without_new_data_what_was_in_flight_leaves_again() {
    // RFC 5682, 2.1, step 2b.
    let mut chart = Chart::established(|_| {});
    send(&mut chart, 1, 4);
    chart.run(
        "+0.2
         > A 1:1001 ack 1
         < A 1:1 ack 1001
         = acked 1000
         > A 1001:2001 ack 1
         > A 2001:3001 ack 1
         count spurious_timeouts 0",
    );
}

#[test]
fn selective_acknowledgements_show_it_without_the_next_byte() {
    // RFC 5682, 3.1.
    let mut chart = opened();
    send(&mut chart, 1, 6);
    chart.run(
        "+0.2
         > A 5001:6001 ack 1
         +0.3
         > A 1:1001 ack 1
         * send 2000
         < A 1:1 ack 1001
         = acked 1000
         > A 6001:7001 ack 1
         > A 7001:8001 ack 1
         < A 1:1 ack 1001 sack 2001:3001
         count spurious_timeouts 1
         count retransmitted_timeout 1",
    );
}
