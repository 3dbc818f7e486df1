//! Limited transmit: RFC 3042.

use crate::chart::Chart;
use crate::rack::{fill_window, opened};

#[test]
fn the_first_two_duplicates_let_new_segments_leave() {
    let mut chart = Chart::established(|_| {});
    fill_window(&mut chart, 13000);
    chart.run(
        "< A 1:1 ack 1
         > A 10001:11001 ack 1
         < A 1:1 ack 1
         > A 11001:12001 ack 1
         < A 1:1 ack 1
         > A 1:1001 ack 1",
    );
}

#[test]
fn a_duplicate_without_news_lets_nothing_leave() {
    let mut chart = opened();
    fill_window(&mut chart, 12000);
    chart.run(
        "+0.1
         < A 1:1 ack 1
         < A 1:1 ack 1 sack 1001:2001
         > A 10001:11001 ack 1
         < A 1:1 ack 1 sack 1001:2001",
    );
}
