//! What arrives twice: reported (RFC 2883, 4) and understood (RFC 3708).

use crate::chart::Chart;
use crate::rack::{fill_window, opened};
use crate::text::{options, with_options};

#[test]
fn a_segment_that_comes_twice_is_reported() {
    // RFC 2883, 4.1.
    let mut chart = opened();
    chart.run(
        "< A 1:501 ack 1
         = data 500
         < A 501:1001 ack 1
         = data 500
         > A 1:1 ack 1001
         < A 501:1001 ack 1
         > A 1:1 ack 1001 sack 501:1001
         < A 1:501 ack 1
         > A 1:1 ack 1001 sack 1:501
         count dsack_sent 2",
    );
}

#[test]
fn a_duplicate_is_reported_before_what_is_out_of_order() {
    // RFC 2883, 4.1, the second and third examples.
    let mut chart = opened();
    chart.run(
        "< A 1:1001 ack 1
         = data 1000
         < A 2001:3001 ack 1
         > A 1:1 ack 1001 sack 2001:3001
         < A 1:1001 ack 1
         > A 1:1 ack 1001 sack 1:1001 sack 2001:3001
         < A 2001:3001 ack 1
         > A 1:1 ack 1001 sack 2001:3001 sack 2001:3001
         < A 4001:5001 ack 1
         > A 1:1 ack 1001 sack 4001:5001 sack 2001:3001
         < A 2001:3001 ack 1
         > A 1:1 ack 1001 sack 2001:3001 sack 2001:3001 sack 4001:5001",
    );
}

#[test]
fn the_part_that_came_twice_is_reported() {
    // RFC 2883, 4.2.
    let mut chart = opened();
    chart.run(
        "< A 1:1001 ack 1
         = data 1000
         < A 1501:2001 ack 1
         > A 1:1 ack 1001 sack 1501:2001
         < A 501:1201 ack 1
         = data 200
         > A 1:1 ack 1201 sack 501:1001 sack 1501:2001
         < A 1301:2501 ack 1
         > A 1:1 ack 1201 sack 1501:2001 sack 1301:2501",
    );
}

#[test]
fn a_duplicate_that_its_timestamp_shows_to_be_old_is_reported() {
    let mut chart = Chart::with(options);
    with_options(&mut chart);
    chart.run(
        "< A 1:101 ack 1 ts 200:0
         = data 100
         < A 1:101 ack 1 ts 150:0
         > A 1:1 ack 101 sack 1:101
         count paws 1
         count dsack_sent 1",
    );
}

#[test]
fn duplicates_are_not_reported_to_who_did_not_agree() {
    let mut chart = Chart::established(|_| {});
    chart.run(
        "< A 1:501 ack 1
         = data 500
         < A 1:501 ack 1
         > A 1:1 ack 501
         count dsack_sent 0",
    );
}

/// A segment is late, and taken for lost; the window is half of what it was.
fn halved() -> Chart {
    let mut chart = opened();
    fill_window(&mut chart, 14000);
    chart.run(
        "+0.1
         < A 1:1 ack 1 sack 1001:4001
         > A 1:1001 ack 1
         +0.01
         < A 1:1 ack 4001
         = acked 4000
         > A 10001:11001 ack 1",
    );
    chart
}

#[test]
fn a_window_that_was_halved_for_nothing_is_given_back() {
    let mut chart = halved();
    chart.run(
        "+0.01
         < A 1:1 ack 4001 sack 1:1001
         > A 11001:12001 ack 1
         > A 12001:13001 ack 1
         > A 13001:14001 ack 1
         count dsack_received 1
         count spurious 1
         count undone_dsack 1",
    );
}

#[test]
fn reports_of_what_was_not_sent_again_change_nothing() {
    let mut chart = halved();
    chart.run(
        "+0.01
         < A 1:1 ack 4001 sack 1:501
         < A 1:1 ack 4001 sack 20001:20002
         < A 1:1 ack 4001 sack -70000:-69000
         < A 1:1 ack 4001 sack -999:1
         count dsack_received 2
         count undone_dsack 0",
    );
}

#[test]
fn a_report_of_what_is_out_of_order_is_understood() {
    // RFC 2883, 4.1: the second block encloses the first.
    let mut chart = opened();
    fill_window(&mut chart, 10_000);
    chart.run(
        "+0.1
         < A 1:1 ack 1 sack 1001:2001
         < A 1:1 ack 1 sack 1001:2001 sack 1001:3001
         count dsack_received 1
         < A 1:1 ack 1 sack 4001:5001 sack 1001:3001
         > A 1:1001 ack 1
         count dsack_received 1",
    );
}
