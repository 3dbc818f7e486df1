//! What is lost, by the times at which it was sent: RFC 8985, 6.

use lineside_tcp::Config;
use lineside_tcp::congestion::Fixed;

use crate::chart::Chart;

/// As large as no chart fills it.
static LARGE: Fixed = Fixed(100_000);

/// A connection with selective acknowledgements, whose round trip took 0.1 s.
pub(crate) fn opened() -> Chart {
    opened_with(|_| {})
}

fn opened_with(change: impl FnOnce(&mut Config)) -> Chart {
    let mut chart = Chart::with(|config| {
        config.sack = true;
        change(config);
    });
    chart.run(
        "* listen
         < S 0:1 mss 1000 sackok
         > SA 0:1 ack 1 sackok
         +0.1
         < A 1:1 ack 1
         = opened",
    );
    chart
}

/// The owner sends `count` segments from `start` on, and they leave.
pub(crate) fn send(chart: &mut Chart, start: i64, count: i64) {
    chart.run(&format!(
        "* send {}\n{}",
        count * 1000,
        (0..count)
            .map(|at| format!(
                "> A {}:{} ack 1\n",
                start + at * 1000,
                start + at * 1000 + 1000
            ))
            .collect::<String>()
    ));
}

/// The owner sends more than the initial window, of which the first ten segments leave.
pub(crate) fn fill_window(chart: &mut Chart, bytes: u64) {
    chart.call(&format!("send {bytes}")).expect("it lives");
    assert_eq!(chart.sent().len(), 10);
}

#[test]
fn a_segment_that_is_overtaken_is_waited_for() {
    // A quarter of the round trip: RFC 8985, 6.2, step 4.
    let mut chart = opened();
    send(&mut chart, 1, 4);
    chart.run(
        "+0.1
         < A 1:1 ack 1 sack 1001:2001
         +0.024
         < A 1:1 ack 4001
         = acked 4000
         +10
         count lost 0
         count retransmitted 0",
    );
}

#[test]
fn a_segment_that_stays_away_is_lost_after_a_while() {
    let mut chart = opened();
    send(&mut chart, 1, 4);
    chart.run(
        "+0.1
         < A 1:1 ack 1 sack 1001:2001
         +0.024
         +0.001
         > A 1:1001 ack 1
         count reordering_timeouts 1
         count recoveries 1
         +0.1
         < A 1:1 ack 4001
         = acked 4000",
    );
}

#[test]
fn three_segments_show_a_loss_unless_the_path_reorders() {
    let mut chart = opened_with(|config| config.congestion = &LARGE);
    send(&mut chart, 1, 5);
    chart.run(
        "+0.1
         < A 1:1 ack 1 sack 1001:4001
         > A 1:1001 ack 1
         +0.1
         < A 1:1 ack 5001
         = acked 5000",
    );
    // Once one was overtaken, their number says nothing.
    send(&mut chart, 5001, 3);
    chart.run(
        "+0.1
         < A 1:1 ack 5001 sack 6001:7001
         < A 1:1 ack 8001
         = acked 3000",
    );
    send(&mut chart, 8001, 5);
    chart.run(
        "+0.1
         < A 1:1 ack 8001 sack 9001:13001
         +0.024
         +0.001
         > A 8001:9001 ack 1
         < A 1:1 ack 13001
         = acked 5000
         count reordering_timeouts 1",
    );
}

#[test]
fn a_retransmission_that_is_lost_leaves_again() {
    // RFC 8985, 3.2: by what was sent after it, and without a timeout.
    let mut chart = opened();
    fill_window(&mut chart, 12000);
    chart.run(
        "+0.1
         < A 1:1 ack 1 sack 1001:5001
         > A 1:1001 ack 1
         +0.01
         < A 1:1 ack 1 sack 1001:8001
         > A 10001:11001 ack 1
         > A 11001:12001 ack 1
         +0.1
         < A 1:1 ack 1 sack 1001:11001
         > A 1:1001 ack 1
         +0.1
         < A 1:1 ack 12001
         = acked 12000
         count timeouts 0
         count recoveries 1
         count retransmitted_fast 2",
    );
}

