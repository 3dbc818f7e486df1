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
    // RFC 6937, 3: the slow start reduction bound, of an acknowledgement that advances and finds
    // nothing else lost (RFC 9937, 6.2).
    let mut chart = opened();
    fill_window(&mut chart, 10000);
    chart.run(
        "+0.1
         < A 1:1 ack 1 sack 7001:8001
         < A 1:1 ack 1 sack 7001:9001
         < A 1:1 ack 1 sack 7001:10001
         > A 1:1001 ack 1
         +0.1
         < A 1:1 ack 1001 sack 7001:10001
         = acked 1000
         > A 1001:2001 ack 1
         > A 2001:3001 ack 1
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

#[test]
fn a_retransmission_that_is_lost_makes_the_window_smaller_again() {
    // RFC 5681, 4.3: the loss of a retransmission is another indication of congestion.
    let mut chart = opened();
    fill_window(&mut chart, 40_000);
    chart.pass(100_000_000);
    for end in 2..=10 {
        chart.give_line(&format!("A 1:1 ack 1 sack 1001:{end}001"));
    }
    let sent = chart.sent();
    assert!(
        sent.iter().any(|segment| segment.contains(" 1:1001 ")),
        "{sent:?}"
    );
    // What left behind it arrives: it was lost again, and leaves a third time.
    chart.pass(100_000_000);
    for end in 11..=14 {
        chart.give_line(&format!("A 1:1 ack 1 sack 1001:{end}001"));
    }
    let sent = chart.sent();
    assert!(
        sent.iter().any(|segment| segment.contains(" 1:1001 ")),
        "{sent:?}"
    );
    assert_eq!(chart.stack.counters().recoveries, 1);
    assert_eq!(chart.stack.counters().reduced_again, 1);
    // Ten segments, five, two.
    chart.pass(100_000_000);
    chart.give_line("A 1:1 ack 20001");
    chart.heard.events.clear();
    assert!(chart.sent().len() <= 3);
}
