//! How the window becomes smaller during recovery: RFC 6937.

use crate::chart::Chart;
use crate::rack::{fill_window, opened};

#[test]
fn the_window_is_halved_over_a_round_trip() {
    let mut chart = opened();
    fill_window(&mut chart, 20000);
    // Twelve in flight at the loss: six are left, and what leaves follows what arrives.
    chart.run(
        "+0.1
         < A 1:1 ack 1 sack 1001:2001
         > A 10001:11001 ack 1
         < A 1:1 ack 1 sack 1001:3001
         > A 11001:12001 ack 1
         < A 1:1 ack 1 sack 1001:4001
         > A 1:1001 ack 1
         < A 1:1 ack 1 sack 1001:5001
         < A 1:1 ack 1 sack 1001:6001
         < A 1:1 ack 1 sack 1001:7001
         < A 1:1 ack 1 sack 1001:8001
         > A 12001:13001 ack 1
         < A 1:1 ack 1 sack 1001:9001
         > A 13001:14001 ack 1
         < A 1:1 ack 1 sack 1001:10001
         > A 14001:15001 ack 1
         +0.1
         < A 1:1 ack 12001
         = acked 12000
         > A 15001:16001 ack 1
         > A 16001:17001 ack 1
         > A 17001:18001 ack 1",
    );
}

#[test]
fn after_many_losses_two_leave_for_one_that_arrives() {
    // RFC 6937, 3: the slow start reduction bound.
    let mut chart = opened();
    fill_window(&mut chart, 10000);
    chart.run(
        "+0.1
         < A 1:1 ack 1 sack 7001:8001
         < A 1:1 ack 1 sack 7001:9001
         < A 1:1 ack 1 sack 7001:10001
         > A 1:1001 ack 1
         > A 1001:2001 ack 1
         +0.1
         < A 1:1 ack 1001 sack 7001:10001
         = acked 1000
         > A 2001:3001 ack 1
         > A 3001:4001 ack 1
         +0.1
         < A 1:1 ack 10001
         = acked 9000",
    );
    // Then the window is half of what was in flight.
    chart.call("send 20000").expect("it lives");
    assert_eq!(chart.sent().len(), 5);
}

#[test]
fn duplicates_count_as_delivered_without_reports() {
    let mut chart = Chart::established(|_| {});
    fill_window(&mut chart, 20_000);
    chart.run(
        "< A 1:1 ack 1
         > A 10001:11001 ack 1
         < A 1:1 ack 1
         > A 11001:12001 ack 1
         < A 1:1 ack 1
         > A 1:1001 ack 1
         < A 1:1 ack 1
         < A 1:1 ack 1
         < A 1:1 ack 1
         burst
         < A 1:1 ack 1
         < A 1:1 ack 1
         end
         > A 12001:13001 ack 1
         > A 13001:14001 ack 1",
    );
}