/// Of five segments the first is taken for lost after a while, and arrives; the last one is still
/// in flight. Whether it arrives twice is reported.
fn overtake(chart: &mut Chart, una: i64, wait_s: f64, is_reported: bool) {
    send(chart, una, 5);
    let [second, third, last] = [1, 2, 4].map(|at| una + at * 1000);
    if una > 1 {
        chart.run(&format!("< A 1:1 ack {una}\n= acked 1000"));
    }
    chart.run(&format!(
        "+0.1
         < A 1:1 ack {una} sack {second}:{third}
         +{}
         +0.001
         > A {una}:{second} ack 1
         < A 1:1 ack {last}
         = acked 4000",
        wait_s - 0.001,
    ));
    if is_reported {
        chart.run(&format!("< A 1:1 ack {last} sack {una}:{second}"));
    }
}

#[test]
fn the_reordering_window_grows_with_each_needless_segment() {
    // RFC 8985, 6.2, step 4: by a quarter of the round trip for each D-SACK.
    let mut chart = opened_with(|config| config.congestion = &LARGE);
    for round in 0..4 {
        overtake(
            &mut chart,
            1 + round * 5000,
            0.025 * (round + 1) as f64,
            true,
        );
    }
}

#[test]
fn the_reordering_window_is_small_again_after_a_while() {
    // RFC 8985, 6.2, step 4: after sixteen recoveries without a D-SACK.
    let mut chart = opened_with(|config| config.congestion = &LARGE);
    for round in 0..18 {
        let wait_s = if (1..=16).contains(&round) {
            0.05
        } else {
            0.025
        };
        overtake(&mut chart, 1 + round * 5000, wait_s, round == 0);
    }
}

#[test]
fn a_retransmission_that_arrives_shows_what_else_is_lost() {
    let mut chart = opened();
    send(&mut chart, 1, 5);
    chart.run(
        "+0.1
         < A 1:1 ack 1 sack 1001:4001
         > A 1:1001 ack 1
         +0.1
         < A 1:1 ack 4001
         = acked 4000
         > A 4001:5001 ack 1
         count timeouts 0
         count tlp_probes 0",
    );
}

#[test]
fn a_late_original_is_not_taken_for_its_retransmission() {
    // RFC 8985, 6.2, step 2: it came sooner than any other, or its timestamp says so. The last
    // segment would else be lost, as it was sent before the retransmission.
    let mut chart = opened();
    send(&mut chart, 1, 5);
    chart.run(
        "+0.1
         < A 1:1 ack 1 sack 1001:4001
         > A 1:1001 ack 1
         +0.01
         < A 1:1 ack 4001
         = acked 4000
         +0.05
         count lost 1",
    );
    let mut chart = Chart::with(|config| (config.sack, config.timestamps) = (true, true));
    chart.run(
        "* listen
         < S 0:1 mss 1012 sackok ts 1:0
         > SA 0:1 ack 1 sackok ts 0:1
         +0.1
         < A 1:1 ack 1 ts 2:0
         = opened",
    );
    send(&mut chart, 1, 5);
    chart.run(
        "+0.1
         < A 1:1 ack 1 sack 1001:4001 ts 3:100
         > A 1:1001 ack 1 ts 200:3
         +0.1
         < A 1:1 ack 4001 ts 3:100
         = acked 4000
         count lost 1",
    );
}

#[test]
fn a_timeout_spares_what_was_sent_lately() {
    // RFC 8985, 6.3.
    let mut chart = opened();
    send(&mut chart, 1, 2);
    chart.run(
        "+0.1
         < A 1:1 ack 1001
         = acked 1000
         +0.25
         > A 1001:2001 ack 1
         +0.2",
    );
    send(&mut chart, 2001, 1);
    chart.run(
        "+0.05
         > A 1001:2001 ack 1
         count timeouts 1
         < A 1:1 ack 2001
         = acked 1000
         +0.05
         < A 1:1 ack 3001
         = acked 1000
         count retransmitted_timeout 1",
    );
}

#[test]
fn what_the_receiver_dropped_again_leaves_again() {
    // RFC 2018, 8: it reported what it does not acknowledge.
    let mut chart = opened();
    send(&mut chart, 1, 4);
    chart.run(
        "+0.1
         < A 1:1 ack 1 sack 1001:4001
         > A 1:1001 ack 1
         +0.1
         < A 1:1 ack 1001
         = acked 1000
         +0.299
         +0.001
         > A 1001:2001 ack 1
         < A 1:1 ack 2001
         = acked 1000
         > A 2001:3001 ack 1
         > A 3001:4001 ack 1",
    );
}
