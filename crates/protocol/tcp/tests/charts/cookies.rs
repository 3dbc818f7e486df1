//! Connections that begin by a cookie: RFC 4987, 3.6.

use lineside_tcp::Config;

use crate::chart::Chart;

/// Every SYN is one too many.
fn flooded(config: &mut Config) {
    (config.timestamps, config.sack) = (true, true);
    config.receive_window_bytes = 1 << 20;
    config.half_open_max = 0;
}

#[test]
fn a_cookie_keeps_the_options_in_its_timestamp() {
    let mut chart = Chart::with(flooded);
    chart.run(
        "* listen
         < S 0:1 mss 1400 scale 7 sackok ts 5:0
         > SA 0:1 ack 1 win 65535 mss 1460 scale 5 sackok ts -9:5
         count cookies_sent 1",
    );
    chart.expect_empty();
    chart.run(
        "+0.1
         < A 1:11 ack 1 win 100 ts 6:-9
         = opened
         = data 10
         count cookies_taken 1
         * send 3000
         > A 1:1349 ack 11 win 32768 ts 100:6
         > A 1349:2697 ack 11
         < A 21:31 ack 2697 ts 7:100
         = acked 2696
         > A 2697:2697 ack 11 sack 21:31
         > A 2697:3001 ack 11 sack 21:31",
    );
}

#[test]
fn a_cookie_without_timestamps_keeps_the_segment_size() {
    let mut chart = Chart::with(flooded);
    chart.run(
        "* listen
         < S 0:1 mss 1400 scale 7 sackok
         > SA 0:1 ack 1 mss 1460
         < A 1:1 ack 1 win 5000
         = opened
         * send 3000
         > A 1:1361 ack 1 win 65535
         > A 1361:2721 ack 1
         < A 11:21 ack 1
         > A 2721:2721 ack 1",
    );
}

#[test]
fn a_wrong_or_old_cookie_opens_nothing() {
    let mut chart = Chart::with(flooded);
    chart.run(
        "* listen
         < A 1:1 ack 1
         > R 1:1
         count without_connection 1
         < S 0:1
         > SA 0:1 ack 1 mss 1460
         < A 1:1 ack 2
         > R 2:2
         < A 2:2 ack 1
         > R 1:1
         peer 2001
         < A 1:1 ack 1
         > R 1:1
         peer 2000
         count cookies_failed 3
         +110
         < A 1:1 ack 1
         > R 1:1
         count cookies_failed 4
         +100
         < A 1:1 ack 1
         > R 1:1
         count without_connection 2",
    );
    chart.expect_empty();
}

#[test]
fn half_open_connections_make_room_when_they_complete() {
    let mut chart = Chart::with(|config| (config.half_open_max, config.syn_retries_max) = (1, 0));
    chart.run(
        "* listen
         < S 0:1
         > SA 0:1 ack 1
         peer 2001
         < S 0:1
         > SA 0:1 ack 1
         count cookies_sent 1
         peer 2000
         < A 1:1 ack 1
         = opened
         peer 2002
         < S 0:1
         > SA 0:1 ack 1
         count cookies_sent 1
         < R 1:1
         peer 2003
         < S 0:1
         > SA 0:1 ack 1
         count cookies_sent 1
         +300
         count cookies_sent 1
         peer 2004
         < S 0:1
         > SA 0:1 ack 1
         count cookies_sent 1",
    );
}
