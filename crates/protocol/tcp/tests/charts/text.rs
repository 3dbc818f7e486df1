//! Data that come, in whatever order: RFC 9293, 3.10.7.4, seventh; RFC 2018; RFC 7323, 5.

use lineside_tcp::Config;

use crate::chart::Chart;

pub(crate) fn with_options(chart: &mut Chart) {
    chart.run(
        "* listen
         < S 0:1 mss 1000 sackok ts 100:0
         > SA 0:1 ack 1 sackok ts 0:100
         < A 1:1 ack 1 ts 101:0
         = opened",
    );
}

pub(crate) fn options(config: &mut Config) {
    (config.timestamps, config.sack) = (true, true);
}

#[test]
fn every_second_segment_is_acknowledged() {
    let mut chart = Chart::established(|_| {});
    chart.run(
        "< A 1:1001 ack 1
         = data 1000
         < A 1001:2001 ack 1
         = data 1000
         > A 1:1 ack 2001
         < A 2001:3001 ack 1
         = data 1000
         +0.039
         +0.001
         > A 1:1 ack 3001
         < A 3001:4001 ack 1
         = data 1000
         * send 10
         > PA 1:11 ack 4001
         +0.1",
    );
}

#[test]
fn what_comes_out_of_order_is_held() {
    let mut chart = Chart::with(options);
    with_options(&mut chart);
    chart.run(
        "< A 101:201 ack 1 ts 102:0
         > A 1:1 ack 1 ts 0:101 sack 101:201
         < A 301:401 ack 1 ts 102:0
         > A 1:1 ack 1 sack 301:401 sack 101:201
         < A 201:251 ack 1 ts 102:0
         > A 1:1 ack 1 sack 101:251 sack 301:401
         < A 51:301 ack 1 ts 102:0
         > A 1:1 ack 1 sack 101:251 sack 51:401
         < FA 401:402 ack 1 ts 102:0
         > A 1:1 ack 1 sack 51:401
         < A 1:61 ack 1 ts 103:0
         = data 60
         = data 40
         = data 100
         = data 50
         = data 50
         = data 100
         = ended
         > A 1:1 ack 402 ts 0:103 sack 51:61
         count bytes_held 0
         count bytes_duplicate 160",
    );
}

#[test]
fn what_overlaps_is_taken_once() {
    let mut chart = Chart::established(|_| {});
    chart.run(
        "< A 1:101 ack 1
         = data 100
         < A 51:151 ack 1
         = data 50
         > A 1:1 ack 151
         < A 1:151 ack 1
         > A 1:1 ack 151
         < A 101:21000 ack 1
         = data 20000
         > A 1:1 ack 20151
         count bytes_refused 849",
    );
}

#[test]
fn what_lies_outside_the_window_is_answered() {
    let mut chart = Chart::established(|_| {});
    chart.run(
        "< A 20001:20002 ack 1
         > A 1:1 ack 1
         < A 30000:30000 ack 1
         > A 1:1 ack 1
         < A -10:-5 ack 1
         > A 1:1 ack 1
         < . 1:11
         < A 20000:20010 ack 1
         > A 1:1 ack 1
         count unacceptable 3
         count without_ack 1
         count bytes_held 1",
    );
}

#[test]
fn old_duplicates_are_recognised_by_their_timestamps() {
    let mut chart = Chart::with(options);
    with_options(&mut chart);
    chart.run(
        "< A 1:101 ack 1 ts 200:0
         = data 100
         +0.05
         > A 1:1 ack 101 ts 40:200
         < A 101:201 ack 1 ts 199:0
         > A 1:1 ack 101 ts 50:200
         count paws 1
         < A 101:201 ack 1
         count without_timestamp 1
         < A 101:201 ack 1 ts 200:0
         = data 100
         +0.05
         > A 1:1 ack 201
         < R 201:201
         = closed reset",
    );
}

#[test]
fn a_timestamp_of_last_month_says_nothing() {
    // RFC 7323, 5.5: after 24 days the clock may have gone round.
    let mut chart = Chart::with(options);
    with_options(&mut chart);
    for (days, is_taken) in [(23, false), (25, true), (60, true)] {
        let mut chart = Chart::with(options);
        with_options(&mut chart);
        chart.run(&format!("+{}", days * 86_400));
        chart.give_line("A 1:11 ack 1 ts 50:0");
        let paws = chart.stack.counters().paws;
        assert_eq!(paws == 0, is_taken, "{days} days");
    }
}

#[test]
fn the_earliest_segment_without_an_answer_is_echoed() {
    // RFC 7323, 4.3.
    let mut chart = Chart::with(options);
    with_options(&mut chart);
    chart.run(
        "< A 1:1001 ack 1 ts 200:0
         = data 1000
         < A 1001:2001 ack 1 ts 210:0
         = data 1000
         > A 1:1 ack 2001 ts 0:200
         < A 3001:4001 ack 1 ts 220:0
         > A 1:1 ack 2001 ts 0:200 sack 3001:4001",
    );
}

#[test]
fn urgent_data_are_data() {
    let mut chart = Chart::established(|_| {});
    chart.run(
        "< AU 1:11 ack 1
         = data 10
         +0.05
         > A 1:1 ack 11",
    );
}

#[test]
fn a_fin_beyond_a_gap_waits_for_it() {
    let mut chart = Chart::established(|_| {});
    chart.run(
        "< FA 11:22 ack 1
         > A 1:1 ack 1
         < A 1:11 ack 1
         = data 10
         = data 10
         = ended
         > A 1:1 ack 22",
    );
}

#[test]
fn without_a_larger_record_what_is_ahead_is_refused() {
    let mut chart = Chart::established(|config| config.active_max = 1);
    chart.run(
        "* send 1
         > PA 1:2 ack 1
         peer 2001",
    );
    chart.run(
        "< S 0:1
         count without_room 1",
    );
}
