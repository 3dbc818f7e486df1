//! Probes of the tail: RFC 8985, 7.

use crate::rack::{fill_window, opened, send};

#[test]
fn a_lost_tail_is_found_before_the_timeout() {
    let mut chart = opened();
    send(&mut chart, 1, 3);
    chart.run(
        "+0.1
         < A 1:1 ack 1001
         = acked 1000
         +0.199
         +0.001
         > A 2001:3001 ack 1
         count tlp_probes 1
         +0.1
         < A 1:1 ack 1001 sack 2001:3001
         > A 1001:2001 ack 1
         +0.1
         < A 1:1 ack 3001
         = acked 2000
         count timeouts 0
         count recoveries 1
         count retransmitted_tlp 1
         count retransmitted_fast 1",
    );
}

#[test]
fn a_probe_is_new_data_if_there_are_any() {
    // RFC 8985, 7.3: beyond the congestion window.
    let mut chart = opened();
    fill_window(&mut chart, 11000);
    chart.run(
        "+0.199
         +0.001
         > A 10001:11001 ack 1
         < A 1:1 ack 11001
         = acked 11000
         count tlp_probes 1
         count retransmitted 0",
    );
}

#[test]
fn a_single_segment_is_probed_when_the_timeout_is_due() {
    // RFC 8985, 7.2: its acknowledgement may be delayed.
    let mut chart = opened();
    send(&mut chart, 1, 1);
    chart.run(
        "+0.299
         +0.001
         > A 1:1001 ack 1
         count tlp_probes 1
         +0.299
         +0.001
         > A 1:1001 ack 1
         count timeouts 1
         < A 1:1 ack 1001
         = acked 1000",
    );
}

#[test]
fn a_loss_that_a_probe_mended_makes_the_window_smaller() {
    // RFC 8985, 7.4.2.
    for (duplicate, recoveries) in [("", 1), (" sack 1001:2001", 0)] {
        let mut chart = opened();
        send(&mut chart, 1, 2);
        chart.run(&format!(
            "+0.1
             < A 1:1 ack 1001
             = acked 1000
             +0.25
             > A 1001:2001 ack 1
             * send 1000
             > A 2001:3001 ack 1
             +0.1
             < A 1:1 ack 3001{duplicate}
             = acked 2000
             count tlp_recoveries {recoveries}
             count retransmitted_tlp 1"
        ));
        chart.call("send 20000").expect("it lives");
        let window = if recoveries == 1 { 2 } else { 10 };
        assert_eq!(chart.sent().len(), window, "{duplicate}");
    }
}
